/*
 * engine_prepare.c
 *	  The stage before the queue, with the toy kind's texts: what is answered or fails there,
 *	  small calls beside large ones, cancel, deadline, clients and models that go meanwhile, and
 *	  who is to blame for the end of an engine.
 *
 * Nouns
 *	large		a request of so many values that a preparer has it, not the loop
 *	reading		a row that takes time to prepare; a test never waits for all of those that it
 *				sends, or it is said where
 */
#include "engine_process.h"
#include "tap.h"

#include "engine/process/process.h"
#include "engine/scheduler/prepare.h"

#define LARGE_ROWS		1100		/* more than 4 kB of values */
#define SHORT_ROWS		2000		/* more have a preparer of their own */
#define SIZE			(1 << 17)
#define READING			(TOY_READ - 20)

static struct engine_process engine;
static uint8_t key[INFER_KEY_BYTES];
static float values[SHORT_ROWS + 1000];

static void
fill(struct raw_region *region, const float *x, uint32_t rows, uint32_t class_)
{
	raw_fill(region, key, x, rows);
	region->map->request.class_ = class_;
	region->map->run_state = INFER_RUN_IDLE;
	region->map->running_row = UINT32_MAX;
}

static void
submit(struct raw_client *c, const float *x, uint32_t rows, uint32_t class_)
{
	fill(&c->regions[0], x, rows, class_);
	raw_submit(c, &c->regions[0]);
}

static bool
has_ended(const struct raw_client *c)
{
	return infer_load_acquire64(&c->regions[0].map->done_seq) == c->regions[0].map->submit_seq;
}

/* Values of rows of one token, of which every tenth is reading if asked for. */
static const float *
some(uint32_t rows, float every_tenth)
{
	for (uint32_t i = 0; i < rows; i++)
		values[i] = every_tenth != 0 && i % 10 == 0 ? every_tenth : 1;
	return values;
}

static bool
comes_to(const struct raw_client *c, uint32_t run_state)
{
	for (int i = 0; i < RAW_TIMEOUT; i++)
	{
		if (infer_load_acquire32(&c->regions[0].map->run_state) == run_state)
			return true;
		usleep(1000);
	}
	return false;
}

static bool
wait_for(struct raw_client *c)
{
	return raw_wait(c, &c->regions[0], RAW_TIMEOUT);
}

static struct infer_reply *
reply_of(struct raw_client *c)
{
	return &c->regions[0].map->reply;
}

static void
client(struct raw_client *c)
{
	raw_connect(c, engine.socket);
	raw_region(c, 0, SIZE);
}

/* How many requests are prepared and not released, as another call sees it. */
static float
open_requests(void)
{
	struct raw_client c;
	float		x = TOY_OPEN;
	float		open = -1;

	client(&c);
	submit(&c, &x, 1, INFER_CLASS_INTERACTIVE);
	if (wait_for(&c) && reply_of(&c)->error == INFER_OK)
		open = raw_row_f32(&c.regions[0], 0) - 1;
	raw_close(&c);
	return open;
}

static bool
all_released(void)
{
	for (int i = 0; i < RAW_TIMEOUT; i++)
	{
		if (open_requests() == 0)
			return true;
		usleep(1000);
	}
	return false;
}

static bool
small_call(void)
{
	struct raw_client c;
	float		x = 3;
	bool		good;

	client(&c);
	submit(&c, &x, 1, INFER_CLASS_INTERACTIVE);
	good = wait_for(&c) && reply_of(&c)->error == INFER_OK && raw_row_f32(&c.regions[0], 0) == 7;
	raw_close(&c);
	return good;
}

static struct infer_stats_model
stats(struct raw_client *c)
{
	struct infer_stats_head head;
	struct infer_stats_model model;

	raw_stats(c, key, &head, &model);
	return model;
}

/* ---- what comes of it ---- */

