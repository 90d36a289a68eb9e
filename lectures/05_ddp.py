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
# # Lecture 5: Hide the all-reduce behind the backward pass
#
# In data-parallel training every GPU computes gradients from its own samples, and then all GPUs
# need the mean. The last lecture waited for the backward pass to end and then called one
# all-reduce. That is correct, and on many GPUs it is slow: for a fifth of each step no GPU computes
# anything. In this lecture you send each gradient as soon as it is there, while the backward pass
# goes on. PyTorch's `DistributedDataParallel`, DDP for short, does exactly this.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - say in which order the gradients of a network become ready, and register a function that
#   PyTorch calls at that moment;
# - start an all-reduce during the backward pass, in MPI and in PyTorch, and read from a timeline
#   how much of it is hidden;
# - choose the size of a bucket from the latency and the bandwidth of a network;
# - explain each line of PyTorch's DDP algorithm, and what goes wrong without it;
# - compute how many samples a GPU needs so that its communication can be hidden at all.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 3](03_allreduce.ipynb), for the ring and for its cost, and
# [lecture 4](04_data_parallel.ipynb), for the data-parallel step. From PyTorch you need
# `loss.backward()` and nothing else.
#
# **How to read.** Where a cell asks you for a prediction, make one before you run the next cell.
# A wrong prediction teaches you more than a right one.
#
# | sign | meaning |
# |---|---|
# | $p$ | number of ranks; a rank is one GPU |
# | $n$ | bytes of all gradients of a rank |
# | $\alpha, \beta$ | latency of a message in seconds, and seconds per byte |
# | $T_b$ | time of the backward pass |
# | $k$ | number of buckets; section 4 says what a bucket is |
#
# *Exposed* communication is the time in which a rank computes nothing because it waits for
# messages. If a step takes 10 ms and its computation takes 7 ms, 3 ms are exposed.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Give the puzzles at the end of the first meeting. If you have one meeting only,
# teach the first: the course goes on without the second.
#
# Ask at the beginning: "Who has used DDP? What does it do between `backward()` and `step()`?"
# Most answers say "it averages the gradients after the backward pass". Write this answer on the
# board, and come back to it after section 3.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import json
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import Machine, guess, reveal
from ringside.course.lectures import Knob, explore, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
FORWARD, BACKWARD, COMMUNICATION, EXPOSED = "#56b4e9", "#0072b2", "#e69f00", "#b56576"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=10
# ## 1. The problem: GPUs that wait
#
# The model of this course is a GPT with 1.7 billion parameters [1], on 8 nodes with four GPUs each, and a network
# of 12.5 GB/s between the nodes. Each GPU takes eight sequences of 2048 tokens, and numbers have two bytes. To
# save memory, the backward pass computes each layer forward once more. You can't run this on a laptop. But you
# can *trace* the program without data: PyTorch works out the shape of each tensor, and the kit counts operations
# and bytes. Then you replay the trace on a modelled cluster.
#
# `course_step` traces the step of lecture 4: the backward pass, one all-reduce of all gradients, and Adam. All
# GPUs do the same, so you trace two of them and *widen* the trace: each of 32 ranks does what one of the two did,
# and the all-reduce goes over all.

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures import course_machine, course_step, ledger
from ringside.timing.extrapolation import widen

cluster = course_machine()  # a GPU computes at the rate that was measured for this model [1]
COMPUTE_MS = 1792  # of a step, on each GPU: the ledger's first line


def exposed_ms(trace, num_gpus):
    """Replay it on so many GPUs; what a step takes beyond its computation."""
    timeline = ringside.replay(widen(trace, num_gpus), cluster)
    return 1e3 * (timeline.makespan_s - max(timeline.busy_s))


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/exposed-at-the-end", "A GPU computes for 1792 ms in each step. "
      "For how long does it then wait for the all-reduce?", unit="ms")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
