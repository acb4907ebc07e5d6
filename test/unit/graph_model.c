/*
 * graph_model.c
 *	  Graphs as models: what a request gives, row by row, whatever batch it is in.
 */
#include "graph_fixture.h"

/* ---- results ---- */

static void
test_layer(const char *name, const float wanted[6])
{
	struct fixture f;
	float		x[4] = {1, 2, -1, 3};

	if (!tap_ok(fixture_open(&f, name, NULL), "%s opens", name))
	{
		printf("# %s\n", f.status.message);
		return;
	}
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), x, sizeof(x));
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), wanted, 6), "%s gives its numbers", name);
	fixture_close(&f);
}

static void
test_results(void)
{
	struct fixture f;
	float		x[6] = {1, 2, 4, 8, 2, 4};
	float		y[6] = {0.25f, 0.5f, 1, 1, 0.25f, 0.5f};
	float		square[8] = {1, 2, 3, 4, 10, 20, 30, 40};

	/* x·W = [9 12 15] and [11 13 15] */
	test_layer("layer.onnx", (float[]) {9.5f, 0, 15.25f, 11.5f, 0, 15.25f});
	test_layer("layer_gemm.onnx", (float[]) {18.5f, -38, 30.25f, 22.5f, -37, 30.25f});
	test_layer("layer_norm.onnx", (float[]) {9, 13, 30.5f, 11, 14, 30.5f});

	fixture_open(&f, "layer_shared.onnx", NULL);
	fixture_rows(&f, 1);
	memcpy(fixture_input(&f, 0), x, 8);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {9, 12, 15}, 3) &&
		   floats_are(fixture_output(&f, 1), (float[]) {9.5f, -88, 15.25f}, 3) &&
		   floats_are(fixture_output(&f, 2), (float[]) {9, 12, 15}, 3),
		   "a product that is an output itself is not fused away");
	fixture_close(&f);

	fixture_open(&f, "row_axis.onnx", NULL);
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), x, sizeof(x));
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), y, 6),
		   "a maximum over everything is one per row");
	tap_ok(memcmp(fixture_output(&f, 1), x, sizeof(x)) == 0, "transposing at batch 1 keeps each row to itself");
	fixture_close(&f);

	fixture_open(&f, "fixed_shape.onnx", NULL);
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), square, sizeof(square));
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {10, 100}, 2),
		   "a fixed shape is one evaluation per row");
	tap_ok((f.model->signature.flags & INFER_SIGNATURE_ROW_BY_ROW) != 0, "and the signature says so");
	fixture_close(&f);

	fixture_open(&f, "dictionary.onnx", NULL);
	tap_ok(f.model != NULL && f.model->signature.features_count == 2 &&
		   strcmp(f.model->signature.features[0], "width") == 0 && strcmp(f.model->signature.features[1], "age") == 0,
		   "a map's keys are the features");
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), (float[]) {1, 2, 3, 4}, 16);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {-1, -2, -3, -4}, 4),
		   "a map is a row of numbers");
	fixture_close(&f);

	/* x = -8 16: Leak by the slope of 0.5 gives -12 32, again by the default of 0.01 -12.12 64 */
	fixture_open(&f, "function.onnx", NULL);
	fixture_rows(&f, 1);
	memcpy(fixture_input(&f, 0), (float[]) {-8, 16}, 8);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {-12.12f, 64}, 2) &&
		   floats_are(fixture_output(&f, 1), (float[]) {-12.12f - 10.1f, 128}, 2) &&
		   floats_are(fixture_output(&f, 2), (float[]) {8.08f, -8}, 2),
		   "functions of the model are put in their calls' places: nested, with attributes, of their own operator set");
	fixture_close(&f);

	fixture_open(&f, "function_long_names.onnx", NULL);
	fixture_rows(&f, 1);
	memcpy(fixture_input(&f, 0), (float[]) {-8, 16}, 8);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {8, -16}, 2),
		   "names of a function that differ at their ends alone stay apart");
	fixture_close(&f);

	fixture_open(&f, "typed.onnx", NULL);
	fixture_rows(&f, 1);
	memcpy(fixture_input(&f, 0), x, 8);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {2.5f, 1099511627776.0f}, 2),
		   "typed fields of every type are read");
	fixture_close(&f);

	for (int i = 0; i < 2; i++)
	{
		fixture_open(&f, i == 0 ? "external" : "external_sub", NULL);
		fixture_rows(&f, 1);
		memcpy(fixture_input(&f, 0), x, 8);
		tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {7, 10}, 2), "external data %d is read", i);
		fixture_close(&f);
	}
}

