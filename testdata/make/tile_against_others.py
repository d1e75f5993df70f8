"""Compares ../golden/tile with what PyTorch and compressed-tensors compute, and prints every difference. Writes nothing.

Versions: torch 2.13.0, compressed-tensors at commit ac8e2ba (after 0.18.0; without it only PyTorch is compared). Run: python tile_against_others.py
"""

import json
import pathlib

import torch
from safetensors import safe_open

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "tile"


def read(path):
    with safe_open(path, "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}


def spread(grid, x, rows, cols):
    return grid.repeat_interleave(rows, -2)[..., : x.shape[-2], :].repeat_interleave(cols, -1)[..., : x.shape[-1]]


def tile_of(case, x):
    return {
        "tensor": (x.shape[-2], x.shape[-1]), "channel": (1, x.shape[-1]), "block": (128, 128), "mx": (1, 32), "group": (1, 16),
    }[case["granularity"]]


def nibbles(packed):
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


def torch_codes(case, x, multiplier, golden):
    """x / multiplier, clamped and cast by PyTorch, for the golden multipliers."""
    scale = multiplier if case["granularity"] == "tensor" else spread(multiplier, x, *tile_of(case, x))
    quotient = x / scale
    if case["codes"] == "E4M3FN":
        return quotient.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8), golden["codes"]
    if case["codes"] == "INT8":
        return quotient.round().clamp(-127, 127).to(torch.int8).view(torch.uint8), golden["codes"]
    if case["codes"] == "INT8_ASYMMETRIC":
        steps = quotient.round() + golden["zero_point"].float()
        return steps.clamp(-128, 127).to(torch.int8).view(torch.uint8), golden["codes"]
    return None, None  # PyTorch has no cast to E2M1


def compressed_tensors(case, x, golden):
    """Scales and codes by compressed-tensors from the F32 values of the weight; 2-D only."""
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import quantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam, maybe_pad_tensor_for_block_quant

    scheme = case["scheme"]
    symmetric = scheme != "int8-asymmetric"
    args = {
        "tensor": dict(strategy="tensor"), "channel": dict(strategy="channel"), "channel-bf16": dict(strategy="channel"),
        "block": dict(strategy="block", block_structure=[128, 128]),
        "mxfp8-ct": dict(strategy="group", group_size=32, scale_dtype=torch.uint8),
        "nvfp4-divisor": dict(strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn, num_bits=4),
        "int8": dict(strategy="channel"), "int8-asymmetric": dict(strategy="channel"),
    }.get(scheme)
    if args is None:
        return None
    kind = "int" if scheme.startswith("int8") else "float"
    args = QuantizationArgs(**({"num_bits": 8, "type": kind, "symmetric": symmetric} | args))
    if args.strategy == "block":
        padded = maybe_pad_tensor_for_block_quant(x, args.block_structure)
        parts = padded.unflatten(0, (-1, 128)).unflatten(2, (-1, 128)).permute(0, 2, 1, 3).flatten(2)
    else:
        rows, cols = tile_of(case, x)
        parts = x.reshape(1, -1) if args.strategy == "tensor" else x.unflatten(1, (-1, cols))
    low, high = parts.amin(-1), parts.amax(-1)
    top = generate_gparam(x.min(), x.max()) if args.strategy == "tensor_group" else None
    scale, zero = calculate_qparams(low, high, args, global_scale=top)
    if scheme == "channel-bf16":
        scale = scale.to(torch.bfloat16).float()
    scale = scale.float()
    codes = quantize(x, scale, zero if not symmetric else None, args, global_scale=top)
    effective = scale if top is None else scale / top
    return effective, codes, zero


def report(name, what, differing, total, note=""):
    print(f"{name:28} {what:34} {differing:6} of {total}{'  ' + note if note else ''}")


def main():
    for case in json.loads((GOLDEN / "index.json").read_text()):
        name = f"{case['matrix']}.{case['scheme']}"
        x = read(GOLDEN / f"{case['matrix']}.safetensors")["source"].float()
        golden = read(GOLDEN / f"{name}.safetensors")
        mine, expected = torch_codes(case, x, golden["multiplier"], golden)
        if mine is not None:
            report(name, "codes, torch, same scale", int((mine != expected).sum()), expected.numel())
        if x.dim() != 2:
            continue
        try:
            result = compressed_tensors(case, x, golden)
        except ModuleNotFoundError:
            continue
        if result is None:
            continue
        scale, codes, zero = result
        multiplier = golden["multiplier"].reshape(scale.shape)
        if case["codes"] == "E2M1":
            table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
            values = torch.cat([table, -table])[nibbles(golden["codes"]).long()]
        elif case["codes"] == "E4M3FN":
            values = golden["codes"].view(torch.float8_e4m3fn).float()
        else:
            values = golden["codes"].view(torch.int8).float()
        changed = scale != multiplier
        rest = (scale / multiplier)[changed]
        note = f"their scale / ours: {float(rest.min()):.9g} .. {float(rest.max()):.9g}" if changed.any() else ""
        report(name, "scales, compressed-tensors", int(changed.sum()), scale.numel(), note)
        rows, cols = tile_of(case, x)
        same = ~(spread(changed.reshape(-1, 1) if cols == x.shape[1] else changed, x, rows, cols)) & torch.isfinite(codes.float())
        if case["granularity"] == "tensor":
            same = torch.full_like(x, not bool(changed.any()), dtype=torch.bool)
        wrong = (codes.float() != values) & same
        report(name, "codes where scales agree", int(wrong.sum()), int(same.sum()))


main()
