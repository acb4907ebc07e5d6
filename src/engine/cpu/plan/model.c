/*
 * model.c
 *	  Plans of what models of machine learning want: distances, pairs of classes, trees.
 */
#include "plan.h"

bool
plan_make_distance(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *c = plan_input(making, 1);

	if (x == NULL || c == NULL || !plan_is_float(x->type) || c->type != x->type || making->y->type != x->type ||
		x->rank < 1 || c->rank != 2 || c->lead != DEVICE_LEAD_NONE || x->lead != making->y->lead)
		return plan_refuse(making, "types, ranks or leads do not fit");
	plan->axis = x->dims[x->rank - 1];
	plan->n = c->dims[0];
	plan->units_item = device_item_elements(making->y);
	if (c->dims[1] != plan->axis || plan_elements(x, 0, x->rank - 1) * plan->n != plan->units_item)
		return plan_refuse(making, "shapes do not fit");
	plan->scratch = (uint64_t) plan->axis * device_type_bytes(x->type);
	plan->run = cpu_run_distance;
	plan->nsec_item = (double) plan->units_item * (15 + 0.4 * (double) plan->axis);
	return true;
}

bool
plan_make_couple(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_tensor *x = plan_input(making, 0);
	int64_t		classes = making->op->i[0];

	if (x == NULL || x->type != DEVICE_F32 || making->y->type != DEVICE_F32 || x->rank < 1 ||
		making->y->rank != x->rank || x->lead != making->y->lead || classes < 2 || classes > CPU_COUPLE_MAX)
		return plan_refuse(making, "not for this type or number of classes");
	plan->axis = x->dims[x->rank - 1];
	plan->n = classes;
	plan->units_item = plan_elements(x, 0, x->rank - 1);
	if (plan->axis != classes * (classes - 1) / 2 ||
		device_item_elements(making->y) != plan->units_item * classes)
		return plan_refuse(making, "shapes do not fit");
	plan->scratch = (uint64_t) (classes * (classes + 1)) * sizeof(float);
	plan->run = cpu_run_couple;
	plan->nsec_item = (double) plan->units_item * 20 * (double) (classes * classes);
	return true;
}

/* Predicted time of a row's votes: it meets one leaf of each tree, and those are as good as any. */
static double
votes_nsec(const struct device_trees *trees)
{
	uint32_t	leaves = 0;

	if (trees->values != NULL)
		return 0;
	for (uint32_t n = 0; n < trees->nodes_count; n++)
		leaves += trees->votes_first[n + 1] > trees->votes_first[n];
	if (leaves == 0)
		return 0;
	return trees->trees_count * (CPU_TREES_LEAF_NSEC + CPU_TREES_VOTE_NSEC * trees->votes_first[trees->nodes_count] / leaves);
}

bool
plan_make_trees(struct plan_making *making)
{
	struct cpu_plan *plan = making->plan;
	const struct device_trees *trees = making->op->params;
	const struct device_tensor *x = plan_input(making, 0);
	const struct device_tensor *y = making->y;
	double		steps = 0;

	if (x == NULL || trees == NULL || x->type != trees->type || y->type != trees->type ||
		x->lead != y->lead || making->op->fn < TREES_SUM || making->op->fn > TREES_MAX)
		return plan_refuse(making, "types do not fit the trees");
	if (x->rank < 1 || y->rank < 1 || x->dims[x->rank - 1] != trees->features ||
		y->dims[y->rank - 1] != trees->targets)
		return plan_refuse(making, "x and y do not have the features and targets of the trees");
	plan->units_item = plan_elements(y, 0, y->rank - 1);
	if (plan_elements(x, 0, x->rank - 1) != plan->units_item)
		return plan_refuse(making, "x and y differ in their leading dimensions");
	for (uint32_t t = 0; t < trees->trees_count; t++)
		steps += 2 + trees->depths[t];
	plan->run = cpu_run_trees;
	plan->scratch = cpu_trees_scratch(trees);
	plan->nsec_item = (double) plan->units_item * (20 + steps * CPU_TREES_STEP_NSEC + votes_nsec(trees) + trees->features);
	return true;
}
