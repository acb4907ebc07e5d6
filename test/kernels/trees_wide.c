/*
 * trees_wide.c
 *	  TREES of rows with few features to many, whose keys a device may keep in several places, and of more trees than it
 *	  walks at once: against a plain walk.
 *
 * A tree here has three levels, and each of its eight leaves a vote for each of the targets.
 */
#include <math.h>

#include "harness.h"
#include "random.h"
#include "tap.h"

#define NODES		15				/* of a tree */
#define INNER		7
#define TREES_MOST	1100
#define ROWS_MOST	70

static uint32_t
below(uint32_t n)
{
	return (uint32_t) (next_random() >> 33) % n;
}

static uint32_t roots[TREES_MOST];
static uint32_t depths[TREES_MOST];
static struct device_tree_node narrow[TREES_MOST * NODES] __attribute__((aligned(64)));
static struct device_tree_node_wide wide[TREES_MOST * NODES] __attribute__((aligned(64)));
static struct device_tree_node_f64 f64[TREES_MOST * NODES] __attribute__((aligned(64)));
static float values[TREES_MOST * NODES];
static double values_f64[TREES_MOST * NODES];
static uint32_t votes_first[TREES_MOST * NODES + 1];
static uint32_t votes_target[TREES_MOST * NODES * 2];
static float weights[TREES_MOST * NODES * 2];
static double weights_f64[TREES_MOST * NODES * 2];
static float thresholds[TREES_MOST * NODES];
static uint32_t features_of[TREES_MOST * NODES];

/* Node n of each tree has the children 2n + 1 and 2n + 2. */
static void
grow(uint32_t trees, uint32_t features)
{
	uint32_t	votes = 0;

	for (uint32_t n = 0; n < trees * NODES; n++)
	{
		bool		leaf = n % NODES >= INNER;
		double		threshold = thresholds[n] = ((float) below(17) - 8) / 4;
		uint32_t	feature = features_of[n] = leaf ? 0 : below(features);
		uint32_t	child = leaf ? n % NODES : 2 * (n % NODES) + 1;
		uint32_t	bits;
		uint64_t	bits_f64;

		memcpy(&bits, &thresholds[n], sizeof(bits));
		memcpy(&bits_f64, &threshold, sizeof(bits_f64));
		narrow[n] = (struct device_tree_node) {leaf ? UINT32_MAX : device_key_f32(bits),
			(uint16_t) (feature * DEVICE_TREE_LANES), (uint16_t) child};
		wide[n] = (struct device_tree_node_wide) {narrow[n].key, feature * DEVICE_TREE_LANES, child};
		f64[n] = (struct device_tree_node_f64) {leaf ? UINT64_MAX : device_key_f64(bits_f64), feature * DEVICE_TREE_LANES, child};
		roots[n / NODES] = n / NODES * NODES;
		depths[n / NODES] = 3;
		values_f64[n] = values[n] = (float) below(1000) / 7;
		for (uint32_t target = 0; leaf && target < 2; target++, votes++)
		{
			votes_target[votes] = target;
			weights_f64[votes] = weights[votes] = (float) below(1000) / 7;
		}
		votes_first[n + 1] = votes;
	}
}

/* One row in float32 or, what it is in the other case, exactly what double gives. */
static double
walk(const struct device_trees *trees, const float *x, uint32_t target)
{
	double		sum = 0;

	for (uint32_t t = 0; t < trees->trees_count; t++)
	{
		uint32_t	n = 0;
		double		said;

		while (n < INNER)
			n = 2 * n + (x[features_of[t * NODES + n]] <= thresholds[t * NODES + n] ? 1 : 2);
		n += t * NODES;
		said = trees->values != NULL ? values[n] : weights[votes_first[n] + target];
		sum = trees->type == DEVICE_F64 ? sum + said : (float) ((float) sum + (float) said);
	}
	return sum;
}

static bool
check(struct device *device, const struct device_trees *trees)
{
	static const uint32_t batches[] = {1, 5, 33, ROWS_MOST};
	bool		double_ = trees->type == DEVICE_F64;
	struct op_case c = {.op = {.op = DEVICE_OP_TREES, .fn = TREES_SUM, .params = trees}, .inputs_count = 1};
	float	   *x = case_alloc((size_t) ROWS_MOST * trees->features * sizeof(float));
	double	   *x_f64 = case_alloc((size_t) ROWS_MOST * trees->features * sizeof(double));
	void	   *y = case_alloc(ROWS_MOST * 2 * sizeof(double));
	void	   *bindings[2] = {double_ ? (void *) x_f64 : (void *) x, y};
	struct status status;
	bool		right;

	c.tensors[0] = case_tensor(trees->type, DEVICE_LEAD_ROWS, 1, (int64_t[]) {trees->features});
	c.tensors[1] = case_tensor(trees->type, DEVICE_LEAD_ROWS, 1, (int64_t[]) {trees->targets});
	status_clear(&status);
	right = case_compile(&c, device);
	for (size_t i = 0; i < (size_t) ROWS_MOST * trees->features; i++)
		x_f64[i] = x[i] = ((float) below(17) - 8) / 4;
	for (size_t b = 0; b < sizeof(batches) / sizeof(*batches) && right; b++)
	{
		right = case_run(&c, batches[b], bindings, NULL, &status);
		for (uint32_t i = 0; i < batches[b] * trees->targets; i++)
			right = right && (double_ ? ((double *) y)[i] : ((float *) y)[i]) ==
				walk(trees, x + (size_t) (i / trees->targets) * trees->features, i % trees->targets);
	}
	case_free(&c);
	free(x);
	free(x_f64);
	free(y);
	return right;
}

static void
check_device(struct device *device, const char *name)
{
	static const uint32_t features[] = {1, 11, 300, 4000, 8191};	/* narrow nodes know no more */
	static const char *const kinds[] = {"narrow", "wide", "float64"};

	for (size_t f = 0; f < sizeof(features) / sizeof(*features); f++)
		for (int kind = 0; kind < 3; kind++)
		{
			struct device_trees trees = {
				.type = kind == 2 ? DEVICE_F64 : DEVICE_F32, .wide = kind == 1, .trees_count = features[f] == 11 ? TREES_MOST : 37,
				.features = features[f], .targets = 1, .roots = roots, .depths = depths, .votes_first = votes_first,
				.nodes = kind == 2 ? (void *) f64 : kind == 1 ? (void *) wide : (void *) narrow,
				.votes_target = votes_target, .votes_weight = kind == 2 ? (void *) weights_f64 : (void *) weights
			};
			bool		one;

			trees.nodes_count = trees.trees_count * NODES;
			grow(trees.trees_count, trees.features);
			trees.values = kind == 2 ? (void *) values_f64 : (void *) values;
			one = check(device, &trees);
			trees.values = NULL;
			trees.targets = 2;
			tap_ok(one && check(device, &trees), "%s: %u trees of %s nodes and %u features", name, trees.trees_count, kinds[kind],
				   trees.features);
		}
}

int
main(void)
{
	struct device *device;

	if (case_wants("cpu"))
	{
		device = case_device("cpu", getenv("INFER_CPU"), 1);
		check_device(device, "cpu");
		device->ops->close(device);
	}
	device = case_cuda_device(1);
	if (device != NULL)
	{
		check_device(device, "cuda");
		device_close(device);
	}
	return tap_done();
}
