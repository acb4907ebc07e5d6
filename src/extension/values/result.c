/*
 * result.c
 *	  A model's outputs as SQL values.
 *
 * Nouns
 *	classifier	a model with a label or scores among its outputs, or one whose classes are
 *				known (declared) and whose only output holds one number for each; of two
 *				classes one number is enough, the probability of the second
 *
 * Invariants
 *	- What a verb needs of a model is checked once, by infer_result_wanted, before
 *	  anything is computed.
 *	- A float is shown with the digits that give the same float back, no more.
 *	- NaN and infinity never leave as a number: they are the row's error.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/shortest_dec.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#include "../infer.h"
#include "parts.h"

#define PROBABILITY_SLACK 1e-5	/* of a rounded probability outside 0 to 1 */
#define SUM_SLACK 1e-3			/* of the sum of probabilities */

typedef struct ClassifierView
{
	int			label;			/* output, or -1 */
	int			scores;			/* output, or -1 */
	bool		declared;		/* scores were recognised by the classes alone */
} ClassifierView;

static bool
is_number(uint32 type)
{
	return type != INFER_TYPE_STRING && infer_type_bytes(type) > 0;
}

/* Elements of a row; 0 if that varies. */
static uint64
tensor_width(const struct infer_tensor *tensor)
{
	uint64		width = 1;

	for (uint32 i = 0; i < tensor->rank; i++)
	{
		if (tensor->dims[i] <= 0)
			return 0;
		width *= tensor->dims[i];
	}
	return width;
}

/* One number for each class, or the second one's of two. */
static bool
holds_scores(const InferModel *model, uint64 width)
{
	return model->classes_count > 0 &&
		(width == model->classes_count || (width == 1 && model->classes_count == 2));
}

/* Whether the model is a classifier, and which outputs say so. */
static bool
classifier_view(const InferModel *model, ClassifierView *view)
{
	const struct infer_signature *signature = &model->signature;

	*view = (ClassifierView) {.label = -1, .scores = -1};
	for (int i = 0; i < signature->outputs_count; i++)
	{
		if (signature->outputs[i].role == INFER_ROLE_LABEL && view->label < 0)
			view->label = i;
		else if (signature->outputs[i].role == INFER_ROLE_SCORES && view->scores < 0)
			view->scores = i;
	}
	if (view->label < 0 && view->scores < 0 && signature->outputs_count == 1 &&
		is_number(signature->outputs[0].type) &&
		holds_scores(model, tensor_width(&signature->outputs[0])))
	{
		view->scores = 0;
		view->declared = true;
	}
	return view->label >= 0 || view->scores >= 0;
}

/* ---- elements ---- */

static void
not_finite(const InferModel *model, const struct infer_tensor *tensor)
{
	ereport(ERROR,
			(errcode(ERRCODE_INFER_NOT_FINITE),
			 errmsg("output \"%s\" of model \"%s\" is not finite", tensor->name, model->name)));
}

static double
number_at(const InferModel *model, const struct infer_tensor *tensor, const InferOutput *output, uint64 i)
{
	double		value;

	switch (output->type)
	{
		case INFER_TYPE_F32:
			value = ((const float *) output->data)[i];
			break;
		case INFER_TYPE_F64:
			value = ((const double *) output->data)[i];
			break;
		case INFER_TYPE_I32:
			return ((const int32 *) output->data)[i];
		case INFER_TYPE_I64:
			return ((const int64 *) output->data)[i];
		case INFER_TYPE_BOOL:
			return ((const uint8 *) output->data)[i] != 0;
		default:
			elog(ERROR, "output \"%s\" of model \"%s\" is not a number", tensor->name, model->name);
	}
	if (unlikely(!isfinite(value)))
		not_finite(model, tensor);
	return value;
}

/* A string element in the server's encoding; not terminated. */
static const char *
string_at(const InferOutput *output, uint64 i, int *length)
{
	const struct infer_span *span = (const struct infer_span *) output->data + i;
	const char *text = output->texts + span->begin;
	char	   *server = pg_any_to_server(text, span->length, PG_UTF8);

	*length = server == text ? span->length : strlen(server);
	return server;
}

static Datum
numeric_from_text(char *text)
{
	return DirectFunctionCall3(numeric_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
							   Int32GetDatum(-1));
}

