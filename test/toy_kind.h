/*
 * toy_kind.h
 *	  A kind of model for tests of the engine: y = 2 x + 1 of one float, and misbehaviour on
 *	  demand.  Including it replaces the engine's list of kinds.
 *
 * Files: one named "toy".  Contents, words anywhere in it: "slow" (predicted to take 10 ms,
 * so that the loop never runs it itself), "malformed", "unsupported", "large" (claims 1 MB), "grows" (claims 1 MB when it
 * has run),
 * "allocations" (y is how often the process has asked the heap for memory, where heap.h is
 * included first), "label" (a second output, a string that names the row's value), "calm" (does nothing but
 * double, whatever the value).  With "texts" among them the kind prepares (toy_texts_ops): a row has
 * x tokens, and "bulky" requests claim to hold 40 MB then.
 *
 * Values of x that do not double: see enum toy_value.
 */
#ifndef TEST_TOY_KIND_H
#define TEST_TOY_KIND_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/device.h"
#include "engine/model/model.h"
#include "engine/status.h"

enum toy_value
{
	TOY_ROW_ERROR = -1,				/* this row fails */
	TOY_BATCH_ERROR = -2,			/* a batch with this row fails */
	TOY_SEGV = -3,					/* the process dies of a fault */
	TOY_LOST = -4,					/* the device is lost */
	TOY_MEMORY = -5,				/* a batch with this row and more than four others is out of memory */
	TOY_ABORT = -6,
	TOY_RUNS = -7,					/* takes 20 msec; y is how many runs of toys go on then */
	TOY_TOGETHER = -8,				/* waits until two of them have gone on at once, 5 s at most; y is how many ever did */

	/* of a toy with texts, as it prepares */
	TOY_NO_TEXT = -11,				/* this row fails */
	TOY_NO_REQUEST = -12,			/* all of it fails */
	TOY_TEXT_SEGV = -13,
	TOY_ANSWERED = -14,				/* needs no device */
	TOY_OPEN = -15,					/* answered: how many requests are prepared and not released */
	TOY_READ = -20000,				/* -20000 - n: the row takes n msec */

	TOY_SLEEP = 10000				/* 10000 + n: the batch takes n msec more */
};

#ifdef TEST_HEAP_H
#define TOY_ALLOCATIONS() heap_allocations()
#else
#define TOY_ALLOCATIONS() 0
#endif

struct toy
{
	struct model model;
	struct infer_tensor input;
	struct infer_tensor outputs[2];
	bool		slow;
	bool		calm;
	bool		bulky;
	bool		counts;
	bool		grows;
};

static bool
toy_has(const struct model_file *file, const char *word)
{
	return memmem(file->data, file->size, word, strlen(word)) != NULL;
}

static bool
toy_recognises(const struct model_files *files)
{
	return model_files_find(files, "toy") != NULL;
}

static const struct model_ops toy_ops;
static const struct model_ops toy_texts_ops;
static int	toy_open_requests;		/* atomic */
static uint32_t toy_runs;			/* atomic: that go on */
static uint32_t toy_runs_most;		/* atomic */

static struct model *
toy_open(const struct model_files *files, const char *options, struct device *device, struct status *status)
{
	const struct model_file *file = model_files_find(files, "toy");
	struct toy *toy;

	if (toy_has(file, "slow"))
		usleep(100000);			/* time for requests to come while it loads */
	if (toy_has(file, "malformed"))
	{
		status_set(status, INFER_ERROR_MODEL, "the toy is malformed");
		return NULL;
	}
	if (toy_has(file, "unsupported"))
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "the toy is not supported");
		return NULL;
	}
	toy = calloc(1, sizeof(*toy));
	toy->model.ops = toy_has(file, "texts") ? &toy_texts_ops : &toy_ops;
	toy->bulky = toy_has(file, "bulky");
	toy->model.bytes = toy_has(file, "large") ? 1 << 20 : 1024;
	toy->model.batch_rows_max = 4096;
	toy->slow = toy_has(file, "slow");
	toy->calm = toy_has(file, "calm");
	toy->grows = toy_has(file, "grows");
	toy->counts = toy_has(file, "allocations");
	toy->input = (struct infer_tensor) {.name = "x", .type = INFER_TYPE_F32};
	toy->outputs[0] = (struct infer_tensor) {.name = "y", .type = INFER_TYPE_F32};
	toy->outputs[1] = (struct infer_tensor) {.name = "name", .type = INFER_TYPE_STRING};
	toy->model.signature = (struct infer_signature) {
		.kind = "toy", .format = "toy 1", .notes = "", .facts = "",
		.inputs_count = 1, .inputs = &toy->input,
		.outputs_count = toy_has(file, "label") ? 2 : 1, .outputs = toy->outputs
	};
	return &toy->model;
}

