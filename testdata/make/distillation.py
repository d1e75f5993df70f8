"""Losses against a teacher, against labels, and both, with their gradients.

usage: python distillation.py OUT.safetensors
made with torch 2.13.0 on the CPU, in F64, stored as F32

student, teacher [3, 5, 7], targets [3, 5, 7] (for mse and cosine), labels [3, 5] (-100 counts nowhere), attention_mask [3, 5]. For each
case below NAME.loss, NAME.gradient (of the student), and, where the loss is a sum, NAME.task and NAME.distillation. Cases:
TYPE.wW.tT.COUNTED; W percent of the teacher, temperature T, positions counted by labels (labels), attention_mask (mask) or all.
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

g = torch.Generator().manual_seed(20261122)
student = torch.randn(3, 5, 7, generator=g).double().requires_grad_()
teacher = (2 * torch.randn(3, 5, 7, generator=g)).double()
targets = torch.randn(3, 5, 7, generator=g).double()
labels = torch.randint(0, 7, (3, 5), generator=g)
labels[0, 0] = labels[1, 3] = labels[2, 4] = -100
mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])

found = {
    "student": student, "teacher": teacher, "targets": targets, "labels": labels, "attention_mask": mask,
}


def mean(rows, weights):
    return (rows * weights).sum() / weights.sum()


def divergence(s, t, temperature, weights):
    rows = F.kl_div(F.log_softmax(s / temperature, -1), F.softmax(t / temperature, -1), reduction="none").sum(-1)
    return temperature**2 * mean(rows, weights)


def entropy(s, wanted):
    return F.cross_entropy(s.flatten(0, -2), wanted.flatten(), ignore_index=-100)


def case(name, percent, task, distillation):
    w = percent / 100
    loss = w * distillation if task is None else w * distillation + (1 - w) * task
    (gradient,) = torch.autograd.grad(loss, student, retain_graph=True)
    found[name + ".loss"] = loss
    found[name + ".gradient"] = gradient
    if task is not None:
        found[name + ".task"] = task
        found[name + ".distillation"] = distillation


ones = torch.ones(3, 5).double()
for temperature in (1.0, 2.5):
    t = format(temperature, "g")
    case(f"cross-entropy.w100.t{t}.all", 100, None, divergence(student, teacher, temperature, ones))
    case(f"cross-entropy.w100.t{t}.mask", 100, None, divergence(student, teacher, temperature, mask.double()))
    counted = (labels != -100).double()
    same = divergence(student, teacher, temperature, counted)
    case(f"cross-entropy.w100.t{t}.labels", 100, None, same)
    case(f"cross-entropy.w30.t{t}.labels", 30, entropy(student, labels), same)
    s, l = student[:, :-1], labels[:, 1:]
    shifted = divergence(s, teacher[:, :-1], temperature, (l != -100).double())
    case(f"causal-lm.w100.t{t}.labels", 100, None, shifted)
    case(f"causal-lm.w60.t{t}.labels", 60, entropy(s, l), shifted)
    case(f"causal-lm.w100.t{t}.mask", 100, None, divergence(student, teacher, temperature, mask.double()))


def squares(target, weights):
    return mean(((student - target) ** 2).mean(-1), weights)


def cosine(target, weights):
    return mean(1 - F.cosine_similarity(student, target, dim=-1), weights)


for name, distance in (("mse", squares), ("cosine", cosine)):
    for counted, weights in (("all", ones), ("mask", mask.double())):
        case(f"{name}.w100.t1.{counted}", 100, None, distance(teacher, weights))
        case(f"{name}.w25.t1.{counted}", 25, distance(targets, weights), distance(teacher, weights))

save_file(
    {k: (v if v.dtype == torch.int64 else v.detach().float()).contiguous() for k, v in found.items()}, sys.argv[1]
)
