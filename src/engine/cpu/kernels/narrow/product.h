/*
 * product.h
 *	  Blocks of a product in bf16 or int8.  Included once for each way to multiply; the file
 *	  that includes it has included lanes_avx2.h or lanes_avx512.h, and defines
 *		P(name)			a name with the way's own suffix
 *		INT8			1: int8, sums are lane_sum; 0: bf16, sums are lane_f32
 *		FLUSHED			1: fused multiply-adds of AVX, which need to be told to take denormals for zeros
 *		P(column_t), P(column)(bytes)	one group of each lane's column
 *		P(x_t), P(x)(group)				one group of x, the same for all lanes
 *		P(dot)(sum, x, column)
 *		P(hide)(&x)		keeps the compiler from knowing that x is what it was: for P(peak)
 *
 * Tiles are those of ../kernels_product.h: ROWS rows by PANELS panels of two vectors in
 * registers, one chain per element whatever the tile.
 */
#ifndef NARROW_PRODUCT_H
#define NARROW_PRODUCT_H

#include <stddef.h>
#include <string.h>

#include "../tile_list.h"
#include "narrow.h"

#ifdef __clang__
#define UNROLL	_Pragma("clang loop unroll(full)")
#else
#define UNROLL	_Pragma("GCC unroll 32")
#endif

#define PANEL			(2 * LANES)
#define PAGE			4096		/* rows so far apart fall into one set of the first-level cache: */
#define PAGE_ROWS		10			/* then tiles are lower */
#define FLUSH_BITS		0x8040		/* of MXCSR: results and operands that are denormal are zeros */

LANE uint32_t
group_at(const uint8_t *x)
{
	uint32_t	group;

	memcpy(&group, x, sizeof(group));
	return group;
}

LANE uint32_t
half_group_at(const uint8_t *x)
{
	uint16_t	half;

	memcpy(&half, x, sizeof(half));
	return half;
}

LANE float
float_at(const uint8_t *x)
{
	float		value;

	memcpy(&value, x, sizeof(value));
	return value;
}

/* A compiler does not know what it reads there. */
LANE const uint8_t *
hidden(const uint8_t *bytes)
{
	__asm__ volatile("" : "+r"(bytes) : : "memory");
	return bytes;
}

/* The bias of a vector of columns; −0, which changes nothing, if there is none. */
LANE lane_f32
bias_of(const struct cpu_narrow_product *p, int64_t n, lane_mask lanes, const bool edge)
{
	if (p->bias == NULL)
		return lane_set1(-0.0f);
	if (p->bias_step == 0)
		return lane_set1(*p->bias);
	return edge ? lane_load_mask(p->bias + n, lanes) : lane_load(p->bias + n);
}

LANE void
result_put(lane_f32 v, float *y, lane_mask lanes, const bool edge)
{
	if (edge)
		lane_store_mask(y, lanes, v);
	else
		lane_store(y, v);
}

/* The rows of a block by panel q and those beside it, in tiles of about equal height. */
typedef void (*tile_fn) (const struct cpu_narrow_product *p, const uint8_t *x, int64_t q, float *y, int64_t columns);

LANE void
column_of_tiles(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t q, float *y, int64_t columns,
				const tile_fn *tiles)
{
	int64_t		rows = m1 - m0;
	int64_t		most = p->x_step % PAGE == 0 && TILE_ROWS > PAGE_ROWS ? PAGE_ROWS : TILE_ROWS;
	int64_t		count = (rows + most - 1) / most;
	int64_t		m = 0;

	for (int64_t i = 0; i < count; i++)
	{
		int64_t		height = rows * (i + 1) / count - rows * i / count;

		tiles[height](p, p->x + (m0 + m) * p->x_step, q, y + m * p->y_step, columns);
		m += height;
	}
}
#endif

#if INT8
#define NUMBERS		4				/* in a group */
#define SUM			lane_sum
#else
#define NUMBERS		2
#define SUM			lane_f32
#endif

