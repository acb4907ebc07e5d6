/*
 * runtime.h
 *	  The calls of CUDA's runtime that cuda/ makes, on the CPU: see cuda_runtime.h.  Names, numbers and meaning are those
 *	  of CUDA Runtime API 12 and 13.
 */
#ifndef EMULATION_RUNTIME_H
#define EMULATION_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "language.h"

#define CUDART_VERSION	13000

enum cudaError
{
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInitializationError = 3,
	cudaErrorInvalidConfiguration = 9,
	cudaErrorInvalidMemcpyDirection = 21,
	cudaErrorInsufficientDriver = 35,
	cudaErrorInvalidDeviceFunction = 98,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorNoKernelImageForDevice = 209,
	cudaErrorECCUncorrectable = 214,
	cudaErrorOperatingSystem = 304,
	cudaErrorInvalidResourceHandle = 400,
	cudaErrorIllegalState = 401,
	cudaErrorNotReady = 600,
	cudaErrorIllegalAddress = 700,
	cudaErrorLaunchOutOfResources = 701,
	cudaErrorLaunchTimeout = 702,
	cudaErrorHostMemoryAlreadyRegistered = 712,
	cudaErrorHostMemoryNotRegistered = 713,
	cudaErrorLaunchFailure = 719,
	cudaErrorNotSupported = 801,
	cudaErrorStreamCaptureUnsupported = 900,
	cudaErrorStreamCaptureInvalidated = 901,
	cudaErrorStreamCaptureMerge = 902,
	cudaErrorStreamCaptureUnmatched = 903,
	cudaErrorStreamCaptureUnjoined = 904,
	cudaErrorStreamCaptureIsolation = 905,
	cudaErrorStreamCaptureImplicit = 906,
	cudaErrorCapturedEvent = 907,
	cudaErrorStreamCaptureWrongThread = 908,
	cudaErrorUnknown = 999
};
typedef enum cudaError cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

enum cudaMemcpyKind
{
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4
};

enum cudaStreamCaptureMode
{
	cudaStreamCaptureModeGlobal = 0,
	cudaStreamCaptureModeThreadLocal = 1,
	cudaStreamCaptureModeRelaxed = 2
};

enum cudaStreamCaptureStatus
{
	cudaStreamCaptureStatusNone = 0,
	cudaStreamCaptureStatusActive = 1,
	cudaStreamCaptureStatusInvalidated = 2
};

enum cudaDeviceAttr
{
	cudaDevAttrMaxThreadsPerBlock = 1,
	cudaDevAttrMaxSharedMemoryPerBlock = 8,
	cudaDevAttrWarpSize = 10,
	cudaDevAttrMaxRegistersPerBlock = 12,
	cudaDevAttrClockRate = 13,
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrIntegrated = 18,
	cudaDevAttrComputeMode = 20,
	cudaDevAttrEccEnabled = 32,
	cudaDevAttrMemoryClockRate = 36,
	cudaDevAttrGlobalMemoryBusWidth = 37,
	cudaDevAttrL2CacheSize = 38,
	cudaDevAttrMaxThreadsPerMultiProcessor = 39,
	cudaDevAttrUnifiedAddressing = 41,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
	cudaDevAttrManagedMemory = 83,
	cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};

enum cudaFuncAttribute
{
	cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
	cudaFuncAttributePreferredSharedMemoryCarveout = 9
};

enum cudaMemoryType
{
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2
};

struct cudaUUID_t
{
	char		bytes[16];
};

struct cudaDeviceProp				/* what cuda/ reads of it */
{
	char		name[256];
	cudaUUID_t	uuid;
	size_t		totalGlobalMem;
	size_t		sharedMemPerBlock;
	int			regsPerBlock;
	int			warpSize;
	int			maxThreadsPerBlock;
	int			maxThreadsDim[3];
	int			maxGridSize[3];
	int			major;
	int			minor;
	int			multiProcessorCount;
	int			integrated;
	int			l2CacheSize;
	int			maxThreadsPerMultiProcessor;
	int			memoryBusWidth;
	int			pciBusID;
	int			pciDeviceID;
	int			pciDomainID;
	int			ECCEnabled;
	int			unifiedAddressing;
	size_t		sharedMemPerMultiprocessor;
	size_t		sharedMemPerBlockOptin;
};

struct cudaFuncAttributes
{
	size_t		sharedSizeBytes;
	size_t		constSizeBytes;
	size_t		localSizeBytes;
	int			maxThreadsPerBlock;
	int			numRegs;
	int			ptxVersion;
	int			binaryVersion;
};

struct cudaPointerAttributes
{
	cudaMemoryType type;
	int			device;
	void	   *devicePointer;
	void	   *hostPointer;
};