static void
test_results(struct raw_client *c)
{
	const float mixed[6] = {5, TOY_NO_TEXT, 7, TOY_ANSWERED, TOY_BATCH_ERROR, 9};
	const float answered[3] = {TOY_ANSWERED, TOY_NO_TEXT, TOY_ANSWERED};
	const float failing[2] = {1, TOY_NO_REQUEST};
	struct raw_region *r = &c->regions[0];
	struct infer_stats_model before = stats(c);
	struct infer_stats_model after;

	submit(c, mixed, 6, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(c) && reply_of(c)->error == INFER_OK && raw_row_f32(r, 0) == 11 && raw_row_f32(r, 2) == 15 && raw_row_f32(r, 5) == 19,
		   "rows are prepared and computed");
	tap_ok(raw_row_status(r, 1) == INFER_ERROR_INPUT && raw_row_status(r, 4) == INFER_ERROR_DEVICE && raw_row_status(r, 3) == INFER_OK &&
		   raw_row_f32(r, 3) == 2 * TOY_ANSWERED + 1 && reply_of(c)->rows_failed == 2,
		   "a row that failed, or was answered, as it was prepared stays so when the batch fails and runs again in parts");
	tap_ok(reply_of(c)->tokens == 5 + 7 + 1 + 9 && reply_of(c)->prepare_nsec > 0 && reply_of(c)->batches == 1 && reply_of(c)->batch_rows == 4,
		   "the reply tells tokens, and the time of preparing");
	after = stats(c);
	tap_ok(after.rows - before.rows == 6 && after.errors - before.errors == 2 && after.batches - before.batches == 1 &&
		   after.tokens - before.tokens == 22 && after.prepare_usec >= before.prepare_usec, "and so do the counters");

	submit(c, answered, 3, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(c) && reply_of(c)->error == INFER_OK && reply_of(c)->batches == 0 && reply_of(c)->rows_failed == 1 &&
		   raw_row_status(r, 1) == INFER_ERROR_INPUT && raw_row_f32(r, 2) == 2 * TOY_ANSWERED + 1, "what needs no device ends at once");
	before = after;
	after = stats(c);
	tap_ok(after.calls - before.calls == 1 && after.rows - before.rows == 3 && after.errors - before.errors == 1 &&
		   after.batches == before.batches && r->map->run_state == INFER_RUN_DONE, "and is counted");

	submit(c, failing, 2, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(c) && reply_of(c)->error == INFER_ERROR_INPUT && strstr(raw_reply_error(r).message, "at all") != NULL &&
		   reply_of(c)->batches == 0, "a request can fail as a whole");
	before = after;
	after = stats(c);
	tap_ok(after.errors - before.errors == 2 && after.calls - before.calls == 1, "and is counted with all its rows");
	submit(c, mixed, 1, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(c) && reply_of(c)->error == INFER_OK && all_released(), "each is released");
}

static void
test_budget(struct raw_client *c)
{
	const float long_ones[4] = {900, 900, 900, 900};

	submit(c, some(1000, 0), 1000, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(c) && reply_of(c)->batch_rows == 256 && reply_of(c)->tokens == 1000, "short texts are batched by rows");
	submit(c, long_ones, 4, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(c) && reply_of(c)->batch_rows == 1 && reply_of(c)->batches == 4 && reply_of(c)->tokens == 3600,
		   "long ones by their tokens");
}

/* The first class with calls of the toy. */
static struct infer_stats_class
class_of(struct raw_client *c)
{
	struct infer_stats_ask ask = {0};
	struct infer_frame frame = raw_frame(c, INFER_FRAME_STATS, sizeof(ask));
	struct infer_stats_head head;
	struct infer_stats_class class_ = {0};

	raw_send(c, &frame, &ask, NULL, 0);
	raw_receive(c, RAW_TIMEOUT);
	memcpy(&head, c->payload, sizeof(head));
	if (head.classes_count > 0)
		memcpy(&class_, c->payload + sizeof(head) + head.devices_count * sizeof(struct infer_stats_device) +
			   head.models_count * sizeof(struct infer_stats_model), sizeof(class_));
	return class_;
}

