/*
 * index.c
 *	  ONNX operators that read or write at places that other values name.
 *
 * Nouns
 *	place		an element's, or a run's, number in a value seen as one row of them
 *
 * Indices become places (OFFSET checks each against its dimension), and what is left is a
 * GATHER or a SCATTER along one axis.
 */
#include "../graph.h"

#include <inttypes.h>
#include <string.h>

static int64_t
product(int count, const int64_t *dims)
{
	int64_t		elements = 1;

	for (int i = 0; i < count; i++)
		elements *= dims[i];
	return elements;
}

/* ---- GatherElements, ScatterElements, TopK ---- */

/* Place of index [j…] in x where j[axis] is set aside: Σ jd · stride of x; a constant of indices' shape. */
static int32_t
element_bases(struct graph *graph, int32_t x, int32_t indices, int axis)
{
	struct graph_value from = *graph_value(graph, x);
	struct graph_value at = *graph_value(graph, indices);
	void	   *data;
	int32_t		value = graph_constant_make(graph, DEVICE_I64, at.rank, at.dims, &data);

	for (int64_t i = 0; value >= 0 && i < at.elements; i++)
	{
		int64_t		rest = i;
		int64_t		place = 0;

		for (int d = at.rank - 1; d >= 0; d--)
		{
			if (d != axis)
				place += rest % at.dims[d] * product(from.rank - d - 1, from.dims + d + 1);
			rest /= at.dims[d];
		}
		((int64_t *) data)[i] = place;
	}
	return value;
}

/* The places in x of the elements that indices name along axis; of indices' shape. */
static int32_t
element_places(struct graph *graph, const struct onnx_node *node, int32_t x, int32_t indices, int axis)
{
	struct graph_value from, at;
	int64_t		flat[2];
	int32_t		places;
	bool		whole = true;

	if (x < 0 || indices < 0)
		return GRAPH_FAILED;
	from = *graph_value(graph, x);
	at = *graph_value(graph, indices);
	if (at.rank != from.rank)
	{
		graph_malformed(graph, node, "has indices of %d dimensions for %d", at.rank, from.rank);
		return GRAPH_FAILED;
	}
	for (int d = 0; d < at.rank; d++)
	{
		if (d != axis && at.dims[d] > from.dims[d])
		{
			graph_malformed(graph, node, "has more indices than elements in dimension %d", d);
			return GRAPH_FAILED;
		}
		whole = whole && (d == axis || at.dims[d] == 1);
	}
	flat[0] = at.elements;
	flat[1] = 1;
	places = graph_offset(graph, graph_view(graph, indices, 2, flat), &from.dims[axis],
						  product(from.rank - axis - 1, from.dims + axis + 1));
	places = graph_view(graph, places, at.rank, at.dims);
	if (whole)
		return places;
	return graph_binary(graph, BINARY_ADD, places, element_bases(graph, x, indices, axis));
}

static int32_t
gather_elements(struct graph *graph, const struct onnx_node *node, int32_t x, int32_t indices, int axis)
{
	int32_t		places = element_places(graph, node, x, indices, axis);

	if (places < 0)
		return GRAPH_FAILED;
	return graph_gather(graph, graph_view(graph, x, 1, &(int64_t) {graph_value(graph, x)->elements}), places, 0);
}

/* Input 0 and the attribute axis of it. */
static int32_t
input_with_axis(struct graph *graph, const struct onnx_node *node, int64_t fallback, int *axis)
{
	int32_t		x = graph_input(graph, node, 0);
	int64_t		given;

	if (x < 0 || !graph_attribute_int(graph, node, "axis", fallback, &given) ||
		!graph_axis(graph, node, given, graph_value(graph, x)->rank, axis))
		return GRAPH_FAILED;
	return x;
}

static bool
lower_gather_elements(struct graph *graph, const struct onnx_node *node)
{
	int			axis;
	int32_t		x = input_with_axis(graph, node, 0, &axis);
	int32_t		indices = graph_input(graph, node, 1);

	if (x < 0 || indices < 0)
		return false;
	return graph_output(graph, node, 0, gather_elements(graph, node, x, indices, axis));
}

