"""The scales of MS-AMP (ScalingMeta.compute_scaling_factor at commit 9746ea8), recomputed with torch 2.13.0 on the CPU.

usage: python msamp_scales.py OUT.csv

A row: bits of amax (F32, hex), bits of the scale before, then for E4M3, E5M2 and F16 the scale as MS-AMP computes it and as it is mended:
an infinite amax keeps the scale before, scales end at 2^126, the floor of the logarithm is exact.
"""
import sys
import torch


def original(amax, before, largest):
    # correctly rounded: processors and GPUs differ in the last bit of log2
    quotient = torch.reciprocal(amax) * largest  # what torch makes of number / tensor
    exponent = torch.floor(torch.log2(quotient.double()).float())
    scale = torch.round(torch.pow(2, torch.abs(exponent)))
    scale = torch.where(amax > 0.0, scale, before)
    scale = torch.where(torch.isfinite(amax), scale, before)
    return torch.where(exponent < 0, 1 / scale, scale)


def mended(amax, before, largest):
    quotient = torch.div(torch.tensor(largest), amax).clamp(max=2.0 ** 126)
    exponent = torch.frexp(quotient).exponent - 1
    return torch.where((amax > 0) & torch.isfinite(amax), torch.ldexp(torch.ones_like(amax), exponent.clamp(max=126)), before)


def amaxes():
    g = torch.Generator().manual_seed(11)
    some = torch.exp2(torch.rand(600, generator=g) * 200 - 100)
    powers = torch.exp2(torch.arange(-120, 120).float())
    near = []
    for largest in (448.0, 57344.0, 65504.0):
        for k in range(-40, 40):
            exact = torch.tensor(largest * 2.0 ** -k, dtype=torch.float32)
            for n in (-40, -9, -2, -1, 0, 1, 2, 9):
                near.append((exact.view(torch.int32) + n).view(torch.float32).item())
    special = [0.0, 1e-12, 1e-36, 1.3e-36, 1.4e-36, 1e-38, 1e-45, 3.4028234663852886e38, float("inf"), float("nan"), 448.0, 449.0, 65504.0, 3.5]
    return torch.cat([some, powers, torch.tensor(near), torch.tensor(special)])


def bits(t):
    return ["%08x" % (v & 0xFFFFFFFF) for v in t.view(torch.int32).tolist()]


a = amaxes()
before = torch.exp2((torch.arange(len(a)) % 41 - 20).float())
columns = [bits(a), bits(before)]
for m in (448.0, 57344.0, 65504.0):
    columns += [bits(original(a, before, m)), bits(mended(a, before, m))]
with open(sys.argv[1], "w") as f:
    for row in zip(*columns):
        f.write(",".join(row) + "\n")
