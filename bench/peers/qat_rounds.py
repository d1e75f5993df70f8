"""The parts of bench/run-qat; see there. Linux."""

import argparse
import glob
import hashlib
import json
import os
import shutil
import statistics
import sys

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from fashion_torch import BATCH, perceptron, samples
from int8_models import CALIBRATION, GLOSSES, MODELS
from measured import HOME, OCTET, machine, measured, octet_trained, package, write

# ---- MiniLM

HELD_OUT = 400
DISTILLED = """
data: {train: %s, tokenizer: %s, max_length: 64, shuffle: false}
loss: {type: mse, output: last_hidden_state, distillation: {teacher: %s}}
batch_size: 16
steps: %d
optimizer: {type: adamw, lr: %g, weight_decay: 0}
schedule: {type: cosine, warmup: 5%%}
clip_grad_norm: 1.0
precision: %s
checkpoint: {every: 0}
"""
# scheme: recipe, what is trained, target and ending of its export, whether the model is a folder
SCHEMES = {
    "INT4 weights, INT8 inputs": ("int4-int8", "{mode: qat, weights: {format: int4, variant: amax, granularity: group, group_size: 32}, inputs: {format: int8}}",
                                  "onnxruntime", ".onnx", False),
    "NVFP4 weights and inputs": ("nvfp4", "{mode: qat, weights: {format: nvfp4}, inputs: {method: dynamic, format: nvfp4}}", "compressed-tensors", "", True),
}


