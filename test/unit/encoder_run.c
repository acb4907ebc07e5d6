/*
 * encoder_run.c
 *	  Batches of texts: that a row's bits are its own whatever runs beside it, that nothing is
 *	  computed that is not a token, and where weights come from.
 */
#include "heap.h"

#include <jansson.h>

#include "encoder_fixture.h"
#include "engine/scheduler/policy/batch.h"
#include "folder_fixture.h"

static const char *const texts[] = {
	"a", "the query planner", "", "How do I create a user?", "Straße", "PostgreSQL reads a table; the model reads a text.",
	"who owns the processor", "and the rows are sent in batches", ".", "1 2 3 4 5 6 7 8"
};

#define TEXTS		((uint32_t) (sizeof(texts) / sizeof(texts[0])))
#define WIDTH_MAX	256

static uint32_t
width_of(const struct encoder_fixture *f)
{
	return (uint32_t) f->model->signature.outputs[0].dims[0];
}

/* Of each text by itself. */
static void
embed_all(struct encoder_fixture *f, float *to)
{
	for (uint32_t i = 0; i < TEXTS; i++)
		encoder_embed(f, texts[i], 0, 0, "", to + i * width_of(f));
}

/* ---- the same row, the same bits ---- */

/* Two requests whose rows go through the texts by a step, in three slices; returns the rows that differ. */
static uint32_t
differing(struct encoder_fixture *f, const float *expected, uint32_t rows, uint32_t step)
{
	struct encoder_call_fixture c[2];
	struct model_slice slices[3];
	uint32_t	width = width_of(f);
	uint32_t	bad = 0;

	for (uint32_t i = 0; i < 2; i++)
	{
		encoder_request(&c[i], f, rows);
		for (uint32_t row = 0; row < rows; row++)
			encoder_text(&c[i], ENCODER_INPUT_TEXT, row, texts[(row * step + i) % TEXTS]);
		if (!encoder_prepare(&c[i]))
			return UINT32_MAX;
	}
	slices[0] = (struct model_slice) {&c[1].request, 0, rows / 2};
	slices[1] = (struct model_slice) {&c[0].request, 0, rows};
	slices[2] = (struct model_slice) {&c[1].request, rows / 2, rows - rows / 2};
	if (!encoder_run_slices(f, slices, 3))
		bad = UINT32_MAX;
	for (uint32_t i = 0; i < 2; i++)
	{
		for (uint32_t row = 0; bad != UINT32_MAX && row < rows; row++)
			bad += memcmp(encoder_numbers(&c[i], 0, row), expected + ((row * step + i) % TEXTS) * width, width * sizeof(float)) != 0;
		encoder_release(&c[i]);
	}
	return bad;
}

static void
test_bits(const char *name, const char *precision)
{
	static const uint32_t rows[] = {1, 2, 3, 17, 33, 128, 257};
	char		options[64];
	char		path[256];
	float		expected[TEXTS * WIDTH_MAX];
	struct encoder_fixture f;
	uint32_t	bad = 0;

	snprintf(options, sizeof(options), "{\"precision\":\"%s\"}", precision);
	snprintf(path, sizeof(path), ENCODER_FOLDER "%s", name);
	for (int threads = 1; threads <= 2; threads++)
	{
		if (!encoder_open_path(&f, encoder_device(threads), path, options))
		{
			tap_ok(false, "%s in %s: %s", name, precision, f.status.message);
			encoder_close(&f);
			return;
		}
		if (threads == 1)
			embed_all(&f, expected);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			bad += differing(&f, expected, rows[i], 1 + (uint32_t) i);
		encoder_close(&f);
	}
	tap_ok(bad == 0, "%s in %s: rows have the same bits in any batch, at any place, on one thread and on two (%u differ)", name, precision, bad);
}

/* ---- parts, and others between segments ---- */

