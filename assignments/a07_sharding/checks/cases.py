"""The calls of the modules without torch that the tests make, and what must come of them."""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from given.adam import adam
from given.layers import make_layers, random_params
from given.offload_model import CHOICES, Layer, makespan_s

from ringside.checking import Verdict, assert_ran
from ringside.checking.cases import Case, Formula, assert_like, brief, cast
from ringside.units import format_count

# -- partition -------------------------------------------------------------------------------------

SHAPES = ((2, 3), (4,), (), (3, 1, 2), (5, 5))


@dataclass(frozen=True)
class Arrays(Formula):
    """Arrays that hold 1, 2, 3, ... through all of them.

    Attributes:
        shapes: of the arrays.
        same: which array stands at each place of the list; a number that stands twice is a tied
            parameter. (): each once.
    """

    caller = "checks/inside.py:partition_calls"
    shapes: tuple = SHAPES
    same: tuple = ()
    dtype: str = "float64"

    @property
    def order(self):
        return list(self.same or range(len(self.shapes)))

    @property
    def arrays(self):
        ends = itertools.accumulate(math.prod(shape) for shape in self.shapes)
        return [
            np.arange(end - math.prod(shape) + 1, end + 1).reshape(shape).astype(self.dtype)
            for shape, end in zip(self.shapes, ends, strict=True)
        ]

    @property
    def listed(self):
        """The list of arrays, in words."""
        tied = f", of which those at {brief(self.order)} are in the list" if self.same else ""
        return f"arrays of shapes {brief(self.shapes)}{tied}"


@dataclass(frozen=True)
class Layout(Arrays):
    """Starts, and the shard size.

    Attributes:
        equal: all arrays hold zeros; that ties none of them.
        mixed: the last array is of float32.
    """

    target = "partition:layout"
    world_size: int = 4
    equal: bool = False
    mixed: bool = False

    def arguments(self):
        arrays = [0 * array if self.equal else array for array in self.arrays]
        if self.mixed:
            arrays[-1] = arrays[-1].astype("float32")
        return arrays, self.order, self.world_size

    def right(self):
        return layout(self.shapes, self.order, self.world_size)

    def wrong(self):
        starts, _ = self.right()
        psi = sum(math.prod(self.shapes[index]) for index in set(self.order))
        places = range(len(self.order))
        apart = layout([self.shapes[index] for index in self.order], places, self.world_size)
        return {
            "The shard size is rounded down here, so the last elements are in no shard.": (
                starts,
                psi // self.world_size,
            ),
            "An array that stands twice in the list has two places here; it must have one.": apart,
        }

    def __str__(self):
        equal = ", all of them zeros" if self.equal else ""
        mixed = ", the last one of float32" if self.mixed else ""
        ranks = format_count(self.world_size, "rank")
        return f"layout of {self.listed}{equal}{mixed}, on {ranks}"


@dataclass(frozen=True)
class Flatten(Arrays):
    """The flat vector of arrays.

    Attributes:
        spread: arrays lie in memory by columns and with gaps, and another call follows before the
            result is looked at.
    """

    target = "partition:flatten"
    starts: tuple = ()
    length: int = 0
    spread: bool = False

    def arguments(self):
        return [self.arrays[k] for k in self.order], list(self.starts), self.length, self.spread

    def right(self):
        flat = np.zeros(self.length, self.dtype)
        for k, start in zip(self.order, self.starts, strict=True):
            flat[start : start + self.arrays[k].size] = self.arrays[k].ravel()
        return flat

    def check_value(self, value):
        assert_like(value, self.right(), self, "the flat vector", tolerance=0)

    def __str__(self):
        where = ", in memory by columns and with gaps" if self.spread else ""
        return f"flatten of {self.listed}{where}, starts {list(self.starts)}, length {self.length}"


