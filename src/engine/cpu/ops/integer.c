/*
 * integer.c
 *	  Element-wise functions and reductions of I32, I64 and BOOL, in plain C.
 *
 * Integers wrap around, as NumPy's do.  What has no value (a division by zero, zero to a
 * negative power) is reported and gives 0.
 */
#include "ops.h"

#include <math.h>

bool
cpu_integer_unary_supports(uint8_t type, uint16_t fn)
{
	if (type == DEVICE_BOOL)
		return fn == UNARY_NOT || fn == UNARY_NONE;
	return fn == UNARY_NONE || fn == UNARY_ABS || fn == UNARY_NEG || fn == UNARY_SIGN ||
		fn == UNARY_RELU || fn == UNARY_CLIP;
}

bool
cpu_integer_binary_supports(uint8_t type, uint16_t fn)
{
	if (type == DEVICE_BOOL)
		return fn == BINARY_EQUAL || fn == BINARY_AND || fn == BINARY_OR || fn == BINARY_XOR;
	return (fn >= BINARY_ADD && fn <= BINARY_GREATER_EQUAL) ||
		(fn >= BINARY_BIT_AND && fn <= BINARY_BIT_XOR);
}

/* A bound of CLIP as an integer: f holds it exactly up to 2^53, and saturates beyond. */
static int64_t
clip_bound(double bound, int64_t low, int64_t high)
{
	if (!(bound > (double) low))
		return low;
	if (bound >= (double) high)
		return high;
	return (int64_t) bound;
}

#define UNARY_LOOP(T, U, expression) \
	do { \
		for (int64_t i = 0; i < n; i++) \
		{ \
			T			v = ((const T *) x)[i]; \
			((T *) y)[i] = (T) (expression); \
		} \
	} while (0)

#define UNARY_TYPE(T, U, LOW, HIGH) \
	switch (fn) \
	{ \
		case UNARY_NONE: \
			UNARY_LOOP(T, U, v); \
			break; \
		case UNARY_ABS: \
			UNARY_LOOP(T, U, v < 0 ? (U) 0 - (U) v : (U) v); \
			break; \
		case UNARY_NEG: \
			UNARY_LOOP(T, U, (U) 0 - (U) v); \
			break; \
		case UNARY_SIGN: \
			UNARY_LOOP(T, U, (v > 0) - (v < 0)); \
			break; \
		case UNARY_RELU: \
			UNARY_LOOP(T, U, v > 0 ? v : 0); \
			break; \
		case UNARY_CLIP: \
		{ \
			T			low = (T) clip_bound(f[0], LOW, HIGH); \
			T			high = (T) clip_bound(f[1], LOW, HIGH); \
			UNARY_LOOP(T, U, (v < low ? low : v) > high ? high : (v < low ? low : v)); \
			break; \
		} \
	}

void
cpu_integer_unary(uint8_t type, uint16_t fn, const double f[2], const void *x, void *y, int64_t n)
{
	if (type == DEVICE_I32)
	{
		UNARY_TYPE(int32_t, uint32_t, INT32_MIN, INT32_MAX)
	}
	else if (type == DEVICE_I64)
	{
		UNARY_TYPE(int64_t, uint64_t, INT64_MIN, INT64_MAX)
	}
	else
	{
		uint8_t		flip = fn == UNARY_NOT;

		for (int64_t i = 0; i < n; i++)
			((uint8_t *) y)[i] = (((const uint8_t *) x)[i] != 0) ^ flip;
	}
}

#define DIVIDE_FUNCTIONS(T, U, NAME) \
static T \
divide_##NAME(T a, T b, bool *bad) \
{ \
	if (b == 0) \
	{ \
		*bad = true; \
		return 0; \
	} \
	return b == -1 ? (T) ((U) 0 - (U) a) : (T) (a / b); \
} \
static T \
remainder_##NAME(T a, T b, bool floored, bool *bad) \
{ \
	T			r; \
	if (b == 0) \
	{ \
		*bad = true; \
		return 0; \
	} \
	r = b == -1 ? 0 : (T) (a % b); \
	return floored && r != 0 && (r < 0) != (b < 0) ? (T) (r + b) : r; \
} \
static T \
power_##NAME(T a, T b, bool *bad) \
{ \
	U			result = 1; \
	U			base = (U) a; \
	if (b < 0) \
	{ \
		if (a == 0) \
			*bad = true; \
		return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0; \
	} \
	for (; b != 0; b >>= 1, base *= base) \
		if (b & 1) \
			result *= base; \
	return (T) result; \
}

