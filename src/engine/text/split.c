/*
 * split.c
 *	  The pre-tokenizer: a piece of normalised text goes through its steps, each of which cuts
 *	  what it gets, and what the last one leaves are the model's words.
 */
#include "text_internal.h"

#include <string.h>

static bool split_from(struct text_run *run, uint32_t step, uint32_t start, uint32_t end);

static bool
enough(const struct text_run *run)
{
	return run->tokens->count >= run->enough;
}

/* White space ends a word and goes; a punctuation character is a word of its own. */
static bool
split_bert(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const uint8_t *bytes = run->buffer->bytes;
	uint32_t	word = start, at = start;

	while (at < end)
	{
		uint32_t	length, point = utf8_decode(bytes + at, &length);
		uint16_t	flags = unicode_flags(point) & (UNICODE_SPACE | UNICODE_PUNCTUATION);

		if (flags != 0)
		{
			if (!split_from(run, step + 1, word, at))
				return false;
			if ((flags & UNICODE_SPACE) == 0 && !split_from(run, step + 1, at, at + length))
				return false;
			word = at + length;
			if (enough(run))
				return true;
		}
		at += length;
	}
	return split_from(run, step + 1, word, at);
}

static bool
split_spaces(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const uint8_t *bytes = run->buffer->bytes;
	uint32_t	word = start, length;

	for (uint32_t at = start; at < end && !enough(run); at += length)
		if ((unicode_flags(utf8_decode(bytes + at, &length)) & UNICODE_SPACE) != 0)
		{
			if (!split_from(run, step + 1, word, at))
				return false;
			word = at + length;
		}
	return enough(run) || split_from(run, step + 1, word, end);
}

/* Numbers apart from the rest; each digit alone, or all that follow one another together. */
static bool
split_digits(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const uint8_t *bytes = run->buffer->bytes;
	bool		single = run->tokenizer->splitters[step].single, was_number = false;
	uint32_t	word = start, length;

	for (uint32_t at = start; at < end && !enough(run); at += length)
	{
		bool		number = (unicode_flags(utf8_decode(bytes + at, &length)) & UNICODE_NUMERIC) != 0;

		if (number != was_number || (number && single))
		{
			if (!split_from(run, step + 1, word, at))
				return false;
			word = at;
		}
		was_number = number;
	}
	return enough(run) || split_from(run, step + 1, word, end);
}

static bool
split_pattern(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	enum pattern pattern = run->tokenizer->splitters[step].pattern;

	while (start < end && !enough(run))
	{
		uint32_t	stop = pattern_match(pattern, run->buffer->bytes, start, end);

		if (!split_from(run, step + 1, start, stop))
			return false;
		start = stop;
	}
	return true;
}

/* A copy of the piece with a space before it, which has the origin of what it stands before. */
static bool
add_space(struct text_run *run, uint32_t *start, uint32_t *end)
{
	struct text_buffer *other = &run->arena->other;
	uint32_t	length = *end - *start;

	if (other->space < length + 1 && !arena_grow_buffer(run->arena, other, length + 1))
		return false;
	other->bytes[0] = ' ';
	other->origins[0] = run->buffer->origins[*start];
	memcpy(other->bytes + 1, run->buffer->bytes + *start, length);
	memcpy(other->origins + 1, run->buffer->origins + *start, length * sizeof(*other->origins));
	other->used = length + 1;
	run->buffer = other;
	*start = 0;
	*end = length + 1;
	return true;
}

static bool
split_bytes(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const struct splitter *splitter = &run->tokenizer->splitters[step];
	const struct text_buffer *buffer = run->buffer;
	bool		good = true;

	if (splitter->add_space && buffer->bytes[start] != ' ')
		good = add_space(run, &start, &end);
	if (good)
		good = splitter->pattern == PATTERN_NONE ? split_from(run, step + 1, start, end) :
			split_pattern(run, step, start, end);
	run->buffer = buffer;
	return good;
}

static bool
split_from(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const struct tokenizer *tokenizer = run->tokenizer;

	if (start == end)
		return true;
	if (step == tokenizer->splitters_count)
		return tokenizer->model == MODEL_BPE ? bpe_word(run, start, end) : wordpiece_word(run, start, end);
	switch (tokenizer->splitters[step].kind)
	{
		case SPLIT_BERT:
			return split_bert(run, step, start, end);
		case SPLIT_SPACES:
			return split_spaces(run, step, start, end);
		case SPLIT_DIGITS:
			return split_digits(run, step, start, end);
		case SPLIT_PATTERN:
			return split_pattern(run, step, start, end);
		case SPLIT_BYTES:
			return split_bytes(run, step, start, end);
	}
	return false;
}

bool
split_piece(struct text_run *run, uint32_t start, uint32_t end)
{
	return split_from(run, 0, start, end);
}
