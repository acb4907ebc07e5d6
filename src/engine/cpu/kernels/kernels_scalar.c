/*
 * kernels_scalar.c
 *	  The kernels with vectors of one lane: the reference, and what runs where no other
 *	  instruction set is supported.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define KERNEL_ARCH		"scalar"
#define KERNEL_TABLE	cpu_kernels_scalar

#define LANE static inline __attribute__((unused))

#define ONE_LANE(P, T, SUFFIX) \
typedef T P##t; \
typedef bool P##m; \
LANE T P##set1(T x) { return x; } \
LANE T P##load(const T *x) { return *x; } \
LANE void P##store(T *y, T v) { *y = v; } \
LANE T P##load_mask(const T *x, bool m) { return m ? *x : 0; } \
LANE void P##store_mask(T *y, bool m, T v) { if (m) *y = v; } \
LANE T P##add(T a, T b) { return a + b; } \
LANE T P##sub(T a, T b) { return a - b; } \
LANE T P##mul(T a, T b) { return a * b; } \
LANE T P##div(T a, T b) { return a / b; } \
LANE T P##fma(T a, T b, T c) { return fma##SUFFIX(a, b, c); } \
LANE T P##sqrt(T x) { return sqrt##SUFFIX(x); } \
LANE T P##floor(T x) { return floor##SUFFIX(x); } \
LANE T P##ceil(T x) { return ceil##SUFFIX(x); } \
LANE T P##rint(T x) { return rint##SUFFIX(x); } \
LANE T P##trunc(T x) { return trunc##SUFFIX(x); } \
LANE T P##abs(T x) { return fabs##SUFFIX(x); } \
LANE T P##neg(T x) { return -x; } \
LANE T P##lesser(T a, T b) { return a < b ? a : b; } \
LANE T P##scale(T x, T n) { return isnan(n) ? n : ldexp##SUFFIX(x, (int) n); } \
LANE T P##copysign(T x, T s) { return copysign##SUFFIX(x, s); } \
LANE bool P##lt(T a, T b) { return a < b; } \
LANE bool P##le(T a, T b) { return a <= b; } \
LANE bool P##eq(T a, T b) { return a == b; } \
LANE bool P##unord(T a, T b) { return a != a || b != b; } \
LANE bool P##first(int64_t n) { return n > 0; } \
LANE T P##select(bool m, T a, T b) { return m ? a : b; } \
LANE T P##greater(T a, T b) { return a > b ? a : b; } \
LANE bool P##either(bool a, bool b) { return a || b; } \
LANE bool P##both(bool a, bool b) { return a && b; } \
LANE bool P##but(bool a, bool b) { return a && !b; } \
static inline __attribute__((unused)) unsigned P##bits(bool m) { return m; }

ONE_LANE(vf_, float, f)
ONE_LANE(vd_, double, )

#define vf_WIDTH	1
#define vd_WIDTH	1

#define TILE_ROWS		4
#define TILE_PAIR_ROWS	1

LANE float
vf_pow2(float n)
{
	uint32_t	bits;
	float		power;

	if (isnan(n))
		return n;					/* it has no int */
	bits = (uint32_t) ((int) n + 127) << 23;
	memcpy(&power, &bits, sizeof(power));
	return power;
}

LANE void
vf_transpose(float *rows)
{
}

LANE float
vf_exponent(float x)
{
	int			e;

	frexpf(x, &e);
	return (float) e;
}

LANE float
vf_mantissa(float x)
{
	int			e;

	return frexpf(x, &e);
}

LANE double
vd_pow2(double n)
{
	return isnan(n) ? n : ldexp(1, (int) n);
}

LANE double
vd_exponent(double x)
{
	int			e;

	frexp(x, &e);
	return e;
}

LANE double
vd_mantissa(double x)
{
	int			e;

	return frexp(x, &e);
}

#include "kernels_impl.h"
