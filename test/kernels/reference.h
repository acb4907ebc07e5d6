/*
 * reference.h
 *	  Every primitive, naively and in double: what the kernels are compared with.  It follows
 *	  the formulas of device.h and knows nothing of vectors.
 */
#ifndef TEST_KERNELS_REFERENCE_H
#define TEST_KERNELS_REFERENCE_H

#include <math.h>

#include "harness.h"

#define ELEMENTS	16384			/* of an item of a tensor at most */

/* ---- tensors as doubles ---- */

static inline void
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

static inline double
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
static inline int64_t
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

static inline void
unravel(const struct device_tensor *t, int64_t flat, int64_t *index)
{
	for (int d = t->rank - 1; d >= 0; d--)
	{
		index[d] = flat % t->dims[d];
		flat /= t->dims[d];
	}
}

/* ---- the reference ---- */

static inline double
sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static inline double
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

static inline double
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

static inline void
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

static inline void
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

static inline void
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

static inline double
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

static inline void
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
static inline void
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
static inline void
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
static inline void
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

static inline void
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

static inline void
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

#endif							/* TEST_KERNELS_REFERENCE_H */
