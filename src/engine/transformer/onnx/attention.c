/*
 * attention.c
 *	  An attention of several heads: fused into one operator, or written out.
 */
#include "walk.h"

#include <math.h>
#include <string.h>

/* ---- the fused operator ---- */

/* A mask of ones, or how many ones it has. */
static bool
is_whole_mask(const struct fact *mask)
{
	struct size shape[2] = {size_batch(), size_length()};

	return mask->kind == FACT_SAME && mask->value == 1 && shape_is(mask, mask->times_length ? 1 : 2, shape);
}

/* com.microsoft.Attention: input, weights of q, k and v side by side, their biases, mask. */
static bool
fused_attention(struct walk *w, int32_t name, const struct onnx_node *node, int32_t *input, struct encoder_layer *layer,
				struct heads *heads)
{
	const struct onnx_attribute *sizes = node_attribute(node, "qkv_hidden_sizes");
	struct encoder_tensor *weight = &layer->qkv.weight;
	int64_t		hidden;

	for (uint32_t i = 4; i < node->inputs_count; i++)
		if (node_input(node, i) >= 0)
			return walk_refuse(w, name, "an attention with a mask of ones and nothing else is expected");
	if (node_input(node, 3) >= 0 && !is_whole_mask(walk_fact(w, node_input(node, 3))))
		return walk_refuse(w, name, "an attention with a mask of ones and nothing else is expected");
	if (node_int(node, "unidirectional", 0) != 0 || node_int(node, "do_rotary", 0) != 0 || node_input(node, 2) < 0 ||
		!walk_weight(w, walk_same(w, node_input(node, 1)), 2, weight) ||
		!walk_weight(w, walk_same(w, node_input(node, 2)), 1, &layer->qkv.bias))
		return walk_refuse(w, name, "an attention to both sides is expected");
	hidden = weight->dims[0];
	if (weight->dims[1] % 3 != 0 || weight->dims[1] / 3 != hidden || layer->qkv.bias.dims[0] != 3 * hidden)
		return walk_refuse(w, name, "queries, keys and values as wide as the input are expected");
	for (uint32_t i = 0; sizes != NULL && i < sizes->count; i++)
		if (sizes->ints[i] != hidden)
			return walk_refuse(w, name, "queries, keys and values as wide as the input are expected");
	weight->transposed = true;
	weight->dims[0] = 3 * hidden;
	weight->dims[1] = hidden;
	heads->count = node_int(node, "num_heads", 0);
	if (heads->count < 1 || hidden % heads->count != 0)
		return walk_refuse(w, name, "heads of equal size are expected");
	heads->scale = node_float(node, "scale", 0);
	if (heads->scale == 0)
		heads->scale = 1 / sqrt((double) (hidden / heads->count));
	*input = walk_same(w, node_input(node, 0));
	return true;
}

/* ---- written out ---- */

struct part							/* queries, keys or values */
{
	int32_t		input;
	int64_t		heads;
	double		factor;
};

#define STEPS_MAX	4				/* permutations one after the other */

static bool
permutation_of(const struct onnx_node *node, uint32_t rank, int64_t *axes)
{
	const struct onnx_attribute *perm = node_attribute(node, "perm");

	if (!node_is(node, "Transpose") || perm == NULL || perm->type != ONNX_ATTRIBUTE_INTS || perm->count != rank)
		return false;
	memcpy(axes, perm->ints, rank * sizeof(*axes));
	for (uint32_t i = 0; i < rank; i++)
		if (axes[i] < 0 || axes[i] >= rank)
			return false;
	return true;
}

/*
 * The last two of four axes in turn, by way of three: [a, b, c, d] → [a · b, c, d] → [a · b, d, c] →
 * [a, b, d, c].  The value before, or −1.
 */
