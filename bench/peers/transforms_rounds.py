"""The rounds of bench/run-transforms; see there. Linux."""

import os
import re
import subprocess
import sys

from measured import HOME, JAVA, machine, write
from perplexity_rounds import CALIBRATED, arguments, octet, trained_folder
from schemes_chart import chart

JAVA_OPTIONS = ["--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-XX:+UseSerialGC"]
# scheme, inputs of a group; nvfp4 has inputs of four bits, by static upper scales, and weights alone where there are no statistics
WEIGHTS_ALONE = "nvfp4, weights alone"
FOUR_BITS = [("nvfp4", "-"), ("int4", "32"), ("int4", "128"), ("int4-asymmetric", "32")]
EIGHT_BITS = [("fp8-dynamic", "-"), ("fp8-block", "-"), ("mxfp8", "-"), ("int8", "-")]


def rows():
    """What is measured: roundings without a transform, transforms with rounding to nearest, and both together."""
    for scheme in FOUR_BITS:
        for rounding, search in (("nearest", "amax"), ("nearest", "mse"), ("nearest", "hessian"), ("gptq", "amax"), ("gptq", "mse"), ("gptq", "hessian")):
            yield *scheme, rounding, search, "none"
        if scheme[0] == "nvfp4":
            yield *scheme, "nearest", "four-over-six", "none"
            yield *scheme, "gptq", "four-over-six", "none"
        for transform in ("smoothquant", "awq", "awq-duo", "rotate"):
            yield *scheme, "nearest", "amax", transform
        for search, transform in (("amax", "awq"), ("amax", "awq-duo"), ("amax", "rotate"), ("hessian", "rotate"), ("hessian", "awq-duo")):
            yield *scheme, "gptq", search, transform
    for rounding, search, transform in (("nearest", "amax", "none"), ("nearest", "mse", "none"), ("nearest", "four-over-six", "none"),
                                        ("nearest", "amax", "rotate"), ("gptq", "amax", "rotate"), ("gptq", "hessian", "rotate")):
        yield WEIGHTS_ALONE, "-", rounding, search, transform
    for scheme in EIGHT_BITS:
        for rounding, search, transform in (("nearest", "amax", "none"), ("nearest", "mse", "none"), ("gptq", "amax", "none"),
                                            ("nearest", "amax", "smoothquant"), ("nearest", "amax", "rotate"), ("gptq", "amax", "rotate")):
            yield *scheme, rounding, search, transform


def source(row, model, rotated):
    """What a row's folder is made of: the model or its rotation, statistics of it where the row needs them, and the recipe."""
    scheme, group, rounding, search, transform = row
    recipe = "nvfp4" if scheme == WEIGHTS_ALONE else scheme
    if scheme == "nvfp4" and transform == "rotate":  # static scales are of the rotated model
        return [rotated, f"{rotated}.stats", recipe, group, rounding, search, "none"]
    needed = scheme == "nvfp4" or rounding == "gptq" or search == "hessian" or transform not in ("none", "rotate")
    return [model, f"{model}.stats" if needed else "-", recipe, group, rounding, search, transform]


def measured_rows(wanted, model, rotated, data, made):
    """The lines that dev.octet.bench.TransformRows answers with, after the row."""
    with open(f"{HOME}/bench/target/classpath.txt", encoding="utf-8") as file:
        path = f"{HOME}/bench/target/classes:{file.read().strip()}"
    command = [JAVA, *JAVA_OPTIONS, "-cp", path, "dev.octet.bench.TransformRows", model, data, made]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for row in wanted:
        sent = source(row, model, rotated)
        process.stdin.write("\t".join(sent) + "\n")
        process.stdin.flush()
        line = "\t".join([*row, *process.stdout.readline().rstrip("\n").split("\t")[len(sent):]])
        print(line, file=sys.stderr, flush=True)
        yield line
    process.stdin.close()
    if process.wait() != 0:
        sys.exit("TransformRows failed")


def read(line):
    """A row of the table; or a label and why there is none."""
    recipe, group, rounding, search, transform, *answer = line.split("\t")
    scheme = recipe if group == "-" else f"{recipe} of {group}"
    how = rounding if search == "amax" else search if rounding == "nearest" else f"{rounding}, {search}"
    label = f"{scheme} | {how} | {transform}"
    if answer[0] == "refused":
        return None, (label, answer[1])
    perplexity, reference, sqnr, size, seconds = map(float, answer)
    return {"label": label, "scheme": scheme, "rounding": how, "transform": transform, "perplexity": perplexity, "reference": reference,
            "sqnr_db": sqnr, "loss": 10 ** (-sqnr / 10), "megabytes": size / 1e6, "seconds": seconds}, None


def report(lines, result, facts, first):
    """Writes table and chart."""
    table, refused = [], {}
    for line in lines:
        row, refusal = read(line)
        if row:
            table.append(row)
        else:
            refused[refusal[0]] = refusal[1]
    text = [first, f"{'scheme':22} {'rounding':20} {'transform':12} {'perplexity':>10} {'of BF16':>9} {'logits dB':>9} {'MB':>6} {'s':>6}"]
    text += [f"{r['scheme']:22} {r['rounding']:20} {r['transform']:12} {r['perplexity']:10.4f} {r['perplexity'] / r['reference'] - 1:+9.3%}"
             f" {r['sqnr_db']:9.2f} {r['megabytes']:6.3f} {r['seconds']:6.2f}" for r in table]
    text += [f"refused: {label}: {why}" for label, why in refused.items()]
    facts["load_average_after"] = os.getloadavg()
    write(result, facts, text, {"machine": facts, "rows": table, "refused": refused})
    if table:
        chart(table, "noise over signal of the logits", result + ".svg")


def main():
    parser = arguments()
    parser.add_argument("--only", default=".", help="rows to measure, by a regular expression on 'recipe group rounding search transform'")
    parser.add_argument("--build", help="off: what is built is measured")
    options = parser.parse_args()
    work = options.work
    facts = machine() | {"threads": options.threads, "steps": options.steps, "calibrated on": f"{CALIBRATED} chapters"}
    bf16, text, run = trained_folder(options)
    rotated = f"{work}/rotated"
    octet(options, "quantize", bf16, "-o", rotated, "--recipe", "none", "--transform", "rotate", "--force")
    for model in (bf16, rotated):
        octet(options, "calibrate", model, "-o", f"{model}.stats", "--data", f"{text}/train.jsonl", "--samples", str(CALIBRATED), "--second-moments", "--force")
    wanted = [row for row in rows() if re.search(options.only, " ".join(row))]
    lines = list(measured_rows(wanted, bf16, rotated, f"{text}/eval.jsonl", f"{work}/made"))
    report(lines, options.result, facts, f"trained {options.steps} steps in BF16: perplexity {run['perplexity']:.3f} on packed held-out chapters")


if __name__ == "__main__":
    main()
