/*
 * folder.h
 *	  Folders of models that read text, as Hugging Face and sentence-transformers write them.
 */
#ifndef ENGINE_TRANSFORMER_FOLDER_H
#define ENGINE_TRANSFORMER_FOLDER_H

#include <stdbool.h>

struct device;
struct encoder;
struct graph_memory;
struct model_files;
struct status;

/* Whether files are a folder with an encoder's weights: by names only. */
extern bool encoder_recognises(const struct model_files *files);

/*
 * The files as encoder_read and tokenizer_open want them.  The first versions of
 * sentence-transformers put the transformer into a folder of its own, which modules.json names
 * (0_Transformer, 0_BERT); its files are then seen beside the others too.  Elsewhere they are files
 * themselves.  What is made lies in memory, whose status says why it is NULL.
 */
extern const struct model_files *encoder_files(const struct model_files *files, struct graph_memory *memory);

/*
 * options: the model's options as JSON text, "" for none.  NULL and a status: malformed
 * (INFER_ERROR_MODEL), or something in it is not implemented (INFER_ERROR_UNSUPPORTED, by name).
 * The files stay mapped until encoder_free.  device: where an ONNX file that is no encoder that is known is
 * to be run as it is; NULL: such a file is refused.
 */
extern struct encoder *encoder_read(const struct model_files *files, const char *options, struct device *device,
									struct status *status);
extern void encoder_free(struct encoder *encoder);

#endif							/* ENGINE_TRANSFORMER_FOLDER_H */
