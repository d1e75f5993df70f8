"""Writes what PEFT computes with adapters on two small models: adapter_gradients.py OUT_FOLDER. Made with torch 2.13.0, transformers 5.18.0, peft 0.21.0 and
safetensors 0.8.0, attention "eager", in F32.

For each model and case a file MODEL-CASE.safetensors with metadata "config" (adapter_config.json) and the tensors
  adapter.KEY   the adapter, by PEFT's keys, at values that are not those it starts from
  in.NAME       input_ids, labels
  out.logits    with these values
  grad.KEY      gradients of the mean loss
  losses        of five steps of AdamW on the same samples, lr 0.01, without weight decay, dropout or clipping
and starts.safetensors: MODEL/METHOD/MODULE, the scaled product s*B*A that PiSSA and OLoRA start from.
"""

import json
import pathlib
import sys

import torch
import transformers
from peft import IA3Config, LNTuningConfig, LoraConfig, TaskType, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).parent.parent
OUT = pathlib.Path(sys.argv[1])
LLAMA = ["q_proj", "v_proj", "down_proj"]
GPT2 = ["c_attn", "mlp.c_proj"]


def model_of(name):
    folder = ROOT / "models/tiny-hf" / name
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def lora(**more):
    return LoraConfig(task_type=TaskType.CAUSAL_LM, **{"r": 4, "lora_alpha": 6, **more})


CASES = {
    "llama": {
        "lora": lora(target_modules=LLAMA),
        "patterns": lora(target_modules="all-linear", use_rslora=True, rank_pattern={"layers.0.self_attn.q_proj": 2, "mlp.*": 3},
                         alpha_pattern={"v_proj": 9}),
        "layers": lora(target_modules=LLAMA, layers_to_transform=[1], exclude_modules=["down_proj"]),
        "dora": lora(target_modules=LLAMA, use_dora=True),
        "bias": lora(target_modules=LLAMA, lora_bias=True),
        "embeddings": lora(target_modules=["embed_tokens", "lm_head", "q_proj"]),
        "dora-embeddings": lora(target_modules=["embed_tokens", "v_proj"], use_dora=True),
        "saved": lora(target_modules=["q_proj"], modules_to_save=["lm_head", "embed_tokens"]),
        "ia3": IA3Config(task_type=TaskType.CAUSAL_LM, target_modules=["k_proj", "v_proj", "down_proj"],
                         feedforward_modules=["down_proj"]),
        "norms": LNTuningConfig(task_type=TaskType.CAUSAL_LM),
    },
    "gpt2": {
        "lora": lora(target_modules=GPT2, fan_in_fan_out=True),
        "dora": lora(target_modules=GPT2, fan_in_fan_out=True, use_dora=True),
        "bias-all": lora(target_modules=["c_attn"], fan_in_fan_out=True, bias="all"),
        "bias-own": lora(target_modules=["c_attn"], fan_in_fan_out=True, bias="lora_only"),
        "saved": lora(target_modules=["c_attn"], fan_in_fan_out=True, modules_to_save=["wte", "ln_f"]),
        "ia3": IA3Config(task_type=TaskType.CAUSAL_LM, target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"],
                         fan_in_fan_out=True),
        "norms": LNTuningConfig(task_type=TaskType.CAUSAL_LM),
    },
}

OUT.mkdir(parents=True, exist_ok=True)
for name, cases in CASES.items():
    for case, config in cases.items():
        torch.manual_seed(7)
        model = get_peft_model(model_of(name), config)
        random = torch.Generator().manual_seed(11)
        trained = [p for p in model.parameters() if p.requires_grad]
        with torch.no_grad():
            for p in trained:
                p += 0.1 * torch.randn(p.shape, generator=random)
        ids = torch.randint(0, model.config.vocab_size, (2, 9), generator=random)
        state = get_peft_model_state_dict(model, save_embedding_layers=False)
        keys = {tensor.data_ptr(): key for key, tensor in state.items()}
        tensors = {"adapter." + keys[p.data_ptr()]: p.detach().clone() for p in trained}
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        tensors |= {"grad." + keys[p.data_ptr()]: p.grad.clone() for p in trained}
        tensors |= {"in.input_ids": ids, "in.labels": ids.clone(), "out.logits": out.logits.detach().contiguous()}
        optimizer = torch.optim.AdamW(trained, lr=0.01, weight_decay=0)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
        written = {k: v for k, v in config.to_dict().items() if k != "peft_version"}
        written = {k: sorted(v) if isinstance(v, set) else v for k, v in written.items()}
        written["base_model_name_or_path"] = name  # rather than a path of the machine that made it
        save_file(tensors, OUT / f"{name}-{case}.safetensors", metadata={"config": json.dumps(written, default=str, sort_keys=True)})
        print(name, case, len(trained), losses)

starts = {}
for name, targets in (("llama", LLAMA), ("gpt2", ["c_attn"])):
    for method in ("pissa", "olora"):
        if (name, method) == ("gpt2", "olora"):
            continue  # PEFT does not turn the weight of a Conv1D
        model = get_peft_model(model_of(name), lora(target_modules=targets, init_lora_weights=method, fan_in_fan_out=name == "gpt2"))
        for path, module in model.named_modules():
            if hasattr(module, "lora_A") and "default" in module.lora_A:
                product = module.lora_B["default"].weight @ module.lora_A["default"].weight * module.scaling["default"]
                starts[f"{name}/{method}/{path.removeprefix('base_model.model.')}"] = product.detach().contiguous()
save_file(starts, OUT / "starts.safetensors")