/* ---- the same row in any company ---- */

static void
test_company(void)
{
	struct fixture f;
	float		alone[16];
	bool		same = true, lonely;

	fixture_open(&f, "chain.onnx", NULL);
	fixture_rows(&f, 1);
	for (int i = 0; i < 16; i++)
		((float *) fixture_input(&f, 0))[i] = 0.1f * (float) i;
	lonely = fixture_run(&f);
	memcpy(alone, fixture_output(&f, 0), sizeof(alone));
	for (uint32_t rows = 2; rows <= 67 && same; rows += 13)
		for (uint32_t at = 0; at < rows && same; at++)
		{
			fixture_rows(&f, rows);
			for (uint32_t i = 0; i < rows * 16; i++)
				((float *) fixture_input(&f, 0))[i] = i / 16 == at ? 0.1f * (float) (i % 16) :
					i % 3 == 0 ? NAN : 1e30f;
			same = fixture_run(&f) &&
				memcmp((const float *) fixture_output(&f, 0) + 16 * at, alone, sizeof(alone)) == 0 &&
				f.request.row_status[at] == INFER_OK;
		}
	tap_ok(lonely && same, "a row has the same bits among strangers, wherever it stands");
	tap_ok(fixture_graph(&f)->arena_item_bytes == 3 * 64, "a chain of ops uses its memory again");
	fixture_close(&f);
}

/* ---- slices of several requests ---- */

static void
test_slices(void)
{
	struct fixture a, b;
	struct model_slice slices[3];
	float		wanted[6] = {9.5f, 0, 15.25f, 11.5f, 0, 15.25f};
	bool		fine;

	fixture_open(&a, "layer.onnx", NULL);
	fixture_open(&b, "layer.onnx", NULL);
	fixture_rows(&a, 3);
	fixture_rows(&b, 2);
	memcpy(fixture_input(&a, 0), (float[]) {0, 0, 1, 2, -1, 3}, 24);
	memcpy(fixture_input(&b, 0), (float[]) {1, 2, -1, 3}, 16);
	fixture_layout(&a);
	fixture_layout(&b);
	slices[0] = (struct model_slice) {&b.request, 1, 1};
	slices[1] = (struct model_slice) {&a.request, 1, 2};
	slices[2] = (struct model_slice) {&b.request, 0, 1};
	fine = a.model->ops->run(a.model, a.queue, NULL, slices, 3, &a.status);
	tap_ok(fine && floats_are((const float *) fixture_output(&a, 0) + 3, wanted, 6) &&
		   floats_are(fixture_output(&b, 0), wanted, 6), "rows of two requests go back to where they came from");
	fixture_close(&a);
	fixture_close(&b);
}

/* ---- errors of rows ---- */

static void
test_row_errors(void)
{
	struct fixture f;
	float		x[4] = {1, -1, 0, 2};

	fixture_open(&f, "finite.onnx", NULL);
	fixture_rows(&f, 4);
	memcpy(fixture_input(&f, 0), x, sizeof(x));
	tap_ok(fixture_run(&f), "a batch with bad rows is computed");
	tap_ok(f.request.row_status[0] == INFER_OK && f.request.row_status[1] == INFER_ERROR_NOT_FINITE &&
		   f.request.row_status[2] == INFER_ERROR_NOT_FINITE && f.request.row_status[3] == INFER_OK,
		   "rows whose output is NaN or infinite fail alone");
	tap_ok(strcmp(fixture_row_message(&f, 1), "the model's output \"y\" is not finite") == 0,
		   "and the message names the output");
	tap_ok(memcmp(fixture_output(&f, 1), x, sizeof(x)) == 0, "an input handed on is an output");
	tap_ok(floats_are(fixture_output(&f, 2), (float[]) {7, 8, 7, 8, 7, 8, 7, 8}, 8), "a constant output is every row's");
	fixture_close(&f);
}

static void
test_constant_texts(void)
{
	struct fixture f;
	int64_t    *x;
	bool		right = true;

	fixture_open(&f, "constant_texts.onnx", NULL);
	fixture_rows(&f, 200);
	x = fixture_input(&f, 0);
	for (int i = 0; i < 200; i++)
		x[i] = i * 100 + 7;
	tap_ok(fixture_run(&f), "many texts that are made of constants are there when the model runs");
	for (int i = 0; i < 200; i++)
		right = right && atoi(fixture_output_text(&f, 0, i)) == i * 100 + 7;
	tap_ok(right, "each of them whole");
	fixture_close(&f);
}

