"""bench/run-models: inspect, calibrate, quantize, evaluate and verify on real models; see there."""

import argparse
import collections
import json
import os
import subprocess
import sys
import time

import numpy

from measured import HOME
from real_models import MODELS

EMBEDDINGS = ["--embeddings", "int8"]
RECIPES = {
    "fp8": ["--recipe", "fp8"],
    "fp8 +": ["--recipe", "fp8", "--convolutions", "fp8", "--attention", "fp8"],
    "fp8-weight-only": ["--recipe", "fp8-weight-only"],
    "fp8-weight-only +": ["--recipe", "fp8-weight-only", "--convolutions", "fp8"],
    "int8": ["--recipe", "int8", *EMBEDDINGS],
    "int8-dynamic": ["--recipe", "int8-dynamic", *EMBEDDINGS],
    "int8-dynamic +": ["--recipe", "int8-dynamic", *EMBEDDINGS, "--convolutions", "int8", "--attention", "int8"],
}
CALIBRATED = ("fp8", "fp8 +", "int8")


def octet(command, *words):
    """What a verb prints as JSON, or its refusal."""
    done = subprocess.run([*command, *words, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith(("WARNING", "SLF4J"))]
        for word in words:  # no folder of this machine in a result
            lines = [line.replace(word, os.path.basename(word)) for line in lines] if os.path.isabs(word) else lines
        return {"refused": lines[-3:] or [f"exit {done.returncode}"]}
    return json.loads(done.stdout)


def held_out(model, folder, count):
    """Data that no statistics saw, as evaluate reads them."""
    if hasattr(model, "tokenizer"):
        path = os.path.join(folder, f"{model.name}-held-out.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in model.texts[:count])
        return [path, "--tokenizer", model.tokenizer]
    path = os.path.join(folder, f"{model.name}-held-out.npz")
    if hasattr(model, "held_out"):
        return model.held_out(path, count)
    numpy.savez(path, x=numpy.stack([model.picture(text, 1000 + at) for at, text in enumerate(model.texts[:count])]))
    return [path]


def measured(model, command, folder, given):
    made = os.path.join(folder, "verbs")
    os.makedirs(made, exist_ok=True)
    data = held_out(model, made, given.texts)
    inspected = octet(command, "inspect", model.path)
    statistics = os.path.join(made, f"{model.name}.stats")
    calibrated = octet(command, "calibrate", model.path, "-o", statistics, "--force", "--data", *model.octet_data()[1:])
    rows = []
    for name in given.recipes.split(","):
        target = os.path.join(made, f"{model.name}-{name.replace(' ', '')}.onnx")
        row = {"model": model.name, "recipe": name, "layers": inspected.get("layers"), "megabytes": os.path.getsize(model.path) / 1e6}
        options = [*RECIPES[name], *(["--statistics", statistics] if name in CALIBRATED and "refused" not in calibrated else [])]
        start = time.perf_counter()
        quantised = octet(command, "quantize", model.path, "-o", target, "--rounding", "nearest", "--force", *options)
        row["seconds"] = time.perf_counter() - start
        refused = quantised.get("refused")
        if refused:
            row["refused"] = refused
        else:
            row["quantised"] = {k: v for k, v in quantised.items() if k in ("layers", "kept", "converted", "notes", "weights", "linears")}
            row["size"] = os.path.getsize(target) / os.path.getsize(model.path)
            compared = octet(command, "evaluate", model.path, target, "--data", *data)
            row["outputs"] = compared.get("comparison", compared)
            verified = octet(command, "verify", target, "--for", "onnxruntime", "--deep", "--against", model.path)
            row["verify"] = [f["rule"] for f in verified.get("findings", []) if f["severity"] != "advice"] or verified.get("refused") or "ok"
        rows.append(row)
        print(text(row), flush=True)
    return rows


def text(row):
    head = f"{row['model']:15} {row['megabytes']:6.1f} MB {row['recipe']:16}"
    if "refused" in row:
        return f"{head} refused: {row['refused'][0]}"
    outputs = row["outputs"].get("outputs")
    layers = row["layers"] or {}
    if not outputs:
        return f"{head} linears {layers.get('linear')}  {row['outputs']}"
    embedding = (row["outputs"].get("embedding") or {}).get("cosine_mean")
    top1 = outputs[0].get("top1_agreement")
    return (f"{head} linears {layers.get('linear')!s:>3}  cosine {outputs[0]['cosine_mean']:.5f} min {outputs[0]['cosine_min']:.5f} {decibels(outputs[0]['sqnr_db'])}"
            f"{f'  embedding {embedding:.5f}' if embedding else ''}{f'  top1 {top1:.4f}' if isinstance(top1, float) else ''}"
            f"  size {100 * row['size']:5.1f} %  {row['seconds']:4.1f} s  verify {row['verify']}\n{converted(row['quantised'])}")


def converted(quantised):
    """How many layers of each kind were converted, and why others were not."""
    kinds = ", ".join(f"{k['kind']} {k['converted']} of {k['total']} {k['means']}" for k in quantised["layers"])
    reasons = collections.Counter((k["kind"], k["reason"]) for k in quantised["kept"])
    return "".join(f"{'':28}{line}\n" for line in [kinds, *(f"kept: {n} {kind}, {why}" for (kind, why), n in reasons.items())]).rstrip("\n")


def decibels(x):
    """JSON has the ratio to no noise at all as a text."""
    return f"{x:5.1f} dB" if isinstance(x, (int, float)) else "  exact"


def main():
    parser = argparse.ArgumentParser(prog="run-models")
    parser.add_argument("result")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--octet", default=os.path.join(HOME, "octet"))
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "int8"))
    given = parser.parse_args()
    os.environ["OCTET"] = given.octet
    rows = []
    for name in given.models.split(","):
        model = MODELS[name]
        model.fetch(os.path.join(given.work, "models"))
        rows += measured(model, given.octet.split(), given.work, given)
        with open(f"{given.result}.json", "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
        with open(f"{given.result}.txt", "w", encoding="utf-8") as file:
            file.writelines(text(row) + "\n" for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
