"""The reference solutions of a02, and the suite's oracles, against torch and published numbers."""

import importlib
import runpy
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from ringside import Machine, Session
from ringside.commands import cli
from solutions.a02_sgd import conv, digits, networks, sgd
from solutions.a02_sgd.hidden import oracle, test_account

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a02_sgd"
MODULES = ("sgd", "conv", "account", "sgd_torch")
CASES = (
    ((2, 3, 7, 5), (4, 3, 3, 2), 1, 0),
    ((2, 3, 8, 6), (4, 3, 3, 3), 2, 1),
    ((1, 2, 6, 9), (3, 2, 2, 1), 3, 0),
    ((3, 1, 4, 4), (2, 1, 4, 3), 1, 2),
)


@pytest.fixture(scope="module")
def account():
    """account.py, which imports networks.py as its neighbour."""
    sys.path.insert(0, str(SOLUTION))
    try:
        yield importlib.import_module("account")
    finally:
        sys.path.remove(str(SOLUTION))
        for name in ("account", "networks"):
            sys.modules.pop(name, None)


def network(widths, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [s for a, b in pairwise(widths) for s in ((a, b), (b,))]
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("widths", [(6, 4), (6, 5, 4), (7, 6, 5, 4, 3)])
def test_gradients_are_those_of_torch_and_of_finite_differences(widths):
    rng = np.random.default_rng(len(widths))
    params, x = network(widths), rng.standard_normal((9, widths[0]))
    y = rng.integers(widths[-1], size=9)
    loss, gradients = sgd.loss_and_gradients(params, x, y)
    tensors = [torch.tensor(p, requires_grad=True) for p in params]
    z = torch.tensor(x)
    for k in range(0, len(tensors), 2):
        z = (torch.relu(z) if k else z) @ tensors[k] + tensors[k + 1]
    right = functional.cross_entropy(z, torch.tensor(y))
    right.backward()
    assert loss == pytest.approx(right.item(), rel=1e-10)
    slow = oracle.loss_and_gradients(params, x, y)
    assert slow[0] == pytest.approx(loss, rel=1e-12)
    for p, g, t, other in zip(params, gradients, tensors, slow[1], strict=True):
        np.testing.assert_allclose(g, t.grad.numpy(), rtol=0, atol=1e-10)
        np.testing.assert_allclose(other, g, rtol=0, atol=1e-12)
        at = tuple(int(rng.integers(n)) for n in p.shape)
        values, kept = [], p[at]
        for step in (1e-6, -1e-6):
            p[at] = kept + step
            values.append(sgd.loss_and_gradients(params, x, y)[0])
        p[at] = kept
        assert g[at] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_convolution_is_that_of_torch(case):
    x_shape, w_shape, stride, pad = case
    rng = np.random.default_rng(3)
    x, w, b = (rng.standard_normal(shape) for shape in (x_shape, w_shape, w_shape[:1]))
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    right = functional.conv2d(*tensors, stride=stride, padding=pad)
    dy = rng.standard_normal(right.shape)
    right.backward(torch.tensor(dy))
    for module in (conv, oracle):
        y = module.conv_forward(x, w, b, stride, pad)
        np.testing.assert_allclose(y, right.detach().numpy(), rtol=0, atol=1e-10)
        for g, t in zip(module.conv_backward(dy, x, w, stride, pad), tensors, strict=True):
            np.testing.assert_allclose(g, t.grad.numpy(), rtol=0, atol=1e-10)
        unfold = functional.unfold(torch.tensor(x), w_shape[2:], padding=pad, stride=stride)
        columns = module.im2col(x, w_shape[2:], stride, pad)
        np.testing.assert_array_equal(columns, unfold.numpy())


def test_toeplitz_of_the_slide():
    a, b, c, d = kernel = np.array([2, 3, 5, 7])
    picture = np.array([
        [a, b, 0, c, d, 0, 0, 0, 0],
        [0, a, b, 0, c, d, 0, 0, 0],
        [0, 0, 0, a, b, 0, c, d, 0],
        [0, 0, 0, 0, a, b, 0, c, d],
    ])  # fmt: skip
    for module in (conv, oracle):
        matrix = module.toeplitz(kernel.reshape(2, 2), (3, 3))
        np.testing.assert_array_equal(matrix, picture)
        assert (matrix == 0).sum() == 20


def on_meta(told):
    """A network as torch has it, without memory."""
    layers, shape = [], told.input_shape
    for layer, out in zip(told.layers, oracle.shapes(test_account.tell(told))[1:], strict=True):
        match layer:
            case networks.Conv(channels, kernel, stride, pad, groups):
                made = [nn.Conv2d(shape[0], channels, kernel, stride, pad, groups=groups)]
            case networks.Pool(kernel, stride):
                made = [nn.MaxPool2d(kernel, stride)]
            case networks.Linear(columns):
                made = [nn.Flatten(), nn.Linear(int(np.prod(shape)), columns)]
        layers += made
        shape = out
    return nn.Sequential(*layers).to("meta")


@pytest.mark.parametrize("name", ["ALEXNET", "ALEXNET_ONE_GROUP", "VGG16", "LENET5"])
def test_counts_are_those_of_torch(account, name):
    told = getattr(networks, name)
    mine = getattr(sys.modules["networks"], name)  # of the same classes as account's
    model = on_meta(told)
    parameters = sum(p.numel() for p in model.parameters())
    images = torch.empty(2, *told.input_shape, device="meta")
    with FlopCounterMode(display=False) as forward:
        scores = model(images)
    with FlopCounterMode(display=False) as backward:
        scores.sum().backward()
    outputs, z = [images], images
    for layer in model:
        z = layer(z)
        outputs += [] if isinstance(layer, nn.Flatten) else [z]
    assert account.num_parameters(mine) == parameters
    assert account.activation_bytes(mine, 2) == sum(4 * z.numel() for z in outputs)
    pairs = list(account.walk(mine))
    assert sum(account.layer_flops(*pair, 2) for pair in pairs) == forward.get_total_flops()
    if name != "ALEXNET":  # torch counts too much in the backward pass of groups
        both = forward.get_total_flops() + backward.get_total_flops()
        assert account.training_flops(mine, 2) == both
        assert oracle.training_flops(test_account.tell(told), 2) == both


def test_published_numbers(account):
    net = sys.modules["networks"]
    # Krizhevsky et al. 2012 state 60 million parameters; Sze et al. 2017, table II, 724 M
    # multiplications, 61 M weights, and 15.5 G and 138 M for VGG-16.
    assert account.num_parameters(net.ALEXNET) == 60_965_224
    assert account.num_parameters(net.ALEXNET_ONE_GROUP) == 62_378_344
    products = sum(account.layer_flops(*pair, 1) for pair in account.walk(net.ALEXNET)) // 2
    assert products == 724_406_816
    products = sum(account.layer_flops(*pair, 1) for pair in account.walk(net.VGG16)) // 2
    assert products == 15_470_264_320
    assert account.activation_bytes(net.ALEXNET, 128, convention="slide") == 781_616_640
    assert account.activation_bytes(net.ALEXNET, 128) == 479_397_376
    assert account.training_bytes(net.ALEXNET, 128, convention="slide") == 2_294_815_968


def test_roofline_is_the_kits(account):
    machine = Machine.load("zaratan")
    net = sys.modules["networks"].ALEXNET
    for layer, shape in account.walk(net):
        out = account.output_shape(layer, shape)
        elements = 16 * (np.prod(shape) + np.prod(out)) + account.layer_parameters(layer, shape)
        right = machine.compute_s(account.layer_flops(layer, shape, 16), 4 * elements)
        assert account.layer_time_s(layer, shape, 16, machine) == pytest.approx(right, rel=1e-12)


def test_digits_are_learned_alike_in_numpy_and_torch():
    (x, y), (x_test, y_test) = digits.load()
    params = [0.1 * p for p in network((64, 32, 10))]
    rng = np.random.default_rng(0)
    batches = [batch for _ in range(8) for batch in sgd.minibatches(len(x), 32, rng)]
    after, losses = sgd.train(params, x, y, batches, 0.1, 0.9)
    pairs = [(x[batch], y[batch]) for batch in batches[:20]]
    velocity = [np.zeros_like(p) for p in params]
    with Session(SOLUTION) as session:
        args = (params, velocity, pairs, 0.1, 0.9)
        (value,) = session.call("callers_torch:steps", 1, [args]).raise_for_error().values
    np.testing.assert_allclose(value[2], losses[:20], rtol=0, atol=1e-10)
    early, _ = sgd.train(params, x, y, batches[:20], 0.1, 0.9)
    for mine, other in zip(early, value[0], strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10)
    z = x_test
    for k in (0, 2):
        z = sgd.linear(sgd.relu(z) if k else z, *after[k : k + 2])
    assert (z.argmax(axis=1) == y_test).mean() > 0.95


def test_show_draws_inputs_and_compares(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(SOLUTION))
    for name in ("callers", *MODULES[:2]):
        monkeypatch.delitem(sys.modules, name, raising=False)
    show = runpy.run_path(str(SOLUTION / "callers.py"))["show"]
    show("conv:conv_forward", [2, 3, 7, 5], [4, 3, 3, 2], [4], 2, 1)
    assert "off from SciPy's correlation by at most" in capsys.readouterr().out
    show("conv:conv_forward", "uint8 2 3 7 5", [4, 3, 3, 2], [4])
    show("conv:conv_backward", [1, 2, 2, 2], [1, 3, 6, 5], [2, 3, 3, 2], 2)
    show("sgd:loss_and_gradients", [[5, 4], [4], [4, 3], [3]], [6, 5], "6 of 3")
    last = [line for line in capsys.readouterr().out.splitlines() if "finite differences" in line]
    assert len(last) == 2
    assert all(float(line.split()[-1]) < 1e-6 for line in last)
    for name in ("callers", *MODULES[:2]):
        sys.modules.pop(name, None)


def test_examples_find_a_wrong_step(tmp_path, capsys):
    for path in SOLUTION.glob("*.py"):
        shutil.copy(path, tmp_path)
    words = ["--ranks", "2", "--", "--n", "8", "--width", "32"]
    for file in ("callers_torch.py", "sgd.py"):
        assert cli.main(["run", f"{tmp_path}/{file}:measured_step", *words]) == 0
        assert "values: right" in capsys.readouterr().out
    source = (tmp_path / "sgd.py").read_text()
    (tmp_path / "sgd.py").write_text(source.replace("momentum * v + g", "momentum * (v + g)"))
    assert cli.main(["run", f"{tmp_path}/sgd.py:measured_step", *words]) == 1
    assert "values: wrong. Rank 0 returned" in capsys.readouterr().out
