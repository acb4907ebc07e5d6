/*
 * model.h
 *	  What a model is to the rest of the engine: something that can be opened from files,
 *	  says what it takes and returns, and computes batches of rows.
 *
 * Nouns
 *	files		a model's folder as names and read-only mappings, from the cache or from
 *				descriptors; the reader of a format sees nothing else of the file system
 *	kind		one implementation (graph; later trees, encoder, decoder): struct model_ops
 *	slice		some consecutive rows of one request, in a batch
 *	request		a client's rows as the server validated them, and its reply
 *
 * Locking
 *	open and close run on the loader thread (or a test's); run runs on several threads at a
 *	time, each with a queue of its own, and is called again from within the yield that it was given; each run has buffers of its own
 *	(sets.h), and everything else of a model is immutable after open or has a lock.  The rows of a slice
 *	belong to the model from run's start to its end; other rows of the request may be in another run meanwhile.
 */
#ifndef ENGINE_MODEL_H
#define ENGINE_MODEL_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../protocol/protocol.h"

struct device;
struct device_queue;
struct device_text;
struct model_watch;
struct packed;
struct packed_form;
struct status;

struct model_file
{
	const char *name;				/* relative to the model's folder, '/' between parts */
	const uint8_t *data;			/* mapped read-only */
	uint64_t	size;
};

struct model_files
{
	uint32_t	count;
	struct model_file *files;		/* sorted by name, bytewise */
	struct packed *packed;			/* the weights' packed form, of this very model; or NULL */
};

/* NULL if there is none of that name. */
extern const struct model_file *model_files_find(const struct model_files *files, const char *name);

/*
 * A request's rows.  The columns were checked by infer_column_check and against the
 * signature; their contents were not, and a hostile client may change them at any time:
 * whoever copies spans or row ends out checks each one as it is copied.
 */
struct model_request
{
	uint32_t	rows;
	uint32_t	columns_count;		/* one per input */
	const struct infer_column *columns;	/* the engine's own copy */
	const uint8_t *region;			/* offsets of columns count from here */
	uint64_t	region_bytes;
	uint32_t	outputs_wanted;		/* bit i: output i; 0 means all that are not hidden */

	/* made by the kind's prepare, freed by its release */
	void	   *prepared;			/* the kind's own */
	uint32_t   *units;				/* of each row: tokens, or 0 for one that has failed or is answered
									 * already; NULL: 1 each */
	uint32_t   *costs;				/* of each row: nsec of the device by the kind's own prediction, if the
									 * row is one of many; NULL: all the same */
	uint64_t	prepared_bytes;		/* of memory that the three of them hold */
	struct model_watch *watch;		/* while it is prepared: see model_prepare_row; NULL: nobody asks */

	/* the reply, laid out by model_reply_layout */
	uint8_t    *reply;				/* start of the reply area, 64-byte aligned */
	uint64_t	reply_bytes;
	uint64_t	reply_used;			/* texts and strings are added behind this */
	uint32_t   *row_status;			/* in the reply: enum infer_error */
	uint32_t   *row_message;		/* in the reply: offset of an encoded error, or 0 */
	struct infer_column *outputs;	/* the engine's own copy; written out at the end */
	bool		shared;				/* several runs may have rows of it at once: reply_used to overflow_bytes are */
	uint32_t	locked;				/* written with model_reply_lock; atomic */
	bool		overflow;			/* strings or numbers of varying count did not fit: NEED_SPACE */
	uint64_t	overflow_bytes;		/* how many more bytes would have been needed so far */

	/* a request of one row may ask for the time of each operator: see model_profile_reserve */
	bool		profile;
	uint64_t	profile_offset;		/* from reply */
	uint32_t	profile_bytes;		/* 0: the kind cannot tell */
};

/*
 * How long a stretch of prepare may be without a word, and who is to blame if it kills the
 * process: prepare says each row that it looks at, in their order, before it does.
 */
struct model_watch
{
	/* false: nobody wants the rows any more, prepare is to fail with INFER_ERROR_CANCELLED. */
	bool		(*row) (struct model_watch *watch, uint32_t row);
};

static inline bool
model_prepare_row(struct model_request *request, uint32_t row)
{
	return request->watch == NULL || request->watch->row(request->watch, row);
}

struct model_slice
{
	struct model_request *request;
	uint32_t	first;
	uint32_t	count;
};

/*
 * How a run that may take long lets others go first: between two segments it calls between,
 * during which this or another model may run another batch.
 */
struct model_yield
{
	uint64_t	segment_nsec;		/* that the device predicts for a stretch without a call, if it can be cut so */
	uint64_t	segments_long;		/* counted: single segments that are predicted to be longer */

	/* false: nobody wants the results any more, the run is to fail with INFER_ERROR_CANCELLED. */
	bool		(*between) (struct model_yield *yield);
};

struct model_cost					/* of a batch; predictions only */
{
	uint32_t	rows;
	uint64_t	tokens;				/* 0: as many as a usual row has */
	uint64_t	pairs;				/* the sum of the squares of the rows' tokens; 0: likewise */
};

