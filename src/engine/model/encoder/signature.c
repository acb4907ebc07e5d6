/*
 * signature.c
 *	  What an encoder takes and returns, and what else a user may want to know of it.
 *
 *	  task			outputs that are not hidden
 *	  embedding		embedding F32 [dimensions]
 *	  classifier	label (the class of the highest score) and scores F32 [classes]: softmax, or a
 *					sigmoid each where several labels may hold
 *	  reranker		score F32
 *	  regression	value F32
 *	  entities		types I32 [-1], places I32 [-1, 2], scores F32 [-1]
 *
 * All have the hidden outputs tokens, token_count and chunks.
 */
#include "encoder_model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../status.h"
#include "../../text/entities.h"

/* ---- inputs ---- */

static bool
make_inputs(struct encoder_model *m)
{
	static const struct infer_tensor inputs[ENCODER_INPUTS] = {
		[ENCODER_INPUT_TEXT] = {.name = "text", .type = INFER_TYPE_STRING, .role = INFER_ROLE_TEXT},
		[ENCODER_INPUT_PAIR] = {
			.name = "pair", .type = INFER_TYPE_STRING, .role = INFER_ROLE_PAIR, .flags = INFER_TENSOR_HIDDEN
		},
		[ENCODER_INPUT_PROMPT] = {
			.name = "prompt", .type = INFER_TYPE_STRING, .role = INFER_ROLE_PROMPT, .flags = INFER_TENSOR_HIDDEN
		},
		[ENCODER_INPUT_OPTIONS] = {
			.name = "options", .type = INFER_TYPE_I32, .role = INFER_ROLE_OPTIONS, .flags = INFER_TENSOR_HIDDEN,
			.rank = 1, .dims = {INFER_TEXT_OPTIONS}
		}
	};
	struct infer_signature *signature = &m->model.signature;

	signature->inputs_count = ENCODER_INPUTS;
	signature->inputs = graph_pool(&m->memory, ENCODER_INPUTS, sizeof(*signature->inputs));
	if (signature->inputs == NULL)
		return false;
	memcpy(signature->inputs, inputs, sizeof(inputs));
	if (m->encoder->task == ENCODER_RERANKER)
	{
		signature->inputs[ENCODER_INPUT_TEXT].name = (char *) "query";
		signature->inputs[ENCODER_INPUT_PAIR].name = (char *) "document";
		signature->inputs[ENCODER_INPUT_PAIR].flags = 0;
	}
	return true;
}

/* ---- outputs ---- */

static void
add_output(struct encoder_model *m, const char *name, uint32_t type, uint32_t role, uint32_t rank, int64_t first, int64_t second)
{
	struct infer_signature *signature = &m->model.signature;

	signature->outputs[signature->outputs_count++] = (struct infer_tensor) {
		.name = (char *) name, .type = type, .role = role, .rank = rank, .dims = {first, second}
	};
}

static void
add_results(struct encoder_model *m)
{
	struct infer_signature *signature = &m->model.signature;
	int64_t		width = m->program.result_width;

	switch (m->encoder->task)
	{
		case ENCODER_EMBEDDING:
			signature->task = INFER_TASK_EMBEDDING;
			add_output(m, "embedding", INFER_TYPE_F32, INFER_ROLE_EMBEDDING, 1, width, 0);
			break;
		case ENCODER_CLASSIFIER:
			signature->task = INFER_TASK_CLASSIFIER;
			add_output(m, "label", INFER_TYPE_STRING, INFER_ROLE_LABEL, 0, 0, 0);
			add_output(m, "probabilities", INFER_TYPE_F32, INFER_ROLE_SCORES, 1, width, 0);
			break;
		case ENCODER_RERANKER:
			signature->task = INFER_TASK_RERANKER;
			add_output(m, "score", INFER_TYPE_F32, INFER_ROLE_SCORE, 0, 0, 0);
			break;
		case ENCODER_REGRESSION:
			signature->task = INFER_TASK_REGRESSION;
			add_output(m, "value", INFER_TYPE_F32, INFER_ROLE_VALUE, 0, 0, 0);
			break;
		case ENCODER_ENTITIES:
			signature->task = INFER_TASK_ENTITIES;
			add_output(m, "types", INFER_TYPE_I32, INFER_ROLE_ENTITY_TYPES, 1, -1, 0);
			add_output(m, "places", INFER_TYPE_I32, INFER_ROLE_ENTITY_PLACES, 2, -1, 2);
			add_output(m, "scores", INFER_TYPE_F32, INFER_ROLE_ENTITY_SCORES, 1, -1, 0);
			break;
	}
}

