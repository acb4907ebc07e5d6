/*
 * text_lengths.c
 *	  ONNX files that are no encoder that is known: a program for each length, made once, of weights that
 *	  are packed once; what is kept, and what is refused.  lengths_folder.h makes them.
 */
#include "encoder_fixture.h"
#include "lengths_folder.h"

/* ---- counting ---- */

static struct
{
	const struct device_ops *ops;	/* the device's own */
	struct device_ops counting;
	uint32_t	packed;
	uint32_t	mapped;
	uint32_t	runs;				/* of a graph from its beginning */
	uint32_t	rows;
	const struct text_graph *graph;
} counted;

static struct device_weight *
count_pack(struct device *device, const struct device_weight_desc *desc, struct status *status)
{
	counted.packed++;
	return counted.ops->weight_pack(device, desc, status);
}

static struct device_weight *
count_map(struct device *device, const struct device_weight_desc *desc, const void *data, uint64_t bytes, struct status *status)
{
	counted.mapped++;
	return counted.ops->weight_map(device, desc, data, bytes, status);
}

static uint64_t
count_enqueue(struct device_queue *queue, struct device_program *program, uint32_t first, uint32_t last,
			  const struct device_batch *batch, void *const *bindings, void *arena, struct status *status)
{
	const struct text_graph_program *p = counted.graph == NULL ? NULL : counted.graph->programs;

	for (; p != NULL && p->program != program; p = p->next)
		;
	if (p != NULL && first == 0)
	{
		counted.runs++;
		counted.rows += batch->items[DEVICE_LEAD_ROWS];
	}
	return counted.ops->enqueue(queue, program, first, last, batch, bindings, arena, status);
}

static void
count_begin(struct device *device)
{
	memset(&counted, 0, sizeof(counted));
	counted.ops = device->ops;
	counted.counting = *device->ops;
	counted.counting.weight_pack = count_pack;
	counted.counting.weight_map = count_map;
	counted.counting.enqueue = count_enqueue;
	device->ops = &counted.counting;
}

static void
count_end(struct device *device)
{
	device->ops = counted.ops;
}

/* ---- a model ---- */

static bool
open_folder(struct encoder_fixture *f, struct folder_fixture *folder, const char *options)
{
	memset(f, 0, sizeof(*f));
	f->device = encoder_device(1);
	f->queue = f->device->ops->queue_create(f->device, DEVICE_BATCHES, &f->status);
	f->model = model_open(&folder->files, options, f->device, &f->status);
	return f->model != NULL;
}

static void
close_folder(struct encoder_fixture *f)
{
	if (f->model != NULL)
		model_close(f->model);
	f->device->ops->queue_free(f->queue);
}

static struct text_graph *
graph_of(const struct encoder_fixture *f)
{
	return ((struct encoder_model *) f->model)->encoder->graph;
}

/* So many words of a letter each: two tokens more. */
static void
letters_write(char *text, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		text[2 * i] = (char) ('a' + (i * 7 + count) % 26);
		text[2 * i + 1] = ' ';
	}
	text[2 * count] = '\0';
}

static const char *
letters(uint32_t count)
{
	static char text[512];

	letters_write(text, count);
	return text;
}

/* The file's own matrices, drawn again. */
static double
drawn(uint32_t row, uint32_t column, uint32_t skip)
{
	static float *numbers;
	uint32_t	seed = 1, all = (WORDS + HIDDEN + PLACES) * HIDDEN;

	if (numbers == NULL)
	{
		numbers = malloc(all * sizeof(*numbers));
		for (uint32_t i = 0; i < all; i++)
		{
			seed = seed * 1664525 + 1013904223;
			numbers[i] = (float) (seed >> 8) / (float) (1 << 24) - 0.5f;
		}
	}
	return (double) numbers[(skip + row) * HIDDEN + column];
}

