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
# # Asynchronous pipelines
#
# The pipelines of `a09_pipeline` drain at the end of each step. All microbatches come back, the
# parameters are updated, and the pipeline fills again. While it fills and drains, stages are idle.
# PipeDream never drains. Each minibatch is a step of its own, and a stage updates its parameters
# as soon as the minibatch's backward pass is done there.
#
# The price is that a minibatch meets old parameters, and different versions on different stages.
# At the end of this assignment you will have
#
# - a stage that keeps the versions it needs, and trains exactly as a recursion with delays does
#   in one process, to twelve digits, over mpi4py and in torch;
# - the memory that the versions take, and the learning rates that the delays allow;
# - PipeDream's planner, which cuts a network into stages and replicates some of them;
# - as an extra, a stage without a fixed schedule, which processes whatever message comes first.

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

# %% [markdown]
# ## 1. A pipeline that never drains
#
# Four stages train on 40 minibatches. A forward pass through a stage takes 1 ms and a backward
# pass 2 ms, and messages take no time. A pipeline with a flush takes groups of four minibatches:
# it fills, drains, updates the parameters, and begins with the next four. An asynchronous one
# never waits for a flush.

# %% tags=["predict"]
guess(
    "a10/flushes",
    "How many times as long does the training with ten flushes take?",
    unit="times",
)

# %% [markdown]
# Without a flush, a stage updates its parameters between the forward and the backward pass of
# other minibatches. Draw the first passes of the four stages on paper, and write down after how
# many updates each forward pass comes.

# %% tags=["predict"]
guess(
    "a10/version",
    "Minibatches count from 0, and so do stages. How many updates has stage 1 of the four made "
    "when it computes the forward pass of minibatch 10?",
    unit="updates",
)

# %% [markdown]
# The backward pass of minibatch 10 comes later, after more updates. It must use the parameters of
# the forward pass all the same. With others it would compute the gradient of no function at all.
# So the stage keeps the old version until then.
#
# The module is `stash.py`. `model.py` is supplied: a piece of a model, which is told in each pass
# which parameters to use. `recursion.py` is supplied too, and trains in one process as your stages
# must train together.
#
# **Think** before you write. When is a version no longer needed? Two neighbours send each other an
# activation and a gradient in the steady state. What happens if both of them use `Send`?

# %%
# {{module stash}}

# %%
# {{check stash}}

# %% [markdown]
# **Run.** Forty minibatches without a flush, and ten trainings of four.

# %%
from cases import stash_case

free = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)


def train(num_minibatches, **fields):
    """Four stages of your module train on a model and data that are drawn."""
    fields = {"costs": (1e-3, 2e-3), **fields}
    case = stash_case(4, num_minibatches, np.random.default_rng(3), **fields)
    arguments = case.arguments_of_ranks()
    run = ringside.run("callers.py:stash_trained", 4, arguments, machine=free)
    return case, run.raise_for_error()


four, long = train(4)[1], train(40)[1]
print(f"ten flushes {1e4 * four.makespan_s:.0f} ms, no flush {1e3 * long.makespan_s:.0f} ms")
reveal("a10/flushes", 10 * four.makespan_s / long.makespan_s)
train(12)[1].timeline

# %%
from ringside.trace import Kind

passes = [str(op.detail[3]) for op in long.trace.ops[1] if op.kind == Kind.COMPUTE]
before = passes[: passes.index("F10 of piece 1")]
print("stage 1:", " ".join(phase.partition(" ")[0] for phase in before[-6:]), "F10 ...")
reveal("a10/version", sum(phase.startswith("B") for phase in before))

# %% [markdown]
# **Explain.** Which idle time is left without a flush, and how does it depend on the number of
# minibatches? A flush after every 32 minibatches instead of every four makes the gain smaller.
# Compute it. Why would one want to flush after 32, although it takes longer?
#
# Each version takes memory. Suppose that each of the four stages has 100 MB of parameters.

# %% tags=["predict"]
guess(
    "a10/versions",
    "How many MB of parameters do the four stages hold in all, if each version is let go as early "
    "as possible?",
    unit="MB",
)

# %%
WIDE = {"width": 64, "hidden": 512, "alike": True, "memory": True}
fig, axes = plt.subplots(figsize=(7, 3.5))
held = {}
for place, (name, vertical_sync) in enumerate((("stashing", False), ("vertical sync", True))):
    case, run = train(16, vertical_sync=vertical_sync, **WIDE)
    sizes = [sum(param.nbytes for param in own) for own in case.inputs()[0]]
    held[name] = [v["peak"] / size for v, size in zip(run.values, sizes, strict=True)]
    axes.bar(np.arange(4) + 0.4 * place - 0.2, held[name], 0.4, label=name)
