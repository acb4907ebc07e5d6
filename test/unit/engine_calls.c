/*
 * engine_calls.c
 *	  Calls over the real socket: versions, batches, deadlines, cancellation, failures of rows
 *	  and batches, limits, counters.
 */
#include "heap.h"
#include "engine_process.h"
#include "tap.h"

static struct engine_process engine;

/* On the loop's thread and on the scheduler's, with as many rows as ever, or fewer. */
static void
test_allocations(const char *contents)
{
	struct raw_client c;
	struct raw_region *region;
	uint8_t		key[INFER_KEY_BYTES];
	float		x[600] = {0};
	float		before;
	bool		good;

	if (!HEAP_COUNTED)
	{
		tap_skip("calls allocate nothing", "a sanitizer has its own heap");
		return;
	}
	raw_connect(&c, engine.socket);
	good = engine_load_toy(&engine, &c, contents, key);
	region = raw_region(&c, 0, 1 << 16);
	good = good && raw_call(&c, region, key, x, 600);
	before = raw_row_f32(region, 0);
	for (uint32_t i = 0; i < 500; i++)
		good = good && raw_call(&c, region, key, x, 1 + i);
	tap_ok(good && before > 0 && raw_row_f32(region, 0) == before, "calls allocate nothing: %s (%g, then %g)",
		   contents, (double) before, (double) raw_row_f32(region, 0));
	raw_close(&c);
}

static void
test_versions(void)
{
	struct raw_client c;
	struct infer_frame frame;
	struct infer_hello hello = {.protocol = INFER_PROTOCOL_VERSION, .build = INFER_VERSION};

	raw_connect_only(&c, engine.socket);
	raw_hello(&c, "0.0.1");
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_VERSION &&
		   strstr(raw_error(&c).message, "0.0.1") != NULL && strstr(raw_error(&c).hint, "Restart the server") != NULL,
		   "another version of the library is told to restart the server");
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == 0, "and the connection is closed");
	raw_close(&c);

	raw_connect_only(&c, engine.socket);
	frame = raw_frame(&c, INFER_FRAME_HELLO, sizeof(hello));
	frame.version = INFER_PROTOCOL_VERSION + 1;
	raw_send(&c, &frame, &hello, NULL, 0);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_VERSION,
		   "so is another version of the protocol");
	raw_close(&c);

	raw_connect_only(&c, engine.socket);
	frame = raw_frame(&c, INFER_FRAME_STATS, 0);
	raw_send(&c, &frame, NULL, NULL, 0);
	tap_ok(raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&c).error == INFER_ERROR_PROTOCOL,
		   "HELLO comes first");
	raw_close(&c);

	raw_connect(&c, engine.socket);
	tap_ok(c.welcome.protocol == INFER_PROTOCOL_VERSION && strcmp(c.welcome.build, INFER_VERSION) == 0 &&
		   c.welcome.epoch == c.page->epoch && c.page->state == INFER_ENGINE_READY, "WELCOME and the status page agree");
	raw_close(&c);
}

