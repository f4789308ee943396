"""Settings that a stretch of a program has in common."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Iterator, Optional, Union

from . import _kodama
from .errors import UserError

__all__ = ["Context", "trace_scope"]

_contexts: ContextVar[tuple["Context", ...]] = ContextVar("kodama_contexts", default=())
_traces: ContextVar[Optional["_Trace"]] = ContextVar("kodama_trace", default=None)


class Context:
    """A chip and how models are compiled for it.

        with kodama.Context(chip="mncore2", precision="half") as context:
            model = kodama.compile("resnet18.onnx")       # for this chip, in half precision
        model = context.compile("resnet18.onnx")          # the same

    ``threads`` are of the simulator (0: all cores), ``options`` those of :func:`kodama.compile`. Contexts may be
    nested; each thread has its own.
    """

    def __init__(self, chip: str = "mncore2", precision: str = "gfloat", *, threads: int = 0, **options: Any) -> None:
        _kodama.chip(chip)  # says what is wrong with it at once
        self.chip = chip
        self.precision = precision
        self.threads = threads
        self.options = {name.replace("_", "-"): ("yes" if value else "no") if isinstance(value, bool) else str(value)
                        for name, value in options.items()}

    def compile(self, model: Any, inputs: Any = None, **options: Any) -> Any:
        """:func:`kodama.compile` with the context's settings; ``options`` go before them."""
        from .models import compile as compile_model

        with self:
            return compile_model(model, inputs, **options)

    def train_step(self, module: Any, loss: Any, optimizer: Any, batch: Any, **options: Any) -> Any:
        """:func:`kodama.train_step` with the context's settings."""
        from .training import train_step

        with self:
            return train_step(module, loss, optimizer, batch, **options)

    def __enter__(self) -> Context:
        _contexts.set(_contexts.get() + (self,))
        return self

    def __exit__(self, *_: Any) -> None:
        _contexts.set(_contexts.get()[:-1])

    def __repr__(self) -> str:
        return f"<kodama.Context {self.chip}, {self.precision}>"


def current_context() -> Optional[Context]:
    """The innermost one that is entered."""
    contexts = _contexts.get()
    return contexts[-1] if contexts else None


class _Trace:
    """Traces of several runs, one behind the other."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.rest: dict[str, Any] = {}
        self.end = 0.0

    @contextmanager
    def file_for(self, model: Any) -> Iterator[str]:
        descriptor, path = tempfile.mkstemp(suffix=".json")
        os.close(descriptor)
        try:
            yield path
            with open(path, encoding="utf-8") as file:
                self._add(json.load(file))
        finally:
            os.unlink(path)

    def _add(self, trace: dict[str, Any]) -> None:
        end = self.end
        names = {json.dumps(event, sort_keys=True) for event in self.events if event.get("ph") == "M"}
        for event in trace.pop("traceEvents"):
            if "ts" in event:
                event = {**event, "ts": event["ts"] + self.end}
                end = max(end, event["ts"] + event.get("dur", 0))
            elif json.dumps(event, sort_keys=True) in names:
                continue
            self.events.append(event)
        self.end = end
        self.rest = trace


@contextmanager
def trace_scope(path: Union[str, "os.PathLike[str]"]) -> Iterator[None]:
    """What models do on the chip in this scope, run behind run, as one trace for Perfetto (ui.perfetto.dev).

        with kodama.trace_scope("two_runs.json"):
            model(x)
            model(y)

    The file is written at the end of the scope, unless that raises. Threads that are started in the scope are not in
    it.
    """
    target = os.path.abspath(os.fspath(path))
    if not os.path.isdir(os.path.dirname(target)):
        raise UserError(f"{os.fspath(path)}: can't be written: there is no such folder")
    trace = _Trace()
    token = _traces.set(trace)
    try:
        yield
    finally:
        _traces.reset(token)
    _kodama.write_text(target, json.dumps({"traceEvents": trace.events, **trace.rest}))


def current_trace() -> Optional[_Trace]:
    return _traces.get()
