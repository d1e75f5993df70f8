"""Makes testdata/golden/training/msamp.safetensors and msamp.csv: MS-AMP's levels over 20 steps, emulated with torch 2.13.0 on the CPU.

usage: python msamp.py FOLDER

Two Linears without bias and a ReLU between them, mean squared error, AdamW, dynamic loss scaling as torch's GradScaler; two micro-batches a step.
Formulas: MS-AMP 9746ea8, msamp/common/tensor/{meta,cast,tensor}.py, msamp/nn/{linear,functional}.py, msamp/optim/{optimizer,adamw,adamw_base}.py,
adamw.cu. Sums of products are taken in FP64 and rounded to FP32, then to BF16: the order of a GPU's sums is nobody's.

Step 5 has an infinite target: gradients overflow, the step is left out, and windows stay where they are. Step 18 has an infinite input, which saturates:
the step counts, and the input's window begins anew. A row: level, rule, step, tensor, first 16 hexadecimal digits of the SHA-256 of its bytes; "loss" is
followed by the loss instead. "d:w1" and "d:w2" are what the codes of the gradients stand for in FP32, without the loss scale, before they are clipped; where
they overflow there is none, since MS-AMP's saturate.

Rule "clipped" is "mended" with the global norm of gradients clipped as MS-AMP does it: the scale that codes are multiplied by takes the factor;
its rows have the sum of magnitudes instead of digits, as the last bit of a norm depends on the order of its sum. Rule "te" is
"mended" with inputs and gradients of outputs scaled as in Transformer Engine's DelayedScaling (delayed_scaling.cu, defaults), updated with each micro-batch.
"""
import hashlib
import math
import pathlib
import sys

import torch
from safetensors.torch import save_file

ROWS, IN, HIDDEN, OUT = 16, 16, 32, 8
STEPS, MICRO = 20, 2
BAD_TARGET, BAD_INPUT = 5, 18
LR = torch.tensor(0.01, dtype=torch.float64).float()
BETAS, EPS, DECAY = (0.9, 0.999), 1e-8, 0.01
E4M3, E5M2, F16, BF16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16
WINDOW = 16
MAX_NORM = 0.3


def largest(dtype):
    return torch.finfo(dtype).max


def factor(amax, before, dtype, original):
    """ScalingMeta.compute_scaling_factor; mended: see msamp_scales.py."""
    if original:
        exponent = torch.floor(torch.log2((torch.reciprocal(amax) * largest(dtype)).double()).float())
        scale = torch.round(torch.pow(2, torch.abs(exponent)))
        scale = torch.where(amax > 0.0, scale, before)
        scale = torch.where(torch.isfinite(amax), scale, before)
        return torch.where(exponent < 0, 1 / scale, scale)
    if not amax > 0 or torch.isinf(amax):
        return before
    exponent = torch.frexp(torch.div(torch.tensor(largest(dtype)), amax).clamp(max=2.0 ** 126)).exponent - 1
    return torch.ldexp(torch.ones(()), exponent.clamp(max=126))


def cast(x, scale, dtype):
    """A saturating cast of x times scale."""
    return (x.float() * scale).clamp(-largest(dtype), largest(dtype)).to(dtype)


class Windowed:
    """Meta of an input or of an output's gradient."""

    def __init__(self, dtype, original):
        self.dtype, self.original = dtype, original
        self.scale, self.window, self.counter = torch.ones(()), torch.zeros(WINDOW), 0

    def quantise(self, x):
        if self.counter < WINDOW:
            amax = x.float().abs().max()
            self.window[0] = amax if self.original else torch.maximum(self.window[0], amax)
            self.scale = factor(amax, self.scale, self.dtype, self.original)
        else:
            self.window[0] = torch.maximum(self.window[0], x.float().abs().nan_to_num(0, posinf=math.inf).max())
        return cast(x, self.scale, self.dtype).double() / self.scale.double()

    def update(self):
        finite = bool(torch.isfinite(self.window[0]))
        if not finite:
            self.window[0] = 0
        scale = factor(self.window.max(), self.scale, self.dtype, self.original)
        self.window = self.window.roll(1)
        self.window[0] = 0
        self.counter = min(self.counter + 1, WINDOW) if finite else 0
        self.scale = scale

    def state(self):
        return {".quant_scale": self.scale.reshape(1), ".window": torch.cat([self.window, torch.tensor([float(self.counter)])])}


