/*
 * notes.c
 *	  In a transaction: kept columns that have stale rows when it has committed.
 *
 * Nouns
 *	note		a kept column in this transaction: marked, or rows of it believed to be settled
 *
 * Invariants
 *	- A row that says the version which was current at the transaction's first look is not stale; if another is
 *	  current by its commit, the column is marked.
 *	- A subtransaction that is rolled back leaves its notes: they only say more than there is.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "../launcher/launcher.h"
#include "places.h"

#define UNSEEN_INTERVAL	UINT64CONST(1000000)	/* usec */

typedef struct Note					/* in this transaction */
{
	int64		number;
	bool		rows;
	bool		all;
	bool		believed;			/* rows that say version are settled */
	FreshVersion version;
} Note;

static Note *notes = NULL;
static int	notes_count = 0;
static int	notes_room = 0;

/* ---- while it runs ---- */

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
	LWLockAcquire(fresh_places->lock, LW_SHARED);
	place = fresh_find_place(number);
	known = place != NULL;
	if (known)
		version = place->version;
	LWLockRelease(fresh_places->lock);
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

	if (fresh_places == NULL)
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

	if (fresh_places == NULL)
		return;
	note = note_of(number);
	if (note == NULL)
		return;
	if (isnull)
		note->rows = true;
	else if (!note->all)
	{
		if (fresh_version_says(&note->version, version, type))
			note->believed = true;
		else
			note->all = true;
	}
}

/* ---- at its end ---- */

static bool
is_pending(Place *place)
{
	return pg_atomic_read_u32(&place->rows) != place->rows_served ||
		pg_atomic_read_u32(&place->all) != place->all_served;
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

	if (fresh_places->used == PLACES_MAX || (uint64) now - pg_atomic_read_u64(&fresh_places->unseen_told) < UNSEEN_INTERVAL)
		return false;
	pg_atomic_write_u64(&fresh_places->unseen_told, (uint64) now);
	return true;
}

static void
commit_notes(void)
{
	bool		news = false;

	LWLockAcquire(fresh_places->lock, LW_SHARED);
	for (int i = 0; i < notes_count; i++)
	{
		Place	   *place = fresh_find_place(notes[i].number);

		if (place != NULL)
			news |= commit_note(&notes[i], place);
		else
			news |= is_to_be_seen();
	}
	LWLockRelease(fresh_places->lock);
	if (news)
		job_flag_database(MyDatabaseId);
}

/* The lock is what the scanner asks whether there are any. */
static void
prepare_notes(void)
{
	(void) job_prepared_lock(RowExclusiveLock, true);
	LWLockAcquire(fresh_places->lock, LW_EXCLUSIVE);
	for (int i = 0; i < notes_count; i++)
	{
		Place	   *place = fresh_find_place(notes[i].number);

		if (place != NULL)
			place->prepared = true;
	}
	LWLockRelease(fresh_places->lock);
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

void
fresh_notes_init(void)
{
	RegisterXactCallback(at_end, NULL);
}
