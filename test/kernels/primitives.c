/*
 * primitives.c
 *	  Every primitive against a naive reference in double: its functions, its types, shapes
 *	  that broadcast, stride and leave tails, operands with and without rows.
 *
 * A case table per primitive makes op_cases; compare() fills inputs, runs one and three
 * rows on each instruction set and compares each row with reference(), which follows the
 * formulas of device.h and knows nothing of vectors.
 */
#include <math.h>

#include "engine/cpu/kernels/kernels.h"
#include "harness.h"
#include "tap.h"

#define ROWS		3
#define ELEMENTS	4096			/* of a binding, in all rows */

static uint64_t seed = 88172645463325252u;

static uint64_t
next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* ---- tensors as doubles ---- */

static void
element_set(uint8_t type, void *x, size_t i, double v)
{
	switch (type)
	{
		case DEVICE_F32:
			((float *) x)[i] = (float) v;
			break;
		case DEVICE_F64:
			((double *) x)[i] = v;
			break;
		case DEVICE_I32:
			((int32_t *) x)[i] = (int32_t) v;
			break;
		case DEVICE_I64:
			((int64_t *) x)[i] = (int64_t) v;
			break;
		case DEVICE_BOOL:
			((uint8_t *) x)[i] = v != 0;
			break;
	}
}

static double
element_get(uint8_t type, const void *x, size_t i)
{
	switch (type)
	{
		case DEVICE_F32:
			return (double) ((const float *) x)[i];
		case DEVICE_F64:
			return ((const double *) x)[i];
		case DEVICE_I32:
			return ((const int32_t *) x)[i];
		case DEVICE_I64:
			return (double) ((const int64_t *) x)[i];
		case DEVICE_BOOL:
			return ((const uint8_t *) x)[i];
	}
	return 0;
}

/* Offset of an output's index in an operand that broadcasts. */
static int64_t
broadcast(const struct device_tensor *t, const struct device_tensor *y, const int64_t *index)
{
	int64_t		offset = 0;

	for (int d = 0; d < t->rank; d++)
	{
		int64_t		at = index[y->rank - t->rank + d];

		offset = offset * t->dims[d] + (t->dims[d] == 1 ? 0 : at);
	}
	return offset;
}

static void
unravel(const struct device_tensor *t, int64_t flat, int64_t *index)
{
	for (int d = t->rank - 1; d >= 0; d--)
	{
		index[d] = flat % t->dims[d];
		flat /= t->dims[d];
	}
}

/* ---- the reference ---- */

static double
sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double
unary(int fn, const double *f, double x)
{
	switch (fn)
	{
		case UNARY_ABS: return fabs(x);
		case UNARY_NEG: return -x;
		case UNARY_SIGN: return (x > 0) - (x < 0);
		case UNARY_RECIPROCAL: return 1 / x;
		case UNARY_SQRT: return sqrt(x);
		case UNARY_EXP: return exp(x);
		case UNARY_LOG: return log(x);
		case UNARY_FLOOR: return floor(x);
		case UNARY_CEIL: return ceil(x);
		case UNARY_ROUND: return rint(x);
		case UNARY_ERF: return erf(x);
		case UNARY_TANH: return tanh(x);
		case UNARY_SIGMOID: return sigmoid(x);
		case UNARY_SIN: return sin(x);
		case UNARY_COS: return cos(x);
		case UNARY_TAN: return tan(x);
		case UNARY_ASIN: return asin(x);
		case UNARY_ACOS: return acos(x);
		case UNARY_ATAN: return atan(x);
		case UNARY_SINH: return sinh(x);
		case UNARY_COSH: return cosh(x);
		case UNARY_ASINH: return asinh(x);
		case UNARY_ACOSH: return acosh(x);
		case UNARY_ATANH: return atanh(x);
		case UNARY_RELU: return x < 0 ? 0 : x;
		case UNARY_LEAKY_RELU: return x < 0 ? f[0] * x : x;
		case UNARY_ELU: return x < 0 ? f[0] * expm1(x) : x;
		case UNARY_SELU: return f[1] * (x > 0 ? x : f[0] * expm1(x));
		case UNARY_CELU: return fmax(0, x) + fmin(0, f[0] * expm1(x / f[0]));
		case UNARY_THRESHOLDED_RELU: return x > f[0] ? x : 0;
		case UNARY_HARD_SIGMOID: return fmax(0, fmin(1, f[0] * x + f[1]));
		case UNARY_HARD_SWISH: return x * fmax(0, fmin(1, x / 6 + 0.5));
		case UNARY_SOFTPLUS: return log1p(exp(x));
		case UNARY_SOFTSIGN: return x / (1 + fabs(x));
		case UNARY_MISH: return x * tanh(log1p(exp(x)));
		case UNARY_GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
		case UNARY_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
		case UNARY_SWISH: return x * sigmoid(f[0] * x);
		case UNARY_SHRINK: return x < -f[0] ? x + f[1] : x > f[0] ? x - f[1] : 0;
		case UNARY_CLIP: return fmin(fmax(x, f[0]), f[1]);
		case UNARY_NOT: return x == 0;
		case UNARY_IS_NAN: return isnan(x);
		case UNARY_IS_INF: return isinf(x) && (x < 0 ? f[0] != 0 : f[1] != 0);
	}
	return x;
}

