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
# # Lecture 6: Large batches and asynchrony
#
# In each step of data-parallel training all GPUs wait for each other and for the network. Lecture 5
# hid most of that wait behind the backward pass. On a slow network the backward pass is too short
# for that. Then you must change the *algorithm*: take larger batches, let GPUs run ahead of each
# other, average less often, or send fewer bytes. Each of these trains the model in a different way.
# So this lecture asks two questions about each of them. How much time does a step save? And how
# many more steps do you need?

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - say how many steps a batch of a given size needs, and from which size on a larger one is wasted;
# - derive the linear scaling rule, and say where it fails;
# - compute the largest learning rate that is stable with gradients of a given age;
# - write a parameter server that waits for nobody, and bound how far its workers run ahead;
# - compute what stragglers cost, and what a backup worker saves;
# - average on a ring or on any graph, and predict how fast it converges;
# - judge local SGD, DiLoCo and compression by bytes and by what was really adopted;
# - predict what a failing site costs under BSP, under DiLoCo and with a quorum.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 4](04_data_parallel.ipynb) for the data-parallel step, and
# [lecture 5](05_ddp.ipynb) for overlap. You need derivatives, and complex numbers for one proof.
#
# **How to read.** Where a cell asks you for a prediction, make one before you run the next cell.
#
# | sign | meaning |
# |---|---|
# | $p$ | number of ranks; a rank is one GPU, and often called a *worker* here |
# | $B$ | batch: samples of all ranks in one step |
# | $\eta$ | learning rate |
# | $g$ | gradient of the whole training set; $\hat g$ is that of a batch |
# | $\lambda$ | curvature: the largest second derivative of the loss, over all directions |
# | $d$ | delay: how many updates a gradient is late |
# | $H$ | local steps between two averages |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are
# minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The first meeting is about batches and about waiting, the second about sending
# less. Who writes the module `server` reads sections 14 and 15 before, and section 16 before
# `gossip`.
#
# Ask at the beginning: "Would you accept a program that runs twice as fast and needs twice as many
# steps?" Nobody would. Then ask how a paper would report it. Many report images a second.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import Knob, explore, puzzle, show, table
from ringside.digits import load_digits

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
BLUE, ORANGE, ROSE, GREY = "#0072b2", "#e69f00", "#b56576", "#888888"
quoted = table(LECTURES / "data" / "asynchrony.csv")  # single published figures, with sources
said = dict(zip(quoted["name"], quoted["value"].tolist()))

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: a network that is ten times slower
#
# The model of this course is a GPT with 1.7 billion parameters [1], on 32 GPUs in eight nodes.
# Lecture 5 sent each layer's gradients during the backward pass. With 12.5 GB/s between the nodes,
# a step took 1.85 s, and the GPUs waited for 58 ms of it. Such a network is expensive. Many
# clusters have 10 Gbit/s Ethernet instead, which carries 1.25 GB/s. Replay the same step there.

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures import course_machine, course_step, course_trace, ledger
from ringside.timing.extrapolation import widen

fast = course_machine()
ethernet = fast.with_(beta_s_per_byte=1 / 1.25e9)  # seconds for a byte between two nodes
overlapped = course_step(2, reduce="layers")


def step_and_wait(trace, machine):
    """Seconds of a step on 32 GPUs, and the part of it in which a GPU computes nothing."""
    timeline = ringside.replay(widen(trace, 32), machine)
    return timeline.makespan_s, timeline.makespan_s - max(timeline.busy_s)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/ethernet", "A step computes for 1.79 s on each GPU. How long does a GPU wait in a "
      "step on Ethernet, in spite of the overlap?", unit="s")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
