/*
 * weights.c
 *	  The tensors of a folder: which files they lie in, and finding one by its name.
 *
 * model.safetensors is all of them where it exists, as transformers takes it; else
 * model.safetensors.index.json says which file holds which tensor.  Files that neither names
 * are none of the model's.
 */
#include "reader.h"

#include <stdlib.h>
#include <string.h>

#define SHARDS_MAX	256

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const struct weight *) a)->name, ((const struct weight *) b)->name);
}

bool
weights_sort(struct weights *weights, struct status *status)
{
	if (weights->count > 0)
		qsort(weights->list, weights->count, sizeof(*weights->list), compare_names);
	for (uint32_t i = 1; i < weights->count; i++)
		if (strcmp(weights->list[i - 1].name, weights->list[i].name) == 0)
			return status_set(status, INFER_ERROR_MODEL, "tensor \"%.200s\" is in \"%s\" and in \"%s\"", weights->list[i].name,
							  weights->list[i - 1].file->name, weights->list[i].file->name);
	return true;
}

struct weight *
weights_find(const struct weights *weights, const char *name)
{
	struct weight key = {.name = name};

	return weights->count == 0 ? NULL :
		bsearch(&key, weights->list, weights->count, sizeof(*weights->list), compare_names);
}

/* ---- the index ---- */

struct shards
{
	uint32_t	count;
	const struct model_file *files[SHARDS_MAX];
};

static bool
shard_add(const struct model_files *files, const char *index, const char *below, const char *name, struct shards *shards,
		  struct status *status)
{
	char		path[INFER_NAME_MAX];
	const struct model_file *file;

	if (name == NULL || strlen(name) + strlen(below) >= sizeof(path))
		return status_set(status, INFER_ERROR_MODEL, "\"weight_map\" of \"%s\" has what is no name of a file", index);
	strcpy(stpcpy(path, below), name);
	file = model_files_find(files, path);
	if (file == NULL)
	{
		status_set(status, INFER_ERROR_MODEL, "\"%s\" names the file \"%s\", which the model does not have", index, path);
		status_hint(status, "Create the model from the whole folder.");
		return false;
	}
	for (uint32_t i = 0; i < shards->count; i++)
		if (shards->files[i] == file)
			return true;
	if (shards->count == SHARDS_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" names more than %d files", index, SHARDS_MAX);
	shards->files[shards->count++] = file;
	return true;
}

/* What the index says of each tensor is so. */
static bool
check_index(const char *index, const char *below, json_t *map, const struct weights *weights, struct status *status)
{
	const char *name;
	json_t	   *file;

	json_object_foreach(map, name, file)
	{
		const struct weight *weight = weights_find(weights, name);

		if (weight == NULL || strncmp(weight->file->name, below, strlen(below)) != 0 ||
			strcmp(weight->file->name + strlen(below), json_string_value(file)) != 0)
			return status_set(status, INFER_ERROR_MODEL, "tensor \"%.200s\" is not in the file \"%s\", where \"%s\" says it is",
							  name, json_string_value(file), index);
	}
	return true;
}

static bool
read_index(const struct model_files *files, const struct model_file *index, const char *below, struct graph_memory *memory,
		   struct weights *weights, struct status *status)
{
	json_t	   *root = folder_json(index, false, status);
	json_t	   *map = json_object_get(root, "weight_map");
	struct shards shards = {0};
	const char *name;
	json_t	   *file;
	bool		fine = root != NULL;

	if (fine && (!json_is_object(map) || json_object_size(map) == 0))
		fine = status_set(status, INFER_ERROR_MODEL, "\"%s\" has no weight_map", index->name);
	json_object_foreach(map, name, file)
		fine = fine && shard_add(files, index->name, below, json_string_value(file), &shards, status);
	for (uint32_t i = 0; fine && i < shards.count; i++)
		fine = safetensors_read(shards.files[i], memory, weights, status);
	fine = fine && weights_sort(weights, status) && check_index(index->name, below, map, weights, status);
	json_decref(root);
	return fine;
}

/* ---- which files ---- */

static const struct model_file *
find_below(const struct model_files *files, const char *below, const char *name)
{
	char		path[INFER_NAME_MAX];

	if (strlen(below) + strlen(name) >= sizeof(path))
		return NULL;
	strcpy(stpcpy(path, below), name);
	return model_files_find(files, path);
}

static bool
refuse_other_formats(const struct model_files *files, const char *below, struct status *status)
{
	static const char *const others[] = {
		"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "tf_model.h5.index.json", "flax_model.msgpack",
		"model.ckpt.index", "rust_model.ot", NULL
	};

	for (const char *const *other = others; *other != NULL; other++)
		if (find_below(files, below, *other) != NULL)
		{
			status_set(status, INFER_ERROR_UNSUPPORTED, "the model's weights are only in \"%s%s\", which is not supported", below, *other);
			status_hint(status, "Load the folder with the library that wrote it and save it with save_pretrained(..., safe_serialization=True), which writes model.safetensors.");
			return false;
		}
	return status_set(status, INFER_ERROR_MODEL, "the model has no file \"%smodel.safetensors\"", below);
}

bool
weights_read(const struct model_files *files, const char *below, struct graph_memory *memory, struct weights *weights,
			 struct status *status)
{
	const struct model_file *single = find_below(files, below, "model.safetensors");
	const struct model_file *index = find_below(files, below, "model.safetensors.index.json");

	*weights = (struct weights) {0};
	if (single != NULL)
		return safetensors_read(single, memory, weights, status) && weights_sort(weights, status);
	if (index != NULL)
		return read_index(files, index, below, memory, weights, status);
	return refuse_other_formats(files, below, status);
}
