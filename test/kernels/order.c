/*
 * order.c
 *	  Sums of floating numbers that have an order: CUMSUM and SCATTER add one number after the other, so that the CUDA device has the
 *	  CPU device's bits, however its threads share the work.
 *
 * Numbers are of many magnitudes and of both signs: in another order they come to another sum.
 */
#include <math.h>

#include "harness.h"
#include "random.h"
#include "tap.h"

#define ROWS	3

static struct device *cpu;
static struct device *gpu;

static double
number(void)
{
	double		magnitude = ldexp(1 + (double) (next_random() >> 11) / 9007199254740992.0, (int) (next_random() % 30) - 15);

	return next_random() % 2 == 0 ? magnitude : -magnitude;
}

static void
fill(const struct device_tensor *t, void *data, int64_t places)
{
	uint64_t	count = (uint64_t) device_item_elements(t) * (t->lead == DEVICE_LEAD_NONE ? 1 : ROWS);

	for (uint64_t e = 0; e < count; e++)
		switch (t->type)
		{
			case DEVICE_F32:
				((float *) data)[e] = (float) number();
				break;
			case DEVICE_F64:
				((double *) data)[e] = number();
				break;
			case DEVICE_I64:
				((int64_t *) data)[e] = (int64_t) (next_random() % (uint64_t) places);
				break;
		}
}

/* places: from how many those of a SCATTER are chosen */
static bool
agree(struct op_case c, int64_t places)
{
	struct device_tensor *y = &c.tensors[c.inputs_count];
	void	   *bindings[4] = {NULL};
	void	   *wanted;
	struct status status;
	bool		same;

	status_clear(&status);
	for (uint32_t i = 0; i <= c.inputs_count; i++)
	{
		bindings[i] = case_alloc(case_bytes(&c.tensors[i], ROWS));
		fill(&c.tensors[i], bindings[i], places);
	}
	wanted = bindings[c.inputs_count];
	same = case_compile(&c, cpu) && case_run(&c, ROWS, bindings, NULL, &status);
	case_free(&c);
	bindings[c.inputs_count] = case_alloc(case_bytes(y, ROWS));
	same = same && case_compile(&c, gpu) && case_run(&c, ROWS, bindings, NULL, &status) &&
		memcmp(wanted, bindings[c.inputs_count], case_bytes(y, ROWS)) == 0;
	case_free(&c);
	free(wanted);
	for (uint32_t i = 0; i <= c.inputs_count; i++)
		free(bindings[i]);
	return same;
}

static void
test_running(uint8_t type)
{
	static const struct
	{
		const char *shape;
		int64_t		axis;
	}			shapes[] = {{"7", 0}, {"8", 0}, {"33,9", 1}, {"31,31", 1}, {"11,32", 1}, {"43,33", 1}, {"5,257", 1}, {"257,5", 0}};
	bool		same = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (int form = 0; form < 4; form++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_CUMSUM, .i = {shapes[s].axis, form & 1, form >> 1}}, .inputs_count = 1};

			c.tensors[0] = c.tensors[1] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].shape);
			same = agree(c, 1) && same;
		}
	tap_ok(same, "running sums of %s have the CPU's bits", type == DEVICE_F32 ? "f32" : "f64");
}

static void
test_scatter(uint8_t type)
{
	static const struct
	{
		const char *x;
		const char *places;
		const char *updates;
		int64_t		count;
	}			shapes[] = {
		{"5", "31", "31", 5}, {"1", "257", "257", 1}, {"40", "65", "65", 40}, {"4,3", "33", "33,3", 4}, {"4,16", "9", "9,16", 4},
		{"4,17", "9", "9,17", 4}
	};
	bool		same = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (int leads = 0; leads < 2; leads++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_SCATTER, .fn = SCATTER_ADD}, .inputs_count = 3};

			c.tensors[0] = c.tensors[3] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].x);
			c.tensors[1] = case_shaped(DEVICE_I64, leads == 0 ? DEVICE_LEAD_ROWS : DEVICE_LEAD_NONE, shapes[s].places);
			c.tensors[2] = case_shaped(type, DEVICE_LEAD_ROWS, shapes[s].updates);
			same = agree(c, shapes[s].count) && same;
		}
	tap_ok(same, "what SCATTER adds to one place has the CPU's bits: %s", type == DEVICE_F32 ? "f32" : "f64");
}

int
main(void)
{
	setenv("INFER_TEST_DEVICE", "cuda", 0);	/* there is nothing here to test of another */
	cpu = case_device("cpu", NULL, 1);
	gpu = case_cuda_device(1);
	if (gpu == NULL)
	{
		tap_skip("cuda", "is not to be tested, or cannot be opened");
		return tap_done();
	}
	for (uint8_t type = DEVICE_F32; type <= DEVICE_F64; type++)
	{
		test_running(type);
		test_scatter(type);
	}
	device_close(gpu);
	device_close(cpu);
	return tap_done();
}
