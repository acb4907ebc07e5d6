/*
 * kernels_math.h
 *	  Elementary functions of a vector.  Included by kernels_impl.h for each type.
 */

/* A function of the C library, lane by lane: the same for every lane. */
INLINE V(t)
N(lanes)(V(t) x, T (*function) (T))
{
	T			lane[V(WIDTH)];

	V(store)(lane, x);
	for (int i = 0; i < V(WIDTH); i++)
		lane[i] = function(lane[i]);
	return V(load)(lane);
}

INLINE V(t)
N(lanes2)(V(t) a, V(t) b, T (*function) (T, T))
{
	T			lane_a[V(WIDTH)];
	T			lane_b[V(WIDTH)];

	V(store)(lane_a, a);
	V(store)(lane_b, b);
	for (int i = 0; i < V(WIDTH); i++)
		lane_a[i] = function(lane_a[i], lane_b[i]);
	return V(load)(lane_a);
}

/* The one NaN. */
INLINE V(t)
N(canonical)(V(t) x)
{
	return V(select)(V(unord)(x, x), V(set1)((T) NAN), x);
}

/* NaN if either is NaN. */
INLINE V(t)
N(max)(V(t) a, V(t) b)
{
	return V(select)(V(either)(V(lt)(b, a), V(unord)(a, a)), a, b);
}

INLINE V(t)
N(min)(V(t) a, V(t) b)
{
	return V(select)(V(either)(V(lt)(a, b), V(unord)(a, a)), a, b);
}

/* Horner's scheme, c[0] + c[1] x + … */
INLINE V(t)
N(polynomial)(V(t) x, const T *c, const int count)
{
	V(t)		sum = V(set1)(c[count - 1]);

	UNROLL
	for (int i = count - 2; i >= 0; i--)
		sum = V(fma)(sum, x, V(set1)(c[i]));
	return sum;
}

/*
 * The polynomials below are least-squares fits at Chebyshev nodes, weighted so that the
 * relative error of the function is least; the error named is theirs, without rounding.
 */
#if IS_F32
#define EXP_LOW			-104.0f
#define EXP_HIGH		89.0f
#define EXPM1_LOW		-25.0f
#define LOG2_E			0x1.715476p+0f
#define LN2_NEAREST		0x1.62e430p-1f
#define LN2_REST		-0x1.05c610p-29f
#define LN2_SHORT		0x1.62e300p-1f	/* its product with an exponent is exact */
#define LN2_SHORT_REST	0x1.2fefa4p-17f
#define LEAST_NORMAL	0x1p-126f
#define DENORMAL_SHIFT	24
#define DENORMAL_SCALE	0x1p24f
#define TANH_ONE		10.0f
#define ERF_ONE			4.0f
#define ERF_SPLIT		0.96f
/* (e^r − 1 − r) / r², |r| ≤ ln 2 / 2; 1.4e-8 of e^r · r² */
static const float exp_terms_f32[] = {0x1.000000p-1f, 0x1.5554aap-3f, 0x1.5554aap-5f, 0x1.122b2ap-7f,
0x1.6d7752p-10f};
/* (2 artanh s − 2 s) / s³ in s², s ≤ 3 − 2√2; 5e-12 */
static const float log_terms_f32[] = {0x1.555554p-1f, 0x1.999a84p-2f, 0x1.243676p-2f, 0x1.e351ecp-3f};
/* erf(x) / x − 1 in x², |x| ≤ 0.96; 7e-10 */
static const float erf_near_f32[] = {0x1.06eba8p-3f, -0x1.812742p-2f, 0x1.ce2da2p-4f, -0x1.b8062cp-6f,
0x1.547908p-8f, -0x1.a7973cp-11f, 0x1.544b5ap-14f};
/* 2^r, |r| ≤ ½; 2e-9 */
static const float exp2_terms_f32[] = {0x1.000000p+0f, 0x1.62e430p-1f, 0x1.ebfbdap-3f, 0x1.c6aed4p-5f, 0x1.3b2dbcp-7f,
	0x1.5f456ap-10f, 0x1.41d334p-13f};
