"""The peer of bench/run-distributed: one rank of PyTorch's DistributedDataParallel or fully_shard, by gloo.

    distributed_torch.py MODEL FOLDER --ranks N --way ddp|fsdp --mode fp32|bf16 --steps S --lr X --batch B

starts N processes of one thread each; the first prints one JSON line: the mean loss of all ranks and the milliseconds of each step. Of N consecutive
batches of FOLDER/train.bin each is one rank's.
"""

import argparse
import json
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from adapters_torch import sequences
from torch import nn
from torch.nn import functional as F


def shared(model, options):
    if options.way == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (options.ranks,))
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def rank(number, options):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.port)}
    dist.init_process_group("gloo", rank=number, world_size=options.ranks)
    torch.set_num_threads(1)
    from transformers import AutoModelForCausalLM
    model = shared(AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32), options)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    rows = sequences(np.fromfile(f"{options.folder}/train.bin", dtype="<u2"))
    steps = len(rows) // (options.batch * options.ranks)
    losses, millis = [], []
    narrow = torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.mode == "bf16")
    for i in range(options.steps):
        start = time.perf_counter()
        at = (i % steps * options.ranks + number) * options.batch
        ids = rows[at:at + options.batch]
        with narrow:
            logits = model(input_ids=ids).logits.float()
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / options.ranks)
        millis.append((time.perf_counter() - start) * 1e3)
    if number == 0:
        print(json.dumps({"losses": losses, "millis": millis, "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--way", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--mode", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--port", type=int, default=29471)
    options = parser.parse_args()
    mp.spawn(rank, args=(options,), nprocs=options.ranks)


if __name__ == "__main__":
    main()
