/*
 * protocol.c
 *	  What both halves share of the protocol: the bounded encoding, and the checks of what
 *	  the other side wrote.
 *
 * Nouns
 *	writer, reader	cursors over a buffer that never leave it; the first thing that does not
 *					fit sets failed, and everything after it is a no-op, so that callers check
 *					once, at the end
 *	check			a function of values already copied out of shared memory: NULL, or
 *					what is wrong in words for an error message
 *
 * Invariants
 *	- Nothing here allocates, aborts, or looks at shared memory: callers copy first.
 *	- No sum or product of foreign numbers is formed before it is known not to overflow.
 *	- The encoding is little-endian on every machine.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "protocol.h"

_Static_assert(sizeof(struct infer_frame) == 32, "a frame's header has 32 bytes");
_Static_assert(sizeof(struct infer_hello) == 16 + INFER_BUILD_MAX, "no padding in HELLO");
_Static_assert(sizeof(struct infer_welcome) == 24 + INFER_BUILD_MAX + INFER_NUMERICS_MAX, "no padding in WELCOME");
_Static_assert(sizeof(struct infer_load) == 88, "no padding in LOAD");
_Static_assert(sizeof(struct infer_column) == 56, "a column has 56 bytes");
_Static_assert(sizeof(struct infer_span) == 8, "a span has 8 bytes");
_Static_assert(sizeof(struct infer_region) <= INFER_REGION_HEAD, "a region's head fits its page");
_Static_assert(sizeof(struct infer_status_page) <= INFER_REGION_HEAD, "the status page is one page");

/* ---- writing ---- */

void
infer_put_bytes(struct infer_writer *w, const void *data, size_t length)
{
	if (w->failed || length > w->size - w->used)
	{
		w->failed = 1;
		return;
	}
	if (length > 0)
		memcpy(w->data + w->used, data, length);
	w->used += length;
}

void
infer_put_u32(struct infer_writer *w, uint32_t value)
{
	uint8_t		bytes[4];

	for (int i = 0; i < 4; i++)
		bytes[i] = (uint8_t) (value >> (8 * i));
	infer_put_bytes(w, bytes, sizeof(bytes));
}

void
infer_put_u64(struct infer_writer *w, uint64_t value)
{
	infer_put_u32(w, (uint32_t) value);
	infer_put_u32(w, (uint32_t) (value >> 32));
}

void
infer_put_string(struct infer_writer *w, const char *text, size_t length)
{
	if (length > UINT32_MAX)
	{
		w->failed = 1;
		return;
	}
	infer_put_u32(w, (uint32_t) length);
	infer_put_bytes(w, text, length);
}

/* A C string; NULL is written as the empty one. */
static void
put_text(struct infer_writer *w, const char *text)
{
	infer_put_string(w, text, text != NULL ? strlen(text) : 0);
}

/* A C string cut to fit a fixed field, at a character's border (UTF-8). */
static void
put_text_cut(struct infer_writer *w, const char *text, size_t max)
{
	size_t		length = text != NULL ? strlen(text) : 0;

	if (length > max)
	{
		length = max;
		while (length > 0 && ((unsigned char) text[length] & 0xC0) == 0x80)
			length--;
	}
	infer_put_string(w, text, length);
}

/* ---- reading ---- */

const uint8_t *
infer_get_bytes(struct infer_reader *r, size_t length)
{
	const uint8_t *bytes;

	if (r->failed || length > r->size - r->used)
	{
		r->failed = 1;
		return NULL;
	}
	bytes = r->data + r->used;
	r->used += length;
	return bytes;
}

uint32_t
infer_get_u32(struct infer_reader *r)
{
	const uint8_t *bytes = infer_get_bytes(r, 4);
	uint32_t	value = 0;

	if (bytes == NULL)
		return 0;
	for (int i = 0; i < 4; i++)
		value |= (uint32_t) bytes[i] << (8 * i);
	return value;
}

uint64_t
infer_get_u64(struct infer_reader *r)
{
	uint64_t	low = infer_get_u32(r);
	uint64_t	high = infer_get_u32(r);

	return r->failed ? 0 : low | high << 32;
}

const char *
infer_get_string(struct infer_reader *r, uint32_t *length)
{
	uint32_t	n = infer_get_u32(r);
	const uint8_t *bytes = infer_get_bytes(r, n);

	*length = bytes != NULL ? n : 0;
	return (const char *) bytes;
}

/* ---- errors ---- */

