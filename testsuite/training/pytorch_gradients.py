#!/usr/bin/python3
"""Gradients by `kodama grad` beside those of torch.autograd (Debian: python3-torch python3-onnx; python3-torchvision for RoiAlign).

usage: testsuite/training/pytorch_gradients.py KODAMA OUTDIR [--filter REGEX] [--seed N]

Every row of VARIANTS is exported as ONNX; its loss is the sum of the results with random weights. `kodama run` computes loss
and gradients on the tiny chip in float precision and by the CPU reference, and holds both against PyTorch's: the largest
difference of a tensor over its largest magnitude is at most 1e-4. Exits with 77 where PyTorch is absent.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import warnings

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    import torchvision
except ImportError:
    torchvision = None

TOLERANCE = 1e-4


class Function(nn.Module):
    """A function of the inputs as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Loss(nn.Module):
    """The sum of all results, each element with a weight of its own."""

    def __init__(self, body, inputs, generator):
        super().__init__()
        self.body = body
        self.weights = []
        with torch.no_grad():
            results = self.results(*inputs)
        for i, result in enumerate(results):
            self.register_buffer(f"weight{i}", torch.rand(result.shape, generator=generator) + 0.5)

    def results(self, *inputs):
        out = self.body(*inputs)
        flat = []
        for each in out if isinstance(out, (tuple, list)) else [out]:
            flat += list(each) if isinstance(each, (tuple, list)) else [each]
        return flat

    def forward(self, *inputs):
        return sum((result * getattr(self, f"weight{i}")).sum() for i, result in enumerate(self.results(*inputs)))


def f(function, *shapes, low=-1.0, high=1.0):
    return lambda: Function(function), shapes, low, high


def m(make, *shapes, low=-1.0, high=1.0):
    return make, shapes, low, high


class FirstOf(nn.Module):
    """RNNs: output and last states."""

    def __init__(self, rnn):
        super().__init__()
        self.rnn = rnn

    def forward(self, x):
        return self.rnn(x)


@torch.jit.script
def scripted_loop(x, w):
    h = torch.tanh(x[0])
    for i in range(x.size(0)):
        h = torch.tanh(x[i] + torch.matmul(h, w))
    return h


@torch.jit.script
def scripted_while(x, w):
    h = x
    i = 0
    while bool(h.sum() < 20.0) and i < 9:
        h = h * w
        i += 1
    return h


@torch.jit.script
def scripted_if(x, w):
    if bool(x.sum() > 0):
        y = torch.matmul(x, w)
    else:
        y = torch.exp(x)
    return y * x


