/*
 * border.h
 *	  What a place between two characters of a text is to a reader.
 */
#ifndef ENGINE_TEXT_BORDER_H
#define ENGINE_TEXT_BORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum border							/* each is a better one than those before it */
{
	BORDER_CLUSTER,					/* between grapheme clusters: the caller knows */
	BORDER_TOKEN,
	BORDER_PART,
	BORDER_WORD,
	BORDER_SENTENCE,
	BORDER_PARAGRAPH
};

#define BORDERS		(BORDER_PARAGRAPH + 1)

/*
 * Of a place between grapheme clusters of checked text; token: tokens end and begin there.  A
 * sentence or a paragraph ends before white space, and there only.
 */
extern enum border border_at(const uint8_t *text, size_t at, size_t size, bool token);

/* Behind the white space that begins at a place. */
extern size_t border_skip_spaces(const uint8_t *text, size_t at, size_t size);

/* Whether white space is behind a place, or before it. */
extern bool border_is_before_space(const uint8_t *text, size_t at, size_t size);
extern bool border_is_behind_space(const uint8_t *text, size_t at);

#endif							/* ENGINE_TEXT_BORDER_H */
