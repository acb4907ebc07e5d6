/*
 * packed.c
 *	  The file of packed weights: what is read is what was written, and damage or another key
 *	  is no file at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/model.h"
#include "engine/model/packed.h"
#include "tap.h"

#define FILE_BYTES	1000

static uint8_t *file;				/* a copy on its own, so that sanitizers see its end */
static uint64_t size;
static struct packed_key key;
static uint8_t weights_data[2][640];
static uint8_t contents[FILE_BYTES];

static const struct packed_range ranges[] = {{0, 100, 200}, {0, 400, 50}, {1, 0, 1000}};

static void
make_file(void)
{
	struct packed_weight weights[2] = {{11, 640, weights_data[0]}, {22, 320, weights_data[1]}};
	struct packed_form form = {2, 3, weights, ranges};
	uint64_t	head_bytes;
	void	   *head;

	for (int i = 0; i < 640; i++)
	{
		weights_data[0][i] = (uint8_t) (i * 7);
		weights_data[1][i] = (uint8_t) (i * 13 + 1);
	}
	memset(key.model, 5, sizeof(key.model));
	strcpy(key.numerics_id, "cpu-test");
	strcpy(key.layout, "panels");
	head = packed_head_make(&form, &key, 77, &head_bytes, &size);
	file = calloc(1, size);
	memcpy(file, head, head_bytes);
	memcpy(file + packed_aligned(head_bytes), weights_data[0], 640);
	memcpy(file + packed_aligned(packed_aligned(head_bytes) + 640), weights_data[1], 320);
	free(head);
}

static bool
reads(const uint8_t *data, uint64_t bytes, const struct packed_key *k)
{
	struct packed packed;
	bool		good = packed_read(data, bytes, k, &packed);

	if (good)
		packed_release(&packed);
	return good;
}

static void
test_reading(void)
{
	struct packed packed;
	bool		good = packed_read(file, size, &key, &packed);

	tap_ok(good && packed.files_sum == 77 && packed.form.weights_count == 2 && packed.form.ranges_count == 3 &&
		   memcmp(packed.form.ranges, ranges, sizeof(ranges)) == 0, "what was written is read");
	tap_ok(good && packed.form.weights[0].bytes == 640 && memcmp(packed.form.weights[0].data, weights_data[0], 640) == 0 &&
		   packed.form.weights[1].bytes == 320 && memcmp(packed.form.weights[1].data, weights_data[1], 320) == 0,
		   "its weights, too");
	tap_ok(good && packed_find(&packed, 1, 22) == &packed.form.weights[1] && packed_find(&packed, 0, 22) == &packed.form.weights[1] &&
		   packed_find(&packed, 9, 11) == &packed.form.weights[0] && packed_find(&packed, 0, 33) == NULL,
		   "a weight is found by its recipe");
	packed_release(&packed);
}

static bool
is_padding(uint64_t at)
{
	uint64_t	head = sizeof(struct packed_head) + 2 * 32 + sizeof(ranges);

	return (at >= head && at < PACKED_ALIGN) || (at >= PACKED_ALIGN + 640 && at < 2 * PACKED_ALIGN);
}

static void
test_damage(void)
{
	uint64_t	padding = 0;
	uint64_t	missed = 0;
	struct packed_key other;

	for (uint64_t at = 0; at < size; at++)
	{
		bool		unchanged;

		file[at] ^= (uint8_t) (1 << at % 8);
		unchanged = reads(file, size, &key);
		file[at] ^= (uint8_t) (1 << at % 8);
		padding += unchanged && is_padding(at);
		missed += unchanged && !is_padding(at);
	}
	tap_ok(missed == 0 && padding > 0, "a bit that flips is seen, but between the weights (%llu)", (unsigned long long) missed);
	missed = 0;
	for (uint64_t bytes = 0; bytes < size; bytes++)
	{
		uint8_t    *cut = malloc(bytes + 1);

		memcpy(cut, file, bytes);
		missed += reads(cut, bytes, &key);
		free(cut);
	}
	tap_ok(missed == 0, "so is a file that is cut short anywhere");
	other = key;
	other.model[31]++;
	tap_ok(!reads(file, size, &other), "another model's file is none");
	other = key;
	strcpy(other.numerics_id, "cpu-other");
	tap_ok(!reads(file, size, &other), "nor one of other numerics");
	other = key;
	strcpy(other.layout, "rows");
	tap_ok(!reads(file, size, &other), "nor of another layout");
}