/* log2 Φ(−a) + a² · HALF_LOG2_E, 0 ≤ a ≤ 7; 1.5e-8, more where a Φ(−a) < 2^-8: by Lawson's algorithm */
#define HALF_LOG2_E		0x1.715476p-1f
#define GELU_FAR		7.0f
static const float gelu_terms_f32[] = {-0x1.000000p+0f, -0x1.26aed0p+0f, 0x1.0c6bf4p-2f, -0x1.ada2f6p-5f, 0x1.c6d4e8p-8f,
	0x1.455f26p-16f, -0x1.37c03ep-12f, 0x1.6278dep-14f, -0x1.b2b2dcp-17f, 0x1.2a6dcep-20f, -0x1.6775d2p-25f};
/* log2 e · √(8/π), and that times 0.044715 */
#define GELU_TANH_FAR	9.0f
#define GELU_TANH_1		0x1.26aec2p+1f
#define GELU_TANH_3		0x1.a5a7d0p-4f
/* log(1 − erf(x)), 0.95 ≤ x ≤ 4; 3e-11 of erf */
static const float erf_far_f32[] = {0x1.83c30cp-13f, -0x1.212b1cp+0f, -0x1.44390ap-1f, -0x1.bbf696p-4f,
0x1.9cb7c8p-6f, -0x1.131fc0p-8f, 0x1.cd6ebap-12f, -0x1.6a12a4p-16f};
#else
#define EXP_LOW			-746.0
#define EXP_HIGH		710.0
#define EXPM1_LOW		-45.0
#define LOG2_E			0x1.71547652b82fep+0
#define LN2_NEAREST		0x1.62e42fefa39efp-1
#define LN2_REST		0x1.abc9e3b39803fp-56
#define LN2_SHORT		0x1.62e42feep-1
#define LN2_SHORT_REST	0x1.a39ef35793c76p-33
#define LEAST_NORMAL	0x1p-1022
#define DENORMAL_SHIFT	54
#define DENORMAL_SCALE	0x1p54
#define TANH_ONE		20.0
#define ERF_ONE			6.0
#define ERF_SPLIT		1.0
/* the same functions; 1.9e-17 of e^r · r² */
static const double exp_terms_f64[] = {0x1.0000000000005p-1, 0x1.5555555555559p-3, 0x1.5555555551f67p-5,
	0x1.111111110f59dp-7, 0x1.6c16c17f9d038p-10, 0x1.a01a01b053caap-13, 0x1.a019a54ffb648p-16,
0x1.71ddf734acd22p-19, 0x1.28a3e5a78ae2ep-22, 0x1.af60c32eb2fcep-26};
/* 1.4e-18 */
static const double log_terms_f64[] = {0x1.5555555555599p-1, 0x1.999999997dcb7p-2, 0x1.24924943ca277p-2,
0x1.c71c507fa3921p-3, 0x1.746692042ef95p-3, 0x1.3999196dfd6d5p-3, 0x1.2f5ef865e8856p-3};
/* |x| ≤ 1; 7e-18 */
static const double erf_near_f64[] = {0x1.06eba8214db68p-3, -0x1.812746b0379bcp-2, 0x1.ce2f21a040cb5p-4,
	-0x1.b82ce311f9202p-6, 0x1.565bccf8fd727p-8, -0x1.c02db03742681p-11, 0x1.f9a2ba119ff7cp-14,
	-0x1.f4ca44b024ea2p-17, 0x1.b97f80a4e12a4p-20, -0x1.5c053af87571ep-23, 0x1.d70e34cc01c0bp-27,
-0x1.ab8923d8184f4p-31};
/* log(1 − erf(x)) + x², 0.98 ≤ x ≤ 6; 4e-17 of erf */
static const double erf_far_f64[] = {-0x1.0a9c39af3dab9p-20, -0x1.20dccffe7eb09p+0, 0x1.740e12d1c8f5dp-2,
	-0x1.a46df3ca04df2p-4, 0x1.3544314ac27f6p-6, 0x1.2b33c1e63c1b9p-11, -0x1.1171f875402eep-9,
	0x1.dd92fca0227e6p-11, -0x1.d91ac20e78de8p-13, 0x1.b0d5082658ebfp-16, 0x1.242c5010b41d6p-18,
	-0x1.809ff23cf18c5p-19, 0x1.85714f975f5d1p-21, -0x1.e7cb16de44340p-24, 0x1.88967d10c5bd0p-27,
-0x1.7789a955f32edp-31, 0x1.46afdbb1374dfp-36};
#endif
#define COUNT(array)	((int) (sizeof(array) / sizeof(*(array))))

