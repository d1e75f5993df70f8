"""Makes testdata/golden/debug/statistics.safetensors and statistics.csv: tensors, and what Transformer Engine's debug features say of them.

Made with torch 2.13.0 on the CPU. Usage: python debug_statistics.py TARGET_FOLDER

statistics.safetensors: CASE.I is the tensor of micro-batch I, F32 or BF16 [rows, cols]. statistics.csv: case, tensor (activation, weight or gradient), format of its
codes, multiplier of delayed scaling (0 without), statistic, value, and the value by the code of Transformer Engine where that differs. The definitions are those
of debug/features/utils/stats_computation.py (commit d0067d0), written anew; the casts those of common/recipe/recipe_common.cuh,
common/util/ptx_arch_spec.cuh and common/cast/nvfp4/core_nvfp4.cuh. Statistics are sums in float64.
"""
import csv
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

BF16MAX = torch.finfo(torch.bfloat16).max
F32MAX = torch.finfo(torch.float32).max
FP8 = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}


# --- casts

def cast(x, fmt):
    dtype, largest = FP8[fmt]
    return torch.clamp(x, -largest, largest).to(dtype)


def values(codes):
    return codes.to(torch.float32)


def te_scale(amax, fmt, pow2, for_inf):
    s = torch.full_like(amax, FP8[fmt][1]) / amax
    s = torch.where(torch.isinf(s), torch.full_like(s, for_inf), s)
    s = torch.where((amax == 0) | ~torch.isfinite(amax), torch.ones_like(s), s)
    return (s.view(torch.int32) & ~0x7FFFFF).view(torch.float32) if pow2 else s


def mx_scale(amax, fmt):
    v = amax * torch.tensor(1 / FP8[fmt][1], dtype=torch.float32)
    mant, exp = np.frexp(v.numpy())  # v = mant * 2^exp, mant in [0.5, 1)
    e = np.where(mant == 0.5, exp - 1, exp) + 127
    e = np.where(v.numpy() == 0, 0, np.clip(e, 0, 254))
    return torch.from_numpy(np.ldexp(np.float32(1), (127 - e).astype(np.int32)).astype(np.float32))


