/*
 * reader.h
 *	  The readers of a tokenizer's files, among themselves.
 *
 * Every reader takes a piece of JSON that may be of any shape, and says in the status what is
 * wrong with it: INFER_ERROR_MODEL where the file is malformed, INFER_ERROR_UNSUPPORTED where it
 * asks for what is not implemented.
 */
#ifndef ENGINE_TEXT_READER_H
#define ENGINE_TEXT_READER_H

#include <jansson.h>

#include "../text_internal.h"

#define READER_BYTES_MAX	(64u << 20)	/* of tokenizer.json */

struct model_file;

/* ---- json.c ---- */

/* A whole file; NULL: the status is set.  reals: numbers of any size, for settings. */
extern json_t *reader_load(const struct model_file *file, bool reals, struct status *status);

/* Members by name and type; what names the object in messages.  False: the status is set. */
extern bool reader_bool(json_t *object, const char *key, const char *what, bool *value, struct status *status);
extern bool reader_int(json_t *object, const char *key, const char *what, int64_t first, int64_t last,
					   int64_t *value, struct status *status);
extern const char *reader_text(json_t *object, const char *key, const char *what, struct status *status);

/* The text "type" of an object. */
extern const char *reader_type(json_t *object, const char *what, struct status *status);

/* Refuses members that are not in the list, which NULL ends. */
extern bool reader_known(json_t *object, const char *what, const char *const *keys, struct status *status);

/* ---- wordpiece.c ---- */

extern bool read_wordpiece(struct tokenizer *tokenizer, json_t *model, struct status *status);
extern bool read_word_level(struct tokenizer *tokenizer, json_t *model, struct status *status);
extern bool wordpiece_build(struct tokenizer *tokenizer, struct trie_key *keys, uint32_t count, const char *unknown,
							const char *prefix, uint32_t word_max, struct status *status);

/* ---- bpe.c, unigram.c, normalizer.c, splitter.c ---- */

/* The pre-tokenizer is read before. */
extern bool read_bpe(struct tokenizer *tokenizer, json_t *model, struct status *status);

extern bool read_unigram(struct tokenizer *tokenizer, json_t *model, struct status *status);

extern bool read_normalizer(struct tokenizer *tokenizer, json_t *normalizer, struct status *status);
extern bool read_pre_tokenizer(struct tokenizer *tokenizer, json_t *pre_tokenizer, struct status *status);

/* ---- added.c ---- */

/* The model's vocabulary gives tokens that are in it their ids. */
extern bool read_added_tokens(struct tokenizer *tokenizer, json_t *tokens, json_t *vocabulary, struct status *status);

extern void added_sort(struct added_tokens *added);

/* Sorted tokens: tokenizer_config.json says the same of the added tokens, or is refused. */
extern bool check_added_tokens(const struct tokenizer *tokenizer, json_t *config, struct status *status);

/* ---- template.c ---- */

extern bool read_post_processor(struct tokenizer *tokenizer, json_t *processor, struct status *status);
extern bool template_bert(struct tokenizer *tokenizer, int32_t cls, int32_t sep);

/* ---- tokenizer_json.c ---- */

/* The parts of a tokenizer from the JSON of tokenizer.json, and whether tokenizer_config.json agrees. */
extern bool read_parts(struct tokenizer *tokenizer, json_t *root, struct status *status);
extern bool check_config(struct tokenizer *tokenizer, json_t *config, struct status *status);

/* A setting of tokenizer_config.json (NULL: there is none) that is true or false, and what it is where it does not say. */
extern bool config_flag(json_t *config, const char *key, bool usual, bool *value, struct status *status);

/* tokenizer_config.json, or NULL where there is none; false: the status is set. */
extern bool read_config(const struct model_files *files, json_t **config, struct status *status);
extern void read_length(struct tokenizer *tokenizer, json_t *config);

#endif							/* ENGINE_TEXT_READER_H */
