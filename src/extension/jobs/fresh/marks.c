/*
 * marks.c
 *	  That a kept column may have stale rows: in this transaction, and from its commit on in shared memory.
 *
 * Nouns
 *	place		a kept column in shared memory, by database and number
 *	count		of marks; those that were taken when a job began are served when it has completed
 *	note		a kept column in this transaction: marked, or rows of it believed to be settled
 *
 * Locks
 *	Places are found, made and given up under the lock; counts of marks are atomics, raised under it in shared
 *	mode; all else in a place is written under it in exclusive mode.
 *
 * Invariants
 *	- Counts are raised after the transaction has become visible, and taken before the job's first snapshot: what a
 *	  job cannot see yet is not served by it.  Those of all rows are taken before its version is looked up, so that
 *	  it serves no mark of a later version.
 *	- A row that says the version which was current at the transaction's first look is not stale; if another is
 *	  current by its commit, the column is marked.
 *	- COMMIT PREPARED runs no callbacks, and may come after a restart.  So the column is marked now and then as long
 *	  as there are such transactions, and once more when there are none.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "../launcher/launcher.h"
#include "fresh.h"

#define PLACES_MAX		4096
#define PREPARED_INTERVAL 10000		/* ms */
#define UNSEEN_INTERVAL	UINT64CONST(1000000)	/* usec */

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

typedef struct Note					/* in this transaction */
{
	int64		number;
	bool		rows;
	bool		all;
	bool		believed;			/* rows that say version are settled */
	FreshVersion version;
} Note;

static Places *places = NULL;
static Note *notes = NULL;
static int	notes_count = 0;
static int	notes_room = 0;


/* ---- versions ---- */

char *
fresh_version_text(const char *model, int32 number)
{
	return psprintf("%s@%d", model, number);
}

char *
fresh_version_failed(const char *model, int32 number)
{
	return psprintf("%s@%d failed", model, number);
}

uint64
fresh_text_hash(const char *text, Size length)
{
	return DatumGetUInt64(hash_any_extended((const unsigned char *) text, (int) length, 0));
}

void
fresh_version_make(const char *model, int32 number, FreshVersion *version)
{
	char	   *text = fresh_version_text(model, number);
	char	   *failed = fresh_version_failed(model, number);

	version->number = number;
	version->text_hash = fresh_text_hash(text, strlen(text));
	version->failed_hash = fresh_text_hash(failed, strlen(failed));
}

/* Whether a version column's value, not NULL, says that version. */
static bool
says(const FreshVersion *version, Datum value, Oid type)
{
	uint64		hash;
	text	   *said;

	if (version->number == 0)
		return false;
	switch (type)
	{
		case INT2OID:
			return abs((int32) DatumGetInt16(value)) == version->number;
		case INT4OID:
			return DatumGetInt32(value) == version->number || DatumGetInt32(value) == -version->number;
		case INT8OID:
			return DatumGetInt64(value) == version->number || DatumGetInt64(value) == -(int64) version->number;
		case TEXTOID:
		case VARCHAROID:
			said = DatumGetTextPP(value);
			hash = fresh_text_hash(VARDATA_ANY(said), VARSIZE_ANY_EXHDR(said));
			return hash == version->text_hash || hash == version->failed_hash;
		default:
			return false;
	}
}

/* ---- places ---- */

static Place *
find_place(int64 number)
{
	for (int i = 0; i < places->used; i++)
		if (places->places[i].number == number && places->places[i].database == MyDatabaseId)
			return &places->places[i];
	return NULL;
}

static Place *
make_place(int64 number)
{
	for (int i = 0; i < PLACES_MAX; i++)
	{
		Place	   *place = &places->places[i];

		if (OidIsValid(place->database))
			continue;
		memset(place, 0, sizeof(Place));
		pg_atomic_init_u32(&place->rows, 1);
		pg_atomic_init_u32(&place->all, 1);
		place->prepared = true;		/* before the server's start, if not since */
		place->number = number;
		place->database = MyDatabaseId;
		places->used = Max(places->used, i + 1);
		return place;
	}
	return NULL;
}

