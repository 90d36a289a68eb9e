"""Calls of ``train3d_torch``, and the same training on one process: supplied.

``serial`` computes with every part of the model, replica by replica and microbatch by microbatch.
In a test of order it plays all ranks' factors.
"""

import functools
from dataclasses import dataclass, replace

import gpt_torch
import numpy as np
import torch
from gpt_torch import Config, Layer, names_of, part_of, shapes_of
from torch.nn import functional as F

import ringside
from ringside import replay
from ringside.checking import Call, announced, award
from ringside.checking.ring_bytes import bytes_of
from ringside.errors import RunError, TraceError
from ringside.trace import Kind

AXES = ("pipeline", "data", "tensor")
TOLERANCE = 1e-10
FREE_BYTES = 64  # on each axis, for the loss
RATE, MOMENTUM = 0.5, 0.9  # of the optimizer
# A step of a large model, by ranks; and what our solution takes on the machine "zaratan".
LARGE = {
    num_ranks: {
        "layers": [1] * n, "dp": n, "tp": n, "sizes": [1] * 4, "hidden": 4096, "heads": 32,
        "vocabulary": 51200, "sequence": 2048,
    }
    for num_ranks, n in ((8, 2), (64, 4))
}  # fmt: skip
LARGE_S = {8: 0.824351149, 64: 0.795406062}
SMALL = {
    "layers": [1] * 2, "dp": 2, "tp": 2, "sizes": [1] * 4, "hidden": 64, "heads": 4,
    "vocabulary": 64, "sequence": 16,
}  # fmt: skip
FULL, HALF = 1.05, 1.5