static void
test_parts(struct encoder_fixture *f, const float *expected)
{
	struct encoder_model *m = (struct encoder_model *) f->model;
	uint32_t	tokens = m->part_tokens;
	uint32_t	bad;

	m->part_tokens = 31;
	bad = differing(f, expected, 40, 3);
	tap_ok(bad == 0 && ((struct encoder_buffers *) m->sets.free)->tokens <= 40, "a batch of more tokens than a part may have runs in parts, with the same bits (%u differ)", bad);
	m->part_tokens = tokens;
}

struct others						/* what runs between two segments */
{
	struct model_yield yield;
	struct encoder_fixture *f;
	const float *expected;
	uint32_t	depth;
	uint32_t	runs;
	uint32_t	bad;
	bool		unwanted;
};

static bool
between(struct model_yield *yield)
{
	struct others *others = (struct others *) yield;

	if (others->unwanted)
		return false;
	if (others->depth == BATCH_DEPTH - 1 || others->runs > 20)
		return true;
	others->depth++;
	others->runs++;
	others->bad += differing(others->f, others->expected, 1 + others->depth * 7, 1 + others->depth);
	others->depth--;
	return true;
}

static void
test_yield(struct encoder_fixture *f, const float *expected)
{
	struct others others = {.yield = {.segment_nsec = 1, .between = between}, .f = f, .expected = expected};
	uint32_t	bad;

	f->yield = &others.yield;
	bad = differing(f, expected, 33, 1);
	tap_ok(bad == 0 && others.bad == 0 && others.runs > 20 && others.yield.segments_long > 0,
		   "batches that run between the segments of one, and of those, change no bit (%u and %u differ)", bad, others.bad);
	others.unwanted = true;
	bad = differing(f, expected, 5, 1);
	tap_ok(bad == UINT32_MAX && f->status.error == INFER_ERROR_CANCELLED, "a batch that nobody wants any more ends between two segments");
	f->yield = NULL;
}

/* ---- many threads ---- */

#define PREPARERS	4

struct preparer
{
	struct encoder_fixture f;		/* a copy: its status is its own */
	pthread_t	thread;
	uint32_t	bad;
};

/* The same requests again and again, and the same tokens each time. */
static void *
prepare_often(void *argument)
{
	struct preparer *p = argument;
	uint32_t	tokens = 0;

	for (uint32_t i = 0; i < 50; i++)
	{
		struct encoder_call_fixture c;

		encoder_request(&c, &p->f, TEXTS);
		for (uint32_t row = 0; row < TEXTS; row++)
			encoder_text(&c, ENCODER_INPUT_TEXT, row, texts[row]);
		p->bad += !encoder_prepare(&c) || (i > 0 && encoder_prepared(&c.request)->tokens != tokens);
		tokens = (uint32_t) encoder_prepared(&c.request)->tokens;
		encoder_release(&c);
	}
	return NULL;
}

static void
test_threads(struct encoder_fixture *f, const float *expected)
{
	struct preparer preparers[PREPARERS];
	uint32_t	bad = 0;

	for (int i = 0; i < PREPARERS; i++)
	{
		preparers[i] = (struct preparer) {.f = *f};
		pthread_create(&preparers[i].thread, NULL, prepare_often, &preparers[i]);
	}
	for (uint32_t i = 0; i < 5; i++)
		bad += differing(f, expected, 17, 1 + i);
	for (int i = 0; i < PREPARERS; i++)
	{
		pthread_join(preparers[i].thread, NULL);
		bad += preparers[i].bad;
	}
	tap_ok(bad == 0, "%d threads prepare requests of a model while it runs (%u differ)", PREPARERS, bad);
}

/* ---- work ---- */

static struct
{
	const struct device_ops *ops;	/* the device's own */
	const struct encoder_program *program;
	uint64_t	tokens;				/* of runs that began */
	uint64_t	rows;
	double		flop;
} counted;

