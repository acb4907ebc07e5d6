/*
 * device.cc
 *	  The runtime's functions of devices: what there are, what they have, which one a thread has chosen.
 *
 * Invariant: a thread that has chosen a GPU counts until it ends, so that who must be alone can tell.
 */
#include "call.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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

void
context_needed(const char *name)
{
	if (settings.gpus > 1 && !thread_chooser.chosen)
		emulation_report("%s by a thread that has chosen no GPU", name);
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
	CALL_BEGIN("cudaSetDevice", CALL_MAKES, device);

	device_current = device;
	thread_chooser.choose();
	return call.done();
}

extern "C" cudaError_t
cudaSetDeviceFlags(unsigned flags)
{
	CALL_BEGIN("cudaSetDeviceFlags", CALL_MAKES);

	return call.done();
}

size_t
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
	CALL_BEGIN("cudaGetDeviceProperties", CALL_MAKES);

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
	CALL_BEGIN("cudaDeviceGetAttribute", CALL_MAKES);

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
	CALL_BEGIN("cudaDeviceSynchronize", CALL_WAITS);
	cudaError_t error = capture_allows();

	while (error == cudaSuccess && (error = work_all(call.device)) == cudaErrorNotReady)
	{
		call.pause();
		error = cudaSuccess;
	}
	return call.done(error);
}
