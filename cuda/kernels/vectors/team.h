/*
 * team.h
 *	  Threads that share a vector of one item's elements, and what they fold it to.
 *
 * Nouns
 *	vector		elements of one item that lie a step apart
 *	team		the threads that share a vector: 1, 16 or TEAM_BLOCK.  How many follows from the vectors' length and step
 *				alone, never from their number
 *	fold		a struct with S start(), S step(S sum, int64_t i) for element i, S join(S a, S b), where a is of earlier
 *				elements; what it comes to is known to all threads of the team
 *
 * Elements are folded into partial sums, sum l of the elements l, l + 16, … (teams of 1 and 16, as on the CPU device) or
 * l, l + TEAM_BLOCK, …; the sums are joined in a tree, l with l + 8 first, in teams of TEAM_BLOCK l with l + 16, and then the
 * warps' in order.
 */
#ifndef CUDA_KERNELS_TEAM_H
#define CUDA_KERNELS_TEAM_H

#include "../kernel.h"

#define TEAM_PARTS		16
#define TEAM_BLOCK		256			/* threads of a block, whatever the teams */
#define TEAM_SHORT		8			/* vectors up to this length are one thread's; */
#define TEAM_LONG		2048		/* those longer than this a block's */

static inline int
gpu_team_choose(int64_t length, bool contiguous)
{
	if (length > TEAM_LONG)
		return TEAM_BLOCK;
	return contiguous && length > TEAM_SHORT ? TEAM_PARTS : 1;
}

template <class S>
struct gpu_team_sums
{
	S			of_warp[TEAM_BLOCK / 32];
};

template <int SHARERS>
struct gpu_team
{
	/* The team's vector, and that after it: for (u = first(); goes_on(u, count); u += teams()) */
	static __device__ inline uint64_t
	first()
	{
		return gpu_thread() / SHARERS;
	}

	static __device__ inline uint64_t
	teams()
	{
		return gpu_threads() / SHARERS;
	}

	/* Threads that exchange values go on together: u may be beyond the last vector. */
	static __device__ inline bool
	goes_on(uint64_t u, uint64_t count)
	{
		return (SHARERS == TEAM_PARTS ? u & ~(uint64_t) 1 : u) < count;
	}

	static __device__ inline int64_t
	lane()
	{
		return SHARERS == 1 ? 0 : threadIdx.x % SHARERS;
	}

	/* Lanes that are `half` apart; the lower one's comes first. */
	template <class F, class S>
	static __device__ inline S
	exchange(const F &fold, S sum, int half)
	{
		S			other = __shfl_xor_sync(0xFFFFFFFF, sum, half);

		return (threadIdx.x & half) != 0 ? fold.join(other, sum) : fold.join(sum, other);
	}

	/* One thread's sums one after the other: what is loaded at a time lies side by side with what its neighbours load. */
	template <class F>
	static __device__ inline auto
	alone(const F &fold, int64_t n) -> decltype(fold.start())
	{
		decltype(fold.start()) sums[TEAM_PARTS];

#pragma unroll 1
		for (int part = 0; part < TEAM_PARTS; part++)
		{
			decltype(fold.start()) sum = fold.start();

			for (int64_t i = part; i < n; i += TEAM_PARTS)
				sum = fold.step(sum, i);
			sums[part] = sum;
		}
		for (int half = TEAM_PARTS / 2; half > 0; half /= 2)
			for (int part = 0; part < half; part++)
				sums[part] = fold.join(sums[part], sums[part + half]);
		return sums[0];
	}

	template <class F>
	static __device__ inline auto
	shared(const F &fold, int64_t n) -> decltype(fold.start())
	{
		typedef decltype(fold.start()) S;
		S			sum = fold.start();

		for (int64_t i = lane(); i < n; i += SHARERS)
			sum = fold.step(sum, i);
		for (int half = SHARERS == TEAM_PARTS ? 8 : 16; half > 0; half /= 2)
			sum = exchange(fold, sum, half);
		if constexpr (SHARERS == TEAM_BLOCK)
		{
			gpu_team_sums<S> &sums = gpu_shared<gpu_team_sums<S>>();

			if (threadIdx.x % 32 == 0)
				sums.of_warp[threadIdx.x / 32] = sum;
			__syncthreads();
			sum = sums.of_warp[0];
			for (int w = 1; w < TEAM_BLOCK / 32; w++)
				sum = fold.join(sum, sums.of_warp[w]);
			__syncthreads();
		}
		return sum;
	}

	template <class F>
	static __device__ inline auto
	fold(const F &fold, int64_t n) -> decltype(fold.start())
	{
		if constexpr (SHARERS == 1)
			return alone(fold, n);
		else
			return shared(fold, n);
	}

	/* All have read what they fold. */
	static __device__ inline void
	meet()
	{
		if (SHARERS == TEAM_PARTS)
			__syncwarp();
		else if (SHARERS == TEAM_BLOCK)
			__syncthreads();
	}
};

/* What team is to launch a kernel of: kernel<…, 1>, <…, 16> or <…, TEAM_BLOCK>, in blocks of TEAM_BLOCK threads. */
static inline uint64_t
gpu_team_threads(int sharers, uint64_t vectors)
{
	return (uint64_t) sharers * vectors;
}

#endif /* CUDA_KERNELS_TEAM_H */