/* What the program's ops and the batch's own offsets say. */
static uint64_t
count_enqueue(struct device_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
			  const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	const struct encoder_program *p = counted.program;

	if (first == 0)
	{
		counted.tokens += batch->row_off[batch->items[DEVICE_LEAD_ROWS]];
		counted.rows += batch->items[DEVICE_LEAD_ROWS];
	}
	for (uint32_t i = first; i < last && i < p->ops_count; i++)
	{
		const struct device_op *op = &p->ops[i];
		const struct device_tensor *x = &p->tensors[op->inputs[0]];
		const struct device_tensor *y = &p->tensors[op->output];

		if (op->op == DEVICE_OP_GEMM)
			counted.flop += 2.0 * (double) x->dims[0] * (double) y->dims[0] * batch->items[y->lead];
		for (uint32_t row = 0; op->op == DEVICE_OP_ATTENTION && row < batch->items[DEVICE_LEAD_ROWS]; row++)
		{
			double		length = batch->row_off[row + 1] - batch->row_off[row];

			counted.flop += 4.0 * (double) y->dims[0] * length * length;
		}
	}
	return counted.ops->enqueue(queue, program, first, last, batch, bindings, arena, status);
}

/*
 * Products of a layer: four of H × H, and two of H × I.  Of the last one only what attention needs is
 * computed for all tokens, since the model takes the first.  The pooler is H × H and the head H × 5.
 */
static void
test_work(void)
{
	static const uint32_t lengths[] = {0, 5, 1, 17, 3, 30};
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	struct device_ops ops;
	const struct encoder *e;
	double		flop = 0;
	uint64_t	tokens = 0;
	bool		ran;

	encoder_open(&f, "bert_classify", "{\"precision\":\"f32\"}");
	e = ((struct encoder_model *) f.model)->encoder;
	counted.ops = f.device->ops;
	counted.program = &((struct encoder_model *) f.model)->program;
	ops = *f.device->ops;
	ops.enqueue = count_enqueue;
	f.device->ops = &ops;
	encoder_request(&c, &f, 6);
	for (uint32_t row = 0; row < 6; row++)
	{
		char		text[128] = "";
		double		n = lengths[row] + 2;	/* [CLS] and [SEP] */
		double		h = (double) e->hidden;

		double		all = 4 * h * h + 2 * h * (double) e->intermediate;
		double		last = 3 * h * h;

		for (uint32_t i = 0; i < lengths[row]; i++)
			strcat(text, ". ");
		encoder_text(&c, ENCODER_INPUT_TEXT, row, text);
		tokens += lengths[row] + 2;
		flop += 2 * n * ((double) (e->layers_count - 1) * all + last) + 2 * (all - last);
		flop += (double) e->layers_count * 4 * h * n * n + 2 * h * h + 2 * h * 5;
	}
	ran = encoder_run(&c);
	tap_ok(ran && counted.tokens == tokens && counted.rows == 6 && counted.flop == flop,
		   "of rows of 2 to 32 tokens exactly their tokens are computed: %.0f of %.0f operations, %lu of %lu tokens", counted.flop, flop,
		   (unsigned long) counted.tokens, (unsigned long) tokens);
	encoder_release(&c);
	f.device->ops = counted.ops;
	encoder_close(&f);
}

/* ---- memory ---- */

static void
test_steady(struct encoder_fixture *f)
{
	struct encoder_call_fixture c;
	uint64_t	bytes;
	uint64_t	asked;

	encoder_request(&c, f, TEXTS);
	for (uint32_t row = 0; row < TEXTS; row++)
		encoder_text(&c, ENCODER_INPUT_TEXT, row, texts[row]);
	encoder_run(&c);
	bytes = f->model->bytes;
	asked = heap_allocations();
	encoder_run_slices(f, &(struct model_slice) {&c.request, 0, TEXTS}, 1);
	encoder_run_slices(f, &(struct model_slice) {&c.request, 2, 3}, 1);
	if (HEAP_COUNTED)
		tap_ok(heap_allocations() == asked, "a batch of a size that was there before asks the heap for nothing");
	else
		tap_skip("a batch of a size that was there before asks the heap for nothing", "a sanitizer has the heap");
	tap_ok(f->model->bytes == bytes, "and takes no more memory");
	encoder_release(&c);
}

