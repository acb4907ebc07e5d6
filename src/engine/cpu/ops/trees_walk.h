/*
 * trees_walk.h
 *	  A block of rows through all trees, for one kind of node; included by trees.c with
 *
 *	 NAME(name)			the name for this kind
 *	 NODE, KEY, NUMBER	types of a node, of its key, of features and weights
 *	 KEY_OF, KEY_NAN	a number's bits as key; the key of NaN
 */

/*
 * The keys of rows × features, lane by lane.  nans[g]:
 * whether group g has one that matters.
 */
static void
NAME(keys_make) (const struct device_trees *trees, const NUMBER *x, KEY *keys, uint32_t rows, bool *nans)
{
	uint32_t	features = trees->features;

	for (uint32_t r = 0; r < rows; r++)
	{
		KEY		   *to = keys + (size_t) (r / LANES) * features * LANES + r % LANES;
		KEY			greatest = 0;

		for (uint32_t f = 0; f < features; f++)
		{
			KEY			bits;
			KEY			key;

			memcpy(&bits, &x[(size_t) r * features + f], sizeof(bits));
			key = KEY_OF(bits);
			greatest = key > greatest ? key : greatest;
			to[(size_t) f * LANES] = key;
		}
		if (r % LANES == 0)
			nans[r / LANES] = false;
		nans[r / LANES] |= greatest == KEY_NAN;
	}
}

/* Where a lane goes from a node.  nan_left is that of its tree's root, or NULL. */
static inline __attribute__((always_inline)) uint32_t
NAME(step) (const NODE *nodes, const KEY *keys, const uint8_t *nan_left, uint32_t at)
{
	const NODE *node = nodes + at;
	KEY			key = keys[node->feature];
	uint32_t	right = node->key < key;

	if (nan_left != NULL)
		right &= 1u ^ ((uint32_t) (key == KEY_NAN) & nan_left[at]);
	return node->child + right;
}

/* A group in one tree. */
static inline __attribute__((always_inline)) void
NAME(walk_rows) (const NODE *nodes, const KEY *keys, const uint8_t *nan_left, uint32_t depth,
				 uint32_t at[LANES])
{
	uint32_t	lane[LANES] = {0};
	uint32_t	look = depth < STEPS_SURE ? depth : STEPS_SURE;

	for (uint32_t done = 0; done < depth;)
	{
		uint32_t	moved = 0;

		for (; done < look; done++)
		{
			UNROLL
			for (int l = 0; l < LANES; l++)
				lane[l] = NAME(step) (nodes, keys + l, nan_left, lane[l]);
		}
		UNROLL
		for (int l = 0; l < LANES; l++)
			moved |= nodes[lane[l]].child ^ lane[l];
		if (moved == 0)
			break;
		look = depth - done < STEPS_LOOK ? depth : done + STEPS_LOOK;
	}
	memcpy(at, lane, sizeof(lane));
}

/* One row in LANES trees from the tree first on; leaves as indexes among all nodes. */
static inline __attribute__((always_inline)) void
NAME(walk_trees) (const struct device_trees *trees, uint32_t first, const KEY *keys,
				  const uint8_t *nan_left, uint32_t at[LANES])
{
	const NODE *nodes[LANES];
	uint32_t	lane[LANES] = {0};
	uint32_t	depth = 0;

	for (int l = 0; l < LANES; l++)
	{
		nodes[l] = (const NODE *) trees->nodes + trees->roots[first + l];
		depth = depth < trees->depths[first + l] ? trees->depths[first + l] : depth;
	}
	for (uint32_t done = 0; done < depth; done++)
	{
		UNROLL
		for (int l = 0; l < LANES; l++)
			lane[l] = NAME(step) (nodes[l], keys,
								  nan_left == NULL ? NULL : nan_left + trees->roots[first + l], lane[l]);
	}
	for (int l = 0; l < LANES; l++)
		at[l] = trees->roots[first + l] + lane[l];
}

static inline __attribute__((always_inline)) uint32_t
NAME(walk_one) (const struct device_trees *trees, uint32_t tree, const KEY *keys, const uint8_t *nan_left)
{
	uint32_t	root = trees->roots[tree];
	uint32_t	at = 0;

	for (uint32_t done = 0; done < trees->depths[tree]; done++)
		at = NAME(step) ((const NODE *) trees->nodes + root, keys, nan_left == NULL ? NULL : nan_left + root, at);
	return root + at;
}

