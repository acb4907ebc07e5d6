/*
 * entities.c
 *	  See entities.h.
 */
#include "entities.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../status.h"
#include "unicode/unicode.h"

struct label
{
	const char *tag;				/* of name, like type */
	const char *type;
	bool		begins;				/* an entity, whatever is before */
	bool		ends;				/* it, whatever follows */
	bool		outside;
};

struct entity_labels
{
	uint32_t	count;
	struct label *labels;
	char	   *names;				/* all of them, zeros between */
};

/* ---- labels ---- */

static bool
has_label(const char *const *names, uint32_t count, char prefix, const char *type)
{
	for (uint32_t i = 0; i < count; i++)
		if (names[i][0] == prefix && names[i][1] == '-' && strcmp(names[i] + 2, type) == 0)
			return true;
	return false;
}

static struct label
label_of(const char *name, const char *const *names, uint32_t count)
{
	const char *hyphen = strchr(name, '-');
	struct label label = {.tag = name, .type = hyphen == NULL ? name : hyphen + 1};
	char		prefix = hyphen == name + 1 ? name[0] : '\0';

	if (prefix == 'B' || prefix == 'I' ||
		(prefix != '\0' && strchr("ESLU", prefix) != NULL && has_label(names, count, 'B', name + 2)))
	{
		label.tag = name + 2;
		label.begins = prefix == 'B' || prefix == 'S' || prefix == 'U';
		label.ends = prefix != 'B' && prefix != 'I';
	}
	label.outside = strcmp(label.type, "O") == 0;
	return label;
}

struct entity_labels *
entity_labels_make(const char *const *names, uint32_t count, struct status *status)
{
	struct entity_labels *labels;
	size_t		bytes = 0;
	char	   *name;

	if (count == 0 || count > ENTITY_LABELS_MAX)
	{
		status_set(status, INFER_ERROR_UNSUPPORTED, "a model of %u labels for tokens is not supported: 1 to %d are", count, ENTITY_LABELS_MAX);
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++)
		bytes += strlen(names[i]) + 1;
	labels = calloc(1, sizeof(*labels));
	if (labels != NULL)
	{
		labels->labels = calloc(count, sizeof(*labels->labels));
		labels->names = malloc(bytes);
	}
	if (labels == NULL || labels->labels == NULL || labels->names == NULL)
	{
		status_set(status, INFER_ERROR_MEMORY, "out of memory for the labels of a model");
		entity_labels_free(labels);
		return NULL;
	}
	labels->count = count;
	name = labels->names;
	for (uint32_t i = 0; i < count; i++)
	{
		labels->labels[i] = label_of(strcpy(name, names[i]), names, count);
		name += strlen(name) + 1;
	}
	return labels;
}

void
entity_labels_free(struct entity_labels *labels)
{
	if (labels == NULL)
		return;
	free(labels->labels);
	free(labels->names);
	free(labels);
}

const char *
entity_type_name(const struct entity_labels *labels, uint32_t type)
{
	return labels->labels[type].type;
}

/* ---- entities ---- */

struct counter						/* a place in the text, in bytes and in characters */
{
	const uint8_t *text;
	size_t		size;
	size_t		at;
	int32_t		character;
};

static void
count_to(struct counter *counter, int32_t character)
{
	uint32_t	length;

	while (counter->character < character && counter->at < counter->size)
	{
		utf8_decode(counter->text + counter->at, &length);
		counter->at += length;
		counter->character++;
	}
	while (counter->character > character && counter->at > 0)
	{
		utf8_before(counter->text + counter->at, &length);
		counter->at -= length;
		counter->character--;
	}
}

static bool
is_space(uint32_t point)
{
	return (unicode_flags(point) & UNICODE_SPACE) != 0;
}

/* Moves the ends over white space; false: nothing else is there. */
static bool
trim(struct entity *entity, struct counter *counter)
{
	uint32_t	length;

	count_to(counter, entity->start);
	while (entity->start < entity->end && counter->at < counter->size && is_space(utf8_decode(counter->text + counter->at, &length)))
		count_to(counter, ++entity->start);
	if (entity->start >= entity->end)
		return false;
	count_to(counter, entity->end);
	while (counter->at > 0 && is_space(utf8_before(counter->text + counter->at, &length)))
		count_to(counter, --entity->end);
	return true;
}

/* A token, or a word: the tokens from first on that are one. */
struct unit
{
	uint32_t	next;				/* token behind it */
	int32_t		label;
	float		score;
	int32_t		start;
	int32_t		end;
};

static struct unit
unit_at(const struct entity_tokens *tokens, enum entity_aggregation aggregation, uint32_t first)
{
	struct unit unit = {first + 1, tokens->labels[first], tokens->scores[first], tokens->places[first].start, tokens->places[first].end};

	if (aggregation == ENTITIES_SIMPLE)
		return unit;
	for (; unit.next < tokens->count && tokens->sources[unit.next] == TOKEN_OF_TEXT && tokens->words[unit.next] == tokens->words[first]; unit.next++)
	{
		unit.end = tokens->places[unit.next].end;
		if (aggregation == ENTITIES_MAX && tokens->scores[unit.next] > unit.score)
		{
			unit.score = tokens->scores[unit.next];
			unit.label = tokens->labels[unit.next];
		}
	}
	return unit;
}

/* The entity that is being gathered, behind those that are whole. */
struct gathering
{
	const struct entity_labels *labels;
	struct counter counter;
	struct entity *entity;
	uint32_t	units;				/* of it; 0: there is none */
	const struct label *last;		/* of its last unit */
};

static void
finish(struct gathering *gathering)
{
	struct entity *entity = gathering->entity;

	if (gathering->units == 0 || gathering->labels->labels[entity->type].outside || !trim(entity, &gathering->counter))
		return;
	entity->score /= gathering->units;
	gathering->entity++;
}

static void
gather(struct gathering *gathering, const struct unit *unit)
{
	const struct label *label = &gathering->labels->labels[unit->label], *last = gathering->last;

	if (gathering->units > 0 && !label->begins && !last->ends && strcmp(label->tag, last->tag) == 0)
	{
		gathering->entity->end = unit->end;
		gathering->entity->score += unit->score;
		gathering->units++;
	}
	else
	{
		finish(gathering);
		*gathering->entity = (struct entity) {(uint32_t) unit->label, unit->start, unit->end, unit->score};
		gathering->units = 1;
	}
	gathering->last = label;
}

uint32_t
entities_find(const struct entity_labels *labels, const struct entity_tokens *tokens, enum entity_aggregation aggregation,
			  const char *text, uint64_t bytes, struct entity *entities)
{
	struct gathering gathering = {.labels = labels, .counter = {(const uint8_t *) text, bytes, 0, 0}, .entity = entities};
	struct unit unit;

	for (uint32_t i = 0; i < tokens->count; i = unit.next)
	{
		unit.next = i + 1;
		if (tokens->sources[i] != TOKEN_OF_TEXT)
			continue;
		unit = unit_at(tokens, aggregation, i);
		gather(&gathering, &unit);
	}
	finish(&gathering);
	return (uint32_t) (gathering.entity - entities);
}