static void
json_float(JsonbValue *json, double value, bool single)
{
	char		text[DOUBLE_SHORTEST_DECIMAL_LEN];

	if (single)
		float_to_shortest_decimal_buf((float) value, text);
	else
		double_to_shortest_decimal_buf(value, text);
	json->type = jbvNumeric;
	json->val.numeric = DatumGetNumeric(numeric_from_text(text));
}

static void
json_element(JsonbValue *json, const InferModel *model, const struct infer_tensor *tensor,
			 const InferOutput *output, uint64 i)
{
	switch (output->type)
	{
		case INFER_TYPE_F32:
		case INFER_TYPE_F64:
			json_float(json, number_at(model, tensor, output, i), output->type == INFER_TYPE_F32);
			break;
		case INFER_TYPE_I32:
			json->type = jbvNumeric;
			json->val.numeric = int64_to_numeric(((const int32 *) output->data)[i]);
			break;
		case INFER_TYPE_I64:
			json->type = jbvNumeric;
			json->val.numeric = int64_to_numeric(((const int64 *) output->data)[i]);
			break;
		case INFER_TYPE_BOOL:
			json->type = jbvBool;
			json->val.boolean = ((const uint8 *) output->data)[i] != 0;
			break;
		case INFER_TYPE_STRING:
			json->type = jbvString;
			json->val.string.val = unconstify(char *, string_at(output, i, &json->val.string.len));
			break;
		default:
			elog(ERROR, "output \"%s\" of model \"%s\" has no value", tensor->name, model->name);
	}
}

static void
json_string(JsonbValue *json, const char *text)
{
	json->type = jbvString;
	json->val.string.val = unconstify(char *, text);
	json->val.string.len = strlen(text);
}

static void
push_key(JsonbParseState **state, const char *key)
{
	JsonbValue	json;

	json_string(&json, key);
	pushJsonbValue(state, WJB_KEY, &json);
}

/* ---- outputs as JSON ---- */

/* One level of a nested array; returns the number of the next element. */
static uint64
push_level(JsonbParseState **state, const InferModel *model, const struct infer_tensor *tensor,
		   const InferOutput *output, int level, uint64 next, JsonbValue **result)
{
	bool		nested = tensor->rank > 1 && tensor_width(tensor) == output->width;
	int			depth = nested ? tensor->rank : 1;
	uint64		count = nested ? (uint64) tensor->dims[level] : output->width;
	JsonbValue	json;

	pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
	for (uint64 i = 0; i < count; i++)
	{
		if (level + 1 < depth)
			next = push_level(state, model, tensor, output, level + 1, next, result);
		else
		{
			json_element(&json, model, tensor, output, next++);
			pushJsonbValue(state, WJB_ELEM, &json);
		}
	}
	*result = pushJsonbValue(state, WJB_END_ARRAY, NULL);
	return next;
}

/*
 * An output's value: a scalar of one element, an array otherwise, nested like its shape.
 * token says what it is to what is being built; state NULL inside: nothing is.
 */
static JsonbValue *
push_output(JsonbParseState **state, JsonbIteratorToken token, const InferModel *model,
			const struct infer_tensor *tensor, const InferOutput *output, JsonbValue *scalar)
{
	JsonbValue *result = scalar;

	if (output->width == 1 && tensor_width(tensor) == 1)
	{
		json_element(scalar, model, tensor, output, 0);
		if (*state != NULL)
			pushJsonbValue(state, token, scalar);
	}
	else
		push_level(state, model, tensor, output, 0, 0, &result);
	return result;
}

static Datum
all_outputs_jsonb(const InferModel *model, InferCall *call, uint32 row)
{
	const struct infer_signature *signature = &model->signature;
	JsonbParseState *state = NULL;
	JsonbValue	scalar;
	JsonbValue *result;
	InferOutput output;

	if (signature->outputs_count == 1)
	{
		infer_client_output(call, row, 0, &output);
		result = push_output(&state, WJB_VALUE, model, &signature->outputs[0], &output, &scalar);
		return JsonbPGetDatum(JsonbValueToJsonb(result));
	}
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < signature->outputs_count; i++)
	{
		infer_client_output(call, row, i, &output);
		push_key(&state, signature->outputs[i].name);
		push_output(&state, WJB_VALUE, model, &signature->outputs[i], &output, &scalar);
	}
	result = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbPGetDatum(JsonbValueToJsonb(result));
}

