#!/usr/bin/env python3
"""Writes testdata/wordnet/glosses.jsonl and LICENSE: 1,000 glosses of WordNet 3.0's nouns.

Input: data.noun of Debian's wordnet-base 1:3.0-37 (/usr/share/wordnet/data.noun).
Which ones: the synsets whose SHA-256 of their offset (the eight digits at the start of the line) is smallest, in that order:
a fixed random sample. Glosses under 20 characters, and ones that were taken already, are passed over.
The text is the gloss as it stands: definition, then examples in quotes; only blanks at both ends are cut.
Run from the root of the repository: python3 testdata/make/wordnet_glosses.py
"""
import hashlib
import json
import sys

COUNT = 1000
MIN_CHARACTERS = 20
source = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/wordnet/data.noun"

licence, synsets = [], []
with open(source, encoding="utf-8") as file:
    for line in file:
        if line.startswith("  "):
            licence.append(line.rstrip().split(" ", 3)[3] if len(line.split()) > 1 else "")
        else:
            offset, gloss = line.split(" ", 1)[0], line.split("|", 1)[1].strip()
            synsets.append((hashlib.sha256(offset.encode()).hexdigest(), gloss))

chosen, seen = [], set()
for _, gloss in sorted(synsets):
    if len(gloss) >= MIN_CHARACTERS and gloss not in seen:
        seen.add(gloss)
        chosen.append(gloss)
    if len(chosen) == COUNT:
        break

with open("testdata/wordnet/glosses.jsonl", "w", encoding="utf-8", newline="\n") as file:
    for gloss in chosen:
        file.write(json.dumps({"text": gloss}, ensure_ascii=False) + "\n")
with open("testdata/wordnet/LICENSE", "w", encoding="utf-8", newline="\n") as file:
    file.write("\n".join(licence).strip() + "\n")
