/*
 * tokenizer.c
 *	  Opening a tokenizer, and the way of a text through its parts: see text_internal.h.
 *
 * Chunks
 *	BERT's normalizer and pre-tokenizer forget everything at a space: no word crosses it and
 *	no sequence of marks.  So a segment is worked on in chunks that end before a space, and
 *	the memory of a call is bounded by what has no space in it.  That holds neither for other
 *	normalizers and pre-tokenizers nor where added tokens are sought in normalised text: there
 *	a segment is one chunk.
 */
#include "text_internal.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../model/model.h"

#define CHUNK_BYTES		1024		/* a chunk ends at the first space behind so many */
#define HOST_BYTES		(UINT64_C(1) << 30)	/* of a tokenizer */

/* ---- opening ---- */

static bool
has_merges(const struct model_files *files)
{
	return model_files_find(files, "vocab.json") != NULL && model_files_find(files, "merges.txt") != NULL;
}

bool
tokenizer_recognises(const struct model_files *files)
{
	return model_files_find(files, "tokenizer.json") != NULL || model_files_find(files, "vocab.txt") != NULL || has_merges(files);
}

static bool
can_chunk(const struct tokenizer *tokenizer)
{
	bool		bert = tokenizer->normalizers_count == 1 && tokenizer->normalizers[0].kind == NORMALIZE_BERT;

	return (bert || tokenizer->normalizers_count == 0) && tokenizer->added.normalized_count == 0 &&
		tokenizer->splitters_count > 0 &&
		(tokenizer->splitters[0].kind == SPLIT_BERT || tokenizer->splitters[0].kind == SPLIT_SPACES);
}

struct tokenizer *
tokenizer_open(const struct model_files *files, struct status *status)
{
	struct tokenizer *tokenizer = calloc(1, sizeof(*tokenizer));
	bool		good;

	if (tokenizer == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for a tokenizer");
		return NULL;
	}
	graph_memory_init(&tokenizer->memory, HOST_BYTES, status);
	if (model_files_find(files, "tokenizer.json") != NULL)
		good = read_tokenizer_json(tokenizer, files, status);
	else if (model_files_find(files, "vocab.txt") != NULL)
		good = read_vocabulary_text(tokenizer, files, status);
	else if (has_merges(files))
		good = read_vocabulary_merges(tokenizer, files, status);
	else
		good = status_set(status, INFER_ERROR_UNSUPPORTED, "the model has neither tokenizer.json nor vocab.txt, nor vocab.json and merges.txt");
	if (!good)
	{
		tokenizer_close(tokenizer);
		return NULL;
	}
	tokenizer->chunks = can_chunk(tokenizer);
	tokenizer->facts.added_single = tokenizer->single.added;
	tokenizer->facts.added_pair = tokenizer->pair.added;
	tokenizer->memory.status = NULL;	/* the caller's ends; nothing is allocated from here on */
	return tokenizer;
}

void
tokenizer_close(struct tokenizer *tokenizer)
{
	if (tokenizer == NULL)
		return;
	graph_memory_free(&tokenizer->memory);
	free(tokenizer);
}

const struct tokenizer_facts *
tokenizer_facts(const struct tokenizer *tokenizer)
{
	return &tokenizer->facts;
}

uint64_t
tokenizer_bytes(const struct tokenizer *tokenizer)
{
	return sizeof(*tokenizer) + tokenizer->memory.used;
}

/* ---- segments ---- */

/* An added token and the text that it was found as. */
static bool
add_added_token(struct text_run *run, int32_t id, uint32_t start, uint32_t end, const uint8_t *text, size_t size)
{
	struct text_token *token;

	if (!arena_add_token(run, id, start, end))
		return false;
	run->word++;
	if (!run->tokenizer->trim)
		return true;
	token = &run->tokens->data[run->tokens->count - 1];
	token->leading = text_leading_spaces(text, size);
	token->trailing = text_trailing_spaces(text, size);
	return true;
}

/* What was normalised: added tokens that are sought there, and pieces between them. */
static bool
encode_normalized(struct text_run *run)
{
	const struct text_buffer *buffer = &run->arena->buffer;
	const struct added_tokens *added = &run->tokenizer->added;
	struct added_search search;
	struct added_match match;

	if (added->normalized_count == 0)
		return split_piece(run, 0, buffer->used);
	added_search_begin(&search, added, &added->normalized, buffer->bytes, buffer->used);
	do
	{
		if (!added_search_next(&search, &match))
			return status_set(run->arena->status, INFER_ERROR_INPUT, "the tokenizer's added tokens overlap in the text");
		if (match.start > match.before && !split_piece(run, (uint32_t) match.before, (uint32_t) match.start))
			return false;
		if (match.token != NULL && match.end > match.start &&
			!add_added_token(run, match.token->id, buffer->origins[match.start], buffer->origins[match.end - 1] + 1,
							 buffer->bytes + match.start, match.end - match.start))
			return false;
	} while (match.token != NULL && run->tokens->count < run->enough);
	return true;
}

