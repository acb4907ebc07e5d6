/*
 * cast.c
 *	  CAST: between numbers, and between numbers and their texts.
 *
 * A unit is one element of the output.  Texts that a cast makes lie in the arena behind
 * the planned tensors, CPU_CAST_TEXT_BYTES per element.
 */
#include "ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
cpu_cast_supports(uint8_t from, uint8_t to)
{
	if (from >= DEVICE_BF16 || to >= DEVICE_BF16)
		return (from == DEVICE_F32 && to == DEVICE_BF16) || (to == DEVICE_F32 && from != DEVICE_Q8);
	if (from == DEVICE_STRING && to == DEVICE_BOOL)
		return false;				/* ONNX does not say what "yes" is */
	if (from == DEVICE_BOOL && to == DEVICE_STRING)
		return false;
	return true;
}

static void
cast_error(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t at, const char *message)
{
	cpu_row_error(run, plan->output.lead, at / (uint64_t) plan->output.elements, message);
}

/* Number to number; NAME(value, &ok) where it can fail. */
static int32_t
f64_to_i32(double v, bool *ok)
{
	if (!(v > -2147483649.0 && v < 2147483648.0))
	{
		*ok = false;
		return 0;
	}
	return (int32_t) v;
}

static int64_t
f64_to_i64(double v, bool *ok)
{
	if (!(v >= -9223372036854775808.0 && v < 9223372036854775808.0))
	{
		*ok = false;
		return 0;
	}
	return (int64_t) v;
}

static int32_t
i64_to_i32(int64_t v, bool *ok)
{
	if (v < INT32_MIN || v > INT32_MAX)
	{
		*ok = false;
		return 0;
	}
	return (int32_t) v;
}

#define CAST_LOOP(FROM, TO, expression) \
	do { \
		const FROM *from = x; \
		TO		   *to = y; \
		for (uint64_t i = first; i < last; i++) \
		{ \
			FROM		v = from[i * step]; \
			to[i] = (TO) (expression); \
		} \
	} while (0)

#define CAST_CHECKED(FROM, TO, function, message) \
	do { \
		const FROM *from = x; \
		TO		   *to = y; \
		for (uint64_t i = first; i < last; i++) \
		{ \
			bool		ok = true; \
			to[i] = function(from[i * step], &ok); \
			if (!ok) \
				cast_error(plan, run, i, message); \
		} \
	} while (0)

#define NO_INTEGER "number does not fit the integer type that the model casts it to"

