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
#define WEIGHED_SLICES	8			/* of a batch of texts: a layer's products are well below an eighth of all */
#define WARM_BATCHES	8			/* predictions before are not judged */

static uint64_t
estimate(struct entry *entry, const struct model_cost *cost)
{
	return entry->model->ops->estimate_nsec == NULL ? 0 : entry->model->ops->estimate_nsec(entry->model, cost);
}

/* What the model itself predicts of so much cost, whatever its rows. */
static uint64_t
prior_of_cost(struct entry *entry, uint64_t cost)
{
	struct model_cost rows = {.rows = cost < UINT32_MAX ? (uint32_t) cost : UINT32_MAX};

	return entry->queue.weighed ? entry->prior_batch + cost : estimate(entry, &rows);
}

uint64_t
predict_prior(struct entry *entry, const struct batch *batch)
{
	struct model_cost cost = {.rows = batch->rows, .tokens = batch->units, .pairs = batch->pairs};
	uint64_t	prior;

	if (!entry->queue.weighed)
		return prior_of_cost(entry, batch->rows);
	prior = estimate(entry, &cost);
	return prior > 0 ? prior : prior_of_cost(entry, batch->cost);
}

static uint64_t
predict(struct entry *entry, uint64_t cost, const struct batch *batch)
{
	uint64_t	mean = latency_mean_cost(&entry->latency);

	if (latency_is_known(&entry->latency, cost))
		return latency_estimate(&entry->latency, cost, 0, 0);
	return latency_estimate(&entry->latency, cost, batch != NULL ? predict_prior(entry, batch) : prior_of_cost(entry, cost),
							mean > 0 ? prior_of_cost(entry, mean) : 0);
}

uint64_t
predict_nsec(struct entry *entry, uint64_t cost)
{
	return predict(entry, cost, NULL);
}

uint64_t
predict_batch(struct entry *entry, const struct batch *batch)
{
	return predict(entry, batch->cost, batch);
}

/* Where rows are weighed: the line from a usual row to what takes a slice. */
static void
draw_weighed(struct engine *engine, struct entry *entry)
{
	struct batch_model *queue = &entry->queue;
	uint64_t	less = queue->cost_row;
	uint64_t	more = engine->policy.slice > 8 * less ? engine->policy.slice : 8 * less;
	uint64_t	one = predict_nsec(entry, less);
	uint64_t	all = predict_nsec(entry, more);

	queue->nsec_row = all > one ? ((all - one) << BATCH_COST_SHIFT) / (more - less) : 0;
	if (queue->nsec_row == 0)
		queue->nsec_row = 1;
	queue->nsec_batch = 0;
	if (one > batch_nsec(queue, less))
		queue->nsec_batch = one - batch_nsec(queue, less);
}

static void
draw_line(struct engine *engine, struct entry *entry)
{
	struct batch_model *queue = &entry->queue;
	uint32_t	most = queue->rows_max < engine->policy.rows_max ? queue->rows_max : engine->policy.rows_max;
	uint64_t	one;
	uint64_t	all;

	if (queue->weighed)
	{
		draw_weighed(engine, entry);
		return;
	}
	one = predict_nsec(entry, 1);
	all = most > 1 ? predict_nsec(entry, most) : one;
	queue->nsec_row = most > 1 && all > one ? (all - one) / (most - 1) : 0;
	if (most == 1)
		queue->nsec_row = one;
	queue->nsec_batch = one > queue->nsec_row ? one - queue->nsec_row : 0;
}

/* Whether the model's rows are weighed, and what a usual one and a batch without rows cost then. */
static void
weigh(struct entry *entry)
{
	static const struct model_cost one = {.rows = 1};
	static const struct model_cost few = {.rows = 9};
	struct batch_model *queue = &entry->queue;
	uint64_t	alone;
	uint64_t	more;

	queue->weighed = entry->model->ops->prepare != NULL;
	queue->slices_max = queue->weighed ? WEIGHED_SLICES : 1;
	queue->cost_row = 1;
	entry->prior_batch = 0;
	if (!queue->weighed)
		return;
	alone = estimate(entry, &one);
	more = estimate(entry, &few);
	if (more > alone + few.rows)
		queue->cost_row = (more - alone) / (few.rows - 1);
	else if (alone > 0)
		queue->cost_row = alone;
	entry->prior_batch = alone > queue->cost_row ? alone - queue->cost_row : 0;
}

void
predict_learn(struct engine *engine, struct entry *entry, uint64_t cost, uint64_t predicted, uint64_t nsec)
{
	if (entry->measured >= WARM_BATCHES)
	{
		latency_errors_record(&entry->latency_errors, predicted, nsec);
		batch_took(&engine->policy, &entry->queue, predicted, nsec);
	}
	latency_record(&entry->latency, cost, nsec);
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
	entry->queue.stretch = BATCH_AS_PREDICTED;
	weigh(entry);
	draw_line(engine, entry);
}