static bool
is_pending(Place *place)
{
	return pg_atomic_read_u32(&place->rows) != place->rows_served ||
		pg_atomic_read_u32(&place->all) != place->all_served;
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
	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
	if (place == NULL)
		place = make_place(number);
	if (place != NULL)
		tell(place, marks);
	LWLockRelease(places->lock);
	return place != NULL;
}

void
fresh_marks_peek(int64 number, FreshMarks *marks)
{
	Place	   *place;

	memset(marks, 0, sizeof(*marks));
	if (places == NULL)
		return;
	LWLockAcquire(places->lock, LW_SHARED);
	place = find_place(number);
	if (place != NULL)
		tell(place, marks);
	LWLockRelease(places->lock);
}

void
fresh_marks_version(int64 number, const FreshVersion *version, FreshMarks *marks)
{
	Place	   *place;

	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
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
	LWLockRelease(places->lock);
}

void
fresh_marks_all(int64 number)
{
	Place	   *place;

	LWLockAcquire(places->lock, LW_SHARED);
	place = find_place(number);
	if (place != NULL)
		pg_atomic_fetch_add_u32(&place->all, 1);
	LWLockRelease(places->lock);
}

/* none: there is no prepared transaction that has changed jobs, or marked columns. */
void
fresh_marks_prepared(int64 number, bool none, FreshMarks *marks)
{
	TimestampTz now = GetCurrentTimestamp();
	Place	   *place;

	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
	if (place != NULL && place->prepared &&
		(none || TimestampDifferenceExceeds(place->prepared_marked, now, PREPARED_INTERVAL)))
	{
		pg_atomic_fetch_add_u32(&place->rows, 1);
		pg_atomic_fetch_add_u32(&place->all, 1);
		marks->all_count++;
		place->prepared = !none;
		place->prepared_marked = now;
	}
	LWLockRelease(places->lock);
}

/* all_count: of marks, from before the job's version was looked up. */
void
fresh_marks_submitted(int64 number, int64 job, bool all, uint32 all_count)
{
	Place	   *place;

	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
	if (place != NULL)
	{
		place->job = job;
		place->job_all = all;
		place->all_taken = all_count;
		place->job_began = false;
		place->held = false;
	}
	LWLockRelease(places->lock);
}

/* What its job did not see is left marked. */
void
fresh_marks_ended(int64 number, int64 job, JobState state)
{
	Place	   *place;

	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
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
	LWLockRelease(places->lock);
}

void
fresh_marks_forget(int64 number)
{
	Place	   *place;

	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
	if (place != NULL)
		place->database = InvalidOid;
	LWLockRelease(places->lock);
}

void
fresh_marks_retain(List *fresh)
{
	Oid			gone[16];
	int			gone_count = 0;
	Oid			asked = InvalidOid;

	/* databases are looked up without the lock */
	for (int i = 0; i < places->used && gone_count < lengthof(gone); i++)
	{
		Oid			database = places->places[i].database;

		if (!OidIsValid(database) || database == MyDatabaseId || database == asked)
			continue;
		asked = database;
		if (!SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(database)))
			gone[gone_count++] = database;
	}
	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	for (int i = 0; i < places->used; i++)
	{
		Place	   *place = &places->places[i];
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
	LWLockRelease(places->lock);
}

/* ---- in a runner ---- */

/* When it begins for the first time, before it reads anything. */
void
job_fresh_begin(int64 number, int64 job)
{
	Place	   *place;

	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	place = find_place(number);
	if (place != NULL && place->job == job)
	{
		place->rows_taken = pg_atomic_read_u32(&place->rows);
		place->job_began = true;
	}
	LWLockRelease(places->lock);
}

/* ---- in a transaction ---- */

