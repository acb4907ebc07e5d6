/*
 * attention.c
 *	  What attention takes of an encoder's layer, by the length of rows: time per token, the
 *	  share of a core's multiply-add peak (measured in the same run) that its two products
 *	  reach, and the share of the layer's time; and what each primitive of the layer takes.
 *
 *	attention [--quick] [--threads N] [--hidden N] [--heads N] [--length N] [--bf16 | --bf16-heads] [ARCH]
 *
 * Goal: 15 % of a layer at rows of 128 tokens, for 12 heads of 32.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/kernels/kernels.h"
#include "engine/device.h"
#include "engine/status.h"

#define TOKENS	512				/* of a batch, at least: short enough to be let through on a busy machine */
#define TOKENS_MAX	2048

/* those of bf16 behind the others: what products read */
enum
{
	T_X, T_QKV, T_BIAS_QKV, T_HEADS, T_OUT, T_BIAS, T_SCALE, T_NORMED, T_UP, T_BIAS_UP, T_DOWN, T_Y,
	T_X_16, T_HEADS_16, T_NORMED_16, T_Y_16, T_QKV_16, TENSORS
};

struct layer_op
{
	const char *name;
	uint16_t	op;
	uint16_t	fn;
	int32_t		inputs[4];
	int32_t		output;
	int32_t		weight;
};

static const struct layer_op layer_f32[] = {
	{"qkv", DEVICE_OP_GEMM, UNARY_NONE, {T_X, T_BIAS_QKV}, T_QKV, 0},
	{"attention", DEVICE_OP_ATTENTION, 0, {T_QKV, -1}, T_HEADS, -1},
	{"output", DEVICE_OP_GEMM, UNARY_NONE, {T_HEADS, T_BIAS}, T_OUT, 1},
	{"norm", DEVICE_OP_NORM, NORM_LAYER, {T_OUT, T_X, T_SCALE, T_BIAS}, T_NORMED, -1},
	{"up + gelu", DEVICE_OP_GEMM, UNARY_GELU, {T_NORMED, T_BIAS_UP}, T_UP, 2},
	{"down", DEVICE_OP_GEMM, UNARY_NONE, {T_UP, T_BIAS}, T_DOWN, 3},
	{"norm", DEVICE_OP_NORM, NORM_LAYER, {T_DOWN, T_NORMED, T_SCALE, T_BIAS}, T_Y, -1}
};

static const struct layer_op layer_bf16[] = {
	{"qkv", DEVICE_OP_GEMM, UNARY_NONE, {T_X_16, T_BIAS_QKV}, T_QKV, 0},
	{"attention", DEVICE_OP_ATTENTION, 0, {T_QKV, -1}, T_HEADS, -1},
	{"cast", DEVICE_OP_CAST, 0, {T_HEADS}, T_HEADS_16, -1},
	{"output", DEVICE_OP_GEMM, UNARY_NONE, {T_HEADS_16, T_BIAS}, T_OUT, 1},
	{"norm", DEVICE_OP_NORM, NORM_LAYER, {T_OUT, T_X, T_SCALE, T_BIAS}, T_NORMED, -1},
	{"cast", DEVICE_OP_CAST, 0, {T_NORMED}, T_NORMED_16, -1},
	{"up + gelu", DEVICE_OP_GEMM, UNARY_GELU, {T_NORMED_16, T_BIAS_UP}, T_UP, 2},
	{"down", DEVICE_OP_GEMM, UNARY_NONE, {T_UP, T_BIAS}, T_DOWN, 3},
	{"norm", DEVICE_OP_NORM, NORM_LAYER, {T_DOWN, T_NORMED, T_SCALE, T_BIAS}, T_Y, -1},
	{"cast", DEVICE_OP_CAST, 0, {T_Y}, T_Y_16, -1}
};

/* Where the device has attention in bf16. */
static const struct layer_op layer_heads[] = {
	{"qkv", DEVICE_OP_GEMM, UNARY_NONE, {T_X_16, T_BIAS_QKV}, T_QKV_16, 0},
	{"attention", DEVICE_OP_ATTENTION, 0, {T_QKV_16, -1}, T_HEADS_16, -1},
	{"output", DEVICE_OP_GEMM, UNARY_NONE, {T_HEADS_16, T_BIAS}, T_OUT, 1},
	{"norm", DEVICE_OP_NORM, NORM_LAYER, {T_OUT, T_X, T_SCALE, T_BIAS}, T_NORMED, -1},
	{"cast", DEVICE_OP_CAST, 0, {T_NORMED}, T_NORMED_16, -1},
	{"up + gelu", DEVICE_OP_GEMM, UNARY_GELU, {T_NORMED_16, T_BIAS_UP}, T_UP, 2},
	{"down", DEVICE_OP_GEMM, UNARY_NONE, {T_UP, T_BIAS}, T_DOWN, 3},
	{"norm", DEVICE_OP_NORM, NORM_LAYER, {T_DOWN, T_NORMED, T_SCALE, T_BIAS}, T_Y, -1},
	{"cast", DEVICE_OP_CAST, 0, {T_Y}, T_Y_16, -1}
};

