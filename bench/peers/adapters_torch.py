"""The peer of bench/run-adapters: transformers' models, PEFT's adapters and PyTorch's optimizer.

    adapters_torch.py wide FOLDER                         a GPT-2 of six layers of 384 with random weights, and tokens to learn
    adapters_torch.py moe FOLDER                          a Mixtral of four layers of 256 with eight experts of 512, and the same tokens
    adapters_torch.py moe-of FOLDER GIGABYTES             a Mixtral of about so many bytes in BF16, with eight experts a layer
    adapters_torch.py tiny gpt2|llama TEXT FOLDER         a tiny model, trained on the Old Testament; tokens of the New
    adapters_torch.py adapter MODEL METHOD OUT            a new adapter of a model as a PEFT folder
    adapters_torch.py train MODEL TOKENS --steps N --threads T [--adapter FOLDER] [--eval TOKENS] [--batch B] [--lr X]

`train` prints one JSON line: losses, milliseconds of each step, the evaluation at the end. Everything is F32. Tokens are unsigned 16 bits, cut into
sequences of 128 in the order of the file, as `octet train` reads them with `shuffle: false`.
"""

import argparse
import json
import math
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEQUENCE, WARM_UP = 128, 10
NEW_TESTAMENT = 929  # chapters of the Old come before
BASE_STEPS, BASE_LR, BASE_BATCH = 400, 1e-3, 8
RANK, VIRTUAL = 16, 16


def wide(folder):
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=8192, n_positions=SEQUENCE, n_embd=384, n_layer=6, n_head=6, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                        bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder)
    chain(folder)


def mixtral(folder, hidden, inner, layers, dtype):
    from transformers import MixtralConfig, MixtralForCausalLM
    torch.manual_seed(1)
    torch.set_default_dtype(dtype)
    config = MixtralConfig(vocab_size=8192, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                           num_key_value_heads=hidden // 128, num_local_experts=8, num_experts_per_tok=2, max_position_embeddings=SEQUENCE,
                           bos_token_id=0, eos_token_id=0)
    MixtralForCausalLM(config).save_pretrained(folder)
    chain(folder)


def chain(folder):
    # each token has a few likely successors: something to learn
    rng = np.random.default_rng(7)
    successors = rng.integers(0, 8192, (8192, 4))
    tokens = np.zeros(8 * SEQUENCE * 80, dtype="<u2")
    for i in range(1, len(tokens)):
        tokens[i] = successors[tokens[i - 1], rng.integers(0, 4)]
    tokens.tofile(f"{folder}/tokens.bin")


