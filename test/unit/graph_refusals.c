/*
 * graph_refusals.c
 *	  Files that must be refused: what is not supported is named, what is malformed or hostile
 *	  is an error and nothing else.
 */
#include "graph_fixture.h"

#include "protocol/protocol.h"

/* ---- files of the fixtures ---- */

static void
test_refused(const char *name, uint32_t error, const char *part, const char *what)
{
	struct fixture f;
	bool		opened = fixture_open(&f, name, NULL);

	if (!tap_ok(!opened && f.status.error == error && strstr(f.status.message, part) != NULL, "%s", what))
		printf("# %s: error %u: %s\n", name, f.status.error, f.status.message);
	fixture_close(&f);
}

/* Where to look for what there is. */
static void
test_missing_hint(void)
{
	struct fixture f;
	bool		opened = fixture_open(&f, "unknown_operators.onnx", NULL);

	tap_ok(!opened && strstr(f.status.hint, "docs/models.md") != NULL && strstr(f.status.hint, INFER_VERSION) != NULL,
		   "the hint says where the operators of this version are listed");
	fixture_close(&f);
}

static void
test_fixtures(void)
{
	test_refused("unknown_operators.onnx", INFER_ERROR_UNSUPPORTED,
				 "operators that are not supported: Einsum (ai.onnx 17), Frobnicate (org.example), CastMap (ai.onnx.ml 5)",
				 "all operators that are missing are listed once, with domain and version");
	test_refused("unknown_attribute.onnx", INFER_ERROR_UNSUPPORTED, "\"slope\"", "an unknown attribute is named");
	test_refused("unknown_input.onnx", INFER_ERROR_UNSUPPORTED, "\"slope\"", "so is an unknown input");
	test_refused("no_axis.onnx", INFER_ERROR_MODEL, "no attribute \"axis\"", "an attribute that has no default is missed");
	test_refused("unknown_type.onnx", INFER_ERROR_UNSUPPORTED, "float16", "a type that is not supported is named");
	test_refused("unknown_opset.onnx", INFER_ERROR_UNSUPPORTED, "99", "an unknown operator set is named");
	test_refused("unknown_ir.onnx", INFER_ERROR_UNSUPPORTED, "14", "an unknown IR version is named");
	test_refused("dictionary_shared.onnx", INFER_ERROR_UNSUPPORTED, "\"x\" is a map, and not taken by one DictVectorizer alone",
				 "a map that is taken for a tensor is refused");
	test_refused("function_endless.onnx", INFER_ERROR_UNSUPPORTED, "\"Ping\" of the model calls itself",
				 "a function that calls itself is named");
	test_refused("function_deep.onnx", INFER_ERROR_UNSUPPORTED, "more than 32 deep (function \"F32\")",
				 "functions that call each other too deep are refused");
	test_refused("function_explosion.onnx", INFER_ERROR_UNSUPPORTED, "called too often", "functions that explode are refused");
	test_refused("function_defaults.onnx", INFER_ERROR_UNSUPPORTED, "called too often (function \"F3\")",
				 "so is a default that is read again for each of them");
	test_refused("function_attribute.onnx", INFER_ERROR_MODEL, "\"Leak\" has no attribute \"slop\"",
				 "an attribute that a function does not have is named");
	test_refused("cycle.onnx", INFER_ERROR_MODEL, "\"b\"", "a cycle is refused");
	test_refused("twice.onnx", INFER_ERROR_MODEL, "\"y\" is computed twice", "a value that is computed twice is refused");
	test_refused("no_such_input.onnx", INFER_ERROR_MODEL, "\"nowhere\"", "a value that nothing computes is refused");
	test_refused("dynamic_shape.onnx", INFER_ERROR_UNSUPPORTED, "depends on the row", "a shape that depends on the row is refused");
	test_refused("explosion.onnx", INFER_ERROR_MEMORY, "bytes of host memory", "constants that grow without bound are refused");
	test_refused("slow_constants.onnx", INFER_ERROR_UNSUPPORTED, "operations to compute", "constants that take hours are refused");
	test_refused("deep_gather.onnx", INFER_ERROR_UNSUPPORTED, "15 dimensions", "a constant of too many dimensions is refused");
	test_refused("external_up", INFER_ERROR_MODEL, "\"w\" is malformed: its external data lies outside",
				 "external data in a folder above is refused");
	test_refused("external_inner", INFER_ERROR_MODEL, "\"w\" is malformed: its external data lies outside",
				 "external data that climbs in the middle is refused");
	test_refused("external_absolute", INFER_ERROR_MODEL, "\"w\" is malformed: its external data has an absolute",
				 "external data at an absolute path is refused");
	test_refused("external_none", INFER_ERROR_MODEL, "\"w\" lies in the file \"nothing.bin\"",
				 "external data that is not there is named");
	test_refused("external_far", INFER_ERROR_MODEL, "begins past the end", "an offset past the end is refused");
	test_refused("external_long", INFER_ERROR_MODEL, "reaches past the end", "a length of 2^63 is refused");
	test_refused("external_short", INFER_ERROR_MODEL, "ask for 16 bytes, and it has 8", "a length that is too short is refused");
}

