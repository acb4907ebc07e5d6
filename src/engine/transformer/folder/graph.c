/*
 * graph.c
 *	  A folder whose ONNX file is no encoder that is known, and is run as it is: what config.json says of its
 *	  tokens, and that the longest text is computed.
 */
#include "reader.h"

#include <stdio.h>
#include <string.h>

#include "../graph/text_graph.h"

/* ---- places ---- */

struct places						/* how a type of the reference's counts a text's tokens */
{
	const char *model_type;
	bool		behind_padding;		/* from behind the padding's id, else from 0 */
};

static const struct places *
find_places(const char *model_type)
{
	static const struct places types[] = {
		{"albert", false}, {"bert", false}, {"big_bird", false}, {"convbert", false}, {"deberta", false}, {"deberta-v2", false},
		{"distilbert", false}, {"electra", false}, {"ernie", false}, {"megatron-bert", false}, {"mobilebert", false}, {"rembert", false},
		{"camembert", true}, {"data2vec-text", true}, {"ibert", true}, {"longformer", true}, {"mpnet", true}, {"roberta", true},
		{"roberta-prelayernorm", true}, {"xlm-roberta", true}, {"xlm-roberta-xl", true}, {"xmod", true}, {NULL, false}
	};

	for (const struct places *type = types; type->model_type != NULL; type++)
		if (strcmp(type->model_type, model_type) == 0)
			return type;
	return NULL;
}

/* Where the configuration says nothing, positions are no bound: the folder must say how long a text may be. */
static bool
read_positions(struct folder *f, const struct places *places)
{
	struct object config = {folder_json(model_files_find(f->files, "config.json"), false, f->status), "config.json", f->status};
	int64_t		padding = -1;
	bool		fine = config.json != NULL &&
		object_whole_or(&config, "max_position_embeddings", 1, FOLDER_TOKENS_MAX, FOLDER_TOKENS_MAX, &f->positions_usable) &&
		(places == NULL || !places->behind_padding || object_whole_or(&config, "pad_token_id", 0, FOLDER_TOKENS_MAX, 1, &padding));

	if (fine && object_get(&config, "max_position_embeddings") != NULL)
		f->positions_from = "config.json (max_position_embeddings)";
	f->positions_usable -= f->positions_from == NULL ? 0 : padding + 1;
	fine = fine && (f->positions_usable > 0 || object_unsupported(&config, "max_position_embeddings"));
	json_decref(config.json);
	return fine;
}

/* ---- the file ---- */

/* Why it is no encoder that is known, and why it is not run as it is either. */
static bool
refuse_both(struct folder *f, const struct status *known)
{
	struct status own = *f->status;

	if (own.error != INFER_ERROR_UNSUPPORTED && own.error != INFER_ERROR_MODEL)
		return false;
	status_clear(f->status);
	status_set(f->status, own.error, "the ONNX file is no encoder that is known, and cannot be run as it is: %s", own.message);
	status_detail(f->status, "As for an encoder, %s.%s%s", known->message, own.detail[0] == '\0' ? "" : " ", own.detail);
	status_hint(f->status, "%s", own.hint[0] != '\0' ? own.hint : known->hint);
	return false;
}

bool
folder_graph_run(struct folder *f, const struct model_file *file, const char *output, bool logits)
{
	const struct status known = *f->status;
	const struct places *places = find_places(f->family->model_type);
	struct text_graph_source source = {
		.files = f->files, .file = file, .output = output, .places_known = places != NULL && !places->behind_padding
	};
	struct encoder *e = f->encoder;

	status_clear(f->status);
	e->graph = text_graph_open(&source, f->device, f->status);
	if (e->graph == NULL)
		return refuse_both(f, &known);
	if (!logits && (e->graph->output == TEXT_GRAPH_TEXT) != f->graph_pooled)
	{
		status_set(f->status, INFER_ERROR_UNSUPPORTED, "its output \"%.200s\" is not %s", output, f->graph_pooled ? "a vector for each text" :
				   "a vector for each token");
		return refuse_both(f, &known);
	}
	e->hidden = e->graph->width;
	e->vocabulary = INT64_MAX;
	e->types_used = e->graph->types >= 0;
	e->positions = ENCODER_POSITIONS_NONE;
	e->pooling = e->graph->output == TEXT_GRAPH_TEXT ? ENCODER_POOL_OWN : 0;
	return read_positions(f, places);
}

/* Compiles the longest text's program, which also tells what a text costs. */
bool
folder_graph_probe(struct folder *f)
{
	struct encoder *e = f->encoder;
	struct text_graph_program *program;
	struct status own;

	if (e->graph == NULL)
		return true;
	if (e->tokens_max_from == NULL)
	{
		status_set(f->status, INFER_ERROR_UNSUPPORTED, "the folder does not say how many tokens a text may have");
		status_hint(f->status, "Say it with the option max_tokens, as in {\"max_tokens\": 512}.");
		return false;
	}
	program = text_graph_take(e->graph, e->tokens_max, NULL, f->status);
	if (program != NULL)
	{
		text_graph_give(e->graph, program);
		return true;
	}
	own = *f->status;
	status_clear(f->status);
	status_set(f->status, own.error, "a text of %u tokens cannot be computed: %s", e->tokens_max, own.message);
	status_detail(f->status, "The limit comes from %s.%s%s", e->tokens_max_from, own.detail[0] == '\0' ? "" : " ", own.detail);
	status_hint(f->status, "Set a smaller one with the option max_tokens.");
	return false;
}
