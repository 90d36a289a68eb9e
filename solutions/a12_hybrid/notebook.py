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
# # Hybrid: everything together, and what it costs
#
# You can cut a batch, a layer and a stack of layers. No single one of these cuts is enough for a
# large model. Data parallelism ends where the model doesn't fit on a GPU, or where the batch ends.
# Tensor parallelism sends so much that it ends at the edge of a node. A pipeline has no more stages
# than layers, and a bubble besides. So the models of today are cut along all axes at once.
# Megatron's model of a trillion parameters ran on 3,072 GPUs as 8-way tensor, 64-way pipeline and
# 6-way data parallelism (Narayanan et al., SC 2021).
#
# Each cut is an axis of a *grid of ranks*. In this assignment you
#
# - lay out the grid, so that each axis has the wires that it needs;
# - train on a grid of two axes with messages that you write, and on one of three in PyTorch;
# - predict what a configuration sends, holds and takes, before anything runs;
# - search for the best configuration of a machine.
#
# The result is always that of one rank. What differs is the time.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety and speed in virtual time. All that the hidden suite asks
# stands in the module's docstring and in `docs/contract.md`, and the public tests in
# `test_public.py` ask for the same kinds of things.
#
# You work in this notebook: each `%%writefile` cell is one module. Or edit the files; `ringside
# check` and `ringside handin` compare the two and offer to bring them together.

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

zaratan = Machine.load("zaratan")

# %% [markdown]
# ## 1. A grid of ranks
#
# A machine numbers its ranks 0, 1, 2, ... and puts the first four into the first node, the next
# four into the second one. A program wants to say "all ranks that have my samples" or "the next
# stage of my pipeline". Between the two stands a small piece of arithmetic, and it is a classic
# place for errors. A program whose axes are swapped often still runs, with a wrong result or at a
# tenth of the speed.
#
# Take 32 ranks in nodes of 4: an axis "tensor" of size 4, "data" of size 4 and "pipe" of size 2.
# Suppose that "pipe" is the fastest axis, then "data", then "tensor".

# %% tags=["predict"]
guess("a12/nodes", "Over how many nodes are the four ranks of one tensor group?", unit="nodes")

# %% [markdown]
# The module is `grid.py`. It holds functions of numbers and names: no messages yet.
#
# **Think** before you write. A rank's number is a number with mixed digits: one digit for each
# axis. Which digit changes first if you count up? And in `place`: blocks of 3 ranks are laid one
# after the other into nodes of 4. Which of them lie in one node? When does every block?

# %%
# {{module grid}}

# %%
# {{check grid}}

# %%
from grid import coordinates, groups

sizes = {"tensor": 4, "data": 4, "pipe": 2}
slow, fast = ["pipe", "data", "tensor"], ["tensor", "data", "pipe"]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for ax, order in zip(axes, (slow, fast), strict=True):
    ranks = coordinates(32, sizes, order)
    group = groups(ranks, ["tensor"])[0]
    nodes = np.array([[4 * node + k for k in range(4)] for node in range(8)])
    ax.imshow(np.isin(nodes, group), cmap="Blues", vmax=1.6, aspect="auto")
    for (node, k), rank in np.ndenumerate(nodes):
        ax.text(k, node, str(rank), ha="center", va="center")
    ax.set(title=f"fastest first: {', '.join(order)}", ylabel="node", xticks=[])
    ax.set_yticks(range(8))
