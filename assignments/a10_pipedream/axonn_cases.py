"""Calls of ``axonn.run``, as the tests make them: supplied, nothing to write.

Inputs come from a seed, which stands in the line of a verdict. So the line gives the same ones.
"""

from dataclasses import dataclass, replace

import numpy as np
from model import random_parameters

from ringside import checking

WIDTHS = (5, 7, 4)  # in, hidden and out of a piece; what pieces hand on takes turns
MS = 1e-3


@dataclass(frozen=True)
class AxonnCase(checking.Call):
    """One step; ``world_size`` counts the stages, ``n`` the samples."""

    batch_sizes: tuple = ()
    limit: int = 1
    seed: int = 0
    widths: tuple = WIDTHS
    place = "stage"

    def inputs(self):
        """Parameters per stage, inputs and targets per microbatch, and times of the passes."""
        return axonn_inputs(self.world_size, self.batch_sizes, self.seed, self.dtype, self.widths)

    def arguments_of_ranks(self):
        """What ``callers.axonn_step`` gets on each rank, after ``comm``."""
        params, inputs, targets, forward_s, backward_s = self.inputs()
        last = self.world_size - 1
        return [
            (
                params[stage], self.batch_sizes, self.limit, inputs if stage == 0 else None,
                targets if stage == last else None, forward_s[stage], backward_s[stage],
            )
            for stage in range(self.world_size)
        ]  # fmt: skip

    def second(self):
        """The same as a second step, after one with other numbers."""
        line = self.line.replace("axonn_step", "axonn_second_step")
        return replace(self, about=f"{self.about}, second step", line=line)


def axonn_case(num_stages, batch_sizes, limit, rng, dtype="float64", widths=WIDTHS):
    """``axonn.run`` on numbers that are drawn; ``rng`` gives the seed."""
    seed = int(rng.integers(2**31))
    words = f"--batch-sizes '{list(batch_sizes)}' --limit {limit} --seed {seed}"
    words += f" --dtype {dtype}" if dtype != "float64" else ""
    words += f" --widths '{list(widths)}'" if widths != WIDTHS else ""
    sizes = ", ".join(map(str, batch_sizes))
    sizes = sizes if len(sizes) <= 40 else f"{sizes[:37]}..."
    return AxonnCase(
        "axonn:run", num_stages, sum(batch_sizes), dtype,
        about=f"{'1 microbatch' if len(batch_sizes) == 1 else f'{len(batch_sizes)} microbatches'} "
        f"of {sizes} samples, limit {limit}, {dtype}",
        line=f"ringside run callers.py:axonn_step --ranks {num_stages} -- {words}",
        batch_sizes=tuple(batch_sizes), limit=limit, seed=seed, widths=tuple(widths),
    )  # fmt: skip


def axonn_inputs(num_stages, batch_sizes, seed, dtype="float64", widths=WIDTHS):
    """Parameters per stage, inputs and targets per microbatch, and times of all passes.

    A stage's forward passes take 0.3 to 3.1 ms, and its backward passes twice as long in the mean.
    """
    rng = np.random.default_rng(seed)
    handed, hidden = widths[::2], widths[1]
    ends = [handed[stage % 2] for stage in range(num_stages + 1)]
    params = [
        random_parameters((ends[stage], hidden, ends[stage + 1]), rng, dtype)
        for stage in range(num_stages)
    ]
    inputs = [rng.standard_normal((size, ends[0])).astype(dtype) for size in batch_sizes]
    targets = [rng.standard_normal((size, ends[-1])).astype(dtype) for size in batch_sizes]
    forward_s, backward_s = axonn_times_of(num_stages, len(batch_sizes), rng)
    return params, inputs, targets, forward_s.tolist(), backward_s.tolist()


def axonn_times_of(num_stages, num_microbatches, rng):
    """Times of the passes that vary: microbatches are long or short, and stages add noise."""
    long = rng.uniform(0.4, 2.5, num_microbatches)
    noise = rng.uniform(0.75, 1.25, (2, num_stages, num_microbatches))
    return MS * long * noise[0], 2 * MS * long * noise[1]


def axonn_serial(case, factors=None):
    """Loss and gradients per stage of the whole batch, on one process in double precision.

    Args:
        factors: of a run whose passes were announced.
    """
    params, inputs, targets, *_ = case.inputs()
    exact = [[np.asarray(each, "float64") for each in own] for own in params]
    grads = [[np.zeros_like(each) for each in own] for own in exact]
    samples, total = sum(case.batch_sizes), 0.0

    def scaled(stage, kind, m, array):
        if factors is None:
            return array
        return factors.scaled(stage, f"{kind}{m} of piece {stage}", 0, array)

    for m, (x, target) in enumerate(zip(inputs, targets, strict=True)):
        x, kept = x.astype("float64"), []
        for stage, own in enumerate(exact):
            x = scaled(stage, "F", m, x)
            for weight, bias in zip(own[::2], own[1::2], strict=True):
                kept.append((x, np.tanh(x @ weight + bias)))
                x = kept[-1][1]
        total += ((x - target) ** 2).sum() / 2 / samples
        grad = (x - target) / samples
        for stage in reversed(range(len(exact))):
            grad = scaled(stage, "B", m, grad)
            for layer in reversed(range(len(exact[stage]) // 2)):
                x, y = kept.pop()
                grad = grad * (1 - y * y)
                grads[stage][2 * layer] += x.T @ grad
                grads[stage][2 * layer + 1] += grad.sum(axis=0)
                grad = grad @ exact[stage][2 * layer].T
    return float(total), grads
