/*
 * cuda_models.c
 *	  Models on the CUDA device: what they give beside the CPU device, that a row's bits are its own, and what is left to the host.
 *
 *	cuda_models					all models
 *	cuda_models --quick			a few of them: what compute-sanitizer gets through in a minute
 *	cuda_models --soak SECONDS	models, batches and rows at random on two queues at once, models closed and opened again meanwhile
 *
 * On a GPU with INFER_CUDA, else on emulated ones.
 */
#include <pthread.h>
#include <time.h>

#include "cuda_fixture.h"
#include "cuda_subject.h"

#define F32		"{\"precision\":\"f32\"}"
#define BF16	"{\"precision\":\"bf16\"}"
#define INT8	"{\"precision\":\"int8\"}"

#define NEAR		.difference = 1e-5, .cosine = 1 - 1e-6
#define NARROW		.difference = INFINITY, .cosine = 0.9995
#define EXAMPLE(n)	.kind = SUBJECT_EXAMPLE, .options = "", .example = &examples[n]
#define TREES(file)	{.name = file, .kind = SUBJECT_GRAPH, .options = "", .host_ops = "", .cosine = 1}
#define TEXT(file)	{.name = file, .kind = SUBJECT_TEXT, .options = F32, .host_ops = "", NEAR}, \
	{.name = file, .kind = SUBJECT_TEXT, .options = BF16, .host_ops = "", NARROW}

/* heads of 64 and of 32, and more tokens than a block of keys has */
static const struct seeded_sizes sizes_64 = {.layers = 2, .hidden = 128, .heads = 2, .intermediate = 192, .places = 96};
static const struct seeded_sizes sizes_32 = {.layers = 1, .hidden = 96, .heads = 3, .intermediate = 160, .places = 80};

/* What is left to the host are strings: labels, and the words that inputs are looked up by. */
static const struct subject subjects[] = {
	{.name = "digits: an MLP", EXAMPLE(2), .host_ops = "", NEAR},
	{.name = "iris: trees", EXAMPLE(3), .host_ops = "gather 0", NEAR},
	{.name = "seeded, heads of 64", .kind = SUBJECT_SEEDED, .options = BF16, .sizes = &sizes_64, .host_ops = "", NARROW},
#define SUBJECTS_QUICK	3
	{.name = "seeded, heads of 64", .kind = SUBJECT_SEEDED, .options = F32, .sizes = &sizes_64, .host_ops = "", NEAR},
	{.name = "seeded, heads of 64", .kind = SUBJECT_SEEDED, .options = INT8, .sizes = &sizes_64, .host_ops = "", NARROW},
	{.name = "seeded, heads of 32", .kind = SUBJECT_SEEDED, .options = BF16, .sizes = &sizes_32, .host_ops = "", NARROW},
	{.name = "breast_cancer", EXAMPLE(0), .host_ops = "gather 1", NEAR},
	{.name = "diabetes", EXAMPLE(1), .host_ops = "", NEAR},
	{.name = "progression: words and trees", EXAMPLE(4), .host_ops = "lookup 1, lookup 2, lookup 3, gather 8", NEAR},
	{.name = "wine", EXAMPLE(5), .host_ops = "gather 3", NEAR},
	TREES("tree_good.onnx"), TREES("tree_member.onnx"), TREES("tree_directions.onnx"),
	TEXT("bert_mean"), TEXT("bert_cls"), TEXT("bert_weighted"), TEXT("bert_classify"), TEXT("bert_cross"), TEXT("bert_entities"),
	TEXT("roberta_mean"), TEXT("distilbert_mean"), TEXT("mpnet_mean"), TEXT("modernbert_cls"), TEXT("gte_cls"), TEXT("nomic_mean"),
	{.name = "bert_mean", .kind = SUBJECT_TEXT, .options = INT8, .host_ops = "", NARROW},
	{.name = "graph_albert", .kind = SUBJECT_TEXT, .options = "", .host_ops = "", NEAR}
};

#define SUBJECTS	((uint32_t) (sizeof(subjects) / sizeof(subjects[0])))

static struct device *cpu;
static struct device *gpu;

/* ---- beside the CPU ---- */

static void
test_nearness(struct opened *o, const struct row_results *got)
{
	const struct subject *s = o->subject;
	struct opened reference;
	struct row_results wanted[SUBJECT_ROWS] = {{0}};
	double		difference = 0, cosine = 1;
	uint32_t	bad = 0;

	if (!subject_open(&reference, s, cpu) || !subject_run_all(&reference, false, wanted))
	{
		tap_ok(false, "%s on the CPU: %s", s->name, reference.status.message);
		subject_close(&reference);
		return;
	}
	for (uint32_t i = 0; i < o->rows; i++)
		bad += s->difference == 0 ? !row_results_same(&got[i], &wanted[i]) :
			!row_results_compare(&got[i], &wanted[i], &difference, &cosine) && s->difference < 1;
	tap_ok(bad == 0 && difference <= s->difference && cosine >= s->cosine, "%s %s: %u rows are the CPU's: %u are not, difference %.1e, cosine %.7f",
		   s->name, s->options, o->rows, bad, difference, cosine);
	subject_free_results(wanted, o->rows);
	subject_close(&reference);
}

