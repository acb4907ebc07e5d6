/*
 * activity.h
 *	  The ACTIVITY frame: what waits and runs now, and for whom.
 */
#ifndef ENGINE_SERVER_ACTIVITY_H
#define ENGINE_SERVER_ACTIVITY_H

#include "../engine.h"

/* Loop.  NULL, or what is malformed. */
extern const char *activity_frame(struct connection *connection, uint64_t request, uint32_t length);

#endif							/* ENGINE_SERVER_ACTIVITY_H */
