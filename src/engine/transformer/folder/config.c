/*
 * config.c
 *	  config.json: the family, and what all families share: activations, labels, and what
 *	  decides the task.
 *
 * Which attributes matter
 *	The code of a native family is the library's own and fixed by model_type, so an attribute
 *	that it does not read changes nothing; those that it reads are looked at.  An auto_map, which puts
 *	other code in its place, is refused.  Families whose code comes with the model are
 *	known by their published code: there, an attribute that is neither read here nor known
 *	to be irrelevant is refused by name.
 */
#include "reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct family *const folder_families[] = {
	&family_bert, &family_roberta, &family_xlm_roberta, &family_camembert, &family_distilbert, &family_mpnet,
	&family_modernbert, &family_nomic, &family_gte, NULL
};

/* ---- activations ---- */

struct activation_name
{
	const char *name;
	enum encoder_activation activation;
};

static enum encoder_activation
find_activation(const struct activation_name *names, const char *name)
{
	for (; names->name != NULL; names++)
		if (strcmp(names->name, name) == 0)
			return names->activation;
	return 0;
}

enum encoder_activation
folder_activation(const char *name)
{
	static const struct activation_name names[] = {
		{"gelu", ENCODER_GELU}, {"gelu_python", ENCODER_GELU}, {"gelu_new", ENCODER_GELU_TANH}, {"gelu_fast", ENCODER_GELU_TANH},
		{"gelu_pytorch_tanh", ENCODER_GELU_TANH}, {"gelu_accurate", ENCODER_GELU_TANH}, {"relu", ENCODER_RELU},
		{"silu", ENCODER_SILU}, {"swish", ENCODER_SILU}, {"tanh", ENCODER_TANH}, {"sigmoid", ENCODER_SIGMOID},
		{"linear", ENCODER_IDENTITY}, {NULL, 0}
	};

	return find_activation(names, name);
}

enum encoder_activation
folder_torch_activation(const char *name)
{
	static const struct activation_name names[] = {
		{"torch.nn.modules.activation.Tanh", ENCODER_TANH}, {"torch.nn.modules.activation.ReLU", ENCODER_RELU},
		{"torch.nn.modules.activation.GELU", ENCODER_GELU}, {"torch.nn.modules.activation.SiLU", ENCODER_SILU},
		{"torch.nn.modules.activation.Sigmoid", ENCODER_SIGMOID}, {"torch.nn.modules.linear.Identity", ENCODER_IDENTITY},
		{NULL, 0}
	};

	return find_activation(names, name);
}

bool
config_activation(const struct object *config, const char *key, const char *otherwise, enum encoder_activation *activation)
{
	const char *name;

	if (!object_text_or(config, key, otherwise, &name))
		return false;
	*activation = folder_activation(name);
	return *activation != 0 || object_unsupported(config, key);
}

/* ---- layers ---- */

bool
config_layers(struct folder *f, const struct object *config, const char *key)
{
	int64_t		count;

	if (!object_whole(config, key, 1, ENCODER_LAYERS_MAX, &count))
		return false;
	f->encoder->layers_count = (uint32_t) count;
	f->encoder->layers = graph_pool(f->memory, (uint64_t) count, sizeof(*f->encoder->layers));
	return f->encoder->layers != NULL;
}

/* ---- labels ---- */

/* id2label: an object whose keys are the numbers from 0 on, in any order; if not, that matters to classifiers. */
static bool
read_labels(struct folder *f, const struct object *config)
{
	json_t	   *map = object_get(config, "id2label");
	size_t		count = json_object_size(map);

	if (map == NULL)
		return true;
	if (!json_is_object(map) || count == 0)
		return object_malformed(config, "id2label", "an object of labels");
	if (count > FOLDER_CLASSES_MAX)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "\"id2label\" of %s has more than %d labels", config->where, FOLDER_CLASSES_MAX);
	f->labels = graph_pool(f->memory, count, sizeof(*f->labels));
	if (f->labels == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
	{
		char		key[32];
		json_t	   *label;

		snprintf(key, sizeof(key), "%zu", i);
		label = json_object_get(map, key);
		if (!json_is_string(label) || json_string_length(label) > FOLDER_TEXT_MAX)
		{
			f->labels_wrong = folder_text(f, "\"id2label\" of %s has no label of number %zu", config->where, i);
			return f->labels_wrong != NULL;
		}
		f->labels[i] = folder_text(f, "%s", json_string_value(label));
		if (f->labels[i] == NULL)
			return false;
	}
	f->labels_count = (uint32_t) count;
	return true;
}

/* ---- the task ---- */

/* What an architecture's name begins with where the family is not known: all before "For" or "Model". */
static size_t
class_length(const char *name)
{
	const char *end = name == NULL ? NULL : strstr(name, "For");
	size_t		length = name == NULL ? 0 : strlen(name);

	if (end != NULL)
		return (size_t) (end - name);
	return length > 5 && strcmp(name + length - 5, "Model") == 0 ? length - 5 : 0;
}

/* Whether it matters is decided with the task: a folder with modules.json goes by model_type. */
static bool
read_architecture(struct folder *f, const struct object *config)
{
	json_t	   *list = object_get(config, "architectures");
	const char *name = json_string_value(json_array_get(list, 0));
	size_t		class = f->graph ? class_length(name) : strlen(f->family->class);

	if (list != NULL && (!json_is_array(list) || (json_array_size(list) > 0 && name == NULL)))
		return object_malformed(config, "architectures", "a list of names");
	if (name == NULL)
		return true;
	f->architecture_name = folder_text(f, "%.200s%s", name, json_array_size(list) > 1 ? ", ..." : "");
	if (json_array_size(list) == 1 && (f->graph || strncmp(name, f->family->class, class) == 0))
		f->architecture = folder_text(f, "%s", name + class);
	return f->architecture_name != NULL;
}

