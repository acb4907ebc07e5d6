/*
 * unigram.c
 *	  The Unigram model: of all ways to write a word as tokens the one of the highest sum of
 *	  scores, by Viterbi's algorithm.
 *
 *	T. Kudo, "Subword Regularization: Improving Neural Network Translation Models with Multiple
 *	Subword Candidates", ACL 2018.
 *
 * A character that is no token is an unknown one, at a score below all others; unknown ones
 * that follow one another are one.  Of two equal sums the one that was found first stays:
 * places are visited in order, and from each the shorter tokens before the longer ones.
 */
#include "../text_internal.h"

static void
offer(struct path *to, double score, uint32_t start, int32_t id)
{
	if (to->id < 0 || score > to->score)
		*to = (struct path) {score, start, id};
}

/* The best paths from one place on, along every token that begins there. */
static void
advance(const struct unigram *model, struct path *paths, const uint8_t *bytes, uint32_t start, uint32_t size)
{
	double		score = paths[start].score;
	uint32_t	character, node = TRIE_ROOT;
	bool		single = false;

	utf8_decode(bytes + start, &character);
	for (uint32_t at = start; at < size; at++)
	{
		int32_t		id;

		node = trie_child(&model->vocabulary, node, bytes[at]);
		if (node == TRIE_NONE)
			break;
		id = model->vocabulary.slots[node].value;
		if (id < 0)
			continue;
		offer(&paths[at + 1], model->scores[id] + score, start, id);
		single = single || at + 1 - start == character;
	}
	if (!single)
		offer(&paths[start + character], model->unknown_score + score, start, model->unknown);
}

static bool
add_piece(struct text_run *run, int32_t id, uint32_t start, uint32_t end)
{
	return arena_add_token(run, id, run->buffer->origins[start], run->buffer->origins[end - 1] + 1);
}

/* A token, or unknown characters: which may be a token after all, or one for each byte. */
static bool
add_token(struct text_run *run, int32_t id, uint32_t start, uint32_t end)
{
	const struct unigram *model = &run->tokenizer->unigram;
	const uint8_t *bytes = run->buffer->bytes;
	bool		fallback = model->use_fallback;
	int32_t		known;

	if (id != model->unknown)
		return add_piece(run, id, start, end);
	known = trie_find(&model->vocabulary, bytes + start, end - start);
	if (known >= 0)
		return add_piece(run, known, start, end);
	for (uint32_t at = start; fallback && at < end; at++)
		fallback = model->fallback[bytes[at]] >= 0;
	if (!fallback)
		return add_piece(run, id, start, end);
	for (uint32_t at = start; at < end; at++)
		if (!add_piece(run, model->fallback[bytes[at]], start, end))
			return false;
	return true;
}

/* Turns the links of the best path round, so that it can be walked from its beginning. */
static void
turn_path(struct path *paths, uint32_t size)
{
	uint32_t	end = size, next = size, start;
	int32_t		id = paths[size].id, next_id;

	while (end > 0)
	{
		start = paths[end].start;
		next_id = paths[start].id;
		paths[start].id = id;		/* of the token that begins here */
		id = next_id;
		next = end;
		end = start;
		paths[end].score = next;	/* where it ends */
	}
}

bool
unigram_word(struct text_run *run, uint32_t start, uint32_t end)
{
	const struct unigram *model = &run->tokenizer->unigram;
	const uint8_t *bytes = run->buffer->bytes + start;
	uint32_t	size = end - start, stop, length;
	struct path *paths;

	if (run->arena->paths.space < size + 1 && !arena_grow_paths(run->arena, size + 1))
		return false;
	paths = run->arena->paths.data;
	for (uint32_t at = 0; at <= size; at++)
		paths[at] = (struct path) {0, 0, -1};
	for (uint32_t at = 0; at < size; at += length)
	{
		advance(model, paths, bytes, at, size);
		utf8_decode(bytes + at, &length);
	}
	turn_path(paths, size);
	for (uint32_t at = 0; at < size; at = stop)
	{
		int32_t		id = paths[at].id;

		stop = (uint32_t) paths[at].score;
		while (id == model->unknown && stop < size && paths[stop].id == id)
			stop = (uint32_t) paths[stop].score;
		if (!add_token(run, id, start + at, start + stop))
			return false;
	}
	return true;
}
