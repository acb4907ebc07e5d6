/*
 * gemm.c
 *	  The share of a core's multiply-add peak that products with packed weights reach, on one
 *	  thread or N; the peak of one core is measured in the same run, around each product.
 *
 *	gemm [--quick] [--threads N] [ARCH]
 *
 * Goal: 85 % for M ≥ 8 on (K, N) = 384 × 1536.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/kernels/kernels.h"
#include "engine/device.h"
#include "engine/status.h"

static const struct cpu_kernels *kernels;
static double peak_flops;			/* per second; the best seen */
static double seconds = 0.1;		/* of each measurement */

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* The best of several: a machine that is shared only ever makes things slower. */
static double
measure_peak(void)
{
	double		best = 0;

	for (int i = 0; i < 10; i++)
	{
		double		start = now();
		double		rate = kernels->f32.peak(200000) / (now() - start);

		best = rate > best ? rate : best;
	}
	return best;
}

static void *
memory(size_t bytes)
{
	void	   *p;

	if (posix_memalign(&p, 64, bytes) != 0)
		abort();
	memset(p, 0, bytes);
	return p;
}

static double
measure(struct device *device, struct device_queue *queue, struct device_program *program, int64_t m,
		void *const *bindings)
{
	struct device_batch batch = {.items = {1, (uint32_t) m}};
	void	   *arena = memory(device->ops->arena_bytes(program, batch.items) + 64);
	struct status status;
	double		best = 1e9;
	double		start = now();
	int			runs = 0;

	while (now() - start < seconds || runs < 5)
	{
		double		begin = now();

		device->ops->enqueue(queue, program, 0, UINT32_MAX, &batch, bindings, arena, &status);
		best = now() - begin < best ? now() - begin : best;
		runs++;
	}
	free(arena);
	return best;
}

static void
product(struct device *device, struct device_queue *queue, int64_t k, int64_t n)
{
	static const int64_t rows[] = {1, 2, 4, 8, 14, 32, 128, 512};
	struct status status = {0};
	float	   *w = memory((size_t) (k * n) * 4);
	struct device_weight_desc desc = {.type = DEVICE_F32, .k = k, .n = n, .stride_k = n, .stride_n = 1, .data = w};
	struct device_weight *weight;
	struct device_tensor tensors[2] = {
		{.type = DEVICE_F32, .lead = DEVICE_LEAD_ROWS, .rank = 1, .dims = {k}, .binding = 0},
		{.type = DEVICE_F32, .lead = DEVICE_LEAD_ROWS, .rank = 1, .dims = {n}, .binding = 1}
	};
	int32_t		inputs[2] = {0, -1};
	struct device_op op = {.op = DEVICE_OP_GEMM, .inputs_count = 2, .inputs = inputs, .output = 1, .node = -1};
	struct device_graph graph = {
		.tensors_count = 2, .tensors = tensors, .ops_count = 1, .ops = &op, .weights_count = 1,
		.weights = &weight, .bindings_count = 2
	};
	struct device_program *program;
	void	   *bindings[2] = {memory((size_t) (512 * k) * 4), memory((size_t) (512 * n) * 4)};

	for (int64_t i = 0; i < k * n; i++)
		w[i] = (float) (i % 17 - 8) / 16;
	for (int64_t i = 0; i < 512 * k; i++)
		((float *) bindings[0])[i] = (float) (i % 13 - 6) / 8;
	weight = device->ops->weight_pack(device, &desc, &status);
	program = weight == NULL ? NULL : device->ops->compile(device, &graph, &status);
	if (program == NULL)
	{
		fprintf(stderr, "%s\n", status.message);
		exit(1);
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
	{
		double		time = measure(device, queue, program, rows[i], bindings);
		double		rate = 2.0 * (double) (rows[i] * k * n) / time;

		printf("gemm f32 %5lld x %5lld x %5lld  %9.1f us  %7.1f GFLOP/s  %5.1f %% of peak\n",
			   (long long) rows[i], (long long) k, (long long) n, time * 1e6, rate / 1e9,
			   100 * rate / peak_flops);
	}
	device->ops->program_free(device, program);
	device->ops->weight_free(device, weight);
	free(w);
	free(bindings[0]);
	free(bindings[1]);
}

int
main(int argc, char **argv)
{
	struct device_options options = {.threads = 1};
	struct status status = {0};
	struct device *device;
	struct device_queue *queue;
	struct device_info info;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--quick") == 0)
			seconds = 0.02;
		else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
			options.threads = atoi(argv[++i]);
		else
			options.arch = argv[i];
	device = device_open("cpu", &options, &status);
	if (device == NULL)
	{
		fprintf(stderr, "%s\n", status.message);
		return 1;
	}
	device->ops->info(device, &info);
	kernels = &cpu_kernels_scalar;
#ifdef __x86_64__
	if (strcmp(info.arch, "avx2") == 0)
		kernels = &cpu_kernels_avx2;
	if (strcmp(info.arch, "avx512") == 0)
		kernels = &cpu_kernels_avx512;
#endif
	queue = device->ops->queue_create(device, 0, &status);
	peak_flops = measure_peak();
	printf("%s, %s, %u threads: peak of one core %.1f GFLOP/s f32\n", info.description, info.arch, info.threads,
		   peak_flops / 1e9);
	peak_flops *= info.threads;
	product(device, queue, 384, 1536);
	product(device, queue, 1536, 384);
	product(device, queue, 784, 2048);
	product(device, queue, 2048, 2048);
	device->ops->queue_free(queue);
	device->ops->close(device);
	return 0;
}
