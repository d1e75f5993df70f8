"""Makes ../models/tiny-hf/{clip,clip-text,clip-vision,siglip,whisper}: random models of texts, images and sounds with the outputs of transformers, and the gradients of
random numbers behind them (upstream.*), or of the loss.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python hf_pairs.py [NAME..]

As in hf_variants.py, F64 but for what transformers itself does in F32.
"""

import shutil
import sys

import torch
import transformers as tf
from safetensors.torch import save_file

import hf_variants as v

OUTPUTS = ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds", "last_hidden_state", "pooler_output")


def save(name, cls, config, given, upstream):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    for part in (config, getattr(config, "text_config", None), getattr(config, "vision_config", None)):
        if part is not None:
            part._attn_implementation = "eager"
    model = v.eager(cls, config)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n in ("logit_scale", "logit_bias"):
                p.fill_(0.7)
    folder = v.OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    model.double()
    out = model(**{k: t.double() if t.is_floating_point() else t for k, t in given.items()})
    golden = {"in." + k: t.contiguous() for k, t in given.items()}
    golden |= {"out." + k: out[k].detach().float().contiguous() for k in OUTPUTS if k in out}
    generator = torch.Generator().manual_seed(11)
    golden["upstream." + upstream] = torch.randn(out[upstream].shape, generator=generator)
    (out[upstream] * golden["upstream." + upstream]).sum().backward()
    for n, p in model.named_parameters():
        if p.grad is not None and n not in ("logit_scale", "logit_bias"):  # which Octet does not train
            golden["grad." + n] = p.grad.float().contiguous()
    save_file(golden, folder / "golden.safetensors")


TEXT = dict(vocab_size=37, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, bos_token_id=1,
            eos_token_id=36, pad_token_id=0, projection_dim=12)
IMAGE = dict(hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3, image_size=8, patch_size=4, projection_dim=12)
texts = v.tokens(37, "right", labels=False)
texts["input_ids"][texts["input_ids"] == 36] = 3
texts["input_ids"][0, 8] = texts["input_ids"][1, 5] = 36
texts["input_ids"][1, 6:] = 36  # the first of several ends the text
images = {"pixel_values": torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(3))}
save("clip", tf.CLIPModel, tf.CLIPConfig(text_config=TEXT, vision_config=IMAGE, projection_dim=12), texts | images, "logits_per_image")
save("clip-text", tf.CLIPTextModelWithProjection, tf.CLIPTextConfig(**TEXT | dict(eos_token_id=2, hidden_act="gelu")), texts, "text_embeds")
save("clip-vision", tf.CLIPVisionModel, tf.CLIPVisionConfig(**IMAGE), images, "pooler_output")
save("siglip", tf.SiglipModel, tf.SiglipConfig(
    text_config={k: x for k, x in TEXT.items() if k != "projection_dim"} | dict(hidden_size=24, num_attention_heads=3),
    vision_config={k: x for k, x in IMAGE.items() if k != "projection_dim"}), texts | images, "logits_per_image")
# sounds to texts: convolutions in one dimension, an encoder and a decoder
WHISPER = dict(vocab_size=37, num_mel_bins=6, encoder_layers=2, encoder_attention_heads=2, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=20,
               encoder_ffn_dim=24, d_model=16, max_source_positions=8, max_target_positions=12, pad_token_id=0, bos_token_id=1, eos_token_id=2,
               decoder_start_token_id=1, suppress_tokens=[], begin_suppress_tokens=[])
sounds = {"input_features": torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(4)),
          "decoder_input_ids": torch.randint(3, 37, (2, 7), generator=torch.Generator().manual_seed(5)),
          "labels": torch.randint(3, 37, (2, 7), generator=torch.Generator().manual_seed(6))}
if len(sys.argv) < 2 or "whisper" in sys.argv[1:]:
    v.save("whisper", v.eager(tf.WhisperForConditionalGeneration, tf.WhisperConfig(**WHISPER)), sounds)
