"""Writes the adapters of testdata/adapters with PEFT, and what PEFT computes with them: peft_adapters.py [OUT]. Made with peft 0.21.0,
torch 2.13.0, transformers 5.18.0 and safetensors 0.8.0, attention "eager", in F32.

For each adapter BASE-NAME, on the model testdata/models/tiny-hf/BASE: the folder as save_pretrained writes it, without its README.
golden.safetensors: ids, the tokens [2, 3]; BASE-NAME, the logits [2, 3, vocabulary] of the base with the adapter read from its folder.
targets.json: configurations, and the modules that PEFT chooses with them.
"""

import json
import pathlib
import sys

import torch
import transformers
from peft import (
    IA3Config,
    LNTuningConfig,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptEncoderConfig,
    PromptTuningConfig,
    get_peft_model,
)
from peft.tuners.tuners_utils import _maybe_include_all_linear_layers, check_target_module_exists
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).parent.parent
OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "adapters")
LM = {"task_type": "CAUSAL_LM"}
QV = {**LM, "r": 2, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]}
ATTN = {**LM, "r": 2, "lora_alpha": 6, "target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": True}

ADAPTERS = {
    "llama-lora": LoraConfig(**QV),
    "llama-rslora": LoraConfig(**QV, use_rslora=True),
    "llama-dora": LoraConfig(**QV, use_dora=True),
    "llama-bias": LoraConfig(**QV, lora_bias=True),
    "llama-patterns": LoraConfig(
        **LM,
        r=3,
        lora_alpha=4,
        target_modules=r".*\.(q_proj|down_proj|gate_proj)",
        rank_pattern={"down_proj": 1, r"layers\.1\.self_attn\.q_proj": 5},
        alpha_pattern={"gate_proj": 7},
    ),
    "llama-embedding": LoraConfig(**{**QV, "target_modules": ["embed_tokens", "o_proj"]}),
    "llama-saved": LoraConfig(**QV, modules_to_save=["lm_head"]),
    "llama-tokens": LoraConfig(**QV, trainable_token_indices=[3, 70]),
    "llama-parameters": LoraConfig(
        **{**QV, "target_modules": []}, target_parameters=["q_proj.weight", "mlp.up_proj.weight"]
    ),
    "llama-all": LoraConfig(**{**QV, "r": 1, "target_modules": "all-linear", "exclude_modules": ["k_proj"]}),
    "llama-ia3": IA3Config(**LM),
    "llama-ln": LNTuningConfig(**LM),
    "llama-prompt": PromptTuningConfig(**LM, num_virtual_tokens=3),
    "llama-ptuning": PromptEncoderConfig(**LM, num_virtual_tokens=3, encoder_hidden_size=16),
    "llama-prefix": PrefixTuningConfig(**LM, num_virtual_tokens=3),
    "llama-projection": PrefixTuningConfig(**LM, num_virtual_tokens=3, prefix_projection=True, encoder_hidden_size=16),
    "gpt2-lora": LoraConfig(**ATTN),
    "gpt2-rslora": LoraConfig(**ATTN, use_rslora=True),
    "gpt2-dora": LoraConfig(**ATTN, use_dora=True),
    "gpt2-biases": LoraConfig(**ATTN, bias="all"),
    "gpt2-own-biases": LoraConfig(**ATTN, bias="lora_only"),
    "gpt2-embedding": LoraConfig(**{**ATTN, "target_modules": ["wte", "c_attn"]}),
    "gpt2-ia3": IA3Config(**LM),
    "gpt2-ln": LNTuningConfig(**LM),
    "gpt2-prompt": PromptTuningConfig(**LM, num_virtual_tokens=3),
    "gpt2-prefix": PrefixTuningConfig(**LM, num_virtual_tokens=3),
}


