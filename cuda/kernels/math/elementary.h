/*
 * elementary.h
 *	  Elementary functions for float and double: what the functions of device.h are made of.
 *
 * gpu_exp, gpu_log, gpu_tanh, …; NaNs are not yet the one NaN.
 *
 * Formulas and coefficients are those of src/engine/cpu/kernels/kernels_math.h, where they are explained, and are made of
 * operations that IEEE 754 defines: so these functions have the CPU device's bits, as test/kernels/math.c checks.
 */
#ifndef CUDA_KERNELS_ELEMENTARY_H
#define CUDA_KERNELS_ELEMENTARY_H

#include <math.h>

#include "../kernel.h"

/* ---- operations of both types ---- */

static __device__ inline float
gpu_fma(float a, float b, float c)
{
	return fmaf(a, b, c);
}

static __device__ inline double
gpu_fma(double a, double b, double c)
{
	return fma(a, b, c);
}

static __device__ inline float
gpu_abs(float x)
{
	return fabsf(x);
}

static __device__ inline double
gpu_abs(double x)
{
	return fabs(x);
}

static __device__ inline float
gpu_sqrt(float x)
{
	return sqrtf(x);
}

static __device__ inline double
gpu_sqrt(double x)
{
	return sqrt(x);
}

static __device__ inline float
gpu_rint(float x)
{
	return rintf(x);
}

static __device__ inline double
gpu_rint(double x)
{
	return rint(x);
}

static __device__ inline float
gpu_floor(float x)
{
	return floorf(x);
}

static __device__ inline double
gpu_floor(double x)
{
	return floor(x);
}

static __device__ inline float
gpu_copysign(float x, float sign)
{
	return copysignf(x, sign);
}

static __device__ inline double
gpu_copysign(double x, double sign)
{
	return copysign(x, sign);
}

/* NaN if either is. */
template <class T>
__device__ inline T
gpu_max(T a, T b)
{
	return b < a || a != a ? a : b;
}

template <class T>
__device__ inline T
gpu_min(T a, T b)
{
	return a < b || a != a ? a : b;
}

/* c0 + c1 x + … */
template <class T>
__device__ inline T
gpu_polynomial(T x, T c)
{
	return c;
}

template <class T, class... C>
__device__ inline T
gpu_polynomial(T x, T c, C... rest)
{
	return gpu_fma(gpu_polynomial(x, rest...), x, c);
}

/* 2^n for integral n within the normal exponents; float: 0 for the one below them.  NaN if n is. */
static __device__ inline float
gpu_pow2(float n)
{
	return n != n ? n : __int_as_float((int) ((unsigned) ((int) n + 127) << 23));
}

static __device__ inline double
gpu_pow2(double n)
{
	return n != n ? n : __longlong_as_double((long long) ((unsigned long long) ((int) n + 1023) << 52));
}

/* x = mantissa · 2^exponent, mantissa in [0.5, 1); x normal and positive. */
static __device__ inline float
gpu_exponent(float x)
{
	return (float) ((__float_as_int(x) >> 23 & 0xFF) - 126);
}

static __device__ inline float
gpu_mantissa(float x)
{
	return __int_as_float((__float_as_int(x) & 0x7FFFFF) | 126 << 23);
}

static __device__ inline double
gpu_exponent(double x)
{
	return (double) ((int) (__double_as_longlong(x) >> 52 & 0x7FF) - 1022);
}

static __device__ inline double
gpu_mantissa(double x)
{
	return __longlong_as_double((__double_as_longlong(x) & 0xFFFFFFFFFFFFFLL) | 1022LL << 52);
}

/* ---- the types' constants and polynomials ---- */

template <class T>
struct gpu_terms;

template <>
struct gpu_terms<float>
{
	static constexpr float exp_low = -104.0f;
	static constexpr float exp_high = 89.0f;
	static constexpr float expm1_low = -25.0f;
	static constexpr float log2_e = 0x1.715476p+0f;
	static constexpr float ln2_nearest = 0x1.62e430p-1f;
	static constexpr float ln2_rest = -0x1.05c610p-29f;
	static constexpr float ln2_short = 0x1.62e300p-1f;
	static constexpr float ln2_short_rest = 0x1.2fefa4p-17f;
	static constexpr float least_normal = 0x1p-126f;
	static constexpr float denormal_shift = 24;
	static constexpr float denormal_scale = 0x1p24f;
	static constexpr float tanh_one = 10.0f;
	static constexpr float erf_one = 4.0f;
	static constexpr float erf_split = 0.96f;
	static constexpr float infinity = __builtin_inff();
	static constexpr float nan = __builtin_nanf("");

