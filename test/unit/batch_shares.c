/*
 * batch_shares.c
 *	  How the policy of scheduler/policy shares device time in the long run, on a virtual clock.
 *
 * Sources of calls that always want more compete, and what each of them got is added up.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler/policy/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define REQUESTS	256
#define SESSIONS	64
#define MODELS		6

struct running
{
	struct batch batch;
	uint32_t	interrupted;
};

static struct batch_policy policy;
static struct batch_model models[MODELS];
static struct batch_session sessions[SESSIONS];
static struct batch_request requests[REQUESTS];
static struct running stack[BATCH_DEPTH];
static uint64_t now;
static unsigned seed;

static uint32_t
dice(uint32_t sides)
{
	return (uint32_t) rand_r(&seed) % sides;
}

struct source						/* wants more as soon as it has its answer */
{
	int			model;
	uint32_t	class_;
	uint32_t	role;
	uint32_t	rows;
	uint32_t	requests;			/* in flight at a time */
	uint64_t	pause;				/* nsec from an answer to the next call */
	uint64_t	got;				/* nsec of device time */
};

static struct source *sources;
static int sources_count;
static uint64_t busy;
static uint64_t due[REQUESTS];		/* when a request is sent again; 0: it is under way */
static int	source_of[REQUESTS];

static void
arrive(void)
{
	for (int i = 0; i < REQUESTS; i++)
	{
		struct source *s = &sources[source_of[i]];

		if (source_of[i] < 0 || due[i] == 0 || due[i] > now)
			continue;
		requests[i] = (struct batch_request) {
			.rows = s->rows, .class_ = s->class_, .role = s->role, .session = &sessions[source_of[i]]
		};
		batch_push(&policy, &models[s->model], &requests[i], now);
		due[i] = 0;
	}
}

static void
answer(struct batch *b, uint64_t nsec)
{
	batch_charge(&policy, b, nsec);
	for (uint32_t i = 0; i < b->slices_count; i++)
	{
		struct batch_request *r = b->slices[i].request;
		int			at = (int) (r - requests);

		sources[source_of[at]].got += nsec * b->slices[i].count / b->rows;
		if (batch_done(&policy, r, b->slices[i].count))
			due[at] = now + sources[source_of[at]].pause;
	}
	arrive();
}

/* Runs a batch in segments of a slice, others between them; predictions are a third off. */
static void
run(uint32_t at)
{
	struct running *r = &stack[at];
	uint64_t	total = batch_nsec(r->batch.model, r->batch.rows) * (70 + dice(60)) / 100;
	uint64_t	left = total;

	for (;;)
	{
		uint64_t	nsec = left < policy.slice ? left : policy.slice;

		now += nsec;
		busy += nsec;
		left -= nsec;
		arrive();
		batch_charge_segment(&policy, &r->batch, nsec, left > 0);
		if (left == 0)
			break;
		r->interrupted = 0;
		while (at + 1 < BATCH_DEPTH && batch_interrupt(&policy, now, &r->batch, r->interrupted, &stack[at + 1].batch))
		{
			r->interrupted++;
			run(at + 1);
			batch_resume(&policy, &r->batch);
		}
	}
	answer(&r->batch, total);
}

static void
compete(uint64_t nsec)
{
	uint64_t	until = now + nsec;
	uint64_t	wake;

	busy = 0;
	for (int i = 0; i < sources_count; i++)
		sources[i].got = 0;
	while (now < until)
	{
		arrive();
		if (batch_form(&policy, now, &stack[0].batch, &wake) == BATCH_NOW)
			run(0);
		else
			now += 1000;
	}
}

static void
start(uint32_t rows_max, uint64_t slice, uint32_t share)
{
	batch_policy_init(&policy);
	policy.rows_max = rows_max;
	policy.slice = slice;
	policy.share = share;
	memset(sessions, 0, sizeof(sessions));
	memset(requests, 0, sizeof(requests));
	now = 1;
	for (int m = 0; m < MODELS; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = 1000;
		models[m].ready = true;
	}
}

static void
start_sources(struct source *all, int count, uint32_t rows_max, uint64_t slice, uint32_t share)
{
	int			at = 0;

	start(rows_max, slice, share);
	seed = 7;
	sources = all;
	sources_count = count;
	for (int i = 0; i < REQUESTS; i++)
		source_of[i] = -1;
	for (int s = 0; s < count; s++)
		for (uint32_t i = 0; i < all[s].requests; i++, at++)
		{
			source_of[at] = s;
			due[at] = now;
		}
}

