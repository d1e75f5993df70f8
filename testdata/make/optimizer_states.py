"""Twenty steps of Adam whose tensors are kept in few bits, as MS-AMP, Transformer Engine and torchao keep them, from their formulas.

usage: python optimizer_states.py OUT.csv [TORCHAO]
made with torch 2.13.0 on the CPU

Formulas: MS-AMP 9746ea8 msamp/optim/{adamw.py,adamw.cu}, msamp/common/tensor/{meta,cast}.py; Transformer Engine 04912bf
transformer_engine/pytorch/optimizers/fused_adam.py and common/multi_tensor/adam.cu; torchao 36027d8 torchao/optim/{adam,quant_utils,subclass_*}.py.
Every operation is one of torch's, rounded to FP32; nothing is contracted. Numbers are those of a counter-based generator (SplittableRandom's
finaliser), so that the test makes the same ones. Step 8's gradient has an infinity: nothing may change.

A row: engine, step, tensor, the first 16 hexadecimal digits of the SHA-256 of its bytes.
With TORCHAO, a checkout of torchao: runs its own optimizers (uncompiled) next to the formulas and says how many codes differ.
"""
import hashlib
import sys

import numpy as np
import torch

N = 4096
STEPS = 20
BAD = 8
BETAS = (0.9, 0.999)
EPS = 1e-8
DECAY = 0.01
LR = float(np.float32(1e-3))
GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1


