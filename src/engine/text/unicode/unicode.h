/*
 * unicode.h
 *	  UTF-8, and what characters are to the reference library.
 *
 * The tables are written by script/unicode-tables, which asks the reference about every code
 * point and says why no Unicode library will do.  With them ids depend neither on the C
 * library nor on the release of the operating system.
 */
#ifndef ENGINE_TEXT_UNICODE_H
#define ENGINE_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNICODE_MAPPED_MAX	20		/* characters of one decomposition or lower case, at most */

/* Bits of unicode_flags. */
#define UNICODE_DROPPED		0x0001	/* what clean_text removes: controls, formats, U+FFFD */
#define UNICODE_SPACE		0x0002	/* White_Space; \s of every regular expression */
#define UNICODE_PUNCTUATION	0x0004	/* general category P, and ASCII punctuation */
#define UNICODE_MARK		0x0008	/* what BERT's strip_accents removes: general category Mn */
#define UNICODE_DECOMPOSES	0x0010	/* has a canonical decomposition, Hangul included */
#define UNICODE_LOWERS		0x0020	/* has another lower case */
#define UNICODE_WORD		0x0040	/* \w around added tokens */
#define UNICODE_LETTER		0x0080	/* \p{L} of pre-tokenizers */
#define UNICODE_NUMBER		0x0100	/* \p{N} of pre-tokenizers */
#define UNICODE_NUMERIC		0x0200	/* what Digits takes for a number: of a newer Unicode */
#define UNICODE_COMBINING	0x0400	/* what StripAccents removes: general category M */
#define UNICODE_COMPOSED	0x0800	/* decomposes, and is composed again */
#define UNICODE_JOINS		0x1000	/* may be composed with what is before it */
#define UNICODE_NOT_SMALL	0x2000	/* letters but small ones, and marks: [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
#define UNICODE_NOT_CAPITAL	0x4000	/* letters but capital ones, and marks: [\p{Ll}\p{Lm}\p{Lo}\p{M}] */

extern uint16_t unicode_flags(uint32_t point);

/* Canonical_Combining_Class: 0 for what starts a sequence. */
extern uint8_t unicode_class(uint32_t point);

/*
 * How a character joins its neighbours to a grapheme cluster (UAX 29): Grapheme_Cluster_Break
 * and Indic_Conjunct_Break in one.  Hangul and regional indicators are OTHER; cluster.c
 * knows them.
 */
#define CLUSTER_OTHER		0
#define CLUSTER_CONTROL		1		/* CR and LF included */
#define CLUSTER_PREPEND		2
#define CLUSTER_SPACING		3		/* SpacingMark */
#define CLUSTER_EXTEND		4
#define CLUSTER_JOINING		5		/* Extend, between the consonants of a conjunct; ZWJ */
#define CLUSTER_LINKER		6		/* Extend, and links them */
#define CLUSTER_CONSONANT	7
#define CLUSTER_PICTOGRAPH	8		/* Extended_Pictographic */

extern uint8_t unicode_cluster(uint32_t point);

/* The end of the grapheme cluster that begins at a place of checked text. */
extern size_t unicode_cluster_end(const uint8_t *text, size_t at, size_t size);

/* The full decomposition, canonical or for compatibility, or the lower case; returns how many
 * characters. */
extern uint32_t unicode_decompose(uint32_t point, bool compatible, uint32_t to[UNICODE_MAPPED_MAX]);
extern uint32_t unicode_lower(uint32_t point, uint32_t to[UNICODE_MAPPED_MAX]);

/* What two characters are composed to; 0: nothing. */
extern uint32_t unicode_compose(uint32_t first, uint32_t second);

/* Whether bytes are UTF-8 (no surrogates, nothing over U+10FFFF, no long forms); else *bad is
 * the offset of the first that are not. */
extern bool utf8_check(const uint8_t *bytes, size_t size, size_t *bad);

/* The character at *at, of checked text, and its length in bytes. */
static inline uint32_t
utf8_decode(const uint8_t *at, uint32_t *length)
{
	if (at[0] < 0x80)
		return *length = 1, at[0];
	if (at[0] < 0xE0)
		return *length = 2, (uint32_t) (at[0] & 0x1F) << 6 | (at[1] & 0x3F);
	if (at[0] < 0xF0)
		return *length = 3, (uint32_t) (at[0] & 0x0F) << 12 | (uint32_t) (at[1] & 0x3F) << 6 | (at[2] & 0x3F);
	return *length = 4, (uint32_t) (at[0] & 0x07) << 18 | (uint32_t) (at[1] & 0x3F) << 12 |
		(uint32_t) (at[2] & 0x3F) << 6 | (at[3] & 0x3F);
}

/* Writes up to 4 bytes, returns how many. */
static inline uint32_t
utf8_encode(uint32_t point, uint8_t *to)
{
	if (point < 0x80)
		return to[0] = (uint8_t) point, 1;
	if (point < 0x800)
	{
		to[0] = (uint8_t) (0xC0 | point >> 6);
		to[1] = (uint8_t) (0x80 | (point & 0x3F));
		return 2;
	}
	if (point < 0x10000)
	{
		to[0] = (uint8_t) (0xE0 | point >> 12);
		to[1] = (uint8_t) (0x80 | (point >> 6 & 0x3F));
		to[2] = (uint8_t) (0x80 | (point & 0x3F));
		return 3;
	}
	to[0] = (uint8_t) (0xF0 | point >> 18);
	to[1] = (uint8_t) (0x80 | (point >> 12 & 0x3F));
	to[2] = (uint8_t) (0x80 | (point >> 6 & 0x3F));
	to[3] = (uint8_t) (0x80 | (point & 0x3F));
	return 4;
}

static inline bool
utf8_continues(uint8_t byte)
{
	return (byte & 0xC0) == 0x80;
}

/* The character before a place in checked text; there is one. */
static inline uint32_t
utf8_before(const uint8_t *at, uint32_t *length)
{
	const uint8_t *start = at - 1;

	while (utf8_continues(*start))
		start--;
	return utf8_decode(start, length);
}

extern uint32_t utf8_characters(const uint8_t *bytes, size_t size);

#endif							/* ENGINE_TEXT_UNICODE_H */
