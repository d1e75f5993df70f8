"""The peer of bench/run-systems: PyTorch with transformers' models, autocast and its own gradient checkpointing.

    systems_torch.py tokens MODEL FOLDER                  train.bin and eval.bin: testdata/text as tokens of a model
    systems_torch.py student MINILM FOLDER                student.onnx, MiniLM with noise in its weights; texts.npz and eval.npz: sentences
    systems_torch.py lm MODEL FOLDER --mode fp32|bf16 --steps N --lr X --batch B --threads T [--recompute] [--device cuda]
    systems_torch.py distil MINILM FOLDER ...             the same for the student, with MiniLM as teacher

The last two print one JSON line: losses, milliseconds of each step, the loss of the evaluation.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
from adapters_torch import HOME, SEQUENCE, sequences
from torch import nn
from torch.nn import functional as F

NOISE, WORDS = 0.3, 48


def rows_of(name):
    with open(f"{HOME}/testdata/text/{name}.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def tokens(model, folder):
    from transformers import AutoTokenizer
    words = AutoTokenizer.from_pretrained(model)
    os.makedirs(folder, exist_ok=True)
    for name in ("train", "eval"):
        ids = [i for text in rows_of(name) for i in words(text)["input_ids"] + [words.eos_token_id]]
        np.array(ids[:len(ids) // SEQUENCE * SEQUENCE], dtype="<u2").tofile(f"{folder}/{name}.bin")


def student(minilm, folder):
    import onnx
    from onnx import numpy_helper
    from tokenizers import Tokenizer
    os.makedirs(folder, exist_ok=True)
    model = onnx.load(minilm)
    weights = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    rng = np.random.default_rng(11)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            w = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array((w + NOISE * w.std() * rng.standard_normal(w.shape)).astype(w.dtype), tensor.name))
    onnx.save(model, f"{folder}/student.onnx")
    words = Tokenizer.from_file(os.path.splitext(minilm)[0] + "-tokenizer.json")
    words.no_padding()
    words.enable_truncation(WORDS)
    for name, file in (("train", "texts"), ("eval", "eval")):
        parts = [part for text in rows_of(name) for part in text.split(".") if len(part.split()) > 4]
        parts = parts[:len(parts) // 16 * 16]
        ids = np.zeros((len(parts), WORDS), np.int64)
        mask = np.zeros_like(ids)
        for i, part in enumerate(parts):
            found = words.encode(part).ids
            ids[i, :len(found)], mask[i, :len(found)] = found, 1
        np.savez(f"{folder}/{file}.npz", input_ids=ids, attention_mask=mask, token_type_ids=np.zeros_like(ids))


def language(options):
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).to(options.device)

    def losses(name):
        rows = sequences(np.fromfile(f"{options.folder}/{name}.bin", dtype="<u2"))

        def loss(i):
            ids = rows[i * options.batch:][:options.batch].to(options.device)
            logits = model(input_ids=ids).logits.float()
            return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1)), ids[:, 1:].numel()

        return loss, len(rows)

    evaluates = os.path.exists(f"{options.folder}/eval.bin")
    return model, losses("train"), losses("eval") if evaluates else (None, 0)


def distilled(options):
    from train_torch import bert
    model, teacher = bert(f"{options.folder}/student.onnx"), bert(options.model).eval()

    def losses(name):
        data = {k: torch.from_numpy(v) for k, v in np.load(f"{options.folder}/{name}.npz").items()}

        def loss(i):
            rows = slice(i * options.batch, (i + 1) * options.batch)
            inputs = {k: v[rows] for k, v in data.items()}
            with torch.no_grad(), torch.autocast("cpu", enabled=False):
                target = teacher(**inputs).last_hidden_state
            apart = 1 - F.cosine_similarity(model(**inputs).last_hidden_state.float(), target, dim=-1)
            seen = inputs["attention_mask"].sum()
            return (apart * inputs["attention_mask"]).sum() / seen, seen.item()

        return loss, len(data["input_ids"])

    return model, losses("texts"), losses("eval")


def train(options):
    model, (loss_of, rows), (held_out, held_rows) = (language if options.what == "lm" else distilled)(options)
    if options.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.config.use_cache = False
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    losses, millis = [], []
    narrow = torch.autocast(options.device, dtype=torch.bfloat16, enabled=options.mode == "bf16")
    for i in range(options.steps):
        start = time.perf_counter()
        with narrow:
            loss, _ = loss_of(i % (rows // options.batch))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        millis.append((time.perf_counter() - start) * 1e3)
    answer = {"losses": losses, "millis": millis, "torch": torch.__version__}
    if held_out:
        model.eval()
        with torch.no_grad(), narrow:
            parts = [held_out(i) for i in range(-(-held_rows // options.batch))]  # the last may be short, as in Octet's evaluation
            answer["eval_loss"] = sum(loss.item() * positions for loss, positions in parts) / sum(positions for _, positions in parts)
    print(json.dumps(answer))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["tokens", "student", "lm", "distil"])
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--mode", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--device", default="cpu", help="of lm: cpu or cuda")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.what == "tokens":
        tokens(options.model, options.folder)
    elif options.what == "student":
        student(options.model, options.folder)
    else:
        train(options)


if __name__ == "__main__":
    main()
