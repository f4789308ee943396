#!/usr/bin/python3
"""twins_test.py TOOLS DIR: writes models that the builder's tests build, too: lenet.onnx and encoder2.onnx, of two layers, as
tools/zoo.py makes them, and, where PyTorch is installed (Debian: python3-torch), torch_lenet.onnx and torch_encoder2.onnx as
its exporter does."""
import sys

sys.path.insert(0, sys.argv[1])
import zoo  # noqa: E402


def write_zoo(directory):
    zoo.write(zoo.build("lenet", seed=3).model("lenet"), f"{directory}/lenet.onnx")
    graph = zoo.Graph(seed=5)
    graph.output(zoo.encoder(graph, graph.input("x", (2, 12, 32)), 4, 2))
    zoo.write(graph.model("encoder2"), f"{directory}/encoder2.onnx")


def write_torch(directory):
    try:
        import torch
    except ImportError:
        print("twins_test.py: PyTorch is not installed")
        return
    torch.manual_seed(7)

    class LeNet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = torch.nn.Conv2d(1, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)
            self.f1, self.f2, self.f3 = (torch.nn.Linear(*of) for of in ((400, 120), (120, 84), (84, 10)))

        def forward(self, x):
            pool, relu = torch.nn.functional.max_pool2d, torch.relu
            x = pool(relu(self.c2(pool(relu(self.c1(x)), 2))), 2).flatten(1)
            return torch.softmax(self.f3(relu(self.f2(relu(self.f1(x))))), -1)

    def export(model, shape, name):
        torch.onnx.export(model, torch.randn(shape), f"{directory}/{name}.onnx", opset_version=17, input_names=["x"],
                          output_names=["y"])

    export(LeNet().eval(), (1, 1, 28, 28), "torch_lenet")
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    for parameter in model.parameters():  # the layers are copies of one, with vectors of zeros and ones
        torch.nn.init.normal_(parameter, std=0.2)
    export(model, (12, 2, 32), "torch_encoder2")


if __name__ == "__main__":
    write_zoo(sys.argv[2])
    write_torch(sys.argv[2])
