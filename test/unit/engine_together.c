/*
 * engine_together.c
 *	  Everything at the same time: sessions of all classes call more models than memory holds,
 *	  cancel, are late, vanish with calls in flight, unload, load, read and reset statistics,
 *	  while settings are reloaded.  What is asked of it is little: each call ends, with its
 *	  result's bits or with an error that it asked for, and nothing is left.
 *
 * It is here for ThreadSanitizer, under which script/test runs it, too: races show themselves
 * only where threads meet.
 */
#define ENGINE_REAL_KINDS
#include <signal.h>

#include "engine_process.h"
#include "random.h"
#include "tap.h"
#include "wide_model.h"

#define MODELS		5
#define SESSIONS	6
#define ROUNDS		150
#define VALUES		3
#define WAIT		(6 * RAW_TIMEOUT)	/* msec: a sanitizer and others on the machine take their time */

static const float values[VALUES] = {1, -0.3125f, 1e10f};

struct wide
{
	uint8_t		key[INFER_KEY_BYTES];
	float		results[VALUES];
};

struct session
{
	struct engine_process *engine;
	const struct wide *models;
	struct raw_client c;
	uint32_t	number;
	uint64_t	seed;
};

struct seen							/* shared: what a session has seen */
{
	int			calls;
	int			given_up;			/* cancelled or late */
	int			wrong;
	int			failed;
};

static uint32_t
draw(struct session *s, uint32_t most)
{
	return (uint32_t) (random_next(&s->seed) >> 33) % most;
}

static void
connect_session(struct session *s)
{
	raw_connect(&s->c, s->engine->socket);
	raw_region(&s->c, 0, 1 << 16);
}

/* Whether a frame of that type comes before an error; others are of calls that have ended. */
static bool
answers(struct raw_client *c, uint32_t type)
{
	uint32_t	got;

	do
		got = raw_receive(c, WAIT);
	while (got != 0 && got != type && got != INFER_FRAME_ERROR);
	return got == type;
}

static bool
loads(struct raw_client *c, const struct wide *w)
{
	return raw_load(c, w->key, w->key, 0) && answers(c, INFER_FRAME_LOADED);
}

static bool
asks(struct raw_client *c, uint32_t type, const void *body, uint32_t length, uint32_t reply)
{
	struct infer_frame frame = raw_frame(c, type, length);

	return raw_send(c, &frame, body, NULL, 0) && answers(c, reply);
}

static struct raw_region *
submit(struct session *s, const struct wide *w, uint64_t deadline)
{
	struct raw_region *region = &s->c.regions[0];

	raw_fill(region, w->key, values, VALUES);
	region->map->request.class_ = (s->number + draw(s, 2)) % INFER_CLASSES;
	region->map->request.role = 10 + s->number % 3;
	region->map->request.deadline = deadline;
	if (!raw_submit(&s->c, region))
		raw_fail("submit");
	return region;
}

/* As a session does it: calls, and loads if it is told so. */
static void
call(struct session *s, const struct wide *w, struct seen *seen)
{
	struct raw_region *region;
	uint32_t	error = INFER_ERROR_NEED_LOAD;

	for (int attempt = 0; attempt < 100 && error == INFER_ERROR_NEED_LOAD; attempt++)
	{
		if (attempt > 0 && !loads(&s->c, w))
			break;
		region = submit(s, w, 0);
		if (!raw_wait(&s->c, region, WAIT))
			break;
		error = region->map->reply.error;
	}
	seen->calls++;
	seen->failed += error != INFER_OK;
	for (uint32_t i = 0; error == INFER_OK && i < VALUES; i++)
	{
		float		result = raw_row_f32(region, i);

		seen->wrong += memcmp(&result, &w->results[i], sizeof(result)) != 0;
	}
}

