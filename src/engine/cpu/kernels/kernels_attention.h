/*
 * kernels_attention.h
 *	  One head of attention over the tokens of a row.  Included by kernels_impl.h for float.
 *
 * Nouns
 *	lane		a query.  All that becomes of it happens in its lane, so nothing depends on
 *				which queries are beside it, nor on how many lanes a vector has
 *	tile		two vectors of queries: number d of each side by side
 *	block		CPU_ATTENTION_KEYS keys, counted from the row's first token
 *	group		CPU_ATTENTION_GROUP queries, counted likewise.  Where there is a window, a
 *				group looks at each block that one of its queries may see
 *
 * Loop
 *	The queries are turned into tiles, multiplied by scale · log2 e.  Then for each block
 *	and each tile: scores (a chain of fused multiply-adds along d, from +0; then the bias;
 *	−∞ outside of the window), their maximum, 2^(score − maximum), their sum and that of the
 *	values (chains along the block's keys), which are joined with what the blocks before
 *	gave, times 2^(their maximum − the new one).
 *
 * No number overflows unless a score does: exponents are at most 0.  The least power is
 * 2^−126, what is below counts as 0.
 */

#define TILE_LANES	(2 * vf_WIDTH)
#if TILE_ROWS == 14
#define TILE_KEYS	8				/* 16 sums */
#define TILE_VALUES	8
#else
#define TILE_KEYS	4				/* 8 sums of 16 registers */
#define TILE_VALUES	4
#endif

#define LOG2_E		1.44269504088896340736

/* (2^r − 1) / r in r, |r| ≤ ½: fitted like those of kernels_math.h; 3e-9 of 2^r */
static const float power_terms[] = {0x1.62e430p-1f, 0x1.ebfbdcp-3f, 0x1.c6af7ap-5f, 0x1.3b2dd2p-7f,
0x1.5f0948p-10f, 0x1.417a9cp-13f};

/* 2^x for x ≤ 0; 2^0 is 1 */
INLINE vf_t
power(vf_t x)
{
	vf_t		bounded = vf_greater(vf_set1(-127), x);	/* and NaN */
	vf_t		n = vf_rint(bounded);
	vf_t		r = vf_sub(bounded, n);
	vf_t		p = vf_fma(r, polynomial_f32(r, power_terms, sizeof(power_terms) / sizeof(float)), vf_set1(1));

	return vf_mul(p, vf_pow2(n));
}

/* s[j][lane] = Σd q[d][lane] · k[j][d] */
INLINE void
score_tile(const float *q, const float *k, int64_t k_step, int64_t size, float *s, const int keys,
		   const int vectors)
{
	vf_t		sum[TILE_KEYS][2];

	UNROLL
	for (int j = 0; j < keys; j++)
	{
		UNROLL
		for (int v = 0; v < vectors; v++)
			sum[j][v] = vf_set1(0);
	}
	for (int64_t d = 0; d < size; d++)
	{
		vf_t		query[2];

		UNROLL
		for (int v = 0; v < vectors; v++)
			query[v] = vf_load(q + d * TILE_LANES + v * vf_WIDTH);
		UNROLL
		for (int j = 0; j < keys; j++)
		{
			vf_t		key = vf_set1(k[j * k_step + d]);

			UNROLL
			for (int v = 0; v < vectors; v++)
				sum[j][v] = vf_fma(query[v], key, sum[j][v]);
		}
	}
	UNROLL
	for (int j = 0; j < keys; j++)
	{
		UNROLL
		for (int v = 0; v < vectors; v++)
			vf_store(s + j * TILE_LANES + v * vf_WIDTH, sum[j][v]);
	}
}

/* o[e][lane] = o[e][lane] · scale[lane] + Σj p[j][lane] · v[j][e]; first: without the former */
INLINE void
value_tile(const float *p, const float *v, int64_t v_step, int64_t keys, float *o, bool first, const vf_t *scale,
		   const int columns, const int vectors)
{
	vf_t		sum[TILE_VALUES][2];

	UNROLL
	for (int e = 0; e < columns; e++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
			sum[e][i] = vf_set1(0);
	}
	for (int64_t j = 0; j < keys; j++)
	{
		vf_t		weight[2];

		UNROLL
		for (int i = 0; i < vectors; i++)
			weight[i] = vf_load(p + j * TILE_LANES + i * vf_WIDTH);
		UNROLL
		for (int e = 0; e < columns; e++)
		{
			vf_t		value = vf_set1(v[j * v_step + e]);

			UNROLL
			for (int i = 0; i < vectors; i++)
				sum[e][i] = vf_fma(weight[i], value, sum[e][i]);
		}
	}
	UNROLL
	for (int e = 0; e < columns; e++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
		{
			float	   *to = o + e * TILE_LANES + i * vf_WIDTH;

			vf_store(to, first ? sum[e][i] : vf_fma(vf_load(to), scale[i], sum[e][i]));
		}
	}
}

