"""Makes testdata/golden/debug/{tokens.bin,lines.csv}: tensors of every Linear in one step of two tiny language models, in Transformer Engine's statistics.

Made with torch 2.13.0 and transformers 5.18.0 on the CPU. Usage: python debug_lines.py MODELS TARGET_FOLDER, MODELS being testdata/models/tiny-lm

tokens.bin: four sequences of 16 little-endian uint16, random. lines.csv: model, name as Transformer Engine logs it (LAYER_TENSOR_STATISTIC), value. The step has two micro-batches of two
sequences, the loss of each divided by two, in F32, by modules' hooks. Micro-batches are combined as debug/features/utils/stats_computation.py (commit
d0067d0) says, weights are the first one's, and the standard deviation is that of all elements.
"""
import csv
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM

ROWS, LENGTH = 4, 16


def statistics(parts, weight):
    parts = [p.detach().double().flatten() for p in parts]
    parts = parts[:1] if weight else parts
    x = torch.cat(parts)
    return {
        "min": x.min(), "max": x.max(), "std": torch.std(x), "l1_norm": x.abs().sum(),
        "l2_norm": torch.sqrt((x ** 2).sum()), "cur_amax": x.abs().max(),
    }


def observed(folder, tokens):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    seen = {}

    def note(name, tensor, value):
        seen.setdefault((name, tensor), []).append(value.detach().clone())

    linears = {n: m for n, m in model.named_modules() if type(m).__name__ in ("Linear", "Conv1D") and n != "lm_head"}
    for n, m in linears.items():
        m.register_forward_hook(lambda m, x, y, n=n: (note(n, "activation", x[0]), note(n, "weight", m.weight), note(n, "output", y)) and None)
        m.register_full_backward_hook(lambda m, dx, dy, n=n: (note(n, "gradient", dy[0]), note(n, "dgrad", dx[0])) and None)
    for batch in tokens.split(2):
        model.zero_grad()
        (model(input_ids=batch, labels=batch).loss / 2).backward()
        for n, m in linears.items():
            note(n, "wgrad", m.weight.grad)
    return {f"{n}_{t}_{s}": v for (n, t), parts in seen.items() for s, v in statistics(parts, t == "weight").items()}


def main(models, target):
    target.mkdir(parents=True, exist_ok=True)
    tokens = torch.randint(0, 1000, (ROWS, LENGTH), generator=torch.Generator().manual_seed(7))
    (target / "tokens.bin").write_bytes(tokens.numpy().astype("<u2").tobytes())
    with open(target / "lines.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["model", "name", "value"])
        for model in ("gpt2", "llama"):
            for name, value in observed(models / model, tokens).items():
                out.writerow([model, name, f"{float(value):.9g}"])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
