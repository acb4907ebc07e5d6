/*
 * encoder_model.c
 *	  The kind "encoder": a folder of a model that reads text.  Opening: the reader's encoder,
 *	  the tokenizer, the program, the signature, and how much fits into a batch.
 */
#include "encoder_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../status.h"
#include "../../text/entities.h"
#include "../../transformer/folder.h"

/* ---- batches ---- */

/* Bytes that are left of the device's memory, of which the longest text needs some. */
static bool
bytes_left(struct encoder_model *m, uint64_t *left, struct status *status)
{
	struct device_info info = {0};
	uint64_t	longest = encoder_buffers_bytes(m, 1, m->encoder->tokens_max) + m->work_longest;

	*left = UINT64_MAX;
	m->device->ops->info(m->device, &info);
	if (info.bytes_budget == 0)
		return true;
	*left = info.bytes_budget > info.bytes_used ? info.bytes_budget - info.bytes_used : 0;
	if (longest <= *left)
		return true;
	status_set(status, INFER_ERROR_MEMORY, "a text of %u tokens needs %" PRIu64 " bytes of memory, and %" PRIu64 " are left",
			   m->encoder->tokens_max, longest, *left);
	device_memory_hint(m->device, &info, status);
	return false;
}

/*
 * A batch may have any number of rows, since parts bound its memory.  MiniLM in bf16, 128 tokens a row,
 * one thread of a Zen 5: 18,900 tokens a second in parts of 512, 18,700 of 1,024, 17,200 of 6,000.
 */
static bool
size_batches(struct encoder_model *m, struct status *status)
{
	uint64_t	none = encoder_buffers_bytes(m, 1, 1);
	uint64_t	tokens;
	uint64_t	left;

	m->token_bytes = encoder_buffers_bytes(m, 1, 2) - none;
	m->row_bytes = encoder_buffers_bytes(m, 2, 1) - none;
	if (!bytes_left(m, &left, status))
		return false;
	m->part_bytes = device_has_memory(m->device) ? ENCODER_PART_DEVICE : ENCODER_PART_BYTES;
	tokens = m->part_bytes / (m->token_bytes > 0 ? m->token_bytes : 1);
	if (tokens < ENCODER_PART_TOKENS)
		tokens = ENCODER_PART_TOKENS;
	if (tokens > left / 2 / (m->token_bytes + m->row_bytes))
		tokens = left / 2 / (m->token_bytes + m->row_bytes);
	m->work_left = left / 2;
	m->part_tokens = tokens < 1 ? 1 : tokens > INFER_ROWS_MAX ? INFER_ROWS_MAX : (uint32_t) tokens;
	m->model.batch_rows_max = INFER_ROWS_MAX;
	return true;
}

/* ---- predictions ---- */

