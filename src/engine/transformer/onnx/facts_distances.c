/*
 * facts_distances.c
 *	  Matrices of tokens by tokens whose elements depend on the distance alone: the key's place
 *	  less the query's.  Any function that a graph computes of it is evaluated for every distance that a
 *	  text can have, so a bias by buckets needs no recognising.
 *
 * Nouns
 *	column		places along the last axis but one, as [L, 1]
 *	distances	numbers[d + WALK_DISTANCE] for d from −WALK_DISTANCE to WALK_DISTANCE
 *	bias		rows of a constant table [rows, heads] by distances: [L, L, heads] and what is made
 *				of it by moving axes
 *
 * What is not defined for a distance (a logarithm of 0 as a whole number) is NaN, and must not be left in
 * the end.
 */
#include "walk.h"

#include <math.h>
#include <string.h>

#define COUNT	(2 * WALK_DISTANCE + 1)

static double *
new_numbers(struct walk *w)
{
	return graph_pool(w->memory, COUNT, sizeof(double));
}

static void
set_distances(struct fact *result, const struct fact *shape, const double *numbers, bool real)
{
	result->kind = FACT_DISTANCES;
	result->rank = shape->rank;
	memcpy(result->dims, shape->dims, sizeof(shape->dims));
	result->distances = numbers;
	result->real = real;
}

/* ---- where they are from ---- */

/* Places [L] as a column [L, 1]. */
static void
distance_column(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	struct fact shape = {0};
	int64_t		start;

	if (a->kind != FACT_POSITIONS || a->padding >= 0 || !facts_moved(w, node, a, &shape, &start) || shape.rank < 2 ||
		!size_is(shape.dims[shape.rank - 1], 1) || !size_equal(shape.dims[shape.rank - 2], size_length()))
		return;
	*result = *a;
	result->alias = -1;
	result->kind = FACT_COLUMN;
	result->rank = shape.rank;
	memcpy(result->dims, shape.dims, sizeof(shape.dims));
}

/* Places less a column, or the other way round. */
static bool
subtract(struct walk *w, const struct fact *a, const struct fact *b, struct fact *result)
{
	bool		turned = a->kind == FACT_COLUMN;
	const struct fact *row = turned ? b : a, *column = turned ? a : b;
	struct fact shape = {0};
	double	   *numbers;

	if (row->kind != FACT_POSITIONS || row->padding >= 0 || column->kind != FACT_COLUMN || !shape_broadcast(row, column, &shape))
		return false;
	numbers = new_numbers(w);
	for (int i = 0; numbers != NULL && i < COUNT; i++)
	{
		double		number = (double) (i - WALK_DISTANCE + row->first - column->first);

		numbers[i] = turned ? -number : number;
	}
	if (numbers != NULL)
		set_distances(result, &shape, numbers, false);
	return numbers != NULL;
}

/* ---- what is computed of them ---- */

struct operand						/* distances, or one number */
{
	const double *distances;
	double		number;
	struct fact shape;
	bool		real;
};

static bool
get_operand(struct walk *w, int32_t name, struct operand *operand)
{
	const struct fact *fact = walk_fact(w, name);

	*operand = (struct operand) {.shape = *fact, .real = fact->real};
	if (fact->kind == FACT_DISTANCES)
		operand->distances = fact->distances;
	else if (fact->kind == FACT_CONSTANT)
		operand->real = fact->tensor->type == DEVICE_F32;
	return operand->distances != NULL || walk_number(w, name, &operand->number);
}

static double
operand_at(const struct operand *operand, int i)
{
	return operand->distances != NULL ? operand->distances[i] : operand->number;
}

static bool
compute(const char *op, double a, double b, double *result)
{
	static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Min", "Max", "Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual", NULL};
	double		values[] = {
		a + b, a - b, a * b, a / b, isnan(a) || isnan(b) ? NAN : fmin(a, b), isnan(a) || isnan(b) ? NAN : fmax(a, b), a < b, a > b, a == b, a <= b, a >= b
	};

	for (int i = 0; ops[i] != NULL; i++)
		if (strcmp(op, ops[i]) == 0)
		{
			*result = values[i];
			return true;
		}
	return false;
}

static void
distance_compute(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct operand a, b;
	struct fact shape = {0};
	double	   *numbers;
	bool		real;

	if (node_is(node, "Sub") && subtract(w, walk_fact(w, node_input(node, 0)), walk_fact(w, node_input(node, 1)), result))
		return;
	if (!get_operand(w, node_input(node, 0), &a) || !get_operand(w, node_input(node, 1), &b) ||
		(a.distances == NULL && b.distances == NULL) || !shape_broadcast(&a.shape, &b.shape, &shape) || node->inputs_count != 2)
		return;
	real = a.real && b.real;
	numbers = new_numbers(w);
	for (int i = 0; numbers != NULL && i < COUNT; i++)
	{
		if (!compute(node->op, operand_at(&a, i), operand_at(&b, i), &numbers[i]) ||
			(!real && !isnan(numbers[i]) && numbers[i] != floor(numbers[i])))
			return;
		if (real)
			numbers[i] = (double) (float) numbers[i];
	}
	if (numbers != NULL)
		set_distances(result, &shape, numbers, real && node->op[0] != 'L' && node->op[0] != 'G' && node->op[0] != 'E');
}

