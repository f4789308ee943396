#!/usr/bin/env python3
"""check_run.py KODAMA DIRECTORY COMMAND...: runs `KODAMA COMMAND... --stats json --trace --vcd` and checks what they say.

Statistics: cycles by cause add up to the total, exactly, in the whole, in every region and in every line; the parts
that belong to statements add up to the whole.
Trace: the Chrome trace format; on every track spans nest or follow each other, and the trace ends when the program does.
VCD: times rise, every change is of a declared variable.
"""

import json
import os
import subprocess
import sys


def check_usage(usage, where):
    total = sum(usage["cycles_by_cause"].values())
    assert total == usage["cycles"], f"{where}: causes add up to {total}, not {usage['cycles']}"
    assert usage["cycles_by_cause"]["steps"] == 4 * usage["steps"], where
    # Each slot is used at most once per step.
    for slot, steps in usage["steps_by_slot"].items():
        assert 0 <= steps <= usage["steps"], f"{where}: {slot}"
    # Several instructions may share a step, so slots add up to at least the steps.
    assert sum(usage["steps_by_slot"].values()) >= usage["steps"], where
    assert 0 <= usage["mau_utilization"] <= 1.0001, where


def check_statistics(statistics):
    check_usage(statistics["total"], "total")
    # A line or region may start transfers that move during others.
    for name, memory in statistics["total"]["memories"].items():
        assert 0 <= memory["utilization"] <= 1.0001, f"{name} at {memory['utilization']} of its peak"
    for region in statistics["regions"]:
        check_usage(region, region["name"])
    for line in statistics["lines"]:
        assert sum(line["cycles_by_cause"].values()) == line["cycles"], f"line {line['line']}"
        assert line["cycles_by_cause"]["steps"] == 4 * line["steps"], f"line {line['line']}"
    assert statistics["lines_left_out"] == 0
    nobodys = ("drain", "host_input", "host_output", "launch", "host_compute")
    for parts in ([r for r in statistics["regions"] if "/" not in r["name"]], statistics["lines"]):
        if not parts:
            continue
        for cause, cycles in statistics["total"]["cycles_by_cause"].items():
            if cause not in nobodys:
                found = sum(part["cycles_by_cause"][cause] for part in parts)
                assert found == cycles, f"{cause}: the parts have {found} cycles, the whole {cycles}"


def check_trace(trace, cycles):
    events = trace["traceEvents"]
    assert isinstance(events, list) and events
    tracks = {}
    names = {}
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
            continue
        assert event["ph"] == "X", event
        assert isinstance(event["ts"], int) and event["ts"] >= 0 and event["dur"] > 0, event
        tracks.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"], event["name"]))
    assert set(tracks) <= set(names), "a track without a name"
    end = 0
    for tid, spans in tracks.items():
        open_spans = []
        for begin, stop, name in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_spans and open_spans[-1][1] <= begin:
                open_spans.pop()
            if open_spans:
                assert stop <= open_spans[-1][1], f"track {names[tid]}: {name} overlaps {open_spans[-1][2]}"
                assert names[tid] == "regions", f"track {names[tid]}: {name} inside {open_spans[-1][2]}"
            open_spans.append((begin, stop, name))
            end = max(end, stop)
    assert end == cycles, f"the trace ends at {end}, the program at {cycles}"
    return sum(len(spans) for spans in tracks.values())


def check_vcd(path):
    declared = set()
    time = -1
    changes = 0
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("$var"):
                declared.add(line.split()[3])
            elif line.startswith("#"):
                assert int(line[1:]) > time, line
                time = int(line[1:])
            elif line[0] in "01":
                assert line[1:].strip() in declared, line
                changes += 1
            elif line[0] == "s":
                assert line.split()[1] in declared, line
    assert changes > 0


def main():
    kodama, directory, *command = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    files = {name: os.path.join(directory, name) for name in ("stats.json", "trace.json", "trace.vcd")}
    subprocess.run([kodama, *command, "--stats", "json", "--stats-file", files["stats.json"], "--trace", files["trace.json"],
                    "--vcd", files["trace.vcd"]], check=True, stdout=subprocess.DEVNULL)
    with open(files["stats.json"], encoding="utf-8") as file:
        statistics = json.load(file)
    check_statistics(statistics)
    with open(files["trace.json"], encoding="utf-8") as file:
        spans = check_trace(json.load(file), statistics["total"]["cycles"])
    check_vcd(files["trace.vcd"])
    print(f"{statistics['total']['cycles']} cycles, {len(statistics['regions'])} regions, {spans} spans: all add up")


main()
