/*
 * cuda.c
 *	  The CUDA device beside what it is to reach (docs/performance.md): products, encoders, single rows, many callers.  No PostgreSQL.
 *
 *	cuda [--quick] [--seconds S]
 *
 * The library is INFER_CUDA, or infer_cuda.so of the build that this program is in.  --quick: sizes that an emulation of CUDA gets
 * through; its figures say nothing.  Runs from the project's folder, for the example models.  Status 3: there is no GPU.
 *
 * Method
 *	- The rate of large products is that of this very run: many in one program, of which few are taken off, so that what is copied
 *	  and launched once does not count.
 *	- Encoders are drawn from a seed, their texts have the lengths of bench/_lengths.h.  As many batches are in flight as the device
 *	  says, each from a thread of its own; texts became tokens before the clock starts.  "useful" counts the products that the
 *	  formula asks for.
 *	- The device is busy while a batch is enqueued on it: from when its turn comes until it has ended.
 *	- Single rows go through the model's own run, on each device: from the row in memory to its result in memory.
 */
#include <math.h>
#include <pthread.h>
#include <time.h>

#include "../test/encoder_fixture.h"
#include "../test/example_rows.h"
#include "../test/seeded_encoder.h"
#include "_cuda_callers.h"
#include "_lengths.h"
#include "engine/process/serve.h"

#define TEXTS			2048		/* of a request */
#define SPANS			(1 << 16)
#define QUEUES_MAX		16

static bool quick;
static double seconds = 2;
static uint32_t targets;
static uint32_t targets_met;
static struct device *gpu;
static struct device *cpu;
static struct device_info info;

static double
now(void)
{
	return callers_now();
}

static void
fail(const char *what, const struct status *status)
{
	fprintf(stderr, "cuda: %s: %s\n", what, status->message);
	exit(1);
}

/* wanted: the least that is a success; most: the greatest that is. */
static void
judge(const char *what, double got, const char *unit, double wanted, bool most)
{
	bool		met = most ? got <= wanted : got >= wanted;

	targets++;
	targets_met += met;
	printf("  %-60s %10.1f %s; target %s %.0f: %s\n", what, got, unit, most ? "at most" : "at least", wanted,
		   quick ? "not judged" : met ? "met" : "MISSED");
}

/* ---- when the device is busy ---- */

struct span
{
	double		begin;
	double		end;
};

static struct device_ops seen_ops;
static const struct device_ops *gpu_ops;
static struct span *spans;
static uint32_t spans_count;		/* atomic */

static enum device_state
seen_wait(struct device_queue *queue, uint64_t ticket, uint64_t usec, struct status *status)
{
	enum device_state state = gpu_ops->wait(queue, ticket, usec, status);
	double		end = now();
	uint32_t	at;

	if (state == DEVICE_DONE && (at = __atomic_fetch_add(&spans_count, 1, __ATOMIC_RELAXED)) < SPANS)
		spans[at] = (struct span) {end - 1e-9 * (double) gpu_ops->elapsed_nsec(queue, ticket), end};
	return state;
}

static int
span_compare(const void *a, const void *b)
{
	double		x = ((const struct span *) a)->begin, y = ((const struct span *) b)->begin;

	return x < y ? -1 : x > y;
}

/* Seconds between from and to in which there was one at least. */
static double
busy_seconds(double from, double to)
{
	uint32_t	count = spans_count < SPANS ? spans_count : SPANS;
	double		sum = 0;

	qsort(spans, count, sizeof(*spans), span_compare);
	for (uint32_t i = 0; i < count && from < to; i++)
	{
		double		begin = fmax(spans[i].begin, from), end = fmin(spans[i].end, to);

		if (end <= begin)
			continue;
		sum += end - begin;
		from = end;
	}
	return sum;
}

/* ---- products ---- */

#define CHAIN	40

