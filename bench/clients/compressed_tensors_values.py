"""Has compressed-tensors decompress each quantised weight of a checkpoint and compares with a dequantised one, bit by bit in BF16. Made for
compressed-tensors from 0.15 on.

Usage: compressed_tensors_values.py QUANTISED DEQUANTISED. Prints one JSON line; exit 1 where a value differs or nothing is quantised, 3
when the library is missing.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import load_file

try:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
except ImportError as e:
    print(json.dumps({"missing": str(e)}))
    sys.exit(3)


def tensors(folder):
    found = {}
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        found |= load_file(file)
    return found


def main(quantised, dequantised):
    given = json.loads((pathlib.Path(quantised) / "config.json").read_text())["quantization_config"]
    config = QuantizationConfig.model_validate(given)
    (scheme,) = config.config_groups.values()
    kind = BaseCompressor.get_value_from_registry(scheme.format or config.format)
    stored, plain = tensors(quantised), tensors(dequantised)
    different, weights = {}, 0
    for module in sorted({k.rpartition(".")[0] for k in stored if k.endswith(".weight_scale")}):
        state = {k[len(module) + 1:]: v for k, v in stored.items() if k.startswith(module + ".")}
        value = kind.decompress(state, scheme)["weight"].to(torch.bfloat16)
        expected = plain[module + ".weight"].to(torch.bfloat16)
        weights += 1
        if value.shape != expected.shape or not torch.equal(value, expected):
            different[module] = int((value != expected).sum()) if value.shape == expected.shape else list(value.shape)
    print(json.dumps({"weights": weights, "format": scheme.format, "different": different}))
    sys.exit(1 if different or not weights else 0)


main(*sys.argv[1:])