/* ---- classes ---- */

typedef struct Scores
{
	const struct infer_tensor *tensor;
	InferOutput output;
	bool		single;			/* float32, not double */
	bool		second_only;	/* one number, that of the second of two classes */
} Scores;

static void
scores_read(const InferModel *model, InferCall *call, uint32 row, const ClassifierView *view, Scores *scores)
{
	scores->tensor = &model->signature.outputs[view->scores];
	infer_client_output(call, row, view->scores, &scores->output);
	scores->single = scores->output.type == INFER_TYPE_F32;
	scores->second_only = scores->output.width == 1 && model->classes_count == 2;
	if (!holds_scores(model, scores->output.width))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returned " UINT64_FORMAT " scores for %u classes", model->name,
						scores->output.width, model->classes_count),
				 errhint("Create a version whose option \"classes\" names every class in order.")));
}

static double
score_at(const InferModel *model, const Scores *scores, int i)
{
	double		value = number_at(model, scores->tensor, &scores->output, scores->second_only ? 0 : i);

	if (!scores->second_only || i == 1)
		return value;
	return scores->single ? (float) 1 - (float) value : 1 - value;
}

/* Whether the scores are probabilities; those of declared classes must also add up to one. */
static bool
scores_are_probabilities(const InferModel *model, const Scores *scores, bool declared)
{
	double		sum = 0;

	for (int i = 0; i < model->classes_count; i++)
	{
		double		value = score_at(model, scores, i);

		if (value < -PROBABILITY_SLACK || value > 1 + PROBABILITY_SLACK)
			return false;
		sum += value;
	}
	return !declared || fabs(sum - 1) <= SUM_SLACK;
}

static void
check_probabilities(const InferModel *model, const Scores *scores, bool declared)
{
	if (!scores_are_probabilities(model, scores, declared))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the scores of model \"%s\" are not probabilities", model->name),
				 errdetail("They are not between 0 and 1, or do not add up to 1."),
				 errhint("Use infer.outputs() for the scores as they are, or infer.classify() for the label.")));
}

static int
best_class(const InferModel *model, const Scores *scores, bool declared)
{
	int			best = 0;

	if (scores->second_only)
		check_probabilities(model, scores, declared);
	for (int i = 1; i < model->classes_count; i++)
		if (score_at(model, scores, i) > score_at(model, scores, best))
			best = i;
	return best;
}

/*
 * The class that a label output names: declared classes rename those of the file, or the
 * numbers of a label output whose file names none.
 */
static const char *
declared_class(const InferModel *model, const char *label, int64 number, bool is_integer)
{
	const struct infer_signature *signature = &model->signature;

	if (model->classes_count == 0 || model->classes == signature->classes)
		return label;
	for (int i = 0; i < signature->classes_count && i < model->classes_count; i++)
		if (strcmp(signature->classes[i], label) == 0)
			return model->classes[i];
	if (signature->classes_count == 0 && is_integer && number >= 0 && number < model->classes_count)
		return model->classes[number];
	return label;
}

static const char *
label_text(const InferModel *model, InferCall *call, uint32 row, const ClassifierView *view, bool *is_integer)
{
	InferOutput output;
	Scores		scores;
	int64		number = 0;
	const char *label;
	const char *declared;
	int			length;

	*is_integer = false;
	if (view->label < 0)
	{
		scores_read(model, call, row, view, &scores);
		return model->classes[best_class(model, &scores, view->declared)];
	}
	infer_client_output(call, row, view->label, &output);
	if (output.type == INFER_TYPE_STRING)
	{
		const char *text = string_at(&output, 0, &length);

		label = pnstrdup(text, length);
	}
	else
	{
		double		value = number_at(model, &model->signature.outputs[view->label], &output, 0);

		*is_integer = output.type == INFER_TYPE_I64 || output.type == INFER_TYPE_I32;
		number = output.type == INFER_TYPE_I64 ? *(const int64 *) output.data : (int64) value;
		label = *is_integer ? psprintf(INT64_FORMAT, number) : psprintf("%g", value);
	}
	declared = declared_class(model, label, number, *is_integer);
	if (strcmp(declared, label) != 0)
		*is_integer = false;
	return declared;
}

