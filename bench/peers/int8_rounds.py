"""The rounds of bench/run-int8; see there. Linux."""

import argparse
import json
import os
import re
import subprocess
import sys

from int8_models import MODELS
from int8_runtimes import RUNTIME, Runtimes, speedups
from measured import HERE, HOME, OCTET, machine, write

PROCESSORS = ("native", "avx512", "avx2-vnni", "avx2")
# what Octet is asked for, by label
VARIANTS = {"int8": ["--recipe", "int8"], "int8 smooth": ["--recipe", "int8", "--transform", "smoothquant:0.75"],
            "int8 smooth 7": ["--recipe", "int8", "--transform", "smoothquant:0.75", "--reduce-range"],
            "int8-dynamic": ["--recipe", "int8-dynamic"],
            "dynamic smooth": ["--recipe", "int8-dynamic", "--transform", "smoothquant:0.75"],
            "int8-weight-only": ["--recipe", "int8-weight-only"],
            "int4-weight-only": ["--recipe", "int4-weight-only"], "int4 gptq": ["--recipe", "int4-weight-only", "--rounding", "gptq"]}
WITHOUT_DATA = ("int8-dynamic", "int8-weight-only", "int4-weight-only")
PEERS = ("static-u8s8", "static-u8s8-reduced", "static-s8s8", "static-u8s8-gather", "static-all", "dynamic", "dynamic-reduced", "dynamic-fused",
         "4-bits", "4-bits-int8")


def octet_variants(options, model, folder):
    """What Octet writes, by label; refusals in words."""
    made, refused = {}, {}
    for name, words in VARIANTS.items():
        if not re.search(options.only, f"octet {name}"):
            continue
        label, target = f"octet {name}", os.path.join(folder, f"octet-{name.replace(' ', '-')}.onnx")
        if os.path.exists(target) and not options.remake:
            made[label] = target
            continue
        line = [*options.octet.split(), "quantize", model.path, "-o", target, *words, "--embeddings", "int8", "--quiet", "--force"]
        data = [] if name in WITHOUT_DATA else model.octet_data()
        result = subprocess.run([*line, *data], capture_output=True, text=True, env=dict(os.environ, OCTET_BUILD="off"))
        if result.returncode == 0:
            made[label] = target
        else:
            refused[label] = next((line for line in result.stderr.splitlines() if line.startswith("octet: ")), result.stderr[-200:].strip())
    return made, refused


def peer_variants(options, model, folder):
    """What ONNX Runtime's quantizers write, by label; refusals in words."""
    peers = [name for name in PEERS if re.search(options.only, f"ort {name}")]
    wanted = [name for name in peers if options.remake or not os.path.exists(os.path.join(folder, f"{name}.onnx"))]
    report = os.path.join(folder, "made.json")
    if wanted:
        subprocess.run([sys.executable, os.path.join(HERE, "ort_quantize.py"), model.path, folder, "--samples", model.samples, "--only",
                        ",".join(wanted)], check=True, stdout=sys.stderr)
    found = {}
    if os.path.exists(report):
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
    made = {f"ort {name}": os.path.join(folder, f"{name}.onnx") for name in peers if os.path.exists(os.path.join(folder, f"{name}.onnx"))}
    return made, {f"ort {name}": part["failed"] for name, part in found.items() if name in peers and "failed" in part}


def table(model, processor, files, times, quality, shapes):
    """Size and accuracy of each file, then its times in one runtime after the other."""
    size = os.path.getsize(files["fp32"])
    lines = [f"{model.name}, processor: {processor}", f"{'file':24} {'size':>6} {'cosine':>8} {'smallest':>8} {'Spearman':>8} {'top 1':>6}"]
    for label, path in files.items():
        q = quality[label]
        cells = [f"{q['cosine']:8.5f}", f"{q['cosine_min']:8.5f}", f"{q['spearman']:8.5f}" if "spearman" in q else f"{'':8}",
                 f"{q['top1']:6.3f}" if "top1" in q else ""] if "failed" not in q else []
        lines.append(f"{label:24} {os.path.getsize(path) / size:6.1%} {' '.join(cells)}".rstrip())
    for runtime, rows in times.items():
        lines += ["", f"{runtime:24}" + "".join(f" {shape:>20}" for shape in shapes)]
        columns = [speedups(rows, shape) for shape in shapes]
        for label in files:
            cells = [f" {column[label][0]:9.2f} ms {column[label][1]:6.2f}x" if label in column else f"{'':21}" for column in columns]
            lines.append(f"{label:24}{''.join(cells)}".rstrip())
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--models", default="minilm,bge-small,e5-small,bge-small-zh,ocr-line,ocr-angle")
    parser.add_argument("--processors", default="native,avx2")
    parser.add_argument("--runtimes", default="java,python")
    parser.add_argument("--shapes", help="instead of each model's own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=".", help="labels to measure beside fp32, by a regular expression")
    parser.add_argument("--texts", type=int, default=400, help="held-out texts for accuracy")
    parser.add_argument("--remake", action="store_true", help="quantise again what the work folder has")
    parser.add_argument("--octet", default=OCTET, help="another command than the launcher")
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "int8"))
    parser.add_argument("--build", help="off: what is built is measured")
    options = parser.parse_args()
    for name, known in (("models", MODELS), ("processors", PROCESSORS)):
        if unknown := [value for value in getattr(options, name).split(",") if value not in known]:
            parser.error(f"--{name} {','.join(unknown)}: of {', '.join(known)}")
    if unknown := [value for value in options.runtimes.split(",") if not re.fullmatch(RUNTIME, value)]:
        parser.error(f"--runtimes {','.join(unknown)}: of python, java, java@VERSION")
    import onnxruntime
    facts = machine() | {"onnxruntime": f"Java as on the class path, Python {onnxruntime.__version__}, default session options"}
    runtimes, lines, everything = Runtimes(options.work), [], {}
    for name in options.models.split(","):
        model = MODELS[name]
        folder = os.path.join(options.work, "models")
        model.fetch(folder)
        made = os.path.join(options.work, name)
        os.makedirs(made, exist_ok=True)
        files, refused = {"fp32": model.path}, {}
        for more, why in (octet_variants(options, model, made), peer_variants(options, model, made)):
            files |= more
            refused |= why
        files |= {f"published {label}": path for label, path in model.others.items()}
        files = {label: path for label, path in files.items() if label == "fp32" or re.search(options.only, label)}
        shapes = options.shapes.split(",") if options.shapes else model.shapes
        everything[name] = {"refused": refused, "bytes": {label: os.path.getsize(path) for label, path in files.items()}}
        for processor in options.processors.split(","):
            print(f"{name}, {processor}", file=sys.stderr)
            quality = runtimes.quality(processor, model, options.texts, files, folder)
            loads = {label: path for label, path in files.items() if "failed" not in quality[label]}
            times = {runtime: runtimes.times(runtime, processor, options.rounds, shapes, loads) for runtime in options.runtimes.split(",")}
            everything[name][processor] = {"quality": quality, "times": times}
            lines += [*table(model, processor, files, times, quality, shapes), ""]
            refused |= {f"{label} ({processor})": q["failed"] for label, q in quality.items() if "failed" in q}
        lines += [f"not made or not loaded: {label}: {why}" for label, why in refused.items()] + [""]
        facts["load_average_after"] = os.getloadavg()
        write(options.result, facts, lines, {"machine": facts, "models": everything})  # so far


if __name__ == "__main__":
    main()
