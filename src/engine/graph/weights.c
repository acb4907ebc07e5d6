/*
 * weights.c
 *	  The matrices of products as the device's weights: packed, or mapped from the packed file
 *	  of an earlier load; and what of them a packed file is to hold.  See ../model/packed.h.
 *
 * Nouns
 *	recipe		a sum over type, shape, order and factors of a matrix, and over where in the model's files it
 *				lies; a matrix that is computed has the sum of its elements in it instead.  Equal
 *				recipes of one model give equal weights, whatever else of the graph has changed.
 *	range		of a matrix that lies in the files and that nobody else reads
 *
 * Invariants
 *	A byte in a range is read by pack_weight alone: constants remember that somebody read
 *	them (graph_value.read), and a range that touches such a one is dropped.
 */
#include "graph_internal.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"

/* ---- where a matrix comes from ---- */

/* desc->data is read only if the matrix does not lie in the files as it is. */
static bool
source_make(struct graph *graph, const struct graph_op *op, struct device_weight_desc *desc,
			struct graph_source *source)
{
	const struct graph_value *root = graph_value(graph, graph_root(graph, op->matrix));
	uint64_t	recipe[9] = {
		desc->type | (uint64_t) desc->precision << 8, (uint64_t) desc->k, (uint64_t) desc->n, (uint64_t) desc->stride_k, (uint64_t) desc->stride_n
	};

	memset(source, 0, sizeof(*source));
	if (root->tensor != NULL &&
		packed_range_locate(graph->files, root->tensor->raw.data, root->tensor->raw.size, &source->range))
		memcpy(&recipe[5], &source->range, sizeof(source->range));
	else
	{
		desc->data = graph_data(graph, op->matrix);
		if (desc->data == NULL)
			return false;
		recipe[5] = UINT64_MAX;
		recipe[6] = packed_sum(0, desc->data, (uint64_t) root->elements * device_type_bytes(desc->type));
	}
	if (op->scale != NULL)
		recipe[8] = packed_sum(1, op->scale, (uint64_t) desc->n * sizeof(*op->scale));
	source->recipe = packed_sum(0, recipe, sizeof(recipe));
	source->k = desc->k;
	source->n = desc->n;
	return true;
}

/* ---- a weight ---- */

/* The matrix with its columns' factors, in a block that the caller frees. */
static void *
scaled_matrix(struct graph *graph, const struct graph_op *op, const struct device_weight_desc *desc)
{
	size_t		size = device_type_bytes(desc->type);
	void	   *block = graph_block(graph->memory, (uint64_t) desc->k * desc->n * size);

	if (block == NULL)
		return NULL;
	for (int64_t k = 0; k < desc->k; k++)
		for (int64_t n = 0; n < desc->n; n++)
		{
			int64_t		at = k * desc->stride_k + n * desc->stride_n;

			if (desc->type == DEVICE_F32)
				((float *) block)[at] = (float) (((const float *) desc->data)[at] * op->scale[n]);
			else
				((double *) block)[at] = ((const double *) desc->data)[at] * op->scale[n];
		}
	return block;
}

static struct device_weight *
pack_weight(struct graph *graph, const struct graph_op *op, struct device_weight_desc *desc)
{
	void	   *scaled = NULL;
	struct device_weight *packed;

	if (desc->data == NULL)
		desc->data = graph_matrix_data(graph, op->matrix);
	if (desc->data == NULL)
		return NULL;
	if (op->scale != NULL)
	{
		scaled = scaled_matrix(graph, op, desc);
		if (scaled == NULL)
			return NULL;
		desc->data = scaled;
	}
	packed = graph->device->ops->weight_pack(graph->device, desc, graph->status);
	graph_block_free(graph->memory, scaled);
	return packed;
}

static struct device_weight *
map_weight(struct graph *graph, const struct device_weight_desc *desc, uint64_t recipe)
{
	struct packed *packed = graph->files->packed;
	const struct packed_weight *found = packed_find(packed, graph->weights_count, recipe);
	struct device_weight *weight;

	if (found == NULL)
	{
		packed->stale = true;
		status_set(graph->status, INFER_ERROR_INTERNAL, "the packed weights are of another graph");
		return NULL;
	}
	weight = graph->device->ops->weight_map(graph->device, desc, found->data, found->bytes, graph->status);
	packed->stale = packed->stale || (weight == NULL && graph->status->error != INFER_ERROR_MEMORY);
	return weight;
}

