/*
 * vnni.h
 *	  What products in int8 by VPDPBUSD have in common whatever the width of a vector: all but
 *	  dot_int8, which the including file defines behind this.
 */
#define P(name)		name##_int8
#define INT8		1
#define FLUSHED		0

typedef lane_i32 column_t_int8;
typedef lane_i32 x_t_int8;

LANE lane_i32
column_int8(const uint8_t *bytes)
{
	return lane_bytes(bytes);
}

LANE lane_i32
x_int8(uint32_t group)
{
	return lane_group(group);
}

LANE void
hide_int8(lane_i32 *x)
{
	__asm__ volatile("" : "+x"(*x));
}
