/*
 * kernels_float.h
 *	  Element-wise functions, comparisons, reductions, softmax.  Included by kernels_impl.h
 *	  for each type.
 *
 * Each loop has one body: the last vector differs by its mask alone.
 */

INLINE V(t)
N(fetch)(const T *x, int64_t left)
{
	return left >= V(WIDTH) ? V(load)(x) : V(load_mask)(x, V(first)(left));
}

INLINE void
N(put)(T *y, int64_t left, V(t) v)
{
	if (left >= V(WIDTH))
		V(store)(y, v);
	else
		V(store_mask)(y, V(first)(left), v);
}

#define MAP(expression) \
	for (int64_t i = 0; i < n; i += V(WIDTH)) \
	{ \
		V(t)		v = N(fetch)(x + i, n - i); \
		N(put)(y + i, n - i, N(canonical)(expression)); \
	} \
	break

static void
N(unary)(int fn, const double f[2], const void *from, void *to, int64_t n)
{
	const T    *x = from;
	T		   *y = to;
	const V(t)	zero = V(set1)(0);
	const V(t)	one = V(set1)(1);
	const V(t)	half = V(set1)((T) 0.5);
	const V(t)	f0 = V(set1)((T) f[0]);
	const V(t)	f1 = V(set1)((T) f[1]);

	switch (fn)
	{
		case UNARY_NONE:
			if (x != y)
				memmove(y, x, (size_t) n * sizeof(T));
			break;
		case UNARY_ABS:
			MAP(V(abs)(v));
		case UNARY_NEG:
			MAP(V(neg)(v));
		case UNARY_SIGN:
			MAP(V(select)(V(lt)(zero, v), one,
						  V(select)(V(lt)(v, zero), V(neg)(one), V(select)(V(eq)(v, zero), zero, v))));
		case UNARY_RECIPROCAL:
			MAP(V(div)(one, v));
		case UNARY_SQRT:
			MAP(V(sqrt)(v));
		case UNARY_EXP:
			MAP(N(e_to)(v));
		case UNARY_LOG:
			MAP(N(ln)(v));
		case UNARY_FLOOR:
			MAP(V(floor)(v));
		case UNARY_CEIL:
			MAP(V(ceil)(v));
		case UNARY_ROUND:
			MAP(V(rint)(v));
		case UNARY_ERF:
			MAP(N(erf)(v));
		case UNARY_TANH:
			MAP(N(tanh)(v));
		case UNARY_SIGMOID:
			MAP(N(sigmoid)(v));
		case UNARY_SIN:
			MAP(N(lanes)(v, LIBM(sin)));
		case UNARY_COS:
			MAP(N(lanes)(v, LIBM(cos)));
		case UNARY_TAN:
			MAP(N(lanes)(v, LIBM(tan)));
		case UNARY_ASIN:
			MAP(N(lanes)(v, LIBM(asin)));
		case UNARY_ACOS:
			MAP(N(lanes)(v, LIBM(acos)));
		case UNARY_ATAN:
			MAP(N(lanes)(v, LIBM(atan)));
		case UNARY_SINH:
			MAP(N(lanes)(v, LIBM(sinh)));
		case UNARY_COSH:
			MAP(N(lanes)(v, LIBM(cosh)));
		case UNARY_ASINH:
			MAP(N(lanes)(v, LIBM(asinh)));
		case UNARY_ACOSH:
			MAP(N(lanes)(v, LIBM(acosh)));
		case UNARY_ATANH:
			MAP(N(lanes)(v, LIBM(atanh)));
		case UNARY_RELU:
			MAP(V(select)(V(lt)(v, zero), zero, v));
		case UNARY_LEAKY_RELU:
			MAP(V(select)(V(lt)(v, zero), V(mul)(f0, v), v));
		case UNARY_ELU:
			MAP(V(select)(V(lt)(v, zero), V(mul)(f0, N(expm1)(v)), v));
		case UNARY_SELU:
			MAP(V(mul)(f1, V(select)(V(lt)(zero, v), v, V(mul)(f0, N(expm1)(v)))));
		case UNARY_CELU:
			MAP(V(add)(N(max)(v, zero), N(min)(V(mul)(f0, N(expm1)(V(div)(v, f0))), zero)));
		case UNARY_THRESHOLDED_RELU:
			MAP(V(select)(V(lt)(f0, v), v, zero));
		case UNARY_HARD_SIGMOID:
			MAP(N(max)(N(min)(V(add)(V(mul)(f0, v), f1), one), zero));
		case UNARY_HARD_SWISH:
			MAP(V(mul)(v, N(max)(N(min)(V(add)(V(mul)(V(set1)((T) (1.0 / 6)), v), half), one), zero)));
		case UNARY_SOFTPLUS:
			MAP(N(softplus)(v));
		case UNARY_SOFTSIGN:
			MAP(V(div)(v, V(add)(one, V(abs)(v))));
		case UNARY_MISH:
			MAP(V(mul)(v, N(tanh)(N(softplus)(v))));
		case UNARY_GELU:
			MAP(V(mul)(V(mul)(half, v), V(add)(one, N(erf)(V(mul)(v, V(set1)((T) 0.70710678118654752440))))));
		case UNARY_GELU_TANH:
			MAP(V(mul)(V(mul)(half, v),
					   V(add)(one, N(tanh)(V(mul)(V(set1)((T) 0.79788456080286535588),
												  V(add)(v, V(mul)(V(set1)((T) 0.044715),
																   V(mul)(v, V(mul)(v, v)))))))));
		case UNARY_SWISH:
			MAP(V(mul)(v, N(sigmoid)(V(mul)(f0, v))));
		case UNARY_SHRINK:
			MAP(V(select)(V(lt)(v, V(neg)(f0)), V(add)(v, f1),
						  V(select)(V(lt)(f0, v), V(sub)(v, f1), V(select)(V(unord)(v, v), v, zero))));
		case UNARY_CLIP:
			MAP(N(min)(N(max)(v, f0), f1));
		case UNARY_PROBIT:
			MAP(N(lanes)(v, N(probit)));
	}
}

