/*
 * counters.c
 *	  See counters.h.
 */
#include "counters.h"

#include <string.h>

#include "../engine.h"
#include "../process/process.h"

static struct class_counters *
counters_of(const struct request *request)
{
	return &request->entry->classes[request->batch.class_];
}

/* Its time up to now, which others may be ahead of. */
static uint64_t
unit_busy(const struct busy_clock *unit, uint64_t now)
{
	return unit->busy + (unit->segments > 0 && now > unit->since ? now - unit->since : 0);
}

static void
unit_advance(struct busy_clock *unit, uint64_t now)
{
	unit->busy = unit_busy(unit, now);
	if (now > unit->since)
		unit->since = now;
}

void
counters_segment_begins(struct busy_clock *unit, uint64_t now)
{
	unit_advance(unit, now);
	unit->segments++;
}

uint64_t
counters_segment_ends(struct busy_clock *unit, struct entry *entry, uint64_t began, uint64_t now)
{
	uint64_t	nsec = now > began ? now - began : 0;

	unit_advance(unit, now);
	unit->segments--;
	if (nsec > unit->busy - unit->charged)
		nsec = unit->busy - unit->charged;
	unit->charged += nsec;
	entry->segments++;
	return nsec;
}

void
counters_batch_ends(struct entry *entry, const struct batch *batch, uint64_t nsec, bool computed)
{
	uint32_t	seen = 0;

	entry->batches++;
	for (uint32_t i = 0; i < batch->slices_count; i++)
	{
		const struct batch_slice *slice = &batch->slices[i];
		struct class_counters *c = &entry->classes[slice->request->class_];

		if (computed)
		{
			c->rows += slice->count;
			c->tokens += slice->request->units != NULL ? slice->units : 0;
		}
		else
			c->cancelled += slice->count;
		c->compute_nsec += batch_part(batch, slice->cost, nsec);
		if ((seen & 1u << slice->request->class_) != 0)
			continue;
		seen |= 1u << slice->request->class_;
		c->batches++;
		c->batch_rows += batch->rows;
		c->filled += batch->filled;
		c->room += batch->room;
	}
}

void
counters_rows_waited(struct request *request, uint32_t rows, uint64_t nsec)
{
	counters_of(request)->queue_nsec += nsec * rows;
}

void
counters_rows_done(struct request *request, uint32_t failed, bool inline_)
{
	counters_of(request)->errors += failed;
	counters_of(request)->inline_calls += inline_;
}

void
counters_prepared(struct request *request, uint64_t nsec)
{
	counters_of(request)->prepare_nsec += nsec;
}

void
counters_rows_answered(struct request *request, uint32_t failed, bool inline_)
{
	counters_of(request)->rows += request->batch.rows;
	counters_rows_done(request, failed, inline_);
}

void
counters_call(struct request *request, uint32_t error)
{
	struct class_counters *c = counters_of(request);
	uint32_t	left = request->batch.rows - request->batch.done;

	c->calls++;
	if (error == INFER_ERROR_CANCELLED || error == INFER_ERROR_DEADLINE)
		c->cancelled += left;
	else if (error != INFER_OK)
		c->errors += left;
	if (request->batches == 0)
		return;
	histogram_add(&c->queue, request->queue_nsec);
	histogram_add(&c->compute, request->compute_nsec);
}

static uint64_t
busy_ever(const struct engine *engine, uint64_t now)
{
	uint64_t	busy = 0;

	for (uint32_t i = 0; i < engine->units_count; i++)
		busy += unit_busy(&engine->units[i], now);
	return busy;
}

uint64_t
counters_busy(const struct engine *engine, uint64_t now)
{
	uint64_t	busy = busy_ever(engine, now);

	return busy > engine->busy_before ? (busy - engine->busy_before) / engine->units_count : 0;
}

uint64_t
counters_elapsed(const struct engine *engine, uint64_t now)
{
	return now > engine->counted_from ? now - engine->counted_from : 1;
}

void
counters_reset_entry(struct entry *entry)
{
	memset(entry->classes, 0, sizeof(entry->classes));
	entry->batches = entry->segments = entry->interrupted = entry->segments_long = 0;
	entry->latency_errors = (struct latency_errors) {0};
}

void
counters_reset(struct engine *engine, uint64_t now)
{
	engine->since = process_time();
	engine->counted_from = now;
	engine->busy_before = busy_ever(engine, now);	/* of a batch that runs, what is left counts */
}
