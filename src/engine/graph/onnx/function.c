/*
 * function.c
 *	  Functions local to a model: read, and put in the place of the nodes that call them.
 *
 * Nouns
 *	function	FunctionProto: names of its inputs, outputs and attributes, and nodes
 *	call		a node whose operator is a function
 *	scope		a call that is being inlined: what names and attributes mean in its function.
 *				An input or output is what the call has there; every other name gets the
 *				call's number behind it, so that no two calls share one.
 *
 * Loop
 *	onnx_function_parse for each; then onnx_node_add for each node of the graph, which
 *	parses it and, if it is a call, does the same for each node of the function.
 *
 * Invariants
 *	- A function that calls itself, however indirectly, is refused by name.
 *	- Depth, number of calls, and bytes of functions and of their attributes' defaults that
 *	  are read again are bounded.
 */
#include "onnx_reader.h"

#include <stdio.h>
#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

#define FUNCTIONS_MAX		2048
#define FUNCTION_TEXT_MAX	512			/* bytes of its name: every node's is compared with it */
#define FORMALS_MAX			256			/* inputs, outputs or attributes of a function */
#define CALLS_MAX			65536
#define CALL_DEPTH_MAX		32
#define CALL_BYTES_MAX		(UINT64_C(256) << 20)	/* of functions and defaults, each time that they are read */

enum function_field
{
	FUNCTION_NAME = 1, FUNCTION_INPUT = 4, FUNCTION_OUTPUT = 5, FUNCTION_ATTRIBUTE = 6, FUNCTION_NODE = 7,
	FUNCTION_OPSET = 9, FUNCTION_DOMAIN = 10, FUNCTION_DEFAULT = 11, FUNCTION_OVERLOAD = 13
};

struct onnx_function
{
	const char *domain;				/* "" for "ai.onnx" */
	const char *name;
	const char *overload;
	uint32_t	main_version;
	uint32_t	ml_version;
	struct protobuf_span message;
	uint32_t	inputs_count;
	uint32_t	outputs_count;
	uint32_t	attributes_count;	/* without a default */
	uint32_t	defaults_count;
	struct protobuf_span inputs[FORMALS_MAX];
	struct protobuf_span outputs[FORMALS_MAX];
	struct protobuf_span attributes[FORMALS_MAX];
	struct protobuf_span defaults[FORMALS_MAX];	/* AttributeProto */
	struct protobuf_span defaults_names[FORMALS_MAX];
};

struct onnx_scope
{
	const struct onnx_scope *outer;
	const struct onnx_function *function;
	const struct onnx_node *call;
	uint32_t	number;				/* of the call */
	uint32_t	depth;
};

/* ---- reading a function ---- */

/* The name of an AttributeProto. */
static struct protobuf_span
attribute_name(struct protobuf_span message)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct protobuf_span name = {0};

	protobuf_open(&reader, message);
	while (protobuf_next(&reader, &field))
		if (field.number == 1 && field.wire == PROTOBUF_BYTES)
			name = field.bytes;
	return name;
}

static bool
formal_add(struct onnx_reader *r, struct protobuf_span *formals, uint32_t *count, struct protobuf_span span)
{
	if (*count == FORMALS_MAX)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "a function local to the model has more than %d inputs, outputs or attributes", FORMALS_MAX);
	formals[(*count)++] = span;
	return true;
}

static bool
function_field(struct onnx_reader *r, const struct protobuf_field *field, struct onnx_function *f)
{
	const char **text = field->number == FUNCTION_NAME ? &f->name :
		field->number == FUNCTION_DOMAIN ? &f->domain : &f->overload;

	switch (field->number)
	{
		case FUNCTION_NAME:
		case FUNCTION_DOMAIN:
		case FUNCTION_OVERLOAD:
			*text = onnx_text_copy(r, field->bytes, FUNCTION_TEXT_MAX, "a function");
			return *text != NULL;
		case FUNCTION_INPUT:
			return formal_add(r, f->inputs, &f->inputs_count, field->bytes);
		case FUNCTION_OUTPUT:
			return formal_add(r, f->outputs, &f->outputs_count, field->bytes);
		case FUNCTION_ATTRIBUTE:
			return formal_add(r, f->attributes, &f->attributes_count, field->bytes);
		case FUNCTION_DEFAULT:
			if (!formal_add(r, f->defaults, &f->defaults_count, field->bytes))
				return false;
			f->defaults_names[f->defaults_count - 1] = attribute_name(field->bytes);
			return true;
		case FUNCTION_OPSET:
			return onnx_opset_parse(r, field->bytes, &f->main_version, &f->ml_version);
		default:
			return true;
	}
}

