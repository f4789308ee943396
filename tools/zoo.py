#!/usr/bin/python3
"""Writes well-known networks as ONNX models with seeded random weights (Debian: python3-onnx python3-numpy).

usage: tools/zoo.py NAME... -o DIR         DIR/NAME.onnx each
       tools/zoo.py NAME -o FILE.onnx
       tools/zoo.py --list                 names, inputs, parameters and multiply-adds
       tools/zoo.py mask_rcnn -o DIR --examples 2

Layers have the published shapes, and graphs look as exporters write them in inference mode: no dropout, and a
BatchNormalization that follows a convolution is folded into it (--keep-batchnorm: it stays a node). Weights are scaled as
He and others do, so that values keep their size through the whole depth: every Value carries an estimate of the mean and
variance of its elements, and a layer's weights are drawn so that its output has variance 1. A weight depends on its name,
shape and the seed only, so that the folded and the kept form are the same function.

mask_rcnn, a detector with the losses it is trained by, is made of torchvision's parts instead (mask_rcnn.py; Debian:
python3-torch python3-torchvision). --examples writes what it reads, DIR/mask_rcnn.INPUT.npy each.
"""
import argparse
import contextlib
import math
import os
import sys
import zlib
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR = 17, 8


class ZooError(Exception):
    """The user asks for what a network has not."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph, with an estimate of the mean and variance of its elements."""
    name: str
    shape: tuple
    mean: float = 0.0
    variance: float = 1.0

    @property
    def power(self):
        return self.mean ** 2 + self.variance


@dataclass(frozen=True)
class Weight:
    """An initializer that is drawn when it is written. What is not trained (statistics) is no parameter."""
    shape: tuple
    draw: object
    trained: bool = True