	static __device__ inline float
	exp(float r)
	{
		return gpu_polynomial(r, 0x1.000000p-1f, 0x1.5554aap-3f, 0x1.5554aap-5f, 0x1.122b2ap-7f, 0x1.6d7752p-10f);
	}

	static __device__ inline float
	log(float z)
	{
		return gpu_polynomial(z, 0x1.555554p-1f, 0x1.999a84p-2f, 0x1.243676p-2f, 0x1.e351ecp-3f);
	}

	static __device__ inline float
	erf_near(float z)
	{
		return gpu_polynomial(z, 0x1.06eba8p-3f, -0x1.812742p-2f, 0x1.ce2da2p-4f, -0x1.b8062cp-6f, 0x1.547908p-8f,
							  -0x1.a7973cp-11f, 0x1.544b5ap-14f);
	}

	static __device__ inline float
	erf_far(float c)
	{
		return gpu_polynomial(c, 0x1.83c30cp-13f, -0x1.212b1cp+0f, -0x1.44390ap-1f, -0x1.bbf696p-4f, 0x1.9cb7c8p-6f,
							  -0x1.131fc0p-8f, 0x1.cd6ebap-12f, -0x1.6a12a4p-16f);
	}
};

template <>
struct gpu_terms<double>
{
	static constexpr double exp_low = -746.0;
	static constexpr double exp_high = 710.0;
	static constexpr double expm1_low = -45.0;
	static constexpr double log2_e = 0x1.71547652b82fep+0;
	static constexpr double ln2_nearest = 0x1.62e42fefa39efp-1;
	static constexpr double ln2_rest = 0x1.abc9e3b39803fp-56;
	static constexpr double ln2_short = 0x1.62e42feep-1;
	static constexpr double ln2_short_rest = 0x1.a39ef35793c76p-33;
	static constexpr double least_normal = 0x1p-1022;
	static constexpr double denormal_shift = 54;
	static constexpr double denormal_scale = 0x1p54;
	static constexpr double tanh_one = 20.0;
	static constexpr double erf_one = 6.0;
	static constexpr double erf_split = 1.0;
	static constexpr double infinity = __builtin_inf();
	static constexpr double nan = __builtin_nan("");

	static __device__ inline double
	exp(double r)
	{
		return gpu_polynomial(r, 0x1.0000000000005p-1, 0x1.5555555555559p-3, 0x1.5555555551f67p-5, 0x1.111111110f59dp-7,
							  0x1.6c16c17f9d038p-10, 0x1.a01a01b053caap-13, 0x1.a019a54ffb648p-16, 0x1.71ddf734acd22p-19,
							  0x1.28a3e5a78ae2ep-22, 0x1.af60c32eb2fcep-26);
	}

	static __device__ inline double
	log(double z)
	{
		return gpu_polynomial(z, 0x1.5555555555599p-1, 0x1.999999997dcb7p-2, 0x1.24924943ca277p-2, 0x1.c71c507fa3921p-3,
							  0x1.746692042ef95p-3, 0x1.3999196dfd6d5p-3, 0x1.2f5ef865e8856p-3);
	}

	static __device__ inline double
	erf_near(double z)
	{
		return gpu_polynomial(z, 0x1.06eba8214db68p-3, -0x1.812746b0379bcp-2, 0x1.ce2f21a040cb5p-4, -0x1.b82ce311f9202p-6,
							  0x1.565bccf8fd727p-8, -0x1.c02db03742681p-11, 0x1.f9a2ba119ff7cp-14, -0x1.f4ca44b024ea2p-17,
							  0x1.b97f80a4e12a4p-20, -0x1.5c053af87571ep-23, 0x1.d70e34cc01c0bp-27, -0x1.ab8923d8184f4p-31);
	}

