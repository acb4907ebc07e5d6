/*
 * server.h
 *	  The event loop: sockets, regions, the control pipe, time.
 */
#ifndef ENGINE_SERVER_SERVER_H
#define ENGINE_SERVER_SERVER_H

#include "../engine.h"
#include "../scheduler/scheduler.h"
#include "spin.h"

#define CONTROL_LINE_MAX	1024

struct server						/* the loop's alone */
{
	struct engine *engine;
	int			epoll_fd;
	int			listen_fd;
	int			control_fd;			/* -1: not supervised */
	int			spare_fd;			/* given up to refuse a client when descriptors are out */
	uint64_t	now;				/* nsec, of this turn */
	uint64_t	ticked_at;			/* nsec */
	uint64_t	scanned_at;			/* nsec: all regions, while awake */
	uint64_t	deadline_next;		/* nsec, 0 none */
	bool		picked_up;			/* a frame of this turn brought a request */
	struct connection *connections;
	struct connection *dead;		/* closed in this turn */
	struct region *regions;			/* all, most recently used first */
	uint32_t	connections_max;
	char		control[CONTROL_LINE_MAX];
	uint32_t	control_used;
	struct spin spin;
	struct runner runner;
};

/* Listens on socket_path (replacing a stale one); the lock file is ours. */
extern bool server_open(struct server *server, struct engine *engine, const char *socket_path,
						int control_fd, struct status *status);

/* Takes what was submitted to the regions used lately, or to all.  Whether anything was. */
extern bool server_scan_hot(struct server *server);
extern bool server_scan_all(struct server *server);

/* Looks at the sockets, waiting at most timeout msec.  Whether something happened. */
extern bool server_poll(struct server *server, int timeout);

extern void server_run(struct server *server) __attribute__((noreturn));

#endif							/* ENGINE_SERVER_SERVER_H */
