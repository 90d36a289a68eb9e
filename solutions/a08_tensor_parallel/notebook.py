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
# # Tensor parallelism: one layer on many ranks
#
# Data parallelism keeps the whole network on every rank. When one layer is too large for one GPU,
# or the batch too small to be shared out, the *layer* is cut: each rank has a part of the weights
# and computes a part of the products. What has to travel then is not gradients of weights but
# rows of activations, in the forward pass and again in the backward pass.
#
# At the end you will have
#
# - a linear layer cut by columns and by rows, an MLP and (as extras) attention and a loss, whose
#   results and gradients are those of one rank to twelve digits, and the same layers in torch;
# - the reason why columns come first and rows second, as a count of bytes;
# - formulas that agree with the network's count to the byte, and a crossover that a well-known
#   slide puts three times too low;
# - a speedup curve that says up to how many ranks tensor parallelism pays, and where it stops.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: values, bytes counted by the network,
# the split of work, safety, and time on a modelled cluster. All that it asks stands in the module's
# docstring and in `docs/contract.md`. The tests lie in `checks/`, where you can read them; the
# hidden suite asks the same of other cases. Some rules hold in every module: inputs stay as they
# were, and results are new; nothing is kept from one call to the next; the communicator is the one
# that is given; what is started is completed; and a send may wait until its receive is posted.
# Library collectives are allowed here and count as a ring's bytes. A module that gathers the
# weights (or the logits) and computes everything on one rank, or on each, earns at most a tenth of
# its points. In `given/` are `shards.py` (where the parts begin and end), `layers.py` (layers of
# one rank, with backward passes; read it first) and `traffic.py` (the messages of a training step).
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
from importlib import import_module, invalidate_caches, reload

import matplotlib.pyplot as plt
import numpy as np
from checks.cases import ColumnLayer, RowLayer
from checks.cases_layers import MlpLayer

import ringside
from ringside import Machine, guess, replay, reveal
from ringside.checking.ring_bytes import sent_as_ring
from ringside.timing.extrapolation import widen

# %load_ext ringside


def run(layer, p, n, widths, machine="textbook"):
    """Forward and backward of a layer on p ranks: n samples, random weights."""
    case = layer(p, n, widths)
    arguments = [case.inputs(rank) for rank in range(p)]
    return ringside.run("checks/inside.py:passes", p, arguments, machine=machine)


# %% [markdown]
# ## 1. A linear layer, by columns and by rows
#
# `Y = X W + b`, with X of shape (B, d_in) and W of shape (d_in, d_out). There are two ways to cut W
# in two, and they are not alike:
#
# ```
# columns                                rows
#                 [ W_0 | W_1 ]                            [ W_0 ]
#                                                          [ W_1 ]
# Y_0 = X W_0   Y_1 = X W_1              Y = X_0 W_0 + X_1 W_1
# each rank has all of X                 rank r has the columns X_r of X
# and gets some columns of Y             and gets one *summand* of Y
# ```
#
# **Think** before you write:
#
# - The gradient with respect to X is `dY W^T`. With columns, rank r has dY_r and W_r. What is
#   `dY_r W_r^T`: some columns of the gradient, or a summand of it?
# - Where does the bias b go when rows are cut, and what becomes of it if every rank adds it?
# - What is the gradient of *that* bias on each rank, and must it be sent?
#
# Megatron calls the two places where something may be sent f (in front of the layer) and g (behind
# it).

# %% tags=["predict"]
guess(
    "a08/silent",
    "In which of the two does the forward pass need no message at all?",
    choices=[
        "cut by columns",
        "cut by rows",
    ],
)

# %%
# {{module linear}}

# %%
# {{check linear}}

# %% [markdown]
# **Run.** The bytes that a rank sends in a forward and a backward pass, for growing weights and
# then for a growing batch.

