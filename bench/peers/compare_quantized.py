"""Whether an FP8 checkpoint with one scale per output channel has exactly the bytes that PyTorch computes.

Usage: compare_quantized.py ORIGINAL QUANTIZED. Prints one JSON line; exit 1 on any difference. Made for torch 2.13.

For each quantised weight PyTorch computes, in FP32, scale = amax / 448 and codes = cast(clamp(weight / scale, -448, 448)). Compared are
the codes byte by byte, and the scales bit by bit in F32. The engine is plain FP32 division, twice: no reciprocal, no FP64. A checkpoint
that stores BF16 scales has codes made with the rounded scale, and so they are compared with codes made alike.
"""

import glob
import json
import os
import sys

import torch
from safetensors import safe_open


def index(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        file = safe_open(path, "pt")
        found |= {key: file for key in file.keys()}
    return found


def main(original, quantized):
    before, after = index(original), index(quantized)
    weights = codes = wrong_codes = scales = wrong_scales = 0
    for key, file in after.items():
        if file.get_slice(key).get_dtype() != "F8_E4M3":
            continue
        weight = before[key].get_tensor(key)
        name = key.removesuffix("weight") + "weight_scale"
        stored = after[name].get_tensor(name).reshape(-1, 1)
        amax = weight.abs().amax(dim=1, keepdim=True).float()
        scale = torch.where(amax == 0, torch.ones_like(amax), amax / 448.0).to(stored.dtype)
        expected = (weight.float() / scale.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
        wrong_codes += int((expected.view(torch.uint8) != file.get_tensor(key).view(torch.uint8)).sum())
        wrong_scales += int((scale != stored).sum())
        weights, codes, scales = weights + 1, codes + weight.numel(), scales + scale.numel()
    print(json.dumps({"weights": weights, "codes": codes, "codes_that_differ": wrong_codes, "scales": scales,
                      "scales_that_differ": wrong_scales, "torch": torch.__version__}))
    sys.exit(1 if not weights or wrong_codes or wrong_scales else 0)


main(*sys.argv[1:])
