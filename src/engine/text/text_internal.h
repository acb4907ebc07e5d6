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
#include "unicode/unicode.h"

#define TEXT_TOKENS_MAX		(1u << 22)	/* of a vocabulary */
#define TEXT_IDS_MAX		(1 << 24)	/* every id of a vocabulary is below */
#define TEXT_TOKEN_BYTES	4096	/* of one token */
#define TEXT_CONTENT_MAX	256		/* bytes that a step of a normalizer writes */
#define TEXT_GROWTH_MAX		16		/* times that a text grows by normalisation; Unicode's forms reach 11 */
#define TEXT_BUFFER_LEAST	65536	/* bytes that a short text may grow to */
#define TEXT_BUFFER_MAX		(1u << 30)	/* of any text */
#define TEXT_BUFFER_SPARE	1024	/* bytes that a step may ask for and not use */
#define TEXT_WORD_MAX		(1u << 20)	/* the highest max_input_chars_per_word */
#define TEXT_STEPS_MAX		16		/* of a normalizer, and of a pre-tokenizer */
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
	bool		clean_text;
	bool		handle_chinese_chars;
	bool		strip_accents;
	bool		lowercase;
	uint8_t		ascii[128];			/* what becomes of an ASCII character; 0xFF: nothing */
};

#define CLASS_RANGES	16

/* So many characters of some kind, one after the other: split/class.c */
struct character_class
{
	uint16_t	flags;				/* UNICODE_, any of them, */
	uint32_t	count;
	uint32_t	ranges[CLASS_RANGES][2];	/* or of these; first and last */
	bool		negated;
	uint32_t	least;
	uint32_t	most;
};

enum normalizer_kind
{
	NORMALIZE_BERT,
	NORMALIZE_NFC,
	NORMALIZE_NFD,
	NORMALIZE_NFKC,
	NORMALIZE_NFKD,
	NORMALIZE_LOWERCASE,
	NORMALIZE_STRIP_ACCENTS,
	NORMALIZE_STRIP,
	NORMALIZE_PREPEND,
	NORMALIZE_REPLACE,
	NORMALIZE_REPLACE_CLASS,
	NORMALIZE_NMT,
	NORMALIZE_PRECOMPILED
};

struct normalizer					/* one step; text goes through all of them in turn */
{
	enum normalizer_kind kind;
	bool		left;				/* STRIP: from the beginning */
	bool		right;				/* and from the end */
	const char *pattern;			/* REPLACE: what is looked for, */
	struct character_class class;	/* REPLACE_CLASS: or this */
	const char *content;			/* PREPEND, REPLACE, REPLACE_CLASS */
	const uint32_t *units;			/* PRECOMPILED: a double array, whose values are places */
	uint32_t	units_count;		/* of texts, */
	const char *texts;				/* which end with a zero each */
	uint32_t	texts_bytes;
};

enum splitter_kind
{
	SPLIT_BERT,
	SPLIT_SPACES,					/* WhitespaceSplit */
	SPLIT_DIGITS,
	SPLIT_MATCHES,					/* Split, Punctuation, Whitespace, CharDelimiterSplit */
	SPLIT_METASPACE,				/* spaces are replaced by a letter, before which a word begins */
	SPLIT_BYTES						/* ByteLevel: the last */
};

enum prepend_scheme
{
	PREPEND_ALWAYS,
	PREPEND_FIRST,					/* where a piece begins with the text */
	PREPEND_NEVER
};

enum pattern						/* the regular expressions that are known: patterns.c */
{
	PATTERN_NONE,
	PATTERN_GPT2,
	PATTERN_THREE_DIGITS,			/* cl100k, Llama 3 */
	PATTERN_ONE_DIGIT,				/* Qwen 2 */
	PATTERN_CASED,					/* o200k */
	PATTERN_CASED_PLAIN,			/* tekken: one digit, no contractions */
	PATTERN_CLIP,					/* this and the next match no white space */
	PATTERN_WORDS					/* Whitespace */
};