static void
test_tables(void)
{
	struct fixture f;
	const int64_t *codes, *chosen;
	struct infer_span *spans;

	fixture_open(&f, "strings.onnx", NULL);
	fixture_rows(&f, 3);
	fixture_text(&f, 0, 0, "green");
	fixture_text(&f, 0, 1, "red");
	fixture_text(&f, 0, 2, "colourless");
	memcpy(fixture_input(&f, 1), (uint8_t[]) {1, 0, 200}, 3);
	tap_ok(fixture_run(&f), "strings and booleans run");
	codes = fixture_output(&f, 0);
	chosen = fixture_output(&f, 2);
	tap_ok(codes[0] == 20 && codes[1] == 10 && codes[2] == -1, "strings are looked up");
	tap_ok(strcmp(fixture_output_text(&f, 1, 0), "green") == 0 &&
		   strcmp(fixture_output_text(&f, 1, 2), "colourless") == 0, "and handed on");
	tap_ok(chosen[0] == 20 && chosen[1] == 0 && chosen[2] == -1, "a byte that is neither 0 nor 1 is true");

	spans = (struct infer_span *) (f.region + f.columns[0].spans_offset);
	spans[1].begin = UINT32_MAX;
	spans[1].length = UINT32_MAX;
	tap_ok(fixture_run(&f) && f.request.row_status[0] == INFER_OK && f.request.row_status[1] == INFER_ERROR_PROTOCOL &&
		   f.request.row_status[2] == INFER_OK, "a span outside its column fails its row alone");
	f.columns[0].spans_offset = FIXTURE_REGION - 8;
	tap_ok(!fixture_run(&f) && f.status.error == INFER_ERROR_PROTOCOL, "a column outside its region fails the batch");
	fixture_close(&f);

	fixture_open(&f, "missing.onnx", NULL);
	tap_ok((f.model->signature.inputs[0].flags & INFER_TENSOR_MISSING) != 0 &&
		   (f.model->signature.inputs[1].flags & INFER_TENSOR_MISSING) != 0 &&
		   (f.model->signature.inputs[2].flags & INFER_TENSOR_MISSING) == 0,
		   "inputs that only an imputer reads may be missing, others not");
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), (float[]) {NAN, 1}, 8);
	memcpy(fixture_input(&f, 1), (float[]) {2, NAN}, 8);
	memcpy(fixture_input(&f, 2), (float[]) {10, 100}, 8);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {50, 20, 100, 600}, 4),
		   "and what is missing is imputed");
	fixture_close(&f);

	fixture_open(&f, "missing_ways.onnx", NULL);
	tap_ok((f.model->signature.inputs[0].flags & INFER_TENSOR_MISSING) != 0,
		   "a scaler hands on what is missing");
	tap_ok((f.model->signature.inputs[1].flags & INFER_TENSOR_MISSING) != 0,
		   "what is tested and replaced may be missing");
	tap_ok((f.model->signature.inputs[2].flags & INFER_TENSOR_MISSING) == 0,
		   "not what is replaced where something else is missing");
	tap_ok((f.model->signature.inputs[3].flags & INFER_TENSOR_MISSING) == 0,
		   "nor what would be missing in an output");
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), (float[]) {NAN, 3}, 8);
	memcpy(fixture_input(&f, 1), (float[]) {2, NAN}, 8);
	memcpy(fixture_input(&f, 2), (float[]) {8, 9}, 8);
	memcpy(fixture_input(&f, 3), (float[]) {1, 2}, 8);
	tap_ok(fixture_run(&f) && floats_are(fixture_output(&f, 0), (float[]) {5, 2, 8, 0, 0, 4, 7, 7, 0, 2}, 10),
		   "and each is filled");
	fixture_close(&f);

	fixture_open(&f, "stacking.onnx", NULL);
	tap_ok(f.model->signature.outputs[0].role == INFER_ROLE_LABEL && f.model->signature.outputs[1].role == INFER_ROLE_SCORES &&
		   f.model->signature.classes_count == 2 && strcmp(f.model->signature.classes[1], "leaves") == 0,
		   "labels picked from an inner model's scores name those");
	fixture_close(&f);

	fixture_open(&f, "times_one.onnx", NULL);
	tap_ok(f.model->signature.outputs[1].role == INFER_ROLE_SCORES && f.model->signature.classes_count == 2,
		   "scores times one are the scores");
	fixture_close(&f);
}

