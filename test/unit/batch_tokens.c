/*
 * batch_tokens.c
 *	  The policy of scheduler/policy where rows differ in what they take, as texts do: a
 *	  batch's room in tokens, its time by the rows' own costs, rows that are nothing to compute.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler/policy/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define REQUESTS	16
#define ROWS		64
#define BUDGET		1000
#define SLICE		10000

static struct batch_policy policy;
static struct batch_model model;
static struct batch_model other;
static struct batch_session sessions[REQUESTS];
static struct batch_request requests[REQUESTS];
static uint32_t units[REQUESTS][ROWS];
static uint32_t costs[REQUESTS][ROWS];
static struct batch batch;
static char text[256];

static void
begin(uint64_t slice)
{
	batch_policy_init(&policy);
	policy.rows_max = 16;
	policy.requests_max = 100;
	policy.units_max = BUDGET;
	policy.slice = slice;
	memset(sessions, 0, sizeof(sessions));
	batch_model_init(&model);
	model.rows_max = 1000;
	model.ready = model.weighed = true;
	model.cost_row = 100;
	model.nsec_batch = 500;
	model.nsec_row = 1 << BATCH_COST_SHIFT;
	batch_model_init(&other);
	other.rows_max = 1000;
	other.ready = true;
}

/* A request of rows of so many units each, which cost ten times as much; -1 at the end. */
static struct batch_request *
request(int number, uint32_t class_, const int *row)
{
	struct batch_request *r = &requests[number];

	*r = (struct batch_request) {
		.class_ = class_, .role = 1, .session = &sessions[number], .units = units[number], .costs = costs[number]
	};
	for (; row[r->rows] >= 0; r->rows++)
	{
		units[number][r->rows] = (uint32_t) row[r->rows];
		costs[number][r->rows] = 10 * (uint32_t) row[r->rows];
	}
	return r;
}

#define ROW(...) (const int[]) {__VA_ARGS__, -1}

static void
push(int number, uint32_t class_, const int *row)
{
	batch_push(&policy, &model, request(number, class_, row), 1);
}

static void
end_batch(uint64_t nsec)
{
	batch_charge_segment(&policy, &batch, nsec, false);
	batch_charge(&policy, &batch, nsec);
	for (uint32_t i = 0; i < batch.slices_count; i++)
		batch_done(&policy, batch.slices[i].request, batch.slices[i].count);
}

/* The next batch, "R@FIRST+COUNT …", or "-"; it is done at once. */
static const char *
form(void)
{
	uint64_t	wake;
	int			used = 0;

	if (batch_form(&policy, 1, &batch, &wake) != BATCH_NOW)
		return "-";
	for (uint32_t i = 0; i < batch.slices_count; i++)
		used += snprintf(text + used, sizeof(text) - (size_t) used, "%s%d@%u+%u", i > 0 ? " " : "",
						 (int) (batch.slices[i].request - requests), batch.slices[i].first, batch.slices[i].count);
	end_batch(batch_nsec(batch.model, batch.cost));
	return text;
}

static bool
forms(const char *expect)
{
	const char *got = form();

	if (strcmp(got, expect) == 0)
		return true;
	printf("# \"%s\", not \"%s\"\n", got, expect);
	return false;
}

static void
test_budget(void)
{
	begin(0);
	push(0, INFER_CLASS_JOB, ROW(400, 400, 400, 100));
	push(1, INFER_CLASS_JOB, ROW(150));
	tap_ok(forms("0@0+2 1@0+1") && batch.units == 950 && batch.cost == 9500 && batch.pairs == 342500 && forms("0@2+2") && forms("-"),
		   "a batch holds as many tokens as it may, and looks past a row that does not fit");
	begin(0);
	push(0, INFER_CLASS_JOB, ROW(5000, 10, 5000));
	push(1, INFER_CLASS_JOB, ROW(20));
	tap_ok(forms("0@0+1") && forms("1@0+1 0@1+1") && forms("0@2+1") && forms("-"), "a row over the whole budget is a batch of its own");
	policy.units_max = 0;
	push(0, INFER_CLASS_JOB, ROW(5000, 10, 5000, 10));
	tap_ok(forms("0@0+4"), "without a budget only rows are bounded");
	policy.units_max = BUDGET;
	policy.rows_max = 3;
	push(0, INFER_CLASS_JOB, ROW(1, 1, 1, 1));
	tap_ok(forms("0@0+3") && forms("0@3+1"), "rows are bounded, too");
}

static void
test_plain(void)
{
	begin(0);
	requests[0] = (struct batch_request) {.rows = 2000, .class_ = INFER_CLASS_JOB};
	policy.rows_max = 4096;
	batch_push(&policy, &other, &requests[0], 1);
	tap_ok(forms("0@0+1000") && batch.pairs == 0, "tokens do not bound rows that have none");
}