fast_step_s, fast_wait_s = step_and_wait(overlapped.trace, fast)
slow_step_s, slow_wait_s = step_and_wait(overlapped.trace, ethernet)
compute_s = slow_step_s - slow_wait_s
print(f"12.5 GB/s: a step takes {fast_step_s:.2f} s, {fast_wait_s:.2f} s of it waiting")
print(f"1.25 GB/s: a step takes {slow_step_s:.2f} s, {slow_wait_s:.2f} s of it waiting")
reveal("06/ethernet", slow_wait_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your GPU waits for **3.9 of 5.7 seconds**, so it computes for 31 % of the time. Overlap can't
# help, because there is too little to hide behind:
#
# | | seconds |
# |---|---|
# | the ring all-reduce | 5.1 |
# | the backward pass that could hide it | 1.3 |
#
# How many of the 3.9 s can you get back? This number opens the lecture, and section 10 closes it.
# There are four ways:
#
# 1. Compute longer before you send: **a larger batch** (sections 2, 3 and 13).
# 2. Don't wait for each other: **asynchrony** (sections 4, 5, 14 and 15).
# 3. Send less often, or to fewer ranks: **local steps** (sections 7 and 8), **gossip** (16).
# 4. Send fewer bytes: **compression** (section 9).

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
NBYTES = sum(op.nbytes for op in overlapped.trace.ops[0] if op.kind == 5)


def ring_s(nbytes, machine, num_gpus=32):
    """All-reduce over several nodes: the links between nodes set the pace."""
    link_s = machine.alpha_s + nbytes / num_gpus * machine.beta_s_per_byte
    return 2 * (num_gpus - 1) * link_s


# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(slow_wait_s, 1) == 3.9 and round(slow_step_s, 1) == 5.7
assert round(compute_s / slow_step_s, 2) == 0.31 and round(compute_s, 2) == 1.79
assert round(fast_step_s, 2) == 1.85 and round(1e3 * fast_wait_s) == 58
assert round(ring_s(NBYTES, ethernet), 1) == 5.1 and round(compute_s * 3 / 4, 1) == 1.3
assert round(NBYTES / 2e9, 1) == 1.7 and 10e9 / 8 == 1.25e9
assert round(1e-9 / fast.beta_s_per_byte, 1) == 12.5 and 32 / fast.ranks_per_node == 8

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Why 3.9 and not 5.1 minus 1.3?" (It is 3.8; the first layer's gradients aren't
# there at the start of the backward pass, and the token embedding comes last.)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=20
# ## 2. What a larger batch buys
#
# A batch of $B$ samples gives an estimate $\hat g$ of the gradient $g$ of the whole training set.
# Let each sample's gradient have the mean $g$ and scatter around it, with a mean squared distance
# of $\sigma^2$. If the samples are drawn independently, their errors are independent too, and the
# squared error of a mean of $B$ of them is
#
# $$\mathbb{E}\,\lVert\hat g - g\rVert^2 = \frac{\sigma^2}{B} .$$
#
# Here is a network to measure it on: 64 pixels of a handwritten digit, 32 hidden units, and a score
# for each of ten digits. Its weights lie in one vector, as in lecture 4.

# %% slideshow={"slide_type": "subslide"}
# %%writefile net.py
import numpy as np


def start(seed):
    """Random weights, all in one vector."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0, (2 / 64) ** 0.5, 2048), rng.normal(0, (2 / 32) ** 0.5, 320)
    return np.concatenate([first, second])


def matrices(w):
    return w[:2048].reshape(64, 32), w[2048:].reshape(32, 10)


def scores(w, x):
    first, second = matrices(w)
    return np.maximum(x @ first, 0) @ second


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
# %%writefile passes.py
import numpy as np
from net import matrices


def loss_and_gradient(w, x, y):
    """Mean cross-entropy of the samples, and its gradient as one vector."""
    first, second = matrices(w)
    hidden = np.maximum(x @ first, 0)
    d = hidden @ second
    d = np.exp(d - d.max(axis=1, keepdims=True))
    d /= d.sum(axis=1, keepdims=True)
    loss = -np.log(d[np.arange(len(y)), y] + 1e-300).mean()
    d[np.arange(len(y)), y] -= 1
    d /= len(y)
    inside = (d @ second.T) * (hidden > 0)
    return loss, np.concatenate([(x.T @ inside).ravel(), (hidden.T @ d).ravel()])


# %% slideshow={"slide_type": "subslide"}
from net import scores, start
from passes import loss_and_gradient

images, digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits))
images, digits = images[order] / 16, digits[order]
x, y = images[:1280], digits[:1280]  # to learn from
x_test, y_test = images[1280:], digits[1280:]
w0 = start(seed=0)
g = loss_and_gradient(w0, x, y)[1]


def accuracy(w):
    """Share of the 517 test digits that are read right."""
    return (scores(w, x_test).argmax(axis=1) == y_test).mean()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/variance", "You go from batches of 16 to batches of 64. How many times shorter is the "
      "error of the gradient, as a vector?", unit="times")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def squared_error(batch, num_draws=400):
    """Mean squared distance of a batch's gradient from that of all samples."""
    draws = np.random.default_rng(1).integers(0, len(x), (num_draws, batch))
    errors = [loss_and_gradient(w0, x[i], y[i])[1] - g for i in draws]
    return np.mean([error @ error for error in errors])


error = {batch: squared_error(batch) for batch in (1, 4, 16, 64, 256)}
for batch, square in error.items():
    print(f"batch {batch:3}: squared error {square:7.3f}, times the batch {batch * square:5.1f}")
reveal("06/variance", (error[16] / error[64]) ** 0.5)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You took four times the samples, and the error became **half** as long. Look at the last column:
# it is nearly constant, so the squared error falls as $1/B$, and the error as $1/\sqrt B$. You pay
# for it with four times the time on one GPU, or with three more GPUs.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all(abs(batch * square / error[1] - 1) < 0.1 for batch, square in error.items())
assert abs((error[16] / error[64]) ** 0.5 - 2) < 0.1
assert (len(x), len(x_test)) == (1280, 517)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **How far may you step?** A better direction helps you only if you can go further in it. Write the
# loss around $w$ with its curvature $\lambda$, and assume that this is the same in all directions.
# Take a step $-\eta \hat g$. On average the loss changes by
#
# $$-\eta\,\lVert g\rVert^2 + \frac{\eta^2 \lambda}{2}\Bigl(\lVert g\rVert^2 +
#   \frac{\sigma^2}{B}\Bigr) .$$
#
# The noise makes the step longer, and on average it doesn't help. The derivative in $\eta$ is zero
# at
#
# $$\eta^*(B) = \frac{1}{\lambda}\cdot\frac{1}{1 + B_n/B}, \qquad
#   B_n = \frac{\sigma^2}{\lVert g\rVert^2} .$$
#
# $B_n$ is called the **noise scale** [2]. It is the batch in which noise and gradient are equally
# large.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Read the formula at its two ends.
#
# - *Small batches*, $B \ll B_n$: $\eta^* \approx B / (\lambda B_n)$. **Twice the batch, twice the
#   rate.** A step gains twice as much, so you need half as many steps.
# - *Large batches*, $B \gg B_n$: $\eta^* \approx 1/\lambda$. The curvature sets the limit. A larger
#   batch changes nothing.
#
# With the best rate a step lowers the loss by $\eta^*\lVert g\rVert^2/2$. The number of steps to a
# given loss is proportional to the inverse of that:
#
# $$S(B) = S_\infty\,\Bigl(1 + \frac{B_n}{B}\Bigr) .$$
#
# $S_\infty$ is the number of steps with a batch as large as you like. The formula assumes that
# $\lambda$ and $B_n$ stay the same, and in a real network they change while it learns. Does it hold
# all the same? Count the steps until you read 96 % of the test digits right. For each batch try
# several learning rates, with five seeds.


# %% slideshow={"slide_type": "fragment"}
def steps_to(batch, rate, seed, target=0.96, limit=500):
    """Steps until the target is reached; the limit if it never is."""
    w, rng, step = start(seed), np.random.default_rng([6, seed]), 0
    while step < limit:
        shuffled = rng.permutation(1280)
        for part in np.split(shuffled, 1280 // batch):
            w = w - rate * loss_and_gradient(w, x[part], y[part])[1]
            step += 1
            if step % 2 == 0 and accuracy(w) >= target:
                return step
    return limit


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/steps", "Batches of 4 need about 400 steps to the target. How many steps do batches of "
      "1280 need, with their best learning rate?", unit="steps")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
BATCHES, RATES, SEEDS = (4, 8, 16, 32, 64, 128, 256, 1280), (0.1, 0.2, 0.4, 0.8), range(5)
best_rate, taken = {}, {}
for batch in BATCHES:
    runs = {rate: [steps_to(batch, rate, seed) for seed in SEEDS] for rate in RATES}
    best_rate[batch] = min(runs, key=lambda rate: np.mean(runs[rate]))
    taken[batch] = np.array(runs[best_rate[batch]])
    print(f"batch {batch:4}: best rate {best_rate[batch]}, steps", *sorted(taken[batch]))
steps = {batch: counts.mean() for batch, counts in taken.items()}

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# Fit the two numbers of the formula, so that relative errors are smallest.
inverse = np.array([[1, 1 / batch] for batch in BATCHES])
counted = np.array([steps[batch] for batch in BATCHES])
weighted = np.linalg.lstsq(inverse / counted[:, None], np.ones(len(BATCHES)), rcond=None)[0]
FEWEST, NOISE_SCALE = weighted[0], weighted[1] / weighted[0]

# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.5), layout="tight")
fine = np.geomspace(4, 1280, 100)
for axis, times, label in ((left, np.ones(8), "steps"), (right, np.array(BATCHES), "samples")):
    for place, batch in enumerate(BATCHES):
        axis.plot([batch] * 5, taken[batch] * times[place], "o", color=BLUE, alpha=0.35)
    line = FEWEST * (1 + NOISE_SCALE / fine)
    axis.plot(fine, line if label == "steps" else line * fine, color=ORANGE)
    axis.set(xscale="log", yscale="log", xlabel="batch (samples)", ylabel=f"{label} to 96 %")
    axis.set_xticks(BATCHES, BATCHES)
    axis.minorticks_off()
left.set_yticks([50, 100, 200, 400], [50, 100, 200, 400])
right.set_yticks([2000, 10000, 80000], ["2,000", "10,000", "80,000"])
show(figure, "Two log plots against the batch from 4 to 1280, five dots for each batch and a line "
     "of the formula. Left: steps to 96 % fall from about 400 to 70 at a batch of 64 and stay "
     "there. Right: samples to 96 % rise from 1,700 to 85,000.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("06/steps", steps[1280])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Steps and samples until 96 % of the test digits are read right. Dots are runs with five
# seeds, at the best learning rate of each batch. The line is $S_\infty(1 + B_n/B)$, fitted.*
#
# **A batch of 1280 needs 71 steps.** A batch of 64 needs 77. So you compute twenty times the
# samples in each step, and save six steps.
#
# Why do you gain so little? The line has two numbers for all eight batches, $S_\infty$ and $B_n$.
# The noise scale $B_n$ is 23 samples. Up to about there, more samples mean fewer steps; beyond, you
# come near $S_\infty$, which is 62 steps. The best rates in the list say the same: they grow with
# the batch at first, and stop at 0.8.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(FEWEST) == 62 and round(NOISE_SCALE) == 23
assert [round(steps[batch]) for batch in (64, 1280)] == [77, 71] and 1280 / 64 == 20
formula = [FEWEST * (1 + NOISE_SCALE / batch) for batch in BATCHES]
assert max(abs(formula / counted - 1)) < 0.16
assert [best_rate[batch] for batch in BATCHES] == [0.2, 0.4, 0.4] + [0.8] * 5

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Time to the best model.** Which batch should you take? Neither steps nor images a second decide.
# You want the time until the network is as good as it gets. With $p$ GPUs, a time $c$ for a sample
# and a time $T_\text{comm}$ for the messages of a step, it is
#
# $$T(B) = S(B)\,\Bigl(\frac{B}{p}\,c + T_\text{comm}\Bigr)
#        = S_\infty\Bigl(1 + \frac{B_n}{B}\Bigr)\Bigl(\frac{B}{p}\,c + T_\text{comm}\Bigr) .$$
#
# One factor falls with $B$ and the other one rises. The derivative is zero at
#
# $$B^* = \sqrt{\,B_n\; p\; T_\text{comm} / c\,} .$$
#
# So your best batch grows with the square root of the number of GPUs, and of the time of messages.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def time_to_model(gpus, comm):
    """Time to 96 % against the batch, in units of one sample's time."""
    figure, axis = plt.subplots(figsize=(7, 3))
    batches = np.geomspace(4, 1280, 200)
    times = FEWEST * (1 + NOISE_SCALE / batches) * (np.maximum(batches / gpus, 1) + comm)
    best = batches[times.argmin()]
    axis.plot(batches, times, color=BLUE)
    axis.axvline(best, color=ORANGE, lw=1)
    axis.set_title(f"best batch: {best:.0f}", loc="right", fontsize=10, color=ORANGE)
    axis.set(xscale="log", yscale="log", xlabel="batch (samples)", ylim=(60, 2e5),
             ylabel="time to 96 % (samples' times)")  # fmt: skip
    axis.set_xticks(BATCHES, BATCHES)
    axis.minorticks_off()
    return figure


# %% slideshow={"slide_type": "slide"}
explore(time_to_model, "Time to the target against the batch, for {gpus} GPUs, where the messages "
        "of a step take as long as {comm} samples. A line marks the best batch.",
        gpus=Knob([1, 8, 64], start=8, label="GPUs"),
        comm=Knob([0, 1, 10, 100], start=10, label="messages of a step",
                  unit="samples' times"))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Time to the target for a given machine. With one GPU and free messages the smallest
# batch is best. The slower the messages, the larger the best batch.*
#
# Check the formula at one point. You have 8 GPUs, and messages take as long as 10 samples. Then
# $B^* = \sqrt{23 \cdot 8 \cdot 10} = 43$, and there the curve is lowest. (The curve assumes that a
# GPU computes at least one sample.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
best_batch = (NOISE_SCALE * 8 * 10) ** 0.5
assert round(best_batch) == 43
line = FEWEST * (1 + NOISE_SCALE / fine) * (fine / 8 + 10)
assert abs(fine[line.argmin()] / best_batch - 1) < 0.05

# %% [markdown] slideshow={"slide_type": "notes"}
# Do the derivation of $\eta^*$ at the board. *What to ask.* "A
# vendor shows images a second up to 1,024 GPUs. Which of our two plots does he leave out?" *Where
# classes stumble:* the noise scale isn't a constant. Let them replace `w0` by the weights after 60
# steps and measure $\sigma^2/\lVert g\rVert^2$ again: it grows from about 33 to about 1,000, since
# the gradient becomes small and the noise doesn't. So the batch may grow during the training.
# Some large language models were trained like that.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
scale = {0: error[1] / (g @ g)}
later = w0
for _ in range(60):
    later = later - 0.4 * loss_and_gradient(later, x, y)[1]
mean = loss_and_gradient(later, x, y)[1]
singles = [loss_and_gradient(later, x[[i]], y[[i]])[1] - mean for i in range(1280)]
scale[60] = np.mean([each @ each for each in singles]) / (mean @ mean)
assert round(scale[0]) == 33 and 900 < scale[60] < 1000 * 1.1

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 3. The linear scaling rule, and where it fails
#
# You take a batch that is $k$ times as large. Which rate do you set? Lecture 4 compared $k$ small
# steps with one large one, and found $\hat\eta = k\eta$. This is the *linear scaling rule* [3]. It
# assumes that the gradient stays the same during the $k$ steps, and it doesn't. After $j$ small
# steps you have moved by about $-j\eta g$. The gradient has changed by about $-j\eta\,\nabla^2 L\,
# g$, where $\nabla^2 L$ holds the second derivatives. Add that up over the $k$ steps:
#
# $$w_k - \hat w_1 \approx \eta^2 \sum_{j=0}^{k-1} j\,\nabla^2 L\,g
#   = \frac{k(k-1)}{2}\,\eta^2\,\nabla^2 L\,g .$$
#
# The large step has the length $k\eta\lVert g\rVert$. So the relative error is at most
#
# $$\frac{k-1}{2}\,\eta\,\lambda .$$
#
# **The rule fails where this number comes near one**, that is, where $k\eta$ comes near
# $2/\lambda$. Beyond $2/\lambda$ a step jumps so far over the bottom of the valley that it ends
# higher than it began.


# %% slideshow={"slide_type": "fragment"}
def curvature(w, num_products=40):
    """Largest second derivative: multiply a vector by all of them, again and again."""
    u = np.random.default_rng(1).normal(size=len(w))
    for _ in range(num_products):
        u /= np.linalg.norm(u)
        ahead, behind = (loss_and_gradient(w + e * u, x, y)[1] for e in (1e-6, -1e-6))
        product = (ahead - behind) / 2e-6
        largest, u = u @ product, product
    return largest


# %% [markdown] slideshow={"slide_type": "subslide"}
# The matrix of all second derivatives is called the **Hessian**. For 2368 weights it has 5.6
# million numbers, and you need none of them. Take the gradient at two points that are a little
# apart in a direction $u$. Their difference, divided by the distance, is the Hessian times $u$.
# If you repeat the product, any vector turns towards the direction of the largest curvature. This
# is called *power iteration*.
#
# In section 2 no rate above 0.8 was best for any batch. Is the curvature the reason? Train a
# network with this rate and with all samples in a batch, and measure it.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/curvature", "A full batch and a rate of 0.8, 70 steps. Which curvature do you expect "
      "there?", choices=["about 0.25", "about 2.5", "about 25"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
w = w0
for _ in range(70):
    w = w - 0.8 * loss_and_gradient(w, x, y)[1]
found = curvature(w)
print(f"curvature {found:.2f}, so rates up to {2 / found:.2f} are stable")
sizes = {"about 0.25": 0.25, "about 2.5": 2.5, "about 25": 25}
reveal("06/curvature", min(sizes, key=lambda size: abs(np.log(found / sizes[size]))))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Yes. From the curvature you get $2/\lambda$, and rates are stable up to 0.88. Your rate of 0.8 is
# near that edge. This is why a batch of 64 was already large: its best rate can't grow any more.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Warm-up.** What if the curvature is larger at the start? It is, and it changes from step to
# step. So you begin with $\eta$, and climb to $k\eta$ during the first epochs. Lecture 4 has the
# experiment: without a warm-up, several of eight runs were ruined. In 2017 Goyal and others used a
# warm-up of five epochs on ImageNet, and the rule held up to batches of 8192 [3].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(2 / found, 2) == 0.88 and len(w0) == 2368 and round(len(w0) ** 2 / 1e6, 1) == 5.6
early = w0
peaks = []
for _ in range(30):
    early = early - 0.4 * loss_and_gradient(early, x, y)[1]
    peaks.append(abs(curvature(early, 20)))
assert max(peaks) > 2 * found  # larger at the start
assert (said["goyal_batch"], said["goyal_warmup"]) == (8192, 5)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **LARS.** If all layers have one rate, the layer with the largest ratio of gradient to weights
# limits it. *Layer-wise adaptive rate scaling* [4] gives each layer $l$ a rate of its own,
#
# $$\eta_l = \eta\;\frac{\lVert w_l\rVert}{\lVert g_l\rVert},$$
#
# so that a step changes each layer by the same share $\eta$ of its length. (Weight decay is left
# out here.) What would you gain in our two layers?

# %% slideshow={"slide_type": "fragment"}
for name, layer in (("first", slice(0, 2048)), ("second", slice(2048, None))):
    ratio = np.linalg.norm(w0[layer]) / np.linalg.norm(g[layer])
    print(f"{name:6} layer: weights are {ratio:.0f} times as long as their gradient")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Little: the two ratios are 13 and 17, so you would change the rates by a third. In deep networks
# they can differ by much more. In 2017 its authors trained AlexNet with batches of 8K and ResNet-50
# with 32K, without a loss in accuracy [4].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
ratios = [np.linalg.norm(w0[s]) / np.linalg.norm(g[s]) for s in (slice(0, 2048), slice(2048, None))]
assert [round(ratio) for ratio in ratios] == [13, 17]
assert (said["lars_alexnet_batch"], said["lars_resnet50_batch"]) == (8000, 32000)

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Why does power iteration find the largest curvature?" Write $u$ as a sum of
# eigenvectors; each product multiplies each of them by its eigenvalue. *Where classes stumble:* the
# largest in *absolute* value is found. At random weights it can be negative.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 4. What if nobody waits? Stale gradients
#
# In **bulk synchronous** training, or BSP, all ranks compute, all exchange, and nobody goes on
# before everybody is there (lecture 4). In **asynchronous** training each worker fetches the
# weights, computes a gradient, and hands it in when it is ready. Nobody waits. But meanwhile others
# have handed in theirs, so the weights have changed. The gradient is **stale**: it belongs to
# weights that are $d$ updates old. We call $d$ its *delay*, or its age.
#
# How much harm does a delay do? With $p$ workers of equal speed, $p - 1$ other gradients arrive
# while yours is computed, so $d = p - 1$. Take the simplest loss of curvature $\lambda$,
# $\frac{\lambda}{2}w^2$ with its minimum at 0:
#
# $$w_{t+1} = w_t - \eta\, \lambda\, w_{t-d} .$$
#
# Without delay this converges for $\eta\lambda < 2$. Move the sliders.


# %% slideshow={"slide_type": "fragment"}
def delayed(rate, delay, steps=60):
    """Weights of w <- w - rate * (w of `delay` steps ago), from 1."""
    w = [1.0] * (delay + 1)
    for _ in range(steps):
        w.append(w[-1] - rate * w[-1 - delay])
    return np.array(w[delay:])


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def path(rate, delay):
    """The weight, step by step."""
    figure, axis = plt.subplots(figsize=(7.5, 2.6))
    axis.axhline(0, color=GREY, lw=1)
    axis.plot(delayed(rate, delay), "o-", color=BLUE, markersize=3)
    axis.set(xlabel="step", ylabel="weight", ylim=(-2.2, 2.2), xlim=(0, 60))
    return figure


# %% slideshow={"slide_type": "slide"}
explore(path, "The weight against the step, with a rate times curvature of {rate} and a delay of "
        "{delay}. Small rates approach zero; with larger ones and a delay the weight swings.",
        rate=Knob([0.1, 0.3, 0.4, 0.5, 1.0, 1.9], start=0.4, label="rate times curvature"),
        delay=Knob([0, 1, 3, 7], start=3, label="delay", unit="updates"))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Gradient descent on $\frac\lambda2 w^2$ with gradients that are late by some updates.*
#
# You see the weight swing, because a late gradient still pushes in the old direction when you have
# passed the minimum. With a delay of 3, a product $\eta\lambda$ of 0.4 still converges, and one of
# 0.5 does not.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert abs(delayed(0.4, 3, 400)[-9:]).max() < 0.05 and abs(delayed(0.5, 3, 400)[-9:]).max() > 100
assert abs(delayed(1.9, 0, 400)[-1]) < 1e-9

# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("06/limit", "With a delay of 1, what is the largest product of rate and curvature that still "
      "converges? Without delay it is 2.")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def largest_stable(delay):
    """Halve the interval between a rate that converges and one that doesn't."""
    low, high = 0.0, 2.5
    for _ in range(40):
        rate = (low + high) / 2
        powers = np.zeros(delay + 2)
        powers[0], powers[1], powers[-1] = 1, -1, powers[-1] + rate
        if delay == 0:
            powers = np.array([1, rate - 1])
        growth = abs(np.roots(powers)).max()  # of the solutions z ** t
        low, high = (rate, high) if growth <= 1 else (low, rate)
    return low


limits = {delay: largest_stable(delay) for delay in (0, 1, 2, 3, 7, 15, 31)}
for delay, limit in limits.items():
    print(f"delay {delay:2}: largest stable rate times curvature {limit:.3f}")
reveal("06/limit", limits[1])

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["derivation"]
# **The proof.** A solution of $w_{t+1} = w_t - \eta\lambda\, w_{t-d}$ has the form $z^t$, and $z$
# is a root of
#
# $$z^{d+1} - z^{d} + \eta\lambda = 0 .$$
#
# All solutions shrink if all $d+1$ roots lie inside the unit circle. For a tiny $\eta\lambda$ they
# do: one root is near $1 - \eta\lambda$, and the others are near 0. Raise $\eta\lambda$. The roots
# move continuously, so the first one to leave must cross the circle. There $z = e^{i\theta}$, and
#
# $$\eta\lambda = z^d(1 - z) = e^{i\theta d}\,e^{i\theta/2}\,(e^{-i\theta/2} - e^{i\theta/2})
#   = 2\sin\tfrac{\theta}{2}\; e^{\,i\left(\theta (d + \frac12) - \frac{\pi}{2}\right)} .$$
#
# The left side is real and positive. For $0 < \theta \le \pi$ the sine is positive, so the angle in
# the exponent must be a multiple of $2\pi$. The smallest $\theta$ with this property is
# $\theta = \frac{\pi}{2d+1}$. It gives the smallest $\eta\lambda$, because the sine grows up to
# $\pi$. Hence
#
# $$\boxed{\;\eta\lambda \;<\; 2\sin\frac{\pi}{2\,(2d+1)}\;}$$
#
# For $d = 0$ this is 2, and for large $d$ about $\frac{\pi}{2d+1}$.

# %% slideshow={"slide_type": "fragment"}
for delay, limit in limits.items():
    proved = 2 * np.sin(np.pi / (2 * (2 * delay + 1)))
    print(f"delay {delay:2}: found {limit:.6f}, proved {proved:.6f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You have 32 workers, so the delay is 31. Then the limit falls from 2 to 0.05. Do 32 updates make
# up for that? In the time of one synchronous step, $p$ asynchronous workers make $p$ updates. For
# each of them $\eta\lambda$ is at most about $\frac{\pi}{2p-1}$, so all of them together reach
# $p \cdot \frac{\pi}{2p-1} \approx \frac{\pi}{2}$. One synchronous step may have 2. **In the
# direction of the largest curvature, more asynchronous workers gain nothing.** Asynchrony saves you
# the waiting, and nothing else.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for delay, limit in limits.items():
    assert abs(limit - 2 * np.sin(np.pi / (2 * (2 * delay + 1)))) < 1e-6
assert round(limits[31], 2) == 0.05 and round(limits[1], 6) == 1 and round(limits[0], 6) == 2
assert abs(32 * limits[31] / (np.pi / 2) - 1) < 0.02
assert abs(limits[31] / (np.pi / 63) - 1) < 0.001

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which of the $d+1$ roots leaves first,
# and what does its angle mean?" It swings once in $2(2d+1)$ steps, and Figure 3 shows that period:
# 14 steps for $d = 3$. *Where classes stumble:* "the roots move continuously" needs no more than
# the fact that the roots of a polynomial depend continuously on its coefficients.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 5. Stragglers by chance
#
# A worker that is late is called a **straggler**. What does it cost you? Let each step take a fixed
# time $T_0$ and a random delay on top, exponentially distributed with the mean $\tau$. Such delays
# are mostly short and sometimes long: a neighbour on the network, a page that isn't in memory, a
# clean-up of the operating system. A BSP step takes as long as the latest of $p$ workers. How long
# is that on average?
#
# Think of the $p$ delays as alarm clocks. The first of $p$ clocks rings after $\tau/p$ on average.
# The exponential distribution has no memory, so the other $p-1$ clocks are then as good as new. The
# next one rings $\tau/(p-1)$ later, and so on. The last one rings at
#
# $$T_\text{BSP} = T_0 + \tau\,\Bigl(\frac1p + \frac1{p-1} + \dots + \frac12 + 1\Bigr)
#   = T_0 + \tau\,h_p, \qquad h_p \approx \ln p + 0.58 .$$
#
# $h_p$ is the $p$-th *harmonic number*. Your wait grows with the logarithm of $p$: slowly, and
# without end.

# %% [markdown] slideshow={"slide_type": "subslide"}
# What can you do? There are two ways, and both keep some order.
#
# **Backup workers** [10]. Start a step with $p$ workers, go on when the first $p - b$ gradients are
# there, and throw the last $b$ away. The same clocks give
#
# $$T_b = T_0 + \tau\,(h_p - h_b) .$$
#
# You save the last $b$ terms of the sum, and these are the largest ones. You pay with $b$ workers
# whose work is lost. What counts is gradients in a second, $(p - b)/T_b$.
#
# **Stale synchronous parallel**, SSP [9]. A worker may run ahead, and be at most $s$ steps ahead of
# the slowest one. Then a delay in one step can be made up for in the next. (Section 15 has the
# program.)

# %% slideshow={"slide_type": "subslide"}
P, T0, TAU = 32, 1.0, 0.1
rng = np.random.default_rng(0)
times = T0 + rng.exponential(TAU, (2000, P))  # of 2000 steps on 32 workers


def harmonic(n):
    return sum(1 / k for k in range(1, n + 1))


def stale_synchronous(times, ahead):
    """Mean time of a step, where nobody is more than so many steps ahead."""
    ends = [np.zeros(times.shape[1])]
    for step, takes in enumerate(times):
        slowest = ends[step - ahead].max() if step > ahead else 0
        ends.append(np.maximum(ends[-1], slowest) + takes)
    return ends[-1].max() / len(times)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/straggler", "A delay of 10 % of a step on average, 32 workers. By how many per cent is a "
      "BSP step longer than 1?", unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
in_order = np.sort(times, axis=1)
bsp = in_order[:, -1].mean()
print(f"BSP: {bsp:.3f}, formula {T0 + TAU * harmonic(P):.3f}")
for ahead in (1, 2, 4, 2000):
    print(f"SSP, {ahead:4} ahead: {stale_synchronous(times, ahead):.3f}")
for b in (1, 2, 4, 8):
    mean = in_order[:, P - 1 - b].mean()
    print(f"{b} backup workers: {mean:.3f}, formula {T0 + TAU * (harmonic(P) - harmonic(b)):.3f}, "
          f"{(P - b) / mean:.1f} gradients in a unit of time")  # fmt: skip
reveal("06/straggler", 100 * (bsp - 1))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each of your workers is late by 10 % on average, and the step by **41 %**. Which cure is better?
# One step of lead removes most of the wait, and more lead hardly helps. Of backup workers you want
# two:
#
# | scheme | time of a step | gradients in a unit of time |
# |---|---|---|
# | BSP | 1.41 | 22.8 |
# | SSP, $s = 1$ | 1.12 | 28.5 |
# | 2 backup workers | 1.26 | 23.9 |
# | 8 backup workers | 1.13 | 21.2 |
#
# With 8 backups you throw too much work away. With SSP you throw nothing away, but your gradients
# are stale.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (
    round(100 * (bsp - 1)) == 41
    and round(bsp, 2) == 1.41
    and abs(bsp - (T0 + TAU * harmonic(P))) < 0.002
)
assert round(stale_synchronous(times, 1), 2) == 1.12
assert round(P / stale_synchronous(times, 1), 1) == 28.5
assert [round(in_order[:, P - 1 - b].mean(), 2) for b in (2, 8)] == [1.26, 1.13]
assert abs(stale_synchronous(times, 0) - bsp) < 1e-9
gradients = {b: (P - b) / in_order[:, P - 1 - b].mean() for b in range(9)}
assert max(gradients, key=gradients.get) == 2
assert [round(gradients[b], 1) for b in (0, 2, 8)] == [22.8, 23.9, 21.2]
assert abs(harmonic(1000) - np.log(1000) - 0.58) < 0.01

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
COUNT = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
drawn = {p: T0 + rng.exponential(TAU, (400, p)) for p in COUNT}


def after(p, b):
    """Mean time until all but b of p workers are there."""
    return np.sort(drawn[p], axis=1)[:, p - 1 - b].mean()


plans = {
    "BSP": (ROSE, [after(p, 0) for p in COUNT], [T0 + TAU * harmonic(p) for p in COUNT]),
    "BSP, 1 of 16 a backup": (ORANGE, [after(p, p // 16) for p in COUNT],
                              [T0 + TAU * (harmonic(p) - harmonic(p // 16)) for p in COUNT]),
    "SSP, 1 step ahead": (BLUE, [stale_synchronous(drawn[p], 1) for p in COUNT], None),
}  # fmt: skip

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 3.4))
for name, (hue, dots, line) in plans.items():
    axis.plot(COUNT, dots, "o", color=hue, label=name)
    axis.plot(COUNT, line or dots, color=hue, lw=1)
axis.set(xscale="log", xlabel="workers", ylabel="time of a step", ylim=(1, 1.85))
axis.set_xticks(COUNT, COUNT)
axis.minorticks_off()
axis.legend(frameon=False)
show(figure, "Mean time of a step against 2 to 1024 workers. BSP rises in a straight line on the "
     "log axis from 1.15 to 1.75. With one worker in 16 as a backup it levels off at 1.28. SSP "
     "with one step of lead rises from 1.10 to about 1.15.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. Mean time of a step with random delays of 0.1 on average. Dots are drawn, lines for
# BSP and backups are the formulas.*
#
# With 1024 workers your BSP step takes 1.75. Can you stop the growth? A fixed *share* of backups
# does, because $h_p - h_b$ tends to $\ln(p/b)$, and that is $\ln 16$ here. The figure leaves out
# what you pay: SSP uses stale weights, and backups throw samples away.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(T0 + TAU * harmonic(1024), 2) == 1.75
assert abs(TAU * (harmonic(1024) - harmonic(64)) - TAU * np.log(16)) < 0.001

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Your cluster has 10 % of jitter. Is the network to blame for the 41 %?" A profile
# would show it as communication, since ranks wait inside the all-reduce. *Where classes stumble:*
# backups help BSP only if the late worker changes. If it is always the same one, its samples
# are never used; give it less work instead.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"] meeting=1 minutes=10
# ## 6. What was adopted
#
# Which of these schemes would you meet in a training run today? The last two rows are the subject
# of the second meeting.
#
# | scheme | adopted? | evidence |
# |---|---|---|
# | large batches, linear rule, warm-up | yes | ImageNet with batches of 8192, 2017 [3]; LARS up to 32K [4] |
# | BSP for language models | yes | Llama 3, 2024: synchronous on 16K GPUs, and a failed GPU may stop all; 419 unexpected stops in 54 days [18] |
# | asynchronous parameter server (section 14) | for recommenders, beside synchronous training | both are commonly deployed there, 2022 [19]; TensorFlow has one [8] |
# | SSP | hardly | we know of no large language model that was trained with it |
# | backup workers | hardly | better than BSP and asynchrony in the paper's experiments, 2016 [10] |
# | gossip: average with your neighbours (section 16) | hardly | faster on slow networks, up to 112 GPUs, 2017 [20] |
# | local SGD, DiLoCo: average every $H$ steps | growing, between data centres | `torchft` has both [21]; INTELLECT-1, 2024: 10 billion parameters on three continents, 400 times less bandwidth, GPUs compute for 83 to 96 % of the time [22] |
# | PowerSGD: send fewer bytes | where networks are slow | a hook of PyTorch, lecture 5 |

# %% [markdown] slideshow={"slide_type": "fragment"}
# The recommenders' servers aside, the adopted schemes have one thing in common: all ranks do the
# same at the same time. You can repeat such a run exactly, and so you can find its mistakes.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert said["goyal_batch"] == 8192 and said["intellect_less_bandwidth"] == 400
assert said["intellect_parameters"] == 10e9
assert (said["intellect_utilization_least"], said["intellect_utilization_most"]) == (0.83, 0.96)
assert (said["llama3_unexpected_stops"], said["llama3_days"], said["gossip_gpus"]) == (419, 54, 112)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Why are recommenders different?** Most of their weights are *embedding tables*, with one row for
# each user or article. Your batch touches only the rows of its own users. Suppose a table of a
# billion rows, and 31 other workers whose batches touch 100,000 random rows each. How likely is it
# that somebody has changed a row while you computed with it?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/rows", "31 gradients come in between, each for 100,000 of 1,000,000,000 rows. How many per "
      "cent of your rows are stale?", unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
stale_share = 1 - (1 - 100_000 / 1e9) ** 31
print(f"{stale_share:.2%} of the rows are stale")
reveal("06/rows", 100 * stale_share)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only **0.31 %** of your rows are stale. In a dense network every gradient touches every weight, so
# a delay of 31 makes all of them stale. This is why asynchrony costs a table little. We assumed
# that all rows are equally popular; popular ones are stale more often.
#
# The dense layers of a recommender are like any other network. So Persia (2022) synchronizes tables
# and dense layers in two different ways [23].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * stale_share, 2) == 0.31

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which row of the table would you bet on to change in five years?" *Where classes
# stumble:* "adopted" is not "better". Reproducible runs are worth more to a company than 5 % of
# speed.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=25
# ## 7. Local steps: local SGD and DiLoCo
#
# Must you send in *each* step? In **local SGD** [12] each rank trains alone for $H$ steps. Then all
# ranks average their *weights* with one all-reduce, and go on. So a step sends $H$ times fewer
# bytes. With $H = 1$ and plain SGD this is data parallelism: if rank $i$ has the gradient $g_i$,
# the mean of all $w - \eta g_i$ is $w$ minus $\eta$ times the mean gradient.

# %% slideshow={"slide_type": "fragment"}
# %%writefile local.py
import numpy as np
from mpi4py import MPI
from passes import loss_and_gradient


def train(comm, w, rounds, rate):
    """rounds: a list; each round is a list of batches, which this rank takes alone."""
    for batches in rounds:
        for x, y in batches:
            w = w - rate * loss_and_gradient(w, x, y)[1]
        total = np.empty_like(w)
        comm.Allreduce(w, total)
        w = total / comm.size
    return w


# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in PyTorch.** The library has a class for it, `PeriodicModelAverager`. Look at
# `warmup_steps`. The averager counts its calls from 0, and averages at multiples of the period
# *after* the warm-up. If you left the warm-up out, it would average after steps 1, $H + 1$,
# $2H + 1$, and never after the last steps of a run.

# %% slideshow={"slide_type": "fragment"}
# %%writefile local_torch.py
import torch
from net import matrices
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager


def train(group, w, rounds, rate):
    layers = [torch.nn.Parameter(W.clone()) for W in matrices(w)]
    optimizer, period = torch.optim.SGD(layers, rate), len(rounds[0])
    averager = PeriodicModelAverager(period, warmup_steps=period - 1, process_group=group)
    for x, y in [batch for batches in rounds for batch in batches]:
        scores = torch.relu(x @ layers[0]) @ layers[1]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, y).backward()
        optimizer.step()
        averager.average_parameters(layers)
    return torch.cat([W.detach().flatten() for W in layers])


# %% [markdown] slideshow={"slide_type": "subslide"}
# Eight ranks take 256 steps with 16 samples each, at a rate of 0.4. You try two ways to shard the
# training digits: at random, or sorted first, so that a rank sees one or two *kinds* of digit only.


# %% slideshow={"slide_type": "fragment"}
def dealt(seed, is_sorted=False):
    """For each of 8 ranks, 256 batches of 16 samples."""
    rng = np.random.default_rng([66, seed])
    places = np.argsort(y, kind="stable") if is_sorted else rng.permutation(1280)
    drawn = [
        [rng.choice(part, 16, replace=False) for _ in range(256)] for part in np.split(places, 8)
    ]
    return [[(x[i], y[i]) for i in batches] for batches in drawn]


def in_rounds(batches, period):
    return [batches[i : i + period] for i in range(0, 256, period)]


# %% slideshow={"slide_type": "subslide"}
def locally(period, program="local.py:train", is_sorted=False):
    """The run of 8 ranks that average every so many steps."""
    args = [(w0, in_rounds(batches, period), 0.4) for batches in dealt(0, is_sorted)]
    return ringside.run(program, 8, args)


by_period = {period: locally(period) for period in (1, 16, 256)}
for period, run in by_period.items():
    sent = run.timeline.bytes_matrix.sum(axis=1).max()
    print(f"H = {period:3}: a rank sends {sent:9,.0f} bytes, {accuracy(run.values[0]):.1%} right")
in_torch = locally(16, "local_torch.py:train")
print(f"in torch, H = 16: {accuracy(in_torch.values[0]):.1%} right")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With $H = 16$ your ranks send a sixteenth of the bytes, and the network is as good. With one
# average at the very end it is a little worse, and it sends almost nothing. Why does this work at
# all? As long as the ranks are near each other, they see nearly the same gradient. What drives them
# apart is the noise of their batches, and an average removes noise.
#
# And if you give each rank digits of its own?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
sent = {H: run.timeline.bytes_matrix.sum(axis=1).max() for H, run in by_period.items()}
assert abs(sent[1] / sent[16] - 16) < 0.01
np.testing.assert_allclose(in_torch.values[0], by_period[16].values[0], atol=1e-9)
assert abs(accuracy(by_period[16].values[0]) - accuracy(by_period[1].values[0])) < 0.01
assert accuracy(by_period[256].values[0]) < accuracy(by_period[1].values[0])
serial = w0
for parts in zip(*dealt(0)):
    serial = serial - 0.4 * np.mean([loss_and_gradient(serial, *part)[1] for part in parts], axis=0)
np.testing.assert_allclose(by_period[1].values[0], serial, atol=1e-9)

# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("06/sorted", "Sorted digits, H = 16. With H = 1 the ranks read 97 % of the test digits right. "
      "What share do they read right now?", unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
sorted_runs = {period: locally(period, is_sorted=True) for period in (1, 4, 16, 64)}
for period, run in sorted_runs.items():
    print(f"H = {period:2}, sorted: {accuracy(run.values[0]):.1%} right")
reveal("06/sorted", 100 * accuracy(sorted_runs[16].values[0]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Now each rank runs towards a minimum for its *own* digits, and forgets the others. Look at the
# mean of eight such networks:
#
# | $H$ | test digits read right |
# |---|---|
# | 1 | 97 % |
# | 16 | 87 % |
# | 64 | 62 % |
#
# **The period is limited by how different the ranks' data are.** In a data centre you shuffle.
# Between hospitals, or telephones, you can't.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
shares = {period: accuracy(run.values[0]) for period, run in sorted_runs.items()}
assert [round(100 * shares[period]) for period in (1, 16, 64)] == [97, 87, 62]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **DiLoCo** [13] adds an *outer optimizer*. A round of $H$ local steps moves the mean of the
# weights from $w$ to $\bar w$. Treat this move as one long gradient, the *pseudo-gradient*
# $\Delta$, and give it momentum:
#
# $$\Delta = w - \bar w, \qquad v \leftarrow \mu v + \Delta, \qquad
#   w \leftarrow w - \eta_o\,(\Delta + \mu v) .$$
#
# The *inner* optimizer, which takes the local steps, is AdamW in the paper. The outer one is this
# Nesterov momentum, with an outer rate $\eta_o$. If you set $\eta_o = 1$ and $\mu = 0$, you have
# local SGD. The program below runs in one process, because ranks would change only the place where
# the local steps are computed.


# %% slideshow={"slide_type": "subslide"}
def after_steps(w, batches):
    """The weights of one worker after a step on each of its batches."""
    for part in batches:
        w = w - 0.4 * loss_and_gradient(w, *part)[1]
    return w


def diloco(seed, period, outer_rate, momentum, is_sorted=False):
    """Training loss of 8 workers: at the start, and after each round of 256 steps."""
    w, velocity, workers = start(seed), 0.0, dealt(seed, is_sorted)
    losses = [loss_and_gradient(w, x, y)[0]]
    for first in range(0, 256, period):
        ends = [after_steps(w, batches[first : first + period]) for batches in workers]
        move = w - np.mean(ends, axis=0)
        velocity = momentum * velocity + move
        w = w - outer_rate * (move + momentum * velocity)
        losses.append(loss_and_gradient(w, x, y)[0])
    return losses


# %% slideshow={"slide_type": "fragment"}
curves = {}  # for each way to deal: loss of four seeds after each round
for is_sorted in (False, True):
    for name, outer in (("local SGD", (1.0, 0.0)), ("DiLoCo", (0.7, 0.9))):
        deal = "sorted" if is_sorted else "shuffled"
        curves[deal, name] = np.array([diloco(seed, 16, *outer, is_sorted) for seed in range(4)])
        print(f"{deal:8} {name:9} loss", *(f"{loss:.3f}" for loss in curves[deal, name][:, -1]))

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.3), layout="constrained", sharey=True)
for axis, deal in zip(axes, ("shuffled", "sorted")):
    for name, hue in (("local SGD", ORANGE), ("DiLoCo", BLUE)):
        each = curves[deal, name]
        axis.plot(range(0, 257, 16), each.T, color=hue, lw=0.8, alpha=0.5)
        axis.plot(range(0, 257, 16), each.mean(axis=0), ".-", color=hue, lw=2, label=name)
    axis.set(title=f"{deal} digits", xlabel="steps", yscale="log", xticks=range(0, 257, 64))
    axis.yaxis.set_major_formatter(lambda loss, _: f"{loss:g}")
axes[0].set_ylabel("training loss")
axes[1].legend(frameon=False, loc="upper right")
show(figure, "Training loss over 256 steps, on a logarithmic axis, for shuffled and for sorted digits. In both panels "
     "DiLoCo falls faster, and ends at about a third of local SGD's loss.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Training loss of local SGD and of DiLoCo, which average every 16 steps. A dot is a
# round, the mean of four seeds; thin lines are the seeds.*
#
# What does the outer momentum buy you? With $\mu = 0.9$ the loss after the same steps is about a
# third, for shuffled and for sorted digits. Look where DiLoCo's curve passes the loss at which
# local SGD ends: after 144 of 256 steps if you shuffle, and after 96 if you don't. (A fair
# comparison would give momentum to the data-parallel run too.) And you still send a sixteenth of
# the bytes.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for deal in ("shuffled", "sorted"):
    plain, outer = (curves[deal, name].mean(axis=0) for name in ("local SGD", "DiLoCo"))
    assert 0.25 < outer[-1] / plain[-1] < 0.45 and all(outer[2:] < plain[2:])
    assert 16 * np.argmax(outer < plain[-1]) == {"shuffled": 144, "sorted": 96}[deal]
on_ranks = loss_and_gradient(by_period[16].values[0], x, y)[0]
assert abs(curves["shuffled", "local SGD"][0, -1] - on_ranks) < 1e-9

# %% [markdown] slideshow={"slide_type": "fragment"}
# DiLoCo's paper of 2023 reports 8 workers that do as well as synchronous training, with 500 times
# less communication [13]. What would you gain on our Ethernet?

# %% slideshow={"slide_type": "fragment"}
every_500_s = ring_s(NBYTES, ethernet) / said["diloco_less_communication"]
print(f"an all-reduce every 500 steps on Ethernet: {1e3 * every_500_s:.0f} ms in a step")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You wait for 10 ms in a step, without any overlap. The overlapped program of section 1 waits for
# 58 ms, on a network that is ten times faster.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1e3 * every_500_s) == 10 and round(1e3 * fast_wait_s) == 58
assert (said["diloco_less_communication"], said["diloco_workers"]) == (500, 8)

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Two ranks end in two equally good minima. Is their mean good?" Not in general:
# swap two hidden units of a network, and the mean of both is bad. Local SGD works because the
# ranks start each round at the same place. *Where classes stumble:* averaging the weights and
# forgetting the momentum of the *inner* optimizer. It stays with each rank here.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"] meeting=2 minutes=20
# ## 8. DiLoCo as adopted
#
# Does DiLoCo work outside of a paper? In November 2024 Prime Intellect released INTELLECT-1, a
# language model of 10 billion parameters [26]. It was trained with DiLoCo on three continents, on
# up to 14 nodes [22]. The configuration of the run is public [24]. It says what each node did
# between two synchronizations:
#
# | | |
# |---|---|
# | inner steps $H$ | 100 |
# | bits of a number in a pseudo-gradient | 8 |
# | batch of a node with 8 H100 | 128 sequences of 8192 tokens |
# | model | 42 layers of Llama 3's kind, 4096 wide |
#
# With this table you can check what the report's abstract claims.
#
# **Claim 1: 400 times less bandwidth than data parallelism.** You send once in 100 steps, and 8
# bits instead of 32. Both together make a factor of $100 \cdot 4 = 400$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Claim 2: GPUs compute for 83 to 96 % of the time.** The first is for nodes on three continents,
# the second for nodes in the United States alone [26]. Is this plausible? You need the time between
# two synchronizations. The abstract doesn't give it, but you can compute it from the *model FLOPs
# utilization*, MFU. That is 36.2 to 41.4 % of the GPUs' peak [22].


# %% slideshow={"slide_type": "fragment"}
def flop_per_token(layers=42, width=4096, mlp=14_336, vocabulary=128_256, sequence=8192):
    """As the run's own program counts: no token embedding, attention without its mask."""
    attention = 2 * width**2 + 2 * width * width // 4  # 8 heads of keys and values for 32 heads
    weights = layers * (attention + 3 * width * mlp) + vocabulary * width
    return 6 * weights + 12 * layers * width * sequence


mfu = np.array([said["intellect_mfu_least"], said["intellect_mfu_most"]])
busy = np.array([said["intellect_utilization_least"], said["intellect_utilization_most"]])
step_tokens = said["intellect_batch"] * said["intellect_sequence"]
round_flop = said["intellect_inner_steps"] * step_tokens * flop_per_token()
node_flop_per_s = 8 * 989e12  # eight H100, bf16

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/minutes", "MFU counts the time of waiting, too. A node of INTELLECT-1 needs 7.9e18 FLOP for 100 "
      "steps, and its peak is 7.9e15 FLOP/s. How long does it compute between two "
      "synchronizations?", unit="min")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
rate = node_flop_per_s * mfu / busy  # while a node computes
round_min = round_flop / rate.mean() / 60
wait_min = round_min * (1 / busy - 1)
ring_bytes = 2 * 13 / 14 * said["intellect_parameters"]  # a byte for each parameter, 14 nodes
print("MFU while a node computes:", *(f"{share:.1%}" for share in mfu / busy))
for minutes in wait_min:
    print(f"{round_min:.0f} min of computing, then {minutes:.1f} min of waiting: "
          f"a link of {8 * ring_bytes / 60 / minutes / 1e9:.2f} Gbit/s")  # fmt: skip
reveal("06/minutes", round_min)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A node computes for **38 minutes** between two synchronizations. You get it from the MFU of a node
# *while* it computes, which is the MFU divided by the utilization. Both ends of the claims give
# nearly the same, 43.6 and 43.1 %, so they agree with each other. (We assume that the lower MFU
# belongs to the lower utilization.) How long does a synchronization take then?
#
# | nodes | utilization [22] | a synchronization then takes | and a ring of 14 nodes needs |
# |---|---|---|---|
# | on three continents | 83 % | 7.8 min | 0.32 Gbit/s |
# | in the United States | 96 % | 1.6 min | 1.56 Gbit/s |
#
# Are these speeds plausible? Section 1's Ethernet has 10 Gbit/s, inside of one building. You
# would expect less across a country, and less again between continents. (We assume that all 14
# nodes took part.) So the claims hold together.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert said["intellect_inner_steps"] * 32 / 8 == said["intellect_less_bandwidth"] == 400
assert (said["intellect_inner_steps"], said["intellect_batch"]) == (100, 128)
assert round(round_min) == 38 and [round(each, 1) for each in wait_min] == [7.8, 1.6]
assert [round(100 * share, 1) for share in mfu / busy] == [43.6, 43.1]
gbit_per_s = 8 * ring_bytes / 60 / wait_min / 1e9
assert [round(each, 2) for each in gbit_per_s] == [0.32, 1.56]
assert [round(each, 3) for each in mfu] == [0.362, 0.414] and list(busy) == [0.83, 0.96]
assert (said["intellect_sequence"], said["intellect_layers"]) == (8192, 42)
assert said["intellect_width"] == 4096 and round(round_flop / 1e18, 1) == 7.9
assert round(node_flop_per_s / 1e15, 1) == 7.9

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Why are 8 bits enough?** Suppose you send a vector as whole numbers between $-127$ and $127$,
# with one scale for all. A unit is then the largest number divided by 127, and you lose up to half
# a unit of *each* number. So the error depends on the range. Would you rather send the weights, or
# the differences that a round has made?


# %% slideshow={"slide_type": "fragment"}
def rounded(vector, bits):
    """The vector in so many bits a number, with one scale for all numbers."""
    unit = abs(vector).max() / (2 ** (bits - 1) - 1)
    return unit * np.round(vector / unit)


batches = dealt(0)[0]  # those of rank 0, which trains alone
before = after_steps(w0, batches[:128])
end = after_steps(before, batches[128:144])
difference = before - end

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/eight-bits", "Rank 0 makes 16 steps, and sends its weights in 8 bits. How large is the error, "
      "compared with what the 16 steps have changed?", unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
lost = {}
for bits in (8, 4):
    for name, vector in (("weights", end), ("differences", difference)):
        error = np.linalg.norm(rounded(vector, bits) - vector)
        lost[name, bits] = error / np.linalg.norm(difference)


# %% slideshow={"slide_type": "subslide"}
def in_few_bits(name, bits, period=16):
    """Training loss after 256 steps of 8 ranks that send weights or differences in few bits."""
    w, workers = w0, dealt(0)
    for first in range(0, 256, period):
        ends = []
        for batches in workers:
            own = after_steps(w, batches[first : first + period])
            sent = rounded(own, bits) if name == "weights" else w - rounded(w - own, bits)
            ends.append(sent)
        w = np.mean(ends, axis=0)
    return loss_and_gradient(w, x, y)[0]


# %% slideshow={"slide_type": "fragment"}
few = {each: in_few_bits(*each) for each in lost}
for name, bits in lost:
    print(f"{name:11} in {bits} bits: {lost[name, bits]:6.1%} of the change is lost, "
          f"training loss {few[name, bits]:.3f}")  # fmt: skip
print(f"largest weight {abs(end).max():.2f}, largest difference {abs(difference).max():.3f}")
reveal("06/eight-bits", 100 * lost["weights", 8])

# %% [markdown] slideshow={"slide_type": "fragment"}
# You lose **40 %** of the change if you send the weights, and 1 % if you send the difference. The
# reason is the range: your largest weight is 30 times the largest difference, so its unit is, too.
#
# Does it harm the training? Eight ranks average their errors, so with 8 bits our small network
# learns in both cases. With 4 bits you see the harm:
#
# | in 4 bits | loss after 256 steps |
# |---|---|
# | weights | 0.23 |
# | differences | 0.11, as without rounding |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(100 * lost[name, 8]) for name in ("weights", "differences")] == [40, 1]
assert round(abs(end).max() / abs(difference).max()) == 30
assert round(abs(rounded(end, 8) / abs(end).max()).max() * (2**7 - 1)) == 127
assert [round(few[name, 4], 2) for name in ("weights", "differences")] == [0.23, 0.11]
assert abs(in_few_bits("weights", 40) - few["differences", 4]) < 0.001
assert max(few["weights", 8], few["differences", 8]) < 0.106


# %% [markdown] slideshow={"slide_type": "subslide"}
# **Fragments.** An average every $H$ steps sends nothing for a long time, and then everything at
# once. You would have to rent links for that peak. *Streaming* DiLoCo [14] shards the parameters
# into $F$ fragments, and averages fragment $j$ at the steps that are $jH/F$ modulo $H$:
#
# ```text
# after step   1  2  3  4  5  6  7  8  9 10 11 12      H = 4, F = 2
# all at once  .  .  . ##  .  .  . ##  .  .  . ##      peak: all parameters
# fragment 0   .  .  .  #  .  .  .  #  .  .  .  #      peak: half of them
# fragment 1   .  #  .  .  .  #  .  .  .  #  .  .
# ```
#
# The bytes are the same, and the peak is $F$ times lower. While one fragment travels you train on,
# so its messages are hidden, as a bucket's are in lecture 5. `torchft` has fragments, and an option
# `should_quantize` [21]. You write fragments yourself in the module `diloco_torch`.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/link", "Four sites train the course's GPT, 1.85 s a step. They send differences of 1 byte a "
      "parameter over links of 2 Gbit/s, and hide them. From which H on is a link idle for half "
      "of the time?", unit="steps")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
sync_s = 2 * (4 - 1) / 4 * NBYTES / 2 / (2e9 / 8)  # NBYTES counts two bytes a parameter
print(f"a synchronization takes {sync_s:.1f} s, as long as {sync_s / fast_step_s:.1f} steps")
reveal("06/link", np.ceil(2 * sync_s / fast_step_s))

# %% [markdown] slideshow={"slide_type": "fragment"}
# From **$H = 11$** on. A ring of four sites sends $2 \cdot \frac34$ bytes for each of the 1.7
# billion parameters, and that takes 9.9 s. If the link may be busy for half of the time, a round
# must last twice as long. You see how little is needed: INTELLECT-1 had $H = 100$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.ceil(2 * sync_s / fast_step_s) == 11 and round(sync_s, 1) == 9.9
assert round(NBYTES / 2e9, 1) == 1.7 and round(fast_step_s, 2) == 1.85

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Who waits for whom?
#
# DiLoCo sends less. Does it also wait less, when a site *fails*? Here are four answers to the
# question who waits:
#
# | scheme | who waits for whom |
# |---|---|
# | BSP | everybody for everybody, in each step |
# | DiLoCo | everybody for everybody, every $H$ steps |
# | `torchft` [21] | at the start of a round it counts who is there, its *quorum*; if one of them fails, the round is thrown away |
# | Decoupled DiLoCo, 2026 [25] | a central *synchronizer* waits for a minimum quorum and for a grace window; who is late misses the round |
#
# The last one is a parameter server (section 14), come back one level up. Its workers are whole
# sites, and a push is the difference of a round. Run three of them: four sites of two ranks, fast
# links inside a site, slow ones between them. One site falls asleep before step 20, for the time of
# 10 steps.

# %% slideshow={"slide_type": "fragment"}
# %%writefile local_steps.py
import numpy as np
from passes import loss_and_gradient

import ringside


def train_alone(site, w, batches, first, asleep):
    """Steps of one site, whose two ranks average their gradients in each of them."""
    for step, (x, y) in enumerate(batches, first):
        if step == asleep:
            ringside.compute(seconds=10e-3, phase="asleep")
        ringside.compute(seconds=1e-3, phase=f"forward {step}")
        g, total = loss_and_gradient(w, x, y)[1], np.empty_like(w)
        site.Allreduce(g, total)
        w = w - 0.4 * total / site.size
    return w


# %% slideshow={"slide_type": "subslide"}
# %%writefile everybody.py
import numpy as np
from local_steps import train_alone


def train(comm, w, batches, period, asleep):
    """All sites average every so many steps: BSP for a period of 1, else local SGD."""
    site = comm.Split(comm.rank // 2, comm.rank)
    for first in range(0, len(batches), period):
        w = train_alone(site, w, batches[first : first + period], first, asleep)
        total = np.empty_like(w)
        comm.Allreduce(w, total)
        w = total / comm.size
    return w


# %% [markdown] slideshow={"slide_type": "fragment"}
# (The outer momentum is left out, since it changes no message.)

# %% slideshow={"slide_type": "subslide"}
WAN = ringside.Machine.load("textbook").with_(
    ranks_per_node=2,
    intra_alpha_s=1e-6, intra_beta_s_per_byte=1e-10,  # 1 us and 10 GB/s inside a site
    alpha_s=10e-6, beta_s_per_byte=2e-9)  # 10 us and 0.5 GB/s between sites  # fmt: skip


def sites(program, period, asleep, num_ranks=8, num_steps=60):
    """A run whose last site, ranks 6 and 7, falls asleep before a step, or never."""
    batches = [each[:num_steps] for each in dealt(0)] + [[]]
    args = [(w0, batches[rank], period, asleep if rank in (6, 7) else None)
            for rank in range(num_ranks)]  # fmt: skip
    return ringside.run(program, num_ranks, args, machine=WAN)


def goodput(run, steps):
    """Share of the time in which the four sites make these steps, of 1 ms each."""
    return steps * 1e-3 / (4 * run.makespan_s)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/asleep", "DiLoCo with H = 10 computes for 98 % of the time. Now one of the four sites sleeps for "
      "10 of 60 steps. What share is left?", unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
shared, site_runs = {}, {}
for name, period in (("BSP", 1), ("DiLoCo", 10)):
    for asleep in (None, 20):
        site_runs[name, asleep] = run = sites("everybody.py:train", period, asleep)
        shared[name, asleep] = goodput(run, 240)
        print(f"{name}, {'one sleeps' if asleep else 'all awake'}: "
              f"{1e3 * run.makespan_s:4.1f} ms, goodput {shared[name, asleep]:.0%}, "
              f"loss {loss_and_gradient(run.values[0], x, y)[0]:.2f}")  # fmt: skip
reveal("06/asleep", 100 * shared["DiLoCo", 20])

# %% [markdown] slideshow={"slide_type": "fragment"}
# **84 %** is left of DiLoCo's 98 %. You lose the full 10 ms, exactly as with BSP: the sites that
# are awake end their round, and then wait for the sleeper. So $H$ only decides *when* they wait.
# What DiLoCo saves are messages, and you see that in the two runs without a sleeper.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(100 * shared["DiLoCo", each]) for each in (None, 20)] == [98, 84]
assert [round(100 * shared["BSP", each]) for each in (None, 20)] == [85, 74]
gained = [site_runs[name, 20].makespan_s - site_runs[name, None].makespan_s
          for name in ("BSP", "DiLoCo")]  # fmt: skip
assert [round(1e3 * each, 2) for each in gained] == [10, 10]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A quorum.** The ninth rank is the synchronizer. It waits for three of the four sites, then for a
# grace window of 0.2 ms, and takes whoever else is there by then. `Iprobe` asks whether a message
# has come.

# %% slideshow={"slide_type": "fragment"}
# %%writefile synchronizer.py
import numpy as np
from mpi4py import MPI

import ringside


def next_round(comm, w, quorum, grace_s):
    """The weights after a round, and the sites that were there."""
    push, total, present, status = np.empty_like(w), 0, [], MPI.Status()
    while len(present) < quorum or comm.Iprobe(source=MPI.ANY_SOURCE):
        comm.Recv(push, source=MPI.ANY_SOURCE, status=status)
        total = total + push
        present.append(status.Get_source())
        if len(present) == quorum:
            ringside.compute(seconds=grace_s, phase="grace")
    return w - total / len(present), present


# %% slideshow={"slide_type": "subslide"}
# %%writefile quorum.py
from local_steps import train_alone
from mpi4py import MPI
from synchronizer import next_round


def synchronize(comm, w, num_rounds=6):
    for number in range(num_rounds):
        w, present = next_round(comm, w, quorum=3, grace_s=0.2e-3)
        for site in present:
            comm.Send(w, dest=site, tag=int(number == num_rounds - 1))
    if len(present) < 4:  # who is late for the last round is not averaged, but told to stop
        for site in next_round(comm, w, quorum=4 - len(present), grace_s=0)[1]:
            comm.Send(w, dest=site, tag=1)
    return w


# %% slideshow={"slide_type": "subslide"}
# %%writefile -a quorum.py


def train(comm, w, batches, period, asleep):
    """Steps that this rank has made; of the last rank, the weights."""
    site, last = comm.Split(comm.rank // 2, comm.rank), comm.size - 1
    if comm.rank == last:
        return synchronize(comm, w)
    status, step, is_over = MPI.Status(), 0, False
    while not is_over:
        end = train_alone(site, w, batches[step : step + period], step, asleep)
        step += period
        if site.rank == 0:
            comm.Send(w - end, dest=last)
            comm.Recv(w, source=last, status=status)
        w, is_over = site.bcast((w, status.Get_tag() == 1))
    return step


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/quorum", "The same sleeper, and a synchronizer with a quorum of three. What is the goodput now?",
      unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
for asleep in (None, 20):
    site_runs["quorum", asleep] = run = sites("quorum.py:train", 10, asleep, num_ranks=9)
    steps_made = run.values[:8:2]  # of one rank of each site
    shared["quorum", asleep] = goodput(run, sum(steps_made))
    print(f"quorum, {'one sleeps' if asleep else 'all awake'}: "
          f"{1e3 * run.makespan_s:4.1f} ms, goodput {shared['quorum', asleep]:.0%}, "
          f"loss {loss_and_gradient(run.values[8], x, y)[0]:.2f}, steps", *steps_made)  # fmt: skip
reveal("06/quorum", 100 * shared["quorum", 20])

# %% [markdown] slideshow={"slide_type": "fragment"}
# **91 %.** Three sites go on, and only the sleeper loses its ten steps. Your run takes no longer
# than without a sleeper, so you pay with samples instead of time. Without a sleeper the
# synchronizer is a little slower than DiLoCo's ring, because all sites send to one rank (lecture
# 3). And the sleeper's difference is stale when it comes, so section 4 applies to it. (Your sites
# wait for the answer of the synchronizer. Those of the paper don't even do that, they communicate
# asynchronously.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(100 * shared["quorum", each]) for each in (None, 20)] == [95, 91]
assert shared["quorum", None] < shared["DiLoCo", None] and list(steps_made) == [60] * 3 + [50]
assert run.makespan_s <= site_runs["quorum", None].makespan_s
before_and_after = [site_runs["DiLoCo", None].values[0], run.values[8]]
losses = [loss_and_gradient(each, x, y)[0] for each in before_and_after]
assert losses[1] < losses[0] < 0.33

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(2, 1, figsize=(9, 4), layout="constrained", sharex=True)
for axis, (name, scheme) in zip(axes, (("DiLoCo", "DiLoCo"), ("quorum", "a quorum of three"))):
    timeline = site_runs[name, 20].timeline
    for site in range(4):
        axis.barh(site, 1e3 * timeline.end_s[2 * site], color="#d8d8d8", height=0.7)
        for span in (each for each in timeline.spans[2 * site] if each.kind == "compute"):
            hue = ROSE if span.label == "asleep" else BLUE
            axis.barh(site, 1e3 * (span.end_s - span.start_s), left=1e3 * span.start_s,
                      color=hue, ec=hue, lw=0.6, height=0.7)  # fmt: skip
    axis.set(yticks=range(4), yticklabels=[f"site {site}" for site in range(4)], ylim=(3.5, -0.5))
    axis.set_title(f"{scheme}: goodput {100 * shared[name, 20]:.0f} %", loc="left", fontsize=10)
    axis.text(26, 3, "asleep", color="white", ha="center", va="center")
axes[0].text(35.6, 1, "wait", ha="center", va="center")
axes[1].set_xlabel("ms (blue: computing; grey: waiting or sending)")
show(figure, "What four sites do over time. Above, DiLoCo, 71 ms: site 3 sleeps for 10 ms, and the others wait as long "
     "at the end of the round. Below, a quorum, 63 ms: site 3 sleeps as long, and nobody waits for it.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 6. The same sleeper under DiLoCo with H = 10, and with a quorum. A row is one rank of a
# site.*
#
# Compare the grey gaps with the sleeper's bar. Under DiLoCo three sites have one that is as long,
# at the end of the round, and the run takes 71 ms. With a quorum they go on, and it takes 63 ms.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(1e3 * site_runs[name, 20].makespan_s) for name in ("DiLoCo", "quorum")] == [71, 63]
gaps_ms = {name: [max(1e3 * (span.end_s - span.start_s) for span in site_runs[name, 20].timeline.spans[rank]
                      if span.kind != "compute") for rank in (0, 2, 4)]
           for name in ("DiLoCo", "quorum")}  # fmt: skip
assert min(gaps_ms["DiLoCo"]) > 9.9 and max(gaps_ms["quorum"]) < 1

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["derivation"]
# **How much does a failure cost?** Let $K$ sites fail $f$ times a day in all, while they work, and
# let each failure cost the site a time $D$. A round takes $HT$ of work, with a time $T$ for a step.
# Let $\nu$ be the number of failures that a site has to wait for in a day of work, its own and
# those of others. Then a day of work takes $1 + \nu D$ days, and
#
# $$\text{goodput} = \frac{1}{1 + \nu D} .$$
#
# - *BSP*: all wait for each failure, $\nu = f$.
# - *A quorum*: a site waits for its own failures only, $\nu = f/K$.
# - *DiLoCo*: in a round, all wait for the site that failed most often. If failures are independent,
#   a site has a Poisson number of them, with the mean $fHT/K$. So $\nu$ is the mean of the largest
#   of $K$ such numbers, divided by $HT$. For short rounds this is nearly $f$.
#
# Simulate the three of them with *one* rule: a site works if it is awake and hasn't ended its
# round. With $H = 1$ this is BSP, and with an endless round nobody ever waits.


# %% slideshow={"slide_type": "fragment"}
def simulated(period, failures, minutes=2500, out=30, num_sites=4):
    """Goodput of 300 runs; a step takes a minute, and a failure half an hour."""
    rng = np.random.default_rng(0)
    asleep, done = np.zeros((2, 300, num_sites), dtype=int)
    for _ in range(minutes):
        rounds = done // period
        works = (asleep == 0) & (rounds == rounds.min(axis=1, keepdims=True))
        done += works
        fails = works & (rng.random(works.shape) < failures / (24 * 60) / num_sites)
        asleep = np.where(fails, out, np.maximum(asleep - 1, 0))
    return done.mean() / minutes


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def waited_for(period, failures, num_sites=4):
    """Failures a day that stop everybody, if the period is that many minutes."""
    mean = failures * period / (24 * 60) / num_sites
    terms = np.cumprod([np.exp(-mean)] + [mean / n for n in range(1, 30)])
    return (1 - np.cumsum(terms) ** num_sites).sum() / period * 24 * 60


A_DAY = np.array([3, 6, 12, 18, 24])
CURVES = {  # hue, steps of a round, failures that stop everybody
    "quorum": (BLUE, 10**9, lambda f: f / 4),
    "DiLoCo, rounds of 38 minutes": (ORANGE, 38, lambda f: waited_for(38, f)),
    "BSP": (ROSE, 1, lambda f: f),
}

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 3.4))
many = np.linspace(0, 24, 49)
for name, (hue, period, stops) in CURVES.items():
    axis.plot(many, [1 / (1 + stops(f) / 48) for f in many], color=hue, label=name)
    axis.plot(A_DAY, [simulated(period, f) for f in A_DAY], "o", color=hue)
axis.set(xlabel="failures a day, of all four sites", ylabel="goodput", xlim=(0, 25), ylim=(0.6, 1))
axis.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
axis.legend(frameon=False, loc="lower left")
show(figure, "Goodput against 0 to 24 failures a day of four sites. All curves begin at 100 %. With "
     "24 failures a quorum falls to 89 %, DiLoCo with rounds of 38 minutes to 71 %, and BSP to "
     "67 %. Dots of a simulation lie on the three curves.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. Goodput of four sites. A failure costs a site half an hour. Lines are the formula, dots
# the simulation.*
#
# Compare DiLoCo's curve with the other two. It stays near BSP's even with rounds of 38 minutes. Two
# sites must fail in the same round before their times overlap, and you count on that only when
# failures are frequent. A quorum divides the loss by the number of sites. The figure leaves out
# what you pay for it: samples of a late site are fewer, and older.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
at_24 = {name: 1 / (1 + stops(24) / 48) for name, (_, _, stops) in CURVES.items()}
assert [round(100 * share) for share in at_24.values()] == [89, 71, 67]
for name, (_, period, _) in CURVES.items():
    assert abs(simulated(period, 24) - at_24[name]) < 0.01
assert abs(waited_for(1, 24) / 24 - 1) < 0.01 and waited_for(10**4, 24) < 24 / 2

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which of the three would you take for a cluster in one building?" BSP: its ranks
# fail together anyway, since they share power and switches. *Where classes stumble:* they expect
# that DiLoCo survives a failure, because its ranks are loosely coupled. Let them draw the round of
# the sleeper. The abstract of Decoupled DiLoCo adds two things that the program leaves out: the
# grace window adapts, and a site counts by the tokens that it has seen.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 9. Fewer bytes: compression in a page
#
# Can you send a *gradient* in fewer bytes? Lecture 5 ran PyTorch's PowerSGD, which sends a matrix
# of $n \times m$ as a product of two thin ones with $r(n + m)$ numbers [15]. Even one bit a number
# works: send the *sign*, and one length for all of them. You send 32 times less than in FP32. But
# the error is large, and it points the same way in each step, because small numbers always become
# too large.
#
# The cure is **error feedback** (a residual). Keep what you didn't send, and add it to the next
# gradient:
#
# $$\tilde g_t = C(g_t + e_t), \qquad e_{t+1} = g_t + e_t - \tilde g_t .$$
#
# $C$ compresses, you send $\tilde g_t$, and $e_t$ is the residual. Add these equations up over all
# steps: you have sent what you should have sent, minus the last residual. **Nothing is lost. It
# only comes later.** So a residual is another kind of staleness.


# %% slideshow={"slide_type": "subslide"}
def one_bit(g):
    """Signs, with one length for each layer."""
    layers = (g[:2048], g[2048:])
    return np.concatenate([np.sign(layer) * abs(layer).mean() for layer in layers])


def compressed(seed, keep_residual, compress=one_bit, rate=0.2):
    """Training loss of 4 workers after 256 steps."""
    w, workers, residuals = start(seed), dealt(seed)[:4], [0.0] * 4
    for step in range(256):
        total = 0.0
        for rank, batches in enumerate(workers):
            wanted = loss_and_gradient(w, *batches[step])[1] + residuals[rank]
            sent = compress(wanted)
            residuals[rank] = wanted - sent if keep_residual else 0.0
            total = total + sent / 4
        w = w - rate * total
    return loss_and_gradient(w, x, y)[0]


# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("06/one-bit", "Without compression the training loss ends at about 0.19. Where does it end with "
      "one bit and a residual?", choices=["0.19", "0.25", "0.40"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
WAYS = {
    "all bits": (False, lambda g: g),
    "1 bit": (False, one_bit),
    "with residual": (True, one_bit),
}
ended_at = {name: [compressed(seed, *way) for seed in range(4)] for name, way in WAYS.items()}
for name, losses in ended_at.items():
    print(f"{name:13} loss", *(f"{loss:.3f}" for loss in losses))
mean_loss = {name: np.mean(losses) for name, losses in ended_at.items()}
nearest = min((0.19, 0.25, 0.40), key=lambda value: abs(value - mean_loss["with residual"]))
reveal("06/one-bit", f"{nearest:.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **0.19**: with the residual your single bit is as good as all bits. Without it the loss is almost
# twice as large. Seide and others found this in 2014 for speech recognition [16].
#
# | scheme | share of the bytes, for a matrix $n \times m$ in FP32 | what it needs |
# |---|---|---|
# | 1 bit | 1/32 | a residual; signs don't add up, so no plain all-reduce |
# | PowerSGD of rank $r$ | $r(n+m)/(nm)$ | a residual; two small all-reduces and an orthogonalization |
# | BF16 | 1/2 | nothing |
#
# Which one should you take? As in lecture 5, hide first, and compress what is left. PowerSGD sends
# its thin matrices by ordinary all-reduces, and PyTorch has it as a hook.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert abs(mean_loss["with residual"] / mean_loss["all bits"] - 1) < 0.03
assert 1.6 < mean_loss["1 bit"] / mean_loss["all bits"] < 2.1 and nearest == 0.19
assert round(mean_loss["all bits"], 2) == 0.19

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Why can't an all-reduce add signs?" The sum of four signs needs more than one
# bit, and each rank has another length. Module `compress_torch` of the assignment
# writes PowerSGD without PyTorch's hook.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 10. Back to the 3.9 seconds
#
# On Ethernet your GPU waits for 3.9 s in a step that computes for 1.8 s. Which of the schemes
# helps, and how much? First the larger batch, by **gradient accumulation**: you run several
# *passes*, each with 8 sequences, and add up their gradients. The hooks of lecture 5 send during
# the last pass only.

# %% slideshow={"slide_type": "subslide"}
# %%writefile passes_of_gpt.py
import torch

from ringside.course.lectures import course_gpt as gpt


def step(group, sizes, passes):
    torch.set_default_dtype(torch.bfloat16)
    model, tokens = gpt.Gpt(**sizes), torch.zeros(8, sizes["sequence"], dtype=torch.long)
    flat = gpt.flat_gradients(list(model.parameters()))
    state = [torch.zeros(3, p.numel(), dtype=torch.float32) for p in model.parameters()]
    with gpt.set_checkpoint_early_stop(False):
        for number in range(passes):
            works = gpt.reduce_layers(model, group) if number == passes - 1 else []
            model(tokens, tokens).backward()
    rest = (model.words, model.positions, model.norm)
    for work in works + [gpt.reduce_async(list(each.parameters()), group) for each in rest]:
        work.wait()
    flat /= passes * group.size()
    gpt.adam(list(model.parameters()), state, 1e-4)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/passes", "Four passes to a step, on Ethernet: for how long does a GPU wait for each 8 "
      "sequences that it computes?", unit="s")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
four = course_trace("passes_of_gpt.py:step", 2, (4,), grid={"dp": 2}, alike=("dp",))
four_step_s, four_wait_s = step_and_wait(four.trace, ethernet)
print(f"a step takes {four_step_s:.2f} s, {four_wait_s:.2f} s of it waiting")
reveal("06/passes", four_wait_s / 4)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your GPU waits for **0.98 s**. A step waits as long as before, 3.9 s, because it sends the same
# bytes and hides them behind the same last pass. But it does four times the work.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All schemes side by side
#
# For the other schemes you only need the bytes. Local steps average every $H = 100$ steps. PowerSGD
# sends all matrices of the layers with rank 4, and the embeddings of tokens and positions as they
# are.

# %% slideshow={"slide_type": "subslide"}
WIDTH = 2304
words_and_positions = 2 * (51200 + 2048) * WIDTH  # two bytes a number
thin = 24 * 2 * 4 * sum(n + m for n, m in (
    (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)))  # fmt: skip
left_s = {
    "overlap alone": slow_wait_s,
    "four passes": four_wait_s / 4,
    "PowerSGD, rank 4": ring_s(words_and_positions + thin, ethernet),
    "100 local steps": ring_s(NBYTES, ethernet) / 100,
}
for name, wait in left_s.items():
    busy = compute_s / (compute_s + wait)
    print(f"{name:17} waits {wait:6.3f} s, computes {busy:4.0%} of the time")

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Of the 3.9 s, 0.05 s are left with 100 local steps.** You wait less than on the network that is
# ten times faster. But these are four different *algorithms*, and each changes the training:
#
# | scheme | wait for 8 sequences | what it does to the training |
# |---|---|---|
# | overlap alone | 3.9 s | nothing |
# | four passes | 0.98 s | a batch of 1024 sequences |
# | PowerSGD | 0.39 s, if nothing is hidden | parts of the gradient come later |
# | 100 local steps | 0.05 s | 32 networks drift apart |
#
# How many steps does each of them need? No replay can tell you. Sections 2, 7 and 9 have shown how
# to find out: train, with several seeds, to the same loss.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(slow_wait_s, 1) == 3.9 and round(compute_s, 1) == 1.8
assert [round(wait, 2) for wait in list(left_s.values())[1:]] == [0.98, 0.39, 0.05]
assert left_s["100 local steps"] < fast_wait_s
assert abs(four_wait_s - slow_wait_s) < 1e-3 and 4 * 256 == 1024

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The ledger.** Its machine is the fast one. There, lecture 5 left you 58 ms of a step. Four
# passes spread them over four times the work.

# %% slideshow={"slide_type": "fragment"}
fast_four_s, fast_four_wait_s = step_and_wait(four.trace, fast)
ledger("06", gpus=32, step_s=fast_four_s, exposed_s=fast_four_wait_s, num_sequences=4 * 256,
       memory_bytes=max(memory["peak"] for memory in four.memory))  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# What did you gain with four passes? It depends on the network:
#
# | network | computing, one pass | computing, four passes |
# |---|---|---|
# | 12.5 GB/s | 96.9 % | 99.2 % |
# | 1.25 GB/s | 31 % | 65 % |
#
# **On a fast network a larger batch buys you two per cent.** That isn't worth a batch that needs
# more steps. The memory is what it was, because a pass keeps nothing but its sum of gradients. None
# of these schemes saves memory. For memory see [lecture 7](07_sharding.ipynb).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * compute_s / fast_step_s, 1) == 96.9
assert round(100 * 4 * compute_s / fast_four_s, 1) == 99.2
assert round(100 * compute_s / slow_step_s) == 31 and round(400 * compute_s / four_step_s) == 65
peaks = [max(memory["peak"] for memory in each.memory) for each in (four, overlapped)]
assert abs(peaks[0] / peaks[1] - 1) < 0.01

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which row of the comparison would you try first on your own cluster?" Measure the
# wait first: on a fast network none of them.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 11. Where the models break
#
# **One curvature.** Sections 2, 3 and 4 use one number $\lambda$ for all directions. A real Hessian
# has many eigenvalues. The largest sets your stable rate, the small ones set the number of steps.
#
# **Constant noise scale.** $B_n$ grows during the training, so the best batch does too.
#
# **Small data.** 1280 digits tell you little about a language model. The *shape* of Figure 1 was
# found for large models too, in 2018 [2]; its numbers are for our digits only.
#
# **Independent delays.** Section 5 draws each delay anew. In a data centre one bad node is late in
# every step, and one congested switch delays many workers together.
#
# **Momentum and Adam.** The proof of section 4 is for plain gradient descent. Add a momentum of
# 0.9, and with a delay of 3 the limit falls from 0.445 to 0.035.
#
# **Goodput.** Section 8 counts steps, and a stale step is worth less than a fresh one. Its failures
# are independent; in one building many ranks fail together.
#
# **A quiet network.** Others send too, and then a network of 1.25 GB/s carries less for you.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
momentum, low, high = 0.9, 0.0, 1.0
for _ in range(40):
    product = (low + high) / 2
    powers = [1, -1 - momentum, momentum, 0, product]  # of the solutions z ** t, delay 3
    stable = abs(np.roots(powers)).max() <= 1
    low, high = (product, high) if stable else (low, product)
assert round(low, 3) == 0.035 and round(limits[3], 3) == 0.445 and len(x) == 1280
assert round(1e-9 / ethernet.beta_s_per_byte, 2) == 1.25

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. Summary
#
# You began with a GPU that waits for 3.9 s in each step. **0.05 s are left** with 100 local steps
# between two averages.
#
# | what | why |
# |---|---|
# | squared error of a gradient | falls as $1/B$ |
# | steps to a target | $S_\infty (1 + B_n/B)$: beyond the noise scale $B_n$, more samples gain little |
# | linear scaling | while $k\eta$ is well below $2/\lambda$; warm-up where $\lambda$ is large at the start |
# | sharp minima | real after large batches; not the same as a gap |
# | gradients that are late by $d$ updates | stable for $\eta\lambda < 2\sin\frac{\pi}{2(2d+1)}$ |
# | BSP with random delays | waits for $\tau\,h_p$, which grows as $\ln p$; little lead or few backups help |
# | gossip | shrinks by $\rho$ in a round; the gap of a ring falls as $1/p^2$ |
# | local steps | bytes divided by $H$; $H$ is limited by how different the ranks' data are |
# | few bits | work for differences, whose range is small |
# | failing sites | BSP and DiLoCo wait for them, a quorum of $K$ sites loses a $K$-th of that |
# | residual | nothing is lost, it comes later |
#
# With each scheme you trade waiting for something else: samples, freshness, agreement, or bits.
# Measure both sides, in time to the best model.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(slow_wait_s, 1) == 3.9 and round(left_s["100 local steps"], 2) == 0.05

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. Sharp minima, and noise
#
# Do large batches cost you anything but steps? A network that you train with them may read fewer
# *new* digits right, although it fits the training digits as well. This is called the
# **generalization gap**. Keskar and others (2017) explain it by *sharp minima*: places of the loss
# with a large curvature, where a small shift between training and test data costs much. Small
# batches are noisy, and noise kicks the weights out of narrow valleys [5]. Yao and others (2018)
# measured the Hessian, and found larger curvatures after large batches too [6].
#
# Repeat the experiment. Train with three batches, at the same rate of 0.8, until the training loss
# is the same: 0.02. Then measure the curvature and the test accuracy.


# %% slideshow={"slide_type": "fragment"}
def trained_to(loss, batch, seed, rate=0.8):
    """Weights with this training loss, and how many steps it took."""
    w, rng, step = start(seed), np.random.default_rng([6, seed]), 0
    while loss_and_gradient(w, x, y)[0] >= loss:
        for part in np.split(rng.permutation(1280), 1280 // batch):
            w = w - rate * loss_and_gradient(w, x[part], y[part])[1]
            step += 1
    return w, step


# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("06/sharp", "How many times larger is the mean curvature after batches of 1280 than after "
      "batches of 32?", unit="times")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
sharpness, right = {}, {}
for batch in (32, 256, 1280):
    ends = [trained_to(0.02, batch, seed) for seed in SEEDS]
    sharpness[batch] = np.array([curvature(w) for w, _ in ends])
    right[batch] = np.array([accuracy(w) for w, _ in ends])
    print(f"batch {batch:4}, {np.mean([n for _, n in ends]):4.0f} steps: "
          f"curvature {sharpness[batch].min():.2f} to {sharpness[batch].max():.2f}, "
          f"right {100 * right[batch].min():.1f} to {100 * right[batch].max():.1f} %")  # fmt: skip
reveal("06/sharp", sharpness[1280].mean() / sharpness[32].mean())

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The sharpness is real.** On average your large batches end **2.5** times as sharp. The seeds
# don't even overlap, as the table shows.
#
# | batch | curvature | test digits read right, on average |
# |---|---|---|
# | 32 | at most 0.74 | 98.4 % |
# | 1280 | at least 1.32 | 98.3 % |
#
# **The gap isn't there.** The spread over the seeds is larger than the difference of the two
# shares. So on this problem, large batches are as good if you train them to the same loss. Lecture
# 4 did find a gap, at the same number of *epochs*, because its large batches were not trained to
# the end. When you read about a gap, ask what was kept equal.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(sharpness[32].max(), 2) == 0.74 and round(sharpness[1280].min(), 2) == 1.32
assert round(sharpness[1280].mean() / sharpness[32].mean(), 1) == 2.5
assert sharpness[32].max() < sharpness[256].min()
assert round(100 * right[32].mean(), 1) == 98.4 and round(100 * right[1280].mean(), 1) == 98.3
assert np.ptp(right[1280]) > abs(right[32].mean() - right[1280].mean())

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A warning about sharpness.** Multiply the first layer's weights by 4, and divide the second
# layer's by 4. A ReLU passes a factor of 4 on, so the network computes exactly what it computed
# before. What happens to the curvature?

# %% slideshow={"slide_type": "fragment"}
w, _ = trained_to(0.02, 1280, 4)
same = np.concatenate([4 * w[:2048], w[2048:] / 4])
print(f"right {accuracy(w):.3f} and {accuracy(same):.3f}, "
      f"curvature {curvature(w):.1f} and {curvature(same):.1f}")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# The curvature grows from 1.7 to 11.2, for one and the same function. So sharpness alone can't tell
# you how well a network generalizes [7]. Compare it only between networks that were started and
# trained alike.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert accuracy(w) == accuracy(same) and round(curvature(w), 1) == 1.7
assert round(curvature(same), 1) == 11.2
np.testing.assert_allclose(scores(w, x), scores(same, x), atol=1e-9)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Noise as a regularizer.** Does noise really drive weights out of a narrow valley? Take one
# weight and a loss with two minima of the same depth: a sharp one at $-1$ with curvature 20, and a
# flat one at $+1$ with curvature 1. Start 1000 runs at random places between $-3$ and $3$. Take
# 2000 steps of SGD, and count the runs that end in the sharp valley. The noise falls as
# $1/\sqrt B$.


# %% slideshow={"slide_type": "fragment"}
def in_sharp_valley(batch, rate=0.05, noise=8.0):
    """Share of 1000 runs that end in the sharp valley."""
    rng = np.random.default_rng(0)
    w = rng.uniform(-3, 3, 1000)
    for _ in range(2000):
        sharp = 10 * (w + 1) ** 2 < 0.5 * (w - 1) ** 2
        slope = np.where(sharp, 20 * (w + 1), w - 1)
        w = w - rate * (slope + noise * rng.normal(size=1000) / batch**0.5)
    return (10 * (w + 1) ** 2 < 0.5 * (w - 1) ** 2).mean()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/valley", "Without noise, about 40 % of the runs end in the sharp valley. How many do with "
      "batches of 8?", unit="%")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
ended = {batch: in_sharp_valley(batch) for batch in (1, 8, 16, 32, 256)}
for batch, share in ended.items():
    print(f"batch {batch:3}: {share:4.0%} in the sharp valley")
reveal("06/valley", 100 * ended[8])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With batches of 8, **2 %** of your runs end there. The noise is large enough to lift them out of
# the narrow valley, and too small to lift them out of the wide one. With batches of 256 they stay
# where they began. With single samples the noise is so large that they visit both valleys all the
# time. So noise can help, in the right amount. Weight decay, dropout and more data do the same job,
# and with them the batch matters less.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * ended[8]) == 2 and 0.35 < ended[256] < 0.45 and ended[1] > 3 * ended[8]

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "What would convince you that sharp minima *cause* the gap?" Somebody should say:
# change the sharpness and nothing else. The factor 4 does exactly that, and the accuracy stays.
# The question is still open in research; say so.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. A parameter server that waits for nobody
#
# How do you write a program that waits for nobody? The classical one has a **parameter server**:
# rank 0 holds the weights. A worker sends its gradient (a *push*), and gets the newest weights (a
# *pull*). `ANY_SOURCE` takes the message of whoever comes first, and `Status` tells you who it was.
# To know the age of each gradient, the server counts its updates: the *version* of the weights.

# %% slideshow={"slide_type": "fragment"}
# %%writefile server.py
import numpy as np
from mpi4py import MPI


def answer_all(comm, w, num_pushes, rate):
    """Rank 0: the last weights, and the age of each gradient."""
    push, status = np.empty_like(w), MPI.Status()
    version, pulled, ages = 0, [0] * comm.size, []
    for _ in range(num_pushes):
        comm.Recv(push, source=MPI.ANY_SOURCE, status=status)
        worker = status.Get_source()
        ages.append(version - pulled[worker])
        w, version = w - rate * push, version + 1
        comm.Send(w, dest=worker)
        pulled[worker] = version
    return w, ages


# %% [markdown] slideshow={"slide_type": "subslide"}
# Let the loss be $\frac12\lVert w - 1\rVert^2$, so that its gradient is $w - 1$ and its curvature
# is
# 1. Declared time stands for the computation.

# %% slideshow={"slide_type": "fragment"}
# %%writefile asynchronous.py
import numpy as np
from server import answer_all

import ringside


def train(comm, steps, rate, seconds):
    w = np.zeros(1000)
    if comm.rank == 0:
        w, ages = answer_all(comm, w, steps * (comm.size - 1), rate)
        return abs(w[0] - 1), ages
    for step in range(steps):
        ringside.compute(seconds=seconds[comm.rank], phase=f"forward {step}")
        comm.Send(w - 1, dest=0)
        comm.Recv(w, source=0)


# %% [markdown] slideshow={"slide_type": "subslide"}
# You run four workers, and the fourth one is slow: it takes 250 µs for a gradient, and the others
# take 100.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/age", "Each worker makes 6 steps. How old is the oldest gradient that the server applies?",
      unit="updates")  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
SECONDS = [0, 100e-6, 100e-6, 100e-6, 250e-6]  # of rank 0, which is the server, to rank 4
waits_for_nobody = ringside.run("asynchronous.py:train", 5, (6, 0.2, SECONDS))
distance, ages = waits_for_nobody.values[0]
print(f"distance to the minimum: {distance:.3f}")
print("age: how many gradients had it", dict(sorted(Counter(ages).items())))

# %% slideshow={"slide_type": "slide"}
waits_for_nobody.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("06/age", max(ages))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. A server, rank 0, and four workers. The fast workers never wait for the slow one.
# F2 is the computation of step 2.*
#
# A gradient of the slow worker is up to **7** updates old, and those of the fast ones are mostly 2
# or 3 old. **The slowest worker gives the stalest gradients.** You also see that nobody waits for
# it: the fast workers are through after less than 800 µs, and the slow one needs 1616 µs.
#
# Who is the bottleneck? Look at rank 0: each gradient comes in there, and each answer goes out.
# With more workers its port becomes the limit, as in lecture 3. Real systems shard the weights over
# many servers.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
ends_us = [1e6 * end for end in waits_for_nobody.timeline.end_s]
assert max(ages) == 7 and round(1e6 * waits_for_nobody.makespan_s) == 1616
assert SECONDS[4] == 250e-6 and SECONDS[1:4] == [100e-6] * 3
assert max(ends_us[1:4]) < 800 and sum(age in (2, 3) for age in ages) > len(ages) / 2

# %% [markdown] slideshow={"slide_type": "subslide"}
# Does section 4 predict this program? Four workers of equal speed make a delay of 3, and the limit
# is 0.445. Train below and above it.

# %% slideshow={"slide_type": "fragment"}
even = [0] + [100e-6] * 4
for rate in (0.40, 0.50):
    distance, ages = ringside.run("asynchronous.py:train", 5, (60, rate, even)).values[0]
    print(f"rate {rate:.2f}: distance {distance:7.3f} after 240 updates, oldest {max(ages)}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It does: with 0.40 your weights converge, and with 0.50 they grow without bound. A synchronous
# step on the same loss takes rates up to 2.
#
# **The same in PyTorch?** There is none. `torch.distributed` has collectives, and its `rpc` package
# can call functions on other ranks. But it has no parameter server, and its collectives have no
# `ANY_SOURCE`, so every rank must know who sends next. TensorFlow has one,
# `ParameterServerStrategy`, and it is asynchronous by default [8]. So you write this scheme in MPI,
# here and in the assignment.

# %% slideshow={"slide_type": "fragment"}
# %%writefile has_server.py
import pkgutil

import torch.distributed as dist


def names(group):
    """Names in torch.distributed that speak of a parameter server."""
    modules = [module.name for module in pkgutil.walk_packages(dist.__path__)]
    return [name for name in [*modules, *dir(dist)] if "parameter_server" in name.lower()]


# %% slideshow={"slide_type": "fragment"}
print("parameter servers in torch.distributed:", ringside.run("has_server.py:names", 1).values[0])

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for rate, converges in ((0.40, True), (0.50, False)):
    distance, ages = ringside.run("asynchronous.py:train", 5, (60, rate, even)).values[0]
    assert (distance < 0.01) == converges and max(ages) == 3 and len(ages) == 240
assert round(limits[3], 3) == 0.445 and 0.40 < limits[3] < 0.50
assert ringside.run("has_server.py:names", 1).values[0] == []

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["systems"]
# **Synchronous servers.** How good is the model of a bottleneck? In May 2017 TensorFlow published
# speeds with parameter servers on up to 64 K80 GPUs, in instances of 8 [17]. The servers run on the
# instances of the workers, and all wait for all. Let $M$ be the bytes of the gradients. With $N$
# instances and $Q$ servers, the network of an instance that has a server carries, in each
# direction,
#
# $$V M = \Bigl(1 - \frac1Q\Bigr) M + \frac{N - 1}{Q}\, M .$$
#
# It sends $1 - 1/Q$ of its gradients to the other servers, and its own share of the weights to the
# $N-1$ other instances. For $Q = N$ this is $2\,(N-1)/N$, as in a ring. If $t_1$ is the time of an
# image on one instance, it is $t_1 + \kappa V$ on $N$ of them. Fit $\kappa$ to 16 and 32 GPUs, and
# predict 64.

# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("06/servers", "For which network is the prediction for 64 GPUs worst?",
      choices=["Inception V3", "ResNet-50", "ResNet-152"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
published = table(LECTURES / "data" / "tensorflow_2017_servers.csv")
misses, num_servers = {}, {}
for network in dict.fromkeys(published["network"]):
    rows = published["network"] == network
    gpus, servers, speed = (published[name][rows] for name in ("gpus", "servers", "images_per_s"))
    instances, seconds = gpus / 8, gpus / speed
    volume = (1 - 1 / servers) + (instances - 1) / servers
    kappa = max(0.0, volume[1:3] @ (seconds[1:3] - seconds[0]) / (volume[1:3] @ volume[1:3]))
    predicted = gpus[3] / (seconds[0] + kappa * volume[3])
    misses[network], num_servers[network] = predicted / speed[3] - 1, servers[3]
    print(f"{network:12} on 64 GPUs: measured {speed[3]:4.0f} images/s, predicted {predicted:4.0f}, "
          f"{servers[3]} servers")  # fmt: skip
assert max(abs(miss) for miss in misses.values()) < 0.15
reveal("06/servers", max(misses, key=misses.get))

# %% [markdown] slideshow={"slide_type": "fragment"}
# You predict two networks within 3 %, and **ResNet-152** too fast by 14 %. Why this one? It had
# only 4 servers for 8 instances. Our model gives each of these servers more bytes, and that isn't
# enough. The model doesn't know what happens when seven instances send to one server at the same
# time. As in Figure 8, the server is the bottleneck.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert abs(misses["Inception V3"]) < 0.03 and abs(misses["ResNet-50"]) < 0.03
assert round(100 * misses["ResNet-152"]) == 14 and num_servers["ResNet-152"] == 4

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "What is the age if the four workers start at different times?" Still 3: each
# round has one push of each worker. *Where classes stumble:* they want to divide the gradient by
# the number of workers, as in an all-reduce. The server applies one gradient at a time, so the
# *rate* must be smaller instead. The assignment's `server` adds what is left out here: versions in
# the messages, a bound on staleness, and workers with different numbers of steps.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Stale synchronous: run ahead, but not too far
#
# BSP waits always, asynchrony never. Is there something between them? In **stale synchronous
# parallel**, SSP [9], a worker may be at most $s$ steps ahead of the slowest one. With $s = 0$
# nobody starts step 1 before everybody has ended step 0. With $s = 2$ a fast worker may be in step
# 2 while the slowest is still in step 0.
#
# You can hold a worker back in many ways. Here the workers do it among themselves. After each step
# a worker sends an empty *token* to each other worker. Before step $t$ it takes a token of each of
# them, which says that step $t - s - 1$ is done there. The server stays as it was, so with $s = 0$
# it still applies the gradients one by one.


# %% slideshow={"slide_type": "fragment"}
# %%writefile gate.py
class Gate:
    """Tokens among workers: nobody starts a step more than `ahead` before the slowest."""

    def __init__(self, comm, steps, ahead):
        self.comm, self.steps, self.ahead, self.sent = comm, steps, ahead, []
        self.others = [rank for rank in range(1, comm.size) if rank != comm.rank]

    def enter(self, step):
        if step > self.ahead:
            for rank in self.others:
                self.comm.recv(source=rank, tag=1)

    def leave(self, step):
        if step + self.ahead + 1 < self.steps:  # else nobody needs the token
            self.sent += [self.comm.isend(None, dest=rank, tag=1) for rank in self.others]


# %% slideshow={"slide_type": "subslide"}
# %%writefile bounded.py
import numpy as np
from gate import Gate
from server import answer_all

import ringside


def train(comm, steps, rate, ahead, seconds):
    w, gate = np.zeros(1000), Gate(comm, steps, ahead)
    if comm.rank == 0:
        return answer_all(comm, w, steps * (comm.size - 1), rate)[1]
    for step in range(steps):
        gate.enter(step)
        ringside.compute(seconds=seconds[comm.rank][step], phase=f"forward {step}")
        comm.Send(w - 1, dest=0)
        comm.Recv(w, source=0)
        gate.leave(step)
    for request in gate.sent:
        request.wait()


# %% [markdown] slideshow={"slide_type": "subslide"}
# This time no worker is slow for good. You let each step take 100 µs, and now and then one takes
# 300 µs, on another worker each time.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/ssp", "12 steps, and every third step is late on some worker. With s = 0 the run takes "
      "how many times as long as with s = 3?", unit="times")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
hiccups = np.full((5, 12), 100e-6)
for number, step in enumerate(range(0, 12, 3)):
    hiccups[1 + number, step] = 300e-6  # the four workers take turns
args = {s: (12, 0.2, s, hiccups.tolist()) for s in (0, 1, 3)}
runs = {s: ringside.run("bounded.py:train", 5, each) for s, each in args.items()}
for s, run in runs.items():
    print(f"s = {s}: {1e6 * run.makespan_s:5.0f} µs, oldest gradient {max(run.values[0])}")
reveal("06/ssp", runs[0].makespan_s / runs[3].makespan_s)

# %% slideshow={"slide_type": "slide"}
runs[3].timeline

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 9. SSP with s = 3. While one worker has its late step, the others go on.*
#
# With $s = 0$ everybody waits for each late step. With $s = 3$ you see each worker delayed by its
# own late step and by hardly anything else, because the others use up their lead meanwhile. You pay
# for it with age:
#
# | $s$ | time of the run | oldest gradient |
# |---|---|---|
# | 0 | 2664 µs | 6 updates |
# | 3 | 1727 µs | 9 updates |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert runs[3].makespan_s < runs[1].makespan_s < runs[0].makespan_s
assert [round(1e6 * runs[s].makespan_s) for s in (0, 3)] == [2664, 1727]
assert [max(runs[s].values[0]) for s in (0, 3)] == [6, 9]

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **What SSP can't do.** It absorbs delays that come and go. A worker that is slow in *every* step
# > uses up any lead, and then all others run at its pace. Give it section 14's slow worker, with
# > 250 µs in each step, and your run ends when this worker ends, with any $s$.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
always = [[takes] * 12 for takes in SECONDS]
late = [ringside.run("bounded.py:train", 5, (12, 0.2, s, always)).makespan_s for s in (0, 3)]
assert abs(late[0] / late[1] - 1) < 0.02

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Does SSP bound the *age* of a gradient too?" Only loosely. With $s = 0$ the
# oldest gradient was 6 updates old, which is $2(p-1)$: a worker that is the first of one round and
# the last of the next is overtaken twice by each of the others.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. No centre at all: averaging with neighbours
#
# An all-reduce gives everybody the exact mean. What if each rank averages with its neighbours only,
# round after round? This is called **gossip**, or decentralized averaging. You find three graphs of
# neighbours in courses: random, ring and wheel [11]. A *wheel* is a ring with one more rank, the
# hub, that is a neighbour of all others.
#
# On a ring your program is short. Everybody takes the mean of three numbers.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring_gossip.py
import numpy as np


def gossip(comm, x, rounds):
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    for _ in range(rounds):
        left, right = np.empty_like(x), np.empty_like(x)
        comm.Sendrecv(x, dest=after, recvbuf=left, source=before)
        comm.Sendrecv(x, dest=before, recvbuf=right, source=after)
        x = (left + x + right) / 3
    return x


# %% slideshow={"slide_type": "subslide"}
# %%writefile ring_gossip_torch.py
import torch
import torch.distributed as dist


def gossip(group, x, rounds):
    before, after = (group.rank() - 1) % group.size(), (group.rank() + 1) % group.size()
    for _ in range(rounds):
        left, right = torch.empty_like(x), torch.empty_like(x)
        calls = [
            dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, left, before),
            dist.P2POp(dist.isend, x, before), dist.P2POp(dist.irecv, right, after),
        ]  # fmt: skip
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        x = (left + x + right) / 3
    return x


# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("06/ring-rounds", "16 ranks on a ring, one of them holds 16 and the others 0, so the mean is 1. "
      "How many rounds until all are within 1 % of it?", unit="rounds")  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def worst(rounds, program="ring_gossip.py:gossip"):
    """Largest distance from the mean after so many rounds on 16 ranks."""
    args = [(np.array([16.0 if rank == 0 else 0.0]), rounds) for rank in range(16)]
    return max(abs(float(value[0]) - 1) for value in ringside.run(program, 16, args).values)


print(f"MPI, 50 rounds: at most {worst(50):.4f} away")
print(f"torch, 50 rounds: at most {worst(50, 'ring_gossip_torch.py:gossip'):.4f} away")
value, needed = 16 * np.eye(16)[0], 0
while abs(value - 1).max() >= 0.01:  # the same rounds, without messages
    value, needed = (np.roll(value, 1) + value + np.roll(value, -1)) / 3, needed + 1
print(f"{needed} rounds until all are within 1 %")
reveal("06/ring-rounds", needed)

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["derivation"]
# **How fast does it converge?** Put the numbers of all ranks into a vector $x$. A round is a
# product $x \leftarrow Wx$ with a matrix $W$ that has an entry for each pair of neighbours.
#
# - *Rows sum to 1*: if all ranks have the same number, they keep it.
# - *Columns sum to 1*: the sum over all ranks, and so the mean, never changes.
#
# A matrix with both is called *doubly stochastic*. A symmetric one has real eigenvalues. The
# largest is 1, and its eigenvector is "all ranks equal". Each other part of $x$ shrinks by its
# eigenvalue in each round, so in the end the second largest one in absolute value, $\rho$, rules:
#
# $$\lVert x_t - \bar x \rVert \le \rho^{\,t}\, \lVert x_0 - \bar x\rVert .$$
#
# This is the distance after $t$ rounds. $1 - \rho$ is the **spectral gap**. On a ring
# $\rho = \frac13\bigl(1 + 2\cos\frac{2\pi}{p}\bigr)$, so the gap is about $\frac{4\pi^2}{3p^2}$:
# **twice the ranks, four times the rounds.**

# %% [markdown] slideshow={"slide_type": "subslide"}
# Which weights do you take on another graph? These always make $W$ doubly stochastic: give the edge
# between ranks $i$ and $j$ the weight $1/(1 + q)$, where $q$ is the number of neighbours of the
# rank that has more of them. Each rank keeps the rest for its own number.


# %% slideshow={"slide_type": "fragment"}
def edges(graph, p, seed=0):
    """Pairs of neighbours."""
    rim = [(i, (i + 1) % p) for i in range(p)]
    if graph == "wheel":
        rim = [(1 + i, 1 + (i + 1) % (p - 1)) for i in range(p - 1)]
        return rim + [(0, i) for i in range(1, p)]
    if graph == "random":  # a ring, and two random partners for each rank
        rng = np.random.default_rng(seed)
        for _ in range(2):
            rim += [tuple(pair) for pair in rng.permutation(p).reshape(-1, 2)]
    return rim


# %% slideshow={"slide_type": "subslide"}
def mixing(pairs, p):
    """The matrix W of a graph."""
    near = np.zeros((p, p), dtype=bool)
    for i, j in pairs:
        near[i, j] = near[j, i] = i != j
    count = near.sum(axis=1)
    W = near / (1 + np.maximum(count[:, None], count[None, :]))
    return W + np.diag(1 - W.sum(axis=1))


def second(W):
    """Second largest eigenvalue, in absolute value."""
    return np.sort(abs(np.linalg.eigvalsh(W)))[-2]


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("06/graph", "64 ranks. Which graph needs the fewest rounds to come within 1 %?",
      choices=["ring", "wheel", "random, 4 neighbours"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
NAMES = {"ring": "ring", "wheel": "wheel", "random": "random, 4 neighbours"}
rounds_of = {}
for p in (16, 64, 256):
    for graph in NAMES:
        W = mixing(edges(graph, p), p)
        rounds_of[graph, p] = np.log(0.01) / np.log(second(W))
    print(f"{p:3} ranks:", *(f"{graph} {rounds_of[graph, p]:6.0f} rounds " for graph in NAMES))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_graph(axis, graph, p=16):
    """Ranks as dots, neighbours joined."""
    on_rim = p - 1 if graph == "wheel" else p
    angle = 2 * np.pi * np.arange(on_rim) / on_rim
    place = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    place = np.concatenate([np.zeros((p - on_rim, 2)), place])
    for i, j in edges(graph, p):
        axis.plot(*place[[i, j]].T, color=GREY, lw=1)
    axis.plot(*place.T, "o", color=BLUE, markersize=5)
    axis.set_title(graph, fontsize=10)
    axis.set_aspect("equal")
    axis.axis("off")


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(10, 2.6), width_ratios=[1, 1, 1, 1.7])
for axis, graph, hue in zip(axes, NAMES, (ROSE, ORANGE, BLUE)):
    draw_graph(axis, graph)
    W, state, far = mixing(edges(graph, 64), 64), 64 * np.eye(64)[5], []
    for _ in range(200):
        far.append(np.linalg.norm(state - 1))
        state = W @ state
    axes[3].plot(np.array(far) / far[0], color=hue, label=graph)
axes[3].set(yscale="log", ylim=(1e-6, 1), xlabel="rounds", ylabel="distance from the mean")
axes[3].legend(frameon=False, fontsize=9)
figure.tight_layout()
show(figure, "Drawings of a ring, a wheel and a random graph of 16 ranks, and beside them the "
     "distance from the mean against 200 rounds for 64 ranks, on a log scale. The random graph "
     "falls fastest, by six orders in about 110 rounds; the wheel follows; the ring is slowest.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("06/graph", NAMES[min(NAMES, key=lambda graph: rounds_of[graph, 64])])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 10. Three graphs, and the distance from the mean on 64 ranks.*
#
# The **random graph** needs the fewest rounds, and its gap hardly falls with the number of ranks.
# The hub of the wheel is a neighbour of everybody, so it is a bottleneck, like a parameter server.
#
# | graph of 64 ranks | rounds to 1 % |
# |---|---|
# | ring | 1432 |
# | wheel | 252 |
# | random | about 40 |
#
# Should you then average like this? An exact all-reduce in a ring has $2(p-1) = 126$ steps, and
# each carries a 64th of the bytes only. **If you want the mean, call an all-reduce.** Gossip is for
# ranks that train meanwhile. They make one round in each step, and their weights stay *near* each
# other. Then a rank waits for its neighbours only, and never for the slowest of all.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(rounds_of[graph, 64]) for graph in ("ring", "wheel")] == [1432, 252]
assert abs(rounds_of["random", 64] - 40) <= 10 and rounds_of["random", 256] < 70
for p in (16, 64):
    W = mixing(edges("ring", p), p)
    assert abs(second(W) - (1 + 2 * np.cos(2 * np.pi / p)) / 3) < 1e-12
    np.testing.assert_allclose(W.sum(axis=0), 1)
    np.testing.assert_allclose(W.sum(axis=1), 1)
assert 3.8 < rounds_of["ring", 64] / rounds_of["ring", 16] / 4 < 4.3
assert abs((1 - second(W)) / (4 * np.pi**2 / 3 / 64**2) - 1) < 0.01 and 2 * (64 - 1) == 126
assert abs(worst(50) - worst(50, "ring_gossip_torch.py:gossip")) < 1e-12

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Why is the wheel so much worse than its diameter of 2 suggests?" The weight of an
# edge to the hub is $1/p$: otherwise the columns wouldn't sum to 1. *Where classes stumble:* rows
# that sum to 1 are not enough. Let them give each rank the plain mean of its neighbourhood in a
# wheel, and watch the mean drift towards the hub's number. Module `gossip` has any graph.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 17. Puzzles
#
# Each has a program that works and misses a target. Change the program in its cell, run it, and run
# the cell below it. About ten minutes each.
#
# **Puzzle 1: asynchronous in name only.** This server applies a gradient as soon as it has it, and
# answers at once. In each step another worker is late. The sums are right, but everybody waits for
# the late one. The target is 600 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np
from mpi4py import MPI

import ringside


def train(comm, steps=6):
    w, push, status = np.zeros(8), np.ones(8), MPI.Status()
    for number in range(steps * (comm.size - 1) if comm.rank == 0 else 0):
        comm.Recv(push, source=1 + number % (comm.size - 1), status=status)
        w += push
        comm.Send(w, dest=status.Get_source())
    for step in range(steps if comm.rank > 0 else 0):
        takes = 150e-6 if step % 3 + 1 == comm.rank else 50e-6
        ringside.compute(seconds=takes, phase=f"forward {step}")
        comm.Send(np.ones(8), dest=0)
        comm.Recv(w, source=0)
    return float(comm.bcast(w[0], root=0))


# %% slideshow={"slide_type": "fragment"}
puzzle("puzzle1.py:train", 4, expected=18.0, at_most_us=600,
       hint="Whose message does the server take next?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# The server takes the workers in turn, so a late worker holds up those behind it. Write
# `source=MPI.ANY_SOURCE`. `status` already tells whom to answer.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle1.py").read_text()
in_turn = "source=1 + number % (comm.size - 1)"
Path("solved1.py").write_text(text.replace(in_turn, "source=MPI.ANY_SOURCE"))
goal = {"expected": 18.0, "at_most_us": 600, "draw": False}
assert puzzle("solved1.py:train", 4, **goal).solved
assert not puzzle("puzzle1.py:train", 4, **goal).solved

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: too much for three numbers.** Each rank of a ring takes the mean of its own vector and
# of its two neighbours'. The values are right. The target is 16,000 bytes for each of eight ranks.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import numpy as np


def gossip(comm):
    x = np.full(1000, np.cos(np.pi * comm.rank))  # 1, -1, 1, -1, ...
    before, after = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    everything = np.empty((comm.size, 1000))
    comm.Allgather(x, everything)
    mean = (everything[before] + x + everything[after]) / 3
    return float(mean @ x) / 1000


# %% slideshow={"slide_type": "fragment"}
puzzle("puzzle2.py:gossip", 8, expected=-1 / 3, at_most_bytes=16_000,
       hint="Whose vectors does a rank use?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# An all-gather brings seven vectors to each rank, and five of them aren't used. Send to the two
# neighbours only, each time with a receive from the other side, so that nobody waits in a circle:
#
# ```python
# comm.Sendrecv(x, dest=after, recvbuf=everything[before], source=before)
# comm.Sendrecv(x, dest=before, recvbuf=everything[after], source=after)
# ```
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle2.py").read_text()
both = """comm.Sendrecv(x, dest=after, recvbuf=everything[before], source=before)
    comm.Sendrecv(x, dest=before, recvbuf=everything[after], source=after)"""
Path("solved2.py").write_text(text.replace("comm.Allgather(x, everything)", both))
goal = {"expected": -1 / 3, "at_most_bytes": 16_000, "draw": False}
solved = puzzle("solved2.py:gossip", 8, **goal)
assert solved.solved and solved.sent_bytes == (16_000,) * 8
attempt = puzzle("puzzle2.py:gossip", 8, **goal)
assert not attempt.solved and attempt.sent_bytes[0] == 7 * 8000

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: twelve small averages.** A PyTorch program averages the weights of a network after
# its local steps. The values are right. Each of its twelve all-reduces pays a latency. The target
# is 6 messages for each of four ranks.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import torch
import torch.distributed as dist
from torch import nn


@torch.no_grad()
def average(group):
    net = nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))
    for parameter in net.parameters():
        parameter.fill_(group.rank())  # stands for the weights after the local steps
    for parameter in net.parameters():
        dist.all_reduce(parameter, group=group)
        parameter /= group.size()
    return float(sum(parameter.mean() for parameter in net.parameters()))


# %% slideshow={"slide_type": "fragment"}
puzzle("puzzle3.py:average", 4, expected=18.0, at_most_messages=6, draw=False,
       hint="torch.nn.utils.parameters_to_vector")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Put all weights into one vector, reduce it, and write it back. A ring of four ranks then has 6
# messages in all, and 72 before.
#
# ```python
# flat = nn.utils.parameters_to_vector(net.parameters())
# dist.all_reduce(flat, group=group)
# nn.utils.vector_to_parameters(flat / group.size(), net.parameters())
# ```
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle3.py").read_text()
loop = """    for parameter in net.parameters():
        dist.all_reduce(parameter, group=group)
        parameter /= group.size()
"""
flat = """    flat = nn.utils.parameters_to_vector(net.parameters())
    dist.all_reduce(flat, group=group)
    nn.utils.vector_to_parameters(flat / group.size(), net.parameters())
"""
assert loop in text
Path("solved3.py").write_text(text.replace(loop, flat))
goal = {"expected": 18.0, "at_most_messages": 6, "draw": False}
attempts = [puzzle(f"{name}3.py:average", 4, **goal) for name in ("puzzle", "solved")]
assert not attempts[0].solved and attempts[1].solved
assert [each.sent_messages[0] for each in attempts] == [72, 6]

# %% [markdown] slideshow={"slide_type": "notes"}
# In puzzle 1 ask pairs that finish early how the ages of
# the gradients change, and let them count them as `server.py` does. Puzzle 3 is lecture 5's bucket
# again.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 18. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A network needs 1,000 steps with very large batches, and its noise scale is 500
# samples. How many steps, and how many samples, does it need with batches of 100, of 500 and of
# 5,000?
#
# <details><summary>Answer</summary>
#
# $S = 1000\,(1 + 500/B)$: 6,000, 2,000 and 1,100 steps. That is 600,000, 1,000,000 and 5,500,000
# samples. From 100 to 500 you pay 1.7 times the samples for a third of the steps. From 500 to 5,000
# you pay 5.5 times the samples for about half of the steps.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
needed = {batch: 1000 * (1 + 500 / batch) for batch in (100, 500, 5000)}
assert [round(n) for n in needed.values()] == [6000, 2000, 1100]
samples = [round(n * batch) for batch, n in needed.items()]
assert samples == [600_000, 1_000_000, 5_500_000]
assert round(samples[1] / samples[0], 1) == 1.7 and samples[2] / samples[1] == 5.5

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** Eight asynchronous workers of equal speed train with a rate of 0.1. For up to
# which curvature is this stable? A ninth worker of the same speed joins. What changes?
#
# <details><summary>Answer</summary>
#
# The delay is 7, so $\eta\lambda < 2\sin(\pi/30) = 0.209$, and the curvature may be 2.09. With
# nine workers the delay is 8 and the limit is $2\sin(\pi/34) = 0.185$. A run at the edge becomes
# unstable because a worker was *added*.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(limits[7], 3) == round(2 * np.sin(np.pi / 30), 3) == 0.209
assert round(limits[7] / 0.1, 2) == 2.09
assert round(largest_stable(8), 3) == round(2 * np.sin(np.pi / 34), 3) == 0.185

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** 256 workers take 400 ms for a step, with a random delay of 40 ms on average. How
# long is a BSP step? Somebody buys 16 more workers as backups. How long is a step now, and how
# many gradients are made in a second, before and after?
#
# <details><summary>Answer</summary>
#
# $h_{256} = 6.12$, so the step takes $400 + 245 = 645$ ms, and 397 gradients are made in a second.
# With 272 workers of which 16 are backups, the step takes $400 + 40\,(h_{272} - h_{16}) = 512$ ms.
# 256 gradients in 512 ms are 500 in a second: 26 % more, from 6 % more workers.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
before_ms = 400 + 40 * harmonic(256)
after_ms = 400 + 40 * (harmonic(272) - harmonic(16))
assert round(harmonic(256), 2) == 6.12 and [round(before_ms), round(after_ms)] == [645, 512]
assert [round(256e3 / each) for each in (before_ms, after_ms)] == [397, 500]
backups = 16
assert round(100 * (before_ms / after_ms - 1)) == 26 and round(100 * backups / 256) == 6
assert 256 + backups == 272

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Ranks on a ring average with their neighbours. 20 ranks need 100 rounds for some
# accuracy. How many rounds do 60 ranks need? A colleague gives each rank the plain mean of its
# neighbourhood on a wheel. Why do the ranks agree on a wrong number?
#
# <details><summary>Answer</summary>
#
# About 900: three times the ranks, nine times the rounds. On the wheel the rows of his matrix sum
# to 1, and the columns don't: each rank on the rim gives the hub a quarter of its mean, so the
# hub's number counts more than others. The ranks agree, on a weighted mean.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
gaps = [1 - second(mixing(edges("ring", p), p)) for p in (20, 60)]
assert 8.8 < gaps[0] / gaps[1] < 9.1
W = mixing(edges("wheel", 16), 16)
plain = (W > 0) / (W > 0).sum(axis=1, keepdims=True)
weight = np.linalg.matrix_power(plain, 500)[0]  # what each rank's number counts in the end
np.testing.assert_allclose(plain.sum(axis=1), 1)
assert weight[0] > 2 * weight[1] and plain[1, 0] == 1 / 4

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** On Ethernet, from which $H$ on do local steps wait for less than 58 ms a step?
# Two of the 32 GPUs are slower by a tenth in every step. Do local steps help against that?
#
# <details><summary>Answer</summary>
#
# The all-reduce takes 5.12 s, so $H \ge 5.12/0.058 = 89$. Against the slow GPUs local steps don't
# help: each round ends when the slow ones have made their $H$ steps. Chance delays do average out
# over $H$ steps, as with SSP.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(ring_s(NBYTES, ethernet), 2) == 5.12
assert int(np.ceil(ring_s(NBYTES, ethernet) / fast_wait_s)) == 89
many = 1 + np.random.default_rng(3).exponential(0.1, (300, 100, 32))  # 300 rounds of 100 steps
assert many.sum(axis=1).max(axis=1).mean() / 100 < 1.13 < many.max(axis=2).mean()

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Your turn
#
# The assignment `a06_asynchrony` asks for what this lecture left out. In `server`, messages carry
# versions, staleness is bounded by the server itself, and workers end at different times.
# `local_sgd` has a last round that is shorter. `diloco_torch` averages fragments in turn, and
# `compress_torch` writes PowerSGD with a residual. As an extra, `gossip` averages on any graph.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Table 1,
#    first row.
# 2. S. McCandlish, J. Kaplan, D. Amodei, OpenAI Dota Team. An empirical model of large-batch training.
#    arXiv:1812.06162, 2018.
# 3. P. Goyal, P. Dollár, R. Girshick, P. Noordhuis, L. Wesolowski, A. Kyrola, A. Tulloch, Y. Jia,
#    K. He. Accurate, large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677, 2017.
# 4. Y. You, I. Gitman, B. Ginsburg. Large batch training of convolutional networks.
#    arXiv:1708.03888, 2017. The abstract.
# 5. N. S. Keskar, D. Mudigere, J. Nocedal, M. Smelyanskiy, P. T. P. Tang. On large-batch training for
#    deep learning: generalization gap and sharp minima. ICLR 2017. arXiv:1609.04836.
# 6. Z. Yao, A. Gholami, Q. Lei, K. Keutzer, M. W. Mahoney. Hessian-based analysis of large batch
#    training and robustness to adversaries. NeurIPS 2018. arXiv:1802.08241.
# 7. L. Dinh, R. Pascanu, S. Bengio, Y. Bengio. Sharp minima can generalize for deep nets. ICML 2017.
#    arXiv:1703.04933.
# 8. TensorFlow. tf.distribute.ParameterServerStrategy. tensorflow.org/api_docs.
# 9. Q. Ho, J. Cipar, H. Cui, S. Lee, J. K. Kim, P. B. Gibbons, G. A. Gibson, G. Ganger, E. P. Xing.
#     More effective distributed ML via a stale synchronous parallel parameter server. NIPS 2013.
# 10. J. Chen, X. Pan, R. Monga, S. Bengio, R. Jozefowicz. Revisiting distributed synchronous SGD.
#     arXiv:1604.00981, 2016. The abstract.
# 11. M. Cai. Introduction to High-performance Machine Learning. Slides, SURFsara.
# 12. S. U. Stich. Local SGD converges fast and communicates little. ICLR 2019. arXiv:1805.09767.
# 13. A. Douillard and others. DiLoCo: distributed low-communication training of language models.
#     arXiv:2311.08105, 2023. The abstract.
# 14. A. Douillard and others. Streaming DiLoCo with overlapping communication: towards a distributed
#     free lunch. arXiv:2501.18512, 2025.
# 15. T. Vogels, S. P. Karimireddy, M. Jaggi. PowerSGD: practical low-rank gradient compression for
#     distributed optimization. NeurIPS 2019. arXiv:1905.13727.
# 16. F. Seide, H. Fu, J. Droppo, G. Li, D. Yu. 1-bit stochastic gradient descent and its application
#     to data-parallel distributed training of speech DNNs. Interspeech 2014. The abstract.
# 17. TensorFlow. Benchmarks, May 2017. github.com/tensorflow/tensorflow,
#     tensorflow/docs_src/performance/benchmarks.md, "Details for Amazon EC2 Distributed".
# 18. The Llama 3 herd of models. arXiv:2407.21783, 2024. Section 3.3.4.
# 19. W. Su and others. GBA: a tuning-free approach to switch between
#     synchronous and asynchronous training for recommendation models. NeurIPS 2022. The abstract.
# 20. X. Lian, C. Zhang, H. Zhang, C.-J. Hsieh, W. Zhang, J. Liu. Can decentralized algorithms
#     outperform centralized algorithms? NIPS 2017. arXiv:1705.09056. The abstract.
# 21. PyTorch. torchft, local_sgd. docs.pytorch.org/torchft/local_sgd.html.
# 22. S. Jaghouar and others. INTELLECT-1 technical report. arXiv:2412.01152, 2024. The abstract.
# 23. X. Lian and others. Persia: an open, hybrid system scaling deep learning-based recommenders up to
#     100 trillion parameters. KDD 2022. arXiv:2111.05897. The abstract.
# 24. Prime Intellect. prime. github.com/PrimeIntellect-ai/prime, configs/10B/H100_intellect1.toml and
#     src/zeroband (models/llama, utils), versions of 2024 and 2025.
# 25. A. Douillard and others. Decoupled DiLoCo for resilient distributed pre-training.
#     arXiv:2604.21428, 2026. The abstract.
# 26. Prime Intellect. INTELLECT-1 release. primeintellect.ai/blog/intellect-1-release, 29 November
#     2024.
#
# Read next: [2], sections 2 and 3, for the noise scale of real networks, and [3], for what large
# batches ask of a network and of the person who trains it.
