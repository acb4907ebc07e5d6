/*
 * lane.c
 *	  See lane.h.
 */
#include "lane.h"

#include <stdlib.h>

bool
lanes_open(struct engine *engine, struct status *status)
{
	uint32_t	count = engine->info.inflight_max < 1 ? 1 : engine->info.inflight_max;

	if (count > ENGINE_LANES_MAX)
		count = ENGINE_LANES_MAX;
	engine->lanes = calloc(count, sizeof(*engine->lanes));
	if (engine->lanes == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for the device's queues");
	engine->units_count = device_units(engine->device, &engine->info);
	if (engine->units_count > count)
		engine->units_count = 1;
	for (; engine->lanes_count < count; engine->lanes_count++)
	{
		struct lane *lane = &engine->lanes[engine->lanes_count];

		lane->unit = &engine->units[engine->lanes_count % engine->units_count];
		lane->queue = engine->device->ops->queue_create(engine->device, DEVICE_BATCHES, status);
		if (lane->queue == NULL)
			return status_set(status, INFER_ERROR_DEVICE, "the device has no queue");
	}
	return true;
}

struct lane *
lane_free(struct engine *engine)
{
	if (engine->alone)
		return NULL;
	for (uint32_t i = 0; i < engine->lanes_count; i++)
		if (!engine->lanes[i].taken)
			return &engine->lanes[i];
	return NULL;
}

/* Raises the page's beat if nobody is awaited; then all are. */
static void
beat(struct engine *engine)
{
	for (uint32_t i = 0; i < engine->lanes_count; i++)
		if (engine->lanes[i].taken && engine->lanes[i].silent)
			return;
	__atomic_fetch_add(&engine->page->device_beat, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < engine->lanes_count; i++)
		engine->lanes[i].silent = engine->lanes[i].taken;
}

void
lane_take(struct engine *engine, struct lane *lane)
{
	lane->taken = true;
	lane->silent = false;
	lane->ends = 0;
	engine->lanes_taken++;
}

void
lane_give(struct engine *engine, struct lane *lane)
{
	lane->taken = false;
	engine->lanes_taken--;
	if (engine->lanes_taken > 0)
		beat(engine);			/* it may have been the last one awaited */
}

void
lane_beat(struct engine *engine, struct lane *lane)
{
	if (engine->lanes_count == 1)
	{
		__atomic_fetch_add(&engine->page->device_beat, 1, __ATOMIC_RELAXED);
		return;
	}
	pthread_mutex_lock(&engine->lock);
	lane->silent = false;
	beat(engine);
	pthread_mutex_unlock(&engine->lock);
}

uint64_t
lanes_free_at(const struct engine *engine, uint64_t now)
{
	uint64_t	left = 0;

	for (uint32_t i = 0; i < engine->lanes_count; i++)
		if (engine->lanes[i].taken && engine->lanes[i].ends > now)
			left += engine->lanes[i].ends - now;
	return now + left / engine->units_count;
}
