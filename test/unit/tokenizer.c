/*
 * tokenizer.c
 *	  Tokenizers of words: ids and places of small texts, cutting, what is refused.  That ids are the reference library's is
 *	  test/conformance's.  tokenizer_bpe.c, tokenizer_unigram.c and tokenizer_long.c have other kinds, and long texts.
 */
#include <pthread.h>

#include "tokenizer_check.h"

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

/* ---- words as they are cut ---- */

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

/* ---- threads ---- */

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

/* ---- what is refused, and what is not ---- */

static void
refuses(const char *what, struct tokenizer *opened, const struct status *status)
{
	tap_ok(opened == NULL && status->message[0] != '\0' && strstr(status->message, what) != NULL, "refused: %s", status->message);
	tokenizer_close(opened);
}

#define REFUSES(what, ...) \
	do { struct status status = {0}; struct tokenizer *opened = open_with(__VA_ARGS__, &status); refuses(what, opened, &status); } while (0)

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
	test_threads();
	test_lower_case();
	test_added();
	test_splits();
	test_files_refused();
	test_config_alone();
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	return tap_done();
}