struct model
{
	const struct model_ops *ops;	/* the first member of each kind's own struct */
	struct infer_signature signature;
	uint64_t	bytes;				/* atomic: held now, of the device's memory if it has its own: weights, programs, arenas */
	uint32_t	batch_rows_max;		/* the most rows of one run; the scheduler honours it */
};

struct model_ops
{
	const char *kind;				/* as in the signature */

	/* Whether these files are of this kind's formats; by name and first bytes only. */
	bool		(*recognises) (const struct model_files *files);

	/*
	 * Parse, check and pack.  options: the model's options as JSON text (a bounded reader
	 * of the kind reads it).  The files stay mapped until close.  NULL and a status if the
	 * model is malformed (INFER_ERROR_MODEL) or asks for something that is not implemented
	 * (INFER_ERROR_UNSUPPORTED; the message lists all of it).
	 */
	struct model *(*open) (const struct model_files *files, const char *options,
						   struct device *device, struct status *status);
	void		(*close) (struct model *model);

	/*
	 * What of the model is worth keeping packed, while it is open: packed.h.  false: nothing.
	 * A model that was opened with files->packed has its weights from there.  If they are not
	 * the model's, open fails, and packed->stale is set.  NULL: the kind packs nothing.
	 */
	bool		(*packed_form) (const struct model *model, struct packed_form *form);

	/*
	 * What can be done with a request's rows before they wait for the device: texts become
	 * tokens, rows get their units and costs, rows that cannot be computed are marked
	 * (model_row_error), and what needs no device is answered.  Once for a request, when its
	 * reply has been laid out; without the engine's lock, on any thread, for several
	 * requests of a model at once.  Before each row it calls model_prepare_row, and stops if
	 * that says so: a row that kills the process is found by it.  false and a status: the
	 * request as a whole fails.  Memory that it takes is the request's until release, which is
	 * called exactly once after prepare, with the engine's lock held, whatever prepare
	 * returned.  Both NULL: rows need nothing.
	 */
	bool		(*prepare) (struct model *model, struct model_request *request, struct status *status);
	void		(*release) (struct model *model, struct model_request *request);

	/*
	 * Compute the rows of the slices together; a row whose unit is 0 is nothing to do for.  yield NULL: to its end.
	 * Results and per-row errors go into the requests' replies.  false and a status: the batch as a whole failed (device, memory),
	 * nothing is to be believed, the caller may split and run again.
	 * INFER_ERROR_DEVICE_LOST: replace the process.
	 */
	bool		(*run) (struct model *model, struct device_queue *queue, struct model_yield *yield,
						const struct model_slice *slices, uint32_t slices_count,
						struct status *status);

	/* Predicted device time of a run, from a calibrated prior; nsec. */
	uint64_t	(*estimate_nsec) (struct model *model, const struct model_cost *cost);

	/* infer-engine check: what this model is, to stdout, for people. */
	void		(*describe) (struct model *model);
};

/* Every kind, NULL at the end; model.c tries them in order. */
extern const struct model_ops *const model_kinds[];
extern const struct model_ops encoder_model_ops;
extern const struct model_ops graph_model_ops;

/* Recognise and open; INFER_ERROR_UNSUPPORTED if no kind recognises the files. */
extern struct model *model_open(const struct model_files *files, const char *options,
								struct device *device, struct status *status);
extern void model_close(struct model *model);

/* ---- the reply, shared by all kinds (reply.c) ---- */

/*
 * Lays out status, messages, columns and the fixed-width outputs.  false: reply_bytes is
 * too small, and *bytes_wanted says what would do.
 */
extern bool model_reply_layout(struct model_request *request, const struct infer_signature *signature,
							   uint64_t *bytes_wanted);

/* What runs append to one reply.  Held for a few copies, and with nothing locked beside it. */
static inline void
model_reply_lock(struct model_request *request)
{
	while (request->shared && __atomic_exchange_n(&request->locked, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static inline void
model_reply_unlock(struct model_request *request)
{
	if (request->shared)
		__atomic_store_n(&request->locked, 0, __ATOMIC_RELEASE);
}

/* Marks a row as failed; detail and hint may be NULL.  Texts that do not fit are left out. */
extern void model_row_error(struct model_request *request, uint32_t row, uint32_t error,
							const char *message, const char *detail, const char *hint);

/*
 * Writes count strings of an output, the first being element first (row × width + i).
 * Strings that do not fit set overflow, and their spans are empty.
 */
extern void model_reply_strings(struct model_request *request, uint32_t output, uint64_t first,
								uint64_t count, const struct device_text *texts);

/*
 * Writes the numbers of a row of an output of varying width (count elements of its type).
 * What does not fit sets overflow, and its span is empty.
 */
extern void model_reply_varying(struct model_request *request, uint32_t output, uint32_t row,
								const void *data, uint64_t count);

/*
 * Room in the reply for an encoded profile (PROTOCOL.md) of so many bytes; NULL if it does
 * not fit, and then overflow is set.
 */
extern uint8_t *model_profile_reserve(struct model_request *request, size_t bytes);

#endif							/* ENGINE_MODEL_H */
