"""Write models of the benchmarks as ONNX files: _make_models.py FOLDER [NAME ...]; default: tiny wide

tiny.onnx	28 -> 64 (relu) -> 1, what a call costs when the model costs nothing
mid.onnx	28 -> 1024 -> 1024 -> 1, heavy.onnx 28 -> 3584 -> 3584 -> 1, ten.onnx 10 -> 16 -> 1: see statement.sh
wide.onnx	784 -> 2048 -> 2048 -> 10, 23 MB of weights: what batching is for
forest.onnx	8,000 full trees of depth 6 over 28 features: a row that costs trees what wide costs products

Weights are random with a fixed seed; nothing here predicts anything.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mlp(sizes, seed):
    rng = np.random.default_rng(seed)
    nodes, weights, value = [], [], "x"
    for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
        matrix = (rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32)
        weights.append(numpy_helper.from_array(matrix, f"w{i}"))
        weights.append(numpy_helper.from_array(np.zeros(n, np.float32), f"b{i}"))
        last = i == len(sizes) - 2
        output = "y" if last else f"linear{i}"
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [output]))
        if not last:
            value = f"relu{i}"
            nodes.append(helper.make_node("Relu", [output], [value]))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", sizes[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", sizes[-1]])],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def forest(trees, depth, features, seed):
    """Full trees, node 2n + 1 and 2n + 2 below node n, random splits of N(0, 1)."""
    rng = np.random.default_rng(seed)
    inner, leaves = 2**depth - 1, 2**depth
    count = inner + leaves
    of_tree = np.tile(np.arange(count), trees)
    inside = of_tree < inner
    column = {
        "nodes_treeids": np.repeat(np.arange(trees), count),
        "nodes_nodeids": of_tree,
        "nodes_featureids": np.where(inside, rng.integers(0, features, trees * count), 0),
        "nodes_values": np.where(inside, rng.standard_normal(trees * count), 0).astype(np.float32),
        "nodes_truenodeids": np.where(inside, 2 * of_tree + 1, 0),
        "nodes_falsenodeids": np.where(inside, 2 * of_tree + 2, 0),
        "target_treeids": np.repeat(np.arange(trees), leaves),
        "target_nodeids": np.tile(np.arange(inner, count), trees),
        "target_ids": np.zeros(trees * leaves, int),
        "target_weights": rng.standard_normal(trees * leaves).astype(np.float32),
    }
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_modes=["BRANCH_LEQ" if i else "LEAF" for i in inside],
        **{name: values.tolist() for name, values in column.items()},
    )
    graph = helper.make_graph(
        [node],
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
    )
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


MODELS = {
    "tiny": lambda: mlp([28, 64, 1], 7),
    "wide": lambda: mlp([784, 2048, 2048, 10], 7),
    "mid": lambda: mlp([28, 1024, 1024, 1], 7),
    "heavy": lambda: mlp([28, 3584, 3584, 1], 7),
    "ten": lambda: mlp([10, 16, 1], 7),
    "forest": lambda: forest(8000, 6, 28, 7),
}
for name in sys.argv[2:] or ["tiny", "wide"]:
    onnx.save(MODELS[name](), f"{sys.argv[1]}/{name}.onnx")
