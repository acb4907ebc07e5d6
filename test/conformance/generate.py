#!/usr/bin/env python3
"""Write a small case for every version of every operator, with onnxruntime as oracle.

    generate.py FOLDER      FOLDER/<operator>_<version>_<label>/model.onnx, test_data_set_0/*.pb

The ONNX project's node tests hold only the newest version of each operator; older files are
as common.  For each operator the versions in force somewhere in opset 6 to 25 are taken from
the schemas, and each version's cases run at the first opset where it is in force.  Where
onnxruntime has no kernel of a version, the case says what it expects itself (numpy) or the
reference evaluator of the onnx package answers; FOLDER/oracles.txt says which.
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnx.defs
import onnx.numpy_helper
import onnx.reference
import onnxruntime as ort
import trees
from onnx import TensorProto as T
from onnx import helper

OPSET_FIRST, OPSET_LAST = 6, 25
ML_FIRST, ML_LAST = 1, 5
IR_OF_OPSET = {6: 3, 7: 3, 8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8,
               18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13}

rng = np.random.default_rng(20240229)
cases = []


class Const:
    """An input that is an initialiser of the model."""

    def __init__(self, array):
        self.array = np.asarray(array)


def versions(op, domain=''):
    """The versions in force, each with the opset that its cases use."""
    first, last = (OPSET_FIRST, OPSET_LAST) if domain == '' else (ML_FIRST, ML_LAST)
    found = {}
    for opset in range(first, last + 1):
        try:
            schema = onnx.defs.get_schema(op, opset, domain)
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            found.setdefault(schema.since_version, opset)
    return sorted(found.items())


def add(op, version, opset, label, inputs, expect=None, domain='', outputs=1, out_types=None, map_keys=None, own=False, **attrs):
    cases.append(dict(op=op, version=version, opset=opset, label=label, inputs=inputs, expect=expect,
                      domain=domain, outputs=outputs, out_types=out_types, map_keys=map_keys, own=own,
                      attrs={k: v for k, v in attrs.items() if v is not None}))


def f32(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def f64(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape)


def i64(*shape, low=-5, high=6):
    return rng.integers(low, high, shape).astype(np.int64)


def boolean(*shape):
    return rng.integers(0, 2, shape).astype(bool)


# ---- elementwise ----

UNARY = {
    'Abs': (-3, 3), 'Neg': (-3, 3), 'Sign': (-3, 3), 'Reciprocal': (0.2, 3), 'Sqrt': (0, 9),
    'Exp': (-4, 4), 'Log': (0.01, 9), 'Floor': (-3, 3), 'Ceil': (-3, 3), 'Round': (-3, 3),
    'Erf': (-3, 3), 'Tanh': (-4, 4), 'Sigmoid': (-9, 9), 'Sin': (-6, 6), 'Cos': (-6, 6),
    'Tan': (-1.4, 1.4), 'Asin': (-1, 1), 'Acos': (-1, 1), 'Atan': (-4, 4), 'Sinh': (-3, 3),
    'Cosh': (-3, 3), 'Asinh': (-4, 4), 'Acosh': (1, 9), 'Atanh': (-0.9, 0.9), 'Relu': (-2, 2),
    'Softplus': (-9, 9), 'Softsign': (-4, 4), 'Mish': (-5, 5), 'HardSwish': (-5, 5),
}
UNARY_ATTRS = {
    'LeakyRelu': [{}, {'alpha': 0.3}], 'Elu': [{}, {'alpha': 0.7}],
    'Selu': [{}, {'alpha': 1.5, 'gamma': 1.2}], 'Celu': [{}, {'alpha': 0.6}],
    'ThresholdedRelu': [{}, {'alpha': 0.4}], 'HardSigmoid': [{}, {'alpha': 0.3, 'beta': 0.4}],
    'Shrink': [{}, {'lambd': 0.8, 'bias': 0.3}], 'Gelu': [{}, {'approximate': 'tanh'}],
    'Swish': [{}, {'alpha': 1.7}],
}


def elementwise():
    for op, (low, high) in UNARY.items():
        for version, opset in versions(op):
            add(op, version, opset, 'f32', [f32(3, 5, low=low, high=high)])
            if op in ('Exp', 'Log', 'Tanh', 'Sigmoid', 'Abs', 'Neg', 'Sqrt', 'Erf', 'Floor', 'Relu'):
                add(op, version, opset, 'f64', [f64(2, 9, low=low, high=high)],
                    expect={'Erf': _erf, 'Relu': lambda x: np.maximum(x, 0),
                            'Sigmoid': lambda x: 1 / (1 + np.exp(-x))}.get(op, getattr(np, op.lower(), None)
                                                                         if op != 'Neg' else np.negative))
    for op in ('Abs', 'Neg', 'Sign'):
        for version, opset in versions(op):
            add(op, version, opset, 'i64', [i64(7)])
    for op, variants in UNARY_ATTRS.items():
        for version, opset in versions(op):
            for k, attrs in enumerate(variants):
                add(op, version, opset, f'{k}', [f32(4, 3)], **attrs)
    for version, opset in versions('Not'):
        add('Not', version, opset, 'bool', [boolean(5)])
    special = np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)
    for version, opset in versions('IsNaN'):
        add('IsNaN', version, opset, 'f32', [special])
    for version, opset in versions('IsInf'):
        add('IsInf', version, opset, 'both', [special])
        add('IsInf', version, opset, 'positive', [special], detect_negative=0)
        add('IsInf', version, opset, 'negative', [special], detect_positive=0)
    for version, opset in versions('Clip'):
        if version < 11:
            add('Clip', version, opset, 'both', [f32(3, 4)], min=-0.5, max=0.75)
            add('Clip', version, opset, 'min', [f32(3, 4)], min=-0.5)
            add('Clip', version, opset, 'none', [f32(3, 4)])
        else:
            low, high = Const(np.float32(-0.5)), Const(np.float32(0.75))
            add('Clip', version, opset, 'both', [f32(3, 4), low, high])
            add('Clip', version, opset, 'min', [f32(3, 4), low])
            add('Clip', version, opset, 'max', [f32(3, 4), None, high])
            add('Clip', version, opset, 'none', [f32(3, 4)])
            add('Clip', version, opset, 'inputs', [f32(3, 4), np.float32(-0.25), np.float32(1.25)])
            if version >= 12:
                add('Clip', version, opset, 'i64', [i64(9), Const(np.int64(-2)), Const(np.int64(3))])
    for version, opset in versions('PRelu'):
        slope = f32(4)
        if version < 7:
            add('PRelu', version, opset, 'channel', [f32(2, 3, 2), Const(f32(3))], expect=lambda x, s: np.where(
                x < 0, x * s[:, None], x).astype(np.float32))
        else:
            add('PRelu', version, opset, 'last', [f32(3, 4), Const(slope)])
            add('PRelu', version, opset, 'one', [f32(3, 4), Const(f32(1))])


def _erf(x):
    import math
    return np.vectorize(math.erf)(x)


def binary():
    functions = {'Add': np.add, 'Sub': np.subtract, 'Mul': np.multiply, 'Div': np.divide, 'Pow': np.power,
                 'And': np.logical_and, 'Or': np.logical_or, 'Xor': np.logical_xor, 'Equal': np.equal,
                 'Less': np.less, 'Greater': np.greater}
    for op, function in functions.items():
        logic = op in ('And', 'Or', 'Xor')
        for version, opset in versions(op):
            def make(*shape):
                if logic:
                    return boolean(*shape)
                if op == 'Equal' and version < 11:
                    return i64(*shape, low=0, high=3)
                if op == 'Equal':
                    return i64(*shape, low=0, high=3).astype(np.float32)
                return f32(*shape, low=0.5, high=2)
            if opset < 7:
                # before NumPy's broadcasting: equal shapes, or broadcast=1 at axis
                def legacy(a, b, axis=None, fn=function):
                    if axis is not None:
                        b = b.reshape(b.shape + (1,) * (a.ndim - axis - b.ndim))
                    return fn(a, b)
                add(op, version, opset, 'same', [make(2, 3), make(2, 3)], expect=legacy)
                add(op, version, opset, 'suffix', [make(2, 3, 4), Const(make(3, 4))], expect=legacy, broadcast=1)
                add(op, version, opset, 'axis', [make(2, 3, 4), Const(make(3))],
                    expect=lambda a, b, legacy=legacy: legacy(a, b, 1), broadcast=1, axis=1)
                continue
            add(op, version, opset, 'same', [make(2, 3), make(2, 3)])
            add(op, version, opset, 'broadcast', [make(2, 1, 4), make(3, 1)])
            add(op, version, opset, 'constant', [make(2, 3), Const(make(3))])
            add(op, version, opset, 'scalar', [Const(make()), make(2, 3)])
            if op in ('Add', 'Sub', 'Mul', 'Div', 'Less', 'Greater', 'Equal') and version >= 9:
                add(op, version, opset, 'i64', [i64(4, low=1, high=9), i64(4, low=1, high=9)])
                add(op, version, opset, 'f64', [f64(4), f64(4)], expect=function)
    for op in ('LessOrEqual', 'GreaterOrEqual'):
        for version, opset in versions(op):
            add(op, version, opset, 'f32', [i64(6, low=0, high=3).astype(np.float32),
                                            i64(6, low=0, high=3).astype(np.float32)])
    for version, opset in versions('Equal'):
        if version >= 19:
            add('Equal', version, opset, 'string', [np.array(['a', 'b', 'c'], object), Const(np.array(['b'], object))])
    for version, opset in versions('Pow'):
        if version >= 12:
            add('Pow', version, opset, 'mixed', [f32(3, low=0.5), Const(np.array([2, 3, 0], np.int64))])
    for op in ('Min', 'Max', 'Sum', 'Mean'):
        for version, opset in versions(op):
            fold = {'Min': np.minimum, 'Max': np.maximum, 'Sum': np.add, 'Mean': np.add}[op]

            def expect(*arrays, fold=fold, op=op):
                total = arrays[0]
                for array in arrays[1:]:
                    total = fold(total, array)
                return total / np.float32(len(arrays)) if op == 'Mean' else total
            add(op, version, opset, 'one', [f32(2, 3)], expect=expect)
            add(op, version, opset, 'three', [f32(2, 3), f32(2, 3), f32(2, 3)], expect=expect)
            if version >= 8:
                add(op, version, opset, 'broadcast', [f32(2, 3), f32(1), Const(f32(2, 1))], expect=expect)
    for version, opset in versions('Mod'):
        add('Mod', version, opset, 'i64', [i64(9), Const(np.int64(3))])
        add('Mod', version, opset, 'negative', [i64(9), Const(np.int64(-4))])
        add('Mod', version, opset, 'fmod', [f32(9, low=-5, high=5), Const(np.float32(1.5))], fmod=1)
    for version, opset in versions('Where'):
        add('Where', version, opset, 'f32', [boolean(2, 3), f32(2, 3), Const(f32(1))])
        add('Where', version, opset, 'i64', [boolean(3), i64(2, 3), i64(3)])


# ---- products and normalisation ----

def linear():
    for version, opset in versions('Gemm'):
        legacy = {'broadcast': 1} if version < 7 else {}
        add('Gemm', version, opset, 'plain', [f32(3, 4), Const(f32(4, 5)), Const(f32(5))],
            expect=None if version >= 7 else lambda a, b, c: a @ b + c, **legacy)
        add('Gemm', version, opset, 'transb', [f32(3, 4), Const(f32(5, 4)), Const(f32(5))],
            expect=None if version >= 7 else lambda a, b, c: a @ b.T + c, transB=1, **legacy)
        add('Gemm', version, opset, 'scaled', [f32(4, 3), Const(f32(5, 4)), Const(f32(3, 5))],
            expect=None if version >= 7 else lambda a, b, c: 0.5 * (a.T @ b.T) + 2 * c,
            transA=1, transB=1, alpha=0.5, beta=2.0)
        add('Gemm', version, opset, 'f64', [f64(3, 4), Const(f64(4, 2)), Const(f64(2))],
            expect=lambda a, b, c: a @ b + c, **legacy)
        if version >= 7:
            add('Gemm', version, opset, 'computed', [f32(3, 4), f32(4, 5), f32(3, 1)])
        if version >= 11:
            add('Gemm', version, opset, 'nobias', [f32(3, 4), Const(f32(4, 5))])
    for version, opset in versions('MatMul'):
        add('MatMul', version, opset, 'constant', [f32(3, 4), Const(f32(4, 5))])
        add('MatMul', version, opset, 'computed', [f32(2, 3, 4), f32(4, 5)])
        add('MatMul', version, opset, 'vector', [f32(4), Const(f32(4, 5))])
        add('MatMul', version, opset, 'left', [Const(f32(2, 3)), f32(3, 4)])
        add('MatMul', version, opset, 'stacked', [f32(2, 1, 3, 4), f32(3, 4, 2)])
        if version >= 9:
            add('MatMul', version, opset, 'i64', [i64(2, 3), Const(i64(3, 2))], expect=np.matmul)
    for op in ('Softmax', 'LogSoftmax', 'Hardmax'):
        for version, opset in versions(op):
            add(op, version, opset, 'default', [f32(2, 3, 4)])
            add(op, version, opset, 'axis0', [f32(2, 3, 4)], axis=0)
            add(op, version, opset, 'axis1', [f32(2, 3, 4)], axis=1)
            add(op, version, opset, 'axis2', [f32(2, 3, 4)], axis=2)
            if version >= 11:
                add(op, version, opset, 'negative', [f32(2, 3, 4)], axis=-2)
            add(op, version, opset, 'large', [np.array([[1000, 1001, -1000, 5]], np.float32)])
    for version, opset in versions('LpNormalization'):
        for p in (1, 2):
            add('LpNormalization', version, opset, f'l{p}', [f32(3, 4)], p=p)
            add('LpNormalization', version, opset, f'l{p}_axis0', [f32(3, 4, 2)], p=p, axis=0)
    for version, opset in versions('BatchNormalization'):
        def expect(x, s, b, m, v, eps=1e-5):
            shape = (-1,) + (1,) * (x.ndim - 2)
            return (s.reshape(shape) * (x - m.reshape(shape)) / np.sqrt(v.reshape(shape) + np.float32(eps))
                    + b.reshape(shape)).astype(x.dtype)
        legacy = {'is_test': 1} if version < 7 else {}

        def stats(make):
            return [Const(make(3)), Const(make(3)), Const(make(3)), Const(make(3, low=0.5, high=2))]
        add('BatchNormalization', version, opset, 'image', [f32(2, 3, 2, 2)] + stats(f32), expect=expect, **legacy)
        add('BatchNormalization', version, opset, 'features', [f32(4, 3)] + stats(f32), expect=expect, **legacy)
        add('BatchNormalization', version, opset, 'epsilon', [f32(2, 3, 4)] + stats(f32),
            expect=lambda *a, e=expect: e(*a, eps=0.1), epsilon=0.1, **legacy)
        add('BatchNormalization', version, opset, 'f64', [f64(2, 3)] + stats(f64), expect=lambda *a, e=expect: e(*a), **legacy)


# ---- shapes ----

def shapes():
    for version, opset in versions('Reshape'):
        add('Reshape', version, opset, 'plain', [f32(2, 3, 4), Const(np.array([4, 6]))])
        add('Reshape', version, opset, 'inferred', [f32(2, 3, 4), Const(np.array([0, -1]))])
        if version >= 14:
            add('Reshape', version, opset, 'zero', [np.zeros((0, 3), np.float32), Const(np.array([3, 0]))], allowzero=1)
    for version, opset in versions('Flatten'):
        for axis in (None, 0, 2, 3):
            add('Flatten', version, opset, f'axis{axis}', [f32(2, 3, 4)], axis=axis)
        if version >= 11:
            add('Flatten', version, opset, 'negative', [f32(2, 3, 4)], axis=-1)
    for version, opset in versions('Transpose'):
        add('Transpose', version, opset, 'default', [f32(2, 3, 4)])
        add('Transpose', version, opset, 'perm', [f32(2, 3, 4)], perm=[1, 0, 2])
        add('Transpose', version, opset, 'i64', [i64(2, 3)])
    for op, shape, axes in (('Squeeze', (1, 3, 1), [0, 2]), ('Unsqueeze', (3, 2), [0, 3])):
        for version, opset in versions(op):
            if version < 13:
                add(op, version, opset, 'attribute', [f32(*shape)], axes=axes)
            else:
                add(op, version, opset, 'input', [f32(*shape), Const(np.array(axes))])
            if version >= 13:
                add(op, version, opset, 'negative', [f32(*shape), Const(np.array([-1]))])
            elif version >= 11:
                add(op, version, opset, 'negative', [f32(*shape)], axes=[-1])
            if op == 'Squeeze':
                add(op, version, opset, 'all', [f32(1, 3, 1)])
    for version, opset in versions('Concat'):
        add('Concat', version, opset, 'axis1', [f32(2, 3), f32(2, 1), Const(f32(2, 2))], axis=1)
        add('Concat', version, opset, 'axis0', [i64(2, 3), i64(1, 3)], axis=0)
        if version >= 11:
            add('Concat', version, opset, 'negative', [f32(2, 3), f32(2, 2)], axis=-1)
    for version, opset in versions('Gather'):
        add('Gather', version, opset, 'axis0', [f32(4, 3), Const(np.array([3, 0]))])
        add('Gather', version, opset, 'axis1', [f32(4, 3), Const(np.array([[2, 0], [1, 1]], np.int32))], axis=1)
        add('Gather', version, opset, 'scalar', [f32(4, 3), Const(np.int64(1))], axis=1)
        add('Gather', version, opset, 'computed', [f32(4, 3), np.array([1, 2, 0])])
        add('Gather', version, opset, 'table', [Const(f32(4, 3)), np.array([1, 3])])
        if version >= 11:
            add('Gather', version, opset, 'negative', [f32(4, 3), Const(np.array([-1, 0]))])
    for version, opset in versions('Slice'):
        x = f32(4, 5)
        if version < 10:
            add('Slice', version, opset, 'axes', [x], starts=[1, 0], ends=[3, -1], axes=[0, 1])
            add('Slice', version, opset, 'default', [x], starts=[1], ends=[1000])
        else:
            add('Slice', version, opset, 'axes', [x, Const(np.array([1, 0])), Const(np.array([3, -1])),
                                                  Const(np.array([0, 1]))])
            add('Slice', version, opset, 'steps', [x, Const(np.array([0, -1])), Const(np.array([4, -6])),
                                                   Const(np.array([0, 1])), Const(np.array([2, -2]))])
            add('Slice', version, opset, 'default', [x, Const(np.array([1])), Const(np.array([1000]))])
    for version, opset in versions('Split'):
        if version < 13:
            add('Split', version, opset, 'attribute', [f32(2, 5)], outputs=2, axis=1, split=[2, 3])
            add('Split', version, opset, 'equal', [f32(2, 6)], outputs=3, axis=1)
        else:
            add('Split', version, opset, 'input', [f32(2, 5), Const(np.array([2, 3]))], outputs=2, axis=1)
            if version < 18:
                add('Split', version, opset, 'equal', [f32(2, 6)], outputs=3, axis=1)
            else:
                add('Split', version, opset, 'equal', [f32(2, 6)], outputs=3, axis=1, num_outputs=3)
                add('Split', version, opset, 'uneven', [f32(2, 7)], outputs=3, axis=1, num_outputs=3)
    for version, opset in versions('Expand'):
        add('Expand', version, opset, 'plain', [f32(3, 1), Const(np.array([2, 3, 4]))])
        add('Expand', version, opset, 'ones', [f32(3, 4), Const(np.array([1, 1]))])
    for version, opset in versions('Tile'):
        add('Tile', version, opset, 'plain', [f32(2, 3), Const(np.array([2, 1]))])
    for version, opset in versions('Shape'):
        add('Shape', version, opset, 'plain', [f32(2, 3, 4)])
        if version >= 15:
            add('Shape', version, opset, 'part', [f32(2, 3, 4)], start=1)
            add('Shape', version, opset, 'negative', [f32(2, 3, 4)], start=-2, end=-1)
    for version, opset in versions('Size'):
        add('Size', version, opset, 'plain', [f32(2, 3, 4)])
    for version, opset in versions('Identity'):
        add('Identity', version, opset, 'f32', [f32(2, 3)])
        add('Identity', version, opset, 'string', [np.array(['a', 'bc'], object)])
    for version, opset in versions('Dropout'):
        if version < 12:
            add('Dropout', version, opset, 'ratio', [f32(2, 3)], ratio=0.3, expect=lambda x: x,
                **({'is_test': 1} if version < 7 else {}))
        else:
            add('Dropout', version, opset, 'plain', [f32(2, 3)], expect=lambda x: x)
            add('Dropout', version, opset, 'inference', [f32(2, 3), Const(np.float32(0.3)), Const(np.bool_(False))],
                expect=lambda x, r, t: x)
    for version, opset in versions('Cast'):
        special = np.array([-1.7, 0, 2.5, 3.9], np.float32)
        for to in (T.INT64, T.INT32, T.DOUBLE, T.BOOL, T.FLOAT):
            add('Cast', version, opset, 'float_%d' % to, [special], to=to)
        for to in (T.FLOAT, T.DOUBLE, T.BOOL, T.INT32):
            add('Cast', version, opset, 'int64_%d' % to, [np.array([-3, 0, 7, 2 ** 24 + 1])], to=to)
        add('Cast', version, opset, 'bool_1', [boolean(5)], to=T.FLOAT)
        add('Cast', version, opset, 'bool_7', [boolean(5)], to=T.INT64)
        add('Cast', version, opset, 'double_1', [f64(5)], to=T.FLOAT)
    for version, opset in versions('CastLike'):
        add('CastLike', version, opset, 'f64', [f32(3), Const(np.float64(0))])
    for version, opset in versions('Constant'):
        add_constant(version, opset)
    for version, opset in versions('ConstantOfShape'):
        add('ConstantOfShape', version, opset, 'value', [Const(np.array([2, 3]))],
            value=helper.make_tensor('v', T.INT64, [1], [7]))
        add('ConstantOfShape', version, opset, 'default', [Const(np.array([2]))])
    for version, opset in versions('Range'):
        add('Range', version, opset, 'i64', [Const(np.int64(1)), Const(np.int64(8)), Const(np.int64(3))])
        add('Range', version, opset, 'i64_large', [Const(np.int64(2**60 + 1)), Const(np.int64(2**60 + 8)), Const(np.int64(3))])
        add('Range', version, opset, 'i64_down', [Const(np.int64(7)), Const(np.int64(-1)), Const(np.int64(-4))])
        add('Range', version, opset, 'f32', [Const(np.float32(2)), Const(np.float32(-1)), Const(np.float32(-0.5))])


def add_constant(version, opset):
    tensor = onnx.numpy_helper.from_array(f32(2, 3))
    add('Constant', version, opset, 'tensor', [], value=tensor)
    if version >= 12:
        add('Constant', version, opset, 'float', [], value_float=1.5)
        add('Constant', version, opset, 'floats', [], value_floats=[1.5, 2.5])
        add('Constant', version, opset, 'int', [], value_int=3)
        add('Constant', version, opset, 'ints', [], value_ints=[3, 4])
        add('Constant', version, opset, 'string', [], value_string='x')
        add('Constant', version, opset, 'strings', [], value_strings=['x', 'yz'])


# ---- reductions ----

def reductions():
    kinds = ['Sum', 'Mean', 'Max', 'Min', 'Prod', 'L1', 'L2', 'LogSum', 'LogSumExp', 'SumSquare']
    for kind in kinds:
        op = 'Reduce' + kind
        for version, opset in versions(op):
            x = f32(2, 3, 4, low=0.5, high=2)
            by_input = version >= 18 or (op == 'ReduceSum' and version >= 13)

            def axes(*values):
                return ([x, Const(np.array(values))], {}) if by_input else ([x], {'axes': list(values)})
            for label, values in (('middle', (1,)), ('two', (0, 2)), ('last', (2,))):
                inputs, attrs = axes(*values)
                add(op, version, opset, label, inputs, **attrs)
                add(op, version, opset, label + '_drop', inputs, keepdims=0, **attrs)
            if version >= 11:
                inputs, attrs = axes(-1)
                add(op, version, opset, 'negative', inputs, **attrs)
            add(op, version, opset, 'all', [x])
            add(op, version, opset, 'all_drop', [x], keepdims=0)
            if by_input:
                add(op, version, opset, 'noop', [x], noop_with_empty_axes=1)
            if kind in ('Sum', 'Mean', 'Max', 'Min'):
                add(op, version, opset, 'f64', [f64(3, 4)], keepdims=0)
            if kind in ('Sum', 'Max', 'Min', 'Prod', 'SumSquare'):
                add(op, version, opset, 'i32', [i64(3, 4).astype(np.int32)], keepdims=0)
            if kind in ('Sum', 'Mean'):
                add(op, version, opset, 'long', [f32(1, 1000)], keepdims=0)
    for op in ('ArgMax', 'ArgMin'):
        for version, opset in versions(op):
            x = np.array([[2, 1, 2, 0], [0, 3, 0, 3], [1, 1, 1, 1]], np.float32)
            add(op, version, opset, 'default', [x])
            add(op, version, opset, 'axis1', [x], axis=1)
            add(op, version, opset, 'drop', [x], axis=1, keepdims=0)
            if version >= 11:
                add(op, version, opset, 'negative', [x], axis=-1)
            if version >= 12:
                add(op, version, opset, 'last', [x], axis=1, select_last_index=1)
            add(op, version, opset, 'f64', [x.astype(np.float64)], axis=1)
            add(op, version, opset, 'i32', [x.astype(np.int32)], axis=1)


# ---- places: gather, scatter, order ----

def indexing():
    x = f32(3, 4)
    for version, opset in versions('GatherElements'):
        add('GatherElements', version, opset, 'axis0', [x, Const(np.array([[0, 2, 1, -1], [1, 0, 0, 2]]))])
        add('GatherElements', version, opset, 'axis1', [x, Const(np.array([[3], [0], [-4]], np.int32))], axis=1)
        add('GatherElements', version, opset, 'computed', [i64(2, 3, 2), i64(2, 3, 4, low=-2, high=2)], axis=-1)
    for version, opset in versions('GatherND'):
        add('GatherND', version, opset, 'elements', [x, Const(np.array([[0, 1], [2, -1]]))])
        add('GatherND', version, opset, 'rows', [x, np.array([[2], [0], [-3]])])
        add('GatherND', version, opset, 'deep', [f32(2, 3, 4), np.array([[[0, 1]], [[1, 0]]])])
        if version >= 12:
            add('GatherND', version, opset, 'batch', [f32(2, 3, 4), np.array([[1], [-2]])], batch_dims=1)
            add('GatherND', version, opset, 'batch2', [f32(2, 2, 3, 2), i64(2, 2, 5, 1, low=-3, high=3)], batch_dims=2)
    for op in ('Scatter', 'ScatterElements'):
        for version, opset in versions(op):
            if op == 'Scatter' and version >= 11:
                continue
            add(op, version, opset, 'axis0', [x, Const(np.array([[1, 0, 2, 1]])), f32(1, 4)],
                expect=lambda d, i, u: _scatter(d, i, u, 0))
            add(op, version, opset, 'axis1', [x, np.array([[0, 3], [2, 1], [1, 0]]), f32(3, 2)], axis=1,
                expect=lambda d, i, u: _scatter(d, i, u, 1))
            add(op, version, opset, 'constant', [Const(x), Const(np.array([[1, 0, 2, 1]], np.int32)), f32(1, 4)])
            if version >= 11:
                add(op, version, opset, 'negative', [x, Const(np.array([[-1], [-4], [-2]])), f32(3, 1)], axis=-1)
            for reduction in ('add', 'mul') * (version >= 16) + ('max', 'min') * (version >= 18):
                add(op, version, opset, reduction, [x, np.array([[1, 1, 1], [0, 3, 0], [2, 2, 1]]), f32(3, 3)],
                    axis=1, reduction=reduction)
    for version, opset in versions('ScatterND'):
        add('ScatterND', version, opset, 'rows', [x, Const(np.array([[2], [-3]])), f32(2, 4)])
        add('ScatterND', version, opset, 'elements', [i64(3, 4), np.array([[2, 0], [0, -1]]), i64(2)])
        add('ScatterND', version, opset, 'string', [np.array(['a', 'b', 'c'], object), Const(np.array([[1]])),
                                                    np.array(['z'], object)])
        for reduction in ('add', 'mul') * (version >= 16) + ('max', 'min') * (version >= 18):
            add('ScatterND', version, opset, reduction, [f32(3, 2), np.array([[1], [1], [0]]), f32(3, 2)], reduction=reduction)
            add('ScatterND', version, opset, reduction + '_i64', [i64(3, 2), np.array([[1], [1], [0]]), i64(3, 2)], reduction=reduction)
    for version, opset in versions('TopK'):
        ties = np.array([[2, 1, 2, 0, 7], [3, 3, 3, 3, 3]], np.float32)

        def k_of(k):
            return ([Const(np.array([k]))], {}) if version >= 10 else ([], {'k': k})
        for label, array, k, attrs in (('last', f32(3, 6), 2, {}), ('axis0', f32(5, 3), 3, {'axis': 0}), ('ties', ties, 3, {}),
                                       ('middle', f32(2, 7, 3), 7, {'axis': 1}), ('many', f32(1, 300), 37, {})):
            extra, more = k_of(k)
            add('TopK', version, opset, label, [array] + extra, outputs=2, **attrs, **more)
        if version >= 11:
            add('TopK', version, opset, 'smallest', [f32(3, 6), Const(np.array([4]))], outputs=2, largest=0)
            add('TopK', version, opset, 'i64', [i64(4, 9), Const(np.array([3]))], outputs=2, axis=0)
            add('TopK', version, opset, 'f64', [f64(3, 9), Const(np.array([1]))], outputs=2, axis=-2, largest=0)
    for version, opset in versions('Compress'):
        chosen = Const(np.array([True, False, True]))
        add('Compress', version, opset, 'axis0', [x, chosen], axis=0)
        add('Compress', version, opset, 'axis1', [x, chosen], axis=1)
        add('Compress', version, opset, 'flat', [x, Const(np.array([False, True, False, False, True]))])
        if version >= 11:
            add('Compress', version, opset, 'negative', [i64(2, 3), chosen], axis=-1)
    for version, opset in versions('OneHot'):
        values = Const(np.array([-1, 5], np.float32))
        add('OneHot', version, opset, 'last', [np.array([0, 2, -1, 7]), Const(np.int64(3)), values])
        add('OneHot', version, opset, 'axis0', [i64(2, 3, low=-4, high=4), Const(np.array([4])), values], axis=0)
        add('OneHot', version, opset, 'axis1', [i64(2, 3, low=0, high=4), Const(np.int64(4)), Const(np.array([0, 1]))], axis=1)
        add('OneHot', version, opset, 'f32', [np.array([1, 0], np.float32), Const(np.float32(2)), values],
            expect=lambda i, d, v: np.where(np.arange(2) == i[:, None], v[1], v[0]))
        add('OneHot', version, opset, 'computed', [np.array([1, 0]), Const(np.int64(2)), f32(2)])


def _scatter(data, indices, updates, axis):
    data = data.copy()
    np.put_along_axis(data, indices, updates, axis)
    return data


# ---- numbers around others, running sums, layers ----

def fills():
    for version, opset in versions('CumSum'):
        for label, attrs in (('plain', {}), ('exclusive', {'exclusive': 1}), ('reverse', {'reverse': 1}),
                             ('both', {'exclusive': 1, 'reverse': 1})):
            add('CumSum', version, opset, label, [f32(3, 5), Const(np.int32(1))], **attrs)
            add('CumSum', version, opset, label + '_axis0', [f64(3, 5), Const(np.int64(0))], **attrs)
        add('CumSum', version, opset, 'i64', [i64(2, 3, 2), Const(np.array(-2))])
        add('CumSum', version, opset, 'i32', [i64(7).astype(np.int32), Const(np.array(0))])
    for version, opset in versions('Trilu'):
        for upper in (0, 1):
            add('Trilu', version, opset, f'plain{upper}', [f32(4, 3)], upper=upper)
            for k in (-7, -1, 2):
                add('Trilu', version, opset, f'shift{upper}_{k}', [i64(2, 3, 4), Const(np.int64(k))], upper=upper)
    for version, opset in versions('EyeLike'):
        add('EyeLike', version, opset, 'plain', [f32(3, 4)])
        add('EyeLike', version, opset, 'above', [i64(3, 4)], k=2)
        add('EyeLike', version, opset, 'below', [f32(3, 3)], k=-1, dtype=T.INT64)
    for version, opset in versions('Pad'):
        x = f32(3, 4)

        def pad(label, array, pads, value=None, **attrs):
            if version < 11:
                add('Pad', version, opset, label, [array], pads=pads, value=value, **attrs)
            else:
                add('Pad', version, opset, label, [array, Const(np.array(pads))] +
                    ([] if value is None else [Const(np.array(value, array.dtype))]), **attrs)
        pad('zero', x, [1, 0, 2, 3])
        pad('value', x, [0, 1, 0, 1], value=1.5)
        pad('crop', x, [-1, 2, 0, -1])
        pad('reflect', x, [1, 3, 2, 2], mode='reflect')
        pad('edge', x, [0, 3, 2, 0], mode='edge')
        if version >= 11:
            add('Pad', version, opset, 'computed', [x, Const(np.array([0, 1, 2, 0])), np.float32(3)])
        if version >= 13:
            pad('i64', i64(2, 2), [1, 1, 1, 1], value=7)
        if version >= 18:
            add('Pad', version, opset, 'axes', [f32(2, 3, 2), Const(np.array([1, 2])), Const(np.float32(9)), Const(np.array([-2]))])
        if version >= 19:
            pad('wrap', x, [2, 3, 1, 6], mode='wrap')
    for version, opset in versions('LayerNormalization'):
        x = f32(2, 3, 4)
        add('LayerNormalization', version, opset, 'last', [x, Const(f32(4)), Const(f32(4))])
        add('LayerNormalization', version, opset, 'nobias', [x, Const(f32(4))])
        add('LayerNormalization', version, opset, 'axis1', [x, Const(f32(3, 4)), Const(f32(3, 4))], axis=1)
        add('LayerNormalization', version, opset, 'epsilon', [x, Const(f32(4)), f32(4)], epsilon=0.25)
        add('LayerNormalization', version, opset, 'outputs', [x, Const(f32(4)), Const(f32(4))], outputs=3)
        add('LayerNormalization', version, opset, 'f64', [f64(2, 5), Const(f64(5)), Const(f64(5))])
    for version, opset in versions('RMSNormalization'):
        x = f32(2, 3, 4)
        add('RMSNormalization', version, opset, 'last', [x, Const(f32(4))])
        add('RMSNormalization', version, opset, 'axis1', [x, Const(f32(3, 4))], axis=1)
        add('RMSNormalization', version, opset, 'epsilon', [x, f32(4)], epsilon=0.25)
    for op in ('BitwiseAnd', 'BitwiseOr', 'BitwiseXor'):
        for version, opset in versions(op):
            add(op, version, opset, 'i64', [i64(2, 3, low=-99, high=99), i64(3, low=-99, high=99)])
            add(op, version, opset, 'i32', [i64(7, low=-99, high=99).astype(np.int32), Const(np.int32(0x55))])
    for version, opset in versions('BitwiseNot'):
        add('BitwiseNot', version, opset, 'i64', [i64(7, low=-99, high=99)])
        add('BitwiseNot', version, opset, 'i32', [i64(7, low=-99, high=99).astype(np.int32)])


# ---- ai.onnx.ml ----

ML = 'ai.onnx.ml'


def ml():
    for version, opset in versions('Scaler', ML):
        add('Scaler', version, opset, 'each', [f32(3, 4)], domain=ML, offset=[0.5, 1.0, -1.0, 0.0], scale=[2.0, 0.5, 1.0, 3.0])
        add('Scaler', version, opset, 'one', [f32(3, 4)], domain=ML, offset=[0.5], scale=[2.0])
        add('Scaler', version, opset, 'i64', [i64(3, 2)], domain=ML, offset=[0.5, 1.0], scale=[2.0, 0.5])
        add('Scaler', version, opset, 'f64', [f64(3, 2)], domain=ML, offset=[0.5, 1.0], scale=[2.0, 0.5])
        add('Scaler', version, opset, 'wide', [f32(2, 3, 2)], domain=ML, offset=[0.5], scale=[2.0])
        add('Scaler', version, opset, 'vector', [f32(2)], domain=ML, offset=[0.5, 1.0], scale=[2.0, 0.5])
    for version, opset in versions('Normalizer', ML):
        for norm in ('MAX', 'L1', 'L2'):
            add('Normalizer', version, opset, norm.lower(), [f32(3, 4)], domain=ML, norm=norm)
            add('Normalizer', version, opset, norm.lower() + '_zero', [np.zeros((2, 3), np.float32)], domain=ML, norm=norm)
            add('Normalizer', version, opset, norm.lower() + '_f64', [f64(2, 3)], domain=ML, norm=norm)
        add('Normalizer', version, opset, 'default', [f32(3, 4)], domain=ML)
        add('Normalizer', version, opset, 'vector', [f32(4)], domain=ML, norm='L2')
        add('Normalizer', version, opset, 'i64', [i64(2, 3, low=1)], domain=ML, norm='L1')
    for version, opset in versions('Imputer', ML):
        x = f32(3, 2)
        x[0, 0] = x[2, 1] = np.nan
        add('Imputer', version, opset, 'nan', [x], domain=ML, imputed_value_floats=[1.5, 2.5], replaced_value_float=float('nan'))
        add('Imputer', version, opset, 'one', [x], domain=ML, imputed_value_floats=[1.5], replaced_value_float=float('nan'))
        y = np.array([[-1, 2], [3, -1]], np.float32)
        add('Imputer', version, opset, 'value', [y], domain=ML, imputed_value_floats=[7.0, 8.0], replaced_value_float=-1.0)
        add('Imputer', version, opset, 'i64', [y.astype(np.int64)], domain=ML, imputed_value_int64s=[7, 8], replaced_value_int64=-1)
    for version, opset in versions('LabelEncoder', ML):
        label_encoder(version, opset)
    trees.cases(add, versions, ML)
    for version, opset in versions('ArrayFeatureExtractor', ML):
        add('ArrayFeatureExtractor', version, opset, 'f32', [f32(3, 4), Const(np.array([3, 1]))], domain=ML)
        add('ArrayFeatureExtractor', version, opset, 'vector', [f32(4), Const(np.array([2, 0]))], domain=ML)
        add('ArrayFeatureExtractor', version, opset, 'i64', [Const(np.array([10, 20, 30])), np.array([[2], [0]])], domain=ML)
        add('ArrayFeatureExtractor', version, opset, 'string', [Const(np.array(['a', 'b', 'c'], object)), np.array([1])], domain=ML)
        add('ArrayFeatureExtractor', version, opset, 'matrix', [f32(2, 3, 4), Const(np.array([3, 1]))], domain=ML)
    for version, opset in versions('Binarizer', ML):
        add('Binarizer', version, opset, 'f32', [f32(3, 4)], domain=ML, threshold=0.25)
        add('Binarizer', version, opset, 'default', [f32(3, 4)], domain=ML)
    for version, opset in versions('FeatureVectorizer', ML):
        add('FeatureVectorizer', version, opset, 'f32', [f32(3, 2), f32(3, 1)], domain=ML, inputdimensions=[2, 1])
        add('FeatureVectorizer', version, opset, 'i64', [i64(3, 2), i64(3, 3)], domain=ML, inputdimensions=[2, 3])
    words = np.array([['b'], ['a'], ['c'], ['zz']], object)
    for version, opset in versions('OneHotEncoder', ML):
        add('OneHotEncoder', version, opset, 'string', [words], domain=ML, cats_strings=['a', 'b', 'c'], zeros=1)
        add('OneHotEncoder', version, opset, 'strict', [words[:3]], domain=ML, cats_strings=['a', 'b', 'c'], zeros=0)
        add('OneHotEncoder', version, opset, 'i64', [np.array([[3], [1], [9]])], domain=ML, cats_int64s=[1, 2, 3])
        add('OneHotEncoder', version, opset, 'f32', [np.array([3, 1, 2], np.float32)], domain=ML, cats_int64s=[1, 2, 3])
    for version, opset in versions('CategoryMapper', ML):
        add('CategoryMapper', version, opset, 'string', [words], domain=ML, cats_strings=['a', 'b', 'c'], cats_int64s=[5, 6, 7], default_int64=-2)
        add('CategoryMapper', version, opset, 'int', [np.array([5, 7, 9])], domain=ML, cats_strings=['a', 'b', 'c'], cats_int64s=[5, 6, 7], default_string='?')
    linear_models()
    for version, opset in versions('ZipMap', ML):
        for label, attrs in (('int', {'classlabels_int64s': [10, 20, 30]}), ('string', {'classlabels_strings': ['a', 'b', 'c']})):
            add('ZipMap', version, opset, label, [f32(2, 3)], domain=ML, expect=lambda x: x, out_types=['zipmap'], **attrs)


def label_encoder(version, opset):
    words = np.array(['b', 'a', 'zz', 'c'], object)
    numbers = np.array([2, 7, 1, 2])
    if version < 2:
        add('LabelEncoder', version, opset, 'string', [words], domain=ML, classes_strings=['a', 'b', 'c'], default_int64=-5)
        add('LabelEncoder', version, opset, 'int', [numbers], domain=ML, classes_strings=['a', 'b', 'c'], default_string='none')
        return
    special = np.array([1.5, np.nan, -2, 3], np.float32)
    variants = {
        'string_int': ([words], dict(keys_strings=['a', 'b', 'c'], values_int64s=[5, 6, 7], default_int64=-1)),
        'string_float': ([words], dict(keys_strings=['a', 'b', 'c'], values_floats=[.5, .25, 3], default_float=-1.)),
        'string_string': ([words], dict(keys_strings=['a', 'b', 'c'], values_strings=['x', 'y', 'z'], default_string='w')),
        'int_string': ([numbers], dict(keys_int64s=[1, 2, 3], values_strings=['x', 'y', 'z'], default_string='w')),
        'int_float': ([numbers], dict(keys_int64s=[1, 2, 3], values_floats=[.5, .25, 3], default_float=-1.)),
        'int_int': ([numbers], dict(keys_int64s=[1, 2, 3], values_int64s=[9, 8, 7])),
        'float_string': ([special], dict(keys_floats=[1.5, float('nan'), 3.], values_strings=['x', 'y', 'z'])),
        'float_int': ([special], dict(keys_floats=[1.5, float('nan'), 3.], values_int64s=[1, 2, 3], default_int64=-3)),
        'float_float': ([special], dict(keys_floats=[1.5, 3.], values_floats=[1., 2.])),
        'default': ([words], dict(keys_strings=['a', 'b'], values_int64s=[5, 6])),
        'matrix': ([words.reshape(2, 2)], dict(keys_strings=['a', 'b'], values_floats=[5., 6.])),
    }
    for label, (inputs, attrs) in variants.items():
        add('LabelEncoder', version, opset, label, inputs, domain=ML, **attrs)
    if version >= 4:
        add('LabelEncoder', version, opset, 'tensor', [numbers], domain=ML,
            keys_tensor=helper.make_tensor('k', T.INT64, [3], [1, 2, 3]),
            values_tensor=helper.make_tensor('v', T.STRING, [3], ['x', 'y', 'z']),
            default_tensor=helper.make_tensor('d', T.STRING, [1], ['w']))
        add('LabelEncoder', version, opset, 'double', [f64(3).round() * 1.0], domain=ML,
            keys_tensor=helper.make_tensor('k', T.DOUBLE, [3], [-1., 0., 1.]),
            values_tensor=helper.make_tensor('v', T.DOUBLE, [3], [10., 20., 30.]),
            default_tensor=helper.make_tensor('d', T.DOUBLE, [1], [0.5]))


POST = ('NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT')


def linear_models():
    x = f32(5, 3)
    x[0] = 0
    for version, opset in versions('LinearRegressor', ML):
        for post in POST:
            low = dict(coefficients=[float(v) for v in f32(6, low=0, high=0.1)], intercepts=[0.25, 0.5]) \
                if post == 'PROBIT' else dict(coefficients=[float(v) for v in f32(6)], intercepts=[0.25, -0.5])
            inputs = np.abs(x) if post == 'PROBIT' else x
            add('LinearRegressor', version, opset, 'two_' + post.lower(), [inputs], domain=ML, targets=2, post_transform=post, **low)
        add('LinearRegressor', version, opset, 'one', [x], domain=ML, targets=1, coefficients=[1.0, -2.0, 0.5], intercepts=[3.0])
        add('LinearRegressor', version, opset, 'nointercept', [x], domain=ML, coefficients=[1.0, -2.0, 0.5])
        add('LinearRegressor', version, opset, 'vector', [x[1]], domain=ML, targets=1, coefficients=[1.0, -2.0, 0.5], intercepts=[3.0])
        for post in POST[1:]:
            add('LinearRegressor', version, opset, 'one_' + post.lower(), [np.abs(x)], domain=ML, targets=1, post_transform=post,
                coefficients=[.1, .05, .02], intercepts=[.3])
    for version, opset in versions('LinearClassifier', ML):
        for post in POST:
            for labels in (dict(classlabels_ints=[4, 5, 6]), dict(classlabels_strings=['r', 'g', 'b'])):
                kind = 'string' if 'classlabels_strings' in labels else 'int'
                coefficients = [float(v) for v in (f32(9, low=0, high=0.1) if post == 'PROBIT' else f32(9))]
                add('LinearClassifier', version, opset, f'three_{kind}_{post.lower()}', [np.abs(x) if post == 'PROBIT' else x], domain=ML,
                    outputs=2, post_transform=post, coefficients=coefficients, intercepts=[.25, .3, .2], **labels)
            # two labels, one row of coefficients; and two rows
            for rows in (1, 2):
                for labels in (dict(classlabels_ints=[0, 1]), dict(classlabels_ints=[3, 7]), dict(classlabels_strings=['no', 'yes'])):
                    kind = 'string' if 'classlabels_strings' in labels else 'int%d' % labels['classlabels_ints'][0]
                    if rows == 1 and post == 'PROBIT':
                        continue    # onnxruntime leaves half of the scores unwritten
                    coefficients = [.1, .05, .02] if post == 'PROBIT' else [1.0, -2.0, 0.5]
                    coefficients += [.02, .3, .1] if rows == 2 else []
                    add('LinearClassifier', version, opset, f'binary{rows}_{kind}_{post.lower()}',
                        [np.abs(x) if post == 'PROBIT' else x], domain=ML, outputs=2, post_transform=post,
                        coefficients=coefficients, intercepts=[0.2, 0.1][:rows], **labels)
        add('LinearClassifier', version, opset, 'f64', [x.astype(np.float64)], domain=ML, outputs=2,
            coefficients=[1.0, -2.0, 0.5] * 2, intercepts=[0.1, 0.2], classlabels_ints=[0, 1], post_transform='SOFTMAX')
        add('LinearClassifier', version, opset, 'i64', [i64(3, 3)], domain=ML, outputs=2,
            coefficients=[1.0, -2.0, 0.5] * 2, intercepts=[0.1, 0.2], classlabels_ints=[0, 1])
        add('LinearClassifier', version, opset, 'vector', [x[2]], domain=ML, outputs=2,
            coefficients=[1.0, -2.0, 0.5] * 3, intercepts=[0.1, 0.2, 0.3], classlabels_ints=[0, 1, 2])
        add('LinearClassifier', version, opset, 'multi', [x], domain=ML, outputs=2, multi_class=1, post_transform='LOGISTIC',
            coefficients=[1.0, -2.0, 0.5] * 3, intercepts=[0.1, 0.2, 0.3], classlabels_ints=[0, 1, 2])


def vector_machines():
    x = f32(6, 4)
    kernels = {'linear': ('LINEAR', [0.0, 0.0, 0.0]), 'rbf': ('RBF', [0.3, 0.0, 0.0]), 'poly': ('POLY', [0.5, 0.25, 2.0]),
               'cubic': ('POLY', [0.4, 1.0, 3.0]), 'sigmoid': ('SIGMOID', [0.2, 0.1, 0.0])}

    def floats(*shape, **bounds):
        return [float(v) for v in f32(*shape, **bounds).ravel()]
    for version, opset in versions('SVMRegressor', ML):
        for label, (kind, params) in kernels.items():
            common = dict(domain=ML, kernel_type=kind, kernel_params=params, rho=[0.4])
            add('SVMRegressor', version, opset, label, [x], n_supports=5, support_vectors=floats(20), coefficients=floats(5), **common)
            add('SVMRegressor', version, opset, label + '_one_class', [x], n_supports=5, support_vectors=floats(20),
                coefficients=floats(5), one_class=1, **common)
        add('SVMRegressor', version, opset, 'coefficients', [x], domain=ML, n_supports=0, coefficients=floats(4), rho=[0.4],
            kernel_type='LINEAR', kernel_params=[0.0, 0.0, 0.0])
    for version, opset in versions('SVMClassifier', ML):
        for label, (kind, params) in kernels.items():
            for names in (dict(classlabels_ints=[4, 9]), dict(classlabels_strings=['r', 'g', 'b']), dict(classlabels_ints=[0, 1, 2, 3])):
                classes = len(list(names.values())[0])
                counts = [2, 3, 1, 2][:classes]
                pairs = classes * (classes - 1) // 2
                common = dict(domain=ML, outputs=2, kernel_type=kind, kernel_params=params, vectors_per_class=counts,
                              support_vectors=floats(4 * sum(counts)), coefficients=floats((classes - 1) * sum(counts)),
                              rho=floats(pairs), **names)
                add('SVMClassifier', version, opset, f'{label}{classes}', [x], **common)
                add('SVMClassifier', version, opset, f'{label}{classes}_probability', [x], prob_a=floats(pairs, low=-2, high=-.5),
                    prob_b=floats(pairs), **common)
                if label != 'rbf':
                    continue
                for post in POST[1:4]:
                    add('SVMClassifier', version, opset, f'{label}{classes}_{post.lower()}', [x], post_transform=post, **common)
                add('SVMClassifier', version, opset, f'{label}{classes}_f64', [x.astype(np.float64)], **common)
        for names in (dict(classlabels_ints=[4, 9]), dict(classlabels_strings=['r', 'g', 'b'])):
            classes = len(list(names.values())[0])
            for label, low in (('mixed', -2.0), ('positive', 0.1)):
                for post in POST[:4]:
                    add('SVMClassifier', version, opset, f'coefficients{classes}_{label}_{post.lower()}', [x], domain=ML, outputs=2,
                        coefficients=floats(4 * classes, low=low), rho=[0.1], kernel_type='LINEAR', kernel_params=[0.0, 0.0, 0.0],
                        post_transform=post, **names)


def dictionaries():
    for version, opset in versions('DictVectorizer', ML):
        for label, kind in (('f32', np.float32), ('i64', np.int64), ('f64', np.float64)):
            add('DictVectorizer', version, opset, label, [np.array([[3, 0, -2]], kind)], domain=ML, map_keys=['b', 'a', 'zz'],
                expect=lambda x: x, string_vocabulary=['b', 'a', 'zz'])


# ---- writing ----

def model_of(case):
    names, runtime, constants = [], [], []
    for k, value in enumerate(case['inputs']):
        if value is None:
            names.append('')
            continue
        name = f'x{k}'
        names.append(name)
        if isinstance(value, Const):
            constants.append(text_tensor(value.array, name))
        else:
            runtime.append((name, np.asarray(value)))
    while names and names[-1] == '':
        names.pop()
    outputs = [f'y{k}' for k in range(case['outputs'])]
    node = helper.make_node(case['op'], names, outputs, domain=case['domain'], **case['attrs'])
    domain_opset = case['opset'] if case['domain'] == '' else 15
    imports = [helper.make_opsetid('', domain_opset)]
    if case['domain']:
        imports.append(helper.make_opsetid(case['domain'], case['opset']))
    ir = IR_OF_OPSET[domain_opset]
    inputs = [helper.make_tensor_value_info(name, element_type(array), array.shape) for name, array in runtime]
    if case['map_keys']:
        kind = helper.make_map_type_proto(T.STRING, helper.make_tensor_type_proto(element_type(runtime[0][1]), []))
        inputs = [helper.make_value_info(runtime[0][0], kind)]
    if ir < 4:
        inputs += [helper.make_tensor_value_info(c.name, c.data_type, c.dims) for c in constants]
    graph = helper.make_graph([node], 'g', inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], constants)
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir, producer_name='generate')
    return model, runtime


def element_type(array):
    return T.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)


def text_tensor(array, name):
    array = np.asarray(array)
    if array.dtype == object:
        return helper.make_tensor(name, T.STRING, array.shape, [str(s) for s in array.ravel()])
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def declare(model, arrays):
    """Outputs typed and shaped as they came out."""
    for info, array in zip(model.graph.output, arrays):
        info.CopyFrom(helper.make_tensor_value_info(info.name, element_type(array), array.shape))


def answers(case, model, runtime):
    """The expected outputs, and who said so."""
    feed = dict(runtime)
    if case['map_keys']:
        feed = {name: {k: v.item() for k, v in zip(case['map_keys'], array[0]) if v != 0} for name, array in runtime}
    if case['own'] or case['out_types'] == ['zipmap'] or case['expect'] is not None and case['opset'] < 7 and case['domain'] == '':
        return own(case), 'own'
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    errors = []
    guess = onnx.ModelProto()
    guess.CopyFrom(model)
    # onnxruntime wants typed outputs where its own inference gives none
    try:
        session = ort.InferenceSession(guess.SerializeToString(), options, providers=['CPUExecutionProvider'])
        return [np.asarray(a) for a in session.run(None, feed)], 'onnxruntime'
    except Exception as error:
        errors.append(str(error).splitlines()[0][:200])
    if case['expect'] is not None:
        return own(case), 'own'
    try:
        evaluator = onnx.reference.ReferenceEvaluator(model)
        return [np.asarray(a) for a in evaluator.run(None, feed)], 'reference'
    except Exception as error:
        errors.append(str(error).splitlines()[0][:200])
    return errors, None


def own(case):
    arrays = [v.array if isinstance(v, Const) else np.asarray(v) for v in case['inputs'] if v is not None]
    return [np.asarray(case['expect'](*arrays))]


def write(folder, case):
    model, runtime = model_of(case)
    name = '%s%s_%d_%s' % ('ml_' if case['domain'] else '', case['op'], case['version'], case['label'])
    outputs, oracle = answers(case, model, runtime)
    if oracle is None:
        return name, 'none: ' + ' | '.join(outputs)
    outputs = [o if o.dtype != np.dtype('O') and o.dtype.kind not in 'US' else o.astype(object) for o in outputs]
    declare(model, outputs)
    if case['out_types'] == ['zipmap']:
        key = T.STRING if 'classlabels_strings' in case['attrs'] else T.INT64
        kind = helper.make_sequence_type_proto(helper.make_map_type_proto(key, helper.make_tensor_type_proto(T.FLOAT, None)))
        model.graph.output[0].CopyFrom(helper.make_value_info('y0', kind))
    data = os.path.join(folder, name, 'test_data_set_0')
    os.makedirs(data)
    with open(os.path.join(folder, name, 'model.onnx'), 'wb') as out:
        out.write(model.SerializeToString())
    if case['attrs'].get('post_transform') == 'PROBIT':
        with open(os.path.join(folder, name, 'tolerance'), 'w') as out:
            out.write('2e-3 1e-3\n')      # onnxruntime's is an approximation
    for kind, tensors in (('input', runtime), ('output', [(o.name, a) for o, a in zip(model.graph.output, outputs)])):
        for k, (tensor, array) in enumerate(tensors):
            with open(os.path.join(data, f'{kind}_{k}.pb'), 'wb') as out:
                out.write(text_tensor(array, tensor).SerializeToString())
    return name, oracle


def without_case(written):
    """Versions in force of the operators above that no case with an answer is of."""
    return [f'{op} {version}' for op, domain in sorted({(c['op'], c['domain']) for c in cases})
            for version, _ in versions(op, domain) if (op, domain, version) not in written]


def main(folder):
    for make in (elementwise, binary, linear, shapes, reductions, ml, indexing, fills, vector_machines, dictionaries):
        make()
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    written = set()
    with open(os.path.join(folder, 'oracles.txt'), 'w') as log:
        for case in cases:
            name, oracle = write(folder, case)
            log.write(f'{name} {oracle}\n')
            if not oracle.startswith('none'):
                written.add((case['op'], case['domain'], case['version']))
    if without_case(written):
        sys.exit('no case of ' + ', '.join(without_case(written)))
    print(f'{len(cases)} cases in {folder}')


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
