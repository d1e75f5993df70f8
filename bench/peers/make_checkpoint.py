"""Makes checkpoints to measure with. Made for torch 2.13 and safetensors 0.8.

make_checkpoint.py llama OUT GIGABYTES
    A Llama with hidden size 2048 in BF16, random weights of deviation 0.02, one shard for each layer and one for embeddings and head. As
    many layers (138 MB each) as it takes to reach GIGABYTES (10^9 bytes), at least one.
make_checkpoint.py headers OUT SHARDS
    A DeepSeek-like mixture of experts in the block layout of "fp8": one layer of about 300 tensors for each shard, FP8 weights with a scale
    for each block. Only headers and scales are written; the weights are holes in the files, zeros that take no space on the disk.
"""

import json
import os
import struct
import sys

HIDDEN, INNER, VOCABULARY = 2048, 8192, 32000
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
    "hidden_act": "silu", "max_position_embeddings": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def llama(out, gigabytes):
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    random = lambda *shape: torch.randn(shape).mul_(0.02).to(torch.bfloat16)
    ones = lambda: torch.ones(HIDDEN, dtype=torch.bfloat16)

    def layer(i):
        prefix = f"model.layers.{i}."
        shapes = {
            "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN // 4, HIDDEN), "self_attn.v_proj": (HIDDEN // 4, HIDDEN),
            "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
            "mlp.down_proj": (HIDDEN, INNER),
        }
        tensors = {f"{prefix}{name}.weight": random(*shape) for name, shape in shapes.items()}
        return tensors | {f"{prefix}{name}.weight": ones() for name in ("input_layernorm", "post_attention_layernorm")}

    ends = {"model.embed_tokens.weight": random(VOCABULARY, HIDDEN), "model.norm.weight": ones(),
            "lm_head.weight": random(VOCABULARY, HIDDEN)}
    size = lambda tensors: sum(t.numel() * t.element_size() for t in tensors.values())
    per_layer = 2 * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * HIDDEN // 4 + 3 * HIDDEN * INNER + 2 * HIDDEN)
    layers = max(1, -(-int(gigabytes * 1e9 - size(ends)) // per_layer))
    shards, where, total = layers + 1, {}, 0
    for i in range(shards):
        tensors = layer(i) if i < layers else ends
        name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file(tensors, os.path.join(out, name), metadata={"format": "pt"})
        where |= dict.fromkeys(tensors, name)
        total += size(tensors)
    write_json(out, "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})
    write_json(out, "config.json", LLAMA | {"num_hidden_layers": layers})
    print(f"{layers} layers, {total / 1e9:.3f} GB")


def headers(out, shards):
    hidden, inner, experts = 256, 128, 48
    where, total = {}, 0
    for i in range(shards):
        prefix = f"model.layers.{i}."
        weights = {f"self_attn.{p}_proj": (hidden, hidden) for p in "qkvo"}
        for e in range(experts):
            for p in ("gate", "up"):
                weights[f"mlp.experts.{e}.{p}_proj"] = (inner, hidden)
            weights[f"mlp.experts.{e}.down_proj"] = (hidden, inner)
        scales = {f"{prefix}{m}.weight_scale_inv": ("F32", [r // 128, c // 128], 4) for m, (r, c) in weights.items()}
        plain = {f"{prefix}{n}.weight": ("BF16", shape, 2) for n, shape in
                 (("input_layernorm", [hidden]), ("post_attention_layernorm", [hidden]), ("mlp.gate", [experts, hidden]))}
        codes = {f"{prefix}{m}.weight": ("F8_E4M3", list(shape), 1) for m, shape in weights.items()}
        if i == 0:
            plain |= {"model.embed_tokens.weight": ("BF16", [128, hidden], 2), "model.norm.weight": ("BF16", [hidden], 2),
                      "lm_head.weight": ("BF16", [128, hidden], 2)}
        header, offset, scale_bytes = {"__metadata__": {"format": "pt"}}, 0, 0
        name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        for group in (scales, plain, codes):
            for key in sorted(group):
                dtype, shape, width = group[key]
                count = 1
                for dim in shape:
                    count *= dim
                header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + count * width]}
                offset += count * width
                scale_bytes = offset if group is scales else scale_bytes
                where[key] = name
        total += offset
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(out, name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + struct.pack("<f", 0.0005) * (scale_bytes // 4))
            file.truncate(8 + len(text) + offset)
    write_json(out, "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})
    write_json(out, "config.json", {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": hidden, "intermediate_size": inner,
        "moe_intermediate_size": inner, "num_experts": experts, "num_experts_per_tok": 4, "num_hidden_layers": shards,
        "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 128, "rms_norm_eps": 1e-6, "hidden_act": "silu",
        "decoder_sparse_step": 1, "mlp_only_layers": [], "max_position_embeddings": 4096, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128],
                                "modules_to_not_convert": ["lm_head"] + [f"model.layers.{i}.mlp.gate" for i in range(shards)]},
    })
    print(f"{len(where)} tensors in {shards} shards, {total / 1e9:.3f} GB of which most are holes")


def main(kind, out, size):
    os.makedirs(out, exist_ok=True)
    llama(out, float(size)) if kind == "llama" else headers(out, int(size))


main(*sys.argv[1:])
