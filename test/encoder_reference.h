/*
 * encoder_reference.h
 *	  What an encoder computes, as plainly as it can be said: one text at a time, in double.
 *
 * Shapes: (tokens, width) row-major.
 */
#ifndef TEST_ENCODER_REFERENCE_H
#define TEST_ENCODER_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/transformer/encoder.h"

static inline double
reference_half(uint16_t half)
{
	int			exponent = half >> 10 & 31;
	double		value = exponent == 0 ? ldexp(half & 1023, -24) : ldexp(1024 + (half & 1023), exponent - 25);

	return half >> 15 ? -value : value;
}

/* An element of a matrix, or of a vector (column 0), as if it were not transposed. */
static inline double
reference_weight(const struct encoder_tensor *t, int64_t row, int64_t column)
{
	int64_t		width = t->rank == 1 ? 1 : t->dims[1];
	int64_t		i = t->transposed ? column * t->dims[0] + row : row * width + column;
	const uint8_t *data = t->data;
	uint32_t	bits;
	uint16_t	half;
	float		value;

	if (t->storage == ENCODER_F32)
	{
		memcpy(&value, data + 4 * i, sizeof(value));
		return (double) value;
	}
	memcpy(&half, data + 2 * i, sizeof(half));
	if (t->storage == ENCODER_F16)
		return reference_half(half);
	bits = (uint32_t) half << 16;
	memcpy(&value, &bits, sizeof(value));
	return (double) value;
}

static inline void
reference_linear(const struct encoder_linear *linear, const double *x, double *y)
{
	for (int64_t i = 0; i < linear->weight.dims[0]; i++)
	{
		y[i] = linear->bias.storage == ENCODER_ABSENT ? 0 : reference_weight(&linear->bias, i, 0);
		for (int64_t k = 0; k < linear->weight.dims[1]; k++)
			y[i] += reference_weight(&linear->weight, i, k) * x[k];
	}
}

static inline void
reference_norm(const struct encoder_norm *norm, double epsilon, double *x, int64_t width)
{
	double		mean = 0, variance = 0;

	if (norm->weight.storage == ENCODER_ABSENT)
		return;
	for (int64_t i = 0; i < width; i++)
		mean += x[i] / (double) width;
	for (int64_t i = 0; i < width; i++)
		variance += (x[i] - mean) * (x[i] - mean) / (double) width;
	for (int64_t i = 0; i < width; i++)
		x[i] = (x[i] - mean) / sqrt(variance + epsilon) * reference_weight(&norm->weight, i, 0) +
			(norm->bias.storage == ENCODER_ABSENT ? 0 : reference_weight(&norm->bias, i, 0));
}

static inline double
reference_activation(enum encoder_activation activation, double x)
{
	switch (activation)
	{
		case ENCODER_GELU:
			return 0.5 * x * (1 + erf(x * M_SQRT1_2));
		case ENCODER_GELU_TANH:
			return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
		case ENCODER_RELU:
			return x > 0 ? x : 0;
		case ENCODER_SILU:
			return x / (1 + exp(-x));
		case ENCODER_TANH:
			return tanh(x);
		case ENCODER_SIGMOID:
			return 1 / (1 + exp(-x));
		default:
			return x;
	}
}

/* ---- a layer ---- */

/* Turns a head's vector by its place: pairs of numbers, each by its own frequency. */
static inline void
reference_turn(const struct encoder *e, bool local, double *head, int64_t place)
{
	double		theta = local ? e->rotary_theta_local : e->rotary_theta;

	for (int64_t i = 0; i < e->rotary_size / 2; i++)
	{
		int64_t		a = e->rotary_neighbours ? 2 * i : i, b = e->rotary_neighbours ? 2 * i + 1 : i + e->rotary_size / 2;
		double		angle = (double) place * pow(theta, -2.0 * (double) i / (double) e->rotary_size) * e->rotary_scaling;
		double		x = head[a], y = head[b];

		head[a] = x * cos(angle) - y * sin(angle);
		head[b] = y * cos(angle) + x * sin(angle);
	}
}