static double
binary(int fn, bool integer, double a, double b)
{
	switch (fn)
	{
		case BINARY_ADD: return a + b;
		case BINARY_SUB: return a - b;
		case BINARY_MUL: return a * b;
		case BINARY_DIV: return integer ? trunc(a / b) : a / b;
		case BINARY_POW: return integer ? trunc(pow(a, b)) : pow(a, b);
		case BINARY_MIN: return isnan(a) || isnan(b) ? NAN : fmin(a, b);
		case BINARY_MAX: return isnan(a) || isnan(b) ? NAN : fmax(a, b);
		case BINARY_MOD: return a - floor(a / b) * b;
		case BINARY_FMOD: return fmod(a, b);
		case BINARY_PRELU: return a < 0 ? b * a : a;
		case BINARY_EQUAL: return a == b;
		case BINARY_LESS: return a < b;
		case BINARY_LESS_EQUAL: return a <= b;
		case BINARY_GREATER: return a > b;
		case BINARY_GREATER_EQUAL: return a >= b;
		case BINARY_AND: return a != 0 && b != 0;
		case BINARY_OR: return a != 0 || b != 0;
		case BINARY_XOR: return (a != 0) != (b != 0);
		case BINARY_BIT_AND: return (double) ((int64_t) a & (int64_t) b);
		case BINARY_BIT_OR: return (double) ((int64_t) a | (int64_t) b);
		case BINARY_BIT_XOR: return (double) ((int64_t) a ^ (int64_t) b);
	}
	return 0;
}

static void
reference_elementwise(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *y = &c->tensors[c->inputs_count];
	uint8_t		type = c->tensors[0].type;
	bool		integer = type == DEVICE_I32 || type == DEVICE_I64;

	for (int64_t i = 0; i < device_item_elements(y); i++)
	{
		int64_t		index[DEVICE_RANK_MAX];
		double		v[3] = {0, 0, 0};

		unravel(y, i, index);
		for (uint32_t o = 0; o < c->inputs_count; o++)
			v[o] = in[o][broadcast(&c->tensors[o], y, index)];
		if (c->op.op == DEVICE_OP_UNARY)
			out[i] = unary(c->op.fn, c->op.f, v[0]);
		else if (c->op.op == DEVICE_OP_BINARY)
			out[i] = binary(c->op.fn, integer, v[0], v[1]);
		else if (c->op.op == DEVICE_OP_WHERE)
			out[i] = v[0] != 0 ? v[1] : v[2];
		else if (y->type == DEVICE_BOOL)
			out[i] = v[0] != 0;
		else
			out[i] = y->type == DEVICE_F32 || y->type == DEVICE_F64 ? v[0] : trunc(v[0]);
	}
}

static void
reference_product(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *x = &c->tensors[0];
	const struct device_tensor *y = &c->tensors[c->inputs_count];
	int64_t		n_all = y->dims[y->rank - 1];
	int64_t		k_all = x->dims[x->rank - 1];

	for (int64_t i = 0; i < device_item_elements(y); i++)
	{
		double		sum = 0;

		if (c->op.op == DEVICE_OP_GEMM)
		{
			for (int64_t k = 0; k < k_all; k++)
				sum += in[0][i / n_all * k_all + k] *
					element_get(c->weight.type, c->weight.data,
								(size_t) (k * c->weight.stride_k + i % n_all * c->weight.stride_n));
			if (c->inputs_count > 1)
				sum += in[1][device_item_elements(&c->tensors[1]) == 1 ? 0 : i % n_all];
			sum = unary(c->op.fn, c->op.f, sum);
		}
		else
		{
			struct device_tensor a = *x;
			struct device_tensor b = c->tensors[1];
			struct device_tensor lead = *y;
			int64_t		index[DEVICE_RANK_MAX];
			int64_t		m_all = x->dims[x->rank - 2];
			int64_t		m;

			a.rank -= 2;
			b.rank -= 2;
			lead.rank -= 2;
			unravel(y, i, index);
			m = index[y->rank - 2];
			for (int64_t k = 0; k < k_all; k++)
				sum += in[0][(broadcast(&a, &lead, index) * m_all + m) * k_all + k] *
					in[1][(broadcast(&b, &lead, index) * k_all + k) * n_all + i % n_all];
		}
		out[i] = sum;
	}
}

static void
reference_layout(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *x = &c->tensors[0];
	const struct device_tensor *y = &c->tensors[c->inputs_count];
	int			axis = (int) c->op.i[0];

	for (int64_t i = 0; i < device_item_elements(y); i++)
	{
		int64_t		index[DEVICE_RANK_MAX];
		int64_t		from = 0;

		unravel(y, i, index);
		if (c->op.op == DEVICE_OP_COPY)
		{
			from = c->op.i[0];
			for (int d = 0; d < y->rank; d++)
				from += index[d] * c->op.i[1 + d];
			out[i] = in[0][from];
		}
		else if (c->op.op == DEVICE_OP_CONCAT)
		{
			uint32_t	part = 0;

			while (index[axis] >= c->tensors[part].dims[axis])
				index[axis] -= c->tensors[part++].dims[axis];
			for (int d = 0; d < y->rank; d++)
				from = from * c->tensors[part].dims[d] + index[d];
			out[i] = in[part][from];
		}
		else
		{
			const struct device_tensor *indices = &c->tensors[1];
			int64_t		at = 0;
			int64_t		chosen;

			for (int d = 0; d < indices->rank; d++)
				at = at * indices->dims[d] + index[axis + d];
			chosen = (int64_t) in[1][at];
			if (chosen < 0)
				chosen += x->dims[axis];
			for (int d = 0; d < x->rank; d++)
				from = from * x->dims[d] +
					(d < axis ? index[d] : d == axis ? chosen : index[d + indices->rank - 1]);
			out[i] = in[0][from];
		}
	}
}

