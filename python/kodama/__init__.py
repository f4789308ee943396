"""Kodama: simulator, assembler and compiler for MN-Core-like chips.

    import kodama, numpy

    model = kodama.compile("mnist8.onnx")
    y = model(numpy.zeros((1, 1, 28, 28), numpy.float32))
    print(model.cycles, model.layers)

docs/python.md is the tutorial. Every error is a :class:`kodama.Error` with the text that the command line prints.
"""

import os as _os

# Of an installed package, the chip files are beside it.
_configs = _os.path.join(_os.path.dirname(__file__), "configs")
if _os.path.isdir(_configs):
    _os.environ.setdefault("KODAMA_CONFIG_DIR", _configs)

from ._kodama import version as _version  # noqa: E402
from .context import Context, trace_scope
from .errors import CancelledError, Error, InternalError, PassError, UnsupportedError, UserError
from .layouts import Conversion, Layout, Place, conversion_bound, convert
from .models import CompiledModel, RunResult, Table, compile, export_torch, load, reference
from .passes import (bench_schedule, graph_pass, load_plugin, pack, packer, planner, recomputer, schedule, scheduler,
                     transfer_scheduler)
from .problems import (Candidate, Dependence, Node, Operation, PlanProblem, PlanTensor, Resource, Schedule,
                       ScheduleProblem, Separation, TransferSchedule, Use)
from .programs import Machine, SimulationResult, VsmProgram, asm, chip, chips, dis, simulate
from .sweeps import sweep
from .tensors import Description, Tensor
from .training import StepOutcome, TrainStep, train_step

__version__ = _version()
__all__ = [name for name in dir() if not name.startswith("_")]