/* Strings that are long only together are nobody's error: the batch is to be run in parts. */
static void
test_long_strings(void)
{
	enum
	{
		ROWS = 600					/* times FIXTURE_TEXTS bytes: more than one batch takes */
	};
	struct fixture f;
	struct infer_span *spans;
	uint64_t	before;
	bool		good;

	fixture_open(&f, "strings.onnx", NULL);
	fixture_rows(&f, ROWS);
	spans = (struct infer_span *) (f.region + f.columns[0].spans_offset);
	for (int i = 0; i < ROWS; i++)
		spans[i] = (struct infer_span) {0, FIXTURE_TEXTS};
	tap_ok(!fixture_run(&f) && f.status.error != INFER_OK, "strings too long for a batch fail it as a whole");
	good = fixture_layout(&f);
	for (uint32_t first = 0; first < ROWS; first += ROWS / 4)
		good = good && fixture_run_slice(&f, first, ROWS / 4);
	for (uint32_t row = 0; row < ROWS; row++)
		good = good && f.request.row_status[row] == INFER_OK;
	tap_ok(good, "and no row of it");

	for (int i = 0; i < ROWS; i++)
		spans[i] = (struct infer_span) {0, i == 0 ? 40u << 20 : 1};
	f.columns[0].data_bytes = 40u << 20;
	f.request.region = f.region = realloc(f.region, 64u << 20);
	f.request.region_bytes = 64u << 20;
	f.request.reply = f.region + (48u << 20);
	f.request.reply_bytes = 16u << 20;
	before = f.model->bytes;
	tap_ok(fixture_layout(&f) && !fixture_run_slice(&f, 0, 2) && fixture_run_slice(&f, 0, 1) &&
		   fixture_run_slice(&f, 1, 1) && f.model->bytes <= before,
		   "one row may have longer ones, alone, whose memory is not kept");
	fixture_close(&f);
}

/* ---- signatures ---- */

static void
test_signatures(void)
{
	struct fixture f;
	const struct infer_signature *s;

	fixture_open(&f, "argmax.onnx", NULL);
	s = &f.model->signature;
	tap_ok(s->task == INFER_TASK_CLASSIFIER && s->outputs[0].role == INFER_ROLE_LABEL &&
		   s->outputs[1].role == INFER_ROLE_SCORES && s->classes_count == 3 && strcmp(s->classes[1], "middle") == 0,
		   "labels[ArgMax(scores)] is a classifier");
	tap_ok(s->outputs[0].rank == 0 && s->outputs[1].rank == 1 && s->outputs[1].dims[0] == 3,
		   "dimensions are those of one row");
	fixture_rows(&f, 2);
	memcpy(fixture_input(&f, 0), (float[]) {1, 3, 2, 5, 4, 3}, 24);
	tap_ok(fixture_run(&f) && strcmp(fixture_output_text(&f, 0, 0), "middle") == 0 &&
		   strcmp(fixture_output_text(&f, 0, 1), "low") == 0, "with labels as strings");
	fixture_close(&f);

	fixture_open(&f, "layer.onnx", NULL);
	s = &f.model->signature;
	tap_ok(s->features_count == 2 && strcmp(s->features[1], "second") == 0, "the file may name the features");
	tap_ok(strcmp(s->format, "onnx 8, ai.onnx 17") == 0, "the format says which versions");
	fixture_close(&f);

	tap_ok(!fixture_open(&f, "varying.onnx", NULL) && f.status.error == INFER_ERROR_UNSUPPORTED &&
		   strstr(f.status.hint, "{\"dims\": {\"seq\": SIZE}}") != NULL, "a varying dimension is refused with what to do");
	fixture_close(&f);
	tap_ok(fixture_open(&f, "varying.onnx", "{\"dims\": {\"seq\": 4}}") && f.model->signature.inputs[0].dims[0] == 4,
		   "and fixed by the option dims");
	fixture_close(&f);
	tap_ok(fixture_open(&f, "layer.onnx", "{\"dims\": {\"N\": 3}}") && f.model->signature.inputs[0].rank == 2 &&
		   (f.model->signature.flags & INFER_SIGNATURE_ROW_BY_ROW) != 0, "the batch can be fixed too");
	fixture_close(&f);
	tap_ok(!fixture_open(&f, "varying.onnx", "{\"dims\": {\"seq\": 4, \"other\": 2}}") &&
		   strstr(f.status.message, "other") != NULL, "an option for a dimension that is not there is refused");
	fixture_close(&f);
	tap_ok(!fixture_open(&f, "layer.onnx", "{\"colour\": 1}") && strstr(f.status.message, "colour") != NULL,
		   "an unknown option is refused");
	fixture_close(&f);
	tap_ok(!fixture_open(&f, "layer.onnx", "{\"file\": \"other.onnx\"}") && f.status.error == INFER_ERROR_UNSUPPORTED &&
		   strstr(f.status.message, "option file") != NULL, "so is one for another file than is read");
	fixture_close(&f);
	tap_ok(fixture_open(&f, "layer.onnx", "{\"file\": \"layer.onnx\"}"), "that of the file itself is not");
	fixture_close(&f);
}

