"""Makes checkpoints in forms of torch for bench/run-torch-checkpoints: the same Llama-shaped BF16 weights as FOLDER/rows (dcp.save by four processes, cut along
rows, as FSDP cuts), FOLDER/columns (cut along columns, as tensor parallelism cuts half of the weights), FOLDER/model.bin (torch.save) and
FOLDER/model.safetensors.

usage: python torch_checkpoints.py FOLDER GIGABYTES
"""
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file

HIDDEN, MLP = 2048, 8192
SHAPES = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (512, HIDDEN), "self_attn.v_proj": (512, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
          "mlp.gate_proj": (MLP, HIDDEN), "mlp.up_proj": (MLP, HIDDEN), "mlp.down_proj": (HIDDEN, MLP)}


def weights(gigabytes):
    layer = 2 * sum(a * b for a, b in SHAPES.values())
    generator = torch.Generator().manual_seed(1)
    return {f"model.layers.{i}.{n}.weight": torch.empty(s, dtype=torch.bfloat16).normal_(generator=generator)
            for i in range(max(1, round(gigabytes * 1e9 / layer))) for n, s in SHAPES.items()}


def rank(i, folder, gigabytes):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29519", rank=i, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    state = weights(gigabytes)
    for axis, name in enumerate(["rows", "columns"]):
        dcp.save({n: distribute_tensor(t, mesh, [Shard(axis)]) for n, t in state.items()}, checkpoint_id=f"{folder}/{name}")
    dist.destroy_process_group()


if __name__ == "__main__":
    folder, gigabytes = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    mp.spawn(rank, (folder, gigabytes), nprocs=4)
    torch.save(weights(gigabytes), folder / "model.bin")
    save_file(weights(gigabytes), folder / "model.safetensors")
