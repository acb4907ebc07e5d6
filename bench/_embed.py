"""What bench/embed.sh needs of Python: its texts, the peer's graph, and the peer's figures.

    _embed.py FOLDER texts COUNT        mixed.tsv, equal.tsv (as many tokens), repeated.tsv (nine in ten
                                        are said before), id and text each; prints the tokens of each
    _embed.py FOLDER graph              minilm.onnx, for PL/Python
    _embed.py FOLDER bulk               mixed.tsv by onnxruntime, sorted by length, at the best of its
                                        settings, tokenising included: threads, batch, tokens a second
    _embed.py FOLDER single             one short text by onnxruntime's own call, at its best number of
                                        threads, tokenising included: median, microseconds
"""
import os
import random
import sys
import time

os.environ['TOKENIZERS_PARALLELISM'] = 'true'
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from _text_peer import Peer, fused_graph, mixed_lengths, model_folder, open_tokenizer, texts  # noqa: E402

CORES = len(os.sched_getaffinity(0))
SHORT = 'who owns the graphics card of this server'


def write(path, rows):
    with open(path, 'w') as file:
        for i, text in enumerate(rows):
            file.write(f'{i + 1}\t{text}\n')
    os.chmod(path, 0o644)


def read(path):
    with open(path) as file:
        return [line.rstrip('\n').split('\t')[1] for line in file]


def make_texts(folder, tokenizer, count):
    lengths = mixed_lengths(count)
    mixed = texts(tokenizer, lengths)
    write(f'{folder}/mixed.tsv', mixed)
    mean = sum(lengths) / count
    even = [int(mean * (i + 1)) - int(mean * i) for i in range(count)]
    write(f'{folder}/equal.tsv', texts(tokenizer, even))
    few = mixed[:count // 10]
    repeated = [few[i % len(few)] for i in range(count)]
    random.Random(11).shuffle(repeated)
    write(f'{folder}/repeated.tsv', repeated)
    print(sum(lengths), sum(even))


def bulk(folder, tokenizer):
    said = read(f'{folder}/mixed.tsv')
    graph, best = fused_graph(model_folder()), (0, 0, 0)
    for threads in sorted({1, CORES}):
        peer = Peer(graph, threads)
        peer.embed(tokenizer_ids(tokenizer, said[:8]))
        for batch in (8, 16, 32, 64):
            for _ in range(2):
                begin = time.perf_counter()
                ids = tokenizer_ids(tokenizer, said)
                peer.embed_sorted(ids, batch)
                rate = sum(map(len, ids)) / (time.perf_counter() - begin)
                best = max(best, (rate, threads, batch))
    print(best[1], best[2], f'{best[0]:.0f}')


def tokenizer_ids(tokenizer, said):
    return [row.ids for row in tokenizer.encode_batch_fast(said)]


def single(tokenizer):
    graph, best = fused_graph(model_folder()), (1e9, 0)
    for threads in sorted({1, CORES}):
        peer, took = Peer(graph, threads), []
        for _ in range(300):
            begin = time.perf_counter()
            peer.embed([tokenizer.encode(SHORT).ids])
            took.append(time.perf_counter() - begin)
        best = min(best, (sorted(took[50:])[125] * 1e6, threads))
    print(f'{best[0]:.0f}', best[1])


def main():
    folder, what = sys.argv[1:3]
    model = model_folder()
    if what == 'graph':
        with open(f'{folder}/minilm.onnx', 'wb') as file:
            file.write(fused_graph(model))
        os.chmod(f'{folder}/minilm.onnx', 0o644)
        return
    tokenizer = open_tokenizer(model)
    if what == 'texts':
        make_texts(folder, tokenizer, int(sys.argv[3]))
    elif what == 'bulk':
        bulk(folder, tokenizer)
    else:
        single(tokenizer)


if __name__ == '__main__':
    main()
