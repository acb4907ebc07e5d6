/*
 * places.h
 *	  Kept columns in shared memory: what marks.c and notes.c share.
 *
 * Nouns
 *	place		a kept column, by database and number
 *	count		of marks; those that were taken when a job began are served when it has completed
 *
 * Locks
 *	Places are found, made and given up under the lock; counts of marks are atomics, raised under it in shared
 *	mode; all else in a place is written under it in exclusive mode.
 */
#ifndef INFER_FRESH_PLACES_H
#define INFER_FRESH_PLACES_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "fresh.h"

#define PLACES_MAX		4096

typedef struct Place
{
	Oid			database;			/* InvalidOid: free */
	int64		number;
	pg_atomic_uint32 rows;			/* marks */
	pg_atomic_uint32 all;
	uint32		rows_served;
	uint32		all_served;
	uint32		rows_taken;			/* when its job began */
	uint32		all_taken;			/* before its job's version was looked up */
	uint32		rows_held;			/* when its job was cancelled: the next mark ends that */
	uint32		all_held;
	bool		held;
	int64		job;				/* made of its marks, since the server's start */
	bool		job_all;			/* of all of them */
	bool		job_began;
	bool		prepared;			/* transactions that mark it may wait for COMMIT PREPARED */
	TimestampTz prepared_marked;
	int32		failures;
	FreshVersion version;
} Place;

typedef struct Places
{
	LWLock	   *lock;
	int			used;				/* no place behind these */
	pg_atomic_uint64 unseen_told;	/* when a column without a place was last told of */
	Place		places[PLACES_MAX];
} Places;

extern Places *fresh_places;		/* NULL: not preloaded */

/* Lock held.  NULL: there is none. */
extern Place *fresh_find_place(int64 number);

extern void fresh_notes_init(void);	/* notes.c, at preload */

#endif							/* INFER_FRESH_PLACES_H */
