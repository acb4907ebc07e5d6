/*
 * protocol.c
 *	  Fuzzer of everything in the protocol that reads what the other side wrote.
 *
 * The first byte chooses the reader; the rest is its input, in a buffer of exactly that
 * size.  What is accepted must keep its promises: an error or a signature survives being
 * written and read again, and a column or request lies inside its region by arithmetic
 * that cannot overflow.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc \
 *		test/fuzz/protocol.c src/protocol/protocol.c -o fuzz && ./fuzz -max_total_time=30
 */
#include <stdlib.h>
#include <string.h>

#include "protocol/protocol.h"

#define ALLOCATIONS_MAX (1u << 17)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *allocations[ALLOCATIONS_MAX];
static size_t allocations_count;
static size_t allocated_bytes;

static void
demand(int condition)
{
	if (!condition)
		abort();
}

static void *
allocate(void *arg, size_t bytes)
{
	(void) arg;
	demand(allocations_count < ALLOCATIONS_MAX);
	allocated_bytes += bytes;
	return allocations[allocations_count++] = malloc(bytes > 0 ? bytes : 1);
}

static void
free_all(void)
{
	while (allocations_count > 0)
		free(allocations[--allocations_count]);
	allocated_bytes = 0;
}

static void
fuzz_error(const uint8_t *data, size_t size)
{
	static uint8_t again[4 * INFER_MESSAGE_MAX];
	struct infer_reader r = {data, size, 0, 0};
	struct infer_writer w = {again, sizeof(again), 0, 0};
	static struct infer_error_text first;
	static struct infer_error_text second;

	if (infer_get_error(&r, &first) != 0)
		return;
	demand(r.used <= size && first.error != INFER_OK && first.error <= INFER_ERROR_LAST);
	infer_put_error(&w, first.error, first.message, first.detail, first.hint);
	demand(!w.failed && w.used == r.used && memcmp(again, data, w.used) == 0);
	r = (struct infer_reader) {again, w.used, 0, 0};
	demand(infer_get_error(&r, &second) == 0 && memcmp(&first, &second, sizeof(first)) == 0);
}

static void
fuzz_signature(const uint8_t *data, size_t size)
{
	struct infer_reader r = {data, size, 0, 0};
	struct infer_signature signature;
	struct infer_writer w;

	if (size > 65536)
		return;
	if (infer_get_signature(&r, &signature, allocate, NULL) == 0)
	{
		demand(signature.inputs_count <= INFER_COLUMNS_MAX && signature.outputs_count <= INFER_COLUMNS_MAX);
		w = (struct infer_writer) {malloc(r.used), r.used, 0, 0};
		infer_put_signature(&w, &signature);
		demand(!w.failed && w.used == r.used && memcmp(w.data, data, w.used) == 0);
		free(w.data);
	}

	/* memory in proportion to what came: eight bytes of pointer for four of length */
	demand(allocated_bytes <= 4 * size + 2 * INFER_COLUMNS_MAX * sizeof(struct infer_tensor));
	free_all();
}

typedef unsigned __int128 wide;

static void
demand_inside(wide offset, wide bytes, uint64_t region)
{
	demand(offset >= INFER_REGION_HEAD && offset + bytes <= region);
}

static void
fuzz_column(const uint8_t *data, size_t size)
{
	struct infer_column c;
	uint64_t	rows;
	uint64_t	region;

	if (size < sizeof(c) + 16)
		return;
	memcpy(&c, data, sizeof(c));
	memcpy(&rows, data + sizeof(c), 8);
	memcpy(&region, data + sizeof(c) + 8, 8);
	region %= INFER_REGION_MAX + 1;
	if (infer_column_check(&c, rows, region) != NULL || c.type == INFER_TYPE_NONE)
		return;

	demand_inside(c.data_offset, c.data_bytes, region);
	if (c.width == INFER_WIDTH_VARIES && c.type != INFER_TYPE_STRING && c.spans_offset != 0)
		demand_inside(c.spans_offset, (wide) rows * 8, region);
	else if (c.width == INFER_WIDTH_VARIES)
		demand_inside(c.rows_offset, (wide) rows * 4, region);
	else if (c.type == INFER_TYPE_STRING)
		demand_inside(c.spans_offset, (wide) rows * c.width * 8, region);
	else
		demand_inside(c.data_offset, (wide) rows * c.width * infer_type_bytes(c.type), region);
}

static void
fuzz_request(const uint8_t *data, size_t size)
{
	struct infer_request request;
	uint64_t	region;

	if (size < sizeof(request) + 8)
		return;
	memcpy(&request, data, sizeof(request));
	memcpy(&region, data + sizeof(request), 8);
	region %= INFER_REGION_MAX + 1;
	if (infer_request_check(&request, region) != NULL)
		return;
	demand(request.rows >= 1 && request.rows <= INFER_ROWS_MAX);
	demand_inside(request.columns_offset, (wide) request.columns * sizeof(struct infer_column), region);
	demand_inside(request.reply_offset, request.reply_bytes, region);
}

static void
fuzz_frame(const uint8_t *data, size_t size)
{
	struct infer_frame frame;

	if (size < sizeof(frame))
		return;
	memcpy(&frame, data, sizeof(frame));
	if (infer_frame_check(&frame) == NULL)
		demand(frame.length <= INFER_FRAME_MAX && frame.slot < INFER_REGIONS_MAX);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t    *copy;

	if (size < 1)
		return 0;
	copy = malloc(size);			/* exact, so that a byte too many is seen */
	memcpy(copy, data + 1, size - 1);
	copy = realloc(copy, size > 1 ? size - 1 : 1);
	switch (data[0] % 5)
	{
		case 0:
			fuzz_error(copy, size - 1);
			break;
		case 1:
			fuzz_signature(copy, size - 1);
			break;
		case 2:
			fuzz_column(copy, size - 1);
			break;
		case 3:
			fuzz_request(copy, size - 1);
			break;
		case 4:
			fuzz_frame(copy, size - 1);
			break;
	}
	free(copy);
	return 0;
}
