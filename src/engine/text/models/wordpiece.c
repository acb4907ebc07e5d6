/*
 * wordpiece.c
 *	  The WordPiece model: a word becomes the longest token that it begins with, then the
 *	  longest of those with the prefix (##) that the rest begins with, and so on; if something
 *	  of it is in no token, the whole word is the unknown token.
 *
 * One trie holds the vocabulary; tokens with the prefix hang below the prefix's node.
 */
#include "../text_internal.h"

static bool
unknown_word(struct text_run *run, uint32_t start, uint32_t end)
{
	const uint32_t *origins = run->buffer->origins;

	return arena_add_token(run, run->tokenizer->wordpiece.unknown, origins[start], origins[end - 1] + 1);
}

bool
wordpiece_word(struct text_run *run, uint32_t start, uint32_t end)
{
	const struct wordpiece *model = &run->tokenizer->wordpiece;
	const uint8_t *bytes = run->buffer->bytes;
	const uint32_t *origins = run->buffer->origins;
	uint32_t	count = run->tokens->count;
	uint32_t	node = TRIE_ROOT;

	if (end - start > model->word_max && utf8_characters(bytes + start, end - start) > model->word_max)
		return unknown_word(run, start, end);
	for (uint32_t at = start; at < end;)
	{
		size_t		length = 0;
		int32_t		id = -1;

		if (node != TRIE_NONE)
			id = trie_longest(&model->vocabulary, node, bytes + at, end - at, &length);
		if (id < 0)
		{
			run->tokens->count = count;
			return unknown_word(run, start, end);
		}
		if (!arena_add_token(run, id, origins[at], origins[at + length - 1] + 1))
			return false;
		at += (uint32_t) length;
		node = model->continued;
	}
	return true;
}