@dataclass(frozen=True)
class Training:
    """A few steps on a grid.

    Attributes:
        layers: of each stage.
        dp, tp: ranks of the data and of the tensor axis.
        sizes: sequences of each microbatch of a replica.
        schedule: the name of a function of ``gpt_torch``.
    """

    layers: tuple[int, ...] = (1,)
    dp: int = 1
    tp: int = 1
    sizes: tuple[int, ...] = (2, 2, 2, 2)
    steps: int = 1
    schedule: str = "one_f_one_b"
    hidden: int = 12
    heads: int = 6
    vocabulary: int = 24

    @property
    def pp(self):
        """Stages."""
        return len(self.layers)

    @property
    def world_size(self):
        """Ranks of the grid."""
        return self.pp * self.dp * self.tp

    def config(self):
        """Sizes of the model."""
        return Config(self.layers, self.hidden, self.heads, self.vocabulary)

    def place(self, rank):
        """``(pp, dp, tp)`` of a rank."""
        return rank // (self.dp * self.tp), rank // self.tp % self.dp, rank % self.tp

    def rank(self, pp, dp, tp):
        """The rank at a place."""
        return (pp * self.dp + dp) * self.tp + tp

    def rows(self, rank):
        """Per axis the ranks of this rank's group."""
        pp, dp, tp = self.place(rank)
        return (
            [self.rank(k, dp, tp) for k in range(self.pp)],
            [self.rank(pp, k, tp) for k in range(self.dp)],
            [self.rank(pp, dp, k) for k in range(self.tp)],
        )

    def actions(self, stage):
        """The passes of a stage."""
        return getattr(gpt_torch, self.schedule)(stage, self.pp, len(self.sizes))

    def call(self):
        """What a verdict is about."""
        given, usual = [], Training()
        for name in ("sizes", "steps", "schedule", "hidden", "heads", "vocabulary"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                shown = f"'{list(value)}'" if name == "sizes" else value
                given.append(f"--{name} {shown}")
        layers = f"'{list(self.layers)}'"
        about = f"a grid of {self.pp} x {self.dp} x {self.tp} (pipeline, data, tensor)"
        about += f", layers {list(self.layers)}, microbatches of {list(self.sizes)}"
        about += f", {self.steps} steps" if self.steps > 1 else ""
        words = " ".join(["--layers", layers, f"--dp {self.dp} --tp {self.tp}", *given])
        return Call(
            "train3d_torch:train_step", self.world_size, sum(self.sizes), "float64",
            about=f"{about}, {self.schedule}",
            line=f"ringside run train3d_callers_torch.py:try_training --ranks {self.world_size} -- "
            f"{words}",
        )  # fmt: skip


def sample(rng, case):
    """Whole parameters by name, and per step ``(tokens, targets)``, by replica and microbatch."""
    config = case.config()
    whole = {}
    for name, (shape, _) in shapes_of(config).items():
        whole[name] = rng.standard_normal(shape) * 0.4 + ("norm" in name and "weight" in name)
    steps = []
    for _ in range(case.steps):
        drawn = [
            [rng.integers(config.vocabulary, size=(n, config.sequence + 1)) for n in case.sizes]
            for _ in range(case.dp)
        ]
        tokens, targets = ([[x[:, cut] for x in own] for own in drawn] for cut in CUTS)
        steps.append((tokens, targets))
    return whole, steps


CUTS = slice(None, -1), slice(1, None)


def parts_of(case, whole, rank):
    """A rank's parameters, by name."""
    pp, _, tp = case.place(rank)
    shapes, names = shapes_of(case.config()), names_of(case.config(), pp)
    return {name: part_of(whole[name], shapes[name][1], case.tp, tp).copy() for name in names}


def arguments_of(case, whole, steps, rank):
    """What rank ``rank`` is handed: its own parts and its own data alone."""
    pp, dp, _ = case.place(rank)
    tokens = [step[0][dp] for step in steps] if pp == 0 else None
    targets = [step[1][dp] for step in steps] if pp == case.pp - 1 else None
    return vars(case), parts_of(case, whole, rank), tokens, targets


# -- on one process --------------------------------------------------------------------------------


def on_one_thread(function):
    """Tensors are tiny here, and threads that wait for one another cost more than they save."""

    @functools.wraps(function)
    def called(*arguments):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return function(*arguments)
        finally:
            torch.set_num_threads(before)

    return called


@on_one_thread
def serial(case, whole, steps, factors=None):
    """The same steps on one process.

    Returns:
        ``(losses, params)``: of each step; and the whole parameters after the last one, by name.
    """
    config, shapes = case.config(), shapes_of(case.config())
    leaves, layers = {}, [[] for _ in range(sum(case.layers))]
    for name, (_, cut) in shapes.items():
        # Parts of a cut parameter are leaves of their own, since each rank scales its passes.
        count = case.tp if cut is not None and name != "words" else 1
        array = torch.as_tensor(whole[name])
        leaves[name] = [
            part_of(array, cut, count, k).clone().requires_grad_() for k in range(count)
        ]
    for number, own in enumerate(layers):
        for tp in range(case.tp):
            mine = {n: each[tp % len(each)].detach() for n, each in leaves.items()}
            layer = Layer(number, config, mine)
            for name in gpt_torch.LAYER:
                each = leaves[f"layer{number}.{name}"]
                _share(layer, name, each[tp % len(each)])
            own.append(layer)
    every = [each for own in leaves.values() for each in own]
    optimizer = torch.optim.SGD(every, lr=RATE, momentum=MOMENTUM)
    tokens_of_all = case.dp * sum(case.sizes) * config.sequence
    losses = []
    for tokens, targets in steps:
        optimizer.zero_grad()
        total = 0.0
        for dp in range(case.dp):
            for number, own in enumerate(layers):
                for tp, layer in enumerate(own):
                    layer.begin = _as_rank(case.rank(_stage(case, number), dp, tp), factors)
            for x, target in zip(tokens[dp], targets[dp], strict=True):
                x, target = torch.as_tensor(x), torch.as_tensor(target)
                loss = _loss(leaves, layers, x, target) / tokens_of_all
                loss.backward()
                total += loss.item()
        optimizer.step()
        losses.append(total)
    params = {}
    for name, own in leaves.items():
        arrays = [each.detach().numpy() for each in own]
        params[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, shapes[name][1])
    return losses, params


def _share(layer, name, leaf):
    """Let a layer compute with a tensor that others compute with, too."""
    module, _, own = name.partition(".")
    owner, own = (getattr(layer, module), own) if own else (layer, module)
    delattr(owner, own)
    setattr(owner, own, leaf)


def _stage(case, number):
    ends = np.cumsum(case.layers)
    return int(np.searchsorted(ends, number, side="right"))


def _as_rank(rank, factors):
    def begin(phase, x):
        if factors is None:
            return x
        with factors.of_rank(rank):
            return torch.from_numpy(ringside.announce(phase, x.detach().numpy()))

    return begin


def _loss(leaves, layers, tokens, targets):
    """Summed over the tokens of a microbatch."""
    (words,), (positions,) = leaves["words"], leaves["positions"]
    x = F.embedding(tokens, words) + positions
    for own in layers:
        one = own[0]
        for norm, piece, bias in (
            (one.norm1, "attention", one.attention_bias),
            (one.norm2, "mlp", one.mlp_bias),
        ):
            normed = norm(x)
            x = x + sum(getattr(each, piece)(normed) for each in own) + bias
    (weight,), (bias,) = leaves["norm.weight"], leaves["norm.bias"]
    logits = F.layer_norm(x, x.shape[-1:], weight, bias) @ words.T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


# -- values ----------------------------------------------------------------------------------------


def check_training(value, wanted, case, call, rank, *, words=True, loss=True):
    """A rank's parameters after the steps, and what ``train_step`` returned.

    Args:
        wanted: what ``serial`` gave.
        words, loss: compare these, too; a test of its own is about each.
    """
    losses, params = wanted
    pp, dp, tp = case.place(rank)
    where = f"rank {rank} (stage {pp}, replica {dp}, tensor rank {tp})"
    shapes = shapes_of(case.config())
    # What tests of their own are about comes last, so that a line shows what its test showed.
    names = [name for name in names_of(case.config(), pp) if name != "words"]
    ends = ["words"] if words and pp in (0, case.pp - 1) else []
    for name in [*names, "loss", *ends]:
        if name == "loss":
            if loss:
                check_loss(value, losses, call, where)
            continue
        right = part_of(params[name], shapes[name][1], case.tp, tp)
        found = value["params"].get(name) if isinstance(value, dict) else None
        if not isinstance(found, np.ndarray) or found.shape != right.shape:
            raise call.fail(f"{where}: there is no parameter {name} of shape {right.shape}.")
        off = float(np.abs(found - right).max())
        if not off <= TOLERANCE * (1 + float(np.abs(right).max())):
            raise call.fail(
                f"{where}: after {case.steps} step{'s' * (case.steps > 1)} {name} differs by "
                f"{off:.3g} from what one rank with the whole batch has."
            )


def check_loss(value, losses, call, where):
    """The loss of the whole batch, as a tensor without axes."""
    for step, (found, right) in enumerate(zip(value["losses"], losses, strict=True)):
        if not isinstance(found, np.ndarray) or found.shape != ():
            raise call.fail(f"{where}: step {step} gave no tensor of shape (), but {found!r:.60}.")
        if not abs(float(found) - right) <= TOLERANCE * (1 + abs(right)):
            raise call.fail(
                f"{where}: the loss of step {step} is {float(found):.12g}; of the whole batch it "
                f"is {right:.12g}."
            )


def check_grid(value, sizes, call, rank):
    """What ``make_grid`` gave on a rank: its groups, as ranks of the grid."""
    case = Training((1,) * sizes[0], sizes[1], sizes[2])
    rows = dict(zip(AXES, case.rows(rank), strict=True))
    pipeline = rows["pipeline"]
    ends = sorted({pipeline[0], pipeline[-1]})
    rows["ends"] = ends if rank in ends else None
    for name, right in rows.items():
        found, place = value[name] if value[name] is not None else (None, None)
        if found != right:
            raise call.fail(f"rank {rank}'s {name} group is {found}; it must be {right}.")
        if right is not None and place != right.index(rank):
            raise call.fail(f"rank {rank} is at place {place} of its {name} group {right}.")


def grid_call(sizes):
    """A call of ``make_grid`` alone."""
    p, d, t = sizes
    return Call(
        "train3d_torch:make_grid", p * d * t, p * d * t, "float64",
        about=f"{p} x {d} x {t} (pipeline, data, tensor)",
        line=f"ringside run train3d_callers_torch.py:try_grid --ranks {p * d * t} -- "
        f"--pp {p} --dp {d} --tp {t}",
    )  # fmt: skip


def layer_call(tp):
    """A call of ``run_layer`` alone."""
    return Call(
        "train3d_torch:run_layer", tp, 2, "float64",
        about="2 sequences",
        line=f"ringside run train3d_callers_torch.py:try_layer --ranks {tp} -- --n 2",
    )  # fmt: skip


def layer_case(tp):
    """One layer on a tensor axis."""
    heads = 6 if 6 % tp == 0 else tp
    return Training(tp=tp, hidden=4 * heads, heads=heads, vocabulary=heads)


def layer_sample(rng, case):
    """Whole parameters, x and the gradient of the output."""
    whole, _ = sample(rng, case)
    shape = 2, 4, case.hidden
    return whole, rng.standard_normal(shape), rng.standard_normal(shape)


@on_one_thread
def serial_layer(case, whole, x, dy, factors=None):
    """Output, gradient of x, and whole gradients by name."""
    config, found = case.config(), {}
    shapes = shapes_of(config)
    leaves = {}
    for name in names_of(config, 0):
        if name.startswith("layer"):
            cut = shapes[name][1]
            count = 1 if cut is None else case.tp
            array = torch.as_tensor(whole[name])
            leaves[name] = [
                part_of(array, cut, count, k).clone().requires_grad_() for k in range(count)
            ]
    own = []
    for tp in range(case.tp):
        layer = Layer(0, config, {n: each[tp % len(each)].detach() for n, each in leaves.items()})
        for name in gpt_torch.LAYER:
            each = leaves[f"layer0.{name}"]
            _share(layer, name, each[tp % len(each)])
        layer.begin = _as_rank(tp, factors)
        own.append(layer)
    x = torch.as_tensor(x).requires_grad_()
    one = own[0]
    normed = one.norm1(x)
    y = x + sum(each.attention(normed) for each in own) + one.attention_bias
    normed = one.norm2(y)
    y = y + sum(each.mlp(normed) for each in own) + one.mlp_bias
    y.backward(torch.as_tensor(dy))
    for name, each in leaves.items():
        arrays = [leaf.grad.numpy() for leaf in each]
        found[name] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, shapes[name][1])
    return y.detach().numpy(), x.grad.numpy(), found


