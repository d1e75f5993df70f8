"""What the scripts that measure in rounds share: processes with their time and memory, runs of training, the machine, result files. Linux."""

import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.dirname(os.path.dirname(HERE))
OCTET = os.path.join(HOME, "octet")
JAVA = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"


# Linux counts the memory of the process that starts another into the peak of the other (exec keeps ru_maxrss), and a script that has imported
# torch takes more than a small run of Octet. So a small process starts what is measured.
STARTER = """
import json, os, sys
child = os.fork()
if child == 0:
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as e:
        print(sys.argv[2] + ":", e.strerror, file=sys.stderr)
    finally:
        os._exit(127)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_maxrss, usage.ru_utime + usage.ru_stime], file)
"""


def measured(command, exits=(0,)):
    """Runs a command; what it took, and what it printed. Ends everything when its exit code is not among those expected."""
    environment = dict(os.environ, OCTET_BUILD="off")
    with tempfile.TemporaryDirectory() as folder:
        usage = os.path.join(folder, "usage.json")
        start = time.perf_counter()
        started = subprocess.run([sys.executable, "-I", "-S", "-c", STARTER, usage, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 env=environment, check=True)
        seconds = time.perf_counter() - start
        with open(usage, encoding="utf-8") as file:
            code, peak, cpu = json.load(file)
    text = started.stdout.decode(errors="replace")
    if code not in exits:
        sys.exit(f"{' '.join(command)}\nexit {code}\n{text}")
    return {"seconds": seconds, "peak_mb": peak * 1024 / 1e6, "cpu_seconds": cpu, "exit": code}, text


def package(work, name, inside, option):
    """A path in a Debian package, which is fetched into the folder `work` when it is not installed; `option` names what gives the files instead."""
    if os.path.exists(inside):
        return inside
    unpacked = os.path.join(work, name)
    if not os.path.isdir(unpacked):
        try:
            subprocess.run(["apt-get", "download", name], cwd=work, check=True, stdout=sys.stderr)
            subprocess.run(["dpkg", "-x", glob.glob(os.path.join(work, f"{name}_*.deb"))[0], unpacked], check=True)
        except (OSError, subprocess.CalledProcessError) as e:
            sys.exit(f"{name} cannot be fetched: {e}\nrun `apt-get update` first, or give the files with {option}")
    return unpacked + inside


def torch_trained(*command):
    """A process of PyTorch that trains (train_torch.py, fashion_torch.py): what it took, and what its last line says."""
    result, text = measured([sys.executable, *command])
    return result | json.loads(text.splitlines()[-1])


def octet_trained(options, model, config, run):
    """octet train from a configuration into the folder `run`, anew: what it took, losses, milliseconds of each step, evaluations."""
    with open(f"{run}.yaml", "w", encoding="utf-8") as file:
        file.write(config)
    shutil.rmtree(run, ignore_errors=True)
    result, _ = measured(options.octet.split() + ["train", model, "--config", f"{run}.yaml", "-o", run, "--threads",
                                                  str(options.threads)])
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    steps = [line for line in lines if "loss" in line]
    return result | {"losses": [line["loss"] for line in steps], "millis": [line["seconds"] * 1e3 for line in steps],
                     "evaluations": [line for line in lines if "eval_loss" in line]}


def octet_planned(options, model, lines, run):
    """octet train from the lines of a configuration into the folder `run`, anew: what it took with its plan (`plan`), steps and evaluations of
    metrics.jsonl; in words why there is no run."""
    with open(f"{run}.yaml", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    shutil.rmtree(run, ignore_errors=True)
    words = options.octet.split() + ["train", model, "--config", f"{run}.yaml", "-o", run, "--threads", str(options.threads)]
    if getattr(options, "device", None):
        words += ["--device", options.device]
    for command in (words + ["--dry-run", "--json"], words):
        result, text = measured(command, exits=range(256))
        if result["exit"] != 0:
            return next((line for line in text.splitlines() if line.startswith("octet: ")), text[-200:]).removeprefix("octet: ")
        if command is not words:
            planned = json.loads(text[text.index("{"):])
    with open(f"{run}/metrics.jsonl", encoding="utf-8") as file:
        metrics = [json.loads(line) for line in file]
    kept = ("lasting_bytes", "temporary_bytes", "trained_parameters", "states")
    return result | {"plan": {key: planned[key] for key in kept if key in planned}, "steps": [m for m in metrics if "loss" in m],
                     "evaluations": [m for m in metrics if "eval_loss" in m]}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    cpu = {k.strip(): v.strip() for k, v in fields.items()}
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = int(next(line for line in file if line.startswith("MemTotal")).split()[1]) * 1024 / 1e9
    version = subprocess.run([JAVA, "-version"], capture_output=True, text=True).stderr.splitlines()
    torch = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.get_num_threads(), 'threads')"],
                           capture_output=True, text=True).stdout.strip()
    return {
        "cpu": f"{cpu.get('model name')}, family {cpu.get('cpu family')} model {cpu.get('model')}, {os.cpu_count()} cores",
        "memory_gb": round(memory, 1), "os": platform.platform(), "jdk": version[1] if len(version) > 1 else "?",
        "python": platform.python_version(), "torch": torch, "load_average_before": os.getloadavg(),
    }


def write(result, facts, lines, everything):
    """Prints the report and writes RESULT.txt and RESULT.json."""
    text = "\n".join([f"{key}: {value}" for key, value in facts.items()] + [""] + lines) + "\n"
    print(text, end="")
    os.makedirs(os.path.dirname(os.path.abspath(result)), exist_ok=True)
    with open(result + ".json", "w", encoding="utf-8") as file:
        json.dump(everything, file, indent=2)
        file.write("\n")
    with open(result + ".txt", "w", encoding="utf-8") as file:
        file.write(text)
