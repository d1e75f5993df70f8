"""Fashion-MNIST in PyTorch: data, models and the peer of bench/run-fashion-mnist.

    fashion_torch.py make FOLDER --idx IDX --seed N     samples, and both models with random weights as ONNX
    fashion_torch.py train mlp|lenet FOLDER --mode fp32|bf16 --steps N --threads T

IDX has the four .gz files of the data set. `train` prints one JSON line, as train_torch.py does, with the classes it gives the test images.
"""

import argparse
import gzip
import json
import os
from collections import OrderedDict

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import nn
from torch.nn import functional as F

from train_torch import steps

BATCH, LR = 64, 1e-3
MODELS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)),
    "lenet": lambda: nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                                   nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                                   nn.Linear(84, 10)),
}


def idx(path):
    """An array of bytes: two zeros, type 8, rank, dimensions as big-endian u32, elements."""
    with gzip.open(path) as file:
        data = file.read()
    if data[:3] != b"\0\0\x08":
        raise SystemExit(f"{path} is no idx file of bytes")
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, -1, 4 + 4 * data[3]).reshape(shape)


def samples(folder, source, seed):
    """train.safetensors in an order that follows from the seed, and test.safetensors."""
    os.makedirs(folder, exist_ok=True)
    images, tests = (idx(f"{source}/{part}-images-idx3-ubyte.gz") for part in ("train", "t10k"))
    labels, classes = (idx(f"{source}/{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k"))
    mean, deviation = images.mean(), images.std()
    order = np.random.default_rng(seed).permutation(len(images))
    for name, x, y in (("train", images[order], labels[order]), ("test", tests, classes)):
        save_file({"images": ((x - mean) / deviation).astype(np.float32)[:, None], "labels": y.astype(np.int64)},
                  f"{folder}/{name}.safetensors")


def onnx(model, path):
    torch.onnx.export(model, (torch.zeros(BATCH, 1, 28, 28),), path, input_names=["images"], output_names=["logits"],
                      dynamic_axes={"images": {0: "batch"}, "logits": {0: "batch"}}, opset_version=17, dynamo=False)


def make(folder, source, seed):
    samples(folder, source, seed)
    for name, model in MODELS.items():
        torch.manual_seed(seed)
        made = model().eval()
        torch.save(made.state_dict(), f"{folder}/{name}.pt")
        onnx(made, f"{folder}/{name}.onnx")


def perceptron(path, seed):
    """The model of bench/run-qat with random weights: layer norms in front of the ReLUs, as methods that squeeze weights to -1 .. 1 ask for."""
    torch.manual_seed(seed)
    parts = [("flat", nn.Flatten())]
    for name, width in (("first", 784), ("second", 256), ("third", 256)):
        parts += [(name, nn.Linear(width, 256)), (f"{name}_norm", nn.LayerNorm(256)), (f"{name}_relu", nn.ReLU())]
    onnx(nn.Sequential(OrderedDict(parts + [("last", nn.Linear(256, 10))])).eval(), path)


def classes(model, images, mode="fp32"):
    """The class with the largest logit of each image."""
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "bf16"):
        return torch.cat([model(x).argmax(1) for x in torch.from_numpy(images).split(1000)]).numpy()


def train(name, folder, mode, count):
    model = MODELS[name]()
    model.load_state_dict(torch.load(f"{folder}/{name}.pt"))
    data = {k: torch.from_numpy(v) for k, v in load_file(f"{folder}/train.safetensors").items()}
    whole = len(data["labels"]) // BATCH

    def loss(i):
        rows = slice(i % whole * BATCH, (i % whole + 1) * BATCH)
        return F.cross_entropy(model(data["images"][rows]), data["labels"][rows])

    result = steps((model, LR, loss), mode, count, decay=True)
    return result | {"classes": classes(model, load_file(f"{folder}/test.safetensors")["images"], mode).tolist()}


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="what", required=True)
    command = commands.add_parser("make")
    command.add_argument("folder")
    command.add_argument("--idx", required=True)
    command.add_argument("--seed", type=int, default=1)
    command = commands.add_parser("train")
    command.add_argument("model", choices=MODELS)
    command.add_argument("folder")
    command.add_argument("--mode", choices=["fp32", "bf16"], default="fp32")
    command.add_argument("--steps", type=int, required=True)
    command.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.what == "make":
        make(options.folder, options.idx, options.seed)
    else:
        torch.set_num_threads(options.threads)
        print(json.dumps(train(options.model, options.folder, options.mode, options.steps)))


if __name__ == "__main__":
    main()
