"""Logits of quantised checkpoints as kernels for their codes would compute them, emulated with PyTorch in F32.

python testdata/make/fp8_activations.py: reads ../checkpoints/foreign, which other tools quantised, writes ../golden/fp8-activations. Weights are
decoded; what quantised Linears read is rounded to E4M3, INT8 or NVFP4 and back:

ct-fp8-static   with the input_scale of the file, the largest of q, k, v and of gate, up, as engines fuse these; once more ("cache") with keys and values rounded with the scales K and V below,
                and ("attention") with queries, keys and values rounded with those of HEADS for each head
ct-fp8-dynamic  one scale for each token, amax / 448
hf-fp8-block    one scale for each 128 neighbours of a token, amax / 448
ct-int8         one scale for each token, amax / 127
ct-nvfp4        an E4M3 scale for each 16 neighbours of a token under the input_global_scale of the file, a divisor, as in compressed-tensors

"plain" are the logits without any rounding of activations.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ROOT = Path(__file__).parent.parent
OUT = ROOT / "golden" / "fp8-activations"
K, V = 0.03125, 0.0078125
HEADS = [[0.03125, 0.0078125, 0.015625, 0.0625], [0.0625, 0.0234375], [0.0078125, 0.0029296875]]  # of queries, keys, values


def rounded(x, scale):
    return torch.clamp(x / scale, -448, 448).to(torch.float8_e4m3fn).to(torch.float32) * scale


def static(scale):
    return lambda x: rounded(x, scale)


def token(x):
    return rounded(x, x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 448)


def group(x):
    split = x.reshape(*x.shape[:-1], -1, 128)
    return token(split).reshape(x.shape)


def integers(x):
    scale = x.abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127
    return torch.clamp(torch.round(x / scale), -128, 127) * scale


LEVELS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e2m1(x):
    """The nearest level; of two as near the one with the even code."""
    distance = (x.abs().clamp(max=6)[..., None] - LEVELS).abs()
    even = torch.arange(8) % 2 == 0
    return torch.copysign(LEVELS[(distance - 1e-9 * even).argmin(-1)], x)


def four_bits(divisor):
    def round_(x):
        split = x.reshape(*x.shape[:-1], -1, 16)
        block = (split.abs().amax(-1, keepdim=True) / 6 * divisor).clamp(2.0**-9, 448).to(torch.float8_e4m3fn).float() / divisor
        return (e2m1(split / block) * block).reshape(x.shape)

    return round_


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


def attend_rounded(module, *inputs_and_rest, **kwargs):
    inputs = [rounded(x, torch.tensor(s)[:, None, None]) for x, s in zip(inputs_and_rest, HEADS)]
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, *inputs, *inputs_and_rest[3:], **kwargs)


def decoded(tensors):
    state, inputs = {}, {}
    for name, t in tensors.items():
        if name.endswith("weight_packed"):
            module = name.removesuffix(".weight_packed")
            levels = torch.cat([LEVELS, -LEVELS])
            values = levels[torch.stack([t & 15, t >> 4], -1).long()].reshape(t.shape[0], -1)
            scale = tensors[module + ".weight_scale"].float() / tensors[module + ".weight_global_scale"]
            state[module + ".weight"] = values * scale.repeat_interleave(16, 1)
            inputs[module] = tensors[module + ".input_global_scale"]
        elif t.dtype == torch.int8:
            state[name] = t.float() * tensors[name + "_scale"].float()
            inputs[name.removesuffix(".weight")] = None
        elif t.dtype == torch.float8_e4m3fn and name.endswith("weight"):
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
WAYS = {"ct-fp8-static": None, "ct-fp8-dynamic": token, "hf-fp8-block": group, "ct-int8": integers, "ct-nvfp4": four_bits}
for name, way in WAYS.items():
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
            quantise = way(scale.float()) if way is four_bits else way or static(scale)
            model.get_submodule(module).register_forward_pre_hook(lambda _, args, q=quantise: (q(args[0]),))
        out[name] = model(ids).logits
        if way is None:
            out[name + ".cache"] = model(ids, past_key_values=RoundingCache(config=config), use_cache=True).logits
            ALL_ATTENTION_FUNCTIONS.register("rounded", attend_rounded)
            ALL_MASK_ATTENTION_FUNCTIONS.register("rounded", ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
            model.set_attn_implementation("rounded")
            out[name + ".attention"] = model(ids, use_cache=False).logits
    for key in [k for k in out if k.startswith(name) and not k.endswith("plain")]:
        print(key, ((out[key] - out[name + ".plain"]).norm() / out[name + ".plain"].norm()).item())
save_file(out, OUT / "logits.safetensors")
