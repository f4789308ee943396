#!/usr/bin/python3
"""`kodama train --chips`: two chips by MPI train to the bit as one chip with the same shares, and nearly as one chip
with the batch at once; a process that ends takes the others with it (Debian: python3-onnx python3-numpy).

usage: testsuite/training/several_chips.py KODAMA WORKDIR
"""
import csv
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KODAMA, WORK = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
STEPS, BATCH, CLASSES, SIZE = 20, 16, 3, 8
# Of training where only the order of summation differs, which is near by design; all of it in the long suite.
APART = STEPS if "KODAMA_LONG" in os.environ else 6


def make_files():
    """A small convolutional network with BatchNormalization, and pictures of bars in three directions."""
    numbers = np.random.default_rng(5)
    count = 96
    labels = np.arange(count) % CLASSES
    x = numbers.normal(0, 0.3, (count, 1, SIZE, SIZE)).astype(np.float32)
    at = numbers.integers(1, SIZE - 1, count)
    for n in range(count):
        line = [x[n, 0, at[n]], x[n, 0, :, at[n]], np.einsum("ii->i", x[n, 0])][labels[n]]
        line += 1
    np.save(WORK / "x.npy", x)
    np.save(WORK / "labels.npy", labels)
    weights = []

    def constant(name, array):
        weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    nodes = [
        helper.make_node("Conv", ["x", constant("c", numbers.normal(0, 0.5, (4, 1, 3, 3)))], ["conv"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["conv", constant("scale", np.ones(4)), constant("shift", np.zeros(4)),
                                                constant("mean", np.zeros(4)), constant("var", np.ones(4))], ["bn"]),
        helper.make_node("Relu", ["bn"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", constant("w", numbers.normal(0, 0.2, (64, CLASSES))),
                                  constant("b", np.zeros(CLASSES))], ["y"])]
    graph = helper.make_graph(nodes, "bars",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, SIZE, SIZE])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), WORK / "m.onnx")


def command(*options, model="m.onnx", steps=STEPS):
    return [KODAMA, "train", model, "--data", "x.npy", "labels.npy", "--batch", str(BATCH), "--steps", str(steps),
            "--epochs", "100000", "--chip", "tiny", "--optimizer", "adam:lr=0.02", *options]


