"""Makes ../golden/hf/rotary.json: frequencies and magnitudes of rotary positions by every rope_type, as transformers computes them for configurations like
those of published models, with texts of several lengths.

Versions: transformers 5.18.0, torch 2.13.0. Run: python hf_rotary.py
"""

import json
import pathlib
import struct

import torch
import transformers as tf
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

OUT = pathlib.Path(__file__).parent.parent / "golden" / "hf" / "rotary.json"


def case(name, kind, embedding, lengths, **settings):
    config = kind(hidden_size=1024, num_attention_heads=8, **settings)
    rows = []
    for length in lengths:
        module = embedding(config)
        positions = torch.arange(length)[None]
        cos, _ = module(torch.zeros(1), positions)
        # at position 0 the cosine is the magnitude
        rows.append({"length": length, "magnitude": float(cos[0, 0, 0]),
                     "inv_freq": ["%08x" % struct.unpack("<I", struct.pack("<f", float(f)))[0] for f in module.inv_freq]})
    written = {k: v for k, v in config.to_dict().items() if k in ("max_position_embeddings", "original_max_position_embeddings", "rope_parameters", "model_type")}
    return {"name": name, "head_size": 128, "config": written, "texts": rows}


def llama(name, lengths=(5,), longest=4096, **rope):
    return case(name, tf.LlamaConfig, LlamaRotaryEmbedding, lengths, max_position_embeddings=longest, rope_parameters=rope)


def phi3(name, lengths, original, longest, **rope):
    return case(name, tf.Phi3Config, Phi3RotaryEmbedding, lengths, max_position_embeddings=longest, original_max_position_embeddings=original,
                rope_parameters=rope)


def factors(n, top):
    return [round(1 + (top - 1) * (i / n) ** 2, 4) for i in range(n)]


cases = [
    llama("default", rope_type="default", rope_theta=1000000.0),
    llama("linear", rope_type="linear", rope_theta=10000.0, factor=2.5),
    llama("dynamic", (5, 64, 65, 200), 64, rope_type="dynamic", rope_theta=10000.0, factor=2.0),
    llama("yarn, as Qwen2.5", rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768),
    llama("yarn with all its keys", rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0,
          truncate=False),
    llama("yarn with scales, as DeepSeek", rope_type="yarn", rope_theta=10000.0, factor=40.0, original_max_position_embeddings=4096, mscale=0.707,
          mscale_all_dim=1.0),
    llama("yarn with a magnitude", rope_type="yarn", rope_theta=10000.0, factor=8.0, original_max_position_embeddings=2048, attention_factor=0.75),
    llama("llama3", rope_type="llama3", rope_theta=500000.0, factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192),
    llama("proportional", rope_type="proportional", rope_theta=1000000.0, partial_rotary_factor=0.25, factor=2.0),
    phi3("longrope, as Phi-3.5", (5, 64, 65), 64, 2048, rope_type="longrope", rope_theta=10000.0, short_factor=factors(64, 3), long_factor=factors(64, 60)),
    phi3("longrope of a part, as Phi-4-mini", (5, 65), 64, 2048, rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
         short_factor=factors(48, 1), long_factor=factors(48, 50)),
]
OUT.write_text(json.dumps(cases, indent=1) + "\n")