fig.suptitle("The first tensor group, in nodes of 4 ranks")
plt.show()
reveal(
    "a12/nodes", len({rank // 4 for rank in groups(coordinates(32, sizes, slow), ["tensor"])[0]})
)

# %% [markdown]
# All eight tensor groups sum 8 MB at the same time, as they do twice in each layer. Inside a node
# of `zaratan` a GPU sends 100 GB/s. Between nodes four GPUs share one port of 12.5 GB/s.

# %% tags=["predict"]
guess(
    "a12/order",
    "How many times as long does this all-reduce take if the groups cross nodes?",
    unit="times",
)

# %%
times_ms = {}
for order in (slow, fast):
    for axis in sizes:
        given = (sizes, order, [axis], 1_000_000)
        run = ringside.run("callers.py:grid_busy", 32, [given] * 32, machine=zaratan)
        times_ms[order[0], axis] = 1e3 * run.raise_for_error().makespan_s
for axis in sizes:
    print(f"{axis:7s} {times_ms['pipe', axis]:7.2f} ms if pipe is fastest,", end=" ")
    print(f"{times_ms['tensor', axis]:7.2f} ms if tensor is")
reveal("a12/order", times_ms["pipe", "tensor"] / times_ms["tensor", "tensor"])

# %% [markdown]
# **Explain.** The ratio is larger than 100 / 12.5. Where does the rest come from? With "tensor" as
# the fastest axis, another axis becomes slower. Why is that the better bargain all the same? Think
# of what tensor, data and pipeline parallelism send, and how often in a step.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. Batch and weights on a grid
#
# The smallest hybrid has two axes: the batch is cut over the Pc columns of a grid, and the weights
# of each layer over its Pr rows. Pc = 1 is tensor parallelism, and Pr = 1 data parallelism. What
# does a rank send in a step? With L layers of d features each and B samples in all:
#
# - down its **column**, forward: an all-gather of each layer's outputs,
#   $L\,\frac{P_r - 1}{P_r}\,\frac{B}{P_c}\,d$ elements;
# - down its **column**, backward: a reduce-scatter of each gradient but the samples',
#   $(L - 1)\,\frac{P_r - 1}{P_r}\,\frac{B}{P_c}\,d$ elements;
# - along its **row**: an all-reduce of the weights' gradients,
#   $2\,L\,\frac{P_c - 1}{P_c}\,\frac{d^2}{P_r}$ elements.
#
# More columns make the first two smaller, and more rows the third.

# %% tags=["predict"]
guess(
    "a12/grid",
    "4 layers of d = 256 features, B = 768 samples, 16 ranks: with which grid does a rank send the "
    "fewest bytes?",
    choices=["1 x 16", "2 x 8", "4 x 4", "8 x 2", "16 x 1"],
)

# %% tags=["predict"]
guess(
    "a12/fastest",
    "And which grid is the fastest on zaratan, with the four ranks of a node in one column?",
    choices=["1 x 16", "2 x 8", "4 x 4", "8 x 2", "16 x 1"],
)

# %% [markdown]
# The module is `train2d.py`.
#
# **Think** before you write. Which ranks have the same weights, and which have the same samples?
# In a column each rank's product gives it some of the features of y, and the next layer needs
# all of them. Backward, each rank's product gives it *all* features of dx, but only a summand of
# each. Which of the features does it need for its next product? And where samples differ from
# column to column: is the mean of the columns' means the mean of all samples?

# %%
# {{module train2d}}

# %%
# {{check train2d}}

# %% [markdown]
# Now try all grids of 16 ranks. The model here has a quarter of the width, and the batch a quarter
# of the samples. So the modelled machine takes 16 times as long for a byte and 64 times as long
# for an operation, and times are those of 256 features. The network counts what your program sends.
# A step's time is half of what three steps take longer than one; so `Split` isn't in it.

# %%
from train2d_cases import sent_on_axes, train2d_case, train2d_miniature

P, d, B, L = 16, 64, 192, 4
GRIDS = [(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)]
machine = train2d_miniature(zaratan, bytes_each=16, flops_each=64)
level = machine.with_(ranks_per_node=P, intra_alpha_s=machine.alpha_s)  # all ranks alike
level = level.with_(intra_beta_s_per_byte=machine.beta_s_per_byte)


def formula(Pr, Pc):
    """Bytes that a rank sends in a step: down its column, and along its row."""
    column = (2 * L - 1) * (Pr - 1) / Pr * B / Pc * d
    return 8 * column, 8 * 2 * L * (Pc - 1) / Pc * d * (d + 1) / Pr


def formula_s(Pr, Pc, machine):
    """Seconds of these messages on wires that are all alike, and of the products."""
    messages = (2 * L - 1) * (Pr - 1) + 2 * 2 * (Pc - 1)  # one all-reduce is of the loss
    messages_s = machine.alpha_s * messages + machine.beta_s_per_byte * sum(formula(Pr, Pc))
    return messages_s + (3 * L - 1) * 2 * B * d * d / P / machine.flop_per_s


# %%
def trained(grid, steps, machine):
    """A run of so many steps, and what it was given."""
    case = train2d_case(grid, (d,) * (L + 1), B // grid[1], np.random.default_rng(0), steps=steps)
    given = case.arguments_of_ranks()
    return ringside.run("train2d.py:train", P, given, machine=machine).raise_for_error(), case


def step_s(grid, machine):
    """Seconds of one step on the network."""
    return (trained(grid, 3, machine)[0].makespan_s - trained(grid, 1, machine)[0].makespan_s) / 2


sent = {grid: sent_on_axes(*trained(grid, 1, machine)).max(axis=1) for grid in GRIDS}
times = {
    grid: (step_s(grid, machine), step_s(grid, level), formula_s(*grid, level)) for grid in GRIDS
}

# %%
labels = [f"{Pr} x {Pc}" for Pr, Pc in GRIDS]
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
column, row = np.array([sent[grid] for grid in GRIDS]).T / 1e3
left.bar(labels, column, label="down columns")
left.bar(labels, row, bottom=column, label="along rows")
left.plot(labels, [sum(formula(*grid)) / 1e3 for grid in GRIDS], "k_", ms=28, label="formula")
left.set(xlabel="Pr x Pc", ylabel="kB that a rank sends in a step", ylim=(0, 720))
left.legend()
names = "zaratan, 4 ranks a node", "all wires alike", "formula, all wires alike"
for name, own, style in zip(names, np.array([*times.values()]).T, ("o-", "s-", "k--"), strict=True):
    right.plot(labels, 1e3 * own, style, label=name)
right.set(xlabel="Pr x Pc", ylabel="a step, ms", ylim=(0, None))
right.legend()
plt.show()
best = min(GRIDS, key=lambda grid: sum(sent[grid]))
reveal("a12/grid", f"{best[0]} x {best[1]}")
fastest = min(GRIDS, key=lambda grid: times[grid][0])
reveal("a12/fastest", f"{fastest[0]} x {fastest[1]}")

# %% [markdown]
# **Explain.** With all wires alike, which grid is the fastest, and which on `zaratan`? Why do the
# two differ? Why does 16 x 1 take the same time on both? And how do the bars change if the batch
# has four times as many samples?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 7. On a cluster
#
# The same `train2d.py`, unchanged, on real nodes: `measured_steps` is two steps of a model of
# widths 512, 512, 512 and 64, with n samples in all. In a terminal, in this folder, with grids of
# your choice, among them 1 x P and P x 1:
#
# ```
# ringside launch train2d.py:measured_steps --site zaratan --nodes 2 -- --n 128 --n 512
# ringside launch train2d.py:measured_steps --site zaratan --nodes 2 -- --n 512 --grid '[1, 8]'
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `train2d.py` that you hand in.

# %%
# {{run train2d_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Which grid is the fastest there, and which did you expect? Predict the bytes
# of both axes for three grids, and the times from the alpha and beta of your runs of
# `a01_first_ranks`, for a column inside a node and for one that crosses nodes. Which share of a
# step is computing? What differs from the prediction, and what may be the cause? (About 150 words.)

# %%
# {{paragraph train2d_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