INDEX = torch.tensor([[0, 2, 1], [3, 0, 2]])
LABELS = torch.tensor([1, 0, 3, 2])
VARIANTS = {
    "softmax": f(lambda x: F.softmax(x, 1), (3, 5)),
    "log_softmax": f(lambda x: F.log_softmax(x, -1), (2, 3, 5)),
    "logsumexp": f(lambda x: torch.logsumexp(x, 1), (3, 5)),
    "gelu": f(F.gelu, (3, 5)),
    "silu": f(F.silu, (3, 5)),
    "elu": f(lambda x: F.elu(x, 1.5), (3, 5)),
    "softplus": f(F.softplus, (3, 5)),
    "prelu": m(lambda: nn.PReLU(4), (2, 4, 3)),
    "pow_div_sqrt": f(lambda x, y: torch.sqrt(x) / y ** 1.5, (3, 4), (1, 4), low=0.5, high=2.0),
    "norm_2": f(lambda x: torch.norm(x, dim=1), (3, 4)),
    "matmul_broadcast": f(torch.matmul, (2, 3, 4), (4, 5)),
    "linear": m(lambda: nn.Linear(4, 5), (3, 4)),
    "bmm": f(torch.bmm, (2, 3, 4), (2, 4, 5)),
    "einsum_three": f(lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 2)),
    "einsum_sum": f(lambda a, b: torch.einsum("ij,kj->i", a, b), (3, 4), (2, 4)),
    "attention": m(lambda: nn.MultiheadAttention(8, 2, batch_first=True), (2, 3, 8), (2, 3, 8), (2, 3, 8)),
    "conv1d_stride": m(lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1), (2, 2, 9)),
    "conv2d": m(lambda: nn.Conv2d(2, 4, 3, padding=1), (2, 2, 6, 6)),
    "conv2d_stride_dilation": m(lambda: nn.Conv2d(2, 3, 3, stride=2, dilation=2, padding=2), (1, 2, 9, 8)),
    "conv2d_groups": m(lambda: nn.Conv2d(4, 6, (3, 2), groups=2), (2, 4, 5, 6)),
    "conv2d_depthwise": m(lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False), (1, 4, 6, 6)),
    "conv3d": m(lambda: nn.Conv3d(1, 2, 2, stride=(1, 2, 1)), (1, 1, 4, 5, 4)),
    "conv_transpose1d": m(lambda: nn.ConvTranspose1d(2, 3, 3, stride=2), (1, 2, 5)),
    "conv_transpose2d": m(lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), (1, 2, 4, 5)),
    "conv_transpose2d_groups": m(lambda: nn.ConvTranspose2d(4, 4, 3, groups=2, dilation=2), (1, 4, 4, 4)),
    "max_pool2d": f(lambda x: F.max_pool2d(x, 3, 2, 1), (1, 2, 7, 7)),
    "max_pool2d_dilation": f(lambda x: F.max_pool2d(x, 2, 1, 0, 2), (1, 2, 6, 6)),
    "avg_pool2d": f(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (1, 2, 7, 7)),
    "avg_pool1d": f(lambda x: F.avg_pool1d(x, 3, 2), (1, 2, 9)),
    "avg_pool3d": f(lambda x: F.avg_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "global_pool": f(lambda x: F.adaptive_avg_pool2d(x, 1), (2, 3, 4, 5)),
    "batch_norm_training": m(lambda: nn.BatchNorm2d(3), (4, 3, 3, 2)),
    "batch_norm_1d_training": m(lambda: nn.BatchNorm1d(4), (6, 4)),
    "instance_norm": m(lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
    "layer_norm": m(lambda: nn.LayerNorm(5), (2, 3, 5)),
    "group_norm": m(lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "local_response_norm": m(lambda: nn.LocalResponseNorm(3), (1, 5, 3, 3)),
    "lstm": m(lambda: FirstOf(nn.LSTM(3, 4)), (5, 2, 3)),
    "lstm_bidirectional": m(lambda: FirstOf(nn.LSTM(3, 2, bidirectional=True)), (4, 2, 3)),
    "lstm_two_layers": m(lambda: FirstOf(nn.LSTM(3, 2, num_layers=2)), (3, 2, 3)),
    "gru": m(lambda: FirstOf(nn.GRU(3, 4)), (5, 2, 3)),
    "gru_bidirectional": m(lambda: FirstOf(nn.GRU(3, 2, bidirectional=True)), (4, 2, 3)),
    "rnn": m(lambda: FirstOf(nn.RNN(3, 4)), (5, 2, 3)),
    "gather_elements": f(lambda x: torch.gather(x, 1, INDEX), (2, 4)),
    "index_select": f(lambda x: torch.index_select(x, 1, torch.tensor([0, 2, 2])), (3, 4)),
    "embedding": m(lambda: nn.Sequential(Function(lambda x: F.embedding(INDEX, x))), (5, 3)),
    "scatter": f(lambda x, u: torch.scatter(x, 1, INDEX, u), (2, 4), (2, 3)),
    "scatter_add": f(lambda x, u: torch.scatter_add(x, 1, torch.tensor([[0, 0, 1], [3, 0, 3]]), u), (2, 4), (2, 3)),
    "topk": f(lambda x: torch.topk(x, 3, dim=1)[0], (3, 6)),
    "sort": f(lambda x: torch.sort(x, dim=1)[0], (3, 6)),
    "max_of_axis": f(lambda x: torch.max(x, 1)[0], (3, 6)),
    "cumsum": f(lambda x: torch.cumsum(x, 1), (3, 5)),
    "flip_slice_cat": f(lambda x, y: torch.cat([x[:, 1::2], torch.flip(y, [1])], 1), (2, 6), (2, 3)),
    "pad_reflect": f(lambda x: F.pad(x, (2, 1, 1, 1), mode="reflect"), (1, 2, 4, 5)),
    "pad_replicate": f(lambda x: F.pad(x, (2, 1, 1, 1), mode="replicate"), (1, 2, 4, 5)),
    "where_clamp": f(lambda x, y: torch.where(x > 0.1, torch.clamp(y, -0.5, 0.5), x * y), (3, 4), (3, 4)),
    "pixel_shuffle": f(lambda x: F.pixel_shuffle(x, 2), (1, 8, 2, 3)),
    "resize_nearest": f(lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (1, 2, 3, 4)),
    "resize_linear": f(lambda x: F.interpolate(x, size=(5, 7), mode="bilinear"), (1, 2, 3, 4)),
    "resize_linear_corners": f(lambda x: F.interpolate(x, size=(6, 7), mode="bilinear", align_corners=True), (1, 2, 3, 4)),
    "resize_cubic": f(lambda x: F.interpolate(x, size=(6, 8), mode="bicubic"), (1, 2, 3, 4)),
    "grid_sample": f(lambda x, g: F.grid_sample(x, g, align_corners=False), (1, 2, 4, 5), (1, 3, 3, 2), low=-0.9, high=0.9),
    "grid_sample_border": f(lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), (1, 2, 4, 5), (1, 3, 3, 2), low=-0.9, high=0.9),
    "scripted_loop": f(scripted_loop, (4, 2, 3), (3, 3)),
    "scripted_while": f(scripted_while, (3, 4), (3, 4), low=1.1, high=1.5),
    "scripted_then": f(scripted_if, (2, 3), (3, 3), low=0.1),
    "scripted_else": f(scripted_if, (2, 3), (3, 3), high=-0.1),
    "cross_entropy": f(lambda x: F.cross_entropy(x, LABELS), (4, 5)),
    "cross_entropy_sum": f(lambda x: F.cross_entropy(x, LABELS, weight=torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0]), reduction="sum"), (4, 5)),
    "nll": f(lambda x: F.nll_loss(F.log_softmax(x, 1), LABELS), (4, 5)),
    "mse": f(lambda x, y: ((x - y) ** 2).mean(), (3, 4), (3, 4)),
    "l1": f(lambda x, y: (x - y).abs().mean(), (3, 4), (3, 4)),
    "huber": f(lambda x, y: torch.where((x - y).abs() < 0.5, (x - y) ** 2, (x - y).abs() - 0.25).mean(), (3, 4), (3, 4)),
    "binary_cross_entropy": f(lambda x: F.binary_cross_entropy_with_logits(x, torch.full((3, 4), 0.3)), (3, 4)),
}
if torchvision is not None:
    ROIS = torch.tensor([[0.0, 0.5, 0.5, 5.0, 4.0], [0.0, 1.0, 2.0, 6.5, 6.0]])
    VARIANTS["roi_align"] = f(lambda x: torchvision.ops.roi_align(x, ROIS, (2, 3), 0.5, 2, aligned=True), (1, 2, 8, 8))
    VARIANTS["roi_align_wide"] = f(lambda x: torchvision.ops.roi_align(x, ROIS, (2, 2), 1.0, 3, aligned=True), (1, 3, 8, 8))


