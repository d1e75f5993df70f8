"""What accelerate really does with a configuration, by its own launcher; and the names that its schema and that of TrainingArguments have.

usage: python accelerate_launch.py FOLDER
made with accelerate 1.15.0, transformers 5.18.0 and torch 2.13.0; neither Transformer Engine, MS-AMP, DeepSpeed nor torchao is needed

FOLDER/accelerate/*.yaml are read as `accelerate launch --config_file` reads them, with accelerate's own functions: the parser and
_validate_launch_command of commands/launch.py, then the function of utils/launch.py that prepares the environment for the distributed type.
FOLDER/accelerate/launched.json gets for each file
  environment: what the launched script sees in its environment (ACCELERATE_*, FSDP_*, MEGATRON_LM_*, PARALLELISM_CONFIG_*)
  recipe: for mixed_precision fp8, the fields that TERecipeKwargs, MSAMPRecipeKwargs or AORecipeKwargs hold in that environment
  sent: of TERecipeKwargs, what to_kwargs() gives, which is all that Transformer Engine's recipe gets
  error: what was raised instead
accelerate believes that the libraries are installed (its is_..._available functions), and AORecipeKwargs gets a stand-in for torchao's
Float8LinearConfig that keeps its arguments.

FOLDER/keys/accelerate.txt: `section key`, each once: the fields of ClusterConfig and SageMakerConfig, what process_config takes besides, and the
options of the launcher that a section of the file can set.
FOLDER/keys/transformers.txt: the fields of TrainingArguments, the names of optimizers (`optim NAME`) and schedules (`lr_scheduler_type NAME`).
"""
import dataclasses
import json
import os
import pathlib
import sys
import types

os.environ.clear()
os.environ.update({"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
FOLDER_ARGUMENT = sys.argv[1]
sys.argv = ["launch"]

import accelerate.commands.launch as launch
import accelerate.utils.dataclasses as kinds
import accelerate.utils.launch as prepare
from accelerate.commands.config.config_args import ClusterConfig, SageMakerConfig
from accelerate.utils import patch_environment
from transformers import TrainingArguments
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames

FOLDER = pathlib.Path(FOLDER_ARGUMENT)
SEEN = ("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_")
prepare.is_fp8_available = lambda: True
kinds.is_transformer_engine_available = lambda: True
kinds.is_torchao_available = lambda: True
float8 = types.ModuleType("torchao.float8")
float8.Float8LinearConfig = lambda **fields: dict(fields)
sys.modules["torchao"] = types.ModuleType("torchao")
sys.modules["torchao.float8"] = float8


def environment(file):
    """Of the script that `accelerate launch --config_file FILE script.py` starts."""
    args = launch.launch_command_parser().parse_args(["--config_file", str(file), "script.py"])
    args, defaults, from_file = launch._validate_launch_command(args)
    if args.use_deepspeed:
        args.deepspeed_fields_from_accelerate_config = ",".join(
            list(defaults.deepspeed_config) + (["mixed_precision"] if from_file else [])
        )
        return prepare.prepare_deepspeed_cmd_env(args)[1]
    if args.use_fsdp or args.use_megatron_lm or args.multi_gpu:
        return prepare.prepare_multi_gpu_env(args)
    return prepare.prepare_simple_launcher_cmd_env(args)[1]


def plain(value):
    return list(value) if isinstance(value, tuple) else value


def recipe(env):
    backend = env.get("ACCELERATE_FP8_BACKEND")
    kind = {"TE": kinds.TERecipeKwargs, "MSAMP": kinds.MSAMPRecipeKwargs, "AO": kinds.AORecipeKwargs}.get(backend)
    if kind is None:
        return {}
    with patch_environment(**env):
        held = kind()
        answer = {"recipe": {k: plain(v) for k, v in held.to_dict().items()}}
        if backend == "TE":
            answer["sent"] = {k: plain(v) for k, v in held.to_kwargs().items()}
    return answer


def launched():
    answers = {}
    for file in sorted((FOLDER / "accelerate").glob("*.yaml")):
        answer = {}
        try:
            env = environment(file)
            answer["environment"] = {k: v for k, v in sorted(env.items()) if k.startswith(SEEN)}
            if env.get("ACCELERATE_MIXED_PRECISION") == "fp8":
                answer.update(recipe(env))
        except Exception as e:
            answer["error"] = f"{type(e).__name__}: {e}".replace(str(FOLDER / "accelerate") + "/", "")
        answers[file.name] = answer
    (FOLDER / "accelerate" / "launched.json").write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")


def accelerate_keys():
    fields = [("top", f.name) for f in dataclasses.fields(ClusterConfig)]
    fields += [("top", name) for name in ("fp16", "dynamo_backend")]
    fields += [("sagemaker", f.name) for f in dataclasses.fields(SageMakerConfig)]
    sections = {"fsdp_": "fsdp_config", "fp8_": "fp8_config", "dynamo_": "dynamo_config",
                "megatron_lm_": "megatron_lm_config", "parallelism_config_": "parallelism_config", "mpirun_": "mpirun_config"}
    parser = launch.launch_command_parser()
    for action in parser._actions:
        for prefix, section in sections.items():
            if action.dest.startswith(prefix):
                fields.append((section, action.dest))
        group = next((g.title for g in parser._action_groups if action in g._group_actions), "")
        if group == "DeepSpeed Arguments":
            fields.append(("deepspeed_config", action.dest))
    # the questionnaire's own spellings, and what only the environment reads
    fields += [("fp8_config", name) for name in (
        "amax_history_length", "amax_compute_algorithm", "optimization_level", "use_mxfp8_block_scaling")]
    fields.append(("fsdp_config", "fsdp_ignored_modules"))
    (FOLDER / "keys").mkdir(exist_ok=True)
    (FOLDER / "keys" / "accelerate.txt").write_text("".join(f"{s} {k}\n" for s, k in sorted(set(fields))))


def transformers_keys():
    lines = [f"key {f.name}" for f in dataclasses.fields(TrainingArguments)]
    lines += [f"optim {o.value}" for o in OptimizerNames]
    lines += [f"lr_scheduler_type {s.value}" for s in SchedulerType]
    (FOLDER / "keys" / "transformers.txt").write_text("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    launched()
    accelerate_keys()
    transformers_keys()
