/*
 * text_references.c
 *	  That what is read from a folder is what its reference computes with: the encoder that was
 *	  read, evaluated as plainly as can be, gives the numbers that are kept beside each
 *	  fixture.  Tokens are the reference's own.
 */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "encoder_reference.h"
#include "engine/graph/memory.h"
#include "engine/model/files.h"
#include "engine/status.h"
#include "engine/transformer/folder.h"
#include "tap.h"

#define FOLDER		"test/fixtures/text/"
#define TOKENS_MAX	512
#define LARGEST		2e-5			/* difference, against the length of the reference's numbers */

static int64_t
read_ids(json_t *list, int32_t *ids)
{
	for (size_t i = 0; i < json_array_size(list) && i < TOKENS_MAX; i++)
		ids[i] = (int32_t) json_integer_value(json_array_get(list, i));
	return (int64_t) json_array_size(list);
}

/* The length of the difference, against the length of the reference; a number's own, where it is more than 1. */
static double
difference(json_t *wanted, const double *got, int64_t count)
{
	double		square = 0, length = 0;

	if ((int64_t) json_array_size(wanted) != count)
		return INFINITY;
	for (int64_t i = 0; i < count; i++)
	{
		double		w = json_number_value(json_array_get(wanted, (size_t) i));

		square += (got[i] - w) * (got[i] - w);
		length += w * w;
	}
	return sqrt(square) / fmax(sqrt(length), 1);
}

/* Tokens that pooling passes over: those of the prompt, which an empty text has too, before the one that ends it. */
static int64_t
passed_over(const struct encoder *e, json_t *cases, json_t *one)
{
	json_t	   *prompt = json_object_get(one, "prompt"), *other;
	size_t		i;

	json_array_foreach(cases, i, other)
		if (e->prompt_excluded && json_is_string(prompt) && json_equal(json_object_get(other, "prompt"), prompt) &&
			json_string_length(json_object_get(other, "text")) == 0)
			return (int64_t) json_array_size(json_object_get(other, "ids")) - 1;
	return 0;
}

/* The largest difference of a case. */
static double
check_case(const struct encoder *e, json_t *cases, json_t *one)
{
	static double out[1 << 20];
	int32_t		ids[TOKENS_MAX], types[TOKENS_MAX];
	json_t	   *given = json_object_get(one, "types"), *wanted = json_object_get(one, "embedding");
	int64_t		tokens = read_ids(json_object_get(one, "ids"), ids), count = 0;
	double	   *hidden, *pooled, worst = 0;

	read_ids(given, types);
	hidden = reference_hidden(e, ids, given == NULL ? NULL : types, tokens);
	pooled = calloc((size_t) e->hidden * ENCODER_POOLINGS_MAX, sizeof(double));
	if (json_object_get(one, "hidden") != NULL)
		worst = difference(json_object_get(one, "hidden"), hidden, tokens * e->hidden);
	if (wanted == NULL)
		wanted = json_object_get(one, "logits");
	for (int64_t t = 0; e->task == ENCODER_ENTITIES && t < tokens; t++)
		count += reference_head_on(e, hidden + t * e->hidden, e->hidden, out + count);
	if (e->task != ENCODER_ENTITIES)
	{
		count = reference_pool(e, hidden, passed_over(e, cases, one), tokens, pooled);
		count = reference_head_on(e, pooled, count, out);
	}
	worst = fmax(worst, difference(wanted, out, count));
	free(hidden);
	free(pooled);
	return worst;
}

static void
check_fixture(const char *name, json_t *expected)
{
	char		path[512];
	struct status status = {0};
	struct model_files files;
	struct graph_memory memory;
	struct encoder *encoder;
	json_t	   *cases = json_object_get(expected, "cases");
	double		worst = 0;

	snprintf(path, sizeof(path), FOLDER "%s", name);
	if (files_open_path(path, &files, &status) != FILES_OK)
	{
		tap_ok(false, "%s: no such folder", name);
		return;
	}
	graph_memory_init(&memory, 1 << 20, &status);
	encoder = encoder_read(encoder_files(&files, &memory), strcmp(name, "bert_sharded") == 0 ? "{\"pooling\":\"mean\"}" : "", NULL, &status);
	if (encoder == NULL)
	{
		const char *because = json_string_value(json_object_get(expected, "because"));

		if (json_is_true(json_object_get(expected, "graph")) || strncmp(name, "graph_", 6) == 0)
			tap_ok(strstr(status.message, "none of an encoder that is known") != NULL, "%s is no encoder that is known: %s", name, status.message);
		else if (because != NULL)
			tap_ok(strstr(status.message, because) != NULL, "%s is refused: %s", name, status.message);
		else
			tap_ok(strstr(status.message, "not supported") != NULL, "%s is not supported: %s", name, status.message);
	}
	else
	{
		for (size_t i = 0; i < json_array_size(cases); i++)
			worst = fmax(worst, check_case(encoder, cases, json_array_get(cases, i)));
		tap_ok(worst <= LARGEST && json_array_size(cases) > 0 && json_integer_value(json_object_get(expected, "limit")) == encoder->tokens_max,
			   "%s: %zu texts, %.1e", name, json_array_size(cases), worst);
	}
	encoder_free(encoder);
	graph_memory_free(&memory);
	files_close(&files);
}

int
main(void)
{
	struct dirent **entries;
	int			count = scandir(FOLDER, &entries, NULL, alphasort);

	for (int i = 0; i < count; i++)
	{
		char		path[512], name[256];
		char	   *end;
		json_t	   *expected;

		snprintf(name, sizeof(name), "%s", entries[i]->d_name);
		free(entries[i]);
		end = strstr(name, ".json");
		if (end == NULL || end[5] != '\0')
			continue;
		snprintf(path, sizeof(path), FOLDER "%s", name);
		*end = '\0';
		expected = json_load_file(path, 0, NULL);
		check_fixture(name, expected);
		json_decref(expected);
	}
	if (count > 0)
		free(entries);
	return tap_done();
}
