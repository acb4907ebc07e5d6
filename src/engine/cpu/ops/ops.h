/*
 * ops.h
 *	  What runs the primitives: one function each, and what its plan must know of it.
 *
 * Invariants
 *	A cpu_run_… computes the units [first, last) of its plan, whose shapes and types plan/ has
 *	checked for it.
 */
#ifndef ENGINE_CPU_OPS_H
#define ENGINE_CPU_OPS_H

#include "../cpu.h"

/* elementwise.c */
extern void cpu_loops_join(struct cpu_loops *loops, int axes, const int64_t *sizes,
						   int64_t (*steps)[CPU_LOOPS_MAX], int count);
extern bool cpu_loops_make(struct cpu_loops *loops, const struct device_tensor *output,
						   const struct device_tensor *const *operands, int count);
extern void cpu_run_unary(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_binary(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_where(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* integer.c: one run of the innermost loop; bad: the index of an element that has no value, or -1 */
extern bool cpu_integer_unary_supports(uint8_t type, uint16_t fn);
extern bool cpu_integer_binary_supports(uint8_t type, uint16_t fn);
extern void cpu_integer_unary(uint8_t type, uint16_t fn, const double f[2], const void *x, void *y,
							  int64_t n);
extern void cpu_integer_binary(uint8_t type, uint16_t fn, const void *a, int64_t a_step,
							   const void *b, int64_t b_step, void *y, int64_t n,
							   void (*bad) (void *context, int64_t index), void *context);
extern void cpu_integer_reduce(uint8_t type, uint16_t fn, const void *x, int64_t n, void *state);
extern void cpu_integer_reduce_start(uint8_t type, uint16_t fn, void *state);
extern void cpu_integer_reduce_finish(uint8_t type, uint16_t fn, int64_t n, const void *state, void *y);

/* cast.c */
extern bool cpu_cast_supports(uint8_t from, uint8_t to);
extern void cpu_run_cast(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
#define CPU_CAST_TEXT_BYTES	32		/* the longest text of a number */

/* lookup.c */
extern void cpu_run_lookup(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* layout.c */
extern void cpu_run_copy(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_concat(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_gather(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* rowwise.c */
extern void cpu_run_reduce(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_softmax(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_arg(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_normalize(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* vectors.c */
extern void cpu_run_cumsum(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_topk(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_distance(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_couple(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
#define CPU_COUPLE_MAX		1024	/* classes: bounds a thread's scratch */

/* scatter.c */
extern void cpu_run_offset(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_scatter(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* trees.c */
#define CPU_TREES_STEP_NSEC	0.5		/* predicted, of one row's step from a node to the next */
#define CPU_TREES_VOTE_NSEC	0.6		/* of a leaf's vote, */
#define CPU_TREES_LEAF_NSEC	1.0		/* and of a leaf that has votes */
extern uint64_t cpu_trees_scratch(const struct device_trees *trees);
extern void cpu_run_trees(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* attention.c */
extern uint64_t cpu_attention_units(const struct cpu_plan *plan, uint64_t tokens);
extern void cpu_run_attention(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* sequence.c */
extern void cpu_run_norm(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_rotary(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_gate(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_pool(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* gemm.c */
extern uint64_t cpu_gemm_units(const struct cpu_plan *plan, uint64_t items);
extern void cpu_run_gemm(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_matmul(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

/* narrow.c */
extern uint64_t cpu_narrow_units(const struct cpu_plan *plan, uint64_t items);
extern uint64_t cpu_narrow_scratch(const struct cpu_plan *plan);
extern void cpu_run_narrow(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);
extern void cpu_run_quantise(const struct cpu_plan *, const struct cpu_run *, uint64_t, uint64_t, int);

#endif							/* ENGINE_CPU_OPS_H */
