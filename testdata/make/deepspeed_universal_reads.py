"""Checks what DeepSpeed asks of a universal checkpoint against a folder that Octet wrote, and compares each parameter with a file of safetensors, bit by bit.

usage: python deepspeed_universal_reads.py FOLDER EXPECTED.safetensors

DeepSpeed cannot be installed here, so this carries out what its code (commit edaa722) does with the files, in all stages: runtime/engine.py (load_checkpoint), runtime/base_optimizer.py
and checkpoint/universal_checkpoint.py (stages 1 and 2), runtime/zero/stage3.py (stage 3). torch 2.13.0, safetensors 0.8.0. Makes no test data;
`octet convert testdata/checkpoints/llama-128-small -o FOLDER --target deepspeed-universal` makes a FOLDER.
"""
import glob
import math
import os
import sys
import zipfile

import torch
from safetensors.torch import load_file


def load(path):
    assert zipfile.ZipFile(path).testzip() is None, path
    return torch.load(path, weights_only=True)


def flat_range(tensor, rank, ranks):
    """The part of a rank in stages 1 and 2: a range of the flattened tensor."""
    flat = tensor.chunk(1, 0)[0].flatten() if tensor.dim() else tensor.flatten()
    size = math.ceil(flat.numel() / ranks)
    start = min(rank * size, flat.numel())
    return flat.narrow(0, start, min(size, flat.numel() - start))


def stage3(tensor, rank, ranks):
    flat = tensor.view(-1)
    size = math.ceil(flat.numel() / ranks)
    if size * ranks != flat.numel():
        flat = torch.cat([flat, torch.zeros(size * ranks - flat.numel(), dtype=flat.dtype)])
    return flat.narrow(0, rank * size, size)


def main(folder, expected):
    want = {name: tensor.to(torch.float32) for name, tensor in load_file(expected).items()}
    tag = open(os.path.join(folder, "latest_universal")).read().strip()
    for name in ("mp_rank_*_model_states.pt", "zero_pp_rank_0_mp_rank_*_model_states.pt"):
        found = glob.glob(os.path.join(folder, tag, name))
        assert len(found) == 1, found
        model = load(found[0])
        assert (model["dp_world_size"], model["mp_world_size"], model["global_steps"], model["skipped_steps"]) == (1, 1, 0, 0)
        assert model["universal_checkpoint_info"]["universal_checkpoint_version"] == 0.4
        assert {n: tuple(s) for g in model["param_shapes"] for n, s in g.items()} == {n: tuple(t.shape) for n, t in want.items()}
        assert model.get("module") == {} and "sparse_tensor_module_names" not in model
    zero = os.path.join(folder, tag, "zero")
    state = load(os.path.join(zero, "optimizer_state.pt"))
    assert tuple(int(v) for v in state["ds_version"].split(".")) >= (0, 3, 17)
    assert len(state["param_groups"]) >= 64 and not any(state["param_groups"])  # zip() stops at the optimizer's own
    assert state["optimizer_state_dict"]["state"][0]["step"] == 0 and not any(state["optimizer_state_dict"]["param_groups"])
    assert set(os.listdir(zero)) == set(want) | {"optimizer_state.pt"}
    for name, tensor in want.items():
        files = sorted(f[:-3] for f in os.listdir(os.path.join(zero, name)))
        assert files == ["exp_avg", "exp_avg_sq", "fp32"], files
        for key in files:
            value = load(os.path.join(zero, name, key + ".pt"))["param"]
            truth = tensor if key == "fp32" else torch.zeros_like(tensor)
            assert value.shape == truth.shape and value.dtype == torch.float32, (name, key)
            for ranks in (1, 2, 3, 8):
                own = torch.cat([flat_range(value, r, ranks).clone().detach() for r in range(ranks)])
                assert torch.equal(own.view(torch.int32), truth.flatten().view(torch.int32)), (name, key, ranks)
                part = torch.cat([torch.zeros(math.ceil(truth.numel() / ranks)).copy_(stage3(value, r, ranks)) for r in range(ranks)])
                assert torch.equal(part[: truth.numel()].view(torch.int32), truth.flatten().view(torch.int32)), (name, key, ranks)
    print(f"{len(want)} parameters are the same")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
