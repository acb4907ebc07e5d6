/*
 * model.c
 *	  From files to a model: asks each kind whether it recognises them, and checks what the
 *	  engine relies on of the result.
 */
#include "model.h"

#include "../status.h"

#define PREDICTED_ROWS	256u		/* of one batch */

/* NULL if the reply can hold rows of it, else what is wrong with its size. */
static const char *
size_check(const struct infer_tensor *tensor)
{
	uint64_t	product = 1;

	for (uint32_t d = 0; d < tensor->rank; d++)
	{
		if (tensor->dims[d] < 0 && d > 0)
			return "varies from row to row in more than its first dimension";
		if (tensor->dims[d] < 0)
			continue;			/* the reply's room bounds it */
		if (__builtin_mul_overflow(product, (uint64_t) tensor->dims[d], &product) || product > INFER_REGION_MAX)
			return "is too large";
	}
	return NULL;
}

/* What the reply's layout and the request's checks depend on. */
static bool
check_signature(const struct infer_signature *signature, struct status *status)
{
	if (signature->inputs_count > INFER_COLUMNS_MAX || signature->outputs_count > INFER_COLUMNS_MAX)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a model with more than %d inputs or outputs is not supported",
						  INFER_COLUMNS_MAX);
	if (signature->inputs_count == 0 || signature->outputs_count == 0)
		return status_set(status, INFER_ERROR_UNSUPPORTED, "a model without inputs or outputs is not supported");
	for (uint32_t i = 0; i < signature->outputs_count; i++)
	{
		const char *wrong = size_check(&signature->outputs[i]);

		if (wrong != NULL)
			return status_set(status, INFER_ERROR_UNSUPPORTED, "output \"%s\" has a size that %s, which is not supported",
							  signature->outputs[i].name, wrong);
	}
	return true;
}

/* What the planner takes a row's time for as long as none was measured. */
static void
predict_rows(struct model *model)
{
	struct model_cost alone = {.rows = 1};
	struct model_cost many = {.rows = PREDICTED_ROWS};

	if (model->ops->estimate_nsec == NULL)
		return;
	if (many.rows > model->batch_rows_max)
		many.rows = model->batch_rows_max;
	if (many.rows == 0)
		many.rows = 1;
	model->signature.alone_nsec = 1 + model->ops->estimate_nsec(model, &alone);
	model->signature.row_nsec = 1 + model->ops->estimate_nsec(model, &many) / many.rows;
}

struct model *
model_open(const struct model_files *files, const char *options, struct device *device,
		   struct status *status)
{
	for (const struct model_ops *const *kind = model_kinds; *kind != NULL; kind++)
	{
		struct model *model;

		if (!(*kind)->recognises(files))
			continue;
		model = (*kind)->open(files, options, device, status);
		if (model != NULL && !check_signature(&model->signature, status))
		{
			model_close(model);
			model = NULL;
		}
		if (model != NULL)
			predict_rows(model);
		if (model == NULL && status->error == 0)
			status_set(status, INFER_ERROR_INTERNAL, "a model of kind \"%s\" could not be opened", (*kind)->kind);
		return model;
	}
	status_set(status, INFER_ERROR_UNSUPPORTED, "the model's files are of no format that is supported");
	if (files->count > 0)
		status_detail(status, files->count == 1 ? "The file is \"%s\"." : "The first file is \"%s\".", files->files[0].name);
	status_hint(status, "Export the model as ONNX, or give the folder of a text model with its config.json.");
	return NULL;
}

void
model_close(struct model *model)
{
	model->ops->close(model);
}
