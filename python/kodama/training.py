"""Training steps on the simulated chip, with the state on the chip from step to step (docs/training.md)."""

from __future__ import annotations

import copy
import io
from typing import Any, Mapping, Optional, Sequence

import numpy

from . import _html, _kodama
from .context import current_context
from .errors import UnsupportedError, UserError
from .models import OPSET, ModelLike, _is_module
from .tensors import TensorLike, _own, hand_out, is_torch

__all__ = ["StepOutcome", "TrainStep", "train_step"]


class StepOutcome(float):
    """The loss of a step, as a number; ``rate`` is the learning rate it had, ``cycles`` what it took on the chip."""

    rate: float
    cycles: int

    def __new__(cls, loss: float, rate: float, cycles: int) -> StepOutcome:
        self = super().__new__(cls, loss)
        self.rate = rate
        self.cycles = cycles
        return self

    def item(self) -> float:
        """As torch's losses have it."""
        return float(self)


class _Statistics:
    """Of a normalization: torch's running variance is that of a sample, ONNX's that of the population. As both go the
    same way from the same beginning, one follows from the other."""

    def __init__(self, name: str, module: Any) -> None:
        self.prefix = f"{name}." if name else ""
        self.momentum = module.momentum
        self.first = module.running_var.clone()
        self.batches = module.num_batches_tracked.clone()
        self.count = 0  # values of a channel in a batch

    def as_torch_has_it(self, state: dict[str, Any], steps: int) -> None:
        name = self.prefix + "running_var"
        if name in state and self.count > 1:
            kept = (1 - self.momentum) ** steps * self.first
            state[name] = kept + (state[name] - kept) * (self.count / (self.count - 1))
        batches = self.prefix + "num_batches_tracked"
        if batches in state:
            state[batches] = self.batches + steps


class TrainStep:
    """A training step: call it with a batch, get the loss.

        step = kodama.train_step(module, torch.nn.CrossEntropyLoss(), optimizer, (x, labels))
        for x, labels in loader:
            loss = step(x, labels)
        module.load_state_dict(step.state_dict())

    The inputs are the module's, in its order, then what the output should be. Parameters, what the optimizer
    remembers of them and running statistics stay on the chip; :meth:`state_dict` fetches them.
    """

    def __init__(self, step: _kodama.TrainStep, module: Any, statistics: Sequence[_Statistics] = ()) -> None:
        self._step = step
        self._module = module
        self._statistics = statistics
        #: Of the last step, in cycles of the chip's clock.
        self.cycles = 0

    @property
    def inputs(self) -> list[str]:
        """Names of what a step takes."""
        return self._step.batch

    @property
    def parameters(self) -> list[str]:
        """Names of what it trains."""
        return self._step.parameters

    @property
    def done(self) -> int:
        """Steps until now."""
        return self._step.done

    def __call__(self, *batch: TensorLike, **named: TensorLike) -> StepOutcome:
        """One step. Raises :class:`UserError` for a batch that isn't of the example's shapes and types."""
        values = dict(zip(self.inputs, batch))
        if len(batch) > len(self.inputs) or set(values) & set(named) or {*values, *named} != set(self.inputs):
            raise UserError(f"train step: found {len(batch)} inputs{''.join(f', {name}' for name in named)}; allowed: "
                            f"{', '.join(self.inputs)}")
        values.update(named)
        loss, rate, self.cycles = self._step.run({name: _own(value) for name, value in values.items()})
        return StepOutcome(loss, rate, self.cycles)

    def state(self) -> dict[str, numpy.ndarray]:
        """Everything that the step keeps, as arrays by name: parameters, running statistics, and the optimizer's."""
        return {name: hand_out(tensor, "numpy") for name, tensor in self._step.state().items()}

    def state_dict(self) -> dict[str, Any]:
        """The module's state as torch tensors, for ``module.load_state_dict``: what the step trains, and the rest
        as the module has it."""
        if not _is_module(self._module):
            raise UserError("state_dict: the step was made of an ONNX model; allowed: state(), which has arrays")
        state = self._step.state()
        result = {name: hand_out(state[name], "torch").reshape(value.shape) if name in state else value.clone()
                  for name, value in self._module.state_dict().items()}
        for each in self._statistics:
            each.as_torch_has_it(result, self.done)
        return result

    def __repr__(self) -> str:
        return f"<kodama.TrainStep of {type(self._module).__name__}: {self.done} steps done>"

    def _repr_html_(self) -> str:
        rows = [("inputs", ", ".join(self.inputs)), ("trains", ", ".join(self.parameters)), ("steps", self.done),
                ("cycles of the last", self.cycles)]
        return _html.table(["", ""], rows)


