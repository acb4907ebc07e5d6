/*
 * scalar.c
 *	  Products in bf16 and int8 and their conversions, one element at a time: the reference,
 *	  and what runs where no other instruction set is supported.
 */
#include "narrow.h"


#include "../../../device.h"
#include "exact.h"

#define PANEL			16
#define ROWS			4

/* ---- bf16 ---- */

static void
bf16_product(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	int64_t		n1 = p1 * PANEL < p->n ? p1 * PANEL : p->n;

	for (int64_t m = m0; m < m1; m++)
		for (int64_t n = p0 * PANEL; n < n1; n++)
		{
			const uint8_t *x = p->x + m * p->x_step;
			const uint8_t *b = p->b + n / PANEL * p->b_panel + n % PANEL * NARROW_GROUP;
			float		sum = 0;

			for (int64_t k = 0; k < p->k; k += 2, x += NARROW_GROUP, b += PANEL * NARROW_GROUP)
			{
				sum = exact_multiply_add(k + 1 < p->k ? exact_bf16_at(x + 2) : 0, exact_bf16_at(b + 2), sum);
				sum = exact_multiply_add(exact_bf16_at(x), exact_bf16_at(b), sum);
			}
			if (p->bias != NULL)
				sum += p->bias[n * p->bias_step];
			p->y[(m - m0) * p->y_step + n - p0 * PANEL] = exact_canonical(sum);
		}
}

/* ---- int8 ---- */

static void
int8_product(const struct cpu_narrow_product *p, int64_t m0, int64_t m1, int64_t p0, int64_t p1)
{
	int64_t		n1 = p1 * PANEL < p->n ? p1 * PANEL : p->n;

	for (int64_t m = m0; m < m1; m++)
		for (int64_t n = p0 * PANEL; n < n1; n++)
		{
			const uint8_t *x = p->x + m * p->x_step;
			const int8_t *b = (const int8_t *) p->b + n / PANEL * p->b_panel + n % PANEL * NARROW_GROUP;
			int32_t		sum = 0;
			float		scale;
			float		y;

			for (int64_t k = 0; k < p->k; k++)
				sum += (x[k] - DEVICE_Q8_ZERO) * b[k / NARROW_GROUP * PANEL * NARROW_GROUP + k % NARROW_GROUP];
			memcpy(&scale, x + p->k, sizeof(scale));
			y = fmaf((float) sum * scale, p->scales[n], p->bias != NULL ? p->bias[n * p->bias_step] : -0.0f);
			p->y[(m - m0) * p->y_step + n - p0 * PANEL] = exact_canonical(y);
		}
}

/* ---- conversions ---- */

static void
bf16_of_f32(const float *x, uint16_t *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = half_bf16_of_f32(x[i]);
}

static void
f32_of_bf16(const uint16_t *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = half_f32_of_bf16(x[i]);
}

static void
f32_of_f16(const uint16_t *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = half_f32_of_f16(x[i]);
}

static void
quantise(const float *x, uint8_t *y, int64_t n)
{
	float		most = 0;
	float		factor;
	float		scale;

	for (int64_t i = 0; i < n; i++)
		if (!(fabsf(x[i]) <= most))
			most = fabsf(x[i]) <= FLT_MAX ? fabsf(x[i]) : INFINITY;
	cpu_q8_scale(most, &factor, &scale);
	for (int64_t i = 0; i < n; i++)
		y[i] = factor == 0 ? DEVICE_Q8_ZERO : (uint8_t) (DEVICE_Q8_ZERO + (int) rintf(x[i] * factor));
	memcpy(y + n, &scale, sizeof(scale));
}

const struct cpu_narrow_kernels cpu_bf16_scalar = {
	.name = "scalar", .panel = PANEL, .rows = ROWS, .rows_step = 1, .fill = 2, .product = bf16_product
};

const struct cpu_narrow_kernels cpu_int8_scalar = {
	.name = "scalar", .panel = PANEL, .rows = ROWS, .rows_step = 1, .fill = 4, .product = int8_product
};

const struct cpu_narrow_casts cpu_casts_scalar = {
	.bf16_of_f32 = bf16_of_f32, .f32_of_bf16 = f32_of_bf16, .f32_of_f16 = f32_of_f16, .quantise = quantise
};
