/*
 * batch_policy.c
 *	  The policy of scheduler/batch.c on a virtual clock: a table of arrivals, and the
 *	  batches that must come of them.
 *
 * A step is "TIME WORD …":
 *	push R M ROWS [class=C] [deadline=T] [marked] [units=U]	request R for model M arrives
 *	form	the device is free: EXPECT is what it runs, "M R@FIRST+COUNT …", or "-", or
 *			"later T"; the batch is done at once
 *	take	the same, but the batch goes on running
 *	done	the batch that was taken last is done
 *	cancel R, expire, ready M 0|1, drain M
 * EXPECT of steps other than form and take: requests that ended by it, "R R …", or "refused".
 */
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define REQUESTS 32
#define MODELS 4

struct step
{
	const char *what;
	const char *expect;
};

struct test_case
{
	const char *name;
	uint32_t	rows_max;
	uint32_t	requests_max;
	uint64_t	delay;
	uint64_t	units_max;
	struct step steps[24];
};

static const struct test_case cases[] = {
	{"a free device runs what waits, at once", 8, 100, 0, 0, {
		{"0 push 1 A 3", ""},
		{"0 form", "A 1@0+3"},
		{"0 form", "-"},
	}},
	{"what gathers while the device is busy is one batch", 8, 100, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 take", "A 1@0+1"},
		{"1 push 2 A 2", ""},
		{"2 push 3 A 1", ""},
		{"3 done", "1"},
		{"3 form", "A 2@0+2 3@0+1"},
	}},
	{"a large request is split, and goes on behind those that wait", 4, 100, 0, 0, {
		{"0 push 1 A 10", ""},
		{"0 push 2 A 1", ""},
		{"0 form", "A 1@0+4"},
		{"1 form", "A 2@0+1 1@4+3"},
		{"2 form", "A 1@7+3"},
		{"3 form", "-"},
	}},
	{"a split request ends with its last batch", 4, 100, 0, 0, {
		{"0 push 1 A 6", ""},
		{"0 take", "A 1@0+4"},
		{"1 done", ""},
		{"1 take", "A 1@4+2"},
		{"2 done", "1"},
	}},
	{"models take turns by longest waiting", 4, 100, 0, 0, {
		{"0 push 1 A 12", ""},
		{"1 push 2 B 4", ""},
		{"2 push 3 C 1", ""},
		{"3 form", "A 1@0+4"},
		{"4 form", "B 2@0+4"},
		{"5 form", "C 3@0+1"},
		{"6 form", "A 1@4+4"},
		{"7 form", "A 1@8+4"},
	}},
	{"a model's own bound is kept", 100, 100, 0, 0, {
		{"0 push 1 D 5", ""},
		{"0 form", "D 1@0+2"},
		{"0 form", "D 1@2+2"},
		{"0 form", "D 1@4+1"},
	}},
	{"a row that does not fit is looked past, and heads the next batch", 100, 100, 0, 10, {
		{"0 push 1 A 1 units=6", ""},
		{"0 push 2 A 1 units=7", ""},
		{"0 push 3 A 2 units=2", ""},
		{"0 form", "A 1@0+1 3@0+2"},
		{"0 form", "A 2@0+1"},
	}},
	{"rows are split at rows by what they cost", 100, 100, 0, 10, {
		{"0 push 1 A 5 units=4", ""},
		{"0 push 2 A 1 units=2", ""},
		{"0 form", "A 1@0+2 2@0+1"},
		{"0 form", "A 1@2+2"},
		{"0 form", "A 1@4+1"},
	}},
	{"a row over the whole room is a batch of its own", 100, 100, 0, 10, {
		{"0 push 1 A 2 units=50", ""},
		{"0 push 2 A 1 units=1", ""},
		{"0 form", "A 1@0+1"},
		{"0 form", "A 2@0+1"},
		{"0 form", "A 1@1+1"},
	}},
	{"a marked request runs one row at a time, alone", 8, 100, 0, 0, {
		{"0 push 1 A 2", ""},
		{"0 push 2 A 2 marked", ""},
		{"0 push 3 A 1", ""},
		{"0 form", "A 1@0+2 3@0+1"},
		{"0 form", "A 2@0+1 !"},
		{"0 push 4 A 1", ""},
		{"0 form", "A 2@1+1 !"},
		{"0 form", "A 4@0+1"},
	}},
	{"interactive calls over the bound are refused, others wait", 8, 2, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 push 2 A 1", ""},
		{"0 push 3 A 1", "refused"},
		{"0 push 4 A 1 class=1", ""},
		{"0 push 5 A 1 class=2", ""},
		{"0 take", "A 1@0+1 2@0+1 4@0+1 5@0+1"},
		{"0 push 6 A 1", "refused"},
		{"1 done", "1 2 4 5"},
		{"1 push 7 A 1", ""},
	}},
	{"a cancelled request is not computed", 8, 100, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 push 2 A 1", ""},
		{"1 cancel 1", "1"},
		{"1 form", "A 2@0+1"},
		{"1 push 3 B 1", ""},
		{"1 cancel 3", "3"},
		{"1 form", "-"},
	}},
	{"a request that is being computed ends when its batch does", 4, 100, 0, 0, {
		{"0 push 1 A 9", ""},
		{"0 take", "A 1@0+4"},
		{"1 cancel 1", ""},
		{"1 form", "-"},
		{"2 done", "1"},
	}},
	{"a late request is not computed", 8, 100, 0, 0, {
		{"0 push 1 A 1 deadline=10", ""},
		{"0 push 2 A 1 deadline=30", ""},
		{"0 push 3 A 1", ""},
		{"9 expire", ""},
		{"10 expire", "1"},
		{"10 form", "A 2@0+1 3@0+1"},
		{"40 expire", ""},
	}},
	{"late requests of every model go, the last of a queue too", 8, 100, 0, 0, {
		{"0 push 1 A 1 deadline=10", ""},
		{"0 push 2 B 1 deadline=10", ""},
		{"0 push 3 B 1 deadline=50", ""},
		{"20 expire", "1 2"},
		{"20 form", "B 3@0+1"},
		{"20 form", "-"},
		{"60 push 4 A 1 deadline=70", ""},
		{"80 expire", "4"},
	}},
	{"a request that becomes late between its batches ends with the one that runs", 4, 100, 0, 0, {
		{"0 push 1 A 9 deadline=10", ""},
		{"0 take", "A 1@0+4"},
		{"20 expire", ""},
		{"20 form", "-"},
		{"21 done", "1"},
	}},
	{"a delay waits for more, but not when the batch is full", 4, 100, 50, 0, {
		{"0 push 1 A 1", ""},
		{"10 form", "later 50"},
		{"20 push 2 A 2", ""},
		{"20 form", "later 50"},
		{"50 form", "A 1@0+1 2@0+2"},
		{"60 push 3 A 4", ""},
		{"60 form", "A 3@0+4"},
		{"70 push 4 A 1 marked", ""},
		{"70 form", "A 4@0+1 !"},
	}},
	{"requests of a model that is being loaded wait, and delay nobody", 8, 100, 0, 0, {
		{"0 ready A 0", ""},
		{"0 push 1 A 1", ""},
		{"1 push 2 B 1", ""},
		{"2 form", "B 2@0+1"},
		{"3 form", "-"},
		{"4 ready A 1", ""},
		{"4 form", "A 1@0+1"},
	}},
	{"a model that fails gives back all that wait for it", 8, 100, 0, 0, {
		{"0 push 1 A 1", ""},
		{"0 push 2 A 1", ""},
		{"0 push 3 B 1", ""},
		{"1 drain A", "1 2"},
		{"1 form", "B 3@0+1"},
		{"1 form", "-"},
	}},
};