static double
worst_of(const int32_t *ids, uint32_t count, const float *got)
{
	double		worst = 0;

	for (uint32_t n = 0; n < HIDDEN; n++)
	{
		double		sum = 0;

		for (uint32_t i = 0; i < count; i++)
		{
			for (uint32_t k = 0; k < HIDDEN; k++)
				sum += drawn((uint32_t) ids[i], k, 0) * drawn(k, n, WORDS);
			sum += drawn(i, n, WORDS + HIDDEN);
		}
		worst = fmax(worst, fabs(sum / count - (double) got[n]));
	}
	return worst;
}

/* ---- what is computed ---- */

static void
test_numbers(enum variant variant, const char *name)
{
	struct folder_fixture folder;
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	double		worst = 0;

	make_folder(&folder, variant, "bert", PLACES, "");
	if (open_folder(&f, &folder, ""))
	{
		encoder_request(&c, &f, 4);
		for (uint32_t row = 0; row < 4; row++)
			encoder_text(&c, ENCODER_INPUT_TEXT, row, letters(2 * row + 2));
		c.request.outputs_wanted = 1 | 1u << encoder_output(&f, INFER_ROLE_TOKENS);
		encoder_run(&c);
		for (uint32_t row = 0; row < 4; row++)
		{
			uint32_t	count;
			const int32_t *ids = encoder_varying(&c, encoder_output(&f, INFER_ROLE_TOKENS), row, &count);

			worst = c.request.row_status[row] == INFER_OK ? fmax(worst, worst_of(ids, count, encoder_numbers(&c, 0, row))) : 1;
		}
		encoder_release(&c);
	}
	tap_ok(f.model != NULL && worst < 1e-5, "%s: numbers are the formula's, %.1g away: %s %s", name, worst, f.status.message, f.status.detail);
	if (f.model != NULL && variant == POOLED)
		tap_ok(strstr(f.model->signature.facts, "\"pooling\":\"the graph's own\"") != NULL, "the pooling is known to be the graph's own");
	close_folder(&f);
	folder_clear(&folder);
}

/* 24 texts of four lengths, by turns. */
static void
run_mixed(struct encoder_fixture *f)
{
	struct encoder_call_fixture c;

	encoder_request(&c, f, 24);
	for (uint32_t row = 0; row < 24; row++)
		encoder_text(&c, ENCODER_INPUT_TEXT, row, letters(1 + row % 4 * 3));
	encoder_run(&c);
	encoder_release(&c);
}

static void
test_counters(void)
{
	struct folder_fixture folder;
	struct encoder_fixture f;
	uint64_t	compiled;

	make_folder(&folder, PLAIN, "bert", PLACES, "");
	count_begin(encoder_device(1));
	if (!open_folder(&f, &folder, ""))
	{
		tap_ok(false, "the model opens: %s", f.status.message);
		return;
	}
	tap_ok(counted.packed == 1, "the one matrix is packed once when the model is opened (%u)", counted.packed);
	counted.graph = graph_of(&f);
	compiled = graph_of(&f)->compiled;
	counted.runs = 0;
	run_mixed(&f);
	tap_ok(graph_of(&f)->compiled == compiled + 4 && counted.packed == 1, "each of four lengths is compiled once, and packs nothing (%lu, %u)",
		   (unsigned long) (graph_of(&f)->compiled - compiled), counted.packed - 1);
	tap_ok(counted.runs == 4 && counted.rows == 24, "24 rows of four lengths run in four batches (%u, %u rows)", counted.runs, counted.rows);
	run_mixed(&f);
	tap_ok(graph_of(&f)->compiled == compiled + 4 && counted.runs == 8, "and later ones are compiled no more");
	close_folder(&f);
	count_end(encoder_device(1));
	folder_clear(&folder);
}

