"""torch modules and tensors."""

import numpy
import pytest

import kodama

torch = pytest.importorskip("torch", reason="torch isn't installed")


class SmallNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.drop = torch.nn.Dropout(0.5)
        self.fc = torch.nn.Linear(4 * 16, 5)

    def forward(self, image):
        x = torch.relu(self.norm(self.conv(image)))
        return self.fc(self.drop(torch.max_pool2d(x, 2).flatten(1)))


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(1)
    return SmallNet()


def close(found, expected):
    return float((found - expected).abs().max()) <= 1e-3 * max(float(expected.abs().max()), 1e-30)


def test_module(net):
    image = torch.randn(2, 1, 8, 8)
    was_training = net.training
    model = kodama.compile(net, image, chip="tiny")
    assert net.training == was_training
    found = model(image)
    assert isinstance(found, torch.Tensor) and found.dtype == torch.float32
    with torch.no_grad():
        assert close(found, net.eval()(image))
    net.train(was_training)
    assert model.inputs[0].name == "image" and model.name
    assert isinstance(model(image.numpy()), numpy.ndarray)
    assert (model(image=image) == found).all()
    result = model.run(image)
    output, = result.outputs.values()
    tensor, = result.tensors.values()
    assert output.data_ptr() == tensor.address  # no copy
    assert (model(image.transpose(2, 3).contiguous().transpose(2, 3)) == found).all()
    assert (model(image.requires_grad_()) == found).all()


def test_dlpack(net):
    image = torch.randn(2, 1, 8, 8)
    model = kodama.compile(net, image, chip="tiny")
    found = model(image.numpy())
    assert torch.from_dlpack(found).data_ptr() == found.__array_interface__["data"][0]


def test_bfloat16():
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x.reshape(4)

    x = torch.tensor([[1, 2], [3, -0.5]], dtype=torch.bfloat16)
    tensor = kodama.Tensor(x)
    assert tensor.dtype == "bfloat16" and (tensor.torch() == x).all()
    found = kodama.compile(Twice(), x, chip="tiny")(x)
    assert found.dtype == torch.bfloat16 and (found == x.reshape(4)).all()


def test_wrong_modules(net):
    with pytest.raises(kodama.UserError, match="SmallNet: a torch module is compiled for inputs of known shapes"):
        kodama.compile(net)

    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    with pytest.raises(kodama.UnsupportedError, match="Odd: torch.onnx can't export it"):
        kodama.compile(Odd(), torch.ones(3))


@pytest.mark.long
def test_resnet18_agrees_with_torch():
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(1)
    network = torchvision.models.resnet18().eval()
    image = torch.randn(1, 3, 224, 224)
    model = kodama.compile(network, image)
    found = model(image)
    with torch.no_grad():
        expected = network(image)
    assert close(found, expected)
    assert model.cycles > 0 and len(model.layers) > 20
