/*
 * emulation_streams.cc
 *	  The emulation of CUDA's runtime: streams that do their work late, events, graphs, memory out of the host's reach,
 *	  failures, and what is not freed.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulation/emulation.h"
#include "emulation/gpu_platform.h"

extern "C"
{
#include "tap.h"
}

extern "C" const emulation_control infer_emulation;

#define TRIES	100

static cudaStream_t streams[2];		/* not blocking */
static cudaEvent_t event;
static int *number;					/* device memory */
static int *room;					/* pinned */

static __global__ void
add(int *number, int by)
{
	*number += by;
}

static __global__ void
set(int *number, int to)
{
	*number = to;
}

/* A new GPU. */
static void
begin()
{
	infer_emulation.reset();
	settings.collect = true;
	for (cudaStream_t &stream : streams)
		cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
	cudaMalloc(&number, sizeof(int));
	cudaHostAlloc(&room, sizeof(int), cudaHostAllocDefault);
	*room = 0;
	cudaMemcpy(number, room, sizeof(int), cudaMemcpyHostToDevice);
}

static cudaError_t
enqueue_set(int stream, int to)
{
	return gpu_launch(set, dim3(1), dim3(1), streams[stream], number, to);
}

static cudaError_t
enqueue_down(int stream)
{
	return cudaMemcpyAsync(room, number, sizeof(int), cudaMemcpyDeviceToHost, streams[stream]);
}

/* ---- order ---- */

static void
test_late()
{
	int			late = 0;
	int			early = 0;
	bool		fine = true;

	begin();
	/* how eager streams are changes after some hundred calls */
	for (int i = 1; i <= TRIES || (i <= 100 * TRIES && (late == 0 || early == 0)); i++)
	{
		enqueue_set(0, i);
		enqueue_down(0);
		late += *room != i;
		early += *room == i;
		fine = fine && cudaStreamSynchronize(streams[0]) == cudaSuccess && *room == i;
	}
	tap_ok(fine, "who waits for a stream finds its work done, in order");
	tap_ok(late > 0 && early > 0, "who does not may find nothing done, or all");
}

static int
stale(bool waits)
{
	int			count = 0;

	for (int i = 1; i <= TRIES; i++)
	{
		enqueue_set(0, i);
		cudaEventRecord(event, streams[0]);
		if (waits)
			cudaStreamWaitEvent(streams[1], event);
		enqueue_down(1);
		cudaStreamSynchronize(streams[1]);
		count += *room != i;
		cudaStreamSynchronize(streams[0]);
	}
	return count;
}

static void
test_events()
{
	int			asked = 0;
	int			missed = 0;

	begin();
	tap_ok(stale(true) == 0, "a stream waits for another's event");
	for (int i = 0; i < 50 && missed == 0; i++)
		missed = stale(false);
	tap_ok(missed > 0, "that it does not is found");
	enqueue_set(0, 1);
	cudaEventRecord(event, streams[0]);
	while (cudaEventQuery(event) == cudaErrorNotReady)
		asked++;
	enqueue_down(0);
	cudaEventRecord(event, streams[0]);
	tap_ok(cudaEventSynchronize(event) == cudaSuccess && *room == 1 && asked < 100, "who asks gets work done, too");
	for (int i = 1; i <= 2 * TRIES; i++)
	{
		/* stream 0 comes after blocking streams, and before them */
		cudaStream_t blocking;

		cudaStreamCreate(&blocking);
		gpu_launch(set, dim3(1), dim3(1), blocking, number, i);
		gpu_launch(add, dim3(1), dim3(1), (cudaStream_t) nullptr, number, 5);
		gpu_launch(add, dim3(1), dim3(1), blocking, number, 100);
		cudaStreamSynchronize(blocking);
		cudaMemcpy(room, number, sizeof(int), cudaMemcpyDeviceToHost);
		asked += *room != i + 105;
		cudaStreamDestroy(blocking);
	}
	tap_ok(asked < 100, "stream 0 is ordered with blocking streams");
}

/* ---- graphs ---- */

