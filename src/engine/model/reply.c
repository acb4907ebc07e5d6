/*
 * reply.c
 *	  The reply of a request: where its parts lie, and how texts are added.
 *
 *	  reply:  row_status [rows] u32 | row_message [rows] u32 | column [outputs] |
 *	          output data, each 64-byte aligned | texts, strings and rows of varying width, as they come
 *
 * Invariants
 *	- Nothing is written at or behind reply_bytes.  What is read back from the region is
 *	  never trusted: the client may write there too.
 *	- A span counts from the start of the reply.
 */
#include "model.h"

#include <string.h>

#include "../device.h"

#define REPLY_ALIGN		64
#define REPLY_TEXTS		512			/* asked for beyond the fixed part: room for some texts */

static bool
output_is_wanted(const struct model_request *request, const struct infer_signature *signature, uint32_t output)
{
	if (request->outputs_wanted == 0)
		return (signature->outputs[output].flags & INFER_TENSOR_HIDDEN) == 0;
	return output < 32 && (request->outputs_wanted >> output & 1) != 0;
}

static uint64_t
align_up(uint64_t bytes)
{
	return (bytes + REPLY_ALIGN - 1) & ~(uint64_t) (REPLY_ALIGN - 1);
}

/* How many spans a column of the reply has; 0: it has none. */
static uint64_t
spans_count(const struct model_request *request, const struct infer_column *column)
{
	if (column->width == INFER_WIDTH_VARIES)
		return request->rows;
	return column->type == INFER_TYPE_STRING ? column->width * request->rows : 0;
}

/* Places one output at used; returns the first byte behind it. */
static uint64_t
place_output(struct model_request *request, const struct infer_tensor *tensor,
			 struct infer_column *column, uint64_t used)
{
	uint64_t	start = (uint64_t) (request->reply - request->region);
	uint64_t	elements;

	used = align_up(used);
	column->type = tensor->type;
	column->width = infer_tensor_width(tensor);
	if (spans_count(request, column) > 0)
	{
		column->spans_offset = start + used;
		column->data_offset = start;
		column->data_bytes = request->reply_bytes;
		return used + spans_count(request, column) * sizeof(struct infer_span);
	}
	elements = column->width * request->rows;
	column->data_offset = start + used;
	column->data_bytes = elements * infer_type_bytes(tensor->type);
	return used + column->data_bytes;
}

bool
model_reply_layout(struct model_request *request, const struct infer_signature *signature,
				   uint64_t *bytes_wanted)
{
	uint64_t	rows_bytes = (uint64_t) request->rows * sizeof(uint32_t);
	uint64_t	used = 2 * rows_bytes;

	used = align_up(used) + (uint64_t) signature->outputs_count * sizeof(struct infer_column);
	for (uint32_t i = 0; i < signature->outputs_count; i++)
	{
		struct infer_column *column = &request->outputs[i];

		memset(column, 0, sizeof(*column));
		if (output_is_wanted(request, signature, i))
			used = place_output(request, &signature->outputs[i], column, used);
	}
	if (used > request->reply_bytes)
	{
		*bytes_wanted = align_up(used + REPLY_TEXTS);
		return false;
	}
	request->row_status = (uint32_t *) request->reply;
	request->row_message = request->row_status + request->rows;
	request->reply_used = used;
	request->overflow = false;
	request->overflow_bytes = 0;
	memset(request->reply, 0, 2 * rows_bytes);
	for (uint32_t i = 0; i < signature->outputs_count; i++)
	{
		const struct infer_column *column = &request->outputs[i];

		if (column->spans_offset != 0)
			memset(request->reply + (column->spans_offset - (uint64_t) (request->reply - request->region)), 0,
				   spans_count(request, column) * sizeof(struct infer_span));
	}
	return true;
}

