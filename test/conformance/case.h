/*
 * case.h
 *	  A conformance case as it lies on disk, and one tensor of it as the engine holds it.
 *
 * Nouns
 *	case		a folder with model.onnx and test_data_set_0/{input,output}_N.pb; beside the
 *				model may lie "tolerance" (two numbers), "rows" (the first dimension of all
 *				tensors is the batch, of so many rows) and "classes" (labels, one a line)
 *	value		one TensorProto, decoded into the engine's element types; type 0: a type
 *				that the engine does not have (or a sequence, a map, an optional)
 *	frozen		an input that the case gives at run time and that is made an initialiser
 *				of the model instead, because shapes follow from it
 *	witness		an input that a model without any gets, and that is handed through to an
 *				output of the same name and "_out": a model must have an input
 *
 * Field numbers: onnx/onnx.proto.
 */
#ifndef TEST_CONFORMANCE_CASE_H
#define TEST_CONFORMANCE_CASE_H

#include <stdio.h>
#include <stdlib.h>

#include "engine/device.h"
#include "proto.h"

#define CASE_VALUES_MAX 64
#define CASE_NAME_MAX	256

struct value
{
	char		name[CASE_NAME_MAX];	/* of the graph's input or output */
	uint8_t		type;			/* enum device_type, 0: none of the engine's */
	int			onnx_type;
	int			rank;			/* -1: more than the engine has */
	int64_t		dims[DEVICE_RANK_MAX];
	uint64_t	count;			/* elements */
	void	   *data;			/* of the engine's type; struct device_text for strings */
	uint8_t    *file;			/* the message, as on disk: strings point into it */
	uint64_t	file_bytes;
};

struct test_case
{
	char		folder[1024];
	char		name[CASE_NAME_MAX];
	char		operator[CASE_NAME_MAX];	/* what it is counted under */
	uint8_t    *model;
	uint64_t	model_bytes;
	double		rtol;
	double		atol;
	uint32_t	rows;			/* 0: the tensors as a whole are one row */
	char	   *classes;		/* what the signature must say, a line each; or NULL */
	int			inputs_count;	/* inputs without an initialiser, in the graph's order */
	int			outputs_count;
	struct value inputs[CASE_VALUES_MAX];
	struct value outputs[CASE_VALUES_MAX];
	struct value witness;
};

#define CASE_WITNESS	"witness"

static void *
xalloc(uint64_t bytes)
{
	void	   *memory = calloc(1, bytes ? bytes : 1);

	if (memory == NULL)
	{
		fprintf(stderr, "out of memory\n");
		exit(2);
	}
	return memory;
}

static uint8_t *
file_read(const char *path, uint64_t *bytes)
{
	FILE	   *file = fopen(path, "rb");
	long		size;
	uint8_t    *data;

	if (file == NULL)
		return NULL;
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	rewind(file);
	data = xalloc((uint64_t) size + 1);
	*bytes = fread(data, 1, (size_t) size, file);
	fclose(file);
	return data;
}

/* ---- one tensor ---- */

static uint8_t
value_type(int onnx_type)
{
	switch (onnx_type)
	{
		case 1:
			return DEVICE_F32;
		case 6:
			return DEVICE_I32;
		case 7:
			return DEVICE_I64;
		case 8:
			return DEVICE_STRING;
		case 9:
			return DEVICE_BOOL;
		case 11:
			return DEVICE_F64;
		default:
			return 0;
	}
}

static inline const char *
value_type_name(int onnx_type)
{
	static const char *const names[] = {"no tensor", "float", "uint8", "int8", "uint16", "int16",
		"int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64",
	"complex64", "complex128", "bfloat16"};

	return onnx_type >= 0 && onnx_type < (int) (sizeof(names) / sizeof(names[0])) ?
		names[onnx_type] : "a small type";
}

static uint64_t
value_element_bytes(uint8_t type)
{
	return type == DEVICE_STRING ? sizeof(struct device_text) :
		type == DEVICE_BOOL ? 1 : type == DEVICE_F32 || type == DEVICE_I32 ? 4 : 8;
}

/* One element from a typed field (float_data, int32_data, …): v as the wire gave it. */
static void
value_store(struct value *value, uint64_t at, uint64_t v)
{
	uint8_t    *to = (uint8_t *) value->data + at * value_element_bytes(value->type);

	if (value->type == DEVICE_BOOL)
		*to = v != 0;
	else
		memcpy(to, &v, value_element_bytes(value->type));
}

