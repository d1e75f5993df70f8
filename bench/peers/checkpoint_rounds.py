"""The rounds of bench/run-checkpoint; see there. Linux.

Every step is a process of its own and timed as a whole, from start to exit. Its peak resident memory is what the kernel counts for it. A
warm-up round comes first and is not counted: it also makes the outputs whose sizes the bare copies imitate. Outputs are deleted
outside the timed steps.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

from measured import HERE, HOME, JAVA, OCTET, machine, measured, write

CHUNK_MIB = 8

# what caps the vectors of the JVM and of PyTorch
WIDTHS = {"avx2": ("-XX:UseAVX=2", "avx2"), "128": ("-XX:UseAVX=0", "default")}


def timed(command, outputs=None):
    """Runs a command; seconds, peak memory, and what it says of itself on its last line of JSON or as a rate."""
    if outputs:
        shutil.rmtree(outputs, ignore_errors=True)
    result, text = measured(command, (0, 1))
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                own = json.loads(line)
                result |= {"own_seconds": own["seconds"]} if "seconds" in own else {}
            except ValueError:
                pass
    rate = re.findall(r"([\d.,]+) ([MG])B/s", text)
    if rate and "own_seconds" not in result:
        result["own_gb_per_s"] = float(rate[-1][0].replace(",", "")) / (1000 if rate[-1][1] == "M" else 1)
    return result


def python(script, *arguments):
    return [sys.executable, os.path.join(HERE, script), *arguments]


def copy_limit(threads, source, target, sizes):
    os.makedirs(target, exist_ok=True)
    classes = os.path.join(HOME, "bench", "target", "classes")
    return [JAVA, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "dev.octet.bench.CopyLimit", str(threads),
            str(CHUNK_MIB), source, target, sizes]


def size_of(folder):
    return sum(e.stat().st_size for e in os.scandir(folder) if e.name.endswith(".safetensors"))


def warm(folder):
    """Into the page cache."""
    for entry in os.scandir(folder):
        with open(entry.path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


class Rounds:
    def __init__(self, options):
        self.options = options
        self.results = {}
        self.facts = {}

    def path(self, name):
        return os.path.join(self.options.work, name)

    def measure(self, name, steps):
        """steps: {label: (command maker, output folder or None)}; alternates them."""
        found = {label: [] for label in steps}
        for turn in range(self.options.rounds + 1):
            for label, (command, outputs) in steps.items():
                if outputs:
                    shutil.rmtree(outputs, ignore_errors=True)
                result = timed(command())
                print(f"{name} {'warm-up' if turn == 0 else f'round {turn}'} {label}: {result['seconds']:.2f} s", file=sys.stderr)
                if turn:
                    found[label].append(result)
        for label, (_, outputs) in steps.items():
            if outputs:
                shutil.rmtree(outputs, ignore_errors=True)
        self.results[name] = found

    def quantize(self, source):
        out = self.path("quantized")
        sizes = self.path("quantized-sizes")
        quantize = [OCTET, "quantize", source, "--recipe", "fp8-dynamic", "--target", "compressed-tensors"]
        self.prepare(quantize, out, sizes, "quantize", source)
        self.facts["quantize bytes equal to PyTorch's"] = self.check(source, sizes)
        copied, alone, theirs = self.path("copied"), self.path("copied-alone"), self.path("torch")
        self.measure("quantize", {
            "limit": (lambda: copy_limit(self.options.threads, source, copied, sizes), copied),
            "octet": (lambda: quantize + ["-o", out], out),
            "torch": (lambda: python("torch_quantize.py", source, theirs), theirs),
            "limit, one thread": (lambda: copy_limit(1, source, alone, sizes), alone),
        })
        shutil.rmtree(sizes)

    def dequantize(self, source):
        blocks, out, sizes = self.path("blocks"), self.path("floats"), self.path("floats-sizes")
        shutil.rmtree(blocks, ignore_errors=True)
        timed([OCTET, "quantize", source, "--recipe", "fp8-block", "--target", "fp8", "-o", blocks])
        dequantize = [OCTET, "dequantize", blocks, "--dtype", "bf16"]
        self.prepare(dequantize, out, sizes, "dequantize", blocks)
        copied, theirs = self.path("copied"), self.path("torch")
        self.measure("dequantize", {
            "limit": (lambda: copy_limit(self.options.threads, blocks, copied, sizes), copied),
            "octet": (lambda: dequantize + ["-o", out], out),
            "torch": (lambda: python("torch_dequantize.py", blocks, theirs), theirs),
        })
        shutil.rmtree(sizes)
        shutil.rmtree(blocks)

    def verify(self):
        headers = self.path("headers")
        shutil.rmtree(headers, ignore_errors=True)
        subprocess.run(python("make_checkpoint.py", "headers", headers, str(self.options.shards)), check=True, stdout=sys.stderr)
        warm_headers = [os.path.join(headers, e) for e in os.listdir(headers)]
        for path in warm_headers:
            with open(path, "rb") as file:
                file.read(1 << 17)
        self.facts["verify: shards"] = self.options.shards
        self.measure("verify", {"octet": (lambda: [OCTET, "verify", headers, "--for", "vllm"], None)})
        shutil.rmtree(headers)

    def onnx(self, source):
        """A folder as ONNX in one file and its weights beside it, against a copy of the folder: both read and write the same bytes."""
        out, copied = self.path("onnx"), self.path("copied")

        def export():
            os.makedirs(out)
            return [OCTET, "convert", source, "--target", "onnx", "-o", os.path.join(out, "model.onnx")]

        self.facts["onnx: GB in"] = size_of(source) / 1e9
        self.measure("onnx", {
            "limit": (lambda: copy_limit(self.options.threads, source, copied, source), copied),
            "octet": (export, out),
            "cp": (lambda: ["cp", "-r", source, copied], copied),
        })

    def start(self):
        """Verbs that have next to nothing to do."""
        tiny, out = os.path.join(HOME, "testdata", "checkpoints", "llama"), self.path("tiny")
        self.measure("start", {
            "--version": (lambda: [OCTET, "--version"], None),
            "inspect": (lambda: [OCTET, "inspect", tiny], None),
            "verify": (lambda: [OCTET, "verify", tiny], None),
            "quantize --dry-run": (lambda: [OCTET, "quantize", tiny, "-o", out, "--dry-run"], None),
            "quantize": (lambda: [OCTET, "quantize", tiny, "-o", out], out),
        })

    def prepare(self, command, out, sizes, name, source):
        """One run whose output stays: its sizes are what the limit writes."""
        shutil.rmtree(sizes, ignore_errors=True)
        first = timed(command + ["-o", sizes])
        if first["exit"]:
            sys.exit(f"{name} failed")
        self.facts[f"{name}: GB in"] = size_of(source) / 1e9
        self.facts[f"{name}: GB out"] = size_of(sizes) / 1e9

    def check(self, source, quantized):
        done = subprocess.run(python("compare_quantized.py", source, quantized), capture_output=True, text=True)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def report(self):
        lines = [f"{self.options.rounds} rounds, medians; seconds of whole processes, [fastest .. slowest]"]
        summary = {}
        for name, steps in self.results.items():
            middle = {label: statistics.median(r["seconds"] for r in rounds) for label, rounds in steps.items()}
            for label, rounds in steps.items():
                seconds = [r["seconds"] for r in rounds]
                gigabytes = self.facts.get(f"{name}: GB in")
                line = f"{name:11} {label:18} {middle[label]:8.3f} s [{min(seconds):.3f} .. {max(seconds):.3f}]"
                if gigabytes:
                    line += f" {gigabytes / middle[label]:6.2f} GB/s in"
                own = [r["own_seconds"] for r in rounds if "own_seconds" in r]
                rate = [r["own_gb_per_s"] for r in rounds if "own_gb_per_s" in r]
                if own:
                    line += f"; without its start {statistics.median(own):.3f} s"
                if rate:
                    line += f"; says {statistics.median(rate):.2f} GB/s itself"
                line += f"; {statistics.median(r['cpu_seconds'] for r in rounds):.2f} s of processor"
                line += f"; peak {max(r['peak_mb'] for r in rounds):.0f} MB"
                lines.append(line)
            ratios = {}
            octet = steps.get("octet")
            if "torch" in steps:
                ratios["times as fast as torch, whole processes"] = self.ratio(steps["torch"], octet, "seconds")
                ratios["times less processor than torch, whole processes"] = self.ratio(steps["torch"], octet, "cpu_seconds")
                ratios["times as fast as torch, torch without its start"] = statistics.median(
                    t["own_seconds"] / o["seconds"] for t, o in zip(steps["torch"], octet))
            if "limit" in steps:
                ratios["of the limit's speed, whole processes"] = self.ratio(steps["limit"], octet, "seconds")
                ratios["of the limit's speed, limit without its start"] = statistics.median(
                    t["own_seconds"] / o["seconds"] for t, o in zip(steps["limit"], octet))
            for label, value in ratios.items():
                lines.append(f"{name:11} octet: {value:.2f} {label}")
            summary[name] = {"median_seconds": middle, "ratios": ratios}
        return lines, summary

    @staticmethod
    def ratio(others, octet, key):
        """The median of the ratios of neighbours."""
        return statistics.median(t[key] / o[key] for t, o in zip(others, octet))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--gigabytes", type=float, default=2.1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "checkpoint"))
    parser.add_argument("--only", default="quantize,dequantize,onnx,verify,start")
    parser.add_argument("--width", choices=sorted(WIDTHS), help="vectors no wider than this, of both sides (default: the processor's)")
    options = parser.parse_args()
    if options.width:
        java, torch = WIDTHS[options.width]
        os.environ["OCTET_JAVA_OPTIONS"] = f"{os.environ.get('OCTET_JAVA_OPTIONS', '')} {java}".strip()
        os.environ["ATEN_CPU_CAPABILITY"] = torch
    os.makedirs(options.work, exist_ok=True)
    rounds, facts = Rounds(options), machine()
    source = os.path.join(options.work, f"llama-{options.gigabytes}")
    parts = options.only.split(",")
    if {"quantize", "dequantize", "onnx"} & set(parts) and not os.path.exists(os.path.join(source, "config.json")):
        shutil.rmtree(source, ignore_errors=True)
        subprocess.run(python("make_checkpoint.py", "llama", source, str(options.gigabytes)), check=True, stdout=sys.stderr)
    if "quantize" in parts:
        warm(source)
        rounds.quantize(source)
    if "dequantize" in parts:
        warm(source)
        rounds.dequantize(source)
    if "onnx" in parts:
        warm(source)
        rounds.onnx(source)
    if "verify" in parts:
        rounds.verify()
    if "start" in parts:
        rounds.start()
    facts["width"] = options.width or "the processor's"
    facts["page cache"] = "warm: inputs were read before; outputs are not synced, by nobody"
    facts["load_average_after"] = os.getloadavg()
    lines, summary = rounds.report()
    write(options.result, facts | rounds.facts, lines,
          {"machine": facts, "facts": rounds.facts, "summary": summary, "rounds": rounds.results})


main()
