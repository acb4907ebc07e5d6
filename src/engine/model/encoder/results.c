/*
 * results.c
 *	  What the device made of a part's rows, into the replies: embeddings, labels and scores,
 *	  entities.
 *
 * Invariants
 *	- What is done here is done for each row alone, in a fixed order: the same row gives the
 *	  same bits.
 *	- A row whose numbers are not all finite is that row's error, and nothing else of it is
 *	  written.
 */
#include "encoder_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../text/entities.h"

#define LENGTH_MIN	1e-12			/* shorter vectors are not made longer than by this: torch's normalize() */

/* ---- rows that fail ---- */

static bool
all_finite(const float *numbers, uint64_t count)
{
	const uint32_t *bits = (const uint32_t *) numbers;
	uint32_t	bad = 0;

	for (uint64_t i = 0; i < count; i++)
		bad |= (bits[i] & 0x7F800000u) == 0x7F800000u;
	return bad == 0;
}

static void
report_not_finite(const struct encoder_model *m, const struct encoder_row_ref *ref)
{
	char		text[INFER_NAME_MAX + 64];

	snprintf(text, sizeof(text), "the model's output \"%s\" is not finite", m->model.signature.outputs[0].name);
	model_row_error(ref->request, ref->row, INFER_ERROR_NOT_FINITE, text, "It is NaN or infinite for this row.",
					m->program.precision == DEVICE_PRECISION_FULL ? NULL :
					"Create the model with the option {\"precision\": \"f32\"}.");
}

/* ---- embeddings ---- */

static float *
output_numbers(const struct encoder_row_ref *ref, uint32_t output, uint64_t width)
{
	struct model_request *request = ref->request;

	return (float *) (request->region + request->outputs[output].data_offset) + ref->row * width;
}

/* The first dimensions, to length 1 where asked; zeros behind them. */
static void
write_embedding(const struct encoder_model *m, const struct encoder_row_ref *ref, const float *from)
{
	const struct encoder_row *row = &encoder_prepared(ref->request)->rows[ref->row];
	uint32_t	width = m->program.result_width;
	float	   *to;
	double		squares = 0;
	double		length;

	if (!encoder_wants(ref->request, 0))
		return;
	to = output_numbers(ref, 0, width);
	memset(to + row->dimensions, 0, (width - row->dimensions) * sizeof(*to));
	if (!row->normalize)
	{
		memcpy(to, from, row->dimensions * sizeof(*to));
		return;
	}
	for (uint32_t i = 0; i < row->dimensions; i++)
		squares += (double) from[i] * from[i];
	length = sqrt(squares) > LENGTH_MIN ? sqrt(squares) : LENGTH_MIN;
	for (uint32_t i = 0; i < row->dimensions; i++)
		to[i] = (float) (from[i] / length);
}

/* ---- classes and numbers ---- */

static uint32_t
highest(const float *scores, uint32_t count)
{
	uint32_t	best = 0;

	for (uint32_t i = 1; i < count; i++)
		if (scores[i] > scores[best])
			best = i;
	return best;
}

static void
write_classes(const struct encoder_model *m, const struct encoder_row_ref *ref, const float *from)
{
	uint32_t	width = m->program.result_width;

	if (encoder_wants(ref->request, 0))
		model_reply_strings(ref->request, 0, ref->row, 1, &m->labels[highest(from, width)]);
	if (encoder_wants(ref->request, 1))
		memcpy(output_numbers(ref, 1, width), from, width * sizeof(*from));
}

static void
write_number(const struct encoder_model *m, const struct encoder_row_ref *ref, const float *from)
{
	if (encoder_wants(ref->request, 0))
		*output_numbers(ref, 0, 1) = from[0];
}

/* ---- entities ---- */

struct found						/* of a row: for one token each */
{
	int32_t    *labels;
	float	   *scores;
	struct entity *entities;
	int32_t    *types;
	int32_t    *places;				/* [2] */
	float	   *values;
};

static void
found_free(struct found *found)
{
	free(found->labels);
	free(found->scores);
	free(found->entities);
	free(found->types);
	free(found->places);
	free(found->values);
}

