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
# # Space and sequence: cut an image, cut a text

# %%
# {{plan}}

# %% [markdown]
# ## Attention round a ring
#
# A text of 131,072 tokens goes through a layer of attention with d = 4096, in 16 bits. Its keys
# and values take 2 x 131,072 x 4096 x 2 bytes = 2.1 GB, and so do its queries and its results
# together. The scores of one head alone are 131,072 squared: 34 GB. You cut the text: each of 8
# ranks has 16,384 tokens with their queries, keys and values.
#
# Each query still needs all keys. In a ring the queries stay, and blocks of keys and values move
# from rank to rank. No rank ever holds all of them.

# %%
import matplotlib.pyplot as plt
import numpy as np
from cases import ring_attention_case
from cases_torch import conv_torch_case, ulysses_torch_case

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

# %% tags=["predict"]
guess(
    "a11/ring-bytes",
    "How many GB does each of the 8 ranks send in the forward pass of this layer? Count keys and "
    "values in 16 bits; there are as many key heads as query heads.",
    unit="GB",
)

# %% [markdown]
# The module is `ring_attention.py`. `ring_blocks.py` is supplied: it computes the scores of one
# block, and virtual time passes for it.
#
# **Think** before you write. You have seen one block, with a maximum m, a sum l and an output o.
# The next block contains a score that is larger than m by 3. By which number do you multiply l
# and o? And what if the next block's scores are all below m?

# %%
# {{module ring_attention}}

# %%
# {{check ring_attention}}

# %% [markdown]
# The run below has the same 8 ranks and a small text. What a rank sends is proportional to N d,
# so the cell scales it up.

# %%


def attended(n, machine="textbook", **options):
    """Your attention on 8 ranks with n positions each."""
    case = ring_attention_case([n] * 8, np.random.default_rng(0), heads=1, **options)
    given = case.arguments_of_ranks()
    return ringside.run("ring_attention.py:attention", 8, given, machine=machine).raise_for_error()


run = attended(4, width=8)
share = max(run.sent_bytes()) / (8 * 4 * 8 * 8)  # of N d elements in 64 bits
reveal("a11/ring-bytes", share * 131_072 * 4096 * 2 / 1e9)
print(f"a rank sends {share:.2f} N d elements")

# %% [markdown]
# The next block travels while the present one is computed. On the machine below a block of 8
# positions takes 40 microseconds, and a message takes 60.

# %% tags=["predict"]
guess(
    "a11/ring-overlap",
    "How long does attention take on 8 ranks, from the first block to the last?",
    unit="µs",
)

# %%
WIRE = Machine("wire", alpha_s=10e-6, beta_s_per_byte=50e-6 / 1024, flop_per_s=2048 / 40e-6)
slow_wire = attended(8, WIRE, width=8)
reveal("a11/ring-overlap", 1e6 * slow_wire.makespan_s)
slow_wire.timeline

# %% [markdown]
# **Explain.** Let each rank have n positions, F be the operations that a GPU makes in a second,
# and b the bytes that a link moves in a second. A block takes 4 n n d / F seconds, and its keys
# and values take 2 n d w / b seconds with w bytes an element. From which n on is the message
# hidden? Why does neither d nor the number of heads appear in the answer? Put in 140 TFLOP/s,
# 25 GB/s and w = 2.

# %%
sizes = [2, 4, 8, 12, 16, 24, 32]
times_us = [1e6 * attended(n, WIRE, width=8).makespan_s for n in sizes]
blocks_us = [8 * 40 * (n / 8) ** 2 for n in sizes]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
axes.plot(sizes, times_us, "o-", label="your runs")
axes.plot(sizes, blocks_us, color="grey", label="the blocks alone")
axes.set(xscale="log", yscale="log", xlabel="positions a rank", ylabel="µs")
axes.set_xticks(sizes, sizes)
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** With a causal mask, rank 0 computes one block and rank 7 computes eight. Does a mask
# make your program faster on 8 ranks? By how much could it be faster if the work were dealt out
# evenly?