static void
test_calls(const uint8_t *key)
{
	struct raw_client c;
	struct raw_region *region;
	float		x[1000];
	bool		good = true;
	uint8_t		unknown[INFER_KEY_BYTES] = {9};
	struct infer_stats_head head;
	struct infer_stats_model before;
	struct infer_stats_model after;

	raw_connect(&c, engine.socket);
	region = raw_region(&c, 0, 1 << 16);
	x[0] = 0;
	raw_call(&c, region, key, x, 1);	/* the first run of a model is the scheduler's */
	raw_stats(&c, key, &head, &before);
	for (int i = 0; i < 1000; i++)
	{
		x[0] = (float) i;
		good = good && raw_call(&c, region, key, x, 1) && region->map->reply.error == 0 &&
			raw_row_status(region, 0) == 0 && raw_row_f32(region, 0) == 2 * x[0] + 1 &&
			region->map->run_state == INFER_RUN_DONE;
	}
	tap_ok(good, "1000 calls give their results");
	raw_stats(&c, key, &head, &after);
	tap_ok(after.calls - before.calls == 1000 && after.rows - before.rows == 1000 &&
		   after.inline_calls - before.inline_calls == 1000,
		   "all of them ran on the thread that read them (%llu)", (unsigned long long) (after.inline_calls - before.inline_calls));

	for (int i = 0; i < 1000; i++)
		x[i] = (float) i;
	good = raw_call(&c, region, key, x, 1000) && region->map->reply.error == 0;
	for (int i = 0; i < 1000; i++)
		good = good && raw_row_f32(region, (uint32_t) i) == 2 * x[i] + 1;
	tap_ok(good && region->map->reply.batches == 4 && region->map->reply.batch_rows == 256,
		   "1000 rows take 4 batches of at most 256 rows (%u of %u)", region->map->reply.batches, region->map->reply.batch_rows);

	raw_call(&c, region, unknown, x, 1);
	tap_ok(region->map->reply.error == INFER_ERROR_NEED_LOAD, "an unknown key must be loaded");

	raw_fill(region, key, x, 1);
	region->map->request.reply_bytes = 64;
	raw_submit(&c, region);
	raw_wait(&c, region, RAW_TIMEOUT);
	tap_ok(region->map->reply.error == INFER_ERROR_NEED_SPACE && region->map->reply.bytes_wanted > 64,
		   "a reply that does not fit says how much it wants");

	raw_fill(region, key, x, 1);
	((struct infer_column *) ((uint8_t *) region->map + INFER_REGION_HEAD))->type = INFER_TYPE_I32;
	raw_submit(&c, region);
	raw_wait(&c, region, RAW_TIMEOUT);
	tap_ok(region->map->reply.error == INFER_ERROR_PROTOCOL && strstr(raw_reply_error(region).message, "\"x\"") != NULL,
		   "a column of another type is an error that names the input");
	tap_ok(raw_call(&c, region, key, x, 1) && region->map->reply.error == 0, "and the connection goes on");
	raw_close(&c);
}

static void
test_rows(const uint8_t *key)
{
	struct raw_client c;
	struct raw_region *region;
	float		x[32];
	bool		good;
	struct infer_error_text text = {0};
	struct infer_reader r;

	for (int i = 0; i < 32; i++)
		x[i] = (float) i;
	raw_connect(&c, engine.socket);
	region = raw_region(&c, 0, 1 << 16);

	x[7] = TOY_ROW_ERROR;
	good = raw_call(&c, region, key, x, 32) && region->map->reply.error == 0 && region->map->reply.rows_failed == 1;
	for (uint32_t i = 0; i < 32; i++)
		good = good && (i == 7 ? raw_row_status(region, i) == INFER_ERROR_INPUT : raw_row_f32(region, i) == 2 * x[i] + 1);
	tap_ok(good, "a row's error is its own");

	x[7] = TOY_BATCH_ERROR;
	good = raw_call(&c, region, key, x, 32) && region->map->reply.error == 0 && region->map->reply.rows_failed == 1;
	for (uint32_t i = 0; i < 32; i++)
		good = good && (i == 7 ? raw_row_status(region, i) == INFER_ERROR_DEVICE :
						raw_row_status(region, i) == 0 && raw_row_f32(region, i) == 2 * x[i] + 1);
	tap_ok(good, "a batch that fails is run in parts, down to the row that fails it");
	r.data = (uint8_t *) region->map + region->map->request.reply_offset +
		((uint32_t *) ((uint8_t *) region->map + region->map->reply.row_message_offset))[7];
	r.size = 4096;
	r.used = r.failed = 0;
	tap_ok(infer_get_error(&r, &text) == 0 && strcmp(text.message, "the toy device failed") == 0,
		   "which has the failure's text");

	x[7] = TOY_MEMORY;
	good = raw_call(&c, region, key, x, 32) && region->map->reply.error == 0 && region->map->reply.rows_failed == 0;
	tap_ok(good && raw_row_f32(region, 7) == 2 * x[7] + 1, "a batch that is out of memory runs in smaller ones");

	x[7] = 7;
	raw_fill(region, key, x, 3);
	region->map->request.flags = INFER_REQUEST_MARKED;
	raw_submit(&c, region);
	raw_wait(&c, region, RAW_TIMEOUT);
	tap_ok(region->map->reply.error == 0 && region->map->reply.batches == 3 && region->map->reply.batch_rows == 1 &&
		   region->map->running_row == 2, "a marked request runs one row at a time and says which");
	raw_close(&c);
}

