/*
 * sequence.h
 *	  Cases of the sequence primitives, and their formulas in double precision.
 *
 * Nouns
 *	case		an op on tensors of lead TOKENS (the output of POOL: ROWS); input 0 is of the
 *				tokens, the others are shared, but that NORM's input 1 is of the tokens, too
 *	shared		the other inputs' numbers, the same for every run of a case
 *	row			the tokens of one text: inputs by itself, and what becomes of it
 */
#ifndef TEST_KERNELS_SEQUENCE_H
#define TEST_KERNELS_SEQUENCE_H

#include <math.h>

#include "harness.h"
#include "random.h"

struct sequence_case
{
	struct op_case op;
	const char *name;
	void	   *shared[CASE_INPUTS];	/* NULL: of the tokens */
	int64_t		heads;
	int64_t		size;
};

static uint64_t sequence_seed = RANDOM_SEED;

static inline uint64_t
sequence_random(void)
{
	return random_next(&sequence_seed);
}

/* between −1 and 1 */
static inline float
sequence_uniform(void)
{
	return (float) ((double) (int64_t) sequence_random() / 9.3e18);
}

static inline void
sequence_fill(float *x, size_t count, float scale)
{
	for (size_t i = 0; i < count; i++)
		x[i] = sequence_uniform() * scale;
}

static inline void
sequence_share(struct sequence_case *c, uint32_t input, int64_t count, float scale)
{
	c->op.tensors[input] = case_tensor(DEVICE_F32, DEVICE_LEAD_NONE, 1, &count);
	c->shared[input] = case_alloc((size_t) count * sizeof(float));
	sequence_fill(c->shared[input], (size_t) count, scale);
}

/* window and reach: 0 for none */
static inline struct sequence_case
attention_case(int64_t heads, int64_t size, int64_t window, int64_t reach)
{
	struct sequence_case c = {.name = "attention", .heads = heads, .size = size};

	c.op.op = (struct device_op) {
		.op = DEVICE_OP_ATTENTION, .f = {1 / sqrt((double) size)}, .i = {heads, size, window, reach}
	};
	c.op.inputs_count = reach > 0 ? 2 : 1;
	c.op.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, (int64_t[]) {3 * heads * size});
	if (reach > 0)
		sequence_share(&c, 1, heads * (2 * reach + 1), 3);
	c.op.tensors[c.op.inputs_count] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, (int64_t[]) {heads * size});
	return c;
}

/* The same in bf16, where the device has it. */
static inline struct sequence_case
attention_bf16_case(int64_t heads, int64_t size, int64_t window, int64_t reach)
{
	struct sequence_case c = attention_case(heads, size, window, reach);

	c.name = "attention in bf16";
	c.op.tensors[0].type = c.op.tensors[c.op.inputs_count].type = DEVICE_BF16;
	return c;
}

static inline bool
sequence_narrow(const struct sequence_case *c)
{
	return c->op.tensors[0].type == DEVICE_BF16;
}

/* Only attention in bf16 may be missing. */
static inline bool
sequence_supported(const struct sequence_case *c, struct device *device)
{
	struct device_op op = c->op.op;
	int32_t		inputs[CASE_INPUTS] = {0, 1, 2, 3};

	op.inputs = inputs;
	op.inputs_count = c->op.inputs_count;
	op.output = (int32_t) c->op.inputs_count;
	return !sequence_narrow(c) || device->ops->supports(device, &op, c->op.tensors) != 0;
}

/* All four inputs. */
static inline struct sequence_case
norm_case(uint16_t fn, int64_t n)
{
	struct sequence_case c = {.name = "norm"};

	c.op.op = (struct device_op) {.op = DEVICE_OP_NORM, .fn = fn, .f = {1e-5}};
	c.op.inputs_count = 4;
	c.op.tensors[0] = c.op.tensors[1] = c.op.tensors[4] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, &n);
	sequence_share(&c, 2, n, 2);
	sequence_share(&c, 3, n, 1);
	return c;
}

static inline struct sequence_case
rotary_case(int64_t heads, int64_t size, int64_t turned, bool neighbours, int64_t places)
{
	struct sequence_case c = {.name = "rotary", .heads = heads, .size = size};

	c.op.op = (struct device_op) {.op = DEVICE_OP_ROTARY, .i = {heads, size, turned, neighbours}};
	c.op.inputs_count = 2;
	c.op.tensors[0] = c.op.tensors[2] =
		case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, (int64_t[]) {heads * size + size});
	sequence_share(&c, 1, places * turned, 1);
	return c;
}

static inline struct sequence_case
gate_case(uint16_t fn, int64_t n, bool second)
{
	struct sequence_case c = {.name = "gate"};

	c.op.op = (struct device_op) {.op = DEVICE_OP_GATE, .fn = fn, .f = {1}, .i = {second}};
	c.op.inputs_count = 1;
	c.op.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, (int64_t[]) {2 * n});
	c.op.tensors[1] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, &n);
	return c;
}

