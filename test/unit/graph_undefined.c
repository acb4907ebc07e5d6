/*
 * graph_undefined.c
 *	  Constants of which an element is no number, since a float does not fit the integer that it is cast
 *	  to: an error where something reads it, and none where nothing does.
 *
 * The graph: y = x + d, of three int64 each, where d is made of constants.
 */
#include <math.h>
#include <stdio.h>

#include "engine/device.h"
#include "engine/model/graph/graph_model.h"
#include "engine/status.h"
#include "tap.h"
#include "wide_model.h"

enum way						/* from the cast c to d */
{
	READ,						/* d = c */
	PASSED_OVER,				/* d = Where(not the second, Min(c + 1, 7), 5) */
	TAKEN,						/* d = Where(the second, Min(c + 1, 7), 5) */
	MOVED,						/* d = Concat(c) */
	FITS						/* d = c, of numbers that fit */
};

static struct device *device;

static void
put_tensor(struct wide_bytes *graph, const char *name, int type, int64_t count, const void *data, size_t bytes)
{
	struct wide_bytes tensor = {0};

	wide_number(&tensor, 1, (uint64_t) count);
	wide_number(&tensor, 2, (uint64_t) type);
	wide_text(&tensor, 8, name);
	wide_field(&tensor, 9, data, bytes);
	wide_inner(graph, 5, &tensor);
}

/* inputs: NULL ends them; attribute: NULL, or a whole number's name. */
static void
put_node(struct wide_bytes *graph, const char *op, const char *const *inputs, const char *y, const char *attribute, int64_t number)
{
	struct wide_bytes node = {0}, value = {0};

	for (; *inputs != NULL; inputs++)
		wide_text(&node, 1, *inputs);
	wide_text(&node, 2, y);
	wide_text(&node, 4, op);
	if (attribute != NULL)
	{
		wide_text(&value, 1, attribute);
		wide_number(&value, 3, (uint64_t) number);
		wide_number(&value, 20, 2);
		wide_inner(&node, 5, &value);
	}
	wide_inner(graph, 1, &node);
}

static void
put_value(struct wide_bytes *graph, int field, const char *name)
{
	struct wide_bytes value = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};

	wide_text(&dim, 2, "N");
	wide_inner(&shape, 1, &dim);
	wide_number(&dim, 1, 3);
	wide_inner(&shape, 1, &dim);
	wide_number(&tensor, 1, 7);
	wide_inner(&tensor, 2, &shape);
	wide_inner(&type, 1, &tensor);
	wide_text(&value, 1, name);
	wide_inner(&value, 2, &type);
	wide_inner(graph, field, &value);
}

static struct wide_bytes
make_file(enum way way)
{
	const float numbers[3] = {1, way == FITS ? 4.0f : -INFINITY, 2};
	const uint8_t flags[3] = {way != TAKEN, way == TAKEN, way != TAKEN};
	const int64_t one = 1, seven = 7, five = 5;
	bool		where = way == PASSED_OVER || way == TAKEN;
	struct wide_bytes graph = {0}, model = {0}, opset = {0};

	put_node(&graph, "Cast", (const char *const[]) {"f", NULL}, where || way == MOVED ? "c" : "d", "to", 7);
	if (way == MOVED)
		put_node(&graph, "Concat", (const char *const[]) {"c", NULL}, "d", "axis", 0);
	if (where)
	{
		put_node(&graph, "Add", (const char *const[]) {"c", "one", NULL}, "e", NULL, 0);
		put_node(&graph, "Min", (const char *const[]) {"e", "seven", NULL}, "m", NULL, 0);
		put_node(&graph, "Where", (const char *const[]) {"flags", "m", "five", NULL}, "d", NULL, 0);
	}
	put_node(&graph, "Add", (const char *const[]) {"x", "d", NULL}, "y", NULL, 0);
	wide_text(&graph, 2, "undefined");
	put_tensor(&graph, "f", 1, 3, numbers, sizeof(numbers));
	put_tensor(&graph, "flags", 9, 3, flags, sizeof(flags));
	put_tensor(&graph, "one", 7, 1, &one, sizeof(one));
	put_tensor(&graph, "seven", 7, 1, &seven, sizeof(seven));
	put_tensor(&graph, "five", 7, 1, &five, sizeof(five));
	put_value(&graph, 11, "x");
	put_value(&graph, 12, "y");
	wide_number(&model, 1, 8);
	wide_inner(&model, 7, &graph);
	wide_number(&opset, 2, 13);
	wide_inner(&model, 8, &opset);
	return model;
}

/* The elements of d in a graph that was read. */
static const int64_t *
constant_d(const struct model *model)
{
	const struct graph *graph = graph_model_graph(model);

	for (uint32_t i = 0; i < graph->values_count; i++)
		if (graph->values[i].name != NULL && strcmp(graph->values[i].name, "d") == 0)
			return graph->values[graph_root(graph, (int32_t) i)].data;
	return NULL;
}

static void
test_way(enum way way, const char *name, const char *message, int64_t second)
{
	struct wide_bytes data = make_file(way);
	struct model_file file = {.name = "model.onnx", .data = data.data, .size = data.size};
	struct model_files files = {.count = 1, .files = &file};
	struct status status = {0};
	struct model *model = graph_model_ops.open(&files, "", device, &status);
	const int64_t *d = model == NULL ? NULL : constant_d(model);

	if (message != NULL)
		tap_ok(model == NULL && strstr(status.message, message) != NULL, "%s: %s", name, status.message);
	else
		tap_ok(d != NULL && d[1] == second, "%s: %lld %s", name, d == NULL ? 0 : (long long) d[1], status.message);
	if (model != NULL)
		graph_model_ops.close(model);
	free(data.data);
}

int
main(void)
{
	struct device_options options = {.threads = 1};
	struct status status = {0};

	device = device_open("cpu", &options, &status);
	test_way(FITS, "what fits is cast", NULL, 4);
	test_way(PASSED_OVER, "an element that is no number is passed over, and what is made of it", NULL, 5);
	test_way(TAKEN, "one that is taken is refused", "operator Cast (node 0) cannot be computed on its constants: a number does not fit", 0);
	test_way(READ, "and one that a row's op reads", "operator Cast (node 0) cannot be computed on its constants: a number does not fit", 0);
	test_way(MOVED, "and one that is moved", "operator Cast (node 0) cannot be computed on its constants: a number does not fit", 0);
	device->ops->close(device);
	return tap_done();
}
