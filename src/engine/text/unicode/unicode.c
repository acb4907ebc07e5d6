/*
 * unicode.c
 *	  See unicode.h.
 */
#include "unicode.h"

struct unicode_record
{
	uint16_t	flags;
	uint8_t		class;
	uint8_t		cluster;
};

#include "unicode_tables.h"

/* Hangul syllables by arithmetic: The Unicode Standard, section 3.12. */
#define HANGUL_FIRST	0xAC00
#define HANGUL_COUNT	11172
#define HANGUL_L		0x1100
#define HANGUL_V		0x1161
#define HANGUL_T		0x11A7
#define HANGUL_L_COUNT	19
#define HANGUL_V_COUNT	21
#define HANGUL_T_COUNT	28
#define HANGUL_N_COUNT	(HANGUL_V_COUNT * HANGUL_T_COUNT)

static inline const struct unicode_record *
record_of(uint32_t point)
{
	uint32_t	block = unicode_blocks[point >> UNICODE_SHIFT];

	return &unicode_records[unicode_indexes[block << UNICODE_SHIFT | (point & ((1u << UNICODE_SHIFT) - 1))]];
}

uint16_t
unicode_flags(uint32_t point)
{
	return record_of(point)->flags;
}

uint8_t
unicode_class(uint32_t point)
{
	return record_of(point)->class;
}

uint8_t
unicode_cluster(uint32_t point)
{
	return record_of(point)->cluster;
}

/* The text of a point in one of the mappings; itself if it has none. */
static uint32_t
look_up(uint32_t point, uint32_t count, const uint32_t *from, const uint16_t *start,
		const uint32_t *text, uint32_t *to)
{
	uint32_t	low = 0, high = count;

	while (low < high)
	{
		uint32_t	middle = (low + high) / 2;

		if (from[middle] < point)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == count || from[low] != point)
	{
		to[0] = point;
		return 1;
	}
	for (uint32_t i = start[low]; i < start[low + 1]; i++)
		to[i - start[low]] = text[i];
	return start[low + 1] - start[low];
}

uint32_t
unicode_decompose(uint32_t point, bool compatible, uint32_t to[UNICODE_MAPPED_MAX])
{
	uint32_t	syllable = point - HANGUL_FIRST;

	if (point >= HANGUL_FIRST && syllable < HANGUL_COUNT)
	{
		to[0] = HANGUL_L + syllable / HANGUL_N_COUNT;
		to[1] = HANGUL_V + syllable % HANGUL_N_COUNT / HANGUL_T_COUNT;
		to[2] = HANGUL_T + syllable % HANGUL_T_COUNT;
		return to[2] == HANGUL_T ? 2 : 3;
	}
	if (compatible)
	{
		uint32_t	count = look_up(point, sizeof(unicode_compatible_from) / sizeof(*unicode_compatible_from),
									unicode_compatible_from, unicode_compatible_start, unicode_compatible_to, to);

		if (count > 1 || to[0] != point)
			return count;
	}
	return look_up(point, sizeof(unicode_decomposed_from) / sizeof(*unicode_decomposed_from),
				   unicode_decomposed_from, unicode_decomposed_start, unicode_decomposed_to, to);
}

uint32_t
unicode_compose(uint32_t first, uint32_t second)
{
	uint64_t	pair = (uint64_t) first << 21 | second;
	uint32_t	low = 0, count = sizeof(unicode_pairs) / sizeof(*unicode_pairs), high = count;

	if (first - HANGUL_L < HANGUL_L_COUNT && second - HANGUL_V < HANGUL_V_COUNT)
		return HANGUL_FIRST + (first - HANGUL_L) * HANGUL_N_COUNT + (second - HANGUL_V) * HANGUL_T_COUNT;
	if (first - HANGUL_FIRST < HANGUL_COUNT && (first - HANGUL_FIRST) % HANGUL_T_COUNT == 0 &&
		second > HANGUL_T && second < HANGUL_T + HANGUL_T_COUNT)
		return first + second - HANGUL_T;
	while (low < high)
	{
		uint32_t	middle = (low + high) / 2;

		if (unicode_pairs[middle] < pair)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && unicode_pairs[low] == pair ? unicode_composed[low] : 0;
}

uint32_t
unicode_lower(uint32_t point, uint32_t to[UNICODE_MAPPED_MAX])
{
	return look_up(point, sizeof(unicode_lowered_from) / sizeof(*unicode_lowered_from),
				   unicode_lowered_from, unicode_lowered_start, unicode_lowered_to, to);
}

/* Table 3-7 of the Unicode Standard: what may follow a first byte. */
static uint32_t
sequence_length(const uint8_t *at, size_t left)
{
	uint8_t		low = 0x80, high = 0xBF;
	uint32_t	length;

	if (at[0] < 0xC2 || at[0] > 0xF4)
		return 0;
	length = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
	if (at[0] == 0xE0)
		low = 0xA0;
	else if (at[0] == 0xED)
		high = 0x9F;
	else if (at[0] == 0xF0)
		low = 0x90;
	else if (at[0] == 0xF4)
		high = 0x8F;
	if (left < length || at[1] < low || at[1] > high)
		return 0;
	for (uint32_t i = 2; i < length; i++)
		if (!utf8_continues(at[i]))
			return 0;
	return length;
}

bool
utf8_check(const uint8_t *bytes, size_t size, size_t *bad)
{
	size_t		at = 0;

	while (at < size)
	{
		uint32_t	length = bytes[at] < 0x80 ? 1 : sequence_length(bytes + at, size - at);

		if (length == 0)
		{
			*bad = at;
			return false;
		}
		at += length;
	}
	return true;
}

uint32_t
utf8_characters(const uint8_t *bytes, size_t size)
{
	uint32_t	count = 0;

	for (size_t i = 0; i < size; i++)
		count += !utf8_continues(bytes[i]);
	return count;
}