def train_step(module: ModelLike, loss: Any, optimizer: Any, batch: Sequence[TensorLike], *,
               schedule: str = "constant", clip: str = "", seed: int = 1, chip: Optional[str] = None,
               precision: Optional[str] = None, threads: Optional[int] = None, **options: Any) -> TrainStep:
    """Compiles a training step: forward, loss, gradients and update in one program.

    ``module`` is a ``torch.nn.Module`` (with dropout and normalization as in training), or an ONNX model as
    :func:`kodama.compile` takes it; ``loss`` one of torch's (CrossEntropyLoss, NLLLoss, MSELoss, L1Loss, HuberLoss,
    SmoothL1Loss, BCEWithLogitsLoss; the mean) or a name of ``kodama train --help`` (``"mse"``); ``optimizer`` one of
    torch's (SGD, Adam, AdamW, Adagrad), whose parameters are trained, or a name (``"adam:lr=0.002"``). ``batch`` is
    an example: the inputs, then what the output should be. Its shapes are those of every batch.

    ``schedule`` and ``clip`` are as in ``kodama train --help``, ``seed`` is that of dropout, ``options`` are those of
    :func:`kodama.compile`.
    """
    context = current_context()
    texts = dict(context.options) if context else {}
    texts.update({name.replace("_", "-"): ("yes" if value else "no") if isinstance(value, bool) else str(value)
                  for name, value in options.items()})
    if not isinstance(batch, (list, tuple)) or len(batch) < 2:
        raise UserError("batch: found no inputs and target; allowed: (x, ..., target)")
    name, train, initial, statistics = "model", [], {}, []
    if _is_module(module):
        name = type(module).__name__
        train = _trained(module, optimizer)
        content, statistics = _export_for_training(module, batch[:-1])
        # The export has run the module: the statistics in it are not those of the module any more.
        initial = {key: _own(value) for key, value in module.named_buffers() if value.is_floating_point()}
    else:
        content = _bytes_of(module)
    step = _kodama.TrainStep(
        content, name, _loss(loss), _optimizer(optimizer), schedule, clip, train, seed,
        chip or (context.chip if context else "mncore2"), precision or (context.precision if context else "gfloat"),
        threads if threads is not None else (context.threads if context else 0), texts, initial)
    return TrainStep(step, module, statistics)


def _bytes_of(model: ModelLike) -> bytes:
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    import os

    with open(os.fspath(model), "rb") as file:
        return file.read()


