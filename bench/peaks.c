/*
 * peaks.c
 *	  What one core of this machine can do: multiply-adds of each instruction set, and the
 *	  rate at which it reads memory that no cache holds.  Benchmarks state shares of these.
 *
 *	peaks
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/kernels/kernels.h"

#define TRIES			10
#define READ_BYTES		((size_t) 512 << 20)

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void
peak(const char *arch, const char *type, const struct cpu_float_kernels *kernels, int64_t rounds)
{
	double		best = 0;

	for (int i = 0; i < TRIES; i++)
	{
		double		start = now();
		double		rate = kernels->peak(rounds) / (now() - start);

		best = rate > best ? rate : best;
	}
	printf("peak %-6s %s  %7.1f GFLOP/s\n", arch, type, best / 1e9);
}

static void
peaks(const struct cpu_kernels *kernels, int64_t rounds)
{
	peak(kernels->arch, "f32", &kernels->f32, rounds);
	peak(kernels->arch, "f64", &kernels->f64, rounds);
}

/* Eight streams of sums, so that nothing but memory is waited for. */
static void
read_rate(void)
{
	uint64_t   *memory = malloc(READ_BYTES);
	size_t		words = READ_BYTES / sizeof(*memory);
	double		best = 0;
	volatile uint64_t sink = 0;

	if (memory == NULL)
		return;
	memset(memory, 1, READ_BYTES);
	for (int i = 0; i < TRIES; i++)
	{
		uint64_t	sums[8] = {0};
		double		start = now();
		double		rate;

		for (size_t w = 0; w < words; w += 8)
			for (int j = 0; j < 8; j++)
				sums[j] += memory[w + (size_t) j];
		rate = (double) READ_BYTES / (now() - start);
		best = rate > best ? rate : best;
		for (int j = 0; j < 8; j++)
			sink += sums[j];
	}
	(void) sink;
	printf("read from memory  %7.1f GB/s\n", best / 1e9);
	free(memory);
}

int
main(void)
{
	peaks(&cpu_kernels_scalar, 20000);
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		peaks(&cpu_kernels_avx2, 300000);
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
		__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		peaks(&cpu_kernels_avx512, 300000);
#endif
	read_rate();
	return 0;
}
