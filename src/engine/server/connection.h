/*
 * connection.h
 *	  A client's socket: frames in, frames out.
 */
#ifndef ENGINE_SERVER_CONNECTION_H
#define ENGINE_SERVER_CONNECTION_H

#include "../engine.h"

struct server;

#define CONNECTION_OUT_MAX	(4u << 20)	/* bytes that a client may leave unread */
#define CONNECTION_ASKS_MAX	16			/* LOAD and UNLOAD frames not yet answered */

struct connection
{
	struct server *server;
	struct connection *next;		/* loop: all open ones */
	struct connection *prev;
	struct connection *dead_next;	/* loop: closed in this turn */
	int			refs;				/* atomic */
	uint32_t	asks;				/* atomic: askers */
	bool		closed;				/* loop */
	bool		greeted;			/* HELLO was good */
	uint32_t	pid;				/* as HELLO says, for display; like the next */
	uint32_t	database;
	struct batch_session session;	/* engine's lock */
	struct region *regions[INFER_REGIONS_MAX];

	/* loop: what was read and is not a whole frame yet */
	uint8_t    *in;
	uint32_t	in_used;
	uint32_t	in_room;
	int			fds[INFER_FDS_MAX];	/* received, for the frames in their order */
	uint32_t	fds_count;

	/* out_lock */
	pthread_mutex_t out_lock;
	int			fd;					/* -1: closed */
	bool		out_failed;			/* the loop is to close it */
	bool		out_armed;			/* epoll tells when it may be written again */
	uint8_t    *out;
	uint32_t	out_used;
	uint32_t	out_sent;
	uint32_t	out_room;
};

/* Loop.  A socket that was accepted; NULL: out of memory, the socket is closed. */
extern struct connection *connection_open(struct server *server, int fd);

/* Loop.  epoll says so. */
extern void connection_readable(struct connection *connection);
extern void connection_writable(struct connection *connection);

/* Loop.  Frees all that it held, now or when its last request has ended. */
extern void connection_close(struct connection *connection);

/* Loop.  ERROR with request number 0, then close. */
extern void connection_refuse(struct connection *connection, uint32_t error, const char *message,
							  const char *hint);

extern void connection_ref(struct connection *connection);
extern void connection_unref(struct connection *connection);	/* any thread */

/* Any thread: send a frame, or keep it for when the client reads. */
extern void connection_send(struct connection *connection, uint32_t type, uint64_t request,
							uint32_t slot, uint32_t generation, const void *payload, uint32_t length);
extern void connection_send_error(struct connection *connection, uint64_t request,
								  const struct status *status);

/* The error a socket gets that cannot be taken as a connection; closes nothing. */
extern void connection_send_busy(int fd);

#endif							/* ENGINE_SERVER_CONNECTION_H */
