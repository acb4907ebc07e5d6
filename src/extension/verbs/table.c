/*
 * table.c
 *	  Which verbs there are, and what may be done with them.
 *
 * A verb is known by its C symbol (prosrc): its name and schema are the user's to change.
 */
#include "postgres.h"

#include "internal.h"

#define EMBED_OPTIONS	(INFER_KEY_PROMPT | INFER_KEY_TRUNCATE | INFER_KEY_DIMENSIONS | INFER_KEY_NORMALIZE)

const InferVerbDef infer_verbs[VERBS] = {
	[VERB_INFER] = {
		.source = "infer", .verb = INFER_VERB_INFER,
		.hoist = true, .deduplicate = true, .inputs_first = 1
	},
	[VERB_TRY] = {
		.source = "infer_try", .verb = INFER_VERB_INFER, .quiet = true,
		.hoist = true, .deduplicate = true, .inputs_first = 1
	},
	[VERB_PREDICT] = {
		.source = "infer_predict", .verb = INFER_VERB_PREDICT,
		.hoist = true, .deduplicate = true, .inputs_first = 1
	},
	[VERB_OUTPUTS] = {
		.source = "infer_outputs", .verb = INFER_VERB_OUTPUTS,
		.hoist = true, .deduplicate = true, .inputs_first = 1
	},
	[VERB_CLASSIFY] = {
		.source = "infer_classify", .verb = INFER_VERB_CLASSIFY,
		.hoist = true, .deduplicate = true, .inputs_first = 1
	},
	[VERB_PROBABILITIES] = {
		.source = "infer_probabilities", .verb = INFER_VERB_PROBABILITIES,
		.hoist = true, .deduplicate = true, .inputs_first = 1
	},
	[VERB_PROBABILITY] = {
		.source = "infer_probability", .verb = INFER_VERB_PROBABILITY,
		.hoist = true, .deduplicate = true, .inputs_first = 2
	},
	[VERB_EMBED] = {
		.source = "infer_embed", .verb = INFER_VERB_EMBED,
		.hoist = true, .deduplicate = true, .inputs_first = 1, .inputs_count = 1, .options = EMBED_OPTIONS
	},
	[VERB_RERANK] = {
		.source = "infer_rerank", .verb = INFER_VERB_RERANK,
		.hoist = true, .deduplicate = true, .inputs_first = 1, .inputs_count = 2, .options = INFER_KEY_TRUNCATE
	},
	[VERB_TOKENIZE] = {
		.source = "infer_tokenize", .verb = INFER_VERB_TOKENIZE,
		.hoist = true, .deduplicate = true, .inputs_first = 1, .inputs_count = 1
	},
	[VERB_TOKEN_COUNT] = {
		.source = "infer_token_count", .verb = INFER_VERB_TOKEN_COUNT,
		.hoist = true, .deduplicate = true, .inputs_first = 1, .inputs_count = 1
	},

	/* they give sets: sets.c */
	[VERB_EMBED_ALL] = {
		.source = "infer_embed_all", .verb = INFER_VERB_EMBED,
		.deduplicate = true, .inputs_first = 1, .inputs_count = 1, .options = EMBED_OPTIONS
	},
	[VERB_ENTITIES] = {
		.source = "infer_entities", .verb = INFER_VERB_ENTITIES,
		.inputs_first = 1, .inputs_count = 1, .options = INFER_KEY_TRUNCATE
	},
	[VERB_CHUNK] = {
		.source = "infer_chunk", .verb = INFER_VERB_CHUNK,
		.inputs_first = 1, .inputs_count = 1, .options = INFER_KEY_BORDER
	},
};

const InferVerbDef *
infer_verb_by_source(const char *source)
{
	for (int i = 0; i < VERBS; i++)
		if (strcmp(infer_verbs[i].source, source) == 0)
			return &infer_verbs[i];
	return NULL;
}