def tiny(kind, text, folder):
    sys.path.insert(0, f"{HOME}/testdata/make")
    import kjv
    with open(f"{text}/chapters.json", encoding="utf-8") as file:
        chapters = [chapter for _, _, chapter in json.load(file)]
    words = kjv.tokenizer(text)
    new = chapters[NEW_TESTAMENT:]
    parts = {"old": chapters[:NEW_TESTAMENT], "train": [c for i, c in enumerate(new) if i % 10 != 9], "eval": new[9::10]}
    rows = {name: [t for c in texts for t in words(c)["input_ids"] + [words.eos_token_id]] for name, texts in parts.items()}
    model = kjv.model(kind, 2, words.eos_token_id)
    loop(model, model.parameters(), sequences(np.array(rows["old"])), BASE_STEPS, BASE_LR, BASE_BATCH)
    kjv.save(model, words, folder)
    for name in ("train", "eval"):
        np.array(rows[name][:len(rows[name]) // SEQUENCE * SEQUENCE], dtype="<u2").tofile(f"{folder}/{name}.bin")


def settings(method, model):
    from peft import LoraConfig, PromptTuningConfig, TaskType
    if method == "prompt":
        return PromptTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=VIRTUAL)
    targets = ["c_attn"] if method == "lora-attn" else "all-linear"
    is_gpt2 = model.config.model_type == "gpt2"
    return LoraConfig(task_type=TaskType.CAUSAL_LM, r=RANK, lora_alpha=RANK, target_modules=targets, fan_in_fan_out=is_gpt2,
                      use_dora=method == "dora")


def adapter(model, method, out):
    from peft import get_peft_model
    torch.manual_seed(5)
    get_peft_model(model, settings(method, model)).save_pretrained(out)


def sequences(tokens):
    count = len(tokens) // SEQUENCE
    return torch.from_numpy(tokens[:count * SEQUENCE].astype(np.int64)).reshape(count, SEQUENCE)


def loss_of(model, rows):
    # the models' own: behind virtual tokens the first token of a sample is predicted, too
    return model(input_ids=rows, attention_mask=torch.ones_like(rows), labels=rows).loss


def evaluated(model, rows, batch):
    with torch.no_grad():
        losses = [loss_of(model, rows[i:i + batch]).item() for i in range(0, len(rows) - batch + 1, batch)]
    loss = sum(losses) / len(losses)
    return {"eval_loss": loss, "eval_perplexity": math.exp(loss)}


def loop(model, parameters, rows, steps, lr, batch):
    parameters = [p for p in parameters if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, s / WARM_UP))
    losses, millis = [], []
    for step in range(steps):
        at = step % (len(rows) // batch) * batch
        start = time.perf_counter()
        loss = loss_of(model, rows[at:at + batch])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        millis.append((time.perf_counter() - start) * 1e3)
    return losses, millis


def train(options):
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    if options.adapter:
        from peft import PeftConfig, PeftModel, get_peft_model, set_peft_model_state_dict
        from safetensors.torch import load_file
        config = PeftConfig.from_pretrained(options.adapter)
        config.inference_mode = False
        if config.is_prompt_learning:  # PEFT loads these for inference only
            model = get_peft_model(model, config)
            set_peft_model_state_dict(model, load_file(f"{options.adapter}/adapter_model.safetensors"))
        else:
            model = PeftModel.from_pretrained(model, options.adapter, is_trainable=True)
    rows = sequences(np.fromfile(options.tokens, dtype="<u2"))
    losses, millis = loop(model, model.parameters(), rows, options.steps, options.lr, options.batch)
    answer = {"losses": losses, "millis": millis, "trained": sum(p.numel() for p in model.parameters() if p.requires_grad)}
    if options.eval:
        answer["evaluation"] = evaluated(model.eval(), sequences(np.fromfile(options.eval, dtype="<u2")), options.batch)
    print(json.dumps(answer))


def main():
    parser = argparse.ArgumentParser()
    what = parser.add_subparsers(dest="what", required=True)
    what.add_parser("wide").add_argument("folder")
    what.add_parser("moe").add_argument("folder")
    made = what.add_parser("moe-of")
    made.add_argument("folder")
    made.add_argument("gigabytes", type=float)
    made = what.add_parser("tiny")
    for name in ("kind", "text", "folder"):
        made.add_argument(name)
    made = what.add_parser("adapter")
    for name in ("model", "method", "out"):
        made.add_argument(name)
    trained = what.add_parser("train")
    for name in ("model", "tokens"):
        trained.add_argument(name)
    trained.add_argument("--steps", type=int, required=True)
    trained.add_argument("--batch", type=int, default=8)
    trained.add_argument("--lr", type=float, default=1e-3)
    trained.add_argument("--adapter")
    trained.add_argument("--eval")
    for command in what.choices.values():
        command.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.what == "wide":
        wide(options.folder)
    elif options.what == "moe":
        mixtral(options.folder, 256, 512, 4, torch.float32)
    elif options.what == "moe-of":
        mixtral(options.folder, 1024, 3584, round(options.gigabytes * 1e9 / (8 * 3 * 1024 * 3584 * 2)), torch.bfloat16)
    elif options.what == "tiny":
        tiny(options.kind, options.text, options.folder)
    elif options.what == "adapter":
        adapter(AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32), options.method, options.out)
    else:
        train(options)


if __name__ == "__main__":
    main()
