"""Makes testdata/checkpoints/deepspeed: checkpoints of ZeRO as DeepSpeed writes them (edaa722: runtime/engine.py, runtime/zero/{stage_1_and_2,stage3}.py,
checkpoint/ds_to_universal.py), saved by torch 2.13.0; DeepSpeed itself was not installable.

usage: python deepspeed_checkpoints.py FOLDER

FOLDER/zero1      two ranks, one group, the last rank's padding left out
FOLDER/zero2      three ranks, two groups, padding, a frozen parameter, a buffer, a shared parameter; bf16's names of files
FOLDER/zero3      three ranks, two subgroups on each, parameters that the ranks do not divide, a frozen parameter in parts, a buffer
FOLDER/universal  the parameters of zero2 with a dict each, moments, steps
FOLDER/universal3 those of zero3 as vectors, as stage 3 is made universal
FOLDER/weights.safetensors  what they all hold
"""
import enum
import math
import pathlib
import shutil
import sys
import types
from collections import OrderedDict

import torch
from safetensors.torch import save_file


def module(name, **classes):
    parts = name.split(".")
    for i in range(len(parts)):
        sys.modules.setdefault(".".join(parts[:i + 1]), types.ModuleType(".".join(parts[:i + 1])))
    for key, value in classes.items():
        value.__module__ = name
        value.__qualname__ = key
        setattr(sys.modules[name], key, value)


class LossScaler:
    def __init__(self):
        self.cur_scale = 1.0


class fragment_address:
    def __init__(self, numel, start):
        self.numel, self.start = numel, start


class ZeroStageEnum(int, enum.Enum):
    disabled, optimizer_states, gradients, weights = 0, 1, 2, 3


module("deepspeed.runtime.fp16.loss_scaler", LossScaler=LossScaler)
module("deepspeed.utils.tensor_fragment", fragment_address=fragment_address)
module("deepspeed.runtime.zero.config", ZeroStageEnum=ZeroStageEnum)


