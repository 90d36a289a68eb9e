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
# # Sharding
#
# In data-parallel training every rank has a copy of everything: parameters, gradients, and what
# the optimizer remembers. With Adam in mixed precision that is 16 bytes for each parameter, on
# each rank: 120 GB for 7.5 billion parameters, more than a GPU of 80 GB has. Yet the ranks need
# only one copy between them.
#
# *Sharding* cuts these copies into parts, *shards*, and gives each rank one. What a rank doesn't
# have, it asks for when it needs it. ZeRO ("zero redundancy optimizer") does so in three stages:
#
# | stage | in shards | bytes for a parameter, N ranks | sent a step, in elements |
# |---|---|---|---|
# | 0 | nothing | 16 | 2 Psi |
# | 1 | the optimizer's state | 4 + 12/N | 2 Psi |
# | 2 | and gradients | 2 + 14/N | 2 Psi |
# | 3 | and parameters | 16/N | 3 Psi |
#
# Psi is the number of parameters. Stage 3 is also called FSDP, "fully sharded data parallel".

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points. All that it asks stands in the module's
# docstring, and the public tests in `test_public.py` ask for the same kinds of things. Rules that
# hold in every module: inputs stay as they were, results are new arrays, nothing is kept from one
# call to the next, the given communicator is used, and everything that is started is completed.
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
# ## 1. Equal parts
#
# A network has parameters of many shapes. If each rank took whole parameters, one would have
# 411 of VGG-16's 553 MB, since one layer has so many. So all parameters are written into one
# *flat* vector, row by row, and that is cut into N equal shards. The end is filled up with zeros,
# the *padding*.
#
# **Think** before you write: a GPT uses one matrix twice, as its first layer and its last one. If
# it stands twice in the flat vector, who updates it?

# %% tags=["predict"]
guess(
    "a07/padding",
    "A million and one parameters are cut for 64 ranks. How many elements of padding are there?",
    unit="elements",
)

# %%
# {{module partition}}

# %%
# {{check partition}}

# %% [markdown]
# **Run.** The shards of a small GPT whose first and last matrix are one.

# %%
from importlib import import_module, invalidate_caches, reload

invalidate_caches()
partition = reload(import_module("partition"))  # as its file is now

words = np.ones((50, 8))
params = [words, *(np.ones(s) for s in ((8, 24), (24,), (8, 32), (32, 8), (8,))), words]
starts, shard_size = partition.layout(params, 4)
print(f"starts {starts}, shards of {shard_size} elements")
for rank in range(4):
    print(f"rank {rank}:", partition.pieces(starts, [p.shape for p in params], shard_size, rank))
million = partition.layout([np.broadcast_to(0.0, 1_000_001)], 64)[1]
reveal("a07/padding", 64 * million - 1_000_001)

# %% [markdown]
# **Explain.** Which parameters have two owners? What would change in `zero1` if every rank had
# whole parameters instead: in memory, and in the longest time of an update?

# %% [markdown]
# ## 2. ZeRO 1: the optimizer's state
#
# Adam remembers two numbers for each parameter. Adam updates each element by itself, so the owner
# of a shard can update it with nothing else at hand but the shard's mean gradient. That is what a
# *reduce-scatter* gives it. Then all ranks need the new parameters: an *all-gather*.

# %% tags=["predict"]
guess(
    "a07/faster",
    "On 8 ranks Adam's update of all parameters takes as long as the all-reduce before it. How "
    "many times as fast as these two is a step of ZeRO 1?",
    unit="times",
)

# %%
# {{module zero1}}

# %%
# {{check zero1}}

# %% [markdown]
# **Run.** One step of 64 000 parameters on 8 ranks, and its timeline.

# %%
from adam import FLOPS
from examples import Training, state_nbytes

from ringside.checking.ring_bytes import sent_as_ring

N, PSI = 8, 64_000
machine = Machine.load("textbook,alpha_s=1e-7")
all_reduce_bytes = 2 * (N - 1) / N * PSI * 8
all_reduce_s = 2 * (N - 1) * machine.alpha_s + all_reduce_bytes * machine.beta_s_per_byte
machine = machine.with_(flop_per_s=FLOPS * PSI / all_reduce_s)  # the update takes as long
training = Training(N, PSI, "float64", seed=0, clip=1.0)
run = ringside.run(
    "callers.py:zero1_steps", N, [training.arguments(rank) for rank in range(N)], machine=machine
)
print(f"a rank's state: {state_nbytes(run.values[0][1])} of {2 * PSI * 8} bytes")
print(f"sent by a rank: {sent_as_ring(run)[0]:.0f} bytes, by an all-reduce {all_reduce_bytes:.0f}")
run.timeline

