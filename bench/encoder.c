/*
 * encoder.c
 *	  How fast the engine alone computes MiniLM, from tokens to vectors, and which share of the
 *	  processor's measured multiply-add peak that is.
 *
 *	encoder [--quick] [--threads N] [FOLDER]
 *
 * "useful" counts the products that the formula asks for (weights, and attention over real
 * tokens), ÷ time.  Batches hold as many tokens as --tokens says (512): what a slice of 10 ms
 * has room for on a few cores.  The mixed set has the lengths of bench/text.py: half of its texts
 * have at most 20 tokens, nine in ten at most 65, none more than 249; as they come, never
 * sorted.  Texts become tokens before the clock starts; what that takes is told apart.
 *
 * Goals: 70 % of the peak in f32 and 55 % in bf16 at rows of 128 tokens; mixed lengths at 90 % of
 * the rate of equal lengths with the same number of tokens.
 */
#include <math.h>
#include <time.h>

#include "../test/encoder_fixture.h"
#include "_lengths.h"
#include "engine/cpu/cpu.h"

#define BENCH_TEXTS			512			/* of the mixed set */

static uint32_t batch_tokens = 512;
static double seconds = 2;

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Of one core, operations a second: the best of several. */
static double
peak_of(double (*peak) (int64_t rounds))
{
	double		best = 0;

	for (int i = 0; i < 20; i++)
	{
		double		start = now();
		double		rate = peak(200000) / (now() - start);

		best = rate > best ? rate : best;
	}
	return best;
}

/* A text of so many tokens, with the two special ones: "the" is one. */
static void
put_text(struct encoder_call_fixture *c, uint32_t row, uint32_t length)
{
	char		text[4 * LENGTHS_MOST + 8];
	size_t		used = 0;

	for (uint32_t i = 2; i < length; i++)
	{
		memcpy(text + used, "the ", 4);
		used += 4;
	}
	encoder_bytes(c, ENCODER_INPUT_TEXT, row, text, used > 0 ? used - 1 : 0);
}

/* Products of an encoder of MiniLM's sizes. */
static double
operations(const struct encoder *e, const uint32_t *lengths, uint32_t count)
{
	double		sum = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		n = lengths[i];

		sum += e->layers_count * n * (2.0 * (double) (4 * e->hidden * e->hidden + 2 * e->hidden * e->intermediate) +
									  4 * n * (double) e->hidden);
	}
	return sum;
}

/* All rows of a request once, in batches of batch_tokens; in their order, as they come. */
static void
run_batches(struct encoder_call_fixture *c, const uint32_t *lengths, uint32_t count)
{
	for (uint32_t first = 0; first < count;)
	{
		struct model_slice slice = {.request = &c->request, .first = first};
		uint32_t	tokens = 0;

		while (first + slice.count < count && (slice.count == 0 || tokens + lengths[first + slice.count] <= batch_tokens))
			tokens += lengths[first + slice.count++];
		if (!encoder_run_slices(c->model, &slice, 1))
		{
			fprintf(stderr, "%s\n", c->model->status.message);
			exit(1);
		}
		first += slice.count;
	}
}

/* Tokens a second of rows of these lengths; the best run of those that the time allows. */
static double
measure(struct encoder_fixture *f, const char *name, const uint32_t *lengths, uint32_t count, double peak)
{
	const struct encoder *e = ((struct encoder_model *) f->model)->encoder;
	struct encoder_call_fixture c;
	double		best = 1e9;
	double		tokens = 0;
	double		prepared;
	double		begin = now();

	encoder_request(&c, f, count);
	for (uint32_t i = 0; i < count; i++)
	{
		put_text(&c, i, lengths[i]);
		tokens += lengths[i];
	}
	prepared = now();
	if (!encoder_prepare(&c))
	{
		fprintf(stderr, "%s\n", f->status.message);
		exit(1);
	}
	prepared = now() - prepared;
	for (int runs = 0; runs < 3 || now() - begin < seconds; runs++)
	{
		double		start = now();

		run_batches(&c, lengths, count);
		best = now() - start < best ? now() - start : best;
	}
	printf("  %-26s %8.0f tokens/s %7.1f GFLOP/s useful %5.1f %% of peak; tokenising %5.2f %% of the time\n", name, tokens / best,
		   operations(e, lengths, count) / best / 1e9, operations(e, lengths, count) / best / peak * 100, prepared / best * 100);
	encoder_release(&c);
	return tokens / best;
}

