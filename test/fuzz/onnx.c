/*
 * onnx.c
 *	  Fuzzes the reader of ONNX files, lowering, folding and compiling, then runs a model that
 *	  opens on a few rows.  Nothing may crash, leak, or fail without saying why.
 *
 * The seeds are the unit tests' fixtures: test/fixtures/onnx.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device.h"
#include "engine/model/graph/graph_model.h"
#include "engine/status.h"

#define ROWS		3
#define REGION		(1u << 20)
#define WIDTH_MAX	4096
#define MEMORY		(256u << 20)	/* bytes of the device: a model that wants more is refused */

static struct device *device;
static struct device_queue *queue;
static uint8_t *region;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct device_options options = {.threads = 1, .memory = MEMORY};
	struct status status = {0};

	device = device_open("cpu", &options, &status);
	if (device == NULL)
		abort();
	queue = device->ops->queue_create(device, 0, &status);
	region = aligned_alloc(64, REGION);
	return 0;
}

/* Rows of zeros through a model, where they fit into the region. */
static void
run_rows(struct model *model)
{
	const struct infer_signature *signature = &model->signature;
	struct infer_column columns[INFER_COLUMNS_MAX] = {0}, outputs[INFER_COLUMNS_MAX] = {0};
	struct model_request request = {.rows = ROWS, .region = region, .region_bytes = REGION};
	struct model_slice slice = {.request = &request, .count = ROWS};
	struct status status = {0};
	uint64_t	used = INFER_REGION_HEAD, wanted;

	memset(region, 0, REGION);
	for (uint32_t i = 0; i < signature->inputs_count; i++)
	{
		struct infer_column *column = &columns[i];

		column->type = signature->inputs[i].type;
		column->width = infer_tensor_width(&signature->inputs[i]);
		if (column->width > WIDTH_MAX || used + 16 * WIDTH_MAX * ROWS > REGION / 2)
			return;
		column->data_offset = used;
		if (column->type == INFER_TYPE_STRING)
			column->spans_offset = used;
		else
			column->data_bytes = ROWS * column->width * infer_type_bytes(column->type);
		used += (ROWS * column->width * 8 + 63) / 64 * 64;
	}
	request.columns_count = signature->inputs_count;
	request.columns = columns;
	request.outputs = outputs;
	request.reply = region + REGION / 2;
	request.reply_bytes = REGION / 2;
	for (uint32_t i = 0; i < signature->outputs_count; i++)
		if (infer_tensor_width(&signature->outputs[i]) > REGION)
			return;
	if (model_reply_layout(&request, signature, &wanted) &&
		!model->ops->run(model, queue, NULL, &slice, 1, &status) && status.error == INFER_OK)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model_file files_array[2] = {
		{"model.onnx", data, size},
		{"weights.bin", data, size < 128 ? size : 128}
	};
	struct model_files files = {2, files_array};
	struct status status = {0};
	struct model *model = graph_model_ops.open(&files, "{\"dims\": {}}", device, &status);

	if (model == NULL)
	{
		if (status.error == INFER_OK || status.message[0] == '\0')
			abort();
		return 0;
	}
	run_rows(model);
	graph_model_ops.close(model);
	return 0;
}
