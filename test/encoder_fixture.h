/*
 * encoder_fixture.h
 *	  A model that reads text, and requests of texts for it in memory.
 *
 * Loop
 *	encoder_open → encoder_request → encoder_text, encoder_option … for the rows →
 *	encoder_run → read encoder_numbers and row_status → encoder_release → … → encoder_close.
 */
#ifndef TEST_ENCODER_FIXTURE_H
#define TEST_ENCODER_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device.h"
#include "engine/model/encoder/encoder_model.h"
#include "engine/model/files.h"
#include "engine/model/model.h"
#include "engine/status.h"
#include "tap.h"
#include "test_device.h"

#define ENCODER_FOLDER		"test/fixtures/text/"
#define ENCODER_REGION		(16u << 20)
#define ENCODER_TEXTS		(2u << 20)		/* bytes of each column of strings */
#define ENCODER_COLUMNS		16

struct encoder_fixture				/* one model */
{
	struct device *device;
	struct device_queue *queue;
	struct model_yield *yield;		/* of the runs that follow; NULL: they run to their end */
	struct model_files files;
	struct model *model;
	struct status status;
};

struct encoder_call_fixture			/* one request */
{
	struct encoder_fixture *model;
	uint8_t    *region;
	struct infer_column columns[ENCODER_COLUMNS];
	struct infer_column outputs[ENCODER_COLUMNS];
	uint64_t	texts_used[ENCODER_COLUMNS];
	struct model_request request;
};

#define ENCODER_DEVICES	8

static struct device *encoder_devices[ENCODER_DEVICES];
static bool encoder_devices_open;

static inline void
encoder_devices_close(void)
{
	for (int i = 0; i < ENCODER_DEVICES; i++)
		if (encoder_devices[i] != NULL)
			device_close(encoder_devices[i]);
}

/* A device of so many threads, opened once each and kept until the program ends. */
static inline struct device * __attribute__((unused))
encoder_device(int threads)
{
	struct device **devices = encoder_devices;
	struct device_options options = {.threads = threads};
	struct status status = {0};

	if (devices[threads] == NULL)
		devices[threads] = device_open(test_device(&options), &options, &status);
	if (devices[threads] == NULL)
	{
		fprintf(stderr, "no device: %s\n", status.message);
		exit(1);
	}
	if (!encoder_devices_open)
		atexit(encoder_devices_close);
	encoder_devices_open = true;
	return devices[threads];
}

/* False: f->status says why.  options may be NULL. */
static inline bool __attribute__((unused))
encoder_open_path(struct encoder_fixture *f, struct device *device, const char *path, const char *options)
{
	memset(f, 0, sizeof(*f));
	f->device = device;
	f->queue = device->ops->queue_create(device, DEVICE_BATCHES, &f->status);
	if (files_open_path(path, &f->files, &f->status) != FILES_OK)
	{
		fprintf(stderr, "cannot open %s: run from the repository's root\n", path);
		exit(1);
	}
	f->model = model_open(&f->files, options == NULL ? "" : options, device, &f->status);
	return f->model != NULL;
}

static inline bool __attribute__((unused))
encoder_open(struct encoder_fixture *f, const char *name, const char *options)
{
	char		path[512];

	snprintf(path, sizeof(path), ENCODER_FOLDER "%s", name);
	return encoder_open_path(f, encoder_device(1), path, options);
}

static inline void __attribute__((unused))
encoder_close(struct encoder_fixture *f)
{
	if (f->model != NULL)
		model_close(f->model);
	f->device->ops->queue_free(f->queue);
	files_close(&f->files);
}

/* ---- requests ---- */

static inline uint64_t
encoder_align(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Lays out a request of so many rows: empty strings, and options of zeros. */
static inline void __attribute__((unused))
encoder_request(struct encoder_call_fixture *c, struct encoder_fixture *f, uint32_t rows)
{
	const struct infer_signature *signature = &f->model->signature;
	uint64_t	used = INFER_REGION_HEAD;

	memset(c, 0, sizeof(*c));
	c->model = f;
	c->region = aligned_alloc(64, ENCODER_REGION);
	memset(c->region, 0, ENCODER_REGION);
	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		struct infer_column *column = &c->columns[i];

		column->type = signature->inputs[i].type;
		column->width = signature->inputs[i].rank == 0 ? 1 : (uint64_t) signature->inputs[i].dims[0];
		if (column->type == INFER_TYPE_STRING)
		{
			column->spans_offset = used;
			used = encoder_align(used + rows * sizeof(struct infer_span));
			column->data_bytes = ENCODER_TEXTS;
		}
		else
			column->data_bytes = rows * column->width * infer_type_bytes(column->type);
		column->data_offset = used;
		used = encoder_align(used + column->data_bytes);
	}
	c->request = (struct model_request) {
		.rows = rows, .columns_count = signature->inputs_count, .columns = c->columns,
		.region = c->region, .region_bytes = ENCODER_REGION,
		.reply = c->region + used, .reply_bytes = ENCODER_REGION - used, .outputs = c->outputs
	};
}

