#!/usr/bin/python3
"""Writes the small models that the golden tests use (needs python3-onnx and python3-numpy).

The models are part of the repository; this script says how they were made.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(name, nodes, inputs, outputs, initializers=(), opset=17, ir=8):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="kodama")
    model.ir_version = ir
    with open(os.path.join(OUT, name + ".onnx"), "wb") as file:
        file.write(model.SerializeToString())


def main():
    os.makedirs(OUT, exist_ok=True)
    rng = np.random.default_rng(1)
    weights = numpy_helper.from_array(rng.standard_normal((8, 4)).astype(np.float32), "w")
    linear = [helper.make_node("MatMul", ["x", "w"], ["xw"], name="product"),
              helper.make_node("Relu", ["xw"], ["y"], name="activation")]
    save("linear", linear, [value("x", [2, 8])], [value("y", [2, 4])], [weights])
    save("symbolic", linear, [value("x", ["batch", 8])], [value("y", ["batch", 4])], [weights])
    save("opset18", linear, [value("x", [2, 8])], [value("y", [2, 4])], [weights], opset=18)
    save("unknown_operator", [helper.make_node("Frobnicate", ["x"], ["y"], name="odd one")],
         [value("x", [2, 8])], [value("y", [2, 8])])
    save("host", [helper.make_node("Add", ["i", "i"], ["twice"], name="integer sum"),
                  helper.make_node("Cast", ["twice"], ["f"], name="to float", to=TensorProto.FLOAT),
                  helper.make_node("Mul", ["f", "f"], ["y"], name="square")],
         [value("i", [3], TensorProto.INT64)], [value("y", [3])])
    bad = numpy_helper.from_array(np.array([[1, np.inf], [np.nan, 2]], np.float32), "w")
    save("nan_weights", [helper.make_node("Mul", ["x", "w"], ["y"], name="scale")],
         [value("x", [2, 2])], [value("y", [2, 2])], [bad])
    # Every kind of Rearrange: a window, a border, a transposition, two inputs joined. Generators of their own, so that
    # the models above stay as they are.
    own = np.random.default_rng(2)
    kernel = numpy_helper.from_array(own.standard_normal((4, 2, 3, 3)).astype(np.float32), "k")
    table = numpy_helper.from_array(own.standard_normal((8, 3)).astype(np.float32), "t")
    save("moves", [helper.make_node("Conv", ["x", "k"], ["c"], name="conv", pads=[1, 1, 1, 1]),
                   helper.make_node("MaxPool", ["c"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
                   helper.make_node("Concat", ["p", "p"], ["twice"], name="twice", axis=1),
                   helper.make_node("Transpose", ["twice"], ["last"], name="turn", perm=[0, 2, 3, 1]),
                   helper.make_node("MatMul", ["last", "t"], ["y"], name="product"),
                   helper.make_node("Slice", ["last", "begin", "end"], ["part"], name="part")],
         [value("x", [1, 2, 6, 6])], [value("y", [1, 3, 3, 3]), value("part", [1, 2, 3, 8])],
         [kernel, table, numpy_helper.from_array(np.array([0, 1, 0, 0], np.int64), "begin"),
          numpy_helper.from_array(np.array([1, 3, 3, 8], np.int64), "end")])
    # Outputs whose names make the same file name, or are cut.
    names = ["a/b", "a_b", "long" * 80 + "1", "long" * 80 + "2"]
    save("alike", [helper.make_node(op, ["x"], [name], name=op) for op, name in zip(["Neg", "Abs", "Relu", "Exp"], names)],
         [value("x", [2])], [value(name, [2]) for name in names])
    # Dimensions that --dim makes as large as one likes.
    save("huge", [helper.make_node("MatMul", ["a", "b"], ["y"], name="product")],
         [value("a", ["m", "k"]), value("b", ["k", "n"])], [value("y", ["m", "n"])])
    save("huge_turned",
         [helper.make_node("MatMul", ["a", "b"], ["ab"], name="first"),
          helper.make_node("Transpose", ["ab"], ["ba"], name="turn", perm=[1, 0]),
          helper.make_node("MatMul", ["ba", "c"], ["y"], name="second")],
         [value("a", ["m", 8]), value("b", [8, "n"]), value("c", ["m", 8])], [value("y", ["n", 8])])
    save("huge_host", [helper.make_node("Neg", ["i"], ["y"], name="negative")],
         [value("i", ["n"], TensorProto.INT64)], [value("y", ["n"], TensorProto.INT64)])
    for name, array in (("x.npy", rng.standard_normal((2, 8)).astype(np.float32)),
                        ("x_double.npy", rng.standard_normal((2, 8))),
                        ("x_shape.npy", np.zeros((3, 8), np.float32)),
                        ("ones22.npy", np.ones((2, 2), np.float32)),
                        ("i.npy", np.array([1, -2, 3], np.int64))):
        np.save(os.path.join(OUT, name), array)
    np.savez(os.path.join(OUT, "two.npz"), a=rng.standard_normal((2, 8)).astype(np.float32), b=np.zeros(3, np.float32))


if __name__ == "__main__":
    sys.exit(main())
