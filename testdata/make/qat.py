"""Makes testdata/golden/training/qat: fake quantisation, forward and backward, by each rule of quantisation-aware training.

Made with torch 2.13.0 on the CPU. Usage: python qat.py TARGET_FOLDER

NAME.safetensors: x, step, offset, pre, global (those that the rule has) and dy go in; y, dx, dstep, doffset, dpre come out. y is float32 arithmetic;
gradients are autograd's in float64 through formulations of the papers (and of ModelOpt and torchao), written anew, in which a rounding is
x + (round(x) - x).detach(). Metadata say grid, granularity, rule and form in the words of the node dev.octet.GridQuantize.

../qat-gradients/dorefa-BITS.safetensors: dy, noise and dx of DoReFa's gradients in BITS bits.
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file

GRIDS = {"-8..7": (-8, 7), "-2..1": (-2, 1), "0..255": (0, 255), "0..15": (0, 15), "-128..127": (-128, 127)}
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def nearest(v, grid):
    """Rounded to the grid, saturating; the dtype of v."""
    if grid in GRIDS:
        low, high = GRIDS[grid]
        return torch.round(torch.clamp(v, low, high))
    if grid == "E4M3FN":
        return torch.clamp(v, -448, 448).float().to(torch.float8_e4m3fn).to(v.dtype)
    levels = torch.tensor(E2M1, dtype=v.dtype)
    a = v.abs().clamp(max=6)
    up = torch.bucketize(a, levels).clamp(max=7)
    down = (up - 1).clamp(min=0)
    du, dd = levels[up] - a, a - levels[down]
    even = torch.where(up % 2 == 0, up, down)
    at = torch.where(du < dd, up, torch.where(dd < du, down, even))
    return torch.copysign(levels[at], v)


def ends(grid):
    return GRIDS.get(grid) or ((-448, 448) if grid == "E4M3FN" else (-6, 6))


def straight(x, rounded):
    return x + (rounded - x).detach()


def scaled(g, factor):
    """The value of g, with a gradient times factor."""
    return (g - g * factor).detach() + g * factor


def spread(p, shape, granularity):
    """One number for each element."""
    kind, *n = granularity.split()
    rows, cols = shape
    if kind == "tensor":
        return p.reshape(1, 1).expand(rows, cols)
    if kind == "channel":
        return p.reshape(rows, 1).expand(rows, cols) if n[0] == "-2" else p.reshape(1, cols).expand(rows, cols)
    size = int(n[1])
    return p.reshape(rows, -1).repeat_interleave(size, 1)[:, :cols]


def forward(c, x, step, offset, pre, glob):
    """y, and what autograd differentiates."""
    low, high = ends(c["grid"])
    shape = x.shape
    factor = c["factor"]

    def effective(p):
        s = p / high if c["parameter"] == "amax" else p
        if glob is not None:
            block = (s / glob).clamp(2.0**-9, 448)
            block = straight(block, block.float().to(torch.float8_e4m3fn).to(block.dtype))
            s = block * glob
        return spread(s, shape, c["granularity"])

    rule = c["rule"]
    if rule == "lsq":
        s = effective(scaled(step, factor))
        b = 0 if offset is None else spread(scaled(offset, factor), shape, c["granularity"])
        v = (x - b) / s
        bar = torch.clamp(v, low, high)
        return straight(bar, nearest(v.detach(), c["grid"])) * s + b
    if rule == "pact":
        alpha = spread(step, shape, c["granularity"])
        y = torch.where(x < 0, torch.zeros_like(x), torch.where(x >= alpha, alpha, x))
        s = alpha.detach() / high
        q = nearest((x / s).detach(), c["grid"]) * s
        return straight(y, q)
    if rule == "range":
        s = spread(step, shape, c["granularity"])
        z = straight(offset, torch.round(offset).clamp(low, high))
        z = spread(z, shape, c["granularity"])
        r = straight(x / s, torch.round((x / s).detach()))
        return (torch.clamp(r + z, low, high) - z) * s
    if rule == "clipped":
        s = effective(step).detach()
        edge = spread(step.detach(), shape, c["granularity"]) if c["parameter"] == "amax" else s * high
        y = torch.where(x.abs() <= edge, x, x.detach())
        return straight(y, nearest((x / s).detach(), c["grid"]) * s)
    if rule == "scaled":
        post = effective(step)
        before = post if pre is None else effective(pre)
        v = x / before
        clipped = torch.where(v.abs() <= high, v, v.detach())
        return straight(clipped, nearest(v.detach(), c["grid"])) * post
    raise ValueError(rule)


def case(folder, name, seed, **c):
    c = {"parameter": "step", "offset": "none", "count": "shared", "pre": False, "global": False, **c}
    g = torch.Generator().manual_seed(seed)
    rows, cols = 12, 32
    x = torch.randn(rows, cols, generator=g)
    if c["rule"] == "pact":
        x = torch.relu(x) * 4
    kind = c["granularity"].split()[0]
    count = {"tensor": 1, "channel": rows if c["granularity"].endswith("-2") else cols, "group": rows * cols // 16}[kind]
    low, high = ends(c["grid"])
    reach = 1.5 if c["parameter"] == "amax" else 1.5 / high
    tensors = {"x": x, "dy": torch.randn(rows, cols, generator=g)}
    tensors["step"] = reach * (0.5 + torch.rand(count, generator=g)) * (3 if c["rule"] == "pact" else 1)
    if c["offset"] != "none":
        tensors["offset"] = torch.rand(count, generator=g) * (100 if c["offset"] == "zero_point" else -0.5)
    if c["pre"]:
        tensors["pre"] = reach * (0.5 + torch.rand(count, generator=g))
    if c["global"]:
        tensors["global"] = torch.tensor([3 / 2688])
    per = rows * cols / count
    c["factor"] = 1 / (per * high) ** 0.5 if c["rule"] == "lsq" and c["count"] == "shared" else 1.0
    # forward in float32, by the same formulas
    args = ["step", "offset", "pre", "global"]
    y = forward(c, x, *[tensors.get(a) for a in args])
    # gradients in float64
    wide = {k: v.double().requires_grad_(k not in ("dy", "global")) for k, v in tensors.items()}
    forward(c, wide["x"], *[wide.get(a) for a in args]).backward(wide["dy"])
    out = {k: v.contiguous() for k, v in tensors.items()}
    out["y"] = exact(c, x, tensors)
    assert torch.allclose(out["y"], y, atol=1e-5), name
    for k in ("x", "step", "offset", "pre"):
        if k in wide and wide[k].grad is not None:
            out["d" + k] = wide[k].grad.float()
    meta = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in c.items() if k != "factor"}
    save_file(out, folder / (name + ".safetensors"), metadata=meta)


def exact(c, x, t):
    """y as a reader of codes computes it: no straight-through terms, which round by themselves."""
    low, high = ends(c["grid"])
    glob = t.get("global")

    def effective(p):
        s = p / high if c["parameter"] == "amax" else p
        if glob is not None:
            s = (s / glob).clamp(2.0**-9, 448).to(torch.float8_e4m3fn).float() * glob
        return spread(s, x.shape, c["granularity"])

    s = effective(t["step"])
    p = effective(t["pre"]) if "pre" in t else s
    if c["offset"] == "zero_point":
        z = spread(torch.round(t["offset"]).clamp(low, high), x.shape, c["granularity"])
        return (torch.clamp(torch.round(x / s) + z, low, high) - z) * s
    if c["offset"] == "added":
        b = spread(t["offset"], x.shape, c["granularity"])
        return nearest((x - b) / s, c["grid"]) * s + b
    return nearest(x / p, c["grid"]) * s


GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


def mixed(z):
    a = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    b = ((a ^ (a >> 27)) * 0x94D049BB133111EB) & MASK
    return b ^ (b >> 31)


def noise(seed, step, micro_batch, n):
    """Octet's counter-based generator: uniform from -1/2 to below 1/2."""
    key = seed
    for counter in (step, micro_batch):
        key = mixed((key + GOLDEN * (counter + 1)) & MASK)
    bits = [mixed((key + GOLDEN * (i + 1)) & MASK) >> 40 for i in range(n)]
    return torch.tensor(bits, dtype=torch.float32) * 2.0**-24 - 0.5


