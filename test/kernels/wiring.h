/*
 * wiring.h
 *	  Nets for tests of the CUDA device, one for each way in which it computes.
 *
 * Nouns
 *	wiring		a program under construction, and what it takes to run it: binding 0 is x, of rows or of tokens, binding 1 is y
 *	wire		a tensor of one dimension; what is neither constant nor a binding lies in the arena
 */
#ifndef TEST_KERNELS_WIRING_H
#define TEST_KERNELS_WIRING_H

#include <math.h>

#include "harness.h"

#define WIRES_MAX		20
#define WIRED_ROWS		9
#define WIRED_TOKENS	40
#define WIRED_WIDTH		16

struct wiring
{
	struct device_tensor tensors[WIRES_MAX];
	struct device_op ops[WIRES_MAX];
	int32_t		inputs[WIRES_MAX][4];
	uint32_t	tensors_count;
	uint32_t	ops_count;
	uint64_t	arena_item[DEVICE_LEADS];
	struct device_weight_desc matrix;	/* data NULL: none */

	struct device *device;
	struct device_weight *weight;
	struct device_program *program;
	struct device_queue *queue;
	void	   *arena;
	float	   *x;					/* STAGING */
	float	   *y;
	size_t		x_count;
	size_t		y_count;
	uint32_t	row_error[WIRED_ROWS];
};

/* 0 tokens, 1 token, and more than a block of keys */
static const uint32_t wired_row_off[WIRED_ROWS + 1] = {0, 1, 1, 4, 5, 5, 38, 39, 39, WIRED_TOKENS};

static float wired_numbers[WIRED_WIDTH * 3 * WIRED_WIDTH];

static inline int32_t
wire(struct wiring *w, uint8_t type, uint8_t lead, int64_t count, const void *constant, int32_t binding)
{
	struct device_tensor *t = &w->tensors[w->tensors_count];

	*t = case_tensor(type, lead, 1, &count);
	t->constant = constant;
	t->binding = binding;
	if (constant == NULL && binding < 0)
	{
		t->offset = w->arena_item[lead];
		w->arena_item[lead] += ((uint64_t) count * device_type_bytes(type) + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
	}
	return (int32_t) w->tensors_count++;
}

/* b: a second input, or -1. */
static inline struct device_op *
wire_op(struct wiring *w, uint16_t code, uint16_t fn, int32_t a, int32_t b, int32_t output)
{
	uint32_t	o = w->ops_count++;
	struct device_op *op = &w->ops[o];

	w->inputs[o][0] = a;
	w->inputs[o][1] = b;
	w->inputs[o][2] = w->inputs[o][3] = -1;
	*op = (struct device_op) {
		.op = code, .fn = fn, .inputs = w->inputs[o], .inputs_count = b < 0 ? 1 : 2, .output = output, .weight = -1, .node = -1
	};
	return op;
}

static inline void
wire_gemm(struct wiring *w, uint8_t precision, int64_t n, int32_t a, int32_t bias, int32_t output)
{
	w->matrix = (struct device_weight_desc) {
		.type = DEVICE_F32, .precision = precision, .k = WIRED_WIDTH, .n = n, .stride_k = n, .stride_n = 1, .data = wired_numbers
	};
	wire_op(w, DEVICE_OP_GEMM, UNARY_NONE, a, bias, output)->weight = 0;
}

/* ---- the nets ---- */

/* Ops by element, with a part of the host's among them. */
static inline void
wire_texts(struct wiring *w)
{
	static const float two = 2;
	int32_t		x = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 0);
	int32_t		factor = wire(w, DEVICE_F32, DEVICE_LEAD_NONE, 1, &two, -1);
	int32_t		product = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, -1);
	int32_t		text = wire(w, DEVICE_STRING, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, -1);
	int32_t		number = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, -1);
	int32_t		negated = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, -1);
	int32_t		y = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 1);

	wire_op(w, DEVICE_OP_BINARY, BINARY_MUL, x, factor, product);
	wire_op(w, DEVICE_OP_CAST, 0, product, -1, text);
	wire_op(w, DEVICE_OP_CAST, 0, text, -1, number);
	wire_op(w, DEVICE_OP_UNARY, UNARY_NEG, number, -1, negated);
	wire_op(w, DEVICE_OP_BINARY, BINARY_ADD, negated, factor, y);
}