static void
test_nothing(void)
{
	begin(0);
	policy.rows_max = 2;
	push(0, INFER_CLASS_JOB, ROW(0, 5, 0, 0, 5, 0, 5, 0));
	push(1, INFER_CLASS_JOB, ROW(5));
	tap_ok(forms("0@0+6") && batch.rows == 2 && batch.units == 10 && forms("1@0+1 0@6+2") && batch.rows == 2 && forms("-"),
		   "rows that are nothing to compute go along, and take no room");
	push(0, INFER_CLASS_JOB, ROW(0, 5000, 0));
	tap_ok(forms("0@0+3") && forms("-"), "also with a row that is alone");
	request(0, INFER_CLASS_INTERACTIVE, ROW(0, 5, 0, 5, 5))->marked = true;
	batch_push(&policy, &model, &requests[0], 1);
	tap_ok(forms("0@0+3") && batch.marked && forms("0@3+1") && forms("0@4+1") && forms("-"),
		   "a marked request is computed one row at a time all the same");
	tap_ok(model.rows_waiting == 0 && model.units_waiting == 0 && model.cost_waiting == 0, "nothing is left over");
}

static void
test_time(void)
{
	begin(SLICE);
	push(0, INFER_CLASS_JOB, ROW(400, 400, 400, 50, 50, 50, 50));
	tap_ok(forms("0@0+2") && forms("0@2+5") && forms("-"), "a batch's time is that of its rows' costs");
	model.nsec_row *= 2;
	push(0, INFER_CLASS_JOB, ROW(400, 400, 50, 20));
	tap_ok(forms("0@0+1") && forms("0@1+3"), "as they were measured");
	push(0, INFER_CLASS_JOB, ROW(900, 900));
	tap_ok(forms("0@0+1") && forms("0@1+1"), "a row that is longer than a slice is a batch of its own");
	push(0, INFER_CLASS_JOB, ROW(10, 10, 10, 10, 10, 10, 10, 10, 10, 10));
	push(1, INFER_CLASS_INTERACTIVE, ROW(10));
	push(2, INFER_CLASS_STATEMENT, ROW(150, 150));
	model.nsec_row /= 2;
	tap_ok(forms("1@0+1 2@0+2 0@0+3"), "others' rows have a third of a slice beside an interactive one, by their costs");
}

static void
test_slices(void)
{
	begin(SLICE);
	model.slices_max = 4;
	policy.units_max = 0;
	push(0, INFER_CLASS_JOB, ROW(900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900));
	tap_ok(forms("0@0+4"), "what is cut may take several slices, while no interactive call is about");
	policy.interactive_at = 1;
	tap_ok(forms("0@4+1"), "and one otherwise");
	policy.interactive_at = 0;
	push(1, INFER_CLASS_INTERACTIVE, ROW(500));
	push(2, INFER_CLASS_INTERACTIVE, ROW(500));
	tap_ok(forms("1@0+1") && forms("2@0+1"), "as interactive ones themselves");
}

/* Two sessions that always want more; how much of the device's time the first one gets. */
static double
share(const int *first, const int *second)
{
	uint64_t	got[2] = {0, 0};
	const int  *rows[2] = {first, second};
	uint64_t	wake;

	begin(SLICE);
	policy.rows_max = 2;
	model.nsec_batch = 0;
	for (int i = 0; i < 2000; i++)
	{
		for (int s = 0; s < 2; s++)
		{
			if (sessions[s].pending[INFER_CLASS_STATEMENT] == 0)
				push(s, INFER_CLASS_STATEMENT, rows[s]);
		}
		if (batch_form(&policy, 1, &batch, &wake) != BATCH_NOW)
			return 0;
		for (uint32_t k = 0; k < batch.slices_count; k++)
			got[batch.slices[k].request - requests] += batch.slices[k].cost;
		end_batch(batch_nsec(batch.model, batch.cost));
	}
	return (double) got[0] / (double) (got[0] + got[1]);
}

static void
test_fair(void)
{
	double		equal = share(ROW(50, 50, 50, 50), ROW(50, 50, 50, 50));
	double		longer = share(ROW(400, 400, 400, 400), ROW(20, 20, 20, 20));

	tap_ok(equal > 0.49 && equal < 0.51, "sessions get equal time (%.2f)", equal);
	tap_ok(longer > 0.45 && longer < 0.55, "also where one's texts are twenty times as long (%.2f)", longer);
}

static void
test_held(void)
{
	begin(0);
	batch_admit(&policy, &model, request(0, INFER_CLASS_INTERACTIVE, ROW(5)), 1);
	tap_ok(policy.requests_class[0] == 1 && forms("-"), "what is being prepared counts, and does not run");
	tap_ok(!batch_cancel(&policy, &requests[0]) && requests[0].cancelled, "its cancel waits for who prepares it");
	batch_end(&policy, &requests[0]);
	tap_ok(policy.requests == 0 && sessions[0].pending[0] == 0 && sessions[0].used[0] == 0, "who ends it");
	push(1, INFER_CLASS_INTERACTIVE, ROW(5));
	batch_hold(&policy, &requests[1]);
	tap_ok(forms("-") && sessions[1].used[0] == 0 && sessions[1].pending[0] == 1 && model.next == NULL,
		   "what waits can be prepared after all");
	units[1][0] = 7;
	batch_queue(&policy, &requests[1], 1);
	tap_ok(forms("1@0+1") && batch.units == 7 && policy.requests == 0, "and runs then");
}

int
main(void)
{
	test_budget();
	test_plain();
	test_nothing();
	test_time();
	test_slices();
	test_fair();
	test_held();
	return tap_done();
}
