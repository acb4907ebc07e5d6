/*
 * memo.h
 *	  Results that a site remembers, so that equal inputs are computed once.
 *
 * Nouns
 *	key			128 bits of a keyed hash (SipHash-1-3) over what was asked, of whom, and the row's
 *				bytes as they were written: equal keys are taken for equal inputs, which is wrong
 *				once in 10^26 statements of a million rows
 *	entry		a key with its result, or with the ticket that computes it (pending)
 *	probed		a row whose key was looked up
 *
 * Bounds
 *	A quarter of work_mem, or half of it where a row is known to be worth MEMO_DEAR probes; the entry
 *	longest unused goes first.  A row by value takes 50 bytes.  While rows are sampled, the memo grows to the
 *	sample's part of that: a statement or job without equal rows soon has all the memory that it ever has.
 *
 * When it pays
 *	Probing costs about MEMO_PROBE_NSEC; an equal row saves the device's time (taken for
 *	MEMO_UNKNOWN_NSEC until it is known) and MEMO_VALUE_NSEC or MEMO_DATUM_NSEC around it.  If that
 *	does not add up over MEMO_WINDOW probes, only one row of MEMO_SAMPLE is probed from then on,
 *	chosen by its contents, so that equal rows are still seen; if it does over MEMO_WINDOW_SAMPLED of
 *	these, all are again.  A table without equal rows pays some 5 ns a row.  Where a row is worth
 *	MEMO_DEAR probes all are probed whatever comes of it: that costs a fiftieth of them at most, and
 *	equal rows that lie far apart are found.
 */
#ifndef INFER_VERBS_MEMO_H
#define INFER_VERBS_MEMO_H

#include "postgres.h"

#define MEMO_PROBE_NSEC		100
#define MEMO_VALUE_NSEC		200		/* a result by value */
#define MEMO_DATUM_NSEC		600		/* by reference: it need not be made again */
#define MEMO_UNKNOWN_NSEC	20000
#define MEMO_WINDOW			512
#define MEMO_WINDOW_SAMPLED	64
#define MEMO_SAMPLE			16
#define MEMO_DEAR			50
#define MEMO_NONE			(-1)

typedef struct Memo Memo;

typedef struct MemoKey
{
	uint64		word[2];
} MemoKey;

/* by_value: of the results; others are varlenas.  Everything lies in the context itself. */
extern Memo *memo_make(MemoryContext context, bool by_value);

/* What a device takes for a row, as far as it is known. */
extern void memo_learn(Memo *memo, uint64 row_nsec);

/* false: this row is not probed. */
extern bool memo_key(Memo *memo, uint32 asked, int detail, const void *bytes, Size length, MemoKey *key);

/* The number of the entry, or MEMO_NONE. */
extern int	memo_find(Memo *memo, const MemoKey *key);

/* A pending entry; MEMO_NONE if there is no room. */
extern int	memo_add(Memo *memo, const MemoKey *key, uint64 rows, int ticket);

/*
 * The ticket that these rows have for the entry, MEMO_NONE if none.  false: it is computed for others,
 * whose result is not there yet.
 */
extern bool memo_ticket(const Memo *memo, int entry, uint64 rows, int *ticket);

/* These rows have that ticket for an entry with a result, which stays until it is unpinned. */
extern void memo_pin(Memo *memo, int entry, uint64 rows, int ticket);
extern void memo_unpin(Memo *memo, int entry);

/* A pending entry has its result, which is copied, or will have none. */
extern void memo_set(Memo *memo, int entry, Datum value);
extern void memo_forget(Memo *memo, int entry);

/* Of an entry with a result; by reference it is the memo's own. */
extern Datum memo_value(const Memo *memo, int entry);

#endif							/* INFER_VERBS_MEMO_H */
