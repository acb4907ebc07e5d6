/*
 * gpu_platform.h
 *	  What the sources of the CUDA device need of CUDA, as CUDA has it.  test/kernels/emulation has a file of the
 *	  same name that runs them on the CPU, for the tests; which of the two it is, the include path decides, and
 *	  no source asks.
 *
 * gpu_launch(kernel, grid, block, stream, args…)	enqueues a kernel
 * gpu_shared<T>()									the block's one T in shared memory; not initialised
 * GPU_UNROLL										before a loop: its bounds are constants, and its arrays lie in registers
 */
#ifndef CUDA_PLATFORM_GPU_PLATFORM_H
#define CUDA_PLATFORM_GPU_PLATFORM_H

#include <cuda_runtime.h>

#define GPU_UNROLL	_Pragma("unroll")

template <class... P, class... A>
static inline cudaError_t
gpu_launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... args)
{
	auto launch = [&](P... values)
	{
		void *pointers[] = {(void *) &values...};

		return cudaLaunchKernel((const void *) kernel, grid, block, pointers, 0, stream);
	};

	return launch(args...);
}

template <class T>
__device__ inline T &
gpu_shared()
{
	__shared__ __align__(16) unsigned char bytes[sizeof(T)];

	return *reinterpret_cast<T *>(bytes);
}

#endif /* CUDA_PLATFORM_GPU_PLATFORM_H */