static int32_t
turned_by_three(struct walk *w, int32_t name)
{
	const struct onnx_node *last = walk_maker(w, name), *middle, *first;
	const struct fact *after = walk_fact(w, walk_same(w, name)), *before;
	int64_t		axes[3];

	if (!node_is(last, "Reshape"))
		return -1;
	middle = walk_maker(w, node_input(last, 0));
	if (!permutation_of(middle, 3, axes) || axes[0] != 0 || axes[1] != 2 || axes[2] != 1)
		return -1;
	first = walk_maker(w, node_input(middle, 0));
	if (!node_is(first, "Reshape"))
		return -1;
	before = walk_fact(w, walk_same(w, node_input(first, 0)));
	if (before->kind != FACT_DATA || after->kind != FACT_DATA || before->rank != 4 || after->rank != 4 ||
		!size_equal(before->dims[0], after->dims[0]) || !size_equal(before->dims[1], after->dims[1]) ||
		!size_equal(before->dims[2], after->dims[3]) || !size_equal(before->dims[3], after->dims[2]))
		return -1;
	after = walk_fact(w, walk_same(w, node_input(middle, 0)));
	if (after->kind != FACT_DATA || after->rank != 3 || !size_equal(after->dims[1], before->dims[2]) || !size_equal(after->dims[2], before->dims[3]))
		return -1;
	return walk_same(w, node_input(first, 0));
}

/* The permutation that makes a value, of four axes; and the value before. */
static bool
permuted(struct walk *w, int32_t name, int64_t axes[4], int32_t *before)
{
	const struct onnx_node *node = walk_maker(w, name);

	*before = turned_by_three(w, name);
	if (*before >= 0)
	{
		memcpy(axes, (const int64_t[4]) {0, 1, 3, 2}, 4 * sizeof(*axes));
		return true;
	}
	*before = node == NULL ? -1 : walk_same(w, node_input(node, 0));
	return permutation_of(node, 4, axes);
}

/*
 * A linear layer's output cut into heads, [B, L, heads, size], its axes in the wanted order, and
 * possibly times a number on the way.
 */
static bool
split_heads(struct walk *w, int32_t name, const int64_t wanted[4], struct part *part, struct encoder_linear *linear)
{
	int64_t		steps[STEPS_MAX + 1][4], axes[4] = {0, 1, 2, 3}, constant;
	int			count = 0;
	const struct fact *cut;
	struct product product;

	part->factor = 1;
	for (;;)
	{
		walk_product(w, name, &product);
		if (product.terms_count != 1)
			return walk_refuse(w, name, "heads of queries, keys or values are expected");
		part->factor *= product.factor;
		name = product.terms[0];
		if (count == STEPS_MAX || !permuted(w, name, steps[count], &name))
			break;
		count++;
	}
	name = product.terms[0];
	while (count > 0)
	{
		int64_t		next[4];

		count--;
		for (int i = 0; i < 4; i++)
			next[i] = axes[steps[count][i]];
		memcpy(axes, next, sizeof(axes));
	}
	cut = walk_fact(w, name);
	if (!node_is(walk_maker(w, name), "Reshape") || memcmp(axes, wanted, sizeof(axes)) != 0 || cut->rank != 4 || cut->kind != FACT_DATA ||
		!size_equal(cut->dims[0], size_batch()) || !size_equal(cut->dims[1], size_length()) ||
		!size_constant(cut->dims[2], &part->heads) || !size_constant(cut->dims[3], &constant))
		return walk_refuse(w, name, "heads of queries, keys or values are expected");
	return walk_linear(w, node_input(walk_maker(w, name), 0), &part->input, linear);
}

/* The scores' softmax along the last axis. */
static bool
scores_of(struct walk *w, int32_t name, int32_t *scores)
{
	const struct onnx_node *node = walk_maker(w, name);
	int64_t		axis = node == NULL ? 0 : node_int(node, "axis", node->version < 13 ? 1 : -1);

	if (!node_is(node, "Softmax") || (axis != -1 && axis != 3))
		return walk_refuse(w, name, "a softmax of scores is expected");
	*scores = node_input(node, 0);
	return true;
}