static bool
function_is(const struct onnx_function *f, const char *domain, const char *name, const char *overload)
{
	return strcmp(f->name, name) == 0 && strcmp(f->domain, domain) == 0 && strcmp(f->overload, overload) == 0;
}

static const struct onnx_function *
function_find(const struct onnx_reader *r, const char *domain, const char *name, const char *overload)
{
	for (uint32_t i = 0; i < r->functions_count; i++)
		if (function_is(r->functions[i], domain, name, overload))
			return r->functions[i];
	return NULL;
}

bool
onnx_function_parse(struct onnx_reader *r, struct protobuf_span span)
{
	struct protobuf_reader reader;
	struct protobuf_field field;
	struct onnx_function *f = graph_pool(r->memory, 1, sizeof(*f));

	if (f == NULL || !graph_pool_grow(r->memory, &r->functions, r->functions_count, &r->functions_space,
									  sizeof(*r->functions), FUNCTIONS_MAX, "functions"))
		return false;
	f->domain = f->name = f->overload = "";
	f->message = span;
	protobuf_open(&reader, span);
	while (protobuf_next(&reader, &field))
		if ((field.number <= FUNCTION_OVERLOAD && !onnx_is_bytes(r, &field, "a function")) ||
			!function_field(r, &field, f))
			return false;
	if (reader.failed != NULL)
		return onnx_malformed(r, "a function", reader.failed);
	if (strcmp(f->domain, "ai.onnx") == 0)
		f->domain = "";
	if (f->name[0] == '\0')
		return onnx_malformed(r, "a function", "it has no name");
	if (function_find(r, f->domain, f->name, f->overload) != NULL)
		return status_set(r->status, INFER_ERROR_MODEL, "the ONNX file is malformed: it has two functions \"%.200s\"",
						  f->name);
	r->functions[r->functions_count++] = f;
	return true;
}

/* Counts bytes that are read again against their bound. */
static bool
reread_claim(struct onnx_reader *r, const struct onnx_function *f, uint64_t bytes)
{
	r->calls_bytes += bytes;
	if (r->calls_bytes <= CALL_BYTES_MAX)
		return true;
	return status_set(r->status, INFER_ERROR_UNSUPPORTED,
					  "the model's functions are called too often (function \"%.200s\")", f->name);
}

/* ---- what names and attributes mean in a call ---- */