/* Counters by class, the request log, what is being prepared: of an engine that has just been started. */
static void
test_seeing(struct raw_client *c)
{
	const float texts[3] = {600, 300, 500};
	struct raw_client large;
	struct infer_stats_class one;
	struct infer_frame frame;
	struct infer_activity activity = {0};

	submit(c, texts, 3, INFER_CLASS_INTERACTIVE);
	wait_for(c);
	one = class_of(c);
	tap_ok(one.calls == 1 && one.rows == 3 && one.tokens == 1400 && one.batches == 2 && one.filled == 1400 && one.room == 2000 &&
		   one.inline_calls == 0, "tokens are counted, and how many there was room for (%llu of %llu)",
		   (unsigned long long) one.filled, (unsigned long long) one.room);
	tap_ok(engine_logged(&engine, "rows=3 rows_failed=0 tokens=1400 ") && engine_logged(&engine, " prepare_ms=0.0"),
		   "the request log tells them, too");
	client(&large);
	submit(&large, some(LARGE_ROWS, READING), LARGE_ROWS, INFER_CLASS_JOB);
	comes_to(&large, INFER_RUN_RUNNING);
	frame = raw_frame(c, INFER_FRAME_ACTIVITY, 0);
	raw_send(c, &frame, NULL, NULL, 0);
	raw_receive(c, RAW_TIMEOUT);
	memcpy(&activity, c->payload + sizeof(struct infer_activity_head), sizeof(activity));
	tap_ok(activity.state == INFER_ACTIVITY_PREPARING && activity.rows == LARGE_ROWS && activity.rows_done == 0,
		   "who is being prepared is shown so");
	raw_close(&large);
	tap_ok(all_released(), "until it has gone");
}

/* Strings that the reply has no room for, written as the request was prepared. */
static void
test_space(void)
{
	struct raw_client c;
	float		answered[100];
	uint8_t		other[INFER_KEY_BYTES];

	client(&c);
	for (int i = 0; i < 100; i++)
		answered[i] = TOY_ANSWERED;
	tap_ok(engine_load_toy(&engine, &c, "texts and a label", other), "a toy with a label");
	fill(&c.regions[0], answered, 100, INFER_CLASS_STATEMENT);
	memcpy(c.regions[0].map->request.key, other, INFER_KEY_BYTES);
	c.regions[0].map->request.reply_bytes = 2304;
	raw_submit(&c, &c.regions[0]);
	tap_ok(wait_for(&c) && reply_of(&c)->error == INFER_ERROR_NEED_SPACE && reply_of(&c)->bytes_wanted > 2304, "asks for more space");
	fill(&c.regions[0], answered, 100, INFER_CLASS_STATEMENT);
	memcpy(c.regions[0].map->request.key, other, INFER_KEY_BYTES);
	raw_submit(&c, &c.regions[0]);
	tap_ok(wait_for(&c) && reply_of(&c)->error == INFER_OK && all_released(), "and with it is answered");
	raw_close(&c);
}

/* ---- beside a large one ---- */

