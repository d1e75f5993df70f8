"""Makes ../models/tiny-hf/{llama-yarn,llama-dynamic,phi3,olmo2,smollm3,granite,gemma3,cohere,cohere2}: random decoders with the logits, losses and
gradients that transformers computes for them. Without arguments all, otherwise those named.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python hf_decoders.py [NAME..]

As in hf_variants.py, F64 but for what transformers itself does in F32. Texts of nine tokens are longer than windows and than the lengths from which rotary
positions stretch, so both matter.
"""

import sys

import transformers as tf

import hf_variants as v

SMALL = v.SMALL


def save(name, cls, config, padding="right", **settings):
    if len(sys.argv) < 2 or name in sys.argv[1:]:
        v.save(name, v.eager(cls, config), v.tokens(37, padding), **settings)


# stretched by wavelength, cosines and sines scaled
save("llama-yarn", tf.LlamaForCausalLM, tf.LlamaConfig(
    **SMALL | dict(hidden_size=32), num_key_value_heads=2, head_dim=16,
    rope_parameters=dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5)))
# a base that grows with the text's length, here beyond the longest that the model was trained with
save("llama-dynamic", tf.LlamaForCausalLM, tf.LlamaConfig(
    **SMALL | dict(max_position_embeddings=6), num_key_value_heads=4, tie_word_embeddings=True,
    rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=3.0)))
# q, k and v in one matrix, gate and up in another; part of each head rotated; other frequencies beyond six positions
save("phi3", tf.Phi3ForCausalLM, tf.Phi3Config(
    **SMALL | dict(hidden_size=32), num_key_value_heads=2, pad_token_id=0, original_max_position_embeddings=6, sliding_window=5,
    rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.5, short_factor=[1.0, 1.1], long_factor=[1.5, 4.0])))
# norms behind attention and MLP only, and over all heads of q and of k
save("olmo2", tf.Olmo2ForCausalLM, tf.Olmo2Config(**SMALL, num_key_value_heads=2, pad_token_id=1))
# layers without positions, which see a window here
save("smollm3", tf.SmolLM3ForCausalLM, tf.SmolLM3Config(
    **SMALL | dict(num_hidden_layers=3), num_key_value_heads=2, pad_token_id=0, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=4,
    attention_bias=True))
# four multipliers
save("granite", tf.GraniteForCausalLM, tf.GraniteConfig(
    **SMALL, num_key_value_heads=2, embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3, attention_multiplier=0.2, mlp_bias=True))
# two rotary bases, norms of heads around one, norms around attention and MLP
save("gemma3", tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(
    **SMALL | dict(num_hidden_layers=3), num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12, sliding_window=4, sliding_window_pattern=2, pad_token_id=0,
    rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0),
                         sliding_attention=dict(rope_type="default", rope_theta=100.0))))
# attention beside the MLP, LayerNorm without bias, norms of heads with weights of their own, rotated neighbours
save("cohere", tf.CohereForCausalLM, tf.CohereConfig(**SMALL, num_key_value_heads=2, pad_token_id=0, logit_scale=0.25, use_qk_norm=True))
# positions only where there is a window
save("cohere2", tf.Cohere2ForCausalLM, tf.Cohere2Config(
    **SMALL | dict(num_hidden_layers=2), num_key_value_heads=2, pad_token_id=0, sliding_window=4, layer_types=["sliding_attention", "full_attention"]))
