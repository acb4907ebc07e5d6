/*
 * tokenizer.c
 *	  Tokenizers: ids and places of small texts, cutting, what is refused, and texts that are
 *	  long and of one kind.  That ids are the reference library's is test/conformance's.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/protocol.h"
#include "text_fixture.h"
#include "tap.h"

#define SPACE		64
#define MEGABYTE	(1u << 20)

static struct tokenizer *tokenizer;
static struct tokenizer_arena *arena;
static int32_t ids[SPACE], type_ids[SPACE];
static uint8_t sources[SPACE];
static struct token_place places[SPACE];
static int32_t words[SPACE];
static struct tokenizer_output output = {SPACE, ids, type_ids, sources, places, words};

static struct tokenizer *
open_with(const char *added, const char *normalizer, const char *split, const char *processor, const char *unknown,
		  const char *vocabulary, struct status *status)
{
	char		json[4096];

	snprintf(json, sizeof(json), FIXTURE_FORMAT, added, normalizer, split, processor, unknown, vocabulary);
	return fixture_open(json, strlen(json), status);
}

static struct tokenizer *
open_usual(const char *word_normalized, const char *normalizer)
{
	struct status status = {0};
	char		added[1024];
	struct tokenizer *result;

	snprintf(added, sizeof(added), FIXTURE_ADDED, word_normalized);
	result = open_with(added, normalizer, FIXTURE_SPLIT, FIXTURE_PROCESSOR, "[UNK]", FIXTURE_VOCABULARY, &status);
	if (result == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return result;
}

static bool
encode(struct tokenizer_input input)
{
	struct status status = {0};

	input.text_bytes = strlen(input.text);
	input.pair_bytes = input.pair == NULL ? 0 : strlen(input.pair);
	return tokenizer_encode(tokenizer, arena, &input, &output, &status);
}

static bool
is(const int32_t *got, const char *wanted)
{
	char		text[1024] = "";

	for (uint32_t i = 0; i < output.count && i < SPACE; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d", i == 0 ? "" : " ", got[i]);
	if (strcmp(text, wanted) != 0)
		printf("# wanted %s, got %s\n", wanted, text);
	return strcmp(text, wanted) == 0;
}

static bool
bare(const char *text, const char *wanted)
{
	return encode((struct tokenizer_input) {.text = text, .bare = true}) && is(ids, wanted);
}

static bool
places_are(const char *wanted)
{
	int32_t		both[2 * SPACE];

	for (uint32_t i = 0; i < output.count; i++)
	{
		both[2 * i] = places[i].start;
		both[2 * i + 1] = places[i].end;
	}
	output.count *= 2;
	return is(both, wanted);
}

static void
test_words(void)
{
	tap_ok(encode((struct tokenizer_input) {.text = "Abc aab!"}) && is(ids, "1 7 3 4 6 9 2"), "the longest tokens, one after the other");
	tap_ok(is(words, "-1 0 1 1 1 2 -1") && places_are("0 0 0 3 4 5 5 6 6 7 7 8 0 0"), "of which words, and where they are");
	tap_ok(encode((struct tokenizer_input) {.text = ""}) && is(ids, "1 2") && bare("", "") && bare(" \t\n", ""), "a text of nothing");
	tap_ok(bare("abx ab", "0 5"), "a word that is in no tokens is the unknown one");
	tap_ok(bare("aaaaaaaaaaaaaaaaaaaa", "3 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4") && bare("aaaaaaaaaaaaaaaaaaaaa a", "0 3"),
		   "a word of more than max_input_chars_per_word is unknown");
	tap_ok(bare("a\xe4\xb8\xad" "b", "3 10 13") && places_are("0 1 1 2 2 3"), "an ideograph is a word");
	tap_ok(bare("\xc3\x81" "B", "5") && places_are("0 2"), "accents go");
	tap_ok(bare("a\xe2\x80\x8b" "b", "5") && places_are("0 3"), "format characters go, and places know it");
}

static void
test_lower_case(void)
{
	tap_ok(bare("\xce\xa3\xce\xa3", "11 12"), "lower case is by character: no final sigma");
	tap_ok(bare("\xc4\xb0", "8") && places_are("0 1"), "U+0130 without its dot");
	tokenizer_close(tokenizer);
	tokenizer = open_usual("false", FIXTURE_CASED);
	tap_ok(bare("\xc4\xb0", "0") && places_are("0 1"), "U+0130 is two characters where accents stay");
	tap_ok(bare("\xc3\x81", "0"), "and so is an accent");
}

static void
test_added(void)
{
	tap_ok(bare("a  <L>  b", "3 14 13") && places_are("0 1 1 8 8 9"), "an added token takes white space along");
	tap_ok(bare("Word Wordy word [CLS]", "15 0 0 1"), "single words, and special tokens in a text");
	tokenizer_close(tokenizer);
	tokenizer = open_usual("true", FIXTURE_NORMALIZER);
	tap_ok(bare("WORD xword word!", "15 0 15 9") && places_are("0 4 5 10 11 15 15 16"), "a normalized one is found in normalised text");
}

static void
test_cutting(void)
{
	struct tokenizer_input input = {.text = "a b a b", .pair = "ab ab abc i", .pair_bytes = 11, .text_bytes = 7};
	struct status status = {0};

	tap_ok(encode(input) && is(ids, "1 3 13 3 13 2 5 5 7 8 2") && is(type_ids, "0 0 0 0 0 0 1 1 1 1 1"), "a pair");
	tap_ok(sources[0] == TOKEN_OF_TEMPLATE && sources[1] == TOKEN_OF_TEXT && sources[6] == TOKEN_OF_PAIR, "knows whose tokens are whose");
	input.tokens_max = 8;
	tap_ok(encode(input) && is(ids, "1 3 13 2 5 5 7 2") && output.cut, "is cut from both");
	input.cut_start = true;
	tap_ok(encode(input) && is(ids, "1 3 13 2 5 7 8 2") && output.cut, "or from their beginnings");
	input.text = "a";
	tap_ok(encode(input) && is(ids, "1 3 2 5 5 7 8 2") && !output.cut, "where it is too long");
	input.tokens_max = 2;
	input.text_bytes = 1;
	tap_ok(!tokenizer_encode(tokenizer, arena, &input, &output, &status) && status.error == INFER_ERROR_INPUT,
		   "no room for the special tokens: %s", status.message);
	tap_ok(encode((struct tokenizer_input) {.text = "a b a b", .tokens_max = 4}) && is(ids, "1 3 13 2") && output.cut,
		   "one text is cut; the file's own truncation is not used");
	output.space = 2;
	ids[2] = 77;
	tap_ok(encode((struct tokenizer_input) {.text = "a b a b"}) && output.count == 6 && ids[2] == 77, "nothing is written behind the space");
	output.space = SPACE;
}

static void
test_texts_refused(void)
{
	static const char *const bad[] = {"a\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xb8", "\xff"};
	uint32_t	refused = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		refused += !encode((struct tokenizer_input) {.text = bad[i]});
	tap_ok(refused == sizeof(bad) / sizeof(*bad), "what is not UTF-8 is refused");
}

/* ---- byte-level BPE ---- */

