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
# # Experts: tokens that choose where they go
#
# In a dense model every token meets every weight, so twice the weights are twice the work. A
# *mixture of experts* breaks this rule. A layer has many small networks, the experts, and a gate
# sends each token to a few of them. The number of weights grows with the number of experts, and the
# work for a token doesn't.
#
# The experts live on different ranks. So tokens have to travel, and which way each one takes is
# known only when the gate has looked at it. Nothing in this course was that irregular so far:
# counts are uneven, differ from step to step, and may be zero.
#
# You write the gate, the exchange there and back with its gradients, the layer in torch whose
# exchange hides behind other work, and, if you like, an exchange that respects nodes.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety and speed in virtual time. All that the hidden suite asks
# stands in the module's docstring and in `docs/contract.md`. Its tests are those in `checks/`, with
# other cases.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
from importlib import import_module, invalidate_caches, reload

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

textbook, zaratan = Machine.load("textbook"), Machine.load("zaratan")

# %% [markdown]
# ## 1. The gate
#
# An expert can take any number of tokens, but a rank that waits for the one with the favourite
# expert can do nothing else. So an expert has a *capacity*: room for `ceil(c k T / E)` tokens,
# where T tokens choose k of E experts each, and c, the capacity factor, says how much more than an
# even share fits. What finds no room is dropped: the layer's residual path carries the token on
# unchanged.
#
# A new gate, before it has learnt anything, gives random scores. Take 1024 tokens, 8 experts,
# k = 2 and c = 1: if all were even, everybody would just fit.

# %% tags=["predict"]
guess("a14/dropped", "What share of the choices is dropped with random scores?", unit="%")

# %% [markdown]
# **Think** before you write. Two tokens want the last place of an expert. Which of them gets it if
# you go through the tokens one after another, and which if you first place all tokens' first
# choices? Which of the two does the docstring ask for?

# %%
# {{module route}}

# %%
# {{check route}}

# %%
invalidate_caches()
route = reload(import_module("route"))
rng = np.random.default_rng(14)
scores, k = rng.standard_normal((1024, 8)), 2


def dropped(scores, factor):
    """Share of the choices that find no room."""
    room = route.capacity(*scores.shape, k, factor)
    return 1 - route.route(scores, k, room).kept.mean()


factors = np.linspace(0.5, 2, 16)
fig, axes = plt.subplots(figsize=(6.5, 3.5))
for bias, name in ((0.0, "random scores"), (1.0, "one expert a little better")):
    biased = scores + bias * (np.arange(8) == 3)
    axes.plot(factors, [100 * dropped(biased, f) for f in factors], "o-", label=name)
axes.set(xlabel="capacity factor", ylabel="dropped choices, %", ylim=(0, None))
axes.legend()
plt.show()
reveal("a14/dropped", 100 * dropped(scores, 1.0))

# %% [markdown]
# **Explain.** Below a factor of 1 the first curve is a straight line. Why? And why does the second
# one fall so slowly above it? What does a larger factor cost, on ranks that prepare buffers for it?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# The balance loss pushes the gate towards even choices. Its formula is E times the sum over experts
# of the share of choices times the mean probability.

# %% tags=["predict"]
guess(
    "a14/balance",
    "A gate always chooses expert 0, with k = 1, but gives all 8 experts the same probability. "
    "What is the balance loss?",
)

# %%
same, first = np.zeros((16, 8)), np.zeros((16, 1), int)
reveal("a14/balance", route.balance_loss(same, first))
for strength in (0, 1, 3, 10):
    sure = strength * (np.arange(8) == 0) * np.ones((16, 1))
    print(f"score of expert 0 = {strength:2}: loss {route.balance_loss(sure, first):.2f}")

# %% [markdown]
# **Explain.** The shares have no gradient, since counting isn't differentiable. Through which
# factor does the loss still move the gate, and in which direction does it push expert 0?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. There and back
#
# Each of p ranks has T tokens. If a token's k experts are anywhere with the same probability, k T
# rows leave their place, and those whose expert is at home needn't travel.

