/*
 * layers.c
 *	  The layers of an encoder: attention, then the two or three products of the MLP, each
 *	  added to what came in, with the norm before or behind.
 *
 * Where pooling takes one token of a text, nobody reads what the last layer makes of the others: behind
 * its attention, which needs them all, only that token goes on.  The same numbers by the same
 * operations, of fewer tokens.
 */
#include "emit.h"

#include <math.h>
#include <string.h>

#include "../../protocol/protocol.h"

struct layers
{
	struct emitter *e;
	int32_t		rotary[2];			/* tables of layers that see all, and of local ones; -1 */
	int32_t		relative;			/* what is added by distance, or -1 */
	bool		single;				/* pooling takes one token */
};

/* ---- tables ---- */

/*
 * cos and sin of each place's angles, as the reference computes them: frequencies and angles
 * in single precision (Su et al., RoFormer, 2021, equation 15).
 */
static int32_t
rotary_table(struct emitter *e, double theta)
{
	int64_t		half = e->encoder->rotary_size / 2;
	int64_t		dims[2] = {e->encoder->tokens_max, e->encoder->rotary_size};
	float	   *table = graph_block(e->memory, (uint64_t) dims[0] * (uint64_t) dims[1] * sizeof(*table));

	if (table == NULL)
		return -1;
	for (int64_t i = 0; i < half; i++)
	{
		float		frequency = 1.0f / (float) pow(theta, (float) (2 * i) / (float) e->encoder->rotary_size) *
			(float) e->encoder->rotary_scaling;

		for (int64_t place = 0; place < dims[0]; place++)
		{
			float		angle = (float) place * frequency;

			table[place * dims[1] + i] = (float) cos(angle);
			table[place * dims[1] + half + i] = (float) sin(angle);
		}
	}
	return emit_constant(e, DEVICE_F32, 2, dims, table);
}

static int32_t
relative_table(struct emitter *e)
{
	int64_t		dims[2] = {e->encoder->heads, 2 * e->encoder->relative_max + 1};
	uint64_t	bytes = (uint64_t) dims[0] * (uint64_t) dims[1] * sizeof(float);
	float	   *table = graph_block(e->memory, bytes);

	if (table == NULL)
		return -1;
	memcpy(table, e->encoder->relative_bias, bytes);
	return emit_constant(e, DEVICE_F32, 2, dims, table);
}

static void
make_tables(struct layers *layers)
{
	struct emitter *e = layers->e;
	const struct encoder *encoder = e->encoder;
	bool		seen[2] = {false, false};

	layers->rotary[0] = layers->rotary[1] = layers->relative = -1;
	for (uint32_t i = 0; i < encoder->layers_count; i++)
		seen[encoder->layers[i].local] = true;
	if (encoder->positions == ENCODER_POSITIONS_ROTARY)
	{
		if (seen[0])
			layers->rotary[0] = rotary_table(e, encoder->rotary_theta);
		if (seen[1])
			layers->rotary[1] = seen[0] && encoder->rotary_theta_local == encoder->rotary_theta ? layers->rotary[0] :
				rotary_table(e, encoder->rotary_theta_local);
	}
	if (encoder->relative_max > 0)
		layers->relative = relative_table(e);
}

/* ---- attention ---- */

static int32_t
emit_rotary(struct layers *layers, int32_t x, bool local)
{
	struct emitter *e = layers->e;
	const struct encoder *encoder = e->encoder;
	int32_t		y = emit_vector(e, DEVICE_F32, DEVICE_LEAD_TOKENS, 3 * encoder->hidden);
	struct device_op *op = emit_op(e, DEVICE_OP_ROTARY, 0, 2, (const int32_t[]) {x, layers->rotary[local]}, y);

	if (op != NULL)
	{
		op->i[0] = 2 * encoder->heads;	/* q and k */
		op->i[1] = encoder->head_size;
		op->i[2] = encoder->rotary_size;
		op->i[3] = encoder->rotary_neighbours;
	}
	return y;
}

/* In the type of x. */
static int32_t
emit_attention(struct layers *layers, int32_t x, bool local)
{
	struct emitter *e = layers->e;
	const struct encoder *encoder = e->encoder;
	int32_t		y = emit_vector(e, e->program->tensors[x].type, DEVICE_LEAD_TOKENS, encoder->hidden);
	struct device_op *op = emit_op(e, DEVICE_OP_ATTENTION, 0, 2, (const int32_t[]) {x, layers->relative}, y);

	if (op == NULL)
		return y;
	op->f[0] = encoder->attention_scale;
	op->i[0] = encoder->heads;
	op->i[1] = encoder->head_size;
	op->i[2] = local ? encoder->local_window : 0;
	op->i[3] = encoder->relative_max;
	*(local ? &e->program->work.pair_local : &e->program->work.pair) += 4.0 * (double) encoder->hidden;
	return y;
}

