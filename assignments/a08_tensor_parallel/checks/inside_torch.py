"""Functions that call yours of the torch modules inside a rank, for the tests: nothing to write.

``measured_pair`` is for real ranks, on CPUs or GPUs::

    ringside launch checks/inside_torch.py:measured_pair --site zaratan --gpus-per-node 4 \\
        -- --n 2048
"""

import gc
from importlib import import_module

import torch
import torch.distributed as dist
from torch.nn.functional import gelu

from ringside.checking import find

NAMES = ("norm_weight", "norm_bias", "w1", "b1", "w2", "b2")


def operator(group, target, x, dy, how=""):
    """Call an operator, and take the vector-Jacobian product with ``dy``.

    Args:
        target: ``"module:function"``.
        how: ""; "gaps" (``x`` and ``dy`` are transposed tensors); "sum" (``dy`` is the gradient of
            a sum, one number in memory); "shared" (``dy`` is the gradient of two tensors, the
            second is 3 times a tensor; before that comes a call with a tensor that needs no
            gradient); "beside" (``x`` is used elsewhere too: 3 is added to its gradient there).

    Returns:
        ``(y, dx, second, changed)``: ``second`` is the gradient of the other tensor, if there is
        one, and ``changed`` tells whether ``x`` or ``dy`` was changed.
    """
    call = find(target)
    if how == "gaps":
        leaf = x.transpose(0, 1).contiguous().requires_grad_()
        given = leaf.transpose(0, 1)
        dy = dy.transpose(0, 1).contiguous().transpose(0, 1)
    else:
        given = leaf = x.clone().requires_grad_()
    dy_before, second, changed = dy.clone(), None, False
    if how == "shared":
        data = x.clone()
        call(group, data)
        changed = not torch.equal(data, x)
        other = torch.zeros_like(dy).requires_grad_()
        tripled = 3 * other
        y = call(group, given)
        (y + tripled).backward(dy)
        second = other.grad
    elif how == "sum":
        y = call(group, given)
        y.sum().backward()
    elif how == "beside":
        tripled = 3 * given
        y = call(group, given)
        torch.autograd.backward([y, tripled], [dy, torch.ones_like(x)])
    else:
        y = call(group, given)
        y.backward(dy)
    dx = leaf.grad.transpose(0, 1) if how == "gaps" else leaf.grad
    changed |= not (torch.equal(given.detach(), x) and torch.equal(dy, dy_before))
    return y.detach().clone(), dx.clone(), second, changed


# -- a column and a row ----------------------------------------------------------------------------


def pair(group, params, steps, needs="all", measure=False, how=""):
    """A column-parallel layer, gelu, a row-parallel layer; all steps add up their gradients.

    Args:
        params: W1, b1, W2, b2, of the whole layers' shapes; beside this rank's part, what is cut
            may hold anything.
        steps: ``(x, dz)`` each: inputs, and the gradient of the result.
        needs: which gradients: "all", "weights" (x is data), "x" (all parameters are frozen),
            "biases" (of biases and x: weights are frozen), "none".
        measure: find out what the layers keep.
        how: ""; "gaps" (inputs are transposed tensors); "together" (all forward passes, then
            the backward passes, the last one first).

    Returns:
        A dict: ``z`` and ``dx`` of each step, ``gradients`` (of this rank's four parameters),
        ``shapes`` (theirs), ``registered`` (will an optimizer find them), ``held`` (bytes of
        tensors that each layer keeps) and ``changed``.
    """
    linear_torch = import_module("linear_torch")
    column, first = _made(linear_torch.ColumnLinear, group, *params[:2], measure=measure)
    row, second = _made(linear_torch.RowLinear, group, *params[2:], measure=measure)
    own = [column.weight, column.bias, row.weight, row.bias]
    for number, each in enumerate(own):
        if each is not None:
            frozen = needs == "biases" and number % 2 == 0
            each.requires_grad_(needs in ("all", "weights", "biases") and not frozen)
    found = {id(each) for layer in (column, row) for each in layer.parameters()}
    result = {"held": [first, second]}
    result["registered"] = {id(each) for each in own if each is not None} <= found

    def forward(x):
        if how == "gaps":
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        x = x.requires_grad_(needs in ("all", "x", "biases"))
        with torch.set_grad_enabled(needs != "none"):
            return x, row(gelu(column(x), approximate="tanh"))

    result |= _passes(steps, forward, needs != "none", how == "together")
    result["gradients"] = [None if each is None else each.grad for each in own]
    result["shapes"] = [None if each is None else list(each.shape) for each in own]
    return result


