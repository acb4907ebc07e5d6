/*
 * runtime.cc
 *	  The calls of CUDA's runtime: devices, memory, launches, streams, events.  graph.cc has those of graphs.
 */
#include "emulation.h"

#include <fcntl.h>
#include <set>
#include <stdio.h>
#include <string>
#include <unistd.h>

extern thread_local int device_current;
extern uint64_t launches;

typedef std::shared_ptr<emulation_stream> stream_ref;

/* ---- devices ---- */

static uint32_t choosers;			/* atomic: threads that have chosen a GPU and go on */

struct chooser
{
	bool		chosen = false;

	void
	choose()
	{
		if (!chosen)
			__atomic_add_fetch(&choosers, 1, __ATOMIC_RELAXED);
		chosen = true;
	}

	~chooser()
	{
		if (chosen)
			__atomic_sub_fetch(&choosers, 1, __ATOMIC_RELAXED);
	}
};

static thread_local chooser thread_chooser;

bool
emulation_used_by_others()
{
	return __atomic_load_n(&choosers, __ATOMIC_RELAXED) > (thread_chooser.chosen ? 1u : 0u);
}

extern "C" cudaError_t
cudaDriverGetVersion(int *version)
{
	*version = settings.driver;
	return cudaSuccess;
}

extern "C" cudaError_t
cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

/* NVIDIA's driver gives its threads names, and without it nothing goes. */
static bool
threads_named()
{
	char		path[64];
	char		name[32] = "";
	int			file;
	bool		named;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int) gettid());
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return false;
	named = read(file, name, sizeof(name) - 1) > 0 && write(file, name, strlen(name)) > 0;
	close(file);
	return named;
}

extern "C" cudaError_t
cudaGetDeviceCount(int *count)
{
	emulation_api call("cudaGetDeviceCount", CALL_MAKES);
	bool		fine = !call.refused();

	*count = 0;
	if (fine && !threads_named())
		return call.done(cudaErrorOperatingSystem);
	*count = fine ? settings.gpus : 0;
	return call.done();
}

extern "C" cudaError_t
cudaGetDevice(int *device)
{
	emulation_api call("cudaGetDevice", CALL_MAKES);

	*device = device_current;
	return call.done();
}

extern "C" cudaError_t
cudaSetDevice(int device)
{
	if (device < 0 || (device >= settings.gpus && settings.gpus > 0))
		return cudaErrorInvalidDevice;
	emulation_api call("cudaSetDevice", CALL_MAKES, device);
	if (call.refused())
		return call.done();
	device_current = device;
	thread_chooser.choose();
	return call.done();
}

extern "C" cudaError_t
cudaSetDeviceFlags(unsigned flags)
{
	emulation_api call("cudaSetDeviceFlags", CALL_MAKES);

	return call.done();
}

static size_t
shared_optin()
{
	switch (settings.sm)
	{
		case 75:
			return 65536;
		case 80:
		case 87:
			return 166912;
		case 86:
		case 89:
		case 120:
			return 101376;
	}
	return settings.sm < 80 ? 49152 : 232448;
}

extern "C" cudaError_t
cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
	emulation_api call("cudaGetDeviceProperties", CALL_MAKES);

	if (call.refused())
		return call.done();
	if (device < 0 || device >= settings.gpus)
		return call.done(cudaErrorInvalidDevice);
	*properties = {};
	snprintf(properties->name, sizeof(properties->name), "Emulated GPU");
	properties->uuid.bytes[15] = (char) (device + 1);
	properties->totalGlobalMem = settings.memory;
	properties->sharedMemPerBlock = EMULATION_SHARED_MAX;
	properties->sharedMemPerBlockOptin = shared_optin();
	properties->sharedMemPerMultiprocessor = shared_optin() + 1024;
	properties->regsPerBlock = 65536;
	properties->warpSize = warpSize;
	properties->maxThreadsPerBlock = EMULATION_THREADS_MAX;
	properties->maxThreadsPerMultiProcessor = settings.sm == 80 || settings.sm >= 90 ? 2048 : 1024;
	properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = EMULATION_THREADS_MAX;
	properties->maxThreadsDim[2] = 64;
	properties->maxGridSize[0] = INT32_MAX;
	properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
	properties->major = settings.sm / 10;
	properties->minor = settings.sm % 10;
	properties->multiProcessorCount = settings.processors;
	properties->l2CacheSize = 4 << 20;
	properties->memoryBusWidth = 256;
	properties->pciBusID = device + 1;
	properties->unifiedAddressing = 1;
	return call.done();
}