static void
test_beside(struct raw_client *c)
{
	struct raw_client large;
	struct raw_client medium;
	int			small = 0;

	client(&large);
	client(&medium);
	submit(&large, some(LARGE_ROWS, READING), LARGE_ROWS, INFER_CLASS_STATEMENT);
	tap_ok(comes_to(&large, INFER_RUN_RUNNING), "a large request that is being prepared counts as running");
	for (int i = 0; i < 20; i++)
		small += small_call();
	tap_ok(small == 20 && !has_ended(&large), "small calls of others are answered meanwhile");
	raw_cancel(&large, &large.regions[0]);
	tap_ok(wait_for(&large) && reply_of(&large)->error == INFER_ERROR_CANCELLED && all_released(), "its cancel ends it between two rows");

	submit(&large, some(SHORT_ROWS + 1000, READING), SHORT_ROWS + 1000, INFER_CLASS_STATEMENT);
	comes_to(&large, INFER_RUN_RUNNING);
	submit(&medium, some(LARGE_ROWS, 0), LARGE_ROWS, INFER_CLASS_STATEMENT);
	tap_ok(wait_for(&medium) && reply_of(&medium)->error == INFER_OK && reply_of(&medium)->tokens == LARGE_ROWS && !has_ended(&large),
		   "and so are larger ones, beside one that is much larger still");
	raw_close(&large);
	raw_close(&medium);
	tap_ok(all_released() && small_call(), "a client that vanishes leaves nothing behind");
}

/* ---- who does not wait for the end ---- */

static void
test_ends(void)
{
	struct raw_client first;
	struct raw_client waits[3];
	int			cancelled = 0;

	client(&first);
	submit(&first, some(LARGE_ROWS, READING), LARGE_ROWS, INFER_CLASS_STATEMENT);
	comes_to(&first, INFER_RUN_RUNNING);
	for (int i = 0; i < 3; i++)
	{
		client(&waits[i]);
		fill(&waits[i].regions[0], some(LARGE_ROWS, 0), LARGE_ROWS, INFER_CLASS_STATEMENT);
		if (i == 2)
			waits[i].regions[0].map->request.deadline = process_clock() + 30000000;
		raw_submit(&waits[i], &waits[i].regions[0]);
	}
	raw_cancel(&waits[0], &waits[0].regions[0]);
	cancelled += wait_for(&waits[0]) && reply_of(&waits[0])->error == INFER_ERROR_CANCELLED;
	tap_ok(cancelled == 1 && !has_ended(&first), "who waits for the preparer and is cancelled ends at once");
	raw_close(&waits[1]);
	tap_ok(wait_for(&waits[2]) && reply_of(&waits[2])->error == INFER_ERROR_DEADLINE && !has_ended(&first), "so does who is late");
	raw_cancel(&first, &first.regions[0]);
	wait_for(&first);
	fill(&first.regions[0], some(LARGE_ROWS, READING), LARGE_ROWS, INFER_CLASS_STATEMENT);
	first.regions[0].map->request.deadline = process_clock() + 30000000;
	raw_submit(&first, &first.regions[0]);
	tap_ok(wait_for(&first) && reply_of(&first)->error == INFER_ERROR_DEADLINE && all_released(), "and who is late while it is prepared");
	raw_close(&first);
	raw_close(&waits[0]);
	raw_close(&waits[2]);
	tap_ok(small_call(), "the engine goes on");
}

static void
test_unload(struct raw_client *c)
{
	struct raw_client large;
	const float *x = some(LARGE_ROWS, 0);

	client(&large);
	values[0] = TOY_READ - 200;
	submit(&large, x, LARGE_ROWS, INFER_CLASS_STATEMENT);
	comes_to(&large, INFER_RUN_RUNNING);
	raw_unload(c, key);
	tap_ok(raw_receive(c, RAW_TIMEOUT) == INFER_FRAME_UNLOADED && has_ended(&large) && reply_of(&large)->error == INFER_OK,
		   "a model that is unloaded goes when what is being prepared has ended");
	raw_close(&large);
}

