/*
 * unicode_forms.c
 *	  Canonical order, decomposition and composition: NFD, NFKD, NFC, NFKC.
 *
 * Nouns
 *	change		how a character came about, in the reference's bookkeeping: 0 for one that
 *				replaces one of the text before, 1 for one that was added behind it, -n for one
 *				that replaces one and n that follow it (rewrite_put)
 *	mark		a character of a class other than 0; marks wait until the next one of class 0
 *	composee	the character that those behind it may be composed with
 *	held		marks that could not be, and stay behind it
 *
 * The steps are those of The Unicode Standard, section 3.11, as the reference's library takes
 * them, for its changes come out of the order in which it does.
 */
#include "../text_internal.h"

#include <string.h>

#define SORT_SIMPLE		16			/* marks; more are counted into place */

struct unicode_normalizing
{
	struct tokenizer_arena *arena;
	struct rewriting rewriting;
	bool		compatible;
	bool		compose;

	bool		has_composee;
	uint32_t	composee;
	int32_t		composee_change;
	int32_t		last_class;			/* of what was held last; -1: nothing is */
};

/* Stable, by class: by insertion where there are few, by counting where there are many. */
void
marks_sort(struct pending_marks *marks)
{
	uint32_t	starts[257] = {0};

	if (marks->count <= SORT_SIMPLE)
	{
		for (uint32_t i = 0; i < marks->count; i++)
		{
			struct pending_mark mark = marks->data[i];
			uint32_t	at = i;

			for (; at > 0 && marks->sorted[at - 1].class > mark.class; at--)
				marks->sorted[at] = marks->sorted[at - 1];
			marks->sorted[at] = mark;
		}
		return;
	}
	for (uint32_t i = 0; i < marks->count; i++)
		starts[marks->data[i].class + 1]++;
	for (uint32_t class = 0; class < 256; class++)
		starts[class + 1] += starts[class];
	for (uint32_t i = 0; i < marks->count; i++)
		marks->sorted[starts[marks->data[i].class]++] = marks->data[i];
}

/* ---- composition ---- */

static bool
hold(struct unicode_normalizing *n, uint32_t point, int32_t change, uint8_t class)
{
	struct pending_marks *held = &n->arena->held;

	if (held->count == held->space && !arena_grow_marks(n->arena, held))
		return false;
	held->data[held->count++] = (struct pending_mark) {.point = point, .class = class, .first = change == 0};
	n->last_class = class;
	return true;
}

/* The composee and what is held behind it. */
static bool
compose_flush(struct unicode_normalizing *n)
{
	struct pending_marks *held = &n->arena->held;

	if (n->has_composee && !rewrite_put(n->arena, &n->rewriting, n->composee, n->composee_change))
		return false;
	for (uint32_t i = 0; i < held->count; i++)
		if (!rewrite_put(n->arena, &n->rewriting, held->data[i].point, held->data[i].first ? 0 : 1))
			return false;
	held->count = 0;
	n->has_composee = false;
	n->last_class = -1;
	return true;
}

/* A character of a decomposed text in canonical order. */
static bool
put_ordered(struct unicode_normalizing *n, uint32_t point, int32_t change, uint8_t class)
{
	uint32_t	composed = 0;

	if (!n->compose || (!n->has_composee && class != 0))
		return rewrite_put(n->arena, &n->rewriting, point, change);
	if (n->has_composee && n->last_class < (int32_t) class)
		composed = unicode_compose(n->composee, point);
	if (composed != 0)
	{
		n->composee = composed;
		n->composee_change += change - 1;
		return true;
	}
	if (class != 0)
		return hold(n, point, change, class);
	if (!compose_flush(n))
		return false;
	n->composee = point;
	n->composee_change = change;
	n->has_composee = true;
	return true;
}

/* ---- decomposition ---- */

static bool
order_flush(struct unicode_normalizing *n)
{
	struct pending_marks *marks = &n->arena->marks;

	marks_sort(marks);
	for (uint32_t i = 0; i < marks->count; i++)
		if (!put_ordered(n, marks->sorted[i].point, marks->sorted[i].first ? 0 : 1, marks->sorted[i].class))
			return false;
	marks->count = 0;
	return true;
}

static bool
put_decomposed(struct unicode_normalizing *n, uint32_t point, bool first)
{
	struct pending_marks *marks = &n->arena->marks;
	uint8_t		class = unicode_class(point);

	if (class != 0)
	{
		if (marks->count == marks->space && !arena_grow_marks(n->arena, marks))
			return false;
		marks->data[marks->count++] = (struct pending_mark) {.point = point, .class = class, .first = first};
		return true;
	}
	return (marks->count == 0 || order_flush(n)) && put_ordered(n, point, first ? 0 : 1, 0);
}

/*
 * A character that no normalization changes and that nothing behind it joins: most of them.
 * Only where nothing waits.
 */
static bool
is_settled(const struct unicode_normalizing *n, const uint8_t *at, const uint8_t *end, uint32_t point, uint32_t length)
{
	uint16_t	flags = unicode_flags(point);
	uint32_t	next, next_length;

	if (!n->compose || n->compatible || unicode_class(point) != 0 || (flags & UNICODE_JOINS) != 0 ||
		((flags & UNICODE_DECOMPOSES) != 0 && (flags & UNICODE_COMPOSED) == 0))
		return false;
	if (at + length == end)
		return true;
	next = utf8_decode(at + length, &next_length);
	flags = unicode_flags(next);
	return unicode_class(next) == 0 && (flags & UNICODE_JOINS) == 0 &&
		((flags & UNICODE_DECOMPOSES) == 0 || (flags & UNICODE_COMPOSED) != 0);
}

bool
normalize_unicode(struct tokenizer_arena *arena, bool compatible, bool compose)
{
	struct unicode_normalizing n = {.arena = arena, .compatible = compatible, .compose = compose, .last_class = -1};
	const uint8_t *at, *end;

	if (!rewrite_begin(arena, &n.rewriting))
		return false;
	arena->marks.count = arena->held.count = 0;
	at = n.rewriting.in->bytes;
	end = at + n.rewriting.in->used;
	while (at < end)
	{
		uint32_t	parts[UNICODE_MAPPED_MAX], count, length, point = utf8_decode(at, &length);

		if (arena->marks.count == 0 && is_settled(&n, at, end, point, length))
		{
			if (!compose_flush(&n) || !rewrite_put(arena, &n.rewriting, point, 0))
				return false;
			at += length;
			continue;
		}
		count = unicode_decompose(point, compatible, parts);
		for (uint32_t i = 0; i < count; i++)
			if (!put_decomposed(&n, parts[i], i == 0))
				return false;
		at += length;
	}
	if (!order_flush(&n) || !compose_flush(&n))
		return false;
	rewrite_end(arena, &n.rewriting);
	return true;
}
