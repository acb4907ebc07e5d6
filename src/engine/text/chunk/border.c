/*
 * border.c
 *	  Ends of words, sentences and paragraphs, by rules that know no language: after Unicode
 *	  Standard Annex #29, sections 4 and 5, simplified.
 */
#include "border.h"

#include "../unicode/unicode.h"

#define CLOSING_MAX		8			/* characters that close behind the end of a sentence */

#define LINE_FEED		0x0A
#define RETURN			0x0D
#define NEXT_LINE		0x85
#define LINE_SEPARATOR	0x2028
#define PARAGRAPH_SEPARATOR	0x2029

struct range
{
	uint32_t	first;
	uint32_t	last;
};

static bool
in_ranges(uint32_t point, const struct range *ranges, size_t count)
{
	for (size_t i = 0; i < count && point >= ranges[i].first; i++)
		if (point <= ranges[i].last)
			return true;
	return false;
}

#define IN_RANGES(point, ranges)	in_ranges(point, ranges, sizeof(ranges) / sizeof(*(ranges)))

static bool
is_space(uint32_t point)
{
	return (unicode_flags(point) & UNICODE_SPACE) != 0;
}

/* What ends a sentence where white space follows. */
static bool
is_terminator(uint32_t point)
{
	static const struct range others[] = {
		{0x0589, 0x0589}, {0x061D, 0x061F}, {0x06D4, 0x06D4}, {0x0700, 0x0702}, {0x07F9, 0x07F9}, {0x0964, 0x0965},
		{0x104A, 0x104B}, {0x1362, 0x1362}, {0x1367, 0x1368}, {0x166E, 0x166E}, {0x17D4, 0x17D5}, {0x1803, 0x1803},
		{0x1809, 0x1809}, {0x1944, 0x1945}, {0x1B5A, 0x1B5B}, {0x1C3B, 0x1C3C}, {0x1C7E, 0x1C7F}, {0x2026, 0x2026},
		{0x203C, 0x203D}, {0x2047, 0x2049}, {0x2E2E, 0x2E2E}, {0xA4FF, 0xA4FF}, {0xA60E, 0xA60F}, {0xA6F3, 0xA6F3},
		{0xA876, 0xA877}, {0xAA5D, 0xAA5F}, {0xABEB, 0xABEB}, {0xFE52, 0xFE52}, {0xFE56, 0xFE57}
	};

	return point < 0x80 ? point == '.' || point == '!' || point == '?' : IN_RANGES(point, others);
}

/* What ends one whatever follows. */
static bool
is_wide_terminator(uint32_t point)
{
	return point == 0x3002 || point == 0xFF01 || point == 0xFF0E || point == 0xFF1F || point == 0xFF61;
}

static bool
is_closing(uint32_t point)
{
	static const struct range others[] = {
		{0xBB, 0xBB}, {0x2019, 0x2019}, {0x201C, 0x201D}, {0x203A, 0x203A}, {0x207E, 0x207E}, {0x2769, 0x2769}, {0x3009, 0x3009},
		{0x300B, 0x300B}, {0x300D, 0x300D}, {0x300F, 0x300F}, {0x3011, 0x3011}, {0x3015, 0x3015}, {0x3017, 0x3017},
		{0x3019, 0x3019}, {0x301B, 0x301B}, {0x301E, 0x301F}, {0xFF09, 0xFF09}, {0xFF3D, 0xFF3D}, {0xFF5D, 0xFF5D}, {0xFF60, 0xFF60},
		{0xFF63, 0xFF63}
	};

	if (point < 0x80)
		return point == '"' || point == '\'' || point == ')' || point == ']' || point == '}';
	return IN_RANGES(point, others);
}

static bool
is_opening(uint32_t point)
{
	static const struct range others[] = {
		{0xA1, 0xA1}, {0xAB, 0xAB}, {0xBF, 0xBF}, {0x2018, 0x2018}, {0x201A, 0x201C}, {0x201E, 0x201E}, {0x2039, 0x2039}, {0x3008, 0x3008},
		{0x300A, 0x300A}, {0x300C, 0x300C}, {0x300E, 0x300E}, {0x3010, 0x3010}, {0x3014, 0x3014}, {0x3016, 0x3016},
		{0x3018, 0x3018}, {0x301A, 0x301A}, {0x301D, 0x301D}, {0xFF08, 0xFF08}, {0xFF3B, 0xFF3B}, {0xFF5B, 0xFF5B}, {0xFF5F, 0xFF5F},
		{0xFF62, 0xFF62}
	};

	if (point < 0x80)
		return point == '(' || point == '[' || point == '{';
	return IN_RANGES(point, others);
}

/* Scripts that put no spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, kana, ideographs. */
static bool
is_unspaced(uint32_t point)
{
	static const struct range scripts[] = {
		{0x0E00, 0x0FFF}, {0x1000, 0x109F}, {0x1780, 0x17FF}, {0x1950, 0x19FF}, {0x1A20, 0x1AAF}, {0x2E80, 0x312F}, {0x3190, 0xA4CF},
		{0xA9E0, 0xA9FF}, {0xAA60, 0xAADF}, {0xF900, 0xFAFF}, {0xFE30, 0xFE4F}, {0xFF00, 0xFF9F}, {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF},
		{0x20000, 0x3FFFF}
	};

	return point >= 0x0E00 && IN_RANGES(point, scripts);
}

