"""Times models in ONNX Runtime for Python as dev.octet.bench.OnnxTimes does in Java: python onnx_times.py ROUNDS SHAPES MODEL..."""

import json
import statistics
import sys
import time

import numpy
import onnxruntime

ROUND_NANOS = 150_000_000  # as in OnnxTimes


def feed(session, shape):
    random, made = numpy.random.default_rng(1), {}
    for value in session.get_inputs():
        size = shape[:len(value.shape)]
        if "float" in value.type:
            made[value.name] = random.uniform(-1, 1, size).astype(numpy.float32)
        elif "mask" in value.name:
            made[value.name] = numpy.ones(size, numpy.int64)
        elif "type" in value.name:
            made[value.name] = numpy.zeros(size, numpy.int64)
        else:
            made[value.name] = random.integers(1000, 20000, size)
    return made


def main():
    rounds, shapes, models = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3:]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    sessions = {model: onnxruntime.InferenceSession(model, options) for model in models}
    for turn in range(rounds + 1):
        for text in shapes:
            shape = [int(size) for size in text.split("x")]
            for model, session in sessions.items():
                made, took, start = feed(session, shape), [], time.perf_counter_ns()
                while len(took) < 3 or (len(took) < 200 and time.perf_counter_ns() - start < ROUND_NANOS):
                    before = time.perf_counter_ns()
                    session.run(None, made)
                    took.append(time.perf_counter_ns() - before)
                if turn:  # the first round warms up
                    print(json.dumps({"model": model, "shape": text, "round": turn, "median_ms": statistics.median(took) / 1e6,
                                      "min_ms": min(took) / 1e6}), flush=True)


main()
