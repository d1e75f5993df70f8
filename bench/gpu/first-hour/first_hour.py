"""The first hour on a GPU, in four parts of less than ten minutes each; see bench/README.md. Only Python's own library.

Each part runs its tasks one after the other within its budget, writes OUT/PART.log (all output, as it comes), OUT/PART.md (the table, anew behind each
task) and, where it measures, OUT/PART.json. What fails is looked up in triage.json: the table says which line of it applies. Exit code: 0 all passed,
1 something failed, 5 no GPU that Octet can use.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# the pack has this folder, or lies in the working folder, which is the checkout
PACK = os.environ.get("OCTET_GPU_PACK") or next(
    (p for p in (os.path.dirname(HERE), os.path.abspath("octet-gpu")) if os.path.isdir(os.path.join(p, "runtime"))), os.path.dirname(HERE))
JAVA = os.environ.get("OCTET_GPU_JAVA", os.path.join(PACK, "runtime", "bin", "java"))
CLASSES = os.environ.get("OCTET_GPU_CLASSES") or ":".join([os.path.join(PACK, "bench", "classes"), *sorted(glob.glob(os.path.join(PACK, "lib", "*.jar")))])
PEERS = os.environ.get("OCTET_GPU_PEERS") or next(
    (p for p in (os.path.join(PACK, "bench", "peers"), os.path.join("bench", "peers")) if os.path.isdir(p)), "bench/peers")
if os.path.isdir(os.path.join(PACK, "cache")):
    os.environ["OCTET_GPU_OPTIONS"] = f"-Doctet.cache={os.path.join(PACK, 'cache')} {os.environ.get('OCTET_GPU_OPTIONS', '')}"
PROGRAMS = r".*\.(CudaTrainingTest|TinyGradientTest|HuggingFaceGradientTest|FusionsTest|GradientCommandTest)"
PARTS = {"1": "classes", "2": "programs", "3": "steps", "4": "peers"}
SHORTEST = 10  # seconds without which no task is worth its start


def triage(text):
    """Lines of the table that a log fits, in the table's order. A sum that differs says nothing where a kernel's fault came before it."""
    with open(os.path.join(HERE, "triage.json"), encoding="utf-8") as file:
        table = json.load(file)
    return [line for line in table if re.search(line["seen"], text)]


class Part:
    def __init__(self, number, options):
        self.name = PARTS[number]
        self.options = options
        self.started = time.monotonic()
        os.makedirs(options.out, exist_ok=True)
        self.base = os.path.join(options.out, self.name)
        self.log = open(self.base + ".log", "w", encoding="utf-8")
        self.rows, self.found, self.notes = [], {}, []

    def left(self):
        return self.options.budget - (time.monotonic() - self.started)

    def task(self, name, command, limit, unusual=None, told=True):
        """Runs a command; its output and exit code. unusual: states of exit codes that are no failure; told: whether a failure is looked up here."""
        seconds = min(limit, self.left())
        if seconds < SHORTEST:
            self.row(name, "not started", 0, "")
            return "", -1
        began = time.monotonic()
        print(f"=== {name}: {' '.join(command)[:400]}", file=self.log, flush=True)
        lines = []
        try:
            # a group of its own, so that all of it can be ended
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        except OSError as e:
            self.row(name, "failed", 0, str(e))
            return str(e), 127
        late = Killer(process, seconds)
        late.start()
        for line in process.stdout:
            lines.append(line)
            self.log.write(line)
            self.log.flush()
        code = process.wait()
        if late.stop():
            lines.append(f"killed: the limit of {seconds:.0f} s is over\n")
            self.log.write(lines[-1])
        text = "".join(lines)
        state = "passed" if code == 0 and not late.fired else "timed out" if late.fired else (unusual or {}).get(code, f"failed, exit {code}")
        self.row(name, state, time.monotonic() - began, text if told or code == 5 else None)
        return text, code

    def row(self, name, state, seconds, text):
        passed = state in ("passed", "none ran", "not started", "skipped")
        lines = triage(text) if text and (not passed or state == "none ran") else []
        for line in lines:
            self.found.setdefault(line["id"], (line, []))[1].append(name)
        said = ", ".join(line["id"] for line in lines) or ("" if passed or text is None else "no line of the table: see the log")
        self.rows.append((name, state, seconds, said))
        print(f"{name:40s} {state:16s} {seconds:6.0f} s  {said}", flush=True)
        self.write()

    def note(self, text):
        self.notes.append(text)
        print(text, flush=True)
        self.write()

    def write(self):
        lines = [f"# First hour: {self.name}", "", "| task | state | s | line of the triage table |", "|---|---|---|---|"]
        lines += [f"| {name} | {state} | {seconds:.0f} | {said} |" for name, state, seconds, said in self.rows]
        if self.found:
            lines += ["", "## What it is, and what to do", "", "| line | of | cause | do |", "|---|---|---|---|"]
            lines += [f"| {line['id']} | {', '.join(names[:4])}{' ..' if len(names) > 4 else ''} | {line['cause']} | {line['do']} |"
                      for line, names in self.found.values()]
        lines += ["", *self.notes]
        with open(self.base + ".md.new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines).rstrip() + "\n")
        os.replace(self.base + ".md.new", self.base + ".md")

    def bench(self, *words):
        return [JAVA, "--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow", "-Xmx8g",
                *os.environ.get("OCTET_GPU_OPTIONS", "").split(), "-cp", CLASSES, "dev.octet.bench.gpu.GpuBench", *words]

    def tests(self, name, limit, *words):
        """The classes of bench/gpu/run, each a row of its own."""
        report = os.path.join(self.options.out, "tests")
        text, code = self.task(name, ["bash", os.path.join(PACK, "run"), "--report", report, *words], limit, {5: "none ran"}, False)
        kind = next((w[2:] for w in words if w in ("--memcheck", "--racecheck")), "tests")
        log = read(os.path.join(report, f"{kind}.txt"))
        lines = read(os.path.join(report, "classes.tsv" if kind == "tests" else f"{kind}-classes.tsv"))
        logs = dict(re.findall(r"^=== (\S+): [^\n]*\n(.*?)(?=^=== |\Z)", log, re.M | re.S))
        for line in lines.splitlines():
            class_, state, seconds, *_ = line.split("\t")
            if state not in ("passed", "skipped"):
                self.row(class_.removeprefix("dev.octet.trainer."), state, float(seconds), logs.get(class_, ""))
        if code == 5 and log:
            self.row(f"{name}: why", "none ran", 0, log)
        return code


class Killer:
    """Ends a process and what it started when its time is over."""

    def __init__(self, process, seconds):
        import threading
        self.process, self.fired = process, False
        self.timer = threading.Timer(seconds, self.fire)

    def start(self):
        self.timer.start()

    def fire(self):
        import signal
        self.fired = True
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stop(self):
        self.timer.cancel()
        return self.fired


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def facts(part):
    part.task("nvidia-smi", ["nvidia-smi"], 30)
    if not part.options.small:
        places(part)
    text, _ = part.task("what Octet finds", part.bench("facts"), 60)
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    if line:
        for p in json.loads(line)["facts"]["parts"]:
            part.note(f"- {p['name']}: {p.get('version') or p.get('problem')} ({p.get('where')})")


def places(part):
    part.task("where CUDA is", ["bash", "-c", "command -v nvcc && nvcc --version | tail -n 2; command -v compute-sanitizer; which python3; "
                                "timeout 40 find / -xdev \\( -name 'libcublasLt.so*' -o -name 'libnvrtc.so*' -o -name 'libcuda.so.1' "
                                "-o -name 'libcudnn.so*' \\) -not -path '/proc/*' 2>/dev/null; nproc; free -g | head -n 2; df -h /tmp | tail -n 1"],
              60, {1: "passed"})


def classes(part):
    facts(part)
    text, code = part.task("smoke: one kernel", part.bench("cast", "64x128"), 120, {5: "none ran"})
    if code == 5:
        return 5
    small = part.options.small
    text, _ = part.task("limits", part.bench("limits"), 120)
    table(part, text)
    words = ["--only", part.options.only] if part.options.only else ["--except", PROGRAMS]
    part.tests("classes", part.left(), "--jobs", str(part.options.jobs), "--limit", "15" if small else "170", *words)
    return 0


def programs(part):
    code = part.tests("whole programs", 300, "--jobs", str(part.options.jobs), "--limit", "170", "--only", part.options.only or PROGRAMS)
    if code == 5:
        return 5
    for tool in ("--memcheck", "--racecheck"):
        part.tests(tool[2:], part.left() / (2 if tool == "--memcheck" else 1), tool, *([part.options.only] if part.options.only else []),
                   "--jobs", str(part.options.jobs), "--limit", "170")
    return 0


def rounds(part, tools, *words):
    command = [sys.executable, os.path.join(PEERS, "gpu_rounds.py"), part.base, "--tools", tools, "--rounds", "1", "--steps", str(part.options.steps),
               "--limit", "240", "--budget", str(int(part.left() - SHORTEST)), *(["--small"] if part.options.small else []), *words]
    os.environ["OCTET_GPU_JAVA"], os.environ["OCTET_GPU_CLASSES"] = JAVA, CLASSES
    # gpu_rounds.py writes a table of its own, which becomes part of this one's notes
    text, code = part.task("measurements", command, part.left(), {5: "none ran"})
    results = json.loads(read(part.base + ".json") or "{}").get("results", {})
    for name, tools_ in results.items():
        for tool, all_ in tools_.items():
            for result in all_:
                if "error" in result:
                    state = "not started" if result["exit"] == -1 else f"failed, exit {result['exit']}"
                    part.row(f"{name}, {tool}", state, 0, result["error"])
    return results, code


def table(part, text):
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    if line is None:
        return
    limits = json.loads(line).get("limits", {})
    expected = predicted()["limits"]
    for key, value in limits.items():
        part.note(f"- {key}: {value:.0f}, predicted {expected.get(key, 0):.0f} (of an H200)")


def predicted():
    with open(os.path.join(HERE, "predicted.json"), encoding="utf-8") as file:
        return json.load(file)


def steps(part):
    text, _ = part.task("what Octet finds", part.bench("facts"), 60)
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    # steps with cuDNN's attention as well, where it is there
    found = line and any(p["name"] == "cuDNN" and p.get("version") for p in json.loads(line)["facts"]["parts"])
    if not found:
        part.note("- no cuDNN 9.16 or later: its attention is not measured (pip install nvidia-cudnn-cu13)")
    results, code = rounds(part, "octet,cudnn" if found else "octet", "--only", "products,cast,attention,steps")
    model = predicted()["steps"]
    for name, tools in results.items():
        good = [r for r in tools.get("octet", []) if "error" not in r]
        if not name.startswith("step ") or not good:
            continue
        step = good[0]
        said = model.get(name.removeprefix("step "), {"kernels_ms": {}})
        part.note(f"\n## {name}: {step['median_ms']:.1f} ms, predicted {said.get('ms', 'nothing')}, "
                  f"{step['per_second']:.0f} {step.get('unit', '')}/s, {step['peak_bytes'] / 1e9:.1f} GB\n")
        kernels = step.get("kernels", [])
        alone = sum(k["micros"] for k in kernels) / 1e3
        part.note(f"Kernels one by one {alone:.1f} ms"
                  + ("; the step takes much longer than its kernels: look at the host (feeding the batch, launching the graph)"
                     if alone and step["median_ms"] > 1.3 * alone else ""))
        part.note("| kernels | ms | predicted |\n|---|---|---|")
        for pattern, ms in said["kernels_ms"].items():
            took = sum(k["micros"] for k in kernels if re.search(pattern, k["name"])) / 1e3
            part.note(f"| `{pattern}` | {took:.1f} | {ms} |")
        for other in (r for r in tools.get("cudnn", []) if "error" not in r):
            kernels_ = [k for k in other.get("kernels", []) if k["name"].startswith("attention ")]
            part.note(f"| with cuDNN's attention: the step | {other['median_ms']:.1f} | |")
            for k in kernels_:
                part.note(f"| {k['name']} x{k['runs']} | {k['micros'] / 1e3:.2f} | |")
        for kernel in kernels[:15]:
            part.note(f"| {kernel['name']} x{kernel['runs']} | {kernel['micros'] / 1e3:.2f} | |")
    return 5 if code == 5 else 0


def peers(part):
    results, code = rounds(part, "torch", "--only", "limits,products,cast,steps")
    ours = json.loads(read(os.path.join(part.options.out, "steps.json")) or "{}").get("results", {})
    part.note("| step | Octet ms | torch ms | torch / Octet |\n|---|---|---|---|")
    for name, tools in results.items():
        if name.startswith("step "):
            theirs = [r["median_ms"] for r in tools.get("torch", []) if "error" not in r]
            own = [r["median_ms"] for r in ours.get(name, {}).get("octet", []) if "error" not in r]
            texts = [f"{v[0]:.1f}" if v else "failed" for v in (own, theirs)]
            part.note(f"| {name} | {texts[0]} | {texts[1]} | {f'{theirs[0] / own[0]:.2f}' if own and theirs else ''} |")
    return 5 if code == 5 else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--out", default=os.environ.get("OUT") or os.path.join(PACK, "report"), help="folder of the results; default $OUT")
    parser.add_argument("--budget", type=float, default=560, help="seconds of the part")
    parser.add_argument("--jobs", type=int, default=8, help="test classes at a time")
    parser.add_argument("--steps", type=int, default=10, help="steps that count")
    parser.add_argument("--only", default="", help="a regular expression of test classes in place of the part's own")
    parser.add_argument("--small", action="store_true", help="small models: to see that everything works")
    options = parser.parse_args()
    part = Part(options.part, options)
    code = {"1": classes, "2": programs, "3": steps, "4": peers}[options.part](part)
    part.write()
    failed = [name for name, state, _, _ in part.rows if state not in ("passed", "skipped", "not started", "none ran")]
    print(f"{part.base}.md: {len(part.rows)} rows, {len(failed)} failed; {', '.join(part.found) or 'no line of the triage table'}")
    sys.exit(code or (1 if failed else 0))


if __name__ == "__main__":
    main()