static double
reduce(int fn, const double *v, int64_t n)
{
	double		sum = fn == REDUCE_PROD ? 1 : fn == REDUCE_MAX ? -INFINITY : fn == REDUCE_MIN ? INFINITY : 0;

	for (int64_t i = 0; i < n; i++)
		switch (fn)
		{
			case REDUCE_MAX: sum = fmax(sum, v[i]); break;
			case REDUCE_MIN: sum = fmin(sum, v[i]); break;
			case REDUCE_PROD: sum *= v[i]; break;
			case REDUCE_L1: sum += fabs(v[i]); break;
			case REDUCE_L2:
			case REDUCE_SUM_SQUARE: sum += v[i] * v[i]; break;
			case REDUCE_LOG_SUM_EXP: sum += exp(v[i]); break;
			default: sum += v[i];
		}
	return fn == REDUCE_MEAN ? sum / (double) n : fn == REDUCE_L2 ? sqrt(sum) :
		fn == REDUCE_LOG_SUM || fn == REDUCE_LOG_SUM_EXP ? log(sum) : sum;
}

static void
reference_reduce(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *x = &c->tensors[0];
	const struct device_tensor *y = &c->tensors[1];
	bool		integer = x->type != DEVICE_F32 && x->type != DEVICE_F64;

	for (int64_t i = 0; i < device_item_elements(y); i++)
	{
		static double v[ELEMENTS];
		int64_t		n = 0;

		for (int64_t e = 0; e < device_item_elements(x); e++)
		{
			int64_t		index[DEVICE_RANK_MAX];
			int64_t		kept = 0;

			unravel(x, e, index);
			for (int d = 0; d < x->rank; d++)
				if (!(c->op.i[0] >> d & 1))
					kept = kept * x->dims[d] + index[d];
			if (kept == i)
				v[n++] = in[0][e];
		}
		out[i] = reduce(c->op.fn, v, n);
		if (integer)
			out[i] = trunc(out[i]);
	}
}

/* SOFTMAX, ARG, NORMALIZE: vectors of `axis` elements, `after` apart. */
static void
reference_vectors(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *x = &c->tensors[0];
	int			first = c->op.op == DEVICE_OP_NORMALIZE ? x->rank - 1 : (int) c->op.i[0];
	int			last = first + (c->op.op == DEVICE_OP_SOFTMAX ? (int) c->op.i[1] : 0);
	int64_t		axis = 1;
	int64_t		after = 1;

	for (int d = first; d <= last; d++)
		axis *= x->dims[d];
	for (int d = last + 1; d < x->rank; d++)
		after *= x->dims[d];
	for (int64_t u = 0; axis > 0 && u < device_item_elements(x) / axis; u++)
	{
		const double *v = in[0] + u / after * axis * after + u % after;
		double	   *to = out + u / after * axis * after + u % after;
		double		max = v[0];
		double		sum = 0;
		int64_t		best = 0;

		for (int64_t i = 1; i < axis; i++)
		{
			max = fmax(max, v[i * after]);
			if (c->op.fn == ARG_MIN && c->op.op == DEVICE_OP_ARG
				? v[i * after] < v[best * after] : v[i * after] > v[best * after])
				best = i;
			else if (c->op.op == DEVICE_OP_ARG && c->op.i[2] && v[i * after] == v[best * after])
				best = i;
		}
		if (c->op.op == DEVICE_OP_ARG)
		{
			out[u] = (double) best;
			continue;
		}
		for (int64_t i = 0; i < axis; i++)
		{
			double		e = v[i * after];

			if (c->op.op == DEVICE_OP_SOFTMAX)
				e = c->op.fn == SOFTMAX_ZERO && e == 0 ? 0 : exp(e - max);
			else if (c->op.fn == NORMALIZE_MAX)
				sum = fmax(sum, fabs(e));
			else
				e = c->op.fn == NORMALIZE_L1 ? fabs(e) : e * e;
			if (c->op.op == DEVICE_OP_SOFTMAX || c->op.fn != NORMALIZE_MAX)
				sum += e;
		}
		if (c->op.op == DEVICE_OP_NORMALIZE && c->op.fn == NORMALIZE_L2)
			sum = sqrt(sum);
		for (int64_t i = 0; i < axis; i++)
		{
			double		e = v[i * after];

			if (c->op.op == DEVICE_OP_NORMALIZE)
				to[i * after] = sum == 0 ? e : e / sum;
			else if (c->op.fn == SOFTMAX_HARD)
				to[i * after] = i == best;
			else if (c->op.fn == SOFTMAX_LOG)
				to[i * after] = e - max - log(sum);
			else
				to[i * after] = c->op.fn == SOFTMAX_ZERO && e == 0 ? 0 : exp(e - max) / sum;
		}
	}
}

