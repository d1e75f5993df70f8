"""What ONNX Runtime's own quantizers make of a model: python ort_quantize.py MODEL FOLDER --samples CALIBRATION.npz [--only NAME,...]

Writes FOLDER/NAME.onnx for each variant, with the settings that its documentation recommends for transformers: quant_pre_process first, weights
per channel, MatMul and Gemm (and Conv where there is one) alone for the static variants (and Gather for
`-gather`), everything for `static-all`. `dynamic-fused` is
onnxruntime.transformers.optimizer before quantize_dynamic. CALIBRATION.npz has one array for each input and batch, named INPUT.BATCH.
"""

import argparse
import json
import logging
import os
import sys
import time

import numpy
import onnx
import onnx.version_converter
from onnxruntime.quantization import (CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static)
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.quantization.shape_inference import quant_pre_process

PRODUCTS = ["MatMul", "Gemm", "Conv"]
SMALL = [*PRODUCTS, "Gather"]


class Batches(CalibrationDataReader):
    def __init__(self, file):
        arrays = numpy.load(file)
        batches = sorted({int(name.rsplit(".", 1)[1]) for name in arrays.files})
        names = sorted({name.rsplit(".", 1)[0] for name in arrays.files})
        self.batches = [{name: arrays[f"{name}.{batch}"] for name in names} for batch in batches]
        self.rewind()

    def rewind(self):
        self.left = iter(self.batches)

    def get_next(self):
        return next(self.left, None)


def static(samples, activation, weight, reduce_range=False, operators=PRODUCTS, method=CalibrationMethod.MinMax):
    def make(source, target):
        batches = Batches(samples)
        quantize_static(source, target, batches, quant_format=QuantFormat.QDQ, activation_type=activation, weight_type=weight, per_channel=True,
                        reduce_range=reduce_range, op_types_to_quantize=operators, calibrate_method=method,
                        extra_options={"WeightSymmetric": True, "ActivationSymmetric": False})
    return make


def dynamic(reduce_range=False):
    return lambda source, target: quantize_dynamic(source, target, per_channel=True, reduce_range=reduce_range, weight_type=QuantType.QInt8)


def dynamic_fused(original):
    """Fuses the file as it came: the optimizer knows what exporters write, not what the version converter makes of it."""
    def make(_, target):
        fused_dynamic(original, target)
    return make


def fused_dynamic(source, target):
    from onnxruntime.transformers import optimizer
    model = optimizer.optimize_model(source, model_type="bert", opt_level=0)
    fused = target + ".fused"
    model.save_model_to_file(fused)
    quantize_dynamic(fused, target, per_channel=True, weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
    os.remove(fused)


def four_bits(accuracy):
    def make(source, target):
        config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, accuracy_level=accuracy, bits=4)
        quantizer = MatMulNBitsQuantizer(onnx.load(source), algo_config=config)
        quantizer.process()
        quantizer.model.save_model_to_file(target, False)
    return make


def upgraded(model):
    """To opset 17: per channel, ONNX Runtime's quantizers write opset-13 operators into older models too, which then load nowhere. The version
    converter wraps each Softmax of opset 12 in Flatten and Reshape; over the last axis it means the same in all versions and is kept."""
    if next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx")) >= 13:
        return model
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in onnx.shape_inference.infer_shapes(model).graph.value_info
             if v.type.tensor_type.HasField("shape")}
    kept = set()
    for node in model.graph.node:
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        if node.op_type == "Softmax" and (axis == -1 or axis == ranks.get(node.input[0], 0) - 1):
            node.op_type, node.domain = "KeptSoftmax", "kept"
            kept.add(node.output[0])
    if kept:
        model.opset_import.append(onnx.helper.make_opsetid("kept", 1))
    model = onnx.version_converter.convert_version(model, 17)
    for node in model.graph.node:
        if node.op_type == "KeptSoftmax":
            node.op_type, node.domain = "Softmax", ""
            del node.attribute[:]
            node.attribute.append(onnx.helper.make_attribute("axis", -1))
    for opset in [o for o in model.opset_import if o.domain == "kept"]:
        model.opset_import.remove(opset)
    return model


def variants(original, samples):
    s8, u8 = QuantType.QInt8, QuantType.QUInt8
    return {
        "static-s8s8": static(samples, s8, s8), "static-u8s8": static(samples, u8, s8),
        "static-s8s8-reduced": static(samples, s8, s8, True), "static-u8s8-reduced": static(samples, u8, s8, True),
        "static-s8s8-gather": static(samples, s8, s8, operators=SMALL), "static-u8s8-gather": static(samples, u8, s8, operators=SMALL),
        "static-all": static(samples, u8, s8, operators=None),
        "dynamic": dynamic(), "dynamic-reduced": dynamic(True), "dynamic-fused": dynamic_fused(original),
        "4-bits": four_bits(None), "4-bits-int8": four_bits(4),
    }


def main():
    logging.getLogger().setLevel(logging.ERROR)
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--samples", required=True)
    parser.add_argument("--only")
    options = parser.parse_args()
    makers = variants(options.model, options.samples)
    wanted = options.only.split(",") if options.only else list(makers)
    if unknown := [name for name in wanted if name not in makers]:
        parser.error(f"--only {','.join(unknown)}: of {', '.join(makers)}")
    os.makedirs(options.folder, exist_ok=True)
    prepared = os.path.join(options.folder, "prepared.onnx")
    report, source = {}, options.model
    try:
        quant_pre_process(source, prepared, auto_merge=True)
        source = prepared
    except Exception as e:  # a model that its shape inference does not take is quantised as it is
        report["quant_pre_process"] = f"{type(e).__name__}: {e}".splitlines()[0][:300]
    onnx.save(upgraded(onnx.load(source)), prepared)
    for name in wanted:
        target, start = os.path.join(options.folder, f"{name}.onnx"), time.perf_counter()
        try:
            makers[name](prepared, target)
            report[name] = {"seconds": round(time.perf_counter() - start, 2), "bytes": os.path.getsize(target)}
        except Exception as e:  # a refusal is a result
            report[name] = {"failed": f"{type(e).__name__}: {e}".splitlines()[0][:300]}
        print(f"{name}: {report[name]}", file=sys.stderr)
    with open(os.path.join(options.folder, "made.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)


if __name__ == "__main__":
    main()