	static __device__ inline double
	erf_far(double c)
	{
		return gpu_fma(-c, c, gpu_polynomial(c, -0x1.0a9c39af3dab9p-20, -0x1.20dccffe7eb09p+0, 0x1.740e12d1c8f5dp-2,
											 -0x1.a46df3ca04df2p-4, 0x1.3544314ac27f6p-6, 0x1.2b33c1e63c1b9p-11,
											 -0x1.1171f875402eep-9, 0x1.dd92fca0227e6p-11, -0x1.d91ac20e78de8p-13,
											 0x1.b0d5082658ebfp-16, 0x1.242c5010b41d6p-18, -0x1.809ff23cf18c5p-19,
											 0x1.85714f975f5d1p-21, -0x1.e7cb16de44340p-24, 0x1.88967d10c5bd0p-27,
											 -0x1.7789a955f32edp-31, 0x1.46afdbb1374dfp-36));
	}
};

/* ---- elementary functions ---- */

/* low ≤ x ≤ high; NaN stays. */
template <class T>
__device__ inline T
gpu_clamp(T x, T low, T high)
{
	x = x < low ? low : x;
	return high < x ? high : x;
}

/* x = n ln 2 + r, |r| ≤ ln 2 / 2: gives n, and e^r − 1 as r + r² P(r). */
template <class T>
__device__ inline T
gpu_exp_parts(T x, T *less_one)
{
	using terms = gpu_terms<T>;
	T			n = gpu_rint(x * terms::log2_e);
	T			r = gpu_fma(n, -terms::ln2_nearest, x);

	r = gpu_fma(n, -terms::ln2_rest, r);
	*less_one = gpu_fma(r * r, terms::exp(r), r);
	return n;
}

/* The scale 2^n goes on in two halves: the result may be denormal or infinite. */
template <class T>
__device__ inline T
gpu_exp(T x)
{
	using terms = gpu_terms<T>;
	T			less_one;
	T			n = gpu_exp_parts(gpu_clamp(x, terms::exp_low, terms::exp_high), &less_one);
	T			half = gpu_floor(n * (T) 0.5);

	return ((T) 1 + less_one) * gpu_pow2(half) * gpu_pow2(n - half);
}

template <class T>
__device__ inline T
gpu_expm1(T x)
{
	using terms = gpu_terms<T>;
	T			less_one;
	T			n = gpu_exp_parts(gpu_clamp(x, terms::expm1_low, terms::exp_high), &less_one);
	T			scale = gpu_pow2(n - (T) 1);
	T			half = gpu_fma(scale, less_one, scale - (T) 0.5);

	return gpu_abs(x) < 4 * terms::least_normal ? x : half + half;
}

template <class T>
__device__ inline T
gpu_log(T x)
{
	using terms = gpu_terms<T>;
	bool		small = x < terms::least_normal;
	T			normal = small ? x * terms::denormal_scale : x;
	T			e = gpu_exponent(normal);
	T			m = gpu_mantissa(normal);
	bool		low = m < (T) 0.70710678118654752440;
	T			f = (low ? m + m : m) - (T) 1;
	T			s = f / ((T) 2 + f);
	T			z = s * s;
	T			r = z * terms::log(z);
	T			half = (T) 0.5 * f * f;
	T			y;

	e -= low ? (T) 1 : (T) 0;
	e -= small ? terms::denormal_shift : (T) 0;
	y = gpu_fma(s, half + r, e * terms::ln2_short_rest);
	y = e * terms::ln2_short - (half - y - f);
	y = x < terms::infinity ? y : x;	/* and NaN */
	y = x == 0 ? -terms::infinity : y;
	return x < 0 ? terms::nan : y;
}

/* log(u) and what rounding took from u = 1 + x; x ≥ 0 */
template <class T>
__device__ inline T
gpu_log1p(T x)
{
	T			u = (T) 1 + x;
	T			rest = (x - (u - (T) 1)) / u;

	return x < gpu_terms<T>::infinity ? gpu_log(u) + rest : x;
}

template <class T>
__device__ inline T
gpu_tanh(T x)
{
	using terms = gpu_terms<T>;
	T			a = gpu_abs(x);
	T			t = gpu_expm1(a * (T) -2);
	T			e = t + (T) 1;
	bool		beyond = (T) 1 <= a;
	T			q = (beyond ? e + e : -t) / (t + (T) 2);
	T			y = beyond ? (T) 1 - q : q;

	y = a < 8 * terms::least_normal ? a : y;
	return gpu_copysign(terms::tanh_one < a ? (T) 1 : y, x);
}

template <class T>
__device__ inline T
gpu_erf(T x)
{
	using terms = gpu_terms<T>;
	T			a = gpu_abs(x);
	T			near = gpu_fma(a, terms::erf_near(x * x), a);
	T			far = (T) 1 - gpu_exp(terms::erf_far(terms::erf_one < a ? terms::erf_one : a));

	return gpu_copysign(a < terms::erf_split ? near : far, x);
}