# %%
for n, widths in ((16, (32, 64)), (16, (32, 512)), (64, (32, 64))):
    column, row = run(ColumnLayer, 4, n, widths), run(RowLayer, 4, n, widths[::-1])
    sent = sent_as_ring(column)[0], sent_as_ring(row)[0]
    assert sent[0] == sent[1] == 2 * 3 / 4 * n * 32 * 8
    print(
        f"B = {n:>2}, weights {widths[0]} x {widths[1]:>3}: {sent[0]:.0f} and {sent[1]:.0f} bytes"
    )
reveal("a08/silent", "cut by columns")

# %% [markdown]
# Cut by columns, the layer is silent forward and sums backward: f copies forward and sums backward.
# By rows it sums forward and is silent backward: g sums forward and copies backward.

# %% [markdown]
# **Explain.** Weights that are eight times as large cost nothing more. A batch that is four times
# as large costs four times as much. In data parallelism it is the other way round. For which kind
# of layer is each of the two better? (Section 4 makes that exact.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. An MLP with two all-reduces
#
# A transformer's MLP is two linear layers with GELU between them, d to h = 4 d columns and back,
# and layer norm before it. Each layer may be cut in two ways, so there are four ways to cut the
# pair.
#
# **Think.** Fill in what has to be sent in the *forward* pass, in numbers of columns of B rows:
#
# | first layer | second layer | after the first | after the second |
# |---|---|---|---|
# | columns | columns | | |
# | columns | rows | | |
# | rows | columns | | |
# | rows | rows | | |
#
# GELU is not linear: gelu(a + b) is not gelu(a) + gelu(b). Which of the four does that rule out,
# unless something is sent *before* it?
#
# **Think.** Layer norm, the last bias and the residual are computed on every rank alike. A
# gradient that is still a summand goes through layer norm's backward pass: what are then the
# gradients of gamma and beta on each rank, and what happens to the copies of gamma after some
# steps?

# %% tags=["predict"]
guess(
    "a08/pair",
    "Which of the four sends nothing between the two layers?",
    choices=[
        "columns, then columns",
        "columns, then rows",
        "rows, then columns",
        "rows, then rows",
    ],
)

# %%
# {{module mlp}}

# %%
# {{check mlp}}

# %% [markdown]
# One MLP on four ranks, forward and backward, on a machine whose cores are slow enough that this
# small layer keeps them busy. The products are declared by `layers.matmul`; the rest is the two
# all-reduces.

# %%
slow_cores = Machine("slow cores", alpha_s=1e-6, beta_s_per_byte=1e-9, flop_per_s=5e9)
mlp_run = run(MlpLayer, 4, 64, (32, 128), slow_cores)
assert [record.name for record in mlp_run.collectives] == ["allreduce"] * 2
print(f"{mlp_run.makespan_s * 1e6:.0f} µs, bytes as a ring: {sent_as_ring(mlp_run)}")
reveal("a08/pair", "columns, then rows")
mlp_run.timeline

# %% [markdown]
# **Explain.** In the forward pass there is nothing left to compute while the sum travels. In the
# backward pass there is. Which products does nobody wait for? Start the sum with `Iallreduce`
# before them, wait for it after them, and look at the timeline again.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ### Up to how many ranks does it pay?
#
# A GPT's layer has 4096 columns, 16384 hidden units and perhaps 2048 tokens on a GPU. Your laptop
# can't hold that, but the ratio of arithmetic to bytes is all that counts: in *miniature* an
# element stands for many, so a byte takes longer and so does an operation. The layer is run on
# eight ranks, each with the part that it would have among p; since the ranks all do the same,
# the trace is stretched to p.
#
# The cluster has four GPUs on a node, joined by NVLink, and one network port on each node. Sketch
# the speedup on 2, 4, 8, ..., 64 ranks.

# %% tags=["predict"]
guess("a08/two-nodes", "What is the speedup on 8 ranks, in two nodes?", unit="times")

# %%
TOKENS, WIDTH, B, D = 2048, 4096, 128, 16


