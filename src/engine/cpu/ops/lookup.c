/*
 * lookup.c
 *	  LOOKUP: a value's place in a sorted table, and what the table has there.
 *
 * A unit is one element of the output.
 */
#include "ops.h"

#include <math.h>
#include <string.h>

static int
number_order(double a, double b)
{
	if (isnan(a) || isnan(b))
		return (isnan(a) != 0) - (isnan(b) != 0);
	return (a > b) - (a < b);
}

static int
text_order(const struct device_text *a, const struct device_text *b)
{
	size_t		shared = a->length < b->length ? a->length : b->length;
	int			order = shared == 0 ? 0 : memcmp(a->data, b->data, shared);

	return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static int
key_order(uint8_t type, const void *a, int64_t i, const void *keys, int64_t j)
{
	switch (type)
	{
		case DEVICE_F32:
			return number_order(((const float *) a)[i], ((const float *) keys)[j]);
		case DEVICE_F64:
			return number_order(((const double *) a)[i], ((const double *) keys)[j]);
		case DEVICE_I64:
		{
			int64_t		va = ((const int64_t *) a)[i];
			int64_t		vb = ((const int64_t *) keys)[j];

			return (va > vb) - (va < vb);
		}
	}
	return text_order((const struct device_text *) a + i, (const struct device_text *) keys + j);
}

void
cpu_run_lookup(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const struct device_lookup *table = plan->params;
	const void *x = cpu_address(run, &plan->inputs[0]);
	uint8_t    *y = cpu_address(run, &plan->output);
	size_t		bytes = device_type_bytes(table->value_type);

	for (uint64_t i = first; i < last; i++)
	{
		int64_t		low = 0;
		int64_t		high = (int64_t) table->count - 1;
		const void *value = NULL;

		while (low <= high && value == NULL)
		{
			int64_t		middle = low + (high - low) / 2;
			int			order = key_order(table->key_type, x, (int64_t) i, table->keys, middle);

			if (order == 0)
				value = (const uint8_t *) table->values + (size_t) middle * bytes;
			else if (order < 0)
				high = middle - 1;
			else
				low = middle + 1;
		}
		if (value == NULL && table->has_default)
			value = table->default_value;
		if (value != NULL)
			memcpy(y + i * bytes, value, bytes);
		else
		{
			memset(y + i * bytes, 0, bytes);
			cpu_row_error(run, plan->output.lead, i / (uint64_t) plan->output.elements,
						  "value is not among those that the model knows");
		}
	}
}
