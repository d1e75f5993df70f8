"""How far files are from the first: python int8_quality.py MODEL FOLDER TEXTS FILE...; prints a JSON list, one object for each FILE. A process of
its own, because the processor that ONNX Runtime sees is chosen when it starts."""

import json
import sys

import onnxruntime

from int8_models import MODELS, agreement

name, folder, texts, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
model = MODELS[name]
model.fetch(folder)
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
found, reference = [], None
for file in files:
    try:
        answers = model.answers(onnxruntime.InferenceSession(file, options), texts)
    except Exception as e:  # a file that does not load is a result
        found.append({"failed": f"{type(e).__name__}: {e}".splitlines()[0][-300:]})
        continue
    reference = answers if reference is None else reference
    found.append(agreement(reference, answers))
print(json.dumps(found))
