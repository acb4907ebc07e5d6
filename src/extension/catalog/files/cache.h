/*
 * cache.h
 *	  The folders of the model cache; materialise.c writes them.
 *
 * Whoever changes the cache holds the lock.  Errors are raised.
 */
#ifndef INFER_CATALOG_CACHE_H
#define INFER_CATALOG_CACHE_H

#include "../internal.h"

#define CACHE_NAME_LENGTH	(2 * INFER_KEY_BYTES)

/* Raises errno's error. */
extern void cache_failed(const char *doing, const char *path);

/* Waits for the lock as long as it takes, or until the statement is cancelled; closing it unlocks. */
extern int	cache_lock(void);

/*
 * Removes what was unused longest until so many bytes have room under infer.cache_size
 * (0: no limit), and as many again for the packed form that the engine will make of them; it
 * removes packed forms only.  keep is the folder that will be replaced.
 */
extern void cache_make_room(uint64 bytes, const char *keep);

/* The name of a digest's folder: CACHE_NAME_LENGTH + 1 bytes. */
extern void cache_name(const uint8 *digest, char *hex);

extern void cache_make_folder(const char *path);

/* All folders below this one, and itself; its files have been flushed. */
extern void cache_fsync(const char *path);

/* Gives the written folder its digest's name, in place of a damaged one. */
extern void cache_put_in_place(const char *folder, const char *hex);

#endif							/* INFER_CATALOG_CACHE_H */
