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
# # Asynchrony, local steps and compression
#
# In data-parallel training all ranks wait for each other in every step, and in every step they
# exchange all gradients. Each of the schemes in this assignment gives up a part of that:
#
# - a **parameter server** lets a worker go on while others are still computing. The price is that
#   gradients are computed on old weights;
# - **local SGD** and **DiLoCo** average the weights only every H steps. The price is that the
#   ranks' weights drift apart in between;
# - **PowerSGD** sends a small approximation of each gradient, and keeps what it left out for the
#   next step;
# - **gossip** (extra) averages with a few neighbours only, so that a mean takes several rounds.
#
# Whoever gives something up should know what it costs. So for each scheme you measure two things:
# the time or the bytes that it saves, and what happens to the weights.

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
from server_problem import Problem, trained

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

textbook = Machine.load("textbook")

# %% [markdown]
# ## 1. A parameter server
#
# One worker is slow. Perhaps its processor is older, or somebody else uses its node. It makes 4
# steps of about 8 ms each. Three other workers make 16 steps of about 2 ms each, so each worker
# computes for about 32 ms. Rank 0 is the server: it holds the weights and computes no gradient.
#
# Messages take microseconds here. What costs time is waiting.

# %% tags=["predict"]
guess(
    "a06/rounds",
    "All four workers wait for each other in each step, as long as all of them have "
    "steps left. How long does the training take?",
    unit="ms",
)

# %% [markdown]
# The module is `server.py`. The same program trains in three ways, and only the rule for
# answering a pull is different. `wire.py` and `server_problem.py` are supplied: the four
# messages, and a training problem whose gradients take virtual time.
#
# Think about the ends before you write. A worker may be the one that all others wait for, and
# then tell the server that it has ended. Who must be answered now?
#
# There is no torch version of this module. In PyTorch's collectives no rank answers requests as
# they come. Its RPC package can do that, but it is no longer actively developed.

# %%
# {{module server}}

# %%
# {{check server}}

# %% [markdown]
# **Run.** First synchronously: `staleness=0`. Grey is waiting.

# %%
STEPS, PACES = [4, 16, 16, 16], [8, 2, 2, 2]  # per worker: steps, and ms a step


def train(staleness, n=1000):
    """One training on simulated ranks."""
    arguments = (STEPS, PACES, staleness, n, 0)
    return ringside.run("callers.py:server_training", 5, arguments, machine=textbook)


rounds = train(0).raise_for_error()
reveal("a06/rounds", 1e3 * rounds.makespan_s)
rounds.timeline

# %% [markdown]
# **Explain.** In which part of the run do the fast workers wait, and for how long in each step?
# When does the waiting end, and why?
#
# Now without any waiting. Each worker gets the newest weights whenever it asks. But while the
# slow worker computes, the others go on pushing. So its gradient belongs to weights that are no
# longer there. The number of updates in between is the gradient's lag.

# %% tags=["predict"]
guess(
    "a06/lag",
    "What is the largest lag of a gradient when nobody waits?",
    unit="versions",
)

# %%
free = train(None).raise_for_error()
print(
    f"{1e3 * free.makespan_s:.1f} ms, where synchronous rounds took {1e3 * rounds.makespan_s:.1f}"
)
print("the slow worker computed on versions", free.values[1])
lags = trained(Problem(1000, STEPS, PACES, 0), None, textbook).lags  # the same in one process
reveal("a06/lag", max(lags))
free.timeline

# %% [markdown]
# **Explain.** Most gradients have a lag of 2 or 3. Which rule of thumb would you give for the lag
# of a worker among p - 1 equally fast ones? And for a worker that is k times slower than the
# others?
#
# Stale-synchronous training lies between the two. How much staleness is needed until nobody
# waits?

# %% tags=["predict"]
guess(
    "a06/enough",
    "From which staleness on does the training take as long as the asynchronous one (to 1 %)?",
    unit="steps",
)

