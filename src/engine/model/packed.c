/*
 * packed.c
 *	  See packed.h.
 *
 * Order of reading
 *	the head's size and sum before anything in it is used; then the tables, whose extent the
 *	head says and whose bytes its sum has; then the data.
 */
#include "packed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model.h"

#define SUM_FACTOR	UINT64_C(0x9E3779B97F4A7C15)	/* odd, so that multiplying loses nothing */
#define SUM_LANES	4

static const uint8_t packed_magic[8] = {'i', 'n', 'f', 'e', 'r', 'p', 'k', '\n'};

struct table_weight
{
	uint64_t	recipe;
	uint64_t	offset;
	uint64_t	bytes;
	uint64_t	sum;
};

_Static_assert(sizeof(struct packed_head) == 32 + sizeof(struct packed_key) + 16, "the head has no holes");
_Static_assert(sizeof(struct packed_head) % 8 == 0, "tables follow aligned");

/* ---- sums ---- */

static inline uint64_t
sum_step(uint64_t lane, uint64_t word)
{
	lane = (lane ^ word) * SUM_FACTOR;
	return lane << 29 | lane >> 35;
}

/* Each step is a bijection of its lane for a given word and of its word for a given lane. */
uint64_t
packed_sum(uint64_t seed, const void *data, uint64_t bytes)
{
	const uint8_t *at = data;
	uint64_t	lanes[SUM_LANES] = {seed, seed + 1, seed + 2, seed + 3};
	uint64_t	rest = bytes;
	uint64_t	sum = bytes;

	for (; rest >= 8 * SUM_LANES; rest -= 8 * SUM_LANES, at += 8 * SUM_LANES)
		for (int i = 0; i < SUM_LANES; i++)
		{
			uint64_t	word;

			memcpy(&word, at + 8 * i, sizeof(word));
			lanes[i] = sum_step(lanes[i], word);
		}
	for (int i = 0; rest > 0; i++)
	{
		uint64_t	word = 0;
		uint64_t	part = rest < 8 ? rest : 8;

		memcpy(&word, at, part);
		lanes[i] = sum_step(lanes[i], word);
		at += part;
		rest -= part;
	}
	for (int i = 0; i < SUM_LANES; i++)
		sum = sum_step(sum, lanes[i]);
	sum = sum_step(sum, sum >> 32);
	return sum ^ sum >> 32;
}

uint64_t
packed_files_sum(const struct model_files *files, const struct packed_form *form)
{
	uint64_t	sum = files->count;
	uint32_t	r = 0;

	for (uint32_t f = 0; f < files->count; f++)
	{
		const struct model_file *file = &files->files[f];
		uint64_t	at = 0;

		sum = packed_sum(sum, file->name, strlen(file->name) + 1);
		sum = packed_sum(sum, &file->size, sizeof(file->size));
		for (; r < form->ranges_count && form->ranges[r].file == f; r++)
		{
			const struct packed_range *range = &form->ranges[r];

			if (range->offset > file->size || range->bytes > file->size - range->offset)
				return ~sum;		/* of other files */
			sum = packed_sum(sum, file->data + at, range->offset - at);
			at = range->offset + range->bytes;
		}
		sum = packed_sum(sum, file->data + at, file->size - at);
	}
	return sum;
}

static uint64_t
head_sum(const struct packed_head *head, const uint8_t *tables, uint64_t tables_bytes)
{
	return packed_sum(packed_sum(0, head, offsetof(struct packed_head, head_sum)), tables, tables_bytes);
}

static uint64_t
tables_bytes(uint32_t weights_count, uint32_t ranges_count)
{
	return weights_count * sizeof(struct table_weight) + ranges_count * sizeof(struct packed_range);
}

/* ---- reading ---- */

static bool
read_head(const uint8_t *map, uint64_t size, const struct packed_key *key, struct packed_head *head)
{
	uint64_t	tables;

	if (size < sizeof(*head))
		return false;
	memcpy(head, map, sizeof(*head));
	if (memcmp(head->magic, packed_magic, sizeof(head->magic)) != 0 || head->version != PACKED_VERSION ||
		head->bytes != size || memcmp(&head->key, key, sizeof(*key)) != 0 ||
		head->weights_count == 0 || head->weights_count > PACKED_COUNT_MAX || head->ranges_count > PACKED_COUNT_MAX)
		return false;
	tables = tables_bytes(head->weights_count, head->ranges_count);
	return tables <= size - sizeof(*head) && head_sum(head, map + sizeof(*head), tables) == head->head_sum;
}

