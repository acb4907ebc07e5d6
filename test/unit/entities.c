/*
 * entities.c
 *	  Entities from labels of tokens: a table of cases, whose "simple" ones without E-, S-, L-, U- are
 *	  what the reference's pipeline makes of them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/status.h"
#include "engine/text/entities.h"
#include "tap.h"

#define TOKENS	32

static const char *const bio[] = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};
static const char *const bioes[] = {"O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "L-LOC", "U-LOC"};
static const char *const io[] = {"O", "PER", "LOC", "E-MAIL", "GPE-LOC"};

#define NAMES(labels)	labels, sizeof(labels) / sizeof(*(labels))

/*
 * Text; tokens "[start,end)label:score", with ^ before those that begin a word and - for those of
 * the template; and the entities as "type(text)score".
 */
static const struct
{
	const char *name;
	const char *const *labels;
	uint32_t	labels_count;
	enum entity_aggregation aggregation;
	const char *text;
	const char *tokens;
	const char *wanted;
}			cases[] = {
	{"nothing", NAMES(bio), ENTITIES_SIMPLE, "", "-0,0,0,1 -0,0,0,1", ""},
	{"no entity", NAMES(bio), ENTITIES_SIMPLE, "a b", "^0,1,0,.9 ^2,3,0,.9", ""},
	{"one of one token", NAMES(bio), ENTITIES_SIMPLE, "Ann ran", "-0,0,1,.9 ^0,3,1,.75 ^4,7,0,.9 -0,0,0,1", "PER(Ann)0.75"},
	{"one of several", NAMES(bio), ENTITIES_SIMPLE, "Ann Lee ran", "^0,3,1,.5 ^4,7,2,1 ^8,11,0,.9", "PER(Ann Lee)0.75"},
	{"I- begins one", NAMES(bio), ENTITIES_SIMPLE, "Ann ran", "^0,3,2,.5 ^4,7,0,.9", "PER(Ann)0.5"},
	{"B- another one", NAMES(bio), ENTITIES_SIMPLE, "Ann Lee", "^0,3,1,.5 ^4,7,1,.25", "PER(Ann)0.5 PER(Lee)0.25"},
	{"another tag another one", NAMES(bio), ENTITIES_SIMPLE, "Ann Rome", "^0,3,1,.5 ^4,8,4,.25", "PER(Ann)0.5 LOC(Rome)0.25"},
	{"O between", NAMES(bio), ENTITIES_SIMPLE, "Ann of Rome", "^0,3,2,.5 ^4,6,0,1 ^7,11,2,.25", "PER(Ann)0.5 PER(Rome)0.25"},
	{"the template's tokens between", NAMES(bio), ENTITIES_SIMPLE, "Ann Lee", "^0,3,1,.5 -0,0,3,1 ^4,7,2,.25", "PER(Ann Lee)0.375"},
	{"a word in two", NAMES(bio), ENTITIES_SIMPLE, "Annville x", "^0,3,1,.5 3,8,4,.75 ^9,10,0,1", "PER(Ann)0.5 LOC(ville)0.75"},
	{"a word by its first token", NAMES(bio), ENTITIES_FIRST, "Annville x", "^0,3,1,.5 3,8,4,.75 ^9,10,0,1", "PER(Annville)0.5"},
	{"a word by its surest token", NAMES(bio), ENTITIES_MAX, "Annville x", "^0,3,1,.5 3,8,4,.75 ^9,10,0,1", "LOC(Annville)0.75"},
	{"words one after the other", NAMES(bio), ENTITIES_FIRST, "Annie Lee", "^0,2,1,.5 2,5,0,.75 ^6,9,2,.25", "PER(Annie Lee)0.375"},
	{"a word that is none by its first token", NAMES(bio), ENTITIES_FIRST, "Annie", "^0,2,0,.5 2,5,1,.75", ""},
	{"characters, not bytes", NAMES(bio), ENTITIES_SIMPLE, "\xc3\x84rger \xf0\x9f\x91\x8d \xe4\xb8\xad\xe6\x96\x87!", "^0,5,0,1 ^6,7,0,1 ^8,10,3,.5 ^10,11,0,1", "LOC(\xe4\xb8\xad\xe6\x96\x87)0.5"},
	{"white space of tokens", NAMES(bio), ENTITIES_SIMPLE, "in  New\xc2\xa0York ,", "^0,2,0,1 ^2,7,3,.5 ^7,13,4,.5", "LOC(New\xc2\xa0York)0.5"},
	{"nothing but white space", NAMES(bio), ENTITIES_SIMPLE, "a  b", "^0,1,0,1 ^1,3,3,.5 ^3,4,0,1", ""},
	{"tokens of one character", NAMES(bio), ENTITIES_SIMPLE, "\xf0\x9f\x91\x8d", "^0,1,1,.5 0,1,2,.5 0,1,2,.5", "PER(\xf0\x9f\x91\x8d)0.5"},
	{"E- ends one", NAMES(bioes), ENTITIES_SIMPLE, "Ann Lee Bo", "^0,3,1,.5 ^4,7,3,1 ^8,10,2,.5", "PER(Ann Lee)0.75 PER(Bo)0.5"},
	{"S- is one", NAMES(bioes), ENTITIES_SIMPLE, "Ann Lee Bo", "^0,3,4,.5 ^4,7,4,1 ^8,10,2,.5", "PER(Ann)0.5 PER(Lee)1 PER(Bo)0.5"},
	{"L- and U-", NAMES(bioes), ENTITIES_SIMPLE, "New York Rome X", "^0,3,5,.5 ^4,8,7,1 ^9,13,8,.5 ^14,15,6,.5", "LOC(New York)0.75 LOC(Rome)0.5 LOC(X)0.5"},
	{"no prefix", NAMES(io), ENTITIES_SIMPLE, "Ann Lee Rome", "^0,3,1,.5 ^4,7,1,1 ^8,12,2,.5", "PER(Ann Lee)0.75 LOC(Rome)0.5"},
	{"what looks like one", NAMES(io), ENTITIES_SIMPLE, "x@y z@y", "^0,3,3,.5 ^4,7,3,1", "MAIL(x@y z@y)0.75"},
	{"types of one name", NAMES(io), ENTITIES_SIMPLE, "Rome Oslo", "^0,4,2,.5 ^5,9,4,1", "LOC(Rome)0.5 LOC(Oslo)1"},
};

