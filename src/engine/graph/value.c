/*
 * value.c
 *	  Values of a graph: constants, views, roles.  See graph.h.
 */
#include "graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "graph_internal.h"

/* False if the product is over limit, a dimension of 0 set aside (so strides fit as well). */
static bool
count_elements(int rank, const int64_t *dims, int64_t limit, int64_t *elements)
{
	int64_t		count = 1;
	bool		empty = false;

	for (int i = 0; i < rank; i++)
	{
		if (dims[i] < 0)
			return false;
		if (dims[i] == 0)
			empty = true;
		else if (__builtin_mul_overflow(count, dims[i], &count) || count > limit)
			return false;
	}
	*elements = empty ? 0 : count;
	return true;
}

int32_t
graph_value_new(struct graph *graph, uint8_t type, int rank, const int64_t *dims, bool rows)
{
	struct graph_value *value;
	int64_t		elements;

	if (rank > DEVICE_RANK_MAX)
	{
		status_set(graph->status, INFER_ERROR_UNSUPPORTED, "a value has %d dimensions; at most %d are supported",
				   rank, DEVICE_RANK_MAX);
		return GRAPH_FAILED;
	}
	if (!count_elements(rank, dims, GRAPH_ELEMENTS_MAX, &elements))
	{
		status_set(graph->status, INFER_ERROR_UNSUPPORTED,
				   "a value has more than %" PRId64 " elements a row", GRAPH_ELEMENTS_MAX);
		return GRAPH_FAILED;
	}
	if (!graph_pool_grow(graph->memory, &graph->values, graph->values_count, &graph->values_space,
						 sizeof(*graph->values), GRAPH_VALUES_MAX, "values"))
		return GRAPH_FAILED;
	value = &graph->values[graph->values_count];
	memset(value, 0, sizeof(*value));
	value->type = type;
	value->rank = (uint8_t) rank;
	if (rank > 0)
		memcpy(value->dims, dims, rank * sizeof(*dims));
	value->elements = elements;
	value->rows = rows;
	value->root = (int32_t) graph->values_count;
	value->producer = -1;
	value->binding = -1;
	value->tensor_index = -1;
	return (int32_t) graph->values_count++;
}

/* ---- constants ---- */

bool
graph_is_constant(const struct graph *graph, int32_t value)
{
	return value >= 0 && !graph->values[value].rows;
}

const void *
graph_data(struct graph *graph, int32_t value)
{
	struct graph_value *root;

	if (value < 0)
		return NULL;
	root = graph_value(graph, graph_root(graph, value));
	root->read = true;
	if (root->tensor != NULL && root->data == NULL && graph->files != NULL && graph->files->packed != NULL &&
		packed_covers(graph->files->packed, graph->files, root->tensor->raw.data))
	{
		graph->files->packed->stale = true;	/* nobody has verified what would be read */
		status_set(graph->status, INFER_ERROR_INTERNAL, "a tensor is read that the packed weights replace");
		return NULL;
	}
	return graph_matrix_data(graph, value);
}

const void *
graph_matrix_data(struct graph *graph, int32_t value)
{
	struct graph_value *root;
	const void *direct;

	if (value < 0)
		return NULL;
	root = graph_value(graph, graph_root(graph, value));
	if (root->undefined != NULL)
	{
		graph_undefined_read(graph, root);
		return NULL;
	}
	if (root->data != NULL)
		return root->data;
	if (root->tensor == NULL)
	{
		status_set(graph->status, INFER_ERROR_INTERNAL, "a computed value was read as a constant");
		return NULL;
	}
	direct = onnx_tensor_direct(root->tensor);
	if (direct == NULL)
	{
		root->owned = graph_block(graph->memory,
								  (uint64_t) root->elements * device_type_bytes(root->type));
		if (root->owned == NULL || !onnx_tensor_read(root->tensor, root->owned, graph->status))
			return NULL;
		direct = root->owned;
	}
	root->data = direct;
	return direct;
}

int32_t
graph_constant_tensor(struct graph *graph, const struct onnx_tensor *tensor)
{
	int32_t		value = graph_value_new(graph, tensor->type, tensor->rank, tensor->dims, false);

	if (value >= 0)
		graph->values[value].tensor = tensor;
	return value;
}

int32_t
graph_constant_make(struct graph *graph, uint8_t type, int rank, const int64_t *dims, void **data)
{
	int32_t		value = graph_value_new(graph, type, rank, dims, false);
	struct graph_value *constant;

	if (value < 0)
		return value;
	constant = graph_value(graph, value);
	constant->owned = graph_block(graph->memory,
								  (uint64_t) constant->elements * device_type_bytes(type));
	if (constant->owned == NULL)
		return GRAPH_FAILED;
	constant->data = *data = constant->owned;
	return value;
}

int32_t
graph_constant(struct graph *graph, uint8_t type, int rank, const int64_t *dims, const void *data)
{
	void	   *copy;
	int32_t		value = graph_constant_make(graph, type, rank, dims, &copy);

	if (value >= 0 && graph->values[value].elements > 0)
		memcpy(copy, data, (size_t) graph->values[value].elements * device_type_bytes(type));
	return value;
}

int32_t
graph_constant_number(struct graph *graph, uint8_t type, double number)
{
	void	   *data;
	int32_t		value = graph_constant_make(graph, type, 0, NULL, &data);

	if (value < 0)
		return value;
	switch (type)
	{
		case DEVICE_F32:
			*(float *) data = (float) number;
			break;
		case DEVICE_F64:
			*(double *) data = number;
			break;
		case DEVICE_I32:
			*(int32_t *) data = (int32_t) number;
			break;
		case DEVICE_I64:
			*(int64_t *) data = (int64_t) number;
			break;
		default:
			*(uint8_t *) data = number != 0;
			break;
	}
	return value;
}