static double
percent(const struct source *source)
{
	return 100.0 * (double) source->got / (double) busy;
}

#define MSEC	UINT64_C(1000000)
#define SLICE	(10 * MSEC)

static void
test_classes(void)
{
	struct source all[] = {
		{.model = 1, .class_ = INFER_CLASS_INTERACTIVE, .role = 1, .rows = 4, .requests = 8},
		{.model = 2, .class_ = INFER_CLASS_STATEMENT, .role = 2, .rows = 256, .requests = 1},
		{.model = 3, .class_ = INFER_CLASS_JOB, .role = 3, .rows = 256, .requests = 2},
	};

	/* of model 3 a row costs ten slices, of model 2 a batch is one */
	start_sources(all, 3, 1024, SLICE, 5);
	models[1].nsec_row = MSEC / 10;
	models[2].nsec_row = MSEC / 10;
	models[3].nsec_row = 10 * SLICE;
	compete(400000 * MSEC);
	tap_ok(percent(&all[0]) > 85 && percent(&all[1]) > 4 && percent(&all[2]) > 4 && percent(&all[1]) < 7 && percent(&all[2]) < 7,
		   "of a device that is wanted by all, lower classes get their share: %.1f %%, %.1f %%, %.1f %%",
		   percent(&all[0]), percent(&all[1]), percent(&all[2]));

	/* the device is mostly the job's for a while: that is no debt */
	all[0].pause = 40 * MSEC;
	all[1].pause = 100000 * MSEC;
	compete(100000 * MSEC);
	tap_ok(percent(&all[2]) > 60, "what calls leave is the job's (%.1f %%)", percent(&all[2]));
	all[0].pause = 0;
	compete(20000 * MSEC);
	tap_ok(percent(&all[2]) > 4 && percent(&all[2]) < 7, "and its share when calls come thick again (%.1f %%)", percent(&all[2]));

	start_sources(all, 3, 1024, SLICE, 50);
	models[1].nsec_row = MSEC / 10;
	models[2].nsec_row = MSEC / 10;
	models[3].nsec_row = MSEC;
	all[0].pause = all[1].pause = 0;
	compete(100000 * MSEC);
	tap_ok(percent(&all[0]) > 30 && percent(&all[1]) > 25 && percent(&all[2]) > 25,
		   "the greatest shares leave the highest class its third: %.1f %%, %.1f %%, %.1f %%",
		   percent(&all[0]), percent(&all[1]), percent(&all[2]));
}

/* Roles with one, two and ten sessions; models, rows and calls at a time differ. */
static void
test_fairness(uint32_t class_)
{
	struct source all[13];
	uint64_t	role[3] = {0};
	uint64_t	least = UINT64_MAX;
	uint64_t	most = 0;

	for (int i = 0; i < 13; i++)
		all[i] = (struct source) {
			.model = 1 + i % 5, .class_ = class_, .role = i == 0 ? 1 : i < 3 ? 2 : 3, .rows = 1 + (uint32_t) i * 17 % 90,
			.requests = 1 + (uint32_t) i % 3
		};
	start_sources(all, 13, 64, SLICE, 5);
	for (int m = 1; m < MODELS; m++)
		models[m].nsec_row = (uint64_t) m * MSEC / 5;
	compete(200000 * MSEC);
	for (int i = 0; i < 13; i++)
	{
		role[all[i].role - 1] += all[i].got;
		if (all[i].role != 3)
			continue;
		least = all[i].got < least ? all[i].got : least;
		most = all[i].got > most ? all[i].got : most;
	}
	tap_ok(role[0] * 100 > busy * 30 && role[1] * 100 > busy * 30 && role[2] * 100 > busy * 30,
		   "class %u: roles get equal device time, however many sessions they have: %.1f %%, %.1f %%, %.1f %%", class_,
		   100.0 * (double) role[0] / (double) busy, 100.0 * (double) role[1] / (double) busy,
		   100.0 * (double) role[2] / (double) busy);
	tap_ok(least * 10 > most * 8, "and sessions of a role, whatever they ask: %.0f to %.0f ms", (double) least / MSEC, (double) most / MSEC);
}

int
main(void)
{
	test_classes();
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		test_fairness(c);
	return tap_done();
}
