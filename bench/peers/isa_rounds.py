"""The rounds of bench/run-isa; see there. Linux.

A width is a set of environment variables that every process of it inherits. Octet's are the flags of the JVM and oneDNN's cap; PyTorch's
are its own, oneDNN's and MKL's. MKL heeds its cap only on Intel's processors, so on AMD's its FP32 products stay at full width.
"""

import argparse
import json
import os
import subprocess
import sys

from measured import HERE, HOME, JAVA, machine, write

CAPS = ("ONEDNN_MAX_CPU_ISA", "OCTET_JAVA_OPTIONS", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")
WIDTHS = {
    "avx512": ("", "", "", ""),
    "avx2": ("AVX2", "-XX:UseAVX=2", "avx2", "AVX2"),
    "128": ("SSE41", "-XX:UseAVX=2 -XX:MaxVectorSize=16", "default", "SSE4_2"),
    "128-no-fma": ("SSE41", "-XX:UseAVX=0", "default", "SSE4_2"),
}
CASTS = ["encode", "decode", "quantizePerChannel"]
TILES = ["FP8_ROW", "FP8_BLOCK", "INT8", "MXFP8", "NVFP4"]
PRECISIONS = ["fp32", "bf16", "fp16", "fp8", "fp8-current", "fp8-block"]
# a step of PyTorch in BF16 takes half a minute without AVX-512
TORCH_SECONDS = 20


class Width:
    def __init__(self, options, name):
        self.options, self.name = options, name
        self.environment = {k: v for k, v in os.environ.items() if k not in CAPS}
        self.environment |= {k: v for k, v in zip(CAPS, WIDTHS[name]) if v}
        self.work = os.path.join(options.work, name)
        os.makedirs(self.work, exist_ok=True)
        # (work, unit, octet, torch or None)
        self.rows = []
        self.details = {}

    def python(self, script, *arguments):
        subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], check=True, env=self.environment, stdout=sys.stderr)

    def result(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def jmh(self, benchmark, *arguments):
        out = os.path.join(self.work, "jmh.json")
        with open(f"{HOME}/bench/target/classpath.txt", encoding="utf-8") as file:
            path = f"{HOME}/bench/target/classes:{file.read().strip()}"
        flags = self.environment.get("OCTET_JAVA_OPTIONS")
        subprocess.run([JAVA, "-cp", path, "org.openjdk.jmh.Main", "-rf", "json", "-rff", out, "-wi", "5", "-i", "10", *arguments,
                        *(["-jvmArgsPrepend", flags] if flags else []), "-foe", "true", benchmark], check=True, env=self.environment, stdout=sys.stderr)
        return {(run["benchmark"].rsplit(".", 1)[1], *run["params"].values()): max(max(fork) for fork in run["primaryMetric"]["rawData"])
                for run in self.result(out)}

    def torch_casts(self):
        if "torch casts" not in self.details:
            out = os.path.join(self.work, "torch.json")
            self.python("torch_cast.py", out)
            self.details["torch casts"] = self.result(out)["gelem_per_s"]
        return self.details["torch casts"]

    def casts(self):
        theirs = self.torch_casts()
        ours = self.jmh(f"dev.octet.bench.CastBenchmark.({'|'.join(CASTS)})", "-p", "type=BF16,F32", "-p", "format=E4M3FN")
        peers = {"encode": "cast", "decode": "decode", "quantizePerChannel": "pipeline per row"}
        for (name, *parameters), rate in sorted(ours.items()):
            kind, code = sorted(parameters)  # BF16 or F32, E4M3FN
            if kind == "E4M3FN":
                kind, code = code, kind
            self.rows.append((f"cast {name} {kind}", "Gelem/s", rate, theirs.get(f"{peers[name]} {kind} {code}")))

    def tiles(self):
        theirs = self.torch_casts()
        ours = self.jmh("dev.octet.bench.TileBenchmark.(quantize|dequantize)", "-p", f"scheme={','.join(TILES)}", "-p", "type=BF16")
        for (name, *parameters), rate in sorted(ours.items()):
            scheme = next(p for p in parameters if p in TILES)
            self.rows.append((f"tile {name} {scheme}", "Gelem/s", rate, theirs.get(f"tile {name} {scheme}")))

    def checkpoint(self):
        out = os.path.join(self.work, "checkpoint")
        self.python("checkpoint_rounds.py", out, "--gigabytes", str(self.options.gigabytes), "--rounds", str(self.options.rounds),
                    "--only", "quantize,dequantize", "--work", os.path.join(self.options.work, "checkpoint"))
        self.details["checkpoint"] = self.result(out + ".json")
        for name, part in self.details["checkpoint"]["summary"].items():
            seconds = part["median_seconds"]
            self.rows.append((f"{name} {self.options.gigabytes} GB, process", "s", seconds["octet"], seconds["torch"]))
            self.rows.append((f"{name}, bytes alone", "s", seconds["limit"], None))

    def train(self):
        out = os.path.join(self.work, "train")
        self.python("train_rounds.py", out, "--rounds", str(self.options.rounds), "--steps", str(self.options.steps), "--curve", "0",
                    "--precisions", ",".join(PRECISIONS), "--torch-seconds", str(TORCH_SECONDS), "--only", self.options.models,
                    "--work", os.path.join(self.options.work, "train"), *(["--minilm", self.options.minilm] if self.options.minilm else []))
        self.details["train"] = self.result(out + ".json")
        for model, summary in self.details["train"]["summary"].items():
            rounds = self.details["train"]["rounds"][model]
            for precision in PRECISIONS:
                self.rows.append((f"train {model} {precision}", "ms a step", summary[f"octet {precision}"], summary.get(f"torch {precision}")))
            for precision in PRECISIONS:
                peak = {tool: max(r["peak_mb"] for r in rounds[f"{tool} {precision}"]) if f"{tool} {precision}" in rounds else None
                        for tool in ("octet", "torch")}
                self.rows.append((f"train {model} {precision}, peak", "MB", peak["octet"], peak["torch"]))

    def lines(self):
        caps = " ".join(f"{k}='{v}'" for k, v in zip(CAPS, WIDTHS[self.name]) if v) or "no caps"
        found = [f"width {self.name}: {caps}", f"{'work':34} {'unit':9} {'Octet':>9} {'PyTorch':>9} {'ratio':>7}"]
        for work, unit, ours, theirs in self.rows:
            digits = 3 if unit == "Gelem/s" else 2 if unit == "s" else 0
            ratio = f"{ours / theirs:6.2f}x" if theirs else ""
            found.append(f"{work:34} {unit:9} {ours:9.{digits}f} {f'{theirs:9.{digits}f}' if theirs else '':9} {ratio}")
        return found + ["ratio: Octet's number by PyTorch's; of rates more is better, of times and memory less"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--widths", default=",".join(WIDTHS))
    parser.add_argument("--only", default="casts,tiles,checkpoint,train")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--gigabytes", type=float, default=2.1)
    parser.add_argument("--models", default="gpt2,minilm")
    parser.add_argument("--minilm", help="the model that octet quickstart fetches")
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "isa"))
    options = parser.parse_args()
    names = options.widths.split(",")
    if unknown := [name for name in names if name not in WIDTHS]:
        parser.error(f"--widths {','.join(unknown)}: of {', '.join(WIDTHS)}")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = set(next(line for line in file if line.startswith("flags")).split())
    for name in names:
        if name == "avx512" and "avx512f" not in flags:
            print("avx512: this processor has no such vectors, left out", file=sys.stderr)
            continue
        width, facts = Width(options, name), machine()
        for part in options.only.split(","):
            getattr(width, part)()
        facts["load_average_after"] = os.getloadavg()
        write(f"{options.result}-{name}", facts, width.lines(), {"machine": facts, "caps": dict(zip(CAPS, WIDTHS[name])),
              "rows": width.rows, "details": width.details})


main()
