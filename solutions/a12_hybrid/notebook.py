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
# # Hybrid: everything together, and what it costs
#
# You can cut a batch, a layer and a stack of layers. No single one of these cuts is enough for a
# large model. Data parallelism ends where the model doesn't fit on a GPU, or where the batch ends.
# Tensor parallelism sends so much that it ends at the edge of a node. A pipeline has no more stages
# than layers, and a bubble besides. So the models of today are cut along all axes at once.
# Megatron's model of a trillion parameters ran on 3,072 GPUs as 8-way tensor, 64-way pipeline and
# 6-way data parallelism (Narayanan et al., SC 2021).
#
# Each cut is an axis of a *grid of ranks*. In this assignment you
#
# - lay out the grid, so that each axis has the wires that it needs;
# - train on a grid of two axes with messages that you write, and on one of three in PyTorch;
# - predict what a configuration sends, holds and takes, before anything runs;
# - search for the best configuration of a machine.
#
# The result is always that of one rank. What differs is the time.

# %%
# {{plan}}

# %% [markdown]
# Each module is graded by a hidden suite of 100 points: about 45 for values, 30 for what is sent
# and when, and the rest for safety and speed in virtual time. All that the hidden suite asks
# stands in the module's docstring and in `docs/contract.md`. The tests are in `checks/`, with some
# of their cases; the hidden suite asks the same tests with other cases.
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
from dataclasses import replace
from importlib import import_module, invalidate_caches, reload

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal

# %load_ext ringside

zaratan = Machine.load("zaratan")

# %% [markdown]
# ## 1. A grid of ranks
#
# A machine numbers its ranks 0, 1, 2, ... and puts the first four into the first node, the next
# four into the second one. A program wants to say "all ranks that have my samples" or "the next
# stage of my pipeline". Between the two stands a small piece of arithmetic, and it is a classic
# place for errors. A program whose axes are swapped often still runs, with a wrong result or at a
# tenth of the speed.
#
# Take 32 ranks in nodes of 4: an axis "tensor" of size 4, "data" of size 4 and "pipe" of size 2.
# Suppose that "pipe" is the fastest axis, then "data", then "tensor".

# %% tags=["predict"]
guess("a12/nodes", "Over how many nodes are the four ranks of one tensor group?", unit="nodes")

# %% [markdown]
# The module is `grid.py`. It holds functions of numbers and names: no messages yet.
#
# **Think** before you write. A rank's number is a number with mixed digits: one digit for each
# axis. Which digit changes first if you count up? And in `place`: blocks of 3 ranks are laid one
# after the other into nodes of 4. Which of them lie in one node? When does every block?

# %%
# {{module grid}}

# %%
# {{check grid}}

# %%
from grid import coordinates, groups

sizes = {"tensor": 4, "data": 4, "pipe": 2}
slow, fast = ["pipe", "data", "tensor"], ["tensor", "data", "pipe"]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
for ax, order in zip(axes, (slow, fast), strict=True):
    ranks = coordinates(32, sizes, order)
    group = groups(ranks, ["tensor"])[0]
    nodes = np.array([[4 * node + k for k in range(4)] for node in range(8)])
    ax.imshow(np.isin(nodes, group), cmap="Blues", vmax=1.6, aspect="auto")
    for (node, k), rank in np.ndenumerate(nodes):
        ax.text(k, node, str(rank), ha="center", va="center")
    ax.set(title=f"fastest first: {', '.join(order)}", ylabel="node", xticks=[])
    ax.set_yticks(range(8))
