"""Losses of next tokens of tiny causal language models, by transformers.

python testdata/make/perplexity.py: writes testdata/golden/perplexity/tokens.npz and losses.json. Labels are the tokens themselves, -100 at
padding: transformers shifts them and takes the mean over all that are left, so that each token weighs the same.
"""

import json
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parent.parent
OUT = ROOT / "golden" / "perplexity"
MODELS = ["models/tiny-hf/llama", "models/tiny-hf/gpt2", "checkpoints/qwen2"]
LENGTHS = [17, 9, 1, 13, 2, 24]

OUT.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(20261122)
length = max(LENGTHS)
ids = np.zeros((len(LENGTHS), length), np.int64)
mask = np.zeros_like(ids)
for row, n in enumerate(LENGTHS):
    ids[row, :n] = rng.integers(0, 96, n)
    mask[row, :n] = 1
np.savez(OUT / "tokens.npz", input_ids=ids, attention_mask=mask)
losses = {"tokens": sum(n - 1 for n in LENGTHS)}
for name in MODELS:
    model = AutoModelForCausalLM.from_pretrained(ROOT / name, dtype=torch.float32).eval()
    tokens, attention = torch.from_numpy(ids), torch.from_numpy(mask)
    with torch.no_grad():
        out = model(input_ids=tokens, attention_mask=attention, labels=tokens.masked_fill(attention == 0, -100))
    losses[name] = out.loss.item()
(OUT / "losses.json").write_text(json.dumps(losses, indent=1) + "\n")
