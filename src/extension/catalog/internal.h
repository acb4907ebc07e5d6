/*
 * internal.h
 *	  What the files of the catalogue share among themselves.
 *
 * Nouns
 *	anchor		a foreign server of the wrapper "infer": name, owner, privileges, comment, id
 *	version		a row of infer.model_version
 *	chunk		at most INFER_CHUNK_BYTES of a file, a row of infer.model_file
 *	source		where create_model takes a model's files from: a path, a bytea, an upload
 *
 * Files
 *	resolve.c		from a name to what the engine needs, under a snapshot; catalog.h's calls
 *	glance.c		from a name to what the planner may know
 *	models.c		the SQL functions that make and change models
 *	options.c		what create_model's options may say
 *	signature.c		struct infer_signature ⇄ jsonb
 *	anchors.c		foreign servers	  tables.c	our tables	  sweep.c	what is left over
 *	utility.c		keeps DDL from changing ids
 *	files/			a model's files: source.c, path.c and upload.c bring them, digest.c hashes them,
 *					cache.c and materialise.c have the server's cache of them
 *
 * Locks
 *	- Whoever makes models, or adds or removes files, first takes ShareRowExclusiveLock on
 *	  infer.model_file until the transaction's end: files are shared by digest, so whether
 *	  they are there, or needed any longer, can be decided by one transaction at a time only.
 *	- Whoever changes what a model is (create, drop, activate) then locks its anchor
 *	  (infer_anchor_lock), until the transaction's end: version numbers and the one active
 *	  version depend on it.  DROP SERVER conflicts with that by itself.
 *	- Writers look at the latest rows, whatever the transaction's snapshot: with these
 *	  locks nobody else changes them.
 *	- Readers take no lock beyond AccessShareLock on the table.
 */
#ifndef INFER_CATALOG_INTERNAL_H
#define INFER_CATALOG_INTERNAL_H

#include "postgres.h"

#include "access/htup.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"
#include "utils/uuid.h"

#include "../catalog.h"

#define INFER_SCHEMA			"infer"
#define INFER_WRAPPER			"infer"
#define INFER_ID_OPTION			"id"
#define INFER_CHUNK_BYTES		(1024 * 1024)
#define INFER_FILES_MAX			1024	/* files of one model */
#define INFER_ROW_NSEC_MAX		UINT64CONST(3600000000000)	/* of a predicted row: an hour */
#define INFER_DEPTH_MAX			8		/* folders within folders of one model */

/* ---- tables.c ---- */

typedef enum InferTable
{
	INFER_TABLE_COUNTER,
	INFER_TABLE_VERSION,
	INFER_TABLE_FILE,
	INFER_TABLE_UPLOAD,
	INFER_TABLE_UPLOAD_PART
} InferTable;

enum							/* columns of infer.model_counter */
{
	Anum_counter_model_id = 1,
	Anum_counter_last_version,
	Natts_counter = Anum_counter_last_version
};

enum							/* columns of infer.model_version */
{
	Anum_version_model_id = 1,
	Anum_version_version,
	Anum_version_active,
	Anum_version_kind,
	Anum_version_format,
	Anum_version_digest,
	Anum_version_bytes,
	Anum_version_signature,
	Anum_version_options,
	Anum_version_reference,
	Anum_version_created,
	Natts_version = Anum_version_created
};

enum							/* columns of infer.model_file */
{
	Anum_file_digest = 1,
	Anum_file_name,
	Anum_file_chunk,
	Anum_file_data,
	Natts_file = Anum_file_data
};

enum							/* columns of infer.model_upload */
{
	Anum_upload_id = 1,
	Anum_upload_owner,
	Anum_upload_created,
	Natts_upload = Anum_upload_created
};

enum							/* columns of infer.model_upload_part */
{
	Anum_part_id = 1,
	Anum_part_file,
	Anum_part_part,
	Anum_part_chunk,
	Anum_part_data,
	Natts_part = Anum_part_data
};

typedef struct InferAnchor
{
	Oid			server;
	Oid			owner;
	char		name[NAMEDATALEN];
	pg_uuid_t	id;
} InferAnchor;

/* Of a table, index or sequence of schema infer. */
extern Oid	infer_relation_oid(const char *name);

