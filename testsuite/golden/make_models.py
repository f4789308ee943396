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


def save(name, nodes, inputs, outputs, initializers=(), opset=17, ir=8, domains=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    model = helper.make_model(graph, opset_imports=imports, producer_name="kodama")
    model.ir_version = ir
    with open(os.path.join(OUT, name + ".onnx"), "wb") as file:
        file.write(model.SerializeToString())


def external(name, dims, **entries):
    """An initializer whose data are in another file."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=str(text))
    return tensor


def wrong_models():
    """Models in folder wrong, each with one thing that isn't right."""
    os.makedirs(os.path.join(OUT, "wrong"), exist_ok=True)
    x, y = value("x", [2, 3]), value("y", [2, 3])
    node = helper.make_node

    def wrong(name, nodes, initializers=(), inputs=(x,), **how):
        save("wrong/" + name, nodes, list(inputs), [y], initializers, **how)

    wrong("cycle", [node("Add", ["x", "b"], ["a"], name="first"), node("Neg", ["a"], ["b"], name="second"),
                    node("Relu", ["b"], ["y"], name="third")])
    wrong("unsorted", [node("Relu", ["a"], ["y"], name="last"), node("Neg", ["x"], ["a"], name="first")])
    wrong("nobody_makes", [node("Add", ["x", "z"], ["y"], name="sum")])
    wrong("made_twice", [node("Neg", ["x"], ["a"], name="one"), node("Abs", ["x"], ["a"], name="other"),
                         node("Relu", ["a"], ["y"], name="third")])
    wrong("attribute_type", [node("Softmax", ["x"], ["y"], name="soft", axis="last")])
    wrong("attribute_unknown", [node("Softmax", ["x"], ["y"], name="soft", axes=1)])
    wrong("shapes", [node("Add", ["x", "w"], ["y"], name="sum")],
          [numpy_helper.from_array(np.ones((4,), np.float32), "w")])
    wrong("output_shape", [node("Transpose", ["x"], ["y"], name="turn")])
    short = numpy_helper.from_array(np.ones((3,), np.float32), "w")
    short.dims[0] = 5
    wrong("tensor_data", [node("Add", ["x", "w"], ["y"], name="sum")], [short])
    wrong("types", [node("Add", ["x", "w"], ["y"], name="sum")],
          [numpy_helper.from_array(np.ones((3,), np.int64), "w")])
    wrong("index", [node("Gather", ["x", "i"], ["y"], name="pick")],
          [numpy_helper.from_array(np.array([0, 7], np.int64), "i")])
    wrong("domain", [node("FlashAttention", ["x"], ["y"], name="attend", domain="com.example")],
          domains=["com.example"])
    for name, entries in (("external", dict(location="w.bin", offset=4, length=12)),
                          ("external_missing", dict(location="gone.bin")),
                          ("external_short", dict(location="w.bin", offset=8)),
                          ("external_outside", dict(location="../x.npy"))):
        wrong(name, [node("Add", ["x", "w"], ["y"], name="sum")], [external("w", [3], **entries)])
    with open(os.path.join(OUT, "wrong", "w.bin"), "wb") as file:
        file.write(np.array([0, 1, 2, 3], np.float32).tobytes())
    antialias = node("Resize", ["x", "", "scales"], ["y"], name="shrink", mode="linear", antialias=1)
    wrong("antialias", [antialias], [numpy_helper.from_array(np.array([0.5, 1], np.float32), "scales")], opset=18)


def newer_models():
    """A model of opset 21, with functions of its own: mish, and a mean whose axes are an operand."""
    mean = helper.make_function("local", "mean_of_rows", ["a"], ["r"],
                                [helper.make_node("Constant", [], ["axes"], value_ints=[1]),
                                 helper.make_node("ReduceMean", ["a", "axes"], ["r"])],
                                [helper.make_opsetid("", 21)], [])
    nodes = [helper.make_node("Mish", ["x"], ["a"], name="smooth"),
             helper.make_node("mean_of_rows", ["a"], ["m"], name="means", domain="local"),
             helper.make_node("Sub", ["a", "m"], ["y"], name="centred")]
    graph = helper.make_graph(nodes, "newer", [value("x", [2, 8])], [value("y", [2, 8])])
    model = helper.make_model(graph, producer_name="kodama", functions=[mean],
                              opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("local", 1)])
    model.ir_version = 10
    with open(os.path.join(OUT, "newer.onnx"), "wb") as file:
        file.write(model.SerializeToString())