/* Requests that come while the model is being loaded are prepared when it is there. */
static void
test_load(struct raw_client *c)
{
	enum { CALLS = 8 };
	struct raw_client calls[CALLS];
	const float mixed[3] = {4, TOY_NO_TEXT, 6};
	uint8_t		saved[INFER_KEY_BYTES];
	int			good = 0;

	memcpy(saved, key, sizeof(key));
	for (int i = 0; i < CALLS; i++)
		client(&calls[i]);
	engine_toy(&engine, "slow texts", true, key);
	raw_load(c, key, key, 0);
	for (int i = 0; i < RAW_TIMEOUT && stats(c).state != INFER_MODEL_LOADING; i++)
		;
	for (int i = 0; i < CALLS; i++)
	{
		fill(&calls[i].regions[0], i == 0 ? some(LARGE_ROWS, 0) : mixed, i == 0 ? LARGE_ROWS : 3, INFER_CLASS_INTERACTIVE);
		if (i == 1)
			calls[i].regions[0].map->request.flags = INFER_REQUEST_MARKED;
		raw_submit(&calls[i], &calls[i].regions[0]);
	}
	for (int i = 0; i < CALLS; i++)
		good += wait_for(&calls[i]) && reply_of(&calls[i])->error == INFER_OK &&
			reply_of(&calls[i])->tokens == (i == 0 ? LARGE_ROWS : 10) && reply_of(&calls[i])->rows_failed == (i != 0);
	tap_ok(good == CALLS, "calls that waited for their model are prepared when it is there (%d)", good);
	tap_ok(all_released(), "and released");
	for (int i = 0; i < CALLS; i++)
		raw_close(&calls[i]);
	memcpy(key, saved, sizeof(key));
}

