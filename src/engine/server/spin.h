/*
 * spin.h
 *	  How long the loop stays awake when it has nothing to do.
 *
 * Waking a sleeping core costs about 50 µs, more than a small model.  So after work the
 * loop watches the regions for about as long as the next request has lately taken to
 * come, if that is short; not if it was preempted while it watched (no core is free), nor
 * while a batch occupies all cores, nor on a single core.
 */
#ifndef ENGINE_SERVER_SPIN_H
#define ENGINE_SERVER_SPIN_H

#include <stdbool.h>
#include <stdint.h>

struct infer_status_page;
struct server;

struct spin							/* the loop's */
{
	bool		awake;				/* the status page says so */
	uint64_t	gap;				/* nsec, smoothed: from having nothing to do to the next request */
	uint64_t	idle_since;			/* nsec; 0: working */
	uint64_t	not_before;			/* nsec: no core was free */
};

/* A request has come. */
extern void spin_arrived(struct spin *spin, uint64_t now);

/* Nothing to do: watches, while it is worth it.  true: something has come. */
extern bool spin_watch(struct server *server);

/* Before sleeping.  true: clients may have relied on awake, look at all regions once more. */
extern bool spin_stop(struct spin *spin, struct infer_status_page *page);

#endif							/* ENGINE_SERVER_SPIN_H */
