"""Tiny random models of many architectures of transformers, tied and untied, and what FP8 does to their logits.

tiny_models.py make OUT [CLASS...]      a folder for each class and tie: config.json, model.safetensors; classes that cannot be made this small are told
tiny_models.py compare ORIGINALS OUT    for each folder of OUT, one JSON line: relative error of the logits, top-1 agreement, keys that were missing
"""

import inspect
import json
import shutil
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
import transformers
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

KINDS = [
    "CAUSAL_LM",
    "MASKED_LM",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_CLASSIFICATION",
    "SEQUENCE_CLASSIFICATION",
    "SPEECH_SEQ_2_SEQ",
    "IMAGE_TEXT_TO_TEXT",
]
WIDTH = 128
MOST_PARAMETERS = 25_000_000
# What configurations call their sizes, by the size that they get here.
SIZES = {
    256: (
        "vocab_size intermediate_size ffn_dim n_inner d_ff hidden_dim d_inner encoder_ffn_dim decoder_ffn_dim ffn_hidden_size "
        "intermediate_size_mlp mlp_dim vocab_size_per_layer_input"
    ),
    WIDTH: (
        "hidden_size d_model n_embd dim embedding_size embed_dim word_embed_proj_dim emb_dim moe_intermediate_size "
        "shared_expert_intermediate_size moe_shared_expert_intermediate_size expert_ffn_size max_position_embeddings n_positions "
        "n_ctx max_seq_len embedding_dim"
    ),
    2: (
        "num_hidden_layers n_layer num_layers n_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers depth "
        "num_key_value_heads num_kv_heads n_heads_kv num_experts_per_tok type_vocab_size eos_token_id sep_token_id"
    ),
    4: (
        "num_attention_heads n_head num_heads n_heads encoder_attention_heads decoder_attention_heads decoder_num_heads "
        "num_local_experts num_experts n_routed_experts moe_num_experts"
    ),
    32: (
        "head_dim d_kv kv_channels attention_head_size v_head_dim qk_nope_head_dim hidden_size_per_layer_input image_size "
        "query_pre_attn_scalar"
    ),
    16: "qk_rope_head_dim state_size mamba_d_state laurel_rank num_mel_bins",
    64: "kv_lora_rank q_lora_rank max_source_positions max_target_positions sliding_window mem_size char_vocab_size",
    1: "n_group topk_group first_k_dense_replace n_shared_experts bos_token_id decoder_start_token_id expert_interval",
    0: "pad_token_id num_kv_shared_layers attention_dropout num_nextn_predict_layers",
    3: "mask_token_id",
    8: "patch_size",
}
SMALL = {key: size for size, keys in SIZES.items() for key in keys.split()}


def parts(config):
    return [config] + [getattr(config, k) for k in getattr(config, "sub_configs", {}) if getattr(config, k, None) is not None]


def shrink(config):
    for key, size in SMALL.items():
        value = getattr(config, key, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                setattr(config, key, size)
            except Exception:  # computed from others, or refused by a validator
                pass
    for key in ("layer_types", "mlp_layer_types", "no_rope_layers", "moe_layers", "layers_block_type", "attn_layer_indices"):
        if isinstance(getattr(config, key, None), list):
            setattr(config, key, getattr(config, key)[:2])
    for part in parts(config)[1:]:
        shrink(part)
    return config


def build(name, model_type, tied):
    base = CONFIG_MAPPING[model_type]
    try:
        config = base.from_dict(json.loads(shrink(base()).to_json_string(use_diff=False)))
    except Exception:  # some derive sizes from others when they are made
        known = inspect.signature(base.__init__).parameters
        config = shrink(base(**{k: v for k, v in SMALL.items() if k in known}))
    for part in parts(config):
        part.tie_word_embeddings = tied
    torch.manual_seed(7)
    model = getattr(transformers, name)(config).eval()
    if sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise ValueError("too large")
    for parameter in model.parameters():
        if parameter.ndim >= 2:
            torch.nn.init.normal_(parameter, std=0.05)
    model.tie_weights()
    return model.to(torch.bfloat16)


def inputs(model):
    config = model.config
    random = torch.Generator().manual_seed(3)
    ids = torch.randint(4, 200, (2, 12), generator=random)
    known = inspect.signature(model.forward).parameters
    if model.main_input_name == "pixel_values" and "input_ids" not in known:
        side = getattr(config, "image_size", 32)
        side = side if isinstance(side, int) else side[0]
        return {"pixel_values": torch.randn((1, getattr(config, "num_channels", 3), side, side), generator=random).to(model.dtype)}
    if model.main_input_name == "input_features":
        frames = 2 * getattr(config, "max_source_positions", 64)
        features = torch.randn((1, getattr(config, "num_mel_bins", 16), frames), generator=random).to(model.dtype)
        return {"input_features": features, "decoder_input_ids": ids[:1]}
    given = {"input_ids": ids}
    if config.is_encoder_decoder and "decoder_input_ids" in known:
        given["decoder_input_ids"] = ids[:, :7]
    return given


def logits(model):
    with torch.no_grad():
        out = model(**inputs(model))
    for key in ("logits", "prediction_logits", "start_logits", "last_hidden_state"):
        if out.get(key) is not None:
            return out[key].float()
    return out[0].float()


def make(out, only):
    made = set()
    seen = set()
    for kind in KINDS:
        for model_type, names in getattr(auto, f"MODEL_FOR_{kind}_MAPPING_NAMES").items():
            for name in names if isinstance(names, (list, tuple)) else [names]:
                if name in seen or (only and name not in only):
                    continue
                seen.add(name)
                try:
                    for tied in (True, False):
                        model = build(name, model_type, tied)
                        if not torch.isfinite(logits(model)).all():
                            raise ValueError("logits are not finite")
                        folder = out / f"{name}-{'tied' if tied else 'untied'}"
                        model.save_pretrained(folder)
                        logits(type(model).from_pretrained(folder, dtype=torch.bfloat16).eval())  # some do not run as they are loaded
                    made.add(name)
                except Exception as e:
                    for folder in out.glob(name + "-*"):
                        shutil.rmtree(folder)
                    print("not made:", name, type(e).__name__, str(e).splitlines()[:1], file=sys.stderr)
    print(len(made), "of", len(seen), "classes")


def compare(originals, out):
    for folder in sorted(p for p in out.iterdir() if (p / "config.json").exists()):
        row = {"model": folder.name}
        try:
            architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
            model = getattr(transformers, architecture)
            expected = logits(model.from_pretrained(originals / folder.name, dtype=torch.bfloat16).eval())
            quantized, told = model.from_pretrained(folder, dtype=torch.bfloat16, output_loading_info=True)
            found = logits(quantized.eval())
            row["finite"] = bool(torch.isfinite(found).all())
            row["relative"] = float((found - expected).norm() / expected.norm())
            row["top1"] = float((found.argmax(-1) == expected.argmax(-1)).float().mean())
            row["keys"] = sorted(told["missing_keys"] | told["unexpected_keys"])[:4]
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {str(e)[:300]}"
        print(json.dumps(row), flush=True)


if sys.argv[1] == "make":
    make(Path(sys.argv[2]), set(sys.argv[3:]))
else:
    compare(Path(sys.argv[2]), Path(sys.argv[3]))
