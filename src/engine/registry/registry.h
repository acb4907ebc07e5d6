/*
 * registry.h
 *	  The models that somebody has asked for, by key: found, made resident, let go.
 *
 * All of it with engine.lock held, unless it says otherwise.
 */
#ifndef ENGINE_REGISTRY_REGISTRY_H
#define ENGINE_REGISTRY_REGISTRY_H

#include "../engine.h"

extern struct entry *registry_find(struct engine *engine, const uint8_t *key);

/* NULL: there are ENGINE_ENTRIES_MAX, and none can be forgotten. */
extern struct entry *registry_find_or_add(struct engine *engine, const uint8_t *key);

/* Calls visit for every entry; visit may not remove entries. */
extern void registry_visit(struct engine *engine, void (*visit) (struct engine *engine, struct entry *entry, void *arg),
						   void *arg);

/* A request of the entry has ended: if it is to go and this was the last one, it goes. */
extern void registry_drained(struct engine *engine, struct entry *entry);

/*
 * Gives a loaded model up: no new requests; its memory goes when the last of those in
 * flight has ended.
 */
extern void registry_evict(struct engine *engine, struct entry *entry);

/* Gives up the least recently used idle model but one; false: there is none. */
extern bool registry_evict_one(struct engine *engine, const struct entry *keep);

/*
 * With no idle model left: gives up the least recently used one in use, unless there is one
 * already that is still in use.  Its memory goes when its calls have ended, and not if somebody loads it before.
 * false: there is none but keep.
 */
extern bool registry_evict_busy(struct engine *engine, const struct entry *keep);

/* Gives up idle models, but not keep, until what is left fits into the device's budget, or none is left. */
extern void registry_keep_budget(struct engine *engine, const struct entry *keep);

/* Bytes held by all models but one. */
extern uint64_t registry_bytes(struct engine *engine, const struct entry *except);

/* Lock not held.  registry_evict_one, and waits until the loader has freed its memory. */
extern bool registry_evict_idle(struct engine *engine, const struct entry *keep);

#endif							/* ENGINE_REGISTRY_REGISTRY_H */
