"""Makes ../checkpoints/foreign from ../checkpoints/llama-128-small with other people's code: quantised checkpoints that Octet did not write.

Versions: torch 2.13.0, safetensors 0.8.0, transformers 5.18.0, accelerate 1.15.0, compressed-tensors at commit ac8e2ba (after 0.18.0),
torchao at commit 36027d8 (after 0.17). Run: python foreign_checkpoints.py

  ct-*       compressed-tensors: its presets applied to the model, scales by its calculate_qparams from the weights' extrema (what a
             min-max observer does), saved compressed with its ModelCompressor. Scales are BF16, the model's type, as it does it.
             Static input scales are made up: 0.01 times the number of the Linear (input_global_scale: 100 times)
  ct-pack-*  the same with codes packed into I32 (pack-quantized), weights alone
  hf-fp8-*   transformers' FineGrainedFP8: its own quantising operation for each weight it would convert, its own configuration object
  torchao-*  torchao's quantize_ and flatten_tensor_state_dict, saved with safetensors; the configuration says quant_method torchao.
             torchao-mxfp8 and torchao-nvfp4 have their scales swizzled, as torchao saves them

dequantised.json: for each checkpoint and weight the SHA-256 of the weight as its own tool dequantises it, BF16, little-endian, row-major.
"""

import hashlib
import json
import logging
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, FineGrainedFP8Config

ROOT = pathlib.Path(__file__).parent.parent / "checkpoints"
SOURCE = ROOT / "llama-128-small"
OUT = ROOT / "foreign"
logging.disable(logging.WARNING)


sums = {}


def remember(checkpoint, weight, values):
    data = values.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
    sums.setdefault(checkpoint, {})[weight] = hashlib.sha256(data).hexdigest()


def load():
    return AutoModelForCausalLM.from_pretrained(SOURCE, dtype=torch.bfloat16).eval()


def fresh(name):
    path = OUT / name
    shutil.rmtree(path, ignore_errors=True)
    return path


# --- compressed-tensors --------------------------------------------------------------------------------------------------------------

def extrema(weight, args):
    from compressed_tensors.quantization.utils import maybe_pad_tensor_for_block_quant

    w = weight.detach()
    if args.strategy == "tensor":
        return w.min().reshape(1), w.max().reshape(1)
    if args.strategy == "channel":
        return w.amin(1, keepdim=True), w.amax(1, keepdim=True)
    if args.strategy == "block":
        rows, cols = args.block_structure
        tiles = maybe_pad_tensor_for_block_quant(w, args.block_structure)
        tiles = tiles.unflatten(0, (-1, rows)).unflatten(2, (-1, cols)).permute(0, 2, 1, 3)
        return tiles.amin((2, 3)), tiles.amax((2, 3))
    groups = w.unflatten(1, (-1, args.group_size))
    return groups.amin(2), groups.amax(2)


def compressed_tensors(name, preset, weights_only=False, **weight_args):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (
        QuantizationConfig, QuantizationStatus, apply_quantization_config, preset_name_to_scheme)
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam, is_module_quantized

    model = load()
    scheme = preset_name_to_scheme(preset, ["Linear"])
    if weights_only:
        scheme.input_activations = None
    for key, value in weight_args.items():
        setattr(scheme.weights, key, value)
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=["lm_head"], quantization_status="frozen")
    apply_quantization_config(model, config)
    number = 0
    for _, module in model.named_modules():
        if not is_module_quantized(module):
            continue
        number += 1
        args = module.quantization_scheme.weights
        low, high = extrema(module.weight, args)
        top = None
        if args.strategy == "tensor_group":
            top = generate_gparam(module.weight.min(), module.weight.max())
            module.weight_global_scale.data.copy_(top)
        scale, zero = calculate_qparams(low, high, args, global_scale=top)
        module.weight_scale.data = scale.to(module.weight_scale.dtype).reshape(module.weight_scale.shape)
        if hasattr(module, "weight_zero_point"):
            module.weight_zero_point.data = zero.to(module.weight_zero_point.dtype).reshape(module.weight_zero_point.shape)
        for key in ("input_scale", "input_global_scale"):
            if hasattr(module, key):
                getattr(module, key).data.fill_(0.01 * number if key == "input_scale" else 100.0 * number)
        module.quantization_status = QuantizationStatus.FROZEN
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    path = fresh(name)
    model.save_pretrained(path)
    compressor.update_config(path)
    for key, module in model.named_modules():
        if is_module_quantized(module):
            remember(name, key + ".weight", decompressed(module))


