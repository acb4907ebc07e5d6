/*
 * kernels_sequence.h
 *	  Norms, rotations and pooling of tokens.  Included by kernels_impl.h for float.
 */

#define PARTS	(CPU_REDUCE_LANES / V(WIDTH))

/*
 * The 16 partial sums of f(v) over x, as REDUCE has them: NORM_SUM adds v, NORM_SQUARES
 * (v − shift)².  r: added to x first, and what that gives is stored to y; or both NULL.
 */
enum norm_sum
{
	NORM_SUM, NORM_SQUARES
};

INLINE float
norm_sum(const enum norm_sum what, const float *x, const float *r, float *y, float shift, int64_t n)
{
	float		state[CPU_REDUCE_LANES] __attribute__((aligned(64)));
	vf_t		sum[PARTS];
	vf_t		all = vf_set1(shift);

	UNROLL
	for (int j = 0; j < PARTS; j++)
		sum[j] = vf_set1(0);
	for (int64_t i = 0; i < n; i += CPU_REDUCE_LANES)
	{
		UNROLL
		for (int j = 0; j < PARTS; j++)
		{
			int64_t		at = i + j * vf_WIDTH;
			int64_t		left = n - at;
			vf_t		v;
			vf_t		next;

			if (left <= 0)
				continue;
			v = fetch_f32(x + at, left);
			if (r != NULL)
				v = vf_add(v, fetch_f32(r + at, left));
			if (y != NULL)
				put_f32(y + at, left, v);
			if (what == NORM_SQUARES)
			{
				v = vf_sub(v, all);
				next = vf_fma(v, v, sum[j]);
			}
			else
				next = vf_add(sum[j], v);
			sum[j] = left >= vf_WIDTH ? next : vf_select(vf_first(left), next, sum[j]);
		}
	}
	UNROLL
	for (int j = 0; j < PARTS; j++)
		vf_store(state + j * vf_WIDTH, sum[j]);
	return reduce_tree_f32(REDUCE_SUM, state);
}

/* In three passes over a vector that the first-level cache keeps: its sum lies in y. */
static void
norm(int fn, double epsilon, const float *x, const float *r, const float *g, const float *b, float *y, int64_t n)
{
	const float *sums = r != NULL ? y : x;
	float		mean = 0;
	float		scale;

	if (n == 0)
		return;
	if (fn == NORM_LAYER)
	{
		mean = norm_sum(NORM_SUM, x, r, r != NULL ? y : NULL, 0, n) / (float) n;
		scale = norm_sum(NORM_SQUARES, sums, NULL, NULL, mean, n);
	}
	else
		scale = norm_sum(NORM_SQUARES, x, r, r != NULL ? y : NULL, 0, n);
	scale = 1 / sqrtf(scale / (float) n + (float) epsilon);
	for (int64_t i = 0; i < n; i += vf_WIDTH)
	{
		vf_t		v = vf_mul(vf_sub(fetch_f32(sums + i, n - i), vf_set1(mean)), vf_set1(scale));
		vf_t		add = b != NULL ? fetch_f32(b + i, n - i) : vf_set1(0);

		if (g != NULL)
			v = vf_fma(v, fetch_f32(g + i, n - i), add);
		else
			v = vf_add(v, add);
		put_f32(y + i, n - i, canonical_f32(v));
	}
}

/* (a, b) → (a cos − b sin, b cos + a sin) */
INLINE void
turn(vf_t *a, vf_t *b, vf_t cosine, vf_t sine)
{
	vf_t		turned = vf_fma(*a, cosine, vf_neg(vf_mul(*b, sine)));

	*b = canonical_f32(vf_fma(*b, cosine, vf_mul(*a, sine)));
	*a = canonical_f32(turned);
}

static void
rotary(const float *table, int64_t turned, bool neighbours, const float *x, float *y)
{
	int64_t		pairs = turned / 2;

	for (int64_t i = 0; i < pairs; i += vf_WIDTH)
	{
		int64_t		left = pairs - i;
		int64_t		lanes = left < vf_WIDTH ? left : vf_WIDTH;
		float		pair[2][vf_WIDTH] = {{0}};
		vf_t		a;
		vf_t		b;

		for (int64_t lane = 0; neighbours && lane < lanes; lane++)
		{
			pair[0][lane] = x[2 * (i + lane)];
			pair[1][lane] = x[2 * (i + lane) + 1];
		}
		a = neighbours ? vf_load(pair[0]) : fetch_f32(x + i, left);
		b = neighbours ? vf_load(pair[1]) : fetch_f32(x + pairs + i, left);
		turn(&a, &b, fetch_f32(table + i, left), fetch_f32(table + pairs + i, left));
		if (!neighbours)
		{
			put_f32(y + i, left, a);
			put_f32(y + pairs + i, left, b);
			continue;
		}
		vf_store(pair[0], a);
		vf_store(pair[1], b);
		for (int64_t lane = 0; lane < lanes; lane++)
		{
			y[2 * (i + lane)] = pair[0][lane];
			y[2 * (i + lane) + 1] = pair[1][lane];
		}
	}
}

/*
 * Sums are sums of blocks of POOL_BLOCK tokens, so that their error does not grow with the
 * number of tokens.  place: of the first token in its row.
 */
#define POOL_BLOCK	32

static float
pool_divisor(int fn, int64_t place, int64_t count)
{
	if (fn == POOL_WEIGHTED)
		return (float) (count * place + count * (count + 1) / 2);
	return fn == POOL_MEAN_SQRT ? sqrtf((float) count) : (float) count;
}

static void
pool(int fn, const float *x, int64_t step, int64_t place, int64_t count, float *y, int64_t n)
{
	vf_t		divisor = vf_set1(pool_divisor(fn, place, count));

	for (int64_t i = 0; i < n; i += vf_WIDTH)
	{
		vf_t		total = vf_set1(fn == POOL_MAX ? -INFINITY : 0);

		for (int64_t first = 0; first < count; first += POOL_BLOCK)
		{
			int64_t		last = first + POOL_BLOCK < count ? first + POOL_BLOCK : count;
			vf_t		block = vf_set1(fn == POOL_MAX ? -INFINITY : 0);

			for (int64_t t = first; t < last; t++)
			{
				vf_t		v = fetch_f32(x + t * step + i, n - i);

				block = fn == POOL_MAX ? max_f32(block, v) :
					fn == POOL_WEIGHTED ? vf_fma(vf_set1((float) (place + t + 1)), v, block) : vf_add(block, v);
			}
			total = fn == POOL_MAX ? max_f32(total, block) : vf_add(total, block);
		}
		put_f32(y + i, n - i, canonical_f32(fn == POOL_MAX ? total : vf_div(total, divisor)));
	}
}

#undef PARTS
