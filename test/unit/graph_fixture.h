/*
 * graph_fixture.h
 *	  A model from test/fixtures/onnx, and requests for it in memory.
 *
 * Loop
 *	fixture_open → fixture_rows → put values into fixture_input → fixture_run → read
 *	fixture_output and row_status → fixture_close.
 */
#ifndef TEST_GRAPH_FIXTURE_H
#define TEST_GRAPH_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device.h"
#include "engine/graph/graph_internal.h"
#include "engine/model/files.h"
#include "engine/model/graph/graph_model.h"
#include "engine/model/model.h"
#include "engine/status.h"
#include "tap.h"
#include "test_device.h"

#define FIXTURE_FOLDER		"test/fixtures/onnx/"
#define FIXTURE_REGION		(4u << 20)
#define FIXTURE_TEXTS		(64u << 10)		/* bytes of each string column */
#define FIXTURE_COLUMNS		16

struct fixture						/* one model and one request */
{
	struct device *device;
	struct device_queue *queue;
	struct model_files files;
	struct model *model;
	struct status status;
	uint8_t    *region;
	struct infer_column columns[FIXTURE_COLUMNS];
	struct infer_column outputs[FIXTURE_COLUMNS];
	uint64_t	texts_used[FIXTURE_COLUMNS];
	struct model_request request;
};

static struct device *fixture_device;	/* shared: threads are started once */

static inline struct device *
fixture_device_get(void)
{
	struct device_options options = {.threads = 1};
	struct status status = {0};

	if (fixture_device == NULL)
		fixture_device = device_open(test_device(&options), &options, &status);
	if (fixture_device == NULL)
	{
		fprintf(stderr, "no device: %s\n", status.message);
		exit(1);
	}
	return fixture_device;
}

/* False: f->status says why.  options may be NULL. */
static inline bool __attribute__((unused))
fixture_open(struct fixture *f, const char *name, const char *options)
{
	char		path[512];

	memset(f, 0, sizeof(*f));
	snprintf(path, sizeof(path), "%s%s", strncmp(name, "examples/", 9) == 0 ? "" : FIXTURE_FOLDER, name);
	f->device = fixture_device_get();
	f->queue = f->device->ops->queue_create(f->device, 0, &f->status);
	if (files_open_path(path, &f->files, &f->status) != FILES_OK)
	{
		fprintf(stderr, "cannot open %s: run from the repository's root\n", path);
		exit(1);
	}
	f->region = aligned_alloc(64, FIXTURE_REGION);
	memset(f->region, 0, FIXTURE_REGION);
	f->model = model_open(&f->files, options == NULL ? "" : options, f->device, &f->status);
	return f->model != NULL;
}

static inline void __attribute__((unused))
fixture_close(struct fixture *f)
{
	if (f->model != NULL)
		model_close(f->model);
	f->device->ops->queue_free(f->queue);
	files_close(&f->files);
	free(f->region);
}

static inline uint64_t
fixture_align(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Lays out a request of so many rows. */
static inline void __attribute__((unused))
fixture_rows(struct fixture *f, uint32_t rows)
{
	const struct infer_signature *signature = &f->model->signature;
	uint64_t	used = INFER_REGION_HEAD;

	memset(&f->request, 0, sizeof(f->request));
	memset(f->columns, 0, sizeof(f->columns));
	memset(f->texts_used, 0, sizeof(f->texts_used));
	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		struct infer_column *column = &f->columns[i];
		uint64_t	width = infer_tensor_width(&signature->inputs[i]);

		column->type = signature->inputs[i].type;
		column->width = width;
		if (column->type == INFER_TYPE_STRING)
		{
			column->spans_offset = used;
			used = fixture_align(used + rows * width * sizeof(struct infer_span));
			column->data_bytes = FIXTURE_TEXTS;
		}
		else
			column->data_bytes = rows * width * infer_type_bytes(column->type);
		column->data_offset = used;
		used = fixture_align(used + column->data_bytes);
	}
	f->request.rows = rows;
	f->request.columns_count = signature->inputs_count;
	f->request.columns = f->columns;
	f->request.region = f->region;
	f->request.region_bytes = FIXTURE_REGION;
	f->request.reply = f->region + used;
	f->request.reply_bytes = FIXTURE_REGION - used;
	f->request.outputs = f->outputs;
}

static inline void * __attribute__((unused))
fixture_input(struct fixture *f, uint32_t input)
{
	return f->region + f->columns[input].data_offset;
}

static inline void __attribute__((unused))
fixture_text(struct fixture *f, uint32_t input, uint32_t row, const char *text)
{
	struct infer_span *spans = (struct infer_span *) (f->region + f->columns[input].spans_offset);

	spans[row].begin = (uint32_t) f->texts_used[input];
	spans[row].length = (uint32_t) strlen(text);
	memcpy(f->region + f->columns[input].data_offset + f->texts_used[input], text, strlen(text));
	f->texts_used[input] += strlen(text);
}

/* Runs rows [first, first + count) as one slice of a batch. */
static inline bool __attribute__((unused))
fixture_run_slice(struct fixture *f, uint32_t first, uint32_t count)
{
	struct model_slice slice = {.request = &f->request, .first = first, .count = count};

	status_clear(&f->status);
	return f->model->ops->run(f->model, f->queue, NULL, &slice, 1, &f->status);
}

static inline bool __attribute__((unused))
fixture_layout(struct fixture *f)
{
	uint64_t	wanted;

	return model_reply_layout(&f->request, &f->model->signature, &wanted);
}

static inline bool __attribute__((unused))
fixture_run(struct fixture *f)
{
	return fixture_layout(f) && fixture_run_slice(f, 0, f->request.rows);
}

static inline const void * __attribute__((unused))
fixture_output(const struct fixture *f, uint32_t output)
{
	return f->region + f->outputs[output].data_offset;
}

/* Element i of a string output, as terminated text. */
static inline const char * __attribute__((unused))
fixture_output_text(const struct fixture *f, uint32_t output, uint32_t i)
{
	static char text[256];
	const struct infer_span *span = (const struct infer_span *) (f->region + f->outputs[output].spans_offset) + i;

	snprintf(text, sizeof(text), "%.*s", (int) span->length,
			 (const char *) f->region + f->outputs[output].data_offset + span->begin);
	return text;
}

/* What a row's error says. */
static inline const char * __attribute__((unused))
fixture_row_message(const struct fixture *f, uint32_t row)
{
	static struct infer_error_text text;
	struct infer_reader reader = {.data = f->request.reply + f->request.row_message[row], .size = f->request.reply_bytes - f->request.row_message[row]};

	if (f->request.row_message[row] == 0 || infer_get_error(&reader, &text) != 0)
		return "";
	return text.message;
}

static inline struct graph * __attribute__((unused))
fixture_graph(const struct fixture *f)
{
	return &((struct graph_model *) f->model)->graph;
}

static inline bool __attribute__((unused))
floats_are(const float *given, const float *wanted, int count)
{
	for (int i = 0; i < count; i++)
		if (!(fabsf(given[i] - wanted[i]) <= 1e-5f * (1 + fabsf(wanted[i]))))
		{
			printf("# element %d is %g, not %g\n", i, given[i], wanted[i]);
			return false;
		}
	return true;
}

#endif							/* TEST_GRAPH_FIXTURE_H */
