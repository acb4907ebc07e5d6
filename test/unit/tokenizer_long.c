/*
 * tokenizer_long.c
 *	  Texts that are long and of one kind, or become long: none of them takes more than time in proportion, and room.
 */
#include "tokenizer_check.h"

#define MEGABYTE	(1u << 20)

/* How many tokens, or UINT32_MAX. */
static uint32_t
count_bytes(const char *text, size_t size)
{
	struct status status = {0};
	uint32_t	count = UINT32_MAX;

	if (tokenizer_count(tokenizer, arena, text, size, &count, &status))
		return count;
	printf("# %s\n", status.message);
	return UINT32_MAX;
}

/* Of a megabyte of one thing. */
static uint32_t
count_of(const char *unit)
{
	size_t		length = strlen(unit), size = MEGABYTE / length * length;
	char	   *text = malloc(size);
	uint32_t	count;

	for (size_t i = 0; i < size; i++)
		text[i] = unit[i % length];
	count = count_bytes(text, size);
	free(text);
	return count;
}

#define SIXTEEN		"aaaaaaaaaaaaaaaa"
#define GROWING		"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"" SIXTEEN SIXTEEN SIXTEEN SIXTEEN "\"}"

/* What each step makes 64 times as long is refused before it is gigabytes; whatever was seen before. */
static void
test_growth(void)
{
	tap_ok(open_unigram("{\"type\":\"Sequence\",\"normalizers\":[" GROWING "," GROWING "]}", "null", "false", "") &&
		   count_bytes("a", 1) == 4096, "a text may become 4096 times as long");
	tap_ok(open_unigram("{\"type\":\"Sequence\",\"normalizers\":[" GROWING "," GROWING "," GROWING "]}", "null", "false", "") &&
		   count_bytes("b", 1) == 1 && count_bytes("a", 1) == UINT32_MAX, "not 262144 times");
	tap_ok(count_of("b") == MEGABYTE && count_bytes("a", 1) == UINT32_MAX, "nor behind a longer text");
}

/* Quadratic work would take hours, not the seconds that these take. */
static void
test_long_texts(void)
{
	tap_ok(count_of(" ") == 2, "a megabyte of spaces");
	tap_ok(count_of("a") == 3, "of one letter");
	tap_ok(count_of("\xcc\x81") == 2, "of one mark");
	tap_ok(count_of("\xcc\x81\xcc\xa3\xd6\xb0") == 2, "of marks out of order");
	tap_ok(count_of("<L> ") == 2 + MEGABYTE / 4, "of added tokens that take spaces along");
	tap_ok(count_of(" <") == 2 + MEGABYTE / 2, "of what begins like one");
	tap_ok(count_of("Word") == 3, "of added tokens that are no single words");
	tap_ok(count_of("!") == 2 + MEGABYTE, "of punctuation");
}

/* Words of a megabyte, which are merged as such. */
static void
test_long_words(void)
{
	tap_ok(open_bpe("{\"type\":\"NFC\"}", FIXTURE_PREFIXED, "null", "\"unk_token\":\"?\",\"fuse_unk\":true,"), "a byte-level tokenizer");
	tap_ok(count_of(" ") == MEGABYTE, "a megabyte of spaces");
	tap_ok(count_of("a") == MEGABYTE, "of one letter");
	tap_ok(count_of("bc") == MEGABYTE / 2 + 1, "of two that are merged");
	tap_ok(count_of("\xcc\x81\xcc\xa3\xd6\xb0") == 2, "of marks out of order");
	tap_ok(count_of("'s") > MEGABYTE / 2, "of apostrophes");
	tap_ok(count_of("\n ") > 0, "of lines without anything in them");
}

static void
test_long_splits(void)
{
	tap_ok(cut_by("{\"type\":\"Punctuation\",\"behavior\":\"MergedWithNext\"}", "a", "0 1") && count_of("-") == MEGABYTE && count_of("a") == 1,
		   "megabytes cut");
	tap_ok(cut_by(SPLIT_BY("{\"Regex\":\"a{3}\"}", "Removed", "false"), "a", "0 1") && count_of("aab") == 1 && count_of("aaab") == MEGABYTE / 4,
		   "and looked for matches");
}

static void
test_long_unigram(void)
{
	tap_ok(open_metaspace("always") && count_of("a") == MEGABYTE && count_of(" ") == MEGABYTE && count_of("z") == 2,
		   "megabytes through Unigram");
}

int
main(void)
{
	arena = tokenizer_arena_create();
	tokenizer = open_usual("false", FIXTURE_NORMALIZER);
	test_long_texts();
	tokenizer_close(tokenizer);
	tokenizer = open_usual("true", FIXTURE_NORMALIZER);
	test_long_texts();
	test_long_words();
	test_long_splits();
	test_growth();
	test_long_unigram();
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	return tap_done();
}
