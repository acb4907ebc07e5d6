/*
 * text_graphs.c
 *	  ONNX files as encoders: that every node of a file counts, that numbers which are part of a
 *	  function are looked at, and that others are taken from the file.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/files.h"
#include "engine/model/model.h"
#include "engine/status.h"
#include "engine/transformer/encoder.h"
#include "engine/transformer/folder.h"
#include "protocol/protocol.h"
#include "tap.h"

#define FOLDER	"test/fixtures/text/"

struct changed						/* a folder whose ONNX file is a copy */
{
	struct model_files files;
	struct model_file list[64];
	struct model_files given;		/* as it lies there */
	struct model_file *onnx;
	uint8_t    *data;
};

static struct status status;

static bool
changed_open(struct changed *c, const char *name)
{
	char		path[256];

	memset(c, 0, sizeof(*c));
	snprintf(path, sizeof(path), FOLDER "%s", name);
	status_clear(&status);
	if (files_open_path(path, &c->given, &status) != FILES_OK || c->given.count > 64)
		return tap_ok(false, "%s: no such folder", name);
	memcpy(c->list, c->given.files, c->given.count * sizeof(*c->list));
	c->files = (struct model_files) {.count = c->given.count, .files = c->list};
	for (uint32_t i = 0; i < c->files.count; i++)
		if (strstr(c->list[i].name, ".onnx") != NULL)
			c->onnx = &c->list[i];
	c->data = malloc(c->onnx->size);
	memcpy(c->data, c->onnx->data, c->onnx->size);
	c->onnx->data = c->data;
	return true;
}

static void
changed_close(struct changed *c)
{
	free(c->data);
	files_close(&c->given);
}

static struct encoder *
changed_read(struct changed *c, const char *options)
{
	status_clear(&status);
	return encoder_read(&c->files, options, NULL, &status);
}

static bool
refused(struct changed *c, const char *message)
{
	struct encoder *encoder = changed_read(c, "");
	bool		fine = encoder == NULL && strstr(status.message, message) != NULL;

	if (!fine)
		printf("# %s\n", encoder == NULL ? status.message : "it was read");
	encoder_free(encoder);
	return fine;
}

/* ---- every node ---- */

/* Where the operator of the next node is named: field 4 of a node, one of these names. */
static uint8_t *
next_operator(const struct changed *c, uint8_t *from, size_t *length)
{
	static const char *const ops[] = {
		"Abs", "Add", "Attention", "BiasGelu", "Cast", "Clip", "Concat", "Constant", "ConstantOfShape", "CumSum", "Div", "EmbedLayerNormalization",
		"Equal", "Erf", "Expand", "FastGelu", "FusedMatMul", "Gather", "Gemm", "LayerNormalization", "Less", "Log", "MatMul", "Min", "Mul", "Neg", "Not",
		"Pow", "Range",
		"ReduceL2", "ReduceMean", "ReduceSum", "Reshape", "Shape", "SkipLayerNormalization", "Slice", "Softmax", "Sqrt", "Sub", "Tanh",
		"Transpose", "Unsqueeze", "Where", NULL
	};

	for (uint8_t *at = from; at + 32 < c->data + c->onnx->size; at++)
		for (int i = 0; at[0] == 0x22 && ops[i] != NULL; i++)
		{
			*length = strlen(ops[i]);
			if (at[1] == *length && memcmp(at + 2, ops[i], *length) == 0)
				return at + 2;
		}
	return NULL;
}

/* Another operator in the place of each node's, one after the other. */
static void
test_nodes(struct changed *c, const char *name, uint32_t idle)
{
	size_t		length;
	uint32_t	nodes = 0, read = 0, silent = 0;

	for (uint8_t *at = next_operator(c, c->data, &length); at != NULL; at = next_operator(c, at, &length))
	{
		uint8_t		first = *at;
		struct encoder *encoder;

		nodes++;
		*at = 'Z';
		encoder = changed_read(c, "");
		read += encoder != NULL;
		silent += encoder == NULL && (status.error == 0 || status.message[0] == '\0');
		encoder_free(encoder);
		*at = first;
		at += length;
	}
	tap_ok(nodes > 10 && read == idle && silent == 0, "%s: of %u nodes, %u may be anything", name, nodes, read);
}

static void
test_every_node(const char *name, uint32_t idle)
{
	struct changed c;

	if (!changed_open(&c, name))
		return;
	test_nodes(&c, name, idle);
	changed_close(&c);
}

/* ---- names and numbers ---- */

/* Puts bytes in the place of the first ones that are as wanted, from the n-th occurrence on. */
static bool
put(struct changed *c, const void *wanted, const void *bytes, size_t count)
{
	uint8_t    *at = memmem(c->data, c->onnx->size, wanted, count);

	if (at == NULL)
		return tap_ok(false, "the file has no such bytes");
	memcpy(at, bytes, count);
	return true;
}

static bool
put_float(struct changed *c, float wanted, float number)
{
	return put(c, &wanted, &number, sizeof(number));
}

