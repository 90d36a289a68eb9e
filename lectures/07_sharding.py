# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # Lecture 7: One copy for all ranks
#
# Data parallelism keeps the whole training state on every GPU: the weights, the gradients and the
# optimizer state. With 32 GPUs you store 32 equal copies. This lecture stores one copy and divides it
# among the GPUs. Each part is a *shard*. Two of the three stages send no more bytes than data
# parallelism, the third sends half as many again, and you will hide what it adds behind the
# computation. The systems are called ZeRO and FSDP.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - say where the 16 bytes of each parameter go, and which of them ZeRO's three stages divide;
# - split an all-reduce into its two halves, and do the optimizer's work between them;
# - write a training step that all-gathers a layer, uses it, reshards it, and all-gathers the next one
#   meanwhile, in MPI and in PyTorch;
# - compute how many tokens a GPU needs to hide the all-gathers, and read from a timeline whether they
#   hide;
# - compute the memory of the activations, and choose between keeping and recomputing them;
# - choose where to run an optimizer that needs whole matrices;
# - find the mistake in a sharded optimizer whose loss looks healthy.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 3](03_allreduce.ipynb), for reduce-scatter, all-gather and the ring, and
# [lecture 5](05_ddp.ipynb), for overlap. From PyTorch you need modules and `backward()`.
#
# | sign | meaning |
# |---|---|
# | $p$ | number of ranks; a rank is one GPU |
# | $G$ | ranks of a group that shares one copy (section 7) |
# | $\Psi$, $\Psi_l$ | number of parameters of the model, and of one layer |
# | $w$ | bytes of a number that travels; 2 for 16-bit numbers |
# | $T$ | tokens on a GPU in one forward and backward pass (a microbatch) |
# | $s, b, h, a$ | tokens in a sequence, sequences on a GPU, width of the model, attention heads |
# | $m, n$ | rows and columns of a matrix (section 10) |
# | $F$, $\beta'$ | FLOP per second of a GPU, bytes per second of the network |
#
# To *all-gather* a layer (or *unshard* it): every rank has one shard of it before, and the whole layer
# after. To *reshard* it: every rank releases the whole layer and keeps its shard. The ZeRO paper writes
# $N_d$ for our $p$.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** If you have one meeting only, teach the first, and end it with section 8.
#
# Ask at the beginning: "A model doesn't fit into one GPU. You have 32. What do you do?" Most classes
# propose to put different layers on different GPUs. Write it down. It is lecture 9, and it changes
# who computes what. Today only the storage changes.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
import ringside.course.lectures
from ringside import Machine, guess, reveal
from ringside.course.lectures import Knob, explore, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
WEIGHTS, GRADIENTS, STATE, ACTIVATIONS = "#0072b2", "#009e73", "#7f7f7f", "#cc79a7"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: 32 equal copies
#
# Lecture 5 trained the GPT of this course, which has 1.65 billion parameters [1]. Its line of the ledger:
#
# | GPUs | a step | memory used on a GPU | memory of a GPU |
# |---:|---:|---:|---:|
# | 32 | 1.85 s | 33.9 GB | 42.4 GB |
#
# Almost all communication was hidden, so you could be content. But the third column hasn't changed since
# the first GPU. Would a model of twice the size fit? It wouldn't, however many GPUs you buy: each new
# GPU brings memory, and data parallelism fills it with the same things once more.

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures import num_parameters
from ringside.course.lectures.ledger import FILE, read

line05 = next(line for line in read(FILE) if line.lecture == "05")
held_gb = line05.memory_bytes / 1e9
print(f"{num_parameters() / 1e9:.2f} billion parameters, {held_gb:.1f} GB on a GPU")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/alike", "Adam needs 16 bytes for each parameter, the weight and its gradient included. "
      "How many of the GB on a GPU are the same on all GPUs at the end of a step?",
      unit="GB")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
alike_gb = 16 * num_parameters() / 1e9
print(f"the same everywhere: {alike_gb:.1f} GB, {alike_gb / held_gb:.0%}")
print(f"on 32 GPUs together: {32 * alike_gb:.0f} GB")
reveal("07/alike", alike_gb)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **26.4 of the 33.9 GB are the same on all GPUs.** Your cluster spends 846 GB to store them. Only the rest
# differs from GPU to GPU: it comes from the samples, and each GPU has its own samples.
#
# **How far can you bring down the 33.9 GB, and what does it cost in time?** Section 8 answers both.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(held_gb, 1) == 33.9
assert round(alike_gb, 1) == 26.4 and round(alike_gb / held_gb, 2) == 0.78
assert round(32 * alike_gb) == 846 and round(num_parameters() / 1e9, 2) == 1.65
assert round(Machine.load("zaratan").memory_bytes / 1e9, 1) == 42.4
assert round(line05.step_s, 2) == 1.85 and line05.gpus == 32
assert 2 * alike_gb > 42.4

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 2. Where the 16 bytes go
#
# Why 16 bytes, if a weight has two? You compute in 16-bit numbers, because a GPU multiplies them several
# times faster than 32-bit numbers. The optimizer keeps 32-bit numbers beside them. This is *mixed
# precision*. *Adam* keeps two running means for each parameter, its *moments*: one of the gradient,
# and one of the gradient's square.
#
# | what | bytes for each parameter | who needs it, and when |
# |---|---:|---|
# | weight, 16 bits | 2 | forward and backward pass of its layer |
# | gradient, 16 bits | 2 | from its layer's backward pass to the update |
# | master weight: the weight again, 32 bits | 4 | the update |
# | first moment, 32 bits | 4 | the update |
# | second moment, 32 bits | 4 | the update |
# | total | 16 | |
#
# The last three are the **optimizer state**. You need them only in the update, which is a small part of a
# step. Other recipes have other sums: gradients in 32 bits add 2 bytes, and moments in 16 bits save 4. Whatever
# the sum, the same three things can be divided: state, gradients, weights.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Why do you store the weight twice? Because an update is small. Here a weight of 1 receives 1000 updates of
# 0.0001, once in 32 bits and once in 16. The 16-bit format is `bfloat16`. It has 8 significant bits, which
# is between two and three decimal digits.

# %% slideshow={"slide_type": "fragment"}
# %%writefile bits.py
import torch


def train(group, dtype):
    weight = torch.ones(1, dtype=getattr(torch, dtype))
    for _ in range(1000):
        weight += 1e-4
    return float(weight)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/half", "In 32 bits the weight ends near the exact sum. Where does it end in 16 bits?",
      unit="")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
ends = {dtype: ringside.run("bits.py:train", 1, (dtype,)).values[0]
        for dtype in ("float32", "bfloat16")}  # fmt: skip
print(ends)
reveal("07/half", ends["bfloat16"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# In 16 bits your weight doesn't move. The next number above 1 is 1.0078, so each update is rounded away, and a
# thousand of them are rounded away too. In 32 bits the weight ends at 1.1. That is why the optimizer adds
# its updates to a 32-bit weight, and then rounds a copy of it to 16 bits.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
spacing = 2.0**-7  # 8 significant bits
assert ends["bfloat16"] == 1.0 and abs(ends["float32"] - 1.1) < 1e-4
assert round(1 + spacing, 4) == 1.0078 and spacing / 2 > 0.0001

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which of the five rows could you leave out?" Somebody names the gradient: it could
# be used at once and forgotten. That is right for one GPU, and some programs do it. *Where classes
# stumble:* they believe that activations belong to the 16 bytes. They don't: they depend on the
# samples, and section 9 counts them.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=20
# ## 3. An all-reduce has two halves
#
# Can you divide the optimizer state without sending more? Lecture 3 built the ring all-reduce from two parts.
# After the *reduce-scatter*, each rank has the sum of one shard of the vector. In the *all-gather*, each
# rank sends its shard to all others. For a gradient of $\Psi$ numbers, each rank sends
#
# $$\underbrace{\frac{p-1}{p}\,\Psi}_{\text{reduce-scatter}} \;+\;
#   \underbrace{\frac{p-1}{p}\,\Psi}_{\text{all-gather}} \;=\; 2\,\frac{p-1}{p}\,\Psi .$$
#
# Look at the moment between the halves. A rank has the whole sum of *its* shard of the gradient, and nothing
# else. That is enough to update its shard of the weights, and for this it needs the optimizer state of its
# shard only. So let the optimizer work in the middle, and all-gather the new weights instead of the
# gradients.
#
# ```text
#                             first half              second half
# all-reduce, then update     gradients -> own sums   own sums -> all sums, update everything
# update between the halves   gradients -> own sums   update own weights -> all weights
# ```

# %% [markdown] slideshow={"slide_type": "subslide"}
# Here are both as programs. The optimizer is SGD with momentum, which keeps one number of state for each
# weight: its velocity. To keep the programs short, the length is divisible by the number of ranks.

# %% slideshow={"slide_type": "fragment"}
# %%writefile whole.py
import numpy as np
from mpi4py import MPI


def train(comm, length, steps):
    weights, velocity = np.ones(length), np.zeros(length)
    for _ in range(steps):
        gradient = weights * (1 + comm.rank)  # stands for the backward pass
        comm.Allreduce(MPI.IN_PLACE, gradient)
        velocity = 0.9 * velocity + gradient / comm.size
        weights -= 0.1 * velocity
    return weights


# %% slideshow={"slide_type": "fragment"}
# %%writefile halves.py
import numpy as np


def train(comm, length, steps):
    part = length // comm.size
    mine = slice(comm.rank * part, (comm.rank + 1) * part)
    weights, velocity, summed = np.ones(length), np.zeros(part), np.empty(part)
    for _ in range(steps):
        gradient = weights * (1 + comm.rank)
        comm.Reduce_scatter_block(gradient, summed)
        velocity = 0.9 * velocity + summed / comm.size
        comm.Allgather(weights[mine] - 0.1 * velocity, weights)
    return weights


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/halves", "How many bytes does halves.py send for each byte that whole.py sends?",
      unit="bytes")  # fmt: skip


# %% slideshow={"slide_type": "slide"} tags=["ranks"]
def sent_by(run, rank=0):
    """Bytes that a rank sends, those of library collectives included."""
    return run.timeline.bytes_matrix.sum(axis=1)[rank]


whole = ringside.run("whole.py:train", 4, (4096, 3))
halves = ringside.run("halves.py:train", 4, (4096, 3))
gap = np.abs(whole.values[0] - halves.values[0]).max()
print(f"in three steps rank 0 sends {sent_by(whole):,} and {sent_by(halves):,} bytes")
print(f"largest difference of a weight: {gap:.0e}")
reveal("07/halves", sent_by(halves) / sent_by(whole))

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The smaller state is free.** Both programs send the same bytes, take the same time, and end with the same weights.
# But in `halves.py` each of your ranks keeps a quarter of the velocity, and does a quarter of the optimizer's
# arithmetic.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert sent_by(whole) == sent_by(halves) == 3 * 2 * 3 / 4 * 4096 * 8
assert abs(whole.makespan_s - halves.makespan_s) < 1e-9
for one, other in zip(whole.values, halves.values):
    np.testing.assert_allclose(one, other, rtol=1e-13)

# %% slideshow={"slide_type": "slide"} known={"07/halves": "100 %, a share of the time"}
ringside.run("halves.py:train", 4, (4096, 1)).timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. One step of `halves.py` on four ranks: a reduce-scatter, and then an all-gather. No rank
# computes for long, so you see communication only.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in PyTorch.**

# %% slideshow={"slide_type": "fragment"}
# %%writefile halves_torch.py
import torch
import torch.distributed as dist


def train(group, length, steps):
    weights = torch.ones(length, dtype=torch.float64)
    mine = weights.chunk(group.size())[group.rank()]  # a view: this rank's shard
    velocity, summed = torch.zeros_like(mine), torch.empty_like(mine)
    for _ in range(steps):
        gradient = weights * (1 + group.rank())
        dist.reduce_scatter_tensor(summed, gradient)
        velocity = 0.9 * velocity + summed / group.size()
        dist.all_gather_into_tensor(weights, mine - 0.1 * velocity)
    return weights


# %% slideshow={"slide_type": "fragment"}
in_torch = ringside.run("halves_torch.py:train", 4, (4096, 3))
print(f"rank 0 sends {sent_by(in_torch):,} bytes")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (in_torch.timeline.bytes_matrix == halves.timeline.bytes_matrix).all()
np.testing.assert_allclose(in_torch.values[3], whole.values[3], rtol=1e-13)

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Could you also leave out the all-gather, and keep only a shard of the weights?" Yes,
# if somebody all-gathers them before the next forward pass. The class has now invented stage 3. *Where
# classes stumble:* they want to all-gather the gradients *and* the weights. Let them count: three
# halves.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=15
# ## 4. Three stages: ZeRO
#
# You have divided the optimizer state. What else is stored $p$ times? The paper on ZeRO, *Zero Redundancy
# Optimizer*, goes on in three stages [2]. Each divides one thing more. With $p$ ranks, a rank keeps this
# many bytes for the $\Psi$ parameters:
#
# | stage | divided by $p$ | bytes on a rank |
# |---|---|---|
# | 0 | nothing: data parallelism | $(2 + 2 + 12)\,\Psi$ |
# | 1 | the optimizer state | $\left(2 + 2 + \frac{12}{p}\right)\Psi$ |
# | 2 | and the gradients | $\left(2 + \frac{2 + 12}{p}\right)\Psi$ |
# | 3 | and the weights | $\frac{2 + 2 + 12}{p}\,\Psi$ |
#
# $$M_0 = 16\,\Psi, \quad M_1 = \left(4 + \tfrac{12}{p}\right)\Psi, \quad
#   M_2 = \left(2 + \tfrac{14}{p}\right)\Psi, \quad M_3 = \tfrac{16}{p}\,\Psi .$$

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
KINDS = (("weights", 2, WEIGHTS), ("gradients", 2, GRADIENTS), ("state", 12, STATE))
DIVIDED = {0: (), 1: ("state",), 2: ("state", "gradients"), 3: ("state", "gradients", "weights")}


def draw_stage(axis, stage, ranks=4):
    """Each rank's column: 16 bytes high, filled where the rank keeps something."""
    for rank in range(ranks):
        bottom = 0
        for kind, high, hue in KINDS:
            part = high / ranks if kind in DIVIDED[stage] else high
            start = bottom + (rank * part if kind in DIVIDED[stage] else 0)
            axis.bar(rank, high, 0.8, bottom, fill=False, edgecolor=hue, lw=0.6)
            axis.bar(rank, part, 0.8, start, color=hue)
            bottom += high
    axis.set(title=f"stage {stage}", xlabel="rank", ylim=(0, 16.3))
    axis.set_xticks(range(ranks))


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(9, 3.2), sharey=True, layout="constrained",
                            width_ratios=[4.2, 4.2, 4.2, 7.2])  # fmt: skip