#define cudaStreamDefault			0x00
#define cudaStreamNonBlocking		0x01
#define cudaEventDefault			0x00
#define cudaEventBlockingSync		0x01
#define cudaEventDisableTiming		0x02
#define cudaHostAllocDefault		0x00
#define cudaHostAllocPortable		0x01
#define cudaHostAllocMapped			0x02
#define cudaHostAllocWriteCombined	0x04
#define cudaHostRegisterDefault		0x00
#define cudaHostRegisterPortable	0x01
#define cudaHostRegisterMapped		0x02
#define cudaHostRegisterReadOnly	0x08
#define cudaDeviceScheduleAuto			0x00
#define cudaDeviceScheduleSpin			0x01
#define cudaDeviceScheduleYield			0x02
#define cudaDeviceScheduleBlockingSync	0x04

extern "C"
{
extern const char *cudaGetErrorName(cudaError_t error);
extern const char *cudaGetErrorString(cudaError_t error);
extern cudaError_t cudaGetLastError(void);
extern cudaError_t cudaPeekAtLastError(void);
extern cudaError_t cudaDriverGetVersion(int *version);
extern cudaError_t cudaRuntimeGetVersion(int *version);

extern cudaError_t cudaGetDeviceCount(int *count);
extern cudaError_t cudaGetDevice(int *device);
extern cudaError_t cudaSetDevice(int device);
extern cudaError_t cudaSetDeviceFlags(unsigned flags);
extern cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
extern cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
extern cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device);
extern cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
extern cudaError_t cudaDeviceSynchronize(void);

extern cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
extern cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream);
extern cudaError_t cudaFree(void *memory);
extern cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream);
extern cudaError_t cudaFreeHost(void *memory);
extern cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags);
extern cudaError_t cudaHostUnregister(void *memory);
extern cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory);
extern cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
extern cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = nullptr);
extern cudaError_t cudaMemset(void *memory, int byte, size_t bytes);
extern cudaError_t cudaMemsetAsync(void *memory, int byte, size_t bytes, cudaStream_t stream = nullptr);

extern cudaError_t cudaStreamCreate(cudaStream_t *stream);
extern cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
extern cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
extern cudaError_t cudaStreamDestroy(cudaStream_t stream);
extern cudaError_t cudaStreamSynchronize(cudaStream_t stream);
extern cudaError_t cudaStreamQuery(cudaStream_t stream);
extern cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);

extern cudaError_t cudaEventCreate(cudaEvent_t *event);
extern cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
extern cudaError_t cudaEventDestroy(cudaEvent_t event);
extern cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
extern cudaError_t cudaEventQuery(cudaEvent_t event);
extern cudaError_t cudaEventSynchronize(cudaEvent_t event);
extern cudaError_t cudaEventElapsedTime(float *msec, cudaEvent_t begin, cudaEvent_t end);

extern cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
extern cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
extern cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
extern cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode);
extern cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags = 0);
extern cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
extern cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
extern cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
extern cudaError_t cudaGraphDestroy(cudaGraph_t graph);

/* What the templates below and gpu_launch() end in. */
extern cudaError_t emulation_malloc(void **memory, size_t bytes);
extern cudaError_t emulation_host_alloc(void **memory, size_t bytes, unsigned flags);
extern cudaError_t emulation_function_set(const void *kernel, cudaFuncAttribute attribute, int value);
extern cudaError_t emulation_function_get(cudaFuncAttributes *attributes, const void *kernel);
}

typedef void (*emulation_run_fn)(const void *call);
typedef void (*emulation_destroy_fn)(void *call);

/* Takes over the call, whatever it returns. */
extern cudaError_t emulation_launch(const void *kernel, emulation_run_fn run, emulation_destroy_fn destroy, void *call,
									dim3 grid, dim3 block, cudaStream_t stream, const char *file);

/* As cuda_runtime.h has them for C++: of pointers of any type. */
template <class T>
static inline cudaError_t
cudaMalloc(T **memory, size_t bytes)
{
	return emulation_malloc((void **) (void *) memory, bytes);
}

template <class T>
static inline cudaError_t
cudaHostAlloc(T **memory, size_t bytes, unsigned flags)
{
	return emulation_host_alloc((void **) (void *) memory, bytes, flags);
}

template <class T>
static inline cudaError_t
cudaMallocHost(T **memory, size_t bytes, unsigned flags = 0)
{
	return emulation_host_alloc((void **) (void *) memory, bytes, flags);
}

template <class T>
static inline cudaError_t
cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value)
{
	return emulation_function_set((const void *) kernel, attribute, value);
}

template <class T>
static inline cudaError_t
cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *kernel)
{
	return emulation_function_get(attributes, (const void *) kernel);
}

#endif /* EMULATION_RUNTIME_H */
