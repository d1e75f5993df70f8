"""Makes testdata/golden/training/fp8_linear: one Linear in FP8, forward and backward, as each training recipe has it.

Made with torch 2.13.0 on the CPU. Usage: python fp8_linear.py TARGET_FOLDER

NAME.safetensors, for each recipe and setting: steps.I.{x,w,b,dy} go in; steps.I.{y,dx,dw,db} come out, products in float64 of what the
quantised operands stand for, rounded to float32. steps.I.{x,w,dy}_codes are the codes (of the first product that takes the tensor),
steps.I.{x,w,dy}_scale the scales that belong to them, and for delayed scaling steps.I.{x,w,dy}_quant_scale and _history the state after
the step. The formulas are those of Transformer Engine (commit d0067d0) and torchao.float8 (commit 36027d8), written anew.
"""
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

F32MAX = torch.finfo(torch.float32).max
FP8 = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}


def cast(x, fmt):
    dtype, largest = FP8[fmt]
    return torch.clamp(x, -largest, largest).to(dtype)


def values(codes):
    return codes.to(torch.float32)


# --- scales: what x is multiplied by, from an amax (float32 tensors of any shape)

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


def ao_scale(amax, fmt, pow2):
    s = (FP8[fmt][1] / torch.clamp(amax.double(), min=1e-12)).float()
    return torch.exp2(torch.floor(torch.log2(s))) if pow2 else s


# --- blocks: an index per element

