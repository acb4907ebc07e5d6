/*
 * chunk.c
 *	  See chunk.h.
 *
 * Nouns
 *	spot		a place of the text, in bytes and in characters
 *	room		tokens of a chunk without the special ones
 *	done		what the chunks so far hold ends there, and the white space behind them
 *	window		what is tokenized to see how far a chunk may reach
 *
 * The loop (chunk_text)
 *	A window from the chunk's start is tokenized, twice as long each time, until it has more
 *	tokens than there is room for, or the text ends.  The best border before the first token
 *	without room ends the chunk (best_end); then the chunk is tokenized by itself, and if it has too
 *	many tokens all the same, the search is repeated before the first one without room; behind some
 *	words, or within one, it is one, two, four, ... tokens earlier.  Tokens of windows are only hints
 *	where to look, so before a word is cut the chunk that ends with the first word is tokenized.
 *	If that has too many, or if there is no such place behind done, the overlap is given up; then
 *	words are; then clusters; then ever shorter pieces are tried, for tokens of which many stand for
 *	the same long piece of text.
 */
#include "chunk.h"

#include <stdlib.h>

#include "../../../protocol/protocol.h"
#include "../text_internal.h"
#include "border.h"

#define TOKEN_BYTES		6			/* of a first window, for each token */
#define WINDOW_BYTES	64			/* at least */
#define ROOM_MAX		(1u << 30)	/* more than any text has */
#define WORD_BYTES		400			/* a window may be so much longer, to end at white space */
#define WORDS_TRIED		8			/* ends of words, before the search leaves out some */

struct spot
{
	uint32_t	byte;
	uint32_t	character;
};

struct chunker
{
	const struct tokenizer *tokenizer;
	struct tokenizer_arena *arena;
	struct chunks *chunks;
	struct status *status;
	const uint8_t *text;
	uint32_t	size;				/* without white space at the end */
	uint32_t	room;
	uint32_t	overlap;
	uint64_t	usual;				/* bytes of a window, by the chunk before */
	enum border best;				/* no better borders are sought */
};

enum outcome
{
	FOUND,
	NONE,
	FAILED
};

/* ---- tokens ---- */

/* The tokens of a piece of the text, in the arena; their places are counted from its start. */
static bool
tokenize(struct chunker *chunker, uint32_t start, uint32_t end, const struct text_tokens **tokens)
{
	chunker->chunks->work += end - start;
	*tokens = &chunker->arena->tokens[0];
	return tokenize_text(chunker->tokenizer, chunker->arena, 0, chunker->text + start, end - start, chunker->room + 1);
}

/* Tokens are passed in order; whether some end and all others begin at a place. */
struct token_walk
{
	const struct text_tokens *tokens;
	uint32_t	passed;
	int64_t		reach;				/* the furthest end of those that were passed */
};

static bool
is_token_border(struct token_walk *walk, int64_t character)
{
	const struct text_tokens *tokens = walk->tokens;

	for (; walk->passed < tokens->count && tokens->data[walk->passed].place.start < character; walk->passed++)
		if (tokens->data[walk->passed].place.end > walk->reach)
			walk->reach = tokens->data[walk->passed].place.end;
	return walk->reach <= character;
}

/* ---- where a chunk ends ---- */

static struct spot
spot_behind(const struct chunker *chunker, struct spot from, uint32_t byte)
{
	return (struct spot) {byte, from.character + utf8_characters(chunker->text + from.byte, byte - from.byte)};
}

static struct spot
skip_spaces(const struct chunker *chunker, struct spot from)
{
	return spot_behind(chunker, from, (uint32_t) border_skip_spaces(chunker->text, from.byte, chunker->size));
}

/*
 * Behind the next cluster, or character, from a place; nothing is read behind the end.  White space
 * that a cluster has behind its beginning, as some characters join what follows, divides it.
 */
static uint32_t
next_place(const struct chunker *chunker, uint32_t at, uint32_t end, bool clusters)
{
	uint32_t	length;

	utf8_decode(chunker->text + at, &length);
	at += length;
	if (clusters)
		for (end = (uint32_t) unicode_cluster_end(chunker->text, at - length, end); at < end; at += length)
		{
			if (border_is_before_space(chunker->text, at, end))
				break;
			utf8_decode(chunker->text + at, &length);
		}
	return at;
}

