"""Reads adapters that Octet wrote with PEFT, and compares the logits: peft_reads.py FOLDER. FOLDER is what PeftLogitsTest leaves with
-Doctet.adapters.out=FOLDER: for each adapter BASE-NAME its folder, with logits.safetensors in it (ids, and Octet's logits). Made with peft
0.21.0, torch 2.13.0, transformers 5.18.0 and safetensors 0.8.0, attention "eager", in F32. Fails when a logit differs by more than 1e-5, or
when PEFT misses a key, or finds one that it does not expect.
"""

import pathlib
import sys
import warnings

import torch
import transformers
from peft import PeftModel
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).parent.parent
failed = 0
for folder in sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if (p / "adapter_config.json").exists()):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        ROOT / "models/tiny-hf" / folder.name.split("-")[0], dtype=torch.float32, attn_implementation="eager"
    ).eval()
    octet = load_file(folder / "logits.safetensors")
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plain = model(input_ids=octet["ids"]).logits
        adapted = PeftModel.from_pretrained(model, folder).eval()
        logits = adapted(input_ids=octet["ids"]).logits[:, -octet["ids"].shape[1]:]
    keys = [str(w.message) for w in said if "missing" in str(w.message) or "unexpected" in str(w.message)]
    error = (logits - octet["logits"]).abs().max().item()
    change = (logits - plain).abs().max().item()
    failed += error > 1e-5 or change < 1e-3 or bool(keys)
    print(f"{folder.name:24} differs by {error:.2g}, changes the logits by up to {change:.3g}", *keys)
sys.exit(1 if failed else 0)
