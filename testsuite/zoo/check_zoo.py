#!/usr/bin/python3
"""check_zoo.py TOOLS graphs: tools/zoo.py builds valid graphs of the published sizes.
check_zoo.py TOOLS run KODAMA: and networks that `kodama run` computes as its CPU reference does.
check_zoo.py TOOLS pipeline KODAMA: with two inferences in flight ResNet-18 keeps the chip busy.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as error:
    print(f"skipped: {error} (packages python3-onnx and python3-numpy)")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import zoo  # noqa: E402

# Parameters, exact, and billions of multiply-adds, as published (torchvision's page of models). The others have no page:
# theirs are sums over layers.
PUBLISHED = {
    "alexnet": (61100840, 0.714), "convnext_tiny": (28589128, 4.456), "densenet121": (7978856, 2.834),
    "efficientnet_b0": (5288548, 0.386),
    "encoder": (4 * (12 * 256 ** 2 + 13 * 256), 0.419), "encoder_base": (12 * (12 * 768 ** 2 + 13 * 768), 17.447),
    "googlenet": (6624904, 1.498), "inception_v3": (23834568, 5.713), "lenet": (61706, 0.000417), "mlp": (109386, 0.000109), "mnist_cnn": (5994, 0.000787),
    "mobilenet_v2": (3504872, 0.301), "resnet18": (11689512, 1.814), "resnet34": (21797672, 3.664),
    "resnet50": (25557032, 4.089), "squeezenet1_1": (1235496, 0.349), "unet": (32466, 0.0383),
    "vgg11": (132863336, 7.609), "vit_b16": (86567656, 17.564),
}  # fmt: skip


def check(condition, text):
    if not condition:
        sys.exit("check_zoo.py: " + text)


def shapes(values):
    return {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}


def check_graph(name, **options):
    """ONNX's checker takes it, and ONNX's shapes are what the builder thought."""
    graph = zoo.build(name, **options)
    model = graph.model(name, with_weights=False)
    onnx.checker.check_model(model, full_check=True)
    outputs = shapes(model.graph.output)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=key) for key in outputs)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    check(shapes(inferred.graph.output) == outputs, f"{name} {options}: {shapes(inferred.graph.output)} is not {outputs}")
    return graph


def fails(*arguments):
    """What it prints to refuse the arguments."""
    run = subprocess.run([sys.executable, os.path.join(sys.argv[1], "zoo.py"), *arguments], capture_output=True, text=True)
    check(run.returncode == 2 and "Traceback" not in run.stderr, f"{arguments}: exit {run.returncode}\n{run.stderr}")
    return run.stderr


def check_exported():
    """What is made with PyTorch, where it is there."""
    check("--examples: of mask_rcnn only" in fails("mlp", "--examples", "2", "-o", "x"), "examples of an mlp")
    try:
        import torchvision  # noqa: F401
    except ImportError as error:
        check("mask_rcnn: " in fails("mask_rcnn", "-o", "x.onnx"), "mask_rcnn without PyTorch")
        return print(f"skipped mask_rcnn: {error}")
    check("mask_rcnn: the pyramid takes" in fails("mask_rcnn", "--size", "100", "-o", "x.onnx"), "pictures of 100 x 100")
    graph = zoo.build("mask_rcnn", batch=2)
    check(graph.parameters == 44401393, f"mask_rcnn: {graph.parameters} parameters")
    check({v.name: v.shape for v in graph.inputs}["boxes"] == (2, 4, 4), "mask_rcnn: its inputs")
    with tempfile.TemporaryDirectory() as folder:
        zoo.write_examples(graph, 3, 1, os.path.join(folder, "m"))
        boxes, masks = (np.load(os.path.join(folder, f"m.{name}.npy")) for name in ("boxes", "masks"))
    check(masks.shape == (3, 4, 128, 128) and (boxes[..., 2:] > boxes[..., :2]).all() and boxes.max() <= 128, "examples")


def check_graphs():
    check(set(PUBLISHED) == set(zoo.NETWORKS), "the published sizes are not of the networks that there are")
    # Batches and folded normalizations of one network of two; of all in the long suite (KODAMA_LONG=1 tools/test.sh).
    share = 1 if "KODAMA_LONG" in os.environ else 2
    for number, (name, (parameters, multiply_adds)) in enumerate(PUBLISHED.items()):
        graph = check_graph(name, fold=False)
        check(graph.parameters == parameters, f"{name}: {graph.parameters} parameters, published {parameters}")
        relative = graph.multiply_adds / (multiply_adds * 1e9)
        check(abs(relative - 1) < 2e-3, f"{name}: {graph.multiply_adds} multiply-adds, published {multiply_adds} G")
        if number % share != 0 and name != "densenet121":
            continue
        folded = check_graph(name, batch=3)
        left = [n.name for n in folded.nodes if n.op_type == "BatchNormalization"]
        check(not left or name == "densenet121", f"{name}: {left} are not folded")
        check(folded.multiply_adds * graph.inputs[0].shape[0] == 3 * graph.multiply_adds, f"{name}: work of a batch")
    for name, size in (("resnet18", 33), ("squeezenet1_1", 47), ("googlenet", 50), ("vit_b16", 48), ("vgg11", 448)):
        check_graph(name, size=size)
    # The seed says all.
    one, same, other = (zoo.build("lenet", seed=s).model("lenet").SerializeToString() for s in (1, 1, 2))
    check(one == same and one != other, "weights are not what the seed says")
    check("there is no network resnet19; there are alexnet," in fails("resnet19", "-o", "x.onnx"), "resnet19")
    check("vgg11: the features are 6 x 6" in fails("vgg11", "--size", "200", "-o", "x.onnx"), "vgg11 of 200")
    check("squeezenet1_1: the input is too small" in fails("squeezenet1_1", "--size", "2", "-o", "x.onnx"), "too small")
    check("mlp: --size" in fails("mlp", "--size", "9", "-o", "x.onnx"), "mlp with a size")
    check("a file for one network" in fails("mlp", "lenet", "-o", "x.onnx"), "two networks in one file")
    check("'0' is not a number" in fails("mlp", "--batch", "0", "-o", "x.onnx"), "batch 0")
    check_exported()
    print(f"{len(PUBLISHED)} networks of the published sizes")


def output(kodama, model, folder):
    """The output of a run on the small chip, which compares it with the CPU reference."""
    subprocess.run([kodama, "run", model, "--chip", "tiny", "--no-cache", "--output-dir", folder], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "y.pb"), "rb") as file:
        return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))


def check_run(kodama):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(sys.argv[1], "zoo.py"), "lenet", "mlp", "mnist_cnn", "-o", folder],
                       check=True)
        for name in ("lenet", "mlp", "mnist_cnn"):
            found = output(kodama, os.path.join(folder, name + ".onnx"), folder)
            check(found.shape == (1, 10) and found.std() > 0.03, f"{name}: an output of {found}")
        # Folded or kept: the same function.
        results = []
        for fold in (True, False):
            graph = zoo.Graph(3, fold)
            with graph.scope("inner"):
                x = graph.relu(graph.conv(graph.input("x", (1, 3, 8, 8)), "conv", 8, 3, pad=1, norm="bn", deviation=3))
            graph.output(graph.conv(x, "last", 4, 1))
            path = os.path.join(folder, "convolutions.onnx")
            zoo.write(graph.model("convolutions"), path)
            results.append(output(kodama, path, folder))
        difference = np.abs(results[0] - results[1]).max() / np.abs(results[1]).max()
        check(difference < 1e-3, f"a folded normalization is another function: off by {difference}")
    print("networks of the zoo on the small chip are as the CPU reference")


def check_pipeline(kodama):
    """At least 95 % of the slower of link and chip, and the same bits as one by one."""
    with tempfile.TemporaryDirectory() as folder:
        model, figures = os.path.join(folder, "resnet18.onnx"), os.path.join(folder, "run.json")
        zoo.write(zoo.build("resnet18").model("resnet18"), model)
        subprocess.run([kodama, "run", model, "--repeat", "5", "--pipeline", "--in-flight", "2", "--json", figures],
                       check=True)
        with open(figures, encoding="utf-8") as file:
            found = json.load(file)
    check(found["same_bits"] and found["passed"], f"bits or results: {found}")
    check(found["share_of_slower"] >= 0.95, f"{found['share_of_slower']:.4f} of the slower of link and chip")
    check(found["latency_alone_cycles"] > found["cycles_per_inference"], f"nothing overlaps: {found}")
    print(f"ResNet-18, two in flight: {found['share_of_slower']:.4f} of the {found['slower']}")


if sys.argv[2] == "run":
    check_run(sys.argv[3])
elif sys.argv[2] == "pipeline":
    check_pipeline(sys.argv[3])
else:
    check_graphs()
