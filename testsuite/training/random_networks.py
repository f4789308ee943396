#!/usr/bin/python3
"""Random convolutional networks: each is made a training step and trained for two steps, the first in gfloat, the
second in float, held against the CPU reference, without a word of tuning (Debian: python3-onnx python3-numpy).

usage: testsuite/training/random_networks.py KODAMA [--count N] [--seed S] [--most-macs N] [--steps N] [--small]
                                             [--least-median SHARE] [--chip C] [--keep DIR]

Depth, widths, kernels from 1 to 7, strides, groups, skips, normalization, size of pictures and batch come from the
seed; --most-macs keeps the forward pass below so many multiply-adds. A line for each network, with
cycles and share of peak of the step in gfloat, then medians. Fails if
a result is wrong, a network is refused, or the median share of peak of those above 100 million multiply-adds (in the
forward pass) is below --least-median.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MANY = 100e6
CLASSES = 10


class Network:
    """A network as ONNX nodes, layer by layer; values are [batch, channels, size, size]."""

    def __init__(self, seed, most_macs, is_small):
        self.dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes, self.weights, self.macs, self.text = [], [], 0, []
        self.most_macs = most_macs
        self.batch = self.dice.choice([2, 4] if is_small else [4, 8, 16, 32])
        size = self.dice.choice([5, 6, 8, 9] if is_small else [16, 20, 24, 28, 32, 48, 56])
        self.picture = (self.batch, self.dice.choice([1, 3, 3, 8]), size, size)
        value, channels = "x", self.picture[1]
        depth = self.dice.randint(2, 4 if is_small else 9)
        width = self.dice.choice([4, 6, 8] if is_small else [8, 16, 24, 32, 48, 64, 96])
        for _ in range(depth):
            value, channels, size, width = self.layer(value, channels, size, width)
        pooled = self.node("GlobalAveragePool", [value])
        flat = self.node("Flatten", [pooled])
        self.macs += self.batch * channels * CLASSES
        self.node("Gemm", [flat, self.parameter("fc.weight", (CLASSES, channels), channels),
                           self.parameter("fc.bias", (CLASSES,), channels)], output="y", transB=1)

    def node(self, op, inputs, output=None, **attributes):
        output = output or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def parameter(self, name, shape, fan_in):
        return self.constant(name, self.numbers.normal(0, (2 / fan_in) ** 0.5, shape))

    def convolution(self, value, channels, size, out, kernel, stride, groups, has_bias):
        pad = self.dice.choice([kernel // 2, kernel // 2, kernel // 2, 0])
        if size + 2 * pad < kernel:
            pad = kernel // 2
        made = (size + 2 * pad - kernel) // stride + 1
        fan_in = channels // groups * kernel * kernel
        macs = self.batch * out * made * made * fan_in
        if self.macs + macs > self.most_macs or made < 1:
            return None
        self.macs += macs
        name = f"conv{len(self.nodes)}"
        inputs = [value, self.parameter(name + ".weight", (out, channels // groups, kernel, kernel), fan_in)]
        if has_bias:
            inputs.append(self.constant(name + ".bias", self.numbers.normal(0, 0.1, out)))
        self.text.append(f"{out}" + f"k{kernel}" + (f"s{stride}" if stride > 1 else "") +
                         (f"g{groups}" if groups > 1 else "") + (f"p{pad}" if pad != kernel // 2 else ""))
        made_value = self.node("Conv", inputs, name, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                               pads=[pad] * 4, group=groups)
        return made_value, made

    def normalization(self, value, channels):
        name = f"bn{len(self.nodes)}"
        ones, normal = np.ones(channels), self.numbers.normal(0, 0.1, channels)
        self.text[-1] += "n"
        return self.node("BatchNormalization", [value, self.constant(name + ".weight", ones + normal),
                                                self.constant(name + ".bias", normal),
                                                self.constant(name + ".mean", 0 * ones),
                                                self.constant(name + ".var", ones)], name)

    def layer(self, value, channels, size, width):
        """Perhaps wider, perhaps with a way around it."""
        dice = self.dice
        if dice.random() < 0.3:
            width = min(2 * width, 512)
        kernel = dice.choice([1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 6, 7])
        stride = dice.choice([1, 1, 1, 2]) if size >= 8 else 1
        groups = dice.choice([g for g in (1, 1, 1, 1, 2, 4, channels) if channels % g == 0 and width % g == 0])
        # A normalization takes away what a bias adds, and a single weight's size: their gradients would be nothing but
        # rounding errors.
        normalizes = dice.random() < 0.5 and channels // groups * kernel * kernel > 1
        has_bias = not normalizes and dice.random() < 0.7
        made = self.convolution(value, channels, size, width, kernel, stride, groups, has_bias)
        if made is None:
            return value, channels, size, width
        result, made_size = made
        if normalizes:
            result = self.normalization(result, width)
        if dice.random() < 0.4:
            if (channels, size) == (width, made_size):
                result = self.node("Add", [result, value])
                self.text[-1] += "+"
            elif made_size == (size - 1) // stride + 1 and size % stride == 0:
                around = self.projection(value, channels, size, width, stride)
                if around:
                    result = self.node("Add", [result, around])
                    self.text[-1] += "+"
        result = self.node(dice.choice(["Relu", "Relu", "Relu", "LeakyRelu", "Sigmoid"]), [result])
        if made_size >= 8 and made_size % 2 == 0 and dice.random() < 0.15:
            result = self.node(dice.choice(["MaxPool", "AveragePool"]), [result], kernel_shape=[2, 2], strides=[2, 2])
            made_size //= 2
            self.text[-1] += "/"
        return result, width, made_size, width

    def projection(self, value, channels, size, out, stride):
        macs = self.batch * out * channels * (size // stride) ** 2
        if self.macs + macs > self.most_macs:
            return None
        self.macs += macs
        name = f"around{len(self.nodes)}"
        return self.node("Conv", [value, self.parameter(name + ".weight", (out, channels, 1, 1), channels)], name,
                         kernel_shape=[1, 1], strides=[stride] * 2)

    def model(self):
        graph = helper.make_graph(
            self.nodes, "random", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.picture)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (self.batch, CLASSES))], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(command):
    """Returns what went wrong, in a line; empty: nothing."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode == 0:
        return ""
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.startswith("kodama: ") or
             line.endswith(": FAILED")]
    return f"exit code {done.returncode}: " + (lines[0] if lines else "")[:300]


