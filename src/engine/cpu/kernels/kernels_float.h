/*
 * kernels_float.h
 *	  Element-wise functions and comparisons.  Included by kernels_impl.h for each type.
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
	for (; rows > 0; rows--, x += step, y += step) \
		for (int64_t i = 0; i < n; i += V(WIDTH)) \
		{ \
			V(t)		v = N(fetch)(x + i, n - i); \
			N(put)(y + i, n - i, N(canonical)(expression)); \
		} \
	break

#define MAP_EACH(function) \
	for (; rows > 0; rows--, x += step, y += step) \
		for (int64_t i = 0; i < n;) \
		{ \
			V(t)		v[EACH_MAX]; \
			int64_t		left = n - i; \
			if (left >= EACH_MAX * V(WIDTH)) \
			{ \
				UNROLL \
				for (int j = 0; j < EACH_MAX; j++) \
					v[j] = V(load)(x + i + j * V(WIDTH)); \
				function(v, EACH_MAX); \
				UNROLL \
				for (int j = 0; j < EACH_MAX; j++) \
					V(store)(y + i + j * V(WIDTH), N(canonical)(v[j])); \
				i += EACH_MAX * V(WIDTH); \
				continue; \
			} \
			v[0] = N(fetch)(x + i, left); \
			function(v, 1); \
			N(put)(y + i, left, N(canonical)(v[0])); \
			i += V(WIDTH); \
		} \
	break

static void
N(map_rows)(int fn, const double f[2], const T *x, T *y, int64_t step, int64_t rows, int64_t n)
{
	const V(t)	zero = V(set1)(0);
	const V(t)	one = V(set1)(1);
	const V(t)	half = V(set1)((T) 0.5);
	const V(t)	f0 = V(set1)((T) f[0]);
	const V(t)	f1 = V(set1)((T) f[1]);

	switch (fn)
	{
		case UNARY_NONE:
			for (; rows > 0 && x != y; rows--, x += step, y += step)
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
			MAP_EACH(N(gelu_each));
		case UNARY_GELU_TANH:
			MAP_EACH(N(gelu_tanh_each));
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

static void
N(unary)(int fn, const double f[2], const void *x, void *y, int64_t n)
{
	N(map_rows)(fn, f, x, y, 0, 1, n);
}

static void
N(unary_rows)(int fn, const double f[2], void *x, int64_t step, int64_t rows, int64_t n)
{
	N(map_rows)(fn, f, x, x, step, rows, n);
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

#undef MAP
#undef MAP_EACH
#undef EACH
#undef MAP2
#undef TEST2
#undef PUT_BITS
