"""Compiles, runs and inspects mutated ONNX models on the small chip. The program that KODAMA_MUTATE_MODEL names
(mutate_model.cpp) makes the models from models.txt."""

import os
import pathlib
import subprocess
import sys

import run_limited

HERE = pathlib.Path(__file__).resolve().parent


def make(kodama):
    mutator = os.environ["KODAMA_MUTATE_MODEL"]
    models = HERE / "models.txt"
    count = sum(1 for line in models.read_text().splitlines() if line and not line.startswith("#"))

    def make_case(rng, index, folder):
        # The first ones are the models as they are.
        number = index if index < count else rng.randrange(count, 1 << 62)
        subprocess.run([mutator, models, str(number), folder / "model.onnx"], check=True)
        if index % 3 == 2:
            return [[kodama, "inspect", "model.onnx"]]
        command = ["compile", "model.onnx", "-o", "package"] if index % 3 else ["run", "model.onnx"]
        return [[kodama, *command, "--chip", "tiny"]]

    return make_case


if __name__ == "__main__":
    sys.exit(run_limited.drive(__doc__, 150, make))
