/*
 * trie.c
 *	  See trie.h.
 *
 * Building goes breadth first over the sorted keys: a node is a range of keys that agree in
 * their first depth bytes.  Free slots form a ring; a node with several children tries some of
 * them, and takes new slots at the end if none of those fits, so that no set of keys makes
 * building slow.  The next node goes on where the last one gave up.
 *
 * Invariants
 *	- Slots below FIRST are never used, so that a base is never negative.
 *	- size is at least 256 more than every base.
 */
#include "trie.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../graph/memory.h"
#include "../status.h"

#define FIRST		256				/* and the root below */
#define TRIES		64				/* free slots that a node looks at */
#define SIZE_MAX_SLOTS	(1u << 28)

struct range						/* a node to be built: keys that agree in depth bytes */
{
	uint32_t	first;
	uint32_t	end;
	uint32_t	depth;
	uint32_t	node;
};

struct builder
{
	struct graph_memory *memory;
	struct trie_slot *slots;
	uint32_t	size;				/* in use or free; the ring holds the free ones */
	uint32_t	space;
	uint32_t	ring;				/* a free slot, or 0; next in base, previous in value */
	struct range *queue;
	uint32_t	queue_first;
	uint32_t	queue_count;
	uint32_t	queue_space;
};

static int
compare_keys(const void *a, const void *b)
{
	const struct trie_key *x = a;
	const struct trie_key *y = b;
	uint32_t	shorter = x->length < y->length ? x->length : y->length;
	int			order = memcmp(x->bytes, y->bytes, shorter);

	return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static void
ring_remove(struct builder *b, uint32_t slot)
{
	uint32_t	next = (uint32_t) b->slots[slot].base;
	uint32_t	previous = (uint32_t) b->slots[slot].value;

	b->slots[previous].base = (int32_t) next;
	b->slots[next].value = (int32_t) previous;
	if (b->ring == slot)
		b->ring = next == slot ? 0 : next;
	b->slots[slot] = (struct trie_slot) {.value = -1};
}

static void
ring_add(struct builder *b, uint32_t slot)
{
	if (b->ring == 0)
	{
		b->slots[slot].base = b->slots[slot].value = (int32_t) slot;
		b->ring = slot;
		return;
	}
	uint32_t	last = (uint32_t) b->slots[b->ring].value;

	b->slots[slot].base = (int32_t) b->ring;
	b->slots[slot].value = (int32_t) last;
	b->slots[last].base = (int32_t) slot;
	b->slots[b->ring].value = (int32_t) slot;
}

/* Slots up to end, free ones in the ring: parent -1. */
static bool
grow(struct builder *b, uint32_t end)
{
	if (end > b->space)
	{
		uint32_t	space = end + end / 2;
		struct trie_slot *larger;

		if (space > SIZE_MAX_SLOTS)
			return status_set(b->memory->status, INFER_ERROR_MEMORY, "the vocabulary is too large");
		larger = graph_block(b->memory, (uint64_t) space * sizeof(*larger));
		if (larger == NULL)
			return false;
		if (b->size > 0)
			memcpy(larger, b->slots, (size_t) b->size * sizeof(*larger));
		graph_block_free(b->memory, b->slots);
		b->slots = larger;
		b->space = space;
	}
	for (uint32_t slot = b->size; slot < end; slot++)
	{
		b->slots[slot].parent = -1;
		if (slot >= FIRST)
			ring_add(b, slot);
		else
			b->slots[slot] = (struct trie_slot) {.value = -1};
	}
	if (end > b->size)
		b->size = end;
	return true;
}

static bool
fits(const struct builder *b, uint32_t base, const uint8_t *bytes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (base + bytes[i] < b->size && b->slots[base + bytes[i]].parent != -1)
			return false;
	return true;
}

/* A base for children of these bytes, in ascending order. */
static uint32_t
find_base(struct builder *b, const uint8_t *bytes, uint32_t count)
{
	uint32_t	slot = b->ring;

	for (uint32_t tries = 0; tries < TRIES && slot != 0; tries++)
	{
		if (fits(b, slot - bytes[0], bytes, count))
			return slot - bytes[0];
		slot = (uint32_t) b->slots[slot].base;
		if (slot == b->ring)
			break;
	}
	b->ring = slot;
	return b->size;
}

static bool
push(struct builder *b, struct range range)
{
	if (b->queue_count == b->queue_space)
	{
		uint32_t	space = b->queue_space == 0 ? 1024 : 2 * b->queue_space;
		struct range *larger = graph_block(b->memory, (uint64_t) space * sizeof(*larger));

		if (larger == NULL)
			return false;
		for (uint32_t i = 0; i < b->queue_count; i++)
			larger[i] = b->queue[(b->queue_first + i) % b->queue_space];
		graph_block_free(b->memory, b->queue);
		b->queue = larger;
		b->queue_first = 0;
		b->queue_space = space;
	}
	b->queue[(b->queue_first + b->queue_count++) % b->queue_space] = range;
	return true;
}

static bool
build_node(struct builder *b, const struct trie_key *keys, struct range range)
{
	uint32_t	first = range.first, count = 0, base, starts[257];
	uint8_t		bytes[256];

	if (keys[first].length == range.depth)
		b->slots[range.node].value = keys[first++].value;
	for (uint32_t i = first; i < range.end; i++)
		if (i == first || keys[i].bytes[range.depth] != keys[i - 1].bytes[range.depth])
		{
			starts[count] = i;
			bytes[count++] = keys[i].bytes[range.depth];
		}
	starts[count] = range.end;
	if (count == 0)
		return true;
	base = find_base(b, bytes, count);
	if (!grow(b, base + 256))
		return false;
	b->slots[range.node].base = (int32_t) base;
	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	child = base + bytes[i];

		ring_remove(b, child);
		b->slots[child].parent = (int32_t) range.node;
		if (!push(b, (struct range) {starts[i], starts[i + 1], range.depth + 1, child}))
			return false;
	}
	return true;
}

