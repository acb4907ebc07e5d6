/*
 * facts_tokens.c
 *	  The tokens, and the rows of the table of positions: counted from the text's start, or, as
 *	  RoBERTa's code has it, by how many tokens so far are not the padding.
 */
#include "walk.h"

#include <string.h>

#define PLACES_MAX	(1 << 20)

/* The same tokens, or places, in another type or shape. */
static void
keep(struct walk *w, int32_t name, struct fact *result)
{
	*result = *walk_fact(w, name);
	result->alias = -1;
}

static void
tokens_cast(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	uint8_t		kind = walk_fact(w, node_input(node, 0))->kind;
	int64_t		to = node_int(node, "to", 0);

	if (kind >= FACT_IDS && kind <= FACT_COLUMN && (to == ONNX_INT32 || to == ONNX_INT64 || (to == ONNX_BOOL && (kind == FACT_PADDING || kind == FACT_REAL))))
		keep(w, node_input(node, 0), result);
}

static void
tokens_equal(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	double		number;

	if (a->kind != FACT_IDS || !walk_number(w, node_input(node, 1), &number) || number < 0 || number > FOLDER_SIZE_MAX)
		return;
	keep(w, node_input(node, 0), result);
	result->kind = FACT_PADDING;
	result->padding = (int64_t) number;
}

static void
tokens_not(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	uint8_t		kind = walk_fact(w, node_input(node, 0))->kind;

	if (kind != FACT_PADDING && kind != FACT_REAL)
		return;
	keep(w, node_input(node, 0), result);
	result->kind = kind == FACT_PADDING ? FACT_REAL : FACT_PADDING;
}

static void
tokens_count(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	double		axis;

	if (walk_fact(w, node_input(node, 0))->kind != FACT_REAL || !walk_number(w, node_input(node, 1), &axis) ||
		(axis != 1 && axis != -1) || node_int(node, "exclusive", 0) != 0 || node_int(node, "reverse", 0) != 0)
		return;
	keep(w, node_input(node, 0), result);
	result->kind = FACT_COUNT;
	result->masked = false;
}

static void
tokens_mask(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	for (uint32_t i = 0; i < 2; i++)
	{
		const struct fact *count = walk_fact(w, node_input(node, i)), *real = walk_fact(w, node_input(node, 1 - i));

		if (count->kind != FACT_COUNT || real->kind != FACT_REAL || count->padding != real->padding)
			continue;
		keep(w, node_input(node, i), result);
		result->masked = true;
		return;
	}
}

/* A count becomes RoBERTa's places when the padding is added to it; places move on. */
static bool
add_number(const struct fact *a, double number, struct fact *result)
{
	if (a->kind == FACT_COUNT && a->masked && number == (double) a->padding)
	{
		result->kind = FACT_POSITIONS;
		result->first = a->padding + 1;
		return true;
	}
	result->first += (int64_t) number;
	return number == 0 || (a->kind == FACT_POSITIONS && a->padding < 0);
}

static void
tokens_add(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	for (uint32_t i = 0; i < 2; i++)
	{
		const struct fact *a = walk_fact(w, node_input(node, i));
		struct fact sum;
		double		number;

		if ((a->kind != FACT_COUNT && a->kind != FACT_POSITIONS) || !walk_number(w, node_input(node, 1 - i), &number) || number < 0 ||
			number > PLACES_MAX)
			continue;
		keep(w, node_input(node, i), &sum);
		if (add_number(a, number, &sum))
			*result = sum;
		return;
	}
}

/* Constants that count up by one. */
static bool
constant_counts(struct walk *w, const struct fact *fact, int64_t *first)
{
	const struct onnx_tensor *tensor = fact->tensor;
	struct status ignored = {0};
	int64_t    *data;
	bool		counts;

	if (fact->kind != FACT_CONSTANT || tensor->type != DEVICE_I64 || fact->rank < 1 || fact->rank > 2 ||
		(fact->rank == 2 && tensor->dims[0] != 1) || tensor->elements > PLACES_MAX || !walk_may_look(w, tensor->elements))
		return false;
	data = graph_block(w->memory, (uint64_t) tensor->elements * sizeof(*data));
	if (data == NULL)
		return false;
	counts = onnx_tensor_read(tensor, data, &ignored) && data[0] >= 0 && data[0] <= PLACES_MAX;
	for (int64_t i = 1; counts && i < tensor->elements; i++)
		counts = data[i] == data[0] + i;
	*first = data[0];
	graph_block_free(w->memory, data);
	return counts;
}

static void
tokens_moved(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	struct fact shape = {0};
	int64_t		first, start;

	if (a->kind != FACT_POSITIONS && a->kind != FACT_IDS && a->kind != FACT_TYPES && a->kind != FACT_CONSTANT)
		return;
	if (!facts_moved(w, node, a, &shape, &start))
		return;
	if (a->kind == FACT_CONSTANT)
	{
		if (!node_is(node, "Slice") || !size_equal(shape.dims[shape.rank - 1], size_length()) || !constant_counts(w, a, &first))
			return;
		result->kind = FACT_POSITIONS;
		result->first = first + start;
		result->places = a->tensor->elements - start;
		result->padding = -1;
	}
	else if (shape.rank < 1 || !size_equal(shape.dims[shape.rank - 1], size_length()) || start != 0)
		return;
	else
		keep(w, node_input(node, 0), result);
	result->rank = shape.rank;
	memcpy(result->dims, shape.dims, sizeof(shape.dims));
}

static void
tokens_range(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *end = walk_fact(w, node_input(node, 1));
	double		start, step;

	if (!walk_number(w, node_input(node, 0), &start) || start < 0 || start > PLACES_MAX || !walk_number(w, node_input(node, 2), &step) ||
		step != 1 || end->kind != FACT_INTS || end->count != 1 ||
		!size_equal(end->ints[0], (struct size) {(int64_t) start, 0, 1}))
		return;
	result->kind = FACT_POSITIONS;
	result->first = (int64_t) start;
	result->rank = 1;
	result->dims[0] = size_length();
}

void
facts_tokens(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	static const struct
	{
		const char *op;
		void		(*set) (struct walk *, const struct onnx_node *, struct fact *);
	}			ops[] = {
		{"Cast", tokens_cast}, {"Equal", tokens_equal}, {"Not", tokens_not}, {"CumSum", tokens_count}, {"Mul", tokens_mask},
		{"Add", tokens_add}, {"Slice", tokens_moved}, {"Expand", tokens_moved}, {"Unsqueeze", tokens_moved}, {"Reshape", tokens_moved},
		{"Range", tokens_range}
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (node_is(node, ops[i].op))
			ops[i].set(w, node, result);
}