/* ---- fusion and weights ---- */

static void
test_fusion(void)
{
	struct fixture f;

	fixture_open(&f, "layer.onnx", NULL);
	tap_ok(fixture_graph(&f)->program_ops_count == 1, "bias and activation are fused into the product");
	fixture_close(&f);
	fixture_open(&f, "layer_norm.onnx", NULL);
	tap_ok(fixture_graph(&f)->program_ops_count == 1, "so is batch normalisation");
	fixture_close(&f);
	fixture_open(&f, "layer_shared.onnx", NULL);
	tap_ok(fixture_graph(&f)->weights_count == 1, "a matrix of two products is packed once");
	fixture_close(&f);
}

/* ---- memory ---- */

/* The op that computes a root, among those that stay. */
static int32_t
root_first(const struct graph *graph, int32_t root)
{
	for (uint32_t i = 0; i < graph->ops_count; i++)
		if (!graph->ops[i].removed && graph->ops[i].device.output == root)
			return (int32_t) i;
	return -1;
}

/* No two values that are needed at the same time share a byte of the arena. */
static void
test_plan(const char *name)
{
	struct fixture f;
	const struct graph *graph;
	uint64_t	total = 0;
	uint32_t	placed = 0, clashes = 0;

	fixture_open(&f, name, NULL);
	graph = fixture_graph(&f);
	for (int32_t a = 0; a < (int32_t) graph->values_count; a++)
	{
		const struct graph_value *x = graph_value(graph, a);
		int32_t		x_first = root_first(graph, a);
		uint64_t	x_end = x->offset + (uint64_t) x->elements * device_type_bytes(x->type);

		if (x_first < 0 || x->binding >= 0)
			continue;
		placed++;
		total += x_end - x->offset;
		clashes += x_end > graph->arena_item_bytes || x->offset % DEVICE_ALIGN != 0;
		for (int32_t b = 0; b < a; b++)
		{
			const struct graph_value *y = graph_value(graph, b);
			int32_t		y_first = root_first(graph, b);
			uint64_t	y_end = y->offset + (uint64_t) y->elements * device_type_bytes(y->type);

			if (y_first < 0 || y->binding >= 0 || x_first > y->last || y_first > x->last)
				continue;
			clashes += x->offset < y_end && y->offset < x_end;
		}
	}
	tap_ok(placed > 0 && clashes == 0, "%s: values that are needed together lie apart (%u values)", name, placed);
	tap_ok(graph->arena_item_bytes < total, "%s: and others share: %llu bytes for %llu", name,
		   (unsigned long long) graph->arena_item_bytes, (unsigned long long) total);
	fixture_close(&f);
}

static void
test_buffers(void)
{
	struct fixture f;
	void	   *arena, *binding;
	uint64_t	bytes;

	fixture_open(&f, "chain.onnx", NULL);
	fixture_rows(&f, 64);
	fixture_run(&f);
	arena = ((struct graph_buffers *) ((struct graph_model *) f.model)->sets.free)->arena;
	binding = ((struct graph_buffers *) ((struct graph_model *) f.model)->sets.free)->bindings[0];
	bytes = f.model->bytes;
	for (uint32_t rows = 1; rows <= 64; rows++)
	{
		fixture_rows(&f, rows);
		fixture_run(&f);
	}
	tap_ok(arena == ((struct graph_buffers *) ((struct graph_model *) f.model)->sets.free)->arena &&
		   binding == ((struct graph_buffers *) ((struct graph_model *) f.model)->sets.free)->bindings[0] && bytes == f.model->bytes,
		   "buffers are made once and used for every smaller batch");
	tap_ok(f.model->batch_rows_max >= 1 && f.model->batch_rows_max <= INFER_ROWS_MAX, "a batch is bounded");
	fixture_close(&f);
}