/* The fastest of several runs of so many products in a row, each [items, width] times [width, width]. */
static double
chain_seconds(struct device_weight *weight, uint32_t items, int64_t width, int count)
{
	static int32_t inputs[CHAIN];
	struct device_tensor tensors[CHAIN + 1];
	struct device_op ops[CHAIN];
	struct device_graph graph = {
		.tensors_count = (uint32_t) count + 1, .ops_count = (uint32_t) count, .weights_count = 1, .bindings_count = 2,
		.tensors = tensors, .ops = ops, .weights = &weight, .arena_item_bytes = {[DEVICE_LEAD_ROWS] = 2 * encoder_align(2 * (uint64_t) width)}
	};
	struct device_batch batch = {.items = {1, items}};
	struct status status = {0};
	struct device_queue *queue = gpu->ops->queue_create(gpu, DEVICE_BATCHES, &status);
	struct device_program *program;
	void	   *bindings[2];
	void	   *arena;
	double		best = INFINITY;

	for (int t = 0; t <= count; t++)
		tensors[t] = (struct device_tensor) {
			.type = DEVICE_BF16, .lead = DEVICE_LEAD_ROWS, .rank = 1, .dims = {width}, .binding = t == 0 ? 0 : t == count ? 1 : -1,
			.offset = (uint64_t) (t % 2) * encoder_align(2 * (uint64_t) width)
		};
	for (int o = 0; o < count; o++)
	{
		inputs[o] = o;
		ops[o] = (struct device_op) {
			.op = DEVICE_OP_GEMM, .fn = UNARY_NONE, .inputs_count = 1, .inputs = &inputs[o], .output = o + 1, .weight = 0, .node = -1
		};
	}
	program = gpu->ops->compile(gpu, &graph, &status);
	for (int b = 0; b < 2; b++)
		bindings[b] = device_buffer_alloc(gpu, queue, DEVICE_BUFFER_STAGING, items * 2 * (uint64_t) width, &status);
	arena = program == NULL ? NULL : device_buffer_alloc(gpu, queue, DEVICE_BUFFER_ARENA, gpu->ops->arena_bytes(program, batch.items), &status);
	if (arena == NULL || bindings[0] == NULL || bindings[1] == NULL)
		fail("products", &status);
	for (uint64_t i = 0, state = 88172645463325252u; i < items * (uint64_t) width; i++)
	{
		float		x = seeded_number(&state);
		uint32_t	bits;

		memcpy(&bits, &x, sizeof(bits));
		((uint16_t *) bindings[0])[i] = (uint16_t) (bits >> 16);
	}
	for (int run = 0; run < (quick ? 2 : 8); run++)
	{
		double		begin = now();

		if (!device_run(gpu, queue, program, 0, UINT32_MAX, &batch, bindings, arena, &status))
			fail("products", &status);
		best = fmin(best, now() - begin);
	}
	device_buffer_free(gpu, DEVICE_BUFFER_ARENA, arena);
	device_buffer_free(gpu, DEVICE_BUFFER_STAGING, bindings[0]);
	device_buffer_free(gpu, DEVICE_BUFFER_STAGING, bindings[1]);
	gpu->ops->program_free(gpu, program);
	gpu->ops->queue_free(queue);
	return best;
}

/* Operations a second of large products in BF16. */
static double
measure_products(void)
{
	uint32_t	items = quick ? 64 : 8192;
	int64_t		width = quick ? 64 : 4096;
	int			few = quick ? 2 : 4;
	int			many = quick ? 6 : CHAIN;
	float	   *w = malloc((size_t) (width * width) * sizeof(*w));
	struct device_weight_desc desc = {
		.type = DEVICE_F32, .precision = DEVICE_PRECISION_BF16, .k = width, .n = width, .stride_k = width, .stride_n = 1, .data = w
	};
	struct status status = {0};
	struct device_weight *weight;
	double		rate;

	for (int64_t i = 0, k = width * width; i < k; i++)
	{
		static uint64_t state = 362436069;

		w[i] = seeded_number(&state) * sqrtf(3.0f / (float) width);
	}
	weight = gpu->ops->weight_pack(gpu, &desc, &status);
	free(w);
	if (weight == NULL)
		fail("products", &status);
	rate = 2.0 * items * (double) width * (double) width * (many - few) /
		fmax(chain_seconds(weight, items, width, many) - chain_seconds(weight, items, width, few), 1e-9);
	gpu->ops->weight_free(gpu, weight);
	printf("  bf16, [%u, %ld] times [%ld, %ld] %30.1f TFLOP/s (%s)\n", items, (long) width, (long) width, (long) width, rate / 1e12, info.products);
	return rate;
}

/* ---- encoders ---- */