/* A bias by distance that is added: it, or −1; and what it is added to. */
static int32_t
take_bias(struct walk *w, int32_t *name)
{
	const struct onnx_node *node = walk_maker(w, *name);

	for (uint32_t i = 0; node_is(node, "Add") && i < 2; i++)
		if (walk_fact(w, walk_same(w, node_input(node, i)))->kind == FACT_BIAS)
		{
			*name = walk_same(w, node_input(node, 1 - i));
			return node_input(node, i);
		}
	return -1;
}

/* factor · queries · keysᵀ */
static bool
read_scores(struct walk *w, int32_t name, struct encoder_layer *layer, struct part *query, struct part *key, double *scale)
{
	static const int64_t order[4] = {0, 2, 1, 3}, turned[4] = {0, 2, 3, 1};
	const struct onnx_node *node;
	struct product product;
	bool		across;

	walk_product(w, name, &product);
	node = product.terms_count == 1 ? walk_maker(w, product.terms[0]) : NULL;
	if (!node_is(node, "MatMul") && !node_is_contrib(node, "FusedMatMul"))
		return walk_refuse(w, name, "queries times keys are expected");
	if (node_int(node, "transA", 0) != 0 || node_int(node, "transBatchA", 0) != 0 || node_int(node, "transBatchB", 0) != 0)
		return walk_refuse(w, name, "queries times keys are expected");
	across = node_int(node, "transB", 0) != 0;
	if (!split_heads(w, node_input(node, 0), order, query, &layer->query) ||
		!split_heads(w, node_input(node, 1), across ? order : turned, key, &layer->key))
		return false;
	*scale = product.factor * node_float(node, "alpha", 1) * query->factor * key->factor;
	return true;
}

/* softmax(scores) · values, the heads side by side again: [B, L, hidden] */
static bool
plain_attention(struct walk *w, int32_t name, int32_t *input, struct encoder_layer *layer, struct heads *heads)
{
	static const int64_t order[4] = {0, 2, 1, 3};
	const struct onnx_node *reshape = walk_maker(w, name), *transpose, *times;
	const struct fact *joined = walk_fact(w, walk_same(w, name));
	struct part query, key, value;
	int64_t		axes[4];
	int32_t		scores = -1, bias;

	if (!node_is(reshape, "Reshape") || joined->rank != 3 || !size_equal(joined->dims[0], size_batch()) ||
		!size_equal(joined->dims[1], size_length()))
		return walk_refuse(w, name, "an attention is expected");
	transpose = walk_maker(w, node_input(reshape, 0));
	if (!permutation_of(transpose, 4, axes) || memcmp(axes, order, sizeof(axes)) != 0)
		return walk_refuse(w, node_input(reshape, 0), "an attention is expected");
	times = walk_maker(w, node_input(transpose, 0));
	if (!node_is(times, "MatMul"))
		return walk_refuse(w, node_input(transpose, 0), "an attention is expected");
	if (!scores_of(w, node_input(times, 0), &scores))
		return false;
	bias = take_bias(w, &scores);
	if (!read_scores(w, scores, layer, &query, &key, &heads->scale) ||
		!split_heads(w, node_input(times, 1), order, &value, &layer->value))
		return false;
	if (value.factor != 1 || query.input != key.input || key.input != value.input || query.heads != key.heads || key.heads != value.heads)
		return walk_refuse(w, name, "queries, keys and values of the same tokens are expected");
	heads->count = query.heads;
	heads->biased = bias >= 0;
	*input = query.input;
	return bias < 0 || walk_bias(w, bias, query.heads);
}

bool
walk_attention(struct walk *w, int32_t name, int32_t *input, struct encoder_layer *layer, struct heads *heads)
{
	const struct onnx_node *node = walk_maker(w, name);

	*heads = (struct heads) {0};
	if (node_is_contrib(node, "Attention"))
		return fused_attention(w, name, node, input, layer, heads);
	return plain_attention(w, name, input, layer, heads);
}
