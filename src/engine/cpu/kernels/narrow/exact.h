/*
 * exact.h
 *	  The arithmetic of bf16 products, one number at a time: what VDPBF16PS and TDPBF16PS do,
 *	  whatever the state of the floating-point unit (Intel, Software Developer's Manual: "DAZ,
 *	  FTZ, RNE").
 */
#ifndef NARROW_EXACT_H
#define NARROW_EXACT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../../../half.h"

#define EXACT_LEAST		0x1p-126f	/* the least normal number */

static inline float
exact_flush(float x)
{
	return fabsf(x) < EXACT_LEAST ? copysignf(0, x) : x;
}

/*
 * a · b + c with one rounding, where denormals are zeros.  Whether a result is denormal is
 * seen after rounding, to 24 bits as if exponents had no end: less than half of its last
 * place below the least normal number.
 */
static inline float
exact_multiply_add(float a, float b, float c)
{
	float		sum;

	a = exact_flush(a);
	b = exact_flush(b);
	c = exact_flush(c);
	sum = fmaf(a, b, c);
	if (fabsf(sum) == EXACT_LEAST && fabs((double) a * (double) b + (double) c) < 0x1p-126 - 0x1p-151)
		return copysignf(0, sum);
	return exact_flush(sum);
}

static inline float
exact_bf16_at(const uint8_t *at)
{
	uint16_t	x;

	memcpy(&x, at, sizeof(x));
	return half_f32_of_bf16(x);
}

/* The one NaN. */
static inline float
exact_canonical(float x)
{
	return x != x ? half_f32_of_bits(0x7FC00000) : x;
}

#endif							/* NARROW_EXACT_H */
