#!/usr/bin/env python3
"""Boosted trees inside the engine beside onnxruntime, XGBoost and LightGBM, in one run.

    trees.py [--trees 500] [--depth 8] [--features 28] [--seconds 0.5] [--threads 1] [PROGRAM]

PROGRAM is build/engine/bench/trees (make bench-programs).  One model is trained with XGBoost,
exported by onnxmltools, and run by the engine, onnxruntime and XGBoost itself; LightGBM has one
of its own of the same size (trees of as many leaves).  The best of many runs counts.  Peers
get their own arrays, made beforehand: no conversion is timed.

Goal: ≥ 3 × onnxruntime and ≥ 1.3 × the best of the three at 1,000 and 100,000 rows; not slower
than the best of them at 1, 10 and 150.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import lightgbm
import numpy as np
import onnxruntime as ort
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

COUNTS = (1, 10, 150, 1000, 100000)


def best(call, seconds):
    call()
    fastest, start, runs = 1e9, time.perf_counter(), 0
    while time.perf_counter() - start < seconds or runs < 3:
        begin = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - begin)
        runs += 1
    return fastest


def main():
    parser = argparse.ArgumentParser()
    for name, default in (('trees', 500), ('depth', 8), ('features', 28), ('threads', 1)):
        parser.add_argument('--' + name, type=int, default=default)
    parser.add_argument('--seconds', type=float, default=0.5)
    parser.add_argument('program', nargs='?', default='build/engine/bench/trees')
    args = parser.parse_args()
    rng = np.random.default_rng(7)
    x = rng.standard_normal((max(COUNTS), args.features)).astype(np.float32)
    train = x[:20000]
    y = np.sin(train[:, 0] * 2) * train[:, 1] + train[:, 2:8].sum(1) * train[:, 8] + rng.standard_normal(len(train)) * 0.3
    boosted = xgboost.XGBRegressor(n_estimators=args.trees, max_depth=args.depth, learning_rate=0.05, n_jobs=2,
                                   min_child_weight=0, reg_lambda=0, tree_method='hist').fit(train, y)
    booster = boosted.get_booster()
    booster.set_param({'nthread': args.threads})
    light = lightgbm.train({'num_leaves': 2 ** args.depth, 'max_depth': args.depth, 'min_data_in_leaf': 1, 'verbose': -1,
                            'learning_rate': 0.05, 'num_threads': 2}, lightgbm.Dataset(train, y), args.trees)
    model = convert_xgboost(boosted, initial_types=[('x', FloatTensorType([None, args.features]))]).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = ort.InferenceSession(model, options, providers=['CPUExecutionProvider'])

    with tempfile.TemporaryDirectory() as folder:
        path, rows = os.path.join(folder, 'model.onnx'), os.path.join(folder, 'rows')
        with open(path, 'wb') as out:
            out.write(model)
        x.tofile(rows)
        done = subprocess.run([args.program, '--threads', str(args.threads), '--seconds', str(args.seconds), path, rows,
                               str(args.features), *map(str, COUNTS)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    engine = {int(line.split()[0]): [float(t) for t in line.split()[1:]] for line in done.stdout.splitlines()}
    print(f'{args.trees} trees of depth {args.depth}, {args.features} features, {args.threads} threads: microseconds a run')
    print('    rows     engine onnxruntime    xgboost   lightgbm | x onnxruntime  x best | predicted')
    for count in COUNTS:
        some = x[:count]
        peers = [best(lambda: session.run(None, {'x': some}), args.seconds),
                 best(lambda: booster.inplace_predict(some), args.seconds),
                 best(lambda: light.predict(some, num_threads=args.threads), args.seconds)]
        own, predicted = engine[count]
        print(f'{count:8d} {own * 1e6:10.1f} ' + ' '.join(f'{p * 1e6:10.1f}' for p in peers) +
              f' | {peers[0] / own:10.2f} {min(peers) / own:10.2f} | {predicted * 1e6:9.1f}')


if __name__ == '__main__':
    main()
