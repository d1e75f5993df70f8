"""Makes testdata/golden/training/qat: fake quantisation, forward and backward, by each rule of quantisation-aware training.

Made with torch 2.13.0 on the CPU. Usage: python qat.py TARGET_FOLDER

NAME.safetensors: x, step, offset, pre, global (those that the rule has) and dy go in; y, dx, dstep, doffset, dpre come out. y is float32 arithmetic;
gradients are autograd's in float64 through formulations of the papers (and of ModelOpt and torchao), written anew, in which a rounding is
x + (round(x) - x).detach(). Metadata say grid, granularity, rule and form in the words of the node dev.octet.GridQuantize.

../qat-gradients/dorefa-BITS.safetensors: dy, noise and dx of DoReFa's gradients in BITS bits.

../qat-methods/OPERAND-NAME.safetensors: a method as a configuration names it, its whole graph: w or x goes in with dy; start.PLACE is where its parameters start, y and dx or dw
come out, and dPLACE of parameters that are learned. Metadata have the operand's settings.
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


def affine_of(least, most, low, high):
    """torchao's choose_qparams_affine, mapping ASYMMETRIC, float32, without an eps of its own: scale and zero point between least and greatest values."""
    least, most = least.clamp(max=0), most.clamp(min=0)
    s = ((most - least) / float(high - low)).clamp(min=torch.finfo(torch.float32).smallest_normal)
    return s, (low - torch.round(least / s)).clamp(low, high)


def moved(x, s, z, low, high):
    """torchao's _fake_quantize_affine: by the reciprocal of the scale, through the clamp, nothing for scale and zero point. Codes of float64 are those of float32."""
    r = torch.round(x.detach().float() * (1.0 / s)).to(x.dtype)
    r = straight(x * (1.0 / s.to(x.dtype)), r) if x.requires_grad else r
    return (torch.clamp(r + z.to(x.dtype), low, high) - z.to(x.dtype)) * s.to(x.dtype)


def planted(x):
    """Rows at which formulas part."""
    x[0] = 0
    x[1] = x[1].abs() + 0.5
    x[2] = -x[2].abs() - 0.5
    x[3] = torch.arange(32) * 8.0 - 124.5  # a step of 1 and ties: the greatest is one code beyond the range
    x[3, 0], x[3, 31] = -127.5, 127.5
    x[4] = 0.3
    x[5] *= 2.0**-126  # steps below the least one
    x[6] *= 1e30
    least, most = -0.7, 1.1
    s, _ = affine_of(torch.tensor(least), torch.tensor(most), -128, 127)
    ties = (torch.arange(-90, 150) + 0.5) * s
    ties = torch.stack([ties, torch.nextafter(ties, torch.tensor(9.0)), torch.nextafter(ties, torch.tensor(-9.0))]).flatten()
    parted = ties[torch.round(ties * (1.0 / s)) != torch.round(ties / s)]
    assert len(parted) >= 8, len(parted)
    x[7, :8] = parted[:8]
    x[7, 8:] = x[7, 8:].clamp(least, most)
    x[7, 30], x[7, 31] = least, most


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
    if c["parameter"] == "max":
        s, z = affine_of(offset.detach().float(), step.detach().float(), low, high)
        return moved(x, spread(s, shape, c["granularity"]), spread(z, shape, c["granularity"]), low, high)
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
    if c["parameter"] == "max":
        planted(x)
        tensors["step"], tensors["offset"] = x.amax(1), x.amin(1)
    elif c["offset"] != "none":
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
    return out["y"]


def exact(c, x, t):
    """y as a reader of codes computes it: no straight-through terms, which round by themselves."""
    low, high = ends(c["grid"])
    glob = t.get("global")
    if c["parameter"] == "max":
        return forward(c, x, t["step"], t["offset"], None, None)

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


def blocks_of(x, granularity):
    """The elements that share a parameter, a row for each."""
    kind, *n = granularity.split()
    if kind == "tensor":
        return x.reshape(1, -1)
    return x if kind in ("channel", "token") else x.reshape(-1, int(n[1]))


