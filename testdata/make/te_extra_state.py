"""Makes testdata/checkpoints/te and testdata/hostile/te: the state of FP8 training that Transformer Engine saves under MODULE._extra_state, with torch 2.13.0 and safetensors 0.8.0.

usage: python te_extra_state.py TESTDATA

Transformer Engine cannot be installed without CUDA, so this follows transformer_engine/pytorch/module/base.py, get_extra_state, at 2.x (commit d0067d0: a uint8 tensor of
pickle.dumps) and at v1.13 (an io.BytesIO of torch.save); the recipe's classes are made here under its module's name, as transformer_engine/common/recipe/__init__.py has them.

checkpoints/te/te2.bin          torch.save of a state dict of 2.x: a Linear, an MLP of two GEMMs, modules of current scaling, without FP8, and of an empty tensor
checkpoints/te/te2.safetensors  the same
checkpoints/te/te1.bin          torch.save of one of 1.x
checkpoints/te/dcp/             dcp.save of te2.bin, and a state that Megatron's planner saves: torch.save of the tensor, as bytes
checkpoints/te/zero1/           a checkpoint of DeepSpeed at stage 1 of one rank: te2.bin's states in its module, as deepspeed_checkpoints.py has the rest
checkpoints/te/expected.json    recipe, length of the history, and of each GEMM [quantScale, newest amax, largest amax] of input, weight, output, grad_output, grad_input
hostile/te/NAME.bin             the bytes of one state, each with the defect in its name

Another run gives other bytes and the same numbers: pickled storages are called by their addresses.
"""
import enum
import io
import json
import pathlib
import pickle
import shutil
import sys
import types
import typing
import warnings
from dataclasses import dataclass

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

warnings.filterwarnings("ignore")

MODULE = "transformer_engine.common.recipe"


class _FormatHelper(typing.NamedTuple):
    max_fwd: float
    max_bwd: float


class Format(enum.Enum):
    E4M3 = _FormatHelper(448, 448)
    HYBRID = _FormatHelper(448, 57344)


class _OverrideLinearPrecision(typing.NamedTuple):
    fprop: bool = False
    dgrad: bool = False
    wgrad: bool = False


@dataclass()
class DelayedScaling:
    margin: int = 0
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1024
    amax_compute_algo: str = "max"
    override_linear_precision: _OverrideLinearPrecision = _OverrideLinearPrecision()
    scaling_factor_compute_algo: typing.Any = None
    reduce_amax: bool = True
    fp8_dpa: bool = False
    fp8_mha: bool = False


@dataclass(frozen=True)
class QParams:
    power_2_scale: bool = False
    amax_epsilon: float = 0.0


@dataclass()
class Float8CurrentScaling:
    fp8_format: Format = Format.HYBRID
    fp8_quant_fwd_inp: QParams = QParams()


def install():
    package = None
    for i in range(len(MODULE.split("."))):
        name = ".".join(MODULE.split(".")[: i + 1])
        package = sys.modules.setdefault(name, types.ModuleType(name))
    for c in (_FormatHelper, Format, _OverrideLinearPrecision, DelayedScaling, QParams, Float8CurrentScaling):
        c.__module__, c.__qualname__ = MODULE, c.__name__
        setattr(package, c.__name__, c)


