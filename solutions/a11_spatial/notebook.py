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
# # Space and sequence: images and sequences in parts
#
# Data parallelism gives each rank some of the batch's samples. It ends where the batch ends: with a
# batch of one, only one rank has something to do. And it doesn't help if a single sample is too
# large. A scan of tissue of 8192 x 8192 pixels has 17 GB of activations after one layer of 64
# channels, in float32.
#
# In this assignment you cut the sample itself:
#
# - an **image** into parts of whole rows. A convolution looks across the cut, so each rank borrows
#   its neighbours' edge rows: the *halo*;
# - a **sequence** into parts of some tokens each. Attention looks at all tokens, so keys and values
#   travel from rank to rank.
#
# Both change what is sent, and neither changes the result. A rank that has its part gets its part
# of what one rank with everything would compute.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety and speed in virtual time. All that the hidden suite asks
# stands in the module's docstring and in `docs/contract.md`. The tests lie in `checks/`, where you
# can read them; the hidden suite asks the same of other cases. In `given/` is what your modules
# may import.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

textbook = Machine.load("textbook")

# %% [markdown]
# ## 1. Rows of the neighbours
#
# A 3 x 3 window reaches one row beyond its centre. If the centre is in the last row of a rank's
# part, the window sees a row that the next rank has. One could send whole parts. But one row of
# each neighbour is enough.
#
# An image of 1024 x 1024 with a few channels is cut into parts for 8 ranks, 128 rows each.

# %% tags=["predict"]
guess(
    "a11/halo-share",
    "What does a rank between two others send for a 3 x 3 window, in percent of its own part?",
    unit="%",
)

# %% [markdown]
# The module is `halo.py`. Two things need thought before you write.
#
# **Think.** All ranks send at the same time. What happens if every rank sends up first, and no
# send returns before it is received? And a rank whose part is lower than the halo can't give its
# neighbour what it needs. It notices, but its neighbour doesn't, and would wait for ever. What
# could the rank send instead, so that the neighbour notices too?

# %%
# {{module halo}}

# %%
# {{check halo}}

# %%
p, side, channels = 8, 1024, 2
image = np.zeros((1, channels, side, side), "float32")
parts = [(each, 1) for each in np.array_split(image, p, axis=2)]
run = ringside.run("halo.py:exchange", p, parts, machine=textbook).raise_for_error()
sent = run.sent_bytes()
print("KiB sent by each rank:", [nbytes // 1024 for nbytes in sent])
print("messages:", run.sent_messages())
reveal("a11/halo-share", 100 * max(sent) / parts[1][0].nbytes)
run.timeline

# %% [markdown]
# **Explain.** The bytes of a halo don't depend on the number of ranks. Why does the share of the
# part that is sent grow with it all the same? At how many ranks would each rank of this image send
# as much as it has?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# With parts of whole rows, a halo is as wide as the image. Cut in both directions, the image has
# parts with shorter edges, but more of them.

# %% tags=["predict"]
guess(
    "a11/grid",
    "16 ranks: how many times the bytes of a rank inside a 4 x 4 grid does a rank inside 16 "
    "strips send?",
    unit="times",
)

# %%
from checks.cases import Exchange, ExchangeGrid

sizes, side = [2, 4, 6, 8, 12], 240  # ranks along one side of the grid
strips, grids = [], []
for n in sizes:
    strip = Exchange(3, (side,), 1, (1, 1, side))  # height doesn't matter
    some, part = min(n, 3), (side // n,)
    grid = ExchangeGrid(some**2, part * some, 1, (1, 1), part)
    strips.append(max(sum(own.values()) for own in strip.neighbours()))
    grids.append(max(sum(own.values()) for own in grid.neighbours()))
fig, axes = plt.subplots(figsize=(6.5, 3.5))
counts = np.array(sizes) ** 2
axes.plot(counts, np.array(strips) / 1000, "o-", label="strips of whole rows")
axes.plot(counts, np.array(grids) / 1000, "s-", label="a square grid")
axes.set(xscale="log", xlabel="ranks", ylabel="kB sent by the busiest rank", ylim=(0, None))
axes.set_title("A halo of 1 for an image of 240 x 240, float64")
axes.legend()
plt.show()
reveal("a11/grid", strips[1] / grids[1])

# %% [markdown]
# **Explain.** Where does the little come from by which the answer misses a round number? On which
# machines are strips faster, although they send more?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. A convolution cut in space
#
# What if one leaves the halo out? Each rank pads its own part with zeros, as if its part were the
# whole image. Nothing is sent, and the program runs. Let us look at what comes out after three
# layers of 3 x 3 filters, on four ranks.

# %% tags=["predict"]
guess(
    "a11/seam",
    "How many rows on each side of a cut are wrong after three layers?",
    unit="rows",
)

# %%
from given.layers import random_conv

rng = np.random.default_rng(5)
convs = [random_conv(c, o, 3, rng) for c, o in ((1, 4), (4, 4), (4, 1))]
waves = np.sin(np.arange(48) / 5)
image = (waves[:, None] + waves[None, :] + 2)[None, None]


def three_layers(x):
    """Three layers, each with a row of zeros above and below."""
    for conv in convs:
        x = conv.forward(np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)]), 0)
    return x


