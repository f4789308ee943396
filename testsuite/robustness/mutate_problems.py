#!/usr/bin/python3
"""Mutates problems and solutions of schedulers and packers (JSON and CSV): `kodama schedule`, `pack`, `bench schedule`.

Most mutations keep the JSON and change what it says: numbers (to limits of integers, of steps, of lists), types,
members left out, doubled or unknown, lists made longer, shorter or empty, references to what isn't there, deep
nesting. Some change bytes.   mutate_problems.py KODAMA [--count N] [--seed S] [--only I] [--keep DIR]
"""

import copy
import json
import pathlib
import random
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run_limited  # noqa: E402

SCHEDULES = pathlib.Path(__file__).parent.parent / "schedule"
NUMBERS = [0, -1, 1, 2, 3, 7, 63, 64, 127, 128, 255, 256, 1000, 1001, 10**6, 10**9 - 1, 10**9, 10**9 + 1, 2**31 - 1, 2**31,
           -2**31, -2**31 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -2**63, 2**64 - 1, 2**64, 10**30, 0.5, -0.0, 1e308]
OTHERS = [None, True, False, "", "x", "name\x1b[31m\u0000", [], {}, [0], {"id": 0}, [[[[]]]], "9" * 400]


def transfers(rng):
    """A problem of transfers: stages that load, compute, store, and keep what comes back."""
    tasks = rng.randint(1, 12)
    buffers, moves, keeps = [], [], []

    def buffer(task):
        buffers.append({"name": f"b{len(buffers)}", "size": 64 * rng.randint(1, 3), "alignment": rng.choice([1, 8, 64]),
                        "first_task": task, "last_task": min(tasks - 1, task + rng.randint(0, 1))})
        return len(buffers) - 1

    def move(what, load, earliest, latest, after):
        moves.append({"text": "move", "buffer": what, "load": load, "earliest": earliest, "latest": latest,
                      "latency": rng.choice([0, 64]), "after": after,
                      "uses": [{"port": rng.randint(0, 1), "cycles": rng.randint(0, 200)}]})
        return len(moves) - 1

    for task in range(tasks):
        move(buffer(task), True, rng.randint(0, task), task, [])
        if rng.random() < 0.6:
            made = buffer(task)
            buffers[made]["last_task"] = task
            store = move(made, False, task + 1, task + 1, [])
            if task + 2 < tasks and rng.random() < 0.7:
                again = buffer(task + 2)
                buffers[again].update(size=buffers[made]["size"], last_task=task + 2)
                load = move(again, True, task + 1, task + 2, [store])
                keeps.append({"size": buffers[made]["size"], "saved": [load],
                              "members": [{"buffer": made, "offset": 0}, {"buffer": again, "offset": 0}]})
    return {"name": "transfers", "capacity": 64 * rng.randint(6, 20), "issue_interval": rng.choice([0, 16]),
            "max_in_flight": rng.choice([0, 2, 8]), "ports": ["DRAM", "L2BM"],
            "task_cycles": [rng.randint(0, 300) for _ in range(tasks)], "buffers": buffers, "transfers": moves,
            "keeps": keeps}


def packing(rng):
    """A problem of address packing."""
    buffers = []
    for k in range(rng.randint(1, 25)):
        lower = rng.randint(0, 40)
        entry = {"name": f"b{k}", "lower": lower, "upper": lower + rng.randint(1, 15), "size": rng.randint(1, 40)}
        if rng.random() < 0.2:
            entry["alignment"] = rng.choice([2, 8, 64])
        if rng.random() < 0.1:
            entry["offset"] = rng.randint(0, 60)
        if rng.random() < 0.1:
            entry["hint"] = rng.randint(0, 60)
        if rng.random() < 0.2 and entry["upper"] - lower > 3:
            entry["gaps"] = [{"lower": lower + 1, "upper": lower + 2}]
            if rng.random() < 0.5 and entry["size"] > 2:
                entry["gaps"][0]["window"] = [0, 1]
        buffers.append(entry)
    return {"name": "packing", "capacity": rng.randint(20, 400), "buffers": buffers}


def csv_of(problem):
    lines = ["id,lower,upper,size,alignment"]
    for each in problem["buffers"]:
        lines.append(",".join(str(each.get(name, 1)) for name in ("name", "lower", "upper", "size", "alignment")))
    return "\n".join(lines) + "\n"


def places(value, found=None):
    """All (container, key) of a JSON value."""
    found = [] if found is None else found
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return found
    for key, each in items:
        found.append((value, key))
        places(each, found)
    return found


