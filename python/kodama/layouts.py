"""Layouts: where each element of a tensor lives in the tree of memories (docs/layouts.md)."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Optional, Sequence, Union

from . import _kodama
from .errors import UserError

__all__ = ["Conversion", "Layout", "Place", "conversion_bound", "convert"]

_BITS = {"half": 16, "short": 16, "float": 32, "int": 32, "double": 64, "long": 64}
ElementType = Literal["half", "short", "float", "int", "double", "long"]


def _bits(element: str) -> int:
    if element not in _BITS:
        raise UserError(f"type of elements: found '{element}', allowed: {', '.join(_BITS)}")
    return _BITS[element]


class Place(NamedTuple):
    """Coordinates of an element: ``l2b`` counts over the chip, ``address`` is in long words, ``word`` is the part
    of the long word, the upper one first."""

    l2b: int = 0
    l1b: int = 0
    mab: int = 0
    pe: int = 0
    address: int = 0
    word: int = 0


class Layout:
    """A layout in the notation of docs/layouts.md: a bracket for each axis, its factors from the most to the least
    significant.

    >>> rows = Layout("((4_PE:1), (6:1))@LM0")     # PE i holds row i of a (4, 6) tensor
    >>> rows.where(2, 5)
    [Place(l2b=0, l1b=0, mab=0, pe=2, address=5, word=0)]
    >>> rows.element(Place(pe=2, address=5))
    (2, 5)
    >>> rows.transposed([1, 0])
    Layout('((6:1), (4_PE:1))@LM0')
    """

    def __init__(self, text: str) -> None:
        self._layout = _kodama.Layout(text)

    @classmethod
    def _wrap(cls, layout: _kodama.Layout) -> Layout:
        wrapped = cls.__new__(cls)
        wrapped._layout = layout
        return wrapped

    @property
    def shape(self) -> tuple[int, ...]:
        """The largest lengths of the axes: tensors may be shorter, the rest is padding."""
        return tuple(self._layout.extents())

    @property
    def memory(self) -> str:
        return self._layout.memory()

    @property
    def padding(self) -> str:
        """What padded places hold: undefined, zero, -inf, +inf, one."""
        return self._layout.padding()

    def where(self, *index: int) -> list[Place]:
        """The places of an element, of all its replicas."""
        return [Place(**place) for place in self._layout.places(list(index))]

    def element(self, place: Union[Place, Sequence[int]]) -> Optional[tuple[int, ...]]:
        """The element at a place; None if there is none."""
        index = self._layout.element(list(Place(*place)))
        return None if index is None else tuple(index)

    def validate(self, chip: str = "mncore2", element: ElementType = "float") -> None:
        """Raises :class:`UserError` if coordinates exceed the chip or two elements share a place."""
        self._layout.validate(chip, _bits(element))

    def equivalent(self, other: Layout) -> bool:
        """Whether both are the same mapping, so that nothing has to be moved."""
        return self._layout.equivalent(other._layout)

    def normalized(self) -> Layout:
        """The same mapping, written as short as possible."""
        return Layout._wrap(self._layout.normalized())

    def transposed(self, permutation: Sequence[int]) -> Layout:
        """Axis k of the result is axis ``permutation[k]``; nothing moves."""
        if sorted(permutation) != list(range(len(self.shape))):
            raise UserError(f"permutation {list(permutation)}: allowed are the numbers 0 to {len(self.shape) - 1}, each once")
        return Layout._wrap(self._layout.transposed(list(permutation)))

    def reshaped(self, to: Sequence[int], shape: Optional[Sequence[int]] = None) -> Layout:
        """The tensor of ``shape`` (default: the layout's) as one of shape ``to``; nothing moves. Raises
        :class:`UserError` where that can't be written as a layout."""
        return Layout._wrap(self._layout.reshaped(list(shape or self.shape), list(to)))

    def why_incompatible(self, other: Layout) -> str:
        """Why an element-wise operation can't take operands in both layouts as they are; empty: it can."""
        return _kodama.why_incompatible(self._layout, other._layout)

    def draw(self, shape: Optional[Sequence[int]] = None, element: ElementType = "float", *, instances: int = 8,
             long_words: int = 16) -> str:
        """The tree of memories that hold something, and in each the elements by address, as text."""
        return self._layout.draw(list(shape or self.shape), _bits(element), instances, long_words)

    def places(self, shape: Optional[Sequence[int]] = None, element: ElementType = "float") -> list[dict[str, Any]]:
        """Every place with its element (None: padding), for pandas: l2b, l1b, mab, pe, address, word, element."""
        return json.loads(self._layout.places_json(list(shape or self.shape), _bits(element)))["places"]

    def svg(self, shape: Optional[Sequence[int]] = None, element: ElementType = "float", *, instances: int = 8,
            long_words: int = 16) -> str:
        """The same picture as SVG: a row for each memory, a cell for each element, coloured by its first index."""
        return self._layout.svg(list(shape or self.shape), _bits(element), instances, long_words)

    def __str__(self) -> str:
        return str(self._layout)

    def __repr__(self) -> str:
        return f"Layout('{self}')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._layout == other._layout

    def __hash__(self) -> int:
        return hash(str(self))

    def _repr_html_(self) -> str:
        try:
            return f"<div><code>{html.escape(str(self))}</code>{self.svg(instances=4)}</div>"
        except UserError:  # its elements aren't of 32 bits
            return f"<code>{html.escape(str(self))}</code>"


@dataclass(frozen=True)
class Conversion:
    """A program that brings a tensor from one layout into another.

    ``path`` has the primitives' names, ``cycles`` what the program takes, ``bound`` what no program can beat, and
    ``bound_by`` the port that sets it; ``proven``: no sequence of primitives is cheaper by estimate. ``program``
    is VSM text.
    """

    path: list[str]
    steps: int
    cycles: int
    bound: float
    bound_by: str
    proven: bool
    program: str


def convert(source: Union[str, Layout], target: Union[str, Layout], shape: Sequence[int],
            element: ElementType = "float", chip: str = "mncore2", *, simulate: bool = True) -> Conversion:
    """Finds a program between two layouts; ``simulate``: runs it and checks every element."""
    source, target = (each if isinstance(each, Layout) else Layout(each) for each in (source, target))
    return Conversion(**_kodama.convert_layout(source._layout, target._layout, list(shape), _bits(element), chip,
                                               simulate))


def conversion_bound(source: Union[str, Layout], target: Union[str, Layout], shape: Sequence[int],
                     element: ElementType = "float", chip: str = "mncore2") -> tuple[float, str]:
    """Cycles that no program between two layouts can beat, and the port that sets them."""
    source, target = (each if isinstance(each, Layout) else Layout(each) for each in (source, target))
    return _kodama.conversion_bound(source._layout, target._layout, list(shape), _bits(element), chip)
