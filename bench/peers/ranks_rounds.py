"""The rounds of bench/run-ranks; see there. Linux."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

from measured import HOME, JAVA, machine, write

JAVA_OPTIONS = ["--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-XX:+UseSerialGC"]
REDUCTIONS = ["legacy", "zero", "ddp", "min-scale"]
# ranks of the runs that compare sums, and how many times as many steps they have
SUM_RANKS, SUM_STEPS = 8, 3


class Runs:
    """The runs of one process of dev.octet.bench.RankRows."""

    def __init__(self, options, work):
        self.work = work
        self.steps = options.steps
        config = os.path.join(work, "train.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f"data: {{train: '{HOME}/testdata/text/train.jsonl', eval: '{HOME}/testdata/text/eval.jsonl', pack: true, sequence: 32}}\n"
                       f"loss: {{type: causal-lm}}\nbatch_size: 1\nsteps: {options.steps}\noptimizer: {{type: adamw, lr: 1.0e-3}}\n"
                       "clip_grad_norm: 1.0\nprecision: {mode: fp32}\n")
        with open(f"{HOME}/bench/target/classpath.txt", encoding="utf-8") as file:
            path = f"{HOME}/bench/target/classes:{file.read().strip()}"
        self.process = subprocess.Popen([JAVA, *JAVA_OPTIONS, "-cp", path, "dev.octet.bench.RankRows", f"{HOME}/testdata/models/tiny-lm/gpt2", config, work],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, ranks, *settings):
        """Losses and shares of saturated codes of each step, and the loss held out; in words why there is no run."""
        self.process.stdin.write("\t".join(["run", str(ranks), " ".join((f"gradient_accumulation={ranks}", *settings))]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().rstrip("\n").split("\t")
        if answer[:2] != ["run", "completed"]:
            sys.exit(f"{ranks} ranks, {' '.join(settings)}: {' '.join(answer)}")
        run = os.path.join(self.work, "run")
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        shutil.rmtree(run)
        steps = [line for line in lines if "loss" in line]
        found = {"ranks": ranks, "settings": settings, "losses": [s["loss"] for s in steps],
                 "eval_loss": next(line["eval_loss"] for line in reversed(lines) if "eval_loss" in line)}
        if "reduction_saturated" in steps[0]:
            found |= {"saturated": [s["reduction_saturated"] for s in steps], "worst": [s.get("reduction_worst_saturated", 0) for s in steps],
                      "mu": [steps[-1][f"reduction_pre_scale_{end}"] for end in ("min", "max")]}
        print(json.dumps(found | {"losses": found["losses"][-1:]}), file=sys.stderr, flush=True)
        return found

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("RankRows failed")


def reductions(runs, counts):
    """For each number of ranks the run with averages in F32, and those of each reduction, without and with auto_scale."""
    rows = []
    for ranks in counts:
        exact = runs.run(ranks, "precision.gradient_reduction=f32")
        coded = {r: [runs.run(ranks, f"precision.gradient_reduction={r}", f"precision.auto_scale={auto}") for auto in ("false", "true")] for r in REDUCTIONS}
        rows.append({"ranks": ranks, "f32": exact, "coded": coded})
    return rows


def mean(values):
    return sum(values) / len(values)


def table(title, rows, cell):
    lines = ["", title, "", f"{'':6s}" + "".join(f"{r:>20s}" for r in REDUCTIONS), f"{'ranks':6s}" + f"{'plain':>10s}{'auto':>10s}" * len(REDUCTIONS)]
    return lines + [f"{row['ranks']:<6d}" + "".join(f"{cell(row, run):>10s}" for r in REDUCTIONS for run in row["coded"][r]) for row in rows]


def reduction_lines(rows, steps):
    late = steps // 2
    lines = table("Codes that saturate at the first step, in %", rows, lambda _, run: f"{100 * run['saturated'][0]:.3f}")
    lines += table(f"Codes that saturate, mean of steps {late + 1} to {steps}, in %", rows, lambda _, run: f"{100 * mean(run['saturated'][late:]):.3f}")
    lines += table(f"Of the worst tensor of each step, mean of steps {late + 1} to {steps}, in %", rows, lambda _, run: f"{100 * mean(run['worst'][late:]):.3f}")
    lines += table(f"Evaluation loss after {steps} steps less that of averages in F32", rows,
                   lambda row, run: f"{run['eval_loss'] - row['f32']['eval_loss']:+.4f}")
    return lines + ["", "Averages in F32: " + ", ".join(f"{row['ranks']} ranks {row['f32']['eval_loss']:.4f}" for row in rows)]


def sums(runs):
    """FP8 products that add up in F32 and as Hopper's units do, beside FP32; gradients averaged in F32 and as codes."""
    steps = f"steps={SUM_STEPS * runs.steps}"
    rows = []
    for averages in ("f32", "min-scale"):
        for name, keys in (("fp32", ["mode=fp32"]), ("fp8, sums in F32", ["mode=fp8", "base=fp32", "accumulation=f32"]),
                           ("fp8, sums of Hopper", ["mode=fp8", "base=fp32", "accumulation=hopper"])):
            run = runs.run(SUM_RANKS, steps, f"precision.gradient_reduction={averages}", *(f"precision.{k}" for k in keys))
            rows.append({"products": name, "averages": averages, "run": run})
    return rows


def sum_lines(rows, steps):
    lines = ["", f"Losses of {SUM_RANKS} ranks after {steps} steps", "", f"{'products':22s}{'averages':12s}{'last':>10s}{'held out':>10s}{'off':>10s}"]
    for row in rows:
        exact = next(r for r in rows if r["averages"] == row["averages"])["run"]["eval_loss"]
        run = row["run"]
        lines.append(f"{row['products']:22s}{row['averages']:12s}{run['losses'][-1]:10.4f}{run['eval_loss']:10.4f}{run['eval_loss'] - exact:+10.4f}")
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--parts", default="reductions,sums")
    parser.add_argument("--ranks", default="2,4,8,16,32,64")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--work")
    parser.add_argument("--build", default="on", choices=["on", "off"])
    options = parser.parse_args()
    work = options.work or tempfile.mkdtemp()
    os.makedirs(work, exist_ok=True)
    runs = Runs(options, work)
    facts = machine()
    everything, lines = {"machine": facts, "steps": options.steps}, []
    if "reductions" in options.parts:
        everything["reductions"] = reductions(runs, [int(n) for n in options.ranks.split(",")])
        lines += reduction_lines(everything["reductions"], options.steps)
    if "sums" in options.parts:
        everything["sums"] = sums(runs)
        lines += sum_lines(everything["sums"], SUM_STEPS * options.steps)
    runs.end()
    shown = {key: facts[key] for key in ("cpu", "os", "jdk")}
    write(options.result, shown | {"model": "tiny-lm/gpt2 on testdata/text, a micro-batch of 1 x 32 tokens a rank and step, AdamW, FP32"}, lines[1:], everything)


main()
