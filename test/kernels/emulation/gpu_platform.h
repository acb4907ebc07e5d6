/*
 * gpu_platform.h
 *	  CUDA on the CPU, for the tests: see cuda/platform/gpu_platform.h.
 */
#ifndef EMULATION_GPU_PLATFORM_H
#define EMULATION_GPU_PLATFORM_H

#include <tuple>
#include <type_traits>

#include "cuda_runtime.h"

#define GPU_UNROLL

/* A kernel with its arguments, as a launch keeps it. */
template <class... P>
struct emulation_call
{
	void		(*kernel)(P...);
	std::tuple<P...> arguments;

	static void
	run(const void *self)
	{
		const emulation_call *call = (const emulation_call *) self;

		std::apply(call->kernel, call->arguments);
	}

	static void
	destroy(void *self)
	{
		delete (emulation_call *) self;
	}
};

template <class... P, class... A>
static inline cudaError_t
gpu_launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	static_assert((0 + ... + sizeof(P)) <= 4096, "a kernel has at most 4096 bytes of arguments");
	static_assert((true && ... && !std::is_reference<P>::value), "a kernel has no references for arguments");
	static_assert((true && ... && std::is_trivially_copyable<P>::value), "a kernel's arguments are copied byte by byte");
	typedef emulation_call<P...> call;

	return emulation_launch((const void *) kernel, call::run, call::destroy,
							new call{kernel, std::tuple<P...>(static_cast<P>(args)...)}, grid, block, stream,
							__BASE_FILE__);
}

template <class T>
static inline T &
gpu_shared()
{
	static_assert(sizeof(T) <= EMULATION_SHARED_MAX, "a block has at most 48 KB of static shared memory");
	static const char type = 0;

	return *(T *) emulation_shared(&type, sizeof(T));
}

#endif /* EMULATION_GPU_PLATFORM_H */
