/*
 * stats.h
 *	  The STATS frame: counters of devices and models.
 */
#ifndef ENGINE_SERVER_STATS_H
#define ENGINE_SERVER_STATS_H

#include "../engine.h"

/* Loop.  NULL, or what is malformed. */
extern const char *stats_frame(struct connection *connection, uint64_t request, const uint8_t *payload,
							   uint32_t length);

#endif							/* ENGINE_SERVER_STATS_H */
