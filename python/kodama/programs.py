"""VSM programs: assembling, disassembling, running them on a simulated chip."""

from __future__ import annotations

import json
import os
from typing import Any, Literal, Mapping, Optional, Sequence, Union

import numpy

from . import _html, _kodama
from .errors import UserError

__all__ = ["Machine", "SimulationResult", "VsmProgram", "asm", "chip", "chips", "dis", "simulate"]

Hazards = Literal["ignore", "error", "stale", "stall"]


def chips() -> list[str]:
    """The names of the chips that come with Kodama."""
    return _kodama.chip_names()


def chip(name: str = "mncore2") -> dict[str, Any]:
    """What a chip has: levels of its tree, sizes of memories, clock.

    ``name`` is a chip's name or the path of a chip file; ``,KEY=VALUE`` behind it changes keys of the file.
    Sizes ``..._lw`` are in long words (64 bit) for each instance, ``..._words`` in words of 32 bit for each PE,
    ``clock_hz`` is in Hz.
    """
    return _kodama.chip(name)


class VsmProgram:
    """An assembled program: what :func:`asm` makes. ``str(program)`` is its text in normal form, loops unrolled."""

    def __init__(self, program: _kodama.VsmProgram) -> None:
        self._program = program

    @property
    def chip(self) -> str:
        """The chip that it was checked for."""
        return self._program.chip

    @property
    def steps(self) -> int:
        """Steps that a run executes; one takes 4 cycles, if it doesn't wait."""
        return self._program.counts()[0]

    @property
    def nops(self) -> int:
        """Those of the steps in which nothing happens."""
        return self._program.counts()[1]

    @property
    def mvs(self) -> int:
        """Transfers that a run makes."""
        return self._program.counts()[2]

    def hazards(self) -> list[str]:
        """Where the program breaks distances that the hardware wants between statements: a line each."""
        return self._program.hazards()

    def to_bytes(self, form: Literal["text", "words", "binary"] = "binary") -> bytes:
        """The program as VSM text, machine words, or in Kodama's own format, which keeps loops."""
        return self._program.bytes(form)

    def save(self, path: Union[str, os.PathLike[str]],
             form: Literal["text", "words", "binary"] = "binary") -> None:
        """Writes :meth:`to_bytes` to a file."""
        with open(path, "wb") as file:
            file.write(self.to_bytes(form))

    def __str__(self) -> str:
        return self.to_bytes("text").decode(errors="replace")

    def __repr__(self) -> str:
        return f"<kodama.VsmProgram for {self.chip}: {self.steps} steps, {self.mvs} MV transfers>"

    def _repr_html_(self) -> str:
        return _html.preformatted(repr(self)[1:-1], _html.shortened(str(self)))


def asm(text: str, chip: str = "mncore2", *, file: str = "<asm>") -> VsmProgram:
    """Assembles VSM text.

    ``file`` begins the text of errors, which have line and column. Raises :class:`UserError` (``messages`` has
    one entry for each wrong line) and :class:`UnsupportedError`.

    >>> asm("linc $lm0v $ln0v\\nnop/2\\n")
    <kodama.VsmProgram for mncore2: 3 steps, 0 MV transfers>
    """
    return VsmProgram(_kodama.assemble(text, chip, file))


def dis(path: Union[str, os.PathLike[str]], chip: str = "mncore2") -> VsmProgram:
    """Reads a program file in any form: VSM text, machine words, or Kodama's binary one."""
    return VsmProgram(_kodama.read_program(os.fspath(path), chip))


class SimulationResult:
    """What a run of a program did.

    ``steps``, ``nops``, ``mvs`` are what was executed, ``cycles`` the cycles of the chip's clock (0 without
    timing) and ``seconds`` these in time; ``dump`` has the lines that ``d get`` printed.
    """

    def __init__(self, result: _kodama.RunResult, machine: Machine) -> None:
        self.cycles: int = result.cycles
        self.steps: int = result.steps
        self.nops: int = result.nops
        self.mvs: int = result.mvs
        self.dump: list[str] = result.dump
        #: Cycles by what they were spent on.
        self.causes: dict[str, Any] = json.loads(result.causes)
        #: What ``kodama sim --stats json`` prints, if it was asked for; else empty.
        self.statistics: dict[str, Any] = json.loads(result.statistics) if result.statistics else {}
        #: The machine that ran it, with the contents of all memories.
        self.machine = machine

    @property
    def seconds(self) -> float:
        """Of the chip."""
        return self.cycles / float(_kodama.chip(self.machine.chip)["clock_hz"])

    def __repr__(self) -> str:
        return f"<kodama.SimulationResult: {self.steps} steps ({self.nops} nop), {self.mvs} MV transfers, " \
               f"{self.cycles} cycles>"

    def _repr_html_(self) -> str:
        rows = [("steps", self.steps), ("nop", self.nops), ("MV transfers", self.mvs), ("cycles", self.cycles)]
        return _html.table(["", ""], rows) + (_html.preformatted("dump", _html.shortened("\n".join(self.dump)))
                                             if self.dump else "")