# %%
allowed = list(range(15))
times_ms = [1e3 * train(staleness).raise_for_error().makespan_s for staleness in allowed]
problem = Problem(1000, STEPS, PACES, 0)
largest = [max(trained(problem, staleness, textbook).lags) for staleness in allowed]
enough = next(s for s, ms in enumerate(times_ms) if ms < 1.01e3 * free.makespan_s)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5))
left.plot(allowed, times_ms, "o-", color="tab:blue", label="stale-synchronous")
left.axhline(1e3 * free.makespan_s, color="grey", linestyle=":", label="asynchronous")
left.set(xlabel="staleness, steps", ylabel="time of the training, ms", ylim=(0, None))
left.legend()
right.plot(allowed, largest, "o-", color="tab:orange", label="largest lag")
right.plot(
    allowed[1:], [3 * (2 * s + 1) for s in allowed[1:]], ":", color="grey", label="(2s + 1)(p - 2)"
)
right.set(xlabel="staleness, steps", ylabel="lag, versions", ylim=(0, 40))
right.legend()
fig.suptitle("One slow worker and three fast ones")
plt.show()
reveal("a06/enough", enough)
assert times_ms[0] > times_ms[2] > times_ms[8] > 0.99 * times_ms[-1]

# %% [markdown]
# **Explain.** Derive the bound (2s + 1)(p - 2) on the lag: between a pull and its push, how many
# gradients can each of the other workers push at most? Why do the runs stay so far below it?
#
# So asynchronous training is the fastest. What does it do to the weights? Take one weight with
# the loss w²/2, whose gradient is w. The cell makes as many updates as your server made, each
# with the gradient of the weight as it was so many versions before as the run's lag says.

# %% tags=["predict"]
guess(
    "a06/large-rate",
    "The learning rate is 0.8. Synchronous rounds bring w from 1 to 7e-12. What do the "
    "asynchronous updates do?",
    choices=["come as near to 0", "come nearer to 0 more slowly", "move away from 0"],
)

# %%


def weights_after(lags, rate):
    """``w`` after each update, with gradients that are late by the lags."""
    w = [1.0]
    for lag in lags:
        w.append(w[-1] - rate * w[max(0, len(w) - 1 - lag)])
    return np.abs(w)


runs = {
    "synchronous": ([0] * 16, times_ms[0]),
    "stale-synchronous, s = 2": (trained(problem, 2, textbook).lags, times_ms[2]),
    "asynchronous": (lags, 1e3 * free.makespan_s),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.5), sharey=True)
for axis, rate in zip(axes, (0.1, 0.3, 0.8), strict=True):
    for name, (own, ends_ms) in runs.items():
        axis.plot(np.linspace(0, ends_ms, len(own) + 1), weights_after(own, rate), label=name)
    axis.set(yscale="log", ylim=(1e-6, 1e3), xlabel="time, ms", title=f"learning rate {rate}")
axes[0].set_ylabel("|w|")
axes[0].legend(fontsize="small")
plt.show()
late = weights_after(lags, 0.8)[-1]
words = ("come as near to 0", "come nearer to 0 more slowly", "move away from 0")
reveal("a06/large-rate", words[2] if late > 1 else words[1] if late > 1e-9 else words[0])

# %% [markdown]
# **Explain.** At rate 0.1 the asynchronous run is ahead at every time, and at 0.8 it is useless.
# Which two things does an update gain or lose when it doesn't wait? What would you do with the
# learning rate when you switch a training from synchronous to asynchronous, and what would that
# do to your gain?

# %% [markdown]
# ## 2. On a cluster
#
# The same `server.py`, unchanged, on real nodes. In `measured_training` a gradient is a product
# of n x n matrices, and rank 1 makes four of them in each step. In a terminal, in this folder,
# once for each way to wait:
#
# ```
# TRAIN="ringside launch server.py:measured_training --site zaratan --nodes 2"
# $TRAIN -- --n 256 --n 512 --staleness 0
# $TRAIN -- --n 256 --n 512 --staleness 2
# $TRAIN -- --n 256 --n 512 --staleness None
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook: the last run's, so note the times of the
# first two. The run counts if it is complete and was made with the `server.py` that you hand in.

# %%
# {{run server_cluster points=5}}

# %% [markdown]
# **Your paragraph.** All workers make the same number of steps here, and one takes four times as
# long for each. Predict the times of the three runs from the time of one product of matrices, and
# compare them with what you measured. Does asynchronous training end earlier in this setting?
# When do the fast workers end, and what could they do with the rest of the time? (About 150
# words.)

# %%
# {{paragraph asynchrony_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
