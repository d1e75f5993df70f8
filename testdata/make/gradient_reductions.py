"""The four FP8 gradient reductions of MS-AMP at commit 9746ea8, and the automatic pre-scale of FP8-LM, recomputed with torch 2.13.0 on the CPU.

usage: python gradient_reductions.py OUT.csv

Written from the formulas: see docs/msamp.md. NCCL's FP8 sum is e4m3(half(x) + half(y)), hop by hop in the order of ranks. torch's cast to
float8_e4m3fn makes NaN of what is too large; casts here saturate first. Rows:

  in,CASE,RANKS,HEX;HEX;...                           gradients of the ranks, bits of F32
  out,CASE,REDUCTION,quirks|mended,RANKS,BEFORE,PRE,CODES,MULTIPLIER,KEPT,SATURATED
  mu,STEP,SATURATED,ELEMENTS,AMAX,MU                  mu after each step
"""
import math
import sys
import torch

ELEMENTS = 40
ONE = torch.tensor(1.0)


def f32(x):
    return torch.tensor(x, dtype=torch.float32)


def cast(x):
    """To E4M3, round to nearest even, saturating."""
    return x.clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


def hop(x, y):
    return cast((x.to(torch.float16) + y.to(torch.float16)).float())


def scale_of(amax, before, quirks):
    if quirks:
        exponent = torch.floor(torch.log2((torch.reciprocal(amax) * 448.0).double()).float())
        s = torch.round(torch.pow(2, torch.abs(exponent)))
        s = torch.where(amax > 0.0, s, before)
        s = torch.where(torch.isfinite(amax), s, before)
        return torch.where(exponent < 0, 1 / s, s)
    if not bool(amax > 0) or not bool(torch.isfinite(amax)):
        return before
    exponent = min(torch.frexp((f32(448.0) / amax).clamp(max=2.0 ** 126)).exponent.item() - 1, 126)
    return f32(2.0 ** exponent)


def amax_of(g):
    return g.abs().max().nan_to_num(nan=math.inf, posinf=math.inf)


def add_up(codes):
    total = codes[0]
    for c in codes[1:]:
        total = hop(total, c)
    return total


def survivors(gs, quirks):
    return gs if quirks else [torch.where(torch.isinf(g), f32(math.nan), g) for g in gs]


def by_amax(gs, before, pre, quirks):
    """DDP, legacy and ZeRO: they differ in pre."""
    n = len(gs)
    agreed = scale_of(torch.stack([amax_of(g) for g in gs]).max(), before, quirks)
    scale = agreed * pre
    total = add_up([cast(g * scale) for g in survivors(gs, quirks)])
    return total, torch.reciprocal(scale) / n, scale if quirks else agreed


def min_scale(gs, before, pre, quirks):
    n = len(gs)
    own = []
    for g in gs:
        amax = amax_of(g)
        silent = not quirks and not (0 < amax.item() < math.inf)
        own.append(f32(math.inf) if silent else scale_of(amax, before, quirks))
    agreed = torch.stack(own).min()
    if not quirks and torch.isinf(agreed):
        agreed = before
    codes = []
    for g, s in zip(survivors(gs, quirks), own):
        s = agreed if not quirks and torch.isinf(s) else s
        q = cast(g * (s * pre))
        if s != agreed:
            q = cast(q.float() * torch.reciprocal(s * pre) * (agreed * pre))
        codes.append(q)
    return add_up(codes), torch.reciprocal(agreed * pre) * (1.0 / n), agreed


REDUCTIONS = {
    "min-scale": (min_scale, lambda n: 1.0),
    "ddp": (by_amax, lambda n: 1.0 / math.sqrt(n)),
    "legacy": (by_amax, lambda n: 1.0),
    "zero": (by_amax, lambda n: 1.0),
}


def cases(n, generator):
    draw = lambda: torch.randn(ELEMENTS, generator=generator)
    some = [draw() * 0.01 for _ in range(n)]
    yield "normal", some
    yield "alike", [some[0].clone() for _ in range(n)]  # sums saturate without room
    yield "unequal", [draw() * 2.0 ** (-7 * r) for r in range(n)]
    yield "wide", [draw() * torch.exp2(torch.rand(ELEMENTS, generator=generator) * 40 - 30) for _ in range(n)]
    yield "zeros", [torch.zeros(ELEMENTS) for _ in range(n)]
    yield "one_of_zeros", [torch.zeros(ELEMENTS) if r == n - 1 else draw() * 1e-4 for r in range(n)]
    yield "tiny", [draw() * 1e-38 for _ in range(n)]
    yield "huge", [draw() * 1e37 for _ in range(n)]
    for name, bad in (("infinite", math.inf), ("minus_infinite", -math.inf), ("nan", math.nan)):
        gs = [draw() for _ in range(n)]
        gs[n // 2][3] = bad
        yield name, gs


def bits(t):
    return ["%08x" % (v & 0xFFFFFFFF) for v in t.reshape(-1).view(torch.int32).tolist()]


def code_hex(t):
    return "".join("%02x" % (0x7F if v & 0x7F == 0x7F else v) for v in t.view(torch.uint8).tolist())


def saturated(t):
    return int(((t.view(torch.uint8) & 0x7F) == 0x7E).sum())


def reductions(out):
    generator = torch.Generator().manual_seed(20)
    for n in (1, 2, 3, 4, 8):
        for name, gs in cases(n, generator):
            out.write("in,%s,%d,%s\n" % (name, n, ";".join("".join(bits(g)) for g in gs)))
            for reduction, (reduce, usual) in REDUCTIONS.items():
                for quirks in (True, False):
                    for before, pre in ((1.0, usual(n)), (64.0, 0.3)):
                        total, multiplier, kept = reduce(gs, f32(before), f32(pre), quirks)
                        out.write(",".join([
                            "out", name, reduction, "quirks" if quirks else "mended", str(n), *bits(f32(before)), *bits(f32(pre)),
                            code_hex(total), *bits(multiplier), *bits(kept), str(saturated(total))]) + "\n")


def automatic(out):
    """A tensor of a million elements on 4 ranks; few steps saturate too much (more than 10 elements), others a little, some are zeros or not finite."""
    ratio, window, n, elements = 1e-5, 1000, 4, 1000000
    generator = torch.Generator().manual_seed(21)
    mu = f32(1.0 / math.sqrt(n))
    for step in range(1, 4001):
        u = torch.rand(1, generator=generator).item()
        count = int(u * 2000) if u < 0.01 else 0
        amax = 0.0 if 0.1 < u < 0.101 else math.inf if 0.2 < u < 0.201 else math.nan if 0.3 < u < 0.301 else 0.5
        if 0 < amax < math.inf:
            if count / elements > ratio:
                mu = mu / 2.0
            else:
                mu = mu * (2.0 ** (1.0 / window))
        out.write("mu,%d,%d,%d,%s,%s\n" % (step, count, elements, bits(f32(amax))[0], bits(mu)[0]))


with open(sys.argv[1], "w") as f:
    reductions(f)
    automatic(f)
