#!/usr/bin/env python3
"""performance_table.py SIMULATOR.json ASSEMBLER.json PAGE: writes the table between the markers of PAGE."""

import json
import os
import sys

BEGIN, END = "<!-- begin table -->\n", "<!-- end table -->\n"
# Multiply-adds of one step on the whole chip: 4 cycles of 1024 MABs.
MACS = {"gmfma": 64, "hmfma": 256, "fmfma": 32, "fvfma": 8}
GOALS = {"gmfma": 20000, "hmfma": 5000, "fvfma": 30000, "alu_and_l1bm": 30000, "nop": 1000000}


def main():
    simulator, assembler = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    runs = {run["name"]: run for run in simulator["benchmarks"]}
    native = runs["native_float_fma"]["fma/s"]
    context = simulator["context"]
    lines = [f"{context['date'][:10]}, {context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, mncore2 (4096 PEs).", "",
             "| dense step | steps/s, 1 thread | 2 threads | ratio | goal | multiply-adds/s, 2 threads | native FMA loops on one core |",
             "| --- | --: | --: | --: | --: | --: | --: |"]
    for name in ("gmfma", "hmfma", "fmfma", "fvfma", "alu_and_l1bm", "nop"):
        one = runs[f"{name}/1/real_time"]["steps/s"]
        two = runs.get(f"{name}/2/real_time", {}).get("steps/s")
        macs = MACS.get(name, 0) * 4 * 1024
        lines.append("| `{}` | {:,.0f} | {} | {} | {} | {} | {} |".format(
            name, one, f"{two:,.0f}" if two else "", f"{two / one:.2f}" if two else "",
            f"{GOALS[name]:,}" if name in GOALS else "",
            f"{two * macs / 1e9:.2f} G" if macs else "", f"1/{native / (one * macs):.1f}" if macs else ""))
    lines += ["", f"Native loop (`native_float_fma`): {native / 1e9:.1f} G float multiply-adds/s on one core; the last column "
              "compares one thread with it.", ""]
    for run in assembler["benchmarks"]:
        lines.append(f"`{run['name']}`: {run['lines/s'] / 1e6:.2f} million lines/s ({run['real_time'] / 1e3:.2f} s for a million).")
    page = open(sys.argv[3], encoding="utf-8").read()
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    temporary = sys.argv[3] + ".new"
    with open(temporary, "w", encoding="utf-8") as out:
        out.write(head + BEGIN + "\n".join(lines) + "\n" + END + tail)
    os.replace(temporary, sys.argv[3])


main()