static inline void
wire_product(struct wiring *w)
{
	int32_t		x = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 0);
	int32_t		bias = wire(w, DEVICE_F32, DEVICE_LEAD_NONE, WIRED_WIDTH, wired_numbers, -1);
	int32_t		y = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 1);

	wire_gemm(w, DEVICE_PRECISION_FULL, WIRED_WIDTH, x, bias, y);
}

static inline void
wire_narrow(struct wiring *w, uint8_t precision)
{
	bool		int8 = precision == DEVICE_PRECISION_INT8;
	int32_t		x = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 0);
	int32_t		bias = wire(w, DEVICE_F32, DEVICE_LEAD_NONE, WIRED_WIDTH, wired_numbers, -1);
	int32_t		narrow = wire(w, int8 ? DEVICE_Q8 : DEVICE_BF16, DEVICE_LEAD_ROWS, WIRED_WIDTH + (int8 ? DEVICE_Q8_SCALE : 0), NULL, -1);
	int32_t		y = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 1);

	wire_op(w, int8 ? DEVICE_OP_QUANTISE : DEVICE_OP_CAST, 0, x, -1, narrow);
	wire_gemm(w, precision, WIRED_WIDTH, narrow, bias, y);
}

static inline void
wire_bf16(struct wiring *w)
{
	wire_narrow(w, DEVICE_PRECISION_BF16);
}

static inline void
wire_int8(struct wiring *w)
{
	wire_narrow(w, DEVICE_PRECISION_INT8);
}

/* Stumps on each feature: 1 where it is at most 0, else 2. */
static inline void
wire_trees(struct wiring *w)
{
	static struct device_tree_node nodes[3 * WIRED_WIDTH] __attribute__((aligned(DEVICE_ALIGN)));
	static float values[3 * WIRED_WIDTH];
	static uint32_t roots[WIRED_WIDTH];
	static uint32_t depths[WIRED_WIDTH];
	static const struct device_trees trees = {
		.type = DEVICE_F32, .trees_count = WIRED_WIDTH, .nodes_count = 3 * WIRED_WIDTH, .features = WIRED_WIDTH, .targets = 1,
		.roots = roots, .depths = depths, .nodes = nodes, .values = values
	};
	int32_t		x = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 0);
	int32_t		y = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, 1, NULL, 1);

	for (uint32_t t = 0; t < WIRED_WIDTH; t++)
	{
		roots[t] = 3 * t;
		depths[t] = 1;
		nodes[3 * t] = (struct device_tree_node) {device_key_f32(0), (uint16_t) (t * DEVICE_TREE_LANES), 1};
		nodes[3 * t + 1] = (struct device_tree_node) {UINT32_MAX, 0, 1};
		nodes[3 * t + 2] = (struct device_tree_node) {UINT32_MAX, 0, 2};
		values[3 * t + 1] = 1;
		values[3 * t + 2] = 2;
	}
	wire_op(w, DEVICE_OP_TREES, TREES_SUM, x, -1, y)->params = &trees;
}

/* One layer in bf16, with what is behind it. */
static inline void
wire_encoder(struct wiring *w)
{
	int32_t		x = wire(w, DEVICE_F32, DEVICE_LEAD_TOKENS, WIRED_WIDTH, NULL, 0);
	int32_t		bias = wire(w, DEVICE_F32, DEVICE_LEAD_NONE, 3 * WIRED_WIDTH, wired_numbers, -1);
	int32_t		even = wire(w, DEVICE_F32, DEVICE_LEAD_TOKENS, WIRED_WIDTH, NULL, -1);
	int32_t		narrow = wire(w, DEVICE_BF16, DEVICE_LEAD_TOKENS, WIRED_WIDTH, NULL, -1);
	int32_t		parts = wire(w, DEVICE_BF16, DEVICE_LEAD_TOKENS, 3 * WIRED_WIDTH, NULL, -1);
	int32_t		seen = wire(w, DEVICE_BF16, DEVICE_LEAD_TOKENS, WIRED_WIDTH, NULL, -1);
	int32_t		wide = wire(w, DEVICE_F32, DEVICE_LEAD_TOKENS, WIRED_WIDTH, NULL, -1);
	int32_t		sum = wire(w, DEVICE_F32, DEVICE_LEAD_TOKENS, WIRED_WIDTH, NULL, -1);
	int32_t		pooled = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, -1);
	int32_t		y = wire(w, DEVICE_F32, DEVICE_LEAD_ROWS, WIRED_WIDTH, NULL, 1);
	struct device_op *op;

	wire_op(w, DEVICE_OP_NORM, NORM_LAYER, x, -1, even)->f[0] = 1e-5;
	wire_op(w, DEVICE_OP_CAST, 0, even, -1, narrow);
	wire_gemm(w, DEVICE_PRECISION_BF16, 3 * WIRED_WIDTH, narrow, bias, parts);
	op = wire_op(w, DEVICE_OP_ATTENTION, 0, parts, -1, seen);
	op->f[0] = 1 / sqrt(WIRED_WIDTH / 2);
	op->i[0] = 2;
	op->i[1] = WIRED_WIDTH / 2;
	wire_op(w, DEVICE_OP_CAST, 0, seen, -1, wide);
	wire_op(w, DEVICE_OP_NORM, NORM_LAYER, wide, even, sum)->f[0] = 1e-5;
	wire_op(w, DEVICE_OP_POOL, POOL_MEAN, sum, -1, pooled);
	wire_op(w, DEVICE_OP_NORMALIZE, NORMALIZE_L2, pooled, -1, y);
}

