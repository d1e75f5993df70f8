"""Logits of quantised checkpoints as kernels for FP8 would compute them, emulated with PyTorch in F32.

python testdata/make/fp8_activations.py: reads ../checkpoints/foreign, which other tools quantised, writes ../golden/fp8-activations. Weights are
decoded; what quantised Linears read is rounded to E4M3 and back:

ct-fp8-static   with the input_scale of the file, the largest of q, k, v and of gate, up, as engines fuse these; once more ("cache") with keys and values rounded with the scales K and V below
ct-fp8-dynamic  one scale for each token, amax / 448
hf-fp8-block    one scale for each 128 neighbours of a token, amax / 448

"plain" are the logits without any rounding of activations.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

ROOT = Path(__file__).parent.parent
OUT = ROOT / "golden" / "fp8-activations"
K, V = 0.03125, 0.0078125


def rounded(x, scale):
    return torch.clamp(x / scale, -448, 448).to(torch.float8_e4m3fn).to(torch.float32) * scale


def static(scale):
    return lambda x: rounded(x, scale)


def token(x):
    return rounded(x, x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448)


def group(x):
    split = x.reshape(*x.shape[:-1], -1, 128)
    return token(split).reshape(x.shape)


def fused(inputs):
    def largest(module):
        parent, _, last = module.rpartition(".")
        for names in (["q_proj", "k_proj", "v_proj"], ["gate_proj", "up_proj"]):
            if last in names:
                return max(inputs[f"{parent}.{n}"].float() for n in names)
        return inputs[module].float()

    return {module: largest(module) for module in inputs}


class RoundingCache(DynamicCache):
    def update(self, keys, values, *args, **kwargs):
        return super().update(rounded(keys, K), rounded(values, V), *args, **kwargs)


def decoded(tensors):
    state, inputs = {}, {}
    for name, t in tensors.items():
        if t.dtype == torch.float8_e4m3fn:
            scale = tensors.get(name + "_scale", tensors.get(name + "_scale_inv")).float()
            if name + "_scale_inv" in tensors:
                scale = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: t.shape[0], : t.shape[1]]
            state[name] = t.float() * scale
            inputs[name.removesuffix(".weight")] = tensors.get(name.removesuffix("weight") + "input_scale")
        elif not name.endswith(("_scale", "_scale_inv")):
            state[name] = t.float()
    return state, inputs


OUT.mkdir(parents=True, exist_ok=True)
torch.manual_seed(20261122)
ids = torch.randint(0, 128, (2, 24))
out = {"input_ids": ids}
for name, way in {"ct-fp8-static": None, "ct-fp8-dynamic": token, "hf-fp8-block": group}.items():
    folder = ROOT / "checkpoints" / "foreign" / name
    state, inputs = decoded(load_file(folder / "model.safetensors"))
    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    model.load_state_dict(state)
    with torch.no_grad():
        out[name + ".plain"] = model(ids).logits
        for module, scale in (inputs if way else fused(inputs)).items():
            quantise = way or static(scale)
            model.get_submodule(module).register_forward_pre_hook(lambda _, args, q=quantise: (q(args[0]),))
        out[name] = model(ids).logits
        if way is None:
            out[name + ".cache"] = model(ids, past_key_values=RoundingCache(config=config), use_cache=True).logits
    for key in [k for k in out if k.startswith(name) and not k.endswith("plain")]:
        print(key, ((out[key] - out[name + ".plain"]).norm() / out[name + ".plain"].norm()).item())
save_file(out, OUT / "logits.safetensors")