#define OPS_MAX		10
#define O_ATTENTION	1

static const struct cpu_kernels *kernels;
static double peak_flops;			/* per second, of all threads */
static double seconds = 0.1;
static bool one_thread;
static bool bf16;					/* what products are computed in */
static const struct layer_op *layer_ops = layer_f32;
static uint32_t layer_ops_count = sizeof(layer_f32) / sizeof(*layer_f32);
static int64_t hidden = 384;
static int64_t heads = 12;

/* One thread's own time where there is but one, so that others on the machine count less. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
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

static struct device_weight *
weight(struct device *device, int64_t k, int64_t n, struct status *status)
{
	float	   *w = memory((size_t) (k * n) * 4);
	struct device_weight_desc desc = {.type = DEVICE_F32, .precision = bf16 ? DEVICE_PRECISION_BF16 : DEVICE_PRECISION_FULL, .k = k, .n = n, .stride_k = n, .stride_n = 1, .data = w};
	struct device_weight *packed;

	for (int64_t i = 0; i < k * n; i++)
		w[i] = (float) (i * 7919 % 17 - 8) / 200;
	packed = device->ops->weight_pack(device, &desc, status);
	free(w);
	return packed;
}

static struct device_tensor
tensor(uint8_t lead, int64_t n)
{
	return (struct device_tensor) {.type = DEVICE_F32, .lead = lead, .rank = 1, .dims = {n}};
}

/* A post-norm layer. */
static struct device_program *
layer(struct device *device, struct device_tensor *tensors, struct device_weight **weights, struct status *status)
{
	struct device_op ops[OPS_MAX];
	struct device_graph graph = {
		.tensors_count = TENSORS, .tensors = tensors, .ops_count = layer_ops_count, .ops = ops, .weights_count = 4,
		.weights = weights, .bindings_count = TENSORS
	};

	for (int t = 0; t < TENSORS; t++)
		tensors[t] = tensor(DEVICE_LEAD_TOKENS, hidden);
	tensors[T_QKV_16] = tensors[T_QKV] = tensor(DEVICE_LEAD_TOKENS, 3 * hidden);
	tensors[T_UP] = tensor(DEVICE_LEAD_TOKENS, 4 * hidden);
	tensors[T_BIAS_QKV] = tensor(DEVICE_LEAD_NONE, 3 * hidden);
	tensors[T_BIAS_UP] = tensor(DEVICE_LEAD_NONE, 4 * hidden);
	tensors[T_BIAS] = tensors[T_SCALE] = tensor(DEVICE_LEAD_NONE, hidden);
	for (int t = 0; t < TENSORS; t++)
		tensors[t].binding = t;
	for (int t = T_X_16; t < TENSORS; t++)
		tensors[t].type = DEVICE_BF16;
	if (bf16)
		tensors[T_UP].type = DEVICE_BF16;
	for (uint32_t o = 0; o < layer_ops_count; o++)
	{
		const struct layer_op *from = &layer_ops[o];

		ops[o] = (struct device_op) {
			.op = from->op, .fn = from->fn, .inputs = from->inputs, .output = from->output, .weight = from->weight,
			.inputs_count = from->op == DEVICE_OP_NORM ? 4 : from->op == DEVICE_OP_CAST ? 1 : 2, .node = -1
		};
		if (from->op == DEVICE_OP_NORM)
			ops[o].f[0] = 1e-12;
		if (from->op == DEVICE_OP_ATTENTION)
		{
			ops[o].i[0] = heads;
			ops[o].i[1] = hidden / heads;
			ops[o].f[0] = 1 / sqrt((double) hidden / (double) heads);
		}
	}
	weights[0] = weight(device, hidden, 3 * hidden, status);
	weights[1] = weight(device, hidden, hidden, status);
	weights[2] = weight(device, hidden, 4 * hidden, status);
	weights[3] = weight(device, 4 * hidden, hidden, status);
	for (int w = 0; w < 4; w++)
		if (weights[w] == NULL)
			return NULL;
	return device->ops->compile(device, &graph, status);
}

/* The best time of each op, nsec per token. */
static void
measure(struct device *device, struct device_queue *queue, struct device_program *program, uint32_t length,
		void *const *bindings, double *nsec)
{
	uint32_t	rows = length < TOKENS ? TOKENS / length : 1;
	uint32_t   *row_off = memory((rows + 1) * sizeof(*row_off));
	struct device_batch batch = {.items = {1, rows, rows * length}, .row_off = row_off};
	void	   *arena = memory(device->ops->arena_bytes(program, batch.items) + 64);
	struct status status = {0};
	double		start = now();
	int			runs = 0;

	for (uint32_t row = 0; row <= rows; row++)
		row_off[row] = row * length;
	batch.pairs = (uint64_t) rows * length * length;
	for (uint32_t o = 0; o < layer_ops_count; o++)
		nsec[o] = 1e9;
	while (now() - start < layer_ops_count * seconds || runs < 3)
	{
		for (uint32_t o = 0; o < layer_ops_count; o++)
		{
			double		begin = now();
			double		taken;

			if (device->ops->enqueue(queue, program, o, o + 1, &batch, bindings, arena, &status) == 0)
			{
				fprintf(stderr, "%s\n", status.message);
				exit(1);
			}
			taken = (now() - begin) * 1e9 / (rows * length);
			nsec[o] = taken < nsec[o] ? taken : nsec[o];
		}
		runs++;
	}
	free(arena);
	free(row_off);
}