/* CUMSUM, and TOPK by looking for the next place again and again. */
static void
reference_order(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *x = &c->tensors[0];
	int			d = (int) c->op.i[0];
	int64_t		axis = x->dims[d];
	int64_t		k = c->tensors[1].dims[d];
	int64_t		after = 1;

	while (++d < x->rank)
		after *= x->dims[d];
	for (int64_t u = 0; axis > 0 && u < device_item_elements(x) / axis; u++)
	{
		const double *v = in[0] + u / after * axis * after + u % after;
		double	   *to = out + u / after * k * after + u % after;
		bool		taken[ELEMENTS] = {false};
		double		sum = 0;

		for (int64_t i = 0; c->op.op == DEVICE_OP_CUMSUM && i < axis; i++)
		{
			int64_t		at = (c->op.i[2] ? axis - 1 - i : i) * after;

			sum += v[at];
			to[at] = c->op.i[1] ? sum - v[at] : sum;
		}
		for (int64_t i = 0; c->op.op == DEVICE_OP_TOPK && i < k; i++)
		{
			int64_t		best = -1;

			for (int64_t j = 0; j < axis; j++)
				if (!taken[j] && (best < 0 || (c->op.fn == TOPK_LARGEST ? v[j * after] > v[best * after] :
											   v[j * after] < v[best * after])))
					best = j;
			taken[best] = true;
			to[i * after] = (double) best;
		}
	}
}

/* OFFSET and SCATTER. */
static void
reference_places(const struct op_case *c, double *const *in, double *out)
{
	const struct device_tensor *x = &c->tensors[0];
	int64_t		places = device_item_elements(&c->tensors[1]);
	int64_t		after = c->inputs_count < 3 || places == 0 ? 0 : device_item_elements(&c->tensors[2]) / places;

	if (c->op.op == DEVICE_OP_OFFSET)
	{
		int64_t		named = x->dims[x->rank - 1];

		for (int64_t u = 0; u < places; u++)
		{
			int64_t		place = 0;

			for (int64_t j = 0; j < named; j++)
				place = place * c->op.i[j] + ((int64_t) in[0][u * named + j] + c->op.i[j]) % c->op.i[j];
			out[u] = (double) (place * c->op.i[DEVICE_RANK_MAX]);
		}
		return;
	}
	memcpy(out, in[0], (size_t) device_item_elements(x) * sizeof(*out));
	for (int64_t j = 0; j < places; j++)
		for (int64_t e = 0; e < after; e++)
		{
			double	   *to = &out[(int64_t) in[1][j] * after + e];
			double		u = in[2][j * after + e];

			*to = c->op.fn == SCATTER_ADD ? *to + u : c->op.fn == SCATTER_MUL ? *to * u :
				c->op.fn == SCATTER_MAX ? fmax(*to, u) : c->op.fn == SCATTER_MIN ? fmin(*to, u) : u;
		}
}

static void
reference_distance(const struct op_case *c, double *const *in, double *out)
{
	int64_t		n = c->tensors[1].dims[0];
	int64_t		k = c->tensors[1].dims[1];

	for (int64_t i = 0; i < device_item_elements(&c->tensors[2]); i++)
	{
		out[i] = 0;
		for (int64_t f = 0; f < k; f++)
			out[i] += pow(in[0][i / n * k + f] - in[1][i % n * k + f], 2);
	}
}

static void
reference(const struct op_case *c, double *const *in, double *out)
{
	switch (c->op.op)
	{
		case DEVICE_OP_GEMM:
		case DEVICE_OP_MATMUL:
			reference_product(c, in, out);
			break;
		case DEVICE_OP_COPY:
		case DEVICE_OP_CONCAT:
		case DEVICE_OP_GATHER:
			reference_layout(c, in, out);
			break;
		case DEVICE_OP_REDUCE:
			reference_reduce(c, in, out);
			break;
		case DEVICE_OP_SOFTMAX:
		case DEVICE_OP_ARG:
		case DEVICE_OP_NORMALIZE:
			reference_vectors(c, in, out);
			break;
		case DEVICE_OP_CUMSUM:
		case DEVICE_OP_TOPK:
			reference_order(c, in, out);
			break;
		case DEVICE_OP_OFFSET:
		case DEVICE_OP_SCATTER:
			reference_places(c, in, out);
			break;
		case DEVICE_OP_DISTANCE:
			reference_distance(c, in, out);
			break;
		default:
			reference_elementwise(c, in, out);
	}
}

/* ---- running a case ---- */

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

static double
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

static struct device *devices[3];
static const char *const archs[3] = {"scalar", "avx2", "avx512"};

static bool
close_enough(uint8_t type, double got, double exact, double scale)
{
	double		tolerance = (type == DEVICE_F32 ? 4e-6 : type == DEVICE_F64 ? 1e-13 : 0) * scale;

	if (isnan(exact) || isinf(exact))
		return isnan(exact) ? isnan(got) : got == exact;
	return fabs(got - exact) <= tolerance * fmax(1, fabs(exact));
}

