/*
 * emit.c
 *	  Tensors and ops of an encoder's program, one after the other; then the program itself.
 *	  See emit.h.
 */
#include "emit.h"

#include "graph/text_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../model/model.h"

#define TENSORS_MAX		65536
#define HOST_BYTES		(UINT64_C(64) << 20)	/* of a program on the host, beside what is converted */

void
emit_label(struct emitter *e, const char *format,...)
{
	char		text[128];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	e->label = graph_pool_text(e->memory, text, strlen(text));
	if (e->label == NULL)
		e->label = "";
}

/* ---- tensors ---- */

int32_t
emit_tensor(struct emitter *e, uint8_t type, uint8_t lead, int rank, const int64_t *dims)
{
	struct device_tensor *tensor;

	if (!graph_pool_grow(e->memory, &e->program->tensors, e->tensors_count, &e->tensors_space,
						 sizeof(*e->program->tensors), TENSORS_MAX, "tensors"))
		return 0;
	tensor = &e->program->tensors[e->tensors_count];
	*tensor = (struct device_tensor) {.type = type, .lead = lead, .rank = (uint8_t) rank, .binding = -1};
	for (int i = 0; i < rank; i++)
		tensor->dims[i] = dims[i];
	return (int32_t) e->tensors_count++;
}

int32_t
emit_vector(struct emitter *e, uint8_t type, uint8_t lead, int64_t size)
{
	return emit_tensor(e, type, lead, 1, &size);
}

int32_t
emit_constant(struct emitter *e, uint8_t type, int rank, const int64_t *dims, const void *data)
{
	int32_t		tensor = emit_tensor(e, type, DEVICE_LEAD_NONE, rank, dims);

	if (!emit_failed(e))
		e->program->tensors[tensor].constant = data;
	return tensor;
}

static int32_t
emit_binding(struct emitter *e, enum encoder_binding binding)
{
	int32_t		tensor = emit_tensor(e, DEVICE_I32, DEVICE_LEAD_TOKENS, 0, NULL);

	if (!emit_failed(e))
		e->program->tensors[tensor].binding = (int32_t) binding;
	e->program->bound[binding] = true;
	return tensor;
}

/* ---- ops ---- */

struct device_op *
emit_op(struct emitter *e, uint16_t opcode, uint16_t fn, uint32_t inputs_count, const int32_t *inputs, int32_t output)
{
	struct encoder_program *program = e->program;
	struct device_op *op;
	int32_t    *own = graph_pool(e->memory, inputs_count, sizeof(*own));

	if (own == NULL || emit_failed(e) ||
		!graph_pool_grow(e->memory, &program->labels, program->ops_count, &e->labels_space,
						 sizeof(*program->labels), TENSORS_MAX, "primitives") ||
		!graph_pool_grow(e->memory, &program->ops, program->ops_count, &e->ops_space,
						 sizeof(*program->ops), TENSORS_MAX, "primitives"))
		return NULL;
	memcpy(own, inputs, inputs_count * sizeof(*own));
	op = &program->ops[program->ops_count];
	*op = (struct device_op) {
		.op = opcode, .fn = fn, .inputs_count = inputs_count, .inputs = own, .output = output,
		.weight = -1, .node = (int32_t) program->ops_count
	};
	program->labels[program->ops_count++] = e->label;
	return op;
}

/* A tensor like another one of the same lead. */
static int32_t
tensor_like(struct emitter *e, int32_t x)
{
	struct device_tensor like = e->program->tensors[x];

	return emit_tensor(e, like.type, like.lead, like.rank, like.dims);
}

int32_t
emit_add(struct emitter *e, int32_t a, int32_t b)
{
	int32_t		y = tensor_like(e, a);

	emit_op(e, DEVICE_OP_BINARY, BINARY_ADD, 2, (const int32_t[]) {a, b}, y);
	return y;
}

int32_t
emit_norm(struct emitter *e, const struct encoder_norm *norm, double epsilon, bool rms, int32_t x, int32_t r)
{
	struct device_op *op;
	int32_t		y;

	if (norm->weight.storage == ENCODER_ABSENT)
		return r < 0 ? x : emit_add(e, x, r);
	y = tensor_like(e, x);
	op = emit_op(e, DEVICE_OP_NORM, rms ? NORM_RMS : NORM_LAYER, 4,
				 (const int32_t[]) {x, r, emit_numbers(e, &norm->weight), emit_numbers(e, &norm->bias)}, y);
	if (op != NULL)
		op->f[0] = epsilon;
	return y;
}

