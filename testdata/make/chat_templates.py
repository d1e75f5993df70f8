"""Renders testdata/chat/conversations.json by testdata/chat/templates with transformers' own renderer.

transformers 5.18.0, Jinja2 3.1.6. Writes testdata/golden/chat/rendered.json: for each template and conversation the text, or null where the
template refuses; for templates with generation blocks also which characters they mark, [from, to) in code points. And
testdata/golden/chat/tokens.json: tokens and assistant masks of apply_chat_template with the tokenizer of testdata/models/tiny-lm/gpt2. And
testdata/golden/chat/prompts.json: texts and tokens, by the same, of a user's message with and without one of the system, up to where the assistant is to write.
"""

import datetime
import json
import pathlib
from unittest import mock

import transformers
from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).parent.parent
OUT = ROOT / "golden" / "chat"
conversations = json.loads((ROOT / "chat" / "conversations.json").read_text())


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 31)


rendered = []
with mock.patch.object(chat_template_utils, "datetime", Today):
    for path in sorted((ROOT / "chat" / "templates").glob("*.jinja")):
        template = path.read_text()
        for conversation in conversations:
            more = {k: v for k, v in conversation.items() if k not in ("name", "messages")}
            try:
                texts, marks = chat_template_utils.render_jinja_template(
                    [conversation["messages"]],
                    chat_template=template,
                    return_assistant_tokens_mask="generation" in template,
                    bos_token="<s>",
                    eos_token="</s>",
                    **more,
                )
                row = {"text": texts[0], "marked": marks[0] if marks else []}
            except Exception:  # the template's refusals, and errors of its expressions
                row = {"text": None, "marked": []}
            rendered.append({"template": path.stem, "conversation": conversation["name"], **row})
(OUT / "rendered.json").write_text(json.dumps(rendered, ensure_ascii=False, indent=1) + "\n")

tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "models" / "tiny-lm" / "gpt2")
template = (ROOT / "chat" / "templates" / "chatml-generation.jinja").read_text()
tokens = []
for line in (ROOT / "chat" / "chat.jsonl").read_text().splitlines():
    got = tokenizer.apply_chat_template(
        json.loads(line)["messages"],
        chat_template=template,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    tokens.append({"tokens": got["input_ids"], "assistant": got["assistant_masks"]})
prompts = []
with mock.patch.object(chat_template_utils, "datetime", Today):
    for path in sorted((ROOT / "chat" / "templates").glob("*.jinja")):
        for system in (None, "You are a cat."):
            messages = [{"role": "system", "content": system}] if system else []
            messages.append({"role": "user", "content": "Where is the\nold dog?"})
            row = {"template": path.stem, "system": system, "user": messages[-1]["content"]}
            try:
                asked = dict(chat_template=path.read_text(), add_generation_prompt=True)
                row["text"] = tokenizer.apply_chat_template(messages, tokenize=False, **asked)
                row["tokens"] = tokenizer.apply_chat_template(messages, return_dict=True, **asked)["input_ids"]
            except Exception:
                row["text"], row["tokens"] = None, []
            prompts.append(row)
(OUT / "prompts.json").write_text("[\n" + ",\n".join(json.dumps(p) for p in prompts) + "\n]\n")
(OUT / "tokens.json").write_text("[\n" + ",\n".join(json.dumps(t) for t in tokens) + "\n]\n")
