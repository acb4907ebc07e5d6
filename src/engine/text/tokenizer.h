/*
 * tokenizer.h
 *	  Texts into token ids, exactly as the reference library (the "tokenizers" package of
 *	  Hugging Face) makes them from the same files.
 *
 * Nouns
 *	tokenizer	what the files of a model's folder say, read once; immutable afterwards
 *	text, pair	one or two texts in UTF-8 that become one row of tokens
 *	token		an id of the vocabulary, with its type id, its source and its place
 *	place		the characters (code points) of its own text that a token stands for, from
 *				start, counted from 0, to end, exclusive; 0, 0 for a token of the template
 *	word		what the pre-tokenizer cuts a text into, and an added token; numbered from 0 in each text,
 *				also those that become no token
 *	template	the special tokens around the text, or around and between text and pair
 *	arena		the memory that a call works in; kept by the caller, one per thread
 *
 * Files
 *	tokenizer.json, and where there is none vocab.txt (BERT's), or vocab.json and merges.txt (GPT-2's,
 *	RoBERTa's, CLIP's).  tokenizer_config.json beside them says the length limit, and what the others
 *	leave open; special_tokens_map.json and added_tokens.json name special tokens for the last two.  The truncation and padding blocks of
 *	tokenizer.json are settings of the program that wrote it and are ignored; so is the
 *	decoder, which only turns ids into text.  Whatever else a file asks for and is not
 *	implemented here is refused by name.
 *
 * Threads
 *	A tokenizer may be used from any number of threads, each with an arena of its own.
 *
 * Time and memory
 *	Linear in the text, whatever it holds: no more than the longest token of the vocabulary
 *	times the bytes of the text; merging a word (BPE) takes the logarithm of its length times
 *	as long.  An arena grows with the number of tokens and with the text, of which BERT's
 *	tokenizers only hold the longest stretch without a space, and stays as large; a call that
 *	finds it large enough allocates nothing.
 */
#ifndef ENGINE_TEXT_TOKENIZER_H
#define ENGINE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

#define TOKENIZER_TEXT_MAX	(UINT64_C(1) << 28)	/* bytes of one text */

struct model_files;
struct status;
struct tokenizer;
struct tokenizer_arena;

struct tokenizer_facts
{
	const char *model;				/* "WordPiece", "BPE", "Unigram" or "WordLevel" */
	int32_t		ids_end;			/* every id is below */
	uint32_t	length_max;			/* tokenizer_config.json's model_max_length; 0: it sets none */
	uint32_t	added_single;		/* tokens that the template adds to a text, */
	uint32_t	added_pair;			/* and to a pair */
};

struct tokenizer_input
{
	const char *text;				/* UTF-8, need not be terminated */
	uint64_t	text_bytes;
	const char *pair;				/* NULL: there is none */
	uint64_t	pair_bytes;
	bool		bare;				/* without the template's special tokens */
	bool		cut_start;			/* what is too long loses its beginning, not its end */
	uint32_t	tokens_max;			/* cut to so many, special ones included; 0: never cut */
};

enum token_source
{
	TOKEN_OF_TEXT,
	TOKEN_OF_PAIR,
	TOKEN_OF_TEMPLATE
};

struct token_place
{
	int32_t		start;				/* characters */
	int32_t		end;				/* exclusive */
};

/* Arrays of the caller, each of space elements; any may be NULL. */
struct tokenizer_output
{
	uint32_t	space;
	int32_t    *ids;
	int32_t    *type_ids;
	uint8_t    *sources;			/* enum token_source */
	struct token_place *places;
	int32_t    *words;				/* -1: of the template */
	uint32_t	count;				/* set: tokens of the row; only the first space ones are written */
	bool		cut;				/* set: tokens_max made it shorter */
};

/* Whether a folder has a tokenizer's files; by name only. */
extern bool tokenizer_recognises(const struct model_files *files);

/* NULL: the status says why.  The files may go afterwards. */
extern struct tokenizer *tokenizer_open(const struct model_files *files, struct status *status);
extern void tokenizer_close(struct tokenizer *tokenizer);

extern const struct tokenizer_facts *tokenizer_facts(const struct tokenizer *tokenizer);

/* Bytes held, for accounting. */
extern uint64_t tokenizer_bytes(const struct tokenizer *tokenizer);

/* NULL: out of memory. */
extern struct tokenizer_arena *tokenizer_arena_create(void);
extern void tokenizer_arena_free(struct tokenizer_arena *arena);

/*
 * One row.  Fails for text that is not UTF-8 or over TOKENIZER_TEXT_MAX, and for a tokens_max that
 * has no room for the special tokens (INFER_ERROR_INPUT), and where the arena cannot grow
 * (INFER_ERROR_MEMORY).  A pair that is too long is cut as by the reference's longest_first: the
 * longer of the two until both are equally long, then both.
 */
extern bool tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_arena *arena,
							 const struct tokenizer_input *input, struct tokenizer_output *output,
							 struct status *status);

/* The tokens of one text with its special tokens, uncut. */
extern bool tokenizer_count(const struct tokenizer *tokenizer, struct tokenizer_arena *arena,
							const char *text, uint64_t bytes, uint32_t *count, struct status *status);

#endif							/* ENGINE_TEXT_TOKENIZER_H */