def block_ids(shape, br, bc):
    r = torch.arange(shape[0]) // br
    c = torch.arange(shape[1]) // bc
    return r[:, None] * (-(-shape[1] // bc)) + c[None, :]


def quantise(x, fmt, br, bc, scale_of):
    """x float32 [r, c] -> codes, scales [grid], what they stand for in float64."""
    ids = block_ids(x.shape, br, bc)
    n = int(ids.max()) + 1
    amax = torch.zeros(n).scatter_reduce(0, ids.flatten(), x.abs().flatten(), "amax")
    s = scale_of(amax)
    codes = cast(x * s[ids], fmt)
    inv = (torch.ones_like(s) / s)
    return codes, inv, values(codes).double() * inv.double()[ids]


def run(x, w, b, dy, forms):
    """forms: product -> (left, right), each (fmt, br, bc, scale_of) or None. w is [out, in]."""
    q = {}

    def get(t, name, form, tag):
        if form is None:
            return t.double()
        key = (name, tag)
        q[key] = quantise(t, *form)
        return q[key][2]

    (fl, fr), (dl, dr), (wl, wr) = forms["fprop"], forms["dgrad"], forms["wgrad"]
    y = get(x, "x", fl, "fprop") @ get(w, "w", fr, "fprop").T
    y = y + (b.to(torch.bfloat16) if forms.get("bias", True) else b).double()
    dx = get(dy, "dy", dl, "dgrad") @ get(w, "w", dr, "dgrad")
    dw = get(dy, "dy", wl, "wgrad").T @ get(x, "x", wr, "wgrad")
    out = {"y": y.float(), "dx": dx.float(), "dw": dw.float(), "db": dy.double().sum(0).float()}
    for name in ("x", "w", "dy"):
        for tag in ("fprop", "dgrad", "wgrad"):
            if (name, tag) in q:
                out[name + "_codes"] = q[(name, tag)][0].view(torch.uint8)
                out[name + "_scale"] = q[(name, tag)][1]
                break
    return out


def data(step, m, k, n, bf16, seed):
    g = torch.Generator().manual_seed(seed * 100 + step)
    grow = 1.7 ** step
    x = torch.randn(m, k, generator=g) * grow
    x[0, 0] = 9.5 * grow  # an outlier
    w = torch.randn(n, k, generator=g) * 0.05
    b = torch.randn(n, generator=g)
    dy = torch.randn(m, n, generator=g) * 3e-4 / grow
    dy[-1, 0] = 0
    if bf16:
        x, dy = x.bfloat16().float(), dy.bfloat16().float()
    return x, w, b, dy


WHOLE = 1 << 30


def te_current(pow2, hybrid):
    g = "e5m2" if hybrid else "e4m3"
    f = ("e4m3", WHOLE, WHOLE, lambda a: te_scale(a, "e4m3", pow2, F32MAX))
    b = (g, WHOLE, WHOLE, lambda a: te_scale(a, g, pow2, F32MAX))
    return {"fprop": (f, f), "dgrad": (b, f), "wgrad": (b, f)}


def te_block(pow2):
    s = lambda a: te_scale(a, "e4m3", pow2, F32MAX)
    row, col, square = ("e4m3", 1, 128, s), ("e4m3", 128, 1, s), ("e4m3", 128, 128, s)
    return {"fprop": (row, square), "dgrad": (row, square), "wgrad": (col, col)}


def te_mx():
    s = lambda a: mx_scale(a, "e4m3")
    row, col = ("e4m3", 1, 32, s), ("e4m3", 32, 1, s)
    return {"fprop": (row, row), "dgrad": (row, col), "wgrad": (col, col)}


def ao_tensor():
    f = ("e4m3", WHOLE, WHOLE, lambda a: ao_scale(a, "e4m3", False))
    b = ("e5m2", WHOLE, WHOLE, lambda a: ao_scale(a, "e5m2", False))
    return {"fprop": (f, f), "dgrad": (b, f), "wgrad": (b, f), "bias": False}


def ao_row(high_precision_wgrad):
    s = lambda a: ao_scale(a, "e4m3", True)
    row, col, whole = ("e4m3", 1, WHOLE, s), ("e4m3", WHOLE, 1, s), ("e4m3", WHOLE, WHOLE, s)
    return {
        "fprop": (row, row),
        "dgrad": (row, whole if high_precision_wgrad else col),
        "wgrad": (None, None) if high_precision_wgrad else (col, col),
        "bias": False,
    }


# --- delayed scaling

class Slot:
    def __init__(self, fmt, length, margin, algo):
        self.fmt, self.algo = fmt, algo
        self.history = np.zeros(length, np.float32)
        self.scale = np.float32(1)
        self.scaled_max = np.float32(FP8[fmt][1] * 2.0 ** -margin)

    def quantise(self, x):
        s = torch.tensor(self.scale)
        self.history[0] = max(self.history[0], np.float32(x.abs().max()))
        codes = cast(x * s, self.fmt)
        inv = torch.ones(()) / s
        return codes, inv.reshape(1), values(codes).double() * inv.double()

    def update(self):
        last = self.history[0]
        amax = np.float32(0)
        if last != 0:
            h = np.append(self.history[1:], last)
            amax = h.max()
            self.history = h.copy()
            self.history[0] = 0
        if self.algo == "most_recent":
            amax = last
        if np.isfinite(amax) and amax > 0:
            with np.errstate(over="ignore"):
                s = np.float32(self.scaled_max / amax)
            self.scale = np.float32(F32MAX) if np.isinf(s) else s


def delayed(target, name, steps, hybrid, length, margin, algo, bf16, cached_weight):
    slots = {"x": Slot("e4m3", length, margin, algo), "w": Slot("e4m3", length, margin, algo),
             "dy": Slot("e5m2" if hybrid else "e4m3", length, margin, algo)}
    tensors = {}
    w0 = b0 = None
    for i in range(steps):
        x, w, b, dy = data(i, 24, 40, 56, bf16, 1)
        micro = cached_weight and i % 2 == 1  # second micro-batch of an optimizer step: the weight's codes are those of the first
        if micro:
            w, b = w0, b0
        else:
            wq = slots["w"].quantise(w)
            w0, b0 = w, b
        xq = slots["x"].quantise(x)
        y = xq[2] @ wq[2].T + b.to(torch.bfloat16).double()
        slots["x"].update()
        slots["w"].update()
        dyq = slots["dy"].quantise(dy)
        dx, dw = dyq[2] @ wq[2], dyq[2].T @ xq[2]
        slots["dy"].update()
        step = {"x": x, "w": w, "b": b, "dy": dy, "y": y.float(), "dx": dx.float(), "dw": dw.float(), "db": dy.double().sum(0).float()}
        for t, q in (("x", xq), ("w", wq), ("dy", dyq)):
            step[t + "_codes"] = q[0].view(torch.uint8)
            step[t + "_scale"] = q[1]
            step[t + "_quant_scale"] = torch.tensor([slots[t].scale])
            step[t + "_history"] = torch.from_numpy(slots[t].history.copy())
        tensors.update({"steps.%d.%s" % (i, k): v.clone() for k, v in step.items()})
    save_file(tensors, str(target / (name + ".safetensors")))


def stateless(target, name, forms, m, k, n, bf16):
    x, w, b, dy = data(0, m, k, n, bf16, 2)
    step = {"x": x, "w": w, "b": b, "dy": dy}
    step.update(run(x, w, b, dy, forms))
    save_file({"steps.0." + k: v.clone() for k, v in step.items()}, str(target / (name + ".safetensors")))


target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
delayed(target, "delayed-hybrid", 5, True, 4, 0, "max", False, False)
delayed(target, "delayed-e4m3-recent", 4, False, 3, 1, "most_recent", True, False)
delayed(target, "delayed-cached", 4, True, 1024, 0, "max", False, True)
stateless(target, "current", te_current(False, True), 24, 40, 56, False)
stateless(target, "current-pow2-e4m3", te_current(True, False), 24, 40, 56, True)
stateless(target, "block", te_block(True), 136, 132, 136, False)
stateless(target, "block-f32", te_block(False), 136, 132, 136, True)
stateless(target, "mxfp8", te_mx(), 72, 80, 48, False)
stateless(target, "tensorwise", ao_tensor(), 24, 40, 56, True)
stateless(target, "rowwise", ao_row(False), 24, 40, 56, False)
stateless(target, "rowwise_with_gw_hp", ao_row(True), 24, 40, 56, True)
