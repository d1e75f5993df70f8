"""Makes testdata/checkpoints/torch: what torch 2.13.0 saves (torch.save, distributed checkpoints), and the same tensors in safetensors 0.8.0.

usage: python torch_checkpoints.py FOLDER

FOLDER/states.bin          zip form: views, strides, a shared storage, parameters, every number type, an empty tensor, one without axes
FOLDER/states-old.pt       the same in the older form
FOLDER/states-3.pt         some of it in pickle protocol 4
FOLDER/states.safetensors  the same, contiguous
FOLDER/shards/             pytorch_model.bin in two files with their index
FOLDER/trainer.pt          what training programs save: a state dict under a key, names of DDP and torch.compile, an optimizer, random states, a namespace
FOLDER/module.pt           a whole module, not a state dict
FOLDER/dcp/                dcp.save by four processes: cut along rows, columns, both, unevenly, with an optimizer and a number
FOLDER/dcp-flat/           dcp.save of a bare state dict by one process
FOLDER/dcp-hf/             HuggingFaceStorageWriter with save_distributed by two processes
FOLDER/dcp.safetensors     the weights of dcp/, dcp-flat/ and dcp-hf/
"""
import argparse
import json
import pathlib
import random
import shutil
import sys
import warnings
from collections import OrderedDict

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file

warnings.filterwarnings("ignore")


def numbers(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def states():
    base = numbers(1, 6, 8)
    tall = numbers(2, 40, 24, dtype=torch.bfloat16)
    state = OrderedDict()
    state["plain"] = base.clone()
    state["transposed"] = tall.t()
    state["shared.a"] = base
    state["shared.b"] = base
    state["rows"] = base[2:5]
    state["columns"] = base[:, 3:7]
    state["every_other"] = base[::2, 1::3]
    state["permuted"] = numbers(3, 3, 4, 5).permute(2, 0, 1)
    state["expanded"] = numbers(4, 1, 7).expand(3, 7)
    state["parameter"] = torch.nn.Parameter(numbers(5, 4, 4))
    state["frozen"] = torch.nn.Parameter(numbers(6, 4), requires_grad=False)
    state["scalar"] = torch.tensor(42)
    state["empty"] = torch.empty(0, 5)
    state["truth"] = torch.tensor([True, False, True])
    for name in ["float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]:
        state[name] = numbers(7, 3, 5).to(getattr(torch, name))
    for name in ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]:
        state[name] = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    state["float8_e8m0fnu"] = torch.tensor([1.0, 4.0, 0.5]).to(torch.float8_e8m0fnu)
    state["complex64"] = torch.complex(numbers(8, 2, 2), numbers(9, 2, 2))
    return state


def contiguous(state):
    return {k: v.detach().contiguous().clone() for k, v in state.items()}


def saved(folder):
    state = states()
    torch.save(state, folder / "states.bin")
    torch.save(state, folder / "states-old.pt", _use_new_zipfile_serialization=False)
    torch.save({k: state[k] for k in ["plain", "transposed", "float8_e4m3fn"]}, folder / "states-3.pt", pickle_protocol=4)
    save_file(contiguous(state), folder / "states.safetensors")

    shards = folder / "shards"
    shards.mkdir()
    parts = [{"a.weight": numbers(10, 4, 4), "a.bias": numbers(11, 4)}, {"b.weight": numbers(12, 2, 4).half()}]
    index = {"metadata": {"total_size": 96}, "weight_map": {}}
    for i, part in enumerate(parts):
        name = f"pytorch_model-{i + 1:05d}-of-00002.bin"
        torch.save(part, shards / name)
        index["weight_map"].update({k: name for k in part})
    (shards / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")

    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        model.weight.copy_(numbers(13, 3, 4))
        model.bias.copy_(numbers(14, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(numbers(15, 2, 4)).sum().backward()
    optimizer.step()
    torch.save({
        "model_state_dict": {"module._orig_mod." + k: v for k, v in model.state_dict().items()},
        "optimizer_state_dict": optimizer.state_dict(),
        "epoch": 3, "loss": 0.25, "best": None, "args": argparse.Namespace(lr=1e-3, name="run"),
        "rng": {"torch": torch.get_rng_state()[:16].clone(), "numpy": numpy.float64(1.5)},
    }, folder / "trainer.pt")
    torch.save(model, folder / "module.pt")


def weights():
    return {
        "embed.weight": numbers(20, 10, 6),
        "layers.0.rows.weight": numbers(21, 8, 4, dtype=torch.bfloat16),
        "layers.0.columns.weight": numbers(22, 4, 8, dtype=torch.bfloat16),
        "layers.0.both.weight": numbers(23, 8, 8),
        "layers.0.uneven.weight": numbers(24, 7, 3),
        "layers.0.norm.weight": numbers(25, 6),
        "layers.0.counter": torch.tensor(7),
    }


def rank(i, world, folder, port):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=i, world_size=world)
    w = weights()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")) if world == 4 else init_device_mesh("cpu", (2,))

    def cut(name, value):
        if world == 2:
            return distribute_tensor(value, mesh, [Shard(0) if value.dim() else Replicate()])
        by = {"rows": [Shard(0), Replicate()], "columns": [Replicate(), Shard(1)], "both": [Shard(0), Shard(1)],
              "uneven": [Shard(0), Replicate()], "embed": [Shard(1), Shard(0)]}
        for key, placements in by.items():
            if key in name:
                return distribute_tensor(value, mesh, placements)
        return value

    state = {k: cut(k, v) for k, v in w.items()}
    if world == 4:
        optimizer = {"state": {k: {"exp_avg": v, "step": torch.tensor(3.0)} for k, v in state.items()}, "lr": 0.5}
        dcp.save({"model": state, "optimizer": optimizer, "step": 17}, checkpoint_id=folder / "dcp")
    else:
        state = {k: v for k, v in state.items() if v.dim()}
        dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(folder / "dcp-hf"), save_distributed=True))
    dist.destroy_process_group()


def main(folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    saved(folder)
    save_file(contiguous(weights()), folder / "dcp.safetensors")
    mp.spawn(rank, (4, folder, 29511), nprocs=4)
    mp.spawn(rank, (2, folder, 29512), nprocs=2)
    dcp.save(weights(), checkpoint_id=folder / "dcp-flat", no_dist=True)


if __name__ == "__main__":
    main(sys.argv[1])
