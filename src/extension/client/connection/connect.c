/*
 * connect.c
 *	  The connection to the engine: its begin and its end.
 *
 * Loop
 *	connection_ready connects, says HELLO and maps the status page of WELCOME, with short
 *	naps while the engine restarts.
 *
 * Invariants
 *	- connection.number changes with every connection and every close.
 *	- A greeting that a longjmp left is noticed at the next use: a socket, but no page.
 */
#include "postgres.h"

#include "internal.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/fd.h"

#define NAP_MAX 20					/* ms between attempts to connect */

Connection connection = {.sock = -1};

/* ---- closing ---- */

void
connection_close(bool by_us)
{
	if (connection.sock < 0)
		return;
	region_on_close(by_us);
	connection.number++;

	/* the set goes first: epoll must not be left with a closed descriptor */
	sleep_close();
	close(connection.sock);
	ReleaseExternalFD();
	connection.sock = -1;
	if (connection.page != NULL)
		munmap(unconstify(struct infer_status_page *, connection.page), INFER_REGION_HEAD);
	connection.page = NULL;

	out_reset();
	in_reset();
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
	farewell_forget();
	sleep_open(sock);
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
	int			fd = in_answer_fd();
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
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < INFER_REGION_HEAD)
	{
		error_set(err, INFER_ERROR_PROTOCOL, "the engine's greeting has no status page", NULL, NULL);
		return CONNECT_FAILED;
	}
	page = mmap(NULL, INFER_REGION_HEAD, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
	{
		error_set(err, INFER_ERROR_MEMORY, "could not map the engine's status page", NULL, NULL);
		return CONNECT_FAILED;
	}
	in_answer_fd_close();
	connection.page = page;
	connection.epoch = welcome.epoch;
	welcome.numerics_id[INFER_NUMERICS_MAX - 1] = '\0';
	strlcpy(connection.numerics_id, infer_client_text(welcome.numerics_id), sizeof(connection.numerics_id));
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
	if (end == SLEEP_LOST && connection_farewell(err))
		return CONNECT_FAILED;
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

	out_close_if_torn();
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
