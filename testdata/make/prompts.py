"""Prompt tuning, P-tuning and prefix tuning by PEFT on the tiny models: adapters, logits, gradients.

peft 0.21.0, transformers 5.18.0, torch 2.x on a CPU, eager attention, F32.

    python testdata/make/prompts.py

Writes testdata/golden/prompts/MODEL-METHOD/: the folder as save_pretrained writes it, and golden.safetensors with
  in.*     input_ids, attention_mask, labels; the second sample is padded
  out.*    logits, loss (CAUSAL_LM: PEFT's own loss, with -100 for virtual tokens)
  weight.* the encoder's parameters, as the trained network has them (P-tuning, projection)
  grad.*   gradients of what is trained: prompt_embeddings, or prompt_encoder.*
"""

import os
import pathlib
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from peft import PrefixTuningConfig, PromptEncoderConfig, PromptTuningConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

DATA = pathlib.Path(__file__).resolve().parents[1]
METHODS = {
    "prompt": lambda t: PromptTuningConfig(**t),
    "mlp": lambda t: PromptEncoderConfig(encoder_hidden_size=6, **t),
    "lstm": lambda t: PromptEncoderConfig(encoder_hidden_size=4, encoder_reparameterization_type="LSTM", **t),
    "prefix": lambda t: PrefixTuningConfig(**t),
    "projection": lambda t: PrefixTuningConfig(prefix_projection=True, encoder_hidden_size=6, **t),
}


def make(name, model_class, task, method):
    base = model_class.from_pretrained(DATA / "models/tiny-hf" / name, dtype=torch.float32, attn_implementation="eager")
    torch.manual_seed(7)
    model = get_peft_model(base, METHODS[method](dict(task_type=task, num_virtual_tokens=3))).eval()
    torch.manual_seed(1)
    ids = torch.randint(1, 100, (2, 6))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    if task == "CAUSAL_LM":
        labels = ids.clone()
        labels[1, 4:] = -100
    else:
        labels = torch.tensor([1, 2])
    result = model(input_ids=ids, attention_mask=mask, labels=labels)
    result.loss.backward()
    folder = DATA / "golden/prompts" / f"{name}-{method}"
    shutil.rmtree(folder, ignore_errors=True)
    model.active_peft_config.base_model_name_or_path = name
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    tensors = {
        "in.input_ids": ids,
        "in.attention_mask": mask,
        "in.labels": labels,
        "out.logits": result.logits.detach(),
        "out.octet.loss": result.loss.detach(),
    }
    plain = method in ("prompt", "prefix")
    for key, parameter in model.prompt_encoder["default"].named_parameters():
        own = "prompt_embeddings" if plain else "prompt_encoder." + key
        tensors["grad." + own] = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        if not plain:
            tensors["weight." + own] = parameter.detach()
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")
    print(folder.name, result.loss.item(), tuple(result.logits.shape))


for method in METHODS:
    make("gpt2", AutoModelForCausalLM, "CAUSAL_LM", method)
    make("llama", AutoModelForCausalLM, "CAUSAL_LM", method)
for method in ("prompt", "prefix"):
    make("bert-cls", AutoModelForSequenceClassification, "SEQ_CLS", method)
