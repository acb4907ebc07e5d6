/*
 * vectors.c
 *	  CUMSUM, TOPK, DISTANCE and COUPLE: vectors of one item's elements that become vectors.
 *
 * A unit is one such vector (DISTANCE: one element of the output).  None depends on an
 * instruction set but DISTANCE, which is a difference and a reduction of kernels.h.
 */
#include "ops.h"

#include <math.h>
#include <string.h>

#define NEVER(v)	false

/* Where unit u's vector of length elements, plan->after apart, begins. */
static int64_t
vector_start(const struct cpu_plan *plan, uint64_t u, int64_t length)
{
	return (int64_t) (u / (uint64_t) plan->after) * length * plan->after + (int64_t) (u % (uint64_t) plan->after);
}

#define CUMSUM_VECTOR(T, U, is_nan, NOT_A_NUMBER) \
	do { \
		const T    *v = (const T *) x + start; \
		T		   *to = (T *) y + start; \
		U			sum = 0; \
		for (int64_t i = 0; i < plan->axis; i++) \
		{ \
			int64_t		at = (reverse ? plan->axis - 1 - i : i) * plan->after; \
			U			before = sum; \
			sum += (U) v[at]; \
			if (is_nan(sum)) \
				sum = NOT_A_NUMBER; \
			to[at] = (T) (exclusive ? before : sum); \
		} \
	} while (0)

void
cpu_run_cumsum(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const void *x = cpu_address(run, &plan->inputs[0]);
	void	   *y = cpu_address(run, &plan->output);
	bool		exclusive = plan->i[1] != 0;
	bool		reverse = plan->i[2] != 0;

	for (uint64_t u = first; u < last; u++)
	{
		int64_t		start = vector_start(plan, u, plan->axis);

		switch (plan->type)
		{
			case DEVICE_F32:
				CUMSUM_VECTOR(float, float, isnan, __builtin_nanf(""));
				break;
			case DEVICE_F64:
				CUMSUM_VECTOR(double, double, isnan, __builtin_nan(""));
				break;
			case DEVICE_I32:
				CUMSUM_VECTOR(int32_t, uint32_t, NEVER, 0);
				break;
			case DEVICE_I64:
				CUMSUM_VECTOR(int64_t, uint64_t, NEVER, 0);
				break;
		}
	}
}

/* ---- TOPK ---- */

/* Whether place a comes before place b: a total order, so that the result is one. */
#define PRECEDES(T, is_nan) \
	do { \
		T			va = ((const T *) v)[a * step]; \
		T			vb = ((const T *) v)[b * step]; \
		if (is_nan(va) || is_nan(vb)) \
		{ \
			if ((is_nan(va) != 0) != (is_nan(vb) != 0)) \
				return (is_nan(va) != 0) == largest; \
		} \
		else if (va != vb) \
			return largest ? va > vb : va < vb; \
		return a < b; \
	} while (0)

static bool
precedes(uint8_t type, bool largest, const void *v, int64_t step, int64_t a, int64_t b)
{
	switch (type)
	{
		case DEVICE_F32:
			PRECEDES(float, isnan);
		case DEVICE_F64:
			PRECEDES(double, isnan);
		case DEVICE_I32:
			PRECEDES(int32_t, NEVER);
		default:
			PRECEDES(int64_t, NEVER);
	}
}

/* Restores a heap of places whose root comes last, from node at downwards. */
static void
sift(uint8_t type, bool largest, const void *v, int64_t step, int64_t *heap, int64_t count, int64_t at)
{
	for (;;)
	{
		int64_t		child = 2 * at + 1;
		int64_t		place = heap[at];

		if (child >= count)
			return;
		if (child + 1 < count && precedes(type, largest, v, step, heap[child], heap[child + 1]))
			child++;
		if (!precedes(type, largest, v, step, place, heap[child]))
			return;
		heap[at] = heap[child];
		heap[child] = place;
		at = child;
	}
}

void
cpu_run_topk(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			 uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	int64_t    *y = cpu_address(run, &plan->output);
	int64_t    *heap = cpu_scratch(run, thread);
	bool		largest = plan->fn == TOPK_LARGEST;

	for (uint64_t u = first; u < last && plan->k > 0; u++)
	{
		const void *v = x + vector_start(plan, u, plan->axis) * (int64_t) bytes;
		int64_t    *to = y + vector_start(plan, u, plan->k);

		for (int64_t i = 0; i < plan->k; i++)
			heap[i] = i;
		for (int64_t i = plan->k / 2; i-- > 0;)
			sift(plan->type, largest, v, plan->after, heap, plan->k, i);
		for (int64_t i = plan->k; i < plan->axis; i++)
			if (precedes(plan->type, largest, v, plan->after, i, heap[0]))
			{
				heap[0] = i;
				sift(plan->type, largest, v, plan->after, heap, plan->k, 0);
			}
		for (int64_t left = plan->k; left-- > 0;)
		{
			to[left * plan->after] = heap[0];
			heap[0] = heap[left];
			sift(plan->type, largest, v, plan->after, heap, left, 0);
		}
	}
}