/*
 * The last of the best borders behind done that is at most limit characters behind the start,
 * between clusters or characters, and which it is; negative: there is none.  reading: a cluster
 * that goes on behind it is no border.
 */
static int
best_end(const struct chunker *chunker, struct spot start, uint32_t done, uint32_t limit, uint32_t reading,
		 bool clusters, struct spot *end)
{
	struct token_walk walk = {.tokens = &chunker->arena->tokens[0]};
	struct spot found[BORDERS];
	uint32_t	known = 0;			/* a bit for each of these */
	struct spot at = start;

	while (at.byte < reading)
	{
		bool		token;
		enum border border;

		at = spot_behind(chunker, at, next_place(chunker, at.byte, reading, clusters));
		if (at.character - start.character > limit || (at.byte == reading && reading < chunker->size))
			break;
		token = is_token_border(&walk, at.character - start.character);
		if (at.byte <= done || border_is_behind_space(chunker->text, at.byte))
			continue;
		border = border_at(chunker->text, at.byte, chunker->size, token);
		border = border > chunker->best ? chunker->best : border;
		found[border] = at;
		known |= 1u << border;
	}
	for (int border = BORDERS - 1; border >= 0; border--)
		if ((known >> border & 1) != 0)
			return *end = found[border], border;
	return -1;
}

/* The character at which the first token without room begins, or some tokens before it. */
static uint32_t
limit_of(const struct chunker *chunker, uint32_t back)
{
	int32_t		start = chunker->arena->tokens[0].data[chunker->room - back].place.start;

	return start < 0 ? 0 : (uint32_t) start;
}

/* A window of about so many bytes that ends before white space, if there is some near. */
static uint32_t
window_end(const struct chunker *chunker, uint32_t start, uint64_t bytes)
{
	uint64_t	end = start + bytes, most;

	if (end >= chunker->size)
		return chunker->size;
	most = end + (bytes < WORD_BYTES ? bytes : WORD_BYTES);
	while (end < most && end < chunker->size && chunker->text[end] != ' ' && chunker->text[end] != '\n')
		end++;
	while (end < chunker->size && utf8_continues(chunker->text[end]))
		end++;
	return (uint32_t) end;
}

/* A window with more tokens than there is room for, or to the end of the text. */
static bool
open_window(struct chunker *chunker, uint32_t start, uint32_t *end, const struct text_tokens **tokens)
{
	uint64_t	bytes = (uint64_t) TOKEN_BYTES * chunker->room;

	if (bytes > chunker->usual)
		bytes = chunker->usual;
	bytes += WINDOW_BYTES;

	do
	{
		*end = window_end(chunker, start, bytes);
		if (!tokenize(chunker, start, *end, tokens))
			return false;
		bytes *= 2;
	} while ((*tokens)->count <= chunker->room && *end < chunker->size);
	return true;
}

/* The end of the first word behind done, if it is inside the window and the chunk fits. */
static enum outcome
fit_word(struct chunker *chunker, struct spot start, struct spot done, uint32_t window, struct spot *end)
{
	const struct text_tokens *tokens;
	uint32_t	at = done.byte, length;

	for (; at < window && !border_is_before_space(chunker->text, at, window); at += length)
		utf8_decode(chunker->text + at, &length);
	if (at >= window)
		return NONE;
	if (!tokenize(chunker, start.byte, at, &tokens))
		return FAILED;
	if (tokens->count > chunker->room)
		return NONE;
	*end = spot_behind(chunker, done, at);
	return FOUND;
}

/*
 * An end that leaves the chunk, tokenized by itself, as many tokens as there is room for.  With an
 * overlap it does not cut a word that begins at done.
 */