whole = three_layers(image)
cut = np.concatenate([three_layers(part) for part in np.array_split(image, 4, axis=2)], axis=2)
wrong = np.abs(whole - cut)[0, 0]
fig, panels = plt.subplots(1, 3, figsize=(9, 3.2), constrained_layout=True)
names = ("one rank", "four ranks, no halo", "difference")
for axes, array, name in zip(panels, (whole[0, 0], cut[0, 0], wrong), names, strict=True):
    axes.imshow(array, cmap="gray")
    axes.set(title=name, xticks=[], yticks=[0, 12, 24, 36])
plt.show()

# %%
rows = np.flatnonzero(wrong.max(axis=1) > 1e-12)
print("rows that are wrong:", rows)
reveal("a11/seam", np.sum((rows >= 12) & (rows < 18)))

# %% [markdown]
# **Explain.** Why does the wrong band grow with each layer? So how many rows would a halo need that
# is exchanged once, before the first layer? What would it cost in computing?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Now the right way. Rows that need no halo can be computed while it is under way. `Conv` of
# `given/layers.py` computes some rows of a convolution, forward and backward. Its name for a pass
# holds the numbers of its output rows, which is how the tests know what you compute first.
#
# A rank has 10 rows, each of which takes 0.1 ms. The halo of one row takes 0.6 ms to arrive.

# %% tags=["predict"]
guess(
    "a11/hidden",
    "How long does the forward pass take, on a rank between two others?",
    unit="ms",
)

# %% [markdown]
# The module is `conv.py`. Begin with stride 1. Draw a rank's rows, its halo and its output rows,
# and number them as in the whole image: nearly all mistakes here are off by one. With stride 2 the
# same numbers say which windows are yours.
#
# Then the backward pass. Look at the forward pass as a graph: an edge row of x goes to this rank's
# outputs and to the neighbour's. So its gradient has two parts, and one of them is on another rank.

# %%
# {{module conv}}

# %%
# {{check conv}}

# %%
from checks.cases import Both, Forward

case = Forward(4, (10,), shape=(1, 2, 2, 6))
slow = textbook.with_(flop_per_s=1e12 * case.rows_s(1) / 1e-4, alpha_s=6e-4)
given = [case.inputs(rank) for rank in range(4)]
run = ringside.run("checks/inside.py:forward_pass", 4, given, machine=slow).raise_for_error()
reveal("a11/hidden", 1e3 * run.makespan_s)
run.timeline

# %% [markdown]
# **Explain.** What is the longest time that a halo may take here without costing anything? How does
# that time change if the image is cut for twice as many ranks?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Both passes, with a shorter latency. The filters' gradient is a sum over ranks, as in data
# parallelism, and its all-reduce is hidden, too.

