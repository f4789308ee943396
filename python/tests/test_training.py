"""kodama.train_step: torch's training, on the chip."""

import numpy
import pytest

import kodama
from conftest import make_small_model

torch = pytest.importorskip("torch", reason="torch isn't installed")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(8, 16, bias=False)  # behind which is a normalization
        self.norm = torch.nn.BatchNorm1d(16)
        self.out = torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.hidden(x))))


def batches(count):
    random = torch.Generator().manual_seed(7)
    direction = torch.randn(8, 3, generator=random)
    for _ in range(count):
        x = torch.randn(4, 8, generator=random)
        yield x, (x @ direction).argmax(1)


@pytest.mark.parametrize("make", [
    lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
], ids=["sgd", "nesterov", "adamw"])
def test_steps_are_those_of_torch(make):
    torch.manual_seed(1)
    net = Net().train()
    loss_of = torch.nn.CrossEntropyLoss()
    data = list(batches(6))
    step = kodama.train_step(net, loss_of, make(net.parameters()), data[0], chip="tiny", precision="float")
    assert step.inputs[0] == "x" and len(step.inputs) == 2 and "hidden.weight" in step.parameters
    optimizer = make(net.parameters())
    for x, labels in data:
        expected = loss_of(net(x), labels)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        found = step(x, labels)
        assert found.item() == pytest.approx(expected.item(), rel=1e-3) and found.cycles > 0
    assert step.done == 6 and step.cycles == found.cycles
    state = step.state_dict()
    assert set(state) == set(net.state_dict())
    for name, value in net.state_dict().items():
        assert torch.allclose(state[name], value, rtol=2e-3, atol=2e-4), name
    other = Net()
    other.load_state_dict(state)


def test_only_what_the_optimizer_has_is_trained():
    net = Net()
    data = next(batches(1))
    step = kodama.train_step(net, torch.nn.CrossEntropyLoss(), torch.optim.SGD(net.out.parameters(), lr=0.1), data, chip="tiny")
    assert sorted(step.parameters) == ["out.bias", "out.weight"]
    step(*data)
    state = step.state_dict()
    assert (state["hidden.weight"] == net.hidden.weight).all()
    assert not (state["out.weight"] == net.out.weight).all()


def test_names_instead_of_objects():
    model, w, b = make_small_model()
    x, y = numpy.ones((2, 8), numpy.float32), numpy.zeros((2, 4), numpy.float32)
    step = kodama.train_step(model, "mse", "sgd:lr=0.05", (x, y), chip="tiny", schedule="linear:steps=100")
    first = step(x, y)
    for _ in range(5):
        last = step(x, y)
    assert last < first and last.rate < first.rate
    assert step.state()["w"].shape == (8, 4) and not (step.state()["w"] == w).all()
    with pytest.raises(kodama.UserError, match="allowed: state"):
        step.state_dict()
    with pytest.raises(kodama.UserError, match="found 1 inputs"):
        step(x)
    with pytest.raises(kodama.UserError):
        step(x[:1], y[:1])
    assert step(x, y) < first


def test_what_is_not_supported():
    net = Net()
    data = next(batches(1))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    for loss, optimizer, error, message in [
            (torch.nn.CrossEntropyLoss(label_smoothing=0.1), sgd, kodama.UnsupportedError, "label_smoothing"),
            (torch.nn.CrossEntropyLoss(reduction="sum"), sgd, kodama.UnsupportedError, "reduction"),
            (torch.nn.KLDivLoss(), sgd, kodama.UserError, "found KLDivLoss, allowed: CrossEntropyLoss"),
            (torch.nn.CrossEntropyLoss(), torch.optim.Rprop(net.parameters()), kodama.UserError, "found Rprop"),
            (torch.nn.CrossEntropyLoss(), torch.optim.Adam(net.parameters(), amsgrad=True), kodama.UnsupportedError, "amsgrad"),
            (torch.nn.CrossEntropyLoss(), torch.optim.SGD(Net().parameters(), lr=1), kodama.UserError, "doesn't have"),
            ("no such loss", sgd, kodama.UserError, "no such loss")]:
        with pytest.raises(error, match=message):
            kodama.train_step(net, loss, optimizer, data, chip="tiny")
    with pytest.raises(kodama.UserError, match="no inputs and target"):
        kodama.train_step(net, "mse", sgd, data[0], chip="tiny")
