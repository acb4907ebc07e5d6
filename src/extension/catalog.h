/*
 * catalog.h
 *	  From a model's name to what the engine needs, under the statement's snapshot.
 *
 * Nouns
 *	model		a foreign server of the wrapper "infer"; its option "id" joins it to our tables
 *	version		a row of infer.model_version; one of a model's versions is active
 *	resolved	an InferModel: name → id, version, digest, signature, checked against the
 *				caller's privileges; lives in the memory context it was asked for in
 *
 * Rules
 *	- Resolve once per node or per FmgrInfo and snapshot, never per call; never by SPI.
 *	- Privileges are checked at each execution, not at planning.
 *	- The backend-wide cache behind infer_model_resolve is flushed by a relcache callback on
 *	  infer.model_version and by syscache callbacks on foreign servers, and bypassed under
 *	  IsolationUsesXactSnapshot().
 */
#ifndef INFER_CATALOG_H
#define INFER_CATALOG_H

#include "postgres.h"

#include "utils/uuid.h"

#include "../protocol/protocol.h"

typedef struct InferModel
{
	Oid			server;				/* the anchor */
	Oid			owner;
	char		name[NAMEDATALEN];
	int32		version;
	pg_uuid_t	id;
	uint8		digest[INFER_KEY_BYTES];	/* of the files */
	uint8		key[INFER_KEY_BYTES];		/* of files and the options that the engine sees */
	char	   *options;			/* JSON text for the engine */
	char	   *reference;			/* path, of a version stored by reference; else NULL */
	struct infer_signature signature;
	uint32		features_count;		/* names of a single wide input's elements: from the
									 * options, else from the signature; 0: not known */
	char	  **features;
	uint32		classes_count;		/* likewise labels */
	char	  **classes;
	uint64		generation;			/* changes whenever the backend-wide cache was flushed */

	/* the row of infer.model_version that this was read from; for infer_model_current */
	TransactionId row_xmin;			/* who wrote it */
	bool		row_settled;		/* every snapshot of this session sees it */
	bool		row_exact;			/* only snapshots equal to the next five are known to */
	TransactionId snapshot_xmin;
	TransactionId snapshot_xmax;
	uint32		snapshot_xcnt;
	int32		snapshot_subxcnt;
	CommandId	snapshot_curcid;
} InferModel;

/*
 * name or name@version.  Errors: 42704 (hint lists what to do), 42501.  Allocates in
 * context.
 */
extern InferModel *infer_model_resolve(const char *name, MemoryContext context);

/* Whether a resolved model may still be used by this call (cheap: counters only). */
extern bool infer_model_current(const InferModel *model);

/* Raises 42501 unless the current user may use the model. */
extern void infer_model_check_usage(const InferModel *model);

typedef struct InferGlance
{
	uint8		key[INFER_KEY_BYTES];
	uint64		bytes;				/* of its weights, about */
	uint64		alone_nsec;			/* predicted, as in the signature; 0: not */
	uint64		row_nsec;
} InferGlance;

/*
 * What the planner may know of a model: never raises, never asks the engine.  false: nothing,
 * because there is no such model, or the current user may not use it, or it is no time to look.
 */
extern bool infer_model_glance(const char *name, InferGlance *glance);

/* Changes whenever a glance may tell something else, but for what a snapshot sees. */
extern uint64 infer_catalog_generation(void);

/*
 * Write the version's files into the model cache, as the engine's NEED_FILES asked: one
 * temporary folder, fsync, rename.  Errors: disk full, cache_size, a chunk missing.
 */
extern void infer_model_materialise(const InferModel *model);

/*
 * Open the files of a version stored by reference: names, sizes and descriptors for LOAD;
 * returns how many.  The descriptors are the caller's to close.  Errors (then none is
 * open): 42501 where the model's owner lost pg_read_server_files, and those of files.
 */
extern int	infer_model_open_reference(const InferModel *model, char **names, uint64 *sizes, int *fds, int max);

/*
 * Every version of every model, or of those that the current user may use, by name and
 * version; made in the current memory context.
 */
extern InferModel **infer_model_list(bool all, int *count);

#endif							/* INFER_CATALOG_H */