static void
test_graphs()
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	void	   *memory;
	cudaStreamCaptureStatus status;
	bool		fine;

	begin();
	fine = cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal) == cudaSuccess;
	enqueue_set(0, 3);
	cudaEventRecord(event, streams[0]);
	cudaStreamWaitEvent(streams[1], event);
	fine = fine && gpu_launch(add, dim3(1), dim3(1), streams[1], number, 4) == cudaSuccess;
	cudaEventRecord(event, streams[1]);
	cudaStreamWaitEvent(streams[0], event);
	enqueue_down(0);
	fine = fine && cudaStreamEndCapture(streams[0], &graph) == cudaSuccess && graph != nullptr;
	cudaDeviceSynchronize();
	tap_ok(fine && *room == 0, "what is captured is not done");
	fine = cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess && cudaGraphDestroy(graph) == cudaSuccess;
	for (int i = 0; i < TRIES && fine; i++)
	{
		*room = 0;
		fine = cudaGraphLaunch(exec, streams[0]) == cudaSuccess && cudaStreamSynchronize(streams[0]) == cudaSuccess && *room == 7;
	}
	tap_ok(fine, "a graph does it as often as it is launched");
	cudaGraphExecDestroy(exec);

	cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal);
	cudaEventRecord(event, streams[0]);
	cudaStreamWaitEvent(streams[1], event);
	gpu_launch(add, dim3(1), dim3(1), streams[1], number, 4);
	tap_ok(cudaStreamEndCapture(streams[0], &graph) == cudaErrorStreamCaptureUnjoined && graph == nullptr,
		   "a stream that was not joined again spoils a capture");
	cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal);
	tap_ok(cudaMalloc(&memory, 100) == cudaErrorStreamCaptureUnsupported, "nothing is allocated while a thread captures");
	tap_ok(cudaStreamIsCapturing(streams[0], &status) == cudaSuccess && status == cudaStreamCaptureStatusInvalidated &&
		   cudaStreamEndCapture(streams[0], &graph) == cudaErrorStreamCaptureInvalidated, "and that spoils its capture");
	cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed);
	fine = cudaMalloc(&memory, 100) == cudaSuccess && cudaStreamSynchronize(streams[0]) == cudaErrorStreamCaptureUnsupported;
	tap_ok(fine && cudaStreamEndCapture(streams[0], &graph) == cudaErrorStreamCaptureInvalidated,
		   "a relaxed capture allows it, but nobody waits for a stream that captures");
	cudaFree(memory);
	tap_ok(cudaStreamSynchronize(streams[0]) == cudaSuccess && enqueue_set(0, 1) == cudaSuccess, "the stream works again");
}

/* ---- memory ---- */