void
infer_put_error(struct infer_writer *w, uint32_t error, const char *message,
				const char *detail, const char *hint)
{
	infer_put_u32(w, error);
	put_text_cut(w, message, INFER_MESSAGE_MAX - 1);
	put_text_cut(w, detail, INFER_MESSAGE_MAX - 1);
	put_text_cut(w, hint, INFER_MESSAGE_MAX - 1);
}

static void
get_text_field(struct infer_reader *r, char field[INFER_MESSAGE_MAX])
{
	uint32_t	length;
	const char *text = infer_get_string(r, &length);

	if (text == NULL || length >= INFER_MESSAGE_MAX || memchr(text, 0, length) != NULL)
	{
		r->failed = 1;
		return;
	}
	memcpy(field, text, length);
	field[length] = '\0';
}

int
infer_get_error(struct infer_reader *r, struct infer_error_text *out)
{
	memset(out, 0, sizeof(*out));
	out->error = infer_get_u32(r);
	get_text_field(r, out->message);
	get_text_field(r, out->detail);
	get_text_field(r, out->hint);
	if (r->failed || out->error == INFER_OK || out->error > INFER_ERROR_LAST)
	{
		r->failed = 1;
		return -1;
	}
	return 0;
}

/* ---- signatures ---- */

struct decoder						/* where infer_get_signature reads, and whose memory it fills */
{
	struct infer_reader *r;
	void	   *(*alloc) (void *arg, size_t bytes);
	void	   *arg;
};

static void
put_tensors(struct infer_writer *w, const struct infer_tensor *tensors, uint32_t count)
{
	infer_put_u32(w, count);
	for (uint32_t i = 0; i < count; i++)
	{
		const struct infer_tensor *t = &tensors[i];

		put_text(w, t->name);
		infer_put_u32(w, t->type);
		infer_put_u32(w, t->role);
		infer_put_u32(w, t->flags);
		infer_put_u32(w, t->rank);
		for (uint32_t d = 0; d < t->rank && d < INFER_RANK_MAX; d++)
			infer_put_u64(w, (uint64_t) t->dims[d]);
	}
}

static void
put_texts(struct infer_writer *w, char *const *texts, uint32_t count)
{
	infer_put_u32(w, count);
	for (uint32_t i = 0; i < count; i++)
		put_text(w, texts[i]);
}

void
infer_put_signature(struct infer_writer *w, const struct infer_signature *signature)
{
	infer_put_u32(w, signature->task);
	infer_put_u32(w, signature->flags);
	infer_put_u64(w, signature->bytes);
	infer_put_u64(w, signature->alone_nsec);
	infer_put_u64(w, signature->row_nsec);
	put_text(w, signature->kind);
	put_text(w, signature->format);
	put_text(w, signature->notes);
	put_text(w, signature->facts);
	put_tensors(w, signature->inputs, signature->inputs_count);
	put_tensors(w, signature->outputs, signature->outputs_count);
	put_texts(w, signature->classes, signature->classes_count);
	put_texts(w, signature->features, signature->features_count);
}