# %%
faster = slow.with_(alpha_s=1e-4)
case = Both(4, (10,), shape=(1, 2, 2, 6))
given = [case.inputs(rank) for rank in range(4)]
run = ringside.run("checks/inside.py:both_passes", 4, given, machine=faster).raise_for_error()
print(f"{1e3 * run.makespan_s:.2f} ms; computing alone takes 3.0 ms")
assert run.makespan_s < 3.3e-3
run.timeline

# %% [markdown]
# **Explain.** Find in the timeline the rows at the edges in both passes. In the forward pass they
# come last and in the backward pass first. Why?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. A convolution cut in space, in torch
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
from checks.cases_torch import Conv2d


def convolved(**options):
    """Your convolution on 8 ranks, forward and backward; bytes of halos and of the sum."""
    case = Conv2d(8, bias=False, **options)
    given = [case.inputs(rank) for rank in range(8)]
    run = ringside.run("checks/inside_torch.py:convolved", 8, given).raise_for_error()
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
# *Your answer:*

# %% [markdown]
# ## 4. Which way is the shortest
#
# A convolution can be cut in three ways: by samples (data), by filters, and by rows (domain).
# `cost.py` says what each sends, and how long that takes. `given/traffic.py` sends all the messages
# of a training step, so you can compare your formulas with what the network counts.
#
# Take a network of three layers with 3 x 3 filters and 64 x 64 images. Between layers pooling
# halves the images, and the channels double. The batch is 32, and there are 8 ranks.

# %% tags=["predict"]
guess(
    "a11/fewest",
    "Which of the three ways sends the fewest bytes in a training step?",
    choices=["data", "filter", "domain"],
)

# %%
# {{module cost}}

# %%
# {{check cost}}

# %%
from importlib import import_module, invalidate_caches, reload

from given.conv_sizes import halving

invalidate_caches()
cost = reload(import_module("cost"))
layers = halving(64, (3, 32, 64, 128))
ways = ("data", "filter", "domain")
sent = {way: getattr(cost, f"{way}_bytes")(layers, 32, 8) for way in ways}
for way, nbytes in sent.items():
    print(f"{way:<7} {nbytes / 1e6:8.1f} MB")
reveal("a11/fewest", min(sent, key=sent.get))

# %% [markdown]
# **Explain.** Two of the three send the gradients of the filters. Which, and why doesn't the third?
# Why can domain parallelism never send less than data parallelism, and what is it good for then?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Now a batch of one, and images that grow. Data parallelism is out. Messages are hidden nowhere in
# this model.

# %% tags=["predict"]
guess(
    "a11/resolution",
    "8 ranks, one image: from which resolution on is a step with domain parallelism shorter than "
    "with filter parallelism?",
    unit="pixels a side",
)

# %%
sides = 2 ** np.arange(4, 13)
curves = {"filter": cost.filter_s, "domain": cost.domain_s}
times = {
    way: np.array([time(halving(int(n), (3, 32, 64, 128)), 1, 8, textbook) for n in sides])
    for way, time in curves.items()
}
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for (way, seconds), marker in zip(times.items(), "os", strict=True):
    axes.plot(sides, 1e3 * seconds, marker=marker, label=way)
axes.set(xscale="log", yscale="log", xlabel="pixels a side", ylabel="messages of a step, ms")
axes.set_title("One image on 8 ranks")
axes.legend()
plt.show()
winners = [cost.best(halving(int(n), (3, 32, 64, 128)), 1, 8, textbook) for n in sides[1:]]
reveal("a11/resolution", sides[1:][winners.index("domain")])

# %% [markdown]
# **Explain.** The line of filter parallelism has slope 2 in this figure, and that of domain
# parallelism bends from slope 0 to slope 1. Which term rules each? With 16 pixels a side the
# deepest images have 4 rows. Why does `best` not even consider domain parallelism there?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 5. Attention round a ring
#
# A text of 131,072 tokens goes through a layer of attention with d = 4096, in 16 bits. Its keys
# and values take 2 x 131,072 x 4096 x 2 bytes = 2.1 GB, and so do its queries and its results
# together. The scores of one head alone are 131,072 squared: 34 GB. You cut the text: each of 8
# ranks has 16,384 tokens with their queries, keys and values.
#
# Each query still needs all keys. In a ring the queries stay, and blocks of keys and values move
# from rank to rank. No rank ever holds all of them.

