/*
 * loader.h
 *	  The thread that opens, verifies and closes models, and what it says in the end.
 */
#ifndef ENGINE_REGISTRY_LOADER_H
#define ENGINE_REGISTRY_LOADER_H

#include "../engine.h"

/* Engine lock held.  The job is the loader's. */
extern void loader_push(struct engine *engine, struct load_job *job);

/*
 * Out of memory: lets the least recently used model go, an idle one if there is any; of one in
 * use the calls in flight are awaited, and its next caller loads it again.  false: there is none, or none that
 * its callers let go.  By the loader's thread, without the lock.
 */
extern bool loader_make_room(struct engine *engine, const struct entry *keep);

/* ---- load_parse.c ---- */

/* NULL: the frame is malformed, or out of memory.  The descriptors are filled in by the caller. */
extern struct load_job *load_parse(const uint8_t *payload, uint32_t length);
extern void load_job_close(struct load_job *job);	/* its descriptors */
extern void load_job_free(struct load_job *job);

/* ---- load_open.c ---- */

struct loaded						/* what a job has come to */
{
	enum files_result result;		/* FILES_OK: model is set, or status */
	struct model *model;
	struct model_files files;
	struct close_job *closing;
	uint64_t	nsec;				/* that it took */
	struct status status;
};

/* The model that a job asks for; by the loader's thread, without the lock. */
extern void load_open(struct engine *engine, const struct load_job *job, struct loaded *loaded);

/* ---- load_finish.c ---- */

/* Lock held, but for the closing of a model that was only checked: whoever waits for the model hears of it. */
extern void load_finish(struct engine *engine, struct load_job *job, struct loaded *loaded);

/* ---- load.c ---- */

/* Answers of load.c, with the engine's lock held; each frees the askers it is given. */
extern void load_answer_error(struct asker *asker, const struct status *status);
extern void load_answer_need_files(struct asker *asker);
extern void load_answer_loaded(struct asker *askers, const struct infer_signature *signature);
extern void load_answer_unloaded(struct asker *askers);

/* The next that waits becomes the writer; if none does, waiting requests must ask to load. */
extern void load_next_writer(struct engine *engine, struct entry *entry);

#endif							/* ENGINE_REGISTRY_LOADER_H */