static void
test_packed(void)
{
	struct folder_fixture folder;
	struct encoder_fixture f;
	struct packed_form form = {0};
	struct packed packed = {0};
	float		expected[HIDDEN], got[HIDDEN];
	uint64_t	bytes = 0;

	make_folder(&folder, PLAIN, "bert", PLACES, "");
	open_folder(&f, &folder, "");
	encoder_embed(&f, letters(9), 0, 0, "", expected);
	f.model->ops->packed_form(f.model, &form);
	tap_ok(form.weights_count == 1 && form.ranges_count == 1, "the matrix is worth keeping packed");
	if (form.weights_count == 1)
	{
		void	   *copy = aligned_alloc(64, (form.weights[0].bytes + 63) / 64 * 64);
		struct packed_weight weight = form.weights[0];
		struct packed_range range = form.ranges[0];

		memcpy(copy, weight.data, weight.bytes);
		weight.data = copy;
		packed.form = (struct packed_form) {1, 1, &weight, &range};
		close_folder(&f);
		memset((uint8_t *) folder.list[range.file].data + range.offset, 0xFF, range.bytes);
		bytes = range.bytes;
		folder.files.packed = &packed;
		count_begin(encoder_device(1));
		if (open_folder(&f, &folder, ""))
			encoder_embed(&f, letters(9), 0, 0, "", got);
		tap_ok(f.model != NULL && memcmp(expected, got, sizeof(got)) == 0 && !packed.stale && counted.packed == 0 && counted.mapped == 1,
			   "packed, its %lu bytes of the file are read for no length: %s", (unsigned long) bytes, f.status.message);
		close_folder(&f);
		count_end(encoder_device(1));
		free(copy);
	}
	else
		close_folder(&f);
	folder_clear(&folder);
}

/* ---- what is kept ---- */

static void
test_bounds(void)
{
	struct encoder_fixture f;
	struct text_graph *graph;
	struct text_graph_program *held, *p;
	uint32_t	most = 0;
	bool		fine = true, there = false;

	if (!encoder_open(&f, "graph_t5", "{\"max_tokens\":600}"))
	{
		tap_ok(false, "graph_t5 opens: %s", f.status.message);
		return;
	}
	graph = graph_of(&f);
	held = text_graph_take(graph, 1, f.queue, &f.status);
	for (uint32_t length = 2; fine && length < 2 + TEXT_GRAPH_PROGRAMS_MAX + 20; length++)
	{
		p = text_graph_take(graph, length, f.queue, &f.status);
		fine = p != NULL && p->length == length;
		most = graph->programs_count > most ? graph->programs_count : most;
		if (p != NULL)
			text_graph_give(graph, p);
	}
	for (p = graph->programs; p != NULL; p = p->next)
		there = there || p == held;
	tap_ok(fine && most <= TEXT_GRAPH_PROGRAMS_MAX && graph->programs_bytes <= TEXT_GRAPH_PROGRAMS_BYTES && there,
		   "at most %u programs are kept, and one in use always: %u of %lu bytes", TEXT_GRAPH_PROGRAMS_MAX, most, (unsigned long) graph->programs_bytes);
	text_graph_give(graph, held);
	encoder_close(&f);
}

/* ---- several runs at once ---- */

#define RUNNERS	3
#define LENGTHS	16
#define ROUNDS	6

struct runner
{
	struct encoder_fixture f;		/* with a queue and a status of its own */
	const float (*expected)[HIDDEN];
	uint32_t	from;				/* its first length */
	uint32_t	differ;
};

static void *
runner_main(void *arg)
{
	struct runner *runner = arg;

	for (uint32_t i = 0; i < ROUNDS * LENGTHS; i++)
	{
		uint32_t	length = (runner->from + i) % LENGTHS;
		char		text[2 * LENGTHS + 3];
		float		got[HIDDEN];

		letters_write(text, 1 + length);
		encoder_embed(&runner->f, text, 0, 0, "", got);
		runner->differ += memcmp(got, runner->expected[length], sizeof(got)) != 0;
	}
	return NULL;
}

