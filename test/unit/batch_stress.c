/*
 * batch_stress.c
 *	  The policy of scheduler/policy on a virtual clock: whatever comes in whatever order.
 *
 * Random steps (arrivals, cancels, deadlines, batches and their segments, models that come and
 * go, settings that change; rows that differ in what they take, some of which are nothing to compute;
 * requests that are prepared first), and after each of them what the policy counts is counted anew:
 * every row is given out exactly once or not at all, every request ends exactly once, nothing
 * idles while something could run.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/scheduler/policy/batch.h"
#include "protocol/protocol.h"
#include "tap.h"

#define REQUESTS	256
#define SESSIONS	64
#define MODELS		6
#define ROWS		400
#define WEIGHED		4			/* the first of the models whose rows are weighed */
#define STEPS		400000
#define ROLES		2000		/* more than there are accounts */

struct running
{
	struct batch batch;
	uint32_t	interrupted;
	bool		between;			/* a segment has ended */
	uint64_t	nsec;
};

static struct batch_policy policy;
static struct batch_model models[MODELS];
static struct batch_session sessions[SESSIONS];
static struct batch_request requests[REQUESTS];
static struct running stack[BATCH_DEPTH];
static uint32_t depth;
static uint64_t now;
static unsigned seed;
static const char *wrong;

/* what the test knows of a request; not what the policy says */
static struct known
{
	bool		pending;
	bool		dropped;			/* cancelled, late or drained: the rest of its rows is not given out */
	bool		held;				/* being prepared */
	uint32_t	given;
	uint32_t	ended;
	uint32_t	running;			/* batches that compute rows of it */
}			known[REQUESTS];

static uint32_t units[REQUESTS][ROWS];
static uint32_t costs[REQUESTS][ROWS];
static uint64_t rows_pushed;
static uint64_t rows_given;
static uint64_t rows_dropped;

static uint32_t
dice(uint32_t sides)
{
	return (uint32_t) rand_r(&seed) % sides;
}

static void
check(bool good, const char *what)
{
	if (!good && wrong == NULL)
		wrong = what;
}

static struct known *
known_of(const struct batch_request *request)
{
	return &known[request - requests];
}

/* ---- what is counted ---- */

static bool
is_late(const struct batch_request *r)
{
	return r->deadline != 0 && now >= r->deadline;
}

struct sums
{
	uint64_t	units;
	uint64_t	cost;
};

/* What rows of a request take, as they were made. */
static struct sums
sum_rows(const struct batch_request *r, uint32_t first, uint32_t end, uint32_t *computed)
{
	struct sums sums = {0, 0};

	*computed = 0;
	for (uint32_t row = first; row < end; row++)
	{
		if (r->units != NULL && r->units[row] == 0)
			continue;
		++*computed;
		sums.units += r->units != NULL ? r->units[row] : 1;
		sums.cost += r->costs != NULL ? r->costs[row] : r->model->cost_row;
	}
	return sums;
}

static void
check_queue(const struct batch_model *m, uint32_t c, uint64_t *rows, struct sums *all)
{
	const struct batch_request *head = &m->queues[c];
	struct sums sums;
	uint32_t	computed;

	for (const struct batch_request *r = head->next; r != head; r = r->next)
	{
		check(r->next->prev == r && r->prev->next == r, "a queue's links");
		check(r->prev == head || r->prev->priority > r->priority ||
				  (r->prev->priority == r->priority && r->prev->tag <= r->tag), "a queue's order");
		check(r->model == m && r->class_ == c && known_of(r)->pending && !known_of(r)->dropped, "who is in a queue");
		check(r->taken == known_of(r)->given && r->taken < r->rows, "rows taken");
		*rows += r->rows - r->taken;
		sums = sum_rows(r, r->taken, r->rows, &computed);
		check(computed > 0, "what waits is something to compute");
		check(sums.units == r->units_left && sums.cost == r->cost_left, "what a request's waiting rows take");
		all->units += sums.units;
		all->cost += sums.cost;
	}
}

