"""Twenty steps of Adafactor, Adagrad, LAMB, Lion and Muon.

usage: python other_optimizers.py RATES.csv OPTIMIZERS.safetensors
made with torch 2.13.0 and transformers 5.18.0 on the CPU

For each configuration NAME and each tensor i of SHAPES that it takes: NAME.i.start, NAME.i.gradients [20, ..], NAME.i.parameters [20, ..] (after each step), and the
optimizer's tensors after the last step, NAME.i.exp_avg etc. All in F32, computed in F64 but where named.

adafactor*: transformers.optimization.Adafactor; torch_adafactor*: torch.optim.Adafactor; adagrad*: torch.optim.Adagrad. muon_f32*: torch.optim.Muon whose products are in F64 in place of BF16 (its
cast to BF16 is replaced by one to F64); muon_bf16: as it is. lion*: the update of google/automl's lion_pytorch.py, in F32. lamb*: the formulas of apex
(csrc/multi_tensor_lamb.cu), lamb_deepspeed*: those of DeepSpeed (csrc/lamb/fused_lamb_cuda_kernel.cu, commit edaa722). adamw_cycle: torch.optim.AdamW with the
rates and betas of the second OneCycle of RATES.csv (make/schedules.py).
"""
import sys

import torch
from safetensors.torch import save_file
from transformers.optimization import Adafactor

STEPS = 20
SHAPES = [(4, 6), (6, 4), (5,), (), (2, 3, 4)]
MATRICES = [0, 1]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m * beta1 + p.grad * (1 - beta1)).sign(), alpha=-group["lr"])
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, bias_correction=True, use_nvlamb=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.bias_correction, self.use_nvlamb = bias_correction, use_nvlamb

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                v = state.setdefault("exp_avg_sq", torch.zeros_like(p))
                t = state["step"] = state.get("step", 0) + 1
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                bc1, bc2 = (1 - beta1**t, 1 - beta2**t) if self.bias_correction else (1, 1)
                update = (m / bc1) / ((v / bc2).sqrt() + group["eps"]) + group["weight_decay"] * p
                ratio = 1.0
                if self.use_nvlamb or group["weight_decay"] != 0:
                    pn, un = p.norm().item(), update.norm().item()
                    ratio = pn / un if pn != 0 and un != 0 else 1.0
                p.sub_(group["lr"] * ratio * update)


class DeepSpeedLamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, bias_correction=True, max_coeff=10.0, min_coeff=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self.bias_correction, self.max_coeff, self.min_coeff = bias_correction, max_coeff, min_coeff

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                v = state.setdefault("exp_avg_sq", torch.zeros_like(p))
                t = state["step"] = state.get("step", 0) + 1
                m.copy_(beta1 * m + (1 - beta1) * p.grad)
                v.copy_(beta2 * v + (1 - beta2) * p.grad * p.grad)
                size = group["lr"]
                if self.bias_correction:
                    size *= (1 - beta2**t) ** 0.5 / (1 - beta1**t)
                update = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                pn, un = p.norm().item(), update.norm().item()
                ratio = min(max(pn / un, self.min_coeff), self.max_coeff) if pn != 0 and un != 0 else 1.0
                p.sub_(size * ratio * update)


class Muon64(torch.optim.Muon):
    def step(self):
        cast = torch.Tensor.bfloat16
        torch.Tensor.bfloat16 = lambda x: x.clone()
        try:
            super().step()
        finally:
            torch.Tensor.bfloat16 = cast


