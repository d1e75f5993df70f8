"""Makes testdata/golden/training/msamp_reductions.csv: FP8 gradients of ranks averaged as MS-AMP does it, emulated with torch 2.13.0 on the CPU.

usage: python msamp_reductions.py OUT.csv

Formulas: MS-AMP 9746ea8 msamp/nn/distributed.py, msamp/common/tensor/tensor_dist.py, msamp/megatron/optimizer/distrib_optimizer.py; NCCL src/device/reduce_kernel.h
for the sum: e4m3(half(x) + half(y)) at every hop, in the order of ranks. A row: reduction, ranks, case, gradients of all ranks (bits, hexadecimal, one rank after
the other), codes of the sum, bits of its scale, saturated elements.
"""
import math
import sys

import torch

E4M3 = torch.float8_e4m3fn
COUNT = 24


def factor(amax):
    return torch.ldexp(torch.ones(()), torch.frexp(torch.tensor(448.0) / amax).exponent - 1)


def cast(x, scale):
    return (x * scale).clamp(-448, 448).to(E4M3)


def add(a, b):
    return (a.half() + b.half()).float().clamp(-448, 448).to(E4M3)


def mean(kind, ranks):
    n = len(ranks)
    if kind == "min-scale":
        own = [factor(g.abs().max()) for g in ranks]
        codes = [cast(g, s) for g, s in zip(ranks, own)]
        shared = min(own)
        codes = [c if s == shared else cast(c.float() * (1 / s), shared) for c, s in zip(codes, own)]
    else:
        shared = factor(max(g.abs().max() for g in ranks))
        if kind == "ddp":
            shared = shared * torch.tensor(1 / math.sqrt(n))
        codes = [cast(g, shared) for g in ranks]
    total = codes[0]
    for c in codes[1:]:
        total = add(total, c)
    scale = (1 / shared) / n
    saturated = int((total.float().abs() == 448).sum())
    return total, scale, saturated


def bits(t):
    return "".join("%08x" % (v & 0xFFFFFFFF) for v in t.reshape(-1).view(torch.int32).tolist())


g = torch.Generator().manual_seed(9)
with open(sys.argv[1], "w") as out:
    for n in (1, 2, 3, 4, 8):
        for case in ("alike", "unlike", "one-large"):
            ranks = [torch.randn(COUNT, generator=g) * 0.01 for _ in range(n)]
            if case == "alike":
                ranks = [ranks[0] + 0.001 * r for r in ranks]
            if case == "one-large":
                ranks[-1] = ranks[-1] * 300
            for kind in ("min-scale", "ddp", "legacy", "zero"):
                codes, scale, saturated = mean(kind, ranks)
                out.write(f"{kind},{n},{case},{bits(torch.stack(ranks))},{bytes(codes.view(torch.uint8).tolist()).hex()},{bits(scale)},{saturated}\n")
