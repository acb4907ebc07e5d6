/*
 * memory.cc
 *	  The runtime's functions of memory; ../memory.cc has what is allocated.
 */
#include "call.h"

extern "C" cudaError_t
cudaMemGetInfo(size_t *free, size_t *total)
{
	CALL_BEGIN("cudaMemGetInfo", CALL_MAKES);
	memory_info info = memory_count(call.device);

	*free = info.free;
	*total = info.total;
	return call.done();
}

static cudaError_t
allocate(const char *name, void **memory, size_t bytes, bool host, bool ordered)
{
	CALL_BEGIN(name, CALL_MAKES);
	cudaError_t error;

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
	CALL_BEGIN("cudaFree", CALL_ENDS);
	cudaError_t error = capture_allows();

	context_needed("cudaFree");
	return call.done(error == cudaSuccess ? memory_free(memory) : error);
}

extern "C" cudaError_t
cudaFreeHost(void *memory)
{
	CALL_BEGIN("cudaFreeHost", CALL_ENDS);
	cudaError_t error = capture_allows();

	context_needed("cudaFreeHost");
	return call.done(error == cudaSuccess ? memory_host_free(memory) : error);
}

extern "C" cudaError_t
cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	CALL_BEGIN("cudaHostRegister", CALL_MAKES);
	cudaError_t error = capture_allows();

	return call.done(error == cudaSuccess ? memory_register(memory, bytes) : error);
}

extern "C" cudaError_t
cudaHostUnregister(void *memory)
{
	CALL_BEGIN("cudaHostUnregister", CALL_ENDS);
	cudaError_t error = capture_allows();

	return call.done(error == cudaSuccess ? memory_unregister(memory) : error);
}

extern "C" cudaError_t
cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory)
{
	CALL_BEGIN("cudaPointerGetAttributes", CALL_MAKES);
	int			device;

	*attributes = {};
	device = memory_device(memory, 1, "cudaPointerGetAttributes");
	attributes->type = device >= 0 ? cudaMemoryTypeDevice : memory_pinned(memory, 1) ? cudaMemoryTypeHost :
		cudaMemoryTypeUnregistered;
	attributes->device = device >= 0 ? device : call.device;
	attributes->devicePointer = (void *) memory;
	attributes->hostPointer = device >= 0 ? nullptr : (void *) memory;
	return call.done();
}
