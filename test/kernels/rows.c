/*
 * rows.c
 *	  Same row, same bits: a row at any place among strangers (NaN, infinities and huge
 *	  numbers among them), in batches of 1 to 1024 rows, on 1 or 2 threads or on the CUDA device, has the
 *	  bits it has alone.
 *
 * The same checker is then given kernels that are wrong on purpose: a product that adds up
 * in another order for some numbers of rows, one whose last columns are not fused, a
 * function whose tail is the C library's.  It must catch each of them.
 */
#include <math.h>

#include "engine/cpu/cpu.h"
#include "harness.h"
#include "random.h"
#include "rows.h"
#include "tap.h"

static const uint32_t batch_sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 17, 28, 31, 33, 64, 111,
113, 127, 225, 512, 1000, 1024};

static double
uniform(void)
{
	return (double) (int64_t) next_random() / 9.3e18 * 4;
}

static void
set_element(uint8_t type, void *x, size_t i, double v)
{
	if (type == DEVICE_F32)
		((float *) x)[i] = (float) v;
	else
		((double *) x)[i] = v;
}

/* A stranger: ordinary, NaN of some payload, infinite, huge, denormal or zero. */
static void
fill_stranger(uint8_t type, void *x, size_t first, size_t count)
{
	static const double odd[] = {INFINITY, -INFINITY, 1e38, -3e38, 1e-40, 0, -0.0};
	uint64_t	kind = next_random() % 4;

	for (size_t i = 0; i < count; i++)
	{
		double		v = uniform();

		if (kind == 1 && next_random() % 3 == 0)
			v = odd[next_random() % 7];
		set_element(type, x, first + i, v);
		if (kind == 2 && next_random() % 3 == 0)
		{
			uint32_t	nan32 = 0x7FC00000u | (uint32_t) (next_random() & 0x803FFFFF);
			uint64_t	nan64 = 0x7FF8000000000000u | (next_random() & 0x8000000000FFFFFF);

			if (type == DEVICE_F32)
				memcpy((uint32_t *) x + first + i, &nan32, 4);
			else
				memcpy((uint64_t *) x + first + i, &nan64, 8);
		}
	}
}

/*
 * Whether a row has the same bits wherever it is.  Input 0 has lead ROWS, the others are
 * shared.  guilty: the row itself holds odd values.
 */
static bool
row_is_itself(struct op_case *c, bool guilty)
{
	const struct device_tensor *x = &c->tensors[0];
	const struct device_tensor *y = &c->tensors[c->inputs_count];
	size_t		in = (size_t) device_item_elements(x);
	size_t		in_bytes = in * device_type_bytes(x->type);
	size_t		out_bytes = (size_t) device_item_elements(y) * device_type_bytes(y->type);
	uint8_t    *row = case_alloc(in_bytes);
	uint8_t    *alone = case_alloc(out_bytes);
	uint8_t    *batch = case_alloc(in_bytes * 1024);
	uint8_t    *result = case_alloc(out_bytes * 1024);
	void	   *bindings[CASE_INPUTS + 1];
	struct status status;
	bool		same = true;

	status_clear(&status);
	for (uint32_t i = 1; i < c->inputs_count; i++)
	{
		size_t		count = (size_t) device_item_elements(&c->tensors[i]);

		bindings[i] = case_alloc(count * 8);
		for (size_t e = 0; e < count; e++)
			set_element(c->tensors[i].type, bindings[i], e, uniform());
	}
	for (size_t e = 0; e < in; e++)
		set_element(x->type, row, e, uniform());
	if (guilty)
		fill_stranger(x->type, row, 0, in);
	bindings[0] = row;
	bindings[c->inputs_count] = alone;
	same = case_run(c, 1, bindings, NULL, &status);
	for (size_t b = 0; b < sizeof(batch_sizes) / sizeof(*batch_sizes) && same; b++)
	{
		uint32_t	rows = batch_sizes[b];
		uint32_t	places[3];

		if (rows > 33 && case_hurries(c->device))
			break;
		for (uint32_t r = 0; r < rows; r++)
			fill_stranger(x->type, batch, r * in, in);
		for (int p = 0; p < 3; p++)
		{
			places[p] = p == 2 ? rows - 1 : (uint32_t) (next_random() % rows);
			memcpy(batch + places[p] * in_bytes, row, in_bytes);
		}
		bindings[0] = batch;
		bindings[c->inputs_count] = result;
		memset(result, 0xAA, out_bytes * rows);
		same = case_run(c, rows, bindings, NULL, &status);
		for (int p = 0; p < 3; p++)
			if (memcmp(result + places[p] * out_bytes, alone, out_bytes) != 0)
				same = false;
	}
	for (uint32_t i = 1; i < c->inputs_count; i++)
		free(bindings[i]);
	free(row);
	free(alone);
	free(batch);
	free(result);
	return same;
}

