"""Makes ../models/tiny-hf/{qwen3,mistral,llama3,llama-linear,qwen2-window,bert-bare,gpt2-hub,vit-bare,gemma,gemma2}: random models that between them use what the
importer of Hugging Face checkpoints has to know, with the logits (or hidden states), losses and gradients that transformers computes for them.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python hf_variants.py

Everything is computed in F64 but for what transformers itself does in F32 (RMSNorm, rotary angles), and stored as F32. Where a padded position may
look at nothing, transformers gives NaN in F64, so these two (qwen3, qwen2-window) are computed in F32. Padded positions have
the label -100. `out.*` of padded positions is left as transformers gives it: tests compare the others.
"""

import json
import pathlib
import shutil

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

OUT = pathlib.Path(__file__).parent.parent / "models" / "tiny-hf"


def randomise(model):
    generator = torch.Generator().manual_seed(20261122)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            norm = p.dim() == 1 and "bias" not in name
            p.copy_(1 + 0.2 * noise if norm else 0.3 * noise)


def tokens(vocabulary, padding, labels=True):
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(3, vocabulary, (2, 9), generator=generator)
    mask = torch.ones_like(ids)
    if padding == "right":
        mask[1, 6:] = 0
    elif padding == "left":
        mask[1, :3] = 0
    given = {"input_ids": ids, "attention_mask": mask}
    if labels:
        given["labels"] = torch.where(mask == 1, ids, torch.full_like(ids, -100))
        if padding == "left":  # predicted at a padded position, which looks at nothing
            given["labels"][1, 3] = -100
    return given


def save(name, model, given, shard="5GB", exact=True):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=shard)
    golden = {"in." + k: v.contiguous() for k, v in given.items()}
    dtype = torch.float64 if exact else torch.float32
    model.to(dtype)
    fed = {k: v.to(dtype) if v.is_floating_point() else v for k, v in given.items()}
    out = model(**fed)
    for key in ("logits", "last_hidden_state", "pooler_output", "start_logits", "end_logits"):
        if getattr(out, key, None) is not None:
            golden["out." + key] = getattr(out, key).detach().float().contiguous()
    if out.get("loss") is not None:
        golden["out.loss"] = out.loss.detach().float().reshape(1)
        out.loss.backward()
        for n, p in model.named_parameters():
            if p.grad is not None:  # tables of sines have none
                golden["grad." + n] = p.grad.float().contiguous()
    save_file(golden, folder / "golden.safetensors")
    for extra in ("generation_config.json",):
        (folder / extra).unlink(missing_ok=True)
    return folder


def eager(cls, config):
    torch.manual_seed(1)
    config._attn_implementation = "eager"
    model = cls(config).eval()
    randomise(model)
    return model


SMALL = dict(vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
             bos_token_id=1, eos_token_id=2)

def main():
    # heads of another size than hidden / heads, norms on q and k, tied, padded on the left
    save("qwen3", eager(tf.Qwen3ForCausalLM, tf.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True)),
         tokens(37, "left"), exact=False)
    # a window that is shorter than the text
    save("mistral", eager(tf.MistralForCausalLM, tf.MistralConfig(**SMALL, num_key_value_heads=1, sliding_window=4)), tokens(37, "right"))
    # stretched rotary angles, biases everywhere
    save("llama3", eager(tf.LlamaForCausalLM, tf.LlamaConfig(
        **SMALL | dict(hidden_size=32), num_key_value_heads=2, head_dim=16, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=16))), tokens(37, "right"))
    # linear rotary angles, in three shards, with the keys of old files
    folder = save("llama-linear", eager(tf.LlamaForCausalLM, tf.LlamaConfig(
        **SMALL, num_key_value_heads=4, tie_word_embeddings=False,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.5))), tokens(37, "right"), shard="6KB")
    config = json.loads((folder / "config.json").read_text())
    del config["rope_parameters"], config["dtype"], config["head_dim"]
    config |= dict(rope_theta=10000.0, rope_scaling=dict(type="linear", factor=2.5), torch_dtype="float32", transformers_version="4.30.0")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    # a window in the upper layer only
    save("qwen2-window", eager(tf.Qwen2ForCausalLM, tf.Qwen2Config(
        **SMALL, num_key_value_heads=2, use_sliding_window=True, sliding_window=3, max_window_layers=1, tie_word_embeddings=False)),
        tokens(37, "right"), exact=False)
    # no head, and names as files before transformers 1.0 have them
    folder = save("bert-bare", eager(tf.BertModel, tf.BertConfig(**SMALL, hidden_act="gelu_new", type_vocab_size=3)),
                  tokens(37, "right", labels=False) | {"token_type_ids": torch.arange(18).reshape(2, 9) % 3})
    old = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
           for k, v in load_file(folder / "model.safetensors").items()}
    old["embeddings.position_ids"] = torch.arange(64).reshape(1, 64)
    save_file(old, folder / "model.safetensors", metadata={"format": "pt"})
    # names without prefix and masks as parameters, as the hub's gpt2 has them
    folder = save("gpt2-hub", eager(tf.GPT2LMHeadModel, tf.GPT2Config(
        vocab_size=37, n_embd=16, n_layer=2, n_head=4, n_positions=32, n_inner=40, activation_function="relu",
        scale_attn_by_inverse_layer_idx=True, bos_token_id=1, eos_token_id=2)), tokens(37, "right"))
    hub = {k.removeprefix("transformer."): v for k, v in load_file(folder / "model.safetensors").items()}
    for i in range(2):
        hub[f"h.{i}.attn.bias"] = torch.ones(32, 32).tril().reshape(1, 1, 32, 32)
    save_file(hub, folder / "model.safetensors", metadata={"format": "pt"})
    golden = load_file(folder / "golden.safetensors")
    save_file({k.replace("grad.transformer.", "grad."): v for k, v in golden.items()}, folder / "golden.safetensors")
    # no head, images that are no squares, no biases on q, k and v
    save("vit-bare", eager(tf.ViTModel, tf.ViTConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=(8, 12), patch_size=(4, 4), num_channels=2,
        qkv_bias=False)), {"pixel_values": torch.randn(2, 2, 8, 12, generator=torch.Generator().manual_seed(3))})
    # norms whose weight is an offset from one, embeddings scaled by the root of the hidden size, heads of another size, tied
    save("gemma", eager(tf.GemmaForCausalLM, tf.GemmaConfig(**SMALL | dict(hidden_size=24), num_key_value_heads=1, head_dim=8, pad_token_id=0)),
         tokens(37, "right"))
    # capped scores and logits, norms behind attention and MLP, a window in the lower layer only
    save("gemma2", eager(tf.Gemma2ForCausalLM, tf.Gemma2Config(
        **SMALL, num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12, sliding_window=4, attn_logit_softcapping=2.0,
        final_logit_softcapping=1.5, pad_token_id=0)), tokens(37, "right"))


if __name__ == "__main__":
    main()
