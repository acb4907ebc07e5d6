/*
 * predict.c
 *	  See predict.h.
 *
 * The policy sees a model's times as a line, which is drawn anew while little is known, and
 * then now and again: it costs more than the smallest batches should.
 */
#include "predict.h"

#define LINE_ALWAYS		32			/* batches after which the line is drawn less often, */
#define LINE_EVERY		16			/* each so many */
#define WARM_BATCHES	8			/* predictions before are not judged */

uint64_t
predict_prior(struct entry *entry, uint32_t rows)
{
	struct model_cost cost = {.rows = rows};

	return entry->model->ops->estimate_nsec == NULL ? 0 : entry->model->ops->estimate_nsec(entry->model, &cost);
}

uint64_t
predict_nsec(struct entry *entry, uint32_t rows)
{
	uint32_t	mean = latency_mean_rows(&entry->latency);

	if (latency_is_known(&entry->latency, rows))
		return latency_estimate(&entry->latency, rows, 0, 0);
	return latency_estimate(&entry->latency, rows, predict_prior(entry, rows), mean > 0 ? predict_prior(entry, mean) : 0);
}

static void
draw_line(struct engine *engine, struct entry *entry)
{
	struct batch_model *queue = &entry->queue;
	uint32_t	most = queue->rows_max < engine->policy.rows_max ? queue->rows_max : engine->policy.rows_max;
	uint64_t	one = predict_nsec(entry, 1);
	uint64_t	all = most > 1 ? predict_nsec(entry, most) : one;

	queue->nsec_row = most > 1 && all > one ? (all - one) / (most - 1) : 0;
	if (most == 1)
		queue->nsec_row = one;
	queue->nsec_batch = one > queue->nsec_row ? one - queue->nsec_row : 0;
}

void
predict_learn(struct engine *engine, struct entry *entry, uint32_t rows, uint64_t predicted, uint64_t nsec)
{
	if (entry->measured >= WARM_BATCHES)
		latency_errors_record(&entry->latency_errors, predicted, nsec);
	latency_record(&entry->latency, rows, nsec);
	entry->measured++;
	if (entry->measured <= LINE_ALWAYS || entry->measured % LINE_EVERY == 0)
		draw_line(engine, entry);
}

void
predict_reset(struct engine *engine, struct entry *entry)
{
	entry->latency = (struct latency) {0};
	entry->latency_errors = (struct latency_errors) {0};
	entry->measured = 0;
	draw_line(engine, entry);
}
