/*
 * freeze.h
 *	  A case's model written anew, with inputs that the case gives at run time made
 *	  initialisers, because shapes follow from them.
 *
 * Field numbers: onnx/onnx.proto.
 */
#ifndef TEST_CONFORMANCE_FREEZE_H
#define TEST_CONFORMANCE_FREEZE_H

#include "case.h"

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

#endif							/* TEST_CONFORMANCE_FREEZE_H */
