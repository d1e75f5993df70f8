"""Makes ../models/tiny-exports/MODEL_EXPORTER.onnx: checkpoints of ../models/tiny-hf as programs export them, for restoring.

usage: python onnx_exports.py OUT [MODEL:EXPORTER..]     without models all; what an exporter refuses is printed

Versions: torch 2.13.0, transformers 5.18.0, onnx 1.23.1, onnxscript 0.7.2.

  script   torch.onnx.export(dynamo=False), opset 17: TorchScript
  dynamo   torch.onnx.export(dynamo=True), opset 18
  hf       transformers.exporters.OnnxExporter, which is dynamo with its own translations
  optimum  TorchScript with the input names, position_ids and opset 14 that optimum's exporters have; images have dynamic channels and sizes
  cache    the same with a cache of keys and values, which optimum's exporters write of decoders unless told otherwise: past_key_values.0.key.. in, present.0.key.. out;
           "cache-merged" has, as optimum's older versions wrote decoders, one without the cache beside it, of which use_cache_branch chooses

Experts of mixtures: "batched" gathers each token's weights (experts_implementation batched_mm), "grouped" sorts tokens (grouped_mm), "eager" loops over the experts that were
hit. "phi3:dynamo" has rotary embeddings without longrope, which torch.export cannot take; its configuration lies beside it.
Each file is run by onnxruntime on the golden inputs and held against the logits of transformers. Stack traces are taken out of files, names of modules stay.
"""
import pathlib
import sys
import traceback
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch
import transformers as tf
from safetensors.torch import load_file

warnings.filterwarnings("ignore")
HF = pathlib.Path(__file__).parent.parent / "models" / "tiny-hf"


DECODERS = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3", "olmo2", "smollm3", "granite", "cohere", "cohere2", "mixtral", "gpt2")
SEED = 3


class Cached(torch.nn.Module):
    """A decoder with its cache as tensors: keys and values of each layer in and out."""

    def __init__(self, model, inputs):
        super().__init__()
        self.model = model
        self.names = inputs

    def forward(self, *args):
        given = len(self.names)
        cache = tf.DynamicCache()
        for k, v in zip(args[given::2], args[given + 1::2]):  # windows are a matter of masks: all keys are kept, as optimum does
            layer = tf.cache_utils.DynamicLayer()
            layer.lazy_initialization(k, v)
            layer.keys, layer.values = k, v
            cache.layers.append(layer)
        out = self.model(**dict(zip(self.names, args)), past_key_values=cache)
        return (out.logits, *(t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)))


class Logits(torch.nn.Module):
    """A model whose inputs are in order and whose outputs are one tensor, or several."""

    def __init__(self, model, inputs, outputs):
        super().__init__()
        self.model = model
        self.names = inputs
        self.outputs = outputs

    def forward(self, *args):
        out = self.model(**dict(zip(self.names, args)))
        return tuple(out[o] for o in self.outputs) if len(self.outputs) > 1 else out[self.outputs[0]]


def load(name, experts, attention="eager"):
    config = tf.AutoConfig.from_pretrained(HF / name)
    if experts and experts != "merged":
        config._experts_implementation = {"batched": "batched_mm", "grouped": "grouped_mm", "eager": "eager"}[experts]
    cls = getattr(tf, config.architectures[0])
    model = cls.from_pretrained(HF / name, config=config, attn_implementation=attention).eval().float()
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    return model


