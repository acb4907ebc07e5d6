/*
 * encoder.c
 *	  Encoders against what the reference libraries made of the same folders and texts: the
 *	  seeded models of test/fixtures/text, each with its file of references, and the real models
 *	  whose references are in test/fixtures/text_fetched, as far as script/fetch-models --folder
 *	  has put them into $INFER_PARTS/models.
 *
 * f32: the L2 norm of the difference of embeddings of length 1 is at most 1e-5, and scores
 * differ by at most 1e-5.  An ONNX file that is run as it is has no other precision.  bf16: the cosine is at least 0.9999 for real models, and 0.9995 for
 * seeded ones: sums of 32 products do not even out what rounding does.  Tokens, labels and
 * places of entities are equal.
 *
 * Arguments: names of models; then only these are looked at, and each row that is wrong is told.
 */
#include <dirent.h>
#include <jansson.h>
#include <unistd.h>

#include "encoder_fixture.h"

#define EMBEDDING_MAX		1e-5		/* L2 norm of a difference, f32 */
#define SCORE_MAX			1e-5
#define COSINE_MIN			0.9999		/* bf16, real models */
#define COSINE_MIN_SEEDED	0.9995
#define SCORE_MAX_BF16		0.05

#define FETCHED_FOLDER		"test/fixtures/text_fetched/"

struct place					/* of a model */
{
	char		name[256];
	char		folder[4096];
	char		expected[512];		/* the file of references */
	bool		fetched;
};

struct compared					/* of a model */
{
	double		cosine_min;			/* that is good enough, of bf16 */
	uint32_t	rows;
	uint32_t	wrong;				/* rows that are not as they should be */
	double		worst;				/* difference, of f32; 1 − cosine, of others */
	char		first[256];			/* what was wrong with the first of them */
};

static bool verbose;

static void
wrong(struct compared *compared, json_t *row, const char *what, double by)
{
	if (compared->wrong++ == 0)
		snprintf(compared->first, sizeof(compared->first), "\"%.60s\": %s %.3g", json_string_value(json_object_get(row, "text")), what, by);
	if (verbose)
		printf("# \"%.60s\": %s %.3g\n", json_string_value(json_object_get(row, "text")), what, by);
}

/* ---- a row ---- */

static void
fill(struct encoder_call_fixture *c, json_t *cases)
{
	size_t		i;
	json_t	   *row;

	json_array_foreach(cases, i, row)
	{
		json_t	   *pair = json_object_get(row, "pair");
		json_t	   *prompt = json_object_get(row, "prompt");
		json_t	   *text = json_object_get(row, "text");

		encoder_bytes(c, ENCODER_INPUT_TEXT, (uint32_t) i, json_string_value(text), json_string_length(text));
		if (pair != NULL)
			encoder_bytes(c, ENCODER_INPUT_PAIR, (uint32_t) i, json_string_value(pair), json_string_length(pair));
		if (prompt != NULL)
			encoder_text(c, ENCODER_INPUT_PROMPT, (uint32_t) i, json_string_value(prompt));
		encoder_option(c, (uint32_t) i, INFER_TEXT_FLAGS, INFER_TEXT_TRUNCATE);
	}
}

