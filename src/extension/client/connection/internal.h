/*
 * internal.h
 *	  What the files of the connection share; the rest of the client sees ../internal.h.
 *
 * Files
 *	connect.c	the socket's begin and end
 *	sleep.c		the WaitEventSet, and time
 *	send.c		frames out
 *	receive.c	frames in, and who waits for them
 *
 * Invariants
 *	- connection_close resets what each file keeps of the old socket: sleep_close before
 *	  the socket is closed, out_reset and in_reset after.
 */
#ifndef INFER_CLIENT_CONNECTION_INTERNAL_H
#define INFER_CLIENT_CONNECTION_INTERNAL_H

#include "../internal.h"

/* ---- sleep.c ---- */

extern void sleep_open(int sock);
extern void sleep_close(void);

/* ms until the deadline, rounded up; -1 without one */
extern long sleep_ms_until(uint64 deadline);

/* Returns whether the engine's socket had one of these events, WL_SOCKET_…. */
extern bool sleep_on_socket(uint32 events, long timeout);

/* ---- send.c ---- */

extern void out_reset(void);
extern bool out_waits(void);

/* Send what is queued.  False: the connection has gone. */
extern bool out_flush(void);

/* A frame that was being sent when a sleep was left cannot be continued. */
extern void out_close_if_torn(void);

/* ---- receive.c ---- */

extern void in_reset(void);

/* Read and dispatch all that has come.  False: the connection has gone or makes no sense. */
extern bool in_receive(void);

/* The descriptor that came with the last answer, or -1. */
extern int	in_answer_fd(void);
extern void in_answer_fd_close(void);

extern void farewell_forget(void);

#endif							/* INFER_CLIENT_CONNECTION_INTERNAL_H */
