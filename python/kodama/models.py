"""Models: compiling, running, and what a run tells."""

from __future__ import annotations

import io
import json
import os
import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Literal, Mapping, Optional, Sequence, Union

import numpy

from . import _html, _kodama
from .context import current_context, current_trace
from .errors import UnsupportedError, UserError
from .tensors import Description, Kind, Tensor, TensorLike, _own, hand_out, is_torch

__all__ = ["CompiledModel", "RunResult", "Table", "compile", "export_torch", "load", "reference"]

Path = Union[str, "os.PathLike[str]"]
ModelLike = Any
Precision = Literal["gfloat", "float", "half"]
OPSET = 17  # of what is exported from torch


class Table(list):  # type: ignore[type-arg]
    """Rows as dicts that all have the same keys: ``pandas.DataFrame(table)`` takes it; notebooks show it."""

    @property
    def columns(self) -> list[str]:
        return list(self[0]) if self else []

    def __str__(self) -> str:
        rows = [self.columns] + [[str(cell) for cell in row.values()] for row in self]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        return _html.table(self.columns, (row.values() for row in self))


class RunResult:
    """A run: ``outputs`` by name, and what it took.

    ``cycles`` are of the chip's clock, constants being on the chip, ``first_cycles`` with what happens once before
    the first run; ``seconds`` is the chip's time for ``cycles``. ``statistics`` is what ``kodama run --json`` writes,
    ``text`` its tables.
    """

    def __init__(self, result: _kodama.Result, kind: Kind) -> None:
        tensors = result.outputs
        self.outputs: dict[str, Any] = {name: hand_out(tensor, kind) for name, tensor in tensors.items()}
        #: The same as Kodama's own tensors, whose memory it is.
        self.tensors: dict[str, Tensor] = {name: Tensor._wrap(tensor) for name, tensor in tensors.items()}
        self.cycles: int = result.cycles
        self.first_cycles: int = result.first_cycles
        self.seconds: float = result.seconds
        self.statistics: dict[str, Any] = json.loads(result.json)
        self.text: str = result.table

    @property
    def layers(self) -> Table:
        """A row for each layer and move: name, operators, kind, where it ran, shape of its result, cycles (of the
        chip), bound (what no program can beat, in cycles), share of the chip's peak, bytes to and from DRAM, bytes
        over the host link."""
        return Table(_layer(stage) for stage in self.statistics.get("stages", []))

    @property
    def moves(self) -> Table:
        """A row for each change of layout between layers: name, cycles, bytes to and from DRAM, the layouts."""
        layouts = self.statistics.get("layouts", [])
        edges = [edge for edge in self.statistics.get("moves", []) if edge["layout"] is not None]

        def texts(end: str, number: int) -> list[str]:
            return [layouts[edge["layout"]]["text"] for edge in edges if edge[end] == number]

        return Table({
            "name": stage["name"], "cycles": stage["stats"]["cycles"], "dram_bytes": stage["stats"]["dram_bytes"],
            "from": " + ".join(texts("to", number)), "to": next(iter(texts("from", number)), ""),
        } for number, stage in enumerate(self.statistics.get("stages", [])) if stage["kind"] == "Relayout")

    def __repr__(self) -> str:
        return f"<kodama.RunResult: {self.cycles} cycles, {self.seconds:.6f} s of the chip>"

    def _repr_html_(self) -> str:
        return _html.preformatted(repr(self)[1:-1], "") + self.layers._repr_html_()


def _layer(stage: Mapping[str, Any]) -> dict[str, Any]:
    stats = stage["stats"]
    return {
        "name": stage["name"], "operators": "+".join(stage["operators"]), "kind": stage["kind"],
        "where": stage["where"], "shape": " ".join(str(shape) for shape in stage["shapes"]),
        "cycles": stats["cycles"], "bound": stats["bound_cycles"], "share_of_peak": stats["share_of_peak"],
        "dram_bytes": stats["dram_bytes"], "link_bytes": stats["bytes_to_chip"] + stats["bytes_from_chip"],
    }


