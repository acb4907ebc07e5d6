/*
 * packed.h
 *	  The packed form of a model's weights as a file: what a device made of them once, so that
 *	  the next load maps it instead of packing anew.
 *
 * Nouns
 *	weight		a matrix as the device packed it, and its recipe: a sum over what it is made of
 *	range		bytes of the model's own files that nothing but a weight is made of: while the
 *				weights come from here, nobody reads them, and nobody needs to verify them
 *	form		the weights and ranges of a model: struct packed_form
 *	key			what a file is good for: the model, the numerics, the order of elements
 *
 * The file, numbers little-endian
 *	head		struct packed_head
 *	weights		recipe, offset, bytes, sum: 4 × u64 each
 *	ranges		file, offset, bytes: 3 × u64 each; ascending, apart from one another
 *	data		of each weight, beginning on PACKED_ALIGN
 *
 * A reader believes nothing of it: sizes, order and offsets are checked, and every byte
 * but those between the weights is in some sum.  The sums find damage, not malice: whoever can write the
 * server's data directory needs no forgery.  What is not right is no file at all; the model is
 * packed anew.
 *
 * What is worth it (Zen 5 with AVX-512, one thread, November 2026).  Of a load of 97 MB of
 * weights SHA-256 takes 47 ms and packing 80 ms (the first time 100 to 350, most of it the
 * kernel's, which clears pages); mapping the packed form takes nothing, its sums 10 ms.  Products are as
 * fast over mapped pages as over huge ones where the file system has large folios (0.98 to 1.04
 * of the time, M = 1, 8 and 64, up to 67 MB), and up to 6 % slower over pages of 4 kB; in
 * exchange a reload allocates nothing, and the page cache holds no second copy.
 * Not worth it: less than PACKED_BYTES_MIN, which is packed in under a millisecond; trees, of
 * whose load (500 of depth 8: 55 ms) packing is a twentieth, the rest reads the file's lists.
 * A matrix that is computed from constants (a Transpose of a weight) is still computed, and its
 * file verified.
 */
#ifndef ENGINE_MODEL_PACKED_H
#define ENGINE_MODEL_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../protocol/protocol.h"

struct model_files;

#define PACKED_VERSION		1
#define PACKED_ALIGN		4096
#define PACKED_BYTES_MIN	(UINT64_C(1) << 20)		/* of all weights of a model */
#define PACKED_COUNT_MAX	65536					/* weights, and ranges */
#define PACKED_RANGE_MIN	65536					/* bytes of a range: smaller ones are read */

struct packed_key
{
	uint8_t		model[INFER_KEY_BYTES];
	char		numerics_id[64];
	char		layout[32];			/* of the device's packed weights */
};

struct packed_head
{
	uint8_t		magic[8];
	uint32_t	version;
	uint32_t	weights_count;
	uint32_t	ranges_count;
	uint32_t	reserved;
	uint64_t	bytes;				/* of the whole file */
	struct packed_key key;
	uint64_t	files_sum;			/* of the model's files without the ranges */
	uint64_t	head_sum;			/* of all before, and of the tables */
};

struct packed_weight
{
	uint64_t	recipe;
	uint64_t	bytes;
	const void *data;
};

struct packed_range
{
	uint64_t	file;				/* index among the model's files */
	uint64_t	offset;
	uint64_t	bytes;
};

struct packed_form
{
	uint32_t	weights_count;
	uint32_t	ranges_count;
	const struct packed_weight *weights;
	const struct packed_range *ranges;
};

struct packed						/* a file, mapped and found good */
{
	const uint8_t *map;
	uint64_t	size;
	struct packed_form form;		/* its data lies in the map */
	uint64_t	files_sum;
	bool		stale;				/* the model is not made of these weights after all */
};

/* 64 bits over bytes; a change within one aligned word of 8 bytes always changes it. */
extern uint64_t packed_sum(uint64_t seed, const void *data, uint64_t bytes);

/* Of the model's files, what lies in ranges set aside. */
extern uint64_t packed_files_sum(const struct model_files *files, const struct packed_form *form);

/*
 * Reads size bytes at map, which stay the caller's.  false: it is not a whole, undamaged
 * file for this key.  packed_release frees what packed_read allocated.
 */
extern bool packed_read(const uint8_t *map, uint64_t size, const struct packed_key *key, struct packed *packed);
extern void packed_release(struct packed *packed);

/* Unmaps and frees; NULL is legal. */
extern void packed_close(struct packed *packed);

/* The place-th, if it has that recipe, else any that has; NULL if none has. */
extern const struct packed_weight *packed_find(const struct packed *packed, uint32_t place, uint64_t recipe);

/* Whether a byte of the model's files lies in a range. */
extern bool packed_covers(const struct packed *packed, const struct model_files *files, const uint8_t *byte);

/* ---- ranges, for kinds that make a form (packed_ranges.c) ---- */

/* Where bytes lie in the model's files; false: not in one of them. */
extern bool packed_range_locate(const struct model_files *files, const void *data, uint64_t bytes,
								struct packed_range *range);

/* Sorts them; those that touch become one.  Returns how many there are then. */
extern uint32_t packed_ranges_merge(struct packed_range *ranges, uint32_t count);

/* Of merged ranges, empties those that have a byte in them of what somebody has read. */
extern void packed_ranges_drop(struct packed_range *ranges, uint32_t count, const struct packed_range *read);

/* Those that are worth it, in their order; returns how many. */
extern uint32_t packed_ranges_keep(struct packed_range *ranges, uint32_t count);

/*
 * Head and tables of a form to be written, in a block of *bytes for the caller to free, and
 * *total, the size of the whole file; NULL without memory.  Data follow one after the other,
 * each at the next multiple of PACKED_ALIGN.
 */
extern void *packed_head_make(const struct packed_form *form, const struct packed_key *key, uint64_t files_sum,
							  uint64_t *bytes, uint64_t *total);

static inline uint64_t
packed_aligned(uint64_t bytes)
{
	return (bytes + PACKED_ALIGN - 1) / PACKED_ALIGN * PACKED_ALIGN;
}

#endif							/* ENGINE_MODEL_PACKED_H */
