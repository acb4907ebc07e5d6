/*
 * entities.h
 *	  Labels of tokens into entities of a text.
 *
 * Nouns
 *	label		what a model says of a token: the name that id2label of its config.json has
 *	prefix		B- or I-; E-, S-, L- and U- where the same type has a label with B-, too
 *	tag			a label without its prefix
 *	type		what an entity is called: its first label behind the first hyphen, or all of it
 *
 * The rule is "simple" of the reference (aggregation_strategy of the token classification pipeline
 * of the "transformers" package): of the tokens of the text, template's left out, those that follow one another with
 * the same tag are an entity, but a B- begins another one; the score is the mean of theirs, the place
 * is from the start of the first to the end of the last.  Entities of type "O" are none.  A word of several
 * tokens may so be in two entities; "first" and "max" give all its tokens the label and score of the
 * first one or the one of the highest score.
 *
 * Three things differ.  The reference knows only B- and I-: here S- and U- are an entity of their own, and E- and
 * L- end one, where it would begin another.  White space at the ends of a place, which some tokenizers count to
 * a token, is left out, so that the place is the entity's exactly; nothing else is no entity.  And a word is what the
 * pre-tokenizer says ("first", "max"), where the reference guesses from lengths and spaces.
 */
#ifndef ENGINE_TEXT_ENTITIES_H
#define ENGINE_TEXT_ENTITIES_H

#include "tokenizer.h"

#define ENTITY_LABELS_MAX	4096

enum entity_aggregation
{
	ENTITIES_SIMPLE,
	ENTITIES_FIRST,
	ENTITIES_MAX
};

struct entity_labels;				/* immutable once made */

/* The tokens of a row: arrays of count elements each. */
struct entity_tokens
{
	uint32_t	count;
	const uint8_t *sources;			/* enum token_source; entities are those of TOKEN_OF_TEXT */
	const struct token_place *places;
	const int32_t *words;			/* as tokenizer_output has them; may be NULL for ENTITIES_SIMPLE */
	const int32_t *labels;			/* of the highest score */
	const float *scores;
};

struct entity
{
	uint32_t	type;				/* for entity_type_name */
	int32_t		start;				/* characters, from 0 */
	int32_t		end;				/* exclusive */
	double		score;
};

/* From the names of the labels by id; NULL: the status says why. */
extern struct entity_labels *entity_labels_make(const char *const *names, uint32_t count, struct status *status);
extern void entity_labels_free(struct entity_labels *labels);
extern const char *entity_type_name(const struct entity_labels *labels, uint32_t type);

/*
 * The entities in the order of the text into an array that has room for one per token; returns how many.
 * Labels are below the count of names, places within the text, which is UTF-8.
 */
extern uint32_t entities_find(const struct entity_labels *labels, const struct entity_tokens *tokens,
							  enum entity_aggregation aggregation, const char *text, uint64_t bytes,
							  struct entity *entities);

#endif							/* ENGINE_TEXT_ENTITIES_H */
