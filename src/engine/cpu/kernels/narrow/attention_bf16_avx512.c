/*
 * attention_bf16_avx512.c
 *	  Attention of one head over the tokens of a row, its products in bf16 by VDPBF16PS.
 *
 * As kernels_attention.h has it, whose nouns and loop these are: a query has a lane from its
 * scores to its output.  Here a group is two numbers of bf16 in 32 bits: of q and k two
 * neighbours, of weights and values those of two neighbouring keys.  Scores, weights, their
 * sums and outputs are float32; a weight is rounded to bf16 where it meets a value.
 */
#include "lanes_avx512.h"
#include "../kernels.h"
#include "../transpose_avx512.h"
#include "narrow.h"

#include <math.h>

#define TILE_LANES	(2 * LANES)
#define TILE_KEYS	8
#define TILE_VALUES	8
#define LOG2_E		1.44269504088896340736f

/* 2^x for x ≤ 0, 3e-6 of it: a weight keeps 8 bits.  Below 2^−127: 0. */
LANE lane_f32
power(lane_f32 x)
{
	lane_f32	least = lane_set1(-127);
	lane_f32	bounded = _mm512_max_ps(least, x);	/* and NaN */
	lane_f32	n = _mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	lane_f32	r = _mm512_sub_ps(bounded, n);
	lane_f32	p = lane_set1(0x1.3a03c8p-7f);

	p = lane_fma(p, r, lane_set1(0x1.c9fc74p-5f));
	p = lane_fma(p, r, lane_set1(0x1.ec0374p-3f));
	p = lane_fma(p, r, lane_set1(0x1.62e12cp-1f));
	p = lane_fma(p, r, lane_set1(1));
	return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, least, _CMP_NLE_UQ), p, n);
}

LANE lane_f32
dot(lane_f32 sum, lane_i32 a, lane_i32 b)
{
	return _mm512_dpbf16_ps(sum, (__m512bh) a, (__m512bh) b);
}

/* s[j][lane] = scale · Σ of the groups of q[·][lane] and k[j][·] */
LANE void
score_tile(const uint32_t *q, const uint32_t *k, int64_t k_step, int64_t groups, float scale, float *s,
		   const int keys, const int vectors)
{
	lane_f32	sum[TILE_KEYS][2];

	UNROLL
	for (int j = 0; j < keys; j++)
	{
		UNROLL
		for (int v = 0; v < vectors; v++)
			sum[j][v] = _mm512_setzero_ps();
	}
	for (int64_t d = 0; d < groups; d++)
	{
		lane_i32	query[2];

		UNROLL
		for (int v = 0; v < vectors; v++)
			query[v] = _mm512_loadu_si512(q + d * TILE_LANES + v * LANES);
		UNROLL
		for (int j = 0; j < keys; j++)
		{
			lane_i32	key = lane_group(k[j * k_step + d]);

			UNROLL
			for (int v = 0; v < vectors; v++)
				sum[j][v] = dot(sum[j][v], query[v], key);
		}
	}
	UNROLL
	for (int j = 0; j < keys; j++)
	{
		UNROLL
		for (int v = 0; v < vectors; v++)
			lane_store(s + j * TILE_LANES + v * LANES, lane_mul(sum[j][v], lane_set1(scale)));
	}
}

/* o[e][lane] = o[e][lane] · scale[lane] + Σ of the groups of p[·][lane] and v[·][e]; first: without the former */
LANE void
value_tile(const uint32_t *p, const uint32_t *v, int64_t v_step, int64_t groups, float *o, bool first,
		   const lane_f32 *scale, const int columns, const int vectors)
{
	lane_f32	sum[TILE_VALUES][2];

	UNROLL
	for (int e = 0; e < columns; e++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
			sum[e][i] = _mm512_setzero_ps();
	}
	for (int64_t j = 0; j < groups; j++)
	{
		lane_i32	weight[2];

		UNROLL
		for (int i = 0; i < vectors; i++)
			weight[i] = _mm512_loadu_si512(p + j * TILE_LANES + i * LANES);
		UNROLL
		for (int e = 0; e < columns; e++)
		{
			lane_i32	value = lane_group(v[j * v_step + e]);

			UNROLL
			for (int i = 0; i < vectors; i++)
				sum[e][i] = dot(sum[e][i], weight[i], value);
		}
	}
	UNROLL
	for (int e = 0; e < columns; e++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
		{
			float	   *to = o + e * TILE_LANES + i * LANES;

			lane_store(to, first ? sum[e][i] : lane_fma(lane_load(to), scale[i], sum[e][i]));
		}
	}
}

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

