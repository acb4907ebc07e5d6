/*
 * embeddings.c
 *	  What stands before the first layer: rows of words, positions and types, added and normed.
 */
#include "walk.h"

#include <string.h>

static bool
take_words(struct walk *w, int32_t table)
{
	struct encoder *e = w->folder->encoder;

	if (!walk_weight(w, table, 2, &e->words))
		return false;
	e->vocabulary = e->words.dims[0];
	e->hidden = e->words.dims[1];
	return true;
}

/* which: the rows, or −1 for those from 0 on. */
static bool
take_positions(struct walk *w, int32_t table, int32_t which)
{
	struct folder *f = w->folder;
	struct encoder *e = f->encoder;
	struct fact places = {.kind = FACT_POSITIONS, .padding = -1};

	if (which >= 0)
		places = *walk_fact(w, which);
	if (!walk_weight(w, table, 2, &e->position_table))
		return false;
	e->positions = ENCODER_POSITIONS_ABSOLUTE;
	e->position_first = places.first;
	e->position_padding = places.padding;
	f->positions_usable = e->position_table.dims[0] - places.first;
	if (places.places > 0 && places.places < f->positions_usable)
		f->positions_usable = places.places;
	f->positions_from = "the ONNX file's table of positions";
	return f->positions_usable > 0 || walk_refuse(w, table, "a table of positions is expected");
}

static bool
take_types(struct walk *w, int32_t table, int32_t which)
{
	struct encoder *e = w->folder->encoder;
	const struct fact *fact = walk_fact(w, which);

	if (!walk_weight(w, table, 2, &e->types))
		return false;
	e->types_used = fact->kind == FACT_TYPES;
	if (e->types_used || (fact->kind == FACT_SAME && !fact->times_length && fact->value == 0))
		return true;
	return walk_refuse(w, which, "types of tokens are expected");
}

/* Rows of a table, one for each token. */
static bool
take_rows(struct walk *w, int32_t name)
{
	struct encoder *e = w->folder->encoder;
	const struct onnx_node *node = walk_maker(w, name);
	struct size shape[2] = {size_batch(), size_length()}, one[2] = {size_of(1), size_length()};
	const struct fact *which;

	if (!node_is(node, "Gather") || walk_fact(w, name)->kind != FACT_DATA)
		return walk_refuse(w, name, "rows of a table are expected");
	which = walk_fact(w, node_input(node, 1));
	if (!shape_is(which, 2, shape) && !shape_is(which, 2, one) && !shape_is(which, 1, one + 1))
		return walk_refuse(w, name, "a row for each token is expected");
	if (which->kind == FACT_IDS && e->words.storage == ENCODER_ABSENT)
		return take_words(w, walk_same(w, node_input(node, 0)));
	if (which->kind == FACT_POSITIONS && e->position_table.storage == ENCODER_ABSENT)
		return take_positions(w, walk_same(w, node_input(node, 0)), node_input(node, 1));
	if ((which->kind == FACT_TYPES || which->kind == FACT_SAME) && e->types.storage == ENCODER_ABSENT)
		return take_types(w, walk_same(w, node_input(node, 0)), node_input(node, 1));
	return walk_refuse(w, name, "rows of words, positions and types are expected");
}

/* com.microsoft.EmbedLayerNormalization */
static bool
fused_embeddings(struct walk *w, int32_t name, const struct onnx_node *node)
{
	int32_t		types = node_input(node, 4), mask = node_input(node, 7), places = node_input(node, 8);
	const struct fact *fact = walk_fact(w, mask);
	struct encoder *e = w->folder->encoder;
	struct normed normed = {
		.weight = walk_same(w, node_input(node, 5)), .bias = walk_same(w, node_input(node, 6)),
		.epsilon = node_float(node, "epsilon", 1e-12)
	};

	if (walk_fact(w, node_input(node, 0))->kind != FACT_IDS || (mask >= 0 && (fact->kind != FACT_SAME || fact->value != 1 || fact->times_length)) ||
		(places >= 0 && walk_fact(w, places)->kind != FACT_POSITIONS))
		return walk_refuse(w, name, "tokens with a mask of ones are expected");
	return take_words(w, walk_same(w, node_input(node, 2))) && take_positions(w, walk_same(w, node_input(node, 3)), places) &&
		(types < 0 || take_types(w, walk_same(w, types), node_input(node, 1))) &&
		walk_take_norm(w, name, &normed, &e->embedding_norm);
}

bool
walk_is_embeddings(struct walk *w, int32_t name)
{
	struct normed normed;
	struct status before = *w->status;
	bool		rows = false;

	if (node_is_contrib(walk_maker(w, name), "EmbedLayerNormalization"))
		return true;
	if (walk_normed(w, name, &normed))
		for (uint32_t i = 0; i < normed.sum.terms_count; i++)
			rows = rows || node_is(walk_maker(w, normed.sum.terms[i]), "Gather");
	*w->status = before;
	return rows;
}

bool
walk_embeddings(struct walk *w, int32_t name)
{
	struct encoder *e = w->folder->encoder;
	const struct onnx_node *node = walk_maker(w, name);
	struct normed normed;

	if (node_is_contrib(node, "EmbedLayerNormalization"))
		return fused_embeddings(w, name, node);
	if (!walk_normed(w, name, &normed))
		return false;
	for (uint32_t i = 0; i < normed.sum.terms_count; i++)
		if (!take_rows(w, normed.sum.terms[i]))
			return false;
	if (normed.sum.bias >= 0 || e->words.storage == ENCODER_ABSENT || e->position_table.storage == ENCODER_ABSENT)
		return walk_refuse(w, name, "rows of words, positions and types are expected");
	return walk_take_norm(w, name, &normed, &e->embedding_norm);
}
