"""Direct preference optimization of models/tiny-lm/gpt2, with torch 2.13.0 and transformers 5.18.0 in F32: 20 steps of AdamW on
chat/preferences.jsonl, four pairs a step in the order of the file, beta 0.3, for label smoothing 0 and 0.1.

Writes chat/preferences.jsonl (verses of text/train.jsonl: after its first words a verse goes on, or another one does) and
golden/training/dpo.csv: smoothing, step, and of the pairs of the step, before its update, loss, rewards/chosen, rewards/rejected,
rewards/margins, rewards/accuracies, named and computed as by TRL's DPOTrainer (loss_type sigmoid).
"""

import csv
import json
import pathlib

import torch
import torch.nn.functional as F
import transformers

ROOT = pathlib.Path(__file__).parent.parent
BETA = 0.3
words = [json.loads(line)["text"].split() for line in (ROOT / "text" / "train.jsonl").read_text().splitlines()[:12]]
pairs = []
for i, own in enumerate(words):
    other = words[(i + 5) % len(words)]
    pairs.append(
        {
            "prompt": " ".join(own[: 3 + i % 3]),
            "chosen": " " + " ".join(own[3 + i % 3 : 8 + i]),
            "rejected": " " + " ".join(other[40:45]),
        }
    )
(ROOT / "chat" / "preferences.jsonl").write_text("".join(json.dumps(p) + "\n" for p in pairs))

folder = ROOT / "models" / "tiny-lm" / "gpt2"
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)


def sequence(prompt, answer):
    got = tokenizer(prompt + answer, return_offsets_mapping=True)
    ids = got["input_ids"] + [tokenizer.eos_token_id]
    counts = [end > len(prompt) for _, end in got["offset_mapping"]] + [True]
    return torch.tensor(ids), torch.tensor(counts)


def log_probability(model, ids, counts):
    scores = model(ids[None]).logits[0, :-1]
    each = F.log_softmax(scores, -1).gather(-1, ids[1:, None])[:, 0]
    return (each * counts[1:]).sum()


data = [(sequence(p["prompt"], p["chosen"]), sequence(p["prompt"], p["rejected"])) for p in pairs]
rows = []
for smoothing in (0.0, 0.1):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        reference = [(log_probability(model, *c), log_probability(model, *r)) for c, r in data]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    for step in range(20):
        chosen, rejected = [], []
        for i in range(4):
            at = (4 * step + i) % len(data)
            chosen.append(BETA * (log_probability(model, *data[at][0]) - reference[at][0]))
            rejected.append(BETA * (log_probability(model, *data[at][1]) - reference[at][1]))
        chosen, rejected = torch.stack(chosen), torch.stack(rejected)
        margin = chosen - rejected
        loss = (-F.logsigmoid(margin) * (1 - smoothing) - F.logsigmoid(-margin) * smoothing).mean()
        numbers = [loss, chosen.mean(), rejected.mean(), margin.mean(), (chosen > rejected).float().mean()]
        rows.append([smoothing, step + 1] + [repr(float(n)) for n in numbers])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with open(ROOT / "golden" / "training" / "dpo.csv", "w", newline="") as f:
    writer = csv.writer(f, lineterminator="\n")
    writer.writerow(["smoothing", "step", "loss", "chosen", "rejected", "margins", "accuracies"])
    writer.writerows(rows)