void
emit_activation(enum encoder_activation activation, uint16_t *fn, double *f0)
{
	*f0 = 0;
	switch (activation)
	{
		case ENCODER_GELU:
			*fn = UNARY_GELU;
			return;
		case ENCODER_GELU_TANH:
			*fn = UNARY_GELU_TANH;
			return;
		case ENCODER_RELU:
			*fn = UNARY_RELU;
			return;
		case ENCODER_SILU:
			*fn = UNARY_SWISH;
			*f0 = 1;
			return;
		case ENCODER_TANH:
			*fn = UNARY_TANH;
			return;
		case ENCODER_SIGMOID:
			*fn = UNARY_SIGMOID;
			return;
		case ENCODER_IDENTITY:
			break;
	}
	*fn = UNARY_NONE;
}

/* ---- the first layer: words, places, types ---- */

/* Rows of a table of half the size are converted when they have been found. */
static int32_t
emit_lookup(struct emitter *e, const struct encoder_tensor *table, int32_t index)
{
	int32_t		from = emit_table(e, table);
	uint8_t		type = emit_failed(e) ? DEVICE_F32 : e->program->tensors[from].type;
	int32_t		y = emit_vector(e, type, DEVICE_LEAD_TOKENS, e->encoder->hidden);
	int32_t		converted;

	emit_op(e, DEVICE_OP_GATHER, 0, 2, (const int32_t[]) {from, index}, y);
	if (type == DEVICE_F32)
		return y;
	converted = emit_vector(e, DEVICE_F32, DEVICE_LEAD_TOKENS, e->encoder->hidden);
	emit_op(e, DEVICE_OP_CAST, 0, 1, &y, converted);
	return converted;
}

/* Row 0 of the types, which all tokens have. */
static int32_t
emit_first_type(struct emitter *e)
{
	const float *types = emit_floats(e, &e->encoder->types);
	int64_t		hidden = e->encoder->hidden;

	return emit_constant(e, DEVICE_F32, 1, &hidden, types);
}

int32_t
emit_embeddings(struct emitter *e)
{
	const struct encoder *encoder = e->encoder;
	int32_t		x;

	emit_label(e, "word embeddings");
	x = emit_lookup(e, &encoder->words, emit_binding(e, ENCODER_IDS));
	if (encoder->types.storage != ENCODER_ABSENT)
	{
		emit_label(e, "type embeddings");
		x = emit_add(e, x, encoder->types_used ? emit_lookup(e, &encoder->types, emit_binding(e, ENCODER_TYPES)) :
					 emit_first_type(e));
	}
	if (encoder->positions != ENCODER_POSITIONS_ABSOLUTE)
	{
		emit_label(e, "embeddings");
		return emit_norm(e, &encoder->embedding_norm, encoder->norm_epsilon, encoder->norm_rms, x, -1);
	}
	if (encoder->position_first < (encoder->position_padding >= 0 ? 1 : 0) ||
		encoder->position_first + encoder->tokens_max > encoder->position_table.dims[0])
		status_set(e->status, INFER_ERROR_INTERNAL, "the table of positions does not have those that a text may have");
	emit_label(e, "position embeddings");
	{
		int32_t		positions = emit_lookup(e, &encoder->position_table, emit_binding(e, ENCODER_PLACES));

		emit_label(e, "embeddings");
		return emit_norm(e, &encoder->embedding_norm, encoder->norm_epsilon, encoder->norm_rms, x, positions);
	}
}

/* ---- a graph in their place ---- */

static int32_t
emit_given(struct emitter *e)
{
	const struct text_graph *graph = e->encoder->graph;
	int32_t		x = emit_vector(e, DEVICE_F32, graph->output == TEXT_GRAPH_TOKENS ? DEVICE_LEAD_TOKENS : DEVICE_LEAD_ROWS, graph->width);

	if (!emit_failed(e))
		e->program->tensors[x].binding = ENCODER_GIVEN;
	e->program->bound[ENCODER_GIVEN] = true;
	return x;
}

/* ---- the program ---- */

