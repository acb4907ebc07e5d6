/*
 * encoder_products.c
 *	  Products of the shapes that text encoders have, in float32, bf16 and int8: the share of a
 *	  core's measured peak that they reach, and their rate against oneDNN's in the same run, which runs
 *	  whichever of its two primitives (matmul, inner product) is faster, its weights in the
 *	  layout that it asks for.  Then what an activation behind a product costs.
 *
 *	encoder_products [--quick] [--threads N] [ARCH]
 *
 * Goals: the rate of oneDNN or more; 93 % of the peak for 128 rows and more.  Without Debian's libdnnl-dev
 * the comparison is left out.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<dnnl.h>)
#include <dnnl.h>
#define HAVE_DNNL 1
#endif

#include "engine/cpu/cpu.h"

#define ROWS_MAX	512

struct shape
{
	int64_t		k;
	int64_t		n;
};

static const struct shape shapes[] = {
	{384, 384}, {384, 1152}, {384, 1536}, {1536, 384}, {768, 2304}, {768, 3072}, {3072, 768}
};
static const int64_t row_counts[] = {1, 8, 32, 128, 512};

static struct device *device;
static struct device_queue *queue;
static double seconds = 0.06;		/* of each measurement */
static double peaks[DEVICE_PRECISIONS];	/* operations per second on all threads */

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

/* ---- ours ---- */

struct product
{
	struct device_weight *weight;
	struct device_program *program;
	void	   *bindings[3];
	void	   *arena;
	int64_t		rows;
};

static const uint8_t input_types[] = {DEVICE_F32, DEVICE_BF16, DEVICE_Q8};

static struct product
product_make(int precision, struct shape s, uint16_t fn, uint8_t output)
{
	struct product p = {0};
	struct status status = {0};
	float	   *w = memory((size_t) (s.k * s.n) * 4);
	int64_t		wide = precision == DEVICE_PRECISION_INT8 ? s.k + DEVICE_Q8_SCALE : s.k;
	struct device_weight_desc desc = {
		.type = DEVICE_F32, .precision = (uint8_t) precision, .k = s.k, .n = s.n, .stride_k = s.n, .stride_n = 1, .data = w
	};
	struct device_tensor tensors[3] = {
		{.type = input_types[precision], .lead = DEVICE_LEAD_ROWS, .rank = 1, .dims = {wide}, .binding = 0},
		{.type = DEVICE_F32, .lead = DEVICE_LEAD_NONE, .rank = 1, .dims = {s.n}, .binding = 1},
		{.type = output, .lead = DEVICE_LEAD_ROWS, .rank = 1, .dims = {s.n}, .binding = 2}
	};
	int32_t		inputs[2] = {0, 1};
	struct device_op op = {.op = DEVICE_OP_GEMM, .fn = fn, .inputs_count = 2, .inputs = inputs, .output = 2, .node = -1};
	struct device_graph graph = {
		.tensors_count = 3, .tensors = tensors, .ops_count = 1, .ops = &op, .weights_count = 1,
		.weights = &p.weight, .bindings_count = 3
	};
	uint32_t	items[DEVICE_LEADS] = {1, ROWS_MAX};

	for (int64_t i = 0; i < s.k * s.n; i++)
		w[i] = (float) (i % 17 - 8) / 16;
	for (int i = 0; i < 3; i++)
		p.bindings[i] = memory((size_t) (ROWS_MAX * (tensors[i].dims[0] + 4)) * 4);
	for (int64_t i = 0; i < ROWS_MAX * wide; i++)
		if (precision == DEVICE_PRECISION_FULL)
			((float *) p.bindings[0])[i] = (float) (i % 13 - 6) / 8;
		else if (precision == DEVICE_PRECISION_BF16)
			((uint16_t *) p.bindings[0])[i] = (uint16_t) (0x3F80 + i % 13);
		else
			((uint8_t *) p.bindings[0])[i] = (uint8_t) (64 + i % 100);
	p.weight = device->ops->weight_pack(device, &desc, &status);
	p.program = p.weight == NULL ? NULL : device->ops->compile(device, &graph, &status);
	if (p.program == NULL)
		fail(status.message);
	p.arena = memory(device->ops->arena_bytes(p.program, items));
	free(w);
	return p;
}

