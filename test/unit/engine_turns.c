/*
 * engine_turns.c
 *	  Bulk work and interactive calls on one device, with real graphs: a row that costs ten
 *	  slices gives way between its segments, and predictions are good enough to cut by.
 *
 * What a call waits is counted in segments, never in time.
 */
#define ENGINE_REAL_KINDS
#include "engine_process.h"
#include "tap.h"

#define WIDTH_MAX 256

static struct engine_process engine;

/* columns × width f32 a row, all of them x and a bit more for each row. */
static void
fill(struct raw_region *region, const uint8_t *key, uint32_t columns, uint32_t width, uint32_t rows, float x,
	 uint32_t class_)
{
	uint8_t    *base = (uint8_t *) region->map;
	struct infer_column *column = (struct infer_column *) (base + INFER_REGION_HEAD);
	uint64_t	bytes = (uint64_t) rows * width * sizeof(float);
	uint64_t	at = INFER_REGION_HEAD + ((columns * sizeof(*column) + 63) & ~63ull);

	memset(&region->map->request, 0, sizeof(region->map->request));
	memcpy(region->map->request.key, key, INFER_KEY_BYTES);
	region->map->request.rows = rows;
	region->map->request.columns = columns;
	region->map->request.columns_offset = INFER_REGION_HEAD;
	region->map->request.class_ = class_;
	for (uint32_t c = 0; c < columns; c++)
	{
		column[c] = (struct infer_column) {.type = INFER_TYPE_F32, .width = width, .data_offset = at, .data_bytes = bytes};
		for (uint32_t i = 0; i < rows * width; i++)
			((float *) (base + at))[i] = x + 0.001f * (float) (i / width % 100);
		at += (bytes + 63) & ~63ull;
	}
	region->map->request.reply_offset = at;
	region->map->request.reply_bytes = region->size - at;
}

/* The first columns of what was filled in become texts, the same for all rows. */
static void
fill_texts(struct raw_region *region, uint32_t columns, const char *text)
{
	uint8_t    *base = (uint8_t *) region->map;
	struct infer_column *column = (struct infer_column *) (base + INFER_REGION_HEAD);
	uint32_t	rows = region->map->request.rows;
	uint64_t	at = region->map->request.reply_offset;

	for (uint32_t c = 0; c < columns; c++)
	{
		struct infer_span *spans = (struct infer_span *) (base + at);

		for (uint32_t i = 0; i < rows; i++)
			spans[i] = (struct infer_span) {.length = (uint32_t) strlen(text)};
		column[c] = (struct infer_column) {.type = INFER_TYPE_STRING, .width = 1, .spans_offset = at};
		at += (rows * sizeof(*spans) + 63) & ~63ull;
		strcpy((char *) base + at, text);
		column[c].data_offset = at;
		column[c].data_bytes = strlen(text);
		at += (strlen(text) + 64) & ~63ull;
	}
	region->map->request.reply_offset = at;
	region->map->request.reply_bytes = region->size - at;
}

/* The first output of all rows. */
static const void *
output(struct raw_region *region, size_t *bytes)
{
	uint8_t    *base = (uint8_t *) region->map;
	struct infer_column *column = (struct infer_column *) (base + region->map->reply.columns_offset);

	*bytes = region->map->request.rows * column->width * sizeof(float);
	return base + column->data_offset;
}

static bool
gives(struct raw_region *region, const void *expected, size_t expected_bytes)
{
	size_t		bytes;
	const void *got = output(region, &bytes);

	return region->map->reply.error == 0 && region->map->reply.rows_failed == 0 && bytes == expected_bytes &&
		memcmp(got, expected, bytes) == 0;
}

static bool
run(struct raw_client *c, struct raw_region *region)
{
	return raw_submit(c, region) && raw_wait(c, region, 4 * RAW_TIMEOUT) && region->map->reply.error == 0;
}

static bool
runs(struct raw_region *region)
{
	return infer_load_acquire64(&region->map->done_seq) != region->map->submit_seq;
}

static struct infer_stats_model
counters(struct raw_client *c, const uint8_t *key)
{
	struct infer_stats_head head;
	struct infer_stats_model model;

	if (!raw_stats(c, key, &head, &model))
		raw_fail("no statistics");
	return model;
}

/* Waits until the model has begun so many segments more. */
static void
wait_segments(struct raw_client *c, const uint8_t *key, uint64_t from, uint64_t more)
{
	for (int i = 0; i < RAW_TIMEOUT && counters(c, key).segments < from + more; i++)
		usleep(1000);
}

