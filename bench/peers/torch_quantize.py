"""E4M3 with one scale per output channel of every Linear weight, with torch and safetensors, shard by shard: the usual script.

Usage: torch_quantize.py IN OUT. Prints one JSON line: seconds of its own work (without starting Python), gigabytes read, torch's version.
The scale is rounded to BF16 only when it is stored, after it was used.
"""

import glob
import json
import os
import sys
import time

import torch
from safetensors import safe_open
from safetensors.torch import save_file


def quantize(weight):
    amax = weight.abs().amax(dim=1, keepdim=True).float()
    scale = (amax / 448.0).clamp(min=1e-12)
    return (weight.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale.to(torch.bfloat16)


def main(source, target):
    os.makedirs(target, exist_ok=True)
    start, size = time.perf_counter(), 0
    for path in sorted(glob.glob(os.path.join(source, "*.safetensors"))):
        out = {}
        with safe_open(path, "pt") as file:
            for key in file.keys():
                weight = file.get_tensor(key)
                size += weight.numel() * weight.element_size()
                if weight.dim() == 2 and "embed" not in key and "lm_head" not in key:
                    out[key], out[key.removesuffix("weight") + "weight_scale"] = quantize(weight)
                else:
                    out[key] = weight
        save_file(out, os.path.join(target, os.path.basename(path)))
    print(json.dumps({"seconds": time.perf_counter() - start, "gigabytes": size / 1e9, "torch": torch.__version__}))


main(*sys.argv[1:])
