"""The reference solutions of a02, and the suite's oracles, against torch and published numbers."""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from ringside import Machine
from ringside.checking import case_files
from ringside.commands import cli
from solutions.a02_sgd import sgd
from solutions.a02_sgd.given import digits

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a02_sgd"
SHAPES = (
    ((2, 3, 7, 5), (4, 3, 3, 2), 1, 0),
    ((2, 3, 8, 6), (4, 3, 3, 3), 2, 1),
    ((1, 2, 6, 9), (3, 2, 2, 1), 3, 0),
    ((3, 1, 4, 4), (2, 1, 4, 3), 1, 2),
)


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


@pytest.fixture(scope="module")
def account():
    """account.py, which imports given/networks.py as its neighbour."""
    sys.path.insert(0, str(SOLUTION))
    try:
        yield importlib.import_module("account")
    finally:
        sys.path.remove(str(SOLUTION))
        for name in ("account", "given.networks", "given"):
            sys.modules.pop(name, None)


@pytest.mark.parametrize("widths", [(6, 4), (6, 5, 4), (7, 6, 5, 4, 3)])
def test_complex_steps_give_the_gradients_of_torch(cases, widths):
    case = cases["LossAndGradients"](widths, 9)
    params, x, y = case.given()
    tensors = [torch.tensor(p, requires_grad=True) for p in params]
    z = torch.tensor(x)
    for k in range(0, len(tensors), 2):
        z = (torch.relu(z) if k else z) @ tensors[k] + tensors[k + 1]
    right = functional.cross_entropy(z, torch.tensor(y))
    right.backward()
    loss, gradients = case.right()
    assert loss == pytest.approx(right.item(), rel=1e-12)
    for gradient, tensor in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shapes", SHAPES)
def test_the_oracles_convolution_is_that_of_torch(cases, shapes):
    x, w, b, stride, pad = cases["ConvForward"](*shapes).given()
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    right = functional.conv2d(*tensors, stride=stride, padding=pad)
    y = cases["ConvForward"](*shapes).right()
    np.testing.assert_allclose(y, right.detach().numpy(), rtol=0, atol=1e-12)
    case = cases["ConvBackward"](*shapes)
    right.backward(torch.tensor(case.given()[0]))
    for gradient, tensor in zip(case.right(), tensors, strict=True):
        np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=0, atol=1e-12)
    unfold = functional.unfold(torch.tensor(x), w.shape[2:], padding=pad, stride=stride)
    np.testing.assert_array_equal(cases["Im2col"](*shapes).right(), unfold.numpy())


def test_toeplitz_of_the_slide(cases):
    case = cases["Toeplitz"](dtype="int64")
    (a, b), (c, d) = case.given()[0]
    picture = np.array([
        [a, b, 0, c, d, 0, 0, 0, 0],
        [0, a, b, 0, c, d, 0, 0, 0],
        [0, 0, 0, a, b, 0, c, d, 0],
        [0, 0, 0, 0, a, b, 0, c, d],
    ])  # fmt: skip
    np.testing.assert_array_equal(case.right(), picture)


def on_meta(account, network):
    """A network as torch has it, without memory."""
    made = []
    for layer, shape in account.walk(network):
        match type(layer).__name__:
            case "Conv":
                window = layer.kernel, layer.stride, layer.pad
                made.append(nn.Conv2d(shape[0], layer.out_channels, *window, groups=layer.groups))
            case "Pool":
                made.append(nn.MaxPool2d(layer.kernel, layer.stride))
            case "Linear":
                made += [nn.Flatten(), nn.Linear(int(np.prod(shape)), layer.out_features)]
    return nn.Sequential(*made).to("meta")


@pytest.mark.parametrize("name", ["ALEXNET", "ALEXNET_ONE_GROUP", "VGG16", "LENET5"])
def test_counts_are_those_of_torch(account, name):
    network = getattr(sys.modules["given.networks"], name)
    model = on_meta(account, network)
    images = torch.empty(2, *network.input_shape, device="meta")
    with FlopCounterMode(display=False) as forward:
        scores = model(images)
    with FlopCounterMode(display=False) as backward:
        scores.sum().backward()
    outputs, z = [images], images
    for layer in model:
        z = layer(z)
        outputs += [] if isinstance(layer, nn.Flatten) else [z]
    assert account.num_parameters(network) == sum(p.numel() for p in model.parameters())
    assert account.activation_bytes(network, 2) == sum(4 * z.numel() for z in outputs)
    pairs = list(account.walk(network))
    assert sum(account.layer_flops(*pair, 2) for pair in pairs) == forward.get_total_flops()
    if name != "ALEXNET":  # torch counts too much in the backward pass of groups
        both = forward.get_total_flops() + backward.get_total_flops()
        assert account.training_flops(network, 2) == both


def test_published_numbers(account):
    # Sze et al. 2017, table II: 724 M multiplications, and 15.5 G for VGG-16.
    networks = sys.modules["given.networks"]
    for network, right in ((networks.ALEXNET, 724_406_816), (networks.VGG16, 15_470_264_320)):
        assert sum(account.layer_flops(*pair, 1) for pair in account.walk(network)) == 2 * right


def test_roofline_is_the_kits(account):
    machine = Machine.load("zaratan")
    for layer, shape in account.walk(sys.modules["given.networks"].ALEXNET):
        out = account.output_shape(layer, shape)
        elements = 16 * (np.prod(shape) + np.prod(out)) + account.layer_parameters(layer, shape)
        right = machine.compute_s(account.layer_flops(layer, shape, 16), 4 * elements)
        assert account.layer_time_s(layer, shape, 16, machine) == pytest.approx(right, rel=1e-12)


def test_digits_are_learned():
    (x, y), (x_test, y_test) = digits.load()
    rng = np.random.default_rng(0)
    params = [0.1 * rng.standard_normal(shape) for shape in ((64, 32), 32, (32, 10), 10)]
    batches = [batch for _ in range(8) for batch in sgd.minibatches(len(x), 32, rng)]
    W1, b1, W2, b2 = sgd.train(params, x, y, batches, 0.1, 0.9)[0]
    scores = sgd.linear(sgd.relu(sgd.linear(x_test, W1, b1)), W2, b2)
    assert (scores.argmax(axis=1) == y_test).mean() > 0.95


def test_a_run_finds_a_wrong_step(tmp_path, capsys):
    folder = tmp_path / "a02"
    shutil.copytree(SOLUTION, folder, ignore=shutil.ignore_patterns("__pycache__"))
    words = ["--ranks", "2", "--", "--n", "8", "--width", "32"]
    for file, dtype in (("checks/inside_torch.py", "float32"), ("sgd.py", "float64")):
        asked = [f"{folder}/{file}:measured_step", *words, "--dtype", dtype]
        assert cli.main(["run", *asked]) == 0
        assert "values: right" in capsys.readouterr().out
    source = (folder / "sgd.py").read_text()
    (folder / "sgd.py").write_text(source.replace("momentum * v + g", "momentum * (v + g)"))
    assert cli.main(["run", f"{folder}/sgd.py:measured_step", *words]) == 1
    assert "values: wrong" in capsys.readouterr().out