static void
product_free(struct product *p)
{
	device->ops->program_free(device, p->program);
	device->ops->weight_free(device, p->weight);
	for (int i = 0; i < 3; i++)
		free(p->bindings[i]);
	free(p->arena);
}

static void
product_run(void *context)
{
	struct product *p = context;
	struct device_batch batch = {.items = {1, (uint32_t) p->rows}};
	struct status status;

	device->ops->enqueue(queue, p->program, 0, UINT32_MAX, &batch, p->bindings, p->arena, &status);
}

/* ---- theirs ---- */

#ifdef HAVE_DNNL
static dnnl_engine_t engine;
static dnnl_stream_t stream;

struct theirs
{
	dnnl_primitive_t primitive;
	dnnl_exec_arg_t args[4];
	dnnl_memory_t memories[4];
	void	   *blocks[4];
};

static const dnnl_data_type_t their_inputs[] = {dnnl_f32, dnnl_bf16, dnnl_u8};
static const dnnl_data_type_t their_weights[] = {dnnl_f32, dnnl_bf16, dnnl_s8};

static bool
their_memory(struct theirs *t, int i, int arg, const dnnl_memory_desc_t *desc)
{
	t->blocks[i] = memory(dnnl_memory_desc_get_size(desc));
	t->args[i].arg = arg;
	if (dnnl_memory_create(&t->memories[i], desc, engine, t->blocks[i]) != dnnl_success)
		return false;
	t->args[i].memory = t->memories[i];
	return true;
}

static bool
their_make(struct theirs *t, int precision, struct shape s, int64_t m, bool inner, bool gelu)
{
	dnnl_memory_desc_t x;
	dnnl_memory_desc_t w;
	dnnl_memory_desc_t b;
	dnnl_memory_desc_t y;
	dnnl_matmul_desc_t matmul;
	dnnl_inner_product_desc_t product;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_attr_t attr;
	dnnl_post_ops_t post;
	float	   *scales = memory((size_t) s.n * 4);
	dnnl_status_t made;

	memset(t, 0, sizeof(*t));
	dnnl_memory_desc_init_by_tag(&x, 2, (dnnl_dims_t) {m, s.k}, their_inputs[precision], dnnl_ab);
	dnnl_memory_desc_init_by_tag(&w, 2, (dnnl_dims_t) {inner ? s.n : s.k, inner ? s.k : s.n},
								 their_weights[precision], dnnl_format_tag_any);
	if (inner)
		dnnl_memory_desc_init_by_tag(&b, 1, (dnnl_dims_t) {s.n}, dnnl_f32, dnnl_a);
	else
		dnnl_memory_desc_init_by_tag(&b, 2, (dnnl_dims_t) {1, s.n}, dnnl_f32, dnnl_ab);
	dnnl_memory_desc_init_by_tag(&y, 2, (dnnl_dims_t) {m, s.n}, dnnl_f32, dnnl_ab);
	dnnl_primitive_attr_create(&attr);
	for (int64_t i = 0; i < s.n; i++)
		scales[i] = 0.01f;
	if (precision == DEVICE_PRECISION_INT8)
		dnnl_primitive_attr_set_output_scales(attr, s.n, 2, scales);
	if (gelu)
	{
		dnnl_post_ops_create(&post);
		dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_gelu_erf, 0, 0);
		dnnl_primitive_attr_set_post_ops(attr, post);
	}
	if (inner)
	{
		dnnl_inner_product_forward_desc_init(&product, dnnl_forward_inference, &x, &w, &b, &y);
		made = dnnl_primitive_desc_create(&desc, &product, attr, engine, NULL);
	}
	else
	{
		dnnl_matmul_desc_init(&matmul, &x, &w, &b, &y);
		made = dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL);
	}
	free(scales);
	if (made != dnnl_success || dnnl_primitive_create(&t->primitive, desc) != dnnl_success ||
		!their_memory(t, 0, DNNL_ARG_SRC, &x) ||
		!their_memory(t, 1, DNNL_ARG_WEIGHTS, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0)) ||
		!their_memory(t, 2, DNNL_ARG_BIAS, &b) || !their_memory(t, 3, DNNL_ARG_DST, &y))
		return false;
	return true;
}

static void
their_free(struct theirs *t)
{
	if (t->primitive != NULL)
		dnnl_primitive_destroy(t->primitive);
	for (int i = 0; i < 4; i++)
	{
		if (t->memories[i] != NULL)
			dnnl_memory_destroy(t->memories[i]);
		free(t->blocks[i]);
	}
}