# %%
reveal("a07/faster", 2 * all_reduce_s / run.makespan_s)

# %% [markdown]
# **Explain.** Why are the bytes the same, although twice as many collectives are called? What does
# the short collective in the middle of the timeline carry? Without it each rank would clip by the
# norm of its own shard: would its part of the gradient come out too long or too short?
#
# A mistake that is hard to see: somebody forgets to divide by N, and updates with the sum of the
# gradients. Nothing is clipped.

# %% tags=["predict"]
guess(
    "a07/sum",
    "What does it do to Adam's steps, without weight decay?",
    choices=["N times as long", "next to nothing", "shorter by the root of N"],
)

# %%
from adam import adam

ends = []
for factor in (1, N):
    w, m, v = np.zeros((3, 5))
    for t in range(1, 6):
        g = factor * np.random.default_rng(t).standard_normal(5)
        w, m, v = adam(w, g, m, v, t, lr=0.1)
    ends.append(w)
    print(f"gradient times {factor}: {w}")
difference = np.abs(ends[0] - ends[1]).max()
reveal("a07/sum", "next to nothing" if difference < 1e-6 else "N times as long")

# %% [markdown]
# **Explain.** Where does the factor vanish? Which argument of your `step` would show the mistake,
# and which of plain SGD's?

# %%
# The bytes that a rank keeps for each parameter, in mixed precision.
counts = np.array([1, 2, 4, 8, 16, 64, 256, 1024])
stages = {"0": 16 + 0 / counts, "1": 4 + 12 / counts, "2": 2 + 14 / counts, "3": 16 / counts}
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for (stage, per_parameter), marker in zip(stages.items(), "os^d", strict=True):
    axes.plot(counts, 7.5 * per_parameter, marker=marker, label=f"stage {stage}")
axes.axhline(80, color="grey", linestyle=":", label="a GPU of 80 GB")
axes.set(xscale="log", yscale="log", xlabel="ranks N", ylabel="GB on each rank")
axes.set_title("7.5 billion parameters with Adam")
axes.legend()
plt.show()
at_64 = {stage: 7.5 * values[counts == 64][0] for stage, values in stages.items()}
print({stage: round(float(gigabytes), 2) for stage, gigabytes in at_64.items()})
assert abs(at_64["1"] - 31.4) < 0.05 and abs(at_64["3"] - 1.9) < 0.05

# %% [markdown]
# ## 5. ZeRO 2: gradients, too (extra)
#
# A backward pass makes one layer's gradient after the other. Each can be added up on its owners at
# once, and then be forgotten. So a rank never has the whole gradient.

# %% tags=["predict"]
guess(
    "a07/owners",
    "Eight equal layers, 4 ranks. Of how many layers' gradients is a rank the owner?",
    unit="layers",
)

# %%
# {{module zero2}}

# %%
# {{check zero2}}

# %%
from examples import Pass

asked = Pass(4, 3, (60,) * 9, "float64", seed=0)
run = ringside.run(
    "callers.py:zero2_memory", 4, [asked.arguments(rank) for rank in range(4)], machine=machine
)
whole = 8 * sum(asked.sizes)
print(f"held at most: {run.values[0][2]} bytes; the whole gradient has {whole}")
reveal("a07/owners", asked.shard_size / asked.sizes[0])
run.timeline

# %% [markdown]
# **Explain.** A rank that owns nothing of a layer sends its part and waits for nothing more. What
# does it wait for in your program, and how would you let the next layer's pass go on meanwhile?

# %% [markdown]
# ## 8. On a cluster
#
# The same `zero1.py`, unchanged, on real nodes: `measured_step` is one step with n parameters. In a
# terminal, in this folder, on one rank and on several:
#
# ```
# ringside launch zero1.py:measured_step --site zaratan --nodes 2 -- --n 100000 --n 10000000
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `zero1.py` that you hand in.

# %%
# {{run zero1_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Compare the measured time of a step for both sizes with the model: a
# reduce-scatter, an all-gather, and the update of a shard. Take alpha and beta from your runs of
# `a01_first_ranks`, or from two sizes here. Which part of the step shrinks with more ranks, and
# which doesn't? For your largest size, how many bytes of state has a rank, and how many would it
# have without sharding? (About 150 words.)

# %%
# {{paragraph zero1_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
