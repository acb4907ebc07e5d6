"""Random tree ensembles for generate.py: every mode, missing value, vote and post-transform."""
import numpy as np
from onnx import numpy_helper

MODES = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ']
MEMBER = 6


def tensor(values, dtype):
    return numpy_helper.from_array(np.array(values, dtype))


def grow(rng, trees, depth, features, modes, full=False):
    """[tree] of [node]: (mode, feature, value, yes, no, missing) or None for a leaf; node 0 is the root."""
    forest = []
    for _ in range(trees):
        nodes = []

        def node(level):
            at = len(nodes)
            nodes.append(None)
            if level < depth and (full or level == 0 or rng.random() < 0.8):
                mode = modes[rng.integers(len(modes))]
                # values are quarters, and so are half of the inputs: every comparison sees equals
                nodes[at] = [mode, int(rng.integers(features)), float(rng.integers(-4, 5)) / 4, 0, 0, int(rng.integers(2))]
                nodes[at][3] = node(level + 1)
                nodes[at][4] = node(level + 1)
            return at
        node(0)
        forest.append(nodes)
    return forest


def inputs(rng, rows, features, dtype=np.float32, missing=0.0):
    x = rng.uniform(-1.2, 1.2, (rows, features)).astype(dtype)
    x[::2] = np.round(x[::2] * 4) / 4
    x[rng.random(x.shape) < missing] = np.nan
    return x


def attributes(forest, prefix, vote, missing=False, shuffle=None, double=False):
    """Attributes up to version 3.  vote(tree, leaf) gives [(id, weight)]."""
    rows, votes = [], []
    for t, nodes in enumerate(forest):
        leaf = 0
        for n, node in enumerate(nodes):
            if node is None:
                rows.append((t, n, 'LEAF', 0, 0.0, 0, 0, 0))
                votes += [(t, n, i, w) for i, w in vote(t, leaf)]
                leaf += 1
            else:
                rows.append((t, n, *node))
    if shuffle is not None:     # the root stays the first of its tree
        heads = [r for r in rows if r[1] == 0]
        rest = [r for r in rows if r[1] != 0]
        rest = [rest[k] for k in shuffle.permutation(len(rest))]
        rows = sorted(heads + rest, key=lambda r: r[0])
    column = list(zip(*rows))
    found = dict(nodes_treeids=column[0], nodes_nodeids=column[1], nodes_modes=column[2], nodes_featureids=column[3],
                 nodes_values=column[4], nodes_truenodeids=column[5], nodes_falsenodeids=column[6])
    if missing:
        found['nodes_missing_value_tracks_true'] = column[7]
    vote_column = list(zip(*votes))
    for name, values in zip(('treeids', 'nodeids', 'ids', 'weights'), vote_column):
        found[f'{prefix}_{name}'] = values
    found = {k: list(v) for k, v in found.items()}
    if double:
        for name in ('nodes_values', f'{prefix}_weights'):
            found[name + '_as_tensor'] = tensor(found.pop(name), np.float64)
    return found


def attributes_5(rng, forest, targets, dtype, missing=False, sets=()):
    """Attributes of TreeEnsemble 5; a mode that is a number of a set in sets is membership."""
    nodes, roots, weights, ids, members = [], [], [], [], []
    names = {m: k for k, m in enumerate(MODES)}
    for tree in forest:
        place, leaves = {}, {}
        for n, node in enumerate(tree):
            if node is None:
                leaves[n] = len(weights)
                weights.append(rng.normal())
                ids.append(int(rng.integers(targets)))
            else:
                place[n] = len(nodes) + len(place)
        roots.append(len(nodes))
        for node in tree:
            if node is None:
                continue
            mode, feature, value, yes, no, miss = node
            if isinstance(mode, int):
                members += [*sets[mode], np.nan]
                mode = MEMBER
            else:
                mode = names[mode]
            edge = [(leaves[k], 1) if k in leaves else (place[k], 0) for k in (yes, no)]
            nodes.append((mode, feature, value, edge[0][0], edge[0][1], edge[1][0], edge[1][1], miss))
    column = list(zip(*nodes))
    found = dict(tree_roots=roots, n_targets=targets, nodes_modes=tensor(column[0], np.uint8), nodes_featureids=list(column[1]),
                 nodes_splits=tensor(column[2], dtype), nodes_truenodeids=list(column[3]), nodes_trueleafs=list(column[4]),
                 nodes_falsenodeids=list(column[5]), nodes_falseleafs=list(column[6]), leaf_targetids=ids,
                 leaf_weights=tensor(weights, dtype))
    if missing:
        found['nodes_missing_value_tracks_true'] = list(column[7])
    if members:
        found['membership_values'] = tensor(members, dtype)
    return found


