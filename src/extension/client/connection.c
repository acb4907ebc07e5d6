/*
 * connection.c
 *	  The socket to the engine: connecting, frames in and out, and the one place that sleeps.
 *
 * Nouns
 *	post		a small frame that is queued in out[] if the socket takes no more
 *	send		a frame of any size, with descriptors; sleeps until it is sent
 *	ask			send, then sleep until its answer has come
 *	set			the session's WaitEventSet: latch, postmaster, the session's own client, and
 *				the engine's socket.  One without the socket serves while there is no engine
 *
 * Loop
 *	connection_ready connects, says HELLO and maps the status page of WELCOME, with short
 *	naps while the engine restarts.  connection_sleep waits on the set, then reads what has
 *	come and dispatches it.
 *
 * Invariants
 *	- Every sleep processes interrupts and may be left by longjmp.  sending is set while a
 *	  frame is partly sent: whoever finds it set at the next use closes the connection.
 *	- An answer to an ask that was given up is dropped by its request number.
 *	- connection.number changes with every connection and every close.
 */
#include "postgres.h"

#include "internal.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/memutils.h"

/*
 * For MyProcPort->sock alone.  The header would want those of GSSAPI and OpenSSL, which
 * a build of an extension need not have; it keeps the places of their fields without them.
 */
#undef ENABLE_GSS
#undef USE_OPENSSL
#include "libpq/libpq-be.h"

#define OUT_BYTES 8192				/* posts that wait for room in the socket */
#define NAP_MAX 20					/* ms between attempts to connect */

Connection connection = {.sock = -1};

static WaitEventSet *set = NULL;	/* with the engine's socket */
static WaitEventSet *idle_set = NULL;	/* without */
static int	set_position;			/* of the engine's socket */
static uint32 set_events;			/* what it waits for there */

static uint8 out[OUT_BYTES];
static uint32 out_used;
static bool sending;

static struct infer_frame in_frame;	/* the frame that is coming in */
static uint32 in_frame_used;
static uint8 *in_body;				/* in_frame.length bytes, in TopMemoryContext */
static uint32 in_body_used;
static int	in_fd = -1;				/* a descriptor that came with it */

static uint64 request_last;
static uint64 asked;				/* the ask that is waited for; 0 none */
static bool answered;
static struct infer_frame answer_frame;
static uint8 *answer_body;
static int	answer_fd = -1;

static struct infer_error_text farewell;	/* what the engine said as it closed the connection */

static bool receive_frames(void);

/* ---- time ---- */

uint64
clock_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64
deadline_from_now(int timeout_ms)
{
	return timeout_ms > 0 ? clock_nsec() + (uint64) timeout_ms * 1000000 : 0;
}

/* ms until the deadline, rounded up; -1 without one */
static long
ms_until(uint64 deadline)
{
	uint64		now;

	if (deadline == 0)
		return -1;
	now = clock_nsec();
	if (now >= deadline)
		return 0;
	return (long) Min((deadline - now) / 1000000 + 1, INT_MAX);
}

/* ---- sleeping ---- */

