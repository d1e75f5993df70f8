"""Loads two checkpoints with transformers on the CPU and compares their logits. Made for transformers 5.18 and, for checkpoints of that
kind, compressed-tensors from 0.15 on.

Usage: transformers_logits.py ORIGINAL QUANTISED [LEAST_COSINE]. Prints one JSON line; exit 1 below the least cosine, 3 when a library that
the checkpoint needs is missing. The input is 4 x 32 token numbers from a fixed seed.
"""

import json
import logging
import os
import sys
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch
from transformers import AutoModelForCausalLM


def load(path):
    model, info = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, output_loading_info=True)
    return model.eval(), {k: sorted(map(str, v)) for k, v in info.items() if v}


def logits(model, tokens):
    with torch.no_grad():
        return model(tokens).logits.double()


def main(original, quantised, least="0"):
    reference, _ = load(original)
    torch.manual_seed(7)
    tokens = torch.randint(0, reference.config.vocab_size, (4, 32))
    expected = logits(reference, tokens)
    try:
        model, info = load(quantised)
    except ImportError as e:
        print(json.dumps({"missing": str(e).splitlines()[0]}))
        sys.exit(3)
    actual = logits(model, tokens)
    cosine = float(torch.nn.functional.cosine_similarity(expected.flatten(), actual.flatten(), 0))
    difference = actual - expected
    result = {
        "cosine": cosine,
        "max_difference": float(difference.abs().max()),
        "relative_error": float(difference.norm() / expected.norm()),
        "same_top_token": float((expected.argmax(-1) == actual.argmax(-1)).float().mean()),
        "loading": info,
    }
    print(json.dumps(result))
    sys.exit(0 if cosine >= float(least) else 1)


main(*sys.argv[1:])
