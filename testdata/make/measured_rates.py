"""Learning rates that follow evaluations: torch's ReduceLROnPlateau and transformers' GreedyLR.

usage: python measured_rates.py MEASURED.csv
made with torch 2.13.0 and transformers 5.18.0 on the CPU

A row: name | options (key=value, by spaces; GreedyLR's warmup as warmup_evaluations) | lr of the optimizer | a measure of each evaluation | the rate after it.
"""
import random
import sys

import torch
from transformers import get_scheduler

random.seed(20261127)


def walk(n, down, noise):
    level, all_ = 5.0, []
    for _ in range(n):
        level -= down * level
        all_.append(round(level + random.gauss(0, noise), 6))
    return all_


FALLING = walk(60, 0.03, 0.02)
FLAT = walk(60, 0.0, 0.05)
TURNING = walk(30, 0.05, 0.001) + walk(30, -0.02, 0.001)
WITH_NAN = FALLING[:5] + [float("nan")] * 3 + FALLING[5:20]
CASES = [
    ("reduce_lr_on_plateau", {}, 1e-3, FLAT),
    ("reduce_lr_on_plateau", {"patience": 1, "factor": 0.5}, 1e-3, FALLING),
    ("reduce_lr_on_plateau", {"patience": 2, "factor": 0.3, "cooldown": 3, "min_lr": 1e-5}, 1e-3, FLAT),
    ("reduce_lr_on_plateau", {"patience": 0, "threshold": 0.01, "threshold_mode": "abs"}, 3e-4, TURNING),
    ("reduce_lr_on_plateau", {"patience": 1, "mode": "max", "eps": 1e-4}, 1e-3, FALLING),
    ("reduce_lr_on_plateau", {"patience": 1, "mode": "max", "threshold_mode": "abs", "threshold": 0.1}, 1e-3, FLAT),
    ("reduce_lr_on_plateau", {"patience": 1}, 1e-3, WITH_NAN),
    ("greedy", {}, 5e-5, FALLING),
    ("greedy", {"patience": 2, "min_lr": 1e-5, "max_lr": 2e-3, "factor": 0.7}, 1e-3, TURNING),
    ("greedy", {"patience": 1, "min_lr": 1e-5, "max_lr": 1e-2, "cooldown": 2, "warmup": 3}, 1e-3, FALLING),
    ("greedy", {"patience": 0, "min_lr": 4e-4, "max_lr": 2e-3, "factor": 0.8, "reset_start": 3}, 1e-3, FLAT),
    ("greedy", {"patience": 0, "min_lr": 4e-4, "factor": 0.8, "reset_start": 2, "cooldown": 1, "smooth": True, "window_size": 4}, 1e-3, FLAT),
    ("greedy", {"patience": 1, "mode": "max", "min_lr": 1e-5, "threshold_mode": "rel", "threshold": 1e-3}, 1e-3, FALLING),
    ("greedy", {"patience": 1, "min_lr": 1e-5, "smooth": True, "window_size": 5}, 1e-3, TURNING),
]


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


with open(sys.argv[1], "w", encoding="utf-8") as out:
    for name, options, lr, measures in CASES:
        parameter = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.AdamW([parameter], lr=lr)
        schedule = get_scheduler(name, optimizer, 0, 100, options)
        rates = []
        for measure in measures:
            schedule.step(measure)
            rates.append(repr(float(optimizer.param_groups[0]["lr"])))
        written = " ".join(
            f"{'warmup_evaluations' if key == 'warmup' else key}={text(value)}" for key, value in options.items())
        print(name, written, repr(lr), " ".join(map(str, measures)), " ".join(rates), sep="|", file=out)
