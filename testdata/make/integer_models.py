"""Makes testdata/models/integers: tiny models as ONNX Runtime's own quantizers write them. Usage: python integer_models.py TESTDATA

Made with onnxruntime 1.30.0 and onnx 1.23.1 from models/tiny-onnx/{bert,vit}_eager_script17.onnx,
calibrated on random tokens and pictures of one seed. NAME.onnx:

qdq-u8s8        quantize_static, QDQ, unsigned activations, signed weights per channel
qdq-s8s8        the same with signed activations
qdq-all         the same with its default list of operators, weights per tensor
qoperator       quantize_static, QOperator (QLinearMatMul), weights per channel
dynamic         quantize_dynamic (MatMulInteger), weights per channel, embeddings too
nbits4          MatMulNBits, 4 bits, symmetric, blocks of 32
nbits4-zero     the same with zero points
nbits8          MatMulNBits, 8 bits
qdq4            DequantizeLinear of blocks of 4 bits
vit-qdq         quantize_static of Conv, Gemm and MatMul, QDQ, with biases in 32-bit integers
vit-qoperator   the same as QOperator (QLinearConv)

weights.csv: for each quantised weight of each model its name, its shape, and the SHA-256 of its values in F32, little-endian and row-major, which
numpy computes from codes, scales and zero points as the operator that reads them defines.
"""

import hashlib
import logging
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer


class Data(CalibrationDataReader):
    """Random tokens or pictures, of one seed."""

    def __init__(self, path):
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        random = np.random.default_rng(5)
        self.rows = []
        for _ in range(8):
            row = {}
            for value in session.get_inputs():
                shape = [d if isinstance(d, int) else (2 if i == 0 else 12) for i, d in enumerate(value.shape)]
                if value.type == "tensor(int64)":
                    row[value.name] = np.ones(shape, np.int64) if "mask" in value.name else random.integers(1, 100, shape)
                else:
                    row[value.name] = random.standard_normal(shape).astype(np.float32)
            self.rows.append(row)
        self.at = iter(self.rows)

    def get_next(self):
        return next(self.at, None)


def static(source, target, kinds, activation, form, per_channel=True):
    quantize_static(
        str(source), str(target), Data(source), quant_format=form, op_types_to_quantize=kinds, per_channel=per_channel,
        activation_type=activation, weight_type=QuantType.QInt8,
    )


def blocks(source, target, bits, symmetric, form):
    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=symmetric, quant_format=form, bits=bits)
    quantizer = MatMulNBitsQuantizer(onnx.load(source), algo_config=config)
    quantizer.process()
    quantizer.model.save_model_to_file(str(target), use_external_data_format=False)


def halves(packed):
    flat = np.frombuffer(packed.tobytes(), np.uint8)
    return np.stack([flat & 15, flat >> 4], 1).reshape(-1).astype(np.int32)


def numbers(tensor):
    """Codes as integers, whatever their type."""
    name = onnx.TensorProto.DataType.Name(tensor.data_type)
    if name in ("INT4", "UINT4"):
        count = int(np.prod(tensor.dims))
        codes = halves(np.frombuffer(tensor.raw_data, np.uint8))[:count]
        return (np.where(codes > 7, codes - 16, codes) if name == "INT4" else codes).reshape(tensor.dims)
    return numpy_helper.to_array(tensor).astype(np.int32)


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def along(scale, shape, axis, block):
    scale = np.asarray(scale, np.float32)
    if scale.size == 1:
        return scale.reshape(())
    if block:
        return np.repeat(scale, block, axis)
    form = [1] * len(shape)
    form[axis] = shape[axis]
    return scale.reshape(form)


