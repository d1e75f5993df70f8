"""Makes ../golden/gguf/models: tiny decoders with tokenizers, and the tokens that transformers generates greedily.

Versions: torch 2.13.0, transformers 5.18.0, tokenizers 0.23.2. Run: python gguf_models.py [NAME..]

For each family a folder with random weights in BF16 (wide enough that the best token leads clearly), a tokenizer trained on ../text, and greedy.json:
prompts, their tokens, 12 tokens that follow in F32, the text they stand for, the least lead of a chosen logit over the second, and logits behind
the last token of the first prompt.
"""

import json
import pathlib
import sys

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers, Regex
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
OUT = HERE.parent / "golden" / "gguf" / "models"
TEXTS = [json.loads(line)["text"] for line in (HERE.parent / "text" / "train.jsonl").read_text().splitlines()][:2000]
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
PROMPTS = ["In the beginning God", "And it's 1234 days,  as THEY'LL say:\n\n naïve 世界!"]
SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256, initializer_range=0.6, tie_word_embeddings=False)


def byte_level(pattern, size, special, nfc):
    tok = Tokenizer(models.BPE(ignore_merges=pattern == LLAMA3))
    if nfc:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=size - len(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tok.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in special])
    return tok


def sentence_piece(size, prefix):
    special = ["<unk>", "<s>", "</s>"]
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prefix else spaces
    tok.pre_tokenizer = pre_tokenizers.Metaspace()  # for training only, so that pieces end with words
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    tok.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=size, special_tokens=special + bytes_, show_progress=False))
    data = json.loads(tok.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in special]
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
        + ([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else [])}
    tok = Tokenizer.from_str(json.dumps(data))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tok


def text(tok, ids, pieces):
    """As bytes, where a decoder of Hugging Face replaces each byte of a run that is no UTF-8."""
    if not pieces:
        return tok.decode(ids)
    parts = [tok.id_to_token(i) for i in ids if i > 2]
    return b"".join(bytes([int(p[3:5], 16)]) if len(p) == 6 and p.startswith("<0x") else p.replace("▁", " ").encode()
                    for p in parts).decode("utf-8", "replace")


LEAST_LEAD = 0.06  # above what the order of sums changes


def make(name, kind, tokenizer, bos, eos, **more):
    if len(sys.argv) > 1 and name not in sys.argv[1:]:
        return
    tok = tokenizer()
    for seed in range(1000):
        if made(name, kind, tok, bos, eos, seed, **more):
            return
    raise SystemExit(f"no seed gives {name} a clear lead")


def made(name, kind, tok, bos, eos, seed, **more):
    torch.manual_seed(seed)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    vocab = tok.get_vocab_size()
    config = AutoConfig.for_model(kind, vocab_size=vocab, **{**SIZES, **more})
    config.bos_token_id = tok.token_to_id(bos) if bos else None
    config.eos_token_id = tok.token_to_id(eos)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n.endswith("norm.weight"):
                p.add_(torch.randn_like(p) * 0.1)
            if n.endswith("bias"):
                p.copy_(torch.randn_like(p) * 0.1)
    model = model.to(torch.bfloat16)
    model = model.float()
    greedy = []
    for prompt in PROMPTS:
        ids = tok.encode(prompt).ids
        ids_so_far, lead, first = list(ids), 1e9, None
        for _ in range(12):
            with torch.no_grad():
                logits = model(torch.tensor([ids_so_far])).logits[0, -1]
            first = logits if first is None else first
            top = logits.topk(2)
            lead = min(lead, (top.values[0] - top.values[1]).item())
            ids_so_far.append(top.indices[0].item())
        greedy.append({"prompt": prompt, "tokens": ids, "generated": ids_so_far[len(ids):], "text": text(tok, ids_so_far[len(ids):], bos == "<s>"),
                       "lead": lead, "logits": [round(x, 5) for x in first[:8].tolist()]})
    special = {t["id"] for t in json.loads(tok.to_str())["added_tokens"]}
    if min(g["lead"] for g in greedy) < LEAST_LEAD or any(special & set(g["generated"]) for g in greedy):
        return False  # llama.cpp ends a text at a special token
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, bos_token=bos, eos_token=eos,
                                   **({"unk_token": "<unk>"} if bos == "<s>" else {}))
    fast.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    fast.save_pretrained(folder)
    (folder / "greedy.json").write_text(json.dumps(greedy, ensure_ascii=False, indent=1) + "\n")
    print(name, vocab, [g["lead"] for g in greedy], [len(g["tokens"]) for g in greedy])
    return True


make("llama", "llama", lambda: sentence_piece(420, True), "<s>", "</s>", initializer_range=0.2)
make("llama3", "llama", lambda: byte_level(LLAMA3, 400, ["<|begin_of_text|>", "<|end_of_text|>"], False), "<|begin_of_text|>", "<|end_of_text|>",
     rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                      "original_max_position_embeddings": 8192})
make("qwen2", "qwen2", lambda: byte_level(QWEN, 400, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], True), None, "<|endoftext|>")
make("qwen3", "qwen3", lambda: byte_level(QWEN, 400, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], True), None, "<|endoftext|>", head_dim=32)
make("gemma", "gemma", lambda: sentence_piece(420, False), "<s>", "</s>", head_dim=32, tie_word_embeddings=True, initializer_range=0.2)
make("mistral", "mistral", lambda: sentence_piece(420, True), "<s>", "</s>", sliding_window=None, initializer_range=0.2)
# llama.cpp takes Gemma 2 of 26 layers, whose scores it scales by the size of a head: narrow ones
make("gemma2", "gemma2", lambda: sentence_piece(420, False), "<s>", "</s>", num_hidden_layers=26, hidden_size=32, intermediate_size=32, num_attention_heads=2,
     num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, tie_word_embeddings=True, initializer_range=0.2)
