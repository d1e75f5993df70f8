"""Makes golden/calibration: what transformers 5.18.0 (torch 2.13.0, numpy 2.4.6) sends through the modules of models/tiny-hf.

tokens.npz       input_ids and attention_mask [6, 9], I64; sequences of 9, 1, 4, 9, 2 and 7 tokens, padded on the right
<model>.json     by module: elements, largest magnitude and sum of squares of what it reads, padding left out; <attention>.k and .v likewise of
                 what goes into the cache of keys and values (after the rotation of positions), for BERT of what its attention reads

python testdata/make/calibration_golden.py
"""

import json
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers.pytorch_utils import Conv1D

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "golden" / "calibration"
CLASSES = {
    "llama": transformers.LlamaForCausalLM,
    "qwen3": transformers.Qwen3ForCausalLM,
    "mistral": transformers.MistralForCausalLM,
    "gpt2": transformers.GPT2LMHeadModel,
    "bert-cls": transformers.BertForSequenceClassification,
}
VOCABULARY = 16  # the smallest of the models' has more
LENGTHS = [9, 1, 4, 9, 2, 7]


def measure(x):
    x = x.detach().to(torch.float64)
    return {"count": x.numel(), "amax": x.abs().max().item(), "sumOfSquares": (x * x).sum().item()}


def main():
    rng = np.random.default_rng(11)
    mask = np.zeros((len(LENGTHS), 9), np.int64)
    for row, n in enumerate(LENGTHS):
        mask[row, :n] = 1
    ids = rng.integers(0, VOCABULARY, mask.shape).astype(np.int64)
    OUT.mkdir(exist_ok=True)
    np.savez(OUT / "tokens.npz", input_ids=ids, attention_mask=mask)
    kept = torch.from_numpy(mask).bool()
    for name, cls in CLASSES.items():
        model = cls.from_pretrained(ROOT / "models" / "tiny-hf" / name, attn_implementation="eager").float().eval()
        found = {}

        def tokens(x):
            return x[kept] if x.shape[:2] == kept.shape else x

        def reads(module, label):
            module.register_forward_pre_hook(lambda m, a: found.__setitem__(label, measure(tokens(a[0]))))

        def gives(module, label):
            module.register_forward_hook(lambda m, a, y: found.__setitem__(label, measure(tokens(y))))

        for label, module in model.named_modules():
            if isinstance(module, (torch.nn.Linear, Conv1D)):
                reads(module, label)
                if name.startswith("bert") and label.endswith((".key", ".value")):
                    gives(module, label.rsplit(".", 1)[0] + (".k" if label.endswith(".key") else ".v"))
        with torch.no_grad():
            out = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
        if not name.startswith("bert"):
            path = "transformer.h.{}.attn" if name == "gpt2" else "model.layers.{}.self_attn"
            for i, layer in enumerate(out.past_key_values.layers):
                if layer.keys.shape[2] < mask.shape[1]:
                    continue  # the cache of a sliding window has let some go
                for side, x in (("k", layer.keys), ("v", layer.values)):
                    x = x.transpose(1, 2)  # [batch, length, heads, size]
                    found[path.format(i) + "." + side] = measure(x[kept])
        (OUT / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


main()
