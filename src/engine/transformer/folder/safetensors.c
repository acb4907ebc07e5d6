/*
 * safetensors.c
 *	  A safetensors file: 8 bytes that say how long the header is, little-endian; the header, a
 *	  JSON object of name → {dtype, shape, data_offsets}; the tensors, row-major, without gaps.
 *	  Offsets count from the end of the header.  Format: github.com/huggingface/safetensors.
 *
 * Every byte behind the header belongs to exactly one tensor, or the file is refused.
 */
#include "reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES	8

struct element
{
	const char *name;
	uint32_t	bytes;
	enum weight_type type;
};

static const struct element elements[] = {
	{"F32", 4, WEIGHT_F32}, {"F16", 2, WEIGHT_F16}, {"BF16", 2, WEIGHT_BF16}, {"F64", 8, WEIGHT_OTHER},
	{"I64", 8, WEIGHT_OTHER}, {"I32", 4, WEIGHT_OTHER}, {"I16", 2, WEIGHT_OTHER}, {"I8", 1, WEIGHT_OTHER},
	{"U64", 8, WEIGHT_OTHER}, {"U32", 4, WEIGHT_OTHER}, {"U16", 2, WEIGHT_OTHER}, {"U8", 1, WEIGHT_OTHER},
	{"BOOL", 1, WEIGHT_OTHER}, {"F8_E4M3", 1, WEIGHT_OTHER}, {"F8_E5M2", 1, WEIGHT_OTHER}, {NULL, 0, WEIGHT_OTHER}
};

struct header						/* of a file that is being read */
{
	const struct model_file *file;
	struct graph_memory *memory;
	struct status *status;
	const uint8_t *data;			/* the first byte behind it */
	uint64_t	data_bytes;
};

static bool
tensor_wrong(const struct header *h, const char *name, const char *what)
{
	return status_set(h->status, INFER_ERROR_MODEL, "tensor \"%.200s\" of \"%s\" %s", name, h->file->name, what);
}

static bool
tensor_type(const struct header *h, json_t *dtype, struct weight *weight, uint32_t *bytes)
{
	const char *name = json_string_value(dtype);

	if (name == NULL)
		return tensor_wrong(h, weight->name, "has no dtype");
	for (const struct element *e = elements; e->name != NULL; e++)
		if (strcmp(name, e->name) == 0)
		{
			weight->type = e->type;
			weight->type_name = e->name;
			*bytes = e->bytes;
			return true;
		}
	return status_set(h->status, INFER_ERROR_UNSUPPORTED, "tensor \"%.200s\" of \"%s\" is of the unknown type \"%.50s\"",
					  weight->name, h->file->name, name);
}

static bool
whole(json_t *json, uint64_t *value)
{
	double		number = json_number_value(json);

	if (!json_is_number(json) || number < 0 || number != floor(number) || number > FOLDER_NUMBER_MAX)
		return false;
	*value = (uint64_t) number;
	return true;
}

static bool
tensor_shape(const struct header *h, json_t *shape, struct weight *weight, uint64_t *elements_count)
{
	*elements_count = 1;
	if (!json_is_array(shape))
		return tensor_wrong(h, weight->name, "has no shape");
	if (json_array_size(shape) > WEIGHT_RANK_MAX)
		return tensor_wrong(h, weight->name, "has more dimensions than are supported");
	weight->rank = (uint8_t) json_array_size(shape);
	for (uint8_t i = 0; i < weight->rank; i++)
	{
		uint64_t	dim;

		if (!whole(json_array_get(shape, i), &dim) || __builtin_mul_overflow(*elements_count, dim, elements_count))
			return tensor_wrong(h, weight->name, "has an impossible shape");
		weight->dims[i] = (int64_t) dim;
	}
	return true;
}

static bool
tensor_read(const struct header *h, const char *name, json_t *json, struct weight *weight)
{
	json_t	   *offsets = json_object_get(json, "data_offsets");
	uint64_t	begin, end, count, bytes;
	uint32_t	element = 0;

	weight->file = h->file;
	weight->name = graph_pool_text(h->memory, name, strlen(name));
	if (weight->name == NULL)
		return false;
	if (!json_is_object(json) || json_object_size(json) != 3)
		return tensor_wrong(h, name, "is not described by dtype, shape and data_offsets");
	if (!tensor_type(h, json_object_get(json, "dtype"), weight, &element) ||
		!tensor_shape(h, json_object_get(json, "shape"), weight, &count))
		return false;
	if (json_array_size(offsets) != 2 || !whole(json_array_get(offsets, 0), &begin) ||
		!whole(json_array_get(offsets, 1), &end))
		return tensor_wrong(h, name, "has no data_offsets");
	if (end < begin)
		return tensor_wrong(h, name, "ends before it begins");
	if (end > h->data_bytes)
		return tensor_wrong(h, name, "reaches past the end of the file");
	if (__builtin_mul_overflow(count, element, &bytes) || bytes != end - begin)
		return tensor_wrong(h, name, "has other bytes than its shape and type need");
	weight->data = h->data + begin;
	weight->bytes = bytes;
	return true;
}