def buffers(seed, gemms, length, margin=0):
    """Scales and histories after some steps: row 0 is pending and was reset, the last row is the newest."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for key, slots, used, top in (("fwd", 3, (0, 1), 448.0), ("bwd", 2, (0,), 57344.0)):
        history = torch.zeros(length, slots * gemms)
        for g in range(gemms):
            for slot in used:
                history[1:, g * slots + slot] = torch.rand(length - 1, generator=generator) * (4.0 if key == "fwd" else 1e-3) + 1e-6
        amax = history.max(dim=0).values
        found["scale_" + key] = torch.where(amax > 0, (top / amax) / 2**margin, torch.ones_like(amax))
        found["amax_history_" + key] = history
    return found


def extra(gemms):
    return {"fp8_checkpoint": True, "num_gemms": gemms, "fp8_max_fwd": 448.0, "fp8_max_bwd": 57344.0, "update_amax_and_scale_fwd": True}


def version2(seed, gemms, length, recipe):
    state = {"recipe": recipe}
    if isinstance(recipe, DelayedScaling):
        state.update(buffers(seed, gemms, length, recipe.margin))
    state["extra_fp8_variables"] = extra(gemms)
    return torch.frombuffer(bytearray(pickle.dumps(state)), dtype=torch.uint8)


def version1(state):
    serialized = io.BytesIO()
    torch.save(state, serialized)
    return serialized


def expected(recipe, length, gemms, state):
    rows = []
    for g in range(gemms):
        slots = [("fwd", 3 * g + i) for i in range(3)] + [("bwd", 2 * g + i) for i in range(2)]
        rows.append([[float(state["scale_" + k][s]), float(state["amax_history_" + k][-1, s]), float(state["amax_history_" + k][:, s].max())] for k, s in slots])
    return {"recipe": recipe, "history": length, "gemms": rows}


class AsIs(DefaultSavePlanner):
    """Megatron's planner takes bytes as they are."""

    def transform_object(self, write_item, obj):
        return obj if isinstance(obj, io.BytesIO) else super().transform_object(write_item, obj)


