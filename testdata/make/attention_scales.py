"""Makes golden/attention/scales.json: the scales of attention that transformers 5.18.0 (torch 2.13.0) gives for models of models/tiny-hf.

By model: the class of its attention, and by attention layer the largest magnitude of each head / 448 in F32 of queries, keys and values as they
come to the product (after the rotation of positions, before keys and values are repeated for the heads that share them), over the tokens of
golden/calibration/tokens.npz without padding. The models have as many heads of keys as of queries, half as many, or one.

python testdata/make/attention_scales.py
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

ROOT = Path(__file__).resolve().parent.parent
MODELS = ["gemma", "gemma2", "llama", "llama-linear", "llama3", "mistral", "qwen2", "qwen3"]


def main():
    tokens = np.load(ROOT / "golden" / "calibration" / "tokens.npz")
    ids, mask = (torch.from_numpy(tokens[n]) for n in ("input_ids", "attention_mask"))
    kept = mask.bool()
    seen, classes = {}, set()

    def attend(module, query, key, value, *args, **kwargs):
        classes.add(type(module).__name__)
        name = f"model.layers.{module.layer_idx}.self_attn"
        for label, x in (("q", query), ("k", key), ("v", value)):
            amax = x.transpose(1, 2)[kept].abs().amax(dim=(0, 2))  # of [tokens, heads, size]
            seen.setdefault(name, {})[label] = (amax / 448).tolist()
        eager = sys.modules[type(module).__module__].eager_attention_forward  # of the model itself: Gemma 2 caps its scores
        return eager(module, query, key, value, *args, **kwargs)

    ALL_ATTENTION_FUNCTIONS.register("seen", attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register("seen", ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    out = {}
    for name in MODELS:
        seen.clear()
        classes.clear()
        model = AutoModelForCausalLM.from_pretrained(ROOT / "models" / "tiny-hf" / name, attn_implementation="seen")
        with torch.no_grad():
            model.float().eval()(input_ids=ids, attention_mask=mask, use_cache=False)
        (attention,) = classes
        out[name] = {"attentionClass": attention, "scales": dict(seen)}
    folder = ROOT / "golden" / "attention"
    folder.mkdir(exist_ok=True)
    (folder / "scales.json").write_text(json.dumps(out, indent=1) + "\n")


main()
