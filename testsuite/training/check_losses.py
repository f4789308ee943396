#!/usr/bin/python3
"""Trains LeNet and the MLP of pytorch_losses.py on the simulated mncore2 and holds losses and accuracies against PyTorch's.

usage: testsuite/training/check_losses.py KODAMA MNIST_DIR OUTDIR [--network lenet|mlp] [--epochs N]

Five epochs at gfloat, 50 steps at float. Exits with 77 where PyTorch or the pictures are absent.
"""
import argparse
import csv
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

OPTIMIZERS = {"lenet": "adam:lr=0.002", "mlp": "momentum:lr=0.1"}
# By network and precision: steps whose losses are compared, largest relative difference. Adam divides by the size of a
# gradient: what gfloat's products lose of small gradients grows with the steps (docs/training.md).
LIMITS = {("lenet", "gfloat"): [(10, 1e-3), (50, 1e-1)], ("mlp", "gfloat"): [(50, 1e-3)],
          ("lenet", "float"): [(50, 1e-5)], ("mlp", "float"): [(50, 1e-5)]}
RIGHT = {"lenet": 97.0, "mlp": 95.0}  # percent of the pictures held out, after the last epoch or an earlier one


def train(command, network, mnist, folder, precision, more):
    table = folder / f"{network}_{precision}.csv"
    done = subprocess.run([command, "train", str(folder / f"{network}.onnx"), "--data", f"mnist:{mnist}", "--batch", "64",
                           "--optimizer", OPTIMIZERS[network], "--held-out", "2000", "--precision", precision, "--csv",
                           str(table), "--no-cache", *more], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{network}, {precision}: exit code {done.returncode}: {done.stderr}")
    with open(table, newline="") as rows:
        losses = [float(row["loss"]) for row in csv.DictReader(rows)]
    return losses, [float(x) for x in re.findall(r"held out: ([0-9.]+) %", done.stdout)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kodama")
    parser.add_argument("mnist", type=pathlib.Path)
    parser.add_argument("outdir", type=pathlib.Path)
    parser.add_argument("--network", choices=sorted(OPTIMIZERS))
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None or not options.mnist.is_dir():
        print("skipped: no PyTorch (python3-torch), or no " + str(options.mnist))
        return 77
    options.outdir.mkdir(parents=True, exist_ok=True)
    failed = False
    for network in [options.network] if options.network else sorted(OPTIMIZERS):
        script = pathlib.Path(__file__).with_name("pytorch_losses.py")
        subprocess.run([sys.executable, str(script), network, str(options.mnist), str(options.outdir), "--epochs",
                        str(options.epochs)], check=True)
        torch = json.loads((options.outdir / f"{network}.json").read_text())
        for precision, more in (("gfloat", ["--epochs", str(options.epochs)]), ("float", ["--steps", "50"])):
            losses, right = train(options.kodama, network, options.mnist, options.outdir, precision, more)
            differences = [abs(a - e) / abs(e) for a, e in zip(losses, torch["losses"])]
            for steps, limit in LIMITS[network, precision]:
                worst = max(differences[:steps])
                print(f"{network}, {precision}: losses of the first {min(steps, len(differences))} steps within {worst:.1e} of "
                      f"PyTorch's (allowed {limit:.0e})", flush=True)
                failed |= worst > limit or len(differences) < 50
            if precision == "gfloat":
                print(f"{network}, {precision}: {right} % right, PyTorch {[round(100 * x, 2) for x in torch['right']]} (wanted "
                      f"{RIGHT[network]})", flush=True)
                failed |= max(right, default=0) < RIGHT[network]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
