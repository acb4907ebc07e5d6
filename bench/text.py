#!/usr/bin/env python3
"""Embeddings of texts with MiniLM: the engine beside onnxruntime at its best, in one run.

    text.py [--quick] [--threads 1,2] [--batch 8,16,32] [--precision f32,bf16] [PROGRAM]

PROGRAM is build/engine/bench/text (make bench-programs): the texts go through the engine's own
tokenizer and encoder in the order they come in.  The peer is bench/_text_peer.py: float32, rows
sorted by length, the best of the batch sizes.  The best of several runs counts, engine and peer
in turn; tokenizing is timed apart from both.  "useful" counts products of real tokens, not of padding, in
GFLOP/s; "differs" is the largest L2 norm between embeddings of the two.

Goals: f32 at least 1.4 times the peer at mixed lengths, and at least 90 % of the own rate at equal lengths.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, 'bench'))

from _text_peer import Peer, fused_graph, mixed_lengths, model_folder, open_tokenizer, texts  # noqa: E402

LAYERS, HIDDEN, WIDE = 6, 384, 1536


def flops(lengths):
    """Multiplications and additions of the products: of weights, and of attention."""
    return sum(2 * n * LAYERS * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * WIDE) + LAYERS * 4 * n * n * HIDDEN for n in lengths)


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class Engine:
    """The texts of a set, given to the program once for each run."""

    def __init__(self, program, folder, said, scratch):
        self.command, self.folder, self.count = program, folder, len(said)
        self.texts, self.vectors = os.path.join(scratch, 'texts'), os.path.join(scratch, 'vectors')
        with open(self.texts, 'wb') as file:
            file.write(b''.join(text.encode() + b'\0' for text in said))

    def run(self, threads, precision):
        """Tokens, seconds of tokenizing, seconds of the encoder."""
        done = subprocess.run([self.command, '--threads', str(threads), '--precision', precision, '--runs', '1', self.folder, self.texts,
                               self.vectors], stdout=subprocess.PIPE, check=True, text=True)
        return [float(number) for number in done.stdout.split()]

    def embeddings(self):
        return np.fromfile(self.vectors, np.float32).reshape(self.count, -1)


def show(name, what, threads, lengths, taken, more=''):
    print(f'{name:11} {what:24} {threads:7d} {len(lengths) / taken:9.1f} {sum(lengths) / taken:9.0f} {flops(lengths) / taken / 1e9:7.1f} {more}', flush=True)


def compare(name, lengths, tokenizer, peers, engine, said, args):
    rows = [row.ids for row in tokenizer.encode_batch_fast(said)]
    own = min(timed(lambda: tokenizer.encode_batch_fast(said)) for _ in range(3))
    print(f'{name:11} tokenizing, one thread: {sum(lengths) / engine.run(1, "f32")[1]:.0f} tokens/s; the reference {sum(lengths) / own:.0f}')
    for threads, peer in peers.items():
        best = dict.fromkeys([*args.batch, *args.precision], 1e9)
        vectors = peer.embed_sorted(rows, args.batch[0])
        differs = {}
        for _ in range(1 if args.quick else 3):
            for batch in args.batch:
                best[batch] = min(best[batch], timed(lambda: peer.embed_sorted(rows, batch)))
            for precision in args.precision:
                tokens, _, taken = engine.run(threads, precision)
                assert tokens == sum(lengths), (tokens, sum(lengths))
                best[precision] = min(best[precision], taken)
                differs[precision] = np.linalg.norm(engine.embeddings() - vectors, axis=1).max()
        batch = min(args.batch, key=best.get)
        show(name, f'onnxruntime f32, {batch} rows', threads, lengths, best[batch])
        for precision in args.precision:
            show(name, 'engine ' + precision, threads, lengths, best[precision], f'{best[batch] / best[precision]:5.2f} {differs[precision]:9.1e}')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--threads', type=lambda text: [int(part) for part in text.split(',')], default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument('--batch', type=lambda text: [int(part) for part in text.split(',')], default=[8, 16, 32])
    parser.add_argument('--precision', type=lambda text: text.split(','), default=['f32', 'bf16'])
    parser.add_argument('program', nargs='?', default=os.path.join(os.environ.get('INFER_BUILD', os.path.join(TOP, 'build')), 'engine', 'bench', 'text'))
    args = parser.parse_args()
    folder = model_folder()
    if folder is None:
        print('skipped: MiniLM cannot be fetched (script/fetch-models minilm)')
        return
    tokenizer = open_tokenizer(folder)
    model = fused_graph(folder)
    peers = {threads: Peer(model, threads) for threads in args.threads}
    scale = 1 if args.quick else 4
    print(f'{"texts":11} {"":24} {"threads":>7} {"texts/s":>9} {"tokens/s":>9} {"useful":>7} x peer   differs')
    with tempfile.TemporaryDirectory() as scratch:
        for name, lengths in ('128 tokens', [128] * (24 * scale)), ('mixed', mixed_lengths(128 * scale)):
            said = texts(tokenizer, lengths)
            compare(name, lengths, tokenizer, peers, Engine(args.program, folder, said, scratch), said, args)


if __name__ == '__main__':
    main()
