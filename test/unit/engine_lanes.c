/*
 * engine_lanes.c
 *	  Several batches in flight: on a device that says that two are worth it, rows of two batches are under way at
 *	  once, also of one request, and never of three; what must be alone is; times are not counted twice.
 *
 * The toys count how many of their runs go on, so that nothing here depends on speed.
 */
#include "engine_process.h"
#include "tap.h"

#include <dirent.h>
#include <sys/syscall.h>

#define ROWS	40

static struct engine_process engine;
static struct raw_client clients[3];
static struct raw_region *regions[3];
static uint8_t key[INFER_KEY_BYTES];

static void
begin(const char *device, const char *contents)
{
	const char *const settings[] = {device, "batch_rows=1", NULL};

	engine_start(&engine, settings);
	for (int i = 0; i < 3; i++)
	{
		raw_connect(&clients[i], engine.socket);
		regions[i] = raw_region(&clients[i], 0, 1 << 16);
	}
	if (!engine_load_toy(&engine, &clients[0], contents, key))
		raw_fail("the toy is not loaded");
}

static void
end(void)
{
	for (int i = 0; i < 3; i++)
		raw_close(&clients[i]);
	engine_stop(&engine);
}

/* Rows of one value. */
static void
submit(int client, float x, uint32_t rows, uint32_t class_, uint32_t flags)
{
	float		values[ROWS];

	for (uint32_t i = 0; i < rows; i++)
		values[i] = x;
	raw_fill(regions[client], key, values, rows);
	regions[client]->map->request.class_ = class_;
	regions[client]->map->request.flags = flags;
	raw_submit(&clients[client], regions[client]);
}

/* Whether it has ended, with that result in every row. */
static bool
gives(int client, uint32_t rows, float y)
{
	bool		good = raw_wait(&clients[client], regions[client], RAW_TIMEOUT) && regions[client]->map->reply.error == 0;

	for (uint32_t i = 0; good && i < rows; i++)
		good = raw_row_status(regions[client], i) == 0 && raw_row_f32(regions[client], i) == y;
	return good;
}

static bool
is_done(int client)
{
	return infer_load_acquire64(&regions[client]->map->done_seq) == regions[client]->map->submit_seq;
}

static void
wait_running(int client)
{
	for (int i = 0; i < RAW_TIMEOUT && infer_load_acquire32(&regions[client]->map->run_state) != INFER_RUN_RUNNING; i++)
		usleep(1000);
}

static struct infer_stats_model
counters(struct infer_stats_device *device)
{
	struct infer_stats_head head;
	struct infer_stats_model model;

	if (!raw_stats(&clients[2], key, &head, &model))
		raw_fail("no statistics");
	memcpy(device, clients[2].payload + sizeof(head), sizeof(*device));
	return model;
}

/* ---- how many ---- */

static void
test_together(void)
{
	submit(0, TOY_TOGETHER, 4, INFER_CLASS_JOB, 0);
	tap_ok(gives(0, 4, 2), "rows of one request are computed in two batches at once");
	for (int i = 0; i < 3; i++)
		submit(i, TOY_SLEEP + 2, ROWS, i == 0 ? INFER_CLASS_JOB : i == 1 ? INFER_CLASS_STATEMENT : INFER_CLASS_INTERACTIVE, 0);
	tap_ok(gives(0, ROWS, 2 * (TOY_SLEEP + 2) + 1) && gives(1, ROWS, 2 * (TOY_SLEEP + 2) + 1) &&
		   gives(2, ROWS, 2 * (TOY_SLEEP + 2) + 1), "rows of three requests and all classes have their results");
	submit(0, TOY_TOGETHER, 1, INFER_CLASS_JOB, 0);
	tap_ok(gives(0, 1, 2), "and never were three batches under way");
}

