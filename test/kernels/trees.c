/*
 * trees.c
 *	  TREES against a plain walk, and rule 4: a row has the same bits at any place among
 *	  strangers, in batches of 1 to 1024 rows, on 1 and 2 threads.
 *
 * A forest here is random: trees of several depths in each of the three kinds of node, NaN
 * going either way, one target or several.  INFER_CPU chooses the instruction set.
 */
#include <math.h>

#include "harness.h"
#include "random.h"
#include "tap.h"

#define FEATURES	11
#define ROWS_MOST	1024
#define TREES_MOST	20
#define NODES_MOST	(TREES_MOST << 8)

/* Quarters, so that equals are common; now and then something odd. */
static double
number(void)
{
	static const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 1e-40, 3e38};

	if (next_random() % 16 == 0)
		return odd[next_random() % 6];
	return (double) ((int64_t) (next_random() % 17) - 8) / 4;
}

struct forest
{
	struct device_trees trees;
	uint32_t	roots[TREES_MOST];
	uint32_t	depths[TREES_MOST];
	struct device_tree_node narrow[NODES_MOST] __attribute__((aligned(64)));
	struct device_tree_node_wide wide[NODES_MOST] __attribute__((aligned(64)));
	struct device_tree_node_f64 f64[NODES_MOST] __attribute__((aligned(64)));
	uint8_t		nan_left[NODES_MOST];
	float		values[NODES_MOST];
	double		values_f64[NODES_MOST];
	uint32_t	votes_first[NODES_MOST + 1];
	uint32_t	votes_target[3 * NODES_MOST];
	float		weights[3 * NODES_MOST];
	double		weights_f64[3 * NODES_MOST];
	double		thresholds[NODES_MOST];
	uint32_t	feature[NODES_MOST];
	uint32_t	child[NODES_MOST];
	bool		leaf[NODES_MOST];
};

static void
node_set(struct forest *f, uint32_t n, uint32_t feature, uint32_t child, double threshold, bool leaf)
{
	float		narrow = (float) threshold;
	uint32_t	bits;
	uint64_t	bits_f64;

	memcpy(&bits, &narrow, sizeof(bits));
	memcpy(&bits_f64, &threshold, sizeof(bits_f64));
	f->narrow[n].key = leaf ? UINT32_MAX : device_key_f32(bits);
	f->f64[n].key = leaf ? UINT64_MAX : device_key_f64(bits_f64);
	f->wide[n].key = f->narrow[n].key;
	f->narrow[n].feature = (uint16_t) (feature * DEVICE_TREE_LANES);
	f->wide[n].feature = f->f64[n].feature = feature * DEVICE_TREE_LANES;
	f->narrow[n].child = (uint16_t) child;
	f->wide[n].child = f->f64[n].child = child;
	f->thresholds[n] = threshold;
	f->feature[n] = feature;
	f->child[n] = child;
	f->leaf[n] = leaf;
}

/* Level by level; below the root a node is a leaf with chance 1 in 6, and at depth surely. */
static uint32_t
tree_grow(struct forest *f, uint32_t root, uint32_t depth)
{
	uint32_t	count = 1;
	uint32_t	level_end = 1;
	uint32_t	level = 0;

	for (uint32_t n = 0; n < count; n++)
	{
		bool		leaf;

		if (n == level_end)
		{
			level++;
			level_end = count;
		}
		leaf = level == depth || count + 2 > 255 || (n > 0 && next_random() % 6 == 0);
		node_set(f, root + n, leaf ? 0 : (uint32_t) (next_random() % FEATURES), leaf ? n : count,
				 leaf ? 0 : (double) ((int64_t) (next_random() % 17) - 8) / 4, leaf);
		f->nan_left[root + n] = leaf || next_random() % 2 == 0;
		count += leaf ? 0 : 2;
	}
	return count;
}

