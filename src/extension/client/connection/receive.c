/*
 * receive.c
 *	  Frames in, and what waits for them.
 *
 * Nouns
 *	ask			send, then sleep until its answer has come
 *	answer		the frame with the ask's request number; the last one stays here
 *	farewell	what the engine said as it closed the connection
 *
 * Loop
 *	connection_sleep sleeps, then reads what has come and dispatches each frame: to the
 *	ask that waits for it, or to the regions (region.c).
 *
 * Invariants
 *	- An answer to an ask that was given up is dropped by its request number.
 *	- A descriptor that nobody asked for is closed.
 */
#include "postgres.h"

#include "internal.h"

#include <sys/socket.h>
#include <unistd.h>

#include "storage/latch.h"
#include "utils/memutils.h"

static struct infer_frame in_frame;	/* the frame that is coming in */
static uint32 in_frame_used;
static uint8 *in_body;				/* in_frame.length bytes, in TopMemoryContext */
static uint32 in_body_used;
static int	in_fd = -1;				/* a descriptor that came with it */

static uint64 asked;				/* the ask that is waited for; 0 none */
static bool answered;
static struct infer_frame answer_frame;
static uint8 *answer_body;
static int	answer_fd = -1;

static struct infer_error_text farewell;

/* What of the last frame nobody has taken. */
static void
drop_frame(void)
{
	if (in_body != NULL)
		pfree(in_body);
	in_body = NULL;
	if (in_fd >= 0)
		close(in_fd);
	in_fd = -1;
}

void
in_reset(void)
{
	in_frame_used = in_body_used = 0;
	drop_frame();
	in_answer_fd_close();
}

/* ---- farewells and answers ---- */

void
farewell_forget(void)
{
	memset(&farewell, 0, sizeof(farewell));
}

bool
connection_farewell(struct infer_error_text *err)
{
	if (connection.sock >= 0 || farewell.error == INFER_OK)
		return false;
	*err = farewell;
	return true;
}

int
in_answer_fd(void)
{
	return answer_fd;
}

void
in_answer_fd_close(void)
{
	if (answer_fd >= 0)
		close(answer_fd);
	answer_fd = -1;
}

static void
take_answer(void)
{
	if (answer_body != NULL)
		pfree(answer_body);
	in_answer_fd_close();
	answer_frame = in_frame;
	answer_body = in_body;
	answer_fd = in_fd;
	in_body = NULL;
	in_fd = -1;
	answered = true;
}

void
answer_error(const Answer *answer, struct infer_error_text *err)
{
	struct infer_reader reader = {answer->body, answer->length, 0, 0};

	if (answer->type != INFER_FRAME_ERROR)
		error_set(err, INFER_ERROR_PROTOCOL, "the engine's answer is of an unexpected kind", NULL, NULL);
	else if (infer_get_error(&reader, err) != 0)
		error_set(err, INFER_ERROR_PROTOCOL, "the engine's error is malformed", NULL, NULL);
}

static void
dispatch_error(void)
{
	Answer		answer = {INFER_FRAME_ERROR, in_body, in_frame.length};
	struct infer_error_text err;

	answer_error(&answer, &err);
	if (in_frame.request == 0)
		farewell = err;
	else
		(void) region_on_error(in_frame.request, &err);
}

/* A whole frame has come.  False: it makes no sense. */
static bool
dispatch(void)
{
	switch (in_frame.type)
	{
		case INFER_FRAME_READY:
			region_on_ready(in_frame.slot, in_frame.request);
			return true;
		case INFER_FRAME_RESULT:
		case INFER_FRAME_CANCELLED:
			return true;			/* a doorbell: done_seq tells the rest */
		case INFER_FRAME_WELCOME:
		case INFER_FRAME_LOADED:
		case INFER_FRAME_UNLOADED:
		case INFER_FRAME_STATS_REPLY:
		case INFER_FRAME_ACTIVITY_REPLY:
		case INFER_FRAME_ERROR:
			if (asked != 0 && in_frame.request == asked)
				take_answer();
			else if (in_frame.type == INFER_FRAME_ERROR)
				dispatch_error();
			return true;
		default:
			return false;
	}
}