def glosses(nouns, count):
    """Glosses in the order of testdata/wordnet/glosses.jsonl, those behind the ones of that file."""
    with open(GLOSSES, encoding="utf-8") as file:
        known = {json.loads(line)["text"] for line in file}
    synsets = []
    with open(nouns, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("  "):
                synsets.append((hashlib.sha256(line.split(" ", 1)[0].encode()).hexdigest(), line.split("|", 1)[1].strip()))
    chosen = []
    for _, gloss in sorted(synsets):
        if len(gloss) >= 20 and gloss not in known:
            known.add(gloss)
            chosen.append(gloss)
    return chosen[:count]


def lines_of(path, texts):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    return path


class MiniLm:
    def __init__(self, options):
        self.options, self.words = options, options.octet.split()
        self.folder = os.path.join(options.work, "minilm")
        os.makedirs(self.folder, exist_ok=True)
        self.model = MODELS["minilm"]
        self.model.fetch(os.path.join(options.work, "models"))
        self.held_out = lines_of(f"{self.folder}/held-out.jsonl", self.model.texts[:HELD_OUT])
        nouns = options.wordnet or package(options.work, "wordnet-base", "/usr/share/wordnet/data.noun", "--wordnet FILE")
        self.train = lines_of(f"{self.folder}/train.jsonl", glosses(nouns, options.steps * 16))

    def octet(self, *words):
        return measured([*self.words, *words, "--force"])[1]

    def source(self, is_folder):
        """The model, and its statistics with second moments."""
        path = f"{self.folder}/original" if is_folder else self.model.path
        if is_folder and not os.path.exists(path):
            self.octet("convert", self.model.path, "-o", path, "--target", "huggingface")
            shutil.copy(self.model.tokenizer, f"{path}/tokenizer.json")
        stats = f"{self.folder}/{'folder' if is_folder else 'onnx'}.stats"
        if not os.path.exists(stats):
            self.octet("calibrate", path, "-o", stats, "--calibration", self.model.calibration, "--tokenizer", self.model.tokenizer, "--second-moments")
        return path, stats

    def agreement(self, reference, candidate):
        text = self.octet("evaluate", reference, candidate, "--data", self.held_out, "--tokenizer", self.model.tokenizer, "--no-layers", "--json")
        found = json.loads(text[text.index("{"):])["comparison"]["embedding"]
        size = sum(os.path.getsize(f) for f in ([candidate] if os.path.isfile(candidate) else glob.glob(f"{candidate}/*.safetensors")))
        return {"cosine": found["cosine_mean"], "cosine_min": found["cosine_min"], "spearman": found["spearman"], "megabytes": size / 1e6}

    def measure(self):
        rows = []
        for scheme, (recipe, precision, target, ending, is_folder) in SCHEMES.items():
            source, stats = self.source(is_folder)
            for rounding in ("nearest", "gptq"):
                made = f"{self.folder}/{recipe}-{rounding}{ending}"
                self.octet("quantize", source, "-o", made, "--recipe", recipe, "--statistics", stats, "--rounding", rounding)
                rows.append({"scheme": scheme, "how": {"nearest": "rounded to nearest", "gptq": "GPTQ"}[rounding]} | self.agreement(source, made))
                print(rows[-1], file=sys.stderr)
            run = f"{self.folder}/{recipe}-run"
            trained = octet_trained(self.options, source, DISTILLED % (self.train, self.model.tokenizer, source, self.options.steps, self.options.lr, precision), run)
            made = f"{self.folder}/{recipe}-trained{ending}"
            # exit code 1: the proof failed
            proof = measured([*self.words, "export", run, "-o", made, "--target", target, "--force", "--json"], (0, 1))
            proved = json.loads(proof[1][proof[1].index("{"):])["proof"]
            rows.append({"scheme": scheme, "how": f"trained, {self.options.steps} steps", "losses": trained["losses"][::50] + trained["losses"][-1:],
                         "proof": proved["worst"]} | self.agreement(source, made))
            print(rows[-1], file=sys.stderr)
        lines = [f"all-MiniLM-L6-v2, sentence embeddings of {HELD_OUT} held-out glosses beside FP32's; PTQ by {CALIBRATION} other glosses, training on "
                 f"{self.options.steps} batches of 16 others, the FP32 model as teacher; embeddings in F32",
                 f"{'':27}{'':22}{'cosine':>9}{'smallest':>10}{'Spearman':>10}{'MB':>7}"]
        for row in rows:
            lines.append(f"{row['scheme']:27}{row['how']:22}{row['cosine']:9.5f}{row['cosine_min']:10.5f}{row['spearman']:10.5f}{row['megabytes']:7.1f}"
                         + (f"   export against the trainer: {row['proof']:.1e}" if "proof" in row else ""))
        return lines, rows


# ---- Fashion-MNIST

CONFIG = """
seed: %d
data: {train: %s/train.safetensors, eval: %s/test.safetensors, shuffle: false}
loss: {type: cross-entropy, output: logits, labels: labels}
batch_size: %d
steps: %d
optimizer: {type: sgd, lr: %g, momentum: 0.9, weight_decay: 1.0e-4}
schedule: {type: cosine}
precision: %s
checkpoint: {every: 0}
"""
METHODS = {
    "LSQ": lambda bits: f"weights: {{format: int{bits}, granularity: tensor}}, inputs: {{format: uint{bits}}}",
    "PACT": lambda bits: f"weights: {{method: dorefa, format: uint{bits}}}, inputs: {{method: pact, format: uint{bits}}}",
    "DoReFa": lambda bits: f"method: dorefa, weights: {{format: uint{bits}}}, inputs: {{format: uint{bits}}}",
}


def weight(values, module, method, bits):
    w = values[f"{module}.weight"]
    top = 2**bits - 1
    if method == "LSQ":
        s = values[f"{module}.weight_quantizer.scale"]
        return torch.clamp(torch.round(w / s), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1) * s
    t = torch.tanh(w)
    return 2 * torch.round((t / (2 * t.abs().max()) + 0.5) * top) / top - 1


def inputs(x, values, module, method, bits):
    top = 2**bits - 1
    scale = values[f"{module}.input_quantizer." + ("scale" if method == "LSQ" else "amax")]
    s = scale if method == "LSQ" else scale / top
    return torch.clamp(torch.round(x / s), 0, top) * s


def logits(values, images, method, bits):
    """The perceptron, its inner layers quantised; all in floats for method None."""
    x = images.flatten(1)
    for module in ("first", "second", "third", "last"):
        w = values[f"{module}.weight"]
        if method and module in ("second", "third"):
            w, x = weight(values, module, method, bits), inputs(x, values, module, method, bits)
        x = F.linear(x, w, values[f"{module}.bias"])
        if module != "last":
            norm = f"{module}_norm"
            x = F.relu(F.layer_norm(x, x.shape[-1:], values[f"{norm}.weight"], values[f"{norm}.bias"]))
    return x


class Fashion:
    def __init__(self, options):
        self.options = options
        self.steps = options.epochs * (60_000 // BATCH)

    def run(self, folder, model, name, seed, lr, precision, method=None, bits=0):
        result = octet_trained(self.options, model, CONFIG % (seed, folder, folder, BATCH, self.steps, lr, precision), f"{folder}/{name}")
        values = load_file(f"{folder}/{name}/checkpoints/step-{self.steps}/parameters.safetensors")
        test = load_file(f"{folder}/test.safetensors")
        with torch.no_grad():
            found = logits(values, test["images"], method, bits)
        loss = F.cross_entropy(found, test["labels"]).item()
        row = {"name": name, "seed": seed, "accuracy": (found.argmax(1) == test["labels"]).float().mean().item(), "loss": loss,
               "octet": result["evaluations"][-1]["eval_loss"]}
        print(row, file=sys.stderr)
        return row

    def measure(self):
        source = self.options.data or package(self.options.work, "dataset-fashion-mnist", "/usr/share/datasets/fashion-mnist", "--data FOLDER")
        rows = []
        for seed in range(1, 1 + self.options.seeds):
            folder = f"{self.options.work}/fashion-{seed}"
            model = f"{folder}/perceptron.onnx"
            if not os.path.exists(model):
                samples(folder, source, seed)
                perceptron(model, seed)
            rows.append(self.run(folder, model, "fp32", seed, 0.02, "{mode: fp32}"))
            trained = f"{folder}/trained.onnx"
            measured([*self.options.octet.split(), "export", f"{folder}/fp32", "-o", trained, "--target", "onnx", "--force"], (0, 1))
            for bits in (4, 2):
                for method, operands in METHODS.items():
                    precision = f"{{mode: qat, {operands(bits)}, exempt_first: true, exempt_last: true}}"
                    rows.append(self.run(folder, trained, f"{method}-{bits}", seed, self.options.rate, precision, method, bits))
        lines = [f"Fashion-MNIST, 784-256-256-256-10 with layer norms; the inner layers' weights and inputs have few bits, the first and last layer none; from the "
                 f"same FP32 weights, {self.options.epochs} epochs each; means over {self.options.seeds} seeds [lowest .. highest]"]
        for name in dict.fromkeys(row["name"] for row in rows):
            of = [row["accuracy"] for row in rows if row["name"] == name]
            apart = max(abs(row["loss"] - row["octet"]) / row["loss"] for row in rows if row["name"] == name)
            lines.append(f"{name:10} {statistics.mean(of):.2%} [{min(of):.2%} .. {max(of):.2%}]; loss within {apart:.1e} of PyTorch's forward")
        return lines, rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--parts", default="minilm,fashion")
    parser.add_argument("--steps", type=int, default=600, help="of MiniLM")
    parser.add_argument("--lr", type=float, default=1e-4, help="of MiniLM")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.01, help="of the perceptron in few bits")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "qat"))
    parser.add_argument("--data", help="folder of Fashion-MNIST's .gz files")
    parser.add_argument("--wordnet", help="data.noun")
    parser.add_argument("--octet", default=OCTET, help="command")
    parser.add_argument("--build", help="off: what is built is measured")
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    torch.set_num_threads(options.threads)
    facts = machine() | {"threads": options.threads}
    lines, results = [], {}
    for part in options.parts.split(","):
        more, results[part] = {"minilm": MiniLm, "fashion": Fashion}[part](options).measure()
        lines += more + [""]
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines[:-1], {"machine": facts, "results": results})


main()
