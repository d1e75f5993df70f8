"""The peers of bench/run-gpu in PyTorch, each as one JSON line; the arguments are those of dev.octet.bench.gpu.GpuBench.

    limits | products ROWSxINxOUT... | cast ROWSxCOLS | step MODEL bf16|fp8 BATCH STEPS

Products are torch._scaled_mm with one scale for each operand. Steps: weights, gradients and moments in F32, autocast to BF16, torch.compile,
fused AdamW; in FP8 the Linears of the layers are torchao's (tensorwise, dynamic scaling) where it is installed, otherwise Float8Linear below,
which is the same arithmetic on torch._scaled_mm. Architectures are transformers' ViTForImageClassification and GPT2LMHeadModel, written plainly.
--device cpu and --eager show that the models work, and are no measure.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

ROUNDS, RUNS = 7, 20
WARM_UP = 5
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def micros(work):
    """Microseconds of one run: the median of rounds, behind one that does not count."""
    times = []
    for _ in range(ROUNDS + 1):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(RUNS):
            work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / RUNS)
    return statistics.median(times[1:])


def noise(rows, cols, dtype):
    return torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16).to(dtype)


def fp8_micros(m, n, k, a, b, out):
    """a [m, k] times b, which lies as [n, k]; fast sums for fprop only."""
    x, w, one = noise(m, k, a), noise(n, k, b), torch.ones((), device="cuda")
    fast = a == b and out == torch.bfloat16
    return micros(lambda: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=fast))


def limits():
    size, n = 4 << 30, 8192
    source, target = torch.zeros(size, dtype=torch.uint8, device="cuda"), torch.empty(size, dtype=torch.uint8, device="cuda")
    copy = micros(lambda: target.copy_(source))
    del source, target
    x, w = noise(n, n, torch.bfloat16), noise(n, n, torch.bfloat16)
    bf16 = micros(lambda: x @ w.t())
    fp8 = fp8_micros(n, n, n, E4M3, E4M3, torch.bfloat16)
    return {"limits": {"copyGigabytes": 2 * size / copy / 1e3, "bf16Teraflops": 2 * n**3 / bf16 / 1e6,
                       "fp8Teraflops": 2 * n**3 / fp8 / 1e6}}


def products(shapes):
    rows = []
    for shape in shapes:
        m, k, n = (int(d) for d in shape.split("x"))
        for role, a, b, c, left, out in (("fprop", m, n, k, E4M3, torch.bfloat16), ("dgrad", m, k, n, E5M2, torch.bfloat16),
                                         ("wgrad", n, k, m, E5M2, torch.float32)):
            took = fp8_micros(a, b, c, left, E4M3, out)
            rows.append({"shape": shape, "role": role, "micros": took, "teraflops": 2 * a * b * c / took / 1e6})
    return {"products": rows}


def cast(shape):
    rows, cols = (int(d) for d in shape.split("x"))
    x, scale = noise(rows, cols, torch.bfloat16), torch.ones((), device="cuda")

    @torch.compile
    def codes(x, scale):
        y = (x.float() * scale).clamp(-448, 448).to(E4M3)
        return y, y.t().contiguous(), x.abs().amax()

    took = micros(lambda: codes(x, scale))
    return {"cast": {"rows": rows, "cols": cols, "micros": took, "gigabytes": 4 * rows * cols / took / 1e3}}


def quantized(x, dtype):
    """Codes of a matrix and their scale, from its own amax."""
    scale = torch.finfo(dtype).max / x.abs().amax().float().clamp(min=1e-12)
    limit = torch.finfo(dtype).max
    return (x.float() * scale).clamp(-limit, limit).to(dtype), 1 / scale


class Float8Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        xq, xs = quantized(x, E4M3)
        wq, ws = quantized(w, E4M3)
        ctx.save_for_backward(xq, xs, wq, ws)
        return torch._scaled_mm(xq, wq.t(), scale_a=xs, scale_b=ws, out_dtype=torch.bfloat16, use_fast_accum=True)

    @staticmethod
    def backward(ctx, dy):
        xq, xs, wq, ws = ctx.saved_tensors
        gq, gs = quantized(dy, E5M2)
        dx = torch._scaled_mm(gq, wq.t().contiguous().t(), scale_a=gs, scale_b=ws, out_dtype=torch.bfloat16)
        dw = torch._scaled_mm(gq.t().contiguous(), xq.t().contiguous().t(), scale_a=gs, scale_b=xs, out_dtype=torch.bfloat16)
        return dx, dw


class Float8Linear(nn.Linear):
    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
        with torch.autocast(x.device.type, enabled=False):
            y = Float8Product.apply(rows, self.weight.to(torch.bfloat16))
        return y.reshape(*x.shape[:-1], -1) + self.bias.to(torch.bfloat16)


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.reshape(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, inner, causal, epsilon):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.attention = Attention(width, heads, causal)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.gelu = "tanh" if causal else "none"

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.narrow(F.gelu(self.wide(self.ln_2(x)), approximate=self.gelu))


class Vit(nn.Module):
    def __init__(self, width, layers, heads, inner, image, patch, labels):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(Block(width, heads, inner, False, 1e-12) for _ in range(layers))
        self.norm = nn.LayerNorm(width, 1e-12)
        self.classifier = nn.Linear(width, labels)
        self.image, self.labels, self.unit, self.units = image, labels, "images", 1

    def batch(self, rows):
        return torch.randn(rows, 3, self.image, self.image), torch.randint(self.labels, (rows,))

    def forward(self, x, labels):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1).to(x.dtype), x], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.classifier(self.norm(x)[:, 0]).float(), labels)


class Gpt2(nn.Module):
    def __init__(self, width, layers, heads, positions, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.layers = nn.ModuleList(Block(width, heads, 4 * width, True, 1e-5) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.vocabulary, self.unit, self.units = vocabulary, "tokens", positions

    def batch(self, rows):
        tokens = torch.randint(self.vocabulary, (rows, self.units))
        return tokens, tokens.clone()

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.wte.weight)
        # as Octet's: the last position has no label
        return F.cross_entropy(logits[:, :-1].reshape(-1, self.vocabulary).float(), labels[:, 1:].reshape(-1))


MODELS = {
    "vit-huge": lambda: Vit(1280, 32, 16, 5120, 224, 14, 1000), "vit-small": lambda: Vit(64, 2, 4, 128, 32, 8, 10),
    "gpt2": lambda: Gpt2(768, 12, 12, 1024, 50257), "gpt2-small": lambda: Gpt2(64, 2, 4, 32, 128),
}


def initialize(model):
    for name, p in model.named_parameters():
        if p.dim() >= 2:
            nn.init.normal_(p, 0, 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(p)


def to_float8(model):
    """The Linears of the layers in FP8; says with what."""
    try:
        from torchao.float8 import convert_to_float8_training
        for layer in model.layers:
            convert_to_float8_training(layer)
        return "torchao"
    except ImportError:
        for module in list(model.layers.modules()):
            if type(module) is nn.Linear:
                module.__class__ = Float8Linear
        return "torch._scaled_mm"


def step(name, precision, batch, count, device, eager):
    torch.manual_seed(1)
    model = MODELS[name]()
    initialize(model)
    model.to(device).train()
    fp8 = to_float8(model) if precision == "fp8" else ""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, fused=device == "cuda")
    run = model if eager else torch.compile(model)
    on_gpu = device == "cuda"
    inputs = [t.pin_memory() if on_gpu else t for t in model.batch(batch)]
    losses, millis = [], []
    for i in range(WARM_UP + count):
        start = time.perf_counter()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = run(*(t.to(device, non_blocking=True) for t in inputs))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if i >= WARM_UP:
            millis.append((time.perf_counter() - start) * 1e3)
        if i == WARM_UP - 1 and on_gpu:
            torch.cuda.reset_peak_memory_stats()
    median = statistics.median(millis)
    return {"parameters": sum(p.numel() for p in model.parameters()), "millis": millis, "median_ms": median,
            "per_second": 1e3 / median * batch * model.units, "unit": model.unit, "fp8": fp8,
            "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0, "losses": losses}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["limits", "products", "cast", "step"])
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--eager", action="store_true")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("PyTorch sees no GPU: " + torch.__version__)
    torch.set_float32_matmul_precision("high")
    a = options.arguments
    if options.what == "limits":
        result = limits()
    elif options.what == "products":
        result = products(a)
    elif options.what == "cast":
        result = cast(a[0])
    else:
        result = step(a[0], a[1], int(a[2]), int(a[3]), options.device, options.eager)
    print(json.dumps(result | {"torch": torch.__version__, "cuda": torch.version.cuda or ""}))


main()
