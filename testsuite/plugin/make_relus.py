#!/usr/bin/python3
"""make_relus.py FILE: writes the model y = Relu(Relu(Neg(x))), x float32 [64], in protobuf's own encoding."""
import sys


def field(number, content):
    if isinstance(content, int):
        return bytes([number << 3, content])
    content = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(content)]) + content


def node(operator, source, result):
    return field(1, field(1, source) + field(2, result) + field(3, operator + "_" + result) + field(4, operator))


def value(number, name):
    tensor = field(1, field(1, 1) + field(2, field(1, field(1, 64))))
    return field(number, field(1, name) + field(2, tensor))


graph = node("Neg", "x", "n") + node("Relu", "n", "r") + node("Relu", "r", "y") + field(2, "relus")
graph += value(11, "x") + value(12, "y")
model = field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))
with open(sys.argv[1], "wb") as file:
    file.write(model)
