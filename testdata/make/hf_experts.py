"""Makes ../models/tiny-hf/{mixtral,qwen2-moe,qwen3-moe}: random mixtures of experts, with the logits, losses and gradients that transformers computes for
them. Without arguments all, otherwise those named.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python hf_experts.py [NAME..]

As in hf_variants.py, F64 but for what transformers itself does in F32: the probabilities of routers too. transformers has the weights of a layer's experts
in one tensor and writes files with one for each; gradients are stored under the names of the files. Routers are scaled so that choices are clear: no
probability of a chosen expert is nearer to one not chosen than 1e-4.
"""

import json
import sys

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import hf_variants as v

MOE = dict(vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1,
           eos_token_id=2)


def split(gradients, block, names, mlp="mlp"):
    """Gradients by the names of files: experts.gate_up_proj [E, 2 I, H] is two matrices for each expert, down_proj [E, H, I] one."""
    gate, up, down = names
    for name in list(gradients):
        if f".{mlp}." in name:
            gradients[name.replace(f".{mlp}.", f".{block}.")] = gradients.pop(name)
    for name in list(gradients):
        if ".experts.gate_up_proj" in name:
            both = gradients.pop(name)
            for e in range(both.shape[0]):
                base = name.replace("gate_up_proj", f"{e}.")
                half = both.shape[1] // 2
                gradients[base + gate + ".weight"] = both[e, :half].contiguous()
                gradients[base + up + ".weight"] = both[e, half:].contiguous()
        elif ".experts.down_proj" in name:
            all_down = gradients.pop(name)
            for e in range(all_down.shape[0]):
                gradients[name.replace("down_proj", f"{e}.{down}.weight")] = all_down[e].contiguous()
    return gradients


def clear(model, given):
    """That no choice of a router is a close one, which rounding could turn."""
    logits = []
    hooks = [m.register_forward_hook(lambda m, i, o: logits.append(o[0] if isinstance(o, tuple) else o))
             for n, m in model.named_modules() if n.endswith("mlp.gate")]
    model(**given)
    for h in hooks:
        h.remove()
    for l in logits:
        p = l.float().softmax(-1).sort(-1, descending=True).values
        k = model.config.num_experts_per_tok
        assert (p[:, k - 1] - p[:, k]).min() > 1e-4, (p[:, k - 1] - p[:, k]).min()


def save(name, cls, config, given, block, names, scale):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    config._experts_implementation = "eager"  # the others do not compute in F64
    model = v.eager(cls, config)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("mlp.gate.weight"):
                p.mul_(scale)
    clear(model, given)
    folder = v.save(name, model, given)
    golden = load_file(folder / "golden.safetensors")
    save_file(split(golden, block, names), folder / "golden.safetensors")
    files = set(load_file(folder / "model.safetensors"))
    stored = {k[5:] for k in load_file(folder / "golden.safetensors") if k.startswith("grad.")}
    assert files == stored, files ^ stored


LLAMA = ("gate_proj", "up_proj", "down_proj")
# weights that add up to one, a window; as many tokens as tokenizer/words.json has
save("mixtral", tf.MixtralForCausalLM, tf.MixtralConfig(**MOE | dict(vocab_size=101), intermediate_size=24, num_local_experts=5, num_experts_per_tok=2, sliding_window=4),
     v.tokens(101, "right"), "block_sparse_moe", ("w1", "w3", "w2"), 1)
# a shared expert behind a gate, weights that do not add up to one, the first layer without experts
save("qwen2-moe", tf.Qwen2MoeForCausalLM, tf.Qwen2MoeConfig(
    **MOE | dict(num_hidden_layers=3), intermediate_size=24, moe_intermediate_size=12, shared_expert_intermediate_size=20, num_experts=6,
    num_experts_per_tok=3, mlp_only_layers=[0], norm_topk_prob=False), v.tokens(37, "right"), "mlp", LLAMA, 3)
# norms of heads, weights that add up to one, experts in every other layer
save("qwen3-moe", tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
    **MOE, head_dim=8, intermediate_size=24, moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=2,
    tie_word_embeddings=True), v.tokens(37, "right"), "mlp", LLAMA, 3)