static bool
open_bpe(const char *normalizer, const char *split, const char *processor, const char *settings)
{
	struct status status = {0};
	char		json[4096];

	tokenizer_close(tokenizer);
	snprintf(json, sizeof(json), FIXTURE_BPE, normalizer, split, processor, settings);
	tokenizer = fixture_open(json, strlen(json), &status);
	if (tokenizer == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return tokenizer != NULL;
}

static void
test_bpe(void)
{
	tap_ok(open_bpe("null", FIXTURE_BYTES, "null", "\"unk_token\":\"?\",\"fuse_unk\":false,") && bare("abc", "2 13"),
		   "the lowest rank is merged first");
	tap_ok(bare("abcx", "2 13 1") && bare("xy", "1 1"), "each unknown byte is an unknown token");
	tap_ok(bare("a a", "2 8") && places_are("0 1 1 3"), "a space belongs to what is behind it");
	tap_ok(bare("\xc3\xa9", "18") && places_are("0 1"), "two bytes of a character are one token");
	tap_ok(bare("a<s>a", "2 0 2"), "added tokens");
	tap_ok(open_bpe("null", FIXTURE_BYTES, "null", "\"unk_token\":\"?\",\"fuse_unk\":true,") && bare("xya", "1 2"), "or all together one");
	tap_ok(open_bpe("null", FIXTURE_BYTES, "null", "\"ignore_merges\":true,") && bare("abc", "6"), "ignore_merges looks words up");
	tap_ok(bare("xyz", ""), "without an unknown token unknown bytes vanish");
	tap_ok(open_bpe("{\"type\":\"NFC\"}", FIXTURE_BYTES, "null", "") && bare("e\xcc\x81", "18") && places_are("0 1"), "NFC");
}

static void
test_trimming(void)
{
	const char *roberta = "{\"type\":\"RobertaProcessing\",\"sep\":[\"a\",2],\"cls\":[\"<s>\",0],\"trim_offsets\":true,\"add_prefix_space\":true}";
	struct tokenizer_input input = {.text = "a a", .pair = "a"};

	tap_ok(open_bpe("null", FIXTURE_PREFIXED, roberta, "") && encode(input) && is(ids, "0 8 8 2 2 8 2") &&
		   is(type_ids, "0 0 0 0 0 0 0"), "RoBERTa's pairs");
	tap_ok(places_are("0 0 0 1 2 3 0 0 0 0 0 1 0 0"), "places without the spaces");
}

/* 's and 'S and '\u017f, by patterns that mind the case of letters and that do not. */
static void
test_patterns(void)
{
	const char *lines = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\""
		"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
		"\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
		"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]}";

	tap_ok(open_bpe("null", FIXTURE_BYTES, "null", "\"unk_token\":\"?\",\"fuse_unk\":true,") && bare("'sa", "14 2") && bare("''s", "9 9 10"),
		   "an apostrophe after another is none of GPT-2's");
	tap_ok(open_bpe("null", lines, "null", "\"unk_token\":\"?\",\"ignore_merges\":true,\"fuse_unk\":true,") && bare("'sabc", "14 6") &&
		   bare("'Sabc", "9 1 6") && bare("'\xc5\xbf" "abc", "9 1 6"), "'s in any case, also U+017F");
	tap_ok(bare("'\xe2\x84\xaa" "abc", "9 1 2 13"), "but no other character");
	tap_ok(bare("1111a", "15 15 15 15 2") && bare("a  a", "2 7 8"), "numbers, and the last of several spaces");
}

/* ---- vocab.json and merges.txt ---- */

#define MERGES_VOCABULARY "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"<mask>\":4,\"a\":5,\"b\":6,\"\xc4\xa0\":7,\"ab\":8,\"\xc4\xa0" "ab\":9}"
#define MERGES_LINES	"#version: 0.2\na b\n\xc4\xa0 ab\n"

/* Up to two files beside those; a NULL name ends them. */
static struct tokenizer *
open_merges(const char *vocabulary, const char *merges, const char *name, const char *content, const char *name2, const char *content2,
			struct status *status)
{
	struct model_file array[4] = {{"vocab.json", (const uint8_t *) vocabulary, strlen(vocabulary)}, {"merges.txt", (const uint8_t *) merges, strlen(merges)}};
	struct model_files files = {.count = 2, .files = array};

	if (name != NULL)
		array[files.count++] = (struct model_file) {name, (const uint8_t *) content, strlen(content)};
	if (name2 != NULL)
		array[files.count++] = (struct model_file) {name2, (const uint8_t *) content2, strlen(content2)};
	for (uint32_t i = 0; i + 1 < files.count; i++)	/* by name, as they come from a folder */
		for (uint32_t j = files.count - 1; j > i; j--)
			if (strcmp(array[j - 1].name, array[j].name) > 0)
			{
				struct model_file swapped = array[j];

				array[j] = array[j - 1];
				array[j - 1] = swapped;
			}
	return tokenizer_recognises(&files) ? tokenizer_open(&files, status) : NULL;
}

static void
refuses_merges(const char *what, const char *vocabulary, const char *merges, const char *config, const char *map)
{
	struct status status = {0};
	struct tokenizer *opened = open_merges(vocabulary, merges, config == NULL ? NULL : "tokenizer_config.json", config,
										   map == NULL ? NULL : "special_tokens_map.json", map, &status);

	tap_ok(opened == NULL && strstr(status.message, what) != NULL, "refused: %s", status.message);
	tokenizer_close(opened);
}

static void
test_merges(void)
{
	const char *roberta = "{\"tokenizer_class\":\"RobertaTokenizer\",\"model_max_length\":512}", *v = MERGES_VOCABULARY, *m = MERGES_LINES;
	struct status status = {0};

	tokenizer_close(tokenizer);
	tokenizer = open_merges(v, m, "tokenizer_config.json", roberta, NULL, NULL, &status);
	tap_ok(tokenizer != NULL && tokenizer_facts(tokenizer)->length_max == 512 && encode((struct tokenizer_input) {.text = "ab ab <mask>", .pair = "a"}) &&
		   is(ids, "0 8 9 4 2 2 5 2"), "RoBERTa's files %s", status.message);
	tokenizer_close(tokenizer);
	tokenizer = open_merges(v, m, "config.json", "{\"model_type\":\"roberta\"}", "special_tokens_map.json", "{\"mask_token\":null,\"cls_token\":\"<pad>\"}", &status);
	tap_ok(tokenizer != NULL && encode((struct tokenizer_input) {.text = "ab<mask>"}) && is(ids, "1 8 5 2"), "known by config.json, with other special tokens %s",
		   status.message);
	tokenizer_close(tokenizer);
	tokenizer = open_merges("{\"a\":0,\"b\":1,\"<|endoftext|>\":2,\"ab\":3}", "#version: 0.2\r\na b\r\n", "tokenizer_config.json",
							"{\"tokenizer_class\":\"GPT2TokenizerFast\",\"add_bos_token\":true}", "added_tokens.json", "{\"<new>\":4}", &status);
	tap_ok(tokenizer != NULL && encode((struct tokenizer_input) {.text = "ab<new>"}) && is(ids, "2 3 4"), "GPT-2's files %s", status.message);

	refuses_merges("nothing says", v, m, NULL, NULL);
	refuses_merges("BlenderbotTokenizer", v, m, "{\"tokenizer_class\":\"BlenderbotTokenizer\"}", NULL);
	refuses_merges("disagree about \"sep_token\"", v, m, "{\"tokenizer_class\":\"RobertaTokenizer\",\"sep_token\":\"a\"}", "{\"sep_token\":\"b\"}");
	refuses_merges("special token \"<|endoftext|>\"", v, m, "{\"tokenizer_class\":\"GPT2Tokenizer\"}", NULL);
	refuses_merges("begin or to end", v, m, roberta, "{\"cls_token\":null}");
	refuses_merges("#version", v, "a b\n", roberta, NULL);
	refuses_merges("#version", v, "#version: 0.2\na b", roberta, NULL);
	refuses_merges("there twice", v, "#version: 0.2\na b\na b\n", roberta, NULL);
	refuses_merges("not two tokens", v, "#version: 0.2\n\na b\n", roberta, NULL);
	refuses_merges("not of its vocabulary", v, "#version: 0.2\nb a\n", roberta, NULL);
}

/* o200k: a word ends where a small letter is followed by a capital one. */
static void
test_cased(void)
{
	const char *cased = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\""
		"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
		"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
		"\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
		"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}]}";

	tap_ok(open_bpe("null", cased, "null", "\"unk_token\":\"?\",") && encode((struct tokenizer_input) {.text = "abABab'S ABc\xe4\xb8\xad" "AB", .bare = true}) &&
		   is(words, "0 1 1 1 1 1 2 2 2 2 2 2 2 3 3"),
		   "words by the case of letters");
}

static void
test_suffix(void)
{
	const char *json = "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"post_processor\":null,"
		"\"model\":{\"type\":\"BPE\",%s\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"a</w>\":3,\"b</w>\":4,\"ab</w>\":5,\"ab\":6,\"<\":7},"
		"\"merges\":[\"a b</w>\",\"a b\"]}}";
	char		text[1024];
	struct status status = {0};

	tokenizer_close(tokenizer);
	snprintf(text, sizeof(text), json, "\"unk_token\":\"?\",");
	tokenizer = fixture_open(text, strlen(text), &status);
	tap_ok(tokenizer != NULL && bare("ab aba ac a<", "5 6 3 1 0 1 0") && places_are("0 2 3 5 5 6 7 8 8 9 10 11 11 12"), "tokens at the end of a word %s",
		   status.message);
	snprintf(text, sizeof(text), json, "");
	tap_ok(fixture_open(text, strlen(text), &status) == NULL, "refused: %s", status.message);
	status_clear(&status);
	snprintf(text, sizeof(text), json, "\"unk_token\":\"?\",\"byte_fallback\":true,");
	tap_ok(fixture_open(text, strlen(text), &status) == NULL, "refused: %s", status.message);
}

/* ---- words as they are cut ---- */

static bool
cut_by(const char *split, const char *text, const char *wanted)
{
	struct status status = {0};
	char		json[2048];

	tokenizer_close(tokenizer);
	snprintf(json, sizeof(json), FIXTURE_WORDS, split);
	tokenizer = fixture_open(json, strlen(json), &status);
	if (tokenizer == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return tokenizer != NULL && encode((struct tokenizer_input) {.text = text, .bare = true}) && places_are(wanted);
}

#define SPLIT_BY(pattern, behavior, invert) \
	"{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior "\",\"invert\":" invert "}"

static void
test_splits(void)
{
	const char *text = "a--b- c";

	tap_ok(cut_by("{\"type\":\"Whitespace\"}", text, "0 1 1 3 3 4 4 5 6 7") && bare(text, "1 0 2 4 3"), "Whitespace");
	tap_ok(cut_by("{\"type\":\"Punctuation\"}", text, "0 1 1 2 2 3 3 4 4 5 5 7"), "Punctuation");
	tap_ok(cut_by("{\"type\":\"Punctuation\",\"behavior\":\"MergedWithPrevious\"}", text, "0 2 2 3 3 5 5 7"), "with what is before");
	tap_ok(cut_by("{\"type\":\"Punctuation\",\"behavior\":\"MergedWithNext\"}", text, "0 1 1 2 2 4 4 7"), "with what is behind");
	tap_ok(cut_by("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", text, "0 1 1 3 3 4 4 5 5 7"), "together");
	tap_ok(cut_by("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"-\"}", text, "0 1 3 4 5 7"), "CharDelimiterSplit");
	tap_ok(cut_by(SPLIT_BY("{\"String\":\"--\"}", "Isolated", "false"), text, "0 1 1 3 3 7"), "by a text");
	tap_ok(!cut_by(SPLIT_BY("{\"Regex\":\"[a-b-]{2,}\"}", "Isolated", "false"), text, ""), "not by a class that may mean another");
	tap_ok(cut_by(SPLIT_BY("{\"Regex\":\"[a-b\\\\-]{2,3}\"}", "Removed", "true"), text, "0 3 3 5"), "by a class of characters");
	tap_ok(cut_by(SPLIT_BY("{\"Regex\":\"[\\\\u002d\\\\p{Zs}]+\"}", "Isolated", "false"), text, "0 1 1 3 3 4 4 6 6 7") &&
		   !cut_by(SPLIT_BY("{\"Regex\":\"\\\\ud800\"}", "Isolated", "false"), text, ""), "by a class of numbered ones");
	tap_ok(cut_by("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"never\"},{\"type\":\"Punctuation\"}]}",
				  text, "0 1 1 2 2 3 3 4 4 5 5 6 6 7"), "behind Metaspace");
	tap_ok(bare("a", "1") && bare("x", "0"), "words of no token are unknown");
	tap_ok(!cut_by("{\"type\":\"Sequence\",\"pretokenizers\":[" FIXTURE_BYTES ",{\"type\":\"Punctuation\"}]}", text, ""), "not behind ByteLevel");
	tap_ok(!cut_by(SPLIT_BY("{\"Regex\":\"-\"}", "Gone", "false"), text, "") && !cut_by(SPLIT_BY("{\"String\":\"\"}", "Isolated", "false"), text, ""),
		   "no behavior that is none, nor by nothing");
}

/* ---- Unigram ---- */

static bool
open_unigram(const char *normalizer, const char *split, const char *fallback, const char *more)
{
	struct status status = {0};
	char		json[4096];

	tokenizer_close(tokenizer);
	snprintf(json, sizeof(json), FIXTURE_UNIGRAM, normalizer, split, fallback, more);
	tokenizer = fixture_open(json, strlen(json), &status);
	if (tokenizer == NULL)
		printf("# %s %s\n", status.message, status.detail);
	return tokenizer != NULL;
}

static bool
open_metaspace(const char *scheme)
{
	char		split[256];

	snprintf(split, sizeof(split), FIXTURE_METASPACE, scheme);
	return open_unigram("null", split, "false", "");
}

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

static void *
count_again(void *argument)
{
	struct tokenizer_arena *own = tokenizer_arena_create();
	struct status status = {0};
	uint32_t	count, wrong = 0;

	for (int i = 0; i < 2000; i++)
		wrong += !tokenizer_count(tokenizer, own, "Abc aab! Word", 13, &count, &status) || count != 8;
	tokenizer_arena_free(own);
	*(uint32_t *) argument = wrong;
	return NULL;
}

static void
test_threads(void)
{
	pthread_t	threads[4];
	uint32_t	wrong[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, count_again, &wrong[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	tap_ok(wrong[0] + wrong[1] + wrong[2] + wrong[3] == 0, "threads share a tokenizer");
}

static void
refuses(const char *what, struct tokenizer *opened, const struct status *status)
{
	tap_ok(opened == NULL && status->message[0] != '\0' && strstr(status->message, what) != NULL, "refused: %s", status->message);
	tokenizer_close(opened);
}

#define REFUSES(what, ...) \
	do { struct status status = {0}; struct tokenizer *opened = open_with(__VA_ARGS__, &status); refuses(what, opened, &status); } while (0)

static void
test_bpe_refused(void)
{
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"dropout\":0.1,"), "dropout");
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"continuing_subword_prefix\":\"##\","), "a prefix");
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"unk_token\":\"none\","), "an unknown token that is none");
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"surprise\":1,"), "a setting that is not known");
}