static void
test_names(void)
{
	struct changed c;
	struct encoder *encoder;

	if (!changed_open(&c, "onnx_bert"))
		return;
	while (memmem(c.data, c.onnx->size, "last_hidden_state", 17) != NULL)
		put(&c, "last_hidden_state", "lost_hidden_state", 17);
	tap_ok(refused(&c, "the ONNX file has no output \"last_hidden_state\""), "an output is wanted");
	changed_close(&c);
	if (!changed_open(&c, "onnx_bert"))
		return;
	while (memmem(c.data, c.onnx->size, "attention_mask", 14) != NULL)
		put(&c, "attention_mask", "attention_bias", 14);
	tap_ok(refused(&c, "is none of an encoder that is known"), "an input that is not known is refused");
	changed_close(&c);
	if (!changed_open(&c, "onnx_bert"))
		return;
	encoder = changed_read(&c, "{\"file\":\"onnx/model.onnx\"}");
	tap_ok(encoder != NULL, "the option names the file");
	encoder_free(encoder);
	encoder = changed_read(&c, "{\"file\":\"onnx/other.onnx\"}");
	tap_ok(encoder == NULL && strcmp(status.message, "the option file names \"onnx/other.onnx\", which is no ONNX file of the model") == 0,
		   "which must be there");
	c.onnx->name = "onnx/a.onnx";
	c.list[c.files.count] = *c.onnx;
	c.list[c.files.count++].name = "z.onnx";
	tap_ok(refused(&c, "the model has 2 ONNX files, and none of them is onnx/model.onnx"), "of several files none is guessed");
	changed_close(&c);
}

static void
test_numbers(void)
{
	struct changed c;
	struct encoder *encoder;

	if (!changed_open(&c, "onnx_bert"))
		return;
	put_float(&c, 1.41421354f, 1.5f);
	tap_ok(refused(&c, "an activation is expected"), "a function that is nearly GELU is refused");
	put_float(&c, 1.5f, 1.41421354f);
	put_float(&c, 4, 5);
	encoder = changed_read(&c, "");
	tap_ok(encoder != NULL && fabs(encoder->attention_scale - 0.2) < 1e-7, "the scale of the scores is the file's");
	encoder_free(encoder);
	put_float(&c, 5, 4);
	put_float(&c, 9.99999996e-13f, 1e-3f);
	tap_ok(refused(&c, "norms with the same epsilon are expected"), "norms differ");
	changed_close(&c);
	if (!changed_open(&c, "onnx_bert_fused"))
		return;
	put(&c, "\n\tnum_heads\x18\x02", "\n\tnum_heads\x18\x03", 13);
	tap_ok(refused(&c, "heads of equal size are expected"), "heads do not fit");
	put(&c, "\n\tnum_heads\x18\x03", "\n\tnum_heads\x18\x04", 13);
	tap_ok(refused(&c, "attentions of equally many heads and the same scale are expected"), "heads differ");
	changed_close(&c);
	if (!changed_open(&c, "onnx_roberta"))
		return;
	encoder = changed_read(&c, "");
	tap_ok(encoder != NULL && encoder->position_first == 2 && encoder->position_padding == 1 && !encoder->types_used &&
		   encoder->types.storage == ENCODER_F32, "places are counted as RoBERTa counts, and all types are 0");
	encoder_free(encoder);
	put(&c, "\"\x06" "CumSum", "\"\x06" "CumMax", 8);
	tap_ok(refused(&c, "is none of an encoder that is known"), "another way to count is refused");
	changed_close(&c);
}

/* A model of one node, which is enough to say why. */
static void
test_quantised(void)
{
	static const uint8_t model[] = "\x08\x08\x42\x02\x10\x11\x3a\x21\x0a\x15\x0a\x01x\x12\x01y\x22\x0dMatMulInteger\x5a\x03\x0a\x01x\x62\x03\x0a\x01y";
	struct changed c;

	if (!changed_open(&c, "onnx_bert"))
		return;
	c.onnx->data = model;
	c.onnx->size = sizeof(model) - 1;
	tap_ok(refused(&c, "(MatMulInteger): an ONNX file with quantised weights is not supported"), "quantised weights are refused by name");
	changed_close(&c);
}

/* The vector for each text as the only output that is known. */
static void
test_pooled(void)
{
	struct changed c;
	struct encoder *encoder;

	if (!changed_open(&c, "onnx_bert_pooled"))
		return;
	while (memmem(c.data, c.onnx->size, "token_embeddings", 16) != NULL)
		put(&c, "token_embeddings", "other_embeddings", 16);
	encoder = changed_read(&c, "");
	tap_ok(encoder != NULL && encoder->pooling == ENCODER_POOL_MEAN && encoder->normalize, "a pooling of the graph's own is read: %s", status.message);
	encoder_free(encoder);
	encoder = changed_read(&c, "{\"pooling\":\"cls\"}");
	tap_ok(encoder == NULL && strstr(status.message, "the option pooling is not for an ONNX file") != NULL, "and cannot be another one");
	test_nodes(&c, "its nodes", 0);
	changed_close(&c);
}

int
main(void)
{
	test_every_node("onnx_bert", 0);
	test_every_node("onnx_bert_sdpa", 0);
	test_every_node("onnx_bert_newer", 0);
	test_every_node("onnx_bert_fast", 0);
	test_every_node("onnx_bert_fused", 0);
	test_every_node("onnx_bert_pooled", 41);	/* those behind its output */
	test_every_node("onnx_bert_runtime", 0);
	test_every_node("onnx_bert_classify", 0);
	test_every_node("onnx_distilbert", 0);
	test_every_node("onnx_distilbert_fused", 0);
	test_every_node("onnx_mpnet", 0);
	test_every_node("onnx_roberta", 0);
	test_every_node("onnx_roberta_fused", 0);
	test_names();
	test_numbers();
	test_quantised();
	test_pooled();
	return tap_done();
}