/* What sentence-transformers' cross-encoders note in config.json, of versions before and from 4. */
static bool
read_cross_encoder(struct folder *f, const struct object *config)
{
	struct object noted = {object_get(config, "sentence_transformers"), "\"sentence_transformers\" of config.json", f->status};
	const char *old, *name;

	if (!object_text_or(config, "sbert_ce_default_activation_function", NULL, &old))
		return false;
	if (noted.json != NULL && !json_is_object(noted.json))
		return object_malformed(config, "sentence_transformers", "an object");
	name = old;
	if (noted.json != NULL && !object_text_or(&noted, "activation_fn", old, &name))
		return false;
	if (name == NULL)
		return true;
	f->cross_activation = folder_torch_activation(name);
	if (f->cross_activation != ENCODER_SIGMOID && f->cross_activation != ENCODER_IDENTITY)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the activation \"%.200s\" of a cross-encoder is not supported", name);
	return true;
}

static bool
read_task(struct folder *f, const struct object *config)
{
	const char *problem;

	if (!read_architecture(f, config) || !read_labels(f, config) || !read_cross_encoder(f, config) ||
		!object_text_or(config, "problem_type", NULL, &problem))
		return false;
	if (problem != NULL && strcmp(problem, "regression") != 0 && strcmp(problem, "single_label_classification") != 0 &&
		strcmp(problem, "multi_label_classification") != 0)
		return object_unsupported(config, "problem_type");
	if (problem != NULL && (f->problem_type = folder_text(f, "%s", problem)) == NULL)
		return false;
	return true;
}

/* ---- the family ---- */

/* An ONNX file is its own family; the type is only a name. */
static bool
name_family(struct folder *f, const char *type)
{
	struct family *family = graph_pool(f->memory, 1, sizeof(*family));

	if (family == NULL)
		return false;
	family->class = "";
	family->model_type = folder_text(f, "%.200s", type);
	f->family = family;
	return family->model_type != NULL;
}

static bool
find_family(struct folder *f, const struct object *config)
{
	const char *type;

	if (!object_text_or(config, "model_type", NULL, &type))
		return false;
	if (type == NULL)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "config.json has no model_type");
	if (f->graph)
		return name_family(f, type);
	for (int i = 0; folder_families[i] != NULL; i++)
		if (strcmp(folder_families[i]->model_type, type) == 0)
			f->family = folder_families[i];
	if (f->family != NULL)
		return true;
	status_set(f->status, INFER_ERROR_UNSUPPORTED, "the model_type \"%.200s\" of config.json is not supported", type);
	status_detail(f->status, "Supported are bert, roberta, xlm-roberta, camembert, distilbert, mpnet, modernbert, nomic_bert and new.");
	return false;
}

/* What would make another model of any family. */
static bool
check_common(struct folder *f, const struct object *config)
{
	static const char *const refused[] = {
		"is_decoder", "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size", "pruned_heads",
		"quantization_config", NULL
	};
	static const char *const code[] = {"auto_map", NULL};

	if (f->graph)
		return true;
	if (!object_refuse(config, refused) || (f->family->native && !object_refuse(config, code)))
		return false;
	if (model_files_find(f->files, "adapter_config.json") != NULL)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the folder has an adapter (adapter_config.json), which is not supported");
	return true;
}

static bool
check_sizes(struct folder *f)
{
	struct encoder *e = f->encoder;

	if (e->hidden % e->heads != 0)
		return status_set(f->status, INFER_ERROR_MODEL, "the hidden size %lld of config.json is no multiple of the %lld heads",
						  (long long) e->hidden, (long long) e->heads);
	if (!(e->norm_epsilon >= 0) || !(e->norm_epsilon < 1))
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the epsilon of config.json's layer norms is not from 0 to 1");
	e->head_size = e->hidden / e->heads;
	e->attention_scale = 1 / sqrt((double) e->head_size);
	if (e->positions == ENCODER_POSITIONS_ROTARY && e->rotary_size == 0)
		e->rotary_size = e->head_size;
	if (e->positions == ENCODER_POSITIONS_ROTARY && (e->rotary_size % 2 != 0 || e->rotary_size > e->head_size))
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "%lld of the %lld numbers of a head cannot be turned by position",
						  (long long) e->rotary_size, (long long) e->head_size);
	if (e->positions == ENCODER_POSITIONS_ROTARY && !(e->rotary_theta > 0 && e->rotary_theta_local > 0 && isfinite(e->rotary_theta)))
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the base of config.json's rotary positions is not positive");
	return true;
}

bool
folder_config_read(struct folder *f)
{
	const struct model_file *file = model_files_find(f->files, "config.json");
	struct object config = {NULL, "config.json", f->status};
	bool		fine;

	if (file == NULL)
		return status_set(f->status, INFER_ERROR_MODEL, "the model has no file \"config.json\"");
	config.json = folder_json(file, false, f->status);
	f->encoder->position_padding = -1;
	fine = config.json != NULL && find_family(f, &config) && check_common(f, &config) && read_task(f, &config) &&
		(f->graph || (f->family->read_config(f, &config) && check_sizes(f)));
	json_decref(config.json);
	return fine;
}