static void
test_strings(void)
{
	struct raw_client c;
	struct raw_region *region;
	uint8_t		key[INFER_KEY_BYTES];
	float		x[100];
	bool		good = true;
	uint8_t    *base;
	struct infer_column *name;
	struct infer_span *spans;

	raw_connect(&c, engine.socket);
	engine_load_toy(&engine, &c, "label", key);
	region = raw_region(&c, 0, 1 << 16);
	base = (uint8_t *) region->map;
	for (int i = 0; i < 100; i++)
		x[i] = (float) i;
	good = raw_call(&c, region, key, x, 100) && region->map->reply.error == 0 && region->map->reply.columns == 2;
	name = (struct infer_column *) (base + region->map->reply.columns_offset) + 1;
	spans = (struct infer_span *) (base + name->spans_offset);
	for (int i = 0; good && i < 100; i++)
	{
		char		text[32];
		int			length = snprintf(text, sizeof(text), "row of %d", i);

		good = spans[i].length == (uint32_t) length && spans[i].begin + spans[i].length <= name->data_bytes &&
			memcmp(base + name->data_offset + spans[i].begin, text, (size_t) length) == 0;
	}
	tap_ok(good && infer_column_check(name, 100, region->size) == NULL, "strings come back");

	raw_fill(region, key, x, 100);
	region->map->request.reply_bytes = 100 * 8 + 64 + 2 * 56 + 100 * 12 + 256;
	raw_submit(&c, region);
	raw_wait(&c, region, RAW_TIMEOUT);
	good = region->map->reply.error == INFER_ERROR_NEED_SPACE;
	raw_fill(region, key, x, 100);
	region->map->request.reply_bytes = region->map->reply.bytes_wanted;
	raw_submit(&c, region);
	raw_wait(&c, region, RAW_TIMEOUT);
	tap_ok(good && region->map->reply.error == 0, "strings that do not fit say how much would do");

	raw_fill(region, key, x, 100);
	region->map->request.outputs = 1;
	raw_submit(&c, region);
	raw_wait(&c, region, RAW_TIMEOUT);
	name = (struct infer_column *) (base + region->map->reply.columns_offset) + 1;
	tap_ok(region->map->reply.error == 0 && name->type == INFER_TYPE_NONE && raw_row_f32(region, 3) == 7,
		   "an output that is not wanted is not sent");
	raw_close(&c);
}