static JsonbValue *
push_scores(JsonbParseState **state, const InferModel *model, const Scores *scores)
{
	JsonbValue	json;

	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < model->classes_count; i++)
	{
		push_key(state, model->classes[i]);
		json_float(&json, score_at(model, scores, i), scores->single);
		pushJsonbValue(state, WJB_VALUE, &json);
	}
	return pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* "probabilities" by class; "scores" if they are something else, or the classes unknown */
static void
push_classifier_scores(JsonbParseState **state, const InferModel *model, InferCall *call, uint32 row,
					   const ClassifierView *view)
{
	Scores		scores;
	JsonbValue	scalar;

	if (model->classes_count == 0)
	{
		InferOutput output;

		infer_client_output(call, row, view->scores, &output);
		push_key(state, "scores");
		push_output(state, WJB_VALUE, model, &model->signature.outputs[view->scores], &output, &scalar);
		return;
	}
	scores_read(model, call, row, view, &scores);
	push_key(state, scores_are_probabilities(model, &scores, view->declared) ? "probabilities" : "scores");
	push_scores(state, model, &scores);
}

static void
push_label(JsonbParseState **state, const InferModel *model, InferCall *call, uint32 row,
		   const ClassifierView *view)
{
	bool		is_integer;
	const char *label = label_text(model, call, row, view, &is_integer);
	JsonbValue	json;

	push_key(state, "label");
	if (is_integer)
	{
		json.type = jbvNumeric;
		json.val.numeric = DatumGetNumeric(numeric_from_text(unconstify(char *, label)));
	}
	else
		json_string(&json, label);
	pushJsonbValue(state, WJB_VALUE, &json);
}

static Datum
classifier_jsonb(const InferModel *model, InferCall *call, uint32 row, const ClassifierView *view)
{
	const struct infer_signature *signature = &model->signature;
	JsonbParseState *state = NULL;
	JsonbValue	scalar;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < signature->outputs_count; i++)
	{
		InferOutput output;

		if (i == view->label || i == view->scores)
			continue;
		infer_client_output(call, row, i, &output);
		push_key(&state, signature->outputs[i].name);
		push_output(&state, WJB_VALUE, model, &signature->outputs[i], &output, &scalar);
	}
	if (view->label >= 0 || model->classes_count > 0)
		push_label(&state, model, call, row, view);
	if (view->scores >= 0)
		push_classifier_scores(&state, model, call, row, view);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

/* ---- what each verb asks of a model ---- */

static uint32
wanted_bit(int output)
{
	return output < 32 ? (uint32) 1 << output : 0;
}

static uint32
wanted_number(const InferModel *model)
{
	const struct infer_signature *signature = &model->signature;
	const struct infer_tensor *tensor = &signature->outputs[0];
	ClassifierView view;

	if (classifier_view(model, &view))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" is a classifier, not a single number", model->name),
				 errhint("Use infer.classify() for the label or infer.probability() for a number.")));
	if (signature->outputs_count != 1)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" has %u outputs, not a single number", model->name, signature->outputs_count),
				 errhint("Use infer(), which returns them by name.")));
	if (!is_number(tensor->type))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returns text, not a number", model->name),
				 errhint("Use infer().")));
	if (tensor_width(tensor) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returns several numbers, not a single one", model->name),
				 errhint("Use infer.outputs().")));
	return 0;
}

/* The output that infer.outputs returns. */
static int
numbers_output(const InferModel *model)
{
	const struct infer_signature *signature = &model->signature;
	ClassifierView view;

	if (classifier_view(model, &view) && view.scores >= 0)
		return view.scores;
	if (signature->outputs_count != 1)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" has %u outputs", model->name, signature->outputs_count),
				 errhint("Use infer(), which returns them by name.")));
	if (!is_number(signature->outputs[0].type))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returns text, not numbers", model->name),
				 errhint("Use infer().")));
	return 0;
}

static uint32
wanted_label(const InferModel *model)
{
	ClassifierView view;

	if (!classifier_view(model, &view))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" is not a classifier", model->name),
				 errhint("If its output holds one score for each class, declare them with infer.create_model(…, options => '{\"classes\": [\"…\"]}').")));
	if (view.label >= 0)
		return wanted_bit(view.label);
	if (model->classes_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the classes of model \"%s\" are not known", model->name),
				 errhint("Declare them with infer.create_model(…, options => '{\"classes\": [\"…\"]}').")));
	return wanted_bit(view.scores);
}