def export_cached(model, given, path, past=5):
    """As optimum's exporters do it: three tokens behind five of the cache."""
    model.config.use_cache = True
    config = model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    batch, new = 2, 3
    tokens = {"input_ids": given["input_ids"][:batch, :new], "attention_mask": torch.ones(batch, past + new, dtype=torch.int64),
              "position_ids": torch.arange(past, past + new).expand(batch, new).contiguous()}
    layers = range(config.num_hidden_layers)
    pasts = [f"past_key_values.{i}.{kind}" for i in layers for kind in ("key", "value")] if past else []
    outputs = ["logits"] + [f"present.{i}.{kind}" for i in layers for kind in ("key", "value")]
    axes = {"input_ids": {0: "batch_size", 1: "sequence_length"}, "attention_mask": {0: "batch_size", 1: "past_sequence_length + sequence_length"},
            "position_ids": {0: "batch_size", 1: "sequence_length"}, "logits": {0: "batch_size", 1: "sequence_length"}}
    axes |= {n: {0: "batch_size", 2: "past_sequence_length"} for n in pasts}
    axes |= {n: {0: "batch_size", 2: "past_sequence_length + sequence_length"} for n in outputs[1:]}
    torch.manual_seed(SEED)
    cache = [torch.randn(batch, heads, past, size) for _ in pasts]
    torch.onnx.export(Cached(model, list(tokens)), (*tokens.values(), *cache), str(path), input_names=[*tokens, *pasts], output_names=outputs, dynamic_axes=axes,
                      opset_version=14, dynamo=False)
    for name in pasts:
        given[name] = torch.zeros(given["input_ids"].shape[0], heads, 0, size)
    given["position_ids"] = torch.arange(given["input_ids"].shape[1]).expand_as(given["input_ids"]).contiguous()


def export_merged(model, given, path):
    """Both decoders in one file: weights outside of the branches, where each has its small constants."""
    both = {}
    for name, past in (("no_past", 0), ("with_past", 5)):
        export_cached(model, given, path, past)
        both[name] = onnx.load(str(path))
    shared, graphs = {}, {}
    for name, one in both.items():
        names, small = {}, []
        for t in one.graph.initializer:
            if len(t.dims) == 0 or (len(t.dims) == 1 and t.data_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)):
                small.append(t)
            else:
                key = (tuple(t.dims), t.data_type, onnx.numpy_helper.to_array(t).tobytes())
                names[t.name] = shared.setdefault(key, t).name
        for node in one.graph.node:
            for i, value in enumerate(node.input):
                node.input[i] = names.get(value, value)
        graphs[name] = onnx.helper.make_graph(one.graph.node, name, [], one.graph.output, small)
    inputs = list(both["with_past"].graph.input)
    for i in inputs:
        if i.name == "attention_mask":
            i.type.tensor_type.shape.dim[1].dim_param = "attention_mask_sequence_length"
    condition = onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    outputs = both["no_past"].graph.output
    choice = onnx.helper.make_node("If", ["use_cache_branch"], [o.name for o in outputs], "optimum::if", then_branch=graphs["with_past"],
                                   else_branch=graphs["no_past"])
    merged = onnx.helper.make_graph([choice], "merged", [*inputs, condition], outputs, list(shared.values()))
    onnx.save(onnx.helper.make_model(merged, opset_imports=both["no_past"].opset_import, ir_version=9), str(path))
    given["use_cache_branch"] = torch.zeros(1, dtype=torch.bool)


def without_longrope(model, path):
    """Phi-3 as models of 4096 positions have it; the same weights."""
    config = model.config.__class__.from_dict(model.config.to_dict() | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})
    other = model.__class__._from_config(config, attn_implementation="eager").eval().float()
    other.load_state_dict(model.state_dict(), strict=False)
    other.config.use_cache = False
    path.with_suffix(".json").write_text(config.to_json_string() + "\n")
    return other


def lean(model):
    """Without what only debuggers read."""
    for graph in [model.graph, *model.functions]:
        for node in graph.node if hasattr(graph, "node") else []:
            node.doc_string = ""
            kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
            del node.metadata_props[:]
            node.metadata_props.extend(kept)
        if hasattr(graph, "value_info"):
            for v in [*graph.value_info, *graph.input, *graph.output, *graph.initializer]:
                del v.metadata_props[:]
    del model.metadata_props[:]
    return model


