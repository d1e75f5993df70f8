"""The parts of bench/run-systems; see there. Linux.

Every run is a process of its own. Times are those of single steps, each tool's own clock; the first three steps of a process do not count.
"""

import argparse
import os
import statistics
import sys

import numpy as np
from adapters_torch import SEQUENCE
from measured import HERE, HOME, OCTET, machine, measured, octet_planned, torch_trained, write

TORCH = f"{HERE}/systems_torch.py"
SETTLED = 3
MODES = {
    "fp32": "mode: fp32",
    "bf16": "mode: bf16",
    "fp8 delayed": "mode: fp8, recipe: delayed",
    "fp8 block": "mode: fp8, recipe: block",
    "msamp O1": "mode: msamp, opt_level: O1",
    "msamp O2": "mode: msamp, opt_level: O2",
    "msamp O3": "mode: msamp, opt_level: O3",
    "msamp O2 + te": "mode: msamp, opt_level: O2, use_te: true",
}
ENGINES = {
    "fp32": "",
    "own": "",  # what the mode brings
    "te": "engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8, exp_avg_sq_dtype: fp16",
    "torchao int8": "engine: torchao",
    "torchao fp8": "engine: torchao, format: fp8",
    "torchao int4": "engine: torchao, format: int4",
    "bf16 masters": "engine: bf16, masters: bf16",
}
ALL = "gradient_checkpointing: {layers: all}"
PAIRS = "gradient_checkpointing: {every: 2}"
ROWS = [
    ("fp32", "fp32", ""), ("bf16", "fp32", ""), ("bf16", "fp32", ALL), ("bf16", "te", ""), ("bf16", "torchao int8", ""),
    ("bf16", "torchao fp8", ""), ("bf16", "torchao int4", ""), ("bf16", "bf16 masters", ""), ("bf16", "bf16 masters", ALL),
    ("fp8 delayed", "fp32", ""), ("fp8 delayed", "fp32", ALL), ("fp8 delayed", "te", ALL), ("fp8 block", "fp32", ALL),
    ("msamp O1", "own", ""), ("msamp O2", "own", ""), ("msamp O2 + te", "own", ""), ("msamp O3", "own", ""), ("msamp O3", "own", ALL),
]
DISTILLED = [("fp32", "fp32", ""), ("bf16", "fp32", ""), ("fp8 delayed", "fp32", ALL), ("bf16", "torchao int8", ""),
             ("msamp O2", "own", ""), ("msamp O3", "own", ALL)]
WIDE = [("bf16", "fp32", ""), ("bf16", "fp32", ALL), ("bf16", "bf16 masters", ALL), ("fp8 delayed", "fp32", ALL), ("msamp O2", "own", ""),
        ("msamp O2", "own", ALL), ("msamp O3", "own", ""), ("msamp O3", "own", ALL), ("msamp O3", "own", PAIRS)]
PEERS = [("fp32", False), ("bf16", False), ("bf16", True)]


def label(mode, engine, extra):
    kept = {"": "all kept", ALL: "recomputed", PAIRS: "in pairs"}[extra]
    return f"{mode:14}{engine:14}{kept:12}"