static bool
make_outputs(struct encoder_model *m)
{
	struct infer_signature *signature = &m->model.signature;

	signature->outputs = graph_pool(&m->memory, ENCODER_OUTPUTS_MAX, sizeof(*signature->outputs));
	if (signature->outputs == NULL)
		return false;
	add_results(m);
	m->outputs_results = signature->outputs_count;
	add_output(m, "tokens", INFER_TYPE_I32, INFER_ROLE_TOKENS, 1, -1, 0);
	add_output(m, "token_count", INFER_TYPE_I32, INFER_ROLE_TOKEN_COUNT, 0, 0, 0);
	add_output(m, "chunks", INFER_TYPE_I32, INFER_ROLE_CHUNKS, 2, -1, 3);
	for (uint32_t i = m->outputs_results; i < signature->outputs_count; i++)
		signature->outputs[i].flags |= INFER_TENSOR_HIDDEN;
	return true;
}

/* Types of entities, each once, in the order in which the labels name them. */
static bool
make_types(struct encoder_model *m, struct status *status)
{
	struct infer_signature *signature = &m->model.signature;
	const struct encoder *encoder = m->encoder;

	m->entities = entity_labels_make(encoder->classes, encoder->classes_count, status);
	m->entity_types = graph_pool(&m->memory, encoder->classes_count, sizeof(*m->entity_types));
	signature->classes = graph_pool(&m->memory, encoder->classes_count, sizeof(*signature->classes));
	if (m->entities == NULL || m->entity_types == NULL || signature->classes == NULL)
		return false;
	for (uint32_t i = 0; i < encoder->classes_count; i++)
	{
		const char *name = entity_type_name(m->entities, i);
		uint32_t	at = 0;

		while (at < signature->classes_count && strcmp(signature->classes[at], name) != 0)
			at++;
		if (at == signature->classes_count)
			signature->classes[signature->classes_count++] = (char *) name;
		m->entity_types[i] = (int32_t) at;
	}
	return true;
}

static bool
make_labels(struct encoder_model *m)
{
	struct infer_signature *signature = &m->model.signature;
	const struct encoder *encoder = m->encoder;

	signature->classes_count = encoder->classes_count;
	signature->classes = (char **) encoder->classes;
	m->labels = graph_pool(&m->memory, encoder->classes_count, sizeof(*m->labels));
	for (uint32_t i = 0; m->labels != NULL && i < encoder->classes_count; i++)
		m->labels[i] = (struct device_text) {encoder->classes[i], strlen(encoder->classes[i])};
	return m->labels != NULL;
}

static bool
make_classes(struct encoder_model *m, struct status *status)
{
	const struct encoder *encoder = m->encoder;

	if (encoder->task != ENCODER_CLASSIFIER && encoder->task != ENCODER_ENTITIES)
		return true;
	if (encoder->classes_count != m->program.result_width)
		return status_set(status, INFER_ERROR_MODEL, "the model has %u names of classes and %u logits",
						  encoder->classes_count, m->program.result_width);
	return encoder->task == ENCODER_ENTITIES ? make_types(m, status) : make_labels(m);
}

/* ---- facts ---- */