static struct batch_policy policy;
static struct batch_model models[MODELS];
static struct batch_request requests[REQUESTS];
static uint32_t units[REQUESTS][64];
static struct batch batch;
static char got[512];

static void
say(const char *format,...)
{
	va_list		args;
	size_t		used = strlen(got);

	va_start(args, format);
	vsnprintf(got + used, sizeof(got) - used, format, args);
	va_end(args);
}

static void
say_ended(const struct batch_request *request)
{
	say("%s%d", got[0] != '\0' ? " " : "", (int) (request - requests));
}

static uint64_t
option(const char *what, const char *name, uint64_t otherwise)
{
	const char *at = strstr(what, name);

	return at != NULL ? strtoull(at + strlen(name), NULL, 10) : otherwise;
}

static void
push(const char *what, uint64_t now, int number, char model, uint32_t rows)
{
	struct batch_request *r = &requests[number];
	uint64_t	cost = option(what, "units=", 0);

	memset(r, 0, sizeof(*r));
	r->rows = rows;
	r->class_ = (uint32_t) option(what, "class=", INFER_CLASS_INTERACTIVE);
	r->deadline = option(what, "deadline=", 0);
	r->marked = strstr(what, "marked") != NULL;
	for (uint32_t i = 0; cost > 0 && i < rows; i++)
		units[number][i] = (uint32_t) cost;
	r->units = cost > 0 ? units[number] : NULL;
	if (!batch_push(&policy, &models[model - 'A'], r, now))
		say("refused");
}

static void
form(uint64_t now)
{
	uint64_t	wake;
	struct batch_model *peeked;
	uint32_t	rows = 0;
	enum batch_next expected = batch_peek(&policy, now, &peeked, &rows, &wake);
	enum batch_next next = batch_form(&policy, now, &batch, &wake);

	if (next != expected || (next == BATCH_NOW && (peeked != batch.model || rows < batch.rows)))
		say("(peek disagrees) ");
	if (next == BATCH_NOTHING)
		say("-");
	else if (next == BATCH_LATER)
		say("later %llu", (unsigned long long) wake);
	if (next != BATCH_NOW)
		return;
	say("%c", (int) ('A' + (batch.model - models)));
	for (uint32_t i = 0; i < batch.slices_count; i++)
		say(" %d@%u+%u", (int) (batch.slices[i].request - requests), batch.slices[i].first, batch.slices[i].count);
	if (batch.marked)
		say(" !");
}

