/*
 * head.c
 *	  The task of a model, and what stands behind its layers.
 *
 * The task is what an option says; else a cross-encoder's is to rerank, that of a folder with
 * modules.json to embed, and the rest follows from the class that config.json names.  A text
 * classifier of one class ranks, as sentence-transformers loads it, unless its problem_type is
 * regression; its score is the sigmoid of its output unless the folder names another function,
 * as both sentence-transformers and transformers' pipelines have it.
 */
#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES	512

/* ---- the task ---- */

static bool
architecture_is(const struct folder *f, const char *name)
{
	return f->architecture != NULL && strcmp(f->architecture, name) == 0;
}

static bool
task_unclear(struct folder *f)
{
	if (f->architecture_name == NULL)
		status_set(f->status, INFER_ERROR_UNSUPPORTED, "config.json names no architecture");
	else
		status_set(f->status, INFER_ERROR_UNSUPPORTED, "the architecture \"%s\" of config.json is not supported for the model_type \"%s\"",
				   f->architecture_name, f->family->model_type);
	status_hint(f->status, "Say what the model is for with the option task: embed, classify, rerank, regression or entities.");
	return false;
}

/* Rows of the last matrix; 0: there is none. */
static int64_t
count_outputs(const struct folder *f, const struct head_layout *head)
{
	char		name[NAME_MAX_BYTES];
	const struct weight *weight;

	snprintf(name, sizeof(name), "%s.weight", head->output);
	weight = weights_find(&f->weights, name);
	return weight == NULL || weight->rank != 2 ? 0 : weight->dims[0];
}

static bool
is_regression(const struct folder *f)
{
	return f->problem_type != NULL && strcmp(f->problem_type, "regression") == 0;
}

/* Logits of an ONNX file. */
static int64_t
graph_outputs(const struct folder *f)
{
	return f->encoder->graph != NULL ? f->encoder->hidden : f->encoder->output.weight.dims[0];
}

static bool
text_task(struct folder *f, enum encoder_task *task)
{
	struct head_layout head = {0};
	int64_t		outputs = f->graph ? graph_outputs(f) : 0;

	if (!f->graph && f->family->text_head != NULL)
		f->family->text_head(f, &head);
	if (head.output != NULL)
		outputs = count_outputs(f, &head);
	*task = outputs != 1 ? ENCODER_CLASSIFIER : is_regression(f) ? ENCODER_REGRESSION : ENCODER_RERANKER;
	return true;
}

bool
folder_is_classifier(const struct folder *f)
{
	if (f->options.task != 0)
		return f->options.task != ENCODER_EMBEDDING;
	return f->cross_encoder || (!f->modules && (architecture_is(f, "ForSequenceClassification") || architecture_is(f, "ForTokenClassification")));
}

static bool
decide_task(struct folder *f, enum encoder_task *task)
{
	*task = f->options.task;
	if (*task != 0)
		return true;
	*task = ENCODER_EMBEDDING;
	if (f->modules && !f->cross_encoder)
		return true;
	if (f->cross_encoder || architecture_is(f, "ForSequenceClassification"))
		return text_task(f, task);
	if (architecture_is(f, "ForTokenClassification"))
	{
		*task = ENCODER_ENTITIES;
		return true;
	}
	return architecture_is(f, "Model") || architecture_is(f, "ForMaskedLM") || architecture_is(f, "ForPreTraining") ||
		task_unclear(f);
}

/* ---- classes ---- */

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static bool
check_distinct(struct folder *f)
{
	const struct encoder *e = f->encoder;
	const char **sorted = graph_pool(f->memory, e->classes_count, sizeof(*sorted));

	if (sorted == NULL)
		return false;
	memcpy(sorted, e->classes, e->classes_count * sizeof(*sorted));
	qsort(sorted, e->classes_count, sizeof(*sorted), compare_texts);
	for (uint32_t i = 1; i < e->classes_count; i++)
		if (strcmp(sorted[i - 1], sorted[i]) == 0)
		{
			status_set(f->status, INFER_ERROR_UNSUPPORTED, "two classes are both called \"%.200s\"", sorted[i]);
			status_hint(f->status, "Name the classes with the option labels.");
			return false;
		}
	return true;
}