ALL = range(len(SHAPES))
FIXED = dict(scale_parameter=False, relative_step=False, warmup_init=False)
F64, F32 = torch.float64, torch.float32
CONFIGURATIONS = {
    "adafactor": (Adafactor, dict(lr=1e-2, **FIXED), ALL, F64),
    "adafactor_decay": (Adafactor, dict(lr=1e-2, weight_decay=0.2, clip_threshold=0.4, decay_rate=-0.6, eps=(1e-8, 1e-3), **FIXED), ALL, F64),
    "adafactor_relative": (Adafactor, dict(weight_decay=0.1, scale_parameter=True, relative_step=True), ALL, F64),
    "adafactor_warmup": (Adafactor, dict(scale_parameter=True, relative_step=True, warmup_init=True, eps=(1e-30, 0.7)), ALL, F64),
    "adafactor_moment": (Adafactor, dict(lr=3e-2, beta1=0.8, weight_decay=0.05, scale_parameter=True, relative_step=False), ALL, F64),
    "torch_adafactor": (torch.optim.Adafactor, dict(eps=(2.0**-23, 1e-3)), ALL, F64),
    "torch_adafactor_decay": (torch.optim.Adafactor, dict(lr=0.3, weight_decay=0.1, eps=(1e-3, 1e-2), d=2.0, beta2_decay=-0.5), ALL, F64),
    "lion": (Lion, dict(lr=1e-3), ALL, F32),
    "lion_decay": (Lion, dict(lr=3e-3, betas=(0.95, 0.98), weight_decay=0.5), ALL, F32),
    "lamb": (Lamb, dict(lr=1e-2), ALL, F64),
    "lamb_nodecay": (Lamb, dict(lr=1e-2, weight_decay=0.0), ALL, F64),
    "lamb_always": (Lamb, dict(lr=1e-2, weight_decay=0.0, use_nvlamb=True, bias_correction=False), ALL, F64),
    "lamb_deepspeed": (DeepSpeedLamb, dict(lr=1e-2), ALL, F64),
    "lamb_deepspeed_decay": (DeepSpeedLamb, dict(lr=1e-2, weight_decay=0.3, max_coeff=0.5, min_coeff=0.2, betas=(0.8, 0.95)), ALL, F64),
    "muon_f32": (Muon64, dict(lr=2e-2), MATRICES, F64),
    "muon_f32_plain": (Muon64, dict(lr=2e-2, weight_decay=0.0, nesterov=False, momentum=0.8, adjust_lr_fn="match_rms_adamw"), MATRICES, F64),
    "muon_f32_cubic": (Muon64, dict(lr=2e-2, ns_coefficients=(1.5, -0.5, 0.0), ns_steps=7), MATRICES, F64),
    "muon_bf16": (torch.optim.Muon, dict(lr=2e-2), MATRICES, F32),
}

cycle = [line.strip("\n").split("|") for line in open(sys.argv[1], encoding="utf-8") if line.startswith("OneCycle")][1]
CYCLE = list(zip(map(float, cycle[5].split()), map(float, cycle[6].split())))
CONFIGURATIONS["adagrad"] = (torch.optim.Adagrad, dict(), ALL, F64)
CONFIGURATIONS["adagrad_decay"] = (torch.optim.Adagrad, dict(lr=0.3, lr_decay=0.2, weight_decay=0.1, eps=1e-3), ALL, F64)
CONFIGURATIONS["adamw_cycle"] = (torch.optim.AdamW, dict(lr=1e-3, weight_decay=0.1), ALL, F64)

found = {}
for k, (name, (kind, options, shapes, dtype)) in enumerate(CONFIGURATIONS.items()):
    generator = torch.Generator().manual_seed(500 + k)
    tensors, gradients = {}, {}
    for i in shapes:
        tensors[i] = torch.randn(SHAPES[i], generator=generator).to(dtype).requires_grad_()
        sizes = torch.logspace(-3, 1, max(1, tensors[i].numel())).reshape(SHAPES[i])
        gradients[i] = torch.randn((STEPS, *SHAPES[i]), generator=generator) * sizes
        if i == 2:
            gradients[i][:, 1] = 0  # an element that never gets a gradient
        found[f"{name}.{i}.start"] = tensors[i].detach().float().clone()
        found[f"{name}.{i}.gradients"] = gradients[i]
    optimizer = kind(list(tensors.values()), **options)
    after = {i: [] for i in shapes}
    for s in range(STEPS):
        for i, p in tensors.items():
            p.grad = gradients[i][s].to(dtype)
        if name == "adamw_cycle":
            optimizer.param_groups[0]["lr"] = CYCLE[s][0]
            optimizer.param_groups[0]["betas"] = (CYCLE[s][1], 0.99)
        optimizer.step()
        for i, p in tensors.items():
            after[i].append(p.detach().float().clone())
    for i, p in tensors.items():
        found[f"{name}.{i}.parameters"] = torch.stack(after[i])
        for key, value in optimizer.state[p].items():
            if torch.is_tensor(value) and key not in ("step", "RMS"):
                found[f"{name}.{i}.{key}"] = value.detach().float().clone()
save_file(found, sys.argv[2])
