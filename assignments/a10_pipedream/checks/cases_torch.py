"""The calls of stash_torch.py that the tests make, and what must come of them: without torch."""

import functools
from dataclasses import dataclass

import numpy as np
from given.recursion import chain_gradient, lags

from checks.cases import Pipeline
from ringside.checking.cases import Case

LR = 0.1


@dataclass(frozen=True)
class TrainTorch(Pipeline):
    """Calls of ``train`` on one module, with one optimizer.

    Attributes:
        optimizer: "sgd" or "momentum".
        calls: so many, one after another, each with data of its own.
        ends: what stages hand on takes turns between two widths.
        hidden: width between a piece's two layers.
        costs: seconds of a stage's forward and backward pass.
        watched: nothing is kept beside the call, so that its memory can be seen.
    """

    target = "stash_torch:train"
    through = "checks/inside_torch.py:trained"
    envelope = 0
    unsaid = ("dtype",)
    vertical_sync: bool = False
    optimizer: str = "sgd"
    calls: int = 1
    ends: tuple = (5, 4)
    hidden: int = 6
    costs: tuple = (1e-6, 2e-6)
    watched: bool = False

    def width_at(self, boundary):
        return self.ends[boundary % 2]

    def phase(self, kind, minibatch, stage):
        return f"{kind} of piece {stage}", minibatch

    def widths(self, stage):
        """Input, hidden and output of a stage."""
        return self.width_at(stage), self.hidden, self.width_at(stage + 1)

    @functools.cached_property
    def drawn(self):
        """Parameters of each stage, and of each call inputs and targets.

        They are small, so that no tanh is saturated: where gradients are zero in two minibatches,
        the network takes their passes for one.
        """
        rng, params = self.rng(), []
        for stage in range(self.p):
            d_in, d, d_out = self.widths(stage)
            shapes = (d, d_in), (d,), (d_out, d), (d_out,)
            params.append([0.8 * rng.standard_normal(s) / np.sqrt(s[-1]) for s in shapes])
        calls = [
            tuple(
                [0.5 * rng.standard_normal((size, width)) for size in self.batch_sizes]
                for width in (self.width_at(0), self.width_at(self.p))
            )
            for _ in range(self.calls)
        ]
        return params, calls

    def inputs(self, rank):
        params, calls = self.drawn
        first, last = rank == 0, rank == self.p - 1
        data = [(x if first else None, y if last else None) for x, y in calls]
        call = self.widths(rank), self.costs, self.optimizer, params[rank], list(self.batch_sizes)
        return *call, data, self.vertical_sync, self.watched

    @functools.cached_property
    def serial(self):
        return self.delayed(lags(self.p, self.vertical_sync))

    def wrong(self):
        found = self.wrong_versions()
        if self.optimizer == "momentum":
            lost = "These are the parameters of plain gradient descent; the optimizer has momentum."
            found[lost], _ = self.delayed(lags(self.p, self.vertical_sync), momentum=0.0)
        return found

    def delayed(self, delays, momentum=None):
        """Parameters of each stage at the end, and the losses of each call."""
        # The recursion's layers hold their weights the other way round.
        newest = [[param.T for param in own] for own in self.drawn[0]]
        speed = [[np.zeros_like(param) for param in own] for own in newest]
        losses = []
        if momentum is None:
            momentum = 0.6 if self.optimizer == "momentum" else 0.0
        for number, (inputs, targets) in enumerate(self.drawn[1]):
            history = [newest]
            losses.append([])
            for m, (x, target) in enumerate(zip(inputs, targets, strict=True)):
                met = [history[max(0, m - delay)][s] for s, delay in enumerate(delays)]
                pass_number = number * len(inputs) + m
                loss, grads = chain_gradient(met, pass_number, x, target, self.pass_input)
                losses[-1].append(loss)
                for s, own in enumerate(grads):
                    speed[s] = [momentum * v + g for v, g in zip(speed[s], own, strict=True)]
                history.append(
                    [
                        [w - LR * v for w, v in zip(*own, strict=True)]
                        for own in zip(history[-1], speed, strict=True)
                    ]
                )
            newest = history[-1]
        return [[param.T for param in own] for own in newest], losses

    def held_bytes(self, stage):
        """Bytes that a stage may hold; those of its parameters, and how many copies."""
        d_in, d, d_out = self.widths(stage)
        one = 8 * (d * d_in + d + d_out * d + d_out)
        copies = self.p if self.vertical_sync else self.p - stage
        return (3 + copies) * one + one // 2, one, copies


@dataclass(frozen=True)
class MeasuredTrain(TrainTorch):
    """The same, for runs and jobs, which compare all that ``trained`` returns."""

    target = "checks/inside_torch.py:trained"
    through = ""
    check = Case.check

    def right(self):
        params, losses = self.serial
        told = [[None] * self.calls] * (self.p - 1) + [losses]  # the last stage knows them
        return [
            {"params": own, "losses": each, "kept": True, "cleared": True}
            for own, each in zip(params, told, strict=True)
        ]