class Systems:
    def __init__(self, options):
        self.options = options

    def octet(self, model, data, loss, row, steps, lr, batch):
        """A run and its plan, or in words why there is none."""
        mode, engine, extra = row
        run = f"{self.options.work}/run"
        states = f", states: {{{ENGINES[engine]}}}" if ENGINES[engine] else ""
        lines = [data, loss, f"batch_size: {batch}", f"steps: {steps}", f"optimizer: {{type: adamw, lr: {lr}, weight_decay: 0.01{states}}}",
                 "schedule: {type: constant}", "clip_grad_norm: 1.0", f"precision: {{{MODES[mode]}}}", "checkpoint: {every: 0}"]
        result = octet_planned(self.options, model, lines + ([extra] if extra else []), run)
        if isinstance(result, str):
            return result
        trained, evaluations = result.pop("steps"), result.pop("evaluations")
        return result | {"losses": [m["loss"] for m in trained], "ms": statistics.median([m["seconds"] * 1e3 for m in trained][SETTLED:]),
                         "eval_loss": evaluations[-1]["eval_loss"] if evaluations else None}

    def torch(self, kind, model, folder, mode, recompute, steps, lr, batch):
        words = [TORCH, kind, model, folder, "--mode", mode, "--steps", str(steps), "--lr", str(lr), "--batch", str(batch), "--threads",
                 str(self.options.threads)]
        if self.options.device:
            words += ["--device", self.options.device]
        result = torch_trained(*words, *(["--recompute"] if recompute else []))
        result["ms"] = statistics.median(result.pop("millis")[SETTLED:])
        return result

    def line(self, name, result):
        if isinstance(result, str):
            return f"{name} {result}"
        last = statistics.mean(result["losses"][-10:])
        held_out = f"{result['eval_loss']:9.4f}" if result.get("eval_loss") is not None else " " * 9
        planned = ""
        if "plan" in result:
            plan = result["plan"]
            per = plan["lasting_bytes"] / plan["trained_parameters"]
            planned = f"{per:8.2f}{plan['lasting_bytes'] / 1e6:9.1f}{plan['temporary_bytes'] / 1e6:9.1f}"
        return f"{name}{last:9.4f}{held_out}{result['ms']:9.1f}{result['peak_mb']:9.0f}{planned}"

    HEAD = f"{'':6}{'mode':14}{'states':14}{'activations':12}{'loss':>9}{'held out':>9}{'ms/step':>9}{'peak MB':>9}{'B/param':>8}{'lasting':>9}{'in step':>9}"

    def rows(self, rows, name, octet, torch):
        lines, facts = [], {}
        first, last = self.options.rows
        for row in rows[first - 1 : last]:
            facts[label(*row)] = octet(row)
            lines.append(self.line(f"octet {label(*row)}", facts[label(*row)]))
            print(name, lines[-1], file=sys.stderr)
        for mode, recompute in PEERS[max(0, first - 1 - len(rows)) : max(0, last - len(rows))]:
            text = label(mode, "fp32", ALL if recompute else "")
            facts["torch " + text] = torch(mode, recompute)
            lines.append(self.line(f"torch {text}", facts["torch " + text]))
            print(name, lines[-1], file=sys.stderr)
        return [f"{name}; the last is the mean loss of ten steps", self.HEAD] + lines + [""], facts

    def text(self):
        lines, facts = [], {}
        for kind in self.options.kinds.split(","):
            model = f"{HOME}/testdata/models/tiny-lm/{kind}"
            folder = f"{self.options.work}/{kind}"
            measured([sys.executable, TORCH, "tokens", model, folder])
            data = f"data: {{train: {folder}/train.bin, eval: {folder}/eval.bin, sequence: {SEQUENCE}, shuffle: false}}"
            steps, lr, batch = self.options.steps, 5e-4, 8
            more, facts[kind] = self.rows(
                ROWS, f"tiny {kind}, {steps} steps of {batch} x {SEQUENCE} tokens of testdata/text",
                lambda row: self.octet(model, data, "loss: {type: causal-lm}", row, steps, lr, batch),
                lambda mode, recompute: self.torch("lm", model, folder, mode, recompute, steps, lr, batch))
            lines += more
        return lines, facts

    def distillation(self):
        folder = f"{self.options.work}/minilm"
        if not os.path.exists(f"{folder}/student.onnx"):
            measured([sys.executable, TORCH, "student", self.options.minilm, folder])
        data = f"data: {{train: {folder}/texts.npz, eval: {folder}/eval.npz, shuffle: false}}"
        loss = f"loss: {{type: cosine, output: last_hidden_state, distillation: {{teacher: {self.options.minilm}}}}}"
        steps, lr, batch = self.options.distil, 1e-4, 16
        return self.rows(
            DISTILLED, f"MiniLM with noise in its weights learns from MiniLM, {steps} steps of {batch} sentences",
            lambda row: self.octet(f"{folder}/student.onnx", data, loss, row, steps, lr, batch),
            lambda mode, recompute: self.torch("distil", self.options.minilm, folder, mode, recompute, steps, lr, batch))

    def wide(self):
        model = f"{self.options.work}/wide"
        if not os.path.exists(f"{model}/tokens.bin"):
            measured([sys.executable, f"{HERE}/adapters_torch.py", "wide", model])
        np.fromfile(f"{model}/tokens.bin", dtype="<u2").tofile(f"{model}/train.bin")
        data = f"data: {{train: {model}/tokens.bin, sequence: {SEQUENCE}, shuffle: false}}"
        lines, facts = self.rows(
            WIDE, f"GPT-2 of 6 x 384, 8 x {SEQUENCE} tokens", lambda row: self.octet(model, data, "loss: {type: causal-lm}", row, 12, 3e-4, 8),
            lambda mode, recompute: self.torch("lm", model, model, mode, recompute, 12, 3e-4, 8))
        base = facts.get(label(*WIDE[0]), "")
        for row in WIDE[1:]:
            ours = facts.get(label(*row), "")
            if not isinstance(ours, str) and not isinstance(base, str):
                planned = sum(ours["plan"][k] for k in ("lasting_bytes", "temporary_bytes"))
                before = sum(base["plan"][k] for k in ("lasting_bytes", "temporary_bytes"))
                lines.append(f"{label(*row)} {planned / before:6.1%} of BF16's plan, {ours['peak_mb'] / base['peak_mb']:6.1%} of its peak, "
                             f"{ours['ms'] / base['ms']:.2f} of its time")
        return lines, facts


def span(text):
    first, last = text.split("-")
    return int(first), int(last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--parts", default="text,distillation,wide")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--distil", type=int, default=300, help="steps of the distillation")
    parser.add_argument("--kinds", default="gpt2,llama", help="models of the part text")
    parser.add_argument("--rows", type=span, default=(1, 1000), help="rows of each part, as 1-6; PyTorch's come last")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "systems"))
    parser.add_argument("--minilm", default=os.path.join(HOME, ".octet", "quickstart", "all-minilm-l6-v2.onnx"))
    parser.add_argument("--octet", default=OCTET, help="command")
    parser.add_argument("--device", help="cuda: both tools on a GPU, without the distillation")
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    facts = machine() | {"threads": options.threads, "optimizer": "AdamW, constant rate, gradients clipped to 1"}
    systems = Systems(options)
    lines, results = [], {}
    for part in options.parts.split(","):
        more, results[part] = getattr(systems, part)()
        lines += more + [""]
    facts["load_average_after"] = os.getloadavg()
    for part in results.values():
        trim(part)
    write(options.result, facts, lines, {"machine": facts, "results": results})


def trim(facts):
    """Every tenth loss is enough."""
    for value in facts.values():
        if isinstance(value, dict) and "losses" in value:
            value["losses"] = value["losses"][::10] + value["losses"][-1:]
        elif isinstance(value, dict):
            trim(value)


if __name__ == "__main__":
    main()
