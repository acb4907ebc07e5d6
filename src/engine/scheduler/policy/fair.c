/*
 * fair.c
 *	  Fairness within a class: by device time, per role and then per session.
 *
 * Nouns
 *	tag				where a request stands in its class, in nanoseconds of virtual time
 *	virtual time	of a class: the tag of who had the last turn
 *	weight			of a session: how many sessions of its role have pending requests
 *
 * Start-time fair queueing.  A request's tag is where its session has come to, but never
 * behind the class's virtual time, so that nobody saves up.  Device time that a session gets
 * moves it on by that time times its weight: n sessions of a role move n times as fast, which
 * is how the role gets as much as another one with a single session.  The prediction is charged
 * on arrival, so that a session's requests queue up behind each other, and the difference to
 * what was measured when it is known.  Weights change meanwhile: a request remembers what was
 * charged for it, so that exactly that is given back (where rows are weighed, to a nanosecond a slice).
 *
 * A batch is also filled by those whose turn it is not yet.  While other models wait they may
 * be ahead of these by one slice of their own time, no more; and they do not move the virtual
 * time on, or who sends one small call after the other would begin behind them each time.
 */
#include "policy.h"

#include <stddef.h>

#define PROBES	16					/* accounts that a role may have */

static bool
is_idle(const struct batch_role *account)
{
	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		if (account->sessions[c] > 0)
			return false;
	return true;
}

/*
 * A role's account; with all of them taken, one that it shares.  One that is idle keeps its
 * role until another needs it, so that a role has one account at most.
 */
static struct batch_role *
role_account(struct batch_policy *policy, uint32_t role)
{
	uint32_t	at = role * 2654435761u % BATCH_ROLES;
	struct batch_role *idle = NULL;

	for (uint32_t i = 0; i < PROBES; i++)
	{
		struct batch_role *account = &policy->roles[(at + i) % BATCH_ROLES];

		if (account->role == role)
			return account;
		if (idle == NULL && is_idle(account))
			idle = account;
	}
	if (idle == NULL)
		return &policy->roles[at];
	idle->role = role;
	return idle;
}

static uint64_t
weight_of(const struct batch_request *request)
{
	const struct batch_session *session = request->session;

	return session != NULL ? session->role->sessions[request->class_] : 1;
}

static uint64_t
less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void
fair_arrive(struct batch_policy *policy, struct batch_request *request)
{
	struct batch_session *session = request->session;
	uint32_t	c = request->class_;

	if (session == NULL)
		return;
	if (session->pending[0] + session->pending[1] + session->pending[2] == 0 &&
		(session->role == NULL || session->role->role != request->role))
		session->role = role_account(policy, request->role);
	if (session->pending[c]++ == 0)
		session->role->sessions[c]++;
}

void
fair_enter(struct batch_policy *policy, struct batch_request *request)
{
	const struct batch_model *model = request->model;
	struct batch_session *session = request->session;
	uint32_t	c = request->class_;
	uint64_t	nsec = batch_nsec(model, request->cost_open);

	request->tag = policy->now[c];
	request->row_nsec = (nsec << (model->weighed ? BATCH_COST_SHIFT : 0)) / (request->cost_open > 0 ? request->cost_open : 1);
	if (session == NULL)
		return;
	if (session->used[c] > request->tag)
		request->tag = session->used[c];
	request->row_charged = request->row_nsec * weight_of(request);
	session->used[c] = request->tag + nsec_of(model, request->cost_open, request->row_charged);
}

void
fair_recall(struct batch_request *request)
{
	uint64_t   *used;

	if (request->session == NULL)
		return;
	used = &request->session->used[request->class_];
	*used = less(*used, nsec_of(request->model, request->cost_open, request->row_charged));
	request->cost_open = 0;
}

void
fair_leave(struct batch_request *request)
{
	struct batch_session *session = request->session;
	uint32_t	c = request->class_;

	if (session == NULL)
		return;
	fair_recall(request);
	if (--session->pending[c] == 0)
		session->role->sessions[c]--;
}

bool
fair_may_fill(const struct batch_policy *policy, const struct batch_request *request, int32_t priority, uint64_t next)
{
	if (request->priority != priority)
		return request->priority > priority;
	return policy->slice == 0 || request->tag <= next || request->tag - next <= policy->slice * weight_of(request);
}

void
fair_take(struct batch_policy *policy, struct batch_request *request, uint64_t cost, bool turn)
{
	uint64_t   *now = &policy->now[request->class_];

	if (turn && request->tag > *now)
		*now = request->tag;
	request->tag += nsec_of(request->model, cost, request->row_nsec) * weight_of(request);
}

void
fair_charge(struct batch_request *request, uint64_t cost, uint64_t nsec)
{
	uint64_t	charged = nsec_of(request->model, cost, request->row_charged);
	uint64_t	due = nsec * weight_of(request);
	uint64_t   *used;

	request->cost_open -= cost;
	if (request->session == NULL)
		return;
	used = &request->session->used[request->class_];
	*used = due > charged ? *used + (due - charged) : less(*used, charged - due);
}
