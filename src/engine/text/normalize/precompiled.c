/*
 * precompiled.c
 *	  SentencePiece's normalizer: a table from texts to texts, which the file carries.
 *
 * The table is a double array (darts-clone's): a unit says which byte leads to it, whether a
 * text ends there, and where its children are; a child that no byte leads to holds the place
 * of the text to write.
 *
 * As the reference looks texts up: a grapheme cluster of fewer than 6 bytes as a whole, else
 * (or if it is not there) its characters one by one; and what is found is the shortest text of
 * the table that it begins with, in whose place all of it goes.
 */
#include "../text_internal.h"

#include <string.h>

#define CLUSTER_BYTES	6			/* so many are too many to be looked up as one */

struct replacing					/* with the last character kept back: what vanishes is its change */
{
	struct tokenizer_arena *arena;
	struct rewriting rewriting;
	bool		has_last;
	uint32_t	last;
	int32_t		change;
};

/* ---- the table ---- */

static uint32_t
unit_offset(uint32_t unit)
{
	return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

/* The text for the shortest beginning that has one, and its length; NULL: there is none. */
static const char *
find(const struct normalizer *step, const uint8_t *text, size_t size, uint32_t *length)
{
	uint32_t	node = unit_offset(step->units[0]);

	for (size_t i = 0; i < size && text[i] != 0; i++)
	{
		uint32_t	unit;

		node ^= text[i];
		if (node >= step->units_count)
			return NULL;
		unit = step->units[node];
		if ((unit & (1u << 31 | 0xFF)) != text[i])
			return NULL;
		node ^= unit_offset(unit);
		if ((unit >> 8 & 1) != 0)
		{
			uint32_t	place = node < step->units_count ? step->units[node] & ((1u << 31) - 1) : UINT32_MAX;

			if (place > step->texts_bytes)
				return NULL;
			*length = (uint32_t) strlen(step->texts + place);
			return utf8_continues((uint8_t) step->texts[place]) ? NULL : step->texts + place;
		}
	}
	return NULL;
}

/* ---- writing ---- */

static bool
put(struct replacing *r, uint32_t point, int32_t change)
{
	bool		good = !r->has_last || rewrite_put(r->arena, &r->rewriting, r->last, r->change);

	r->has_last = true;
	r->last = point;
	r->change = change;
	return good;
}

/* Characters of a text that stands for count others: the last ones are added, or count for more. */
static bool
put_text(struct replacing *r, const char *text, uint32_t length, uint32_t count)
{
	const uint8_t *at = (const uint8_t *) text, *end = at + length;
	uint32_t	characters = utf8_characters(at, length);
	uint32_t	size;

	for (uint32_t i = 0; at < end; i++, at += size)
		if (!put(r, utf8_decode(at, &size), i >= count))
			return false;
	if (characters < count)
		r->change -= (int32_t) (count - characters);
	return true;
}

/* A cluster or a character; false: it is not in the table, or there is no memory. */
static bool
put_found(struct replacing *r, const struct normalizer *step, const uint8_t *text, size_t size, bool *good)
{
	uint32_t	length;
	const char *found = find(step, text, size, &length);

	if (found != NULL)
		*good = put_text(r, found, length, utf8_characters(text, size));
	return found != NULL;
}

bool
normalize_precompiled(struct tokenizer_arena *arena, const struct normalizer *step)
{
	struct replacing r = {.arena = arena};
	const uint8_t *text;
	size_t		size, stop;
	bool		good = rewrite_begin(arena, &r.rewriting);

	text = arena->buffer.bytes;
	size = arena->buffer.used;
	for (size_t at = 0; good && at < size; at = stop)
	{
		stop = unicode_cluster_end(text, at, size);
		if (stop - at < CLUSTER_BYTES && put_found(&r, step, text + at, stop - at, &good))
			continue;
		for (uint32_t length; good && at < stop; at += length)
		{
			uint32_t	point = utf8_decode(text + at, &length);

			if (!put_found(&r, step, text + at, length, &good))
				good = put(&r, point, 0);
		}
	}
	good = good && (!r.has_last || rewrite_put(arena, &r.rewriting, r.last, r.change));
	rewrite_end(arena, &r.rewriting);
	return good;
}