static void
check_models(void)
{
	uint64_t	rows_class[BATCH_CLASSES] = {0};
	uint32_t	waiting = 0;
	uint32_t	in_ring = 0;

	for (int m = 0; m < MODELS; m++)
	{
		uint64_t	all = 0;
		struct sums sums = {0, 0};

		for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		{
			uint64_t	rows = 0;

			check_queue(&models[m], c, &rows, &sums);
			check(rows == models[m].rows_class[c], "a model's waiting rows of a class");
			rows_class[c] += rows;
			all += rows;
		}
		check(all == models[m].rows_waiting, "a model's waiting rows");
		check(sums.units == models[m].units_waiting && sums.cost == models[m].cost_waiting, "what a model's waiting rows take");
		waiting += all > 0;
	}
	for (const struct batch_model *m = policy.models.next; m != &policy.models; m = m->next)
		in_ring += m->rows_waiting > 0;
	check(in_ring == waiting, "the models with waiting rows");
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		check(rows_class[c] == policy.rows_class[c], "waiting rows of a class");
}

static void
check_requests(void)
{
	uint32_t	all = 0;
	uint32_t	classes[BATCH_CLASSES] = {0};
	uint32_t	of_session[SESSIONS][BATCH_CLASSES] = {{0}};
	uint32_t	of_role[BATCH_ROLES][BATCH_CLASSES] = {{0}};

	for (int i = 0; i < REQUESTS; i++)
	{
		if (!known[i].pending)
			continue;
		all++;
		classes[requests[i].class_]++;
		if (requests[i].session != NULL)
			of_session[requests[i].session - sessions][requests[i].class_]++;
	}
	check(all == policy.requests, "requests");
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		check(classes[c] == policy.requests_class[c], "requests of a class");
	for (int s = 0; s < SESSIONS; s++)
		for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		{
			check(of_session[s][c] == sessions[s].pending[c], "a session's requests");
			if (of_session[s][c] > 0)
				of_role[sessions[s].role - policy.roles][c]++;
		}
	for (int r = 0; r < BATCH_ROLES; r++)
		for (uint32_t c = 0; c < BATCH_CLASSES; c++)
			check(of_role[r][c] == policy.roles[r].sessions[c], "a role's sessions");
}

static void
check_shares(void)
{
	uint32_t	suspended[BATCH_CLASSES] = {0};

	for (uint32_t d = 0; d + 1 < depth; d++)
		suspended[stack[d].batch.class_]++;
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
	{
		check(suspended[c] == policy.suspended[c], "suspended batches");
		check(policy.owed[c] <= 2 * (int64_t) 5000, "what a class is owed at most");
	}
	check(policy.owed[INFER_CLASS_INTERACTIVE] == 0, "interactive calls are owed nothing");
}

/* ---- steps ---- */

static void
ended(struct batch_request *r)
{
	struct known *k = known_of(r);

	check(k->pending, "a request ended twice");
	check(k->running == 0 && r->next == NULL, "a request ended while it waited or ran");
	check(r->taken == r->done && r->taken == k->given, "a request ended without all its rows");
	check(k->dropped || r->late || k->given == r->rows, "a request ended early");
	rows_dropped += r->rows - k->given;
	k->pending = false;
	k->ended++;
}

/* What each row takes; one row at least is something to compute. */
static void
weigh(uint32_t at)
{
	struct batch_request *r = &requests[at];

	r->units = dice(3) > 0 ? units[at] : NULL;
	r->costs = dice(3) > 0 ? costs[at] : NULL;
	for (uint32_t row = 0; row < r->rows; row++)
	{
		units[at][row] = dice(4) == 0 ? 0 : 1 + dice(500);
		costs[at][row] = dice(20) == 0 ? 0 : dice(1500);
	}
	units[at][dice(r->rows)] = 1;
}

static void
push(void)
{
	uint32_t	at = dice(REQUESTS);
	struct batch_request *r = &requests[at];
	uint32_t	m = dice(MODELS);
	uint32_t	waits = policy.requests_class[INFER_CLASS_INTERACTIVE];
	bool		held;
	bool		taken;

	if (known[at].pending)
		return;
	memset(r, 0xA5, sizeof(*r));
	r->next = r->prev = NULL;
	r->rows = 1 + (dice(4) == 0 ? dice(ROWS) : dice(8));
	r->class_ = dice(BATCH_CLASSES);
	r->deadline = dice(6) == 0 ? now + dice(20000) : 0;
	r->marked = dice(20) == 0;
	r->units = r->costs = NULL;
	r->role = dice(ROLES);
	r->priority = r->class_ == INFER_CLASS_JOB ? (int32_t) dice(3) - 1 : 0;
	r->session = dice(10) == 0 ? NULL : &sessions[dice(SESSIONS)];
	held = m >= WEIGHED && dice(2) == 0;
	if (m >= WEIGHED && !held)
		weigh(at);
	taken = held ? batch_admit(&policy, &models[m], r, now) : batch_push(&policy, &models[m], r, now);
	check(taken == (r->class_ != INFER_CLASS_INTERACTIVE || waits < policy.requests_max), "who is refused");
	if (!taken)
		return;
	known[at] = (struct known) {.pending = true, .held = held, .ended = known[at].ended};
	rows_pushed += r->rows;
}

