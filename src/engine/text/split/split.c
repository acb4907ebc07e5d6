/*
 * split.c
 *	  The pre-tokenizer: a piece of normalised text goes through its steps, each of which cuts
 *	  what it gets, and what the last one leaves are the model's words.
 */
#include "../text_internal.h"

#include <string.h>

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

/* By a pattern that matches at every place. */
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

/* ---- Metaspace ---- */

/*
 * A copy of the piece in which spaces are the letter, with one before it where it is wanted;
 * origins are those of what is replaced, or stood before.
 */
static bool
replace_spaces(struct text_run *run, const struct splitter *splitter, uint32_t start, uint32_t end)
{
	const struct text_buffer *in = run->buffer;
	struct text_buffer *out = &run->arena->other;
	uint32_t	length = splitter->letter_length;
	uint64_t	spaces = 1;
	bool		begins = in->bytes[start] == ' ' ||
		(end - start >= length && memcmp(in->bytes + start, splitter->letter, length) == 0);
	bool		prepend = !begins && (splitter->scheme == PREPEND_ALWAYS ||
									  (splitter->scheme == PREPEND_FIRST && in->origins[start] == 0));

	for (uint32_t at = start; at < end; at++)
		spaces += in->bytes[at] == ' ';
	if (out->space < end - start + spaces * length && !arena_grow_buffer(run->arena, out, end - start + spaces * length))
		return false;
	out->used = 0;
	for (uint32_t at = start; at < end; at++)
	{
		bool		space = in->bytes[at] == ' ';

		for (uint32_t times = (at == start && prepend) + space; times > 0; times--)
			for (uint32_t i = 0; i < length; i++)
			{
				out->bytes[out->used] = (uint8_t) splitter->letter[i];
				out->origins[out->used++] = in->origins[at];
			}
		if (space)
			continue;
		out->bytes[out->used] = in->bytes[at];
		out->origins[out->used++] = in->origins[at];
	}
	run->buffer = out;
	return true;
}

/* The letter begins a word with what follows, or is one if another follows, or nothing. */
static bool
cut_at_letters(struct text_run *run, uint32_t step, const struct splitter *splitter)
{
	const struct text_buffer *buffer = run->buffer;
	uint32_t	length = splitter->letter_length, start = 0, end = buffer->used;

	while (start < end && !enough(run))
	{
		uint32_t	stop = start;
		bool		letter = end - start >= length && memcmp(buffer->bytes + start, splitter->letter, length) == 0;
		const uint8_t *next;

		if (letter)
			stop += length;
		next = memmem(buffer->bytes + stop, end - stop, splitter->letter, length);
		stop = next == NULL ? end : (uint32_t) (next - buffer->bytes);
		if (!split_from(run, step + 1, start, stop))
			return false;
		start = stop;
	}
	return true;
}

static bool
split_metaspace(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const struct splitter *splitter = &run->tokenizer->splitters[step];
	const struct text_buffer *buffer = run->buffer;
	bool		good = replace_spaces(run, splitter, start, end);

	if (good)
		good = splitter->cuts ? cut_at_letters(run, step, splitter) : split_from(run, step + 1, 0, run->buffer->used);
	run->buffer = buffer;
	return good;
}

/* ---- ByteLevel ---- */

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
model_tokens(struct text_run *run, uint32_t start, uint32_t end)
{
	switch (run->tokenizer->model)
	{
		case MODEL_WORDPIECE:
			return wordpiece_word(run, start, end);
		case MODEL_BPE:
			return bpe_word(run, start, end);
		case MODEL_UNIGRAM:
			return unigram_word(run, start, end);
		case MODEL_WORDLEVEL:
			return word_level_word(run, start, end);
	}
	return false;
}

static bool
model_word(struct text_run *run, uint32_t start, uint32_t end)
{
	bool		good = model_tokens(run, start, end);

	run->word++;
	return good;
}

bool
split_from(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const struct tokenizer *tokenizer = run->tokenizer;

	if (start == end)
		return true;
	if (step == tokenizer->splitters_count)
		return model_word(run, start, end);
	switch (tokenizer->splitters[step].kind)
	{
		case SPLIT_BERT:
			return split_bert(run, step, start, end);
		case SPLIT_SPACES:
			return split_spaces(run, step, start, end);
		case SPLIT_DIGITS:
			return split_digits(run, step, start, end);
		case SPLIT_MATCHES:
			return split_matches(run, step, start, end);
		case SPLIT_METASPACE:
			return split_metaspace(run, step, start, end);
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