class Machine:
    """A simulated chip: its memories at their real size, and runs of programs on them.

    ``memory`` is what they hold at first: ``"zero"``, or ``"dirty"``, pseudo-random from ``seed``. ``threads``
    of this computer do the work; 0 means all its cores.

    >>> machine = Machine("tiny")
    >>> machine.write("DRAM", 0, numpy.arange(64, dtype=numpy.uint64))
    >>> int(machine.read("DRAM", 5, 1)[0])
    5
    """

    def __init__(self, chip: str = "mncore2", *, threads: int = 0,
                 memory: Literal["zero", "dirty"] = "zero", seed: int = 1) -> None:
        self._machine = _kodama.Machine(chip, threads, memory, seed)
        self._name = chip

    @property
    def chip(self) -> str:
        """The name or file that it was made of."""
        return self._name

    def run(self, program: Union[str, VsmProgram], *, timing: bool = True, hazards: Hazards = "ignore",
            statistics: bool = False, trace: Union[str, os.PathLike[str]] = "",
            vcd: Union[str, os.PathLike[str]] = "") -> SimulationResult:
        """Runs VSM text or an assembled program to its end.

        ``hazards`` says what to do about programs that break the distances of the hardware, as ``kodama sim
        --hazards``. ``trace`` and ``vcd`` are files to write, for Perfetto and GTKWave.
        """
        if isinstance(program, str):
            program = asm(program, self._name)
        return SimulationResult(
            self._machine.run(program._program, timing, hazards, os.fspath(trace), os.fspath(vcd), statistics), self)

    def size(self, memory: str) -> int:
        """Addresses of one instance of a memory: words for LM and GRF, else long words."""
        return self._machine.size(memory)

    def read(self, memory: str, address: int = 0, count: int = 1, *, group: int = 0, l2b: int = 0, l1b: int = 0,
             mab: int = 0, pe: int = 0) -> numpy.ndarray:
        """``count`` long words (uint64) of a memory (``"DRAM"``, ``"PDM"``, ``"L2BM"``, ``"L1BM"``, ``"LM0"``, ...),
        from ``address`` on.

        ``group``, ``l2b`` (inside the group), ``l1b``, ``mab`` and ``pe`` say whose; those below the memory's
        level are ignored. Addresses of LM and GRF count words, so that one long word has two.
        """
        return self._machine.read(memory, address, count, [group, l2b, l1b, mab, pe])

    def write(self, memory: str, address: int, data: Any, *, group: int = 0, l2b: int = 0, l1b: int = 0,
              mab: int = 0, pe: int = 0) -> None:
        """Writes long words: an array of uint64, or of any type whose rows make whole long words."""
        array = numpy.ascontiguousarray(data)
        if array.dtype != numpy.uint64:
            if array.nbytes % 8 != 0:
                raise UserError(f"write: found {array.nbytes} bytes, allowed: whole long words, of 8 bytes")
            array = array.reshape(-1).view(numpy.uint64)
        self._machine.write(memory, address, array.reshape(-1), [group, l2b, l1b, mab, pe])

    def __repr__(self) -> str:
        return f"<kodama.Machine {self._name}>"


def simulate(program: Union[str, VsmProgram], chip: str = "mncore2", *,
             dram: Optional[Mapping[int, Any]] = None, memory: Literal["zero", "dirty"] = "zero", seed: int = 1,
             threads: int = 0, timing: bool = True, hazards: Hazards = "ignore", statistics: bool = False,
             trace: Union[str, os.PathLike[str]] = "", vcd: Union[str, os.PathLike[str]] = "") -> SimulationResult:
    """Runs VSM text, or an assembled program, on a chip of its own.

    ``dram`` has what is in group 0's DRAM before, by address (long words). What is in the memories behind it,
    ``result.machine`` knows.

    >>> simulate("linc $lm0v $ln0v\\nnop/2\\n", "tiny").cycles
    12
    """
    if isinstance(program, VsmProgram):
        machine = Machine(chip if chip != "mncore2" else program.chip, threads=threads, memory=memory, seed=seed)
    else:
        machine = Machine(chip, threads=threads, memory=memory, seed=seed)
    for address, data in (dram or {}).items():
        machine.write("DRAM", address, data)
    return machine.run(program, timing=timing, hazards=hazards, statistics=statistics, trace=trace, vcd=vcd)