#if TILE_KEYS == 8
#define REST_OF_TILE(left, TILE) \
	switch (left) \
	{ \
		case 1: TILE(1); break; \
		case 2: TILE(2); break; \
		case 3: TILE(3); break; \
		case 4: TILE(4); break; \
		case 5: TILE(5); break; \
		case 6: TILE(6); break; \
		case 7: TILE(7); break; \
	}
#else
#define REST_OF_TILE(left, TILE) \
	switch (left) \
	{ \
		case 1: TILE(1); break; \
		case 2: TILE(2); break; \
		case 3: TILE(3); break; \
	}
#endif

INLINE void
scores(const float *q, const float *k, int64_t k_step, int64_t size, int64_t keys, float *s, const int vectors)
{
	int64_t		j = 0;

#define TILE(count) \
	score_tile(q, k + j * k_step, k_step, size, s + j * TILE_LANES, count, vectors)
	for (; j + TILE_KEYS <= keys; j += TILE_KEYS)
		TILE(TILE_KEYS);
	REST_OF_TILE(keys - j, TILE)
#undef TILE
}

INLINE void
values(const float *p, const float *v, int64_t v_step, int64_t size, int64_t keys, float *o, bool first,
	   const vf_t *scale, const int vectors)
{
	int64_t		e = 0;

#define TILE(count) \
	value_tile(p, v + e, v_step, keys, o + e * TILE_LANES, first, scale, count, vectors)
	for (; e + TILE_VALUES <= size; e += TILE_VALUES)
		TILE(TILE_VALUES);
	REST_OF_TILE(size - e, TILE)
#undef TILE
}

/* What a block means to a tile. */
struct attention_block
{
	const float *k;
	const float *v;
	int64_t		step;				/* from a key or value to the next */
	int64_t		key;				/* place of its first key in the row */
	int64_t		keys;
	const float *bias;				/* bias[i − j] of query i and key j, times log2 e; or NULL */
	int64_t		window;				/* 0: the tile's queries see all of its keys */
};

/* Adds biases, puts −∞ outside of the window. */
INLINE void
score_places(const struct attention_block *block, int64_t query, float *s, const int vectors)
{
	static const float lanes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
	22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

	for (int64_t j = 0; j < block->keys; j++)
	{
		int64_t		distance = query - (block->key + j);

		UNROLL
		for (int i = 0; i < vectors; i++)
		{
			float	   *at = s + j * TILE_LANES + i * vf_WIDTH;
			vf_t		score = vf_load(at);

			if (block->bias != NULL)
				score = vf_add(score, vf_load(block->bias + distance + i * vf_WIDTH));
			if (block->window > 0)
			{
				vf_t		away = vf_abs(vf_add(vf_set1((float) distance), vf_load(lanes + i * vf_WIDTH)));

				score = vf_select(vf_le(away, vf_set1((float) block->window)), score, vf_set1(-INFINITY));
			}
			vf_store(at, score);
		}
	}
}

/*
 * A block's part of a tile's queries, the first of which is the row's query-th.  max and sum:
 * of the blocks before.
 */
