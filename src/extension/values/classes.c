/*
 * classes.c
 *	  Labels, scores and probabilities.
 *
 * Nouns
 *	classifier	a model with a label or scores among its outputs, or one whose classes are
 *				known (declared) and whose only output holds one number for each; of two
 *				classes one number is enough, the probability of the second
 */
#include "postgres.h"

#include <math.h>

#include "utils/builtins.h"
#include "utils/numeric.h"

#include "results.h"

#define PROBABILITY_SLACK 1e-5	/* of a rounded probability outside 0 to 1 */
#define SUM_SLACK 1e-3			/* of the sum of probabilities */

/* One number for each class, or the second one's of two. */
static bool
holds_scores(const InferModel *model, uint64 width)
{
	return model->classes_count > 0 &&
		(width == model->classes_count || (width == 1 && model->classes_count == 2));
}

/* Whether the model is a classifier, and which outputs say so. */
bool
classifier_view(const InferModel *model, ClassifierView *view)
{
	const struct infer_signature *signature = &model->signature;
	int			only = 0;

	*view = (ClassifierView) {.label = -1, .scores = -1};
	for (int i = 0; i < signature->outputs_count; i++)
	{
		if (signature->outputs[i].role == INFER_ROLE_LABEL && view->label < 0)
			view->label = i;
		else if (signature->outputs[i].role == INFER_ROLE_SCORES && view->scores < 0)
			view->scores = i;
	}
	if (view->label < 0 && view->scores < 0 && outputs_shown(model, &only) == 1 &&
		signature->outputs[only].role == INFER_ROLE_VALUE && output_is_number(signature->outputs[only].type) &&
		holds_scores(model, output_width(&signature->outputs[only])))
	{
		view->scores = only;
		view->declared = true;
	}
	return view->label >= 0 || view->scores >= 0;
}

void
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

double
score_at(const InferModel *model, const Scores *scores, int i)
{
	double		value = output_number(model, scores->tensor, &scores->output, scores->second_only ? 0 : i);

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

void
scores_check_probabilities(const InferModel *model, const Scores *scores, bool declared)
{
	if (!scores_are_probabilities(model, scores, declared))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the scores of model \"%s\" are not probabilities", model->name),
				 scores->second_only ?
				 errdetail("The model's one number is the probability of its second class, so it must be between 0 and 1.") :
				 errdetail("They are not between 0 and 1, or do not add up to 1."),
				 scores->second_only ?
				 errhint("Use infer.outputs() for the number as it is, or create a version without the option \"classes\".") :
				 errhint("Use infer.outputs() for the scores as they are, or infer.classify() for the label.")));
}

static int
best_class(const InferModel *model, const Scores *scores, bool declared)
{
	int			best = 0;

	if (scores->second_only)
		scores_check_probabilities(model, scores, declared);
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

const char *
classifier_label(const InferModel *model, InferCall *call, uint32 row, const ClassifierView *view, bool *is_integer)
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
	if (output.width != 1)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returned " UINT64_FORMAT " labels for one row", model->name, output.width),
				 errhint("Use infer.outputs() for what it returns.")));
	if (output.type == INFER_TYPE_STRING)
	{
		const char *text = output_string(&output, 0, &length);

		label = pnstrdup(text, length);
	}
	else
	{
		double		value = output_number(model, &model->signature.outputs[view->label], &output, 0);

		*is_integer = output.type == INFER_TYPE_I64 || output.type == INFER_TYPE_I32;
		number = output.type == INFER_TYPE_I64 ? *(const int64 *) output.data : (int64) value;
		label = *is_integer ? psprintf(INT64_FORMAT, number) : psprintf("%g", value);
	}
	declared = declared_class(model, label, number, *is_integer);
	if (strcmp(declared, label) != 0)
		*is_integer = false;
	return declared;
}

JsonbValue *
scores_push(JsonbParseState **state, const InferModel *model, const Scores *scores)
{
	JsonbValue	json;

	pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < model->classes_count; i++)
	{
		output_push_key(state, model->classes[i]);
		output_json_float(&json, score_at(model, scores, i), scores->single);
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
		output_push_key(state, "scores");
		output_push(state, WJB_VALUE, model, &model->signature.outputs[view->scores], &output, &scalar);
		return;
	}
	scores_read(model, call, row, view, &scores);
	output_push_key(state, scores_are_probabilities(model, &scores, view->declared) ? "probabilities" : "scores");
	scores_push(state, model, &scores);
}

static void
push_label(JsonbParseState **state, const InferModel *model, InferCall *call, uint32 row,
		   const ClassifierView *view)
{
	bool		is_integer;
	const char *label = classifier_label(model, call, row, view, &is_integer);
	JsonbValue	json;

	output_push_key(state, "label");
	if (is_integer)
	{
		json.type = jbvNumeric;
		json.val.numeric = DatumGetNumeric(DirectFunctionCall3(numeric_in, CStringGetDatum(label),
																	 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	}
	else
		output_json_string(&json, label);
	pushJsonbValue(state, WJB_VALUE, &json);
}

Datum
classifier_jsonb(const InferModel *model, InferCall *call, uint32 row, const ClassifierView *view)
{
	const struct infer_signature *signature = &model->signature;
	JsonbParseState *state = NULL;
	JsonbValue	scalar;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < signature->outputs_count; i++)
	{
		InferOutput output;

		if (i == view->label || i == view->scores || output_is_hidden(model, i))
			continue;
		infer_client_output(call, row, i, &output);
		output_push_key(&state, signature->outputs[i].name);
		output_push(&state, WJB_VALUE, model, &signature->outputs[i], &output, &scalar);
	}
	if (view->label >= 0 || model->classes_count > 0)
		push_label(&state, model, call, row, view);
	if (view->scores >= 0)
		push_classifier_scores(&state, model, call, row, view);
	return JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}
