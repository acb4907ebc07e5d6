/*
 * plan.h
 *	  What the files of plans share: one function checks one primitive and fills its plan.
 *
 * Invariants
 *	- A plan_make_… refuses (false, and why in status) whatever its cpu_run_… could not compute.
 *	- The weights are missing at placement: only their op's shapes are known then.
 */
#ifndef ENGINE_CPU_PLAN_H
#define ENGINE_CPU_PLAN_H

#include "../ops/ops.h"

#define PLAN_ELEMENTS_MAX	((int64_t) 1 << 40)	/* of one item; keeps products of sizes in range */

struct plan_making					/* of one plan */
{
	struct cpu_plan *plan;
	const struct cpu_device *device;
	const struct device_op *op;
	const struct device_tensor *tensors;
	const struct device_tensor *y;
	struct device_weight *const *weights;	/* NULL at placement */
	struct status *status;
};

/* Says which primitive, of which type, and why; returns false. */
extern bool plan_refuse(const struct plan_making *making, const char *why);

/* The product of the dimensions [first, last). */
extern int64_t plan_elements(const struct device_tensor *t, int first, int last);

static inline bool
plan_is_float(uint8_t type)
{
	return type == DEVICE_F32 || type == DEVICE_F64;
}

static inline bool
plan_is_integer(uint8_t type)
{
	return type == DEVICE_I32 || type == DEVICE_I64;
}

static inline const struct device_tensor *
plan_input(const struct plan_making *making, uint32_t i)
{
	if (i >= making->op->inputs_count || making->op->inputs[i] < 0)
		return NULL;
	return &making->tensors[making->op->inputs[i]];
}

static inline bool
plan_same_lead(const struct plan_making *making, const struct device_tensor *t)
{
	return t->lead == DEVICE_LEAD_NONE || t->lead == making->y->lead;
}

/* ---- one function per primitive ---- */

/* product.c */
extern bool plan_make_gemm(struct plan_making *making);
extern bool plan_make_matmul(struct plan_making *making);
extern bool plan_make_quantise(struct plan_making *making);

/* elementwise.c */
extern bool plan_make_unary(struct plan_making *making);
extern bool plan_make_binary(struct plan_making *making);
extern bool plan_make_where(struct plan_making *making);
extern bool plan_make_cast(struct plan_making *making);
extern bool plan_make_lookup(struct plan_making *making);

/* layout.c */
extern bool plan_make_copy(struct plan_making *making);
extern bool plan_make_concat(struct plan_making *making);
extern bool plan_make_gather(struct plan_making *making);
extern bool plan_make_offset(struct plan_making *making);
extern bool plan_make_scatter(struct plan_making *making);

/* rowwise.c */
extern bool plan_make_reduce(struct plan_making *making);
extern bool plan_make_softmax(struct plan_making *making);
extern bool plan_make_arg(struct plan_making *making);
extern bool plan_make_normalize(struct plan_making *making);
extern bool plan_make_cumsum(struct plan_making *making);
extern bool plan_make_topk(struct plan_making *making);

/* model.c */
extern bool plan_make_distance(struct plan_making *making);
extern bool plan_make_couple(struct plan_making *making);
extern bool plan_make_trees(struct plan_making *making);

/* sequence.c */
extern bool plan_make_norm(struct plan_making *making);
extern bool plan_make_attention(struct plan_making *making);
extern bool plan_make_rotary(struct plan_making *making);
extern bool plan_make_gate(struct plan_making *making);
extern bool plan_make_pool(struct plan_making *making);

#endif							/* ENGINE_CPU_PLAN_H */
