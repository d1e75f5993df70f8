"""bench/run-distributed; see there. Linux, with mpirun.

Every run is a launcher's and its ranks'; ranks have one thread each. Times are those of single steps, each tool's own clock; the first steps of a run do not count.
Tools take turns, round by round.
"""

import argparse
import json
import os
import shutil
import statistics
import sys

from adapters_torch import SEQUENCE, wide
from measured import HERE, HOME, OCTET, machine, measured, write

SETTLED = 10  # compiled while they run
LR = 5e-4


def octet(options, model, folder, mode, zero, steps):
    run = f"{options.work}/run"
    lines = [f"data: {{train: {folder}/train.bin, sequence: {SEQUENCE}, shuffle: false}}", "loss: {type: causal-lm}", f"batch_size: {options.batch}",
             f"gradient_accumulation: {options.ranks}", f"steps: {steps}", f"optimizer: {{type: adamw, lr: {LR}, weight_decay: 0.01}}",
             "schedule: {type: constant}", "clip_grad_norm: 1.0", f"precision: {{mode: {mode}}}", "checkpoint: {every: 0}",
             f"distributed: {{zero: {zero}}}"]
    with open(f"{run}.yaml", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    shutil.rmtree(run, ignore_errors=True)
    launcher = options.mpirun.split() + ["-n", str(options.ranks)]
    result, _ = measured(launcher + options.octet.split() + ["train", model, "--config", f"{run}.yaml", "-o", run, "--threads", "1"])
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
        trained = [m for m in map(json.loads, file) if "loss" in m]
    return {"losses": [m["loss"] for m in trained], "millis": [m["seconds"] * 1e3 for m in trained], "seconds": result["seconds"]}


def torch(options, model, folder, mode, way, steps):
    result, text = measured([sys.executable, f"{HERE}/distributed_torch.py", model, folder, "--ranks", str(options.ranks), "--way", way, "--mode", mode,
                             "--steps", str(steps), "--lr", str(LR), "--batch", str(options.batch)])
    line = next(line for line in reversed(text.splitlines()) if line.startswith("{"))
    return json.loads(line) | {"seconds": result["seconds"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--models", default="tiny,wide")
    parser.add_argument("--modes", default="fp32,bf16")
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "distributed"))
    parser.add_argument("--octet", default=OCTET)
    parser.add_argument("--mpirun", default="mpirun --allow-run-as-root --oversubscribe")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    tools = {f"octet, zero {z}": (lambda m, f, p, s, z=z: octet(options, m, f, p, z, s)) for z in (0, 1, 2, 3)}
    tools |= {f"torch, {w}": (lambda m, f, p, s, w=w: torch(options, m, f, p, w, s)) for w in ("ddp", "fsdp")}
    lines, facts = [], {}
    for name in options.models.split(","):
        folder = f"{options.work}/{name}"
        if name == "wide":
            model = folder
            if not os.path.exists(f"{folder}/train.bin"):
                wide(folder)
                os.rename(f"{folder}/tokens.bin", f"{folder}/train.bin")
        else:
            model = f"{HOME}/testdata/models/tiny-lm/gpt2"
            measured([sys.executable, f"{HERE}/systems_torch.py", "tokens", model, folder])
        for mode in options.modes.split(","):
            rounds = {tool: [] for tool in tools}
            for _ in range(options.rounds):
                for tool, run in tools.items():
                    rounds[tool].append(run(model, folder, mode, options.steps))
            facts[f"{name} {mode}"] = rounds
            reference = rounds["torch, ddp"][0]["losses"]
            base = statistics.median(t for r in rounds["torch, ddp"] for t in r["millis"][SETTLED:])
            lines.append(f"{'GPT-2 6x384' if name == 'wide' else 'tiny GPT-2'}, {mode}, {options.ranks} ranks of {options.batch} x {SEQUENCE} tokens")
            lines.append(f"{'':16}{'first loss':>11}{'last loss':>11}{'apart':>10}{'ms/step':>9}{'of ddp':>8}")
            for tool, results in rounds.items():
                ms = statistics.median(t for r in results for t in r["millis"][SETTLED:])
                apart = max(abs(a - b) for a, b in zip(results[0]["losses"], reference))
                lines.append(f"{tool:16}{results[0]['losses'][0]:11.5f}{results[0]['losses'][-1]:11.5f}{apart:10.1e}{ms:9.1f}{ms / base:8.2f}")
                print(lines[-1], file=sys.stderr)
            lines.append("")
    lines.append("apart: the largest difference of a step's loss from that of torch's ddp")
    write(options.result, machine(), lines, facts)


if __name__ == "__main__":
    main()
