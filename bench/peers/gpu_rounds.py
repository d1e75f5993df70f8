"""The rounds of bench/run-gpu; see there. Linux, only Python's own library; PyTorch is needed for the peers and may be absent.

Every measurement is a process of its own, Octet's and PyTorch's in turn. Clocks, power and temperature are read once a second beside each.
What fails is told in the result and does not end the rest. The result is written anew behind every measurement, so that it holds what was
measured whenever the run is ended. Exit code 5 when there is no GPU that Octet can use.
"""

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
JAVA = os.environ.get("OCTET_GPU_JAVA", "java")
CLASSES = os.environ.get("OCTET_GPU_CLASSES", "")
OPTIONS = os.environ.get("OCTET_GPU_OPTIONS", "").split()
UNAVAILABLE = 5
NOT_STARTED = -1
SHORTEST = 15  # seconds without which no measurement is worth its start
SQUARES = ["4096x4096x4096", "8192x8192x8192"]
# ViT-Huge at 64 images of 257 tokens: q, k and v together, the output of attention, both products of the MLP
VIT = ["16448x1280x3840", "16448x1280x1280", "16448x1280x5120", "16448x5120x1280"]
CAST = "16448x5120"
# GPT-2 124M and Llama 3.2 1B: samples, heads, heads of keys, rows, size of a head
ATTENTION = ["32x12x12x1024x64", "8x32x8x2048x64"]
SMALL_ATTENTION = ["1x2x1x32x64"]
MODELS = {"vit-huge": 64, "gpt2": 32}
# 17 tokens of 16 images: PyTorch's FP8 products take multiples of 16 only
SMALL = {"vit-small": 16, "gpt2-small": 2}
FIELDS = "clocks.sm,clocks.mem,power.draw,temperature.gpu,utilization.gpu"


