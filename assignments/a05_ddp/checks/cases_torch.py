"""The calls of ddp_torch.py that the tests make, and what must come of them: without torch."""

from dataclasses import dataclass

import numpy as np

import ringside
from checks.cases import OWN, SUMS, MeasuredStep, greedy, ring_s
from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like, cast, machine_of

BATCH = 3  # samples of a microbatch


@dataclass(frozen=True)
class Wrapped(Case):
    """A network of ``model_torch.py`` around which ``DDP`` stands.

    Attributes:
        layers: how many.
        tied: pairs ``(i, j)``: layer j uses layer i's weight.
        frozen: layers whose parameters don't learn.
        buffers: whether it has a running mean and a count.
        cap: of a bucket, in bytes.
        balanced: a layer's backward pass takes as long as an all-reduce of ``cap`` bytes.
    """

    target = "ddp_torch:DDP"
    declared_like = "backward"
    layers: int = 4
    width: int = 6
    tied: tuple = ()
    frozen: tuple = ()
    buffers: bool = False
    dtype: str = "float64"
    cap: int = 400
    balanced: bool = False

    @property
    def takes_s(self):
        """Virtual time of one layer's backward pass."""
        return ring_s(self.cap, self.p, machine_of(self)) if self.balanced else 1e-6

    @property
    def spec(self):
        """The keyword arguments of ``Network``."""
        return {
            "width": self.width, "num_layers": self.layers, "tied": list(self.tied),
            "frozen": list(self.frozen), "buffers": self.buffers, "dtype": self.dtype,
            "backward_s": self.takes_s,
        }  # fmt: skip

    @property
    def net(self):
        return Replica(self)

    def params(self, rank):
        """A rank's own, in the order of ``network.parameters()``."""
        rng, scale = self.rng(rank), 1 / np.sqrt(self.width)
        return [(scale * rng.standard_normal(s)).astype(self.dtype) for s in self.net.shapes]

    def own_buffers(self, rank):
        """A rank's own running mean and count."""
        if not self.buffers:
            return []
        drawn = self.rng(rank).integers(1, 9, size=2)
        return [np.full(self.width, drawn[0], self.dtype), np.asarray(drawn[1])]

    @property
    def sizes(self):
        """Bytes of the parameters that learn, in order."""
        unit = np.dtype(self.dtype).itemsize
        return [unit * int(np.prod(self.net.shapes[number])) for number in self.net.learning]

    @property
    def divided(self):
        """Numbers of the parameters, bucket by bucket."""
        buckets = greedy(self.sizes, self.cap)
        return [[self.net.learning[place] for place in bucket] for bucket in buckets]


@dataclass(frozen=True)
class Train(Wrapped):
    """Training with momentum.

    Attributes:
        microbatches: of a step; all but the last run inside ``no_sync()``.
        paths: per rank, step and microbatch the layers that are used, in their order; those of
            rank r are ``paths[r % len(paths)]``. (): all layers.
        set_to_none: what becomes of gradients between the steps, else they are zeros.
        interrupted: an exception leaves a ``no_sync()`` before the first step.
        nested: another ``no_sync()`` ends inside each.
        between: another module is wrapped first, and each step begins with a batch in evaluation
            mode.
    """

    through = "checks/inside_torch.py:train"
    steps: int = 2
    microbatches: int = 1
    paths: tuple = ()
    set_to_none: bool = True
    interrupted: bool = False
    nested: bool = False
    between: bool = False

    def path_of(self, rank):
        """Per step and microbatch the layers that a rank uses."""
        if self.paths:
            return self.paths[rank % len(self.paths)]
        return [[list(range(self.layers))] * self.microbatches] * self.steps

    def batches(self, rank):
        """Per step a list of microbatches ``(x, target, path)``."""
        rng = np.random.default_rng([self.seed, rank, 1])
        return [
            [
                (*rng.standard_normal((2, BATCH, self.width)).astype(self.dtype), list(path))
                for path in step
            ]
            for step in self.path_of(rank)
        ]

    @property
    def options(self):
        return {
            "bucket_bytes": self.cap, "lr": 0.2, "momentum": 0.5,
            "set_to_none": self.set_to_none, "interrupted": self.interrupted,
            "nested": self.nested, "between": self.between,
        }  # fmt: skip

    def inputs(self, rank):
        given = self.spec, self.params(rank), self.own_buffers(rank)
        return *given, self.batches(rank), self.options

    def right(self):
        return self.trained([1 / self.p] * self.p)

    def wrong(self):
        alone = [
            self.trained([float(each == rank) for each in range(self.p)]) for rank in range(self.p)
        ]
        return {
            SUMS: self.trained([1.0] * self.p),
            OWN: [every[rank] for rank, every in enumerate(alone)],
        }

    def trained(self, weights):
        """What all ranks must have, from rank 0's parameters and buffers, without a group.

        Args:
            weights: of the ranks' gradients in their sum.
        """
        net, p = self.net, self.p
        params = [np.array(each) for each in self.params(0)]
        own = [[np.array(each) for each in self.own_buffers(0)] for _ in range(p)]
        velocity = [np.zeros_like(each) for each in params]
        gradients, outputs = [], [[] for _ in range(p)]
        for steps in zip(*map(self.batches, range(p)), strict=True):
            total = [np.zeros_like(each) for each in params]
            for number, microbatches in enumerate(zip(*steps, strict=True)):
                last = number == len(steps[0]) - 1
                if last:
                    own = [[np.array(each) for each in own[0]] for _ in range(p)]
                for rank, microbatch in enumerate(microbatches):
                    with self.passes_of(rank):
                        found, output = net.gradients(params, own[rank], *microbatch)
                    for k, each in enumerate(found):
                        total[k] += 0 if each is None else each * weights[rank]
                    if last:
                        outputs[rank].append(output)
            gradients.append([each if k in net.learning else None for k, each in enumerate(total)])
            for k in net.learning:
                velocity[k] = self.options["momentum"] * velocity[k] + total[k]
                params[k] = params[k] - self.options["lr"] * velocity[k]
        right = {"gradients": gradients, "params": params}
        return [{**right, "outputs": outputs[r], "buffers": own[r]} for r in range(p)]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            right = cast(right, self.dtype)
            who = f"rank {rank}'s"
            begin = f"after the constructor, {who}"
            assert_like(value["begin"], self.params(0), self, f"{begin} parameter")
            assert_like(value["begin_buffers"], self.own_buffers(0), self, f"{begin} buffer")
            for number, each in enumerate(right["gradients"]):
                what = f"{who} gradient in step {number}"
                self._check_gradients(value["gradients"][number], each, what)
            assert_like(value["outputs"], right["outputs"], self, f"{who} output in step")
            assert_like(value["params"], right["params"], self, f"at the end, {who} parameter")
            assert_like(value["buffers"], right["buffers"], self, f"at the end, {who} buffer")
            if value["same"] is not True:
                raise self.fail(f"rank {rank}: ddp.module is not the module that was given.")

    def _check_gradients(self, values, right, what):
        """Means; frozen ones have none, and zeros may stand as None."""
        for number, (value, each) in enumerate(zip(values, right, strict=True)):
            if value is None and (each is None or not each.any()):
                continue
            if each is None:
                raise self.fail(f"{what}: parameter {number} is frozen, and must have no gradient.")
            assert_like(value, each, self, f"{what}, of parameter {number}")

    def check_passes(self, run):
        """The supplied layers made the passes, and announced them: nothing is to be compared."""