def whole(folder, operand, name, settings, seed, grid, granularity, start, formula, learned=()):
    """Learned steps of integers have four bits: with eight, x / step in float32 is off by up to a millionth of its gradient.

    start: parameters of the blocks, a row of elements each, as {place: values}; formula(x, parameters, spread) is differentiated."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(12, 32, generator=g) * (0.3 if operand == "weight" else 1)
    if "uint" in settings and "range" not in settings and "lsq+" not in settings and operand == "input":
        x = x * 4 if "pact" in settings else x
        x = x.abs()
    dy = torch.randn(12, 32, generator=g)
    first = {k: v.float() for k, v in start(blocks_of(x.double(), granularity)).items()}
    wide = x.double().requires_grad_()
    # codes are those of float32, by which y is made; only the rounding is taken from there
    single = lambda p: spread(p, x.shape, granularity.replace("token", "channel -2") if granularity == "token" else granularity)
    y = formula(x, first, single, False)
    ps = {k: v.double().requires_grad_(k in learned) for k, v in first.items()}
    formula(wide, ps, single, True).backward(dy.double())
    out = {"w" if operand == "weight" else "x": x, "dy": dy, "y": y.detach()}
    out["dw" if operand == "weight" else "dx"] = wide.grad.float()
    for k, v in first.items():
        out["start." + k] = v.contiguous()
    for k in learned:
        out["d" + k] = ps[k].grad.float()
    out = {k: v.contiguous().clone() for k, v in out.items()}
    save_file(out, folder / f"{operand}-{name}.safetensors", metadata={"operand": operand + "s", "settings": settings})


def methods(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rows = "channel -2"
    amax = lambda b: b.abs().amax(1)

    def lsq(grid, per, offset=False):
        low, high = ends(grid)
        factor = 1 / (per * high) ** 0.5

        def f(x, p, at, wide):
            s = at(scaled(p["scale"], factor) if wide else p["scale"])
            b = at(scaled(p["offset"], factor) if wide else p["offset"]) if offset else 0
            v = (x - b) / s
            if not wide:
                return nearest(v, grid) * s + b if offset else nearest(v, grid) * s
            single = lambda t: t.detach().float() if torch.is_tensor(t) else t
            v32 = (single(x) - single(b)) / single(s)
            inside = (v32 > low) & (v32 < high)  # strictly, as the paper has it; starts lie on the ends
            return straight(torch.where(inside, v, v.detach().clamp(low, high)), nearest(v32, grid).double()) * s + b
        return f

    mean = lambda high: lambda b: {"scale": 2 * b.abs().mean(1) / high**0.5}
    three = lambda d: lambda b: {"scale": torch.maximum((b.mean(1) - 3 * b.std(1, correction=0)).abs(), (b.mean(1) + 3 * b.std(1, correction=0)).abs()) / d}
    one = ["scale"]
    weight = lambda *a, **k: whole(folder, "weight", *a, **k)
    given = lambda *a, **k: whole(folder, "input", *a, **k)
    weight("lsq", "{method: lsq, format: int4}", 31, "-8..7", rows, mean(7), lsq("-8..7", 32), one)
    weight("lsq-amax", "{method: lsq, variant: amax, format: int4}", 32, "-8..7", rows, lambda b: {"scale": amax(b) / 7}, lsq("-8..7", 32), one)
    weight("lsq-e4m3", "{method: lsq, format: e4m3}", 33, "E4M3FN", rows, lambda b: {"scale": amax(b) / 448}, lsq("E4M3FN", 32), one)
    weight("lsq-plus-paper", "{method: lsq+, format: int4}", 34, "-8..7", rows, three(8), lsq("-8..7", 32), one)
    weight("lsq-plus-code", "{method: lsq+, variant: code, format: int4}", 35, "-8..7", rows, three(15), lsq("-8..7", 32), one)
    given("lsq", "{method: lsq, format: int4}", 36, "-8..7", "tensor", mean(7), lsq("-8..7", 384), one)
    given("lsq-plus", "{method: lsq+, format: uint8}", 37, "0..255", "tensor",
          lambda b: {"scale": (b.amax(1) - b.amin(1)) / 255, "offset": b.amin(1)}, lsq("0..255", 384, True), ["scale", "offset"])

    def dorefa_weight(x, p, at, wide):
        t = torch.tanh(x) if wide else torch.tanh(x.double()).float()
        z = t / (t.abs().max() * 2) + 0.5
        q = torch.round(z.detach().float() / p["scale"].float()).clamp(0, 15) * p["scale"].float()
        return (straight(z, q.double()) if wide else q) * 2 - 1
    weight("dorefa", "{method: dorefa, format: uint4}", 38, "0..15", "tensor", lambda b: {"scale": torch.tensor([1 / 15])}, dorefa_weight)

    def clipped(x, p, at, wide):
        alpha, s = at(p["amax"]), at(p["amax"].detach().float() / 255)
        q = nearest(x.detach().float() / s, "0..255") * s
        if not wide:
            return q
        return straight(torch.where(x < 0, 0 * x, torch.where(x >= alpha, alpha, x)), q.double())
    given("pact", "{method: pact, format: uint8}", 39, "0..255", "tensor", lambda b: {"amax": torch.tensor([10.0])}, clipped, ["amax"])
    given("dorefa", "{method: dorefa, format: uint8}", 40, "0..255", "tensor", lambda b: {"amax": torch.tensor([1.0])}, clipped)

    def fixed(grid):
        def f(x, p, at, wide):
            s = at(p["amax"].detach().float() / ends(grid)[1])
            q = nearest(x.detach().float() / s, grid) * s
            return straight(torch.where(x.abs() <= at(p["amax"]), x, x.detach()), q.double()) if wide else q
        return f
    largest = lambda b: {"amax": amax(b)}
    weight("fixed", "{method: fixed, format: e4m3}", 41, "E4M3FN", rows, largest, fixed("E4M3FN"))
    given("fixed", "{method: fixed, format: int8}", 42, "-128..127", "tensor", largest, fixed("-128..127"))

    def dynamic(grid, granularity, through):
        def f(x, p, at, wide):
            m = amax(blocks_of(x, granularity))
            s = at(m / ends(grid)[1])
            if not wide:
                return nearest(x / s, grid) * s
            s = s if through else s.detach()
            v = x / s
            single = x.detach().float() / at(amax(blocks_of(x.detach().float(), granularity)) / ends(grid)[1])
            return straight(v, nearest(single, grid).double()) * s
        return f
    nothing = lambda b: {}
    given("dynamic", "{method: dynamic, format: int8, granularity: token}", 43, "-128..127", "token", nothing, dynamic("-128..127", "token", False))
    given("torchao-float8", "{method: dynamic, variant: through_scale, format: e4m3, granularity: token}", 44, "E4M3FN", "token", nothing,
          dynamic("E4M3FN", "token", True))
    weight("torchao-float8", "{method: dynamic, variant: through_scale, format: e4m3}", 45, "E4M3FN", rows, nothing, dynamic("E4M3FN", rows, True))

    def mx(x, p, at, wide):
        least = amax(blocks_of(x.detach().float(), "group -1 32")) / 448
        s = at(2.0 ** torch.ceil(torch.log2(least)))
        q = nearest(x.detach().float() / s, "E4M3FN") * s
        return straight(x, q.double()) if wide else q
    weight("mxfp8", "{method: dynamic, format: mxfp8}", 51, "E4M3FN", "group -1 32", nothing, mx)

    def nvfp4(x, p, at, wide):
        g = p["global_scale"].float()
        s = at((amax(blocks_of(x.detach().float(), "group -1 16")) / 6 / g).clamp(2.0**-9, 448).to(torch.float8_e4m3fn).float() * g)
        q = nearest(x.detach().float() / s, "E2M1") * s
        return straight(x, q.double()) if wide else q  # no element is beyond the amax of its block
    above = lambda b: {"global_scale": (b.abs().max() / (6 * 448)).reshape(1)}
    given("nvfp4", "{method: dynamic, format: nvfp4}", 52, "E2M1", "group -1 16", above, nvfp4)

    def zero_point(grid, granularity):
        low, high = ends(grid)

        def f(x, p, at, wide):
            rows = blocks_of(x.detach().float(), granularity)
            s, z = affine_of(rows.amin(1), rows.amax(1), low, high)
            return moved(x, at(s), at(z), low, high)
        return f
    given("torchao-int8", "{method: dynamic, variant: zero_point, format: int8}", 53, "-128..127", "token", nothing, zero_point("-128..127", "token"))
    given("zero-point-group", "{method: dynamic, variant: zero_point, format: int4, granularity: group, group_size: 16}", 54, "-8..7", "group -1 16",
          nothing, zero_point("-8..7", "group -1 16"))

    def learned_range(grid):
        low, high = ends(grid)

        def f(x, p, at, wide):
            s, z = at(p["scale"]), p["zero_point"]
            z = at(straight(z, torch.round(z.detach()).clamp(low, high)) if wide else torch.round(z).clamp(low, high))
            r = torch.round(x.detach().float() / s.detach().float()).to(x.dtype)
            r = straight(x / s, r) if wide else r
            return (torch.clamp(r + z, low, high) - z) * s
        return f

    def affine(b, low, high):
        least, most = b.amin(1).clamp(max=0), b.amax(1).clamp(min=0)
        s = ((most - least) / (high - low)).float().double()
        return {"scale": s, "zero_point": low - torch.round(least / s)}
    both = ["scale", "zero_point"]
    weight("range", "{method: range, format: int4}", 46, "-8..7", rows, lambda b: affine(b, -8, 7), learned_range("-8..7"), both)
    given("range", "{method: range, format: uint8}", 47, "0..255", "tensor", lambda b: affine(b, 0, 255), learned_range("0..255"), both)

    def fp4(tied):
        def f(x, p, at, wide):
            def step(a):
                s = a / 6
                g = p["global_scale"].to(s.dtype)
                block = s / g  # its clipping, too, passes gradients on: starts lie on the end
                e = (a.detach().float() / 6 / p["global_scale"].float()).clamp(2.0**-9, 448).to(torch.float8_e4m3fn).to(s.dtype)
                return at((straight(block, e) if wide else e) * g)
            post = step(p["amax"])
            pre = post if tied else step(p["pre_amax"])
            if not wide:
                return nearest(x / pre, "E2M1") * post
            code = nearest(x.detach().float() / pre.detach().float(), "E2M1").double()
            v = x / pre
            return straight(torch.where(v.abs() <= 6, v, v.detach()), code) * post
        return f

    def two(b, tied):
        start = {"amax": amax(b), "global_scale": (b.abs().max() / (6 * 448)).reshape(1)}
        return start if tied else start | {"pre_amax": amax(b)}
    groups = "group -1 16"
    weight("modelopt-lsq", "{method: modelopt-lsq, format: nvfp4}", 48, "E2M1", groups, lambda b: two(b, False), fp4(False), ["amax"])
    weight("modelopt-lsq-dual", "{method: modelopt-lsq, variant: dual, format: nvfp4}", 49, "E2M1", groups, lambda b: two(b, False), fp4(False), ["amax", "pre_amax"])
    weight("modelopt-lsq-tied", "{method: modelopt-lsq, variant: tied, format: nvfp4}", 50, "E2M1", groups, lambda b: two(b, True), fp4(True), ["amax"])


def main():
    folder = pathlib.Path(sys.argv[1])
    methods(folder.parent / "qat-methods")
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
    moving = {"granularity": rows, "rule": "clipped", "parameter": "max", "offset": "min"}
    signed = case(folder, "torchao-int8-rows", 14, grid="-128..127", **moving)
    assert torch.equal(signed, case(folder, "torchao-uint8-rows", 14, grid="0..255", **moving))
    case(folder, "torchao-float8-rows", 13, grid="E4M3FN", granularity=rows, rule="scaled", parameter="amax")


if __name__ == "__main__":
    main()