static bool
same_span(struct protobuf_span a, struct protobuf_span b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool
span_is(struct protobuf_span span, const char *text)
{
	return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

/* The text that the call gives for its n-th argument; of size 0 if none. */
static struct protobuf_span
argument(const struct onnx_reader *r, const int32_t *places, uint32_t count, uint32_t n)
{
	struct protobuf_span none = {0};

	return n < count && places[n] >= 0 ? r->references[places[n]].text : none;
}

bool
onnx_scope_name(struct onnx_reader *r, struct protobuf_span *span)
{
	const struct onnx_scope *scope = r->scope;
	const struct onnx_node *call;
	char		suffix[24];
	uint8_t    *text;

	if (scope == NULL || span->size == 0)
		return true;
	call = scope->call;
	for (uint32_t i = 0; i < scope->function->inputs_count; i++)
		if (same_span(scope->function->inputs[i], *span))
		{
			*span = argument(r, call->inputs, call->inputs_count, i);
			return true;
		}
	for (uint32_t i = 0; i < scope->function->outputs_count; i++)
		if (same_span(scope->function->outputs[i], *span) &&
			argument(r, call->outputs, call->outputs_count, i).size > 0)
		{
			*span = argument(r, call->outputs, call->outputs_count, i);
			return true;
		}
	if (span->size > ONNX_TEXT_MAX)
		return onnx_malformed(r, "a value's name", "it is too long");
	/* at full length, since what is cut off may be all that tells two names apart */
	snprintf(suffix, sizeof(suffix), " (call %u)", scope->number);
	text = graph_pool(r->memory, span->size + strlen(suffix), 1);
	if (text == NULL)
		return false;
	memcpy(text, span->data, span->size);
	memcpy(text + span->size, suffix, strlen(suffix));
	span->data = text;
	span->size += strlen(suffix);
	return true;
}

bool
onnx_scope_attribute(struct onnx_reader *r, struct onnx_attribute *attribute)
{
	const struct onnx_scope *scope = r->scope;
	const char *name = attribute->name;
	uint32_t	type = attribute->type;
	bool		found = false;

	for (uint32_t i = 0; i < scope->call->attributes_count && !found; i++)
		if (strcmp(scope->call->attributes[i].name, attribute->reference) == 0)
		{
			*attribute = scope->call->attributes[i];
			found = true;
		}
	for (uint32_t i = 0; i < scope->function->defaults_count && !found; i++)
		if (span_is(scope->function->defaults_names[i], attribute->reference))
		{
			bool		fine;

			if (!reread_claim(r, scope->function, scope->function->defaults[i].size))
				return false;
			r->scope = NULL;		/* a default refers to nothing */
			fine = onnx_attribute_parse(r, scope->function->defaults[i], attribute);
			r->scope = scope;
			if (!fine)
				return false;
			found = true;
		}
	if (found && type != 0 && type != attribute->type)
		return onnx_malformed(r, "a function", "an attribute does not have the type that a node wants");
	attribute->name = name;
	if (!found)
		attribute->type = 0;
	return true;
}

/* ---- calls ---- */

static bool
check_arguments(struct onnx_reader *r, const struct onnx_function *f, const struct onnx_node *call)
{
	if (call->inputs_count > f->inputs_count || call->outputs_count > f->outputs_count)
		return status_set(r->status, INFER_ERROR_MODEL,
						  "the ONNX file is malformed: the function \"%.200s\" is called with more than it takes or gives",
						  f->name);
	for (uint32_t i = 0; i < call->attributes_count; i++)
	{
		bool		known = false;

		for (uint32_t j = 0; j < f->attributes_count && !known; j++)
			known = span_is(f->attributes[j], call->attributes[i].name);
		for (uint32_t j = 0; j < f->defaults_count && !known; j++)
			known = span_is(f->defaults_names[j], call->attributes[i].name);
		if (!known)
			return status_set(r->status, INFER_ERROR_MODEL,
							  "the ONNX file is malformed: the function \"%.200s\" has no attribute \"%.200s\"",
							  f->name, call->attributes[i].name);
	}
	return true;
}

static bool
check_bounds(struct onnx_reader *r, const struct onnx_function *f)
{
	for (const struct onnx_scope *scope = r->scope; scope != NULL; scope = scope->outer)
		if (scope->function == f)
			return status_set(r->status, INFER_ERROR_UNSUPPORTED, "the function \"%.200s\" of the model calls itself",
							  f->name);
	if (r->scope != NULL && r->scope->depth == CALL_DEPTH_MAX)
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model's functions call each other more than %d deep (function \"%.200s\")",
						  CALL_DEPTH_MAX, f->name);
	/* one call too many is as if it read all that may be read */
	return reread_claim(r, f, r->calls++ == CALLS_MAX ? CALL_BYTES_MAX + 1 : f->message.size);
}

static bool
inline_call(struct onnx_reader *r, const struct onnx_function *f, const struct onnx_node *call)
{
	const struct onnx_scope *outer = r->scope;
	struct onnx_scope scope = {outer, f, call, r->calls, outer == NULL ? 1 : outer->depth + 1};
	struct protobuf_reader reader;
	struct protobuf_field field;
	bool		fine = check_arguments(r, f, call) && check_bounds(r, f);

	protobuf_open(&reader, f->message);
	while (fine && protobuf_next(&reader, &field))
		if (field.number == FUNCTION_NODE)
		{
			r->scope = &scope;
			fine = onnx_node_add(r, field.bytes);
		}
	r->scope = outer;
	return fine;
}

bool
onnx_node_add(struct onnx_reader *r, struct protobuf_span span)
{
	struct onnx_model *model = r->model;
	struct onnx_node node;
	const struct onnx_function *f;

	if (!onnx_node_parse(r, span, &node))
		return false;
	f = function_find(r, node.domain, node.op, node.overload);
	if (f != NULL)
		return inline_call(r, f, &node);
	if (node.overload[0] != '\0')
		return status_set(r->status, INFER_ERROR_UNSUPPORTED,
						  "the model has no function \"%.200s\" overloaded as \"%.200s\" (node %u)",
						  node.op, node.overload, node.index);
	if (r->scope != NULL)
		node.version = node.domain[0] == '\0' ? r->scope->function->main_version :
			strcmp(node.domain, ONNX_DOMAIN_ML) == 0 ? r->scope->function->ml_version : 0;
	node.in_function = r->scope != NULL;
	if (!graph_pool_grow(r->memory, &model->nodes, model->nodes_count, &r->nodes_space,
						 sizeof(*model->nodes), ONNX_NODES_MAX, "nodes"))
		return false;
	model->nodes[model->nodes_count++] = node;
	return true;
}
