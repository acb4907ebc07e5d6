/*
 * marks.c
 *	  Marks of kept columns in shared memory: what the scanner and the runners do with them.
 *
 * Invariants
 *	- Counts are raised after the transaction has become visible, and taken before the job's first snapshot: what a
 *	  job cannot see yet is not served by it.  Those of all rows are taken before its version is looked up, so that
 *	  it serves no mark of a later version.
 *	- COMMIT PREPARED runs no callbacks, and may come after a restart.  So the column is marked now and then as long
 *	  as there are such transactions, and once more when there are none.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/syscache.h"

#include "places.h"

#define PREPARED_INTERVAL 10000		/* ms */

Places	   *fresh_places = NULL;

Place *
fresh_find_place(int64 number)
{
	for (int i = 0; i < fresh_places->used; i++)
		if (fresh_places->places[i].number == number && fresh_places->places[i].database == MyDatabaseId)
			return &fresh_places->places[i];
	return NULL;
}

static Place *
make_place(int64 number)
{
	for (int i = 0; i < PLACES_MAX; i++)
	{
		Place	   *place = &fresh_places->places[i];

		if (OidIsValid(place->database))
			continue;
		memset(place, 0, sizeof(Place));
		pg_atomic_init_u32(&place->rows, 1);
		pg_atomic_init_u32(&place->all, 1);
		place->prepared = true;		/* before the server's start, if not since */
		place->number = number;
		place->database = MyDatabaseId;
		fresh_places->used = Max(fresh_places->used, i + 1);
		return place;
	}
	return NULL;
}

static void
tell(Place *place, FreshMarks *marks)
{
	uint32		rows = pg_atomic_read_u32(&place->rows);
	uint32		all = pg_atomic_read_u32(&place->all);
	bool		held = place->held && rows == place->rows_held && all == place->all_held;

	marks->known = true;
	marks->rows = !held && rows != place->rows_served;
	marks->all = !held && all != place->all_served;
	marks->held = held;
	marks->all_count = all;
	marks->prepared = place->prepared;
	marks->failures = place->failures;
}

bool
fresh_marks_get(int64 number, FreshMarks *marks)
{
	Place	   *place;

	memset(marks, 0, sizeof(*marks));
	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place == NULL)
		place = make_place(number);
	if (place != NULL)
		tell(place, marks);
	LWLockRelease(fresh_places->lock);
	return place != NULL;
}

void
fresh_marks_peek(int64 number, FreshMarks *marks)
{
	Place	   *place;

	memset(marks, 0, sizeof(*marks));
	if (fresh_places == NULL)
		return;
	LWLockAcquire(fresh_places->lock, LW_SHARED);
	place = fresh_find_place(number);
	if (place != NULL)
		tell(place, marks);
	LWLockRelease(fresh_places->lock);
}

void
fresh_marks_version(int64 number, const FreshVersion *version, FreshMarks *marks)
{
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place != NULL)
	{
		/* another one, perhaps that nobody told of: a model's new name */
		if (place->version.number != 0 && place->version.text_hash != version->text_hash)
		{
			pg_atomic_fetch_add_u32(&place->all, 1);
			marks->all_count++;
		}
		place->version = *version;
	}
	LWLockRelease(fresh_places->lock);
}

void
fresh_marks_all(int64 number)
{
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_SHARED);
	place = fresh_find_place(number);
	if (place != NULL)
		pg_atomic_fetch_add_u32(&place->all, 1);
	LWLockRelease(fresh_places->lock);
}

/* none: there is no prepared transaction that has changed jobs, or marked columns. */
void
fresh_marks_prepared(int64 number, bool none, FreshMarks *marks)
{
	TimestampTz now = GetCurrentTimestamp();
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place != NULL && place->prepared &&
		(none || TimestampDifferenceExceeds(place->prepared_marked, now, PREPARED_INTERVAL)))
	{
		pg_atomic_fetch_add_u32(&place->rows, 1);
		pg_atomic_fetch_add_u32(&place->all, 1);
		marks->all_count++;
		place->prepared = !none;
		place->prepared_marked = now;
	}
	LWLockRelease(fresh_places->lock);
}

/* all_count: of marks, from before the job's version was looked up. */
void
fresh_marks_submitted(int64 number, int64 job, bool all, uint32 all_count)
{
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place != NULL)
	{
		place->job = job;
		place->job_all = all;
		place->all_taken = all_count;
		place->job_began = false;
		place->held = false;
	}
	LWLockRelease(fresh_places->lock);
}

/* What its job did not see is left marked. */
void
fresh_marks_ended(int64 number, int64 job, JobState state)
{
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place != NULL && place->job == job)
	{
		if (state == JOB_COMPLETED && place->job_began)
		{
			place->rows_served = place->rows_taken;
			if (place->job_all)
				place->all_served = place->all_taken;
		}
		place->failures = state == JOB_FAILED ? place->failures + 1 : 0;
		if (state == JOB_CANCELLED)
		{
			place->held = true;
			place->rows_held = pg_atomic_read_u32(&place->rows);
			place->all_held = pg_atomic_read_u32(&place->all);
		}
		place->job = 0;
	}
	LWLockRelease(fresh_places->lock);
}

void
fresh_marks_forget(int64 number)
{
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place != NULL)
		place->database = InvalidOid;
	LWLockRelease(fresh_places->lock);
}

void
fresh_marks_retain(List *fresh)
{
	Oid			gone[16];
	int			gone_count = 0;
	Oid			asked = InvalidOid;

	/* databases are looked up without the lock */
	for (int i = 0; i < fresh_places->used && gone_count < lengthof(gone); i++)
	{
		Oid			database = fresh_places->places[i].database;

		if (!OidIsValid(database) || database == MyDatabaseId || database == asked)
			continue;
		asked = database;
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database)))
			gone[gone_count++] = database;
	}
	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	for (int i = 0; i < fresh_places->used; i++)
	{
		Place	   *place = &fresh_places->places[i];
		bool		kept = place->database != MyDatabaseId;
		ListCell   *lc;

		if (!OidIsValid(place->database))
			continue;
		for (int j = 0; j < gone_count && kept; j++)
			kept = place->database != gone[j];
		if (place->database == MyDatabaseId)
			foreach(lc, fresh)
				kept = kept || ((Fresh *) lfirst(lc))->number == place->number;
		if (!kept)
			place->database = InvalidOid;
	}
	LWLockRelease(fresh_places->lock);
}

/* ---- in a runner ---- */

/* When it begins for the first time, before it reads anything. */
void
job_fresh_begin(int64 number, int64 job)
{
	Place	   *place;

	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	place = fresh_find_place(number);
	if (place != NULL && place->job == job)
	{
		place->rows_taken = pg_atomic_read_u32(&place->rows);
		place->job_began = true;
	}
	LWLockRelease(fresh_places->lock);
}

/* ---- start ---- */

static void
init_places(void *memory, LWLock *lock)
{
	Places	   *made = memory;

	pg_atomic_init_u64(&made->unseen_told, 0);
	made->lock = lock;
}

void
infer_fresh_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	infer_shared_add("infer fresh", sizeof(Places), (void **) &fresh_places, init_places);
	fresh_notes_init();
}