def smi(fields):
    try:
        done = subprocess.run(["nvidia-smi", "-i", "0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"], capture_output=True,
                              text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    values = [v.strip() for v in done.stdout.splitlines()[0].split(",")] if done.returncode == 0 and done.stdout.strip() else []
    return values if len(values) == fields.count(",") + 1 else []


class Watch(threading.Thread):
    """Clocks and power while something runs: the median and the extremes of those seconds in which the GPU was busy."""

    def __init__(self):
        super().__init__(daemon=True)
        self.rows, self.ended = [], threading.Event()

    def run(self):
        while not self.ended.wait(1):
            row = smi(FIELDS)
            if row:
                self.rows.append(row)

    def summary(self):
        self.ended.set()
        self.join()
        result = {}
        for i, field in enumerate(FIELDS.split(",")):
            values = [float(r[i]) for r in self.rows if re.fullmatch(r"[\d.]+", r[i]) and r[4] != "0"]
            if values:
                result[field] = [min(values), statistics.median(values), max(values)]
        return result


def measured(command, timeout):
    """The JSON of the last line, or {"error": what was printed, "exit": code}."""
    watch = Watch()
    watch.start()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, out, err = 124, "", f"took longer than {timeout} s"
    except OSError as e:
        code, out, err = 127, "", str(e)
    clocks = watch.summary()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if code == 0 and lines:
        return json.loads(lines[-1]) | {"clocks": clocks}
    told = "\n".join(line for line in err.strip().splitlines() if "incubator modules" not in line)
    return {"error": told[-2000:], "exit": code}


class Bench:
    def __init__(self, options, save):
        self.options = options
        self.results = {}
        self.save = save
        self.started = time.monotonic()

    def limit(self):
        """Seconds of the next process; 0 when the time of the whole run is used up."""
        if not self.options.budget:
            return self.options.limit
        left = self.options.budget - (time.monotonic() - self.started)
        return 0 if left < SHORTEST else min(self.options.limit, left)

    def octet(self, *arguments, options=()):
        command = [JAVA, "--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED",
                   "--sun-misc-unsafe-memory-access=allow", "-Xmx8g", *OPTIONS, *options, "-cp", CLASSES, "dev.octet.bench.gpu.GpuBench"]
        return self.run(command + [str(a) for a in arguments])

    def cudnn(self, *arguments):
        """Octet with cuDNN's attention."""
        return self.octet(*arguments, options=("-Doctet.cuda.attention=cudnn",))

    def torch(self, *arguments):
        return self.run([sys.executable, os.path.join(HERE, "gpu_torch.py"), *[str(a) for a in arguments]])

    def run(self, command):
        limit = self.limit()
        if limit <= 0:
            return {"error": f"not started: the {self.options.budget} s of --budget are used up", "exit": NOT_STARTED}
        return measured(command, limit)

    def both(self, name, ours, theirs):
        """In turn, so many rounds as asked for."""
        for turn in range(self.options.rounds):
            tools = [("octet", self.octet, ours), ("torch", self.torch, theirs)]
            if name == "attention":
                tools = [("cudnn", self.cudnn, ours)]
            elif name.startswith("step "):
                tools.insert(1, ("cudnn", self.cudnn, ours))
            for tool, run, arguments in tools:
                if tool not in self.options.tools.split(","):
                    continue
                result = run(*arguments)
                self.results.setdefault(name, {}).setdefault(tool, []).append(result)
                state = f"failed, exit {result['exit']}: {result['error'].splitlines()[-1:]}" if "error" in result else "done"
                print(f"{name} round {turn + 1} {tool}: {state}", file=sys.stderr, flush=True)
                self.save(self)

    def good(self, name, tool):
        return [r for r in self.results.get(name, {}).get(tool, []) if "error" not in r]

    def measure(self, work):
        only = self.options.only.split(",")
        if "limits" in only:
            self.both("limits", ["limits"], ["limits"])
        if "products" in only:
            shapes = SQUARES + VIT
            self.both("products", ["products", *shapes], ["products", *shapes])
        if "cast" in only:
            self.both("cast", ["cast", CAST], ["cast", CAST])
        if "attention" in only:
            self.both("attention", ["attention", *(SMALL_ATTENTION if self.options.small else ATTENTION)], [])
        if "steps" in only:
            for model, batch in (SMALL if self.options.small else MODELS).items():
                if model not in self.options.models.split(","):
                    continue
                folder = os.path.join(work, model)
                if "octet" in self.options.tools.split(","):
                    made = self.octet("make", model, folder)
                    if "error" in made:
                        self.results[f"make {model}"] = {"octet": [made]}
                        self.save(self)
                        continue
                for precision in self.options.precisions.split(","):
                    self.both(f"step {model} {precision}", ["step", model, precision, folder, batch, self.options.steps],
                              ["step", model, precision, batch, self.options.steps])

    def median(self, name, tool, of):
        values = [of(r) for r in self.good(name, tool)]
        return statistics.median(values) if values else None

    def report(self):
        lines = ["| what | Octet | PyTorch | Octet / PyTorch |", "|---|---|---|---|"]

        def row(what, name, of, unit):
            ours, theirs = (self.median(name, tool, of) for tool in ("octet", "torch"))
            texts = [f"{v:,.1f} {unit}" if v is not None else "failed" for v in (ours, theirs)]
            lines.append(f"| {what} | {texts[0]} | {texts[1]} | {f'{ours / theirs:.3f}' if ours and theirs else ''} |")

        if "limits" in self.results:
            row("copy within the device, read and written", "limits", lambda r: r["limits"]["copyGigabytes"], "GB/s")
            row("product BF16 8192", "limits", lambda r: r["limits"]["bf16Teraflops"], "TFLOP/s")
            row("product FP8 8192", "limits", lambda r: r["limits"]["fp8Teraflops"], "TFLOP/s")
        for shape in (SQUARES + VIT) if "products" in self.results else []:
            for role in ("fprop", "dgrad", "wgrad"):
                row(f"FP8 {role} {shape}", "products",
                    lambda r: next(p["teraflops"] for p in r["products"] if p["shape"] == shape and p["role"] == role), "TFLOP/s")
        if "cast" in self.results:
            row(f"cast, transpose, amax {CAST}", "cast", lambda r: r["cast"]["gigabytes"], "GB/s")
        steps = [name for name in self.results if name.startswith("step ")]
        for name in steps:
            unit = next((r["unit"] for tool in ("octet", "torch") for r in self.good(name, tool)), "")
            row(name, name, lambda r: r["per_second"], f"{unit}/s")
            row(f"{name}, of a step", name, lambda r: r["median_ms"], "ms")
            row(f"{name}, peak memory", name, lambda r: r["peak_bytes"] / 1e9, "GB")
        if any(self.good(name, "cudnn") for name in self.results):
            lines += ["", "| Octet | kernels of its own | cuDNN's attention | |", "|---|---|---|---|"]
        for r in (p for result in self.good("attention", "cudnn")[:1] for p in result["attention"]):
            lines.append(f"| attention {r['role']} {r['shape']}, causal | | {r['micros']:.1f} us | {r['teraflops']:.0f} TFLOP/s |")
        for name in steps:
            ours, other = (self.median(name, tool, lambda r: r["median_ms"]) for tool in ("octet", "cudnn"))
            if other:
                lines.append(f"| {name} | {f'{ours:.1f} ms' if ours else ''} | {other:.1f} ms | {f'{other / ours:.3f}' if ours else ''} |")
        for name, tool in ((name, tool) for name in steps for tool in ("octet", "cudnn")):
            for result in self.good(name, tool)[:1]:
                total = sum(k["micros"] for k in result["kernels"])
                lines += ["", f"{name}{', cuDNN' if tool == 'cudnn' else ''}: kernels of one step, run one by one, {total / 1e3:.1f} ms together", "",
                          "| kernel | runs | microseconds | share | of the limit |", "|---|---|---|---|---|"]
                for k in result["kernels"][:40]:
                    limit = f"{k['of_limit'] * 100:.0f} %" if k["of_limit"] else ""
                    lines.append(f"| {k['name']} | {k['runs']} | {k['micros']:.1f} | {k['micros'] / total * 100:.1f} % | {limit} |")
        failed = [(name, tool, r) for name, tools in self.results.items() for tool, all_ in tools.items() for r in all_ if "error" in r]
        if failed:
            lines += ["", "Failed:", ""]
            lines += [f"- {name}, {tool}, exit {r['exit']}: {(r['error'].splitlines() or [''])[-1]}" for name, tool, r in failed]
        return lines


def facts(gpu):
    names = "name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,ecc.mode.current,mig.mode.current,memory.total"
    found = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "gpu": gpu, "nvidia-smi": dict(zip(
        names.split(","), smi(names))), "os": platform.platform(), "python": platform.python_version()}
    try:
        java = subprocess.run([JAVA, "-version"], capture_output=True, text=True)
        found["java"] = (java.stderr.splitlines() or ["?"])[-1]
    except OSError as e:
        found["java"] = str(e)
    torch = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())"],
                           capture_output=True, text=True)
    found["torch"] = torch.stdout.strip() or "not installed: no peers"
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result", nargs="?", help="without an ending; default bench/results/DATE-GPU-gpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="steps that count, of a run")
    parser.add_argument("--only", default="limits,products,cast,steps")
    parser.add_argument("--small", action="store_true", help="small models: to see that everything works")
    parser.add_argument("--work", help="folder for the made models, 3 GB; default a temporary one")
    parser.add_argument("--models", default=",".join([*MODELS, *SMALL]), help="models of steps")
    parser.add_argument("--precisions", default="bf16,fp8", help="precisions of steps; Octet has fp32, msamp-O1, msamp-O2 and msamp-O3, too")
    parser.add_argument("--tools", default="octet,torch", help="cudnn: Octet's steps with cuDNN's attention")
    parser.add_argument("--limit", type=float, default=240, help="seconds of one process")
    parser.add_argument("--budget", type=float, default=0, help="seconds of all; what does not fit is not started")
    options = parser.parse_args()
    bench = Bench(options, lambda _: None)
    first = bench.octet("cast", "64x128")
    if "error" in first:
        print(first["error"], file=sys.stderr)
        sys.exit(UNAVAILABLE if first["exit"] == UNAVAILABLE else 1)
    gpu = first["gpu"]
    found = facts(gpu)
    name = re.sub(r"[^a-z0-9]+", "", gpu["name"].lower().replace("nvidia", ""))
    result = options.result or os.path.join(os.path.dirname(HERE), "results", f"{found['date'][:10]}-{name}-gpu")
    os.makedirs(os.path.dirname(os.path.abspath(result)), exist_ok=True)
    head = [f"# {gpu['name']}, {found['date']}", "", f"{gpu['versions']}; torch {found['torch']}; {options.rounds} rounds, medians.", ""]
    bench.save = lambda b: write(result, found, b, head)
    bench.save(bench)
    with tempfile.TemporaryDirectory() as own:
        bench.measure(options.work or own)
    print(write(result, found, bench, head), end="")


def write(result, found, bench, head):
    """RESULT.json and RESULT.md, each whole at any time; the text of the second."""
    text = "\n".join(head + bench.report()) + "\n"
    for ending, content in ((".json", json.dumps({"facts": found, "results": bench.results}, indent=1) + "\n"), (".md", text)):
        with open(result + ending + ".new", "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(result + ending + ".new", result + ending)
    return text


if __name__ == "__main__":
    main()