INLINE void
attend(const struct attention_block *block, int64_t size, int64_t query, const float *q, float *o, float *max,
	   float *sum, float *s, bool first, const int vectors)
{
	vf_t		greatest[2];
	vf_t		shift[2];
	vf_t		total[2];
	vf_t		scale[2];

	scores(q, block->k, block->step, size, block->keys, s, vectors);
	if (block->bias != NULL || block->window > 0)
		score_places(block, query, s, vectors);
	UNROLL
	for (int i = 0; i < vectors; i++)
	{
		greatest[i] = first ? vf_set1(-INFINITY) : vf_load(max + i * vf_WIDTH);
		total[i] = vf_set1(0);
	}
	for (int64_t j = 0; j < block->keys; j++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
			greatest[i] = vf_greater(vf_load(s + j * TILE_LANES + i * vf_WIDTH), greatest[i]);
	}
	UNROLL
	for (int i = 0; i < vectors; i++)
	{
		/* nothing but −∞ so far: powers of −∞, which are 0 */
		shift[i] = vf_select(vf_eq(greatest[i], vf_set1(-INFINITY)), vf_set1(0), greatest[i]);
		scale[i] = first ? vf_set1(0) : power(vf_sub(vf_load(max + i * vf_WIDTH), shift[i]));
		vf_store(max + i * vf_WIDTH, greatest[i]);
	}
	for (int64_t j = 0; j < block->keys; j++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
		{
			float	   *at = s + j * TILE_LANES + i * vf_WIDTH;
			vf_t		weight = power(vf_sub(vf_load(at), shift[i]));

			vf_store(at, weight);
			total[i] = vf_add(total[i], weight);
		}
	}
	UNROLL
	for (int i = 0; i < vectors; i++)
		vf_store(sum + i * vf_WIDTH,
				 first ? total[i] : vf_fma(vf_load(sum + i * vf_WIDTH), scale[i], total[i]));
	values(s, block->v, block->step, size, block->keys, o, first, scale, vectors);
}

/* Apart, so that each has the registers for itself. */
static __attribute__((noinline)) void
attend_one(const struct attention_block *block, int64_t size, int64_t query, const float *q, float *o, float *max,
		   float *sum, float *s, bool first)
{
	attend(block, size, query, q, o, max, sum, s, first, 1);
}

static __attribute__((noinline)) void
attend_two(const struct attention_block *block, int64_t size, int64_t query, const float *q, float *o, float *max,
		   float *sum, float *s, bool first)
{
	attend(block, size, query, q, o, max, sum, s, first, 2);
}

/*
 * A token's vectors lie far apart, one head's in few lines of each: packed once, they are
 * read in order afterwards, and those of the next head, which lie behind, come meanwhile.
 */
INLINE void
expect(const float *x, int64_t size)
{
	__builtin_prefetch(x + size);
}

/* Turns up to a tile of queries: q[d][lane], zeros in the lanes of none. */
static void
load_queries(const float *x, int64_t step, int64_t size, int64_t count, float scale, float *q)
{
	for (int64_t i = 0; i < count; i += vf_WIDTH)
		for (int64_t d = 0; d < size; d += vf_WIDTH)
		{
			vf_t		rows[vf_WIDTH];

			UNROLL
			for (int lane = 0; lane < vf_WIDTH; lane++)
			{
				const float *from = x + (i + lane) * step + d;

				rows[lane] = vf_set1(0);
				if (i + lane >= count)
					continue;
				rows[lane] = vf_mul(fetch_f32(from, size - d), vf_set1(scale));
				expect(from, size);
			}
			vf_transpose(rows);
			UNROLL
			for (int lane = 0; lane < vf_WIDTH; lane++)
				vf_store(q + (d + lane) * TILE_LANES + i, rows[lane]);
		}
}

/* Divides by the sums and turns back. */
static void
store_outputs(const float *o, const float *sum, int64_t size, int64_t count, float *y, int64_t step)
{
	for (int64_t i = 0; i < count; i += vf_WIDTH)
	{
		vf_t		share = vf_div(vf_set1(1), vf_load(sum + i));

		for (int64_t e = 0; e < size; e += vf_WIDTH)
		{
			vf_t		rows[vf_WIDTH];

			UNROLL
			for (int lane = 0; lane < vf_WIDTH; lane++)
				rows[lane] = e + lane < size
					? canonical_f32(vf_fma(vf_load(o + (e + lane) * TILE_LANES + i), share, vf_set1(0)))
					: vf_set1(0);
			vf_transpose(rows);
			UNROLL
			for (int lane = 0; lane < vf_WIDTH; lane++)
				if (i + lane < count)
					put_f32(y + (i + lane) * step + e, size - e, rows[lane]);
		}
	}
}

static void
pack_rows(const float *x, int64_t step, int64_t size, int64_t count, float *to, int64_t to_step)
{
	for (int64_t i = 0; i < count; i++)
		for (int64_t d = 0; d < size; d += vf_WIDTH)
		{
			put_f32(to + i * to_step + d, size - d, fetch_f32(x + i * step + d, size - d));
			expect(x + i * step + d, size);
		}
}

