"""Runs commands on hostile input under limits of memory and time, and tells what no input may cause: a signal,
exit 70 ("our bug"), a time-out. The drivers of this folder (one for each kind of input) give it their cases.

A driver is a program:   DRIVER KODAMA [--count N] [--seed S] [--only I] [--keep DIR]
Case I is made from (seed, I) alone, so `--seed S --only I --keep DIR` repeats one and keeps its input.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from typing import Callable, Sequence

MEMORY_LIMIT = 4 << 30  # bytes of address space
TIME_LIMIT = 20  # seconds of wall time
OUR_BUG = 70  # the exit status


@dataclasses.dataclass
class Outcome:
    status: int  # as subprocess gives it: negative for a signal
    timed_out: bool
    seconds: float
    output: str  # of both streams, the last of it

    @property
    def problem(self) -> str:
        """What no input may cause, or ''."""
        if self.timed_out:
            return f"no end after {self.seconds:.0f} s"
        if self.status < 0:
            return f"signal {signal.Signals(-self.status).name}"
        if self.status > 128:  # of a process below a shell
            return f"exit {self.status}"
        return "exit 70" if self.status == OUR_BUG else ""


def run_limited(argv: Sequence[str], memory: int = MEMORY_LIMIT, seconds: float = TIME_LIMIT, cwd=None) -> Outcome:
    """Runs one command; its process group is gone when this returns."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = dict(os.environ, KODAMA_CACHE="off", OMP_WAIT_POLICY="PASSIVE", OMP_NUM_THREADS="2")
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=cwd,
                                   env=environment, preexec_fn=limit, start_new_session=True)
        timed_out = False
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
        if timed_out:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - 2000))
        text = output.read().decode(errors="replace")
    return Outcome(process.returncode, timed_out, time.monotonic() - start, text)


# make_case(rng, index, folder) writes the input of a case into the empty folder and gives the commands to run on it.
MakeCase = Callable[[random.Random, int, pathlib.Path], Sequence[Sequence[str]]]


def drive(description: str, default_count: int, make: Callable[[str], MakeCase]) -> int:
    """The main program of a driver: make(kodama) gives its make_case. Returns the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("kodama", help="the program under test")
    parser.add_argument("--count", type=int, default=default_count, help="cases (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all cases (default: %(default)s)")
    parser.add_argument("--only", type=int, help="run this case alone and print what it says")
    parser.add_argument("--keep", type=pathlib.Path, help="with --only: write the input into this new folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time (default: %(default)s)")
    options = parser.parse_args()
    make_case = make(os.path.abspath(options.kodama))

    def run_case(index: int):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            if options.keep:
                folder = options.keep
                folder.mkdir(parents=True)
            outcomes = []
            for argv in make_case(random.Random(f"{options.seed} {index}"), index, folder):
                outcome = run_limited(argv, cwd=folder)
                outcomes.append((argv, outcome))
                if outcome.problem:
                    break
            return index, outcomes

    indices = [options.only] if options.only is not None else range(options.count)
    accepted = refused = 0
    slowest = (0.0, 0)
    problems = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for index, outcomes in pool.map(run_case, indices):
            for argv, outcome in outcomes:
                slowest = max(slowest, (outcome.seconds, index))
                if options.only is not None:
                    print(f"$ {shlex.join(argv)}\n{outcome.output}exit {outcome.status}")
                if outcome.problem:
                    problems.append(index)
                    print(f"case {index}: {outcome.problem}: {shlex.join(argv)}\n{outcome.output.strip()[-600:]}\n"
                          f"  again: {sys.argv[0]} {options.kodama} --seed {options.seed} --only {index} --keep DIR",
                          flush=True)
            if any(outcome.status for _, outcome in outcomes):
                refused += 1
            else:
                accepted += 1
    print(f"{accepted} accepted, {refused} refused, {len(problems)} with a signal, exit 70 or a time-out; "
          f"slowest {slowest[0]:.1f} s (case {slowest[1]}); seed {options.seed}")
    return 1 if problems else 0