/* Reads a TensorProto.  False if it is damaged. */
static bool
value_parse(struct value *value, const uint8_t *data, uint64_t length)
{
	struct proto p = proto_open(data, length);
	uint64_t	at = 0;

	value->count = 1;
	while (proto_next(&p))
	{
		if (p.field == 1)
		{
			struct proto dims = proto_packed(&p);

			while (dims.at < dims.end && !dims.bad)
			{
				if (p.wire == 0)
					proto_varint(&dims);	/* the tag */
				int64_t		dim = (int64_t) proto_varint(&dims);

				if (value->rank >= DEVICE_RANK_MAX)
					value->rank = -1;
				if (value->rank >= 0)
					value->dims[value->rank++] = dim;
				value->count *= (uint64_t) dim;
			}
		}
		else if (p.field == 2)
			value->onnx_type = (int) p.value;
	}
	if (p.bad)
		return false;
	value->type = value_type(value->onnx_type);
	if (value->type == 0 || value->rank < 0)
		return true;
	if (value->count > (1u << 28))
		return false;
	value->data = xalloc(value->count * value_element_bytes(value->type));

	p = proto_open(data, length);
	while (proto_next(&p))
	{
		if (p.field == 9 && p.length > 0)
		{
			if (p.length != value->count * value_element_bytes(value->type))
				return false;
			memcpy(value->data, p.data, p.length);
			at = value->count;
		}
		else if (p.field == 6 && at < value->count)
		{
			struct device_text *text = (struct device_text *) value->data + at++;

			text->data = (const char *) p.data;
			text->length = p.length;
		}
		else if (p.field == 4 || p.field == 10 || p.field == 5 || p.field == 7)
		{
			struct proto list = proto_packed(&p);
			size_t		fixed = p.field == 4 ? 4 : p.field == 10 ? 8 : 0;

			while (list.at < list.end && !list.bad && at < value->count)
			{
				uint64_t	v = 0;

				if (p.wire != 2)
					proto_varint(&list);
				if (fixed == 0)
					v = proto_varint(&list);
				else if ((size_t) (list.end - list.at) >= fixed)
				{
					memcpy(&v, list.at, fixed);
					list.at += fixed;
				}
				else
					return false;
				value_store(value, at++, v);
			}
		}
	}
	return !p.bad && at == value->count;
}

static void
value_free(struct value *value)
{
	free(value->data);
	free(value->file);
	memset(value, 0, sizeof(*value));
}

/* ---- the model's own statements ---- */

struct model_scan				/* views into the model's bytes */
{
	struct proto graph;			/* data, length of GraphProto */
	int			inputs_count;	/* without those that have an initialiser */
	int			outputs_count;
	int			nodes_count;
	char		inputs[CASE_VALUES_MAX][CASE_NAME_MAX];
	char		outputs[CASE_VALUES_MAX][CASE_NAME_MAX];
	char		operator[CASE_NAME_MAX];	/* "domain Name" of the last node */
};

/* The string field of a message, cut to what fits; "" if there is none. */
static void
proto_text(const uint8_t *data, uint64_t length, uint32_t field, char *out, size_t size)
{
	struct proto p = proto_open(data, length);

	out[0] = '\0';
	while (proto_next(&p))
		if (p.field == field && p.wire == 2)
			snprintf(out, size, "%.*s", (int) p.length, (const char *) p.data);
}

static bool
model_has_initializer(const struct proto *graph, const char *name)
{
	struct proto p = proto_open(graph->data, graph->length);
	char		found[CASE_NAME_MAX];

	while (proto_next(&p))
		if (p.field == 5)
		{
			proto_text(p.data, p.length, 8, found, sizeof(found));
			if (strcmp(found, name) == 0)
				return true;
		}
	return false;
}