/* table[i − j], for queries [q0, q1) and a block's keys. */
static const float *
pack_bias(const struct cpu_attention *a, int64_t q0, int64_t q1, const struct attention_block *block, float *table)
{
	int64_t		low = q0 - (block->key + block->keys - 1);
	int64_t		high = q1 + TILE_LANES - block->key;

	for (int64_t t = low; t < high; t++)
	{
		int64_t		place = -t < -a->bias_reach ? -a->bias_reach : -t > a->bias_reach ? a->bias_reach : -t;

		table[t - low] = a->bias[a->bias_reach + place] * (float) LOG2_E;
	}
	return table - low;
}

static void
attention(const struct cpu_attention *a, int64_t q0, int64_t q1)
{
	int64_t		padded = cpu_attention_padded(a->size);
	const float *x_q = a->q;
	const float *x_k = a->k;
	const float *x_v = a->v;
	float	   *y = a->y;
	float	   *q = a->scratch;
	float	   *o = q + padded * CPU_ATTENTION_QUERIES;
	float	   *k = o + padded * CPU_ATTENTION_QUERIES;
	float	   *v = k + padded * CPU_ATTENTION_KEYS;
	float	   *s = v + padded * CPU_ATTENTION_KEYS;
	float	   *max = s + CPU_ATTENTION_KEYS * CPU_ATTENTION_GROUP;
	float	   *sum = max + CPU_ATTENTION_QUERIES;
	float	   *table = sum + CPU_ATTENTION_QUERIES;
	int64_t		key_first = 0;
	int64_t		key_last = a->length;

	if (a->window > 0)
	{
		key_first = q0 > a->window ? (q0 - a->window) / CPU_ATTENTION_KEYS * CPU_ATTENTION_KEYS : 0;
		key_last = a->length - q1 > a->window + CPU_ATTENTION_GROUP ? q1 + a->window + CPU_ATTENTION_GROUP : a->length;
	}
	for (int64_t i = q0; i < q1; i += TILE_LANES)
		load_queries(x_q + i * a->x_step, a->x_step, a->size, q1 - i < TILE_LANES ? q1 - i : TILE_LANES,
					 (float) (a->scale * LOG2_E), q + (i - q0) * padded);
	for (int64_t key = key_first; key < key_last; key += CPU_ATTENTION_KEYS)
	{
		struct attention_block block = {
			.k = k,
			.v = v,
			.step = padded,
			.key = key,
			.keys = a->length - key < CPU_ATTENTION_KEYS ? a->length - key : CPU_ATTENTION_KEYS
		};

		pack_rows(x_k + key * a->x_step, a->x_step, a->size, block.keys, k, padded);
		pack_rows(x_v + key * a->x_step, a->x_step, a->size, block.keys, v, padded);
		if (a->bias != NULL)
			block.bias = pack_bias(a, q0, q1, &block, table);
		for (int64_t i = q0; i < q1; i += TILE_LANES)
		{
			int64_t		group = i / CPU_ATTENTION_GROUP * CPU_ATTENTION_GROUP;
			int64_t		group_last = group + CPU_ATTENTION_GROUP - 1;
			bool		first = key == 0;

			if (a->window > 0)
			{
				if (key > group_last + a->window || key + block.keys <= group - a->window)
					continue;
				first = key == (group > a->window ? (group - a->window) / CPU_ATTENTION_KEYS * CPU_ATTENTION_KEYS : 0);
				block.window = key >= group_last - a->window && key + block.keys - 1 <= group + a->window ? 0 : a->window;
			}
			(q1 - i > vf_WIDTH ? attend_two : attend_one) (&block, a->size, i, q + (i - q0) * padded,
														   o + (i - q0) * padded, max + (i - q0), sum + (i - q0), s,
														   first);
		}
	}
	for (int64_t i = q0; i < q1; i += TILE_LANES)
		store_outputs(o + (i - q0) * padded, sum + (i - q0), a->size, q1 - i < TILE_LANES ? q1 - i : TILE_LANES,
					  y + i * a->y_step, a->y_step);
}

#undef TILE_LANES
#undef TILE_KEYS
#undef TILE_VALUES
#undef LOG2_E
#undef REST_OF_TILE