struct bulk							/* shared by the threads of a measurement */
{
	struct encoder_fixture *f;
	const uint32_t *lengths;
	uint32_t	texts;
	uint32_t	batch_tokens;
	double		until;
};

struct feeder						/* keeps one batch in flight */
{
	struct bulk *bulk;
	struct encoder_fixture f;		/* a copy: queue and status are its own */
	struct encoder_call_fixture c;
	pthread_t	thread;
	uint64_t	passes;
	uint64_t	tokens;
	double		flop;
};

static double
row_flop(const struct encoder *e, double n)
{
	double		h = (double) e->hidden;

	return e->layers_count * n * (2 * (4 * h * h + 2 * h * (double) e->intermediate) + 4 * n * h);
}

static void
feeder_prepare(struct feeder *t, struct bulk *bulk)
{
	char		text[6 * LENGTHS_MOST + 8];
	uint64_t	state = 88172645463325252u;

	*t = (struct feeder) {.bulk = bulk, .f = *bulk->f};
	t->f.queue = gpu->ops->queue_create(gpu, DEVICE_BATCHES, &t->f.status);
	encoder_request(&t->c, &t->f, bulk->texts);
	for (uint32_t i = 0; i < bulk->texts; i++)
	{
		size_t		used = seeded_text(text, bulk->lengths[i], &state);

		encoder_bytes(&t->c, ENCODER_INPUT_TEXT, i, text, used);
	}
	if (!encoder_prepare(&t->c))
		fail("texts", &t->f.status);
}

static void *
feeder_main(void *argument)
{
	struct feeder *t = argument;
	struct bulk *bulk = t->bulk;
	const struct encoder *e = ((struct encoder_model *) t->f.model)->encoder;

	for (uint32_t first = 0; now() < bulk->until; first = first >= bulk->texts ? 0 : first)
	{
		struct model_slice slice = {.request = &t->c.request, .first = first};
		uint32_t	tokens = 0;

		for (; first < bulk->texts && (slice.count == 0 || tokens + bulk->lengths[first] <= bulk->batch_tokens); first++)
		{
			tokens += bulk->lengths[first];
			t->flop += row_flop(e, bulk->lengths[first]);
			slice.count++;
		}
		if (!encoder_run_slices(&t->f, &slice, 1))
			fail("a batch", &t->f.status);
		t->tokens += tokens;
		t->passes++;
	}
	return NULL;
}

struct rate
{
	double		tokens;
	double		flop;
	double		busy;
};

static struct rate
measure_bulk(struct encoder_fixture *f, const uint32_t *lengths, uint32_t texts, uint32_t batch_tokens, double time)
{
	static struct feeder feeders[QUEUES_MAX];
	uint32_t	count = info.inflight_max < QUEUES_MAX ? info.inflight_max : QUEUES_MAX;
	struct bulk bulk = {.f = f, .lengths = lengths, .texts = texts, .batch_tokens = batch_tokens};
	struct rate r = {0};
	double		begin;
	double		end;

	for (uint32_t i = 0; i < count; i++)
		feeder_prepare(&feeders[i], &bulk);
	spans_count = 0;
	begin = now();
	bulk.until = begin + time;
	for (uint32_t i = 0; i < count; i++)
		pthread_create(&feeders[i].thread, NULL, feeder_main, &feeders[i]);
	for (uint32_t i = 0; i < count; i++)
	{
		pthread_join(feeders[i].thread, NULL);
		r.tokens += (double) feeders[i].tokens;
		r.flop += feeders[i].flop;
	}
	end = now();
	r.tokens /= end - begin;
	r.flop /= end - begin;
	r.busy = busy_seconds(begin, bulk.until) / time;
	for (uint32_t i = 0; i < count; i++)
	{
		encoder_release(&feeders[i].c);
		gpu->ops->queue_free(feeders[i].f.queue);
	}
	return r;
}

static bool
open_seeded(struct encoder_fixture *f, struct folder_fixture *folder, const struct seeded_sizes *sizes, struct device *device, const char *options)
{
	memset(f, 0, sizeof(*f));
	f->device = device;
	f->queue = device->ops->queue_create(device, DEVICE_BATCHES, &f->status);
	if (folder->files.count == 0)
		seeded_encoder(folder, sizes, 1);
	f->model = model_open(&folder->files, options, device, &f->status);
	return f->model != NULL;
}