/* Of what runs: the rows of a class and since when, usec; 0: none do. */
static uint64_t
running_usec(struct raw_client *c, uint32_t class_)
{
	struct infer_frame frame = raw_frame(c, INFER_FRAME_ACTIVITY, 0);
	struct infer_activity_head head;

	raw_send(c, &frame, NULL, NULL, 0);
	while (raw_receive(c, RAW_TIMEOUT) != INFER_FRAME_ACTIVITY_REPLY)
		if (c->frame.type == 0)
			raw_fail("no activity");
	memcpy(&head, c->payload, sizeof(head));
	for (uint32_t i = 0; i < head.count; i++)
	{
		struct infer_activity one;

		memcpy(&one, c->payload + sizeof(head) + i * sizeof(one), sizeof(one));
		if (one.state == INFER_ACTIVITY_RUNNING && one.class_ == class_)
			return one.compute_usec;
	}
	return 0;
}

static uint64_t
clock_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* On the null device each program sleeps 400 ms, in as many parts as it has primitives: 41 and 1. */
static void
test_null(void)
{
	static const char *const settings[] = {"device=null:delay=400", "slice=40ms", "job_share=0", NULL};
	struct raw_client bulk;
	struct raw_client c;
	struct raw_region *job;
	struct raw_region *call;
	struct raw_region *more;
	uint8_t		chain[INFER_KEY_BYTES];
	uint8_t		single[INFER_KEY_BYTES];
	float		expected[2][16];
	struct infer_stats_model before;
	struct infer_stats_model after;
	bool		good;
	size_t		bytes;

	engine_start(&engine, settings);
	raw_connect(&bulk, engine.socket);
	raw_connect(&c, engine.socket);
	good = engine_load_onnx(&engine, &c, "test/fixtures/onnx/chain.onnx", chain) &&
		engine_load_onnx(&engine, &c, "test/fixtures/onnx/finite.onnx", single);
	job = raw_region(&bulk, 0, 1 << 16);
	call = raw_region(&c, 0, 1 << 16);
	more = raw_region(&c, 1, 1 << 16);
	for (int i = 0; i < 2; i++)
	{
		fill(call, chain, 1, 16, 1, (float) i, INFER_CLASS_INTERACTIVE);
		good = good && run(&c, call);
		memcpy(expected[i], output(call, &bytes), sizeof(expected[i]));
	}
	before = counters(&c, chain);
	tap_ok(good && before.batches == 2 && before.segments >= 20 && before.segments <= 26 && before.segments_long == 0,
		   "a row of ten slices runs in as many segments (%llu in 2 runs)", (unsigned long long) before.segments);

	/* another model's call */
	fill(job, chain, 1, 16, 1, 0, INFER_CLASS_JOB);
	raw_submit(&bulk, job);
	wait_segments(&c, chain, before.segments, 2);
	fill(call, single, 1, 1, 1, 1, INFER_CLASS_INTERACTIVE);
	before = counters(&c, chain);
	good = raw_submit(&c, call);
	for (int i = 0; i < RAW_TIMEOUT && counters(&bulk, chain).interrupted == 0; i++)
		usleep(1000);
	tap_ok(running_usec(&bulk, INFER_CLASS_JOB) > running_usec(&bulk, INFER_CLASS_INTERACTIVE) + 30000,
		   "what is interrupted runs since it began, not since it was interrupted");
	good = good && raw_wait(&c, call, RAW_TIMEOUT) && call->map->reply.error == 0 && runs(job);
	after = counters(&c, chain);
	tap_ok(good && after.interrupted == 1 && after.segments - before.segments <= 4,
		   "an interactive call waits for a segment, not for the row (%llu of 11 segments)",
		   (unsigned long long) (after.segments - before.segments));
	tap_ok(raw_wait(&bulk, job, RAW_TIMEOUT) && gives(job, expected[0], sizeof(expected[0])), "and the row goes on as if nothing had been");
	after = counters(&c, single);
	tap_ok(after.segments == 1 && after.segments_long == 1, "a segment that cannot be cut is counted");

	/* the same model's */
	before = counters(&c, chain);
	raw_submit(&bulk, job);
	wait_segments(&c, chain, before.segments, 2);
	fill(call, chain, 1, 16, 1, 1, INFER_CLASS_INTERACTIVE);
	good = run(&c, call) && runs(job) && gives(call, expected[1], sizeof(expected[1])) &&
		raw_wait(&bulk, job, RAW_TIMEOUT) && gives(job, expected[0], sizeof(expected[0]));
	after = counters(&c, chain);
	tap_ok(good && after.interrupted == 2 && after.batches - before.batches == 2,
		   "the same model runs an interactive row in the middle of another, each with its result");

	/* a statement's, too */
	before = counters(&c, chain);
	raw_submit(&bulk, job);
	wait_segments(&c, chain, before.segments, 2);
	fill(call, single, 1, 1, 1, 1, INFER_CLASS_STATEMENT);
	good = run(&c, call) && runs(job) && raw_wait(&bulk, job, RAW_TIMEOUT) && gives(job, expected[0], sizeof(expected[0]));
	tap_ok(good && counters(&c, chain).interrupted - before.interrupted == 1, "a statement does not wait for a job's row either");

	/* what is given up while others run in its middle ends before more of them do */
	raw_submit(&bulk, job);
	before = counters(&c, chain);
	wait_segments(&c, chain, before.segments, 2);
	fill(call, single, 1, 1, 1, 1, INFER_CLASS_INTERACTIVE);
	raw_submit(&c, call);
	for (int i = 0; i < RAW_TIMEOUT && counters(&bulk, chain).interrupted == before.interrupted; i++)
		usleep(1000);
	fill(more, single, 1, 1, 1, 1, INFER_CLASS_INTERACTIVE);
	raw_submit(&c, more);
	raw_cancel(&bulk, job);
	good = raw_receive(&bulk, RAW_TIMEOUT) == INFER_FRAME_CANCELLED && !runs(call) && runs(more);
	tap_ok(good && raw_wait(&c, more, RAW_TIMEOUT), "what is given up while it is interrupted does not wait for its turn");
	raw_wait(&c, call, 0);

	/* a call given up is not computed to its end */
	before = counters(&c, chain);
	raw_submit(&bulk, job);
	wait_segments(&c, chain, before.segments, 2);
	raw_cancel(&bulk, job);
	good = raw_receive(&bulk, RAW_TIMEOUT) == INFER_FRAME_CANCELLED && job->map->reply.error == INFER_ERROR_CANCELLED;
	after = counters(&c, chain);
	tap_ok(good && after.segments - before.segments < 10 && after.rows == before.rows && after.cancelled - before.cancelled == 1,
		   "a cancel ends a row between two segments (after %llu)", (unsigned long long) (after.segments - before.segments));
	before = after;
	fill(job, chain, 1, 16, 1, 0, INFER_CLASS_JOB);
	job->map->request.deadline = clock_nsec() + 100000000;
	raw_submit(&bulk, job);
	good = raw_wait(&bulk, job, RAW_TIMEOUT) && job->map->reply.error == INFER_ERROR_DEADLINE;
	after = counters(&c, chain);
	tap_ok(good && after.segments - before.segments < 10 && after.rows == before.rows && after.cancelled - before.cancelled == 1,
		   "so does a deadline (after %llu)", (unsigned long long) (after.segments - before.segments));
	raw_close(&c);
	raw_close(&bulk);
	engine_stop(&engine);
}