/* ---- cases ---- */

static struct op_case
product_case(uint8_t type, int64_t k, int64_t n, uint16_t activation)
{
	struct op_case c = {
		.op = {.op = DEVICE_OP_GEMM, .fn = activation, .f = {0.5, 1.5}},
		.inputs_count = 2,
		.weight = {.type = type, .k = k, .n = n, .stride_k = n, .stride_n = 1}
	};
	void	   *w = case_alloc((size_t) (k * n) * 8);

	for (int64_t i = 0; i < k * n; i++)
		set_element(type, w, (size_t) i, uniform());
	c.weight.data = w;
	c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &k);
	c.tensors[1] = case_tensor(type, DEVICE_LEAD_NONE, 1, &n);
	c.tensors[2] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
	return c;
}

static struct op_case
matmul_case(uint8_t type, int64_t m, int64_t k, int64_t n)
{
	struct op_case c = {.op = {.op = DEVICE_OP_MATMUL}, .inputs_count = 2};

	c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 2, (int64_t[]) {m, k});
	c.tensors[1] = case_tensor(type, DEVICE_LEAD_NONE, 2, (int64_t[]) {k, n});
	c.tensors[2] = case_tensor(type, DEVICE_LEAD_ROWS, 2, (int64_t[]) {m, n});
	return c;
}

/* An op of one input whose output has the same shape, or that of one element per vector. */
static struct op_case
vector_case(uint8_t type, uint16_t op, uint16_t fn, int64_t n)
{
	struct op_case c = {.op = {.op = op, .fn = fn, .f = {0.5, 1.5}}, .inputs_count = 1};
	int64_t		one = 1;

	c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
	c.tensors[1] = case_tensor(type, DEVICE_LEAD_ROWS, 1, op == DEVICE_OP_REDUCE ? &one : &n);
	if (op == DEVICE_OP_REDUCE)
	{
		c.op.i[0] = 1;
		c.op.i[1] = 1;
	}
	return c;
}

static struct op_case
binary_case(uint8_t type, uint16_t fn, int64_t n)
{
	struct op_case c = {.op = {.op = DEVICE_OP_BINARY, .fn = fn}, .inputs_count = 2};

	c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
	c.tensors[1] = case_tensor(type, DEVICE_LEAD_NONE, 1, &n);
	c.tensors[2] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
	return c;
}

/* CUMSUM; TOPK of all, whose places are as many bytes as float64. */
static struct op_case
order_case(uint8_t type, uint16_t op, uint16_t fn, int64_t n)
{
	struct op_case c = vector_case(type, op, fn, n);

	if (op == DEVICE_OP_TOPK)
		c.tensors[1].type = DEVICE_I64;
	return c;
}

static struct op_case
distance_case(uint8_t type, int64_t points, int64_t n)
{
	struct op_case c = {.op = {.op = DEVICE_OP_DISTANCE}, .inputs_count = 2};

	c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
	c.tensors[1] = case_tensor(type, DEVICE_LEAD_NONE, 2, (int64_t[]) {points, n});
	c.tensors[2] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &points);
	return c;
}

