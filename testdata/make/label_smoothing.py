"""Cross-entropy with smoothed labels, and its gradient.

usage: python label_smoothing.py OUT.safetensors
made with torch 2.13.0 and transformers 5.18.0 on the CPU, in F64, stored as F32

scores [3, 5, 7], labels [3, 5] (-100 counts nowhere). For each s of 10, 50, 100 percent and each type: TYPE.sS.loss by transformers' LabelSmoother, which
is that of torch.nn.functional.cross_entropy (checked here), and TYPE.sS.gradient of the scores. Types: cross-entropy, causal-lm (the label of a position
is the next one).
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers.trainer_pt_utils import LabelSmoother

g = torch.Generator().manual_seed(20261127)
scores = (2 * torch.randn(3, 5, 7, generator=g)).double().requires_grad_()
labels = torch.randint(0, 7, (3, 5), generator=g)
labels[0, 1] = labels[1, 3] = labels[2, 4] = -100
found = {"scores": scores, "labels": labels}
for kind in ("cross-entropy", "causal-lm"):
    for percent in (10, 50, 100):
        shift = kind == "causal-lm"
        loss = LabelSmoother(epsilon=percent / 100)({"logits": scores}, labels, shift_labels=shift)
        x, y = (scores[:, :-1], labels[:, 1:]) if shift else (scores, labels)
        torch.testing.assert_close(
            loss, F.cross_entropy(x.flatten(0, 1), y.flatten(), label_smoothing=percent / 100), rtol=1e-6, atol=1e-7)
        (gradient,) = torch.autograd.grad(loss, scores)
        found[f"{kind}.s{percent}.loss"] = loss
        found[f"{kind}.s{percent}.gradient"] = gradient
save_file(
    {k: v.detach().contiguous() if v.dtype == torch.int64 else v.detach().float().contiguous() for k, v in found.items()},
    sys.argv[1])