/* k: an attribute before version 10, then an input. */
static bool
topk_count(struct graph *graph, const struct onnx_node *node, int64_t *k)
{
	if (node->version >= 10)
		return graph_ints(graph, graph_input(graph, node, 1), "number of elements", k, 1) == 1;
	if (!graph_attribute_has(node, "k"))
		return graph_malformed(graph, node, "has no attribute \"k\"");
	return graph_attribute_int(graph, node, "k", 0, k);
}

static bool
lower_topk(struct graph *graph, const struct onnx_node *node)
{
	int			axis;
	int32_t		x = input_with_axis(graph, node, -1, &axis);
	int64_t		k, largest = 1, sorted = 1;
	int32_t		places;

	if (x < 0 || !topk_count(graph, node, &k) ||
		(node->version >= 11 && (!graph_attribute_int(graph, node, "largest", 1, &largest) ||
								 !graph_attribute_int(graph, node, "sorted", 1, &sorted))))
		return false;
	places = graph_topk(graph, largest != 0 ? TOPK_LARGEST : TOPK_SMALLEST, x, axis, k);
	if (places < 0)
		return false;
	if (graph_output_wanted(node, 0) &&
		!graph_output(graph, node, 0, gather_elements(graph, node, x, places, axis)))
		return false;
	return !graph_output_wanted(node, 1) || graph_output(graph, node, 1, places);
}

/* The attribute reduction, which versions before 16 do not have. */
static bool
scatter_function(struct graph *graph, const struct onnx_node *node, uint16_t *fn)
{
	static const char *const names[] = {"none", "add", "mul", "max", "min"};
	const char *name = "none";
	uint16_t	known = node->version >= 18 ? 5 : 3;

	if (node->version >= 16 && !graph_attribute_string(graph, node, "reduction", "none", &name))
		return false;
	for (uint16_t i = 0; i < known; i++)
		if (strcmp(name, names[i]) == 0)
		{
			*fn = (uint16_t) (SCATTER_SET + i);
			return true;
		}
	return graph_malformed(graph, node, "has the unknown reduction \"%.50s\"", name);
}

static bool
lower_scatter_elements(struct graph *graph, const struct onnx_node *node)
{
	int			axis;
	int32_t		x = input_with_axis(graph, node, 0, &axis);
	int32_t		indices = graph_input(graph, node, 1);
	int32_t		updates = graph_input(graph, node, 2);
	struct graph_value from, at, to;
	int32_t		places;
	uint16_t	fn;

	if (x < 0 || indices < 0 || updates < 0 || !scatter_function(graph, node, &fn))
		return false;
	from = *graph_value(graph, x);
	at = *graph_value(graph, indices);
	to = *graph_value(graph, updates);
	if (at.rank != to.rank || memcmp(at.dims, to.dims, at.rank * sizeof(*at.dims)) != 0)
		return graph_malformed(graph, node, "does not have as many updates as indices");
	places = element_places(graph, node, x, indices, axis);
	x = graph_scatter(graph, fn, graph_view(graph, x, 1, &from.elements),
					  graph_view(graph, places, 1, &at.elements), graph_view(graph, updates, 1, &to.elements));
	return graph_output(graph, node, 0, graph_view(graph, x, from.rank, from.dims));
}

/* ---- GatherND, ScatterND ---- */

/* How many of x's dimensions, from first on, the indices' last dimension names; -1: refused. */
static int
named_dims(struct graph *graph, const struct onnx_node *node, const struct graph_value *x,
		   const struct graph_value *indices, int64_t first)
{
	int64_t		count = indices->rank == 0 ? 0 : indices->dims[indices->rank - 1];

	if (count >= 1 && first + count <= x->rank)
		return (int) count;
	graph_malformed(graph, node, "has indices that do not name one to %" PRId64 " dimensions", x->rank - first);
	return -1;
}

/* Where each batch of x begins, in places: of shape [batch dimensions, 1, …]. */
static int32_t
batch_bases(struct graph *graph, int batch, int rank, const int64_t *batch_dims, int64_t size)
{
	int64_t		dims[DEVICE_RANK_MAX];
	void	   *data;
	int32_t		value;

	for (int i = 0; i < rank; i++)
		dims[i] = i < batch ? batch_dims[i] : 1;
	value = graph_constant_make(graph, DEVICE_I64, rank, dims, &data);
	for (int64_t i = 0; value >= 0 && i < graph_value(graph, value)->elements; i++)
		((int64_t *) data)[i] = i * size;
	return value;
}

