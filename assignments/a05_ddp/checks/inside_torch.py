"""Functions that call ``ddp_torch`` inside a rank, for the tests: nothing to write.

``measured_ddp`` is for real ranks, on CPUs or GPUs::

    ringside launch checks/inside_torch.py:measured_ddp --site zaratan --gpus-per-node 4 -- --n 512
"""

import contextlib
import gc
from importlib import import_module

import torch
from given.model_torch import Network, loss_of
from torch import nn


def train(group, spec, params, buffers, steps, options):
    """Wrap a network and train it for some steps.

    Args:
        spec: keyword arguments of ``Network``.
        params: this rank's initial parameters, in the order of ``network.parameters()``.
        buffers: this rank's initial buffers.
        steps: per step a list of microbatches ``(x, target, path)``; all but the last run inside
            ``no_sync()``.
        options: a dict with ``bucket_bytes``, ``lr``, ``momentum`` and ``set_to_none``; with
            ``interrupted``, an exception leaves a ``no_sync()`` before the first step; with
            ``nested``, another ``no_sync()`` ends inside each before its microbatch runs;
            with ``between``, another module is wrapped first, and each step begins with a batch in
            evaluation mode.

    Returns:
        A dict: ``begin`` and ``begin_buffers`` (after wrapping), ``gradients`` (per step, after
        ``finish``; None where there is none), ``outputs`` (of each last microbatch), ``params``,
        ``buffers``, ``same`` (is the module the one given), and ``held``: bytes of tensors beside
        parameters, buffers and batches at the end of the last backward pass.
    """
    from_before = alive()
    network = Network(**spec)
    with torch.no_grad():
        for mine, given in zip(network.parameters(), params, strict=True):
            mine.copy_(given)
        for mine, given in zip(network.buffers(), buffers, strict=True):
            mine.copy_(given)
    DDP = import_module("ddp_torch").DDP
    other = DDP(nn.Linear(3, 2), group) if options.get("between") else None  # noqa: F841
    ddp = DDP(network, group, bucket_bytes=options["bucket_bytes"])
    learning = [each for each in network.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(learning, lr=options["lr"], momentum=options["momentum"])
    result = {
        "begin": copies(network.parameters()),
        "begin_buffers": copies(network.buffers()),
        "gradients": [],
        "outputs": [],
        "same": ddp.module is network,
        "held": 0,
    }
    if options.get("interrupted"):
        with contextlib.suppress(RuntimeError), ddp.no_sync():
            raise RuntimeError("a batch could not be read")
    for microbatches in steps:
        optimizer.zero_grad(set_to_none=options["set_to_none"])
        if options.get("between"):
            ddp.eval()
            with torch.no_grad():
                ddp(microbatches[0][0], microbatches[0][2])
            ddp.train()
        for number, (x, target, path) in enumerate(microbatches):
            last = number == len(microbatches) - 1
            with contextlib.nullcontext() if last else ddp.no_sync():
                if options.get("nested") and not last:
                    with ddp.no_sync():
                        pass
                output = ddp(x, path)
                loss_of(output, target).backward()
        result["outputs"].append(output.detach().clone())
        del output
        known = [*from_before, *network.parameters(), *network.buffers()]
        known += [*every(result), *every(list(optimizer.state.values()))]
        result["held"] = held_bytes(network, known)
        ddp.finish()
        result["gradients"].append(
            [None if p.grad is None else p.grad.detach().clone() for p in network.parameters()]
        )
        optimizer.step()
    result["params"] = copies(network.parameters())
    result["buffers"] = copies(network.buffers())
    return result


def evaluated(group, spec, params, buffers, x, path, bucket_bytes):
    """The output in evaluation mode, and the buffers afterwards, in a list."""
    network = Network(**spec)
    ddp = import_module("ddp_torch").DDP(network, group, bucket_bytes=bucket_bytes)
    with torch.no_grad():
        for mine, given in zip(network.parameters(), params, strict=True):
            mine.copy_(given)
        for mine, given in zip(network.buffers(), buffers, strict=True):
            mine.copy_(given)
    ddp.eval()
    return [ddp(x, path=path).detach(), *copies(network.buffers())]


def copies(tensors):
    """Detached copies."""
    return [each.detach().clone() for each in tensors]


def every(value):
    """The tensors in lists and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [found for item in value for found in every(item)]
    return []


def alive():
    """All tensors that anything refers to."""
    gc.collect()
    kinds = (torch.Tensor, torch.nn.Parameter)
    return [each for each in gc.get_objects() if type(each) in kinds]


def held_bytes(network, known):
    """Bytes of all tensors that are alive, gradients included, without those known."""
    storages = {each.untyped_storage().data_ptr() for each in known}
    gradients = [param.grad for param in network.parameters() if param.grad is not None]
    found = {}
    for tensor in [*gradients, *alive()]:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in storages:
            found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def measured_ddp(group, params, x, target, bucket_bytes):
    """Wrap a network and make one step; returns the gradients, on the device of ``params``.

    Args:
        params: weight and bias of each layer in turn, weights of shape ``(d_in, d_out)``.
        x, target: this rank's batch.
    """
    layers = []
    for weight, bias in zip(params[::2], params[1::2], strict=True):
        layer = nn.Linear(*weight.shape, dtype=weight.dtype, device=weight.device)
        layer.weight = nn.Parameter(weight.T.contiguous())
        layer.bias = nn.Parameter(bias.clone())
        layers += [nn.Tanh(), layer]
    network = nn.Sequential(*layers[1:])
    ddp = import_module("ddp_torch").DDP(network, group, bucket_bytes=bucket_bytes)
    loss_of(ddp(x), target).backward()
    ddp.finish()
    return [p.grad.T if p.grad.ndim == 2 else p.grad for p in network.parameters()]