static WaitEventSet *
make_set(int sock)
{
	WaitEventSet *made = infer_create_wait_event_set(4);

	AddWaitEventToSet(made, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(made, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);

	/* a client that has gone is no reason to go on computing for it */
	if (MyProcPort != NULL && WaitEventSetCanReportClosed())
		AddWaitEventToSet(made, WL_SOCKET_CLOSED, MyProcPort->sock, NULL, NULL);
	if (sock >= 0)
		set_position = AddWaitEventToSet(made, WL_SOCKET_READABLE, sock, NULL, NULL);
	return made;
}

static void
wait_for_socket(uint32 events)
{
	if (set_events != events)
		ModifyWaitEvent(set, set_position, events, NULL);
	set_events = events;
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = infer_wait_event_new("InferEngine");
	return event;
}

/* Returns whether the engine's socket had something. */
static bool
sleep_on(WaitEventSet *which, long timeout)
{
	WaitEvent	events[4];
	int			count;
	bool		engine = false;

	CHECK_FOR_INTERRUPTS();
	count = WaitEventSetWait(which, timeout, events, lengthof(events), wait_event());
	for (int i = 0; i < count; i++)
	{
		if (events[i].events & WL_LATCH_SET)
			ResetLatch(MyLatch);
		if (events[i].events & WL_SOCKET_CLOSED)
		{
			ClientConnectionLost = true;
			InterruptPending = true;
		}
		if (events[i].events & (WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE))
			engine = true;
	}
	CHECK_FOR_INTERRUPTS();
	return engine;
}

bool
connection_nap(int ms, uint64 deadline)
{
	long		left = ms_until(deadline);

	if (left == 0)
		return false;
	if (idle_set == NULL)
		idle_set = make_set(-1);
	(void) sleep_on(idle_set, left > 0 ? Min(left, ms) : ms);
	return true;
}

/* ---- closing ---- */

bool
connection_farewell(struct infer_error_text *err)
{
	if (connection.sock >= 0 || farewell.error == INFER_OK)
		return false;
	*err = farewell;
	return true;
}

void
connection_close(bool by_us)
{
	if (connection.sock < 0)
		return;
	region_on_close(by_us);
	connection.number++;

	/* the set goes first: epoll must not be left with a closed descriptor */
	if (set != NULL)
		FreeWaitEventSet(set);
	set = NULL;
	close(connection.sock);
	ReleaseExternalFD();
	connection.sock = -1;
	if (connection.page != NULL)
		munmap(unconstify(struct infer_status_page *, connection.page), INFER_REGION_HEAD);
	connection.page = NULL;

	out_used = 0;
	sending = false;
	in_frame_used = in_body_used = 0;
	if (in_body != NULL)
		pfree(in_body);
	in_body = NULL;
	if (in_fd >= 0)
		close(in_fd);
	in_fd = -1;
	if (answer_fd >= 0)
		close(answer_fd);
	answer_fd = -1;
}

/* A frame that was being sent when a sleep was left cannot be continued. */
static void
close_if_torn(void)
{
	if (sending)
		connection_close(true);
}

/* ---- frames out ---- */

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

/* Send what is queued.  False: the connection has gone. */
static bool
flush_out(void)
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

	close_if_torn();
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
	(void) flush_out();
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
	long		timeout = ms_until(deadline);

	if (timeout == 0)
		return SLEEP_LATE;
	wait_for_socket(WL_SOCKET_WRITEABLE);
	(void) sleep_on(set, timeout);
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
	close_if_torn();
	while (connection.sock >= 0 && offset < total)
	{
		ssize_t		sent = -1;
		enum SleepEnd end;

		if (!flush_out())
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
			close_if_torn();
			return end;
		}
	}
	if (offset == total)
		return SLEEP_WOKEN;
	if (connection.sock >= 0)
		(void) receive_frames();	/* what the engine said as it left */
	connection_close(false);
	return SLEEP_LOST;
}

/* ---- frames in ---- */

static void
take_answer(void)
{
	if (answer_body != NULL)
		pfree(answer_body);
	if (answer_fd >= 0)
		close(answer_fd);
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

/* Read and dispatch all that has come.  False: the connection has gone or makes no sense. */
static bool
receive_frames(void)
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
		if (in_body != NULL)
			pfree(in_body);
		in_body = NULL;
		if (in_fd >= 0)
			close(in_fd);
		in_fd = -1;
	}
}

enum SleepEnd
connection_sleep(uint64 deadline)
{
	long		timeout = ms_until(deadline);
	uint64		number;

	close_if_torn();
	if (connection.sock < 0)
		return SLEEP_LOST;
	if (timeout == 0)
		return SLEEP_LATE;
	wait_for_socket(WL_SOCKET_READABLE | (out_used > 0 ? WL_SOCKET_WRITEABLE : 0));
	number = connection.number;
	if (!sleep_on(set, timeout))
		return SLEEP_WOKEN;
	if (!connection_is(number))
		return SLEEP_LOST;
	(void) flush_out();
	if (receive_frames())
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

/* ---- connecting ---- */

enum ConnectEnd { CONNECT_DONE, CONNECT_AGAIN, CONNECT_FAILED };

/* The engine must be the server's own user's. */
static bool
check_peer(int sock)
{
	struct ucred peer;
	socklen_t	length = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

static enum ConnectEnd
open_socket(struct infer_error_text *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int			sock;

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no file descriptor is left for a connection to the engine"),
				 errhint("Raise max_files_per_process, or the system's limit.")));
	strlcpy(address.sun_path, INFER_SOCKET, sizeof(address.sun_path));
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *) &address, sizeof(address)) < 0)
	{
		if (sock >= 0)
			close(sock);			/* not there yet, or its backlog is full */
		ReleaseExternalFD();
		return CONNECT_AGAIN;
	}
	if (!check_peer(sock))
	{
		close(sock);
		ReleaseExternalFD();
		error_set(err, INFER_CLIENT_LOST, "the engine's socket belongs to another user", NULL,
				  "Look who owns " INFER_SOCKET " in the data directory.");
		return CONNECT_FAILED;
	}
	connection.sock = sock;
	connection.number++;
	memset(&farewell, 0, sizeof(farewell));
	set = make_set(sock);
	set_events = WL_SOCKET_READABLE;
	return CONNECT_DONE;
}

