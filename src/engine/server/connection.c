/*
 * connection.c
 *	  See connection.h.
 *
 * Loop
 *	bytes arrive → whole frames are taken from the in-buffer in order → each is handled at
 *	once.  Descriptors arrive with some byte of their frame and are used in order: a frame
 *	that needs n takes the first n.  What is left over when no frame is half read belongs to
 *	no frame, and is an error.
 *
 * Invariants
 *	- A malformed frame closes this connection and nothing else.
 *	- The in-buffer is as large as the frame that is being read, and small otherwise.
 *
 * send.c is the writing side, frames.c what the frames do.
 */
#include "connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../process/log.h"
#include "../registry/load.h"
#include "frames.h"
#include "region.h"
#include "server.h"

#define IN_ROOM		4096			/* bytes; most frames are a header alone */
#define READS_MAX	16				/* reads of one connection before others have their turn */

/* ---- lifetime ---- */

void
connection_ref(struct connection *connection)
{
	__atomic_fetch_add(&connection->refs, 1, __ATOMIC_RELAXED);
}

void
connection_unref(struct connection *connection)
{
	if (__atomic_sub_fetch(&connection->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (uint32_t slot = 0; slot < INFER_REGIONS_MAX; slot++)
	{
		if (connection->regions[slot] != NULL)
			region_free(connection->server->engine, connection->regions[slot]);
	}
	pthread_mutex_destroy(&connection->out_lock);
	free(connection->in);
	free(connection->out);
	free(connection);
}

struct connection *
connection_open(struct server *server, int fd)
{
	struct connection *connection = calloc(1, sizeof(*connection));
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = connection};

	if (connection != NULL)
		connection->in = malloc(IN_ROOM);
	if (connection == NULL || connection->in == NULL ||
		epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
	{
		if (connection != NULL)
			free(connection->in);
		free(connection);
		close(fd);
		return NULL;
	}
	connection->server = server;
	connection->refs = 1;
	connection->fd = fd;
	connection->in_room = IN_ROOM;
	pthread_mutex_init(&connection->out_lock, NULL);
	connection->next = server->connections;
	if (connection->next != NULL)
		connection->next->prev = connection;
	server->connections = connection;
	__atomic_fetch_add(&server->engine->connections, 1, __ATOMIC_RELAXED);
	return connection;
}

static void
unlink_connection(struct connection *connection)
{
	if (connection->prev != NULL)
		connection->prev->next = connection->next;
	else
		connection->server->connections = connection->next;
	if (connection->next != NULL)
		connection->next->prev = connection->prev;
}

void
connection_close(struct connection *connection)
{
	struct server *server = connection->server;

	if (connection->closed)
		return;
	connection->closed = true;
	load_forget(server->engine, connection);
	for (uint32_t slot = 0; slot < INFER_REGIONS_MAX; slot++)
	{
		struct region *region = connection->regions[slot];

		if (region == NULL)
			continue;
		region_forget(region);
		region_cancel(region, (uint32_t) region->seen);
	}
	pthread_mutex_lock(&connection->out_lock);
	close(connection->fd);			/* which takes it out of epoll */
	connection->fd = -1;
	pthread_mutex_unlock(&connection->out_lock);
	for (uint32_t i = 0; i < connection->fds_count; i++)
		close(connection->fds[i]);
	connection->fds_count = 0;
	unlink_connection(connection);
	__atomic_fetch_sub(&server->engine->connections, 1, __ATOMIC_RELAXED);
	connection->dead_next = server->dead;
	server->dead = connection;
}

void
connection_refuse(struct connection *connection, uint32_t error, const char *message, const char *hint)
{
	struct status status;

	if (connection->closed)
		return;
	status_clear(&status);
	status_set(&status, error, "%s", message);
	if (hint != NULL)
		status_hint(&status, "%s", hint);
	log_write(LOG_DEBUG, "connection of process %u refused: %s", connection->pid, message);
	connection_send_error(connection, 0, &status);
	connection_close(connection);
}

/* ---- reading ---- */

/* Room for a frame of bytes bytes, header included; small again when it is gone. */
static bool
in_room(struct connection *connection, uint32_t bytes)
{
	uint8_t    *grown;

	if (bytes < IN_ROOM)
		bytes = IN_ROOM;
	if (bytes <= connection->in_room)
		return true;
	grown = realloc(connection->in, bytes);
	if (grown == NULL)
	{
		connection_refuse(connection, INFER_ERROR_MEMORY, "out of memory for a frame", NULL);
		return false;
	}
	connection->in = grown;
	connection->in_room = bytes;
	return true;
}

static void
in_shrink(struct connection *connection)
{
	uint8_t    *small;

	if (connection->in_room == IN_ROOM || connection->in_used > IN_ROOM)
		return;
	small = realloc(connection->in, IN_ROOM);
	if (small == NULL)
		return;
	connection->in = small;
	connection->in_room = IN_ROOM;
}

static bool
check_header(struct connection *connection, const struct infer_frame *frame)
{
	const char *wrong = infer_frame_check(frame);

	if (wrong == NULL)
		return true;
	if (frame->magic == INFER_PROTOCOL_MAGIC && frame->version != INFER_PROTOCOL_VERSION)
		frame_refuse_version(connection, "another protocol");
	else
		connection_refuse(connection, INFER_ERROR_PROTOCOL, wrong, NULL);
	return false;
}

/* Handles the whole frames that have arrived. */
static void
take_frames(struct connection *connection)
{
	uint32_t	at = 0;
	struct infer_frame frame;

	while (!connection->closed && connection->in_used - at >= sizeof(frame))
	{
		memcpy(&frame, connection->in + at, sizeof(frame));
		if (!check_header(connection, &frame))
			return;
		if (connection->in_used - at < sizeof(frame) + frame.length)
		{
			if (at == 0 && !in_room(connection, (uint32_t) sizeof(frame) + frame.length))
				return;
			break;
		}
		frame_handle(connection, &frame, connection->in + at + sizeof(frame));
		at += (uint32_t) sizeof(frame) + frame.length;
	}
	if (connection->closed)
		return;
	if (at > 0)
	{
		memmove(connection->in, connection->in + at, connection->in_used - at);
		connection->in_used -= at;
		in_shrink(connection);
		if (connection->in_used >= sizeof(frame))
		{
			memcpy(&frame, connection->in, sizeof(frame));
			if (!check_header(connection, &frame) || !in_room(connection, (uint32_t) sizeof(frame) + frame.length))
				return;
		}
	}
	if (connection->in_used == 0 && connection->fds_count > 0)
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "descriptors came with a frame that takes none", NULL);
}

/* false: more descriptors than any frame may have, or some were lost. */
static bool
take_descriptors(struct connection *connection, struct msghdr *message)
{
	bool		good = (message->msg_flags & MSG_CTRUNC) == 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
	{
		size_t		count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++)
		{
			int			fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (connection->fds_count < INFER_FDS_MAX)
				connection->fds[connection->fds_count++] = fd;
			else
			{
				close(fd);
				good = false;
			}
		}
	}
	return good;
}

/* Whether to go on reading. */
static bool
read_once(struct connection *connection)
{
	struct iovec part = {connection->in + connection->in_used, connection->in_room - connection->in_used};
	union
	{
		struct cmsghdr header;
		char		bytes[CMSG_SPACE(INFER_FDS_MAX * sizeof(int))];
	}			control;
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)
	};
	ssize_t		got = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0)
	{
		connection_close(connection);
		return false;
	}
	connection->in_used += (uint32_t) got;
	if (!take_descriptors(connection, &message))
	{
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "more descriptors came than a frame may have", NULL);
		return false;
	}
	take_frames(connection);
	return !connection->closed && (size_t) got == part.iov_len;
}

void
connection_readable(struct connection *connection)
{
	for (int i = 0; i < READS_MAX && !connection->closed; i++)
	{
		if (!read_once(connection))
			break;
	}
}