/* Twenty products and activations a row, in slices that take one or two of them. */
static void
test_graph(void)
{
	static const char *const settings[] = {"device=cpu", "cpu_threads=1", "slice=2us", NULL};
	enum { ROWS = 3000, CALLS = 40 };
	struct raw_client bulk;
	struct raw_client c;
	struct raw_region *job;
	struct raw_region *call;
	uint8_t		heavy[INFER_KEY_BYTES];
	uint8_t		single[INFER_KEY_BYTES];
	struct infer_stats_model after = {0};
	bool		good;
	uint32_t	calls = 0;
	uint64_t	interrupted;
	size_t		bytes;
	void	   *expected;

	engine_start(&engine, settings);
	raw_connect(&bulk, engine.socket);
	raw_connect(&c, engine.socket);
	good = engine_load_onnx(&engine, &c, "test/fixtures/onnx/heavy.onnx", heavy) &&
		engine_load_onnx(&engine, &c, "test/fixtures/onnx/finite.onnx", single);
	job = raw_region(&bulk, 0, 1 << 23);
	call = raw_region(&c, 0, 1 << 16);
	fill(job, heavy, 1, 256, ROWS, 1, INFER_CLASS_JOB);
	good = good && run(&bulk, job);
	expected = malloc(job->size);
	output(job, &bytes);
	memcpy(expected, output(job, &bytes), bytes);
	/* a call may meet the end of a row instead of its middle: one of several jobs must show it */
	for (int attempt = 0; attempt < 20 && good && (attempt == 0 || after.interrupted < calls / 3); attempt++)
	{
		calls = 0;
		after = counters(&c, heavy);
		raw_submit(&bulk, job);
		wait_segments(&c, heavy, after.segments, 1);
		interrupted = after.interrupted;
		while (runs(job) && calls < CALLS)
		{
			fill(call, single, 1, 1, 1, 1, INFER_CLASS_INTERACTIVE);
			good = good && run(&c, call);
			calls++;
		}
		good = good && raw_wait(&bulk, job, 4 * RAW_TIMEOUT) && gives(job, expected, bytes);
		after = counters(&c, heavy);
		after.interrupted -= interrupted;
	}
	tap_ok(good, "a job and interactive calls in the middle of its rows give their results");
	tap_ok(after.batches >= ROWS && after.segments > 5 * after.batches && after.interrupted >= calls / 3,
		   "rows of ten slices run alone, in segments, and give way between them (%llu batches, %llu segments, %llu of %u calls)",
		   (unsigned long long) after.batches, (unsigned long long) after.segments,
		   (unsigned long long) after.interrupted, calls);
	free(expected);
	raw_close(&c);
	raw_close(&bulk);
	engine_stop(&engine);
}