/* ---- a row's bits are its own ---- */

static void
test_bits(struct opened *o, const struct row_results *expected, bool quick)
{
	static const uint32_t counts[] = {2, 3, 17, 64};
	struct status status;
	uint32_t	bad = 0;

	for (uint32_t i = 0; i < (quick ? 2 : sizeof(counts) / sizeof(counts[0])); i++)
		bad += subject_differing(o, subject_queue(o), expected, counts[i], 1 + 2 * i, i % 2 == 1, &status);
	tap_ok(bad == 0, "%s %s: rows have the same bits in batches of 2, 3, 17 and 64, at any place (%u differ) %s", o->subject->name,
		   o->subject->options, bad, bad == 0 ? "" : status.message);
}

static void
test_subject(const struct subject *s, bool quick)
{
	struct opened o;
	struct row_results expected[SUBJECT_ROWS] = {{0}};

	cuda_seen_reset();
	if (!subject_open(&o, s, gpu) || !subject_run_all(&o, true, expected))
	{
		tap_ok(false, "%s %s: %s", s->name, s->options, o.status.message);
		subject_close(&o);
		return;
	}
	tap_ok(cuda_seen.programs > 0 && strcmp(cuda_seen.host_ops, s->host_ops) == 0, "%s: left to the host: \"%s\"", s->name, cuda_seen.host_ops);
	test_nearness(&o, expected);
	test_bits(&o, expected, quick);
	subject_free_results(expected, o.rows);
	subject_close(&o);
}

/* ---- again and again ---- */

/* Until a run makes far fewer calls of CUDA than the first did, where that can be seen; else so often that it must have come to it. */
static void
test_captured(const struct subject *s, bool quick)
{
	const struct emulation_control *control = case_emulation();
	struct opened o;
	struct row_results expected[SUBJECT_ROWS] = {{0}};
	struct status status;
	uint64_t	first = 0, calls = 0;
	uint32_t	bad, runs;

	if (!subject_open(&o, s, gpu) || !subject_run_all(&o, true, expected))
	{
		tap_ok(false, "%s: %s", s->name, o.status.message);
		subject_close(&o);
		return;
	}
	bad = subject_differing(&o, subject_queue(&o), expected, 17, 1, false, &status);
	for (runs = 0; runs < (quick ? 40 : 100) && bad == 0; runs++)
	{
		uint64_t	before = control == NULL ? 0 : control->calls();

		bad += subject_differing(&o, subject_queue(&o), expected, 17, 1, false, &status);
		calls = control == NULL ? 0 : control->calls() - before;
		first = runs == 0 ? calls : first;
		if (control != NULL && calls <= first / 2)
			break;
		usleep(runs < 8 ? 0 : 1000);
	}
	tap_ok(bad == 0 && (control == NULL || calls <= first / 2), "%s: runs as one graph have the bits of the first ones: %u runs, %lu calls, then %lu",
		   s->name, runs, (unsigned long) first, (unsigned long) calls);
	subject_free_results(expected, o.rows);
	subject_close(&o);
}

static void
test_evicted(const struct subject *s)
{
	struct opened o;
	struct row_results expected[SUBJECT_ROWS] = {{0}};
	struct status status;
	uint64_t	before = cuda_fixture_used(gpu);
	uint32_t	bad = 0;

	if (!subject_open(&o, s, gpu) || !subject_run_all(&o, true, expected))
		bad++;
	for (int i = 0; i < 5 && bad == 0; i++)
	{
		subject_close(&o);
		bad += cuda_fixture_used(gpu) != before || !subject_open(&o, s, gpu);
		bad += bad == 0 && subject_differing(&o, subject_queue(&o), expected, 17, 3, true, &status) > 0;
	}
	subject_close(&o);
	tap_ok(bad == 0 && cuda_fixture_used(gpu) == before, "%s: closed, all its memory of the GPU is free; opened again, it has the same bits", s->name);
	subject_free_results(expected, SUBJECT_ROWS);
}

/* ---- the soak ---- */

#define SOAK_SUBJECTS	6
#define SOAK_THREADS	2

struct soak							/* the lock of a model is held for writing while it is another */
{
	const struct subject *subject[SOAK_SUBJECTS];
	struct opened opened[SOAK_SUBJECTS];
	pthread_rwlock_t locks[SOAK_SUBJECTS];
	struct row_results expected[SOAK_SUBJECTS][SUBJECT_ROWS];
	bool		ends;				/* atomic */
};

struct soaker
{
	struct soak *soak;
	pthread_t	thread;
	uint64_t	state;
	uint64_t	runs;
	uint64_t	rows;
	uint64_t	bad;
	struct status status;
};

static uint32_t
draw(uint64_t *state, uint32_t most)
{
	return (uint32_t) ((seeded_number(state) + 1) / 2 * (float) most) % most;
}