/* ---- reading ---- */

/* Keep the one descriptor that a frame may bring; close what nobody asked for. */
static void
receive_fds(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c))
	{
		int			count;
		int			fds[4];

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = Min((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), lengthof(fds));
		memcpy(fds, CMSG_DATA(c), count * sizeof(int));
		for (int i = 0; i < count; i++)
		{
			if (in_fd < 0)
				in_fd = fds[i];
			else
				close(fds[i]);
		}
	}
}

/* Read up to length bytes: more than 0, 0 nothing now, -1 the connection has gone. */
static ssize_t
receive_part(void *buffer, size_t length)
{
	struct iovec iov = {buffer, length};
	union
	{
		struct cmsghdr header;
		char		space[CMSG_SPACE(4 * sizeof(int))];
	}			control;
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)
	};
	ssize_t		got;

	do
	{
		got = recvmsg(connection.sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
	if (got == 0)
		return -1;
	receive_fds(&message);
	return got;
}

bool
in_receive(void)
{
	for (;;)
	{
		ssize_t		got;

		if (in_frame_used < sizeof(in_frame))
		{
			got = receive_part((char *) &in_frame + in_frame_used, sizeof(in_frame) - in_frame_used);
			if (got <= 0)
				return got == 0;
			in_frame_used += got;
			if (in_frame_used < sizeof(in_frame))
				continue;
			if (infer_frame_check(&in_frame) != NULL)
				return false;
		}
		if (in_body == NULL && in_frame.length > 0)
		{
			in_body = MemoryContextAlloc(TopMemoryContext, in_frame.length);
			in_body_used = 0;
		}
		while (in_frame.length > 0 && in_body_used < in_frame.length)
		{
			got = receive_part(in_body + in_body_used, in_frame.length - in_body_used);
			if (got <= 0)
				return got == 0;
			in_body_used += got;
		}
		in_frame_used = in_body_used = 0;
		if (!dispatch())
			return false;
		drop_frame();
	}
}

/* ---- sleeping and asking ---- */

enum SleepEnd
connection_sleep(uint64 deadline)
{
	long		timeout = sleep_ms_until(deadline);
	uint64		number;

	out_close_if_torn();
	if (connection.sock < 0)
		return SLEEP_LOST;
	if (timeout == 0)
		return SLEEP_LATE;
	number = connection.number;
	if (!sleep_on_socket(WL_SOCKET_READABLE | (out_waits() ? WL_SOCKET_WRITEABLE : 0), timeout))
		return SLEEP_WOKEN;
	if (!connection_is(number))
		return SLEEP_LOST;
	(void) out_flush();
	if (in_receive())
		return SLEEP_WOKEN;
	connection_close(false);
	return SLEEP_LOST;
}

enum SleepEnd
connection_ask(uint16 type, const void *body, uint32 length, const int *fds, int fds_count,
			   uint64 deadline, Answer *answer)
{
	uint64		request = connection_request();
	enum SleepEnd end;

	asked = request;
	answered = false;
	end = connection_send(type, 0, request, body, length, fds, fds_count, deadline);
	while (end == SLEEP_WOKEN && !answered)
		end = connection_sleep(deadline);
	asked = 0;
	if (!answered)
		return end;

	answer->type = answer_frame.type;
	answer->length = answer_frame.length;
	answer->body = NULL;
	if (answer_frame.length > 0)
	{
		answer->body = palloc(answer_frame.length);
		memcpy(answer->body, answer_body, answer_frame.length);
		pfree(answer_body);
		answer_body = NULL;
	}
	return SLEEP_WOKEN;
}