def make(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    weights = {f"layers.0.{m}.weight": torch.randn(16, 16, generator=torch.Generator().manual_seed(i)) for i, m in enumerate(["qkv", "mlp.fc1", "mlp.fc2", "proj", "out", "head"])}
    states = {
        "layers.0.qkv": version2(1, 1, 16, DelayedScaling(amax_history_len=16)),
        "layers.0.mlp": version2(2, 2, 8, DelayedScaling(amax_history_len=8, margin=1)),
        "layers.0.proj": version2(3, 1, 0, Float8CurrentScaling()),
        "layers.0.out": torch.frombuffer(bytearray(pickle.dumps(None)), dtype=torch.uint8),
        "layers.0.head": torch.empty(0, dtype=torch.uint8),
    }
    want = {
        "layers.0.qkv": expected("DelayedScaling", 16, 1, buffers(1, 1, 16)),
        "layers.0.mlp": expected("DelayedScaling", 8, 2, buffers(2, 2, 8, 1)),
        "layers.0.proj": expected("Float8CurrentScaling", 0, 0, {}),
        "layers.0.out": expected("", 0, 0, {}),
        "layers.0.head": expected("", 0, 0, {}),
    }
    two = {**weights, **{m + "._extra_state": s for m, s in states.items()}}
    torch.save({"model": two, "iteration": 7}, folder / "te2.bin")
    save_file(two, folder / "te2.safetensors", metadata={"format": "pt"})
    old = buffers(1, 1, 16)
    old.update({k.replace("scale", "scale_inv"): 1 / v for k, v in old.items() if k.startswith("scale_")})
    one = {**weights, "layers.0.qkv._extra_state": version1({**old, "extra_fp8_variables": extra(1)}), "layers.0.out._extra_state": version1(None)}
    torch.save(one, folder / "te1.bin")
    shard = io.BytesIO()
    torch.save(states["layers.0.qkv"], shard)
    dcp.save({**two, "decoder.layers.qkv._extra_state/shard_0_2": shard}, checkpoint_id=folder / "dcp", planner=AsIs(), no_dist=True)
    deepspeed(folder / "zero1", weights, states)
    (folder / "expected.json").write_text(json.dumps(want, indent=1) + "\n")


def deepspeed(folder, weights, states):
    """What engine.save_checkpoint writes of a model with these modules: its state dict is under "module", FP32 weights are with the optimizer."""
    import deepspeed_checkpoints as ds

    step = folder / "global_step7"
    step.mkdir(parents=True)
    module = {**{n: t.bfloat16() for n, t in weights.items()}, **{m + "._extra_state": s for m, s in states.items()}}
    torch.save({**ds.model_states([weights], 1, None, frozen=False), "module": module, "buffer_names": [], "shared_params": {}}, step / "mp_rank_00_model_states.pt")
    vector = torch.cat([t.flatten() for t in weights.values()])
    state = {"single_partition_of_fp32_groups": [vector], "zero_stage": ds.ZeroStageEnum(1), "group_paddings": [0], "partition_count": [1],
             "base_optimizer_state": {"state": {0: ds.moments(vector)}, "param_groups": []}, "ds_version": "0.19.8"}
    torch.save({"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.8"}, step / "zero_pp_rank_0_mp_rank_00_optim_states.pt")
    (folder / "latest").write_text("global_step7")


class Foreign:
    def __reduce__(self):
        return (eval, ("1",))


def hostile(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    def put(name, state):
        (folder / (name + ".bin")).write_bytes(state if isinstance(state, bytes) else pickle.dumps(state))

    def good(**changes):
        return {"recipe": DelayedScaling(), **buffers(1, 1, 4), "extra_fp8_variables": extra(1), **changes}

    put("foreign-class", good(extra_fp8_variables={"x": Foreign()}))
    put("foreign-recipe", good(recipe=types.SimpleNamespace(a=Foreign())))
    put("slots-that-make-no-gemm", good(scale_fwd=torch.ones(4)))
    put("history-of-other-slots", good(amax_history_fwd=torch.zeros(4, 6)))
    put("histories-of-two-lengths", good(amax_history_bwd=torch.zeros(5, 2)))
    put("history-of-no-steps", good(amax_history_fwd=torch.zeros(0, 3), amax_history_bwd=torch.zeros(0, 2)))
    put("scale-of-zero", good(scale_fwd=torch.tensor([1.0, 0.0, 1.0])))
    put("scale-that-is-no-number", good(scale_bwd=torch.tensor([float("nan"), 1.0])))
    put("negative-amax", good(amax_history_fwd=-torch.ones(4, 3)))
    put("scales-of-bytes", good(scale_fwd=torch.ones(3, dtype=torch.uint8)))
    put("no-history", {k: v for k, v in good().items() if k != "amax_history_bwd"})
    put("numbers-for-tensors", good(scale_fwd=[1.0, 1.0, 1.0]))
    whole = pickle.dumps(good())
    put("cut-short", whole[: len(whole) // 2])
    # a tensor that says that it is longer than its storage: its shape (3,), then its stride
    put("shape-beyond-storage", whole.replace(b"K\x03\x85", b"K\x30\x85", 1))

    wrapped = torch.frombuffer(bytearray(whole), dtype=torch.uint8)
    for _ in range(5):
        buffer = io.BytesIO()
        torch.save(wrapped, buffer)
        wrapped = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    put("wrapped-too-often", wrapped.numpy().tobytes())

    # the bytes of a storage whose file is no storage but a tensor whose storage is such bytes again
    inner = whole
    for _ in range(3):
        magic = io.BytesIO()
        pickle.dump(0x1950A86A20F9469CFC6C, magic, protocol=2)
        pickle.dump(1001, magic, protocol=2)
        pickle.dump({"protocol_version": 1001, "little_endian": True}, magic, protocol=2)
        nested = b"\x80\x02ctorch.storage\n_load_from_bytes\n(B" + len(inner).to_bytes(4, "little") + inner + b"tR."
        inner = magic.getvalue() + nested + pickle.dumps([], protocol=2)
    body = b"\x80\x02}(X\x09\x00\x00\x00scale_fwdctorch._utils\n_rebuild_tensor_v2\n(ctorch.storage\n_load_from_bytes\n(B" + len(inner).to_bytes(4, "little") + inner
    put("storage-in-a-storage", body + b"tRK\x00K\x03\x85K\x01\x85\x89}tRu.")

    # one text of 64 kB, made into bytes 2000 times
    put("text-made-bytes-without-end", b"\x80\x02X" + (1 << 16).to_bytes(4, "little") + b"a" * (1 << 16) + b"q\x000](" + b"c_codecs\nencode\nh\x00\x85R" * 2000 + b"e.")


def main(root):
    install()
    make(pathlib.Path(root) / "checkpoints/te")
    hostile(pathlib.Path(root) / "hostile/te")


if __name__ == "__main__":
    main(sys.argv[1])