for stage, axis in enumerate(axes):
    draw_stage(axis, stage)
axes[0].set_ylabel("bytes for each parameter")
for (kind, _, hue), height in zip(KINDS, (1, 3, 10)):
    axes[3].text(3.6, height, kind, color=hue, va="center", fontsize=10)
axes[0].set_yticks([0, 2, 4, 8, 12, 16])
for axis, end in zip(axes, (3.6, 3.6, 3.6, 6.6)):
    axis.set_xlim(-0.6, end)
show(figure, "Four panels, stages 0 to 3, each with a column for ranks 0 to 3. A column is 16 bytes "
     "high: 2 of weights, 2 of gradients, 12 of the optimizer's state. Filled is what a rank keeps. "
     "In stage 0 all is filled; from stage to stage state, gradients and weights shrink to a "
     "quarter, another quarter on each rank.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. What four ranks keep for each parameter. Filled parts are in memory. The four filled quarters of a
# divided kind together are one copy.*

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/stage-one", "The paper's example has 7.5 billion parameters on 64 GPUs. All states of a GPU "
      "take 120 GB. Which stage is the first to need less than 16 GB?",
      choices=["stage 1", "stage 2", "stage 3"])  # fmt: skip


# %% slideshow={"slide_type": "fragment"} tags=["systems"]
def held(parameters, ranks, stage):
    """Bytes of states on a rank."""
    return sum(high * parameters / (ranks if kind in DIVIDED[stage] else 1)
               for kind, high, _ in KINDS)  # fmt: skip