/* What is small runs on the loop, which takes a lane for it: never a third one, and none beside others. */
static void
test_small(void)
{
	struct infer_stats_device device;
	uint8_t		slow[INFER_KEY_BYTES];
	uint64_t	before, beside;
	float		sleeps = TOY_SLEEP + 300;
	bool		good = engine_load_toy(&engine, &clients[0], "toy slow", slow);

	for (int i = 0; i < 10; i++)
	{
		submit(1, 3, 1, INFER_CLASS_INTERACTIVE, 0);
		good = good && gives(1, 1, 7);
	}
	before = counters(&device).inline_calls;
	raw_fill(regions[0], slow, &sleeps, 1);
	raw_submit(&clients[0], regions[0]);
	wait_running(0);
	for (int i = 0; i < 5; i++)
	{
		submit(1, 3, 1, INFER_CLASS_INTERACTIVE, 0);
		good = good && gives(1, 1, 7);
	}
	beside = counters(&device).inline_calls;
	good = good && !is_done(0) && gives(0, 1, 2 * (TOY_SLEEP + 300) + 1);
	tap_ok(good && beside == before, "the loop runs nothing itself while a runner has a lane, which is when others' calls go on beside");
	submit(1, TOY_RUNS, 1, INFER_CLASS_INTERACTIVE, 0);
	tap_ok(gives(1, 1, 1) && before > 0, "with all lanes free it does (%llu calls)", (unsigned long long) before);
}

/* ---- what a client sees ---- */

static void
test_state(void)
{
	static const float values[2] = {TOY_SLEEP + 500, 1};
	struct infer_stats_device device;
	uint64_t	batches = counters(&device).batches;

	raw_fill(regions[0], key, values, 2);
	regions[0]->map->request.class_ = INFER_CLASS_STATEMENT;
	raw_submit(&clients[0], regions[0]);
	for (int i = 0; i < RAW_TIMEOUT && counters(&device).batches == batches; i++)
		usleep(1000);
	tap_ok(!is_done(0) && infer_load_acquire32(&regions[0]->map->run_state) == INFER_RUN_RUNNING,
		   "a request runs as long as any of its batches does");
	tap_ok(raw_wait(&clients[0], regions[0], RAW_TIMEOUT) && raw_row_f32(regions[0], 1) == 3, "and ends with the last of them");
}

static void
test_marked(void)
{
	bool		good;

	submit(0, TOY_SLEEP + 5, ROWS, INFER_CLASS_JOB, 0);
	submit(1, TOY_SLEEP + 5, ROWS, INFER_CLASS_STATEMENT, 0);
	wait_running(0);
	submit(2, TOY_RUNS, 3, INFER_CLASS_INTERACTIVE, INFER_REQUEST_MARKED);
	good = gives(2, 3, 1);
	tap_ok(good && gives(0, ROWS, 2 * (TOY_SLEEP + 5) + 1) && gives(1, ROWS, 2 * (TOY_SLEEP + 5) + 1),
		   "a marked row has the device for itself, and others go on behind it");
}

/* ---- signs of life ---- */

static uint64_t
beats(void)
{
	return __atomic_load_n(&engine.page->device_beat, __ATOMIC_RELAXED);
}

static void
test_beats(void)
{
	uint64_t	before, silent, after;
	bool		good = true;

	submit(0, TOY_SLEEP + 1500, 1, INFER_CLASS_JOB, 0);
	wait_running(0);
	before = beats();
	for (int i = 0; i < 50; i++)
	{
		submit(1, 3, 1, INFER_CLASS_STATEMENT, 0);
		good = good && gives(1, 1, 7);
	}
	silent = beats() - before;
	good = good && !is_done(0) && engine.page->device_busy;
	good = good && gives(0, 1, 2 * (TOY_SLEEP + 1500) + 1);
	before = beats();
	for (int i = 0; i < 50; i++)
	{
		submit(1, 3, 1, INFER_CLASS_STATEMENT, 0);
		good = good && gives(1, 1, 7);
	}
	after = beats() - before;
	tap_ok(good && silent <= 2 && after >= 50,
		   "a lane that is silent stops the beat, whatever another one does (%llu beats, and %llu behind it)",
		   (unsigned long long) silent, (unsigned long long) after);
}

/* ---- time ---- */

static void
test_time(void)
{
	struct infer_stats_device device, later;
	uint64_t	before = counters(&device).compute_usec, compute;

	submit(0, TOY_SLEEP + 300, 2, INFER_CLASS_JOB, 0);
	if (!gives(0, 2, 2 * (TOY_SLEEP + 300) + 1))
		raw_fail("the rows are not computed");
	compute = counters(&later).compute_usec - before;
	tap_ok(compute >= 290000 && compute <= later.busy_usec - device.busy_usec + 2,
		   "what two batches had of the device at once is no more than it was busy (%llu usec of %llu)",
		   (unsigned long long) compute, (unsigned long long) (later.busy_usec - device.busy_usec));
}