LANE void
P(tile)(const struct cpu_narrow_product *p, const uint8_t *x, int64_t q, float *y, int64_t columns,
		const int rows, const int panels, const bool edge)
{
	SUM			sum[TILE_ROWS][8];		/* in registers: rows × 2 panels of it */
	const uint8_t *b = p->b + q * p->b_panel;
	int64_t		x_step = p->x_step;
	int64_t		y_step = p->y_step;
	int64_t		b_panel = p->b_panel;
	bool		ahead = panels == 1 && !edge && TILE_READS_AHEAD(rows);	/* see there */
	int64_t		k_all = p->k;
	int64_t		groups = INT8 ? (k_all + NUMBERS - 1) / NUMBERS : k_all / NUMBERS;
#if !INT8 && !FLUSHED
	bool		biased = p->bias != NULL;
#endif

	UNROLL
	for (int j = 0; j < 2 * panels; j++)
	{
#if INT8
		SUM			start = (SUM) lane_bytes((const uint8_t *) (p->offsets + q * PANEL + j * LANES));
#else
		SUM			start = lane_set1(0);
#endif
		UNROLL
		for (int i = 0; i < rows; i++)
			sum[i][j] = start;
	}
	for (int64_t g = 0; g < groups; g++)
	{
		P(column_t)	column[8];

		UNROLL
		for (int j = 0; j < 2 * panels; j++)
		{
			const uint8_t *from = b + (j / 2) * b_panel + (2 * g + j % 2) * LANES * NARROW_GROUP;

			column[j] = P(column)(from);
			if (ahead)
				__builtin_prefetch(from + b_panel, 0, 2);
		}
		UNROLL
		for (int i = 0; i < rows; i++)
		{
			P(x_t)		a = P(x)(group_at(x + i * x_step + g * NARROW_GROUP));

			UNROLL
			for (int j = 0; j < 2 * panels; j++)
				sum[i][j] = P(dot)(sum[i][j], a, column[j]);
		}
	}
#if !INT8
	if (k_all % NUMBERS != 0)	/* what is behind the last number may be NaN */
	{
		UNROLL
		for (int j = 0; j < 2 * panels; j++)
		{
			P(column_t)	column = P(column)(b + (j / 2) * b_panel + (2 * groups + j % 2) * LANES * NARROW_GROUP);

			UNROLL
			for (int i = 0; i < rows; i++)
				sum[i][j] = P(dot)(sum[i][j], P(x)(half_group_at(x + i * x_step + groups * NARROW_GROUP)), column);
		}
	}
#endif
	UNROLL
	for (int j = 0; j < 2 * panels; j++)
	{
		int64_t		n __attribute__((unused)) = q * PANEL + j * LANES;
		int64_t		left = columns - j * LANES;
		lane_mask	lanes = lane_first(edge ? (left < 0 ? 0 : left < LANES ? left : LANES) : 0);
		lane_f32	result[TILE_ROWS];
#if !FLUSHED
		lane_f32	bias;
#endif
#if INT8
		lane_f32	scales = lane_load(p->scales + n);
#endif
		UNROLL
		for (int i = 0; i < rows; i++)
		{
#if INT8
			result[i] = lane_mul(lane_of_sum(sum[i][j]), lane_set1(float_at(x + i * x_step + k_all)));
#else
			result[i] = sum[i][j];
#endif
		}
#if INT8
		bias = bias_of(p, n, lanes, edge);
		UNROLL
		for (int i = 0; i < rows; i++)
			result[i] = lane_fma(result[i], scales, bias);
#elif !FLUSHED
		if (biased)
		{
			bias = bias_of(p, n, lanes, edge);
			UNROLL
			for (int i = 0; i < rows; i++)
				result[i] = lane_add(result[i], bias);
		}
#endif
		UNROLL
		for (int i = 0; i < rows; i++)
			result_put(FLUSHED ? result[i] : lane_canonical(result[i]), y + i * y_step + j * LANES, lanes, edge);
	}
}

#define TILE(ROWS, PANELS, EDGE) \
static __attribute__((noinline)) void \
P(tile_##ROWS##_##PANELS##_##EDGE)(const struct cpu_narrow_product *p, const uint8_t *x, int64_t q, float *y, \
								   int64_t columns) \
{ \
	P(tile)(p, x, q, y, columns, ROWS, PANELS, EDGE); \
}
#define NAME(ROWS, PANELS, EDGE) P(tile_##ROWS##_##PANELS##_##EDGE)

