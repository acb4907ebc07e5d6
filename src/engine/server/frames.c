/*
 * frames.c
 *	  See frames.h.  A frame that is malformed, out of order or of an unknown type closes its
 *	  connection, with an ERROR frame that says why.
 */
#include "frames.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../registry/load.h"
#include "activity.h"
#include "region.h"
#include "server.h"
#include "stats.h"

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

	memcpy(welcome.numerics_id, engine->info.numerics_id, strnlen(engine->info.numerics_id, INFER_NUMERICS_MAX - 1));
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &engine->page_fd, sizeof(int));
	if (sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t) (sizeof(frame) + sizeof(welcome)))
		connection_close(connection);	/* the first bytes of a fresh socket: it has gone */
}

void
frame_refuse_version(struct connection *connection, const char *build)
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
		frame_refuse_version(connection, hello.build);
		return;
	}
	connection->greeted = true;
	connection->pid = hello.pid;
	connection->database = hello.database;
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

/* With the lock, under which requests end: the last write to the mapping comes after in_flight. */
static void
handle_drop(struct connection *connection, struct region *region)
{
	struct engine *engine = connection->server->engine;
	bool		in_flight;

	pthread_mutex_lock(&engine->lock);
	in_flight = region->request.in_flight;
	pthread_mutex_unlock(&engine->lock);
	if (in_flight)
	{
		connection_refuse(connection, INFER_ERROR_PROTOCOL, "a region was dropped while a request is in it", NULL);
		return;
	}
	connection->regions[region->slot] = NULL;
	region_forget(region);
	region_free(engine, region);
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

void
frame_handle(struct connection *connection, const struct infer_frame *frame, const uint8_t *payload)
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
		case INFER_FRAME_ACTIVITY:
			wrong = activity_frame(connection, frame->request, frame->length);
			break;
		default:
			wrong = "a frame is of an unknown type";
	}
	if (wrong != NULL)
		connection_refuse(connection, INFER_ERROR_PROTOCOL, wrong, NULL);
}
