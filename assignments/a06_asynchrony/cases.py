"""Calls of this assignment's functions, as the tests make them: supplied, nothing to write.

A ``Call`` is what a verdict is about: its words, and the line that runs the same thing.
"""

from dataclasses import dataclass, replace

import numpy as np

from ringside import checking
from ringside.checking import Call

# -- server ----------------------------------------------------------------------------------------


def server_call(
    steps, paces, staleness, n=4, seed=0, fixed=False, through="server_training", late=0
):
    """``serve`` and ``work`` together, or one of them with a script at the other end.

    Args:
        steps: per worker, how many steps it makes.
        paces: per worker, what a step takes, in ms.
        through: the function of ``callers.py``; ``scripted_server`` has no paces and staleness.
        late: of ``scripted_workers``.
    """
    options = {"steps": list(steps)}
    if through != "scripted_server":
        options |= {"paces": list(paces), "staleness": staleness}
    words = [f"--{name} '{value}'" for name, value in options.items()]
    words += [f"--n {n}", f"--seed {seed}"] + (["--fixed True"] if fixed else [])
    words += [f"--late {late}"] if late else []
    function = "work" if through == "scripted_server" else "serve"
    world_size = len(steps) + 1
    about = f"steps {_few(steps)}"
    if through != "scripted_server":
        about += f" of about {_few(paces)} ms, staleness {staleness}"
    if through != "server_training":
        about += ", with a script at the other end"
    about += f" whose END comes {late} ms late" if late else ""
    return Call(
        f"server:{function}", world_size, n, options=options,
        about=f"{about}, n = {n}",
        line=f"ringside run callers.py:{through} --ranks {world_size} -- {' '.join(words)}",
    )  # fmt: skip


def refusal_call(world_size, staleness, num_steps):
    """``serve`` and ``work`` with arguments that can't be right."""
    words = f"--staleness {staleness} --num-steps {num_steps}"
    return Call(
        "server:serve", world_size, 2,
        about=f"staleness {staleness}, num_steps {num_steps}",
        line=f"ringside run callers.py:server_refusals --ranks {world_size} -- {words}",
    )  # fmt: skip


def _few(values):
    text = ", ".join(str(value) for value in values)
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True)
class DrawnCall(checking.Call):
    """A call whose inputs come from a seed in its line, so that the line gives the same ones."""

    def looked_at(self):
        """The same through the function ``..._looked_at`` of ``callers.py``."""
        module = self.target.partition(":")[0]
        _, _, rest = self.line.removeprefix("ringside run ").partition(" ")
        line = f"ringside run callers.py:{module}_looked_at {rest}"
        return replace(self, line=line, about=f"{self.about}, called twice")