static void
their_run(void *context)
{
	struct theirs *t = context;

	dnnl_primitive_execute(t->primitive, stream, 4, t->args);
	dnnl_stream_wait(stream);
}
#endif

/* ---- measuring ---- */

/* The best times of several that take turns. */
static void
measure(int count, void (*const *run) (void *), void **contexts, double *best)
{
	double		start = now();
	int			rounds = 0;

	for (int i = 0; i < count; i++)
		best[i] = 1e9;
	while (now() - start < seconds * count || rounds < 5)
	{
		for (int i = 0; i < count; i++)
		{
			/* a turn of some 200 µs: short ones follow one another, so that caches are their own */
			int			repeats = best[i] < 2e-4 ? (int) (2e-4 / best[i]) + 2 : 2;

			for (int r = 0; r < repeats; r++)
			{
				double		begin = now();
				double		taken;

				run[i] (contexts[i]);
				taken = now() - begin;
				best[i] = taken < best[i] ? taken : best[i];
			}
		}
		rounds++;
	}
}

static double
peak_of(double (*peak) (int64_t rounds))
{
	double		best = 0;

	for (int i = 0; i < 10 && peak != NULL; i++)
	{
		double		start = now();
		double		rate = peak(200000) / (now() - start);

		best = rate > best ? rate : best;
	}
	return best;
}

struct summary
{
	double		log_ratio;
	double		least_ratio;
	double		least_share;		/* of 128 rows and more */
	int			count;
};

static void
row(int precision, struct shape s, int64_t m, struct product *ours, struct summary *summary)
{
	void		(*run[3]) (void *) = {product_run};
	void	   *contexts[3] = {ours};
	double		best[3];
	int			count = 1;
	double		rate;
	double		share;

#ifdef HAVE_DNNL
	struct theirs theirs[2];

	for (int i = 0; i < 2; i++)
		if (their_make(&theirs[i], precision, s, m, i == 1, false))
		{
			run[count] = their_run;
			contexts[count++] = &theirs[i];
		}
#endif
	ours->rows = m;
	measure(count, run, contexts, best);
	rate = 2.0 * (double) (m * s.k * s.n) / best[0];
	share = rate / peaks[precision];
	printf("%-5s %4lld x %4lld x %4lld  %9.1f us  %7.1f GFLOP/s  %5.1f %% of peak", device_precision_name((uint8_t) precision),
		   (long long) m, (long long) s.k, (long long) s.n, best[0] * 1e6, rate / 1e9, 100 * share);
	if (m >= 128 && share < summary->least_share)
		summary->least_share = share;
	if (count > 1)
	{
		double		theirs_best = count > 2 && best[2] < best[1] ? best[2] : best[1];

		printf("  %5.2f of oneDNN (%.1f us)", theirs_best / best[0], theirs_best * 1e6);
		summary->log_ratio += log(theirs_best / best[0]);
		summary->least_ratio = fmin(summary->least_ratio, theirs_best / best[0]);
		summary->count++;
	}
	printf("\n");
	fflush(stdout);
#ifdef HAVE_DNNL
	for (int i = 0; i < 2; i++)
		their_free(&theirs[i]);
#endif
}

static void
products(int precision)
{
	struct summary summary = {.least_ratio = INFINITY, .least_share = INFINITY};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
	{
		struct product ours = product_make(precision, shapes[i], UNARY_NONE, DEVICE_F32);

		for (size_t r = 0; r < sizeof(row_counts) / sizeof(*row_counts); r++)
			row(precision, shapes[i], row_counts[r], &ours, &summary);
		product_free(&ours);
	}
	printf("%s: at 128 rows and more at least %.1f %% of peak", device_precision_name((uint8_t) precision),
		   100 * summary.least_share);
	if (summary.count > 0)
		printf("; of oneDNN %.2f in the mean, %.2f at least", exp(summary.log_ratio / summary.count),
			   summary.least_ratio);
	printf("\n");
}

