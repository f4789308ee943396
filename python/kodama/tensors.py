"""Tensors on their way in and out: NumPy, torch, and whatever has the buffer protocol or DLPack.

An input is copied once, into memory that the chip's host then owns; an output is the memory that the run has
filled, seen as an array, and is not copied at all.
"""

from __future__ import annotations

import sys
from typing import Any, Literal, Optional

import numpy

from . import _kodama
from .errors import UserError

__all__ = ["Tensor", "TensorLike", "Description"]

#: What stands for a tensor in calls.
TensorLike = Any
Kind = Literal["numpy", "torch"]


class Description:
    """An input or output: ``name``, ``dtype`` (NumPy's name, or bfloat16, string; None: a sequence), ``shape`` (-1
    where only the data say it)."""

    def __init__(self, name: str, dtype: Optional[str], shape: list[int]) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = tuple(shape)

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Description) and vars(self) == vars(other)


class Tensor:
    """A tensor in Kodama's own memory. As an input it may be given any number of times; ``numpy.asarray(tensor)``
    sees the same memory."""

    def __init__(self, value: TensorLike, dtype: Optional[str] = None) -> None:
        self._tensor = _own(value, dtype)

    @classmethod
    def _wrap(cls, tensor: _kodama.Tensor) -> Tensor:
        wrapped = cls.__new__(cls)
        wrapped._tensor = tensor
        return wrapped

    @property
    def dtype(self) -> str:
        return self._tensor.type

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._tensor.shape)

    @property
    def address(self) -> int:
        """Of its elements, in this process."""
        return self._tensor.address()

    def numpy(self) -> numpy.ndarray:
        """Its memory as an array; bfloat16 as the 16-bit patterns; texts as an array of objects, which is a copy."""
        return _as_numpy(self._tensor)

    def torch(self) -> Any:
        """Its memory as a torch tensor."""
        return _as_torch(self._tensor)

    def __array__(self, dtype: Any = None) -> numpy.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"<kodama.Tensor {self.dtype}{list(self.shape)}>"


def _torch() -> Any:
    """The module, if somebody has imported it: then there may be tensors of its."""
    return sys.modules.get("torch")


def is_torch(value: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(value, torch.Tensor)


def _array_of(value: TensorLike, dtype: Optional[str]) -> tuple[numpy.ndarray, str]:
    """The value's own memory as an array, and the type of its elements."""
    if is_torch(value):
        torch = _torch()
        value = value.detach().cpu()
        if value.dtype == torch.bfloat16:
            return value.view(torch.int16).numpy().view(numpy.uint16), "bfloat16"
        return value.numpy(), str(value.dtype).removeprefix("torch.")
    if isinstance(value, (bool, int, float, complex, list, tuple)):
        try:
            array = numpy.asarray(value, dtype=None if dtype in (None, "bfloat16", "string") else dtype)
        except (TypeError, ValueError) as error:
            raise UserError(f"found {type(value).__name__} that makes no array of {dtype}: {error}") from None
    elif hasattr(value, "__dlpack__") and not isinstance(value, numpy.ndarray):
        array = numpy.from_dlpack(value)
    else:
        array = numpy.asarray(value)
    if array.dtype == object or array.dtype.kind in "US":
        return array, "string"
    if dtype == "bfloat16" and array.dtype == numpy.uint16:
        return array, "bfloat16"
    return array, array.dtype.newbyteorder("=").name


def _own(value: TensorLike, dtype: Optional[str] = None) -> _kodama.Tensor:
    """A copy of the value in memory that nobody else has."""
    array, name = _array_of(value, dtype)
    if name == "string":
        texts = [each if isinstance(each, bytes) else str(each).encode() for each in array.reshape(-1).tolist()]
        return _kodama.Tensor.of_strings(list(array.shape), texts)
    tensor = _kodama.Tensor(name, list(array.shape))
    numpy.copyto(numpy.asarray(tensor), array, casting="equiv")
    return tensor


def _as_numpy(tensor: _kodama.Tensor) -> numpy.ndarray:
    if tensor.type == "string":
        texts = numpy.empty(len(tensor.strings()), dtype=object)
        texts[:] = [text.decode(errors="surrogateescape") for text in tensor.strings()]
        return texts.reshape(tensor.shape)
    return numpy.asarray(tensor)


def _as_torch(tensor: _kodama.Tensor) -> Any:
    import torch

    array = _as_numpy(tensor)
    if tensor.type == "bfloat16":
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    if array.dtype.kind == "u" and array.dtype != numpy.uint8:
        raise UserError(f"an output of {array.dtype}: torch has no such type; allowed: run() and its NumPy arrays")
    return torch.from_numpy(array)


def hand_out(tensor: _kodama.Tensor, kind: Kind) -> Any:
    return _as_torch(tensor) if kind == "torch" and tensor.type != "string" else _as_numpy(tensor)
