/*
 * head.c
 *	  What becomes of the tokens' vectors: pooled or each for itself, through the dense layers,
 *	  to an embedding, or to the logits of classes and their scores.
 *
 * The head is computed in F32 whatever the layers' precision is: it is small, and what it says
 * is what users compare.
 */
#include "emit.h"

#include "../../protocol/protocol.h"

static int32_t
emit_one_pool(struct emitter *e, enum encoder_pooling pooling, int32_t x)
{
	static const uint16_t functions[] = {
		[ENCODER_POOL_CLS] = POOL_FIRST, [ENCODER_POOL_MEAN] = POOL_MEAN, [ENCODER_POOL_MAX] = POOL_MAX,
		[ENCODER_POOL_MEAN_SQRT_LEN] = POOL_MEAN_SQRT, [ENCODER_POOL_LAST] = POOL_LAST,
		[ENCODER_POOL_WEIGHTED_MEAN] = POOL_WEIGHTED
	};
	int32_t		y = emit_vector(e, e->program->tensors[x].type, DEVICE_LEAD_ROWS, e->encoder->hidden);

	emit_op(e, DEVICE_OP_POOL, functions[pooling], 1, &x, y);
	return y;
}

int32_t
emit_pool(struct emitter *e, int32_t x)
{
	const struct encoder *encoder = e->encoder;
	int32_t		parts[ENCODER_POOLINGS_MAX] = {emit_one_pool(e, encoder->pooling, x)};
	int32_t		y;

	if (encoder->more_count == 0)
		return parts[0];
	for (uint32_t i = 0; i < encoder->more_count; i++)
		parts[i + 1] = emit_one_pool(e, encoder->more[i], x);
	y = emit_vector(e, DEVICE_F32, DEVICE_LEAD_ROWS, encoder->hidden * (encoder->more_count + 1));
	emit_op(e, DEVICE_OP_CONCAT, 0, encoder->more_count + 1, parts, y);	/* i: axis 0 */
	return y;
}

static int32_t
emit_dense(struct emitter *e, const struct encoder_dense *dense, int32_t x)
{
	const struct encoder_linear *parts[] = {&dense->linear};

	x = emit_linear(e, x, parts, 1, dense->activation, DEVICE_PRECISION_FULL, false);
	return emit_norm(e, &dense->norm, dense->norm_epsilon, false, x, -1);
}

static int32_t
emit_softmax(struct emitter *e, int32_t x)
{
	int32_t		y = emit_vector(e, DEVICE_F32, e->program->tensors[x].lead, e->program->tensors[x].dims[0]);

	emit_label(e, "scores");
	emit_op(e, DEVICE_OP_SOFTMAX, SOFTMAX_PLAIN, 1, &x, y);	/* i: axis 0 alone */
	return y;
}

/* What the logits go through at once; softmax is an op of its own. */
static enum encoder_activation
logits_activation(const struct encoder *encoder)
{
	if (encoder->task == ENCODER_RERANKER)
		return encoder->score;
	return encoder->task == ENCODER_CLASSIFIER && !encoder->single_label ? ENCODER_SIGMOID : ENCODER_IDENTITY;
}

/* Of logits that are there already. */
static int32_t
emit_scores(struct emitter *e, int32_t x)
{
	enum encoder_activation activation = logits_activation(e->encoder);
	struct device_op *op;
	uint16_t	fn;
	double		f0;
	int32_t		y;

	if (activation == ENCODER_IDENTITY)
		return x;
	emit_label(e, "scores");
	emit_activation(activation, &fn, &f0);
	y = emit_vector(e, DEVICE_F32, e->program->tensors[x].lead, e->program->tensors[x].dims[0]);
	op = emit_op(e, DEVICE_OP_UNARY, fn, 1, &x, y);
	if (op != NULL)
		op->f[0] = f0;
	return y;
}

int32_t
emit_head(struct emitter *e, int32_t x)
{
	const struct encoder *encoder = e->encoder;
	const struct encoder_linear *output[] = {&encoder->output};

	if (encoder->task != ENCODER_ENTITIES && e->program->tensors[x].lead == DEVICE_LEAD_TOKENS)
	{
		emit_label(e, "pooling");
		x = emit_pool(e, x);
	}
	for (uint32_t i = 0; i < encoder->denses_count && !emit_failed(e); i++)
	{
		emit_label(e, "dense %u", i);
		x = emit_dense(e, &encoder->denses[i], x);
	}
	if (emit_failed(e) || encoder->task == ENCODER_EMBEDDING)
		return x;
	if (encoder->output.weight.storage == ENCODER_ABSENT)
		x = emit_scores(e, x);
	else
	{
		emit_label(e, "logits");
		x = emit_linear(e, x, output, 1, logits_activation(encoder), DEVICE_PRECISION_FULL, false);
	}
	if (!emit_failed(e) && (encoder->task == ENCODER_ENTITIES || (encoder->task == ENCODER_CLASSIFIER && encoder->single_label)))
		x = emit_softmax(e, x);
	return x;
}
