/*
 * protocol.c
 *	  The encoding and the checks of the protocol, at their borders.
 *
 * Readers work on buffers of exactly the size that they are told, so that a sanitizer sees
 * a byte too many; every encoded thing is also read cut off after each of its bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/protocol.h"
#include "tap.h"

#define REGION (1u << 20)			/* bytes, in the checks */

/* What a reader allocates lives as long as the program, and is found by a leak checker. */
static void *
allocate(void *arg, size_t bytes)
{
	static void **last;
	void	  **memory = malloc(sizeof(max_align_t) + bytes);

	(void) arg;
	memory[0] = last;
	last = memory;
	return (char *) memory + sizeof(max_align_t);
}

/* A reader over an exact copy of what was written. */
static struct infer_reader
reader_of(const uint8_t *data, size_t size)
{
	uint8_t    *copy = malloc(size > 0 ? size : 1);

	if (size > 0)
		memcpy(copy, data, size);
	return (struct infer_reader) {copy, size, 0, 0};
}

static void
reader_free(struct infer_reader *r)
{
	free((void *) r->data);
}

/* ---- numbers, bytes, strings ---- */

static void
test_numbers(void)
{
	static const uint8_t expected[] = {4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 2, 0, 0, 0, 'h', 'i'};
	uint8_t		buffer[64];
	struct infer_writer w = {buffer, sizeof(buffer), 0, 0};
	struct infer_reader r;
	uint32_t	length;
	const char *text;

	infer_put_u32(&w, 0x01020304);
	infer_put_u64(&w, 0x0102030405060708);
	infer_put_string(&w, "hi", 2);
	tap_ok(!w.failed && w.used == sizeof(expected) && memcmp(buffer, expected, w.used) == 0,
		   "numbers and strings are little-endian with lengths before them");

	r = reader_of(buffer, w.used);
	tap_ok(infer_get_u32(&r) == 0x01020304 && infer_get_u64(&r) == 0x0102030405060708, "numbers come back");
	text = infer_get_string(&r, &length);
	tap_ok(text != NULL && length == 2 && memcmp(text, "hi", 2) == 0 && !r.failed && r.used == r.size,
		   "a string comes back");
	tap_ok(infer_get_bytes(&r, 1) == NULL && r.failed, "nothing is read behind the end");
	tap_ok(infer_get_u32(&r) == 0 && infer_get_u64(&r) == 0, "a failed reader gives zeros");
	reader_free(&r);
}

static void
test_writer_bounds(void)
{
	uint8_t		buffer[32];
	int			wrong = 0;

	for (size_t size = 0; size < 18; size++)
	{
		struct infer_writer w = {buffer, size, 0, 0};

		memset(buffer, 0xAA, sizeof(buffer));
		infer_put_u32(&w, 1);
		infer_put_u64(&w, 2);
		infer_put_string(&w, "hi", 2);
		if (!w.failed || w.used > size)
			wrong++;
		for (size_t i = size; i < sizeof(buffer); i++)
			if (buffer[i] != 0xAA)
				wrong++;
	}
	tap_ok(wrong == 0, "a writer that is too small fails and writes nothing behind its end");
}

static void
test_string_length(void)
{
	static const uint8_t lies[] = {0xFF, 0xFF, 0xFF, 0xFF, 'a', 'b'};
	struct infer_reader r = reader_of(lies, sizeof(lies));
	uint32_t	length = 7;

	tap_ok(infer_get_string(&r, &length) == NULL && length == 0 && r.failed,
		   "a string longer than the rest is refused");
	reader_free(&r);
}

/* ---- errors ---- */