#define PUT_BITS(mask) \
	do { \
		unsigned	bits = V(bits)(mask); \
		int64_t		left = n - i < V(WIDTH) ? n - i : V(WIDTH); \
		for (int64_t j = 0; j < left; j++) \
			y[i + j] = (bits >> j) & 1; \
	} while (0)

static void
N(test)(int fn, const double f[2], const void *from, uint8_t *y, int64_t n)
{
	const T    *x = from;
	const V(t)	below = V(set1)(f[0] != 0 ? (T) -INFINITY : (T) NAN);
	const V(t)	above = V(set1)(f[1] != 0 ? (T) INFINITY : (T) NAN);

	for (int64_t i = 0; i < n; i += V(WIDTH))
	{
		V(t)		v = N(fetch)(x + i, n - i);

		if (fn == UNARY_IS_NAN)
			PUT_BITS(V(unord)(v, v));
		else
			PUT_BITS(V(either)(V(eq)(v, below), V(eq)(v, above)));
	}
}

#define MAP2(expression) \
	for (int64_t i = 0; i < n; i += V(WIDTH)) \
	{ \
		V(t)		a = a_step == 0 ? a_all : N(fetch)(pa + i, n - i); \
		V(t)		b = b_step == 0 ? b_all : N(fetch)(pb + i, n - i); \
		N(put)(y + i, n - i, N(canonical)(expression)); \
	} \
	break

