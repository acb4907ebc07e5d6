/*
 * tensor.h
 *	  Tensor cores on the CPU, for the tests: see cuda/platform/tensor.h.
 *
 * A lane's registers hold what the PTX ISA says they hold ("Warp-level Matrix Instructions", the figures of mma.m16n8k16
 * and of ldmatrix); a product reads those of the other lanes as they stand when all of them have come.  Sums over k are made
 * from its first element on and rounded once: a GPU may round elsewhere.
 */
#ifndef EMULATION_TENSOR_H
#define EMULATION_TENSOR_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <gpu_platform.h>

#define TENSOR_SM	80

#include "../../../cuda/platform/fragment.h"

/* ---- operands out of shared memory ---- */

/* The rows of a warp's matrices; to be followed by __syncwarp() when they have been read. */
static inline const uint8_t *const *
tensor_rows(const void *row)
{
	static const uint8_t *warps[EMULATION_THREADS_MAX / 32][32];
	const uint8_t **rows = warps[threadIdx.x / 32];

	rows[tensor_lane()] = (const uint8_t *) row;
	__syncwarp();
	return rows;
}

/* A lane's 4 bytes of a matrix. */
static inline uint32_t
tensor_matrix(const uint8_t *const *rows, bool turned)
{
	unsigned	lane = tensor_lane();
	uint32_t	pair;

	for (int i = 0; i < 8; i++)
		if ((uintptr_t) rows[i] % 16 != 0)
			__trap();
	if (turned)
	{
		memcpy(&pair, rows[lane % 4 * 2] + lane / 4 * 2, 2);
		memcpy((uint8_t *) &pair + 2, rows[lane % 4 * 2 + 1] + lane / 4 * 2, 2);
	}
	else
		memcpy(&pair, rows[lane / 4] + lane % 4 * 4, 4);
	return pair;
}

static inline void
tensor_matrices(uint32_t &r0, uint32_t &r1, const void *row)
{
	const uint8_t *const *rows = tensor_rows(row);

	r0 = tensor_matrix(rows, false);
	r1 = tensor_matrix(rows + 8, false);
	__syncwarp();
}

static inline void
tensor_matrices(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const void *row)
{
	const uint8_t *const *rows = tensor_rows(row);

	r0 = tensor_matrix(rows, false);
	r1 = tensor_matrix(rows + 8, false);
	r2 = tensor_matrix(rows + 16, false);
	r3 = tensor_matrix(rows + 24, false);
	__syncwarp();
}

static inline void
tensor_matrices_turned(uint32_t &r0, uint32_t &r1, const void *row)
{
	const uint8_t *const *rows = tensor_rows(row);

	r0 = tensor_matrix(rows, true);
	r1 = tensor_matrix(rows + 8, true);
	__syncwarp();
}

static inline void
tensor_matrices_turned(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const void *row)
{
	const uint8_t *const *rows = tensor_rows(row);

	r0 = tensor_matrix(rows, true);
	r1 = tensor_matrix(rows + 8, true);
	r2 = tensor_matrix(rows + 16, true);
	r3 = tensor_matrix(rows + 24, true);
	__syncwarp();
}

/* ---- products ---- */

struct tensor_operands				/* of a warp */
{
	tensor_a	a[32];
	tensor_b	b[32];
};

/* All lanes' operands; to be followed by __syncwarp() when they have been read. */
static inline const tensor_operands &
tensor_gather(const tensor_a &a, const tensor_b &b)
{
	static tensor_operands warps[EMULATION_THREADS_MAX / 32];
	tensor_operands &warp = warps[threadIdx.x / 32];

	warp.a[tensor_lane()] = a;
	warp.b[tensor_lane()] = b;
	__syncwarp();
	return warp;
}

static inline float
tensor_number(uint32_t pair, int half)
{
	return __uint_as_float(half == 0 ? pair << 16 : pair & 0xFFFF0000u);
}

static inline void
tensor_multiply(tensor_f32 &sums, const tensor_a &a, const tensor_b &b)
{
	const tensor_operands &warp = tensor_gather(a, b);

	for (int i = 0; i < 4; i++)
	{
		int			row = tensor_row(tensor_lane(), i);
		int			column = tensor_column(tensor_lane(), i);
		double		sum = 0;

		for (int k = 0; k < 16; k++)
		{
			uint32_t	from_a = warp.a[row % 8 * 4 + k % 8 / 2].r[row / 8 + k / 8 * 2];
			uint32_t	from_b = warp.b[column * 4 + k % 8 / 2].r[k / 8];

			sum += (double) tensor_number(from_a, k % 2) * (double) tensor_number(from_b, k % 2);
		}
		sums.r[i] = (float) ((double) sums.r[i] + sum);
	}
	__syncwarp();
}

