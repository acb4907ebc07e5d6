/*
 * matches.c
 *	  Cutting a piece at matches of a text, a class of characters or a pattern, and what becomes of
 *	  the matches: the reference's SplitDelimiterBehavior.
 *
 * Matches and what lies between them come in the order of the text; one of them at most is
 * held back, until it is known whether the next one joins it.
 */
#include "../text_internal.h"

#include <string.h>

struct matching
{
	struct text_run *run;
	uint32_t	step;
	const struct splitter *splitter;
	uint32_t	start;				/* of what is held; as end: nothing */
	uint32_t	end;
	bool		match;				/* it is one, or ends with one */
};

static bool
next_match(const struct splitter *splitter, const uint8_t *bytes, uint32_t at, uint32_t end, uint32_t *start,
		   uint32_t *stop)
{
	const uint8_t *found;

	switch (splitter->match)
	{
		case MATCH_TEXT:
			found = memmem(bytes + at, end - at, splitter->literal, splitter->literal_length);
			*start = found == NULL ? end : (uint32_t) (found - bytes);
			*stop = *start + splitter->literal_length;
			return found != NULL;
		case MATCH_CLASS:
			return class_next(&splitter->class, bytes, at, end, start, stop);
		case MATCH_PATTERN:
			for (uint32_t length; at < end; at += length)
			{
				*start = at;
				*stop = pattern_match(splitter->pattern, bytes, at, end);
				if (*stop > at)
					return true;
				utf8_decode(bytes + at, &length);
			}
			return false;
	}
	return false;
}

static bool
let_go(struct matching *matching)
{
	uint32_t	start = matching->start;

	matching->start = matching->end;
	return split_from(matching->run, matching->step + 1, start, matching->end);
}

/* Whether what is held and what follows it are one. */
static bool
joins(const struct matching *matching, bool match)
{
	switch (matching->splitter->behavior)
	{
		case BEHAVIOR_CONTIGUOUS:
			return match == matching->match;
		case BEHAVIOR_PREVIOUS:
			return match && !matching->match;
		case BEHAVIOR_NEXT:
			return !match && matching->match;
		case BEHAVIOR_ISOLATED:
		case BEHAVIOR_REMOVED:
			break;
	}
	return false;
}

static bool
add_piece(struct matching *matching, uint32_t start, uint32_t end, bool match)
{
	match = match != matching->splitter->invert;
	if (start == end || (match && matching->splitter->behavior == BEHAVIOR_REMOVED))
		return true;
	if (matching->start == matching->end || !joins(matching, match))
	{
		if (!let_go(matching))
			return false;
		matching->start = start;
	}
	matching->end = end;
	matching->match = match;
	return true;
}

bool
split_matches(struct text_run *run, uint32_t step, uint32_t start, uint32_t end)
{
	const struct splitter *splitter = &run->tokenizer->splitters[step];
	struct matching matching = {.run = run, .step = step, .splitter = splitter, .start = start, .end = start};
	uint32_t	first, stop;

	while (start < end && run->tokens->count < run->enough && next_match(splitter, run->buffer->bytes, start, end, &first, &stop))
	{
		if (!add_piece(&matching, start, first, false) || !add_piece(&matching, first, stop, true))
			return false;
		start = stop;
	}
	return run->tokens->count >= run->enough || (add_piece(&matching, start, end, false) && let_go(&matching));
}
