#!/usr/bin/env python3
"""Tokenizers beside the reference library, on one thread, on the same texts.

    tokenizer.py [--quick] [PROGRAM]

PROGRAM is build/engine/bench/tokenizer (make bench-programs).  The tokenizers are those of the
conformance tests (script/test conformance makes them): MiniLM's own, a byte-level one and one
of Unigram.  The texts are English documentation and the translations that the system ships.
The reference runs its fastest call, encode_batch_fast, without its threads; the best of
several runs counts, and its word caches are warm.

Goal: at least as fast as the reference.
"""
import argparse
import glob
import gzip
import os
import subprocess
import sys
import tempfile
import time

os.environ['TOKENIZERS_PARALLELISM'] = 'false'
top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(top, 'test', 'conformance'))

import text_cases  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

CASES = ('minilm', 'bytes_llama3', 'unigram')
ENGLISH = 4 << 20       # bytes


def english():
    """Paragraphs of documentation."""
    texts, size = [], 0
    for path in sorted(glob.glob('/usr/share/doc/*/*')):
        if not os.path.isfile(path) or size > ENGLISH:
            continue
        try:
            with (gzip.open if path.endswith('.gz') else open)(path, 'rb') as file:
                parts = file.read().decode().replace('\0', '').split('\n\n')
        except (OSError, UnicodeDecodeError, EOFError):
            continue
        texts += [part for part in parts if part.strip()]
        size += sum(map(len, parts))
    return texts


def reference(path, texts, runs):
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    best = 1e9
    for _ in range(runs):
        begin = time.perf_counter()
        rows = tokenizer.encode_batch_fast(texts)
        best = min(best, time.perf_counter() - begin)
    return best, sum(len(row.ids) for row in rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('program', nargs='?', default=os.path.join(os.environ.get('INFER_BUILD', os.path.join(top, 'build')),
                                                                   'engine', 'bench', 'tokenizer'))
    args = parser.parse_args()
    cases = os.path.join(os.environ.get('INFER_PARTS', os.path.join(top, '.parts')), 'tokenizers')
    if not os.path.isdir(cases):
        print('skipped: there are no tokenizers in %s (script/test conformance makes them)' % cases)
        return
    print('%-14s %-13s %9s %12s %12s %7s %9s' % ('tokenizer', 'texts', 'MB', 'engine MB/s', 'reference', 'ratio', 'opened ms'))
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            if not os.path.isdir(os.path.join(cases, name)):
                print('%-14s skipped: it is not there' % name)
                continue
            for kind, texts in (('English', english()), ('translations', text_cases.translations(20000))):
                texts = [text.replace('\0', '') for text in texts]
                file = os.path.join(folder, 'texts')
                with open(file, 'wb') as out:
                    out.write(b''.join(text.encode() + b'\0' for text in texts))
                size = os.path.getsize(file) / 1e6
                command = [args.program] + ['--quick'] * args.quick + [os.path.join(cases, name), file]
                ours, tokens, opened, _ = map(float, subprocess.run(command, check=True, capture_output=True).stdout.split())
                theirs, count = reference(os.path.join(cases, name, 'tokenizer.json'), texts, 2 if args.quick else 5)
                assert count == tokens, (count, tokens)
                print('%-14s %-13s %9.2f %12.1f %12.1f %7.1f %9.1f' % (name, kind, size, size / ours, size / theirs, theirs / ours, 1000 * opened))


if __name__ == '__main__':
    main()
