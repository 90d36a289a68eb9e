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
# # Lecture 4: Data parallelism
#
# Every GPU holds a copy of the whole network. Each one computes the gradient of its own samples.
# Then an *all-reduce* adds up these gradients and gives the sum to every GPU, and every copy takes
# the same step. This is the most used way to train on many processors, and you can combine it with
# every other way in this course.
#
# In this lecture you write it, prove that it computes what one processor computes, and find out
# how far it scales. At the end you meet its price: the batch grows with the number of GPUs, and
# large batches need care.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - derive the data-parallel gradient from the formula of the loss, and say when you need a sum, a
#   mean, or a weighted mean;
# - write a data-parallel training loop with MPI and with PyTorch, and prove that it computes what
#   one process computes;
# - name three mistakes that no error message reports, and find each of them with a test;
# - predict the time of a step on any number of GPUs, for a fixed batch and for a growing one, and
#   say what limits each;
# - choose a learning rate for a batch that is $k$ times as large, and explain why training may need
#   a warm-up.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** Gradient descent with momentum ([lecture 2](02_sgd.ipynb)), and all-reduce
# with its cost ([lecture 3](03_allreduce.ipynb)). Reading takes about two hours, with the three
# puzzles two and a half.
#
# | sign | meaning |
# |---|---|
# | $p$ | number of ranks; a *rank* is one process of a parallel program, here one GPU |
# | $B$ | samples of one step, of all ranks together; for text, a sample is a sequence |
# | $b$ | samples of one rank; $B = p\,b$ if all ranks have the same number |
# | $w,\ g$ | weights; gradient of the loss with respect to the weights |
# | $\eta,\ \mu$ | learning rate; momentum |
# | $\alpha,\ \beta$ | latency of a message (seconds); time of a byte (seconds per byte) |
# | $n$ | bytes of the gradient |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** *Ask first:* "Sixteen GPUs each return a gradient. Do you add them up or average them?" Take a
# vote. Most classes split, and both halves are right under a condition. Section 2 states it.
#
# *Where classes stumble:* (1) They believe that sum and mean differ only in taste. Let them say
# which learning rate a sum amounts to. (2) They believe that more GPUs give a better gradient at
# no cost. Section 7 shows the cost. (3) They confuse strong and weak scaling. Ask each time: "Is
# the batch fixed, or are the samples of a GPU fixed?"

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import sys
import tempfile
import textwrap
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the matrices here are small

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
from ringside.course.lectures import (
    SIZES,
    course_machine,
    course_step,
    ledger,
    puzzle,
    show,
    step_flops,
    table,
    work_to_hide,
)
from ringside.timing.extrapolation import widen

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
sys.path.insert(0, os.getcwd())  # and can be imported
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
COMPUTE, COMMUNICATION, GREY = "#0072b2", "#e69f00", "0.6"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: 127 days
#
# One language model goes through this whole course: a GPT with 24 layers, which its authors list
# with 1.7 billion parameters [1]. One GPU, an A100, trains it on 8 sequences of 2048 tokens in each
# step. How long does one step take? In a published run of this very model each A100 computed at
# 137 TFLOP/s, that is $137\cdot10^{12}$ operations a second [1]. `step_flops` counts the operations
# of a step from the sizes of the model. It counts 1.5 times as many as the $6ND$ of
# [lecture 0](00_why_parallel.ipynb), for two reasons: it includes the attention, and it computes
# the forward pass twice, so that less has to be kept in memory.

# %% slideshow={"slide_type": "fragment"}
machine = course_machine()  # a model of the cluster Zaratan; a GPU reaches 137 TFLOP/s
step_s = step_flops(8) / machine.flop_per_s
tokens = 8 * 2048
days = 100e9 / tokens * step_s / 86400

print(f"one step: {step_s:.2f} s for {tokens:,} tokens")
print(f"100 billion tokens: {days:.0f} days")

# %% [markdown] slideshow={"slide_type": "fragment"}
# One GPU needs 127 days to read 100 billion tokens, and you don't want to wait that long. So you take 32
# GPUs: eight *nodes*, which are computers with four GPUs each. If they shared the work without any loss, you
# would wait 4.0 days. How many days will it really take?

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert round(step_s, 2) == 1.79 and tokens == 16_384
assert round(days) == 127 and round(days / 32, 1) == 4.0
assert (SIZES["num_layers"], SIZES["sequence"]) == (24, 2048)
assert machine.flop_per_s == 137e12 and 32 // machine.ranks_per_node == 8
assert round(step_flops(8) / (6 * 1.652e9 * tokens), 1) == 1.5

# %% [markdown] slideshow={"slide_type": "fragment"}
# Section 5 gives you the formula, and section 9 the answer. First you need a correct program, and a small
# network that you can really train.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 2. From the formula to the program
#
# What may each rank compute alone? The loss of a batch is the mean of the losses of its $B$ samples:
#
# $$L(w) = \frac1B \sum_{i=1}^{B} \ell_i(w), \qquad
# g = \nabla L(w) = \frac1B \sum_{i=1}^{B} \nabla \ell_i(w) .$$
#
# You may take a sum in any order. So partition the batch into $p$ parts $S_1, \dots, S_p$, give one to
# each rank, and sum up part by part:
#
# $$g = \frac1B \Bigl( \sum_{i\in S_1} \nabla\ell_i + \dots + \sum_{i\in S_p} \nabla\ell_i \Bigr) .$$
#
# This is exact. The gradient that $p$ ranks compute together *is* the gradient that one rank computes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Sum or mean?** Each bracket above is a sum over samples. But a framework such as PyTorch
# gives each rank the *mean* over its own samples, $g_r = \frac{1}{b_r}\sum_{i\in S_r}\nabla\ell_i$, where $b_r$ is the
# number of samples of rank $r$. Put this into the formula:
#
# $$g = \sum_{r=1}^{p} \frac{b_r}{B}\, g_r \qquad\text{and, if all } b_r \text{ are equal,}\qquad
# g = \frac1p \sum_{r=1}^{p} g_r .$$
#
# So three recipes are correct. You may add up sums and divide by $B$; you may average means of
# equal parts; or you may weight the means by their numbers of samples. Try the second for 1024
# handwritten digits and sixteen ranks. The network has three hidden layers, and all its weights
# lie in one vector.

# %% slideshow={"slide_type": "subslide"}
# %%writefile net.py
import numpy as np

WIDTHS = (64, 48, 48, 48, 10)  # pixels, three hidden layers, one score for each digit