# %% [markdown]
# ## A convolution cut in space, in torch
#
# A layer with 64 channels in and out works on one image of 1024 x 1024. The batch is 1, so there
# is nothing to cut in the batch. You cut the image: each of 8 ranks has 128 rows. A kernel of
# 3 x 3 needs one row of each neighbour.
#
# Two kinds of messages are left. Halo rows go to the neighbours, in the forward and in the
# backward pass. The gradient of the weight is a sum over all rows, so the ranks sum it up.

# %% tags=["predict"]
guess(
    "a11/conv-halo",
    "How many times more bytes does an inner rank send as halo rows, in both passes together, than "
    "for the ring all-reduce of the weight's gradient (no bias)?",
    unit="times",
)

# %% [markdown]
# The module is `conv_torch.py`, a function of autograd's: you write its backward pass yourself.
#
# **Think** before you write. Which rows of the gradient of y depend on the last row of your x? On
# which rank are they? And which edges of which tensor do you exchange in the backward pass?

# %%
# {{module conv_torch}}

# %%
# {{check conv_torch}}

# %%


def convolved(**options):
    """Your convolution on 8 ranks, forward and backward; bytes of halos and of the sum."""
    case = conv_torch_case([4] * 8, np.random.default_rng(0), bias=False, **options)
    given = case.arguments_of_ranks()
    run = ringside.run("callers_torch.py:conv_torch_called", 8, given).raise_for_error()
    return run.sent_bytes()[1], sum(2 * each.nbytes * 7 / 8 for each in run.collectives)


halo, summed = convolved(channels=(4, 4), width=16)
# Halo rows grow with channels and width, the weight with the channels squared.
halo, summed = halo * (64 / 4) * (1024 / 16), summed * (64 / 4) ** 2
print(f"in 64 bits: halos {halo / 1e6:.2f} MB, the sum {summed / 1e6:.2f} MB")
reveal("a11/conv-halo", halo / summed)

# %% [markdown]
# **Explain.** Which of the two grows with the image, and which with the batch? A deep layer has
# 512 channels and an image of 32 x 32. What is the ratio there? Would you cut that layer in space?

# %% [markdown]
# ## Ulysses: from positions to heads
#
# A ring moves keys and values past the queries. There is another way: move everything so that
# each rank has whole heads, with all positions. One all-to-all takes queries, keys and values
# there, and one takes the result back.

# %% tags=["predict"]
guess(
    "a11/ulysses-bytes",
    "8 ranks, as many key heads as query heads. How many times fewer bytes does a rank send in the "
    "forward pass than in a ring?",
    unit="times",
)

# %% [markdown]
# The module is `ulysses_torch.py`. `attend` is given to you as an argument, and knows nothing of
# ranks.
#
# **Think** before you write. An all-to-all takes a part of one dimension to each rank, and joins
# what comes along another one. What is the gradient of such an exchange?

# %%
# {{module ulysses_torch}}

# %%
# {{check ulysses_torch}}

# %%


def dealt_out(p):
    """Elements that a rank sends in your forward pass, over N d."""
    case = ulysses_torch_case(p, 4, np.random.default_rng(0), heads=16, backward=False)
    given = case.arguments_of_ranks()
    run = ringside.run("callers_torch.py:ulysses_torch_called", p, given).raise_for_error()
    sent = sum(each.nbytes * (p - 1) / p / p for each in run.collectives)  # of one rank
    return (sent + max(run.sent_bytes())) / 8 / (4 * p * 16 * 3)


worlds = [2, 4, 8, 16]
ulysses = [dealt_out(p) for p in worlds]
ring = [2 * (p - 1) / p for p in worlds]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
axes.plot(worlds, ring, "o-", label="ring")
axes.plot(worlds, ulysses, "o-", label="Ulysses, your runs")
axes.set(xlabel="ranks", ylabel="elements a rank sends, over N d", ylim=(0, None))
axes.legend()
plt.show()
reveal("a11/ulysses-bytes", ring[2] / ulysses[2])

# %% [markdown]
# **Explain.** Ulysses sends less on more than two ranks, and a causal mask costs it nothing. Name
# two situations in which you would still take the ring. Think of key heads, and of what can be
# done while messages travel.