static void
forest_make(struct forest *f, uint8_t type, bool wide, uint32_t targets, uint32_t trees, bool nan_left)
{
	uint32_t	votes = 0;

	memset(f, 0, sizeof(*f));
	f->trees.trees_count = trees;
	for (uint32_t t = 0; t < trees; t++)
	{
		f->roots[t] = f->trees.nodes_count;
		f->depths[t] = t == 0 ? 0 : 2 + t % 13;
		f->trees.nodes_count += tree_grow(f, f->roots[t], f->depths[t]);
	}
	for (uint32_t n = 0; n < f->trees.nodes_count; n++)
	{
		f->votes_first[n] = votes;
		f->values[n] = (float) (next_random() % 1000) / 7;
		f->values_f64[n] = f->values[n];
		for (uint32_t v = 0; f->leaf[n] && v < next_random() % 4; v++, votes++)
		{
			f->votes_target[votes] = (uint32_t) (next_random() % targets);
			f->weights[votes] = (float) ((int64_t) (next_random() % 1000) - 500) / 7;
			f->weights_f64[votes] = f->weights[votes];
		}
	}
	f->votes_first[f->trees.nodes_count] = votes;
	f->trees.type = type;
	f->trees.wide = wide;
	f->trees.features = FEATURES;
	f->trees.targets = targets;
	f->trees.roots = f->roots;
	f->trees.depths = f->depths;
	f->trees.nodes = type == DEVICE_F64 ? (void *) f->f64 : wide ? (void *) f->wide : (void *) f->narrow;
	f->trees.nan_left = nan_left ? f->nan_left : NULL;
	if (targets == 1)
		f->trees.values = type == DEVICE_F64 ? (void *) f->values_f64 : (void *) f->values;
	f->trees.votes_first = f->votes_first;
	f->trees.votes_target = f->votes_target;
	f->trees.votes_weight = type == DEVICE_F64 ? (void *) f->weights_f64 : (void *) f->weights;
}

static double
element(uint8_t type, const void *x, size_t i)
{
	return type == DEVICE_F64 ? ((const double *) x)[i] : ((const float *) x)[i];
}

static void
element_set(uint8_t type, void *x, size_t i, double v)
{
	if (type == DEVICE_F64)
		((double *) x)[i] = v;
	else
		((float *) x)[i] = (float) v;
}

static double
sum_step(uint8_t type, double a, double b)
{
	return type == DEVICE_F64 ? a + b : (float) ((float) a + (float) b);
}

/* One row, by numbers instead of keys. */
static void
plain_walk(const struct forest *f, uint16_t fn, const void *x, double *y)
{
	bool		said[4] = {false};

	for (uint32_t t = 0; t < f->trees.targets; t++)
		y[t] = 0;
	for (uint32_t t = 0; t < f->trees.trees_count; t++)
	{
		uint32_t	n = f->roots[t];

		while (!f->leaf[n])
		{
			double		v = element(f->trees.type, x, f->feature[n]);
			bool		left = isnan(v) ? f->trees.nan_left != NULL && f->nan_left[n] : v <= f->thresholds[n];

			n = f->roots[t] + f->child[n] + (left ? 0 : 1);
		}
		if (f->trees.values != NULL)
		{
			y[0] = sum_step(f->trees.type, y[0], f->values[n]);
			continue;
		}
		for (uint32_t v = f->votes_first[n]; v < f->votes_first[n + 1]; v++)
		{
			uint32_t	target = f->votes_target[v];
			double		w = f->weights[v];

			if (fn == TREES_SUM)
				y[target] = sum_step(f->trees.type, y[target], w);
			else if (!said[target] || (fn == TREES_MIN ? w < y[target] : w > y[target]))
				y[target] = w;
			said[target] = true;
		}
	}
}