/* A device that hangs while constants are computed; batches go on beside it. */
static void
test_hanging_load(void)
{
	static const char *const settings[] = {"device=null:hang=2", NULL};
	struct raw_client loading;
	struct raw_client c;
	struct raw_region *call;
	const struct infer_status_page *page;
	uint8_t		chain[INFER_KEY_BYTES];
	uint8_t		folded[INFER_KEY_BYTES];
	uint64_t	load_beat;
	uint64_t	device_beat;
	bool		good;

	engine_start(&engine, settings);
	raw_connect(&loading, engine.socket);
	raw_connect(&c, engine.socket);
	call = raw_region(&c, 0, 1 << 16);
	page = c.page;
	good = engine_load_onnx(&engine, &c, "test/fixtures/onnx/chain.onnx", chain);
	fill(call, chain, 1, 16, 1, 1, INFER_CLASS_INTERACTIVE);
	good = good && run(&c, call) && infer_load_acquire32(&page->load_busy) == 0;
	engine_put_onnx(&engine, "test/fixtures/onnx/row_axis.onnx", folded);
	raw_load(&loading, folded, folded, 0);
	for (int i = 0; i < RAW_TIMEOUT && infer_load_acquire32(&page->load_busy) == 0; i++)
		usleep(1000);
	load_beat = infer_load_acquire64(&page->load_beat);
	device_beat = infer_load_acquire64(&page->device_beat);
	for (int i = 0; i < 3; i++)
		good = good && run(&c, call);
	tap_ok(good && infer_load_acquire32(&page->load_busy) == 1 && infer_load_acquire64(&page->load_beat) == load_beat &&
		   infer_load_acquire64(&page->device_beat) > device_beat, "a load that hangs shows, whatever batches do meanwhile");
	raw_close(&c);
	raw_close(&loading);
	engine_stop(&engine);

	engine_start(&engine, NULL);
	raw_connect(&c, engine.socket);
	good = engine_load_onnx(&engine, &c, "test/fixtures/onnx/row_axis.onnx", folded);
	tap_ok(good && infer_load_acquire32(&c.page->load_busy) == 0 && infer_load_acquire64(&c.page->load_beat) > 0,
		   "one that does not beats while it computes, and then is over");
	raw_close(&c);
	engine_stop(&engine);
}

static void
test_prediction(void)
{
	static const struct
	{
		const char *path;
		uint32_t	columns;
		uint32_t	width;
		uint32_t	texts;			/* columns of texts, the first ones */
	}			models[] = {
		{"examples/breast_cancer/model.onnx", 1, 30},
		{"examples/diabetes/model.onnx", 1, 10},
		{"examples/digits/model.onnx", 1, 64},
		{"examples/iris/model.onnx", 1, 4},
		{"examples/progression/model.onnx", 10, 1, 3},
		{"examples/wine/model.onnx", 13, 1},
	};
	static const char *const settings[] = {"device=cpu", NULL};
	struct raw_client c;
	struct raw_region *region;
	unsigned	seed = 1;

	engine_start(&engine, settings);
	raw_connect(&c, engine.socket);
	region = raw_region(&c, 0, 1 << 20);
	for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
	{
		uint8_t		key[INFER_KEY_BYTES];
		bool		good = engine_load_onnx(&engine, &c, models[m].path, key);
		struct infer_stats_model model = {.predicted_error = UINT32_MAX};

		/* other processes may take the machine away: some window must be good */
		for (int window = 0; window < 20 && (window < 2 || model.predicted_error >= 250); window++)
		{
			for (int i = 0; i < 64; i++)
			{
				fill(region, key, models[m].columns, models[m].width, 1 + (uint32_t) rand_r(&seed) % 128, 1, INFER_CLASS_INTERACTIVE);
				fill_texts(region, models[m].texts, "high");
				good = good && run(&c, region);
			}
			model = counters(&c, key);
		}
		tap_ok(good && model.predictions == 64 && model.predicted_error < 250,
			   "%s: the median error of predicted times is below 25 %% (%.1f %%)", models[m].path, model.predicted_error / 10.0);
	}
	raw_close(&c);
	engine_stop(&engine);
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	test_null();
	test_graph();
	test_hanging_load();
	test_prediction();
	engine_remove_folder(&engine);
	return tap_done();
}
