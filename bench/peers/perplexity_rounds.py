"""The rounds of bench/run-perplexity; see there. Linux."""

import argparse
import json
import os
import shutil
import subprocess
import sys

from measured import HOME, OCTET, machine, measured, octet_trained, write

MAKE = os.path.join(HOME, "testdata", "make", "kjv.py")
LAYERS = 4
SEQUENCE = 128
CALIBRATED = 128
FORMS = {
    "static": ["--recipe", "fp8", "--target", "compressed-tensors"],
    "static, FP8 cache": ["--recipe", "fp8", "--target", "compressed-tensors", "--kv-cache", "fp8"],
    "static, modelopt": ["--recipe", "fp8", "--target", "modelopt"],
    "dynamic": ["--recipe", "fp8-dynamic", "--target", "compressed-tensors"],
}


def octet(options, *words):
    result, text = measured(options.octet.split() + list(words) + ["--json", "--quiet"])
    return result, json.loads(text[text.index("{"):])


def finished(run):
    """What a run in a folder has measured."""
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return {"evaluations": [line for line in lines if "eval_loss" in line], "seconds": sum(line.get("seconds", 0) for line in lines)}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "perplexity"))
    parser.add_argument("--text", help="folder of train.jsonl and eval.jsonl")
    parser.add_argument("--again", action="store_true", help="with the run that lies in the work folder, instead of training")
    parser.add_argument("--octet", default=OCTET, help="command")
    return parser


def trained_folder(options):
    """A Llama trained on the text, exported in BF16: its folder, that of the text, and what training came to."""
    work = options.work
    os.makedirs(work, exist_ok=True)
    text = os.path.abspath(options.text or f"{work}/text")
    if not os.path.exists(f"{text}/eval.jsonl"):
        subprocess.run([sys.executable, MAKE, "text", text], check=True, stdout=sys.stderr)
    model = f"{work}/llama"
    if not os.path.exists(f"{model}/tokenizer.json"):
        subprocess.run([sys.executable, MAKE, "model", text, "llama", str(LAYERS), model], check=True, stdout=sys.stderr)
    run = finished(f"{work}/run") if options.again else octet_trained(options, model, f"""
data: {{train: {text}/train.jsonl, eval: {text}/eval.jsonl, pack: true, sequence: {SEQUENCE}}}
loss: {{type: causal-lm}}
batch_size: 16
steps: {options.steps}
eval_every: {options.steps}
optimizer: {{type: adamw, lr: 2.0e-3, weight_decay: 0.01}}
schedule: {{type: cosine, warmup: 50}}
clip_grad_norm: 1.0
precision: {{mode: bf16}}
""", f"{work}/run")
    trained = run["evaluations"][-1]["eval_perplexity"]
    print(f"trained: perplexity {trained:.3f}, {run['seconds']:.0f} s", file=sys.stderr)
    bf16 = f"{work}/bf16"
    shutil.rmtree(bf16, ignore_errors=True)
    octet(options, "export", f"{work}/run", "-o", bf16, "--target", "huggingface", "--dtype", "bf16")
    return bf16, text, run | {"perplexity": trained}


def main():
    options = arguments().parse_args()
    work = options.work
    facts = machine() | {"threads": options.threads, "steps": options.steps, "calibrated on": f"{CALIBRATED} chapters"}
    bf16, text, run = trained_folder(options)
    for form in FORMS:
        shutil.rmtree(f"{work}/{form}", ignore_errors=True)
    octet(options, "calibrate", bf16, "-o", f"{work}/stats", "--data", f"{text}/train.jsonl", "--samples", str(CALIBRATED), "--force")
    trained = run["perplexity"]
    lines = [f"trained {options.steps} steps in BF16: perplexity {trained:.3f} on packed held-out chapters, {run['seconds']:.0f} s"]
    forms = {}
    for form, words in FORMS.items():
        statistics = [] if form == "dynamic" else ["--statistics", f"{work}/stats"]
        octet(options, "quantize", bf16, "-o", f"{work}/{form}", *words, *statistics)
        took, answer = octet(options, "evaluate", bf16, f"{work}/{form}", "--data", f"{text}/eval.jsonl", "--perplexity", "--no-layers")
        forms[form] = answer["comparison"]
        lines.append(f"{form:18} {summary(answer)}; {took['seconds']:.0f} s")
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, {"machine": facts, "trained": trained, "forms": forms})


def summary(answer):
    p = answer["comparison"]["perplexity"]
    fp8, bf16 = p["candidate"], p["reference"]
    return (f"perplexity {fp8['perplexity']:.4f}, BF16 {bf16['perplexity']:.4f}: "
            f"{fp8['perplexity'] / bf16['perplexity'] - 1:+.3%} over {bf16['tokens']} tokens")


if __name__ == "__main__":
    main()