/* What belongs to a word: don't and o'clock are one. */
static bool
is_of_word(uint32_t point)
{
	return (unicode_flags(point) & UNICODE_WORD) != 0 || point == '\'' || point == 0x2019;
}

static bool
is_capital(uint32_t point)
{
	return (unicode_flags(point) & (UNICODE_LETTER | UNICODE_LOWERS)) == (UNICODE_LETTER | UNICODE_LOWERS);
}

/* Small letters of the scripts that have others: Latin, Greek, Cyrillic, Armenian. */
static bool
is_small(uint32_t point)
{
	static const struct range scripts[] = {{'a', 'z'}, {0xDF, 0x24F}, {0x370, 0x58F}, {0x1E00, 0x1FFF}};

	return (unicode_flags(point) & (UNICODE_LETTER | UNICODE_LOWERS)) == UNICODE_LETTER && IN_RANGES(point, scripts);
}

size_t
border_skip_spaces(const uint8_t *text, size_t at, size_t size)
{
	uint32_t	length;

	while (at < size && is_space(utf8_decode(text + at, &length)))
		at += length;
	return at;
}

bool
border_is_before_space(const uint8_t *text, size_t at, size_t size)
{
	uint32_t	length;

	return at < size && is_space(utf8_decode(text + at, &length));
}

bool
border_is_behind_space(const uint8_t *text, size_t at)
{
	uint32_t	length;

	return at > 0 && is_space(utf8_before(text + at, &length));
}

/* Whether the white space at a place has an empty line in it, or is the end. */
static bool
is_paragraph_end(const uint8_t *text, size_t at, size_t size)
{
	uint32_t	lines = 0, length, point;

	for (; at < size && lines < 2; at += length)
	{
		point = utf8_decode(text + at, &length);
		if (!is_space(point))
			return false;
		if (point == RETURN && at + 1 < size && text[at + 1] == LINE_FEED)
			length = 2;
		if (point == PARAGRAPH_SEPARATOR)
			lines = 2;
		else
			lines += point == LINE_FEED || point == RETURN || point == NEXT_LINE || point == LINE_SEPARATOR;
	}
	return true;
}

/* A full stop (its place is given) of an initial, or within a sentence by what follows. */
static bool
is_inner_stop(const uint8_t *text, size_t stop, size_t behind, size_t size)
{
	uint32_t	length, before;

	behind = border_skip_spaces(text, behind, size);
	if (behind < size && is_small(utf8_decode(text + behind, &length)))
		return true;
	if (stop == 0 || !is_capital(utf8_before(text + stop, &length)))
		return false;
	stop -= length;
	before = stop == 0 ? ' ' : utf8_before(text + stop, &length);
	return !is_of_word(before);
}

/* Whether a sentence ends at a place; space: white space, or the end, follows. */
static bool
is_sentence_end(const uint8_t *text, size_t at, size_t size, bool space)
{
	size_t		end = at;
	uint32_t	length, point = 0, next;

	for (int i = 0; i <= CLOSING_MAX && end > 0; i++)
	{
		point = utf8_before(text + end, &length);
		if (!is_closing(point))
			break;
		end -= length;
	}
	if (end == 0)
		return false;
	if (is_wide_terminator(point))
	{
		next = at == size ? ' ' : utf8_decode(text + at, &length);
		return !is_closing(next) && !is_wide_terminator(next) && !is_terminator(next);
	}
	if (!space || !is_terminator(point))
		return false;
	return (point != '.' && point != 0x2026) || !is_inner_stop(text, end - length, at, size);
}

enum border
border_at(const uint8_t *text, size_t at, size_t size, bool token)
{
	uint32_t	length, before, behind;

	if (at == 0 || at == size)
		return BORDER_PARAGRAPH;
	before = utf8_before(text + at, &length);
	behind = utf8_decode(text + at, &length);
	if (is_space(behind))
	{
		if (is_paragraph_end(text, at, size))
			return BORDER_PARAGRAPH;
		return is_sentence_end(text, at, size, true) ? BORDER_SENTENCE : BORDER_WORD;
	}
	if (is_space(before))
		return BORDER_WORD;
	if ((before >= 0x80 || is_closing(before)) && is_sentence_end(text, at, size, false))
		return BORDER_SENTENCE;
	if (!token)
		return BORDER_CLUSTER;
	if (is_opening(before) || is_closing(behind) || is_terminator(behind))
		return BORDER_TOKEN;
	if (is_unspaced(before) || is_unspaced(behind))
		return is_wide_terminator(behind) || behind == 0x3001 || behind == 0xFF0C ? BORDER_TOKEN : BORDER_WORD;
	return is_of_word(before) && is_of_word(behind) ? BORDER_TOKEN : BORDER_PART;
}