# %% tags=["predict"]
guess(
    "a11/ring-bytes",
    "How many GB does each of the 8 ranks send in the forward pass of this layer? Count keys and "
    "values in 16 bits; there are as many key heads as query heads.",
    unit="GB",
)

# %% [markdown]
# The module is `ring_attention.py`. `given/ring_blocks.py` computes the scores of one block, and
# virtual time passes for it.
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
from checks.cases_ring import Attention


def attended(n, machine="textbook", **options):
    """Your attention on 8 ranks with n positions each."""
    case = Attention(8, (n,), heads=1, **options)
    given = [case.inputs(rank) for rank in range(8)]
    return ringside.run("ring_attention.py:attention", 8, given, machine=machine).raise_for_error()


run = attended(4, width=8)
share = max(run.sent_bytes()) / (8 * 4 * 8 * 8)  # of N d elements in 64 bits
reveal("a11/ring-bytes", share * 131_072 * 4096 * 2 / 1e9)
print(f"a rank sends {share:.2f} N d elements")

# %% [markdown] tags=["open"]
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

# %% [markdown]
# *Your answer:*

# %%
sizes = [2, 4, 8, 12, 16, 24, 32]
times_us = [1e6 * attended(n, WIRE, width=8).makespan_s for n in sizes]
blocks_us = [8 * 40 * (n / 8) ** 2 for n in sizes]
fig, axes = plt.subplots(figsize=(6.5, 3.5))
axes.plot(sizes, times_us, "o-", label="your runs")
axes.plot(sizes, blocks_us, color="grey", label="the blocks alone")
axes.set(xscale="log", yscale="log", xlabel="positions a rank", ylabel="time, µs")
axes.set_xticks(sizes, sizes)
axes.legend()
axes.minorticks_off()
plt.show()

# %% [markdown]
# **Explain.** With a causal mask, rank 0 computes one block and rank 7 computes eight. Does a mask
# make your program faster on 8 ranks? By how much could it be faster if the work were dealt out
# evenly?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 6. Ring attention with its gradients
#
# FlashAttention computes the scores of attention block by block and keeps none. But the keys, the
# values and all other activations of 100,000 positions remain, in each layer. *Context
# parallelism* cuts the sequence itself: each of P ranks has N / P positions. All layers but
# attention work on each position alone, so nothing changes for them. In attention, keys and values
# go round a ring, and gradients have to come home.
#
# This time the block is one of FlashAttention's kind: it returns its finished output and a
# logarithm. For one query let a block of keys have the scores $s_1, \dots, s_m$ and the values
# $v_1, \dots, v_m$. Computed as if there were no other keys, the output is
# $o = \sum_j e^{s_j - \ell} v_j$ with $\ell = \log \sum_j e^{s_j}$. Two blocks together have
# $\ell = \log(e^{\ell_1} + e^{\ell_2})$, and the output
# $o = e^{\ell_1 - \ell}\, o_1 + e^{\ell_2 - \ell}\, o_2$.
# The order of the blocks doesn't matter, so each rank may begin with another one.

# %%
scores = np.array([2.0, 1.0, 3.0, 0.0])
values = np.array([10.0, 20.0, 30.0, 40.0])


def block_of(which):
    weights = np.exp(scores[which])
    return weights @ values[which] / weights.sum(), np.log(weights.sum())


(o1, l1), (o2, l2) = block_of(slice(0, 2)), block_of(slice(2, 4))
together = np.log(np.exp(l1) + np.exp(l2))
joined = np.exp(l1 - together) * o1 + np.exp(l2 - together) * o2
print(f"blocks {o1:.3f} and {o2:.3f}; joined {joined:.3f}; all at once {block_of(slice(4))[0]:.3f}")
assert np.isclose(joined, block_of(slice(4))[0])

