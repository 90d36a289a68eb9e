"""The calls of axonn.py that the tests make, and what must come of them."""

import functools
from dataclasses import dataclass, field

import numpy as np
from given.model import random_parameters
from given.recursion import chain_gradient

from checks.cases import Pipeline, announced_passes
from ringside.checking import one_line

MS = 1e-3
LATE_S = 20e-6  # what arrives so shortly before a pass may be missed


@dataclass(frozen=True)
class Step(Pipeline):
    """One step, whose passes take times that vary.

    Attributes:
        batch_sizes: samples of each microbatch.
        limit: microbatches in flight on stage 0; 0: two for each stage.
        widths: in, hidden and out of a piece; what pieces hand on takes turns.
        before: another step comes first, with other parameters and the microbatches turned round.
        digits: to so many a gradient must be right, in float64.
    """

    target = "axonn:run"
    through = "checks/inside.py:stepped"
    compared = "grads"
    what = "gradient"
    limit: int = 0
    widths: tuple = (5, 7, 4)
    before: bool = False
    digits: int = field(default=5, kw_only=True)

    @property
    def tolerance(self):
        return 10.0**-self.digits

    @property
    def most(self):
        """How many microbatches may be in flight."""
        return self.limit or 2 * self.p

    def width_at(self, boundary):
        return self.widths[2 * (boundary % 2)]

    @functools.cached_property
    def drawn(self):
        """Parameters of each stage, inputs and targets."""
        rng, params = self.rng(), []
        for stage in range(self.p):
            widths = self.width_at(stage), self.widths[1], self.width_at(stage + 1)
            params.append(random_parameters(widths, rng, self.dtype))
        inputs, targets = (
            [rng.standard_normal((size, width)).astype(self.dtype) for size in self.batch_sizes]
            for width in (self.width_at(0), self.width_at(self.p))
        )
        return params, inputs, targets

    @property
    def times_s(self):
        """Of forward and backward passes, shapes (p, microbatches)."""
        return drawn_times_s(self.p, len(self.batch_sizes), np.random.default_rng(self.seed))

    def inputs(self, rank):
        params, inputs, targets = self.drawn
        data = inputs if rank == 0 else None, targets if rank == self.p - 1 else None
        times_s = [of_stages[rank].tolist() for of_stages in self.times_s]
        call = params[rank], list(self.batch_sizes), self.most, *data
        return *call, *times_s, self.before

    @functools.cached_property
    def serial(self):
        samples = sum(self.batch_sizes)
        return self.weighed([size / samples for size in self.batch_sizes])

    def wrong(self):
        count = len(self.batch_sizes)
        found = {
            "This is the sum of the microbatches' gradients; each counts by its share of the "
            "samples.": self.weighed([1.0] * count),
        }
        if len(set(self.batch_sizes)) > 1:
            alike = "Microbatches count alike here; each counts by its share of the samples."
            found[alike] = self.weighed([1 / count] * count)
        return {says: grads for says, (grads, _) in found.items()}

    def weighed(self, shares):
        """Gradients of each stage, and the loss, in double precision, of microbatches that count
        so much.
        """
        params, *data = self.drawn
        exact = [[np.asarray(param, "float64") for param in own] for own in params]
        grads = [[np.zeros_like(param) for param in own] for own in exact]
        total = 0.0
        for m, (x, target) in enumerate(zip(*data, strict=True)):
            share = shares[m]
            value, of_m = chain_gradient(exact, m, x.astype("float64"), target, self.pass_input)
            total += share * value
            for own, of_own in zip(grads, of_m, strict=True):
                for grad, part in zip(own, of_own, strict=True):
                    grad += share * part
        return grads, total


def drawn_times_s(num_stages, num_microbatches, rng):
    """Times of passes that vary: microbatches are long or short, and stages add noise.

    Forward passes take 0.3 to 3.1 ms, and backward passes twice as long in the mean.
    """
    long = rng.uniform(0.4, 2.5, num_microbatches)
    noise = rng.uniform(0.75, 1.25, (2, num_stages, num_microbatches))
    return MS * long * noise[0], 2 * MS * long * noise[1]


# -- what is looked at -----------------------------------------------------------------------------


