/*
 * gpu_library.h
 *	  Libraries of NVIDIA's that are opened at run time.  test/kernels/emulation has a file of the same name that gives
 *	  its stand-ins.
 */
#ifndef CUDA_PLATFORM_GPU_LIBRARY_H
#define CUDA_PLATFORM_GPU_LIBRARY_H

#include <dlfcn.h>

#define GPU_LIBRARY_ROWS		8192	/* of a product at most: as many as are checked */
#define GPU_LIBRARY_LEAST		256		/* K and N: smaller products are bound by their launch, and own kernels fuse all */
#define GPU_LIBRARY_SEPARATE_K	1536	/* from there on a pass over the sums is cheaper than own products */

/* NULL: it is not there. */
static inline void *
gpu_library_open(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static inline void *
gpu_library_symbol(void *library, const char *name)
{
	return dlsym(library, name);
}

static inline void
gpu_library_close(void *library)
{
	dlclose(library);
}

#endif /* CUDA_PLATFORM_GPU_LIBRARY_H */