static void
test_trees(void)
{
	struct fixture f;

	tap_ok(fixture_open(&f, "tree_good.onnx", NULL), "the tree that the others are made of is a model");
	tap_ok(f.model != NULL && (f.model->signature.inputs[0].flags & INFER_TENSOR_MISSING) != 0,
		   "its features may be missing");
	fixture_close(&f);
	fixture_open(&f, "tree_directions.onnx", NULL);
	tap_ok(f.model != NULL && (f.model->signature.inputs[0].flags & INFER_TENSOR_MISSING) != 0,
		   "skl2onnx's, where some are sent left");
	fixture_close(&f);
	fixture_open(&f, "tree_directions_lost.onnx", NULL);
	tap_ok(f.model != NULL && (f.model->signature.inputs[0].flags & INFER_TENSOR_MISSING) == 0,
		   "skl2onnx's have lost the way of missing values, where all go right");
	fixture_close(&f);
	fixture_open(&f, "tree_directions_right.onnx", NULL);
	tap_ok(f.model != NULL && (f.model->signature.inputs[0].flags & INFER_TENSOR_MISSING) != 0,
		   "others' may mean it");
	fixture_close(&f);
	test_refused("tree_no_vote.onnx", INFER_ERROR_UNSUPPORTED, "no leaf for target 1 of 2", "a target without votes");
	test_refused("tree_cycle.onnx", INFER_ERROR_MODEL, "with a cycle through its node 0", "a cycle is refused");
	test_refused("tree_itself.onnx", INFER_ERROR_MODEL, "with a cycle through its node 1", "a node that is its own child");
	test_refused("tree_no_child.onnx", INFER_ERROR_MODEL, "without the node 9 that another leads to", "a child that is not there");
	test_refused("tree_negative_child.onnx", INFER_ERROR_MODEL, "without the node -1", "a negative child");
	test_refused("tree_twice.onnx", INFER_ERROR_MODEL, "with two nodes 3", "two nodes of one id");
	test_refused("tree_feature.onnx", INFER_ERROR_MODEL, "feature 2 of rows with 2", "a feature that a row does not have");
	test_refused("tree_negative_feature.onnx", INFER_ERROR_MODEL, "feature -1", "a negative feature");
	test_refused("tree_mode.onnx", INFER_ERROR_MODEL, "unknown mode \"BRANCH_ODD\"", "an unknown mode");
	test_refused("tree_short.onnx", INFER_ERROR_MODEL, "1 elements in nodes_values for 5", "lists of different lengths");
	test_refused("tree_target.onnx", INFER_ERROR_MODEL, "vote for 1 of 1", "a target that is not there");
	test_refused("tree_no_leaf.onnx", INFER_ERROR_MODEL, "vote of the node 7", "a vote of a node that is not there");
	test_refused("tree_targets.onnx", INFER_ERROR_UNSUPPORTED, "1099511627776 targets", "a huge number of targets");
	test_refused("tree_infinite.onnx", INFER_ERROR_MODEL, "not a finite number", "an infinite weight");
	test_refused("tree_slow_constant.onnx", INFER_ERROR_UNSUPPORTED, "operations to compute",
				 "a leaf's votes count as work that constants take");
	test_refused("tree_aggregate.onnx", INFER_ERROR_MODEL, "\"MEDIAN\"", "an unknown aggregate function");
	test_refused("tree_base.onnx", INFER_ERROR_MODEL, "2 base values for 1", "base values that do not fit");
	test_refused("tree_member_root.onnx", INFER_ERROR_MODEL, "edge to the node 2 of 2", "a root that is not there");
	test_refused("tree_member_leaf.onnx", INFER_ERROR_MODEL, "edge to the leaf 2 of 2", "a leaf that is not there");
	test_refused("tree_member_sets.onnx", INFER_ERROR_MODEL, "fewer sets", "fewer sets than nodes that use one");
	test_refused("tree_member_two_trees.onnx", INFER_ERROR_MODEL, "belongs to the trees 0 and 1", "a node of two trees");
	test_refused("tree_member_mode.onnx", INFER_ERROR_MODEL, "unknown mode 7", "an unknown number of a mode");
	test_refused("tree_deep.onnx", INFER_ERROR_UNSUPPORTED, "more than 1024 levels", "a chain of three thousand nodes");
}