/* What is prepared ahead of the device is bounded, class by class. */
static void
test_ahead(struct raw_client *c)
{
	enum { CALLS = 6 };
	struct raw_client sleeper;
	struct raw_client calls[CALLS];
	float		sleeps = TOY_SLEEP + 300;
	uint8_t		saved[INFER_KEY_BYTES];
	int			good = 0;
	float		most = 0;

	memcpy(saved, key, sizeof(key));
	tap_ok(engine_load_toy(&engine, c, "bulky texts", key), "a toy that holds much of each request");
	client(&sleeper);
	submit(&sleeper, &sleeps, 1, INFER_CLASS_INTERACTIVE);
	comes_to(&sleeper, INFER_RUN_RUNNING);
	for (int i = 0; i < RAW_TIMEOUT && !__atomic_load_n(&c->page->device_busy, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	for (int i = 0; i < CALLS; i++)
	{
		client(&calls[i]);
		submit(&calls[i], some(LARGE_ROWS, 0), LARGE_ROWS, INFER_CLASS_STATEMENT);
	}
	while (!has_ended(&sleeper))
	{
		float		open = open_requests();

		most = open > most && !has_ended(&sleeper) ? open : most;
	}
	for (int i = 0; i < CALLS; i++)
		good += wait_for(&calls[i]) && reply_of(&calls[i])->error == INFER_OK;
	tap_ok(most == 3 && good == CALLS && all_released(), "no more are prepared than hold 64 MB, and then the next (%.0f, %d)", most, good);
	wait_for(&sleeper);
	raw_close(&sleeper);
	for (int i = 0; i < CALLS; i++)
		raw_close(&calls[i]);
	memcpy(key, saved, sizeof(key));
}

/* ---- the engine's death ---- */

static void
start(struct raw_client *c)
{
	static const char *const settings[] = {"batch_tokens=1000", "log_requests=1", NULL};

	engine_start(&engine, settings);
	client(c);
	if (!engine_load_toy(&engine, c, "texts", key))
		raw_fail("no toy");
}

static void
restart(struct raw_client *c)
{
	engine_wait(&engine, RAW_TIMEOUT);
	close(engine.control);
	munmap(engine.page, INFER_REGION_HEAD);
	raw_close(c);
	start(c);
}

static void
test_death(struct raw_client *c)
{
	float		rows[4] = {1, 2, TOY_TEXT_SEGV, 3};
	struct raw_client other;

	submit(c, rows, 4, INFER_CLASS_STATEMENT);
	tap_ok(!wait_for(c) && c->regions[0].map->run_state == INFER_RUN_RUNNING, "a text that kills the engine was running");
	restart(c);
	fill(&c->regions[0], rows, 4, INFER_CLASS_STATEMENT);
	c->regions[0].map->request.flags = INFER_REQUEST_MARKED;
	raw_submit(c, &c->regions[0]);
	tap_ok(!wait_for(c) && c->regions[0].map->run_state == INFER_RUN_RUNNING && c->regions[0].map->running_row == 2,
		   "marked, its row is known");
	restart(c);
	rows[2] = TOY_SEGV;
	fill(&c->regions[0], rows, 4, INFER_CLASS_STATEMENT);
	c->regions[0].map->request.flags = INFER_REQUEST_MARKED;
	raw_submit(c, &c->regions[0]);
	tap_ok(!wait_for(c) && c->regions[0].map->run_state == INFER_RUN_RUNNING && c->regions[0].map->running_row == 2,
		   "so is one that kills it on the device");
	restart(c);

	/* nothing is prepared beside a marked row: it would be blamed */
	rows[0] = TOY_SLEEP + 300;
	rows[2] = TOY_NO_TEXT;
	client(&other);
	fill(&other.regions[0], rows, 4, INFER_CLASS_STATEMENT);
	other.regions[0].map->request.flags = INFER_REQUEST_MARKED;
	raw_submit(&other, &other.regions[0]);
	for (int i = 0; i < RAW_TIMEOUT && !__atomic_load_n(&c->page->device_busy, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	rows[0] = TOY_TEXT_SEGV;
	submit(c, rows, 1, INFER_CLASS_INTERACTIVE);
	tap_ok(!wait_for(c) && c->regions[0].map->run_state == INFER_RUN_RUNNING &&
		   other.regions[0].map->run_state != INFER_RUN_RUNNING, "a text that kills it waits for the marked row that runs");
	raw_close(&other);
	restart(c);
}

/* A marked request does not wait until all of a large one is prepared. */
static void
test_alone(struct raw_client *c)
{
	struct raw_client large;
	const float rows[3] = {TOY_READ - 200, TOY_NO_TEXT, 3};
	bool		beside;

	client(&large);
	submit(&large, some(LARGE_ROWS, READING), LARGE_ROWS, INFER_CLASS_STATEMENT);
	comes_to(&large, INFER_RUN_RUNNING);
	fill(&c->regions[0], rows, 3, INFER_CLASS_STATEMENT);
	c->regions[0].map->request.flags = INFER_REQUEST_MARKED;
	raw_submit(c, &c->regions[0]);
	beside = !comes_to(c, INFER_RUN_RUNNING) || large.regions[0].map->run_state == INFER_RUN_RUNNING;
	tap_ok(wait_for(c) && !beside && reply_of(c)->error == INFER_OK && reply_of(c)->batches == 2 && reply_of(c)->batch_rows == 1 &&
		   raw_row_f32(&c->regions[0], 2) == 7 && raw_row_status(&c->regions[0], 1) == INFER_ERROR_INPUT && !has_ended(&large),
		   "a marked request goes between two rows of one that is being prepared, row by row");
	raw_cancel(&large, &large.regions[0]);
	tap_ok(wait_for(&large) && all_released(), "which then goes on");
	raw_close(&large);
}

int
main(int argc, char **argv)
{
	struct raw_client c;

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
	{
		prepare_short_bytes = SHORT_ROWS * sizeof(float);
		return engine_main(argc - 1, argv + 1);
	}
	engine_folder(&engine);
	start(&c);
	test_seeing(&c);
	test_results(&c);
	test_budget(&c);
	test_space();
	test_beside(&c);
	test_ends();
	test_load(&c);
	test_ahead(&c);
	test_alone(&c);
	test_death(&c);
	test_unload(&c);
	raw_close(&c);
	engine_stop(&engine);
	engine_remove_folder(&engine);
	return tap_done();
}
