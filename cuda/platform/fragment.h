/*
 * fragment.h
 *	  What a lane holds of the matrices of a tensor core's product, and where it finds them; included by both tensor.h,
 *	  which have the instructions.
 *
 * Layouts: PTX ISA, chapter "Warp-level Matrix Instructions", mma.m16n8k16 with .bf16, mma.m16n8k32 with .s8 and .u8, and
 * ldmatrix.  In all of them a lane's register has 4 bytes of k: of a row of a, or of a column of b.  Registers of a: rows
 * 0 to 7 and 8 to 15 of the first 16 bytes of k, then the same of the other 16; of b: the first 16 bytes, the other 16.
 */
#ifndef CUDA_PLATFORM_FRAGMENT_H
#define CUDA_PLATFORM_FRAGMENT_H

struct tensor_a
{
	uint32_t	r[4];
};

struct tensor_b
{
	uint32_t	r[2];
};

struct tensor_f32
{
	float		r[4];
};

struct tensor_s32
{
	int32_t		r[4];
};

static __device__ inline unsigned
tensor_lane()
{
	return threadIdx.x % 32;
}

/* Of sums. */
static __device__ inline int
tensor_row(unsigned lane, int i)
{
	return (int) (lane / 4) + i / 2 * 8;
}

static __device__ inline int
tensor_column(unsigned lane, int i)
{
	return (int) (lane % 4) * 2 + i % 2;
}

/*
 * ldmatrix, in tensor.h: matrices of 8 rows of 16 bytes in shared memory.  A lane gives the address of one row: of
 * matrix lane / 8 the row lane % 8 (of two matrices, the lanes 0 to 15 do), and gets the 4 bytes lane % 4 of each matrix's
 * row lane / 4; turned: the elements of 2 bytes (2 · (lane % 4), lane / 4) and (2 · (lane % 4) + 1, lane / 4).
 */
static __device__ inline void tensor_matrices(uint32_t &r0, uint32_t &r1, const void *row);
static __device__ inline void tensor_matrices(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const void *row);
static __device__ inline void tensor_matrices_turned(uint32_t &r0, uint32_t &r1, const void *row);
static __device__ inline void tensor_matrices_turned(uint32_t &r0, uint32_t &r1, uint32_t &r2, uint32_t &r3, const void *row);

/* Two numbers as bf16. */
static __device__ inline uint32_t tensor_pair(float low, float high);

/* ---- operands out of shared memory: place(i, half) is where row or column i has 16 bytes of k, the first or the other ---- */

template <class PLACE>
static __device__ inline void
tensor_load_a_placed(tensor_a &a, PLACE place)
{
	unsigned	lane = tensor_lane();

	tensor_matrices(a.r[0], a.r[1], a.r[2], a.r[3], place(lane % 16, lane / 16));
}

template <class PLACE>
static __device__ inline void
tensor_load_b_pair_placed(tensor_b &b0, tensor_b &b1, PLACE place)
{
	unsigned	lane = tensor_lane();

	tensor_matrices(b0.r[0], b0.r[1], b1.r[0], b1.r[1], place(lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

/* stride: from one row to the next, in bytes */

static __device__ inline void
tensor_load_a(tensor_a &a, const void *base, unsigned stride)
{
	tensor_load_a_placed(a, [&](unsigned row, unsigned half)
						 {
							 return (const uint8_t *) base + row * stride + half * 16;
						 });
}

static __device__ inline void
tensor_load_b(tensor_b &b, const void *base, unsigned stride)
{
	unsigned	lane = tensor_lane();

	tensor_matrices(b.r[0], b.r[1], (const uint8_t *) base + lane % 8 * stride + lane / 8 % 2 * 16);
}

static __device__ inline void
tensor_load_b_pair(tensor_b &b0, tensor_b &b1, const void *base, unsigned stride)
{
	tensor_load_b_pair_placed(b0, b1, [&](unsigned column, unsigned half)
							  {
								  return (const uint8_t *) base + column * stride + half * 16;
							  });
}

static __device__ inline void
tensor_load_b_turned(tensor_b &b, const void *base, unsigned stride)
{
	tensor_matrices_turned(b.r[0], b.r[1], (const uint8_t *) base + tensor_lane() % 16 * stride);
}

static __device__ inline void
tensor_load_b_pair_turned(tensor_b &b0, tensor_b &b1, const void *base, unsigned stride)
{
	unsigned	lane = tensor_lane();

	tensor_matrices_turned(b0.r[0], b0.r[1], b1.r[0], b1.r[1], (const uint8_t *) base + lane % 16 * stride + lane / 16 * 16);
}

/* left: the columns 0 to 7 */
static __device__ inline void
tensor_pack(tensor_a &a, const tensor_f32 &left, const tensor_f32 &right)
{
	a.r[0] = tensor_pair(left.r[0], left.r[1]);
	a.r[1] = tensor_pair(left.r[2], left.r[3]);
	a.r[2] = tensor_pair(right.r[0], right.r[1]);
	a.r[3] = tensor_pair(right.r[2], right.r[3]);
}

#endif /* CUDA_PLATFORM_FRAGMENT_H */
