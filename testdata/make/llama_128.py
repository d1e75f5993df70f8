"""Makes ../checkpoints/llama-128 and ../checkpoints/llama-128-small: random Llamas in BF16 whose Linear weights divide by 128.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python llama_128.py

The weights are wider spread than a fresh initialisation and some input columns stand out, as in trained models: so logits differ clearly
from one another, and a scale put at the wrong place shows. llama-128 has two shards. The small one is what make/foreign_checkpoints.py
starts from.
"""

import pathlib

import torch
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).parent.parent / "checkpoints"


def make(name, hidden, intermediate, layers, vocabulary, heads, kv_heads, shard):
    torch.manual_seed(20261121)
    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, vocab_size=vocabulary, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=64, max_position_embeddings=128, tie_word_embeddings=False, dtype="bfloat16",
        bos_token_id=1, eos_token_id=2)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.copy_(torch.randn_like(weight) / weight.shape[1] ** 0.5)
                if "proj" in key:
                    weight[:, torch.randperm(weight.shape[1])[: weight.shape[1] // 64]] *= 6
            else:
                weight.copy_(1 + 0.1 * torch.randn_like(weight))
    model.to(torch.bfloat16).save_pretrained(OUT / name, max_shard_size=shard)


make("llama-128", hidden=256, intermediate=384, layers=2, vocabulary=256, heads=4, kv_heads=2, shard="1500KB")
make("llama-128-small", hidden=128, intermediate=256, layers=1, vocabulary=128, heads=4, kv_heads=2, shard="5GB")