DIVIDE_FUNCTIONS(int32_t, uint32_t, i32)
DIVIDE_FUNCTIONS(int64_t, uint64_t, i64)

#define BINARY_LOOP(T, R, expression) \
	do { \
		for (int64_t i = 0; i < n; i++) \
		{ \
			T			va = ((const T *) a)[i * a_step]; \
			T			vb = ((const T *) b)[i * b_step]; \
			((R *) y)[i] = (R) (expression); \
		} \
	} while (0)

#define BINARY_CHECKED(T, expression) \
	do { \
		for (int64_t i = 0; i < n; i++) \
		{ \
			T			va = ((const T *) a)[i * a_step]; \
			T			vb = ((const T *) b)[i * b_step]; \
			bool		failed = false; \
			((T *) y)[i] = expression; \
			if (failed) \
				bad(context, i); \
		} \
	} while (0)

#define BINARY_TYPE(T, U, NAME) \
	switch (fn) \
	{ \
		case BINARY_ADD: \
			BINARY_LOOP(T, T, (U) va + (U) vb); \
			break; \
		case BINARY_SUB: \
			BINARY_LOOP(T, T, (U) va - (U) vb); \
			break; \
		case BINARY_MUL: \
			BINARY_LOOP(T, T, (U) va * (U) vb); \
			break; \
		case BINARY_DIV: \
			BINARY_CHECKED(T, divide_##NAME(va, vb, &failed)); \
			break; \
		case BINARY_MOD: \
			BINARY_CHECKED(T, remainder_##NAME(va, vb, true, &failed)); \
			break; \
		case BINARY_FMOD: \
			BINARY_CHECKED(T, remainder_##NAME(va, vb, false, &failed)); \
			break; \
		case BINARY_POW: \
			BINARY_CHECKED(T, power_##NAME(va, vb, &failed)); \
			break; \
		case BINARY_MIN: \
			BINARY_LOOP(T, T, va < vb ? va : vb); \
			break; \
		case BINARY_MAX: \
			BINARY_LOOP(T, T, va > vb ? va : vb); \
			break; \
		case BINARY_PRELU: \
			BINARY_LOOP(T, T, va < 0 ? (U) va * (U) vb : (U) va); \
			break; \
		case BINARY_EQUAL: \
			BINARY_LOOP(T, uint8_t, va == vb); \
			break; \
		case BINARY_LESS: \
			BINARY_LOOP(T, uint8_t, va < vb); \
			break; \
		case BINARY_LESS_EQUAL: \
			BINARY_LOOP(T, uint8_t, va <= vb); \
			break; \
		case BINARY_GREATER: \
			BINARY_LOOP(T, uint8_t, va > vb); \
			break; \
		case BINARY_GREATER_EQUAL: \
			BINARY_LOOP(T, uint8_t, va >= vb); \
			break; \
		case BINARY_BIT_AND: \
			BINARY_LOOP(T, T, va & vb); \
			break; \
		case BINARY_BIT_OR: \
			BINARY_LOOP(T, T, va | vb); \
			break; \
		case BINARY_BIT_XOR: \
			BINARY_LOOP(T, T, va ^ vb); \
			break; \
	}

void
cpu_integer_binary(uint8_t type, uint16_t fn, const void *a, int64_t a_step, const void *b,
				   int64_t b_step, void *y, int64_t n,
				   void (*bad) (void *context, int64_t index), void *context)
{
	if (type == DEVICE_I32)
	{
		BINARY_TYPE(int32_t, uint32_t, i32)
	}
	else if (type == DEVICE_I64)
	{
		BINARY_TYPE(int64_t, uint64_t, i64)
	}
	else
		switch (fn)
		{
			case BINARY_EQUAL:
				BINARY_LOOP(uint8_t, uint8_t, (va != 0) == (vb != 0));
				break;
			case BINARY_AND:
				BINARY_LOOP(uint8_t, uint8_t, va != 0 && vb != 0);
				break;
			case BINARY_OR:
				BINARY_LOOP(uint8_t, uint8_t, va != 0 || vb != 0);
				break;
			case BINARY_XOR:
				BINARY_LOOP(uint8_t, uint8_t, (va != 0) != (vb != 0));
				break;
		}
}

/*
 * Reductions.  The state of an exact one is an int64 that wraps around; of L2 and the
 * logarithms a double, summed in the order of the elements.
 */
union integer_state
{
	int64_t		i;
	double		d;
};

static bool
reduces_in_double(uint16_t fn)
{
	return fn == REDUCE_L2 || fn == REDUCE_LOG_SUM || fn == REDUCE_LOG_SUM_EXP;
}

void
cpu_integer_reduce_start(uint8_t type, uint16_t fn, void *state)
{
	union integer_state *s = state;

	s->i = 0;
	if (reduces_in_double(fn))
		s->d = 0;
	else if (fn == REDUCE_PROD)
		s->i = 1;
	else if (fn == REDUCE_MAX)
		s->i = type == DEVICE_BOOL ? 0 : type == DEVICE_I32 ? INT32_MIN : INT64_MIN;
	else if (fn == REDUCE_MIN)
		s->i = type == DEVICE_BOOL ? 1 : type == DEVICE_I32 ? INT32_MAX : INT64_MAX;
}

static int64_t
integer_element(uint8_t type, const void *x, int64_t i)
{
	if (type == DEVICE_I32)
		return ((const int32_t *) x)[i];
	if (type == DEVICE_I64)
		return ((const int64_t *) x)[i];
	return ((const uint8_t *) x)[i] != 0;
}

void
cpu_integer_reduce(uint8_t type, uint16_t fn, const void *x, int64_t n, void *state)
{
	union integer_state *s = state;

	for (int64_t i = 0; i < n; i++)
	{
		int64_t		v = integer_element(type, x, i);

		switch (fn)
		{
			case REDUCE_SUM:
			case REDUCE_MEAN:
				s->i = (int64_t) ((uint64_t) s->i + (uint64_t) v);
				break;
			case REDUCE_MAX:
				s->i = v > s->i ? v : s->i;
				break;
			case REDUCE_MIN:
				s->i = v < s->i ? v : s->i;
				break;
			case REDUCE_PROD:
				s->i = (int64_t) ((uint64_t) s->i * (uint64_t) v);
				break;
			case REDUCE_L1:
				s->i = (int64_t) ((uint64_t) s->i + (v < 0 ? 0 - (uint64_t) v : (uint64_t) v));
				break;
			case REDUCE_SUM_SQUARE:
				s->i = (int64_t) ((uint64_t) s->i + (uint64_t) v * (uint64_t) v);
				break;
			case REDUCE_L2:
				s->d += (double) v * (double) v;
				break;
			case REDUCE_LOG_SUM:
				s->d += (double) v;
				break;
			case REDUCE_LOG_SUM_EXP:
				s->d += exp((double) v);
				break;
		}
	}
}

static int64_t
saturated(double v)
{
	if (!(v > (double) INT64_MIN))
		return INT64_MIN;
	return v >= (double) INT64_MAX ? INT64_MAX : (int64_t) v;
}

void
cpu_integer_reduce_finish(uint8_t type, uint16_t fn, int64_t n, const void *state, void *y)
{
	const union integer_state *s = state;
	int64_t		v = s->i;

	if (fn == REDUCE_MEAN)
		v = n == 0 ? 0 : v / n;
	else if (fn == REDUCE_L2)
		v = saturated(sqrt(s->d));
	else if (fn == REDUCE_LOG_SUM || fn == REDUCE_LOG_SUM_EXP)
		v = saturated(log(s->d));
	if (type == DEVICE_I32)
		*(int32_t *) y = (int32_t) v;
	else if (type == DEVICE_I64)
		*(int64_t *) y = v;
	else
		*(uint8_t *) y = (uint8_t) v;
}
