/*
 * sets.c
 *	  See sets.h.
 */
#include "sets.h"

#include <stdlib.h>

#include "../device.h"
#include "../status.h"
#include "model.h"

void
model_sets_init(struct model_sets *sets, struct model *model, struct device *device, size_t set_size)
{
	struct device_info info = {0};

	device->ops->info(device, &info);
	*sets = (struct model_sets) {.model = model, .device = device, .set_size = set_size, .units = device_units(device, &info)};
	pthread_mutex_init(&sets->lock, NULL);
}

struct model_set *
model_sets_take(struct model_sets *sets, struct device_queue *queue, struct status *status)
{
	struct device_queue *place = device_has_memory(sets->device) ? queue : NULL;
	struct model_set **link = &sets->free, *set;

	pthread_mutex_lock(&sets->lock);
	while (*link != NULL && (*link)->place != place)
		link = &(*link)->next;
	set = *link;
	if (set != NULL)
		*link = set->next;
	pthread_mutex_unlock(&sets->lock);
	if (set != NULL)
		return set;
	set = calloc(1, sets->set_size);
	if (set == NULL)
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a batch");
	else
		set->place = place;
	return set;
}

void
model_sets_give(struct model_sets *sets, struct model_set *set)
{
	pthread_mutex_lock(&sets->lock);
	set->next = sets->free;
	sets->free = set;
	pthread_mutex_unlock(&sets->lock);
}

void
model_sets_count(struct model_sets *sets, struct model_set *set, uint64_t bytes)
{
	uint64_t	share = bytes / sets->units;

	__atomic_fetch_add(&sets->model->bytes, share - set->bytes, __ATOMIC_RELAXED);
	set->bytes = share;
}

struct model_set *
model_sets_close(struct model_sets *sets)
{
	struct model_set *set = sets->free;

	if (set != NULL)
		sets->free = set->next;
	return set;
}

void
model_sets_destroy(struct model_sets *sets)
{
	pthread_mutex_destroy(&sets->lock);
}