static bool
forest_check(struct device *device, const struct forest *f, uint16_t fn)
{
	static const uint32_t batches[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 64, 127, 128, 129, 136, 500, 1000, 1024};
	uint8_t		type = f->trees.type;
	size_t		bytes = device_type_bytes(type);
	struct op_case c = {.op = {.op = DEVICE_OP_TREES, .fn = fn, .params = &f->trees}, .inputs_count = 1};
	uint8_t    *x = case_alloc(ROWS_MOST * FEATURES * bytes);
	uint8_t    *y = case_alloc(ROWS_MOST * 4 * bytes);
	uint8_t    *row = case_alloc(FEATURES * bytes);
	double		expected[4];
	uint8_t		alone[4 * 8] = {0};
	struct status status;
	bool		right = true;

	status_clear(&status);
	c.tensors[0] = case_tensor(type, DEVICE_LEAD_ROWS, 2, (int64_t[]) {1, FEATURES});
	c.tensors[1] = case_tensor(type, DEVICE_LEAD_ROWS, 2, (int64_t[]) {1, f->trees.targets});
	if (!case_compile(&c, device))
		return false;
	for (int k = 0; k < 6 && right; k++)
	{
		void	   *bindings[2] = {row, y};

		for (int i = 0; i < FEATURES; i++)
			element_set(type, row, i, k == 0 ? (double) i / 4 - 1 : number());
		right = case_run(&c, 1, bindings, NULL, &status);
		memcpy(alone, y, f->trees.targets * bytes);
		plain_walk(f, fn, row, expected);
		for (uint32_t t = 0; t < f->trees.targets; t++)
			right = right && element(type, alone, t) == expected[t];
		bindings[0] = x;
		for (size_t b = 0; b < sizeof(batches) / sizeof(*batches) && right; b++)
		{
			uint32_t	rows = batches[b];
			uint32_t	places[3] = {rows - 1, (uint32_t) (next_random() % rows), 0};

			if (rows > 64 && case_hurries(device))
				break;
			for (uint32_t i = 0; i < rows * FEATURES; i++)
				element_set(type, x, i, b % 2 == 0 ? number() : (double) (int64_t) next_random() / 4e18);
			for (int p = 0; p < 3; p++)
				memcpy(x + places[p] * FEATURES * bytes, row, FEATURES * bytes);
			right = case_run(&c, rows, bindings, NULL, &status);
			for (int p = 0; p < 3; p++)
				right = right && memcmp(y + places[p] * f->trees.targets * bytes, alone, f->trees.targets * bytes) == 0;
		}
	}
	case_free(&c);
	free(x);
	free(y);
	free(row);
	return right;
}

static void
test_forests(struct device *device, const char *name)
{
	static struct forest f;
	static const char *const kinds[] = {"narrow", "wide", "float64"};

	for (int kind = 0; kind < 3; kind++)
	{
		bool		one = true;
		bool		several = true;
		bool		least = true;

		for (uint32_t trees = 1; trees <= TREES_MOST; trees += trees < 9 ? 1 : 11)
			for (int nan = 0; nan < 2; nan++)
			{
				uint8_t		type = kind == 2 ? DEVICE_F64 : DEVICE_F32;

				forest_make(&f, type, kind == 1, 1, trees, nan == 1);
				one = one && forest_check(device, &f, TREES_SUM);
				forest_make(&f, type, kind == 1, 3, trees, nan == 1);
				several = several && forest_check(device, &f, TREES_SUM);
				least = least && forest_check(device, &f, TREES_MIN) && forest_check(device, &f, TREES_MAX);
			}
		tap_ok(one, "%s, %s nodes, one target: right, and the same bits anywhere", name, kinds[kind]);
		tap_ok(several, "%s, %s nodes, three targets", name, kinds[kind]);
		tap_ok(least, "%s, %s nodes, the least and the greatest", name, kinds[kind]);
	}
}

