/*
 * narrow.h
 *	  Products of packed weights in fewer bits than float32: bf16 and int8.
 *
 * Nouns
 *	group		four bytes along K: two numbers of bf16, or four of int8; what an instruction
 *				multiplies and adds up in one lane
 *	panel		`panel` columns of a weight: the columns' groups of k = 0 …, then the next ones'
 *	chain		which of the two orders of summation in bf16: see device.h
 *
 * Invariants
 *	Kernels of one precision and chain give the same bits; int8 has none, its sums are exact.
 *	A weight is filled with zeros to `fill` along K and to whole panels.  Of x nothing behind K is
 *	read as a number of bf16, where it might be NaN; the bytes behind K of int8 meet zeros.
 */
#ifndef ENGINE_CPU_NARROW_H
#define ENGINE_CPU_NARROW_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_attention;

#define NARROW_GROUP	4			/* bytes */

struct cpu_narrow_product
{
	const uint8_t *x;				/* row m at m · x_step: bf16, or Q8 */
	int64_t		x_step;				/* bytes */
	const uint8_t *b;				/* panel p at p · b_panel */
	int64_t		b_panel;			/* bytes */
	float	   *y;					/* of row m0 and the first column of panel p0 */
	int64_t		y_step;				/* elements */
	const float *bias;				/* or NULL */
	int64_t		bias_step;			/* 1, or 0: a scalar */
	const float *scales;			/* int8, of each column, the last panel's filled with zeros; */
	const int32_t *offsets;			/* minus DEVICE_Q8_ZERO times the sum of its numbers, filled too */
	int64_t		k;
	int64_t		n;					/* columns in all */
};

struct cpu_narrow_kernels
{
	const char *name;				/* "avx512-bf16" */
	bool		tiles;				/* bf16: the chain */
	int			panel;				/* columns */
	int			rows;				/* of the largest tile */
	int			rows_step;			/* blocks of rows should begin on a multiple of it */
	int			fill;				/* numbers along K: a multiple of this many are packed */

	/* Rows [m0, m1) of the panels [p0, p1). */
	void		(*product) (const struct cpu_narrow_product *product, int64_t m0, int64_t m1,
							int64_t p0, int64_t p1);

	/* Independent multiply-adds, to measure with; returns the number of operations.  NULL: none. */
	double		(*peak) (int64_t rounds);
};

/* Conversions, which have one result everywhere. */
struct cpu_narrow_casts
{
	void		(*bf16_of_f32) (const float *x, uint16_t *y, int64_t n);
	void		(*f32_of_bf16) (const uint16_t *x, float *y, int64_t n);
	void		(*f32_of_f16) (const uint16_t *x, float *y, int64_t n);

	/* y: n bytes and a scale: device.h. */
	void		(*quantise) (const float *x, uint8_t *y, int64_t n);
};

/* What a vector of greatest magnitude `most` (infinity: one that is not finite) is multiplied by, and its scale. */
static inline void
cpu_q8_scale(float most, float *factor, float *scale)
{
	if (!(most <= FLT_MAX))
	{
		*factor = 0;
		*scale = NAN;
	}
	else if (most < 0x1p-100f)
	{
		*factor = 0;
		*scale = 0;
	}
	else
	{
		*factor = 127 / most;
		*scale = most / 127;
	}
}

extern const struct cpu_narrow_kernels cpu_bf16_scalar;
extern const struct cpu_narrow_kernels cpu_int8_scalar;
extern const struct cpu_narrow_casts cpu_casts_scalar;
extern const struct cpu_narrow_kernels cpu_bf16_tiles;	/* in software */
extern const struct cpu_narrow_kernels cpu_int8_tiles;
#ifdef __x86_64__
extern const struct cpu_narrow_kernels cpu_bf16_plain_avx2;
extern const struct cpu_narrow_kernels cpu_int8_plain_avx2;
extern const struct cpu_narrow_kernels cpu_int8_vnni_avx2;
extern const struct cpu_narrow_casts cpu_casts_avx2;
extern const struct cpu_narrow_kernels cpu_bf16_plain_avx512;
extern const struct cpu_narrow_kernels cpu_int8_plain_avx512;
extern const struct cpu_narrow_kernels cpu_int8_vnni_avx512;
extern const struct cpu_narrow_kernels cpu_bf16_avx512;
extern const struct cpu_narrow_casts cpu_casts_avx512;
extern const struct cpu_narrow_casts cpu_casts_bf16_avx512;
extern const struct cpu_narrow_kernels cpu_bf16_amx;
extern const struct cpu_narrow_kernels cpu_int8_amx;
extern void cpu_attention_bf16_avx512(const struct cpu_attention *attention, int64_t q0, int64_t q1);
extern void cpu_bf16_of_f32_avx512(const float *x, uint16_t *y, int64_t n);	/* AVX512_BF16 */
#endif

#endif							/* ENGINE_CPU_NARROW_H */