static void
measure_precision(struct device *device, const char *folder, uint8_t precision, double peak)
{
	struct encoder_fixture f;
	char		options[64];
	uint32_t	lengths[BENCH_TEXTS];
	uint32_t	same[BENCH_TEXTS];
	uint32_t	tokens = 0;
	double		mixed;
	double		equal;

	snprintf(options, sizeof(options), "{\"precision\": \"%s\"}", device_precision_name(precision));
	if (!encoder_open_path(&f, device, folder, options))
	{
		printf("%s: skipped: %s\n", device_precision_name(precision), f.status.message);
		return;
	}
	printf("%s (peak %.1f GFLOP/s)\n", device_precision_name(precision), peak / 1e9);
	for (uint32_t i = 0; i < 64; i++)
		lengths[i] = 128;
	measure(&f, "rows of 128 tokens", lengths, 64, peak);
	mixed_lengths(lengths, BENCH_TEXTS);
	for (uint32_t i = 0; i < BENCH_TEXTS; i++)
		tokens += lengths[i];
	for (uint32_t i = 0; i < BENCH_TEXTS; i++)
		same[i] = (tokens + BENCH_TEXTS / 2) / BENCH_TEXTS;
	mixed = measure(&f, "mixed, as they come", lengths, BENCH_TEXTS, peak);
	equal = measure(&f, "equal, as many tokens", same, BENCH_TEXTS, peak);
	printf("  mixed lengths at %.1f %% of the rate of equal ones\n", mixed / equal * 100);
	for (uint32_t i = 0; i < 64; i++)
		lengths[i] = 8;
	measure(&f, "rows of 8 tokens", lengths, 64, peak);
	batch_tokens = 1;
	measure(&f, "rows of 8 tokens, each alone", lengths, 64, peak);
	batch_tokens = 512;
	encoder_close(&f);
}

static const char *
minilm(void)
{
	static char path[512];
	FILE	   *pipe = popen("script/fetch-models --folder minilm 2>&1", "r");

	if (pipe == NULL || fgets(path, sizeof(path), pipe) == NULL || pclose(pipe) != 0)
	{
		printf("skipped: MiniLM cannot be fetched (script/fetch-models minilm)\n");
		exit(0);
	}
	path[strcspn(path, "\n")] = '\0';
	return path;
}

int
main(int argc, char **argv)
{
	const char *folder = NULL;
	struct device *device;
	const struct cpu_device *cpu;
	struct device_info info;
	struct status status = {0};
	struct device_options options = {0};

	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--quick") == 0)
			seconds = 0.3;
		else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
			options.threads = atoi(argv[++i]);
		else if (strcmp(argv[i], "--tokens") == 0 && i + 1 < argc)
			batch_tokens = (uint32_t) atoi(argv[++i]);
		else if (argv[i][0] != '-')
			folder = argv[i];
		else
		{
			fprintf(stderr, "usage: encoder [--quick] [--threads N] [--tokens N] [FOLDER]\n");
			return 2;
		}
	}
	if (folder == NULL)
		folder = minilm();
	device = device_open("cpu", &options, &status);
	if (device == NULL)
	{
		fprintf(stderr, "%s\n", status.message);
		return 1;
	}
	cpu = (const struct cpu_device *) device;
	device->ops->info(device, &info);
	printf("encoder: MiniLM-L6 on %u threads, batches of %u tokens, %s\n", info.threads, batch_tokens, info.numerics_id);
	measure_precision(device, folder, DEVICE_PRECISION_FULL, peak_of(cpu->kernels->f32.peak) * info.threads);
	for (uint8_t p = DEVICE_PRECISION_FULL + 1; p < DEVICE_PRECISIONS; p++)
		if (cpu->narrow[p] != NULL)
			measure_precision(device, folder, p, peak_of(cpu->narrow[p]->peak) * info.threads);
	return 0;
}
