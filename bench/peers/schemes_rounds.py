"""The rounds of bench/run-schemes; see there. Linux."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

from int8_models import MODELS
from int8_runtimes import Runtimes, speedups
from measured import HOME, OCTET, machine, write
from schemes_chart import chart

# scheme: recipe of octet quantize, further options
SCHEMES = {
    "fp8": ["fp8"], "fp8-per-tensor": ["fp8-per-tensor"], "fp8-weight-only": ["fp8-weight-only"],
    "int8": ["int8"], "int8-dynamic": ["int8-dynamic"], "int8-weight-only": ["int8-weight-only"], "int4-weight-only": ["int4-weight-only"],
}
ROUNDINGS = ("nearest", "gptq")
TRANSFORMS = {"none": [], "smoothquant": ["--transform", "smoothquant"]}
STATIC = ("fp8", "fp8-per-tensor", "int8")


def quantize(options, model, statistics_file, scheme, rounding, transform, more):
    # static scales of smoothed inputs follow from the ranges of channels
    calibrator = ["--calibrator", "absmax"] if transform != "none" and scheme in STATIC else []
    words = [*options.octet.split(), "quantize", model.path, *more, "--recipe", *SCHEMES[scheme], "--rounding", rounding, *TRANSFORMS[transform], *calibrator,
             "--embeddings", "int8", "--statistics", statistics_file, "--quiet"]
    return subprocess.run(words, capture_output=True, text=True, env=dict(os.environ, OCTET_BUILD="off"))


def made(options, model, statistics_file, target, *scheme):
    """Writes one file; in words why not."""
    result = quantize(options, model, statistics_file, *scheme, ["-o", target, "--force"])
    if result.returncode == 0:
        return None
    return next((line for line in result.stderr.splitlines() if line.startswith("octet: ")), result.stderr[-200:].strip()).removeprefix("octet: ")


def predicted(options, model, statistics_file, target, *scheme):
    """Signal over noise of the Linears' outputs in dB, as a dry run predicts it from the statistics alone."""
    result = quantize(options, model, statistics_file, *scheme, ["-o", target, "--dry-run", "--json", "--force"])
    return (json.loads(result.stdout)["predicted"] or {}).get("sqnr_db")


def scheme_row(options, model, statistics_file, target, scheme, rounding, transform):
    """A scheme's row with its file made; or none and why. Kept beside the file."""
    kept = target + ".json"
    if not os.path.exists(kept):
        names = scheme, rounding, transform
        why = made(options, model, statistics_file, target, *names)
        row = None if why else {"scheme": scheme, "rounding": rounding, "transform": transform,
                                "predicted": predicted(options, model, statistics_file, target, *names)}
        with open(kept, "w", encoding="utf-8") as file:
            json.dump([row, why], file)
    with open(kept, encoding="utf-8") as file:
        return json.load(file)


def rank_correlation(xs, ys):
    """Spearman's, without ties."""
    ranks = [{i: r for r, i in enumerate(sorted(range(len(v)), key=v.__getitem__))} for v in (xs, ys)]
    n = len(xs)
    return 1 - 6 * sum((ranks[0][i] - ranks[1][i]) ** 2 for i in range(n)) / (n * (n * n - 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--only", default=".", help="rows to measure, by a regular expression on 'scheme rounding transform'")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", default="1x128")
    parser.add_argument("--remake", action="store_true", help="quantise and predict again what the work folder has")
    parser.add_argument("--octet", default=OCTET)
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "int8"))
    parser.add_argument("--build", help="off: what is built is measured")
    options = parser.parse_args()
    model, facts = MODELS["minilm"], machine()
    models, folder = os.path.join(options.work, "models"), os.path.join(options.work, "schemes")
    model.fetch(models)
    os.makedirs(folder, exist_ok=True)
    statistics_file = os.path.join(folder, "minilm.stats")
    if options.remake:
        shutil.rmtree(folder)
        os.makedirs(folder)
    if not os.path.exists(statistics_file):
        subprocess.run([*options.octet.split(), "calibrate", model.path, "-o", statistics_file, *model.octet_data(), "--second-moments", "--quiet", "--force"],
                       check=True, stdout=sys.stderr, env=dict(os.environ, OCTET_BUILD="off"))
    rows, refused, files = [], {}, {"fp32": model.path}
    for scheme in SCHEMES:
        for rounding in ROUNDINGS:
            for transform in TRANSFORMS:
                label, target = f"{scheme} {rounding} {transform}", os.path.join(folder, f"{scheme}-{rounding}-{transform}.onnx")
                if re.search(options.only, label):
                    row, why = scheme_row(options, model, statistics_file, target, scheme, rounding, transform)
                    if row:
                        files[label] = target
                        rows.append(row | {"label": label})
                    else:
                        refused[label] = why
    runtimes = Runtimes(options.work)
    quality = runtimes.quality("native", model, options.texts, files, models)
    loads = {label: path for label, path in files.items() if "failed" not in quality[label]}
    times = runtimes.times("java", "native", options.rounds, [options.shape], loads)
    speed = speedups(times, options.shape)
    refused |= {label: q["failed"] for label, q in quality.items() if "failed" in q}
    lines = [f"{model.name}: {os.path.getsize(model.path) / 1e6:.1f} MB in FP32, {speed['fp32'][0]:.2f} ms at {options.shape}; embeddings in INT8",
             f"{'scheme':18} {'rounding':8} {'transform':12} {'predicted':>12} {'cosine':>8} {'smallest':>8} {'Spearman':>8} {'MB':>6} {'ms':>8} {'of FP32':>8}"]
    rows = [row for row in rows if row["label"] in loads]
    for row in rows:
        q = quality[row["label"]]
        row |= q | {"megabytes": os.path.getsize(files[row["label"]]) / 1e6, "ms": speed[row["label"]][0], "speedup": speed[row["label"]][1]}
        told = f"{row['predicted']:9.2f} dB" if row["predicted"] else ""
        lines.append(f"{row['scheme']:18} {row['rounding']:8} {row['transform']:12} {told:12} {row['cosine']:8.5f} {row['cosine_min']:8.5f} {row['spearman']:8.5f}"
                     f" {row['megabytes']:6.1f} {row['ms']:8.2f} {row['speedup']:7.2f}x")
    known = [row for row in rows if row["predicted"]]
    if len(known) > 2:
        order = rank_correlation([row["predicted"] for row in known], [row["cosine"] for row in known])
        lines.append(f"predicted: mean of the Linears' signal over noise, from the statistics, before a file is written; rank correlation with the cosine {order:.3f}")
    lines += [f"not made or not loaded: {label}: {why}" for label, why in refused.items()]
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, {"machine": facts, "rows": rows, "refused": refused, "times": times})
    if rows:
        chart([row | {"loss": 1 - row["cosine"]} for row in rows], "1 - cosine to FP32", options.result + ".svg")


main()
