/*
 * files.h
 *	  A model's folder as names and read-only mappings: from the cache, from a path on the
 *	  command line, or from descriptors that a client sent.
 *
 * Only regular files below the folder are seen; links are not followed.  Names are bounded
 * by INFER_NAME_MAX, their number by FILES_MAX, folders by FILES_DEPTH.
 */
#ifndef ENGINE_MODEL_FILES_H
#define ENGINE_MODEL_FILES_H

#include "model.h"

#define FILES_MAX	1024
#define FILES_DEPTH	8

enum files_result
{
	FILES_OK,
	FILES_MISSING,					/* no such folder, nothing in it, or something that is no file */
	FILES_FAILED					/* the status says why */
};

/* The files below a folder, which is no link itself. */
extern enum files_result files_open_folder(const char *path, struct model_files *files, struct status *status);

/* A single file, or a folder. */
extern enum files_result files_open_path(const char *path, struct model_files *files,
										 struct status *status);

/* Descriptors that somebody else opened; they stay the caller's.  sizes must be right. */
extern enum files_result files_open_descriptors(uint32_t count, const char *const *names,
												const uint64_t *sizes, const int *fds,
												struct model_files *files, struct status *status);

/* As protocol.h defines it.  Reads every byte: not for the event loop. */
extern void files_digest(const struct model_files *files, uint8_t digest[INFER_KEY_BYTES]);

/*
 * What was read once, for the digest or to be packed, need not stay resident beside what was
 * made of it; a page that is read again comes from the page cache.
 */
extern void files_rest(const struct model_files *files);

extern void files_close(struct model_files *files);

#endif							/* ENGINE_MODEL_FILES_H */