static bool
read_classes(struct folder *f)
{
	struct encoder *e = f->encoder;
	const struct folder_options *o = &f->options;

	if (o->labels_count > 0 && o->labels_count != e->classes_count)
		return status_set(f->status, INFER_ERROR_INPUT, "the option labels names %u classes, but the model has %u", o->labels_count,
						  e->classes_count);
	if (o->labels_count == 0 && f->labels_wrong != NULL)
		return status_set(f->status, INFER_ERROR_MODEL, "%s", f->labels_wrong);
	if (f->labels_count > 0 && f->labels_count != e->classes_count)
		return status_set(f->status, INFER_ERROR_MODEL, "\"id2label\" of config.json names %u classes, but the weights have %u", f->labels_count,
						  e->classes_count);
	e->classes = o->labels_count > 0 ? o->labels : f->labels;
	if (e->classes != NULL)
		return check_distinct(f);
	e->classes = graph_pool(f->memory, e->classes_count, sizeof(*e->classes));
	for (uint32_t i = 0; e->classes != NULL && i < e->classes_count; i++)
		if ((e->classes[i] = folder_text(f, "LABEL_%u", i)) == NULL)
			return false;
	return e->classes != NULL;
}

/* ---- the weights of a classifier ---- */

static bool
read_dense(struct folder *f, const struct head_layout *head)
{
	struct encoder *e = f->encoder;
	struct encoder_dense *dense = &e->denses[0];
	char		name[NAME_MAX_BYTES];

	if (head->dense == NULL)
		return true;
	snprintf(name, sizeof(name), "%s%s", head->dense_in_base ? f->prefix : "", head->dense);
	if (!folder_linear(f, &f->weights, name, e->hidden, e->hidden, head->dense_bias, &dense->linear) ||
		(head->norm != NULL && !folder_norm(f, &f->weights, head->norm, e->hidden, head->norm_bias, &dense->norm)))
		return false;
	dense->activation = head->activation;
	dense->norm_epsilon = e->norm_epsilon;
	e->denses_count = 1;
	return true;
}

static bool
check_number(struct folder *f, int64_t outputs)
{
	if (f->options.labels_count > 0)
		return status_set(f->status, INFER_ERROR_INPUT, "the option labels is for classifiers and entities");
	if (outputs == 1)
		return true;
	return status_set(f->status, INFER_ERROR_INPUT, "the option task asks for one number, but the model has %lld", (long long) outputs);
}

/* What becomes of the outputs. */
static bool
read_meaning(struct folder *f, int64_t outputs)
{
	struct encoder *e = f->encoder;

	switch (e->task)
	{
		case ENCODER_CLASSIFIER:
			if (is_regression(f))
				return status_set(f->status, INFER_ERROR_UNSUPPORTED, "\"problem_type\" of config.json is not supported: a regression of %lld numbers",
								  (long long) outputs);
			e->single_label = outputs > 1 && (f->problem_type == NULL || strcmp(f->problem_type, "multi_label_classification") != 0);
			/* FALLTHROUGH */
		case ENCODER_ENTITIES:
			e->classes_count = (uint32_t) outputs;
			return read_classes(f);
		case ENCODER_RERANKER:
			e->score = f->cross_activation != 0 ? f->cross_activation : ENCODER_SIGMOID;
			return check_number(f, outputs);
		default:
			return check_number(f, outputs);
	}
}

/* The graph gave the weights; it tells a text's classes from each token's. */
static bool
read_graph_classifier(struct folder *f)
{
	struct encoder *e = f->encoder;

	if ((e->task == ENCODER_ENTITIES) != (e->pooling == 0))
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "the logits of the ONNX file are those of %s",
						  e->pooling == 0 ? "each token, not of the text" : "the text, not of each token");
	if (graph_outputs(f) > FOLDER_CLASSES_MAX)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "a model of more than %d classes is not supported", FOLDER_CLASSES_MAX);
	return read_meaning(f, graph_outputs(f));
}

