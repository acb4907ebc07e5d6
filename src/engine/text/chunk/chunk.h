/*
 * chunk.h
 *	  A long text as chunks that a model can take: each is a piece of the text as it stands.
 *
 * Nouns
 *	chunk		characters start to end (counted from 0, end exclusive) of a text, the same in bytes,
 *				and how many tokens it has when it is tokenized by itself, the special tokens that
 *				the tokenizer adds to one text included: what tokenizer_count says of it
 *	border		where a chunk should end: see below
 *	overlap		tokens of a chunk's end that the next chunk repeats
 *
 * What is promised
 *	- No chunk has more than tokens_max tokens.  A piece may have other tokens than the text
 *	  has there, so every chunk is tokenized by itself, and made shorter until it fits.
 *	- Chunks begin and end with what is not white space; but for white space between chunks, at
 *	  the beginning and at the end they cover the whole text.  A text of nothing else has none.
 *	- Each chunk begins behind the beginning of the one before it and ends behind its end.
 *	- The overlap begins where a word begins, so that it has at most as many of the tokens of the
 *	  chunk before as are asked for, and often somewhat fewer; none where no word begins among them,
 *	  or where the next chunk would hold nothing new, or cut the first word that is new.  In a word that
 *	  is cut already it begins at a token.
 *	- A chunk ends at the last border of the kind that is asked for inside the limit; where there
 *	  is none at the last of the next kind that has one, in this order:
 *		paragraph	before white space with a blank line in it
 *		sentence	behind a full stop, question or exclamation mark (of any script) and what closes behind
 *					it, before white space; no stop behind a single capital letter or before a small
 *					one; behind CJK's without white space
 *		word		before white space; in scripts that do without, between two tokens, but not before
 *					what closes or behind what opens
 *		part		between letters and other characters of a word that has more tokens than a chunk may have
 *		token		between two tokens, and grapheme clusters
 *		cluster		between grapheme clusters, then between characters
 *	  Asked for tokens, chunks end at words.  White space divides the cluster that it is in, behind
 *	  a character that joins whatever follows.
 *	- No chunk cuts a word if it could end before white space, with the first word that it adds:
 *	  before one is cut that is tried.  Where the ends of many words do not fit by themselves, although
 *	  the tokens of a longer piece said so, some are left out, and the last that fits may be among them.
 *
 * Time
 *	A chunk costs what tokenizing a few times its length costs; all that is read is counted as work.
 */
#ifndef ENGINE_TEXT_CHUNK_H
#define ENGINE_TEXT_CHUNK_H

#include "../tokenizer.h"

#define CHUNKS_MAX			(1u << 22)	/* of a text */
#define CHUNKS_BYTES_MAX	(UINT64_C(1) << 30)	/* of all chunks of a text together */

enum chunk_border
{
	CHUNK_TOKEN,
	CHUNK_SENTENCE,
	CHUNK_PARAGRAPH
};

struct chunk
{
	uint32_t	start;				/* characters */
	uint32_t	end;
	uint32_t	start_byte;
	uint32_t	end_byte;
	uint32_t	tokens;				/* special ones included */
};

/* Zeroed before its first use; data is kept for the next call. */
struct chunks
{
	struct chunk *data;
	uint32_t	count;
	uint32_t	space;
	uint64_t	work;				/* bytes that were tokenized */
};

/*
 * The chunks of a text.  Fails as tokenizer_encode does for a text that cannot be tokenized, and
 * (INFER_ERROR_INPUT) for a tokens_max without room for a token beside the special ones, an overlap
 * that leaves no room for another token, a character of more tokens than there is room for, and
 * chunks over the limits above.
 */
extern bool chunk_text(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const char *text,
					   uint64_t bytes, uint32_t tokens_max, uint32_t overlap, enum chunk_border border,
					   struct chunks *chunks, struct status *status);

extern void chunks_free(struct chunks *chunks);

#endif							/* ENGINE_TEXT_CHUNK_H */
