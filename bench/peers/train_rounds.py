"""The rounds of bench/run-train; see there. Linux.

Every run is a process of its own. Times are those of single steps, each tool's own clock, from drawing the batch to updated weights; the
first three steps of a process do not count (PyTorch allocates, Java compiles). The first FP32 run of each tool is longer: its losses are
the curve. Peak memory is that of the whole process, Octet's with the checkpoint it writes at the end.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

from measured import HERE, HOME, JAVA, OCTET, machine, measured, octet_trained, torch_trained, write

WARM_UP = 3
PRECISIONS = {"fp32": "{mode: fp32}", "bf16": "{mode: bf16}", "fp16": "{mode: fp16}", "fp8": "{mode: fp8, recipe: delayed}",
              "fp8-current": "{mode: fp8, recipe: current}", "fp8-block": "{mode: fp8, recipe: block}"}
PYTORCH = ("fp32", "bf16", "fp16")


class Model:
    """What is trained.

    linears: (how many, rows, in, out); attention: (layers, batch, tokens, width)
    """

    def __init__(self, name, config, linears, attention):
        self.name, self.config, self.linears = name, config, linears
        layers, batch, tokens, width = attention
        # scores and their product with the values; backward takes twice as many
        self.gigaflops = (sum(6 * n * m * k * o for n, m, k, o in linears) + 12 * layers * batch * tokens**2 * width) / 1e9

    def shapes(self):
        return [f"{m}x{k}x{o}" for n, m, k, o in self.linears for _ in range(n)]


GPT2 = Model("gpt2", """
data: {train: %s/tokens.bin, sequence: 128, shuffle: false}
loss: {type: causal-lm, output: logits}
batch_size: 8
optimizer: {type: adamw, lr: 3.0e-4, weight_decay: 0.01}
""", [(6, 1024, 384, 1152), (6, 1024, 384, 384), (6, 1024, 384, 1536), (6, 1024, 1536, 384), (1, 1024, 384, 8192)],
             (6, 8, 128, 384))
MINILM = Model("minilm", """
data: {train: %s/texts.npz, shuffle: false}
loss: {type: mse, output: last_hidden_state}
batch_size: 16
optimizer: {type: adamw, lr: 1.0e-4, weight_decay: 0.01}
""", [(24, 768, 384, 384), (6, 768, 384, 1536), (6, 768, 1536, 384)], (6, 16, 48, 384))


class Rounds:
    def __init__(self, options, model):
        self.options, self.model = options, model
        self.folder = os.path.join(options.work, model.name)
        self.onnx = f"{self.folder}/model.onnx" if model is GPT2 else options.minilm
        self.runs = {}
        self.curves = {}
        self.rates = []

    def torch(self, precision, steps):
        return torch_trained(f"{HERE}/train_torch.py", "step", self.model.name, self.folder, self.onnx, "--mode", precision, "--steps",
                             str(steps), "--threads", str(self.options.threads), "--seconds", str(self.options.torch_seconds))

    def octet(self, precision, steps):
        config = self.model.config % self.folder + f"steps: {steps}\nclip_grad_norm: 1.0\nprecision: {PRECISIONS[precision]}\n"
        result = octet_trained(self.options, self.onnx, config, f"{self.folder}/{precision}")
        shutil.rmtree(f"{self.folder}/{precision}")
        return result

    def rate(self):
        with open(f"{HOME}/bench/target/classpath.txt", encoding="utf-8") as file:
            path = f"{HOME}/bench/target/classes:{file.read().strip()}"
        _, text = measured([JAVA, "--enable-native-access=ALL-UNNAMED", "--add-modules", "jdk.incubator.vector",
                            *os.environ.get("OCTET_JAVA_OPTIONS", "").split(), "-cp", path,
                            "dev.octet.bench.GemmRate", str(self.options.threads), "3", *self.model.shapes()])
        self.rates.append(json.loads(text.splitlines()[-1]))

    def measure(self):
        for turn in range(self.options.rounds):
            self.rate()
            for precision in self.options.precisions:
                for tool in ("octet", "torch") if precision in PYTORCH else ("octet",):
                    label = f"{tool} {precision}"
                    long = turn == 0 and precision == "fp32"
                    result = getattr(self, tool)(precision, max(self.options.steps, self.options.curve if long else 0))
                    if turn == 0:
                        self.curves[label] = result["losses"]
                    millis = result["millis"][:self.options.steps]
                    # a run that its time ended early counts from its second step
                    result["ms"] = statistics.median(millis[WARM_UP:] if len(millis) > WARM_UP else millis[-1:])
                    self.runs.setdefault(label, []).append(result)
                    print(f"{self.model.name} round {turn + 1} {label}: {result['ms']:.0f} ms a step", file=sys.stderr)

    def report(self):
        name = self.model.name
        lines, summary = [], {}
        rate = {p: statistics.median(r[p] for r in self.rates) for p in ("fp32", "bf16")}
        floor = {p: self.model.gigaflops / rate[p] * 1e3 for p in rate}
        for p in rate:
            lines.append(f"{name:7} floor {p:5} {floor[p]:8.1f} ms: {self.model.gigaflops:.1f} GFLOP of matrix products a step at "
                         f"{rate[p]:.0f} GFLOP/s, {self.rates[0]['gemm']}")
            summary[f"floor {p}"] = floor[p]
        for label, runs in self.runs.items():
            millis = [r["ms"] for r in runs]
            summary[label] = statistics.median(millis)
            tool, precision = label.split()
            least = floor["fp32" if precision == "fp32" else "bf16"]
            lines.append(f"{name:7} {label:11} {summary[label]:8.1f} ms [{min(millis):.1f} .. {max(millis):.1f}]; "
                         f"{summary[label] / least:.2f} of the floor; first step {statistics.median(r['millis'][0] for r in runs):.0f} ms; "
                         f"peak {max(r['peak_mb'] for r in runs):.0f} MB; loss after {len(self.curves[label])} steps "
                         f"{self.curves[label][-1]:.6f}")
        for precision in (p for p in self.options.precisions if p in PYTORCH):
            ratio = statistics.median(o["ms"] / t["ms"] for o, t in zip(self.runs[f"octet {precision}"], self.runs[f"torch {precision}"]))
            ours, theirs = self.curves[f"octet {precision}"], self.curves[f"torch {precision}"]
            apart = max(abs(a - b) for a, b in zip(ours, theirs))
            summary[f"octet / torch {precision}"], summary[f"losses apart {precision}"] = ratio, apart
            lines.append(f"{name:7} {precision}: Octet takes {ratio:.2f} of PyTorch's time; losses of {len(ours)} steps at most "
                         f"{apart:.2g} apart")
        for precision in (p for p in self.options.precisions if p != "fp32"):
            ratios = {other: statistics.median(a["ms"] / b["ms"] for a, b in zip(self.runs[f"octet {precision}"], self.runs[f"octet {other}"]))
                      for other in ("fp32", "bf16") if other != precision and other in self.options.precisions}
            summary |= {f"octet {precision} / octet {other}": ratio for other, ratio in ratios.items()}
            lines.append(f"{name:7} {precision}: " + ", ".join(f"{ratio:.2f} of Octet's time in {other}" for other, ratio in ratios.items()))
        return lines, summary


def make(options, model):
    """Model and data, unless they are there."""
    folder = os.path.join(options.work, model.name)
    last = f"{folder}/{'tokens.bin' if model is GPT2 else 'texts.npz'}"
    if not os.path.exists(last):
        subprocess.run([sys.executable, f"{HERE}/train_torch.py", "make", model.name, folder], check=True, stdout=sys.stderr)
    if model is MINILM and not os.path.exists(options.minilm):
        subprocess.run([OCTET, "quickstart", "-o", f"{options.work}/quickstart"], check=True, stdout=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="of a run; more than 3")
    parser.add_argument("--curve", type=int, default=50, help="steps of the first FP32 runs")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "train"))
    parser.add_argument("--only", default="gpt2,minilm")
    parser.add_argument("--precisions", default="fp32,bf16,fp8", type=lambda text: text.split(","), help=f"of {', '.join(PRECISIONS)}")
    parser.add_argument("--torch-seconds", type=int, default=600, help="after which a process of PyTorch stops, two steps at least")
    parser.add_argument("--minilm", default=os.path.join(HOME, ".octet", "quickstart", "all-minilm-l6-v2.onnx"))
    parser.add_argument("--octet", default=OCTET, help="command")
    options = parser.parse_args()
    if options.steps <= WARM_UP:
        parser.error(f"--steps {options.steps}: the first {WARM_UP} do not count")
    facts = machine() | {"threads": options.threads, "rounds": options.rounds, "steps of a run": options.steps}
    lines, summary, runs, rates = [], {}, {}, {}
    for model in (m for m in (GPT2, MINILM) if m.name in options.only.split(",")):
        make(options, model)
        rounds = Rounds(options, model)
        rounds.measure()
        more, summary[model.name] = rounds.report()
        lines += more
        runs[model.name], rates[model.name] = rounds.runs, rounds.rates
    facts["load_average_after"] = os.getloadavg()
    lines.insert(0, f"{options.rounds} rounds: medians of their medians, [fastest .. slowest]; milliseconds of a step")
    write(options.result, facts, lines,
          {"machine": facts, "summary": summary, "rounds": runs, "rates": rates})


if __name__ == "__main__":
    main()
