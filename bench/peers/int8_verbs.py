"""bench/run-int8-verbs: inspect, calibrate, quantize, evaluate and verify on real models in INT8; see there."""

import argparse
import json
import os
import subprocess
import sys

import numpy

from int8_models import MODELS
from measured import HOME

RECIPES = (("int8", []), ("int8-dynamic", []), ("int8-dynamic +conv +attention", ["--convolutions", "int8", "--attention", "int8"]))


def octet(command, *words):
    """What a verb prints as JSON, or its refusal."""
    done = subprocess.run([*command, *words, "--json", "--quiet"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        return {"refused": done.stderr.strip().splitlines()[-3:]}
    return json.loads(done.stdout)


def held_out(model, folder, count):
    """Data that no statistics saw, as evaluate reads them."""
    if hasattr(model, "tokenizer"):
        path = os.path.join(folder, f"{model.name}-held-out.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in model.texts[:count])
        return [path, "--tokenizer", model.tokenizer]
    path = os.path.join(folder, f"{model.name}-held-out.npz")
    numpy.savez(path, x=numpy.stack([model.picture(text, 1000 + at) for at, text in enumerate(model.texts[:count])]))
    return [path]


def measured(model, command, folder, count):
    made = os.path.join(folder, "verbs")
    os.makedirs(made, exist_ok=True)
    data = held_out(model, made, count)
    inspected = octet(command, "inspect", model.path)
    statistics = os.path.join(made, f"{model.name}.stats")
    calibration = ["--data", *model.octet_data()[1:]]
    calibrated = octet(command, "calibrate", model.path, "-o", statistics, "--force", *calibration)
    rows = []
    for name, options in RECIPES:
        recipe = name.split()[0]
        target = os.path.join(made, f"{model.name}-{name.replace(' ', '')}.onnx")
        options = [*options, "--embeddings", "int8", *(["--statistics", statistics] if recipe == "int8" else [])]
        quantised = octet(command, "quantize", model.path, "-o", target, "--recipe", recipe, "--rounding", "nearest", "--force", *options)
        row = {"model": model.name, "recipe": name, "linears": inspected.get("layers", {}).get("linear")}
        refused = quantised.get("refused") or (calibrated.get("refused") if recipe == "int8" else None)
        if refused:
            row["refused"] = refused
        else:
            row["size"] = os.path.getsize(target) / os.path.getsize(model.path)
            compared = octet(command, "evaluate", model.path, target, "--data", *data)
            row["outputs"] = compared.get("comparison", compared)
            verified = octet(command, "verify", target, "--for", "onnxruntime", "--deep", "--against", model.path)
            row["verify"] = [f["rule"] for f in verified.get("findings", []) if f["severity"] != "advice"] or verified.get("refused") or "ok"
        rows.append(row)
        print(text(row), flush=True)
    return rows


def text(row):
    if "refused" in row:
        return f"{row['model']:14} {row['recipe']:30} refused: {row['refused'][0]}"
    outputs = row["outputs"].get("outputs")
    if not outputs:
        return f"{row['model']:14} {row['recipe']:30} {row['outputs']}"
    best = row["outputs"].get("embedding") or {}
    return (f"{row['model']:14} {row['recipe']:30} linears {row['linears']}  cosine {outputs[0]['cosine_mean']:.5f} min {outputs[0]['cosine_min']:.5f}"
            f"  embedding {best.get('cosine_mean', float('nan')):.5f}  top1 {outputs[0].get('top1_agreement')}  size {100 * row['size']:.1f} %  verify {row['verify']}")


def main():
    parser = argparse.ArgumentParser(prog="run-int8-verbs")
    parser.add_argument("result")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--octet", default=os.path.join(HOME, "octet"))
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "int8"))
    given = parser.parse_args()
    rows = []
    for name in given.models.split(","):
        model = MODELS[name]
        model.fetch(os.path.join(given.work, "models"))
        rows += measured(model, given.octet.split(), given.work, given.texts)
    with open(f"{given.result}.json", "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
