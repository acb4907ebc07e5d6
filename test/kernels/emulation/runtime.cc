/*
 * runtime.cc
 *	  CUDA's runtime on the CPU: see runtime.h.
 */
#include "emulation.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct CUstream_st
{
	int			dummy;
};

struct CUevent_st
{
	double		time;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t random_state = 1;
static thread_local int device_current;
static thread_local cudaError_t last_error;

uint64_t
emulation_random()
{
	uint64_t	z = random_state += 0x9E3779B97F4A7C15;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
	return z ^ (z >> 31);
}

void
emulation_report(const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	fputs("emulation: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

const char *
emulation_name(const void *function)
{
	return "kernel";
}

static cudaError_t
result(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

cudaError_t
emulation_launch(const void *kernel, emulation_run_fn run, emulation_destroy_fn destroy, void *call, dim3 grid, dim3 block,
				 cudaStream_t stream)
{
	emulation_kernel launch = {kernel, run, call, grid, block};
	bool		done;

	if (block.x * block.y * block.z == 0 || block.x * block.y * block.z > EMULATION_THREADS_MAX || block.z > 64 ||
		grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535)
	{
		destroy(call);
		return result(cudaErrorInvalidConfiguration);
	}
	pthread_mutex_lock(&lock);
	done = emulation_grid(&launch);
	pthread_mutex_unlock(&lock);
	destroy(call);
	return done ? cudaSuccess : result(cudaErrorLaunchFailure);
}

extern "C"
{

const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }
const char *cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "error"; }
cudaError_t cudaGetLastError() { cudaError_t e = last_error; last_error = cudaSuccess; return e; }
cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaDriverGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { *count = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int *device) { *device = device_current; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { device_current = device; return cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned flags) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaDeviceReset() { return cudaSuccess; }

cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
	memset(properties, 0, sizeof(*properties));
	strcpy(properties->name, "Emulated GPU");
	properties->totalGlobalMem = 1 << 30;
	properties->sharedMemPerBlock = EMULATION_SHARED_MAX;
	properties->major = 8;
	properties->warpSize = 32;
	properties->maxThreadsPerBlock = EMULATION_THREADS_MAX;
	properties->multiProcessorCount = 4;
	return cudaSuccess;
}

cudaError_t
cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
	*value = attribute == cudaDevAttrComputeCapabilityMajor ? 8 : attribute == cudaDevAttrMultiProcessorCount ? 4 : 0;
	return cudaSuccess;
}

cudaError_t
cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	snprintf(id, (size_t) length, "0000:%02X:00.0", device);
	return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) { *free = *total = 1 << 30; return cudaSuccess; }

cudaError_t
emulation_malloc(void **memory, size_t bytes)
{
	*memory = nullptr;
	if (bytes == 0)
		return cudaSuccess;
	if (posix_memalign(memory, 256, bytes) != 0)
		return result(cudaErrorMemoryAllocation);
	memset(*memory, 0xFF, bytes);
	return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream) { return emulation_malloc(memory, bytes); }
cudaError_t emulation_host_alloc(void **memory, size_t bytes, unsigned flags) { return emulation_malloc(memory, bytes); }
cudaError_t cudaFree(void *memory) { free(memory); return cudaSuccess; }
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream) { free(memory); return cudaSuccess; }
cudaError_t cudaFreeHost(void *memory) { free(memory); return cudaSuccess; }
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *memory) { return cudaSuccess; }

cudaError_t
cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
	memset(attributes, 0, sizeof(*attributes));
	return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) { memcpy(to, from, bytes); return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) { memcpy(to, from, bytes); return cudaSuccess; }
cudaError_t cudaMemset(void *memory, int byte, size_t bytes) { memset(memory, byte, bytes); return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream) { memset(memory, byte, bytes); return cudaSuccess; }
cudaError_t cudaStreamCreate(cudaStream_t *stream) { *stream = new CUstream_st(); return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { delete stream; return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t *event) { *event = new CUevent_st(); return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { delete event; return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *msec, cudaEvent_t begin, cudaEvent_t end) { *msec = 0.01f; return cudaSuccess; }
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) { return result(cudaErrorNotSupported); }
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) { return result(cudaErrorNotSupported); }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) { *status = cudaStreamCaptureStatusNone; return cudaSuccess; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) { return cudaSuccess; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) { return result(cudaErrorNotSupported); }
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) { return result(cudaErrorNotSupported); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { return result(cudaErrorNotSupported); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return result(cudaErrorNotSupported); }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return result(cudaErrorNotSupported); }
cudaError_t emulation_function_set(const void *kernel, cudaFuncAttribute attribute, int value) { return cudaSuccess; }

cudaError_t
emulation_function_get(cudaFuncAttributes *attributes, const void *kernel)
{
	memset(attributes, 0, sizeof(*attributes));
	attributes->maxThreadsPerBlock = EMULATION_THREADS_MAX;
	return cudaSuccess;
}

}