static inline void __attribute__((unused))
encoder_bytes(struct encoder_call_fixture *c, uint32_t input, uint32_t row, const void *text, size_t bytes)
{
	struct infer_span *spans = (struct infer_span *) (c->region + c->columns[input].spans_offset);

	spans[row] = (struct infer_span) {(uint32_t) c->texts_used[input], (uint32_t) bytes};
	if (c->texts_used[input] + bytes > ENCODER_TEXTS)
	{
		fprintf(stderr, "the texts of a test do not fit\n");
		exit(1);
	}
	memcpy(c->region + c->columns[input].data_offset + c->texts_used[input], text, bytes);
	c->texts_used[input] += bytes;
}

static inline void __attribute__((unused))
encoder_text(struct encoder_call_fixture *c, uint32_t input, uint32_t row, const char *text)
{
	encoder_bytes(c, input, row, text, strlen(text));
}

static inline void __attribute__((unused))
encoder_option(struct encoder_call_fixture *c, uint32_t row, enum infer_text_option option, int32_t value)
{
	((int32_t *) (c->region + c->columns[ENCODER_INPUT_OPTIONS].data_offset))[row * INFER_TEXT_OPTIONS + option] = value;
}

/* Until the reply is laid out and the rows are tokens. */
static inline bool __attribute__((unused))
encoder_prepare(struct encoder_call_fixture *c)
{
	uint64_t	wanted;

	status_clear(&c->model->status);
	return model_reply_layout(&c->request, &c->model->model->signature, &wanted) &&
		c->model->model->ops->prepare(c->model->model, &c->request, &c->model->status);
}

static inline bool __attribute__((unused))
encoder_run_slices(struct encoder_fixture *f, const struct model_slice *slices, uint32_t count)
{
	return f->model->ops->run(f->model, f->queue, f->yield, slices, count, &f->status);
}

static inline bool __attribute__((unused))
encoder_run(struct encoder_call_fixture *c)
{
	struct model_slice slice = {.request = &c->request, .count = c->request.rows};

	return encoder_prepare(c) && encoder_run_slices(c->model, &slice, 1);
}

/* Ends a request, of which all but the model is freed. */
static inline void __attribute__((unused))
encoder_release(struct encoder_call_fixture *c)
{
	c->model->model->ops->release(c->model->model, &c->request);
	free(c->region);
}

/* ---- results ---- */

/* A row of an output of fixed width. */
static inline const float * __attribute__((unused))
encoder_numbers(const struct encoder_call_fixture *c, uint32_t output, uint32_t row)
{
	return (const float *) (c->region + c->outputs[output].data_offset) + row * c->outputs[output].width;
}

/* A row of an output of varying width; *count: its elements. */
static inline const void * __attribute__((unused))
encoder_varying(const struct encoder_call_fixture *c, uint32_t output, uint32_t row, uint32_t *count)
{
	const struct infer_column *column = &c->outputs[output];
	const struct infer_span *span = (const struct infer_span *) (c->region + column->spans_offset) + row;

	*count = span->length / (uint32_t) infer_type_bytes(column->type);
	return c->region + column->data_offset + span->begin;
}

static inline const char * __attribute__((unused))
encoder_label(const struct encoder_call_fixture *c, uint32_t output, uint32_t row)
{
	static char text[256];
	const struct infer_column *column = &c->outputs[output];
	const struct infer_span *span = (const struct infer_span *) (c->region + column->spans_offset) + row;

	snprintf(text, sizeof(text), "%.*s", (int) span->length, (const char *) c->region + column->data_offset + span->begin);
	return text;
}

/* What a row's error says, all of it. */
static inline const struct infer_error_text * __attribute__((unused))
encoder_error(const struct encoder_call_fixture *c, uint32_t row)
{
	static struct infer_error_text text;
	struct infer_reader reader = {.data = c->request.reply + c->request.row_message[row], .size = 8192};

	memset(&text, 0, sizeof(text));
	if (c->request.row_message[row] != 0)
		infer_get_error(&reader, &text);
	return &text;
}

/* The output of a role; exits if there is none. */
static inline uint32_t __attribute__((unused))
encoder_output(const struct encoder_fixture *f, enum infer_role role)
{
	for (uint32_t i = 0; i < f->model->signature.outputs_count; i++)
		if (f->model->signature.outputs[i].role == role)
			return i;
	fprintf(stderr, "the model has no output of role %d\n", role);
	exit(1);
}

/* ---- one text ---- */

/* A request of one text. */
static inline void __attribute__((unused))
encoder_one(struct encoder_call_fixture *c, struct encoder_fixture *f, const char *text)
{
	encoder_request(c, f, 1);
	encoder_text(c, ENCODER_INPUT_TEXT, 0, text);
}

/* The first output of one text. */
static inline void __attribute__((unused))
encoder_embed(struct encoder_fixture *f, const char *text, int32_t flags, int32_t dimensions, const char *prompt, float *to)
{
	struct encoder_call_fixture c;

	encoder_one(&c, f, text);
	encoder_text(&c, ENCODER_INPUT_PROMPT, 0, prompt);
	encoder_option(&c, 0, INFER_TEXT_FLAGS, flags);
	encoder_option(&c, 0, INFER_TEXT_DIMENSIONS, dimensions);
	if (!encoder_run(&c) || c.request.row_status[0] != INFER_OK)
		printf("# \"%s\" failed: %s %s\n", text, f->status.message, encoder_error(&c, 0)->message);
	memcpy(to, encoder_numbers(&c, 0, 0), c.outputs[0].width * sizeof(*to));
	encoder_release(&c);
}

#endif							/* TEST_ENCODER_FIXTURE_H */