/* Calls, and does not want it any more: by a frame, or by a deadline that is near. */
static void
give_up(struct session *s, const struct wide *w, bool late, struct seen *seen)
{
	struct timespec now;
	struct raw_region *region;
	uint32_t	error;

	clock_gettime(CLOCK_MONOTONIC, &now);
	region = submit(s, w, late ? (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec + 1000000 : 0);
	if (!late && !raw_cancel(&s->c, region))
		raw_fail("cancel");
	error = raw_wait(&s->c, region, WAIT) ? region->map->reply.error : INFER_ERROR_INTERNAL;
	seen->given_up += error == INFER_ERROR_CANCELLED || error == INFER_ERROR_DEADLINE;
	seen->failed += error != INFER_OK && error != INFER_ERROR_NEED_LOAD &&
		error != (late ? INFER_ERROR_DEADLINE : INFER_ERROR_CANCELLED);
}

static void
round_of(struct session *s, struct seen *seen)
{
	const struct wide *w = &s->models[draw(s, MODELS)];
	struct infer_stats_ask ask = {.flags = draw(s, 4) == 0};
	uint32_t	what = draw(s, 20);

	if (what < 11)
		call(s, w, seen);
	else if (what < 15)
		give_up(s, w, what % 2 == 0, seen);
	else if (what < 16)
		seen->failed += !asks(&s->c, INFER_FRAME_UNLOAD, w->key, INFER_KEY_BYTES, INFER_FRAME_UNLOADED);
	else if (what < 18)
		seen->failed += !asks(&s->c, INFER_FRAME_STATS, &ask, sizeof(ask), INFER_FRAME_STATS_REPLY);
	else if (what < 19)
		seen->failed += !asks(&s->c, INFER_FRAME_ACTIVITY, NULL, 0, INFER_FRAME_ACTIVITY_REPLY);
	else
	{
		submit(s, w, 0);
		raw_close(&s->c);
		connect_session(s);
	}
}

static void
reload(struct engine_process *e, int turn)
{
	static const char *const lines[] = {
		"batch_rows=2\n", "slice=50\n", "log_requests=1\n", "job_share=50\n", "batch_delay=1000\n", "cache_size=7\n",
		"batch_rows=256\n", "slice=0\n", "log_requests=0\n", "job_share=5\n", "batch_delay=0\n"
	};
	const char *line = lines[(size_t) turn % (sizeof(lines) / sizeof(lines[0]))];

	ssize_t		wrote = write(e->control, line, strlen(line));

	(void) wrote;				/* an engine that has ended is seen by others */
}

/* Until all sessions have ended; the number of those that did so badly. */
static int
wait_sessions(struct engine_process *e, const pid_t *pids)
{
	int			bad = 0;

	for (int i = 0, turn = 0; i < SESSIONS; turn++)
	{
		int			status;

		reload(e, turn);
		if (waitpid(pids[i], &status, WNOHANG) == pids[i])
		{
			i++;
			bad += status != 0;
			continue;
		}
		usleep(5000);
	}
	return bad;
}

/* What the engine still holds of clients that have gone; 0 within a while. */
static uint64_t
regions_left(struct raw_client *c)
{
	struct infer_stats_head head = {0};
	struct infer_stats_model model;

	for (int i = 0; i < RAW_TIMEOUT; i++)
	{
		if (!raw_stats(c, NULL, &head, &model))
			return 1;
		if (head.regions_bytes <= 1 << 16 && c->page->requests == 0)
			return 0;
		usleep(1000);
	}
	return head.regions_bytes + c->page->requests;
}

static void
test_together(struct engine_process *e, struct wide *models, struct session *s)
{
	struct seen *seen = mmap(NULL, SESSIONS * sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct seen all = {0};
	pid_t		pids[SESSIONS];
	int			bad;

	for (uint32_t i = 0; i < SESSIONS; i++)
		if ((pids[i] = fork()) == 0)
		{
			struct session own = {.engine = e, .models = models, .number = i, .seed = RANDOM_SEED + i};

			connect_session(&own);
			for (int round = 0; round < ROUNDS; round++)
				round_of(&own, &seen[i]);
			raw_close(&own.c);
			_exit(0);
		}
	bad = wait_sessions(e, pids);
	for (int i = 0; i < SESSIONS; i++)
	{
		all.calls += seen[i].calls;
		all.given_up += seen[i].given_up;
		all.wrong += seen[i].wrong;
		all.failed += seen[i].failed;
	}
	tap_ok(bad == 0 && all.calls > SESSIONS * ROUNDS / 3, "%d sessions have called (%d)", SESSIONS, all.calls);
	tap_ok(all.given_up > 0, "and given up some of their calls (%d)", all.given_up);
	tap_ok(all.failed == 0, "no other call has failed (%d)", all.failed);
	tap_ok(all.wrong == 0, "every result has the bits of the first (%d)", all.wrong);
	tap_ok(engine_lives(e), "the engine lives");
	tap_ok(regions_left(&s->c) == 0, "nothing is left of them");
}

int
main(int argc, char **argv)
{
	/* three models of five; calls take long enough to meet */
	static const char *const settings[] = {"memory=6", "cache_size=20", "device=null:delay=1", NULL};
	struct engine_process e = {0};
	struct wide models[MODELS];
	struct session s = {.engine = &e, .models = models, .seed = 1};
	bool		good = true;

	if (argc > 1 && strcmp(argv[1], "engine") == 0)
		return engine_main(argc - 1, argv + 1);
	signal(SIGPIPE, SIG_IGN);
	engine_folder(&e);
	for (uint32_t i = 0; i < MODELS; i++)
	{
		struct wide_bytes model = wide_model(i);

		engine_model(&e, "model.onnx", model.data, model.size, true, models[i].key);
		free(model.data);
	}
	engine_start(&e, settings);
	connect_session(&s);
	for (int i = 0; i < MODELS; i++)
	{
		good = good && loads(&s.c, &models[i]) && raw_call(&s.c, &s.c.regions[0], models[i].key, values, VALUES) &&
			s.c.regions[0].map->reply.error == INFER_OK;
		for (uint32_t v = 0; good && v < VALUES; v++)
			models[i].results[v] = raw_row_f32(&s.c.regions[0], v);
	}
	tap_ok(good, "each model has a result");
	if (good)
		test_together(&e, models, &s);
	raw_close(&s.c);
	engine_stop(&e);
	engine_remove_folder(&e);
	return tap_done();
}