stages_gb = [held(7.5e9, 64, stage) / 1e9 for stage in range(4)]
print("   ".join(f"stage {stage}: {gb:.1f} GB" for stage, gb in enumerate(stages_gb)))
first = min(stage for stage in range(4) if stages_gb[stage] < 16)
reveal("07/stage-one", f"stage {first}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# | stage | 0 | 1 | 2 | 3 |
# |---|---:|---:|---:|---:|
# | GB of states on a GPU | 120 | 31.4 | 16.6 | 1.9 |
#
# These are the numbers of the paper's first figure, to the last digit [2]. Do more GPUs help? They help stages 1 and 2
# less and less, because a part isn't divided. With a thousand GPUs you would still need 30 GB in stage 1, for
# weights and gradients.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert stages_gb[0] == 120 and round(stages_gb[1], 1) == 31.4 and round(stages_gb[2], 1) == 16.6
assert round(stages_gb[3], 1) == 1.9 and round(held(7.5e9, 1024, 1) / 1e9) == 30

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What travels.** What do you pay for each stage? Count in units of $\Psi$ numbers, each to be multiplied
# by $(p-1)/p$.
#
# | stage | forward pass | backward pass | after the backward pass | total |
# |---|---|---|---|---|
# | 0 | | | all-reduce of the gradients, $2\Psi$ | $2\Psi$ |
# | 1 | | | reduce-scatter $\Psi$, update, all-gather $\Psi$ | $2\Psi$ |
# | 2 | | reduce-scatter of each bucket, $\Psi$ | update, all-gather $\Psi$ | $2\Psi$ |
# | 3 | all-gather of each layer, $\Psi$ | all-gather again $\Psi$, reduce-scatter $\Psi$ | update | $3\Psi$ |
#
# Stage 1 is `halves.py`. Stage 2 sends the same numbers, but earlier: as soon as a bucket of gradients is full,
# its sum goes to the rank that owns it, and you release the bucket. So a rank never holds all gradients
# at once. Stage 3 reshards the weights after each layer, too. You have to all-gather them twice, once for
# each pass. That is **one half more**: $3\Psi$ instead of $2\Psi$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Stage 1 needn't wait for the end, either. Its reduce-scatter can go bucket by bucket, and only the buffer stays whole.
# Its all-gather can wait for the next forward pass, layer by layer. Then both hide as in section 5, and Megatron's
# distributed optimizer does so.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["systems"]
# **Names.** Where do you meet the stages? In August 2026 three libraries call them as follows [7, 10, 11].
#
# | stage | DeepSpeed | PyTorch | Megatron-FSDP |
# |---|---|---|---|
# | 1 | `"stage": 1` | `ZeroRedundancyOptimizer`, which sends $3\Psi$ | `optim` |
# | 2 | `"stage": 2` | `fully_shard(..., reshard_after_forward=False)` | `optim_grads` |
# | 3 | `"stage": 3` | `fully_shard(...)`, called FSDP2 | `optim_grads_params` |
#
# Why $3\Psi$? DDP all-reduces the gradients for it, and then owners broadcast their parameters. Run it, and count.
# (Megatron Core without FSDP calls stage 1 `use_distributed_optimizer` [7].)
#
# If you accumulate gradients over several microbatches, stages 2 and 3 leave you a choice: reduce-scatter after
# each microbatch, or keep whole gradients until the last one. Puzzle 3 counts both.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class fill the table of bytes before you show it; most get the row of stage 2
# wrong, because they expect more traffic. *What to ask.* "Why does nobody divide the
# weights first? They are the simplest." Because this is the only division that costs bytes.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=20
# ## 5. All-gather a layer, use it, reshard it
#
# How do you compute with a layer of which you hold a quarter? You all-gather it shortly before you need it
# (*unshard*), and release it directly afterwards (*reshard*). The network has 12 layers of 4096 weights; as in
# lecture 5, a layer takes 40 µs forward and 80 µs backward. In the first program you all-gather a layer at the
# moment when you need it. One buffer, `whole`, holds the layer in use. The next all-gather overwrites it: that
# is the reshard of this program.

# %% slideshow={"slide_type": "fragment"}
# %%writefile on_demand.py
import numpy as np

import ringside


def step(comm, layers=12, length=4096):
    shards = np.ones((layers, length // comm.size))  # this rank's part of each layer
    summed, whole = np.empty_like(shards), np.empty(length)
    for k in range(layers):
        comm.Allgather(shards[k], whole)
        ringside.compute(seconds=40e-6, phase=f"forward {k}")
    for k in reversed(range(layers)):
        comm.Allgather(shards[k], whole)
        ringside.compute(seconds=80e-6, phase=f"backward {k}")
        gradient = np.full(length, float(comm.rank + k))  # stands for a real one
        comm.Reduce_scatter_block(gradient, summed[k])
    return summed / comm.size


# %% slideshow={"slide_type": "fragment"}
def exposed_us(run):
    """Time of a step in which the busiest rank computes nothing, in µs."""
    return 1e6 * (run.makespan_s - max(run.timeline.busy_s))


on_demand = ringside.run("on_demand.py:step", 4)
psi_bytes = 12 * 4096 * 8
print(f"a step takes {1e6 * on_demand.makespan_s:.0f} µs, "
      f"{exposed_us(on_demand):.0f} µs are exposed")  # fmt: skip
print(f"a rank sends {sent_by(on_demand) / psi_bytes:.2f} Psi")
on_demand.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Stage 3 without overlap. Each layer waits for its weights.*
#
# Exposed time: 993 µs, which is 36 collectives of 28 µs, because you compute nothing during any of them. The
# traffic is 2.25 $\Psi$, as section 4 says: $3\Psi\,(p-1)/p$. But you know which layer comes next. You
# could all-gather it while you compute this one. This is called *prefetch*.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (on_demand.timeline.bytes_matrix.sum(axis=1) / psi_bytes).tolist() == [2.25] * 4
assert round(exposed_us(on_demand)) == 993 and round(exposed_us(on_demand) / 36) == 28
p = on_demand.world_size
assert 3 * (p - 1) / p == 2.25
np.testing.assert_allclose(on_demand.values[2][5], 5 + 1.5)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Prefetch.** You need two buffers for weights and two for gradients, and use each pair in turn. The list
# `order` says which layer is needed when. Before you compute a layer, you start the all-gather of the next one.
# You wait for a reduce-scatter only when you need its buffer again, two layers later.

# %% slideshow={"slide_type": "fragment"}
# %%writefile buffers.py
import numpy as np
from mpi4py import MPI


class Pair:
    """Two buffers, used in turn: one is filled while the other one is in use."""

    def __init__(self, length):
        self.buffers, self.turn = np.empty((2, length)), 0
        self.requests = [MPI.REQUEST_NULL] * 2  # what is under way with each buffer

    def next(self):
        """Wait until the other buffer is free, and turn to it."""
        self.turn = 1 - self.turn
        self.requests[self.turn].Wait()
        return self.buffers[self.turn]


# %% slideshow={"slide_type": "fragment"}
# %%writefile ahead.py
import numpy as np
from buffers import Pair
from mpi4py import MPI

import ringside


def step(comm, layers=12, length=4096):
    shards = np.ones((layers, length // comm.size))
    weights, gradients, summed = Pair(length), Pair(length), np.empty_like(shards)
    order = [*range(layers), *reversed(range(layers))]
    coming = comm.Iallgather(shards[order[0]], weights.next())
    for turn, k in enumerate(order):
        coming.Wait()
        if turn + 1 < len(order):
            coming = comm.Iallgather(shards[order[turn + 1]], weights.next())
        compute(comm, k, turn < layers, gradients, summed)
    MPI.Request.Waitall(gradients.requests)
    return summed / comm.size


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a ahead.py


def compute(comm, k, is_forward, gradients, summed):
    """One pass of one layer; in the backward pass its gradients begin to travel."""
    if is_forward:
        ringside.compute(seconds=40e-6, phase=f"forward {k}")
        return
    ringside.compute(seconds=80e-6, phase=f"backward {k}")
    gradient = gradients.next()
    gradient[:] = comm.rank + k
    request = comm.Ireduce_scatter_block(gradient, summed[k])
    gradients.requests[gradients.turn] = request


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "07/ahead", "Without prefetch 993 µs are exposed. How many µs stay exposed with it?", unit="µs"
)

# %% slideshow={"slide_type": "slide"}
ahead = ringside.run("ahead.py:step", 4)
print(f"a step takes {1e6 * ahead.makespan_s:.0f} µs, "
      f"{exposed_us(ahead):.0f} µs are exposed")  # fmt: skip
ahead.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("07/ahead", exposed_us(ahead))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. Stage 3 with prefetch. Only the first all-gather and the last reduce-scatter are exposed.*
#
# Exposed time: 55 µs. The first all-gather has no computation before it, the last reduce-scatter none behind
# it, and you have hidden everything else. Where have you seen 55 µs before? In lecture 5, DDP couldn't hide
# the all-reduce of the first layer. **It is the same all-reduce.** Its first half still stands at the end
# of the step. Its second half has moved to the beginning of the next step. So you send half as many bytes
# again as DDP and take exactly as long, because what you added is hidden.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(exposed_us(ahead)) == 55 and round(exposed_us(ahead) / 2) == 28
assert (ahead.timeline.bytes_matrix == on_demand.timeline.bytes_matrix).all()
for rank in range(4):
    np.testing.assert_allclose(ahead.values[rank], on_demand.values[rank])
assert abs(exposed_us(ahead) - 2 * 3 * (1 + 4096 * 8 / 4 / 1000)) < 0.1  # a ring all-reduce

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same in PyTorch
#
# `async_op=True` returns a work handle, as in lecture 5. PyTorch keeps a tensor alive while it travels, so
# you manage no second pair of buffers.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ahead_torch.py
import torch
import torch.distributed as dist

import ringside


def step(group, layers=12, length=4096):
    shards = torch.ones(layers, length // group.size(), dtype=torch.float64)
    order, works = [*range(layers), *reversed(range(layers))], []
    summed = torch.empty_like(shards)
    coming = unshard(shards[0], length)
    for turn, k in enumerate(order):
        in_use = arrived(*coming)  # the layer before it is released here
        if turn + 1 < len(order):
            coming = unshard(shards[order[turn + 1]], length)
        works += compute(in_use, k, turn < layers, summed, group.rank())
    for reduce in works:
        reduce.wait()
    return summed / group.size()


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a ahead_torch.py


def unshard(shard, length):
    whole = shard.new_empty(length)
    return whole, dist.all_gather_into_tensor(whole, shard, async_op=True)


def arrived(whole, work):
    work.wait()
    return whole


def compute(in_use, k, is_forward, summed, rank):
    """One pass of one layer; in the backward pass its gradients begin to travel."""
    if is_forward:
        ringside.compute(seconds=40e-6, phase=f"forward {k}")
        return []
    ringside.compute(seconds=80e-6, phase=f"backward {k}")
    gradient = torch.full_like(in_use, rank + k)
    return [dist.reduce_scatter_tensor(summed[k], gradient, async_op=True)]


# %% slideshow={"slide_type": "fragment"}
# Let only declared time count, so that both programs compute for equally long.
declared = Machine.load("textbook").with_(flop_per_s=1e30, memory_bytes_per_s=1e30)
ahead_torch = ringside.run("ahead_torch.py:step", 4, machine=declared)
print(f"a step takes {1e6 * ahead_torch.makespan_s:.0f} µs, "
      f"{exposed_us(ahead_torch):.0f} µs are exposed")  # fmt: skip

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (ahead_torch.timeline.bytes_matrix == ahead.timeline.bytes_matrix).all()
assert abs(ahead_torch.makespan_s - ahead.makespan_s) < 1e-6
np.testing.assert_allclose(np.asarray(ahead_torch.values[1]), ahead.values[1])

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "How many layers are whole on a rank at any time?" Two: the one in use and the one that
# comes. "Why not all-gather three ahead?" It would cost memory and gain nothing here; puzzle 1 has a
# network in which it does gain. *Where classes stumble:* the two buffers. Let somebody play
# `weights.next()` with two sheets of paper.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 6. `fully_shard`, and the same by hand
#
# Who writes such a program for a real network? In PyTorch you don't have to: stage 3 is called FSDP, *fully
# sharded data parallel*. Its present form, FSDP2, is a function, `fully_shard(module)`. It shards each
# parameter along its first dimension and keeps this rank's rows. A parameter becomes a `DTensor`, a tensor
# that knows how it is sharded. Hooks all-gather the module before it runs, and reshard it afterwards.
#
# Each module that you pass is one unit: it is all-gathered as a whole. So call `fully_shard` for each layer
# first, and then for the network, which takes what is left. The example has four layers
# $\tanh(Wx)$ with matrices of 64 x 64.

# %% slideshow={"slide_type": "fragment"}
# %%writefile stack.py
import torch
from torch import nn


class Stack(nn.Module):
    """Layers of tanh(W x), with square matrices."""

    def __init__(self, layers=4, width=64):
        super().__init__()
        torch.manual_seed(0)
        linear = (nn.Linear(width, width, bias=False, dtype=torch.float64) for _ in range(layers))
        self.layers = nn.ModuleList(linear)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


# %% slideshow={"slide_type": "fragment"}
# %%writefile fsdp.py
import torch
from stack import Stack
from torch.distributed.fsdp import fully_shard


def step(group, reshard_after_forward=True, mesh=None):
    net = Stack()
    for layer in net.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=reshard_after_forward)
    fully_shard(net, mesh=mesh)
    x = torch.full((2, 64), 1.0 + group.rank(), dtype=torch.float64)
    net(x).sum().backward()
    return [parameter.grad.to_local() for parameter in net.parameters()]


# %% slideshow={"slide_type": "fragment"}
fsdp = ringside.run("fsdp.py:step", 4)
SHORT = {"allgather": "all-gather", "reduce_scatter": "reduce-scatter"}
order = [SHORT[record.name] for record in fsdp.collectives]
print("forward: ", ", ".join(order[:4]))
print("backward:", ", ".join(order[4:8]))
print("         ", ", ".join(order[8:]))
stack_bytes = 4 * 64 * 64 * 8
print(f"a rank sends {sent_by(fsdp) / stack_bytes:.2f} Psi")
print("shape of a gradient on rank 1:", fsdp.values[1][0].shape)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You see twelve collectives, three for each layer, and $3\Psi\,(p-1)/p$ bytes. Look at their order in the
# backward pass: the next layer is all-gathered before the gradients of this layer are reduced. So FSDP2
# prefetches. On rank 1, the gradient of a matrix has 16 of the 64 rows.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now write the same by hand. A layer computes $y = \tanh(W x)$, so you can write its backward pass yourself,
# and need no hook. Let $u = \partial\,\text{loss}/\partial y$ (in the program, `upstream`) and
# $v = u\,(1 - y^2)$ (`inside`). The gradient of $W$ is $v\,x^\mathsf{T}$, and what goes on to the layer below
# is $W^\mathsf{T} v$.

# %% slideshow={"slide_type": "fragment"}
# %%writefile by_rows.py
import torch.distributed as dist


def unshard(shard, p):
    """All rows of a matrix, of which each rank has some."""
    whole = shard.new_empty(shard.shape[0] * p, shard.shape[1])
    dist.all_gather_into_tensor(whole, shard)
    return whole


def reduce_scatter(whole, p):
    """This rank's rows of the mean over all ranks."""
    shard = whole.new_empty(whole.shape[0] // p, whole.shape[1])
    dist.reduce_scatter_tensor(shard, whole)
    return shard / p


# %% slideshow={"slide_type": "fragment"}
# %%writefile by_hand.py
import torch
from by_rows import reduce_scatter, unshard
from stack import Stack


def step(group):
    p, rank = group.size(), group.rank()
    shards = [layer.weight.detach().chunk(p)[rank].clone() for layer in Stack().layers]
    outputs = [torch.full((2, 64), 1.0 + rank, dtype=torch.float64)]
    for shard in shards:
        outputs.append(torch.tanh(outputs[-1] @ unshard(shard, p).T))  # b
    upstream, gradients = torch.ones_like(outputs[-1]), []
    for shard in reversed(shards):
        weight = unshard(shard, p)  # c
        inside = upstream * (1 - outputs.pop() ** 2)
        gradients.insert(0, reduce_scatter(inside.T @ outputs[-1], p))  # d
        upstream = inside @ weight
    return gradients


# %% slideshow={"slide_type": "fragment"}
by_hand = ringside.run("by_hand.py:step", 4)
same_bytes = (by_hand.timeline.bytes_matrix == fsdp.timeline.bytes_matrix).all()
gap = max(float(np.abs(np.asarray(a) - np.asarray(b)).max())
          for a, b in zip(by_hand.values[2], fsdp.values[2]))  # fmt: skip
print("same bytes from each rank to each other:", bool(same_bytes))
print(f"largest difference of a gradient: {gap:.0e}")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert same_bytes and gap < 1e-12
assert (fsdp.timeline.bytes_matrix.sum(axis=1) / stack_bytes).tolist() == [2.25] * 4
assert [record.name for record in fsdp.collectives].count("reduce_scatter") == 4
assert len(fsdp.collectives) == 12 and order[4:7] == [*["all-gather"] * 2, "reduce-scatter"]
assert stack_bytes == 64 * 64 * 8 * 4 and tuple(fsdp.values[1][0].shape) == (16, 64)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Your program and FSDP2 agree in every byte, and in the gradients to rounding. Line by line:
#
# | by hand | what `fully_shard` does |
# |---|---|
# | `chunk(p)[rank]`: keep this rank's rows | each parameter becomes a `DTensor` with the placement `Shard(0)`; uneven rows are padded |
# | b: all-gather before the forward pass | a hook before `forward` all-gathers all parameters of the module in one collective |
# | b: the whole matrix has no name, so Python releases it after the product | a hook after `forward` reshards, unless `reshard_after_forward=False` |
# | c: all-gather before the backward pass | a hook on the module's output, which autograd reaches first, all-gathers again, and starts the all-gather of the module before it |
# | d: reduce-scatter, divided by $p$ | a hook on the module's input; the gradient goes into `.grad` as a `DTensor` |
# | the shards are plain tensors | the optimizer gets the `DTensor`s and updates the local rows; that is all of stage 1 |
#
# You may clip the gradients, too: `clip_grad_norm_` sees `DTensor`s and sums over all ranks.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Where are the 2 and the 4 bytes?** Our layers are all in one precision. For mixed precision you pass
# `mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16)`. The shard itself then stays in 32 bits: it is the
# master weight of section 2. FSDP2 casts it to 16 bits before each all-gather, so a 16-bit weight exists only
# while its layer is whole [10]. The shard of the gradient is in 32 bits, too. So a rank keeps $4 + 4 + 8 = 16$ bytes a
# parameter over $p$: the same sum, from other parts. With `reduce_dtype=torch.float32` you also *sum* gradients in 32
# bits, and pay for it with twice the bytes of the reduce-scatter.
#
# **A model that doesn't fit** can't be made whole before it is sharded. Make it under `torch.device("meta")`,
# which gives a parameter its shape and no memory. Shard it, and call `to_empty`: now you have memory for
# the shards alone, and initialize them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **An option that changes the bytes.** With `reshard_after_forward=False` the weights stay whole after the
# forward pass, so you need no second all-gather. From there on this is stage 2.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/kept-weights", "fully_shard sends 2.25 Psi on four ranks. How many Psi does a rank send with "
      "reshard_after_forward=False?", unit="Psi")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
kept = ringside.run("fsdp.py:step", 4, (False,))
kept_psi = sent_by(kept) / stack_bytes
print(f"a rank sends {kept_psi:.2f} Psi")
reveal("07/kept-weights", kept_psi)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You send 1.5 $\Psi$, as much as DDP. You pay with memory: at the end of the forward pass all weights are
# whole.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **How PyTorch overlaps.** Does FSDP2 hide its all-gathers? On a GPU it starts its collectives on *streams* of
# their own. A stream is a queue of work for the GPU. The program on the CPU runs ahead, so the all-gather of
# the next layer is in its queue before the GPU has finished this layer. Tensors on a CPU have no streams, so
# on our network each collective of `fully_shard` waits. Take its bytes from here, and the overlap from
# programs such as `ahead.py`.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert kept_psi == 1.5 == 2 * 3 / kept.world_size

# %% [markdown] slideshow={"slide_type": "notes"}
# Show `by_hand.py` and let the class find lines b, c and d before the table appears. *What
# to ask.* "What happens if you call `fully_shard(net)` alone, and not for the layers?" One all-gather of
# everything: the bytes are even fewer, and the memory is that of stage 2. Puzzle 2 is about this.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 7. Shards inside a node, copies between nodes
#
# The links inside a node are fast, those between nodes are slow. Must every all-gather cross both? In *HSDP*,
# hybrid sharding, the $p$ ranks form a grid: the $G$ ranks of a group share one copy, and the $p/G$ groups
# hold equal copies. A rank sends
#
# $$\underbrace{3\,\Psi w\,\frac{G-1}{G}}_{\text{inside the group}} \;+\;
#   \underbrace{2\,\frac{\Psi w}{G}\,\frac{p/G-1}{p/G}}_{\text{between the groups}} .$$
#
# The second term is an all-reduce of the gradient's shard, with the ranks that hold the same shard. A rank sends $1/G$
# of what it sends in an all-reduce of all gradients. If the $G$ ranks of a node share one port, the node still sends
# all of it. You pay with memory: a rank keeps $16\,\Psi/G$ bytes
# instead of $16\,\Psi/p$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In PyTorch, a *device mesh* gives the grid its names. You pass `fully_shard` a mesh of two dimensions, and it
# does the rest. Here are 8 ranks in two nodes of four.

# %% slideshow={"slide_type": "fragment"}
# %%writefile hybrid.py
import fsdp
from torch.distributed.device_mesh import init_device_mesh


def step(group, copies, shards):
    names = ("copies", "shards")
    mesh = init_device_mesh("cpu", (copies, shards), mesh_dim_names=names)
    return fsdp.step(group, mesh=mesh if copies > 1 else mesh["shards"])


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/between-nodes", "The flat form shards over all 8 ranks; HSDP over the 4 of a node. "
      "How many bytes leave a node in the flat form, for each byte in HSDP?", unit="bytes")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def leaves_node(run):
    """Bytes from ranks 0 to 3 to ranks 4 to 7."""
    return run.timeline.bytes_matrix[:4, 4:].sum()


flat = ringside.run("hybrid.py:step", 8, (1, 8), machine="zaratan")
hsdp = ringside.run("hybrid.py:step", 8, (2, 4), machine="zaratan")
for name, run in (("flat", flat), ("HSDP", hsdp)):
    print(f"{name}: a rank sends {sent_by(run) / stack_bytes:.2f} Psi, "
          f"{leaves_node(run) / stack_bytes:.2f} Psi leave a node")  # fmt: skip
reveal("07/between-nodes", leaves_node(flat) / leaves_node(hsdp))

# %% [markdown] slideshow={"slide_type": "fragment"}
# | bytes, in $\Psi$ | a rank sends | leave a node |
# |---|---:|---:|
# | flat: 8 shards | 2.62 | 2.62 |
# | HSDP: 4 shards, 2 copies | 2.5 | 1.0 |
#
# You send hardly fewer bytes with HSDP. But less than half of them cross the slow link, and all of those are
# gradients. In the flat form the ring crosses to the next node once, from the node's last rank,
# so all that this rank sends leaves the node. The all-gathers of HSDP stay inside, where a byte takes an
# eighth of the time.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
zaratan = Machine.load("zaratan")
flat_psi, hsdp_psi = sent_by(flat) / stack_bytes, sent_by(hsdp) / stack_bytes
assert abs(flat_psi - 3 * 7 / 8) < 0.001 and round(3 * 7 / 8 - 0.005, 2) == 2.62
assert abs(hsdp_psi - (3 * 3 / 4 + 2 / 4 * 1 / 2)) < 0.001 and abs(hsdp_psi - 2.5) < 0.001
assert leaves_node(hsdp) < leaves_node(flat) / 2
assert abs(leaves_node(hsdp) / stack_bytes - 1.0) < 0.001
assert abs(leaves_node(flat) / stack_bytes - flat_psi) < 0.001
assert round(zaratan.link(0, 4).beta_s_per_byte / zaratan.link(0, 1).beta_s_per_byte) == 8
for one, other in zip(flat.values[0], hsdp.values[0]):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other)[: len(one)], rtol=1e-9)

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "When is the flat form better?" When $16\,\Psi/G$ doesn't fit, and when the all-gathers
# between the nodes hide anyway. *Where classes stumble:* which ranks form a group. On `zaratan` ranks 0
# to 3 are a node. If the mesh is the other way round, the all-gathers go between the nodes, all values
# are right, and only the bytes tell.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 8. Back to the 33.9 gigabytes
#
# Will the all-gathers of the real GPT hide? You all-gather a layer of $\Psi_l$ parameters while you compute
# another one, on $T$ tokens. Lecture 5 found how many tokens hide an all-reduce. Now there is one condition for
# each pass:
#
# - *Forward:* the all-gather of $\Psi_l\,w\,\frac{p-1}{p}$ bytes hides behind $2\,\Psi_l\,T$ FLOP.
# - *Backward:* the all-gather and the reduce-scatter, twice as many bytes, hide behind $6\,\Psi_l\,T$ FLOP.
#   These are $4\,\Psi_l\,T$ for the gradients and $2\,\Psi_l\,T$ because the course's GPT computes each layer
#   forward once more (section 9).
#
# A byte needs $1/\beta'$ seconds, in which a GPU does $F/\beta'$ FLOP. So the parameters cancel, and what is
# left is a number of *tokens on a GPU*:
#
# $$T_{\text{forward}} \;\ge\; \frac{w}{2}\,\frac{F}{\beta'}\,\frac{p-1}{p}, \qquad
#   T_{\text{backward}} \;\ge\; \frac{2\,w}{6}\,\frac{F}{\beta'}\,\frac{p-1}{p} .$$
#
# The kit's `work_to_hide` computes the FLOP that hide so many bytes. Its machine is the cluster of the ledger:
# each node of four GPUs has one port of 12.5 GB/s.

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures import course_machine, course_trace, ledger, work_to_hide

bytes_of_a_parameter = 2 * 31 / 32  # w = 2, p = 32
forward_tokens = work_to_hide(bytes_of_a_parameter) / 2
backward_tokens = work_to_hide(2 * bytes_of_a_parameter) / 6
for name, tokens in (("forward", forward_tokens), ("backward", backward_tokens)):
    print(f"{name}: {tokens:,.0f} tokens, {tokens / 2048:.1f} sequences of 2048")
most_gpus = 1 + int(512 * 2048 / (work_to_hide(2) / 2))
print(f"512 sequences in a batch: at most {most_gpus} GPUs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# To hide the all-gathers you need 10,617 tokens on a GPU in the forward pass. In the backward pass you need 7,078, as
# DDP did in lecture 5. The GPU of the ledger has 16,384, in eight sequences. So you expect that no
# all-gather is exposed but the first.
#
# **How many GPUs can you use?** The number of parameters isn't in the condition: a larger model takes longer to send
# and as much longer to compute. A batch has $pT$ tokens, so the *batch* sets the limit. Put $T = \text{batch}/p$
# into the first condition:
#
# $$p \;\le\; 1 + \text{batch}\, \Big/ \left(\frac{w}{2}\,\frac{F}{\beta'}\right) .$$
#
# With 512 sequences that is 96 GPUs of this cluster, on one port of 12.5 GB/s a node. Accumulating gradients doesn't
# help, since each microbatch all-gathers again: only tokens of the *same* microbatch count. What does?
#
# - *Keep the all-gathers inside a node* (HSDP, section 7). The gradients' all-reduce still goes through the node's port,
#   $2\,\Psi w$ bytes behind $6\,\Psi T$ FLOP. So you reach 144 GPUs.
# - *A larger batch* (lecture 6), or *tensor parallelism* (lecture 8), which sends activations instead of weights.
# - *Another machine.* On nodes of eight H100 with eight ports of 48 GB/s the forward pass needs 2,495 tokens at the
#   peak, little more than one sequence. A GPU has 7 times the arithmetic, but a node has 31 times the bandwidth.
#
# **A mixture of experts** (lecture 14) is an exception. An all-gather moves all weights of a layer, but a token is
# computed with a few of them. DeepSeek-V3 has 671 billion parameters, and a token uses 37. So it would need 18 times the
# tokens. That is why experts stay where they are, and tokens travel.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
enough = [512 * 2048 / gpus >= work_to_hide(2 * (gpus - 1) / gpus) / 2 for gpus in (96, 97)]
assert enough == [True, False] and most_gpus == 96 and 8 * 2048 == 16384
fits = [n for n in range(2, 99) if 512 * 2048 / (4 * n) >= work_to_hide(2 * 2 * (n - 1) / n) / 6]
assert 4 * max(fits) == 144  # HSDP on nodes of four: a node sends what one rank of it would alone
h100 = Machine.load("dgx_h100")
node = 8 / h100.beta_s_per_byte  # bytes a second through eight ports, 48 GB/s each
assert round(1e-9 / h100.beta_s_per_byte) == 48 and h100.ranks_per_node == 8
assert round(h100.flop_per_s / node * 31 / 32) == 2495 and round(671 / 37) == 18
assert round(node / 12.5e9) == 31 and round(h100.flop_per_s / course_machine().flop_per_s) == 7
assert 1 / course_machine().beta_s_per_byte == 12.5e9 and course_machine().gpus_per_nic == 4
assert round(forward_tokens) == 10617 and round(forward_tokens / 2048, 1) == 5.2
assert round(backward_tokens) == 7078 and backward_tokens < forward_tokens < 8 * 2048

# %% [markdown] slideshow={"slide_type": "subslide"}
# Check it on the full GPT. Here is the part of the program that differs from `ahead.py`. `layers` holds
# this rank's shards of all layers: `gather` starts an all-gather, `reduce` a reduce-scatter, and `views`
# gives the whole layer its names back. One detail: token and position embeddings and the last norm are
# used at both ends of a step, so they are all-gathered once and stay whole (`rest`).

# %% slideshow={"slide_type": "fragment"}
program = Path(ringside.course.lectures.__file__).parent / "programs" / "sharded_gpt.py"


def excerpt(first, last):
    """The lines of the program from the one that has ``first`` to the one that has ``last``."""
    lines = program.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines[start:], start) if last in line)
    return textwrap.dedent("\n".join(lines[start : end + 1]))