/* ---- profiles ---- */

static bool
text_is(struct infer_reader *r, const char *wanted)
{
	uint32_t	length;
	const char *text = infer_get_string(r, &length);

	if (text != NULL && length == strlen(wanted) && memcmp(text, wanted, length) == 0)
		return true;
	printf("# \"%.*s\", not \"%s\"\n", text == NULL ? 0 : (int) length, text == NULL ? "" : text, wanted);
	return false;
}

static const char *
fixture_name(void)
{
	static struct device_info info;

	fixture_device->ops->info(fixture_device, &info);
	return info.name;
}

static void
test_profile(void)
{
	struct fixture f;
	struct infer_reader r;
	float		plain[3];
	uint32_t	count = 0;
	bool		good;

	fixture_open(&f, "layer.onnx", NULL);
	fixture_rows(&f, 1);
	memcpy(fixture_input(&f, 0), (float[]) {1, 2}, 8);
	good = fixture_run(&f) && f.request.profile_bytes == 0;
	memcpy(plain, fixture_output(&f, 0), sizeof(plain));
	tap_ok(good, "a call that does not ask for it has no profile");

	f.request.profile = true;
	good = fixture_run(&f) && memcmp(plain, fixture_output(&f, 0), sizeof(plain)) == 0;
	tap_ok(good, "a profiled row has the same bits");
	r = (struct infer_reader) {.data = f.request.reply + f.request.profile_offset, .size = f.request.profile_bytes};
	good = f.request.profile_bytes > 0;
	count = infer_get_u32(&r);
	good = good && count == 1 && text_is(&r, "node 0") && text_is(&r, "MatMul + Add + Relu") && text_is(&r, "gemm + relu") && text_is(&r, fixture_name()) &&
		infer_get_u64(&r) < UINT64_C(10000000000) && !r.failed && r.used == r.size;
	tap_ok(good, "each primitive has its node, the operators fused into it, and a time (%u)", count);

	good = fixture_layout(&f);
	f.request.reply_bytes = f.request.reply_used + 8;
	good = good && fixture_run_slice(&f, 0, 1) && f.request.overflow && f.request.overflow_bytes > 0 && f.request.profile_bytes == 0;
	tap_ok(good, "one that does not fit asks for more room");
	fixture_close(&f);
}

/* ---- a device that fails ---- */

static void
test_failing_device(void)
{
	struct device_options options = {.threads = 1};
	struct device *good = fixture_device_get();
	struct fixture f;

	status_clear(&f.status);
	fixture_device = device_open("null:fail=1", &options, &f.status);
	fixture_open(&f, "layer.onnx", NULL);
	fixture_rows(&f, 2);
	tap_ok(!fixture_run(&f) && f.status.error == INFER_ERROR_DEVICE, "a batch that the device fails is an error of the batch");
	tap_ok(fixture_run(&f) && f.status.error == INFER_OK, "and the next one runs");
	fixture_close(&f);
	fixture_device->ops->close(fixture_device);

	fixture_device = device_open("null:lost=1", &options, &f.status);
	fixture_open(&f, "layer.onnx", NULL);
	fixture_rows(&f, 2);
	tap_ok(!fixture_run(&f) && f.status.error == INFER_ERROR_DEVICE_LOST, "a lost device is told apart");
	fixture_close(&f);
	fixture_device->ops->close(fixture_device);

	options.memory = 64;
	fixture_device = device_open("cpu", &options, &f.status);
	tap_ok(!fixture_open(&f, "layer.onnx", NULL) && f.status.error == INFER_ERROR_MEMORY, "a matrix over the memory setting is refused");
	fixture_close(&f);
	fixture_device->ops->close(fixture_device);
	fixture_device = good;
}

int
main(void)
{
	test_results();
	test_company();
	test_slices();
	test_row_errors();
	test_tables();
	test_constant_texts();
	test_long_strings();
	test_signatures();
	test_fusion();
	test_plan("branches.onnx");
	test_buffers();
	test_profile();
	test_failing_device();
	fixture_device->ops->close(fixture_device);
	return tap_done();
}