@dataclass(frozen=True)
class Views(Formula):
    """Parts of a flat vector, looked at after all of its elements were doubled."""

    target = "partition:views"
    caller = "checks/inside.py:partition_calls"
    length: int = 12
    starts: tuple = ()
    shapes: tuple = ()
    dtype: str = "float64"

    def arguments(self):
        flat = np.arange(1, self.length + 1).astype(self.dtype)
        return flat, list(self.starts), list(self.shapes)

    def right(self):
        flat = 2 * self.arguments()[0]
        pairs = zip(self.starts, self.shapes, strict=True)
        return [flat[start : start + math.prod(shape)].reshape(shape) for start, shape in pairs]

    def check_value(self, value):
        assert_like(value, self.right(), self, "after flat was doubled, array", tolerance=0)

    def __str__(self):
        shapes = brief(list(self.shapes))
        return f"views of {self.length} elements, starts {list(self.starts)}, shapes {shapes}"


@dataclass(frozen=True)
class Pieces(Formula):
    """Which elements of which parameters are in a shard."""

    target = "partition:pieces"
    starts: tuple = ()
    shapes: tuple = ()
    shard_size: int = 3
    rank: int = 0

    def arguments(self):
        return list(self.starts), list(self.shapes), self.shard_size, self.rank

    def right(self):
        """Element by element."""
        owner, indices = {}, {}
        for index, (start, shape) in enumerate(zip(self.starts, self.shapes, strict=True)):
            for k in range(math.prod(shape)):
                owner.setdefault(start + k, (index, k))
        for place in range(self.rank * self.shard_size, (self.rank + 1) * self.shard_size):
            if place in owner:
                index, k = owner[place]
                indices.setdefault(index, []).append(k)
        return [(index, min(ks), max(ks) + 1) for index, ks in indices.items()]

    def wrong(self):
        places = [(k, self.starts[k] + b, self.starts[k] + e) for k, b, e in self.right()]
        return {"Begin and end are places in the flat vector here, not in the parameter.": places}