def start(seed):
    """Random weights, all in one vector."""
    rng = np.random.default_rng(seed)
    sizes = zip(WIDTHS, WIDTHS[1:])
    return np.concatenate([rng.normal(0, (2 / a) ** 0.5, a * b) for a, b in sizes])


def matrices(w):
    """The weight matrix of each layer, as views of the vector w."""
    found, first = [], 0
    for a, b in zip(WIDTHS, WIDTHS[1:]):
        found.append(w[first : first + a * b].reshape(a, b))
        first += a * b
    return found


# %% [markdown] slideshow={"slide_type": "fragment"}
# Two more files hold the forward and the backward pass of lecture 2, with the cross-entropy as the
# loss. You may take them as given.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# %%writefile forwards.py
import numpy as np
from net import matrices


def forward(w, x):
    """Inputs of each layer, and the scores of the last one."""
    inputs = [x]
    for W in matrices(w):
        scores = inputs[-1] @ W
        inputs.append(np.maximum(scores, 0))
    return inputs[:-1], scores


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# %%writefile passes.py
import numpy as np
from forwards import forward
from net import matrices


def loss_and_gradient(w, x, y):
    """Mean loss of the samples x with the digits y, and its gradient as one vector."""
    inputs, scores = forward(w, x)
    d = np.exp(scores - scores.max(axis=1, keepdims=True))
    d /= d.sum(axis=1, keepdims=True)  # the chance of each digit
    right = np.arange(len(y)), y
    loss = -np.log(d[right] + 1e-300).mean()
    d[right] -= 1
    parts = []
    for W, h in zip(matrices(w)[::-1], inputs[::-1]):
        parts.insert(0, (h.T @ d).ravel() / len(y))
        d = (d @ W.T) * (h > 0)
    return loss, np.concatenate(parts)


# %% slideshow={"slide_type": "fragment"}
from forwards import forward
from net import start
from passes import loss_and_gradient

from ringside.digits import load_digits

images, digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits))
images, digits = images[order] / 16, digits[order]
x, y = images[:1280], digits[:1280]  # to learn from
x_test, y_test = images[1280:], digits[1280:]

w0 = start(seed=0)
print(f"{len(w0):,} weights, {len(x)} digits to learn from, {len(x_test)} for testing")

# %% slideshow={"slide_type": "fragment"}
batch = np.arange(1024)
parts = np.split(batch, 16)  # 64 samples for each rank
means = [loss_and_gradient(w0, x[part], y[part])[1] for part in parts]
whole = loss_and_gradient(w0, x[batch], y[batch])[1]
print(f"largest difference: {abs(sum(means) / 16 - whole).max():.1e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your mean of sixteen gradients is the gradient of all 1024 samples, up to rounding. Suppose that you take the
# *sum* of the sixteen means instead. What does this change?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/sum",
    "You add up the means of 16 ranks, and step with a learning rate of 0.01. "
    "Which learning rate would give the same step to somebody who averages?",
)

# %% slideshow={"slide_type": "fragment"}
sum_step = 0.01 * sum(means)
mean_gradient = sum(means) / 16
same_rate = np.linalg.norm(sum_step) / np.linalg.norm(mean_gradient)
print(f"learning rate {same_rate:.2f}")
reveal("04/sum", same_rate)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You step as if your learning rate were 0.16, because the sum is $p$ times as long as the mean. As long as you
# always use 16 ranks, this does no harm, since you may have found a good learning rate by trial. It goes wrong
# on the day when you change the number of ranks. The step then changes its length, and no message tells you.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert abs(sum(means) / 16 - whole).max() < 1e-12 and {len(part) for part in parts} == {64}
assert round(same_rate, 2) == 0.16 and len(batch) == 1024
assert (len(x), len(x_test)) == (1280, 517)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Does every sample count once?** Cut the batch into the ranges $1$ to $B/4$, $B/4$ to $2B/4$, and so on. Then
# samples $B/4$, $2B/4$ and $3B/4$ belong to two ranks. In formulas this mistake is easy, and from there it gets
# into programs. Your test: put all parts together, sort, and compare with the batch.