static void
distance_one(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	int64_t		to = node_int(node, "to", 0);
	bool		cast = node_is(node, "Cast"), whole = cast && (to == ONNX_INT32 || to == ONNX_INT64);
	double	   *numbers;

	if (a->kind != FACT_DISTANCES || (cast && !whole && to != ONNX_FLOAT) || (node_is(node, "Log") && !a->real))
		return;
	numbers = new_numbers(w);
	for (int i = 0; numbers != NULL && i < COUNT; i++)
	{
		double		number = a->distances[i];

		numbers[i] = node_is(node, "Neg") ? -number : node_is(node, "Abs") ? fabs(number) :
			node_is(node, "Log") ? (double) logf((float) number) : whole ? (isfinite(number) ? trunc(number) : NAN) : (double) (float) number;
	}
	if (numbers != NULL)
		set_distances(result, a, numbers, cast ? !whole : a->real);
}

static void
distance_where(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	struct operand which, a, b;
	struct fact shape = {0};
	double	   *numbers;

	if (!get_operand(w, node_input(node, 0), &which) || !get_operand(w, node_input(node, 1), &a) || !get_operand(w, node_input(node, 2), &b) ||
		which.distances == NULL || !shape_broadcast(&a.shape, &b.shape, &shape) || !shape_broadcast(&shape, &which.shape, &shape))
		return;
	numbers = new_numbers(w);
	for (int i = 0; numbers != NULL && i < COUNT; i++)
		numbers[i] = operand_at(operand_at(&which, i) != 0 ? &a : &b, i);
	if (numbers != NULL)
		set_distances(result, &shape, numbers, a.real);
}

/* ---- rows of a table by them ---- */

static void
distance_gather(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *table = walk_fact(w, node_input(node, 0)), *which = walk_fact(w, node_input(node, 1));

	if (which->kind != FACT_DISTANCES || which->rank != 2 || table->kind != FACT_CONSTANT || table->rank != 2 ||
		table->tensor->type != DEVICE_F32 || node_int(node, "axis", 0) != 0)
		return;
	*result = *which;
	result->alias = -1;
	result->kind = FACT_BIAS;
	result->tensor = table->tensor;
	result->dims[result->rank++] = table->dims[1];
}

/* [L, L, heads] → [heads, L, L], and then what only adds axes before. */
static void
distance_moved(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	const struct fact *a = walk_fact(w, node_input(node, 0));
	const struct onnx_attribute *perm = node_attribute(node, "perm");
	struct fact shape = {0};
	int64_t		start;

	if (a->kind != FACT_BIAS || !facts_moved(w, node, a, &shape, &start) || shape.rank < 3)
		return;
	if (node_is(node, "Transpose") ? a->rank != 3 || perm->ints[0] != 2 || perm->ints[1] != 0 || perm->ints[2] != 1 :
		!size_equal(shape.dims[shape.rank - 3], a->dims[a->rank - 3]))
		return;
	if (!size_equal(shape.dims[shape.rank - 1], size_length()) || !size_equal(shape.dims[shape.rank - 2], size_length()))
		return;
	*result = *a;
	result->alias = -1;
	result->rank = shape.rank;
	memcpy(result->dims, shape.dims, sizeof(shape.dims));
}

void
facts_distances(struct walk *w, const struct onnx_node *node, struct fact *result)
{
	static const struct
	{
		const char *op;
		void		(*set) (struct walk *, const struct onnx_node *, struct fact *);
	}			ops[] = {
		{"Add", distance_compute}, {"Sub", distance_compute}, {"Mul", distance_compute}, {"Div", distance_compute}, {"Min", distance_compute},
		{"Max", distance_compute}, {"Less", distance_compute}, {"Greater", distance_compute}, {"LessOrEqual", distance_compute},
		{"GreaterOrEqual", distance_compute}, {"Neg", distance_one}, {"Abs", distance_one}, {"Log", distance_one}, {"Cast", distance_one},
		{"Where", distance_where}, {"Gather", distance_gather}, {"Transpose", distance_moved}, {"Unsqueeze", distance_column},
		{"Unsqueeze", distance_moved}, {"Expand", distance_moved}
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (result->kind == FACT_NONE && node_is(node, ops[i].op))
			ops[i].set(w, node, result);
}

/* ---- as the encoder's ---- */

/* From where on all distances have the row of the last one, on either side. */
static int
last_change(const double *numbers)
{
	int			last = 1;

	for (int i = 1; i < WALK_DISTANCE; i++)
		if (numbers[WALK_DISTANCE + i] != numbers[COUNT - 1] || numbers[WALK_DISTANCE - i] != numbers[0])
			last = i + 1;
	return last;
}

bool
walk_bias(struct walk *w, int32_t name, int64_t heads)
{
	struct encoder *e = w->folder->encoder;
	const struct fact *bias = walk_fact(w, walk_same(w, name));
	int64_t		rows = bias->tensor->dims[0], width;
	float	   *table, *to;

	if (e->relative_max > 0)
		return (w->bias_tensor == bias->tensor && w->bias_distances == bias->distances) ||
			walk_refuse(w, name, "the same bias in all layers is expected");
	if (bias->tensor->dims[1] != heads)
		return walk_refuse(w, name, "a bias for each head is expected");
	w->bias_tensor = bias->tensor;
	w->bias_distances = bias->distances;
	e->relative_max = last_change(bias->distances);
	width = 2 * e->relative_max + 1;
	table = graph_block(w->memory, (uint64_t) bias->tensor->elements * sizeof(*table));
	to = graph_pool(w->folder->memory, (uint64_t) (heads * width), sizeof(*to));
	if (table == NULL || to == NULL || !onnx_tensor_read(bias->tensor, table, w->status))
		return false;
	for (int64_t i = 0; i < width; i++)
	{
		double		row = bias->distances[i - e->relative_max + WALK_DISTANCE];

		if (!(row >= 0 && row < (double) rows && row == floor(row)))
			return walk_refuse(w, name, "a row of the table for each distance is expected");
		for (int64_t h = 0; h < heads; h++)
			to[h * width + i] = table[(int64_t) row * heads + h];
	}
	e->relative_bias = to;
	return true;
}