/* ---- files made here ---- */

static uint8_t made[1 << 20];
static size_t made_size;

static void
put_byte(uint8_t byte)
{
	made[made_size++] = byte;
}

static void
put_varint(uint64_t value)
{
	while (value >= 0x80)
	{
		put_byte((uint8_t) (value | 0x80));
		value >>= 7;
	}
	put_byte((uint8_t) value);
}

static void
put_number(uint32_t field, uint64_t value)
{
	put_varint(field << 3);
	put_varint(value);
}

static void
put_bytes(uint32_t field, const void *data, size_t length)
{
	put_varint(field << 3 | 2);
	put_varint(length);
	memcpy(made + made_size, data, length);
	made_size += length;
}

static bool
open_bytes(const uint8_t *data, size_t size, struct status *status)
{
	struct model_file file = {"model.onnx", data, size};
	struct model_files files = {1, &file};
	struct model *model;

	status_clear(status);
	model = graph_model_ops.open(&files, "", fixture_device_get(), status);
	if (model != NULL)
		graph_model_ops.close(model);
	return model != NULL;
}

static void
test_made(const char *part, const char *what)
{
	struct status status;
	bool		opened = open_bytes(made, made_size, &status);

	if (!tap_ok(!opened && status.error != 0 && strstr(status.message, part) != NULL, "%s", what))
		printf("# error %u: %s\n", status.error, status.message);
	made_size = 0;
}

/* Wraps what has been put since start into a field. */
static void
wrap(size_t start, uint32_t field)
{
	static uint8_t copy[sizeof(made)];
	size_t		length = made_size - start;

	memcpy(copy, made + start, length);
	made_size = start;
	put_bytes(field, copy, length);
}

static void
put_dims_tensor(uint64_t dim, uint32_t repeats, const void *raw, size_t raw_size)
{
	size_t		graph, tensor;

	put_number(1, 8);
	graph = made_size;
	tensor = made_size;
	for (uint32_t i = 0; i < repeats; i++)
		put_number(1, dim);
	put_number(2, 1);
	put_bytes(8, "w", 1);
	put_bytes(9, raw, raw_size);
	wrap(tensor, 5);
	wrap(graph, 7);
}

