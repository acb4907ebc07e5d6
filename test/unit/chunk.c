/*
 * chunk.c
 *	  Chunks of texts: where sentences end, small cases, what every chunk of many random texts keeps,
 *	  for tokenizers of each kind, and the work for long texts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chunk_check.h"
#include "protocol/protocol.h"
#include "random.h"
#include "tap.h"
#include "text_fixture.h"

#define MEGABYTE	(1u << 20)
#define TEXTS		1000			/* random ones, for each tokenizer */
#define TEXT_BYTES	4096

static struct tokenizer *wordpiece, *bytes, *unigram;
static struct tokenizer_arena *arena;
static struct chunks chunks;

static void
open_tokenizers(void)
{
	struct tokenizer *kinds[FIXTURE_KINDS];

	tap_ok(fixture_open_kinds(kinds), "tokenizers open");
	wordpiece = kinds[0];
	bytes = kinds[1];
	unigram = kinds[2];
}

/* ---- borders ---- */

/* "|" marks where sentences end, "||" where paragraphs do. */
static bool
borders_are(const char *marked)
{
	uint8_t		text[256];
	enum border wanted[256] = {0};
	size_t		size = 0;
	uint32_t	length, wrong = 0;

	for (const char *at = marked; *at != '\0'; at++)
	{
		if (*at == '|')
			wanted[size] = wanted[size] == BORDER_SENTENCE ? BORDER_PARAGRAPH : BORDER_SENTENCE;
		else
			text[size++] = (uint8_t) *at;
	}
	text[size] = '\0';
	for (size_t at = 0; at < size; at += length)
	{
		enum border border = border_at(text, at, size, true);

		utf8_decode(text + at, &length);
		if (at > 0 && !border_is_behind_space(text, at) && (border >= BORDER_SENTENCE ? border : 0) != wanted[at])
		{
			printf("# %d instead of %d at byte %zu of %s\n", border, wanted[at], at, text);
			wrong++;
		}
	}
	return wrong == 0;
}

static void
test_borders(void)
{
	tap_ok(borders_are("One.| Two!| Three?| Four"), "sentences end before white space");
	tap_ok(borders_are("It is 3.14 at example.org, e.g. in v1.2.| Yes"), "not at every stop");
	tap_ok(borders_are("Mr.| J. R. Smith and Dr.| A. came.| Then"), "nor behind single capital letters");
	tap_ok(borders_are("GNU.| OK.| \xc3\x84. B"), "which are not the end of a word");
	tap_ok(borders_are("\"No.\"| He (she!)| left.| \xe2\x80\x9cSo.\xe2\x80\x9d| (New.)| End"), "but behind what closes");
	tap_ok(borders_are("Wait... what\xe2\x80\xa6 now\xe2\x80\xa6| Then?!| So"), "an ellipsis is one before a capital letter");
	tap_ok(borders_are("\xe4\xbb\x8a\xe6\x97\xa5\xe3\x80\x82|\xe6\x98\x8e\xef\xbc\x81|\xe3\x80\x8c\xe3\x81\xaf\xe3\x80\x82\xe3\x80\x8d|\xe3\x81\xa8"),
		   "CJK's end without white space");
	tap_ok(borders_are("\xd9\x84\xd8\x9f| \xd9\x84 \xe0\xa4\x95\xe0\xa5\xa4| \xe0\xa4\x95"), "and other scripts'");
	tap_ok(borders_are("A line\nanother.|\nB||\n\nC|| \r\n \t\r\nD||\xe2\x80\xa9" "E"), "paragraphs at empty lines");
}

/* ---- small cases ---- */

/* The chunks as the texts that they are, with "|" between. */
static bool
are(const struct tokenizer *tokenizer, const char *text, uint32_t tokens_max, uint32_t overlap, enum chunk_border border,
	const char *wanted)
{
	struct status status = {0};
	char		got[1024] = "";

	if (!chunk_text(tokenizer, arena, text, strlen(text), tokens_max, overlap, border, &chunks, &status))
		printf("# %s\n", status.message);
	for (uint32_t i = 0; i < chunks.count; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s", i == 0 ? "" : "|",
				 (int) (chunks.data[i].end_byte - chunks.data[i].start_byte), text + chunks.data[i].start_byte);
	if (strcmp(got, wanted) != 0)
		printf("# wanted %s\n# got    %s\n", wanted, got);
	return strcmp(got, wanted) == 0 && status.error == 0;
}