/* NULL: the base has none that is made of the same. */
static struct device_weight *
base_weight(const struct graph *graph, const struct graph_source *source)
{
	const struct graph *base = graph->base;

	for (uint32_t i = 0; base != NULL && i < base->weights_count; i++)
		if (base->sources[i].recipe == source->recipe && base->sources[i].k == source->k && base->sources[i].n == source->n)
			return base->weights[i];
	return NULL;
}

bool
graph_weight(struct graph *graph, const struct graph_op *op, int32_t *weight)
{
	const struct graph_value *matrix = graph_value(graph, op->matrix);
	struct device_weight_desc desc = {
		.type = matrix->type,
		.k = matrix->dims[op->transposed ? 1 : 0],
		.n = matrix->dims[op->transposed ? 0 : 1],
		.stride_k = op->transposed ? 1 : matrix->dims[1],
		.stride_n = op->transposed ? matrix->dims[1] : 1
	};
	struct graph_source *source = &graph->sources[graph->weights_count];
	struct device_weight *made;

	if (!source_make(graph, op, &desc, source))
		return false;
	made = base_weight(graph, source);
	source->borrowed = made != NULL;
	if (made != NULL)
	{
		*weight = (int32_t) graph->weights_count;
		graph->weights[graph->weights_count++] = made;
		return true;
	}
	made = graph->files != NULL && graph->files->packed != NULL ?
		map_weight(graph, &desc, source->recipe) : pack_weight(graph, op, &desc);
	if (made == NULL)
		return false;
	graph->weights_bytes += graph->device->ops->weight_size(graph->device, &desc);
	*weight = (int32_t) graph->weights_count;
	graph->weights[graph->weights_count++] = made;
	return true;
}

/* ---- what is to be kept ---- */

/* Tensors that are attributes are read without a value, but for Constant's. */
static void
ranges_drop_attributes(struct graph *graph, struct packed_range *ranges, uint32_t count)
{
	for (uint32_t i = 0; i < graph->model->nodes_count; i++)
		for (uint32_t a = 0; a < graph->model->nodes[i].attributes_count; a++)
		{
			const struct onnx_tensor *tensor = graph->model->nodes[i].attributes[a].tensor;
			struct packed_range read;

			if (tensor != NULL && strcmp(graph->model->nodes[i].op, "Constant") != 0 &&
				packed_range_locate(graph->files, tensor->raw.data, tensor->raw.size, &read))
				packed_ranges_drop(ranges, count, &read);
		}
}

static uint32_t
ranges_make(struct graph *graph, struct packed_range *ranges)
{
	uint32_t	count = 0;

	for (uint32_t i = 0; i < graph->weights_count; i++)
		if (graph->sources[i].range.bytes > 0)
			ranges[count++] = graph->sources[i].range;
	count = packed_ranges_merge(ranges, count);
	for (uint32_t i = 0; i < graph->values_count; i++)
	{
		const struct graph_value *value = &graph->values[i];
		struct packed_range read;

		if (value->read && value->tensor != NULL &&
			packed_range_locate(graph->files, value->tensor->raw.data, value->tensor->raw.size, &read))
			packed_ranges_drop(ranges, count, &read);
	}
	ranges_drop_attributes(graph, ranges, count);
	return packed_ranges_keep(ranges, count);
}

bool
graph_packed_form(struct graph *graph)
{
	uint32_t	count = graph->weights_count;
	struct packed_weight *weights;
	struct packed_range *ranges;

	if (graph->base != NULL || graph->files == NULL || graph->files->packed != NULL || count > PACKED_COUNT_MAX ||
		graph->weights_bytes < PACKED_BYTES_MIN)
		return true;
	weights = graph_pool(graph->memory, count, sizeof(*weights));
	ranges = graph_pool(graph->memory, count, sizeof(*ranges));
	if (weights == NULL || ranges == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
	{
		weights[i].recipe = graph->sources[i].recipe;
		weights[i].data = graph->device->ops->weight_data(graph->device, graph->weights[i], &weights[i].bytes);
		if (weights[i].data == NULL)
			return true;			/* packing is no slower than reading: nothing is kept */
	}
	graph->form = (struct packed_form) {count, ranges_make(graph, ranges), weights, ranges};
	return true;
}
