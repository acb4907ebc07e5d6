/*
 * cuda_runtime.h
 *	  CUDA on the CPU: what the sources of cuda/ use of the language and of the runtime, so that a C++ compiler takes them
 *	  unchanged and tests run them without a GPU.  gpu_platform.h has what they call in place of <<<>>> and __shared__.
 *
 * language.h		types, indices, barriers, shuffles, atomics, arithmetic; threads/ runs blocks of them
 * runtime.h		cudaMalloc and so on; calls/, which memory.cc and stream.cc serve
 * control.h		what tests ask of the emulation
 *
 * Why an own one: the tests want what no GPU and no other emulation gives.  Threads, blocks and streams run in random orders
 * (from a seed that is printed when something fails), memory is NaN before it is written and out of the host's reach,
 * a barrier that not all threads reach is an error with the kernel's name, and any call can be made to fail.
 */
#ifndef EMULATION_CUDA_RUNTIME_H
#define EMULATION_CUDA_RUNTIME_H

#include "language.h"
#include "runtime.h"

#endif /* EMULATION_CUDA_RUNTIME_H */
