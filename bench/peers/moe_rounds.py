"""The rounds of bench/run-moe; see there. Linux.

Steps are the medians of the later half of a run: kernels are compiled by then, in both. Processes train in turn, and the ratio is that of medians over rounds.
"""

import argparse
import os
import statistics
import sys

from adapters_torch import SEQUENCE
from measured import HERE, HOME, OCTET, machine, measured, octet_trained, torch_trained, write

PRECISIONS = {"fp32": "mode: fp32", "bf16": "mode: bf16", "fp8 delayed": "mode: fp8"}


def settled(run):
    millis = run["millis"]
    return statistics.median(millis[len(millis) // 2:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "moe"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    small, large = f"{options.work}/small", f"{options.work}/large-{options.gigabytes}"
    for folder, kind, extra in ((small, "moe", []), (large, "moe-of", [str(options.gigabytes)])):
        if not os.path.exists(f"{folder}/tokens.bin"):
            os.makedirs(folder, exist_ok=True)
            measured([sys.executable, f"{HERE}/adapters_torch.py", kind, folder, *extra])
    facts = machine() | {"threads": options.threads, "steps": f"{options.steps} of 8 x {SEQUENCE} tokens, the later half counts"}
    runs = {name: [] for name in ("transformers fp32", *(f"octet {p}" for p in PRECISIONS))}
    for turn in range(options.rounds):
        runs["transformers fp32"].append(torch_trained(f"{HERE}/adapters_torch.py", "train", small, f"{small}/tokens.bin", "--steps",
                                                       str(options.steps), "--threads", str(options.threads)))
        for name, precision in PRECISIONS.items():
            config = "\n".join([f"data: {{train: {small}/tokens.bin, sequence: {SEQUENCE}, shuffle: false}}", "loss: {type: causal-lm}", "batch_size: 8",
                                f"steps: {options.steps}", "optimizer: {type: adamw, lr: 1.0e-3, weight_decay: 0.01}",
                                "schedule: {type: constant, warmup: 10}", "clip_grad_norm: 1.0", f"precision: {{{precision}}}",
                                "checkpoint: {every: 0}"]) + "\n"
            runs[f"octet {name}"].append(octet_trained(options, small, config, f"{options.work}/run"))
        print(f"round {turn + 1}:", ", ".join(f"{name} {settled(r[-1]):.1f} ms" for name, r in runs.items()), file=sys.stderr)
    lines = [f"training a step, {options.rounds} rounds, medians [fastest .. slowest]"]
    millis = {name: [settled(r) for r in all_runs] for name, all_runs in runs.items()}
    peer = statistics.median(millis["transformers fp32"])
    for name, each in millis.items():
        middle = statistics.median(each)
        lines.append(f"{name:18}{middle:8.1f} ms [{min(each):.1f} .. {max(each):.1f}]  {middle / peer:.2f} of transformers' time"
                     f"  loss {runs[name][0]['losses'][0]:.4f} to {runs[name][0]['losses'][-1]:.4f}")
    lines += ["", f"importing {options.gigabytes} GB, 8 experts a layer, medians of {options.rounds + 1} after a first run; whole processes"]
    imports = {}
    for name, words in (("inspect", ["inspect", large]), ("graph", ["convert", large, "--target", "onnx", "-o", f"{options.work}/none.onnx", "--dry-run"])):
        each = [measured(options.octet.split() + words)[0] for _ in range(options.rounds + 2)][1:]
        imports[name] = each
        lines.append(f"{name:18}{statistics.median(r['seconds'] for r in each):8.2f} s, peak {max(r['peak_mb'] for r in each):.0f} MB")
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, facts | {"millis": millis, "losses": {n: r[0]["losses"] for n, r in runs.items()}, "imports": imports})


if __name__ == "__main__":
    main()
