/*
 * tables.h
 *	  Rows of our own tables as values: what the files that make structs of them share.
 *
 * Files
 *	tables.c	where a job is at home, its locks; rows as values, scans, writing
 *	job.c		infer.job, and what goes with a job		shard.c		infer.job_shard		item.c		infer.job_item
 *
 * Relations are opened by name in schema infer and scanned by their primary keys, whatever search_path,
 * row security or the caller's privileges on them: the callers have checked what the user may.  Readers see
 * the latest committed rows, whatever the transaction's snapshot, and those of the own transaction.
 */
#ifndef INFER_JOBS_TABLES_H
#define INFER_JOBS_TABLES_H

#include "../job.h"

#include "access/genam.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#define TABLES_ATTRIBUTES_MAX	32

/* A lock on a number that goes with a table, until the transaction's end.  false: somebody else has it, and wait is. */
extern bool tables_lock(const char *table, int64 number, bool wait);

/* A name's place in an array of names; XX000: it is none of them. */
extern int	tables_number_of_name(const char *const *names, int count, const char *name);

/* ---- rows as values, by attribute number ---- */

typedef struct TablesValues
{
	Datum		values[TABLES_ATTRIBUTES_MAX];
	bool		nulls[TABLES_ATTRIBUTES_MAX];
} TablesValues;

extern void tables_set(TablesValues *values, int attribute, Datum value);
extern void tables_set_text(TablesValues *values, int attribute, const char *text); /* NULL: NULL; so the next three */
extern void tables_set_time(TablesValues *values, int attribute, TimestampTz time); /* 0: NULL */
extern void tables_set_jsonb(TablesValues *values, int attribute, const Jsonb *jsonb);
extern void tables_set_key(TablesValues *values, int attribute, const JobKey *key);
extern void tables_set_digest(TablesValues *values, int attribute, const uint8 *digest);
extern char *tables_get_text(const TablesValues *values, int attribute);
extern TimestampTz tables_get_time(const TablesValues *values, int attribute);
extern int64 tables_get_int64(const TablesValues *values, int attribute);
extern int32 tables_get_int32(const TablesValues *values, int attribute);
extern bool tables_get_bool(const TablesValues *values, int attribute);
extern double tables_get_double(const TablesValues *values, int attribute);
extern Jsonb *tables_get_jsonb(const TablesValues *values, int attribute);
extern void tables_get_key(const TablesValues *values, int attribute, JobKey *key);
extern void tables_get_digest(const TablesValues *values, int attribute, uint8 *digest);

/* ---- scans ---- */

typedef struct TablesScan
{
	Relation	table;
	Snapshot	snapshot;
	SysScanDesc scan;
	LOCKMODE	lock;
} TablesScan;

/* Of the rows with these first columns of an index; of the primary key. */
extern void tables_begin_by(TablesScan *scan, const char *table, const char *index, LOCKMODE lock, ScanKeyData *keys,
							int keys_count);
extern void tables_begin(TablesScan *scan, const char *table, LOCKMODE lock, ScanKeyData *keys, int keys_count);
extern bool tables_next(TablesScan *scan, TablesValues *values, ItemPointer tid, TransactionId *xmin);	/* xmin: or NULL */
extern void tables_end(TablesScan *scan);
extern void tables_key_int64(ScanKeyData *key, int attribute, int64 value);
extern void tables_key_int32(ScanKeyData *key, int attribute, int32 value);

/* A column, an int8, of the first row (or, backward, the last) with these first columns of an index; 0: there is none. */
extern int64 tables_edge(const char *table, const char *index, ScanKeyData *keys, int keys_count, int attribute,
						 ScanDirection direction);

/* ---- writing ---- */

/* tid: of the row that is replaced; becomes that of the new row. */
extern void tables_put(const char *name, TablesValues *values, ItemPointer tid, bool is_new);
extern void tables_delete_at(const char *name, ItemPointer tid);

/* Rows whose first column is that job: all; up to *max, which becomes what is left of it. */
extern void tables_delete_of_job(const char *name, int64 job);
extern void tables_delete_some(const char *name, int64 job, int *max);

#endif							/* INFER_JOBS_TABLES_H */
