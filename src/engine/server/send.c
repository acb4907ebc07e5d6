/*
 * send.c
 *	  The writing side of a connection, from any thread; see connection.h.
 *
 * A frame goes straight to the socket while nothing is kept; what the socket does not take
 * is kept until epoll says that it would.  CONNECTION_OUT_MAX bounds what is kept: a client
 * that does not read is closed.
 */
#include "connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "server.h"

/* out_lock held.  What could not be sent is kept; false: the client reads too slowly. */
static bool
keep(struct connection *connection, const struct iovec *parts, int count, size_t sent)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT, .data.ptr = connection};
	size_t		total = 0;

	for (int i = 0; i < count; i++)
		total += parts[i].iov_len;
	total -= sent;
	if (connection->out_used - connection->out_sent + total > CONNECTION_OUT_MAX)
		return false;
	if (connection->out_sent > 0)
	{
		memmove(connection->out, connection->out + connection->out_sent, connection->out_used - connection->out_sent);
		connection->out_used -= connection->out_sent;
		connection->out_sent = 0;
	}
	if (connection->out_used + total > connection->out_room)
	{
		uint32_t	room = (uint32_t) (connection->out_used + total) * 2;
		uint8_t    *grown = realloc(connection->out, room);

		if (grown == NULL)
			return false;
		connection->out = grown;
		connection->out_room = room;
	}
	for (int i = 0; i < count; i++)
	{
		size_t		skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;

		memcpy(connection->out + connection->out_used, (uint8_t *) parts[i].iov_base + skip, parts[i].iov_len - skip);
		connection->out_used += (uint32_t) (parts[i].iov_len - skip);
		sent -= skip;
	}
	if (!connection->out_armed)
		epoll_ctl(connection->server->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
	connection->out_armed = true;
	return true;
}

/* out_lock held. */
static void
send_parts(struct connection *connection, struct iovec *parts, int count)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t) count};
	ssize_t		sent = 0;

	if (connection->fd < 0 || connection->out_failed)
		return;
	if (connection->out_used == connection->out_sent)
	{
		size_t		total = 0;

		for (int i = 0; i < count; i++)
			total += parts[i].iov_len;
		sent = sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent == (ssize_t) total)
			return;
		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return;				/* it has gone: reading will tell the loop */
		if (sent < 0)
			sent = 0;
	}
	if (!keep(connection, parts, count, (size_t) sent))
	{
		connection->out_failed = true;
		shutdown(connection->fd, SHUT_RDWR);	/* the loop sees the end and closes */
	}
}

void
connection_send(struct connection *connection, uint32_t type, uint64_t request, uint32_t slot,
				uint32_t generation, const void *payload, uint32_t length)
{
	struct infer_frame frame = {
		.magic = INFER_PROTOCOL_MAGIC,
		.version = INFER_PROTOCOL_VERSION,
		.type = (uint16_t) type,
		.request = request,
		.slot = slot,
		.generation = generation,
		.length = length
	};
	struct iovec parts[2] = {{&frame, sizeof(frame)}, {(void *) payload, length}};

	pthread_mutex_lock(&connection->out_lock);
	send_parts(connection, parts, length > 0 ? 2 : 1);
	pthread_mutex_unlock(&connection->out_lock);
}

void
connection_send_error(struct connection *connection, uint64_t request, const struct status *status)
{
	uint8_t		buffer[3 * INFER_MESSAGE_MAX + 64];
	struct infer_writer w = {.data = buffer, .size = sizeof(buffer)};

	infer_put_error(&w, status->error, status->message, status->detail, status->hint);
	connection_send(connection, INFER_FRAME_ERROR, request, 0, 0, buffer, (uint32_t) w.used);
}

void
connection_send_busy(int fd)
{
	struct
	{
		struct infer_frame frame;
		uint8_t		text[512];
	}			out = {0};
	struct infer_writer w = {.data = out.text, .size = sizeof(out.text)};

	infer_put_error(&w, INFER_ERROR_BUSY, "too many connections to the engine", NULL,
					"Raise the limit on open files of the server's user.");
	out.frame.magic = INFER_PROTOCOL_MAGIC;
	out.frame.version = INFER_PROTOCOL_VERSION;
	out.frame.type = INFER_FRAME_ERROR;
	out.frame.length = (uint32_t) w.used;
	(void) !send(fd, &out, sizeof(out.frame) + w.used, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void
connection_writable(struct connection *connection)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = connection};

	pthread_mutex_lock(&connection->out_lock);
	while (connection->fd >= 0 && connection->out_sent < connection->out_used)
	{
		ssize_t		sent = send(connection->fd, connection->out + connection->out_sent,
								connection->out_used - connection->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0)
			break;
		connection->out_sent += (uint32_t) sent;
	}
	if (connection->fd >= 0 && connection->out_sent == connection->out_used)
	{
		connection->out_sent = connection->out_used = 0;
		connection->out_armed = false;
		epoll_ctl(connection->server->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
		free(connection->out);
		connection->out = NULL;
		connection->out_room = 0;
	}
	pthread_mutex_unlock(&connection->out_lock);
}