/* One that was prepared waits, or has ended; one that waits is to be prepared. */
static void
prepare(uint32_t at)
{
	struct batch_request *r = &requests[at];

	if (!known[at].pending)
		return;
	if (!known[at].held)
	{
		if (r->model < &models[WEIGHED] || r->next == NULL || r->taken > 0)
			return;
		batch_hold(&policy, r);
		known[at].held = true;
		return;
	}
	known[at].held = false;
	known[at].dropped |= dice(8) == 0;
	if (known[at].dropped)
	{
		batch_end(&policy, r);
		ended(r);
		return;
	}
	weigh(at);
	batch_queue(&policy, r, now);
}

static void
cancel(void)
{
	uint32_t	at = dice(REQUESTS);

	if (!known[at].pending)
		return;
	known[at].dropped = true;
	if (batch_cancel(&policy, &requests[at]))
		ended(&requests[at]);
	else
		check(known[at].running > 0 || known[at].held, "a cancelled request that is not computed ends at once");
}

static void
expire(void)
{
	struct batch_request *r;

	while ((r = batch_expire(&policy, now)) != NULL)
	{
		check(is_late(r), "who is late");
		ended(r);
	}
	for (int i = 0; i < REQUESTS; i++)
		if (known[i].pending && is_late(&requests[i]) && requests[i].late)
			known[i].dropped = true;
}

/* A model's load has failed: as in the engine, only where nothing of it is computed. */
static void
drain(void)
{
	struct batch_model *m = &models[dice(MODELS)];
	struct batch_request *r;

	for (uint32_t d = 0; d < depth; d++)
		if (stack[d].batch.model == m)
			return;
	if (m->ready)
		return;
	for (int i = 0; i < REQUESTS; i++)
		known[i].dropped |= known[i].pending && requests[i].model == m && known[i].running == 0 && !known[i].held;
	while ((r = batch_drain(&policy, m)) != NULL)
		ended(r);
	check(m->rows_waiting == 0, "a drained model");
}

static void
check_slice(const struct batch *b, const struct batch_slice *s, uint32_t at)
{
	struct known *k = known_of(s->request);

	check(s->request->model == b->model && s->count > 0, "a slice of the batch's model");
	uint32_t	computed;
	struct sums sums = sum_rows(s->request, s->first, s->first + s->count, &computed);

	check(k->pending && !k->held && !k->dropped && !is_late(s->request), "nobody's rows are computed");
	check(computed > 0 && computed == s->rows && sums.units == s->units && sums.cost == s->cost, "what a slice's rows take");
	check(s->first == k->given && s->first + s->count <= s->request->rows, "each row is given out once, in order");
	check(at == 0 || (s->request->class_ == b->class_ && k->running == 0 && !s->request->marked), "who interrupts");
	check(s->request->marked == b->marked && (!b->marked || b->rows == 1), "a marked row is alone");
}

