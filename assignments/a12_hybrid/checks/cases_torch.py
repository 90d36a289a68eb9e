"""The calls of train3d_torch.py that the tests make, and what must come of them: without torch."""

import functools
from dataclasses import dataclass, field

import numpy as np
from given import gpt
from given.gpt import Config, names_of, part_of, shapes_of

from checks.one_process import Model
from ringside.checking import announced, assert_ran, award, one_line
from ringside.checking.cases import Case, brief
from ringside.checking.ring_bytes import bytes_of
from ringside.errors import RunError, TargetError, TraceError
from ringside.scale import agreement
from ringside.timing.replay import replay
from ringside.trace import Kind

AXES = ("pipeline", "data", "tensor")
TOLERANCE = 1e-10
FREE = 64  # bytes on each axis, for the loss
# A step of a large model, by GPUs: arguments of ``large_step``, and what our solution takes on the
# machine "zaratan".
LARGE = {
    num_gpus: (([1] * n, 4096, 32, 51200, 2048, "float32"), n, n, [1] * 4)
    for num_gpus, n in ((8, 2), (64, 4))
}
LARGE_S = {8: 0.824351149, 64: 0.795406062}
AGREE = ([1] * 2, 64, 4, 64, 16, "float32"), 2, 2, [1] * 4
TRACED = "checks/inside_torch.py:large_step"