def block_ids(shape, rows, cols):
    r = torch.arange(shape[0]) // rows
    c = torch.arange(shape[1]) // cols
    return r[:, None] * (-(-shape[1] // cols)) + c[None, :]


# --- LogTensorStats

def moments(parts):
    x = torch.cat([p.double().flatten() for p in parts])
    n = torch.tensor([p.numel() for p in parts], dtype=torch.float64)
    sums = torch.stack([p.double().sum() for p in parts])
    var = torch.stack([torch.var(p.double()) for p in parts])
    mean = sums.sum() / n.sum()
    as_coded = torch.sqrt((n * (var - (sums / n - mean) ** 2)).sum() / n.sum())
    amax, nonzero = x.abs().max(), x.abs()[x != 0]
    return {
        "min": x.min(), "max": x.max(), "mean": mean, "std": (torch.std(x), as_coded),
        "l1_norm": sum(torch.norm(p.double(), p=1) for p in parts),
        "l2_norm": torch.sqrt(sum(torch.norm(p.double(), p=2) ** 2 for p in parts)), "cur_amax": amax,
        "dynamic_range": torch.log2(amax) - torch.log2(nonzero.min()) if len(nonzero) else torch.tensor(torch.inf),
    }


def one_orientation(x, size, dims):
    x = x.abs().double()
    if dims == 1:
        blocks = x.reshape(-1, size)
    else:
        across = x.shape[-1] // size
        blocks = x.reshape(-1, size, across, size).permute(0, 2, 1, 3).reshape(-1, size * size)
    top = blocks.amax(dim=1)
    bottom = blocks.masked_fill(blocks == 0, torch.inf).amin(dim=1)
    return torch.where(top != 0, torch.log2(top) - torch.log2(bottom), torch.zeros_like(top)).max()


def blockwise(parts, size, dims, both):
    found = [one_orientation(p, size, dims) for p in parts]
    if both:
        found += [one_orientation(p.T, size, dims) for p in parts]
    return max(found)


# --- LogFp8TensorStats

def quantise(x, fmt, rows, cols, scale_of):
    ids = block_ids(x.shape, rows, cols)
    amax = torch.zeros(int(ids.max()) + 1).scatter_reduce(0, ids.flatten(), x.abs().flatten(), "amax")
    s = scale_of(amax)
    return cast(x * s[ids], fmt), (torch.ones_like(s) / s), ids


def casts(parts, fmt, rows, cols, scale_of):
    n = sum(p.numel() for p in parts)
    zeros = over = 0
    error, lo, hi = 0.0, torch.inf, 0.0
    for p in parts:
        x = p.float()
        codes, inv, ids = quantise(x, fmt, rows, cols, scale_of)
        code_bytes = codes.view(torch.uint8)
        nonzero = code_bytes.numel() - torch.isin(code_bytes, torch.tensor([0, 128], dtype=torch.uint8)).sum()
        zeros += int(x.count_nonzero() - nonzero)
        bound = FP8[fmt][1] * inv[ids]
        over += int(((x > bound) | (x < -bound)).sum())
        error += float((((values(codes) * inv[ids]).double() - x.double()) ** 2).sum())
        lo, hi = min(lo, float(inv[inv != 0].min())), max(hi, float(inv.max()))
    return {"underflows%": 100 * zeros / n, "overflows%": 100 * over / n, "scale_inv_min": lo, "scale_inv_max": hi, "mse": error / n}


def e8m0(scale):
    return float(np.log2(scale) + 127)


WHOLE = 1 << 30


def fp8(parts, fmt, tensor):
    largest = BF16MAX if parts[0].dtype == torch.bfloat16 else F32MAX
    pow2 = lambda a: te_scale(a, fmt, True, largest)
    mx = lambda a: mx_scale(a, fmt)
    square = casts(parts, fmt, 128, 128, pow2)
    runs = square if tensor == "weight" else casts(parts, fmt, 1, 128, pow2)
    columns = square if tensor == "weight" else casts(parts, fmt, 128, 1, pow2)
    out = {}
    for name, found, coded in (
        ("fp8_current_scaling_{}", casts(parts, fmt, WHOLE, WHOLE, lambda a: te_scale(a, fmt, False, F32MAX)), None),
        ("mxfp8_{}", casts(parts, fmt, 1, 32, mx), None),
        ("mxfp8_{}_columnwise", casts(parts, fmt, 32, 1, mx), None),
        ("fp8_block_scaling_{}", runs, square),
        ("fp8_block_scaling_{}_columnwise", columns, square),
    ):
        for stat, value in found.items():
            if stat == "overflows%":
                continue
            if name.startswith("mxfp8") and stat.startswith("scale_inv"):
                out[name.format(stat)] = (value, e8m0(value))
            else:
                out[name.format(stat)] = value if coded is None else (value, coded[stat])
    return out


# --- LogNvfp4TensorStats

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e2m1(x):
    """To nearest, ties to the even code, saturating."""
    mags = x.abs().double()[..., None]
    d = (mags - E2M1.double()).abs()
    best = d.amin(dim=-1, keepdim=True)
    index = torch.where(d == best, torch.arange(8) % 2 * 10 + torch.arange(8) / 100, 99.0).argmin(dim=-1)
    return torch.sign(x) * E2M1[index]


def nvfp4(parts, tensor):
    n = sum(p.numel() for p in parts)
    zeros, error = 0, 0.0
    f = lambda v: torch.tensor(v, dtype=torch.float32)
    for p in parts:
        x = p.float()
        amax = x.abs().max()
        enc = torch.minimum(f(448.0 * 6.0) / amax, f(F32MAX)) if amax != 0 else f(1.0)
        dec = f(1.0) / enc
        ids = block_ids(x.shape, 16 if tensor == "weight" else 1, 16)
        block = torch.zeros(int(ids.max()) + 1).scatter_reduce(0, ids.flatten(), x.abs().flatten(), "amax")
        stored = values(cast(torch.clamp(block * (enc * (f(1.0) / f(6.0))), max=F32MAX), "e4m3"))
        mult = torch.clamp(f(1.0) / (stored * dec), max=F32MAX)
        q = e2m1(x * mult[ids])
        zeros += int(x.count_nonzero() - q.count_nonzero())
        back = q * stored[ids] * (amax / f(448.0 * 6.0))
        error += float(((back.double() - x.double()) ** 2).sum())
    return {"nvfp4_underflows%": 100 * zeros / n, "nvfp4_mse": error / n}


def cases():
    g = torch.Generator().manual_seed(20260823)

    def normal(rows, cols, scale, dtype=torch.float32):
        x = torch.randn(rows, cols, generator=g) * scale
        x[rows // 2, :5] = 0
        return x.to(dtype)

    outlier = normal(64, 256, 1.0)
    outlier[3, 7] = 900.0
    tiny = normal(32, 128, 1e-3)
    tiny[:, 1::2] *= 1e-6
    yield "outlier", "activation", "e4m3", 2.0, [outlier, normal(64, 256, 0.3) + 0.5]
    yield "bf16", "activation", "e4m3", 7.5, [normal(32, 160, 2.0, torch.bfloat16)]
    yield "tiny", "gradient", "e5m2", 4096.0, [tiny, normal(32, 128, 1e-4)]
    yield "weight", "weight", "e4m3", 448.0, [normal(96, 160, 0.05)]
    yield "zeros", "activation", "e4m3", 1.0, [torch.zeros(32, 128)]


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    tensors, rows = {}, []
    for case, tensor, fmt, quant_scale, parts in cases():
        for i, p in enumerate(parts):
            tensors[f"{case}.{i}"] = p
        both = tensor in ("activation", "weight")
        found = moments(parts)
        for size, dims in ((32, 1), (32, 2), (16, 2)):
            suffix = "_max_over_orientations" if both else ""
            found[f"max_blockwise_dynamic_range_block_size_{size}_dims_{dims}{suffix}"] = blockwise(parts, size, dims, both)
        found.update(fp8(parts, fmt, tensor))
        s = torch.tensor([quant_scale])
        delayed = casts(parts, fmt, WHOLE, WHOLE, lambda a: s)
        for stat, value in delayed.items():
            found[stat] = value
            found["fp8_delayed_scaling_" + stat] = value
        found.update(nvfp4(parts, tensor))
        for stat, value in found.items():
            right, coded = value if isinstance(value, tuple) else (value, value)
            rows.append([case, tensor, fmt, repr(quant_scale), stat, repr(float(right)), repr(float(coded))])
    save_file(tensors, str(folder / "statistics.safetensors"))
    with open(folder / "statistics.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["case", "tensor", "format", "quant_scale", "statistic", "value", "transformer_engine"])
        out.writerows(rows)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