/* ---- cores ---- */

/* Threads of the engine that have the kernel's longer slices, but for those of the pool; -1: the kernel does not tell. */
static int
threads_computing(void)
{
	int			count = 0;
	char		path[64];
	struct dirent *entry;
	DIR		   *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int) engine.pid);
	tasks = opendir(path);
	while (tasks != NULL && (entry = readdir(tasks)) != NULL)
	{
		struct
		{
			uint32_t	size;
			uint32_t	policy;
			uint64_t	flags;
			int32_t		nice;
			uint32_t	priority;
			uint64_t	runtime;	/* nsec */
			uint64_t	rest[2];
		}			attributes = {.size = sizeof(attributes)};
		char		name[32] = "";
		FILE	   *file;

		if (entry->d_name[0] == '.' || syscall(SYS_sched_getattr, atoi(entry->d_name), &attributes, sizeof(attributes), 0) != 0)
			continue;
		if (attributes.runtime == 0)
			count = -1;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", (int) engine.pid, entry->d_name);
		file = fopen(path, "r");
		if (file == NULL || fgets(name, sizeof(name), file) == NULL)
			name[0] = '\0';
		if (file != NULL)
			fclose(file);
		if (count >= 0 && strcmp(name, "infer-compute\n") != 0)
			count += attributes.runtime == 4000000;
	}
	if (tasks != NULL)
		closedir(tasks);
	return count;
}

static void
test_slices(const char *device, int runners)
{
	int			count;

	begin(device, "toy");
	for (int i = 0; (count = threads_computing()) >= 0 && count < runners && i < RAW_TIMEOUT; i++)
		usleep(1000);			/* it may not have begun */
	if (count < 0)
		tap_skip(device, "the kernel does not tell of slices");
	else
		tap_ok(count == runners, "%s: %d runners compute for milliseconds on end", device, runners);
	end();
}

/* ---- failures ---- */

/* Names are texts of a reply that two lanes write at once; a batch that fails takes back what is its own. */
static void
test_replies(void)
{
	float		values[ROWS];
	bool		good = true;

	for (int i = 0; i < ROWS; i++)
		values[i] = i % 5 == 4 ? TOY_BATCH_ERROR : (float) (i % 7);
	for (int round = 0; round < 20; round++)
	{
		raw_fill(regions[0], key, values, ROWS);
		regions[0]->map->request.class_ = INFER_CLASS_JOB;
		raw_submit(&clients[0], regions[0]);
		good = good && raw_wait(&clients[0], regions[0], RAW_TIMEOUT) && regions[0]->map->reply.error == 0;
		for (uint32_t i = 0; good && i < ROWS; i++)
		{
			const uint8_t *base = (const uint8_t *) regions[0]->map;
			const struct infer_column *name = (const struct infer_column *) (base + regions[0]->map->reply.columns_offset) + 1;
			const struct infer_span *span = (const struct infer_span *) (base + name->spans_offset) + i;
			char		expected[32];

			snprintf(expected, sizeof(expected), "row of %g", (double) values[i]);
			if (values[i] == TOY_BATCH_ERROR)
				good = raw_row_status(regions[0], i) == INFER_ERROR_DEVICE;
			else
				good = raw_row_status(regions[0], i) == 0 && raw_row_f32(regions[0], i) == 2 * values[i] + 1 &&
					span->length == strlen(expected) &&
					memcmp(base + name->data_offset + span->begin, expected, span->length) == 0;
		}
	}
	tap_ok(good, "two lanes write texts and errors into one reply, and each row has its own");
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	begin("device=null:async=2", "toy slow");
	test_together();
	test_state();
	test_marked();
	test_beats();
	test_time();
	end();
	begin("device=null:async=2", "toy");
	test_small();
	end();
	begin("device=null:async=2", "toy slow label");
	test_replies();
	end();
	test_slices("device=null:async=2", 0);
	test_slices("device=null", 1);
	engine_remove_folder(&engine);
	return tap_done();
}