/* Ascending in the file, where head_make puts them. */
static bool
read_weights(const uint8_t *map, uint64_t size, const struct packed_head *head, struct packed_weight *weights)
{
	uint64_t	at = sizeof(*head) + tables_bytes(head->weights_count, head->ranges_count);

	for (uint32_t i = 0; i < head->weights_count; i++)
	{
		struct table_weight entry;

		memcpy(&entry, map + sizeof(*head) + i * sizeof(entry), sizeof(entry));
		if (at > UINT64_MAX - PACKED_ALIGN || entry.offset != packed_aligned(at) || entry.offset > size ||
			entry.bytes > size - entry.offset ||
			packed_sum(entry.recipe, map + entry.offset, entry.bytes) != entry.sum)
			return false;
		weights[i] = (struct packed_weight) {entry.recipe, entry.bytes, map + entry.offset};
		at = entry.offset + entry.bytes;
	}
	return at == size;
}

static bool
read_ranges(const uint8_t *table, uint32_t count, struct packed_range *ranges)
{
	if (count > 0)
		memcpy(ranges, table, count * sizeof(*ranges));
	for (uint32_t i = 0; i < count; i++)
	{
		const struct packed_range *before = i == 0 ? NULL : &ranges[i - 1];

		if (ranges[i].bytes > UINT64_MAX - ranges[i].offset ||
			(before != NULL && before->file > ranges[i].file) ||
			(before != NULL && before->file == ranges[i].file && before->offset + before->bytes > ranges[i].offset))
			return false;
	}
	return true;
}

bool
packed_read(const uint8_t *map, uint64_t size, const struct packed_key *key, struct packed *packed)
{
	struct packed_head head;
	struct packed_weight *weights;
	struct packed_range *ranges;

	memset(packed, 0, sizeof(*packed));
	if (!read_head(map, size, key, &head))
		return false;
	weights = calloc(head.weights_count, sizeof(*weights));
	ranges = calloc(head.ranges_count + 1, sizeof(*ranges));
	packed->map = map;
	packed->size = size;
	packed->files_sum = head.files_sum;
	packed->form = (struct packed_form) {head.weights_count, head.ranges_count, weights, ranges};
	if (weights != NULL && ranges != NULL && read_weights(map, size, &head, weights) &&
		read_ranges(map + sizeof(head) + tables_bytes(head.weights_count, 0), head.ranges_count, ranges))
		return true;
	packed_release(packed);
	return false;
}

void
packed_release(struct packed *packed)
{
	free((void *) packed->form.weights);
	free((void *) packed->form.ranges);
	packed->form = (struct packed_form) {0};
}

void
packed_close(struct packed *packed)
{
	if (packed == NULL)
		return;
	packed_release(packed);
	munmap((void *) packed->map, packed->size);
	free(packed);
}

/* ---- using ---- */

const struct packed_weight *
packed_find(const struct packed *packed, uint32_t place, uint64_t recipe)
{
	if (place < packed->form.weights_count && packed->form.weights[place].recipe == recipe)
		return &packed->form.weights[place];
	for (uint32_t i = 0; i < packed->form.weights_count; i++)
		if (packed->form.weights[i].recipe == recipe)
			return &packed->form.weights[i];
	return NULL;
}

bool
packed_covers(const struct packed *packed, const struct model_files *files, const uint8_t *byte)
{
	for (uint32_t i = 0; i < packed->form.ranges_count; i++)
	{
		const struct packed_range *range = &packed->form.ranges[i];
		const struct model_file *file = range->file < files->count ? &files->files[range->file] : NULL;

		if (file != NULL && byte >= file->data && byte < file->data + file->size &&
			(uint64_t) (byte - file->data) >= range->offset &&
			(uint64_t) (byte - file->data) - range->offset < range->bytes)
			return true;
	}
	return false;
}

/* ---- writing ---- */

void *
packed_head_make(const struct packed_form *form, const struct packed_key *key, uint64_t files_sum,
				 uint64_t *bytes, uint64_t *total)
{
	uint64_t	tables = tables_bytes(form->weights_count, form->ranges_count);
	uint8_t    *block;
	struct packed_head head = {
		.version = PACKED_VERSION, .weights_count = form->weights_count, .ranges_count = form->ranges_count,
		.key = *key, .files_sum = files_sum
	};

	*bytes = sizeof(head) + tables;
	block = malloc(*bytes);
	if (block == NULL)
		return NULL;
	*total = *bytes;
	for (uint32_t i = 0; i < form->weights_count; i++)
	{
		const struct packed_weight *weight = &form->weights[i];
		struct table_weight entry = {
			.recipe = weight->recipe,
			.offset = packed_aligned(*total),
			.bytes = weight->bytes,
			.sum = packed_sum(weight->recipe, weight->data, weight->bytes)
		};

		memcpy(block + sizeof(head) + i * sizeof(entry), &entry, sizeof(entry));
		*total = entry.offset + entry.bytes;
	}
	if (form->ranges_count > 0)
		memcpy(block + sizeof(head) + tables_bytes(form->weights_count, 0), form->ranges,
			   form->ranges_count * sizeof(*form->ranges));
	memcpy(head.magic, packed_magic, sizeof(head.magic));
	head.bytes = *total;
	head.head_sum = head_sum(&head, block + sizeof(head), tables);
	memcpy(block, &head, sizeof(head));
	return block;
}
