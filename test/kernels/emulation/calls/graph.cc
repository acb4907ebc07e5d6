/*
 * graph.cc
 *	  Capture of streams, and graphs: CUDA Programming Guide, "CUDA Graphs", and the reference of cudaStreamBeginCapture.
 *
 * A graph's nodes are done in any order that their edges allow.
 */
#include "call.h"

#include <algorithm>
#include <pthread.h>
#include <set>

typedef std::shared_ptr<emulation_capture> capture_ref;

static std::vector<stream_ref> &capturing = *new std::vector<stream_ref>;	/* streams */
static std::set<cudaGraph_t> &graphs = *new std::set<cudaGraph_t>;
static std::set<cudaGraphExec_t> &execs = *new std::set<cudaGraphExec_t>;
static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

/* ---- capture ---- */

static void
stream_joins(const stream_ref &stream, const capture_ref &capture)
{
	stream->capture = capture;
	stream->tips.clear();
	capturing.push_back(stream);
}

cudaError_t
capture_spoil(const stream_ref &stream, cudaError_t error)
{
	stream->capture->invalid = true;
	return error;
}

cudaError_t
capture_add(const stream_ref &stream, work_ref work)
{
	emulation_capture *capture = stream->capture.get();

	if (capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	capture->nodes.push_back({work, stream->tips});
	stream->tips.assign(1, (uint32_t) capture->nodes.size() - 1);
	return cudaSuccess;
}

cudaError_t
capture_wait(const stream_ref &stream, cudaEvent_t event)
{
	if (stream->capture != nullptr && stream->capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	if (event->capture == nullptr)
		return event->recorded ? capture_spoil(stream, cudaErrorStreamCaptureIsolation) : cudaSuccess;
	if (stream->capture == nullptr)
	{
		if (event->capture->origin == nullptr)	/* that capture has ended */
			return cudaErrorInvalidValue;
		stream_joins(stream, event->capture);
	}
	if (stream->capture != event->capture)
		return capture_spoil(stream, cudaErrorStreamCaptureMerge);
	for (uint32_t tip : event->tips)
		if (std::find(stream->tips.begin(), stream->tips.end(), tip) == stream->tips.end())
			stream->tips.push_back(tip);
	return cudaSuccess;
}

cudaError_t
capture_allows()
{
	uint64_t	self = (uint64_t) pthread_self();
	bool		allowed = true;

	if (thread_mode == cudaStreamCaptureModeRelaxed)
		return cudaSuccess;
	for (const stream_ref &stream : capturing)
	{
		const emulation_capture *capture = stream->capture.get();

		if (capture->mode == cudaStreamCaptureModeRelaxed ||
			(capture->thread != self &&
			 (capture->mode != cudaStreamCaptureModeGlobal || thread_mode != cudaStreamCaptureModeGlobal)))
			continue;
		capture_spoil(stream, cudaSuccess);
		allowed = false;
	}
	return allowed ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}

/* Whether all nodes are among these or come before one of them. */
static bool
joined(const emulation_capture *capture, const std::vector<uint32_t> &tips)
{
	std::vector<bool> before(capture->nodes.size(), false);

	for (uint32_t tip : tips)
		before[tip] = true;
	for (size_t i = capture->nodes.size(); i-- > 0;)
	{
		if (!before[i])
			return false;
		for (uint32_t other : capture->nodes[i].after)
			before[other] = true;
	}
	return true;
}

static void
capture_end(const capture_ref &capture)
{
	size_t		kept = 0;

	for (const stream_ref &stream : capturing)
		if (stream->capture == capture)
		{
			stream->capture = nullptr;
			stream->tips.clear();
		}
	for (size_t i = 0; i < capturing.size(); i++)
		if (capturing[i]->capture != nullptr)
			capturing[kept++] = capturing[i];
	capturing.resize(kept);
	capture->origin = nullptr;
}

extern "C" cudaError_t
cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode)
{
	CALL_BEGIN("cudaStreamBeginCapture", CALL_MAKES);
	stream_ref	stream = stream_find(handle, call.device);

	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	if (handle == nullptr)
		return call.done(cudaErrorStreamCaptureUnsupported);
	if (stream->capture != nullptr)
		return call.done(capture_spoil(stream, cudaErrorIllegalState));
	capture_ref capture = std::make_shared<emulation_capture>();
	capture->mode = mode;
	capture->thread = (uint64_t) pthread_self();
	capture->origin = stream.get();
	stream_joins(stream, capture);
	return call.done();
}

extern "C" cudaError_t
cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph)
{
	CALL_BEGIN("cudaStreamEndCapture", CALL_ENDS);
	stream_ref	stream;
	capture_ref capture;
	cudaError_t error = cudaSuccess;

	*graph = nullptr;
	stream = stream_find(handle, call.device);
	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	capture = stream->capture;
	if (capture == nullptr)
		return call.done(cudaErrorIllegalState);
	if (capture->origin != stream.get())
	{
		capture->invalid = true;
		return call.done(cudaErrorStreamCaptureUnmatched);
	}
	if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != (uint64_t) pthread_self())
		error = cudaErrorStreamCaptureWrongThread;
	else if (capture->invalid)
		error = cudaErrorStreamCaptureInvalidated;
	else if (!joined(capture.get(), stream->tips))
		error = cudaErrorStreamCaptureUnjoined;
	capture_end(capture);
	if (error == cudaSuccess && call.error == cudaSuccess)
	{
		*graph = new CUgraph_st{std::move(capture->nodes)};
		graphs.insert(*graph);
	}
	return call.done(error);
}