static void
N(binary)(int fn, const void *from_a, int64_t a_step, const void *from_b, int64_t b_step, void *to,
		  int64_t n)
{
	const T    *pa = from_a;
	const T    *pb = from_b;
	T		   *y = to;
	V(t)		a_all;
	V(t)		b_all;

	if (n == 0)
		return;
	a_all = V(set1)(pa[0]);
	b_all = V(set1)(pb[0]);
	switch (fn)
	{
		case BINARY_ADD:
			MAP2(V(add)(a, b));
		case BINARY_SUB:
			MAP2(V(sub)(a, b));
		case BINARY_MUL:
			MAP2(V(mul)(a, b));
		case BINARY_DIV:
			MAP2(V(div)(a, b));
		case BINARY_POW:
			if (b_step == 0 && pb[0] == 2)
			{
				MAP2(((void) b, V(mul)(a, a)));
			}
			MAP2(N(pow)(a, b));
		case BINARY_MIN:
			MAP2(N(min)(a, b));
		case BINARY_MAX:
			MAP2(N(max)(a, b));
		case BINARY_MOD:
			MAP2(N(lanes2)(a, b, N(floored_mod)));
		case BINARY_FMOD:
			MAP2(N(lanes2)(a, b, LIBM(fmod)));
		case BINARY_PRELU:
			MAP2(V(select)(V(lt)(a, V(set1)(0)), V(mul)(b, a), a));
	}
}

#define TEST2(mask) \
	for (int64_t i = 0; i < n; i += V(WIDTH)) \
	{ \
		V(t)		a = a_step == 0 ? a_all : N(fetch)(pa + i, n - i); \
		V(t)		b = b_step == 0 ? b_all : N(fetch)(pb + i, n - i); \
		PUT_BITS(mask); \
	} \
	break

static void
N(compare)(int fn, const void *from_a, int64_t a_step, const void *from_b, int64_t b_step, uint8_t *y,
		   int64_t n)
{
	const T    *pa = from_a;
	const T    *pb = from_b;
	V(t)		a_all;
	V(t)		b_all;

	if (n == 0)
		return;
	a_all = V(set1)(pa[0]);
	b_all = V(set1)(pb[0]);
	switch (fn)
	{
		case BINARY_EQUAL:
			TEST2(V(eq)(a, b));
		case BINARY_LESS:
			TEST2(V(lt)(a, b));
		case BINARY_LESS_EQUAL:
			TEST2(V(le)(a, b));
		case BINARY_GREATER:
			TEST2(V(lt)(b, a));
		case BINARY_GREATER_EQUAL:
			TEST2(V(le)(b, a));
	}
}

/* ---- reductions: 16 partial sums, partial sum i of the elements i, i + 16, … ---- */

#define PARTS	(CPU_REDUCE_LANES / V(WIDTH))

INLINE V(t)
N(reduce_step)(int fn, V(t) shift, V(t) sum, V(t) v)
{
	switch (fn)
	{
		case REDUCE_MAX:
			return N(max)(sum, v);
		case REDUCE_MIN:
			return N(min)(sum, v);
		case REDUCE_PROD:
			return V(mul)(sum, v);
		case REDUCE_L1:
			return V(add)(sum, V(abs)(v));
		case REDUCE_L2:
		case REDUCE_SUM_SQUARE:
			return V(fma)(v, v, sum);
		case REDUCE_LOG_SUM_EXP:
			return V(add)(sum, N(e_to)(V(sub)(v, shift)));
	}
	return V(add)(sum, v);
}

static void
N(reduce_start)(int fn, void *state)
{
	T		   *sums = state;
	T			start = fn == REDUCE_MAX ? (T) -INFINITY : fn == REDUCE_MIN ? (T) INFINITY :
		fn == REDUCE_PROD ? 1 : 0;

	for (int i = 0; i < CPU_REDUCE_LANES; i++)
		sums[i] = start;
}

INLINE void
N(reduce_loop)(const int fn, V(t) shift, const T *x, int64_t n, T *sums)
{
	V(t)		sum[PARTS];

	UNROLL
	for (int j = 0; j < PARTS; j++)
		sum[j] = V(load)(sums + j * V(WIDTH));
	for (int64_t i = 0; i < n; i += CPU_REDUCE_LANES)
	{
		UNROLL
		for (int j = 0; j < PARTS; j++)
		{
			int64_t		left = n - i - j * V(WIDTH);

			if (left >= V(WIDTH))
				sum[j] = N(reduce_step)(fn, shift, sum[j], V(load)(x + i + j * V(WIDTH)));
			else if (left > 0)
			{
				V(m)		lanes = V(first)(left);
				V(t)		v = V(load_mask)(x + i + j * V(WIDTH), lanes);

				sum[j] = V(select)(lanes, N(reduce_step)(fn, shift, sum[j], v), sum[j]);
			}
		}
	}
	UNROLL
	for (int j = 0; j < PARTS; j++)
		V(store)(sums + j * V(WIDTH), sum[j]);
}

