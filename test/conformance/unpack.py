#!/usr/bin/env python3
"""Unpack the ONNX project's test cases from its wheel.

    unpack.py WHEEL FOLDER      FOLDER gets node/, simple/, pytorch-operator/, pytorch-converted/

A wheel is a zip; nothing of it is run or installed.  Does nothing if FOLDER is complete.
"""
import os
import sys
import zipfile

PREFIX = 'onnx/backend/test/data/'
SUITES = ('node', 'simple', 'pytorch-operator', 'pytorch-converted')


def main(wheel, folder):
    done = os.path.join(folder, '.complete')
    if os.path.exists(done):
        return
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            name = info.filename
            if not name.startswith(PREFIX) or name.endswith('/'):
                continue
            parts = name[len(PREFIX):].split('/')
            if parts[0] not in SUITES or '..' in parts:
                continue
            target = os.path.join(folder, *parts)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, 'wb') as out:
                out.write(archive.read(info))
    with open(done, 'w'):
        pass


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
