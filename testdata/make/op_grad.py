"""Operators that Octet trains by writing them with others: a model of each, and what torch computes in F64.

usage: python op_grad.py FOLDER
made with torch 2.13.0 (CPU) and onnx 1.23; adds NAME.onnx and NAME.safetensors (in.*, upstream.y, out.y, grad.*) for each case below
"""
import sys

import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

OPSET = 21
CASES = {}


def case(name, op, function, inputs, constants=None, **attributes):
    """inputs: F32 inputs by name, all with gradients; constants: not differentiated, after them, an empty name for none."""
    CASES[name] = (op, function, inputs, constants or {}, attributes)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


x = randn(2, 3, 5)
x[0, 0, 0] = 0  # the border of most activations
image = randn(2, 6, 4, 6)
channels = {"scale": randn(6, seed=1), "bias": randn(6, seed=2)}

case("elu", "Elu", lambda x: F.elu(x, 1.3), {"x": x}, alpha=1.3)
case("celu", "Celu", lambda x: F.celu(x, 1.7), {"x": x}, alpha=1.7)
case("selu", "Selu", lambda x: F.selu(x), {"x": x})
case("mish", "Mish", lambda x: F.mish(x), {"x": x})
case("softsign", "Softsign", lambda x: F.softsign(x), {"x": x})
case("thresholdedrelu", "ThresholdedRelu", lambda x: F.threshold(x, 0.4, 0.0), {"x": x}, alpha=0.4)
case("shrink_soft", "Shrink", lambda x: F.softshrink(x, 0.3), {"x": x}, lambd=0.3, bias=0.3)
case("shrink_hard", "Shrink", lambda x: F.hardshrink(x, 0.3), {"x": x}, lambd=0.3)
case("sinh", "Sinh", torch.sinh, {"x": x})
case("cosh", "Cosh", torch.cosh, {"x": x})
case("tan", "Tan", torch.tan, {"x": x})
inside = 0.95 * torch.tanh(randn(2, 3, 5, seed=20))
case("acos", "Acos", torch.acos, {"x": inside})
case("acosh", "Acosh", torch.acosh, {"x": 1.05 + x.abs()})
case("asin", "Asin", torch.asin, {"x": inside})
case("asinh", "Asinh", torch.asinh, {"x": x})
case("atan", "Atan", torch.atan, {"x": x})
case("atanh", "Atanh", torch.atanh, {"x": inside})
three = {"a": randn(2, 1, 5, seed=3), "b": randn(3, 5, seed=4), "c": randn(2, 3, 1, seed=5)}
case("sum_three", "Sum", lambda a, b, c: a + b + c, three)
case("mean_three", "Mean", lambda a, b, c: (a + b + c) / 3, three)
case("max_three", "Max", lambda a, b, c: torch.maximum(torch.maximum(a, b), c), three)
case("min_three", "Min", lambda a, b, c: torch.minimum(torch.minimum(a, b), c), three)
case("max_one", "Max", lambda a: a * 1, {"a": x})
case("groupnorm", "GroupNormalization", lambda x, s, b: F.group_norm(x, 3, s, b, 1e-3), {"x": image, **channels},
     num_groups=3, epsilon=1e-3)
case("instancenorm", "InstanceNormalization", lambda x, s, b: F.instance_norm(x, weight=s, bias=b), {"x": image, **channels})
case("lpnorm_l2", "LpNormalization", lambda x: F.normalize(x, p=2, dim=1), {"x": x}, axis=1, p=2)
case("lpnorm_l1", "LpNormalization", lambda x: F.normalize(x, p=1, dim=-1), {"x": x}, p=1)
case("meanvariance", "MeanVarianceNormalization", lambda x: (x - x.mean((1, 2), keepdim=True))
     / (x.var((1, 2), unbiased=False, keepdim=True).sqrt() + 1e-9), {"x": image}, axes=[1, 2])
case("depthtospace_crd", "DepthToSpace", lambda x: F.pixel_shuffle(x, 2), {"x": randn(2, 8, 3, 2)}, blocksize=2, mode="CRD")
case("depthtospace_dcr", "DepthToSpace",
     lambda x: x.reshape(2, 2, 2, 2, 3, 2).permute(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 4), {"x": randn(2, 8, 3, 2)}, blocksize=2)