def mix(z):
    with np.errstate(over="ignore"):
        a = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        b = (a ^ (a >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return b ^ (b >> np.uint64(31))


def key_of(key, counter):
    return int(mix(np.uint64((key + GOLDEN * (counter + 1)) & MASK)))


def bits(key, count, width):
    with np.errstate(over="ignore"):
        places = np.uint64(key) + np.uint64(GOLDEN) * (np.arange(count, dtype=np.uint64) + np.uint64(1))
    return (mix(places) >> np.uint64(64 - width)).astype(np.int64)


def numbers(key, size):
    """Within -size and size, spread over twelve binades; exact in FP32."""
    fractions = (bits(key, N, 24) - (1 << 23)).astype(np.float64) / (1 << 23)
    spread = 2.0 ** -(np.arange(N) % 12)
    return torch.from_numpy((fractions * spread * size).astype(np.float32))


def f32(x):
    return torch.tensor(x, dtype=torch.float64).float()


def root(x):
    """Correctly rounded, as on GPUs; torch's own on processors is one unit in the last place off for a fifth of all numbers."""
    return x.double().sqrt().float()


# --- forms: encode gives the tensors that are kept, decode FP32 ---------------------------------------------------------------------

class Plain:
    def __init__(self, dtype):
        self.dtype = dtype

    def encode(self, x, before, key):
        return {"": x.to(self.dtype)}

    def decode(self, kept):
        return kept[""].float()


class Stochastic:
    def encode(self, x, before, key):
        word = x.view(torch.int32)
        draws = torch.from_numpy(bits(key, N, 16).astype(np.int32))
        towards_zero = word & -65536
        word = torch.where(draws < (word & 0xFFFF), towards_zero + 0x10000, towards_zero)
        return {"": word.view(torch.float32).bfloat16()}

    def decode(self, kept):
        return kept[""].float()


class PowerOfTwo:
    def __init__(self, dtype, remembers):
        self.dtype, self.remembers = dtype, remembers

    def encode(self, x, before, key):
        largest = torch.finfo(self.dtype).max
        amax = x.abs().max()
        old = 1 / before[".scale"][0] if self.remembers and before else torch.tensor(1.0)
        if amax > 0:
            scale = 2.0 ** (torch.frexp(torch.tensor(largest) / amax).exponent - 1).double()
            scale = scale.float()
        else:
            scale = old
        return {"": (x * scale).to(self.dtype), ".scale": (1 / scale).reshape(1)}

    def decode(self, kept):
        return kept[""].float() * kept[".scale"]


class Fused:
    def __init__(self, dtype):
        self.dtype = dtype
        self.range = 448.0 if dtype == torch.float8_e4m3fn else torch.finfo(torch.float16).max / 2.0

    def encode(self, x, before, key):
        scale = x.abs().max() / self.range
        reciprocal = torch.where(scale > 0, scale.reciprocal(), 0.0)
        codes = (x * reciprocal).clamp(-65504, 65504).to(self.dtype)
        if self.dtype == torch.float8_e4m3fn:
            scale = torch.where(scale > 0, reciprocal.reciprocal(), scale)
        return {"": codes, ".scale": scale.reshape(1)}

    def decode(self, kept):
        return kept[""].float() * kept[".scale"]


class Blocks:
    """E4M3."""

    def encode(self, x, before, key):
        blocks = x.view(-1, 256)
        scale = blocks.abs().amax(-1).clip(1e-12) / 448.0
        return {"": (blocks / scale[:, None]).to(torch.float8_e4m3fn).view(-1), ".scale": scale}

    def decode(self, kept):
        return (kept[""].float().view(-1, 256) * kept[".scale"][:, None]).view(-1)

    def zero(self):
        return {"": torch.zeros(N).to(torch.float8_e4m3fn), ".scale": torch.zeros(N // 256)}


def dynamic_map(signed, exponent_bits, total_bits):
    data = []
    fraction_bits = total_bits - 1 - exponent_bits
    for i in range(exponent_bits):
        boundaries = torch.linspace(0.1, 1, 2 ** (i + fraction_bits + (0 if signed else 1)) + 1)
        means = (boundaries[:-1] + boundaries[1:]) / 2.0
        power = 10 ** (i - (exponent_bits - 1))
        data += (power * means).tolist()
        if signed:
            data += (-power * means).tolist()
    return torch.tensor(sorted(data + [0, 1.0]), dtype=torch.float32)


class Quantiles:
    def __init__(self, width, signed):
        self.width = width
        if width == 8:
            self.map, self.block = dynamic_map(signed, 7, 8), 256
        else:
            self.map = dynamic_map(True, 3, 4) if signed else torch.linspace(0, 1, 17)[1:]
            self.block = 128

    def encode(self, x, before, key):
        blocks = x.view(-1, self.block)
        scale = blocks.abs().amax(-1).clip(1e-12)
        y = (blocks / scale[:, None]).view(-1)
        # the largest quantile that is at most y; below all of them the first
        down = (torch.searchsorted(self.map, y, right=True) - 1).clamp(min=0)
        up = (down + 1).clamp(max=len(self.map) - 1)
        codes = torch.where(y - self.map[down] >= (self.map[up] - self.map[down]) * 0.5, up, down).to(torch.uint8)
        if self.width == 4:
            codes = (codes[::2] << 4) | codes[1::2]
        return {"": codes, ".scale": scale}

    def decode(self, kept):
        codes = kept[""]
        if self.width == 4:
            codes = torch.stack([codes >> 4, codes & 15], dim=-1).view(-1)
        return (self.map[codes.int()].view(-1, self.block) * kept[".scale"][:, None]).view(-1)

    def zero(self):
        return {"": torch.zeros(N * self.width // 8, dtype=torch.uint8), ".scale": torch.zeros(N // self.block)}


class Split:
    def encode(self, x, before, key):
        word = x.view(torch.int32)
        low = (word << 16) >> 16
        high = (word >> 16) + (low < 0).int()
        return {"": high.to(torch.int16).view(torch.bfloat16), ".remainder": low.to(torch.int16)}

    def decode(self, kept):
        low = kept[".remainder"].int()
        high = kept[""].view(torch.int16).int() - (low < 0).int()
        return ((high << 16) | (low & 0xFFFF)).view(torch.float32)


# --- steps: new p, m and v from p, g, m, v, t -------------------------------------------------------------------------------------

def torch_step(p, g, m, v, t, adamw):
    if not adamw:
        g = g + f32(DECAY) * p
    m = m + f32(1 - BETAS[0]) * (g - m)
    v = v * f32(BETAS[1]) + f32(1 - BETAS[1]) * g * g
    divisor = root(v) / f32((1 - BETAS[1] ** t) ** 0.5) + f32(EPS)
    kept = f32(1 - LR * DECAY if adamw else 1.0)
    return p * kept + f32(-LR / (1 - BETAS[0] ** t)) * m / divisor, m, v


def msamp_step(p, g, m, v, t, adamw):
    """msamp_adamw.adamw_fp8_stage1_compute: betas are floats, powers doubles, what follows from them floats."""
    b1, b2 = f32(BETAS[0]), f32(BETAS[1])
    if adamw:
        p = p * f32(1 - LR * DECAY)
    else:
        g = g + f32(DECAY) * p
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * (g * g)
    size = f32(LR) / f32(1 - float(b1) ** t)
    correction = root(f32(1 - float(b2) ** t))
    return p - size * (m / (root(v) / correction + f32(EPS))), m, v


def msamp_f32_step(p, g, m, v, t, adamw):
    """The branch of adamw.py for float states."""
    if adamw:
        p = p * f32(1 - LR * DECAY)
    else:
        g = g + f32(DECAY) * p
    m = m * f32(BETAS[0]) + f32(1 - BETAS[0]) * g
    v = v * f32(BETAS[1]) + f32(1 - BETAS[1]) * (g * g)
    divisor = root(v) / f32((1 - BETAS[1] ** t) ** 0.5) + f32(EPS)
    return p - f32(LR / (1 - BETAS[0] ** t)) * (m / divisor), m, v


def te_step(p, g, m, v, t, adamw):
    b1, b2 = f32(BETAS[0]), f32(BETAS[1])
    if not adamw:
        g = g + f32(DECAY) * p
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    divisor = root(v / f32(1 - float(b2) ** t)) + f32(EPS)
    update = (m / f32(1 - float(b1) ** t)) / divisor
    if adamw:
        update = update + f32(DECAY) * p
    return p - f32(LR) * update, m, v


def torchao_step(p, g, m, v, t, adamw):
    """single_param_adam; lerp as its definition, start + weight (end - start)."""
    if adamw:
        p = p - f32(LR) * f32(DECAY) * p
    else:
        g = g + f32(DECAY) * p
    step = torch.tensor(float(t))
    correction1 = 1 - BETAS[0] ** step
    correction2 = 1 - BETAS[1] ** step
    m = m + f32(1 - BETAS[0]) * (g - m)
    v = v + f32(1 - BETAS[1]) * (g.square() - v)
    divisor = root(v) / root(correction2) + f32(EPS)
    return p - f32(LR) * (m / correction1) / divisor, m, v


E4M3, F16 = torch.float8_e4m3fn, torch.float16
ENGINES = {
    "msamp": (msamp_step, PowerOfTwo(F16, True), PowerOfTwo(E4M3, False), PowerOfTwo(F16, False), True),
    "msamp-adam": (msamp_step, PowerOfTwo(F16, True), PowerOfTwo(E4M3, False), PowerOfTwo(F16, False), False),
    "msamp-O1": (msamp_f32_step, PowerOfTwo(F16, True), Plain(torch.float32), Plain(torch.float32), True),
    "te-fp16": (te_step, Fused(F16), Fused(E4M3), Fused(F16), True),
    "te-remainders": (te_step, Split(), Plain(torch.bfloat16), Fused(E4M3), True),
    "te-adam": (te_step, Plain(torch.float32), Fused(E4M3), Plain(torch.bfloat16), False),
    "torchao-int8": (torchao_step, Plain(torch.float32), Quantiles(8, True), Quantiles(8, False), True),
    "torchao-int4": (torchao_step, Plain(torch.float32), Quantiles(4, True), Quantiles(4, False), True),
    "torchao-fp8": (torchao_step, Stochastic(), Blocks(), Blocks(), True),
    "torchao-adam": (torchao_step, Plain(torch.float32), Quantiles(8, True), Quantiles(8, False), False),
    "bf16": (torch_step, Stochastic(), Stochastic(), Stochastic(), True),
    "bf16-nearest": (torch_step, Plain(torch.bfloat16), Plain(torch.bfloat16), Plain(torch.bfloat16), True),
}


def java_hash(text):
    h = 0
    for c in text:
        h = (31 * h + ord(c)) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


def run(name, after=None):
    step, pf, mf, vf, adamw = ENGINES[name]
    seed = key_of(0, java_hash("w"))
    p = pf.encode(numbers(1, 0.05), {}, seed)
    zero = torch.zeros(N)
    m = mf.zero() if hasattr(mf, "zero") else mf.encode(zero, {}, 0)
    v = vf.zero() if hasattr(vf, "zero") else vf.encode(zero, {}, 0)
    t = 0
    for s in range(1, STEPS + 1):
        g = numbers(100 + s, 1e-3)
        if s != BAD:
            t += 1
            new = step(pf.decode(p), g, mf.decode(m), vf.decode(v), t, adamw)
            keys = [key_of(key_of(seed, k), t) for k in range(3)]
            p, m, v = (f.encode(x, old, key) for f, x, old, key in zip((pf, mf, vf), new, (p, m, v), keys))
        for what, kept in (("w", p), ("exp_avg:w", m), ("exp_avg_sq:w", v)):
            for suffix, tensor in kept.items():
                data = tensor.contiguous().view(torch.uint8).numpy().tobytes()
                yield f"{name},{s},{what}{suffix},{hashlib.sha256(data).hexdigest()[:16]}"
        if after and s != BAD:
            after(g, p, m, v)


def compare(checkout):
    """torchao's own optimizers, step by step from the same states."""
    sys.path.insert(0, checkout)
    torch.compile = lambda f, **_: f
    from torchao import optim

    for name, kind in (("torchao-int8", "AdamW8bit"), ("torchao-int4", "AdamW4bit"), ("torchao-adam", "Adam8bit")):
        w = numbers(1, 0.05).clone().requires_grad_()
        optimizer = getattr(optim, kind)([w], lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
        found = []

        def after(g, p, m, v):
            w.grad = g.clone()
            optimizer.step()
            state = optimizer.state[w]
            found.append(((state["exp_avg"].codes != m[""]).sum().item(), (state["exp_avg_sq"].codes != v[""]).sum().item(),
                          (state["exp_avg"].scale != m[".scale"]).sum().item(), (w.detach() != p[""]).sum().item()))

        list(run(name, after))
        print(name, "differing codes of m and v, scales of m, parameters, summed over the steps:", np.sum(found, axis=0), "of", N * len(found), file=sys.stderr)


with open(sys.argv[1], "w") as out:
    for engine in ENGINES:
        for row in run(engine):
            print(row, file=out)
if len(sys.argv) > 2:
    compare(sys.argv[2])