static void
test_hostile(void)
{
	static const uint8_t zeros[64];
	size_t		start;

	test_made("it is empty", "an empty file is refused");
	put_number(2, 8);
	test_made("no IR version", "so is one that does not say which version it has");

	put_number(1, 8);
	put_varint(7 << 3 | 2);
	put_varint(UINT64_C(1) << 63);
	test_made("a length reaches past the end", "a length of 2^63 is refused");

	put_number(1, 8);
	for (int i = 0; i < 11; i++)
		put_byte(0xFF);
	test_made("more than 64 bits", "a number of more than 64 bits is refused");

	put_number(1, 8);
	put_byte(7 << 3 | 3);
	test_made("unknown wire type", "a group is refused");

	put_number(1, 8);
	put_bytes(7, "", 0);
	put_bytes(7, "", 0);
	test_made("two graphs", "two graphs are refused");

	put_number(1, 8);
	test_made("no graph", "a model without a graph is refused");

	put_dims_tensor(UINT64_C(1) << 62, 1, zeros, 64);
	test_made("dimensions are too large", "a dimension of 2^62 is refused");
	put_dims_tensor(UINT64_MAX, 1, zeros, 64);
	test_made("a dimension is negative", "a negative dimension is refused");
	put_dims_tensor(1 << 20, 3, zeros, 64);
	test_made("\"w\" is malformed", "dimensions whose product overflows are refused");
	put_dims_tensor(15, 1, zeros, 64);
	test_made("ask for 60 bytes, and it has 64", "dimensions and data must agree");
	put_dims_tensor(1, 9, zeros, 4);
	test_made("more than 8 dimensions", "more than eight dimensions are refused");

	/* a subgraph in an attribute in a node …, thousands deep, inside a node that is refused */
	start = made_size;
	for (int i = 0; i < 2000; i++)
	{
		wrap(start, 6);				/* AttributeProto.g */
		wrap(start, 5);				/* NodeProto.attribute */
		wrap(start, 1);				/* GraphProto.node */
	}
	wrap(start, 7);
	put_number(1, 8);
	test_made("", "nesting two thousand deep is refused");
}

/* ---- every cut of a good file, and every byte of it changed ---- */

static void
test_damage(const char *name)
{
	struct fixture f;
	struct status status;
	uint8_t    *copy;
	size_t		size;
	uint32_t	cuts = 0, silent = 0;

	fixture_open(&f, name, NULL);
	size = f.files.files[0].size;
	copy = malloc(size);
	memcpy(copy, f.files.files[0].data, size);
	for (size_t cut = 0; cut < size; cut++)
	{
		uint8_t    *part = malloc(cut + 1);

		memcpy(part, copy, cut);
		if (open_bytes(part, cut, &status))
			cuts++;
		else if (status.error == INFER_OK || status.message[0] == '\0')
			silent++;
		free(part);
	}
	tap_ok(silent == 0, "%s cut anywhere is refused with a reason (or still a model: %u times)", name, cuts);
	silent = 0;
	for (size_t at = 0; at < size; at++)
	{
		for (int bit = 0; bit < 8; bit++)
		{
			copy[at] ^= (uint8_t) (1 << bit);
			if (!open_bytes(copy, size, &status) && (status.error == INFER_OK || status.message[0] == '\0'))
				silent++;
			copy[at] ^= (uint8_t) (1 << bit);
		}
	}
	tap_ok(silent == 0, "%s with any bit changed is refused with a reason or still a model", name);
	free(copy);
	fixture_close(&f);
}

int
main(void)
{
	test_fixtures();
	test_missing_hint();
	test_trees();
	test_hostile();
	test_damage("layer.onnx");
	test_damage("typed.onnx");
	test_damage("missing.onnx");
	test_damage("tree_good.onnx");
	test_damage("tree_member.onnx");
	fixture_device->ops->close(fixture_device);
	return tap_done();
}