/* What a block means to a tile. */
struct block
{
	const uint32_t *k;				/* groups of each key, `k_step` from one to the next */
	const uint32_t *v;				/* of each two keys the groups of their values */
	int64_t		k_step;
	int64_t		v_step;
	int64_t		key;				/* place of its first key in the row */
	int64_t		keys;
	const float *bias;				/* bias[i − j] of query i and key j, times log2 e; or NULL */
	int64_t		window;				/* 0: the tile's queries see all of its keys */
};

/* Adds biases, puts −∞ outside of the window. */
LANE void
score_places(const struct block *block, int64_t query, float *s, const int vectors)
{
	const lane_i32 lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

	for (int64_t j = 0; j < block->keys; j++)
	{
		int64_t		distance = query - (block->key + j);

		UNROLL
		for (int i = 0; i < vectors; i++)
		{
			float	   *at = s + j * TILE_LANES + i * LANES;
			lane_f32	score = lane_load(at);

			if (block->bias != NULL)
				score = lane_add(score, lane_load(block->bias + distance + i * LANES));
			if (block->window > 0)
			{
				lane_i32	away = _mm512_abs_epi32(_mm512_add_epi32(lanes, _mm512_set1_epi32((int) distance + i * LANES)));

				score = _mm512_mask_mov_ps(lane_set1(-INFINITY),
										   _mm512_cmple_epi32_mask(away, _mm512_set1_epi32((int) block->window)), score);
			}
			lane_store(at, score);
		}
	}
}

/* Weights of two keys at a time as groups, over their scores; the last one's neighbour weighs nothing. */
LANE void
weights(float *s, int64_t keys, const lane_f32 *shift, lane_f32 *total, const int vectors)
{
	const lane_i32 order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
											22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);

	for (int64_t j = 0; j < keys; j += 2)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
		{
			float	   *at = s + j * TILE_LANES + i * LANES;
			lane_f32	one = power(_mm512_sub_ps(lane_load(at), shift[i]));
			lane_f32	other = _mm512_setzero_ps();

			total[i] = lane_add(total[i], one);
			if (j + 1 < keys)
			{
				other = power(_mm512_sub_ps(lane_load(at + TILE_LANES), shift[i]));
				total[i] = lane_add(total[i], other);
			}
			_mm512_storeu_si512(s + j / 2 * TILE_LANES + i * LANES,
								_mm512_permutexvar_epi16(order, (__m512i) _mm512_cvtne2ps_pbh(other, one)));
		}
	}
}

LANE void
attend(const struct block *block, int64_t size, float scale, int64_t query, const uint32_t *q, float *o, float *max,
	   float *sum, float *s, bool first, const int vectors)
{
	lane_f32	greatest[2];
	lane_f32	shift[2];
	lane_f32	total[2];
	lane_f32	old[2];
	int64_t		groups = (size + 1) / 2;
	int64_t		at = 0;

#define TILE(count) \
	score_tile(q, block->k + at * block->k_step, block->k_step, groups, scale, s + at * TILE_LANES, count, vectors)
	for (; at + TILE_KEYS <= block->keys; at += TILE_KEYS)
		TILE(TILE_KEYS);
	REST_OF_TILE(block->keys - at, TILE)
#undef TILE
	if (block->bias != NULL || block->window > 0)
		score_places(block, query, s, vectors);
	UNROLL
	for (int i = 0; i < vectors; i++)
	{
		greatest[i] = first ? lane_set1(-INFINITY) : lane_load(max + i * LANES);
		total[i] = _mm512_setzero_ps();
	}
	for (int64_t j = 0; j < block->keys; j++)
	{
		UNROLL
		for (int i = 0; i < vectors; i++)
			greatest[i] = _mm512_max_ps(lane_load(s + j * TILE_LANES + i * LANES), greatest[i]);
	}
	UNROLL
	for (int i = 0; i < vectors; i++)
	{
		shift[i] = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(greatest[i], lane_set1(-INFINITY), _CMP_NEQ_UQ), greatest[i]);
		old[i] = first ? _mm512_setzero_ps() : power(_mm512_sub_ps(lane_load(max + i * LANES), shift[i]));
		lane_store(max + i * LANES, greatest[i]);
	}
	weights(s, block->keys, shift, total, vectors);
	UNROLL
	for (int i = 0; i < vectors; i++)
		lane_store(sum + i * LANES, first ? total[i] : lane_fma(lane_load(sum + i * LANES), old[i], total[i]));
	at = 0;
