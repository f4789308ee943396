"""Problems that passes solve, and their solutions, as plain Python objects.

They are what docs/schedules.md has as JSON files, with every field that a file may leave out filled in.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Union

from . import _html, _kodama

__all__ = [
    "Candidate", "Dependence", "Node", "Operation", "PlanProblem", "PlanTensor", "Resource", "Schedule",
    "ScheduleProblem", "Separation", "TransferSchedule", "Use",
]


@dataclass(frozen=True)
class Resource:
    """Has room for ``capacity`` users in a step."""

    name: str = ""
    capacity: int = 1


@dataclass(frozen=True)
class Use:
    """Of resource number ``resource`` by an operation. Users with the same ``key`` (0 or more) share one place;
    key -1: with nobody. ``invariant``: the key means the same in every iteration of a loop."""

    resource: int
    key: int = -1
    invariant: bool = False


@dataclass(frozen=True)
class Operation:
    """Issues in one step, not before ``earliest``. ``takes_step`` is false of what issues between steps (MVs), which
    uses nothing. ``classes`` are those that separations name. ``text`` is for people."""

    text: str = ""
    earliest: int = 0
    takes_step: bool = True
    uses: tuple[Use, ...] = ()
    classes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Dependence:
    """``to`` issues at least ``distance`` steps after ``from_``; in a loop ``iterations`` iterations later:
    ``issue[to] + iterations * interval >= issue[from_] + distance``."""

    from_: int
    to: int
    distance: int = 0
    iterations: int = 0


@dataclass(frozen=True)
class Separation:
    """In the ``steps`` steps after an operation of class ``first``, none of class ``second`` issues, whichever
    comes first in the program."""

    first: int
    second: int
    steps: int


@dataclass(frozen=True)
class ScheduleProblem:
    """When does each operation of a block, or of a loop's body, issue?

    Operations are in program order: dependences of no iterations lead forward. ``resources`` and ``classes`` are
    referred to by number.
    """

    name: str = ""
    loop: bool = False
    resources: tuple[Resource, ...] = ()
    classes: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    dependences: tuple[Dependence, ...] = ()
    separations: tuple[Separation, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> ScheduleProblem:
        """Of a text that Kodama has written; a user's file goes through :meth:`read`, which checks it."""
        fields = json.loads(text)
        return cls(
            name=fields.get("name", ""),
            loop=fields.get("loop", False),
            resources=tuple(Resource(**each) for each in fields.get("resources", ())),
            classes=tuple(fields.get("classes", ())),
            operations=tuple(
                Operation(each.get("text", ""), each.get("earliest", 0), each.get("takes_step", True),
                          tuple(Use(**use) for use in each.get("uses", ())), tuple(each.get("classes", ())))
                for each in fields.get("operations", ())),
            dependences=tuple(
                Dependence(each["from"], each["to"], each["distance"], each.get("iterations", 0))
                for each in fields.get("dependences", ())),
            separations=tuple(Separation(**each) for each in fields.get("separations", ())))

    @classmethod
    def read(cls, path: Union[str, os.PathLike[str]]) -> ScheduleProblem:
        """Reads a file of ``--dump-after schedule-problem``. Raises :class:`UserError` for what is none."""
        return cls.from_json(_kodama.check_schedule_problem(_read(path), os.fspath(path)))

    def to_json(self) -> str:
        """As such a file."""
        return json.dumps({
            "name": self.name,
            "loop": self.loop,
            "resources": [vars(each) for each in self.resources],
            "classes": list(self.classes),
            "operations": [{"id": number, "text": each.text, "earliest": each.earliest,
                            "takes_step": each.takes_step, "uses": [vars(use) for use in each.uses],
                            "classes": list(each.classes)} for number, each in enumerate(self.operations)],
            "dependences": [{"from": each.from_, "to": each.to, "distance": each.distance,
                             "iterations": each.iterations} for each in self.dependences],
            "separations": [vars(each) for each in self.separations],
        })

    def fault(self, issue: list[int], interval: int = 0) -> str:
        """The rule that a schedule breaks, with the operations that break it; empty: it is right."""
        return _kodama.schedule_fault(self.to_json(), self.name or "problem", list(issue), interval)

    def _repr_html_(self) -> str:
        rows = [(number, each.text, each.earliest,
                 ", ".join(self.resources[use.resource].name + (f"[{use.key}]" if use.key >= 0 else "")
                           for use in each.uses),
                 ", ".join(f"{edge.from_} by {edge.distance}" for edge in self.dependences if edge.to == number))
                for number, each in enumerate(self.operations)]
        return _html.table(["", self.name, "earliest", "uses", "after"], rows)


