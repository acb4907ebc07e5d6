/*
 * cpu.h
 *	  The CPU device's inside: what compile makes of a graph, and how an op is run.
 *
 * Nouns
 *	plan		one op with its tensors' places, loops and cost: struct cpu_plan
 *	place		where a tensor lies: a constant, a binding, or the arena
 *	unit		the smallest piece of an op that one thread computes: an element, a reduced
 *				vector, a block of a matrix product.  An op has units_item × items units (a
 *				product: its own number), and the bits of a unit depend on nothing else.
 *	run			one enqueue: batch, bindings, arena
 *	kernels		the functions of one instruction set: kernels.h
 *
 * Loop
 *	enqueue: for each plan, its units are cut into chunks that the pool's threads claim;
 *	plan->run(plan, run, first, last, thread) computes the units [first, last).
 *
 * Invariants
 *	compile has checked all indices, types and shapes, so the functions below check values
 *	only.  A plan is immutable after compile; a run is immutable but for row_error and
 *	row_message, which are written by compare-and-swap.
 */
#ifndef ENGINE_CPU_H
#define ENGINE_CPU_H

#include <time.h>

#include "../device.h"
#include "../status.h"
#include "kernels/kernels.h"
#include "kernels/narrow/narrow.h"

struct pool;

struct cpu_device
{
	struct device base;				/* first: see struct device */
	const struct cpu_kernels *kernels;
	const struct cpu_narrow_kernels *narrow[DEVICE_PRECISIONS];	/* [FULL]: NULL */
	const struct cpu_narrow_casts *casts;
	void		(*attention_bf16) (const struct cpu_attention *, int64_t, int64_t);	/* as kernels.h has it; or NULL */
	struct pool *pool;
	uint64_t   *beats[2];			/* by enum device_use; or NULL */
	char		numerics_id[64];
	char		description[128];
	uint64_t	budget;				/* bytes, 0: none */
	uint64_t	used;				/* bytes of weights; atomic */
	double		nsec_flop;			/* measured at open: of a product, f32, one thread; */
	double		nsec_narrow[DEVICE_PRECISIONS];	/* and of one in fewer bits */
	uint8_t		precision_default;
	double		nsec_byte;			/* of reading a weight */
};

struct device_weight				/* see weight.c for the order of its elements */
{
	uint8_t		type;				/* of its products' x */
	uint8_t		precision;
	int64_t		k;
	int64_t		n;
	int64_t		panel;				/* columns */
	int64_t		panels;
	uint64_t	panel_bytes;
	const void *data;				/* DEVICE_ALIGN-aligned */
	const float *scales;			/* INT8: panels · panel of each, behind data */
	const int32_t *offsets;
	void	   *owned;				/* data, unless it is somebody else's */
	uint64_t	bytes;				/* what was taken from the budget */
};

enum cpu_place_kind
{
	CPU_ABSENT = 0,
	CPU_CONSTANT,
	CPU_BINDING,
	CPU_ARENA
};

struct cpu_place
{
	uint8_t		kind;				/* enum cpu_place_kind */
	uint8_t		type;
	uint8_t		lead;
	uint32_t	binding;
	uint64_t	offset;				/* per item, in its lead's part of the arena */
	const void *constant;
	int64_t		elements;			/* of one item */
};

/*
 * Nested loops over the elements of an output, with the step of each operand.  The
 * outermost has items × scale passes, the others dims[1…]; the innermost step of an
 * operand is 0 or 1.
 */
#define CPU_LOOPS_MAX		(DEVICE_RANK_MAX + 1)
#define CPU_OPERANDS_MAX	3

struct cpu_loops
{
	int			rank;				/* ≥ 1 */
	int64_t		scale;
	int64_t		dims[CPU_LOOPS_MAX];
	int64_t		steps[CPU_OPERANDS_MAX][CPU_LOOPS_MAX];	/* elements */
};

struct cpu_run
{
	const struct cpu_device *device;
	const struct cpu_program_shape *shape;
	const struct device_batch *batch;
	void *const *bindings;
	uint8_t    *arena;
	uint64_t	lead_base[DEVICE_LEADS];	/* bytes into the arena */
	uint64_t	extra_base[DEVICE_LEADS];	/* the device's own bytes per item */
	uint64_t	scratch_base;		/* of thread 0 */
	uint64_t	scratch_bytes;		/* of one thread */
};

struct cpu_plan;
typedef void (*cpu_run_fn) (const struct cpu_plan *plan, const struct cpu_run *run,
							uint64_t first, uint64_t last, int thread);

struct cpu_plan
{
	uint16_t	op;
	uint16_t	fn;
	uint8_t		type;				/* of what is computed with: usually the inputs' */
	uint8_t		lead;				/* of the output */
	int32_t		node;
	double		f[2];
	int64_t		i[DEVICE_OP_INTS];
	const void *params;
	const struct device_weight *weight;

	uint32_t	inputs_count;
	struct cpu_place *inputs;
	struct cpu_place output;

	cpu_run_fn	run;
	const struct cpu_float_kernels *kernels;	/* of type, where it is a floating type */
	const struct cpu_narrow_kernels *narrow;	/* of a product in fewer bits */
	int64_t		units_item;			/* not for products */
	double		nsec_item;			/* predicted on one thread */
	double		nsec_token;			/* beside it, where the op's own lead is ROWS */
	double		nsec_pair;			/* of a pair of a row's tokens */
	int64_t		window;				/* such pairs of a token at most; 0: no bound */
	double		nsec_run;			/* predicted, whatever the number of items */
	uint64_t	extra_offset;		/* device's own bytes per item (texts of a cast) */
	uint64_t	scratch;			/* bytes that one thread needs */

