/*
 * emit.h
 *	  What the files that make an encoder's program share: an emitter adds tensors and ops.
 *
 * A function that emits returns the tensor it made.  After a failure (status->error is set) it
 * returns a tensor that exists, so that callers go on and check once.
 */
#ifndef ENGINE_TRANSFORMER_EMIT_H
#define ENGINE_TRANSFORMER_EMIT_H

#include "../status.h"
#include "encoder.h"
#include "program.h"

#define EMIT_PARTS_MAX	3			/* matrices side by side in one weight */

struct emit_source					/* of a weight: see weights.c */
{
	uint64_t	recipe;
	uint32_t	ranges_count;
	struct packed_range ranges[EMIT_PARTS_MAX];
};

struct emitter
{
	struct encoder_program *program;
	const struct encoder *encoder;
	const struct model_files *files;
	struct device *device;
	struct graph_memory *memory;
	struct status *status;
	const char *label;				/* of the ops to come */

	uint32_t	tensors_count;
	uint32_t	tensors_space;
	uint32_t	ops_space;
	uint32_t	labels_space;
	uint32_t	weights_space;
	uint32_t	sources_space;
	struct emit_source *sources;	/* of each weight */
	uint32_t	read_count;			/* what of the files anybody but the packing reads */
	uint32_t	read_space;
	struct packed_range *read;
};

static inline bool
emit_failed(const struct emitter *e)
{
	return e->status->error != 0;
}

/* "layer 3 attention" for the ops to come. */
extern void emit_label(struct emitter *e, const char *format,...) __attribute__((format(printf, 2, 3)));

/* ---- emit.c ---- */

extern int32_t emit_tensor(struct emitter *e, uint8_t type, uint8_t lead, int rank, const int64_t *dims);
extern int32_t emit_vector(struct emitter *e, uint8_t type, uint8_t lead, int64_t size);
extern int32_t emit_constant(struct emitter *e, uint8_t type, int rank, const int64_t *dims, const void *data);

/* Adds an op with two of its numbers; NULL after a failure. */
extern struct device_op *emit_op(struct emitter *e, uint16_t opcode, uint16_t fn, uint32_t inputs_count,
								 const int32_t *inputs, int32_t output);

/* y = fn(x + r) · g + b; norm->weight absent: x + r, or x itself.  r may be -1. */
extern int32_t emit_norm(struct emitter *e, const struct encoder_norm *norm, double epsilon, bool rms,
						 int32_t x, int32_t r);
extern int32_t emit_add(struct emitter *e, int32_t a, int32_t b);
extern void emit_activation(enum encoder_activation activation, uint16_t *fn, double *f0);

/* ---- tensors.c ---- */

/* A tensor of the file as F32 numbers, row-major in its dims, aligned; NULL after a failure. */
extern const float *emit_floats(struct emitter *e, const struct encoder_tensor *tensor);

/* Likewise as a constant; an absent one is -1. */
extern int32_t emit_numbers(struct emitter *e, const struct encoder_tensor *tensor);

/* As a constant where it lies in the file, in the file's type, if it is aligned; else converted. */
extern int32_t emit_table(struct emitter *e, const struct encoder_tensor *tensor);

extern uint64_t emit_tensor_bytes(const struct encoder_tensor *tensor);	/* in the file */

/* That nobody but the packing may leave these bytes unread. */
extern void emit_read(struct emitter *e, const struct encoder_tensor *tensor);

/* count elements from the first on of a tensor's file order, as F32. */
extern void emit_convert(const struct encoder_tensor *tensor, int64_t first, int64_t count, float *to);

/* ---- weights.c ---- */

/*
 * y = fn(x · [parts side by side]ᵀ + their biases): one product of that precision (enum
 * device_precision), of which x is made first what it takes.  rounded: only a product of the same precision reads y.
 */
extern int32_t emit_linear(struct emitter *e, int32_t x, const struct encoder_linear *const *parts, uint32_t count,
						   enum encoder_activation activation, uint8_t precision, bool rounded);

extern bool emit_packed_form(struct emitter *e);

/* ---- layers.c, head.c, place.c ---- */

extern int32_t emit_embeddings(struct emitter *e);
extern int32_t emit_layers(struct emitter *e, int32_t x);	/* of each token, or of the one that pooling takes */
extern int32_t emit_pool(struct emitter *e, int32_t x);
extern int32_t emit_head(struct emitter *e, int32_t x);
extern bool emit_places(struct emitter *e, uint64_t arena_item_bytes[DEVICE_LEADS]);

#endif							/* ENGINE_TRANSFORMER_EMIT_H */