static bool
lower_gather_nd(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		indices = graph_input(graph, node, 1);
	struct graph_value from, at;
	int64_t		batch = 0;
	int64_t		dims[2 * DEVICE_RANK_MAX], flat[2];
	int32_t		places;
	int			named, rank;

	if (x < 0 || indices < 0 ||
		(node->version >= 12 && !graph_attribute_int(graph, node, "batch_dims", 0, &batch)))
		return false;
	from = *graph_value(graph, x);
	at = *graph_value(graph, indices);
	if (batch < 0 || batch >= from.rank || batch >= at.rank ||
		memcmp(from.dims, at.dims, (size_t) batch * sizeof(*dims)) != 0)
		return graph_malformed(graph, node, "has batch_dims that its inputs do not share");
	named = named_dims(graph, node, &from, &at, batch);
	if (named < 0)
		return false;
	places = graph_offset(graph, indices, from.dims + batch, 1);
	if (batch > 0)
		places = graph_binary(graph, BINARY_ADD, places,
							  batch_bases(graph, (int) batch, at.rank - 1, from.dims,
										  product(named, from.dims + batch)));
	flat[0] = product((int) batch + named, from.dims);
	flat[1] = product(from.rank - (int) batch - named, from.dims + batch + named);
	rank = at.rank - 1;
	memcpy(dims, at.dims, (size_t) rank * sizeof(*dims));
	for (int i = (int) batch + named; i < from.rank; i++)
		dims[rank++] = from.dims[i];
	x = graph_gather(graph, graph_view(graph, x, 2, flat), places, 0);
	return graph_output(graph, node, 0, graph_view(graph, x, rank, dims));
}

static bool
lower_scatter_nd(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		indices = graph_input(graph, node, 1);
	int32_t		updates = graph_input(graph, node, 2);
	struct graph_value from, at, to;
	int64_t		dims[2 * DEVICE_RANK_MAX], count;
	int32_t		places;
	int			named, rank;
	uint16_t	fn;

	if (x < 0 || indices < 0 || updates < 0 || !scatter_function(graph, node, &fn))
		return false;
	from = *graph_value(graph, x);
	at = *graph_value(graph, indices);
	to = *graph_value(graph, updates);
	named = named_dims(graph, node, &from, &at, 0);
	if (named < 0)
		return false;
	rank = at.rank - 1;
	memcpy(dims, at.dims, (size_t) rank * sizeof(*dims));
	count = product(rank, dims);
	for (int i = named; i < from.rank; i++)
		dims[rank++] = from.dims[i];
	if (to.rank != rank || memcmp(to.dims, dims, (size_t) rank * sizeof(*dims)) != 0)
		return graph_malformed(graph, node, "has updates of a shape that its indices do not give");
	places = graph_view(graph, graph_offset(graph, indices, from.dims, 1), 1, &count);
	x = graph_scatter(graph, fn, graph_view(graph, x, 1, &from.elements), places,
					  graph_view(graph, updates, 1, &to.elements));
	return graph_output(graph, node, 0, graph_view(graph, x, from.rank, from.dims));
}

/* ---- Compress, OneHot ---- */

/* What a constant condition leaves of an axis, or of all elements. */
static bool
lower_compress(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_input(graph, node, 0);
	int32_t		condition = graph_input(graph, node, 1);
	int64_t		kept = 0, size, attribute;
	int64_t    *places;
	const uint8_t *wanted;
	int			axis = 0;

	if (x < 0 || condition < 0)
		return false;
	if (!graph_is_constant(graph, condition))
		return graph_unsupported(graph, node, "has a condition that depends on the row");
	if (graph_value(graph, condition)->type != DEVICE_BOOL || graph_value(graph, condition)->rank != 1)
		return graph_malformed(graph, node, "has a condition that is not a list of booleans");
	if (!graph_attribute_has(node, "axis"))
		x = graph_view(graph, x, 1, &(int64_t) {graph_value(graph, x)->elements});
	else if (!graph_attribute_int(graph, node, "axis", 0, &attribute) ||
			 !graph_axis(graph, node, attribute, graph_value(graph, x)->rank, &axis))
		return false;
	wanted = graph_data(graph, condition);
	size = graph_value(graph, condition)->elements;
	if (x < 0 || wanted == NULL)
		return false;
	if (size > graph_value(graph, x)->dims[axis])
		return graph_malformed(graph, node, "has a condition of %" PRId64 " for %" PRId64 " elements", size,
							   graph_value(graph, x)->dims[axis]);
	places = graph_pool(graph->memory, (uint64_t) size, sizeof(*places));
	if (places == NULL)
		return false;
	for (int64_t i = 0; i < size; i++)
		if (wanted[i] != 0)
			places[kept++] = i;
	return graph_output(graph, node, 0, graph_gather(graph, x, graph_constant_ints(graph, (uint32_t) kept, places), axis));
}