def gradients(folder, bits):
    """DoReFa's equation 12 on dy of samples along the first axis; the noise is that of a seed, a step and a micro-batch."""
    g = torch.Generator().manual_seed(20 + bits)
    dy = torch.randn(5, 7, 9, generator=g)
    dy[3] = 0
    u = noise(42, 3, 1, dy.numel()).reshape(dy.shape)
    n = 2.0**bits - 1
    m = dy.abs().amax((1, 2), keepdim=True)
    z = torch.clamp(dy / m * 0.5 + 0.5 + u / n, 0, 1)
    dx = torch.where(m > 0, (torch.round(z * n) / n - 0.5) * m * 2, dy)
    save_file({"dy": dy, "noise": u, "dx": dx}, folder / f"dorefa-{bits}.safetensors", metadata={"seed": "42", "step": "3", "micro_batch": "1"})


def main():
    folder = pathlib.Path(sys.argv[1])
    rounded = folder.parent / "qat-gradients"
    rounded.mkdir(parents=True, exist_ok=True)
    for bits in (1, 2, 6, 8):
        gradients(rounded, bits)
    folder.mkdir(parents=True, exist_ok=True)
    rows, whole, groups = "channel -2", "tensor", "group -1 16"
    case(folder, "lsq-int4-tensor", 1, grid="-8..7", granularity=whole, rule="lsq")
    case(folder, "lsq-int4-channel", 2, grid="-8..7", granularity=rows, rule="lsq")
    case(folder, "lsq-int2-group", 3, grid="-2..1", granularity=groups, rule="lsq")
    case(folder, "lsq-e4m3-channel", 4, grid="E4M3FN", granularity=rows, rule="lsq")
    case(folder, "lsq-plus-uint8", 5, grid="0..255", granularity=whole, rule="lsq", offset="added")
    case(folder, "lsq-nvfp4", 6, grid="E2M1", granularity=groups, rule="lsq", **{"global": True})
    case(folder, "pact-uint4", 7, grid="0..15", granularity=whole, rule="pact", parameter="amax")
    case(folder, "modelopt-fp8", 8, grid="E4M3FN", granularity=whole, rule="clipped", parameter="amax")
    case(folder, "modelopt-int8-channel", 9, grid="-128..127", granularity=rows, rule="clipped")
    case(folder, "range-uint8", 10, grid="0..255", granularity=rows, rule="range", offset="zero_point")
    nvfp4 = {"grid": "E2M1", "granularity": groups, "rule": "scaled", "parameter": "amax", "global": True}
    case(folder, "modelopt-lsq-tied", 11, **nvfp4)
    case(folder, "modelopt-lsq-dual", 12, pre=True, **nvfp4)
    case(folder, "torchao-float8-rows", 13, grid="E4M3FN", granularity=rows, rule="scaled", parameter="amax")


if __name__ == "__main__":
    main()