def _export_for_training(module: Any, inputs: Sequence[TensorLike]) -> tuple[bytes, list[_Statistics]]:
    """As ONNX, as the module is in training; nothing is folded, and initializers have the parameters' names."""
    import inspect

    import torch

    twin = copy.deepcopy(module).train()  # exporting runs it, which changes running statistics
    tensors = tuple(torch.as_tensor(each).detach() for each in inputs)
    parameters = list(inspect.signature(module.forward).parameters)
    names = parameters[:len(tensors)] if len(parameters) >= len(tensors) else None
    statistics = []
    for name, each in twin.named_modules():
        if not isinstance(each, torch.nn.modules.batchnorm._BatchNorm) or each.running_var is None:
            continue
        if each.momentum is None:
            raise _unsupported("module", f"{type(module).__name__}.{name}", "normalization without momentum", "give it one")
        own = _Statistics(name, each)
        each.register_forward_hook(
            lambda _, given, __, own=own: setattr(own, "count", given[0].numel() // given[0].shape[1]))
        statistics.append(own)
    file = io.BytesIO()
    try:
        torch.onnx.export(twin, tensors, file, opset_version=OPSET, input_names=names,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    except (torch.onnx.errors.UnsupportedOperatorError, torch.onnx.errors.SymbolicValueError) as error:
        raise UnsupportedError(f"{type(module).__name__}: torch.onnx can't export it: {error}") from error
    return file.getvalue(), statistics


def _trained(module: Any, optimizer: Any) -> list[str]:
    """The names of the module's parameters that the optimizer has."""
    known = {id(value): name for name, value in module.named_parameters()}
    if isinstance(optimizer, str):
        return [name for name, value in module.named_parameters() if value.requires_grad]
    values = [value for group in optimizer.param_groups for value in group["params"]]
    foreign = sum(id(value) not in known for value in values)
    if foreign:
        raise UserError(f"optimizer: found {foreign} parameters that the module doesn't have, allowed: the module's")
    return [known[id(value)] for value in values if value.requires_grad]


def _number(value: Any) -> str:
    return repr(float(value)) if not isinstance(value, bool) else str(int(value))


def _unsupported(what: str, name: str, setting: str, instead: str) -> UnsupportedError:
    return UnsupportedError(f"{what} {name}: {setting}; instead, {instead}")


def _loss(loss: Any) -> str:
    if isinstance(loss, str):
        return loss
    name = type(loss).__name__
    names = {"CrossEntropyLoss": "softmax-cross-entropy", "NLLLoss": "nll", "MSELoss": "mse", "L1Loss": "l1",
             "HuberLoss": "huber", "SmoothL1Loss": "huber", "BCEWithLogitsLoss": "binary-cross-entropy"}
    if name not in names:
        raise UserError(f"loss: found {name}, allowed: {', '.join(names)}, or one of the names "
                        f"{', '.join(row[0] for row in _kodama.train_choices('loss'))}")
    wanted = {"reduction": "mean", "weight": None, "pos_weight": None, "label_smoothing": 0.0, "ignore_index": -100}
    for setting, value in wanted.items():
        found = getattr(loss, setting, value)
        if (found is not None) if value is None else (found != value):
            raise _unsupported("loss", name, f"{setting} other than {value}", f"leave it at {value}")
    if name == "SmoothL1Loss" and loss.beta != 1:
        raise _unsupported("loss", name, f"beta={loss.beta}", "use HuberLoss")
    return f"huber:delta={_number(loss.delta)}" if name == "HuberLoss" else names[name]


def _optimizer(optimizer: Any) -> str:
    if isinstance(optimizer, str):
        return optimizer
    name = type(optimizer).__name__
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    if any(group != groups[0] for group in groups):
        raise _unsupported("optimizer", name, "groups with different settings", "give all parameters the same")
    group = groups[0]
    for flag in ("amsgrad", "maximize", "dampening", "lr_decay", "initial_accumulator_value"):
        if group.get(flag):
            raise _unsupported("optimizer", name, f"{flag}={group[flag]}", "leave it out")
    keys = {"lr": group.get("lr"), "decay": group.get("weight_decay", 0)}
    if name == "SGD":
        kind = "momentum" if group["momentum"] else "sgd"
        if group["momentum"]:
            keys.update(momentum=group["momentum"], nesterov=group["nesterov"])
    elif name in ("Adam", "AdamW"):
        kind = name.lower()
        keys.update(beta1=group["betas"][0], beta2=group["betas"][1], epsilon=group["eps"])
    elif name == "Adagrad":
        kind = "adagrad"
        keys.update(epsilon=group["eps"])
    else:
        raise UserError(f"optimizer: found {name}, allowed: torch's SGD, Adam, AdamW, Adagrad, or one of the names "
                        f"{', '.join(row[0] for row in _kodama.train_choices('optimizer'))}")
    return f"{kind}:" + ",".join(f"{key}={_number(value)}" for key, value in keys.items())