static void
test_small(void)
{
	tap_ok(are(wordpiece, "", 5, 0, CHUNK_TOKEN, "") && are(wordpiece, " \n\t", 5, 1, CHUNK_SENTENCE, ""), "no text, no chunks");
	tap_ok(are(wordpiece, "  a b a b ab  ", 5, 0, CHUNK_TOKEN, "a b a|b ab") && chunks.data[0].tokens == 5 && chunks.data[0].start == 2 &&
		   chunks.data[0].end == 7 && chunks.data[1].start == 8, "as many words as fit with the special tokens");
	tap_ok(are(wordpiece, "a b aab a", 6, 0, CHUNK_TOKEN, "a b|aab a") && chunks.data[1].tokens == 6, "no word is cut that fits");
	tap_ok(are(wordpiece, "aaaaaaa b", 5, 0, CHUNK_TOKEN, "aaa|aaa|a b"), "a longer one is, between tokens");
	tap_ok(are(wordpiece, "a b a b a", 5, 1, CHUNK_TOKEN, "a b a|a b a") && are(wordpiece, "a b a b a", 5, 2, CHUNK_TOKEN, "a b a|b a b|a b a"),
		   "chunks overlap");
	tap_ok(are(wordpiece, "a b aaa b", 6, 2, CHUNK_TOKEN, "a b|b aaa|b") && are(wordpiece, "aaaaaaa", 5, 1, CHUNK_TOKEN, "aaa|aaa|aaa"), "by whole words");
	tap_ok(are(wordpiece, "a b aaaa b", 6, 2, CHUNK_TOKEN, "a b|aaaa|b") && are(wordpiece, "a b aaaaa b", 6, 2, CHUNK_TOKEN, "a b|aaaa|aaa b"),
		   "an overlap that cuts the word behind it is given up");
	tap_ok(are(wordpiece, "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad", 5, 1, CHUNK_TOKEN, "\xe4\xb8\xad\xe4\xb8\xad\xe4\xb8\xad|\xe4\xb8\xad\xe4\xb8\xad"),
		   "ideographs are words");
	tap_ok(are(wordpiece, "a b! a b a b", 7, 0, CHUNK_SENTENCE, "a b!|a b a b") && are(wordpiece, "a b! a b a b", 7, 0, CHUNK_TOKEN, "a b! a b|a b"),
		   "sentences stay whole");
	tap_ok(are(wordpiece, "a\n\nb! a\n\na b", 6, 0, CHUNK_PARAGRAPH, "a\n\nb! a|a b") && are(wordpiece, "a b! a a a a\n\nb", 6, 0, CHUNK_PARAGRAPH, "a b!|a a a a|b"),
		   "paragraphs, else their sentences");
	tap_ok(are(wordpiece, "a\xe2\x80\x8b\xe2\x80\x8b a", 3, 0, CHUNK_TOKEN, "a\xe2\x80\x8b\xe2\x80\x8b|a") && are(wordpiece, "\xe2\x80\x8b", 3, 0, CHUNK_TOKEN, "\xe2\x80\x8b") &&
		   chunks.data[0].tokens == 2, "what is no token is of a chunk, too");
	tap_ok(are(unigram, "a\xcc\x81\xcc\x81 b\xcc\x81", 4, 0, CHUNK_TOKEN, "a\xcc\x81\xcc\x81|b\xcc\x81"), "clusters stay whole");
	tap_ok(are(unigram, "a\xcc\x81\xcc\x81\xcc\x81\xcc\x81", 2, 0, CHUNK_TOKEN, "a\xcc\x81|\xcc\x81|\xcc\x81|\xcc\x81"), "unless they are too long");
	tap_ok(are(wordpiece, "a\xe0\xb5\x8e aaa", 5, 0, CHUNK_TOKEN, "a\xe0\xb5\x8e|aaa") && are(wordpiece, "a\xe0\xb5\x8e\xe2\x80\x83" "aaa", 5, 0, CHUNK_TOKEN, "a\xe0\xb5\x8e|aaa"),
		   "words end before white space that belongs to a cluster, too");
	tap_ok(are(bytes, "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 12, 0, CHUNK_TOKEN, "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa|\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa"),
		   "flags do, too");
}

/* ---- pieces that go on over white space ---- */

#define SPACE	"\xe2\x96\x81"
#define LONG	SPACE "aaaaaaaaaa"

/*
 * A tokenizer with a piece of the long word, of the word with kept others, and of the word with
 * one, two, ... others and the space behind these.
 */
static struct tokenizer *
open_crossing(uint32_t others, uint32_t kept)
{
	char		json[4096], pieces[2048], words[128] = "";
	int			used = snprintf(pieces, sizeof(pieces), ",[\"" SPACE "b\",-1],[\"" LONG "\",-1]");
	struct status status = {0};

	for (uint32_t i = 1; i <= others; i++)
	{
		strcat(words, SPACE "b");
		used += snprintf(pieces + used, sizeof(pieces) - used, ",[\"" LONG "%s" SPACE "\",-1]", words);
		if (i == kept)
			used += snprintf(pieces + used, sizeof(pieces) - used, ",[\"" LONG "%s\",-1]", words);
	}
	snprintf(json, sizeof(json), FIXTURE_UNIGRAM, "null", "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"first\",\"split\":false}",
			 "false", pieces);
	return fixture_open(json, strlen(json), &status);
}

/* The words behind which a window's first piece ends make two pieces by themselves, but the first. */
static void
test_crossing(void)
{
	struct tokenizer *few = open_crossing(4, 1), *many = open_crossing(20, 0);

	tap_ok(few != NULL && are(few, "aaaaaaaaaa b b b b", 1, 0, CHUNK_TOKEN, "aaaaaaaaaa b|b|b|b"), "the last word at which a chunk fits by itself is found");
	tap_ok(many != NULL && are(many, "aaaaaaaaaa b b b b b b b b b b b b b b b b b b b b", 1, 0, CHUNK_SENTENCE, "aaaaaaaaaa|b|b|b|b|b|b|b|b|b|b|b|b|b|b|b|b|b|b|b|b"),
		   "the first, if others are many");
	tokenizer_close(few);
	tokenizer_close(many);
}

static bool
refuses(const char *text, uint32_t tokens_max, uint32_t overlap, const char *what)
{
	struct status status = {0};
	bool		done = chunk_text(wordpiece, arena, text, strlen(text), tokens_max, overlap, CHUNK_TOKEN, &chunks, &status);

	printf("# %s\n", status.message);
	return !done && status.error == INFER_ERROR_INPUT && strstr(status.message, what) != NULL;
}

static void
test_refused(void)
{
	struct status status = {0};

	tap_ok(refuses("a", 2, 0, "room for one") && refuses("a", 0, 0, "room for one"), "no room for a token");
	tap_ok(refuses("a", 5, 3, "overlap of 3") && refuses("a", 5, 5, "overlap of 5") && !refuses("a", 5, 2, ""), "an overlap that leaves none");
	tap_ok(refuses("a\x80", 5, 2, "UTF-8"), "what is not UTF-8");
	tap_ok(!chunk_text(bytes, arena, "a \xe4\xb8\xad", 5, 2, 0, CHUNK_TOKEN, &chunks, &status) && strstr(status.message, "character 3") != NULL,
		   "a character that does not fit: %s", status.message);
}

/* ---- what holds of all chunks ---- */

static uint32_t
random_text(uint64_t *state, char *text)
{
	static const char *const parts[] = {
		"a", "b", "ab", "abc", "aab", "bc", "xyz", "aaaaaaaaaaaaaaaaaaaaaaaaa", " ", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n \r\n", ". ", "! ",
		"? \"", ".", "'s", "don't", "3.14", "\xe4\xb8\xad", "\xe3\x80\x82", "\xe3\x80\x8c", "\xe0\xb8\x81\xe0\xb8\xb4", "e\xcc\x81", "\xcc\x81", "\xe0\xb5\x8e", "\xef\xb7\xba",
		"\xf0\x9f\x87\xa9", "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7", "\xe2\x80\x8b", "\xc4\xb0", "\xc2\xa0", "[CLS]", "<L>", " Word ", "-", "(", ")", "\xed\x95\x9c", "\x01"
	};
	uint32_t	count = 1 + random_next(state) % 60, size = 0;

	for (uint32_t i = 0; i < count; i++)
	{
		const char *part = parts[random_next(state) % (sizeof(parts) / sizeof(*parts))];

		memcpy(text + size, part, strlen(part));
		size += (uint32_t) strlen(part);
	}
	return size;
}

static void
test_random(const struct tokenizer *tokenizer, const char *name)
{
	static char text[TEXT_BYTES];
	uint64_t	state = UINT64_C(0x9E3779B97F4A7C15);
	uint32_t	texts = 0, refused = 0, overlapped = 0, wrong = 0;

	for (uint32_t i = 0; i < TEXTS; i++)
	{
		uint32_t	size = random_text(&state, text), tokens_max = 3 + random_next(&state) % 40, special = tokenizer_facts(tokenizer)->added_single;
		uint32_t	overlap = random_next(&state) % (tokens_max - special);
		enum chunk_border border = random_next(&state) % 3;
		struct status status = {0};
		const char *what;

		if (!chunk_text(tokenizer, arena, text, size, tokens_max, overlap, border, &chunks, &status))
		{
			refused += tokens_max < 18 * 3 + 3 && strstr(status.message, "has more tokens than a chunk has room for") != NULL;
			continue;
		}
		texts++;
		what = chunks_broken(tokenizer, arena, &chunks, text, size, tokens_max, overlap, border);
		for (uint32_t c = 1; c < chunks.count; c++)
			overlapped += chunks.data[c].start < chunks.data[c - 1].end;
		if (what != NULL && wrong++ < 3)
			printf("# %s: %u tokens, overlap %u: %.*s\n", what, tokens_max, overlap, (int) size, text);
	}
	tap_ok(wrong == 0 && texts + refused == TEXTS && texts > TEXTS / 2 && overlapped > TEXTS / 10, "%s: %u random texts, of which %u have too long characters, %u chunks overlap",
		   name, texts, refused, overlapped);
}

/* ---- long texts ---- */

/* Bytes tokenized for each byte of a long text of one thing, a megabyte of one letter; -1: it fails. */
static double
work_for(const struct tokenizer *tokenizer, const char *unit, uint32_t tokens_max, uint32_t overlap)
{
	size_t		length = strlen(unit), size = (overlap > 0 ? MEGABYTE / 16 : length == 1 ? MEGABYTE : MEGABYTE / 8) / length * length;
	struct status status = {0};
	char	   *text = malloc(size);
	bool		good;

	for (size_t i = 0; i < size; i++)
		text[i] = unit[i % length];
	good = chunk_text(tokenizer, arena, text, size, tokens_max, overlap, CHUNK_SENTENCE, &chunks, &status);
	free(text);
	if (!good)
		printf("# \"%s\": %s\n", unit, status.message);
	return good ? (double) chunks.work / (double) size : -1;
}

static void
test_long(const struct tokenizer *tokenizer, const char *name)
{
	static const char *const units[] = {"a", " ", "z", "\xcc\x81", "a b", "a. ", "ab! ab abc i\n\n", "\xe4\xb8\xad", ")", "a                    ", "A", "\xf0\x9f\x87\xa9",
	"(\xe4\xb8\xad\xe3\x80\x82", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ",
	"b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b b aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa "};
	uint32_t	wrong = 0;
	double		most = 0;

	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
	{
		double		work = work_for(tokenizer, units[i], 130, 0), overlapping = work_for(tokenizer, units[i], 130, 64);

		wrong += work < 0 || work > 12 || overlapping < 0 || overlapping > 20;
		most = work > most ? work : overlapping > most ? overlapping : most;
	}
	tap_ok(wrong == 0, "%s: long texts are chunked in few passes: %.1f", name, most);
}

int
main(void)
{
	arena = tokenizer_arena_create();
	open_tokenizers();
	test_borders();
	test_small();
	test_crossing();
	test_refused();
	test_random(wordpiece, "WordPiece");
	test_random(bytes, "BPE");
	test_random(unigram, "Unigram");
	test_long(wordpiece, "WordPiece");
	test_long(bytes, "BPE");
	test_long(unigram, "Unigram");
	chunks_free(&chunks);
	tokenizer_close(wordpiece);
	tokenizer_close(bytes);
	tokenizer_close(unigram);
	tokenizer_arena_free(arena);
	return tap_done();
}