/* What a leaf says, to a row's scores.  For MIN and MAX a NaN is "nothing yet". */
static inline void
NAME(votes_add) (const struct device_trees *trees, int fn, uint32_t leaf, NUMBER *scores)
{
	const NUMBER *weights = trees->votes_weight;

	for (uint32_t v = trees->votes_first[leaf]; v < trees->votes_first[leaf + 1]; v++)
	{
		NUMBER	   *score = scores + trees->votes_target[v];

		if (fn == TREES_SUM)
			*score += weights[v];
		else if (fn == TREES_MIN ? !(*score <= weights[v]) : !(*score >= weights[v]))
			*score = weights[v];
	}
}

static inline __attribute__((always_inline)) void
NAME(leaf_add) (const struct device_trees *trees, int fn, uint32_t leaf, NUMBER *scores)
{
	if (trees->values != NULL)
		*scores += ((const NUMBER *) trees->values)[leaf];
	else
		NAME(votes_add) (trees, fn, leaf, scores);
}

static inline __attribute__((always_inline)) void
NAME(row_in_trees) (const struct device_trees *trees, int fn, const KEY *keys, const uint8_t *nan_left,
					NUMBER *scores)
{
	uint32_t	tree = 0;
	uint32_t	at[LANES];

	for (; trees->trees_count - tree >= LANES; tree += LANES)
	{
		NAME(walk_trees) (trees, tree, keys, nan_left, at);
		for (int l = 0; l < LANES; l++)
			NAME(leaf_add) (trees, fn, at[l], scores);
	}
	for (; tree < trees->trees_count; tree++)
		NAME(leaf_add) (trees, fn, NAME(walk_one) (trees, tree, keys, nan_left), scores);
}

static inline __attribute__((always_inline)) void
NAME(group_in_tree) (const struct device_trees *trees, int fn, uint32_t tree, const KEY *keys,
					 const uint8_t *nan_left, NUMBER *scores)
{
	uint32_t	root = trees->roots[tree];
	uint32_t	at[LANES];

	NAME(walk_rows) ((const NODE *) trees->nodes + root, keys, nan_left == NULL ? NULL : nan_left + root,
					 trees->depths[tree], at);
	for (int l = 0; l < LANES; l++)
		NAME(leaf_add) (trees, fn, root + at[l], scores + (size_t) l * trees->targets);
}

static void
NAME(block) (const struct device_trees *trees, int fn, const NUMBER *x, KEY *keys, NUMBER *y, uint32_t rows)
{
	size_t		stride = (size_t) trees->features * LANES;
	size_t		numbers = (size_t) rows * trees->targets;
	uint32_t	groups = rows / LANES;
	bool		nans[BLOCK_ROWS / LANES + 1];

	NAME(keys_make) (trees, x, keys, rows, nans);
	for (size_t i = 0; i < numbers; i++)
		y[i] = fn == TREES_SUM ? 0 : NAN;
	for (uint32_t tree = 0; groups > 0 && tree < trees->trees_count; tree++)
		for (uint32_t g = 0; g < groups; g++)
		{
			NUMBER	   *scores = y + (size_t) g * LANES * trees->targets;

			if (nans[g] && trees->nan_left != NULL)
				NAME(group_in_tree) (trees, fn, tree, keys + g * stride, trees->nan_left, scores);
			else
				NAME(group_in_tree) (trees, fn, tree, keys + g * stride, NULL, scores);
		}
	for (uint32_t r = groups * LANES; r < rows; r++)
	{
		const KEY  *row = keys + groups * stride + r % LANES;
		NUMBER	   *scores = y + (size_t) r * trees->targets;

		if (nans[groups] && trees->nan_left != NULL)
			NAME(row_in_trees) (trees, fn, row, trees->nan_left, scores);
		else
			NAME(row_in_trees) (trees, fn, row, NULL, scores);
	}
	for (size_t i = 0; fn != TREES_SUM && i < numbers; i++)
		y[i] = isnan(y[i]) ? 0 : y[i];
}

#undef NAME
#undef NODE
#undef KEY
#undef KEY_OF
#undef KEY_NAN
#undef NUMBER
