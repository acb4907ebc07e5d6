/*
 * places.h
 *	  Places of a text: the engine counts characters of UTF-8, SQL those of the database's encoding.
 *
 * Nouns
 *	place		a number of characters before it, in both counts, and of bytes of the text as SQL has it
 */
#ifndef INFER_VALUES_PLACES_H
#define INFER_VALUES_PLACES_H

#include "postgres.h"

typedef struct TextPlace
{
	uint64		character;			/* as the engine counts */
	int			counted;			/* as substring() counts */
	int			bytes;
} TextPlace;

typedef struct TextPlaces
{
	const char *text;				/* in the database's encoding */
	int			length;				/* bytes */
	bool		alike;				/* a character is one to both */
	TextPlace	begin;				/* found last: the next one is mostly a little further on */
	TextPlace	end;
} TextPlaces;

/* The text must outlive places. */
extern void places_init(TextPlaces *places, const char *text, int length);

/*
 * The stretch from a character to the one behind its last (from 0, as the engine counts).  false: the text
 * has no such stretch.
 */
extern bool places_find(TextPlaces *places, int64 first, int64 behind);

#endif							/* INFER_VALUES_PLACES_H */
