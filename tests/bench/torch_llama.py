"""The model of llama.h in PyTorch on CPU, for verl-bench.

torch_llama.py LAYERS VOCAB HIDDEN INNER HEADS KV_HEADS HEAD_DIM SEQUENCES LENGTH PROMPT TOKENS

Prints "ready"; then answers each line of its input with one number: "train" with the seconds of one training step
(forward, backward, clipping, AdamW) over SEQUENCES x LENGTH tokens, "decode" with the seconds a token of one row that
is decoded with a cache of keys and values, "blas" with 1 where this PyTorch multiplies by a fast BLAS and 0 where it is
the reference one (Debian's, without libopenblas0-pthread).
"""
import math
import os
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(3)  # it is said by who started us

(LAYERS, VOCAB, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, SEQUENCES, LENGTH, PROMPT, TOKENS) = map(int, sys.argv[1:])
EPS, THETA = 1e-5, 1e5
QUERY, KEYS = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM


def matrix(rows, columns):
    return torch.nn.Parameter(torch.randn(rows, columns) * 0.02)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.input_norm = torch.nn.Parameter(torch.ones(HIDDEN))
        self.qkv = matrix(QUERY + 2 * KEYS, HIDDEN)
        self.o = matrix(HIDDEN, QUERY)
        self.post_norm = torch.nn.Parameter(torch.ones(HIDDEN))
        self.gate_up = matrix(2 * INNER, HIDDEN)
        self.down = matrix(HIDDEN, INNER)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = matrix(VOCAB, HIDDEN)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = torch.nn.Parameter(torch.ones(HIDDEN))


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rotations(count):
    frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = torch.arange(count)[:, None] * frequencies[None]
    return torch.cat((angles.cos(),) * 2, -1), torch.cat((angles.sin(),) * 2, -1)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def layer_forward(layer, x, cos, sin, mask, cache, at):
    """x: [batch, rows, HIDDEN]; cache: keys and values [batch, KV_HEADS, places, HEAD_DIM] that rows go to, or None."""
    batch, rows, _ = x.shape
    q, k, v = F.linear(norm(x, layer.input_norm), layer.qkv).split((QUERY, KEYS, KEYS), -1)
    q = rotate(q.view(batch, rows, HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
    k = rotate(k.view(batch, rows, KV_HEADS, HEAD_DIM).transpose(1, 2), cos, sin)
    v = v.view(batch, rows, KV_HEADS, HEAD_DIM).transpose(1, 2)
    if cache is not None:
        cache[0][:, :, at:at + rows], cache[1][:, :, at:at + rows] = k, v
        k, v = cache[0][:, :, :at + rows], cache[1][:, :, :at + rows]
    q = q.reshape(batch, KV_HEADS, HEADS // KV_HEADS * rows, HEAD_DIM)
    scores = (q @ k.transpose(2, 3) / math.sqrt(HEAD_DIM)).view(batch, HEADS, rows, -1)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(-1).view(batch, KV_HEADS, HEADS // KV_HEADS * rows, -1)
    mixed = (weights @ v).view(batch, HEADS, rows, HEAD_DIM).transpose(1, 2).reshape(batch, rows, QUERY)
    x = x + F.linear(mixed, layer.o)
    gate, up = F.linear(norm(x, layer.post_norm), layer.gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, layer.down)


def forward(model, tokens, table, caches=None, at=0):
    rows = tokens.shape[1]
    cos, sin = table[0][at:at + rows], table[1][at:at + rows]
    mask = torch.full((rows, at + rows), -math.inf).triu(at + 1) if rows > 1 else None
    x = F.embedding(tokens, model.embedding)
    for i, layer in enumerate(model.layers):
        x = layer_forward(layer, x, cos, sin, mask, caches[i] if caches else None, at)
    return norm(x, model.norm)


def train(model, optimizer, tokens, targets, table):
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=False)
    logits = F.linear(forward(model, tokens, table), model.embedding)
    F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return time.perf_counter() - begin


@torch.no_grad()
def decode(model, prompt, table):
    places = prompt.shape[1] + TOKENS
    caches = [[torch.empty(1, KV_HEADS, places, HEAD_DIM) for _ in range(2)] for _ in range(LAYERS)]
    hidden = forward(model, prompt, table, caches)
    token = F.linear(hidden[:, -1:], model.embedding).argmax(-1)
    begin = time.perf_counter()
    for at in range(prompt.shape[1], places - 1):
        token = F.linear(forward(model, token, table, caches, at), model.embedding).argmax(-1)
    return (time.perf_counter() - begin) / (TOKENS - 1)


def fast_blas():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    return int("BLAS_INFO=generic" not in torch.__config__.show() or "openblas" in loaded or "blis" in loaded)


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(7)
    model = Model()
    table = rotations(max(LENGTH, PROMPT + TOKENS))
    tokens = torch.randint(VOCAB, (SEQUENCES, LENGTH + 1))
    prompt = torch.randint(VOCAB, (1, PROMPT))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    print("ready", flush=True)
    works = {"train": lambda: train(model, optimizer, tokens[:, :-1], tokens[:, 1:].contiguous(), table),
             "decode": lambda: decode(model, prompt, table),
             "blas": fast_blas}
    for line in sys.stdin:
        print(works[line.strip()](), flush=True)


main()