/* low ≤ x ≤ high; NaN stays. */
INLINE V(t)
N(clamp)(V(t) x, T low, T high)
{
	x = V(select)(V(lt)(x, V(set1)(low)), V(set1)(low), x);
	return V(select)(V(lt)(V(set1)(high), x), V(set1)(high), x);
}

/* x = n ln 2 + r, |r| ≤ ln 2 / 2: gives n, and e^r − 1 as r + r² P(r). */
INLINE V(t)
N(exp_parts)(V(t) x, V(t) *less_one)
{
	V(t)		n = V(rint)(V(mul)(x, V(set1)(LOG2_E)));
	V(t)		r = V(fma)(n, V(set1)(-LN2_NEAREST), x);

	r = V(fma)(n, V(set1)(-LN2_REST), r);
	*less_one = V(fma)(V(mul)(r, r), N(polynomial)(r, N(exp_terms), COUNT(N(exp_terms))), r);
	return n;
}

/* The scale 2^n goes on in two halves: the result may be denormal or infinite. */
INLINE V(t)
N(e_to)(V(t) x)
{
	V(t)		less_one;
	V(t)		n = N(exp_parts)(N(clamp)(x, EXP_LOW, EXP_HIGH), &less_one);
	V(t)		half = V(floor)(V(mul)(n, V(set1)((T) 0.5)));
	V(t)		e = V(add)(V(set1)(1), less_one);

	return V(mul)(V(mul)(e, V(pow2)(half)), V(pow2)(V(sub)(n, half)));
}

/* 2 (2^(n−1) (e^r − 1) + (2^(n−1) − ½)), which is exact where n = 0 */
INLINE V(t)
N(expm1)(V(t) x)
{
	V(t)		less_one;
	V(t)		n = N(exp_parts)(N(clamp)(x, EXPM1_LOW, EXP_HIGH), &less_one);
	V(t)		scale = V(pow2)(V(sub)(n, V(set1)(1)));
	V(t)		half = V(fma)(scale, less_one, V(sub)(scale, V(set1)((T) 0.5)));

	return V(select)(V(lt)(V(abs)(x), V(set1)(4 * LEAST_NORMAL)), x, V(add)(half, half));
}

/* As fdlibm's e_log.c has it: x = 2^e (1 + f), s = f / (2 + f), log(1 + f) = 2 artanh s. */
INLINE V(t)
N(ln)(V(t) x)
{
	const V(t)	zero = V(set1)(0);
	V(m)		small = V(lt)(x, V(set1)(LEAST_NORMAL));
	V(t)		normal = V(select)(small, V(mul)(x, V(set1)(DENORMAL_SCALE)), x);
	V(t)		e = V(exponent)(normal);
	V(t)		m = V(mantissa)(normal);
	V(m)		low = V(lt)(m, V(set1)((T) 0.70710678118654752440));
	V(t)		f = V(sub)(V(select)(low, V(add)(m, m), m), V(set1)(1));
	V(t)		s = V(div)(f, V(add)(V(set1)(2), f));
	V(t)		z = V(mul)(s, s);
	V(t)		r = V(mul)(z, N(polynomial)(z, N(log_terms), COUNT(N(log_terms))));
	V(t)		half = V(mul)(V(mul)(V(set1)((T) 0.5), f), f);
	V(t)		y;

	e = V(sub)(e, V(select)(low, V(set1)(1), zero));
	e = V(sub)(e, V(select)(small, V(set1)(DENORMAL_SHIFT), zero));
	y = V(fma)(s, V(add)(half, r), V(mul)(e, V(set1)(LN2_SHORT_REST)));
	y = V(sub)(V(mul)(e, V(set1)(LN2_SHORT)), V(sub)(V(sub)(half, y), f));
	y = V(select)(V(lt)(x, V(set1)((T) INFINITY)), y, x);	/* and NaN */
	y = V(select)(V(eq)(x, zero), V(set1)((T) -INFINITY), y);
	return V(select)(V(lt)(x, zero), V(set1)((T) NAN), y);
}