static bool
build(struct builder *b, const struct trie_key *keys, uint32_t count)
{
	if (!grow(b, 2 * FIRST))
		return false;
	b->slots[TRIE_ROOT].parent = 0;
	if (count > 0 && !push(b, (struct range) {0, count, 0, TRIE_ROOT}))
		return false;
	while (b->queue_count > 0)
	{
		struct range range = b->queue[b->queue_first];

		b->queue_first = (b->queue_first + 1) % b->queue_space;
		b->queue_count--;
		if (!build_node(b, keys, range))
			return false;
	}
	return true;
}

bool
trie_build(struct trie *trie, struct trie_key *keys, uint32_t count, struct graph_memory *memory,
		   const struct trie_key **duplicate)
{
	struct builder b = {.memory = memory};
	bool		good;

	*duplicate = NULL;
	qsort(keys, count, sizeof(*keys), compare_keys);
	for (uint32_t i = 1; i < count; i++)
		if (compare_keys(&keys[i - 1], &keys[i]) == 0)
		{
			*duplicate = &keys[i];
			return false;
		}
	good = build(&b, keys, count);
	graph_block_free(memory, b.queue);
	for (uint32_t slot = 0; good && slot < b.size; slot++)
	{
		if (b.slots[slot].parent < 0)
			b.slots[slot] = (struct trie_slot) {.value = -1};
	}
	trie->slots = b.slots;
	trie->size = b.size;
	return good;
}

uint32_t
trie_walk(const struct trie *trie, uint32_t node, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length && node != TRIE_NONE; i++)
		node = trie_child(trie, node, ((const uint8_t *) bytes)[i]);
	return node;
}

int32_t
trie_find(const struct trie *trie, const void *bytes, size_t length)
{
	uint32_t	node = trie_walk(trie, TRIE_ROOT, bytes, length);

	return node == TRIE_NONE ? -1 : trie->slots[node].value;
}