enum match_kind						/* what SPLIT_MATCHES looks for */
{
	MATCH_TEXT,
	MATCH_CLASS,
	MATCH_PATTERN
};

enum behavior						/* what becomes of it: each on its own, gone, together with neighbours */
{
	BEHAVIOR_ISOLATED,
	BEHAVIOR_REMOVED,
	BEHAVIOR_PREVIOUS,
	BEHAVIOR_NEXT,
	BEHAVIOR_CONTIGUOUS
};

struct splitter						/* one step of the pre-tokenizer; pieces go through all of them */
{
	enum splitter_kind kind;
	bool		single;				/* DIGITS: each on its own */
	bool		add_space;			/* BYTES: before what does not begin with one */
	enum pattern pattern;			/* BYTES, MATCHES */
	enum match_kind match;
	enum behavior behavior;
	bool		invert;				/* matches and the rest change places */
	struct character_class class;
	const char *literal;			/* MATCH_TEXT */
	uint32_t	literal_length;
	bool		cuts;				/* METASPACE: else it only replaces */
	enum prepend_scheme scheme;		/* METASPACE */
	char		letter[5];			/* METASPACE: UTF-8 */
	uint8_t		letter_length;
};

struct merge						/* of a hash table; rank NO_RANK: an empty place */
{
	uint32_t	left;
	uint32_t	right;
	uint32_t	rank;
	int32_t		id;
};

struct bpe
{
	struct trie vocabulary;			/* of bytes; for a byte-level model of those that its tokens stand for */
	bool		byte_level;
	bool		ignore_merges;
	const char *suffix;				/* what the tokens at the end of a word end with; "": nothing */
	uint32_t	suffix_length;
	bool		fuse_unknown;
	int32_t		unknown;			/* -1: none, what is unknown vanishes */
	int32_t		bytes[256];			/* tokens of single bytes; -1: none */
	int32_t		fallback[256];		/* tokens <0x00> to <0xFF>; -1: none */
	bool		use_fallback;
	struct merge *merges;
	uint32_t	merges_mask;		/* places - 1 */
	uint8_t    *whole;				/* by id: merging the token's own text gives the token */
	uint16_t   *leading;			/* by id: spaces that a byte-level token begins with, */
	uint16_t   *trailing;			/* and ends with */
};

struct unigram
{
	struct trie vocabulary;			/* values: ids */
	double	   *scores;				/* by id */
	double		unknown_score;
	int32_t		unknown;
	bool		use_fallback;
	int32_t		fallback[256];		/* tokens <0x00> to <0xFF>; -1: none */
};

struct word_level
{
	struct trie vocabulary;
	int32_t		unknown;
};

