/*
 * call.cc
 *	  What every call has in common: the lock, the count, failures on demand, the last error.  And the control of it.
 */
#include "call.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t calls;
static uint64_t fail_call;			/* of `calls`; 0: none */
static int	fail_how;
static cudaError_t fail_error;
static const char *fail_name;
thread_local int device_current;
thread_local cudaError_t last_error;
uint64_t	launches;

extern const char *report_first();

/* ---- the end of the process ---- */

static uint32_t
leaks(std::vector<char> *text)
{
	uint32_t	count = memory_leaks(text);

	count += stream_leaks(text);
	count += graph_leaks(text);
	return count;
}

static void
at_end()
{
	std::vector<char> text;
	uint32_t	count;

	pthread_mutex_lock(&lock);
	count = leaks(&text);
	for (int i = 0; i < settings.gpus; i++)
		if (device_lost[i] != cudaSuccess)
			count = 0;
	if (count == 0)
	{
		pthread_mutex_unlock(&lock);
		return;
	}
	text.push_back('\0');
	fflush(nullptr);
	fprintf(stderr, "emulation: not freed: %s\n", text.data());
	_exit(66);
}

static void
begin()
{
	static bool begun;
	const char *fails = getenv("INFER_EMULATED_FAIL");
	unsigned long long call;
	int			error;
	int			how = EMULATION_FAILS_ONCE;

	if (begun)
		return;
	begun = true;
	if (settings.leaks)
		atexit(at_end);
	if (fails != nullptr && sscanf(fails, "%llu:%d:%d", &call, &error, &how) >= 2)
	{
		fail_call = call;
		fail_error = (cudaError_t) error;
		fail_how = how;
	}
}

/* ---- a call ---- */

emulation_api::emulation_api(const char *name, call_kind kind, int device)
	: name(name), kind(kind), device(device < 0 ? device_current : device), error(cudaSuccess), late(false), fate(0)
{
	pthread_mutex_lock(&lock);
	begin();
	calls++;
	if (settings.driver / 1000 < CUDART_VERSION / 1000)
		error = cudaErrorInsufficientDriver;
	else if (settings.gpus == 0)
		error = cudaErrorNoDevice;
	else
		error = device_lost[this->device];
	if (error != cudaSuccess || fail_call == 0 || calls < fail_call)
		return;
	if (fail_how >= EMULATION_FAILS_LATER)
	{
		if (kind != CALL_WORKS)		/* the next one that is */
			return;
		fate = fail_how;
	}
	else
	{
		error = fail_error;
		late = kind == CALL_WAITS && fail_how == EMULATION_FAILS_ONCE;
		if (fail_how == EMULATION_FAILS_FOR_GOOD)
			device_lost[this->device] = fail_error;
	}
	fail_name = name;
	fail_call = 0;
}

emulation_api::~emulation_api()
{
	pthread_mutex_unlock(&lock);
}

cudaError_t
emulation_api::done(cudaError_t result)
{
	if (error != cudaSuccess)
		result = error;
	if (result != cudaSuccess)
		last_error = result;
	return result;
}

void
emulation_api::pause()
{
	pthread_mutex_unlock(&lock);
	usleep(1000);
	pthread_mutex_lock(&lock);
}

cudaError_t
emulation_api::wait(const emulation_point *point)
{
	emulation_point target = *point;
	cudaError_t result;

	while ((result = work_until(&target)) == cudaErrorNotReady)
		pause();					/* it hangs */
	return result;
}

cudaError_t
emulation_api::look(const emulation_point *point)
{
	if (!point_reached(point) && late)
		work_until(point);
	else if (!point_reached(point))
		work_some(point);
	return point_reached(point) ? cudaSuccess : device_lost[point->stream->device] != cudaSuccess ?
		device_lost[point->stream->device] : cudaErrorNotReady;
}

/* ---- errors ---- */

