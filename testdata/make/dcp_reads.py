"""Checks that torch reads the distributed checkpoints that Octet writes: loads a folder and compares each tensor with a file of safetensors, bit by bit.

usage: python dcp_reads.py FOLDER EXPECTED.safetensors

torch 2.13.0, safetensors 0.8.0. Makes no test data; `octet convert testdata/checkpoints/torch/states.bin -o FOLDER --target dcp` makes a FOLDER of every type.
"""
import io
import sys
import zipfile

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1).to(torch.uint8)

def main(folder, expected):
    want = load_file(expected)
    metadata = dcp.FileSystemReader(folder).read_metadata()
    assert set(metadata.state_dict_metadata) == set(want), set(metadata.state_dict_metadata) ^ set(want)
    state = {name: torch.zeros_like(tensor) for name, tensor in want.items()}
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    for name, tensor in want.items():
        assert state[name].dtype == tensor.dtype and state[name].shape == tensor.shape, name
        assert torch.equal(bits(state[name]), bits(tensor)), name
    for index, info in metadata.storage_data.items():  # each chunk is a whole zip archive by Python's reader, checksums included
        with open(f"{folder}/{info.relative_path}", "rb") as file:
            file.seek(info.offset)

            archive = zipfile.ZipFile(io.BytesIO(file.read(info.length)))
            assert archive.testzip() is None, index
    print(f"{len(want)} tensors are the same")

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