static void
test_errors(void)
{
	static uint8_t buffer[4 * INFER_MESSAGE_MAX];
	struct infer_writer w = {buffer, sizeof(buffer), 0, 0};
	struct infer_error_text err;
	struct infer_reader r;
	int			accepted = 0;

	infer_put_error(&w, INFER_ERROR_BUSY, "the queue is full", "It holds 1000 calls.", NULL);
	r = reader_of(buffer, w.used);
	tap_ok(infer_get_error(&r, &err) == 0 && err.error == INFER_ERROR_BUSY &&
		   strcmp(err.message, "the queue is full") == 0 &&
		   strcmp(err.detail, "It holds 1000 calls.") == 0 && err.hint[0] == '\0',
		   "an error comes back");
	reader_free(&r);

	for (size_t size = 0; size < w.used; size++)
	{
		r = reader_of(buffer, size);
		accepted += infer_get_error(&r, &err) == 0;
		reader_free(&r);
	}
	tap_ok(accepted == 0, "an error cut off anywhere is refused");
}

static void
test_error_texts(void)
{
	static uint8_t buffer[4 * INFER_MESSAGE_MAX];
	char		text[2 * INFER_MESSAGE_MAX];
	struct infer_writer w = {buffer, sizeof(buffer), 0, 0};
	struct infer_error_text err;
	struct infer_reader r;

	/* two-byte characters behind one byte: the cut would fall into the middle of one */
	memset(text, 0, sizeof(text));
	text[0] = 'a';
	for (int i = 1; i + 1 < 1500; i += 2)
		memcpy(text + i, "\xC3\xA9", 2);
	infer_put_error(&w, INFER_ERROR_INPUT, text, "", "");
	r = reader_of(buffer, w.used);
	tap_ok(infer_get_error(&r, &err) == 0 && strlen(err.message) == INFER_MESSAGE_MAX - 1 &&
		   (unsigned char) err.message[INFER_MESSAGE_MAX - 2] == 0xA9,
		   "a long message is cut between characters");
	reader_free(&r);

	memmove(text, text + 1, sizeof(text) - 1);
	w.used = 0;
	infer_put_error(&w, INFER_ERROR_INPUT, text, "", "");
	r = reader_of(buffer, w.used);
	tap_ok(infer_get_error(&r, &err) == 0 && strlen(err.message) == INFER_MESSAGE_MAX - 2,
		   "a character that does not fit whole is left out");
	reader_free(&r);
}

static void
test_error_refusals(void)
{
	uint8_t		buffer[256];
	struct infer_error_text err;
	static const uint32_t classes[] = {INFER_OK, INFER_ERROR_LAST + 1, UINT32_MAX};
	int			accepted = 0;
	struct infer_reader r;
	struct infer_writer w;

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
	{
		w = (struct infer_writer) {buffer, sizeof(buffer), 0, 0};
		infer_put_error(&w, classes[i], "m", "d", "h");
		r = reader_of(buffer, w.used);
		accepted += infer_get_error(&r, &err) == 0;
		reader_free(&r);
	}
	tap_ok(accepted == 0, "an error of an unknown class, or of none, is refused");

	w = (struct infer_writer) {buffer, sizeof(buffer), 0, 0};
	infer_put_u32(&w, INFER_ERROR_INPUT);
	infer_put_string(&w, "a\0b", 3);
	infer_put_string(&w, "", 0);
	infer_put_string(&w, "", 0);
	r = reader_of(buffer, w.used);
	tap_ok(infer_get_error(&r, &err) != 0, "a zero byte inside a text is refused");
	reader_free(&r);
}

/* ---- signatures ---- */

static struct infer_tensor example_inputs[] = {
	{"features", INFER_TYPE_F32, INFER_ROLE_VALUE, INFER_TENSOR_BATCH | INFER_TENSOR_MISSING, 1, {30}},
	{"city", INFER_TYPE_STRING, INFER_ROLE_VALUE, INFER_TENSOR_BATCH, 2, {-1, 3}},
};
static struct infer_tensor example_outputs[] = {
	{"label", INFER_TYPE_I64, INFER_ROLE_LABEL, INFER_TENSOR_BATCH, 0, {0}},
	{"probabilities", INFER_TYPE_F32, INFER_ROLE_SCORES, INFER_TENSOR_BATCH | INFER_TENSOR_MAP, 1, {2}},
};
static char *example_classes[] = {"benign", "malignant"};
static char *example_features[] = {"age", "", "Sepal.Length"};

