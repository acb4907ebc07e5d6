/*
 * patterns.c
 *	  The regular expressions that byte-level models cut texts with, written out.
 *
 * There are three in use, in several spellings.  Each matches at every place, so that matches
 * follow one another without gaps; alternatives are tried in order, and each takes as much as
 * it can:
 *
 *	an apostrophe and one of s t re ve m ll d
 *	letters, with a space (GPT-2) or any one character but a line's end before them
 *	numbers, with a space before them (GPT-2), or three or one at a time
 *	what is no space, letter or number, with a space before it (and line's ends behind it)
 *	spaces to the last line's end (not GPT-2)
 *	spaces but for the last, where something else follows; spaces
 *
 * Where case is ignored, U+017F is an s: the only other character that is folded to one of
 * these.
 */
#include "text_internal.h"

#include <string.h>

#define CONTRACTIONS	"'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES			"\\s+(?!\\S)|\\s+"
#define LONG_S			0x17F

enum class
{
	CLASS_LETTER,
	CLASS_NUMBER,
	CLASS_SPACE,
	CLASS_OTHER
};

static const struct
{
	const char *regex;
	enum pattern pattern;
}			known[] = {
	{CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES, PATTERN_GPT2},
	{"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES, PATTERN_THREE_DIGITS},
	{"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|" SPACES, PATTERN_THREE_DIGITS},
	{"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|" SPACES, PATTERN_THREE_DIGITS},
	{"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES, PATTERN_ONE_DIGIT}
};

struct scan
{
	const uint8_t *bytes;
	uint32_t	end;
};

enum pattern
pattern_find(const char *regex)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strcmp(regex, known[i].regex) == 0)
			return known[i].pattern;
	return PATTERN_NONE;
}

/* The class of the character at a place, and where the next one is. */
static enum class
class_at(const struct scan *scan, uint32_t at, uint32_t *next)
{
	uint32_t	length, point = utf8_decode(scan->bytes + at, &length);
	uint16_t	flags = unicode_flags(point);

	*next = at + length;
	return (flags & UNICODE_LETTER) != 0 ? CLASS_LETTER : (flags & UNICODE_NUMBER) != 0 ? CLASS_NUMBER :
		(flags & UNICODE_SPACE) != 0 ? CLASS_SPACE : CLASS_OTHER;
}

/* Behind at most so many characters of a class from a place on. */
static uint32_t
run_of(const struct scan *scan, uint32_t at, enum class class, uint32_t most)
{
	uint32_t	next;

	while (most > 0 && at < scan->end && class_at(scan, at, &next) == class)
	{
		at = next;
		most--;
	}
	return at;
}

static bool
is_line_end(const struct scan *scan, uint32_t at)
{
	return at < scan->end && (scan->bytes[at] == '\r' || scan->bytes[at] == '\n');
}

/* Behind an apostrophe and what belongs to it; at itself: there is none. */
static uint32_t
contraction(const struct scan *scan, uint32_t at, bool any_case)
{
	uint32_t	length, first, second;

	if (scan->end - at < 2 || scan->bytes[at] != '\'')
		return at;
	first = utf8_decode(scan->bytes + at + 1, &length);
	if (any_case)
		first = first == LONG_S ? 's' : first >= 'A' && first <= 'Z' ? first + 'a' - 'A' : first;
	if (first == 's' || first == 't' || first == 'm' || first == 'd')
		return at + 1 + length;
	if (scan->end - at < 3)
		return at;
	second = scan->bytes[at + 2];
	if (any_case && second >= 'A' && second <= 'Z')
		second += 'a' - 'A';
	if (((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l'))
		return at + 3;
	return at;
}

/* Spaces: all but the last one if something follows, but at least one. */
static uint32_t
spaces(const struct scan *scan, uint32_t at)
{
	uint32_t	stop = run_of(scan, at, CLASS_SPACE, UINT32_MAX), length;

	if (stop == scan->end)
		return stop;
	utf8_before(scan->bytes + stop, &length);
	return stop - length > at ? stop - length : stop;
}

static uint32_t
match_gpt2(const struct scan *scan, uint32_t at)
{
	uint32_t	start = at, next, stop = contraction(scan, at, false);
	enum class class;

	if (stop > at)
		return stop;
	if (scan->bytes[at] == ' ' && at + 1 < scan->end)
		start++;
	class = class_at(scan, start, &next);
	if (class != CLASS_SPACE)
		return run_of(scan, next, class, UINT32_MAX);
	return spaces(scan, at);
}

static uint32_t
match_lines(const struct scan *scan, uint32_t at, uint32_t digits)
{
	uint32_t	next, behind, stop = contraction(scan, at, true);
	enum class class = class_at(scan, at, &next);

	if (stop > at)
		return stop;
	if (class == CLASS_LETTER)
		return run_of(scan, next, CLASS_LETTER, UINT32_MAX);
	if (class == CLASS_NUMBER)
		return run_of(scan, next, CLASS_NUMBER, digits - 1);
	if (!is_line_end(scan, at) && next < scan->end && class_at(scan, next, &behind) == CLASS_LETTER)
		return run_of(scan, behind, CLASS_LETTER, UINT32_MAX);
	if (class == CLASS_OTHER ||
		(scan->bytes[at] == ' ' && next < scan->end && class_at(scan, next, &behind) == CLASS_OTHER))
	{
		stop = run_of(scan, next, CLASS_OTHER, UINT32_MAX);
		while (is_line_end(scan, stop))
			stop++;
		return stop;
	}
	stop = run_of(scan, at, CLASS_SPACE, UINT32_MAX);
	while (stop > at && !is_line_end(scan, stop - 1))
		stop--;
	return stop > at ? stop : spaces(scan, at);
}

uint32_t
pattern_match(enum pattern pattern, const uint8_t *bytes, uint32_t at, uint32_t end)
{
	struct scan scan = {bytes, end};

	switch (pattern)
	{
		case PATTERN_GPT2:
			return match_gpt2(&scan, at);
		case PATTERN_THREE_DIGITS:
			return match_lines(&scan, at, 3);
		case PATTERN_ONE_DIGIT:
			return match_lines(&scan, at, 1);
		case PATTERN_NONE:
			break;
	}
	return end;
}
