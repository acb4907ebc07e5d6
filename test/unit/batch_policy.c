/*
 * batch_policy.c
 *	  The policy of scheduler/policy on a virtual clock: the table of batch_cases.h, step by
 *	  step.  batch_stress.c and batch_shares.c have what no table can.
 */
#include <stdlib.h>
#include <string.h>

#include "batch_cases.h"
#include "engine/scheduler/policy/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define REQUESTS 32
#define MODELS 4

static struct batch_policy policy;
static struct batch_model models[MODELS];
static struct batch_request requests[REQUESTS];
static struct batch_session sessions[REQUESTS];
static struct batch nested;
static uint32_t interrupted;
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
	r->priority = (int32_t) option(what, "priority=", 0);
	r->marked = strstr(what, "marked") != NULL;
	for (uint32_t i = 0; cost > 0 && i < rows; i++)
		units[number][i] = (uint32_t) cost;
	r->units = cost > 0 ? units[number] : NULL;
	r->session = strstr(what, "session=") != NULL ? &sessions[option(what, "session=", 0)] : NULL;
	r->role = (uint32_t) option(what, "role=", 10);
	if (!batch_push(&policy, &models[model - 'A'], r, now))
		say("refused");
}

static void
say_batch(const struct batch *b)
{
	say("%c", (int) ('A' + (b->model - models)));
	for (uint32_t i = 0; i < b->slices_count; i++)
		say(" %d@%u+%u", (int) (b->slices[i].request - requests), b->slices[i].first, b->slices[i].count);
	if (b->marked)
		say(" !");
}

static void
form(uint64_t now)
{
	uint64_t	wake;
	uint32_t	rows = 0;
	enum batch_next expected = batch_choose(&policy, now, &batch, &rows, &wake);
	struct batch_model *chosen = batch.model;
	enum batch_next next = batch_form(&policy, now, &batch, &wake);

	if ((next != expected && wake != now) || (next == BATCH_NOW && (chosen != batch.model || rows < batch.rows)))
		say("(the choice differs) ");
	if (next == BATCH_NOTHING)
		say("-");
	else if (next == BATCH_LATER)
		say("later %llu", (unsigned long long) wake);
	if (next == BATCH_NOW)
		say_batch(&batch);
}

static void
done(struct batch *b, bool segments, bool quiet)
{
	uint64_t	nsec = b->slices_count > 0 ? batch_nsec(b->model, b->rows) : 0;

	if (b->slices_count > 0 && !segments)
		batch_charge_segment(&policy, b, nsec, false);
	if (b->slices_count > 0)
		batch_charge(&policy, b, nsec);
	for (uint32_t i = 0; i < b->slices_count; i++)
	{
		if (batch_done(&policy, b->slices[i].request, b->slices[i].count) && !quiet)
			say_ended(b->slices[i].request);
	}
	b->slices_count = 0;
}

static void
interrupt(uint64_t now)
{
	if (!batch_interrupt(&policy, now, &batch, interrupted, &nested))
	{
		say("-");
		return;
	}
	interrupted++;
	say_batch(&nested);
	done(&nested, false, true);
	batch_resume(&policy, &batch);
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
	static struct batch running;
	static bool segments;

	sscanf(what, "%llu %15s", &now, word);
	if (strcmp(word, "push") == 0)
	{
		sscanf(what, "%*u %*s %d %c %u", &number, &model, &rows);
		push(what, now, number, model, rows);
	}
	else if (strcmp(word, "take") == 0)
	{
		form(now);
		segments = false;
	}
	else if (strcmp(word, "segment") == 0)
	{
		sscanf(what, "%*u %*s %u", &rows);
		batch_charge_segment(&policy, &batch, rows, true);
		segments = true;
		interrupted = 0;
	}
	else if (strcmp(word, "interrupt") == 0)
		interrupt(now);
	else if (strcmp(word, "wanted") == 0)
		say("%s", batch_wanted(&batch, now) ? "yes" : "no");
	else if (strcmp(word, "form") == 0)
	{
		running = batch;		/* a batch that was taken goes on running */
		form(now);
		done(&batch, false, true);
		batch = running;
	}
	else if (strcmp(word, "done") == 0)
		done(&batch, segments, false);
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
	else if (strcmp(word, "took") == 0)
	{
		unsigned	nsec;
		unsigned	times;

		sscanf(what, "%*u %*s %c %u %u %u", &model, &rows, &nsec, &times);
		while (times-- > 0)
			batch_took(&policy, &models[model - 'A'], rows, nsec);
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
	policy.slice = c->slice;
	policy.share = c->share;
	memset(sessions, 0, sizeof(sessions));
	batch.slices_count = 0;
	for (int m = 0; m < MODELS; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = m == 3 ? 2 : 1000;
		models[m].units_max = c->units_max;
		models[m].nsec_batch = c->nsec_batch;
		models[m].nsec_row = c->nsec_row * (m == 1 ? 4 : m == 2 ? 10 : 1);
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

int
main(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(&cases[i]);
	return tap_done();
}