/* The end of the chunk that begins at start. */
static size_t
chunk_end(const struct text_run *run, size_t start, size_t end)
{
	const uint8_t *space;

	if (!run->tokenizer->chunks || end - start <= CHUNK_BYTES)
		return end;
	space = memchr(run->text + start + CHUNK_BYTES, ' ', end - start - CHUNK_BYTES);
	return space == NULL ? end : (size_t) (space - run->text);
}

/* A segment of the text; character is the number of its first, and is set to that behind it. */
static bool
encode_segment(struct text_run *run, size_t start, size_t end, uint32_t *character)
{
	while (start < end && run->tokens->count < run->enough)
	{
		size_t		stop = chunk_end(run, start, end);

		if (!normalize(run->tokenizer, run->arena, run->text + start, stop - start, *character) ||
			!encode_normalized(run))
			return false;
		*character += utf8_characters(run->text + start, stop - start);
		start = stop;
	}
	return true;
}

/*
 * Characters before a place, from one that is known.  Places go forward, but for the start of
 * a token behind white space that the one before it took along.
 */
struct counter
{
	size_t		at;
	uint32_t	character;
};

static uint32_t
count_to(struct counter *counter, const uint8_t *text, size_t at)
{
	if (at >= counter->at)
		counter->character += utf8_characters(text + counter->at, at - counter->at);
	else
		counter->character -= utf8_characters(text + at, counter->at - at);
	counter->at = at;
	return counter->character;
}

/* One text: added tokens that are sought in it as it is, and segments between them. */
static bool
encode_text(struct text_run *run)
{
	const struct added_tokens *added = &run->tokenizer->added;
	struct added_search search;
	struct added_match match;
	struct counter starts = {0}, ends = {0}, spaces = {0};
	uint32_t	character = 0;

	run->tokens->count = 0;
	if (added->literal_count == 0)
		return encode_segment(run, 0, run->size, &character);
	added_search_begin(&search, added, &added->literal, run->text, run->size);
	do
	{
		uint32_t	start, end;

		if (!added_search_next(&search, &match))
			return status_set(run->arena->status, INFER_ERROR_INPUT, "the tokenizer's added tokens overlap in the text");
		if (match.start > match.before)
		{
			character = count_to(&starts, run->text, match.before);
			if (!encode_segment(run, match.before, match.start, &character))
				return false;
		}
		if (match.token == NULL)
			break;
		start = count_to(&starts, run->text, match.start);
		end = match.end == search.at ? count_to(&ends, run->text, match.end) : count_to(&spaces, run->text, match.end);
		if (match.end > match.start && !add_added_token(run, match.token->id, start, end, run->text + match.start, match.end - match.start))
			return false;
	} while (run->tokens->count < run->enough);
	return true;
}

/* ---- rows ---- */

bool
tokenize_text(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, uint32_t which, const uint8_t *text,
			  size_t size, uint32_t enough)
{
	struct text_run run = {.tokenizer = tokenizer, .arena = arena, .buffer = &arena->buffer, .tokens = &arena->tokens[which],
		.text = text, .size = size, .enough = enough};

	return encode_text(&run);
}

bool
check_text(const char *text, uint64_t bytes, struct status *status)
{
	size_t		bad;

	if (bytes > TOKENIZER_TEXT_MAX)
		return status_set(status, INFER_ERROR_INPUT, "a text of %llu bytes is longer than %llu bytes",
						  (unsigned long long) bytes, (unsigned long long) TOKENIZER_TEXT_MAX);
	if (!utf8_check((const uint8_t *) text, bytes, &bad))
		return status_set(status, INFER_ERROR_INPUT, "the text is not UTF-8 at byte %zu", bad + 1);
	return true;
}

/* How many tokens of each text remain: the reference's longest_first. */
static void
cut_lengths(uint32_t lengths[2], uint32_t room)
{
	bool		exchanged = lengths[0] > lengths[1];
	uint32_t	shorter = lengths[exchanged], longer = lengths[!exchanged];

	if (shorter > room)
		longer = shorter;
	else
		longer = shorter > room - shorter ? shorter : room - shorter;
	if (shorter + longer > room)
	{
		shorter = room / 2;
		longer = shorter + room % 2;
	}
	lengths[exchanged] = shorter;
	lengths[!exchanged] = longer;
}

