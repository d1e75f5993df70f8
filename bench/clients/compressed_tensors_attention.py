"""Has transformers load a checkpoint with compressed-tensors, whose hooks quantise queries, keys and values, and runs it. Made for
transformers 5.18 and compressed-tensors from 0.15 on.

Usage: compressed_tensors_attention.py QUANTISED TOKENS [LOGITS]. TOKENS is an .npz with input_ids and attention_mask; writes the logits to the .npz
LOGITS. Prints one JSON line:
  layers      attention layers, each with strategy, shapes of the scales it has, and whether they are those of the file
  difference  of the logits from those without quantised attention, relative; above 0 where the scales are used
Exit 1 where a scale is not that of the file, no layer has one, or nothing changes; 3 when a library is missing.
"""

import json
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import torch
from safetensors.torch import load_file

try:
    import compressed_tensors  # noqa: F401
    import transformers
except ImportError as e:
    print(json.dumps({"missing": str(e)}))
    sys.exit(3)


def main(quantised, tokens, logits=None):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    stored = {}
    for file in sorted(pathlib.Path(quantised).glob("*.safetensors")):
        stored |= load_file(file)
    model = transformers.AutoModelForCausalLM.from_pretrained(quantised).eval()
    given = np.load(tokens)
    inputs = {n: torch.from_numpy(given[n]) for n in ("input_ids", "attention_mask")}
    layers, same = {}, True
    attentions = {n: m for n, m in model.named_modules() if hasattr(m, "k_scale")}
    for name, module in attentions.items():
        scales = {s: getattr(module, f"{s}_scale") for s in "qkv" if hasattr(module, f"{s}_scale")}
        equal = all(torch.equal(x.float(), stored[f"{name}.{s}_scale"].float()) for s, x in scales.items())
        same &= equal and set(scales) == {s for s in "qkv" if f"{name}.{s}_scale" in stored}
        layers[name] = {
            "class": type(module).__name__,
            "strategy": str(module.quantization_scheme.input_activations.strategy),
            "shapes": {s: list(x.shape) for s, x in scales.items()},
            "same": equal,
        }
    with torch.no_grad():
        found = model(**inputs, use_cache=False).logits
        for module in attentions.values():
            module.quantization_enabled = False
        plain = model(**inputs, use_cache=False).logits
    difference = ((found - plain).norm() / plain.norm()).item()
    if logits:
        np.savez(logits, logits=found.float().numpy())
    print(json.dumps({"layers": layers, "difference": difference}))
    sys.exit(0 if layers and same and difference > 0 else 1)


main(*sys.argv[1:])