/* log(u) and what rounding took from u = 1 + x; x ≥ 0 */
INLINE V(t)
N(log1p)(V(t) x)
{
	V(t)		u = V(add)(V(set1)(1), x);
	V(t)		rest = V(div)(V(sub)(x, V(sub)(u, V(set1)(1))), u);

	return V(select)(V(lt)(x, V(set1)((T) INFINITY)), V(add)(N(ln)(u), rest), x);
}

/* t = e^−2|x| − 1, tanh |x| = −t / (t + 2) = 1 − 2 (t + 1) / (t + 2): the latter from 1 on */
INLINE V(t)
N(tanh)(V(t) x)
{
	V(t)		a = V(abs)(x);
	V(t)		t = N(expm1)(V(mul)(a, V(set1)(-2)));
	V(t)		e = V(add)(t, V(set1)(1));
	V(m)		beyond = V(le)(V(set1)(1), a);
	V(t)		q = V(div)(V(select)(beyond, V(add)(e, e), V(neg)(t)), V(add)(t, V(set1)(2)));
	V(t)		y = V(select)(beyond, V(sub)(V(set1)(1), q), q);

	y = V(select)(V(lt)(a, V(set1)(8 * LEAST_NORMAL)), a, y);
	return V(copysign)(V(select)(V(lt)(V(set1)(TANH_ONE), a), V(set1)(1), y), x);
}

/* Near 0 as x + x P(x²), further out as 1 − e^Q(x). */
INLINE V(t)
N(erf)(V(t) x)
{
	V(t)		a = V(abs)(x);
	V(t)		z = V(mul)(x, x);
	V(t)		near = V(fma)(a, N(polynomial)(z, N(erf_near), COUNT(N(erf_near))), a);
	V(t)		c = V(select)(V(lt)(V(set1)(ERF_ONE), a), V(set1)(ERF_ONE), a);
	V(t)		q = N(polynomial)(c, N(erf_far), COUNT(N(erf_far)));
	V(t)		far;

	if (!IS_F32)
		q = V(fma)(V(neg)(c), c, q);
	far = V(sub)(V(set1)(1), N(e_to)(q));
	return V(copysign)(V(select)(V(lt)(a, V(set1)(ERF_SPLIT)), near, far), x);
}

/*
 * The functions of products' results take several vectors at a time, step by step, so that one's
 * instruction need not wait for the one before.
 */
#define EACH UNROLL for (int j = 0; j < count; j++)

#if IS_F32
/* 2^n · 2^r, |r| ≤ ½, into r. */
INLINE void
N(exp2_each)(V(t) *r, const V(t) *n, const int count)
{
	V(t)		e[EACH_MAX];

	EACH e[j] = V(set1)(N(exp2_terms)[COUNT(N(exp2_terms)) - 1]);
	UNROLL
	for (int i = COUNT(N(exp2_terms)) - 2; i >= 0; i--)
		EACH e[j] = V(fma)(e[j], r[j], V(set1)(N(exp2_terms)[i]));
	EACH r[j] = V(scale)(e[j], n[j]);
}

/*
 * x · Φ(x) = max(x, 0) − a Φ(−a), a = |x|, without the difference of nearly equal numbers that
 * 1 + erf is where x < 0.  The exponent of Φ(−a) = 2^(P(a) − a² · HALF_LOG2_E) is kept with what
 * rounding took from a².
 */
INLINE void
N(gelu_each)(V(t) *x, const int count)
{
	const V(t)	c = V(set1)(-HALF_LOG2_E);
	V(t)		a[EACH_MAX];
	V(t)		less[EACH_MAX];
	V(t)		square[EACH_MAX];
	V(t)		p[EACH_MAX];
	V(t)		n[EACH_MAX];

	EACH a[j] = V(lesser)(V(set1)(GELU_FAR), V(abs)(x[j]));
	EACH p[j] = V(set1)(N(gelu_terms)[COUNT(N(gelu_terms)) - 1]);
	UNROLL
	for (int i = COUNT(N(gelu_terms)) - 2; i >= 0; i--)
		EACH p[j] = V(fma)(p[j], a[j], V(set1)(N(gelu_terms)[i]));
	EACH square[j] = V(mul)(a[j], a[j]);
	EACH less[j] = V(neg)(a[j]);
	EACH p[j] = V(fma)(V(fma)(less[j], a[j], square[j]), V(neg)(c), p[j]);
	EACH n[j] = V(rint)(V(fma)(square[j], c, p[j]));
	EACH p[j] = V(add)(V(fma)(square[j], c, V(neg)(n[j])), p[j]);
	N(exp2_each)(p, n, count);
	EACH x[j] = V(fma)(less[j], p[j], V(greater)(x[j], V(set1)(0)));
}

