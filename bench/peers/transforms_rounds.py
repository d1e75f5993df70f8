"""The rounds of bench/run-transforms; see there. Linux."""

import os
import re
import shutil
import subprocess

from measured import machine, write
from perplexity_rounds import CALIBRATED, arguments, octet, trained_folder
from schemes_chart import chart

FOUR_BITS = ("nvfp4", "int4", "int4 of 32", "int4-asymmetric")
SCHEMES = {
    "fp8-dynamic": ["--recipe", "fp8-dynamic"], "fp8-block": ["--recipe", "fp8-block", "--target", "compressed-tensors"], "mxfp8": ["--recipe", "mxfp8"],
    "int8": ["--recipe", "int8"], "nvfp4": ["--recipe", "nvfp4"], "int4": ["--recipe", "int4"], "int4 of 32": ["--recipe", "int4", "--group-size", "32"],
    "int4-asymmetric": ["--recipe", "int4-asymmetric", "--group-size", "32"],
}
ROUNDINGS = {
    "nearest": [], "mse": ["--scale-search", "mse"], "hessian": ["--scale-search", "hessian"], "four-over-six": ["--scale-search", "four-over-six"],
    "gptq": ["--rounding", "gptq"], "gptq, mse": ["--rounding", "gptq", "--scale-search", "mse"],
    "gptq, hessian": ["--rounding", "gptq", "--scale-search", "hessian"],
}
TRANSFORMS = {"none": [], "smoothquant": ["--transform", "smoothquant"], "awq": ["--transform", "awq"], "awq-duo": ["--transform", "awq-duo"],
              "rotate": ["--transform", "rotate"]}


def rows():
    """What is measured: each rounding without a transform, each transform with nearest, and both together where weights have four bits."""
    for scheme in SCHEMES:
        four = scheme in FOUR_BITS
        for rounding in ROUNDINGS:
            if rounding != "four-over-six" or scheme == "nvfp4":
                if four or rounding in ("nearest", "mse", "gptq"):
                    yield scheme, rounding, "none"
        for transform in list(TRANSFORMS)[1:]:
            if four or transform in ("smoothquant", "rotate"):
                yield scheme, "nearest", transform
            if four and transform in ("awq-duo", "rotate"):
                yield scheme, "gptq", transform
                yield scheme, "gptq, hessian", transform


def size(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".safetensors")) / 1e6


def main():
    parser = arguments()
    parser.add_argument("--only", default=".", help="rows to measure, by a regular expression on 'scheme | rounding | transform'")
    parser.add_argument("--build", help="off: what is built is measured")
    options = parser.parse_args()
    work = options.work
    facts = machine() | {"threads": options.threads, "steps": options.steps, "calibrated on": f"{CALIBRATED} chapters"}
    bf16, text, run = trained_folder(options)
    stats, made = f"{work}/stats", f"{work}/made"
    octet(options, "calibrate", bf16, "-o", stats, "--data", f"{text}/train.jsonl", "--samples", str(CALIBRATED), "--second-moments", "--force")
    lines = [f"trained {options.steps} steps in BF16: perplexity {run['perplexity']:.3f} on packed held-out chapters; {size(bf16):.2f} MB in BF16",
             f"{'scheme':16} {'rounding':14} {'transform':12} {'perplexity':>10} {'of BF16':>9} {'MB':>6} {'seconds':>8}"]
    results, refused = [], {}
    for scheme, rounding, transform in rows():
        label = f"{scheme} | {rounding} | {transform}"
        if not re.search(options.only, label):
            continue
        shutil.rmtree(made, ignore_errors=True)
        needs = transform in ("smoothquant", "awq", "awq-duo") or "gptq" in rounding or "hessian" in rounding
        words = [*SCHEMES[scheme], *ROUNDINGS[rounding], *TRANSFORMS[transform], *(["--statistics", stats] if needs else [])]
        command = [*options.octet.split(), "quantize", bf16, "-o", made, *words, "--quiet", "--threads", str(options.threads)]
        result = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OCTET_BUILD="off"))
        if result.returncode != 0:
            refused[label] = next((line for line in result.stderr.splitlines() if line.startswith("octet: ")), result.stderr[-300:]).removeprefix("octet: ")
            print(f"{label}: {refused[label]}", flush=True)
            continue
        took, answer = octet(options, "evaluate", bf16, made, "--data", f"{text}/eval.jsonl", "--perplexity", "--no-layers")
        measured = answer["comparison"]["perplexity"]
        of, reference = measured["candidate"]["perplexity"], measured["reference"]["perplexity"]
        results.append({"label": label, "scheme": scheme, "rounding": rounding, "transform": transform, "perplexity": of, "reference": reference,
                        "loss": max(of / reference - 1, 1e-5), "megabytes": size(made), "seconds": took["seconds"], "words": " ".join(words)})
        lines.append(f"{scheme:16} {rounding:14} {transform:12} {of:10.4f} {of / reference - 1:+9.3%} {size(made):6.2f} {took['seconds']:8.1f}")
        print(lines[-1], flush=True)
    lines += [f"refused: {label}: {why}" for label, why in refused.items()]
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, {"machine": facts, "trained": run["perplexity"], "rows": results, "refused": refused})
    if results:
        chart(results, "perplexity over that of BF16, minus 1", options.result + ".svg")


main()