def _passes(steps, forward, backward, together):
    """Forward and backward passes of all steps: ``z`` and ``dx`` of each, and ``changed``.

    Args:
        steps: ``(x, dz, *more)`` each.
        forward: ``forward(x, *more)``, which gives x as it needs it, and the result.
        backward: are there backward passes?
        together: all forward passes, then the backward passes, the last one first.
    """
    found = {"z": [None] * len(steps), "dx": [None] * len(steps), "changed": False}
    begun = []

    def end(number, x, dz, z, before):
        if backward:
            z.backward(dz)
        found["z"][number], found["dx"][number] = z.detach().clone(), x.grad
        found["changed"] |= not (torch.equal(x.detach(), before[0]) and torch.equal(dz, before[1]))

    for number, (x, dz, *more) in enumerate(steps):
        before = (x.clone(), dz.clone())
        x, z = forward(x, *more)
        begun.append((number, x, dz, z, before))
        if not together:
            end(*begun.pop())
    while begun:
        end(*begun.pop())
    return found


def _made(make, group, *given, measure):
    """A module, and the bytes of tensors that it keeps; the whole tensors are gone."""
    before = {each.data_ptr() for each in _storages()} if measure else set()
    module = make(group, *map(_copy, given))
    after = _storages() if measure else []
    return module, sum(each.nbytes() for each in after if each.data_ptr() not in before)


def _copy(value):
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in value.items()}
    return value.clone() if isinstance(value, torch.Tensor) else value


def _storages():
    """The storages of all tensors that anything refers to, each once."""
    gc.collect()
    kinds = (torch.Tensor, torch.nn.Parameter)
    alive = [each.untyped_storage() for each in gc.get_objects() if type(each) in kinds]
    return list({each.data_ptr(): each for each in alive}.values())


def measured_pair(group, params, x, dz):
    """Both layers, forward and backward, on the device of ``params``; returns ``(z, dx)``."""
    found = pair(group, params, [(x, dz)])
    return found["z"][0], found["dx"][0]


def two_groups(group, pairs, x, dz):
    """Two pairs of layers in one graph, on rows and on columns of a grid of ranks.

    Args:
        group: p = 2 q ranks, as a grid of 2 rows and q columns.
        pairs: the parameters of both, as for ``pair``; the first is on the rows.

    Returns:
        ``(z, dx, gradients)``, gradients of the first pair and of the second.
    """
    linear_torch = import_module("linear_torch")
    world = dist.get_process_group_ranks(group)
    q, place = len(world) // 2, dist.get_rank(group)
    # Everybody makes all groups, in the same order.
    rows = [dist.new_group(world[k * q : (k + 1) * q]) for k in range(2)]
    columns = [dist.new_group(world[k::q]) for k in range(q)]
    layers = []
    for mine, params in zip((rows[place // q], columns[place % q]), pairs, strict=True):
        layers += [
            linear_torch.ColumnLinear(mine, *params[:2]),
            linear_torch.RowLinear(mine, *params[2:]),
        ]
    z = x = x.requires_grad_()
    for first, second in (layers[:2], layers[2:]):
        z = second(gelu(first(z), approximate="tanh"))
    z.backward(dz)
    return z.detach().clone(), x.grad, [p.grad for each in layers for p in (each.weight, each.bias)]


# -- a sequence ------------------------------------------------------------------------------------


def block(
    group, params, rate, steps, training=True, backward=True, measure=False, before=(),
    how="",
):  # fmt: skip
    """A ``SequenceBlock``; all steps add up their gradients, then ``finish``.

    Args:
        params: a dict of the whole parameters' shapes; beside this rank's part, what is cut may
            hold anything.
        steps: ``(x, dz, seed)`` each, of this rank's positions.
        measure: find out what the block keeps.
        before: such steps with a ``finish`` of their own, after which gradients are 0 again.
        how: "", or "together" (all forward passes, then the backward passes, the last one
            first).

    Returns:
        A dict: ``z`` and ``dx`` of each step, ``gradients`` by name, ``registered`` (does an
        optimizer find the parameters), ``held`` (bytes of tensors that the block keeps) and
        ``changed``.
    """
    make = import_module("sequence_torch").SequenceBlock
    own, held = _made(make, group, params, rate, measure=measure)
    own.train(training)
    result = {"held": [held]}
    found = {id(each) for each in own.parameters()}
    result["registered"] = {id(getattr(own, name)) for name in NAMES} <= found
    for x, dz, seed in before:
        own(x.requires_grad_(), seed).backward(dz)
    if before:
        own.finish()
        own.zero_grad(set_to_none=False)

    def forward(x, seed):
        x = x.requires_grad_()
        return x, own(x, seed)

    result |= _passes(steps, forward, backward, how == "together")
    if backward:
        own.finish()
    result["gradients"] = {name: getattr(own, name).grad for name in NAMES}
    return result


def kept_for_backward(group, params, rate, x, seed):
    """A forward pass whose graph is still there at the last operator: the test reads the memory."""
    own = import_module("sequence_torch").SequenceBlock(group, params, rate)
    z = own(x.clone().requires_grad_(), seed)
    torch.zeros(1)  # the last operator
    return z.detach()
