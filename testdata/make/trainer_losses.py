"""Losses of transformers' Trainer, and which parameters it decays.

usage: python trainer_losses.py MODELS LOSSES.json DECAY.txt
made with transformers 5.18.0, accelerate 1.15.0 and torch 2.13.0 on the CPU; MODELS is testdata/models

LOSSES: arguments: TrainingArguments of a run of 10 steps of models/tiny-lm/gpt2, as a JSON file has them; tokens [48][32]: random tokens, a row for each
sample; losses [10]: of each step, with the samples in their order (train_sampling_strategy sequential), without dropout, the labels the tokens
but the first of each row, which is -100: nothing predicts it, and the Trainer would count it in the divisor of the mean all the same;
smoothed [10]: the same with label_smoothing_factor 0.1; epochs: a run of 6 epochs of the first 40 rows that evaluates the other 8 after each, with
reduce_lr_on_plateau: its arguments, eval_losses [6], rates: the learning rate of each step, best: the step of the checkpoint that
load_best_model_at_end takes; delayed: the same run by steps with eval_on_start and eval_delay: its arguments, eval_steps: the step of each
evaluation, eval_losses, rates, best.
DECAY: `model parameter 0|1` for each model of models/tiny-hf and models/tiny-lm: whether get_decay_parameter_names has it.
"""
import json
import pathlib
import sys
import tempfile

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModel, Trainer, TrainingArguments
from transformers.trainer_callback import TrainerCallback

ARGUMENTS = {
    "learning_rate": 1e-3,
    "per_device_train_batch_size": 4,
    "max_steps": 10,
    "weight_decay": 0.1,
    "optim": "adamw_torch",
    "adam_beta2": 0.95,
    "adam_epsilon": 1e-6,
    "lr_scheduler_type": "cosine",
    "warmup_steps": 3,
    "max_grad_norm": 0.5,
    "use_cpu": True,
    "train_sampling_strategy": "sequential",
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


class Losses(TrainerCallback):
    def __init__(self):
        self.losses = []

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            self.losses.append(logs["loss"])


EPOCHS = {
    "learning_rate": 5e-3,
    "per_device_train_batch_size": 8,
    "num_train_epochs": 6,
    "optim": "adamw_torch",
    "lr_scheduler_type": "reduce_lr_on_plateau",
    "lr_scheduler_kwargs": {"factor": 0.5, "patience": 0},
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 1,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_loss",
    "use_cpu": True,
    "train_sampling_strategy": "sequential",
    "logging_steps": 1,
    "report_to": "none",
    "disable_tqdm": True,
}


DELAYED = EPOCHS | {
    "eval_strategy": "steps",
    "eval_steps": 4,
    "eval_delay": 9,
    "eval_on_start": True,
    "save_strategy": "steps",
    "save_steps": 4,
}


class Rates(TrainerCallback):
    def __init__(self):
        self.rates, self.losses, self.steps = [], [], []

    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **_):
        self.rates.append(optimizer.param_groups[0]["lr"])

    def on_evaluate(self, args, state, control, metrics=None, **_):
        self.losses.append(metrics["eval_loss"])
        self.steps.append(state.global_step)


def gpt2(models):
    return AutoModelForCausalLM.from_pretrained(
        models / "tiny-lm" / "gpt2", dtype=torch.float32, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)


def random_rows():
    torch.manual_seed(7)
    tokens = torch.randint(0, 1024, (48, 32))
    return tokens, [{"input_ids": t, "labels": torch.cat([torch.tensor([-100]), t[1:]])} for t in tokens]


def epochs(models, arguments):
    _, rows = random_rows()
    seen = Rates()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=gpt2(models), args=TrainingArguments(output_dir=folder, **arguments), train_dataset=rows[:40],
            eval_dataset=rows[40:], callbacks=[seen])
        trainer.train()
        best = trainer.state.best_global_step
    return {"arguments": arguments, "eval_steps": seen.steps, "eval_losses": seen.losses, "rates": seen.rates, "best": best}


def train(models, **more):
    tokens, rows = random_rows()
    model = gpt2(models)
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model=model, args=TrainingArguments(output_dir=folder, **ARGUMENTS, **more), train_dataset=rows)
        step = trainer.training_step

        def exact(*given, **named):
            loss = step(*given, **named)
            kept.append(loss.item())
            return loss

        trainer.training_step = exact  # logs are rounded
        trainer.train()
    return {"arguments": ARGUMENTS, "tokens": tokens.tolist(), "losses": kept}


def all_runs(models):
    plain = train(models)
    smoothed = train(models, label_smoothing_factor=0.1)["losses"]
    return plain | {"smoothed": smoothed, "epochs": epochs(models, EPOCHS), "delayed": epochs(models, DELAYED)}


def decay(models):
    lines = []
    for folder in sorted(models.glob("tiny-hf/*")) + sorted(models.glob("tiny-lm/*")):
        try:
            model = AutoModel.from_config(AutoConfig.from_pretrained(folder))
            kind = getattr(__import__("transformers"), model.config.architectures[0])
            model = kind(model.config)
        except Exception as e:
            print(folder, e)
            continue
        names = set(Trainer.get_decay_parameter_names(None, model))
        for name, _ in model.named_parameters():
            lines.append(f"{folder.parent.name}/{folder.name} {name} {int(name in names)}")
    return lines


if __name__ == "__main__":
    models = pathlib.Path(sys.argv[1])
    pathlib.Path(sys.argv[3]).write_text("".join(line + "\n" for line in decay(models)))
    pathlib.Path(sys.argv[2]).write_text(json.dumps(all_runs(models)) + "\n")