extern Oid	infer_table_oid(InferTable table);
extern Oid	infer_table_key_oid(InferTable table);	/* of the primary key's index */

/* ---- resolve.c ---- */

/* The name's length and the version, 0: the active one, of name@version; false: malformed. */
extern bool infer_name_split(const char *text, Size *length, int32 *version);

/* As the cache has it for the active snapshot, or NULL; stays until invalidations are taken in. */
extern const InferModel *infer_model_cached(const char *name);

/* ---- anchors.c ---- */

/* The wrapper's oid; InvalidOid where the extension is not in this database. */
extern Oid	infer_wrapper_oid(void);

/* false: there is no server of that name, or (other_wrapper says which) not one of ours. */
extern bool infer_anchor_find(const char *name, InferAnchor *anchor, bool *other_wrapper);

/* Raises 42704 if there is no model of that name. */
extern void infer_anchor_get(const char *name, InferAnchor *anchor);

/* Raises 42501 unless the current user owns the model. */
extern void infer_anchor_check_owner(const InferAnchor *anchor);

/* Keeps others from changing or dropping the model; raises 42704 if it is gone by now. */
extern void infer_anchor_lock(const InferAnchor *anchor);

/* All models' anchors, as a palloc'd array. */
extern InferAnchor *infer_anchor_list(int *count);

/* uuid in the option "id" of a server's options; false if there is none, or a malformed one */
extern bool infer_anchor_id(List *options, pg_uuid_t *id);

extern bool infer_uuid_parse(const char *text, pg_uuid_t *id);	/* the usual form, lower case */
extern char *infer_uuid_text(const pg_uuid_t *id);
extern pg_uuid_t infer_uuid_make(void);		/* random */

/* ---- tables.c ---- */

extern bytea *infer_make_bytea(const void *data, Size length);

/* Latest rows; release with UnregisterSnapshot. */
extern Snapshot infer_latest_snapshot(void);

/*
 * The next version number of a model, counted up.  The caller holds the anchor's lock.
 */
extern int32 infer_counter_next(const pg_uuid_t *id);

/* Makes version the active one; false if there is no such version.  Anchor locked. */
extern bool infer_version_activate(const pg_uuid_t *id, int32 version);

/* What is there of a version: -1 no such version, 0 not active, 1 active. */
extern int	infer_version_state(const pg_uuid_t *id, int32 version);

/* 0: none is. */
extern int32 infer_version_active(const pg_uuid_t *id);

/* Makes what changed in the table visible to what follows here, and flushes every session's cache. */
extern void infer_versions_changed(Relation table);

extern void infer_version_insert(Datum *values, bool *nulls);
extern bool infer_version_any(const pg_uuid_t *id);
extern void infer_version_delete(const pg_uuid_t *id, int32 version);

/* ---- sweep.c ---- */

/*
 * Deletes rows whose anchor is gone, files that no version needs, and old uploads.
 * files: infer.model_file, locked as above.
 */
extern void infer_sweep(Relation files);

/* ---- signature.c ---- */

extern Jsonb *infer_signature_to_jsonb(const struct infer_signature *signature);
extern void infer_signature_from_jsonb(Jsonb *jsonb, struct infer_signature *signature);	/* current context */
extern void infer_signature_copy(const struct infer_signature *from, struct infer_signature *to);	/* likewise */

extern char **infer_copy_texts(char **texts, uint32 count);

/* An array of strings under a key of an object; count 0 and NULL if there is none. */
extern char **infer_jsonb_strings(Jsonb *jsonb, const char *key, uint32 *count);

/* A time in an object; 0 if there is none, or none that can be.  Raises nothing. */
extern uint64 infer_jsonb_nsec(Jsonb *jsonb, const char *key);

/* ---- options.c ---- */

typedef struct InferOptions
{
	Jsonb	   *jsonb;				/* as given, checked, and what infer_options_settle added */
	bool		by_reference;
	char	   *file;				/* the name that bytea data gets */
	char	   *engine;				/* what the engine sees of it, "" if nothing */
} InferOptions;

/* Raises 22023 for what is not known or malformed, by name. */
extern void infer_options_parse(Jsonb *jsonb, InferOptions *options);

