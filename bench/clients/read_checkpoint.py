"""Opens a quantised checkpoint as a Python user would, with safetensors and torch, and checks what is there. Made for torch 2.13.

Usage: read_checkpoint.py DIR [ORIGINAL]. Prints one JSON line; exit 1 when there is nothing quantised or something is wrong:
  weights     number of quantised weights, and how many of each "dtype, shape of the scale relative to the weight, dtype of the scale"
  problems    a weight without scale, a scale whose shape fits no granularity, a NaN code, a scale that is not positive and finite, a scale
              of no weight, a tensor that the index does not name, a tensor of the original that is neither there nor quantised
  sqnr_db     signal to noise of all dequantised weights together against ORIGINAL; the worst weight's beside it
"""

import glob
import json
import math
import os
import sys

import torch
from safetensors import safe_open

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
SCALES = ("weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_zero_point", "input_scale",
          "input_global_scale", "q_scale", "k_scale", "v_scale")


class Folder:
    """The tensors of a checkpoint; each is read when it is asked for."""

    def __init__(self, path):
        self.files = {}
        for name in sorted(glob.glob(os.path.join(path, "*.safetensors"))):
            file = safe_open(name, "pt")
            for key in file.keys():
                self.files[key] = file
        self.unlisted = []
        index = os.path.join(path, "model.safetensors.index.json")
        if os.path.exists(index):
            with open(index, encoding="utf-8") as file:
                self.unlisted = sorted(set(self.files) ^ set(json.load(file)["weight_map"]))

    def __contains__(self, key):
        return key in self.files

    def __getitem__(self, key):
        return self.files[key].get_tensor(key)


def numbers(scale):
    """A stored scale as float32: U8 is E8M0."""
    return torch.exp2(scale.float() - 127) if scale.dtype == torch.uint8 else scale.float()


def granularity(shape, scale):
    """What the scale's shape means for a weight [out, in]; None when nothing."""
    rows, cols = shape[-2:]
    blocks = (math.ceil(rows / 128), math.ceil(cols / 128))
    names = {
        (): "one []", (1,): "one [1]", (rows, 1): "channel [out, 1]", (rows,): "channel [out]", blocks: "block 128 x 128",
        (blocks[0], 1, blocks[1], 1): "block 128 x 128, 4-D", (rows, cols // 32): "group 32", (rows, cols // 16): "group 16",
    }
    if tuple(scale.shape) == blocks and (rows > 1 or cols > 128):
        return "block 128 x 128"
    return names.get(tuple(scale.shape))


def spread(scale, shape, meaning):
    if meaning.startswith("one"):
        return scale.reshape(1, 1)
    if meaning.startswith("channel"):
        return scale.reshape(-1, 1)
    if meaning.startswith("block"):
        grid = scale.reshape(math.ceil(shape[0] / 128), math.ceil(shape[1] / 128))
        return grid.repeat_interleave(128, 0)[: shape[0]].repeat_interleave(128, 1)[:, : shape[1]]
    return scale.repeat_interleave(shape[1] // scale.shape[1], 1)


def unpacked(words):
    """Rows of words as rows of 8-bit integers, stored plus 128, the earlier in the lower bits."""
    return torch.stack([(words >> (8 * i)) & 255 for i in range(4)], -1).flatten(-2) - 128


def quantised(folder):
    """module -> name of its codes."""
    found = {}
    for key in folder.files:
        tensor = folder.files[key].get_slice(key)
        if key.endswith(".weight_packed"):
            found[key.removesuffix(".weight_packed")] = key
        elif key.endswith(".weight") and tensor.get_dtype() in ("F8_E4M3", "F8_E5M2", "I8", "U8"):
            found[key.removesuffix(".weight")] = key
    return found


def dequantise(folder, module, key, problems):
    codes = folder[key]
    scale_name = next((f"{module}.{s}" for s in ("weight_scale", "weight_scale_inv") if f"{module}.{s}" in folder), None)
    if scale_name is None:
        problems.append(f"{key}: no scale")
        return None, None
    stored = folder[scale_name]
    four_bit = codes.dtype == torch.uint8
    if four_bit:
        values = E2M1[torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()]
    elif codes.dtype == torch.int32:
        values = unpacked(codes)[:, : int(folder[f"{module}.weight_shape"][1])].float()
    else:
        values = codes.float()
    scale = numbers(stored)
    meaning = granularity(values.shape, stored)
    if meaning is None:
        problems.append(f"{scale_name}: shape {list(stored.shape)} fits no granularity of {list(values.shape)}")
        return None, None
    if not bool((torch.isfinite(scale) & (scale > 0)).all()) and stored.dtype != torch.float8_e4m3fn:
        problems.append(f"{scale_name}: a scale is not positive and finite")
    if torch.isnan(values).any():
        problems.append(f"{key}: NaN codes")
    if f"{module}.weight_global_scale" in folder:
        scale = scale / folder[f"{module}.weight_global_scale"]
    if f"{module}.weight_scale_2" in folder:
        scale = scale * folder[f"{module}.weight_scale_2"]
    if f"{module}.weight_zero_point" in folder:
        zero = folder[f"{module}.weight_zero_point"]
        zero = unpacked(zero.T)[:, : stored.shape[0]].T if zero.dtype == torch.int32 else zero
        values = values - spread(zero.float(), values.shape, meaning)
    facts = f"{str(codes.dtype).removeprefix('torch.')}, {meaning}, {str(stored.dtype).removeprefix('torch.')}"
    return values * spread(scale, values.shape, meaning), facts


def decibel(signal, noise):
    return None if noise == 0 else 10 * math.log10(signal / noise)


def main(path, original=None):
    folder, before = Folder(path), Folder(original) if original else None
    problems = [f"{key}: only in one of index and files" for key in folder.unlisted]
    modules, kinds = quantised(folder), {}
    signal = noise = 0.0
    worst = None
    for module, key in modules.items():
        values, facts = dequantise(folder, module, key, problems)
        if values is None:
            continue
        kinds[facts] = kinds.get(facts, 0) + 1
        if before:
            weight = before[module + ".weight"].float()
            s, n = float((weight.double() ** 2).sum()), float(((values - weight).double() ** 2).sum())
            signal, noise = signal + s, noise + n
            db = decibel(s, n)
            worst = db if worst is None or (db is not None and db < worst) else worst
    for key in folder.files:
        module, _, last = key.rpartition(".")
        if last in SCALES and last[:2] not in ("q_", "k_", "v_") and module not in modules:
            problems.append(f"{key}: a scale of no weight")
    for key in before.files if before else ():
        if key not in folder and key.removesuffix(".weight") not in modules:
            problems.append(f"{key}: lost")
    print(json.dumps({"weights": len(modules), "kinds": kinds, "problems": problems,
                      "sqnr_db": decibel(signal, noise) if before else None, "worst_sqnr_db": worst}))
    sys.exit(1 if problems or not modules else 0)


main(*sys.argv[1:])