static void
took(struct batch *b)
{
	uint32_t	rows = 0;
	struct sums sums = {0, 0};
	const struct batch *outer = depth > 0 ? &stack[depth - 1].batch : NULL;

	check(outer == NULL || b->class_ < outer->class_ || b->class_ == INFER_CLASS_INTERACTIVE, "a higher class interrupts");

	for (uint32_t i = 0; i < b->slices_count; i++)
	{
		const struct batch_slice *s = &b->slices[i];

		check_slice(b, s, depth);
		known_of(s->request)->given += s->count;
		known_of(s->request)->running++;
		rows_given += s->count;
		rows += s->rows;
		sums.units += s->units;
		sums.cost += s->cost;
	}
	check(rows == b->rows && rows == b->rows_class[0] + b->rows_class[1] + b->rows_class[2], "a batch's rows");
	check(sums.units == b->units && sums.cost == b->cost &&
		  sums.cost == b->cost_class[0] + b->cost_class[1] + b->cost_class[2], "what a batch's rows take");
	check(b->model->ready, "of a model that is loaded");
	check(rows == 1 || rows <= (b->model->rows_max < policy.rows_max ? b->model->rows_max : policy.rows_max), "rows at most");
	check(rows == 1 || b->model->nsec_batch >= policy.slice || batch_nsec(b->model, b->cost) <= policy.slice ||
		  (b->rows_class[INFER_CLASS_INTERACTIVE] == 0 && policy.interactive_at + BATCH_ABOUT <= now &&
		   batch_nsec(b->model, b->cost) <= policy.slice * b->model->slices_max), "a slice at most");
	check(rows == 1 || !b->model->weighed || policy.units_max == 0 || b->units <= policy.units_max, "units at most");
	stack[depth].interrupted = 0;
	stack[depth].between = false;
	stack[depth++].nsec = 0;
}

static bool
could_run(const struct batch_request *r, uint32_t class_)
{
	return r->next != NULL && r->class_ == class_ && r->model->ready && !is_late(r);
}

static void
form(void)
{
	uint64_t	wake;
	enum batch_next next = batch_form(&policy, now, &stack[0].batch, &wake);

	if (next == BATCH_NOW)
		took(&stack[0].batch);
	if (next == BATCH_LATER)
		check(wake == now || policy.delay > 0, "when to ask again");
	for (int i = 0; i < REQUESTS && next == BATCH_NOTHING; i++)
		for (uint32_t c = 0; c < BATCH_CLASSES; c++)
			check(!could_run(&requests[i], c), "nothing idles while something could run");
}

/* The next row to compute of the first interactive request that may pass is longer than a slice. */
static bool
is_long(const struct batch_model *m)
{
	const struct batch_request *r = m->queues[INFER_CLASS_INTERACTIVE].next;
	uint32_t	row;

	while (r != &m->queues[INFER_CLASS_INTERACTIVE] && (r->marked || known_of(r)->running > 0 || is_late(r)))
		r = r->next;
	if (r == &m->queues[INFER_CLASS_INTERACTIVE])
		return false;
	row = r->taken;

	while (r->units != NULL && r->units[row] == 0)
		row++;
	return batch_nsec(r->model, r->costs != NULL ? r->costs[row] : r->model->cost_row) > policy.slice;
}

/* Nothing passes although it waits: only for a reason. */
static void
check_not_passed(const struct running *r)
{
	bool		interactive = r->batch.rows_class[INFER_CLASS_INTERACTIVE] > 0;

	if (r->batch.marked || (interactive && r->interrupted > 0) || policy.delay > 0 ||
		(!interactive && policy.owed[r->batch.class_] >= (int64_t) policy.slice))
		return;
	for (int i = 0; i < REQUESTS; i++)
		for (uint32_t c = 0; c < (interactive ? 1 : r->batch.class_); c++)
			check(!could_run(&requests[i], c) || requests[i].marked || known[i].running > 0 ||
				  (interactive && is_long(requests[i].model)), "a call that may pass does");
}

static void
interrupt(void)
{
	struct running *r = &stack[depth - 1];

	if (!r->between || depth == BATCH_DEPTH)
		return;
	if (batch_interrupt(&policy, now, &r->batch, r->interrupted, &stack[depth].batch))
		took(&stack[depth].batch);
	else
		check_not_passed(r);
}

static void
segment(void)
{
	struct running *r = &stack[depth - 1];
	uint64_t	nsec = 1 + dice(8000);

	now += nsec;
	r->nsec += nsec;
	batch_charge_segment(&policy, &r->batch, nsec, true);
	r->between = true;
	r->interrupted = 0;
}

static void
finish(void)
{
	struct batch *b = &stack[depth - 1].batch;
	uint64_t	nsec = dice(8000);

	now += nsec;
	batch_charge_segment(&policy, b, nsec, false);
	batch_charge(&policy, b, stack[depth - 1].nsec + nsec);
	for (uint32_t i = 0; i < b->slices_count; i++)
	{
		struct batch_request *r = b->slices[i].request;

		known_of(r)->running--;
		if (batch_done(&policy, r, b->slices[i].count))
			ended(r);
	}
	if (--depth == 0)
		return;
	batch_resume(&policy, &stack[depth - 1].batch);
	stack[depth - 1].interrupted++;
}

