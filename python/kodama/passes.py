"""Passes in Python: plain functions from a problem to its solution, which Kodama checks.

    @kodama.scheduler("in-order")
    def in_order(problem, *, gap=1):
        "one operation after the other"
        ...
        return steps

registers a scheduler that ``kodama.compile(..., scheduler="in-order")``, :func:`kodama.schedule` and, with
``--plugin``, every command of ``python3 -m kodama`` knows. Parameters behind ``*`` are its options, here
``in-order-gap``, with their defaults; the first line of the docstring is its description. A wrong solution
raises :class:`kodama.PassError`, which says the rule that is broken; so does an exception of the function's, with
that as its cause. Where a function of a name is registered again, it takes the first one's place.
"""

from __future__ import annotations

import inspect
import json
import os
import runpy
from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, Union

from . import _kodama
from .errors import UserError
from .problems import PlanProblem, Schedule, ScheduleProblem, TransferSchedule

__all__ = [
    "bench_schedule", "graph_pass", "load_plugin", "pack", "packer", "planner", "recomputer", "schedule",
    "scheduler", "transfer_scheduler",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Options:
    """The options of a pass: what its function takes behind ``*``."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.defaults: dict[str, Any] = {}
        self.parameters: dict[str, str] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
                continue
            if not isinstance(parameter.default, (bool, int, float, str)):
                raise UserError(f"pass '{name}': found option '{parameter.name}' with the default "
                                f"{parameter.default!r}; allowed: numbers, texts, True and False")
            option = f"{name}-{parameter.name}".replace("_", "-")
            self.defaults[option] = parameter.default
            self.parameters[option] = parameter.name

    def declared(self) -> list[list[str]]:
        return [[option, _text(default), f"of the Python function: {type(default).__name__}"]
                for option, default in self.defaults.items()]

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for option, text in given.items():
            if option not in self.defaults:
                continue  # another pass's
            kind = type(self.defaults[option])
            try:
                values[self.parameters[option]] = {"yes": True, "no": False}[text] if kind is bool else kind(text)
            except (KeyError, ValueError):
                allowed = {bool: "yes, no", int: "whole numbers", float: "numbers"}[kind]
                raise UserError(f"option {option}: found '{text}', allowed: {allowed}") from None
        return values


def _text(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _declare(name: str, function: Callable[..., Any]) -> tuple[_kodama.Declaration, _Options]:
    if not isinstance(name, str) or not name:
        raise UserError(f"a pass needs a name, as in @kodama.scheduler(\"mine\"); found {name!r}")
    options = _Options(name, function)
    description = (inspect.getdoc(function) or "").split("\n", 1)[0] or "in Python"
    code = inspect.unwrap(function)
    file = getattr(getattr(code, "__code__", None), "co_filename", "") or "Python"
    return _kodama.Declaration(name, description, file, options.declared()), options


def scheduler(name: str, *, blocks: bool = True, loops: bool = False,
              overlaps: bool = False) -> Callable[[_Function], _Function]:
    """Registers an instruction scheduler: ``function(problem: ScheduleProblem, **options)``.

    It returns the step of each operation (a list), or, for ``loops``, a :class:`Schedule` with the interval.
    ``overlaps``: iterations may overlap, so that loops get copies of their bodies.
    """

    def register(function: _Function) -> _Function:
        declaration, options = _declare(name, function)

        def run(text: str, given: Mapping[str, str]) -> tuple[list[int], int, bool]:
            found = function(ScheduleProblem.from_json(text), **options.read(given))
            if not isinstance(found, Schedule):
                found = Schedule(_integers(found))
            return _integers(found.issue), int(found.interval), bool(found.optimal)

        _kodama.add_scheduler(declaration, run, blocks, loops, overlaps)
        return function

    return register


def transfer_scheduler(name: str) -> Callable[[_Function], _Function]:
    """Registers a transfer scheduler: ``function(problem: dict, **options)``, the problem as in the JSON that
    ``--dump-after keep`` writes. It returns a :class:`TransferSchedule`, several of them, the best first, or None
    if the buffers don't fit."""

    def register(function: _Function) -> _Function:
        declaration, options = _declare(name, function)

        def run(text: str, given: Mapping[str, str]) -> list[tuple[Any, ...]]:
            found = function(json.loads(text), **options.read(given))
            found = [] if found is None else [found] if isinstance(found, TransferSchedule) else list(found)
            return [(_integers(each.issue), [bool(flag) for flag in each.copied], _integers(each.address),
                     [bool(flag) for flag in each.kept]) for each in found]

        _kodama.add_transfer_scheduler(declaration, run)
        return function

    return register


def packer(name: str) -> Callable[[_Function], _Function]:
    """Registers an address packer: ``function(problem: dict, **options)``, the problem as in docs/packing.md. It
    returns the offset of each buffer, or None if it finds none."""
    return _json_pass(name, _kodama.add_packer)


def recomputer(name: str) -> Callable[[_Function], _Function]:
    """Registers who orders the operations of a training step, some of them repeated, within a memory:
    ``function(problem: dict, **options)``, the problem as in docs/memory.md. It returns the operations in the order
    in which they run, or None."""
    return _json_pass(name, _kodama.add_recomputer)


def _json_pass(name: str, add: Callable[..., None]) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        declaration, options = _declare(name, function)

        def run(text: str, given: Mapping[str, str]) -> list[int]:
            found = function(json.loads(text), **options.read(given))
            return [] if found is None else _integers(found)

        add(declaration, run)
        return function

    return register


def planner(name: str) -> Callable[[_Function], _Function]:
    """Registers a layout planner: ``function(problem: PlanProblem, **options)``. It returns the number of a
    candidate for each node."""

    def register(function: _Function) -> _Function:
        declaration, options = _declare(name, function)

        def run(view: _kodama.PlanView, given: Mapping[str, str]) -> list[int]:
            return _integers(function(PlanProblem(view), **options.read(given)))

        _kodama.add_planner(declaration, run)
        return function

    return register


def graph_pass(name: str, *, after: str = "") -> Callable[[_Function], _Function]:
    """Registers a pass over the network: ``function(model: onnx.ModelProto, **options)``.

    It changes the model in place, or returns another one. ``after`` names the pass behind which it runs (default:
    the last). It runs whenever a model is compiled, from then on; Kodama checks that what the network computes, its
    inputs and its outputs stay.
    """

    def register(function: _Function) -> _Function:
        declaration, options = _declare(name, function)

        def run(text: bytes, given: Mapping[str, str]) -> bytes:
            import onnx

            model = onnx.ModelProto.FromString(text)
            found = function(model, **options.read(given))
            return (model if found is None else found).SerializeToString()

        _kodama.add_graph_pass(declaration, run, after)
        return function

    return register


def _integers(values: Any) -> list[int]:
    """As Python's own: NumPy's are taken, too, floats aren't."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"found {values!r}; allowed: a row of whole numbers")
    return [value.__index__() for value in values]


def load_plugin(path: Union[str, os.PathLike[str]]) -> None:
    """Loads a plugin: a file in Python that registers passes, or a shared library (docs/write-a-pass.md)."""
    _kodama.load_plugin(os.fspath(path))


def _run_file(path: str) -> None:
    runpy.run_path(path, run_name="kodama_plugin")


_kodama.load_python_plugins_with(_run_file)

Problem = Union[str, "os.PathLike[str]", ScheduleProblem, Mapping[str, Any]]


def _problem_text(problem: Problem) -> tuple[str, str]:
    if isinstance(problem, ScheduleProblem):
        return problem.to_json(), problem.name or "problem"
    if isinstance(problem, Mapping):
        return json.dumps(problem), str(problem.get("name", "problem"))
    return _kodama.read_text(os.fspath(problem)), os.fspath(problem)


def schedule(problem: Problem, scheduler: str = "", **options: Any) -> Schedule:
    """Solves a block or loop, from a JSON file or built in Python, and checks the schedule.

    ``scheduler`` is a name of ``kodama passes`` or of a function (default: Kodama's own), ``options`` are its
    options. Raises :class:`PassError` with the broken rule for a wrong one.
    """
    text, source = _problem_text(problem)
    found, length, bound = _kodama.schedule(text, source, scheduler, _given(options))
    fields = json.loads(found)
    return Schedule(fields["issue"], fields.get("interval", 0), fields["optimal"] or length <= bound, length, bound,
                    ScheduleProblem.from_json(text))


def bench_schedule(schedulers: Sequence[str] = (), *, directory: Union[str, os.PathLike[str], None] = None,
                   random: int = 200, details: bool = False, **options: Any) -> str:
    """All problems of a directory (default: Kodama's set) and so many random ones by schedulers (default: all of
    them), as the table of ``kodama bench schedule``."""
    folder = "default" if directory is None else os.fspath(directory)
    return _kodama.bench_schedules(folder, random, list(schedulers), _given(options), details)


def pack(problem: Union[str, "os.PathLike[str]", Mapping[str, Any]], packer: str = "", **options: Any) -> dict[str, Any]:
    """Finds offsets for the buffers of a problem (docs/packing.md) and checks them. Of the result, ``offsets`` has
    them by name, ``status`` is solved, infeasible or gave up."""
    text, source = _problem_text(problem)
    return json.loads(_kodama.pack(text, source, packer, _given(options)))


def _given(options: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", "-"): _text(value) for name, value in options.items()}
