"""The factors of SmoothQuant and AWQ, and AWQ's clips, as the reference code computes them, in torch.

SmoothQuant: mit-han-lab/smoothquant c61476d, smooth.py. AWQ: mit-han-lab/llm-awq d6e797a, auto_scale.py and auto_clip.py; its duo scaling:
llm-compressor ab1ba3e, modifiers/awq. The formulas are theirs, the code is not. The error is that of the Linears' outputs, and clips are
measured on all tokens.

Usage: transforms.py OUT.safetensors
"""

import sys

import ml_dtypes
import torch
from safetensors.torch import save_file

GROUP = 16
RATIOS = 20


def fake_quantised(w):
    """E2M1 in groups of 16 along the rows, scale amax / 6 in F32."""
    g = w.float().reshape(-1, GROUP)
    scale = g.abs().amax(dim=1, keepdim=True) / 6
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (g / scale).numpy().astype(ml_dtypes.float4_e2m1fn).astype("float32")
    return (torch.from_numpy(codes) * scale).reshape(w.shape)


def smooth(x, weights, alpha):
    act = x.abs().amax(dim=0)
    weight = torch.cat([w.abs().amax(dim=0, keepdim=True) for w in weights]).max(dim=0)[0].clamp(min=1e-5)
    return (act.double().pow(alpha) / weight.double().pow(1 - alpha)).clamp(min=1e-5)


def awq(x, weights, duo):
    mean = x.double().abs().mean(dim=0)
    whole = torch.cat(weights, dim=0)
    groups = whole.double().reshape(-1, GROUP).abs()
    w_mean = (groups / (groups.amax(dim=1, keepdim=True) + 1e-6)).reshape(whole.shape).mean(dim=0)
    losses, best = [], None
    for i in range(RATIOS):
        r = i / RATIOS
        s = mean.pow(r) / (w_mean.pow(1 - r) + 1e-4) if duo else mean.pow(r)
        s = s.clamp(min=1e-4)
        s = s / (s.max() * s.min()).sqrt()
        q = fake_quantised((whole.double() * s).float()).double() / s
        loss = ((x.double() @ whole.double().T - x.double() @ q.T) ** 2).mean()
        losses.append(loss)
        if best is None or loss < best[0]:
            best = (loss, r, s)
    return torch.stack(losses), torch.tensor([best[1]], dtype=torch.float64), best[2]


def clipped(x, w):
    """Each group of a row clipped to what loses least on the outputs of the group alone."""
    out = w.clone()
    for row in range(w.shape[0]):
        for g in range(0, w.shape[1], GROUP):
            part, seen = w[row, g : g + GROUP], x[:, g : g + GROUP].double()
            top, least, kept = part.abs().max(), None, None
            for i in range(10):
                clip = (top.double() * (1 - i / 20)).float()
                q = fake_quantised(part.clamp(-clip, clip)[None])[0]
                loss = ((seen @ (q.double() - part.double())) ** 2).mean()
                if least is None or loss < least:
                    least, kept = loss, clip
            out[row, g : g + GROUP] = part.clamp(-kept, kept)
    return out


def main():
    torch.manual_seed(21)
    x = torch.randn(64, 32) * torch.exp(torch.randn(32) * 1.5)
    weights = [torch.randn(24, 32) * 0.1, torch.randn(16, 32) * 0.1]
    result = {"x": x, "w1": weights[0], "w2": weights[1]}
    for alpha in (0.5, 0.9):
        result[f"smooth.{alpha}"] = smooth(x, weights, alpha)
    for name, duo in (("plain", False), ("duo", True)):
        losses, ratio, factors = awq(x, weights, duo)
        result |= {f"{name}.losses": losses, f"{name}.ratio": ratio, f"{name}.factors": factors}
        print(name, ratio.item(), losses.min().item() / losses[0].item())
    s = result["plain.factors"]
    scaled = (weights[0].double() * s).float()
    result["scaled"] = scaled
    result["clipped"] = clipped((x.double() / s), scaled)
    print("clipped", (result["clipped"] != scaled).float().mean().item())
    save_file(result, sys.argv[1], metadata={"made by": "testdata/make/transforms.py"})


main()