class CompiledModel:
    """A model compiled for a chip: call it with its inputs.

        y = model(x)                   # arrays for arrays, torch tensors for torch tensors
        y = model(x=x)                 # by name
        result = model.run(x=x)        # all outputs by name, cycles, layers

    Several outputs are a tuple, in the model's order. ``cycles``, ``layers``, ``moves`` are of the last run. Runs
    of several threads are one after the other; :meth:`session` makes a chip more.
    """

    def __init__(self, program: _kodama.Program, *, threads: int = 0, timing: bool = True, hazards: str = "ignore",
                 host_overlaps: bool = True, source: Optional[_kodama.Model] = None) -> None:
        self._program = program
        self._settings = (threads, timing, hazards, host_overlaps)
        self._source = source
        self._session: Optional[_kodama.Session] = None
        self._lock = threading.Lock()
        self._last: Optional[RunResult] = None
        self._last_inputs: dict[str, Tensor] = {}

    # What it is

    @property
    def name(self) -> str:
        return self._program.name

    @property
    def chip(self) -> str:
        return self._program.chip

    @property
    def inputs(self) -> list[Description]:
        return [Description(*each) for each in self._program.inputs()]

    @property
    def outputs(self) -> list[Description]:
        return [Description(*each) for each in self._program.outputs()]

    # Running

    def run(self, *args: TensorLike, trace: Path = "", vcd: Path = "", statistics: Path = "", report: Path = "",
            **inputs: TensorLike) -> RunResult:
        """Runs the model and returns everything about it.

        ``trace`` (Chrome's format, for Perfetto), ``vcd`` (for GTKWave) and ``statistics`` (JSON), ``report`` (a page
        of HTML, docs/report.md) are files to write. An input whose name is one of these, or no Python name, goes by its position or in ``run_named``.
        """
        return self.run_named(self._named(args, inputs), trace=trace, vcd=vcd, statistics=statistics,
                              report=report)

    def run_named(self, inputs: Mapping[str, TensorLike], *, trace: Path = "", vcd: Path = "", statistics: Path = "",
                  report: Path = "") -> RunResult:
        """The same with inputs by any name."""
        types = {each.name: each.dtype for each in self.inputs}
        owned: dict[str, _kodama.Tensor] = {}
        given_away: set[str] = set()
        kind: Kind = "numpy"
        for name, value in inputs.items():
            if isinstance(value, Tensor):
                owned[name] = value._tensor
                continue
            if is_torch(value):
                kind = "torch"
            owned[name] = _own(value, types.get(name))
            given_away.add(name)
        with self._lock:
            if self._session is None:
                self._session = _kodama.Session(self._program, *self._settings)
            scope = current_trace()
            with (scope.file_for(self) if scope and not os.fspath(trace) else _as_it_is(trace)) as file:
                result = self._session.run(owned, given_away, os.fspath(file), os.fspath(vcd), os.fspath(statistics),
                                           os.fspath(report))
            self._last = RunResult(result, kind)
            return self._last

    def __call__(self, *args: TensorLike, **inputs: TensorLike) -> Any:
        outputs = self.run_named(self._named(args, inputs)).outputs
        values = [outputs[each.name] for each in self.outputs if each.name in outputs]
        return values[0] if len(values) == 1 else tuple(values)

    def _named(self, args: Sequence[TensorLike], inputs: Mapping[str, TensorLike]) -> dict[str, TensorLike]:
        names = [each.name for each in self.inputs]
        if len(args) > len(names):
            raise UserError(f"{self.name}: found {len(args)} inputs, allowed: {len(names)} ({', '.join(names)})")
        named = dict(zip(names, args))
        for name, value in inputs.items():
            if name in named:
                raise UserError(f"{self.name}: input '{name}' is given twice")
            named[name] = value
        return named

    def session(self) -> CompiledModel:
        """The same program on a simulated chip of its own."""
        threads, timing, hazards, host_overlaps = self._settings
        return CompiledModel(self._program, threads=threads, timing=timing, hazards=hazards,
                             host_overlaps=host_overlaps, source=self._source)

    def reference(self, *args: TensorLike, **inputs: TensorLike) -> dict[str, numpy.ndarray]:
        """What the CPU reference computes, by the outputs' names. Not of a package, which has no model."""
        if self._source is None:
            raise UnsupportedError(f"{self.name}: the CPU reference of a package; instead, keep the model's file and "
                                   "give it to kodama.reference")
        return _reference(self._source, self._named(args, inputs))

    def save(self, directory: Path) -> None:
        """Writes a package, as ``kodama compile`` does."""
        self._program.save(os.fspath(directory))

    # What the last run told

    @property
    def last(self) -> RunResult:
        if self._last is None:
            raise UserError(f"{self.name}: nothing is known of a run before there was one; call it first")
        return self._last

    @property
    def cycles(self) -> int:
        """Of the last run, in cycles of the chip's clock."""
        return self.last.cycles

    @property
    def seconds(self) -> float:
        """The chip's, of the last run."""
        return self.last.seconds

    @property
    def layers(self) -> Table:
        """Of the last run: :attr:`RunResult.layers`."""
        return self.last.layers

    @property
    def moves(self) -> Table:
        """Of the last run: :attr:`RunResult.moves`."""
        return self.last.moves

    def trace(self, path: Path, *args: TensorLike, **inputs: TensorLike) -> RunResult:
        """Runs once more and writes what happened when on the chip, for Perfetto (ui.perfetto.dev)."""
        return self.run(*args, trace=path, **inputs)

    def report(self, path: Path, *args: TensorLike, **inputs: TensorLike) -> RunResult:
        """Runs once more and writes the report, a page of HTML that works without a network (docs/report.md)."""
        return self.run(*args, report=path, **inputs)

    def __repr__(self) -> str:
        return f"<kodama.CompiledModel {self.name} for {self.chip}: {self.inputs} -> {self.outputs}>"

    def _repr_html_(self) -> str:
        rows = [("input", each.name, each.dtype, list(each.shape)) for each in self.inputs]
        rows += [("output", each.name, each.dtype, list(each.shape)) for each in self.outputs]
        shown = _html.table(["", "name", "type", "shape"], rows)
        title = _html.preformatted(f"{self.name} for {self.chip}", "")
        return title + shown + (self._last._repr_html_() if self._last else "")


