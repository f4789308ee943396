#!/usr/bin/python3
"""Writes the table of networks in docs/layouts.md: what every planner finds, and what a run takes.

usage: tools/networks_page.py [KODAMA] (with ../shared/data; takes some minutes)
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
NETWORKS = ["mnist8/model", "trained/lenet_mnist_trained", "trained/gcn_cora_trained", "onnx_mlir_mnist/mnist",
            "models/mlp", "models/lenet", "models/squeezenet1_1", "models/resnet18"]
PLANNERS = ["host", "first", "greedy", "pbqp"]
# What the planners alone would take too long to run with.
PLAN_ONLY = {("trained/gcn_cora_trained", "first"), ("trained/gcn_cora_trained", "greedy"),
             ("models/squeezenet1_1", "first"), ("models/resnet18", "first")}


def kodama(binary, arguments):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out.json")
        subprocess.run([binary, *arguments, "--json", file], check=True, stdout=subprocess.DEVNULL)
        with open(file, encoding="utf-8") as text:
            return json.load(text)


def main():
    binary = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/tools/kodama"))
    lines = ["| network | planner | planned: relayouts | relayout cycles | all cycles | run: relayout cycles | chip cycles | "
             "link cycles | by the host |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for network in NETWORKS:
        model = os.path.join(ROOT, "../shared/data", network + ".onnx")
        plans = {plan["planner"]: plan for plan in kodama(binary, ["plan", model])}
        for planner in PLANNERS:
            plan = plans[planner]
            cells = [network if planner == PLANNERS[0] else "", planner, plan["relayouts"], plan["relayout_cycles"],
                     plan["total"]]
            if (network, planner) in PLAN_ONLY:
                cells += ["", "", "", ""]
            else:
                run = kodama(binary, ["run", model, "--planner", planner, "--no-compare"])
                relayouts = sum(stage["stats"]["cycles"] for stage in run["stages"]
                            if stage["kind"] == "Relayout")
                total = run["total"]
                cells += [relayouts, total["cycles"], total["link_cycles"], total["host_relayouts"]]
            lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
            print(lines[-1], flush=True)
    page = os.path.join(ROOT, "docs/layouts.md")
    with open(page, encoding="utf-8") as text:
        before, rest = text.read().split("<!-- networks -->\n")
        after = rest.split("<!-- /networks -->\n")[1]
    with open(page + ".new", "w", encoding="utf-8") as text:
        text.write(before + "<!-- networks -->\n\n" + "\n".join(lines) + "\n\n<!-- /networks -->\n" + after)
    os.replace(page + ".new", page)


if __name__ == "__main__":
    sys.exit(main())
