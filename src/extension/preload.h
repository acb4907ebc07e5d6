/*
 * preload.h
 *	  Models that are loaded as soon as the engine is ready: infer.preload.
 */
#ifndef INFER_PRELOAD_H
#define INFER_PRELOAD_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "utils/guc.h"

/* The check hook of infer.preload: refuses a list that is malformed, with the entry's number. */
extern bool infer_preload_check(char **newval, void **extra, GucSource source);

/* ---- in the supervisor ---- */

/* An engine has become ready: load everything (again). */
extern void infer_preload_begin(void);

/*
 * Start the next worker, look after the one that runs; never blocks.  now is a time of the
 * supervisor's clock.  Returns the ms after which it wants to be called again, -1 for none.
 */
extern long infer_preload_round(TimestampTz now);

#endif							/* INFER_PRELOAD_H */