# %% slideshow={"slide_type": "fragment"}
B = 1024
slide = [range(max(1, k * B // 4), (k + 1) * B // 4 + 1) for k in range(4)]
taken = sorted(i for part in slide for i in part)
print(f"{len(taken)} samples taken, {len(set(taken))} different ones")

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert [i for i in set(taken) if taken.count(i) == 2] == [B // 4, 2 * B // 4, 3 * B // 4]

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 3. The program
#
# What does your program do on each rank? It keeps the weights and the velocity (the running sum of gradients of
# lecture 2, which momentum needs). In each step it computes the gradient of its own samples, calls the
# library's all-reduce, divides by the number of ranks, and updates. You never send weights. All ranks start with
# the same ones and add the same gradient, so they stay equal.

# %% slideshow={"slide_type": "fragment"}
# %%writefile train.py
import numpy as np
from passes import loss_and_gradient


def train(comm, w, steps, rate, momentum):
    """Weights and own losses; steps: this rank's samples of each step."""
    velocity, losses = np.zeros_like(w), []
    for x, y in steps:
        loss, own = loss_and_gradient(w, x, y)
        mean = np.empty_like(own)
        comm.Allreduce(own, mean)  # the sum over all ranks, on all ranks
        mean /= comm.size
        velocity = momentum * velocity + mean
        w = w - rate * velocity
        losses.append(loss)
    return w, losses


# %% [markdown] slideshow={"slide_type": "fragment"}
# The program doesn't choose its samples: `shares` does this for all ranks. For each step it draws
# 1024 samples *once*, and then cuts them into equal parts. `ringside.run` starts $p$ ranks and
# collects what they return. From a list of arguments, each rank gets its own entry.


# %% slideshow={"slide_type": "fragment"}
def shares(p, num_steps=6):
    """For each rank, a list of its samples of each step: 1024 / p of them."""
    rng = np.random.default_rng(4)
    of_rank = [[] for _ in range(p)]
    for _ in range(num_steps):
        drawn = rng.permutation(len(x))[:1024]
        for rank, part in enumerate(np.split(drawn, p)):
            of_rank[rank].append((x[part], y[part]))
    return of_rank


def trained(p, program="train.py:train", weights=w0):
    """Train on p ranks; the result, and the mean loss of each step."""
    args = [(weights, steps, 0.05, 0.9) for steps in shares(p)]
    result = ringside.run(program, p, args)
    return result, np.mean([losses for _, losses in result.values], axis=0)


# %% slideshow={"slide_type": "fragment"}
one, one_losses = trained(1)
sixteen, sixteen_losses = trained(16)
print("losses on  1 rank: ", np.round(one_losses, 4))
print("losses on 16 ranks:", np.round(sixteen_losses, 4))
print(f"largest difference {abs(one_losses - sixteen_losses).max():.0e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your losses agree to $10^{-12}$. They don't agree bit for bit, because a sum in another order rounds
# differently. Every data-parallel program must pass this test: *the number of ranks changes nothing but
# rounding.* All sixteen copies of the weights are equal bit for bit, because each rank got the same numbers from
# the all-reduce.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert abs(one_losses - sixteen_losses).max() < 1e-12
assert all((w == sixteen.values[0][0]).all() for w, _ in sixteen.values)
assert abs(one.values[0][0] - sixteen.values[0][0]).max() < 1e-12
assert one_losses[-1] < one_losses[0]

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in PyTorch.** Autograd finds the gradients, and an optimizer keeps the velocity. Your
# part stands between `backward()` and `step()`. The first parameter is called `group` here, so
# Ringside starts `torch.distributed` and hands every array over as a tensor. Messages travel
# through the same simulated links, and their bytes are counted as before. (The program sends each
# matrix by itself. Puzzle 1 asks what that costs.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile network_torch.py
import torch
import torch.distributed as dist


def loss_of(layers, x, y):
    """Mean cross-entropy; layers are the weight matrices."""
    for W in layers[:-1]:
        x = torch.relu(x @ W)
    return torch.nn.functional.cross_entropy(x @ layers[-1], y)


def average(gradient):
    """Replace a gradient by its mean over all ranks."""
    dist.all_reduce(gradient)
    gradient /= dist.get_world_size()


# %% slideshow={"slide_type": "fragment"}
# %%writefile train_torch.py
import torch
from net import matrices
from network_torch import average, loss_of


def train(group, w, steps, rate, momentum):
    layers = [W.clone().requires_grad_() for W in matrices(w)]
    optimizer = torch.optim.SGD(layers, rate, momentum)
    losses = []
    for x, y in steps:
        loss = loss_of(layers, x, y)
        optimizer.zero_grad()
        loss.backward()
        for W in layers:
            average(W.grad)
        optimizer.step()
        losses.append(loss.item())
    return torch.cat([W.detach().flatten() for W in layers]), losses


# %% slideshow={"slide_type": "fragment"}
torch_run, torch_losses = trained(4, "train_torch.py:train")
mpi_run, mpi_losses = trained(4)
for name, run in (("MPI", mpi_run), ("torch", torch_run)):
    sent = run.timeline.bytes_matrix.sum(axis=1)
    print(f"{name:5} each rank sends {sent[0]:,} bytes")
print(f"largest difference of a loss {abs(torch_losses - mpi_losses).max():.0e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Does torch send more? No, and you can compute what each rank sends:
#
# | | bytes |
# |---|---|
# | a gradient, 8160 numbers | 65,280 |
# | in a step: $2\cdot\frac34$ times as many, by a ring of four ranks (lecture 3) | 97,920 |
# | in six steps | 587,520 |
#
# The losses agree to $10^{-12}$ again.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
for run in (mpi_run, torch_run):
    assert set(run.timeline.bytes_matrix.sum(axis=1)) == {587_520}
assert len(w0) == 8160 and w0.nbytes == 8 * len(w0) == 65_280
assert 2 * 3 * w0.nbytes // 4 == 97_920 and 6 * 97_920 == 587_520
assert abs(torch_losses - mpi_losses).max() < 1e-12

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 4. One step is a superstep
#
# What sets the time of your step? The program is *bulk-synchronous parallel*, or BSP [2]. In a *superstep* each
# rank computes on its own, then all exchange, and then comes a barrier: no rank starts the next superstep before
# all have ended this one. An all-reduce is exchange and barrier in one, since no rank can have the sum before the
# last rank has given its part. So the time of a superstep is
#
# $$T = \max_r\,(\text{computation of rank } r) + T_\text{comm} .$$
#
# Look at the maximum. A rank that is slower than the others is called a *straggler*, and in every step all
# others wait for it. In the program below, `ringside.compute` tells the virtual clock how long a rank computes.
# You run it on the *textbook* machine of lecture 1, where a message takes 1 µs, and 1 ns more for each byte.

# %% slideshow={"slide_type": "fragment"}
# %%writefile straggler.py
import numpy as np

import ringside


def steps(comm, slow):
    gradient, total = np.ones(8160), np.empty(8160)
    for _ in range(3):
        is_slow = comm.rank == 2
        ringside.compute(seconds=400e-6 * (slow if is_slow else 1), phase="gradient")
        comm.Allreduce(gradient, total)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/straggler",
    "One of 4 ranks needs 1.5 times as long for its gradient, the others need 400 "
    "µs. For what share of their time do the three fast ranks compute?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
even = ringside.run("straggler.py:steps", 4, (1.0,))
uneven = ringside.run("straggler.py:steps", 4, (1.5,))
busy = 3 * 400e-6 / uneven.makespan_s
print(f"even {even.makespan_s * 1e6:.0f} µs, uneven {uneven.makespan_s * 1e6:.0f} µs")
print(f"a fast rank computes for {busy:.0%} of the time")
reveal("04/straggler", 100 * busy)

# %% slideshow={"slide_type": "subslide"}
uneven.timeline

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 1. Three supersteps on four ranks. Each row is a rank, and time runs to the right. Rank 2
# computes for 600 µs in each superstep, the others for 400 µs. Then the others wait for rank 2, and
# all ranks exchange.*
#
# How long do your fast ranks compute?
#
# | in a superstep | |
# |---|---|
# | rank 2 computes | 600 µs |
# | the all-reduce | 104 µs |
# | together | 704 µs |
# | of which a fast rank computes | 400 µs, 57 % |
#
# In data parallelism a rank is idle in three cases: while gradients travel, while it waits for a straggler, and
# while it waits for its samples.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert round(100 * busy) == 57 and round(uneven.makespan_s / 3 * 1e6) == 704 == 600 + 104
assert np.isclose(uneven.makespan_s - even.makespan_s, 3 * 200e-6)

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 5. How far does it scale?
#
# What do you gain from more GPUs? That depends on what you keep. In **strong scaling** the batch is fixed, and
# $p$ ranks share it, so each has $B/p$ samples. In **weak scaling** the samples of a rank are fixed, and the
# batch grows with $p$. For the GPT of section 1 your batch has
#
# | | 32 GPUs | 256 GPUs |
# |---|---|---|
# | strong scaling | 256 sequences | 256, one on each GPU |
# | weak scaling, 8 on each GPU | 256 sequences | 2048 |
#
# The communication is an all-reduce of $n$ bytes in a ring. Its time is known from lecture 3:
#
# $$T_\text{comm} = 2(p-1)\,\alpha + 2\,\frac{p-1}{p}\,n\,\beta .$$
#
# What does this time depend on? The batch isn't in the formula. The number of ranks is, but the second term,
# which is by far the larger one here, hardly grows with it, from $n\beta$ for 2 ranks to $2n\beta$ for very many.
# So *the time of communication is nearly independent of the batch and of $p$*. That is why data parallelism is
# popular. It is also why strong scaling ends: if you add ranks, each computes for a shorter time, but it
# communicates for as long as before.

# %% slideshow={"slide_type": "subslide"}
parameters = 1.652e9  # counted in lecture 0
n = 2 * parameters  # two bytes a number (bf16, a 16-bit format)
alpha, beta = machine.alpha_s, machine.beta_s_per_byte


def communication_s(p):
    return 2 * (p - 1) * alpha + 2 * (p - 1) / p * n * beta


for p in (8, 32, 128, 512):
    print(f"{p:3} GPUs: {communication_s(p):.3f} s in each step")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/strong",
    "256 sequences take 57 s on one GPU, and the all-reduce takes about half a "
    "second. How many times faster are 256 GPUs with one sequence each?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
sequence_s = step_flops(1) / machine.flop_per_s


def strong(p, batch=256):
    return batch * sequence_s / (batch / p * sequence_s + communication_s(p))


for p in (8, 32, 64, 128, 256):
    print(f"{p:3} GPUs: {strong(p):5.1f} times as fast, efficiency {strong(p) / p:.0%}")
reveal("04/strong", strong(256))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your 256 GPUs are only 76 times as fast as one. Look at one GPU with one sequence:
#
# | | |
# |---|---|
# | it computes | 0.22 s |
# | it communicates | 0.53 s |
# | *efficiency* (speedup over number of GPUs) | 30 % |
#
# You can't use more than 256 at all: $p \le B$, because this method can't cut a sequence.

# %% [markdown] slideshow={"slide_type": "subslide"}
# In weak scaling, each GPU keeps its 8 sequences, so it computes for 1.79 s with any number of GPUs. Can you
# trust the formula? Check it on the GPT's own program. Here is its step, behind the model and the optimizer's
# state. All gradients lie in one array, `flat`, and you choose one all-reduce (`"once"`):

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures.ledger import PROGRAM

print(textwrap.dedent("\n".join(PROGRAM.read_text().splitlines()[-13:])))

# %% [markdown] slideshow={"slide_type": "fragment"}
# `course_step` runs this step on four ranks, from the shapes of its arrays alone, and records a *trace*: the
# list of all computations and messages. `widen` makes a trace of more GPUs from it, in which every GPU does the
# same. At last `ringside.replay` carries out the trace message by message on the model of the cluster. In this
# model the four GPUs of a node share one network port, as they do on Zaratan.

# %% slideshow={"slide_type": "fragment"}
traced = course_step(4, reduce="once")  # one all-reduce after the backward pass
replayed = {}
for p in (8, 32, 128):
    replayed[p] = ringside.replay(widen(traced.trace, p), machine).makespan_s
    formula = 8 * sequence_s + communication_s(p)
    print(f"{p:3} GPUs: replayed {replayed[p]:.3f} s, formula {formula:.3f} s")

# %% slideshow={"slide_type": "subslide"} tags=["figure", "hide-input"]
gpus = 2 ** np.arange(0, 10)
weak = [p * 8 * sequence_s / (8 * sequence_s + (p > 1) * communication_s(p)) for p in gpus]
figure, axis = plt.subplots(figsize=(7.5, 4.2))
axis.plot(gpus, gpus, color=GREY, linestyle=":", label="ideal")
axis.plot(gpus, weak, "-", color=COMPUTE, label="weak: 8 sequences a GPU")
axis.plot(list(replayed), [p * 8 * sequence_s / t for p, t in replayed.items()], "s",
          color=COMPUTE, label="weak, replayed")  # fmt: skip
axis.plot(gpus[:9], [strong(p) for p in gpus[:9]], "o-", color=COMMUNICATION,
          label="strong: 256 sequences in all")  # fmt: skip
axis.set(xscale="log", yscale="log", xlabel="GPUs", ylabel="sequences a second, one GPU = 1")
axis.set_xticks(gpus, gpus)
axis.minorticks_off()
axis.legend(frameon=False)
show(figure, "Speedup against the number of GPUs on logarithmic axes. The weak curve runs parallel "
     "to the ideal line, a little below it, up to 512 GPUs, and three replayed points lie on it. "
     "The strong curve leaves it at about 32 GPUs and ends at 256 GPUs with a speedup of "
     "76.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Sequences a second of the course's GPT on a model of Zaratan, as a multiple of one GPU.
# The curves are computed with the formula, and the squares are replayed. Both curves use the time of
# a link between nodes for any number of GPUs. On 2 and 4 GPUs this is too slow: these GPUs share a
# node, and the links inside a node are faster. On 4 GPUs, the weak curve stands for a step of 2.19 s,
# and a replayed step takes 1.84 s.*
#
# You see the curve of strong scaling bend, since the computation of a GPU shrinks and its communication doesn't.
# The curve of weak scaling stays parallel to the ideal line, at 77 % of it on 512 GPUs. You pay with the batch,
# which then has 4096 sequences.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
shown = PROGRAM.read_text().splitlines()[-13:]
assert shown[0].lstrip().startswith("tokens = ") and shown[-1] == "    return len(flat)"
assert round(256 * sequence_s) == 57 and 0.4 < communication_s(8) < communication_s(512) < 0.55
assert round(strong(256)) == 76 and round(100 * strong(256) / 256) == 30
assert machine.ranks_per_node == 4 and round(8 * sequence_s, 2) == 1.79
assert round(ringside.replay(traced.trace, machine).makespan_s, 2) == 1.84  # inside a node
assert round(8 * sequence_s + communication_s(4), 2) == 2.19
assert round(sequence_s, 2) == 0.22 and round(communication_s(256), 2) == 0.53
assert round(100 * weak[-1] / 512) == 77 and 8 * 512 == 4096
for p, seconds in replayed.items():
    assert abs(seconds / (8 * sequence_s + communication_s(p)) - 1) < 0.01

# %% [markdown] slideshow={"slide_type": "subslide"}
# **How much work does a byte need?** While a byte crosses the network, your GPU could do $137\cdot10^{12}\,\beta$
# operations (FLOP). If you have more work than that for every byte, the computation takes longer than the
# communication. `work_to_hide` tells you how many FLOP a number of bytes needs. Later lectures use it for other
# schemes.

# %% slideshow={"slide_type": "fragment"}
per_byte = work_to_hide(1)
step_bytes = 2 * 31 / 32 * n
sequences = work_to_hide(step_bytes) / step_flops(1)
print(f"{per_byte:,.0f} operations for each byte between nodes")
print(f"{sequences:.1f} sequences a GPU take as long as the all-reduce on 32 GPUs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You need 10,960 FLOP a byte. With 2.3 sequences a GPU, computation and communication take equally long. With your
# 8 sequences, the communication takes 29 % as long as the computation. Remember the principle: *samples per GPU pay
# for communication.* More samples a GPU mean more computation and not one byte more to send.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert round(per_byte) == 10_960 and round(sequences, 1) == 2.3
assert round(100 * communication_s(32) / (8 * sequence_s)) == 29

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 6. Three mistakes that no error message reports
#
# Your data-parallel program can have one of these mistakes and run, and its loss falls. For each of them you need
# a test that finds it.
#
# **Uneven parts.** Ten samples on four ranks make parts of 3, 3, 2 and 2. Is the mean of the four means the mean of
# ten samples? No, because a sample of a small part counts more. Multiply each mean by $b_r/B$ as in section 2, and
# it is right. A rank may even have no sample at all. Its mean would then be zero divided by zero, so let it send
# zeros instead.

# %% slideshow={"slide_type": "fragment"}
parts = np.split(np.arange(10), [3, 6, 8])
means = [loss_and_gradient(w0, x[part], y[part])[1] for part in parts]
whole = loss_and_gradient(w0, x[:10], y[:10])[1]
weighted = sum(len(part) / 10 * mean for part, mean in zip(parts, means))
for name, gradient in (("mean of means", sum(means) / 4), ("weighted", weighted)):
    error = np.linalg.norm(gradient - whole) / np.linalg.norm(whole)
    print(f"{name:14} relative error {error:.1e}")
mean_error = np.linalg.norm(sum(means) / 4 - whole) / np.linalg.norm(whole)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your mean of means is wrong by 10 %, the weighted mean only by rounding. Test it: compare the gradient of several
# ranks with that of one rank, for a number of samples that the number of ranks doesn't divide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Every rank has its own random order.** All ranks must draw the *same* permutation, with the same
# seed, and then take different parts of it. Suppose that each of sixteen ranks shuffles with a seed
# of its own, and takes its sixteenth of *its own* order.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/unseen",
    "Sixteen ranks shuffle 1280 samples with different seeds, and each takes one "
    "sixteenth of its own order. What share of the samples does no rank see in this "
    "epoch (one pass over the data)?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
orders = [np.random.default_rng(rank).permutation(1280) for rank in range(16)]
seen = {i for rank, own in enumerate(orders) for i in np.split(own, 16)[rank]}
unseen = 1 - len(seen) / 1280
print(f"{unseen:.1%} of the samples, expected {(15 / 16) ** 16:.1%}")
reveal("04/unseen", 100 * unseen)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your ranks miss more than a third of the data, and see other samples several times. A rank misses a sample with
# probability 15/16, so all sixteen miss it with $(15/16)^{16}$, which is 35.6 %. The loss falls all the same. You
# find it by the test of section 2: put all parts of an epoch together and sort.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert abs(weighted - whole).max() < 1e-12 and round(100 * mean_error) == 10
assert round(100 * (15 / 16) ** 16, 1) == 35.6 and 0.33 < unseen < 0.39

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Weights are averaged instead of gradients.** What if each rank steps with its own gradient, and then you
# average the weights? For plain SGD this is the same, since the update is linear: the mean of $w - \eta g_r$ is
# $w - \eta g$. Even momentum survives, because the velocity is a linear function of the gradients too. (But
# every rank now has a velocity of its own, so you can't continue a run from the state of one rank.) What about
# *Adam*, the optimizer of many language models?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/adam",
    "Four ranks take one step of Adam on their own gradients and average the "
    "weights. Is that the step that Adam takes with the mean gradient?",
    choices=["yes, to rounding", "no"],
)


# %% slideshow={"slide_type": "fragment"}
def first_adam_step(gradient):
    """The first step of Adam: its two moments are the gradient and its square."""
    return -1e-3 * gradient / (abs(gradient) + 1e-8)


parts = np.split(np.arange(64), 4)
gradients = [loss_and_gradient(w0, x[part], y[part])[1] for part in parts]
mean_of_steps = np.mean([first_adam_step(g) for g in gradients], axis=0)
step_of_mean = first_adam_step(np.mean(gradients, axis=0))
apart = np.linalg.norm(mean_of_steps - step_of_mean) / np.linalg.norm(step_of_mean)
print(f"relative difference {apart:.0%}")
reveal("04/adam", "no" if apart > 1e-9 else "yes, to rounding")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your two steps differ by 66 %. Adam divides each gradient by its size, so the mean of the quotients is not the
# quotient of the means. In general, *send what adds up.* Gradients do. Apply a function that isn't linear after
# the sum. You will meet another example: the *clipping* of gradients, which shortens a gradient that is longer
# than a given limit.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert round(100 * apart) == 66

# %% [markdown] slideshow={"slide_type": "notes"}
# **Teachers.** Let groups of three write the test that finds each mistake, ten minutes, before they
# see the text. The usual surprise is that averaging weights is right for momentum: let somebody
# prove it on the board. If they ask "why not average weights only from time to time", you are at
# local SGD, which a later unit treats.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 7. A learning rate for a batch that is $k$ times as large
#
# Weak scaling gives you larger batches. Which learning rate do they need? Compare $k$ steps of small
# batches with one step of a batch that holds the same samples. Let $w_j$ be the weights after $j$
# small steps, and $g_j(w)$ the gradient of small batch number $j$ at the weights $w$. For plain SGD,
# the $k$ small steps together are
#
# $$w_k = w_0 - \eta \sum_{j=0}^{k-1} g_j(w_j),$$
#
# and one large step with the learning rate $\hat\eta$ is
#
# $$\hat w_1 = w_0 - \hat\eta\, \frac1k \sum_{j=0}^{k-1} g_j(w_0) .$$
#
# The two are equal if $\hat\eta = k\,\eta$ and if $g_j(w_j) \approx g_j(w_0)$, that is, if the
# gradient hardly changes during these $k$ steps. This is the **linear scaling rule** [3]: *$k$ times
# the batch, $k$ times the learning rate.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# The condition is not always met. At the start of training the weights are random and the gradient
# changes fast. So one starts with $\eta$ and raises the rate in a straight line to $k\,\eta$ during
# the first epochs. (An *epoch* is one pass over all samples.) This is called **warm-up** [3].
#
# Do you need it? Compare batches of 32 and $\eta = 0.04$ with batches of 256 (16 ranks with 16 samples each), so
# $k = 8$. All runs last 30 epochs, so they see the same number of samples, and the warm-up takes the first ten.
# Since the number of ranks changes nothing but rounding, you can run this in one process. A single run may be good
# or bad by luck, so there are eight of each kind, which begin with different random weights.

# %% slideshow={"slide_type": "fragment"}
EPOCHS, RATE, K = 30, 0.04, 8


def run(batch_size, rates, seed):
    """Share of the test digits that are read right after training with these rates."""
    w, velocity = start(seed), 0.0
    rng = np.random.default_rng([4, seed])
    rates = iter(rates)
    for _ in range(EPOCHS):
        for part in np.split(rng.permutation(1280), 1280 // batch_size):
            velocity = 0.9 * velocity + loss_and_gradient(w, x[part], y[part])[1]
            w = w - next(rates) * velocity
    return (forward(w, x_test)[1].argmax(axis=1) == y_test).mean()


# %% slideshow={"slide_type": "fragment"}
steps = EPOCHS * 1280 // 256
climb = np.linspace(RATE, K * RATE, steps // 3)  # a third of the run
KINDS = {
    "batch 32": (32, [RATE] * (EPOCHS * 40)),
    "batch 256, same rate": (256, [RATE] * steps),
    "batch 256, 8 times the rate": (256, [K * RATE] * steps),
    "batch 256, 8 times, warm-up": (256, [*climb, *[K * RATE] * (steps - len(climb))]),
}
for name, (_, rates) in KINDS.items():
    print(f"{name:28} {len(rates):5} steps")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/ruined",
    "Eight runs take batches of 256 with 8 times the learning rate from the first "
    "step on. How many of them end with less than 90 % of the digits read right?",
    unit="runs",
)

# %% slideshow={"slide_type": "fragment"}
accuracy = {
    name: np.array([run(size, rates, seed) for seed in range(8)])
    for name, (size, rates) in KINDS.items()
}
for name, shares_right in accuracy.items():
    print(f"{name:28}", *(f"{100 * right:5.1f}" for right in sorted(shares_right)))
ruined = {name: int((right < 0.9).sum()) for name, right in accuracy.items()}

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 2.8))
for row, right in enumerate(accuracy.values()):
    axis.plot(100 * right, np.full(8, row), "o", color=COMPUTE, alpha=0.5, markersize=9)
axis.set_yticks(range(4), list(accuracy))
axis.invert_yaxis()
axis.set(xlabel="test digits read right (%)", xlim=(0, 102))
axis.grid(axis="x", alpha=0.3)
show(figure, "Eight points in each of four rows. Batches of 32: all at about 99 %. Batches of 256 "
     "with the same rate: all at about 97 %. With 8 times the rate: scattered from 10 to 98 %. "
     "With warm-up: all between 97 and 99 %.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("04/ruined", ruined["batch 256, 8 times the rate"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Test accuracy after 30 epochs. Each row is a kind of run and has eight points, one for
# each run. A darker point is several runs with nearly the same accuracy.*
#
# Read the rows from above. With the same rate, your large batches take an eighth of the steps, and all eight runs
# stay behind those of small batches. With eight times the rate from the first step on, several runs are ruined,
# because the weights jump so far that many units of the network give zero for every sample. Such a unit gets no
# gradient and never comes back. With a warm-up the runs come through. On average they are better than with the
# unscaled rate, and a little worse than the small batches. This remaining difference is the *large-batch gap*.
#
# Don't take the warm-up as a guarantee. Change `RATE` to 0.05 and run the cells again, and you lose some runs in
# spite of it. Beyond some $k$ the rule ends, for every network.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
base, same, scaled, warmed = accuracy.values()
assert base.min() > 0.97 and same.max() < base.min() and same.mean() < base.mean() - 0.005
assert 3 <= ruined["batch 256, 8 times the rate"] <= 7 and (scaled < 0.5).sum() >= 2
assert warmed.min() > 0.9 and same.mean() < warmed.mean() < base.mean()
assert len(climb) / steps * EPOCHS == 10
assert len(KINDS["batch 32"][1]) == 8 * steps and RATE == 0.04

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 8. What was published
#
# **Eight GPUs in one box.** Fit the formula of section 5 to TensorFlow's speeds on 2 and 4 GPUs of 2017.
# How well does it predict 8? It depends on the network: [TensorFlow](systems.md#tensorflow) has the result.
#
# **ImageNet on 256 GPUs.** Does the rule hold for a real network? Goyal and others (2017) [3] trained ResNet-50
# with batches of 8192, 32 images on each GPU. Their learning rate was 0.1 for 256 images, and they scaled it
# linearly:
#
# | batches | wrong answers |
# |---|---|
# | small | 23.60 % ± 0.12 |
# | large, with warm-up | 0.14 points more |
# | large, without | 1.2 points more |
#
# They also ask how fast the links must be. The gradients have 100 MB, the backward pass takes 120 ms, and each GPU
# sends nearly twice as many bytes as the gradients have.

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
rate = 0.1 * 8192 / 256
needed = 2 * 100e6 / 0.120 * 8 / 1e9  # 8 bits a byte
print(f"learning rate {rate:.1f}; to hide the all-reduce: {needed:.1f} Gbit/s")
assert round(2 * 100e6 / 0.125 * 8e-9, 1) == 12.8  # as printed in the paper

# %% [markdown] slideshow={"slide_type": "fragment"}
# By the rule you get a learning rate of 3.2, and your links must carry 13.3 Gbit/s. (The paper prints 12.8, since
# it divides by 125 ms.) Keep the method: divide the bytes by the time in which they must be sent, as `work_to_hide`
# does. In lecture 5 you use this time, and send gradients *during* the backward pass.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
goyal = {name: value[0] for name, value in table(LECTURES / "data" / "goyal_2017.csv").items()}
assert (goyal["baseline"], goyal["baseline_spread"]) == (23.60, 0.12)
assert (goyal["with_warmup"], goyal["without_warmup"]) == (0.14, 1.2)
assert round(2 * 100e6 / 125e-3 * 8e-9, 1) == 12.8
assert round(rate, 1) == 3.2 and round(needed, 1) == 13.3 and 32 * 256 == 8192

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. The ledger
#
# How long do 32 GPUs train the course's GPT? You replayed their step, with one all-reduce after the backward
# pass, in section 5. Now it goes into the course's *ledger*, a table to which most lectures add a line. In it,
# *exposed* is the time in which a GPU waits for communication and computes nothing.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "04/days",
    "One GPU needs 127 days. How many days do 32 GPUs need, with one all-reduce "
    "after each backward pass?",
    unit="days",
)

# %% slideshow={"slide_type": "fragment"}
step32_s = replayed[32]
days32 = 100e9 / (32 * tokens) * step32_s / 86400
print(f"{days32:.1f} days")
reveal("04/days", days32)

# %% slideshow={"slide_type": "fragment"}
ledger("04", gpus=32, step_s=step32_s, exposed_s=step32_s - step_s,
       memory_bytes=max(memory["peak"] for memory in traced.memory))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# Your 127 days have become 5.1, and not the 4.0 of section 1. Why? Of each step of 2.30 s, 0.51 s are exposed, so
# the GPUs compute for 78 % of the time, as the formula of section 5 says. The memory of a GPU is what it was,
# 33.9 GB. Data parallelism saves you time and no memory, because every GPU holds everything. Lecture 5 hides most
# of the exposed half second.

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
assert round(days32, 1) == 5.1 and round(step32_s, 2) == 2.30
assert round(step32_s - step_s, 2) == 0.51 and round(100 * step_s / step32_s) == 78
peak = max(memory["peak"] for memory in traced.memory)
assert round(peak / 1e9, 1) == 33.9 and round(machine.memory_bytes / 1e9, 1) == 42.4
assert abs(step32_s / (8 * sequence_s + communication_s(32)) - 1) < 0.01

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 10. Where it breaks
#
# **The batch.** There are at most as many ranks as samples, $p \le B$. Long before that, a GPU with
# few samples multiplies thin matrices and doesn't reach its rate (the roofline of lecture 2). Our
# formula assumes that it does, so the right end of the strong curve in figure 2 is too optimistic.
#
# **Learning.** Weak scaling makes the batch grow. Beyond some size, a batch that is twice as large
# no longer halves the number of steps that the training needs.
#
# **Latency.** A ring of 512 ranks costs you $2(p-1) = 1022$ times $\alpha$. Lecture 3 has algorithms with fewer
# steps.
#
# **Stragglers.** The more ranks, the more likely it is that one of them is late in any given step.
#
# **Memory.** If the network, its gradients and the optimizer's state don't fit one GPU, data
# parallelism alone can't help. [Lecture 8](08_model_versus_data.ipynb) and
# [lecture 9](09_pipeline_bubbles.ipynb) cut the network itself.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
largest = 512
assert 2 * (largest - 1) == 1022

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11. Three puzzles
#
# Each puzzle is a program that computes the right thing and misses a target. Change the program,
# run both cells again, and look at the timeline. A puzzle takes about ten minutes.
#
# **Puzzle 1.** A network has sixty small layers. The program calls an all-reduce for each of them.
# Bring the step from 374 µs below 25 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile sixty.py
import numpy as np


def mean_gradients(comm, gradients):
    """The mean over all ranks of each of sixty gradients, as one array."""
    rows = []
    for gradient in gradients:
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        rows.append(total / comm.size)
    return np.stack(rows)


# %% slideshow={"slide_type": "fragment"}
sixty = np.random.default_rng(0).normal(size=(4, 60, 20))  # ranks, layers, weights
args = [(list(own),) for own in sixty]
mean = sixty.mean(axis=0)
first = puzzle("sixty.py:mean_gradients", 4, args, expected=mean, at_most_us=25,
               hint="Which term of the cost do you pay sixty times?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Put the sixty gradients into one array and call one all-reduce. The bytes stay the same, and the
# latency of six messages is paid once instead of sixty times.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
Path("sixty_solved.py").write_text("""\
import numpy as np


def mean_gradients(comm, gradients):
    together = np.stack(gradients)
    total = np.empty_like(together)
    comm.Allreduce(together, total)
    return total / comm.size
""")
assert not first.solved and round(first.time_us) == 374
assert puzzle("sixty_solved.py:mean_gradients", 4, args, expected=sixty.mean(axis=0),
              at_most_us=25, draw=False).solved  # fmt: skip

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Puzzle 2.** Sixteen sentences have 1 to 16 words, and a word takes 1 µs. Each rank gets four
# sentences. Although all ranks have the same number of sentences, some ranks wait. Bring the step
# from 64 µs below 42 µs. All four ranks have to take part.

# %% slideshow={"slide_type": "fragment"}
# %%writefile sentences.py
import ringside


def step(comm, lengths):
    """Number of words of all sentences, after working on each word once."""
    mine = lengths[4 * comm.rank : 4 * comm.rank + 4]
    for words in mine:
        ringside.compute(seconds=words * 1e-6, phase="gradient")
    return comm.allreduce(sum(mine))


# %% slideshow={"slide_type": "fragment"}
lengths = list(range(1, 17))
second = puzzle("sentences.py:step", 4, (lengths,), expected=136, at_most_us=42,
                hint="How many words would each rank have at best?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# There are 136 words, 34 for each rank. Give each rank two pairs, each of a short and a long
# sentence: rank $r$ takes the sentences at places $r$, $7-r$, $8+r$ and $15-r$. You
# could also deal them out one after another, as cards are dealt. That is better than blocks, but
# the last rank gets 40 words.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
Path("sentences_solved.py").write_text("""\
import ringside


def step(comm, lengths):
    r = comm.rank
    mine = [lengths[place] for place in (r, 7 - r, 8 + r, 15 - r)]
    for words in mine:
        ringside.compute(seconds=words * 1e-6, phase="gradient")
    return comm.allreduce(sum(mine))
""")
assert not second.solved and round(second.time_us) == 64
assert sum(lengths) == 136 == 4 * 34 and sum(lengths[3::4]) == 40
assert puzzle("sentences_solved.py:step", 4, (lengths,), expected=136, at_most_us=42,
              draw=False).solved  # fmt: skip

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Puzzle 3.** Rank 0 reads the samples of all ranks and scatters them. Reading a sample takes
# 25 µs. Bring the step from 527 µs below 250 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile reading.py
import numpy as np

import ringside


def read(first, last):
    """Samples number first to last - 1, from a file that every rank can open."""
    ringside.compute(seconds=25e-6 * (last - first), phase="read")
    return np.arange(first, last, dtype=float)


def step(comm, batch_size):
    """Sum of all samples, as a stand-in for a gradient."""
    b = batch_size // comm.size
    mine = np.empty(b)
    everything = read(0, batch_size) if comm.rank == 0 else None
    comm.Scatter(everything, mine)
    ringside.compute(seconds=30e-6 * b, phase="gradient")
    return comm.allreduce(mine.sum())


# %% slideshow={"slide_type": "fragment"}
third = puzzle("reading.py:step", 4, (16,), expected=120.0, at_most_us=250,
               hint="Who else could read?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Every rank reads its own samples: `mine = read(b * comm.rank, b * (comm.rank + 1))`, and nothing is
# scattered. This is how all frameworks do it. They also read the next batch while this one is
# computed, so that the reading is hidden as long as it is faster than the computing.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
program = Path("reading.py").read_text()
begin, end = program.index("    mine = np.empty"), program.index("    ringside.compute(seconds=30")
own = "    mine = read(b * comm.rank, b * (comm.rank + 1))\n"
Path("reading_solved.py").write_text(program[:begin] + own + program[end:])
assert not third.solved and round(third.time_us) == 527
assert puzzle("reading_solved.py:step", 4, (16,), expected=120.0, at_most_us=250, draw=False).solved

# %% [markdown] slideshow={"slide_type": "notes"}
# **Teachers.** In puzzle 1 some will use sixty non-blocking all-reduces. That helps, and it is a good
# bridge to lecture 5: let them find out why it doesn't reach the target. In puzzle 2 ask for the
# best possible time before anybody types. Puzzle 3 is the input pipeline. Let the class compute what
# eight P100 read each second in section 8, when each picture has $224 \cdot 224$ pixels in three colours.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 12. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** Three ranks have 1, 7 and 3 samples. By which numbers do you multiply their mean
# gradients before you add them up?
#
# <details><summary>Answer</summary>
#
# By 1/11, 7/11 and 3/11, the shares of the samples. With 1/3 for each, the single sample of the
# first rank would count seven times as much as a sample of the second.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
cuts = np.split(np.arange(11), [1, 8])
means = [loss_and_gradient(w0, x[part], y[part])[1] for part in cuts]
combined = sum(share * mean for share, mean in zip((1 / 11, 7 / 11, 3 / 11), means))
assert np.allclose(combined, loss_and_gradient(w0, x[:11], y[:11])[1], rtol=0, atol=1e-12)
assert np.isclose((1 / 3) / ((1 / 3) / 7), 7)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A step has 400 ms of computation on one GPU for its 64 samples. The all-reduce takes
# 20 ms on any number of GPUs. Up to how many GPUs does strong scaling keep an efficiency of at least
# one half? And weak scaling with 64 samples a GPU?
#
# <details><summary>Answer</summary>
#
# Strong scaling: the efficiency is $\frac{400/p}{400/p + 20}$, and it is one half where $400/p = 20$,
# at 20 GPUs. Weak scaling: it is $400/420$, or 95 %, on any number of GPUs, as long as the all-reduce
# stays at 20 ms.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
efficiency = {p: (400 / p) / (400 / p + 20) for p in range(1, 65)}
assert max(p for p in efficiency if efficiency[p] >= 0.5) == 20
assert round(100 * 400 / 420) == 95

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** A colleague drops the last samples of each epoch, so that all ranks have the same
# number. There are 1437 samples, 16 ranks and 20 samples a rank in each step. How many samples are
# dropped? Is that a mistake?
#
# <details><summary>Answer</summary>
#
# A step takes 320 samples, so there are 4 whole steps, and 157 samples are dropped. If a new
# random order is drawn in each epoch, other samples are dropped each time, and it is a common and
# harmless choice. Without a new order, the same 157 samples are never used. It also makes
# the result depend on the number of ranks, so the test "equal to one rank" must drop the same ones.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
samples_of_a_step = 16 * 20
whole_steps, dropped = divmod(1437, samples_of_a_step)
assert (samples_of_a_step, whole_steps, dropped) == (320, 4, 157)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** You change from 8 to 64 GPUs and keep the samples of a GPU. With 8 GPUs your learning
# rate was 0.2. Which rate do you try, what do you do in the first epochs, and by what factor does the
# number of steps of an epoch change?
#
# <details><summary>Answer</summary>
#
# The batch is 8 times as large, so try 1.6, and climb from 0.2 to 1.6 in a straight line during the
# first epochs. An epoch has an eighth of the steps. Compare the accuracy with the old one before
# you trust it, from more than one seed.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
k = 64 / 8
assert np.isclose(0.2 * k, 1.6) and 1 / k == 0.125

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** In section 9 the all-reduce takes 0.51 s on 32 GPUs. Somebody proposes 16 sequences a
# GPU instead of 8. What happens to the exposed time of a step, to the efficiency, and to the days?
#
# <details><summary>Answer</summary>
#
# The exposed time stays 0.51 s: it depends on the parameters and not on the samples. The computation
# doubles to 3.58 s, so the efficiency rises from 78 to 87 %, and 100 billion tokens take 4.5 days
# instead of 5.1. But the batch is twice as large, so it isn't certain that 100 billion tokens are
# still enough, and the activations of 16 sequences need more memory.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
longer_s = 2 * step_s + (step32_s - step_s)
assert round(2 * step_s, 2) == 3.58 and round(100 * 2 * step_s / longer_s) == 87
assert round(100e9 / (64 * tokens) * longer_s / 86400, 1) == 4.5

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. Your turn
#
# The assignment `a04_data_parallel` asks for what this lecture left out: parts for any number of
# samples and ranks, a step for uneven parts with losses and counted bytes, the same in PyTorch, the
# learning rate of every step of a run. As an extra, each rank cuts its samples into *microbatches*,
# computes one after another, and calls one all-reduce for all of them. Then [lecture 5](05_ddp.ipynb) hides the all-reduce.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Table 1,
#    first row.
# 2. L. G. Valiant. A bridging model for parallel computation. Communications of the ACM 33(8),
#    103-111, 1990.
# 3. P. Goyal, P. Dollár, R. Girshick, P. Noordhuis, L. Wesolowski, A. Kyrola, A. Tulloch, Y. Jia,
#    K. He. Accurate, large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677, 2017.
#
# Read next: [3], sections 2 and 4, the clearest account of large batches and of what they ask of a
# network.