class Delayed:
    """An input or an output's gradient in Transformer Engine."""

    def __init__(self, dtype):
        self.dtype, self.scale, self.history = dtype, torch.ones(()), torch.zeros(1024)

    def quantise(self, x):
        self.history[0] = torch.maximum(self.history[0], x.float().abs().nan_to_num(0, posinf=math.inf).max())
        return cast(x, self.scale, self.dtype).double() * (1 / self.scale).double()

    def roll(self):
        last = self.history[0].clone()
        if last != 0:
            amax = self.history.max()
            self.history = self.history.roll(-1)
            self.history[-1] = last
            self.history[0] = 0
            if torch.isfinite(amax):
                self.scale = (torch.tensor(largest(self.dtype)) / amax).clamp(max=torch.finfo(torch.float32).max)

    def update(self):
        """Scales do not wait for the optimizer."""

    def state(self):
        return {".quant_scale": self.scale.reshape(1), ".amax_history": self.history}


class Scaled:
    """A ScalingTensor; what its optimizer keeps takes 1 as the scale before."""

    def __init__(self, dtype, shape, original, remembers):
        self.dtype, self.original, self.remembers = dtype, original, remembers
        self.value, self.scale = torch.zeros(shape).to(dtype), torch.ones(())

    def put(self, x):
        before = self.scale if self.remembers else torch.ones(())
        self.scale = factor(x.abs().max(), before, self.dtype, self.original)
        self.value = cast(x, self.scale, self.dtype)

    def float(self):
        return self.value.float() * (1 / self.scale)

    def state(self):
        return {"": self.value, ".scale": (1 / self.scale).reshape(1)}


def product(a, b):
    return (a @ b).float()


class Linear:
    def __init__(self, weight, level, rule):
        original = rule == "original"
        self.original = original
        self.weight = Scaled(F16, weight.shape, original, True)
        self.weight.put(weight)
        self.grad = Scaled(E4M3, weight.shape, original, True)
        moments = level != "O1"
        self.m = Scaled(E4M3, weight.shape, original, False) if moments else torch.zeros_like(weight)
        self.v = Scaled(F16, weight.shape, original, False) if moments else torch.zeros_like(weight)
        self.te = rule == "te"
        self.input, self.ograd = (Delayed(t) if self.te else Windowed(t, original) for t in (E4M3, E5M2))

    def forward(self, x):
        w = self.weight.float()
        scale = factor(w.abs().max(), torch.ones(()), E4M3, self.original)
        self.w = cast(w, scale, E4M3).double() / scale.double()
        self.x = self.input.quantise(x)
        return product(self.x, self.w.T).to(BF16)

    def backward(self, dy, wants_input):
        dy = self.ograd.quantise(dy)
        total = (self.grad.float() + product(dy.T, self.x)).to(BF16).float()
        amax = total.abs().max().nan_to_num(math.inf, posinf=math.inf)
        self.grad.scale = factor(amax, self.grad.scale, E4M3, self.original)
        self.overflow = self.overflow or not bool(torch.isfinite(amax))
        self.grad.value = cast(total, self.grad.scale, E4M3)
        return product(dy, self.w).to(BF16) if wants_input else None

    def zero(self):
        self.grad.value = torch.zeros_like(self.grad.value)
        self.overflow = False


def step_coded(p, g, m, v, t):
    """msamp_adamw.adamw_fp8_stage1_compute: betas are floats, powers doubles, what follows from them floats."""
    b1, b2 = (torch.tensor(b, dtype=torch.float64).float() for b in BETAS)
    c1 = torch.tensor(1 - float(b1) ** t, dtype=torch.float64).float()
    c2 = torch.tensor(1 - float(b2) ** t, dtype=torch.float64).float()
    p = p * torch.tensor(1 - float(LR) * DECAY, dtype=torch.float64).float()
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * (g * g)
    root = c2.double().sqrt().float()
    return p - LR / c1 * (m / (v.double().sqrt().float() / root + torch.tensor(EPS, dtype=torch.float64).float())), m, v