static bool
model_scan(struct model_scan *scan, const uint8_t *model, uint64_t bytes)
{
	struct proto p = proto_open(model, bytes);
	char		domain[64];
	char		type[128];
	char		name[CASE_NAME_MAX];

	memset(scan, 0, sizeof(*scan));
	while (proto_next(&p))
		if (p.field == 7 && p.wire == 2)
			scan->graph = p;
	if (p.bad || scan->graph.data == NULL)
		return false;
	p = proto_open(scan->graph.data, scan->graph.length);
	while (proto_next(&p))
	{
		if (p.field == 1)
		{
			proto_text(p.data, p.length, 7, domain, sizeof(domain));
			proto_text(p.data, p.length, 4, type, sizeof(type));
			snprintf(scan->operator, sizeof(scan->operator), "%s%s%s", domain,
					 domain[0] ? " " : "", type);
			scan->nodes_count++;
		}
		else if (p.field == 11 && scan->inputs_count < CASE_VALUES_MAX)
		{
			proto_text(p.data, p.length, 1, name, sizeof(name));
			if (!model_has_initializer(&scan->graph, name))
				strcpy(scan->inputs[scan->inputs_count++], name);
		}
		else if (p.field == 12 && scan->outputs_count < CASE_VALUES_MAX)
			proto_text(p.data, p.length, 1, scan->outputs[scan->outputs_count++], CASE_NAME_MAX);
	}
	return !p.bad;
}

/* ---- a model with some inputs frozen ---- */