extern "C" cudaError_t
cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
	emulation_api call("cudaDeviceGetAttribute", CALL_MAKES);

	if (call.refused())
		return call.done();
	if (device < 0 || device >= settings.gpus)
		return call.done(cudaErrorInvalidDevice);
	switch (attribute)
	{
		case cudaDevAttrMaxThreadsPerBlock:
			*value = EMULATION_THREADS_MAX;
			break;
		case cudaDevAttrMaxSharedMemoryPerBlock:
			*value = EMULATION_SHARED_MAX;
			break;
		case cudaDevAttrMaxSharedMemoryPerBlockOptin:
			*value = (int) shared_optin();
			break;
		case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
			*value = (int) shared_optin() + 1024;
			break;
		case cudaDevAttrWarpSize:
			*value = warpSize;
			break;
		case cudaDevAttrMaxRegistersPerBlock:
			*value = 65536;
			break;
		case cudaDevAttrMultiProcessorCount:
			*value = settings.processors;
			break;
		case cudaDevAttrMaxThreadsPerMultiProcessor:
			*value = settings.sm == 80 || settings.sm >= 90 ? 2048 : 1024;
			break;
		case cudaDevAttrComputeCapabilityMajor:
			*value = settings.sm / 10;
			break;
		case cudaDevAttrComputeCapabilityMinor:
			*value = settings.sm % 10;
			break;
		case cudaDevAttrClockRate:
			*value = 1000000;		/* kHz */
			break;
		case cudaDevAttrMemoryClockRate:
			*value = 1000000;
			break;
		case cudaDevAttrGlobalMemoryBusWidth:
			*value = 256;
			break;
		case cudaDevAttrL2CacheSize:
			*value = 4 << 20;
			break;
		case cudaDevAttrUnifiedAddressing:
			*value = 1;
			break;
		default:
			*value = 0;
	}
	return call.done();
}

extern "C" cudaError_t
cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	emulation_api call("cudaDeviceGetPCIBusId", CALL_MAKES);

	snprintf(id, (size_t) length, "0000:%02X:00.0", device + 1);
	return call.done();
}

extern "C" cudaError_t
cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	emulation_api call("cudaDeviceGetStreamPriorityRange", CALL_MAKES);

	*least = 0;
	*greatest = -5;
	return call.done();
}

extern "C" cudaError_t
cudaDeviceSynchronize()
{
	emulation_api call("cudaDeviceSynchronize", CALL_WAITS);
	cudaError_t error;

	if (call.refused())
		return call.done();
	error = capture_allows();
	while (error == cudaSuccess && (error = work_all(call.device)) == cudaErrorNotReady)
	{
		call.pause();
		error = cudaSuccess;
	}
	return call.done(error);
}

/* ---- memory ---- */

extern "C" cudaError_t
cudaMemGetInfo(size_t *free, size_t *total)
{
	emulation_api call("cudaMemGetInfo", CALL_MAKES);
	memory_info info;

	if (call.refused())
		return call.done();
	info = memory_count(call.device);
	*free = info.free;
	*total = info.total;
	return call.done();
}

/* CUDA makes a context, and takes memory for it, on the first GPU for a thread that has chosen none. */
static void
context_needed(const char *name)
{
	if (settings.gpus > 1 && !thread_chooser.chosen)
		emulation_report("%s by a thread that has chosen no GPU", name);
}

static cudaError_t
allocate(const char *name, void **memory, size_t bytes, bool host, bool ordered)
{
	emulation_api call(name, CALL_MAKES);
	cudaError_t error;

	if (call.refused())
		return call.done();
	context_needed(name);
	error = ordered ? cudaSuccess : capture_allows();
	if (error == cudaSuccess)
		error = host ? memory_host_alloc(memory, bytes) : memory_alloc(call.device, memory, bytes);
	return call.done(error);
}

extern "C" cudaError_t
emulation_malloc(void **memory, size_t bytes)
{
	return allocate("cudaMalloc", memory, bytes, false, false);
}

extern "C" cudaError_t
cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
	return allocate("cudaMallocAsync", memory, bytes, false, true);
}

extern "C" cudaError_t
emulation_host_alloc(void **memory, size_t bytes, unsigned flags)
{
	return allocate("cudaHostAlloc", memory, bytes, true, false);
}

extern "C" cudaError_t
cudaFree(void *memory)
{
	emulation_api call("cudaFree", CALL_ENDS);
	cudaError_t error = capture_allows();

	context_needed("cudaFree");
	return call.done(error == cudaSuccess ? memory_free(memory) : error);
}

