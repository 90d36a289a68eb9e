"""Calls of the torch modules, as the tests make them, and what they must move: supplied.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from ringside.checking import Call, assert_array

# -- zero3_torch -----------------------------------------------------------------------------------


def units_of(spec, by_layer=False):
    """The layers of ``layers_torch.network(**spec)`` that are sharded as one: lists of numbers."""
    layers = list(range(len(spec["widths"]) - 1))
    if spec.get("blocks") is None or by_layer:
        return [[layer] for layer in layers]
    ends = np.cumsum(spec["blocks"]).tolist()
    return [layers[end - count : end] for end, count in zip(ends, spec["blocks"], strict=True)]


def shapes_of(spec):
    """Per layer the shapes of its parameters."""
    widths, bias = spec["widths"], spec.get("bias", True)
    return [[(d_out, d_in)] + [(d_out,)] * bias for d_in, d_out in itertools.pairwise(widths)]


def lengths_of(spec, p, by_layer=False):
    """Elements of each layer that is sharded, padded to a multiple of p."""
    own = [sum(int(np.prod(shape)) for shape in layer) for layer in shapes_of(spec)]
    return [-(-sum(own[k] for k in unit) // p) * p for unit in units_of(spec, by_layer)]


@dataclass(frozen=True)
class Sharded:
    """A layer that is sharded as one: the first and last of its parts, and its padded bytes."""

    first: int
    last: int
    nbytes: int


def sharded(spec, p, by_layer=False):
    """The layers of a network, as they are sharded over p ranks."""
    itemsize = np.dtype(spec.get("dtype", "float64")).itemsize
    units = units_of(spec, by_layer)
    return [
        Sharded(unit[0], unit[-1], length * itemsize)
        for unit, length in zip(units, lengths_of(spec, p, by_layer), strict=True)
    ]


def flat(arrays, p):
    """Arrays as one flat array, padded with zeros to a multiple of p elements."""
    joined = np.concatenate([np.ravel(each) for each in arrays])
    return np.concatenate([joined, np.zeros(-len(joined) % p, joined.dtype)])


def handed(params, units, p, rank, rng):
    """What rank ``rank`` is given of a network: its shards are right, the rest is not.

    Args:
        params: per layer its arrays.

    Returns:
        The same as a flat list of arrays.
    """
    given = []
    for unit in units:
        arrays = [each for layer in unit for each in params[layer]]
        right = flat(arrays, p)
        own = np.full(len(right), False)
        own[rank * len(right) // p : (rank + 1) * len(right) // p] = True
        other = rng.standard_normal(len(right)).astype(right.dtype)
        mixed, at = np.where(own, right, other), 0
        for each in arrays:
            given.append(mixed[at : at + each.size].reshape(each.shape))
            at += each.size
    return given


def options_of(optimizer="sgd", *, by_layer=False, keep_zeros=False, lr=0.1, second=False):
    """What ``callers_torch.zero3_train`` takes beside the network and its data."""
    return {
        "optimizer": optimizer, "by_layer": by_layer, "set_to_none": not keep_zeros, "lr": lr,
        "second": second,
    }  # fmt: skip


def sample_training(rng, spec, p, by_layer=False, *, steps=2, microbatches=1, evaluate=False):
    """Parameters and batches of three samples, drawn for p ranks.

    Returns:
        A dict: ``params`` (the right ones, per layer), ``handed`` (per rank, as a flat list),
        ``steps`` and ``evaluated`` (per rank).
    """
    dtype, widths = spec.get("dtype", "float64"), spec["widths"]
    params = [
        [(rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(dtype) for shape in layer]
        for layer in shapes_of(spec)
    ]

    def batch():
        return tuple(rng.standard_normal((3, widths[end])).astype(dtype) for end in (0, -1))

    units = units_of(spec, by_layer)
    return {
        "params": params,
        "handed": [handed(params, units, p, rank, rng) for rank in range(p)],
        "steps": [[[batch() for _ in range(microbatches)] for _ in range(steps)] for _ in range(p)],
        "evaluated": [[batch()[0] for _ in range(2 * evaluate)] for _ in range(p)],
    }


def training_arguments(spec, sample, options):
    """Per rank what ``callers_torch.zero3_train`` takes after the group."""
    return [
        (spec, *own, options)
        for own in zip(sample["handed"], sample["steps"], sample["evaluated"], strict=True)
    ]


def zero3_call(
    p, spec, by_layer=False, *, steps=2, microbatches=1, evaluate=False, keep_zeros=False,
    optimizer="sgd", second=False,
):  # fmt: skip
    """``zero3_torch.ZeRO3`` around a network of ``layers_torch.py``, trained for some steps."""
    words = [f"--widths '{list(spec['widths'])}' --steps {steps}"]
    words += [f"--microbatches {microbatches}"] if microbatches > 1 else []
    words += [f"--blocks '{list(spec['blocks'])}'"] if spec.get("blocks") else []
    words += [] if spec.get("bias", True) else ["--bias False"]
    words += [f"--precision {spec['dtype']}"] if "dtype" in spec else []
    words += [f"--costs '{list(spec['costs'])}'"] if "costs" in spec else []
    flags = {"evaluate": evaluate, "by-layer": by_layer, "keep-zeros": keep_zeros}
    flags["second"] = second
    words += [f"--{name} True" for name, flag in flags.items() if flag]
    words += [f"--optimizer {optimizer}"] if optimizer != "sgd" else []
    told = [
        f"widths {_listed(spec['widths'])}",
        f"in blocks of {_listed(spec['blocks'])} layers" if spec.get("blocks") else "",
        "sharded by layer" if by_layer else "",
        "" if spec.get("bias", True) else "without biases",
        f"{steps} steps",
        f"{microbatches} microbatches" if microbatches > 1 else "",
        "gradients set to zeros before each" if keep_zeros else "",
        "evaluated before each" if evaluate else "",
        optimizer if optimizer != "sgd" else "",
        "after a step of another network" if second else "",
        spec.get("dtype", ""),
    ]
    return Call(
        "zero3_torch:ZeRO3", p, sum(lengths_of(spec, p, by_layer)), spec.get("dtype", "float64"),
        about=", ".join(filter(None, told)),
        line=f"ringside run callers_torch.py:try_zero3 --ranks {p} -- {' '.join(words)}",
    )  # fmt: skip


def check_zero3(value, wanted, rank, spec, by_layer, case):
    """What ``callers_torch.zero3_train`` gave back is what ``serial_torch.train`` says."""
    p, units = case.world_size, units_of(spec, by_layer)

    def shards(layers):
        return [
            np.split(flat([each for k in unit for each in layers[k]], p), p)[rank] for unit in units
        ]

    for step, right in enumerate(wanted["evaluations"][rank]):
        compare(
            value["evaluations"][step], right, case, f"before step {step}, rank {rank}'s evaluation"
        )
    for step, right in enumerate(wanted["gradients"]):
        what = f"in step {step}, rank {rank}'s output"
        compare([value["outputs"][step]], [wanted["outputs"][rank][step]], case, what)
        what = f"in step {step}, the gradient of rank {rank}'s shard"
        compare(value["gradients"][step], shards(right), case, what)
    compare(value["shards"], shards(wanted["params"]), case, f"at the end, rank {rank}'s shard")


def compare(values, expected, case, what):
    if not isinstance(values, list) or len(values) != len(expected):
        raise case.fail(f"{what}: not all of {len(expected)} came back.")
    for number, (value, right) in enumerate(zip(values, expected, strict=True)):
        named = f"{what} {number}" if len(expected) > 1 else what
        if value is None:
            raise case.fail(f"{named} is None.")
        tolerance = 1e-5 if right.dtype == np.float32 else 1e-12
        eps = 2 * (case.world_size + 1) * np.finfo(right.dtype).eps
        scale = np.full(right.size, tolerance / eps * (1 + np.abs(right).max(initial=0)))
        if isinstance(value, np.ndarray) and value.shape == right.shape:
            value, right = value.reshape(-1), right.reshape(-1)
        assert_array(value, right, scale, case, named)


# -- hsdp_torch ------------------------------------------------------------------------------------


def hsdp_call(function, num_replicas, shard_size, lengths, dtype="float64"):
    """``hsdp_torch.gather`` or ``synchronise`` on R replicas of S ranks each."""
    p = num_replicas * shard_size
    words = f"--function {function} --shard-size {shard_size} --lengths '{list(lengths)}'"
    return Call(
        f"hsdp_torch:{function}", p, sum(lengths), dtype,
        about=f"{num_replicas} replicas of {shard_size} shards, layers of {_listed(lengths)} "
        f"elements, {dtype}",
        line=f"ringside run callers_torch.py:try_hsdp --ranks {p} -- {words} --dtype {dtype}",
    )  # fmt: skip


def hsdp_s(lengths, num_replicas, shard_size, machine, itemsize=8):
    """The time of ``synchronise`` where a node holds a replica, and both levels work at once.

    The ranks of a node share its port between nodes.
    """
    inner = 0.0
    outer = 0.0
    for length in lengths:
        part = length // shard_size
        inside_s = (shard_size - 1) * (
            machine.intra_alpha_s + part * itemsize * machine.intra_beta_s_per_byte
        )
        nbytes = -(-part // num_replicas) * itemsize * shard_size
        between_s = 2 * (num_replicas - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
        inner += inside_s
        outer = max(inner, outer) + between_s
    return outer


def _listed(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 60 else f"{text[:57]}..."
