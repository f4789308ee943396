#!/usr/bin/python3
"""example_test.py ROOT PROGRAM KODAMA DIR: the example of docs/builder.md is builder/example/digits.cpp, prints what the page says, and
Kodama reads what it writes."""
import os
import pathlib
import re
import subprocess
import sys

root, program, kodama, folder = pathlib.Path(sys.argv[1]), *sys.argv[2:]
source = (root / "builder/example/digits.cpp").read_text()
page = (root / "docs/builder.md").read_text()
blocks = page.split("```")
assert blocks[1] == "cpp\n" + source[source.index("#include"):], "the page has another program than digits.cpp"

os.makedirs(folder, exist_ok=True)
printed = subprocess.run([program], cwd=folder, check=True, capture_output=True, text=True).stdout
printed = re.sub(r"[^ \n]*/digits\.cpp", "digits.cpp", printed)  # a path as the compiler was given it
assert "\n" + printed == blocks[3], f"the program prints\n{printed}"

for model in "digits.onnx", "digits.step.onnx":
    subprocess.run([kodama, "inspect", model], cwd=folder, check=True, stdout=subprocess.DEVNULL)