extern "C" cudaError_t
cudaFreeHost(void *memory)
{
	emulation_api call("cudaFreeHost", CALL_ENDS);
	cudaError_t error = capture_allows();

	context_needed("cudaFreeHost");
	return call.done(error == cudaSuccess ? memory_host_free(memory) : error);
}

extern "C" cudaError_t
cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	emulation_api call("cudaHostRegister", CALL_MAKES);
	cudaError_t error;

	if (call.refused())
		return call.done();
	error = capture_allows();
	return call.done(error == cudaSuccess ? memory_register(memory, bytes) : error);
}

extern "C" cudaError_t
cudaHostUnregister(void *memory)
{
	emulation_api call("cudaHostUnregister", CALL_ENDS);
	cudaError_t error = capture_allows();

	return call.done(error == cudaSuccess ? memory_unregister(memory) : error);
}

extern "C" cudaError_t
cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
	emulation_api call("cudaPointerGetAttributes", CALL_MAKES);
	int			device;

	if (call.refused())
		return call.done();
	*attributes = {};
	device = memory_device(memory, 1, "cudaPointerGetAttributes");
	attributes->type = device >= 0 ? cudaMemoryTypeDevice : memory_pinned(memory, 1) ? cudaMemoryTypeHost :
		cudaMemoryTypeUnregistered;
	attributes->device = device >= 0 ? device : call.device;
	attributes->devicePointer = (void *) memory;
	attributes->hostPointer = device >= 0 ? nullptr : (void *) memory;
	return call.done();
}

/* ---- work ---- */

struct copy_work : emulation_work
{
	uint8_t    *to;
	const uint8_t *from;			/* NULL: a fill with byte */
	std::vector<uint8_t> staged;	/* from pageable memory, where it was read at once */
	size_t		bytes;
	int			byte;
	int			to_device;			/* -1: the host's */
	int			from_device;

	bool		run(int device) override;
};

bool
copy_work::run(int device)
{
	/* they may have been freed meanwhile */
	if ((to_device >= 0 && memory_device(to, bytes, "a copy") != to_device) ||
		(from_device >= 0 && memory_device(from, bytes, "a copy") != from_device))
		return false;
	if (to_device >= 0)
		memory_open(to_device);
	if (from_device >= 0)
		memory_open(from_device);
	if (from == nullptr)
		memset(to, byte, bytes);
	else
		memcpy(to, staged.empty() ? from : staged.data(), bytes);
	return true;
}

struct kernel_work : emulation_work
{
	emulation_kernel kernel;
	emulation_destroy_fn destroy;
	void	   *call;

	~kernel_work() override
	{
		destroy(call);
	}

	bool		run(int device) override;
};

bool
kernel_work::run(int device)
{
	static std::vector<uint8_t> &before = *new std::vector<uint8_t>;
	static std::vector<uint8_t> &after = *new std::vector<uint8_t>;

	launches++;
	if (!settings.races)
		return emulation_grid(&kernel);
	memory_save(device, &before);
	if (!emulation_grid(&kernel))
		return false;
	memory_save(device, &after);
	memory_restore(device, &before);
	if (!emulation_grid(&kernel))
		return false;
	memory_compare(device, &after, &kernel);
	return true;
}

static bool
direction_is(cudaMemcpyKind kind, int to, int from)
{
	switch (kind)
	{
		case cudaMemcpyHostToHost:
			return to < 0 && from < 0;
		case cudaMemcpyHostToDevice:
			return to >= 0 && from < 0;
		case cudaMemcpyDeviceToHost:
			return to < 0 && from >= 0;
		case cudaMemcpyDeviceToDevice:
			return to >= 0 && from >= 0;
		case cudaMemcpyDefault:
			return true;
	}
	return false;
}

/* Of a copy or a fill, and waits for it if it is to be made at once. */
static cudaError_t
copy_enqueue(emulation_api *call, std::shared_ptr<copy_work> work, cudaMemcpyKind kind, cudaStream_t handle, bool now)
{
	stream_ref	stream = stream_find(handle, call->device);
	cudaError_t error;

	if (stream == nullptr)
		return cudaErrorInvalidResourceHandle;
	if (work->bytes == 0)
		return cudaSuccess;
	work->to_device = memory_device(work->to, work->bytes, call->name);
	work->from_device = work->from == nullptr ? -1 : memory_device(work->from, work->bytes, call->name);
	if (work->to == nullptr || work->to_device == -2 || work->from_device == -2 ||
		(work->from != nullptr ? !direction_is(kind, work->to_device, work->from_device) : work->to_device < 0))
		return cudaErrorInvalidValue;
	if (now && (error = capture_allows()) != cudaSuccess)
		return error;
	/* CUDA may stage pageable memory before it returns, or read it later */
	if (work->from != nullptr && work->from_device < 0 && stream->capture == nullptr &&
		!memory_pinned(work->from, work->bytes) && emulation_below(4) == 0)
		work->staged.assign(work->from, work->from + work->bytes);
	error = stream_enqueue(stream, work, call->fate);
	if (error != cudaSuccess || !now)
		return error;
	emulation_point end = stream_end(stream);
	return call->wait(&end);
}