def assert_loss(values, case):
    """The last stage's number; None from the others."""
    right = case.serial[1]
    for stage, loss in enumerate(values[:-1]):
        if loss is not None:
            raise case.fail(f"stage {stage}'s loss is {one_line(repr(loss), 60)}, not None.")
    loss = values[-1]
    if not isinstance(loss, float):
        raise case.fail(f"the loss is of type {type(loss).__name__}; it must be a float.")
    if not abs(loss - right) <= case.tolerance * (1 + abs(right)):
        raise case.fail(f"the loss is {loss:.12g}; it must be {right:.12g}.")


def assert_each_once(run, case):
    """Each stage announced each pass once."""
    count = len(case.batch_sizes)
    for stage in range(case.p):
        passes = announced_passes(run, case, stage)
        if sorted(passes) != sorted(f"{kind}{m}" for kind in "FB" for m in range(count)):
            raise case.fail(
                f"stage {stage} announced {len(passes)} passes; it must make a forward and a "
                f"backward pass of each of {count} microbatches."
            )


def spans(run, case):
    """When each pass began and ended: per stage ``{("F", 3): (begin_s, end_s)}``."""
    passes = [(kind, m) for kind in "FB" for m in range(len(case.batch_sizes))]
    stages = []
    for stage, rank in enumerate(case.ranks):
        names = {case.phase(kind, m, stage)[0]: (kind, m) for kind, m in passes}
        own = [span for span in run.timeline.spans[rank] if span.label in names]
        stages.append({names[span.label]: (span.start_s, span.end_s) for span in own})
    return stages


def made_s(passes, stage, kind, m):
    """When what a pass needs was made: by a neighbour, or by the last stage itself."""
    maker, needed = (stage - 1, ("F", m)) if kind == "F" else (stage + 1, ("B", m))
    if kind == "B" and stage == len(passes) - 1:
        maker, needed = stage, ("F", m)
    return passes[maker][needed][1]


def assert_driven(run, case, limit=1):
    """No stage waits while a pass is possible.

    Args:
        limit: so many microbatches stage 0 must begin, though nothing has come back.
    """
    assert_each_once(run, case)
    passes = spans(run, case)
    for stage, own in enumerate(passes):
        order = sorted(own, key=own.get)
        before_s, in_flight = 0.0, 0
        for number, (kind, m) in enumerate(order):
            begin_s, end_s = own[kind, m]
            for other in order[number:] if begin_s > before_s + LATE_S else ():
                if other[0] == "F" and stage == 0:
                    since_s = before_s if in_flight < limit else begin_s
                else:
                    since_s = max(before_s, made_s(passes, stage, *other))
                if begin_s > since_s + LATE_S:
                    raise case.fail(
                        f"stage {stage} waited from {since_s * 1e3:.3f} to {begin_s * 1e3:.3f} ms, "
                        f"until {kind}{m} began, although what {other[0]}{other[1]} needs was made."
                    )
            before_s = end_s
            in_flight += 1 if kind == "F" else -1


def assert_backward_first(run, case):
    """No forward pass began while a backward pass was possible."""
    assert_each_once(run, case)
    passes = spans(run, case)
    for stage, own in enumerate(passes):
        for (kind, m), (begin_s, _) in sorted(own.items(), key=lambda item: item[1]):
            for other in range(len(case.batch_sizes)) if kind == "F" else ():
                there_s = made_s(passes, stage, "B", other)
                if there_s + LATE_S < begin_s < own["B", other][0]:
                    raise case.fail(
                        f"stage {stage} began F{m} at {begin_s * 1e3:.3f} ms, although the "
                        f"gradient for B{other} was made at {there_s * 1e3:.3f} ms."
                    )


def assert_in_flight(run, case):
    """Stage 0 never has more microbatches in flight than it may, as the network saw it."""
    assert_each_once(run, case)
    in_flight = 0
    for name in announced_passes(run, case, 0):
        in_flight += 1 if name.startswith("F") else -1
        if in_flight > case.most:
            raise case.fail(
                f"stage 0 began {name} with {in_flight - 1} microbatches in flight; at most "
                f"{case.most} may be in flight."
            )
