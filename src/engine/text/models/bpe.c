/*
 * bpe.c
 *	  Byte pair encoding: a word begins as the tokens of its bytes (or characters), and of all
 *	  neighbours that may be merged those of the lowest rank, and of these the first, are merged
 *	  until there are none.
 *
 *	R. Sennrich, B. Haddow and A. Birch, "Neural Machine Translation of Rare Words with Subword
 *	Units", ACL 2016.
 *
 * Most words of a text are tokens: for those whose own text is merged to themselves, which is
 * found out when the model is opened, looking the word up is all.  Short words look for the
 * lowest rank among all neighbours again and again; long ones keep them in a heap, where a
 * neighbourhood that is no more is known by its rank, which every pair of tokens has for itself.
 */
#include "../text_internal.h"

#define SIMPLE_MAX	48				/* symbols */

/* ---- the table of merges ---- */

static uint32_t
hash_of(uint32_t left, uint32_t right)
{
	uint64_t	pair = (uint64_t) left << 32 | right;

	pair *= UINT64_C(0x9E3779B97F4A7C15);
	return (uint32_t) (pair >> 32);
}

const struct merge *
bpe_merge(const struct bpe *model, int32_t left, int32_t right)
{
	uint32_t	place = hash_of((uint32_t) left, (uint32_t) right) & model->merges_mask;

	while (model->merges[place].rank != NO_RANK &&
		   (model->merges[place].left != (uint32_t) left || model->merges[place].right != (uint32_t) right))
		place = (place + 1) & model->merges_mask;
	return &model->merges[place];
}

/* ---- few symbols ---- */

static uint32_t
rank_at(const struct bpe *model, const struct merge_symbol *symbols, int32_t at)
{
	return at < 0 || symbols[at].next < 0 ? NO_RANK : bpe_merge(model, symbols[at].id, symbols[symbols[at].next].id)->rank;
}

static void
join(const struct bpe *model, struct merge_symbol *symbols, int32_t at)
{
	struct merge_symbol *right = &symbols[symbols[at].next];

	symbols[at].id = bpe_merge(model, symbols[at].id, right->id)->id;
	symbols[at].length += right->length;
	symbols[at].next = right->next;
	right->length = 0;
	if (right->next >= 0)
		symbols[right->next].previous = at;
}

static void
merge_few(const struct bpe *model, struct merge_symbol *symbols, uint32_t count)
{
	uint32_t	ranks[SIMPLE_MAX];

	for (uint32_t i = 0; i < count; i++)
		ranks[i] = rank_at(model, symbols, (int32_t) i);
	for (;;)
	{
		int32_t		best = 0;

		for (int32_t i = symbols[0].next; i >= 0; i = symbols[i].next)
			if (ranks[i] < ranks[best])
				best = i;
		if (ranks[best] == NO_RANK)
			return;
		join(model, symbols, best);
		ranks[best] = rank_at(model, symbols, best);
		if (symbols[best].previous >= 0)
			ranks[symbols[best].previous] = rank_at(model, symbols, symbols[best].previous);
	}
}

/* ---- many ---- */