# %% [markdown]
# **Think** before you write: the scores of a trained network may be as large as 1000. What does
# `np.exp` make of them, and why does `logaddexp` not?
#
# In the backward pass the scores are computed again, from the keys, which therefore go round once
# more. The gradient of a rank's keys has a summand from every rank. The sum travels behind the
# keys: each rank adds its summand and passes it on.
# The blocks are supplied in `given/attention_torch.py`, and the messages of a step in
# `given/ring_messages_torch.py`. You write the ring, the joining and the sums of gradients.

# %% tags=["predict"]
guess(
    "a11/ring-backward",
    "On 4 ranks, how many times the forward pass's bytes does a rank send in the backward pass?",
    unit="times",
)

# %%
# {{module ring_attention_torch}}

# %%
# {{check ring_attention_torch}}

# %% [markdown]
# **Run.** Four ranks with 16 positions each, first the forward pass alone, then both.

# %%
from checks.cases_ring_torch import RingAttention

sent = {}
for how in ("forward", "plain"):
    case = RingAttention(4, (16,), width=8, batch=1, how=how)
    given = [case.inputs(rank) for rank in range(4)]
    ring_run = ringside.run("checks/inside_ring_torch.py:ring", 4, given)
    sent[how] = max(ring_run.sent_bytes())
print(f"forward {sent['forward']} bytes, forward and backward {sent['plain']} bytes")
reveal("a11/ring-backward", (sent["plain"] - sent["forward"]) / sent["forward"])
assert sent["plain"] <= 3.4 * sent["forward"]
ring_run.timeline

# %% [markdown]
# **Explain.** Which message of the timeline can no block hide? With two heads of keys for sixteen
# heads of queries, how many times fewer bytes travel, and how does the work of a block change?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ### How short may a part be?
#
# A block has $4 n^2 d$ FLOPs for each head, and the keys and values that travel meanwhile have
# $2 n d$ elements. So the ratio grows with n, the positions of a rank: short parts can't hide their
# messages. At F FLOP/s, with w bytes an element and β seconds a byte, the products of a block take
# longer than its message from $n = w β F / 2$ on.
#
# The next cell traces 102,400 positions on up to 64 GPUs of a cluster like Zaratan. Nothing is
# computed: the tensors have shapes and no data.

# %% tags=["predict"]
guess(
    "a11/ring-exposed",
    "On 64 GPUs, 1600 positions each: how long do both passes take, in percent of the time of a "
    "rank's blocks alone?",
    unit="%",
)

# %%
LONG = (102_400, 8, 8, 128)  # positions, heads, heads of keys, width
zaratan = ringside.Machine.load("zaratan")
ring_target = "ring_attention_torch:ring_attention"
long, alone = (f"checks/inside_ring_torch.py:{name}" for name in ("long_sequence", "blocks_alone"))
for p in (8, 64):
    traced = ringside.trace_torch(long, p, (ring_target, *LONG), grid={"rank": p}, alike=("rank",))
    blocks = ringside.trace_torch(alone, 1, (ring_target, p, *LONG))
    pair = traced.trace, blocks.trace
    took_s, blocks_s = (ringside.replay(each, zaratan).makespan_s for each in pair)
    print(f"{p:2} GPUs: {took_s * 1e3:6.0f} ms, of which blocks {blocks_s / took_s:.0%}")
reveal("a11/ring-exposed", 100 * took_s / blocks_s)
hides_from = 4 * zaratan.beta_s_per_byte * zaratan.flop_per_s / 2
print(f"between nodes, products hide a message from {hides_from:.0f} positions a rank on")

# %% [markdown]
# **Explain.** On 64 GPUs a rank has 1600 positions, fewer than that bound, and yet the messages are
# hidden. What else does a block do besides its products?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 7. Zigzag (extra)
#
# A language model's mask is causal: a position sees those before it. With contiguous parts the
# first rank sees one block, its own, and the last rank sees P. Ranks with little to do wait for
# those with much: in training everybody needs the result.

