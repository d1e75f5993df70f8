"""Learning rates of whole runs by the schedules of transformers, DeepSpeed and torch.

usage: python schedules.py LR_SCHEDULES.py RATES.csv
made with torch 2.13.0, transformers 5.18.0 and deepspeed/runtime/lr_schedules.py of DeepSpeed at commit edaa722, on the CPU

A row: name | options (key=value, by spaces) | lr of the optimizer | warm-up | steps of the run | the rate of each step, five beyond the run too |
beta1 of each step where the schedule changes it. A list in options has commas. Each rate is the one that the optimizer has when its step is taken; the schedule is
advanced after it, as both libraries' loops do.
"""
import importlib.util
import logging
import sys
import types

import torch
from transformers import get_scheduler

BEYOND = 5
TRANSFORMERS = [
    ("constant", {}, 1e-3, 0, 12),
    ("constant_with_warmup", {}, 1e-3, 4, 12),
    ("linear", {}, 3e-4, 3, 20),
    ("linear", {}, 3e-4, 0, 20),
    ("cosine", {}, 3e-4, 3, 20),
    ("cosine", {"num_cycles": 1.5}, 3e-4, 3, 20),
    ("cosine_with_restarts", {}, 1e-3, 3, 25),
    ("cosine_with_restarts", {"num_cycles": 3}, 1e-3, 4, 31),
    ("polynomial", {}, 1e-3, 5, 25),
    ("polynomial", {"lr_end": 1e-5, "power": 2.5}, 2e-3, 5, 25),
    ("inverse_sqrt", {}, 1e-3, 6, 30),
    ("inverse_sqrt", {}, 1e-3, 0, 30),
    ("inverse_sqrt", {"timescale": 11}, 1e-3, 6, 30),
    ("cosine_with_min_lr", {"min_lr": 1e-4}, 1e-3, 4, 24),
    ("cosine_with_min_lr", {"min_lr_rate": 0.25, "num_cycles": 1.0}, 1e-3, 4, 24),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}, 1e-3, 4, 24),
    ("cosine_warmup_with_min_lr", {"min_lr": 2e-4, "warmup_lr_rate": 0.05}, 1e-3, 4, 24),
    ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}, 1e-3, 0, 10),
    ("warmup_stable_decay", {"num_decay_steps": 8}, 1e-3, 5, 30),
    ("warmup_stable_decay", {"num_decay_steps": 8, "num_stable_steps": 4, "min_lr_ratio": 0.1, "decay_type": "linear"}, 1e-3, 5, 30),
    ("warmup_stable_decay", {"num_decay_steps": 9, "warmup_type": "cosine", "decay_type": "1-sqrt", "min_lr_ratio": 0.05}, 1e-3, 6, 30),
    ("warmup_stable_decay", {"num_decay_steps": 9, "warmup_type": "1-sqrt", "num_cycles": 1.25}, 1e-3, 6, 30),
]
DEEPSPEED = [
    ("WarmupLR", {"warmup_num_steps": 8}, 1e-3, 20),
    ("WarmupLR", {"warmup_num_steps": 8, "warmup_type": "linear", "warmup_min_lr": 1e-5, "warmup_max_lr": 5e-4}, 1e-3, 20),
    ("WarmupLR", {"warmup_num_steps": 1, "warmup_max_lr": 5e-4}, 1e-3, 6),
    ("WarmupLR", {}, 1e-3, 1010),
    ("WarmupDecayLR", {"total_num_steps": 24, "warmup_num_steps": 6}, 1e-3, 24),
    ("WarmupDecayLR", {"total_num_steps": 24, "warmup_num_steps": 6, "warmup_type": "linear", "warmup_min_lr": 1e-6, "warmup_max_lr": 2e-3}, 1e-3, 30),
    ("WarmupCosineLR", {"total_num_steps": 24, "warmup_num_steps": 6}, 1e-3, 24),
    ("WarmupCosineLR", {"total_num_steps": 24, "warmup_num_steps": 6, "warmup_type": "linear", "warmup_min_ratio": 0.2, "cos_min_ratio": 0.05}, 1e-3, 24),
    ("WarmupCosineLR", {"total_num_steps": 6, "warmup_num_steps": 8}, 1e-3, 12),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 7}, 1e-3, 24),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 5, "cycle_second_step_size": 9, "decay_step_size": 3,
                  "decay_lr_rate": 0.5, "decay_mom_rate": 0.01, "cycle_min_mom": 0.85, "cycle_max_mom": 0.95}, 1e-3, 30),
    ("OneCycle", {"cycle_min_lr": 1e-4, "cycle_max_lr": 1e-3, "cycle_first_step_size": 10, "cycle_first_stair_count": 4,
                  "cycle_second_stair_count": 3, "cycle_momentum": False}, 1e-3, 30),
    ("LRRangeTest", {}, 1e-3, 20),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-5, "lr_range_test_step_size": 4, "lr_range_test_step_rate": 2.5}, 1e-3, 20),
    ("LRRangeTest", {"lr_range_test_min_lr": 1e-5, "lr_range_test_step_size": 4, "lr_range_test_staircase": True}, 1e-3, 20),
]
TORCH = [
    ("StepLR", {"step_size": 4}, 1e-3, 20),
    ("StepLR", {"step_size": 3, "gamma": 0.7}, 3e-4, 20),
    ("MultiStepLR", {"milestones": [3, 11, 11, 15]}, 1e-3, 20),
    ("MultiStepLR", {"milestones": [9, 2], "gamma": 0.5}, 1e-3, 20),
    ("ConstantLR", {}, 1e-3, 12),
    ("ConstantLR", {"factor": 0.25, "total_iters": 8}, 1e-3, 12),
    ("LinearLR", {}, 1e-3, 12),
    ("LinearLR", {"start_factor": 0.8, "end_factor": 0.1, "total_iters": 9}, 1e-3, 14),
    ("ExponentialLR", {"gamma": 0.93}, 1e-3, 30),
    ("PolynomialLR", {}, 1e-3, 10),
    ("PolynomialLR", {"total_iters": 14, "power": 2.5}, 1e-3, 16),
    ("CosineAnnealingLR", {"T_max": 12}, 1e-3, 40),
    ("CosineAnnealingLR", {"T_max": 20, "eta_min": 1e-5}, 3e-4, 20),
    ("CosineAnnealingWarmRestarts", {"T_0": 7}, 1e-3, 25),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 1e-5}, 1e-3, 30),
    ("CyclicLR", {"base_lr": 1e-4, "max_lr": 1e-3, "step_size_up": 5}, 5e-4, 30),
    ("CyclicLR", {"base_lr": 1e-4, "max_lr": 1e-3, "step_size_up": 4, "step_size_down": 7, "mode": "triangular2", "base_momentum": 0.85,
                  "max_momentum": 0.95}, 5e-4, 40),
    ("CyclicLR", {"base_lr": 1e-4, "max_lr": 1e-3, "step_size_up": 6, "mode": "exp_range", "gamma": 0.97}, 5e-4, 30),
    ("CyclicLR", {"base_lr": 1e-4, "max_lr": 1e-3, "step_size_up": 6, "cycle_momentum": False}, 5e-4, 20),
    ("OneCycleLR", {"max_lr": 1e-3, "total_steps": 40}, 5e-4, 35),
    ("OneCycleLR", {"max_lr": 1e-3, "total_steps": 50, "pct_start": 0.2, "anneal_strategy": "linear", "div_factor": 10.0, "final_div_factor": 100.0},
     5e-4, 45),
    ("OneCycleLR", {"max_lr": 1e-3, "total_steps": 45, "pct_start": 0.25, "three_phase": True, "base_momentum": 0.8, "max_momentum": 0.9}, 5e-4, 40),
    ("OneCycleLR", {"max_lr": 1e-3, "total_steps": 30, "pct_start": 0.0, "cycle_momentum": False}, 5e-4, 25),
]


