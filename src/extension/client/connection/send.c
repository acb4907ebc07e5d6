/*
 * send.c
 *	  Frames out.
 *
 * Nouns
 *	post		a small frame that is queued in out[] if the socket takes no more
 *	send		a frame of any size, with descriptors; sleeps until it is sent
 *
 * Invariants
 *	- sending is set while a frame is partly sent.  A sleep may be left by longjmp in between:
 *	  whoever finds it set at the next use closes the connection.
 *	- A post never sleeps, raises or allocates: reset callbacks post.
 */
#include "postgres.h"

#include "internal.h"

#include <sys/socket.h>

#include "storage/latch.h"

#define OUT_BYTES 8192				/* posts that wait for room in the socket */

static uint8 out[OUT_BYTES];
static uint32 out_used;
static bool sending;

static uint64 request_last;

void
out_reset(void)
{
	out_used = 0;
	sending = false;
}

bool
out_waits(void)
{
	return out_used > 0;
}

void
out_close_if_torn(void)
{
	if (sending)
		connection_close(true);
}

uint64
connection_request(void)
{
	return ++request_last;
}

static struct infer_frame
make_frame(uint16 type, uint32 slot, uint64 request, uint32 generation, uint32 length)
{
	return (struct infer_frame)
	{
		.magic = INFER_PROTOCOL_MAGIC,
		.version = INFER_PROTOCOL_VERSION,
		.type = type,
		.request = request,
		.slot = slot,
		.generation = generation,
		.length = length
	};
}

bool
out_flush(void)
{
	while (out_used > 0)
	{
		ssize_t		sent = send(connection.sock, out, out_used, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		memmove(out, out + sent, out_used - sent);
		out_used -= sent;
	}
	return true;
}

void
connection_post(uint16 type, uint32 slot, uint32 generation, const void *body, uint32 length)
{
	struct infer_frame frame = make_frame(type, slot, 0, generation, length);

	out_close_if_torn();
	if (connection.sock < 0)
		return;
	if (sizeof(frame) + length > OUT_BYTES - out_used)
	{
		connection_close(true);		/* an engine that reads nothing any more */
		return;
	}
	memcpy(out + out_used, &frame, sizeof(frame));
	if (length > 0)
		memcpy(out + out_used + sizeof(frame), body, length);
	out_used += sizeof(frame) + length;

	/* if it has gone, the next sleep finds out, and reads what it left behind first */
	(void) out_flush();
}

/* One sendmsg of what is left of a frame.  -1: no room now; -2: the connection has gone. */
static ssize_t
send_part(const struct iovec *iov, size_t offset, const int *fds, int fds_count)
{
	struct iovec part[2];
	struct msghdr message = {.msg_iov = part};
	union
	{
		struct cmsghdr header;
		char		space[CMSG_SPACE(INFER_FDS_MAX * sizeof(int))];
	}			control;
	ssize_t		sent;

	for (int i = 0; i < 2; i++)
	{
		size_t		skip = Min(offset, iov[i].iov_len);

		offset -= skip;
		if (iov[i].iov_len > skip)
			part[message.msg_iovlen++] = (struct iovec) {(char *) iov[i].iov_base + skip, iov[i].iov_len - skip};
	}
	if (fds_count > 0)
	{
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fds_count * sizeof(int));
		memset(&control, 0, sizeof(control));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fds_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fds_count * sizeof(int));
	}
	do
	{
		sent = sendmsg(connection.sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : -2;
	return sent;
}

static enum SleepEnd
sleep_for_room(uint64 deadline)
{
	long		timeout = sleep_ms_until(deadline);

	if (timeout == 0)
		return SLEEP_LATE;
	(void) sleep_on_socket(WL_SOCKET_WRITEABLE, timeout);
	return SLEEP_WOKEN;
}

enum SleepEnd
connection_send(uint16 type, uint32 slot, uint64 request, const void *body, uint32 length,
				const int *fds, int fds_count, uint64 deadline)
{
	struct infer_frame frame = make_frame(type, slot, request, 0, length);
	struct iovec iov[2] = {{&frame, sizeof(frame)}, {unconstify(void *, body), length}};
	size_t		total = sizeof(frame) + length;
	size_t		offset = 0;

	Assert(fds_count <= INFER_FDS_MAX && length <= INFER_FRAME_MAX);
	out_close_if_torn();
	while (connection.sock >= 0 && offset < total)
	{
		ssize_t		sent = -1;
		enum SleepEnd end;

		if (!out_flush())
			break;
		if (out_used == 0)
			sent = send_part(iov, offset, fds, offset == 0 ? fds_count : 0);
		if (sent == -2)
			break;
		if (sent > 0)
		{
			offset += sent;
			sending = offset < total;
			continue;
		}
		end = sleep_for_room(deadline);
		if (end != SLEEP_WOKEN)
		{
			out_close_if_torn();
			return end;
		}
	}
	if (offset == total)
		return SLEEP_WOKEN;
	if (connection.sock >= 0)
		(void) in_receive();	/* what the engine said as it left */
	connection_close(false);
	return SLEEP_LOST;
}