print(excerpt("def gathered", "return whole"), end="\n\n")
print(excerpt("with torch.no_grad", "inputs.append"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The backward pass goes through the layers in reverse. You keep only the input of each layer, so a layer runs
# forward once more (`y = ...`) before its gradients. At most two layers' gradients exist at a time.

# %% slideshow={"slide_type": "fragment"}
print(excerpt("for number in range(last, -1", "layers.reduce(number, flat)"))

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/gpt-memory", "32 GPUs, everything in shards. How many GB does a GPU need at most, "
      "instead of 33.9?", unit="GB")  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/gpt-exposed", "Line 05 waits for the all-reduces of layer 0 and of the token embedding. "
      "For how many ms does the sharded GPT wait in a step?",
      unit="ms")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def sharded(sequences, prefetch=True):
    """Trace the sharded GPT on 32 GPUs; its timeline, and the most memory of a GPU."""
    traced = course_trace(f"{program}:step", 32, (sequences, prefetch),
                          grid={"dp": 32}, alike=("dp",))  # fmt: skip
    return ringside.replay(traced.trace, course_machine()), traced.memory[0]["peak"]


timeline, peak_bytes = sharded(8)
sharded_ms = 1e3 * (timeline.makespan_s - max(timeline.busy_s))
print(f"{peak_bytes / 1e9:.1f} GB, a step of {timeline.makespan_s:.2f} s, "
      f"{sharded_ms:.0f} ms exposed")  # fmt: skip
reveal("07/gpt-memory", peak_bytes / 1e9)
reveal("07/gpt-exposed", sharded_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **8.8 GB instead of 33.9, and the same 58 ms exposed.** Why the same? DDP couldn't hide two all-reduces, those of
# layer 0 and of the token embedding. Each of them has two halves. You still wait for their
# reduce-scatters at the end of the step, and for their all-gathers at its beginning.
#
# | on 32 GPUs | memory | a step | exposed |
# |---|---:|---:|---:|
# | line 05: DDP | 33.9 GB | 1.85 s | 58 ms |
# | stage 3, prefetch | 8.8 GB | 1.85 s | 58 ms |
# | stage 3, no prefetch | 8.7 GB | 2.54 s | 746 ms |
#
# Prefetch costs you the memory of one more whole layer. Of your 8.8 GB only 0.8 GB are shards of the states. The
# rest is what each GPU computes from its own samples, and two layers that are whole. The ledger has a new line:

# %% slideshow={"slide_type": "fragment"} tags=["explanation"]
ledger("07", gpus=32, step_s=timeline.makespan_s, exposed_s=sharded_ms / 1e3,
       memory_bytes=peak_bytes)  # fmt: skip

# %% slideshow={"slide_type": "skip"} tags=["checked"]
slow, slow_peak = sharded(8, prefetch=False)
slow_ms = 1e3 * (slow.makespan_s - max(slow.busy_s))
assert round(timeline.makespan_s, 2) == round(line05.step_s, 2) == 1.85
assert round(slow_peak / 1e9, 1) == 8.7 and peak_bytes > slow_peak
assert round(peak_bytes / 1e9, 1) == 8.8 and round(sharded_ms) == 58
assert abs(timeline.makespan_s / line05.step_s - 1) < 0.001
assert round(line05.exposed_s * 1e3) == 58 and peak_bytes < 0.27 * line05.memory_bytes
assert round(16 * num_parameters() / 32 / 1e9, 1) == 0.8
beta = course_machine().beta_s_per_byte
unhidden = 2 * (12 * 2304**2 + 13 * 2304 + (51200 + 2048 + 2) * 2304)  # a layer, and the words
assert abs(sharded_ms - 2 * 1e3 * 31 / 32 * unhidden * beta) < 1
assert round(slow.makespan_s, 2) == 2.54 and round(slow_ms) == 746

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
exposed_of, peak_of = {8: sharded_ms}, {8: peak_bytes}
for sequences in (1, 2, 4):
    run, peak_of[sequences] = sharded(sequences)
    exposed_of[sequences] = 1e3 * (run.makespan_s - max(run.busy_s))
share_of = {sequences: ms / (ms + 224 * sequences) for sequences, ms in exposed_of.items()}

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7, 3.2))
counts = sorted(exposed_of)
axis.plot(counts, [exposed_of[count] for count in counts], "o-", color="#b56576")
axis.axvline(forward_tokens / 2048, color="#999999", lw=1)
axis.text(forward_tokens / 2048 + 0.1, 430, "forward all-gathers\nhide from here", fontsize=10)
axis.axvline(backward_tokens / 2048, color="#999999", lw=1, ls=":")
axis.text(backward_tokens / 2048 - 0.1, 500, "backward", fontsize=10, ha="right")
axis.set(xlabel="sequences on each GPU", ylabel="exposed in each step (ms)", ylim=(0, None))
show(figure, "Exposed milliseconds of the sharded GPT's step on 32 GPUs against 1, 2, 4 and 8 sequences "
     "on each GPU. The line falls to 58 at 8. Two upright lines mark where the backward "
     "all-gathers, at 3.5 sequences, and the forward ones, at 5.2, begin to hide.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Exposed time of a step against the sequences on each GPU. Left of the upright lines the network falls
# behind.*
#
# With one sequence on each GPU you wait longer than you compute. **Sharding leaves you memory for more sequences, and
# more sequences hide its messages.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert share_of[1] > 0.5 and exposed_of[1] > exposed_of[2] > exposed_of[4] > exposed_of[8]
assert abs(1e3 * max(timeline.busy_s) / 8 - 224) < 0.1 and round(backward_tokens / 2048, 1) == 3.5

# %% [markdown] slideshow={"slide_type": "notes"}
# Freeze Figure 5 and ask: "Your next network is twice as fast. Where do the upright lines
# go?" To half. *Where classes stumble:* the 58 ms look like a coincidence. Draw the two steps side by
# side: reduce-scatter at the end of one, all-gather at the beginning of the next.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=2 minutes=15
# ## 9. What is left: activations
#
# What are the other 8 GB? Trace fewer sequences, and you find that 1.7 GB don't depend on the batch: the shards, and the
# weights and gradients that are whole for a while. The rest grows by 0.89 GB with each sequence.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
per_sequence = (peak_of[8] - peak_of[4]) / 4 / 1e9
shards_gb = 16 * num_parameters() / 32 / 1e9
whole_gb = peak_of[8] / 1e9 - 8 * per_sequence - shards_gb
bars = {"line 05: DDP": (alike_gb, 0, held_gb - alike_gb),
        "stage 3": (shards_gb, whole_gb, 8 * per_sequence)}  # fmt: skip
hues = {"model states": "#0072b2", "weights and gradients that are whole for a while": "#56b4e9",
        "what belongs to the samples": "#e69f00"}  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 2.2))
for row, parts in enumerate(bars.values()):
    axis.barh([row] * 3, parts, 0.6, np.cumsum((0, *parts[:2])), color=hues.values())
axis.set_yticks([0, 1], list(bars))
axis.invert_yaxis()
axis.set(xlabel="GB on each GPU at the peak", xlim=(0, 36))
keys = [plt.Rectangle((0, 0), 1, 1, color=hue) for hue in hues.values()]
axis.legend(keys, list(hues), frameon=False, loc="lower right")
show(figure, f"Two bars. DDP: {alike_gb:.1f} GB of states and {held_gb - alike_gb:.1f} of the samples. "
     f"Stage 3: {shards_gb:.1f}, {whole_gb:.1f} and {8 * per_sequence:.1f} GB.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. What fills the memory of a GPU. Sharding takes the states away; what belongs to the samples stays.*
#
# *Activations* are what the forward pass keeps for the backward pass. They belong to the
# samples, so no sharding of states makes them smaller. Korthikanti and others counted them for a layer of
# a transformer [3]. Every row is in units of $s\,b\,h$, the numbers of one tensor between two layers.
# A number has 2 bytes, and a mask of a dropout has 1.
#
# | part | keeps | bytes |
# |---|---|---:|
# | two layer norms | their inputs | 4 |
# | attention: one product for Q, K and V | its input | 2 |
# | attention: the scores | Q and K | 4 |
# | attention: softmax, its dropout, times V | result and mask; result of the dropout; V | $\frac{5as}{h} + 2$ |
# | attention: output projection, its dropout | its input; mask | 2 + 1 |
# | MLP: first product | its input | 2 |
# | MLP: GELU, second product | their inputs, four times as wide | 8 + 8 |
# | MLP: dropout | mask | 1 |
#
# $$\text{bytes of a layer} = s\,b\,h\left(34 + 5\,\frac{a\,s}{h}\right)$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# What does the formula assume? Numbers of 16 bits, dropout in three places, and an attention that stores its
# scores. The layer of our GPT has no dropout: without it, two masks and three of the five parts of the
# scores go away, and $32 + 2as/h$ are left. You needn't believe it. PyTorch tells you, because a hook sees
# every tensor that autograd keeps.

# %% slideshow={"slide_type": "fragment"}
# %%writefile kept_by_autograd.py
import torch

from ringside.course.lectures.course_gpt import Layer


def count(group, width, heads, sequence, batch):
    torch.set_default_dtype(torch.bfloat16)
    layer, kept = Layer(width, heads), {}
    own = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}

    def keep(tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in own:
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(torch.randn(batch, sequence, width).requires_grad_())
    return sum(kept.values()) / (sequence * batch * width)


# %% slideshow={"slide_type": "fragment"}
counted = ringside.run("kept_by_autograd.py:count", 1, (256, 8, 64, 8)).values[0]
print(f"counted {counted:.2f}, formula {32 + 2 * 8 * 64 / 256:.2f} (times s b h)")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You count 36.06 where the formula says 36. The difference is the attention's mask and the statistics of the layer
# norms. Now our GPT at eight sequences: $s = 2048$, $b = 8$, $h = 2304$, $a = 24$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(counted, 2) == 36.06 and 32 + 2 * 8 * 64 / 256 == 36

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/activations", "24 layers without dropout, all activations kept. How many GB on each GPU?",
      unit="GB")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
S, B, H, A, LAYERS = 2048, 8, 2304, 24, 24
layer_gb = S * B * H * (32 + 2 * A * S / H) / 1e9
input_gb = S * B * H * 2 / 1e9
print(f"a layer {layer_gb:.2f} GB, its input alone {input_gb:.3f} GB")
print(f"24 layers {LAYERS * layer_gb:.1f} GB, their inputs {LAYERS * input_gb:.1f} GB")
reveal("07/activations", LAYERS * layer_gb)