def deepspeed(path):
    logging.disable(logging.WARNING)
    for name in ("deepspeed", "deepspeed.utils"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["deepspeed.utils"].logger = logging.getLogger("deepspeed")
    spec = importlib.util.spec_from_file_location("lr_schedules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text(value):
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


def run(name, options, lr, warmup, steps, make, momentum, out):
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    optimizer = torch.optim.AdamW([parameter], lr=lr)
    schedule = make(optimizer)
    rates, moms = [], []
    for _ in range(steps + BEYOND):
        rates.append(repr(float(optimizer.param_groups[0]["lr"])))
        moms.append(repr(float(optimizer.param_groups[0]["betas"][0])))
        optimizer.step()
        schedule.step()
    written = " ".join(f"{key}={text(value)}" for key, value in options.items())
    print(name, written, repr(lr), warmup, steps, " ".join(rates), " ".join(moms) if momentum else "", sep="|", file=out)


library = deepspeed(sys.argv[1])
with open(sys.argv[2], "w", encoding="utf-8") as f:
    for name, options, lr, warmup, steps in TRANSFORMERS:
        run(name, options, lr, warmup, steps, lambda o: get_scheduler(name, o, warmup, steps, options), False, f)
    for name, options, lr, steps in DEEPSPEED:
        momentum = name == "OneCycle" and options.get("cycle_momentum", True)
        run(name, options, lr, 0, steps, lambda o: getattr(library, name)(o, **options), momentum, f)
    for name, options, lr, steps in TORCH:
        momentum = name in ("CyclicLR", "OneCycleLR") and options.get("cycle_momentum", True)
        run(name, options, lr, 0, steps, lambda o: getattr(torch.optim.lr_scheduler, name)(o, **options), momentum, f)
