"""Losses and memory of octet train with each engine of optimizer.states; see bench/run-states."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "testdata/models/tiny-lm/gpt2"
TEXT = ROOT / "testdata/text"
ENGINES = {
    "fp32": "engine: fp32",
    "msamp O1": "engine: msamp, opt_level: O1",
    "msamp O2": "engine: msamp",
    "te fp16/fp8/fp16": "engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8, exp_avg_sq_dtype: fp16",
    "te remainders/bf16": "engine: te, store_param_remainders: true, exp_avg_dtype: bf16, exp_avg_sq_dtype: bf16",
    "te fp8/fp8": "engine: te, exp_avg_dtype: fp8, exp_avg_sq_dtype: fp8",
    "torchao int8": "engine: torchao",
    "torchao fp8": "engine: torchao, format: fp8",
    "torchao int4": "engine: torchao, format: int4",
    "torchao int8, bf16": "engine: torchao, bf16_stochastic_round: true",
    "bf16": "engine: bf16",
    "bf16, masters": "engine: bf16, masters: bf16",
    "bf16, nearest": "engine: bf16, masters: bf16, rounding: nearest",
}


def config(folder, states, steps, sequence, batch, mode):
    path = folder / "train.yaml"
    path.write_text(
        f"data: {{train: '{TEXT}/train.jsonl', eval: '{TEXT}/eval.jsonl', pack: true, sequence: {sequence}}}\n"
        f"loss: {{type: causal-lm}}\nbatch_size: {batch}\nsteps: {steps}\n"
        f"optimizer: {{lr: 1.0e-3, states: {{{states}}}}}\nprecision: {{mode: {mode}}}\n")
    return path


def train(arguments, model, folder, *more, **keys):
    """Output, and the peak of the process in MB."""
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    command = [*arguments.octet.split(), "train", str(model), "--config", str(config(folder, **keys)), "-o", str(run), *more]
    log = folder / "log"
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
    return log.read_text(), os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024


def losses(arguments, folder):
    rows = []
    for mode in arguments.modes.split(","):
        exact = None
        for name, states in ENGINES.items():
            text, code, _ = train(arguments, TINY, folder, states=states, steps=arguments.steps, sequence=64, batch=4, mode=mode)
            found = re.findall(r"evaluation loss ([0-9.]+)", text)
            loss = float(found[-1]) if code == 0 and found else None
            exact = loss if name == "fp32" else exact
            why = "" if loss is not None else " ".join(line for line in text.splitlines() if line.startswith("ended"))
            rows.append(dict(mode=mode, engine=name, loss=loss, off=None if loss is None else loss / exact - 1, why=why))
            print(rows[-1], file=sys.stderr)
    return rows


def memory(arguments, folder):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    large = folder / "large"
    if not large.exists():
        torch.manual_seed(1)
        tiny = GPT2Config.from_pretrained(TINY)
        GPT2LMHeadModel(GPT2Config(vocab_size=tiny.vocab_size, n_positions=64, n_embd=512, n_layer=6, n_head=8,
                                   bos_token_id=tiny.bos_token_id, eos_token_id=tiny.eos_token_id)).save_pretrained(large)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(TINY / name, large / name)
    keys = dict(steps=4, sequence=32, batch=1, mode="bf16")
    text, code, base = train(arguments, TINY, folder, "--set", "checkpoint.every=0", states="engine: fp32", **keys)
    rows = [dict(engine="(tiny-lm)", peak=base)]
    for name, states in ENGINES.items():
        planned, _, _ = train(arguments, large, folder, "--dry-run", "--json", states=states, **keys)
        plan = json.loads(planned[planned.index("{"):])
        parts = [plan["states"][part] / plan["trained_parameters"] for part in ("weights", "masters", "gradients", "moments")]
        peaks = []
        for _ in range(arguments.rounds):
            text, code, peak = train(arguments, large, folder, states=states, **keys)
            peaks.append(peak)
        rows.append(dict(engine=name, parts=parts, lasting_bytes=plan["lasting_bytes"], peak=min(peaks), code=code))
        print(rows[-1], file=sys.stderr)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--parts", default="loss,memory")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--engines", default="", help="names, separated by semicolons; all by default")
    parser.add_argument("--modes", default="fp32,bf16")
    parser.add_argument("--work")
    parser.add_argument("--octet", default=str(ROOT / "octet"))
    arguments = parser.parse_args()
    if arguments.engines:
        for name in set(ENGINES) - set(arguments.engines.split(";")):
            del ENGINES[name]
    folder = pathlib.Path(arguments.work or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    lines = []
    if "loss" in arguments.parts:
        found["loss"] = losses(arguments, folder)
        lines += [f"Evaluation loss after {arguments.steps} steps, tiny-lm/gpt2 on testdata/text, AdamW", "",
                  f"{'engine':22s}" + "".join(f"{m.upper():>9s}{'off':>9s}" for m in arguments.modes.split(","))]
        for name in ENGINES:
            cells = ""
            for mode in arguments.modes.split(","):
                row = next(r for r in found["loss"] if r["engine"] == name and r["mode"] == mode)
                cells += f"{row['loss']:9.4f}{100 * row['off']:8.2f}%" if row["loss"] is not None else f"{'diverged':>18s}"
            lines.append(f"{name:22s}{cells}")
    if "memory" in arguments.parts:
        found["memory"] = memory(arguments, folder)
        lines += ["", "GPT-2 of 6 x 512 in BF16: bytes a parameter as planned, and the peak of the process in MB", "",
                  f"{'engine':22s}{'weights':>9s}{'masters':>9s}{'gradients':>10s}{'moments':>9s}{'all':>8s}{'peak':>8s}{'less':>8s}"]
        exact = next(r["peak"] for r in found["memory"] if r["engine"] == "fp32")
        for row in found["memory"]:
            parts = row.get("parts") or []
            cells = "".join(f"{x:{w}.2f}" for x, w in zip([*parts, sum(parts)], (9, 9, 10, 9, 8))) if len(parts) == 4 else " " * 45
            lines.append(f"{row['engine']:22s}{cells}{row['peak']:8.0f}{exact - row['peak']:8.0f}")
    pathlib.Path(arguments.result + ".json").write_text(json.dumps(found, indent=1) + "\n")
    pathlib.Path(arguments.result + ".txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


main()
