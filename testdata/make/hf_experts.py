"""Makes ../models/tiny-hf/{mixtral,qwen2-moe,qwen3-moe,deepseek-v2,deepseek-v3,gpt-oss,llama4,llama4-left}: random mixtures of experts, with the logits, losses and gradients that transformers computes for
them; and ../golden/experts: the losses of mixtral, deepseek-v2, deepseek-v3 and switch with the terms of their routers, and mixtral's losses over steps of AdamW. Without arguments all, otherwise those
named.

Versions: transformers 5.18.0, torch 2.13.0, safetensors 0.8.0. Run: python hf_experts.py [NAME..]

As in hf_variants.py, F64 but for what transformers itself does in F32: the probabilities of routers too. transformers has the weights of a layer's experts
in one tensor and writes files with one for each; gradients are stored under the names of the files. Routers are scaled so that choices are clear: no
probability of a chosen expert is nearer to one not chosen than 1e-4.
"""

import sys

import torch
import transformers as tf
from safetensors.torch import load_file, save_file

import hf_variants as v

MOE = dict(vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1,
           eos_token_id=2)


def split(gradients, block, names, mlp="mlp"):
    """Gradients by the names of files: experts.gate_up_proj [E, 2 I, H] is two matrices for each expert, down_proj [E, H, I] one."""
    gate, up, down = names
    for name in list(gradients):
        if f".{mlp}." in name:
            gradients[name.replace(f".{mlp}.", f".{block}.")] = gradients.pop(name)
    for name in list(gradients):
        if ".experts.gate_up_proj" in name:
            both = gradients.pop(name)
            for e in range(both.shape[0]):
                base = name.replace("gate_up_proj", f"{e}.")
                half = both.shape[1] // 2
                gradients[base + gate + ".weight"] = both[e, :half].contiguous()
                gradients[base + up + ".weight"] = both[e, half:].contiguous()
        elif ".experts.down_proj" in name:
            all_down = gradients.pop(name)
            for e in range(all_down.shape[0]):
                gradients[name.replace("down_proj", f"{e}.{down}.weight")] = all_down[e].contiguous()
    return gradients


def clear(model, given):
    """That no choice of a router is a close one, which rounding could turn."""
    logits = []
    hooks = [m.register_forward_hook(lambda m, i, o: logits.append(o[0] if isinstance(o, tuple) else o))
             for n, m in model.named_modules() if n.endswith("mlp.gate")]
    model(**given)
    for h in hooks:
        h.remove()
    for l in logits:
        p = l.float().softmax(-1).sort(-1, descending=True).values
        k = model.config.num_experts_per_tok
        assert (p[:, k - 1] - p[:, k]).min() > 1e-4, (p[:, k - 1] - p[:, k]).min()


def save(name, cls, config, given, block, names, scale):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    config._experts_implementation = "eager"  # the others do not compute in F64
    model = v.eager(cls, config)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("mlp.gate.weight"):
                p.mul_(scale)
        for n, b in model.named_buffers():
            if n.endswith("e_score_correction_bias"):
                b.copy_(0.1 * torch.randn(b.shape, generator=torch.Generator().manual_seed(5)))
    if "group" not in str(config.to_dict().keys()):
        clear(model, given)
    folder = v.save(name, model, given)
    golden = load_file(folder / "golden.safetensors")
    save_file(split(golden, block, names), folder / "golden.safetensors")
    files = set(load_file(folder / "model.safetensors"))
    stored = {k[5:] for k in load_file(folder / "golden.safetensors") if k.startswith("grad.")}
    assert {f for f in files if "correction_bias" not in f} == stored, files ^ stored


LLAMA = ("gate_proj", "up_proj", "down_proj")
# weights that add up to one, a window; as many tokens as tokenizer/words.json has
save("mixtral", tf.MixtralForCausalLM, tf.MixtralConfig(**MOE | dict(vocab_size=101), intermediate_size=24, num_local_experts=5, num_experts_per_tok=2, sliding_window=4),
     v.tokens(101, "right"), "block_sparse_moe", ("w1", "w3", "w2"), 1)
# a shared expert behind a gate, weights that do not add up to one, the first layer without experts
save("qwen2-moe", tf.Qwen2MoeForCausalLM, tf.Qwen2MoeConfig(
    **MOE | dict(num_hidden_layers=3), intermediate_size=24, moe_intermediate_size=12, shared_expert_intermediate_size=20, num_experts=6,
    num_experts_per_tok=3, mlp_only_layers=[0], norm_topk_prob=False), v.tokens(37, "right"), "mlp", LLAMA, 3)
