/*
 * emulation.h
 *	  What the emulation's own files share; cuda/ does not see it.
 *
 * runtime.cc holds one lock around every call, and so around kernels: thread.cc and random numbers need none of their own.
 */
#ifndef EMULATION_EMULATION_H
#define EMULATION_EMULATION_H

#include "cuda_runtime.h"

struct emulation_kernel				/* a launch */
{
	const void *function;
	emulation_run_fn run;
	const void *call;
	dim3		grid;
	dim3		block;
};

/* Runs all blocks.  false: it failed, and that was reported. */
extern bool emulation_grid(const emulation_kernel *kernel);

/* The kernel's name as far as the symbols tell. */
extern const char *emulation_name(const void *function);

/* A mistake of the code under test: printed with the seed, and the end of the process, unless a test wants to see it. */
extern void emulation_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Random numbers: splitmix64 of the seed. */
extern uint64_t emulation_random();

/* 0 … n − 1 */
static inline uint32_t
emulation_below(uint32_t n)
{
	return (uint32_t) ((emulation_random() >> 32) * n >> 32);
}

#endif /* EMULATION_EMULATION_H */