static bool
found_make(struct found *found, uint32_t tokens)
{
	*found = (struct found) {
		.labels = calloc(tokens, sizeof(*found->labels)),
		.scores = calloc(tokens, sizeof(*found->scores)),
		.entities = calloc(tokens, sizeof(*found->entities)),
		.types = calloc(tokens, sizeof(*found->types)),
		.places = calloc(tokens, 2 * sizeof(*found->places)),
		.values = calloc(tokens, sizeof(*found->values))
	};
	if (found->labels != NULL && found->scores != NULL && found->entities != NULL && found->types != NULL &&
		found->places != NULL && found->values != NULL)
		return true;
	found_free(found);
	return false;
}

/* Entities within the prompt are none of the text's. */
static uint32_t
entities_convert(const struct encoder_model *m, const struct encoder_row *row, struct found *found, uint32_t count)
{
	int32_t		prompt = (int32_t) row->prompt_characters;
	uint32_t	kept = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		const struct entity *entity = &found->entities[i];

		if (entity->start < prompt)
			continue;
		found->types[kept] = m->entity_types[entity->type];
		found->places[2 * kept] = entity->start - prompt;
		found->places[2 * kept + 1] = entity->end - prompt;
		found->values[kept++] = (float) entity->score;
	}
	return kept;
}

static void
write_entities(const struct encoder_model *m, const struct encoder_row_ref *ref, const float *from)
{
	const struct encoder_request *prepared = encoder_prepared(ref->request);
	const struct encoder_row *row = &prepared->rows[ref->row];
	uint32_t	width = m->program.result_width;
	struct entity_tokens tokens = {
		.count = row->tokens, .sources = prepared->sources + row->first, .places = prepared->places + row->first
	};
	struct found found;
	uint32_t	count;

	if (!found_make(&found, row->tokens))
	{
		model_row_error(ref->request, ref->row, INFER_ERROR_MEMORY, "out of memory for the entities of a text", NULL, NULL);
		return;
	}
	for (uint32_t i = 0; i < row->tokens; i++)
	{
		found.labels[i] = (int32_t) highest(from + (uint64_t) i * width, width);
		found.scores[i] = from[(uint64_t) i * width + (uint32_t) found.labels[i]];
	}
	tokens.labels = found.labels;
	tokens.scores = found.scores;
	count = entities_find(m->entities, &tokens, ENTITIES_SIMPLE, prepared->texts + row->text_first, row->text_bytes,
						  found.entities);
	count = entities_convert(m, row, &found, count);
	model_reply_varying(ref->request, 0, ref->row, found.types, count);
	model_reply_varying(ref->request, 1, ref->row, found.places, (uint64_t) 2 * count);
	model_reply_varying(ref->request, 2, ref->row, found.values, count);
	found_free(&found);
}

/* ---- a part ---- */

static void
write_row(const struct encoder_model *m, const struct encoder_row_ref *ref, const float *from)
{
	switch (m->encoder->task)
	{
		case ENCODER_EMBEDDING:
			write_embedding(m, ref, from);
			break;
		case ENCODER_CLASSIFIER:
			write_classes(m, ref, from);
			break;
		case ENCODER_RERANKER:
		case ENCODER_REGRESSION:
			write_number(m, ref, from);
			break;
		case ENCODER_ENTITIES:
			write_entities(m, ref, from);
			break;
	}
}

void
encoder_scatter(const struct encoder_run *run, const struct encoder_part *part)
{
	const struct encoder_model *m = run->m;
	const struct encoder_buffers *b = run->buffers;
	const float *results = b->bindings[ENCODER_RESULT];
	uint64_t	width = m->program.result_width;

	for (uint32_t row = 0; row < part->rows; row++)
	{
		const struct encoder_row_ref *ref = &b->refs[row];
		bool		tokens = m->program.result_lead == DEVICE_LEAD_TOKENS;
		const float *from = results + (tokens ? b->row_off[row] : row) * width;
		uint64_t	count = tokens ? (b->row_off[row + 1] - b->row_off[row]) * width : width;

		if (b->row_error[row] != INFER_OK)
			model_row_error(ref->request, ref->row, b->row_error[row],
							b->row_message[row] == NULL ? "the row cannot be computed" : b->row_message[row], NULL, NULL);
		else if (!all_finite(from, count))
			report_not_finite(m, ref);
		else
			write_row(m, ref, from);
	}
}