/* A head whose sum is right, with whatever in it. */
static bool
reads_forged(uint64_t at, uint64_t value, size_t bytes)
{
	uint8_t    *forged = malloc(size);
	struct packed_head head;
	uint64_t	tables;
	bool		good;

	memcpy(forged, file, size);
	memcpy(forged + at, &value, bytes);
	memcpy(&head, forged, sizeof(head));
	tables = head.weights_count * UINT64_C(32) + head.ranges_count * UINT64_C(24);
	if (tables <= size - sizeof(head))
	{
		head.head_sum = packed_sum(packed_sum(0, &head, offsetof(struct packed_head, head_sum)), forged + sizeof(head), tables);
		memcpy(forged, &head, sizeof(head));
	}
	good = reads(forged, size, &key);
	free(forged);
	return good;
}

static void
test_forged(void)
{
	static const uint64_t numbers[] = {0, 1, 3, 4096, 65536, 65537, UINT32_MAX, UINT64_MAX, UINT64_MAX - 4095, UINT64_MAX / 24};
	uint64_t	weights = sizeof(struct packed_head);
	uint64_t	table_ranges = weights + 2 * 32;
	int			read = 0;

	tap_ok(reads_forged(offsetof(struct packed_head, files_sum), 1, 8), "a forged sum is believed: it is no signature");
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
	{
		read += reads_forged(offsetof(struct packed_head, version), numbers[i], 4) && numbers[i] != PACKED_VERSION;
		read += reads_forged(offsetof(struct packed_head, weights_count), numbers[i], 4);
		read += reads_forged(offsetof(struct packed_head, ranges_count), numbers[i], 4) && (uint32_t) numbers[i] != 3 && numbers[i] > 3;
		read += reads_forged(offsetof(struct packed_head, bytes), numbers[i], 8);
		for (int w = 0; w < 2; w++)
		{
			read += reads_forged(weights + (uint64_t) w * 32 + 8, numbers[i], 8) && (w != 0 || numbers[i] != 4096);
			read += reads_forged(weights + (uint64_t) w * 32 + 16, numbers[i], 8);
		}
		read += reads_forged(table_ranges + 8, numbers[i], 8) && numbers[i] > 200;
		read += reads_forged(table_ranges + 16, numbers[i], 8) && numbers[i] > 300;
		read += reads_forged(table_ranges, numbers[i], 8) && numbers[i] > 0;
	}
	tap_ok(read == 0, "numbers that do not fit are refused (%d)", read);
}

static void
test_files(void)
{
	struct model_file list[2] = {{"a", contents, FILE_BYTES}, {"b", contents, FILE_BYTES}};
	struct model_files files = {.count = 2, .files = list};
	struct packed_form form = {0, 3, NULL, ranges};
	struct packed packed = {.form = form};
	uint64_t	sum = packed_files_sum(&files, &form);
	int			wrong = 0;

	for (int i = 0; i < FILE_BYTES; i++)
	{
		bool		skipped = (i >= 100 && i < 300) || (i >= 400 && i < 450);

		contents[i] ^= 1;
		wrong += (packed_files_sum(&files, &form) == sum) != skipped;
		contents[i] ^= 1;
		wrong += packed_covers(&packed, &files, contents + i) != true;	/* file 1 has the same bytes, and is skipped */
	}
	tap_ok(wrong == 0, "a change of the model's files is seen outside the ranges");
	list[1].name = "c";
	tap_ok(packed_files_sum(&files, &form) != sum, "another name, too");
	list[1].name = "b";
	list[1].size = 999;
	tap_ok(packed_files_sum(&files, &form) != sum, "and another size");
	list[1].size = FILE_BYTES;
	list[0].size = 120;
	(void) packed_files_sum(&files, &form);
	tap_ok(!packed_covers(&packed, &files, contents + FILE_BYTES), "ranges of another model's files read nothing past the end");
}

int
main(void)
{
	make_file();
	test_reading();
	test_damage();
	test_forged();
	test_files();
	free(file);
	return tap_done();
}
