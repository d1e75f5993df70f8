"""Writes a BERT encoder of an ONNX file again, by an exporter of torch: export_bert.py MODEL.onnx OUT.onnx dynamo|torchscript

Octet restores the weights under transformers' names (`octet convert --target huggingface`); OCTET names its command.
"""

import os
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModel


class Hidden(torch.nn.Module):
    """The encoder with its last hidden state alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state


def main(source, target, exporter):
    octet = os.environ.get("OCTET", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "octet")).split()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*octet, "convert", source, "-o", f"{folder}/bert", "--target", "huggingface"], check=True, stdout=sys.stderr)
        model = Hidden(AutoModel.from_pretrained(f"{folder}/bert", attn_implementation="eager", dtype=torch.float32).eval())
    ids = torch.randint(5, 1000, (2, 12))
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    if exporter == "dynamo":
        axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence", max=512)}
        torch.onnx.export(model, inputs, target, dynamo=True, input_names=names, output_names=["last_hidden_state"], external_data=False,
                          dynamic_shapes=tuple(axes for _ in names))
    else:
        axes = {0: "batch", 1: "sequence"}
        torch.onnx.export(model, inputs, target, dynamo=False, opset_version=17, input_names=names, output_names=["last_hidden_state"],
                          dynamic_axes={name: axes for name in [*names, "last_hidden_state"]})


if __name__ == "__main__":
    main(*sys.argv[1:])
