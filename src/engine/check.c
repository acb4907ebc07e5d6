/*
 * check.c
 *	  See check.h.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "device.h"
#include "model/files.h"
#include "model/model.h"
#include "process/sandbox.h"
#include "status.h"

static int
fail(const struct status *status)
{
	fprintf(stderr, "infer-engine: %s\n", status->message);
	if (status->detail[0] != '\0')
		fprintf(stderr, "DETAIL: %s\n", status->detail);
	if (status->hint[0] != '\0')
		fprintf(stderr, "HINT: %s\n", status->hint);
	return 1;
}

static void
print_tensors(const char *what, const struct infer_tensor *tensors, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
	{
		printf("%s\t%s\t%s [", what, tensors[i].name, infer_type_name(tensors[i].type));
		for (uint32_t d = 0; d < tensors[i].rank; d++)
			printf(tensors[i].dims[d] < 0 ? "%s?" : "%s%lld", d > 0 ? ", " : "", (long long) tensors[i].dims[d]);
		printf("]%s%s%s\n", (tensors[i].flags & INFER_TENSOR_MISSING) != 0 ? " missing values allowed" : "",
			   (tensors[i].flags & INFER_TENSOR_HIDDEN) != 0 ? " hidden" : "",
			   tensors[i].role == INFER_ROLE_LABEL ? " label" : tensors[i].role == INFER_ROLE_SCORES ? " scores" : "");
	}
}

static void
print_texts(const char *what, char *const *texts, uint32_t count)
{
	if (count == 0)
		return;
	printf("%s\t%u:", what, count);
	for (uint32_t i = 0; i < count && i < 20; i++)
		printf("%s %s", i > 0 ? "," : "", texts[i]);
	printf("%s\n", count > 20 ? ", ..." : "");
}

/* What a row of the model is. */
static const char *
row_meaning(const struct infer_signature *s)
{
	if ((s->flags & INFER_SIGNATURE_ROW_BY_ROW) != 0)
		return "one evaluation of the file's shape each";
	return s->inputs[0].role == INFER_ROLE_TEXT ? "one text each" : "the first dimension of the inputs";
}

static void
print_model(struct model *model, const struct model_files *files)
{
	static const char *const tasks[] = {"network", "regression", "classifier", "embedding", "reranker", "entities"};
	const struct infer_signature *s = &model->signature;
	uint8_t		digest[INFER_KEY_BYTES];

	files_digest(files, digest);
	printf("digest\t");
	for (int i = 0; i < INFER_KEY_BYTES; i++)
		printf("%02x", digest[i]);
	printf("\nkind\t%s (%s)\ntask\t%s\n", s->kind, s->format, tasks[s->task <= INFER_TASK_LAST ? s->task : 0]);
	print_tensors("input", s->inputs, s->inputs_count);
	print_tensors("output", s->outputs, s->outputs_count);
	print_texts("classes", s->classes, s->classes_count);
	print_texts("features", s->features, s->features_count);
	printf("weights\t%llu bytes\nmemory\t%llu bytes\nbatch\t%u rows at most\nrows\t%s\n",
		   (unsigned long long) s->bytes, (unsigned long long) model->bytes, model->batch_rows_max,
		   row_meaning(s));
	if (s->notes != NULL && s->notes[0] != '\0')
		printf("notes\t%s\n", s->notes);
	if (s->facts != NULL && s->facts[0] != '\0')
		printf("facts\t%s\n", s->facts);
	if (model->ops->describe != NULL)
		model->ops->describe(model);
}

int
check_model(const char *path, const char *options)
{
	static const struct sandbox_folder no_folders[] = {{0}};
	struct device_options device_options = {0};
	struct model_files files;
	struct device *device;
	struct model *model;
	struct status status;

	status_clear(&status);
	switch (files_open_path(path, &files, &status))
	{
		case FILES_OK:
			break;
		case FILES_MISSING:
			status_set(&status, INFER_ERROR_MODEL, "\"%s\" has no files", path);
			/* FALLTHROUGH */
		case FILES_FAILED:
			return fail(&status);
	}
	sandbox_enter(no_folders);	/* the files are mapped, and may be anybody's */
	device = device_open("cpu", &device_options, &status);
	model = device != NULL ? model_open(&files, options, device, &status) : NULL;
	if (model == NULL)
	{
		files_close(&files);
		if (device != NULL)
			device_close(device);
		return fail(&status);
	}
	print_model(model, &files);
	model_close(model);
	files_close(&files);
	device_close(device);
	return 0;
}
