"""Writes an encoder of random weights by an exporter of torch: export_made.py deberta-v2|bert OUT.onnx dynamo|torchscript|optimum

`optimum` is what optimum-cli calls: TorchScript at opset 18 with transformers' usual attention and the names and axes of its configuration. Weights are drawn with a fixed
seed and larger than a fresh model's, so that attention is not the same everywhere.
"""

import sys

import torch
from transformers import AutoConfig, AutoModel

from export_bert import Hidden

SIZES = {"vocab_size": 30522, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
OWN = {
    "deberta-v2": {"relative_attention": True, "max_relative_positions": -1, "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
                   "pos_att_type": ["p2c", "c2p"], "position_biased_input": False, "type_vocab_size": 0},
    "bert": {},
}


def main(kind, target, exporter):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SIZES, **OWN[kind])
    usual = {} if exporter == "optimum" or kind == "deberta-v2" else {"attn_implementation": "eager"}
    model = AutoModel.from_config(config, **usual).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4)
    ids = torch.randint(5, 1000, (2, 12))
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    if exporter == "dynamo":
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", min=2, max=512)}
        torch.onnx.export(Hidden(model), inputs, target, dynamo=True, input_names=names, output_names=["last_hidden_state"], external_data=False,
                          dynamic_shapes=tuple(axes for _ in names))
    else:
        axes = {0: "batch_size", 1: "sequence_length"}
        torch.onnx.export(Hidden(model), inputs, target, dynamo=False, opset_version=18 if exporter == "optimum" else 17, do_constant_folding=True,
                          input_names=names, output_names=["last_hidden_state"], dynamic_axes={name: axes for name in [*names, "last_hidden_state"]})


if __name__ == "__main__":
    main(*sys.argv[1:])
