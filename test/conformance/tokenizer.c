/*
 * tokenizer.c
 *	  Tokenizers against the reference library: the folders that text_cases.py wrote, each with
 *	  a tokenizer's files, and texts with what the reference makes of them.
 *
 *	tokenizer [FOLDER]		FOLDER/<case>/cases.bin; default: $INFER_PARTS/tokenizers
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/files.h"
#include "engine/status.h"
#include "engine/text/tokenizer.h"
#include "tap.h"

#define NO_PAIR		UINT32_MAX
#define NO_WORD		UINT16_MAX
#define SPACE		(1u << 16)
#define SHOWN		5				/* differences of a case */
#define SHOWN_NUMBERS	32

/* Of cases.bin; text, pair, ids (32 bits), type ids (8), starts, ends and words (16) follow. */
struct record
{
	uint32_t	text_bytes;
	uint32_t	pair_bytes;
	uint32_t	bare;
	uint32_t	cut_start;
	uint32_t	tokens_max;
	uint32_t	count;
};

struct tally
{
	uint64_t	texts;
	uint64_t	tokens;
	uint64_t	ids;				/* texts with other ids or type ids */
	uint64_t	places;				/* with other places */
	uint64_t	words;				/* and with other words */
};

static int32_t ids[SPACE], type_ids[SPACE];
static struct token_place places[SPACE];
static int32_t words[SPACE];

static void
show(const char *name, const char *what, const struct record *record, const char *text, const int32_t *wanted,
	 const int32_t *got, uint32_t each, const struct tokenizer_output *output)
{
	printf("# %s: other %s for \"%.*s\"\n# wanted", name, what, (int) (record->text_bytes < 200 ? record->text_bytes : 200), text);
	for (uint32_t i = 0; i < each * record->count && i < SHOWN_NUMBERS; i++)
		printf(" %d", wanted[i]);
	printf("\n# got   ");
	for (uint32_t i = 0; i < each * output->count && i < SHOWN_NUMBERS; i++)
		printf(" %d", got[i]);
	printf("\n");
}

struct wanted						/* as wide as the tokenizer's own output */
{
	int32_t		ids[SPACE];
	int32_t		type_ids[SPACE];
	struct token_place places[SPACE];
	int32_t		words[SPACE];
};

static const uint8_t *
read_wanted(struct wanted *wanted, uint32_t count, const uint8_t *at)
{
	uint16_t	place;

	memcpy(wanted->ids, at, count * sizeof(*wanted->ids));
	at += count * sizeof(*wanted->ids);
	for (uint32_t i = 0; i < count; i++)
		wanted->type_ids[i] = *at++;
	for (uint32_t i = 0; i < 3 * count; i++, at += sizeof(place))
	{
		memcpy(&place, at, sizeof(place));
		if (i < count)
			wanted->places[i].start = place;
		else if (i < 2 * count)
			wanted->places[i - count].end = place;
		else
			wanted->words[i - 2 * count] = place == NO_WORD ? -1 : place;
	}
	return at;
}

/* Where the record says so, its pieces follow it. */
static const uint8_t *
check_record(const char *name, const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const uint8_t *at,
			 struct tally *tally)
{
	struct tokenizer_output output = {.space = SPACE, .ids = ids, .type_ids = type_ids, .places = places, .words = words};
	struct tokenizer_input input = {0};
	struct status status = {0};
	struct record record;
	static struct wanted wanted;
	bool		same, same_places, same_words;

	memcpy(&record, at, sizeof(record));
	at += sizeof(record);
	input.text = (const char *) at;
	input.text_bytes = record.text_bytes;
	at += record.text_bytes;
	if (record.pair_bytes != NO_PAIR)
	{
		input.pair = (const char *) at;
		input.pair_bytes = record.pair_bytes;
		at += record.pair_bytes;
	}
	input.bare = record.bare;
	input.cut_start = record.cut_start;
	input.tokens_max = record.tokens_max;
	at = read_wanted(&wanted, record.count, at);

	same = tokenizer_encode(tokenizer, arena, &input, &output, &status) && output.count == record.count &&
		memcmp(ids, wanted.ids, record.count * sizeof(*ids)) == 0 &&
		memcmp(type_ids, wanted.type_ids, record.count * sizeof(*ids)) == 0;
	same_places = same && memcmp(places, wanted.places, record.count * sizeof(*places)) == 0;
	same_words = same && memcmp(words, wanted.words, record.count * sizeof(*words)) == 0;
	if (status.error != 0)
		printf("# %s: %s\n", name, status.message);
	if (!same && tally->ids++ < SHOWN)
		show(name, "ids", &record, input.text, wanted.ids, ids, 1, &output);
	else if (same && !same_places && tally->places++ < SHOWN)
		show(name, "places", &record, input.text, &wanted.places->start, &places->start, 2, &output);
	else if (same && !same_words && tally->words++ < SHOWN)
		show(name, "words", &record, input.text, wanted.words, words, 1, &output);
	tally->texts++;
	tally->tokens += record.count;
	return at;
}

static void
check_case(const char *folder, const char *name)
{
	char		path[4096];
	struct model_files files = {0};
	struct status status = {0};
	struct tokenizer *tokenizer;
	struct tokenizer_arena *arena = tokenizer_arena_create();
	const struct model_file *cases;
	struct tally tally = {0};

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (files_open_folder(path, &files, &status) != FILES_OK || (cases = model_files_find(&files, "cases.bin")) == NULL)
	{
		tap_ok(false, "%s cannot be read: %s", path, status.message);
		return;
	}
	tokenizer = tokenizer_open(&files, &status);
	if (tokenizer == NULL)
		tap_ok(false, "%s: %s", name, status.message);
	else
	{
		for (const uint8_t *at = cases->data; at < cases->data + cases->size;)
			at = check_record(name, tokenizer, arena, at, &tally);
		tap_ok(tally.texts > 0 && tally.ids == 0, "%s: %llu of %llu texts (%llu tokens) have other ids", name,
			   (unsigned long long) tally.ids, (unsigned long long) tally.texts, (unsigned long long) tally.tokens);
		tap_ok(tally.places == 0, "%s: %llu texts have other places", name, (unsigned long long) tally.places);
		tap_ok(tally.words == 0, "%s: %llu texts have other words", name, (unsigned long long) tally.words);
	}
	tokenizer_close(tokenizer);
	tokenizer_arena_free(arena);
	files_close(&files);
}

static int
is_case(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && entry->d_type != DT_REG;
}

int
main(int argc, char **argv)
{
	char		folder[2048];
	struct dirent **entries;
	int			count;

	if (argc > 1)
		snprintf(folder, sizeof(folder), "%s", argv[1]);
	else
		snprintf(folder, sizeof(folder), "%s/tokenizers", getenv("INFER_PARTS") ? getenv("INFER_PARTS") : ".parts");
	count = scandir(folder, &entries, is_case, alphasort);
	if (count <= 0)
	{
		printf("1..0 # SKIP there are no tokenizers in %s: script/test makes them\n", folder);
		return 0;
	}
	for (int i = 0; i < count; i++)
	{
		check_case(folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return tap_done();
}
