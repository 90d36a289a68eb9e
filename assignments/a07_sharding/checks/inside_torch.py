"""Functions that call the torch modules inside a rank, for the tests: nothing to write.

``train`` and ``hsdp`` are for real ranks, too, on CPUs or GPUs::

    ringside launch checks/inside_torch.py:train --site zaratan --gpus-per-node 4 -- --steps 2
"""

import warnings
from importlib import import_module

import torch
import torch.distributed as dist
from given.layers_torch import is_layer, loss_of, network

# torch 2.13 has new names for all_gather_into_tensor and reduce_scatter_tensor, and warns of the
# old ones, which all releases know. It warns, too, where a hook is on the first layer, whose input
# is data without a gradient. Neither does harm.
warnings.filterwarnings("ignore", message=r"`torch\.distributed\.\w+` is deprecated")
warnings.filterwarnings("ignore", message="Full backward hook is firing")

# -- zero3_torch -----------------------------------------------------------------------------------


def train(group, spec, params, steps, evaluated, options):
    """Wrap a network in ``ZeRO3`` and train it.

    Args:
        spec: arguments of ``network``.
        params: this rank's parameters, in the order of ``network.parameters()``.
        steps: per step a list of microbatches ``(x, target)``, each with a backward pass and a
            ``finish`` of its own.
        evaluated: inputs that go through the network in each step without a graph: the first one
            before it, the others between ``finish`` and the optimizer's step.
        options: a dict with ``by_layer``, ``optimizer`` ("sgd" or "adam"), ``lr``,
            ``set_to_none``, and ``second``: another network makes a step before.

    Returns:
        A dict: ``shards`` at the end, ``gradients`` (of the shards, per step), ``outputs`` (per
        step of the last microbatch), ``evaluations`` (per step a list).
    """
    if options.get("second"):  # another network's shards are another network's
        other = _wrapped(_filled(spec, [-each for each in params]), group, options["by_layer"])
        x, target = steps[0][0]
        loss_of(other(x), target).backward()
        other.finish()
    net = _filled(spec, params)
    zero = _wrapped(net, group, options["by_layer"])
    shards = list(zero.shards())
    if options["optimizer"] == "adam":
        optimizer = torch.optim.Adam(shards, lr=options["lr"])
    else:
        optimizer = torch.optim.SGD(shards, lr=options["lr"], momentum=0.5)
    result = {"gradients": [], "outputs": [], "evaluations": []}
    for microbatches in steps:
        result["evaluations"].append(_evaluations(zero, evaluated[:1]))
        optimizer.zero_grad(set_to_none=options["set_to_none"])
        for x, target in microbatches:
            output = zero(x)
            loss_of(output, target).backward()
            zero.finish()
        result["outputs"].append(output.detach().clone())
        result["gradients"].append([None if s.grad is None else s.grad.clone() for s in shards])
        result["evaluations"][-1] += _evaluations(zero, evaluated[1:])
        optimizer.step()
    result["shards"] = _copies(shards)
    return result


def alone(group, spec, params, x, target, evaluate):
    """One step with nothing beside it, so that its memory can be seen; returns the gradients.

    The network itself is made small, and takes the given parameters, which aren't counted.
    """
    net = network(**{**spec, "widths": [1] * len(spec["widths"])})
    layers = [each for each in net.modules() if is_layer(each)]
    for layer, given in zip(layers, params, strict=True):
        layer.linear.weight = torch.nn.Parameter(given)
    zero = _wrapped(net, group, False)
    if evaluate:
        with torch.no_grad():
            zero(x)
    loss_of(zero(x), target).backward()
    zero.finish()
    return [shard.grad for shard in zero.shards()]


def with_fully_shard(group, spec, params, steps, whole):
    """Training by SGD with torch's own ``fully_shard``.

    Args:
        group: all ranks of the world.
        params: the right parameters of the whole network.
        whole: gather all parameters at the end, and return them.
    """
    from torch.distributed.fsdp import fully_shard

    net = _filled(spec, params)
    mesh = dist.device_mesh.init_device_mesh("cpu", (group.size(),))
    for child in net:
        fully_shard(child, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5, foreach=False)
    for microbatches in steps:
        optimizer.zero_grad()
        for x, target in microbatches:
            loss_of(net(x), target).backward()
        optimizer.step()
    return [param.full_tensor().detach() for param in net.parameters()] if whole else []


def _filled(spec, params):
    net = network(**spec).to(params[0].device)
    with torch.no_grad():
        for mine, given in zip(net.parameters(), params, strict=True):
            mine.copy_(given)
    return net


def _wrapped(net, group, by_layer):
    make = import_module("zero3_torch").ZeRO3
    return make(net, group, is_layer) if by_layer else make(net, group)


def _evaluations(zero, inputs):
    with torch.no_grad():
        return [zero(x).clone() for x in inputs]


def _copies(tensors):
    return [each.detach().clone() for each in tensors]


# -- hsdp_torch ------------------------------------------------------------------------------------


def groups_of(group, shard_size):
    """Two groups for this rank: the S ranks of its replica, and the R that keep the same shard.

    S ranks in a row are one replica: ranks 0 to S - 1, then S to 2 S - 1, and so on.
    """
    ranks, mine = dist.get_process_group_ranks(group), dist.get_rank(group)
    count = len(ranks) // shard_size
    # Everybody makes all groups, in the same order.
    inside = [dist.new_group(ranks[k * shard_size : (k + 1) * shard_size]) for k in range(count)]
    between = [dist.new_group(ranks[k::shard_size]) for k in range(shard_size)]
    return inside[mine // shard_size], between[mine % shard_size]


def hsdp(group, function, shard_size, tensors):
    """``gather`` of shards, or ``synchronise`` of flat gradients, one a layer.

    Returns:
        The results, and whether an input was changed.
    """
    inside, between = groups_of(group, shard_size)
    call = getattr(import_module("hsdp_torch"), function)
    before = _copies(tensors)
    found = call(inside, tensors) if function == "gather" else call(inside, between, tensors)
    changed = not all(map(torch.equal, before, tensors))
    return [each.clone() for each in found], changed


def hsdp_refuses(group, function, shard_size, tensors):
    """The name of the exception that a call raises, or None."""
    try:
        hsdp(group, function, shard_size, tensors)
    except Exception as error:
        return type(error).__name__
    return None


def hsdp_step(group, shard_size, lengths):
    """What one step of training sends: layers are gathered twice, gradients synchronised once.

    Shards and gradients hold this rank's place everywhere.

    Returns:
        Sums of each layer gathered, and of each part of the mean gradients.
    """
    inside, between = groups_of(group, shard_size)
    module = import_module("hsdp_torch")
    layers = [torch.full((n // shard_size,), float(inside.rank())) for n in lengths]
    module.gather(inside, layers)
    wholes = module.gather(inside, layers)
    gradients = [torch.full((n,), float(group.rank())) for n in lengths]
    parts = module.synchronise(inside, between, gradients)
    return [float(each.sum()) for each in wholes], [float(each.sum()) for each in parts]


def flat_step(group, lengths):
    """The same with plain sharding over all ranks, for comparison."""
    size = group.size()
    works = []
    for n in lengths * 2:
        whole, shard = torch.empty(n), torch.ones(n // size)
        works.append(dist.all_gather_into_tensor(whole, shard, group=group, async_op=True))
    for work in works:
        work.wait()
    works = []
    for n in lengths:
        part, gradient = torch.empty(n // size), torch.ones(n)
        works.append(dist.reduce_scatter_tensor(part, gradient, group=group, async_op=True))
    for work in works:
        work.wait()
