"""Writes testdata/chat/parquet from testdata/chat/chat.jsonl with pyarrow 25.0.1: conversations in two shards (snappy) and a split for tests
(gzip), and one file each of texts with labels, prompts with completions, tokens with labels (in two row groups), preferences (zstd)."""

import json
import pathlib

import pyarrow
import pyarrow.parquet

ROOT = pathlib.Path(__file__).parent.parent / "chat"
OUT = ROOT / "parquet"
chats = [json.loads(line)["messages"] for line in (ROOT / "chat.jsonl").read_text().splitlines()]


def write(name, rows, **options):
    (OUT / name).parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), OUT / name, **options)


rows = [{"id": i, "messages": [dict(m, name=None) for m in chat]} for i, chat in enumerate(chats)]
write("chats/train-00000-of-00002.parquet", rows[:7])
write("chats/train-00001-of-00002.parquet", rows[7:])
write("chats/test-00000-of-00001.parquet", rows[:3], compression="gzip")
write("texts.parquet", [{"text": c[1]["content"], "label": i % 2} for i, c in enumerate(chats)], compression="none")
write("completions.parquet", [{"prompt": c[0]["content"], "completion": " " + c[1]["content"]} for c in chats])
tokens = [list(range(1, 5 + i)) for i in range(len(chats))]
write(
    "tokens.parquet",
    [{"input_ids": t, "labels": [-100, -100] + t[2:]} for t in tokens],
    row_group_size=5,
    use_dictionary=False,
)
write("preferences.parquet", [{"prompt": "a", "chosen": "b", "rejected": "c"}], compression="zstd")
