/*
 * text.c
 *	  Embeddings of texts inside the engine: how long tokenizing takes, and how long the device.
 *
 *	text [--threads N] [--precision P] [--batch-tokens N] [--runs R] FOLDER TEXTS EMBEDDINGS
 *
 * TEXTS holds texts that end with a zero byte each; they are one request, which is computed in
 * batches of at most so many tokens, in the order the texts come in, as the scheduler does.
 * Printed: tokens, seconds of tokenizing on one thread, seconds of the batches; the best of the
 * runs counts, as a machine that is shared only ever makes things slower.  EMBEDDINGS gets the
 * vectors, float32.  bench/text.py calls this beside its peer.
 */
#include <time.h>

#include "../test/encoder_fixture.h"

struct options
{
	int			threads;
	int			runs;
	uint32_t	batch_tokens;
	const char *precision;
	char	  **paths;				/* FOLDER, TEXTS, EMBEDDINGS */
};

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static struct options
read_options(int argc, char **argv)
{
	struct options o = {.threads = 1, .runs = 3, .batch_tokens = 16384, .precision = "f32"};
	int			i = 1;

	for (; i + 1 < argc && argv[i][0] == '-'; i += 2)
	{
		if (strcmp(argv[i], "--threads") == 0)
			o.threads = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--runs") == 0)
			o.runs = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--batch-tokens") == 0)
			o.batch_tokens = (uint32_t) atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--precision") == 0)
			o.precision = argv[i + 1];
		else
			fail(argv[i], "no such option");
	}
	if (argc - i != 3)
		fail("usage", "text [--threads N] [--precision P] [--batch-tokens N] [--runs R] FOLDER TEXTS EMBEDDINGS");
	o.paths = argv + i;
	return o;
}

/* A request of the file's texts. */
static void
read_texts(struct encoder_call_fixture *c, struct encoder_fixture *f, const char *path)
{
	struct model_files files;
	const struct model_file *file;
	const char *at, *end;
	uint32_t	rows = 0, row = 0;

	if (files_open_path(path, &files, &f->status) != FILES_OK)
		fail(path, "cannot be read");
	file = &files.files[0];
	at = (const char *) file->data;
	end = at + file->size;
	for (const char *p = at; p < end; p++)
		rows += *p == '\0';
	encoder_request(c, f, rows);
	for (; at < end; at += strlen(at) + 1)
	{
		encoder_text(c, ENCODER_INPUT_TEXT, row, at);
		encoder_option(c, row++, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE);
	}
	c->request.outputs_wanted = 1;
	files_close(&files);
}

/* All rows, in batches. */
static void
run_batches(struct encoder_call_fixture *c, uint32_t batch_tokens)
{
	struct model_slice slice = {.request = &c->request};
	uint32_t	tokens = 0;

	for (uint32_t row = 0; row <= c->request.rows; row++)
	{
		if (row == c->request.rows || (slice.count > 0 && tokens + c->request.units[row] > batch_tokens))
		{
			if (!encoder_run_slices(c->model, &slice, 1))
				fail("a batch failed", c->model->status.message);
			slice.first = row;
			slice.count = 0;
			tokens = 0;
		}
		if (row < c->request.rows)
		{
			tokens += c->request.units[row];
			slice.count++;
		}
	}
}

static void
write_embeddings(const struct encoder_call_fixture *c, const char *path)
{
	FILE	   *file = fopen(path, "wb");

	for (uint32_t row = 0; file != NULL && row < c->request.rows; row++)
		if (c->request.row_status[row] != INFER_OK ||
			fwrite(encoder_numbers(c, 0, row), sizeof(float), c->outputs[0].width, file) != c->outputs[0].width)
			fail("a row failed", encoder_error(c, row)->message);
	if (file == NULL || fclose(file) != 0)
		fail(path, "cannot be written");
}

int
main(int argc, char **argv)
{
	struct options o = read_options(argc, argv);
	struct encoder_fixture f;
	double		prepared = 1e9, ran = 1e9;
	uint64_t	tokens = 0;
	char		text[64];

	snprintf(text, sizeof(text), "{\"precision\":\"%s\"}", o.precision);
	if (!encoder_open_path(&f, encoder_device(o.threads), o.paths[0], text))
		fail(o.paths[0], f.status.message);
	for (int i = 0; i <= o.runs; i++)	/* the first is not counted */
	{
		struct encoder_call_fixture c;
		double		begin, between, end;

		read_texts(&c, &f, o.paths[1]);
		begin = now();
		if (!encoder_prepare(&c))
			fail("the texts", f.status.message);
		between = now();
		run_batches(&c, o.batch_tokens);
		end = now();
		if (i > 0)
		{
			prepared = fmin(prepared, between - begin);
			ran = fmin(ran, end - between);
		}
		else
			write_embeddings(&c, o.paths[2]);
		tokens = 0;
		for (uint32_t row = 0; row < c.request.rows; row++)
			tokens += c.request.units[row];
		encoder_release(&c);
	}
	printf("%llu %.6f %.6f\n", (unsigned long long) tokens, prepared, ran);
	encoder_close(&f);
	return 0;
}
