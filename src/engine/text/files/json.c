/*
 * json.c
 *	  Members of JSON objects, checked.
 */
#include "reader.h"

#include <string.h>

#include "../../../protocol/protocol.h"
#include "../../model/model.h"

json_t *
reader_load(const struct model_file *file, bool reals, struct status *status)
{
	json_error_t error;
	json_t	   *root;

	if (file->size > READER_BYTES_MAX)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" is larger than %u bytes", file->name, READER_BYTES_MAX);
		return NULL;
	}
	root = json_loadb((const char *) file->data, file->size,
					  JSON_REJECT_DUPLICATES | (reals ? JSON_DECODE_INT_AS_REAL : 0), &error);
	if (root == NULL)
	{
		status_set(status, INFER_ERROR_MODEL, "\"%s\" is not the JSON that is expected", file->name);
		status_detail(status, "Line %d: %s.", error.line, error.text);
	}
	else if (!json_is_object(root))
	{
		status_set(status, INFER_ERROR_MODEL, "\"%s\" is not a JSON object", file->name);
		json_decref(root);
		root = NULL;
	}
	return root;
}

static bool
malformed(const char *key, const char *what, const char *type, struct status *status)
{
	return status_set(status, INFER_ERROR_MODEL, "\"%s\" of the tokenizer's %s is not %s", key, what, type);
}

bool
reader_bool(json_t *object, const char *key, const char *what, bool *value, struct status *status)
{
	json_t	   *member = json_object_get(object, key);

	if (!json_is_boolean(member))
		return malformed(key, what, "true or false", status);
	*value = json_is_true(member);
	return true;
}

bool
reader_int(json_t *object, const char *key, const char *what, int64_t first, int64_t last, int64_t *value,
		   struct status *status)
{
	json_t	   *member = json_object_get(object, key);

	if (!json_is_integer(member))
		return malformed(key, what, "an integer", status);
	*value = json_integer_value(member);
	if (*value < first || *value > last)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" of the tokenizer's %s is not from %lld to %lld",
						  key, what, (long long) first, (long long) last);
	return true;
}

const char *
reader_text(json_t *object, const char *key, const char *what, struct status *status)
{
	json_t	   *member = json_object_get(object, key);

	if (!json_is_string(member))
	{
		malformed(key, what, "a string", status);
		return NULL;
	}
	return json_string_value(member);
}

const char *
reader_type(json_t *object, const char *what, struct status *status)
{
	if (!json_is_object(object))
	{
		status_set(status, INFER_ERROR_MODEL, "the tokenizer's %s is not an object", what);
		return NULL;
	}
	return reader_text(object, "type", what, status);
}

bool
reader_known(json_t *object, const char *what, const char *const *keys, struct status *status)
{
	const char *key;
	json_t	   *value;

	json_object_foreach(object, key, value)
	{
		bool		known = strcmp(key, "type") == 0;

		for (const char *const *k = keys; *k != NULL && !known; k++)
			known = strcmp(key, *k) == 0;
		if (!known)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "\"%.200s\" of the tokenizer's %s is not supported", key, what);
	}
	return true;
}
