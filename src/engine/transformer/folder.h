/*
 * folder.h
 *	  Folders of models that read text, as Hugging Face and sentence-transformers write them.
 */
#ifndef ENGINE_TRANSFORMER_FOLDER_H
#define ENGINE_TRANSFORMER_FOLDER_H

#include <stdbool.h>

struct encoder;
struct model_files;
struct status;

/* Whether files are a folder with an encoder's weights: by names only. */
extern bool encoder_recognises(const struct model_files *files);

/*
 * options: the model's options as JSON text, "" for none.  NULL and a status: malformed
 * (INFER_ERROR_MODEL), or something in it is not implemented (INFER_ERROR_UNSUPPORTED, by name).
 * The files stay mapped until encoder_free.
 */
extern struct encoder *encoder_read(const struct model_files *files, const char *options, struct status *status);
extern void encoder_free(struct encoder *encoder);

#endif							/* ENGINE_TRANSFORMER_FOLDER_H */