static void
heap_push(uint64_t *heap, uint32_t *count, uint64_t entry)
{
	uint32_t	at = (*count)++;

	while (at > 0 && heap[(at - 1) / 2] > entry)
	{
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = entry;
}

static uint64_t
heap_pop(uint64_t *heap, uint32_t *count)
{
	uint64_t	top = heap[0], last = heap[--(*count)];
	uint32_t	at = 0;

	for (;;)
	{
		uint32_t	child = 2 * at + 1;

		if (child >= *count)
			break;
		if (child + 1 < *count && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= last)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return top;
}

static void
push_rank(const struct bpe *model, const struct merge_symbol *symbols, uint64_t *heap, uint32_t *count, int32_t at)
{
	uint32_t	rank = rank_at(model, symbols, at);

	if (rank != NO_RANK)
		heap_push(heap, count, (uint64_t) rank << 32 | (uint32_t) at);
}

/* Each merge takes one entry and adds at most two: three times the symbols are room enough. */
static void
merge_many(const struct bpe *model, struct merge_symbol *symbols, uint32_t count, uint64_t *heap)
{
	uint32_t	heap_count = 0;

	for (uint32_t i = 0; i < count; i++)
		push_rank(model, symbols, heap, &heap_count, (int32_t) i);
	while (heap_count > 0)
	{
		uint64_t	top = heap_pop(heap, &heap_count);
		int32_t		at = (int32_t) (uint32_t) top;

		if (symbols[at].length == 0 || rank_at(model, symbols, at) != (uint32_t) (top >> 32))
			continue;
		join(model, symbols, at);
		push_rank(model, symbols, heap, &heap_count, at);
		push_rank(model, symbols, heap, &heap_count, symbols[at].previous);
	}
}

/* Merges the first count symbols of the arena; what is left is linked from the first on. */
static void
merge_all(const struct bpe *model, struct tokenizer_arena *arena, uint32_t count)
{
	struct merge_symbol *symbols = arena->merge.symbols;

	for (uint32_t i = 0; i < count; i++)
	{
		symbols[i].previous = (int32_t) i - 1;
		symbols[i].next = i + 1 < count ? (int32_t) i + 1 : -1;
	}
	if (count > SIMPLE_MAX)
		merge_many(model, symbols, count, arena->merge.heap);
	else if (count > 1)
		merge_few(model, symbols, count);
}

/* ---- words ---- */

struct starting						/* the symbols of a word before any merge */
{
	const struct bpe *model;
	struct merge_symbol *symbols;
	uint32_t	count;
	uint32_t	unknown;			/* bytes that wait to become an unknown token */
	bool		vanished;			/* something is no token at all */
};

static void
add_symbol(struct starting *starting, int32_t id, uint32_t length)
{
	starting->symbols[starting->count++] = (struct merge_symbol) {.id = id, .length = length};
}

static void
flush_unknown(struct starting *starting)
{
	if (starting->unknown > 0)
		add_symbol(starting, starting->model->unknown, starting->unknown);
	starting->unknown = 0;
}

/* Bytes that are no token: the tokens of each of them, the unknown token, or nothing. */
static void
add_unknown(struct starting *starting, const uint8_t *bytes, uint32_t length)
{
	const struct bpe *model = starting->model;
	bool		fallback = model->use_fallback;

	for (uint32_t i = 0; fallback && i < length; i++)
		fallback = model->fallback[bytes[i]] >= 0;
	if (fallback)
	{
		for (uint32_t i = 0; i < length; i++)
			add_symbol(starting, model->fallback[bytes[i]], 1);
		return;
	}
	if (model->unknown < 0)
	{
		starting->vanished = true;
		return;
	}
	if (!model->fuse_unknown)
		flush_unknown(starting);
	starting->unknown += length;
}

/* The token of bytes of a word: the last ones have the suffix. */
static int32_t
token_of(const struct bpe *model, const uint8_t *bytes, uint32_t length, bool last)
{
	uint32_t	node;

	if (!last || model->suffix_length == 0)
		return length == 1 ? model->bytes[bytes[0]] : trie_find(&model->vocabulary, bytes, length);
	node = trie_walk(&model->vocabulary, TRIE_ROOT, bytes, length);
	if (node != TRIE_NONE)
		node = trie_walk(&model->vocabulary, node, model->suffix, model->suffix_length);
	return node == TRIE_NONE ? -1 : model->vocabulary.slots[node].value;
}

/* How many symbols there are; UINT32_MAX: out of memory.  *vanished: not all bytes are in them. */
static uint32_t
start_word(const struct bpe *model, struct tokenizer_arena *arena, const uint8_t *bytes, uint32_t size, bool *vanished)
{
	struct starting starting = {.model = model};

	if (arena->merge.space < size && !arena_grow_merge(arena, size))
		return UINT32_MAX;
	starting.symbols = arena->merge.symbols;
	for (uint32_t at = 0, length = 1; at < size; at += length)
	{
		int32_t		id;

		if (!model->byte_level)
			utf8_decode(bytes + at, &length);
		id = token_of(model, bytes + at, length, at + length == size);
		if (id < 0)
		{
			add_unknown(&starting, bytes + at, length);
			continue;
		}
		flush_unknown(&starting);
		add_symbol(&starting, id, length);
	}
	flush_unknown(&starting);
	*vanished = starting.vanished;
	return starting.count;
}

static bool
add_token(struct text_run *run, int32_t id, uint32_t start, uint32_t end)
{
	const struct bpe *model = &run->tokenizer->bpe;
	const uint32_t *origins = run->buffer->origins;
	struct text_token *token;

	if (!arena_add_token(run, id, origins[start], origins[end - 1] + 1))
		return false;
	if (model->leading != NULL)
	{
		token = &run->tokens->data[run->tokens->count - 1];
		token->leading = model->leading[id];
		token->trailing = model->trailing[id];
	}
	return true;
}

bool
bpe_is_whole(const struct bpe *model, struct tokenizer_arena *arena, const uint8_t *bytes, uint32_t size, int32_t id,
			 uint8_t *whole)
{
	bool		vanished;
	uint32_t	count = start_word(model, arena, bytes, size, &vanished);

	*whole = false;
	if (count == UINT32_MAX)
		return false;
	if (count == 0)
		return true;
	merge_all(model, arena, count);
	*whole = arena->merge.symbols[0].id == id && arena->merge.symbols[0].next < 0 &&
		arena->merge.symbols[0].length == size;
	return true;
}

static uint32_t
written_width(uint8_t byte)
{
	return byte >= '!' && byte <= '~' ? 1 : 2;
}

/*
 * Where bytes of a word are no tokens and there is no unknown one, the reference counts places
 * without them, in the characters that bytes are written as: two bytes each, if they are not
 * printable ASCII.
 */
static bool
add_shifted(struct text_run *run, const struct merge_symbol *symbols, uint32_t start)
{
	const uint8_t *bytes = run->buffer->bytes;
	uint32_t	first = start, last = start, first_at = 0, last_at = 0, wanted = 0, taken = start;

	for (int32_t i = 0; i >= 0; i = symbols[i].next)
	{
		uint32_t	width = 0;

		for (uint32_t end = taken + symbols[i].length; taken < end;)
		{
			while (run->tokenizer->bpe.bytes[bytes[taken]] < 0)
			{
				taken++;
				end++;
			}
			width += written_width(bytes[taken++]);
		}
		while (first_at + written_width(bytes[first]) <= wanted)
			first_at += written_width(bytes[first++]);
		wanted += width;
		while (last_at + written_width(bytes[last]) < wanted)
			last_at += written_width(bytes[last++]);
		if (!add_token(run, symbols[i].id, first, last + 1))
			return false;
	}
	return true;
}

bool
bpe_word(struct text_run *run, uint32_t start, uint32_t end)
{
	const struct bpe *model = &run->tokenizer->bpe;
	const uint8_t *bytes = run->buffer->bytes + start;
	int32_t		id = token_of(model, bytes, end - start, true);
	const struct merge_symbol *symbols;
	bool		vanished;
	uint32_t	count;

	if (id >= 0 && (model->ignore_merges || model->whole[id]))
		return add_token(run, id, start, end);
	count = start_word(model, run->arena, bytes, end - start, &vanished);
	if (count == UINT32_MAX)
		return false;
	if (count == 0)
		return true;
	merge_all(model, run->arena, count);
	symbols = run->arena->merge.symbols;
	if (vanished && model->byte_level)
		return add_shifted(run, symbols, start);
	for (int32_t i = 0; i >= 0; i = symbols[i].next)
	{
		if (!add_token(run, symbols[i].id, start, start + symbols[i].length))
			return false;
		start += symbols[i].length;
	}
	return true;
}
