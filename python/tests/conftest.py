"""What the tests share."""

import os
import pathlib

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path("/work/shared/data")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; CTest has it under the label long")


@pytest.fixture
def examples():
    return ROOT / "docs" / "examples"


@pytest.fixture
def small_model():
    """relu(x w + b) of [2, 8] as the bytes of an ONNX model, with its weights."""
    return make_small_model()


def make_small_model(batch=2, opset=17):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(1)
    w = random.standard_normal((8, 4), dtype=numpy.float32)
    b = random.standard_normal(4, dtype=numpy.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]),
         helper.make_node("Relu", ["s"], ["y"])], "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model, w, b


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setenv("KODAMA_CACHE", "off")
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")


def needs_data(*parts):
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} isn't here")
    return os.fspath(path)
