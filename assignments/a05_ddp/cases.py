"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

import itertools
from dataclasses import replace

import numpy as np

from ringside import checking


class Call(checking.Call):
    """A call whose line may get more options of the function."""

    def with_options(self, **options):
        """The same with more of the function's options in its line."""
        words = [f"--{name} {value}" for name, value in options.items()]
        return replace(self, line=" ".join([self.line, *words]))


def average_call(world_size, lengths, buckets, dtype="float64"):
    """``buckets.average`` of gradients of these lengths."""
    words = f"--lengths '{list(lengths)}' --buckets '{buckets}' --dtype {dtype}"
    return Call(
        "buckets:average", world_size, sum(lengths), dtype,
        about=f"gradients of {_listed(lengths)} elements, buckets {_listed(buckets)}, {dtype}",
        line=f"ringside run callers.py:try_average --ranks {world_size} -- {words}",
    )  # fmt: skip


def fusion_call(world_size, lengths, threshold_bytes, dtype="float64"):
    """``buckets.fusion_cycle`` of gradients of these lengths, ready here and there."""
    words = f"--lengths '{list(lengths)}' --threshold-bytes {threshold_bytes} --dtype {dtype}"
    return Call(
        "buckets:fusion_cycle", world_size, sum(lengths), dtype,
        about=f"gradients of {_listed(lengths)} elements, at most {threshold_bytes} bytes, {dtype}",
        line=f"ringside run callers.py:try_fusion --ranks {world_size} -- {words}",
    )  # fmt: skip


def step_call(world_size, widths, buckets, dtype="float64"):
    """``overlap.backward`` of a model with layers of these widths."""
    words = f"--widths '{list(widths)}' --buckets '{buckets}' --dtype {dtype}"
    elements = sum((d_in + 1) * d_out for d_in, d_out in itertools.pairwise(widths))
    return Call(
        "overlap:backward", world_size, elements, dtype,
        about=f"layers of widths {_listed(widths)}, buckets {_listed(buckets)}, {dtype}",
        line=f"ringside run callers.py:try_step --ranks {world_size} -- {words}",
    )  # fmt: skip


def ddp_call(world_size, network, bucket_bytes, steps=1, about="", microbatches=1, nested=False):
    """``ddp_torch.DDP`` around one of the networks of ``model_torch.py``."""
    words = f"--network {network} --bucket-bytes {bucket_bytes} --steps {steps}"
    words += f" --microbatches {microbatches}" if microbatches > 1 else ""
    words += " --nested True" if nested else ""
    told = [
        f"buckets of {bucket_bytes} bytes",
        f"{steps} steps",
        f"{microbatches} microbatches" if microbatches > 1 else "",
        "after a no_sync that ended inside the other" if nested else "",
        about,
    ]
    return Call(
        "ddp_torch:DDP", world_size, 0,
        about=", ".join(filter(None, told)),
        line=f"ringside run callers_torch.py:try_ddp --ranks {world_size} -- {words}",
    )  # fmt: skip


def ring_s(nbytes, world_size, machine, itemsize=8):
    """A ring's all-reduce of one bucket: the closed form that the docstrings state."""
    shard = -(-(nbytes // itemsize) // world_size) * itemsize
    return 2 * (world_size - 1) * (machine.alpha_s + shard * machine.beta_s_per_byte)


def greedy(sizes, bucket_bytes):
    """Buckets in reverse order under a cap, so that no module needs another one's.

    >>> greedy([400, 40, 4000, 40, 80], 1000)
    [[4, 3], [2], [1, 0]]
    """
    buckets, room = [], -1
    for index in reversed(range(len(sizes))):
        if not buckets or sizes[index] > room:
            buckets.append([])
            room = bucket_bytes
        buckets[-1].append(index)
        room -= sizes[index]
    return buckets


def drawn(shapes, rng, dtype="float64"):
    """Random arrays of these shapes."""
    return [np.asarray(rng.standard_normal(shape)).astype(dtype) for shape in shapes]


def _listed(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 60 else f"{text[:57]}..."
