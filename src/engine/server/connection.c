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
 *	- The in-buffer is as large as the frame that is being read, and small otherwise; the
 *	  out-buffer is bounded by CONNECTION_OUT_MAX: a client that does not read is closed.
 */
#include "connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../load.h"
#include "../log.h"
#include "../scheduler/scheduler.h"
#include "region.h"
#include "server.h"
#include "stats.h"

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

/* ---- writing ---- */

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

/* ---- frames ---- */

static int
take_fd(struct connection *connection)
{
	int			fd;

	if (connection->fds_count == 0)
		return -1;
	fd = connection->fds[0];
	connection->fds_count--;
	memmove(connection->fds, connection->fds + 1, connection->fds_count * sizeof(int));
	return fd;
}

static void
send_welcome(struct connection *connection, uint64_t request)
{
	struct engine *engine = connection->server->engine;
	struct infer_welcome welcome = {
		.protocol = INFER_PROTOCOL_VERSION,
		.cores = engine->info.threads,
		.epoch = engine->epoch,
		.payload_limit = engine->settings.payload_limit,
		.build = INFER_VERSION
	};
	struct infer_frame frame = {
		.magic = INFER_PROTOCOL_MAGIC,
		.version = INFER_PROTOCOL_VERSION,
		.type = INFER_FRAME_WELCOME,
		.request = request,
		.length = sizeof(welcome)
	};
	struct iovec parts[2] = {{&frame, sizeof(frame)}, {&welcome, sizeof(welcome)}};
	union
	{
		struct cmsghdr header;
		char		bytes[CMSG_SPACE(sizeof(int))];
	}			control = {0};
	struct msghdr message = {
		.msg_iov = parts,
		.msg_iovlen = 2,
		.msg_control = &control,
		.msg_controllen = sizeof(control)
	};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &engine->page_fd, sizeof(int));
	if (sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) (sizeof(frame) + sizeof(welcome)))
		connection_close(connection);	/* the first bytes of a fresh socket: it has gone */
}

static void
refuse_version(struct connection *connection, const char *build)
{
	char		message[256];

	snprintf(message, sizeof(message), "the engine is of version %s, the extension's library of version %s",
			 INFER_VERSION, build);
	connection_refuse(connection, INFER_ERROR_VERSION, message,
					  "Restart the server so that both come from the installation of now.");
}

static void
handle_hello(struct connection *connection, const struct infer_frame *frame, const uint8_t *payload)
{
	struct infer_hello hello;

	if (frame->length != sizeof(hello) || connection->greeted)
	{
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "a HELLO frame is malformed", NULL);
		return;
	}
	memcpy(&hello, payload, sizeof(hello));
	hello.build[INFER_BUILD_MAX - 1] = '\0';
	for (char *c = hello.build; *c != '\0'; c++)
	{
		if (*c < ' ' || *c > '~')
			*c = '?';
	}
	if (hello.protocol != INFER_PROTOCOL_VERSION || strcmp(hello.build, INFER_VERSION) != 0)
	{
		refuse_version(connection, hello.build);
		return;
	}
	connection->greeted = true;
	connection->pid = hello.pid;
	send_welcome(connection, frame->request);
}

static void
handle_region(struct connection *connection, const struct infer_frame *frame, const uint8_t *payload)
{
	struct infer_region_open open;
	struct region *region;
	struct status status;
	int			fd = take_fd(connection);

	if (fd < 0 || frame->length != sizeof(open) || frame->slot >= INFER_REGIONS_MAX ||
		connection->regions[frame->slot] != NULL)
	{
		if (fd >= 0)
			close(fd);
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "a REGION frame is malformed", NULL);
		return;
	}
	memcpy(&open, payload, sizeof(open));
	status_clear(&status);
	region = region_open(connection, frame->slot, open.size, fd, &status);
	close(fd);
	if (region != NULL)
	{
		connection->regions[frame->slot] = region;
		connection_send(connection, INFER_FRAME_READY, frame->request, frame->slot, 0, NULL, 0);
	}
	else if (status.error == INFER_ERROR_PROTOCOL)
		connection_refuse(connection, INFER_ERROR_PROTOCOL, status.message, NULL);
	else
		connection_send_error(connection, frame->request, &status);
}

static struct region *
region_of(struct connection *connection, const struct infer_frame *frame)
{
	if (frame->slot >= INFER_REGIONS_MAX || connection->regions[frame->slot] == NULL || frame->length != 0)
	{
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "a frame names a region that is not there", NULL);
		return NULL;
	}
	return connection->regions[frame->slot];
}

static void
handle_drop(struct connection *connection, struct region *region)
{
	if (__atomic_load_n(&region->request.in_flight, __ATOMIC_ACQUIRE))
	{
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "a region was dropped while a request is in it", NULL);
		return;
	}
	connection->regions[region->slot] = NULL;
	region_forget(region);
	region_free(connection->server->engine, region);
}

/* What is only about a region. */
static void
handle_region_frame(struct connection *connection, const struct infer_frame *frame)
{
	struct region *region = region_of(connection, frame);

	if (region == NULL)
		return;
	if (frame->type == INFER_FRAME_DROP)
	{
		handle_drop(connection, region);
		return;
	}

	/* a cancelled request may not have been seen yet: the doorbell is skipped while awake */
	connection->server->picked_up |= region_pick_up(region, connection->server->now);
	if (frame->type == INFER_FRAME_CANCEL && !connection->closed)
		region_cancel(region, frame->generation);
}

static void
handle_frame(struct connection *connection, const struct infer_frame *frame, const uint8_t *payload)
{
	const char *wrong = NULL;

	if (!connection->greeted && frame->type != INFER_FRAME_HELLO)
	{
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "the first frame is not HELLO", NULL);
		return;
	}
	switch (frame->type)
	{
		case INFER_FRAME_HELLO:
			handle_hello(connection, frame, payload);
			break;
		case INFER_FRAME_REGION:
			handle_region(connection, frame, payload);
			break;
		case INFER_FRAME_DROP:
		case INFER_FRAME_SUBMIT:
		case INFER_FRAME_CANCEL:
			handle_region_frame(connection, frame);
			break;
		case INFER_FRAME_LOAD:
			wrong = load_frame(connection, frame->request, payload, frame->length, connection->fds, &connection->fds_count);
			break;
		case INFER_FRAME_UNLOAD:
			wrong = load_unload_frame(connection, frame->request, payload, frame->length);
			break;
		case INFER_FRAME_STATS:
			wrong = stats_frame(connection, frame->request, payload, frame->length);
			break;
		default:
			wrong = "a frame is of an unknown type";
	}
	if (wrong != NULL)
		connection_refuse(connection, INFER_ERROR_PROTOCOL, wrong, NULL);
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
		refuse_version(connection, "another protocol");
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
		handle_frame(connection, &frame, connection->in + at + sizeof(frame));
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