struct row
{
	struct entity_tokens tokens;
	uint8_t		sources[TOKENS];
	struct token_place places[TOKENS];
	int32_t		words[TOKENS];
	int32_t		labels[TOKENS];
	float		scores[TOKENS];
};

static void
read_tokens(const char *text, struct row *row)
{
	int			used;
	int32_t		word = -1;

	*row = (struct row) {.tokens = {.sources = row->sources, .places = row->places, .words = row->words, .labels = row->labels, .scores = row->scores}};
	while (*text != '\0')
	{
		uint32_t	at = row->tokens.count++;

		row->sources[at] = *text == '-' ? TOKEN_OF_TEMPLATE : TOKEN_OF_TEXT;
		word += *text == '^';
		text += *text == '^' || *text == '-';
		row->words[at] = row->sources[at] == TOKEN_OF_TEXT ? word : -1;
		sscanf(text, "%d,%d,%d,%f%n", &row->places[at].start, &row->places[at].end, &row->labels[at], &row->scores[at], &used);
		text += used;
		text += *text == ' ';
	}
}

/* The bytes of characters, as substring(text from start + 1 for end - start) gives them. */
static void
substring(const char *text, int32_t start, int32_t end, char *to)
{
	int32_t		character = -1;

	for (; *text != '\0'; text++)
	{
		character += (*text & 0xC0) != 0x80;
		if (character >= start && character < end)
			*to++ = *text;
	}
	*to = '\0';
}

int
main(void)
{
	struct status status = {0};
	const char *none[ENTITY_LABELS_MAX + 1];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
	{
		struct entity_labels *labels = entity_labels_make(cases[i].labels, cases[i].labels_count, &status);
		struct entity entities[TOKENS];
		struct row	row;
		char		got[512] = "", piece[128];
		uint32_t	count;

		read_tokens(cases[i].tokens, &row);
		count = entities_find(labels, &row.tokens, cases[i].aggregation, cases[i].text, strlen(cases[i].text), entities);
		for (uint32_t e = 0; e < count; e++)
		{
			substring(cases[i].text, entities[e].start, entities[e].end, piece);
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s(%s)%.6g", e == 0 ? "" : " ", entity_type_name(labels, entities[e].type), piece,
					 entities[e].score);
		}
		if (!tap_ok(strcmp(got, cases[i].wanted) == 0, "%s", cases[i].name))
			printf("# wanted %s\n# got    %s\n", cases[i].wanted, got);
		entity_labels_free(labels);
	}
	for (uint32_t i = 0; i <= ENTITY_LABELS_MAX; i++)
		none[i] = "O";
	tap_ok(entity_labels_make(none, ENTITY_LABELS_MAX + 1, &status) == NULL && status.error != 0, "too many labels: %s", status.message);
	return tap_done();
}