/* All rows of one device; prints the first difference. */
static bool
compare_on(struct op_case *c, struct device *device, enum values values, double scale, uint32_t rows)
{
	void	   *bindings[CASE_INPUTS + 1];
	static double in[CASE_INPUTS][ELEMENTS];
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
	for (uint32_t i = 0; i <= c->inputs_count; i++)
	{
		size_t		bytes = case_bytes(&c->tensors[i], rows);
		size_t		count = bytes / device_type_bytes(c->tensors[i].type);

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

static bool
compare(struct op_case c, enum values values, double scale)
{
	bool		fine = true;

	for (int d = 0; d < 3; d++)
		if (devices[d] != NULL)
			for (uint32_t rows = 0; rows <= ROWS; rows++)
				if (!compare_on(&c, devices[d], values, scale, rows))
				{
					printf("# %s: primitive %d function %d type %d, %u rows\n", archs[d], c.op.op, c.op.fn,
						   c.tensors[0].type, rows);
					fine = false;
				}
	return fine;
}

/* ---- case tables ---- */

static const char *const type_names[] = {"", "f32", "f64", "i32", "i64", "bool", "string"};

static struct device_tensor
tensor(uint8_t type, uint8_t lead, const char *shape)
{
	int64_t		dims[DEVICE_RANK_MAX];
	int			rank = 0;

	for (const char *s = shape; *s != '\0';)
	{
		char	   *end;

		dims[rank++] = strtoll(s, &end, 10);
		s = *end == ',' ? end + 1 : end;
	}
	return case_tensor(type, lead, rank, dims);
}

static uint8_t
lead_of(const struct device_tensor *tensors, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (tensors[i].lead != DEVICE_LEAD_NONE)
			return tensors[i].lead;
	return DEVICE_LEAD_NONE;
}

static void
test_unary(uint8_t type)
{
	static const char *const shapes[] = {"", "1", "7", "16", "3,11", "2,3,5", "0"};
	bool		integer = type == DEVICE_I32 || type == DEVICE_I64;

	for (uint16_t fn = 0; fn < UNARY_FUNCTIONS; fn++)
	{
		bool		fine = true;
		bool		tests = fn == UNARY_IS_NAN || fn == UNARY_IS_INF;
		enum values values = fn == UNARY_LOG || fn == UNARY_SQRT || fn == UNARY_RECIPROCAL ? VALUES_POSITIVE :
			fn == UNARY_ASIN || fn == UNARY_ACOS || fn == UNARY_ATANH ? VALUES_UNIT :
			fn == UNARY_ACOSH ? VALUES_ABOVE_ONE : VALUES_ANY;

		if (fn == UNARY_PROBIT ||
			(type == DEVICE_BOOL ? fn != UNARY_NOT && fn != UNARY_NONE :
			 integer ? fn != UNARY_NONE && fn != UNARY_ABS && fn != UNARY_NEG && fn != UNARY_SIGN &&
			 fn != UNARY_RELU && fn != UNARY_CLIP : fn == UNARY_NOT))
			continue;
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
			for (uint8_t lead = DEVICE_LEAD_NONE; lead <= DEVICE_LEAD_ROWS; lead++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_UNARY, .fn = fn, .f = {0.5, 1.5}}, .inputs_count = 1};

				if (fn == UNARY_CLIP && integer)
					c.op.f[0] = -2, c.op.f[1] = 3;
				c.tensors[0] = tensor(type, lead, shapes[s]);
				c.tensors[1] = tensor(tests ? DEVICE_BOOL : type, lead, shapes[s]);
				fine = compare(c, values, fn == UNARY_TAN ? 1e3 : 1) && fine;
			}
		tap_ok(fine, "unary function %d of %s", fn, type_names[type]);
	}
}

static void
test_binary(uint8_t type)
{
	static const char *const shapes[][3] = {
		{"7", "7", "7"}, {"3,5", "5", "3,5"}, {"3,5", "3,1", "3,5"}, {"1,4", "3,1", "3,4"},
		{"", "6", "6"}, {"33", "1", "33"}, {"2,3,4", "3,1", "2,3,4"}, {"4,1,2", "1,3,1", "4,3,2"}, {"0", "1", "0"}
	};

	for (uint16_t fn = BINARY_ADD; fn < BINARY_FUNCTIONS; fn++)
	{
		bool		fine = true;
		bool		logic = fn >= BINARY_AND && fn <= BINARY_XOR;
		bool		bits = fn >= BINARY_BIT_AND;
		bool		integer = type == DEVICE_I32 || type == DEVICE_I64;
		enum values values = fn == BINARY_DIV || fn == BINARY_POW || fn == BINARY_MOD || fn == BINARY_FMOD
			? VALUES_POSITIVE : VALUES_ANY;

		if (type == DEVICE_BOOL ? !logic && fn != BINARY_EQUAL : logic || (bits && !integer))
			continue;
		if (integer && fn == BINARY_POW)
			values = VALUES_SMALL;
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
			for (int leads = 0; leads < 4; leads++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_BINARY, .fn = fn}, .inputs_count = 2};

				c.tensors[0] = tensor(type, leads & 1, shapes[s][0]);
				c.tensors[1] = tensor(type, leads >> 1, shapes[s][1]);
				c.tensors[2] = tensor(fn >= BINARY_EQUAL && !bits ? DEVICE_BOOL : type, lead_of(c.tensors, 2), shapes[s][2]);
				fine = compare(c, values, fn == BINARY_POW || fn == BINARY_MOD ? 10 : 1) && fine;
			}
		tap_ok(fine, "binary function %d of %s", fn, type_names[type]);
	}
}

static void
test_where(uint8_t type)
{
	static const char *const shapes[][4] = {
		{"5", "5", "5", "5"}, {"3,1", "4", "1", "3,4"}, {"", "2,3", "3", "2,3"}, {"2,3", "", "", "2,3"}
	};
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (int leads = 0; leads < 8; leads++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_WHERE}, .inputs_count = 3};

			c.tensors[0] = tensor(DEVICE_BOOL, leads & 1, shapes[s][0]);
			c.tensors[1] = tensor(type, leads >> 1 & 1, shapes[s][1]);
			c.tensors[2] = tensor(type, leads >> 2, shapes[s][2]);
			c.tensors[3] = tensor(type, lead_of(c.tensors, 3), shapes[s][3]);
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	tap_ok(fine, "where of %s", type_names[type]);
}