static inline struct sequence_case
pool_case(uint16_t fn, int64_t n)
{
	struct sequence_case c = {.name = "pool"};

	c.op.op = (struct device_op) {.op = DEVICE_OP_POOL, .fn = fn};
	c.op.inputs_count = 1;
	c.op.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_TOKENS, 1, &n);
	c.op.tensors[1] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 1, &n);
	return c;
}

static inline void
sequence_free(struct sequence_case *c)
{
	for (int i = 0; i < CASE_INPUTS; i++)
		free(c->shared[i]);
}

/* ---- running ---- */

static inline size_t
sequence_in(const struct sequence_case *c)
{
	return (size_t) device_item_elements(&c->op.tensors[0]);
}

static inline size_t
sequence_out(const struct sequence_case *c)
{
	return (size_t) device_item_elements(&c->op.tensors[c->op.inputs_count]);
}

static inline bool
sequence_by_rows(const struct sequence_case *c)
{
	return c->op.tensors[c->op.inputs_count].lead == DEVICE_LEAD_ROWS;
}

/* What a case in bf16 takes: the upper halves; and what it gives as float32. */
static inline uint16_t *
sequence_narrowed(const float *x, size_t count)
{
	uint16_t   *narrow = case_alloc(count * sizeof(*narrow));
	const uint32_t *bits = (const uint32_t *) x;

	for (size_t i = 0; i < count; i++)
		narrow[i] = (uint16_t) (bits[i] >> 16);
	return narrow;
}

static inline void
sequence_widened(const uint16_t *narrow, float *y, size_t count)
{
	uint32_t   *bits = (uint32_t *) y;

	for (size_t i = 0; i < count; i++)
		bits[i] = (uint32_t) narrow[i] << 16;
}

/* x: the tokens' inputs; second: those of input 1, where it is of the tokens. */
static inline bool
sequence_run(struct sequence_case *c, uint32_t rows, const uint32_t *row_off, const float *x, const float *second,
			 float *y, uint32_t *row_error)
{
	struct device_batch batch = {
		.items = {1, rows, row_off[rows]}, .row_off = row_off, .row_error = row_error
	};
	void	   *bindings[CASE_INPUTS + 1];
	uint16_t   *x_narrow = NULL;
	uint16_t   *y_narrow = NULL;
	size_t		count = row_off[rows] * sequence_out(c);
	bool		fine;
	struct status status;

	status_clear(&status);
	if (sequence_narrow(c))
	{
		x_narrow = sequence_narrowed(x, row_off[rows] * sequence_in(c));
		y_narrow = sequence_narrowed(y, count);
	}
	for (uint32_t i = 0; i < c->op.inputs_count; i++)
		bindings[i] = c->shared[i] != NULL ? c->shared[i] : (void *) (i == 0 ? x : second);
	bindings[c->op.inputs_count] = y;
	if (x_narrow != NULL)
	{
		bindings[0] = x_narrow;
		bindings[c->op.inputs_count] = y_narrow;
	}
	fine = case_run_batch(&c->op, &batch, bindings, &status);
	if (y_narrow != NULL)
		sequence_widened(y_narrow, y, count);
	free(x_narrow);
	free(y_narrow);
	if (!fine)
		printf("# %s did not run: %s\n", c->name, status.message);
	return fine;
}

/* ---- formulas, of one row ---- */

static inline void
attention_formula(const struct sequence_case *c, const float *x, int64_t length, double *y)
{
	int64_t		hidden = c->heads * c->size;
	int64_t		window = c->op.op.i[2];
	int64_t		reach = c->op.op.i[3];
	double	   *p = case_alloc((size_t) length * sizeof(double));

	for (int64_t h = 0; h < c->heads; h++)
		for (int64_t i = 0; i < length; i++)
		{
			const float *q = x + i * 3 * hidden + h * c->size;
			double		max = -INFINITY;
			double		sum = 0;

			for (int64_t j = 0; j < length; j++)
			{
				const float *k = x + j * 3 * hidden + hidden + h * c->size;
				int64_t		distance = j - i < -reach ? -reach : j - i > reach ? reach : j - i;

				p[j] = 0;
				for (int64_t d = 0; d < c->size; d++)
					p[j] += (double) q[d] * k[d];
				p[j] *= c->op.op.f[0];
				if (c->shared[1] != NULL)
					p[j] += ((const float *) c->shared[1])[h * (2 * reach + 1) + reach + distance];
				if (window > 0 && (j - i > window || i - j > window))
					p[j] = -INFINITY;
				max = p[j] > max ? p[j] : max;
			}
			for (int64_t j = 0; j < length; j++)
				sum += p[j] = exp(p[j] - max);
			for (int64_t d = 0; d < c->size; d++)
			{
				double	   *to = y + i * hidden + h * c->size + d;

				*to = 0;
				for (int64_t j = 0; j < length; j++)
					*to += p[j] / sum * x[j * 3 * hidden + 2 * hidden + h * c->size + d];
			}
		}
	free(p);
}

