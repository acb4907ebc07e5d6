"""The peer of text models: onnxruntime with MiniLM as the graph that it runs fastest.

    texts()         real texts of known lengths in tokens, the same on every machine with this Python
    fused_graph()   a BERT folder as ONNX with onnxruntime's own fused operators, as its optimizer
                    for transformers leaves them
    Peer            a session of so many threads that embeds rows of ids: padded to the longest
                    of a batch, averaged over what is no padding, normalised

Its embeddings differ from sentence-transformers' by about 1e-6 (L2).  Lengths of the mixed set are quantiles of a log-normal distribution: half of the texts have at
most 20 tokens, nine in ten at most 65, and none more than 249; special tokens are counted.
"""
import json
import os
import random
import re
import statistics
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from pydoc_data import topics
from tokenizers import Tokenizer

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MEDIAN, NINTH = 20, 65          # of the mixed set
SHORTEST, LONGEST = 4, 249


def model_folder():
    """MiniLM's, which is fetched and unpacked if need be; None if it cannot be."""
    found = subprocess.run([os.path.join(TOP, 'script', 'fetch-models'), '--folder', 'minilm'], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def open_tokenizer(folder):
    tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


# ---- texts ----

def mixed_lengths(count):
    normal = statistics.NormalDist()
    spread = np.log(NINTH / MEDIAN) / normal.inv_cdf(0.9)
    lengths = [MEDIAN * np.exp(spread * normal.inv_cdf((i + 0.5) / count)) for i in range(count)]
    lengths = [int(min(max(round(length), SHORTEST), LONGEST)) for length in lengths]
    random.Random(7).shuffle(lengths)
    return lengths


def texts(tokenizer, lengths):
    """Texts of exactly these numbers of tokens: pieces of Python's documentation."""
    words = ' '.join(re.sub(r'[^\w\s.,;:()\'"-]+', ' ', topics.topics[name]) for name in sorted(topics.topics)).split()
    tokens = [len(row.ids) for row in tokenizer.encode_batch_fast(words, add_special_tokens=False)]
    out, at = [], 0
    for length in lengths:
        left, piece = length - 2, []
        while left > 0:
            word, need = words[at % len(words)], tokens[at % len(words)]
            at += 1
            if 0 < need <= left:
                piece.append(word)
                left -= need
            elif need > left:
                piece += ['the'] * left
                left = 0
        out.append(' '.join(piece))
    got = [len(row.ids) for row in tokenizer.encode_batch_fast(out)]
    assert got == list(lengths), [(text, a, b) for text, a, b in zip(out, got, lengths) if a != b][:3]
    return out


# ---- the graph ----

def read_safetensors(path):
    """name → array of float32; https://github.com/huggingface/safetensors#format"""
    with open(path, 'rb') as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
        data = file.read()
    weights = {}
    for name, entry in head.items():
        if name == '__metadata__' or entry['dtype'] != 'F32':
            continue
        begin, end = entry['data_offsets']
        weights[name] = np.frombuffer(data[begin:end], '<f4').reshape(entry['shape'])
    return weights


def fused_graph(folder):
    """An encoder of BERT's as bytes of a model: input_ids, attention_mask, token_type_ids → last_hidden_state."""
    with open(os.path.join(folder, 'config.json')) as file:
        config = json.load(file)
    assert config['model_type'] == 'bert' and config['hidden_act'] == 'gelu', config
    weights = read_safetensors(os.path.join(folder, 'model.safetensors'))
    epsilon, nodes, kept = config['layer_norm_eps'], [], {}

    def keep(name, array=None):
        kept[name] = np.ascontiguousarray(weights[name] if array is None else array)
        return name

    def norm_of(name):
        return [keep(name + '.LayerNorm.weight'), keep(name + '.LayerNorm.bias')]

    def node(kind, inputs, output, **settings):
        fused = {} if kind in ('Cast', 'MatMul') else {'domain': 'com.microsoft'}
        nodes.append(helper.make_node(kind, inputs, [output] if isinstance(output, str) else output, **fused, **settings))
        return output if isinstance(output, str) else output[0]

    def product(x, name, output):
        return node('MatMul', [x, keep(name + '.weight', weights[name + '.weight'].T)], output)

    given = ['input_ids', 'attention_mask', 'token_type_ids']
    ids, mask, types = (node('Cast', [name], name + '_int32', to=TensorProto.INT32) for name in given)
    tables = [keep(f'embeddings.{name}_embeddings.weight') for name in ('word', 'position', 'token_type')]
    x = node('EmbedLayerNormalization', [ids, types, *tables, *norm_of('embeddings'), mask], ['embedded', 'mask_index'], epsilon=epsilon)
    for i in range(config['num_hidden_layers']):
        layer = f'encoder.layer.{i}.'
        last = i == config['num_hidden_layers'] - 1
        three = [layer + 'attention.self.' + name for name in ('query', 'key', 'value')]
        qkv = [keep(layer + 'qkv.weight', np.concatenate([weights[name + '.weight'].T for name in three], axis=1)),
               keep(layer + 'qkv.bias', np.concatenate([weights[name + '.bias'] for name in three]))]
        attended = node('Attention', [x, *qkv, 'mask_index'], layer + 'attended', num_heads=config['num_attention_heads'])
        part = product(attended, layer + 'attention.output.dense', layer + 'projected')
        x = node('SkipLayerNormalization', [part, x, *norm_of(layer + 'attention.output'), keep(layer + 'attention.output.dense.bias')],
                 layer + 'first', epsilon=epsilon)
        wide = product(x, layer + 'intermediate.dense', layer + 'wide')
        wide = node('BiasGelu', [wide, keep(layer + 'intermediate.dense.bias')], layer + 'active')
        part = product(wide, layer + 'output.dense', layer + 'narrow')
        x = node('SkipLayerNormalization', [part, x, *norm_of(layer + 'output'), keep(layer + 'output.dense.bias')],
                 'last_hidden_state' if last else layer + 'second', epsilon=epsilon)
    graph = helper.make_graph(
        nodes, 'bert', [helper.make_tensor_value_info(name, TensorProto.INT64, ['batch', 'sequence']) for name in given],
        [helper.make_tensor_value_info('last_hidden_state', TensorProto.FLOAT, ['batch', 'sequence', config['hidden_size']])],
        [numpy_helper.from_array(array, name) for name, array in kept.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid('', 17), helper.make_opsetid('com.microsoft', 1)])
    return model.SerializeToString()


# ---- running it ----

class Peer:
    def __init__(self, model, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(model, options, providers=['CPUExecutionProvider'])

    def hidden(self, rows):
        """The last hidden states of a batch, lists of ids, and which of them are no padding."""
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, :len(row)], mask[i, :len(row)] = row, 1
        hidden, = self.session.run(None, {'input_ids': ids, 'attention_mask': mask, 'token_type_ids': np.zeros_like(ids)})
        return hidden, mask.astype(np.float32)

    def embed(self, rows):
        hidden, mask = self.hidden(rows)
        weight = mask[..., None]
        mean = (hidden * weight).sum(1) / weight.sum(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def embed_sorted(self, rows, batch):
        """All rows in batches of like lengths, longest first, in the order they came in."""
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        out = np.empty((len(rows), self.session.get_outputs()[0].shape[2]), np.float32)
        for at in range(0, len(order), batch):
            part = order[at:at + batch]
            out[part] = self.embed([rows[i] for i in part])
        return out