def check_layer(value, wanted, case, call, rank):
    """A rank's output and gradients."""
    y, dx, gradients = wanted
    shapes = shapes_of(case.config())
    pairs = [("output", value["y"], y), ("gradient of x", value["dx"], dx)]
    for name, whole in gradients.items():
        right = part_of(whole, shapes[name][1], case.tp, rank)
        pairs.append((f"gradient of {name}", value["gradients"].get(name), right))
    for name, found, right in pairs:
        if not isinstance(found, np.ndarray) or found.shape != right.shape:
            raise call.fail(f"rank {rank} has no {name} of shape {right.shape}.")
        off = float(np.abs(found - right).max())
        if not off <= TOLERANCE * (1 + float(np.abs(right).max())):
            raise call.fail(f"rank {rank}'s {name} differs by {off:.3g} from that of one rank.")


# -- what the network saw --------------------------------------------------------------------------


def bytes_by_axis(case, rank):
    """Bytes that a rank may send in a step on each axis, all-reduces counted as a ring's."""
    pp = case.place(rank)[0]
    config, shapes = case.config(), shapes_of(case.config())
    first, last = pp == 0, pp == case.pp - 1
    positions = sum(case.sizes) * config.sequence
    e = positions * config.hidden  # of all microbatches
    summed = 4 * case.layers[pp] * e + first * e + last * (e + 3 * positions)
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


