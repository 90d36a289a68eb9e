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
# # Lecture 9: Pipelines and their bubbles
#
# Some networks don't fit on one GPU. The plainest remedy is *pipeline parallelism*: cut the network
# between two layers, so that the first layers live on one GPU and the next layers on another. Very
# little has to be sent. But each GPU needs the result of the one before it, so without further thought
# one GPU works and all others wait. This lecture is about *schedules*, which are orders of work that keep
# your GPUs busy. You measure the idle time that remains, the *bubble*, and what each schedule costs in
# memory.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - run a network that is cut into stages, and read its bubble off a timeline;
# - derive the time of GPipe, of 1F1B and of interleaved schedules, and prove a bound that no schedule
#   with whole stages can beat;
# - say how many microbatches each stage has to keep;
# - predict what latency does, and why the schedule with the least memory suffers most;
# - build an interleaved schedule by hand, and fill a bubble with halves of backward passes;
# - choose one of the schedules that PyTorch ships, by its bubble or by the messages that it hides;
# - say why large runs flush their pipelines;
# - tell whether a published speed follows from the bubble.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** You need Python, NumPy and the chain rule. How a gradient goes backwards through
# layers is the subject of [lecture 2](02_sgd.ipynb). You should also have sent a message:
# [lecture 1](01_messages.ipynb) starts from nothing and shows all calls that are used here.
# [Lecture 8](08_model_versus_data.ipynb) cuts *inside* a layer, which is the other answer to the
# same problem. You can read it before this lecture or after it.
#
# **How to read.** Before many programs the lecture asks you for a prediction. Make it before you run
# the next cells. All programs run on your laptop, as real processes with a *virtual* clock. So every
# time in this notebook is exact, and the same on every computer.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Notation.**
#
# | sign | meaning |
# |---|---|
# | $S$ | the number of stages; each stage is one rank |
# | $s$ | one stage, $0 \le s < S$ |
# | $M$ | the number of microbatches in a batch |
# | $t_f$, $t_b$ | the time of one microbatch's forward and backward pass through one stage |
# | $\alpha$ | the latency of a message between two stages |
# | $v$ | the number of virtual stages (pieces of the network) on each stage (1 up to section 7) |
# | $F$, $I$, $W$ | times of a forward pass and of the two halves of a backward pass (from section 9) |
#
# A backward pass computes two gradients, of the inputs and of the weights, where the forward pass
# computes one product. So $t_b = 2 t_f$ is a good rule. All examples up to section 8 have $t_f = 1$ ms
# and $t_b = 2$ ms.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The predictions that are worth collecting are those of section 5 (which schedule is
# faster?), section 8 (how long does the interleaved schedule take?) and section 10 (which shipped one is
# fastest, before and after the exchanges?). If you have one meeting only, take the first.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import Knob, explore, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: a model that fits nowhere
#
# How many GPUs does it take to *hold* a large model of the GPT family? Take the one of table 1 in [1]
# with 80 layers. Training with Adam in mixed precision needs 16 bytes for each parameter [2]: 2 for
# the weight, 2 for its gradient, and 4 each for an exact copy of the weight and for Adam's two
# moments.

# %% slideshow={"slide_type": "fragment"}
layers, hidden, tokens, vocabulary = 80, 12288, 2048, 51200
in_layers = layers * (12 * hidden**2 + 13 * hidden)
parameters = in_layers + (vocabulary + tokens) * hidden  # the second part: embeddings
needed_GB = 16 * parameters / 1e9
gpu_bytes = ringside.Machine.load("zaratan").memory_bytes
print(f"{parameters / 1e9:.1f} billion parameters need {needed_GB:,.0f} GB")
gpu_GB, gpu_GiB = gpu_bytes / 1e9, gpu_bytes / 2**30
print(f"one GPU has {gpu_bytes:,} bytes: {gpu_GB:.1f} GB or {gpu_GiB:.1f} GiB")
print(f"so it takes at least {np.ceil(16 * parameters / gpu_bytes):.0f} GPUs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes 55 GPUs, before a single activation is stored. (The GPU is an A100 that is sold as "40 GB".
# It reports 42,405,855,232 bytes. In this course a GB is $10^9$ bytes, so that is 42.4 GB. It is also
# 39.5 GiB, where a GiB is $2^{30}$ bytes.)
#
# Plain data parallelism doesn't help, since each of its ranks holds the whole model. ZeRO-3 shards these
# bytes (lecture 7), but it all-gathers each layer before use, which pays only if each GPU has many tokens of
# its own. Here you divide the *work* on one sequence as well. You can cut *inside* each layer (tensor
# parallelism, lecture 8), or *between* layers. What do you have to send for one sequence of 2048 tokens?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (layers, hidden, tokens) == (80, 12288, 2048)
assert np.ceil(16 * parameters / gpu_bytes) == 55 and gpu_bytes == 42_405_855_232
assert round(gpu_bytes / 1e9, 1) == 42.4 and round(gpu_bytes / 2**30, 1) == 39.5
assert "of 40 GB" in ringside.Machine.load("zaratan").sources["memory_bytes"]

# %% slideshow={"slide_type": "slide"}
activation_MB = tokens * hidden * 2 / 1e6  # what a layer hands to the next, 2 bytes a number
all_reduces = 4 * layers  # cut inside: two all-reduces in each direction in each layer [3]
messages = 2  # cut between: one message forward and one back at each cut
print(f"one layer hands {activation_MB:.1f} MB to the next")
print(f"cut inside layers: {all_reduces} all-reduces of {activation_MB:.1f} MB")
print(f"cut between layers: {messages} messages of {activation_MB:.1f} MB at each cut")

# %% [markdown] slideshow={"slide_type": "fragment"}
# If you cut inside the layers, you need 320 all-reduces of 50.3 MB [3], and every rank waits for each
# of them. If you cut between layers, you need one message forward and one message back at each cut. These
# few messages are the reason for pipelines.
#
# A group of successive layers on one GPU is called a **stage**. For example, the 80 layers make 8
# stages of 10 layers. The whole row of stages is a **pipeline**. Its price shows as soon as you run it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(activation_MB, 1) == 50.3 and all_reduces == 320

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 2. Stages that take turns
#
# What does a stage do? Here is a whole pipeline, with one layer $y = \tanh(xW)$ on each stage. Your rank
# receives its input from the stage before, and sends its activations to the stage after. Both calls are
# *P2P*, from one rank to one other (point to point). The last rank has the targets, and the gradients of the
# inputs go back the same way. `ringside.compute` tells the virtual clock how long a real layer would take.

# %% slideshow={"slide_type": "fragment"}
# %%writefile stage.py
import numpy as np

import ringside


def forward(x, weight, tanh=np.tanh):
    ringside.compute(seconds=1e-3, phase="forward")
    return tanh(x @ weight)


def backward(gradient, x, y, weight):
    """The gradients of the weight and of the input, from that of the output."""
    ringside.compute(seconds=2e-3, phase="backward")
    slope = gradient * (1 - y**2)
    return x.T @ slope, slope @ weight.T


# %% slideshow={"slide_type": "fragment"}
# %%writefile naive.py
from stage import backward, forward


def weight_gradient(comm, weight, x, target):
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    if not first:
        x = comm.recv(source=comm.rank - 1)
    y = forward(x, weight)
    if last:
        gradient = y - target  # of the loss |y - target|^2 / 2
    else:
        comm.send(y, dest=comm.rank + 1)
        gradient = comm.recv(source=comm.rank + 1)
    own, passed_on = backward(gradient, x, y, weight)
    if not first:
        comm.send(passed_on, dest=comm.rank - 1)
    return own


# %% [markdown] slideshow={"slide_type": "fragment"}
# Run it on four stages with one batch. Until section 7 we assume that messages are free and leave at
# once, so that all the waiting you see comes from the order of work.

# %% slideshow={"slide_type": "fragment"}
free = ringside.Machine.load("textbook").with_(
    name="free messages",
    alpha_s=0.0,
    beta_s_per_byte=0.0,
    eager_threshold_bytes=2**30,  # a message leaves at once, whether or not it is awaited
    flop_per_s=1e24,  # only what the programs declare takes time
    memory_bytes_per_s=1e24,
)
rng = np.random.default_rng(9)
weights = [rng.normal(size=(6, 6)) / 2 for _ in range(4)]
x, target = rng.normal(size=(12, 6)), rng.normal(size=(12, 6))

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/in-turn",
    "Four stages, one batch. What share of the time does each rank work?",
    unit="%",
)

# %% slideshow={"slide_type": "slide"} tags=["ranks"]
args = [(weight, x, target) for weight in weights]
naive = ringside.run("naive.py:weight_gradient", 4, args, machine=free)
share = naive.timeline.busy_s[0] / naive.makespan_s
print(f"{1e3 * naive.makespan_s:.0f} ms; rank 0 works {share:.0%} of it")

# %% slideshow={"slide_type": "fragment"}
naive.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("09/in-turn", 100 * share)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Four stages that take turns. The batch goes forward through the stages and comes back,
# and at any time one rank works.*
#
# Your step takes $S(t_f + t_b) = 12$ ms, exactly as long as *one* GPU with enough memory would take. So each
# of the four works 25 % of the time. You have bought four GPUs for their memory and you don't use their speed.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(naive.makespan_s, 12e-3)
assert np.allclose([busy_s / naive.makespan_s for busy_s in naive.timeline.busy_s], 0.25)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Are the gradients right, at least? Compare them with those of one process:


# %% slideshow={"slide_type": "fragment"}
def serial(x, target):
    """All weight gradients, summed over the samples, in one process."""
    outputs = [x]
    for weight in weights:
        outputs.append(np.tanh(outputs[-1] @ weight))
    gradient, gradients = outputs[-1] - target, [None] * 4
    for stage in (3, 2, 1, 0):
        slope = gradient * (1 - outputs[stage + 1] ** 2)
        gradients[stage] = outputs[stage].T @ slope
        gradient = slope @ weights[stage].T
    return gradients


for stage in range(4):
    np.testing.assert_allclose(naive.values[stage], serial(x, target)[stage], rtol=1e-12)
print("the gradients are those of one process")

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** You give `dist.recv` a tensor of the right shape to receive into. All else
# carries over line by line.

# %% slideshow={"slide_type": "fragment"}
# %%writefile naive_torch.py
import torch
import torch.distributed as dist
from stage import backward, forward


def weight_gradient(group, weight, x, target):
    rank, last = group.rank(), group.size() - 1
    if rank > 0:
        dist.recv(x, rank - 1)
    y = forward(x, weight, torch.tanh)
    gradient = y - target
    if rank < last:
        dist.send(y, rank + 1)
        dist.recv(gradient, rank + 1)
    own, passed_on = backward(gradient, x, y, weight)
    if rank > 0:
        dist.send(passed_on, rank - 1)
    return own


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("naive_torch.py:weight_gradient", 4, args, machine=free)
for ours, theirs in zip(naive.values, torch_run.values):
    np.testing.assert_allclose(theirs, ours, rtol=1e-12)
print(f"{1e3 * torch_run.makespan_s:.0f} ms, and the same gradients")
assert np.isclose(torch_run.makespan_s, naive.makespan_s)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=15
# ## 3. Microbatches
#
# How can all stages work at once? Think of a laundry with a washer and a dryer. You don't wait with the
# second load until the first load is dry. Your batch provides the loads, because the gradient is a *sum over
# samples*. So cut the batch into **microbatches** and send them through the stages one after the other. For
# example, 32 samples make 8 microbatches of 4. You add their gradients, and change the weights once, at the
# end. This is GPipe [4].
#
# Does GPipe compute the gradient of the whole batch? Check it with microbatches of 5, 4 and 3 samples:

# %% slideshow={"slide_type": "fragment"}
whole = serial(x, target)
parts = [serial(x[start:end], target[start:end]) for start, end in ((0, 5), (5, 9), (9, 12))]
for stage in range(4):
    np.testing.assert_allclose(sum(part[stage] for part in parts), whole[stage], rtol=1e-12)
print("the sum over the microbatches is the gradient of the batch")

# %% [markdown] slideshow={"slide_type": "slide"}
# How long does GPipe take? Draw $S = 3$ stages and $M = 4$ microbatches, one column for a millisecond. A number
# is a pass of that microbatch, a dash is the second millisecond of a backward pass, and a dot is an
# idle millisecond:
#
# ```text
#  stage 0   0 1 2 3 . . . . . . 0 - 1 - 2 - 3 -
#  stage 1   . 0 1 2 3 . . . 0 - 1 - 2 - 3 - . .
#  stage 2   . . 0 1 2 3 0 - 1 - 2 - 3 - . . . .
# ```
#
# Look at the last stage. It starts when the first microbatch has come through the $S - 1$ stages
# before it. Then it works without a pause, for $M$ forward and $M$ backward passes. After that the
# last gradient still has to go back through $S - 1$ stages. So
#
# $$T_\text{GPipe} = (S-1)\,t_f + M(t_f + t_b) + (S-1)\,t_b = (M + S - 1)(t_f + t_b).$$
#
# Every stage works for $M(t_f + t_b)$ of this time. The rest is the **bubble**. As a share of the
# time,
#
# $$\text{bubble} = \frac{S-1}{M+S-1}.$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# Many papers divide by the *useful* time instead, and write $(S-1)/M$, which is larger. With 4 stages
# and 8 microbatches the bubble is 27 % by the first definition and 37.5 % by the second. Ask which one
# is meant.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round((4 - 1) / (8 + 4 - 1), 2) == 0.27 and (4 - 1) / 8 == 0.375
batch, M = 32, 8
assert batch / M == 4

# %% [markdown] slideshow={"slide_type": "slide"}
# **A schedule is data.** A schedule gives each stage a list of *actions*. `F2` is the forward pass of
# microbatch 2, and `B2` is its backward pass. So one program can run any schedule. As in lecture 3, this
# program moves only the *traffic*: the P2P messages travel and the clock advances, but nothing is calculated.
# The microbatch's number is the **tag** of its messages. Sender and receiver agree on it, so that your receive
# takes the message that it means. (In the assignment you run schedules with real layers.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile pipe.py
import numpy as np
from mpi4py import MPI

import ringside

WAY = {"F": 1, "B": -1, "I": -1}  # to the next stage, or back; other actions stay here


def run(comm, schedules, milliseconds):
    """Do what this stage's schedule says."""
    sent, packet, received = [], np.zeros(8, np.uint8), np.zeros(8, np.uint8)
    for action in schedules[comm.rank].split():
        kind, microbatch = action[0], int(action[1:])
        source, dest = comm.rank - WAY.get(kind, 0), comm.rank + WAY.get(kind, 0)
        if kind in WAY and 0 <= source < comm.size:
            comm.Recv(received, source, tag=microbatch)
        ringside.compute(seconds=milliseconds[kind] / 1e3, phase=action)
        if kind in WAY and 0 <= dest < comm.size:
            sent.append(comm.Isend(packet, dest, tag=microbatch))
    MPI.Request.Waitall(sent)


# %% [markdown] slideshow={"slide_type": "fragment"}
# The sends are `Isend`, so that a stage hands its result over and goes on. The next cell runs GPipe.

# %% slideshow={"slide_type": "fragment"}
MILLISECONDS = {"F": 1.0, "B": 2.0}
session = ringside.Session(Path.cwd())  # keeps its processes from one run to the next


def pipeline(schedules, machine=free, milliseconds=MILLISECONDS):
    """Run a list of schedules, one for each stage."""
    args = (schedules, milliseconds)
    return session.call("pipe:run", len(schedules), args, machine=machine).raise_for_error()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("09/gpipe-time", "4 stages, 4 microbatches. How long does a step take?", unit="ms")