static enum outcome
fit_end(struct chunker *chunker, struct spot start, struct spot done, uint32_t window, bool clusters, struct spot *end)
{
	const struct text_tokens *tokens;
	uint32_t	limit = limit_of(chunker, 0), back = 0, words = 0, reading = window;
	bool		cut = !clusters;	/* a word may be */

	for (;;)
	{
		int			border = best_end(chunker, start, done.byte, limit, reading, clusters, end);

		if (border < BORDER_WORD && !cut)
		{
			enum outcome outcome = fit_word(chunker, start, done, window, end);

			if (outcome != NONE || (start.byte != done.byte && border_is_behind_space(chunker->text, done.byte)))
				return outcome;
			cut = true;
		}
		if (border < 0)
			return NONE;
		if (!tokenize(chunker, start.byte, end->byte, &tokens))
			return FAILED;
		if (tokens->count <= chunker->room)
			return FOUND;
		limit = limit_of(chunker, back);
		if (limit >= end->character - start.character)
			limit = end->character - start.character - 1;
		reading = end->byte;
		if (border < BORDER_WORD || ++words >= WORDS_TRIED)
			back = back == 0 ? 1 : 2 * back < chunker->room ? 2 * back : chunker->room;
	}
}

/* Where places do not tell: half of the window, a quarter, ... until it fits; at last a character. */
static enum outcome
fit_part(struct chunker *chunker, struct spot start, uint32_t window, struct spot *end)
{
	uint32_t	length = utf8_characters(chunker->text + start.byte, window - start.byte);
	const struct text_tokens *tokens;

	do
	{
		length /= 2;
		if (best_end(chunker, start, start.byte, length, window, true, end) < 0 &&
			best_end(chunker, start, start.byte, length, window, false, end) < 0)
			*end = spot_behind(chunker, start, next_place(chunker, start.byte, window, false));
		if (!tokenize(chunker, start.byte, end->byte, &tokens))
			return FAILED;
		if (tokens->count <= chunker->room)
			return FOUND;
	} while (length > 0);
	status_set(chunker->status, INFER_ERROR_INPUT, "character %u of the text has more tokens than a chunk has room for: %u",
			   start.character + 1, chunker->room);
	return FAILED;
}

/* NONE: nothing that is not done would fit into a chunk that begins here. */
static enum outcome
find_end(struct chunker *chunker, struct spot start, struct spot done, struct spot *end)
{
	const struct text_tokens *tokens;
	enum outcome outcome;
	uint32_t	window;

	if (!open_window(chunker, start.byte, &window, &tokens))
		return FAILED;
	if (tokens->count <= chunker->room)
	{
		*end = spot_behind(chunker, start, chunker->size);
		return FOUND;
	}
	outcome = fit_end(chunker, start, done, window, true, end);
	if (outcome != NONE || start.byte != done.byte)
		return outcome;
	if (!tokenize(chunker, start.byte, window, &tokens))
		return FAILED;
	outcome = fit_end(chunker, start, done, window, false, end);
	return outcome == NONE ? fit_part(chunker, start, window, end) : outcome;
}

/* ---- where the next one begins ---- */

/*
 * The first word that begins among the last tokens of the chunk, which are the arena's: behind
 * all that they do not stand for.  end: there is none.  Only where the chunk's end cuts a word is
 * one cut here.
 */
static struct spot
overlap_start(const struct chunker *chunker, struct spot start, struct spot end)
{
	const struct text_tokens *tokens = &chunker->arena->tokens[0];
	uint32_t	kept = tokens->count > chunker->overlap ? tokens->count - chunker->overlap : 0;
	struct token_walk walk = {.tokens = tokens};
	struct spot found[BORDERS], at = start;
	uint32_t	known = 0;

	while (at.byte < end.byte && (known >> BORDER_WORD & 1) == 0)
	{
		enum border border;
		bool		token;

		at = spot_behind(chunker, at, next_place(chunker, at.byte, end.byte, true));
		token = is_token_border(&walk, at.character - start.character);
		if (at.byte < end.byte &&
			(!token || walk.passed < kept || border_is_before_space(chunker->text, at.byte, chunker->size)))
			continue;
		border = border_at(chunker->text, at.byte, chunker->size, token);
		border = border > BORDER_WORD ? BORDER_WORD : border;
		if ((known >> border & 1) == 0)
			found[border] = at;
		known |= 1u << border;
	}
	for (int border = BORDER_WORD; border >= 0; border--)
		if ((known >> border & 1) != 0)
			return found[border];
	return end;
}

