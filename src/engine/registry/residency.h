/*
 * residency.h
 *	  Which loaded model gives its memory back: the least recently used that nobody waits
 *	  for.  Pure policy; the registry walks, this compares.
 */
#ifndef ENGINE_REGISTRY_RESIDENCY_H
#define ENGINE_REGISTRY_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

struct resident						/* what the policy sees of a loaded model */
{
	uint64_t	bytes;
	uint64_t	last_used;			/* nsec */
	bool		busy;				/* requests wait or run: stays */
};

/* Index of the victim, or -1 if none can go. */
extern int	residency_victim(const struct resident *models, uint32_t count);

/* Bytes over the budget that must be freed (0: fits, or no budget). */
extern uint64_t residency_excess(uint64_t used, uint64_t wanted, uint64_t budget);

#endif							/* ENGINE_REGISTRY_RESIDENCY_H */