/* x / (1 + e^−2u), u = √(2/π) (x + 0.044715 x³), the same way: max(x, 0) − a s / (1 + s), s = e^−2|u| */
INLINE void
N(gelu_tanh_each)(V(t) *x, const int count)
{
	V(t)		a[EACH_MAX];
	V(t)		slope[EACH_MAX];
	V(t)		n[EACH_MAX];

	EACH a[j] = V(lesser)(V(set1)(GELU_TANH_FAR), V(abs)(x[j]));
	EACH slope[j] = V(fma)(V(mul)(a[j], a[j]), V(set1)(-GELU_TANH_3), V(set1)(-GELU_TANH_1));
	EACH n[j] = V(rint)(V(mul)(a[j], slope[j]));
	EACH slope[j] = V(fma)(a[j], slope[j], V(neg)(n[j]));
	N(exp2_each)(slope, n, count);
	EACH a[j] = V(div)(V(mul)(a[j], slope[j]), V(add)(V(set1)(1), slope[j]));
	EACH x[j] = V(sub)(V(greater)(x[j], V(set1)(0)), a[j]);
}
#else
INLINE void
N(gelu_each)(V(t) *x, const int count)
{
	EACH
	{
		V(t)		half = V(mul)(V(set1)((T) 0.5), x[j]);

		x[j] = V(mul)(half, V(add)(V(set1)(1), N(erf)(V(mul)(x[j], V(set1)((T) 0.70710678118654752440)))));
	}
}

INLINE void
N(gelu_tanh_each)(V(t) *x, const int count)
{
	EACH
	{
		V(t)		cubic = V(mul)(V(set1)((T) 0.044715), V(mul)(x[j], V(mul)(x[j], x[j])));
		V(t)		t = N(tanh)(V(mul)(V(set1)((T) 0.79788456080286535588), V(add)(x[j], cubic)));

		x[j] = V(mul)(V(mul)(V(set1)((T) 0.5), x[j]), V(add)(V(set1)(1), t));
	}
}
#endif

#undef EXP_LOW
#undef EXP_HIGH
#undef EXPM1_LOW
#undef LOG2_E
#undef LN2_NEAREST
#undef LN2_REST
#undef LN2_SHORT
#undef LN2_SHORT_REST
#undef LEAST_NORMAL
#undef DENORMAL_SHIFT
#undef DENORMAL_SCALE
#undef TANH_ONE
#undef ERF_ONE
#undef ERF_SPLIT
#undef COUNT
#undef HALF_LOG2_E
#undef GELU_FAR
#undef GELU_TANH_FAR
#undef GELU_TANH_1
#undef GELU_TANH_3

INLINE V(t)
N(pow)(V(t) x, V(t) y)
{
	return N(lanes2)(x, y, LIBM(pow));
}

/* 1 / (1 + e^−x), by the exponential of −|x| alone, which cannot overflow. */
INLINE V(t)
N(sigmoid)(V(t) x)
{
	V(t)		e = N(e_to)(V(neg)(V(abs)(x)));
	V(t)		one = V(set1)(1);
	V(t)		top = V(select)(V(lt)(x, V(set1)(0)), e, one);

	return V(div)(top, V(add)(one, e));
}

/* log(1 + e^x) */
INLINE V(t)
N(softplus)(V(t) x)
{
	V(t)		tail = N(log1p)(N(e_to)(V(neg)(V(abs)(x))));

	return V(add)(N(max)(x, V(set1)(0)), tail);
}

static T
N(probit)(T p)
{
	return (T) probit(p);
}

static T
N(floored_mod)(T a, T b)
{
	T			r = LIBM(fmod)(a, b);

	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