def number(rng, old):
    if isinstance(old, bool) or not isinstance(old, (int, float)) or rng.random() < 0.5:
        return rng.choice(NUMBERS)
    return rng.choice([old + 1, old - 1, -old, old * 2, old * 1000, old * 10**6, old // 2 if old == old else 0])


def mutate(rng, root):
    """One change of structure; returns the root."""
    found = places(root)
    kind = rng.randrange(12)
    if not found or kind == 0 and rng.random() < 0.1:
        return rng.choice(OTHERS)
    container, key = rng.choice(found)
    if kind <= 4:  # numbers
        numeric = [(c, k) for c, k in found if isinstance(c[k], (int, float)) and not isinstance(c[k], bool)]
        if numeric:
            container, key = rng.choice(numeric)
        container[key] = number(rng, container[key])
    elif kind == 5:  # the same member everywhere
        names = sorted({k for c, k in found if isinstance(k, str)})
        name, value = rng.choice(names or [""]), number(rng, 1)
        for c, k in found:
            if k == name and isinstance(c[k], (int, float)):
                c[k] = value
    elif kind == 6:
        container[key] = copy.deepcopy(rng.choice(OTHERS))
    elif kind == 7:
        del container[key]
    elif kind == 8 and isinstance(container, list):
        container.extend(copy.deepcopy(container[key]) for _ in range(rng.choice([1, 1, 3, 50])))
    elif kind == 9 and isinstance(container, list):
        del container[key:]
    elif kind == 10:
        other, name = rng.choice(found)
        container[key] = copy.deepcopy(other[name])
    elif isinstance(container, dict):
        container[rng.choice(["unknown", "id", "earliest", "invariant", "iterations", "key", "fixed_address"])] = \
            rng.choice(NUMBERS + OTHERS)
    return root


def text_of(rng, root):
    text = json.dumps(root)
    if rng.random() < 0.02:
        depth = rng.choice([100, 100_000])
        text = "[" * depth + text + "]" * depth
    if rng.random() < 0.15:
        data = bytearray(text.encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data) + 1)
            if rng.random() < 0.3:
                del data[at:at + rng.randint(1, 20)]
            else:
                data[at:at + rng.randint(0, 1)] = bytes([rng.randrange(256)])
        return bytes(data)
    return text.encode()


def make(kodama):
    seeds = sorted(SCHEDULES.glob("*.json"))

    def damaged(rng, root):
        for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
            root = mutate(rng, root)
        return text_of(rng, root)

    def solved(argv, output, folder):
        """An answer of the program itself, or nothing."""
        done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=60, check=False)
        return json.loads((folder / output).read_text()) if done.returncode == 0 else None

    def make_case(rng, _, folder):
        problem = folder / "problem.json"
        kind = rng.randrange(10)
        if kind <= 3:  # a block or loop
            root = json.loads(rng.choice(seeds).read_text())
            schedulers = ["modulo", "acyclic"] if root["loop"] else ["list", "sequential", "exact"]
            problem.write_bytes(damaged(rng, root))
            return [[kodama, "schedule", "problem.json", "--scheduler", rng.choice(schedulers), "-o", "out.json"]]
        if kind == 4:  # its answer
            problem.write_bytes(rng.choice(seeds).read_bytes())
            answer = solved([kodama, "schedule", "problem.json", "-o", "answer.json"], "answer.json", folder)
            (folder / "answer.json").write_bytes(damaged(rng, answer))
            return [[kodama, "schedule", "problem.json", "--check", "answer.json"]]
        if kind == 5:  # all schedulers
            problem.write_bytes(damaged(rng, json.loads(rng.choice(seeds).read_text())))
            return [[kodama, "bench", "schedule", "--dir", ".", "--random", "0"]]
        if kind <= 7:
            root = transfers(rng)
            scheduler = rng.choice(["keep", "prefetch", "on-demand"])
            if rng.random() < 0.3:
                problem.write_text(json.dumps(root))
                answer = solved([kodama, "schedule", "problem.json", "-o", "answer.json"], "answer.json", folder)
                if answer is not None:
                    (folder / "answer.json").write_bytes(damaged(rng, answer))
                    return [[kodama, "schedule", "problem.json", "--check", "answer.json"]]
            problem.write_bytes(damaged(rng, root))
            return [[kodama, "schedule", "problem.json", "--scheduler", scheduler, "-o", "out.json"]]
        root = packing(rng)
        lowest = ["--lowest"] if rng.random() < 0.3 else []
        if kind == 8 and rng.random() < 0.4:
            for _ in range(rng.choice([0, 1, 2])):
                root = mutate(rng, root)
            try:
                data = bytearray(csv_of(root).encode())
            except (KeyError, TypeError, AttributeError):
                data = bytearray(b"id,lower,upper,size\n")
            for _ in range(rng.randint(0, 3)):
                at = rng.randrange(len(data) + 1)
                data[at:at + rng.randint(0, 2)] = rng.choice([b",", b"\n", b"-", b"9" * 30, bytes([rng.randrange(256)])])
            (folder / "problem.100.csv").write_bytes(bytes(data))
            return [[kodama, "pack", "problem.100.csv", *lowest, "-o", "out.csv"]]
        if kind == 9 and rng.random() < 0.4:
            problem.write_text(json.dumps(root))
            answer = solved([kodama, "pack", "problem.json", "-o", "answer.json"], "answer.json", folder)
            if answer is not None:
                (folder / "answer.json").write_bytes(damaged(rng, answer))
                return [[kodama, "pack", "problem.json", "--check", "answer.json"]]
        problem.write_bytes(damaged(rng, root))
        return [[kodama, "pack", "problem.json", *lowest, "-o", "out.json"]]

    return make_case


if __name__ == "__main__":
    sys.exit(run_limited.drive(__doc__.splitlines()[0], 2000, make))
