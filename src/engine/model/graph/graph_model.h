/*
 * graph_model.h
 *	  A graph as a model: what graph_model.c (open), run.c, buffers.c, rows.c, profile.c
 *	  and describe.c share.
 *
 * Everything but buffers is immutable after open; each run has buffers of its own (../sets.h).
 */
#ifndef ENGINE_MODEL_GRAPH_MODEL_H
#define ENGINE_MODEL_GRAPH_MODEL_H

#include "../../graph/graph.h"
#include "../model.h"
#include "../sets.h"

struct graph_buffers				/* grown to the largest batch so far, then reused */
{
	struct model_set set;			/* first: see sets.h */
	uint32_t	rows;				/* that they hold */
	void	  **bindings;			/* graph.bindings_count, items end to end: STAGING */
	void	   *arena;				/* the device's: never looked into */
	uint32_t   *row_error;
	const char **row_message;
	uint8_t    *texts;				/* bytes of the batch's strings, copied from regions */
	uint64_t	texts_space;
	uint64_t	bytes;				/* of arena and bindings */
};

struct graph_model
{
	struct model model;				/* first: see struct model */
	struct device *device;
	struct graph_memory memory;		/* all of the graph on the host */
	struct onnx_model onnx;
	struct graph graph;
	uint64_t	row_bytes;			/* arena and bindings of one row */
	struct model_sets sets;			/* of struct graph_buffers */
};

/* A run of it. */
struct graph_run
{
	struct graph_model *m;
	struct device_queue *queue;
	struct model_yield *yield;		/* NULL: to its end */
	struct graph_buffers *buffers;
	uint32_t	rows;
};

/* The graph of a model that is one, for benchmarks. */
static inline const struct graph *
graph_model_graph(const struct model *model)
{
	return &((const struct graph_model *) model)->graph;
}

extern bool graph_model_run(struct model *model, struct device_queue *queue, struct model_yield *yield,
							const struct model_slice *slices, uint32_t slices_count,
							struct status *status);

/* Segments [first, last) of the program, over the rows that the buffers hold. */
extern bool graph_compute(struct graph_run *run, uint32_t first, uint32_t last, struct status *status);

/*
 * Segment by segment, and the time of each into the reply of the slice's request, whose
 * one row the buffers hold.
 */
extern bool graph_compute_profiled(struct graph_run *run, struct model_request *request, struct status *status);
extern void graph_model_describe(struct model *model);

/* ---- buffers.c ---- */

#define GRAPH_TEXTS_MAX	(UINT64_C(32) << 20)	/* bytes of strings: of several rows together, kept for the next batch */

/* For a run on a queue; NULL and a status: out of memory. */
extern struct graph_buffers *graph_buffers_take(struct graph_model *m, struct device_queue *queue, struct status *status);

/* The run is over; frees what a row of very long strings left behind. */
extern void graph_buffers_give(struct graph_model *m, struct graph_buffers *b);

/* Room for the run's rows. */
extern bool graph_buffers_grow(struct graph_model *m, struct graph_buffers *b, struct device_queue *queue, uint32_t rows,
							   struct status *status);

/* Before the first batch: what a row takes, where that is nobody's memory in particular. */
extern bool graph_buffers_begin(struct graph_model *m, struct status *status);
extern void graph_buffers_free(struct graph_model *m);

/* Makes room for more bytes of strings behind used ones, which stay. */
extern bool graph_texts_grow(struct graph_model *m, struct graph_buffers *b, uint64_t wanted, struct status *status);

/* ---- rows.c ---- */

/* That the columns are those of the signature; the engine checks too, and pointers depend on it. */
extern bool graph_rows_check(const struct graph_model *m, const struct model_slice *slice,
							 struct status *status);

/* The inputs of all slices' rows, end to end, into the bindings; marks rows with malformed strings. */
extern bool graph_rows_gather(struct graph_run *run, const struct model_slice *slices, uint32_t slices_count,
							  struct status *status);

/* The wanted outputs of all slices' rows into their replies. */
extern void graph_rows_scatter(const struct graph_run *run, const struct model_slice *slices, uint32_t slices_count);

/* The elements of an output, rows end to end; constants have one row for all. */
extern const uint8_t *graph_output_data(const struct graph_run *run, uint32_t output);

#endif							/* ENGINE_MODEL_GRAPH_MODEL_H */