TILES(1, 0)
TILES(1, 1)
TILES_PAIR
TILE(1, 4, 0)

static const tile_fn P(tiles_full)[] = {NAMES(1, 0)};
static const tile_fn P(tiles_edge)[] = {NAMES(1, 1)};
static const tile_fn P(tiles_pair)[] = {NAMES_PAIR};
static const tile_fn P(tiles_row)[] = {NULL, NAME(1, 4, 0)};

#if FLUSHED
/* Bias and the one NaN, where denormals are numbers again. */
static __attribute__((noinline)) void
P(finish)(const struct cpu_narrow_product *p, int64_t rows, int64_t n0, int64_t n1)
{
	for (int64_t m = 0; m < rows; m++)
		for (int64_t n = n0; n < n1; n += LANES)
		{
			float	   *y = p->y + m * p->y_step + n - n0;
			lane_mask	lanes = lane_first(n1 - n < LANES ? n1 - n : LANES);
			lane_f32	v = lane_load_mask(y, lanes);

			if (p->bias != NULL)
				v = lane_add(v, bias_of(p, n, lanes, true));
			lane_store_mask(y, lanes, lane_canonical(v));
		}
}
#endif

/*
 * One row wants eight sums to keep the multipliers busy, a few rows two panels side by
 * side; more rows one panel.
 */
static void
P(product)(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	int64_t		full = p->n / PANEL < p1 ? p->n / PANEL : p1;
	int64_t		q = p0;
#if FLUSHED
	unsigned	csr = _mm_getcsr();

	_mm_setcsr(csr | FLUSH_BITS);
#endif
	if (m1 - m0 == 1)
		for (; q + 4 <= full; q += 4)
			column_of_tiles(p, m0, m1, q, p->y + (q - p0) * PANEL, 0, P(tiles_row));
	else if (m1 - m0 <= TILE_PAIR_ROWS)
		for (; q + 2 <= full; q += 2)
			column_of_tiles(p, m0, m1, q, p->y + (q - p0) * PANEL, 0, P(tiles_pair));
	for (; q < full; q++)
		column_of_tiles(p, m0, m1, q, p->y + (q - p0) * PANEL, 0, P(tiles_full));
	for (; q < p1; q++)
		column_of_tiles(p, m0, m1, q, p->y + (q - p0) * PANEL, p->n - q * PANEL, P(tiles_edge));
#if FLUSHED
	_mm_setcsr(csr);
	P(finish)(p, m1 - m0, p0 * PANEL, p1 * PANEL < p->n ? p1 * PANEL : p->n);
#endif
}

/* Multiply-adds that wait for nothing but their own sum, and how many operations they were. */
static double
P(peak)(int64_t rounds)
{
	static uint8_t zeros[PEAK_SUMS * LANES * NARROW_GROUP];
	const uint8_t *bytes = hidden(zeros);
	P(column_t)	column = P(column)(bytes);
	P(x_t)		a = P(x)(group_at(bytes));
	SUM			sum[PEAK_SUMS];
	float		lanes[LANES];
	volatile float sink;

	UNROLL
	for (int i = 0; i < PEAK_SUMS; i++)
		sum[i] = (SUM) lane_bytes(bytes + i * LANES * NARROW_GROUP);
	for (int64_t r = 0; r < rounds; r++)
	{
		UNROLL
		for (int i = 0; i < PEAK_SUMS; i++)
		{
			P(hide)(&a);
			sum[i] = P(dot)(sum[i], a, column);
		}
	}
	for (int i = 0; i < PEAK_SUMS; i++)
	{
#if INT8
		lane_store(lanes, lane_of_sum(sum[i]));
#else
		lane_store(lanes, sum[i]);
#endif
		sink = lanes[0];
	}
	(void) sink;
	return 2.0 * PEAK_SUMS * LANES * NUMBERS * (double) rounds;
}

#undef TILE
#undef NAME
#undef NUMBERS
#undef SUM
#undef P
#undef INT8
#undef FLUSHED