static void
toy_close(struct model *model)
{
	free(model);
}

/* What a value does to the batch it is in. */
static bool
toy_behave(float x, uint32_t rows, struct status *status)
{
	switch ((int) x)
	{
		case TOY_BATCH_ERROR:
			return status_set(status, INFER_ERROR_DEVICE, "the toy device failed");
		case TOY_SEGV:
			raise(SIGSEGV);
			return true;
		case TOY_ABORT:
			abort();
		case TOY_LOST:
			return status_set(status, INFER_ERROR_DEVICE_LOST, "the toy device is lost");
		case TOY_MEMORY:
			return rows <= 5 || status_set(status, INFER_ERROR_MEMORY, "out of toy memory");
		case TOY_RUNS:
			usleep(20000);
			return true;
		case TOY_TOGETHER:
			for (int i = 0; i < 5000 && __atomic_load_n(&toy_runs_most, __ATOMIC_SEQ_CST) < 2; i++)
				usleep(1000);
			return true;
	}
	if (x >= TOY_SLEEP)
		usleep((useconds_t) (x - TOY_SLEEP) * 1000);
	return true;
}

static float
toy_result(const struct toy *toy, float x)
{
	if (toy->counts)
		return (float) TOY_ALLOCATIONS();
	if (!toy->calm && x == TOY_RUNS)
		return (float) __atomic_load_n(&toy_runs, __ATOMIC_SEQ_CST);
	if (!toy->calm && x == TOY_TOGETHER)
		return (float) __atomic_load_n(&toy_runs_most, __ATOMIC_SEQ_CST);
	return 2 * x + 1;
}

static void
toy_row(struct model *model, struct model_request *request, uint32_t row, float x)
{
	uint8_t    *region = (uint8_t *) request->region;

	if (x == TOY_ROW_ERROR)
		model_row_error(request, row, INFER_ERROR_INPUT, "the toy does not like this row", NULL, NULL);
	if (request->outputs[0].type != INFER_TYPE_NONE)
		((float *) (region + request->outputs[0].data_offset))[row] = toy_result((struct toy *) model, x);
	if (model->signature.outputs_count > 1)
	{
		char		text[32];
		struct device_text name = {text, (uint64_t) snprintf(text, sizeof(text), "row of %g", (double) x)};

		model_reply_strings(request, 1, row, 1, &name);
	}
}

static float
toy_value(const struct model_request *request, uint32_t row)
{
	return ((const float *) (request->region + request->columns[0].data_offset))[row];
}

static bool
toy_rows(struct model *model, const struct model_slice *slices, uint32_t slices_count, struct status *status)
{
	uint32_t	rows = 0;

	for (uint32_t i = 0; i < slices_count; i++)
		rows += slices[i].count;
	for (uint32_t i = 0; i < slices_count; i++)
	{
		for (uint32_t row = slices[i].first; row < slices[i].first + slices[i].count; row++)
		{
			float		x = toy_value(slices[i].request, row);

			if (slices[i].request->units != NULL && slices[i].request->units[row] == 0)
				continue;
			if (!((struct toy *) model)->calm && !toy_behave(x, rows, status))
				return false;
			toy_row(model, slices[i].request, row, x);
		}
	}
	if (((struct toy *) model)->grows)
		__atomic_store_n(&model->bytes, 1 << 20, __ATOMIC_RELAXED);
	return true;
}

