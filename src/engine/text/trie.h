/*
 * trie.h
 *	  A set of byte strings with a number each, walked byte by byte: a double array.
 *
 * A node is an index.  Its child by byte b is base[node] + b, if that slot says so.  Reading
 * needs no bounds: every base is followed by 256 slots.
 *
 *	J. Aoe, "An efficient digital search algorithm by using a double-array structure",
 *	IEEE Transactions on Software Engineering 15 (1989).
 */
#ifndef ENGINE_TEXT_TRIE_H
#define ENGINE_TEXT_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIE_ROOT	1
#define TRIE_NONE	0				/* no node */

struct graph_memory;

struct trie_key
{
	const uint8_t *bytes;
	uint32_t	length;				/* at least 1 */
	int32_t		value;				/* at least 0 */
};

struct trie_slot
{
	int32_t		base;
	int32_t		parent;				/* 0: nobody's */
	int32_t		value;				/* -1: no string ends here */
};

struct trie
{
	uint32_t	size;
	struct trie_slot *slots;		/* a block of the memory it was built in */
};

/*
 * Sorts keys and builds; false: the memory's status is set.  Of equal keys, *duplicate (if the
 * build failed for that) is one, else NULL.
 */
extern bool trie_build(struct trie *trie, struct trie_key *keys, uint32_t count,
					   struct graph_memory *memory, const struct trie_key **duplicate);

static inline uint32_t
trie_child(const struct trie *trie, uint32_t node, uint8_t byte)
{
	uint32_t	child = (uint32_t) trie->slots[node].base + byte;

	return trie->slots[child].parent == (int32_t) node ? child : TRIE_NONE;
}

/* The node that a string leads to, from a node; TRIE_NONE if none. */
extern uint32_t trie_walk(const struct trie *trie, uint32_t node, const void *bytes, size_t length);

/* The value of exactly this string, or -1. */
extern int32_t trie_find(const struct trie *trie, const void *bytes, size_t length);

/*
 * The longest of the strings below a node that bytes begin with: returns its value and sets
 * *length, or -1.
 */
static inline int32_t
trie_longest(const struct trie *trie, uint32_t node, const uint8_t *bytes, size_t size, size_t *length)
{
	int32_t		value = -1;

	for (size_t i = 0; i < size; i++)
	{
		node = trie_child(trie, node, bytes[i]);
		if (node == TRIE_NONE)
			break;
		if (trie->slots[node].value >= 0)
		{
			value = trie->slots[node].value;
			*length = i + 1;
		}
	}
	return value;
}

#endif							/* ENGINE_TEXT_TRIE_H */
