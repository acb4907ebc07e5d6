/*
 * batch_modes.c
 *	  The two modes side by side, on a virtual clock: a bulk client of class job that always
 *	  has rows waiting, and interactive calls of one row at 20 % of what the device can do, or at 2 %.
 *
 * Nouns
 *	machine		a model's device time, nsec_batch + rows · nsec_row, which the policy knows
 *	capacity	rows a second of the bulk client alone
 *	latency		of a call, from its arrival to the end of its batch
 *
 * Claims, for machines of different shapes: the calls' p99 is at most that of the same arrivals
 * without the bulk client, and a slice, and what a row takes; the bulk client gets 80 % of what they
 * leave (of rows where it calls the same model, of time where it calls another, whose rows cannot
 * be computed together with theirs); the device never rests.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler/policy/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define USEC		1000u
#define MSEC		1000000u
#define SLICE		(10 * MSEC)
#define SECONDS		20
#define CALLS		4096			/* in flight at most */
#define LATENCIES	2000000
#define FLIGHT		3				/* bulk requests */
#define BULK_ROWS	2048
#define SESSIONS	64

struct machine
{
	const char *name;
	uint64_t	nsec_batch;
	uint64_t	nsec_row;
	bool		apart;				/* the bulk client calls another model, with the same times */
	uint32_t	held;				/* of a hundred batches, how many take twice as long: others have the cores */
};

static const struct machine machines[] = {
	{"a large network", 150 * USEC, 35 * USEC, false},
	{"a forest beside others who take cores", 10 * USEC, 40 * USEC, false, 10},
	{"a forest", 10 * USEC, 40 * USEC, false},
	{"a batch costs much, a row little", 3 * MSEC, 20 * USEC, false},
	{"a row costs most of a slice", 100 * USEC, 8 * MSEC, false},
	{"a row costs a third of a slice", 100 * USEC, 3 * MSEC, false},
	{"two large networks", 150 * USEC, 35 * USEC, true},
	{"two models of which a batch costs much", 3 * MSEC, 20 * USEC, true},
	{"two models of which a row costs a third of a slice", 100 * USEC, 3 * MSEC, true},
};

struct outcome
{
	uint64_t	p99;				/* nsec, of calls */
	double		call_rows;			/* a second */
	double		bulk_rows;
	double		busy;
};

static struct batch_policy policy;
static struct batch_model models[2];
static struct batch_session sessions[SESSIONS + 1];
static struct batch_request calls[CALLS];
static struct batch_request bulk[FLIGHT];
static struct batch batch;
static uint64_t latencies[LATENCIES];
static size_t latencies_count;

static int
compare(const void *a, const void *b)
{
	uint64_t	x = *(const uint64_t *) a;
	uint64_t	y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

static void
begin(const struct machine *machine)
{
	batch_policy_init(&policy);
	policy.rows_max = 256;
	policy.requests_max = CALLS;
	policy.slice = SLICE;
	policy.share = 5;
	memset(sessions, 0, sizeof(sessions));
	memset(calls, 0, sizeof(calls));
	latencies_count = 0;
	for (int m = 0; m < 2; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = 65536;
		models[m].nsec_batch = machine->nsec_batch;
		models[m].nsec_row = machine->nsec_row;
		models[m].ready = true;
	}
}

static void
push_bulk(const struct machine *machine, struct batch_request *request, uint64_t now)
{
	*request = (struct batch_request) {
		.rows = BULK_ROWS, .class_ = INFER_CLASS_JOB, .role = 1, .session = &sessions[SESSIONS]
	};
	batch_push(&policy, &models[machine->apart], request, now);
}

static void
push_call(uint64_t now)
{
	static size_t next;

	while (calls[next].rows != 0)
		next = (next + 1) % CALLS;
	calls[next] = (struct batch_request) {
		.rows = 1, .class_ = INFER_CLASS_INTERACTIVE, .role = 2, .session = &sessions[next % SESSIONS]
	};
	batch_push(&policy, &models[0], &calls[next], now);
}

/* The batch has run from began to now. */
static void
end_batch(const struct machine *machine, uint64_t began, uint64_t now, struct outcome *outcome)
{
	batch_charge_segment(&policy, &batch, now - began, false);
	batch_charge(&policy, &batch, now - began);
	for (uint32_t i = 0; i < batch.slices_count; i++)
	{
		struct batch_request *request = batch.slices[i].request;
		bool		is_call = request->class_ == INFER_CLASS_INTERACTIVE;

		*(is_call ? &outcome->call_rows : &outcome->bulk_rows) += batch.slices[i].count;
		if (!batch_done(&policy, request, batch.slices[i].count))
			continue;
		if (is_call)
		{
			latencies[latencies_count++] = now - request->arrived;
			request->rows = 0;
		}
		else
			push_bulk(machine, request, now);
	}
}

/* So many calls a second, at times that the seed alone decides, beside a bulk client or not. */
static struct outcome
simulate(const struct machine *machine, double rate, bool with_bulk)
{
	struct outcome outcome = {0};
	uint64_t	seed = 7;
	uint64_t	held = 11;			/* another one */
	uint64_t	now = 0;
	uint64_t	due = 0;
	uint64_t	wake;

	begin(machine);
	for (int i = 0; with_bulk && i < FLIGHT; i++)
		push_bulk(machine, &bulk[i], 0);
	while (now < SECONDS * 1000ull * MSEC)
	{
		while (rate > 0 && due <= now)
		{
			if (due > 0)
				push_call(due);
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			due += 1 + (uint64_t) (-log((double) ((seed >> 11) + 1) / 9007199254740993.0) / rate * 1e9);
		}
		if (batch_form(&policy, now, &batch, &wake) == BATCH_NOW)
		{
			uint64_t	predicted = machine->nsec_batch + batch.rows * machine->nsec_row;
			uint64_t	nsec = predicted;

			held = held * 6364136223846793005u + 1442695040888963407u;
			if ((held >> 33) % 100 < machine->held)
				nsec *= 2;
			batch_took(&policy, batch.model, predicted, nsec);
			end_batch(machine, now, now + nsec, &outcome);
			now += nsec;
			outcome.busy += (double) nsec;
		}
		else
			now = due;
	}
	qsort(latencies, latencies_count, sizeof(latencies[0]), compare);
	outcome.p99 = latencies_count > 0 ? latencies[latencies_count * 99 / 100] : 0;
	outcome.call_rows /= (double) now / 1e9;
	outcome.bulk_rows /= (double) now / 1e9;
	outcome.busy /= (double) now;
	return outcome;
}

static void
compare_modes(const struct machine *machine, double share)
{
	double		capacity = simulate(machine, 0, true).bulk_rows;
	struct outcome alone = simulate(machine, capacity * share, false);
	struct outcome beside = simulate(machine, capacity * share, true);
	double		left = machine->apart ? capacity * (1 - alone.busy) : capacity - beside.call_rows;

	tap_ok(beside.p99 <= alone.p99 + SLICE + machine->nsec_row,
		   "%s, %.0f %% calls: p99 %.2f ms beside bulk work, %.2f alone", machine->name, share * 100,
		   (double) beside.p99 / MSEC, (double) alone.p99 / MSEC);
	tap_ok(beside.bulk_rows >= 0.8 * left && beside.busy >= 0.999,
		   "%s, %.0f %% calls: bulk work gets %.0f rows/s where %.0f are left, the device is busy %.1f %%",
		   machine->name, share * 100, beside.bulk_rows, left, beside.busy * 100);
}

int
main(void)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
	{
		compare_modes(&machines[i], 0.2);
		compare_modes(&machines[i], 0.02);
	}
	return tap_done();
}
