"""Makes ../models/tiny-hf/{roberta,xlm-roberta,roberta-bare,distilbert,distilbert-cls,modernbert,modernbert-cls,
bert-tokens,roberta-qa,distilbert-tokens,modernbert-qa,t5,t5-gated,t5-encoder,deberta,deberta-v3,
deberta-cls,deberta-tokens,deberta-qa,deberta-bare,switch,switch-encoder}, and ../golden/deberta/buckets.safetensors: random encoders with the outputs, losses
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
# classes of tokens; the first and the last token of an answer
save("bert-tokens", tf.BertForTokenClassification, tf.BertConfig(**BERT, pad_token_id=0, num_labels=37))
save("roberta-qa", tf.RobertaForQuestionAnswering, tf.RobertaConfig(**BERT, pad_token_id=1, type_vocab_size=1), labels=False)
save("distilbert-tokens", tf.DistilBertForTokenClassification, tf.DistilBertConfig(**DISTIL, num_labels=37))
# windows to both sides with a rotary base of their own
MODERN = SMALL | dict(intermediate_size=20, max_position_embeddings=64, pad_token_id=0, cls_token_id=1, sep_token_id=2, local_attention=6)  # padded positions must see something
save("modernbert", tf.ModernBertForMaskedLM, tf.ModernBertConfig(**MODERN | dict(num_hidden_layers=3)))
save("modernbert-cls", tf.ModernBertForSequenceClassification, tf.ModernBertConfig(
    **MODERN, global_attn_every_n_layers=2, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True, classifier_pooling="mean", num_labels=3),
    labels=[1, 2])
save("modernbert-qa", tf.ModernBertForQuestionAnswering, tf.ModernBertConfig(**MODERN), labels=False)
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
# experts of a small capacity in every other layer of either stack; scores of the routers are far apart
SWITCH = T5 | dict(num_layers=4, num_decoder_layers=2, num_sparse_encoder_layers=2, num_sparse_decoder_layers=1, num_experts=3, expert_capacity=3)
save_pair("switch", tf.SwitchTransformersForConditionalGeneration, tf.SwitchTransformersConfig(**SWITCH))
save_pair("switch-encoder", tf.SwitchTransformersEncoderModel, tf.SwitchTransformersConfig(
    **SWITCH | dict(num_layers=2, expert_capacity=2), router_bias=True), targets=False)
# padded queries look at nothing here, whose mean of everything means nothing; three are without padding
# positions that attention adds: scores of distances in buckets, by the Linears of tokens, normalised embeddings
DEBERTA = BERT | dict(pad_token_id=0, relative_attention=True, pos_att_type="p2c|c2p")
SHARED = dict(position_biased_input=False, type_vocab_size=0, share_att_key=True, position_buckets=6, norm_rel_ebd="layer_norm", max_relative_positions=-1)
save("deberta", tf.DebertaV2ForMaskedLM, tf.DebertaV2Config(**DEBERTA | SHARED | dict(max_position_embeddings=12)))
# the head that its authors trained
save("deberta-v3", tf.DebertaV2ForMaskedLM, tf.DebertaV2Config(**DEBERTA | SHARED, legacy=False, hidden_act="gelu_new"), "none")
# Linears of their own, distances without buckets, a convolution, a narrower table, types and positions of tokens
save("deberta-cls", tf.DebertaV2ForSequenceClassification, tf.DebertaV2Config(
    **DEBERTA, max_relative_positions=5, conv_kernel_size=3, conv_act="gelu", conv_groups=2, embedding_size=12, type_vocab_size=2, num_labels=3), labels=[2, 0])
# one kind of scores each
save("deberta-tokens", tf.DebertaV2ForTokenClassification, tf.DebertaV2Config(
    **DEBERTA | dict(pos_att_type=["c2p"]), position_buckets=4, max_relative_positions=16, conv_kernel_size=5, num_labels=37), "left")
save("deberta-qa", tf.DebertaV2ForQuestionAnswering, tf.DebertaV2Config(**DEBERTA | dict(pos_att_type=["p2c"]), position_biased_input=False), "none", labels=False)
save("deberta-bare", tf.DebertaV2Model, tf.DebertaV2Config(**DEBERTA | dict(relative_attention=False)), "none", labels=False)


def buckets():
    """The places of the embeddings of all distances, from a key 600 positions behind the query to one 600 in front of it."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
    distances = torch.arange(600, -601, -1)
    golden = {}
    for span, farthest in ((256, 512), (32, 128), (6, 12), (4, 16), (5, 40)):
        places = make_log_bucket_position(distances, span, farthest).to(torch.long)
        golden[f"{span}_{farthest}"] = torch.clamp(places + span, 0, 2 * span - 1)
    folder = v.OUT.parent.parent / "golden" / "deberta"
    folder.mkdir(exist_ok=True)
    v.save_file(golden, folder / "buckets.safetensors")


if len(sys.argv) == 1 or "buckets" in sys.argv[1:]:
    buckets()
