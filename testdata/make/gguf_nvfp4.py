"""Makes ../golden/gguf/nvfp4.json: the blocks that the weights of ../checkpoints/foreign/ct-nvfp4 have in a GGUF file.

Versions: gguf 0.19.0, numpy 2.4.6, torch 2.13.0, safetensors 0.8.0. Run: python gguf_nvfp4.py

For each matrix the SHA-256 of its blocks, by the layout of ggml's block_nvfp4: 4 scales of 16 elements (E4M3 without a sign), then for each 16 elements 8
bytes, element j in the low half and j + 8 in the high one. Rows of q and k are reordered as llama.cpp's conversion of Llama does it. "scale" and
"input_scale" are the inverses of compressed-tensors' divisors, as F32. What gguf.quants.dequantize makes of the blocks is compared here with codes times
scales.
"""

import hashlib
import json
import pathlib

import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from gguf import quants
from safetensors import safe_open

HERE = pathlib.Path(__file__).parent
MODEL = HERE.parent / "checkpoints" / "foreign" / "ct-nvfp4"
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def reordered(rows, heads):
    return np.arange(rows).reshape(heads, 2, rows // heads // 2).swapaxes(1, 2).reshape(-1)


config = json.loads((MODEL / "config.json").read_text())
heads = {"self_attn.q_proj": config["num_attention_heads"], "self_attn.k_proj": config["num_key_value_heads"]}
found = {}
with safe_open(MODEL / "model.safetensors", "pt") as file:
    for module, name in NAMES.items():
        get = lambda what: file.get_tensor(f"model.layers.0.{module}.{what}")
        packed, scales = get("weight_packed").numpy(), get("weight_scale")
        values = scales.float().numpy()
        scales = scales.view(torch.uint8).numpy()
        rows, columns = packed.shape[0], packed.shape[1] * 2
        if module in heads:
            order = reordered(rows, heads[module])
            packed, scales, values = packed[order], scales[order], values[order]
        codes = np.stack([packed & 15, packed >> 4], -1).reshape(rows, columns // 16, 16)
        pairs = codes[:, :, :8] | codes[:, :, 8:] << 4
        blocks = np.concatenate([scales.reshape(rows, -1, 4), pairs.reshape(rows, -1, 32)], -1).reshape(rows, -1)
        expected = (E2M1[codes] * values[:, :, None]).reshape(rows, columns)
        assert np.array_equal(quants.dequantize(blocks, T.NVFP4), expected)
        one = lambda what: float(np.float32(1) / get(what).numpy()[0])
        found[f"blk.0.{name}"] = {"sha256": hashlib.sha256(blocks.tobytes()).hexdigest(), "scale": one("weight_global_scale"),
                                  "input_scale": one("input_global_scale")}
(HERE.parent / "golden" / "gguf" / "nvfp4.json").write_text(json.dumps(found, indent=1) + "\n")
