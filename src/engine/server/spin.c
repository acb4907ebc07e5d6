/*
 * spin.c
 *	  See spin.h.
 */
#include "spin.h"

#include "../process/process.h"
#include "server.h"

#define SPIN_MAX		200000u		/* nsec: never longer */
#define SPIN_MIN		20000u		/* nsec: always worth it, where watching is worth anything */
#define GAP_MAX			(4 * SPIN_MAX)	/* one long silence is forgotten after a few calls */
#define PREEMPTED		50000u		/* nsec between two looks: somebody else had the core */
#define PREEMPTED_PAUSE	5000000u	/* nsec without watching after that */
#define LOOKS_PER_POLL	8
#define PAUSES_PER_LOOK	32

void
spin_arrived(struct spin *spin, uint64_t now)
{
	uint64_t	gap;

	if (spin->idle_since == 0)
		return;
	gap = now > spin->idle_since ? now - spin->idle_since : 0;
	if (gap > GAP_MAX)
		gap = GAP_MAX;
	spin->gap = (3 * spin->gap + gap) / 4;
	spin->idle_since = 0;
}

/* A thread of the engine's computes on every core. */
static bool
cores_are_taken(const struct engine *engine)
{
	return __atomic_load_n(&engine->page->device_busy, __ATOMIC_RELAXED) != 0 &&
		engine->info.threads >= engine->cores;
}

static uint64_t
watch_until(const struct server *server)
{
	const struct spin *spin = &server->spin;

	if (server->engine->cores < 2 || server->now < spin->not_before || 2 * spin->gap > SPIN_MAX ||
		cores_are_taken(server->engine))
		return 0;
	return spin->idle_since + 2 * spin->gap + SPIN_MIN;
}

bool
spin_watch(struct server *server)
{
	struct spin *spin = &server->spin;
	uint64_t	last = server->now;
	uint64_t	until;

	if (spin->idle_since == 0)
		spin->idle_since = server->now;
	until = watch_until(server);
	if (server->now < until && !spin->awake)
	{
		spin->awake = true;
		infer_store_release32(&server->engine->page->awake, 1);
	}
	for (int look = 1; server->now < until; look++)
	{
		for (int i = 0; i < PAUSES_PER_LOOK; i++)
			infer_pause();
		server->now = process_clock();
		if (server_scan_hot(server))
			return true;
		if (server->now - last > PREEMPTED)
		{
			spin->not_before = server->now + PREEMPTED_PAUSE;
			break;
		}
		last = server->now;
		if (look % LOOKS_PER_POLL == 0 && server_poll(server, 0))
			return true;
	}
	return false;
}

bool
spin_stop(struct spin *spin, struct infer_status_page *page)
{
	if (!spin->awake)
		return false;
	spin->awake = false;
	infer_store_release32(&page->awake, 0);
	infer_fence();
	return true;
}
