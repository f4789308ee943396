"""A model on many chips, or with many options, beside each other."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Mapping, Optional, Sequence

import numpy

from . import _kodama
from .errors import UnsupportedError, UserError
from .models import ModelLike, Table, compile, export_torch
from .tensors import Tensor, TensorLike

__all__ = ["sweep"]


def sweep(model: ModelLike, sets: Mapping[str, Sequence[Any]], inputs: Optional[Mapping[str, TensorLike]] = None, *,
          chip: str = "mncore2", precision: str = "gfloat", jobs: int = 0, client: Any = None, seed: int = 1,
          **options: Any) -> Table:
    """Compiles and runs a model once for each combination of values, as ``kodama sweep`` does.

    ``sets`` has keys of the chip file (:func:`kodama.chip` shows them) and options of :func:`kodama.compile`, each with
    its values: ``{"memory.l2bm_lw": [16384, 32768], "planner": ["pbqp", "greedy"]}``. ``inputs`` are tensors by name;
    those that aren't given are random, from ``seed``. ``options`` are the same for all.

    Combinations run in ``jobs`` processes of this machine (0: as many as it has cores), or, with ``client``, a
    ``dask.distributed.Client``, on the workers of its cluster. They need the package, and nothing else: the model
    travels with the work. What a worker has not finished when it dies, another one does.

    Returns a row for each combination, the last key fastest: the values, cycles, first_cycles (with what happens once),
    seconds of the chip, and problem, the reason of a combination that can't be, or "". Raises :class:`UserError` for
    a key that there isn't, before anything runs.
    """
    keys = list(sets)
    values = [list(sets[key]) for key in keys]
    if not keys or not all(values):
        raise UserError("sets: found none, allowed: keys with one value or more each, as {'planner': ['pbqp', 'greedy']}")
    chip_keys = set(_kodama.chip_keys())
    for key in keys:
        if "." in key and key not in chip_keys:
            raise UserError(f"sets: '{key}' is no key of a chip file; allowed: SECTION.KEY as in configs/*.yaml, and options "
                            "of kodama.compile")
    work = []
    content = _content(model, inputs)
    given = {name: numpy.asarray(value) for name, value in (inputs or {}).items()}
    for combination in itertools.product(*values):
        chosen = dict(zip(keys, combination))
        on_chip = {key: value for key, value in chosen.items() if key in chip_keys}
        settings = {"chip": ",".join([chip] + [f"{key}={value}" for key, value in on_chip.items()]), "precision": precision,
                    **options, **{key.replace("-", "_"): value for key, value in chosen.items() if key not in chip_keys}}
        work.append((chosen, settings))
    if client is not None:
        # Workers that die are no fault of the work.
        started = [client.submit(_measure, content, settings, given, seed, pure=False, retries=3) for _, settings in work]
        found = client.gather(started)
    else:
        with ProcessPoolExecutor(jobs or os.cpu_count(), get_context("spawn")) as pool:
            found = list(pool.map(_measure, *zip(*[(content, settings, given, seed) for _, settings in work])))
    return Table({**chosen, **row} for (chosen, _), row in zip(work, found))


def _measure(content: bytes, settings: Mapping[str, Any], inputs: Mapping[str, numpy.ndarray], seed: int) -> dict[str, Any]:
    """The row of a combination."""
    row: dict[str, Any] = {"cycles": None, "first_cycles": None, "seconds": None, "problem": ""}
    try:
        compiled = compile(content, inputs or None, threads=1, **settings)
        assert compiled._source is not None
        given: dict[str, Any] = {name: Tensor._wrap(value) for name, value in compiled._source.random_inputs(seed).items()}
        result = compiled.run_named({**given, **inputs})
        row.update(cycles=result.cycles, first_cycles=result.first_cycles, seconds=result.seconds)
    except (UserError, UnsupportedError) as error:
        row["problem"] = str(error)
    return row


def _content(model: ModelLike, inputs: Any) -> bytes:
    """The model with all of its data, for another process."""
    if isinstance(model, (str, os.PathLike)):
        if os.path.isdir(model):
            raise UserError(f"{os.fspath(model)}: a package, which is compiled; allowed: a model")
        try:
            import onnx
        except ImportError:  # then weights in files of their own are missed, and named
            with open(model, "rb") as file:
                return file.read()
        return onnx.load(os.fspath(model)).SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    return export_torch(model, inputs)