@dataclass(frozen=True)
class OnGrid(Case):
    """Something on a grid of pipeline, data and tensor axis.

    Attributes:
        layers: of each stage; (): one on each of as many stages as there are ranks for.
    """

    # Torch's operators count as work by themselves, so no pass declares any.
    declared_like = "-"
    layers: tuple = ()
    dp: int = 1
    tp: int = 1
    machine: str = field(default="buffered", kw_only=True)

    @property
    def of_stages(self):
        """Layers of each stage.

        Raises:
            TargetError: the sizes don't make up the ranks.
        """
        layers = self.layers or (1,) * (self.p // (self.dp * self.tp))
        if len(layers) * self.dp * self.tp != self.p:
            raise TargetError(f"{len(layers)} * {self.dp} * {self.tp} ranks must be {self.p}.")
        return layers

    @property
    def pp(self):
        """Stages."""
        return len(self.of_stages)

    def place(self, rank):
        """``(pp, dp, tp)`` of a rank."""
        return rank // (self.dp * self.tp), rank // self.tp % self.dp, rank % self.tp

    def rank(self, pp, dp, tp):
        """The rank at a place."""
        return (pp * self.dp + dp) * self.tp + tp

    def rows(self, rank):
        """Per axis the ranks of this rank's group."""
        pp, dp, tp = self.place(rank)
        rows = (
            [self.rank(k, dp, tp) for k in range(self.pp)],
            [self.rank(pp, k, tp) for k in range(self.dp)],
            [self.rank(pp, dp, k) for k in range(self.tp)],
        )
        return dict(zip(AXES, rows, strict=True))

    @property
    def config(self):
        """Sizes of the model: heads and words that tensor ranks can share."""
        heads = 6 if 6 % self.tp == 0 else self.tp
        return Config(self.of_stages, 2 * heads, heads, 24 if 24 % self.tp == 0 else heads)

    @property
    def spec(self):
        """Arguments of ``Config``."""
        config = self.config
        return list(config.layers), config.hidden, config.heads, config.vocabulary

    @functools.cached_property
    def whole(self):
        """Whole parameters by name."""
        rng = self.rng()
        return {
            name: rng.standard_normal(shape) * 0.4 + ("norm" in name and "weight" in name)
            for name, (shape, _) in shapes_of(self.config).items()
        }

    def parts(self, whole, rank):
        """A rank's parts of what is in ``whole``, by name."""
        pp, _, tp = self.place(rank)
        shapes, names = shapes_of(self.config), names_of(self.config, pp)
        return {
            name: part_of(whole[name], shapes[name][1], self.tp, tp).copy()
            for name in names
            if name in whole
        }

    @property
    def told(self):
        return f"a grid of {self.pp} x {self.dp} x {self.tp} (pipeline, data, tensor)"

    def __str__(self):
        return f"{self.function} on {self.told}"

    def check_arrays(self, values, right, who):
        """Arrays by name are those of one process."""
        for name, array in right.items():
            value = values.get(name) if isinstance(values, dict) else None
            if not isinstance(value, np.ndarray) or value.shape != array.shape:
                raise self.fail(f"{who} has no {name} of shape {array.shape}.")
            off = float(np.abs(value - array).max(initial=0))
            if not off <= TOLERANCE * (1 + float(np.abs(array).max(initial=0))):
                raise self.fail(
                    f"{who}: {name} differs by {off:.3g} from what one rank with the whole batch "
                    "has."
                )


@dataclass(frozen=True)
class MakeGrid(OnGrid):
    """``make_grid`` alone."""

    target = "train3d_torch:make_grid"
    through = "checks/inside_torch.py:grid_made"

    def inputs(self, rank):
        return self.pp, self.dp, self.tp

    def check(self, run):
        assert_ran(run, self)
        for rank, value in enumerate(run.values):
            rows = self.rows(rank)
            ends = sorted({rows["pipeline"][0], rows["pipeline"][-1]})
            rows["ends"] = ends if rank in ends else None
            for name, right in rows.items():
                row, place = value[name] if value[name] is not None else (None, None)
                if row != right:
                    raise self.fail(f"rank {rank}'s {name} group is {row}; it must be {right}.")
                if right is not None and place != right.index(rank):
                    raise self.fail(f"rank {rank} is at place {place} of its {name} group {right}.")


@dataclass(frozen=True)
class RunLayer(OnGrid):
    """``run_layer`` alone, forward and backward, on a tensor axis of all ranks."""

    target = "train3d_torch:run_layer"
    through = "checks/inside_torch.py:layer_run"
    announced: bool = field(default=True, kw_only=True)

    @property
    def samples(self):
        """x and the gradient of the output."""
        return np.random.default_rng([self.seed, 1]).standard_normal((2, 2, 4, self.config.hidden))

    @property
    def whole_layer(self):
        """Parameters of the layer alone."""
        return {name: each for name, each in self.whole.items() if name.startswith("layer")}

    def inputs(self, rank):
        return self.spec, self.parts(self.whole_layer, rank), *self.samples

    def check(self, run):
        assert_ran(run, self)
        model, (x, dy) = Model(self, self.whole_layer), self.samples
        y, backward = model.layer(0, 0, x)
        dx = backward(dy)
        for rank, value in enumerate(run.values):
            right = {"x": dx, **self.parts(model.gradients, rank)}
            self.check_arrays({"the output": value["y"]}, {"the output": y}, f"rank {rank}")
            self.check_arrays(value["gradients"], right, f"rank {rank}'s gradients")


@dataclass(frozen=True)
class Step(OnGrid):
    """Steps of training.

    Attributes:
        sizes: sequences of each microbatch of a replica.
        schedule: the name of a function of ``given/gpt.py``.
        words, loss: compare these, too; a test of its own is about each.
        gpus: a step of a large model is timed on so many.
    """

    target = "train3d_torch:train_step"
    through = "checks/inside_torch.py:trained"
    sizes: tuple = (2, 2, 2, 2)
    steps: int = 1
    schedule: str = "one_f_one_b"
    words: bool = False
    loss: bool = False
    gpus: int = 0
    announced: bool = field(default=True, kw_only=True)

    rates = 0.5, 0.9  # learning rate, momentum

    @property
    def told(self):
        steps = f", {self.steps} steps" if self.steps > 1 else ""
        return (
            f"{super().told}, layers {list(self.of_stages)}, microbatches of {list(self.sizes)}"
            f"{steps}, {self.schedule}"
        )

    @functools.cached_property
    def batches(self):
        """Per step ``(tokens, targets)``, by replica and microbatch."""
        rng, config = np.random.default_rng([self.seed, 1]), self.config
        steps = []
        for _ in range(self.steps):
            drawn = [
                [rng.integers(config.vocabulary, size=(n, config.sequence + 1)) for n in self.sizes]
                for _ in range(self.dp)
            ]
            cuts = slice(None, -1), slice(1, None)
            steps.append(tuple([[x[:, cut] for x in own] for own in drawn] for cut in cuts))
        return steps

    @property
    def num_tokens(self):
        """Of the whole batch."""
        return self.dp * sum(self.sizes) * self.config.sequence

    def actions(self, stage):
        """The passes of a stage."""
        return getattr(gpt, self.schedule)(stage, self.pp, len(self.sizes))

    def inputs(self, rank):
        """What a rank is handed: its own parts and its own data alone."""
        pp, dp, _ = self.place(rank)
        batches = [
            (tokens[dp] if pp == 0 else None, targets[dp] if pp == self.pp - 1 else None)
            for tokens, targets in self.batches
        ]
        return (
            self.spec, self.dp, self.tp, self.parts(self.whole, rank), batches, list(self.sizes),
            self.actions(pp), self.rates,
        )  # fmt: skip

    def right(self):
        """Losses of the steps, and the whole parameters after them."""
        return self._trained()

    def _trained(self, times=1.0, cleared=True):
        model, velocity = Model(self, self.whole), {}
        return [
            model.step(*batch, velocity, times, cleared) for batch in self.batches
        ], model.params

    def wrong(self):
        if self.dp == 1 and self.steps == 1:
            return {}
        return {
            "This is the sum of the replicas' means; the mean over all tokens is asked for.": (
                self._trained(times=self.dp)
            ),
            "Gradients of an earlier step were added to those of this one.": (
                self._trained(cleared=False)
            ),
        }

    def check(self, run):
        assert_ran(run, self)
        losses, params = self.right()
        params = dict(params)
        words = {"words": params.pop("words")}
        for rank, value in enumerate(run.values):
            pp, dp, tp = self.place(rank)
            after = f"after {self.steps} step{'s' * (self.steps > 1)}"
            who = f"{after}, rank {rank} (stage {pp}, replica {dp}, tensor rank {tp})"
            values = value["params"] if isinstance(value, dict) else None
            self.check_arrays(values, self.parts(params, rank), who)
            if self.loss:
                self._check_losses(value, losses, who)
            if self.words:
                self.check_arrays(values, self.parts(words, rank), who)

    def _check_losses(self, value, losses, who):
        """Those of the whole batch, as tensors without axes."""
        for step, (loss, right) in enumerate(zip(value["losses"], losses, strict=True)):
            if not isinstance(loss, np.ndarray) or loss.shape != ():
                raise self.fail(
                    f"{who}: step {step} gave no tensor of shape (), but {brief(loss)}."
                )
            if not abs(float(loss) - right) <= TOLERANCE * (1 + abs(right)):
                raise self.fail(
                    f"{who}: the loss of step {step} is {float(loss):.12g}; of the whole batch it "
                    f"is {right:.12g}."
                )


@dataclass(frozen=True)
class Training(Step):
    """Steps of training, for runs and jobs."""

    target = "checks/inside_torch.py:trained"
    through = ""
    sizes: tuple = (1, 1)
    words: bool = True
    loss: bool = True
    announced: bool = field(default=False, kw_only=True)
    machine: str = field(default="textbook", kw_only=True)

    def wrong(self):
        return {}

    def right(self):
        losses, params = self._trained()
        losses = [np.array(loss) for loss in losses]
        return [{"losses": losses, "params": self.parts(params, r)} for r in range(self.p)]


# -- what the network saw --------------------------------------------------------------------------


def bytes_by_axis(case, rank):
    """Bytes that a rank may send in a step on each axis, all-reduces counted as a ring's."""
    pp = case.place(rank)[0]
    config, shapes = case.config, shapes_of(case.config)
    first, last = pp == 0, pp == case.pp - 1
    positions = sum(case.sizes) * config.sequence
    e = positions * config.hidden  # of all microbatches
    summed = 4 * case.of_stages[pp] * e + first * e + last * (e + 3 * positions)
    passed = (not first) * e + (not last) * e
    words = config.vocabulary * config.hidden // case.tp
    ends = words if case.pp > 1 and (first or last) else 0
    held = sum(
        int(np.prod(shapes[name][0])) // (1 if shapes[name][1] is None else case.tp)
        for name in names_of(config, pp)
    )
    around = {n: 2 * (n - 1) / n for n in (case.dp, case.tp)}
    counts = (passed + ends, around[case.dp] * held, around[case.tp] * summed)
    return {name: 8 * count for name, count in zip(AXES, counts, strict=True)}


def sent_by_axis(run, case, rank):
    """What a rank did send, by the axis to which it belongs; "other" fits none."""
    rows = {name: set(row) for name, row in case.rows(rank).items()}
    sent = dict.fromkeys((*AXES, "other"), 0.0)

    def add(ranks, nbytes):
        if len(ranks) > 1:
            name = next((name for name, row in rows.items() if ranks <= row), "other")
            sent[name] += nbytes

    for record in run.collectives:
        if rank in record.members:
            add(set(record.members), bytes_of(record))
    for op in run.trace.ops[rank]:
        if op.kind == Kind.ISEND:
            add({rank, op.peer}, op.nbytes)
    return sent


def assert_bytes_by_axis(run, case, axes=(*AXES, "other")):
    """Each rank sent at most what the docstring says, on each axis."""
    for rank in range(case.p):
        sent, allowed = sent_by_axis(run, case, rank), bytes_by_axis(case, rank)
        for name in axes:
            most = case.steps * allowed.get(name, 0)
            if sent[name] > most + case.steps * FREE:
                what = f"its {name} group" if name != "other" else "groups that cross the grid's"
                raise case.fail(
                    f"rank {rank} sent {sent[name]:.0f} bytes in {what}; {most:.0f} are allowed in "
                    f"{case.steps} step{'s' * (case.steps > 1)}, and {FREE} a step for the loss."
                )


def assert_passes(run, case):
    """Each rank began the passes of its actions, in their order."""
    for rank in range(case.p):
        stage, wanted = case.place(rank)[0], []
        numbers = range(sum(case.of_stages[:stage]), sum(case.of_stages[: stage + 1]))
        for _ in range(case.steps):
            for kind, _i in case.actions(stage):
                phases = [f"{kind} {what} {n}" for n in numbers for what in ("attention", "mlp")]
                wanted += phases if kind == "forward" else phases[::-1]
        # A layer that is computed again counts once.
        done = [phase for _, phase, _ in announced(run.trace.ops[rank])]
        if done != wanted:
            pairs = zip(done, wanted, strict=False)
            at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(done), len(wanted)))
            did, should = (each[at] if at < len(each) else "nothing" for each in (done, wanted))
            raise case.fail(
                f"rank {rank}, stage {stage}, began {did!r} as pass {at}; its actions have "
                f"{should!r} there."
            )