static void *
soak_main(void *argument)
{
	struct soaker *s = argument;
	struct device_queue *queue = gpu->ops->queue_create(gpu, DEVICE_BATCHES, &s->status);

	while (!__atomic_load_n(&s->soak->ends, __ATOMIC_ACQUIRE) && s->bad == 0)
	{
		uint32_t	m = draw(&s->state, SOAK_SUBJECTS);
		uint32_t	most = draw(&s->state, 4) == 0 ? SUBJECT_BATCH : 20;
		uint32_t	count = 1 + draw(&s->state, most);

		pthread_rwlock_rdlock(&s->soak->locks[m]);
		s->bad += subject_differing(&s->soak->opened[m], queue, s->soak->expected[m], count, 1 + draw(&s->state, 9), draw(&s->state, 2) == 0, &s->status);
		pthread_rwlock_unlock(&s->soak->locks[m]);
		s->runs++;
		s->rows += count;
	}
	gpu->ops->queue_free(queue);
	return NULL;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

/* Another model is closed and opened every tenth of a second, until the time is over. */
static uint32_t
soak_evict(struct soak *soak, double until)
{
	uint64_t	state = 88172645463325252u;
	uint32_t	times = 0;

	while (now() < until)
	{
		uint32_t	m = draw(&state, SOAK_SUBJECTS);

		usleep(100000);
		pthread_rwlock_wrlock(&soak->locks[m]);
		subject_close(&soak->opened[m]);
		if (!subject_open(&soak->opened[m], soak->subject[m], gpu))
			case_fail("a model that was open before", &soak->opened[m].status);
		pthread_rwlock_unlock(&soak->locks[m]);
		times++;
	}
	return times;
}

static void
test_soak(double seconds)
{
	static struct soak soak;
	static const uint32_t chosen[SOAK_SUBJECTS] = {0, 1, 2, 3, 8, 14};
	struct soaker soakers[SOAK_THREADS];
	uint64_t	before = cuda_fixture_used(gpu);
	uint64_t	bad = 0;
	uint32_t	times;

	for (uint32_t m = 0; m < SOAK_SUBJECTS; m++)
	{
		soak.subject[m] = &subjects[chosen[m]];
		pthread_rwlock_init(&soak.locks[m], NULL);
		if (!subject_open(&soak.opened[m], soak.subject[m], gpu) || !subject_run_all(&soak.opened[m], true, soak.expected[m]))
			case_fail(soak.subject[m]->name, &soak.opened[m].status);
	}
	for (uint32_t t = 0; t < SOAK_THREADS; t++)
	{
		soakers[t] = (struct soaker) {.soak = &soak, .state = 88172645463325252u + 104729u * (t + 1)};
		pthread_create(&soakers[t].thread, NULL, soak_main, &soakers[t]);
	}
	times = soak_evict(&soak, now() + seconds);
	__atomic_store_n(&soak.ends, true, __ATOMIC_RELEASE);
	for (uint32_t t = 0; t < SOAK_THREADS; t++)
	{
		pthread_join(soakers[t].thread, NULL);
		bad += soakers[t].bad;
		printf("# queue %u: %lu batches of %lu rows\n", t, (unsigned long) soakers[t].runs, (unsigned long) soakers[t].rows);
	}
	tap_ok(bad == 0 && soakers[0].runs > 0 && soakers[1].runs > 0, "two queues, %u times a model closed and opened: every row has the bits of the first time (%lu differ) %s%s",
		   times, (unsigned long) bad, soakers[0].status.message, soakers[1].status.message);
	for (uint32_t m = 0; m < SOAK_SUBJECTS; m++)
	{
		subject_free_results(soak.expected[m], SUBJECT_ROWS);
		subject_close(&soak.opened[m]);
	}
	tap_ok(cuda_fixture_used(gpu) == before, "and all memory of the GPU is free again");
}

int
main(int argc, char **argv)
{
	struct device_options options = {.threads = 1};
	struct status status = {0};
	bool		quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
	double		soak = argc == 3 && strcmp(argv[1], "--soak") == 0 ? atof(argv[2]) : 0;

	if (argc > 1 && !quick && soak <= 0)
	{
		fprintf(stderr, "usage: cuda_models [--quick | --soak SECONDS]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	gpu = access(case_cuda_library(), R_OK) == 0 ? cuda_fixture_open() : NULL;
	if (gpu == NULL)
	{
		tap_skip("models on the CUDA device", "there is none: make emulation, or set INFER_CUDA");
		return tap_done();
	}
	cpu = device_open("cpu", &options, &status);
	if (cpu == NULL)
		case_fail("the CPU", &status);
	if (soak > 0)
		test_soak(soak);
	for (uint32_t i = 0; soak <= 0 && i < (quick ? SUBJECTS_QUICK : SUBJECTS); i++)
		test_subject(&subjects[i], quick || case_hurries(gpu));
	if (soak <= 0)
	{
		test_evicted(&subjects[2]);
		test_captured(&subjects[2], quick);
	}
	device_close(cpu);
	cuda_fixture_close(gpu);
	return tap_done();
}
