/*
 * packed_store.h
 *	  The folder of packed files, beside the model files in the server's cache: found,
 *	  written, kept within infer.cache_size.
 *
 * Nouns
 *	folder		"packed" in the model cache; only the engine writes into it.  Whoever removes it, or all
 *				of the cache, removes packed models: with the next one that is written it is there again
 *	name		the model's key in hex, and a sum over the device's numerics
 *	writing		the one file that is being written; whatever has that name at the start is rubbish
 *
 * All of it on the loader's thread, without engine.lock.
 */
#ifndef ENGINE_REGISTRY_PACKED_STORE_H
#define ENGINE_REGISTRY_PACKED_STORE_H

#include "../engine.h"

#define PACKED_FOLDER	"packed"	/* in the cache; src/extension/catalog knows it, too */

enum packed_result
{
	PACKED_WRITTEN,
	PACKED_INTERRUPTED,				/* nothing is left of it; to be tried again */
	PACKED_BUSY,					/* somebody else writes into the cache; to be tried again later */
	PACKED_REFUSED					/* no room, no right, no disk: said in the log */
};

/* At the start, before the sandbox: makes the folder and removes what was being written. */
extern void packed_store_prepare(const char *cache);

/* The file of a model, mapped and found good; NULL: there is none. */
extern struct packed *packed_store_read(struct engine *engine, const uint8_t key[INFER_KEY_BYTES]);

/* It was not the model's after all. */
extern void packed_store_remove(struct engine *engine, const uint8_t key[INFER_KEY_BYTES]);

/*
 * Writes one under another name, fsyncs and renames it.  Removes packed files, but no model
 * files, to make room: those that were used longest ago.  stop is asked now and then, and
 * may be NULL.
 */
extern enum packed_result packed_store_write(struct engine *engine, const uint8_t key[INFER_KEY_BYTES],
											 const struct model_files *files, const struct packed_form *form,
											 bool (*stop) (struct engine *engine));

#endif							/* ENGINE_REGISTRY_PACKED_STORE_H */
