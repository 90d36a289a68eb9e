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
#
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
from halo_cases import grid_case, halo_case

sizes, side = [2, 4, 6, 8, 12], 240  # ranks along one side of the grid
strips, grids = [], []
rng = np.random.default_rng(0)
for n in sizes:
    strip = halo_case((side,) * 3, 1, (1, 1, side), rng)  # height doesn't matter
    grid = grid_case((side // n,) * min(n, 3), (side // n,) * min(n, 3), 1, (1, 1), rng)
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
from layers import random_conv

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
#
# Now the right way. Rows that need no halo can be computed while it is under way. The supplied
# `layers.Conv` computes some rows of a convolution, forward and backward. Its name for a pass holds
# the numbers of its output rows, which is how the tests know what you compute first.
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
from conv_cases import conv_case, rows_s

case = conv_case((10,) * 4, np.random.default_rng(1), shape=(1, 2, 2, 6))
slow = textbook.with_(flop_per_s=1e12 * rows_s(case, textbook, 1) / 1e-4, alpha_s=6e-4)
given = case.arguments_of_ranks()
run = ringside.run(
    "callers.py:conv_forward", 4, [each[:-1] for each in given], machine=slow
).raise_for_error()
reveal("a11/hidden", 1e3 * run.makespan_s)
run.timeline

# %% [markdown]
# **Explain.** What is the longest time that a halo may take here without costing anything? How does
# that time change if the image is cut for twice as many ranks?
#
# Both passes, with a shorter latency. The filters' gradient is a sum over ranks, as in data
# parallelism, and its all-reduce is hidden, too.

# %%
faster = slow.with_(alpha_s=1e-4)
run = ringside.run("callers.py:conv_both", 4, given, machine=faster).raise_for_error()
print(f"{1e3 * run.makespan_s:.2f} ms; computing alone takes 3.0 ms")
assert run.makespan_s < 3.3e-3
run.timeline

# %% [markdown]
# **Explain.** Find in the timeline the rows at the edges in both passes. In the forward pass they
# come last and in the backward pass first. Why?

# %% [markdown]
# ## 3. Which way is the shortest
#
# A convolution can be cut in three ways: by samples (data), by filters, and by rows (domain).
# `cost.py` says what each sends, and how long that takes. `traffic.py` is supplied: it sends all
# the messages of a training step, so you can compare your formulas with what the network counts.
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

from conv_sizes import halving

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
#
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
# ## On a cluster
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