# Points and weights that integrate over what stands in the channels of a layer: values of variance 1, each channel's
# normally distributed, but half of the channels wider than the others.
NORMAL = np.polynomial.hermite_e.hermegauss(64)
POINTS = np.concatenate([NORMAL[0] * math.sqrt(1.8), NORMAL[0] * math.sqrt(0.2)])
SHARES = np.tile(NORMAL[1] / NORMAL[1].sum() / 2, 2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * np.array([(1 + math.erf(e / math.sqrt(2))) / 2 for e in x])


class Graph:
    """Builds an ONNX graph. Methods that add a layer take the values it reads and return the value it makes; layers with
    weights have a name, the others are named after their operator. Names are within the open scopes."""

    def __init__(self, seed=0, fold=True):
        self.seed, self.fold = seed, fold
        self.nodes, self.inputs, self.outputs = [], [], []
        self.weights, self.constants = {}, {}
        self.multiply_adds = 0
        self.prefix, self.taken = "", set()

    @contextlib.contextmanager
    def scope(self, name):
        outer = self.prefix
        self.prefix += name + "."
        yield
        self.prefix = outer

    # Parts of the graph.

    def input(self, name, shape):
        self.inputs.append(Value(name, tuple(shape)))
        return self.inputs[-1]

    def output(self, value, name="y"):
        """Names the value of the last node as the network's output."""
        self.nodes[-1].output[0] = name
        self.outputs.append(Value(name, value.shape))

    def unique(self, name):
        """A name of a node within the open scopes."""
        name, number = self.prefix + name, 1
        unique = name
        while unique in self.taken:
            unique = f"{name}_{number}"
            number += 1
        self.taken.add(unique)
        return unique

    def node(self, op, inputs, shape, mean, variance, name=None, **attributes):
        name = self.unique(name or op.lower())
        self.nodes.append(helper.make_node(op, [i.name if isinstance(i, Value) else i for i in inputs], [name + ".out"],
                                           name=name, **attributes))
        return Value(name + ".out", tuple(shape), mean, variance)

    def like(self, op, inputs, x, **attributes):
        return self.node(op, inputs, x.shape, x.mean, x.variance, **attributes)

    def weight(self, name, shape, draw, trained=True):
        name = self.prefix + name
        self.weights[name] = Weight(tuple(shape), draw, trained)
        return name

    def normal(self, name, shape, deviation, mean=0.0, trained=True):
        return self.weight(name, shape, lambda rng, of: mean + deviation * rng.standard_normal(of, np.float32), trained)

    def uniform(self, name, shape, low, high, trained=True):
        return self.weight(name, shape, lambda rng, of: low + (high - low) * rng.random(of, np.float32), trained)

    def integers(self, *values):
        return self.constant("integers." + "_".join(map(str, values)), np.array(values, np.int64))

    def scalar(self, value):
        return self.constant(f"scalar.{value:.6g}", np.array(value, np.float32))

    def constant(self, name, array):
        self.constants[name] = array
        return name

    def drawn(self, name, weight):
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        return np.asarray(weight.draw(rng, weight.shape), np.float32)

    @property
    def parameters(self):
        return sum(math.prod(w.shape) for w in self.weights.values() if w.trained)

    def model(self, name, with_weights=True):
        """The ModelProto. Without weights they are inputs: the same graph for those who want its shapes only."""
        def describe(value_name, shape):
            return helper.make_tensor_value_info(value_name, TensorProto.FLOAT, shape)

        initializers = [numpy_helper.from_array(array, key) for key, array in self.constants.items()]
        inputs = [describe(v.name, v.shape) for v in self.inputs]
        if with_weights:
            initializers += [numpy_helper.from_array(self.drawn(*item), item[0]) for item in self.weights.items()]
        else:
            inputs += [describe(key, weight.shape) for key, weight in self.weights.items()]
        graph = helper.make_graph(self.nodes, name, inputs, [describe(v.name, v.shape) for v in self.outputs], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="kodama zoo")
        model.ir_version = IR
        return model

    # Layers with weights.

    def conv(self, x, name, channels, kernel, stride=1, pad=0, group=1, norm=None, eps=1e-5, bias=True,
             deviation=1):
        """A convolution, of square windows or of a pair (rows, columns); with a bias, or followed by the batch
        normalization `norm`. The weights are drawn so that the result has the given deviation."""
        inner, kernel, pad = x.shape[1] // group, pair(kernel), pair(pad)
        fan = math.sqrt(inner * math.prod(kernel) * x.power)
        weight = self.normal(name + ".weight", (channels, inner, *kernel), (1 if norm else deviation) / fan)
        shape = (x.shape[0], channels, *windows(x, kernel, stride, pad))
        self.multiply_adds += math.prod(shape) * inner * math.prod(kernel)
        inputs, variance = [x, weight], 1
        if norm and self.fold:
            inputs[1:], variance = self.folded(weight, norm, eps, deviation), self.NORMALIZED * deviation ** 2
        elif not norm:
            inputs += [self.normal(name + ".bias", (channels,), 0.1 * deviation)] if bias else []
            variance = deviation ** 2
        y = self.node("Conv", inputs, shape, 0, variance, name, kernel_shape=kernel, strides=[stride] * 2, pads=pad * 2,
                      dilations=[1, 1], group=group)
        return self.batch_norm(y, norm, eps, deviation) if norm and not self.fold else y

    def conv_transpose(self, x, name, channels, kernel):
        """A transposed convolution whose windows touch."""
        batch, inner, height, width = x.shape
        weight = self.normal(name + ".weight", (inner, channels, kernel, kernel), 1 / math.sqrt(inner * x.power))
        bias = self.normal(name + ".bias", (channels,), 0.1)
        self.multiply_adds += math.prod(x.shape) * channels * kernel * kernel
        return self.node("ConvTranspose", [x, weight, bias], (batch, channels, height * kernel, width * kernel), 0, 1, name,
                         kernel_shape=[kernel] * 2, strides=[kernel] * 2, pads=[0] * 4, dilations=[1, 1], group=1)

    def statistics(self, name, x, deviation=1):
        """Scale, bias, mean and variance of a batch normalization whose input is about x."""
        channels = (x.shape[1],)
        return [self.uniform(name + ".weight", channels, 0.6 * deviation, 1.4 * deviation),
                self.normal(name + ".bias", channels, 0.2 * deviation),
                self.normal(name + ".running_mean", channels, 0.2 * math.sqrt(x.variance), x.mean, trained=False),
                self.uniform(name + ".running_var", channels, 0.5 * x.variance, 1.5 * x.variance, trained=False)]

    # What the scales and variances above make of a value on average.
    NORMALIZED = 1.2

    def batch_norm(self, x, name, eps=1e-5, deviation=1):
        return self.node("BatchNormalization", [x, *self.statistics(name, x, deviation)], x.shape, 0,
                         self.NORMALIZED * deviation ** 2, name, epsilon=eps)

    def folded(self, weight, norm, eps, deviation):
        """The weight and bias of a convolution that also does what its normalization would."""
        plain = self.weights.pop(weight)
        channels = plain.shape[0]
        parts = [(key, self.weights.pop(key)) for key in self.statistics(norm, Value("", (1, channels)), deviation)]

        def gain_and_bias():
            scale, bias, mean, variance = (self.drawn(key, part) for key, part in parts)
            gain = scale / np.sqrt(variance + eps)
            return gain, bias - mean * gain

        def draw(rng, shape):
            return plain.draw(rng, shape) * gain_and_bias()[0].reshape(-1, 1, 1, 1)

        bias = weight.removesuffix("weight") + "bias"
        self.weights[weight] = Weight(plain.shape, draw)
        self.weights[bias] = Weight((channels,), lambda rng, shape: gain_and_bias()[1])
        return weight, bias

    def linear(self, x, name, width):
        """Of matrices a Gemm; of anything else a product and an addition."""
        inner = x.shape[-1]
        deviation = 1 / math.sqrt(inner * x.power)
        shape = (*x.shape[:-1], width)
        self.multiply_adds += math.prod(shape) * inner
        if len(x.shape) == 2:
            weight = self.normal(name + ".weight", (width, inner), deviation)
            return self.node("Gemm", [x, weight, self.normal(name + ".bias", (width,), 0.1)], shape, 0, 1, name,
                             alpha=1.0, beta=1.0, transB=1)
        weight = self.normal(name + ".weight", (inner, width), deviation)
        product = self.node("MatMul", [x, weight], shape, 0, 1, name)
        return self.like("Add", [product, self.normal(name + ".bias", (width,), 0.1)], product)

    def layer_norm(self, x, name, eps=1e-5):
        width = (x.shape[-1],)
        return self.node("LayerNormalization", [x, self.uniform(name + ".weight", width, 0.6, 1.4),
                                                self.normal(name + ".bias", width, 0.2)],
                         x.shape, 0, 1.1, name, axis=-1, epsilon=eps)

    # Functions of elements.

    def elements(self, op, inputs, x, function, **attributes):
        """A function of every element of x; its moments are integrals over POINTS."""
        values = function(x.mean + math.sqrt(x.variance) * POINTS)
        mean = float(SHARES @ values)
        return self.node(op, inputs, x.shape, mean, float(SHARES @ values ** 2) - mean ** 2, **attributes)

    def relu(self, x):
        return self.elements("Relu", [x], x, lambda v: np.maximum(v, 0))

    def relu6(self, x):
        return self.elements("Clip", [x, self.scalar(0), self.scalar(6)], x, lambda v: np.clip(v, 0, 6))

    def sigmoid(self, x):
        return self.elements("Sigmoid", [x], x, sigmoid)

    def silu(self, x):
        return self.elements("Mul", [x, self.sigmoid(x)], x, lambda v: v * sigmoid(v))

    def gelu(self, x):
        """The exact form, of which operator set 17 has only the parts."""
        erf = self.like("Erf", [self.like("Div", [x, self.scalar(math.sqrt(2))], x)], x)
        product = self.like("Mul", [x, self.like("Add", [erf, self.scalar(1)], x)], x)
        return self.elements("Mul", [product, self.scalar(0.5)], x, gelu)

    def add(self, a, b):
        return self.node("Add", [a, b], np.broadcast_shapes(a.shape, b.shape), a.mean + b.mean, a.variance + b.variance)

    def mul(self, a, b):
        mean = a.mean * b.mean
        return self.node("Mul", [a, b], np.broadcast_shapes(a.shape, b.shape), mean, a.power * b.power - mean ** 2)

    # Pooling; how much it takes off the variance is a guess, for neighbours are alike.

    def max_pool(self, x, kernel, stride, pad=0, ceil=False):
        shape = (*x.shape[:2], *windows(x, kernel, stride, pad, ceil))
        return self.node("MaxPool", [x], shape, x.mean + 0.8 * math.sqrt(x.variance), 0.6 * x.variance,
                         kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, ceil_mode=int(ceil))

    def average_pool(self, x, kernel, stride=None, pad=0):
        """What is padded counts, as zeros."""
        stride = stride or kernel
        return self.node("AveragePool", [x], (*x.shape[:2], *windows(x, kernel, stride, pad)), x.mean, 0.5 * x.variance,
                         kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                         **({"count_include_pad": 1} if pad else {}))

    def average_to(self, x, side):
        """Adaptive pooling, where it is pooling."""
        height, width = x.shape[2:]
        if height != width or height % side:
            raise ZooError(f"the features are {height} x {width}, but the classifier takes multiples of {side} x {side}: "
                           "another --size")
        return x if height == side else self.average_pool(x, height // side)

    def global_average(self, x):
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1), x.mean, 0.6 * x.variance)

    # Changes of shape.

    def flatten(self, x):
        return self.node("Flatten", [x], (x.shape[0], math.prod(x.shape[1:])), x.mean, x.variance, axis=1)

    def reshape(self, x, *shape):
        return self.node("Reshape", [x, self.integers(*shape)], shape, x.mean, x.variance)

    def transpose(self, x, *axes):
        return self.node("Transpose", [x], [x.shape[a] for a in axes], x.mean, x.variance, perm=axes)

    def concat(self, parts, axis=1):
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        mean, power = (sum(f * p.shape[axis] for f, p in zip(of, parts)) / shape[axis]
                       for of in ([p.mean for p in parts], [p.power for p in parts]))
        return self.node("Concat", parts, shape, mean, power - mean ** 2, axis=axis)

    def split_last(self, x, count):
        """Equal parts of the last axis."""
        width = x.shape[-1] // count
        name = self.unique("split")
        parts = [Value(f"{name}.out{i}", (*x.shape[:-1], width), x.mean, x.variance) for i in range(count)]
        self.nodes.append(helper.make_node("Split", [x.name, self.integers(*[width] * count)], [p.name for p in parts],
                                           name=name, axis=-1))
        return parts

    def upsample(self, x, factor):
        """Every element `factor` times in both directions."""
        scales = self.constant(f"scales.{factor}", np.array([1, 1, factor, factor], np.float32))
        return self.node("Resize", [x, "", scales], (*x.shape[:2], *(n * factor for n in x.shape[2:])), x.mean, x.variance,
                         mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    # What several networks have.

    def matmul(self, a, b, mean, variance):
        shape = (*a.shape[:-1], b.shape[-1])
        self.multiply_adds += math.prod(shape) * a.shape[-1]
        return self.node("MatMul", [a, b], shape, mean, variance)

    def attention(self, x, heads):
        """Self-attention of a (batch, length, width) with one product for queries, keys and values."""
        batch, length, width = x.shape
        inner = width // heads
        query, key, value = (self.reshape(part, batch, length, heads, inner)
                             for part in self.split_last(self.linear(x, "in_proj", 3 * width), 3))
        query = self.transpose(query, 0, 2, 1, 3)
        query = self.like("Mul", [query, self.scalar(1 / math.sqrt(inner))], query)
        weights = self.matmul(query, self.transpose(key, 0, 2, 3, 1), 0, 1)
        weights = self.node("Softmax", [weights], weights.shape, 1 / length, math.e / length ** 2, axis=-1)
        # Averages of independent values would be smaller, but the positions become alike with the depth.
        mixed = self.matmul(weights, self.transpose(value, 0, 2, 1, 3), 0, min(1, 0.25 + math.e / length))
        return self.linear(self.reshape(self.transpose(mixed, 0, 2, 1, 3), batch, length, width), "out_proj", width)

    def encoder_layer(self, x, heads, hidden, eps=1e-5):
        """A layer of a transformer, with normalization first."""
        with self.scope("self_attn"):
            x = self.add(x, self.attention(self.layer_norm(x, "norm", eps), heads))
        y = self.gelu(self.linear(self.layer_norm(x, "norm2", eps), "linear1", hidden))
        return self.add(x, self.linear(y, "linear2", x.shape[-1]))


def pair(size):
    """Of rows and columns, if one number says both."""
    return list(size) if isinstance(size, (tuple, list)) else [size] * 2


def windows(x, kernel, stride, pad, ceil=False):
    """Height and width of what a convolution or pooling makes of x."""
    def along(extent, kernel, pad):
        room = extent + 2 * pad - kernel
        if room < 0:
            raise ZooError(f"the input is too small: a window of {rows} x {columns} over {x.shape[2]} x {x.shape[3]}")
        count = (room + (stride - 1 if ceil else 0)) // stride + 1
        # No window begins beyond what is there.
        return count - 1 if ceil and (count - 1) * stride >= extent + pad else count

    rows, columns = pair(kernel)
    return [along(*of) for of in zip(x.shape[2:], (rows, columns), pair(pad))]


# Networks: every function gets a graph and the input, and returns the output.


def resnet(g, x, layers, bottleneck):
    def block(x, channels, stride):
        out = 4 * channels if bottleneck else channels
        if bottleneck:
            y = g.relu(g.conv(x, "conv1", channels, 1, norm="bn1"))
            y = g.relu(g.conv(y, "conv2", channels, 3, stride, 1, norm="bn2"))
            y = g.conv(y, "conv3", out, 1, norm="bn3")
        else:
            y = g.relu(g.conv(x, "conv1", channels, 3, stride, 1, norm="bn1"))
            y = g.conv(y, "conv2", channels, 3, 1, 1, norm="bn2")
        if stride != 1 or x.shape[1] != out:
            x = g.conv(x, "downsample.0", out, 1, stride, norm="downsample.1")
        return g.relu(g.add(y, x))

    x = g.max_pool(g.relu(g.conv(x, "conv1", 64, 7, 2, 3, norm="bn1")), 3, 2, 1)
    for stage, count in enumerate(layers):
        for i in range(count):
            with g.scope(f"layer{stage + 1}.{i}"):
                x = block(x, 64 << stage, 2 if stage and not i else 1)
    return g.linear(g.flatten(g.global_average(x)), "fc", 1000)


def mobilenet_v2(g, x):
    def unit(x, name, channels, kernel, stride=1, group=1):
        return g.relu6(g.conv(x, name + ".0", channels, kernel, stride, kernel // 2, group, name + ".1"))

    def block(x, expansion, channels, stride):
        y, wide, i = x, x.shape[1] * expansion, 0
        if expansion != 1:
            y, i = unit(y, "conv.0", wide, 1), 1
        y = unit(y, f"conv.{i}", wide, 3, stride, wide)
        y = g.conv(y, f"conv.{i + 1}", channels, 1, norm=f"conv.{i + 2}")
        return g.add(x, y) if stride == 1 and x.shape[1] == channels else y

    x, number = unit(x, "features.0", 32, 3, 2), 1
    for expansion, channels, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                               (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            with g.scope(f"features.{number}"):
                x = block(x, expansion, channels, 1 if i else stride)
            number += 1
    x = unit(x, f"features.{number}", 1280, 1)
    return g.linear(g.flatten(g.global_average(x)), "classifier.1", 1000)


def efficientnet_b0(g, x):
    def unit(x, name, channels, kernel, stride=1, group=1):
        # Where SiLU is bent it takes more from small values than from large ones, and a network of many would run away to
        # one side; of a deviation of 3 most is where it is straight.
        return g.silu(g.conv(x, name + ".0", channels, kernel, stride, kernel // 2, group, name + ".1", deviation=3))

    def block(x, expansion, kernel, stride, channels):
        y, wide, i = x, x.shape[1] * expansion, 0
        if expansion != 1:
            y, i = unit(y, "block.0", wide, 1), 1
        y = unit(y, f"block.{i}", wide, kernel, stride, wide)
        with g.scope(f"block.{i + 1}"):
            gate = g.silu(g.conv(g.global_average(y), "fc1", x.shape[1] // 4, 1))
            # Gates near one half: the larger values are, the wider gates open, and what opens wide makes them larger.
            y = g.mul(g.sigmoid(g.conv(gate, "fc2", wide, 1, deviation=0.25)), y)
        y = g.conv(y, f"block.{i + 2}.0", channels, 1, norm=f"block.{i + 2}.1")
        return g.add(y, x) if stride == 1 and x.shape[1] == channels else y

    x = unit(x, "features.0", 32, 3, 2)
    stages = ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
              (6, 3, 1, 320, 1))
    for stage, (expansion, kernel, stride, channels, count) in enumerate(stages):
        for i in range(count):
            with g.scope(f"features.{stage + 1}.{i}"):
                x = block(x, expansion, kernel, 1 if i else stride, channels)
    x = unit(x, "features.8", 1280, 1)
    return g.linear(g.flatten(g.global_average(x)), "classifier.1", 1000)


def squeezenet1_1(g, x):
    def fire(x, squeezed, expanded):
        x = g.relu(g.conv(x, "squeeze", squeezed, 1))
        return g.concat([g.relu(g.conv(x, "expand1x1", expanded, 1)), g.relu(g.conv(x, "expand3x3", expanded, 3, pad=1))])

    x = g.relu(g.conv(x, "features.0", 64, 3, 2))
    for number, squeezed, expanded in ((3, 16, 64), (4, 16, 64), (6, 32, 128), (7, 32, 128), (9, 48, 192), (10, 48, 192),
                                       (11, 64, 256), (12, 64, 256)):
        if number in (3, 6, 9):
            x = g.max_pool(x, 3, 2, ceil=True)
        with g.scope(f"features.{number}"):
            x = fire(x, squeezed, expanded)
    return g.flatten(g.global_average(g.relu(g.conv(x, "classifier.1", 1000, 1))))


def classifier(g, x, numbers):
    """The dense layers of AlexNet and VGG."""
    x = g.flatten(x)
    for number in numbers:
        x = g.relu(g.linear(x, f"classifier.{number}", 4096))
    return g.linear(x, "classifier.6", 1000)


def vgg11(g, x):
    number = 0
    for channels, pool in ((64, True), (128, True), (256, False), (256, True), (512, False), (512, True), (512, False),
                           (512, True)):
        x = g.relu(g.conv(x, f"features.{number}", channels, 3, pad=1))
        number += 2
        if pool:
            x = g.max_pool(x, 2, 2)
            number += 1
    return classifier(g, g.average_to(x, 7), (0, 3))


def alexnet(g, x):
    x = g.max_pool(g.relu(g.conv(x, "features.0", 64, 11, 4, 2)), 3, 2)
    x = g.max_pool(g.relu(g.conv(x, "features.3", 192, 5, pad=2)), 3, 2)
    for number, channels in ((6, 384), (8, 256), (10, 256)):
        x = g.relu(g.conv(x, f"features.{number}", channels, 3, pad=1))
    return classifier(g, g.average_to(g.max_pool(x, 3, 2), 6), (1, 4))


def googlenet(g, x):
    """Without the auxiliary classifiers; as in torchvision, the third branch's windows are 3 x 3."""
    def unit(x, name, channels, kernel, stride=1):
        return g.relu(g.conv(x, name + ".conv", channels, kernel, stride, kernel // 2, norm=name + ".bn", eps=1e-3))

    def inception(x, one, three_in, three, five_in, five, pool):
        return g.concat([unit(x, "branch1", one, 1),
                         unit(unit(x, "branch2.0", three_in, 1), "branch2.1", three, 3),
                         unit(unit(x, "branch3.0", five_in, 1), "branch3.1", five, 3),
                         unit(g.max_pool(x, 3, 1, 1, ceil=True), "branch4.1", pool, 1)])

    x = g.max_pool(unit(x, "conv1", 64, 7, 2), 3, 2, ceil=True)
    x = g.max_pool(unit(unit(x, "conv2", 64, 1), "conv3", 192, 3), 3, 2, ceil=True)
    for name, *widths in (("3a", 64, 96, 128, 16, 32, 32), ("3b", 128, 128, 192, 32, 96, 64),
                          ("4a", 192, 96, 208, 16, 48, 64), ("4b", 160, 112, 224, 24, 64, 64),
                          ("4c", 128, 128, 256, 24, 64, 64), ("4d", 112, 144, 288, 32, 64, 64),
                          ("4e", 256, 160, 320, 32, 128, 128), ("5a", 256, 160, 320, 32, 128, 128),
                          ("5b", 384, 192, 384, 48, 128, 128)):
        with g.scope(f"inception{name}"):
            x = inception(x, *widths)
        if name in ("3b", "4e"):
            x = g.max_pool(x, 3 if name == "3b" else 2, 2, ceil=True)
    return g.linear(g.flatten(g.global_average(x)), "fc", 1000)


def inception_v3(g, x):
    """Without the auxiliary classifier."""
    def unit(x, name, channels, kernel, stride=1, pad=0):
        return g.relu(g.conv(x, name + ".conv", channels, kernel, stride, pad, norm=name + ".bn", eps=1e-3))

    def chain(x, *units):
        for name, channels, kernel in units:
            x = unit(x, name, channels, kernel, pad=[k // 2 for k in pair(kernel)])
        return x

    def averages(x, channels):
        return unit(g.average_pool(x, 3, 1, 1), "branch_pool", channels, 1)

    def inception_a(x, pooled):
        return g.concat([unit(x, "branch1x1", 64, 1), chain(x, ("branch5x5_1", 48, 1), ("branch5x5_2", 64, 5)),
                         chain(x, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3), ("branch3x3dbl_3", 96, 3)),
                         averages(x, pooled)])

    def inception_b(x):
        double = chain(x, ("branch3x3dbl_1", 64, 1), ("branch3x3dbl_2", 96, 3))
        return g.concat([unit(x, "branch3x3", 384, 3, 2), unit(double, "branch3x3dbl_3", 96, 3, 2), g.max_pool(x, 3, 2)])

    def inception_c(x, inner):
        rows, columns = (7, 1), (1, 7)
        return g.concat([unit(x, "branch1x1", 192, 1),
                         chain(x, ("branch7x7_1", inner, 1), ("branch7x7_2", inner, columns), ("branch7x7_3", 192, rows)),
                         chain(x, ("branch7x7dbl_1", inner, 1), ("branch7x7dbl_2", inner, rows),
                               ("branch7x7dbl_3", inner, columns), ("branch7x7dbl_4", inner, rows),
                               ("branch7x7dbl_5", 192, columns)),
                         averages(x, 192)])

    def inception_d(x):
        seven = chain(x, ("branch7x7x3_1", 192, 1), ("branch7x7x3_2", 192, (1, 7)), ("branch7x7x3_3", 192, (7, 1)))
        return g.concat([unit(unit(x, "branch3x3_1", 192, 1), "branch3x3_2", 320, 3, 2),
                         unit(seven, "branch7x7x3_4", 192, 3, 2), g.max_pool(x, 3, 2)])

    def inception_e(x):
        def both(x, name):
            return [chain(x, (name + "a", 384, (1, 3))), chain(x, (name + "b", 384, (3, 1)))]

        double = chain(x, ("branch3x3dbl_1", 448, 1), ("branch3x3dbl_2", 384, 3))
        return g.concat([unit(x, "branch1x1", 320, 1), *both(unit(x, "branch3x3_1", 384, 1), "branch3x3_2"),
                         *both(double, "branch3x3dbl_3"), averages(x, 192)])

    x = unit(unit(unit(x, "Conv2d_1a_3x3", 32, 3, 2), "Conv2d_2a_3x3", 32, 3), "Conv2d_2b_3x3", 64, 3, pad=1)
    x = g.max_pool(x, 3, 2)
    x = g.max_pool(unit(unit(x, "Conv2d_3b_1x1", 80, 1), "Conv2d_4a_3x3", 192, 3), 3, 2)
    for name, build, *widths in (("5b", inception_a, 32), ("5c", inception_a, 64), ("5d", inception_a, 64),
                                 ("6a", inception_b), ("6b", inception_c, 128), ("6c", inception_c, 160),
                                 ("6d", inception_c, 160), ("6e", inception_c, 192), ("7a", inception_d),
                                 ("7b", inception_e), ("7c", inception_e)):
        with g.scope(f"Mixed_{name}"):
            x = build(x, *widths)
    return g.linear(g.flatten(g.global_average(x)), "fc", 1000)


def convnext_tiny(g, x):
    def last(x):
        return g.transpose(x, 0, 2, 3, 1)

    def first(x):
        return g.transpose(x, 0, 3, 1, 2)

    def block(x):
        channels = x.shape[1]
        y = g.layer_norm(last(g.conv(x, "block.0", channels, 7, pad=3, group=channels)), "block.2", 1e-6)
        y = first(g.linear(g.gelu(g.linear(y, "block.3", 4 * channels)), "block.5", channels))
        scale = Value(g.uniform("layer_scale", (channels, 1, 1), 0.2, 0.6), (channels, 1, 1), 0.4, 0.013)
        return g.add(x, g.mul(y, scale))

    x = first(g.layer_norm(last(g.conv(x, "features.0.0", 96, 4, 4)), "features.0.1", 1e-6))
    for stage, (channels, count) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if stage:
            with g.scope(f"features.{2 * stage}"):
                x = g.conv(first(g.layer_norm(last(x), "0", 1e-6)), "1", channels, 2, 2)
        for i in range(count):
            with g.scope(f"features.{2 * stage + 1}.{i}"):
                x = block(x)
    x = g.layer_norm(g.flatten(g.global_average(x)), "classifier.0", 1e-6)
    return g.linear(x, "classifier.2", 1000)


def densenet121(g, x):
    x = g.max_pool(g.relu(g.conv(x, "features.conv0", 64, 7, 2, 3, norm="features.norm0")), 3, 2, 1)
    for block, count in enumerate((6, 12, 24, 16), 1):
        for layer in range(1, count + 1):
            with g.scope(f"features.denseblock{block}.denselayer{layer}"):
                y = g.relu(g.batch_norm(x, "norm1"))
                y = g.relu(g.conv(y, "conv1", 128, 1, norm="norm2"))
                x = g.concat([x, g.conv(y, "conv2", 32, 3, pad=1, bias=False)])
        if block < 4:
            with g.scope(f"features.transition{block}"):
                x = g.conv(g.relu(g.batch_norm(x, "norm")), "conv", x.shape[1] // 2, 1, bias=False)
                x = g.average_pool(x, 2)
    x = g.relu(g.batch_norm(x, "features.norm5"))
    return g.linear(g.flatten(g.global_average(x)), "classifier", 1000)


def unet(g, x):
    """A small one: two levels, one way up by a transposed convolution and one by repeating elements."""
    def unit(x, name, channels):
        return g.relu(g.conv(x, name + ".0", channels, 3, pad=1, norm=name + ".1"))

    if x.shape[2] % 4:
        raise ZooError(f"--size {x.shape[2]}: must be a multiple of 4")
    first = unit(x, "down1", 16)
    second = unit(g.max_pool(first, 2, 2), "down2", 32)
    x = unit(g.max_pool(second, 2, 2), "middle", 32)
    x = unit(g.concat([g.conv_transpose(x, "up1", 32, 2), second]), "conv1", 16)
    x = unit(g.concat([g.upsample(x, 2), first]), "conv2", 16)
    return g.conv(x, "out", 2, 1)


def vit_b16(g, x):
    batch, _, side, _ = x.shape
    if side % 16:
        raise ZooError(f"--size {side}: must be a multiple of 16")
    width, patches = 768, (side // 16) ** 2
    x = g.conv(x, "conv_proj", width, 16, 16)
    x = g.transpose(g.reshape(x, batch, width, patches), 0, 2, 1)
    token = Value(g.normal("class_token", (1, 1, width), 1), (1, 1, width))
    if batch != 1:
        token = g.node("Expand", [token, g.integers(batch, 1, width)], (batch, 1, width), 0, 1)
    x = g.concat([token, x])
    x = g.add(x, Value(g.normal("encoder.pos_embedding", (1, patches + 1, width), 0.3), (1, patches + 1, width), 0, 0.09))
    for i in range(12):
        with g.scope(f"encoder.layers.encoder_layer_{i}"):
            x = g.encoder_layer(x, 12, 3072, 1e-6)
    x = g.layer_norm(x, "encoder.ln", 1e-6)
    first = g.node("Gather", [x, g.constant("integer.0", np.array(0, np.int64))], (batch, width), x.mean, x.variance, axis=1)
    return g.linear(first, "heads.head", 1000)


def encoder(g, x, heads, layers):
    for i in range(layers):
        with g.scope(f"layers.{i}"):
            x = g.encoder_layer(x, heads, 4 * x.shape[-1])
    return x


def lenet(g, x):
    x = g.max_pool(g.relu(g.conv(x, "c1", 6, 5, pad=2)), 2, 2)
    x = g.flatten(g.max_pool(g.relu(g.conv(x, "c2", 16, 5)), 2, 2))
    x = g.relu(g.linear(g.relu(g.linear(x, "f1", 120)), "f2", 84))
    x = g.linear(x, "f3", 10)
    return g.node("Softmax", [x], x.shape, 0.1, 0.01, axis=-1)


def mnist_cnn(g, x):
    """The layers of the ONNX model zoo's mnist-8."""
    x = g.max_pool(g.relu(g.conv(x, "c1", 8, 5, pad=2)), 2, 2)
    x = g.max_pool(g.relu(g.conv(x, "c2", 16, 5, pad=2)), 3, 3)
    return g.linear(g.flatten(x), "f", 10)


def mlp(g, x):
    return g.linear(g.relu(g.linear(g.relu(g.linear(x, "f1", 128)), "f2", 64)), "f3", 10)


@dataclass(frozen=True)
class Network:
    """What builds it, the shape of its input with the usual batch, and whether --size may change the picture's side."""
    build: object
    input: tuple
    any_size: bool = False


class Exported:
    """What PyTorch exports, with the parts of a Graph that writing and listing want."""

    def __init__(self, module, batch):
        self.module = module
        self.values = module.example(batch)
        self.inputs = [Value(name, tuple(value.shape)) for name, value in self.values.items()]

    @property
    def parameters(self):
        return sum(p.numel() for p in self.module.parameters())

    @property
    def multiply_adds(self):
        return self.module.multiply_adds(self.values)

    def model(self, _):
        return self.module.export(self.values)


def mask_rcnn(batch, size, seed):
    try:
        import mask_rcnn as detector
    except ImportError as error:
        raise ZooError(f"{error} (packages python3-torch and python3-torchvision)") from None
    if size % 32 or not 64 <= size <= 512:
        raise ZooError("the pyramid takes pictures of 64, 96, ... 512 pixels")
    return Exported(detector.make(seed, size=size), batch)


def picture(build, side=224):
    return Network(build, (1, 3, side, side), True)


NETWORKS = {
    "alexnet": picture(alexnet),
    "convnext_tiny": picture(convnext_tiny),
    "densenet121": picture(densenet121),
    "efficientnet_b0": picture(efficientnet_b0),
    "encoder": Network(lambda g, x: encoder(g, x, 8, 4), (2, 64, 256)),
    "encoder_base": Network(lambda g, x: encoder(g, x, 12, 12), (1, 197, 768)),
    "googlenet": picture(googlenet),
    "inception_v3": picture(inception_v3, 299),
    "lenet": Network(lenet, (1, 1, 28, 28)),
    "mlp": Network(mlp, (1, 784)),
    "mnist_cnn": Network(mnist_cnn, (1, 1, 28, 28)),
    "mobilenet_v2": picture(mobilenet_v2),
    "resnet18": picture(lambda g, x: resnet(g, x, (2, 2, 2, 2), False)),
    "resnet34": picture(lambda g, x: resnet(g, x, (3, 4, 6, 3), False)),
    "resnet50": picture(lambda g, x: resnet(g, x, (3, 4, 6, 3), True)),
    "squeezenet1_1": picture(squeezenet1_1),
    "unet": picture(unet, 64),
    "vgg11": picture(vgg11),
    "vit_b16": picture(vit_b16),
}


# Networks that are written in PyTorch: functions of batch, size and seed, and the usual size.
EXPORTED = {"mask_rcnn": (mask_rcnn, 128)}


def build(name, batch=None, size=None, seed=0, fold=True):
    """The graph of a network. Weights aren't drawn before they are written."""
    if name in EXPORTED:
        make, usual = EXPORTED[name]
        try:
            return make(batch or 1, size or usual, seed)
        except ZooError as error:
            raise ZooError(f"{name}: {error}") from None
    if name not in NETWORKS:
        raise ZooError(f"there is no network {name}; there are {', '.join([*NETWORKS, *EXPORTED])}")
    network = NETWORKS[name]
    shape = (batch or network.input[0], *network.input[1:])
    if size is not None:
        if not network.any_size:
            raise ZooError(f"{name}: --size is for networks of pictures of any size")
        shape = (*shape[:2], size, size)
    graph = Graph(seed, fold)
    try:
        graph.output(network.build(graph, graph.input("x", shape)))
    except ZooError as error:
        raise ZooError(f"{name}: {error}") from None
    return graph


def write(model, path):
    """What is there keeps its contents until all of the new is written."""
    with open(path + ".new", "wb") as file:
        file.write(model.SerializeToString())
    os.replace(path + ".new", path)
    print("wrote", path, file=sys.stderr)


def write_examples(graph, count, seed, path):
    """Values of every input, as PATH.INPUT.npy."""
    for name, value in graph.module.example(count, seed).items():
        with open(f"{path}.{name}.npy.new", "wb") as file:
            np.save(file, value.numpy())
        os.replace(f"{path}.{name}.npy.new", f"{path}.{name}.npy")
        print(f"wrote {path}.{name}.npy", file=sys.stderr)


def show_list(options):
    print(f"{'name':16}{'input':>18}{'parameters':>14}{'multiply-adds':>16}")
    for name in options.names or [*NETWORKS, *EXPORTED]:
        graph = build(name, options.batch, options.size, fold=False)
        shape = "x".join(map(str, graph.inputs[0].shape))
        print(f"{name:16}{shape:>18}{graph.parameters:14,}{graph.multiply_adds:16,}")


def positive(text):
    if not text.isdecimal() or not 1 <= int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {1 << 20}")
    return int(text)


def seed_number(text):
    if not text.isdecimal() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 0 to 2^64 - 1")
    return int(text)


def main():
    parser = argparse.ArgumentParser(prog="zoo.py", description="Writes well-known networks as ONNX models with seeded "
                                     f"random weights. Networks: {', '.join([*NETWORKS, *EXPORTED])}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a network")
    parser.add_argument("-o", dest="out", metavar="PATH", help="a directory, or for one network a file with the ending .onnx")
    parser.add_argument("--list", action="store_true", help="print inputs, parameters and multiply-adds, write nothing")
    parser.add_argument("--batch", type=positive, help="default 1, for encoder 2")
    parser.add_argument("--size", type=positive, help="height and width of pictures; default 224, for unet 64, mask_rcnn 128")
    parser.add_argument("--examples", type=positive, metavar="N",
                        help=f"also write N examples of every input, DIR/NAME.INPUT.npy: of {', '.join(EXPORTED)}, whose inputs "
                        "aren't just pictures")
    parser.add_argument("--seed", type=seed_number, default=0, help="of the weights; default 0")
    norm = parser.add_mutually_exclusive_group()
    norm.add_argument("--fold-batchnorm", dest="fold", action="store_true", default=True,
                      help="fold normalizations into the convolutions before them (default)")
    norm.add_argument("--keep-batchnorm", dest="fold", action="store_false", help="keep every normalization a node")
    options = parser.parse_args()
    if not options.list and not (options.names and options.out):
        parser.error("NAME... and -o are required, or --list")
    if options.examples and not set(options.names) <= set(EXPORTED):
        parser.error(f"--examples: of {', '.join(EXPORTED)} only")
    to_file = bool(options.out) and options.out.endswith(".onnx")
    if to_file and len(options.names) != 1:
        parser.error(f"-o {options.out}: a file for one network; for several give a directory")
    try:
        if options.list:
            return show_list(options)
        graphs = {name: build(name, options.batch, options.size, options.seed, options.fold) for name in options.names}
        if not to_file:
            os.makedirs(options.out, exist_ok=True)
        for name, graph in graphs.items():
            path = options.out if to_file else os.path.join(options.out, name + ".onnx")
            write(graph.model(name), path)
            if options.examples:
                write_examples(graph, options.examples, options.seed, path.removesuffix(".onnx"))
    except (ZooError, OSError) as error:
        print(f"zoo.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
