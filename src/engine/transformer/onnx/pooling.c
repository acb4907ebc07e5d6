/*
 * pooling.c
 *	  A graph's own pooling: the first token's vector, or the mean of all, and its length
 *	  brought to 1.
 */
#include "walk.h"

#include <string.h>

static bool
is_tokens(const struct fact *fact)
{
	return fact->kind == FACT_DATA && fact->rank == 3 && size_equal(fact->dims[0], size_batch()) && size_equal(fact->dims[1], size_length());
}

static bool
reduces(struct walk *w, const struct onnx_node *node, const char *op, int64_t wanted)
{
	int64_t		axes[DEVICE_RANK_MAX];
	uint32_t	count = 0;

	return node_is(node, op) && walk_axes(w, node, 1, "axes", axes, &count) && count == 1 && axes[0] == wanted;
}

/* Through a lower bound that only keeps a quotient from being none, and what stretches it. */
static int32_t
bounded(struct walk *w, int32_t name)
{
	for (;;)
	{
		const struct onnx_node *node = walk_maker(w, name);
		double		least = 0;

		name = walk_same(w, name);
		if (node_is(node, "Expand") && walk_fact(w, name)->kind == FACT_DATA)
			name = node_input(node, 0);
		else if (node_is(node, "Clip") && node_input(node, 2) < 0 && node_attribute(node, "max") == NULL &&
				 (node_input(node, 1) < 0 || walk_number(w, node_input(node, 1), &least)) && node_float(node, "min", least) <= 1e-8)
			name = node_input(node, 0);
		else
			return name;
	}
}

/* x / max(|x|, a little): x, or −1. */
static int32_t
normalized_of(struct walk *w, int32_t name)
{
	const struct onnx_node *node = walk_maker(w, name), *length;

	if (!node_is(node, "Div"))
		return -1;
	length = walk_maker(w, bounded(w, node_input(node, 1)));
	if (!(reduces(w, length, "ReduceL2", 1) || reduces(w, length, "ReduceL2", -1)) || node_int(length, "keepdims", 1) == 0 ||
		walk_same(w, node_input(length, 0)) != walk_same(w, node_input(node, 0)))
		return -1;
	return walk_same(w, node_input(node, 0));
}

bool
walk_pooled(struct walk *w, int32_t name, int32_t *tokens, enum encoder_pooling *pooling, bool *normalized)
{
	int32_t		of = normalized_of(w, name);
	const struct fact *pooled = walk_fact(w, walk_same(w, name));
	const struct onnx_node *node, *sum;
	const struct fact *count;
	double		place;

	if (pooled->kind != FACT_DATA || pooled->rank != 2 || !size_equal(pooled->dims[0], size_batch()))
		return walk_refuse(w, name, "a vector for each text is expected");
	*normalized = of >= 0;
	name = of >= 0 ? of : walk_same(w, name);
	node = walk_maker(w, name);
	*pooling = 0;
	if (node_is(node, "Gather") && node_int(node, "axis", 0) == 1 && walk_number(w, node_input(node, 1), &place) && place == 0)
	{
		*pooling = ENCODER_POOL_CLS;
		*tokens = walk_same(w, node_input(node, 0));
	}
	else if (reduces(w, node, "ReduceMean", 1) && node_int(node, "keepdims", 1) == 0)
	{
		*pooling = ENCODER_POOL_MEAN;
		*tokens = walk_same(w, node_input(node, 0));
	}
	else if (node_is(node, "Div"))
	{
		sum = walk_maker(w, node_input(node, 0));
		count = walk_fact(w, node_input(node, 1));
		if (reduces(w, sum, "ReduceSum", 1) && node_int(sum, "keepdims", 1) == 0 && count->kind == FACT_SAME && count->times_length && count->value == 1)
		{
			*pooling = ENCODER_POOL_MEAN;
			*tokens = walk_same(w, node_input(sum, 0));
		}
	}
	return (*pooling != 0 && is_tokens(walk_fact(w, *tokens))) || walk_refuse(w, name, "the first token's vector or the mean is expected");
}