/* NULL: no column has that number, and there are many notes of such (of whoever calls infer.fresh_note himself). */
static Note *
note_of(int64 number)
{
	static int	last = 0;
	Note	   *note;
	Place	   *place;
	FreshVersion version = {0};
	bool		known;

	if (last < notes_count && notes[last].number == number)
		return &notes[last];
	for (last = 0; last < notes_count; last++)
		if (notes[last].number == number)
			return &notes[last];
	LWLockAcquire(places->lock, LW_SHARED);
	place = find_place(number);
	known = place != NULL;
	if (known)
		version = place->version;
	LWLockRelease(places->lock);
	if (!known && notes_count >= PLACES_MAX)
		return NULL;
	if (notes_count == notes_room)
	{
		int			room = Max(8, notes_room * 2);

		notes = notes == NULL ? MemoryContextAlloc(TopMemoryContext, sizeof(Note) * room) :
			repalloc(notes, sizeof(Note) * room);
		notes_room = room;
	}
	note = &notes[notes_count];
	memset(note, 0, sizeof(Note));
	note->number = number;
	note->version = version;
	last = notes_count++;
	return note;
}

void
fresh_mark(int64 number, bool all)
{
	Note	   *note;

	if (places == NULL)
		return;					/* without preload nothing is kept; at the next start everything is looked at */
	note = note_of(number);
	if (note == NULL)
		return;
	if (all)
		note->all = true;
	else
		note->rows = true;
}

/* A row that was written, with this in its version column. */
void
fresh_note(int64 number, Datum version, bool isnull, Oid type)
{
	Note	   *note;

	if (places == NULL)
		return;
	note = note_of(number);
	if (note == NULL)
		return;
	if (isnull)
		note->rows = true;
	else if (!note->all)
	{
		if (says(&note->version, version, type))
			note->believed = true;
		else
			note->all = true;
	}
}

/* Whether the scanner has to look: it does not know of marks yet, or waits for another one. */
static bool
commit_note(const Note *note, Place *place)
{
	bool		all = note->all || (note->believed && note->version.text_hash != place->version.text_hash);
	bool		known = is_pending(place) && !place->held;

	if (note->rows)
		pg_atomic_fetch_add_u32(&place->rows, 1);
	if (all)
		pg_atomic_fetch_add_u32(&place->all, 1);
	return (note->rows || all) && !known;
}

/* A kept column that the scanner has not seen, say of a restored table: it makes the place, and marks it. */
static bool
is_to_be_seen(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (places->used == PLACES_MAX || (uint64) now - pg_atomic_read_u64(&places->unseen_told) < UNSEEN_INTERVAL)
		return false;
	pg_atomic_write_u64(&places->unseen_told, (uint64) now);
	return true;
}

static void
commit_notes(void)
{
	bool		news = false;

	LWLockAcquire(places->lock, LW_SHARED);
	for (int i = 0; i < notes_count; i++)
	{
		Place	   *place = find_place(notes[i].number);

		if (place != NULL)
			news |= commit_note(&notes[i], place);
		else
			news |= is_to_be_seen();
	}
	LWLockRelease(places->lock);
	if (news)
		job_flag_database(MyDatabaseId);
}

/* The lock is what the scanner asks whether there are any. */
static void
prepare_notes(void)
{
	(void) job_prepared_lock(RowExclusiveLock, true);
	LWLockAcquire(places->lock, LW_EXCLUSIVE);
	for (int i = 0; i < notes_count; i++)
	{
		Place	   *place = find_place(notes[i].number);

		if (place != NULL)
			place->prepared = true;
	}
	LWLockRelease(places->lock);
}

static void
at_end(XactEvent event, void *arg)
{
	if (notes_count == 0)
		return;
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			prepare_notes();	/* if it fails after all, it is only looked at for nothing */
			break;
		case XACT_EVENT_COMMIT:
			commit_notes();
			notes_count = 0;
			break;
		case XACT_EVENT_PREPARE:
			job_flag_prepared(MyDatabaseId);
			notes_count = 0;
			break;
		case XACT_EVENT_ABORT:
			notes_count = 0;
			break;
		default:
			break;
	}
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
	infer_shared_add("infer fresh", sizeof(Places), (void **) &places, init_places);
	RegisterXactCallback(at_end, NULL);
}
