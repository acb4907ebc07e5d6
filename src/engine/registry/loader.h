/*
 * loader.h
 *	  The thread that opens, verifies and closes models, and what it says in the end.
 */
#ifndef ENGINE_REGISTRY_LOADER_H
#define ENGINE_REGISTRY_LOADER_H

#include "../engine.h"

/* Engine lock held.  The job is the loader's. */
extern void loader_push(struct engine *engine, struct load_job *job);

extern void loader_job_free(struct load_job *job);

/* NULL: the frame is malformed, or out of memory.  The descriptors are filled in by the caller. */
extern struct load_job *load_parse(const uint8_t *payload, uint32_t length);

/* Answers of load.c, with the engine's lock held; each frees the askers it is given. */
extern void load_answer_error(struct asker *asker, const struct status *status);
extern void load_answer_need_files(struct asker *asker);
extern void load_answer_loaded(struct asker *askers, const struct infer_signature *signature);
extern void load_answer_unloaded(struct asker *askers);

/* The next that waits becomes the writer; if none does, waiting requests must ask to load. */
extern void load_next_writer(struct engine *engine, struct entry *entry);

#endif							/* ENGINE_REGISTRY_LOADER_H */
