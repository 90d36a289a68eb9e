"""The calls of the torch modules that the tests make, and what must come of them: without torch."""

import itertools
from dataclasses import dataclass

import numpy as np

import ringside
from ringside.checking import assert_ran
from ringside.checking.cases import Case, assert_like, cast, machine_of
from ringside.trace import Kind, Trace

BATCH = 3  # samples of a microbatch

# -- zero3_torch -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Train(Case):
    """Training of a network of ``given/layers_torch.py`` in ``ZeRO3``.

    Attributes:
        widths: of the layers' inputs and of the output.
        blocks: how many layers each child of the network has; (): its children are the layers.
        microbatches: of a step; each has a backward pass and a ``finish`` of its own.
        evaluate: an input goes through the network before each step, and another one between
            ``finish`` and the optimizer's step, both without a graph.
        by_layer: a function names the layers that are sharded; else the network's children are.
        keep_zeros: gradients become zeros between steps, not None.
        optimizer: "sgd" (with momentum 0.5) or "adam".
        second: another network makes a step before.
        costs: seconds of virtual time of a layer's forward and of its backward pass.
        stretched: the time is that on so many ranks, which cut the same layers into more shards.
    """

    target = "zero3_torch:ZeRO3"
    through = "checks/inside_torch.py:train"
    widths: tuple = (5, 12, 24, 12)
    blocks: tuple = ()
    bias: bool = True
    dtype: str = "float64"
    steps: int = 2
    microbatches: int = 1
    evaluate: bool = False
    by_layer: bool = False
    keep_zeros: bool = False
    optimizer: str = "sgd"
    second: bool = False
    costs: tuple = (1e-6, 2e-6)
    stretched: int = 0

    @property
    def lr(self):
        return 0.1

    @property
    def spec(self):
        """The keyword arguments of ``network``."""
        return {
            "widths": list(self.widths), "blocks": list(self.blocks) or None, "bias": self.bias,
            "costs": list(self.costs), "dtype": self.dtype,
        }  # fmt: skip

    @property
    def shapes(self):
        """Per part of the network the shapes of its parameters."""
        pairs = itertools.pairwise(self.widths)
        return [[(d_out, d_in)] + [(d_out,)] * self.bias for d_in, d_out in pairs]

    @property
    def layers(self):
        """What is sharded as one."""
        count = len(self.widths) - 1
        blocks = self.blocks if self.blocks and not self.by_layer else (1,) * count
        ends = np.cumsum(blocks).tolist()
        own = [sum(int(np.prod(shape)) for shape in part) for part in self.shapes]
        unit = self.p * np.dtype(self.dtype).itemsize
        return [
            Sharded(end - n, end, -(-sum(own[end - n : end]) // self.p) * unit)
            for n, end in zip(blocks, ends, strict=True)
        ]

    @property
    def params(self):
        """The right ones, per part."""
        rng = self.rng()
        return [
            [(rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(self.dtype) for shape in part]
            for part in self.shapes
        ]

    def handed(self, rank):
        """What a rank is given of the parameters: its shards are right, the rest is not."""
        rng, params, given = np.random.default_rng([self.seed, rank, 1]), self.params, []
        for layer in self.layers:
            arrays = [each for part in params[layer.begin : layer.end] for each in part]
            right = flat(arrays, self.p)
            own = np.repeat(np.arange(self.p) == rank, len(right) // self.p)
            mixed = np.where(own, right, rng.standard_normal(len(right)).astype(self.dtype))
            sizes = np.cumsum([each.size for each in arrays])
            parts = np.split(mixed[: sizes[-1]], sizes[:-1])
            given += [part.reshape(each.shape) for part, each in zip(parts, arrays, strict=True)]
        return given

    def batches(self, rank):
        """Per step the microbatches ``(x, target)``, and the inputs that are evaluated."""
        rng = self.rng(rank)

        def batch():
            ends = (self.widths[0], self.widths[-1])
            return tuple(rng.standard_normal((BATCH, d)).astype(self.dtype) for d in ends)

        steps = [[batch() for _ in range(self.microbatches)] for _ in range(self.steps)]
        return steps, [batch()[0] for _ in range(2 * self.evaluate)]

    def inputs(self, rank):
        options = {
            "by_layer": self.by_layer, "optimizer": self.optimizer, "lr": self.lr,
            "set_to_none": not self.keep_zeros, "second": self.second,
        }  # fmt: skip
        return self.spec, self.handed(rank), *self.batches(rank), options

    def serial(self, mistake=""):
        """One process that has everything.

        Args:
            mistake: "sum", "last microbatch" or "stale": what usually takes the place of the mean,
                of the sum over microbatches, and of the last layer's new parameters.

        Returns:
            A dict: ``gradients`` (per step and part), ``params`` (per part), ``outputs`` and
            ``evaluations`` (per rank and step).
        """
        params, batches = cast(self.params, "float64"), [self.batches(r) for r in range(self.p)]
        result = {
            "gradients": [],
            "outputs": [[] for _ in batches],
            "evaluations": [[] for _ in batches],
        }
        update, used = Optimizer(self), params
        for step in range(self.steps):
            total = [[np.zeros_like(each) for each in part] for part in params]
            for rank, (steps, evaluated) in enumerate(batches):
                with self.passes_of(rank):
                    before, after = evaluated[:1], evaluated[1:]
                    answers = [forward(used, x)[0] for x in before]
                    for x, target in steps[step]:
                        gradients, output = backward(used, x, target)
                        share = 1 if mistake == "sum" else 1 / self.p
                        last = x is steps[step][-1][0] or mistake != "last microbatch"
                        for sums, own in zip(total, gradients, strict=True):
                            for one, each in zip(sums, own, strict=True):
                                one += each * share * last
                    answers += [forward(params, x)[0] for x in after]
                    result["evaluations"][rank].append(answers)
                result["outputs"][rank].append(output)
            result["gradients"].append(total)
            old, params = params, update(params, total)
            used = [*params[:-1], old[-1]] if mistake == "stale" and self.evaluate else params
        return cast({**result, "params": params}, self.dtype)

    def shards(self, parts, rank):
        """A rank's shards of arrays, given per part of the network."""
        joined = [
            flat([each for part in parts[layer.begin : layer.end] for each in part], self.p)
            for layer in self.layers
        ]
        return [np.split(each, self.p)[rank] for each in joined]

    def right(self, mistake=""):
        serial = self.serial(mistake)
        return [
            {
                "evaluations": serial["evaluations"][rank],
                "outputs": serial["outputs"][rank],
                "gradients": [self.shards(each, rank) for each in serial["gradients"]],
                "shards": self.shards(serial["params"], rank),
            }
            for rank in range(self.p)
        ]

    def wrong(self):
        named = {
            "sum": "These are steps with the sum over all ranks; the mean is asked for.",
            "last microbatch": "The gradients of all but the last microbatch are lost.",
            "stale": "The last layer computes with what it was before the optimizer's step.",
        }
        return {says: self.right(mistake) for mistake, says in named.items()}

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            for step in range(self.steps):
                what = f"before step {step}, rank {rank}'s evaluation"
                assert_like(value["evaluations"][step], right["evaluations"][step], self, what)
                what = f"in step {step}, rank {rank}'s output"
                assert_like(value["outputs"][step], right["outputs"][step], self, what)
                what = f"in step {step}, the gradient of rank {rank}'s shard"
                assert_like(value["gradients"][step], right["gradients"][step], self, what)
            what = f"at the end, rank {rank}'s shard"
            assert_like(value["shards"], right["shards"], self, what)


@dataclass(frozen=True)
class Alone(Train):
    """One step with nothing beside it, so that its memory can be seen; without biases."""

    through = "checks/inside_torch.py:alone"
    bias: bool = False
    steps: int = 1

    def inputs(self, rank):
        ((microbatch,),), _ = self.batches(rank)
        return self.spec, self.handed(rank), *microbatch, self.evaluate

    def right(self, mistake=""):
        gradients = self.with_(evaluate=False).serial(mistake)["gradients"][0]
        return [self.shards(gradients, rank) for rank in range(self.p)]

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value, right, self, f"the gradient of rank {rank}'s shard")


@dataclass(frozen=True)
class MeasuredTrain(Train):
    """``train`` itself, for runs and jobs."""

    target = "checks/inside_torch.py:train"
    through = ""


@dataclass(frozen=True)
class Sharded:
    """A layer that is sharded as one: its parts, from ``begin`` to ``end - 1``; padded bytes."""

    begin: int
    end: int
    nbytes: int


def flat(arrays, p):
    """Arrays as one flat array, padded with zeros to a multiple of p elements."""
    joined = np.concatenate([np.ravel(each) for each in arrays])
    return np.concatenate([joined, np.zeros(-len(joined) % p, joined.dtype)])


def forward(params, x):
    """The network in NumPy: its output, and what each layer keeps, its input and its output."""
    kept = []
    for layer, (weight, *bias) in enumerate(params):
        x = ringside.announce(f"forward layer {layer}", x)
        y = np.tanh(x @ weight.T + (bias[0] if bias else 0))
        kept.append((x, y))
        x = y
    return x, kept


def backward(params, x, target):
    """Gradients per layer, and the output."""
    output, kept = forward(params, x)
    grad = (output - target) / len(output)
    gradients = [[] for _ in params]
    for layer in reversed(range(len(params))):
        x, y = kept[layer]
        grad = ringside.announce(f"backward layer {layer}", grad)
        grad = grad * (1 - y**2)
        gradients[layer] = [grad.T @ x, grad.sum(axis=0)][: len(params[layer])]
        grad = grad @ params[layer][0]
    return gradients, output


class Optimizer:
    """Plain Adam, or SGD with momentum 0.5, as torch has them."""

    def __init__(self, case):
        self.kind, self.lr, self.count = case.optimizer, case.lr, 0
        self.moments = {}  # by place, two arrays

    def __call__(self, params, gradients):
        self.count += 1
        return [
            [self.updated((i, k), *each) for k, each in enumerate(zip(*pair, strict=True))]
            for i, pair in enumerate(zip(params, gradients, strict=True))
        ]

    def updated(self, place, param, grad):
        m, v = self.moments.get(place, (0, 0))
        if self.kind == "sgd":
            m = 0.5 * m + grad
            direction = m
        else:
            m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
            mean, square = m / (1 - 0.9**self.count), v / (1 - 0.999**self.count)
            direction = mean / (np.sqrt(square) + 1e-8)
        self.moments[place] = m, v
        return param - self.lr * direction


def ring_s(nbytes, p, machine, itemsize=8):
    """A ring's all-gather or reduce-scatter of so many bytes: the docstring's closed form."""
    shard_nbytes = -(-nbytes // itemsize // p) * itemsize
    return (p - 1) * (machine.alpha_s + shard_nbytes * machine.beta_s_per_byte)


def schedule_s(sizes, costs, p, machine, *, again=True):
    """The time of one step in the schedule of ``zero3_torch``: collectives follow one another.

    Args:
        sizes: bytes of the layers.
        costs: seconds of a layer's forward and of its backward pass.
        again: the last layer, too, is gathered again for its backward pass.
    """
    took = [ring_s(nbytes, p, machine) for nbytes in sizes]
    wire, now, gathered, last = 0.0, 0.0, {}, len(sizes) - 1

    def gather(k):
        nonlocal wire
        if 0 <= k <= last and k not in gathered:
            wire = gathered[k] = max(wire, now) + took[k]

    for k in range(last + 1):
        gather(k)
        gather(k + 1)
        now = max(now, gathered[k]) + costs[0]
    gathered, reduced = {} if again else {last: now}, 0.0
    for k in reversed(range(last + 1)):
        gather(k)
        gather(k - 1)
        now = max(now, gathered[k]) + costs[1]
        now = max(now, reduced)
        wire = reduced = max(wire, now) + took[k]
    return max(now, reduced)


def stretched(trace, world_size, itemsize=8):
    """The trace of the same program on more ranks, which cut the same layers into more shards.

    Rank r does what rank ``r % p`` did; layers are padded anew.
    """

    def of_more_ranks(op):
        if op.kind != Kind.COLLECTIVE:
            return op
        name, sequence, root, _, sizes = op.detail
        own = -(-sum(sizes) // itemsize // world_size) * itemsize
        detail = name, sequence, root, tuple(range(world_size)), (own,) * world_size
        return op._replace(nbytes=own, detail=detail)

    ops = [
        [of_more_ranks(op) for op in trace.ops[rank % trace.world_size]]
        for rank in range(world_size)
    ]
    return Trace(world_size, ops, trace.sites, trace.machine)


# -- hsdp_torch ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hybrid(Case):
    """A call on R replicas of S ranks; p is R S, and S ranks in a row are a replica.

    Attributes:
        replicas: R.
        parts: elements of a rank's part of each layer.
    """

    through = "checks/inside_torch.py:hsdp"
    p: int = 4
    replicas: int = 2
    parts: tuple = (3, 0, 2)
    dtype: str = "float64"

    @property
    def shard_size(self):
        """S."""
        return self.p // self.replicas

    @property
    def lengths(self):
        """Elements of each layer."""
        return [self.shard_size * n for n in self.parts]

    @property
    def nbytes(self):
        """Of all layers."""
        return sum(self.lengths) * np.dtype(self.dtype).itemsize

    def in_part(self):
        """Ranks of a larger world in their order: so are those of torch's new groups."""
        part = super().in_part()
        return part.with_(members=tuple(sorted(part.members)))

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value[0], right, self, f"rank {rank}'s layer")


@dataclass(frozen=True)
class Gather(Hybrid):
    """Layers from their shards; all replicas hold the same."""

    target = "hsdp_torch:gather"

    def wholes(self):
        rng = self.rng()
        return [rng.standard_normal(n).astype(self.dtype) for n in self.lengths]

    def inputs(self, rank):
        size = self.shard_size
        return "gather", size, [np.split(whole, size)[rank % size] for whole in self.wholes()]

    def right(self):
        return [self.wholes()] * self.p


@dataclass(frozen=True)
class Synchronise(Hybrid):
    """The mean of all ranks' gradients, in parts."""

    target = "hsdp_torch:synchronise"

    def inputs(self, rank):
        rng = self.rng(rank)
        gradients = [rng.standard_normal(n).astype(self.dtype) for n in self.lengths]
        return "synchronise", self.shard_size, gradients

    def right(self, factor=1):
        own, size = [self.inputs(rank)[2] for rank in range(self.p)], self.shard_size
        means = [np.mean(np.array(each, "float64"), axis=0) for each in zip(*own, strict=True)]
        means = cast([factor * mean for mean in means], self.dtype)
        return [[np.split(mean, size)[rank % size] for mean in means] for rank in range(self.p)]

    def wrong(self):
        return {
            "This is the sum over all ranks; the mean is asked for.": self.right(self.p),
            "This sum over all ranks is divided by S alone; the mean over R S ranks is asked for.":
                self.right(self.replicas),
            "This sum over all ranks is divided by R alone; the mean over R S ranks is asked for.":
                self.right(self.shard_size),
        }  # fmt: skip

    @property
    def time_s(self):
        """The time where a node holds a replica, and both levels work at once.

        The ranks of a node share its port between nodes.
        """
        machine, inner_s, outer_s = machine_of(self), 0.0, 0.0
        size, itemsize = self.shard_size, np.dtype(self.dtype).itemsize
        for part in self.parts:
            inner_s += (size - 1) * (
                machine.intra_alpha_s + part * itemsize * machine.intra_beta_s_per_byte
            )
            nbytes = -(-part // self.replicas) * itemsize * size
            between_s = machine.alpha_s + nbytes * machine.beta_s_per_byte
            outer_s = max(inner_s, outer_s) + 2 * (self.replicas - 1) * between_s
        return outer_s


@dataclass(frozen=True)
class Refused(Synchronise):
    """The second gradient has an element more than can be cut."""

    through = "checks/inside_torch.py:hsdp_refuses"
    parts: tuple = (2, 1)

    def inputs(self, rank):
        function, size, (first, second) = super().inputs(rank)
        return function, size, [first, np.append(second, second[:1])]

    def wrong(self):
        return {}

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            if value != "ValueError" or run.collectives:
                raise self.fail(
                    f"rank {rank} must raise a ValueError before any message: "
                    f"{self.lengths[1] + 1} elements can't be cut into {self.shard_size} parts."
                )


@dataclass(frozen=True)
class StepOf(Hybrid):
    """What a step of training sends: layers are gathered twice, gradients synchronised once.

    Shards hold a rank's place inside everywhere, and gradients its place in the group.
    """

    target = "hsdp_torch:synchronise"
    through = "checks/inside_torch.py:hsdp_step"
    parts: tuple = (20_000,) * 4

    def inputs(self, rank):
        return self.shard_size, self.lengths

    def right(self):
        """Sums of each layer gathered, and of each part of the mean gradients."""
        wholes = [sum(range(self.shard_size)) * float(part) for part in self.parts]
        means = [(self.p - 1) / 2 * part for part in self.parts]
        return [[wholes, means]] * self.p

    def check(self, run):
        Case.check(self, run)


@dataclass(frozen=True)
class MeasuredHybrid(Synchronise):
    """``hsdp`` itself, for runs and jobs."""

    target = "checks/inside_torch.py:hsdp"
    through = ""

    def right(self):
        return [(parts, False) for parts in super().right()]  # no input is changed

    def check(self, run):
        Case.check(self, run)
