/*
 * sleep.c
 *	  The one place that sleeps for the engine, and time.
 *
 * Nouns
 *	set			the session's WaitEventSet: latch, postmaster, the session's own client, and
 *				the engine's socket
 *	idle_set	the same without that socket: it serves while there is no engine
 *
 * Invariants
 *	- Every sleep processes interrupts and may be left by longjmp.
 */
#include "postgres.h"

#include "internal.h"

#include <time.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"		/* infer_create_wait_event_set wants it */

/*
 * For MyProcPort->sock alone.  The header would want those of GSSAPI and OpenSSL, which
 * a build of an extension need not have; it keeps the places of their fields without them.
 */
#undef ENABLE_GSS
#undef USE_OPENSSL
#include "libpq/libpq-be.h"

#define WATCH_INTERVAL 500			/* ms of sleep at most, with a watch */

static WaitEventSet *set = NULL;	/* with the engine's socket */
static WaitEventSet *idle_set = NULL;	/* without */
static int	set_position;			/* of the engine's socket */
static uint32 set_events;			/* what it waits for there */
static void (*watch) (void);		/* by infer_client_watch, or NULL */

/* ---- time ---- */

uint64
clock_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64
deadline_from_now(int timeout_ms)
{
	return timeout_ms > 0 ? clock_nsec() + (uint64) timeout_ms * 1000000 : 0;
}

long
sleep_ms_until(uint64 deadline)
{
	uint64		now;

	if (deadline == 0)
		return -1;
	now = clock_nsec();
	if (now >= deadline)
		return 0;
	return (long) Min((deadline - now) / 1000000 + 1, INT_MAX);
}

/* ---- sleeping ---- */

static WaitEventSet *
make_set(int sock)
{
	WaitEventSet *made = infer_create_wait_event_set(4);

	AddWaitEventToSet(made, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(made, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);

	/* a client that has gone is no reason to go on computing for it */
	if (MyProcPort != NULL && WaitEventSetCanReportClosed())
		AddWaitEventToSet(made, WL_SOCKET_CLOSED, MyProcPort->sock, NULL, NULL);
	if (sock >= 0)
		set_position = AddWaitEventToSet(made, WL_SOCKET_READABLE, sock, NULL, NULL);
	return made;
}

void
sleep_open(int sock)
{
	set = make_set(sock);
	set_events = WL_SOCKET_READABLE;
}

void
sleep_close(void)
{
	if (set != NULL)
		FreeWaitEventSet(set);
	set = NULL;
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = infer_wait_event_new("InferEngine");
	return event;
}

/* Returns whether the engine's socket had something. */
static bool
sleep_on(WaitEventSet *which, long timeout)
{
	WaitEvent	events[4];
	int			count;
	bool		engine = false;

	CHECK_FOR_INTERRUPTS();
	if (watch != NULL)
	{
		watch();
		timeout = timeout < 0 ? WATCH_INTERVAL : Min(timeout, WATCH_INTERVAL);
	}
	count = WaitEventSetWait(which, timeout, events, lengthof(events), wait_event());
	for (int i = 0; i < count; i++)
	{
		if (events[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		if (events[i].events & WL_SOCKET_CLOSED)
		{
			ClientConnectionLost = true;
			InterruptPending = true;
		}
		if (events[i].events & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE))
			engine = true;
	}
	CHECK_FOR_INTERRUPTS();
	return engine;
}

bool
sleep_on_socket(uint32 events, long timeout)
{
	if (set_events != events)
		ModifyWaitEvent(set, set_position, events, NULL);
	set_events = events;
	return sleep_on(set, timeout);
}

void
infer_client_watch(void (*function) (void))
{
	watch = function;
}

bool
connection_nap(int ms, uint64 deadline)
{
	long		left = sleep_ms_until(deadline);

	if (left == 0)
		return false;
	if (idle_set == NULL)
		idle_set = make_set(-1);
	(void) sleep_on(idle_set, left > 0 ? Min(left, ms) : ms);
	return true;
}
