/*
 * model_sets.c
 *	  Sets of buffers: each run has its own, of its queue's memory where a device has such, and what they take is
 *	  counted once.
 */
#include "tap.h"

#include <stdlib.h>

#include "engine/device.h"
#include "engine/model/model.h"
#include "engine/model/sets.h"
#include "engine/status.h"

#define GPUS	4

static void
some_info(struct device *device, struct device_info *info)
{
	*info = (struct device_info) {.threads = GPUS};
}

static void *
some_memory(struct device *device, struct device_queue *queue, int kind, uint64_t bytes, struct status *status)
{
	return NULL;
}

static const struct device_ops cpu_ops = {.info = some_info};
static const struct device_ops gpu_ops = {.info = some_info, .buffer_alloc = some_memory};

static void
free_all(struct model_sets *sets)
{
	struct model_set *set;

	while ((set = model_sets_close(sets)) != NULL)
		free(set);
	model_sets_destroy(sets);
}

static void
test_cpu(void)
{
	struct device cpu = {.ops = &cpu_ops};
	struct model model = {0};
	struct model_sets sets;
	struct status status = {0};
	struct model_set *first, *second;

	model_sets_init(&sets, &model, &cpu, sizeof(struct model_set));
	first = model_sets_take(&sets, NULL, &status);
	second = model_sets_take(&sets, NULL, &status);
	model_sets_count(&sets, first, 1000);
	model_sets_count(&sets, second, 100);
	model_sets_count(&sets, first, 2000);
	tap_ok(first != second && model.bytes == 2100, "two runs at once have a set each, and both count");
	model_sets_give(&sets, second);
	model_sets_give(&sets, first);
	tap_ok(model_sets_take(&sets, (struct device_queue *) &cpu, &status) == first, "the one that was given back last is taken, whatever the queue");
	model_sets_give(&sets, first);
	free_all(&sets);
}

static void
test_gpus(void)
{
	struct device host = {.ops = &cpu_ops};
	struct device gpus = {.ops = &gpu_ops, .host = &host};
	struct model model = {.bytes = 500};	/* of weights, on each */
	struct model_sets sets;
	struct status status = {0};
	struct model_set *of[GPUS];
	char		queues[GPUS];
	bool		own = true;

	model_sets_init(&sets, &model, &gpus, sizeof(struct model_set));
	for (int i = 0; i < GPUS; i++)
	{
		of[i] = model_sets_take(&sets, (struct device_queue *) &queues[i], &status);
		model_sets_count(&sets, of[i], 1000);
	}
	tap_ok(model.bytes == 1500, "sets on several GPUs count as what they take of one");
	for (int i = 0; i < GPUS; i++)
		model_sets_give(&sets, of[i]);
	for (int i = 0; i < GPUS; i++)
		own = own && model_sets_take(&sets, (struct device_queue *) &queues[i], &status) == of[i];
	tap_ok(own, "each queue has its own back");
	for (int i = 0; i < GPUS; i++)
	{
		model_sets_count(&sets, of[i], 0);
		model_sets_give(&sets, of[i]);
	}
	tap_ok(model.bytes == 500, "and nothing stays when they are empty");
	free_all(&sets);
}

int
main(void)
{
	test_cpu();
	test_gpus();
	return tap_done();
}
