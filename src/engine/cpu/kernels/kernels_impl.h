/*
 * kernels_impl.h
 *	  All kernels, once; compiled by kernels_scalar.c, kernels_avx2.c and kernels_avx512.c.
 *
 * The including file defines, with the prefix vf_ for float and vd_ for double:
 *	 t, m				types of a vector and of a mask of lanes
 *	 WIDTH				lanes
 *	 set1 load store	load_mask (other lanes are 0), store_mask
 *	 add sub mul div sqrt fma(a, b, c) = a·b + c, one rounding
 *	 floor ceil rint trunc abs neg
 *	 lt le eq unord		comparisons: masks
 *	 first(n)			the mask of lanes 0 … n − 1
 *	 select(m, a, b)	lane by lane m ? a : b
 *	 either both but(a, b) = a and not b	masks
 *	 bits(m)			lane i of a mask as bit i
 *	 copysign(x, s)		the magnitude of x, the sign of s
 *	 lesser(a, b)		a < b ? a : b
 *	 scale(x, n)		x · 2^n for integral n, x and the result normal; NaN if n is
 *	 pow2(n)			2^n for integral n within the normal exponents; float: 0 for the one below them
 *	 greater(a, b)		a > b ? a : b
 *	 transpose(rows)	WIDTH vectors as a square matrix; float alone
 *	 exponent(x), mantissa(x)	x = mantissa · 2^exponent, mantissa in [0.5, 1); x normal, > 0
 *	 TILE_ROWS			rows of the largest product tile (of two vectors)
 *	 KERNEL_ARCH, KERNEL_TABLE	the table's name
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../device.h"
#include "kernels.h"
#include "kernels_unroll.h"

#define INLINE	static inline __attribute__((always_inline, unused))

#define PEAK_SUMS	12				/* more than latency × units, fewer than registers */
#define EACH_MAX	(TILE_ROWS == 14 ? 4 : 2)	/* vectors of a function at a time: with what they need, in registers */

#define PASTE_(a, b)	a##b
#define PASTE(a, b)		PASTE_(a, b)

/* Inverse of the normal distribution (UNARY_PROBIT): P. J. Acklam's rational approximation
 * and one step of Halley's method; relative error below 1e-14. */
static double __attribute__((unused))
probit(double p)
{
	static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
	1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00};
	static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
	6.680131188771972e+01, -1.328068155288572e+01};
	static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
	-2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00};
	static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
	3.754408661907416e+00};
	double		x;
	double		e;

	if (!(p > 0 && p < 1))
		return p == 0 ? -INFINITY : p == 1 ? INFINITY : NAN;
	if (p < 0.02425 || p > 1 - 0.02425)
	{
		double		q = sqrt(-2 * log(p < 0.5 ? p : 1 - p));

		x = (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
			((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
		if (p > 0.5)
			x = -x;
	}
	else
	{
		double		q = p - 0.5;
		double		r = q * q;

		x = (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
			(((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
	}
	e = (0.5 * erfc(-x / 1.4142135623730951) - p) * 2.5066282746310002 * exp(x * x / 2);
	return x - e / (1 + x * e / 2);
}

#define T			float
#define V(name)		PASTE(vf_, name)
#define N(name)		PASTE(name, _f32)
#define LIBM(name)	PASTE(name, f)
#define IS_F32		1
#include "kernels_math.h"
#include "kernels_product.h"
#include "kernels_float.h"
#include "kernels_vector.h"
#include "kernels_attention.h"
#include "kernels_sequence.h"
#undef T
#undef V
#undef N
#undef LIBM
#undef IS_F32

#define T			double
#define V(name)		PASTE(vd_, name)
#define N(name)		PASTE(name, _f64)
#define LIBM(name)	name
#define IS_F32		0
#include "kernels_math.h"
#include "kernels_product.h"
#include "kernels_float.h"
#include "kernels_vector.h"
#undef T
#undef V
#undef N
#undef LIBM
#undef IS_F32

#define KERNELS_OF(SUFFIX, TYPE, WIDTH) \
	{ \
		.bytes = sizeof(TYPE), \
		.panel = 2 * WIDTH, \
		.rows = TILE_ROWS, \
		.product = product##SUFFIX, \
		.peak = peak##SUFFIX, \
		.unary = unary##SUFFIX, \
		.unary_rows = unary_rows##SUFFIX, \
		.test = test##SUFFIX, \
		.binary = binary##SUFFIX, \
		.compare = compare##SUFFIX, \
		.reduce_start = reduce_start##SUFFIX, \
		.reduce_add = reduce_add##SUFFIX, \
		.reduce_finish = reduce_finish##SUFFIX, \
		.softmax = softmax##SUFFIX, \
		.normalize = normalize##SUFFIX \
	}

const struct cpu_kernels KERNEL_TABLE = {
	.arch = KERNEL_ARCH,
	.f32 = KERNELS_OF(_f32, float, vf_WIDTH),
	.f64 = KERNELS_OF(_f64, double, vd_WIDTH),
	.sequence = {.attention = attention, .norm = norm, .rotary = rotary, .pool = pool}
};
