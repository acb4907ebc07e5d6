/*
 * server.c
 *	  See server.h.
 *
 * Loop
 *	look at the regions that were used lately → look at the sockets → run a small batch, or
 *	have the scheduler run one → again, as long as there is something to do.  Then watch
 *	the regions awake for a while (spin.c says how long); then say on the status page that
 *	we sleep, look at all idle regions once more, and sleep until a socket wakes us.
 *
 * Invariants
 *	- A request is never slept over: either the client saw awake = 0 after it had raised
 *	  submit_seq and rings, or we see its number in the look after the fence.
 *	- A turn handles a bounded number of events, so none starves another.
 */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <fcntl.h>
#include <unistd.h>

#include "../process/log.h"
#include "../process/process.h"
#include "../registry/load.h"
#include "../scheduler/outbox.h"
#include "connection.h"
#include "region.h"
#include "spin.h"

#define EVENTS_MAX		64
#define ACCEPTS_MAX		64			/* of one turn */
#define BACKLOG			4096		/* the kernel bounds it further */
#define TICK_NSEC		1000000000u
#define HOT_NSEC		20000000u	/* a region is looked at in every turn for so long after its use */
#define HOT_MAX			128			/* and at most so many of them */
#define COLD_NSEC		200000u		/* how often all regions are looked at while awake */
#define FDS_RESERVED	(INFER_FDS_MAX + 64)

/* ---- listening ---- */

static int
listen_on(const char *path, struct status *status)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t		mask;
	int			fd;
	bool		good;

	if (strlen(path) >= sizeof(address.sun_path))
	{
		status_set(status, INFER_ERROR_INPUT, "the socket's path is longer than %zu bytes", sizeof(address.sun_path) - 1);
		return -1;
	}
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(path);				/* stale: the lock is ours */
	mask = umask(0077);
	good = fd >= 0 && bind(fd, (struct sockaddr *) &address, sizeof(address)) == 0 && listen(fd, BACKLOG) == 0;
	umask(mask);
	if (good)
		return fd;
	status_set(status, INFER_ERROR_INTERNAL, "could not listen on \"%s\": %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool
watch(struct server *server, int fd, struct status *status)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	/* what is no connection is told apart by the address of where its descriptor is kept */
	event.data.ptr = fd == server->listen_fd ? (void *) &server->listen_fd :
		fd == server->control_fd ? (void *) &server->control_fd : (void *) &server->engine->outbox;
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return status_set(status, INFER_ERROR_INTERNAL, "could not watch a descriptor: %s", strerror(errno));
	return true;
}

bool
server_open(struct server *server, struct engine *engine, const char *socket_path, int control_fd,
			struct status *status)
{
	uint32_t	descriptors = process_descriptors_max();
	int			outbox;

	server->engine = engine;
	server->control_fd = control_fd;
	server->runner.inline_ = true;
	server->connections_max = descriptors > 2 * FDS_RESERVED ? descriptors - FDS_RESERVED : descriptors / 2;
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll_fd < 0)
		return status_set(status, INFER_ERROR_INTERNAL, "could not create an epoll instance: %s", strerror(errno));
	server->listen_fd = listen_on(socket_path, status);
	if (server->listen_fd < 0 || !watch(server, server->listen_fd, status))
		return false;
	outbox = outbox_open(engine, status);
	if (outbox < 0 || !watch(server, outbox, status))
		return false;
	if (control_fd >= 0)
	{
		fcntl(control_fd, F_SETFL, O_NONBLOCK);
		return watch(server, control_fd, status);
	}
	return true;
}

/* ---- accepting ---- */

static bool
peer_is_allowed(int fd)
{
	struct ucred peer;
	socklen_t	length = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return false;
	if (peer.uid == geteuid() || peer.uid == 0)
		return true;
	log_write(LOG_WARNING, "a connection of user id %u was refused", (unsigned) peer.uid);
	return false;
}

static void
accept_one(struct server *server, int fd)
{
	if (!peer_is_allowed(fd))
		close(fd);
	else if (__atomic_load_n(&server->engine->connections, __ATOMIC_RELAXED) >= server->connections_max)
	{
		connection_send_busy(fd);
		close(fd);
	}
	else
		connection_open(server, fd);
}

/* No descriptor is left: give up the spare one to tell one client, and take it again. */
static bool
accept_and_refuse(struct server *server)
{
	int			fd;

	close(server->spare_fd);
	fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0)
	{
		connection_send_busy(fd);
		close(fd);
	}
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd >= 0;
}