def assert_trace_agrees(case, ranks):
    """A trace on fake tensors is what the network counts of the same step, on 2 x 2 x 2 ranks."""
    run = ranks.call(TRACED, 8, AGREE)
    assert_ran(run, case)
    try:
        traced = ranks.trace(TRACED, 8, AGREE, grid={"pp": 2, "dp": 2, "tp": 2}, alike=("dp", "tp"))
        agreement.compare(traced.trace, run.trace)
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace on fake tensors is not what the network counted: {one_line(error, 300)} "
            "Nothing may depend on the elements' values."
        ) from None


def assert_time(case, ranks, full=1.05, half=1.5):
    """A step of a large model, traced on fake tensors, against our solution's time."""
    if case.gpus not in LARGE:
        return
    given, bound_s = LARGE[case.gpus], LARGE_S[case.gpus]
    n = given[1]
    try:
        grid = {"pp": n, "dp": n, "tp": n}
        traced = ranks.trace(TRACED, case.gpus, given, grid=grid, alike=("dp", "tp"))
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace of {case.gpus} ranks on fake tensors failed: {one_line(error, 300)} "
            "Nothing may depend on the elements' values."
        ) from None
    took_s = replay(traced.trace, "zaratan").makespan_s
    ratio = took_s / bound_s
    award(
        1.0 if ratio <= full else 0.5 if ratio <= half else 0.0,
        f"train_step on {case.gpus} GPUs of 'zaratan' ({n} x {n} x {n}), traced: takes "
        f"{took_s * 1e3:.1f} ms, {ratio:.3f} times our solution's {bound_s * 1e3:.1f} ms; at most "
        f"{full:g} times that is asked for{' (half the points)' if full < ratio <= half else ''}.",
    )