static struct infer_signature
example(void)
{
	return (struct infer_signature)
	{
		.task = INFER_TASK_CLASSIFIER,
		.flags = INFER_SIGNATURE_ROW_BY_ROW,
		.bytes = 123456789012,
		.alone_nsec = 98765432109,
		.row_nsec = 4321,
		.kind = "graph",
		.format = "onnx 8, ai.onnx 17",
		.notes = "",
		.facts = "{\"tokens_max\": 256}",
		.inputs_count = 2,
		.outputs_count = 2,
		.inputs = example_inputs,
		.outputs = example_outputs,
		.classes_count = 2,
		.classes = example_classes,
		.features_count = 3,
		.features = example_features
	};
}

static size_t
encode(const struct infer_signature *signature, uint8_t *buffer, size_t size)
{
	struct infer_writer w = {buffer, size, 0, 0};

	infer_put_signature(&w, signature);
	return w.failed ? 0 : w.used;
}

static int
decode(const uint8_t *buffer, size_t size, struct infer_signature *out)
{
	struct infer_reader r = reader_of(buffer, size);
	int			result = infer_get_signature(&r, out, allocate, NULL);

	reader_free(&r);
	return result;
}

static void
test_signature(void)
{
	uint8_t		first[1024];
	uint8_t		second[1024];
	struct infer_signature signature = example();
	struct infer_signature back;
	size_t		size = encode(&signature, first, sizeof(first));
	int			accepted = 0;

	tap_ok(size > 0 && decode(first, size, &back) == 0, "a signature comes back");
	tap_ok(encode(&back, second, sizeof(second)) == size && memcmp(first, second, size) == 0,
		   "and is the same when it is written again");
	tap_ok(back.task == INFER_TASK_CLASSIFIER && back.bytes == 123456789012 &&
		   strcmp(back.inputs[1].name, "city") == 0 && back.inputs[1].dims[0] == -1 &&
		   back.outputs[1].flags == (INFER_TENSOR_BATCH | INFER_TENSOR_MAP) &&
		   strcmp(back.classes[1], "malignant") == 0 && back.features_count == 3 &&
		   strcmp(back.features[1], "") == 0, "with all its fields");

	for (size_t cut = 0; cut < size; cut++)
		accepted += decode(first, cut, &back) == 0;
	tap_ok(accepted == 0, "a signature cut off anywhere is refused");

	accepted = 0;
	for (size_t cut = 0; cut < size; cut++)
		accepted += encode(&signature, second, cut) != 0;
	tap_ok(accepted == 0, "a signature does not fit into less than its size");
}

/* Whether a signature changed by the caller is still accepted. */
static bool
accepts(const struct infer_signature *signature)
{
	static uint8_t buffer[1 << 20];
	struct infer_signature back;
	size_t		size = encode(signature, buffer, sizeof(buffer));

	return size > 0 && decode(buffer, size, &back) == 0;
}