static void
N(reduce_add)(int fn, double shift, const void *x, int64_t n, void *state)
{
	V(t)		all = V(set1)((T) shift);

	switch (fn)
	{
		case REDUCE_MAX:
			N(reduce_loop)(REDUCE_MAX, all, x, n, state);
			break;
		case REDUCE_MIN:
			N(reduce_loop)(REDUCE_MIN, all, x, n, state);
			break;
		case REDUCE_PROD:
			N(reduce_loop)(REDUCE_PROD, all, x, n, state);
			break;
		case REDUCE_L1:
			N(reduce_loop)(REDUCE_L1, all, x, n, state);
			break;
		case REDUCE_L2:
		case REDUCE_SUM_SQUARE:
			N(reduce_loop)(REDUCE_SUM_SQUARE, all, x, n, state);
			break;
		case REDUCE_LOG_SUM_EXP:
			N(reduce_loop)(REDUCE_LOG_SUM_EXP, all, x, n, state);
			break;
		default:
			N(reduce_loop)(REDUCE_SUM, all, x, n, state);
	}
}

/* The 16 as a tree: i with i + 8, then i + 4, … */
static T
N(reduce_tree)(int fn, const T *state)
{
	T			sums[CPU_REDUCE_LANES];

	memcpy(sums, state, sizeof(sums));
	for (int half = CPU_REDUCE_LANES / 2; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
		{
			T			a = sums[i];
			T			b = sums[i + half];

			if (fn == REDUCE_MAX)
				sums[i] = b < a || a != a ? a : b;
			else if (fn == REDUCE_MIN)
				sums[i] = a < b || a != a ? a : b;
			else if (fn == REDUCE_PROD)
				sums[i] = a * b;
			else
				sums[i] = a + b;
		}
	return sums[0];
}

/* One element through a function of vectors. */
INLINE T
N(lane)(V(t) v)
{
	T			lanes[V(WIDTH)];

	V(store)(lanes, v);
	return lanes[0];
}

static void
N(reduce_finish)(int fn, double shift, int64_t n, const void *state, void *y)
{
	V(t)		v = V(set1)(N(reduce_tree)(fn, state));

	switch (fn)
	{
		case REDUCE_MEAN:
			v = V(div)(v, V(set1)((T) n));
			break;
		case REDUCE_L2:
			v = V(sqrt)(v);
			break;
		case REDUCE_LOG_SUM:
			v = N(ln)(v);
			break;
		case REDUCE_LOG_SUM_EXP:
			v = V(add)(N(ln)(v), V(set1)((T) shift));
			break;
	}
	*(T *) y = N(lane)(N(canonical)(v));
}

static T
N(reduce_all)(int fn, const T *x, int64_t n)
{
	T			state[CPU_REDUCE_LANES] __attribute__((aligned(64)));

	N(reduce_start)(fn, state);
	N(reduce_add)(fn, 0, x, n, state);
	return N(reduce_tree)(fn, state);
}

/* ---- softmax: y = e^(x − max) / Σ, log of it, 1 at the first maximum ---- */

/* Stores e^(x − max), 0 for zeros where these take no part, and adds it up. */
static T
N(softmax_exp)(bool zeros, const T *x, T *y, int64_t n, T max)
{
	T			state[CPU_REDUCE_LANES] __attribute__((aligned(64)));
	V(t)		sum[PARTS];
	V(t)		all = V(set1)(max);

	UNROLL
	for (int j = 0; j < PARTS; j++)
		sum[j] = V(set1)(0);
	for (int64_t i = 0; i < n; i += CPU_REDUCE_LANES)
	{
		UNROLL
		for (int j = 0; j < PARTS; j++)
		{
			int64_t		at = i + j * V(WIDTH);
			int64_t		left = n - at;

			if (left > 0)
			{
				V(t)		v = N(fetch)(x + at, left);
				V(t)		e = N(e_to)(V(sub)(v, all));

				if (zeros)
					e = V(select)(V(le)(V(abs)(v), V(set1)((T) 1e-7)), V(set1)(0), e);
				if (left < V(WIDTH))
					e = V(select)(V(first)(left), e, V(set1)(0));
				if (y != NULL)
					N(put)(y + at, left, e);
				sum[j] = V(add)(sum[j], e);
			}
		}
	}
	UNROLL
	for (int j = 0; j < PARTS; j++)
		V(store)(state + j * V(WIDTH), sum[j]);
	return N(reduce_tree)(REDUCE_SUM, state);
}

static void
N(softmax_hard)(const T *x, T *y, int64_t n)
{
	int64_t		best = 0;

	for (int64_t i = 1; i < n && x[best] == x[best]; i++)
		if (x[i] > x[best] || x[i] != x[i])
			best = i;
	for (int64_t i = 0; i < n; i++)
		y[i] = i == best ? 1 : 0;
}

static void
N(softmax)(int fn, const void *from, void *to, int64_t n)
{
	const T    *x = from;
	T		   *y = to;
	T			max;
	T			sum;

	if (fn == SOFTMAX_HARD)
	{
		N(softmax_hard)(x, y, n);
		return;
	}
	max = N(reduce_all)(REDUCE_MAX, x, n);
	sum = N(softmax_exp)(fn == SOFTMAX_ZERO, x, fn == SOFTMAX_LOG ? NULL : y, n, max);
	if (fn == SOFTMAX_LOG)
	{
		V(t)		all = V(set1)(max);
		V(t)		log_sum = N(ln)(V(set1)(sum));

		for (int64_t i = 0; i < n; i += V(WIDTH))
			N(put)(y + i, n - i,
				   N(canonical)(V(sub)(V(sub)(N(fetch)(x + i, n - i), all), log_sum)));
		return;
	}
	if (fn == SOFTMAX_ZERO && sum == 0)
		sum = 1;					/* nothing but zeros */
	for (int64_t i = 0; i < n; i += V(WIDTH))
		N(put)(y + i, n - i, N(canonical)(V(div)(N(fetch)(y + i, n - i), V(set1)(sum))));
}

static void
N(normalize)(int fn, const void *from, void *to, int64_t n)
{
	const T    *x = from;
	T		   *y = to;
	T			norm = N(reduce_all)(fn == NORMALIZE_MAX ? REDUCE_MAX : fn == NORMALIZE_L1 ? REDUCE_L1 :
									 REDUCE_SUM_SQUARE, x, n);

	if (fn == NORMALIZE_L2)
		norm = N(lane)(V(sqrt)(V(set1)(norm)));
	if (norm == 0)
		norm = 1;
	for (int64_t i = 0; i < n; i += V(WIDTH))
		N(put)(y + i, n - i, N(canonical)(V(div)(N(fetch)(x + i, n - i), V(set1)(norm))));
}

#undef MAP
#undef MAP2
#undef TEST2
#undef PUT_BITS
#undef PARTS

#ifndef KERNELS_OF
#define KERNELS_OF(SUFFIX, TYPE, WIDTH) \
	{ \
		.bytes = sizeof(TYPE), \
		.panel = 2 * WIDTH, \
		.rows = TILE_ROWS, \
		.product = product##SUFFIX, \
		.peak = peak##SUFFIX, \
		.unary = unary##SUFFIX, \
		.test = test##SUFFIX, \
		.binary = binary##SUFFIX, \
		.compare = compare##SUFFIX, \
		.reduce_start = reduce_start##SUFFIX, \
		.reduce_add = reduce_add##SUFFIX, \
		.reduce_finish = reduce_finish##SUFFIX, \
		.softmax = softmax##SUFFIX, \
		.normalize = normalize##SUFFIX \
	}
#endif