static void
test_cast(uint8_t from)
{
	bool		fine = true;

	for (uint8_t to = DEVICE_F32; to <= DEVICE_BOOL; to++)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_CAST}, .inputs_count = 1};

		c.tensors[0] = tensor(from, DEVICE_LEAD_ROWS, "3,7");
		c.tensors[1] = tensor(to, DEVICE_LEAD_ROWS, "3,7");
		fine = compare(c, VALUES_ANY, 1) && fine;
	}
	tap_ok(fine, "cast from %s to every number", type_names[from]);
}

static void
test_products(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		k;
		int64_t		n;
		const char *y;
		const char *b;				/* NULL: none */
		uint16_t	fn;
	}			gemms[] = {
		{"5", 5, 3, "3", NULL, UNARY_NONE}, {"1,5", 5, 3, "1,3", "3", UNARY_NONE},
		{"4,17", 17, 40, "4,40", "40", UNARY_RELU}, {"2,3,9", 9, 33, "2,3,33", "1", UNARY_SIGMOID},
		{"8,20", 20, 64, "8,64", "", UNARY_TANH}, {"15,31", 31, 70, "15,70", "70", UNARY_LEAKY_RELU},
		{"3", 3, 1, "1", "1", UNARY_NONE}, {"0", 0, 4, "4", "4", UNARY_NONE}, {"3,2", 2, 130, "3,130", "130", UNARY_NONE}
	};
	static const char *const matmuls[][3] = {
		{"3,4", "4,5", "3,5"}, {"2,3,4", "4,5", "2,3,5"}, {"2,1,3,4", "3,4,35", "2,3,3,35"},
		{"1,7", "7,1", "1,1"}, {"9,40", "40,33", "9,33"}
	};
	bool		fine = true;

	if (type == DEVICE_F32 || type == DEVICE_F64)
	{
		for (size_t g = 0; g < sizeof(gemms) / sizeof(*gemms); g++)
			for (int transposed = 0; transposed < 2; transposed++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_GEMM, .fn = gemms[g].fn, .f = {0.5, 1.5}}};
				int64_t		k = gemms[g].k;
				int64_t		n = gemms[g].n;
				void	   *w = case_alloc((size_t) (k * n) * 8);

				for (int64_t i = 0; i < k * n; i++)
					element_set(type, w, (size_t) i, value(VALUES_UNIT, type, 0));
				c.weight = (struct device_weight_desc) {type, k, n, transposed ? 1 : n, transposed ? k : 1, w};
				c.tensors[c.inputs_count++] = tensor(type, DEVICE_LEAD_ROWS, gemms[g].x);
				if (gemms[g].b != NULL)
					c.tensors[c.inputs_count++] = tensor(type, DEVICE_LEAD_NONE, gemms[g].b);
				c.tensors[c.inputs_count] = tensor(type, DEVICE_LEAD_ROWS, gemms[g].y);
				fine = compare(c, VALUES_UNIT, 10) && fine;
				free(w);
			}
		tap_ok(fine, "gemm of %s", type_names[type]);
	}
	fine = true;
	for (size_t m = 0; m < sizeof(matmuls) / sizeof(*matmuls); m++)
		for (int leads = 0; leads < 4; leads++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_MATMUL}, .inputs_count = 2};

			c.tensors[0] = tensor(type, leads & 1, matmuls[m][0]);
			c.tensors[1] = tensor(type, leads >> 1, matmuls[m][1]);
			c.tensors[2] = tensor(type, lead_of(c.tensors, 2), matmuls[m][2]);
			fine = compare(c, VALUES_UNIT, 10) && fine;
		}
	tap_ok(fine, "matmul of %s", type_names[type]);
}

static void
test_layout(uint8_t type)
{
	static const struct
	{
		const char *x;
		const char *y;
		int64_t		i[5];
	}			copies[] = {
		{"2,3", "3,2", {0, 1, 3}},		/* transpose */
		{"2,3,4", "4,3,2", {0, 1, 4, 12}},
		{"6", "2,3", {0, 3, 1}},		/* reshape */
		{"10", "4", {1, 2}},			/* slice */
		{"5", "5", {4, -1}},			/* flip */
		{"3", "4,3", {0, 0, 1}},		/* expand */
		{"7", "", {3}},
		{"2,3,4", "2,4", {4, 12, 1}}, {"0", "0", {0, 1}}
	};
	bool		fine = true;

	for (size_t n = 0; n < sizeof(copies) / sizeof(*copies); n++)
		for (uint8_t lead = DEVICE_LEAD_NONE; lead <= DEVICE_LEAD_ROWS; lead++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_COPY}, .inputs_count = 1};

			memcpy(c.op.i, copies[n].i, sizeof(copies[n].i));
			c.tensors[0] = tensor(type, lead, copies[n].x);
			c.tensors[1] = tensor(type, lead, copies[n].y);
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	tap_ok(fine, "copy of %s", type_names[type]);

	fine = true;
	for (int leads = 0; leads < 8; leads++)
		for (int axis = 0; axis < 2; axis++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_CONCAT, .i = {axis}}, .inputs_count = 3};

			c.tensors[0] = tensor(type, leads & 1, axis ? "2,3" : "3,2");
			c.tensors[1] = tensor(type, leads >> 1 & 1, axis ? "2,0" : "0,2");
			c.tensors[2] = tensor(type, leads >> 2, axis ? "2,4" : "4,2");
			c.tensors[3] = tensor(type, lead_of(c.tensors, 3), axis ? "2,7" : "7,2");
			fine = compare(c, VALUES_ANY, 1) && fine;
		}
	tap_ok(fine, "concat of %s", type_names[type]);

	fine = true;
	for (int leads = 0; leads < 4; leads++)
		for (int axis = 0; axis < 2; axis++)
			for (int wide = 0; wide < 2; wide++)
			{
				struct op_case c = {.op = {.op = DEVICE_OP_GATHER, .i = {axis}}, .inputs_count = 2};

				c.tensors[0] = tensor(type, leads & 1, axis ? "2,3" : "3,4");
				c.tensors[1] = tensor(wide ? DEVICE_I64 : DEVICE_I32, leads >> 1, "2,2");
				c.tensors[2] = tensor(type, lead_of(c.tensors, 2), axis ? "2,2,2" : "2,2,4");
				fine = compare(c, VALUES_INDEX, 1) && fine;
			}
	tap_ok(fine, "gather of %s", type_names[type]);
}

