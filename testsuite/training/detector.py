#!/usr/bin/python3
"""A training step of a detector, Mask R-CNN, beside the CPU reference and torch.autograd (Debian: python3-torch
python3-torchvision python3-onnx).

usage: testsuite/training/detector.py KODAMA WORKDIR [small | full] [--batch N]

Makes the network (tools/mask_rcnn.py), exports it with its five losses, and has `kodama train-step` make the step, which
ONNX's checker must take. `kodama run` computes one step on mncore2 and by the CPU reference, and compares; then the loss and
the gradients of all parameters are held against PyTorch's: the largest difference of a tensor over its largest magnitude is
at most 1e-3. `small` has one block a stage, a sixteenth of the channels, and one picture of 64 x 64; `full` is the published
network with seven pictures of 128 x 128. Exits with 77 where PyTorch is absent.
"""
import argparse
import pathlib
import re
import subprocess
import sys

try:
    import numpy as np
    import onnx
    import torch
    from torchvision.ops import boxes as box_ops
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import mask_rcnn  # noqa: E402

SMALL = {"size": 64, "truths": 3, "layers": (1, 1, 1, 1), "narrow": 16, "classes": 5, "anchors": 16, "before": 16,
         "proposals": 12, "rois": 8}
FULL_BATCH = 7
PARTS = ("backbone.body", "backbone.fpn", "rpn_head", "box_head", "box_predictor", "mask_head", "mask_predictor")
FROZEN = ("*.bn?.*", "*.downsample.1.*")  # normalizations
RATE, TOLERANCE = 0.01, 1e-3


def run(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        failed = "\n".join(line for line in done.stdout.splitlines() if "FAILED" in line or "differ" in line)
        sys.exit(f"kodama {arguments[0]}: exit code {done.returncode}: {done.stderr[-2000:]}\n{failed[:2000]}")
    return done.stdout


def check(condition, text):
    if not condition:
        sys.exit("detector.py: " + text)


def read(folder, name):
    return np.load(folder / f"{name}.npy")


def difference(found, wanted):
    """The largest, over the largest magnitude; where that is zero the largest itself."""
    return float(np.abs(found - wanted).max() / (np.abs(wanted).max() or 1))


def make_step(options):
    """The module, its inputs, and the path of the step."""
    module = mask_rcnn.make(**(SMALL if options.which == "small" else {}))
    values = module.example(options.batch)
    check_proposals(module, values)
    model = module.export(values)
    onnx.checker.check_model(model, full_check=True)
    path, step = options.workdir / "detector.onnx", options.workdir / "step.onnx"
    onnx.save(model, str(path))
    made = run(options.kodama, "train-step", path, "--loss", "loss", "--stop", "proposals", "--freeze", *FROZEN,
               "--optimizer", f"momentum:lr={RATE}", "-o", step)
    parameters = {name for name, _ in module.named_parameters()}
    trained = set(re.findall(r"^(\S+) .* parameter, then output", made, re.M))
    check(trained == parameters, f"trained are {sorted(trained ^ parameters)} too few or too many")
    onnx.checker.check_model(str(step), full_check=True)
    nodes = onnx.load(str(step)).graph.node
    print(f"{len(model.graph.node)} nodes exported, {len(nodes)} with the backward pass; {len(parameters)} parameters of "
          f"{sum(p.numel() for p in module.parameters())} elements", flush=True)
    return module, values, step


def check_proposals(module, values):
    """They are torchvision's: the best of every level, clipped, and of these what batched_nms leaves."""
    with torch.no_grad():
        features = list(module.backbone(values["pictures"]).values())
        objectness, deltas, anchors, numbers = module.score(values["pictures"], features)
        for scores, moves in zip(objectness, deltas):
            found = module.propose(scores, moves, anchors, numbers)
            first = np.cumsum([0, *numbers])
            best = [scores[a:b].topk(min(module.before, int(b - a)))[1] + a for a, b in zip(first, first[1:])]
            levels = torch.cat([torch.full_like(part, k) for k, part in enumerate(best)])
            best = torch.cat(best)
            boxes = box_ops.clip_boxes_to_image(module.anchor_coder.decode_single(moves[best], anchors[best]),
                                                (module.size,) * 2)
            large = box_ops.remove_small_boxes(boxes, 1e-3)
            left = large[box_ops.batched_nms(boxes[large], scores[best][large], levels[large], 0.7)][:module.proposals]
            check(torch.equal(found[:len(left)], boxes[left]), "proposals aren't those of torchvision")


def check_step(options, module, values, step):
    outputs = options.workdir / "outputs"
    inputs = []
    for name, value in values.items():
        np.save(options.workdir / f"{name}.npy", value.numpy())
        inputs.append(f"{name}={options.workdir / name}.npy")
    printed = run(options.kodama, "run", step, "--input", *inputs, "--precision", "float", "--no-cache", "--brief",
                  "--output-dir", outputs)
    print("\n".join(line for line in printed.splitlines() if "wall time" in line or "chip cycles" in line))
    compared = printed.count("against the CPU reference")
    check(compared > 2 * len(list(module.parameters())), f"only {compared} outputs were compared:\n{printed[-1000:]}")
    loss, _ = module(**values)
    loss.backward()
    found = read(outputs, "loss_1")
    off = {"loss": abs(float(found) / float(loss) - 1)}
    for name, parameter in module.named_parameters():
        # The first velocity is the gradient.
        off[name] = difference(read(outputs, f"{name}.velocity.next"), parameter.grad.numpy())
        moved = parameter.detach().numpy() - RATE * parameter.grad.numpy()
        off[name + ".next"] = difference(read(outputs, f"{name}.next"), moved)
    for part in ("loss", *PARTS):
        print(f"{part}: off from PyTorch by {max(v for k, v in off.items() if k.startswith(part)):.1e}")
    wrong = {name: value for name, value in off.items() if not value <= TOLERANCE}
    check(not wrong, f"off by more than {TOLERANCE}: {wrong}")
    print(f"{options.which}, batch {options.batch}: loss {float(found):.6f}; {compared} outputs are the reference's, "
          f"{len(off)} values PyTorch's")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kodama")
    parser.add_argument("workdir", type=pathlib.Path)
    parser.add_argument("which", choices=("small", "full"), nargs="?", default="small")
    parser.add_argument("--batch", type=int, help="pictures; else 1, and for `full` as many as give it 10,000 nodes")
    options = parser.parse_args()
    options.batch = options.batch or (FULL_BATCH if options.which == "full" else 1)
    options.workdir.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    check_step(options, *make_step(options))


if __name__ == "__main__":
    sys.exit(main())