/* Whether a child that does it dies of it. */
static bool
kills(void (*what)())
{
	pid_t		child;
	int			status = 0;

	fflush(stdout);
	child = fork();
	if (child == 0)
	{
		freopen("/dev/null", "w", stderr);
		settings.protect = 2;
		what();
		_exit(0);
	}
	waitpid(child, &status, 0);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void
host_reads()
{
	cudaStreamSynchronize(streams[0]);
	room[0] = *(volatile int *) number;
}

static void
host_reads_none()
{
	cudaStreamSynchronize(streams[0]);
}

static __global__ void
beyond(uint8_t *memory, size_t bytes)
{
	memory[bytes] = 1;
}

static void
kernel_writes_beyond()
{
	uint8_t    *memory;

	settings.collect = false;
	cudaMalloc(&memory, 100);
	gpu_launch(beyond, dim3(1), dim3(1), streams[0], memory, (size_t) 100);
	cudaStreamSynchronize(streams[0]);
	cudaFree(memory);
}

static void
test_memory()
{
	size_t		free_bytes;
	size_t		total;
	int		   *large;
	int			on_stack = 5;

	begin();
	tap_ok(kills(host_reads) && !kills(host_reads_none), "the host cannot reach device memory");
	tap_ok(kills(kernel_writes_beyond), "what a kernel writes beyond an allocation is found");
	tap_ok(cudaMemcpy(number + 1, &on_stack, sizeof(int), cudaMemcpyHostToDevice) == cudaErrorInvalidValue &&
		   infer_emulation.report() != nullptr, "so is a copy beyond it");
	tap_ok(cudaMemcpy(number, &on_stack, sizeof(int), cudaMemcpyDeviceToHost) == cudaErrorInvalidValue, "and one in the other direction");
	cudaMemGetInfo(&free_bytes, &total);
	tap_ok(total == settings.memory && free_bytes < total && total - free_bytes < 4096, "memory is counted");
	tap_ok(cudaMalloc(&large, free_bytes + 1) == cudaErrorMemoryAllocation && large == nullptr, "there is no more than there is");
	tap_ok(cudaHostRegister(&on_stack, 4, cudaHostRegisterDefault) == cudaSuccess &&
		   cudaHostRegister(&on_stack, 4, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered &&
		   cudaHostUnregister(&on_stack) == cudaSuccess && cudaHostUnregister(&on_stack) == cudaErrorHostMemoryNotRegistered,
		   "memory is registered once");
	enqueue_down(0);
	while (cudaStreamQuery(streams[0]) == cudaErrorNotReady)
		;
	cudaGetLastError();
	do
	{
		begin();
		enqueue_down(0);
		cudaFree(number);
	}
	while (cudaStreamSynchronize(streams[0]) == cudaSuccess);
	tap_ok(infer_emulation.report() != nullptr, "a copy of memory that was freed before its turn");
}

/* ---- failures ---- */

static void
test_failures()
{
	void	   *memory;
	char		left[256];

	begin();
	infer_emulation.fail(2, cudaErrorMemoryAllocation, EMULATION_FAILS_ONCE);
	tap_ok(enqueue_set(0, 4) == cudaSuccess && cudaMalloc(&memory, 8) == cudaErrorMemoryAllocation &&
		   strcmp(infer_emulation.failed(), "cudaMalloc") == 0 && cudaStreamSynchronize(streams[0]) == cudaSuccess &&
		   infer_emulation.leaks(left, sizeof(left)) == 5, "the second call fails, and no other");
	infer_emulation.fail(1, cudaErrorIllegalAddress, EMULATION_FAILS_FOR_GOOD);
	tap_ok(enqueue_set(0, 5) == cudaErrorIllegalAddress && enqueue_down(1) == cudaErrorIllegalAddress &&
		   cudaStreamSynchronize(streams[0]) == cudaErrorIllegalAddress && cudaMalloc(&memory, 8) == cudaErrorIllegalAddress,
		   "after a failure for good every call fails");
	tap_ok(cudaFree(number) == cudaErrorIllegalAddress && infer_emulation.leaks(left, sizeof(left)) == 4, "but what is freed is freed");
	begin();
	infer_emulation.fail(1, 0, EMULATION_FAILS_LATER);
	tap_ok(enqueue_set(0, 6) == cudaSuccess && cudaStreamSynchronize(streams[0]) == cudaErrorLaunchFailure &&
		   enqueue_set(1, 7) == cudaErrorLaunchFailure, "work fails when its turn comes");
	begin();
	infer_emulation.fail(1, 0, EMULATION_HANGS);
	enqueue_set(0, 8);
	cudaEventRecord(event, streams[0]);
	for (int i = 0; i < TRIES; i++)
		if (cudaEventQuery(event) != cudaErrorNotReady)
			*room = -1;
	tap_ok(*room == 0 && enqueue_set(1, 9) == cudaSuccess && cudaStreamSynchronize(streams[1]) == cudaSuccess, "work hangs, and other does not");
	begin();
	tap_ok(infer_emulation.leaks(left, sizeof(left)) == 5 && strstr(left, "2 streams") != nullptr && strstr(left, "1 events") != nullptr &&
		   strstr(left, "4 bytes of device memory") != nullptr && strstr(left, "4 bytes of host memory") != nullptr,
		   "what is not freed is told: %s", left);
	infer_emulation.reset();
	tap_ok(infer_emulation.leaks(left, sizeof(left)) == 0, "and forgotten");
}

int
main()
{
	test_late();
	test_events();
	test_graphs();
	test_memory();
	test_failures();
	return tap_done();
}