static void
test_reduce(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		axes;
		const char *y;
	}			shapes[] = {
		{"7", 1, "1"}, {"50", 1, "1"}, {"3,5", 2, "3"}, {"3,5", 1, "5"}, {"3,5", 3, ""}, {"2,3,4", 5, "3"},
		{"2,3,4", 2, "2,4"}, {"4", 0, "4"}, {"1,3,1", 5, "3"}, {"600,2", 1, "2"}
	};
	bool		integer = type != DEVICE_F32 && type != DEVICE_F64;

	for (uint16_t fn = REDUCE_SUM; fn < REDUCE_FUNCTIONS; fn++)
	{
		bool		fine = true;

		if (type == DEVICE_BOOL && fn != REDUCE_MAX && fn != REDUCE_MIN)
			continue;
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_REDUCE, .fn = fn, .i = {shapes[s].axes}}, .inputs_count = 1};
			bool		many = strcmp(shapes[s].x, "600,2") == 0 || strcmp(shapes[s].x, "50") == 0;

			if (fn == REDUCE_PROD && many)
				continue;
			c.tensors[0] = tensor(type, DEVICE_LEAD_ROWS, shapes[s].x);
			c.tensors[1] = tensor(type, DEVICE_LEAD_ROWS, shapes[s].y);
			fine = compare(c, integer && fn == REDUCE_PROD ? VALUES_SMALL :
						   fn == REDUCE_LOG_SUM || integer ? VALUES_POSITIVE : VALUES_ANY, 20) && fine;
		}
		tap_ok(fine, "reduce function %d of %s", fn, type_names[type]);
	}
}

static void
test_vectors(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		axis;
		int64_t		joined;
		const char *arg;			/* shape of ARG's output, or NULL */
	}			shapes[] = {
		{"7", 0, 0, ""}, {"40", 0, 0, "1"}, {"3,5", 1, 0, "3"}, {"3,5", 0, 0, "5"}, {"2,3,4", 1, 0, "2,4"},
		{"2,3,4", 1, 1, NULL}, {"2,3,4", 0, 2, NULL}, {"1", 0, 0, ""}
	};
	bool		floating = type == DEVICE_F32 || type == DEVICE_F64;
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct op_case c = {.op = {.i = {shapes[s].axis, shapes[s].joined}}, .inputs_count = 1};

		c.tensors[0] = tensor(type, DEVICE_LEAD_ROWS, shapes[s].x);
		c.tensors[1] = c.tensors[0];
		c.op.op = DEVICE_OP_SOFTMAX;
		for (c.op.fn = SOFTMAX_PLAIN; floating && c.op.fn <= SOFTMAX_ZERO; c.op.fn++)
			fine = compare(c, VALUES_ANY, 4) && fine;
		c.op.op = DEVICE_OP_NORMALIZE;
		for (c.op.fn = NORMALIZE_MAX; floating && c.op.fn <= NORMALIZE_L2; c.op.fn++)
			fine = compare(c, c.op.fn == NORMALIZE_MAX ? VALUES_POSITIVE : VALUES_ANY, 4) && fine;
		if (shapes[s].arg == NULL)
			continue;
		c.op.op = DEVICE_OP_ARG;
		c.tensors[1] = tensor(DEVICE_I64, DEVICE_LEAD_ROWS, shapes[s].arg);
		for (c.op.fn = ARG_MAX; c.op.fn <= ARG_MIN; c.op.fn++)
			for (c.op.i[2] = 0; c.op.i[2] < 2; c.op.i[2]++)
				fine = compare(c, VALUES_ANY, 1) && fine;
	}
	tap_ok(fine, "softmax, normalize, arg of %s", type_names[type]);
}

static void
test_order(uint8_t type)
{
	static const struct
	{
		const char *x;
		int64_t		axis;
		const char *top;			/* shape of TOPK's output */
	}			shapes[] = {{"7", 0, "3"}, {"40", 0, "40"}, {"3,5", 0, "1,5"}, {"2,9,4", 1, "2,4,4"}, {"5", 0, "0"}, {"0", 0, "0"}};
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_CUMSUM, .i = {shapes[s].axis}}, .inputs_count = 1};

		c.tensors[0] = c.tensors[1] = tensor(type, DEVICE_LEAD_ROWS, shapes[s].x);
		for (int form = 0; form < 4; form++)
		{
			c.op.i[1] = form & 1;
			c.op.i[2] = form >> 1;
			fine = compare(c, VALUES_ANY, 20) && fine;
		}
		c.op = (struct device_op) {.op = DEVICE_OP_TOPK, .i = {shapes[s].axis}};
		c.tensors[1] = tensor(DEVICE_I64, DEVICE_LEAD_ROWS, shapes[s].top);
		for (c.op.fn = TOPK_LARGEST; c.op.fn <= TOPK_SMALLEST; c.op.fn++)
			fine = compare(c, VALUES_ANY, 1) && fine;
	}
	tap_ok(fine, "cumulative sum, top k of %s", type_names[type]);
}

