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
# # Hybrid

# %%
# {{plan}}

# %%
from ringside import guess, reveal

# %load_ext ringside

# %% [markdown]
# ## 6. Extra: name the dimensions
#
# So far each scheme was a program of its own. Mesh-TensorFlow turned this round: the program names
# the dimensions of its tensors (`batch`, `wide`, `hidden`), and a *layout* says which of them are
# cut, along which axis of the ranks. What must be sent follows from that, and no line of the
# program changes:
#
# - a step multiplies parts, so each dimension may lie on its own axis;
# - where a dimension that the step **sums over** is cut, each rank has a share of the sum, and an
#   all-reduce completes it.
#
# The backward pass obeys the same two rules: a gradient is an einsum, too. In `einsum_graph.py`
# there is an MLP of two layers. Its batch has 8 samples; the layers are 4, 12 and 4 wide.

# %% tags=["predict"]
guess(
    "a12/layout-sums",
    "Four ranks, and the layout {'hidden': 'all'}. How many all-reduces do a forward and a "
    "backward pass of the MLP take together?",
)

# %%
# {{module layout}}

# %%
# {{check layout}}

# %%
from importlib import import_module, invalidate_caches, reload

from einsum_graph import MLP, MLP_SIZES

invalidate_caches()
layout = reload(import_module("layout"))
mesh = {"all": 4}
for dim in MLP_SIZES:
    sums = [each(MLP, MLP_SIZES, {dim: "all"}, mesh) for each in (layout.forward, layout.backward)]
    nbytes = layout.sent_bytes(sums[0] + sums[1], mesh, 8)
    names = [", ".join(one.tensor for one in each) or "nothing" for each in sums]
    print(f"{dim:<7} forward sums {names[0]:<8} backward {names[1]:<8} {nbytes:5.0f} bytes a rank")
hidden = {"hidden": "all"}
found = [each(MLP, MLP_SIZES, hidden, mesh) for each in (layout.forward, layout.backward)]
reveal("a12/layout-sums", len(found[0]) + len(found[1]))

# %% [markdown]
# **Explain.** Which two lines of the table are data parallelism and tensor parallelism, as Megatron
# has it? In `hidden`, why does the first layer's input get no all-reduce, though Megatron has one
# in its backward pass? What happens to the bytes of both lines if the batch is ten times as large?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# **Think.** In torch's `DTensor` each tensor has a placement for each axis of the mesh: `Shard(d)`,
# `Replicate()` or `Partial()`. Your `collective` says what a change of placement sends. Which two
# changes, one after the other, are an all-reduce?
