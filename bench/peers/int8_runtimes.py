"""ONNX Runtime of Java and of Python, as they are or on what they take for an older processor: times and accuracy of files."""

import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import zipfile

import older_processor
from measured import HERE, HOME, JAVA


def run(command, **more):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **more).stdout


class Runtimes:
    """ONNX Runtime of Java and of Python, as they are or as an older processor sees them."""

    def __init__(self, work):
        self.work, self.hidden = work, None
        with open(f"{HOME}/bench/target/classpath.txt", encoding="utf-8") as file:
            self.path = f"{HOME}/bench/target/classes:{file.read().strip()}"

    def hide(self):
        """Private copies of both libraries, once."""
        import onnxruntime
        if self.hidden:
            return
        folder = os.path.join(self.work, "older")
        shutil.rmtree(folder, ignore_errors=True)
        java, python = os.path.join(folder, "java"), os.path.join(folder, "python")
        os.makedirs(java)
        jar = next(p for p in self.path.split(":") if re.fullmatch(r"onnxruntime-[\d.]+\.jar", os.path.basename(p)))
        with zipfile.ZipFile(jar) as file:
            for name in file.namelist():
                if name.startswith("ai/onnxruntime/native/linux-x64/") and name.endswith(".so"):
                    with open(os.path.join(folder, os.path.basename(name)), "wb") as out:
                        out.write(file.read(name))
                    older_processor.hide(os.path.join(folder, os.path.basename(name)), os.path.join(java, os.path.basename(name)))
        shutil.copytree(os.path.dirname(onnxruntime.__file__), os.path.join(python, "onnxruntime"))
        library = glob.glob(os.path.join(python, "onnxruntime", "capi", "onnxruntime_pybind11_state*.so"))[0]
        older_processor.hide(library, library)
        self.hidden = java, python, older_processor.preload(folder)

    def environment(self, processor):
        if processor == "native":
            return dict(os.environ)
        self.hide()
        return dict(os.environ, OLDER_PROCESSOR=processor, LD_PRELOAD=self.hidden[2], PYTHONPATH=self.hidden[1])

    def times(self, runtime, processor, rounds, shapes, files):
        environment = self.environment(processor)
        arguments = [str(rounds), ",".join(shapes), *files.values()]
        if runtime == "java":
            flags = [] if processor == "native" else [f"-Donnxruntime.native.path={self.hidden[0]}"]
            command = [JAVA, "--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC", *flags, "-cp", self.path, "dev.octet.bench.OnnxTimes", *arguments]
        else:
            command = [sys.executable, os.path.join(HERE, "onnx_times.py"), *arguments]
        labels = {path: label for label, path in files.items()}
        found = [json.loads(line) for line in run(command, env=environment).splitlines() if line.startswith("{")]
        return [row | {"model": labels[row["model"]]} for row in found]

    def quality(self, processor, model, texts, files, folder):
        """Agreement of each file with the first."""
        command = [sys.executable, os.path.join(HERE, "int8_quality.py"), model.name, folder, str(texts), *files.values()]
        return dict(zip(files, json.loads(run(command, env=self.environment(processor)).splitlines()[-1])))


def speedups(rows, shape):
    """Median time of each label at a shape, and the median over the rounds of FP32's time by its own."""
    by = {}
    for row in rows:
        if row["shape"] == shape:
            by.setdefault(row["model"], {})[row["round"]] = row["median_ms"]
    return {label: (statistics.median(rounds.values()), statistics.median(by["fp32"][r] / t for r, t in rounds.items())) for label, rounds in by.items()}