# %% slideshow={"slide_type": "slide"}
gpipe = pipeline(["F0 F1 F2 F3 B0 B1 B2 B3"] * 4)
gpipe.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("09/gpipe-time", 1e3 * gpipe.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. GPipe on four stages with four microbatches. The idle time is the bubble.*
#
# What have you gained with four microbatches?
#
# | four microbatches on four stages | |
# |---|---|
# | the stages take turns | 48 ms |
# | GPipe | 21 ms, 2.3 times as fast |
# | of which bubble, on each stage | 9 ms |
#
# You see the bubble of the first stage in the middle, and that of the last stage at both ends.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(gpipe.makespan_s, 21e-3) and np.isclose(4 * naive.makespan_s, 48e-3)
assert round(4 * naive.makespan_s / gpipe.makespan_s, 1) == 2.3
assert np.allclose(gpipe.timeline.idle_s, 9e-3)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
drawing = ["0 1 2 3 . . . . . . 0 - 1 - 2 - 3 -", ". 0 1 2 3 . . . 0 - 1 - 2 - 3 - . .",
           ". . 0 1 2 3 0 - 1 - 2 - 3 - . . . ."]  # fmt: skip
three = pipeline(["F0 F1 F2 F3 B0 B1 B2 B3"] * 3).timeline
for spans, drawn in zip(three.spans, drawing):
    row = ["."] * 18
    for span in (span for span in spans if span.kind == "compute"):
        start, end = round(span.start_s * 1e3), round(span.end_s * 1e3)
        row[start:end] = [span.label[1], "-"][: end - start]
    assert " ".join(row) == drawn

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.**

# %% slideshow={"slide_type": "fragment"}
# %%writefile pipe_torch.py
import torch
import torch.distributed as dist

import ringside

WAY = {"F": 1, "B": -1}


def run(group, schedules, milliseconds):
    rank, sent, packet = group.rank(), [], torch.zeros(8, dtype=torch.uint8)
    for action in schedules[rank].split():
        kind, microbatch = action[0], int(action[1:])
        source, dest = rank - WAY[kind], rank + WAY[kind]
        if 0 <= source < group.size():
            dist.recv(packet.clone(), source, tag=microbatch)
        ringside.compute(seconds=milliseconds[kind] / 1e3, phase=action)
        if 0 <= dest < group.size():
            sent.append(dist.isend(packet, dest, tag=microbatch))
    for request in sent:
        request.wait()


# %% slideshow={"slide_type": "fragment"}
args = (["F0 F1 F2 F3 B0 B1 B2 B3"] * 4, MILLISECONDS)
torch_run = ringside.run("pipe_torch.py:run", 4, args, machine=free)
assert np.isclose(torch_run.makespan_s, gpipe.makespan_s)
print(f"{sum(torch_run.sent_messages())} messages, and the same time as without torch")
assert torch_run.sent_messages() == gpipe.sent_messages()

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 1 to 3.** Let the class draw the diagram of section 3 on
# squared paper before you show it. Many draw the backward passes in the reverse order of the
# microbatches, 3 first; both orders take the same time here, and 1F1B in section 5 needs 0 first. The
# two definitions of the bubble cause trouble in exams: write the denominator on the board.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 4. The bubble, by stages and microbatches
#
# Who writes schedules for many sizes? A small *list scheduler* does it for you. Time advances in ticks of
# 1 ms. At each tick, a free stage starts a pass that can start. You have two settings: which kind of pass a
# stage prefers, and how many microbatches it may have begun and not finished.

# %% slideshow={"slide_type": "fragment"}
TICKS = {"F": 1, "B": 2}


class Stage:
    """What one stage has done so far."""

    def __init__(self, limit):
        self.limit = limit  # microbatches that it may have begun and not finished
        self.actions = []  # its schedule
        self.ends = {"F": [], "B": []}  # when each of its passes ended, by microbatch
        self.free_at = 0

    def start(self, kind, now):
        self.actions.append(f"{kind}{len(self.ends[kind])}")
        self.free_at = now + TICKS[kind]
        self.ends[kind].append(self.free_at)


# %% [markdown] slideshow={"slide_type": "fragment"}
# A forward pass needs the forward pass of the stage before. A backward pass needs the backward pass of
# the stage after, or, on the last stage, the stage's own forward pass.


# %% slideshow={"slide_type": "fragment"}
def has_ended(ends, microbatch, now):
    return microbatch < len(ends) and ends[microbatch] <= now


def can_start(kind, stages, s, now, num_microbatches):
    """Whether stage s can start its next pass of this kind now."""
    stage = stages[s]
    begun, done = len(stage.ends["F"]), len(stage.ends["B"])
    if kind == "F":
        has_room = begun < num_microbatches and begun - done < stage.limit
        return has_room and (s == 0 or has_ended(stages[s - 1].ends["F"], begun, now))
    if s == len(stages) - 1:
        return has_ended(stage.ends["F"], done, now)
    return has_ended(stages[s + 1].ends["B"], done, now)


# %% slideshow={"slide_type": "subslide"}
def list_schedule(num_microbatches, prefer, limits):
    """Every stage's actions; prefer: "FB" or "BF"; limits: one for each stage."""
    stages, now = [Stage(limit) for limit in limits], 0
    while any(len(stage.actions) < 2 * num_microbatches for stage in stages):
        for s, stage in enumerate(stages):
            for kind in prefer:
                is_free = stage.free_at <= now
                if is_free and can_start(kind, stages, s, now, num_microbatches):
                    stage.start(kind, now)
        now += 1
    return [" ".join(stage.actions) for stage in stages]


print(list_schedule(4, "FB", [4, 4, 4, 4])[0])

# %% [markdown] slideshow={"slide_type": "subslide"}
# With forward passes first and no limit, the scheduler writes GPipe.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert list_schedule(4, "FB", [4] * 4) == ["F0 F1 F2 F3 B0 B1 B2 B3"] * 4

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/half-idle",
    "16 stages, 16 microbatches. What share of the time is idle?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
bubbles = {}
for num_stages in (2, 4, 8, 16):
    for num_microbatches in (1, 2, 4, 8, 16, 32):
        no_limit = [num_microbatches] * num_stages
        run = pipeline(list_schedule(num_microbatches, "FB", no_limit))
        bubbles[num_stages, num_microbatches] = np.mean(run.timeline.idle_s) / run.makespan_s
print(f"{len(bubbles)} runs")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.8))
many = np.geomspace(1, 64, 200)
for S, color in zip((2, 4, 8, 16), plt.cm.viridis(np.linspace(0, 0.85, 4))):
    axis.plot(many, (S - 1) / (many + S - 1), color=color, linewidth=1.2)
    measured = {M: bubble for (stages, M), bubble in bubbles.items() if stages == S}
    axis.plot(measured.keys(), measured.values(), "o", color=color)
    axis.text(0.93, (S - 1) / S, f"{S} stages", color=color, ha="right", va="center")
    axis.plot(4 * S, (S - 1) / (5 * S - 1), "s", markersize=11, markerfacecolor="none", color=color)
axis.axhline(0.2, color="#57606a", linewidth=0.8, linestyle=":")
axis.set(xscale="log", xlim=(0.5, 72), ylim=(0, 1), xlabel="microbatches M")
axis.set(ylabel="bubble (share of the time)")
axis.set_xticks([1, 2, 4, 8, 16, 32, 64], [1, 2, 4, 8, 16, 32, 64])
axis.minorticks_off()
show(figure, "Bubble over microbatches for 2, 4, 8 and 16 stages: lines by formula and points from runs on ranks "
     "coincide and fall from above a half to below a fifth; squares mark four microbatches a stage.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("09/half-idle", 100 * bubbles[16, 16])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. The bubble over the number of microbatches. Lines are the formula, points are runs. The
# squares mark $M = 4S$, and the dotted line marks one fifth.*
#
# With as many microbatches as stages you lose nearly half of the time, 48 % with 16 of each. At
# $M = 4S$ your bubble is $(S-1)/(5S-1)$, which is below 20 % for any number of stages. The GPipe paper (2019)
# calls the bubble negligible from there on [4].

# %% [markdown] slideshow={"slide_type": "fragment"}
# So why not take a thousand microbatches? First, a microbatch has at least one sample, so your batch grows
# with $M$, and large batches train less well (assignment `a04_data_parallel`). Second, small microbatches use
# a GPU badly. Third, there is memory, which the next sections are about.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for (S, M), bubble in bubbles.items():
    assert np.isclose(bubble, (S - 1) / (M + S - 1))
assert round(bubbles[16, 16], 2) == 0.48
assert all((S - 1) / (5 * S - 1) < 0.2 for S in range(1, 10_000))

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 5. One forward, one backward
#
# Does GPipe's order waste time? The last stage could begin with the backward pass of microbatch 0 at once,
# because it has all that this pass needs. Try three settings of the list scheduler, for 4 stages and 8
# microbatches:
#
# - forward passes first, without a limit, which is GPipe;
# - backward passes first, without a limit;
# - backward passes first, and stage $s$ may have at most $S - s$ microbatches begun and not finished:
#   the first stage four, the last stage one. This schedule is called **1F1B**, for "one forward, one
#   backward".

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/fastest",
    "Which of the three takes the shortest time?",
    choices=["GPipe", "backward first", "1F1B", "all take the same"],
)

# %% slideshow={"slide_type": "fragment"}
SCHEDULES = {
    "GPipe": list_schedule(8, "FB", [8, 8, 8, 8]),
    "backward first": list_schedule(8, "BF", [8, 8, 8, 8]),
    "1F1B": list_schedule(8, "BF", [4, 3, 2, 1]),
}
runs = {name: pipeline(schedules) for name, schedules in SCHEDULES.items()}
for name, run in runs.items():
    print(f"{name}: {run.makespan_s * 1e3:g} ms")
times = {name: round(1e3 * run.makespan_s, 6) for name, run in runs.items()}
all_same = len(set(times.values())) == 1
reveal("09/fastest", "all take the same" if all_same else min(times, key=times.get))

# %% [markdown] slideshow={"slide_type": "fragment"}
# All three take 33 ms: GPipe, backward passes first, and 1F1B.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all(np.isclose(run.makespan_s, 33e-3) for run in runs.values())
assert len(set(SCHEDULES["GPipe"])) == 1  # the same list on every stage

# %% [markdown] slideshow={"slide_type": "slide"} tags=["explanation"]
# **No schedule is faster.** Take *any* schedule. The first microbatch needs $(S-1)\,t_f$ to reach the
# last stage, which can't begin before that. Then the last stage has $M(t_f + t_b)$ of work. The last
# thing it does is a backward pass. The gradient from this pass still has to go through $S-1$ more
# backward passes, one on each stage. So
#
# $$T \ge (S-1)\,t_f + M(t_f + t_b) + (S-1)\,t_b,$$
#
# and that *is* GPipe's time. If you want to be faster, you have to break an assumption. You can cut the
# stages into smaller pieces (section 8). You can cut the backward pass in two (section 9). Or you can
# change the weights before the last gradient has come back, as PipeDream does (section 11).
#
# > **Often heard.** "1F1B has a smaller bubble than GPipe." If the weights change once at the end of the
# > batch, both take the same time [1]. What 1F1B reduces is memory.

# %% [markdown] slideshow={"slide_type": "slide"}
# **What 1F1B does.** These are its lists:

# %% slideshow={"slide_type": "fragment"}
for stage, actions in enumerate(SCHEDULES["1F1B"]):
    print(f"stage {stage}  {actions}")

# %% slideshow={"slide_type": "subslide"}
runs["1F1B"].timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. 1F1B on four stages with eight microbatches.*
#
# Read a row: the stage starts with a few forward passes, the *warm-up*. Then it does one forward and one
# backward pass in turn (*steady state*), and at the end the rest of the backward passes (*cool-down*).

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 6. What a stage has to keep
#
# A backward pass needs the activations of its forward pass. So a stage keeps what `F3` made from `F3`
# until the end of `B3`. During this time microbatch 3 is **in flight** on that stage. For example,
# after `F0 F1 F2 B0` two microbatches are in flight, 1 and 2. You can count them on a timeline:


# %% slideshow={"slide_type": "fragment"}
def in_flight(timeline, stage):
    """Times in ms, and the number of microbatches in flight from each of them on."""
    passes = [span for span in timeline.spans[stage] if span.kind == "compute"]
    changes = [(span.start_s, 1) for span in passes if span.label[0] == "F"]
    changes += [(span.end_s, -1) for span in passes if span.label[0] in "BW"]
    times, steps = zip(*sorted(changes))
    return np.array(times) * 1e3, np.cumsum(steps)


def most_kept(run):
    """The most microbatches in flight, for each stage."""
    return [int(in_flight(run.timeline, stage)[1].max()) for stage in range(run.world_size)]


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/kept-backward-first",
    "Backward passes first, without a limit; 4 stages, 8 microbatches. "
    "How many does stage 0 have in flight at most?",
    unit="microbatches",
)

# %% slideshow={"slide_type": "fragment"}
for name, run in runs.items():
    print(f"{name:15} stages 0 to 3 keep at most {most_kept(run)}")
reveal("09/kept-backward-first", most_kept(runs["backward first"])[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Stage 0 keeps all 8 microbatches, as many as with GPipe, because it begins all of them before its first
# gradient comes back. A preference for backward passes helps you on the last stages only. So you need a limit.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert most_kept(runs["GPipe"]) == [8, 8, 8, 8] and most_kept(runs["1F1B"]) == [
    4,
    3,
    2,
    1,
]
assert most_kept(runs["backward first"]) == [8, 7, 4, 1]

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 2, figsize=(9.5, 2.9), sharey=True, layout="constrained")
for axis, name in zip(panels, ("GPipe", "1F1B")):
    for stage, color in enumerate(plt.cm.viridis(np.linspace(0, 0.85, 4))):
        times_ms, count = in_flight(runs[name].timeline, stage)
        axis.step(
            times_ms,
            count,
            where="post",
            color=color,
            label=f"stage {stage}",
            linewidth=2,
        )
    axis.set(title=name, xlabel="time (ms)", ylim=(0, 8.6), xlim=(0, 33))
