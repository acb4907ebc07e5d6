/*
 * trees.c
 *	  Rows a second of a model of tree ensembles, inside the engine's graph on the CPU device.
 *
 *	trees [--threads N] [--seconds S] MODEL.onnx ROWS.f32 FEATURES COUNT...
 *
 * ROWS.f32 holds rows of FEATURES little-endian float32 numbers.  For each COUNT the first so
 * many of them are run again and again as one batch; the best time counts, as a machine
 * that is shared only ever makes things slower.  bench/trees.py calls this beside its peers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device.h"
#include "engine/graph/graph.h"
#include "engine/model/files.h"
#include "engine/model/graph/graph_model.h"
#include "engine/model/model.h"
#include "engine/status.h"

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void *
memory(size_t bytes)
{
	void	   *p;

	if (posix_memalign(&p, 64, bytes + 64) != 0)
		abort();
	memset(p, 0, bytes + 64);
	return p;
}

static void
fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static float *
rows_read(const char *path, size_t numbers)
{
	float	   *x = memory(numbers * sizeof(float));
	FILE	   *file = fopen(path, "rb");

	if (file == NULL || fread(x, sizeof(float), numbers, file) != numbers)
		fail("cannot read the rows");
	fclose(file);
	return x;
}

/* The program of a model, with its inputs and outputs as bindings. */
static void
measure(struct device *device, const struct graph *graph, float *x, uint32_t rows, double seconds)
{
	struct status status = {0};
	struct device_queue *queue = device->ops->queue_create(device, 0, &status);
	struct device_batch batch = {.items = {1, rows}};
	void	   *arena = memory(device->ops->arena_bytes(graph->program, batch.items));
	void	  **bindings = calloc(graph->bindings_count, sizeof(*bindings));
	double		best = 1e9;
	double		start;
	uint32_t	runs = 0;

	for (uint32_t b = 0; b < graph->bindings_count; b++)
	{
		const struct graph_value *v = graph_value(graph, graph->bindings[b]);

		bindings[b] = b == 0 ? (void *) x : memory((size_t) v->elements * device_type_bytes(v->type) * rows);
	}
	start = now();
	while (now() - start < seconds || runs < 3)
	{
		double		begin = now();

		device->ops->enqueue(queue, graph->program, 0, UINT32_MAX, &batch, bindings, arena, &status);
		best = now() - begin < best ? now() - begin : best;
		runs++;
	}
	printf("%u %.9f %.9f\n", rows, best, (double) device->ops->estimate_nsec(device, graph->program, &batch) * 1e-9);
	for (uint32_t b = 1; b < graph->bindings_count; b++)
		free(bindings[b]);
	free(bindings);
	free(arena);
	device->ops->queue_free(queue);
}

int
main(int argc, char **argv)
{
	struct device_options options = {.threads = 1};
	struct status status = {0};
	struct model_files files;
	struct device *device;
	struct model *model;
	uint32_t	features, most = 0;
	double		seconds = 0.5;
	float	   *x;
	int			at = 1;

	for (; at + 1 < argc && argv[at][0] == '-'; at += 2)
		if (strcmp(argv[at], "--threads") == 0)
			options.threads = atoi(argv[at + 1]);
		else if (strcmp(argv[at], "--seconds") == 0)
			seconds = atof(argv[at + 1]);
		else
			fail("unknown option");
	if (argc - at < 4)
		fail("usage: trees [--threads N] [--seconds S] MODEL.onnx ROWS.f32 FEATURES COUNT...");
	device = device_open("cpu", &options, &status);
	if (device == NULL || files_open_path(argv[at], &files, &status) != FILES_OK)
		fail(status.message);
	model = model_open(&files, "", device, &status);
	if (model == NULL)
		fail(status.message);
	features = (uint32_t) atoi(argv[at + 2]);
	for (int i = at + 3; i < argc; i++)
		most = (uint32_t) atoi(argv[i]) > most ? (uint32_t) atoi(argv[i]) : most;
	x = rows_read(argv[at + 1], (size_t) most * features);
	for (int i = at + 3; i < argc; i++)
		measure(device, graph_model_graph(model), x, (uint32_t) atoi(argv[i]), seconds);
	model_close(model);
	files_close(&files);
	free(x);
	device->ops->close(device);
	return 0;
}
