/*
 * tokenizer_bpe.c
 *	  Tokenizers by byte pair encoding: of bytes, from one file or from vocab.json and merges.txt, and with a suffix of words.
 */
#include "tokenizer_check.h"

/* ---- byte-level BPE ---- */

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

/* ---- others ---- */

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

static void
test_bpe_refused(void)
{
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"dropout\":0.1,"), "dropout");
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"continuing_subword_prefix\":\"##\","), "a prefix");
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"unk_token\":\"none\","), "an unknown token that is none");
	tap_ok(!open_bpe("null", FIXTURE_BYTES, "null", "\"surprise\":1,"), "a setting that is not known");
}

int
main(void)
{
	arena = tokenizer_arena_create();
	test_bpe();
	test_trimming();
	test_patterns();
	test_merges();
	test_cased();
	test_suffix();
	test_bpe_refused();
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	return tap_done();
}