/*
 * What the engine chose where the options leave a choice becomes an option: the precision, which
 * is chosen by a measurement and would make other numbers of the same version on another
 * machine or another day.
 */
extern void infer_options_settle(InferOptions *options, const struct infer_signature *signature);

/* features and classes against what the model has; raises 22023 with both counts */
extern void infer_options_check(const InferOptions *options, const struct infer_signature *signature);

/* The name that a bytea's file gets. */
extern const char *infer_options_file(const InferOptions *options);

/* What the engine sees of a version's options: "" if nothing; palloc'd. */
extern char *infer_options_engine(Jsonb *jsonb);

extern void infer_key_make(const uint8 *digest, const char *engine_options, uint8 *key);

/* ---- files/source.c ---- */

typedef struct InferSourceFile
{
	char	   *name;				/* relative to the model's folder, UTF-8 */
	uint64		size;				/* bytes; of a path as it was found, then set by infer_source_digest */
	uint8		sha256[32];			/* likewise */
} InferSourceFile;

typedef struct InferSource InferSource;

struct InferSource
{
	const struct InferSourceOps *ops;
	int			files_count;
	InferSourceFile *files;			/* sorted by name, bytewise */
	uint64		bytes;
	uint8		digest[INFER_KEY_BYTES];
};

typedef struct InferSourceOps
{
	void		(*open) (InferSource *source, int file);
	/* The next bytes of the open file, at most INFER_CHUNK_BYTES; false at its end. */
	bool		(*next) (InferSource *source, const uint8 **data, Size *length);
	void		(*close) (InferSource *source);
} InferSourceOps;

extern InferSource *infer_source_data(bytea *data, const char *name);

/* For those who make a source: its files, in any order, then sorted. */
extern void infer_source_add(InferSource *source, const char *name);
extern void infer_source_sort(InferSource *source);
extern void infer_source_combine(InferSource *source);	/* sets digest from the sorted files */

/* Reads everything once: sizes, hashes, digest.  limit: bytes, or 0; raises 53400 beyond it. */
extern void infer_source_digest(InferSource *source, uint64 limit);

/* Whether rows of infer.model_file have these files already. */
extern bool infer_files_stored(Relation files, const uint8 *digest);

/* Reads everything again, into rows of infer.model_file; raises if it has changed. */
extern void infer_source_store(InferSource *source, Relation files);

/* Raises 22023 unless the name, in UTF-8, is a harmless relative one. */
extern void infer_file_name_check(const char *name);

/* Names between UTF-8 and the database's encoding; the argument itself if there is no difference */
extern char *infer_file_name_to_table(const char *name);
extern char *infer_file_name_from_table(char *name);

/* ---- files/path.c ---- */

/* An absolute path of a file or folder; raises what is wrong with it. */
extern InferSource *infer_source_path(const char *path);

/* Plain descriptors of a path's files, all or none: for versions by reference. */
extern int	infer_source_open_all(InferSource *source, int *fds, uint64 *sizes, int max);

/* ---- files/digest.c ---- */

/* Running SHA-256; freed by infer_hash_final, or by the transaction's abort */
typedef struct InferHash InferHash;
extern InferHash *infer_hash_begin(void);
extern void infer_hash_update(InferHash *hash, const void *data, Size length);
extern void infer_hash_final(InferHash *hash, uint8 *digest);

/* Adds one file to a digest in the protocol's layout. */
extern void infer_digest_add(InferHash *hash, const char *name, uint64 size, const uint8 *sha256);

/* ---- files/upload.c ---- */

/* The files of an upload of the current user; raises 42704 if there is none, 22023 for holes. */
extern InferSource *infer_source_upload(const char *upload);
extern void infer_upload_delete(const char *upload);

/* ---- models.c ---- */

/* Raises 42501 unless the current user has USAGE on the wrapper. */
extern void infer_check_may_create(void);

/* ---- utility.c ---- */

extern void infer_utility_init(void);

/* Raises 42602 unless a model may have that name. */
extern const char *infer_model_name_shown(const char *name);
extern void infer_model_name_check(const char *name);

#endif							/* INFER_CATALOG_INTERNAL_H */