def main():
    os.makedirs(OUT, exist_ok=True)
    rng = np.random.default_rng(1)
    weights = numpy_helper.from_array(rng.standard_normal((8, 4)).astype(np.float32), "w")
    linear = [helper.make_node("MatMul", ["x", "w"], ["xw"], name="product"),
              helper.make_node("Relu", ["xw"], ["y"], name="activation")]
    save("linear", linear, [value("x", [2, 8])], [value("y", [2, 4])], [weights])
    save("symbolic", linear, [value("x", ["batch", 8])], [value("y", ["batch", 4])], [weights])
    save("opset22", linear, [value("x", [2, 8])], [value("y", [2, 4])], [weights], opset=22)
    save("unknown_operator", [helper.make_node("Frobnicate", ["x"], ["y"], name="odd one")],
         [value("x", [2, 8])], [value("y", [2, 8])])
    save("host", [helper.make_node("Cast", ["i"], ["text"], name="to text", to=TensorProto.STRING),
                  helper.make_node("Cast", ["text"], ["f"], name="from text", to=TensorProto.FLOAT),
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
    # What the host gets, and dimensions that are open.
    save("mixed", [helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
                   helper.make_node("TopK", ["a", "k"], ["best", "where"], name="best"),
                   helper.make_node("Mul", ["best", "best"], ["y"], name="square")],
         [value("x", ["batch", 8])], [value("y", ["batch", 2])],
         [weights, numpy_helper.from_array(np.array([2], np.int64), "k")])
    # Only the data know the shapes, or the way.
    save("positive", [helper.make_node("Relu", ["x"], ["r"], name="rectify"),
                      helper.make_node("NonZero", ["r"], ["where"], name="find"),
                      helper.make_node("Transpose", ["where"], ["places"], name="turn"),
                      helper.make_node("GatherND", ["r", "places"], ["found"], name="take"),
                      helper.make_node("Sqrt", ["found"], ["y"], name="root")],
         [value("x", ["batch", 8])], [value("y", ["n"])])
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["more"], name="same"),
                              helper.make_node("MatMul", ["state", "v"], ["p"], name="product"),
                              helper.make_node("Tanh", ["p"], ["next"], name="squash")], "step",
                             [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("state", [2, 8])],
                             [value("more", [], TensorProto.BOOL), value("next", [2, 8])])
    square = numpy_helper.from_array(np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32), "v")
    save("loop", [helper.make_node("Loop", ["m", "", "x"], ["y"], name="steps", body=body)],
         [value("m", [], TensorProto.INT64), value("x", [2, 8])], [value("y", [2, 8])], [square])
    save("sequence", [helper.make_node("SplitToSequence", ["x"], ["rows"], name="split", axis=0, keepdims=0),
                      helper.make_node("SequenceAt", ["rows", "i"], ["row"], name="pick"),
                      helper.make_node("Exp", ["row"], ["y"], name="exp")],
         [value("x", ["batch", 8]), value("i", [], TensorProto.INT64)], [value("y", [8])])
    save("reshape", [helper.make_node("Reshape", ["x", "s"], ["z"], name="fold"),
                     helper.make_node("Relu", ["z"], ["y"], name="rectify")],
         [value("x", ["batch", 8]), value("s", [2], TensorProto.INT64)], [value("y", ["a", "b"])])
    for name, array in (("one.npy", np.array(1, np.int64)), ("three.npy", np.array(3, np.int64)),
                        ("list.npy", np.array([5, 2], np.int64))):
        np.save(os.path.join(OUT, name), array)
    wrong_models()
    newer_models()
    for name, array in (("x.npy", rng.standard_normal((2, 8)).astype(np.float32)),
                        ("x_double.npy", rng.standard_normal((2, 8))),
                        ("x_shape.npy", np.zeros((3, 8), np.float32)),
                        ("ones22.npy", np.ones((2, 2), np.float32)),
                        ("i.npy", np.array([1, -2, 3], np.int64))):
        np.save(os.path.join(OUT, name), array)
    np.savez(os.path.join(OUT, "two.npz"), a=rng.standard_normal((2, 8)).astype(np.float32), b=np.zeros(3, np.float32))


if __name__ == "__main__":
    sys.exit(main())
