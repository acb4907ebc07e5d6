/*
 * frames.h
 *	  What each frame of a client does.
 */
#ifndef ENGINE_SERVER_FRAMES_H
#define ENGINE_SERVER_FRAMES_H

#include "connection.h"

/* Loop.  A whole frame, its header checked.  May close the connection. */
extern void frame_handle(struct connection *connection, const struct infer_frame *frame, const uint8_t *payload);

/* Loop.  The other half is of another version: says so, and closes. */
extern void frame_refuse_version(struct connection *connection, const char *build);

#endif							/* ENGINE_SERVER_FRAMES_H */
