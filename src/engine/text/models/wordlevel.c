/*
 * wordlevel.c
 *	  The WordLevel model: a word is a token, or the unknown one.
 */
#include "../text_internal.h"

bool
word_level_word(struct text_run *run, uint32_t start, uint32_t end)
{
	const struct word_level *model = &run->tokenizer->word_level;
	const uint32_t *origins = run->buffer->origins;
	int32_t		id = trie_find(&model->vocabulary, run->buffer->bytes + start, end - start);

	return arena_add_token(run, id < 0 ? model->unknown : id, origins[start], origins[end - 1] + 1);
}