at_the_end = course_step(2, reduce="once").trace
end_ms = exposed_ms(at_the_end, 32)
step_ms = COMPUTE_MS + end_ms
print(f"exposed {end_ms:.0f} ms of {step_ms:.0f} ms, {end_ms / step_ms:.0%} of the step")
reveal("05/exposed-at-the-end", end_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your GPUs wait for 512 ms in each step. You have bought 32 of them, and you use 25. While they compute, the
# network is idle, and while the network works, they are idle. **How many of the 512 ms can you get back?** This
# number opens the lecture, and section 8 closes it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(end_ms) == 512 and round(end_ms / step_ms, 2) == 0.22
assert round(32 * COMPUTE_MS / step_ms) == 25
assert round(1e-9 / cluster.beta_s_per_byte, 1) == 12.5 and 32 / cluster.ranks_per_node == 8
assert round(1e3 * max(ringside.replay(at_the_end, cluster).busy_s)) == COMPUTE_MS == 1792
assert round(sum(op.nbytes for op in at_the_end.ops[0] if op.kind == 5) / 2e9, 1) == 1.7

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 2. When is a gradient ready?
#
# When could you send a gradient? The backward pass goes through the layers from the last to the first. Once it
# has left a layer, the gradients of this layer don't change any more, and you could send them. PyTorch tells you
# by a *hook*, a function of yours that is called when a parameter's gradient is complete. *Autograd*, the part
# of PyTorch that runs the backward pass, calls it.
#
# ```python
# parameter.register_post_accumulate_grad_hook(function)  # autograd calls function(parameter)
# ```
#
# Keep two words apart: a gradient is *ready* on one rank when this rank has computed its own. It is *reduced*
# when it holds the mean over all ranks.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Here is a small language model. Like our GPT, it uses the *token embedding* (the matrix `words`) twice: at the
# beginning, to turn a token into a vector, and at the end, for the logits, the scores of all tokens. Two uses of
# one parameter are called *tied* weights.

# %% slideshow={"slide_type": "fragment"}
# %%writefile order.py
import torch
from torch import nn


def order_of(group):
    words, first, second = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    net = nn.ModuleDict({"words": words, "first": first, "second": second})
    order = []
    for name, parameter in net.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    x = words(torch.tensor([3, 1, 4]))
    x = second(torch.tanh(first(x)))
    scores = x @ words.weight.T
    scores.square().mean().backward()
    return order


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/tied", "The backward pass begins with the logits, which use the token embedding. "
      "Which gradient is ready first?",
      choices=["words.weight", "first.weight", "second.bias"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
order = ringside.run("order.py:order_of", 1).values[0]
print(" -> ".join(order))
reveal("05/tied", order[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Layers come from back to front, as you expected. But the token embedding, `words.weight`, comes last, although
# the backward pass meets it first. Its gradient is the sum of two parts, one for each use, and it is complete
# only when the second part is there. Our GPT has tied weights too. Its token embedding has 236 MB of gradients,
# and they are ready at the very end of the backward pass. Keep that in mind.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert order == ["second.bias", "second.weight", "first.bias", "first.weight", "words.weight"]
assert round(2 * 51200 * 2304 / 1e6) == 236

# %% [markdown] slideshow={"slide_type": "notes"}
# *Where classes stumble.* Some students think that a hook is called once for each use of a
# parameter. Let them add a print of `parameter.grad.norm()` in the hook: there is one line for
# `words`. Ask then: "What would happen if you sent the gradient after the first use?"

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=25
# ## 3. Start the all-reduce early
#
# Go back to a size that you can run. A network has 12 layers, each with 4096 gradients of 8 bytes. A layer's
# forward pass takes 40 µs, and its backward pass 80 µs. First the program that you know. It declares its
# computation with `ringside.compute`, so that the time is the same on every machine.

# %% slideshow={"slide_type": "fragment"}
# %%writefile late.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm, layers=12):
    gradients = np.zeros((layers, 4096))
    for k in range(layers):
        ringside.compute(seconds=40e-6, phase=f"forward {k}")
    for k in reversed(range(layers)):
        ringside.compute(seconds=80e-6, phase=f"backward {k}")
        gradients[k] = comm.rank + k  # stands for what the layer computed
    comm.Allreduce(MPI.IN_PLACE, gradients)
    return gradients / comm.size


# %% [markdown] slideshow={"slide_type": "subslide"}
# Now the same with an early start. `Iallreduce` *starts* an all-reduce and returns a request at
# once; `Waitall` waits until all requests are complete. Between the two, the network works while
# the rank computes. Two lines change.

# %% slideshow={"slide_type": "fragment"}
# %%writefile early.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm, layers=12):
    gradients, requests = np.zeros((layers, 4096)), []
    for k in range(layers):
        ringside.compute(seconds=40e-6, phase=f"forward {k}")
    for k in reversed(range(layers)):
        ringside.compute(seconds=80e-6, phase=f"backward {k}")
        gradients[k] = comm.rank + k
        requests.append(comm.Iallreduce(MPI.IN_PLACE, gradients[k]))
    MPI.Request.Waitall(requests)
    return gradients / comm.size


# %% [markdown] slideshow={"slide_type": "fragment"}
# The ring of lecture 3 takes $2(p-1)(\alpha + \frac{n}{p}\beta)$. On four ranks of the machine
# `textbook` (1 µs, and 1 ns per byte), the late program's all-reduce takes this long:


# %% slideshow={"slide_type": "fragment"}
def exposed_us(run):
    """Time of a step in which the busiest rank computes nothing, in µs."""
    return 1e6 * (run.makespan_s - max(run.timeline.busy_s))


late = ringside.run("late.py:step", 4)
print(f"a step takes {1e6 * late.makespan_s:.0f} µs, {exposed_us(late):.0f} µs are exposed")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/early", "The early program sends the same bytes in 12 all-reduces. "
      "How many µs stay exposed?", unit="µs")  # fmt: skip

# %% slideshow={"slide_type": "slide"} tags=["ranks"]
early = ringside.run("early.py:step", 4)
print(f"a step takes {1e6 * early.makespan_s:.0f} µs, {exposed_us(early):.0f} µs are exposed")
early.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("05/early", exposed_us(early))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. The early program on four ranks. Each rank computes without a pause until its backward
# pass ends; only then it waits.*
#
# You have hidden all but 55 of the 596 µs. What is left is the all-reduce of the first layer. Its gradient is
# ready when the backward pass ends, and there is nothing left to compute meanwhile. **The last all-reduce can't be
# hidden.** Both programs send the same bytes and return the same means.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(exposed_us(run)) for run in (late, early)] == [596, 55]
assert (late.timeline.bytes_matrix == early.timeline.bytes_matrix).all()
for rank in range(4):
    np.testing.assert_allclose(late.values[rank], early.values[rank])
    np.testing.assert_allclose(early.values[rank][5], 5 + 1.5)

# %% [markdown] slideshow={"slide_type": "subslide"}
# > **A rule for the buffer.** From `Iallreduce` until its request is complete, the buffer belongs
# > to the library. Don't read it, don't write it. So you divide by $p$ below `Waitall`.
#
# ### The same in PyTorch
#
# In PyTorch you don't write the loop over the layers; autograd does. So the
# all-reduce goes into the hook. `async_op=True` returns a *work handle*, which is PyTorch's word
# for a request.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile layers.py
import torch

import ringside


class Takes(torch.autograd.Function):
    """Passes values on; takes 40 µs forward and 80 µs backward."""

    @staticmethod
    def forward(ctx, x, number):
        ctx.number = number
        ringside.compute(seconds=40e-6, phase=f"forward {number}")
        passed_on = x.view_as(x)
        return passed_on

    @staticmethod
    def backward(ctx, gradient):
        ringside.compute(seconds=80e-6, phase=f"backward {ctx.number}")
        return gradient, None


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile network.py
import torch
from layers import Takes
from torch import nn


class Network(nn.Module):
    """12 layers with 64 x 64 weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        weights = (nn.Linear(64, 64, bias=False, dtype=torch.float64) for _ in range(12))
        self.layers = nn.ModuleList(weights)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = Takes.apply(torch.tanh(layer(x)), number)
        return x


# %% slideshow={"slide_type": "fragment"}
# %%writefile early_torch.py
import torch
import torch.distributed as dist
from network import Network


def step(group):
    net, works = Network(), []

    def ready(parameter):
        works.append(dist.all_reduce(parameter.grad, group=group, async_op=True))

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(ready)
    net(torch.ones(2, 64, dtype=torch.float64)).sum().backward()
    for work in works:
        work.wait()
    return [parameter.grad / group.size() for parameter in net.parameters()]


# %% slideshow={"slide_type": "fragment"}
# Let only declared time count, so that both programs compute for equally long.
declared = Machine.load("textbook").with_(flop_per_s=1e30, memory_bytes_per_s=1e30)
early_torch = ringside.run("early_torch.py:step", 4, machine=declared)
print(f"a step takes {1e6 * early_torch.makespan_s:.0f} µs, "
      f"{exposed_us(early_torch):.0f} µs are exposed")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# You get the numbers of the MPI program, to the byte and to the microsecond, because the network below both is the
# same. (`network.py`, folded above, has 12 layers of 64 x 64 weights. It multiplies real matrices, and only its
# time is declared.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (early_torch.timeline.bytes_matrix == early.timeline.bytes_matrix).all()
assert round(exposed_us(early_torch)) == round(exposed_us(early))
assert abs(early_torch.makespan_s - early.makespan_s) < 1e-6

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which of the 12 all-reduces would you speed up first?" Only the last one counts
# here. "And if each all-reduce took 100 µs?" Then the network falls behind, and all of them count.
# That is the step to section 4. Classes stumble over `Waitall` *inside* the loop: it gives the
# right values and hides nothing. Puzzle 1 is about this; 10 minutes.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=15
# ## 4. How large should a bucket be?
#
# Should you send each gradient by itself? A real network has hundreds of parameters, and many are tiny: a bias of
# 2304 numbers has 4.6 kB. Each all-reduce pays its latency, $2(p-1)\alpha$, however few bytes it carries. So put
# gradients together. A **bucket** is one flat array that holds the gradients of some layers. Its all-reduce starts
# when the last of them is ready. With one bucket for each gradient you pay many latencies. With one bucket for
# everything nothing overlaps. The best size lies between.
#
# Assume $k$ equal buckets, and a backward pass that fills one of them every $T_b/k$ seconds. The
# library carries out one all-reduce after another, as NCCL does. One bucket takes
#
# $$d = a + \frac{c}{k}, \qquad a = 2(p-1)\,\alpha, \qquad c = 2\,\frac{p-1}{p}\,n\,\beta .$$
#
# So $a$ is the latency of one all-reduce, and $c$ is the time of all the bytes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# There are two cases.
#
# **The network keeps up:** $d \le T_b/k$. Each all-reduce is over before the next bucket is full.
# Only the last one is exposed, for $a + c/k$.
#
# **The network falls behind:** $d > T_b/k$. It starts when the first bucket is full, at $T_b/k$,
# and is then busy until all $k$ buckets are through. That ends at $T_b/k + k\,a + c$.
#
# The exposed time is the larger one of the two:
#
# $$E(k) = \max\left(a + \frac{c}{k},\;\; \frac{T_b}{k} + k\,a + c - T_b\right) .$$

# %% [markdown] slideshow={"slide_type": "subslide"}
# The first term falls with $k$. The second one falls and then rises. They are equal where
# $k\,a + c = T_b$: there the network is busy for exactly as long as the backward pass. Hence
#
# $$k^* = \frac{T_b - c}{a} \quad\text{if } c < T_b, \qquad\qquad
#   k^* = \sqrt{\frac{T_b}{a}} \quad\text{if } c \gg T_b .$$
#
# By the left formula you take as many buckets as you can afford latencies. The right one holds when the bytes alone
# take longer than the backward pass, and comes from the derivative of $T_b/k + k\,a$.

# %% slideshow={"slide_type": "fragment"}
BACKWARD_US = 12 * 80
RING = 2 * 3  # steps of a ring on 4 ranks
BYTES_US = RING / 4 * 12 * 4096 * 8 * 1e-3  # 1 ns per byte


def formula_us(buckets, alpha_us):
    """Exposed time with so many equal buckets."""
    last_one = RING * alpha_us + BYTES_US / buckets
    falls_behind = BACKWARD_US / buckets + buckets * RING * alpha_us + BYTES_US - BACKWARD_US
    return max(last_one, falls_behind)


# %% [markdown] slideshow={"slide_type": "fragment"}
# In section 3 the latency was 1 µs, and 12 buckets were fine. Now your network has a latency of 10 µs. All else
# stays, with 960 µs of backward pass, and 590 µs for the bytes.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/buckets", "With a latency of 10 µs, how many equal buckets leave the least exposed?",
      choices=["1", "2", "3", "4", "6", "12"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
COUNTS = [1, 2, 3, 4, 6, 12]
best = min(COUNTS, key=lambda buckets: formula_us(buckets, 10))
for buckets in COUNTS:
    print(f"{buckets:2} buckets: {formula_us(buckets, 10):4.0f} µs exposed")
reveal("05/buckets", str(best))

# %% [markdown] slideshow={"slide_type": "fragment"}
# You should take six buckets of two layers, which leave 158 µs. With 12 buckets 430 µs are exposed, because 12
# latencies don't fit behind the backward pass.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
exposed_10 = {buckets: round(formula_us(buckets, 10)) for buckets in COUNTS}
assert best == 6 and exposed_10[6] == 158 and exposed_10[12] == 430 and exposed_10[1] == 650
assert BACKWARD_US == 960 and round(BYTES_US) == 590 and RING * 10 == 60
assert int((BACKWARD_US - BYTES_US) / (RING * 10)) == 6  # k*, rounded down
assert round(2304 * 2 / 1e3, 1) == 4.6

# %% [markdown] slideshow={"slide_type": "subslide"}
# Move the sliders. The upper row is what the rank computes, the lower row what the network
# carries. With a latency of 50 µs, look for the number of buckets that leaves the shortest tail.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def two_rows(buckets, alpha_us):
    """The backward pass, and the all-reduces that follow it."""
    figure, axis = plt.subplots(figsize=(8.4, 1.9))
    fills_us, takes_us = BACKWARD_US / buckets, RING * alpha_us + BYTES_US / buckets
    pause_us = max(fills_us, takes_us)  # from one start to the next
    starts = [fills_us + i * pause_us for i in range(buckets)]
    edge = {"edgecolor": "white", "linewidth": 1.5}
    axis.broken_barh([(i * 80, 80) for i in range(12)], (1.1, 0.7), facecolor=BACKWARD, **edge)
    axis.broken_barh([(s, takes_us) for s in starts], (0.2, 0.7), facecolor=COMMUNICATION, **edge)
    axis.axvspan(BACKWARD_US, starts[-1] + takes_us, color=EXPOSED, alpha=0.25, lw=0)
    tail_us = starts[-1] + takes_us - BACKWARD_US
    axis.set_title(f"exposed: {tail_us:.0f} µs", loc="right", fontsize=10, color=EXPOSED)
    axis.set(xlim=(0, 2250), xlabel="time since the backward pass began (µs)")
    axis.set_yticks([1.45, 0.55], ["backward", "network"])
    return figure


# %% slideshow={"slide_type": "slide"} tags=["figure"]
explore(two_rows, "Two rows of bars, {buckets} buckets and a latency of {alpha_us} µs: the 12 "
        "layers of the backward pass, and below it the all-reduces of the buckets. What sticks "
        "out behind the backward pass is shaded.",
        buckets=Knob(COUNTS, start=6), alpha_us=Knob([1, 10, 50], start=10, label="latency",
                                                     unit="µs"))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. The backward pass of 12 layers, and the all-reduces of its buckets, one after another.
# The shaded part is exposed.*
#
# At 50 µs the best of these is 2 buckets, with 710 µs. At 1 µs it is 12. **The slower a network
# answers, the larger a bucket has to be.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert min(COUNTS, key=lambda buckets: formula_us(buckets, 50)) == 2
assert round(formula_us(2, 50)) == 710
assert min(COUNTS, key=lambda buckets: formula_us(buckets, 1)) == 12
assert round(formula_us(12, 1)) == round(exposed_us(early)) and round(formula_us(1, 1)) == 596

# %% [markdown] slideshow={"slide_type": "subslide"}
# Does the formula predict runs? The next program is `early.py` with buckets: a list says how many
# layers are in each, beginning with the last layer.

# %% slideshow={"slide_type": "fragment"}
# %%writefile in_buckets.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm, layers_of):
    buckets = [np.ones(4096 * layers) for layers in layers_of]
    requests, layer = [], sum(layers_of)
    ringside.compute(seconds=12 * 40e-6, phase="forward")
    for bucket, layers in zip(buckets, layers_of):
        for _ in range(layers):
            layer -= 1
            ringside.compute(seconds=80e-6, phase=f"backward {layer}")
        requests.append(comm.Iallreduce(MPI.IN_PLACE, bucket))
    MPI.Request.Waitall(requests)


# %% slideshow={"slide_type": "fragment"}
def run_us(layers_of, alpha_us):
    """Exposed time of a run on four ranks."""
    slow = Machine.load(f"textbook,alpha_s={alpha_us}e-6")
    return exposed_us(ringside.run("in_buckets.py:step", 4, (layers_of,), machine=slow))


runs = {(k, alpha): run_us([12 // k] * k, alpha) for alpha in (1, 10) for k in COUNTS}

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7, 3.4))
for alpha, hue in ((1, FORWARD), (10, BACKWARD)):
    axis.plot(COUNTS, [formula_us(k, alpha) for k in COUNTS], color=hue,
              label=f"formula, latency {alpha} µs")  # fmt: skip
    axis.plot(COUNTS, [runs[k, alpha] for k in COUNTS], "o", color=hue, label="runs")
axis.set(xscale="log", xlabel="number of buckets", ylabel="exposed (µs)", ylim=(0, None))
axis.set_xticks(COUNTS, COUNTS)
axis.minorticks_off()
axis.legend(frameon=False)
show(figure, "Exposed time against the number of buckets, 1 to 12, for latencies of 1 and 10 µs. "
     "At 1 µs line and dots fall together. At 10 µs the line falls to 6 buckets and rises "
     "steeply to 12, while the dots go on falling.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Exposed time against the number of buckets.*
#
# As long as the network keeps up, your runs and the formula agree to the microsecond. Why does the last run, with
# 12 buckets and 10 µs, expose only 111 µs, where the formula says 430? This simulated network carries several
# all-reduces at once, so their latencies overlap. An MPI library may do that. NCCL puts all that you launch into
# one queue and works through it. So plan with the formula.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for (k, alpha), run in runs.items():
    if (k, alpha) != (12, 10):
        assert abs(run - formula_us(k, alpha)) < 1, (k, alpha, run, formula_us(k, alpha))
assert round(runs[12, 10]) == 111 and round(formula_us(12, 10)) == 430

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Why is the best first bucket small, and why is the best last bucket
# small too?" The first one starts the network early; the last one is what is exposed. Equal
# buckets are a simplification, and puzzle 2 leaves it behind.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=5
# ## 5. One order on all ranks, and the algorithm of DDP
#
# Ranks match all-reduces by their order only: the first call on one rank goes with the first call
# on every other rank. So far all ranks computed the same layers in the same order. But a network
# may take another path for another input, and then its gradients become ready in another order.
# Suppose that each rank launches what is ready. Here two ranks have two gradients of equal length,
# and they become ready in opposite order.

# %% slideshow={"slide_type": "fragment"}
# %%writefile two_orders.py
import numpy as np
from mpi4py import MPI


def step(comm):
    gradients = {"first": np.full(3, 1.0), "last": np.full(3, 10.0)}
    order = ["last", "first"] if comm.rank == 0 else ["first", "last"]
    requests = [comm.Iallreduce(MPI.IN_PLACE, gradients[name]) for name in order]
    MPI.Request.Waitall(requests)
    return gradients


# %% [markdown] slideshow={"slide_type": "fragment"}
# The right sums are 1 + 1 = 2 for `first` and 10 + 10 = 20 for `last`.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/two-orders", "Two ranks start the all-reduces of two equally long gradients in opposite "
      "orders. What happens?",
      choices=["right sums", "wrong sums, no error", "an error", "a deadlock"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
two_orders = ringside.run("two_orders.py:step", 2)
for rank, value in enumerate(two_orders.values):
    print(f"rank {rank}: {value['first'][0]:.0f} and {value['last'][0]:.0f}, no error")
reveal("05/two-orders", "wrong sums, no error")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both ranks hold 11 in both gradients. You have added a gradient of one layer to that of another, and nothing tells
# you. The training goes on and learns nonsense. Therefore DDP fixes the order of buckets once, the same on all
# ranks. A bucket that is full too early waits for those before it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for value in two_orders.values:
    assert value["first"].tolist() == value["last"].tolist() == [11.0] * 3
assert two_orders.error is None

# %% [markdown] slideshow={"slide_type": "subslide"}
# This is the algorithm of PyTorch's DDP [2], in our words.
#
# ```text
# constructor, on every rank
#   1  all ranks call broadcast: everybody gets rank 0's parameters and buffers
#   2  put the parameters into buckets, in the reverse of net.parameters(); a bucket is closed
#      when it has reached its cap
#   3  give each parameter a hook
# forward pass
#   4  all ranks call broadcast: everybody gets rank 0's buffers
#   5  run the network; if it was asked to, find the parameters that were not used, and count
#      them as ready
# hook of a parameter
#   6  put its gradient into its place in the bucket
#   7  while the next bucket in the fixed order is full: start its all-reduce, don't wait
# after the last hook
#   8  wait for all all-reduces, and divide by the number of ranks
#   9  after the first step only: put the parameters into buckets again, in the order in which
#      the gradients became ready on rank 0
# ```
#
# Line 1 makes the copies equal at the beginning. Line 8 gives all of them the same gradients. So
# they stay equal, although no parameter is ever sent again.

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "The network is the same on all ranks. How can the order differ at all?" Examples:
# dropped layers, mixtures of experts, sentences of different length in a recursive network, and
# two CPU threads in one backward pass. *Where classes stumble:* they believe that the name of a
# gradient travels with it. Let them say what a message of an all-reduce contains: numbers.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=5
# ## 6. PyTorch's DDP, observed
#
# Does PyTorch do the same? The real `DistributedDataParallel` runs on the kit's network. A *communication hook* is
# called in place of each bucket's all-reduce. Yours writes down what is in the bucket, and then does what DDP would
# have done. `bucket_cap_mb` is the cap in MiB, and 0.125 MiB are four layers of this network.

# %% slideshow={"slide_type": "fragment"}
# %%writefile observed.py
import torch
from network import Network
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


def train(group, steps, bucket_cap_mb):
    ddp = DistributedDataParallel(Network(), bucket_cap_mb=bucket_cap_mb)
    layer_of = {p: number for number, p in enumerate(ddp.parameters())}
    buckets = []  # for each step, a list of buckets

    def hook(state, bucket):
        buckets[-1].append([layer_of[p] for p in bucket.parameters()])
        return default_hooks.allreduce_hook(state, bucket)

    ddp.register_comm_hook(None, hook)
    for _ in range(steps):
        buckets.append([])
        ddp(torch.ones(2, 64, dtype=torch.float64)).sum().backward()
    return buckets


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/first-step", "Four layers fit into a bucket, and there are 12. How many "
      "all-reduces does DDP start in its very first step?", unit="all-reduces")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
observed = ringside.run("observed.py:train", 4, (2, 0.125), machine=declared)
for number, buckets in enumerate(observed.values[0]):
    print(f"step {number}: {len(buckets)} buckets, of layers {buckets}")
reveal("05/first-step", len(observed.values[0][0]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# In your first step DDP has one bucket for everything, because it doesn't know the order of the gradients yet, and
# watches it. Then rank 0 tells the others the order, and from the second step on there are three buckets, last
# layers first. Here are both steps.

# %% slideshow={"slide_type": "fragment"}
observed.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. Two steps of PyTorch's DDP on four ranks. In the first one nothing overlaps.*
#
# So measure a DDP program from its second step on. Compare the second step with our formula:

# %% slideshow={"slide_type": "fragment"}
first = ringside.run("observed.py:train", 4, (1, 0.125), machine=declared)
second_us = exposed_us(observed) - exposed_us(first)
print(f"second step: {second_us:.0f} µs exposed")
print(f"formula for 3 buckets: {formula_us(3, 1):.0f} µs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The formula says 203 µs, and your step has 4 µs more, once, for two small broadcasts with the new order.
#
# What if you don't set the cap? DDP takes 25 MiB, and 1 MiB for the first bucket, so that the network starts early.
# This network has only 0.4 MB, so the default makes one bucket of it, and **nothing overlaps**. If your network is
# small, lower the cap.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert observed.values[0][0] == [list(range(12))]
assert observed.values[0][1] == [[11, 10, 9, 8], [7, 6, 5, 4], [3, 2, 1, 0]]
assert all(value == observed.values[0] for value in observed.values)
assert round(formula_us(3, 1)) == 203 and round(second_us - formula_us(3, 1)) == 4
assert round(12 * 4096 * 8 / 1e6, 1) == 0.4 and 4 * 4096 * 8 / 2**20 == 0.125
told = [record.nbytes for record in observed.collectives if record.name == "bcast"]
assert len(told) == 4 and max(told[2:]) < 64
default = ringside.run("observed.py:train", 2, (2, 25))
assert [len(buckets) for buckets in default.values[0]] == [1, 1]

# %% [markdown] slideshow={"slide_type": "notes"}
# *Details for questions.* In the version of PyTorch that executed this page, the small first bucket
# is used only if `bucket_cap_mb` is not given. A bucket is closed when it has reached the cap, so
# it can be larger than the cap by one parameter. (In the assignment the cap is a true upper bound;
# say so.) With `find_unused_parameters=True` buckets are never made again.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 7. What else the wrapper does
#
# What else do you get from DDP? Four things, each with a run of a few lines.

# %% slideshow={"slide_type": "fragment"}
# %%writefile wrapped.py
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def accumulate(group, microbatches, use_no_sync):
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(64, 64))
    for number in range(microbatches):
        last = number == microbatches - 1
        with ddp.no_sync() if use_no_sync and not last else nullcontext():
            ddp(torch.ones(4, 64)).sum().backward()
    return ddp.module.weight.grad


# %% [markdown] slideshow={"slide_type": "fragment"}
# **`no_sync`.** If a batch doesn't fit into the memory, you run it as several *microbatches* and add
# up the gradients. The sum of means is the mean of sums, so one all-reduce at the end is enough.
# Inside `with ddp.no_sync():` the hooks launch nothing.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/no-sync", "Four microbatches: how many bytes does DDP send without no_sync, "
      "for each byte that it sends with it?", unit="bytes")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def reduced_bytes(run):
    """Bytes of gradients that went into all-reduces."""
    return sum(record.nbytes for record in run.collectives if record.name == "allreduce")


synced, unsynced = (ringside.run("wrapped.py:accumulate", 2, (4, way)) for way in (False, True))
print(f"{reduced_bytes(synced):,} bytes without no_sync, {reduced_bytes(unsynced):,} with it")
reveal("05/no-sync", reduced_bytes(synced) / reduced_bytes(unsynced))

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert reduced_bytes(synced) == 4 * reduced_bytes(unsynced) == 4 * 4 * (64 * 64 + 64)
np.testing.assert_allclose(synced.values[0], unsynced.values[0], rtol=1e-6)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Unused parameters.** If rank 0 doesn't use a layer, its hooks never fire, and the layer's bucket
# is never full. Here rank 0 skips the second of two layers.

# %% slideshow={"slide_type": "fragment"}
# %%writefile skipping.py
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, skip):
        return self.first(x) if skip else self.second(self.first(x))


def train(group, find):
    ddp = DistributedDataParallel(Two(), find_unused_parameters=find)
    for _ in range(2):
        ddp(torch.ones(4, 8), skip=group.rank() == 0).sum().backward()
    return ddp.module.second.weight.grad


# %% slideshow={"slide_type": "fragment"}
told = ringside.run("skipping.py:train", 2, (False,), check=False)
print(str(told.error).split(". ")[0])
found = ringside.run("skipping.py:train", 2, (True,))
print([record.nbytes for record in found.collectives if record.name == "allreduce"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the search, rank 0 goes into the next step while rank 1 still waits, and you get an error there. With
# `find_unused_parameters=True` DDP walks through the graph after each forward pass. It then needs a second
# all-reduce, of 16 bytes here, to learn which of the four parameters *no rank* has used. Turn the search on only if
# you need it.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
sizes = [record.nbytes for record in found.collectives if record.name == "allreduce"]
assert "Expected to have finished reduction" in str(told.error) and told.values[1] is None
assert sizes == [4 * 2 * (64 + 8), 16] * 2
np.testing.assert_allclose(found.values[0], found.values[1])

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Buffers.** A *buffer* belongs to the state of a network but gets no gradient. The running mean and
# variance of a BatchNorm layer are buffers. Each rank updates them from its own samples, so they
# drift apart. DDP sends rank 0's buffers to everybody before each forward pass. It does *not*
# average them: the network you save has seen the statistics of rank 0's samples only.

# %% slideshow={"slide_type": "fragment"}
# %%writefile with_buffers.py
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def running_mean(group):
    ddp = DistributedDataParallel(nn.BatchNorm1d(1, momentum=1.0))
    sample = torch.full((4, 1), float(group.rank()))  # rank 0 sees zeros, rank 1 ones
    ddp(sample).sum().backward()
    first = ddp.module.running_mean.item()
    ddp(sample)  # its broadcast comes before the layer updates the mean
    return first, ddp.module.running_mean.item()


# %% slideshow={"slide_type": "fragment"}
statistics = ringside.run("with_buffers.py:running_mean", 2)
print(statistics.values)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rank 0 has a mean of 0 and rank 1 a mean of 1. The mean of all samples is one half, and no rank has it. If you
# need it, take `SyncBatchNorm`, which computes statistics over all ranks. You pay with an all-reduce in each
# forward pass, which nothing hides.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert statistics.values == [(0.0, 0.0), (1.0, 1.0)]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Compression.** A communication hook may also send fewer bytes. One idea is to send 16 bits
# instead of 32. Another is *PowerSGD* [3]: it replaces the gradient of an $m \times n$ matrix by a
# product of two thin ones, $m \times r$ and $r \times n$, and keeps what is lost for the next step.
# The bytes fall by the factor $\frac{m\,n}{r\,(m+n)}$.

# %% slideshow={"slide_type": "fragment"}
# %%writefile compressed.py
import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def train(group, way, steps=4):
    ddp = DistributedDataParallel(nn.Linear(512, 512, bias=False))
    if way == "16 bits":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if way == "PowerSGD":
        state = powerSGD_hook.PowerSGDState(None, 4, start_powerSGD_iter=2)
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for _ in range(steps):
        ddp(torch.randn(4, 512)).sum().backward()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/power", "PowerSGD of rank 4 on a matrix of 512 x 512: by which factor do the bytes "
      "fall?", unit="times")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
last_step = {}
for way, calls in (("plain", 1), ("16 bits", 1), ("PowerSGD", 3)):
    run = ringside.run("compressed.py:train", 2, (way,))
    sizes = [record.nbytes for record in run.collectives if record.name == "allreduce"]
    last_step[way] = sum(sizes[-calls:])
    print(f"{way:8} {last_step[way]:9,} bytes in the last step")
reveal("05/power", last_step["plain"] / last_step["PowerSGD"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# You save a factor of 2, and a factor of 64. But compression helps you only where communication is *exposed*. If
# all but the last bucket is hidden, half the bytes save half of the last bucket, and the compression itself takes
# time from the backward pass. It also changes the gradients. Hide first, and then compress what is left.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert last_step["plain"] == 2 * last_step["16 bits"] == 64 * last_step["PowerSGD"]
wide, low = 512, 4
assert wide * wide / (low * (wide + wide)) == 64

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=30
# ## 8. Back to the 512 milliseconds
#
# How much of the 512 ms can the GPT hide? This is the part of its program that `reduce="layers"` switches on. It has
# one bucket for each of the 24 layers, and `one` is the hook:

# %% slideshow={"slide_type": "fragment"}
import inspect

from ringside.course.lectures import course_gpt

print(inspect.getsource(course_gpt.reduce_layers))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Token and position embeddings and the last norm follow at the end of the backward pass. All ranks do the same here,
# so the order is no problem.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/gpt-overlapped", "32 GPUs. Without overlap 512 ms are exposed. How many are left?",
      unit="ms")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
overlapped = course_step(2, reduce="layers")
left_ms = exposed_ms(overlapped.trace, 32)
print(f"exposed: {end_ms:.0f} ms at the end, {left_ms:.0f} ms overlapped")
reveal("05/gpt-overlapped", left_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **58 ms are left of your 512.** They belong to what is ready only when nothing is left to compute:
#
# | exposed | ms |
# |---|---|
# | the last layer's all-reduce | 20 |
# | the token embedding's | 37 |
# | the position embedding's and the last norm's | below 2 |
#
# The course's ledger has a new line:

# %% slideshow={"slide_type": "fragment"}
ledger("05", gpus=32, step_s=(COMPUTE_MS + left_ms) / 1e3, exposed_s=left_ms / 1e3,
       memory_bytes=max(memory["peak"] for memory in overlapped.memory))  # fmt: skip


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def ring_ms(nbytes, num_gpus):
    """All-reduce over several nodes: the links between nodes set the pace."""
    step_s = cluster.alpha_s + nbytes / num_gpus * cluster.beta_s_per_byte
    return 2e3 * (num_gpus - 1) * step_s


WIDTH, WORDS = 2304, 51200 * 2304 * 2
LAYER = 2 * (12 * WIDTH**2 + 13 * WIDTH)
REST = [LAYER, WORDS, 2 * 2048 * WIDTH, 2 * 2 * WIDTH]  # last layer, words, positions, norm

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(left_ms) == 58 and abs(left_ms - sum(ring_ms(n, 32) for n in REST)) < 1
assert [round(ring_ms(n, 32)) for n in REST[:2]] == [20, 37]
assert sum(ring_ms(n, 32) for n in REST[2:]) < 2

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How much work does a byte need?
#
# Your run hid nearly all of its messages. Can you tell in advance whether a run will? Let a model have $\Psi$
# parameters of $w$ bytes. A GPU has $T$ tokens and computes $F$ FLOP per second. The network carries
# $\beta' = 1/\beta$ bytes per second.
#
# - The backward pass takes $T_b = q\,\Psi\,T / F$. Each parameter costs $q = 4$ FLOP for each
#   token, and $q = 6$ if layers are computed forward once more, as in our GPT.
# - The bytes take $c = 2\,\frac{p-1}{p}\,\Psi\,w / \beta'$.
#
# You can hide all bytes only if $c \le T_b$. The number of parameters cancels:
#
# $$T \;\ge\; \frac{2w}{q}\,\frac{F}{\beta'}\,\frac{p-1}{p} .$$
#
# This is the **tokens-per-GPU bound** of data parallelism (the *communication roofline*). It doesn't depend on the
# size of the model. It tells you how many tokens each GPU must have, on a given machine, so that the network can
# stay hidden.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/roofline", "137 TFLOP/s, 12.5 GB/s, w = 2 bytes, q = 6, p = 32. "
      "How many tokens does each GPU need?", unit="tokens")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
operations_per_byte = 137e12 / 12.5e9
tokens = 2 * 2 / 6 * operations_per_byte * 31 / 32
print(f"{tokens:,.0f} tokens, {tokens / 2048:.1f} sequences of 2048")
reveal("05/roofline", tokens)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You need 7,078 tokens on each GPU, about three and a half sequences. You have eight, so the network keeps up. With
# two it can't. Look at both, from 2 to 512 GPUs.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from ringside.course.lectures import work_to_hide

assert round(tokens) == 7078 and round(tokens / 2048, 1) == 3.5
assert abs(work_to_hide(2 * 2 * 31 / 32) / 6 - tokens) < 1 and 8 * 2048 > tokens > 2 * 2048

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures import course_trace
from ringside.course.lectures.ledger import PROGRAM

short = course_trace(f"{PROGRAM}:step", 2, (2, "layers"), grid={"dp": 2}, alike=("dp",)).trace
COUNTS_GPU = [2, 4, 8, 16, 32]
traces = {"one at the end": at_the_end, "8 sequences": overlapped.trace, "2 sequences": short}
exposed = {
    name: [exposed_ms(trace, count) for count in COUNTS_GPU] for name, trace in traces.items()
}

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
MANY = [8, 16, 32, 64, 128, 256, 512]
NBYTES = 24 * LAYER + sum(REST[1:])


def line_ms(num_gpus, sequences):
    """Section 4's two cases, for 24 layers and what is left at the end."""
    last = sum(ring_ms(nbytes, num_gpus) for nbytes in REST)
    backward_ms = 3 / 4 * COMPUTE_MS * sequences / 8
    head_ms = backward_ms * WORDS / NBYTES  # the scores come first, then layer 23
    first_ms = head_ms + (backward_ms - head_ms) / 24
    network_ms = ring_ms(NBYTES, num_gpus) + 27 * 2e3 * (num_gpus - 1) * cluster.alpha_s
    return max(last, first_ms + network_ms - backward_ms)


end_line = [ring_ms(NBYTES, count) for count in MANY]
lines = {sequences: [line_ms(count, sequences) for count in MANY] for sequences in (8, 2)}

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.8))
plans = (("one at the end", EXPOSED, end_line), ("2 sequences", COMMUNICATION, lines[2]),
         ("8 sequences", BACKWARD, lines[8]))  # fmt: skip
for name, hue, line in plans:
    axis.plot(MANY, line, color=hue)
    axis.plot(COUNTS_GPU, exposed[name], "o", color=hue)
    words = name if name == "one at the end" else f"a bucket for each layer, {name}"
    axis.text(512, line[-1] + 12, words, color=hue, ha="right", fontsize=10)
axis.set(xscale="log", xlabel="GPUs", ylabel="exposed in each step (ms)", ylim=(0, 620))
axis.set_xticks([2, 4, *MANY], [2, 4, *MANY])
axis.minorticks_off()
show(figure, "Exposed milliseconds of a step against 2 to 512 GPUs, dots and lines. One all-reduce "
     "at the end rises from 33 to 530. A bucket for each layer with 2 sequences: almost nothing up "
     "to 4 GPUs, 161 at 8, 275 at 512. With 8 sequences: between 52 and 64 from 8 GPUs on.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Exposed time of the GPT's step against the number of GPUs. Dots are replayed traces,
# lines are the formulas of section 4.*
#
# Up to four GPUs the messages stay inside a node, which is fast. From 8 on they go between nodes. With eight
# sequences your exposed time is small and stays small. With two sequences the backward pass is too short: on 32 GPUs
# 211 ms are exposed, for a computation of 448 ms.
#
# What still grows with the number of GPUs? It is the latency, $2(p-1)\alpha$ for each of 27 buckets, 75 ms on 512
# GPUs. It can hide too, if there is work enough.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for place, count in enumerate(COUNTS_GPU):
    if count >= 8:
        near = MANY.index(count)
        assert abs(exposed["one at the end"][place] / end_line[near] - 1) < 0.001
        for sequences in (8, 2):
            ratio = exposed[f"{sequences} sequences"][place] / lines[sequences][near]
            assert abs(ratio - 1) < 0.05, (sequences, count, ratio)
assert max(max(exposed[name][:2]) for name in ("8 sequences", "2 sequences")) < 10
assert round(exposed["2 sequences"][-1]) == 211 and COMPUTE_MS / 4 == 448
assert round(27 * 2e3 * 511 * cluster.alpha_s) == 75

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Your next cluster has GPUs of twice the speed and the same network. What happens to
# the bound?" It doubles, because faster GPUs are harder to feed. "And with `no_sync`?" Four microbatches
# of two sequences send once, so the exposed time is paid once for eight sequences. The
# hooks of the last microbatch have only its own backward pass to hide behind.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. Who carries the bytes: NCCL, gloo, MPI, and Horovod
#
# `torch.distributed` is an interface. A *backend* carries it out.
#
# | backend | carries | when you use it |
# |---|---|---|
# | NCCL | tensors on NVIDIA GPUs, over NVLink and InfiniBand | training on GPUs |
# | gloo | tensors in main memory, over TCP; some calls also on GPUs | a laptop, tests, CPUs |
# | MPI | what the MPI library can | only if you build PyTorch yourself with MPI |
#
# Can you choose MPI? The package that `pip` installs has none in it, although lists of PyTorch's backends often
# name all three [4]:

# %% slideshow={"slide_type": "fragment"}
# %%writefile backends.py
import torch.distributed as dist


def there(group):
    return {"gloo": dist.is_gloo_available(), "mpi": dist.is_mpi_available()}


# %% slideshow={"slide_type": "fragment"}
backends = ringside.run("backends.py:there", 1).values[0]
print(backends)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The three differ in *progress*: who moves the bytes while your program computes. NCCL runs on the
# GPU and on its network card, so it moves them by itself. gloo has threads for it; they need a CPU core.
# Many MPI libraries move bytes only while you are inside an MPI call. Then `Iallreduce` starts
# little, and `Waitall` does the work. Our simulated network always makes progress. The
# assignment asks you to measure what your library does.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert backends["gloo"] and not backends["mpi"]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What a bucket costs on real GPUs.** Two nodes with eight A100 each ran NCCL's all-reduce, and the
# times were published [5]. Suppose that you have to reduce 1 GiB: in one bucket, in 64 of 16 MiB, or
# in 1024 of 1 MiB.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("05/nccl", "How many times longer do 1024 all-reduces of 1 MiB take than one of 1 GiB?",
      unit="times")  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
nccl = table(LECTURES / "data" / "nccl_2x8_a100.csv")
measured_us = dict(zip(nccl["nbytes"].tolist(), nccl["time_us"].tolist()))
for buckets in (1, 64, 1024):
    total_ms = buckets * measured_us[2**30 // buckets] / 1e3
    print(f"{buckets:5} buckets: {total_ms:5.1f} ms")
many_times = 1024 * measured_us[2**20] / measured_us[2**30]
assert 9 < many_times < 10
reveal("05/nccl", many_times)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You need 88 ms in small buckets, and 9 ms in one. PyTorch's default cap of 25 MiB lies where the curve becomes
# flat for this machine. The first bucket of 1 MiB is a price that DDP pays to start early.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1024 * measured_us[2**20] / 1e3) == 88 and round(64 * measured_us[2**24] / 1e3) == 18
assert round(measured_us[2**30] / 1e3) == 9

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["systems"]
# **Horovod, as history.** Before DDP had hooks for all this, Horovod (2018) [6] put ring all-reduces under
# TensorFlow, Keras, PyTorch and MXNet. It solved the problem of section 5 differently. Every few
# milliseconds the ranks agree which gradients are ready *everywhere*. These are fused into a buffer
# and reduced; this is *tensor fusion*. Its last release, `0.28.1`, is of June 2023 [7]. The idea lives on in DDP's
# buckets.
#
# On 512 P100 GPUs, with 25 Gbit/s between servers of four GPUs, Horovod reached an efficiency of 90 %
# for Inception V3 and `ResNet-101` and of 68 % for VGG-16 [6]. Can you explain why VGG-16 is worse? One P100
# computes 154 images of VGG-16 per second [8]. Assume 64 images on each GPU, although the paper's batch may be
# another one.

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
vgg_bytes = 4 * 138.36e6
vgg_step_s = 64 / 154
vgg_bytes_s = 2 * vgg_bytes / (25e9 / 8)
at_end = vgg_step_s / (vgg_step_s + vgg_bytes_s)
hidden = vgg_step_s / (vgg_step_s / 3 + max(vgg_step_s * 2 / 3, vgg_bytes_s))
print(f"nothing hidden {at_end:.0%}, as much as possible hidden {hidden:.0%}, measured 68%")
assert at_end < 0.68 < hidden

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your model says 54 % without overlap, and 84 % with perfect overlap. What was measured lies between. The bytes of
# VGG-16 take 354 ms, and its backward pass about 277 ms, so a GPU has too few images to hide them.
#
# The DDP paper (2020) reports near-linear scaling on $256$ GPUs [2].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (round(at_end, 2), round(hidden, 2)) == (0.54, 0.84)
assert round(1e3 * vgg_bytes_s) == 354 and round(1e3 * vgg_step_s * 2 / 3) == 277
assert 0.68 - at_end > 0.1 and vgg_step_s == 64 / 154 and 25e9 / 8 == 3.125e9

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=25
# ## 10. Reading a profile
#
# How do you find exposed time on a real machine? There you have a *profile* instead of Figure 1. PyTorch writes one
# with `torch.profiler`, and the kit writes its timelines in the same format. The viewer at `ui.perfetto.dev` opens
# both. The next program is the early one with a *straggler*: rank 2 is slower than the others.

# %% slideshow={"slide_type": "fragment"}
# %%writefile straggler.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm, slow_rank):
    gradients, requests = np.zeros((12, 4096)), []
    layer_s = 100e-6 if comm.rank == slow_rank else 80e-6
    ringside.compute(seconds=480e-6, phase="forward")
    for k in reversed(range(12)):
        ringside.compute(seconds=layer_s, phase=f"backward {k}")
        requests.append(comm.Iallreduce(MPI.IN_PLACE, gradients[k]))
    MPI.Request.Waitall(requests)


# %% slideshow={"slide_type": "fragment"}
from ringside.timing import perfetto

profiled = ringside.run("straggler.py:step", 4, (2,))
file = perfetto.export(profiled.timeline, "profile.json")
events = json.loads(file.read_text())["traceEvents"]
slices = [event for event in events if event["ph"] == "X"]  # one for each bar
for rank in range(4):
    own = [event for event in slices if event["tid"] == rank]
    computing = sum(event["dur"] for event in own if event["cat"] == "compute")
    waiting = sum(event["dur"] for event in own if event["cat"] != "compute")
    print(f"rank {rank}: computes {computing:.0f} µs, waits {waiting:.0f} µs")

# %% slideshow={"slide_type": "fragment"}
profiled.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. The same step as a timeline. Rank 2 computes to the end; the others have long tails.*
#
# Which rank is the slow one? Three ranks wait for 295 µs, and rank 2 waits for 55 µs. **The rank that waits least is
# the slow one.** Without its row you would blame the network. In a profile, look for these signs, in this order:
#
# 1. *A tail after the last operation of the backward pass.* Its length is the exposed time of the step. Compare it
#    with the last bucket alone: if it is longer, the network has fallen behind.
# 2. *Ranks with tails of different length.* One of them is a straggler: look at its computation and at
#    its input pipeline.
# 3. *A network that is idle during the first half of the backward pass.* The first bucket is too large,
#    or the first parameters that become ready are in a bucket with late ones.
# 4. *Many short all-reduces with gaps.* The cap is too small, and you pay latency.
# 5. *An all-reduce in every microbatch.* `no_sync` is missing.
# 6. *The first step.* It is always unlike the others. Leave it out.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
waits = [1e6 * (profiled.makespan_s - busy) for busy in profiled.timeline.busy_s]
assert [round(wait) for wait in waits] == [295, 295, 55, 295]

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 11. Where the model breaks
#
# **Computing gets slower.** While NCCL moves bytes, it uses some of the GPU's processors and of its
# memory bandwidth. So the backward pass takes longer with overlap than without. Our model has no such
# cost.
#
# **Peak numbers.** The links of `zaratan` are as fast as their makers say. A real all-reduce reaches
# less, so you need more tokens than the bound says.
#
# **Progress** is taken for granted here (section 9), and **stragglers** are absent: one slow
# rank delays all others in every step.
#
# **Memory.** DDP keeps all parameters, gradients and the optimizer's state on every GPU. The ledger's
# last column has not changed: overlap saves time and no memory.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. Summary
#
# The lecture began with 512 exposed milliseconds in each step of the GPT on 32 GPUs. **58 of them
# are left**, and a step takes 1.85 s instead of 2.3 s. The program sends the same bytes as before.
#
# | what | why |
# |---|---|
# | hooks | tell when a gradient is ready; the last layer's is the first |
# | `Iallreduce`, or `async_op=True` | starts an all-reduce, and lets the rank compute |
# | buckets | share one latency among many gradients |
# | one order on all ranks | ranks match all-reduces by their order only |
# | exposed, if the network keeps up | the last bucket: $a + c/k$ |
# | exposed, if it falls behind | $T_b/k + k\,a + c - T_b$ |
# | everything can be hidden | if each GPU has $T \ge \frac{2w}{q}\frac{F}{\beta'}\frac{p-1}{p}$ tokens |
#
# DDP does not average *after* the backward pass. It averages *during* the backward pass, and waits
# at its end for what is left.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(end_ms) == 512 and round(left_ms) == 58
assert round((COMPUTE_MS + left_ms) / 1e3, 2) == 1.85 and round(step_ms / 1e3, 2) == 2.3
once, layers = (sum(op.nbytes for op in trace.ops[0] if op.kind == 5)
                for trace in (at_the_end, overlapped.trace))  # fmt: skip
assert once == layers == NBYTES

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. Puzzles
#
# Each has a program that works and misses a target. Change the program in its cell, run it, and run
# the cell below it. About ten minutes each.
#
# **Puzzle 1: no tail.** Somebody has changed the early program so that it divides each gradient as
# soon as possible. The values are right, and nothing overlaps. The target is 1500 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm):
    gradients = np.full((12, 4096), float(comm.rank))
    ringside.compute(seconds=480e-6, phase="forward")
    for k in reversed(range(12)):
        ringside.compute(seconds=80e-6, phase=f"backward {k}")
        request = comm.Iallreduce(MPI.IN_PLACE, gradients[k])
        request.Wait()
        gradients[k] /= comm.size
    return float(gradients.mean())


# %% slideshow={"slide_type": "fragment"}
puzzle("puzzle1.py:step", 4, expected=1.5, at_most_us=1500,
       hint="Who needs the mean before the next layer is computed?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Nobody needs a mean before the step ends. Keep the requests in a list, and move `Wait` and the
# division behind the loop: `MPI.Request.Waitall(requests)` and `gradients /= comm.size`.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle1.py").read_text()
mended = text.replace("request = comm.Iallreduce(MPI.IN_PLACE, gradients[k])",
                      "requests.append(comm.Iallreduce(MPI.IN_PLACE, gradients[k]))")  # fmt: skip
mended = mended.replace("        request.Wait()\n        gradients[k] /= comm.size\n",
                        "    MPI.Request.Waitall(requests)\n    gradients /= comm.size\n")  # fmt: skip
mended = mended.replace("    ringside.compute(seconds=480e-6", "    requests = []\n" + 4 * " "
                        + "ringside.compute(seconds=480e-6")  # fmt: skip
Path("solved1.py").write_text(mended)
assert puzzle("solved1.py:step", 4, expected=1.5, at_most_us=1500, draw=False).solved
assert not puzzle("puzzle1.py:step", 4, expected=1.5, at_most_us=1500, draw=False).solved

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: unequal buckets.** `in_buckets.py` of section 4 gets a list: how many of the 12 layers
# are in each bucket, the last layers first. The latency is 10 µs. Four equal buckets take 1647 µs.
# Find another list of *four* buckets that takes at most 1615 µs.

# %% slideshow={"slide_type": "fragment"}
layers_of = [3, 3, 3, 3]
SLOW = "textbook,alpha_s=1e-5"
puzzle("in_buckets.py:step", 4, (layers_of,), machine=SLOW, at_most_us=1615,
       at_most_messages=24, hint="What is exposed is the last bucket.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# The last bucket is exposed, so make it small. The buckets before it must be through when it is full,
# so let them shrink step by step: `[5, 4, 2, 1]` takes 1609 µs. In `[8, 2, 1, 1]` the first bucket is
# so large that the network starts too late, and everything piles up behind it.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
target = {"machine": SLOW, "at_most_us": 1615, "at_most_messages": 24, "draw": False}
equal = puzzle("in_buckets.py:step", 4, ([3, 3, 3, 3],), **target)
unequal = puzzle("in_buckets.py:step", 4, ([5, 4, 2, 1],), **target)
assert unequal.time_us < 1615 < equal.time_us and unequal.solved and not equal.solved
assert round(equal.time_us) == 1647 and round(unequal.time_us) == 1609
assert puzzle("in_buckets.py:step", 4, ([8, 2, 1, 1],), **target).time_us > unequal.time_us

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: half a megabyte too much.** A PyTorch program accumulates the gradients of four
# microbatches. It returns the right gradient and sends too many bytes. The target is 350,000 bytes
# for each of two ranks, and the same gradient.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def step(group):
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(200, 200))
    for number in range(4):
        x = torch.full((8, 200), float(group.rank() + number))
        ddp(x).sum().backward()
    return float(ddp.module.weight.grad[0, 0])


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle3.py:step", 2, expected=64.0, at_most_bytes=350_000, draw=False,
       hint="Three of four all-reduces can be left out.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# ```python
# for number in range(4):
#     x = torch.full((8, 200), float(group.rank() + number))
#     with ddp.no_sync() if number < 3 else contextlib.nullcontext():
#         ddp(x).sum().backward()
# ```
#
# The *last* microbatch must synchronize. If all of them run inside `no_sync`, the bytes fall too, and
# each rank keeps a gradient of its own. The puzzle's values would tell you. Rank 0 still sends the
# parameters once, in the constructor.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = "import contextlib\n\n" + Path("puzzle3.py").read_text()
guarded = (
    "        with ddp.no_sync() if number < {} else contextlib.nullcontext():\n            ddp(x)"
)
judged = []
for microbatches in (3, 4):
    Path("solved3.py").write_text(text.replace("        ddp(x)", guarded.format(microbatches)))
    judged.append(puzzle("solved3.py:step", 2, expected=64.0, at_most_bytes=350_000, draw=False))
assert judged[0].solved and not judged[1].solved
assert judged[0].sent_bytes[0] < 350_000 < attempt.sent_bytes[0] - 400_000

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask pairs that finish puzzle 2 early why the best first
# bucket isn't small here: the network keeps up, so an early start gains nothing. In puzzle 3
# somebody will put all four microbatches into `no_sync`. Let them read the values aloud, rank by
# rank, before you explain.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 14. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A model has 24 equal layers with 100 MB of gradients each. The backward pass takes
# 480 ms. The network needs 360 ms for all the bytes, and 2 ms of latency for each all-reduce. How much
# is exposed with one bucket, and with 24 buckets? How many buckets could you afford at most?
#
# <details><summary>Answer</summary>
#
# With one bucket $a + c = 362$ ms. With 24 buckets the network needs $24 \cdot 2 + 360 = 408$ ms, less
# than 480, so it keeps up, and $2 + 360/24 = 17$ ms are exposed. It keeps up as long as
# $k \le (480 - 360)/2 = 60$. There are only 24 layers, but a bucket may hold half a layer.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def exposed_with(k, a, c, backward):
    return max(a + c / k, backward / k + k * a + c - backward)


assert exposed_with(1, 2, 360, 480) == 362 and exposed_with(24, 2, 360, 480) == 17
backward, latency, nbytes = 480, 2, 360  # in ms
assert 24 * latency + nbytes == 408 < backward and (backward - nbytes) / latency == 60
assert exposed_with(60, 2, 360, 480) < exposed_with(61, 2, 360, 480)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague puts the parameters into buckets in the order of `net.parameters()`, and
# launches the buckets in that order. The program is right. How much of the early program's all-reduces
# is hidden, if each of the 12 layers is a bucket?
#
# <details><summary>Answer</summary>
#
# Nothing. The bucket of the first layer must be launched first, and its gradient is ready last. All
# other buckets wait for it. So all 12 all-reduces start when the backward pass is over.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("early.py").read_text()
start = "requests.append(comm.Iallreduce(MPI.IN_PLACE, gradients[k]))"
assert start in text
text = text.replace(f"        {start}\n", "").replace(
    "    MPI.Request", f"    for k in range(layers):\n        {start}\n    MPI.Request")  # fmt: skip
Path("forward_order.py").write_text(text)
forward_order = ringside.run("forward_order.py:step", 4)
np.testing.assert_allclose(forward_order.values[0], early.values[0])
assert exposed_us(forward_order) > 0.98 * (exposed_us(late) - 6)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** A second cluster has a network card of 12.5 GB/s for *each* GPU, not for four of them
# together. What becomes of the 512 ms of section 1, and of the bound? And what, if your program sends the ring's
# messages itself, in the order of the nodes?
#
# <details><summary>Answer</summary>
#
# The library makes four rings, and each one leaves a node through another card (lecture 3). So 128 ms are left, a
# quarter, and a quarter of the tokens is enough to hide them. In a ring of your own one rank of each node sends to the
# next node. It uses one card of four, and nothing changes. On two levels you can use all four: each GPU of a node sums a
# quarter of the bytes between nodes, over its own card.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
own_cards = cluster.with_(gpus_per_nic=1)
at_end = [ringside.replay(widen(at_the_end, 32), machine) for machine in (cluster, own_cards)]
assert [round(1e3 * (t.makespan_s - max(t.busy_s))) for t in at_end] == [512, 128]
Path("own_ring.py").write_text("""import numpy as np


def step(comm):
    chunk, arriving = np.zeros(1000), np.empty(1000)
    for _ in range(2 * (comm.size - 1)):
        comm.Sendrecv(chunk, (comm.rank + 1) % 8, recvbuf=arriving, source=(comm.rank - 1) % 8)
""")
own = ringside.run("own_ring.py:step", 8).trace
assert ringside.replay(own, cluster).makespan_s == ringside.replay(own, own_cards).makespan_s

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Two sequences on each of 32 GPUs leave 211 ms exposed. Somebody runs four microbatches
# of two sequences and calls `no_sync` for three of them. The exposed time of such a step is still 211
# ms. What has been gained? Compare with eight sequences in one backward pass.
#
# <details><summary>Answer</summary>
#
# The step computes four times as long, so 211 ms are exposed for every 1792 ms of computation and not
# for every 448 ms: 11 % of the step, not 32 %. Eight sequences in one backward pass are better still:
# 58 ms, because the whole backward pass can hide the bytes, and not only that of the last microbatch.
# They need more memory for activations.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
short_ms = exposed["2 sequences"][-1]
assert round(short_ms) == 211 and COMPUTE_MS == 1792 == 4 * 448 and round(left_ms) == 58
assert round(short_ms / (COMPUTE_MS + short_ms), 2) == 0.11
assert round(short_ms / (COMPUTE_MS / 4 + short_ms), 2) == 0.32

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** PowerSGD of rank 4 is used for a matrix of 2304 by 9216. By which factor do its bytes
# fall? The GPT of this lecture uses it for all matrices of its layers, but sends the token embedding as it is.
# How many of the 58 ms can it save at most?
#
# <details><summary>Answer</summary>
#
# By $\frac{2304 \cdot 9216}{4\,(2304 + 9216)} = 461$. What is exposed is the last layer, 20 ms, and
# the embeddings, 38 ms. So you save at most 20 ms, although PowerSGD removes more than 90 % of all the bytes. They
# were hidden already.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(2304 * 9216 / (4 * (2304 + 9216))) == 461
assert 24 * LAYER / NBYTES > 0.9 and round(ring_ms(LAYER, 32)) == 20
assert round(sum(ring_ms(nbytes, 32) for nbytes in REST[1:3])) == 38 and round(left_ms) == 58

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Your turn
#
# The assignment `a05_ddp` asks for what this lecture left out: to divide the parameters of a network
# into buckets under a cap, to overlap with gradients that are never copied, to predict the end of a
# step with *unequal* buckets, and to write a DDP whose launches have the same order on all ranks,
# whatever path a rank's batch takes. Its tests count your all-reduces and look at their order.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Table 1,
#    first row.
# 2. S. Li, Y. Zhao, R. Varma, O. Salpekar, P. Noordhuis, T. Li, A. Paszke, J. Smith, B. Vaughan,
#    P. Damania, S. Chintala. PyTorch Distributed: experiences on accelerating data parallel training.
#    VLDB 2020. arXiv:2006.15704. The abstract, and section 3.
# 3. T. Vogels, S. P. Karimireddy, M. Jaggi. PowerSGD: practical low-rank gradient compression for
#    distributed optimization. NeurIPS 2019. arXiv:1905.13727.
# 4. M. Cai. Introduction to High-performance Machine Learning. Slides, SURFsara.
# 5. Oracle. OCI HPC for OKE: output of nccl-tests on two nodes with eight A100 each.
#    github.com/oracle-quickstart/oci-hpc-oke.
# 6. A. Sergeev, M. Del Balso. Horovod: fast and easy distributed deep learning in TensorFlow.
#    arXiv:1802.05799, 2018. The efficiencies are also in the project's README.
# 7. Horovod. Releases. github.com/horovod/horovod/releases.
# 8. TensorFlow. Performance benchmarks, May 2017. github.com/tensorflow/docs.
#
# Read next: [2], sections 3 and 4, for what DDP's authors tried and left; and the source of your
# PyTorch, `torch/nn/parallel/distributed.py`, whose comments you can now follow.
