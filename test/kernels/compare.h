/*
 * compare.h
 *	  compare(): fills a case's inputs, runs no rows to three on each instruction set and on the CUDA
 *	  device, and compares each row with reference().
 */
#ifndef TEST_KERNELS_COMPARE_H
#define TEST_KERNELS_COMPARE_H

#include "harness.h"
#include "random.h"
#include "reference.h"
#include "tap.h"

#define ROWS		3

enum values
{
	VALUES_ANY,						/* −4 … 4, small integers */
	VALUES_POSITIVE,
	VALUES_UNIT,					/* −1 … 1 */
	VALUES_ABOVE_ONE,
	VALUES_SMALL,					/* 1 … 4 */
	VALUES_INDEX,					/* input 1: −3 … 2 */
	VALUES_PLACE					/* input 1: 0 … 2 */
};

static inline double
value(enum values values, uint8_t type, uint32_t input)
{
	double		u = (double) (next_random() >> 11) / 9007199254740992.0;
	double		v = values == VALUES_POSITIVE ? 0.1 + 4 * u : values == VALUES_UNIT ? 2 * u - 1 :
		values == VALUES_ABOVE_ONE ? 1 + 4 * u : 8 * u - 4;

	if (values == VALUES_INDEX && input == 1)
		return floor(6 * u) - 3;
	if (values == VALUES_PLACE && input == 1)
		return floor(3 * u);
	if (values == VALUES_SMALL)
		return floor(1 + 4 * u);
	if (type == DEVICE_BOOL)
		return u < 0.5;
	if (type == DEVICE_I32 || type == DEVICE_I64)
	{
		v = trunc(v * 3);
		return values == VALUES_POSITIVE && v < 1 ? 1 : v;
	}
	return next_random() % 16 == 0 && values == VALUES_ANY ? 0 : v;
}

#define DEVICES		4

static struct device *devices[DEVICES];
static const char *const archs[DEVICES] = {"scalar", "avx2", "avx512", "cuda"};

static inline bool
close_enough(uint8_t type, double got, double exact, double scale)
{
	double		tolerance = (type == DEVICE_F32 ? 4e-6 : type == DEVICE_F64 ? 1e-13 : 0) * scale;

	if (isnan(exact) || isinf(exact))
		return isnan(exact) ? isnan(got) : got == exact;
	return fabs(got - exact) <= tolerance * fmax(1, fabs(exact));
}

/* What a device is right to leave to its host: logarithms of sums, in whole numbers. */
static inline bool
may_be_left(const struct op_case *c)
{
	uint8_t		type = c->tensors[0].type;

	return c->op.op == DEVICE_OP_REDUCE && c->op.fn == REDUCE_LOG_SUM_EXP && (type == DEVICE_I32 || type == DEVICE_I64);
}

/* All rows of one device; prints the first difference. */
static inline bool
compare_on(struct op_case *c, struct device *device, enum values values, double scale, uint32_t rows)
{
	void	   *bindings[CASE_INPUTS + 1];
	static double in[CASE_INPUTS][ROWS * ELEMENTS];
	static double out[ELEMENTS];
	const struct device_tensor *y = &c->tensors[c->inputs_count];
	int64_t		elements = device_item_elements(y);
	struct status status;
	bool		fine;

	status_clear(&status);
	if (!case_compile(c, device))
	{
		printf("# not supported\n");
		return false;
	}
	if ((device->ops->supports(device, &c->op, c->tensors) & DEVICE_SUPPORTS_HOST) != 0 && !may_be_left(c))
	{
		printf("# left to the host\n");
		case_free(c);
		return false;
	}
	for (uint32_t i = 0; i <= c->inputs_count; i++)
	{
		size_t		bytes = case_bytes(&c->tensors[i], rows);
		size_t		count = bytes / device_type_bytes(c->tensors[i].type);

		if (device_item_elements(&c->tensors[i]) > ELEMENTS)
			abort();				/* the arrays are too short for this case */
		bindings[i] = case_alloc(bytes);
		for (size_t e = 0; e < count && i < c->inputs_count; e++)
		{
			element_set(c->tensors[i].type, bindings[i], e, value(values, c->tensors[i].type, i));
			in[i][e] = element_get(c->tensors[i].type, bindings[i], e);
		}
	}
	fine = case_run(c, rows, bindings, NULL, &status);
	for (uint32_t r = 0; r < (y->lead == DEVICE_LEAD_NONE ? 1 : rows) && fine; r++)
	{
		double	   *item[CASE_INPUTS];

		for (uint32_t i = 0; i < c->inputs_count; i++)
			item[i] = in[i] + (c->tensors[i].lead == DEVICE_LEAD_NONE ? 0 :
							   r * (uint64_t) device_item_elements(&c->tensors[i]));
		reference(c, item, out);
		for (int64_t e = 0; e < elements && fine; e++)
		{
			double		got = element_get(y->type, bindings[c->inputs_count], (size_t) (r * elements + e));

			fine = close_enough(y->type, got, out[e], scale);
			if (!fine)
				printf("# row %u element %lld: %.17g, not %.17g\n", r, (long long) e, got, out[e]);
		}
	}
	for (uint32_t i = 0; i <= c->inputs_count; i++)
		free(bindings[i]);
	case_free(c);
	return fine;
}

static inline bool
compare(struct op_case c, enum values values, double scale)
{
	bool		many = device_item_elements(&c.tensors[0]) > 512;	/* then not one row and two */
	bool		fine = true;

	for (int d = 0; d < DEVICES; d++)
		if (devices[d] != NULL)
			for (uint32_t rows = 0; rows <= ROWS; rows = rows == 0 && many ? ROWS : rows + 1)
				if (!compare_on(&c, devices[d], values, scale, rows))
				{
					printf("# %s: primitive %d function %d type %d, %u rows\n", archs[d], c.op.op, c.op.fn,
						   c.tensors[0].type, rows);
					fine = false;
				}
	return fine;
}

static inline void
devices_open(void)
{
	for (int d = 0; d < DEVICES; d++)
	{
		struct device_options options = {.threads = 1, .arch = archs[d]};
		struct status status;
		bool		cuda = strcmp(archs[d], "cuda") == 0;

		status_clear(&status);
		if (!case_wants(cuda ? "cuda" : "cpu"))
			continue;
		devices[d] = cuda ? case_cuda_device(1) : device_open("cpu", &options, &status);
		if (devices[d] == NULL)
			tap_skip(archs[d], cuda ? "cannot be opened" : "not on this processor");
	}
}

static inline void
devices_close(void)
{
	for (int d = 0; d < DEVICES; d++)
		if (devices[d] != NULL)
			device_close(devices[d]);
}

/* One of them. */
static inline struct device *
devices_any(void)
{
	for (int d = 0; d < DEVICES; d++)
		if (devices[d] != NULL)
			return devices[d];
	tap_skip("no device", "none can be opened");
	exit(tap_done());
}

#endif							/* TEST_KERNELS_COMPARE_H */