/* ---- numbers that are not finite ---- */

/* A copy of bert_mean whose word of this id overflows. */
static void
overflowing_files(struct folder_fixture *to, const struct model_files *from, int32_t id)
{
	memset(to, 0, sizeof(*to));
	for (uint32_t i = 0; i < from->count; i++)
		folder_put(to, from->files[i].name, from->files[i].data, from->files[i].size);
	for (uint32_t i = 0; i < to->files.count; i++)
	{
		uint8_t    *data = (uint8_t *) to->list[i].data;
		uint64_t	header;
		json_t	   *json, *words;
		uint64_t	begin;

		if (strcmp(to->list[i].name, "model.safetensors") != 0)
			continue;
		memcpy(&header, data, sizeof(header));
		json = json_loadb((const char *) data + 8, header, 0, NULL);
		words = json_object_get(json, "embeddings.word_embeddings.weight");
		begin = 8 + header + (uint64_t) json_integer_value(json_array_get(json_object_get(words, "data_offsets"), 0));
		for (int k = 0; k < 48; k++)
			memcpy(data + begin + ((uint64_t) id * 48 + (uint64_t) k) * 4, &(float) {k % 2 == 0 ? 3e38f : -3e38f}, 4);
		json_decref(json);
	}
}

static void
test_not_finite(struct encoder_fixture *f)
{
	struct folder_fixture files;
	struct encoder_fixture bad = {.device = f->device, .queue = f->queue};
	struct encoder_call_fixture c;
	uint32_t	count;
	const int32_t *ids;
	float		expected[48];
	bool		fine;

	encoder_one(&c, f, "a");
	c.request.outputs_wanted = 1u << encoder_output(f, INFER_ROLE_TOKENS);
	encoder_prepare(&c);
	ids = encoder_varying(&c, encoder_output(f, INFER_ROLE_TOKENS), 0, &count);
	overflowing_files(&files, &f->files, ids[1]);
	encoder_release(&c);
	bad.model = model_open(&files.files, "{\"precision\":\"f32\"}", f->device, &bad.status);
	encoder_embed(f, "the query planner", 0, 0, "", expected);
	encoder_request(&c, &bad, 3);
	encoder_text(&c, ENCODER_INPUT_TEXT, 0, "the query planner");
	encoder_text(&c, ENCODER_INPUT_TEXT, 1, "a");
	encoder_text(&c, ENCODER_INPUT_TEXT, 2, "the query planner");
	fine = encoder_run(&c) && c.request.row_status[0] == INFER_OK && c.request.row_status[2] == INFER_OK &&
		memcmp(encoder_numbers(&c, 0, 0), expected, sizeof(expected)) == 0 && memcmp(encoder_numbers(&c, 0, 2), expected, sizeof(expected)) == 0;
	tap_ok(fine && c.request.row_status[1] == INFER_ERROR_NOT_FINITE && strstr(encoder_error(&c, 1)->message, "\"embedding\" is not finite") != NULL,
		   "a text whose vector is not finite fails alone: %s", encoder_error(&c, 1)->message);
	encoder_release(&c);
	model_close(bad.model);
	folder_clear(&files);
}

/* ---- packed weights ---- */

#define WIDE_LAYER(n) \
	"encoder.layer." n ".attention.self.query.weight 128 128;encoder.layer." n ".attention.self.query.bias 128;" \
	"encoder.layer." n ".attention.self.key.weight 128 128;encoder.layer." n ".attention.self.key.bias 128;" \
	"encoder.layer." n ".attention.self.value.weight 128 128;encoder.layer." n ".attention.self.value.bias 128;" \
	"encoder.layer." n ".attention.output.dense.weight 128 128;encoder.layer." n ".attention.output.dense.bias 128;" \
	"encoder.layer." n ".attention.output.LayerNorm.weight 128;encoder.layer." n ".attention.output.LayerNorm.bias 128;" \
	"encoder.layer." n ".intermediate.dense.weight 1024 128;encoder.layer." n ".intermediate.dense.bias 1024;" \
	"encoder.layer." n ".output.dense.weight 128 1024;encoder.layer." n ".output.dense.bias 128;" \
	"encoder.layer." n ".output.LayerNorm.weight 128;encoder.layer." n ".output.LayerNorm.bias 128;"

