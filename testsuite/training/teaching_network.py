#!/usr/bin/python3
"""A training step of the network that public material on MN-Core teaches with (an MLP 1024-16-16, batch 256, softmax
and cross-entropy, SGD, single precision), beside its operators one by one (Debian: python3-onnx python3-numpy).

usage: testsuite/training/teaching_network.py KODAMA WORKDIR [--most-share 0.3333] [--layers] [--precision float]

Every node of the step is compiled and run alone, too; a Transpose counts with the product that reads it, which can
read it as it is. Prints the chip's cycles of all of them, their sum, and those of the whole step, without what passes
the host link. Fails if the step takes more than --most-share of the sum.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, WIDTHS = 256, (1024, 16, 16)


def make_network(path):
    numbers = np.random.default_rng(1)
    weights = [numpy_helper.from_array(numbers.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32), f"w{k + 1}")
               for k, (a, b) in enumerate(zip(WIDTHS, WIDTHS[1:]))]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("MatMul", ["r", "w2"], ["y"])]
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (BATCH, WIDTHS[0]))],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (BATCH, WIDTHS[-1]))], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def run(options, model, inputs, folder):
    """What --json says of a run."""
    given = [part for name, array in inputs.items() for part in ("--input", f"{name}={save(folder, array)}")]
    done = subprocess.run([options.kodama, "run", str(model), "--chip", options.chip, "--precision", options.precision,
                           "--json", str(folder / "run.json"), *given], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{model}: {done.stderr}")
    if done.returncode == 1:
        print(f"{model}: out of tolerance")
    return json.loads((folder / "run.json").read_text())


def save(folder, array):
    save.count = getattr(save, "count", 0) + 1
    path = folder / f"input{save.count}.npy"
    np.save(path, array)
    return path


def alone(step, nodes, types):
    """A model of these nodes, of which the last one's results count; None where nothing but constants goes in."""
    constants = {tensor.name: tensor for tensor in step.graph.initializer}
    made = {name for node in nodes for name in node.output}
    names = [name for name in dict.fromkeys(name for node in nodes for name in node.input if name) if name not in made]
    open_names = [name for name in names if name not in constants]
    if not open_names:
        return None
    graph = helper.make_graph(nodes, "alone", [types[name] for name in open_names],
                              [types[name] for name in nodes[-1].output if name],
                              [constants[name] for name in names if name in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def operators_of(graph):
    """The nodes in lists of one, or of a product behind the Transposes that only it reads."""
    readers = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    transposes = {}
    for node in graph.node:
        is_folded = node.op_type == "Transpose" and [r.op_type for r in readers[node.output[0]]] == ["MatMul"]
        if is_folded:
            transposes[node.output[0]] = node
        else:
            yield [transposes[name] for name in node.input if name in transposes] + [node]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kodama")
    parser.add_argument("workdir", type=pathlib.Path)
    parser.add_argument("--chip", default="mncore2")
    parser.add_argument("--precision", default="float")
    parser.add_argument("--most-share", type=float, default=1 / 3)
    parser.add_argument("--layers", action="store_true", help="also the cycles of every layer of the step")
    options = parser.parse_args()
    folder = options.workdir
    folder.mkdir(parents=True, exist_ok=True)
    make_network(folder / "mlp.onnx")
    step_file = folder / "step.onnx"
    subprocess.run([options.kodama, "train-step", folder / "mlp.onnx", "--optimizer", "sgd:lr=0.1", "-o", step_file],
                   check=True, stdout=subprocess.DEVNULL)
    step = onnx.load(step_file)
    said = json.loads(next(p.value for p in step.metadata_props if p.key == "kodama.train-step"))
    state = {tie["input"] for tie in said["state"]}
    labels = np.random.default_rng(2).integers(0, WIDTHS[-1], BATCH)
    whole = run(options, step_file, {"labels": labels}, folder)

    # Alone, what is state of the step is an input.
    plain = onnx.ModelProto()
    plain.CopyFrom(step)
    del plain.graph.initializer[:]
    plain.graph.initializer.extend(t for t in step.graph.initializer if t.name not in state)
    typed = onnx.shape_inference.infer_shapes(plain)
    types = {v.name: v for v in [*typed.graph.input, *typed.graph.value_info, *typed.graph.output]}
    total = 0
    print(f"{'operator':<44} {'':<28} {'result':<16} {'steps':>6} {'cycles':>8}")
    for nodes in operators_of(plain.graph):
        node = nodes[-1]
        model = alone(plain, nodes, types)
        if model is None:
            continue
        file = folder / "alone.onnx"
        onnx.save(model, file)
        integers = {v.name: np.resize(labels, [d.dim_value for d in v.type.tensor_type.shape.dim])
                    for v in model.graph.input if v.type.tensor_type.elem_type == TensorProto.INT64}
        own = run(options, file, integers, folder)["total"]
        total += own["cycles"]
        shape = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
        if own["cycles"] > 0:
            print(f"{node.name[-44:]:<44} {'+'.join(n.op_type for n in nodes):<28} {str(shape):<16} {own['steps']:>6} {own['cycles']:>8}", flush=True)
    cycles = whole["total"]["cycles"]
    print(f"all operators alone: {total} cycles\nthe whole step: {cycles} cycles, {cycles / total:.3f} of that")
    if options.layers:
        for stage in whole["stages"]:
            print(f"{stage['name'][:44]:<44} {stage['kind']:<10} {'+'.join(stage['operators'])[:40]:<40} "
                  f"{stage['stats']['steps']:>6} {stage['stats']['cycles']:>8} {stage['stats']['wait_cycles']:>6}")
    if cycles > options.most_share * total:
        sys.exit(1)


if __name__ == "__main__":
    main()
