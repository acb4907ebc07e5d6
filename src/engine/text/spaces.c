/*
 * spaces.c
 *	  Spaces at the ends of a token's text, as the post-processor that trims places counts them.
 */
#include "text_internal.h"

#define SPACE_LETTER	0x120

static bool
is_space(uint32_t point)
{
	return point == SPACE_LETTER || (unicode_flags(point) & UNICODE_SPACE) != 0;
}

uint32_t
text_leading_spaces(const uint8_t *text, size_t size)
{
	uint32_t	count = 0, length;

	for (size_t at = 0; at < size && is_space(utf8_decode(text + at, &length)); at += length)
		count++;
	return count;
}

uint32_t
text_trailing_spaces(const uint8_t *text, size_t size)
{
	uint32_t	count = 0, length;

	for (size_t at = size; at > 0 && is_space(utf8_before(text + at, &length)); at -= length)
		count++;
	return count;
}
