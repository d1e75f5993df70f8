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


ARTIFACT = "com.microsoft.onnxruntime:onnxruntime"
RUNTIME = r"python|java(@[\d.]+)?"  # Java's as on the class path, or a version of it in Maven Central


def java_version(runtime, jar):
    """The jar of the version that `java@VERSION` asks for; `java` has the one of the class path."""
    _, _, version = runtime.partition("@")
    if not version:
        return jar
    other = jar.replace(os.path.basename(os.path.dirname(jar)), version)
    if not os.path.exists(other):
        run(["mvn", "-q", "dependency:get", f"-Dartifact={ARTIFACT}:{version}", "-Dtransitive=false"])
    return other


class Runtimes:
    """ONNX Runtime of Java and of Python, as they are or as an older processor sees them."""

    def __init__(self, work):
        self.folder, self.hidden, self.javas = os.path.join(work, "older"), None, {}
        with open(f"{HOME}/bench/target/classpath.txt", encoding="utf-8") as file:
            path = file.read().strip().split(":")
        self.classes = f"{HOME}/bench/target/classes"
        self.jar = next(p for p in path if re.fullmatch(r"onnxruntime-[\d.]+\.jar", os.path.basename(p)))

    def hide(self):
        """A private copy of Python's library, once."""
        import onnxruntime
        if self.hidden:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        python = os.path.join(self.folder, "python")
        shutil.copytree(os.path.dirname(onnxruntime.__file__), os.path.join(python, "onnxruntime"))
        library = glob.glob(os.path.join(python, "onnxruntime", "capi", "onnxruntime_pybind11_state*.so"))[0]
        older_processor.hide(library, library)
        self.hidden = python, older_processor.preload(self.folder)

    def hide_java(self, jar):
        """The folder of a private copy of the libraries in a jar, once for each."""
        if jar not in self.javas:
            java = os.path.join(self.folder, os.path.basename(jar))
            os.makedirs(java)
            with zipfile.ZipFile(jar) as file:
                for name in file.namelist():
                    if name.startswith("ai/onnxruntime/native/linux-x64/") and name.endswith(".so"):
                        plain = os.path.join(self.folder, os.path.basename(name))
                        with open(plain, "wb") as out:
                            out.write(file.read(name))
                        older_processor.hide(plain, os.path.join(java, os.path.basename(name)))
            self.javas[jar] = java
        return self.javas[jar]

    def environment(self, processor):
        if processor == "native":
            return dict(os.environ)
        self.hide()
        return dict(os.environ, OLDER_PROCESSOR=processor, LD_PRELOAD=self.hidden[1], PYTHONPATH=self.hidden[0])

    def times(self, runtime, processor, rounds, shapes, files):
        environment = self.environment(processor)
        arguments = [str(rounds), ",".join(shapes), *files.values()]
        if runtime != "python":
            jar = java_version(runtime, self.jar)
            flags = [] if processor == "native" else [f"-Donnxruntime.native.path={self.hide_java(jar)}"]
            path = f"{self.classes}:{jar}"  # no more: a JVM with this class path in full and two dozen files dies before it starts
            command = [JAVA, "--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC", *flags, "-cp", path, "dev.octet.bench.OnnxTimes", *arguments]
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
