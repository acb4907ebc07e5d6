/*
 * modules.c
 *	  The files of sentence-transformers: modules.json and each module's config.json, prompts,
 *	  and the transformer's own settings.
 *
 * Modules are Transformer, Pooling, then any of Dense, LayerNorm behind a Dense, and Normalize
 * at the end; Dropout does nothing.  A module of any other type is refused by its name.
 */
#include "reader.h"

#include <stdio.h>
#include <string.h>

#define LAYER_NORM_EPSILON	1e-5	/* torch.nn.LayerNorm's own */

/* ---- config_sentence_transformers.json ---- */

static struct encoder_prompt *
find_prompt(struct encoder *e, const char *name)
{
	for (uint32_t i = 0; i < e->prompts_count; i++)
		if (strcmp(e->prompts[i].name, name) == 0)
			return &e->prompts[i];
	return NULL;
}

static bool
put_prompt(struct folder *f, const char *name, const char *text)
{
	struct encoder *e = f->encoder;
	struct encoder_prompt *prompt = find_prompt(e, name);

	if (prompt == NULL)
	{
		if (e->prompts_count == ENCODER_PROMPTS_MAX)
			return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the model has more than %d prompts", ENCODER_PROMPTS_MAX);
		prompt = &e->prompts[e->prompts_count++];
	}
	prompt->name = folder_text(f, "%s", name);
	prompt->text = folder_text(f, "%s", text);
	return prompt->name != NULL && prompt->text != NULL;
}

static bool
read_prompts(struct folder *f, const struct object *config)
{
	json_t	   *prompts = object_get(config, "prompts");
	const char *name, *chosen;
	json_t	   *text;

	if (prompts != NULL && !json_is_object(prompts))
		return object_malformed(config, "prompts", "an object of texts");
	json_object_foreach(prompts, name, text)
	{
		if (!json_is_string(text) && !json_is_null(text))
			return object_malformed(config, "prompts", "an object of texts");
		if (strlen(name) > FOLDER_TEXT_MAX || json_string_length(text) > FOLDER_TEXT_MAX)
			return status_set(f->status, INFER_ERROR_UNSUPPORTED, "a prompt of %s is longer than %d bytes", config->where, FOLDER_TEXT_MAX);
		if (!put_prompt(f, name, json_is_null(text) ? "" : json_string_value(text)))
			return false;
	}
	if (!object_text_or(config, "default_prompt_name", NULL, &chosen))
		return false;
	if (chosen != NULL && (f->encoder->prompt_default = folder_text(f, "%s", chosen)) == NULL)
		return false;
	return true;
}

/* The options' prompts join the folder's, or take their place. */
static bool
settle_prompts(struct folder *f)
{
	struct encoder *e = f->encoder;
	const struct folder_options *o = &f->options;

	for (uint32_t i = 0; i < o->prompts_count; i++)
		if (!put_prompt(f, o->prompts[i].name, o->prompts[i].text))
			return false;
	if (o->prompt_default_given)
		e->prompt_default = o->prompt_default;
	if (e->prompt_default == NULL || find_prompt(e, e->prompt_default) != NULL)
		return true;
	if (o->prompt_default_given)
		return status_set(f->status, INFER_ERROR_INPUT, "the option default_prompt names \"%.200s\", but the model has no such prompt",
						  e->prompt_default);
	return status_set(f->status, INFER_ERROR_MODEL, "the default prompt \"%.200s\" of config_sentence_transformers.json is not among its prompts",
					  e->prompt_default);
}

static bool
read_kind(struct folder *f, const struct object *config)
{
	const char *kind, *activation;

	if (!object_text_or(config, "model_type", "SentenceTransformer", &kind) ||
		!object_text_or(config, "activation_fn", NULL, &activation))
		return false;
	f->cross_encoder = strcmp(kind, "CrossEncoder") == 0;
	if (!f->cross_encoder)
		return strcmp(kind, "SentenceTransformer") == 0 || object_unsupported(config, "model_type");
	if (activation == NULL)
		return true;
	f->cross_activation = folder_torch_activation(activation);
	return f->cross_activation == ENCODER_SIGMOID || f->cross_activation == ENCODER_IDENTITY ||
		object_unsupported(config, "activation_fn");
}

/* ---- the transformer's own settings ---- */