static void
test_signature_refusals(void)
{
	static struct infer_tensor many[INFER_COLUMNS_MAX + 1];
	static char long_name[INFER_NAME_MAX + 2];
	struct infer_tensor tensor = {"x", INFER_TYPE_F32, INFER_ROLE_VALUE, 0, 1, {4}};
	struct infer_signature s = example();

	s.inputs = &tensor;
	s.inputs_count = 1;
	tap_ok(accepts(&s), "a signature with one input is accepted");
	tensor.type = INFER_TYPE_NONE;
	tap_ok(!accepts(&s), "an input without a type is refused");
	tensor.type = INFER_TYPE_LAST + 1;
	tap_ok(!accepts(&s), "an input of an unknown type is refused");
	tensor.type = INFER_TYPE_F32;
	tensor.role = INFER_ROLE_LAST + 1;
	tap_ok(!accepts(&s), "an unknown role is refused");
	tensor.role = INFER_ROLE_VALUE;
	tensor.rank = INFER_RANK_MAX + 1;
	tap_ok(!accepts(&s), "a rank over the limit is refused");
	tensor.rank = 1;
	tensor.dims[0] = -2;
	tap_ok(!accepts(&s), "a dimension below -1 is refused");
	tensor.rank = 2;
	tensor.dims[0] = INT64_C(1) << 32;
	tensor.dims[1] = INT64_C(1) << 32;
	tap_ok(!accepts(&s), "dimensions whose product overflows are refused");
	tensor.dims[0] = tensor.dims[1] = 0;
	tap_ok(accepts(&s), "a dimension of 0 is accepted");

	memset(long_name, 'n', INFER_NAME_MAX);
	tensor.name = long_name;
	tap_ok(accepts(&s), "a name as long as the limit is accepted");
	long_name[INFER_NAME_MAX] = 'n';
	tap_ok(!accepts(&s), "a longer name is refused");
	tensor.name = "x";

	for (int i = 0; i <= INFER_COLUMNS_MAX; i++)
		many[i] = tensor;
	s.inputs = many;
	s.inputs_count = INFER_COLUMNS_MAX;
	tap_ok(accepts(&s), "as many inputs as the limit are accepted");
	s.inputs_count++;
	tap_ok(!accepts(&s), "one more is refused");

	s = example();
	s.task = INFER_TASK_LAST + 1;
	tap_ok(!accepts(&s), "an unknown task is refused");
}

/* A count that the bytes behind it could never fill must not make anybody allocate for it. */
static size_t largest;

static void *
allocate_noted(void *arg, size_t bytes)
{
	if (bytes > largest)
		largest = bytes;
	return allocate(arg, bytes);
}

static void
test_signature_counts(void)
{
	uint8_t		buffer[256];
	struct infer_writer w = {buffer, sizeof(buffer), 0, 0};
	struct infer_signature out;
	struct infer_reader r;

	infer_put_u32(&w, 0);
	infer_put_u32(&w, 0);
	infer_put_u64(&w, 0);
	for (int i = 0; i < 3; i++)
		infer_put_string(&w, "", 0);
	infer_put_u32(&w, 0);
	infer_put_u32(&w, 0);
	infer_put_u32(&w, 0x40000000);	/* classes */
	r = reader_of(buffer, w.used);
	tap_ok(infer_get_signature(&r, &out, allocate_noted, NULL) != 0 && largest < 4096,
		   "a huge count of classes is refused before memory is asked for");
	reader_free(&r);
}

/* ---- frames ---- */

static void
test_frames(void)
{
	struct infer_frame good = {INFER_PROTOCOL_MAGIC, INFER_PROTOCOL_VERSION, INFER_FRAME_SUBMIT, 1, 0, 0, 0, 0};
	struct infer_frame frame = good;
	int			known = 0;

	tap_ok(infer_frame_check(&frame) == NULL, "a good frame is accepted");
	frame.magic++;
	tap_ok(infer_frame_check(&frame) != NULL, "another magic number is refused");
	frame = good;
	frame.version++;
	tap_ok(infer_frame_check(&frame) != NULL, "another version is refused");
	frame = good;
	frame.length = INFER_FRAME_MAX;
	tap_ok(infer_frame_check(&frame) == NULL, "a frame of the largest size is accepted");
	frame.length++;
	tap_ok(infer_frame_check(&frame) != NULL, "a larger one is refused");
	frame = good;
	frame.slot = INFER_REGIONS_MAX;
	tap_ok(infer_frame_check(&frame) != NULL, "a slot over the limit is refused");
	frame = good;
	frame.reserved = 1;
	tap_ok(infer_frame_check(&frame) != NULL, "a reserved field that is not zero is refused");
	frame = good;
	for (uint32_t type = 0; type <= UINT16_MAX; type++)
	{
		frame.type = (uint16_t) type;
		known += infer_frame_check(&frame) == NULL;
	}
	tap_ok(known == 9 + 10, "exactly the protocol's frame types are accepted");
}