panels[0].set_ylabel("microbatches in flight")
panels[1].legend(frameon=False, ncols=2)
show(figure, "Microbatches in flight over time on 4 stages. GPipe: all stages climb to 8 and come down again. "
     "1F1B: stage 0 climbs to 4 and stays near it, stages 1, 2 and 3 stay below 3, 2 and 1.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Microbatches in flight over time, for GPipe and for 1F1B.*
#
# GPipe keeps $M$ microbatches on every stage. 1F1B has a limit, so it keeps $\min(M, S - s)$,
# *however many microbatches there are*.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why is $S - s$ the right limit?** Think of stages $s$ to $S - 1$ as a shop. A microbatch enters the
# shop by its forward pass on stage $s$ and leaves it by its backward pass there:
#
# ```text
#  enters, every tf + tb  ->  F on stage s  ->  F on s + 1  ->  ...  ->  F on S - 1
#                                                                            |
#  leaves                 <-  B on stage s  <-  B on s + 1  <-  ...  <-  B on S - 1
# ```
#
# Little's law [14] holds for any shop in the long run:
#
# $$\text{number inside} = \text{rate} \times \text{time that each spends inside}.$$
#
# At full speed one microbatch enters every $t_f + t_b$. If it never waits in a queue, it spends
# $(S-s)(t_f + t_b)$ inside. The product is $S - s$. If you allow fewer, the stages run out of work. More of
# them can only queue.

# %% [markdown] slideshow={"slide_type": "fragment"} known={"09/kept-backward-first": "the size of a memory"}
# So 1F1B makes a smaller bubble possible after all, because it lets you take more microbatches. Suppose that
# stage 0 has memory for 8. Then GPipe on 4 stages can't take more than $M = 8$, and its bubble is 27 %.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/bubble-64",
    "The batch allows 64 microbatches. How large is 1F1B's bubble?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
run = pipeline(list_schedule(64, "BF", [4, 3, 2, 1]))
bubble = np.mean(run.timeline.idle_s) / run.makespan_s
print(f"1F1B, M = 64: {bubble:.1%} idle, keeping at most {most_kept(run)[0]} on stage 0")
reveal("09/bubble-64", 100 * bubble)

# %% [markdown] slideshow={"slide_type": "fragment"}
# 1F1B never keeps more than 4 microbatches, so you can give it all 64. The bubble falls to
# $\frac{S-1}{M+S-1} = \frac{3}{67}$, which is 4.5 %.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round((4 - 1) / (8 + 3), 2) == 0.27 and round(bubble, 3) == 0.045
assert most_kept(run) == [4, 3, 2, 1]

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the sliders.** Add microbatches and watch the idle time of a stage in *milliseconds*. Then add
# a stage.


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/bubble-in-ms",
    "From 4 to 8 microbatches, on 4 stages: how does the idle time of a stage change, in ms?",
    choices=["it grows", "it shrinks", "it stays the same"],
)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
def schedule_timeline(schedule, stages, microbatches):
    """The timeline of one step on ranks."""
    limits = list(range(stages, 0, -1)) if schedule == "1F1B" else [microbatches] * stages
    prefer = "BF" if schedule == "1F1B" else "FB"
    return pipeline(list_schedule(microbatches, prefer, limits)).timeline


explore(
    schedule_timeline,
    alt="Timeline of {schedule} on {stages} stages with {microbatches} microbatches.",
    schedule=Knob(["GPipe", "1F1B"], start="1F1B"),
    stages=Knob([2, 4, 6], start=4),
    microbatches=Knob([1, 2, 4, 8], start=4),
)