static void
accept_all(struct server *server)
{
	for (int i = 0; i < ACCEPTS_MAX; i++)
	{
		int			fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			accept_one(server, fd);
		else if (errno == EMFILE || errno == ENFILE)
		{
			if (!accept_and_refuse(server))
				return;
		}
		else if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

/* ---- the control pipe ---- */

static void
control_line(struct server *server, const char *line)
{
	struct engine *engine = server->engine;
	struct status status;
	bool		ignored;
	bool		good;

	status_clear(&status);
	pthread_mutex_lock(&engine->lock);
	good = settings_set(&engine->settings, line, true, &ignored, &status);
	scheduler_settings(engine);
	pthread_mutex_unlock(&engine->lock);
	if (!good)
		log_status(LOG_WARNING, "a setting was not taken", &status);
	else if (ignored)
		log_write(LOG_INFO, "\"%s\" takes effect at the engine's next start", line);
	else
		log_write(LOG_DEBUG, "took the setting %s", line);
}

/* Whole lines; the rest waits.  The end of the pipe is the supervisor's end. */
static void
control_readable(struct server *server)
{
	ssize_t		got = read(server->control_fd, server->control + server->control_used,
						   sizeof(server->control) - 1 - server->control_used);
	char	   *line = server->control;
	char	   *end;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0)
		process_exit(0);
	server->control_used += (uint32_t) got;
	server->control[server->control_used] = '\0';
	while ((end = strchr(line, '\n')) != NULL)
	{
		*end = '\0';
		control_line(server, line);
		line = end + 1;
	}
	server->control_used -= (uint32_t) (line - server->control);
	memmove(server->control, line, server->control_used);
	if (server->control_used == sizeof(server->control) - 1)
	{
		log_write(LOG_WARNING, "a line of the control pipe is too long and was dropped");
		server->control_used = 0;
	}
}

/* ---- regions ---- */

/* The regions used since; 0: all of them. */
static bool
scan(struct server *server, uint64_t since, uint32_t max)
{
	bool		found = false;
	struct region *next;
	uint32_t	count = 0;

	for (struct region *region = server->regions; region != NULL; region = next)
	{
		struct connection *connection = region->connection;

		if (region->used_at < since || count++ == max)
			break;
		next = region->next;
		if (!region_pick_up(region, server->now))
			continue;
		found = true;
		spin_arrived(&server->spin, server->now);
		if (connection->closed)
			next = server->regions;	/* it took others with it: begin again */
	}
	return found;
}

bool
server_scan_hot(struct server *server)
{
	return scan(server, server->now > HOT_NSEC ? server->now - HOT_NSEC : 1, HOT_MAX);
}

bool
server_scan_all(struct server *server)
{
	return scan(server, 0, UINT32_MAX);
}

/* ---- the loop ---- */

static void
tick(struct server *server)
{
	bool		late = server->deadline_next != 0 && server->now >= server->deadline_next;

	if (!late && server->now - server->ticked_at < TICK_NSEC)
		return;
	server->deadline_next = scheduler_expire(server->engine, &server->runner, server->now);
	if (server->now - server->ticked_at < TICK_NSEC)
		return;
	server->ticked_at = server->now;
	load_tick(server->engine, server->now);
}

static void
bury(struct server *server)
{
	while (server->dead != NULL)
	{
		struct connection *connection = server->dead;

		server->dead = connection->dead_next;
		connection_unref(connection);
	}
}

static void
handle_event(struct server *server, const struct epoll_event *event)
{
	struct connection *connection = event->data.ptr;

	if (event->data.ptr == &server->listen_fd)
		accept_all(server);
	else if (event->data.ptr == &server->control_fd)
		control_readable(server);
	else if (event->data.ptr == &server->engine->outbox)
		outbox_send(server->engine, &server->runner);
	else if (!connection->closed)
	{
		if ((event->events & EPOLLOUT) != 0)
			connection_writable(connection);
		if ((event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
			connection_readable(connection);
	}
}

bool
server_poll(struct server *server, int timeout)
{
	struct epoll_event events[EVENTS_MAX];
	int			count = epoll_wait(server->epoll_fd, events, EVENTS_MAX, timeout);

	server->now = process_clock();
	server->picked_up = false;
	__atomic_fetch_add(&server->engine->page->loop_beat, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < count; i++)
		handle_event(server, &events[i]);
	if (server->picked_up)
		spin_arrived(&server->spin, server->now);
	bury(server);
	tick(server);
	request_log_flush(server->engine);
	return count > 0;
}

static int
sleep_msec(struct server *server)
{
	uint64_t	next = server->ticked_at + TICK_NSEC;
	uint64_t	deadline;

	pthread_mutex_lock(&server->engine->lock);
	deadline = server->deadline_next = scheduler_deadline(server->engine);
	pthread_mutex_unlock(&server->engine->lock);
	if (deadline != 0 && deadline < next)
		next = deadline;
	return next > server->now ? (int) ((next - server->now) / 1000000) + 1 : 0;
}

static void
go_to_sleep(struct server *server)
{
	if (spin_stop(&server->spin, server->engine->page) && server_scan_all(server))
		return;					/* somebody relied on our being awake */
	server_poll(server, sleep_msec(server));
}

/* Those that rely on our being awake and are not hot wait no longer than this. */
static bool
scan_cold(struct server *server)
{
	if (!server->spin.awake || server->now - server->scanned_at < COLD_NSEC)
		return false;
	server->scanned_at = server->now;
	return server_scan_all(server);
}

void
server_run(struct server *server)
{
	server->now = process_clock();
	for (;;)
	{
		bool		busy = server_scan_hot(server);

		busy |= scan_cold(server);
		busy |= scheduler_dispatch(server->engine, &server->runner);
		busy |= server_poll(server, 0);
		if (!busy && !spin_watch(server))
			go_to_sleep(server);
	}
}
