#!/usr/bin/python3
"""Writes reference/model_*.bin: tiny models with expected log-probabilities, entropies and gradients.

The model is written in plain torch operations in float64, after the published architectures (Llama, Qwen2, Qwen3).
Each segment's whole context is run as a sequence of its own, so nothing of the shared-prefix computation is assumed.
Run from anywhere; the files are deterministic. Needs python3-torch.
"""
import math
import os
import struct

import torch

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference")
FAMILY = {"llama": 0, "qwen2": 1, "qwen3": 2}
ROPE = {"default": 0, "linear": 1, "llama3": 2}
BASE = dict(family="llama", vocab=29, hidden=16, layers=2, heads=4, kv_heads=2, head_dim=4, inner=24, positions=64,
            tied=0, qkv_bias=0, o_bias=0, mlp_bias=0, qk_norm=0, rope="default", eps=1e-5, theta=10000.0,
            factor=1.0, low=1.0, high=4.0, original=16)
CASES = {
    "llama": dict(rope="llama3", factor=8.0, theta=500.0),
    "llama_bias": dict(vocab=23, hidden=12, heads=3, kv_heads=3, o_bias=1, qkv_bias=1, mlp_bias=1, rope="linear",
                       factor=2.0),
    "qwen2": dict(family="qwen2", qkv_bias=1, tied=1, eps=1e-6, theta=1e6, layers=3),
    "qwen3": dict(family="qwen3", qk_norm=1, tied=1, head_dim=10, heads=2, kv_heads=1, eps=1e-6, vocab=33),
}
# (length, parent): two prompts with samples, one sample of a sample, one empty segment, one long lonely segment.
SEGMENTS = [(5, -1), (3, -1), (3, 0), (1, 0), (2, 0), (0, 1), (4, 1), (2, 2), (30, -1), (2, 8)]


def tensors(c, generator):
    def matrix(rows, cols):
        return torch.randn(rows, cols, generator=generator, dtype=torch.float32).mul(0.3).double()

    def norm(n):
        return (1 + 0.2 * torch.randn(n, 1, generator=generator, dtype=torch.float32)).double()

    h, d, i = c["hidden"], c["head_dim"], c["inner"]
    t = {"model.embed_tokens.weight": matrix(c["vocab"], h), "model.norm.weight": norm(h)}
    if not c["tied"]:
        t["lm_head.weight"] = matrix(c["vocab"], h)
    for n in range(c["layers"]):
        p = f"model.layers.{n}."
        q, k, b = c["heads"] * d, c["kv_heads"] * d, c["qkv_bias"]
        for name, rows, cols, bias in (("q", q, h, b), ("k", k, h, b), ("v", k, h, b), ("o", h, q, c["o_bias"])):
            t[p + f"self_attn.{name}_proj.weight"] = matrix(rows, cols)
            if bias:
                t[p + f"self_attn.{name}_proj.bias"] = matrix(rows, 1)
        for name, rows, cols in (("gate", i, h), ("up", i, h), ("down", h, i)):
            t[p + f"mlp.{name}_proj.weight"] = matrix(rows, cols)
            if c["mlp_bias"]:
                t[p + f"mlp.{name}_proj.bias"] = matrix(rows, 1)
        t[p + "input_layernorm.weight"] = norm(h)
        t[p + "post_attention_layernorm.weight"] = norm(h)
        if c["qk_norm"]:
            t[p + "self_attn.q_norm.weight"] = norm(d)
            t[p + "self_attn.k_norm.weight"] = norm(d)
    return {k: v.requires_grad_() for k, v in t.items()}