static void
put(struct tokenizer_output *output, int32_t id, int32_t type_id, enum token_source source,
	struct token_place place, int32_t word)
{
	uint32_t	at = output->count++;

	if (at >= output->space)
		return;
	if (output->ids != NULL)
		output->ids[at] = id;
	if (output->type_ids != NULL)
		output->type_ids[at] = type_id;
	if (output->sources != NULL)
		output->sources[at] = (uint8_t) source;
	if (output->places != NULL)
		output->places[at] = place;
	if (output->words != NULL)
		output->words[at] = word;
}

/* A token's place without the spaces at its ends; first: of its text. */
static struct token_place
trimmed(const struct tokenizer *tokenizer, const struct text_token *token, bool first)
{
	struct token_place place = token->place;
	uint32_t	leading = token->leading;

	if (leading == 1 && tokenizer->trim_keeps_first && (first || place.start == 0))
		leading = 0;
	if (leading > 0)
		place.start = (int64_t) place.start + leading < place.end ? place.start + (int32_t) leading : place.end;
	if (token->trailing > 0 && place.end >= (int64_t) token->trailing)
		place.end = place.end - (int32_t) token->trailing > place.start ? place.end - (int32_t) token->trailing : place.start;
	return place;
}

/* The row by its template; of each text, length tokens from first on. */
static void
fill_template(const struct tokenizer *tokenizer, const struct template *template, const struct tokenizer_arena *arena,
			  const uint32_t first[2], const uint32_t lengths[2], bool bare, struct tokenizer_output *output)
{
	for (uint32_t i = 0; i < template->count; i++)
	{
		const struct template_piece *piece = &template->pieces[i];
		uint32_t	which = piece->kind == TEMPLATE_PAIR;

		if (piece->kind != TEMPLATE_TOKENS)
		{
			const struct text_token *tokens = arena->tokens[which].data;

			for (uint32_t t = first[which]; t < first[which] + lengths[which]; t++)
				put(output, tokens[t].id, piece->type_id, which == 0 ? TOKEN_OF_TEXT : TOKEN_OF_PAIR,
					tokenizer->trim ? trimmed(tokenizer, &tokens[t], t == first[which]) : tokens[t].place,
					(int32_t) tokens[t].word);
		}
		else if (!bare)
			for (uint32_t t = 0; t < piece->count; t++)
				put(output, piece->ids[t], piece->type_id, TOKEN_OF_TEMPLATE, (struct token_place) {0, 0}, -1);
	}
}

bool
tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_arena *arena,
				 const struct tokenizer_input *input, struct tokenizer_output *output, struct status *status)
{
	const struct template *template = input->pair != NULL ? &tokenizer->pair : &tokenizer->single;
	uint32_t	added = input->bare ? 0 : template->added;
	uint32_t	lengths[2] = {0}, first[2] = {0}, room = UINT32_MAX, enough = UINT32_MAX;

	output->count = 0;
	output->cut = false;
	arena->status = status;
	if (input->tokens_max > 0)
	{
		if (input->tokens_max < added)
			return status_set(status, INFER_ERROR_INPUT, "%u tokens have no room for the %u special ones",
							  input->tokens_max, added);
		room = input->tokens_max - added;
		if (!input->cut_start && input->pair == NULL)
			enough = room + 1;	/* of a pair, both lengths are to be known */
	}
	for (uint32_t which = 0; which < (input->pair != NULL ? 2 : 1); which++)
	{
		const char *text = which == 0 ? input->text : input->pair;
		uint64_t	bytes = which == 0 ? input->text_bytes : input->pair_bytes;

		if (!check_text(text, bytes, status) ||
			!tokenize_text(tokenizer, arena, which, (const uint8_t *) text, bytes, enough))
			return false;
		lengths[which] = arena->tokens[which].count;
	}
	if ((uint64_t) lengths[0] + lengths[1] > room)
	{
		output->cut = true;
		if (input->pair != NULL)
			cut_lengths(lengths, room);
		else
			lengths[0] = room;
		for (uint32_t which = 0; input->cut_start && which < 2; which++)
			first[which] = arena->tokens[which].count - lengths[which];
	}
	fill_template(tokenizer, template, arena, first, lengths, input->bare, output);
	return true;
}

bool
tokenizer_count(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const char *text,
				uint64_t bytes, uint32_t *count, struct status *status)
{
	struct tokenizer_input input = {.text = text, .text_bytes = bytes};
	struct tokenizer_output output = {0};

	if (!tokenizer_encode(tokenizer, arena, &input, &output, status))
		return false;
	*count = output.count;
	return true;
}
