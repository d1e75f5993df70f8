"""The rounds of bench/run-fashion-mnist; see there. Linux.

Seeds decide the weights at the start and the order of the images, which every epoch keeps. The MLP is trained with each seed, LeNet with the
first. A mean difference of at most the standard error of one accuracy, sqrt(p (1 - p) / images), is called noise: rounding alone moves
accuracies by about as much, as the weights of two runs drift apart from the first activation on that rounds to the other side of 0.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys

import numpy as np
import onnxruntime
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_weights

from fashion_torch import BATCH, LR, MODELS, classes
from measured import HERE, HOME, OCTET, machine, measured, octet_trained, package, torch_trained, write

PACKAGE = "dataset-fashion-mnist"
WARM_UP, CURVE = 20, 50
# cell: what octet train is told, how its run is exported, which PyTorch run it stands beside
CELLS = {
    "fp32": ("{mode: fp32}", ["onnx"], "fp32"),
    "bf16": ("{mode: bf16}", ["onnx", "--dtype", "bf16"], "bf16"),
    "fp8-delayed": ("{mode: fp8, recipe: delayed, fp8_format: HYBRID}", ["onnxruntime"], "fp32"),
    "fp8-current": ("{mode: fp8, recipe: current, fp8_format: HYBRID}", ["onnxruntime"], "fp32"),
    "mxfp8": ("{mode: fp8, recipe: mxfp8}", ["onnxruntime"], "fp32"),
}
CONFIG = """
data: {train: %s/train.safetensors, eval: %s/test.safetensors, shuffle: false}
loss: {type: cross-entropy, output: logits, labels: labels}
batch_size: %d
steps: %d
optimizer: {type: adamw, lr: %g, weight_decay: 0.01}
schedule: {type: linear}
clip_grad_norm: 1.0
precision: %s
"""


def source(options):
    """The folder with the data set; the package is fetched when it is not there."""
    return options.data or package(options.work, PACKAGE, "/usr/share/datasets/fashion-mnist", "--data FOLDER")


class Rounds:
    def __init__(self, options, name, seed):
        self.options, self.name = options, name
        self.folder = f"{options.work}/seed-{seed}"
        self.onnx = f"{self.folder}/{name}.onnx"
        test = load_file(f"{self.folder}/test.safetensors")
        self.images, self.labels = test["images"], test["labels"]
        self.steps = options.epochs * (60_000 // BATCH)
        self.runs = {}

    def measure(self):
        for mode in ("fp32", "bf16"):
            result = torch_trained(f"{HERE}/fashion_torch.py", "train", self.name, self.folder, "--mode", mode, "--steps",
                                   str(self.steps), "--threads", str(self.options.threads))
            self.add(f"torch {mode}", result, result.pop("classes"))
        for cell, (precision, export, beside) in CELLS.items():
            run = f"{self.folder}/{self.name}-{cell}"
            result = octet_trained(self.options, self.onnx, CONFIG % (self.folder, self.folder, BATCH, self.steps, LR, precision), run)
            # exit code 1: the proof on some samples failed. It is measured on all of them here
            proof, _ = measured(self.options.octet.split() + ["export", run, "-o", f"{run}.onnx", "--force", "--target", *export], (0, 1))
            session = onnxruntime.InferenceSession(f"{run}.onnx")
            given = [session.run(["logits"], {"images": x})[0].argmax(1) for x in np.split(self.images, 10)]
            self.add(f"octet {cell}", result | {"proof": proof["exit"]}, np.concatenate(given), self.runs[f"torch {beside}"])
            masters = MODELS[self.name]()
            masters.load_state_dict(load_weights(f"{run}/checkpoints/step-{self.steps}/parameters.safetensors"))
            self.runs[f"octet {cell}"]["weights in torch"] = float(np.mean(classes(masters, self.images) == self.labels))

    def add(self, label, result, given, beside=None):
        result |= {"accuracy": float(np.mean(np.asarray(given) == self.labels)),
                   "ms": statistics.median(result.pop("millis")[WARM_UP:])}
        if beside:
            result["points"] = 100 * (result["accuracy"] - beside["accuracy"])
            result["losses apart"] = max(abs(a - b) for a, b in zip(result["losses"][:CURVE], beside["losses"][:CURVE]))
        self.runs[label] = result
        print(f"{self.folder} {self.name} {label}: {result['accuracy']:.2%}, {result['seconds']:.0f} s", file=sys.stderr)


def report(name, rounds):
    """Lines about a model's runs, and their means over the seeds."""
    lines, summary = [], {}
    for label in rounds[0].runs:
        runs = [r.runs[label] for r in rounds]

        def mean(key):
            return statistics.mean(run[key] for run in runs)

        line = f"{name:6}{label:18} {mean('accuracy'):.2%}"
        if len(runs) > 1:
            line += f" [{min(run['accuracy'] for run in runs):.2%} .. {max(run['accuracy'] for run in runs):.2%}]"
        summary[label] = {key: mean(key) for key in ("accuracy", "ms", "seconds")}
        tool, cell = label.split()
        if tool == "octet":
            error = 100 * math.sqrt(mean("accuracy") * (1 - mean("accuracy")) / len(rounds[0].labels))
            summary[label] |= {key: mean(key) for key in ("points", "weights in torch")} | {"standard error": error}
            verdict = "within" if abs(mean("points")) <= error else "MORE THAN"
            line += (f"; {mean('points'):+.2f} points from PyTorch's {CELLS[cell][2]}, {verdict} a standard error ({error:.2f}); its weights "
                     f"in PyTorch's FP32 {mean('weights in torch'):.2%}")
            if any(run["proof"] for run in runs):
                line += "; THE EXPORT'S PROOF FAILED"
        line += f"; {mean('ms'):.2f} ms a step, {mean('seconds'):.0f} s in all, loss at the end {runs[0]['losses'][-1]:.4f}"
        lines.append(line)
        if cell == "fp32" and tool == "octet":
            summary["losses apart"] = max(run["losses apart"] for run in runs)
            lines.append(f"{name:6}{label:18} losses of the first {CURVE} steps at most {summary['losses apart']:.2g} from PyTorch's")
    return lines, summary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2, help="of the MLP")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "fashion-mnist"))
    parser.add_argument("--data", help="folder of the .gz files")
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.makedirs(options.work, exist_ok=True)
    facts = machine() | {"threads": options.threads, "epochs": options.epochs, "batch": BATCH, "seeds of the MLP": options.seeds}
    idx = source(options)
    lines, summary, rounds = [], {}, {}
    for name in options.only.split(","):
        rounds[name] = []
        for seed in range(1, 1 + (options.seeds if name == "mlp" else 1)):
            folder = f"{options.work}/seed-{seed}"
            if not os.path.exists(f"{folder}/lenet.onnx"):
                subprocess.run([sys.executable, f"{HERE}/fashion_torch.py", "make", folder, "--idx", idx, "--seed", str(seed)], check=True,
                               stdout=sys.stderr)
            rounds[name].append(Rounds(options, name, seed))
            rounds[name][-1].measure()
        more, summary[name] = report(name, rounds[name])
        lines += more
    facts["load_average_after"] = os.getloadavg()
    lines.insert(0, "right answers on the 10,000 test images; means over the seeds [lowest .. highest]; median milliseconds of a step")
    for run in (run for of_model in rounds.values() for r in of_model for run in r.runs.values()):
        run["losses"] = run["losses"][:CURVE] + run["losses"][-1:]
    write(options.result, facts, lines, {"machine": facts, "summary": summary,
                                         "rounds": {name: [r.runs for r in of_model] for name, of_model in rounds.items()}})


main()