def rms(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w[:, 0]


def frequencies(c):
    f = c["theta"] ** (-torch.arange(0, c["head_dim"], 2, dtype=torch.float64) / c["head_dim"])
    if c["rope"] == "linear":
        return f / c["factor"]
    if c["rope"] == "default":
        return f
    out = []
    for v in f.tolist():
        wavelength = 2 * math.pi / v
        if wavelength < c["original"] / c["high"]:
            out.append(v)
        elif wavelength > c["original"] / c["low"]:
            out.append(v / c["factor"])
        else:
            s = (c["original"] / wavelength - c["low"]) / (c["high"] - c["low"])
            out.append((1 - s) * v / c["factor"] + s * v)
    return torch.tensor(out, dtype=torch.float64)


def rotate(x, angles):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def linear(t, name, x):
    y = x @ t[name + ".weight"].T
    return y + t[name + ".bias"][:, 0] if name + ".bias" in t else y


def logits(c, t, ids):
    n, d = len(ids), c["head_dim"]
    angles = torch.arange(n, dtype=torch.float64)[:, None] * frequencies(c)
    hidden = t["model.embed_tokens.weight"][ids]
    mask = torch.full((n, n), float("-inf"), dtype=torch.float64).triu(1)
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        x = rms(hidden, t[p + "input_layernorm.weight"], c["eps"])
        q = linear(t, p + "self_attn.q_proj", x).view(n, c["heads"], d).transpose(0, 1)
        k = linear(t, p + "self_attn.k_proj", x).view(n, c["kv_heads"], d).transpose(0, 1)
        v = linear(t, p + "self_attn.v_proj", x).view(n, c["kv_heads"], d).transpose(0, 1)
        if c["qk_norm"]:
            q = rms(q, t[p + "self_attn.q_norm.weight"], c["eps"])
            k = rms(k, t[p + "self_attn.k_norm.weight"], c["eps"])
        q, k = rotate(q, angles), rotate(k, angles)
        group = c["heads"] // c["kv_heads"]
        k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
        a = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(d) + mask, -1) @ v
        hidden = hidden + linear(t, p + "self_attn.o_proj", a.transpose(0, 1).reshape(n, -1))
        x = rms(hidden, t[p + "post_attention_layernorm.weight"], c["eps"])
        g = linear(t, p + "mlp.gate_proj", x)
        hidden = hidden + linear(t, p + "mlp.down_proj", g * torch.sigmoid(g) * linear(t, p + "mlp.up_proj", x))
    hidden = rms(hidden, t["model.norm.weight"], c["eps"])
    return hidden @ t["model.embed_tokens.weight" if c["tied"] else "lm_head.weight"].T


def rows_of_logits(c, t, tokens, starts):
    """Logits of every row of the packed batch, each segment run with its whole context."""
    out = [None] * len(tokens)
    for s, (length, parent) in enumerate(SEGMENTS):
        ids, p = tokens[starts[s]:starts[s] + length], parent
        while p >= 0:
            ids = tokens[starts[p]:starts[p] + SEGMENTS[p][0]] + ids
            p = SEGMENTS[p][1]
        if length:
            full = logits(c, t, ids)
            for r in range(length):
                out[starts[s] + r] = full[len(ids) - length + r]
    return out


def write_case(name, c, seed):
    generator = torch.Generator().manual_seed(seed)
    t = tensors(c, generator)
    rows = sum(length for length, _ in SEGMENTS)
    starts, at = [], 0
    for length, _ in SEGMENTS:
        starts.append(at)
        at += length
    tokens = torch.randint(0, c["vocab"], (rows,), generator=generator).tolist()
    picks = [(r, int(torch.randint(0, c["vocab"], (1,), generator=generator)), 1.0 if r % 3 else 0.7)
             for r in list(range(rows)) + [4, 4, 7]]
    picks.append((4, 3, 1.3))
    z = rows_of_logits(c, t, tokens, starts)
    lp, entropy = [], []
    for row, target, temperature in picks:
        p = torch.log_softmax(z[row] / float(torch.tensor(temperature, dtype=torch.float32)), -1)
        lp.append(p[target])
        entropy.append(-(p.exp() * p).sum())
    d_lp = torch.randn(len(picks), generator=generator, dtype=torch.float32).double()
    d_entropy = torch.randn(len(picks), generator=generator, dtype=torch.float32).double()
    ((torch.stack(lp) * d_lp).sum() + (torch.stack(entropy) * d_entropy).sum()).backward()

    def floats(values):
        return struct.pack(f"<{len(values)}f", *values)

    with open(os.path.join(HERE, f"model_{name}.bin"), "wb") as f:
        f.write(struct.pack("<15q", FAMILY[c["family"]], c["vocab"], c["hidden"], c["layers"], c["heads"],
                            c["kv_heads"], c["head_dim"], c["inner"], c["positions"], c["tied"], c["qkv_bias"],
                            c["o_bias"], c["mlp_bias"], c["qk_norm"], ROPE[c["rope"]]))
        f.write(struct.pack("<6d", c["eps"], c["theta"], c["factor"], c["low"], c["high"], c["original"]))
        f.write(struct.pack("<4q", rows, len(SEGMENTS), len(picks), len(t)))
        f.write(struct.pack(f"<{rows}i", *tokens))
        for s, (length, parent) in enumerate(SEGMENTS):
            f.write(struct.pack("<3q", starts[s], length, parent))
        for row, target, temperature in picks:
            f.write(struct.pack("<qif", row, target, temperature))
        for values in (torch.stack(lp), torch.stack(entropy), d_lp, d_entropy):
            f.write(floats(values.tolist()))
        for key, value in t.items():
            f.write(struct.pack("<96s2q", key.encode(), value.shape[0], value.shape[1]))
            f.write(floats(value.flatten().tolist()))
            f.write(floats(value.grad.flatten().tolist()))


def main():
    os.makedirs(HERE, exist_ok=True)
    for seed, (name, changes) in enumerate(CASES.items()):
        write_case(name, {**BASE, **changes}, seed + 1)


main()