/* ---- columns ---- */

static bool
column_ok(struct infer_column column, uint64_t rows)
{
	return infer_column_check(&column, rows, REGION) == NULL;
}

static void
test_columns(void)
{
	struct infer_column numbers = {
		.type = INFER_TYPE_F32,.width = 4,.data_offset = INFER_REGION_HEAD,.data_bytes = 160
	};
	struct infer_column c = numbers;

	tap_ok(column_ok(c, 10), "a column of numbers is accepted");
	tap_ok(!column_ok(c, 11), "one row more than its data is refused");
	tap_ok(!column_ok(c, 0), "no rows are refused");
	tap_ok(!column_ok(c, INFER_ROWS_MAX + 1), "too many rows are refused");
	c.data_offset = 0;
	tap_ok(!column_ok(c, 10), "data in the region's head is refused");
	c.data_offset = INFER_REGION_HEAD + 4;
	tap_ok(!column_ok(c, 10), "data that is not aligned is refused");
	c.data_offset = REGION;
	tap_ok(!column_ok(c, 10), "data behind the region is refused");
	c.data_offset = REGION - 128;
	tap_ok(!column_ok(c, 10), "data that ends behind the region is refused");
	c.data_offset = UINT64_MAX - 63;
	tap_ok(!column_ok(c, 10), "an offset near the end of all numbers is refused");
	c = numbers;
	c.data_bytes = UINT64_MAX;
	tap_ok(!column_ok(c, 10), "a size near the end of all numbers is refused");
	c = numbers;
	c.width = UINT64_MAX / 16;
	tap_ok(!column_ok(c, 10), "a width whose product overflows is refused");
	c = numbers;
	c.width = 0;
	c.data_bytes = 0;
	tap_ok(column_ok(c, 10), "a width of 0 is accepted");
	c = numbers;
	c.type = INFER_TYPE_LAST + 1;
	tap_ok(!column_ok(c, 10), "an unknown type is refused");
	c = numbers;
	c.spans_offset = INFER_REGION_HEAD;
	tap_ok(!column_ok(c, 10), "numbers with spans are refused");
	c = numbers;
	c.rows_offset = INFER_REGION_HEAD;
	tap_ok(!column_ok(c, 10), "a fixed width with row ends is refused");
	c = numbers;
	c.reserved = 1;
	tap_ok(!column_ok(c, 10), "a reserved field that is not zero is refused");
	c = (struct infer_column) {.type = INFER_TYPE_NONE};
	tap_ok(column_ok(c, 10), "an output that was not wanted is accepted");
	c.data_bytes = 1;
	tap_ok(!column_ok(c, 10), "and has no data");
}

static void
test_wide_columns(void)
{
	struct infer_column strings = {
		.type = INFER_TYPE_STRING,.width = 2,.data_offset = INFER_REGION_HEAD + 1,.data_bytes = 5,
		.spans_offset = REGION - 160
	};
	struct infer_column varies = {
		.type = INFER_TYPE_I64,.width = INFER_WIDTH_VARIES,.data_offset = INFER_REGION_HEAD,
		.data_bytes = 0,.rows_offset = REGION - 40
	};
	struct infer_column c = strings;

	tap_ok(column_ok(c, 10), "a column of strings is accepted, its texts anywhere");
	tap_ok(!column_ok(c, 11), "spans that end behind the region are refused");
	c.spans_offset = 0;
	tap_ok(!column_ok(c, 10), "strings without spans are refused");
	c.spans_offset = REGION - 164;
	tap_ok(!column_ok(c, 10), "spans that are not aligned are refused");
	c = strings;
	c.width = UINT64_C(1) << 61;
	tap_ok(!column_ok(c, 10), "a width of strings whose product overflows is refused");

	tap_ok(column_ok(varies, 10), "a column of varying width is accepted");
	tap_ok(!column_ok(varies, 11), "row ends that end behind the region are refused");
	varies.rows_offset = 0;
	tap_ok(!column_ok(varies, 10), "a varying width without row ends is refused");
}