static void
append_error(struct model_request *request, uint32_t row, uint32_t error, const char *message, const char *detail,
			 const char *hint)
{
	uint64_t	at = (request->reply_used + 7) & ~7ull;
	struct infer_writer w;

	if (at >= request->reply_bytes || at > UINT32_MAX)
		return;
	w = (struct infer_writer) {.data = request->reply + at, .size = request->reply_bytes - at};
	infer_put_error(&w, error, message, detail, hint);
	if (w.failed)
		return;
	request->row_message[row] = (uint32_t) at;
	request->reply_used = at + w.used;
}

void
model_row_error(struct model_request *request, uint32_t row, uint32_t error,
				const char *message, const char *detail, const char *hint)
{
	request->row_status[row] = error;
	model_reply_lock(request);
	append_error(request, row, error, message, detail, hint);
	model_reply_unlock(request);
}

static void
append_strings(struct model_request *request, const struct infer_column *column, uint64_t first, uint64_t count,
			   const struct device_text *texts)
{
	struct infer_span last = {0};
	struct infer_span *spans;

	spans = (struct infer_span *) (request->region + column->spans_offset) + first;
	for (uint64_t i = 0; i < count; i++)
	{
		uint64_t	length = texts[i].length;

		/* labels come from a few constants: equal neighbours share their bytes */
		if (last.length > 0 && texts[i].data == texts[i - 1].data && length == last.length)
		{
			spans[i] = last;
			continue;
		}
		last.length = 0;
		if (length > request->reply_bytes - request->reply_used)
		{
			request->overflow = true;
			request->overflow_bytes += length;
			spans[i] = (struct infer_span) {0};
			continue;
		}
		if (length > 0)
			memcpy(request->reply + request->reply_used, texts[i].data, length);
		last = (struct infer_span) {.begin = (uint32_t) request->reply_used, .length = (uint32_t) length};
		spans[i] = last;
		request->reply_used += length;
	}
}

void
model_reply_strings(struct model_request *request, uint32_t output, uint64_t first,
					uint64_t count, const struct device_text *texts)
{
	const struct infer_column *column = &request->outputs[output];

	if (column->type != INFER_TYPE_STRING)
		return;					/* not wanted */
	model_reply_lock(request);
	append_strings(request, column, first, count, texts);
	model_reply_unlock(request);
}

static void
append_varying(struct model_request *request, const struct infer_column *column, uint32_t row, const void *data, uint64_t count)
{
	uint64_t	bytes = count * infer_type_bytes(column->type);
	uint64_t	at = (request->reply_used + 7) & ~7ull;
	struct infer_span *span;

	span = (struct infer_span *) (request->region + column->spans_offset) + row;
	if (at > request->reply_bytes || bytes > request->reply_bytes - at)
	{
		request->overflow = true;
		request->overflow_bytes += bytes + 7;
		return;
	}
	if (bytes > 0)
		memcpy(request->reply + at, data, bytes);
	*span = (struct infer_span) {.begin = (uint32_t) at, .length = (uint32_t) bytes};
	request->reply_used = at + bytes;
}

void
model_reply_varying(struct model_request *request, uint32_t output, uint32_t row, const void *data, uint64_t count)
{
	const struct infer_column *column = &request->outputs[output];

	if (column->width != INFER_WIDTH_VARIES)
		return;					/* not wanted */
	model_reply_lock(request);
	append_varying(request, column, row, data, count);
	model_reply_unlock(request);
}

/* Of a request that is alone: one row, marked. */
uint8_t *
model_profile_reserve(struct model_request *request, size_t bytes)
{
	uint64_t	room = request->reply_bytes - request->reply_used;

	request->profile_bytes = 0;
	if (bytes > room)
	{
		request->overflow = true;
		request->overflow_bytes += bytes;
		return NULL;
	}
	request->profile_offset = request->reply_used;
	request->profile_bytes = (uint32_t) bytes;
	request->reply_used += bytes;
	return request->reply + request->profile_offset;
}
