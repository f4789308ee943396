#!/usr/bin/env python3
"""timing_tables.py CHIP.yaml BANDWIDTHS COSTS.json PAGE: writes the tables between the markers of PAGE."""

import json
import os
import re
import sys


def between(page, name, text):
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    head, rest = page.split(begin)
    _, tail = rest.split(end)
    return head + begin + text + end + tail


def chip_keys(path):
    """The keys that time depends on, with what the chip file says of them."""
    rows = ["| key | value | unit, source, certainty |", "| --- | --: | --- |"]
    section = ""
    pending = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            comment = re.match(r"\s*#\s?(.*)", line)
            if comment:
                pending.append(comment.group(1))
                continue
            entry = re.match(r"(\s*)([a-z_0-9]+):\s*([^#\n]*?)\s*(?:#\s*(.*))?$", line)
            if not entry:
                pending = []
                continue
            indent, key, value, text = entry.groups()
            if not indent:
                section = key
            if value and (section == "clock_hz" or (section in ("transfer", "dram", "host_link", "hazard") and indent)):
                name = key if section == key else f"{section}.{key}"
                rows.append(f"| `{name}` | {value} | {text or ' '.join(pending)} |")
            pending = []
    return "\n".join(rows) + "\n"


def costs(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    runs = {run["name"].split("/")[0]: run for run in result["benchmarks"]}
    seconds = runs["hundred_million_nops"]["real_time"] / 1e9
    context = result["context"]
    return "\n".join([
        f"{context['date'][:10]}, {context['num_cpus']} cores at {context['mhz_per_cpu']} MHz, mncore2, two threads.", "",
        "| program | timed / untimed |", "| --- | --: |",
        f"| 512 dense `gmfma` steps | {runs['timing_of_compute']['timed/untimed']:.3f} |",
        f"| 128 `mvb2` of 2048 LW, two buffers, each waited for | {runs['timing_of_transfers']['timed/untimed']:.3f} |", "",
        f"10^8 `nop` steps in a loop of a thousand lines: {seconds:.4f} s.", ""])


def main():
    chip, bandwidths, costs_file, path = sys.argv[1:5]
    with open(path, encoding="utf-8") as file:
        page = file.read()
    with open(bandwidths, encoding="utf-8") as file:
        page = between(page, "bandwidths", file.read())
    page = between(page, "keys", chip_keys(chip))
    page = between(page, "costs", costs(costs_file))
    with open(path + ".new", "w", encoding="utf-8") as out:
        out.write(page)
    os.replace(path + ".new", path)


main()
