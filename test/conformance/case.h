/*
 * case.h
 *	  A conformance case as it lies on disk.
 *
 * Nouns
 *	case		a folder with model.onnx and test_data_set_0/{input,output}_N.pb; beside the
 *				model may lie "tolerance" (two numbers), "rows" (the first dimension of all
 *				tensors is the batch, of so many rows) and "classes" (labels, one a line)
 *	witness		an input that a model without any gets, and that is handed through to an
 *				output of the same name and "_out": a model must have an input
 *
 * Field numbers: onnx/onnx.proto.
 */
#ifndef TEST_CONFORMANCE_CASE_H
#define TEST_CONFORMANCE_CASE_H

#include "value.h"

#define CASE_VALUES_MAX 64
#define CASE_WITNESS	"witness"

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