def run(level, rule, weights, xs, ts):
    rows = []
    first, second = (Linear(w, level, rule) for w in weights)
    loss_scale, clean, count = 1024.0, 0, 0
    for step in range(STEPS):
        first.zero()
        second.zero()
        losses = []
        for micro in range(MICRO):
            x, t = xs[step * MICRO + micro].to(BF16), ts[step * MICRO + micro]
            h = first.forward(x)
            y = second.forward(h.relu())
            for layer in (first, second):
                if layer.te:
                    layer.input.roll()
            losses.append(((y.double() - t.double()) ** 2).mean().item())
            dy = ((y.float() - t) * (2 * loss_scale / MICRO / (ROWS * OUT))).to(BF16)
            dh = second.backward(dy, True)
            first.backward(torch.where(h > 0, dh, torch.zeros_like(dh)), False)
            for layer in (first, second):
                if layer.te:
                    layer.ograd.roll()
        loss = sum(losses) / MICRO
        overflow = first.overflow or second.overflow or not math.isfinite(loss)
        sums = {} if overflow else {f"d:{w}": layer.grad.float() / loss_scale for w, layer in (("w1", first), ("w2", second))}
        if not overflow:
            count += 1
            factor = 1 / loss_scale
            if rule == "clipped":
                norm = math.sqrt(sum(layer.grad.float().double().square().sum().item() for layer in (first, second))) / loss_scale
                factor *= min(1, MAX_NORM / (norm + 1e-6))
            for layer in (first, second):
                g = layer.grad.value.float() * ((1 / layer.grad.scale) * torch.tensor(factor))
                p, m, v = layer.weight.float(), layer.m, layer.v
                coded = isinstance(m, Scaled)
                if coded:
                    p, m, v = step_coded(p, g, m.float(), v.float(), count)
                    layer.m.put(m)
                    layer.v.put(v)
                else:
                    p, layer.m, layer.v = step_f32(p, g, m, v, count)
                layer.weight.put(p)
                layer.input.update()
                layer.ograd.update()
        if overflow:
            loss_scale, clean = loss_scale * 0.5, 0
        else:
            clean += 1
            if clean == 3:
                loss_scale, clean = loss_scale * 2, 0
        tensors = sums
        for name, layer, weight in (("first", first, "w1"), ("second", second, "w2")):
            tensors |= {weight + k: v for k, v in layer.weight.state().items()}
            for what, kept in (("exp_avg", layer.m), ("exp_avg_sq", layer.v)):
                parts = kept.state() if isinstance(kept, Scaled) else {"": kept}
                tensors |= {f"{what}:{weight}{k}": v for k, v in parts.items()}
            tensors |= {f"fp8.{name}.input{k}": v for k, v in layer.input.state().items()}
            tensors |= {f"fp8.{name}.grad_output{k}": v for k, v in layer.ograd.state().items()}
            tensors[f"d:{weight}.scale"] = (1 / layer.grad.scale).reshape(1)
        for name, tensor in sorted(tensors.items()):
            data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
            digest = tensor.double().abs().sum().item() if rule == "clipped" else hashlib.sha256(data).hexdigest()[:16]
            rows.append(f"{level},{rule},{step},{name},{digest}")
        rows.append(f"{level},{rule},{step},loss,{loss!r}")
    return rows


def step_f32(p, g, m, v, t):
    """torch operators of msamp/optim/adamw.py for moments in FP32."""
    b1, b2 = BETAS
    root = math.sqrt(1 - b2 ** t)
    step_size = float(LR) / (1 - b1 ** t)
    f = lambda x: torch.tensor(x, dtype=torch.float64).float()
    p = p * f(1 - float(LR) * DECAY)
    m = m * f(b1) + f(1 - b1) * g
    v = v * f(b2) + f(1 - b2) * (g * g)
    return p - f(step_size) * (m / (v.double().sqrt().float() / f(root) + f(EPS))), m, v


def main(folder):
    generator = torch.Generator().manual_seed(20)
    weights = [torch.randn(HIDDEN, IN, generator=generator) * 0.3, torch.randn(OUT, HIDDEN, generator=generator) * 0.2]
    xs = torch.randn(STEPS * MICRO, ROWS, IN, generator=generator).to(BF16).float()
    ts = torch.randn(STEPS * MICRO, ROWS, OUT, generator=generator).to(BF16).float()
    xs *= torch.exp2(torch.arange(STEPS * MICRO) % 5 - 2.0)[:, None, None]
    ts[BAD_TARGET * MICRO, 3, 2] = math.inf
    xs[BAD_INPUT * MICRO + 1, 2, 1] = math.inf
    save_file({"w1": weights[0], "w2": weights[1], "x": xs, "t": ts}, folder / "msamp.safetensors")
    variants = [(level, rule) for level in ("O1", "O2", "O3") for rule in ("mended", "original")]
    variants += [("O1", "clipped"), ("O2", "clipped"), ("O2", "te")]
    rows = [row for level, rule in variants for row in run(level, rule, weights, xs, ts)]
    (folder / "msamp.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
