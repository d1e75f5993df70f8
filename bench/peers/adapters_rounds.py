"""The parts of bench/run-adapters; see there. Linux.

Every run is a process of its own. Times are those of single steps, each tool's own clock; the first three steps of a process do not count.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys

import numpy as np
from adapters_torch import RANK, SEQUENCE, VIRTUAL, WARM_UP
from measured import HERE, HOME, OCTET, machine, measured, octet_planned, torch_trained, write

KJV = os.path.join(HOME, "testdata", "make", "kjv.py")
TORCH = f"{HERE}/adapters_torch.py"
CURVE = 50
SETTLED = 3
BASES = {"f32": None, "fp8-block": "fp8-block", "nvfp4": "nvfp4"}
METHODS = {
    "full": None,
    "lora": f"r: {RANK}, lora_alpha: {RANK}, target_modules: all-linear",
    "dora": f"r: {RANK}, lora_alpha: {RANK}, target_modules: all-linear, use_dora: true",
    "prompt": f"peft_type: PROMPT_TUNING, num_virtual_tokens: {VIRTUAL}",
    "lora-attn": f"r: {RANK}, lora_alpha: {RANK}, target_modules: [c_attn]",
}
LR = {"full": 3e-4, "lora": 1e-3, "dora": 1e-3, "prompt": 1e-2, "lora-attn": 1e-3}


class Adapters:
    def __init__(self, options):
        self.options = options
        self.facts = {}

    def torch_make(self, *words):
        measured([sys.executable, TORCH, *words, "--threads", str(self.options.threads)])

    def adapter(self, model, method):
        """A PEFT folder with the values that both tools start from; none where all weights are trained."""
        if method == "full":
            return None
        folder = f"{self.options.work}/{os.path.basename(model)}-{method}"
        if not os.path.exists(f"{folder}/adapter_config.json"):
            self.torch_make("adapter", model, method, folder)
        return folder

    def torch(self, model, method, tokens, steps, held_out=None):
        words = [TORCH, "train", model, tokens, "--steps", str(steps), "--lr", str(LR[method]), "--threads", str(self.options.threads)]
        adapter = self.adapter(model, method)
        words += ["--adapter", adapter] if adapter else []
        return torch_trained(*words, *(["--eval", held_out] if held_out else []))

    def octet(self, model, method, tokens, steps, held_out=None, start=None):
        """A run, or in words why there is none. `start`: the model whose adapter it starts from."""
        run = f"{self.options.work}/run"
        adapter = self.adapter(start or model, method)
        lines = [
            f"data: {{train: {tokens}, sequence: {SEQUENCE}, shuffle: false" + (f", eval: {held_out}}}" if held_out else "}"),
            "loss: {type: causal-lm}", "batch_size: 8", f"steps: {steps}",
            f"optimizer: {{type: adamw, lr: {LR[method]}, weight_decay: 0.01}}", f"schedule: {{type: constant, warmup: {WARM_UP}}}",
            "clip_grad_norm: 1.0", "precision: {mode: fp32}"]
        if held_out:
            lines.append(f"eval_every: {steps}")
        if adapter:
            lines.append(f"adapter: {{from: {adapter}}}")  # its configuration is in the folder
        result = octet_planned(self.options, model, lines, run)
        if isinstance(result, str):
            return result
        steps, evaluations, plan = result.pop("steps"), result.pop("evaluations"), result.pop("plan")
        return result | {"losses": [m["loss"] for m in steps], "millis": [m["seconds"] * 1e3 for m in steps],
                         "trained": plan["trained_parameters"], "lasting": plan["lasting_bytes"],
                         "temporary": plan["temporary_bytes"], "evaluation": evaluations[-1] if evaluations else None}

    def wide(self):
        model = f"{self.options.work}/wide"
        if not os.path.exists(f"{model}/tokens.bin"):
            self.torch_make("wide", model)
        return model

    def parity(self):
        lines, facts = [], {}
        tokens = f"{self.options.work}/few.bin"
        np.random.default_rng(3).integers(0, 1000, 8 * SEQUENCE * CURVE).astype("<u2").tofile(tokens)
        for kind, method in [("gpt2", "lora"), ("llama", "lora"), ("gpt2", "dora"), ("llama", "dora"), ("gpt2", "full"), ("llama", "full")]:
            model = f"{HOME}/testdata/models/tiny-lm/{kind}"
            ours, theirs = self.octet(model, method, tokens, CURVE), self.torch(model, method, tokens, CURVE)
            if isinstance(ours, str):
                lines.append(f"parity {kind:5} {method:4}: {ours}")
                continue
            apart = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"]))
            facts[f"{kind} {method}"] = {"apart": apart, "octet": ours["losses"], "torch": theirs["losses"]}
            lines.append(f"parity {kind:5} {method:4}: losses of {CURVE} steps in FP32 at most {apart:.2g} from PEFT's; the last is "
                         f"{ours['losses'][-1]:.6f}, the first {ours['losses'][0]:.6f}; {ours['trained']:,} numbers trained")
        return lines, facts

    def steps(self):
        model, runs = self.wide(), {}
        methods = ("full", "lora", "lora-attn")
        for turn in range(self.options.rounds):
            for method in methods:
                for tool in (self.octet, self.torch) if turn == 0 or self.options.torch_rounds else (self.octet,):
                    label = f"{'octet' if tool == self.octet else 'torch'} {method}"
                    result = tool(model, method, f"{model}/tokens.bin", self.options.steps)
                    result["ms"] = statistics.median(result.pop("millis")[SETTLED:])
                    runs.setdefault(label, []).append(result)
                    print(f"round {turn + 1} {label}: {result['ms']:.0f} ms a step, peak {result['peak_mb']:.0f} MB", file=sys.stderr)
        lines, facts = [], {"runs": runs}
        weights = os.path.getsize(f"{model}/model.safetensors") / 1e6
        for label, all_runs in runs.items():
            ms = [r["ms"] for r in all_runs]
            full = runs[label.split()[0] + " full"]
            ratio = statistics.median(r["ms"] / f["ms"] for r, f in zip(all_runs, full))
            facts[label] = {"ms": statistics.median(ms), "of full": ratio, "peak_mb": max(r["peak_mb"] for r in all_runs)}
            line = (f"steps {label:15} {statistics.median(ms):7.0f} ms [{min(ms):.0f} .. {max(ms):.0f}], {ratio:.2f} of full training's; peak "
                    f"{facts[label]['peak_mb']:.0f} MB")
            if "lasting" in all_runs[0]:
                line += f"; the plan: {all_runs[0]['lasting'] / 1e6:.1f} MB lasting, {all_runs[0]['temporary'] / 1e6:.1f} MB within a step"
            lines.append(line)
        states = runs["octet full"][0]["lasting"] / 1e6 - weights
        for method in methods[1:]:
            saved = facts["octet full"]["peak_mb"] - facts[f"octet {method}"]["peak_mb"]
            extra = runs[f"octet {method}"][0]["lasting"] / 1e6 - weights
            facts[f"{method} saves"] = {"states_mb": states, "by plan": 1 - extra / states, "by peak": saved / states}
            lines.append(f"steps {method}: weights {weights:.1f} MB; of the {states:.1f} MB that a full run has next to them, "
                         f"{extra / states:.1%} by the plan, {1 - saved / states:.1%} by the peaks of the processes")
        return lines, facts

    def bases(self, kind):
        """Folders of the base as it is, in each scheme, and of what PyTorch gets in its place."""
        model = f"{self.options.work}/{kind}"
        if not os.path.exists(f"{model}/eval.bin"):
            self.torch_make("tiny", kind, self.options.text, model)
        for base, recipe in BASES.items():
            if recipe is None:
                yield base, model, model
                continue
            quantised = f"{model}-{base}"
            for words in (["quantize", model, "-o", quantised, "--recipe", recipe],
                          ["dequantize", quantised, "-o", f"{quantised}-f32", "--dtype", "f32"]):
                if not os.path.exists(words[words.index("-o") + 1]):
                    done, text = measured(self.options.octet.split() + words, exits=range(256))
                    if done["exit"] != 0:
                        print(text, file=sys.stderr)
                        quantised = None
                        break
            if quantised:
                yield base, quantised, f"{quantised}-f32"

    def quality(self):
        lines, facts = [], {}
        for kind in ("gpt2", "llama"):
            model = f"{self.options.work}/{kind}"
            for base, folder, plain in self.bases(kind):
                tokens, held_out = f"{model}/train.bin", f"{model}/eval.bin"
                for method in ("full", "lora", "dora", "prompt"):
                    ours = self.octet(plain if method == "full" else folder, method, tokens, self.options.tune, held_out, plain)
                    theirs = self.torch(plain, method, tokens, self.options.tune, held_out)
                    label = f"{kind} {base} {method}"
                    facts[label] = {"octet": ours, "torch": theirs}
                    there = (f"torch {theirs['evaluation']['eval_perplexity']:7.2f}, peak {theirs['peak_mb']:.0f} MB")
                    if isinstance(ours, str):
                        lines.append(f"quality {label:24} octet: {ours}; {there}")
                    else:
                        apart = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"][:CURVE]))
                        lines.append(f"quality {label:24} octet {ours['evaluation']['eval_perplexity']:7.2f}, peak {ours['peak_mb']:.0f} MB "
                                     f"(plan: {(ours['lasting'] + ours['temporary']) / 1e6:.1f} MB); {there}; losses of {CURVE} steps at most "
                                     f"{apart:.2g} apart; {ours['trained']:,} numbers trained")
                    print(lines[-1], file=sys.stderr)
        for pair in facts.values():
            for run in pair.values():
                if isinstance(run, dict):
                    run["losses"] = run["losses"][:CURVE] + run["losses"][-1:]
                    del run["millis"]
        return lines, facts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--parts", default="parity,steps,quality")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--torch-rounds", action="store_true", help="PyTorch's steps in every round, not in the first alone")
    parser.add_argument("--steps", type=int, default=12, help=f"of a run whose steps are timed; more than {SETTLED}")
    parser.add_argument("--tune", type=int, default=150, help="steps of fine-tuning")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "adapters"))
    parser.add_argument("--text", help="folder of chapters.json and train.jsonl")
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    options.work = os.path.abspath(options.work)
    os.makedirs(options.work, exist_ok=True)
    parts = options.parts.split(",")
    if options.text is None:
        options.text = f"{options.work}/text"
        if "quality" in parts and not os.path.exists(f"{options.text}/chapters.json"):
            subprocess.run([sys.executable, KJV, "text", options.text], check=True, stdout=sys.stderr)
    facts = machine() | {"threads": options.threads, "batch": f"8 x {SEQUENCE} tokens", "rank": RANK, "virtual tokens": VIRTUAL,
                         "steps timed": options.steps, "rounds": options.rounds, "steps of fine-tuning": options.tune}
    adapters = Adapters(options)
    lines, results = [f"perplexity on held-out chapters ({math.e:.3f} to the mean loss of a token)"], {}
    for part in parts:
        more, results[part] = getattr(adapters, part)()
        lines += more
        print("\n".join(more), file=sys.stderr)
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, {"machine": facts, "results": results})


if __name__ == "__main__":
    main()