/* What the model's options ask for, else what the device is best at. */
static bool
choose_precision(struct emitter *e)
{
	const char *wanted = e->encoder->precision;
	struct device_info info = {0};

	e->program->precision = DEVICE_PRECISION_FULL;
	if (e->encoder->graph != NULL)
		return wanted == NULL || strcmp(wanted, device_precision_name(DEVICE_PRECISION_FULL)) == 0 ||
			status_set(e->status, INFER_ERROR_UNSUPPORTED, "the precision \"%s\" is not for an ONNX file that is run as it is", wanted);
	e->device->ops->info(e->device, &info);
	e->program->precision = info.precision_default;
	for (uint8_t i = 0; wanted != NULL && i <= DEVICE_PRECISIONS; i++)
	{
		if (i == DEVICE_PRECISIONS)
			return status_set(e->status, INFER_ERROR_UNSUPPORTED, "there is no precision \"%s\"", wanted);
		e->program->precision = i;
		if (strcmp(wanted, device_precision_name(i)) == 0)
			break;
	}
	if ((info.precisions & 1u << e->program->precision) == 0)
		return status_set(e->status, INFER_ERROR_UNSUPPORTED, "the device does not compute in the precision \"%s\"",
						  device_precision_name(e->program->precision));
	return true;
}

/* One error for all that the device does not compute. */
static bool
check_support(struct emitter *e)
{
	const struct encoder_program *program = e->program;
	char		list[STATUS_TEXT_MAX - 128] = "";
	size_t		used = 0;

	for (uint32_t i = 0; i < program->ops_count; i++)
	{
		const struct device_op *op = &program->ops[i];
		const char *function = device_function_name(op);

		if (e->device->ops->supports(e->device, op, program->tensors) == 0 && used < sizeof(list))
			used += (size_t) snprintf(list + used, sizeof(list) - used, "%s%s needs %s%s%s", used == 0 ? "" : ", ",
									  program->labels[i], device_op_name(op), function[0] == '\0' ? "" : " ", function);
	}
	if (used == 0)
		return true;
	return status_set(e->status, INFER_ERROR_UNSUPPORTED, "the device does not compute what the model needs: %s", list);
}

static bool
compile(struct emitter *e)
{
	struct encoder_program *program = e->program;
	struct device_graph graph = {
		.tensors_count = e->tensors_count,
		.tensors = program->tensors,
		.ops_count = program->ops_count,
		.ops = program->ops,
		.weights_count = program->weights_count,
		.weights = program->weights,
		.bindings_count = ENCODER_BINDINGS
	};

	if (emit_failed(e) || !emit_places(e, graph.arena_item_bytes) || !check_support(e))
		return false;
	program->constants_bytes = device_constants_bytes(program->tensors, e->tensors_count);
	program->program = e->device->ops->compile(e->device, &graph, e->status);
	if (program->program == NULL)
		return status_set(e->status, INFER_ERROR_DEVICE, "the device could not compile the model");
	return emit_packed_form(e);
}

bool
encoder_program_make(struct encoder_program *program, const struct encoder *encoder,
					 const struct model_files *files, struct device *device, struct status *status)
{
	struct emitter e = {
		.program = program, .encoder = encoder, .files = files, .device = device, .memory = &program->memory,
		.status = status, .label = ""
	};
	uint64_t	bytes = 0;
	int32_t		x;
	bool		made;

	memset(program, 0, sizeof(*program));
	program->encoder = encoder;
	program->device = device;
	for (uint32_t i = 0; i < files->count; i++)
		bytes += files->files[i].size;
	graph_memory_init(&program->memory, HOST_BYTES + 2 * bytes, status);
	if (!choose_precision(&e))
		return false;
	x = encoder->graph != NULL ? emit_given(&e) : emit_embeddings(&e);
	if (!emit_failed(&e) && encoder->graph == NULL)
		x = emit_layers(&e, x);
	if (!emit_failed(&e))
		x = emit_head(&e, x);
	if (!emit_failed(&e))
	{
		if (program->tensors[x].binding == ENCODER_GIVEN)
			program->bound[ENCODER_GIVEN] = false;	/* there is nothing behind the graph */
		program->tensors[x].binding = ENCODER_RESULT;
		program->bound[ENCODER_RESULT] = true;
		program->result_lead = program->tensors[x].lead;
		program->result_width = (uint32_t) program->tensors[x].dims[0];
	}
	made = compile(&e);
	program->memory.status = NULL;
	return made;
}

void
encoder_program_free(struct encoder_program *program)
{
	if (program->device == NULL)
		return;
	if (program->program != NULL)
		program->device->ops->program_free(program->device, program->program);
	for (uint32_t i = 0; i < program->weights_count; i++)
		program->device->ops->weight_free(program->device, program->weights[i]);
	graph_memory_free(&program->memory);
	*program = (struct encoder_program) {0};
}