static bool
toy_run(struct model *model, struct device_queue *queue, struct model_yield *yield, const struct model_slice *slices,
		uint32_t slices_count, struct status *status)
{
	uint32_t	runs = __atomic_add_fetch(&toy_runs, 1, __ATOMIC_SEQ_CST);
	uint32_t	most = __atomic_load_n(&toy_runs_most, __ATOMIC_SEQ_CST);
	bool		fine;

	while (most < runs && !__atomic_compare_exchange_n(&toy_runs_most, &most, runs, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	fine = toy_rows(model, slices, slices_count, status);
	__atomic_sub_fetch(&toy_runs, 1, __ATOMIC_SEQ_CST);
	return fine;
}

static uint64_t
toy_estimate(struct model *model, const struct model_cost *cost)
{
	return ((struct toy *) model)->slow ? 10000000 : 1000 * (uint64_t) cost->rows;
}

/* ---- texts ---- */

static uint32_t
toy_tokens(float x)
{
	return x >= 1 && x < TOY_SLEEP ? (uint32_t) x : 1;
}

/* false: the request fails. */
static bool
toy_prepare_row(struct model *model, struct model_request *request, uint32_t row, struct status *status)
{
	float		x = toy_value(request, row);

	if (x <= TOY_READ)
		usleep((useconds_t) (TOY_READ - x) * 1000);
	request->units[row] = toy_tokens(x);
	switch ((int) x)
	{
		case TOY_NO_TEXT:
			model_row_error(request, row, INFER_ERROR_INPUT, "the toy cannot read this row", NULL, NULL);
			request->units[row] = 0;
			break;
		case TOY_NO_REQUEST:
			return status_set(status, INFER_ERROR_INPUT, "the toy cannot read at all");
		case TOY_TEXT_SEGV:
			raise(SIGSEGV);
			break;
		case TOY_ANSWERED:
			toy_row(model, request, row, x);
			request->units[row] = 0;
			break;
		case TOY_OPEN:
			toy_row(model, request, row, (float) (__atomic_load_n(&toy_open_requests, __ATOMIC_SEQ_CST) - 1) / 2);
			request->units[row] = 0;
			break;
	}
	request->costs[row] = 1000 * request->units[row];
	return true;
}

static bool
toy_prepare(struct model *model, struct model_request *request, struct status *status)
{
	__atomic_add_fetch(&toy_open_requests, 1, __ATOMIC_SEQ_CST);
	request->prepared = calloc(2 * request->rows, sizeof(uint32_t));
	request->units = request->prepared;
	request->costs = request->units + request->rows;
	request->prepared_bytes = ((struct toy *) model)->bulky ? 40u << 20 : 2 * request->rows * sizeof(uint32_t);
	for (uint32_t row = 0; row < request->rows; row++)
	{
		if (!model_prepare_row(request, row))
			return status_set(status, INFER_ERROR_CANCELLED, "nobody wants it");
		if (!toy_prepare_row(model, request, row, status))
			return false;
	}
	return true;
}

static void
toy_release(struct model *model, struct model_request *request)
{
	__atomic_sub_fetch(&toy_open_requests, 1, __ATOMIC_SEQ_CST);
	free(request->prepared);
	request->prepared = NULL;
	request->units = request->costs = NULL;
}

static uint64_t
toy_texts_estimate(struct model *model, const struct model_cost *cost)
{
	return 10000 + 1000 * (cost->tokens > 0 ? cost->tokens : 8 * (uint64_t) cost->rows);
}

static const struct model_ops toy_texts_ops = {
	.kind = "toy",
	.recognises = toy_recognises,
	.open = toy_open,
	.close = toy_close,
	.prepare = toy_prepare,
	.release = toy_release,
	.run = toy_run,
	.estimate_nsec = toy_texts_estimate
};

static const struct model_ops toy_ops = {
	.kind = "toy",
	.recognises = toy_recognises,
	.open = toy_open,
	.close = toy_close,
	.run = toy_run,
	.estimate_nsec = toy_estimate
};

const struct model_ops *const model_kinds[] = {&toy_ops, NULL};

#endif							/* TEST_TOY_KIND_H */