/* Two layers of 128 with weights of some 2.6 MB, drawn, and a vocabulary of letters. */
static void
wide_files(struct folder_fixture *to)
{
	char		text[1024];
	char		vocabulary[1024] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
	uint32_t	state = 1;

	memset(to, 0, sizeof(*to));
	snprintf(text, sizeof(text), "{\"model_type\":\"bert\",\"architectures\":[\"BertModel\"],\"hidden_size\":128,\"num_hidden_layers\":2,"
			 "\"num_attention_heads\":4,\"intermediate_size\":1024,\"vocab_size\":64,\"max_position_embeddings\":64,\"type_vocab_size\":2}");
	folder_text_put(to, "config.json", text);
	snprintf(text, sizeof(text), TINY_MODULES, "");
	folder_text_put(to, "modules.json", text);
	folder_text_put(to, "1_Pooling/config.json", "{\"word_embedding_dimension\":128,\"pooling_mode_mean_tokens\":true}");
	for (char letter = 'a'; letter <= 'z'; letter++)
		sprintf(vocabulary + strlen(vocabulary), "%c\n##%c\n", letter, letter);
	folder_text_put(to, "vocab.txt", vocabulary);
	folder_text_put(to, "tokenizer_config.json", "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true,\"model_max_length\":64}");
	folder_weights_put(to, "model.safetensors", "embeddings.word_embeddings.weight 64 128;embeddings.position_embeddings.weight 64 128;"
					   "embeddings.token_type_embeddings.weight 2 128;embeddings.LayerNorm.weight 128;embeddings.LayerNorm.bias 128;"
					   WIDE_LAYER("0") WIDE_LAYER("1"), "", "F32", 0);
	for (uint32_t i = 0; i < to->files.count; i++)
	{
		uint8_t    *data = (uint8_t *) to->list[i].data;
		uint64_t	header;

		if (strcmp(to->list[i].name, "model.safetensors") != 0)
			continue;
		memcpy(&header, data, sizeof(header));
		for (uint64_t at = 8 + header; at + 4 <= to->list[i].size; at += 4)
		{
			float		value;

			state = state * 1664525u + 1013904223u;
			value = (float) (int32_t) state / 2147483648.0f * 0.2f;
			memcpy(data + at, &value, 4);
		}
	}
}

/* The weights and ranges of an open model, as a file of them would be mapped. */
static void
keep(const struct packed_form *form, struct packed *packed)
{
	struct packed_weight *weights = calloc(form->weights_count, sizeof(*weights));

	*packed = (struct packed) {.form = *form};
	packed->form.weights = weights;
	for (uint32_t i = 0; i < form->weights_count; i++)
	{
		void	   *data = aligned_alloc(64, (form->weights[i].bytes + 63) / 64 * 64);

		memcpy(data, form->weights[i].data, form->weights[i].bytes);
		weights[i] = (struct packed_weight) {form->weights[i].recipe, form->weights[i].bytes, data};
	}
	packed->form.ranges = memcpy(calloc(form->ranges_count, sizeof(*form->ranges)), form->ranges, form->ranges_count * sizeof(*form->ranges));
}

static void
forget(struct packed *packed)
{
	for (uint32_t i = 0; i < packed->form.weights_count; i++)
		free((void *) packed->form.weights[i].data);
	free((void *) packed->form.weights);
	free((void *) packed->form.ranges);
}