/* Time of an activation behind a product, of the product alone, and rounded to bf16. */
static void
activations(int precision)
{
	static const struct
	{
		const char *name;
		uint16_t	fn;
		uint8_t		output;
	}			variants[] = {
		{"nothing", UNARY_NONE, DEVICE_F32}, {"relu", UNARY_RELU, DEVICE_F32}, {"gelu", UNARY_GELU, DEVICE_F32},
		{"gelu by tanh", UNARY_GELU_TANH, DEVICE_F32}, {"nothing, to bf16", UNARY_NONE, DEVICE_BF16},
		{"gelu, to bf16", UNARY_GELU, DEVICE_BF16}, {"gelu by tanh, to bf16", UNARY_GELU_TANH, DEVICE_BF16}
	};
	enum
	{
		VARIANTS = sizeof(variants) / sizeof(*variants)
	};
	struct shape s = {384, 1536};
	struct product ours[VARIANTS];
	void		(*run[VARIANTS + 1]) (void *);
	void	   *contexts[VARIANTS + 1];
	double		best[VARIANTS + 1];
	int			count = precision == DEVICE_PRECISION_FULL ? 4 : VARIANTS;
	int			all = count;

	for (int i = 0; i < count; i++)
	{
		ours[i] = product_make(precision, s, variants[i].fn, variants[i].output);
		ours[i].rows = 128;
		run[i] = product_run;
		contexts[i] = &ours[i];
	}
#ifdef HAVE_DNNL
	struct theirs theirs;

	if (their_make(&theirs, precision, s, 128, true, true))
	{
		run[all] = their_run;
		contexts[all++] = &theirs;
	}
#endif
	measure(all, run, contexts, best);
	for (int i = 0; i < count; i++)
	{
		printf("%-5s  128 x  384 x 1536, then %-22s %9.1f us  %5.2f of the product alone", device_precision_name((uint8_t) precision),
			   variants[i].name, best[i] * 1e6, best[i] / best[0]);
		if (i > 0)
			printf(", %.2f ns a number", (best[i] - best[0]) / (128 * 1536) * 1e9);
		printf("\n");
	}
	if (all > count)
		printf("%-5s  oneDNN with its gelu %9.1f us: ours %.2f of its rate\n", device_precision_name((uint8_t) precision), best[count] * 1e6,
			   best[count] / best[2]);
	for (int i = 0; i < count; i++)
		product_free(&ours[i]);
#ifdef HAVE_DNNL
	their_free(&theirs);
#endif
}

int
main(int argc, char **argv)
{
	struct device_options options = {.threads = 1};
	struct status status = {0};
	struct cpu_device *cpu;
	struct device_info info;
	char		threads[16];

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--quick") == 0)
			seconds = 0.01;
		else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
			options.threads = atoi(argv[++i]);
		else
			options.arch = argv[i];
	snprintf(threads, sizeof(threads), "%d", options.threads);
	if (getenv("OMP_NUM_THREADS") == NULL || strcmp(getenv("OMP_NUM_THREADS"), threads) != 0)
	{
		setenv("OMP_NUM_THREADS", threads, 1);	/* is read before main */
		execv("/proc/self/exe", argv);
	}
	device = device_open("cpu", &options, &status);
	if (device == NULL)
		fail(status.message);
	cpu = (struct cpu_device *) device;
	device->ops->info(device, &info);
	queue = device->ops->queue_create(device, 0, &status);
	peaks[DEVICE_PRECISION_FULL] = peak_of(cpu->kernels->f32.peak) * info.threads;
	for (int p = DEVICE_PRECISION_BF16; p < DEVICE_PRECISIONS; p++)
		peaks[p] = peak_of(cpu->narrow[p]->peak) * info.threads;
	printf("%s, %u threads: f32 %s, %s; default %s\n", info.description, info.threads, info.arch, info.products,
		   device_precision_name(info.precision_default));
	for (int p = 0; p < DEVICE_PRECISIONS; p++)
		printf("%-5s peak %7.1f GFLOP/s; at the start %7.1f per thread\n", device_precision_name((uint8_t) p), peaks[p] / 1e9,
			   info.flops[p] / 1e9);
#ifdef HAVE_DNNL
	dnnl_engine_create(&engine, dnnl_cpu, 0);
	dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
	printf("oneDNN %d.%d.%d\n", dnnl_version()->major, dnnl_version()->minor, dnnl_version()->patch);
#else
	printf("without oneDNN: libdnnl-dev is not installed\n");
#endif
	for (int p = 0; p < DEVICE_PRECISIONS; p++)
		products(p);
	for (int p = 0; p < DEVICE_PRECISIONS; p++)
		activations(p);
	device->ops->queue_free(queue);
	device->ops->close(device);
	return 0;
}