def export(name, exporter, experts, path):
    golden = load_file(HF / name / "golden.safetensors")
    given = {k[3:]: v for k, v in golden.items() if k.startswith("in.") and k not in ("in.labels", "in.start_positions", "in.end_positions")}
    outputs = [k[4:] for k in golden if k.startswith("out.") and k != "out.loss"]
    order = ["logits", "start_logits", "end_logits", "logits_per_image", "last_hidden_state", "pooler_output"]
    outputs.sort(key=lambda o: order.index(o) if o in order else 9)
    model = load(name, experts)
    want = golden["out." + outputs[0]].numpy()
    if name == "phi3" and exporter == "dynamo":
        model = without_longrope(model, path)
        with torch.no_grad():
            want = model(**given).logits.numpy()
    names = list(given)
    if exporter == "optimum" and model.config.model_type in DECODERS:
        given["position_ids"] = torch.arange(given["input_ids"].shape[1]).expand_as(given["input_ids"]).contiguous()
        names.append("position_ids")
    args = tuple(given[n] for n in names)
    pixels = "pixel_values" in names
    axes = {n: ({0: "batch"} if n in ("pixel_values", "input_features") else {0: "batch", 1: "sequence" if not n.startswith("decoder") else "targets"}) for n in names}
    if pixels and "input_ids" in names:
        axes["pixel_values"] = {0: "images"}
    if pixels and exporter == "optimum":
        axes["pixel_values"] |= {1: "num_channels", 2: "height", 3: "width"}
    torch._dynamo.reset()
    with torch.no_grad():
        if exporter == "cache":
            (export_merged if experts == "merged" else export_cached)(model, given, path)
        elif exporter in ("script", "optimum"):
            torch.onnx.export(Logits(model, names, outputs), args, str(path), input_names=names, output_names=outputs, dynamic_axes=axes,
                              opset_version=17 if exporter == "script" else 14, dynamo=False)
        elif exporter == "dynamo":
            dims = {d: torch.export.Dim(d) for d in ("batch", "images", "sequence", "targets")}
            shapes = tuple({a: dims[d] for a, d in axes[n].items()} for n in names)
            program = torch.onnx.export(Logits(model, names, outputs), args, verbose=False, input_names=names, output_names=outputs, dynamic_shapes=(shapes,),
                                        opset_version=18, dynamo=True, external_data=False)
            program.save(str(path))
        else:
            from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter
            shapes = {n: {a: torch.export.Dim.AUTO for a in axes[n]} for n in names}
            OnnxExporter().export(model, dict(given), OnnxConfig(output_path=str(path), dynamic_shapes=shapes, external_data=False,
                                                                 opset_version=18 if pixels else None))
    onnx.save(lean(onnx.load(str(path))), str(path))
    session = ort.InferenceSession(str(path))
    feeds = {i.name: given[i.name].numpy() for i in session.get_inputs()}
    got = session.run([outputs[0]], feeds)[0]
    keep = np.ones(want.shape[:2], bool) if want.ndim == 3 else None
    if keep is not None and "attention_mask" in given and want.shape[:2] == tuple(given["attention_mask"].shape):
        keep = given["attention_mask"].numpy() == 1
    error = np.abs(got - want)[keep] if keep is not None else np.abs(got - want)
    return f"{path.stat().st_size:8d} bytes, opset {onnx.load(str(path)).opset_import[0].version}, off by {error.max() / np.abs(want).max():.1e}"


MIXTURES = ["mixtral", "qwen2-moe", "qwen3-moe", "deepseek-v2", "deepseek-v3", "gpt-oss", "llama4"]
DENSE = ["mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "olmo2", "smollm3", "granite", "cohere", "cohere2", "roberta", "distilbert", "modernbert",
         "deberta", "t5", "whisper", "clip", "clip-text", "clip-vision", "siglip", "llama", "bert", "gpt2", "vit", "xlm-roberta", "switch"]


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:] or [f"{m}:{e}" for m in MIXTURES for e in ("dynamo-batched", "hf-batched", "hf-grouped", "script-batched", "dynamo-eager", "script-eager",
                                                                    "dynamo-grouped")] \
        + [f"{m}:{e}" for m in DENSE for e in ("dynamo", "script", "optimum", "cache", "hf")]
    for pair in wanted:
        name, kind = pair.split(":")
        exporter, _, experts = kind.partition("-")
        path = out / f"{name}_{kind.replace('-', '_')}.onnx"
        try:
            print(f"{pair:28} {export(name, exporter, experts, path)}", flush=True)
        except Exception as e:
            path.unlink(missing_ok=True)
            lines = str(e).strip().splitlines() or [""]
            print(f"{pair:28} {type(e).__name__}: {next((l for l in lines if l.strip()), '')[:220]}", flush=True)
            if len(sys.argv) == 3:
                traceback.print_exc()


if __name__ == "__main__":
    main()