static int
compare_data(const void *a, const void *b)
{
	const struct weight *x = *(const struct weight *const *) a, *y = *(const struct weight *const *) b;

	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);	/* empty ones first */
}

/* Whether the tensors of a file lie end to end. */
static bool
check_places(const struct header *h, const struct weight *list, uint32_t count)
{
	const struct weight **sorted = graph_pool(h->memory, count, sizeof(*sorted));
	const uint8_t *at = h->data;

	if (sorted == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		sorted[i] = &list[i];
	qsort(sorted, count, sizeof(*sorted), compare_data);
	for (uint32_t i = 0; i < count; i++)
	{
		if (sorted[i]->data < at)
			return tensor_wrong(h, sorted[i]->name, "overlaps another one");
		if (sorted[i]->data > at)
			return tensor_wrong(h, sorted[i]->name, "begins behind a gap");
		at += sorted[i]->bytes;
	}
	if (at != h->data + h->data_bytes)
		return status_set(h->status, INFER_ERROR_MODEL, "\"%s\" has bytes behind its last tensor", h->file->name);
	return true;
}

static bool
check_metadata(const struct header *h, json_t *metadata)
{
	const char *key;
	json_t	   *value;

	if (!json_is_object(metadata))
		return status_set(h->status, INFER_ERROR_MODEL, "the metadata of \"%s\" are not an object of texts", h->file->name);
	json_object_foreach(metadata, key, value)
		if (!json_is_string(value))
			return status_set(h->status, INFER_ERROR_MODEL, "the metadata of \"%s\" are not an object of texts", h->file->name);
	return true;
}

static bool
read_tensors(const struct header *h, json_t *root, struct weights *weights)
{
	uint32_t	first = weights->count;
	const char *name;
	json_t	   *json;

	json_object_foreach(root, name, json)
	{
		if (strcmp(name, "__metadata__") == 0)
		{
			if (!check_metadata(h, json))
				return false;
			continue;
		}
		if (!graph_pool_grow(h->memory, &weights->list, weights->count, &weights->space, sizeof(*weights->list),
							 FOLDER_JSON_BYTES, "tensors"))
			return false;
		weights->list[weights->count] = (struct weight) {0};
		if (!tensor_read(h, name, json, &weights->list[weights->count]))
			return false;
		weights->count++;
	}
	return check_places(h, weights->list + first, weights->count - first);
}

static json_t *
read_header(struct header *h)
{
	const struct model_file *file = h->file;
	uint64_t	bytes = 0;
	json_error_t error;
	json_t	   *root;

	if (file->size < LENGTH_BYTES)
	{
		status_set(h->status, INFER_ERROR_MODEL, "\"%s\" is too short for a safetensors file", file->name);
		return NULL;
	}
	for (int i = LENGTH_BYTES - 1; i >= 0; i--)
		bytes = bytes << 8 | file->data[i];
	if (bytes > file->size - LENGTH_BYTES)
	{
		status_set(h->status, INFER_ERROR_MODEL, "the header of \"%s\" is longer than the file", file->name);
		return NULL;
	}
	if (bytes > FOLDER_JSON_BYTES)
	{
		status_set(h->status, INFER_ERROR_UNSUPPORTED, "the header of \"%s\" is longer than %u bytes", file->name, FOLDER_JSON_BYTES);
		return NULL;
	}
	h->data = file->data + LENGTH_BYTES + bytes;
	h->data_bytes = file->size - LENGTH_BYTES - bytes;
	root = json_loadb((const char *) file->data + LENGTH_BYTES, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
	if (json_is_object(root))
		return root;
	if (root == NULL && json_error_code(&error) == json_error_duplicate_key)
		status_set(h->status, INFER_ERROR_MODEL, "the header of \"%s\" names something twice", file->name);
	else
		status_set(h->status, INFER_ERROR_MODEL, "the header of \"%s\" is not a JSON object", file->name);
	if (root == NULL)
		status_detail(h->status, "Line %d: %s.", error.line, error.text);
	json_decref(root);
	return NULL;
}

bool
safetensors_read(const struct model_file *file, struct graph_memory *memory, struct weights *weights, struct status *status)
{
	struct header h = {.file = file, .memory = memory, .status = status};
	json_t	   *root = read_header(&h);
	bool		fine = root != NULL && read_tensors(&h, root, weights);

	json_decref(root);
	return fine;
}
