"""The rounds of bench/run-guard; see there. Linux."""

import argparse
import hashlib
import json
import os
import shutil
import statistics

from safetensors.torch import load_file, save_file

from measured import HOME, OCTET, machine, measured, write

TEXT = os.path.join(HOME, "testdata", "text")
MODELS = os.path.join(HOME, "testdata", "models", "tiny-lm")
PLANTED_AFTER = 100
CHANNEL = 7
GAIN = 2.0 ** 20
FROZEN = {"gpt2": "wte", "llama": "embed_tokens"}
FORMS = {
    "bf16": "precision: {mode: bf16}",
    "fp8": "precision: {mode: fp8, recipe: delayed}",
    "fp8, guarded": "precision: {mode: fp8, recipe: delayed}\nguard: {}",
}


def octet(options, *words):
    return measured(options.octet.split() + list(words))


def started(options, model, config, run, *more):
    with open(f"{run}.yaml", "w", encoding="utf-8") as file:
        file.write(f"""data: {{train: {TEXT}/train.jsonl, eval: {TEXT}/eval.jsonl, pack: true, sequence: 64}}
loss: {{type: causal-lm}}
batch_size: 8
clip_grad_norm: 1.0
""" + config)
    shutil.rmtree(run, ignore_errors=True)
    octet(options, "train", model, "--config", f"{run}.yaml", "-o", run, "--threads", str(options.threads), "--quiet", *more)


def plant(run):
    """Changes the weights of a checkpoint, and its digests with them."""
    folder = f"{run}/checkpoints/step-{PLANTED_AFTER}"
    weights = load_file(f"{folder}/parameters.safetensors")
    norm = next(n for n in weights if n.endswith(("ln_f.weight", "model.norm.weight")))
    matrix = next(n for n in weights if n.endswith(("wte.weight", "embed_tokens.weight")))
    weights[norm][CHANNEL] *= GAIN
    weights[matrix][:, CHANNEL] = 0
    save_file(weights, f"{folder}/parameters.safetensors")
    with open(f"{folder}/SHA256SUMS", encoding="utf-8") as file:
        names = [line.rstrip("\n").split("  ")[1] for line in file]
    with open(f"{folder}/SHA256SUMS", "w", encoding="utf-8") as file:
        for name in names:
            with open(f"{folder}/{name}", "rb") as each:
                file.write(f"{hashlib.sha256(each.read()).hexdigest()}  {name}\n")


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def finished(run):
    metrics = lines(f"{run}/metrics.jsonl")
    steps = [line for line in metrics if "loss" in line]
    after = [s["seconds"] * 1e3 for s in steps if s["step"] > PLANTED_AFTER + 40]
    guard = lines(f"{run}/guard.jsonl") if os.path.exists(f"{run}/guard.jsonl") else []
    return {"evaluation": [line["eval_loss"] for line in metrics if "eval_loss" in line][-1],
            "training": statistics.fmean(s["loss"] for s in steps[-50:]),
            "median ms": statistics.median(after), "mean ms": statistics.fmean(after), "decisions": guard}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "guard"))
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    facts = machine() | {"threads": options.threads, "steps": options.steps}
    result = facts | {"models": {}}
    text = []
    for model, frozen in FROZEN.items():
        work = f"{options.work}/{model}"
        started(options, f"{MODELS}/{model}", """steps: 300
optimizer: {type: adamw, lr: 2.0e-3}
schedule: {type: cosine, warmup: 20}
precision: {mode: bf16}
""", f"{work}-pretrained")
        octet(options, "export", f"{work}-pretrained", "-o", work, "--target", "huggingface", "--dtype", "fp32", "--no-proof", "--force", "--quiet")
        runs = {}
        for form, precision in FORMS.items():
            run = f"{work}-{form.replace(', ', '-')}"
            started(options, work, f"""steps: {options.steps}
optimizer: {{type: adamw, lr: 5.0e-4, weight_decay: 0}}
schedule: {{type: cosine, warmup: 20}}
seed: 2
freeze: [{frozen}]
{precision}
""", run, "--steps", str(PLANTED_AFTER))
            plant(run)
            octet(options, "train", "--resume", run, "--threads", str(options.threads), "--quiet")
            runs[form] = finished(run)
        products = 3 * len({line["layer"] for line in lines(f"{work}-fp8/fp8_health.jsonl")}) - 1  # nothing wants wgrad of the frozen output layer
        demoted = {d["node"]: d["to"] for d in runs["fp8, guarded"]["decisions"] if "node" in d}
        high = sum(1 for to in demoted.values() if to == "high_precision")
        result["models"][model] = {"runs": runs, "products": products, "in fp8": products - high}
        base = runs["bf16"]["evaluation"]
        for form, r in runs.items():
            text.append(f"{model:6} {form:13} evaluation {r['evaluation']:.4f} ({100 * (r['evaluation'] / base - 1):+.2f} %), "
                        f"last 50 steps {r['training']:.4f}, step {r['median ms']:.1f} ms (mean {r['mean ms']:.1f})")
        text.append(f"{model:6} guarded: {products - high} of {products} products in FP8 ({100 * (products - high) / products:.1f} %)")
        text += [f"{model:6} step {d['step']}: {d['decision']} {d.get('product', '')} {d.get('from', '')} -> {d.get('to', '')}, "
                 f"{d.get('trigger', '')} {d.get('value', '')}" for d in runs["fp8, guarded"]["decisions"]]
    write(options.result, facts, text, result)


if __name__ == "__main__":
    main()