def evaluate(x, attributes, post):
    """TreeEnsemble 5 with SUM, by the specification."""
    a = {k: numpy_helper.to_array(v) if hasattr(v, 'raw_data') else v for k, v in attributes.items()}
    modes, splits = a['nodes_modes'], a['nodes_splits']
    sets = np.split(a.get('membership_values', splits[:0]), np.flatnonzero(np.isnan(a.get('membership_values', splits[:0]))) + 1)
    of_node = dict(zip(np.flatnonzero(modes == MEMBER), sets))
    missing = a.get('nodes_missing_value_tracks_true', [0] * len(modes))
    test = [np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal]
    y = np.zeros((len(x), a['n_targets']), x.dtype)
    for row, out in zip(x, y):
        for node in a['tree_roots']:
            leaf = False
            while not leaf:
                v = row[a['nodes_featureids'][node]]
                yes = v in of_node[node] if modes[node] == MEMBER else test[modes[node]](v, splits[node])
                yes = yes or np.isnan(v) and missing[node] == 1
                side = 'true' if yes else 'false'
                leaf, node = a[f'nodes_{side}leafs'][node], a[f'nodes_{side}nodeids'][node]
            out[a['leaf_targetids'][node]] += a['leaf_weights'][node]
    if post == 1:
        y = np.exp(y - y.max(1, keepdims=True))
        y /= y.sum(1, keepdims=True)
    return 1 / (1 + np.exp(-y)) if post == 2 else y


def cases(add, versions, domain):
    rng = np.random.default_rng(5)
    for op in ('TreeEnsembleClassifier', 'TreeEnsembleRegressor'):
        for version, opset in versions(op, domain):
            (classifier if op == 'TreeEnsembleClassifier' else regressor)(add, rng, version, opset, domain)
    # where the newest version deprecates an operator, its files are still read
    for op in (classifier, regressor):
        op(add, rng, 5, 5, domain, few=True)
    for version, opset in versions('TreeEnsemble', domain):
        ensemble(add, rng, version, opset, domain)


def regressor(add, rng, version, opset, domain, few=False):
    op = 'TreeEnsembleRegressor'

    def one(label, forest, x, targets=1, votes=None, missing=False, shuffle=None, double=False, **more):
        vote = votes or (lambda t, leaf: [(k, float(rng.normal())) for k in range(targets)])
        add(op, version, opset, label, [x], domain=domain, n_targets=targets,
            **attributes(forest, 'target', vote, missing, shuffle, double), **more)
    forest = grow(rng, 7, 4, 5, MODES)
    one('mixed', forest, inputs(rng, 40, 5))
    if few:
        return
    one('missing', forest, inputs(rng, 40, 5, missing=0.2), missing=True)
    for mode in MODES:
        forest = grow(rng, 3, 4, 3, [mode])
        one('mode_' + mode[7:].lower(), forest, inputs(rng, 40, 3))
        one('mode_' + mode[7:].lower() + '_nan', forest, inputs(rng, 40, 3, missing=0.3))
        one('mode_' + mode[7:].lower() + '_missing', forest, inputs(rng, 40, 3, missing=0.3), missing=True)
    forest = grow(rng, 9, 5, 4, ['BRANCH_LEQ'])
    one('shuffled', forest, inputs(rng, 20, 4), shuffle=np.random.default_rng(1))
    one('f64', forest, inputs(rng, 20, 4, np.float64))
    one('vector', forest, inputs(rng, 1, 4)[0])
    one('leaf_only', [[None], [None]], inputs(rng, 4, 2))
    one('deep', grow(rng, 2, 14, 4, ['BRANCH_LEQ', 'BRANCH_LT']), inputs(rng, 30, 4))
    one('odd_trees', grow(rng, 17, 3, 4, ['BRANCH_LT']), inputs(rng, 19, 4))
    if version >= 3:
        one('f64_tensors', forest, inputs(rng, 20, 4, np.float64), double=True, base_values_as_tensor=tensor([0.25], np.float64))
    for aggregate in ('SUM', 'AVERAGE', 'MIN', 'MAX'):
        name = aggregate.lower()
        one(name, forest, inputs(rng, 20, 4), aggregate_function=aggregate, base_values=[0.5])
        one(name + '_three', forest, inputs(rng, 20, 4), 3, aggregate_function=aggregate, base_values=[0.5, -1.0, 2.0])
        one(name + '_sparse', forest, inputs(rng, 20, 4), 3, votes=lambda t, leaf: [(t % 3, float(rng.normal()))],
            aggregate_function=aggregate)
    for post in ('NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO'):
        one('post_' + post.lower(), forest, inputs(rng, 20, 4), 3, post_transform=post)
        one('post_one_' + post.lower(), forest, inputs(rng, 20, 4), post_transform=post)
    one('post_probit', forest, inputs(rng, 20, 4), votes=lambda t, leaf: [(0, float(rng.uniform(0.02, 0.09)))], post_transform='PROBIT')