#define TILE(count) \
	value_tile((const uint32_t *) s, block->v + at, block->v_step, (block->keys + 1) / 2, o + at * TILE_LANES, first, old, \
			   count, vectors)
	for (; at + TILE_VALUES <= size; at += TILE_VALUES)
		TILE(TILE_VALUES);
	REST_OF_TILE(size - at, TILE)
#undef TILE
}

/* Apart, so that each has the registers for itself. */
static __attribute__((noinline)) void
attend_one(const struct block *block, int64_t size, float scale, int64_t query, const uint32_t *q, float *o, float *max,
		   float *sum, float *s, bool first)
{
	attend(block, size, scale, query, q, o, max, sum, s, first, 1);
}

static __attribute__((noinline)) void
attend_two(const struct block *block, int64_t size, float scale, int64_t query, const uint32_t *q, float *o, float *max,
		   float *sum, float *s, bool first)
{
	attend(block, size, scale, query, q, o, max, sum, s, first, 2);
}

/* 32 numbers of a vector of which `left` are left; zeros behind them. */
LANE lane_i32
numbers(const uint16_t *x, int64_t left)
{
	return left >= 2 * LANES ? _mm512_loadu_si512(x) : _mm512_maskz_loadu_epi16((__mmask32) ((1u << left) - 1), x);
}

/* Turns up to a tile of queries: groups q[d][lane]. */
static void
load_queries(const uint16_t *x, int64_t step, int64_t size, int64_t count, uint32_t *q)
{
	for (int64_t i = 0; i < count; i += LANES)
		for (int64_t d = 0; d < size; d += 2 * LANES)
		{
			__m512		rows[LANES];

			UNROLL
			for (int lane = 0; lane < LANES; lane++)
			{
				const uint16_t *from = x + (i + lane) * step + d;

				rows[lane] = _mm512_setzero_ps();
				if (i + lane >= count)
					continue;
				rows[lane] = _mm512_castsi512_ps(numbers(from, size - d));
				__builtin_prefetch(from + size);
			}
			transpose_f32(rows);
			UNROLL
			for (int lane = 0; lane < LANES; lane++)
				_mm512_storeu_ps(q + (d / 2 + lane) * TILE_LANES + i, rows[lane]);
		}
}

static void
pack_keys(const uint16_t *x, int64_t step, int64_t size, int64_t count, uint32_t *to, int64_t to_step)
{
	for (int64_t i = 0; i < count; i++)
		for (int64_t d = 0; d < size; d += 2 * LANES)
		{
			_mm512_storeu_si512(to + i * to_step + d / 2, numbers(x + i * step + d, size - d));
			__builtin_prefetch(x + i * step + d + size);
		}
}

/* Of each two keys the groups of their values; the last one's neighbour is zeros. */
static void
pack_values(const uint16_t *x, int64_t step, int64_t size, int64_t count, uint32_t *to, int64_t to_step)
{
	for (int64_t i = 0; i < count; i += 2)
		for (int64_t e = 0; e < size; e += LANES)
		{
			const uint16_t *from = x + i * step + e;
			__mmask16	lanes = size - e >= LANES ? 0xFFFF : lane_first(size - e);
			lane_i32	one = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
			lane_i32	other = i + 1 < count ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from + step))
				: _mm512_setzero_si512();

			_mm512_storeu_si512(to + i / 2 * to_step + e, _mm512_or_si512(one, _mm512_slli_epi32(other, 16)));
			__builtin_prefetch(from + size);
			__builtin_prefetch(from + step + size);
		}
}

/* Divides by the sums, turns back, rounds. */
static void
store_outputs(const float *o, const float *sum, int64_t size, int64_t count, uint16_t *y, int64_t step)
{
	for (int64_t i = 0; i < count; i += LANES)
	{
		lane_f32	share = _mm512_div_ps(lane_set1(1), lane_load(sum + i));

		for (int64_t e = 0; e < size; e += LANES)
		{
			__mmask16	lanes = size - e >= LANES ? 0xFFFF : lane_first(size - e);
			__m512		rows[LANES];

			UNROLL
			for (int lane = 0; lane < LANES; lane++)
				rows[lane] = e + lane < size ? lane_mul(lane_load(o + (e + lane) * TILE_LANES + i), share) : _mm512_setzero_ps();
			transpose_f32(rows);
			UNROLL
			for (int lane = 0; lane < LANES; lane++)
				if (i + lane < count)
					_mm256_mask_storeu_epi16(y + (i + lane) * step + e, lanes,
											 (__m256i) _mm512_cvtneps_pbh(lane_canonical(rows[lane])));
		}
	}
}