static void
test_packed(const char *options)
{
	static const char text[] = "abc de fgh";
	struct folder_fixture files;
	struct encoder_fixture f = {.device = encoder_device(1)};
	struct packed_form form;
	struct packed packed;
	float		expected[128], got[128];
	uint64_t	range_bytes = 0;
	bool		fine;

	f.queue = f.device->ops->queue_create(f.device, DEVICE_BATCHES, &f.status);
	wide_files(&files);
	f.model = model_open(&files.files, options, f.device, &f.status);
	if (f.model == NULL)
	{
		tap_ok(false, "a drawn model opens: %s", f.status.message);
		return;
	}
	encoder_embed(&f, text, 0, 0, "", expected);
	fine = f.model->ops->packed_form(f.model, &form) && form.weights_count == 8 && form.ranges_count > 0;
	tap_ok(fine, "%s: weights are worth keeping: %u of them", options, form.weights_count);
	if (!fine)
		return;
	keep(&form, &packed);
	model_close(f.model);

	/* what the weights are made of is not read any more: it may be anything */
	for (uint32_t i = 0; i < packed.form.ranges_count; i++)
	{
		memset((uint8_t *) files.list[packed.form.ranges[i].file].data + packed.form.ranges[i].offset, 0xFF, packed.form.ranges[i].bytes);
		range_bytes += packed.form.ranges[i].bytes;
	}
	files.files.packed = &packed;
	f.model = model_open(&files.files, options, f.device, &f.status);
	if (f.model != NULL)
		encoder_embed(&f, text, 0, 0, "", got);
	tap_ok(f.model != NULL && memcmp(expected, got, sizeof(got)) == 0 && !packed.stale && range_bytes > 1000000,
		   "a model is opened with them, and their %lu bytes of the files are not read: %s", (unsigned long) range_bytes, f.status.message);
	if (f.model != NULL)
		model_close(f.model);

	((struct packed_weight *) packed.form.weights)[3].recipe++;
	status_clear(&f.status);
	f.model = model_open(&files.files, options, f.device, &f.status);
	tap_ok(f.model == NULL && packed.stale, "weights of another model are not taken, and the file is known to be of no use");
	forget(&packed);
	folder_clear(&files);
	f.device->ops->queue_free(f.queue);
}

/* The same of a graph that is run as it is. */
static void
test_graph(void)
{
	struct encoder_fixture f;
	float		expected[TEXTS * WIDTH_MAX];

	if (!encoder_open(&f, "graph_albert", NULL))
	{
		tap_ok(false, "graph_albert: %s", f.status.message);
		return;
	}
	embed_all(&f, expected);
	test_parts(&f, expected);
	test_yield(&f, expected);
	test_threads(&f, expected);
	test_steady(&f);
	encoder_close(&f);
}

int
main(void)
{
	static const char *const names[] = {"bert_mean", "bert_last", "bert_two_poolings", "bert_weighted", "bert_prompt_excluded", "mpnet_mean", "modernbert_cls", "gte_cls", "nomic_mean"};
	static const char *const graphs[] = {"graph_albert", "graph_albert_newer", "graph_deberta", "graph_t5"};
	struct encoder_fixture f;
	float		expected[TEXTS * WIDTH_MAX];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		test_bits(names[i], "f32");
		test_bits(names[i], "bf16");
		test_bits(names[i], "int8");
	}
	for (size_t i = 0; i < sizeof(graphs) / sizeof(graphs[0]); i++)
		test_bits(graphs[i], "f32");
	if (!encoder_open(&f, "bert_mean", "{\"precision\":\"f32\"}"))
		return 1;
	embed_all(&f, expected);
	test_parts(&f, expected);
	test_yield(&f, expected);
	test_threads(&f, expected);
	test_steady(&f);
	test_not_finite(&f);
	encoder_close(&f);
	test_graph();
	test_work();
	if (!device_has_memory(encoder_device(1)))	/* else nothing is kept */
	{
		test_packed("{\"precision\":\"f32\"}");
		test_packed("{\"precision\":\"bf16\"}");
	}
	return tap_done();
}