fig.suptitle("The first tensor group, in nodes of 4 ranks")
plt.show()
reveal(
    "a12/nodes", len({rank // 4 for rank in groups(coordinates(32, sizes, slow), ["tensor"])[0]})
)

# %% [markdown] tags=["open"]
# All eight tensor groups sum 8 MB at the same time, as they do twice in each layer. Inside a node
# of `zaratan` a GPU sends 100 GB/s. Between nodes four GPUs share one port of 12.5 GB/s.

# %% tags=["predict"]
guess(
    "a12/order",
    "How many times as long does this all-reduce take if the groups cross nodes?",
    unit="times",
)

# %%
times_ms = {}
for order in (slow, fast):
    for axis in sizes:
        given = (sizes, order, [axis], 1_000_000)
        run = ringside.run("checks/inside.py:grid_busy", 32, [given] * 32, machine=zaratan)
        times_ms[order[0], axis] = 1e3 * run.raise_for_error().makespan_s
for axis in sizes:
    print(f"{axis:7s} {times_ms['pipe', axis]:7.2f} ms if pipe is fastest,", end=" ")
    print(f"{times_ms['tensor', axis]:7.2f} ms if tensor is")
reveal("a12/order", times_ms["pipe", "tensor"] / times_ms["tensor", "tensor"])

# %% [markdown]
# **Explain.** The ratio is larger than 100 / 12.5. Where does the rest come from? With "tensor" as
# the fastest axis, another axis becomes slower. Why is that the better bargain all the same? Think
# of what tensor, data and pipeline parallelism send, and how often in a step.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 2. Batch and weights on a grid
#
# The smallest hybrid has two axes: the batch is cut over the Pc columns of a grid, and the weights
# of each layer over its Pr rows. Pc = 1 is tensor parallelism, and Pr = 1 data parallelism. What
# does a rank send in a step? With L layers of d features each and B samples in all:
#
# - down its **column**, forward: an all-gather of each layer's outputs,
#   $L\,\frac{P_r - 1}{P_r}\,\frac{B}{P_c}\,d$ elements;
# - down its **column**, backward: a reduce-scatter of each gradient but the samples',
#   $(L - 1)\,\frac{P_r - 1}{P_r}\,\frac{B}{P_c}\,d$ elements;
# - along its **row**: an all-reduce of the weights' gradients,
#   $2\,L\,\frac{P_c - 1}{P_c}\,\frac{d^2}{P_r}$ elements.
#
# More columns make the first two smaller, and more rows the third.

# %% tags=["predict"]
guess(
    "a12/grid",
    "4 layers of d = 256 features, B = 768 samples, 16 ranks: with which grid does a rank send the "
    "fewest bytes?",
    choices=["1 x 16", "2 x 8", "4 x 4", "8 x 2", "16 x 1"],
)

# %% tags=["predict"]
guess(
    "a12/fastest",
    "And which grid is the fastest on zaratan, with the four ranks of a node in one column?",
    choices=["1 x 16", "2 x 8", "4 x 4", "8 x 2", "16 x 1"],
)

# %% [markdown]
# The module is `train2d.py`.
#
# **Think** before you write. Which ranks have the same weights, and which have the same samples?
# In a column each rank's product gives it some of the features of y, and the next layer needs
# all of them. Backward, each rank's product gives it *all* features of dx, but only a summand of
# each. Which of the features does it need for its next product? And where samples differ from
# column to column: is the mean of the columns' means the mean of all samples?

# %%
# {{module train2d}}

# %%
# {{check train2d}}

# %% [markdown]
# Now try all grids of 16 ranks. The model here has a quarter of the width, and the batch a quarter
# of the samples. So the modelled machine takes 16 times as long for a byte and 64 times as long
# for an operation, and times are those of 256 features. The network counts what your program sends.
# A step's time is half of what three steps take longer than one; so `Split` isn't in it.

# %%
from checks.cases import Train, miniature, sent_on_axes

P, d, B, L = 16, 64, 192, 4
GRIDS = [(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)]
machine = miniature(zaratan, bytes_each=16, flops_each=64)
level = machine.with_(ranks_per_node=P, intra_alpha_s=machine.alpha_s)  # all ranks alike
level = level.with_(intra_beta_s_per_byte=machine.beta_s_per_byte)


def formula(Pr, Pc):
    """Bytes that a rank sends in a step: down its column, and along its row."""
    column = (2 * L - 1) * (Pr - 1) / Pr * B / Pc * d
    return 8 * column, 8 * 2 * L * (Pc - 1) / Pc * d * (d + 1) / Pr


def formula_s(Pr, Pc, machine):
    """Seconds of these messages on wires that are all alike, and of the products."""
    messages = (2 * L - 1) * (Pr - 1) + 2 * 2 * (Pc - 1)  # one all-reduce is of the loss
    messages_s = machine.alpha_s * messages + machine.beta_s_per_byte * sum(formula(Pr, Pc))
    return messages_s + (3 * L - 1) * 2 * B * d * d / P / machine.flop_per_s


# %%
def trained(grid, steps, machine):
    """A run of so many steps, and what it was given."""
    case = Train(P, grid[0], (d,) * (L + 1), (B // grid[1],), steps)
    given = [case.inputs(rank) for rank in range(P)]
    return ringside.run("train2d.py:train", P, given, machine=machine).raise_for_error(), case


def step_s(grid, machine):
    """Seconds of one step on the network."""
    return (trained(grid, 3, machine)[0].makespan_s - trained(grid, 1, machine)[0].makespan_s) / 2


sent = {grid: sent_on_axes(*trained(grid, 1, machine)).max(axis=1) for grid in GRIDS}
times = {
    grid: (step_s(grid, machine), step_s(grid, level), formula_s(*grid, level)) for grid in GRIDS
}

# %%
labels = [f"{Pr} x {Pc}" for Pr, Pc in GRIDS]
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
column, row = np.array([sent[grid] for grid in GRIDS]).T / 1e3
left.bar(labels, column, label="down columns")
left.bar(labels, row, bottom=column, label="along rows")
left.plot(labels, [sum(formula(*grid)) / 1e3 for grid in GRIDS], "k_", ms=28, label="formula")
left.set(xlabel="Pr x Pc", ylabel="kB that a rank sends in a step", ylim=(0, 720))
left.legend()
names = "zaratan, 4 ranks a node", "all wires alike", "formula, all wires alike"
for name, own, style in zip(names, np.array([*times.values()]).T, ("o-", "s-", "k--"), strict=True):
    right.plot(labels, 1e3 * own, style, label=name)
right.set(xlabel="Pr x Pc", ylabel="a step, ms", ylim=(0, None))
right.legend()
plt.show()
best = min(GRIDS, key=lambda grid: sum(sent[grid]))
reveal("a12/grid", f"{best[0]} x {best[1]}")
fastest = min(GRIDS, key=lambda grid: times[grid][0])
reveal("a12/fastest", f"{fastest[0]} x {fastest[1]}")

# %% [markdown]
# **Explain.** With all wires alike, which grid is the fastest, and which on `zaratan`? Why do the
# two differ? Why does 16 x 1 take the same time on both? And how do the bars change if the batch
# has four times as many samples?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 3. Three axes: a training step of a GPT
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
# `given/gpt_torch.py` has the model in pieces and everything that you wrote before. So little is
# left to write. But it must be right on all axes at once, and each of these questions has to be
# answered:
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
from checks.cases_torch import LARGE, Training, bytes_by_axis, sent_by_axis

small = Training(8, (1, 1), dp=2, tp=2, sizes=(2, 2, 2, 2))
given = [small.inputs(rank) for rank in range(8)]
step = ringside.run("checks/inside_torch.py:trained", 8, given)
sent = sent_by_axis(step.raise_for_error(), small, 0)
for axis, nbytes in bytes_by_axis(small, 0).items():
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
    _, *model = LARGE[8][0]
    traced = ringside.trace_torch(
        "checks/inside_torch.py:large_step", 16, (([2, 2], *model), dp, tp, [1] * tp),
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

# %% [markdown]
# ## 4. Predict: what a step costs, before it runs
#
# You have a model of 174.6 billion parameters, 300 billion tokens, and 1,024 A100 that reach 140
# of their 312 TFLOP/s. Before anybody pays for them, you are asked how long the training takes.
# No simulation is needed for this. A parameter meets each token three times, once forward and
# twice backward, and once more forward where activations are recomputed. Each time it takes one
# multiplication and one addition. So 8 FLOPs for each parameter and token are nearly all.

# %% tags=["predict"]
guess("a12/days", "How many days does this training take?", unit="days")

# %% [markdown]
# `given/predict_parts.py` has this formula, and those of parameters, FLOPs, a message and a ring.
# Your module is `predict.py`: it predicts memory, the bytes of each axis and the seconds of a step.
#
# **Think** before you write. The last stage of a pipeline has the logits besides its layers. With
# 51,200 words and h = 2048 they take as long as how many layers? What does that do to the stages
# before it?

# %%
# {{module predict}}

# %%
# {{check predict}}

# %%
from checks import replays
from checks.cases_predict import megatron, replayed
from checks.inside import revived
from given.predict_parts import training_days

from ringside.scale.hybrid_cost import Config, Model, configs
from ringside.scale.hybrid_cost import cost as kits_cost

invalidate_caches()
predict = reload(import_module("predict"))
days = training_days(174.6e9, 300e9, 1024, 140e12)
reveal("a12/days", days)
for row in megatron("days")[:3]:
    told = training_days(1e9 * row["parameters"], 300e9, row["gpus"], 1e12 * row["tflops"])
    print(f"{row['scheme']} on {row['gpus']} GPUs: {told:.1f} days, published {row['days']}")

# %% [markdown]
# **Explain.** From 384 to 1,536 GPUs ZeRO-3's training time falls from 90 to 74 days. What does the
# formula take from the measurement, and what does it explain itself? Which of the numbers that it
# takes would you have to predict to plan a training that nobody has run?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# The trillion-parameter model ran on 6 replicas x 8 tensor ranks x 64 stages, with a batch of 3,072
# sequences. The paper's table doesn't give the microbatch. Let it be one sequence, and each layer
# be computed twice (full recomputation).

# %% tags=["predict"]
guess(
    "a12/heaviest-axis",
    "Along which axis does a GPU in the middle of the pipeline send most bytes in a step?",
    choices=["tensor", "pipeline", "data"],
)

# %%
trillion = Model(num_layers=128, hidden=25600, num_heads=160, batch=3072)
published = Config(data=6, tensor=8, pipeline=64, microbatch_size=1)
sent = predict.sent_bytes(trillion, published)
fig, axes = plt.subplots(figsize=(6, 2.4))
axes.barh(list(sent), [each / 1e9 for each in sent.values()], color="tab:blue")
axes.set(xscale="log", xlim=(1, 3000), xlabel="GB that a GPU sends in a step")
axes.set_title("A trillion parameters on 6 x 8 x 64 GPUs")
plt.show()
for axis, nbytes in sent.items():
    print(f"{axis:<9}{nbytes / 1e9:9.1f} GB")
reveal("a12/heaviest-axis", max(sent, key=sent.get))

# %% [markdown]
# **Explain.** Order the three axes by bytes. Which one belongs inside a node of eight GPUs, and
# which one can span the longest wires? Here each microbatch is one sequence. Which of the three
# numbers changes with microbatches of two?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Does the formula for a step hold? `checks/replays.py` has times of a GPT that was traced on fake
# tensors and replayed on a machine: every message, every product, every wait. The rate of
# arithmetic is what one rank reaches. Everything else is predicted.

# %%
for case in replayed(replays):
    told_s = predict.step_s(*map(revived, case.arguments()))
    grid = f"{case.data} x {case.tensor} x {case.pipeline}"
    error = f"{told_s / case.gives - 1:+.1%}"
    print(f"{grid:<10} replayed {case.gives:.3f} s, predicted {told_s:.3f} s: {error}")

# %% [markdown]
# ## 5. Plan: the best mixture for these GPUs
#
# With formulas a mixture costs microseconds, not GPU hours. So you can try them all, as long as
# there aren't too many. Take a model of 76.1 billion parameters (60 layers, a batch of 1,792) on
# 1,024 GPUs. A mixture has eight fields to choose: the three sizes, the microbatch, the number of
# interleaved pieces, ZeRO's stage, recomputation, and the order of the axes.

# %% tags=["predict"]
guess("a12/mixtures", "How many such mixtures can run, fitting or not?", unit="mixtures")

# %% [markdown]
# The module is `planner.py`. Your planner gets the cost model as an argument and may ask it 20,000
# times.
#
# **Think** before you write. How many mixtures are left if you fix the order of the axes? How do
# you know, without asking, that a mixture with a larger microbatch doesn't fit?

# %%
# {{module planner}}

# %%
# {{check planner}}

# %%
invalidate_caches()
planner = reload(import_module("planner"))
seventy_six = Model(num_layers=60, hidden=10240, num_heads=80, batch=1792)
reveal("a12/mixtures", sum(1 for _ in configs(seventy_six, 1024)))

# %% [markdown] tags=["open"]
# Megatron-LM's authors chose by rules: tensor parallelism inside the node, as many stages as
# memory asks for, replicas with the rest. They had no ZeRO. A cost model that says so is three
# lines long. Their GPUs reached about 150 TFLOP/s.

# %%
reached = Machine.load("dgx_a100,flop_per_s=1.5e14")


def without_zero(model, config, machine):
    told = kits_cost(model, config, machine)
    return told if config.zero == 0 else replace(told, memory_bytes=10**18)


# %% tags=["predict"]
guess(
    "a12/stages",
    "They cut the model of 39.1 billion parameters into 2 stages, on 512 GPUs. How many stages "
    "does your planner take there, without ZeRO?",
    unit="stages",
)

# %%
rows = [  # model, GPUs, and the published tensor x pipeline where there is one
    (Model(36, 4096, 32, 512), 8, ""),
    (Model(36, 4096, 32, 512), 128, "4 x 1"),
    (Model(48, 8192, 64, 1536), 512, "8 x 2"),
    (seventy_six, 1024, "8 x 4"),
    (Model(80, 12288, 96, 2304), 1536, "8 x 8"),
    (trillion, 3072, "8 x 64"),
]
plans = [planner.plan(model, reached, gpus, 80 * 10**9, without_zero) for model, gpus, _ in rows]
print(" GPUs   billions  data x tensor x pipeline  recompute   published tensor x pipeline")
for (model, gpus, theirs), plan in zip(rows, plans, strict=True):
    size = f"{model.num_parameters() / 1e9:.1f}"
    mine = f"{plan.data} x {plan.tensor} x {plan.pipeline}"
    print(f"{gpus:>5}{size:>11}  {mine:<26}{plan.recompute:<12}{theirs}")
reveal("a12/stages", plans[2].pipeline)

# %% [markdown]
# **Explain.** From 76.1 billion parameters on, your planner cuts almost as the authors did. The
# smaller models were trained with more tensor ranks than it takes, and all of them with full
# recomputation. Which attention did the authors have in 2021? And what might they have known that
# the cost model leaves out? Its text lists what it doesn't count.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# And with ZeRO? Let the planner choose freely, for 145.6 billion parameters on 1,536 GPUs.

# %%
model, gpus, _ = rows[-2]
free = planner.plan(model, reached, gpus, 80 * 10**9, kits_cost)
for name, plan in (("without ZeRO", plans[-2]), ("free", free)):
    told = kits_cost(model, plan, reached)
    print(f"{name}: {plan}")
    print(f"  {told.step_s:.1f} s a step, {told.memory_bytes / 1e9:.1f} GB")

# %% [markdown]
# **Explain.** The free plan gathers all weights for each microbatch on hundreds of replicas, and
# it is faster. Over how many of a node's eight ports does a library's ring go, and what hides it?
# Megatron-LM's table 2 has ZeRO-3 on 1,536 GPUs at 44 TFLOP/s a GPU, in 2021. FSDP trained a model
# of 175 billion parameters with the same scheme on 512 A100 at 186, in 2023. Which of the two does
# the cost model describe?

# %% [markdown]
# *Your answer:*

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
# The backward pass obeys the same two rules: a gradient is an einsum, too. In
# `given/einsum_graph.py` there is an MLP of two layers. Its batch has 8 samples; the layers are 4,
# 12 and 4 wide.

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
from given.einsum_graph import MLP, MLP_SIZES, sent_bytes

invalidate_caches()
layout = reload(import_module("layout"))
mesh = {"all": 4}
for dim in MLP_SIZES:
    sums = [each(MLP, MLP_SIZES, {dim: "all"}, mesh) for each in (layout.forward, layout.backward)]
    nbytes = sent_bytes(sums[0] + sums[1], mesh, 8)
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

# %% [markdown]
# ## 7. On a cluster
#
# The same `train2d.py`, unchanged, on real nodes: `measured_steps` is two steps of a model of
# widths 512, 512, 512 and 64, with n samples in all. In a terminal, in this folder, with grids of
# your choice, among them 1 x P and P x 1:
#
# ```
# ringside launch train2d.py:measured_steps --site zaratan --nodes 2 -- --n 128 --n 512
# ringside launch train2d.py:measured_steps --site zaratan --nodes 2 -- --n 512 --rows 1
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job.) It leaves `run.json` and a
# trace here, which are handed in with the notebook. The run counts if it is complete and was made
# with the `train2d.py` that you hand in.

# %%
# {{run train2d_cluster points=5}}

# %% [markdown]
# **Your paragraph.** Which grid is the fastest there, and which did you expect? Predict the bytes
# of both axes for three grids, and the times from the alpha and beta of your runs of
# `a01_first_ranks`, for a column inside a node and for one that crosses nodes. Which share of a
# step is computing? What differs from the prediction, and what may be the cause? (About 150 words.)

# %%
# {{paragraph train2d_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
