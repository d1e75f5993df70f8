"""Twenty steps of torch's optimizers, and learning-rate schedules of transformers.

usage: python optimizers.py OPTIMIZERS.safetensors SCHEDULES.csv
made with torch 2.13.0 and transformers 5.18.0 on the CPU

OPTIMIZERS: for each configuration below, NAME.start [n], NAME.gradients [20, n], NAME.parameters [20, n] (after each step), and the
optimizer's tensors after the last step. clip.*: gradients before and after clip_grad_norm_(1.0), and the norm it returns.
stableadamw*: algorithm 2 of Wortsman et al., arXiv:2304.13013, in plain torch, its betas debiased as there; exp_avg and exp_avg_sq are the debiased
moments times 1 - beta^t, as torch keeps them. averages.*: torch.optim.swa_utils.AveragedModel over 20 steps of AdamW, the average after each step
(zeros before the first).
SCHEDULES: name, warmup, steps, completed steps, factor (a double).
"""
import sys

import torch
from safetensors.torch import save_file
from transformers import (
    get_constant_schedule_with_warmup,
    get_cosine_schedule_with_warmup,
    get_linear_schedule_with_warmup,
)

N = 37
STEPS = 20
CONFIGURATIONS = {
    "adamw": (torch.optim.AdamW, dict(lr=1e-3)),
    "adamw_decay": (torch.optim.AdamW, dict(lr=3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)),
    "adam": (torch.optim.Adam, dict(lr=1e-3)),
    "adam_decay": (torch.optim.Adam, dict(lr=1e-2, weight_decay=0.1)),
    "sgd": (torch.optim.SGD, dict(lr=1e-2)),
    "sgd_decay": (torch.optim.SGD, dict(lr=1e-2, weight_decay=0.2)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=1e-2, momentum=0.9)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=1e-2, momentum=0.9, dampening=0.4, weight_decay=0.1)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=1e-2, momentum=0.8, nesterov=True, weight_decay=0.1)),
}


def optimizers():
    found = {}
    for i, (name, (kind, options)) in enumerate(CONFIGURATIONS.items()):
        generator = torch.Generator().manual_seed(100 + i)
        p = torch.randn(N, generator=generator).requires_grad_()
        found[name + ".start"] = p.detach().clone()
        gradients = torch.randn(STEPS, N, generator=generator) * torch.logspace(-4, 1, N)
        optimizer = kind([p], foreach=False, fused=False, **options)
        after = []
        for g in gradients:
            p.grad = g.clone()
            optimizer.step()
            after.append(p.detach().clone())
        found[name + ".gradients"] = gradients
        found[name + ".parameters"] = torch.stack(after)
        for key, value in optimizer.state[p].items():
            if key != "step" and value is not None:
                found[name + "." + key] = value.clone()
    for i, (name, options) in enumerate(STABLE.items()):
        found.update({f"{name}.{key}": value for key, value in stable_adamw(200 + i, **options).items()})
    found.update(averages())
    generator = torch.Generator().manual_seed(1)
    pair = [torch.randn(n, generator=generator).requires_grad_() for n in (29, 8)]
    for i, p in enumerate(pair):
        p.grad = torch.randn(p.shape, generator=generator)
        found[f"clip.{i}.before"] = p.grad.clone()
    found["clip.norm"] = torch.nn.utils.clip_grad_norm_(pair, 1.0).detach().reshape(1)
    for i, p in enumerate(pair):
        found[f"clip.{i}.after"] = p.grad.clone()
    return found


STABLE = {
    "stableadamw": dict(lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01),
    "stableadamw_decay": dict(lr=3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3),
}


def stable_adamw(seed, lr, betas, eps, weight_decay):
    generator = torch.Generator().manual_seed(seed)
    p = torch.randn(N, generator=generator)
    # gradients that jump by 30, so that updates are clipped
    jumps = torch.tensor([30.0 if s % 7 == 5 else 1.0 for s in range(STEPS)])
    gradients = torch.randn(STEPS, N, generator=generator) * torch.logspace(-4, 1, N) * jumps[:, None]
    found = {"start": p.clone(), "gradients": gradients}
    p, v, u = p.double(), torch.zeros(N, dtype=torch.float64), torch.zeros(N, dtype=torch.float64)
    after, clipped = [], 0
    for t, g in enumerate(gradients.double(), start=1):
        beta1 = betas[0] * (1 - betas[0] ** (t - 1)) / (1 - betas[0] ** t)
        beta2 = betas[1] * (1 - betas[1] ** (t - 1)) / (1 - betas[1] ** t)
        v = beta1 * v + (1 - beta1) * g
        u = beta2 * u + (1 - beta2) * g * g
        rms = (g * g / torch.clamp(u, min=eps * eps)).mean().sqrt()
        rate = lr / max(1.0, rms.item())
        clipped += rms.item() > 1
        p = p - rate * weight_decay * p - rate * v / (u.sqrt() + eps)
        after.append(p.float())
    assert clipped >= 3, clipped
    found["parameters"] = torch.stack(after)
    found["exp_avg"] = (v * (1 - betas[0] ** STEPS)).float()
    found["exp_avg_sq"] = (u * (1 - betas[1] ** STEPS)).float()
    return found


def averages():
    generator = torch.Generator().manual_seed(300)
    model = torch.nn.Linear(N, 1, bias=False)
    start = torch.randn(N, generator=generator)
    gradients = torch.randn(STEPS, N, generator=generator)
    found = {"averages.start": start, "averages.gradients": gradients}
    for name, decay, first, every in (("ema", 0.9, 0, 1), ("ema_later", 0.75, 5, 3), ("swa", None, 10, 2)):
        with torch.no_grad():
            model.weight.copy_(start[None])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-1)
        ema = None if decay is None else torch.optim.swa_utils.get_ema_multi_avg_fn(decay)
        average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=ema)
        after = []
        for s, g in enumerate(gradients, start=1):
            model.weight.grad = g[None].clone()
            optimizer.step()
            if s > first and (s - first) % every == 0:
                average.update_parameters(model)
            after.append(average.module.weight.detach()[0].clone() if average.n_averaged else torch.zeros(N))
        found["averages." + name] = torch.stack(after)
    return found


def schedules(out):
    kinds = {
        "constant": lambda o, w, n: get_constant_schedule_with_warmup(o, w),
        "linear": get_linear_schedule_with_warmup,
        "cosine": get_cosine_schedule_with_warmup,
    }
    for name, make in kinds.items():
        for warmup, steps in ((0, 7), (3, 10), (10, 10), (100, 1000)):
            optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
            factor = make(optimizer, warmup, steps).lr_lambdas[0]
            for done in sorted({0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 50, 99, 100, 101, 500, 999, 1000, 1001}):
                if done <= steps + 1:
                    print(name, warmup, steps, done, repr(float(factor(done))), sep=",", file=out)


save_file(optimizers(), sys.argv[1])
with open(sys.argv[2], "w", encoding="utf-8") as f:
    schedules(f)
