#!/usr/bin/env python3
"""Put a classifier together: all-MiniLM-L6-v2 with the head that train.py made.

    assemble.py MINILM FOLDER       script/fetch-models --folder sections calls this

FOLDER becomes what transformers loads as BertForSequenceClassification: MiniLM's own encoder and
pooler under their names in such a model, then the head.  Needs nothing but Python.
"""
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = ('tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json', 'vocab.txt')


def read_safetensors(path):
    """name → (type and shape, bytes); https://github.com/huggingface/safetensors#format"""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], 'little')
    head, body = json.loads(data[8:8 + size]), data[8 + size:]
    head.pop('__metadata__', None)
    return {name: ({'dtype': entry['dtype'], 'shape': entry['shape']}, body[slice(*entry['data_offsets'])]) for name, entry in head.items()}


def write_safetensors(path, tensors):
    head, at = {'__metadata__': {'format': 'pt'}}, 0
    for name, (entry, data) in tensors.items():
        head[name] = {**entry, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(len(text).to_bytes(8, 'little') + text)
        for _, data in tensors.values():
            file.write(data)


def main(minilm, folder):
    minilm, folder = pathlib.Path(minilm), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    labels = json.loads((HERE / 'labels.json').read_text())
    config = json.loads((minilm / 'config.json').read_text())
    config.pop('_name_or_path', None)
    config.update(architectures=['BertForSequenceClassification'], problem_type='single_label_classification',
                  id2label={str(i): label for i, label in enumerate(labels)}, label2id={label: i for i, label in enumerate(labels)})
    (folder / 'config.json').write_text(json.dumps(config, indent=2) + '\n')
    for name in TOKENIZER:
        shutil.copyfile(minilm / name, folder / name)
    encoder = {'bert.' + name: tensor for name, tensor in read_safetensors(minilm / 'model.safetensors').items() if not name.endswith('position_ids')}
    write_safetensors(folder / 'model.safetensors', {**encoder, **read_safetensors(HERE / 'head.safetensors')})


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