@dataclass(frozen=True)
class Evaluate(Wrapped):
    """One batch in evaluation mode: each rank keeps its own buffers."""

    through = "checks/inside_torch.py:evaluated"
    buffers: bool = True

    def inputs(self, rank):
        x = np.random.default_rng([self.seed, rank, 1]).standard_normal((BATCH, self.width))
        given = self.spec, self.params(0), self.own_buffers(rank)
        return *given, x, list(range(self.layers)), self.cap

    def right(self):
        found = []
        for rank in range(self.p):
            _, params, buffers, x, path, _ = self.inputs(rank)
            y = x - buffers[0]
            for layer in path:
                weight, bias = self.net.place[layer]
                y = np.tanh(y @ params[weight].T + params[bias])
            found.append([y, *buffers])
        return found

    what = "output and buffers:"


@dataclass(frozen=True)
class MeasuredDdp(MeasuredStep):
    """One step of DDP around four layers of width n, for runs and jobs."""

    target = "checks/inside_torch.py:measured_ddp"

    def inputs(self, rank):
        return self.params, *self.batch(rank), self.bucket_bytes


class Replica:
    """One rank's network in NumPy: parameters by number, shared between tied layers."""

    def __init__(self, case):
        self.case = case
        first = {j: i for i, j in case.tied}
        self.place = []  # per layer: numbers of weight and bias
        self.shapes = []
        self.layer_of = []  # per parameter: the layers that use it
        for layer in range(case.layers):
            if layer in first:
                weight = self.place[first[layer]][0]
                self.layer_of[weight].add(layer)
            else:
                weight = self._new((case.width, case.width), layer)
            self.place.append((weight, self._new((case.width,), layer)))
        frozen = {number for layer in case.frozen for number in self.place[layer]}
        self.learning = [k for k in range(len(self.shapes)) if k not in frozen]

    def _new(self, shape, layer):
        self.shapes.append(shape)
        self.layer_of.append({layer})
        return len(self.shapes) - 1

    def gradients(self, params, buffers, x, target, path):
        """Gradients by number (None: unused), the output; ``buffers`` are updated in place."""
        if buffers:
            buffers[0][...] = 0.9 * buffers[0] + 0.1 * x.mean(axis=0)
            buffers[1][...] += np.sum(x > 0)
            x = x - buffers[0]
        inputs, outputs = [], []
        for layer in path:
            weight, bias = self.place[layer]
            x = ringside.announce(f"forward layer {layer}", x)
            inputs.append(x)
            x = np.tanh(x @ params[weight].T + params[bias])
            outputs.append(x)
        found = [None] * len(params)
        grad = (x - target) / len(x)
        for layer, x_in, y in zip(path[::-1], inputs[::-1], outputs[::-1], strict=True):
            grad = ringside.announce(f"backward layer {layer}", grad)
            grad = grad * (1 - y**2)
            parts = grad.T @ x_in, grad.sum(axis=0)
            for number, part in zip(self.place[layer], parts, strict=True):
                if number in self.learning:
                    found[number] = part if found[number] is None else found[number] + part
            grad = grad @ params[self.place[layer][0]]
        return found, x
