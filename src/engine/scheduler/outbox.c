/*
 * outbox.c
 *	  See outbox.h.
 */
#include "outbox.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WORTH_IT	4				/* clients to ring: fewer are rung as soon as the loop is woken */

int
outbox_open(struct engine *engine, struct status *status)
{
	engine->outbox.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (engine->outbox.event_fd < 0)
		status_set(status, INFER_ERROR_INTERNAL, "could not create an eventfd: %s", strerror(errno));
	return engine->outbox.event_fd;
}

static bool
rows_wait(const struct batch_policy *policy)
{
	uint64_t	rows = 0;

	for (uint32_t c = 0; c < BATCH_CLASSES; c++)
		rows += policy->rows_class[c];
	return rows > 0;
}

static uint32_t
count_wanted(const struct runner *runner)
{
	uint32_t	wanted = 0;

	for (uint32_t i = 0; i < runner->rings_count; i++)
		wanted += runner->rings[i].wanted;
	return wanted;
}

bool
outbox_put(struct engine *engine, struct runner *runner)
{
	struct outbox *outbox = &engine->outbox;

	if (runner->inline_ || runner->rings_count > OUTBOX_RINGS - outbox->count || !rows_wait(&engine->policy) ||
		count_wanted(runner) < WORTH_IT)
		return false;
	memcpy(outbox->rings + outbox->count, runner->rings, runner->rings_count * sizeof(runner->rings[0]));
	outbox->count += runner->rings_count;
	runner->rings_count = 0;
	return true;
}

bool
outbox_is_new(struct engine *engine)
{
	struct outbox *outbox = &engine->outbox;
	bool		is_new = outbox->count > 0 && !outbox->woken;

	outbox->woken |= is_new;
	return is_new;
}

void
outbox_wake(struct engine *engine)
{
	uint64_t	one = 1;
	ssize_t		written = write(engine->outbox.event_fd, &one, sizeof(one));

	(void) written;				/* it fails only if it is readable anyway */
}

void
outbox_send(struct engine *engine, struct runner *runner)
{
	struct outbox *outbox = &engine->outbox;
	uint64_t	count;
	ssize_t		got = read(outbox->event_fd, &count, sizeof(count));

	(void) got;
	pthread_mutex_lock(&engine->lock);
	memcpy(runner->rings, outbox->rings, outbox->count * sizeof(outbox->rings[0]));
	runner->rings_count = outbox->count;
	outbox->count = 0;
	outbox->woken = false;
	pthread_mutex_unlock(&engine->lock);
	runner_send(engine, runner);
}