# %% tags=["predict"]
guess(
    "a14/rows",
    "8 ranks, 100 tokens each, k = 2, 8 experts: how many rows does a rank send in the forward "
    "pass, there and back, on average?",
    unit="rows",
)

# %% [markdown]
# **Think** before you write. Rows go sorted by expert; what comes back is sorted the same way. With
# which one line do you put it into the order in which it left? And how does the backward pass know
# how many gradients come?

# %%
# {{module exchange}}

# %%
# {{check exchange}}

# %%
from checks.cases import Forward, sent_of_ranks

from ringside.checking.suite import arguments

case = Forward(8, (100,), 8, d=16, seed=3)
run = ringside.run("checks/inside.py:layer", 8, arguments(case)).raise_for_error()
sent = sent_of_ranks(run).sum(axis=1) - 7 * 8  # without the counts
kept = np.mean([routing.kept.mean() for _, routing, _ in case.of_ranks])
rows = sent.mean() / (16 * 8) / 2  # of the forward pass, half of both
print(f"{kept:.0%} of the choices are kept; rows sent by each rank:", (sent / 256).astype(int))
reveal("a14/rows", rows / kept)

# %% [markdown]
# **Explain.** Why are all four exchanges of rows the same size, and what would change if the
# layer's answers were in 16 bits and its inputs in 8 (as DeepSeek-V3 sends them)?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# A gate has a favourite. Tokens are many, and 8 ranks have two experts each. In the second run
# expert 0 gets one choice of every token.

# %% tags=["predict"]
guess(
    "a14/hot",
    "How many times as long does the layer take, forward and backward, if one expert is in every "
    "token's choice?",
    unit="times",
)

# %%
slow = textbook.with_(flop_per_s=2e8, alpha_s=1e-6)
times, runs = {}, {}
for kind in ("even", "one"):
    given = arguments(Forward(8, (64,), 16, kind, d=16, seed=5, hidden=32))
    runs[kind] = ringside.run("checks/inside.py:layer", 8, given, machine=slow).raise_for_error()
    times[kind] = 1e3 * runs[kind].makespan_s
    print(f"{kind:<5} {times[kind]:6.2f} ms")
reveal("a14/hot", times["one"] / times["even"])
runs["one"].timeline

# %% [markdown]
# **Explain.** Find in the timeline what the other seven ranks do. Which of the three would help: a
# capacity factor, more ranks, or the favourite's copy on every rank? What does each cost?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. The exchange hides
#
# Many models of today have a shared expert beside the others. It sees every token and needs no
# message, so it is what can be computed while tokens travel. In the forward pass one of the two
# exchanges of rows can hide behind it. What about the backward pass?

# %% tags=["predict"]
guess(
    "a14/hidden",
    "The shared expert takes a little longer than an exchange. Of the four exchanges of rows of "
    "both passes, how many still show?",
)

# %% [markdown]
# **Think** before you write. Autograd runs the operations of the forward pass in reverse. Draw the
# three operations start, shared expert, wait in this order, and below them what each does in the
# backward pass. Which one starts the exchange of the gradients?

# %%
# {{module moe_torch}}

# %%
# {{check moe_torch}}

# %%
from checks.cases_torch import Passes

links = Machine(
    "slow links", alpha_s=1e-6, beta_s_per_byte=1e-8, flop_per_s=1e9, memory_bytes_per_s=1e15
)
given = arguments(Passes(4, (16,), 4, "even", d=16, k=1, hidden=32))
run = ringside.run("checks/inside_torch.py:layer", 4, given, machine=links).raise_for_error()
exchange_s = 3 * (1e-6 + 4 * 16 * 8 * 1e-8)
waiting_s = run.makespan_s - sum(run.num_flops()) / 4 / links.flop_per_s
print(f"an exchange {1e6 * exchange_s:.1f} µs; beside the work {1e6 * waiting_s:.1f} µs")
reveal("a14/hidden", waiting_s / exchange_s)
run.timeline

