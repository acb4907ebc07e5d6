/*
 * describe.c
 *	  An encoder for people: the part of infer-engine check PATH that the signature does not
 *	  tell.
 */
#include "encoder_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void
print_shape(const struct device_tensor *tensor)
{
	printf("[");
	for (int i = 0; i < tensor->rank; i++)
		printf("%s%" PRId64, i == 0 ? "" : ",", tensor->dims[i]);
	printf("]");
}

static void
print_op(const struct encoder_program *program, const struct device_op *op)
{
	const struct device_tensor *output = &program->tensors[op->output];
	const char *function = device_function_name(op);

	printf("      %s", device_op_name(op));
	if (op->op == DEVICE_OP_GEMM && op->inputs[1] >= 0)
		printf(" + bias");
	if (function[0] != '\0')
		printf("%s%s", op->op == DEVICE_OP_GEMM ? " + " : " ", function);
	for (uint32_t i = 0; i < op->inputs_count && op->op != DEVICE_OP_NORM; i++)
		if (op->inputs[i] >= 0 && (op->op != DEVICE_OP_GEMM || i == 0))
		{
			printf(program->tensors[op->inputs[i]].constant != NULL ? " constant " : " ");
			print_shape(&program->tensors[op->inputs[i]]);
		}
	printf(" -> %s ", device_type_name(output->type));
	print_shape(output);
	printf(", one per %s\n", output->lead == DEVICE_LEAD_TOKENS ? "token" : "row");
}

void
encoder_model_describe(struct model *model)
{
	const struct encoder_model *m = (const struct encoder_model *) model;
	const struct encoder_program *program = &m->program;
	const char *label = "";

	if (m->encoder->graph != NULL)
		printf("\nthe ONNX file is run as it is, a program for each length of a text: %u nodes for %s, %u weights, and for a text of %u tokens %"
			   PRIu64 " bytes of activations\n", m->encoder->graph->onnx.nodes_count,
			   m->encoder->graph->onnx.names[m->encoder->graph->onnx.outputs[0].name], m->encoder->graph->base.weights_count,
			   m->encoder->tokens_max, m->work_longest);
	printf("\nper token	%" PRIu64 " bytes of activations, %.0f operations and %.0f for each token of the row\n", m->token_bytes,
		   program->work.token, program->work.pair);
	printf("per row	%" PRIu64 " bytes of activations, %.0f operations\n", m->row_bytes, program->work.row);
	printf("together	%u tokens at most, unless one row has more\n", m->part_tokens);
	printf("weights	%u, in %s\n", program->weights_count, device_precision_name(program->precision));
	for (uint32_t i = 0; i < program->ops_count; i++)
	{
		if (strcmp(label, program->labels[i]) != 0)
			printf("  %s:\n", program->labels[i]);
		label = program->labels[i];
		print_op(program, &program->ops[i]);
	}
}