static void
cast_numbers(const struct cpu_plan *plan, const struct cpu_run *run, const void *x, void *y,
			 uint64_t first, uint64_t last)
{
	const uint64_t step = 1;

	switch (plan->type * 8 + plan->output.type)
	{
		case DEVICE_F32 * 8 + DEVICE_F32:
		case DEVICE_I32 * 8 + DEVICE_I32:
			CAST_LOOP(uint32_t, uint32_t, v);
			break;
		case DEVICE_F64 * 8 + DEVICE_F64:
		case DEVICE_I64 * 8 + DEVICE_I64:
			CAST_LOOP(uint64_t, uint64_t, v);
			break;
		case DEVICE_F32 * 8 + DEVICE_F64:
			CAST_LOOP(float, double, v);
			break;
		case DEVICE_F64 * 8 + DEVICE_F32:
			CAST_LOOP(double, float, v);
			break;
		case DEVICE_I32 * 8 + DEVICE_F32:
			CAST_LOOP(int32_t, float, v);
			break;
		case DEVICE_I32 * 8 + DEVICE_F64:
			CAST_LOOP(int32_t, double, v);
			break;
		case DEVICE_I64 * 8 + DEVICE_F32:
			CAST_LOOP(int64_t, float, v);
			break;
		case DEVICE_I64 * 8 + DEVICE_F64:
			CAST_LOOP(int64_t, double, v);
			break;
		case DEVICE_I32 * 8 + DEVICE_I64:
			CAST_LOOP(int32_t, int64_t, v);
			break;
		case DEVICE_BOOL * 8 + DEVICE_F32:
			CAST_LOOP(uint8_t, float, v != 0);
			break;
		case DEVICE_BOOL * 8 + DEVICE_F64:
			CAST_LOOP(uint8_t, double, v != 0);
			break;
		case DEVICE_BOOL * 8 + DEVICE_I32:
			CAST_LOOP(uint8_t, int32_t, v != 0);
			break;
		case DEVICE_BOOL * 8 + DEVICE_I64:
			CAST_LOOP(uint8_t, int64_t, v != 0);
			break;
		case DEVICE_BOOL * 8 + DEVICE_BOOL:
			CAST_LOOP(uint8_t, uint8_t, v != 0);
			break;
		case DEVICE_F32 * 8 + DEVICE_BOOL:
			CAST_LOOP(float, uint8_t, v != 0);
			break;
		case DEVICE_F64 * 8 + DEVICE_BOOL:
			CAST_LOOP(double, uint8_t, v != 0);
			break;
		case DEVICE_I32 * 8 + DEVICE_BOOL:
			CAST_LOOP(int32_t, uint8_t, v != 0);
			break;
		case DEVICE_I64 * 8 + DEVICE_BOOL:
			CAST_LOOP(int64_t, uint8_t, v != 0);
			break;
		case DEVICE_F32 * 8 + DEVICE_I32:
			CAST_CHECKED(float, int32_t, f64_to_i32, NO_INTEGER);
			break;
		case DEVICE_F64 * 8 + DEVICE_I32:
			CAST_CHECKED(double, int32_t, f64_to_i32, NO_INTEGER);
			break;
		case DEVICE_F32 * 8 + DEVICE_I64:
			CAST_CHECKED(float, int64_t, f64_to_i64, NO_INTEGER);
			break;
		case DEVICE_F64 * 8 + DEVICE_I64:
			CAST_CHECKED(double, int64_t, f64_to_i64, NO_INTEGER);
			break;
		case DEVICE_I64 * 8 + DEVICE_I32:
			CAST_CHECKED(int64_t, int32_t, i64_to_i32, NO_INTEGER);
			break;
	}
}

/* ---- to and from text ---- */

/* The shortest text that reads back as the same number. */
static int
float_text(uint8_t type, double v, char *text)
{
	int			digits = type == DEVICE_F32 ? 6 : 15;
	int			digits_max = type == DEVICE_F32 ? 9 : 17;
	int			length;

	if (isnan(v))
		return snprintf(text, CPU_CAST_TEXT_BYTES, "NaN");
	if (isinf(v))
		return snprintf(text, CPU_CAST_TEXT_BYTES, v > 0 ? "INF" : "-INF");
	for (;; digits++)
	{
		length = snprintf(text, CPU_CAST_TEXT_BYTES, "%.*g", digits, v);
		if (digits == digits_max ||
			(type == DEVICE_F32 ? strtof(text, NULL) == (float) v : strtod(text, NULL) == v))
			return length;
	}
}

static void
cast_to_text(const struct cpu_plan *plan, const struct cpu_run *run, const void *x, void *y,
			 uint64_t first, uint64_t last)
{
	struct device_text *to = y;
	char	   *texts = (char *) run->arena + run->extra_base[plan->lead] +
		plan->extra_offset * run->batch->items[plan->lead];

	for (uint64_t i = first; i < last; i++)
	{
		char	   *text = texts + i * CPU_CAST_TEXT_BYTES;
		int			length = 0;

		switch (plan->type)
		{
			case DEVICE_F32:
				length = float_text(DEVICE_F32, ((const float *) x)[i], text);
				break;
			case DEVICE_F64:
				length = float_text(DEVICE_F64, ((const double *) x)[i], text);
				break;
			case DEVICE_I32:
				length = snprintf(text, CPU_CAST_TEXT_BYTES, "%d", ((const int32_t *) x)[i]);
				break;
			case DEVICE_I64:
				length = snprintf(text, CPU_CAST_TEXT_BYTES, "%lld", (long long) ((const int64_t *) x)[i]);
				break;
		}
		to[i].data = text;
		to[i].length = (uint64_t) length;
	}
}

/*
 * Text to number as ONNX's Cast has it: plain or scientific decimal notation, INF, NaN in
 * any case, nothing around it.
 */
