"""The peer of bench/run-finetune: transformers' model and PyTorch's optimizer on packed texts.

    finetune_torch.py train MODEL TEXT --mode fp32|bf16 --steps N --threads T
    finetune_torch.py evaluate MODEL TEXT --threads T        in FP32

Texts are joined by the token that ends a text and cut into sequences, in the order of the file, as `octet train` packs them with
`shuffle: false`. One JSON line: losses, milliseconds of each step, the evaluations. BF16 is autocast; weights, gradients and moments stay F32.
"""

import argparse
import json
import math
import time

import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer, get_linear_schedule_with_warmup

SEQUENCE, BATCH, WARM_UP, LR, EVERY = 128, 8, 20, 1e-3, 100


def packed(tokenizer, path):
    tokens = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            tokens += tokenizer(json.loads(line)["text"])["input_ids"] + [tokenizer.eos_token_id]
    count = len(tokens) // SEQUENCE
    return torch.tensor(tokens[:count * SEQUENCE]).reshape(count, SEQUENCE)


def loss_of(model, rows, mode):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "bf16"):
        logits = model(input_ids=rows).logits
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), rows[:, 1:].flatten())


def evaluated(model, rows, mode):
    """Mean loss of a token; batches are whole, and so all of one weight."""
    with torch.no_grad():
        losses = [loss_of(model, rows[i:i + BATCH], mode).item() for i in range(0, len(rows) - BATCH + 1, BATCH)]
    loss = sum(losses) / len(losses)
    return {"eval_loss": loss, "eval_perplexity": math.exp(loss)}


def train(model, tokenizer, options):
    rows, held_out = packed(tokenizer, f"{options.text}/train.jsonl"), packed(tokenizer, f"{options.text}/eval.jsonl")
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, WARM_UP, options.steps)
    batches = len(rows) // BATCH
    losses, millis, evaluations = [], [], []
    for step in range(options.steps):
        at = step % batches * BATCH
        start = time.perf_counter()
        loss = loss_of(model, rows[at:at + BATCH], options.mode)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        millis.append((time.perf_counter() - start) * 1e3)
        if (step + 1) % EVERY == 0:
            evaluations.append({"step": step + 1} | evaluated(model, held_out, options.mode))
    return {"losses": losses, "millis": millis, "evaluations": evaluations, "torch": torch.__version__}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["train", "evaluate"])
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--mode", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.model, model_max_length=10**9)
    model, told = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32, output_loading_info=True)
    wrong = {key: sorted(map(str, names)) for key, names in told.items() if names}
    if options.what == "train":
        print(json.dumps(train(model, tokenizer, options)))
    else:
        print(json.dumps(evaluated(model.eval(), packed(tokenizer, f"{options.text}/eval.jsonl"), "fp32") | {"loading": wrong}))


if __name__ == "__main__":
    main()
