/*
 * kernels_vector.h
 *	  Reductions, softmax and norms of consecutive elements.  Included by kernels_impl.h for
 *	  each type.
 *
 * A reduction is 16 partial sums, partial sum i of the elements i, i + 16, …, whatever the
 * width of a vector; these are combined as a tree.
 */

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

#undef PARTS
