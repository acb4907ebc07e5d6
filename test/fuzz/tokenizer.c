/*
 * tokenizer.c
 *	  Fuzzes the readers of tokenizer.json, vocab.txt, vocab.json, merges.txt and the files beside them, and texts.
 *	  Nothing may crash, leak, or fail without saying why, and places stay within the text.
 *
 * The first byte says what the rest is: 't' a text for a fixed WordPiece tokenizer, 'b' for a
 * byte-level one, 'u' for one of Unigram, 'v' a vocab.txt, 'c' a tokenizer_config.json beside
 * one, 'j' a vocab.json, 'm' a merges.txt, 's', 'a', 'o' and 'r' a special_tokens_map.json, an added_tokens.json, a
 * tokenizer_config.json and a config.json beside these, anything else tokenizer.json from that byte on.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/text/unicode/unicode.h"
#include "text_fixture.h"

#define SPACE	4096

static struct tokenizer *kinds[FIXTURE_KINDS];
static struct tokenizer_arena *arena;

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	arena = tokenizer_arena_create();
	if (!fixture_open_kinds(kinds) || arena == NULL)
		abort();
	return 0;
}

static void
check_text(const struct tokenizer *tokenizer, const uint8_t *data, size_t size)
{
	static int32_t ids[SPACE];
	static struct token_place places[SPACE];
	struct tokenizer_input input = {.text = (const char *) data, .text_bytes = size, .pair = (const char *) data,
		.pair_bytes = size / 2, .tokens_max = size % 7 == 0 ? 0 : 300, .cut_start = size % 2};
	struct tokenizer_output output = {.space = SPACE, .ids = ids, .places = places};
	int32_t		characters = (int32_t) utf8_characters(data, size);
	struct status status = {0};

	if (!tokenizer_encode(tokenizer, arena, &input, &output, &status))
	{
		if (status.error == 0 || status.message[0] == '\0')
			abort();
		return;
	}
	for (uint32_t i = 0; i < output.count && i < SPACE; i++)
		if (ids[i] < 0 || ids[i] >= tokenizer_facts(tokenizer)->ids_end || places[i].start < 0 || places[i].start > places[i].end ||
			places[i].end > characters)
			abort();
}

static void
check_files(struct model_file *array, uint32_t count)
{
	static const char text[] = "A text, W\xc3\xb6rter [CLS] <L> \xe4\xb8\xad a!b";
	struct model_files files = {.count = count, .files = array};
	struct status status = {0};
	struct tokenizer *tokenizer = tokenizer_open(&files, &status);

	if (tokenizer == NULL)
	{
		if (status.error == 0 || status.message[0] == '\0')
			abort();
		return;
	}
	check_text(tokenizer, (const uint8_t *) text, sizeof(text) - 1);
	tokenizer_close(tokenizer);
}

/* One of the files of a folder with vocab.json and merges.txt in place of a good one. */
static void
check_merges(uint8_t which, const uint8_t *data, size_t size)
{
	static const char letters[] = "arjmso";
	static const char *const names[] = {"added_tokens.json", "config.json", "merges.txt", "special_tokens_map.json", "tokenizer_config.json", "vocab.json"};
	static const char *const contents[] = {
		"{\"<new>\":9}", "{\"model_type\":\"roberta\"}", "#version: 0.2\na b\n\xc4\xa0 ab\n", "{\"mask_token\":{\"content\":\"<mask>\","
		"\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"normalized\":false}}", "{\"add_prefix_space\":true}",
		"{\"<s>\":0,\"</s>\":1,\"<unk>\":2,\"<pad>\":3,\"<mask>\":4,\"a\":5,\"b\":6,\"\xc4\xa0\":7,\"ab\":8,\"\xc4\xa0" "ab\":10}"
	};
	static const uint8_t places[] = {0, 1, 5, 2, 3, 4};	/* of the letters among the names */
	struct model_file files[6];

	for (int i = 0; i < 6; i++)
		files[i] = (struct model_file) {names[i], (const uint8_t *) contents[i], strlen(contents[i])};
	files[places[strchr(letters, which) - letters]].data = data;
	files[places[strchr(letters, which) - letters]].size = size;
	check_files(files, 6);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char config[] = "{\"do_lower_case\":true,\"tokenizer_class\":\"BertTokenizer\",\"model_max_length\":512}";
	static const char lines[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n";
	struct model_file files[2] = {{"tokenizer_config.json", (const uint8_t *) config, sizeof(config) - 1},
	{"vocab.txt", (const uint8_t *) lines, sizeof(lines) - 1}};
	struct model_file json = {"tokenizer.json", data, size};

	if (size > 0 && (data[0] == 't' || data[0] == 'b' || data[0] == 'u'))
		check_text(kinds[data[0] == 't' ? 0 : data[0] == 'b' ? 1 : 2], data + 1, size - 1);
	else if (size > 0 && (data[0] == 'v' || data[0] == 'c'))
	{
		struct model_file *file = &files[data[0] == 'v'];

		file->data = data + 1;
		file->size = size - 1;
		check_files(files, 2);
	}
	else if (size > 0 && data[0] != '\0' && strchr("arjmso", data[0]) != NULL)
		check_merges(data[0], data + 1, size - 1);
	else
		check_files(&json, 1);
	return 0;
}