static const struct
{
	cudaError_t error;
	const char *name;
	const char *text;
}			errors[] = {
#define ERROR(error, text)	{error, #error, text},
	ERROR(cudaSuccess, "no error")
	ERROR(cudaErrorInvalidValue, "invalid argument")
	ERROR(cudaErrorMemoryAllocation, "out of memory")
	ERROR(cudaErrorInitializationError, "initialization error")
	ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument")
	ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")
	ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")
	ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected")
	ERROR(cudaErrorInvalidDevice, "invalid device ordinal")
	ERROR(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device")
	ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered")
	ERROR(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS")
	ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle")
	ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state")
	ERROR(cudaErrorNotReady, "device not ready")
	ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered")
	ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch")
	ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated")
	ERROR(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")
	ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")
	ERROR(cudaErrorLaunchFailure, "unspecified launch failure")
	ERROR(cudaErrorNotSupported, "operation not supported")
	ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")
	ERROR(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")
	ERROR(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")
	ERROR(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")
	ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")
	ERROR(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")
	ERROR(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream")
	ERROR(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")
	ERROR(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread")
	ERROR(cudaErrorUnknown, "unknown error")
#undef ERROR
};

extern "C" const char *
cudaGetErrorName(cudaError_t error)
{
	for (const auto &entry : errors)
		if (entry.error == error)
			return entry.name;
	return "unrecognized error code";
}

extern "C" const char *
cudaGetErrorString(cudaError_t error)
{
	for (const auto &entry : errors)
		if (entry.error == error)
			return entry.text;
	return "unrecognized error code";
}

extern "C" cudaError_t
cudaPeekAtLastError()
{
	return last_error;
}

extern "C" cudaError_t
cudaGetLastError()
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

/* ---- control ---- */

static uint64_t
control_seed()
{
	return settings.seed;
}

static void
control_set_seed(uint64_t seed)
{
	pthread_mutex_lock(&lock);
	random_seed(seed);
	pthread_mutex_unlock(&lock);
}

static uint64_t
control_calls()
{
	uint64_t	count;

	pthread_mutex_lock(&lock);
	count = calls;
	pthread_mutex_unlock(&lock);
	return count;
}

static void
control_fail(uint64_t call, int error, int how)
{
	pthread_mutex_lock(&lock);
	fail_call = call == 0 ? 0 : calls + call;
	fail_error = (cudaError_t) error;
	fail_how = how;
	fail_name = nullptr;
	pthread_mutex_unlock(&lock);
}

static const char *
control_failed()
{
	return fail_name;
}

static void
control_collect(bool collect)
{
	pthread_mutex_lock(&lock);
	settings.collect = collect;
	pthread_mutex_unlock(&lock);
}

static const char *
control_report()
{
	const char *report;

	pthread_mutex_lock(&lock);
	report = report_first();
	pthread_mutex_unlock(&lock);
	return report;
}

static uint32_t
control_leaks(char *text, size_t bytes)
{
	std::vector<char> all;
	uint32_t	count;

	pthread_mutex_lock(&lock);
	count = leaks(&all);
	pthread_mutex_unlock(&lock);
	all.push_back('\0');
	snprintf(text, bytes, "%s", all.data());
	return count;
}

static uint64_t
control_launches()
{
	uint64_t	count;

	pthread_mutex_lock(&lock);
	count = launches;
	pthread_mutex_unlock(&lock);
	return count;
}

static void
control_reset()
{
	pthread_mutex_lock(&lock);
	graph_reset();
	stream_reset();
	memory_reset();
	fail_call = 0;
	last_error = cudaSuccess;
	pthread_mutex_unlock(&lock);
}

extern "C" __attribute__((visibility("default"))) const emulation_control infer_emulation;
const emulation_control infer_emulation = {
	.seed = control_seed,
	.set_seed = control_set_seed,
	.calls = control_calls,
	.fail = control_fail,
	.failed = control_failed,
	.collect = control_collect,
	.report = control_report,
	.leaks = control_leaks,
	.launches = control_launches,
	.reset = control_reset
};
