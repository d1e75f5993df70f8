"""Twenty steps of torch's optimizers, and learning-rate schedules of transformers.

usage: python optimizers.py OPTIMIZERS.safetensors SCHEDULES.csv
made with torch 2.13.0 and transformers 5.18.0 on the CPU

OPTIMIZERS: for each configuration below, NAME.start [n], NAME.gradients [20, n], NAME.parameters [20, n] (after each step), and the
optimizer's tensors after the last step. clip.*: gradients before and after clip_grad_norm_(1.0), and the norm it returns.
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
    generator = torch.Generator().manual_seed(1)
    pair = [torch.randn(n, generator=generator).requires_grad_() for n in (29, 8)]
    for i, p in enumerate(pair):
        p.grad = torch.randn(p.shape, generator=generator)
        found[f"clip.{i}.before"] = p.grad.clone()
    found["clip.norm"] = torch.nn.utils.clip_grad_norm_(pair, 1.0).detach().reshape(1)
    for i, p in enumerate(pair):
        found[f"clip.{i}.after"] = p.grad.clone()
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
