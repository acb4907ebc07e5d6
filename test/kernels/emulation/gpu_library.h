/*
 * gpu_library.h
 *	  NVIDIA's libraries on the CPU: see cuda/platform/gpu_library.h.  What there is of them, and how it is wrong, the
 *	  environment says: cublaslt.cc.
 */
#ifndef EMULATION_GPU_LIBRARY_H
#define EMULATION_GPU_LIBRARY_H

#define GPU_LIBRARY_ROWS		300
#define GPU_LIBRARY_LEAST		32
#define GPU_LIBRARY_SEPARATE_K	96

extern void *gpu_library_open(const char *name);
extern void *gpu_library_symbol(void *library, const char *name);
extern void gpu_library_close(void *library);

#endif /* EMULATION_GPU_LIBRARY_H */