static void
done(bool quiet)
{
	for (uint32_t i = 0; i < batch.slices_count; i++)
	{
		if (batch_done(&policy, batch.slices[i].request, batch.slices[i].count) && !quiet)
			say_ended(batch.slices[i].request);
	}
	batch.slices_count = 0;
}

static void
step(const char *what)
{
	unsigned long long now = 0;
	char		word[16] = "";
	int			number = 0;
	char		model = 'A';
	unsigned	rows = 0;
	struct batch_request *ended;
	struct batch	running;

	sscanf(what, "%llu %15s", &now, word);
	if (strcmp(word, "push") == 0)
	{
		sscanf(what, "%*u %*s %d %c %u", &number, &model, &rows);
		push(what, now, number, model, rows);
	}
	else if (strcmp(word, "take") == 0)
		form(now);
	else if (strcmp(word, "form") == 0)
	{
		running = batch;		/* a batch that was taken goes on running */
		form(now);
		done(true);
		batch = running;
	}
	else if (strcmp(word, "done") == 0)
		done(false);
	else if (strcmp(word, "cancel") == 0)
	{
		sscanf(what, "%*u %*s %d", &number);
		if (batch_cancel(&policy, &requests[number]))
			say_ended(&requests[number]);
	}
	else if (strcmp(word, "expire") == 0)
	{
		while ((ended = batch_expire(&policy, now)) != NULL)
			say_ended(ended);
	}
	else if (strcmp(word, "drain") == 0)
	{
		sscanf(what, "%*u %*s %c", &model);
		while ((ended = batch_drain(&policy, &models[model - 'A'])) != NULL)
			say_ended(ended);
	}
	else if (strcmp(word, "ready") == 0)
	{
		sscanf(what, "%*u %*s %c %u", &model, &rows);
		models[model - 'A'].ready = rows != 0;
	}
}

static void
run_case(const struct test_case *c)
{
	bool		good = true;

	batch_policy_init(&policy);
	policy.rows_max = c->rows_max;
	policy.requests_max = c->requests_max;
	policy.delay = c->delay;
	batch.slices_count = 0;
	for (int m = 0; m < MODELS; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = m == 3 ? 2 : 1000;
		models[m].units_max = c->units_max;
		models[m].ready = true;
	}
	for (int i = 0; c->steps[i].what != NULL; i++)
	{
		got[0] = '\0';
		step(c->steps[i].what);
		if (strcmp(got, c->steps[i].expect) == 0)
			continue;
		printf("# %s: \"%s\" gave \"%s\", not \"%s\"\n", c->name, c->steps[i].what, got, c->steps[i].expect);
		good = false;
	}
	tap_ok(good, "%s", c->name);
}

/* Whatever comes in whatever order: every row is computed once, and the counts end at zero. */
static void
run_random(void)
{
	unsigned	seed = 1;
	uint64_t	pushed = 0;
	uint64_t	computed = 0;
	uint64_t	dropped = 0;
	uint64_t	wake;

	batch_policy_init(&policy);
	policy.rows_max = 16;
	for (int m = 0; m < MODELS; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = 1000;
		models[m].ready = true;
	}
	memset(requests, 0, sizeof(requests));
	for (uint64_t now = 1; now < 200000; now++)
	{
		struct batch_request *r = &requests[rand_r(&seed) % REQUESTS];
		unsigned	dice = rand_r(&seed) % 8;

		if (r->rows == 0 && now < 190000)
		{
			r->rows = 1 + rand_r(&seed) % 40;
			r->deadline = dice == 0 ? now + 3 : 0;
			r->marked = dice == 1;
			r->units = NULL;
			batch_push(&policy, &models[rand_r(&seed) % MODELS], r, now);
			pushed += r->rows;
		}
		else if (dice == 2 && r->rows != 0 && batch_cancel(&policy, r))
		{
			dropped += r->rows - r->done;
			r->rows = 0;
		}
		while ((r = batch_expire(&policy, now)) != NULL)
		{
			dropped += r->rows - r->done;
			r->rows = 0;
		}
		if (dice < 5 || batch_form(&policy, now, &batch, &wake) != BATCH_NOW)
			continue;
		for (uint32_t i = 0; i < batch.slices_count; i++)
		{
			r = batch.slices[i].request;
			computed += batch.slices[i].count;
			if (!batch_done(&policy, r, batch.slices[i].count))
				continue;
			dropped += r->rows - r->done;
			r->rows = 0;
		}
	}
	tap_ok(computed + dropped == pushed && policy.requests == 0 && computed > 100000,
		   "random arrivals: %llu rows computed, %llu dropped, %llu pushed, %u requests left",
		   (unsigned long long) computed, (unsigned long long) dropped, (unsigned long long) pushed, policy.requests);
}

int
main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(&cases[i]);
	run_random();
	return tap_done();
}