def sent_by_axis(result, case, rank):
    """What a rank did send, by the axis to which it belongs; "other" fits none."""
    rows = dict(zip(AXES, map(set, case.rows(rank)), strict=True))
    sent = dict.fromkeys((*AXES, "other"), 0.0)

    def add(ranks, nbytes):
        if len(ranks) > 1:
            name = next((name for name, row in rows.items() if ranks <= row), "other")
            sent[name] += nbytes

    for record in result.collectives:
        if rank in record.members:
            add(set(record.members), bytes_of(record))
    for op in result.trace.ops[rank]:
        if op.kind == Kind.ISEND:
            add({rank, op.peer}, op.nbytes)
    return sent


def assert_bytes_by_axis(result, case, call, axes=(*AXES, "other")):
    """Each rank sent at most what the docstring says, on each axis."""
    call = call.seen_in(result).asking("train3d_bytes")
    for rank in range(case.world_size):
        sent, allowed = sent_by_axis(result, case, rank), bytes_by_axis(case, rank)
        for name in axes:
            most = case.steps * allowed.get(name, 0)
            if sent[name] > most + case.steps * FREE_BYTES:
                what = f"its {name} group" if name != "other" else "groups that cross the grid's"
                raise call.fail(
                    f"rank {rank} sent {sent[name]:.0f} bytes in {what}; {most:.0f} are allowed in "
                    f"{case.steps} step{'s' * (case.steps > 1)}, and {FREE_BYTES} a step for the "
                    "loss."
                )


