/*
 * patterns.c
 *	  The regular expressions that byte-level models cut texts with, written out.
 *
 * There are a few in use, in several spellings.  Each matches at every place (CLIP's and that of words
 * not at white space), so that matches follow one another without gaps; alternatives are tried in order,
 * and each takes as much as it can:
 *
 *	an apostrophe and one of s t re ve m ll d
 *	letters, with a space (GPT-2) or any one character but a line's end before them
 *	numbers, with a space before them (GPT-2), or three or one at a time
 *	what is no space, letter or number, with a space before it (and line's ends behind it)
 *	spaces to the last line's end (not GPT-2)
 *	spaces but for the last, where something else follows; spaces
 *
 * o200k and tekken cut letters where a small one is followed by a capital one: see match_cased.
 *
 * Where case is ignored, U+017F is an s: the only other character that is folded to one of
 * these.
 */
#include "../text_internal.h"

#include <string.h>

#define CONTRACTIONS	"'s|'t|'re|'ve|'m|'ll|'d"
#define SPACES			"\\s+(?!\\S)|\\s+"
#define BEFORE			"[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER			"[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER			"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define MARKS			" ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"
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
	{"(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" SPACES, PATTERN_ONE_DIGIT},
	{BEFORE UPPER "*" LOWER "+(?i:" CONTRACTIONS ")?|" BEFORE UPPER "+" LOWER "*(?i:" CONTRACTIONS ")?|\\p{N}{1,3}|" MARKS SPACES, PATTERN_CASED},
	{BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER "*|\\p{N}|" MARKS SPACES, PATTERN_CASED_PLAIN},
	{CONTRACTIONS "|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+", PATTERN_CLIP}
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

/* Spaces to the last line's end, else as above. */
static uint32_t
lines_or_spaces(const struct scan *scan, uint32_t at)
{
	uint32_t	stop = run_of(scan, at, CLASS_SPACE, UINT32_MAX);

	while (stop > at && !is_line_end(scan, stop - 1))
		stop--;
	return stop > at ? stop : spaces(scan, at);
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
	return lines_or_spaces(scan, at);
}

/* Behind the characters from a place on that have one of these flags. */
static uint32_t
run_with(const struct scan *scan, uint32_t at, uint16_t flags)
{
	uint32_t	length;

	while (at < scan->end && (unicode_flags(utf8_decode(scan->bytes + at, &length)) & flags) != 0)
		at += length;
	return at;
}

/*
 * Characters that are no small letters, and then at least one that is no capital one.  Letters
 * without case, and marks, are of both kinds: of the first ones, so many are given back that the last one
 * is of the second kind.  At itself: there are none.
 */
static uint32_t
capitals_and_small(const struct scan *scan, uint32_t at)
{
	uint32_t	stop = run_with(scan, at, UNICODE_NOT_SMALL), small = run_with(scan, stop, UNICODE_NOT_CAPITAL), length;

	if (small > stop)
		return small;
	while (stop > at && (unicode_flags(utf8_before(scan->bytes + stop, &length)) & UNICODE_NOT_CAPITAL) == 0)
		stop -= length;
	return stop;
}

static uint32_t
capitals(const struct scan *scan, uint32_t at)
{
	return run_with(scan, at, UNICODE_NOT_SMALL);	/* small ones behind them are the other alternative's */
}

/* The end of letters by case, with one other character before them or without; at: there are none. */
static uint32_t
cased_letters(const struct scan *scan, uint32_t at, uint32_t next, bool before)
{
	uint32_t	stop = before ? capitals_and_small(scan, next) : at;

	if (before && stop > next)
		return stop;
	stop = capitals_and_small(scan, at);
	if (stop > at)
		return stop;
	stop = before ? capitals(scan, next) : at;
	if (before && stop > next)
		return stop;
	return capitals(scan, at);
}

static uint32_t
match_cased(const struct scan *scan, uint32_t at, uint32_t digits, bool contractions)
{
	uint32_t	next, behind, stop;
	enum class class = class_at(scan, at, &next);

	stop = cased_letters(scan, at, next, class != CLASS_LETTER && class != CLASS_NUMBER && !is_line_end(scan, at));
	if (stop > at)
		return contractions && stop < scan->end ? contraction(scan, stop, true) : stop;
	if (class == CLASS_NUMBER)
		return run_of(scan, next, CLASS_NUMBER, digits - 1);
	if (class == CLASS_OTHER ||
		(scan->bytes[at] == ' ' && next < scan->end && class_at(scan, next, &behind) == CLASS_OTHER))
	{
		stop = run_of(scan, next, CLASS_OTHER, UINT32_MAX);
		while (is_line_end(scan, stop) || (stop < scan->end && scan->bytes[stop] == '/'))
			stop++;
		return stop;
	}
	return lines_or_spaces(scan, at);
}

static uint32_t
match_clip(const struct scan *scan, uint32_t at)
{
	uint32_t	next, stop = contraction(scan, at, false);
	enum class class = class_at(scan, at, &next);

	if (stop > at || class == CLASS_SPACE)
		return stop;
	return class == CLASS_NUMBER ? next : run_of(scan, next, class, UINT32_MAX);
}

/* Characters of words, or others that are no white space. */
static uint32_t
match_words(const struct scan *scan, uint32_t at)
{
	uint32_t	stop = run_with(scan, at, UNICODE_WORD), length;

	if (stop > at)
		return stop;
	while (stop < scan->end && (unicode_flags(utf8_decode(scan->bytes + stop, &length)) & (UNICODE_WORD | UNICODE_SPACE)) == 0)
		stop += length;
	return stop;
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
		case PATTERN_CASED:
			return match_cased(&scan, at, 3, true);
		case PATTERN_CASED_PLAIN:
			return match_cased(&scan, at, 1, false);
		case PATTERN_CLIP:
			return match_clip(&scan, at);
		case PATTERN_WORDS:
			return match_words(&scan, at);
		case PATTERN_NONE:
			break;
	}
	return end;
}