static uint64_t
clock_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/* Waits until the engine computes. */
static void
wait_busy(struct raw_client *c)
{
	for (int i = 0; i < RAW_TIMEOUT && !__atomic_load_n(&c->page->device_busy, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
}

static void
test_queue(void)
{
	struct raw_client c;
	struct raw_client others[8];
	struct raw_region *region;
	uint8_t		key[INFER_KEY_BYTES];
	float		sleeps = TOY_SLEEP + 300;
	float		one = 1;
	bool		good = true;
	struct infer_stats_head head;
	struct infer_stats_model before;
	struct infer_stats_model after;

	raw_connect(&c, engine.socket);
	good = engine_load_toy(&engine, &c, "slow", key);
	region = raw_region(&c, 0, 1 << 16);
	for (int i = 0; i < 8; i++)
	{
		raw_connect(&others[i], engine.socket);
		raw_region(&others[i], 0, 1 << 16);
	}
	raw_stats(&c, key, &head, &before);
	raw_fill(region, key, &sleeps, 1);
	raw_submit(&c, region);
	wait_busy(&c);
	for (int i = 0; i < 8; i++)
	{
		raw_fill(&others[i].regions[0], key, &one, 1);
		raw_submit(&others[i], &others[i].regions[0]);
	}
	good = good && raw_wait(&c, region, RAW_TIMEOUT);
	for (int i = 0; i < 8; i++)
		good = good && raw_wait(&others[i], &others[i].regions[0], RAW_TIMEOUT) && raw_row_f32(&others[i].regions[0], 0) == 3;
	raw_stats(&c, key, &head, &after);
	tap_ok(good && after.batches - before.batches == 2 && others[0].regions[0].map->reply.batch_rows == 8,
		   "what gathers while the device is busy is one batch (%llu batches)", (unsigned long long) (after.batches - before.batches));
	tap_ok(after.inline_calls == before.inline_calls, "a slow model never runs on the loop's thread");

	/* deadline: waits behind a busy device and is not computed */
	raw_stats(&c, key, &head, &before);
	raw_fill(region, key, &sleeps, 1);
	raw_submit(&c, region);
	wait_busy(&c);
	raw_fill(&others[0].regions[0], key, &one, 1);
	others[0].regions[0].map->request.deadline = clock_nsec() + 50000000;
	raw_submit(&others[0], &others[0].regions[0]);
	good = raw_wait(&others[0], &others[0].regions[0], RAW_TIMEOUT);
	tap_ok(good && others[0].regions[0].map->reply.error == INFER_ERROR_DEADLINE &&
		   infer_load_acquire64(&region->map->done_seq) != region->map->submit_seq,
		   "a deadline ends a wait while the device is busy");

	/* cancel: one that waits ends at once, one that runs when its batch does */
	raw_fill(&others[1].regions[0], key, &one, 1);
	raw_submit(&others[1], &others[1].regions[0]);
	raw_cancel(&others[1], &others[1].regions[0]);
	good = raw_receive(&others[1], RAW_TIMEOUT) == INFER_FRAME_CANCELLED &&
		others[1].regions[0].map->reply.error == INFER_ERROR_CANCELLED &&
		infer_load_acquire64(&region->map->done_seq) != region->map->submit_seq;
	tap_ok(good, "a request that waits is cancelled at once");
	raw_cancel(&c, region);
	good = raw_receive(&c, RAW_TIMEOUT) == INFER_FRAME_CANCELLED && region->map->reply.error == INFER_ERROR_CANCELLED &&
		region->map->done_seq == region->map->submit_seq;
	tap_ok(good, "a request that runs is given back when its batch has ended");
	raw_stats(&c, key, &head, &after);
	tap_ok(after.cancelled - before.cancelled == 2 && after.rows - before.rows == 1,
		   "what was late or cancelled was counted and not computed (%llu, %llu)",
		   (unsigned long long) (after.cancelled - before.cancelled), (unsigned long long) (after.rows - before.rows));

	/* a cancel that comes too late is nothing */
	good = raw_call(&c, region, key, &one, 1) && raw_cancel(&c, region) && raw_call(&c, region, key, &one, 1) &&
		region->map->reply.error == 0;
	tap_ok(good, "a late cancel does no harm");
	for (int i = 0; i < 8; i++)
		raw_close(&others[i]);
	raw_close(&c);
}

/*
 * Calls with pauses about as long as the loop stays awake, so that it falls asleep while the
 * next one is submitted.  A wake-up that is lost ends a wait by its timeout.
 */
static bool
call_with_pauses(const uint8_t *key, int calls, unsigned seed)
{
	struct raw_client c;
	float		x = (float) seed;

	raw_connect(&c, engine.socket);
	raw_region(&c, 0, 1 << 16);
	for (int n = 0; n < calls; n++)
	{
		uint64_t	until = clock_nsec() + (rand_r(&seed) % 4 > 0 ? rand_r(&seed) % 10000 : rand_r(&seed) % 100000);

		if (!raw_call(&c, &c.regions[0], key, &x, 1) || raw_row_f32(&c.regions[0], 0) != 2 * x + 1)
			return false;
		while (clock_nsec() < until)
			;
	}
	raw_close(&c);
	return true;
}

static void
test_wakeups(const uint8_t *key)
{
	pid_t		pids[4];
	int			lost = 0;

	tap_ok(call_with_pauses(key, 40000, 1), "no wake-up is lost in 40000 calls while the loop falls asleep");
	for (unsigned i = 0; i < 4; i++)
	{
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(call_with_pauses(key, 4000, i) ? 0 : 1);
	}
	for (int i = 0; i < 4; i++)
	{
		int			status = 1;

		waitpid(pids[i], &status, 0);
		lost += status != 0;
	}
	tap_ok(lost == 0, "nor in those of four clients at once");
}

static void
test_admission(void)
{
	static const char *const settings[] = {"queue_limit=2", "payload_limit=256", "batch_rows=4", NULL};
	struct engine_process small = {0};
	struct raw_client c[5];
	uint8_t		key[INFER_KEY_BYTES];
	float		sleeps = TOY_SLEEP + 300;
	float		one = 1;
	bool		good;

	engine_folder(&small);
	engine_start(&small, settings);
	for (int i = 0; i < 4; i++)
	{
		raw_connect(&c[i], small.socket);
		raw_region(&c[i], 0, 1 << 16);
	}
	raw_connect(&c[4], small.socket);
	tap_ok(raw_region_seals(&c[4], 0, 1 << 16, 1 << 16, F_SEAL_SHRINK | F_SEAL_SEAL) == INFER_FRAME_ERROR &&
		   raw_error(&c[4]).error == INFER_ERROR_BUSY && strstr(raw_error(&c[4]).detail, "payload_limit") != NULL,
		   "regions over the payload limit are refused with the bound's name");
	good = engine_load_toy(&small, &c[0], "slow", key);
	raw_fill(&c[0].regions[0], key, &sleeps, 1);
	raw_submit(&c[0], &c[0].regions[0]);
	wait_busy(&c[0]);
	raw_fill(&c[1].regions[0], key, &one, 1);
	raw_submit(&c[1], &c[1].regions[0]);
	while (__atomic_load_n(&c[0].page->requests, __ATOMIC_ACQUIRE) < 2)
		usleep(1000);
	good = good && raw_call(&c[2], &c[2].regions[0], key, &one, 1) && c[2].regions[0].map->reply.error == INFER_ERROR_BUSY &&
		infer_load_acquire64(&c[0].regions[0].map->done_seq) == 0;
	tap_ok(good && strcmp(raw_reply_error(&c[2].regions[0]).message, "the inference engine's queue is full") == 0 &&
		   strstr(raw_reply_error(&c[2].regions[0]).detail, "queue_limit") != NULL &&
		   strstr(raw_reply_error(&c[2].regions[0]).hint, "infer.request_class") != NULL,
		   "an interactive call over the queue limit is refused at once");
	raw_fill(&c[3].regions[0], key, &one, 1);
	c[3].regions[0].map->request.class_ = INFER_CLASS_STATEMENT;
	raw_submit(&c[3], &c[3].regions[0]);
	tap_ok(raw_wait(&c[3], &c[3].regions[0], RAW_TIMEOUT) && c[3].regions[0].map->reply.error == 0, "a statement waits");
	raw_wait(&c[0], &c[0].regions[0], RAW_TIMEOUT);
	raw_wait(&c[1], &c[1].regions[0], RAW_TIMEOUT);

	tap_ok(write(small.control, "payload_limit=65536\nqueue_limit=nonsense\ndevice=cpu\nspeed=1\n", 57) == 57 &&
		   engine_logged(&small, "invalid value for setting \"queue_limit\": \"nonsense\"") &&
		   engine_logged(&small, "takes effect at the engine's next start"), "settings come by the control pipe; a wrong one is logged");
	raw_close(&c[4]);
	raw_connect(&c[4], small.socket);
	tap_ok(raw_region_seals(&c[4], 0, 1 << 20, 1 << 20, F_SEAL_SHRINK | F_SEAL_SEAL) == INFER_FRAME_READY, "and take effect");
	for (int i = 0; i < 5; i++)
		raw_close(&c[i]);
	engine_stop(&small);
	engine_remove_folder(&small);
}

int
main(int argc, char **argv)
{
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	engine_start(&engine, NULL);
	raw_connect(&c, engine.socket);
	tap_ok(engine_load_toy(&engine, &c, "plain", key), "a model is loaded from the cache");
	test_versions();
	test_calls(key);
	test_rows(key);
	test_allocations("allocations, calm");
	test_allocations("allocations, calm, slow");
	test_strings();
	test_queue();
	test_wakeups(key);
	test_admission();
	tap_ok(engine_lives(&engine), "the engine lives");
	raw_close(&c);
	engine_stop(&engine);
	engine_remove_folder(&engine);
	return tap_done();
}
