#!/usr/bin/python3
"""Trains small networks on the chip `tiny` until they are right about pictures that they haven't seen (Debian:
python3-onnx python3-numpy).

usage: testsuite/training/small_training.py KODAMA WORKDIR digits
       testsuite/training/small_training.py KODAMA WORKDIR mnist MNIST_DIR

digits: 240 pictures of 8 x 8 that a seed makes of ten glyphs, a convolutional network, Adam. mnist: an MLP on pictures
of MNIST's test set, momentum; exits with 77 where they aren't.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GLYPHS = """
.###. ..#.. .###. ####. #..#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# #..#. #.... #.... ....# #...# #...#
#...# ..#.. ...#. .###. ##### ####. ####. ...#. .###. .####
#...# ..#.. ..#.. ....# ...#. ....# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. ####. .###. .#... .###. .###.
""".split()
CLASSES, SIZE = 10, 8


def digits(count, seed):
    """Glyphs of five by five at random places, lighter or darker, in noise."""
    numbers = np.random.default_rng(seed)
    shapes = np.array([[[c == "#" for c in GLYPHS[row * CLASSES + k]] for row in range(5)] for k in range(CLASSES)])
    labels = numbers.permutation(np.arange(count) % CLASSES)
    x = numbers.normal(0, 0.15, (count, 1, SIZE, SIZE))
    for n, label in enumerate(labels):
        top, left = numbers.integers(1, 3, 2)
        x[n, 0, top:top + 5, left:left + 5] += shapes[label] * numbers.uniform(0.7, 1.3)
    return x.astype(np.float32), labels


class Network:
    def __init__(self, seed):
        self.numbers, self.weights, self.nodes = np.random.default_rng(seed), [], []

    def weight(self, name, shape, fan_in):
        array = self.numbers.normal(0, (2 / fan_in) ** 0.5, shape) if fan_in else np.zeros(shape)
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))

    def save(self, path, picture):
        graph = helper.make_graph(
            self.nodes, path.stem, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *picture])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def convolutional(path):
    net = Network(2)
    net.add("Conv", ["x", net.weight("c", (8, 1, 3, 3), 9), net.weight("cb", (8,), 0)], "conv", pads=[1] * 4)
    net.add("Relu", ["conv"], "relu")
    net.add("MaxPool", ["relu"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Flatten", ["pool"], "flat")
    net.add("Gemm", ["flat", net.weight("w", (128, CLASSES), 128), net.weight("b", (CLASSES,), 0)], "y")
    net.save(path, (1, SIZE, SIZE))


def mlp(path, hidden):
    net = Network(3)
    net.add("AveragePool", ["x"], "small", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Flatten", ["small"], "flat")
    net.add("Gemm", ["flat", net.weight("w1", (196, hidden), 196), net.weight("b1", (hidden,), 0)], "h")
    net.add("Relu", ["h"], "r")
    net.add("Gemm", ["r", net.weight("w2", (hidden, CLASSES), hidden), net.weight("b2", (CLASSES,), 0)], "y")
    net.save(path, (1, 28, 28))


def train(kodama, work, model, data, least, *options):
    begin = time.time()
    done = subprocess.run([kodama, "train", model, "--data", *data, "--chip", "tiny", *options], cwd=work,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    print(done.stdout, end="")
    right = float(re.findall(r"held out: ([\d.]+) %", done.stdout)[-1])
    print(f"{right} % right, {least} % are wanted; {time.time() - begin:.1f} s")
    if right < least:
        sys.exit(1)


def main():
    kodama, work, what = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    work.mkdir(parents=True, exist_ok=True)
    if what == "digits":
        x, labels = digits(240, 1)
        np.save(work / "x.npy", x)
        np.save(work / "labels.npy", labels)
        convolutional(work / "digits.onnx")
        train(kodama, work, "digits.onnx", ["x.npy", "labels.npy"], 90, "--batch", "20", "--held-out", "40",
              "--epochs", "6", "--optimizer", "adam:lr=0.02")
        return
    folder = os.path.abspath(sys.argv[4])
    if not os.path.exists(os.path.join(folder, "t10k-images-idx3-ubyte.gz")):
        print(f"skipped: no {folder}")
        sys.exit(77)
    mlp(work / "mnist.onnx", 24)
    train(kodama, work, "mnist.onnx", [f"mnist:{folder}"], 80, "--batch", "32", "--held-out", "500", "--steps", "290",
          "--optimizer", "momentum:lr=0.1")


if __name__ == "__main__":
    main()