def next_step(step_file, outputs, target):
    """The step with the state that it has made."""
    model = onnx.load(step_file)
    said = json.loads(next(p.value for p in model.metadata_props if p.key == "kodama.train-step"))
    made = {}
    for tie in said["state"]:
        tensor = onnx.TensorProto()
        tensor.ParseFromString((outputs / (tie["output"].replace("/", "_") + ".pb")).read_bytes())
        made[tie["input"]] = tensor
    for tensor in model.graph.initializer:
        if tensor.name in made:
            name = tensor.name
            tensor.CopyFrom(made[name])
            tensor.name = name
    onnx.save(model, target)


def measure(options, seed, folder):
    network = Network(seed, options.most_macs, options.small)
    model_file, step_file = folder / "model.onnx", folder / "step.onnx"
    onnx.save(network.model(), model_file)
    dice = np.random.default_rng(seed)
    np.save(folder / "x.npy", dice.normal(0, 1, network.picture).astype(np.float32))
    np.save(folder / "labels.npy", dice.integers(0, CLASSES, network.batch))
    begin = time.time()
    wrong = run([options.kodama, "train-step", model_file, "--optimizer", "momentum:lr=0.01", "-o", step_file])
    rows = []
    for step in range(options.steps):
        if wrong:
            break
        np.save(folder / "step.npy", np.array(step))
        outputs = folder / f"outputs{step}"
        # Rounded products turn what is nearly zero before a Relu: gfloat shows gross errors, float all others.
        how = ["--precision", "gfloat", "--tolerance", "0.1"] if step == 0 else ["--precision", "float"]
        wrong = run([options.kodama, "run", step_file, "--chip", options.chip, *how,
                     "--input", f"x={folder}/x.npy", f"labels={folder}/labels.npy", f"step={folder}/step.npy",
                     "--json", folder / "run.json", "--output-dir", outputs])
        if (folder / "run.json").exists():
            total = json.loads((folder / "run.json").read_text())["total"]
            rows.append((total["share_of_peak"], total["cycles"]))
        if not wrong:
            next_step(step_file, outputs, folder / "next.onnx")
            step_file = folder / "next.onnx"
    share, cycles = rows[0] if rows else (0, 0)
    print(f"{seed:6}  {network.macs / 1e6:8.1f}  {cycles:10}  {100 * share:6.1f} %  "
          f"{time.time() - begin:6.0f} s  {network.batch:3} x {network.picture[1]} x {network.picture[2]:2}  "
          f"{' '.join(network.text)}  {wrong or 'ok'}", flush=True)
    return network.macs, share, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kodama")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-macs", type=float, default=400e6)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="small pictures, few channels: for the chip `tiny`")
    parser.add_argument("--least-median", type=float, default=0)
    parser.add_argument("--chip", default="mncore2")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files of networks that fail")
    options = parser.parse_args()
    print(f"{'seed':>6}  {'Mmacs':>8}  {'cycles':>10}  {'of peak':>8}  {'time':>8}  batch, picture; widths k kernel s "
          "stride g groups p padding n normalized + skip / pooled")
    rows = []
    for seed in range(options.seed, options.seed + options.count):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(options, seed, pathlib.Path(folder)))
            if rows[-1][2] and options.keep:
                os.makedirs(options.keep, exist_ok=True)
                subprocess.run(["cp", "-r", folder, options.keep / str(seed)], check=True)
    wrong = [row for row in rows if row[2]]
    print(f"{len(rows)} networks, {len(wrong)} wrong or refused")
    for name, chosen in (("all", rows), ("above 100 M multiply-adds", [row for row in rows if row[0] > MANY])):
        if chosen:
            print(f"median share of peak of {name} ({len(chosen)}): {100 * statistics.median(r[1] for r in chosen):.1f} %")
    large = [row[1] for row in rows if row[0] > MANY]
    if wrong or (large and statistics.median(large) < options.least_median):
        sys.exit(1)


if __name__ == "__main__":
    main()
