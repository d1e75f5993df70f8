"""The rows of bench/run-plan; see there. Linux."""

import argparse
import json
import os
import statistics
import subprocess
import sys

from adapters_torch import SEQUENCE
from measured import HERE, HOME, OCTET, machine, measured, octet_planned, write
from systems_rounds import ALL, ENGINES, MODES, TORCH, label, span

SETTLED = 10
ROWS = [("fp32", "fp32", ""), ("fp32", "fp32", ALL), ("bf16", "fp32", ""), ("bf16", "fp32", ALL), ("bf16", "torchao fp8", ""),
        ("bf16", "bf16 masters", ""), ("fp8 delayed", "fp32", ""), ("fp8 delayed", "fp32", ALL), ("fp8 block", "fp32", ""), ("msamp O2", "own", ""),
        ("msamp O3", "own", ALL)]


def row(options, model, data, mode, engine, extra):
    """Predicted and measured; in words why there is no run."""
    run = f"{options.work}/run"
    states = f", states: {{{ENGINES[engine]}}}" if ENGINES[engine] else ""
    lines = [data, "loss: {type: causal-lm}", "batch_size: 8", f"steps: {options.steps}",
             f"optimizer: {{type: adamw, lr: 5.0e-4, weight_decay: 0.01{states}}}", "schedule: {type: constant}", f"precision: {{{MODES[mode]}}}",
             "checkpoint: {every: 0}"] + ([extra] if extra else [])
    result = octet_planned(options, model, lines, run)
    if isinstance(result, str):
        return result
    _, text = measured(options.octet.split() + ["plan", model, "--config", f"{run}.yaml", "--threads", str(options.threads), "--json"], exits=(0, 1))
    here = json.loads(text[text.index("{"):])["machine"]
    return {"planned_mb": (here["lasting"] + here["within"] + here["process"]) / 1e6, "peak_mb": result["peak_mb"],
            "planned_ms": here["seconds"] * 1e3, "ms": statistics.median([m["seconds"] * 1e3 for m in result["steps"]][SETTLED:]),
            "product_rate": here["product_rate"], "memory_rate": here["memory_rate"]}


RECIPES = ["fp8-dynamic", "fp8-block", "mxfp8", "nvfp4", "int4"]


def conversion(options, model, recipe):
    """Quantising a checkpoint, predicted and measured; the median of three runs."""
    octet, output = options.octet.split(), f"{options.work}/converted"
    common = [model, "--recipe", recipe, "-o", output, "--threads", str(options.threads)]
    _, text = measured(octet + ["plan", *common, "--json"], exits=(0, 1))
    plan = json.loads(text[text.index("{"):])
    runs = [measured(octet + ["quantize", *common, "--force"])[0] for _ in range(3)]
    written = sum(os.path.getsize(f"{output}/{f}") for f in os.listdir(output) if f.endswith(".safetensors"))
    return {"planned_mb": plan["memory_bytes"] / 1e6, "peak_mb": max(r["peak_mb"] for r in runs), "planned_ms": plan["seconds"] * 1e3,
            "ms": statistics.median(r["seconds"] for r in runs) * 1e3, "planned_bytes": plan["target_bytes"], "bytes": written}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--parts", default="tiny,wide,conversions")
    parser.add_argument("--gigabytes", type=float, default=2.1, help="of the checkpoint that is quantised")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "plan"))
    parser.add_argument("--rows", type=span, default=(1, 1000), help="rows of each part, as 1-6")
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    models = []
    if "tiny" in options.parts:
        for kind in ("gpt2", "llama"):
            folder = f"{options.work}/{kind}"
            measured([sys.executable, TORCH, "tokens", f"{HOME}/testdata/models/tiny-lm/{kind}", folder])
            models.append((f"tiny {kind}", f"{HOME}/testdata/models/tiny-lm/{kind}", f"{folder}/train.bin"))
    if "wide" in options.parts:
        folder = f"{options.work}/wide"
        if not os.path.exists(f"{folder}/tokens.bin"):
            measured([sys.executable, f"{HERE}/adapters_torch.py", "wide", folder])
        models.append(("GPT-2 of 6 x 384", folder, f"{folder}/tokens.bin"))
    facts = machine() | {"threads": options.threads, "steps": f"{options.steps} of 8 x {SEQUENCE} tokens, the first {SETTLED} do not count"}
    lines, everything = [], {}
    for name, model, tokens in models:
        lines += [name, f"{'mode':14}{'states':14}{'activations':12}{'planned MB':>11}{'peak MB':>9}{'off':>8}{'planned ms':>12}{'ms/step':>9}{'off':>8}"]
        for mode, engine, extra in ROWS[options.rows[0] - 1 : options.rows[1]]:
            r = row(options, model, f"data: {{train: {tokens}, sequence: {SEQUENCE}, shuffle: false}}", mode, engine, extra)
            everything[f"{name}, {label(mode, engine, extra)}"] = r
            lines.append(f"{label(mode, engine, extra)} {r}" if isinstance(r, str) else
                         f"{label(mode, engine, extra)}{r['planned_mb']:11.0f}{r['peak_mb']:9.0f}{r['planned_mb'] / r['peak_mb'] - 1:+8.1%}"
                         f"{r['planned_ms']:12.1f}{r['ms']:9.1f}{r['planned_ms'] / r['ms'] - 1:+8.1%}")
            print(name, lines[-1], file=sys.stderr)
        lines.append("")
    if "conversions" in options.parts:
        model = f"{options.work}/checkpoint"
        if not os.path.exists(model):
            subprocess.run([sys.executable, f"{HERE}/make_checkpoint.py", "llama", model, str(options.gigabytes)], check=True, stdout=sys.stderr)
        lines += [f"quantising {options.gigabytes} GB of BF16", f"{'recipe':14}{'planned MB':>11}{'peak MB':>9}{'off':>8}{'planned s':>11}{'s':>7}{'off':>8}"
                  "  bytes"]
        for recipe in RECIPES:
            r = everything[f"quantising to {recipe}"] = conversion(options, model, recipe)
            lines.append(f"{recipe:14}{r['planned_mb']:11.0f}{r['peak_mb']:9.0f}{r['planned_mb'] / r['peak_mb'] - 1:+8.1%}{r['planned_ms'] / 1e3:11.2f}"
                         f"{r['ms'] / 1e3:7.2f}{r['planned_ms'] / r['ms'] - 1:+8.1%}  {'as planned' if r['bytes'] == r['planned_bytes'] else 'OTHERS'}")
            print(lines[-1], file=sys.stderr)
        lines.append("")
    rows = [r for r in everything.values() if not isinstance(r, str)]
    for planned, what, near in (("planned_mb", "peak_mb", 0.05), ("planned_ms", "ms", 0.2)):
        off = [abs(r[planned] / r[what] - 1) for r in rows]
        lines.append(f"{what}: within {near:.0%} in {sum(o <= near for o in off)} of {len(off)} rows, at most {max(off):.1%} off")
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, facts | {"rows": everything})


if __name__ == "__main__":
    main()
