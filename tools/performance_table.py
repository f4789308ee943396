#!/usr/bin/env python3
"""performance_table.py DIRECTORY PAGE COMMIT: writes the table between the markers of PAGE.

DIRECTORY has now.K.json of the simulator's benchmarks, before.K.json of COMMIT's if that isn't empty, and
assembler.json. Figures are medians over K, ratios medians over pairs."""

import glob
import json
import os
import statistics
import sys

BEGIN, END = "<!-- begin table -->\n", "<!-- end table -->\n"
# Multiply-adds of one step on the whole chip: 4 cycles of 1024 MABs.
MACS = {"gmfma": 64, "hmfma": 256, "fmfma": 32, "dmfma": 8, "fvfma": 8, "hvfma": 16, "dvfma": 2}


def load(directory, which):
    rounds = []
    for path in sorted(glob.glob(os.path.join(directory, which + ".*.json"))):
        with open(path, encoding="utf-8") as file:
            rounds.append({run["name"]: run for run in json.load(file)["benchmarks"]})
    return rounds


def main():
    directory, page_path, commit = sys.argv[1:4]
    now, before = load(directory, "now"), load(directory, "before")
    with open(glob.glob(os.path.join(directory, "now.*.json"))[0], encoding="utf-8") as file:
        context = json.load(file)["context"]
    with open(os.path.join(directory, "assembler.json"), encoding="utf-8") as file:
        assembler = json.load(file)["benchmarks"]

    def median(rounds, name, key):
        return statistics.median(run[name][key] for run in rounds)

    native = median(now, "native_float_fma", "fma/s")
    lines = [f"{context['date'][:10]}, {context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, mncore2 (4096 PEs).", ""]
    head = ["step", "steps/s, 1 thread", "2 threads", "ratio", "multiply-adds/s, 1 thread", "of a native loop"]
    if before:
        head += [commit, "times as fast"]
    lines += ["| " + " | ".join(head) + " |", "| --- |" + " --: |" * (len(head) - 1)]
    for name in [n.removesuffix("/1/real_time") for n in now[0] if n.endswith("/1/real_time")]:
        one, two = f"{name}/1/real_time", f"{name}/2/real_time"
        steps = median(now, one, "steps/s")
        macs = MACS.get(name, 0) * 4 * 1024
        cells = [f"`{name}`", f"{steps:,.0f}", f"{median(now, two, 'steps/s'):,.0f}",
                 f"{statistics.median(run[two]['steps/s'] / run[one]['steps/s'] for run in now):.2f}",
                 f"{steps * macs / 1e9:.2f} G" if macs else "", f"{100 * steps * macs / native:.1f} %" if macs else ""]
        if before:
            ratios = [new[one]["steps/s"] / old[one]["steps/s"] for old, new in zip(before, now)]
            cells += [f"{median(before, one, 'steps/s'):,.0f}", f"{statistics.median(ratios):.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"Native loop (`native_float_fma`): {native / 1e9:.1f} G float multiply-adds/s on one core.",
              f"Statements `nop`: {median(now, 'nop/real_time', 'steps/s') / 1e6:.1f} M steps/s. Timing of computing takes "
              f"{median(now, 'timing_of_compute/real_time', 'timed/untimed'):.2f} times, of transfers "
              f"{median(now, 'timing_of_transfers/real_time', 'timed/untimed'):.2f} times the time without.", ""]
    for run in assembler:
        lines.append(f"`{run['name']}`: {run['lines/s'] / 1e6:.2f} million lines/s ({run['real_time'] / 1e3:.2f} s for a million).")
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    above, rest = page.split(BEGIN)
    _, below = rest.split(END)
    temporary = page_path + ".new"
    with open(temporary, "w", encoding="utf-8") as out:
        out.write(above + BEGIN + "\n".join(lines) + "\n" + END + below)
    os.replace(temporary, page_path)


main()
