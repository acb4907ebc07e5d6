/*
 * raw_client.h
 *	  A client of the engine for tests, with no PostgreSQL in it: it speaks the protocol
 *	  plainly, looks a little before it sleeps, and can be told to misbehave.
 *
 * A call that goes wrong ends the test program: what is expected to fail is asked of
 * raw_receive, which gives back whatever comes.
 */
#ifndef TEST_RAW_CLIENT_H
#define TEST_RAW_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "protocol/protocol.h"

#define RAW_TIMEOUT	5000			/* msec that a test waits before it gives up */
#define RAW_SPINS	20000			/* looks before a client sleeps */

struct raw_region
{
	struct infer_region *map;
	uint64_t	size;
	uint32_t	slot;
	int			fd;
};

struct raw_client
{
	int			fd;
	uint64_t	requests;
	const struct infer_status_page *page;
	struct infer_welcome welcome;
	struct raw_region regions[INFER_REGIONS_MAX];

	/* the frame that was received last */
	struct infer_frame frame;
	uint8_t    *payload;
	int			received_fd;		/* that came with it, or -1 */
};

#define RAW_UNUSED __attribute__((unused))

static RAW_UNUSED void
raw_fail(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

/* -1 if nobody listens. */
static RAW_UNUSED int
raw_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* false: the engine closed the connection. */
static RAW_UNUSED bool
raw_send(struct raw_client *c, const struct infer_frame *frame, const void *payload, const int *fds, int fds_count)
{
	struct iovec parts[2] = {{(void *) frame, sizeof(*frame)}, {(void *) payload, frame->length}};
	union
	{
		struct cmsghdr header;
		char		bytes[CMSG_SPACE(sizeof(int) * INFER_FDS_MAX)];
	}			control = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	if (fds_count > 0)
	{
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t) fds_count);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int) * (size_t) fds_count);
		memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * (size_t) fds_count);
	}
	return sendmsg(c->fd, &message, MSG_NOSIGNAL) == (ssize_t) (sizeof(*frame) + frame->length);
}

static RAW_UNUSED struct infer_frame
raw_frame(struct raw_client *c, uint32_t type, uint32_t length)
{
	return (struct infer_frame) {
		.magic = INFER_PROTOCOL_MAGIC,
		.version = INFER_PROTOCOL_VERSION,
		.type = (uint16_t) type,
		.request = ++c->requests,
		.length = length
	};
}