@contextmanager
def _as_it_is(path: Path) -> Iterator[Path]:
    yield path


def compile(model: ModelLike, inputs: Union[TensorLike, Sequence[TensorLike], Mapping[str, TensorLike], None] = None,
            chip: Optional[str] = None, precision: Optional[Precision] = None, *,
            dims: Optional[Mapping[str, int]] = None, bind: Optional[Mapping[str, TensorLike]] = None,
            threads: Optional[int] = None, timing: bool = True, hazards: str = "ignore", host_overlaps: bool = True,
            progress: Optional[Callable[[float, str], None]] = None, **options: Any) -> CompiledModel:
    """Compiles a model for a chip.

    ``model`` is the path of an ONNX file or of a package of ``kodama compile``, the bytes of a model, an
    ``onnx.ModelProto``, or a ``torch.nn.Module`` (which is exported in evaluation mode).

    ``inputs`` are examples: a tensor, a sequence in the order of the model's inputs, or a dict by name. torch needs
    them; of ONNX models they fix extents that the model leaves open. Their values play no part.

    ``chip`` is a name (:func:`kodama.chips`) or a chip file, ``,KEY=VALUE`` behind it changes keys (default:
    mncore2); ``precision`` is that of matrix products (default: gfloat). Both may come from a
    :class:`kodama.Context`. ``dims`` are extents of dimensions by name or ``"INPUT:AXIS"``, ``bind`` fixes inputs
    before compilation. ``threads``, ``timing``, ``hazards``, ``host_overlaps`` are of the simulator, as in ``kodama
    run --help``. ``progress(part, what)`` is called now and then, part from 0 to 1.

    ``options`` are those of ``kodama run --help`` (``planner="greedy"``, ``weights="resident"``,
    ``scheduler="mine"``, ``fuse=False``) and of passes (``kodama passes``).

    Ctrl-C ends the compilation.
    """
    context = current_context()
    given_chip = chip or (context.chip if context else "")
    precision = precision or (context.precision if context else "gfloat")
    threads = threads if threads is not None else (context.threads if context else 0)
    run = {"threads": threads, "timing": timing, "hazards": hazards, "host_overlaps": host_overlaps}
    if isinstance(model, (str, os.PathLike)) and os.path.isdir(model):
        given = [name for name, value in (("dims", dims), ("bind", bind), ("inputs", inputs), *options.items())
                 if value is not None]
        if given:
            raise UserError(f"{os.fspath(model)}: a package, which is compiled; found {', '.join(given)}, allowed: chip")
        return load(model, chip=given_chip, **run)
    source = _import(model, inputs, dict(dims or {}), {name: _own(value) for name, value in (bind or {}).items()})
    texts = dict(context.options) if context else {}
    texts.update({name.replace("_", "-"): ("yes" if value else "no") if isinstance(value, bool) else str(value)
                  for name, value in options.items()})
    return CompiledModel(_kodama.Program.compile(source, given_chip or "mncore2", precision, texts, progress), source=source, **run)


def load(directory: Path, chip: str = "", **run: Any) -> CompiledModel:
    """Loads a package that ``kodama compile`` or :meth:`CompiledModel.save` wrote; ``chip``: another than its own."""
    return CompiledModel(_kodama.Program.load(os.fspath(directory), chip), **run)