static bool
check_task(struct folder *f, const struct object *config)
{
	const char *task, *wanted = f->cross_encoder ? "sequence-classification" : "feature-extraction";
	json_t	   *ways = object_get(config, "modality_config"), *text = json_object_get(ways, "text");
	const char *method = json_string_value(json_object_get(text, "method"));
	const char *output = json_string_value(json_object_get(text, "method_output_name"));

	if (!object_text_or(config, "transformer_task", wanted, &task))
		return false;
	if (strcmp(task, wanted) != 0)
		return object_unsupported(config, "transformer_task");
	if (ways != NULL && (method == NULL || strcmp(method, "forward") != 0 || output == NULL ||
						 strcmp(output, f->cross_encoder ? "logits" : "last_hidden_state") != 0))
		return object_unsupported(config, "modality_config");
	return true;
}

static bool
read_settings(struct folder *f, const struct object *config)
{
	static const char *const known[] = {
		"max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name", "unpad_inputs", NULL
	};

	return object_known(config, known, NULL) && check_task(f, config) &&
		object_bool_or(config, "do_lower_case", false, &f->lower_case) &&
		object_whole_or(config, "max_seq_length", 1, INT32_MAX, 0, &f->sentence_length);
}

static bool
read_file(struct folder *f, const char *name, bool (*read) (struct folder *, const struct object *))
{
	const struct model_file *file = model_files_find(f->files, name);
	struct object object = {NULL, name, f->status};
	bool		fine;

	if (file == NULL)
		return true;
	object.json = folder_json(file, false, f->status);
	fine = object.json != NULL && read(f, &object);
	json_decref(object.json);
	return fine;
}

bool
folder_sentence_files(struct folder *f)
{
	static const char *const names[] = {
		"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
		"sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
		"sentence_xlnet_config.json", NULL
	};
	static const char general[] = "config_sentence_transformers.json";

	f->modules = model_files_find(f->files, "modules.json") != NULL;
	if (!read_file(f, general, read_kind) || !read_file(f, general, read_prompts) || !settle_prompts(f))
		return false;
	for (int i = 0; f->modules && names[i] != NULL && f->sentence_file == NULL; i++)
		if (model_files_find(f->files, names[i]) != NULL)
			f->sentence_file = names[i];
	return f->sentence_file == NULL || read_file(f, f->sentence_file, read_settings);
}

/* ---- modules ---- */

struct module
{
	char		file[INFER_NAME_MAX];	/* its config.json */
	char		folder[INFER_NAME_MAX];	/* with its '/' */
	const char *type;				/* the class's own name */
};

struct chain						/* the modules so far */
{
	struct folder *folder;
	int64_t		width;				/* of the vector that the next one gets */
	bool		transformer;
	bool		pooling;
	bool		normalized;
};

static bool
module_refused(struct folder *f, const char *type, const char *why)
{
	return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the module \"%.200s\" of modules.json is not supported%s", type, why);
}

static bool
add_mode(struct folder *f, const struct object *config, const char *mode, uint32_t *count)
{
	struct encoder *e = f->encoder;
	enum encoder_pooling pooling;

	if (!folder_pooling_parse(mode, &pooling))
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the pooling mode \"%.200s\" of %s is not supported", mode, config->where);
	if (*count == ENCODER_POOLINGS_MAX)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "%s names more than %d pooling modes", config->where, ENCODER_POOLINGS_MAX);
	if ((*count)++ == 0)
		e->pooling = pooling;
	else
		e->more[e->more_count++] = pooling;
	return true;
}