def assert_passes(result, case, call):
    """In a test of order: each rank began the passes of its actions, in their order."""
    call = call.seen_in(result).asking("train3d_passes")
    for rank, member in enumerate(result.members or range(case.world_size)):
        stage, wanted = case.place(rank)[0], []
        numbers = range(sum(case.layers[:stage]), sum(case.layers[: stage + 1]))
        for _ in range(case.steps):
            for kind, _i in case.actions(stage):
                phases = [f"{kind} {what} {n}" for n in numbers for what in ("attention", "mlp")]
                wanted += phases if kind == "forward" else phases[::-1]
        # A layer that is computed again counts once.
        done = [phase for _, phase, _ in announced(result.trace.ops[member])]
        if done != wanted:
            pairs = zip(done, wanted, strict=False)
            at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(done), len(wanted)))
            did, should = (each[at] if at < len(each) else "nothing" for each in (done, wanted))
            raise call.fail(
                f"rank {rank}, stage {stage}, began {did!r} as pass {at}; its actions have "
                f"{should!r} there."
            )


def assert_time(trace, case, num_ranks, machine="zaratan"):
    """A step of a large model, traced on fake tensors, against our solution's time.

    Args:
        trace: ``ringside.trace_torch``, or what does the same.
    """
    case, settings = case.asking(f"train3d_time={num_ranks}"), LARGE[num_ranks]
    n, bound_s = settings["dp"], LARGE_S[num_ranks]
    try:
        traced = trace(
            "train3d_callers_torch:large_step", num_ranks, (settings,),
            grid={"pp": n, "dp": n, "tp": n}, alike=("dp", "tp"),
        )  # fmt: skip
    except (RunError, TraceError) as error:
        raise case.fail(
            f"a trace of {num_ranks} ranks on fake tensors ended with {type(error).__name__}: the "
            "line shows why."
        ) from None
    took_s = replay(traced.trace, machine).makespan_s
    ratio = took_s / bound_s
    award(
        1.0 if ratio <= FULL else 0.5 if ratio <= HALF else 0.0,
        f"train_step on {num_ranks} GPUs of {machine!r} ({n} x {n} x {n}), traced: takes "
        f"{took_s * 1e3:.1f} ms, {ratio:.3f} times our solution's {bound_s * 1e3:.1f} ms; at most "
        f"{FULL:g} times that is asked for{' (half the points)' if FULL < ratio <= HALF else ''}.",
        reproduce=case.reproduce,
    )


def training(given):
    """A training from the options of a line."""
    made = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return Training(**made)


def given(case, **others):
    """The same training with some settings changed."""
    return replace(case, **others)