static void
test_files_refused(void)
{
	const char *n = FIXTURE_NORMALIZER, *s = FIXTURE_SPLIT, *p = FIXTURE_PROCESSOR, *v = FIXTURE_VOCABULARY;
	const char *flags = "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"special\":false";
	char		added[512];

	REFUSES("Transliterate", "", "{\"type\":\"Transliterate\"}", s, p, "[UNK]", v);
	REFUSES("a|b", "", "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a|b\"},\"content\":\"\"}", s, p, "[UNK]", v);
	REFUSES("UnicodeScripts", "", n, "{\"type\":\"UnicodeScripts\"}", p, "[UNK]", v);
	REFUSES("not known: x*", "", n, "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"x*\"},\"behavior\":\"Isolated\",\"invert\":false}", p, "[UNK]", v);
	REFUSES("behind another", "", n, s, "{\"type\":\"Sequence\",\"processors\":[" FIXTURE_PROCESSOR "," FIXTURE_PROCESSOR "]}", "[UNK]", v);
	REFUSES("unknown token", "", n, s, p, "[NONE]", v);
	REFUSES("surprise", "", "{\"type\":\"BertNormalizer\",\"surprise\":1}", s, p, "[UNK]", v);
	REFUSES("lowercase", "", "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true}", s, p, "[UNK]", v);
	REFUSES("vocabulary", "", n, s, p, "[UNK]", "[]");
	REFUSES("not one", "", n, s, p, "[UNK]", "{\"[UNK]\":-1}");
	REFUSES("JSON", "", n, s, p, "[UNK]", "{\"[UNK]\":0,\"[UNK]\":1}");
	snprintf(added, sizeof(added), "{\"id\":3,\"content\":\"new\",\"normalized\":true,%s}", flags);
	REFUSES("not its own", added, n, s, p, "[UNK]", v);
	snprintf(added, sizeof(added), "{\"id\":14,\"content\":\"New\",\"normalized\":true,%s},{\"id\":15,\"content\":\"new\",\"normalized\":true,%s}", flags, flags);
	REFUSES("same text", added, n, s, p, "[UNK]", v);
	snprintf(added, sizeof(added), "{\"id\":14,\"content\":\"\xcc\x81\",\"normalized\":true,%s}", flags);
	REFUSES("nothing is left", added, n, s, p, "[UNK]", v);
}