/* 0, 1, … count − 1 along the first of rank dimensions, the others 1. */
static int32_t
counting(struct graph *graph, int64_t count, int rank)
{
	int64_t		dims[DEVICE_RANK_MAX] = {count, 1, 1, 1, 1, 1, 1, 1};
	void	   *data;
	int32_t		value = graph_constant_make(graph, DEVICE_I64, rank, dims, &data);

	for (int64_t i = 0; value >= 0 && i < count; i++)
		((int64_t *) data)[i] = i;
	return value;
}

/* on where an index is, counted from the end if negative; off elsewhere, also for one out of range. */
static bool
lower_one_hot(struct graph *graph, const struct onnx_node *node)
{
	int32_t		x = graph_cast(graph, graph_input(graph, node, 0), DEVICE_I64);
	int32_t		values = graph_input(graph, node, 2);
	int32_t		depth_value;
	int64_t		dims[DEVICE_RANK_MAX], attribute;
	double		depth;
	int			axis, rank;

	if (x < 0 || values < 0 || !graph_number(graph, graph_input(graph, node, 1), "depth", &depth) ||
		!graph_attribute_int(graph, node, "axis", -1, &attribute))
		return false;
	rank = graph_value(graph, x)->rank + 1;
	if (rank > DEVICE_RANK_MAX)
		return graph_unsupported(graph, node, "gives %d dimensions; at most %d are supported", rank, DEVICE_RANK_MAX);
	if (!graph_axis(graph, node, attribute, rank, &axis))
		return false;
	if (!(depth >= 0) || depth >= (double) GRAPH_ELEMENTS_MAX)
		return graph_malformed(graph, node, "has an impossible depth");
	if (graph_value(graph, values)->elements != 2 || graph_value(graph, values)->rank != 1)
		return graph_malformed(graph, node, "does not have two values");
	for (int i = 0; i < rank; i++)
		dims[i] = i == axis ? 1 : graph_value(graph, x)->dims[i - (i > axis)];
	depth_value = graph_constant_number(graph, DEVICE_I64, depth);
	x = graph_where(graph, graph_binary(graph, BINARY_LESS, x, graph_constant_number(graph, DEVICE_I64, 0)),
					graph_binary(graph, BINARY_ADD, x, depth_value), x);
	x = graph_binary(graph, BINARY_EQUAL, graph_view(graph, x, rank, dims),
					 counting(graph, (int64_t) depth, rank - axis));
	return graph_output(graph, node, 0, graph_where(graph, x, graph_copy(graph, values, 0, NULL, 1, NULL),
													graph_copy(graph, values, 0, NULL, 0, NULL)));
}

const struct graph_operator graph_index_operators[] = {
	{"", "Compress", 9, 25, lower_compress, GRAPH_MISSING_PASSES},
	{"", "GatherElements", 11, 25, lower_gather_elements, GRAPH_MISSING_PASSES},
	{"", "GatherND", 11, 25, lower_gather_nd, GRAPH_MISSING_PASSES},
	{"", "OneHot", 9, 25, lower_one_hot, 0},
	{"", "Scatter", 9, 10, lower_scatter_elements, 0},
	{"", "ScatterElements", 11, 25, lower_scatter_elements, 0},
	{"", "ScatterND", 11, 25, lower_scatter_nd, 0},
	{"", "TopK", 1, 25, lower_topk, 0},
	{0}
};
