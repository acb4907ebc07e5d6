/*
 * memory.h
 *	  What a model's graph holds on the host: small things from a pool that is freed as one,
 *	  and blocks (constants) that are freed one by one; both counted against one limit.
 *
 * A hostile file is small and asks for much: every allocation that depends on a file goes
 * through here, and what is over the limit is a status, never an abort.
 */
#ifndef ENGINE_GRAPH_MEMORY_H
#define ENGINE_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct status;
struct graph_chunk;
struct graph_block;

struct graph_memory
{
	struct graph_chunk *chunks;		/* newest first */
	struct graph_block *blocks;		/* newest first */
	uint64_t	used;				/* bytes, pool and blocks */
	uint64_t	limit;				/* bytes */
	struct status *status;			/* where failures go */
};

extern void graph_memory_init(struct graph_memory *memory, uint64_t limit, struct status *status);
extern void graph_memory_free(struct graph_memory *memory);

/* Zeroed, aligned to 16 bytes; lives until graph_memory_free.  NULL: status is set. */
extern void *graph_pool(struct graph_memory *memory, uint64_t count, uint64_t size);

/* A terminated copy of length bytes. */
extern char *graph_pool_text(struct graph_memory *memory, const void *data, uint64_t length);
extern char *graph_pool_printf(struct graph_memory *memory, const char *format,...)
			__attribute__((format(printf, 2, 3)));

/*
 * A zeroed block of its own, aligned to DEVICE_ALIGN (64) bytes, and its end.  NULL: status
 * is set.  A block of 0 bytes is legal and not NULL.
 */
extern void *graph_block(struct graph_memory *memory, uint64_t bytes);
extern void graph_block_free(struct graph_memory *memory, void *data);

/* Frees the pool, and leaves the blocks. */
extern void graph_pool_free(struct graph_memory *memory);

/* Doubles an array in the pool when it is full; the old one stays until the end. */
extern bool graph_pool_grow(struct graph_memory *memory, void *array, uint32_t count,
							uint32_t *space, size_t size, uint32_t limit, const char *what);

#endif							/* ENGINE_GRAPH_MEMORY_H */