@dataclass(frozen=True)
class Schedule:
    """``issue[k]`` is the step of operation k, from 0; ``interval`` the steps between two iterations of a loop.

    ``optimal`` claims that nothing is shorter; of a pass it is a claim until Kodama has shown it. What
    :func:`kodama.schedule` returns has ``length`` (steps of a block, the interval of a loop), and the ``bound``
    that no schedule beats.
    """

    issue: list[int]
    interval: int = 0
    optimal: bool = False
    length: int = field(default=0, compare=False)
    bound: int = field(default=0, compare=False)
    problem: Optional[ScheduleProblem] = field(default=None, compare=False, repr=False)

    def draw(self) -> str:
        """The operations by the step in which they issue."""
        texts = [each.text for each in self.problem.operations] if self.problem else [""] * len(self.issue)
        return "\n".join(f"{step:>5}  {text}" for step, text in sorted(zip(self.issue, texts), key=lambda each: each[0]))

    def _repr_html_(self) -> str:
        return _html.preformatted(f"{self.length} steps, bound {self.bound}", _html.shortened(self.draw()))


@dataclass(frozen=True)
class TransferSchedule:
    """When data is fetched (docs/schedules.md, "Transfers").

    ``issue``: of each transfer the position before which it is issued, -1 if it falls away. ``copied``: of each
    transfer, whether it is a copy. ``address``: of each buffer, in long words. ``kept``: of each keep.
    """

    issue: list[int]
    address: list[int]
    kept: list[bool]
    copied: list[bool]


@dataclass(frozen=True)
class Candidate:
    """Of a node: what it costs, and in which layout it wants each operand (-1: it does without)."""

    name: str
    cost: float
    layouts: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    name: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class PlanTensor:
    """Made by ``maker`` and read by ``readers``: (node, operand) each."""

    name: str
    maker: tuple[int, int]
    readers: tuple[tuple[int, int], ...]


class PlanProblem:
    """One candidate for each node, so that nodes and conversions between them cost least (docs/write-a-pass.md).

    Lives as long as the planner that got it runs. Layouts are numbers.
    """

    def __init__(self, view: _kodama.PlanView) -> None:
        self._view = view
        #: In the order of the network.
        self.nodes = tuple(
            Node(name, tuple(Candidate(each, cost, tuple(layouts)) for each, cost, layouts in candidates))
            for name, candidates in view.nodes())
        self.tensors = tuple(
            PlanTensor(name, maker, tuple(readers)) for name, maker, readers in view.tensors())

    def conversion(self, tensor: int, source: int, target: int) -> float:
        """Cycles of converting a tensor; 0 if both layouts are equal, infinite if it can't be. The first time for
        two layouts it takes long: ask for what the plan is about to use."""
        return self._view.conversion(tensor, source, target)

    def at_least(self, tensor: int, source: int, target: int) -> float:
        """What :meth:`conversion` is at least, and quickly."""
        return self._view.at_least(tensor, source, target)

    def cost(self, choice: list[int]) -> float:
        """Of a candidate for each node: all nodes and conversions."""
        return self._view.cost(choice)


def _read(path: Union[str, os.PathLike[str]]) -> str:
    return _kodama.read_text(os.fspath(path))
