# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Asynchrony and local steps

# %%
# {{plan}}

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 2. Local SGD
#
# Data-parallel ranks exchange gradients in every step. Over a slow network, for instance between
# two computing centres, this exchange takes longer than the step itself. Local SGD meets less
# often. Each rank takes H steps alone, on its own data. Then all ranks replace their parameters by
# the mean of all ranks' parameters. H is called the period.

# %% tags=["predict"]
guess(
    "a06/local-bytes",
    "A model has 1 GB of parameters. 8 ranks take 500 steps with a period of 50. How many GB does "
    "each rank send in all, if each average is a ring all-reduce?",
    unit="GB",
)

# %% [markdown]
# The module is `local_sgd.py`. `local_loss.py` is supplied: the loss of a rank, whose gradient
# takes virtual time.
#
# **Think** before you write. The number of steps need not be a multiple of the period. What do
# the ranks return if nobody thinks of that? And if each parameter array travels alone, what does
# that cost for a model with hundreds of small ones?

# %%
# {{module local_sgd}}

# %%
# {{check local_sgd}}

# %% [markdown]
# **Run.** 8 ranks, 500 steps, a period of 50, and a small model. The network counts.

# %%
start = [np.zeros(64)]
mine = ([np.ones(64)], [[np.ones(64)]])  # curvatures and samples: the same on all ranks
counted = ringside.run("callers.py:local_sgd_trained", 8, [(start, *mine, 500, 50, 0.01)] * 8)
averages = [record.nbytes for record in counted.raise_for_error().collectives]
sent_bytes = sum(2 * nbytes * 7 / 8 for nbytes in averages)  # a ring sends so much
print(f"{len(averages)} all-reduces of {averages[0]} bytes: a rank sends {sent_bytes:.0f} bytes")
reveal("a06/local-bytes", sent_bytes / start[0].nbytes)

# %% [markdown]
# **Explain.** How many GB would data-parallel SGD send? Is there anything that still grows with
# the number of steps between two averages?
#
# Now the price. Two ranks share one weight w. Rank 0's data want it to be 0, and its loss is
# w²/2. Rank 1's data want it to be 1, and its loss is 9 (w - 1)²/2: nine times as curved. The sum
# of the two losses is smallest at w = 0.9, and data-parallel SGD ends there.

# %% tags=["predict"]
guess(
    "a06/drift",
    "Both ranks take 1000 steps with a learning rate of 0.05 and a period of 200. Which w do they "
    "end with?",
)

# %%
LOSSES = [(1.0, 0.0), (9.0, 1.0)]  # per rank: curvature, and the w that its data want
slow = Machine.load("textbook,alpha_s=1e-2,flop_per_s=1e3")  # a step takes 2 ms, a message 10 ms


def local_run(period, num_steps=1000):
    """Where the two ranks end, and the run."""
    rows = [([np.array([a])], [[np.array([c])]]) for a, c in LOSSES]
    rows = [([np.zeros(1)], *row, num_steps, period, 0.05) for row in rows]
    run = ringside.run("callers.py:local_sgd_trained", 2, rows, machine=slow)
    return run.raise_for_error().values[0][0].item(), run


end, drift_run = local_run(200)
reveal("a06/drift", end)
print(f"the ranks end at w = {end:.4f}")

# %% [markdown]
# **Explain.** Within 200 steps each rank arrives at the w that its own data want. What does the
# average know of the curvatures then? Derive the formula that is drawn below. A rank's H steps
# bring w to `c + q (w - c)` with `q = (1 - lr * a)^H`, and in the end the average must not move.

# %%
periods = [1, 2, 5, 10, 20, 50, 100, 200]
ends, ms_a_step = [], []
for period in periods:
    end, run = local_run(period)
    ends.append(end)
    ms_a_step.append(run.makespan_s * 1e3 / 1000)
many = np.arange(1, 201)
left_over = np.array([1 - (1 - 0.05 * a) ** many for a, _ in LOSSES])  # 1 - q, per rank
formula = (left_over * [[c] for _, c in LOSSES]).sum(axis=0) / left_over.sum(axis=0)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
left.plot(periods, ms_a_step, "o-", color="tab:orange")
left.set(xscale="log", xlabel="period, steps", ylabel="time, ms a step", ylim=(0, None))
right.plot(many, formula, color="grey", label="formula")
right.plot(periods, ends, "o", color="tab:blue", label="your runs")
right.axhline(0.9, color="tab:green", linestyle=":", label="best w for both")
right.set(xscale="log", xlabel="period, steps", ylabel="w at the end", ylim=(0.4, 1))
right.legend()
fig.suptitle("What a longer period saves, and what it costs")
plt.show()
assert np.allclose(ends, [formula[period - 1] for period in periods], atol=1e-6)
assert ms_a_step == sorted(ms_a_step, reverse=True)