static inline void
norm_formula(const struct sequence_case *c, const float *x, const float *r, int64_t length, double *y)
{
	int64_t		n = (int64_t) sequence_in(c);
	const float *g = c->shared[2];
	const float *b = c->shared[3];

	for (int64_t t = 0; t < length; t++, x += n, r += n, y += n)
	{
		double		mean = 0;
		double		square = 0;

		for (int64_t i = 0; i < n; i++)
			mean += ((double) x[i] + r[i]) / (double) n;
		if (c->op.op.fn == NORM_RMS)
			mean = 0;
		for (int64_t i = 0; i < n; i++)
			square += ((double) x[i] + r[i] - mean) * ((double) x[i] + r[i] - mean) / (double) n;
		for (int64_t i = 0; i < n; i++)
			y[i] = ((double) x[i] + r[i] - mean) / sqrt(square + c->op.op.f[0]) * g[i] + b[i];
	}
}

static inline void
rotary_formula(const struct sequence_case *c, const float *x, int64_t length, double *y)
{
	int64_t		n = (int64_t) sequence_in(c);
	int64_t		turned = c->op.op.i[2];
	bool		neighbours = c->op.op.i[3] != 0;

	for (int64_t t = 0; t < length; t++, x += n, y += n)
	{
		const float *angle = (const float *) c->shared[1] + t * turned;

		for (int64_t i = 0; i < n; i++)
			y[i] = x[i];
		for (int64_t h = 0; h < c->heads; h++)
			for (int64_t p = 0; p < turned / 2; p++)
			{
				int64_t		a = h * c->size + (neighbours ? 2 * p : p);
				int64_t		b = neighbours ? a + 1 : a + turned / 2;
				double		cosine = angle[p];
				double		sine = angle[turned / 2 + p];

				y[a] = x[a] * cosine - x[b] * sine;
				y[b] = x[b] * cosine + x[a] * sine;
			}
	}
}

static inline void
gate_formula(const struct sequence_case *c, const float *x, int64_t length, double *y)
{
	int64_t		n = (int64_t) sequence_out(c);
	bool		second = c->op.op.i[0] != 0;

	for (int64_t t = 0; t < length; t++, x += 2 * n, y += n)
		for (int64_t i = 0; i < n; i++)
		{
			double		u = x[second ? n + i : i];
			double		w = x[second ? i : n + i];

			y[i] = w * (c->op.op.fn == UNARY_GELU ? u / 2 * (1 + erf(u / sqrt(2))) : u / (1 + exp(-u)));
		}
}

static inline void
pool_formula(const struct sequence_case *c, const float *x, int64_t place, int64_t length, double *y)
{
	int64_t		n = (int64_t) sequence_in(c);

	for (int64_t i = 0; i < n; i++)
	{
		double		sum = 0;
		double		weighted = 0;
		double		weights = 0;
		double		max = -INFINITY;

		for (int64_t t = 0; t < length; t++)
		{
			sum += x[t * n + i];
			weighted += (double) (place + t + 1) * x[t * n + i];
			weights += (double) (place + t + 1);
			max = x[t * n + i] > max ? x[t * n + i] : max;
		}
		if (length == 0)
		{
			y[i] = 0;
			continue;
		}
		switch (c->op.op.fn)
		{
			case POOL_FIRST:
				y[i] = x[i];
				break;
			case POOL_LAST:
				y[i] = x[(length - 1) * n + i];
				break;
			case POOL_MAX:
				y[i] = max;
				break;
			case POOL_WEIGHTED:
				y[i] = weighted / weights;
				break;
			default:
				y[i] = sum / (c->op.op.fn == POOL_MEAN ? (double) length : sqrt((double) length));
		}
	}
}

static inline void
sequence_formula(const struct sequence_case *c, const float *x, const float *second, int64_t length, double *y)
{
	switch (c->op.op.op)
	{
		case DEVICE_OP_ATTENTION:
			attention_formula(c, x, length, y);
			break;
		case DEVICE_OP_NORM:
			norm_formula(c, x, second, length, y);
			break;
		case DEVICE_OP_ROTARY:
			rotary_formula(c, x, length, y);
			break;
		case DEVICE_OP_GATE:
			gate_formula(c, x, length, y);
			break;
		case DEVICE_OP_POOL:
			pool_formula(c, x, 0, length, y);
			break;
	}
}

#endif							/* TEST_KERNELS_SEQUENCE_H */
