/*
 * plain.h
 *	  Products by instructions that are not made for bf16 and int8: fused multiply-adds of
 *	  numbers that are widened to float32, and multiply-adds of pairs of 16 bits.  Included
 *	  behind lanes_….h; with the table of names it makes.
 */

/* ---- bf16: a group's numbers apart; the second is added first ---- */

struct halves
{
	lane_f32	low;
	lane_f32	high;
};

LANE struct halves
halves_of(lane_i32 groups)
{
	return (struct halves) {lane_low_f32(groups), lane_high_f32(groups)};
}

typedef struct halves column_t_bf16;
typedef struct halves x_t_bf16;

LANE column_t_bf16
column_bf16(const uint8_t *bytes)
{
	return halves_of(lane_bytes(bytes));
}

LANE x_t_bf16
x_bf16(uint32_t group)
{
	return halves_of(lane_group(group));
}

LANE void
hide_bf16(x_t_bf16 *x)
{
	__asm__ volatile("" : "+x"(x->low), "+x"(x->high));
}

LANE lane_f32
dot_bf16(lane_f32 sum, x_t_bf16 x, column_t_bf16 column)
{
	return lane_fma(x.low, column.low, lane_fma(x.high, column.high, sum));
}

#define P(name)		name##_bf16
#define INT8		0
#define FLUSHED		1
#include "product.h"

/* ---- int8: pairs of 16 bits, which no sum of two products leaves ---- */

struct shorts
{
	lane_i32	low;
	lane_i32	high;
};

typedef struct shorts column_t_int8;
typedef struct shorts x_t_int8;

LANE column_t_int8
column_int8(const uint8_t *bytes)
{
	lane_i32	v = lane_bytes(bytes);

	return (struct shorts) {lane_low_i16(v), lane_high_i16(v)};
}

LANE x_t_int8
x_int8(uint32_t group)
{
	return (struct shorts) {lane_group(group & 0x00FF00FF), lane_group(group >> 8 & 0x00FF00FF)};
}

LANE void
hide_int8(x_t_int8 *x)
{
	__asm__ volatile("" : "+x"(x->low), "+x"(x->high));
}

LANE lane_sum
dot_int8(lane_sum sum, x_t_int8 x, column_t_int8 column)
{
	return lane_add_sum(lane_add_sum(sum, lane_madd_i16(x.low, column.low)), lane_madd_i16(x.high, column.high));
}

#define P(name)		name##_int8
#define INT8		1
#define FLUSHED		0
#include "product.h"
