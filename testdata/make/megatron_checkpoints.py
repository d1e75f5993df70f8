"""Makes testdata/checkpoints/megatron: checkpoints of Megatron Core in the form torch_dist, as megatron/core/dist_checkpointing of d98e8a6 writes them, by
torch 2.13.0's distributed checkpoints (Megatron itself was not installable). Their weights are testdata/checkpoints/llama and gpt2.

usage: python megatron_checkpoints.py CHECKPOINTS FOLDER

FOLDER/llama  two tensor-parallel and two pipeline-parallel ranks; a shared tensor for all layers with an axis in front; an optimizer; states of Transformer
              Engine as objects; the vocabulary padded to 128 rows; arguments in common.pt
FOLDER/gpt2   one process; each layer's tensors have a name of their own; the local spec's names of norms
"""
import argparse
import enum
import io
import json
import pathlib
import shutil
import sys
import types
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import load_file
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

warnings.filterwarnings("ignore")
LAYERS, PADDED = 2, 128


def megatron_enum():
    """A class that pickles as Megatron's does."""
    names = ["megatron", "megatron.core", "megatron.core.transformer", "megatron.core.transformer.enums"]
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    backend = enum.Enum("AttnBackend", {"flash": 1, "fused": 2, "unfused": 3, "local": 4, "auto": 5}, module=names[-1])
    sys.modules[names[-1]].AttnBackend = backend
    return backend.auto


def by_group(q, k, v, heads, groups):
    """Rows of queries, keys and values as Megatron has them: a group's queries, its key, its value."""
    size, per = q.shape[0] // heads, heads // groups
    rows = []
    for g in range(groups):
        rows += [q[g * per * size:(g + 1) * per * size], k[g * size:(g + 1) * size], v[g * size:(g + 1) * size]]
    return torch.cat(rows)


def padded(rows):
    return torch.cat([rows, torch.zeros(PADDED - rows.shape[0], rows.shape[1])])


def llama(source):
    hf = load_file(source / "llama" / "model.safetensors")
    state = {"embedding.word_embeddings.weight": padded(hf["model.embed_tokens.weight"]),
             "decoder.final_layernorm.weight": hf["model.norm.weight"],
             "output_layer.weight": padded(hf["lm_head.weight"])}
    per_layer = []
    for i in range(LAYERS):
        p = f"model.layers.{i}."
        attention = [hf[p + f"self_attn.{n}_proj.weight"] for n in "qkv"]
        per_layer.append({
            "self_attention.linear_qkv.weight": by_group(*attention, heads=4, groups=2),
            "self_attention.linear_qkv.layer_norm_weight": hf[p + "input_layernorm.weight"],
            "self_attention.linear_proj.weight": hf[p + "self_attn.o_proj.weight"],
            "mlp.linear_fc1.weight": torch.cat([hf[p + "mlp.gate_proj.weight"], hf[p + "mlp.up_proj.weight"]]),
            "mlp.linear_fc1.layer_norm_weight": hf[p + "post_attention_layernorm.weight"],
            "mlp.linear_fc2.weight": hf[p + "mlp.down_proj.weight"]})
    for key in per_layer[0]:
        state["decoder.layers." + key] = torch.stack([layer[key] for layer in per_layer])
    return state


def gpt2(source):
    hf = load_file(source / "gpt2" / "model.safetensors")
    state = {"embedding.word_embeddings.weight": hf["transformer.wte.weight"],
             "embedding.position_embeddings.weight": hf["transformer.wpe.weight"],
             "decoder.final_layernorm.weight": hf["transformer.ln_f.weight"],
             "decoder.final_layernorm.bias": hf["transformer.ln_f.bias"]}
    for i in range(LAYERS):
        p, m = f"transformer.h.{i}.", f"decoder.layers.{i}."
        for kind in ["weight", "bias"]:
            turn = (lambda t: t.t().contiguous()) if kind == "weight" else (lambda t: t)
            q, k, v = turn(hf[p + "attn.c_attn." + kind]).chunk(3)
            state[m + "self_attention.linear_qkv." + kind] = by_group(q, k, v, heads=4, groups=4)
            state[m + "self_attention.linear_proj." + kind] = turn(hf[p + "attn.c_proj." + kind])
            state[m + "mlp.linear_fc1." + kind] = turn(hf[p + "mlp.c_fc." + kind])
            state[m + "mlp.linear_fc2." + kind] = turn(hf[p + "mlp.c_proj." + kind])
            state[m + "input_layernorm." + kind] = hf[p + "ln_1." + kind]
            state[m + "pre_mlp_layernorm." + kind] = hf[p + "ln_2." + kind]
    return state


def extra_state():
    """What Transformer Engine gives Megatron to save of a module."""
    buffer = io.BytesIO()
    torch.save([torch.empty(0, dtype=torch.uint8)], buffer)
    buffer.seek(0)
    return buffer


def rank(i, source, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29513", rank=i, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
    cut = {}
    for key, value in llama(source).items():
        layered = key.startswith("decoder.layers.")
        tp = Replicate()
        if "linear_qkv.weight" in key or "linear_fc1.weight" in key:
            tp = Shard(1)
        elif "linear_proj" in key or "linear_fc2" in key:
            tp = Shard(2)
        elif "embedding" in key or "output_layer" in key:
            tp = Shard(0)
        cut[key] = distribute_tensor(value, mesh, [Shard(0) if layered else Replicate(), tp])
    state = dict(cut)
    state["optimizer.state.exp_avg.decoder.final_layernorm.weight"] = cut["decoder.final_layernorm.weight"]
    state["decoder.layers.self_attention.linear_qkv._extra_state/shard_0_2"] = extra_state()
    dcp.save(state, checkpoint_id=folder, planner=DefaultSavePlanner(flatten_state_dict=False))
    dist.destroy_process_group()


def common(folder, **arguments):
    args = argparse.Namespace(num_layers=LAYERS, hidden_size=32, num_attention_heads=4, attention_backend=megatron_enum(), **arguments)
    torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 10, "num_floating_point_operations_so_far": 0}, folder / "common.pt")
    (folder / "metadata.json").write_text(json.dumps(
        {"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}))
    (folder.parent / "latest_checkpointed_iteration.txt").write_text("10")


def main(source, folder):
    source, folder = pathlib.Path(source), pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    step = folder / "llama" / "iter_0000010"
    step.mkdir(parents=True)
    mp.spawn(rank, (source, step), nprocs=4)
    common(step, group_query_attention=True, num_query_groups=2, swiglu=True, position_embedding_type="rope", padded_vocab_size=PADDED)
    step = folder / "gpt2" / "iter_0000010"
    step.mkdir(parents=True)
    dcp.save(gpt2(source), checkpoint_id=step, no_dist=True, planner=DefaultSavePlanner(flatten_state_dict=False))
    common(step, group_query_attention=False, num_query_groups=1, swiglu=False, position_embedding_type="learned_absolute")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