/* A batch that nobody wants has only requests that were dropped. */
static void
give_up(void)
{
	struct batch *b = &stack[depth - 1].batch;

	if (batch_wanted(b, now))
		return;
	for (uint32_t i = 0; i < b->slices_count; i++)
	{
		check(known_of(b->slices[i].request)->dropped || is_late(b->slices[i].request), "a wanted batch is not given up");
		known_of(b->slices[i].request)->dropped = true;
	}
	finish();
}

static void
change(void)
{
	struct batch_model *m = &models[dice(MODELS)];

	switch (dice(6))
	{
		case 0:
			m->ready = dice(4) != 0;
			break;
		case 1:
			policy.slice = 500 + dice(4500);
			break;
		case 2:
			policy.share = dice(51);
			break;
		case 3:
			policy.rows_max = 1 + dice(64);
			policy.delay = dice(4) == 0 ? 3000 : 0;
			break;
		case 4:
			m->nsec_row = dice(3) == 0 ? 0 : dice(2000);
			m->nsec_row <<= m->weighed ? BATCH_COST_SHIFT - 10 : 0;
			m->nsec_batch = dice(3) == 0 ? 0 : dice(6000);
			break;
		case 5:
			policy.units_max = dice(3) == 0 ? 0 : 1 + dice(2000);
			break;
	}
}

static void
step(void)
{
	uint32_t	what = dice(100);

	now += dice(300);
	if (what < 40)
		push();
	else if (what < 46)
		cancel();
	else if (what < 48)
		prepare(dice(REQUESTS));
	else if (what < 52)
		expire();
	else if (what < 53)
		change();
	else if (what < 54)
		drain();
	else if (depth == 0)
		form();
	else if (what < 65)
		segment();
	else if (what < 80)
		interrupt();
	else if (what < 84)
		give_up();
	else
		finish();
}

static void
start(uint32_t rows_max, uint64_t slice, uint32_t share)
{
	batch_policy_init(&policy);
	policy.rows_max = rows_max;
	policy.slice = slice;
	policy.share = share;
	memset(sessions, 0, sizeof(sessions));
	memset(known, 0, sizeof(known));
	memset(requests, 0, sizeof(requests));
	depth = 0;
	now = 1;
	for (int m = 0; m < MODELS; m++)
	{
		batch_model_init(&models[m]);
		models[m].rows_max = m == 0 ? 3 : 1000;
		models[m].nsec_row = 100 * (uint64_t) m;
		models[m].ready = true;
		models[m].weighed = m >= WEIGHED;
		models[m].slices_max = m > WEIGHED ? 3 : 1;
		models[m].cost_row = m >= WEIGHED ? 70 * (uint64_t) m : 1;
	}
}

static void
test_random(unsigned from)
{
	uint64_t	ends = 0;

	seed = from;
	wrong = NULL;
	rows_pushed = rows_given = rows_dropped = 0;
	start(16, 2000, 5);
	policy.requests_max = 60;
	for (int i = 0; i < STEPS && wrong == NULL; i++)
	{
		step();
		check_requests();
		check_models();
		check_shares();
	}

	/* nothing new comes: all that is there ends */
	policy.delay = 0;
	for (int m = 0; m < MODELS; m++)
		models[m].ready = true;
	for (int i = 0; i < 10 * REQUESTS * 400 && policy.requests > 0 && wrong == NULL; i++)
	{
		expire();
		for (uint32_t at = 0; at < REQUESTS; at++)
			if (known[at].held)
				prepare(at);
		if (depth > 0)
			finish();
		else
			form();
	}
	for (int i = 0; i < REQUESTS; i++)
		ends += known[i].ended;
	check_requests();
	check_models();
	check(policy.requests == 0 && rows_pushed == rows_given + rows_dropped, "every row is given out or dropped");
	tap_ok(wrong == NULL, "random steps, from %u: %llu requests ended, %llu rows computed, %llu not%s%s", from,
		   (unsigned long long) ends, (unsigned long long) rows_given, (unsigned long long) rows_dropped,
		   wrong != NULL ? "; wrong: " : "", wrong != NULL ? wrong : "");
}

int
main(void)
{
	for (unsigned from = 1; from <= 3; from++)
		test_random(from);
	return tap_done();
}