/* One head of one token: sums the values by the softmax of the scores. */
static inline void
reference_head(const struct encoder *e, bool local, const double *qkv, int64_t tokens, int64_t token, int64_t head, double *out)
{
	int64_t		width = 3 * e->hidden, size = e->head_size, max = e->relative_max;
	double	   *scores = calloc((size_t) tokens, sizeof(double)), highest = -INFINITY, sum = 0;

	for (int64_t k = 0; k < tokens; k++)
	{
		int64_t		far = k - token, bias = far < -max ? -max : far > max ? max : far;

		for (int64_t i = 0; i < size; i++)
			scores[k] += qkv[token * width + head * size + i] * qkv[k * width + e->hidden + head * size + i] * e->attention_scale;
		if (max > 0)
			scores[k] += (double) e->relative_bias[head * (2 * max + 1) + bias + max];
		if (local && llabs(far) > e->local_window)
			scores[k] = -INFINITY;
		highest = scores[k] > highest ? scores[k] : highest;
	}
	for (int64_t k = 0; k < tokens; k++)
		sum += scores[k] = exp(scores[k] - highest);
	memset(out, 0, (size_t) size * sizeof(double));
	for (int64_t k = 0; k < tokens; k++)
		for (int64_t i = 0; i < size; i++)
			out[i] += scores[k] / sum * qkv[k * width + 2 * e->hidden + head * size + i];
	free(scores);
}

/* What is added to the tokens: x is normed already where norms come before. */
static inline void
reference_attention(const struct encoder *e, const struct encoder_layer *layer, const double *x, int64_t tokens, double *out)
{
	int64_t		hidden = e->hidden;
	double	   *qkv = calloc((size_t) (tokens * 3 * hidden), sizeof(double)), *mixed = calloc((size_t) hidden, sizeof(double));

	for (int64_t t = 0; t < tokens; t++)
	{
		double	   *row = qkv + t * 3 * hidden;

		if (layer->qkv.weight.storage != ENCODER_ABSENT)
			reference_linear(&layer->qkv, x + t * hidden, row);
		else
		{
			reference_linear(&layer->query, x + t * hidden, row);
			reference_linear(&layer->key, x + t * hidden, row + hidden);
			reference_linear(&layer->value, x + t * hidden, row + 2 * hidden);
		}
		for (int64_t h = 0; e->positions == ENCODER_POSITIONS_ROTARY && h < 2 * e->heads; h++)
			reference_turn(e, layer->local, row + h * e->head_size, t);
	}
	for (int64_t t = 0; t < tokens; t++)
	{
		for (int64_t h = 0; h < e->heads; h++)
			reference_head(e, layer->local, qkv, tokens, t, h, mixed + h * e->head_size);
		reference_linear(&layer->attention_output, mixed, out + t * hidden);
	}
	free(qkv);
	free(mixed);
}

static inline void
reference_mlp(const struct encoder *e, const struct encoder_layer *layer, const double *x, double *out)
{
	int64_t		inner = e->intermediate;
	double	   *up = calloc((size_t) (2 * inner), sizeof(double)), *a = up, *b = up + inner;

	reference_linear(&layer->up, x, up);
	if (layer->gate.weight.storage != ENCODER_ABSENT)
		reference_linear(&layer->gate, x, up + inner);
	if (layer->gate.weight.storage != ENCODER_ABSENT || e->gate_second)
	{
		a = up + inner;
		b = up;
	}
	for (int64_t i = 0; i < inner; i++)
	{
		a[i] = reference_activation(e->activation, a[i]);
		if (e->gated)
			a[i] *= b[i];
	}
	reference_linear(&layer->down, a, out);
	free(up);
}

static inline void
reference_layer(const struct encoder *e, const struct encoder_layer *layer, double *x, int64_t tokens)
{
	int64_t		hidden = e->hidden, count = tokens * hidden;
	double	   *in = calloc((size_t) count, sizeof(double)), *out = calloc((size_t) count, sizeof(double));

	for (int part = 0; part < 2; part++)
	{
		const struct encoder_norm *norm = part == 0 ? &layer->attention_norm : &layer->mlp_norm;

		memcpy(in, x, (size_t) count * sizeof(double));
		for (int64_t t = 0; e->pre_norm && t < tokens; t++)
			reference_norm(norm, e->norm_epsilon, in + t * hidden, hidden);
		if (part == 0)
			reference_attention(e, layer, in, tokens, out);
		for (int64_t t = 0; part == 1 && t < tokens; t++)
			reference_mlp(e, layer, in + t * hidden, out + t * hidden);
		for (int64_t i = 0; i < count; i++)
			x[i] += out[i];
		for (int64_t t = 0; !e->pre_norm && t < tokens; t++)
			reference_norm(norm, e->norm_epsilon, x + t * hidden, hidden);
	}
	free(in);
	free(out);
}