static double
share_of_peak(double flops, double nsec)
{
	return 100 * flops / (nsec * 1e-9 * peak_flops);
}

int
main(int argc, char **argv)
{
	static const uint32_t lengths[] = {1, 8, 16, 32, 64, 128, 256, 512, 2048};
	struct device_options options = {.threads = 1};
	struct status status = {0};
	struct device *device;
	struct device_queue *queue;
	struct device_info info;
	struct device_tensor tensors[TENSORS];
	struct device_weight *weights[4];
	struct device_program *program;
	void	   *bindings[TENSORS];
	uint32_t	only = 0;

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--quick") == 0)
			seconds = 0.02;
		else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
			options.threads = atoi(argv[++i]);
		else if (strcmp(argv[i], "--hidden") == 0 && i + 1 < argc)
			hidden = atoi(argv[++i]);
		else if (strcmp(argv[i], "--heads") == 0 && i + 1 < argc)
			heads = atoi(argv[++i]);
		else if (strcmp(argv[i], "--length") == 0 && i + 1 < argc)
			only = (uint32_t) atoi(argv[++i]);
		else if (strcmp(argv[i], "--bf16") == 0)
		{
			bf16 = true;
			layer_ops = layer_bf16;
			layer_ops_count = sizeof(layer_bf16) / sizeof(*layer_bf16);
		}
		else if (strcmp(argv[i], "--bf16-heads") == 0)
		{
			bf16 = true;
			layer_ops = layer_heads;
			layer_ops_count = sizeof(layer_heads) / sizeof(*layer_heads);
		}
		else
			options.arch = argv[i];
	one_thread = options.threads == 1;
	device = device_open("cpu", &options, &status);
	program = device == NULL ? NULL : layer(device, tensors, weights, &status);
	queue = program == NULL ? NULL : device->ops->queue_create(device, DEVICE_BATCHES, &status);
	if (queue == NULL)
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
	peak_flops = measure_peak() * info.threads;
	printf("%s, %s, %u threads: peak of all %.1f GFLOP/s f32; hidden %lld, %lld heads, %s\n", info.description, info.arch,
		   info.threads, peak_flops / 1e9, (long long) hidden, (long long) heads, bf16 ? "bf16" : "f32");
	for (int t = 0; t < TENSORS; t++)
	{
		size_t		count = (size_t) (tensors[t].dims[0] * (tensors[t].lead == DEVICE_LEAD_NONE ? 1 : TOKENS_MAX));

		bindings[t] = memory(count * sizeof(float));
		for (size_t i = 0; i < count; i++)
			if (tensors[t].type == DEVICE_F32)
				((float *) bindings[t])[i] = (float) (i * 7919 % 31) / 16 - 1;
			else
				((uint16_t *) bindings[t])[i] = i % 3 == 0 ? 0x3F80 : 0xBF40;	/* 1, −0.75 */
	}
	for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
	{
		double		nsec[OPS_MAX];
		double		all = 0;
		double		products = 2.0 * 12 * (double) (hidden * hidden);
		double		pairs = 4.0 * (double) hidden * lengths[l];

		if (only != 0 && lengths[l] != only)
			continue;
		measure(device, queue, program, lengths[l], bindings, nsec);
		for (uint32_t o = 0; o < layer_ops_count; o++)
			all += nsec[o];
		printf("rows of %4u tokens: attention %8.1f ns a token, %5.1f %% of peak, %5.1f %% of the layer; "
			   "layer %9.1f ns, %5.1f %% of peak\n",
			   lengths[l], nsec[O_ATTENTION], share_of_peak(pairs, nsec[O_ATTENTION]),
			   100 * nsec[O_ATTENTION] / all, all, share_of_peak(products + pairs, all));
		if (lengths[l] == 128)
			for (uint32_t o = 0; o < layer_ops_count; o++)
				printf("    %-10s %8.1f ns a token, %5.1f %% of the layer\n", layer_ops[o].name, nsec[o], 100 * nsec[o] / all);
	}
	device->ops->queue_free(queue);
	device->ops->program_free(device, program);
	for (int w = 0; w < 4; w++)
		device->ops->weight_free(device, weights[w]);
	for (int t = 0; t < TENSORS; t++)
		free(bindings[t]);
	device->ops->close(device);
	return 0;
}
