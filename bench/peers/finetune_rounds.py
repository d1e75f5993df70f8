"""The rounds of bench/run-finetune; see there. Linux."""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

from finetune_torch import BATCH, EVERY, LR, SEQUENCE, WARM_UP
from measured import HERE, HOME, OCTET, machine, measured, octet_trained, torch_trained, write

CELLS = {
    "fp32": "{mode: fp32}",
    "bf16": "{mode: bf16}",
    "fp8-delayed": "{mode: fp8, recipe: delayed}",
    "fp8-current": "{mode: fp8, recipe: current}",
}
MAKE = os.path.join(HOME, "testdata", "make", "kjv.py")
CURVE = 50
SHOWN = 8


def octet(options, cell):
    """Trains, exports to a Hugging Face folder with the proof of its logits, and has transformers evaluate that."""
    run = f"{options.work}/{cell}"
    config = f"""
data: {{train: {options.text}/train.jsonl, eval: {options.text}/eval.jsonl, shuffle: false, pack: true, sequence: {SEQUENCE}}}
loss: {{type: causal-lm}}
batch_size: {BATCH}
steps: {options.steps}
eval_every: {EVERY}
optimizer: {{type: adamw, lr: {LR}, weight_decay: 0.01}}
schedule: {{type: linear, warmup: {WARM_UP}}}
clip_grad_norm: 1.0
precision: {CELLS[cell]}
"""
    result = octet_trained(options, options.model, config, run)
    shutil.rmtree(f"{run}-export", ignore_errors=True)
    exported, text = measured(options.octet.split() + ["export", run, "-o", f"{run}-export", "--target", "huggingface", "--json", "--quiet"],
                              exits=(0, 1))
    result["proof"] = json.loads(text[text.index("{"):])["proof"]["worst"]
    result["proved"] = exported["exit"] == 0
    result["transformers"] = torch_trained(f"{HERE}/finetune_torch.py", "evaluate", f"{run}-export", options.text, "--threads",
                                           str(options.threads))
    return result


def torch(options, cell):
    return torch_trained(f"{HERE}/finetune_torch.py", "train", options.model, options.text, "--mode", cell, "--steps", str(options.steps),
                         "--threads", str(options.threads))


def report(runs):
    lines, summary = [], {}
    for label, run in runs.items():
        losses = run["losses"]
        width = max(1, len(losses) // SHOWN)
        curve = [statistics.mean(losses[i:i + width]) for i in range(0, len(losses) - width + 1, width)]
        last = run["evaluations"][-1]
        summary[label] = {"perplexity": last["eval_perplexity"], "ms": statistics.median(run["millis"]), "seconds": run["seconds"],
                          "curve": curve}
        lines.append(f"{label:18} perplexity {last['eval_perplexity']:.3f} at step {last['step']}; loss "
                     + " ".join(f"{x:.3f}" for x in curve) + f"; {summary[label]['ms']:.0f} ms a step, {run['seconds']:.0f} s in all")
        if "transformers" in run:
            there = run["transformers"]
            summary[label] |= {"perplexity in transformers": there["eval_perplexity"], "proof": run["proof"]}
            lines.append(f"{'':18} its export in transformers' FP32 {there['eval_perplexity']:.3f}; proof {run['proof']:.2g}"
                         + ("" if run["proved"] else ", FAILED")
                         + (f"; LOADED WITH {there['loading']}" if there["loading"] else "; every key found its place"))
    base = summary.get("torch fp32")
    if base:
        for label, values in summary.items():
            values["over PyTorch's fp32"] = values["perplexity"] / base["perplexity"] - 1
        lines.append("over PyTorch's FP32: " + "; ".join(f"{label} {values['over PyTorch' + chr(39) + 's fp32']:+.2%}"
                                                         for label, values in summary.items() if label != "torch fp32"))
    for mode in ("fp32", "bf16"):
        if f"octet {mode}" in runs and f"torch {mode}" in runs:
            pairs = list(zip(runs[f"octet {mode}"]["losses"], runs[f"torch {mode}"]["losses"]))[:CURVE]
            apart = max(abs(a - b) for a, b in pairs)
            summary[f"losses apart {mode}"] = apart
            lines.append(f"{mode}: losses of the first {len(pairs)} steps at most {apart:.2g} from PyTorch's")
    return lines, summary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--steps", type=int, default=400, help=f"a multiple of {EVERY}")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "finetune"))
    parser.add_argument("--text", help="folder of train.jsonl and eval.jsonl")
    parser.add_argument("--only", default=",".join(CELLS))
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    if options.steps < EVERY or options.steps % EVERY:
        parser.error(f"--steps {options.steps} is no multiple of {EVERY}")
    os.makedirs(options.work, exist_ok=True)
    if options.text is None:
        options.text = f"{options.work}/text"
        if not os.path.exists(f"{options.text}/chapters.json"):
            subprocess.run([sys.executable, MAKE, "text", options.text], check=True, stdout=sys.stderr)
    options.text = os.path.abspath(options.text)
    options.model = f"{options.work}/gpt2"
    if not os.path.exists(f"{options.model}/tokenizer.json"):
        subprocess.run([sys.executable, MAKE, "model", options.text, "gpt2", "4", options.model], check=True, stdout=sys.stderr)
    facts = machine() | {"threads": options.threads, "steps": options.steps, "batch": f"{BATCH} x {SEQUENCE} tokens", "lr": LR}
    runs = {}
    for cell in options.only.split(","):
        for tool, trained in (("torch", torch), ("octet", octet)):
            if tool == "octet" or cell in ("fp32", "bf16"):
                runs[f"{tool} {cell}"] = run = trained(options, cell)
                print(f"{tool} {cell}: perplexity {run['evaluations'][-1]['eval_perplexity']:.3f}, {run['seconds']:.0f} s", file=sys.stderr)
    facts["load_average_after"] = os.getloadavg()
    lines, summary = report(runs)
    lines.insert(0, f"perplexity on held-out chapters ({math.e:.3f} to the mean loss of a token); losses are means of {SHOWN} parts of the run")
    for run in runs.values():
        run["losses"] = run["losses"][:CURVE] + run["losses"][-1:]
        del run["millis"]
    write(options.result, facts, lines, {"machine": facts, "summary": summary, "runs": runs})


if __name__ == "__main__":
    main()
