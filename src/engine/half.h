/*
 * half.h
 *	  Numbers of two bytes, to and from float32: IEEE 754's binary16, and bfloat16, the upper
 *	  half of a float32.
 *
 * A bfloat16 is never denormal here: what would be one becomes a zero of its sign, as the
 * instructions that multiply such numbers read it (VCVTNEPS2BF16 writes it so, too).
 */
#ifndef ENGINE_HALF_H
#define ENGINE_HALF_H

#include <stdint.h>
#include <string.h>

#define HALF_F32_SIGN		0x80000000u
#define HALF_F32_INFINITY	0x7F800000u

static inline float
half_f32_of_bits(uint32_t bits)
{
	float		x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static inline uint32_t
half_bits_of_f32(float x)
{
	uint32_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static inline float
half_f32_of_bf16(uint16_t x)
{
	return half_f32_of_bits((uint32_t) x << 16);
}

/* To nearest, halves to even; a NaN stays one, and is quiet. */
static inline uint16_t
half_bf16_of_f32(float x)
{
	uint32_t	bits = half_bits_of_f32(x);

	if ((bits & ~HALF_F32_SIGN) > HALF_F32_INFINITY)
		return (uint16_t) (bits >> 16 | 0x40);
	if ((bits & HALF_F32_INFINITY) == 0)
		return (uint16_t) (bits >> 16 & 0x8000);
	return (uint16_t) ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Exact. */
static inline float
half_f32_of_f16(uint16_t x)
{
	uint32_t	sign = (uint32_t) (x & 0x8000) << 16;
	uint32_t	rest = x & 0x7FFF;

	if (rest >= 0x7C00)			/* infinity, NaN */
		return half_f32_of_bits(sign | HALF_F32_INFINITY | (rest & 0x3FF) << 13 | (rest > 0x7C00) << 22);
	if (rest >= 0x400)
		return half_f32_of_bits(sign | ((rest << 13) + (112u << 23)));
	return half_f32_of_bits(sign | half_bits_of_f32((float) rest * 0x1p-24f));
}

#endif							/* ENGINE_HALF_H */