	struct cpu_loops loops;			/* element-wise ops, and reductions over kept axes */
	struct cpu_loops inner;			/* reductions: over the reduced axes; dims[0] = scale */

	/* products: y[m,n] for rows m of an item; MATMUL: per leading index */
	int64_t		m;
	int64_t		k;
	int64_t		n;
	int64_t		outer;				/* dims before an axis, or leading indexes */
	int64_t		axis;				/* length of the axis worked on */
	int64_t		after;				/* elements behind it */
	int64_t	   *parts;				/* CONCAT: elements of each input per outer index */
};

struct cpu_program_shape			/* what a run needs beside the plans */
{
	uint64_t	arena_item[DEVICE_LEADS];
	uint64_t	extra_item[DEVICE_LEADS];
	uint64_t	scratch;			/* of one thread, a multiple of DEVICE_ALIGN */
	bool		sequences;			/* ops look at row_off */
};

struct device_program
{
	struct cpu_device *device;
	uint32_t	plans_count;
	struct cpu_plan *plans;
	struct cpu_program_shape shape;
	struct cpu_place *places;		/* backing store of all plans' inputs */
	int64_t    *parts;				/* and of CONCAT's parts */
	uint64_t	bytes;				/* of all of it */
};

/* ---- the callbacks of struct device_ops; see there ---- */

/* isa.c: sets kernels, narrow, casts and what products cost.  arch: see struct device_options. */
extern bool cpu_isa_choose(struct cpu_device *device, const char *arch, struct status *status);

/* weight.c */
extern uint64_t cpu_weight_size(struct device *base, const struct device_weight_desc *desc);
extern struct device_weight *cpu_weight_pack(struct device *base, const struct device_weight_desc *desc,
											 struct status *status);
extern void cpu_weight_free(struct device *base, struct device_weight *weight);
extern const void *cpu_weight_data(struct device *base, const struct device_weight *weight, uint64_t *bytes);
extern struct device_weight *cpu_weight_map(struct device *base, const struct device_weight_desc *desc,
											const void *data, uint64_t bytes, struct status *status);

/* program.c */
extern uint32_t cpu_supports(struct device *base, const struct device_op *op,
							 const struct device_tensor *tensors);
extern struct device_program *cpu_compile(struct device *base, const struct device_graph *graph,
										  struct status *status);
extern void cpu_program_free(struct device *base, struct device_program *program);
extern uint64_t cpu_program_bytes(const struct device_program *program);
extern uint64_t cpu_arena_bytes(const struct device_program *program, const uint32_t items[DEVICE_LEADS]);
extern uint64_t cpu_estimate_nsec(struct device *base, const struct device_program *program,
								  const struct device_batch *batch);

/* run.c */
extern struct device_queue *cpu_queue_create(struct device *base, int use, struct status *status);
extern void cpu_queue_free(struct device_queue *queue);
extern uint32_t cpu_segment_end(struct device *base, const struct device_program *program, uint32_t first,
								const struct device_batch *batch, uint64_t nsec, uint64_t *predicted);
extern uint64_t cpu_enqueue(struct device_queue *queue, struct device_program *program, uint32_t first,
							uint32_t last, const struct device_batch *batch, void *const *bindings,
							void *arena, struct status *status);
extern enum device_state cpu_poll(struct device_queue *queue, uint64_t ticket, struct status *status);
extern enum device_state cpu_wait(struct device_queue *queue, uint64_t ticket, uint64_t usec,
								  struct status *status);
extern void cpu_cancel(struct device_queue *queue, uint64_t ticket);
extern uint64_t cpu_elapsed_nsec(struct device_queue *queue, uint64_t ticket);

/* ---- plans ---- */

/* plan/plan.c: checks an op and makes its plan.  false: not supported, and why in status. */
extern bool cpu_plan_make(struct cpu_plan *plan, const struct cpu_device *device,
						  const struct device_op *op, const struct device_tensor *tensors,
						  struct device_weight *const *weights, struct cpu_place *places,
						  int64_t *parts, struct status *status);

/* Whether an op asks where rows begin. */
extern bool cpu_plan_reads_offsets(const struct cpu_plan *plan);

/* Units of a plan in a run. */
extern uint64_t cpu_plan_units(const struct cpu_plan *plan, const uint32_t items[DEVICE_LEADS]);
extern double cpu_plan_nsec(const struct cpu_plan *plan, const struct device_batch *batch);

/* The address of a tensor's first item. */
static inline void *
cpu_address(const struct cpu_run *run, const struct cpu_place *place)
{
	if (place->kind == CPU_ARENA)
		return run->arena + run->lead_base[place->lead] +
			place->offset * run->batch->items[place->lead];
	if (place->kind == CPU_BINDING)
		return run->bindings[place->binding];
	return (void *) place->constant;
}

/* Of an optional input; NULL: absent. */
static inline void *
cpu_operand(const struct cpu_plan *plan, const struct cpu_run *run, uint32_t input)
{
	if (input >= plan->inputs_count || plan->inputs[input].kind == CPU_ABSENT)
		return NULL;
	return cpu_address(run, &plan->inputs[input]);
}

static inline uint64_t
cpu_aligned(uint64_t bytes)
{
	return (bytes + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
}

static inline uint64_t
cpu_now_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

static inline void *
cpu_scratch(const struct cpu_run *run, int thread)
{
	return run->arena + run->scratch_base + run->scratch_bytes * (uint64_t) thread;
}

/* The row of a token, of which there is one at least. */
extern uint32_t cpu_row_of(const struct device_batch *batch, uint64_t token);

/* Marks the row of an item as failed; item 0 of lead NONE is everybody's. */
extern void cpu_row_error(const struct cpu_run *run, uint8_t lead, uint64_t item,
						  const char *message);

#endif							/* ENGINE_CPU_H */