/* 2^n · 2^r, |r| ≤ ½, the result normal. */
static __device__ inline float
gpu_exp2_parts(float r, float n)
{
	return gpu_polynomial(r, 0x1.000000p+0f, 0x1.62e430p-1f, 0x1.ebfbdap-3f, 0x1.c6aed4p-5f, 0x1.3b2dbcp-7f, 0x1.5f456ap-10f,
						  0x1.41d334p-13f) * gpu_pow2(n);
}

/* max(x, 0) − a Φ(−a), a = |x| */
static __device__ inline float
gpu_gelu(float x)
{
	const float c = -0x1.715476p-1f;
	float		a = 7.0f < fabsf(x) ? 7.0f : fabsf(x);
	float		p = gpu_polynomial(a, -0x1.000000p+0f, -0x1.26aed0p+0f, 0x1.0c6bf4p-2f, -0x1.ada2f6p-5f, 0x1.c6d4e8p-8f,
								   0x1.455f26p-16f, -0x1.37c03ep-12f, 0x1.6278dep-14f, -0x1.b2b2dcp-17f, 0x1.2a6dcep-20f,
								   -0x1.6775d2p-25f);
	float		square = a * a;
	float		n;

	p = fmaf(fmaf(-a, a, square), -c, p);
	n = rintf(fmaf(square, c, p));
	p = fmaf(square, c, -n) + p;
	p = gpu_exp2_parts(p, n);
	return fmaf(-a, p, x > 0 ? x : 0.0f);
}

static __device__ inline double
gpu_gelu(double x)
{
	return 0.5 * x * (1.0 + gpu_erf(x * 0.70710678118654752440));
}

/* max(x, 0) − a s / (1 + s), s = e^−2|u|, u = √(2/π) (x + 0.044715 x³) */
static __device__ inline float
gpu_gelu_tanh(float x)
{
	float		a = 9.0f < fabsf(x) ? 9.0f : fabsf(x);
	float		slope = fmaf(a * a, -0x1.a5a7d0p-4f, -0x1.26aec2p+1f);
	float		n = rintf(a * slope);

	slope = gpu_exp2_parts(fmaf(a, slope, -n), n);
	return (x > 0 ? x : 0.0f) - a * slope / (1.0f + slope);
}

static __device__ inline double
gpu_gelu_tanh(double x)
{
	double		cubic = 0.044715 * (x * (x * x));

	return 0.5 * x * (1.0 + gpu_tanh(0.79788456080286535588 * (x + cubic)));
}

template <class T>
__device__ inline T
gpu_sigmoid(T x)
{
	T			e = gpu_exp(-gpu_abs(x));

	return (x < 0 ? e : (T) 1) / ((T) 1 + e);
}

/* log(1 + e^x) */
template <class T>
__device__ inline T
gpu_softplus(T x)
{
	return gpu_max(x, (T) 0) + gpu_log1p(gpu_exp(-gpu_abs(x)));
}

/* Inverse of the normal distribution: Acklam's rational approximation and one step of Halley's method. */
static __device__ inline double
gpu_probit(double p)
{
	double		x;
	double		e;

	if (!(p > 0 && p < 1))
		return p == 0 ? -gpu_terms<double>::infinity : p == 1 ? gpu_terms<double>::infinity : gpu_terms<double>::nan;
	if (p < 0.02425 || p > 1 - 0.02425)
	{
		double		q = sqrt(-2 * log(p < 0.5 ? p : 1 - p));

		x = (((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
			   2.549732539343734e+00) * q + 4.374664141464968e+00) * q + 2.938163982698783e+00) /
			((((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
			  3.754408661907416e+00) * q + 1);
		x = p > 0.5 ? -x : x;
	}
	else
	{
		double		q = p - 0.5;
		double		r = q * q;

		x = (((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
			   1.383577518672690e+02) * r - 3.066479806614716e+01) * r + 2.506628277459239e+00) * q /
			(((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
			   6.680131188771972e+01) * r - 1.328068155288572e+01) * r + 1);
	}
	e = (0.5 * erfc(-x / 1.4142135623730951) - p) * 2.5066282746310002 * exp(x * x / 2);
	return x - e / (1 + x * e / 2);
}

#endif /* CUDA_KERNELS_ELEMENTARY_H */