/* a_signed: else its bytes are 0 to 255 */
static inline void
tensor_multiply_bytes(tensor_s32 &sums, const tensor_a &a, const tensor_b &b, bool a_signed)
{
	const tensor_operands &warp = tensor_gather(a, b);

	for (int i = 0; i < 4; i++)
	{
		int			row = tensor_row(tensor_lane(), i);
		int			column = tensor_column(tensor_lane(), i);
		uint32_t	sum = (uint32_t) sums.r[i];

		for (int k = 0; k < 32; k++)
		{
			uint32_t	from_a = warp.a[row % 8 * 4 + k % 16 / 4].r[row / 8 + k / 16 * 2] >> (k % 4 * 8) & 255;
			uint32_t	from_b = warp.b[column * 4 + k % 16 / 4].r[k / 16] >> (k % 4 * 8) & 255;

			sum += (uint32_t) ((a_signed ? (int8_t) from_a : (int) from_a) * (int8_t) from_b);
		}
		sums.r[i] = (int32_t) sum;
	}
	__syncwarp();
}

static inline void
tensor_multiply_s8(tensor_s32 &sums, const tensor_a &a, const tensor_b &b)
{
	tensor_multiply_bytes(sums, a, b, true);
}

static inline void
tensor_multiply_u8(tensor_s32 &sums, const tensor_a &a, const tensor_b &b)
{
	tensor_multiply_bytes(sums, a, b, false);
}

static inline uint32_t
tensor_rounded(float x)
{
	uint32_t	bits = __float_as_uint(x);

	return x != x ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static inline uint32_t
tensor_pair(float low, float high)
{
	return tensor_rounded(low) | tensor_rounded(high) << 16;
}

/* ---- copies: made as late as is allowed, so that a wait that is missing shows ---- */

struct tensor_copies				/* of a thread; a group's copies follow one another */
{
	enum
	{
		MOST = 256
	};
	uint8_t    *to[MOST];
	const uint8_t *from[MOST];		/* NULL: zeros */
	uint32_t	bytes[MOST];
	uint32_t	group[MOST];
	uint32_t	count;
	uint32_t	groups;				/* committed */
	uint64_t	block;				/* of emulation_blocks */
};

static inline tensor_copies &
tensor_pending()
{
	static tensor_copies threads[EMULATION_THREADS_MAX];
	tensor_copies &copies = threads[threadIdx.x];

	/* a block that failed took its shared memory along */
	if (copies.block != emulation_blocks)
		copies.count = 0;
	copies.block = emulation_blocks;
	return copies;
}

/* Makes those of the groups before `group`. */
static inline void
tensor_copy_until(uint32_t group)
{
	tensor_copies &copies = tensor_pending();
	uint32_t	left = 0;

	for (uint32_t i = 0; i < copies.count; i++)
	{
		if ((int32_t) (copies.group[i] - group) < 0)
		{
			if (copies.from[i] != nullptr)
				memcpy(copies.to[i], copies.from[i], copies.bytes[i]);
			else
				memset(copies.to[i], 0, copies.bytes[i]);
			continue;
		}
		copies.to[left] = copies.to[i];
		copies.from[left] = copies.from[i];
		copies.bytes[left] = copies.bytes[i];
		copies.group[left++] = copies.group[i];
	}
	emulation_copies -= copies.count - left;
	copies.count = left;
}

static inline void
tensor_copy_bytes(void *shared, const void *global, bool there, uint32_t bytes)
{
	tensor_copies &copies = tensor_pending();

	if ((uintptr_t) shared % bytes != 0 || (uintptr_t) global % bytes != 0 || copies.count == tensor_copies::MOST)
		__trap();
	copies.bytes[copies.count] = bytes;
	copies.to[copies.count] = (uint8_t *) shared;
	copies.from[copies.count] = there ? (const uint8_t *) global : nullptr;
	copies.group[copies.count++] = copies.groups;
	emulation_copies++;
}

static inline void
tensor_copy(void *shared, const void *global, bool there)
{
	tensor_copy_bytes(shared, global, there, 16);
}

static inline void
tensor_copy_word(void *shared, const void *global, bool there)
{
	tensor_copy_bytes(shared, global, there, 4);
}

static inline void
tensor_copy_commit()
{
	tensor_pending().groups++;
}

template <int GROUPS>
static inline void
tensor_copy_wait()
{
	tensor_copy_until(tensor_pending().groups - GROUPS);
}

#endif /* EMULATION_TENSOR_H */