# %% tags=["predict"]
guess(
    "a11/causal-share",
    "8 ranks, causal mask, contiguous parts; a block on the diagonal costs as much as any other. "
    "In what part of the time is a rank busy, on average?",
    unit="%",
)

# %%
from ringside.trace import Kind

causal = ringside.trace_torch(long, 8, (ring_target, *LONG, True))
busy = [sum(op.detail[0] for op in ops if op.kind == Kind.COMPUTE) for ops in causal.trace.ops]
reveal("a11/causal-share", 100 * np.mean(busy) / max(busy))
print("share of the last rank's work:", *(f"{each / max(busy):.0%}" for each in busy))

# %% [markdown] tags=["open"]
# *Zigzag* cuts the sequence into 2 P chunks, and gives rank r the chunks r and 2 P - 1 - r: one
# early chunk and one late one. Now each rank has the same work at each step of the ring. The rest
# is the ring that you have; copy what you need of it.

# %% tags=["predict"]
guess(
    "a11/zigzag-gain",
    "8 ranks, causal mask: how many times as long as zigzag do contiguous parts take?",
    unit="times",
)

# %%
# {{module zigzag_torch}}

# %%
# {{check zigzag_torch}}

# %%
zigzag_target = "zigzag_torch:zigzag_attention"
kinds = {
    "no mask": (ring_target, *LONG),
    "causal, contiguous": (ring_target, *LONG, True),
    "causal, zigzag": (zigzag_target, *LONG),
}
counts, times_ms = [2, 4, 8], {}
for name, given in kinds.items():
    traces = [ringside.trace_torch(long, p, given) for p in counts]
    times_ms[name] = [ringside.replay(t.trace, zaratan).makespan_s * 1e3 for t in traces]
reveal("a11/zigzag-gain", times_ms["causal, contiguous"][-1] / times_ms["causal, zigzag"][-1])
fig, axes = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
for (name, times), marker in zip(times_ms.items(), "os^", strict=True):
    axes.plot(counts, times, marker=marker, label=name)
axes.set(xlabel="GPUs", ylabel="forward and backward, ms", xscale="log", yscale="log")
axes.set_xticks(counts, counts)
axes.set_yticks([1000, 2000, 4000], [1000, 2000, 4000])
axes.minorticks_off()
axes.set_title("Attention over 102,400 positions on zaratan")
axes.legend()
plt.show()
assert times_ms["causal, zigzag"][-1] < 0.65 * times_ms["causal, contiguous"][-1]

# %% [markdown]
# **Explain.** Why do contiguous parts under a mask take as long as no mask at all? In zigzag order
# the block on the diagonal is computed in full although half of it is masked. What share of a
# rank's work is that, for P = 8 and for P = 64? Would an order in which rank r has the positions
# r, r + P, r + 2 P, ... be balanced, too?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 8. Ulysses: from positions to heads (extra)
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
from checks.cases_torch import Ulysses


def dealt_out(p):
    """Elements that a rank sends in your forward pass, over N d."""
    case = Ulysses(p, 4, heads=16, backward=False)
    given = [case.inputs(rank) for rank in range(p)]
    run = ringside.run("checks/inside_torch.py:dealt_out", p, given).raise_for_error()
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

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 9. On a cluster
#
# The same `conv.py`, unchanged, on real nodes: `measured_layer` is both passes of one layer, with 8
# channels and one image of n x n. In a terminal, in this folder, on one rank and on several:
#
# ```
# ringside launch conv.py:measured_layer --site zaratan --nodes 2 -- --n 128 --n 512
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `conv.py` that you hand in.

# %%
# {{run conv_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Compare the measured times for both sizes with the model. Take the time of one
# rank for the computing, divided by the number of ranks. Take alpha and beta from your runs of
# `a01_first_ranks` for halo and all-reduce. What is hidden behind the computing, for each size?
# From which number of ranks on would the halo no longer be hidden for the larger image? (About 150
# words.)

# %%
# {{paragraph conv_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
