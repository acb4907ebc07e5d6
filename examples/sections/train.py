#!/usr/bin/env python3
"""Train the head of a classifier: which section of Debian does a package belong to, by its description?

    script/debian-texts packages --sections database,fonts,games,graphics,mail,net,science,sound \\
        --characters 400 --download > all.tsv
    .venv/bin/python examples/sections/train.py all.tsv     # rewrites head.safetensors, labels.json, packages.tsv

The encoder stays as it is: all-MiniLM-L6-v2 (script/fetch-models --folder minilm), run by onnxruntime.
The head is a logistic regression on what BERT's classifiers have it on, the pooler's output: tanh of
a product of the first token.  Packages are set aside by the digests of their sources' names, 50 of
each section; they are never trained on, and packages.tsv holds them.  At most 600 others of each
section are trained on.

For comparison the accuracy of the same regression on the mean of all tokens, which MiniLM was
trained to give, is printed as well.  Other lists of packages, or another processor, give a
slightly different head.
"""
import csv
import hashlib
import json
import pathlib
import subprocess
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path[:0] = [str(TOP / 'bench'), str(HERE)]

from _text_peer import Peer, fused_graph, open_tokenizer  # noqa: E402
from assemble import read_safetensors, write_safetensors  # noqa: E402

ASIDE, TRAINED, TOKENS = 50, 600, 128
STRENGTHS = (0.3, 1, 3)         # of the regression


def split(rows):
    """Rows to train on, and rows set aside."""
    sections = {}
    for row in sorted(rows, key=lambda row: hashlib.sha256(row['source'].encode()).digest()):
        sections.setdefault(row['section'], []).append(row)
    train = [row for section in sorted(sections) for row in sections[section][ASIDE:ASIDE + TRAINED]]
    return train, sorted((row for part in sections.values() for row in part[:ASIDE]), key=lambda row: row['package'])


def encode(folder, texts):
    """Of each text the pooler's output, and the mean of its tokens."""
    tokenizer = open_tokenizer(folder)
    tokenizer.enable_truncation(TOKENS)
    rows = [row.ids for row in tokenizer.encode_batch(texts)]
    weights = {name: np.frombuffer(data, '<f4').reshape(entry['shape'])
               for name, (entry, data) in read_safetensors(pathlib.Path(folder) / 'model.safetensors').items() if name.startswith('pooler.')}
    peer = Peer(fused_graph(folder), 2)
    first, mean = (np.empty((len(rows), len(weights['pooler.dense.bias'])), np.float32) for _ in range(2))
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
    for at in range(0, len(order), 16):
        part = order[at:at + 16]
        hidden, mask = peer.hidden([rows[i] for i in part])
        first[part] = hidden[:, 0]
        mean[part] = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return np.tanh(first @ weights['pooler.dense.weight'].T + weights['pooler.dense.bias']), mean


def regression(x, wanted):
    """Its strength is the one that does best for a fifth of what is trained on, after the rest."""
    def fit(x, wanted, strength):
        return LogisticRegression(C=strength, max_iter=3000, class_weight='balanced').fit(x, wanted)
    fifth = np.arange(len(x)) % 5 == 4
    return fit(x, wanted, max(STRENGTHS, key=lambda strength: fit(x[~fifth], wanted[~fifth], strength).score(x[fifth], wanted[fifth])))


def main(table):
    with open(table, newline='') as file:
        rows = list(csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE))
    folder = subprocess.run([TOP / 'script' / 'fetch-models', '--folder', 'minilm'], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    train, aside = split(rows)
    labels = sorted({row['section'] for row in rows})
    wanted, right = (np.array([labels.index(row['section']) for row in part]) for part in (train, aside))
    pooled, means = (np.split(x, [len(train)]) for x in encode(folder, [row['description'] for row in train + aside]))
    print(f'{len(train)} descriptions to train on, {len(aside)} set aside')
    for name, (x, held) in ('the mean of all tokens', means), ('the pooler', pooled):
        head = regression(x, wanted)
        print(f'accuracy on those set aside, head on {name}: {head.score(held, right):.3f} '
              f'(trained on: {head.score(x, wanted):.3f}; strength {head.C})')
    said = head.predict(held)
    for i, label in enumerate(labels):
        print(f'    {label:10} {(said[right == i] == i).mean():.2f}')
    write_safetensors(HERE / 'head.safetensors', {
        name: ({'dtype': 'F32', 'shape': list(array.shape)}, array.astype('<f4').tobytes())
        for name, array in (('classifier.weight', head.coef_), ('classifier.bias', head.intercept_))})
    (HERE / 'labels.json').write_text(json.dumps(labels) + '\n')
    with open(HERE / 'packages.tsv', 'w') as file:
        file.write('package\tsection\tdescription\n')
        file.writelines('\t'.join(row[name] for name in ('package', 'section', 'description')) + '\n' for row in aside)


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    main(sys.argv[1])