static void
test_places(uint8_t type)
{
	bool		fine = true;

	for (uint8_t leads = 0; leads < 8; leads++)
		for (uint16_t fn = SCATTER_SET; fn <= (type == DEVICE_BOOL ? SCATTER_SET : SCATTER_MIN); fn++)
		{
			struct op_case c = {.op = {.op = DEVICE_OP_SCATTER, .fn = fn}, .inputs_count = 3};

			c.tensors[0] = tensor(type, leads & 1, "3,5");
			c.tensors[1] = tensor(DEVICE_I64, leads >> 1 & 1, "4");
			c.tensors[2] = tensor(type, leads >> 2 & 1, "4,5");
			c.tensors[3] = tensor(type, lead_of(c.tensors, 3), "3,5");
			fine = compare(c, VALUES_PLACE, 1) && fine;
		}
	tap_ok(fine, "scatter of %s", type_names[type]);
	if (type == DEVICE_I32 || type == DEVICE_I64)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_OFFSET, .i = {13, 12, 14}}, .inputs_count = 1};

		c.op.i[DEVICE_RANK_MAX] = 2;
		c.tensors[0] = tensor(type, DEVICE_LEAD_ROWS, "4,5,3");
		c.tensors[1] = tensor(DEVICE_I64, DEVICE_LEAD_ROWS, "4,5");
		tap_ok(compare(c, VALUES_ANY, 1), "offset of %s", type_names[type]);
	}
}

static void
test_distance(uint8_t type)
{
	static const char *const shapes[][3] = {{"1", "1,1", "1"}, {"7", "5,7", "5"}, {"2,33", "3,33", "2,3"}, {"4", "0,4", "0"}, {"0", "2,0", "2"}};
	bool		fine = true;

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
	{
		struct op_case c = {.op = {.op = DEVICE_OP_DISTANCE}, .inputs_count = 2};

		c.tensors[0] = tensor(type, DEVICE_LEAD_ROWS, shapes[s][0]);
		c.tensors[1] = tensor(type, DEVICE_LEAD_NONE, shapes[s][1]);
		c.tensors[2] = tensor(type, DEVICE_LEAD_ROWS, shapes[s][2]);
		fine = compare(c, VALUES_ANY, 4) && fine;
	}
	tap_ok(fine, "distance of %s", type_names[type]);
}

/* Pairs that agree with probabilities p give p: r(i,j) = p(i) / (p(i) + p(j)), within what a round leaves. */
static void
test_couple(void)
{
	static const float p[2][4] = {{0.4f, 0.3f, 0.2f, 0.1f}, {0.05f, 0.7f, 0.05f, 0.2f}};
	float		pairs[2][6];
	float		y[2][4];
	void	   *bindings[2] = {pairs, y};
	struct op_case c = {.op = {.op = DEVICE_OP_COUPLE, .i = {4}}, .inputs_count = 1};
	struct status status;
	bool		fine;

	for (int r = 0; r < 2; r++)
		for (int i = 0, pair = 0; i < 4; i++)
			for (int j = i + 1; j < 4; j++)
				pairs[r][pair++] = p[r][i] / (p[r][i] + p[r][j]);
	c.tensors[0] = tensor(DEVICE_F32, DEVICE_LEAD_ROWS, "6");
	c.tensors[1] = tensor(DEVICE_F32, DEVICE_LEAD_ROWS, "4");
	status_clear(&status);
	fine = case_compile(&c, devices[0]) && case_run(&c, 2, bindings, NULL, &status);
	for (int r = 0; r < 2; r++)
		for (int i = 0; i < 4; i++)
			fine = fine && fabsf(y[r][i] - p[r][i]) < 0.01f;
	tap_ok(fine, "couple finds the probabilities that its pairs agree with");
	case_free(&c);
	c.op.i[0] = 5;
	tap_ok(!case_compile(&c, devices[0]), "couple refuses another number of pairs");
}

int
main(void)
{
	for (int d = 0; d < 3; d++)
	{
		struct device_options options = {.threads = 1, .arch = archs[d]};
		struct status status;

		status_clear(&status);
		devices[d] = device_open("cpu", &options, &status);
		if (devices[d] == NULL)
			tap_skip(archs[d], "not on this processor");
	}
	for (uint8_t type = DEVICE_F32; type <= DEVICE_BOOL; type++)
	{
		test_unary(type);
		test_binary(type);
		test_where(type);
		test_cast(type);
		if (type != DEVICE_BOOL)
		{
			test_products(type);
			test_vectors(type);
			test_order(type);
		}
		if (type == DEVICE_F32 || type == DEVICE_F64)
			test_distance(type);
		test_places(type);
		test_layout(type);
		test_reduce(type);
	}
	test_couple();
	for (int d = 0; d < 3; d++)
		if (devices[d] != NULL)
			devices[d]->ops->close(devices[d]);
	return tap_done();
}
