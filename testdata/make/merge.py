#!/usr/bin/env python3
"""Adapters for testdata/checkpoints/llama and testdata/models/tiny-hf/gpt2, and what PEFT merges them to.

peft 0.21, torch, safetensors, all in F32:  python testdata/make/merge.py testdata/golden/merge
For each case a PEFT folder, and merged.safetensors with the tensors that merge_and_unload changed. Adapters are random, not trained; B is not zero.
"""
import json, os, sys
import torch
from peft import IA3Config, LNTuningConfig, LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.dirname(HERE)
LLAMA = os.path.join(DATA, "models", "tiny-hf", "llama")
GPT2 = os.path.join(DATA, "models", "tiny-hf", "gpt2")


def make(out, name, base, config, seed, size=0.2):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float32)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    peft = get_peft_model(model, config)
    with torch.no_grad():
        for n, p in peft.named_parameters():
            if not p.requires_grad:
                continue
            if "magnitude" in n:
                p.mul_(1 + 0.1 * torch.randn_like(p))
            elif "ia3" in n or "ln_tuning" in n or "modules_to_save" in n or n.endswith("bias"):
                p.add_(0.1 * torch.randn_like(p))
            else:
                p.copy_(size * torch.randn_like(p))
    folder = os.path.join(out, name)
    peft.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md")) if os.path.exists(os.path.join(folder, "README.md")) else None
    file = os.path.join(folder, "adapter_config.json")
    text = json.load(open(file))
    text["base_model_name_or_path"] = os.path.basename(base)
    json.dump(text, open(file, "w"), indent=2, sort_keys=True)
    merged = peft.merge_and_unload(safe_merge=True).state_dict()
    changed = {k: v.contiguous() for k, v in merged.items() if not torch.equal(v, before[k])}
    for k in list(changed):  # tied
        if k == "lm_head.weight" and "wte" in str(list(changed)):
            del changed[k]
    save_file(changed, os.path.join(folder, "merged.safetensors"))
    print(name, len(changed))


def main(out):
    lora = dict(r=4, lora_alpha=8, task_type="CAUSAL_LM")
    make(out, "lora", LLAMA, LoraConfig(target_modules=["q_proj", "v_proj", "up_proj"], **lora), 1)
    make(out, "lora-all", LLAMA, LoraConfig(target_modules="all-linear", **lora), 2)
    make(out, "rslora", LLAMA, LoraConfig(target_modules=["q_proj", "o_proj"], use_rslora=True, rank_pattern={"o_proj": 2},
                                          alpha_pattern={"o_proj": 3}, **lora), 3)
    make(out, "dora", LLAMA, LoraConfig(target_modules=["q_proj", "down_proj"], use_dora=True, **lora), 4)
    make(out, "ia3", LLAMA, IA3Config(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"],
                                      task_type="CAUSAL_LM"), 5)
    make(out, "ln", LLAMA, LNTuningConfig(target_modules=["input_layernorm", "norm"], task_type="CAUSAL_LM"), 6)
    make(out, "saved", LLAMA, LoraConfig(target_modules=["q_proj"], modules_to_save=["lm_head"], **lora), 7)
    make(out, "embedding", LLAMA, LoraConfig(target_modules=["embed_tokens", "q_proj"], **lora), 8)
    make(out, "gpt2-lora", GPT2, LoraConfig(target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, bias="lora_only", **lora), 9)
    make(out, "gpt2-dora", GPT2, LoraConfig(target_modules=["c_attn", "c_fc"], fan_in_fan_out=True, use_dora=True, **lora), 10)
    make(out, "gpt2-bias", GPT2, LoraConfig(target_modules=["c_fc"], fan_in_fan_out=True, lora_bias=True, **lora), 11)


if __name__ == "__main__":
    main(sys.argv[1])
