#!/usr/bin/python3
"""check_large.py KODAMA DIRECTORY: a model with 2.35 GB of weights in a file beside it, more than one protobuf message
can hold, of an old, our own and a newer opset, is read, converted and lowered. Needs python3-onnx and 4 GB of memory."""
import json
import os
import shutil
import subprocess
import sys

try:
    from onnx import TensorProto, helper
except ImportError:
    print("skipped: no python3-onnx")
    sys.exit(77)

EXTENT = 14000
BYTES = EXTENT * EXTENT * 4


def weights(number):
    tensor = TensorProto(name=f"w{number}", data_type=TensorProto.FLOAT, dims=[EXTENT, EXTENT],
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", number * BYTES), ("length", BYTES)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def main(kodama, directory):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"], name=f"product{k}") for k in range(3)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, EXTENT])
    graph = helper.make_graph(nodes, "large", [value("x0")], [value("x3")], [weights(k) for k in range(3)])
    with open(os.path.join(directory, "weights.bin"), "wb") as file:
        file.truncate(3 * BYTES)  # takes no room on the disk
    for opset in (12, 17, 21):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        path = os.path.join(directory, "large.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        report = os.path.join(directory, "large.json")
        subprocess.run([kodama, "inspect", path, "--json", report], check=True)
        with open(report) as file:
            found = json.load(file)
        assert found["parameters"] == {"count": 3 * EXTENT ** 2, "bytes": 3 * BYTES}, found["parameters"]
        assert found["operators"][0]["chip"] == 3, found["operators"]
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