# -- local_sgd -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalSgdCase(DrawnCall):
    """A call of ``local_sgd.train``; its inputs come from ``seed``."""

    shapes: tuple = ()
    num_steps: int = 0
    period: int = 1
    seed: int = 0
    nan_of: int | None = None  # one of this rank's targets is not a number

    @property
    def rounds(self):
        """How many averages are taken."""
        return -(-self.num_steps // self.period)

    def inputs(self):
        """Initial parameters, each rank's ``(curvatures, samples)``, and the learning rate."""
        return local_sgd_inputs(self.world_size, self.shapes, self.seed, self.dtype, self.nan_of)

    def arguments_of_ranks(self):
        """What ``callers.local_sgd_trained`` gets on each rank, after ``comm``."""
        params, losses, lr = self.inputs()
        return [(params, *loss, self.num_steps, self.period, lr) for loss in losses]


def local_sgd_case(world_size, num_steps, period, shapes, rng, dtype="float64", nan_of=None):
    """``local_sgd.train`` on losses that are drawn; ``rng`` gives the seed."""
    seed = int(rng.integers(2**31))
    shapes = tuple(tuple(shape) for shape in shapes)
    words = f"--num-steps {num_steps} --period {period} --shapes '{list(map(list, shapes))}'"
    words += f" --seed {seed} --dtype {dtype}" + nan_word(nan_of)
    return LocalSgdCase(
        "local_sgd:train", world_size, sum(int(np.prod(shape)) for shape in shapes), dtype,
        about=f"num_steps = {num_steps}, period = {period}, {len(shapes)} arrays, {dtype}",
        line=f"ringside run callers.py:local_sgd_trained --ranks {world_size} -- {words}",
        shapes=shapes, num_steps=num_steps, period=period, seed=seed,
        nan_of=nan_of,
    )  # fmt: skip


def local_sgd_refusal(num_steps, period):
    """``local_sgd.train`` with numbers that can't be right, on three ranks."""
    words = f"--num-steps {num_steps} --period {period}"
    return DrawnCall(
        "local_sgd:train", 3, 0,
        about=f"num_steps = {num_steps}, period = {period}",
        line=f"ringside run callers.py:local_sgd_refused --ranks 3 -- {words}",
    )  # fmt: skip


def local_sgd_inputs(world_size, shapes, seed, dtype="float64", nan_of=None):
    """Initial parameters, each rank's ``(curvatures, samples)``, and the learning rate."""
    rng = np.random.default_rng(seed)

    def drawn(low, high):
        return [np.asarray(rng.uniform(low, high, shape)).astype(dtype) for shape in shapes]

    params = drawn(-1, 1)
    losses = [(drawn(0.2, 2.0), [drawn(-3, 3) for _ in range(4)]) for _ in range(world_size)]
    if nan_of is not None:
        losses[nan_of][1][0][0].reshape(-1)[:1] = np.nan
    return params, losses, float(rng.uniform(0.1, 0.4))


# -- gossip ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GossipCase(DrawnCall):
    """A call of ``gossip.average``; its graph, weights and values come from ``seed``."""

    graph: str = "ring"
    shape: tuple = ()
    num_rounds: int = 0
    seed: int = 0
    nan_of: int | None = None  # the first element of this rank's x is not a number

    @property
    def neighbours(self):
        """Each rank's neighbours, in an order of its own."""
        return self.inputs()[1]

    @property
    def degree(self):
        """The largest number of neighbours of a rank."""
        return max(map(len, self.neighbours))

    def inputs(self):
        """Each rank's x, neighbours and weights."""
        return gossip_inputs(
            self.world_size, self.graph, self.shape, self.seed, self.dtype, self.nan_of
        )

    def arguments_of_ranks(self):
        """What ``gossip.average`` gets on each rank, after ``comm``."""
        return [(*row, self.num_rounds) for row in zip(*self.inputs(), strict=True)]


def gossip_case(world_size, graph, num_rounds, shape, rng, dtype="float64", nan_of=None):
    """``gossip.average`` on a graph of that name; ``rng`` gives the seed."""
    seed = int(rng.integers(2**31))
    words = f"--graph {graph} --num-rounds {num_rounds} --shape '{list(shape)}'"
    words += f" --seed {seed} --dtype {dtype}" + nan_word(nan_of)
    return GossipCase(
        "gossip:average", world_size, int(np.prod(shape)), dtype,
        about=f"graph {graph}, num_rounds = {num_rounds}, x of shape {tuple(shape)}, {dtype}",
        line=f"ringside run gossip.py:average --ranks {world_size} -- {words}",
        graph=graph, shape=tuple(shape), num_rounds=num_rounds, seed=seed,
        nan_of=nan_of,
    )  # fmt: skip


def gossip_refusal(neighbours, weights, num_rounds):
    """``gossip.average`` with a row that can't be right, on two ranks."""
    words = f"--neighbours '{neighbours}' --weights '{weights}' --num-rounds {num_rounds}"
    words = words.replace("'me'", '"me"').replace("'you'", '"you"')
    return DrawnCall(
        "gossip:average", 2, 3,
        about=f"neighbours = {neighbours}, weights = {weights}, num_rounds = {num_rounds}",
        line=f"ringside run callers.py:gossip_refused --ranks 2 -- {words}",
    )  # fmt: skip


GOSSIP_REFUSALS = (  # neighbours, weights, num_rounds
    (["me"], [0.1], 2),
    (["you"], [0.1], -1),
    (["you", "you"], [0.1, 0.1], 2),
    ([2], [0.1], 2),
    ([-1], [0.1], 2),
    (["you"], [0.1, 0.1], 2),
    (["you"], [], 2),
    (["you"], [-0.1], 2),
    (["you"], [1.1], 2),
)


def gossip_inputs(world_size, graph, shape, seed, dtype="float64", nan_of=None):
    """Each rank's x, its neighbours in some order, and their weights.

    Args:
        graph: "ring" and "wheel", or "even", a random graph, whose weights are all equal:
            1 / (1 + the largest number of neighbours); "random", a random graph with weights of
            its own for each edge; "apart", where the last rank has no neighbours and the others
            form a ring; "line", a ring without its last edge.
    """
    rng = np.random.default_rng(seed)
    if graph in ("random", "even"):
        neighbours = random_graph(world_size, rng)
    elif graph == "line":
        neighbours = _sorted(world_size, [(i, i + 1) for i in range(world_size - 1)])
    elif graph == "apart":
        neighbours = [*ring(world_size - 1), []]
    else:
        neighbours = {"ring": ring, "wheel": wheel}[graph](world_size)
    neighbours = [[int(j) for j in rng.permutation(each)] for each in neighbours]
    equal = 1 / (1 + max(map(len, neighbours)))
    weights = [[equal] * len(each) for each in neighbours]
    if graph == "random":
        factors = rng.uniform(0.3, 1.0, (world_size, world_size))
        weights = [
            [weight * factors[min(i, j), max(i, j)] for j, weight in zip(each, own, strict=True)]
            for i, (each, own) in enumerate(zip(neighbours, metropolis(neighbours), strict=True))
        ]
    weights = [[float(weight) for weight in own] for own in weights]
    x = [np.asarray(rng.standard_normal(shape)).astype(dtype) for _ in range(world_size)]
    if nan_of is not None:
        x[nan_of].reshape(-1)[:1] = np.nan
    return x, neighbours, weights


# Graphs of ranks are lists of lists: the neighbours of rank 0, those of rank 1, and so on. Weights
# have the same form: weights[i][k] belongs to the edge from rank i to neighbours[i][k].


def ring(world_size):
    """Each rank has the one before and the one after it as neighbours.

    >>> ring(4)
    [[1, 3], [0, 2], [1, 3], [0, 2]]
    """
    return _sorted(world_size, [(i, (i + 1) % world_size) for i in range(world_size)])


def wheel(world_size):
    """Rank 0, the hub, has all others as neighbours; these form a ring.

    >>> wheel(5)
    [[1, 2, 3, 4], [0, 2, 4], [0, 1, 3], [0, 2, 4], [0, 1, 3]]
    """
    rim = range(1, world_size)
    edges = [(i, i % (world_size - 1) + 1) for i in rim]
    return _sorted(world_size, [*edges, *((0, i) for i in rim)])


def random_graph(world_size, rng, share=0.3):
    """A connected graph: a random tree, and of the other pairs about this share."""
    edges = [(i, int(rng.integers(i))) for i in range(1, world_size)]
    pairs = [(i, j) for i in range(world_size) for j in range(i)]
    return _sorted(world_size, [*edges, *(pair for pair in pairs if rng.random() < share)])


def _sorted(world_size, edges):
    """Lists of neighbours, of edges that may come twice, or from a rank to itself."""
    both = {(i, j) for i, j in edges if i != j} | {(j, i) for i, j in edges if i != j}
    return [sorted(j for i, j in both if i == rank) for rank in range(world_size)]


def metropolis(neighbours):
    """Weights that each edge's two ends can find out alone: 1 / (1 + the larger degree).

    >>> metropolis(ring(4))[0]
    [0.3333333333333333, 0.3333333333333333]
    """
    degrees = [len(each) for each in neighbours]
    return [
        [1 / (1 + max(degrees[i], degrees[j])) for j in each] for i, each in enumerate(neighbours)
    ]


def mixing_matrix(neighbours, weights):
    """The matrix W of all weights, what remains of each row on its diagonal."""
    matrix = np.zeros((len(neighbours), len(neighbours)))
    for i, (others, own) in enumerate(zip(neighbours, weights, strict=True)):
        for j, weight in zip(others, own, strict=True):
            matrix[i, j] = weight
        matrix[i, i] = 1 - sum(own)
    return matrix


def second_eigenvalue(matrix):
    """The second largest absolute value of the eigenvalues of a symmetric matrix."""
    return float(np.sort(np.abs(np.linalg.eigvalsh(matrix)))[-2])


# -- what several of them need ---------------------------------------------------------------------


def nan_word(nan_of):
    """The option that makes a number of this rank's input NaN."""
    return "" if nan_of is None else f" --nan-of {nan_of}"
