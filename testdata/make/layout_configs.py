"""Makes ../golden/layout: configurations of quantised checkpoints as the tools that own the formats write them.

compressed-tensors at commit ac8e2ba (its presets through its own QuantizationConfig), transformers 5.18.0 (FineGrainedFP8Config) and
Model-Optimizer at commit a2fbac7 (convert_hf_quant_config_format on a hf_quant_config.json written after quant_utils.py). Run with all
three on PYTHONPATH, of the last only the folder modelopt/torch/export:  python layout_configs.py

compressed-tensors.json   recipe -> quantization_config, complete with all defaults
fp8.json                  recipe -> quantization_config
modelopt.json             recipe -> {"hf_quant_config": ..., "quantization_config": ...}

A recipe with "+static" has input scales, one with "+kv" scales of the KV cache, one with "+attention" those and scales of the queries of
LlamaAttention, both with "+heads" for each head, one with "+ue8m0" powers of two for scales. The modules
"lm_head" and "model.layers.0.mlp.gate" are kept in all.
"""

import json
import pathlib

OUT = pathlib.Path(__file__).parent.parent / "golden" / "layout"
KEPT = ["lm_head", "model.layers.0.mlp.gate"]


def write(name, configs):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / name).write_text(json.dumps(configs, indent=1, sort_keys=True) + "\n")


def compressed_tensors():
    from compressed_tensors.compressors.format import infer_module_format
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, preset_name_to_scheme
    from transformers.models.llama.modeling_llama import LlamaAttention

    static = QuantizationArgs(num_bits=8, type="float", strategy="tensor", symmetric=True, dynamic=False)
    static_int = QuantizationArgs(num_bits=8, type="int", strategy="tensor", symmetric=True, dynamic=False)

    def preset(name, **changes):
        return preset_name_to_scheme(name, ["Linear"]).model_copy(update=changes)

    dynamic_tensor = QuantizationArgs(num_bits=8, type="float", strategy="tensor", symmetric=True, dynamic=True)
    asymmetric = QuantizationArgs(num_bits=8, type="int", strategy="channel", symmetric=False, dynamic=False)
    cases = {
        "fp8": ("float-quantized", preset("FP8", input_activations=dynamic_tensor)),
        "fp8+static": ("float-quantized", preset("FP8")),
        "fp8-dynamic": ("float-quantized", preset("FP8_DYNAMIC")),
        "fp8-dynamic+static": ("float-quantized", preset("FP8_DYNAMIC", input_activations=static)),
        "fp8-weight-only": ("naive-quantized", preset("FP8_DYNAMIC", input_activations=None)),
        "fp8-block": ("float-quantized", preset("FP8_BLOCK")),
        "mxfp8": ("mxfp8-quantized", preset("MXFP8")),
        "nvfp4": ("nvfp4-pack-quantized", preset("NVFP4A16")),
        "nvfp4+static": ("nvfp4-pack-quantized", preset("NVFP4")),
        "int8": ("int-quantized", preset("INT8")),
        "int8+static": ("int-quantized", preset("INT8", input_activations=static_int)),
        "int8-asymmetric": ("pack-quantized", QuantizationScheme(targets=["Linear"], weights=asymmetric)),
        "int4": ("pack-quantized", preset("W4A16")),
        "int4-asymmetric": ("pack-quantized", preset("W4A16_ASYM")),
    }
    cases["fp8-block+ue8m0"] = cases["fp8-block"]
    for attention in ("kv", "kv+heads", "attention", "attention+heads"):
        cases[f"fp8+static+{attention}"] = cases["fp8+static"]
    configs = {}
    for recipe, (format, scheme) in cases.items():
        words = recipe.split("+")
        groups = {"group_0": scheme.model_copy(update={"format": format})}
        cache = None
        if "kv" in words or "attention" in words:
            strategy = "attn_head" if "heads" in words else "tensor"
            cache = QuantizationArgs(num_bits=8, type="float", strategy=strategy, symmetric=True, dynamic=False)
        if "attention" in words:
            own = QuantizationScheme(targets=["LlamaAttention"], input_activations=cache)
            groups["group_1"] = own.model_copy(update={"format": infer_module_format(LlamaAttention, own)})
        config = QuantizationConfig(
            config_groups=groups,
            format=format,
            quantization_status="compressed",
            ignore=KEPT,
            kv_cache_scheme=cache,
        )
        configs[recipe] = json.loads(config.model_dump_json())
        QuantizationConfig.model_validate(configs[recipe])  # what it writes it reads
    return configs


def fp8():
    from transformers import FineGrainedFP8Config

    def config(**changes):
        return json.loads(FineGrainedFP8Config(modules_to_not_convert=KEPT, **changes).to_json_string(use_diff=False))

    return {
        "fp8": config(weight_block_size=None),
        "fp8+static": config(weight_block_size=None, activation_scheme="static"),
        "fp8-block": config(),
        "fp8-block+ue8m0": config(scale_fmt="ue8m0"),
    }


def modelopt():
    from convert_hf_config import convert_hf_quant_config_format

    algorithms = {
        "fp8+static": ("FP8", None),
        "fp8+static+kv": ("FP8", None),
        "fp8-dynamic": ("FP8_PER_CHANNEL_PER_TOKEN", None),
        "fp8-block": ("fp8_pb_wo", None),
        "mxfp8": ("MXFP8", 32),
        "nvfp4": ("W4A16_NVFP4", 16),
        "nvfp4+static": ("NVFP4", 16),
    }
    algorithms["fp8-block+ue8m0"] = algorithms["fp8-block"]
    configs = {}
    for recipe, (algorithm, group_size) in algorithms.items():
        quantization = {
            "quant_algo": algorithm,
            "kv_cache_quant_algo": "FP8" if recipe.endswith("+kv") else None,
            "exclude_modules": KEPT,
        }
        if group_size:
            quantization["group_size"] = group_size
        file = {"producer": {"name": "modelopt", "version": "0.39.0"}, "quantization": quantization}
        configs[recipe] = {"hf_quant_config": file, "quantization_config": convert_hf_quant_config_format(file)}
    return configs


if __name__ == "__main__":
    write("compressed-tensors.json", compressed_tensors())
    write("fp8.json", fp8())
    write("modelopt.json", modelopt())