/* ---- DISTANCE ---- */

void
cpu_run_distance(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
				 uint64_t last, int thread)
{
	size_t		bytes = device_type_bytes(plan->type);
	const uint8_t *x = cpu_address(run, &plan->inputs[0]);
	const uint8_t *points = cpu_address(run, &plan->inputs[1]);
	uint8_t    *y = cpu_address(run, &plan->output);
	uint8_t    *difference = cpu_scratch(run, thread);
	uint8_t		state[CPU_REDUCE_LANES * 8] __attribute__((aligned(64)));

	for (uint64_t u = first; u < last; u++)
	{
		const uint8_t *from = x + u / (uint64_t) plan->n * (uint64_t) plan->axis * bytes;
		const uint8_t *point = points + u % (uint64_t) plan->n * (uint64_t) plan->axis * bytes;

		plan->kernels->binary(BINARY_SUB, from, 1, point, 1, difference, plan->axis);
		plan->kernels->reduce_start(REDUCE_SUM_SQUARE, state);
		plan->kernels->reduce_add(REDUCE_SUM_SQUARE, 0, difference, plan->axis, state);
		plan->kernels->reduce_finish(REDUCE_SUM_SQUARE, 0, plan->axis, state, y + u * bytes);
	}
}

/* ---- COUPLE ---- */

/* The matrix of Wu, Lin and Weng's quadratic form, from the pairs' probabilities in order. */
static void
couple_matrix(const float *pairs, int64_t n, float *q)
{
	memset(q, 0, (size_t) (n * n) * sizeof(*q));
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = i + 1; j < n; j++)
		{
			float		r = *pairs++;
			float		s = 1 - r;

			q[i * n + i] += s * s;
			q[j * n + j] += r * r;
			q[i * n + j] = q[j * n + i] = -s * r;
		}
}

/* q · p into qp, and p · q · p. */
static float
couple_products(const float *q, const float *p, int64_t n, float *qp)
{
	float		pqp = 0;

	for (int64_t i = 0; i < n; i++)
	{
		qp[i] = 0;
		for (int64_t j = 0; j < n; j++)
			qp[i] += q[i * n + j] * p[j];
		pqp += p[i] * qp[i];
	}
	return pqp;
}

static void
couple(const float *pairs, int64_t n, float *p, float *q, float *qp)
{
	couple_matrix(pairs, n, q);
	for (int64_t i = 0; i < n; i++)
		p[i] = 1.0f / (float) n;
	for (int round = 0; round < 100; round++)
	{
		float		pqp = couple_products(q, p, n, qp);
		float		worst = 0;

		for (int64_t i = 0; i < n; i++)
			worst = fabsf(qp[i] - pqp) > worst ? fabsf(qp[i] - pqp) : worst;
		if (worst < 0.005f / (float) n)
			break;
		for (int64_t i = 0; i < n; i++)
		{
			float		step = (pqp - qp[i]) / q[i * n + i];

			p[i] += step;
			pqp = (pqp + step * (step * q[i * n + i] + 2 * qp[i])) / (1 + step) / (1 + step);
			for (int64_t j = 0; j < n; j++)
			{
				qp[j] = (qp[j] + step * q[i * n + j]) / (1 + step);
				p[j] /= 1 + step;
			}
		}
	}
}

void
cpu_run_couple(const struct cpu_plan *plan, const struct cpu_run *run, uint64_t first,
			   uint64_t last, int thread)
{
	const float *x = cpu_address(run, &plan->inputs[0]);
	float	   *y = cpu_address(run, &plan->output);
	float	   *q = cpu_scratch(run, thread);

	for (uint64_t u = first; u < last; u++)
	{
		float	   *p = y + u * (uint64_t) plan->n;

		couple(x + u * (uint64_t) plan->axis, plan->n, p, q, q + plan->n * plan->n);
		for (int64_t i = 0; i < plan->n; i++)
			if (isnan(p[i]))
				p[i] = __builtin_nanf("");
	}
}