static std::shared_ptr<copy_work>
copy_new(void *to, const void *from, int byte, size_t bytes)
{
	std::shared_ptr<copy_work> work = std::make_shared<copy_work>();

	work->to = (uint8_t *) to;
	work->from = (const uint8_t *) from;
	work->byte = byte;
	work->bytes = bytes;
	return work;
}

extern "C" cudaError_t
cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	emulation_api call("cudaMemcpy", CALL_WAITS);

	if (call.refused())
		return call.done();
	if (from == nullptr && bytes != 0)
		return call.done(cudaErrorInvalidValue);
	return call.done(copy_enqueue(&call, copy_new(to, from, 0, bytes), kind, nullptr, true));
}

extern "C" cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
	emulation_api call("cudaMemcpyAsync", CALL_WORKS);

	if (call.refused())
		return call.done();
	if (from == nullptr && bytes != 0)
		return call.done(cudaErrorInvalidValue);
	return call.done(copy_enqueue(&call, copy_new(to, from, 0, bytes), kind, stream, false));
}

extern "C" cudaError_t
cudaMemset(void *memory, int byte, size_t bytes)
{
	emulation_api call("cudaMemset", CALL_WAITS);

	if (call.refused())
		return call.done();
	return call.done(copy_enqueue(&call, copy_new(memory, nullptr, byte, bytes), cudaMemcpyDefault, nullptr, true));
}

extern "C" cudaError_t
cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
	emulation_api call("cudaMemsetAsync", CALL_WORKS);

	if (call.refused())
		return call.done();
	return call.done(copy_enqueue(&call, copy_new(memory, nullptr, byte, bytes), cudaMemcpyDefault, stream, false));
}

struct free_work : emulation_work
{
	void	   *memory;

	bool
	run(int device) override
	{
		return memory_free(memory) == cudaSuccess;
	}
};

extern "C" cudaError_t
cudaFreeAsync(void *memory, cudaStream_t handle)
{
	emulation_api call("cudaFreeAsync", CALL_ENDS);
	stream_ref	stream = stream_find(handle, call.device);
	std::shared_ptr<free_work> work;

	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	if (call.error != cudaSuccess)
		return call.done(memory_free(memory));
	work = std::make_shared<free_work>();
	work->memory = memory;
	return call.done(stream_enqueue(stream, work, call.fate));
}

/* By GPU and source: what a kernel has been asked for of, so that a launch need not load, or make, code. */
static std::set<std::pair<int, std::string>> &modules = *new std::set<std::pair<int, std::string>>;

static void
module_needed(int device, const char *file)
{
	const char *suffix = strrchr(file, '.');

	if (suffix != nullptr && strcmp(suffix, ".cu") == 0 && modules.count({device, file}) == 0)
		emulation_report("a kernel of %s was launched before its module was loaded", file);
}

static bool
launch_fits(dim3 grid, dim3 block)
{
	return block.x != 0 && block.y != 0 && block.z != 0 && block.x <= EMULATION_THREADS_MAX &&
		block.y <= EMULATION_THREADS_MAX && block.z <= 64 && block.x * block.y * block.z <= EMULATION_THREADS_MAX &&
		grid.x != 0 && grid.y != 0 && grid.z != 0 && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
}

cudaError_t
emulation_launch(const void *kernel, emulation_run_fn run, emulation_destroy_fn destroy, void *arguments, dim3 grid, dim3 block,
				 cudaStream_t handle, const char *file)
{
	emulation_api call("cudaLaunchKernel", CALL_WORKS);
	std::shared_ptr<kernel_work> work = std::make_shared<kernel_work>();
	stream_ref	stream;

	work->kernel = {kernel, run, arguments, grid, block};
	work->destroy = destroy;
	work->call = arguments;
	if (call.refused())
		return call.done();
	module_needed(call.device, file);
	stream = stream_find(handle, call.device);
	if (stream == nullptr || stream->device != call.device)
		return call.done(cudaErrorInvalidResourceHandle);
	if (!launch_fits(grid, block))
		return call.done(cudaErrorInvalidConfiguration);
	return call.done(stream_enqueue(stream, work, call.fate));
}