/* Flags, in the order in which the reference puts their vectors. */
static bool
read_flagged_modes(struct folder *f, const struct object *config, uint32_t *count)
{
	static const struct
	{
		const char *key;
		const char *mode;
	}			old[] = {
		{"pooling_mode_cls_token", "cls"}, {"pooling_mode_max_tokens", "max"}, {"pooling_mode_mean_tokens", "mean"},
		{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"}, {"pooling_mode_weightedmean_tokens", "weightedmean"},
		{"pooling_mode_lasttoken", "lasttoken"}
	};

	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
	{
		bool		on;

		if (!object_bool_or(config, old[i].key, false, &on) || (on && !add_mode(f, config, old[i].mode, count)))
			return false;
	}
	return true;
}

/* One mode, or several whose vectors lie one behind the other. */
static bool
read_modes(struct folder *f, const struct object *config, uint32_t *count)
{
	json_t	   *modes = object_get(config, "pooling_mode");

	*count = f->encoder->more_count = 0;
	if (modes == NULL)
	{
		if (!read_flagged_modes(f, config, count))
			return false;
	}
	else if (json_is_string(modes))
		return add_mode(f, config, json_string_value(modes), count);
	for (size_t i = 0; i < json_array_size(modes); i++)
	{
		json_t	   *mode = json_array_get(modes, i);

		if (!json_is_string(mode))
			return object_malformed(config, "pooling_mode", "a mode or a list of modes");
		if (!add_mode(f, config, json_string_value(mode), count))
			return false;
	}
	return *count > 0 || status_set(f->status, INFER_ERROR_MODEL, "%s names no pooling mode", config->where);
}

static bool
read_pooling(struct chain *chain, const struct object *config)
{
	static const char *const known[] = {
		"word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt", "pooling_mode_cls_token",
		"pooling_mode_max_tokens", "pooling_mode_mean_tokens", "pooling_mode_mean_sqrt_len_tokens",
		"pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken", NULL
	};
	struct folder *f = chain->folder;
	int64_t		width;
	uint32_t	modes;
	bool		with_prompt;

	if (!object_known(config, known, NULL) ||
		!object_whole_or(config, "word_embedding_dimension", 1, FOLDER_SIZE_MAX, chain->width, &width) ||
		!object_whole_or(config, "embedding_dimension", 1, FOLDER_SIZE_MAX, width, &width) ||
		!object_bool_or(config, "include_prompt", true, &with_prompt) || !read_modes(f, config, &modes))
		return false;
	if (width != chain->width)
		return status_set(f->status, INFER_ERROR_MODEL, "%s is for vectors of %lld numbers, but the model's have %lld", config->where,
						  (long long) width, (long long) chain->width);
	for (uint32_t i = 0; i < f->encoder->prompts_count; i++)
		f->encoder->prompt_excluded |= !with_prompt && f->encoder->prompts[i].text[0] != '\0';
	chain->width *= modes;
	return true;
}

/* The weights of a module, in its own folder. */
static bool
read_own_weights(struct chain *chain, const struct module *module, struct weights *weights)
{
	struct folder *f = chain->folder;

	return weights_read(f->files, module->folder, f->memory, weights, f->status);
}

static bool
read_dense(struct chain *chain, const struct object *config, const struct module *module)
{
	static const char *const known[] = {
		"in_features", "out_features", "bias", "activation_function", "module_input_name", "module_output_name", NULL
	};
	struct folder *f = chain->folder;
	struct encoder *e = f->encoder;
	struct encoder_dense *dense = &e->denses[e->denses_count];
	struct weights weights;
	const char *activation, *input, *output;
	int64_t		inputs, outputs;
	bool		bias;

	if (e->denses_count == ENCODER_DENSES_MAX)
		return module_refused(f, module->type, ": there are too many");
	if (!object_known(config, known, NULL) || !object_whole(config, "in_features", 1, FOLDER_SIZE_MAX, &inputs) ||
		!object_whole(config, "out_features", 1, FOLDER_SIZE_MAX, &outputs) || !object_bool_or(config, "bias", true, &bias) ||
		!object_text_or(config, "activation_function", "torch.nn.modules.activation.Tanh", &activation) ||
		!object_text_or(config, "module_input_name", "sentence_embedding", &input) ||
		!object_text_or(config, "module_output_name", input, &output))
		return false;
	if (strcmp(input, "sentence_embedding") != 0)
		return object_unsupported(config, "module_input_name");
	if (strcmp(output, "sentence_embedding") != 0)
		return object_unsupported(config, "module_output_name");
	dense->activation = folder_torch_activation(activation);
	if (dense->activation == 0)
		return object_unsupported(config, "activation_function");
	if (inputs != chain->width)
		return status_set(f->status, INFER_ERROR_MODEL, "%s is for vectors of %lld numbers, but the one before gives %lld", config->where,
						  (long long) inputs, (long long) chain->width);
	chain->width = outputs;
	e->denses_count++;
	return read_own_weights(chain, module, &weights) &&
		folder_linear(f, &weights, "linear", outputs, inputs, bias, &dense->linear);
}

static bool
read_layer_norm(struct chain *chain, const struct object *config, const struct module *module)
{
	struct folder *f = chain->folder;
	struct encoder *e = f->encoder;
	struct encoder_dense *dense = e->denses_count == 0 ? NULL : &e->denses[e->denses_count - 1];
	struct weights weights;
	int64_t		width;

	if (dense == NULL || dense->norm.weight.storage != ENCODER_ABSENT)
		return module_refused(f, module->type, " but behind a Dense");
	if (!object_whole(config, "dimension", 1, FOLDER_SIZE_MAX, &width))
		return false;
	if (width != chain->width)
		return object_malformed(config, "dimension", "the width of the vector before it");
	dense->norm_epsilon = LAYER_NORM_EPSILON;
	return read_own_weights(chain, module, &weights) && folder_norm(f, &weights, "norm", width, true, &dense->norm);
}

static bool
read_configured(struct chain *chain, const struct module *module)
{
	struct folder *f = chain->folder;
	const struct model_file *file = model_files_find(f->files, module->file);
	struct object config = {NULL, module->file, f->status};
	bool		fine;

	if (file == NULL)
		return status_set(f->status, INFER_ERROR_MODEL, "the model has no file \"%s\", which a module of modules.json needs", module->file);
	config.json = folder_json(file, false, f->status);
	if (config.json == NULL)
		return false;
	fine = strcmp(module->type, "Pooling") == 0 ? read_pooling(chain, &config) :
		strcmp(module->type, "Dense") == 0 ? read_dense(chain, &config, module) : read_layer_norm(chain, &config, module);
	json_decref(config.json);
	return fine;
}

static bool
read_module(struct chain *chain, const struct module *module)
{
	struct folder *f = chain->folder;
	bool		transformer = strcmp(module->type, "Transformer") == 0, pooling = strcmp(module->type, "Pooling") == 0;

	if (transformer != !chain->transformer || (!transformer && pooling != !chain->pooling))
		return module_refused(f, module->type, " at this place");
	if (transformer)
	{
		chain->transformer = true;
		return module->folder[0] == '\0' || folder_shows(f->files, module->folder) ||
			module_refused(f, module->type, " in a folder of its own");
	}
	chain->pooling = true;
	if (strcmp(module->type, "Dropout") == 0)
		return true;
	if (strcmp(module->type, "Normalize") == 0)
	{
		chain->normalized = f->encoder->normalize = true;
		return true;
	}
	if (chain->normalized)
		return module_refused(f, module->type, " behind Normalize");
	if (pooling || strcmp(module->type, "Dense") == 0 || strcmp(module->type, "LayerNorm") == 0)
		return read_configured(chain, module);
	return module_refused(f, module->type, "");
}

/* A folder below the model's own, or that itself: no part of the path is empty, "." or "..". */
static bool
is_below(const char *path)
{
	for (const char *part = path; *path != '\0'; part = strchr(part, '/') + 1)
	{
		size_t		length = strcspn(part, "/");

		if (length == 0 || (length <= 2 && strspn(part, ".") == length))
			return false;
		if (part[length] == '\0')
			break;
	}
	return true;
}

/* The class's own name: the modules of all versions, wherever they lay in them. */
static bool
parse_module(struct folder *f, json_t *json, struct module *module)
{
	static const char package[] = "sentence_transformers.";
	struct object object = {json, "a module of modules.json", f->status};
	const char *type, *path;

	if (!json_is_object(json))
		return status_set(f->status, INFER_ERROR_MODEL, "\"modules.json\" is not a list of modules");
	if (!object_text_or(&object, "type", "", &type) || !object_text_or(&object, "path", "", &path))
		return false;
	if (strncmp(type, package, strlen(package)) != 0)
		return module_refused(f, type, "");
	module->type = strrchr(type, '.') + 1;
	if (strlen(path) + sizeof("/config.json") > sizeof(module->file) || !is_below(path))
		return object_malformed(&object, "path", "the name of a folder below the model's");
	snprintf(module->folder, sizeof(module->folder), "%s%s", path, path[0] == '\0' ? "" : "/");
	snprintf(module->file, sizeof(module->file), "%s%sconfig.json", path, path[0] == '\0' ? "" : "/");
	return true;
}

bool
folder_transformer(const struct model_files *files, char inner[INFER_NAME_MAX], struct status *status)
{
	struct folder f = {.files = files, .status = status};
	json_t	   *root = folder_json(model_files_find(files, "modules.json"), true, status);
	bool		fine = root != NULL, found = false;

	inner[0] = '\0';
	for (size_t i = 0; fine && !found && i < json_array_size(root); i++)
	{
		struct module module;

		fine = parse_module(&f, json_array_get(root, i), &module);
		found = fine && strcmp(module.type, "Transformer") == 0;
		if (found)
			snprintf(inner, INFER_NAME_MAX, "%s", module.folder);
	}
	json_decref(root);
	return fine;
}

bool
folder_modules_read(struct folder *f)
{
	json_t	   *root = folder_json(model_files_find(f->files, "modules.json"), true, f->status);
	struct chain chain = {.folder = f, .width = f->encoder->hidden};
	bool		fine = root != NULL;

	if (fine && json_array_size(root) > FOLDER_MODULES_MAX)
		fine = status_set(f->status, INFER_ERROR_UNSUPPORTED, "modules.json has more than %d modules", FOLDER_MODULES_MAX);
	for (size_t i = 0; fine && i < json_array_size(root); i++)
	{
		struct module module;

		fine = parse_module(f, json_array_get(root, i), &module) && read_module(&chain, &module);
	}
	json_decref(root);
	return fine;
}