def base(name):
    folder = ROOT / "models/tiny-hf" / name
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def adapters():
    golden = {"ids": torch.randint(0, 101, (2, 3), generator=torch.Generator().manual_seed(1))}
    for name, config in ADAPTERS.items():
        torch.manual_seed(sum(name.encode()))
        model = get_peft_model(base(name.split("-")[0]), config)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if parameter.requires_grad:
                    # B, which PEFT makes zero, must count
                    parameter += (0.3 if "lora_" in key else 0.1) * torch.randn(parameter.shape)
        config.base_model_name_or_path = "models/tiny-hf/" + name.split("-")[0]
        folder = OUT / name
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        read = PeftModel.from_pretrained(base(name.split("-")[0]), folder).eval()
        with torch.no_grad():
            logits = read(input_ids=golden["ids"]).logits
            plain = base(name.split("-")[0])(input_ids=golden["ids"]).logits
        golden[name] = logits[:, -golden["ids"].shape[1]:].contiguous()  # without those of virtual tokens
        change = (golden[name] - plain).abs().max().item()
        print(f"{name:20} changes the logits by at most {change:.3g}")
        assert change > 1e-3, name
    save_file(golden, OUT / "golden.safetensors")
    (OUT / "golden.safetensors").chmod(0o644)


TARGETS = [
    {"target_modules": ["q_proj", "v_proj"]},
    {"target_modules": ["proj"]},
    {"target_modules": ["self_attn.q_proj", "layers.1.mlp.up_proj"]},
    {"target_modules": ["q_proj"], "exclude_modules": ["layers.0.self_attn.q_proj"]},
    {"target_modules": ["q_proj"], "exclude_modules": r".*layers\.1.*"},
    {"target_modules": r".*\.(q|k)_proj"},
    {"target_modules": r"q_proj"},
    {"target_modules": r"(?i).*Q_PROJ"},
    {"target_modules": r".*\.(?P<part>self_attn)\.[qv]_proj"},
    {"target_modules": "all-linear"},
    {"target_modules": "ALL-linear", "exclude_modules": ["mlp.up_proj"]},
    {"target_modules": "all-linear", "modules_to_save": ["mlp"]},
    {"target_modules": ["q_proj", "lm_head", "embed_tokens"], "modules_to_save": ["lm_head"]},
    {"target_modules": ["q_proj", "input_layernorm"], "modules_to_save": ["layernorm"]},
    {"target_modules": ["q_proj"], "layers_to_transform": 1},
    {"target_modules": ["q_proj", "v_proj"], "layers_to_transform": [0, 7]},
    {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": "layers"},
    {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": ["h", "layers"]},
    {"target_modules": ["q_proj"], "layers_to_transform": [1], "layers_pattern": "blocks"},
    {"target_modules": ["q_proj", "model.layers.0.self_attn.q_proj"], "layers_to_transform": [1]},
    {"target_modules": ["q_proj"], "layers_to_transform": []},
    {"target_modules": ["experts.1.w1"], "layers_to_transform": [0]},
]

OTHERS = [f"model.layers.{i}.experts.{k}.w1" for i in (0, 1) for k in (0, 1)] + ["q_proj", "x.q_proj"]


# names of GPT-2 for those of Llama, in the keys' values
GPT2 = {"q_proj": "c_attn", "up_proj": "c_fc", "layers.": "h.", "layers\\\\.": "h\\\\.", '"layers"': '"h"'}


def targets():
    rows = []
    for name in ("llama", "gpt2"):
        model = base(name)
        modules = [key for key, _ in model.named_modules() if key]
        for keys in TARGETS:
            keys = dict(keys)
            if name == "gpt2":
                text = json.dumps(keys)
                for llama, gpt2 in GPT2.items():
                    text = text.replace(llama, gpt2)
                keys = json.loads(text)
            config = LoraConfig(**LM, **keys)
            config = _maybe_include_all_linear_layers(config, model)
            # OTHERS are deeper paths than the small models have
            chosen = [key for key in modules + OTHERS if check_target_module_exists(config, key)]
            rows.append({"base": name, "config": keys, "chosen": chosen})
    kinds = {name: {key: type(m).__name__ for key, m in base(name).named_modules() if key} for name in ("llama", "gpt2")}
    (OUT / "targets.json").write_text(json.dumps({"kinds": kinds, "others": OTHERS, "rows": rows}) + "\n")


OUT.mkdir(parents=True, exist_ok=True)
adapters()
targets()
