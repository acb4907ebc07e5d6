/*
 * reader.c
 *	  What the parts of the ONNX reader share: refusals, texts, and names.
 *
 * A name is noted where it is met, defined or used; when all are known they are sorted and
 * numbered, and the numbers take the notes' places.
 */
#include "onnx_reader.h"

#include <stdlib.h>
#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../status.h"

#define ONNX_REFERENCES_MAX	(1u << 22)

bool
onnx_malformed(struct onnx_reader *r, const char *where, const char *what)
{
	return status_set(r->status, INFER_ERROR_MODEL, "the ONNX file is malformed: %s: %s", where, what);
}

bool
onnx_is_bytes(struct onnx_reader *r, const struct protobuf_field *field, const char *where)
{
	return field->wire == PROTOBUF_BYTES || onnx_malformed(r, where, "a field has the wrong wire type");
}

/* A terminated copy; NULL and a status if it is too long or has a zero byte. */
const char *
onnx_text_copy(struct onnx_reader *r, struct protobuf_span span, uint64_t limit, const char *where)
{
	if (span.size > limit)
	{
		onnx_malformed(r, where, "a name is too long");
		return NULL;
	}
	if (span.size > 0 && memchr(span.data, 0, span.size) != NULL)
	{
		onnx_malformed(r, where, "a name has a zero byte");
		return NULL;
	}
	return graph_pool_text(r->memory, span.data, span.size);
}

/* ---- names ---- */

/* Notes a name; its number stands in *place until onnx_names_resolve replaces it. */
bool
onnx_name_reference(struct onnx_reader *r, struct protobuf_span span, int32_t *place)
{
	struct onnx_reference *reference;

	*place = -1;
	if (!onnx_scope_name(r, &span))
		return false;
	if (span.size == 0)
		return true;
	if (span.size > 2 * ONNX_TEXT_MAX)
		return onnx_malformed(r, "a value's name", "it is too long");
	if (memchr(span.data, 0, span.size) != NULL)
		return onnx_malformed(r, "a value's name", "it has a zero byte");
	if (!graph_pool_grow(r->memory, &r->references, r->references_count, &r->references_space,
						 sizeof(*r->references), ONNX_REFERENCES_MAX, "references to values"))
		return false;
	reference = &r->references[r->references_count];
	reference->text = span;
	reference->order = r->references_count;
	*place = (int32_t) r->references_count++;
	return true;
}

static int
reference_compare(const void *a, const void *b)
{
	const struct protobuf_span *x = &((const struct onnx_reference *) a)->text;
	const struct protobuf_span *y = &((const struct onnx_reference *) b)->text;
	uint64_t	shorter = x->size < y->size ? x->size : y->size;
	int			order = memcmp(x->data, y->data, shorter);

	if (order != 0)
		return order;
	return x->size < y->size ? -1 : x->size > y->size;
}

static void
names_apply(const int32_t *numbers, const int32_t *places, uint32_t count)
{
	int32_t    *writable = (int32_t *) places;

	for (uint32_t i = 0; i < count; i++)
		if (writable[i] >= 0)
			writable[i] = numbers[writable[i]];
}

/* Sorts the names, numbers them, and puts the numbers wherever names were noted. */
bool
onnx_names_resolve(struct onnx_reader *r)
{
	struct onnx_model *model = r->model;
	uint32_t	count = r->references_count;
	int32_t    *numbers = graph_pool(r->memory, count, sizeof(*numbers));
	const char **names = graph_pool(r->memory, count, sizeof(*names));
	int32_t		number = -1;

	if (numbers == NULL || names == NULL)
		return false;
	if (count > 0)
		qsort(r->references, count, sizeof(*r->references), reference_compare);
	for (uint32_t i = 0; i < count; i++)
	{
		const struct onnx_reference *reference = &r->references[i];

		if (i == 0 || reference_compare(reference, reference - 1) != 0)
		{
			names[++number] = graph_pool_text(r->memory, reference->text.data, reference->text.size);
			if (names[number] == NULL)
				return false;
		}
		numbers[reference->order] = number;
	}
	model->names_count = (uint32_t) (number + 1);
	model->names = names;
	for (uint32_t i = 0; i < model->nodes_count; i++)
	{
		names_apply(numbers, model->nodes[i].inputs, model->nodes[i].inputs_count);
		names_apply(numbers, model->nodes[i].outputs, model->nodes[i].outputs_count);
	}
	for (uint32_t i = 0; i < model->inputs_count; i++)
		names_apply(numbers, &model->inputs[i].name, 1);
	for (uint32_t i = 0; i < model->outputs_count; i++)
		names_apply(numbers, &model->outputs[i].name, 1);
	names_apply(numbers, r->tensors_names, model->tensors_count);
	model->tensors_names = r->tensors_names;
	return true;
}