/* table[i − j], for queries [q0, q1) and a block's keys. */
static const float *
pack_bias(const struct cpu_attention *a, int64_t q0, int64_t q1, const struct block *block, float *table)
{
	int64_t		low = q0 - (block->key + block->keys - 1);
	int64_t		high = q1 + TILE_LANES - block->key;

	for (int64_t t = low; t < high; t++)
	{
		int64_t		place = -t < -a->bias_reach ? -a->bias_reach : -t > a->bias_reach ? a->bias_reach : -t;

		table[t - low] = a->bias[a->bias_reach + place] * LOG2_E;
	}
	return table - low;
}

void
cpu_attention_bf16_avx512(const struct cpu_attention *a, int64_t q0, int64_t q1)
{
	int64_t		padded = cpu_attention_padded(a->size);
	uint32_t   *q = (uint32_t *) a->scratch;
	float	   *o = a->scratch + padded * CPU_ATTENTION_QUERIES;
	uint32_t   *k = (uint32_t *) (o + padded * CPU_ATTENTION_QUERIES);
	uint32_t   *v = k + padded * CPU_ATTENTION_KEYS;
	float	   *s = (float *) (v + padded * CPU_ATTENTION_KEYS);
	float	   *max = s + CPU_ATTENTION_KEYS * CPU_ATTENTION_GROUP;
	float	   *sum = max + CPU_ATTENTION_QUERIES;
	float	   *table = sum + CPU_ATTENTION_QUERIES;
	const uint16_t *x_q = a->q;
	const uint16_t *x_k = a->k;
	const uint16_t *x_v = a->v;
	uint16_t   *y = a->y;
	float		scale = (float) (a->scale * 1.44269504088896340736);
	int64_t		key_first = 0;
	int64_t		key_last = a->length;

	if (a->window > 0)
	{
		key_first = q0 > a->window ? (q0 - a->window) / CPU_ATTENTION_KEYS * CPU_ATTENTION_KEYS : 0;
		key_last = a->length - q1 > a->window + CPU_ATTENTION_GROUP ? q1 + a->window + CPU_ATTENTION_GROUP : a->length;
	}
	for (int64_t i = q0; i < q1; i += TILE_LANES)
		load_queries(x_q + i * a->x_step, a->x_step, a->size, q1 - i < TILE_LANES ? q1 - i : TILE_LANES,
					 q + (i - q0) * padded);
	for (int64_t key = key_first; key < key_last; key += CPU_ATTENTION_KEYS)
	{
		struct block block = {
			.k = k,
			.v = v,
			.k_step = padded,
			.v_step = padded,
			.key = key,
			.keys = a->length - key < CPU_ATTENTION_KEYS ? a->length - key : CPU_ATTENTION_KEYS
		};

		pack_keys(x_k + key * a->x_step, a->x_step, a->size, block.keys, k, padded);
		pack_values(x_v + key * a->x_step, a->x_step, a->size, block.keys, v, padded);
		if (a->bias != NULL)
			block.bias = pack_bias(a, q0, q1, &block, table);
		for (int64_t i = q0; i < q1; i += TILE_LANES)
		{
			bool		first = key == 0;

			if (a->window > 0)
			{
				int64_t		last = i + CPU_ATTENTION_GROUP - 1;

				if (key > last + a->window || key + block.keys <= i - a->window)
					continue;
				first = key == (i > a->window ? (i - a->window) / CPU_ATTENTION_KEYS * CPU_ATTENTION_KEYS : 0);
				block.window = key >= last - a->window && key + block.keys - 1 <= i + a->window ? 0 : a->window;
			}
			(q1 - i > LANES ? attend_two : attend_one) (&block, a->size, scale, i, q + (i - q0) * padded,
														o + (i - q0) * padded, max + (i - q0), sum + (i - q0), s, first);
		}
	}
	for (int64_t i = q0; i < q1; i += TILE_LANES)
		store_outputs(o + (i - q0) * padded, sum + (i - q0), a->size, q1 - i < TILE_LANES ? q1 - i : TILE_LANES,
					  y + i * a->y_step, a->y_step);
}