static uint64_t
predict(const struct encoder_model *m, uint64_t rows, uint64_t tokens, uint64_t pairs)
{
	struct device_batch batch = {
		.items = {
			[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = (uint32_t) rows, [DEVICE_LEAD_TOKENS] = (uint32_t) tokens
		},
		.pairs = pairs
	};

	return m->device->ops->estimate_nsec(m->device, m->program.program, &batch);
}

/* What a row of n tokens costs among many: a + b · n + c · n². */
static void
predict_rows(struct encoder_model *m)
{
	double		rows = 64, tokens = 8192, pairs = 8192.0 * 128;
	double		base = (double) predict(m, 64, 8192, 8192 * 128);

	m->nsec_row = ((double) predict(m, 128, 8192, 8192 * 128) - base) / rows;
	m->nsec_token = ((double) predict(m, 64, 16384, 8192 * 128) - base) / tokens;
	m->nsec_pair = ((double) predict(m, 64, 8192, 8192 * 256) - base) / pairs;
	m->nsec_row += m->graph_nsec[0];
	m->nsec_token += m->graph_nsec[1];
	m->nsec_pair += m->graph_nsec[2];
}

static uint64_t
encoder_model_estimate(struct model *model, const struct model_cost *cost)
{
	struct encoder_model *m = (struct encoder_model *) model;
	uint64_t	usual = m->encoder->tokens_max < ENCODER_USUAL_TOKENS ? m->encoder->tokens_max : ENCODER_USUAL_TOKENS;
	uint64_t	tokens = cost->tokens > 0 ? cost->tokens : cost->rows * usual;
	uint64_t	pairs = cost->pairs > 0 || cost->rows == 0 ? cost->pairs : tokens * (tokens / cost->rows);

	return predict(m, cost->rows, tokens > UINT32_MAX ? UINT32_MAX : tokens, pairs) +
		(uint64_t) (m->graph_nsec[0] * cost->rows + m->graph_nsec[1] * (double) tokens + m->graph_nsec[2] * (double) pairs);
}

/* ---- open and close ---- */

static void
encoder_model_close(struct model *model)
{
	struct encoder_model *m = (struct encoder_model *) model;

	encoder_buffers_free(m);
	encoder_arenas_free(m);
	pthread_mutex_destroy(&m->arenas_lock);
	encoder_program_free(&m->program);
	if (m->entities != NULL)
		entity_labels_free(m->entities);
	if (m->tokenizer != NULL)
		tokenizer_close(m->tokenizer);
	if (m->encoder != NULL)
		encoder_free(m->encoder);
	graph_memory_free(&m->memory);
	free(m);
}

static bool
check_limits(const struct encoder_model *m, struct status *status)
{
	const struct tokenizer_facts *facts = tokenizer_facts(m->tokenizer);
	uint32_t	added = m->encoder->task == ENCODER_RERANKER ? facts->added_pair : facts->added_single;

	if (m->encoder->tokens_max <= added)
		return status_set(status, INFER_ERROR_MODEL, "the model takes %u tokens, and %u of them are special ones",
						  m->encoder->tokens_max, added);
	return true;
}

/* The first batch's buffers are made and counted now, so that a model that is open is known to run. */
static bool
begin_bytes(struct encoder_model *m, struct status *status)
{
	struct text_graph *graph = m->encoder->graph;
	const struct encoder_program *program = &m->program;
	bool		own = device_has_memory(m->device);

	m->model.bytes = program->weights_bytes;
	m->model.bytes += own ? program->constants_bytes :
		program->tables_bytes + program->memory.used + m->memory.used + tokenizer_bytes(m->tokenizer);
	if (graph != NULL)
	{
		m->model.bytes += graph->base.weights_bytes + graph->programs_bytes + (own ? graph->base.constants_bytes : graph->memory.used);
		graph->counted = &m->model.bytes;
	}
	return encoder_buffers_begin(m, status);
}

static bool
open_encoder(struct encoder_model *m, const struct model_files *files, const char *options, struct status *status)
{
	const struct model_files *seen = encoder_files(files, &m->memory);
	struct model_files unpacked = *files;

	m->encoder = seen == NULL ? NULL : encoder_read(seen, options == NULL ? "" : options, m->device, status);
	if (m->encoder == NULL)
		return false;
	if (m->encoder->graph != NULL)
	{
		m->graph_kept = seen == files;
		unpacked.packed = NULL;		/* which has the graph's weights, and not the head's */
		files = &unpacked;
	}
	m->tokenizer = tokenizer_open(seen, status);
	return m->tokenizer != NULL && check_limits(m, status) && encoder_prompts_count(m, status) &&
		encoder_program_make(&m->program, m->encoder, files, m->device, status) &&
		encoder_signature(m, status) && encoder_graph_measure(m, status) && size_batches(m, status) &&
		status->error == 0 && begin_bytes(m, status);
}

static struct model *
encoder_model_open(const struct model_files *files, const char *options, struct device *device, struct status *status)
{
	struct encoder_model *m = calloc(1, sizeof(*m));

	if (m == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory");
		return NULL;
	}
	m->model.ops = &encoder_model_ops;
	m->device = device;
	model_sets_init(&m->sets, &m->model, device, sizeof(struct encoder_buffers));
	pthread_mutex_init(&m->arenas_lock, NULL);
	graph_memory_init(&m->memory, UINT64_MAX, status);
	if (!open_encoder(m, files, options, status))
	{
		encoder_model_close(&m->model);
		return NULL;
	}
	m->memory.status = NULL;
	predict_rows(m);
	return &m->model;
}

static bool
encoder_model_packed_form(const struct model *model, struct packed_form *form)
{
	const struct encoder_model *m = (const struct encoder_model *) model;

	if (m->encoder->graph == NULL)
		*form = m->program.form;
	else if (m->graph_kept)
		*form = m->encoder->graph->base.form;
	else
		return false;
	return form->weights_count > 0;
}

const struct model_ops encoder_model_ops = {
	.kind = "encoder",
	.recognises = encoder_recognises,
	.open = encoder_model_open,
	.close = encoder_model_close,
	.packed_form = encoder_model_packed_form,
	.prepare = encoder_model_prepare,
	.release = encoder_model_release,
	.run = encoder_model_run,
	.estimate_nsec = encoder_model_estimate,
	.describe = encoder_model_describe
};
