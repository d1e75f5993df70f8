"""Writes what transformers computes with the small checkpoints of this folder, for several batches and lengths, with padding on either
side: hf_logits.py OUT. Made with torch 2.13.0, transformers 5.18.0 and safetensors 0.8.0, attention "eager", in F32.

For each checkpoint and case MODEL/BxS: MODEL/BxS/in.NAME, the inputs; MODEL/BxS/out.logits. Sample 1 is padded on the right, sample 2 on the
left. Logits of padded positions are set to zero: what stands there depends on how a model computes what no one reads.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).parent.parent
CHECKPOINTS = {
    **{name: ROOT / "models/tiny-hf" / name for name in ("bert", "gpt2", "llama", "vit")},
    **{name: ROOT / "checkpoints" / name for name in ("bert-cls", "qwen2", "llama-128")},
}

tensors = {}
for name, folder in CHECKPOINTS.items():
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    random = torch.Generator().manual_seed(1)
    for batch, length in ((1, 1), (3, 7)):
        if name == "vit":
            inputs = {"pixel_values": torch.randn(batch, 3, config.image_size, config.image_size, generator=random)}
        else:
            inputs = {
                "input_ids": torch.randint(0, config.vocab_size, (batch, length), generator=random),
                "attention_mask": torch.ones(batch, length, dtype=torch.int64),
            }
            if batch > 1:
                inputs["attention_mask"][1, length // 2:] = 0
                inputs["attention_mask"][2, : length // 2] = 0
            if name.startswith("bert"):
                inputs["token_type_ids"] = torch.randint(0, 2, (batch, length), generator=random)
        with torch.no_grad():
            logits = model(**inputs).logits
        if logits.ndim == 3:
            logits = torch.where(inputs["attention_mask"][..., None] == 1, logits, 0.0)
        tensors |= {f"{name}/{batch}x{length}/in.{k}": v for k, v in inputs.items()}
        tensors[f"{name}/{batch}x{length}/out.logits"] = logits.contiguous()
save_file(tensors, sys.argv[1])
