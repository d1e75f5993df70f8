"""A checkpoint in 128 x 128 blocks back to BF16 with torch and safetensors, shard by shard.

Usage: torch_dequantize.py IN OUT. Prints one JSON line as torch_quantize.py does.
"""

import glob
import json
import os
import sys
import time

import torch
from safetensors import safe_open
from safetensors.torch import save_file

BLOCK = 128


def dequantize(codes, scale):
    rows, cols = codes.shape
    each = scale.repeat_interleave(BLOCK, 0)[:rows].repeat_interleave(BLOCK, 1)[:, :cols]
    return (codes.float() * each).to(torch.bfloat16)


def main(source, target):
    os.makedirs(target, exist_ok=True)
    start, size = time.perf_counter(), 0
    for path in sorted(glob.glob(os.path.join(source, "*.safetensors"))):
        out = {}
        with safe_open(path, "pt") as file:
            keys = set(file.keys())
            for key in sorted(keys):
                tensor = file.get_tensor(key)
                size += tensor.numel() * tensor.element_size()
                if key + "_scale_inv" in keys:
                    out[key] = dequantize(tensor, file.get_tensor(key + "_scale_inv"))
                elif not key.endswith("_scale_inv"):
                    out[key] = tensor
        save_file(out, os.path.join(target, os.path.basename(path)))
    print(json.dumps({"seconds": time.perf_counter() - start, "gigabytes": size / 1e9, "torch": torch.__version__}))


main(*sys.argv[1:])
