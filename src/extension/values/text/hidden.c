/*
 * hidden.c
 *	  Inputs that no argument reaches: they say how the texts of a row are to be taken.  What a call
 *	  does not ask is zero or empty: as the model says.
 */
#include "postgres.h"

#include "../parts.h"

static void
write_string(const InferBinding *binding, InferCall *call, uint32 row, const InputShape *shape,
			 const InferTextOptions *options)
{
	bool		prompt = options != NULL && shape->tensor->role == INFER_ROLE_PROMPT;

	for (uint64 i = 0; i < shape->width; i++)
		infer_client_string(call, shape->number, row * shape->width + i, prompt ? options->prompt : "",
							prompt ? options->prompt_length : 0);
	++*binding->moves;
}

static void
write_numbers(InferCall *call, uint32 row, const InputShape *shape, const InferTextOptions *options)
{
	Size		bytes = shape->width * infer_type_bytes(shape->tensor->type);
	char	   *data = (char *) infer_client_column(call, shape->number, shape->width) + row * bytes;

	if (options != NULL && shape->tensor->role == INFER_ROLE_OPTIONS && bytes == sizeof(options->numbers))
		memcpy(data, options->numbers, bytes);
	else
		memset(data, 0, bytes);
}

void
binding_write_hidden(const InferBinding *binding, InferCall *call, uint32 row, const InferTextOptions *options)
{
	for (int i = 0; i < binding->hidden_count; i++)
	{
		const InputShape *shape = &binding->hidden[i];

		if (shape->tensor->type == INFER_TYPE_STRING)
			write_string(binding, call, row, shape, options);
		else
			write_numbers(call, row, shape, options);
	}
}