# %% slideshow={"slide_type": "fragment"}
idle_ms = [1e3 * schedule_timeline("1F1B", 4, M).idle_s[0] for M in (4, 8)]
print("idle on stage 0:", [f"{ms:.0f} ms" for ms in idle_ms])
change = np.sign(round(idle_ms[1] - idle_ms[0], 6))
reveal(
    "09/bubble-in-ms",
    {1: "it grows", -1: "it shrinks", 0: "it stays the same"}[change],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. One step of GPipe or 1F1B, by stages and microbatches.*
#
# In milliseconds your bubble stays the same. It is $(S-1)(t_f + t_b) = 9$ ms on every stage, and $M$ isn't in
# it. More microbatches only make the rest longer. Each further stage adds a forward and a backward pass to the
# bubble of all others.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for stages, microbatches in ((2, 1), (6, 8)):
    both = [schedule_timeline(name, stages, microbatches) for name in ("GPipe", "1F1B")]
    assert all(np.isclose(one.makespan_s, 3e-3 * (microbatches + stages - 1)) for one in both)
    assert all(np.allclose(one.idle_s, 3e-3 * (stages - 1)) for one in both)
assert np.allclose(idle_ms, 9)

# %% [markdown] slideshow={"slide_type": "slide"} known={"09/kept-backward-first": "how many microbatches there are"}
# **Keep less, compute twice.** With recomputation (activation checkpointing [5]) a stage keeps only the
# *input* of each microbatch in flight, and does the forward pass again before it needs the rest. [Section 9
# of lecture 7](07_sharding.ipynb) counts what you save and pay. In a pipeline you also choose *when*:
#
# | GPipe, 8 microbatches; the second forward pass is | step |
# |---|---|
# | left out | 33 ms |
# | a part of each `B` | 44 ms |
# | an action of its own before `B` | 41 ms |
#
# The last one is shorter, because the first of these actions waits for no gradient and so runs inside the
# bubble. GPipe does it this way [4].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
forwards = " ".join(f"F{m}" for m in range(8))
with_R = " ".join(f"R{m} B{m}" for m in range(8))
inside_b = pipeline(SCHEDULES["GPipe"], milliseconds={"F": 1.0, "B": 3.0})
before_b = pipeline([f"{forwards} {with_R}"] * 4, milliseconds={"F": 1.0, "B": 2.0, "R": 1.0})
assert np.isclose(inside_b.makespan_s, 44e-3) and np.isclose(before_b.makespan_s, 41e-3)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 5 and 6.** Collect the prediction of section 5 by hands; most
# vote for 1F1B. Then ask for the proof: "What is the earliest time at which the last stage can begin?"
# Little's law is the second stumbling block. Use a real shop: if a customer enters every 3 minutes and
# stays for 12, how many are inside?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Latency
#
# What do slow messages cost you? Let each one take $\alpha = 0.5$ ms, which is half a forward pass. Any number
# of messages can be on their way at the same time. With free messages all schedules take 33 ms.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("09/latency-gpipe", "Latency 0.5 ms: how long does GPipe take?", unit="ms")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("09/latency-1f1b", "Latency 0.5 ms: how long does 1F1B take?", unit="ms")

# %% slideshow={"slide_type": "slide"}
slow = free.with_(name="0.5 ms latency", alpha_s=0.5e-3)
late = {name: ringside.replay(run.trace, slow) for name, run in runs.items()}
for name in ("GPipe", "1F1B"):
    print(f"{name}: {1e3 * late[name].makespan_s:.0f} ms")

# %% slideshow={"slide_type": "fragment"}
late["GPipe"]

# %% slideshow={"slide_type": "fragment"}
reveal("09/latency-gpipe", 1e3 * late["GPipe"].makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. GPipe with a latency of half a forward pass.*
#
# Your GPipe takes 36 ms. While a message travels, its sender works on the next microbatch, so a stage waits
# only for the first message in each direction. There are $S - 1$ cuts on the way forward and $S - 1$ on
# the way back. So
#
# $$T_\text{GPipe} = (M+S-1)(t_f+t_b) + 2(S-1)\,\alpha.$$

# %% slideshow={"slide_type": "subslide"}
late["1F1B"]

# %% slideshow={"slide_type": "fragment"}
reveal("09/latency-1f1b", 1e3 * late["1F1B"].makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. 1F1B with the same latency. The stages wait for messages all through the middle.*
#
# 1F1B takes 41 ms. Why does it suffer more than GPipe? Use Little's law again. From its forward pass on stage
# 0 to its backward pass there, a microbatch now needs $S(t_f+t_b) + 2(S-1)\,\alpha = 15$ ms instead of 12. But
# the limit still lets only $S = 4$ of them in. So every four further microbatches cost you 15 ms, for as long
# as the batch lasts.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(late["GPipe"].makespan_s, 36e-3) and np.isclose(late["1F1B"].makespan_s, 41e-3)
assert np.isclose(late["GPipe"].makespan_s, (8 + 3) * 3e-3 + 2 * 3 * slow.alpha_s)
assert np.isclose(4 * 3 + 2 * 3 * 1e3 * slow.alpha_s, 15) and slow.alpha_s == 0.5e-3

# %% [markdown] slideshow={"slide_type": "subslide"}
# What becomes of both when the batch has more microbatches?

# %% slideshow={"slide_type": "fragment"}
ONE_AHEAD = [4, 3, 2, 1]
latency_ms = {}
for M in (16, 32):
    one_f_one_b = pipeline(list_schedule(M, "BF", ONE_AHEAD), slow)
    gpipe = pipeline(list_schedule(M, "FB", [M] * 4), slow)
    latency_ms[M] = [1e3 * run.makespan_s for run in (one_f_one_b, gpipe)]
    print(f"M = {M:2}: 1F1B {latency_ms[M][0]:3.0f} ms, GPipe {latency_ms[M][1]:3.0f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# GPipe pays for latency once in a batch, and 1F1B pays in every round. At 32 microbatches 1F1B takes
# 131 ms and GPipe takes 108 ms.
#
# Can you buy this time back with memory? In 1F1B a stage is one microbatch ahead of the next stage, and one
# microbatch can't be on the wire and in work at the same time. So let each stage be *two* ahead. Then
# $2(S-s) - 1$ are in flight, and one travels while the other is in work.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for M, (one_ms, gpipe_ms) in latency_ms.items():
    assert np.isclose(one_ms, 41 + 15 * (M - 8) / 4) and np.isclose(gpipe_ms, 36 + 12 * (M - 8) / 4)
assert np.allclose(latency_ms[32], [131, 108])

# %% slideshow={"slide_type": "slide"}
TWO_AHEAD = [7, 5, 3, 1]
ahead_ms = {}
for limits in (ONE_AHEAD, [5, 4, 3, 1], [6, 5, 3, 1], TWO_AHEAD):
    run = pipeline(list_schedule(32, "BF", limits), slow)
    ahead_ms[limits[0]] = 1e3 * run.makespan_s
    print(f"in flight {most_kept(run)}: {1e3 * run.makespan_s:.0f} ms")

# %% [markdown] slideshow={"slide_type": "subslide"}
# With 7 microbatches in flight on stage 0 you hide the latency completely, since the step takes GPipe's
# 108 ms. The 7 still doesn't depend on $M$, and GPipe would keep all of them.
#
# Little's law says that 5 in flight on stage 0 would be enough, and yet your run takes 125 ms. The law
# counts how many are inside, and it knows nothing about order. A stage works off a fixed list. If its next
# action can't start yet, the stage waits, although another action could start.
#
# **Turn the sliders.** Change the latency, and the number of microbatches that may be in flight on stage
# $s$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.allclose([ahead_ms[limit] for limit in (4, 5, 6, 7)], [131, 125, 117, 108])
assert [2 * (4 - s) - 1 for s in range(4)] == TWO_AHEAD

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"] known={"09/latency-gpipe": "the work of 12 microbatches"}
LIMITS = {"S - s": ONE_AHEAD, "2 (S - s) - 1": TWO_AHEAD, "M": [12] * 4}
TRACES = {name: pipeline(list_schedule(12, "BF", limits)).trace for name, limits in LIMITS.items()}


def late_timeline(in_flight, latency_ms):
    machine = slow.with_(name=f"{latency_ms:g} ms latency", alpha_s=latency_ms * 1e-3)
    return ringside.replay(TRACES[in_flight], machine)


explore(
    late_timeline,
    alt="Timeline of 12 microbatches, {in_flight} of them in flight, latency {latency_ms} ms.",
    in_flight=Knob(list(LIMITS), start="S - s", label="in flight"),
    latency_ms=Knob([0.0, 0.5, 1.0], start=0.5, label="latency", unit="ms"),
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. Twelve microbatches with backward passes first, by latency and by what may be in flight.*

# %% [markdown] slideshow={"slide_type": "slide"}
# **Is half a forward pass a realistic latency?** Take the model of section 1 as it was trained [1], with 8
# stages of 8 tensor-parallel GPUs each. A sequence needs
# $96\,\ell h^2 t\,(1 + \frac{t}{6h} + \frac{V}{16 \ell h})$ FLOPs for $\ell$ layers, $h$ hidden numbers,
# $t$ tokens and a vocabulary of $V$ [1]. This counts the forward pass, the backward pass, and a second
# forward pass (section 6). The GPUs reached 148 TFLOP/s, with all waiting in it [1]. Let each message carry an
# activation through the network card of a `zaratan` node. (The paper's machines have a card of twice that
# bandwidth for each GPU.)

# %% slideshow={"slide_type": "fragment"}
trained = table(LECTURES / "data" / "megatron_2021_grids.csv")
[row] = np.flatnonzero(trained["layers"] == layers)
tensor, stages, rate = (trained[name][row] for name in ("tensor", "pipeline", "tflops"))
num_flops = 96 * layers * hidden**2 * tokens
num_flops *= 1 + tokens / (6 * hidden) + vocabulary / (16 * layers * hidden)
stage_ms = 1e3 * num_flops / (tensor * stages) / (rate * 1e12)
zaratan = ringside.Machine.load("zaratan")
message_ms = 1e3 * activation_MB * 1e6 * zaratan.beta_s_per_byte
print(f"at {rate} TFLOP/s a stage takes {stage_ms:.0f} ms for a sequence")
print(f"a message takes {message_ms:.1f} ms, {message_ms / stage_ms:.1%} of that")

# %% [markdown] slideshow={"slide_type": "fragment"}
# No: a message takes 4.0 ms, only 1.6 % of what a stage takes for a sequence. If your model *needs* a
# pipeline, its messages are usually short compared with the work. This makes pipelines attractive between
# nodes. Latency matters where stages are small: in small models, with many stages, on slow networks, and with
# the finer cuts of the next section.
#
# There is one more trap. So far each message left as soon as it was sent. If your network waits until the
# receive is posted (rendezvous, lecture 3), then `pipe.py` hides nothing, because it posts a receive only when
# it needs the message. GPipe then takes 43 ms and 1F1B takes 42.5 ms. So post the receive for the next pass
# *before* you compute this one. Your `stage.py` in the assignment has to do that.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert rate == 148 and round(stage_ms) == 259 and round(message_ms, 1) == 4.0
assert round(message_ms / stage_ms, 3) == 0.016 and (tensor, stages) == (8, 8)
strict = slow.with_(eager_threshold_bytes=0)
rendezvous_ms = [
    1e3 * ringside.replay(runs[name].trace, strict).makespan_s for name in ("GPipe", "1F1B")
]
assert np.allclose(rendezvous_ms, [43, 42.5])

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 7.** The result that 1F1B is slower than GPipe as soon as
# messages take time makes a good exam question: 36 against 41 ms, with the formula for GPipe and
# Little's law for 1F1B. Students who only know "1F1B is better" learn to ask what it is better at.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 8. Interleaving: cut finer
#
# How can you make the bubble smaller with the same number of microbatches? The proof of section 5 says where
# it comes from: the first microbatch needs time to reach the last stage, and the last gradient to come back.
# Both times get shorter if each pass is shorter. So cut the network into more pieces than there are stages.
#
# Megatron's **interleaved** schedule [1] cuts the network into $vS$ *virtual stages* (pieces) and deals them
# to the stages like cards. With 2 stages and $v = 2$, a microbatch goes through both of them twice:
#
# ```text
#  piece   0 -> 1 -> 2 -> 3
#  stage   0    1    0    1
# ```
#
# We write `F3.1` for the forward pass of microbatch 3 through the *second* piece on a stage, counted from 0.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **In which order?** Build it by hand for $S = 2$, $v = 2$ and $M = 4$. Let each pass through a piece be
# one step, since only the order matters now.
#
# *Forward passes.* Stage 0 sends microbatch 0 through piece 0 to stage 1. The result of stage 1 comes
# back to stage 0 after two steps, for piece 2. In the meantime stage 0 takes microbatch 1. So it has
# $S = 2$ microbatches to fill the time of one round. Then microbatch 0 is back, and stage 0 continues
# with *it* instead of a new one, because the oldest microbatch should reach the end first:
#
# ```text
#  stage 0   F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 F2.1 F3.1
#  stage 1    .   F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 F2.1 F3.1
# ```
#
# So the microbatches take turns **in groups of $S$**: first piece for the whole group, second piece for
# the whole group, and so on. Then the next group comes. *Backward passes* go the same way with the last
# piece first: `B0.1 B1.1 B0.0 B1.0 B2.1 B3.1 B2.0 B3.0`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **How many forward passes before the first backward pass?** Begin with the last stage. Its first
# backward pass is `B0.1`, and it needs `F0.1` before it. In the order above, $(v-1)S = 2$ forward passes
# stand before `F0.1`. These two are its warm-up. Then it does one forward and one backward pass in turn.
#
# Now go one stage back. The gradient of `B0.1` arrives there two passes later, after one forward and one
# backward pass of the last stage. So each earlier stage needs two more forward passes:
#
# $$\text{warm-up of stage } s = 2\,(S - s - 1) + (v-1)\,S .$$
#
# Stage 0 has a warm-up of 4, and stage 1 has one of 2. That determines both lists:
#
# ```text
#  stage 0   F0.0 F1.0 F0.1 F1.1  F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0  B2.1 B3.1 B2.0 B3.0
#  stage 1   F0.0 F1.0  F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1  B2.0 B3.0
# ```

# %% [markdown] slideshow={"slide_type": "subslide"}
# **How long does it take?** Each pass takes $t_f / v$ or $t_b / v$. The work of a stage is still
# $M(t_f + t_b)$. But the first microbatch reaches the last stage after $(S-1)\,t_f/v$, and the last
# gradient comes back in $(S-1)\,t_b/v$. So
#
# $$T_\text{interleaved} = \left(M + \frac{S-1}{v}\right)(t_f + t_b).$$
#
# **How many messages?** There are $vS$ pieces and so $vS - 1$ cuts between them. Each microbatch crosses
# each cut once forward and once back. That makes $2M(vS - 1)$ messages, against $2M(S-1)$ for 1F1B.
#
# You run it with `pipe.py`, with pieces in place of stages. A piece's number says where its messages go.

# %% slideshow={"slide_type": "fragment"}
# %%writefile pieces.py
import ringside


def run(comm, schedules, milliseconds, num_pieces):
    """As pipe.py, for several pieces on each stage, as in F3.1."""
    sent = []
    for action in schedules[comm.rank].split():
        microbatch, local = action[1:].split(".")
        piece = int(local) * comm.size + comm.rank
        way = 1 if action[0] == "F" else -1
        before, after, tag = piece - way, piece + way, num_pieces * int(microbatch)
        if 0 <= before < num_pieces:
            comm.recv(source=before % comm.size, tag=tag + before)
        ringside.compute(seconds=milliseconds[action[0]] / 1e3, phase=action)
        if 0 <= after < num_pieces:
            sent.append(comm.isend(None, dest=after % comm.size, tag=tag + piece))
    for request in sent:
        request.wait()


# %% slideshow={"slide_type": "fragment"}
HALF = {"F": 0.5, "B": 1.0}  # a piece is half a stage


def interleave(schedules):
    """Run a schedule of two pieces on each stage."""
    args = (schedules, HALF, 2 * len(schedules))
    return session.call("pieces:run", len(schedules), args, machine=free).raise_for_error()


BY_HAND = [
    "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0",
    "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0",
]
by_hand = interleave(BY_HAND)
print(f"{1e3 * by_hand.makespan_s:g} ms, formula {(4 + 1 / 2) * 3:g} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your lists take 13.5 ms, as the formula says. 1F1B takes 15 ms for the same work.
#
# Now take the size of the sections before: 4 stages with 2 pieces each, and 8 microbatches. Each list has 32
# actions, so the lists come in a file. In the assignment you write the rule that makes them, for any $S$,
# $M$ and $v$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(by_hand.makespan_s, 13.5e-3) and (4 + 1) * 3 == 15
assert np.isclose(pipeline(list_schedule(4, "BF", [2, 1])).makespan_s, 15e-3)
for s, actions in enumerate(BY_HAND):
    assert actions.split().index("B0.1") == 2 * (2 - s - 1) + 2 + 1  # a forward pass goes before

# %% slideshow={"slide_type": "fragment"}
INTERLEAVED = table(LECTURES / "data" / "interleaved_4x8x2.csv")["schedule"].tolist()
for stage, actions in enumerate(INTERLEAVED):
    print(f"stage {stage}  {' '.join(actions.split()[:14])} ...")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for s, actions in enumerate(INTERLEAVED):
    assert len(actions.split()) == 32
    assert actions.split().index("B0.1") == 2 * (4 - s - 1) + 4 + 1

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/interleaved-time",
    "1F1B takes 33 ms. How long does the interleaved schedule take?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/interleaved-messages",
    "1F1B sends 48 messages. How many does the interleaved schedule send?",
    unit="messages",
)

# %% slideshow={"slide_type": "fragment"}
interleaved = interleave(INTERLEAVED)
for name, run in (("1F1B", runs["1F1B"]), ("interleaved", interleaved)):
    idle = np.mean(run.timeline.idle_s) / run.makespan_s
    messages = sum(run.sent_messages())
    print(f"{name:12} {1e3 * run.makespan_s:g} ms, {idle:.0%} idle, {messages} messages")
reveal("09/interleaved-time", 1e3 * interleaved.makespan_s)
reveal("09/interleaved-messages", sum(interleaved.sent_messages()))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def paint(axis, timeline, title):
    """One row for each stage: forward passes in blue, backward passes in green, W in orange."""
    kinds = {"F": plt.cm.Blues, "W": plt.cm.Oranges}
    for stage, spans in enumerate(timeline.spans):
        axis.barh(stage, timeline.makespan_s * 1e3, color="#d3d9e0", height=0.8)
        for span in spans:
            if span.kind == "compute":
                microbatch = int(span.label[1:].split(".")[0])
                color = kinds.get(span.label[0], plt.cm.Greens)(0.25 + 0.07 * microbatch)
                start, width = span.start_s * 1e3, (span.end_s - span.start_s) * 1e3
                axis.barh(stage, width, left=start, color=color, edgecolor="w", height=0.8)
                ink = "white" if microbatch > 3 else "black"
                middle = {"ha": "center", "va": "center", "fontsize": 7}
                axis.text(start + width / 2, stage, microbatch, color=ink, **middle)
    axis.set_title(title, loc="left", fontsize=10)


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
sheet = {"GPipe": runs["GPipe"], "1F1B": runs["1F1B"], "interleaved": interleaved}
figure, panels = plt.subplots(3, 1, figsize=(10, 5.4), sharex=True, layout="constrained")
for axis, (name, run) in zip(panels, sheet.items()):
    idle = np.mean(run.timeline.idle_s) / run.makespan_s
    kept = ", ".join(str(most) for most in most_kept(run))
    what = "half stages" if name == "interleaved" else "microbatches"
    title = f"{name}: {run.makespan_s * 1e3:g} ms, {idle:.0%} idle, keeps {kept} {what}"
    paint(axis, run.timeline, title)
    axis.set(ylim=(3.5, -0.5), xlim=(0, 33))
    axis.set_yticks(range(4), [f"stage {stage}" for stage in range(4)])
panels[2].set_xlabel("time (ms)")
show(figure, "Three schedules of 8 microbatches on 4 stages, one above the other. GPipe: a staircase of forward "
     "passes, a gap, a staircase of backward passes, 33 ms. 1F1B: forward and backward passes alternate after a "
     "short staircase, also 33 ms. Interleaved: passes of half the length, smaller gaps, "
     f"{interleaved.makespan_s * 1e3:g} ms.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 10. GPipe, 1F1B and the interleaved schedule. Forward passes are blue, backward passes are
# green, and later microbatches are darker. Grey is the bubble. In the title stands the most that
# stages 0 to 3 keep.*
#
# With two pieces on each stage your step takes 28.5 ms instead of 33, so it is 16 % faster. What do you pay?
#
# | | 1F1B | interleaved |
# |---|---|---|
# | bubble | 27 % | 16 % |
# | messages | 48 | 112 |
# | microbatches kept on stage 0 | 4 | 5.5 (11 half stages) |
#
# Megatron's authors (2021) report a throughput that is more than 10 % higher [1]. By the formula your gain
# shrinks as $M$ grows, because with many microbatches there is little bubble left to save.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(interleaved.makespan_s, (8 + 3 / 2) * 3e-3)
assert np.isclose(interleaved.makespan_s, 28.5e-3) and round(33 / 28.5 - 1, 2) == 0.16
assert round(np.mean(interleaved.timeline.idle_s) / interleaved.makespan_s, 2) == 0.16
assert sum(runs["1F1B"].sent_messages()) == 2 * 8 * (4 - 1) == 48
assert sum(interleaved.sent_messages()) == 2 * 8 * (2 * 4 - 1) == 112
assert most_kept(interleaved) == [11, 9, 7, 5] and most_kept(interleaved)[0] / 2 == 5.5

# %% [markdown] slideshow={"slide_type": "subslide"} known={"09/interleaved-latency": "GPipe's time"}
# What does latency do to it? A round has twice as many P2P messages, so you expect that interleaving feels
# latency sooner. At $\alpha = 0.5$ ms GPipe takes 36 ms and 1F1B takes 41 ms.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/interleaved-latency",
    "How long does the interleaved schedule take at 0.5 ms?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
with_latency = {}
print("latency     GPipe     1F1B   interleaved")
for alpha_ms in (0.0, 0.1, 0.5, 1.0):
    machine = free.with_(alpha_s=alpha_ms * 1e-3)
    ms = [ringside.replay(run.trace, machine).makespan_s * 1e3 for run in sheet.values()]
    print(f"{alpha_ms:.1f} ms   {ms[0]:5.1f} ms {ms[1]:5.1f} ms   {ms[2]:5.1f} ms")
    with_latency[alpha_ms] = ms
reveal("09/interleaved-latency", with_latency[0.5][2])

# %% [markdown] slideshow={"slide_type": "fragment"}
# At a latency of 0.5 ms your interleaved schedule takes 35.5 ms, barely less than GPipe. At 1 ms you would
# choose GPipe.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.allclose(with_latency[0.5], [36, 41, 35.5])
assert with_latency[1.0][2] > with_latency[1.0][0]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 8.** Build the lists for $S = 2$ at the board, with cards if you
# have them. The stumbling block is the warm-up: many use that of 1F1B, $S - s - 1$, and the pipeline then
# still runs, but slowly. Let the class find out where stage 1 waits with such a list. Why must $M$ be a
# multiple of $S$? Because an unfinished group leaves a hole in every round.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 9. Zero bubble: a backward pass in two halves
#
# The proof of section 5 assumes that a stage hands its gradient on after a *whole* backward pass. Does it
# have to? A backward pass computes two products. The stage before waits for the gradient of the *input*.
# No stage waits for the gradients of the *weights*, which are used at the update. *Zero bubble* schedules
# compute them separately [13]. We use torch's letters: `I` is the first half, `W` is the second, and `B`
# is still the whole. (The paper writes B for the first half.) Let F, I and W take 1 ms each.
#
# A stage can now do a W wherever it would wait. **ZB-H1** is 1F1B in which stage $s$ does each W $s$
# microbatches late. You need no new program, only new lists of actions for `pipe.py`:


# %% slideshow={"slide_type": "fragment"}
def halved(actions, late):
    """I for each B, and behind it the W of the microbatch that is `late` before it."""
    result, waiting = [], []
    for action in actions.split():
        result.append(action.replace("B", "I"))
        if action[0] == "B":
            waiting.append(action.replace("B", "W"))
            if len(waiting) > late:
                result.append(waiting.pop(0))
    return " ".join(result + waiting)


THIRDS = {"F": 1.0, "I": 1.0, "W": 1.0}
h1 = [halved(actions, stage) for stage, actions in enumerate(SCHEDULES["1F1B"])]
print(f"stage 0  {h1[0]}\nstage 3  {h1[3]}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **ZB-H2** fills the rest with forward passes. Each stage is *two* microbatches ahead of the next one, as
# in section 7, so stage 0 has seven to do before its first gradient comes back. Each W waits twice as long
# as in ZB-H1.

# %% slideshow={"slide_type": "fragment"}
two_ahead = list_schedule(8, "BF", TWO_AHEAD)
h2 = [halved(actions, 2 * stage) for stage, actions in enumerate(two_ahead)]

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("09/zb-h1", "1F1B takes 33 ms. How long does ZB-H1 take?", unit="ms")

# %% slideshow={"slide_type": "fragment"}
split = {"1F1B": runs["1F1B"]}
split |= {"ZB-H1": pipeline(h1, milliseconds=THIRDS), "ZB-H2": pipeline(h2, milliseconds=THIRDS)}
for name, run in split.items():
    print(f"{name}: {run.makespan_s * 1e3:.0f} ms, keeps {most_kept(run)}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(3, 1, figsize=(10, 5.4), sharex=True, layout="constrained")
for axis, (name, run) in zip(panels, split.items()):
    title = f"{name}: {run.makespan_s * 1e3:.0f} ms, keeps at most {max(most_kept(run))}"
    paint(axis, run.timeline, title)
    axis.set(ylim=(3.5, -0.5), xlim=(0, 33))
    axis.set_yticks(range(4), [f"stage {stage}" for stage in range(4)])
panels[2].set_xlabel("time (ms)")
h1_ms = split["ZB-H1"].makespan_s * 1e3
show(figure, "Three schedules on 4 stages with 8 microbatches. 1F1B has whole backward passes and gaps at both "
     f"ends. ZB-H1 has a W in most gaps and ends after {h1_ms:.0f} ms. In ZB-H2 no stage has a gap between its "
     "first and its last action; the rows are shifted by 1 ms from stage to stage.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("09/zb-h1", h1_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 11. F is blue, I is green, W is orange, and grey is idle. In 1F1B a green box is a whole backward
# pass.*
#
# With ZB-H1 you need 27 ms instead of 33, because a stage hands a gradient on after half the time and does each
# W in a gap. You pay with memory, because a microbatch is in flight until its W. The bubbles are [13]:
#
# | schedule | bubble | kept on a stage, at most |
# |---|---|---|
# | 1F1B | $(S-1)(F + I + W)$ | $S - s$ |
# | ZB-H1, for $M \ge S$ | $(S-1)(F + I - W)$ | $S$ |
# | ZB-H2, for $M \ge 2S - 1$ | $(S-1)(F + I - 2W)$, at least 0 | $2S - 1$ |
#
# For our lists this holds if $W$ is at most $F$ and at most $I$. **Read the last row with care.** You see
# that ZB-H2 ends after 27 ms, too, because the last stage can't start before 3 ms have passed. Its formula
# counts how long a stage is idle *between* its first and its last action. Here no stage ever is. That helps
# you when the next batch follows at once.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
took = {name: run.makespan_s * 1e3 for name, run in split.items()}
assert np.allclose([took["1F1B"], took["ZB-H1"], took["ZB-H2"]], [33, 27, 27])
assert most_kept(split["ZB-H1"]) == [4] * 4 and most_kept(split["ZB-H2"]) == [7] * 4
assert np.allclose(split["ZB-H1"].timeline.idle_s, 3e-3)


def span_ms(run, stage):
    """From the start of a stage's first action to the end of its last one."""
    work = [span for span in run.timeline.spans[stage] if span.kind == "compute"]
    return 1e3 * (work[-1].end_s - work[0].start_s)


assert all(np.isclose(span_ms(split["ZB-H2"], stage), 24) for stage in range(4))
times = {"F": 1.0, "I": 1.2, "W": 0.8}
assert np.isclose(pipeline(h1, milliseconds=times).makespan_s * 1e3, 24 + 3 * (1 + 1.2 - 0.8))
assert np.isclose(span_ms(pipeline(h2, milliseconds=times), 0), 24 + 3 * (1 + 1.2 - 2 * 0.8))
times = {"F": 0.5, "I": 1.0, "W": 1.0}  # W is longer than F: the formula promises too little
assert pipeline(h1, milliseconds=times).makespan_s * 1e3 > 8 * 2.5 + 3 * 0.5 + 0.1


# %% slideshow={"slide_type": "subslide"}
def twice(lists):
    """Two batches, one behind the other: microbatches 8 to 15 after 0 to 7."""
    again = []
    for actions in lists:
        second = " ".join(f"{action[0]}{int(action[1:]) + 8}" for action in actions.split())
        again.append(f"{actions} {second}")
    return again


two = {"1F1B": pipeline(twice(SCHEDULES["1F1B"]))}
two["ZB-H1"] = pipeline(twice(h1), milliseconds=THIRDS)
two["ZB-H2"] = pipeline(twice(h2), milliseconds=THIRDS)
for name, run in two.items():
    print(
        f"{name}: the second batch costs {run.makespan_s * 1e3 - split[name].makespan_s * 1e3:.0f} ms"
    )

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# With ZB-H2 the second batch costs 24 ms, which is its work alone. Each stage updates its weights when its
# last W is done, and starts the next batch while other stages still work on the old one. **There is no
# bubble, and no weight is out of date.** (The pipeline still fills once and drains once in a run.) You pay
# with memory for $2S - 1$ microbatches. And an update that needs something from *all* stages, such as the
# norm of the whole gradient, would stop all of them again. The authors check the norm afterwards and undo
# the update if they must [13].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
after = [two[name].makespan_s * 1e3 - took[name] for name in ("1F1B", "ZB-H1", "ZB-H2")]
assert np.allclose(after, [33, 27, 24])

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 9.** Hand out a printed 1F1B diagram and let the class fill W into it. Then ask why
# ZB-H2 isn't faster than ZB-H1 here, before you show the second batch.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=25
# ## 10. Pipelines as shipped
#
# Which schedules can you call today? PyTorch ships seven [8]. You know `GPipe`, `1F1B` and
# `Interleaved1F1B`. The other four also put several pieces on a rank. Torch calls a piece a *stage*, and in
# this section we do so, too.
#
# | schedule | what it adds |
# |---|---|
# | `LoopedBFS` | a rank does all forward passes of one of its stages, then all of the next: GPipe with pieces |
# | `InterleavedZeroBubble` | interleaving, with I and W instead of B |
# | `ZBVZeroBubble` | two stages on each rank, placed in a V; I and W |
# | `DualPipeV` | the same V; a forward and a backward pass of *different* microbatches as one action, F&B |
#
# Which stages does a rank hold? Here are 8 stages on 4 ranks:
#
# ```text
#            interleaved       V of ZBV and DualPipeV
#  rank 0       0  4              0           7
#  rank 1       1  5                1       6
#  rank 2       2  6                  2   5
#  rank 3       3  7                   3 4
# ```
#
# In the V, rank 0 has the first stage *and* the last. Your microbatch turns round on rank 3, where it goes
# from stage 3 to stage 4 without a message.
#
# Torch builds such a schedule as a list of actions for each rank. For that it needs the number of stages
# and ranks, but no layers and no processes. So you can take torch's *own* lists.

# %% slideshow={"slide_type": "fragment"}
from types import SimpleNamespace

from torch.distributed import pipelining


def torch_lists(name, ranks, microbatches):
    """Each rank's actions, as torch orders them: one or two of (kind, stage, microbatch)."""
    stage = SimpleNamespace(num_stages=2 * ranks, group_size=ranks, group_rank=0, submod=None)
    order = getattr(pipelining, f"Schedule{name}")([stage, stage], microbatches).pipeline_order
    lists = []
    for rank in range(ranks):
        actions = [action.sub_actions or (action,) for action in order[rank] if action]
        lists.append([[(a.computation_type.value, a.stage_index, a.microbatch_index) for a in both]
                      for both in actions])  # fmt: skip
    return lists


first_pair = next(action for action in torch_lists("DualPipeV", 4, 8)[0] if len(action) == 2)
print(first_pair)

# %% [markdown] slideshow={"slide_type": "subslide"}
# You see rank 0's first F&B action: a forward pass of microbatch 7 through stage 0, and a backward pass of
# microbatch 3 through stage 7. You play the lists with `pipe.py` once more, with two changes. An action can
# hold two passes, and each F, I and B may have to exchange something with other GPUs. You need this exchange
# further down. Until then it takes no time.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert first_pair == [("F", 0, 7), ("B", 7, 3)]

# %% slideshow={"slide_type": "fragment"}
# %%writefile shipped.py
import numpy as np
from mpi4py import MPI

import ringside

WAY = {"F": 1, "I": -1, "B": -1}  # to the stage that waits for the result; W has none


def work(action, milliseconds, exchange_ms):
    """Compute; then exchange what the computation of an F&B pair doesn't hide."""
    compute_ms = sum(milliseconds[kind] for kind, _, _ in action)
    exchanges_ms = exchange_ms * sum(kind in WAY for kind, _, _ in action)
    label = "&".join(f"{kind}{microbatch}" for kind, _, microbatch in action)
    ringside.compute(seconds=compute_ms / 1e3, phase=label)
    hidden_ms = compute_ms if len(action) == 2 else 0.0
    if exchanges_ms > hidden_ms:
        ringside.compute(seconds=(exchanges_ms - hidden_ms) / 1e3, phase="exchange")


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a shipped.py


def run(comm, lists, rank_of, milliseconds, exchange_ms):
    """Play this rank's actions; rank_of: the rank of each stage."""
    sent, packet, here = [], np.zeros(8, np.uint8), comm.rank
    for action in lists[here]:
        for kind, stage, microbatch in action:
            before = stage - WAY.get(kind, 0)
            if rank_of.get(before, here) != here:
                tag = len(rank_of) * microbatch + before
                comm.Recv(packet.copy(), rank_of[before], tag)
        work(action, milliseconds, exchange_ms)
        for kind, stage, microbatch in action:
            dest = rank_of.get(stage + WAY.get(kind, 0), here)
            if dest != here:
                sent.append(comm.Isend(packet, dest, len(rank_of) * microbatch + stage))
    MPI.Request.Waitall(sent)


# %% slideshow={"slide_type": "fragment"}
NAMES = ["LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"]


def play(lists, exchange_ms=0.0, milliseconds=THIRDS):
    """Play lists of actions on ranks."""
    rank_of = {s: rank for rank, actions in enumerate(lists) for [(_, s, _), *_] in actions}
    milliseconds = milliseconds | {"B": milliseconds["I"] + milliseconds["W"]}
    args = (lists, rank_of, milliseconds, exchange_ms)
    return session.call("shipped:run", len(lists), args, machine=free).raise_for_error()


def shipped(name, ranks, microbatches, exchange_ms=0.0):
    return play(torch_lists(name, ranks, microbatches), exchange_ms)


# %% [markdown] slideshow={"slide_type": "subslide"}
# DeepSeek designed the original of DualPipeV for the training of V3 (2024) [15]. Is it the fastest? Let F, I
# and W take 1 ms for each stage, and put two stages on each of 4 ranks. A rank then works 96 ms for 16
# microbatches. Messages are free.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/shipped",
    "Order Interleaved1F1B, InterleavedZeroBubble, ZBV and DualPipeV by time. Where is DualPipeV?",
    choices=["first", "second", "third", "last"],
)


# %% slideshow={"slide_type": "fragment"}
def most_chunks(actions):
    """The most chunks that a rank keeps: one for each stage and microbatch, from F to W or B."""
    passes = [kind for action in actions for kind, _, _ in action]
    return int(np.cumsum([(kind == "F") - (kind in "BW") for kind in passes]).max())


SHAPES = [(4, 8), (4, 16), (8, 32)]  # ranks, microbatches
shipped_ms, chunks = {}, {}
for name in NAMES:
    for ranks, M in SHAPES:
        lists = torch_lists(name, ranks, M)
        shipped_ms[name, ranks, M] = play(lists).makespan_s * 1e3
        chunks[name, ranks, M] = max(most_chunks(actions) for actions in lists)
    row = ", ".join(f"{shipped_ms[name, ranks, M]:3.0f}" for ranks, M in SHAPES)
    print(f"{name:22}{row} ms; 4 ranks with 16 microbatches keep {chunks[name, 4, 16]}")

# %% slideshow={"slide_type": "fragment"}
fastest = sorted(NAMES[1:], key=lambda name: shipped_ms[name, 4, 16])
reveal("09/shipped", ["first", "second", "third", "last"][fastest.index("DualPipeV")])

# %% [markdown] slideshow={"slide_type": "fragment"}
# DualPipeV comes third. Here are all times in ms, with 1F1B for comparison, and the chunks (one microbatch on
# one stage) that a rank keeps at most:
#
# | ranks, microbatches | work | 1F1B | LoopedBFS | Interleaved1F1B | InterleavedZeroBubble | ZBV | DualPipeV |
# |---|---|---|---|---|---|---|---|
# | 4, 8 | 48 | 66 | 57 | 57 | 51 | 51 | 54 |
# | 4, 16 | 96 | 114 | 105 | 105 | 99 | 99 | 102 |
# | 8, 32 | 192 | 234 | 213 | 213 | 199 | 199 | 206 |
# | chunks for 4, 16 | | 8 | 32 | 11 | 8 | 8 | 9 |
# | messages for 4, 16 | | 96 | 224 | 224 | 224 | 192 | 192 |
#
# The V sends 192 messages instead of 224, since one of its seven cuts lies inside rank 3. ZBV has zero bubble
# in the sense of section 9, because no rank is idle between its first and its last action. But torch's own
# text says that this holds only if F, I and W are equally long [8]. Give I 1.2 ms and W 0.8 ms, and you get
# 99.6 ms. So if you look at bubbles alone, would you ever take DualPipeV?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
shipped_rows = [[shipped_ms[name, *shape] for name in NAMES] for shape in SHAPES]
assert np.allclose(shipped_rows[0], [57, 57, 51, 51, 54])
assert np.allclose(shipped_rows[1], [105, 105, 99, 99, 102])
assert np.allclose(shipped_rows[2], [213, 213, 199, 199, 206])
plain = {}
for ranks, M in SHAPES:
    lists = list_schedule(M, "BF", list(range(ranks, 0, -1)))
    plain[ranks, M] = pipeline(lists, milliseconds={"F": 2.0, "B": 4.0})
assert np.allclose([run.makespan_s * 1e3 for run in plain.values()], [66, 114, 234])
worked = [run.timeline.busy_s[0] * 1e3 for run in plain.values()]
assert np.allclose(worked, [48, 96, 192])
assert 2 * max(most_kept(plain[4, 16])) == 8 and sum(plain[4, 16].sent_messages()) == 96

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [chunks[name, 4, 16] for name in NAMES] == [32, 11, 8, 8, 9]
messages = [sum(shipped(name, 4, 16).sent_messages()) for name in NAMES]
assert messages == [224, 224, 224, 192, 192]
zbv = shipped("ZBVZeroBubble", 4, 16)
assert all(np.isclose(span_ms(zbv, rank), 96) for rank in range(4))
unequal = play(torch_lists("ZBVZeroBubble", 4, 16), milliseconds={"F": 1.0, "I": 1.2, "W": 0.8})
assert np.isclose(unequal.makespan_s, 99.6e-3)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Now give each pass something to exchange.** DeepSeek-V3 is a mixture of experts: each layer sends its tokens
# to experts on other GPUs and gets them back (*dispatch* and *combine*, [lecture 14](14_experts.ipynb)). So a
# forward pass waits for messages *inside* its stage, and the first half of a backward pass does so, too. Let
# each F, I and B wait 1 ms. If your rank does one pass at a time, it has nothing else to do meanwhile. In an
# F&B action it computes one microbatch for 3 ms while the other one's messages travel, so both are hidden.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/exchange",
    "Exchanges of 1 ms, 4 ranks, 16 microbatches. Interleaved1F1B needs 175 ms. And DualPipeV?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
exchange_ms = {}
for name in NAMES[1:]:
    for ranks, M in ((4, 16), (8, 32)):
        exchange_ms[name, ranks] = shipped(name, ranks, M, exchange_ms=1.0).makespan_s * 1e3
    print(f"{name:22} {exchange_ms[name, 4]:4.0f} ms, 8 ranks {exchange_ms[name, 8]:4.0f} ms")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def paint_action(axis, rank, label, **place):
    """A bar; an F&B action has one half above the other, and waiting for messages is hatched."""
    if label == "exchange":
        axis.barh(rank, **place, height=0.8, color="w", edgecolor="#57606a", hatch="/////")
        return
    shades = {"F": plt.cm.Blues, "B": plt.cm.Greens, "I": plt.cm.Greens, "W": plt.cm.Oranges}
    passes = label.split("&")
    height = 0.8 / len(passes)
    for row, one in enumerate(passes):
        color = shades[one[0]](0.25 + 0.07 * int(one[1:]))
        middle = rank - 0.4 + height * (row + 0.5)
        axis.barh(middle, **place, height=height, color=color, edgecolor="w")


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(2, 1, figsize=(10, 4.4), sharex=True, layout="constrained")
for axis, name in zip(panels, ("ZBVZeroBubble", "DualPipeV")):
    run = shipped(name, 4, 8, exchange_ms=1.0)
    for rank, spans in enumerate(run.timeline.spans):
        for span in (span for span in spans if span.kind == "compute"):
            start_ms, end_ms = 1e3 * span.start_s, 1e3 * span.end_s
            paint_action(axis, rank, span.label, left=start_ms, width=end_ms - start_ms)
    axis.set(ylim=(3.5, -0.5), xlim=(0, 87), facecolor="#d3d9e0")
    axis.set_title(f"{name}: {run.makespan_s * 1e3:.0f} ms", loc="left", fontsize=10)
    axis.set_yticks(range(4), [f"rank {rank}" for rank in range(4)])
panels[1].set_xlabel("time (ms)")
show(figure, "Timelines of ZBV and of DualPipeV on 4 ranks with 8 microbatches, one above the other. In ZBV each "
     "forward pass and each first half of a backward pass is followed by 1 ms of messages, hatched, up to 86 ms. In "
     "DualPipeV the actions in the middle hold a forward and a backward pass and have no hatched part; it ends after 75 ms.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("09/exchange", exchange_ms["DualPipeV", 4])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 12. ZBV and DualPipeV with exchanges of 1 ms, for 8 microbatches. Blue is F, green is I or B, orange
# is W; an F&B action shows both passes, one above the other. Hatched: the rank waits for its exchange.*
#
# DualPipeV wins by far. The table has the times in ms, with exchanges of 1 ms:
#
# | ranks, microbatches | Interleaved1F1B | InterleavedZeroBubble | ZBV | DualPipeV |
# |---|---|---|---|---|
# | 4, 16 | 175 | 169 | 166 | 123 |
# | 8, 32 | 355 | 341 | 334 | 247 |
#
# Why? Look at Figure 12, where ZBV has a hatched box behind every blue and every green one. So DualPipeV is
# a schedule against *messages*. Choose by the bubble only if your stages exchange nothing inside.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.allclose([exchange_ms[name, 4] for name in NAMES[1:]], [175, 169, 166, 123])
assert np.allclose([exchange_ms[name, 8] for name in NAMES[1:]], [355, 341, 334, 247])
drawn = [shipped(name, 4, 8, exchange_ms=1.0).makespan_s for name in ("ZBVZeroBubble", "DualPipeV")]
assert np.allclose(drawn, [86e-3, 75e-3])

# %% [markdown] slideshow={"slide_type": "slide"}
# **Do you need the V for that?** Take torch's interleaved list and let each rank do one more forward pass
# before its first backward pass. Then an F and the B behind it never wait for each other, so you can make
# them one action.


# %% slideshow={"slide_type": "fragment"}
def paired(lists):
    """Interleaved lists with one more warm-up pass, and F and B in pairs."""
    result = []
    for actions in lists:
        forward = [one for [one] in actions if one[0] == "F"]
        backward = [one for [one] in actions if one[0] == "B"]
        ahead = [kind for [(kind, _, _)] in actions].index("B")  # torch's warm-up and one more
        pairs = [[f, b] for f, b in zip(forward[ahead:], backward)]
        rest = backward[len(pairs) :]
        result.append([[f] for f in forward[:ahead]] + pairs + [[b] for b in rest])
    return result


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/paired",
    "Interleaved1F1B in pairs, exchanges of 1 ms: how long, where it took 175 ms?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
in_pairs = paired(torch_lists("Interleaved1F1B", 4, 16))
paired_run = play(in_pairs, exchange_ms=1.0)
keeps = max(most_chunks(actions) for actions in in_pairs)
print(f"{paired_run.makespan_s * 1e3:.0f} ms, keeps {keeps} chunks")
reveal("09/paired", paired_run.makespan_s * 1e3)

# %% [markdown] slideshow={"slide_type": "fragment"}
# In pairs your interleaved schedule takes 121 ms, a little less than DualPipeV. It keeps 12 chunks where
# DualPipeV keeps 9. (Our model lets a pair hide as much as its computation is long. Measure how much yours
# hides.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(paired_run.makespan_s, 121e-3) and keeps == 12
assert np.isclose(play(in_pairs).makespan_s, 105e-3)  # free messages: as Interleaved1F1B

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# **What do large runs use?** (Read in August to November 2026.)
#
# - *DeepSeek-V3* (2024) uses DualPipe, which feeds microbatches from both ends [15]. Each GPU holds two stages,
#   one of each direction, so all parameters are there twice. In torch's DualPipeV each stage is there once.
# - *Kimi K2* (2025) rejects DualPipe because it doubles the memory for parameters and gradients. It takes
#   interleaved 1F1B with more warm-up microbatches, and hides the experts' messages as you did above [16].
# - *Megatron-LM* has the same as an option, `--overlap-moe-expert-parallel-comm`, and it can do W later with
#   `--delay-wgrad-compute` [17].
# - *TorchTitan* runs Interleaved1F1B, ZBV and DualPipeV on compiled stages [18]. Without that, torch refuses
#   to split I from W under `torch.compile` [8].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
offered = {name.removeprefix("Schedule") for name in pipelining.__all__ if "Schedule" in name}
assert offered >= {"GPipe", "1F1B", *NAMES} and len({"GPipe", "1F1B", *NAMES}) == 7
for name in ("ZBVZeroBubble", "DualPipeV"):
    held_by = [
        {stage for action in rank for _, stage, _ in action} for rank in torch_lists(name, 4, 8)
    ]
    assert held_by == [{0, 7}, {1, 6}, {2, 5}, {3, 4}]
dealt = [{stage for [(_, stage, _)] in rank} for rank in torch_lists("Interleaved1F1B", 4, 8)]
assert dealt == [{0, 4}, {1, 5}, {2, 6}, {3, 7}] and 2 * 16 * 7 == 224 and 2 * 16 * 6 == 192
alone = SimpleNamespace(num_stages=4, group_size=4, group_rank=0, submod=None)
last_rank = pipelining.Schedule1F1B(alone, 8).pipeline_order[3]
assert [action.microbatch_index for action in last_rank if str(action)[1] == "F"] == [*range(1, 9)]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 10.** Take the order of the four by hands before each run, and write both orders at
# the board. Torch *runs* 1F1B by a loop of its own; the list that its `Schedule1F1B` states for the last
# rank begins with microbatch 1 instead of 0. The network found it: the ranks deadlock. So 1F1B in the table
# is ours.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 11. Why nobody leaves the flush out
#
# Each bubble so far comes from one rule: the weights change once, when all gradients of the batch have come
# back. This is the **flush**. What if each stage updates its weights after every backward pass and goes on?
# That is PipeDream [7]. Then 1F1B never ends, and each of its 64 microbatches is a small batch of its own.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/no-flush",
    "8 batches of 8 microbatches take 8 x 33 = 264 ms with a flush. And without?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
without_flush = pipeline(list_schedule(64, "BF", ONE_AHEAD))
print(f"64 microbatches without a flush: {without_flush.makespan_s * 1e3:.0f} ms")
reveal("09/no-flush", without_flush.makespan_s * 1e3)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without a flush you need 201 ms, because the pipeline fills and drains once in a *run*. So what is the catch?
# Look at stage 0 of 1F1B: `F0 F1 F2 F3 B0 F4 ...`. It starts microbatch 4 after *one* update, `B0`, while the
# last stage will start it after four. In general stage $s$ uses weights that lack $S - 1 - s$ updates.
#
# PipeDream keeps the old weights until the gradient comes back (**weight stashing**), so the gradient is right,
# but it is late. Does that matter? Try it on a quadratic loss. Let $k$ be the learning rate times the curvature.
# Without staleness SGD converges for $k < 2$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(without_flush.makespan_s, 201e-3) and np.isclose(
    8 * runs["1F1B"].makespan_s, 264e-3
)
assert SCHEDULES["1F1B"][0].startswith("F0 F1 F2 F3 B0 F4")
last_stage = SCHEDULES["1F1B"][3].split()
assert [action[0] for action in last_stage[: last_stage.index("F4")]].count("B") == 4


# %% slideshow={"slide_type": "fragment"}
def after_updates(k, stages, updates=200):
    """How far a weight is from its optimum, from 1, if stage s is S - 1 - s updates late."""
    weight = [1.0] * stages
    for _ in range(updates):
        weight.append(weight[-1] - k * np.mean(weight[-stages:]))
    return np.abs(weight[-stages:]).max()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("09/stale", "k = 1, half of the limit. With how many stages does it still converge?",
      choices=["2", "2 and 4", "2, 4 and 8"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
far = {stages: after_updates(1.0, stages) for stages in (2, 4, 8)}
print(
    "distance after 200 updates: " + ", ".join(f"{S} stages {each:.1e}" for S, each in far.items())
)
reveal("09/stale", {1: "2", 2: "2 and 4", 3: "2, 4 and 8"}[sum(each < 1 for each in far.values())])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your SGD converges with 2 and 4 stages, and not with 8. The limit falls with the depth: $k < 2S \sin^2
# \frac{\pi}{2S}$, which [lecture 10](10_asynchronous_pipelines.ipynb) derives in section 4.
#
# | stages | 1 | 2 | 4 | 8 | 16 |
# |---|---|---|---|---|---|
# | largest $k$ | 2 | 2 | 1.17 | 0.61 | 0.31 |
#
# So in a deep pipeline you buy the missing bubble with a lower rate, and with memory for old weights. With a
# flush you get exactly the gradient of data parallelism, and sections 6, 8 and 9 make its bubble small. That is
# why large runs flush. Lecture 10 has what a stale pipeline computes, 2BW, and PipeDream's planner.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
largest = [2 * S * np.sin(np.pi / (2 * S)) ** 2 for S in (1, 2, 4, 8, 16)]
assert np.allclose(np.round(largest, 2), [2, 2, 1.17, 0.61, 0.31])
for S, limit in zip((2, 4, 8, 16), largest[1:]):
    assert after_updates(0.98 * limit, S, 2000) < 0.2 < 5 < after_updates(1.02 * limit, S, 2000)
assert far[2] < 1e-2 and far[4] < 1e-2 and far[8] > 1e3

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 12. Where it breaks
#
# **Unequal stages.** The slowest stage sets the rate. If stage $s$ takes $f_s$ for a forward pass and
# $b_s$ for a backward pass, GPipe takes
#
# $$T = \sum_s (f_s + b_s) + (M-1)\left(\max_s f_s + \max_s b_s\right).$$

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/uneven",
    "One of four stages takes 1.4 times as long as the others. What becomes of GPipe's 33 ms?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
factors = [1.0, 1.0, 1.4, 1.0]
args = []
for factor in factors:
    args.append((SCHEDULES["GPipe"], {"F": factor * 1.0, "B": factor * 2.0}))
uneven = session.call("pipe:run", 4, args, machine=free).raise_for_error()
print(f"{uneven.makespan_s * 1e3:.1f} ms")
reveal("09/uneven", uneven.makespan_s * 1e3)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your step takes 42.6 ms, which is 1.29 times as long. With more microbatches the factor tends to that of the
# slow stage, although the work has grown by a tenth only. The layers of a transformer are all alike. But even
# there the first stage has the token embedding, and the last stage has the loss over the vocabulary.
# Convolutional networks are worse.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(uneven.makespan_s, 3e-3 * (sum(factors) + 7 * max(factors)))
assert np.isclose(uneven.makespan_s, 42.6e-3) and round(42.6 / 33, 2) == 1.29
assert np.isclose(sum(factors) / 4, 1.1)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What the model leaves out**, in the order of how often it will surprise you:
#
# - *Small microbatches are inefficient.* Half the samples take more than half the time.
# - *The batch grows.* $M$ microbatches make a batch of at least $M$ samples in each replica.
# - *Some layers see the batch.* Batch normalization computes its statistics from a microbatch, so the
#   network is a different one.
# - *Some weights are shared.* If the first and the last stage use the same matrix, its two gradients have
#   to be summed between them.
# - *Memory is uneven.* With 1F1B stage 0 keeps the most and the last stage the least.
#
# **When it is the wrong scheme.** If your model fits on one GPU, data parallelism has no bubble. If it
# fits on one node, tensor parallelism (cutting inside layers) has none either, and the wires are fast there.
# You need a pipeline for models that are larger than a node, over the slow wires between nodes. $S$ can
# never exceed the number of layers.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 13. Does the bubble explain published speeds?
#
# Can you predict a published speed from the bubble alone? GPipe's authors (2019) trained a Transformer and a
# convolutional network, AmoebaNet, on $K$ accelerators, one stage on each [4]. So $K$ is our $S$. If the bubble
# were all, you would expect $\frac{KM}{M+K-1}$ times the speed of one accelerator. Their table has speeds
# relative to the row $K = 2$, $M = 1$, where the formula gives 1.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/published",
    "Which rows, for K of 2, 4 and 8, does the formula predict to 10 %?",
    choices=[
        "Transformer, M = 32",
        "Transformer, M = 4",
        "AmoebaNet, M = 32",
        "AmoebaNet, M = 4",
    ],
)

# %% slideshow={"slide_type": "fragment"}
gpipe_speed = table(LECTURES / "data" / "gpipe_speed.csv")
on_tpu = gpipe_speed["device"] == "TPU"
network, K, M, speed = (gpipe_speed[name][on_tpu] for name in ("network", "K", "M", "speed"))
predicted = K * M / (M + K - 1)  # for K = 2 and M = 1 it is 1, the unit of the table
off = {}
for name in ("Transformer", "AmoebaNet"):
    for m in (32, 4):
        rows = (network == name) & (m == M)
        off[f"{name}, M = {m}"] = predicted[rows] / speed[rows] - 1
        errors = "  ".join(f"{error:+.0%}" for error in off[f"{name}, M = {m}"])
        print(f"{name:11} M = {m:2}   predicted over measured: {errors}")
right = [name for name, errors in off.items() if max(abs(errors)) < 0.1]

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6, 4.4))
axis.fill_between((0.9, 8), (0.81, 7.2), (0.99, 8.8), color="#e6e9ed", label="within 10 %")
groups = {
    "Transformer, M = 32": ((network == "Transformer") & (M == 32), "o", "#0072b2"),
    "Transformer, M = 4": ((network == "Transformer") & (M == 4), "s", "#d55e00"),
    "AmoebaNet, M = 4 and 32": ((network == "AmoebaNet") & (M > 1), "^", "#7f5539"),
}
for name, (rows, marker, color) in groups.items():
    axis.plot(predicted[rows], speed[rows], marker, color=color, label=name)
axis.set(xscale="log", yscale="log", xlabel="speed if the bubble were all", ylabel="as published")
axis.set_xticks([1, 2, 4, 8], [1, 2, 4, 8])
axis.set_yticks([1, 2, 4, 8], [1, 2, 4, 8])
axis.minorticks_off()
axis.legend(frameon=False, fontsize=8)
inside = ", ".join(right)
show(figure, "Published speeds over predicted ones, both logarithmic, with a band of 10 % around the diagonal. "
     f"All points in the band: {inside}. Of the others some lie above it, some far below.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("09/published", right[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 13. GPipe's published speeds (table 2 of [4], $K$ of 2, 4 and 8) against the bubble's formula.
# Points above the band can't be explained with equal work. Points below it have more to them than the
# bubble.*
#
# The formula is right for one kind of rows, and you can say why it fails for the others:
#
# | rows | prediction | what the formula leaves out |
# |---|---|---|
# | Transformer, $M = 32$ | within 8 % | |
# | AmoebaNet | up to 99 % too high | unequal stages (section 12) |
# | Transformer, $M = 4$ | up to 39 % too low | unequal work |
#
# AmoebaNet's layers are very different, and the paper says so itself [4]. But why is a Transformer *faster*
# than predicted? You proved in section 5 that no schedule can do this with the same work. So it wasn't the
# same work. Under the table the authors say that the batch was adjusted to the memory where necessary. More
# accelerators have more memory, so they can take larger microbatches, which a TPU computes more efficiently.
#
# A formula that fails tells you what to ask. If you compare two rows that differ in two things, you
# learn about neither.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert right == ["Transformer, M = 32"] and (max(off[right[0]]).round(2)) == 0.08
assert min(off["Transformer, M = 4"]).round(2) == -0.39
assert max(off["AmoebaNet, M = 32"]).round(2) == 0.99 > max(off["AmoebaNet, M = 4"])

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers: more of these tables.** This is for a seminar, and was measured with the formulas above.
#
# - torchgpipe [6] trained the same AmoebaNet. Let the slowest of $K$ stages have $x/K$ of the work; a batch
#   then takes $(1 + (M-1)\,x/K)/M$ of the time on one accelerator. Fitted at $M = 32$ on 8 stages, $x$ is
#   2.11 for GPipe and 1.41 for torchgpipe. So the imbalance isn't a property of the network alone: the two
#   systems cut it differently.
# - torchgpipe's page has U-Net and `ResNet-101` on 8 GPUs, at 3.6 and 5.0 times the speed of one. The
#   bubble explains 27 % and 12 % of what is missing. Compute a cause before you blame it.
# - In table 1 of [4] the smallest Transformer has 282.2 million parameters of 12 bytes, which are 3.15
#   GiB. The entries 11.7 G for parameters and 3.15 G for activations are exchanged.


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def imbalance(K, M, speedup):
    """x, from the speed relative to one accelerator."""
    return (M / speedup - 1) * K / (M - 1)


torchgpipe = table(LECTURES / "data" / "torchgpipe_speed.csv")
ours = (torchgpipe["partitions"] == 8) & (torchgpipe["microbatches"] == 32)
ours &= torchgpipe["network"] == "AmoebaNet-D"
gained = torchgpipe["samples_per_s"][ours][0] / torchgpipe["samples_per_s"][0]
theirs = speed[(network == "AmoebaNet") & (K == 8) & (M == 32)][0]
assert round(imbalance(8, 32, gained), 2) == 1.41 and round(imbalance(8, 32, theirs), 2) == 2.11

# %% slideshow={"slide_type": "skip"} tags=["checked"]
blame = {}
for name in ("U-Net", "ResNet-101"):
    rows = torchgpipe["network"] == name
    n, m = torchgpipe["partitions"][rows], torchgpipe["microbatches"][rows]
    gained = torchgpipe["samples_per_s"][rows] / torchgpipe["samples_per_s"][rows][0]
    bound = n * m / (m + n - 1)
    blame[name] = (
        round(gained[-1], 1),
        round((n[-1] - bound[-1]) / (n[-1] - gained[-1]), 2),
    )
    assert n[-1] == 8
assert blame == {"U-Net": (3.6, 0.27), "ResNet-101": (5.0, 0.12)}

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from ringside.course.validation import load

memory = load("gpipe")[1]["memory"]
gib = np.array(memory["parameters"]) * memory["bytes_per_parameter"] / 2**30
assert memory["parameters"][0] == 282.2e6 and round(gib[0], 2) == 3.15
assert memory["gib"][0] == 11.7 and np.allclose(gib[1:], memory["gib"][1:], rtol=0.006)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. What the systems do
#
# **1F1B** with one update at the end of the batch is the schedule of Megatron-LM (2021). Its authors call
# it PipeDream-Flush [1], after the system that had this order first, without waiting for the last
# gradient [7].
#
# **Megatron-LM** trained a model of 1008 billion parameters on 3072 GPUs [1]. A tensor-parallel group
# had 8 GPUs, and there were 64 stages. The batch had 3072 sequences. The table doesn't give the size of
# a microbatch. Let it be one sequence.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("09/megatron-bubble", "How large is the bubble of this run, with 1F1B?", unit="%")


# %% slideshow={"slide_type": "fragment"}
def bubble_of(row, pieces=1):
    """Replicas, microbatches in each, and the bubble, if a microbatch is one sequence."""
    S = trained["pipeline"][row]
    replicas = trained["gpus"][row] // (trained["tensor"][row] * S)
    M = trained["batch"][row] // replicas
    return replicas, M, (S - 1) / pieces / (M + (S - 1) / pieces)


replicas, M, bubble = bubble_of(-1)
print(f"{replicas} replicas with {M} microbatches each: bubble {bubble:.0%}")
print(f"with 2 pieces on each stage: {bubble_of(-1, pieces=2)[2]:.1%}")
reveal("09/megatron-bubble", 100 * bubble)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each replica has 512 microbatches, so the bubble is 11 %. Two pieces on each stage would make it 5.8 %, and
# you can't cut 128 layers on 64 stages any finer. Note the depth: with 3072 GPUs, a pipeline has only 64
# stages.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (trained["gpus"][-1], trained["batch"][-1], trained["layers"][-1]) == (
    3072,
    3072,
    128,
)
assert (trained["tensor"][-1], trained["pipeline"][-1]) == (8, 64)
assert round(trained["parameters_billion"][-1]) == 1008 and (replicas, M) == (6, 512)
assert round(bubble, 2) == 0.11 and round(bubble_of(-1, pieces=2)[2], 3) == 0.058

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Summary
#
# | | time, free messages | kept on stage $s$ | messages | latency is paid |
# |---|---|---|---|---|
# | stages in turn | $MS(t_f+t_b)$ | 1 | $2M(S-1)$ | always |
# | GPipe | $(M+S-1)(t_f+t_b)$ | $M$ | $2M(S-1)$ | once, $2(S-1)\alpha$ |
# | 1F1B | $(M+S-1)(t_f+t_b)$ | $\min(M, S-s)$ | $2M(S-1)$ | in every round |
# | 1F1B, two ahead | $(M+S-1)(t_f+t_b)$ | $\min(M, 2(S-s)-1)$ | $2M(S-1)$ | once, if short |
# | interleaved | $(M+\frac{S-1}{v})(t_f+t_b)$ | more, in pieces | $2M(vS-1)$ | in every round |
# | ZB-H1 | $M(F+I+W) + (S-1)(F+I-W)$ | $\min(M, S)$ | $2M(S-1)$ | in every round |
#
# The lecture began with a model that needs at least 55 GPUs of 42.4 GB. Can you train it on a few more
# than that? Take 64 of them, in 8 stages of 10 layers, with tensor parallelism over the 8 GPUs of a stage.
# Let a stage keep the input of each of its layers and recompute the rest, layer by layer.

# %% slideshow={"slide_type": "fragment"}
model_GB = needed_GB / 64
free_GB = gpu_bytes / 1e9 - model_GB
microbatch_GB = 10 * activation_MB / 1e3  # the inputs of 10 layers, on each GPU
print(f"the model takes {model_GB:.1f} GB of each GPU, so {free_GB:.1f} GB are left")
replicas, M, bubble = bubble_of(row=6)
for name, kept in (("GPipe", M), ("1F1B", 8)):
    print(f"{name} keeps {kept} microbatches on stage 0: {kept * microbatch_GB:.1f} GB")
print(f"with {M} microbatches the bubble is {bubble:.1%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The authors gave 96 sequences to each replica, on GPUs of 80 GB [1]. Let each be a microbatch:
#
# | on each of your 64 GPUs | |
# |---|---|
# | the model takes | 36.4 GB |
# | so there are left | 6.0 GB |
# | activations, with GPipe | 48.3 GB |
# | activations, with 1F1B | 4.0 GB |
# | bubble | 6.8 % |
#
# Only 1F1B fits. So the 55 GPUs of the beginning become 64, and what makes them enough is the order of work.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert trained["parameters_billion"][6] == 145.6 and (replicas, M) == (24, 96)
assert round(model_GB, 1) == 36.4 and round(free_GB, 1) == 6.0
assert round(96 * microbatch_GB, 1) == 48.3 and round(8 * microbatch_GB, 1) == 4.0
assert round(bubble, 3) == 0.068 and round(gpu_bytes / 1e9, 1) == 42.4
assert np.ceil(16 * parameters / gpu_bytes) == 55 and 64 == 8 * 8

# %% [markdown] slideshow={"slide_type": "slide"}
# **The ledger.** One small GPT goes through this course: 24 layers that are 2304 wide, 256 sequences in a
# step, 32 GPUs. What does it gain from a pipeline? Cut it into 4 stages. You get 8 replicas, and each takes 32
# microbatches of one sequence, by 1F1B. The program that is traced, `piped_gpt.py`, is `pipe.py` with the GPT's
# sizes: an action receives, declares the FLOPs of its stage and sends on. For each microbatch in flight a rank
# holds the inputs of its layers. At the end the replicas of a stage all-reduce their gradients.
#
# The last stage also computes the logits of 51,200 tokens of the vocabulary, which is as much work as 1.6
# layers. So you give it fewer layers.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "09/ledger",
    "6 layers on each stage: how many times as long as on one GPU does the step take?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
import ringside.course.lectures
from ringside.course.lectures import course_machine, course_trace, ledger
from ringside.course.lectures.ledger import FILE, SIZES, read
from ringside.course.lectures.programs import piped_gpt

one_gpu = read(FILE)[0]
program = Path(ringside.course.lectures.__file__).parent / "programs" / "piped_gpt.py"
inside = piped_gpt.inside_a_layer(SIZES, one_gpu.memory_bytes, 8)  # while it is recomputed


def piped_step(layers):
    """Trace a step of 8 pipelines; layers: how many each stage has."""
    held = piped_gpt.stages(SIZES, layers)
    args = (list_schedule(32, "BF", [4, 3, 2, 1]), held, inside)
    return course_trace(f"{program}:step", 32, args, grid={"pp": 4, "dp": 8}, alike=("dp",))


# %% slideshow={"slide_type": "fragment"}
piped = {}
for layers in ([6, 6, 6, 6], [7, 6, 6, 5]):
    traced = piped_step(layers)
    timeline = ringside.replay(traced.trace, course_machine())
    memory_bytes = max(memory["peak"] for memory in traced.memory)
    piped[layers[-1]] = timeline.makespan_s, memory_bytes
    print(f"{layers}: {timeline.makespan_s:.3f} s, at most {memory_bytes / 1e9:.1f} GB")
reveal("09/ledger", piped[6][0] / one_gpu.step_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 6 layers on each stage your step takes 1.37 times as long as on one GPU. With fewer layers on the last
# stage you save some of it:
#
# | | step | memory, at most |
# |---|---|---|
# | one GPU, 8 sequences | 1.792 s | 33.9 GB |
# | 6, 6, 6 and 6 layers | 2.461 s | 9.3 GB |
# | 7, 6, 6 and 5 layers | 2.291 s | 10.4 GB |
#
# The bubble alone would make it 1.96 s. Unequal stages, P2P messages and the all-reduce of the gradients are
# the rest. Stage 0 needs the most memory, because it has 7 layers and the token embedding, and keeps 4
# microbatches.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
held = piped_gpt.stages(SIZES, [7, 6, 6, 5])
in_logits = held[3]["forward_flops"] - 5 * held[1]["forward_flops"] / 6
assert round(in_logits / (held[1]["forward_flops"] / 6), 1) == 1.6
assert (SIZES["num_layers"], SIZES["width"], SIZES["vocabulary"]) == (
    24,
    2304,
    51_200,
)
assert round(one_gpu.step_s, 3) == 1.792 and round(one_gpu.memory_bytes / 1e9, 1) == 33.9
assert round(piped[6][0], 3) == 2.461 and round(piped[5][0], 3) == 2.291 and 8 * 32 == 256
assert round(one_gpu.step_s * (32 + 3) / 32, 2) == 1.96
assert round(piped[6][1] / 1e9, 1) == 9.3 and round(piped[5][1] / 1e9, 1) == 10.4
assert round(piped[6][0] / one_gpu.step_s, 2) == 1.37

# %% slideshow={"slide_type": "fragment"}
step_s, memory_bytes = piped[5]
ledger(
    "09",
    gpus=32,
    step_s=step_s,
    exposed_s=step_s - one_gpu.step_s,
    memory_bytes=memory_bytes,
)

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers: errors on slides that your class may have seen.**
#
# | slide | correct |
# |---|---|
# | GPipe costs much more activation memory [9] | more than 1F1B, $M$ against $S-s$. Against no pipeline it needs less, since it recomputes: 6.26 to 3.46 GB for a network 3.9 times as large [4] |
# | PipeDream: no bubble, hurts accuracy, was not adopted [9] | start-up and drain remain. With stashed weights it gains as much in time to accuracy as in time per epoch in most rows of [7]. Its order of work, with a flush, *is* the standard [1] |
# | pipelines are ideal for thousands of processes [9] | depth ends at the number of layers, and the bubble grows with it: 64 stages on 3072 GPUs [1] |
# | largest networks: PipeDream 138M, GPipe 557M on 8 GPUs [10] | PipeDream trained GNMT-16, 277.7 million by its public profile [7]; 138M is VGG-16. GPipe's 557M ran on 4 partitions; it trained 6 billion on 16 accelerators, and 83.9 billion fit on 128 [4] |
# | torchgpipe: 15.8 billion, in the same column [10] | that is a memory benchmark, 15.82 billion parameters in 154.1 GiB on 8 GPUs; nothing was trained [6] |
# | "model parallelism": layers on different GPUs [11], operators cut up [9] | two schemes: between layers (a pipeline) and inside them (tensor parallelism); say which |
# | pipelines are a combination of other schemes [11] | they are an axis of their own, as sequence parallelism is |
# | a batch in parts: samples 1 to $B/4$, $B/4$ to $2B/4$ [9] | the samples on the borders are counted twice; the second part starts at $B/4 + 1$ |
# | data-parallel processes are never idle [9] | they have no bubble, but wait for gradients, stragglers and input |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
systems = table(LECTURES / "data" / "pipeline_systems.csv")
published = {(s, what): value for s, what, value in zip(*systems.values())}
one = "AmoebaNet on one accelerator"
ratio = published["GPipe", f"{one} with GPipe: parameters"]
ratio /= published["GPipe", f"{one} without GPipe: parameters"]
assert round(ratio, 1) == 3.9

# %% slideshow={"slide_type": "skip"} tags=["checked"]
millions = {
    (system, what.partition(":")[0]): round(value / 1e6, 1)
    for (system, what), value in published.items()
    if what.endswith("parameters")
}
assert millions["PipeDream", "GNMT-16"] == 277.7 and round(millions["PipeDream", "VGG-16"]) == 138
assert millions["GPipe", "AmoebaNet on 4 partitions"] == 557
assert millions["GPipe", "Transformer that fits on 128 accelerators"] / 1e3 == 83.9
assert millions["torchgpipe", "U-Net on 8 GPUs"] / 1e3 == 15.82
assert round(millions["torchgpipe", "U-Net on 8 GPUs"] / 1e3, 1) == 15.8
assert published["torchgpipe", "U-Net on 8 GPUs: GiB"] == 154.1
assert published["GPipe", f"{one} without GPipe: GB of activations"] == 6.26
assert published["GPipe", f"{one} with GPipe: GB of activations"] == 3.46

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Three puzzles
#
# Each puzzle is a program that works and misses a target. Change the program until it meets the target.
# The cell below it tells you at once. Ten minutes each are about right.
#
# **Puzzle 1: where to cut.** Eight layers take 3, 1, 1, 1, 1, 2, 2 and 1 ms for a forward pass, and twice
# as long for a backward pass. The program puts two layers on each stage and takes 120 ms for 8
# microbatches. Bring it to at most 99 ms. The layers have to stay in their order.

# %% slideshow={"slide_type": "fragment"}
# %%writefile cut.py
import pipe

LAYER_MS = [3, 1, 1, 1, 1, 2, 2, 1]  # of a forward pass
LAYERS_OF_STAGE = [2, 2, 2, 2]


def step(comm):
    first = sum(LAYERS_OF_STAGE[: comm.rank])
    own = LAYER_MS[first : first + LAYERS_OF_STAGE[comm.rank]]
    actions = [f"F{m}" for m in range(8)] + [f"B{m}" for m in range(8)]
    milliseconds = {"F": sum(own), "B": 2 * sum(own)}
    pipe.run(comm, [" ".join(actions)] * comm.size, milliseconds)


# %% slideshow={"slide_type": "fragment"}
cut_puzzle = {
    "machine": free,
    "at_most_us": 99_000,
    "hint": "The slowest stage sets the rate. Make the slowest stage as fast as possible.",
}
puzzle("cut.py:step", 4, **cut_puzzle)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# All layers together take 12 ms, so no cut into four stages has a slowest stage below 3 ms. Cut after
# the first, the fourth and the sixth layer: `LAYERS_OF_STAGE = [1, 3, 2, 2]`. Then every stage takes 3
# ms, and the step takes $(8 + 3) \cdot 9 = 99$ ms.
#
# </details>

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: a skip connection.** In many networks a late layer adds what an early layer made. Here the
# last of four stages adds the output of stage 0. The program hands this output from stage to stage. All
# ranks together send 6144 bytes. Send at most 4096, with the same results.

# %% slideshow={"slide_type": "fragment"}
# %%writefile skip.py
import numpy as np


def forward(comm, x, weight):
    last = comm.size - 1
    if comm.rank > 0:
        received = np.empty((2, *x.shape))
        comm.Recv(received, source=comm.rank - 1)
        x, early = received
    y = np.tanh(x @ weight)
    if comm.rank == 0:
        early = y
    if comm.rank < last:
        comm.Send(np.stack([y, early]), dest=comm.rank + 1)
        return y
    return y + early


# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(3)
sample = rng.normal(size=(8, 16))
matrices = [rng.normal(size=(16, 16)) / 4 for _ in range(4)]
outputs = [np.tanh(sample @ matrices[0])]
for matrix in matrices[1:]:
    outputs.append(np.tanh(outputs[-1] @ matrix))
skip_puzzle = {
    "args": [(sample, matrix) for matrix in matrices],
    "expected": [*outputs[:3], outputs[3] + outputs[0]],
    "at_most_bytes_in_all": 4096,
    "hint": "Do stages 1 and 2 use what they hand on?",
}
puzzle("skip.py:forward", 4, **skip_puzzle)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Stage 0 sends its output straight to the last stage, under a tag of its own. Stages 1 and 2 never see
# it, so they don't have to keep it either.
#
# ```python
# def forward(comm, x, weight):
#     last = comm.size - 1
#     if comm.rank > 0:
#         received = np.empty_like(x)
#         comm.Recv(received, source=comm.rank - 1, tag=0)
#         x = received
#     y = np.tanh(x @ weight)
#     if comm.rank < last:
#         comm.Send(y, dest=comm.rank + 1, tag=0)
#     if comm.rank == 0:
#         comm.Send(y, dest=last, tag=1)
#     if comm.rank == last:
#         early = np.empty_like(y)
#         comm.Recv(early, source=0, tag=1)
#         y = y + early
#     return y
# ```
#
# torchgpipe does the same for U-Net, and calls the direct way a portal [6].
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
text = Path("cut.py").read_text().replace("[2, 2, 2, 2]", "[1, 3, 2, 2]")
Path("cut_solved.py").write_text(text)
SOLUTION = """import numpy as np


def forward(comm, x, weight):
    last = comm.size - 1
    if comm.rank > 0:
        received = np.empty_like(x)
        comm.Recv(received, source=comm.rank - 1, tag=0)
        x = received
    y = np.tanh(x @ weight)
    if comm.rank < last:
        comm.Send(y, dest=comm.rank + 1, tag=0)
"""
Path("skip_solved.py").write_text(SOLUTION)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
SOLUTION += """    if comm.rank == 0:
        comm.Send(y, dest=last, tag=1)
    if comm.rank == last:
        early = np.empty_like(y)
        comm.Recv(early, source=0, tag=1)
        y = y + early
    return y
"""
Path("skip_solved.py").write_text(SOLUTION)
unsolved = puzzle("cut.py:step", 4, **cut_puzzle, draw=False)
solved = puzzle("cut_solved.py:step", 4, **cut_puzzle, draw=False)
assert round(unsolved.time_us) == 120_000 and not unsolved.solved
assert solved.solved and round(solved.time_us) == 99_000
unsolved = puzzle("skip.py:forward", 4, **skip_puzzle, draw=False)
solved = puzzle("skip_solved.py:forward", 4, **skip_puzzle, draw=False)
assert sum(unsolved.sent_bytes) == 6144 and sum(solved.sent_bytes) == 4096 and solved.solved

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: send first.** Each stage computes both halves of its backward pass and then sends the gradient of
# the input. Bring it to 27 ms for 8 microbatches. Change only the order in which the program works. The lists
# stay those of 1F1B.

# %% slideshow={"slide_type": "fragment"}
# %%writefile first.py
import numpy as np

import ringside


def step(comm, actions):
    here, box, late = comm.rank, np.zeros(8, np.uint8), []
    for kind, t in [(action[0], int(action[1:])) for action in actions[here].split()]:
        way = 1 if kind == "F" else -1
        if 0 <= here - way < comm.size:
            comm.Recv(box, here - way, t)
        ringside.compute(seconds=1e-3, phase=f"{kind}{t}")  # of a B: its half I
        if kind == "B":
            ringside.compute(seconds=1e-3, phase=f"W{t}")
        if 0 <= here + way < comm.size:
            comm.Isend(box, here + way, t)
    for t in late:
        ringside.compute(seconds=1e-3, phase=f"W{t}")


# %% slideshow={"slide_type": "fragment"}
sooner = {
    "args": (SCHEDULES["1F1B"],),
    "machine": free,
    "at_most_us": 27_010,
    "hint": "Who waits for the half W? Keep its number in `late`, and do it when there is time.",
}
puzzle("first.py:step", 4, **sooner)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Send before W. That alone gives 30 ms. Then let stage $s$ do each W $s$ microbatches late, as
# ZB-H1 does:
#
# ```python
#         if 0 <= here + way < comm.size:
#             comm.Isend(box, here + way, t)
#         if kind == "B":
#             late.append(t)
#             if len(late) > here:
#                 ringside.compute(seconds=1e-3, phase=f"W{late.pop(0)}")
# ```
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
text = Path("first.py").read_text()
inside = """        if kind == "B":
            ringside.compute(seconds=1e-3, phase=f"W{t}")
"""
sending = """        if 0 <= here + way < comm.size:
            comm.Isend(box, here + way, t)
"""
Path("send_first.py").write_text(text.replace(inside + sending, sending + inside))
in_time = """        if kind == "B":
            late.append(t)
            if len(late) > here:
                ringside.compute(seconds=1e-3, phase=f"W{late.pop(0)}")
"""
Path("first_solved.py").write_text(text.replace(inside + sending, sending + in_time))

# %% slideshow={"slide_type": "skip"} tags=["checked"]
half, solved = (
    puzzle(f"{name}.py:step", 4, **sooner, draw=False) for name in ("send_first", "first_solved")
)
assert round(half.time_us) == 30_000 and not half.solved and solved.solved

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Puzzle 1 belongs after section 12, puzzle 2 after section 3, puzzle 3 after section 9. In
# puzzle 2 some send the skip before `y`, which delays stage 1; ask for the makespan of both orders. With
# blocking sends and a last stage that receives the skip first, the program hangs: a good moment for the
# deadlock report.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 17. Five questions
#
# Try each question before you open its answer. The cell below each answer checks it.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 1.** You have 16 stages and accept a bubble of 10 % of the time. How many microbatches do you
# need? How many do you need with an interleaved schedule of 4 pieces on each stage, where $M$ has to be a
# multiple of $S$?
#
# <details><summary>Answer</summary>
#
# $\frac{15}{M+15} \le 0.1$ gives $M \ge 15 \cdot 9 = 135$. With $v = 4$ the 15 becomes $15/4$, so $M \ge
# 33.75$. The next multiple of 16 is 48.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
S = 16
fewest = (S - 1) * (1 / 0.1 - 1)
assert np.isclose(fewest, 135) and (S - 1) / (134 + S - 1) > 0.1
assert np.isclose(fewest / 4, 33.75) and S * np.ceil(fewest / 4 / S) == 48

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague's stages compute the *mean* loss of each microbatch and average the gradients
# of the microbatches. With microbatches of 5, 4 and 3 samples the result differs from that of the full
# batch. Why, and what are the right weights? Would a test with three microbatches of 4 have found it?
#
# <details><summary>Answer</summary>
#
# In a mean of means, a sample of the smallest microbatch counts $\frac13 \cdot \frac13 = \frac19$. A
# sample of the largest counts $\frac13 \cdot \frac15 = \frac1{15}$. Each should count $\frac1{12}$. Give
# microbatch $i$ the weight $n_i / N$, or divide its *summed* loss by the size of the whole batch. If all
# microbatches have the same size, all weights are equal and the error disappears. So that test would have
# passed.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
sizes = np.array([5, 4, 3])
full = whole[0] / 12
mean_of_means = sum(part[0] / n for part, n in zip(parts, sizes)) / 3
weighted = sum(part[0] / n * (n / 12) for part, n in zip(parts, sizes))
np.testing.assert_allclose(weighted, full, rtol=1e-12)
assert np.abs(mean_of_means - full).max() > 0.01 * np.abs(full).max()
equal = [serial(x[a : a + 4], target[a : a + 4])[0] / 4 for a in (0, 4, 8)]
np.testing.assert_allclose(sum(equal) / 3, full, rtol=1e-12)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** Replace `Isend` in `pipe.py` by a blocking `Send`. On a network that doesn't buffer,
# GPipe still runs and 1F1B hangs. Which two stages wait for each other, and at which actions of their lists?
# Why is GPipe safe?
#
# <details><summary>Answer</summary>
#
# Stages 2 and 3 wait for each other, as the error below says. After `F1` stage 2 sends microbatch 1 to
# stage 3. Stage 3 has done `F0` and `B0`, and sends the gradient of microbatch 0 back to stage 2. Both wait
# in `Send`, and neither gets to its `Recv`. That is a cycle, as in `swap.py` of lecture 3. Stages 0 and 1
# wait behind them. In GPipe all messages first go forward, and later all go back. So there is always a
# stage at the end of the line that doesn't send and can receive.
#
# </details>

# %% slideshow={"slide_type": "skip"}
isend = "sent.append(comm.Isend(packet, dest, tag=microbatch))"
blocking = Path("pipe.py").read_text().replace(isend, "comm.Send(packet, dest, tag=microbatch)")
Path("blocking.py").write_text(blocking)
no_buffer = slow.with_(eager_threshold_bytes=0)
outcome = {}
for name in ("GPipe", "1F1B"):
    args = (SCHEDULES[name], MILLISECONDS)
    outcome[name] = ringside.run("blocking.py:run", 4, args, machine=no_buffer, check=False).error
print(outcome["1F1B"])

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert isend not in blocking and outcome["GPipe"] is None
assert isinstance(outcome["1F1B"], ringside.DeadlockError)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** TorchTitan's tables have a model of 405 billion parameters on 512 GPUs with 8 stages. Each
# GPU handles 100 tokens per second with 1F1B and 128 with an interleaved schedule [12]. How many
# microbatches would explain this factor, with 2 pieces on a stage? With 4 pieces? Have you now confirmed
# the formula?
#
# <details><summary>Answer</summary>
#
# $\frac{M+7}{M+7/v} = 1.28$ gives $M = 9$ for $v = 2$ and $M = 17$ for $v = 4$. Both are plausible, and that
# is the trouble. The table gives neither $M$ nor $v$. So *any* of these pairs can explain a factor of 1.28.
# A formula with a free number that fits one measurement has not been tested.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
titan = {what: value for (system, what), value in published.items() if system == "TorchTitan"}
[(first, plain), (_, finer)] = titan.items()
assert first.startswith("405 billion parameters on 512 GPUs") and (plain, finer) == (
    100,
    128,
)
assert finer / plain == 1.28
needed = {v: (7 - finer / plain * 7 / v) / (finer / plain - 1) for v in (2, 4)}
assert np.isclose(needed[2], 9) and np.isclose(needed[4], 17)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** Your experts' exchanges take 0.05 ms where a forward pass takes 1 ms. Is that enough to choose
# DualPipeV, on 4 ranks with 16 microbatches? From which time on does it win?
#
# <details><summary>Answer</summary>
#
# At 0.05 ms DualPipeV takes 103.05 ms and ZBV 102.35 ms, so ZBV is still ahead. Both grow in a straight line,
# and the lines cross at 0.065 ms. Below that, DualPipeV's larger bubble costs more than its pairs hide.
#
# </details>

# %% slideshow={"slide_type": "skip"}
small_ms = {}
for name in ("ZBVZeroBubble", "DualPipeV"):
    small_ms[name] = [1e3 * shipped(name, 4, 16, ms).makespan_s for ms in (0.0, 0.05, 0.1)]
    print(name, np.round(small_ms[name], 2), "ms")
session.close()

# %% slideshow={"slide_type": "skip"} tags=["checked"]
zbv, dual = np.array(small_ms["ZBVZeroBubble"]), np.array(small_ms["DualPipeV"])
assert np.allclose((zbv[1], dual[1]), (102.35, 103.05)) and dual[2] < zbv[2]
gap = dual - zbv
assert np.isclose(gap[0] - gap[1], gap[1] - gap[2])  # straight lines
assert round(0.05 * gap[0] / (gap[0] - gap[1]), 3) == 0.065

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18. Your turn
#
# In the assignment `a09_pipeline` you write the rules behind these lists for any $S$, $M$ and $v$
# (`schedule.py`), an interpreter for any of them with real layers and real gradients (`stage.py`), the
# formulas (`bubble.py`), and the same with torch and recomputation (`pipeline_torch.py`). The rules behind
# ZB-H1 and ZB-H2 are an extra module (`zero_bubble.py`), and DualPipeV is another one (`dualpipev.py`). A
# schedule of your own that meets the stated bounds gets full marks, too.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Sections
#    2.2 and 5, table 1.
# 2. S. Rajbhandari, J. Rasley, O. Ruwase, Y. He. ZeRO: memory optimizations toward training
#    trillion parameter models. SC 2020. arXiv:1910.02054.
# 3. M. Shoeybi, M. Patwary, R. Puri, P. LeGresley, J. Casper, B. Catanzaro. Megatron-LM: training
#    multi-billion parameter language models using model parallelism. arXiv:1909.08053, 2019.
# 4. Y. Huang, Y. Cheng, A. Bapna, O. Firat, M. X. Chen, D. Chen, H. Lee, J. Ngiam, Q. V. Le, Y. Wu,
#    Z. Chen. GPipe: efficient training of giant neural networks using pipeline parallelism. NeurIPS
#    2019. arXiv:1811.06965. `data/gpipe_speed.csv` holds tables 2 and 3.
# 5. T. Chen, B. Xu, C. Zhang, C. Guestrin. Training deep nets with sublinear memory cost.
#    arXiv:1604.06174, 2016.
# 6. C. Kim, H. Lee, M. Jeong, W. Baek, B. Yoon, I. Kim, S. Lim, S. Kim. torchgpipe: on-the-fly
#    pipeline parallelism for training giant models. arXiv:2004.09910, 2020. Benchmarks:
#    github.com/kakaobrain/torchgpipe; `data/torchgpipe_speed.csv`.
# 7. D. Narayanan, A. Harlap, A. Phanishayee, V. Seshadri, N. R. Devanur, G. R. Ganger, P. B.
#    Gibbons, M. Zaharia. PipeDream: generalized pipeline parallelism for DNN training. SOSP 2019.
#    Table 1; profiles: github.com/msr-fiddle/pipedream.
# 8. PyTorch. `torch.distributed.pipelining`, version 2.13: documentation, and `schedules.py`.
# 9. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 10. A. Bhatele. Machine Learning and HPC. Slides, University of Maryland.
# 11. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 12. TorchTitan, benchmark tables of December 2024. github.com/pytorch/torchtitan
# 13. P. Qi, X. Wan, G. Huang, M. Lin. Zero bubble pipeline parallelism. ICLR 2024.
#    arXiv:2401.10241.
# 14. J. D. C. Little. A proof for the queuing formula: L = λW. Operations Research 9 (1961), no. 3,
#    pages 383–387.
# 15. DualPipe. github.com/deepseek-ai/DualPipe, page of the repository, 2025. DeepSeek-AI. DeepSeek-V3
#    technical report. arXiv:2412.19437, 2024.
# 16. Kimi Team. Kimi K2: open agentic intelligence. arXiv:2507.20534, 2025. Section 2.4.
# 17. NVIDIA. Megatron-LM, `megatron/core/transformer/moe/README.md`, commit d98e8a6, 22 August 2026.
# 18. TorchTitan, `graph_trainer/README.md` (GraphPP), commit b5bcd76, 21 August 2026.
#    github.com/pytorch/torchtitan
#
# Read next: [4], which is short and clear; section 2.2 of [1] for interleaving; [13] for how far the
# bubble can be pushed; the figure of [15] for F&B.