def numbers(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


DECAYED = OrderedDict([("embed.weight", numbers(1, 11, 4)), ("layers.0.fc.weight", numbers(2, 5, 4)), ("layers.1.fc.weight", numbers(3, 3, 7))])
OTHERS = OrderedDict([("layers.0.norm.weight", numbers(4, 5)), ("layers.0.fc.bias", numbers(5, 3)), ("scale", numbers(6))])
FROZEN = OrderedDict([("frozen.weight", numbers(7, 4, 2))])
BUFFERS = {"rope.inv_freq": numbers(8, 4)}
SHARED = {"head.weight": "embed.weight"}


def model_states(groups, stage, frozen_fragments, frozen=True):
    shapes = [OrderedDict((n, t.shape) for n, t in group.items()) for group in groups]
    sixteen = OrderedDict((n, t.bfloat16()) for group in groups for n, t in group.items()) if stage < 3 else OrderedDict()
    return {
        "module": OrderedDict([*sixteen.items(), *BUFFERS.items()]),
        "buffer_names": list(BUFFERS), "optimizer": None, "param_shapes": shapes,
        "frozen_param_shapes": OrderedDict((n, t.shape) for n, t in FROZEN.items()) if frozen else None,
        "frozen_param_fragments": frozen_fragments if frozen else None,
        "shared_params": dict(SHARED), "lr_scheduler": {"last_epoch": 4}, "data_sampler": None, "random_ltd": None,
        "sparse_tensor_module_names": set(), "skipped_steps": 0, "global_steps": 4, "global_samples": 32, "dp_world_size": 2,
        "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}}, "ds_version": "0.19.8"}


def moments(vector):
    return {"step": torch.tensor(4.0), "exp_avg": vector * 0.1, "exp_avg_sq": vector * vector}


def save_12(folder, stage, groups, ranks, prefix, cut_padding, frozen):
    folder.mkdir(parents=True)
    parts = []
    for group in groups:
        vector = torch.cat([t.flatten() for t in group.values()])
        align = 2 * ranks
        vector = torch.cat([vector, torch.zeros(-len(vector) % align)])
        parts.append((vector.chunk(ranks), sum(t.numel() for t in group.values())))
    torch.save(model_states(groups, stage, dict(FROZEN), frozen), folder / "mp_rank_00_model_states.pt")
    for rank in range(ranks):
        own = []
        for chunks, count in parts:
            chunk = chunks[rank]
            if cut_padding:
                chunk = chunk[:max(0, min(len(chunk), count - rank * len(chunk)))]
            own.append(chunk.clone())
        mappings = [OrderedDict((n, fragment_address(t.numel(), 0)) for n, t in group.items()) for group in groups]
        state = {"loss_scaler": LossScaler(), "dynamic_loss_scale": False, "overflow": False, "clip_grad": 1.0,
                 "base_optimizer_state": {"state": {i: moments(v) for i, v in enumerate(own)}, "param_groups": [{"lr": 1e-3, "params": [0]}]},
                 "single_partition_of_fp32_groups": own, "zero_stage": ZeroStageEnum(stage), "group_paddings": [0] * len(own),
                 "partition_count": [ranks] * len(own), "ds_version": "0.19.8", "param_slice_mappings": mappings}
        torch.save({"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.8"},
                   folder / f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def part(tensor, rank, ranks):
    flat = tensor.flatten()
    size = math.ceil(len(flat) / ranks)
    return torch.cat([flat, torch.zeros(size * ranks - len(flat))])[rank * size:(rank + 1) * size].clone()


def save_3(folder, groups, ranks):
    folder.mkdir(parents=True)
    for rank in range(ranks):
        torch.save(model_states(groups, 3, {n: part(t, rank, ranks) for n, t in FROZEN.items()}),
                   folder / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        vector = torch.cat([part(t, rank, ranks) for group in groups for t in group.values()])
        cut = 13  # subgroups end within a parameter
        flat = [vector[:cut].clone(), vector[cut:].clone()]
        state = {"zero_stage": 3, "loss_scaler": LossScaler(), "dynamic_loss_scale": False, "overflow": False, "partition_count": ranks,
                 "optimizer_state_dict": {"state": {i: moments(v) for i, v in enumerate(flat)}, "param_groups": []}, "fp32_flat_groups": flat}
        torch.save({"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.8"},
                   folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


def save_universal(folder, groups, flat):
    for group in groups:
        for name, tensor in group.items():
            own = folder / "zero" / name
            own.mkdir(parents=True)
            torch.save(torch.tensor(4.0), own / "step.pt")
            states = {"fp32": tensor, "exp_avg": tensor * 0.1, "exp_avg_sq": tensor * tensor}
            for key, value in states.items():
                torch.save(value.flatten() if flat else {"param": value, "cat_dim": 0}, own / f"{key}.pt")
    torch.save({"param_groups": []}, folder / "zero" / "optimizer_state.pt")
    name = "zero_pp_rank_0_mp_rank_00_model_states.pt" if flat else "mp_rank_00_model_states.pt"
    states = model_states(groups, 3 if flat else 2, {})
    states["universal_checkpoint_info"] = {"universal_checkpoint_version": 0.4}
    torch.save(states, folder / name)


def main(folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    one = [OrderedDict([*DECAYED.items(), *OTHERS.items()])]
    two = [DECAYED, OTHERS]
    save_12(folder / "zero1" / "global_step4", 1, one, 2, "", True, False)
    (folder / "zero1" / "latest").write_text("global_step4")
    save_12(folder / "zero2" / "global_step4", 2, two, 3, "bf16_", False, True)
    (folder / "zero2" / "latest").write_text("global_step4")
    save_3(folder / "zero3" / "global_step4", one, 3)
    (folder / "zero3" / "latest").write_text("global_step4")
    save_universal(folder / "universal" / "global_step4_universal", two, False)
    (folder / "universal" / "latest_universal").write_text("global_step4_universal")
    save_universal(folder / "universal3", one, True)
    weights = {**DECAYED, **OTHERS, **FROZEN, **BUFFERS}
    weights.update({name: weights[other].clone() for name, other in SHARED.items()})
    save_file(weights, folder / "weights.safetensors")


if __name__ == "__main__":
    main(sys.argv[1])