def reference(model: ModelLike, *args: TensorLike, **inputs: TensorLike) -> dict[str, numpy.ndarray]:
    """What the CPU reference computes of an ONNX model or a torch module, by the outputs' names."""
    source = _import(model, inputs or list(args), {}, {})
    named = dict(zip([name for name, _, _ in source.inputs()], args))
    return _reference(source, {**named, **inputs})


def _reference(source: _kodama.Model, inputs: Mapping[str, TensorLike]) -> dict[str, numpy.ndarray]:
    types = {name: dtype for name, dtype, _ in source.inputs()}
    owned = {name: value._tensor if isinstance(value, Tensor) else _own(value, types.get(name))
             for name, value in inputs.items()}
    return {name: hand_out(tensor, "numpy") for name, tensor in source.reference(owned).items()}


def _import(model: ModelLike, inputs: Any, dims: dict[str, int], bind: dict[str, _kodama.Tensor]) -> _kodama.Model:
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        return _kodama.Model.from_file(path, _with_shapes(dims, inputs, lambda: _value_infos(path)), bind)
    if isinstance(model, (bytes, bytearray, memoryview)):
        content = bytes(model)
        return _kodama.Model.from_bytes(content, _with_shapes(dims, inputs, lambda: _value_infos(content)), bind, "model")
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        content = model.SerializeToString()
        name = model.graph.name or "model"
        return _kodama.Model.from_bytes(content, _with_shapes(dims, inputs, lambda: _value_infos(content)), bind, name)
    if _is_module(model):
        if inputs is None:
            raise UserError(f"{type(model).__name__}: a torch module is compiled for inputs of known shapes; found none, "
                            "allowed: kodama.compile(module, inputs)")
        return _kodama.Model.from_bytes(export_torch(model, inputs), dims, bind, type(model).__name__)
    raise UserError(f"model: found {type(model).__name__}, allowed: a path, bytes, an onnx.ModelProto, or a torch module")


def _with_shapes(dims: dict[str, int], inputs: Any, infos: Callable[[], list[tuple[str, list[Any]]]]) -> dict[str, int]:
    """With the extents that examples have where the model leaves them open."""
    if inputs is None or (isinstance(inputs, (list, tuple, dict)) and not inputs):
        return dims
    known = infos()
    if isinstance(inputs, Mapping):
        examples = dict(inputs)
    else:
        row = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        examples = dict(zip([name for name, _ in known], row))
    found = dict(dims)
    for name, shape in known:
        if name not in examples:
            continue
        given = tuple(getattr(examples[name], "shape", None) or numpy.shape(examples[name]))
        if len(given) != len(shape):
            raise UserError(f"input '{name}': found an example of shape {list(given)}, allowed: {len(shape)} axes")
        for axis, extent in enumerate(shape):
            # Dimensions of one name have one extent, so the name is enough.
            if isinstance(extent, str) and extent:
                found.setdefault(extent, int(given[axis]))
            elif extent is None or extent == "":
                found.setdefault(f"{name}:{axis}", int(given[axis]))
    return found


def _value_infos(model: Union[str, bytes]) -> list[tuple[str, list[Any]]]:
    """Of each input: name and shape, open extents by their name ("": they have none)."""
    return [(name, list(shape)) for name, shape in _kodama.open_inputs(model)]


def _is_module(model: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def export_torch(module: Any, inputs: Any) -> bytes:
    """A torch module as an ONNX model, in evaluation mode. Inputs and outputs have the names ``x``, ``x1``, ... of the
    arguments of its forward function where they can be found."""
    import inspect

    import torch

    kwargs = dict(inputs) if isinstance(inputs, Mapping) else {}
    args = () if kwargs else tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    tensors = tuple(torch.as_tensor(each) for each in args)
    named = {name: torch.as_tensor(each) for name, each in kwargs.items()}
    parameters = [name for name, each in inspect.signature(module.forward).parameters.items()
                  if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    names = (parameters[:len(tensors)] if len(parameters) >= len(tensors) else []) + list(named)
    file = io.BytesIO()
    try:
        torch.onnx.export(module, tensors + (named,) if named else tensors, file, opset_version=OPSET,
                          input_names=names or None, training=torch.onnx.TrainingMode.EVAL)
    except (torch.onnx.errors.UnsupportedOperatorError, torch.onnx.errors.SymbolicValueError) as error:
        raise UnsupportedError(f"{type(module).__name__}: torch.onnx can't export it: {error}") from error
    return file.getvalue()