/* ---- the whole ---- */

/* The last hidden state, (tokens, hidden); types: NULL for all 0.  To be freed. */
static inline double *
reference_hidden(const struct encoder *e, const int32_t *ids, const int32_t *types, int64_t tokens)
{
	double	   *x = calloc((size_t) (tokens * e->hidden), sizeof(double));
	int64_t		counted = 0;

	for (int64_t t = 0; t < tokens; t++)
	{
		int64_t		place = ids[t] == e->position_padding ? e->position_first - 1 : e->position_first + counted++;

		for (int64_t i = 0; i < e->hidden; i++)
		{
			double	   *cell = &x[t * e->hidden + i];

			*cell = reference_weight(&e->words, ids[t], i);
			if (e->positions == ENCODER_POSITIONS_ABSOLUTE)
				*cell += reference_weight(&e->position_table, place, i);
			if (e->types.storage != ENCODER_ABSENT)
				*cell += reference_weight(&e->types, types != NULL && e->types_used ? types[t] : 0, i);
		}
		reference_norm(&e->embedding_norm, e->norm_epsilon, x + t * e->hidden, e->hidden);
	}
	for (uint32_t l = 0; l < e->layers_count; l++)
		reference_layer(e, &e->layers[l], x, tokens);
	for (int64_t t = 0; t < tokens; t++)
		reference_norm(&e->final_norm, e->norm_epsilon, x + t * e->hidden, e->hidden);
	return x;
}

static inline void
reference_pool_one(const struct encoder *e, enum encoder_pooling pooling, const double *x, int64_t first, int64_t tokens,
				   double *out)
{
	for (int64_t i = 0; i < e->hidden; i++)
	{
		double		sum = 0, weighted = 0, weights = 0, highest = -INFINITY;

		for (int64_t t = first; t < tokens; t++)
		{
			sum += x[t * e->hidden + i];
			weighted += (double) (t + 1) * x[t * e->hidden + i];
			weights += (double) (t + 1);
			highest = fmax(highest, x[t * e->hidden + i]);
		}
		out[i] = pooling == ENCODER_POOL_CLS ? x[i] : pooling == ENCODER_POOL_LAST ? x[(tokens - 1) * e->hidden + i] :
			pooling == ENCODER_POOL_WEIGHTED_MEAN ? weighted / weights :
			pooling == ENCODER_POOL_MAX ? highest : pooling == ENCODER_POOL_MEAN ? sum / (double) (tokens - first) : sum / sqrt((double) (tokens - first));
	}
}

/* All of them, of the tokens from the first one on, one behind the other; the width. */
static inline int64_t
reference_pool(const struct encoder *e, const double *x, int64_t first, int64_t tokens, double *out)
{
	reference_pool_one(e, e->pooling, x, first, tokens, out);
	for (uint32_t i = 0; i < e->more_count; i++)
		reference_pool_one(e, e->more[i], x, first, tokens, out + (i + 1) * e->hidden);
	return e->hidden * (e->more_count + 1);
}

/* The head on one vector, of any width up to 65536; the result's width.  out must have room. */
static inline int64_t
reference_head_on(const struct encoder *e, const double *vector, int64_t width, double *out)
{
	double	   *next = calloc(65536, sizeof(double)), length = 0;

	memcpy(out, vector, (size_t) width * sizeof(double));
	for (uint32_t d = 0; d < e->denses_count; d++)
	{
		const struct encoder_dense *dense = &e->denses[d];

		reference_linear(&dense->linear, out, next);
		width = dense->linear.weight.dims[0];
		for (int64_t i = 0; i < width; i++)
			out[i] = reference_activation(dense->activation, next[i]);
		reference_norm(&dense->norm, dense->norm_epsilon, out, width);
	}
	if (e->output.weight.storage != ENCODER_ABSENT)
	{
		reference_linear(&e->output, out, next);
		width = e->output.weight.dims[0];
		memcpy(out, next, (size_t) width * sizeof(double));
	}
	for (int64_t i = 0; i < width; i++)
		length += out[i] * out[i];
	for (int64_t i = 0; e->normalize && i < width; i++)
		out[i] /= fmax(sqrt(length), 1e-12);
	free(next);
	return width;
}

#endif							/* TEST_ENCODER_REFERENCE_H */