extern "C" cudaError_t
emulation_function_set(const void *kernel, cudaFuncAttribute attribute, int value)
{
	emulation_api call("cudaFuncSetAttribute", CALL_MAKES);

	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && (value < 0 || (size_t) value > shared_optin()))
		return call.done(cudaErrorInvalidValue);
	return call.done();
}

extern "C" cudaError_t
emulation_function_get(cudaFuncAttributes *attributes, const void *kernel, const char *file)
{
	emulation_api call("cudaFuncGetAttributes", CALL_MAKES);

	if (call.refused())
		return call.done();
	modules.insert({call.device, file});
	*attributes = {};
	attributes->maxThreadsPerBlock = EMULATION_THREADS_MAX;
	attributes->numRegs = 32;
	attributes->ptxVersion = settings.built;
	attributes->binaryVersion = settings.sm;
	return call.done();
}

/* ---- streams ---- */

static cudaError_t
stream_make(const char *name, cudaStream_t *stream, unsigned flags)
{
	emulation_api call(name, CALL_MAKES);

	*stream = nullptr;
	if (call.refused())
		return call.done();
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
	emulation_api call("cudaStreamDestroy", CALL_ENDS);

	return call.done(stream_destroy(stream));
}

extern "C" cudaError_t
cudaStreamSynchronize(cudaStream_t handle)
{
	emulation_api call("cudaStreamSynchronize", CALL_WAITS);
	stream_ref	stream;
	cudaError_t error;

	if (call.refused())
		return call.done();
	stream = stream_find(handle, call.device);
	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	if (stream->capture != nullptr)
		return call.done(capture_spoil(stream, cudaErrorStreamCaptureUnsupported));
	error = capture_allows();
	if (error != cudaSuccess)
		return call.done(error);
	emulation_point end = stream_end(stream);
	return call.done(call.wait(&end));
}

extern "C" cudaError_t
cudaStreamQuery(cudaStream_t handle)
{
	emulation_api call("cudaStreamQuery", CALL_WAITS);
	stream_ref	stream;
	cudaError_t error;

	if (call.refused())
		return call.done();
	stream = stream_find(handle, call.device);
	if (stream == nullptr)
		return call.done(cudaErrorInvalidResourceHandle);
	if (stream->capture != nullptr)
		return call.done(capture_spoil(stream, cudaErrorStreamCaptureUnsupported));
	error = capture_allows();
	if (error != cudaSuccess)
		return call.done(error);
	emulation_point end = stream_end(stream);
	return call.done(call.look(&end));
}

extern "C" cudaError_t
cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
	emulation_api call("cudaStreamWaitEvent", CALL_WORKS);
	stream_ref	stream;

	if (call.refused())
		return call.done();
	stream = stream_find(handle, call.device);
	if (stream == nullptr || !event_valid(event))
		return call.done(cudaErrorInvalidResourceHandle);
	return call.done(stream_wait(stream, event));
}

/* ---- events ---- */

extern "C" cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	emulation_api call("cudaEventCreateWithFlags", CALL_MAKES);

	*event = nullptr;
	if (call.refused())
		return call.done();
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
	emulation_api call("cudaEventDestroy", CALL_ENDS);

	return call.done(event_destroy(event));
}

extern "C" cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
	emulation_api call("cudaEventRecord", CALL_WORKS);
	stream_ref	stream;

	if (call.refused())
		return call.done();
	stream = stream_find(handle, call.device);
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
	emulation_api call("cudaEventQuery", CALL_WAITS);
	cudaError_t error;

	if (call.refused())
		return call.done();
	context_needed("cudaEventQuery");
	error = event_check(event);
	if (error == cudaSuccess && event->recorded)
		error = call.look(&event->point);
	return call.done(error);
}

extern "C" cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
	emulation_api call("cudaEventSynchronize", CALL_WAITS);
	cudaError_t error;

	if (call.refused())
		return call.done();
	error = event_check(event);
	if (error == cudaSuccess && event->recorded)
		error = call.wait(&event->point);
	return call.done(error);
}

extern "C" cudaError_t
cudaEventElapsedTime(float *msec, cudaEvent_t begin, cudaEvent_t end)
{
	emulation_api call("cudaEventElapsedTime", CALL_MAKES);

	if (call.refused())
		return call.done();
	if (!event_valid(begin) || !event_valid(end) || !begin->timing || !end->timing || !begin->recorded || !end->recorded)
		return call.done(cudaErrorInvalidResourceHandle);
	if (!point_reached(&begin->point) || !point_reached(&end->point))
		return call.done(cudaErrorNotReady);
	*msec = (float) (end->mark->msec - begin->mark->msec);
	return call.done();
}
