/*
 * text_fixture.h
 *	  A small tokenizer as the text of its tokenizer.json, for the unit test and the fuzzer.
 */
#ifndef TEST_TEXT_FIXTURE_H
#define TEST_TEXT_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include "engine/model/model.h"
#include "engine/status.h"
#include "engine/text/tokenizer.h"

#define FIXTURE_NORMALIZER	"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true}"
#define FIXTURE_CASED		"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_accents\":false,\"lowercase\":true}"
#define FIXTURE_SPLIT		"{\"type\":\"BertPreTokenizer\"}"
#define FIXTURE_PROCESSOR	"{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}"
#define FIXTURE_VOCABULARY	"{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"##a\":4,\"ab\":5,\"##b\":6,\"abc\":7,\"i\":8,\"!\":9,\"\xe4\xb8\xad\":10,\"\xcf\x83\":11,\"##\xcf\x83\":12,\"b\":13}"
#define FIXTURE_ADDED		"{\"id\":1,\"content\":\"[CLS]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}," \
	"{\"id\":14,\"content\":\"<L>\",\"single_word\":false,\"lstrip\":true,\"rstrip\":true,\"normalized\":false,\"special\":false}," \
	"{\"id\":15,\"content\":\"Word\",\"single_word\":true,\"lstrip\":false,\"rstrip\":false,\"normalized\":%s,\"special\":false}"

/* With normalizer, pre-tokenizer, processor, added tokens, unknown token, vocabulary. */
#define FIXTURE_FORMAT "{\"version\":\"1.0\",\"truncation\":{\"max_length\":3,\"strategy\":\"LongestFirst\",\"stride\":0}," \
	"\"padding\":null,\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s," \
	"\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\"," \
	"\"unk_token\":\"%s\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":20,\"vocab\":%s}}"

/* Byte-level BPE: with settings of the model that end in a comma, pre-tokenizer, normalizer, processor. */
#define FIXTURE_BPE "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":false," \
	"\"rstrip\":false,\"normalized\":false,\"special\":true}],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":%s," \
	"\"model\":{\"type\":\"BPE\",%s\"vocab\":{\"<s>\":0,\"?\":1,\"a\":2,\"b\":3,\"c\":4,\"ab\":5,\"abc\":6,\"\xc4\xa0\":7,\"\xc4\xa0" "a\":8," \
	"\"'\":9,\"s\":10,\"\xc5\x82\":11,\"\xc5\xbf\":12,\"bc\":13,\"'s\":14,\"1\":15,\"\xc3\x83\":16,\"\xc2\xa9\":17,\"\xc3\x83\xc2\xa9\":18}," \
	"\"merges\":[\"b c\",[\"a\",\"b\"],\"\xc4\xa0 a\",\"' s\",\"\xc3\x83 \xc2\xa9\"]}}"
#define FIXTURE_BYTES		"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}"
#define FIXTURE_PREFIXED	"{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}"

/* Unigram: with normalizer, pre-tokenizer, true or false for byte_fallback, more tokens after a comma. */
#define FIXTURE_UNIGRAM "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":%s,\"pre_tokenizer\":%s,\"post_processor\":null," \
	"\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":%s,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-1],[\"c\",-2]," \
	"[\"ab\",-2],[\"bc\",-3],[\"abc\",-2.5],[\"\xe2\x96\x81\",-1],[\"\xe2\x96\x81" "a\",-1.5],[\"xy\",-90]%s]}}"
#define FIXTURE_METASPACE	"{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"%s\",\"split\":true}"

/* WordLevel, with a pre-tokenizer. */
#define FIXTURE_WORDS "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":%s,\"post_processor\":null," \
	"\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"c\":3,\"-\":4}}}"

static inline struct tokenizer * __attribute__((unused))
fixture_open(const void *json, size_t size, struct status *status)
{
	struct model_file file = {"tokenizer.json", json, size};
	struct model_files files = {.count = 1, .files = &file};

	return tokenizer_open(&files, status);
}

#define FIXTURE_KINDS	3

/* One tokenizer of each kind: WordPiece, bytes, Unigram; each with special tokens of its own or none. */
static inline bool __attribute__((unused))
fixture_open_kinds(struct tokenizer *kinds[FIXTURE_KINDS])
{
	char		json[4096], added[1024], split[256];
	struct status status = {0};

	snprintf(added, sizeof(added), FIXTURE_ADDED, "true");
	snprintf(json, sizeof(json), FIXTURE_FORMAT, added, FIXTURE_NORMALIZER, FIXTURE_SPLIT, FIXTURE_PROCESSOR, "[UNK]",
			 FIXTURE_VOCABULARY);
	kinds[0] = fixture_open(json, strlen(json), &status);
	snprintf(json, sizeof(json), FIXTURE_BPE, "{\"type\":\"NFC\"}", FIXTURE_PREFIXED, FIXTURE_BYTES, "\"unk_token\":\"?\",");
	kinds[1] = fixture_open(json, strlen(json), &status);
	snprintf(split, sizeof(split), FIXTURE_METASPACE, "first");
	snprintf(json, sizeof(json), FIXTURE_UNIGRAM, "{\"type\":\"NFKC\"}", split, "true", ",[\"<0x7A>\",-9],[\"\xcc\x81\",-3]");
	kinds[2] = fixture_open(json, strlen(json), &status);
	if (status.error != 0)
		printf("# %s\n", status.message);
	return status.error == 0;
}

#endif							/* TEST_TEXT_FIXTURE_H */
