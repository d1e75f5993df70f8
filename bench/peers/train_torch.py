"""Training steps in PyTorch: the models, data and peers of bench/run-train.

    train_torch.py make gpt2 FOLDER              a GPT-2-shaped model with random weights as ONNX, its weights, and tokens to learn
    train_torch.py make minilm FOLDER MODEL      ragged batches with fixed targets for the MiniLM of `octet quickstart`, MODEL
    train_torch.py step gpt2|minilm FOLDER --mode fp32|bf16|fp16 --steps N --threads T --seconds S

`step` prints one JSON line: losses, milliseconds of each step, torch's version. BF16 and F16 are autocast, F16 with a loss scale; weights, gradients and moments stay F32.
"""

import argparse
import json
import math
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

VOCAB, WIDE, LAYERS, HEADS, TOKENS, BATCH = 8192, 384, 6, 6, 128, 8
TEXT_TOKENS, TEXT_BATCH = 48, 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDE, 3 * WIDE)
        self.c_proj = nn.Linear(WIDE, WIDE)

    def forward(self, x, export):
        b, t, c = x.shape
        q, k, v = (y.reshape(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.c_attn(x).split(WIDE, dim=2))
        if export:
            scores = q @ k.transpose(-2, -1) / math.sqrt(c // HEADS)
            seen = torch.ones(t, t, dtype=torch.bool).tril()
            y = scores.masked_fill(~seen, torch.finfo(torch.float32).min).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDE)
        self.attn = Attention()
        self.ln_2 = nn.LayerNorm(WIDE)
        self.c_fc = nn.Linear(WIDE, 4 * WIDE)
        self.c_proj = nn.Linear(4 * WIDE, WIDE)

    def forward(self, x, export):
        x = x + self.attn(self.ln_1(x), export)
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2's layers, smaller; attention fused, as a PyTorch user has it, except in the export."""

    def __init__(self, export=False):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, WIDE)
        self.wpe = nn.Embedding(TOKENS, WIDE)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDE)
        self.lm_head = nn.Linear(WIDE, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, 0, 0.02)
        self.export = export

    def forward(self, input_ids):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x, self.export)
        return self.lm_head(self.ln_f(x))


def make_gpt2(folder):
    torch.manual_seed(1)
    model = Gpt2(export=True).eval()
    torch.save(model.state_dict(), f"{folder}/init.pt")
    torch.onnx.export(model, (torch.zeros(BATCH, TOKENS, dtype=torch.int64),), f"{folder}/model.onnx",
                      input_names=["input_ids"], output_names=["logits"],
                      dynamic_axes={"input_ids": {0: "batch"}, "logits": {0: "batch"}}, opset_version=17, dynamo=False)
    # each token has a few likely successors: something to learn
    rng = np.random.default_rng(7)
    successors = rng.integers(0, VOCAB, (VOCAB, 4))
    tokens = np.zeros(BATCH * TOKENS * 80, dtype=np.uint16)
    for i in range(1, len(tokens)):
        tokens[i] = successors[tokens[i - 1], rng.integers(4)] if rng.random() < 0.9 else rng.integers(VOCAB)
    tokens.tofile(f"{folder}/tokens.bin")


def make_minilm(folder):
    rng = np.random.default_rng(7)
    n = 8 * TEXT_BATCH
    lengths = rng.integers(TEXT_TOKENS // 3, TEXT_TOKENS + 1, n)
    lengths[::TEXT_BATCH] = TEXT_TOKENS
    mask = (np.arange(TEXT_TOKENS) < lengths[:, None]).astype(np.int64)
    np.savez(f"{folder}/texts.npz", input_ids=rng.integers(1000, 30000, (n, TEXT_TOKENS)) * mask, attention_mask=mask,
             token_type_ids=np.zeros_like(mask),
             labels=rng.standard_normal((n, TEXT_TOKENS, WIDE), dtype=np.float32) * np.float32(0.3))


def bert(path):
    """The weights of the ONNX file in transformers' model, which it was exported from."""
    import onnx
    from onnx import numpy_helper
    from transformers import BertConfig, BertModel

    graph = onnx.load(path).graph
    initial = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    weights = {k: v for k, v in initial.items() if not k.startswith("onnx::") and not k.endswith("position_ids")}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in initial:
            name = node.name.strip("/").removesuffix("/MatMul").replace("/", ".")
            weights[f"{name}.weight"] = initial[node.input[1]].T.contiguous()
    model = BertModel(BertConfig(vocab_size=30522, hidden_size=WIDE, num_hidden_layers=6, num_attention_heads=12,
                                 intermediate_size=1536, hidden_dropout_prob=0, attention_probs_dropout_prob=0),
                      add_pooling_layer=False)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or any("position_ids" not in name for name in missing):
        raise SystemExit(f"the weights of {path} do not fit: missing {missing}, unexpected {unexpected}")
    return model


def gpt2_steps(folder):
    model = Gpt2()
    model.load_state_dict(torch.load(f"{folder}/init.pt"))
    tokens = torch.from_numpy(np.fromfile(f"{folder}/tokens.bin", dtype=np.uint16).astype(np.int64).reshape(-1, TOKENS))

    def loss(i):
        ids = tokens[i * BATCH % len(tokens):][:BATCH]
        return F.cross_entropy(model(ids)[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1))

    return model, 3e-4, loss


def minilm_steps(folder, path):
    model = bert(path)
    data = {k: torch.from_numpy(v) for k, v in np.load(f"{folder}/texts.npz").items()}
    targets = data.pop("labels")

    def loss(i):
        rows = slice(i * TEXT_BATCH % len(targets), i * TEXT_BATCH % len(targets) + TEXT_BATCH)
        inputs = {k: v[rows] for k, v in data.items()}
        error = (model(**inputs).last_hidden_state.float() - targets[rows]).square().mean(-1)
        mask = inputs["attention_mask"]
        return (error * mask).sum() / mask.sum()

    return model, 1e-4, loss


def steps(made, mode, count, decay=False, seconds=math.inf):
    """Trains; the learning rate goes down to 0 in a line with `decay`. Stops after so many seconds, but not before two steps."""
    model, lr, loss_of = made
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: (count - i) / count if decay else 1)
    scaler = torch.amp.GradScaler("cpu", enabled=mode == "fp16")
    losses, millis = [], []
    begin = time.perf_counter()
    for i in range(count):
        start = time.perf_counter()
        if i >= 2 and start - begin > seconds:
            break
        with torch.autocast("cpu", dtype=torch.float16 if mode == "fp16" else torch.bfloat16, enabled=mode != "fp32"):
            loss = loss_of(i)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        losses.append(loss.item())
        millis.append((time.perf_counter() - start) * 1e3)
    return {"losses": losses, "millis": millis, "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["make", "step"])
    parser.add_argument("model", choices=["gpt2", "minilm"])
    parser.add_argument("folder")
    parser.add_argument("onnx", nargs="?")
    parser.add_argument("--mode", choices=["fp32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which it stops, two steps at least")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.what == "make":
        os.makedirs(options.folder, exist_ok=True)
        (make_gpt2 if options.model == "gpt2" else make_minilm)(options.folder)
    else:
        made = gpt2_steps(options.folder) if options.model == "gpt2" else minilm_steps(options.folder, options.onnx)
        print(json.dumps(steps(made, options.mode, options.steps, seconds=options.seconds)))


if __name__ == "__main__":
    main()
