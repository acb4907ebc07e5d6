/*
 * profile.c
 *	  One row through an encoder with the time of each primitive: each is enqueued and waited
 *	  for by itself.
 *
 * What is between the segments (a few hundred nsec each) is in nobody's time.
 */
#include "encoder_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../process/process.h"
#include "../../status.h"

#define OP_BYTES	512				/* of an op's texts and numbers, encoded */

static uint32_t
graph_ops(const struct encoder_part *part)
{
	return part->graph == NULL ? 0 : part->graph->ops_count;
}

static void
encode_graph_op(const struct encoder_model *m, const struct text_graph_op *op, const char *device, uint64_t nsec,
				struct infer_writer *w)
{
	const struct onnx_node *node = op->node < 0 ? NULL : &m->encoder->graph->onnx.nodes[op->node];
	const struct device_op named = {.op = op->op, .fn = op->fn};
	const char *function = device_function_name(&named);
	char		text[128];

	snprintf(text, sizeof(text), "%.100s", node == NULL ? "" : node->name);
	infer_put_string(w, text, strlen(text));
	snprintf(text, sizeof(text), "%.100s", node == NULL ? "" : node->op);
	infer_put_string(w, text, strlen(text));
	snprintf(text, sizeof(text), "%s%s%s", device_op_name(&named),
			 function[0] == '\0' ? "" : op->op == DEVICE_OP_GEMM ? " + " : " ", function);
	infer_put_string(w, text, strlen(text));
	infer_put_string(w, device, strlen(device));
	infer_put_u64(w, nsec);
}

/* Encoded as PROTOCOL.md says. */
static void
encode(const struct encoder_model *m, const struct encoder_part *part, const uint64_t *nsec, struct infer_writer *w)
{
	struct device_names names;

	device_names(m->device, &names);
	infer_put_u32(w, graph_ops(part) + m->program.ops_count);
	for (uint32_t i = 0; i < graph_ops(part); i++)
		encode_graph_op(m, &part->graph->ops[i], part->graph->ops[i].on_host ? names.host : names.own, *nsec++, w);
	for (uint32_t i = 0; i < m->program.ops_count; i++)
	{
		const struct device_op *op = &m->program.ops[i];
		const char *function = device_function_name(op);
		char		primitive[64];

		snprintf(primitive, sizeof(primitive), "%s%s%s", device_op_name(op),
				 function[0] == '\0' ? "" : op->op == DEVICE_OP_GEMM ? " + " : " ", function);
		infer_put_string(w, m->program.labels[i], strlen(m->program.labels[i]));
		infer_put_string(w, m->encoder->architecture, strlen(m->encoder->architecture));
		infer_put_string(w, primitive, strlen(primitive));
		infer_put_string(w, names.own, strlen(names.own));	/* what it has no kernel for is refused at load */
		infer_put_u64(w, nsec[i]);
	}
}

static bool
report(const struct encoder_model *m, const struct encoder_part *part, const uint64_t *nsec, struct model_request *request)
{
	size_t		most = OP_BYTES * ((size_t) graph_ops(part) + m->program.ops_count + 1);
	struct infer_writer w = {.data = malloc(most), .size = most};
	uint8_t    *to;

	if (w.data == NULL)
		return false;
	encode(m, part, nsec, &w);
	to = w.failed ? NULL : model_profile_reserve(request, w.used);
	if (to != NULL)
		memcpy(to, w.data, w.used);
	free(w.data);
	return true;
}

bool
encoder_compute_profiled(struct encoder_run *run, const struct encoder_part *part, struct model_request *request,
						 struct status *status)
{
	uint32_t	graph = graph_ops(part), count = graph + run->m->program.ops_count;
	uint64_t   *nsec = malloc(((size_t) count + 1) * sizeof(*nsec));
	bool		good = nsec != NULL;

	if (!good)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a profile");
	for (uint32_t i = 0; good && i < count; i++)
	{
		uint64_t	began = process_clock();
		uint32_t	op = i < graph ? i : i - graph;

		good = encoder_compute(run, i < graph, op, op + 1, part, status);
		nsec[i] = process_clock() - began;
	}
	if (good && !report(run->m, part, nsec, request))
		good = status_set(status, INFER_ERROR_MEMORY, "out of memory for a profile");
	free(nsec);
	return good;
}