int32_t
graph_constant_ints(struct graph *graph, uint32_t count, const int64_t *ints)
{
	int64_t		dims[1] = {count};

	return graph_constant(graph, DEVICE_I64, 1, dims, ints);
}

static bool
check_constant(struct graph *graph, int32_t value, const char *what)
{
	if (value == GRAPH_FAILED)
		return false;
	if (value == GRAPH_ABSENT)
		return graph_malformed(graph, graph->node, "has no %s", what);
	if (!graph_is_constant(graph, value))
		return graph_unsupported(graph, graph->node, "has a %s that depends on the row", what);
	return true;
}

int
graph_ints(struct graph *graph, int32_t value, const char *what, int64_t *ints, int max)
{
	const struct graph_value *constant;
	const void *data;

	if (!check_constant(graph, value, what))
		return -1;
	constant = graph_value(graph, value);
	if ((constant->type != DEVICE_I64 && constant->type != DEVICE_I32) || constant->rank > 1)
	{
		graph_malformed(graph, graph->node, "has a %s that is not a list of integers", what);
		return -1;
	}
	if (constant->elements > max)
	{
		graph_unsupported(graph, graph->node, "has a %s of %" PRId64 " elements; at most %d are supported",
						  what, constant->elements, max);
		return -1;
	}
	data = graph_data(graph, value);
	if (data == NULL)
		return -1;
	constant = graph_value(graph, value);
	for (int i = 0; i < constant->elements; i++)
		ints[i] = constant->type == DEVICE_I64 ? ((const int64_t *) data)[i] : ((const int32_t *) data)[i];
	return (int) constant->elements;
}

bool
graph_number(struct graph *graph, int32_t value, const char *what, double *number)
{
	const struct graph_value *constant;
	const void *data;

	if (!check_constant(graph, value, what))
		return false;
	constant = graph_value(graph, value);
	if (constant->elements != 1 || constant->type == DEVICE_STRING)
		return graph_malformed(graph, graph->node, "has a %s that is not one number", what);
	data = graph_data(graph, value);
	if (data == NULL)
		return false;
	switch (graph_value(graph, value)->type)
	{
		case DEVICE_F32:
			*number = *(const float *) data;
			break;
		case DEVICE_F64:
			*number = *(const double *) data;
			break;
		case DEVICE_I32:
			*number = *(const int32_t *) data;
			break;
		case DEVICE_I64:
			*number = (double) *(const int64_t *) data;
			break;
		default:
			*number = *(const uint8_t *) data;
			break;
	}
	return true;
}

/* ---- views ---- */

int32_t
graph_view(struct graph *graph, int32_t value, int rank, const int64_t *dims)
{
	int32_t		view;
	const struct graph_value *from;

	if (value < 0)
		return GRAPH_FAILED;
	view = graph_value_new(graph, graph->values[value].type, rank, dims, graph->values[value].rows);
	if (view < 0)
		return view;
	from = graph_value(graph, value);
	if (graph->values[view].elements != from->elements)
	{
		graph_malformed(graph, graph->node, "changes a shape of %" PRId64 " elements to one of %" PRId64,
						from->elements, graph->values[view].elements);
		return GRAPH_FAILED;
	}
	graph->values[view].root = graph_root(graph, value);
	graph->values[view].producer = from->producer;
	graph_role_copy(graph, view, value);
	return view;
}

/* ---- roles ---- */

void
graph_role_copy(struct graph *graph, int32_t to, int32_t from)
{
	struct graph_value *target;
	const struct graph_value *source;

	if (to < 0 || from < 0)
		return;
	target = graph_value(graph, to);
	source = graph_value(graph, from);
	target->role = source->role;
	target->flags = source->flags;
	target->classes_count = source->classes_count;
	target->classes = source->classes;
	target->maps = source->maps;
}

bool
graph_role_label(struct graph *graph, int32_t value)
{
	if (value < 0)
		return false;
	graph_value(graph, value)->role = INFER_ROLE_LABEL;
	return true;
}

bool
graph_role_scores(struct graph *graph, int32_t value, uint8_t label_type, uint32_t count,
				  const void *labels, bool map)
{
	struct graph_value *scores;
	char	  **classes;

	if (value < 0)
		return false;
	classes = graph_pool(graph->memory, count, sizeof(*classes));
	if (classes == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
	{
		if (label_type == DEVICE_STRING)
		{
			const struct device_text *text = (const struct device_text *) labels + i;

			if (text->length > 0 && memchr(text->data, 0, text->length) != NULL)
				return graph_malformed(graph, graph->node, "has a class label with a zero byte");
			classes[i] = graph_pool_text(graph->memory, text->data, text->length);
		}
		else
			classes[i] = graph_pool_printf(graph->memory, "%" PRId64, ((const int64_t *) labels)[i]);
		if (classes[i] == NULL)
			return false;
	}
	scores = graph_value(graph, value);
	scores->role = INFER_ROLE_SCORES;
	scores->classes_count = count;
	scores->classes = classes;
	if (map)
	{
		scores->flags |= INFER_TENSOR_MAP;
		scores->maps = true;
	}
	return true;
}

bool
graph_axis(struct graph *graph, const struct onnx_node *node, int64_t axis, int rank, int *out)
{
	if (axis < -rank || axis >= rank)
		return graph_malformed(graph, node, "has axis %" PRId64 " for a value of %d dimensions", axis, rank);
	*out = (int) (axis < 0 ? axis + rank : axis);
	return true;
}
