/*
 * lengths.c
 *	  Where a graph is run as it is: what the rows of one length take of memory and time, and their tokens.
 */
#include "encoder_model.h"

#include "../../status.h"

/* ---- tokens ---- */

void
encoder_graph_bindings(const struct encoder_run *run, const struct encoder_part *part, void *bindings[ENCODER_GRAPH_BINDINGS])
{
	const struct text_graph_program *graph = part->graph;
	const struct encoder_buffers *b = run->buffers;

	if (graph->ids.binding >= 0)
		bindings[graph->ids.binding] = b->graph_ids.data;
	if (graph->types.binding >= 0)
		bindings[graph->types.binding] = b->graph_types.data;
	bindings[graph->output] = b->bindings[run->m->program.bound[ENCODER_GIVEN] ? ENCODER_GIVEN : ENCODER_RESULT];
}

/* from NULL: zeros. */
static void
put_tokens(uint8_t *to, uint8_t type, const int32_t *from, uint32_t row, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		int32_t		number = from == NULL ? 0 : from[i];

		if (type == DEVICE_I64)
			((int64_t *) to)[(uint64_t) row * count + i] = number;
		else
			((int32_t *) to)[(uint64_t) row * count + i] = number;
	}
}

void
encoder_graph_gather(struct encoder_run *run, const struct encoder_part *part, const struct encoder_row_ref *ref, uint32_t row)
{
	const struct encoder_request *prepared = encoder_prepared(ref->request);
	const struct encoder_row *from = &prepared->rows[ref->row];
	const struct text_graph_program *graph = part->graph;

	if (graph->ids.binding >= 0)
		put_tokens(run->buffers->graph_ids.data, graph->ids.type, prepared->ids + from->first, row, from->tokens);
	if (graph->types.binding >= 0)
		put_tokens(run->buffers->graph_types.data, graph->types.type,
				   prepared->types == NULL ? NULL : prepared->types + from->first, row, from->tokens);
}

/* ---- memory ---- */

uint32_t
encoder_graph_rows(const struct encoder_model *m, const struct text_graph_program *program)
{
	uint64_t	row = program->row_bytes > 0 ? program->row_bytes : 1;
	uint64_t	rows = m->part_bytes / row;

	if (rows < ENCODER_PART_TOKENS / program->length)
		rows = ENCODER_PART_TOKENS / program->length;
	if (rows > m->part_tokens / program->length)
		rows = m->part_tokens / program->length;
	if (rows > m->work_left / row)
		rows = m->work_left / row;
	return rows < 1 ? 1 : (uint32_t) rows;
}

/* ---- time ---- */

/* Of a row of that length among many. */
static bool
measure_length(struct encoder_model *m, uint32_t length, double *nsec, uint64_t *bytes, struct status *status)
{
	struct text_graph *graph = m->encoder->graph;
	struct text_graph_program *program = text_graph_take(graph, length, NULL, status);
	struct device_batch batch = {.items = {[DEVICE_LEAD_NONE] = 1, [DEVICE_LEAD_ROWS] = 64}};

	if (program == NULL)
		return false;
	*nsec = (double) m->device->ops->estimate_nsec(m->device, program->program, &batch) / 64;
	*bytes = text_graph_bytes(graph, program, 1);
	text_graph_give(graph, program);
	return true;
}

/* The parabola through what texts of three lengths cost: a + b · n + c · n², none of them below 0. */
static void
fit(const double lengths[3], const double nsec[3], double coefficients[3])
{
	double		first = (nsec[1] - nsec[0]) / (lengths[1] - lengths[0]);
	double		second = (nsec[2] - nsec[1]) / (lengths[2] - lengths[1]);
	double		c = (second - first) / (lengths[2] - lengths[0]);
	double		b, a;

	c = c < 0 ? 0 : c;
	b = (nsec[2] - nsec[0]) / (lengths[2] - lengths[0]) - c * (lengths[2] + lengths[0]);
	b = b < 0 ? 0 : b;
	a = nsec[0] - b * lengths[0] - c * lengths[0] * lengths[0];
	coefficients[0] = a < 0 ? 0 : a;
	coefficients[1] = b;
	coefficients[2] = c;
}

bool
encoder_graph_measure(struct encoder_model *m, struct status *status)
{
	uint32_t	longest = m->encoder->tokens_max;
	double		lengths[3] = {longest / 4, longest / 2, longest};
	double		nsec[3];

	if (m->encoder->graph == NULL)
		return true;
	if (longest < 4)
		return measure_length(m, longest, &m->graph_nsec[0], &m->work_longest, status);
	for (int i = 0; i < 3; i++)
		if (!measure_length(m, (uint32_t) lengths[i], &nsec[i], &m->work_longest, status))
			return false;
	fit(lengths, nsec, m->graph_nsec);
	return true;
}