/* A string of at most max bytes as a C string; an embedded zero is malformed. */
static char *
get_text(struct decoder *d, uint32_t max)
{
	uint32_t	length;
	const char *text = infer_get_string(d->r, &length);
	char	   *copy;

	if (text == NULL || length > max || memchr(text, 0, length) != NULL)
	{
		d->r->failed = 1;
		return NULL;
	}
	copy = d->alloc(d->arg, (size_t) length + 1);
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

static void
get_tensor(struct decoder *d, struct infer_tensor *t)
{
	memset(t, 0, sizeof(*t));
	t->name = get_text(d, INFER_NAME_MAX);
	t->type = infer_get_u32(d->r);
	t->role = infer_get_u32(d->r);
	t->flags = infer_get_u32(d->r);
	t->rank = infer_get_u32(d->r);
	if (t->type == INFER_TYPE_NONE || t->type > INFER_TYPE_LAST ||
		t->role > INFER_ROLE_LAST || t->rank > INFER_RANK_MAX)
	{
		d->r->failed = 1;
		return;
	}
	for (uint32_t i = 0; i < t->rank; i++)
		t->dims[i] = (int64_t) infer_get_u64(d->r);
	if (infer_dims_check(t->dims, t->rank) != NULL)
		d->r->failed = 1;
}

static struct infer_tensor *
get_tensors(struct decoder *d, uint32_t *count)
{
	uint32_t	n = infer_get_u32(d->r);
	struct infer_tensor *tensors;

	*count = 0;
	if (d->r->failed || n > INFER_COLUMNS_MAX)
	{
		d->r->failed = 1;
		return NULL;
	}
	if (n == 0)
		return NULL;
	tensors = d->alloc(d->arg, n * sizeof(*tensors));
	for (uint32_t i = 0; i < n && !d->r->failed; i++)
		get_tensor(d, &tensors[i]);
	if (d->r->failed)
		return NULL;
	*count = n;
	return tensors;
}

static char **
get_texts(struct decoder *d, uint32_t *count)
{
	uint32_t	n = infer_get_u32(d->r);
	char	  **texts;

	*count = 0;

	/* each takes four bytes at least: a count cannot ask for more memory than it brings */
	if (d->r->failed || n > (d->r->size - d->r->used) / 4)
	{
		d->r->failed = 1;
		return NULL;
	}
	if (n == 0)
		return NULL;
	texts = d->alloc(d->arg, n * sizeof(*texts));
	for (uint32_t i = 0; i < n && !d->r->failed; i++)
		texts[i] = get_text(d, INFER_FRAME_MAX);
	if (d->r->failed)
		return NULL;
	*count = n;
	return texts;
}

int
infer_get_signature(struct infer_reader *r, struct infer_signature *out,
					void *(*alloc) (void *arg, size_t bytes), void *arg)
{
	struct decoder d = {r, alloc, arg};

	memset(out, 0, sizeof(*out));
	out->task = infer_get_u32(r);
	out->flags = infer_get_u32(r);
	out->bytes = infer_get_u64(r);
	out->alone_nsec = infer_get_u64(r);
	out->row_nsec = infer_get_u64(r);
	if (out->task > INFER_TASK_LAST)
		r->failed = 1;
	out->kind = get_text(&d, INFER_NAME_MAX);
	out->format = get_text(&d, INFER_FRAME_MAX);
	out->notes = get_text(&d, INFER_FRAME_MAX);
	out->facts = get_text(&d, INFER_FRAME_MAX);
	out->inputs = get_tensors(&d, &out->inputs_count);
	out->outputs = get_tensors(&d, &out->outputs_count);
	out->classes = get_texts(&d, &out->classes_count);
	out->features = get_texts(&d, &out->features_count);
	return r->failed ? -1 : 0;
}

/* ---- checks ---- */

size_t
infer_type_bytes(uint32_t type)
{
	switch (type)
	{
		case INFER_TYPE_F32:
		case INFER_TYPE_I32:
			return 4;
		case INFER_TYPE_F64:
		case INFER_TYPE_I64:
			return 8;
		case INFER_TYPE_BOOL:
			return 1;
		default:
			return 0;
	}
}

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

/* ---- names ---- */

const char *
infer_type_name(uint32_t type)
{
	static const char *const names[] = {
		[INFER_TYPE_NONE] = "none",
		[INFER_TYPE_F32] = "float32",
		[INFER_TYPE_F64] = "float64",
		[INFER_TYPE_I32] = "int32",
		[INFER_TYPE_I64] = "int64",
		[INFER_TYPE_BOOL] = "bool",
		[INFER_TYPE_STRING] = "string",
	};

	return type <= INFER_TYPE_LAST ? names[type] : "unknown type";
}

const char *
infer_error_name(uint32_t error)
{
	static const char *const names[] = {
		[INFER_OK] = "ok",
		[INFER_ERROR_INPUT] = "input not acceptable to the model",
		[INFER_ERROR_NOT_FINITE] = "output not finite",
		[INFER_ERROR_UNSUPPORTED] = "not supported",
		[INFER_ERROR_MODEL] = "malformed model",
		[INFER_ERROR_NEED_LOAD] = "model not loaded",
		[INFER_ERROR_NEED_FILES] = "model files missing",
		[INFER_ERROR_NEED_SPACE] = "reply does not fit",
		[INFER_ERROR_BUSY] = "engine busy",
		[INFER_ERROR_DEADLINE] = "deadline passed",
		[INFER_ERROR_CANCELLED] = "cancelled",
		[INFER_ERROR_MEMORY] = "out of memory",
		[INFER_ERROR_DEVICE] = "device failed",
		[INFER_ERROR_DEVICE_LOST] = "device lost",
		[INFER_ERROR_PROTOCOL] = "protocol violation",
		[INFER_ERROR_VERSION] = "version mismatch",
		[INFER_ERROR_INTERNAL] = "internal error",
	};

	return error <= INFER_ERROR_LAST ? names[error] : "unknown error";
}
