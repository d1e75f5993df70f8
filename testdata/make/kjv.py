"""A real text with a tokenizer and tiny language models for it: testdata/text and testdata/models/tiny-lm.

The text is the King James Version of the Bible as Debian packages it (bible-kjv-text 4.38; the copyright of the translation of 1611 has
expired), one chapter a line, as {"text": ...}. The excerpt in testdata/text has chapters 1 to 25 of Genesis to train on, and Ruth to
evaluate on.

    kjv.py text FOLDER       the whole text, by `apt-get download`: FOLDER/train.jsonl, and FOLDER/eval.jsonl with every twentieth chapter
    kjv.py excerpt FOLDER    of a FOLDER that `text` made: testdata/text
    kjv.py models FOLDER     of a FOLDER that `text` made: testdata/models/tiny-lm/{gpt2,llama}, two layers of 128 in BF16
    kjv.py model FOLDER gpt2|llama LAYERS OUT   a larger one in F32, with the same tokenizer

Written with tokenizers 0.23.2, transformers 5.18.0 and torch 2.13.0. `text` needs nothing but Debian's apt-get and dpkg-deb.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTDATA = os.path.dirname(HERE)
END = "<|endoftext|>"
VOCABULARY = 1024
POSITIONS = 256
SEED = 1


def verses():
    """(book, chapter, verse, text) of every verse; the program shows the first one twice."""
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["apt-get", "-q", "download", "bible-kjv", "bible-kjv-text"], cwd=work, check=True, stdout=sys.stderr)
        for package in sorted(os.listdir(work)):
            subprocess.run(["dpkg-deb", "-x", package, "."], cwd=work, check=True)
        printed = subprocess.run([f"{work}/usr/bin/bible", "-f", "-l", "100000", "-p", f"{work}/usr/lib"], input="gen1:1-rev22:21\n",
                                 capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        verse = re.fullmatch(r"(?:bible\(KJV\) \[[^]]*\]> )?([1-3]?[A-Z][A-Za-z]*)(\d+):(\d+) (.*)", line)
        if verse:
            yield verse[1], int(verse[2]), int(verse[3]), verse[4].strip()


def write(path, chapters):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for chapter in chapters:
            file.write(json.dumps({"text": chapter}) + "\n")


def make_text(folder):
    chapters = {}
    for book, chapter, number, verse in verses():
        chapters.setdefault((book, chapter), {})[number] = verse
    texts = ["\n".join(v.values()) for v in chapters.values()]
    if len(texts) != 1189:
        sys.exit(f"{len(texts)} chapters, there are 1189")
    write(f"{folder}/train.jsonl", [t for i, t in enumerate(texts) if i % 20 != 19])
    write(f"{folder}/eval.jsonl", [t for i, t in enumerate(texts) if i % 20 == 19])
    with open(f"{folder}/chapters.json", "w", encoding="utf-8") as file:
        json.dump([[book, chapter, text] for (book, chapter), text in zip(chapters, texts)], file)


def read(folder):
    with open(f"{folder}/train.jsonl", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def excerpt(folder):
    with open(f"{folder}/chapters.json", encoding="utf-8") as file:
        chapters = json.load(file)
    write(f"{TESTDATA}/text/train.jsonl", [text for book, chapter, text in chapters if book == "Ge" and chapter <= 25])
    write(f"{TESTDATA}/text/eval.jsonl", [text for book, _, text in chapters if book == "Ruth"])


def tokenizer(folder):
    """Byte-level BPE on the training text: 256 bytes, merges, and the end of a text as the last token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(read(folder), trainers.BpeTrainer(
        vocab_size=VOCABULARY - 1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_special_tokens([END])
    assert sorted(made.get_vocab().values()) == list(range(VOCABULARY))
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, bos_token=END, model_max_length=POSITIONS)


def model(kind, layers, end):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(SEED)
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=128, n_layer=layers, n_head=4, resid_pdrop=0,
                                          embd_pdrop=0, attn_pdrop=0, bos_token_id=end, eos_token_id=end))
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=128, intermediate_size=256,
                                        num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                                        bos_token_id=end, eos_token_id=end))


def save(made, words, out):
    shutil.rmtree(out, ignore_errors=True)
    made.save_pretrained(out)
    words.save_pretrained(out)


def main():
    what, folder = sys.argv[1:3]
    if what == "text":
        make_text(folder)
    elif what == "excerpt":
        excerpt(folder)
    elif what == "models":
        import torch
        words = tokenizer(folder)
        for kind in ("gpt2", "llama"):
            save(model(kind, 2, words.eos_token_id).to(torch.bfloat16), words, f"{TESTDATA}/models/tiny-lm/{kind}")
    else:
        kind, layers, out = sys.argv[3:6]
        words = tokenizer(folder)
        save(model(kind, int(layers), words.eos_token_id), words, out)


if __name__ == "__main__":
    main()