def decompressed(module):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    scheme = module.quantization_scheme
    if scheme.weights.strategy == "block":
        # its decompressor guesses the granularity from the shape of the scale, wrongly for a single column of blocks
        return dequantize(module.weight, module.weight_scale, args=scheme.weights)
    kind = BaseCompressor.get_value_from_registry(scheme.format.value)
    return kind.decompress(dict(module.named_parameters(recurse=False)), scheme)["weight"]


# --- transformers' FP8 ---------------------------------------------------------------------------------------------------------------

def fine_grained(name, block, scale_format="float"):
    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    config = FineGrainedFP8Config(weight_block_size=block, scale_fmt=scale_format, modules_to_not_convert=["lm_head"])

    class Quantizer:
        quantization_config = config

    operation, tensors = Fp8Quantize(Quantizer()), {}
    model = load()
    for key, value in model.state_dict().items():
        linear = "proj" in key
        tensors |= operation.convert({key: value}) if linear else {key: value}
    path = fresh(name)
    model.save_pretrained(path)
    (path / "model.safetensors").unlink()
    save_file({k: v.contiguous() for k, v in tensors.items()}, path / "model.safetensors", metadata={"format": "pt"})
    edited = json.loads((path / "config.json").read_text())
    edited["quantization_config"] = config.to_dict()
    (path / "config.json").write_text(json.dumps(edited, indent=2, sort_keys=True) + "\n")
    back = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16)
    for key, value in back.state_dict().items():
        if "proj" in key:
            remember(name, key, value)


# --- torchao -------------------------------------------------------------------------------------------------------------------------

def torchao(name, config):
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import quantize_
    from transformers import TorchAoConfig

    model = load()
    quantize_(model, config, filter_fn=lambda m, key: isinstance(m, torch.nn.Linear) and "lm_head" not in key)
    path = fresh(name)
    base = load()
    base.save_pretrained(path)
    for key, value in model.state_dict().items():
        if "proj" in key:
            remember(name, key, value.dequantize())
    tensors, metadata = flatten_tensor_state_dict(model.state_dict())
    save_file({k: v.contiguous() for k, v in tensors.items()}, path / "model.safetensors", metadata={"format": "pt", **metadata})
    edited = json.loads((path / "config.json").read_text())
    edited["quantization_config"] = TorchAoConfig(config, modules_to_not_convert=["lm_head"]).to_dict()
    (path / "config.json").write_text(json.dumps(edited, indent=2, sort_keys=True) + "\n")


def main():
    compressed_tensors("ct-fp8-static", "FP8")
    compressed_tensors("ct-fp8-dynamic", "FP8_DYNAMIC")
    compressed_tensors("ct-fp8-block", "FP8_BLOCK")
    compressed_tensors("ct-mxfp8", "MXFP8")
    compressed_tensors("ct-nvfp4", "NVFP4")
    compressed_tensors("ct-int8", "W8A8")
    compressed_tensors("ct-fp8-weights-only", "FP8_DYNAMIC", weights_only=True)
    compressed_tensors("ct-pack-int8", "W8A16", strategy="channel", group_size=None)
    compressed_tensors("ct-pack-int8-asymmetric", "W8A16", strategy="channel", group_size=None, symmetric=False, zp_dtype=torch.int8)
    compressed_tensors("ct-pack-int4-group", "W4A16", group_size=32)
    compressed_tensors("ct-pack-int4-group-asymmetric", "W4A16_ASYM", group_size=32)
    compressed_tensors("ct-pack-int4-channel-asymmetric", "W4A16_ASYM", strategy="channel", group_size=None)
    fine_grained("hf-fp8-block", [128, 128])
    fine_grained("hf-fp8-block-ue8m0", [128, 128], "ue8m0")
    fine_grained("hf-fp8-tensor", None)
    from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, Float8WeightOnlyConfig, PerRow, PerTensor
    from torchao.prototype.mx_formats import MXDynamicActivationMXWeightConfig, NVFP4WeightOnlyConfig
    from torchao.quantization import quant_api

    # Weights are quantised alike everywhere; only running the products needs the GPU that torchao asks for.
    quant_api._check_hardware_support = lambda granularity: None
    torchao("torchao-fp8-weights-only", Float8WeightOnlyConfig())
    torchao("torchao-fp8-dynamic", Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()))
    torchao("torchao-fp8-tensor", Float8DynamicActivationFloat8WeightConfig(granularity=PerTensor()))
    torchao("torchao-mxfp8", MXDynamicActivationMXWeightConfig())
    torchao("torchao-nvfp4", NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=True))
    (OUT / "dequantised.json").write_text(json.dumps(sums, indent=1) + "\n")


main()