/* Compiles, checks an ordinary and an odd row, frees. */
static bool
check(struct op_case c, struct device *device)
{
	bool		same;

	if (!case_compile(&c, device))
	{
		printf("# primitive %d function %d is not supported\n", c.op.op, c.op.fn);
		return false;
	}
	same = row_is_itself(&c, false) && row_is_itself(&c, true);
	if (!same)
		printf("# primitive %d function %d type %d, %lld elements\n", c.op.op, c.op.fn,
			   c.tensors[0].type, (long long) device_item_elements(&c.tensors[0]));
	case_free(&c);
	free((void *) c.weight.data);
	return same;
}

static bool
check_products(struct device *device, uint8_t type)
{
	static const int64_t shapes[][2] = {
		{1, 1}, {3, 2}, {7, 5}, {30, 2}, {64, 10}, {17, 33}, {100, 47}, {33, 64}, {129, 130}, {40, 257}, {1024, 35}, {256, 300}
	};
	bool		same = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		same = check(product_case(type, shapes[s][0], shapes[s][1],
								  s % 3 == 0 ? UNARY_NONE : s % 3 == 1 ? UNARY_RELU : UNARY_TANH),
					 device) && same;
	same = check(matmul_case(type, 1, 20, 37), device) && same;
	return check(matmul_case(type, 5, 7, 11), device) && same;
}

static bool
check_vectors(struct device *device, uint8_t type, int64_t n)
{
	bool		same = true;

	for (uint16_t fn = UNARY_ABS; fn < UNARY_NOT; fn++)
		same = check(vector_case(type, DEVICE_OP_UNARY, fn, n), device) && same;
	for (uint16_t fn = BINARY_ADD; fn <= BINARY_PRELU; fn++)
		same = check(binary_case(type, fn, n), device) && same;
	for (uint16_t fn = REDUCE_SUM; fn < REDUCE_FUNCTIONS; fn++)
		same = check(vector_case(type, DEVICE_OP_REDUCE, fn, n), device) && same;
	for (uint16_t fn = SOFTMAX_PLAIN; fn <= SOFTMAX_ZERO; fn++)
		same = check(vector_case(type, DEVICE_OP_SOFTMAX, fn, n), device) && same;
	for (uint16_t fn = NORMALIZE_MAX; fn <= NORMALIZE_L2; fn++)
		same = check(vector_case(type, DEVICE_OP_NORMALIZE, fn, n), device) && same;
	for (uint16_t fn = TOPK_LARGEST; fn <= TOPK_SMALLEST; fn++)
		same = check(order_case(type, DEVICE_OP_TOPK, fn, n), device) && same;
	same = check(order_case(type, DEVICE_OP_CUMSUM, 0, n), device) && same;
	same = check(distance_case(type, 3, n), device) && same;
	if (type == DEVICE_F32 && n > 1 && n < 100)
	{
		struct op_case couple = {.op = {.op = DEVICE_OP_COUPLE, .i = {n}}, .inputs_count = 1};

		couple.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 1, (int64_t[]) {n * (n - 1) / 2});
		couple.tensors[1] = case_tensor(type, DEVICE_LEAD_ROWS, 1, &n);
		same = check(couple, device) && same;
	}
	return same;
}

/* ---- kernels that are wrong on purpose ---- */

static const struct cpu_float_kernels *right;

/* Four rows and more: the chain is cut in two halves. */
static void
product_other_order(const struct cpu_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	right->product(p, m0, m1, p0, p1);
	if (m1 - m0 < 4)
		return;
	for (int64_t m = m0; m < m1; m++)
		for (int64_t n = p0 * right->panel; n < p1 * right->panel && n < p->n; n++)
		{
			const float *x = (const float *) p->x + m * p->x_step;
			const float *b = (const float *) p->b + n / right->panel * p->b_panel + n % right->panel;
			float		low = 0;
			float		high = 0;

			for (int64_t k = 0; k < p->k / 2; k++)
				low = fmaf(x[k], b[k * p->b_step], low);
			for (int64_t k = p->k / 2; k < p->k; k++)
				high = fmaf(x[k], b[k * p->b_step], high);
			((float *) p->y)[m * p->y_step + n] = low + high +
				(p->bias == NULL ? 0 : ((const float *) p->bias)[n * p->bias_step]);
		}
}

