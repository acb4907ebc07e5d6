/*
 * json.c
 *	  JSON files of a folder, and members of objects, checked.
 */
#include "reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *
folder_json(const struct model_file *file, bool array, struct status *status)
{
	json_error_t error;
	json_t	   *root;

	if (file->size > FOLDER_JSON_BYTES)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "\"%s\" is larger than %u bytes", file->name, FOLDER_JSON_BYTES);
		return NULL;
	}
	root = json_loadb((const char *) file->data, file->size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
	if (root == NULL)
	{
		status_set(status, INFER_ERROR_MODEL, "\"%s\" is not the JSON that is expected", file->name);
		status_detail(status, "Line %d: %s.", error.line, error.text);
	}
	else if (array ? !json_is_array(root) : !json_is_object(root))
	{
		status_set(status, INFER_ERROR_MODEL, "\"%s\" is not a JSON %s", file->name, array ? "array" : "object");
		json_decref(root);
		root = NULL;
	}
	return root;
}

json_t *
object_get(const struct object *object, const char *key)
{
	json_t	   *member = json_object_get(object->json, key);

	return json_is_null(member) ? NULL : member;
}

bool
object_malformed(const struct object *object, const char *key, const char *what)
{
	return status_set(object->status, INFER_ERROR_MODEL, "\"%.200s\" of %s is not %s", key, object->where, what);
}

bool
object_unsupported(const struct object *object, const char *key)
{
	char	   *text = json_dumps(object_get(object, key), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(10));

	status_set(object->status, INFER_ERROR_UNSUPPORTED, "\"%.200s\" of %s is not supported: %.200s", key, object->where,
			   text == NULL ? "?" : text);
	free(text);
	return false;
}

static bool
whole(const struct object *object, const char *key, json_t *member, int64_t first, int64_t last, int64_t *value)
{
	double		number = json_number_value(member);

	if (!json_is_number(member) || number != floor(number) || fabs(number) > FOLDER_NUMBER_MAX)
		return object_malformed(object, key, "a whole number");
	if (number < (double) first || number > (double) last)
		return status_set(object->status, INFER_ERROR_UNSUPPORTED, "\"%.200s\" of %s is not from %lld to %lld", key,
						  object->where, (long long) first, (long long) last);
	*value = (int64_t) number;
	return true;
}

bool
object_whole(const struct object *object, const char *key, int64_t first, int64_t last, int64_t *value)
{
	return whole(object, key, object_get(object, key), first, last, value);
}

bool
object_whole_or(const struct object *object, const char *key, int64_t first, int64_t last, int64_t otherwise, int64_t *value)
{
	json_t	   *member = object_get(object, key);

	*value = otherwise;
	return member == NULL || whole(object, key, member, first, last, value);
}

bool
object_number_or(const struct object *object, const char *key, double otherwise, double *value)
{
	json_t	   *member = object_get(object, key);

	*value = otherwise;
	if (member == NULL)
		return true;
	if (!json_is_number(member))
		return object_malformed(object, key, "a number");
	*value = json_number_value(member);
	return true;
}

bool
object_bool_or(const struct object *object, const char *key, bool otherwise, bool *value)
{
	json_t	   *member = object_get(object, key);

	*value = otherwise;
	if (member == NULL)
		return true;
	if (!json_is_boolean(member))
		return object_malformed(object, key, "true or false");
	*value = json_is_true(member);
	return true;
}

bool
object_text_or(const struct object *object, const char *key, const char *otherwise, const char **value)
{
	json_t	   *member = object_get(object, key);

	*value = otherwise;
	if (member == NULL)
		return true;
	if (!json_is_string(member) || strlen(json_string_value(member)) != json_string_length(member))
		return object_malformed(object, key, "a text");
	*value = json_string_value(member);
	return true;
}

static bool
says_nothing(json_t *member)
{
	return member == NULL || json_is_false(member) || (json_is_number(member) && json_number_value(member) == 0) ||
		(json_is_object(member) && json_object_size(member) == 0) || (json_is_array(member) && json_array_size(member) == 0) ||
		(json_is_string(member) && json_string_length(member) == 0);
}

bool
object_refuse(const struct object *object, const char *const *keys)
{
	for (; *keys != NULL; keys++)
		if (!says_nothing(object_get(object, *keys)))
			return object_unsupported(object, *keys);
	return true;
}

static bool
listed(const char *key, const char *const *keys)
{
	for (; keys != NULL && *keys != NULL; keys++)
		if (strcmp(key, *keys) == 0)
			return true;
	return false;
}

bool
object_known(const struct object *object, const char *const *keys, const char *const *more)
{
	const char *key;
	json_t	   *member;

	json_object_foreach(object->json, key, member)
		if (!listed(key, keys) && !listed(key, more) && !says_nothing(json_is_null(member) ? NULL : member))
			return object_unsupported(object, key);
	return true;
}
