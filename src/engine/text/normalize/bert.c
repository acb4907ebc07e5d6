/*
 * bert.c
 *	  The normalizer of BERT.
 *
 * The normalizer is four passes over a text in the reference: clean_text, spaces around
 * ideographs, decomposition with removal of accents, lower case.  Here they are one: every
 * character goes through all of them at once, only marks wait until the order of their
 * sequence is known.
 *
 * Origins follow the reference's bookkeeping: a character that is decomposed hands its origin
 * to all that it becomes; and where marks are put into order, the first characters of each
 * take the origins of the sequence in turn, and what was added to them follows its
 * predecessor.
 */
#include "../text_internal.h"

#include <string.h>

#include "../../../protocol/protocol.h"

#define ASCII_NOTHING	0xFF

struct normalizing
{
	const struct bert_normalizer *normalizer;
	struct tokenizer_arena *arena;
	uint32_t	last_origin;		/* of the last character with an origin of its own */
};

/* The ideographs of BERT: not every block of them, nor kana or hangul. */
static bool
is_ideograph(uint32_t point)
{
	return (point >= 0x4E00 && point <= 0x9FFF) || (point >= 0x3400 && point <= 0x4DBF) ||
		(point >= 0x20000 && point <= 0x2A6DF) || (point >= 0x2A700 && point <= 0x2B73F) ||
		(point >= 0x2B740 && point <= 0x2B81F) || (point >= 0x2B920 && point <= 0x2CEAF) ||
		(point >= 0xF900 && point <= 0xFAFF) || (point >= 0x2F800 && point <= 0x2FA1F);
}

static bool
is_cleaned_space(uint32_t point, uint16_t flags)
{
	return (flags & UNICODE_SPACE) != 0 || point == '\t' || point == '\n' || point == '\r';
}

void
bert_prepare(struct bert_normalizer *normalizer)
{
	for (uint32_t c = 0; c < 128; c++)
	{
		uint32_t	to = c;

		if (normalizer->clean_text && (unicode_flags(c) & UNICODE_DROPPED) != 0)
			to = ASCII_NOTHING;
		else if (normalizer->clean_text && is_cleaned_space(c, unicode_flags(c)))
			to = ' ';
		else if (normalizer->lowercase && c >= 'A' && c <= 'Z')
			to = c + 'a' - 'A';
		normalizer->ascii[c] = (uint8_t) to;
	}
}

/* ---- writing ---- */

/* What is left of the passes behind the order of marks: accents go, case goes. */
static bool
write_normalized(struct normalizing *n, uint32_t point, uint32_t origin)
{
	uint16_t	flags = unicode_flags(point);
	uint32_t	lower[UNICODE_MAPPED_MAX], count;

	if (n->normalizer->strip_accents && (flags & UNICODE_MARK) != 0)
		return true;
	if (!n->normalizer->lowercase || (flags & UNICODE_LOWERS) == 0)
		return text_put(n->arena, &n->arena->buffer, point, origin);
	count = unicode_lower(point, lower);
	for (uint32_t i = 0; i < count; i++)
		if (!text_put(n->arena, &n->arena->buffer, lower[i], origin))
			return false;
	return true;
}

/* ---- the order of marks ---- */

/* Writes the marks that wait, in their canonical order. */
static bool
flush_marks(struct normalizing *n)
{
	struct pending_marks *marks = &n->arena->marks;
	uint32_t	next = 0;			/* the next in the old order that has an origin of its own */

	marks_sort(marks);
	for (uint32_t i = 0; i < marks->count; i++)
	{
		if (marks->sorted[i].first)
		{
			while (!marks->data[next].first)
				next++;
			n->last_origin = marks->data[next++].origin;
		}
		if (!write_normalized(n, marks->sorted[i].point, n->last_origin))
			return false;
	}
	marks->count = 0;
	return true;
}

/* A character of a decomposed text. */
static bool
put_decomposed(struct normalizing *n, uint32_t point, uint32_t origin, bool first)
{
	struct pending_marks *marks = &n->arena->marks;
	uint8_t		class = unicode_class(point);

	if (class != 0)
	{
		if (marks->count == marks->space && !arena_grow_marks(n->arena, marks))
			return false;
		marks->data[marks->count++] = (struct pending_mark) {point, origin, class, first};
		return true;
	}
	if (marks->count > 0 && !flush_marks(n))
		return false;
	if (first)
		n->last_origin = origin;
	return write_normalized(n, point, n->last_origin);
}

/* ---- characters ---- */

static bool
put_point(struct normalizing *n, uint32_t point, uint32_t origin)
{
	uint32_t	parts[UNICODE_MAPPED_MAX], count;

	if (!n->normalizer->strip_accents)
		return write_normalized(n, point, origin);
	if ((unicode_flags(point) & UNICODE_DECOMPOSES) == 0)
		return put_decomposed(n, point, origin, true);
	count = unicode_decompose(point, false, parts);
	for (uint32_t i = 0; i < count; i++)
		if (!put_decomposed(n, parts[i], origin, i == 0))
			return false;
	return true;
}

/* What is no ASCII character goes through every pass. */
static bool
put_character(struct normalizing *n, uint32_t point, uint32_t origin)
{
	const struct bert_normalizer *normalizer = n->normalizer;

	if (normalizer->clean_text)
	{
		uint16_t	flags = unicode_flags(point);

		if ((flags & UNICODE_DROPPED) != 0)
			return true;
		if (is_cleaned_space(point, flags))
			point = ' ';
	}
	if (normalizer->handle_chinese_chars && is_ideograph(point))
		return put_point(n, ' ', origin) && put_point(n, point, origin) && put_point(n, ' ', origin);
	return put_point(n, point, origin);
}

bool
bert_normalize(const struct bert_normalizer *normalizer, struct tokenizer_arena *arena,
			   const uint8_t *text, size_t size, uint32_t character)
{
	struct normalizing n = {normalizer, arena};
	struct text_buffer *buffer = &arena->buffer;

	if (buffer->space - buffer->used < size && !arena_grow_buffer(arena, buffer, buffer->used + (uint32_t) size))
		return false;
	arena->marks.count = 0;
	for (size_t at = 0; at < size; character++)
	{
		uint32_t	length, point;

		if (text[at] < 0x80)
		{
			uint8_t		to = normalizer->ascii[text[at++]];

			if (to == ASCII_NOTHING)
				continue;
			if (arena->marks.count > 0 && !flush_marks(&n))
				return false;
			n.last_origin = character;
			if (buffer->used == buffer->space && !arena_grow_buffer(arena, buffer, buffer->used + 1))
				return false;
			buffer->bytes[buffer->used] = to;
			buffer->origins[buffer->used++] = character;
			continue;
		}
		point = utf8_decode(text + at, &length);
		at += length;
		if (!put_character(&n, point, character))
			return false;
	}
	return flush_marks(&n);
}