static const char *
pooling_name(enum encoder_pooling pooling)
{
	switch (pooling)
	{
		case ENCODER_POOL_CLS:
			return "cls";
		case ENCODER_POOL_MEAN:
			return "mean";
		case ENCODER_POOL_MAX:
			return "max";
		case ENCODER_POOL_MEAN_SQRT_LEN:
			return "mean_sqrt_len";
		case ENCODER_POOL_LAST:
			return "last";
		case ENCODER_POOL_WEIGHTED_MEAN:
			return "weighted_mean";
		case ENCODER_POOL_OWN:
			return "the graph's own";
		case ENCODER_POOLINGS:
			break;
	}
	return "";
}

/* "mean", "cls + mean" */
static json_t *
facts_pooling(const struct encoder *encoder)
{
	char		text[128];
	size_t		used = (size_t) snprintf(text, sizeof(text), "%s", pooling_name(encoder->pooling));

	for (uint32_t i = 0; i < encoder->more_count && used < sizeof(text); i++)
		used += (size_t) snprintf(text + used, sizeof(text) - used, " + %s", pooling_name(encoder->more[i]));
	return json_string(text);
}

static json_t *
facts_prompts(const struct encoder *encoder)
{
	json_t	   *prompts = json_object();

	for (uint32_t i = 0; i < encoder->prompts_count; i++)
		json_object_set_new(prompts, encoder->prompts[i].name, json_string(encoder->prompts[i].text));
	return prompts;
}

static bool
make_facts(struct encoder_model *m, struct status *status)
{
	const struct encoder *encoder = m->encoder;
	json_t	   *facts = json_object();
	char	   *text;

	json_object_set_new(facts, "architecture", json_string(encoder->architecture));
	json_object_set_new(facts, "tokens_max", json_integer(encoder->tokens_max));
	json_object_set_new(facts, "tokens_max_from", json_string(encoder->tokens_max_from));
	json_object_set_new(facts, "truncate", json_boolean(encoder->truncate));
	json_object_set_new(facts, "precision", json_string(device_precision_name(m->program.precision)));
	json_object_set_new(facts, "tokenizer", json_string(tokenizer_facts(m->tokenizer)->model));
	if (encoder->graph != NULL)
		json_object_set_new(facts, "batches", json_string("texts of equal length"));
	if (encoder->task != ENCODER_ENTITIES)
		json_object_set_new(facts, "pooling", facts_pooling(encoder));
	if (encoder->task == ENCODER_EMBEDDING)
	{
		json_object_set_new(facts, "dimensions", json_integer(m->program.result_width));
		json_object_set_new(facts, "normalize", json_boolean(encoder->normalize));
	}
	if (encoder->task == ENCODER_CLASSIFIER)
		json_object_set_new(facts, "labels", json_string(encoder->single_label ? "one of them" : "each by itself"));
	if (encoder->prompts_count > 0)
		json_object_set_new(facts, "prompts", facts_prompts(encoder));
	if (encoder->prompt_excluded)
		json_object_set_new(facts, "include_prompt", json_false());
	if (encoder->prompt_default != NULL)
		json_object_set_new(facts, "default_prompt", json_string(encoder->prompt_default));
	text = json_dumps(facts, JSON_COMPACT);
	json_decref(facts);
	if (text == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for what is known of the model");
	m->model.signature.facts = graph_pool_text(&m->memory, text, strlen(text));
	free(text);
	return m->model.signature.facts != NULL;
}

bool
encoder_signature(struct encoder_model *m, struct status *status)
{
	struct infer_signature *signature = &m->model.signature;

	signature->kind = (char *) "encoder";
	signature->format = (char *) m->encoder->format;
	signature->notes = (char *) "";
	signature->bytes = m->program.weights_bytes + m->program.tables_bytes +
		(m->encoder->graph != NULL ? m->encoder->graph->base.weights_bytes : 0);
	return make_inputs(m) && make_outputs(m) && make_classes(m, status) && make_facts(m, status);
}