def train(name, *options, **changed):
    done = subprocess.run(command(*options, "--csv", name, **changed), cwd=WORK, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(WORK / name, encoding="utf-8") as file:
        return list(csv.DictReader(file)), done.stdout


def column(rows, name="loss"):
    return [row[name] for row in rows]


def state_of(name):
    return {t.name: t.raw_data for t in onnx.load(WORK / name).graph.initializer}


def check_bits():
    two, said = train("two.csv", "--chips", "2", "--checkpoint", "two.onnx", "-o", "trained.onnx")
    shares, _ = train("shares.csv", "--accumulate", "2", "--checkpoint", "shares.onnx")
    assert len(two) == STEPS and column(two) == column(shares), (column(two), column(shares))
    assert state_of("two.onnx") == state_of("shares.onnx")
    assert float(two[-1]["loss"]) < 0.5 * float(two[0]["loss"]), column(two)
    # A checkpoint is a step like any other.
    nodes = onnx.load(WORK / "two.onnx").graph.node
    assert all(node.domain == "" for node in nodes)
    # A link's time is charged apart: two rounds of 5 us and half the gradients at 12.5 GB/s, in cycles of 750 MHz.
    assert all(7500 <= int(cycles) < 7600 for cycles in column(two, "interconnect")), column(two, "interconnect")
    assert "of the interconnect" in said, said
    slow, _ = train("slow.csv", "--chips", "2", "--interconnect", "ring:latency=1e-4", steps=2)
    assert 150000 <= int(slow[0]["interconnect"]) < 150100 and column(slow) == column(two)[:2]
    print(f"two chips: loss {two[0]['loss']} to {two[-1]['loss']}, {two[-1]['cycles']} cycles a step and "
          f"{two[-1]['interconnect']} of the interconnect; one chip with the same shares: the same bits")


def check_without_normalization():
    """Where no example depends on the others of its batch, shares are only another order of summation."""
    options = ["--no-batch-statistics"]
    whole, _ = train("whole.csv", *options, steps=APART)
    two, _ = train("two_apart.csv", "--chips", "2", *options, steps=APART)
    for step, (one, other) in enumerate(zip(column(whole), column(two))):
        assert abs(float(one) - float(other)) <= 2e-3 * float(one), (step, one, other)
    four, _ = train("four.csv", "--chips", "2", "--accumulate", "2", *options, steps=6)
    alone, _ = train("alone.csv", "--accumulate", "4", *options, steps=6)
    assert column(four) == column(alone)
    print(f"without statistics of the batch: loss {two[-1]['loss']}, with the batch at once {whole[-1]['loss']}")


def check_checkpoint():
    first, _ = train("first.csv", "--chips", "2", "--checkpoint", "half.onnx", steps=7)
    rest, _ = train("rest.csv", "--chips", "2", model="half.onnx", steps=STEPS - 7)
    with open(WORK / "two.csv", encoding="utf-8") as file:
        assert column(first + rest) == column(csv.DictReader(file))


def check_errors():
    def failure(*options, code=2):
        done = subprocess.run(command(*options), cwd=WORK, capture_output=True, text=True)
        assert done.returncode == code, (done.returncode, done.stdout + done.stderr)
        return done.stderr

    assert failure("--chips", "3").count("--batch 16: not a multiple of 3") == 1
    assert "--interconnect: no effect without --chips" in failure("--interconnect", "ring")
    assert "bandwidth" in failure("--chips", "2", "--interconnect", "ring:speed=1")
    assert "a bandwidth above 0" in failure("--chips", "2", "--interconnect", "ring:bandwidth=0")
    mpirun = subprocess.run(["mpirun", "-n", "2", *command("--chips", "4")], cwd=WORK, capture_output=True, text=True)
    assert mpirun.returncode != 0 and "mpirun has started 2 processes" in mpirun.stderr, mpirun.stderr
    mpirun = subprocess.run(["mpirun", "-n", "2", *command("--chips", "2", "--csv", "by_user.csv", steps=3)], cwd=WORK,
                            capture_output=True, text=True)
    assert mpirun.returncode == 0, mpirun.stderr
    assert (WORK / "by_user.csv").read_text().splitlines() == (WORK / "two.csv").read_text().splitlines()[:4]


def descendants(pid):
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *descendants(int(child))]
    return found


def name_of(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


def start_long(name):
    # Behind the fourth step the processes are in their loop.
    for file in ("long.onnx", name):
        (WORK / file).unlink(missing_ok=True)
    process = subprocess.Popen(command("--chips", "2", "--csv", name, "--checkpoint", "long.onnx", "--checkpoint-every",
                                       "4", steps=10**9), cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    for _ in range(1200):
        if (WORK / "long.onnx").exists():
            return process
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    process.kill()
    raise AssertionError("no step within two minutes")


def end_of(process):
    """What it says, and its exit code; all its processes are gone."""
    chips = [pid for pid in descendants(process.pid) if name_of(pid) == "kodama"]
    assert len(chips) == 2, chips
    yield chips
    text, _ = process.communicate(timeout=60)
    for _ in range(100):
        if not any(pathlib.Path(f"/proc/{pid}").exists() for pid in chips):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("a chip's process is left")
    yield text


def check_ends():
    process = start_long("killed.csv")
    ends = end_of(process)
    os.kill(next(ends)[1], signal.SIGKILL)
    text = next(ends)
    assert process.returncode == 2 and "a process that simulates a chip" in text, (process.returncode, text)
    process = start_long("interrupted.csv")
    ends = end_of(process)
    next(ends)
    process.send_signal(signal.SIGINT)
    text = next(ends)
    assert process.returncode == 130 and "interrupted: " in text, (process.returncode, text)
    assert (WORK / "interrupted.csv").exists()
    process = start_long("left.csv")
    ends = end_of(process)
    next(ends)
    process.send_signal(signal.SIGTERM)
    next(ends)
    assert process.returncode != 0
    print("a process that is ended ends the others; Ctrl-C saves")


WORK.mkdir(parents=True, exist_ok=True)
make_files()
check_bits()
check_without_normalization()
check_checkpoint()
check_errors()
check_ends()