struct wordpiece
{
	struct trie vocabulary;
	uint32_t	continued;			/* the node behind the prefix; TRIE_NONE: no token has it */
	int32_t		unknown;
	uint32_t	word_max;			/* characters */
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

enum model_kind
{
	MODEL_WORDPIECE,
	MODEL_BPE,
	MODEL_UNIGRAM,
	MODEL_WORDLEVEL
};

struct tokenizer
{
	struct graph_memory memory;
	struct tokenizer_facts facts;
	struct added_tokens added;
	int32_t		vocabulary_count;	/* tokens of the model; ids may have gaps */
	uint32_t	normalizers_count;
	struct normalizer normalizers[TEXT_STEPS_MAX];
	struct bert_normalizer bert;	/* of NORMALIZE_BERT */
	uint32_t	splitters_count;	/* 0: a piece is one word */
	struct splitter splitters[TEXT_STEPS_MAX];
	enum model_kind model;
	struct wordpiece wordpiece;
	struct bpe	bpe;
	struct unigram unigram;
	struct word_level word_level;
	struct template single;
	struct template pair;
	bool		chunks;				/* a segment may be worked on in chunks */
	bool		trim;				/* places do not hold the spaces that a token begins or ends with, */
	bool		trim_keeps_first;	/* but for one at the beginning, which the pre-tokenizer added */
};

/* ---- what a call works on ---- */

struct text_token
{
	int32_t		id;
	struct token_place place;
	uint32_t	word;
	uint32_t	leading;			/* spaces that are to be trimmed, if any are */
	uint32_t	trailing;
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

struct merge_symbol				/* of a word that is being merged */
{
	int32_t		id;
	uint32_t	length;				/* bytes; 0: merged into the one before */
	int32_t		previous;			/* -1: none */
	int32_t		next;
};

struct merge_room
{
	struct merge_symbol *symbols;
	uint64_t   *heap;				/* rank, then place: three times as many */
	uint32_t	space;
};

struct path							/* the best one to a place of a word, of Unigram */
{
	double		score;
	uint32_t	start;				/* of its last token */
	int32_t		id;					/* -1: no path leads here */
};

struct path_room
{
	struct path *data;
	uint32_t	space;
};

struct tokenizer_arena
{
	struct text_buffer buffer;		/* what was normalised */
	struct text_buffer other;		/* of a step of the normalizer; a piece with a space before it */
	uint32_t	buffer_max;			/* that either may be made larger to */
	struct pending_marks marks;
	struct pending_marks held;
	struct merge_room merge;
	struct path_room paths;
	struct text_tokens tokens[2];	/* of text and pair */
	struct status *status;			/* of the call */
};

/* One text of a call. */
struct text_run
{
	const struct tokenizer *tokenizer;
	struct tokenizer_arena *arena;
	struct text_tokens *tokens;
	const struct text_buffer *buffer;	/* in which words are */
	const uint8_t *text;
	size_t		size;
	uint32_t	enough;				/* no more tokens than these are wanted */
	uint32_t	word;				/* the words and added tokens so far, also those of no token */
};

/* ---- tokenizer.c ---- */

/* Whether it is UTF-8, and not too long. */
extern bool check_text(const char *text, uint64_t bytes, struct status *status);

/*
 * The tokens of a checked text into those of the arena, without template and untrimmed, until
 * there are enough.  The arena has the call's status.
 */
extern bool tokenize_text(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, uint32_t which,
						  const uint8_t *text, size_t size, uint32_t enough);

/* ---- arena.c ---- */

/* False, and the call's status. */
extern bool arena_too_long(struct tokenizer_arena *arena);

/* Room for more; false: the call's status is set. */
extern bool arena_grow_buffer(struct tokenizer_arena *arena, struct text_buffer *buffer, uint64_t wanted);
extern bool arena_grow_marks(struct tokenizer_arena *arena, struct pending_marks *marks);
extern bool arena_grow_merge(struct tokenizer_arena *arena, uint32_t wanted);
extern bool arena_grow_paths(struct tokenizer_arena *arena, uint32_t wanted);
extern bool arena_grow_tokens(struct tokenizer_arena *arena, struct text_tokens *tokens);

static inline bool
arena_add_token(struct text_run *run, int32_t id, uint32_t start, uint32_t end)
{
	struct text_tokens *tokens = run->tokens;

	if (tokens->count == tokens->space && !arena_grow_tokens(run->arena, tokens))
		return false;
	tokens->data[tokens->count++] = (struct text_token) {id, {(int32_t) start, (int32_t) end}, run->word};
	return true;
}

static inline bool
text_put(struct tokenizer_arena *arena, struct text_buffer *buffer, uint32_t point, uint32_t origin)
{
	uint32_t	length;

	if (buffer->space - buffer->used < 4 && !arena_grow_buffer(arena, buffer, buffer->used + 4))
		return false;
	length = utf8_encode(point, buffer->bytes + buffer->used);
	for (uint32_t i = 0; i < length; i++)
		buffer->origins[buffer->used + i] = origin;
	buffer->used += length;
	return true;
}

/* ---- spaces.c ---- */

/* White space, or the letter that stands for a space in byte-level tokens, at either end. */
extern uint32_t text_leading_spaces(const uint8_t *text, size_t size);
extern uint32_t text_trailing_spaces(const uint8_t *text, size_t size);

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

/* ---- normalize/bert.c ---- */

extern void bert_prepare(struct bert_normalizer *normalizer);

/* Appends a normalised chunk to the arena's buffer; character is the number of its first. */
extern bool bert_normalize(const struct bert_normalizer *normalizer, struct tokenizer_arena *arena,
						   const uint8_t *text, size_t size, uint32_t character);

/* ---- normalize/ ---- */

/* A chunk through all steps, into the arena's buffer. */
extern bool normalize(const struct tokenizer *tokenizer, struct tokenizer_arena *arena, const uint8_t *text,
					  size_t size, uint32_t character);

/*
 * A step reads the arena's buffer and writes the other one, which takes its place at the end.
 * A character is put with its change (unicode_forms.c says which), from which its origin
 * follows.
 */
struct rewriting
{
	const struct text_buffer *in;
	struct text_buffer *out;
	uint32_t	at;					/* of in: what was replaced so far */
};

extern bool rewrite_begin(struct tokenizer_arena *arena, struct rewriting *rewriting);
extern bool rewrite_put(struct tokenizer_arena *arena, struct rewriting *rewriting, uint32_t point, int32_t change);
extern void rewrite_end(struct tokenizer_arena *arena, struct rewriting *rewriting);

extern void marks_sort(struct pending_marks *marks);
extern bool normalize_unicode(struct tokenizer_arena *arena, bool compatible, bool compose);
extern bool normalize_precompiled(struct tokenizer_arena *arena, const struct normalizer *step);

/* ---- split/ ---- */

/* A piece of the run's buffer through the steps of the pre-tokenizer, and its words to the model. */
extern bool split_piece(struct text_run *run, uint32_t start, uint32_t end);

/* From a step on; nothing is no word. */
extern bool split_from(struct text_run *run, uint32_t step, uint32_t start, uint32_t end);
extern bool split_matches(struct text_run *run, uint32_t step, uint32_t start, uint32_t end);

/* False: it is none of these, or not one that is known to mean the same. */
extern bool class_read(const char *regex, struct character_class *class);

/* The first match from a place on. */
extern bool class_next(const struct character_class *class, const uint8_t *bytes, uint32_t at, uint32_t end,
					   uint32_t *start, uint32_t *stop);

/* The pattern of this regular expression; PATTERN_NONE: it is not known. */
extern enum pattern pattern_find(const char *regex);

/* The end of the match that begins at a place; the place itself: there is none, as at white space by some. */
extern uint32_t pattern_match(enum pattern pattern, const uint8_t *bytes, uint32_t at, uint32_t end);

/* ---- models/ ---- */

extern bool wordpiece_word(struct text_run *run, uint32_t start, uint32_t end);
extern bool bpe_word(struct text_run *run, uint32_t start, uint32_t end);
extern bool word_level_word(struct text_run *run, uint32_t start, uint32_t end);
extern bool unigram_word(struct text_run *run, uint32_t start, uint32_t end);

#define NO_RANK		UINT32_MAX

extern const struct merge *bpe_merge(const struct bpe *model, int32_t left, int32_t right);

/* Whether merging a token's own text, without the suffix, gives the token. */
extern bool bpe_is_whole(const struct bpe *model, struct tokenizer_arena *arena, const uint8_t *bytes, uint32_t size,
						 int32_t id, uint8_t *whole);

/* ---- files/ ---- */

extern bool read_tokenizer_json(struct tokenizer *tokenizer, const struct model_files *files,
								struct status *status);
extern bool read_vocabulary_text(struct tokenizer *tokenizer, const struct model_files *files,
								 struct status *status);
extern bool read_vocabulary_merges(struct tokenizer *tokenizer, const struct model_files *files,
								   struct status *status);

#endif							/* ENGINE_TEXT_INTERNAL_H */