static void
version_error(const char *theirs, struct infer_error_text *err)
{
	error_set(err, INFER_ERROR_VERSION, "the library infer and its engine are of different versions",
			  NULL, "Restart the server.");
	snprintf(err->detail, sizeof(err->detail), "The library is version %s, the engine is version %s.",
			 INFER_VERSION, theirs);
}

/* Take over what WELCOME says; the descriptor is the status page's. */
static enum ConnectEnd
read_welcome(const Answer *answer, struct infer_error_text *err)
{
	struct infer_welcome welcome;
	struct stat st;
	void	   *page;

	if (answer->length != sizeof(welcome))
	{
		version_error("unknown", err);
		return CONNECT_FAILED;
	}
	memcpy(&welcome, answer->body, sizeof(welcome));
	welcome.build[INFER_BUILD_MAX - 1] = '\0';
	if (welcome.protocol != INFER_PROTOCOL_VERSION || strcmp(welcome.build, INFER_VERSION) != 0)
	{
		version_error(welcome.build, err);
		return CONNECT_FAILED;
	}
	if (answer_fd < 0 || fstat(answer_fd, &st) < 0 || st.st_size < INFER_REGION_HEAD)
	{
		error_set(err, INFER_ERROR_PROTOCOL, "the engine's greeting has no status page", NULL, NULL);
		return CONNECT_FAILED;
	}
	page = mmap(NULL, INFER_REGION_HEAD, PROT_READ, MAP_SHARED, answer_fd, 0);
	if (page == MAP_FAILED)
	{
		error_set(err, INFER_ERROR_MEMORY, "could not map the engine's status page", NULL, NULL);
		return CONNECT_FAILED;
	}
	close(answer_fd);
	answer_fd = -1;
	connection.page = page;
	connection.epoch = welcome.epoch;
	return CONNECT_DONE;
}

static enum ConnectEnd
greet(uint64 deadline, struct infer_error_text *err)
{
	struct infer_hello hello = {
		.protocol = INFER_PROTOCOL_VERSION,
		.database = MyDatabaseId,
		.role = GetUserId(),
		.pid = MyProcPid,
		.build = INFER_VERSION
	};
	Answer		answer;
	enum SleepEnd end = connection_ask(INFER_FRAME_HELLO, &hello, sizeof(hello), NULL, 0, deadline, &answer);

	if (end == SLEEP_WOKEN && answer.type == INFER_FRAME_WELCOME)
		return connection.sock >= 0 ? read_welcome(&answer, err) : CONNECT_AGAIN;
	if (end == SLEEP_WOKEN)
	{
		answer_error(&answer, err);
		if (err->error == INFER_ERROR_VERSION)
			version_error("another", err);
		return CONNECT_FAILED;
	}
	if (end == SLEEP_LOST && farewell.error != 0)
	{
		*err = farewell;
		return CONNECT_FAILED;
	}
	return CONNECT_AGAIN;
}

/* Whether the supervisor knows that there will be no engine soon, and why. */
static bool
engine_is_hopeless(struct infer_error_text *err)
{
	bool		hopeless;

	LWLockAcquire(infer_shared->lock, LW_SHARED);
	hopeless = infer_shared->engine_pid == 0 && infer_shared->engine_error[0] != '\0';
	if (hopeless)
	{
		error_set(err, INFER_CLIENT_LOST, "the inference engine cannot be started", NULL,
				  "Look into the server's log; infer.restart_engine() tries again at once.");
		snprintf(err->detail, sizeof(err->detail), "The supervisor says: %s.", infer_shared->engine_error);
	}
	LWLockRelease(infer_shared->lock);
	return hopeless;
}

static void
unreachable(struct infer_error_text *err)
{
	error_set(err, INFER_CLIENT_LOST, "the inference engine could not be reached within infer.timeout", NULL,
			  "Look into the server's log for what the engine says; infer.restart_engine() replaces it.");
}

bool
connection_ready(uint64 deadline, struct infer_error_text *err)
{
	int			nap = 1;

	close_if_torn();
	if (connection.sock >= 0 && connection.page == NULL)
		connection_close(true);		/* a greeting that was given up */
	if (!IsUnderPostmaster)
	{
		error_set(err, INFER_CLIENT_LOST, "there is no inference engine in single-user mode", NULL, NULL);
		return false;
	}
	while (connection.sock < 0)
	{
		enum ConnectEnd end = open_socket(err);

		if (end == CONNECT_DONE)
			end = greet(deadline, err);
		if (end == CONNECT_DONE)
			return true;
		connection_close(true);
		if (end == CONNECT_FAILED || engine_is_hopeless(err))
			return false;
		if (!connection_nap(nap, deadline))
		{
			unreachable(err);
			return false;
		}
		nap = Min(nap * 2, NAP_MAX);
	}
	return true;
}