/* ---- requests ---- */

static void
test_requests(void)
{
	struct infer_request good = {
		.rows = 10,.columns = 3,.columns_offset = INFER_REGION_HEAD,
		.reply_offset = INFER_REGION_HEAD + 256,.reply_bytes = REGION - INFER_REGION_HEAD - 256
	};
	struct infer_request r = good;

#define OK(request) (infer_request_check(&(request), REGION) == NULL)
	tap_ok(OK(r), "a request is accepted");
	r.rows = 0;
	tap_ok(!OK(r), "one without rows is refused");
	r.rows = INFER_ROWS_MAX + 1;
	tap_ok(!OK(r), "one with too many rows is refused");
	r = good;
	r.columns = INFER_COLUMNS_MAX + 1;
	tap_ok(!OK(r), "one with too many columns is refused");
	r = good;
	r.columns_offset = REGION - 3 * 56 + 8;
	tap_ok(!OK(r), "columns that end behind the region are refused");
	r.columns_offset -= 8;
	tap_ok(OK(r), "columns that end with it are accepted");
	r.columns_offset = 64;
	tap_ok(!OK(r), "columns in the region's head are refused");
	r = good;
	r.columns_offset += 4;
	tap_ok(!OK(r), "columns that are not aligned are refused");
	r = good;
	r.reply_bytes++;
	tap_ok(!OK(r), "a reply that ends behind the region is refused");
	r = good;
	r.reply_bytes = UINT64_MAX;
	tap_ok(!OK(r), "a reply of all numbers' size is refused");
	r = good;
	r.reply_offset += 8;
	r.reply_bytes -= 8;
	tap_ok(!OK(r), "a reply that is not aligned is refused");
	r = good;
	r.class_ = INFER_CLASS_JOB + 1;
	tap_ok(!OK(r), "an unknown class is refused");
	r = good;
	r.flags = 4;
	tap_ok(!OK(r), "an unknown flag is refused");
	r = good;
	r.flags = INFER_REQUEST_PROFILE;
	r.rows = 1;
	tap_ok(OK(r), "a profile of one row is accepted");
	r.rows = 2;
	tap_ok(!OK(r), "one of more rows is refused");
#undef OK
}

static void
test_names(void)
{
	int			missing = 0;

	for (uint32_t i = 0; i <= INFER_ERROR_LAST + 2; i++)
		missing += infer_error_name(i) == NULL;
	for (uint32_t i = 0; i <= INFER_TYPE_LAST + 2; i++)
		missing += infer_type_name(i) == NULL;
	tap_ok(missing == 0 && infer_error_name(UINT32_MAX) != NULL && infer_type_name(UINT32_MAX) != NULL,
		   "every error and type has a name, unknown ones too");
	tap_ok(infer_type_bytes(INFER_TYPE_F64) == 8 && infer_type_bytes(INFER_TYPE_BOOL) == 1 &&
		   infer_type_bytes(INFER_TYPE_STRING) == 0 && infer_type_bytes(99) == 0, "types have their sizes");
}

int
main(void)
{
	test_numbers();
	test_writer_bounds();
	test_string_length();
	test_errors();
	test_error_texts();
	test_error_refusals();
	test_signature();
	test_signature_refusals();
	test_signature_counts();
	test_frames();
	test_columns();
	test_wide_columns();
	test_requests();
	test_names();
	return tap_done();
}