def miniature(machine):
    """A machine on which B rows of D columns take as long as TOKENS rows of WIDTH, in bfloat16."""
    elements = TOKENS / B * WIDTH / D
    changes = {
        "beta_s_per_byte": machine.beta_s_per_byte * elements * 2 / 8,
        "flop_per_s": machine.flop_per_s / (elements * WIDTH / D),
        "kernel_overhead_s": 0.0,
    }
    inside = machine.intra_beta_s_per_byte
    if inside is not None:
        changes["intra_beta_s_per_byte"] = inside * elements * 2 / 8
    return machine.with_(**changes)


def layer_s(p, machine):
    """Seconds of forward and backward on p ranks."""
    few = min(p, 8)
    result = run(MlpLayer, few, B, (D, 4 * D * few // p), miniature(machine))
    return replay(widen(result.trace, p), miniature(machine)).makespan_s


zaratan = Machine.load("zaratan")
one_node = zaratan.with_(ranks_per_node=64)  # if NVLink joined them all
RANKS = (1, 2, 4, 8, 16, 32, 64)
times = {m.ranks_per_node: [layer_s(p, m) for p in RANKS] for m in (zaratan, one_node)}
speedups = {k: np.array([t[0] / each for each in t]) for k, t in times.items()}
for p, s, t in zip(RANKS, speedups[4], speedups[64], strict=True):
    print(f"{p:>2} ranks: speedup {s:5.1f}, in one node {t:5.1f}")
reveal("a08/two-nodes", speedups[4][RANKS.index(8)])

# %%
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
axes.plot(RANKS, RANKS, color="0.6", linestyle=":", label="ideal")
axes.plot(RANKS, speedups[64], "s-", color="C2", label="all ranks joined by NVLink")
axes.plot(RANKS, speedups[4], "o-", color="C0", label="nodes of four, one network port each")
axes.axvspan(4, 8, color="0.92")
axes.text(5.7, 50, "the node ends", ha="center", color="0.35")
axes.set_xscale("log", base=2)
axes.set_yscale("log", base=2)
axes.set_xticks(RANKS, RANKS)
axes.set_yticks(RANKS, RANKS)
axes.set(xlabel="ranks", ylabel="speedup of one MLP, forward and backward")
axes.set_title("A GPT layer of 4096 columns, 2048 tokens")
axes.grid(alpha=0.3)
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** A rank's work shrinks with p, and the all-reduce doesn't. Each rank sends almost
# twice its rows, however many ranks there are. What bends each of the two curves? Why do 8 ranks in
# two nodes gain so little over 4 ranks in one? (In practice tensor parallelism stays inside a node
# for this reason, and data or pipeline parallelism goes between nodes.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# **Explore.** The modelled GPU computes at its FP32 rate. Its tensor cores are sixteen times as
# fast, its links are not: multiply `flop_per_s` by 16 and draw the curves again.

# %% [markdown]
# ## 3. The same on torch.distributed
#
# In torch, autograd writes the backward pass. What it can't know is that a tensor is the same on
# all ranks, or a summand: that is what f and g say. Each is an autograd function of two lines,
# and the backward pass of one is the forward pass of the other.
#
# **Think** before you write:
#
# - Call `dist.all_reduce` in the middle of a forward pass, with no autograd function round it. It
#   changes a tensor behind autograd's back: which gradient does the input then get?
# - What happens if the backward pass of g sums too, as that of a sum "should"?
# - torch's `all_reduce` works in place. May f's backward pass give it the gradient that autograd
#   hands over?

# %%
# {{module linear_torch}}

# %%
# {{check linear_torch}}

# %% [markdown]
# The same pair of layers as in section 2, without layer norm. torch's operators are counted, the
# small ones too, and on real GPUs this file runs unchanged on NCCL.

# %%
from checks.cases_torch import Pair

pair = Pair(4, 64, (32, 128, 32))
arguments = [pair.inputs(rank) for rank in range(4)]
torch_run = ringside.run("checks/inside_torch.py:pair", 4, arguments, machine=slow_cores)
assert sent_as_ring(torch_run) == sent_as_ring(mlp_run)
print(f"{torch_run.makespan_s * 1e6:.0f} µs, bytes as a ring: {sent_as_ring(torch_run)}")
torch_run.timeline

# %% [markdown]
# **Explain.** The bytes are those of your MLP. Where in the timeline do f and g stand, and which
# operators does autograd run between them?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. Data against model
#
# Which of the two sends less? Take linear layers of widths d_0, ..., d_L, B samples, p ranks, and
# write the products of a step in matrix form: `Y_i = X_(i-1) W_i` forward, `dX_(i-1) = dY_i W_i^T`
# and `dW_i = X_(i-1)^T dY_i` backward. In data parallelism, rows of X are cut; in model
# parallelism, columns of every W.
#
# | | data | model |
# |---|---|---|
# | Y_i | nothing | all-gather of B rows of d_i |
# | dW_i | all-reduce of d_(i-1) d_i | nothing |
# | dX_(i-1) | nothing | a sum of B rows of d_(i-1), for i of 2 and more |
#
# A lecture slide compares the two for equal widths d: it charges data parallelism `d^2` a layer
# and model parallelism `3 B d` (an all-gather and an all-reduce), in units of (p - 1) / p, and
# concludes that the model should be cut if B < d / 3.
#
# Two things are wrong with that. An all-reduce costs how many reduce-scatters? And of dX_(i-1), the
# next step down multiplies with the rank's own columns only: which of its columns does a rank need?
# Correct the crossover, first for the one, then for both.

# %% tags=["predict"]
guess(
    "a08/crossover",
    "Both corrected, twenty layers of 4096 columns on eight GPUs: below which batch "
    "should the model be cut?",
    unit="samples",
)

# %%
# {{module cost}}

# %%
# {{check cost}}

# %% [markdown]
# **Run.** Your formulas against bytes that the network counts. `given/traffic.py` sends what a step
# of each kind sends; your own MLP, two of them in a row, sends what a network in pairs does.

# %%
invalidate_caches()
cost = reload(import_module("cost"))  # as its file is now
small, batch = (7, 12, 9, 10, 5), 6
for p in (2, 3, 5):
    rows = [
        ("data_parallel", (), cost.data_bytes(small, batch, p)),
        ("model_parallel", ("all_reduce",), cost.model_bytes(small, batch, p, "all_reduce")),
        ("model_parallel", ("reduce_scatter",), cost.model_bytes(small, batch, p)),
        ("paired", (), cost.paired_bytes(small, batch, p)),
    ]
    for name, more, predicted in rows:
        result = ringside.run(f"given/traffic.py:{name}", p, (small, batch, *more))
        counted = round(sum(sent_as_ring(result)))
        print(f"{p} ranks, {' '.join((name, *more)):<30} {counted:>6} bytes")
        assert counted == predicted

mlp_bytes = round(sum(sent_as_ring(run(MlpLayer, 4, batch, (12, 48)))))
inner = cost.paired_bytes((12, 48, 12, 48, 12), batch, 4)
first = cost.paired_bytes((12, 48, 12), batch, 4)
assert mlp_bytes == inner - first  # a pair that is not the first sums its input's gradient too

# %% [markdown]
# Now the crossover, for twenty layers of 4096 columns on eight GPUs.

# %%
wide, p, GIB = (4096,) * 21, 8, 2**30
batches = np.unique(np.logspace(2.5, 4.5, 60).astype(int))
curves = {
    "data": [cost.data_bytes(wide, int(b), p, 2) for b in batches],
    "model, all-reduce": [cost.model_bytes(wide, int(b), p, "all_reduce", 2) for b in batches],
    "model, reduce-scatter": [cost.model_bytes(wide, int(b), p, itemsize=2) for b in batches],
    "model, in pairs": [cost.paired_bytes(wide, int(b), p, 2) for b in batches],
}
crossings = {name: cost.crossover_batch(wide, name) for name in ("all_reduce", "reduce_scatter")}
for (name, value), limit in zip(crossings.items(), ("2 d / 3", "d"), strict=True):
    print(f"{name}: equal at a batch of {value:.0f}; for very many layers at {limit}")
reveal("a08/crossover", crossings["reduce_scatter"])

# %%
figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
styles = {"data": "C0", "model, all-reduce": "C1", "model, reduce-scatter": "C2"}
for name, values in curves.items():
    color, line = styles.get(name, "k"), "-" if name in styles else ":"
    axes.plot(batches, np.array(values) / p / GIB, line, color=color, label=name)
level = curves["data"][0] / p / GIB
axes.axhline(level / 2, color="C0", linestyle="--", label="data, as on the slide")
marks = [("slide:", 4096 / 3, level / 2, (-68, 8))]
marks += [("", crossings["all_reduce"], level, (-36, 8))]
marks += [("", crossings["reduce_scatter"], level, (8, -16))]
for name, batch_size, height, shift in marks:
    axes.plot(batch_size, height, "ko", ms=5)
    text = f"{name} {batch_size:.0f}".strip()
    axes.annotate(text, (batch_size, height), xytext=shift, textcoords="offset points")
axes.set(xscale="log", yscale="log", xlabel="batch, samples", ylabel="GiB that each rank sends")
axes.set_title("One step of 20 layers, 4096 columns, 8 ranks, 2 bytes an element")
axes.grid(alpha=0.3, which="both")
axes.legend()
plt.show()

# %% [markdown]
# **Explain.** The data curve doesn't depend on the batch. Layers in pairs, with their all-reduces,
# send about as much as layers that are all cut by columns, with reduce-scatters. Count both for one
# pair of equal widths.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# For a transformer's pair, d to 4 d to d, the difference is large:

# %%
gpt = (4096, 16384) * 10 + (4096,)
share = cost.paired_bytes(gpt, 2048, 8) / cost.model_bytes(gpt, 2048, 8)
print(f"in pairs, {100 * share:.0f} % of the bytes of layers that are all cut by columns")
assert 0.35 < share < 0.45

# %% [markdown]
# ### Both at once
#
# The p ranks may be p_model times p_data. Each part of the batch has its own group of p_model
# ranks; between the groups, gradients of equal columns are summed.

# %% tags=["predict"]
guess(
    "a08/grid",
    "Near the crossover pure data and pure model parallelism send about the same. "
    "What does a grid between the two send?",
    choices=[
        "more than either",
        "as much",
        "less than either",
    ],
)

# %%
grid_widths, P = (4096,) * 5, 64
figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
sizes = [2**k for k in range(7)]
for number, b in enumerate((64, 512, 4096, 32768)):
    sent = [cost.hybrid_bytes(grid_widths, b, m, P // m, itemsize=2) / P / GIB for m in sizes]
    m, q = cost.best_grid(grid_widths, b, P)
    axes.plot(sizes, sent, "o-", color=f"C{number}", label=f"{b} samples: best {m} x {q}")
    axes.plot(m, sent[sizes.index(m)], "o", color=f"C{number}", ms=11, mfc="none")
    assert min(sent) == sent[sizes.index(m)] or P // sizes[sent.index(min(sent))] > b
axes.set(xscale="log", yscale="log", xlabel="ranks that share a model (of 64)")
axes.set_xticks(sizes, sizes)
axes.set_ylabel("GiB that each rank sends")
axes.set_title("Four layers of 4096 columns: model times data")
axes.grid(alpha=0.3, which="both")
axes.legend()
plt.show()
sent = [cost.hybrid_bytes(grid_widths, 4096, m, P // m, itemsize=2) for m in sizes]
is_less, is_more = (
    min(sent[1:-1]) < min(sent[0], sent[-1]),
    min(sent[1:-1]) > max(sent[0], sent[-1]),
)
reveal("a08/grid", "less than either" if is_less else "more than either" if is_more else "as much")

# %% [markdown]
# **Explain.** In Gholami and others (SPAA 2018) the best grid is often neither of the two ends.
# How does the best number of ranks that share a model move with the batch, and why? Which costs
# does this count leave out (think of memory, of latency, and of which links the two kinds of groups
# would use)?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 5. Attention, head by head (extra)
#
# Attention is cut like the MLP: a product with many columns, something in the middle that works on
# each part alone, a product that brings the columns back. The part is a *head*.
#
# **Think.** The columns of the first matrix are all of Q, then all of K, then all of V. If each
# of two ranks takes a contiguous half of them, what does rank 0 have? And with 7 heads on 2 ranks,
# how many columns does each have?

# %%
# {{module attention}}

# %%
# {{check attention}}

# %% [markdown]
# ## 6. Cross-entropy without gathered logits (extra)
#
# The last layer of a language model multiplies with a matrix of as many columns as there are words.
# Cut by columns, each rank has the logits of some words. Gathering them is the largest message of
# the whole step, and none of it is needed.
#
# **Think.** Which three numbers of each row do all ranks have to agree on? In which order, and
# can two of them travel together? What goes wrong if each rank subtracts its own maximum?

# %%
# {{module cross_entropy}}

# %%
# {{check cross_entropy}}

# %% [markdown]
# **Explore.** A batch of 2048 tokens and 50,000 words on eight ranks: how many bytes would each
# rank receive if the logits were gathered, and how many does your loss take?

# %%
# tokens, words, ranks = 2048, 50_000, 8
# print(f"gathered: {tokens * words * 4 * (ranks - 1) / ranks / 2**20:.0f} MiB")
# print(f"three numbers a row: {3 * 2 * (ranks - 1) / ranks * tokens * 4 / 2**10:.0f} KiB")
# from checks.cases_layers import LossLayer
#
# run(LossLayer, 8, 64, (1000,)).timeline

# %% [markdown]
# ## 7. Sequence parallelism (extra)
#
# Between two tensor-parallel parts all ranks compute layer norm, dropout and the residual alike,
# and all keep the same activations for the backward pass. An all-reduce is a reduce-scatter and an
# all-gather: leave the rows scattered in between, and each rank computes and keeps its own
# positions only, for the same bytes.
#
# **Think.** Layer norm's parameters now see a part of the positions on each rank. What are their
# gradients, and what must be done before the update? And dropout: what goes wrong if every rank
# seeds its generator alike, and what if every rank seeds it differently?

# %%
# {{module sequence_torch}}

# %%
# {{check sequence_torch}}

# %% [markdown]
# ## 8. On a cluster
#
# The same `mlp.py`, unchanged, on real nodes. In a terminal, in this folder:
#
# ```
# ringside launch mlp.py:measured_layer --site zaratan --nodes 2 -- --n 128 --n 512 --n 2048
# ```
#
# `n` is the number of rows; the layer has 512 columns and 2048 hidden units (`--widths 512,2048`).
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `mlp.py` that you hand in.
#
# `linear_torch.py` runs on GPUs over NCCL, and over gloo where no GPU is asked for. Let it leave
# its record in a folder of its own: the one to hand in is that of the module above.
#
# ```
# ringside launch checks/inside_torch.py:measured_pair --site zaratan --gpus-per-node 4 \
#     --out gpus -- --n 512 --n 2048
# ```

# %%
# {{run mlp_cluster points=5}}

# %% [markdown]
# **Your paragraph.** For each of the three sizes, compare the measured time with `12 n d h / p`
# operations and two ring all-reduces of n rows on `Machine.load("zaratan")`. Which of the two terms
# is further off, and which assumption is the likely reason? From your measurements: would the layer
# be faster on half as many ranks? (About 150 words.)

# %%
# {{paragraph cluster_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