/* Whether heads are to be computed in bf16, as the products around them are, and can be. */
static bool
narrow_heads(const struct layers *layers)
{
	const struct encoder *encoder = layers->e->encoder;
	struct device *device = layers->e->device;
	struct device_tensor tensors[2] = {
		{.type = DEVICE_BF16, .lead = DEVICE_LEAD_TOKENS, .rank = 1, .dims = {3 * encoder->hidden}, .binding = -1},
		{.type = DEVICE_BF16, .lead = DEVICE_LEAD_TOKENS, .rank = 1, .dims = {encoder->hidden}, .binding = -1}
	};
	const int32_t x = 0;
	struct device_op op = {
		.op = DEVICE_OP_ATTENTION, .inputs_count = 1, .inputs = &x, .output = 1, .weight = -1, .node = -1,
		.f = {encoder->attention_scale}, .i = {encoder->heads, encoder->head_size}
	};

	return layers->e->program->precision == DEVICE_PRECISION_BF16 && encoder->positions != ENCODER_POSITIONS_ROTARY &&
		device->ops->supports(device, &op, tensors) != 0;
}

/* *residual: what the result is to be added to; of the same tokens, which may be fewer than x has. */
static int32_t
attention_block(struct layers *layers, const struct encoder_layer *layer, int32_t x, int32_t *residual)
{
	struct emitter *e = layers->e;
	uint8_t		precision = e->program->precision;
	const struct encoder_linear *apart[] = {&layer->query, &layer->key, &layer->value};
	const struct encoder_linear *joined[] = {&layer->qkv};
	const struct encoder_linear *output[] = {&layer->attention_output};
	bool		whole = layer->qkv.weight.storage != ENCODER_ABSENT;

	x = emit_linear(e, x, whole ? joined : apart, whole ? 1 : 3, ENCODER_IDENTITY, precision,
					narrow_heads(layers));
	if (e->encoder->positions == ENCODER_POSITIONS_ROTARY)
		x = emit_rotary(layers, x, layer->local);
	x = emit_attention(layers, x, layer->local);
	if (layers->single && layer == &e->encoder->layers[e->encoder->layers_count - 1])
	{
		x = emit_pool(e, x);
		*residual = emit_pool(e, *residual);
	}
	return emit_linear(e, x, output, 1, ENCODER_IDENTITY, precision, false);
}

/* ---- the MLP ---- */

static int32_t
emit_gate(struct emitter *e, int32_t x, bool second)
{
	int32_t		y = emit_vector(e, DEVICE_F32, e->program->tensors[x].lead, e->encoder->intermediate);
	struct device_op *op;
	uint16_t	fn;
	double		f0;

	emit_activation(e->encoder->activation, &fn, &f0);
	op = emit_op(e, DEVICE_OP_GATE, fn, 1, &x, y);
	if (op != NULL)
	{
		op->f[0] = f0;
		op->i[0] = second;
	}
	return y;
}

static int32_t
mlp_block(struct emitter *e, const struct encoder_layer *layer, int32_t x)
{
	const struct encoder *encoder = e->encoder;
	uint8_t		precision = e->program->precision;
	const struct encoder_linear *gated[] = {&layer->gate, &layer->up};
	const struct encoder_linear *up[] = {&layer->up};
	const struct encoder_linear *down[] = {&layer->down};
	bool		apart = layer->gate.weight.storage != ENCODER_ABSENT;

	if (!encoder->gated)
		x = emit_linear(e, x, up, 1, encoder->activation, precision, true);
	else
	{
		x = emit_linear(e, x, apart ? gated : up, apart ? 2 : 1, ENCODER_IDENTITY, precision, false);
		x = emit_gate(e, x, !apart && encoder->gate_second);
	}
	return emit_linear(e, x, down, 1, ENCODER_IDENTITY, precision, false);
}

/* ---- a layer ---- */

static int32_t
emit_layer(struct layers *layers, uint32_t number, int32_t x)
{
	struct emitter *e = layers->e;
	const struct encoder *encoder = e->encoder;
	const struct encoder_layer *layer = &encoder->layers[number];
	const struct encoder_norm none = {0};
	double		epsilon = encoder->norm_epsilon;
	bool		rms = encoder->norm_rms;
	int32_t		y;

	if (layer->local && encoder->local_window < 1)
	{
		status_set(e->status, INFER_ERROR_UNSUPPORTED, "layer %u attends to no token but its own, which is not supported", number);
		return x;
	}
	emit_label(e, "layer %u attention", number);
	y = encoder->pre_norm ? emit_norm(e, &layer->attention_norm, epsilon, rms, x, -1) : x;
	y = attention_block(layers, layer, y, &x);
	x = emit_norm(e, encoder->pre_norm ? &none : &layer->attention_norm, epsilon, rms, y, x);
	emit_label(e, "layer %u mlp", number);
	y = encoder->pre_norm ? emit_norm(e, &layer->mlp_norm, epsilon, rms, x, -1) : x;
	y = mlp_block(e, layer, y);
	return emit_norm(e, encoder->pre_norm ? &none : &layer->mlp_norm, epsilon, rms, y, x);
}

int32_t
emit_layers(struct emitter *e, int32_t x)
{
	struct layers layers = {
		.e = e,
		.single = e->encoder->task != ENCODER_ENTITIES && e->encoder->more_count == 0 &&
			(e->encoder->pooling == ENCODER_POOL_CLS || e->encoder->pooling == ENCODER_POOL_LAST)
	};

	make_tables(&layers);
	for (uint32_t i = 0; i < e->encoder->layers_count && !emit_failed(e); i++)
		x = emit_layer(&layers, i, x);
	if (emit_failed(e))
		return x;
	emit_label(e, "final norm");
	return emit_norm(e, &e->encoder->final_norm, e->encoder->norm_epsilon, e->encoder->norm_rms, x, -1);
}