# %% [markdown] slideshow={"slide_type": "fragment"}
# 67.6 GB: for eight sequences you need more memory for activations than a GPU of the cluster has. Most of it, 57 %,
# are the scores of the attention, which grow with $s^2$.
#
# **Activation checkpointing** keeps the input of each layer only, $2\,s\,b\,h$ bytes, and computes the rest again
# when the backward pass arrives. Inputs of 24 layers are 1.8 GB, and one layer at a time needs 2.8 GB more.
# *The price:* each layer runs forward twice. Forward takes 2 FLOP for a parameter and token, backward 4, so
# you do 8 instead of 6, a third more. Our ledger has paid this price since its first line.
#
# **Selective checkpointing** recomputes only the scores. They are most of the memory and a small part of the FLOP.
# Kernels that never store the scores, such as FlashAttention, do the same inside one operation, and nearly all
# programs of 2026 use one. Then $32\,s\,b\,h$ are left, 29.0 GB for our 24 layers. Look at what this changes:
#
# | on a GPU of 42.4 GB | states | activations, none recomputed | fits |
# |---|---:|---:|---|
# | DDP | 26.4 GB | 29.0 GB | no |
# | stage 3 on 32 GPUs | 0.8 GB | 29.0 GB | yes |
#
# With stage 3 you needn't recompute: 6 FLOP instead of 8, so 1.34 s of computing instead of 1.79. **Memory that you
# save can buy time.** (The course's ledger goes on without this kernel, since its first line had none.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
grows = [(peak_of[n] - peak_of[n // 2]) / (n / 2) / 1e9 for n in (4, 8)]
assert {round(gb, 2) for gb in grows} == {0.89} and round(peak_of[8] / 1e9 - 8 * grows[1], 1) == 1.7
assert round(LAYERS * layer_gb, 1) == 67.6 and LAYERS * layer_gb > 2 * alike_gb
assert round(2 * A * S / H / (32 + 2 * A * S / H), 2) == 0.57
assert round(LAYERS * input_gb, 1) == 1.8 and round(layer_gb, 1) == 2.8
assert round(peak_bytes / 1e9 - 16 * num_parameters() / 32 / 1e9) == 8
flash_gb = LAYERS * 32 * S * B * H / 1e9
assert round(flash_gb, 1) == 29.0 and flash_gb + alike_gb > 42.4 > flash_gb + 0.8 + 1.7
assert round(6 / 8 * 1.79, 2) == 1.34 and round(max(timeline.busy_s), 2) == 1.79
assert LAYERS == 24 and LAYERS * (input_gb + layer_gb) > 42.4 and round(alike_gb, 1) == 26.4

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "A sequence twice as long: what happens to the two terms?" The first doubles, the second
# becomes four times as large. *Where classes stumble:* $a s / h$ looks small. Put in the numbers: it is
# 21 for our GPT. If you have an hour more, let the class find each row of the table in
# `course_gpt.py`.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 10. Optimizers that need whole matrices
#
# Adam updates each number by itself, so you may split a matrix anywhere. Is every optimizer like this? *Muon* isn't.
# It keeps one running mean for each matrix, the *momentum*. Its update is not the momentum itself but the nearest
# matrix whose rows are orthonormal, so each number of the update depends on the whole matrix. Biases, norms,
# embeddings and the output projection stay with Adam [8, 10].
#
# Why would you want it? Moonshot reported in 2025 that Muon reaches AdamW's loss with about half of the computation,
# and trained a mixture of experts of 16 billion parameters with it [6]. A study that tuned both
# optimizers found less: with Muon and its like a model of a billion parameters trains a tenth faster, and smaller
# ones gain more [12]. PyTorch has Muon as
# `torch.optim.Muon`, for parameters of two dimensions only [10].
#
# Muon finds the nearest matrix with matrix products alone. $X$ begins as the momentum divided by its norm, transposed
# if it has more rows than columns. Then come five *Newton-Schulz steps*:
#
# $$X \;\leftarrow\; 3.4445\,X \;-\; 4.7750\,(X X^\mathsf{T})\,X \;+\; 2.0315\,(X X^\mathsf{T})^2\,X .$$

# %% slideshow={"slide_type": "fragment"}
# %%writefile newton_schulz.py
import numpy as np


def orthogonal(matrix):
    """Almost the nearest matrix with orthonormal rows; with columns, if it is tall."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonal(matrix.T).T
    x = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (2.0315 * gram @ gram - 4.7750 * gram) @ x
    return x


def cost(shape):
    """FLOP of the five steps."""
    m, n = sorted(shape)
    return 5 * (4 * m * m * n + 2 * m**3)


# %% slideshow={"slide_type": "fragment"}
import torch
from newton_schulz import cost, orthogonal

momentum = np.random.default_rng(0).normal(size=(256, 256))
weight = torch.nn.Parameter(torch.zeros(256, 256))
weight.grad = torch.tensor(momentum, dtype=torch.float32)
torch.optim.Muon([weight], lr=1.0, weight_decay=0.0).step()
ours = orthogonal(momentum)
gap = np.linalg.norm(ours + weight.detach().numpy()) / np.linalg.norm(ours)
print(f"torch.optim.Muon, in 16 bits, differs from orthogonal() by {gap:.1%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your function and PyTorch's optimizer make the same update. The difference is rounding, because PyTorch multiplies
# in `bfloat16`. Five steps don't reach orthonormal rows exactly: most singular values end between 0.5 and 1.5
# instead of at 1. PyTorch's source says that this doesn't hurt a model [10].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from torch.optim import _muon

lengths = np.linalg.svd(ours, compute_uv=False)
assert np.mean((lengths > 0.5) & (lengths < 1.5)) > 0.8 and 0.001 < gap < 0.02
assert (_muon.DEFAULT_A, _muon.DEFAULT_B, _muon.DEFAULT_C) == (3.4445, -4.7750, 2.0315)
with np.testing.assert_raises(ValueError):
    torch.optim.Muon([torch.nn.Parameter(torch.zeros(256))])

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["derivation"]
# **What does Muon cost?** *Memory:* one running mean instead of two. With 16-bit weights and gradients and a 32-bit
# state you keep $2 + 2 + 4 + 4 = 12$ bytes a parameter instead of 16.
#
# *Work:* take $m$ rows and $n \ge m$ columns. The product $X X^\mathsf{T}$ costs $2m^2n$ FLOP, its square $2m^3$, and
# the last product with $X$ again $2m^2n$. Forward and backward pass cost $6\,mn$ for each token, if you recompute
# nothing. A batch has $pT$ tokens. So if each matrix is done *once*, Muon adds the share
#
# $$\frac{5\,(4m^2n + 2m^3)}{6\,mn\,pT} \;=\; \frac{5\,m}{pT} \quad\text{for } m = n .$$
#
# If *each rank* does every matrix, the share is $p$ times as large: $5\,m/T$. It depends only on the width and on the
# tokens of one GPU. Below are the four kinds of matrices of our GPT, with a batch of 512 sequences.

# %% slideshow={"slide_type": "fragment"}
WIDE = 2304
SHAPES = [(3 * WIDE, WIDE), (WIDE, WIDE), (4 * WIDE, WIDE), (WIDE, 4 * WIDE)] * 24
share = sum(map(cost, SHAPES)) / sum(6 * m * n * 512 * 2048 for m, n in SHAPES)
print("ranks  sequences each  each matrix once  every rank does all")
for ranks in (8, 32, 512):
    print(f"{ranks:5} {512 // ranks:15} {share:17.2%} {ranks * share:20.0%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# If each matrix is done once, you won't notice the work: it is 0.85 % of the passes. If all 512 ranks do it, it takes
# more than four times as long as the passes themselves. **So the question is not what Muon sends, but who owns a
# matrix.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * share, 2) == 0.85 and round(32 * share, 2) == 0.27 and 512 * share > 4
assert cost((64, 64)) * 6 == 5 * 64 * (6 * 64 * 64 * 6) and len(SHAPES) == 96
assert num_parameters() > sum(m * n for m, n in SHAPES) > 0.9 * num_parameters()

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Give each matrix an owner.** How do you do each matrix once? The reduce-scatter brings the whole gradient of a
# matrix to its owner. The owner updates it, and an all-gather sends the result to everyone. That is stage 1
# with shards that end where a matrix ends. Matrices differ in work, so `deal` takes the heaviest first and
# gives it to the rank with the least work so far.

# %% slideshow={"slide_type": "fragment"}
# %%writefile owners.py
import numpy as np
from newton_schulz import cost, orthogonal


def deal(shapes, p):
    """For each rank the numbers of its matrices, and its work."""
    owned, work = [[] for _ in range(p)], [0] * p
    for i in sorted(range(len(shapes)), key=lambda i: -cost(shapes[i])):
        rank = work.index(min(work))
        owned[rank].append(i)
        work[rank] += cost(shapes[i])
    return owned, work


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a owners.py


def step(comm, gradients):
    """The updates of all matrices, in the order of their owners, and this rank's work."""
    owned, work = deal([gradient.shape for gradient in gradients], comm.size)
    counts = [sum(gradients[i].size for i in mine) for mine in owned]
    flat = np.concatenate([gradients[i].ravel() for mine in owned for i in mine])
    own, start = np.empty(counts[comm.rank]), 0
    comm.Reduce_scatter(flat, own, counts)  # the whole sums of this rank's matrices
    for i in owned[comm.rank]:
        part = own[start : start + gradients[i].size]  # a view
        part[:] = orthogonal(part.reshape(gradients[i].shape)).ravel()
        start += part.size
    comm.Allgatherv(own, [flat, counts])
    return flat, work[comm.rank]


# %% [markdown] slideshow={"slide_type": "subslide"}
# The other program keeps everything on every rank, as DDP does. (To keep both short, they orthogonalize the gradient
# itself. The momentum stays with the owner and doesn't travel.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile duplicated.py
import numpy as np
from mpi4py import MPI
from newton_schulz import cost, orthogonal


def step(comm, gradients):
    for gradient in gradients:
        comm.Allreduce(MPI.IN_PLACE, gradient)
    updates = [orthogonal(gradient).ravel() for gradient in gradients]
    return np.concatenate(updates), sum(cost(gradient.shape) for gradient in gradients)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/owner-bytes", "Which program sends more bytes?",
      choices=["owners.py", "duplicated.py", "both the same"])  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def both_designs(shapes, ranks=4):
    """A run of each program, on the same random gradients."""
    random = np.random.default_rng(0)
    gradients = [([random.normal(size=shape) for shape in shapes],) for _ in range(ranks)]
    return [ringside.run(f"{name}.py:step", ranks, gradients) for name in ("owners", "duplicated")]


small = [(96, 32), (32, 32), (128, 32), (32, 128)] * 4  # a GPT of width 32 with 4 layers
designs = dict(zip(("owners.py", "duplicated.py"), both_designs(small)))
small_psi = 8 * sum(m * n for m, n in small)
for name, run in designs.items():
    work = max(value[1] for value in run.values) / sum(map(cost, small))
    print(f"{name:13} sends {sent_by(run) / small_psi:.2f} Psi, its busiest rank does "
          f"{work:.0%} of the Newton-Schulz steps")  # fmt: skip
owner_bytes, all_bytes = map(sent_by, designs.values())
reveal("07/owner-bytes", "both the same" if owner_bytes == all_bytes else "owners.py")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You send the same bytes with both, because this is section 3 once more: an all-reduce, or its two halves with the
# update between them. What the owners save is work. Each of your four ranks does a quarter of the Newton-Schulz
# steps, and no rank repeats what another has done.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
owners_run, all_run = designs.values()
assert owner_bytes == all_bytes == 2 * 3 / 4 * small_psi
assert (owners_run.timeline.bytes_matrix.sum() == all_run.timeline.bytes_matrix.sum()).all()
assert max(v[1] for v in owners_run.values) * 4 == sum(map(cost, small)) == all_run.values[0][1]
np.testing.assert_allclose(*[np.sort(run.values[2][0]) for run in designs.values()], rtol=1e-9)

# %% [markdown] slideshow={"slide_type": "subslide"}
# On four ranks the work came out even. Does it always? The GPT has 96 matrices of four kinds, and the projection to
# queries, keys and values costs 2.3 times as much as a square one.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/deal", "Assign the 96 matrices to 32 ranks, heaviest first. How much does the busiest rank work?",
      choices=["1.1 times the mean", "1.5 times the mean", "2.3 times the mean"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
from owners import deal

busiest = {}
for ranks in (8, 32, 128, 512):
    _, work = deal(SHAPES, ranks)
    busiest[ranks] = max(work) / np.mean(work)
    print(f"{ranks:3} ranks: the busiest has {busiest[ranks]:.2f} times the mean")
reveal("07/deal", f"{busiest[32]:.1f} times the mean")

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 32 ranks your busiest rank has 1.10 times the mean: three matrices a rank are enough to even out. With more ranks
# you run out of matrices. Of 512 ranks 416 own nothing, and the busiest has one large matrix, 6.86 times the mean.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(busiest[32], 2) == 1.10 and round(busiest[512], 2) == 6.86 and 512 - 96 == 416
assert round(cost(SHAPES[0]) / cost(SHAPES[1]), 1) == 2.3 and sum(w == 0 for w in work) == 416
assert len(SHAPES) / 32 == 3 and len(set(SHAPES)) == 4

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
ranks_shown = (8, 32, 512)
places = np.arange(len(ranks_shown)) * 3
added = {"dealt to owners": [100 * share * busiest[ranks] for ranks in ranks_shown],
         "done by every rank": [100 * share * ranks for ranks in ranks_shown]}  # fmt: skip

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.4, 3.3), layout="constrained")
passes = "forward and backward pass"
for offset, (name, more), hue in zip((0, 1), added.items(), ("#56b4e9", "#d55e00")):
    axis.bar(places + offset, 100, 0.85, color="#b0b0b0", label=passes)
    passes = None  # one entry in the legend
    axis.bar(places + offset, more, 0.85, bottom=100, color=hue, label=f"Newton-Schulz, {name}")
    for place, percent in zip(places, more):
        axis.text(place + offset, 106 + percent, f"+{percent:.2g} %" if percent < 100 else f"+{percent:.0f} %",
                  ha="center", fontsize=10)  # fmt: skip
axis.set_xticks(places + 0.5, [f"{ranks} ranks" for ranks in ranks_shown])
axis.set(ylabel="work of the busiest rank (%)", ylim=(0, 600))
axis.legend(frameon=False, loc="upper left")
show(figure, "Two stacked bars each for 8, 32 and 512 ranks: forward and backward pass, 100 %, and on top the "
     "Newton-Schulz steps. Dealt to owners they add 1 to 6 %. Done by every rank they add 7, 27 and "
     "438 %.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. Work of the busiest rank for a batch of 512 sequences; its forward and backward pass are 100 %. Owners keep
# Muon cheap even where most ranks own nothing.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(x) for x in added["done by every rank"]] == [7, 27, 438]
assert 0.8 < min(added["dealt to owners"]) < max(added["dealt to owners"]) < 6

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Four designs.** An owner needs a layout in which no matrix is split. FSDP and tensor parallelism split matrices. What
# can you do then? The third column counts numbers that travel in addition to those of section 4, each to be multiplied by
# $(p-1)/p$.
#
# | design | where the state lies | sent in addition | Newton-Schulz on a rank | who does it (August 2026) |
# |---|---|---|---|---|
# | owner | whole matrices, dealt out | nothing: as stage 1 | its own matrices | Megatron Core, `LayerWiseDistributedOptimizer` [7] |
# | all-to-all | row shards, as in FSDP | there and back, $2\,\Psi/p$ | its own matrices | Muon of Microsoft's Dion [8]; DistMuon of TorchTitan, `Owned` [9] |
# | duplicated | shards | all-gather, $\Psi$ | all matrices | Megatron Core, `muon_tp_mode="duplicated"`, over the ranks of a tensor-parallel group only [7] |
# | blockwise | shards | nothing | its shards | Megatron Core, `muon_tp_mode="blockwise"` [7] |
#
# Megatron deals as you did: heaviest first, by $n\,m^2$. In August 2026 neither Dion's Muon nor TorchTitan's DistMuon
# worked together with tensor parallelism [8, 9].

# %% [markdown] slideshow={"slide_type": "subslide"}
# **All-to-all.** Suppose that $p$ matrices lie in row shards on $p$ ranks. Rank $r$ receives all rows of matrix $r$,
# does the five steps, and sends the rows back.

# %% slideshow={"slide_type": "fragment"}
# %%writefile row_shards.py
import numpy as np
from newton_schulz import orthogonal


def updated(comm, rows):
    """``rows[i]``: this rank's rows of matrix i, one matrix for each rank."""
    matrix, back = np.empty_like(rows), np.empty_like(rows)
    comm.Alltoall(rows, matrix)  # now: all rows of matrix comm.rank
    whole = orthogonal(matrix.reshape(-1, rows.shape[-1]))
    comm.Alltoall(whole.reshape(rows.shape), back)
    return back


# %% slideshow={"slide_type": "fragment"}
matrices = np.random.default_rng(0).normal(size=(4, 8, 8))
rows = [(np.ascontiguousarray(matrices[:, 2 * r : 2 * r + 2]),) for r in range(4)]
muon = ringside.run("row_shards.py:updated", 4, rows)
together = np.concatenate(muon.values, axis=1)
alone = np.array([orthogonal(matrix) for matrix in matrices])
print(f"largest difference from one GPU: {np.abs(together - alone).max():.0e}")
print(f"a rank sends {sent_by(muon):,} bytes; an all-gather would send {3 * rows[0][0].nbytes:,}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You get the update of one GPU. Each way a rank sends three quarters of its shards, so the ratio to an all-gather is
# $2/p$: the all-to-all gains with every rank. And each matrix is done once.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.abs(together - alone).max() < 1e-12
shards_bytes = rows[0][0].nbytes
assert (muon.timeline.bytes_matrix.sum(axis=1) == 2 * 3 / 4 * shards_bytes).all()
assert sent_by(muon) / (3 * shards_bytes) == 2 / 4

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Blockwise** sends nothing, because each rank orthogonalizes its own rows as if they were a matrix. Is that the same
# update? Take the random matrix of 256 x 256 from above, split its rows, and join the pieces again.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/blockwise", "Two ranks hold half of the rows each. How large is the difference between the blockwise "
      "update and the right one, by its norm?", choices=["below 1 %: rounding", "about 10 %", "about 50 %"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
away = {}
for ranks in (2, 4, 8):
    blocks = np.concatenate([orthogonal(block) for block in np.split(momentum, ranks)])
    away[ranks] = 100 * np.linalg.norm(blocks - ours) / np.linalg.norm(ours)
    print(f"{ranks} ranks: {away[ranks]:.0f} % away from the update of one rank")
reveal("07/blockwise", f"about {round(away[2], -1):.0f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With two ranks your update is 52 % away from the right one, and with eight 59 %. The rows of one block become orthogonal
# to each other, but not to the rows of another block. So you train with another optimizer, one that changes
# with the number of ranks. Megatron's source says it of its own option: it "makes the update rule depend on
# the parallelism config" [7].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (
    momentum.shape == (256, 256)
    and round(away[2]) == 52
    and round(away[8]) == 59
    and away[2] < away[4] < away[8]
)

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which rank would you give the embeddings to?" To none: Adam updates them, in shards, as in
# stage 1. *Where classes stumble:* they expect that owners send more than DDP. Point at section 3. If
# time is short, leave out the all-to-all.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 11. Published numbers
#
# Section 4 has the first figure of ZeRO's paper, exactly. [Systems of 2012 to 2022](systems.md#sharding) has what
# ZeRO-Infinity, KARMA and FSDP published. Here is one table that asks for an explanation.
#
# **ZeRO-3 against a hybrid.** The authors of Megatron-LM trained two models in 2021 with ZeRO-3, and with PTD, their
# hybrid of tensor, pipeline and data parallelism [1]. The smaller model has 174.6 billion parameters and ran
# on 384, 768 and 1536 GPUs.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/megatron", "From 768 to 1536 GPUs the days of training with PTD fall by the factor 1.9. "
      "By which factor do they fall with ZeRO-3?", unit="times")  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
runs = table(LECTURES / "data" / "zero3_ptd_2021.csv")
days, rate, ratio = {}, {}, []
for scheme, size, gpus, tflops, took in zip(*runs.values()):
    days[scheme, size, gpus], rate[scheme, size, gpus] = took, tflops
    predicted = 8 * 300e9 * size * 1e9 / (gpus * tflops * 1e12) / 86400
    print(f"{scheme:6} {size} billion  {gpus:4} GPUs {tflops:4} TFLOP/s {took:4} days, "
          f"arithmetic {predicted:5.1f}")  # fmt: skip
    ratio.append(predicted / took)
speedup = days["ZeRO-3", 174.6, 768] / days["ZeRO-3", 174.6, 1536]
for gpus in (768, 1536):  # a step has 1536 sequences of 2048 tokens
    step_s = 8 * 1536 * 2048 * 174.6e9 / (gpus * rate["ZeRO-3", 174.6, gpus] * 1e12)
    print(f"ZeRO-3 on {gpus:4} GPUs: a step takes {step_s:.0f} s")
reveal("07/megatron", speedup)

# %% [markdown] slideshow={"slide_type": "fragment"}
# They don't fall: the factor is 1. **768 more GPUs gain nothing.** Each GPU's throughput falls to half, as you see in
# this table, so a step takes 65 s on both.
#
# | TFLOP/s of a GPU | 384 GPUs | 768 | 1536 |
# |---|---:|---:|---:|
# | ZeRO-3 | 144 | 88 | 44 |
# | PTD | 153 | 149 | 141 |
#
# Section 8 gives a reason for a step that no longer gets shorter. The batch stays the same, so each of twice as many
# GPUs has half the tokens, while the bytes of a step stay at $3\Psi$. The larger model behaves alike.
#
# But the condition of section 8 doesn't say that it must be 65 s. This was DeepSpeed's ZeRO-3 of 2021, and we don't
# know why it took so long. The [FSDP of 2023](systems.md#sharding) took about a quarter of it with as many
# sequences on a GPU. So these numbers tell you about software as much as about a scheme.
#
# The last number of each line above is arithmetic: 8 FLOP for each of 300 billion tokens and each parameter, divided by the
# throughput of all GPUs. It agrees with the table's days within 4 %.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert speedup == 1 and rate["ZeRO-3", 174.6, 768] == 88 and rate["ZeRO-3", 174.6, 1536] == 44
assert np.isclose(8 * 1536 * 2048 * 174.6e9 / (768 * 88e12), step_s) and round(step_s) == 65
assert rate["ZeRO-3", 529.6, 1120] == 98 and rate["ZeRO-3", 529.6, 2240] == 48
assert rate["PTD", 174.6, 768] == 149 and rate["PTD", 174.6, 1536] == 141
assert rate["ZeRO-3", 174.6, 384] == 144 and rate["PTD", 174.6, 384] == 153
assert round(days["PTD", 174.6, 768] / days["PTD", 174.6, 1536], 1) == 1.9
assert 0.96 < min(ratio) < max(ratio) < 1 and 8 * 300e9 * 174.6e9 > 1e23
assert sorted({g for _, s, g in days if s == 174.6}) == [384, 768, 1536]

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 12. Where the model breaks
#
# **Memory in blocks.** A GPU's memory is handed out in blocks, and all-gathers of many sizes leave gaps between
# them (*fragmentation*). Real programs need more than the sum of their tensors. Leave some GB free.
#
# **The loss.** The logits of 51,200 tokens of the vocabulary for each token are large. Our GPT computes them for one
# sequence at a time. A program that doesn't can need more memory for the loss than for the inputs of all layers.
#
# **Many small layers.** The latency of a *ring's* all-gather is $p-1$ times that of a message. On thousands of GPUs you
# no longer hide it behind a small layer. Then shard inside a group (section 7). NCCL also has an algorithm for it whose
# steps grow with the logarithm of the ranks, PAT [13].
#
# **Precision.** We summed gradients in 16 bits. Many programs sum in 32 bits, which doubles the bytes of the
# reduce-scatter (section 6).
#
# **The bus.** Section 14 assumed a bus for each GPU. Often several GPUs share one.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from ringside.course.lectures import SIZES

assert SIZES["vocabulary"] == 51200

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. Summary
#
# You began with 33.9 GB on each of 32 GPUs, of which 26.4 were equal copies. **8.8 GB are left.** The step takes
# 1.85 s, as before, and 58 ms of it are exposed, as before.
#
# | what | why |
# |---|---|
# | 16 bytes a parameter | 2 weight, 2 gradient, 12 optimizer state |
# | update between the halves of an all-reduce | stage 1: the state divided, no byte more |
# | reduce-scatter bucket by bucket | stage 2: the gradients divided, no byte more |
# | all-gather, use, reshard | stage 3: the weights divided, $3\Psi$ instead of $2\Psi$ |
# | prefetch | exposed: one all-gather and one reduce-scatter |
# | tokens on a GPU that hide the all-gathers | $T \ge \frac{w}{2}\frac{F}{\beta'}\frac{p-1}{p}$, however large a dense model is |
# | HSDP | the all-gathers stay in the node, $16\Psi/G$ bytes |
# | activations of a layer | $s\,b\,h\,(34 + 5as/h)$; recomputed, $2\,s\,b\,h$ and a third more work |
# | Muon | 12 bytes; give each matrix one owner; if every rank does all of them, the passes grow by $5m/T$ |
#
# Sharding changes who *stores* what. Who *computes* what stays as in data parallelism: the weights travel to the
# samples. In tensor parallelism the weights stay and the activations travel (lecture 8).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (
    round(held_gb, 1) == 33.9 and round(peak_bytes / 1e9, 1) == 8.8 and round(alike_gb, 1) == 26.4
)
assert (
    round(timeline.makespan_s, 2) == 1.85 and round(sharded_ms) == 58 and len(timeline.busy_s) == 32
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Memory outside of the GPU
#
# What can you do if even stage 3 doesn't fit? A computer has more memory than that of its GPUs: the main memory of
# the *host*, and disks. They are large and slow, and a *bus* connects them with the GPU. To move something
# there and back is called *offload*, or *swap*. Two systems show two ideas.
#
# **ZeRO-Infinity** puts the states of stage 3 into tiers [4]:
#
# | tier | what can live there | how it is reached |
# |---|---|---|
# | memory of the GPU | the layers in use, activations | at once |
# | main memory of the host | shards of weights and gradients, inputs of layers | over the host's bus |
# | disks (NVMe) | the optimizer state, in the end everything | over the host, in large blocks |
#
# Its idea is *who reads what*. If a layer lies in one host's memory, and one GPU reads it and broadcasts it,
# then one bus carries everything. If each of $p$ GPUs reads its shard over a bus of its own, and all of them
# all-gather, then $p$ buses work at the same time. **The slow tier becomes $p$ times as fast**, and the
# all-gather runs over the fast network.

# %% slideshow={"slide_type": "fragment"}
layer_bytes, bus = 1e9, 12.5e9  # a layer of 1 GB; a bus of 12.5 GB/s is assumed
for readers in (1, 16):
    read_s = layer_bytes / readers / bus
    print(f"read by {readers:2}: {1e3 * read_s:.0f} ms over the bus")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **KARMA** moves activations [5]. A layer's activations leave for the host in the forward pass and come back in
# the backward pass. The bus is often slower than the GPU, so it falls behind. The other way is to recompute
# them. KARMA mixes the two: while the bus carries one block, the GPU recomputes another one.
#
# Below, rank 0 is a GPU and rank 1 is the host's memory. A layer takes 40 µs forward and 80 µs backward, and its
# activations need 120 µs on the bus. The GPU can keep two layers of eight. Your *plan* says for each layer
# whether to keep it, to swap it, or to compute it again.

# %% slideshow={"slide_type": "fragment"}
# %%writefile host.py
import numpy as np

BLOCK = 15_000  # numbers that a layer keeps: 120 kB, or 120 µs on the bus


def lend(comm, count):
    """Rank 1: take so many blocks, and give them back, last come first served."""
    blocks = [np.empty(BLOCK) for _ in range(count)]
    for block in blocks:
        comm.Recv(block, source=0)
    for block in reversed(blocks):
        comm.Send(block, dest=0)


# %% slideshow={"slide_type": "fragment"}
# %%writefile out_of_core.py
import numpy as np
from host import BLOCK, lend
from mpi4py import MPI

import ringside


def step(comm, plan):
    if comm.rank == 1:
        return lend(comm, plan.count("swap"))
    blocks, leaving = np.ones((len(plan), BLOCK)), []
    for k, way in enumerate(plan):
        ringside.compute(seconds=40e-6, phase=f"forward {k}")
        if way == "swap":
            if len(leaving) == 2:  # there is room for two blocks on their way
                leaving.pop(0).Wait()
            leaving.append(comm.Isend(blocks[k], dest=1))
    MPI.Request.Waitall(leaving)
    backward(comm, plan, blocks)


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a out_of_core.py


def backward(comm, plan, blocks):
    swapped, coming = [k for k, way in enumerate(plan) if way == "swap"], []
    for k in reversed(range(len(plan))):
        while swapped and len(coming) < 2:  # fetch ahead
            coming.append(comm.Irecv(blocks[swapped.pop()], source=1))
        if plan[k] == "swap":
            coming.pop(0).Wait()
        if plan[k] == "again":
            ringside.compute(seconds=40e-6, phase=f"forward {k}")
        ringside.compute(seconds=80e-6, phase=f"backward {k}")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "07/out-of-core",
    "Six layers must go. Which plan takes the least time?",
    choices=[
        "swap all six",
        "compute all six again",
        "swap every third, compute the others again",
    ],
)

# %% slideshow={"slide_type": "slide"}
PLANS = {"swap all six": ["swap"] * 6, "compute all six again": ["again"] * 6,
         "swap every third, compute the others again": ["swap", "again", "again"] * 2}  # fmt: skip
plans = {name: ringside.run("out_of_core.py:step", 2, (six + ["keep"] * 2,))
         for name, six in PLANS.items()}  # fmt: skip
for name, run in plans.items():
    print(f"{name:43} {1e6 * run.makespan_s - 960:4.0f} µs more than 960")
best_plan = min(plans, key=lambda name: plans[name].makespan_s)
plans[best_plan].timeline

# %% slideshow={"slide_type": "fragment"}
reveal("07/out-of-core", best_plan)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. The mixed plan. Rank 0 computes without a pause; the bus to rank 1 is in use meanwhile.*
#
# With enough memory the step takes 960 µs. What does each plan add?
#
# | plan | adds | why |
# |---|---:|---|
# | swap all six | 612 µs | the bus can't keep up |
# | compute all six again | 240 µs | the bus is idle |
# | swap every third | 160 µs | you compute four layers again, and two swaps hide behind them |
#
# Which plan is best depends on the bus, on the GPU and on each layer. The assignment asks you for a program that
# finds it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
more_us = {name: round(1e6 * run.makespan_s - 960) for name, run in plans.items()}
assert list(more_us.values()) == [612, 240, 160] and best_plan.startswith("swap every third")
assert round(1e6 * max(plans["swap all six"].timeline.busy_s)) == 960 == 8 * (40 + 80)
waits = plans[best_plan].makespan_s - plans[best_plan].timeline.busy_s[0]
assert waits < 1e-6 and 15_000 * 8 / 1e3 == 120
assert [round(1e3 * layer_bytes / readers / bus) for readers in (1, 16)] == [80, 5]
assert bus == 12.5e9 and min(more_us.values()) == 4 * 40

# %% [markdown] slideshow={"slide_type": "notes"}
# Let pairs propose a plan of their own and run it; nobody beats 160 µs with these numbers.
# Then halve `BLOCK`: now more swaps hide. *What to ask.* "Why are the *last* two layers kept?" They are
# needed first in the backward pass, when nothing has come back yet.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["systems"]
# **KARMA** reports that it is 1.52 times as fast as other out-of-core methods, on average over six models [5].
# Your mixed plan took 1120 µs, and swapping alone took 1.40 times as long. So the size of the published gain is
# plausible. You can't predict it here, since the layers and the bus differ.

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
mixed = plans[best_plan].makespan_s
print([f"{run.makespan_s / mixed:.2f}" for run in plans.values()])

# %% slideshow={"slide_type": "skip"} tags=["checked"]
ratios = [round(run.makespan_s / mixed, 2) for run in plans.values()]
assert ratios[0] == 1.40 and ratios[1] == 1.07 and round(1e6 * mixed) == 1120
assert ratios[0] < 1.52

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. What fits on so many GPUs?
#
# Put the sections together. Your GPU holds states (section 4), activations (section 9), and in stage 3 two layers
# that are whole, with their gradients. The planner below takes models that were trained [1], one sequence of
# 2048 tokens on each GPU, and the formula with dropout.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
MODELS = {1.7: (24, 2304, 24), 7.5: (36, 4096, 32), 39.1: (48, 8192, 64), 145.6: (80, 12288, 96)}


def activations_gb(layers, wide, heads, again):
    """Of one sequence of 2048 tokens: of all layers, or their inputs and one layer."""
    of_layer = 2048 * wide * (34 + 5 * heads * 2048 / wide)
    return (layers * 2 * 2048 * wide + of_layer if again else layers * of_layer) / 1e9


def needs_gb(billions, gpus, stage, again):
    """What a GPU holds, by kind."""
    layers, wide, heads = MODELS[billions]
    shares = {kind: high * billions / (gpus if kind in DIVIDED[stage] else 1)
              for kind, high, _ in KINDS}  # fmt: skip
    shares["two layers"] = 2 * 4 * 12 * wide**2 / 1e9 if stage == 3 else 0.0
    return {**shares, "activations": activations_gb(layers, wide, heads, again)}


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
CARD_GB = Machine.load("zaratan").memory_bytes / 1e9
HUES = {"weights": WEIGHTS, "gradients": GRADIENTS, "state": STATE, "two layers": "#56b4e9",
        "activations": ACTIVATIONS}  # fmt: skip


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def planner(billions, gpus, activations):
    figure, axis = plt.subplots(figsize=(7.4, 2.3), layout="constrained")
    for stage in range(4):
        parts, left = needs_gb(billions, gpus, stage, activations == "computed again"), 0.0
        for kind, gb in parts.items():
            axis.barh(stage, gb, 0.7, left, color=HUES[kind])
            left += gb
        words = f"{left:,.1f} GB" + ("" if left > CARD_GB else ", fits")
        axis.text(min(left, 84) + 1.2, stage, words, va="center", fontsize=9,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    axis.axvline(CARD_GB, color="black", lw=1)
    axis.set(xlim=(0, 104), xlabel="GB on a GPU; the line is one GPU's memory")
    axis.set_yticks(range(4), [f"stage {stage}" for stage in range(4)])
    axis.invert_yaxis()
    return figure


# %% slideshow={"slide_type": "slide"} known={"07/planner": "GPUs, a setting of the figure"}
explore(planner, "Bars for stages 0 to 3: GB on each of {gpus} GPUs for a model of {billions} billion "
        "parameters, activations {activations}, and a line at the 42.4 GB of one GPU.",
        billions=Knob([1.7, 7.5, 39.1, 145.6], start=7.5, label="model", unit="billion"),
        gpus=Knob([8, 32, 128, 512], start=32, label="GPUs"),
        activations=Knob(["kept", "computed again"], start="computed again", live=True))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. What a GPU holds: weights (blue), gradients (green), state (grey), two whole layers (light
# blue), activations (pink). A bar that ends left of the line fits. The slider for activations moves in
# Jupyter only.*

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("07/planner", "Stage 3, activations computed again. On how many GPUs at least, of 8, 16, 32 and so "
      "on, does the model of 39.1 billion parameters fit?", unit="GPUs")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
fitting = []
for gpus in (8, 16, 32, 64):
    total = sum(needs_gb(39.1, gpus, 3, True).values())
    print(f"{gpus:2} GPUs: {total:5.1f} GB of {CARD_GB:.1f}")
    fitting += [gpus] if total < CARD_GB else []
reveal("07/planner", fitting[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 32. The states alone would fit on 16 GPUs, with 39.1 GB on each. But two whole layers of this model with their
# gradients need 6.4 GB, on however many GPUs. **What isn't divided decides in the end**: layers that are
# whole, and activations. Tensor parallelism (lecture 8) divides both.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
by_count = {g: sum(needs_gb(39.1, g, 3, True).values()) for g in (16, 32)}
assert by_count[32] < CARD_GB < by_count[16] and 16 * 39.1 / 16 == 39.1 < CARD_GB
assert round(needs_gb(39.1, 32, 3, True)["two layers"], 1) == 6.4
assert round(CARD_GB, 1) == 42.4 and min(MODELS) == 1.7 and max(MODELS) == 145.6

# %% [markdown] slideshow={"slide_type": "notes"}
# Give the sliders to a student, and let the class call out settings: "the largest model
# on 8 GPUs", "the fewest GPUs for the largest model". *What to ask.* "Which part of a bar no longer
# shrinks with more GPUs?" In stage 3: two layers, and activations.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Three ways to get it wrong
#
# Can a sharded optimizer be wrong while the loss goes down? Here are three that train without an error message. In
# all three, a program takes a shard for the whole.
#
# **A norm that is local.** To *clip* a gradient means to shorten it if its norm is above some bound: you multiply all
# of it by bound / norm. With shards, a rank has a part of the gradient, and the norm of the part is not that of
# the whole. Here are four ranks with a gradient of eight numbers. Its norm is 13.

# %% slideshow={"slide_type": "fragment"}
# %%writefile clip.py
import numpy as np
from mpi4py import MPI


def clipped(comm, gradient, is_local, bound=1.0):
    """The whole gradient after the clip, put together from the ranks' shards."""
    shard = gradient.reshape(comm.size, -1)[comm.rank]
    square = np.array(shard @ shard)
    if not is_local:
        comm.Allreduce(MPI.IN_PLACE, square)
    factor = min(1.0, bound / max(np.sqrt(square), 1e-30))
    together = np.empty_like(gradient)
    comm.Allgather(factor * shard, together)
    return together


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "07/clip",
    "Each rank clips its shard by the shard's own norm. What happens to the gradient?",
    choices=["it is too long, its direction is right", "its direction changes", "nothing"],
)

# %% slideshow={"slide_type": "fragment"}
gradient = np.array([3.0, 0, 0, 4, 12, 0, 0, 0])
right, local = (ringside.run("clip.py:clipped", 4, (gradient, is_local)).values[0]
                for is_local in (False, True))  # fmt: skip
cosine = right @ local / np.linalg.norm(right) / np.linalg.norm(local)
angle = np.degrees(np.arccos(cosine))
print("right:", np.round(right, 2))
print("local:", local, f" an angle of {angle:.0f} degrees between them")
reveal(
    "07/clip", "its direction changes" if angle > 1 else "it is too long, its direction is right"
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your shards with 12 and with 3 become equally long, so the result points elsewhere, by 32 degrees. It is also 1.7
# times as long as the bound. *The cure* costs one number: an all-reduce of the squared norms. *How you
# notice:* the run with another number of ranks learns differently.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(angle) == 32 and round(float(np.linalg.norm(local)), 1) == 1.7
assert np.linalg.norm(gradient) == 13 and abs(np.linalg.norm(right) - 1) < 1e-12
assert local.tolist() == [1, 0, 0, 1, 1, 0, 0, 0]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Padding that leaks.** Ten numbers on four ranks make shards of three, and two places too many at the end. The
# padding must be zero whenever you compute with it. But a buffer that is used for one bucket after another
# holds what the last bucket left.

# %% slideshow={"slide_type": "fragment"}
# %%writefile padded.py
import numpy as np
from mpi4py import MPI


def lengths(comm, buckets, is_cleared):
    """Length of each bucket of gradients, from shards of one buffer that all of them use."""
    buffer, found = np.zeros(12), []
    for bucket in buckets:
        if is_cleared:
            buffer[:] = 0.0
        buffer[: len(bucket)] = bucket
        shard = buffer.reshape(comm.size, -1)[comm.rank]
        square = np.array(shard @ shard)
        comm.Allreduce(MPI.IN_PLACE, square)
        found.append(float(np.sqrt(square)))
    return found


# %% slideshow={"slide_type": "fragment"}
buckets = [np.full(12, 2.0), np.full(10, 1.0)]
cleared, leaked = (ringside.run("padded.py:lengths", 4, (buckets, is_cleared)).values[0]
                   for is_cleared in (True, False))  # fmt: skip
print("cleared:", np.round(cleared, 2), "  leaked:", np.round(leaked, 2))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The second bucket's norm is 3.16, and your leak makes it 4.24. So you clip all gradients too much. The same happens
# with a mean, with a count of parameters, and with weight decay, if the padding of the *weights* isn't zero.
# *The cure:* clear the padding when you fill a buffer. *How you notice:* a test with a length that isn't
# divisible.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(cleared[1], 2) == 3.16 == round(np.sqrt(10), 2) and round(leaked[1], 2) == 4.24
assert cleared[0] == leaked[0]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Tied weights sharded twice.** A GPT uses the token embedding (`words`) at its beginning and as its output
# projection. If the projection is a module of its own, the matrix has two *names*. If you shard by names, you
# make two flat copies of it. Each copy gets a state of its own, and an update of its own.

# %% slideshow={"slide_type": "fragment"}
# %%writefile tied.py
import torch
from torch import nn


def shard(group, twice):
    """Numbers in the flat buffer, and the length of the gradient that they give."""
    words, inner = nn.Embedding(50, 8), nn.Linear(8, 8)
    head = nn.Linear(8, 50, bias=False)
    head.weight = words.weight  # tied
    net = nn.ModuleList([words, inner, head])
    torch.manual_seed(0)
    nn.init.normal_(words.weight)
    head(torch.tanh(inner(words(torch.tensor([3, 1, 4]))))).square().mean().backward()
    named = net.named_parameters(remove_duplicate=not twice)
    flat = torch.cat([parameter.grad.flatten() for _, parameter in named])
    return flat.numel(), float(flat.norm())


# %% slideshow={"slide_type": "fragment"}
once = ringside.run("tied.py:shard", 1, (False,)).values[0]
twice = ringside.run("tied.py:shard", 1, (True,)).values[0]
print(f"once: {once[0]} numbers, length {once[1]:.3f}")
print(f"twice: {twice[0]} numbers, length {twice[1]:.3f}")
words_gb = 16 * 51200 * 2304 / 1e9
print(f"in our GPT: {words_gb:.1f} GB of states more")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your buffer has 872 numbers instead of 472, and the gradient seems longer than it is. In our GPT a second copy
# would have 1.9 GB of states, over all ranks. If each copy gets the gradient of its own use alone, it is worse:
# the two copies drift apart, and the last one that you write back wins. *The cure:* go through the
# parameters by identity, each once. *How you notice:* count the bytes that travel.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert once[0] == 50 * 8 + 8 * 8 + 8 == 472 and twice[0] == 872 and twice[1] > 1.01 * once[1]
assert round(words_gb, 1) == 1.9

# %% [markdown] slideshow={"slide_type": "notes"}
# Before each cell, ask what a loss curve would show. Nothing: that is the point of the
# section. *What to ask.* "Which of the three would a test find that compares losses on one rank and
# on two?" The first, if the clip ever acts; the second, if the length is odd; the third, perhaps never.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 17. Puzzles
#
# Each has a program that works and misses a target. Change the program in its cell, run it, and run the
# cell below it. About ten minutes each.
#
# **Puzzle 1: long and short layers.** The forward pass of a network has long layers of 70 µs and short ones
# of 10 µs, in turn. An all-gather takes 28 µs. The program all-gathers one layer ahead, and during a short layer
# there is not enough time for it. The target is 380 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np

import ringside


def forward(comm, layers=8, length=4096):
    shards, whole = np.ones((layers, length // comm.size)), np.empty((layers, length))
    coming = [comm.Iallgather(shards[0], whole[0])]
    for k in range(layers):
        coming[k].Wait()
        if k + 1 < layers:
            coming.append(comm.Iallgather(shards[k + 1], whole[k + 1]))
        ringside.compute(seconds=10e-6 if k % 2 else 70e-6, phase=f"forward {k}")
    return float(whole.sum())


# %% slideshow={"slide_type": "fragment"}
puzzle("puzzle1.py:forward", 4, expected=8 * 4096.0, at_most_us=380,
       hint="During a long layer there is time for two all-gathers.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# All-gather two layers ahead: start with layers 0 and 1, and then, in turn `k`, start the all-gather of layer
# `k + 2`. It takes a third buffer, which is the price. (The puzzle's program has a buffer for each layer, so
# that you can try any depth.)
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle1.py").read_text()
text = text.replace("coming = [comm.Iallgather(shards[0], whole[0])]",
                    "coming = [comm.Iallgather(shards[k], whole[k]) for k in range(2)]")  # fmt: skip
Path("solved1.py").write_text(text.replace("k + 1", "k + 2"))
target = {"expected": 8 * 4096.0, "at_most_us": 380, "draw": False}
assert puzzle("solved1.py:forward", 4, **target).solved
assert not puzzle("puzzle1.py:forward", 4, **target).solved
solved = puzzle("solved1.py:forward", 4, **target)
assert 320 == 4 * (70 + 10) < solved.time_us < 380 and round(3 * (1 + 4096 * 8 / 4 / 1000)) == 28

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: where is the memory?** Somebody has sharded a network of eight layers with PyTorch and is
# disappointed: the peak of its memory has hardly changed. The target is 1.5 MB for each of four ranks.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import torch
from stack import Stack
from torch.distributed.fsdp import fully_shard


def step(group):
    net = Stack(layers=8, width=128)
    fully_shard(net)
    net(torch.ones(1, 128, dtype=torch.float64)).sum().backward()
    return float(sum(weight.grad.to_local().numel() for weight in net.parameters()))


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle2.py:step", 4, expected=8 * 128 * 128 / 4, at_most_memory_bytes=1_500_000,
                 draw=False, hint="Each module that you pass is all-gathered as a whole.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# ```python
# for layer in net.layers:
#     fully_shard(layer)
# fully_shard(net)
# ```
#
# `fully_shard(net)` alone makes one unit of all layers. They are all-gathered together, and all gradients
# are whole before the reduce-scatter. What is left of the peak are the 1.0 MB with which the network is made,
# before it is sharded.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle2.py").read_text()
each_layer = "    for layer in net.layers:\n        fully_shard(layer)\n    fully_shard(net)\n"
Path("solved2.py").write_text(text.replace("    fully_shard(net)\n", each_layer))
target = {"expected": 8 * 128 * 128 / 4, "at_most_memory_bytes": 1_500_000, "draw": False}
mended = puzzle("solved2.py:step", 4, **target)
assert mended.solved and not attempt.solved and 8 * 128 * 128 * 8 / 1e6 > 1.0
assert round(8 * 128 * 128 * 8 / 1e6, 1) == 1.0 and max(mended.peak_bytes) / 1e6 <= 1.5

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: microbatches.** A program accumulates the gradients of four microbatches. For each of them it
# all-gathers twice and reduce-scatters once: $12\,\Psi\,(p-1)/p$ in all. The target is 450,000 bytes for each of
# four ranks, and the same gradients.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import torch
from stack import Stack
from torch.distributed.fsdp import fully_shard


def step(group):
    net = Stack(layers=2)
    for layer in net.layers:
        fully_shard(layer)
    fully_shard(net)
    for number in range(4):
        x = torch.full((1, 64), 0.1 * number + group.rank(), dtype=torch.float64)
        net(x).sum().backward()
    return [parameter.grad.to_local() for parameter in net.parameters()]


# %% slideshow={"slide_type": "fragment"}
grads = ringside.run("puzzle3.py:step", 4).values
attempt = puzzle("puzzle3.py:step", 4, expected=grads, at_most_bytes=450_000, draw=False,
                 hint="Three of four reduce-scatters can be left out.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Before each microbatch, say whether its gradients are to be reduced:
# `net.set_requires_gradient_sync(number == 3)`. It is what `no_sync` is for DDP. Until the last
# microbatch each rank keeps *whole* gradients, and so gives up what stage 2 has saved. To save the all-gathers too,
# you would keep the weights whole, and be back at stage 1.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle3.py").read_text()
guarded = "        net.set_requires_gradient_sync(number == 3)\n        net(x)"
Path("solved3.py").write_text(text.replace("        net(x)", guarded))
mended = puzzle("solved3.py:step", 4, expected=grads, at_most_bytes=450_000, draw=False)
assert mended.sent_bytes[0] < 450_000 < attempt.sent_bytes[0] and mended.solved
assert attempt.sent_bytes[0] == 12 * 3 / 4 * 2 * 64 * 64 * 8

# %% [markdown] slideshow={"slide_type": "notes"}
# In puzzle 1 ask pairs that finish early how deep the prefetch must be for a long layer and three short ones
# behind it. In puzzle 3 let them say what the solution costs in memory, before they open it.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 18. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** Somebody trains 13 billion parameters on 16 GPUs of 80 GB, with Adam in mixed precision.
# How many GB of states does a GPU hold in each stage? Which stages fit, if 20 GB go to activations?
#
# <details><summary>Answer</summary>
#
# 208, 61.75, 37.375 and 13 GB. With 20 GB of activations, stage 1 needs 81.75 GB and misses the memory by
# little. Stages 2 and 3 fit. Take stage 2: it sends fewer bytes.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
four = [held(13e9, 16, stage) / 1e9 for stage in range(4)]
assert four == [208, 61.75, 37.375, 13] and four[1] + 20 == 81.75 > 80 > four[2] + 20

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague writes stage 1 as follows: all-reduce of the gradients, update of one's own shard,
# all-gather of the weights. The values are right. What does the program send, what does it waste, and
# how would a test notice?
#
# <details><summary>Answer</summary>
#
# $2\Psi + \Psi = 3\Psi$, times $(p-1)/p$. Each rank gets the sums of all shards, and uses one of them. Values,
# state and loss are those of the right program. Only a count of bytes shows the third half.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("halves.py").read_text()
wasteful = text.replace("comm.Reduce_scatter_block(gradient, summed)",
                        "comm.Allreduce(MPI.IN_PLACE, gradient); summed = gradient[mine]")  # fmt: skip
Path("wasteful.py").write_text("from mpi4py import MPI\n" + wasteful)
run = ringside.run("wasteful.py:train", 4, (4096, 3))
np.testing.assert_allclose(run.values[1], halves.values[1])
assert (run.timeline.bytes_matrix * 2 == halves.timeline.bytes_matrix * 3).all()

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** The GPT runs on 32 GPUs of twice the speed, over the same network. How many sequences of 2048
# tokens does a GPU need, to hide the forward all-gathers? What else could you do?
#
# <details><summary>Answer</summary>
#
# Twice as many tokens: 21,235, or 10.4 sequences. You can also use HSDP with groups of four. Inside a
# node a byte takes an eighth of the time, and $3/4$ replaces $31/32$. So 1.0 sequence hides the
# all-gathers. But the all-reduce of the gradients between the eight nodes needs 12,787 tokens, 6.2
# sequences, and it decides.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
fast = course_machine().with_(flop_per_s=2 * course_machine().flop_per_s)
assert round(work_to_hide(2 * 31 / 32, fast) / 2) == 21235
assert round(work_to_hide(2 * 31 / 32, fast) / 2 / 2048, 1) == 10.4
assert (
    round(between := work_to_hide(2 * 2 * 7 / 8, fast) / 6) == 12787
    and round(between / 2048, 1) == 6.2
)
inside = work_to_hide(2 * 3 / 4, fast, inside=True) / 2 / 2048
assert round(inside, 1) == 1.0

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Instead of each layer's input, you keep the input of every $k$-th layer, and compute $k$
# layers again at a time. A layer keeps 75 units of memory, its input has 2, and there are 24 layers. For
# which $k$ is the memory smallest? Why do most programs take $k = 1$?
#
# <details><summary>Answer</summary>
#
# $2 \cdot 24/k + 75\,k$ is 123 at $k = 1$ and 174 at $k = 2$. So $k = 1$ is best: a layer keeps so much more than
# its input that two of them are too many. If a layer kept 3 units, $k = 4$ would be best. The work is the
# same for every $k$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
kept_units = {k: 2 * 24 / k + 75 * k for k in (1, 2, 3, 4, 6)}
assert min(kept_units, key=kept_units.get) == 1 and kept_units[1] == 123 and kept_units[2] == 174
small_layers = {k: 2 * 24 / k + 3 * k for k in (1, 2, 3, 4, 6)}
assert min(small_layers, key=small_layers.get) == 4 and LAYERS == 24
assert round(32 + 2 * A * S / H) == 75

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** In `halves.py`, rank 0 alone writes a checkpoint: its weights and its velocity. Training is
# resumed from it on four ranks. What is lost? Why may nobody notice for a while?
#
# <details><summary>Answer</summary>
#
# Three quarters of the velocity. The weights are complete, so the loss continues where it was. The first steps
# are smaller, as at the very beginning of a training, and with Adam they are of the wrong size. A sharded
# state has to be saved by all ranks.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("halves.py").read_text()
saved = text.replace("return weights", "return velocity")
Path("velocity.py").write_text(saved)
parts = ringside.run("velocity.py:train", 4, (4096, 3)).values
assert [len(part) for part in parts] == [1024] * 4

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Your turn
#
# The assignment `a07_sharding` asks for what this lecture left out. In `partition` you divide parameters of any
# shapes into flat shards, with padding, and tied weights once. In `zero1` you write Adam on shards, with a
# clip that is global. In `zero3_torch` you wrap any module, and let autograd call you when a layer is
# needed. In `memory` you count to the byte. Extra modules are `zero2`, `hsdp_torch`, `offload`, a
# program that finds the best plan of section 14, and `lowbit`, whose two halves of an all-reduce travel in codes of 4 or
# 8 bits ([lecture 8](08_model_versus_data.ipynb), section 10).

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Tables 1
#    and 2.
# 2. S. Rajbhandari, J. Rasley, O. Ruwase, Y. He. ZeRO: memory optimizations toward training
#    trillion parameter models. SC 2020. arXiv:1910.02054. Figure 1.
# 3. V. Korthikanti, J. Casper, S. Lym, L. McAfee, M. Andersch, M. Shoeybi, B. Catanzaro. Reducing
#    activation recomputation in large transformer models. MLSys 2023. arXiv:2205.05198. Section 4.
# 4. S. Rajbhandari, O. Ruwase, J. Rasley, S. Smith, Y. He. ZeRO-Infinity: breaking the GPU memory
#    wall for extreme scale deep learning. SC 2021. arXiv:2104.07857.
# 5. M. Wahib, H. Zhang, T. T. Nguyen, A. Drozd, J. Domke, L. Zhang, R. Takano, S. Matsuoka. Scaling
#    distributed deep learning workloads beyond the memory capacity with KARMA. SC 2020.
#    arXiv:2008.11421. The abstract.
# 6. Jingyuan Liu, Jianlin Su, and others (Kimi Team). Muon is scalable for LLM training. 2025.
#    arXiv:2502.16982. The abstract.
# 7. NVIDIA. Megatron Core. github.com/NVIDIA/Megatron-LM, commit d98e8a6 of 22 August 2026:
#    `megatron/core/optimizer/layer_wise_optimizer.py`, `optimizer_config.py`, line 282, and
#    `megatron/core/distributed/distributed_data_parallel_config.py`, line 103.
# 8. Microsoft. Dion: distributed orthonormal updates. github.com/microsoft/dion, README,
#    commit 01287d7.
# 9. PyTorch. TorchTitan. github.com/pytorch/torchtitan, commit b5bcd76 of 21 August 2026:
#    `torchtitan/distributed/flex_shard/README.md`, and `torchtitan/models/kimi_k2_7/README.md`.
# 10. PyTorch 2.13, `torch/optim/_muon.py`, `torch/distributed/fsdp/_fully_shard/` and
#    `torch/distributed/optim/zero_redundancy_optimizer.py`.
# 11. Microsoft. DeepSpeed. github.com/microsoft/DeepSpeed, `docs/_pages/config-json.md`,
#    commit 01f31a8.
# 12. K. Wen, D. Hall, T. Ma, P. Liang. Fantastic pretraining optimizers and where to find them. 2025.
#    arXiv:2509.02046. The abstract.
# 13. PAT: a new algorithm for all-gather and reduce-scatter operations at scale. 2025. arXiv:2506.20252.
#    The abstract.
#
# Read next: [2], sections 5 to 7, which you can now follow line by line; and the source of your
# PyTorch, `torch/distributed/fsdp/_fully_shard/`, whose hooks are in section 6.
