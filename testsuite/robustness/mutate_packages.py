#!/usr/bin/env python3
"""Mutates packages and runs them: `kodama sim` and `kodama check`. See README.md.

Two thirds of the cases have right checksums, so that everything behind them is reached: values, keys and lists of the
manifest, numbers of images, lines of programs, bytes of the models inside. The rest is damaged behind the checksums.
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import zlib

import run_limited

TESTSUITE = pathlib.Path(__file__).resolve().parent.parent
# Name, model, options: chip stages, a preparation, relayouts on the chip and on the host, Host layers.
SAMPLES = [
    ("linear", "golden/models/linear.onnx", []),
    ("resident", "golden/models/linear.onnx", ["--weights", "resident"]),
    ("relayouts", "golden/models/moves.onnx", []),
    ("host_relayouts", "golden/models/moves.onnx", ["--planner", "host"]),
    ("host", "golden/models/host.onnx", []),
    ("mnist8", "models/mnist8/model.onnx", []),
]

INTEGERS = [-(1 << 63), -(1 << 31) - 1, -1000, -2, -1, 0, 1, 2, 3, 4, 7, 8, 16, 63, 64, 1000, 1 << 16, 1 << 20, 1 << 27,
            (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, 1 << 48, (1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64]
OTHERS = [None, True, False, 0.5, 1e300, -1e300, "", "inf", "-inf", "nan", "x", "../x", "/etc/passwd", "\0", "manifest.json",
          [], {}, [[]], [-1], [0, 0], {"x": 0}]


def make_packages(kodama, folder):
    packages = []
    for name, model, options in SAMPLES:
        target = folder / name
        subprocess.run([kodama, "compile", str(TESTSUITE / model), "--chip", "tiny", "--no-cache", "-o", str(target), *options],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        packages.append(target)
    return packages


def write_checksums(package):
    """As `kodama compile` does."""
    lines = []
    for file in package.rglob("*"):
        name = file.relative_to(package).as_posix()
        if file.is_file() and name != "checksums":
            contents = file.read_bytes()
            lines.append((name.encode(), f"{zlib.crc32(contents):08x} {len(contents)} {name}\n"))
    (package / "checksums").write_text("".join(line for _, line in sorted(lines)))


def places(value, path=()):
    """Paths of all values inside."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, path + (key,))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate_text(rng, text):
    """A layout, a name or a line of a program, with a number or a letter changed."""
    digits = [k for k, c in enumerate(text) if c.isdigit()]
    if digits and rng.random() < 0.7:
        k = rng.choice(digits)
        return text[:k] + str(rng.choice([0, 1, 2, 5, 9, 63, 64, 4096, 1 << 31, 1 << 48, 1 << 63])) + text[k + 1:]
    k = rng.randrange(len(text) + 1)
    return text[:k] + rng.choice(["", "-", "(", ")", ",", "x", "0", "@LM1", "_PE", " ", text]) + text[k + rng.randrange(2):]


def mutate_value(rng, value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, value * 2, -value, value ^ (1 << rng.randrange(20)), rng.choice(INTEGERS)])
    if isinstance(value, str) and value and rng.random() < 0.7:
        return mutate_text(rng, value)
    return rng.choice(OTHERS)


def mutate_manifest(rng, manifest):
    path = rng.choice([p for p in places(manifest) if p])
    parent, key = at(manifest, path[:-1]), path[-1]
    kind = rng.randrange(10)
    if kind < 6:
        parent[key] = mutate_value(rng, parent[key])
    elif kind == 6:
        parent[key] = rng.choice(INTEGERS + OTHERS)
    elif kind == 7:
        del parent[key]
    elif kind == 8 and isinstance(parent, dict):
        parent[rng.choice(list(parent)) + rng.choice(["", "x", "\x1b"])] = parent.pop(key)
    elif isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), json.loads(json.dumps(rng.choice(parent))))
    else:  # the value of another place
        parent[key] = json.loads(json.dumps(at(manifest, rng.choice(list(places(manifest))))))


def mutate_bytes(rng, contents):
    data = bytearray(contents)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        kind = rng.randrange(5)
        k = rng.randrange(len(data) + 1)
        if kind == 0:
            del data[k:k + rng.choice([1, 8, 100, len(data)])]
        elif kind == 1:
            data[k:k] = rng.randbytes(rng.choice([1, 8, 100]))
        elif data and kind == 2:
            data[k % len(data)] ^= 1 << rng.randrange(8)
        elif data:
            data[k % len(data)] = rng.choice([0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)])
    return bytes(data)


def mutate_lines(rng, text):
    lines = text.splitlines()
    for _ in range(rng.choice([1, 1, 2, 5])):
        k = rng.randrange(len(lines)) if lines else 0
        kind = rng.randrange(5)
        if kind == 0 and lines:
            del lines[k]
        elif kind == 1 and lines:
            lines.insert(rng.randrange(len(lines)), lines[k])
        elif lines:
            lines[k] = mutate_text(rng, lines[k])
    return "\n".join(lines) + "\n"


def make(kodama):
    scratch = tempfile.TemporaryDirectory()
    packages = make_packages(kodama, pathlib.Path(scratch.name))

    def make_case(rng, index, folder):
        del index
        package = folder / "package"
        shutil.copytree(rng.choice(make_case.packages), package)
        files = sorted(p for p in package.rglob("*") if p.is_file())
        kind = rng.randrange(12)
        if kind < 6:
            manifest = json.loads((package / "manifest.json").read_text())
            for _ in range(rng.choice([1, 1, 1, 2, 4])):
                mutate_manifest(rng, manifest)
            (package / "manifest.json").write_text(json.dumps(manifest, indent=1))
        elif kind == 6:
            program = rng.choice(sorted(package.glob("programs/*")) or files)
            program.write_text(mutate_lines(rng, program.read_text(errors="replace")))
        else:
            file = rng.choice(files)
            file.write_bytes(mutate_bytes(rng, file.read_bytes()))
        if kind < 9:
            write_checksums(package)
        elif kind == 9:
            file = rng.choice(files)
            file.unlink()
            if rng.random() < 0.5:
                file.mkdir()
        return [[kodama, "sim", "package"], [kodama, "check", "package"]]

    make_case.packages = packages
    make_case.scratch = scratch  # as long as there are cases
    return make_case


if __name__ == "__main__":
    sys.exit(run_limited.drive("Mutated packages.", 2000, make))
