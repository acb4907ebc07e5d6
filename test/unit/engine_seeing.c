/*
 * engine_seeing.c
 *	  What an engine tells of itself: counters by class, percentiles, the busy share, what waits
 *	  and runs, the request log, profiles; and what it does not tell.
 */
#include "engine_process.h"
#include "tap.h"

#include "engine/process/process.h"
#include "engine/statistics/request_log.h"

static struct engine_process engine;

#define LONG_MSEC	300

static void
wait_requests(struct raw_client *c, uint32_t requests)
{
	for (int i = 0; i < RAW_TIMEOUT && __atomic_load_n(&c->page->requests, __ATOMIC_ACQUIRE) < requests; i++)
		usleep(1000);
}

static void
wait_busy(struct raw_client *c)
{
	for (int i = 0; i < RAW_TIMEOUT && !__atomic_load_n(&c->page->device_busy, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
}

static bool
ask(struct raw_client *c, uint32_t type, const void *payload, uint32_t length, uint32_t expected)
{
	struct infer_frame frame = raw_frame(c, type, length);
	uint32_t	got;

	if (!raw_send(c, &frame, payload, NULL, 0))
		return false;
	do
		got = raw_receive(c, RAW_TIMEOUT);
	while (got != expected && got != 0 && got != INFER_FRAME_ERROR);
	return got == expected;
}

struct stats
{
	struct infer_stats_head head;
	struct infer_stats_device device;
	struct infer_stats_model model;
	struct infer_stats_class classes[INFER_CLASSES];	/* calls 0: none was told */
};

static struct stats
stats_of(struct raw_client *c, const uint8_t *key, bool reset)
{
	struct infer_stats_ask body = {.flags = reset};
	struct stats stats = {0};
	const uint8_t *at;
	uint32_t	index = UINT32_MAX;

	if (!ask(c, INFER_FRAME_STATS, &body, sizeof(body), INFER_FRAME_STATS_REPLY))
		return stats;
	memcpy(&stats.head, c->payload, sizeof(stats.head));
	memcpy(&stats.device, c->payload + sizeof(stats.head), sizeof(stats.device));
	at = c->payload + sizeof(stats.head) + stats.head.devices_count * sizeof(stats.device);
	for (uint32_t i = 0; i < stats.head.models_count; i++, at += sizeof(stats.model))
	{
		if (memcmp(at, key, INFER_KEY_BYTES) == 0)
		{
			index = i;
			memcpy(&stats.model, at, sizeof(stats.model));
		}
	}
	for (uint32_t i = 0; i < stats.head.classes_count; i++, at += sizeof(stats.classes[0]))
	{
		struct infer_stats_class one;

		memcpy(&one, at, sizeof(one));
		if (one.model == index)
			stats.classes[one.class_] = one;
	}
	return stats;
}

/* Of many models that are known, each is told once, in as many pages as it takes. */
static void
test_pages(struct raw_client *c)
{
	enum { MODELS = 7500 };
	static uint8_t told[MODELS];
	struct infer_stats_ask body = {0};
	struct infer_stats_head head = {0};
	uint32_t	count = 0;
	uint32_t	pages = 0;
	bool		good = true;

	for (uint32_t i = 0; i < MODELS; i++)
	{
		uint8_t		key[INFER_KEY_BYTES] = "pages";

		memcpy(key, &(uint32_t) {i * 2654435761u}, sizeof(i));
		memcpy(key + 8, &i, sizeof(i));
		raw_load(c, key, key, 0);
		raw_receive(c, RAW_TIMEOUT);	/* its files are missing */
	}
	do
	{
		const uint8_t *at;

		good = good && ask(c, INFER_FRAME_STATS, &body, sizeof(body), INFER_FRAME_STATS_REPLY);
		memcpy(&head, c->payload, sizeof(head));
		at = c->payload + sizeof(head) + head.devices_count * sizeof(struct infer_stats_device);
		for (uint32_t i = 0; i < head.models_count; i++, at += sizeof(struct infer_stats_model))
		{
			uint32_t	model;

			memcpy(&model, at + 8, sizeof(model));
			if (model < MODELS && memcmp(at, &(uint32_t) {model * 2654435761u}, sizeof(model)) == 0)
				good = good && told[model]++ == 0;
		}
		good = good && head.left_out == 0 && (head.next == 0 || head.next > body.from);
		body.from = head.next;
		pages++;
	} while (good && body.from != 0);
	for (uint32_t i = 0; i < MODELS; i++)
		count += told[i];
	tap_ok(good && count == MODELS && pages > 1, "of %u models, %u are told, in %u pages", (unsigned) MODELS, count, pages);
	body.from = UINT32_MAX;
	good = ask(c, INFER_FRAME_STATS, &body, sizeof(body), INFER_FRAME_STATS_REPLY);
	memcpy(&head, c->payload, sizeof(head));
	tap_ok(good && head.models_count == 0 && head.next == 0, "behind the last page there is an empty one");
}

struct activities
{
	struct infer_activity_head head;
	struct infer_activity entries[16];
};

static struct activities
activities_of(struct raw_client *c)
{
	struct activities activities = {0};

	if (!ask(c, INFER_FRAME_ACTIVITY, NULL, 0, INFER_FRAME_ACTIVITY_REPLY))
		return activities;
	memcpy(&activities.head, c->payload, sizeof(activities.head));
	memcpy(activities.entries, c->payload + sizeof(activities.head),
		   (activities.head.count < 16 ? activities.head.count : 16) * sizeof(struct infer_activity));
	return activities;
}

static const struct infer_activity *
in_state(const struct activities *activities, uint32_t state)
{
	for (uint32_t i = 0; i < activities->head.count && i < 16; i++)
	{
		if (activities->entries[i].state == state)
			return &activities->entries[i];
	}
	return NULL;
}

/* A request of a class, by a role, of a model that the catalogue knows as 77, version 3. */
static void
fill(struct raw_region *region, const uint8_t *key, const float *x, uint32_t rows, uint32_t class_)
{
	raw_fill(region, key, x, rows);
	region->map->request.class_ = class_;
	region->map->request.role = 10 + class_;
	region->map->request.model = 77;
	region->map->request.version = 3;
}

static bool
call(struct raw_client *c, const uint8_t *key, const float *x, uint32_t rows, uint32_t class_)
{
	fill(&c->regions[0], key, x, rows, class_);
	return raw_submit(c, &c->regions[0]) && raw_wait(c, &c->regions[0], RAW_TIMEOUT);
}

static void
test_classes(struct raw_client *c, const uint8_t *key)
{
	float		x[4] = {1, 2, TOY_ROW_ERROR, 4};
	float		sleeps = TOY_SLEEP + 20;
	struct stats stats;

	stats_of(c, key, true);
	for (int i = 0; i < 10; i++)
		call(c, key, x, 1, INFER_CLASS_INTERACTIVE);
	call(c, key, x, 4, INFER_CLASS_STATEMENT);
	call(c, key, &sleeps, 1, INFER_CLASS_JOB);
	stats = stats_of(c, key, false);
	tap_ok(stats.head.classes_count == 3 && stats.classes[INFER_CLASS_INTERACTIVE].calls == 10 &&
		   stats.classes[INFER_CLASS_STATEMENT].calls == 1 && stats.classes[INFER_CLASS_JOB].calls == 1,
		   "calls are counted by class");
	tap_ok(stats.classes[INFER_CLASS_STATEMENT].rows == 4 && stats.classes[INFER_CLASS_STATEMENT].errors == 1 &&
		   stats.classes[INFER_CLASS_STATEMENT].batch_rows == 4 && stats.classes[INFER_CLASS_STATEMENT].batches == 1 &&
		   stats.classes[INFER_CLASS_INTERACTIVE].errors == 0, "and rows, batches, errors");
	tap_ok(stats.model.calls == 12 && stats.model.rows == 15 && stats.model.batches == 12 && stats.model.errors == 1,
		   "a model's figures are the sums of its classes'");
	tap_ok(stats.classes[INFER_CLASS_JOB].compute_nsec[0] >= 18 * 1000000u &&
		   stats.classes[INFER_CLASS_JOB].compute_usec >= 20000 &&
		   stats.classes[INFER_CLASS_INTERACTIVE].compute_nsec[2] > 0 &&
		   stats.classes[INFER_CLASS_INTERACTIVE].timed && stats.classes[INFER_CLASS_INTERACTIVE].queue_nsec[0] > 0,
		   "percentiles are those of the class");
	tap_ok(stats.device.busy_usec >= 20000 && stats.head.elapsed_usec >= stats.device.busy_usec && stats.device.arch[0] != '\0',
		   "the device has been busy for a part of the time");

	stats = stats_of(c, key, true);
	tap_ok(stats.model.calls == 12, "a reset tells what there was");
	stats = stats_of(c, key, false);
	tap_ok(stats.head.classes_count == 0 && stats.model.calls == 0 && stats.device.busy_usec <= stats.head.elapsed_usec,
		   "and then there is nothing");
}

/* What waits, what runs, and for whom; and the device's share while a batch runs. */
static void
test_activity(struct raw_client *c, const uint8_t *key)
{
	struct raw_client others[2];
	float		sleeps[2] = {TOY_SLEEP + LONG_MSEC, 1};
	float		one = 1;
	struct activities now;
	struct stats stats;
	const struct infer_activity *running;
	const struct infer_activity *queued;

	now = activities_of(c);
	tap_ok(now.head.count == 0, "an idle engine has no activity");
	for (int i = 0; i < 2; i++)
	{
		raw_connect(&others[i], engine.socket);
		raw_region(&others[i], 0, 1 << 16);
	}
	fill(&others[0].regions[0], key, sleeps, 2, INFER_CLASS_JOB);
	raw_submit(&others[0], &others[0].regions[0]);
	wait_busy(c);
	fill(&others[1].regions[0], key, &one, 1, INFER_CLASS_STATEMENT);
	raw_submit(&others[1], &others[1].regions[0]);
	wait_requests(c, 2);
	stats_of(c, key, true);
	usleep(20000);
	now = activities_of(c);
	stats = stats_of(c, key, false);
	running = in_state(&now, INFER_ACTIVITY_RUNNING);
	queued = in_state(&now, INFER_ACTIVITY_QUEUED);
	tap_ok(now.head.count == 2 && running != NULL && queued != NULL, "one call runs and one waits");
	tap_ok(running != NULL && running->rows == 2 && running->rows_done == 0 && running->class_ == INFER_CLASS_JOB &&
		   running->role == 12 && running->model == 77 && running->version == 3 && running->pid == (uint32_t) getpid() &&
		   memcmp(running->key, key, INFER_KEY_BYTES) == 0 && running->compute_usec >= 20000,
		   "the one that runs, with its rows, its class, for whom, since when");
	tap_ok(queued != NULL && queued->rows == 1 && queued->class_ == INFER_CLASS_STATEMENT && queued->role == 11 &&
		   queued->queue_usec >= 20000 && queued->compute_usec == 0, "the one that waits, and how long so far");
	tap_ok(stats.device.busy_usec >= 20000 && stats.device.busy_usec <= stats.head.elapsed_usec,
		   "a batch that runs counts as busy, from the reset on");
	for (int i = 0; i < 2; i++)
		raw_wait(&others[i], &others[i].regions[0], RAW_TIMEOUT);
	now = activities_of(c);
	tap_ok(now.head.count == 0, "when they have ended there is none again");
	for (int i = 0; i < 2; i++)
		raw_close(&others[i]);
}

/* Who waits for a model's files, which somebody else is to write. */
static void
test_loading(void)
{
	struct raw_client writer;
	struct raw_client waiter;
	struct activities now = {0};
	uint8_t		key[INFER_KEY_BYTES];
	struct infer_load load = {.role = 21, .model = 78, .version = 4};

	raw_connect(&writer, engine.socket);
	raw_connect(&waiter, engine.socket);
	engine_toy(&engine, "not there yet", false, key);
	memcpy(load.key, key, INFER_KEY_BYTES);
	memcpy(load.digest, key, INFER_KEY_BYTES);
	raw_load(&writer, key, key, 0);
	tap_ok(raw_receive(&writer, RAW_TIMEOUT) == INFER_FRAME_ERROR && raw_error(&writer).error == INFER_ERROR_NEED_FILES,
		   "a model's files are missing");
	for (int i = 0; i < RAW_TIMEOUT && now.head.count == 0; i++)
	{
		struct infer_frame frame = raw_frame(&waiter, INFER_FRAME_LOAD, sizeof(load));

		if (i == 0)
			raw_send(&waiter, &frame, &load, NULL, 0);
		now = activities_of(&writer);
	}
	tap_ok(now.head.count == 1 && now.entries[0].state == INFER_ACTIVITY_LOADING && now.entries[0].rows == 0 &&
		   now.entries[0].role == 21 && now.entries[0].model == 78 && now.entries[0].version == 4 &&
		   memcmp(now.entries[0].key, key, INFER_KEY_BYTES) == 0, "who waits for them is shown, with the model");
	raw_close(&waiter);
	for (int i = 0; i < RAW_TIMEOUT && now.head.count > 0; i++)
		now = activities_of(&writer);
	tap_ok(now.head.count == 0, "until it has gone");
	raw_close(&writer);
}

static void
test_cancelled(struct raw_client *c, const uint8_t *key)
{
	struct raw_client other;
	float		sleeps = TOY_SLEEP + LONG_MSEC;
	float		rows[3] = {1, 2, 3};
	struct stats stats;

	raw_connect(&other, engine.socket);
	raw_region(&other, 0, 1 << 16);
	stats_of(c, key, true);
	fill(&other.regions[0], key, &sleeps, 1, INFER_CLASS_JOB);
	raw_submit(&other, &other.regions[0]);
	wait_busy(c);
	fill(&c->regions[0], key, rows, 3, INFER_CLASS_STATEMENT);
	raw_submit(c, &c->regions[0]);
	wait_requests(c, 2);
	raw_cancel(c, &c->regions[0]);
	raw_wait(c, &c->regions[0], RAW_TIMEOUT);
	raw_wait(&other, &other.regions[0], RAW_TIMEOUT);
	stats = stats_of(c, key, false);
	tap_ok(stats.classes[INFER_CLASS_STATEMENT].cancelled == 3 && stats.classes[INFER_CLASS_STATEMENT].calls == 1 &&
		   stats.classes[INFER_CLASS_STATEMENT].timed == 0, "a cancelled call is counted, and has no part in the percentiles");
	raw_close(&other);
}

/* How often text is in the log. */
static int
logged(const char *text)
{
	char		command[256];
	FILE	   *pipe;
	int			count = -1;

	snprintf(command, sizeof(command), "grep -c -F '%s' '%s'", text, engine.log);
	pipe = popen(command, "r");
	if (pipe == NULL || fscanf(pipe, "%d", &count) != 1)
		count = -1;
	if (pipe != NULL)
		pclose(pipe);
	return count;
}

static void
control(const char *line)
{
	if (write(engine.control, line, strlen(line)) != (ssize_t) strlen(line))
		raw_fail("control");
}

static void
test_log(struct raw_client *c, const uint8_t *key)
{
	float		x[2] = {TOY_ROW_ERROR, 3};
	char		id[64];
	int			calls = 3 * REQUEST_LOG_RATE;
	int			lines;
	uint64_t	began;
	int			seconds;

	call(c, key, x, 1, INFER_CLASS_INTERACTIVE);
	tap_ok(logged("request id=") == 0, "by default no call is logged");
	control("log_requests=1\n");
	usleep(50000);
	call(c, key, x, 2, INFER_CLASS_STATEMENT);
	snprintf(id, sizeof(id), "id=%d.0.%llu ", (int) getpid(), (unsigned long long) c->regions[0].map->submit_seq);
	tap_ok(engine_logged(&engine, id) && engine_logged(&engine, "role=11 model=77 version=3 key=") &&
		   engine_logged(&engine, " class=statement rows=2 rows_failed=1 tokens=0 input_bytes=") &&
		   engine_logged(&engine, " status=\"ok\""), "with log_requests each call is, with its ids, sizes and status");
	tap_ok(logged("the toy does not like") == 0, "without an error's text, which may quote a value");

	began = process_clock();
	for (int i = 0; i < calls; i++)
		call(c, key, &x[1], 1, INFER_CLASS_INTERACTIVE);
	lines = logged("request id=");
	for (int tries = 0; lines < calls && logged("requests were not logged") == 0 && tries < 500; tries++)
		usleep(10000);
	tap_ok(lines > 100 && (lines >= calls || logged("requests were not logged") > 0),
		   "what is more than the rate is counted instead (%d lines of %d), also if no call follows", lines, calls);
	seconds = (int) ((process_clock() - began) / 1000000000);
	tap_ok(logged("requests were not logged") <= seconds + 1, "and the count is a line once a second");
	control("log_requests=0\n");
	usleep(50000);
	lines = logged("request id=");
	call(c, key, x, 1, INFER_CLASS_INTERACTIVE);
	usleep(50000);
	tap_ok(logged("request id=") == lines, "and it can be switched off again");
}

static void
test_profiles(struct raw_client *c, const uint8_t *key)
{
	struct raw_client bad;
	float		x[2] = {5, 6};

	fill(&c->regions[0], key, x, 1, INFER_CLASS_INTERACTIVE);
	c->regions[0].map->request.flags = INFER_REQUEST_PROFILE;
	tap_ok(raw_submit(c, &c->regions[0]) && raw_wait(c, &c->regions[0], RAW_TIMEOUT) &&
		   c->regions[0].map->reply.error == 0 && c->regions[0].map->reply.profile_bytes == 0 &&
		   raw_row_f32(&c->regions[0], 0) == 11, "a kind that cannot tell its operators computes, and gives no profile");
	raw_connect(&bad, engine.socket);
	raw_region(&bad, 0, 1 << 16);
	fill(&bad.regions[0], key, x, 2, INFER_CLASS_INTERACTIVE);
	bad.regions[0].map->request.flags = INFER_REQUEST_PROFILE;
	raw_submit(&bad, &bad.regions[0]);
	tap_ok(raw_receive(&bad, RAW_TIMEOUT) == INFER_FRAME_ERROR, "a profile of two rows is refused");
	raw_close(&bad);
	raw_connect(&bad, engine.socket);
	tap_ok(!ask(&bad, INFER_FRAME_ACTIVITY, x, 4, INFER_FRAME_ACTIVITY_REPLY), "an ACTIVITY frame has no body");
	raw_close(&bad);
}

int
main(int argc, char **argv)
{
	struct raw_client c;
	uint8_t		key[INFER_KEY_BYTES];
	uint8_t		slow[INFER_KEY_BYTES];

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	engine_folder(&engine);
	engine_start(&engine, NULL);
	raw_connect(&c, engine.socket);
	raw_region(&c, 0, 1 << 16);
	tap_ok(engine_load_toy(&engine, &c, "plain", key) && engine_load_toy(&engine, &c, "slow", slow), "models are loaded");
	test_classes(&c, key);
	test_activity(&c, slow);
	test_loading();
	test_cancelled(&c, slow);
	test_log(&c, key);
	test_profiles(&c, key);
	test_pages(&c);
	tap_ok(engine_lives(&engine), "the engine lives");
	raw_close(&c);
	engine_stop(&engine);
	engine_remove_folder(&engine);
	return tap_done();
}