static bool
read_classifier(struct folder *f)
{
	struct encoder *e = f->encoder;
	struct head_layout head = {0};
	void		(*layout) (struct folder *, struct head_layout *) =
		e->task == ENCODER_ENTITIES ? f->family->token_head : f->family->text_head;
	int64_t		outputs;

	if (f->graph)
		return read_graph_classifier(f);
	if (layout == NULL)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "models of type \"%s\" are supported for embeddings only", f->family->model_type);
	layout(f, &head);
	outputs = count_outputs(f, &head);
	if (outputs < 1)
		return status_set(f->status, INFER_ERROR_MODEL, "the weights have no tensor \"%s.weight\", as a classifier of type \"%s\" has", head.output,
						  f->family->model_type);
	if (outputs > FOLDER_CLASSES_MAX)
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "a model of more than %d classes is not supported", FOLDER_CLASSES_MAX);
	e->pooling = head.pooling;
	return read_dense(f, &head) && folder_linear(f, &f->weights, head.output, outputs, e->hidden, true, &e->output) &&
		read_meaning(f, outputs);
}

/* ---- embeddings ---- */

/* Where the ONNX file pools, modules.json says the same. */
static bool
read_modules(struct folder *f)
{
	struct encoder *e = f->encoder;
	enum encoder_pooling pooling = e->pooling;
	bool		normalize = e->normalize;

	if (!folder_modules_read(f))
		return false;
	if (f->graph_pooled && ((e->graph == NULL && e->pooling != pooling) || e->more_count > 0 || e->prompt_excluded || e->denses_count > 0))
		return status_set(f->status, INFER_ERROR_UNSUPPORTED, "modules.json says another pooling than the ONNX file has");
	if (f->graph_pooled)
		e->pooling = pooling;
	e->normalize = e->normalize || normalize;
	return true;
}

/* Versions of the reference differ in which token is the first one without a prompt: the text's or the row's. */
static bool
check_excluded(struct folder *f)
{
	const struct encoder *e = f->encoder;
	bool		first = e->pooling == ENCODER_POOL_CLS;

	for (uint32_t i = 0; i < e->more_count; i++)
		first = first || e->more[i] == ENCODER_POOL_CLS;
	return !first || !e->prompt_excluded ||
		status_set(f->status, INFER_ERROR_UNSUPPORTED, "pooling \"cls\" without the prompt's tokens, as \"include_prompt\" asks for, is not supported");
}

static bool
read_embedding(struct folder *f)
{
	struct encoder *e = f->encoder;

	if (f->options.labels_count > 0)
		return status_set(f->status, INFER_ERROR_INPUT, "the option labels is for classifiers and entities");
	if (f->modules && !f->cross_encoder && !read_modules(f))
		return false;
	if (f->graph_pooled && (f->options.pooling != 0 || f->options.normalize == 0))
		return status_set(f->status, INFER_ERROR_INPUT, "the option %s is not for an ONNX file whose output is a vector for each text",
						  f->options.pooling != 0 ? "pooling" : "normalize");
	if (f->options.pooling != 0 && e->more_count > 0 && e->denses_count > 0)
		return status_set(f->status, INFER_ERROR_INPUT, "the option pooling is not for a model whose Dense takes several poolings");
	if (f->options.pooling != 0)
	{
		e->pooling = f->options.pooling;
		e->more_count = 0;
	}
	if (f->options.normalize >= 0)
		e->normalize = f->options.normalize;
	if (e->pooling != 0)
		return check_excluded(f);
	status_set(f->status, INFER_ERROR_UNSUPPORTED, "the folder does not say how a text's vector is made of its tokens'");
	status_hint(f->status, "Say it with the option pooling, as in {\"pooling\": \"mean\"}: cls, mean, max, mean_sqrt_len_tokens, lasttoken or weightedmean.");
	return false;
}

bool
folder_head_read(struct folder *f)
{
	if (!decide_task(f, &f->encoder->task))
		return false;
	if (f->encoder->task == ENCODER_EMBEDDING)
		return read_embedding(f);
	if (f->options.pooling != 0 || f->options.normalize >= 0)
		return status_set(f->status, INFER_ERROR_INPUT, "the option %s is for embeddings", f->options.pooling != 0 ? "pooling" : "normalize");
	return read_classifier(f);
}