/* A tokenizer without a pre-tokenizer has none that tokenizer_config.json could disagree with. */
static void
test_config_alone(void)
{
	static const char config[] = "{\"add_prefix_space\":true,\"do_lower_case\":false}";
	char		json[2048];
	struct model_file list[2] = {{"tokenizer.json", (const uint8_t *) json, 0}, {"tokenizer_config.json", (const uint8_t *) config, sizeof(config) - 1}};
	struct model_files files = {.count = 2, .files = list};
	struct status status = {0};
	struct tokenizer *opened;

	snprintf(json, sizeof(json), FIXTURE_UNIGRAM, "null", "null", "false", "");
	list[0].size = strlen(json);
	opened = tokenizer_open(&files, &status);
	tap_ok(opened != NULL, "settings of what a tokenizer has not are ignored");
	tokenizer_close(opened);
}

int
main(void)
{
	arena = tokenizer_arena_create();
	tokenizer = open_usual("false", FIXTURE_NORMALIZER);
	if (!tap_ok(tokenizer != NULL && tokenizer_facts(tokenizer)->ids_end == 16, "a tokenizer opens"))
		return tap_done();
	test_words();
	test_cutting();
	test_texts_refused();
	test_long_texts();
	test_threads();
	test_lower_case();
	test_added();
	test_long_texts();
	test_bpe();
	test_trimming();
	test_patterns();
	test_merges();
	test_cased();
	test_suffix();
	test_splits();
	test_long_words();
	test_long_splits();
	test_unigram();
	test_metaspace();
	test_precompiled();
	test_growth();
	test_long_unigram();
	test_files_refused();
	test_config_alone();
	test_bpe_refused();
	test_unigram_refused();
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	return tap_done();
}