extern "C" cudaError_t
cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status)
{
	CALL_BEGIN("cudaStreamIsCapturing", CALL_WORKS);
	stream_ref	stream = stream_find(handle, call.device);

	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	*status = stream->capture == nullptr ? cudaStreamCaptureStatusNone :
		stream->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
	return call.done();
}

extern "C" cudaError_t
cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
	std::swap(*mode, thread_mode);
	return cudaSuccess;
}

/* ---- graphs ---- */

struct graph_work : emulation_work
{
	std::vector<emulation_node> nodes;

	bool		run(int device) override;
};

bool
graph_work::run(int device)
{
	std::vector<uint32_t> missing(nodes.size(), 0);
	std::vector<uint32_t> ready;

	for (uint32_t i = 0; i < nodes.size(); i++)
	{
		missing[i] = (uint32_t) nodes[i].after.size();
		if (missing[i] == 0)
			ready.push_back(i);
	}
	while (!ready.empty())
	{
		uint32_t	pick = emulation_below((uint32_t) ready.size());
		uint32_t	node = ready[pick];

		ready[pick] = ready.back();
		ready.pop_back();
		if (nodes[node].work != nullptr && !nodes[node].work->run(device))
			return false;
		for (uint32_t i = node + 1; i < nodes.size(); i++)
			for (uint32_t before : nodes[i].after)
				if (before == node && --missing[i] == 0)
					ready.push_back(i);
	}
	return true;
}

extern "C" cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	CALL_BEGIN("cudaGraphInstantiate", CALL_MAKES);
	std::shared_ptr<graph_work> work;

	*exec = nullptr;
	if (graphs.count(graph) == 0)
		return call.done(cudaErrorInvalidValue);
	work = std::make_shared<graph_work>();
	work->nodes = graph->nodes;
	*exec = new CUgraphExec_st{work};
	execs.insert(*exec);
	return call.done();
}

static cudaError_t
exec_enqueue(const char *name, cudaGraphExec_t exec, cudaStream_t handle, bool launch)
{
	CALL_BEGIN(name, CALL_WORKS);
	stream_ref	stream = stream_find(handle, call.device);

	if (stream == nullptr || execs.count(exec) == 0)
		return call.done(cudaErrorInvalidResourceHandle);
	return call.done(launch ? stream_enqueue(stream, exec->work, call.fate) : cudaSuccess);
}

extern "C" cudaError_t
cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle)
{
	return exec_enqueue("cudaGraphUpload", exec, handle, false);
}

extern "C" cudaError_t
cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle)
{
	return exec_enqueue("cudaGraphLaunch", exec, handle, true);
}

extern "C" cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	CALL_BEGIN("cudaGraphExecDestroy", CALL_ENDS);

	if (execs.erase(exec) == 0)
		return call.done(cudaErrorInvalidValue);
	delete exec;
	return call.done();
}

extern "C" cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
	CALL_BEGIN("cudaGraphDestroy", CALL_ENDS);

	if (graphs.erase(graph) == 0)
		return call.done(cudaErrorInvalidValue);
	delete graph;
	return call.done();
}

/* ---- all of it ---- */

uint32_t
graph_leaks(std::vector<char> *text)
{
	if (!graphs.empty() || !execs.empty())
		text_add(text, "%zu graphs and %zu of them instantiated; ", graphs.size(), execs.size());
	return (uint32_t) (graphs.size() + execs.size());
}

void
graph_reset()
{
	for (const stream_ref &stream : capturing)
		stream->capture = nullptr;
	capturing.clear();
	for (cudaGraph_t graph : graphs)
		delete graph;
	graphs.clear();
	for (cudaGraphExec_t exec : execs)
		delete exec;
	execs.clear();
}