def kodama(command, arguments):
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"kodama {arguments[0]}: exit code {done.returncode}: {done.stderr.strip()[:500]}")
    return done


def check(name, command, folder, seed):
    """The largest difference of each side, and how many gradients there are."""
    make, shapes, low, high = VARIANTS[name]
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    inputs = [(torch.rand(shape, generator=generator) * (high - low) + low).requires_grad_() for shape in shapes]
    loss = Loss(make(), inputs, generator)
    loss.train()
    names = [f"x{i}" for i in range(len(inputs))]
    model = folder / "forward.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(loss, tuple(x.detach() for x in inputs), str(model), opset_version=17, input_names=names,
                          output_names=["loss"], training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    value = loss(*inputs)
    value.backward()
    there = {tensor.name for tensor in onnx.load(str(model)).graph.initializer}
    # None for what the way that was taken doesn't read.
    wanted = {n: torch.zeros_like(x) if x.grad is None else x.grad for n, x in zip(names, inputs)}
    for parameter, tensor in loss.named_parameters():
        if parameter not in there:
            raise RuntimeError(f"the exported model has no '{parameter}'")
        wanted[parameter] = tensor.grad
    gradients = folder / "model.onnx"  # as --test-data wants it
    kodama(command, ["grad", str(model), "--loss", "loss", "-o", str(gradients), "--wrt", *wanted])
    graph = onnx.load(str(gradients)).graph
    data = folder / "test_data_set_0"
    data.mkdir(exist_ok=True)
    for i, (n, x) in enumerate(zip(names, inputs)):
        (data / f"input_{i}.pb").write_bytes(numpy_helper.from_array(x.detach().numpy(), n).SerializeToString())
    expected = {"loss": value.detach()} | {f"{n}.grad": g for n, g in wanted.items()}
    for i, output in enumerate(graph.output):
        tensor = numpy_helper.from_array(expected[output.name].numpy(), output.name)
        (data / f"output_{i}.pb").write_bytes(tensor.SerializeToString())
    done = kodama(command, ["run", str(gradients), "--chip", "tiny", "--precision", "float", "--tolerance", str(TOLERANCE),
                            "--test-data", str(folder), "--no-cache"])
    worst = {"reference": 0.0, "chip": 0.0}
    compared = 0
    for side, verdict in re.findall(r"\.grad against the (CPU reference|recorded output): (.*)", done.stdout):
        difference = re.search(r"over largest magnitude ([^ ,]+)", verdict)
        key = "chip" if side == "recorded output" else "reference"
        compared += key == "chip"
        worst[key] = max(worst[key], float(difference[1]) if difference and "FAILED" not in verdict else float("inf"))
    if compared != len(wanted):
        raise RuntimeError(f"{compared} of {len(wanted)} gradients were compared: {done.stdout[-300:]}")
    return worst, len(wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kodama")
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--filter", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = tried = gradients = 0
    largest = 0.0
    for name in VARIANTS:
        if not re.search(options.filter, name):
            continue
        folder = options.outdir / name
        folder.mkdir(parents=True, exist_ok=True)
        tried += 1
        try:
            worst, count = check(name, options.kodama, folder, options.seed)
        except (RuntimeError, ValueError, KeyError) as error:
            print(f"{name}: FAILED: {error}")
            failed += 1
            continue
        ok = max(worst.values()) <= TOLERANCE
        failed += not ok
        gradients += count
        largest = max(largest, worst["chip"])
        print(f"{name}: {count} gradients; chip against PyTorch {worst['chip']:.1e}, against the reference {worst['reference']:.1e}"
              f"{'' if ok else ': FAILED'}", flush=True)
    print(f"seed {options.seed}: {tried} variants, {gradients} gradients, {failed} failed; largest difference from PyTorch {largest:.1e}")
    return 1 if failed or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