def classifier(add, rng, version, opset, domain, few=False):
    op = 'TreeEnsembleClassifier'

    def one(label, forest, x, labels, vote, missing=False, **more):
        key = 'classlabels_strings' if isinstance(labels[0], str) else 'classlabels_int64s'
        add(op, version, opset, label, [x], domain=domain, outputs=2, **{key: labels},
            **attributes(forest, 'class', vote, missing, double=more.pop('double', False)), **more)
    forest = grow(rng, 6, 4, 4, ['BRANCH_LEQ'])

    def dense(count, low, high):
        return lambda t, leaf: [(k, float(rng.uniform(low, high))) for k in range(count)]

    def sparse(ids, low, high):
        return lambda t, leaf: [(ids[t % len(ids)], float(rng.uniform(low, high)))]
    one('three', forest, inputs(rng, 20, 4), ['a', 'b', 'c'], dense(3, 0, 0.3))
    one('missing', forest, inputs(rng, 20, 4, missing=0.2), ['a', 'b', 'c'], dense(3, 0, 0.3), missing=True)
    if few:
        return
    one('three_ints', forest, inputs(rng, 20, 4), [5, -7, 9], dense(3, 0, 0.3))
    one('f64', forest, inputs(rng, 20, 4, np.float64), [5, -7, 9], dense(3, 0, 0.3))
    one('i64', forest, rng.integers(-2, 3, (20, 4)), [5, -7, 9], dense(3, 0, 0.3))
    one('mixed', grow(rng, 5, 4, 4, MODES), inputs(rng, 20, 4), [0, 1, 2], dense(3, -1, 1))
    one('by_tree', forest, inputs(rng, 20, 4), [0, 1, 2], sparse([0, 1, 2], -1, 1), base_values=[0.5, 0.25, -0.5])
    one('negative', forest, inputs(rng, 20, 4), [0, 1, 2], sparse([0, 2], -1, -0.5))
    # every tree votes for something, and which classes have votes depends on the row
    one('sometimes', forest, inputs(rng, 20, 4), [0, 1, 2], lambda t, leaf: [(int(rng.integers(3)), float(rng.uniform(-1, 0.1)))])
    one('positive', forest, inputs(rng, 20, 4), [0, 1, 2], lambda t, leaf: [(int(rng.integers(3)), float(rng.uniform(0.1, 1)))])
    if version >= 3:
        one('f64_tensors', forest, inputs(rng, 20, 4, np.float64), ['a', 'b', 'c'], dense(3, 0, 0.3), double=True)
    for post in ('NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO'):
        name = post.lower()
        one('post_' + name, forest, inputs(rng, 20, 4), [0, 1, 2], dense(3, -0.5, 0.5), post_transform=post)
        for sign, low, high in (('positive', 0, 0.2), ('mixed', -0.5, 0.5)):
            for base in ([], [0.1], [0.1, -0.2]):
                label = f'two_{name}_{sign}_base{len(base)}'
                more = dict(post_transform=post, base_values=base or None)
                one(label + '_first', forest, inputs(rng, 20, 4), ['no', 'yes'], sparse([0], low, high), **more)
                one(label + '_second', forest, inputs(rng, 20, 4), ['no', 'yes'], sparse([1], low, high), **more)
                one(label + '_both', forest, inputs(rng, 20, 4), ['no', 'yes'], dense(2, low, high), **more)
    one('two_ints', forest, inputs(rng, 20, 4), [-3, 8], sparse([0], -0.5, 0.5))


def ensemble(add, rng, version, opset, domain):
    op = 'TreeEnsemble'
    for label, dtype in (('f32', np.float32), ('f64', np.float64)):
        def one(name, forest, x, targets=1, missing=False, sets=(), **more):
            attributes = attributes_5(rng, forest, targets, dtype, missing, sets)
            # onnxruntime exchanges the numbers of SOFTMAX and LOGISTIC, and reads no sets of its own accord
            add(op, version, opset, f'{name}_{label}', [x], domain=domain, own=bool(sets) or more.get('post_transform') in (1, 2),
                expect=lambda x: evaluate(x, attributes, more.get('post_transform', 0)), **attributes, **more)
        for mode in MODES:
            one(mode[7:].lower(), grow(rng, 4, 4, 3, [mode], full=True), inputs(rng, 30, 3, dtype))
        mixed = grow(rng, 6, 4, 4, MODES)
        one('mixed', mixed, inputs(rng, 30, 4, dtype), 3)
        one('missing', grow(rng, 6, 4, 4, ['BRANCH_LEQ', 'BRANCH_LT']), inputs(rng, 30, 4, dtype, 0.2), 1, True)
        sets = ([-1.0, 0.25, 0.5], [0.0], [-0.75, -0.5, -0.25, 0.75, 1.0, 1.25])
        one('member', grow(rng, 5, 4, 4, [0, 1, 2]), inputs(rng, 30, 4, dtype), 2, sets=sets)
        one('member_mixed', grow(rng, 5, 4, 4, [0, 1, 2, 'BRANCH_LEQ', 'BRANCH_LT']), inputs(rng, 30, 4, dtype), 2, sets=sets)
        for aggregate, name in enumerate(('average', 'sum', 'min', 'max')):
            one(name, mixed, inputs(rng, 30, 4, dtype), 2, aggregate_function=aggregate)
            one(name + '_one', mixed, inputs(rng, 30, 4, dtype), 1, aggregate_function=aggregate)
        for post, name in enumerate(('none', 'softmax', 'logistic', 'softmax_zero')):
            one('post_' + name, mixed, inputs(rng, 30, 4, dtype), 3, post_transform=post)