static uint32
wanted_scores(const InferModel *model)
{
	ClassifierView view;

	(void) wanted_label(model);
	(void) classifier_view(model, &view);
	if (view.scores < 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returns a label without probabilities", model->name),
				 errhint("Use infer.classify().")));
	if (model->classes_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the classes of model \"%s\" are not known", model->name),
				 errhint("Declare them with infer.create_model(…, options => '{\"classes\": [\"…\"]}').")));
	return wanted_bit(view.scores);
}

uint32
infer_result_wanted(const InferModel *model, InferVerb verb)
{
	switch (verb)
	{
		case INFER_VERB_INFER:
			return 0;
		case INFER_VERB_PREDICT:
			return wanted_number(model);
		case INFER_VERB_OUTPUTS:
			return wanted_bit(numbers_output(model));
		case INFER_VERB_CLASSIFY:
			return wanted_label(model);
		case INFER_VERB_PROBABILITIES:
		case INFER_VERB_PROBABILITY:
			return wanted_scores(model);
	}
	elog(ERROR, "unexpected verb %d", (int) verb);
}

int
infer_result_class(const InferModel *model, const char *class_, Size length)
{
	for (int i = 0; i < model->classes_count; i++)
		if (strncmp(model->classes[i], class_, length) == 0 && model->classes[i][length] == '\0')
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("model \"%s\" has no class \"%s\"", model->name, pnstrdup(class_, length)),
			 errdetail("Its classes are %s.",
					   value_names_list(model->classes_count, (const char *const *) model->classes)),
			 errhint("Name one of them exactly.")));
}

/* ---- the verbs' results ---- */

Datum
infer_result_jsonb(const InferModel *model, InferCall *call, uint32 row)
{
	ClassifierView view;

	if (classifier_view(model, &view))
		return classifier_jsonb(model, call, row, &view);
	return all_outputs_jsonb(model, call, row);
}

float8
infer_result_number(const InferModel *model, InferCall *call, uint32 row)
{
	InferOutput output;

	infer_client_output(call, row, 0, &output);
	return number_at(model, &model->signature.outputs[0], &output, 0);
}

/* double precision[], with the output's dimensions if it has several */
Datum
infer_result_numbers(const InferModel *model, InferCall *call, uint32 row)
{
	int			index = numbers_output(model);
	const struct infer_tensor *tensor = &model->signature.outputs[index];
	bool		shaped;
	InferOutput output;
	Datum	   *values;
	int			dims[MAXDIM];
	int			lower[MAXDIM];
	int			ndim;

	infer_client_output(call, row, index, &output);
	shaped = tensor->rank > 1 && tensor->rank <= MAXDIM && tensor_width(tensor) == output.width;
	ndim = shaped ? tensor->rank : 1;
	for (int i = 0; i < ndim; i++)
	{
		dims[i] = shaped ? (int) tensor->dims[i] : (int) output.width;
		lower[i] = 1;
	}
	values = palloc(sizeof(Datum) * Max(output.width, 1));
	for (uint64 i = 0; i < output.width; i++)
		values[i] = Float8GetDatum(number_at(model, tensor, &output, i));
	return PointerGetDatum(construct_md_array(values, NULL, ndim, dims, lower, FLOAT8OID,
											  sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

text *
infer_result_label(const InferModel *model, InferCall *call, uint32 row)
{
	ClassifierView view;
	bool		is_integer;

	(void) classifier_view(model, &view);
	return cstring_to_text(label_text(model, call, row, &view, &is_integer));
}

Datum
infer_result_probabilities(const InferModel *model, InferCall *call, uint32 row)
{
	ClassifierView view;
	Scores		scores;
	JsonbParseState *state = NULL;

	(void) classifier_view(model, &view);
	scores_read(model, call, row, &view, &scores);
	check_probabilities(model, &scores, view.declared);
	return JsonbPGetDatum(JsonbValueToJsonb(push_scores(&state, model, &scores)));
}

float8
infer_result_probability(const InferModel *model, InferCall *call, uint32 row, int class_)
{
	ClassifierView view;
	Scores		scores;

	(void) classifier_view(model, &view);
	scores_read(model, call, row, &view, &scores);
	check_probabilities(model, &scores, view.declared);
	return score_at(model, &scores, class_);
}