static void
test_keys(void)
{
	static const float ascending[] = {-INFINITY, -3e38f, -1, -1e-40f, 0, 1e-40f, 1, 3e38f, INFINITY, NAN};
	bool		order = true;
	uint32_t	last = 0;
	uint64_t	last_f64 = 0;

	for (size_t i = 0; i < sizeof(ascending) / sizeof(*ascending); i++)
	{
		double		wide = ascending[i];
		uint32_t	bits;
		uint64_t	bits_f64;

		memcpy(&bits, &ascending[i], sizeof(bits));
		memcpy(&bits_f64, &wide, sizeof(bits_f64));
		order = order && device_key_f32(bits) > last && device_key_f64(bits_f64) > last_f64;
		last = device_key_f32(bits);
		last_f64 = device_key_f64(bits_f64);
	}
	tap_ok(order && last == UINT32_MAX && last_f64 == UINT64_MAX, "keys are in the order of numbers, NaN last");
	tap_ok(device_key_f32(0x80000000) == device_key_f32(0) && device_key_f32(0xFFC00001) == UINT32_MAX,
		   "-0 is 0, and every NaN is one");
}

/* Stumps, each of whose leaves has so many votes. */
static uint64_t
stumps_estimate(struct device *device, uint32_t votes)
{
	enum { STUMPS = 100, VOTES_MOST = 50 };
	static struct device_tree_node *nodes;
	static uint32_t roots[STUMPS];
	static uint32_t depths[STUMPS];
	static uint32_t votes_first[3 * STUMPS + 1];
	static uint32_t votes_target[2 * STUMPS * VOTES_MOST];
	static float weights[2 * STUMPS * VOTES_MOST];
	struct device_trees trees = {
		.type = DEVICE_F32, .trees_count = STUMPS, .nodes_count = 3 * STUMPS, .features = 1, .targets = 1, .roots = roots,
		.depths = depths, .votes_first = votes_first, .votes_target = votes_target, .votes_weight = weights
	};
	struct op_case c = {.op = {.op = DEVICE_OP_TREES, .fn = TREES_SUM, .params = &trees}, .inputs_count = 1};
	struct device_batch batch = {.items = {1, 1000}};
	uint64_t	nsec;

	if (nodes == NULL)
		nodes = case_alloc(3 * STUMPS * sizeof(*nodes));
	for (uint32_t n = 0; n < 3 * STUMPS; n++)
	{
		roots[n / 3] = n / 3 * 3;
		depths[n / 3] = 1;
		nodes[n] = (struct device_tree_node) {n % 3 == 0 ? device_key_f32(0) : UINT32_MAX, 0, n % 3 == 0 ? 1 : n % 3};
		votes_first[n + 1] = votes_first[n] + (n % 3 == 0 ? 0 : votes);
	}
	trees.nodes = nodes;
	c.tensors[0] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 2, (int64_t[]) {1, 1});
	c.tensors[1] = case_tensor(DEVICE_F32, DEVICE_LEAD_ROWS, 2, (int64_t[]) {1, 1});
	if (!case_compile(&c, device))
		return 0;
	nsec = device->ops->estimate_nsec(device, c.program, &batch);
	case_free(&c);
	return nsec;
}

static void
test_estimate(struct device *device)
{
	uint64_t	few = stumps_estimate(device, 1);
	uint64_t	many = stumps_estimate(device, 50);

	tap_ok(few > 0 && many > 5 * few, "votes are a part of the predicted time (%llu nsec, and %llu of fifty times as many)",
		   (unsigned long long) few, (unsigned long long) many);
}

int
main(void)
{
	struct device *device;

	test_keys();
	for (int threads = 1; threads <= 2 && case_wants("cpu"); threads++)
	{
		device = case_device("cpu", getenv("INFER_CPU"), threads);
		test_forests(device, threads == 1 ? "1 thread" : "2 threads");
		if (threads == 1)
			test_estimate(device);
		device->ops->close(device);
	}
	device = case_cuda_device(1);
	if (device != NULL)
	{
		test_forests(device, "cuda");
		test_estimate(device);
		device_close(device);
	}
	else if (case_wants("cuda"))
		tap_skip("cuda", "cannot be opened");
	return tap_done();
}