axes.plot(np.arange(4), [4 - stage for stage in range(4)], "k_", markersize=30, label="S - s")
axes.set(xticks=range(4), xlabel="stage", ylabel="peak, in sizes of its parameters", ylim=(0, 8.5))
axes.legend(ncols=3)
plt.show()
reveal("a10/versions", sum(100 * (4 - stage) for stage in range(4)))
for name, least in (("stashing", [4, 3, 2, 1]), ("vertical sync", [4] * 4)):
    assert all(n <= most <= n + 3.5 for most, n in zip(held[name], least, strict=True))

# %% [markdown]
# **Explain.** What else does a stage hold beside its versions at the moment of the peak? With
# vertical sync the last stage keeps as many versions as the first. Why can it not let them go? The
# first stage also keeps the activations of the most minibatches. VGG-16 has large activations in
# its first layers, and nearly all of its parameters in the last ones. Which of the two suits this
# kind of pipeline, and which doesn't?
#
# Now the other price. A chain of four stages learns what a second chain with other parameters
# computes. The recursion with delays is what your stages compute, so one process is enough to see
# it. Plain gradient descent has no delay; with stashing, stage s has a delay of 3 - s; with
# vertical sync, every stage has a delay of 3.

# %% tags=["predict"]
guess(
    "a10/rates",
    "With a learning rate of 0.6, plain gradient descent trains well. Which of the two "
    "asynchronous ways does so, too?",
    choices=["both", "stashing alone", "vertical sync alone", "neither"],
)

# %%
from model import Piece, random_parameters
from recursion import delayed_descent, lags


def drawn_chain(rng):
    """Parameters of four stages with two layers each."""
    return [random_parameters([8, 8, 8], rng) for _ in range(4)]


rng = np.random.default_rng(0)
start, teacher = drawn_chain(rng), drawn_chain(rng)
inputs = [rng.standard_normal((16, 8)) for _ in range(400)]
targets = []
for minibatch, x in enumerate(inputs):
    for params in teacher:
        x, _ = Piece(0, 0.0, 0.0).forward(minibatch, params, x)
    targets.append(x)

WAYS = {"plain": [0] * 4, "stashing": lags(4), "vertical sync": lags(4, vertical_sync=True)}
fig, row = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
ends = {}
for axes, lr in zip(row, (0.1, 0.6, 1.5), strict=True):
    for name, delays in WAYS.items():
        losses = delayed_descent(start, inputs, targets, lr, delays)[1]
        axes.plot(np.convolve(losses, np.ones(10) / 10, "valid"), label=name)
        ends[name, lr] = np.mean(losses[-20:])
    axes.set(yscale="log", xlabel="minibatch", title=f"learning rate {lr}")
row[0].set_ylabel("loss, mean of 10")
row[0].legend()
plt.show()
well = [name for name in WAYS if ends[name, 0.6] < 2 * ends["plain", 0.6]]
words = {1: "neither", 3: "both"}.get(len(well), f"{well[-1]} alone")
reveal("a10/rates", words)

# %% [markdown]
# **Explain.** For a single weight with the loss h w²/2 and a delay of d updates, gradient descent
# is stable for learning rates below (2 / h) sin(π / (4 d + 2)). Compare the limits for d = 0 and
# d = 3. Why do the stages with stashing tolerate more than d = 3 allows? Vertical sync is closer
# to gradient descent in one respect: all stages use the parameters of one and the same moment. The
# authors of PipeDream found that stashing suffices. What would you give up for vertical sync, and
# what would you gain?

# %% [markdown]
# ## 5. On a cluster
#
# The same `stash.py`, unchanged, on real nodes: `measured_training` has two layers of n x n on each
# stage. In a terminal, in this folder:
#
# ```
# TRAIN="ringside launch stash.py:measured_training --site zaratan --nodes 2"
# $TRAIN -- --n 512 --n 1024 --minibatches 4
# $TRAIN -- --n 512 --n 1024 --minibatches 32
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook: the last run's, so note the first one's times.
# The run counts if it is complete and was made with the `stash.py` that you hand in.

# %%
# {{run stash_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Give the time of one minibatch with 4 and with 32 of them, and the ratio that
# (N + S - 1)(tf + tb) predicts. Where do they differ, and why? A pipeline that flushes after every
# 4 minibatches would take eight times the first time for 32 of them. What does the training without
# a flush save on this machine, and what does it cost in memory, for the number of stages of your
# run? (About 150 words.)

# %%
# {{paragraph stash_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