# norms of heads, weights that add up to one, experts in every other layer
save("qwen3-moe", tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
    **MOE, head_dim=8, intermediate_size=24, moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, decoder_sparse_step=2,
    tie_word_embeddings=True), v.tokens(37, "right"), "mlp", LLAMA, 3)
# latent attention, angles by YaRN, groups of experts, shared ones, the first layer without
DEEPSEEK = MOE | dict(num_key_value_heads=4, intermediate_size=24, moe_intermediate_size=12, n_routed_experts=8, n_shared_experts=2, n_group=4, topk_group=2,
                      num_experts_per_tok=3, first_k_dense_replace=1, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, kv_lora_rank=10)
YARN = dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=8, beta_slow=1, mscale=0.7,
            mscale_all_dim=1.0)
save("deepseek-v2", tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
    **DEEPSEEK, q_lora_rank=None, topk_method="group_limited_greedy", routed_scaling_factor=1.5, rope_parameters=dict(YARN)),
    v.tokens(37, "right"), "mlp", LLAMA, 3)
save("deepseek-v3", tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
    **DEEPSEEK, q_lora_rank=8, norm_topk_prob=True, routed_scaling_factor=2.5, rope_parameters=dict(YARN), attention_bias=True, num_mtp_layers=0),
    v.tokens(37, "right"), "mlp", LLAMA, 3)
# sinks, windows in every other layer, clamped experts with biases in one tensor for all, whose parts have names of their own in the graph
def parts(gradients):
    for name in list(gradients):
        if ".experts." in name:
            whole = gradients.pop(name)
            for e in range(whole.shape[0]):
                gradients[name.replace(".experts.", f".experts.{e}.")] = whole[e].contiguous()
    return gradients


if len(sys.argv) == 1 or "gpt-oss" in sys.argv[1:]:
    model = v.eager(tf.GptOssForCausalLM, tf.GptOssConfig(
        **MOE, head_dim=8, intermediate_size=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=4, experts_implementation="eager",
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=1.0,
                             truncate=False)))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("sinks"):
                p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(9)))
            elif "experts" in n:
                p.mul_(6)  # so that bounds are met
    folder = v.save("gpt-oss", model, v.tokens(37, "right"))
    save_file(parts(load_file(folder / "golden.safetensors")), folder / "golden.safetensors")


# chunks, a layer without positions, normalised heads, one expert that reads its token times a sigmoid, a layer without experts
# and the same padded on the left, behind which chunks begin, in F32 as in hf_variants.py, with experts in every other layer by a step
def llama4(name, padding, **more):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    model = v.eager(tf.Llama4ForCausalLM, tf.Llama4TextConfig(
        **MOE | dict(num_hidden_layers=3), head_dim=8, intermediate_size=12, intermediate_size_mlp=20, num_local_experts=4, attention_chunk_size=4,
        rope_parameters=dict(rope_type="default", rope_theta=1000.0), **more))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("router.weight"):
                p.mul_(3)
    folder = v.save(name, model, v.tokens(37, padding), exact=padding == "right")
    save_file(parts(load_file(folder / "golden.safetensors")), folder / "golden.safetensors")


llama4("llama4", "right", moe_layers=[0, 2], no_rope_layers=[1, 0, 1], floor_scale=3, attn_scale=0.5)
llama4("llama4-left", "left", interleave_moe_layer_step=2, use_qk_norm=False, attn_temperature_tuning=False, attention_bias=True, no_rope_layer_interval=2)


def terms_of_groups(name):
    """The same for routers whose scores transformers does not return: deepseek-v2's probabilities, and deepseek-v3's sigmoids divided by their sum."""
    model = tf.AutoModelForCausalLM.from_pretrained(v.OUT / name, experts_implementation="eager", attn_implementation="eager").double()
    given = v.tokens(37, "right")
    scores, chosen = [], []
    gates = [m for n, m in model.named_modules() if n.endswith("mlp.gate")]
    blocks = [m for n, m in model.named_modules() if n.endswith("mlp") and hasattr(m, "gate")]
    for m in gates:
        m.register_forward_hook(lambda m, i, o: scores.append(torch.nn.functional.linear(i[0].reshape(-1, 16), m.weight)))
    for m in blocks:
        m.experts.register_forward_hook(lambda m, i, o: chosen.append(i[1]))
    loss = model(**given).loss
    real = given["attention_mask"].reshape(-1) == 1
    probabilities = [s.softmax(-1) if name == "deepseek-v2" else s.sigmoid() / s.sigmoid().sum(-1, keepdim=True) for s in scores]
    hits = torch.cat([torch.nn.functional.one_hot(c[real], 8).sum(1).double() for c in chosen])
    balance = 8 * (hits.mean(0) * torch.cat([p[real] for p in probabilities]).mean(0)).sum()
    z = torch.cat([s[real].logsumexp(-1) ** 2 for s in scores]).mean()
    loss = loss + 0.02 * balance + 0.01 * z
    loss.backward()
    store(name, model, given, loss, balance, z, "mlp", LLAMA)