static uint8_t *
put_varint(uint8_t *at, uint64_t value)
{
	while (value >= 0x80)
	{
		*at++ = (uint8_t) (value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t) value;
	return at;
}

static uint8_t *
put_field(uint8_t *at, uint32_t field, const void *data, uint64_t length)
{
	at = put_varint(at, (uint64_t) field << 3 | 2);
	at = put_varint(at, length);
	memcpy(at, data, length);
	return at + length;
}

/* The tensor of the case's file under the graph's own name, as an initialiser. */
static uint8_t *
put_initializer(uint8_t *at, const struct value *value)
{
	uint8_t    *tensor = xalloc(value->file_bytes + CASE_NAME_MAX + 16);
	uint8_t    *end = tensor;
	struct proto p = proto_open(value->file, value->file_bytes);

	while (proto_next(&p))
		if (p.field != 8)
		{
			memcpy(end, p.begin, (size_t) (p.at - p.begin));
			end += p.at - p.begin;
		}
	end = put_field(end, 8, value->name, strlen(value->name));
	at = put_field(at, 5, tensor, (uint64_t) (end - tensor));
	free(tensor);
	return at;
}

/* The witness: float[1] in, Identity, float[1] out.  "\n\x07" is field 1 of seven bytes. */
static uint8_t *
put_witness(uint8_t *at)
{
	static const char type[] = "\n\x08\x08\x01\x12\x04\n\x02\x08\x01";	/* tensor, FLOAT, shape [1] */
	uint8_t		part[256];
	uint8_t    *end;

	end = put_field(part, 1, CASE_WITNESS, strlen(CASE_WITNESS));
	end = put_field(end, 2, CASE_WITNESS "_out", strlen(CASE_WITNESS "_out"));
	end = put_field(end, 4, "Identity", strlen("Identity"));
	at = put_field(at, 1, part, (uint64_t) (end - part));
	end = put_field(part, 1, CASE_WITNESS, strlen(CASE_WITNESS));
	end = put_field(end, 2, type, sizeof(type) - 1);
	at = put_field(at, 11, part, (uint64_t) (end - part));
	end = put_field(part, 1, CASE_WITNESS "_out", strlen(CASE_WITNESS "_out"));
	end = put_field(end, 2, type, sizeof(type) - 1);
	return put_field(at, 12, part, (uint64_t) (end - part));
}

static bool
model_imports_main(const struct test_case *c)
{
	struct proto p = proto_open(c->model, c->model_bytes);
	char		domain[64];

	while (proto_next(&p))
		if (p.field == 8)
		{
			proto_text(p.data, p.length, 1, domain, sizeof(domain));
			if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
				return true;
		}
	return false;
}

/*
 * A copy of the case's model in which the inputs whose bit is set are initialisers with the
 * case's values; if that leaves none, with the witness.  Allocated; *bytes its length.  NULL if that
 * cannot be.
 */
static uint8_t *
case_freeze(const struct test_case *c, uint64_t frozen, uint64_t *bytes)
{
	struct model_scan scan;
	uint64_t	room = c->model_bytes + 1024;
	uint8_t    *graph;
	uint8_t    *graph_at;
	uint8_t    *out;
	uint8_t    *at;
	struct proto p;
	char		name[CASE_NAME_MAX];

	if (!model_scan(&scan, c->model, c->model_bytes) ||
		(frozen == (1ull << c->inputs_count) - 1 && !model_imports_main(c)))
		return NULL;
	for (int i = 0; i < c->inputs_count; i++)
		room += c->inputs[i].file_bytes + CASE_NAME_MAX + 32;
	graph = graph_at = xalloc(room);
	p = proto_open(scan.graph.data, scan.graph.length);
	while (proto_next(&p))
	{
		bool		drop = false;

		if (p.field == 11)
		{
			proto_text(p.data, p.length, 1, name, sizeof(name));
			for (int i = 0; i < c->inputs_count; i++)
				if ((frozen >> i & 1) && strcmp(c->inputs[i].name, name) == 0)
					drop = true;
		}
		if (!drop)
		{
			memcpy(graph_at, p.begin, (size_t) (p.at - p.begin));
			graph_at += p.at - p.begin;
		}
	}
	for (int i = 0; i < c->inputs_count; i++)
		if (frozen >> i & 1)
			graph_at = put_initializer(graph_at, &c->inputs[i]);
	if (frozen == (1ull << c->inputs_count) - 1)
		graph_at = put_witness(graph_at);

	out = at = xalloc(room + 64);
	p = proto_open(c->model, c->model_bytes);
	while (proto_next(&p))
		if (p.field != 7)
		{
			memcpy(at, p.begin, (size_t) (p.at - p.begin));
			at += p.at - p.begin;
		}
	at = put_field(at, 7, graph, (uint64_t) (graph_at - graph));
	free(graph);
	*bytes = (uint64_t) (at - out);
	return out;
}

/* ---- the folder ---- */

static void
case_close(struct test_case *c)
{
	for (int i = 0; i < CASE_VALUES_MAX; i++)
	{
		value_free(&c->inputs[i]);
		value_free(&c->outputs[i]);
	}
	value_free(&c->witness);
	free(c->model);
	free(c->classes);
	memset(c, 0, sizeof(*c));
}

static void
case_values(struct test_case *c, const char *what, int count, struct value *values,
			char names[][CASE_NAME_MAX])
{
	char		path[1400];

	for (int i = 0; i < count; i++)
	{
		struct value *value = &values[i];

		snprintf(path, sizeof(path), "%s/test_data_set_0/%s_%d.pb", c->folder, what, i);
		snprintf(value->name, sizeof(value->name), "%s", names[i]);
		value->file = file_read(path, &value->file_bytes);
		if (value->file == NULL || !value_parse(value, value->file, value->file_bytes))
			value->type = 0;	/* absent, or no tensor: a sequence, a map, an optional */
	}
}

static void
case_witness(struct test_case *c)
{
	strcpy(c->witness.name, CASE_WITNESS);
	c->witness.type = DEVICE_F32;
	c->witness.rank = 1;
	c->witness.dims[0] = 1;
	c->witness.count = 1;
	c->witness.data = xalloc(sizeof(float));
	*(float *) c->witness.data = 0.5f;
}

static void
case_notes(struct test_case *c)
{
	char		path[1400];
	uint64_t	bytes;
	char	   *text;

	c->rtol = 1e-3;
	c->atol = 1e-7;
	snprintf(path, sizeof(path), "%s/tolerance", c->folder);
	text = (char *) file_read(path, &bytes);
	if (text != NULL && sscanf(text, "%lf %lf", &c->rtol, &c->atol) != 2)
		c->rtol = c->atol = 0;
	free(text);
	snprintf(path, sizeof(path), "%s/rows", c->folder);
	text = (char *) file_read(path, &bytes);
	if (text != NULL)
		c->rows = (uint32_t) strtoul(text, NULL, 10);
	free(text);
	snprintf(path, sizeof(path), "%s/classes", c->folder);
	c->classes = (char *) file_read(path, &bytes);
}

/* False if there is no readable model. */
static bool
case_open(struct test_case *c, const char *folder, const char *name)
{
	struct model_scan scan;
	char		path[1400];

	memset(c, 0, sizeof(*c));
	snprintf(c->folder, sizeof(c->folder), "%s/%s", folder, name);
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(path, sizeof(path), "%s/model.onnx", c->folder);
	c->model = file_read(path, &c->model_bytes);
	if (c->model == NULL || !model_scan(&scan, c->model, c->model_bytes))
	{
		free(c->model);
		return false;
	}
	strcpy(c->operator, scan.nodes_count == 1 ? scan.operator : "");
	c->inputs_count = scan.inputs_count;
	c->outputs_count = scan.outputs_count;
	case_values(c, "input", c->inputs_count, c->inputs, scan.inputs);
	case_values(c, "output", c->outputs_count, c->outputs, scan.outputs);
	case_witness(c);
	case_notes(c);
	return true;
}

#endif							/* TEST_CONFORMANCE_CASE_H */
