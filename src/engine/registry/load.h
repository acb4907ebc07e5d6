/*
 * load.h
 *	  LOAD and UNLOAD: who waits for which model, who writes its files, and the thread that
 *	  opens and closes models.
 */
#ifndef ENGINE_REGISTRY_LOAD_H
#define ENGINE_REGISTRY_LOAD_H

#include "../engine.h"

/* How long a writer may take while others wait; tests have less patience. */
extern uint64_t load_writer_nsec;

/* Starts the loader's thread. */
extern bool load_start(struct engine *engine, struct status *status);

/*
 * Loop.  A LOAD frame; takes files_count of the descriptors (those it takes are its own).
 * NULL, or what is malformed.
 */
extern const char *load_frame(struct connection *connection, uint64_t request, const uint8_t *payload,
							  uint32_t length, int *fds, uint32_t *fds_count);
extern const char *load_unload_frame(struct connection *connection, uint64_t request,
									 const uint8_t *payload, uint32_t length);

/* Loop.  The connection is gone: it waits for nothing and writes nothing any more. */
extern void load_forget(struct engine *engine, struct connection *connection);

/* Loop, now and then: writers that take too long get company. */
extern void load_tick(struct engine *engine, uint64_t now);

#endif							/* ENGINE_REGISTRY_LOAD_H */