static bool
text_number(const struct device_text *text, bool integer, double *number, int64_t *whole)
{
	char		buffer[128];
	char	   *end;

	if (text->length == 0 || text->length >= sizeof(buffer))
		return false;
	memcpy(buffer, text->data, text->length);
	buffer[text->length] = '\0';
	for (uint64_t i = 0; i < text->length; i++)
		if (!((buffer[i] >= '0' && buffer[i] <= '9') || buffer[i] == '+' || buffer[i] == '-' ||
			  (!integer && (buffer[i] == '.' || buffer[i] == 'e' || buffer[i] == 'E'))))
		{
			const char *word = buffer + (buffer[0] == '+' || buffer[0] == '-');

			if (integer)
				return false;
			if (strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0)
				*number = buffer[0] == '-' ? -INFINITY : INFINITY;
			else if (strcasecmp(word, "nan") == 0)
				*number = NAN;
			else
				return false;
			return true;
		}
	if (integer)
	{
		long long	value;
		bool		negative = buffer[0] == '-';

		value = strtoll(buffer, &end, 10);
		*whole = value;
		/* a text that saturates is one that does not fit */
		if (*end != '\0' || end == buffer)
			return false;
		if (value == (negative ? INT64_MIN : INT64_MAX))
		{
			char		again[32];

			snprintf(again, sizeof(again), "%lld", value);
			return strcmp(again, buffer + (buffer[0] == '+')) == 0;
		}
		return true;
	}
	*number = strtod(buffer, &end);
	return *end == '\0' && end != buffer;
}

static void
cast_from_text(const struct cpu_plan *plan, const struct cpu_run *run, const void *x, void *y,
			   uint64_t first, uint64_t last)
{
	const struct device_text *from = x;
	bool		integer = plan->output.type == DEVICE_I32 || plan->output.type == DEVICE_I64;

	for (uint64_t i = first; i < last; i++)
	{
		double		number = 0;
		int64_t		whole = 0;
		bool		ok = text_number(&from[i], integer, &number, &whole);

		if (ok && plan->output.type == DEVICE_I32)
			whole = i64_to_i32(whole, &ok);
		if (!ok)
		{
			number = 0;
			whole = 0;
			cast_error(plan, run, i, "text is not a number of the type that the model casts it to");
		}
		switch (plan->output.type)
		{
			case DEVICE_F32:
				((float *) y)[i] = (float) number;
				break;
			case DEVICE_F64:
				((double *) y)[i] = number;
				break;
			case DEVICE_I32:
				((int32_t *) y)[i] = (int32_t) whole;
				break;
			case DEVICE_I64:
				((int64_t *) y)[i] = whole;
				break;
		}
	}
}

/* Between float32 and numbers of two bytes. */
static void
cast_halves(const struct cpu_plan *plan, const struct cpu_narrow_casts *casts, const void *x, void *y,
			uint64_t first, uint64_t last)
{
	if (plan->output.type == DEVICE_BF16)
		casts->bf16_of_f32((const float *) x + first, (uint16_t *) y + first, (int64_t) (last - first));
	else if (plan->type == DEVICE_BF16)
		casts->f32_of_bf16((const uint16_t *) x + first, (float *) y + first, (int64_t) (last - first));
	else
		casts->f32_of_f16((const uint16_t *) x + first, (float *) y + first, (int64_t) (last - first));
}

void
cpu_run_cast(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			 uint64_t last, int thread)
{
	const void *x = cpu_address(run, &plan->inputs[0]);
	void	   *y = cpu_address(run, &plan->output);

	if (plan->type >= DEVICE_BF16 || plan->output.type >= DEVICE_BF16)
		cast_halves(plan, run->device->casts, x, y, first, last);
	else if (plan->type == DEVICE_STRING && plan->output.type == DEVICE_STRING)
		memcpy((struct device_text *) y + first, (const struct device_text *) x + first,
			   (last - first) * sizeof(struct device_text));
	else if (plan->type == DEVICE_STRING)
		cast_from_text(plan, run, x, y, first, last);
	else if (plan->output.type == DEVICE_STRING)
		cast_to_text(plan, run, x, y, first, last);
	else
		cast_numbers(plan, run, x, y, first, last);
}
