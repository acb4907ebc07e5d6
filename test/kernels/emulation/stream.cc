/*
 * stream.cc
 *	  Streams and events: work waits in queues until somebody waits for it.
 *
 * A stream does its entries in their order, each after its points: those of events that were waited for, and of the
 * device's stream 0 and its blocking streams, which come after each other.  Nothing else orders entries, and chance
 * chooses among those whose turn it may be.  Chance also says how eager a time is: whether work is done as soon as it is enqueued,
 * now and then, or only when it is waited for; and then whether others' work is done before it or not at all.
 */
#include "emulation.h"

#include <set>
#include <stdio.h>
#include <time.h>

typedef std::shared_ptr<emulation_stream> stream_ref;

cudaError_t device_lost[EMULATION_GPUS_MAX];

static std::vector<stream_ref> &streams = *new std::vector<stream_ref>;	/* with a handle, or something to do */
static std::set<cudaStream_t> &stream_handles = *new std::set<cudaStream_t>;
static std::set<cudaEvent_t> &events = *new std::set<cudaEvent_t>;
static stream_ref *const stream_zero = new stream_ref[EMULATION_GPUS_MAX];

/* ---- streams ---- */

static stream_ref
stream_new(int device, bool blocking)
{
	stream_ref	stream = std::make_shared<emulation_stream>();

	stream->device = device;
	stream->blocking = blocking;
	streams.push_back(stream);
	return stream;
}

stream_ref
stream_find(cudaStream_t handle, int device)
{
	if (handle == nullptr)
	{
		if (stream_zero[device] == nullptr)
			stream_zero[device] = stream_new(device, true);
		return stream_zero[device];
	}
	return stream_handles.count(handle) != 0 ? handle->stream : nullptr;
}

cudaError_t
stream_create(cudaStream_t *handle, int device, bool blocking)
{
	*handle = new CUstream_st{stream_new(device, blocking)};
	stream_handles.insert(*handle);
	return cudaSuccess;
}

/* Those that neither have a handle nor work. */
static void
streams_sweep()
{
	size_t		kept = 0;

	for (size_t i = 0; i < streams.size(); i++)
		if (streams[i].use_count() > 1 || !streams[i]->queue.empty())
			streams[kept++] = streams[i];
	streams.resize(kept);
}

cudaError_t
stream_destroy(cudaStream_t handle)
{
	cudaError_t error = cudaSuccess;

	if (stream_handles.erase(handle) == 0)
		return cudaErrorInvalidResourceHandle;
	if (handle->stream->capture != nullptr)
		error = capture_spoil(handle->stream, cudaErrorStreamCaptureUnsupported);
	delete handle;
	streams_sweep();
	return error;
}

cudaError_t
stream_enqueue(const stream_ref &stream, work_ref work, int fate, std::shared_ptr<emulation_mark> mark)
{
	emulation_entry entry = {work, {}, mark, fate};
	stream_ref	zero = stream_zero[stream->device];

	if (stream->capture != nullptr)
		return capture_add(stream, work);
	if (stream == zero)
	{
		for (const stream_ref &other : streams)
			if (other != zero && other->blocking && other->device == zero->device)
			{
				if (other->capture != nullptr)
					return capture_spoil(other, cudaErrorStreamCaptureImplicit);
				if (!other->queue.empty())
					entry.after.push_back(stream_end(other));
			}
	}
	else if (stream->blocking && zero != nullptr && !zero->queue.empty())
		entry.after.push_back(stream_end(zero));
	stream->queue.push_back(std::move(entry));
	stream->enqueued++;
	work_perhaps();
	return cudaSuccess;
}

cudaError_t
stream_wait(const stream_ref &stream, cudaEvent_t event)
{
	if (event->capture != nullptr || stream->capture != nullptr)
		return capture_wait(stream, event);
	if (event->recorded && !point_reached(&event->point))
	{
		stream->queue.push_back({nullptr, {event->point}, nullptr, 0});
		stream->enqueued++;
	}
	return cudaSuccess;
}

/* ---- events ---- */

bool
event_valid(cudaEvent_t event)
{
	return events.count(event) != 0;
}

cudaError_t
event_create(cudaEvent_t *event, int device, bool timing)
{
	*event = new CUevent_st();
	(*event)->device = device;
	(*event)->timing = timing;
	events.insert(*event);
	return cudaSuccess;
}

cudaError_t
event_destroy(cudaEvent_t event)
{
	if (events.erase(event) == 0)
		return cudaErrorInvalidResourceHandle;
	delete event;
	return cudaSuccess;
}

cudaError_t
event_record(cudaEvent_t event, const stream_ref &stream, int fate)
{
	if (event->device != stream->device)
		return cudaErrorInvalidResourceHandle;
	if (stream->capture != nullptr)
	{
		event->capture = stream->capture;
		event->tips = stream->tips;
		return cudaSuccess;
	}
	event->capture = nullptr;
	event->recorded = true;
	event->mark = std::make_shared<emulation_mark>();
	event->point = {stream, stream->enqueued + 1};
	return stream_enqueue(stream, nullptr, fate, event->mark);
}

