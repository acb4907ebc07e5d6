/*
 * watch.c
 *	  The engine's heartbeats: an engine that shows no sign of life is killed.
 *
 * The event loop beats always, the device and the loader while they are busy.  A device that is
 * being opened beats not at all: until the engine is ready only that time is bounded.
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "../preload.h"
#include "internal.h"

#define STARTING_TIME	60000		/* ms that a device may take to be opened */

int
supervisor_watch_interval(void)
{
	return Max(100, Min(1000, infer_engine_timeout / 8));
}

/* gpu: a GPU may be what does not answer. */
static void
kill_silent(const char *what, bool gpu)
{
	ereport(LOG,
			(errmsg("infer: the engine's %s gave no sign of life for %d ms, killing it",
					what, infer_engine_timeout)));
	engine_process_signal(SIGKILL);
	supervisor.hung = gpu;
	supervisor.kill_at = 0;
	supervisor_watch_reset(supervisor_clock());	/* said once, though it may be looked at again before it is reaped */
}

/* An engine that ends by itself says so before it removes its socket. */
static bool
socket_is_gone(const struct infer_status_page *page)
{
	return access(INFER_SOCKET, F_OK) < 0 && errno == ENOENT &&
		infer_load_acquire32(&page->state) == INFER_ENGINE_READY;
}

void
supervisor_watch_reset(TimestampTz now)
{
	supervisor.loop_at = supervisor.device_at = supervisor.load_at = supervisor.watched_at = now;
}

/* What has beaten since the last look. */
static void
note_beats(const struct infer_status_page *page, TimestampTz now)
{
	uint64		loop_beat = infer_load_acquire64(&page->loop_beat);
	uint64		device_beat = infer_load_acquire64(&page->device_beat);
	uint64		load_beat = infer_load_acquire64(&page->load_beat);

	/* if we were stopped ourselves (a suspended machine), what is overdue is our own look */
	if (now >= after_ms(supervisor.watched_at, 2 * supervisor_watch_interval() + 1000))
		supervisor_watch_reset(now);
	supervisor.watched_at = now;

	if (loop_beat != supervisor.loop_beat)
		supervisor.loop_at = now;
	if (device_beat != supervisor.device_beat || infer_load_acquire32(&page->device_busy) == 0)
		supervisor.device_at = now;
	if (load_beat != supervisor.load_beat || infer_load_acquire32(&page->load_busy) == 0)
		supervisor.load_at = now;
	supervisor.loop_beat = loop_beat;
	supervisor.device_beat = device_beat;
	supervisor.load_beat = load_beat;
}

static void
became_ready(TimestampTz now)
{
	supervisor.was_ready = true;
	supervisor.failures = 0;
	supervisor_watch_reset(now);
	supervisor_share_error("");
	infer_preload_begin();
}

static void
kill_overdue(TimestampTz now)
{
	if (!supervisor.was_ready)
	{
		if (now >= after_ms(supervisor.started_at, STARTING_TIME + infer_engine_timeout))
			kill_silent("start", engine_process_tries_gpu());
	}
	else if (now >= after_ms(supervisor.loop_at, infer_engine_timeout))
		kill_silent("event loop", engine_process_has_gpu() && infer_load_acquire32(&engine_process_page()->device_busy) != 0);
	else if (now >= after_ms(supervisor.device_at, infer_engine_timeout))
		kill_silent("device", engine_process_has_gpu());
	else if (now >= after_ms(supervisor.load_at, infer_engine_timeout))
		kill_silent("loader", engine_process_has_gpu());
}

void
supervisor_watch(TimestampTz now)
{
	const struct infer_status_page *page = engine_process_page();
	uint32		state = infer_load_acquire32(&page->state);

	if (supervisor.kill_at != 0 && now >= supervisor.kill_at)
	{
		engine_process_signal(SIGKILL);
		supervisor.kill_at = 0;
		return;
	}
	if (supervisor.was_ready && !supervisor.ordered && socket_is_gone(page))
	{
		ereport(LOG, (errmsg("infer: the engine's socket has been removed, starting another engine")));
		supervisor_stop_engine(now);
		return;
	}
	note_beats(page, now);
	if (state == INFER_ENGINE_READY && !supervisor.was_ready)
		became_ready(now);
	kill_overdue(now);
}
