/*
 * result.c
 *	  What each verb returns, and what it asks of a model.
 *
 * What a verb needs of a model is checked once, by infer_result_wanted, before anything is
 * computed.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "results.h"
#include "text/texts.h"

/* ---- what each verb asks of a model ---- */

static uint32
wanted_bit(int output)
{
	return output < 32 ? (uint32) 1 << output : 0;
}

static uint32
wanted_number(const InferModel *model)
{
	int			only = 0;
	int			count = outputs_shown(model, &only);
	const struct infer_tensor *tensor = &model->signature.outputs[only];
	ClassifierView view;

	if (classifier_view(model, &view))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" is a classifier, not a single number", model->name),
				 errhint("Use infer.classify() for the label or infer.probability() for a number.")));
	if (count != 1)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" has %d outputs, not a single number", model->name, count),
				 errhint("Use infer(), which returns them by name.")));
	if (!output_is_number(tensor->type))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returns text, not a number", model->name),
				 errhint("Use infer().")));
	if (output_width(tensor) != 1)
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
	int			only = 0;
	int			count = outputs_shown(model, &only);
	ClassifierView view;

	if (classifier_view(model, &view) && view.scores >= 0)
		return view.scores;
	if (count != 1)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" has %d outputs", model->name, count),
				 errhint("Use infer(), which returns them by name.")));
	if (!output_is_number(model->signature.outputs[only].type))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" returns text, not numbers", model->name),
				 errhint("Use infer().")));
	return only;
}

static uint32
wanted_label(const InferModel *model)
{
	ClassifierView view;

	if (!classifier_view(model, &view))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("model \"%s\" is not a classifier", model->name),
				 errhint("If its output holds one score for each class, declare them with infer.create_model(..., options => '{\"classes\": [\"...\"]}').")));
	if (view.label >= 0)
		return wanted_bit(view.label);
	if (model->classes_count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the classes of model \"%s\" are not known", model->name),
				 errhint("Declare them with infer.create_model(..., options => '{\"classes\": [\"...\"]}').")));
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
				 errhint("Declare them with infer.create_model(..., options => '{\"classes\": [\"...\"]}').")));
	return wanted_bit(view.scores);
}

uint32
infer_result_wanted(const InferModel *model, InferVerb verb)
{
	if (verb < INFER_VERB_EMBED)
		texts_check_verb(model, verb);
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
		default:
			return texts_wanted(model, verb);
	}
}

bool
infer_result_is_classifier(const InferModel *model)
{
	ClassifierView view;

	return classifier_view(model, &view);
}

uint64
infer_result_width(const InferModel *model, InferVerb verb)
{
	int			output = verb == INFER_VERB_EMBED ? output_of_role(model, INFER_ROLE_EMBEDDING) : numbers_output(model);

	return output < 0 ? 0 : output_width(&model->signature.outputs[output]);
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

static Datum
all_outputs_jsonb(const InferModel *model, InferCall *call, uint32 row)
{
	const struct infer_signature *signature = &model->signature;
	JsonbParseState *state = NULL;
	JsonbValue	scalar;
	JsonbValue *result;
	InferOutput output;
	int			only;

	if (outputs_shown(model, &only) == 1)
	{
		infer_client_output(call, row, only, &output);
		result = output_push(&state, WJB_VALUE, model, &signature->outputs[only], &output, &scalar);
		return JsonbPGetDatum(JsonbValueToJsonb(result));
	}
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < signature->outputs_count; i++)
	{
		if (output_is_hidden(model, i))
			continue;
		infer_client_output(call, row, i, &output);
		output_push_key(&state, signature->outputs[i].name);
		output_push(&state, WJB_VALUE, model, &signature->outputs[i], &output, &scalar);
	}
	result = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbPGetDatum(JsonbValueToJsonb(result));
}

Datum
infer_result_jsonb(const InferModel *model, InferCall *call, uint32 row)
{
	ClassifierView view;

	if (model->signature.task == INFER_TASK_ENTITIES)
		return entities_jsonb(model, call, row);
	if (classifier_view(model, &view))
		return classifier_jsonb(model, call, row, &view);
	return all_outputs_jsonb(model, call, row);
}

float8
infer_result_number(const InferModel *model, InferCall *call, uint32 row)
{
	InferOutput output;
	int			only = 0;

	(void) outputs_shown(model, &only);
	infer_client_output(call, row, only, &output);
	return output_number(model, &model->signature.outputs[only], &output, 0);
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
	shaped = tensor->rank > 1 && tensor->rank <= MAXDIM && output_width(tensor) == output.width;
	ndim = shaped ? tensor->rank : 1;
	for (int i = 0; i < ndim; i++)
	{
		dims[i] = shaped ? (int) tensor->dims[i] : (int) output.width;
		lower[i] = 1;
	}
	values = palloc(sizeof(Datum) * Max(output.width, 1));
	for (uint64 i = 0; i < output.width; i++)
		values[i] = Float8GetDatum(output_number(model, tensor, &output, i));
	return PointerGetDatum(construct_md_array(values, NULL, ndim, dims, lower, FLOAT8OID,
											  sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

text *
infer_result_label(const InferModel *model, InferCall *call, uint32 row)
{
	ClassifierView view;
	bool		is_integer;

	(void) classifier_view(model, &view);
	return cstring_to_text(classifier_label(model, call, row, &view, &is_integer));
}

Datum
infer_result_probabilities(const InferModel *model, InferCall *call, uint32 row)
{
	ClassifierView view;
	Scores		scores;
	JsonbParseState *state = NULL;

	(void) classifier_view(model, &view);
	scores_read(model, call, row, &view, &scores);
	scores_check_probabilities(model, &scores, view.declared);
	return JsonbPGetDatum(JsonbValueToJsonb(scores_push(&state, model, &scores)));
}

float8
infer_result_probability(const InferModel *model, InferCall *call, uint32 row, int class_)
{
	ClassifierView view;
	Scores		scores;

	(void) classifier_view(model, &view);
	scores_read(model, call, row, &view, &scores);
	scores_check_probabilities(model, &scores, view.declared);
	return score_at(model, &scores, class_);
}
