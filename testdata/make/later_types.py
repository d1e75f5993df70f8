"""Collects ONNX's own test cases of operators that took further number types, or got another rule for the size of their output, between
opset 21 and 28, with the outputs that its reference implementation gives: later_types.py OUT. Made with onnx 1.23.1, ONNX Runtime 1.30 and
safetensors 0.8.0.

One safetensors file; for each case NAME: NAME/model, the bytes of its model (U8); NAME/in.VALUE and NAME/out.VALUE, its inputs and expected
outputs. Cases called own_* are self-made: their outputs are what ONNX Runtime gives at the opset of the model.
"""

import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.backend.test.case.node import collect_testcases
from safetensors.numpy import save_file

tensors = {}


def put(name, model, inputs, outputs):
    tensors[f"{name}/model"] = np.frombuffer(model.SerializeToString(), dtype=np.uint8)
    for direction, infos, values in (("in", model.graph.input, inputs), ("out", model.graph.output, outputs)):
        for info, value in zip(infos, values):
            tensors[f"{name}/{direction}.{info.name}"] = np.ascontiguousarray(value).reshape(np.shape(value))


def wanted(case):
    nodes = case.model.graph.node
    if len(nodes) != 1:
        return False
    op = nodes[0].op_type
    inputs, _ = case.data_sets[0]
    if op not in ("BitShift", "Celu", "Range", "AveragePool", "MaxPool"):
        return False
    kind = np.asarray(inputs[0]).dtype
    return (
        (op == "BitShift" and kind.kind == "i")
        or (op in ("Celu", "Range") and kind == np.float16)
        or (op in ("AveragePool", "MaxPool") and "2d_ceil" in case.name)
    )


for case in collect_testcases(None):
    if wanted(case):
        put(case.name.removeprefix("test_"), case.model, *case.data_sets[0])


def own(name, op, ir, opset, x, out, **attributes):
    """A node over x, at an opset that ONNX Runtime knows."""
    kind = helper.np_dtype_to_tensor_dtype(x[0].dtype)
    names = [f"x{i}" for i in range(len(x))]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        name,
        [helper.make_tensor_value_info(n, kind, v.shape) for n, v in zip(names, x)],
        [helper.make_tensor_value_info("y", kind, out)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    put(f"own_{name}", model, x, session.run(None, dict(zip(names, x))))


rows = np.random.default_rng(1).standard_normal((1, 2, 4, 7)).astype(np.float32)
# the last row of windows starts in the padding, the last column does not fit and is kept
mixed = {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 0, 1, 0], "ceil_mode": 1}
own("maxpool_mixed", "MaxPool", 10, 22, [rows], [1, 2, 2, 3], **mixed)
own("averagepool_mixed", "AveragePool", 10, 22, [rows], [1, 2, 2, 3], **mixed)

# Celu of F64: ONNX Runtime has none, so the outputs are numpy's
x = np.linspace(-3, 3, 13)
for alpha in (1.0, 2.5):
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Celu", ["x"], ["y"], alpha=alpha)],
            "celu",
            [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [13])],
            [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [13])],
        ),
        opset_imports=[helper.make_opsetid("", 28)],
        ir_version=13,
    )
    put(f"own_celu_f64_{alpha}", model, [x], [np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(x / alpha))])
save_file(tensors, sys.argv[1])
