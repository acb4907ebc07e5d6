/*
 * prompts.c
 *	  How many tokens of a row are its prompt's, where pooling passes over them.
 *
 * The number is sentence-transformers': the tokens of the prompt alone, without the special one that ends
 * them, at the beginning of the row, whatever became of the prompt's last characters beside the text.
 */
#include "encoder_model.h"

#include <string.h>

#include "../../status.h"

static bool
count_prompt(struct encoder_model *m, struct encoder_arena *arena, uint32_t prompt, struct status *status)
{
	const char *text = m->encoder->prompts[prompt].text;
	struct tokenizer_input input = {.text = text, .text_bytes = strlen(text), .tokens_max = m->encoder->tokens_max};
	struct tokenizer_output output = {.space = arena->space, .sources = arena->sources};

	if (text[0] == '\0')
		return true;
	if (!tokenizer_encode(m->tokenizer, arena->tokenizer, &input, &output, status))
		return false;
	if (output.count == 0 || output.count > output.space || arena->sources[output.count - 1] != TOKEN_OF_TEMPLATE)
		return status_set(status, INFER_ERROR_UNSUPPORTED,
						  "pooling without the prompt's tokens is not supported for a tokenizer that ends a text without a special token");
	m->prompt_tokens[prompt] = output.count - 1;
	return true;
}

bool
encoder_prompts_count(struct encoder_model *m, struct status *status)
{
	struct encoder_arena *arena;
	bool		fine = true;

	if (!m->encoder->prompt_excluded)
		return true;
	arena = encoder_arena_take(m);
	if (arena == NULL)
		return status_set(status, INFER_ERROR_MEMORY, "out of memory for the tokens of prompts");
	for (uint32_t i = 0; fine && i < m->encoder->prompts_count; i++)
		fine = count_prompt(m, arena, i, status);
	encoder_arena_give(m, arena);
	return fine;
}
