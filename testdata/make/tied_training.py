"""Losses of six steps of a GPT-2 whose output layer is its embedding.

usage: python tied_training.py tiny-hf/gpt2
made with torch 2.13.0 and transformers 5.18.0 on the CPU; prints the losses, which the test of `octet train` holds
"""
import sys

import torch
from transformers import GPT2LMHeadModel

model = GPT2LMHeadModel.from_pretrained(sys.argv[1], attn_implementation="eager")
model.eval()  # no dropout
assert model.lm_head.weight is model.transformer.wte.weight
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, nesterov=True)
# one batch of four sequences of eight tokens, as the test writes them
tokens = torch.tensor([(7 * i + 3 * (i // 8)) % 96 for i in range(32)]).view(4, 8)
for _ in range(6):
    loss = model(input_ids=tokens, labels=tokens).loss
    print(repr(loss.item()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
