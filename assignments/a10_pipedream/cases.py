"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A call is what a verdict is about: its words, and the line that runs the same thing. Its inputs
come from a seed in that line.
"""

from dataclasses import dataclass, replace

import numpy as np
from model import random_parameters
from recursion import delayed_descent, lags

from ringside import checking

# -- stash -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StashCase(checking.Call):
    """A training with ``stash.train``; ``world_size`` counts the stages, ``n`` the samples."""

    place = "stage"

    batch_sizes: tuple = ()
    vertical_sync: bool = False
    seed: int = 0
    width: int = 3
    hidden: int = 4
    alike: bool = False  # all stages hand on as much
    costs: tuple = (1e-6, 2e-6)
    calls: int = 1
    memory: bool = False

    @property
    def widths(self):
        """Per boundary, from the input to the output, how many elements a sample has there."""
        return stash_widths(self.world_size, self.width, self.alike)

    def inputs(self):
        """Parameters per stage, inputs, targets and learning rate."""
        return stash_inputs(self)

    def arguments_of_ranks(self):
        """What ``callers.stash_trained`` gets on each rank, after ``comm``: its own part."""
        params, inputs, targets, lr = self.inputs()
        last = self.world_size - 1
        return [
            (
                params[stage], list(self.batch_sizes), lr,
                inputs if stage == 0 else None, targets if stage == last else None,
                self.vertical_sync, self.costs, self.calls, self.memory,
            )
            for stage in range(self.world_size)
        ]  # fmt: skip

    def right(self, factors=None):
        """What the recursion gives: parameters per stage, and losses."""
        params, inputs, targets, lr = self.inputs()
        return delayed_descent(
            params, inputs, targets, lr, lags(self.world_size, self.vertical_sync), factors
        )


def stash_case(world_size, batch_sizes, rng, dtype="float64", **fields):
    """``stash.train`` on a model and data that are drawn; ``rng`` gives the seed.

    Args:
        batch_sizes: one a minibatch, or ``N``: so many of 2 samples each.
        fields: of ``StashCase``.
    """
    if isinstance(batch_sizes, int):
        batch_sizes = (2,) * batch_sizes
    seed = int(rng.integers(2**31))
    fields |= {"batch_sizes": tuple(batch_sizes), "seed": seed}
    case = StashCase("stash:train", world_size, sum(batch_sizes), dtype, **fields)
    words = [f"--batch-sizes '{list(case.batch_sizes)}'", f"--seed {seed}"]
    for name in ("vertical_sync", "width", "hidden", "alike", "costs", "calls", "memory"):
        value = getattr(case, name)
        if value != getattr(StashCase, name):
            value = f"{value[0]},{value[1]}" if name == "costs" else value
            words.append(f"--{name.replace('_', '-')} {value}")
    words += [f"--dtype {dtype}"] if dtype != "float64" else []
    about = f"minibatches of {_stash_few(case.batch_sizes)} samples, {dtype}"
    about += ", vertical sync" if case.vertical_sync else ""
    about += ", second call" if case.calls > 1 else ""
    line = f"ringside run callers.py:stash_trained --ranks {world_size} -- {' '.join(words)}"
    return replace(case, about=about, line=line)


def stash_widths(num_stages, width, alike):
    """Per boundary, from the input to the output, how many elements a sample has there."""
    inner = [width + (0 if alike else number % 3) for number in range(num_stages + 1)]
    return [inner[0] + 1, *inner[1:-1], inner[-1] + 2]


def stash_inputs(case):
    """Parameters per stage, inputs, targets and learning rate, from the case's seed.

    Stages take turns in having two layers and three. Weights and rate are so small that rounding
    errors don't grow.
    """
    rng, widths = np.random.default_rng(case.seed), case.widths
    params = []
    for stage in range(case.world_size):
        inside = [case.hidden] * (1 + stage % 2)
        own = random_parameters([widths[stage], *inside, widths[stage + 1]], rng)
        params.append([(0.8 * each).astype(case.dtype) for each in own])

    def drawn(width):
        arrays = [rng.standard_normal((size, width)) for size in case.batch_sizes]
        return [array.astype(case.dtype) for array in arrays]

    return params, drawn(widths[0]), drawn(widths[-1]), 0.2


def _stash_few(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 40 else f"{text[:37]}..."