static RAW_UNUSED bool
raw_read(struct raw_client *c, void *to, size_t bytes, int timeout)
{
	size_t		got = 0;

	while (got < bytes)
	{
		struct pollfd ready = {.fd = c->fd, .events = POLLIN};
		struct iovec part = {(char *) to + got, bytes - got};
		union
		{
			struct cmsghdr header;
			char		room[CMSG_SPACE(sizeof(int))];
		}			control = {0};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
		ssize_t		n;

		if (poll(&ready, 1, timeout) != 1)
			return false;
		n = recvmsg(c->fd, &message, MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return false;
		if (CMSG_FIRSTHDR(&message) != NULL)
			memcpy(&c->received_fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
		got += (size_t) n;
	}
	return true;
}

/* The next frame's type; 0: the connection was closed, or nothing came in time. */
static RAW_UNUSED uint32_t
raw_receive(struct raw_client *c, int timeout)
{
	c->received_fd = -1;
	if (!raw_read(c, &c->frame, sizeof(c->frame), timeout))
		return 0;
	if (infer_frame_check(&c->frame) != NULL)
		raw_fail("the engine sent a malformed frame");
	c->payload = realloc(c->payload, c->frame.length + 1);
	if (c->frame.length > 0 && !raw_read(c, c->payload, c->frame.length, RAW_TIMEOUT))
		return 0;
	return c->frame.type;
}

/* The error of the frame received last; error 0: it was none. */
static RAW_UNUSED struct infer_error_text
raw_error(struct raw_client *c)
{
	struct infer_error_text text = {0};
	struct infer_reader r = {.data = c->payload, .size = c->frame.length};

	if (c->frame.type == INFER_FRAME_ERROR)
		infer_get_error(&r, &text);
	return text;
}

static RAW_UNUSED bool
raw_connect_only(struct raw_client *c, const char *path)
{
	memset(c, 0, sizeof(*c));
	for (int i = 0; i < 1000 && (c->fd = raw_socket(path)) < 0; i++)
		usleep(5000);
	return c->fd >= 0;
}

static RAW_UNUSED bool
raw_hello(struct raw_client *c, const char *build)
{
	struct infer_hello hello = {.protocol = INFER_PROTOCOL_VERSION, .pid = (uint32_t) getpid()};
	struct infer_frame frame = raw_frame(c, INFER_FRAME_HELLO, sizeof(hello));

	snprintf(hello.build, sizeof(hello.build), "%s", build);
	return raw_send(c, &frame, &hello, NULL, 0);
}

static RAW_UNUSED void
raw_connect(struct raw_client *c, const char *path)
{
	if (!raw_connect_only(c, path) || !raw_hello(c, INFER_VERSION) ||
		raw_receive(c, RAW_TIMEOUT) != INFER_FRAME_WELCOME || c->received_fd < 0)
		raw_fail("could not connect");
	memcpy(&c->welcome, c->payload, sizeof(c->welcome));
	c->page = mmap(NULL, INFER_REGION_HEAD, PROT_READ, MAP_SHARED, c->received_fd, 0);
	close(c->received_fd);
	if (c->page == MAP_FAILED)
		raw_fail("could not map the status page");
}

static RAW_UNUSED void
raw_close(struct raw_client *c)
{
	for (int i = 0; i < INFER_REGIONS_MAX; i++)
	{
		if (c->regions[i].map == NULL)
			continue;
		munmap(c->regions[i].map, c->regions[i].size);
		close(c->regions[i].fd);
	}
	if (c->page != NULL)
		munmap((void *) c->page, INFER_REGION_HEAD);
	free(c->payload);
	close(c->fd);
	memset(c, 0, sizeof(*c));
	c->fd = -1;
}

/* Sends REGION and gives the type of the answer; seals as asked. */
static RAW_UNUSED uint32_t
raw_region_seals(struct raw_client *c, uint32_t slot, uint64_t size, uint64_t announced, int seals)
{
	struct raw_region *region = &c->regions[slot];
	struct infer_region_open open = {.size = announced};
	struct infer_frame frame = raw_frame(c, INFER_FRAME_REGION, sizeof(open));

	region->fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (region->fd < 0 || ftruncate(region->fd, (off_t) size) < 0 || fcntl(region->fd, F_ADD_SEALS, seals) < 0)
		raw_fail("could not make a region");
	region->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
	region->size = size;
	region->slot = slot;
	region->map->magic = INFER_PROTOCOL_MAGIC;
	region->map->version = INFER_PROTOCOL_VERSION;
	region->map->size = size;
	frame.slot = slot;
	if (!raw_send(c, &frame, &open, &region->fd, 1))
		return 0;
	return raw_receive(c, RAW_TIMEOUT);
}

static RAW_UNUSED struct raw_region *
raw_region(struct raw_client *c, uint32_t slot, uint64_t size)
{
	if (raw_region_seals(c, slot, size, size, F_SEAL_SHRINK | F_SEAL_SEAL) != INFER_FRAME_READY)
		raw_fail("the engine refused a region");
	return &c->regions[slot];
}

/*
 * LOAD by the cache.  Gives the type of the answer.
 */
static RAW_UNUSED uint32_t
raw_load(struct raw_client *c, const uint8_t *key, const uint8_t *digest, uint32_t flags)
{
	struct infer_load load = {.flags = flags, .options_length = 2};
	struct infer_frame frame = raw_frame(c, INFER_FRAME_LOAD, sizeof(load) + 2);
	uint8_t		payload[sizeof(load) + 2];

	memcpy(load.key, key, INFER_KEY_BYTES);
	memcpy(load.digest, digest, INFER_KEY_BYTES);
	memcpy(payload, &load, sizeof(load));
	memcpy(payload + sizeof(load), "{}", 2);
	return raw_send(c, &frame, payload, NULL, 0) ? 1 : 0;
}

static RAW_UNUSED bool
raw_unload(struct raw_client *c, const uint8_t *key)
{
	struct infer_frame frame = raw_frame(c, INFER_FRAME_UNLOAD, INFER_KEY_BYTES);

	return raw_send(c, &frame, key, NULL, 0);
}

/* A request of one f32 input of one element a row, described and with values, not yet submitted. */
static RAW_UNUSED void
raw_fill(struct raw_region *region, const uint8_t *key, const float *x, uint32_t rows)
{
	struct infer_region *map = region->map;
	uint64_t	data = INFER_REGION_HEAD + 64;
	uint64_t	reply = (data + rows * sizeof(float) + 63) & ~63ull;
	struct infer_column column = {
		.type = INFER_TYPE_F32, .width = 1, .data_offset = data, .data_bytes = rows * sizeof(float)
	};

	memset(&map->request, 0, sizeof(map->request));
	memcpy(map->request.key, key, INFER_KEY_BYTES);
	map->request.rows = rows;
	map->request.columns = 1;
	map->request.columns_offset = INFER_REGION_HEAD;
	map->request.reply_offset = reply;
	map->request.reply_bytes = region->size - reply;
	memcpy((uint8_t *) map + INFER_REGION_HEAD, &column, sizeof(column));
	memcpy((uint8_t *) map + data, x, rows * sizeof(float));
}

/* Raises submit_seq; rings only if the engine sleeps, or if it must. */
static RAW_UNUSED bool
raw_submit(struct raw_client *c, struct raw_region *region)
{
	struct infer_frame frame = raw_frame(c, INFER_FRAME_SUBMIT, 0);

	infer_store_release64(&region->map->submit_seq, region->map->submit_seq + 1);
	infer_fence();
	if (infer_load_acquire32(&c->page->awake))
		return true;
	frame.slot = region->slot;
	return raw_send(c, &frame, NULL, NULL, 0);
}

static RAW_UNUSED bool
raw_cancel(struct raw_client *c, struct raw_region *region)
{
	struct infer_frame frame = raw_frame(c, INFER_FRAME_CANCEL, 0);

	frame.slot = region->slot;
	frame.generation = (uint32_t) region->map->submit_seq;
	return raw_send(c, &frame, NULL, NULL, 0);
}

/* Sleeps until the request has ended; false: not in time, or the engine is gone. */
static RAW_UNUSED bool
raw_wait(struct raw_client *c, struct raw_region *region, int timeout)
{
	uint64_t	seq = region->map->submit_seq;

	for (int i = 0; i < RAW_SPINS; i++)
	{
		if (infer_load_acquire64(&region->map->done_seq) == seq)
			return true;
	}
	for (;;)
	{
		infer_store_release32(&region->map->client_asleep, 1);
		infer_fence();
		if (infer_load_acquire64(&region->map->done_seq) == seq)
			break;
		if (raw_receive(c, timeout) == 0 && infer_load_acquire64(&region->map->done_seq) != seq)
			return false;
	}
	infer_store_release32(&region->map->client_asleep, 0);
	return true;
}

static RAW_UNUSED bool
raw_call(struct raw_client *c, struct raw_region *region, const uint8_t *key, const float *x, uint32_t rows)
{
	raw_fill(region, key, x, rows);
	return raw_submit(c, region) && raw_wait(c, region, RAW_TIMEOUT);
}

static RAW_UNUSED uint32_t
raw_row_status(struct raw_region *region, uint32_t row)
{
	return ((uint32_t *) ((uint8_t *) region->map + region->map->reply.row_status_offset))[row];
}

static RAW_UNUSED float
raw_row_f32(struct raw_region *region, uint32_t row)
{
	uint8_t    *base = (uint8_t *) region->map;
	struct infer_column *column = (struct infer_column *) (base + region->map->reply.columns_offset);

	return ((float *) (base + column->data_offset))[row];
}

/* The whole request's error text, or an empty one. */
static RAW_UNUSED struct infer_error_text
raw_reply_error(struct raw_region *region)
{
	struct infer_error_text text = {0};
	struct infer_request *request = &region->map->request;
	struct infer_reader r = {
		.data = (uint8_t *) region->map + request->reply_offset + region->map->reply.error_offset,
		.size = request->reply_bytes - region->map->reply.error_offset
	};

	if (region->map->reply.error_offset != 0)
		infer_get_error(&r, &text);
	return text;
}

/* Counters of one model; head too. */
static RAW_UNUSED bool
raw_stats(struct raw_client *c, const uint8_t *key, struct infer_stats_head *head, struct infer_stats_model *model)
{
	struct infer_stats_ask ask = {0};

	memset(model, 0, sizeof(*model));
	do
	{
		struct infer_frame frame = raw_frame(c, INFER_FRAME_STATS, sizeof(ask));
		const uint8_t *at;

		if (!raw_send(c, &frame, &ask, NULL, 0))
			return false;
		while (raw_receive(c, RAW_TIMEOUT) != INFER_FRAME_STATS_REPLY)
		{
			if (c->frame.type == 0)
				return false;
		}
		memcpy(head, c->payload, sizeof(*head));
		at = c->payload + sizeof(*head) + head->devices_count * sizeof(struct infer_stats_device);
		for (uint32_t i = 0; i < head->models_count; i++, at += sizeof(*model))
		{
			if (key != NULL && memcmp(at, key, INFER_KEY_BYTES) == 0)
				memcpy(model, at, sizeof(*model));
		}
		ask.from = head->next;
	} while (ask.from != 0);
	return true;
}

#endif							/* TEST_RAW_CLIENT_H */
