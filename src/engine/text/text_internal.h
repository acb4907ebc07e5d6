/*
 * text_internal.h
 *	  What the parts of a tokenizer share.  Only src/engine/text includes this.
 *
 * Nouns
 *	segment		a stretch of a text in which no added token was found; its end is a border
 *				that no word crosses
 *	chunk		a part of a segment that can be normalised on its own
 *	origin		for each byte of a normalised text, the character of the original one that it
 *				stands for: what the reference calls alignment (it keeps byte ranges, which are
 *				always one character's)
 *	word		what the pre-tokenizer cuts out and the model makes tokens of
 *
 * The way of a text (tokenizer.c)
 *	text  --added tokens as they are-->  segments  --normalizer, in chunks-->  bytes and origins
 *		  --added tokens as normalised-->  pieces  --pre-tokenizer-->  words  --model-->  tokens
 *		  --cut, template-->  a row
 */
#ifndef ENGINE_TEXT_INTERNAL_H
#define ENGINE_TEXT_INTERNAL_H

#include "../graph/memory.h"
#include "../status.h"
#include "tokenizer.h"
#include "trie.h"
#include "unicode.h"

#define TEXT_TOKENS_MAX		(1u << 22)	/* of a vocabulary */
#define TEXT_TOKEN_BYTES	4096	/* of one token */
#define TEXT_WORD_MAX		(1u << 20)	/* the highest max_input_chars_per_word */
#define TEXT_PIECES_MAX		64		/* of a template, and of one of its special tokens */

/* ---- what the files say ---- */

struct added_token
{
	const char *content;
	int32_t		id;
	bool		single_word;
	bool		lstrip;
	bool		rstrip;
	bool		normalized;
	bool		special;
};

struct added_tokens
{
	uint32_t	count;
	struct added_token *tokens;
	uint32_t	literal_count;		/* sought in the text as it is */
	struct trie literal;			/* values: indexes of tokens */
	uint32_t	normalized_count;	/* sought in normalised text */
	struct trie normalized;
};

struct bert_normalizer
{
	bool		used;				/* false: text stays as it is */
	bool		clean_text;
	bool		handle_chinese_chars;
	bool		strip_accents;
	bool		lowercase;
	uint8_t		ascii[128];			/* what becomes of an ASCII character; 0xFF: nothing */
};

struct wordpiece
{
	struct trie vocabulary;
	uint32_t	continued;			/* the node behind the prefix; TRIE_NONE: no token has it */
	int32_t		unknown;
	uint32_t	word_max;			/* characters */
	int32_t		ids_count;			/* tokens of the vocabulary; ids may have gaps */
};

enum template_kind
{
	TEMPLATE_TEXT,
	TEMPLATE_PAIR,
	TEMPLATE_TOKENS
};

struct template_piece
{
	enum template_kind kind;
	int32_t		type_id;
	uint32_t	count;				/* of TEMPLATE_TOKENS */
	int32_t    *ids;
};

struct template
{
	uint32_t	count;
	struct template_piece *pieces;
	uint32_t	added;				/* special tokens in all */
};

struct tokenizer
{
	struct graph_memory memory;
	struct tokenizer_facts facts;
	struct added_tokens added;
	struct bert_normalizer bert;
	bool		split_bert;			/* BertPreTokenizer; else a piece is one word */
	struct wordpiece wordpiece;
	struct template single;
	struct template pair;
};

/* ---- what a call works on ---- */

struct text_token
{
	int32_t		id;
	struct token_place place;
};

struct text_tokens
{
	struct text_token *data;
	uint32_t	count;
	uint32_t	space;
};

struct text_buffer					/* normalised text */
{
	uint8_t    *bytes;
	uint32_t   *origins;			/* one per byte */
	uint32_t	used;
	uint32_t	space;
};

struct pending_mark					/* of a sequence whose order is still open */
{
	uint32_t	point;
	uint32_t	origin;
	uint8_t		class;
	bool		first;				/* the first, or only, character of what it was decomposed from */
};

struct pending_marks
{
	struct pending_mark *data;
	struct pending_mark *sorted;	/* as large */
	uint32_t	count;
	uint32_t	space;
};

struct tokenizer_arena
{
	struct text_buffer buffer;
	struct pending_marks marks;
	struct text_tokens tokens[2];	/* of text and pair */
	struct status *status;			/* of the call */
};

/* One text of a call. */
struct text_run
{
	const struct tokenizer *tokenizer;
	struct tokenizer_arena *arena;
	struct text_tokens *tokens;
	const uint8_t *text;
	size_t		size;
	uint32_t	enough;				/* no more tokens than these are wanted */
};

/* ---- arena.c ---- */

/* Room for more; false: the call's status is set. */
extern bool arena_grow_buffer(struct tokenizer_arena *arena, uint32_t wanted);
extern bool arena_grow_marks(struct tokenizer_arena *arena);
extern bool arena_grow_tokens(struct tokenizer_arena *arena, struct text_tokens *tokens);

static inline bool
arena_add_token(struct text_run *run, int32_t id, uint32_t start, uint32_t end)
{
	struct text_tokens *tokens = run->tokens;

	if (tokens->count == tokens->space && !arena_grow_tokens(run->arena, tokens))
		return false;
	tokens->data[tokens->count++] = (struct text_token) {id, {(int32_t) start, (int32_t) end}};
	return true;
}

/* ---- added.c ---- */

/* One match of an added token, and what lies before it. */
struct added_match
{
	const struct added_token *token;	/* NULL: the end of the text was reached */
	size_t		before;				/* where what lies before it begins; it ends at start */
	size_t		start;
	size_t		end;
};

struct added_search
{
	const struct added_tokens *added;
	const struct trie *trie;
	const uint8_t *text;
	size_t		size;
	size_t		at;					/* where the next match may begin */
	size_t		done;				/* the end of the last match, what it stripped included */
	size_t		spaces_start;		/* white space that was run over last */
	size_t		spaces_end;
};

extern bool added_build(struct tokenizer *tokenizer, struct status *status);
extern void added_search_begin(struct added_search *search, const struct added_tokens *added,
							   const struct trie *trie, const uint8_t *text, size_t size);

/* False: the files' tokens overlap in this text, as the reference cannot express either. */
extern bool added_search_next(struct added_search *search, struct added_match *match);

/* ---- bert.c ---- */

extern void bert_prepare(struct bert_normalizer *normalizer);

/* Appends a normalised chunk to the arena's buffer; character is the number of its first. */
extern bool bert_normalize(const struct bert_normalizer *normalizer, struct tokenizer_arena *arena,
						   const uint8_t *text, size_t size, uint32_t character);

/* Cuts bytes start to end of the arena's buffer into words, for the model. */
extern bool bert_split(struct text_run *run, uint32_t start, uint32_t end);

/* ---- wordpiece.c ---- */

extern bool wordpiece_word(struct text_run *run, uint32_t start, uint32_t end);

/* ---- reader.c, reader_wordpiece.c: the files ---- */

extern bool read_tokenizer_json(struct tokenizer *tokenizer, const struct model_files *files,
								struct status *status);
extern bool read_vocabulary_text(struct tokenizer *tokenizer, const struct model_files *files,
								 struct status *status);

#endif							/* ENGINE_TEXT_INTERNAL_H */