static void
close_seeded(struct encoder_fixture *f)
{
	model_close(f->model);
	f->device->ops->queue_free(f->queue);
}

static void
measure_encoder(const char *name, const struct seeded_sizes *sizes, double product_rate, double share_wanted)
{
	static const uint32_t batches[] = {4096, 16384, 65536};
	struct folder_fixture folder = {0};
	struct encoder_fixture f;
	uint32_t	texts = quick ? 16 : TEXTS;
	uint32_t   *lengths = calloc(texts, sizeof(*lengths));
	struct rate best = {0};
	char		what[128];

	if (!open_seeded(&f, &folder, sizes, gpu, "{\"precision\":\"bf16\"}"))
		fail(name, &f.status);
	for (uint32_t i = 0; i < texts / 4; i++)
		lengths[i] = quick ? 16 : 128;
	measure_bulk(&f, lengths, texts / 4, 16384, seconds / 2);	/* also warms up */
	best = measure_bulk(&f, lengths, texts / 4, 16384, seconds / 2);
	printf("  %s, rows of %u tokens: %.0f tokens/s, %.1f TFLOP/s useful, %.1f %% of the products' rate\n", name, lengths[0], best.tokens,
		   best.flop / 1e12, best.flop / product_rate * 100);
	mixed_lengths(lengths, texts);
	for (uint32_t i = 0; quick && i < texts; i++)
		lengths[i] = 4 + lengths[i] % 16;
	best = (struct rate) {0};
	for (size_t i = 0; i < (quick ? 1 : sizeof(batches) / sizeof(batches[0])); i++)
	{
		struct rate r;

		measure_bulk(&f, lengths, texts, batches[i], seconds / 4);
		r = measure_bulk(&f, lengths, texts, batches[i], seconds);
		printf("  %s, mixed lengths, batches of %u tokens: %.0f tokens/s, %.1f TFLOP/s useful, busy %.1f %%\n", name, batches[i], r.tokens,
			   r.flop / 1e12, r.busy * 100);
		if (r.flop > best.flop)
			best = r;
	}
	snprintf(what, sizeof(what), "%s, mixed lengths", name);
	judge(what, best.flop / product_rate * 100, "% of the products' rate", share_wanted, false);
	snprintf(what, sizeof(what), "%s: the device busy", name);
	judge(what, best.busy * 100, "%", 95, false);
	free(lengths);
	close_seeded(&f);
	folder_clear(&folder);
}

/* ---- single rows ---- */

static int
double_compare(const void *a, const void *b)
{
	double		x = *(const double *) a, y = *(const double *) b;

	return x < y ? -1 : x > y;
}

#define SINGLE_RUNS	2000

/* Median microseconds of a run of one row. */
static double
single_usec(struct model *model, struct device_queue *queue, struct model_request *request)
{
	static double times[SINGLE_RUNS];
	struct model_slice slice = {.request = request, .count = 1};
	struct status status = {0};
	double		until = now() + seconds / 4;
	int			warm = quick ? 2 : 50;
	int			count = 0;

	for (int i = 0; i < SINGLE_RUNS + warm && (i < warm + 3 || now() < until); i++)
	{
		double		begin = now();

		if (!model->ops->run(model, queue, NULL, &slice, 1, &status))
			fail("a single row", &status);
		if (i < warm)
			usleep(quick ? 0 : 1000);	/* graphs are captured while nothing runs */
		else
			times[count++] = (now() - begin) * 1e6;
	}
	qsort(times, (size_t) count, sizeof(*times), double_compare);
	return times[count / 2];
}

static double
single_table(struct device *device, const struct example *example)
{
	struct example rows = *example;
	struct fixture f;
	double		usec;

	fixture_device = device;
	if (!fixture_open(&f, example->model, NULL))
		fail(example->model, &f.status);
	example_read(&rows, 1);
	fixture_rows(&f, 1);
	example_put(&rows, &f, 0, 0);
	fixture_layout(&f);
	usec = single_usec(f.model, f.queue, &f.request);
	example_free(&rows);
	fixture_close(&f);
	return usec;
}