/* Where most programs are compiled again, and freed again, while others use theirs. */
static void
test_runners(void)
{
	static float expected[LENGTHS][HIDDEN];
	struct folder_fixture folder;
	struct encoder_fixture f;
	struct runner runners[RUNNERS];
	pthread_t	threads[RUNNERS];
	struct device_info info = {0};
	uint64_t	compiled;
	uint32_t	differ = 0, count = RUNNERS;

	make_folder(&folder, PLAIN, "bert", PLACES, "");
	open_folder(&f, &folder, "");
	for (uint32_t i = 0; i < LENGTHS; i++)
		encoder_embed(&f, letters(1 + i), 0, 0, "", expected[i]);
	graph_of(&f)->programs_most = graph_of(&f)->programs_bytes / 4;
	compiled = graph_of(&f)->compiled;
	f.device->ops->info(f.device, &info);
	if (info.async && info.inflight_max < RUNNERS)
		count = info.inflight_max;
	for (uint32_t i = 0; i < count; i++)
	{
		runners[i] = (struct runner) {.f = f, .expected = (const float (*)[HIDDEN]) expected, .from = i * 3};
		runners[i].f.queue = f.device->ops->queue_create(f.device, DEVICE_BATCHES, &f.status);
		pthread_create(&threads[i], NULL, runner_main, &runners[i]);
	}
	for (uint32_t i = 0; i < count; i++)
	{
		pthread_join(threads[i], NULL);
		differ += runners[i].differ;
		f.device->ops->queue_free(runners[i].f.queue);
	}
	tap_ok(differ == 0 && graph_of(&f)->compiled > compiled + LENGTHS && graph_of(&f)->programs_bytes <= graph_of(&f)->programs_most,
		   "several runs of a model take, compile and give back programs at once, with the same bits (%u differ, %llu compiled)",
		   differ, (unsigned long long) (graph_of(&f)->compiled - compiled));
	close_folder(&f);
	folder_clear(&folder);
}

/* Of a device of little memory they may take an eighth. */
static void
test_share(void)
{
	struct device_options options = {.threads = 1, .memory = UINT64_C(64) << 20};
	struct status status = {0};
	struct device *device = device_open("cpu", &options, &status);
	struct encoder_fixture f;
	uint64_t	most = 0;
	uint32_t	lengths = 0;

	if (!encoder_open_path(&f, device, ENCODER_FOLDER "graph_t5", "{\"max_tokens\":200}"))
		tap_ok(false, "graph_t5 opens: %s", f.status.message);
	for (uint32_t length = 1; f.model != NULL && length <= 120; length++)
	{
		struct text_graph_program *p = text_graph_take(graph_of(&f), length, f.queue, &f.status);

		lengths += p != NULL;
		if (p != NULL)
			text_graph_give(graph_of(&f), p);
		most = graph_of(&f)->programs_bytes > most ? graph_of(&f)->programs_bytes : most;
	}
	tap_ok(lengths == 120 && most > UINT64_C(4) << 20 && most <= UINT64_C(8) << 20, "and of a device of 64 MB they take at most 8: %lu bytes",
		   (unsigned long) most);
	encoder_close(&f);
	device->ops->close(device);
}

/* ---- what is refused ---- */

static void
test_odd(void)
{
	struct folder_fixture folder;
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	bool		ran;

	make_folder(&folder, EVEN, "bert", PLACES, "");
	if (!open_folder(&f, &folder, ""))
	{
		tap_ok(false, "the model opens: %s", f.status.message);
		return;
	}
	encoder_request(&c, &f, 3);
	for (uint32_t row = 0; row < 3; row++)
		encoder_text(&c, ENCODER_INPUT_TEXT, row, letters(4 + row));
	ran = encoder_run(&c);
	tap_ok(ran && c.request.row_status[0] == INFER_OK && c.request.row_status[2] == INFER_OK &&
		   c.request.row_status[1] != INFER_OK && strstr(encoder_error(&c, 1)->message, "a text of 7 tokens cannot be computed: operator Reshape") != NULL,
		   "texts of a length that cannot be computed fail, and others do not: %s", encoder_error(&c, 1)->message);
	encoder_release(&c);
	close_folder(&f);
	folder_clear(&folder);
}