/* ---- work ---- */

/* The point that the stream's next entry waits for; NULL: none. */
static const emulation_point *
waits_for(const stream_ref &stream)
{
	for (const emulation_point &point : stream->queue.front().after)
		if (!point_reached(&point))
			return &point;
	return nullptr;
}

static bool
runs(const stream_ref &stream)
{
	return !stream->queue.empty() && stream->queue.front().fate != EMULATION_HANGS &&
		device_lost[stream->device] == cudaSuccess && waits_for(stream) == nullptr;
}

static void
work_one(const stream_ref &stream)
{
	emulation_entry entry = std::move(stream->queue.front());
	bool		fine = entry.fate != EMULATION_FAILS_LATER;

	if (fine && entry.work != nullptr)
	{
		memory_open(stream->device);
		fine = entry.work->run(stream->device);
	}
	if (!fine)
	{
		/* nothing of this device is done any more */
		device_lost[stream->device] = cudaErrorLaunchFailure;
		return;
	}
	if (entry.mark != nullptr)
	{
		timespec	now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		entry.mark->msec = (double) now.tv_sec * 1e3 + (double) now.tv_nsec * 1e-6;
	}
	stream->queue.pop_front();
	stream->done++;
}

/* Some stream whose turn it may be, other than `but`; NULL: none. */
static stream_ref
work_choose(const emulation_stream *but)
{
	stream_ref	chosen;
	uint32_t	count = 0;

	for (const stream_ref &stream : streams)
		if (stream.get() != but && runs(stream) && emulation_below(++count) == 0)
			chosen = stream;
	return chosen;
}

/* The stream that has to do something next, if the point is to be reached with as little as possible; NULL: hangs. */
static stream_ref
work_needed(const emulation_point *point)
{
	for (;;)
	{
		if (point->stream->queue.empty() || point->stream->queue.front().fate == EMULATION_HANGS)
			return nullptr;
		if (waits_for(point->stream) == nullptr)
			return point->stream;
		point = waits_for(point->stream);
	}
}

cudaError_t
work_until(const emulation_point *point)
{
	uint32_t	manner = emulation_below(4);
	emulation_point target = *point;	/* the event may be recorded again */

	while (!point_reached(&target) && device_lost[target.stream->device] == cudaSuccess)
	{
		stream_ref	next;

		if (manner == 0)
			next = work_choose(nullptr);
		else if (manner == 1)
			next = work_choose(target.stream.get());
		if (next == nullptr)
			next = work_needed(&target);
		if (next == nullptr)
		{
			memory_close();
			return cudaErrorNotReady;	/* it hangs: the caller waits without the lock */
		}
		work_one(next);
	}
	memory_close();
	return point_reached(&target) ? cudaSuccess : device_lost[target.stream->device];
}

void
work_some(const emulation_point *point)
{
	if (emulation_below(2) == 0)
		work_until(point);
	else
		for (uint32_t left = 1 + emulation_below(8); left > 0; left--)
		{
			stream_ref	next = work_choose(nullptr);

			if (next == nullptr)
				break;
			work_one(next);
		}
	memory_close();
}

void
work_perhaps()
{
	static uint32_t time_left;
	static uint32_t manner;
	stream_ref	next;

	if (time_left-- == 0)
	{
		time_left = 32 + emulation_below(256);
		manner = emulation_below(4);	/* 0, 1: only when waited for; 2: now and then; 3: at once */
	}
	if (manner < 2 || (manner == 2 && emulation_below(4) != 0))
		return;
	while ((next = work_choose(nullptr)) != nullptr)
	{
		work_one(next);
		if (manner == 2)
			break;
	}
	/* memory stays open until somebody waits: to close it is dear */
}

cudaError_t
work_all(int device)
{
	std::vector<stream_ref> all = streams;

	for (const stream_ref &stream : all)
		if (stream->device == device)
		{
			emulation_point end = stream_end(stream);
			cudaError_t error = work_until(&end);

			if (error != cudaSuccess)
				return error;
		}
	return device_lost[device];
}

/* ---- all of it ---- */

uint32_t
stream_leaks(std::vector<char> *text)
{
	if (!stream_handles.empty())
		text_add(text, "%zu streams; ", stream_handles.size());
	if (!events.empty())
		text_add(text, "%zu events; ", events.size());
	return (uint32_t) (stream_handles.size() + events.size());
}

void
stream_reset()
{
	for (const stream_ref &stream : streams)
		stream->queue.clear();
	for (cudaStream_t handle : stream_handles)
		delete handle;
	stream_handles.clear();
	for (cudaEvent_t event : events)
		delete event;
	events.clear();
	for (int i = 0; i < EMULATION_GPUS_MAX; i++)
	{
		stream_zero[i] = nullptr;
		device_lost[i] = cudaSuccess;
	}
	streams.clear();
}
