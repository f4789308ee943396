#!/usr/bin/python3
"""Writes a network as ONNX, with seeded weights, and what PyTorch's losses are when it trains (Debian: python3-torch python3-onnx).

usage: testsuite/training/pytorch_losses.py lenet|mlp MNIST_DIR OUTDIR [--epochs N]

OUTDIR/NAME.onnx is the network before training, OUTDIR/NAME.json the loss of each of the first 50 steps and the share of
2,000 held-out pictures that is right behind each epoch. Examples come in the order of `kodama train --seed 1`.
"""
import argparse
import gzip
import json
import pathlib

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

MASK = (1 << 64) - 1


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 5, padding=2)
        self.c2 = nn.Conv2d(6, 16, 5)
        self.f1 = nn.Linear(400, 120)
        self.f2 = nn.Linear(120, 84)
        self.f3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2)
        x = F.relu(self.f1(x.flatten(1)))
        return self.f3(F.relu(self.f2(x)))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1 = nn.Linear(784, 256)
        self.f2 = nn.Linear(256, 10)

    def forward(self, x):
        return self.f2(F.relu(self.f1(x.flatten(1))))


NETWORKS = {
    "lenet": (Lenet, lambda p: torch.optim.Adam(p, lr=2e-3)),
    "mlp": (Mlp, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
}


def shuffled(count, seed, epoch):
    """As compiler/driver/training_data.cpp."""
    order = list(range(count))
    state = (seed * 0x100000001b3 + epoch) & MASK
    for i in range(count, 1, -1):
        state = (state + 0x9e3779b97f4a7c15) & MASK
        bits = ((state ^ state >> 30) * 0xbf58476d1ce4e5b9) & MASK
        bits = ((bits ^ bits >> 27) * 0x94d049bb133111eb) & MASK
        at = (bits ^ bits >> 31) % i
        order[i - 1], order[at] = order[at], order[i - 1]
    return order


def read_mnist(folder):
    pictures = gzip.open(folder / "t10k-images-idx3-ubyte.gz").read()
    labels = gzip.open(folder / "t10k-labels-idx1-ubyte.gz").read()
    x = np.frombuffer(pictures, np.uint8, offset=16).reshape(-1, 1, 28, 28).astype(np.float32) / np.float32(255)
    return torch.from_numpy(x), torch.from_numpy(np.frombuffer(labels, np.uint8, offset=8).astype(np.int64))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("mnist", type=pathlib.Path)
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(7)
    make, optimizer_of = NETWORKS[options.network]
    net = make()
    torch.onnx.export(net, torch.zeros(4, 1, 28, 28), str(options.outdir / f"{options.network}.onnx"), opset_version=13,
                      input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "N"}, "y": {0: "N"}})
    x, labels = read_mnist(options.mnist)
    optimizer = optimizer_of(net.parameters())
    held_out, batch = 2000, 64
    count = len(x) - held_out
    losses, right = [], []
    for epoch in range(options.epochs):
        order = shuffled(count, 1, epoch)
        for begin in range(0, count - batch + 1, batch):
            chosen = torch.tensor(order[begin:begin + batch])
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            right.append((net(x[count:]).argmax(1) == labels[count:]).float().mean().item())
    text = json.dumps({"losses": losses[:50], "right": right}, indent=1)
    (options.outdir / f"{options.network}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