static void
test_refused(enum variant variant, const char *model_type, uint32_t places, const char *module, const char *options, const char *message,
			 const char *detail)
{
	struct folder_fixture folder;
	struct encoder_fixture f;
	bool		opened;

	make_folder(&folder, variant, model_type, places, module);
	folder_text_put(&folder, "2_Dense/config.json", "{\"in_features\":512,\"out_features\":3}");
	folder_weights_put(&folder, "2_Dense/model.safetensors", "linear.weight 3 512;linear.bias 3", "", "F32", 0);
	opened = open_folder(&f, &folder, options);
	tap_ok(!opened && strstr(f.status.message, message) != NULL && strstr(f.status.detail, detail) != NULL,
		   "refused: %s %s", opened ? "it is not" : f.status.message, f.status.detail);
	close_folder(&f);
	folder_clear(&folder);
}

static void
test_refusals(void)
{
	static const char dense[] = ",{\"idx\":2,\"name\":\"2\",\"path\":\"2_Dense\",\"type\":\"sentence_transformers.models.Dense\"}";
	static const char neither[] = "the ONNX file is no encoder that is known, and cannot be run as it is: ";
	char		message[256];

	snprintf(message, sizeof(message), "%sthe input \"places\" is none that a text's tokens give", neither);
	test_refused(NAMED, "bert", PLACES, "", "", message, "As for an encoder, ");
	snprintf(message, sizeof(message), "%sthe input \"input_ids\" is fixed to 16 tokens, and texts are not padded", neither);
	test_refused(FIXED, "bert", PLACES, "", "", message, "As for an encoder, ");
	snprintf(message, sizeof(message), "%sthe input \"position_ids\" is not supported for this model_type", neither);
	test_refused(PLAIN, "roberta", PLACES, "", "", message, "As for an encoder, ");
	test_refused(PLAIN, "bert", PLACES + 1, "", "", "a text of 41 tokens cannot be computed: operator Gather", "The limit comes from config.json");
	test_refused(PLAIN, "bert", PLACES, "", "{\"precision\":\"bf16\"}", "the precision \"bf16\" is not for an ONNX file that is run as it is", "");
	test_refused(PLAIN, "bert", PLACES, "", "{\"task\":\"classify\"}", "the ONNX file has no output \"logits\"", "");
	test_refused(POOLED, "bert", PLACES, dense, "", "modules.json says another pooling than the ONNX file has", "");
	test_refused(POOLED, "bert", PLACES, "", "{\"pooling\":\"cls\"}", "the option pooling is not for an ONNX file", "");
}

/* ---- a profile ---- */

static void
test_profile(void)
{
	struct encoder_fixture f;
	struct encoder_call_fixture c;
	struct infer_reader reader;
	uint32_t	ops, wanted;

	encoder_open(&f, "graph_albert", NULL);
	encoder_one(&c, &f, "the query planner");
	c.request.profile = true;
	encoder_run(&c);
	wanted = graph_of(&f)->programs->ops_count + ((struct encoder_model *) f.model)->program.ops_count;
	reader = (struct infer_reader) {.data = c.request.reply + c.request.profile_offset, .size = c.request.profile_bytes};
	ops = infer_get_u32(&reader);
	tap_ok(c.request.profile_bytes > 0 && ops == wanted && ops > 50, "a profile has the graph's primitives and the head's: %u of %u", ops, wanted);
	encoder_release(&c);
	encoder_close(&f);
}

int
main(void)
{
	test_numbers(PLAIN, "tokens");
	test_numbers(POOLED, "a vector for each text");
	test_counters();
	if (!device_has_memory(encoder_device(1)))	/* else nothing is kept */
		test_packed();
	test_bounds();
	test_runners();
	test_share();
	test_odd();
	test_refusals();
	test_profile();
	return tap_done();
}
