"""Collects ONNX's own test cases of the operators that came with opset 23 and 24, with the outputs that its reference implementation
gives: opset23_nodes.py OUT. Made with onnx 1.23.1 and safetensors 0.8.0.

One safetensors file; for each case NAME: NAME/model, the bytes of its model (U8); NAME/in.VALUE and NAME/out.VALUE, its inputs and expected
outputs. Cases of BF16 are left out: ONNX Runtime has no products of them on a processor.
"""

import sys

import numpy as np
from onnx.backend.test.case.node import collect_testcases
from safetensors.numpy import save_file

OPERATORS = ("Attention", "RMSNormalization", "RotaryEmbedding", "Swish")

tensors = {}
for case in collect_testcases(None):
    nodes = case.model.graph.node
    if len(nodes) != 1 or nodes[0].op_type not in OPERATORS:
        continue
    inputs, outputs = case.data_sets[0]
    if any(str(value.dtype) == "bfloat16" for value in inputs):
        continue
    name = case.name.removeprefix("test_")
    tensors[f"{name}/model"] = np.frombuffer(case.model.SerializeToString(), dtype=np.uint8)
    for direction, infos, values in (("in", case.model.graph.input, inputs), ("out", case.model.graph.output, outputs)):
        for info, value in zip(infos, values):
            tensors[f"{name}/{direction}.{info.name}"] = np.ascontiguousarray(value)
save_file(tensors, sys.argv[1])
