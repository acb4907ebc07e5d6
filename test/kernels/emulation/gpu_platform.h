/*
 * gpu_platform.h
 *	  CUDA on the CPU, for the tests: see cuda/platform/gpu_platform.h.
 */
#ifndef EMULATION_GPU_PLATFORM_H
#define EMULATION_GPU_PLATFORM_H

#include "cuda_runtime.h"

#endif