# %% [markdown]
# **Explain.** From which period on is there little left to save? Why does local SGD end at the
# right place, with any period, if both ranks have the same curvature? Between the two extremes,
# what does a smaller learning rate do to the error at a given period?
#
# ## 5. Gossip (extra)
#
# An all-reduce makes everybody wait for everybody. Gossip asks for less. In one round a rank
# exchanges values with its neighbours only, and moves towards them. The ranks don't know the mean
# after a round, but each round brings them nearer to it.
#
# How much nearer is one number of the graph. Collect all weights in a matrix W; its second largest
# absolute eigenvalue λ is the factor by which the distance from the mean shrinks in a round. The
# *spectral gap* is 1 - λ.

# %% tags=["predict"]
guess(
    "a06/ring-of-32",
    "On a ring of 8 ranks, with weights of 1/3, it takes 32 rounds until the distance from the "
    "mean is a thousandth of what it was. How many does it take on a ring of 32?",
    unit="rounds",
)

# %% [markdown]
# The module is `gossip.py`. Graphs and weights are supplied in `cases.py`. The weights there are
# those of Metropolis: 1 / (1 + the larger of the two ranks' numbers of neighbours). The two ends
# of an edge can find that out without asking anybody else.
#
# **Think** before you write. All ranks send in the same round. What happens if each of them sends
# first, and no send returns before it is received? And a neighbour who is done early is already
# in the next round: which of its values do you get?

# %%
# {{module gossip}}

# %%
# {{check gossip}}

# %%
from cases import metropolis, mixing_matrix, random_graph, ring, second_eigenvalue, wheel


def eigenvalue(graph):
    """λ of a graph with Metropolis weights."""
    return second_eigenvalue(mixing_matrix(graph, metropolis(graph)))


def rounds_to(shrunk, graph):
    """How many rounds it takes until the distance from the mean has shrunk so far."""
    return int(np.ceil(np.log(shrunk) / np.log(eigenvalue(graph))))


reveal("a06/ring-of-32", rounds_to(1e-3, ring(32)))
print("rounds to a thousandth:", {p: rounds_to(1e-3, ring(p)) for p in (4, 8, 16, 32, 64)})

# %% [markdown]
# **Run.** Your module on a ring of 8. One rank begins with 8 and the others with 0, so the mean
# is 1. Dots are runs, and the line falls by λ in each round.

# %%
GRAPH = ring(8)
WEIGHTS = metropolis(GRAPH)


def distance_after(num_rounds):
    """The largest distance of a rank from the mean."""
    x = [np.array([8.0 if rank == 0 else 0.0]) for rank in range(8)]
    rows = [(*row, num_rounds) for row in zip(x, GRAPH, WEIGHTS, strict=True)]
    run = ringside.run("gossip.py:average", 8, rows).raise_for_error()
    return max(abs(value.item() - 1) for value in run.values)


tried = list(range(0, 33, 4))
distances = [distance_after(num_rounds) for num_rounds in tried]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
line = distances[-1] * eigenvalue(GRAPH) ** (np.array(tried) - tried[-1])
axes.plot(tried, line, color="grey", label="falls by λ in each round")
axes.plot(tried, distances, "o", color="tab:blue", label="your runs")
axes.set(yscale="log", xlabel="rounds", ylabel="largest distance from the mean")
axes.legend()
plt.show()
assert np.allclose(distances[3:], line[3:], rtol=0.05)

# %% [markdown]
# **Explain.** Why does the first dot lie above the line? Which pattern of values on the ring is
# left after many rounds?
#
# Three graphs: the ring; the wheel, which is a ring with a hub in addition; and a random graph in
# which each rank has about seven neighbours.

# %% tags=["predict"]
guess(
    "a06/graphs",
    "On which of the three graphs, with 128 ranks each, are the fewest rounds needed?",
    choices=["the ring", "the wheel", "the random graph"],
)

# %%
sizes = [8, 16, 32, 64, 128]
rng = np.random.default_rng(2)
makers = {
    "the ring": ring,
    "the wheel": wheel,
    "the random graph": lambda p: random_graph(p, rng, 5 / p),
}
graphs = {name: [make(p) for p in sizes] for name, make in makers.items()}
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for (name, drawn), marker in zip(graphs.items(), "osv", strict=True):
    axes.plot(sizes, [1 - eigenvalue(graph) for graph in drawn], marker=marker, label=name)
axes.set(xscale="log", yscale="log", xlabel="ranks", ylabel="spectral gap, 1 - λ")
axes.legend()
plt.show()
fewest = {name: rounds_to(1e-3, drawn[-1]) for name, drawn in graphs.items()}
busiest = {name: max(map(len, drawn[-1])) for name, drawn in graphs.items()}
for name, count in fewest.items():
    print(f"{name:<17} {count:>6} rounds; its busiest rank sends {count * busiest[name]} values")
reveal("a06/graphs", min(fewest, key=fewest.get))
assert fewest["the random graph"] < fewest["the wheel"] < fewest["the ring"]

# %% [markdown]
# **Explain.** Read off the figure how the gap depends on the number of ranks p, for the ring and
# for the wheel. A ring all-reduce sends 2 (p - 1)/p values a rank and gives the exact mean. So
# what is gossip good for? Think of latency, of one slow rank, and of a training in which each
# step is followed by a single round.
