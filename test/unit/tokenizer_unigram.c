/*
 * tokenizer_unigram.c
 *	  Tokenizers by sums of scores, with what normalizes and cuts their texts: Metaspace, and precompiled tables.
 */
#include "tokenizer_check.h"

static void
test_unigram(void)
{
	const char *tokens = ",[\"<0x78>\",-5],[\"<0x79>\",-5],[\"<0x7A>\",-5]";

	tap_ok(open_unigram("null", "null", "false", "") && bare("abc", "6"), "the highest sum of scores");
	tap_ok(bare("ab", "4"), "of two equal ones that which was found first");
	tap_ok(bare("azzb", "1 0 2") && places_are("0 1 1 3 3 4"), "unknown characters are one token");
	tap_ok(bare("xy", "9"), "unless together they are a token");
	tap_ok(open_unigram("null", "null", "true", tokens) && bare("azxa", "1 12 10 1") && places_are("0 1 1 3 1 3 3 4"),
		   "or those of their bytes");
	tap_ok(bare("\xc3\xa9", "0"), "but not where one is missing");
}

static void
test_metaspace(void)
{
	tap_ok(open_metaspace("always") && bare("a a  b", "8 8 7 7 2") && places_are("0 1 1 3 3 4 4 5 5 6"), "Metaspace, always before");
	tap_ok(open_metaspace("first") && bare("a", "8") && bare(" a", "8"), "before the first");
	tap_ok(open_metaspace("never") && bare("a a", "1 8"), "never before");
	tap_ok(open_unigram("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"b\"}", "null", "false", "") &&
		   bare("a  a a", "4 1 0 1") && places_are("0 3 3 4 4 5 5 6"), "several spaces replaced");
}

/* A table of two texts: "A" to "ab", and "b", a mark following, to nothing. */
static void
test_precompiled(void)
{
	uint32_t	units[512] = {0};
	uint8_t		map[4 + sizeof(units) + 4] = {0, 8};
	char		base64[4096], normalizer[4608];
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t		length = 0;

	units[0] = 256 << 10;
	units[256 ^ 'A'] = 'A' | 1 << 8 | (256 ^ 'A' ^ 2) << 10;
	units[2] = 1u << 31 | 0;
	units[256 ^ 'b'] = 'b' | (256 ^ 'b' ^ 4) << 10;
	units[4 ^ 0xCC] = 0xCC | 1 << 8 | (4 ^ 0xCC ^ 8) << 10;
	units[8] = 1u << 31 | 2;
	memcpy(map + 4, units, sizeof(units));
	memcpy(map + 4 + sizeof(units), "ab\0", 4);
	for (size_t i = 0; i + 2 < sizeof(map); i += 3)
	{
		uint32_t	bits = (uint32_t) map[i] << 16 | (uint32_t) map[i + 1] << 8 | map[i + 2];

		for (int shift = 18; shift >= 0; shift -= 6)
			base64[length++] = digits[bits >> shift & 63];
	}
	snprintf(normalizer, sizeof(normalizer), "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"%.*s\"}", (int) length, base64);
	tap_ok(open_unigram(normalizer, "null", "false", "") && bare("cA", "3 4") && places_are("0 1 1 2"), "a precompiled table");
	tap_ok(bare("ab\xcc\x81" "c", "1 3") && places_are("0 1 3 4"), "by grapheme clusters");
}

static void
test_unigram_refused(void)
{
	tap_ok(!open_unigram("null", "null", "false", ",[\"a\",-1]"), "a token twice");
	tap_ok(!open_unigram("null", "null", "false", ",[\"d\"]"), "a token without a score");
	tap_ok(!open_unigram("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", "null", "false", ""), "a table that is none");
	tap_ok(!open_metaspace("sometimes"), "a scheme that is none");
}

int
main(void)
{
	arena = tokenizer_arena_create();
	test_unigram();
	test_metaspace();
	test_precompiled();
	test_unigram_refused();
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	return tap_done();
}
