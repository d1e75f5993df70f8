"""The scales of torchao.float8 (float8_utils.amax_to_scale at commit 36027d8), recomputed with torch 2.13.0 on the CPU.

usage: python torchao_scales.py OUT.csv

A row: bits of amax (F32, hex), bits of max / amax for E4M3FN, the same as a power of two, both again for E5M2.
"""
import sys
import torch

EPS = 1e-12


def scale(amax, largest, power_of_two):
    s = (largest / torch.clamp(amax.to(torch.float64), min=EPS)).to(torch.float32)
    return torch.exp2(torch.floor(torch.log2(s))) if power_of_two else s


def amaxes():
    g = torch.Generator().manual_seed(7)
    some = torch.exp2(torch.rand(3000, generator=g) * 60 - 40)
    powers = torch.exp2(torch.arange(-40, 60).float())
    near = []
    for largest in (448.0, 57344.0):
        for k in range(-50, 50):
            exact = torch.tensor(largest * 2.0 ** -k, dtype=torch.float32)
            for n in range(-3, 4):
                near.append((exact.view(torch.int32) + n).view(torch.float32).item())
    special = [0.0, 1e-12, 9e-13, 1e-38, 1e-45, 3.4028234663852886e38, float("inf"), float("nan"), 448.0, 449.0, 57344.0, 3.5]
    return torch.cat([some, powers, torch.tensor(near), torch.tensor(special)])


def bits(t):
    return ["%08x" % (v & 0xFFFFFFFF) for v in t.view(torch.int32).tolist()]


a = amaxes()
columns = [bits(a)] + [bits(scale(a, m, p)) for m in (448.0, 57344.0) for p in (False, True)]
with open(sys.argv[1], "w") as f:
    for row in zip(*columns):
        f.write(",".join(row) + "\n")
