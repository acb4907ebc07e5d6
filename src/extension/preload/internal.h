/*
 * internal.h
 *	  What the files of infer.preload share; nobody else includes it.
 *
 * Nouns
 *	entry		database.model or database.model@version in the list (list.c)
 *	pass		what follows each start of an engine: every database of the list, once
 *	worker		a dynamic background worker for one database; the supervisor runs one at a time,
 *				so that the list takes one of max_worker_processes, however long it is
 *	retry		a worker's word, left in shared memory, that it had to leave early and why it
 *				is no fault of the list: the database's lock, a standby's conflict
 *
 * Loop
 *	Supervisor (pass.c): when an engine is ready, want every database; start a worker for the first
 *	that is wanted and due; when it has ended, take the next.
 *	Worker (worker.c): connect; for each model of its database resolve the name in a short
 *	transaction, have the engine load it outside of any, and say so if that fails.
 */
#ifndef INFER_PRELOAD_INTERNAL_H
#define INFER_PRELOAD_INTERNAL_H

#include "../infer.h"
#include "../preload.h"

#define WORKER_TYPE		"infer preload"

/* ---- list.c ---- */

#define MODEL_MAX (NAMEDATALEN + 12)	/* name@version */

typedef struct Entry
{
	char		database[NAMEDATALEN];
	char		model[MODEL_MAX];
} Entry;

enum EntryEnd { ENTRY_FOUND, ENTRY_NONE, ENTRY_BAD };

/* The entry at *p, behind which *p then stands.  first: nothing need separate it.  *problem: what is wrong with a bad one. */
extern enum EntryEnd preload_next_entry(const char **p, bool first, Entry *entry, const char **problem);

#endif							/* INFER_PRELOAD_INTERNAL_H */
