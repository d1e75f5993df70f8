"""Parameters, bytes and operations of published models by published formulas.

usage: python plan_formulas.py CONFIGS FORMULAS.csv
made with Python 3.11; no library

The formulas, written anew:
* megatron: megatron/training/theoretical_memory_usage.py of Megatron-LM at commit 00caa53, with sequence parallelism and recomputed attention: parameters of the model and of
  the fullest shard, bytes of weights and optimizer, bytes of activations of the first stage.
* cookbook: calc/calc_transformer_flops.py (commit 05c4066) and calc/calc_transformer_mem.py (commit 069ae2e) of EleutherAI's cookbook: operations of a step without
  recomputation, part by part; bytes of each parameter on each of so many GPUs by the stage of ZeRO.
* zero: the table of ZeRO (arXiv:1910.02054, figure 1) with K = 12: bytes of each parameter with gradients in 16 bits.
* saved: what backward of a layer reads, tensor by tensor, for a token: what the formula of Megatron leaves out of models with gates and fewer heads of keys.

A row: formula | model | setting (key=value, by spaces) | quantity | value. CONFIGS has a config.json of each model, with the sizes that their papers give.
"""
import json
import pathlib
import sys

SETTINGS = [
    dict(data=1, tensor=1, pipeline=1, chunks=1, zero=0, micro=1, count=8, length=2048),
    dict(data=8, tensor=8, pipeline=1, chunks=1, zero=1, micro=2, count=4, length=2048),
    dict(data=4, tensor=4, pipeline=8, chunks=1, zero=0, micro=1, count=16, length=2048),
    dict(data=4, tensor=4, pipeline=8, chunks=1, zero=1, micro=1, count=2, length=2048),
    dict(data=2, tensor=8, pipeline=8, chunks=2, zero=1, micro=1, count=32, length=2048),
]


class Sizes:
    def __init__(self, c):
        gpt = c["model_type"] == "gpt2"
        self.gpt = gpt
        self.h = c["n_embd"] if gpt else c["hidden_size"]
        self.layers = c["n_layer"] if gpt else c["num_hidden_layers"]
        self.heads = c["n_head"] if gpt else c["num_attention_heads"]
        self.groups = self.heads if gpt else c["num_key_value_heads"]
        self.ffn = 4 * self.h if gpt else c["intermediate_size"]
        self.vocab = c["vocab_size"]
        self.experts = c.get("num_local_experts", 1)
        self.active = c.get("num_experts_per_tok", 1)
        self.tied = c["tie_word_embeddings"]


def megatron(m, s):
    gate = 1 if m.gpt else 3 / 2
    norm = 2 if m.gpt else 1
    attention = 2 * m.h * m.h * (1 + m.groups / m.heads)
    layer = 2 * m.h * (m.ffn * m.experts * gate + norm) + attention
    block = layer * m.layers + norm * m.h
    embedding = m.h * m.vocab
    total = block + embedding * (1 if m.tied else 2)
    p, t, d = s["pipeline"], s["tensor"], s["data"]
    shard = (block / p + embedding) / t
    if not m.tied and p == 1:
        shard += embedding / t
    each = 6 + 12 / d if s["zero"] == 1 else 18
    sb = s["length"] * s["micro"]
    act = sb * m.h * (18 + 4 * m.ffn / m.h) * m.layers
    act += 8 * sb * p + sb * m.h * p
    if s["chunks"] > 1:
        act *= 1 + (p - 1) / (p * s["chunks"])
    elif p > 1:
        act *= min(1, s["count"] / p)
    if p == 1:
        act += sb * m.h * 4 * (1 + m.vocab / m.h)
    return {"parameters": total, "shard": shard, "state": shard * each, "activations": act / t}


def cookbook(m, length):
    """For one token."""
    ratio = m.groups / m.heads
    f = 3
    return {
        "qkv": f * 2 * (1 + 2 * ratio) * m.layers * m.h * m.h,
        "attention": 2 * f * 2 * m.layers * length * m.h,
        "projection": f * 2 * m.layers * m.h * m.h,
        "ffn": f * 16 * m.layers * m.h * m.h,
        "embedding": 6 * m.h * m.vocab,
    }


def cookbook_bytes(stage, n):
    return (2 / n if stage == 3 else 2) + (4 / n if stage >= 2 else 4) + (12 / n if stage >= 1 else 12)


def zero_bytes(stage, n):
    return {0: 16, 1: 4 + 12 / n, 2: 2 + 14 / n, 3: 16 / n}[stage]


def saved(m):
    """Bytes of a layer for a token in 16 bits, attention without scores."""
    kv = m.h * m.groups // m.heads
    tensors = [m.h, m.h]  # what both norms read
    tensors += [m.h]  # what q, k and v are computed from
    tensors += [m.h, kv, kv]  # they
    tensors += [m.h]  # what attention gives
    for _ in range(m.active):
        tensors += [m.h]  # what the MLP reads
        tensors += [m.ffn] if m.gpt else [m.ffn, m.ffn]  # what the activation function and the gate read
        tensors += [m.ffn]  # what the last product reads
    masks = [m.h, m.h] if m.gpt else []
    return 2 * sum(tensors) + sum(masks)


def main(configs, out):
    lines = []
    for file in sorted(pathlib.Path(configs).glob("*.json")):
        m = Sizes(json.loads(file.read_text()))

        def row(formula, setting, quantity, value):
            lines.append(f"{formula} | {file.stem} | {setting} | {quantity} | {value!r}\n")

        for s in SETTINGS:
            if m.layers % (s["pipeline"] * s["chunks"]):
                continue
            text = " ".join(f"{k}={v}" for k, v in s.items())
            for quantity, value in megatron(m, s).items():
                row("megatron", text, quantity, value)
        for length in (2048, 8192):
            for quantity, value in cookbook(m, length).items():
                row("cookbook", f"length={length}", quantity, value)
        row("saved", "-", "layer", saved(m))
    for n in (1, 8, 64, 1024):
        for stage in range(4):
            lines.append(f"cookbook | - | zero={stage} data={n} | bytes | {cookbook_bytes(stage, n)!r}\n")
            lines.append(f"zero | - | zero={stage} data={n} | bytes | {zero_bytes(stage, n)!r}\n")
    pathlib.Path(out).write_text("".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
