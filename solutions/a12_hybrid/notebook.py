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
# # Hybrid: all axes together
#
# One scheme is never enough for a large model. In this assignment you put several together.

# %%
# {{plan}}

# %%
import train3d_cases_torch as train3d

import ringside
from ringside import guess, reveal

# %% [markdown]
# ## Three axes: a training step of a GPT
#
# You have written each axis alone: operators f and g, a pipeline's schedule, and the sum of
# gradients over replicas. `train3d_torch.py` puts them together. A rank has a place on each axis:
#
# | axis | who shares it | what travels | when |
# |---|---|---|---|
# | tensor | ranks with parts of one layer | activations, summed | 4 times a layer and microbatch |
# | pipeline | stages of one replica | activations and their gradients | twice a microbatch |
# | data | ranks with the same parameters | gradients, summed | once a step |
#
# `gpt_torch.py` has the model in pieces and everything that you wrote before. So little is left to
# write. But it must be right on all axes at once, and each of these questions has to be answered:
#
# - Which ranks form a group of an axis? The tensor axis is the fastest: its ranks are neighbours.
# - A norm is whole on each tensor rank. Is its gradient the same on all of them, or a part?
# - By what is the loss divided, and how often?
# - The first and the last stage use the same table of words. Which of them has its gradient?
#
# **Think** before you write: a bias that is added after the sum over tensor ranks is on every one
# of them. What happens if it is added before? And what if its gradient is summed over the tensor
# group, like a weight's over the data group?
#
# Begin with `make_grid` and `run_layer`, which have tests of their own. `run_pipeline` comes next,
# on one replica, and `train_step` last. On two ranks of an axis you find most mistakes; the tests
# name the axis.

# %% tags=["predict"]
guess(
    "a12/train3d-axis",
    "2 x 2 x 2 ranks, one layer a stage, 8 sequences a replica: on which axis does rank 0 send "
    "most bytes?",
    choices=["tensor", "pipeline", "data"],
)

# %%
# {{module train3d_torch}}

# %%
# {{check train3d_torch}}

# %% [markdown]
# **Run.** One step on eight ranks. Each message is counted in the group that it stays in.

# %%
small = train3d.Training((1, 1), dp=2, tp=2)
step = ringside.run("train3d_callers_torch.py:try_training", 8, ((1, 1), 2, 2))
sent = train3d.sent_by_axis(step.raise_for_error(), small, 0)
for axis, nbytes in train3d.bytes_by_axis(small, 0).items():
    print(f"{axis:8} {sent[axis]:6.0f} bytes, predicted {nbytes:6.0f}")
reveal("a12/train3d-axis", max(sent, key=sent.get))
step.timeline

# %% [markdown]
# **Explain.** Name the formula behind each of the three numbers. Which of them grow with the number
# of microbatches, if a microbatch keeps its size? Which axis would you put inside a node?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ### How many tensor ranks?
#
# Sixteen GPUs of a cluster like Zaratan have four GPUs a node. A model of four wide layers runs on
# two stages of eight ranks. These may be 2, 4 or 8 tensor ranks with 4, 2 or 1 replicas. The batch
# has 8 sequences in all, so fewer replicas have more microbatches each.

# %% tags=["predict"]
guess(
    "a12/train3d-tensor-ranks",
    "Which number of tensor ranks gives the shortest step?",
    choices=["2", "4", "8"],
)

# %%
times_s = {}
for tp in (2, 4, 8):
    dp = 8 // tp
    layout = {"layers": [2, 2], "dp": dp, "tp": tp, "sizes": [1] * tp}
    traced = ringside.trace_torch(
        "train3d_callers_torch.py:large_step", 16, ({**train3d.LARGE[8], **layout},),
        grid={"pp": 2, "dp": dp, "tp": tp}, alike=("dp", "tp"),
    )  # fmt: skip
    times_s[str(tp)] = ringside.replay(traced.trace, "zaratan").makespan_s
    print(f"2 x {dp} x {tp}: {times_s[str(tp)] * 1e3:6.0f} ms")
reveal("a12/train3d-tensor-ranks", min(times_s, key=times_s.get))

# %% [markdown]
# **Explain.** More tensor ranks have both an advantage and a price here. What becomes better from 2
# to 4, and what becomes worse from 4 to 8?

# %% [markdown]
# *Your answer:*
