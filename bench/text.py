#!/usr/bin/env python3
"""Embeddings of texts with MiniLM: what onnxruntime reaches at its best.

    text.py [--quick] [--threads 1,2] [--batch 8,16,32]

The peer of bench/_text_peer.py, in float32, rows sorted by length; the best batch size and the
best of several runs count.  Tokenising is timed apart.  "useful" counts products of real tokens,
not of padding, in GFLOP/s.
"""
import argparse
import os
import sys
import time

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from _text_peer import Peer, fused_graph, mixed_lengths, model_folder, open_tokenizer, texts  # noqa: E402

LAYERS, HIDDEN, WIDE = 6, 384, 1536


def flops(lengths):
    """Multiplications and additions of the products: of weights, and of attention."""
    return sum(2 * n * LAYERS * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * WIDE) + LAYERS * 4 * n * n * HIDDEN for n in lengths)


def best_time(call, runs):
    best = 1e9
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best


def main():
    numbers = lambda text: [int(part) for part in text.split(',')]  # noqa: E731
    parser = argparse.ArgumentParser()
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--threads', type=numbers, default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument('--batch', type=numbers, default=[8, 16, 32])
    args = parser.parse_args()
    folder = model_folder()
    if folder is None:
        print('skipped: MiniLM cannot be fetched (script/fetch-models minilm)')
        return
    tokenizer = open_tokenizer(folder)
    runs, scale = (1, 1) if args.quick else (3, 4)
    sets = {'128 tokens': [128] * (24 * scale), 'mixed': mixed_lengths(128 * scale)}
    peers = {threads: Peer(fused_graph(folder), threads) for threads in args.threads}
    print(f'{"texts":12} {"threads":>7} {"batch":>5} {"texts/s":>9} {"tokens/s":>9} {"useful":>7}')
    for name, lengths in sets.items():
        said = texts(tokenizer, lengths)
        rows = [row.ids for row in tokenizer.encode_batch_fast(said)]
        taken = best_time(lambda: tokenizer.encode_batch_fast(said), 3)
        print(f'{name:12} tokenising on one thread: {sum(lengths) / taken:.0f} tokens/s')
        for threads, peer in peers.items():
            peer.embed_sorted(rows[:32], 32)
            taken, batch = min((best_time(lambda: peer.embed_sorted(rows, batch), runs), batch) for batch in args.batch)
            print(f'{name:12} {threads:7d} {batch:5d} {len(rows) / taken:9.1f} {sum(lengths) / taken:9.0f} {flops(lengths) / taken / 1e9:7.1f}', flush=True)


if __name__ == '__main__':
    main()