case("spacetodepth", "SpaceToDepth",
     lambda x: x.reshape(2, 6, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(2, 24, 2, 3), {"x": image}, blocksize=2)
case("resize_nearest", "Resize", lambda x: F.interpolate(x, scale_factor=(2.0, 3.0), mode="nearest"), {"x": image},
     {"": None, "scales": torch.tensor([1.0, 1.0, 2.0, 3.0])},
     mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
case("convtranspose", "ConvTranspose", lambda x, w, b: F.conv_transpose2d(x, w, b),
     {"x": image, "w": randn(6, 4, 3, 2, seed=6), "b": randn(4, seed=7)})
case("convtranspose_stride_pad", "ConvTranspose",
     lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 3), padding=(1, 2), output_padding=(1, 2), dilation=(2, 1)),
     {"x": image, "w": randn(6, 4, 3, 5, seed=6), "b": randn(4, seed=7)},
     strides=[2, 3], pads=[1, 2, 1, 2], output_padding=[1, 2], dilations=[2, 1])
case("convtranspose_groups_1d", "ConvTranspose", lambda x, w: F.conv_transpose1d(x, w, stride=2, groups=3),
     {"x": randn(2, 6, 5), "w": randn(6, 2, 4, seed=6)}, strides=[2], group=3)
two = {"a": randn(2, 4, 3, 5, seed=8), "b": randn(2, 4, 6, 5, seed=9)}
case("einsum_scores", "Einsum", lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b), two, equation="bhid,bhjd->bhij")
case("einsum_outer_sum", "Einsum", lambda a, b: torch.einsum("ij, k -> ki", a, b), {"a": randn(4, 3), "b": randn(5)},
     equation="ij, k -> ki")
case("einsum_implicit_three", "Einsum", lambda a, b, c: torch.einsum("ij,jk,kl", a, b, c),
     {"a": randn(2, 3), "b": randn(3, 4), "c": randn(4, 5)}, equation="ij,jk,kl")
case("einsum_one", "Einsum", lambda a: torch.einsum("ijk->ki", a), {"a": x}, equation="ijk->ki")


def onehot(name, values, x, indices):
    """y = x * one_hot(indices)."""
    depth, axis = 4, 1
    nodes = [
        helper.make_node("OneHot", ["indices", "depth", "values"], ["hot"], axis=axis),
        helper.make_node("Mul", ["x", "hot"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(indices.numpy(), "indices"),
        numpy_helper.from_array(torch.tensor(depth).numpy(), "depth"),
        numpy_helper.from_array(values.numpy(), "values"),
    ]
    hot = torch.where(F.one_hot(indices.long() % depth, depth).movedim(-1, axis) == 1, values[1], values[0])
    write(name, nodes, constants, {"x": x}, lambda x: x * hot)


def write(name, nodes, constants, inputs, function):
    double = {k: v.double().requires_grad_() for k, v in inputs.items()}
    y = function(*double.values())
    upstream = randn(*y.shape, seed=99)
    y.backward(upstream.double())
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, list(v.shape)) for k, v in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(y.shape))],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, f"{sys.argv[1]}/{name}.onnx")
    tensors = {"in." + k: v for k, v in inputs.items()}
    tensors |= {"upstream.y": upstream, "out.y": y.detach().float()}
    tensors |= {"grad." + k: v.grad.float() for k, v in double.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, f"{sys.argv[1]}/{name}.safetensors")


for name, (op, function, inputs, constants, attributes) in CASES.items():
    initializers = [numpy_helper.from_array(v.numpy(), k) for k, v in constants.items() if v is not None]
    node = helper.make_node(op, [*inputs, *constants], ["y"], **attributes)
    write(name, [node], initializers, inputs, function)
onehot("onehot", torch.tensor([0.5, 2.0]), randn(3, 4, 2), torch.tensor([[0, 3], [-1, 1], [2, -4]]))


def topk(name, x, k, axis, largest):
    """The values of TopK, each times its index + 1: what a router does with both."""
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "indices"], axis=axis, largest=largest),
        helper.make_node("Cast", ["indices"], ["places"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["places", "one"], ["weights"]),
        helper.make_node("Mul", ["values", "weights"], ["y"]),
    ]
    constants = [numpy_helper.from_array(torch.tensor([k]).numpy(), "k"), numpy_helper.from_array(torch.tensor(1.0).numpy(), "one")]

    def function(x):
        values, indices = torch.topk(x, k, dim=axis, largest=bool(largest))
        return values * (indices + 1)

    write(name, nodes, constants, {"x": x}, function)


topk("topk_router", randn(6, 8, seed=21), 2, -1, 1)
topk("topk_smallest_axis", randn(2, 7, 3, seed=22), 3, 1, 0)
