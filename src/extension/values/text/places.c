/*
 * places.c
 *	  See places.h.
 *
 * In UTF-8 and in encodings of single bytes a character is one to both.  To SQL_ASCII every byte is one
 * (the text must be UTF-8, or it would not have reached the engine).  In the others a character may
 * stand for two of Unicode (EUC_JIS_2004 has such): where the counts differ, each is looked at by itself.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "places.h"

/* Characters of UTF-8 that so many bytes in the database's encoding are. */
static int
utf8_characters(const char *text, int length)
{
	char	   *utf8 = pg_server_to_any(text, length, PG_UTF8);
	int			bytes = utf8 == text ? length : strlen(utf8);
	int			count = 0;

	for (int i = 0; i < bytes; i++)
		count += ((unsigned char) utf8[i] & 0xc0) != 0x80;
	if (utf8 != text)
		pfree(utf8);
	return count;
}

void
places_init(TextPlaces *places, const char *text, int length)
{
	int			encoding = GetDatabaseEncoding();

	*places = (TextPlaces) {.text = text, .length = length};
	if (encoding == PG_UTF8)
		places->alike = true;
	else if (encoding != PG_SQL_ASCII)
		places->alike = pg_database_encoding_max_length() == 1 ||
			pg_mbstrlen_with_len(text, length) == utf8_characters(text, length);
}

/* One character on. */
static void
step(const TextPlaces *places, TextPlace *place)
{
	const char *at = places->text + place->bytes;
	int			left = places->length - place->bytes;
	int			bytes;

	if (GetDatabaseEncoding() == PG_SQL_ASCII)
	{
		bytes = Min(pg_utf_mblen((const unsigned char *) at), left);
		place->counted += bytes;
		place->character++;
	}
	else
	{
		bytes = Min(pg_mblen(at), left);
		place->counted++;
		place->character += places->alike ? 1 : utf8_characters(at, bytes);
	}
	place->bytes += bytes;
}

static bool
go(const TextPlaces *places, TextPlace *place, uint64 character)
{
	if (place->character > character)
		*place = (TextPlace) {0};
	while (place->character < character && place->bytes < places->length)
		step(places, place);
	return place->character >= character;
}

bool
places_find(TextPlaces *places, int64 first, int64 behind)
{
	return first >= 0 && first < behind && go(places, &places->begin, first) && go(places, &places->end, behind);
}