def layout(shapes, order, world_size):
    """Starts and shard size of parameters, of which ``order`` says which stands at each place.

    >>> layout([(2, 3), (4,), ()], [0, 1, 0, 2], 4)
    ([0, 6, 0, 10], 3)
    """
    first, psi = {}, 0
    for index in order:
        if index not in first:
            first[index] = psi
            psi += math.prod(shapes[index])
    return [first[index] for index in order], -(-psi // world_size)


# -- zero1 -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps(Case):
    """Steps of Adam, from ``init_state`` on.

    With the sum of the gradients in the place of their mean Adam makes nearly the same steps:
    ``check_exactly`` sees the difference.

    Attributes:
        n: number of parameters.
        decay, clip: as ``step`` takes them.
    """

    target = "zero1:step"
    through = "checks/inside.py:stepped"
    n: int = 11
    dtype: str = "float64"
    steps: int = 1
    decay: float = 0.0
    clip: float | None = None
    machine: str = field(default="buffered", kw_only=True)

    @property
    def itemsize(self):
        return np.dtype(self.dtype).itemsize

    @property
    def shard_size(self):
        return -(-self.n // self.p)

    @property
    def shared(self):
        """What all ranks have: parameters, learning rates, and what gradients are made from.

        Ranks agree in each element's sign: where the mean nearly vanishes, Adam would divide
        rounding errors by almost nothing.
        """
        rng = self.rng()
        params, sizes = rng.standard_normal(self.n), 10.0 ** rng.uniform(-1, 1, size=self.n)
        signed = sizes * rng.choice([-1, 1], size=(self.steps, self.n))
        return params.astype(self.dtype), rng.uniform(0.01, 0.1, size=self.steps).tolist(), signed

    def inputs(self, rank):
        params, lrs, signed = self.shared
        gradients = signed * self.rng(rank).uniform(0.2, 2, size=signed.shape)
        return params, list(gradients.astype(self.dtype)), lrs, self.decay, self.clip

    def serial(self, mistake=""):
        """One rank that has the mean gradients: parameters, and the norm of each step.

        Args:
            mistake: what is done instead of the right thing: "sum", "own norm", "always clipped",
                "decay in the gradient" or "updates aren't counted".
        """
        params, lrs, _ = self.shared
        gradients = np.mean([self.inputs(rank)[1] for rank in range(self.p)], 0, "float64")
        gradients *= self.p if mistake == "sum" else 1
        w, norms = params.astype("float64"), []
        m, v = np.zeros((2, self.n))
        for t, (g, lr) in enumerate(zip(gradients, lrs, strict=True), start=1):
            norms.append(float(np.linalg.norm(g)))
            if self.clip is not None:
                norm = self.shard_norms(g) if mistake == "own norm" else norms[-1]
                factor = self.clip / norm
                g = g * (factor if mistake == "always clipped" else np.minimum(1, factor))
            decay = self.decay
            if mistake == "decay in the gradient":
                g, decay = g + decay * w, 0.0
            t = 1 if mistake == "updates aren't counted" else t
            w, m, v = adam(w, g, m, v, t, lr, decay)
        return w, norms

    def shard_norms(self, gradient):
        """Per element, the norm of the shard in which it lies."""
        shards = np.zeros((self.p, self.shard_size))
        shards.ravel()[: self.n] = gradient
        return np.linalg.norm(shards, axis=1).repeat(self.shard_size)[: self.n]

    def right(self):
        params, norms = self.serial()
        return [{"params": params.astype(self.dtype), "norms": norms}] * self.p

    def wrong(self):
        named = {
            "sum": "This is a step with the sum of the ranks' gradients; the mean is asked for.",
            "own norm": "Each shard is clipped by its own norm here; the norm of the whole mean "
            "gradient is asked for.",
            "always clipped": "The gradient is scaled to `clip` also where its norm is less; it "
            "must then stay as it is.",
            "decay in the gradient": "Weight decay is added to the gradient here; `adam` takes it "
            "apart from the gradient.",
            "updates aren't counted": "Each step is computed with t = 1; t counts the updates.",
        }
        params, right = self.shared[0], self.serial()[0]
        values = {says: [self.serial(mistake)[0]] * self.p for mistake, says in named.items()}
        values["These are the parameters before the update."] = [params] * self.p
        owner = np.arange(self.n) // self.shard_size
        values["The rank's own shard is new, and the others' shards are old: they are missing."] = [
            np.where(owner == rank, right, params) for rank in range(self.p)
        ]
        return {
            says: [{"params": each.astype(self.dtype)} for each in ranks]
            for says, ranks in values.items()
        }

    def check(self, run):
        """Parameters alone: norms and states have tests of their own."""
        assert_ran(run, self)
        tolerance = None if self.exact else 1e-5
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            what = f"rank {rank}'s vector of parameters"
            assert_like(value["params"], right["params"], self, what, tolerance)


@dataclass(frozen=True)
class MeasuredStep(Case):
    """``measured_step`` of n parameters, for runs and jobs."""

    target = "zero1:measured_step"
    n: int = 16
    dtype: str = "float64"

    def inputs(self, rank):
        params = self.rng().standard_normal(self.n)
        part = self.rng(rank).uniform(0.2, 2, size=self.n)
        return params.astype(self.dtype), (np.sign(params) * part).astype(self.dtype)

    def right(self):
        params = self.inputs(0)[0].astype("float64")
        g = sum(self.inputs(rank)[1].astype("float64") for rank in range(self.p)) / self.p
        norm = float(np.linalg.norm(g))
        w, *_ = adam(params, g * min(1.0, 1 / norm), 0 * g, 0 * g, 1, 0.01, 0.1)
        return [(w.astype(self.dtype), norm)] * self.p


def state_nbytes(state):
    """Bytes of a state: its arrays, and 8 for each number."""
    if isinstance(state, dict):
        return sum(map(state_nbytes, [*state, *state.values()]))
    if isinstance(state, list | tuple | set):
        return sum(map(state_nbytes, state))
    if isinstance(state, np.ndarray):
        return state.nbytes
    return 8 if isinstance(state, int | float | complex) else 0


# -- zero2 -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backward(Case):
    """A backward pass through layers of these widths.

    Attributes:
        n: samples of a rank.
        watched: look at the memory that is held when a layer's pass begins.
    """

    target = "zero2:backward"
    through = "checks/inside.py:backward"
    widths: tuple = (6,) * 9
    n: int = 3
    dtype: str = "float64"
    watched: bool = False
    machine: str = field(default="buffered", kw_only=True)

    @property
    def params(self):
        return random_params(self.widths, self.rng(), self.dtype)

    @property
    def sizes(self):
        """Elements of each layer's gradient."""
        return [(d_in + 1) * d_out for d_in, d_out in itertools.pairwise(self.widths)]

    @property
    def itemsize(self):
        return np.dtype(self.dtype).itemsize

    @property
    def shard_size(self):
        return -(-sum(self.sizes) // self.p)

    def inputs(self, rank):
        rng, ends = self.rng(rank), (self.widths[0], self.widths[-1])
        x, grad_output = (rng.standard_normal((self.n, d)).astype(self.dtype) for d in ends)
        return self.params, x, grad_output, self.watched

    def serial(self, rank):
        """A rank's gradient with respect to its input, and that of all parameters."""
        layers = make_layers([param.astype("float64") for param in self.params])
        x, grad = (array.astype("float64") for array in self.inputs(rank)[1:3])
        gradients = []
        with self.passes_of(rank):
            for layer in layers:
                x = layer.forward(x)
            for layer in reversed(layers):
                grad, gradient = layer.backward(grad)
                gradients.insert(0, gradient)
        return grad, np.concatenate(gradients)

    def right(self, mistake=""):
        own = [self.serial(rank) for rank in range(self.p)]
        mean = np.mean([gradient for _, gradient in own], axis=0)
        if mistake == "sum":
            mean *= self.p
        if mistake == "power of two":
            mean *= self.p / 2 ** (self.p.bit_length() - 1)
        padded = np.concatenate([mean, np.zeros(self.p * self.shard_size - len(mean))])
        shards = padded.reshape(self.p, -1)
        right = [{"shard": shard, "grad_input": x} for shard, (x, _) in zip(shards, own)]  # noqa: B905
        return cast(right, self.dtype)

    def wrong(self):
        return {
            says: self.right(mistake)
            for mistake, says in (
                ("sum", "This is the sum of the ranks' gradients; the mean is asked for."),
                ("power of two", "This sum is divided by a power of two, not by N."),
            )
        }

    def check(self, run):
        assert_ran(run, self)
        for rank, (value, right) in enumerate(zip(run.values, self.right(), strict=True)):
            assert_like(value["shard"], right["shard"], self, f"rank {rank}'s shard")
            what = f"rank {rank}'s grad_input"
            assert_like(value["grad_input"], right["grad_input"], self, what)

    def not_owned(self, rank):
        """Per layer, how many elements of its gradient other ranks own."""
        lo, hi = rank * self.shard_size, (rank + 1) * self.shard_size
        return [
            int(size - max(0, min(end, hi) - max(end - size, lo)))
            for size, end in zip(self.sizes, np.cumsum(self.sizes), strict=True)
        ]


# -- memory ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bytes(Formula):
    """A number of ``memory.py``; ``sizes`` are layers, width, heads, tokens and words."""

    caller = "checks/inside.py:memory_calls"

    def arguments(self):
        return list(super().arguments()), {}

    def check_value(self, value):
        """The answer is a whole number, and right."""
        (number, _), right = value, self.right()
        if type(number) is not int:
            raise Verdict(f"{self} is {brief(number)}; it must be an int.")
        if right not in (None, number):
            named = next((f" {says}" for says, n in self.wrong().items() if n == number), "")
            raise Verdict(f"{self} is {number}; it must be {right}.{named}")

    def __str__(self):
        given, options = self.arguments()
        words = [f"Sizes{brief(each)}" if isinstance(each, tuple) else str(each) for each in given]
        if given and isinstance(given[0], list):
            words[0] = "your step_bytes for {}, {:+d}".format(*given[0])
        words += [f"{name}={value}" for name, value in options.items()]
        return f"{self.function}({', '.join(words)})"


@dataclass(frozen=True)
class StateBytes(Bytes):
    """``dtypes``: bytes of a weight, a gradient and the optimizer's state."""

    target = "memory:state_bytes"
    num_parameters: int = 7
    world_size: int = 2
    stage: int = 1
    dtypes: tuple = ()

    def arguments(self):
        names = ("weight_bytes", "gradient_bytes", "optimizer_bytes") if self.dtypes else ()
        given = [self.num_parameters, self.world_size, self.stage]
        return given, dict(zip(names, self.dtypes, strict=True))


@dataclass(frozen=True)
class ActivationBytes(Bytes):
    target = "memory:activation_bytes"
    sizes: tuple = ()
    batch: int = 1
    recompute: bool = False
    element_bytes: int = 2
    dropout: bool = True

    @property
    def options(self):
        usual = {"recompute": False, "element_bytes": 2, "dropout": True}
        return {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}

    def arguments(self):
        return [self.sizes, self.batch], self.options


@dataclass(frozen=True)
class OfOwn(Bytes):
    """A number that is made of the module's other answers.

    It is compared with what follows from these: a mistake costs no points of other functions.
    """

    recompute: bool = field(default=False, kw_only=True)

    def arguments(self):
        (_, *given), _ = super().arguments()
        return given, {"recompute": True} if self.recompute else {}

    def check_value(self, value):
        number, parts = value
        if type(number) is not int or None in parts:
            raise Verdict(f"{self} is {brief(number)}; it must be an int, made of ints.")
        self.check_parts(number, parts)


@dataclass(frozen=True)
class Recomputed(OfOwn):
    """``activation_bytes`` with recomputation, from that of one layer."""

    target = "memory:activation_bytes"
    recompute: bool = field(default=True, kw_only=True)
    sizes: tuple = ()
    batch: int = 1

    def check_parts(self, number, parts):
        """The parts are one layer's activations."""
        num_layers, width, _, tokens, _ = self.sizes
        right = parts[0] + 2 * (num_layers - 1) * tokens * self.batch * width
        if number != right:
            raise Verdict(
                f"{self} is {number}; with your {parts[0]} bytes for one layer it must be {right}."
            )


@dataclass(frozen=True)
class StepBytes(OfOwn):
    target = "memory:step_bytes"
    sizes: tuple = ()
    batch: int = 1
    world_size: int = 1
    stage: int = 0

    def check_parts(self, number, parts):
        """The parts are the state and the activations."""
        if number != sum(parts):
            raise Verdict(
                f"{self} is {number}; with your {parts[0]} bytes of state and {parts[1]} of "
                f"activations it must be {sum(parts)}."
            )


@dataclass(frozen=True)
class Search(OfOwn):
    """The largest or smallest number with which a step fits.

    Attributes:
        edge: ``(number, spare)``: the capacity is what a step with so many layers, or on so many
            ranks, takes by the module's own ``step_bytes``, and so many bytes more.
    """

    edge: tuple = field(default=(), kw_only=True)
    capacity_bytes: int = 0
    sizes: tuple = ()
    batch: int = 1

    def arguments(self):
        (_, *given), options = super().arguments()
        return [list(self.edge) or given[0], *given[1:]], options

    def check_parts(self, number, parts):
        """The parts are the capacity, and steps with this number and the next better, if any."""
        capacity_bytes, *steps = parts
        for what, takes, fits in zip(("it", "the next better"), steps, (True, False), strict=False):
            if (takes <= capacity_bytes) != fits:
                raise Verdict(
                    f"{self} is {number}, but your step_bytes of {what} is {takes}: that "
                    f"{'does not fit' if fits else 'fits, too'} in {capacity_bytes} bytes."
                )


@dataclass(frozen=True)
class MostLayers(Search):
    target = "memory:most_layers"
    world_size: int = 1
    stage: int = 0


@dataclass(frozen=True)
class FewestRanks(Search):
    target = "memory:fewest_ranks"
    stage: int = 0


@dataclass(frozen=True)
class TrackedActivations(ActivationBytes):
    """Activations that torch's tracker counts, too, for a small GPT."""

    def check_value(self, value):
        """The test does it."""

    @property
    def tracked(self):
        """What counts them: target, ranks and arguments."""
        given = (self.sizes, self.batch, self.element_bytes, self.dropout, self.recompute)
        return "given/gpt_torch.py:kept", 1, given


@dataclass(frozen=True)
class TrackedState(Bytes):
    """Bytes of the state after a step of Adam in float32, of a small GPT on two ranks."""

    target = "memory:state_bytes"
    sizes: tuple = ()
    num_parameters: int = 0
    stage: int = 0

    def arguments(self):
        dtypes = {"weight_bytes": 4, "gradient_bytes": 4, "optimizer_bytes": 8}
        return [self.num_parameters, 2, self.stage], dtypes

    def check_value(self, value):
        """The test does it."""

    @property
    def tracked(self):
        return "given/gpt_torch.py:stepped", 2, (self.sizes, self.stage)


# -- offload ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule(Formula):
    """A plan for layers of ``(forward_s, backward_s, nbytes)`` each."""

    target = "offload:schedule"
    caller = "checks/inside.py:plans"
    layers: tuple = ()
    capacity_bytes: float = 0.0
    host_bytes_per_s: float = 1.0

    @property
    def num_bytes(self):
        """Of each layer."""
        return [nbytes for *_, nbytes in self.layers]

    def time_s(self, plan):
        layers = [Layer(*numbers) for numbers in self.layers]
        return makespan_s(layers, plan, self.capacity_bytes, self.host_bytes_per_s)

    def check_value(self, value):
        """One word for each layer, and the plan fits."""
        words = value if isinstance(value, list | tuple) else [value]
        if len(words) != len(self.layers) or not all(word in CHOICES for word in words):
            raise Verdict(
                f"{self} is {brief(value)}; it must be one of {', '.join(CHOICES)} for each layer."
            )
        if math.isinf(self.time_s(words)):
            raise Verdict(f"{self} is {brief(value)}, which needs more than the capacity.")

    @property
    def shortest_s(self):
        """Of all plans that keep the last layer: nothing gains by letting it go for no time."""
        if not self.layers:
            return 0.0
        if sum(self.num_bytes) <= self.capacity_bytes:
            return sum(forward_s + backward_s for forward_s, backward_s, _ in self.layers)
        plans = itertools.product(CHOICES, repeat=len(self.layers) - 1)
        return min(self.time_s((*plan, "keep")) for plan in plans)

    @property
    def reference_s(self):
        """From the last layer to the first, with the 100 best plans so far going on."""
        best = [("recompute",) * len(self.layers)]
        for k in reversed(range(len(self.layers))):
            plans = [(*plan[:k], choice, *plan[k + 1 :]) for plan in best for choice in CHOICES]
            best = sorted(plans, key=self.time_s)[:100]
        return self.time_s(best[0])

    def __str__(self):
        limits = f"{self.capacity_bytes:g} bytes and {self.host_bytes_per_s:g} bytes/s"
        return f"schedule of {len(self.layers)} layers with {limits}"
