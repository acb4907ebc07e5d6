/*
 * chunk_check.h
 *	  What holds of the chunks of any text, for the unit test and the fuzzer.
 */
#ifndef TEST_CHUNK_CHECK_H
#define TEST_CHUNK_CHECK_H

#include "engine/status.h"
#include "engine/text/chunk/border.h"
#include "engine/text/chunk/chunk.h"
#include "engine/text/unicode/unicode.h"

#define CHUNK_SPACE	8192			/* tokens of a chunk that are looked at */

static inline bool
chunk_only_spaces(const char *text, uint32_t from, uint32_t to)
{
	return border_skip_spaces((const uint8_t *) text, from, to) >= to;
}

/* Tokens of a chunk that end behind a place, by itself. */
static inline uint32_t
chunk_tokens_behind(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const char *text, const struct chunk *chunk, uint32_t place)
{
	static struct token_place places[CHUNK_SPACE];
	static uint8_t sources[CHUNK_SPACE];
	struct tokenizer_input input = {.text = text + chunk->start_byte, .text_bytes = chunk->end_byte - chunk->start_byte, .bare = true};
	struct tokenizer_output output = {.space = CHUNK_SPACE, .places = places, .sources = sources};
	struct status status = {0};
	uint32_t	count = 0;

	if (!tokenizer_encode(tokenizer, arena, &input, &output, &status))
		return UINT32_MAX;
	for (uint32_t i = 0; i < output.count; i++)
		count += chunk->start + (uint32_t) places[i].end > place;
	return count;
}

static inline enum border
chunk_border_at(const char *text, uint32_t at, uint32_t size, enum chunk_border border)
{
	enum border best = border == CHUNK_TOKEN ? BORDER_WORD : border == CHUNK_SENTENCE ? BORDER_SENTENCE : BORDER_PARAGRAPH;
	enum border found = border_at((const uint8_t *) text, at, size, true);

	return found > best ? best : found;
}

/*
 * Whether there is a better border than the chunk's end inside it, before white space and behind
 * next, at which a chunk by itself has no more than tokens_max tokens.
 */
static inline bool
chunk_better_end(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const char *text, uint32_t size,
				 const struct chunk *chunk, uint32_t next, uint32_t tokens_max, enum chunk_border border)
{
	enum border end = chunk->end_byte == size ? BORDER_PARAGRAPH : chunk_border_at(text, chunk->end_byte, size, border);
	struct status status = {0};
	uint32_t	length, count;

	for (uint32_t at = next; at < chunk->end_byte; at += length)
	{
		utf8_decode((const uint8_t *) text + at, &length);
		if (at > next && border_is_before_space((const uint8_t *) text, at, size) && !border_is_behind_space((const uint8_t *) text, at) &&
			chunk_border_at(text, at, size, border) > end &&
			tokenizer_count(tokenizer, arena, text + chunk->start_byte, at - chunk->start_byte, &count, &status) && count <= tokens_max)
			return true;
	}
	return false;
}

static inline uint32_t
chunk_word_end(const uint8_t *text, uint32_t at, uint32_t size)
{
	uint32_t	length;

	for (; at < size && !border_is_before_space(text, at, size); at += length)
		utf8_decode(text + at, &length);
	return at;
}

/* Whether a chunk ends within the first word behind next, which begins there. */
static inline bool
chunk_cuts_first(const char *text, uint32_t size, const struct chunk *chunk, uint32_t next)
{
	const uint8_t *data = (const uint8_t *) text;

	return border_is_behind_space(data, next) && border_at(data, chunk->end_byte, size, true) < BORDER_WORD &&
		chunk_word_end(data, next, size) > chunk->end_byte;
}

/* NULL: everything holds of the text's chunks; else what does not. */
static inline const char *
chunks_broken(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const struct chunks *chunks, const char *text,
			  uint32_t size, uint32_t tokens_max, uint32_t overlap, enum chunk_border border)
{
	const uint8_t *data = (const uint8_t *) text;
	uint32_t	done = 0, count;

	for (uint32_t i = 0; i < chunks->count; i++)
	{
		const struct chunk *chunk = &chunks->data[i];
		struct status status = {0};
		uint32_t	next = (uint32_t) border_skip_spaces(data, done, size);

		if (chunk->start_byte >= chunk->end_byte || chunk->end_byte > size || utf8_characters(data, chunk->start_byte) != chunk->start ||
			utf8_characters(data, chunk->end_byte) != chunk->end)
			return "characters and bytes differ";
		if (!tokenizer_count(tokenizer, arena, text + chunk->start_byte, chunk->end_byte - chunk->start_byte, &count, &status) ||
			count != chunk->tokens || count > tokens_max)
			return "the count is another, or too high";
		if (border_is_before_space(data, chunk->start_byte, size) || border_is_behind_space(data, chunk->end_byte))
			return "white space at an end";
		if (chunk->start_byte > done && !chunk_only_spaces(text, done, chunk->start_byte))
			return "text is missing";
		if (i > 0 && (chunk->start <= chunk[-1].start || chunk->end <= chunk[-1].end))
			return "no progress";
		if (i > 0 && chunk->start_byte < done && border_at(data, chunk->start_byte, size, true) < BORDER_PART &&
			border_at(data, done, size, true) >= BORDER_WORD)
			return "an overlap begins within a word";
		if (i > 0 && chunk->start_byte < done && chunk_tokens_behind(tokenizer, arena, text, &chunk[-1], chunk->start) > overlap)
			return "more overlap than asked for";
		if (chunk_better_end(tokenizer, arena, text, size, chunk, next, tokens_max, border))
			return "a chunk could end at a better border";
		if (chunk->start_byte < done && chunk_cuts_first(text, size, chunk, next))
			return "a chunk with an overlap cuts its first word";
		done = chunk->end_byte;
	}
	return chunk_only_spaces(text, done, size) ? NULL : "text is missing at the end";
}

#endif							/* TEST_CHUNK_CHECK_H */
