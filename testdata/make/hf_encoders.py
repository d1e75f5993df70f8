"""Makes ../models/tiny-hf/{roberta,xlm-roberta,roberta-bare,distilbert,distilbert-cls,modernbert,modernbert-cls,t5,t5-gated,t5-encoder}: random encoders with the outputs, losses
and gradients that transformers computes for them. Without arguments all, otherwise those named.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python hf_encoders.py [NAME..]

As in hf_variants.py, F64 but for what transformers itself does in F32. Padded positions hold the padding token, from which RoBERTa counts positions.
"""

import sys

import torch
import transformers as tf

import hf_variants as v

SMALL = dict(vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2)


def save(name, cls, config, padding="right", labels=True):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    given = v.tokens(37, padding, labels is True)
    given["input_ids"][given["attention_mask"] == 0] = config.pad_token_id
    if labels is True and padding == "left":
        given["labels"][1, 3] = given["input_ids"][1, 3]
    if isinstance(labels, list):
        given["labels"] = torch.tensor(labels)
    v.save(name, v.eager(cls, config), given)


BERT = SMALL | dict(intermediate_size=24, max_position_embeddings=32)
# positions from the tokens, one type of token
save("roberta", tf.RobertaForMaskedLM, tf.RobertaConfig(**BERT, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5))
# the same padded on the left, a classifier with a layer of its own
save("xlm-roberta", tf.XLMRobertaForSequenceClassification, tf.XLMRobertaConfig(**BERT, pad_token_id=1, type_vocab_size=1, num_labels=3), "left", [2, 0])
# no head, a pooler, two types of token
save("roberta-bare", tf.RobertaModel, tf.RobertaConfig(**BERT, pad_token_id=2, type_vocab_size=2), labels=False)
DISTIL = dict(vocab_size=37, dim=16, n_layers=2, n_heads=4, hidden_dim=24, max_position_embeddings=32, pad_token_id=0)
save("distilbert", tf.DistilBertForMaskedLM, tf.DistilBertConfig(**DISTIL, activation="relu"))
save("distilbert-cls", tf.DistilBertForSequenceClassification, tf.DistilBertConfig(**DISTIL, num_labels=3), labels=[1, 2])
# windows to both sides with a rotary base of their own
MODERN = SMALL | dict(intermediate_size=20, max_position_embeddings=64, pad_token_id=0, cls_token_id=1, sep_token_id=2, local_attention=6)  # padded positions must see something
save("modernbert", tf.ModernBertForMaskedLM, tf.ModernBertConfig(**MODERN | dict(num_hidden_layers=3)))
save("modernbert-cls", tf.ModernBertForSequenceClassification, tf.ModernBertConfig(
    **MODERN, global_attn_every_n_layers=2, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, classifier_pooling="mean", num_labels=3),
    labels=[1, 2])
# relative positions in buckets, an encoder and a decoder; here longer distances than buckets of their own
T5 = dict(vocab_size=37, d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=6,
          pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)


def save_pair(name, cls, config, targets=True):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    given = v.tokens(37, "right", False)
    if targets:
        given["decoder_input_ids"] = torch.randint(2, 37, (2, 8), generator=torch.Generator().manual_seed(5))
        given["labels"] = torch.randint(2, 37, (2, 8), generator=torch.Generator().manual_seed(6))
        given["labels"][1, 5:] = -100
    v.save(name, v.eager(cls, config), given)


save_pair("t5", tf.T5ForConditionalGeneration, tf.T5Config(**T5))
save_pair("t5-gated", tf.T5ForConditionalGeneration, tf.T5Config(**T5, feed_forward_proj="gated-gelu", num_decoder_layers=1, tie_word_embeddings=False))
save_pair("t5-encoder", tf.T5EncoderModel, tf.T5Config(**T5, feed_forward_proj="gated-silu"), targets=False)