static double
single_text(struct device *device, const struct seeded_sizes *sizes)
{
	struct folder_fixture folder = {0};
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	uint64_t	state = 88172645463325252u;
	char		text[128];
	double		usec;

	if (!open_seeded(&f, &folder, sizes, device, ""))
		fail("an encoder", &f.status);
	encoder_request(&c, &f, 1);
	encoder_bytes(&c, ENCODER_INPUT_TEXT, 0, text, seeded_text(text, 12, &state));
	if (!encoder_prepare(&c))
		fail("a text", &f.status);
	usec = single_usec(f.model, f.queue, &c.request);
	encoder_release(&c);
	close_seeded(&f);
	folder_clear(&folder);
	return usec;
}

static void
measure_singles(const struct seeded_sizes *sizes)
{
	static const struct
	{
		const char *name;
		uint32_t	example;
	}			tables[] = {{"a row of an MLP (digits)", 2}, {"a row of trees (iris)", 3}};

	printf("  a text of 12 tokens, MiniLM's size: %.1f µs; on the CPU, on all cores, %.1f µs\n", single_text(gpu, sizes), single_text(cpu, sizes));
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
	{
		double		on_gpu = single_table(gpu, &examples[tables[i].example]);
		double		on_cpu = single_table(cpu, &examples[tables[i].example]);
		char		what[128];

		snprintf(what, sizeof(what), "%s: %.1f µs, on the CPU %.1f µs: above it", tables[i].name, on_gpu, on_cpu);
		judge(what, on_gpu - on_cpu, "µs", 150, true);
	}
}

/* ---- all of it ---- */

/* The build's library: this program lies in its folder bench. */
static void
default_library(void)
{
	char		path[PATH_MAX + 64];
	ssize_t		length = readlink("/proc/self/exe", path, PATH_MAX);

	for (int folders = 0; folders < 2; folders++)
		while (length > 0 && path[--length] != '/')
			;
	if (length > 0)
	{
		snprintf(path + length, 64, "/infer_cuda.so");
		setenv("INFER_CUDA", path, 0);
	}
}

static void
open_devices(void)
{
	struct device_options options = {.gpu = -1};
	struct status status = {0};

	default_library();
	options.library = getenv("INFER_CUDA");
	gpu = device_open("cuda", &options, &status);
	if (gpu == NULL)
	{
		printf("cuda: %s\n", status.message);
		exit(3);
	}
	cpu = device_open("cpu", &options, &status);
	if (cpu == NULL)
		fail("the CPU", &status);
	gpu->ops->info(gpu, &info);
	printf("cuda: %s, %s, %s\n", info.name, info.description, info.numerics_id);
	if (info.detail[0] != '\0')
		printf("  lacks: %s\n", info.detail);
	spans = calloc(SPANS, sizeof(*spans));
	gpu_ops = gpu->ops;
	seen_ops = *gpu_ops;
	seen_ops.wait = seen_wait;
	gpu->ops = &seen_ops;
}

int
main(int argc, char **argv)
{
	static const struct seeded_sizes small = {.layers = 1, .hidden = 64, .heads = 2, .intermediate = 64, .places = 64};
	double		rate;
	double		calls;

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
		{
			quick = true;
			seconds = 0.5;
		}
		else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
			seconds = atof(argv[++i]);
		else
		{
			fprintf(stderr, "usage: cuda [--quick] [--seconds S]\n");
			return 2;
		}
	}
	open_devices();
	if (quick)
		printf("  --quick: tiny sizes, to see that all of it runs; no figure says anything\n");
	printf("large products\n");
	rate = measure_products();
	printf("encoders in bf16, %u batches in flight\n", info.inflight_max);
	measure_encoder(quick ? "tiny" : "MiniLM's size", quick ? &small : &seeded_minilm, rate, 25);
	measure_encoder(quick ? "tiny" : "bge-base's size", quick ? &small : &seeded_bge_base, rate, 50);
	printf("single rows\n");
	measure_singles(quick ? &small : &seeded_minilm);
	gpu->ops = gpu_ops;
	device_close(gpu);			/* the engine is alone on it */
	device_close(cpu);
	printf("%d callers in a closed loop, a text of 12 tokens each, MiniLM's size, in an engine process\n", CALLERS);
	calls = callers_measure(quick ? &small : &seeded_minilm, 12, 2 * seconds);
	judge("calls", calls, "a second", 20000, false);
	if (!quick)
		printf("%u of %u targets met; sentence-transformers is not measured here\n", targets_met, targets);
	return calls < 0 ? 1 : 0;
}
