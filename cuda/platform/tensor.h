/*
 * tensor.h
 *	  Products by tensor cores, what brings their operands from shared memory, and copies that nobody waits for.
 *	  test/kernels/emulation has a file of the same name, with the same instructions for the CPU.
 *
 * Nouns
 *	fragment	a lane's part of a matrix that a warp holds (fragment.h).  a: 16 rows of 32 bytes of k; b: 32 bytes of k of
 *				8 columns; sums: 16 × 8
 *	row			16 bytes in shared memory, aligned to 16
 *
 * tensor_load_a()				a, from 16 rows of 32 bytes: [16][k]
 * tensor_load_b()				b of 8 columns, each of which lies as 32 bytes of k: [n][k]; _pair: of 16
 * tensor_load_b_turned()		b of 8 columns from 16 rows of k (bf16 only): [k][n]; _pair: of 16
 * tensor_multiply()			sums += a · b
 * tensor_load_a_placed(), tensor_load_b_pair_placed()
 *								the same where rows lie anywhere: place(i, half) is the address of half `half` of the 32 bytes
 *								of row i (of column i)
 * tensor_row(), _column()		which of a fragment of sums a lane's r[i] is
 * tensor_pack()				two fragments of sums, 16 × 16, rounded to bf16 as a; NaNs stay, denormals may
 * tensor_copy()				16 bytes from global to shared memory, both aligned to 16, or zeros; done after _commit and _wait
 *								and a barrier.  tensor_copy_wait<N>(): but for the N groups that were committed last
 * tensor_copy_word()			the same of 4 bytes, aligned to 4
 *
 * But for the copies, all lanes of a warp call these together, and all with the same base and stride.
 * r[] of a and of b is nobody's business: only these functions know what stands where.
 *
 * Only for sm_80 and later; the code of earlier ones traps, and no plan launches it.
 */
#ifndef CUDA_PLATFORM_TENSOR_H
#define CUDA_PLATFORM_TENSOR_H

#include <stdint.h>

#include <gpu_platform.h>

#define TENSOR_SM	80				/* the first that has them */

#include "fragment.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define TENSOR_MISSING	1
#else
#define TENSOR_MISSING	0
#endif

/* ---- operands out of shared memory ---- */

static __device__ inline uint32_t
tensor_shared(const void *pointer)
{
	return (uint32_t) __cvta_generic_to_shared(pointer);
}

static __device__ inline void
tensor_matrices(uint32_t &r0, uint32_t &r1, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
				 : "=r"(r0), "=r"(r1) : "r"(tensor_shared(row)) : "memory");
}

static __device__ inline void
tensor_matrices(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
				 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(tensor_shared(row)) : "memory");
}

static __device__ inline void
tensor_matrices_turned(uint32_t &r0, uint32_t &r1, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
				 : "=r"(r0), "=r"(r1) : "r"(tensor_shared(row)) : "memory");
}

static __device__ inline void
tensor_matrices_turned(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
				 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(tensor_shared(row)) : "memory");
}

/* ---- products ---- */

/* bf16, into float32 */
static __device__ inline void
tensor_multiply(tensor_f32 &sums, const tensor_a &a, const tensor_b &b)
{
#if TENSOR_MISSING
	__trap();
#else
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
				 "{%0, %1, %2, %3};"
				 : "+f"(sums.r[0]), "+f"(sums.r[1]), "+f"(sums.r[2]), "+f"(sums.r[3])
				 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
#endif
}

/* Numbers of one byte, which wrap around beyond 32 bits: both signed, or those of a from 0 to 255. */
static __device__ inline void
tensor_multiply_s8(tensor_s32 &sums, const tensor_a &a, const tensor_b &b)
{
#if TENSOR_MISSING
	__trap();
#else
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
				 "{%0, %1, %2, %3};"
				 : "+r"(sums.r[0]), "+r"(sums.r[1]), "+r"(sums.r[2]), "+r"(sums.r[3])
				 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
#endif
}

static __device__ inline void
tensor_multiply_u8(tensor_s32 &sums, const tensor_a &a, const tensor_b &b)
{
#if TENSOR_MISSING
	__trap();
#else
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
				 "{%0, %1, %2, %3};"
				 : "+r"(sums.r[0]), "+r"(sums.r[1]), "+r"(sums.r[2]), "+r"(sums.r[3])
				 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
#endif
}

static __device__ inline uint32_t
tensor_pair(float low, float high)
{
	uint32_t	pair = 0;

#if TENSOR_MISSING
	__trap();
#else
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
#endif
	return pair;
}

/* ---- copies ---- */

/* there: else zeros, and global is not read, but must be an address. */
static __device__ inline void
tensor_copy(void *shared, const void *global, bool there)
{
#if TENSOR_MISSING
	__trap();
#else
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
				 : : "r"(tensor_shared(shared)), "l"(__cvta_generic_to_global(global)), "r"(there ? 16 : 0) : "memory");
#endif
}

static __device__ inline void
tensor_copy_word(void *shared, const void *global, bool there)
{
#if TENSOR_MISSING
	__trap();
#else
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
				 : : "r"(tensor_shared(shared)), "l"(__cvta_generic_to_global(global)), "r"(there ? 4 : 0) : "memory");
#endif
}

static __device__ inline void
tensor_copy_commit()
{
#if !TENSOR_MISSING
	asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}

template <int GROUPS>
static __device__ inline void
tensor_copy_wait()
{
#if !TENSOR_MISSING
	asm volatile("cp.async.wait_group %0;" : : "n"(GROUPS) : "memory");
#endif
}

#endif /* CUDA_PLATFORM_TENSOR_H */