/* ---- all of them ---- */

static bool
add_chunk(struct chunker *chunker, struct spot start, struct spot end, uint64_t *bytes)
{
	struct chunks *chunks = chunker->chunks;

	*bytes += end.byte - start.byte;
	chunker->usual = (end.byte - start.byte) * UINT64_C(5) / 4;
	if (chunks->count == CHUNKS_MAX || *bytes > CHUNKS_BYTES_MAX)
		return status_set(chunker->status, INFER_ERROR_INPUT, "the text makes more than %u chunks, or chunks of more than %llu bytes together",
						  CHUNKS_MAX, (unsigned long long) CHUNKS_BYTES_MAX);
	if (chunks->count == chunks->space)
	{
		uint32_t	space = chunks->space == 0 ? 64 : 2 * chunks->space;
		struct chunk *data = realloc(chunks->data, space * sizeof(*data));

		if (data == NULL)
			return status_set(chunker->status, INFER_ERROR_MEMORY, "out of memory for the chunks of a text");
		chunks->data = data;
		chunks->space = space;
	}
	chunks->data[chunks->count++] = (struct chunk) {start.character, end.character, start.byte, end.byte,
		chunker->arena->tokens[0].count + chunker->tokenizer->facts.added_single};
	return true;
}

static bool
all_chunks(struct chunker *chunker)
{
	struct spot done = skip_spaces(chunker, (struct spot) {0, 0}), start = done, end;
	uint64_t	bytes = 0;

	while (done.byte < chunker->size)
	{
		enum outcome outcome = find_end(chunker, start, done, &end);

		if (outcome == NONE)
			outcome = find_end(chunker, start = done, done, &end);
		if (outcome != FOUND || !add_chunk(chunker, start, end, &bytes))
			return false;
		done = skip_spaces(chunker, end);
		if (chunker->overlap > 0 && done.byte < chunker->size)
			start = overlap_start(chunker, start, end);
		if (chunker->overlap == 0 || start.byte >= end.byte)
			start = done;
	}
	return true;
}

static uint32_t
trimmed_size(const char *text, uint64_t bytes)
{
	const uint8_t *end = (const uint8_t *) text + bytes;
	uint32_t	length;

	while (bytes > 0 && (unicode_flags(utf8_before(end, &length)) & UNICODE_SPACE) != 0)
	{
		bytes -= length;
		end -= length;
	}
	return (uint32_t) bytes;
}

static bool
check_lengths(const struct tokenizer *tokenizer, uint32_t tokens_max, uint32_t overlap, struct status *status)
{
	uint32_t	special = tokenizer->facts.added_single;

	if (tokens_max <= special)
		return status_set(status, INFER_ERROR_INPUT, "chunks of %u tokens have no room for one beside the %u special ones",
						  tokens_max, special);
	if (overlap >= tokens_max - special)
		return status_set(status, INFER_ERROR_INPUT, "an overlap of %u tokens leaves no room in chunks of %u, of which %u are special",
						  overlap, tokens_max, special);
	return true;
}

bool
chunk_text(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const char *text, uint64_t bytes,
		   uint32_t tokens_max, uint32_t overlap, enum chunk_border border, struct chunks *chunks, struct status *status)
{
	struct chunker chunker = {
		.tokenizer = tokenizer, .arena = arena, .chunks = chunks, .status = status, .text = (const uint8_t *) text,
		.overlap = overlap, .usual = UINT64_MAX,
		.best = border == CHUNK_TOKEN ? BORDER_WORD : border == CHUNK_SENTENCE ? BORDER_SENTENCE : BORDER_PARAGRAPH
	};

	chunks->count = 0;
	chunks->work = 0;
	if (!check_lengths(tokenizer, tokens_max, overlap, status) || !check_text(text, bytes, status))
		return false;
	arena->status = status;
	chunker.room = tokens_max - tokenizer->facts.added_single;
	if (chunker.room > ROOM_MAX)
		chunker.room = ROOM_MAX;
	chunker.size = trimmed_size(text, bytes);
	return all_chunks(&chunker);
}

void
chunks_free(struct chunks *chunks)
{
	free(chunks->data);
	*chunks = (struct chunks) {0};
}
