/*
 * half.h
 *	  Numbers of two bytes to and from float32, on both sides: the rules of CAST in device.h.
 *
 * A bfloat16 is never denormal here: what would be one is a zero of its sign.
 */
#ifndef CUDA_KERNELS_HALF_H
#define CUDA_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

#include <gpu_platform.h>

static __host__ __device__ inline float
gpu_f32_of_bits(uint32_t bits)
{
	float		x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static __host__ __device__ inline uint32_t
gpu_bits_of_f32(float x)
{
	uint32_t	bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static __host__ __device__ inline float
gpu_f32_of_bf16(uint16_t x)
{
	return gpu_f32_of_bits((uint32_t) x << 16);
}

/* To nearest, halves to even; a NaN stays one, and is quiet. */
static __host__ __device__ inline uint16_t
gpu_bf16_of_f32(float x)
{
	uint32_t	bits = gpu_bits_of_f32(x);

	if ((bits & 0x7FFFFFFF) > 0x7F800000)
		return (uint16_t) (bits >> 16 | 0x40);
	if ((bits & 0x7F800000) == 0)
		return (uint16_t) (bits >> 16 & 0x8000);
	return (uint16_t) ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Exact. */
static __host__ __device__ inline float
gpu_f32_of_f16(uint16_t x)
{
	uint32_t	sign = (uint32_t) (x & 0x8000) << 16;
	uint32_t	rest = x & 0x7FFF;

	if (rest >= 0x7C00)				/* infinity, NaN */
		return gpu_f32_of_bits(sign | 0x7F800000 | (rest & 0x3FF) << 13 | (uint32_t) (rest > 0x7C00) << 22);
	if (rest >= 0x400)
		return gpu_f32_of_bits(sign | ((rest << 13) + (112u << 23)));
	return gpu_f32_of_bits(sign | gpu_bits_of_f32((float) rest * 0x1p-24f));
}

#endif /* CUDA_KERNELS_HALF_H */
