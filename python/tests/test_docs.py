"""The blocks of docs/python.md and of tutorials run, one after the other."""

import re

import pytest

from conftest import ROOT


def run_blocks(page):
    """Runs the blocks of a page under docs/; from one that imports torch on, only where torch is."""
    text = (ROOT / "docs" / page).read_text()
    blocks = [(text[:found.start()].count("\n") + 2, found.group(1))
              for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]
    names = {"__name__": "tutorial"}
    for line, block in blocks:
        if re.search(r"^import torch$", block, re.M):
            try:
                import torch  # noqa: F401
            except ImportError:
                print("torch isn't installed: the rest of the page is not run")
                break
        exec(compile("\n" * (line - 1) + block, f"docs/{page}", "exec"), names)
    return len(blocks)


def test_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    assert run_blocks("python.md") >= 9
    printed = capsys.readouterr().out
    assert "is at fault" in printed and "a.vsm:2" in printed and "epoch 2" in printed


def test_tutorial(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    assert run_blocks("tutorials/pass.md") >= 5
    printed = capsys.readouterr().out
    assert "is at fault" in printed and "longest-path" in printed


def test_docstrings():
    """Examples in docstrings, and a docstring for everything public."""
    import doctest

    import kodama
    from kodama import context, errors, layouts, models, passes, problems, programs, sweeps, tensors, training

    for module in (layouts, programs):
        found = doctest.testmod(module)
        assert found.failed == 0 and found.attempted > 0
    for name in kodama.__all__:
        assert getattr(kodama, name).__doc__, name
    for module in (context, errors, layouts, models, passes, problems, programs, sweeps, tensors, training):
        assert module.__doc__


def test_type_hints():
    import inspect
    import typing

    import kodama

    for name in kodama.__all__:
        each = getattr(kodama, name)
        if inspect.isfunction(each):
            hints = typing.get_type_hints(each)
            missing = [parameter for parameter in inspect.signature(each).parameters if parameter not in hints]
            assert "return" in hints and not missing, (name, missing)
