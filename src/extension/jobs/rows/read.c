/*
 * read.c
 *	  Rows of a job's source, chunk by chunk: what all sources share.
 *
 * Values are copied once, detoasted, from the plan's slot into the chunk's context.  A read ends at so many
 * rows or bytes; one row more is asked for, so that the last chunk knows that it is the last.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "rows.h"

/* ---- chunks that are filled ---- */

#define CARVED_BYTES	(32 * 1024)

/* Memory of the chunk's that is freed with it only: many small pieces, without anything around each. */
static void *
carve(JobFilling *filling, Size size)
{
	char	   *piece;

	size = MAXALIGN(size);
	if (size > CARVED_BYTES / 8)
		return MemoryContextAlloc(filling->chunk->context, size);
	if (size > filling->carved_left)
	{
		filling->carved = MemoryContextAlloc(filling->chunk->context, CARVED_BYTES);
		filling->carved_left = CARVED_BYTES;
	}
	piece = filling->carved;
	filling->carved += size;
	filling->carved_left -= size;
	return piece;
}

JobRow *
job_filling_row(JobFilling *filling)
{
	JobChunk   *chunk = filling->chunk;
	const JobPlan *plan = filling->run->plan;
	JobRow	   *row;

	if (chunk->rows_count == filling->rows_max ||
		(chunk->rows_count > 0 && filling->bytes >= JOB_CHUNK_BYTES))
	{
		filling->full = true;
		return NULL;
	}
	if (chunk->rows_count == filling->rows_space)
	{
		filling->rows_space = Min(Max(filling->rows_space * 2, 64), filling->rows_max);
		chunk->rows = chunk->rows == NULL ?
			MemoryContextAlloc(chunk->context, sizeof(JobRow) * filling->rows_space) :
			repalloc_huge(chunk->rows, sizeof(JobRow) * filling->rows_space);
	}
	row = &chunk->rows[chunk->rows_count++];
	*row = (JobRow) {.ticket = -1};
	row->keys = carve(filling, sizeof(Datum) * (plan->keys_count + plan->inputs_count) +
					  sizeof(bool) * plan->inputs_count);
	row->inputs = row->keys + plan->keys_count;
	row->inputs_null = (bool *) (row->inputs + plan->inputs_count);
	return row;
}

/* As it is stored: but for what lies elsewhere or is compressed, which is the chunk's own then. */
static Datum
copy_varlena(JobFilling *filling, struct varlena *value)
{
	MemoryContext old;
	struct varlena *copy;

	if (VARATT_IS_EXTENDED(value) && !VARATT_IS_SHORT(value))
	{
		old = MemoryContextSwitchTo(filling->chunk->context);
		copy = detoast_attr(value);
		MemoryContextSwitchTo(old);
	}
	else
	{
		copy = carve(filling, VARSIZE_ANY(value));
		memcpy(copy, value, VARSIZE_ANY(value));
	}
	filling->bytes += VARSIZE_ANY(copy);
	return PointerGetDatum(copy);
}

Datum
job_filling_value(JobFilling *filling, Datum value, int16 length, bool by_value)
{
	Size		size;
	void	   *copy;

	if (by_value)
	{
		filling->bytes += sizeof(Datum);
		return value;
	}
	if (length == -1)
		return copy_varlena(filling, (struct varlena *) DatumGetPointer(value));
	size = length > 0 ? length : strlen(DatumGetCString(value)) + 1;
	copy = carve(filling, size);
	memcpy(copy, DatumGetPointer(value), size);
	filling->bytes += size;
	return PointerGetDatum(copy);
}

/* ---- where a reader is ---- */

void
job_reader_move(JobRun *run, const Datum *keys)
{
	JobReader  *reader = run->reader;
	MemoryContext old;
	Datum	   *position;

	if (keys == NULL)
	{
		run->position = NULL;
		return;
	}
	reader->position_at = 1 - reader->position_at;
	old = MemoryContextSwitchTo(reader->positions[reader->position_at]);
	MemoryContextReset(CurrentMemoryContext);
	position = palloc(sizeof(Datum) * run->plan->keys_count);
	for (int i = 0; i < run->plan->keys_count; i++)
		position[i] = datumCopy(keys[i], reader->key_types[i].by_value, reader->key_types[i].length);
	MemoryContextSwitchTo(old);
	run->position = position;
}

/* ---- job.h's calls ---- */

JobReader *
job_reader_make(JobRun *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->context);
	JobReader  *reader = palloc0(sizeof(JobReader));
	const JobPlan *plan = run->plan;

	switch (plan->source)
	{
		case JOB_SOURCE_SCAN:
			reader->ops = &job_reader_scan_ops;
			break;
		case JOB_SOURCE_INPUT:
			reader->ops = &job_reader_input_ops;
			break;
		case JOB_SOURCE_REQUESTS:
			reader->ops = &job_reader_lines_ops;
			break;
	}
	job_statements_end_with(run->context, reader->statements, JOB_READ_STATEMENTS);
	reader->key_types = job_key_types(plan->keys_count, plan->keys, run->context);
	for (int i = 0; i < lengthof(reader->positions); i++)
		reader->positions[i] = AllocSetContextCreate(run->context, "infer job position", ALLOCSET_SMALL_SIZES);
	if (run->shard != NULL)
	{
		reader->low = job_key_values(plan, &run->shard->low);
		reader->high = job_key_values(plan, &run->shard->high);
	}
	MemoryContextSwitchTo(old);
	return reader;
}

int64
job_reader_count(JobRun *run, bool *estimated)
{
	return run->reader->ops->count(run, estimated);
}

JobKey *
job_reader_ranges(JobRun *run, int shards, int *count)
{
	return run->reader->ops->ranges(run, shards, count);
}

void
job_read(JobRun *run, JobChunk *chunk, int rows_max)
{
	chunk->rows = NULL;
	chunk->rows_count = 0;
	chunk->last = false;
	chunk->of_items = false;
	run->reader->ops->read(run, chunk, Max(rows_max, 1));
}

void
job_read_items(JobRun *run, JobChunk *chunk, JobItem *items, int items_count)
{
	MemoryContext old = MemoryContextSwitchTo(chunk->context);
	const JobPlan *plan = run->plan;

	chunk->rows = palloc0(sizeof(JobRow) * Max(items_count, 1));
	chunk->rows_count = items_count;
	chunk->last = false;
	chunk->of_items = true;
	for (int i = 0; i < items_count; i++)
	{
		JobRow	   *row = &chunk->rows[i];

		row->item = &items[i];
		row->ticket = -1;
		row->outcome = JOB_ROW_GONE;
		row->keys = job_key_values(plan, &items[i].key);
		row->inputs = palloc(sizeof(Datum) * plan->inputs_count);
		row->inputs_null = palloc(sizeof(bool) * plan->inputs_count);
	}
	MemoryContextSwitchTo(old);
	if (items_count > 0)
		run->reader->ops->read_items(run, chunk);
}

void
job_read_back(JobRun *run, const JobRow *row)
{
	job_reader_move(run, row->keys);
	if (run->reader->ops->read_back != NULL)
		run->reader->ops->read_back(run, row);
}
