/*
 * check.c
 *	  The checks of what the other side wrote.
 *
 * Nouns
 *	check			a function of values already copied out of shared memory: NULL, or
 *					what is wrong in words for an error message
 *
 * Invariants
 *	- Nothing here allocates, aborts, or looks at shared memory: callers copy first.
 *	- No sum or product of foreign numbers is formed before it is known not to overflow.
 */
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

_Static_assert(sizeof(struct infer_frame) == 32, "a frame's header has 32 bytes");
_Static_assert(sizeof(struct infer_hello) == 16 + INFER_BUILD_MAX, "no padding in HELLO");
_Static_assert(sizeof(struct infer_welcome) == 24 + INFER_BUILD_MAX + INFER_NUMERICS_MAX, "no padding in WELCOME");
_Static_assert(sizeof(struct infer_load) == 88, "no padding in LOAD");
_Static_assert(sizeof(struct infer_column) == 56, "a column has 56 bytes");
_Static_assert(sizeof(struct infer_span) == 8, "a span has 8 bytes");
_Static_assert(sizeof(struct infer_region) <= INFER_REGION_HEAD, "a region's head fits its page");
_Static_assert(sizeof(struct infer_status_page) <= INFER_REGION_HEAD, "the status page is one page");

const char *
infer_dims_check(const int64_t *dims, uint32_t rank)
{
	uint64_t	product = 1;		/* varying ones count as 1 */

	for (uint32_t d = 0; d < rank; d++)
	{
		if (dims[d] < -1)
			return "a dimension is negative";
		if (dims[d] <= 0)
			continue;
		if ((uint64_t) dims[d] > INFER_REGION_MAX / product)
			return "a row has more elements than a region can hold";
		product *= (uint64_t) dims[d];
	}
	return NULL;
}

const char *
infer_frame_check(const struct infer_frame *frame)
{
	if (frame->magic != INFER_PROTOCOL_MAGIC)
		return "a frame does not begin with the protocol's magic number";
	if (frame->version != INFER_PROTOCOL_VERSION)
		return "a frame is of another protocol version";
	if (frame->length > INFER_FRAME_MAX)
		return "a frame is longer than the protocol allows";
	if (frame->reserved != 0)
		return "a frame's reserved field is not zero";
	if (frame->slot >= INFER_REGIONS_MAX)
		return "a frame names a region slot that does not exist";
	if (!((frame->type >= INFER_FRAME_HELLO && frame->type <= INFER_FRAME_ACTIVITY) ||
		  (frame->type >= INFER_FRAME_WELCOME && frame->type <= INFER_FRAME_ACTIVITY_REPLY)))
		return "a frame is of an unknown type";
	return NULL;
}

/* Whether [offset, offset + bytes) lies behind the head and inside the region. */
static int
inside(uint64_t offset, uint64_t bytes, uint64_t region_bytes)
{
	return offset >= INFER_REGION_HEAD && offset <= region_bytes &&
		bytes <= region_bytes - offset;
}

static const char *
strings_check(const struct infer_column *column, uint64_t rows, uint64_t region_bytes)
{
	uint64_t	spans_bytes = 0;

	if (column->spans_offset % 8 != 0)
		return "a column's spans are not aligned";
	if (column->width != INFER_WIDTH_VARIES)
	{
		if (column->width > INFER_REGION_MAX / sizeof(struct infer_span) / rows)
			return "a column has more elements than a region can hold";
		spans_bytes = rows * column->width * sizeof(struct infer_span);
	}
	if (!inside(column->spans_offset, spans_bytes, region_bytes))
		return "a column's spans are not inside the region";
	return NULL;
}

static const char *
numbers_check(const struct infer_column *column, uint64_t rows)
{
	uint64_t	bytes = infer_type_bytes(column->type);

	if (column->spans_offset != 0 && column->width != INFER_WIDTH_VARIES)
		return "a column of numbers of fixed width has spans";
	if (column->data_offset % 64 != 0)
		return "a column's data is not aligned";
	if (column->width == INFER_WIDTH_VARIES)
		return NULL;
	if (column->width > INFER_REGION_MAX / bytes / rows)
		return "a column has more elements than a region can hold";
	if (column->data_bytes < rows * column->width * bytes)
		return "a column's data is shorter than its rows";
	return NULL;
}

const char *
infer_column_check(const struct infer_column *column, uint64_t rows, uint64_t region_bytes)
{
	if (column->reserved != 0 || column->reserved2 != 0)
		return "a column's reserved field is not zero";
	if (column->type == INFER_TYPE_NONE)
	{
		if (column->width != 0 || column->data_bytes != 0)
			return "a column without a type has data";
		return NULL;
	}
	if (column->type > INFER_TYPE_LAST)
		return "a column is of an unknown type";
	if (rows == 0 || rows > INFER_ROWS_MAX)
		return "the number of rows is not acceptable";
	if (!inside(column->data_offset, column->data_bytes, region_bytes))
		return "a column's data is not inside the region";
	if (column->width == INFER_WIDTH_VARIES && column->type != INFER_TYPE_STRING && column->spans_offset != 0)
	{
		if (column->rows_offset != 0)
			return "a column has both spans and row ends";
		if (column->spans_offset % 8 != 0)
			return "a column's spans are not aligned";
		if (!inside(column->spans_offset, rows * sizeof(struct infer_span), region_bytes))
			return "a column's spans are not inside the region";
	}
	else if (column->width == INFER_WIDTH_VARIES)
	{
		if (column->rows_offset % 4 != 0)
			return "a column's row ends are not aligned";
		if (!inside(column->rows_offset, rows * sizeof(uint32_t), region_bytes))
			return "a column's row ends are not inside the region";
	}
	else if (column->rows_offset != 0)
		return "a column of fixed width has row ends";
	if (column->type == INFER_TYPE_STRING)
		return strings_check(column, rows, region_bytes);
	return numbers_check(column, rows);
}

const char *
infer_request_check(const struct infer_request *request, uint64_t region_bytes)
{
	if (request->rows == 0 || request->rows > INFER_ROWS_MAX)
		return "a request's number of rows is not acceptable";
	if (request->columns > INFER_COLUMNS_MAX)
		return "a request has more columns than the protocol allows";
	if (request->columns_offset % 8 != 0)
		return "a request's columns are not aligned";
	if (!inside(request->columns_offset, request->columns * sizeof(struct infer_column),
				region_bytes))
		return "a request's columns are not inside the region";
	if (request->reply_offset % 64 != 0)
		return "a request's reply is not aligned";
	if (!inside(request->reply_offset, request->reply_bytes, region_bytes))
		return "a request's reply is not inside the region";
	if (request->class_ > INFER_CLASS_JOB)
		return "a request is of an unknown class";
	if ((request->flags & ~(INFER_REQUEST_MARKED | INFER_REQUEST_PROFILE)) != 0)
		return "a request has an unknown flag";
	if ((request->flags & INFER_REQUEST_PROFILE) != 0 && request->rows != 1)
		return "a profile is of one row";
	return NULL;
}