# %% [markdown]
# **Explain.** Why is the answer a little more than a whole number? With two batches of tokens one
# could hide the other exchanges, too. How? (DeepSeek calls it dual batch overlap.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. Few nodes a token (extra)
#
# Between nodes links are eight times as slow as inside them on a machine like Zaratan, and all four
# GPUs of a node share one port. A token with 8 experts on 8 nodes crosses that port eight times.
# Two measures help: the gate chooses experts on few nodes, and a token crosses once to each node,
# where a rank passes it on.

# %% tags=["predict"]
guess(
    "a14/nodes",
    "4 nodes of 4 ranks, 16 experts, k = 8 at random. One level sends a row for each expert. "
    "How many times fewer bytes cross between nodes if a token goes once to each node?",
    unit="times",
)

# %%
# {{module node_limited}}

# %%
# {{check node_limited}}

# %%
from checks.cases_nodes import OnNodes

fast = zaratan.with_(flop_per_s=1e14)
tokens = {"tokens": (16,), "experts": 16, "d": 1024, "k": 8, "hidden": 4, "seed": 7}
two, one = arguments(OnNodes(16, **tokens, per_node=4)), arguments(Forward(16, **tokens))
levels = ringside.run("checks/inside.py:node_layer", 16, two, machine=fast)
flat = ringside.run("checks/inside.py:layer", 16, one, machine=fast)


def between(run):
    """Bytes that crossed from node to node."""
    node = np.arange(16) // 4
    return sent_of_ranks(run.raise_for_error())[node[:, None] != node].sum()


crossed = between(flat) / 2, between(levels)  # the flat run has a backward pass, too
print(f"one level {crossed[0] / 1e6:.1f} MB and {1e6 * flat.makespan_s / 2:.0f} µs a pass")
print(f"two levels {crossed[1] / 1e6:.1f} MB and {1e6 * levels.makespan_s:.0f} µs")
reveal("a14/nodes", crossed[0] / crossed[1])

# %%
invalidate_caches()
node_limited = reload(import_module("node_limited"))
scores = np.random.default_rng(8).random((512, 16))
for most in (1, 2, 4):
    experts = node_limited.choose(scores, 4, 4, most)
    nodes = np.mean([len(set(row)) for row in experts // 4])
    lost = 1 - np.take_along_axis(scores, experts, 1).sum() / np.sort(scores, 1)[:, -4:].sum()
    print(
        f"k = 4 on at most {most} nodes: {nodes:.2f} nodes a token, {lost:.1%} of the scores lost"
    )

# %% [markdown]
# **Explain.** Why is the factor smaller than 2, which is 6 rows on other nodes over 3 other nodes?
# With M = 1, how many copies of a token cross between nodes? Why does nobody train that way?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 5. On a cluster
#
# The same `exchange.py`, unchanged, on real nodes: `measured_layer` is both passes of a layer with
# two experts a rank and n tokens of 64 elements each. In a terminal, in this folder, with few
# tokens and with many:
#
# ```
# ringside launch exchange.py:measured_layer --site zaratan --nodes 2 -- --n 64
# ringside launch exchange.py:measured_layer --site zaratan --nodes 2 -- --n 1024
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook: the last run's, so note the first one's times.
# The run counts if it is complete and was made with the `exchange.py` that you hand in.

# %%
# {{run exchange_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Give the time of both runs and what all their exchanges send. How many times
# as long does the second take, with sixteen times the tokens, and what does alpha + m beta say?
# Which share of a layer of a real model, with d = 4096 and experts 2048 wide in 16 bits, would the
# exchange take on these links? (About 150 words.)

# %%
# {{paragraph exchange_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
