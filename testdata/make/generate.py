"""Makes ../golden/generate/greedy.json: the tokens that transformers' greedy generation gives for random models of ../models/tiny-hf.

Versions: transformers 5.18.0, torch 2.13.0. Run: python generate.py

In F32, with a cache, but for phi3: where its text outgrows the short factors, transformers 5.18.0 drops the cache and goes on from the last token alone.
Prompts are shorter, texts longer than windows and than the lengths from which rotary positions change. No choice is a close one: the two
largest logits are at least 1e-3 apart, which is checked.
"""

import json
import pathlib

import torch
import transformers as tf

ROOT = pathlib.Path(__file__).parent.parent
MODELS = ("cohere cohere2 gemma gemma2 gemma3 gpt2 gpt2-hub granite llama llama-linear llama3 llama-yarn llama-dynamic mistral mixtral olmo2 phi3 qwen2 qwen3"
          " qwen2-moe qwen3-moe smollm3 deepseek-v2 deepseek-v3 gpt-oss llama4").split()
NEW = 12

cases = []
for name in MODELS:
    folder = ROOT / "models/tiny-hf" / name
    config = tf.AutoConfig.from_pretrained(folder)
    model = getattr(tf, config.architectures[0]).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for length in (1, 5):
        for seed in range(50):
            prompt = torch.randint(3, config.vocab_size, (1, length), generator=torch.Generator().manual_seed(seed))
            positions = getattr(config, "max_position_embeddings", 64)
            out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW, do_sample=False, pad_token_id=0, use_cache=name != "phi3",
                                 eos_token_id=config.eos_token_id, return_dict_in_generate=True, output_scores=True)
            gaps = [float(s.topk(2).values.diff().abs()) for s in out.scores]
            if min(gaps) >= 1e-3:
                break
        else:
            raise AssertionError(name)
        cases.append({"model": name, "prompt": prompt[0].tolist(), "tokens": out.sequences[0, length:].tolist()})
(ROOT / "golden/generate").mkdir(exist_ok=True)
lines = ",\n".join(json.dumps(c) for c in cases)
(ROOT / "golden/generate/greedy.json").write_text("[\n" + lines + "\n]\n")