/* ---- what it takes to run one ---- */

static inline size_t
wired_count(const struct device_tensor *t)
{
	return (size_t) device_item_elements(t) * (t->lead == DEVICE_LEAD_TOKENS ? WIRED_TOKENS : WIRED_ROWS);
}

/* A status says what is missing; wiring_free() frees what there is. */
static inline bool
wiring_compile(struct wiring *w, struct device *device, struct status *status)
{
	struct device_graph graph = {
		.tensors_count = w->tensors_count, .ops_count = w->ops_count, .weights_count = w->matrix.data != NULL, .bindings_count = 2,
		.tensors = w->tensors, .ops = w->ops, .weights = &w->weight
	};
	uint32_t	items[DEVICE_LEADS] = {1, WIRED_ROWS, WIRED_TOKENS};

	for (size_t i = 0; i < sizeof(wired_numbers) / sizeof(*wired_numbers); i++)
		wired_numbers[i] = (float) (i * 7 % 31) / 16 - 1;
	for (int lead = 0; lead < DEVICE_LEADS; lead++)
		graph.arena_item_bytes[lead] = w->arena_item[lead];
	w->device = device;
	for (uint32_t t = 0; t < w->tensors_count; t++)
	{
		w->x_count = w->tensors[t].binding == 0 ? wired_count(&w->tensors[t]) : w->x_count;
		w->y_count = w->tensors[t].binding == 1 ? wired_count(&w->tensors[t]) : w->y_count;
	}
	if (w->matrix.data != NULL && (w->weight = device->ops->weight_pack(device, &w->matrix, status)) == NULL)
		return false;
	w->program = device->ops->compile(device, &graph, status);
	if (w->program == NULL)
		return false;
	w->queue = device->ops->queue_create(device, DEVICE_BATCHES, status);
	if (w->queue == NULL)
		return false;
	w->arena = device_buffer_alloc(device, w->queue, DEVICE_BUFFER_ARENA, device->ops->arena_bytes(w->program, items), status);
	w->x = device_buffer_alloc(device, w->queue, DEVICE_BUFFER_STAGING, w->x_count * sizeof(float), status);
	w->y = device_buffer_alloc(device, w->queue, DEVICE_BUFFER_STAGING, w->y_count * sizeof(float), status);
	if (w->arena == NULL || w->x == NULL || w->y == NULL)
		return false;
	for (size_t i = 0; i < w->x_count; i++)
		w->x[i] = (float) (i % 17) - 8.25f;
	return true;
}

static inline uint64_t
wiring_enqueue(struct wiring *w, struct status *status)
{
	struct device_batch batch = {.items = {1, WIRED_ROWS, WIRED_TOKENS}, .row_off = wired_row_off, .row_error = w->row_error};
	void	   *bindings[2] = {w->x, w->y};

	return w->device->ops->enqueue(w->queue, w->program, 0, UINT32_MAX, &batch, bindings, w->arena, status);
}

/* The queue first: it waits for what is in flight. */
static inline void
wiring_free(struct wiring *w)
{
	if (w->queue != NULL)
		w->device->ops->queue_free(w->queue);
	if (w->program != NULL)
		w->device->ops->program_free(w->device, w->program);
	if (w->weight != NULL)
		w->device->ops->weight_free(w->device, w->weight);
	device_buffer_free(w->device, DEVICE_BUFFER_STAGING, w->x);
	device_buffer_free(w->device, DEVICE_BUFFER_STAGING, w->y);
	device_buffer_free(w->device, DEVICE_BUFFER_ARENA, w->arena);
}

#endif							/* TEST_KERNELS_WIRING_H */