/* The last row of an odd number of rows is computed by a scalar loop without fusing. */
static void
product_scalar_tail(const struct cpu_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	right->product(p, m0, m1, p0, p1);
	if ((m1 - m0) % 2 == 0)
		return;
	for (int64_t n = p0 * right->panel; n < p1 * right->panel && n < p->n; n++)
	{
		const float *x = (const float *) p->x + (m1 - 1) * p->x_step;
		const float *b = (const float *) p->b + n / right->panel * p->b_panel + n % right->panel;
		float		sum = 0;

		for (int64_t k = 0; k < p->k; k++)
			sum = sum + x[k] * b[k * p->b_step];
		((float *) p->y)[(m1 - 1) * p->y_step + n] = sum +
			(p->bias == NULL ? 0 : ((const float *) p->bias)[n * p->bias_step]);
	}
}

/* What does not fill a vector of 16 goes through the C library. */
static void
unary_scalar_tail(int fn, const double f[2], const void *x, void *y, int64_t n)
{
	int64_t		whole = n / 16 * 16;

	right->unary(fn, f, x, y, whole);
	for (int64_t i = whole; i < n; i++)
		((float *) y)[i] = tanhf(((const float *) x)[i]);
}

static void
check_the_checker(const char *arch)
{
	struct device *device = case_device("cpu", arch, 1);
	struct cpu_device *cpu = (struct cpu_device *) device;
	const struct cpu_kernels *kernels = cpu->kernels;
	struct cpu_kernels wrong = *kernels;

	right = &kernels->f32;
	cpu->kernels = &wrong;
	tap_ok(check(product_case(DEVICE_F32, 100, 47, UNARY_NONE), device), "%s: the copy of the kernels passes", arch);
	wrong.f32.product = product_other_order;
	tap_ok(!check(product_case(DEVICE_F32, 100, 47, UNARY_NONE), device),
		   "%s: another order along K for four rows and more is caught", arch);
	wrong.f32.product = product_scalar_tail;
	tap_ok(!check(product_case(DEVICE_F32, 100, 47, UNARY_NONE), device),
		   "%s: a scalar tail of a product is caught", arch);
	wrong.f32 = kernels->f32;
	wrong.f32.unary = unary_scalar_tail;
	tap_ok(!check(vector_case(DEVICE_F32, DEVICE_OP_UNARY, UNARY_TANH, 15), device),
		   "%s: a scalar tail of a function is caught", arch);
	cpu->kernels = kernels;
	device->ops->close(device);
}

static void
check_device(struct device *device, const char *name)
{
	tap_ok(check_products(device, DEVICE_F32), "%s: products f32", name);
	tap_ok(check_products(device, DEVICE_F64), "%s: products f64", name);
	tap_ok(check_vectors(device, DEVICE_F32, 7) && check_vectors(device, DEVICE_F32, 37), "%s: functions f32", name);
	tap_ok(check_vectors(device, DEVICE_F64, 5) && check_vectors(device, DEVICE_F64, 33), "%s: functions f64", name);
}

int
main(void)
{
	static const char *const archs[] = {"scalar", "avx2", "avx512"};
	struct device *cuda = case_cuda_device(1);

	for (size_t a = 0; a < sizeof(archs) / sizeof(*archs) && case_wants("cpu"); a++)
		for (int threads = 1; threads <= 2; threads++)
			if (rows_on_cpu(archs[a], threads, check_device) && threads == 1)
				check_the_checker(archs[a]);
	if (cuda != NULL)
	{
		check_device(cuda, "cuda");
		device_close(cuda);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	return tap_done();
}
