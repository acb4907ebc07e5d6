/*
 * profile.c
 *	  One row through a graph with the time of each primitive: on this device every op of the
 *	  program is a segment, so each is enqueued and waited for by itself.
 *
 * What is between the segments (a few hundred nsec each) is in nobody's time.  A profile
 * allocates; nothing else of a run does.
 */
#include "graph_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../process/process.h"

#define NAME_MAX_BYTES	200			/* of a node, or of the operators fused into one */

struct texts						/* of one op */
{
	char		node[NAME_MAX_BYTES + 1];
	char		operator_[NAME_MAX_BYTES + 1];
	char		primitive[64];
};

/* Cut where a character begins. */
static void
cut(char *text, size_t bytes)
{
	if (strlen(text) <= bytes)
		return;
	while (bytes > 0 && ((unsigned char) text[bytes] & 0xC0) == 0x80)
		bytes--;
	text[bytes] = '\0';
}

static void
append(char *text, const char *more)
{
	char		both[2 * NAME_MAX_BYTES + 8];

	snprintf(both, sizeof(both), "%s%s%.*s", text, text[0] == '\0' ? "" : " + ", NAME_MAX_BYTES, more);
	cut(both, NAME_MAX_BYTES);
	memcpy(text, both, strlen(both) + 1);
}

/* The node by its name, or by its number where the file gives none; what it and those fused into it are. */
static void
describe(const struct graph *graph, const struct graph_op *op, struct texts *texts)
{
	const char *function = device_function_name(&op->device);
	int32_t		node = op->device.node;

	memset(texts, 0, sizeof(*texts));
	if (node >= 0 && (uint32_t) node < graph->model->nodes_count)
	{
		const struct onnx_node *n = &graph->model->nodes[node];

		if (n->name[0] != '\0')
			append(texts->node, n->name);
		else
			snprintf(texts->node, sizeof(texts->node), "node %d", node);
		append(texts->operator_, n->op);
	}
	for (uint32_t i = 0; i < op->fused_count; i++)
		append(texts->operator_, graph->model->nodes[op->fused[i]].op);
	snprintf(texts->primitive, sizeof(texts->primitive), "%s%s%s", device_op_name(&op->device),
			 function[0] == '\0' ? "" : op->device.op == DEVICE_OP_GEMM ? " + " : " ", function);
}

/* Encoded as PROTOCOL.md says; the second time there is room for it. */
static void
encode(const struct graph_model *m, const uint64_t *nsec, struct infer_writer *w)
{
	struct device_names names;
	struct texts texts;

	device_names(m->device, &names);
	infer_put_u32(w, m->graph.program_ops_count);
	for (uint32_t i = 0; i < m->graph.program_ops_count; i++)
	{
		const struct graph_op *op = &m->graph.ops[m->graph.program_ops[i]];
		const char *device = op->on_host ? names.host : names.own;

		describe(&m->graph, op, &texts);
		infer_put_string(w, texts.node, strlen(texts.node));
		infer_put_string(w, texts.operator_, strlen(texts.operator_));
		infer_put_string(w, texts.primitive, strlen(texts.primitive));
		infer_put_string(w, device, strlen(device));
		infer_put_u64(w, nsec[i]);
	}
}

static bool
report(const struct graph_model *m, const uint64_t *nsec, struct model_request *request)
{
	size_t		most = 128 + m->graph.program_ops_count * (sizeof(struct texts) + sizeof(struct device_names));
	struct infer_writer w = {.data = malloc(most), .size = most};
	uint8_t    *to;

	if (w.data == NULL)
		return false;
	encode(m, nsec, &w);
	to = model_profile_reserve(request, w.used);
	if (to != NULL)
		memcpy(to, w.data, w.used);
	free(w.data);
	return true;
}

bool
graph_compute_profiled(struct graph_run *run, struct model_request *request, struct status *status)
{
	uint32_t	count = run->m->graph.program_ops_count;
	uint64_t   *nsec = malloc((count + 1) * sizeof(*nsec));
	bool		good = nsec != NULL;

	if (!good)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for a profile");
	for (uint32_t i = 0; good && i < count; i++)
	{
		uint64_t	began = process_clock();

		good = graph_compute(run, i, i + 1, status);
		nsec[i] = process_clock() - began;
	}
	if (good && !report(run->m, nsec, request))
		good = status_set(status, INFER_ERROR_MEMORY, "out of memory for a profile");
	free(nsec);
	return good;
}
