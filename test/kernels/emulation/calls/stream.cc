/*
 * stream.cc
 *	  The runtime's functions of streams and events; ../stream.cc has their queues.
 */
#include "call.h"

/* ---- streams ---- */

static cudaError_t
stream_make(const char *name, cudaStream_t *stream, unsigned flags)
{
	*stream = nullptr;

	CALL_BEGIN(name, CALL_MAKES);

	if (flags & ~(unsigned) cudaStreamNonBlocking)
		return call.done(cudaErrorInvalidValue);
	return call.done(stream_create(stream, call.device, !(flags & cudaStreamNonBlocking)));
}

extern "C" cudaError_t
cudaStreamCreate(cudaStream_t *stream)
{
	return stream_make("cudaStreamCreate", stream, cudaStreamDefault);
}

extern "C" cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return stream_make("cudaStreamCreateWithFlags", stream, flags);
}

extern "C" cudaError_t
cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	return stream_make("cudaStreamCreateWithPriority", stream, flags);
}

extern "C" cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
	CALL_BEGIN("cudaStreamDestroy", CALL_ENDS);

	return call.done(stream_destroy(stream));
}

/* What has been enqueued until now, if the host can wait for it. */
static cudaError_t
stream_check(cudaStream_t handle, int device, emulation_point *end)
{
	stream_ref	stream = stream_find(handle, device);

	if (stream == nullptr)
		return cudaErrorInvalidResourceHandle;
	if (stream->capture != nullptr)
		return capture_spoil(stream, cudaErrorStreamCaptureUnsupported);
	*end = stream_end(stream);
	return capture_allows();
}

extern "C" cudaError_t
cudaStreamSynchronize(cudaStream_t stream)
{
	CALL_BEGIN("cudaStreamSynchronize", CALL_WAITS);
	emulation_point end;
	cudaError_t error = stream_check(stream, call.device, &end);

	return call.done(error == cudaSuccess ? call.wait(&end) : error);
}

extern "C" cudaError_t
cudaStreamQuery(cudaStream_t stream)
{
	CALL_BEGIN("cudaStreamQuery", CALL_WAITS);
	emulation_point end;
	cudaError_t error = stream_check(stream, call.device, &end);

	return call.done(error == cudaSuccess ? call.look(&end) : error);
}

extern "C" cudaError_t
cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
	CALL_BEGIN("cudaStreamWaitEvent", CALL_WORKS);
	stream_ref	stream = stream_find(handle, call.device);

	if (stream == nullptr || !event_valid(event))
		return call.done(cudaErrorInvalidResourceHandle);
	return call.done(stream_wait(stream, event));
}

/* ---- events ---- */

extern "C" cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	*event = nullptr;

	CALL_BEGIN("cudaEventCreateWithFlags", CALL_MAKES);

	if (flags & ~(unsigned) (cudaEventBlockingSync | cudaEventDisableTiming))
		return call.done(cudaErrorInvalidValue);
	return call.done(event_create(event, call.device, !(flags & cudaEventDisableTiming)));
}

extern "C" cudaError_t
cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

extern "C" cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
	CALL_BEGIN("cudaEventDestroy", CALL_ENDS);

	return call.done(event_destroy(event));
}

extern "C" cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
	CALL_BEGIN("cudaEventRecord", CALL_WORKS);
	stream_ref	stream = stream_find(handle, call.device);

	if (stream == nullptr || !event_valid(event))
		return call.done(cudaErrorInvalidResourceHandle);
	return call.done(event_record(event, stream, call.fate));
}

/* Whether an event can be waited for by the host. */
static cudaError_t
event_check(cudaEvent_t event)
{
	if (!event_valid(event))
		return cudaErrorInvalidResourceHandle;
	if (event->capture != nullptr)
	{
		event->capture->invalid = true;
		return cudaErrorCapturedEvent;
	}
	return capture_allows();
}

extern "C" cudaError_t
cudaEventQuery(cudaEvent_t event)
{
	CALL_BEGIN("cudaEventQuery", CALL_WAITS);
	cudaError_t error;

	context_needed("cudaEventQuery");
	error = event_check(event);
	if (error == cudaSuccess && event->recorded)
		error = call.look(&event->point);
	return call.done(error);
}

extern "C" cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
	CALL_BEGIN("cudaEventSynchronize", CALL_WAITS);
	cudaError_t error = event_check(event);

	if (error == cudaSuccess && event->recorded)
		error = call.wait(&event->point);
	return call.done(error);
}

extern "C" cudaError_t
cudaEventElapsedTime(float *msec, cudaEvent_t begin, cudaEvent_t end)
{
	CALL_BEGIN("cudaEventElapsedTime", CALL_MAKES);

	if (!event_valid(begin) || !event_valid(end) || !begin->timing || !end->timing || !begin->recorded || !end->recorded)
		return call.done(cudaErrorInvalidResourceHandle);
	if (!point_reached(&begin->point) || !point_reached(&end->point))
		return call.done(cudaErrorNotReady);
	*msec = (float) (end->mark->msec - begin->mark->msec);
	return call.done();
}
