"""Write the models of the benchmarks as ONNX files: _make_models.py FOLDER

tiny.onnx	28 -> 64 (relu) -> 1, what a call costs when the model costs nothing
wide.onnx	784 -> 2048 -> 2048 -> 10, 23 MB of weights: what batching is for

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


onnx.save(mlp([28, 64, 1], 7), sys.argv[1] + "/tiny.onnx")
onnx.save(mlp([784, 2048, 2048, 10], 7), sys.argv[1] + "/wide.onnx")