static bool
same_ids(json_t *ids, const int32_t *got, uint32_t count)
{
	if (json_array_size(ids) != count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (json_integer_value(json_array_get(ids, i)) != got[i])
			return false;
	return true;
}

/* Of vectors made as long as 1; *cosine likewise. */
static double
difference(json_t *expected, const float *got, double *cosine)
{
	size_t		count = json_array_size(expected);
	double		expected_squares = 0, got_squares = 0, squares = 0, product = 0;

	for (size_t i = 0; i < count; i++)
	{
		double		x = json_number_value(json_array_get(expected, i));

		expected_squares += x * x;
		got_squares += (double) got[i] * got[i];
		product += x * got[i];
	}
	for (size_t i = 0; i < count; i++)
	{
		double		by = json_number_value(json_array_get(expected, i)) / sqrt(expected_squares) - got[i] / sqrt(got_squares);

		squares += by * by;
	}
	*cosine = product / sqrt(expected_squares * got_squares);
	return sqrt(squares);
}

static void
compare_embedding(struct compared *compared, json_t *row, const float *got, bool exact)
{
	double		cosine;
	double		by = difference(json_object_get(row, "embedding"), got, &cosine);

	if (!exact)
		by = 1 - cosine;
	if (!(by <= compared->worst))
		compared->worst = by;
	if (!(exact ? by <= EMBEDDING_MAX : cosine >= compared->cosine_min))
		wrong(compared, row, exact ? "the embedding differs by" : "1 - cosine is", by);
}

static void
compare_scores(struct compared *compared, json_t *row, const float *got, double most)
{
	json_t	   *scores = json_object_get(row, "scores");

	for (size_t i = 0; i < json_array_size(scores); i++)
	{
		double		expected = json_number_value(json_array_get(scores, i));
		double		by = fabs(expected - got[i]) / fmax(1, fabs(expected));

		if (!(by <= compared->worst))
			compared->worst = by;
		if (!(by <= most))
			wrong(compared, row, "a score differs by", by);
	}
}

static void
compare_label(struct compared *compared, json_t *expected, json_t *row, const char *got)
{
	json_t	   *scores = json_object_get(row, "scores");
	size_t		best = 0;

	for (size_t i = 1; i < json_array_size(scores); i++)
		if (json_number_value(json_array_get(scores, i)) > json_number_value(json_array_get(scores, best)))
			best = i;
	if (strcmp(got, json_string_value(json_array_get(json_object_get(expected, "labels"), best))) != 0)
		wrong(compared, row, "the label is another one than number", (double) best);
}

/* The characters of a text, for the reference's places: those of a byte-level tokenizer may begin with a space. */
static bool
is_space(json_t *row, json_int_t character)
{
	const char *text = json_string_value(json_object_get(row, "text"));

	for (json_int_t at = 0; *text != '\0'; text++)
		if (((unsigned char) *text & 0xC0) != 0x80 && ++at == character)
			return strchr(" \t\n\r\v\f", *text) != NULL || memcmp(text, "\u00a0", 2) == 0 || memcmp(text, "\u3000", 3) == 0;
	return false;
}

/* An entity's place without the white space at its ends; false: it is nothing else. */
static bool
entity_place(json_t *row, json_t *entity, json_int_t *start, json_int_t *end)
{
	*start = json_integer_value(json_object_get(entity, "start"));
	*end = json_integer_value(json_object_get(entity, "end"));
	while (*start <= *end && is_space(row, *start))
		++*start;
	while (*end >= *start && is_space(row, *end))
		--*end;
	return *start <= *end;
}

static void
compare_entities(struct compared *compared, const struct encoder_call_fixture *c, json_t *row, uint32_t at)
{
	json_t	   *entities = json_object_get(row, "entities");
	uint32_t	types_count, places_count, scores_count;
	const int32_t *types = encoder_varying(c, 0, at, &types_count);
	const int32_t *places = encoder_varying(c, 1, at, &places_count);
	const float *scores = encoder_varying(c, 2, at, &scores_count);
	uint32_t	at_type = 0;
	double		by;
	size_t		i;
	json_t	   *entity;

	json_array_foreach(entities, i, entity)
	{
		const char *label = json_string_value(json_object_get(entity, "label"));
		json_int_t	start, end;

		if (!entity_place(row, entity, &start, &end))
			continue;
		if (at_type == types_count || strcmp(c->model->model->signature.classes[types[at_type]], label) != 0 ||
			places[2 * at_type] + 1 != start || places[2 * at_type + 1] != end)
		{
			wrong(compared, row, "an entity is another one: number", (double) i);
			return;
		}
		by = fabs(json_number_value(json_object_get(entity, "score")) - scores[at_type++]);
		if (by > compared->worst)
			compared->worst = by;
		if (!(by <= SCORE_MAX))
			wrong(compared, row, "an entity's score differs by", by);
	}
	if (at_type != types_count || places_count != 2 * types_count || scores_count != types_count)
		wrong(compared, row, "the number of entities is", types_count);
}

static void
compare_row(struct compared *compared, const struct encoder_call_fixture *c, json_t *expected, json_t *row, uint32_t at, bool exact)
{
	uint32_t	count;
	const int32_t *ids;

	compared->rows++;
	if (c->request.row_status[at] != INFER_OK)
	{
		wrong(compared, row, encoder_error(c, at)->message, 0);
		return;
	}
	ids = encoder_varying(c, encoder_output(c->model, INFER_ROLE_TOKENS), at, &count);
	if (!same_ids(json_object_get(row, "ids"), ids, count))
		wrong(compared, row, "the tokens differ, count", count);
	switch (c->model->model->signature.task)
	{
		case INFER_TASK_EMBEDDING:
			compare_embedding(compared, row, encoder_numbers(c, 0, at), exact);
			break;
		case INFER_TASK_CLASSIFIER:
			compare_scores(compared, row, encoder_numbers(c, 1, at), exact ? SCORE_MAX : SCORE_MAX_BF16);
			if (exact)
				compare_label(compared, expected, row, encoder_label(c, 0, at));
			break;
		case INFER_TASK_ENTITIES:
			if (exact)
				compare_entities(compared, c, row, at);
			break;
		default:
			compare_scores(compared, row, encoder_numbers(c, 0, at), exact ? SCORE_MAX : SCORE_MAX_BF16);
	}
}

/* ---- a model ---- */

static struct compared
compare(struct encoder_fixture *f, json_t *expected, double cosine_min, bool exact)
{
	json_t	   *cases = json_object_get(expected, "cases");
	struct compared compared = {.cosine_min = cosine_min};
	struct encoder_call_fixture c;
	size_t		i;
	json_t	   *row;

	encoder_request(&c, f, (uint32_t) json_array_size(cases));
	fill(&c, cases);
	c.request.outputs_wanted = (1u << f->model->signature.outputs_count) - 1;
	if (encoder_run(&c))
	{
		json_array_foreach(cases, i, row)
			compare_row(&compared, &c, expected, row, (uint32_t) i, exact);
	}
	else
		snprintf(compared.first, sizeof(compared.first), "the run failed: %.200s", f->status.message);
	encoder_release(&c);
	return compared;
}

static void
test_refused(const struct place *place, const char *options, const char *because)
{
	struct encoder_fixture f;
	bool		opened = encoder_open_path(&f, encoder_device(1), place->folder, options);

	tap_ok(!opened && f.status.error == INFER_ERROR_UNSUPPORTED &&
		   (strstr(f.status.message, because) != NULL || strstr(f.status.detail, because) != NULL),
		   "%s is refused: %s %s", place->name, opened ? "it is not" : f.status.message, f.status.detail);
	encoder_close(&f);
}

static void
test_precision(const struct place *place, json_t *expected, const char *precision)
{
	struct encoder_fixture f;
	char		options[64];
	bool		exact = strcmp(precision, "f32") == 0;

	/* without modules.json the folder leaves the pooling open */
	snprintf(options, sizeof(options), "{\"precision\":\"%s\"%s}", precision,
			 strcmp(place->name, "bert_sharded") == 0 ? ",\"pooling\":\"mean\"" : "");
	if (!encoder_open_path(&f, encoder_device(1), place->folder, options))
		tap_ok(false, "%s in %s: %s", place->name, precision, f.status.message);
	else
	{
		struct compared compared = compare(&f, expected, place->fetched ? COSINE_MIN : COSINE_MIN_SEEDED, exact);

		tap_ok(compared.rows > 0 && compared.wrong == 0, "%s in %s: %u of %u rows are as the reference says, at most %.2g away%s%s",
			   place->name, precision, compared.rows - compared.wrong, compared.rows, compared.worst,
			   compared.first[0] == '\0' ? "" : "; ", compared.first);
	}
	encoder_close(&f);
}

static bool
is_encoder(const char *folder)
{
	struct model_files files;
	struct status status = {0};
	bool		recognised;

	if (files_open_path(folder, &files, &status) != FILES_OK)
		return false;
	recognised = encoder_model_ops.recognises(&files);
	files_close(&files);
	return recognised;
}

static void
test_model(const struct place *place)
{
	json_t	   *expected = json_load_file(place->expected, 0, NULL);

	if (expected == NULL)
	{
		tap_ok(false, "%s has no references", place->name);
		return;
	}
	if (place->fetched && access(place->folder, R_OK) != 0)
		tap_skip(place->name, "script/fetch-models --folder has not fetched it");
	else if (strcmp(json_string_value(json_object_get(expected, "task")), "refused") == 0)
		test_refused(place, NULL, json_string_value(json_object_get(expected, "because")));
	else if (!is_encoder(place->folder))
		tap_ok(false, "%s is recognised as an encoder", place->name);
	else
	{
		test_precision(place, expected, "f32");
		if (json_is_true(json_object_get(expected, "graph")))
			test_refused(place, "{\"precision\":\"bf16\"}", "the precision \"bf16\" is not for an ONNX file that is run as it is");
		else
			test_precision(place, expected, "bf16");
	}
	json_decref(expected);
}

/* Seeded models have their references beside them; the others are where they were fetched to. */
static void
test_name(const char *name)
{
	const char *parts = getenv("INFER_PARTS");
	struct place place;

	snprintf(place.name, sizeof(place.name), "%s", name);
	snprintf(place.expected, sizeof(place.expected), FETCHED_FOLDER "%s.json", name);
	snprintf(place.folder, sizeof(place.folder), "%s/models/%s", parts == NULL ? ".parts" : parts, name);
	place.fetched = access(place.expected, R_OK) == 0;
	if (!place.fetched)
	{
		snprintf(place.expected, sizeof(place.expected), ENCODER_FOLDER "%s.json", name);
		snprintf(place.folder, sizeof(place.folder), ENCODER_FOLDER "%s", name);
	}
	test_model(&place);
}

static int
is_references(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot != NULL && strcmp(dot, ".json") == 0;
}

static void
test_folder(const char *folder)
{
	struct dirent **names;
	int			count = scandir(folder, &names, is_references, alphasort);

	for (int i = 0; i < count; i++)
	{
		*strrchr(names[i]->d_name, '.') = '\0';
		test_name(names[i]->d_name);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
}

int
main(int argc, char **argv)
{
	verbose = argc > 1;
	for (int i = 1; i < argc; i++)
		test_name(argv[i]);
	if (argc == 1)
	{
		test_folder(ENCODER_FOLDER);
		test_folder(FETCHED_FOLDER);
	}
	return tap_done();
}
