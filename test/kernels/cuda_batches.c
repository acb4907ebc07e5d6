/*
 * cuda_batches.c
 *	  Odd batches on the CUDA device: nothing, rows without tokens, single tokens among long rows, more rows than a grid's second
 *	  dimension holds.  A row has the bits that it has alone.
 */
#include "protocol/protocol.h"
#include "tap.h"
#include "wiring.h"

#define LONG_ROW	2000
#define MANY_ROWS	70000			/* > 65535 */
#define LOOKS		24				/* rows of a batch that are looked at */

struct shape
{
	const char *name;
	uint32_t	rows;
	uint32_t	(*tokens) (uint32_t row);
};

static uint32_t
no_tokens(uint32_t row)
{
	return 0;
}

static uint32_t
one_token(uint32_t row)
{
	return 1;
}

static uint32_t
mixed_tokens(uint32_t row)
{
	return row == 3 ? LONG_ROW : row == 7 ? 65 : row % 5 == 4 ? 0 : 1;
}

static uint32_t
few_tokens(uint32_t row)
{
	return row == 65535 ? 3 : row % 64 == 0;
}

static const struct shape shapes[] = {
	{"no rows", 0, no_tokens},
	{"rows without tokens", 5, no_tokens},
	{"a row of one token", 1, one_token},
	{"single tokens among long rows", 20, mixed_tokens},
	{"many rows", MANY_ROWS, few_tokens}
};

static const struct
{
	const char *name;
	void		(*define) (struct wiring *w);
}			nets[] = {
	{"texts", wire_texts}, {"a product", wire_product}, {"a product in bf16", wire_bf16}, {"a product in int8", wire_int8},
	{"trees", wire_trees}, {"an encoder", wire_encoder}
};

static const struct device_tensor *
bound(const struct wiring *w, int32_t binding)
{
	for (uint32_t t = 0; t < w->tensors_count; t++)
		if (w->tensors[t].binding == binding)
			return &w->tensors[t];
	return NULL;
}

static bool
run(struct wiring *w, uint32_t rows, const uint32_t *row_off, const float *x, float *y)
{
	struct device *device = w->device;
	uint32_t   *row_error = case_alloc((rows + 1) * sizeof(*row_error));
	struct device_batch batch = {.items = {1, rows, row_off[rows]}, .row_off = row_off, .row_error = row_error};
	void	   *bindings[2] = {(void *) x, y};
	struct status status;
	void	   *arena;
	uint64_t	ticket;
	bool		fine;

	status_clear(&status);
	arena = device_buffer_alloc(device, w->queue, DEVICE_BUFFER_ARENA, device->ops->arena_bytes(w->program, batch.items), &status);
	ticket = arena == NULL ? 0 : device->ops->enqueue(w->queue, w->program, 0, UINT32_MAX, &batch, bindings, arena, &status);
	fine = ticket != 0 && device->ops->wait(w->queue, ticket, CASE_WAIT, &status) == DEVICE_DONE;
	for (uint32_t r = 0; fine && r < rows; r++)
		fine = row_error[r] == 0;
	if (!fine)
		printf("# %u rows: %s\n", rows, status.message);
	device_buffer_free(device, DEVICE_BUFFER_ARENA, arena);
	free(row_error);
	return fine;
}

static bool
row_is_itself(struct wiring *w, uint32_t row, const uint32_t *row_off, const float *x, size_t x_item, const float *y, size_t y_item)
{
	bool		by_tokens = bound(w, 0)->lead == DEVICE_LEAD_TOKENS;
	uint32_t	alone_off[2] = {0, row_off[row + 1] - row_off[row]};
	size_t		place = by_tokens ? row_off[row] : row;
	size_t		items = by_tokens ? alone_off[1] : 1;
	float	   *alone_x = case_alloc((items + 1) * x_item * sizeof(float));
	float	   *alone_y = case_alloc(y_item * sizeof(float));
	bool		same;

	memcpy(alone_x, x + place * x_item, items * x_item * sizeof(float));
	same = run(w, 1, alone_off, alone_x, alone_y) && memcmp(alone_y, y + row * y_item, y_item * sizeof(float)) == 0;
	free(alone_x);
	free(alone_y);
	return same;
}

/* Rows that are looked at: the first and last ones, those about 65535, and some between. */
static bool
looked_at(uint32_t row, uint32_t rows)
{
	return row < 8 || row + 3 > rows || (row >= 65533 && row <= 65538) || row % (1 + rows / (LOOKS - 12)) == 0;
}

static bool
check(struct wiring *w, const struct shape *shape)
{
	size_t		x_item = (size_t) device_item_elements(bound(w, 0));
	size_t		y_item = (size_t) device_item_elements(bound(w, 1));
	uint32_t   *row_off = case_alloc((shape->rows + 1) * sizeof(*row_off));
	size_t		items;
	float	   *x;
	float	   *y;
	bool		right;

	for (uint32_t r = 0; r < shape->rows; r++)
		row_off[r + 1] = row_off[r] + shape->tokens(r);
	items = bound(w, 0)->lead == DEVICE_LEAD_TOKENS ? row_off[shape->rows] : shape->rows;
	x = case_alloc((items + 1) * x_item * sizeof(float));
	y = case_alloc((shape->rows + 1) * y_item * sizeof(float));
	for (size_t i = 0; i < items * x_item; i++)
		x[i] = (float) (i * 31 % 257) / 64 - 2;
	memset(y, 0xAA, (shape->rows + 1) * y_item * sizeof(float));
	right = run(w, shape->rows, row_off, x, y);
	for (uint32_t r = 0; right && r < shape->rows; r++)
		if (looked_at(r, shape->rows) && !row_is_itself(w, r, row_off, x, x_item, y, y_item))
		{
			printf("# row %u is another one\n", r);
			right = false;
		}
	for (size_t i = 0; right && i < y_item * sizeof(float); i++)
		right = ((uint8_t *) (y + shape->rows * y_item))[i] == 0xAA;
	free(row_off);
	free(x);
	free(y);
	return right;
}

int
main(void)
{
	struct device *device = case_cuda_device(1);

	if (device == NULL)
	{
		tap_skip("cuda", "cannot be opened");
		return tap_done();
	}
	for (size_t n = 0; n < sizeof(nets) / sizeof(*nets); n++)
	{
		struct wiring w = {0};
		struct status status;

		status_clear(&status);
		nets[n].define(&w);
		if (!wiring_compile(&w, device, &status))
			case_fail("compile", &status);
		for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
			if (!(shapes[s].rows > 64 && case_hurries(device)))
				tap_ok(check(&w, &shapes[s]), "%s: %s", nets[n].name, shapes[s].name);
		wiring_free(&w);
	}
	device_close(device);
	return tap_done();
}