def terms_of_switch():
    """The same for an encoder and a decoder, whose terms add up. transformers has the balance of each sample alone; here it is of all tokens together."""
    model = tf.SwitchTransformersForConditionalGeneration.from_pretrained(v.OUT / "switch", attn_implementation="eager").double()
    given = v.tokens(37, "right", False)
    given["decoder_input_ids"] = torch.randint(2, 37, (2, 8), generator=torch.Generator().manual_seed(5))
    given["labels"] = torch.randint(2, 37, (2, 8), generator=torch.Generator().manual_seed(6))
    scores = {"encoder": [], "decoder": []}
    for n, m in model.named_modules():
        if n.endswith("router.classifier"):
            m.register_forward_hook(lambda m, i, o, side=n.split(".")[0]: scores[side].append(o))
    loss = model(**given).loss
    balance = z = 0
    for side, all_scores in scores.items():
        real = given["attention_mask"].reshape(-1) == 1 if side == "encoder" else torch.ones(16, dtype=torch.bool)
        s = torch.cat([one.reshape(-1, 3)[real] for one in all_scores])
        hits = torch.nn.functional.one_hot(s.argmax(-1), 3).double()
        balance = balance + 3 * (hits.mean(0) * s.softmax(-1).mean(0)).sum()
        z = z + (s.logsumexp(-1) ** 2).mean()
    loss = loss + 0.02 * balance + 0.01 * z
    loss.backward()
    store("switch", model, given, loss, balance, z, "mlp", LLAMA)


def store(name, model, given, loss, balance, z, block, names):
    golden = {"in." + k: t for k, t in given.items()}
    golden |= {"out.loss": loss.detach().float().reshape(1), "part.balance": balance.detach().float().reshape(1), "part.z": z.detach().float().reshape(1)}
    golden |= split({"grad." + n: p.grad.float().contiguous() for n, p in model.named_parameters() if p.grad is not None}, block, names)
    save_file(golden, GOLDEN / f"{name}-router-terms.safetensors")


def terms(name, block, names):
    """The loss with transformers' balance of the experts (0.02 times) and the mean square of log sum exp of the routers' scores (0.01 times), which
    transformers does not add for these models; real tokens of all layers count alike."""
    model = tf.AutoModelForCausalLM.from_pretrained(v.OUT / name, experts_implementation="eager", attn_implementation="eager").double()
    given = v.tokens(101, "right")
    model.config.router_aux_loss_coef = 0.02
    model.router_aux_loss_coef = 0.02
    out = model(**given, output_router_logits=True)
    real = given["attention_mask"].reshape(-1) == 1
    z = torch.cat([l[real].logsumexp(-1) ** 2 for l in out.router_logits]).mean()
    loss = out.loss + 0.01 * z
    loss.backward()
    store(name, model, given, loss, out.aux_loss, z, block, names)


def adamw(name):
    """Losses before each of eight steps of torch's AdamW at a rate of 0.01, on one batch."""
    model = tf.AutoModelForCausalLM.from_pretrained(v.OUT / name, experts_implementation="eager", attn_implementation="eager")
    given = v.tokens(101, "right")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = model(**given).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    save_file({"in." + k: t for k, t in given.items()} | {"losses": torch.stack(losses)}, GOLDEN / f"{name}-adamw.safetensors")


GOLDEN = v.OUT.parent.parent / "golden" / "experts"
GOLDEN.mkdir(exist_ok=True)
if len(sys.argv) == 1 or "golden" in sys.argv:
    terms("mixtral", "block_sparse_moe", ("w1", "w3", "w2"))
    adamw("mixtral")
    terms_of_groups("deepseek-v2")
    terms_of_groups("deepseek-v3")
    terms_of_switch()