def weights(path):
    """Every quantised weight: its name, and its values in F32."""
    graph = onnx.load(path).graph
    constants = {t.name: t for t in graph.initializer}
    readers = {}
    for node in graph.node:
        for value in node.input:
            readers.setdefault(value, []).append(node)
    producers = {o: n for n in graph.node for o in n.output}

    def value(name):
        return numpy_helper.to_array(constants[name]) if name in constants else None

    for node in graph.node:
        a = attributes(node)
        if node.op_type == "DequantizeLinear":
            gather = producers.get(node.input[0])
            name = gather.input[0] if gather is not None and gather.op_type == "Gather" else node.input[0]
            if name not in constants:
                continue
            codes = numbers(constants[name])
            zero = numbers(constants[node.input[2]]) if len(node.input) > 2 and node.input[2] else np.zeros((), np.int32)
            scale = along(value(node.input[1]), codes.shape, a.get("axis", 1) % max(1, codes.ndim), a.get("block_size", 0))
            zero = along(zero, codes.shape, a.get("axis", 1) % max(1, codes.ndim), a.get("block_size", 0))
        elif node.op_type in ("QLinearMatMul", "QLinearConv", "QGemm"):
            name = node.input[3]
            if name not in constants:
                continue
            codes = numbers(constants[name])
            axis = {"QLinearMatMul": codes.ndim - 1, "QLinearConv": 0, "QGemm": 0 if a.get("transB") else 1}[node.op_type]
            scale = along(value(node.input[4]), codes.shape, axis, 0)
            zero = along(numbers(constants[node.input[5]]), codes.shape, axis, 0)
        elif node.op_type == "MatMulInteger":
            name = node.input[1]
            if name not in constants:
                continue
            codes = numbers(constants[name])
            cast = readers[node.output[0]][0]
            mul = readers[cast.output[0]][0]
            scales = producers[[i for i in mul.input if i != cast.output[0]][0]]
            factor = [i for i in scales.input if i in constants][0]
            scale = along(value(factor), codes.shape, codes.ndim - 1, 0)
            zero = along(numbers(constants[node.input[3]]), codes.shape, codes.ndim - 1, 0)
        elif node.op_type == "MatMulNBits":
            name, n, k, block, bits = node.input[1], a["N"], a["K"], a["block_size"], a["bits"]
            raw = value(name)
            codes = (halves(raw) if bits == 4 else raw.reshape(-1).astype(np.int32)).reshape(n, k)
            scale = np.repeat(value(node.input[2]).reshape(n, -1), block, 1)[:, :k]
            if len(node.input) > 3 and node.input[3]:
                stored = value(node.input[3]).reshape(n, -1)
                rows = np.stack([halves(r) for r in stored]) if bits == 4 else stored.astype(np.int32)
                zero = np.repeat(rows[:, : k // block], block, 1)
            else:
                zero = np.int32(1 << (bits - 1))
        else:
            continue
        yield name, np.ascontiguousarray((codes - zero).astype(np.float32) * scale, "<f4")


def main(testdata):
    logging.disable(logging.INFO)
    target = testdata / "models" / "integers"
    target.mkdir(parents=True, exist_ok=True)
    bert = testdata / "models" / "tiny-onnx" / "bert_eager_script17.onnx"
    vit = testdata / "models" / "tiny-onnx" / "vit_eager_script17.onnx"
    unsigned, signed = QuantType.QUInt8, QuantType.QInt8
    static(bert, target / "qdq-u8s8.onnx", ["MatMul"], unsigned, QuantFormat.QDQ)
    static(bert, target / "qdq-s8s8.onnx", ["MatMul"], signed, QuantFormat.QDQ)
    static(bert, target / "qdq-all.onnx", None, unsigned, QuantFormat.QDQ, per_channel=False)
    static(bert, target / "qoperator.onnx", ["MatMul"], unsigned, QuantFormat.QOperator)
    quantize_dynamic(str(bert), str(target / "dynamic.onnx"), per_channel=True, weight_type=signed)
    blocks(bert, target / "nbits4.onnx", 4, True, QuantFormat.QOperator)
    blocks(bert, target / "nbits4-zero.onnx", 4, False, QuantFormat.QOperator)
    blocks(bert, target / "nbits8.onnx", 8, True, QuantFormat.QOperator)
    blocks(bert, target / "qdq4.onnx", 4, True, QuantFormat.QDQ)
    kinds = ["Conv", "Gemm", "MatMul"]
    static(vit, target / "vit-qdq.onnx", kinds, unsigned, QuantFormat.QDQ)
    static(vit, target / "vit-qoperator.onnx", kinds, unsigned, QuantFormat.QOperator)
    with open(target / "weights.csv", "w", newline="\n") as out:
        for path in sorted(target.glob("*.onnx")):
            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            seen = set()
            for name, values in weights(path):
                if name not in seen:
                    seen.add(name)
                    shape = "x".join(map(str, values.shape))
                    print(path.stem, name, shape, hashlib.sha256(values.tobytes()).hexdigest(), sep=",", file=out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
