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
# # Lecture 2: What training computes
#
# In 2012 a network called AlexNet was trained for **five to six days on two graphics cards of 3 GB
# each** [7]. Why did it take days? Why were there two cards? At the end of this lecture you can
# compute both answers.
#
# Before you divide a computation among many processors you have to know it on one. Training a
# network is a loop of three lines: multiply matrices to get a loss, multiply matrices to get its
# gradient, and take a step. You take this loop apart here, on one processor. In the end you can
# predict when training diverges, how much it computes, how much memory it holds, and which parts of
# it a processor does quickly.

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["aims"]
# **After this lecture you can**
#
# - derive the gradient of a loss, and check it so that you can trust it;
# - compute the learning rate at which training blows up, with and without momentum, and watch it
#   happen at that number;
# - say what a mini-batch costs in accuracy of the gradient, and what it gains in steps;
# - write layers, convolutions among them, as matrix products in two ways, and say why one of them
#   is used and the other is not;
# - count a network's parameters, FLOP and activation memory, and check them with torch;
# - tell from the roofline which layers will use your processor well, which will not, and why it
#   stops paying to give each worker fewer samples.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** You need Python, NumPy, derivatives of functions of several variables, and
# eigenvectors. You need not have trained a network before, nor seen MPI. Section 5 uses one call of
# it and explains that call. [Lecture 3](03_allreduce.ipynb) shows what happens inside it.
#
# **How to read.** Before many programs you are asked for a prediction. Type your number into the
# cell before you run the program. The result then appears next to your prediction, and you learn
# from the gap. Nobody grades it. The data is real: handwritten digits [1].

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are
# minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **One notation.** In this lecture each sign has one meaning:
#
# | sign | meaning |
# |---|---|
# | $\eta$, $\mu$ | learning rate, momentum |
# | $N$, $B$ | number of samples; batch size, which is the number of samples of one step |
# | $X$, $W$, $T$ | samples (a row each), weights, targets |
# | $f$, $G$ | loss, and its gradient with respect to the weights |
# | $\tau$ | number of steps |
# | $\lambda$ | an eigenvalue: how strongly the loss curves in one direction |
# | $p$ | number of workers (ranks) |
# | $Q$, $M$; $F$, $R$ | FLOP and bytes of a layer; FLOP and bytes that a processor does in a second |
# | FLOP | one floating-point operation; a multiplication and an addition are two |

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Open with the five questions at the end. Who answers all of them needs no more
# than section 5.
#
# | section | ask the class | where classes stumble |
# |---|---|---|
# | 1, 2 | How would you find out that a gradient is wrong? | |
# | 3 | Which of the three learning rates is the best? | A falling loss looks healthy to all. |
# | 4 | Who is lower after the first epoch, and at the end? | |
# | 5 | Sum or mean: what happens? | "The loss only has another scale." |
# | 6 | How many MB does torch keep? | They forget that pooling remembers places. |
# | 7 | Which part of its peak does a linear layer reach? | |
# | 11 | How much farther does momentum move the border? | Nearly all say ten times. |
# | 12 | What does a loss that stays at log 10 mean? | They look for an error in the data. |
# | 13 | How large is the Toeplitz matrix? | Collect powers of ten. |
# | 14 | How much faster are 16 workers on a free network? | "16 times", even here. |

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

import ringside
from ringside import guess, reveal
from ringside.course.lectures import Knob, explore, puzzle, show
from ringside.digits import load_digits

os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: which digit is it?
#
# Thirteen people wrote digits into forms. A scanner turned each digit into 8 by 8 numbers from 0 to
# 16: each number says how many dots of a little square are black [1]. You have nearly two thousand
# such images, and for each of them the digit that it shows. Write a program that gets the 64 numbers
# of an image and says which digit it is.
#
# Nobody knows how to write down rules for that. So *choose the program by its results*. Take a
# formula with many free numbers in it, and look for the numbers that give the right answers.

# %% slideshow={"slide_type": "fragment"}
images, labels = load_digits()
order = np.random.default_rng(0).permutation(len(labels))
images, labels = images[order] / 16, labels[order]  # pixels from 0 to 1
N = 1437  # to learn from; the others are for testing and never used before
print(f"{len(images)} images of {images.shape[1]} pixels")
print(f"{len(images) - N} of them are for testing")

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axes = plt.subplots(2, 10, figsize=(9, 2.1))
for digit, column in enumerate(axes.T):
    for axis, place in zip(column, np.flatnonzero(labels == digit)):
        axis.imshow(images[place].reshape(8, 8), cmap="gray_r")
        axis.axis("off")
show(
    figure,
    "Two handwritten examples of each digit from 0 to 9, on 8 by 8 pixels of 17 shades of grey.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Two examples of each digit.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert images.shape == (1797, 64) and len(images) - N == 360


# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 2. From a loss to a gradient
#
# Take the plainest formula. Each of the ten digits gets a *score*, which is a weighted sum of the
# pixels and a constant. The largest score wins. Put an image and a 1 (for the constant) into a row
# $x$ of $64 + 1$ numbers. Then the scores are $xW$ with $65\cdot 10$ weights. The scores of all $N$
# images together are one matrix product, $XW$.
#
# The score of the right digit should be 1 and the others 0. That is the target, a row $t$ with a
# single 1. How wrong the weights are is called the **loss**:
#
# $$f(W) = \frac{1}{2N}\sum_{i=1}^{N} \lVert x_i W - t_i\rVert^2 .$$

# %% slideshow={"slide_type": "fragment"}
X = np.column_stack([images[:N], np.ones(N)])  # (N, 65)
T = np.eye(10)[labels[:N]]  # (N, 10)
X_test = np.column_stack([images[N:], np.ones(len(images) - N)])


def loss(W):
    return ((X @ W - T) ** 2).sum() / (2 * N)


def accuracy(W):
    return ((X_test @ W).argmax(axis=1) == labels[N:]).mean()


W0 = np.zeros((65, 10))
print(f"{W0.size} weights, all zero: loss {loss(W0)}, {accuracy(W0):.0%} right")

# %% [markdown] slideshow={"slide_type": "slide"}
# **The gradient** tells how the loss changes with each weight. The weight $W_{jk}$ appears in the
# score $k$ of every image, multiplied by pixel $j$. By the chain rule
#
# $$\frac{\partial f}{\partial W_{jk}} = \frac1N\sum_i X_{ij}\,(XW - T)_{ik}
# \qquad\text{that is}\qquad G = \frac1N X^\mathsf{T}(XW - T) .$$
#
# The sum over the images is a matrix product again. So forward is one product, and backward is
# another one. You will see this for every layer of every network.
#
# A gradient that is a little wrong still trains, only worse. So always check it. The definition of
# the derivative tells you the truth: move one weight a little, and look at the loss.


# %% slideshow={"slide_type": "fragment"}
def gradient(W):
    return X.T @ (X @ W - T) / N


rng = np.random.default_rng(1)
W, nudge = rng.normal(size=(65, 10)), 1e-5
slopes = np.empty_like(W)
for place in np.ndindex(W.shape):
    step = np.zeros_like(W)
    step[place] = nudge
    slopes[place] = (loss(W + step) - loss(W - step)) / (2 * nudge)
largest = np.abs(slopes - gradient(W)).max()
print(f"largest slope {np.abs(slopes).max():.2f}, largest difference {largest:.0e}")
assert largest < 1e-8

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 3. Gradient descent, and where it blows up
#
# The gradient points uphill. So go the other way: $W \leftarrow W - \eta\,G$. The **learning rate**
# $\eta$ says how far. For example, with $\eta = 0.1$ a weight whose slope is $2$ changes by $0.2$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/three-rates",
    "Which of three learning rates gives the best weights after 200 steps?",
    choices=["0.001", "0.15", "0.18"],
)


# %% slideshow={"slide_type": "fragment"}
def descend(lr, momentum=0.0, num_steps=200):
    """The weights before each step and after the last; momentum is for section 11."""
    W = velocity = W0
    path = [W]
    for _ in range(num_steps):
        velocity = momentum * velocity + gradient(W)
        W = W - lr * velocity
        path.append(W)
    return path


ends = {lr: descend(lr)[-1] for lr in (0.001, 0.15, 0.18)}
for lr, W in ends.items():
    print(f"learning rate {lr:5}: loss {loss(W):8.2g}, {accuracy(W):.0%} right")
reveal("02/three-rates", str(min(ends, key=lambda lr: loss(ends[lr]))))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your best rate is 0.15: it reads 95 % of the digits. With 0.001 the rate is too low: after 200
# steps the loss is 0.42, still near the start. With 0.18 it is too high: the loss is astronomical.
# So between 0.15 and 0.18 there must be a border, and it is sharp. Where is it?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(accuracy(ends[0.15]), 2) == 0.95 and round(accuracy(ends[0.18]), 2) == 0.13
assert round(loss(ends[0.001]), 2) == 0.42 and loss(ends[0.18]) > 1e9
assert len(descend(0.001)) - 1 == 200 and list(ends) == [0.001, 0.15, 0.18]

# %% [markdown] slideshow={"slide_type": "slide"}
# **Multiply out.** With $H = X^\mathsf{T}X/N$ the gradient is $G = HW - X^\mathsf{T}T/N$. It is zero
# at the best weights $W^*$. Subtract the two, and you get $G = H(W - W^*)$. So a step of gradient
# descent does this to the *error* $E = W - W^*$:
#
# $$E_{\tau+1} = E_\tau - \eta H E_\tau = (I - \eta H)\,E_\tau .$$
#
# $H$ is symmetric, so it has perpendicular eigenvectors. Look along one of them, with eigenvalue
# $\lambda$. There each step multiplies the error by the number $1 - \eta\lambda$. After $\tau$ steps
#
# $$f(W_\tau) - f(W^*) = \frac12\sum_j \lambda_j\,(1-\eta\lambda_j)^{2\tau}\,\lVert c_j\rVert^2,
# \qquad c_j = v_j^\mathsf{T}(W_0 - W^*) .$$
#
# This is a formula for the whole training curve. The error shrinks if $|1-\eta\lambda| < 1$ for every
# eigenvalue. So the border is
#
# $$\eta_\text{max} = \frac{2}{\lambda_\text{max}} .$$

# %% slideshow={"slide_type": "fragment"}
H = X.T @ X / N
eigenvalues, eigenvectors = np.linalg.eigh(H)
eigenvalues, eigenvectors = eigenvalues[::-1], eigenvectors[:, ::-1]  # largest first
best = np.linalg.lstsq(X, T, rcond=None)[0]
lr_max = 2 / eigenvalues[0]
print("largest eigenvalues", np.round(eigenvalues[:4], 2))
print(f"border at {lr_max:.4f}")

# %% slideshow={"slide_type": "fragment"}
c = eigenvectors.T @ (W0 - best)
tau = np.arange(201)[:, None]  # numbers of steps
for lr in (0.001, 0.15, 0.18):
    factors = (1 - lr * eigenvalues) ** (2 * tau)  # (steps, directions)
    formula = loss(best) + 0.5 * factors @ (eigenvalues * (c**2).sum(axis=1))
    losses = [loss(W) for W in descend(lr)]
    np.testing.assert_allclose(losses, formula, rtol=1e-9)
    print(f"learning rate {lr:5}: formula and training agree, {len(losses)} points")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The border is at 0.1745. The formula gives all three curves, at every step, to nine digits. That
# holds for the curve that blew up, too: divergence is as regular as convergence.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(lr_max, 4) == 0.1745

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/above-border",
    "1 % above the border: how does the loss go on from its start?",
    choices=[
        "it rises from the first step",
        "it falls, and then rises",
        "it falls for ever",
    ],
)

# %% slideshow={"slide_type": "fragment"}
above = [loss(W) for W in descend(1.01 * lr_max)]
below = [loss(W) for W in descend(0.99 * lr_max)]
lowest = int(np.argmin(above))
print(f"1 % above: lowest after {lowest} steps, {above[-1]:.0f} after 200")
print(f"1 % below: {below[-1]:.2f} after 200")
rises = "it falls, and then rises" if lowest > 0 else "it rises from the first step"

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.8))
colors = ["#a6cee3", "#56b4e9", "#0072b2", "#5c4d9a", "#d55e00", "#a61c00"]
for share, color in zip([0.02, 0.2, 0.9, 0.99, 1.01, 1.03], colors):
    curve = [loss(W) for W in descend(share * lr_max)]
    axis.plot(curve, color=color, label=f"{share:g} of the border")
axis.set(yscale="log", ylim=(0.1, 1e3), xlabel="step", ylabel="loss")
axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
show(
    figure,
    "Loss over 200 steps for six learning rates. Below the border the loss falls, slowest at 0.02 "
    "of it; 0.9 and 0.99 can hardly be told apart. At 1.01 and 1.03 of the border it falls at "
    "first, too, then turns and grows along straight lines without end.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("02/above-border", "it falls for ever" if lowest == 200 else rises)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Loss during 200 steps, for learning rates below and above the border.*
#
# At 0.99 of the border, every step overshoots in the steepest direction and comes back a little
# less. At 1.01 it comes back a little more. A straight line on this axis is a constant factor in
# each step, $(1-\eta\lambda_1)^2$. Look at the beginning: above the border your loss *falls* for 17
# steps, while the other directions gain more than the steepest one loses. **A run that looks
# healthy can be doomed.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert lowest == 17 and below[-1] < 0.17 and above[-1] > 100
assert np.isclose(above[-1] / above[-2], (1 - 1.01 * 2) ** 2, rtol=0.01)
assert abs(1 - 0.99 * lr_max * eigenvalues[0]) < 1

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why "too low" matters.** The steepest direction sets the limit for all others. A direction with
# eigenvalue $\lambda$ needs about $1/(\eta\lambda)$ steps.

# %% slideshow={"slide_type": "fragment"}
steps = 1 / (0.9 * lr_max * eigenvalues[:62])
for k in (1, 10, 30, 50):
    print(f"eigenvalue {k:2}: {eigenvalues[k]:.1e}, about {steps[k]:7,.0f} steps")
print(f"{(eigenvalues < 1e-9).sum()} eigenvalues are zero")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The largest eigenvalue is 16 times the second. It belongs to what all images have in common, their
# mean image. (In question 5 you remove it.) The last directions take more steps than you will ever
# do. Three never move, because three pixels are white in all images. This does no harm, since such
# directions hardly change any score. **What the data does not show, descent does not learn.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.allclose(eigenvalues[:2].round(2), [11.46, 0.70])
assert round(eigenvalues[0] / eigenvalues[1]) == 16 and (eigenvalues < 1e-9).sum() == 3
assert (images[:N].max(axis=0) == 0).sum() == 3 and round(steps[10]) == 57

# %% [markdown] slideshow={"slide_type": "slide"} known={"02/first-epoch": "it says what is compared"} meeting=1 minutes=10
# ## 4. Mini-batches
#
# So far each step used all 1437 images. With a million images one step would cost a million
# evaluations. Instead take $B$ images at random, a **mini-batch**, and step along *their* mean
# gradient $g_B$. That is stochastic gradient descent [3]. One pass through all images is an
# **epoch**. It now has $N/B$ steps. For example, 1437 images in batches of 32 make 45 steps, the last
# one with fewer images.
#
# How wrong is $g_B$? On average it is right. Its scatter follows from the scatter
# $\sigma^2 = \frac1N\sum_i\lVert g_i - G\rVert^2$ of the single images, as for every mean of $B$
# things that are drawn without replacement:
#
# $$\mathrm{E}\,\lVert g_B - G\rVert^2 = \frac{\sigma^2}{B}\cdot\frac{N-B}{N-1} .$$


# %% slideshow={"slide_type": "fragment"}
def batch_gradient(W, batch):
    return X[batch].T @ (X[batch] @ W - T[batch]) / len(batch)


W, rng = descend(0.15)[-1], np.random.default_rng(2)
single = np.array([batch_gradient(W, [i]) for i in range(N)])  # (N, 65, 10)
sigma2 = ((single - gradient(W)) ** 2).sum() / N
for B in (1, 16, 256, 1024):
    draws = [batch_gradient(W, rng.choice(N, B, replace=False)) for _ in range(400)]
    scatter = ((np.array(draws) - gradient(W)) ** 2).sum() / 400
    formula = sigma2 / B * (N - B) / (N - 1)
    print(f"B {B:4}: measured {scatter:.5f}, formula {formula:.5f}")
    assert abs(scatter / formula - 1) < 0.05

# %% [markdown] slideshow={"slide_type": "fragment"}
# To halve the error of the direction you need four times the images, which is four times the work.
# Far from the minimum that is a bad bargain, because any rough direction is good there. So small
# batches win. Near the minimum only the noise is left.
#
# Now train for forty epochs, once with batches of 32 and once with all images at once. The learning
# rate is the same.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert -(-N // 32) == 45 and N == 1437

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/first-epoch",
    "Who has the lower loss after the first epoch?",
    choices=["batches of 32", "all images at once"],
)


# %% slideshow={"slide_type": "fragment"}
def sgd(lr_of_epoch, B, num_epochs):
    """Loss before each epoch and after the last."""
    W, rng = W0, np.random.default_rng(3)
    losses = [loss(W)]
    for epoch in range(num_epochs):
        order = rng.permutation(N)
        for start in range(0, N, B):
            batch = order[start : start + B]
            W = W - lr_of_epoch(epoch) * batch_gradient(W, batch)
        losses.append(loss(W))
    return np.array(losses)


# %% slideshow={"slide_type": "fragment"}
full = sgd(lambda epoch: 0.15, N, 40)
small = sgd(lambda epoch: 0.15, 32, 40)
lowered = sgd(lambda epoch: 0.15 if epoch < 20 else 0.015, 32, 40)
print(f"after 1 epoch: all images {full[1]:.3f}, batches {small[1]:.3f}")
print(f"after 40: all images {full[-1]:.3f}, batches {small[-1]:.3f}")
print(f"after 40, with a lowered rate: batches {lowered[-1]:.3f}")
lower = "batches of 32" if small[1] < full[1] else "all images at once"

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.4))
axis.plot(full, color="#57606a", label="all images: 1 step an epoch")
axis.plot(small, color="#56b4e9", label="B = 32: 45 steps an epoch")
axis.plot(lowered, color="#0072b2", label="B = 32, learning rate / 10 from epoch 20")
axis.axhline(loss(best), color="#57606a", linewidth=0.8)
axis.set(ylim=(0.14, 0.52), xlabel="epoch", ylabel="loss")
axis.legend(frameon=False)
show(
    figure,
    "Loss over 40 epochs. All images at once falls slowly. Batches of 32 fall within an epoch or "
    "two and then stay, unsteadily, above the lowest possible loss; lowering the learning rate at "
    "epoch 20 brings them down to it at once.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("02/first-epoch", lower)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Forty epochs with all images at once, and with batches of 32.*
#
# **After one epoch the batches of 32 are ahead: they made 45 steps for the work of one.**
#
# | | after 1 epoch | after 40 |
# |---|---|---|
# | all images at once | 0.448 | 0.203 |
# | batches of 32 | 0.219 | about 0.191 |
# | batches of 32, learning rate / 10 from epoch 20 | 0.219 | 0.156 |
#
# But your small batches stop getting better long before the end, because every step overshoots by
# its noise. Divide the learning rate by ten, and the noise is averaged over ten times as many
# steps: you come close to the lowest possible loss, 0.153. Take large steps first and small steps
# later. This is the whole idea of a learning-rate *schedule*.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(x, 3) for x in (full[1], small[1], full[-1])] == [0.448, 0.219, 0.203]
assert [round(x, 3) for x in (small[20:].mean(), lowered[-1])] == [0.191, 0.156]
assert len(full) - 1 == 40 and round(loss(best), 3) == 0.153

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=20
# ## 5. Four workers: sum or mean?
#
# The gradient is a mean over images. So each of four workers can take a quarter of the images and
# find *their* mean gradient. Then the four results are put together. This is data parallelism.
# Suppose that you write it like this: the workers find $g_1, \dots, g_4$, and the step is
# $W \leftarrow W - \eta \sum_n g_n$.
#
# You can run that. A **rank** is a process that runs your function. The object `comm` connects it to
# the others: there are `comm.size` ranks, and this one has the number `comm.rank`. The call
# `comm.allreduce(x)` gives *every rank the sum* of what all of them put in. For example, if two ranks
# put in 1 and 2, both get 3. Lecture 3 is about this one call.


# %% slideshow={"slide_type": "fragment"}
# %%writefile workers.py
import numpy as np


def train(comm, pixels, targets, lr, num_steps, divisor):
    weights = np.zeros((pixels.shape[1], targets.shape[1]))
    for _ in range(num_steps):
        error = pixels @ weights - targets
        mine = pixels.T @ error / len(pixels)  # the mean over my images
        everyones = comm.allreduce(mine)  # the sum over all ranks
        weights = weights - lr * everyones / divisor
    return weights


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/sum-or-mean",
    "One worker learns with a rate of 0.1. Four add their mean gradients. What happens?",
    choices=["they learn faster", "they learn as one worker does", "the loss explodes"],
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
cuts = [0, 360, 719, 1078, N]  # rank r has images cuts[r] to cuts[r + 1] - 1
shards = [(X[lo:hi], T[lo:hi]) for lo, hi in zip(cuts, cuts[1:])]
args = [(*shard, 0.1, 50) for shard in shards]  # learning rate, steps
summed = ringside.run("workers.py:train", 4, [(*one, 1) for one in args])
averaged = ringside.run("workers.py:train", 4, [(*one, 4) for one in args])
alone = loss(descend(0.1, num_steps=50)[-1])
print(f"sum of four gradients:  loss {loss(summed.values[0]):.3g}")
print(f"mean of four gradients: loss {loss(averaged.values[0]):.3g}")
print(f"one worker alone:       loss {alone:.3g}")
ratio = loss(summed.values[0]) / alone
verdict = "the loss explodes" if ratio > 10 else "they learn as one worker does"

# %% slideshow={"slide_type": "fragment"}
short = [(*shard, 0.1, 3, 4) for shard in shards]
ringside.run("workers.py:train", 4, short).timeline

# %% slideshow={"slide_type": "fragment"}
reveal("02/sum-or-mean", "they learn faster" if ratio < 0.9 else verdict)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. Three steps of four workers. Each bar is a call of* `allreduce`*.*
#
# Each $g_n$ is a mean already, so their sum is four times the gradient. Your learning rate is then
# four times what you wrote: 2.3 times the border of section 3. Divide by the number of workers. Or
# let the workers *sum* over their images, and divide by $B$ once.
#
# All workers get the same sum and take the same step. So their four copies of the weights stay equal,
# to the last bit. No worker goes on before all of them have put in their part.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(4 * 0.1 / lr_max, 1) == 2.3 and loss(summed.values[0]) > 1e3
assert all((one == averaged.values[0]).all() for one in averaged.values)
np.testing.assert_allclose(loss(averaged.values[0]), alone, rtol=1e-3)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** In `torch.distributed` the call is `dist.all_reduce`. It writes the sum over
# the tensor that you give it. The messages go over the same counted network.


# %% slideshow={"slide_type": "fragment"}
# %%writefile workers_torch.py
import torch
import torch.distributed as dist


def train(group, pixels, targets, lr, num_steps):
    weights = torch.zeros(pixels.shape[1], targets.shape[1], dtype=torch.float64)
    for _ in range(num_steps):
        gradient = pixels.T @ (pixels @ weights - targets) / len(pixels)
        dist.all_reduce(gradient)  # now it holds the sum over all ranks
        weights -= lr * gradient / dist.get_world_size()
    return weights.numpy()


# %% slideshow={"slide_type": "fragment"}
in_torch = ringside.run("workers_torch.py:train", 4, args)
print(f"mean of four gradients: loss {loss(in_torch.values[0]):.3g}")
np.testing.assert_allclose(in_torch.values[0], averaged.values[0], atol=1e-12)

# %% [markdown] slideshow={"slide_type": "slide"}
# **And if the shards are unequal?** 1437 images don't divide by 4. Then the mean of the four means
# gives more weight to the images of short shards. Another error is to cut a batch at $B/4$, $2B/4$
# and so on, and to give the image at each cut to two workers. Neither error crashes the program,
# and the loss goes down in both cases.

# %% slideshow={"slide_type": "fragment"}
W = np.zeros((65, 10))
size = np.linalg.norm(gradient(W))


def distance(g):
    """How far a gradient is from the right one, relative to it."""
    return np.linalg.norm(g - gradient(W)) / size


shard_bounds = list(zip(cuts, cuts[1:]))
means = [batch_gradient(W, np.arange(lo, hi)) for lo, hi in shard_bounds]
weighted = sum((hi - lo) / N * g for (lo, hi), g in zip(shard_bounds, means))
twice = [batch_gradient(W, np.arange(max(lo - 1, 0), hi)) for lo, hi in shard_bounds]
print(f"mean of means       {distance(sum(means) / 4):.0e}")
print(f"cuts counted twice  {distance(sum(twice) / 4):.0e}")
print(f"weighted mean       {distance(weighted):.0e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Errors of some thousandths and less stay hidden behind the noise of mini-batches for ever. You
# find them only if you compare with one worker, to all digits. Your parallel program has to pass
# that comparison before you may call it fast.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 1e-5 < distance(sum(means) / 4) < 1e-3 and 1e-4 < distance(sum(twice) / 4) < 1e-2
assert distance(weighted) < 1e-12 and N % 4 != 0 and N == 1437

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 6. Counting: parameters, operations, memory
#
# Now count all of AlexNet. (`groups=2` is for its halves on two cards.) One rule counts every
# layer. A weight is multiplied once at each *position* of the output. (A linear layer has one
# position.)
#
# $$\text{FLOP of the forward pass} = 2\cdot\text{weights}\cdot\text{positions}\cdot B .$$
#
# Torch can build a network without memory for its numbers, on the device "meta". The shapes are
# real, and the values don't exist. So you can count on your laptop what would not fit there.


# %% slideshow={"slide_type": "fragment"}
def conv(channels_in, channels_out, kernel, **options):
    layer = torch.nn.Conv2d(channels_in, channels_out, kernel, **options)
    return [layer, torch.nn.ReLU(inplace=True)]


def alexnet(groups):
    pool = torch.nn.MaxPool2d(3, stride=2)
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    layers = [*conv(3, 96, 11, stride=4), pool]
    layers += [*conv(96, 256, 5, padding=2, groups=groups), pool]
    layers += conv(256, 384, 3, padding=1) + conv(384, 384, 3, padding=1, groups=groups)
    layers += [*conv(384, 256, 3, padding=1, groups=groups), pool, torch.nn.Flatten()]
    layers += [linear(256 * 6 * 6, 4096), relu(True), linear(4096, 4096), relu(True)]
    return torch.nn.Sequential(*layers, linear(4096, 1000))


# %% slideshow={"slide_type": "fragment"}
from collections import namedtuple

Row = namedtuple("Row", "kind weights parameters positions num_in num_out")


def account(network, x):
    """A row for each layer; positions and numbers in and out are those of one image."""
    rows = []
    for layer in network:
        y, kind = layer(x), type(layer).__name__
        if kind not in ("ReLU", "Flatten"):  # these add nothing of their own
            weights = layer.weight.numel() if hasattr(layer, "weight") else 0
            parameters = sum(one.numel() for one in layer.parameters())
            sizes = x[0].numel(), y[0].numel()
            rows.append(Row(kind, weights, parameters, y[0, 0].numel(), *sizes))
        x = y
    return rows


# %% slideshow={"slide_type": "slide"}
torch.set_default_dtype(torch.float32)
with torch.device("meta"):
    layers = account(alexnet(groups=2), torch.empty(1, 3, 227, 227))
NAMES = ["conv1", "pool1", "conv2", "pool2", "conv3", "conv4", "conv5", "pool5"]
NAMES += ["fc6", "fc7", "fc8"]
flops = [2 * row.weights * row.positions for row in layers]  # of one image
num_parameters = sum(row.parameters for row in layers)

print("layer    parameters    MFLOP an image    numbers out")
for name, row, flop in zip(NAMES, layers, flops):
    print(f"{name:6} {row.parameters:12,} {flop / 1e6:17.1f} {row.num_out:14,}")
print(f"all    {num_parameters:12,} {sum(flops) / 1e6:17.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# There are 60,965,224 parameters, in agreement with the 60 million of the paper [7]. Who owns what?
# The convolutions hold 4 % of the parameters and do 92 % of the FLOP. The linear layers do the
# reverse. This decides how you divide such a network among processors
# ([lecture 8](08_model_versus_data.ipynb)).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from torch.utils.flop_counter import FlopCounterMode

with torch.device("meta"), FlopCounterMode(display=False) as counter:
    alexnet(groups=2)(torch.empty(1, 3, 227, 227))
assert counter.get_total_flops() == sum(flops)  # torch's own counter agrees
with torch.device("meta"):
    ungrouped = account(alexnet(groups=1), torch.empty(1, 3, 227, 227))
assert num_parameters == 60_965_224
assert sum(row.parameters for row in ungrouped) == 62_378_344
assert round(num_parameters / 1e6, -1) == 60
assert round(sum(row.parameters for row in layers[:8]) / num_parameters, 2) == 0.04
assert round(sum(flops[:8]) / sum(flops), 2) == 0.92 and round(sum(flops) / 1e6) == 1449

# %% [markdown] slideshow={"slide_type": "slide"}
# **Memory.** Write $dY$ for the gradient of the loss with respect to a layer's outputs. The
# gradient of its weights, $dW = X^\mathsf{T}dY$ as in section 2, needs the *input* of the layer. So
# the forward pass has to leave all activations in memory until then. An **activation** is what a
# layer puts out, for example the $55\cdot 55\cdot 96$ numbers after `conv1` for each image.
#
# How much is that? You can ask torch what it really keeps. A hook sees each tensor that the forward
# pass saves for the backward pass. It works on "meta" too.


# %% slideshow={"slide_type": "slide"}
def saved_bytes(network, x):
    """Bytes that are kept for the backward pass, without parameters, by dtype."""
    kept = {}  # by storage, so that two views of the same memory count once

    def keep(tensor):
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        F.cross_entropy(network(x), torch.zeros(len(x), dtype=torch.long))
    for parameter in network.parameters():
        kept.pop(parameter.untyped_storage()._cdata, None)
    by_dtype = {}
    for tensor in kept.values():
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + tensor.nbytes
    return by_dtype


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("02/kept", "How much does torch keep for 128 images?", unit="MB")

# %% slideshow={"slide_type": "fragment"}
with torch.device("meta"):
    saved = saved_bytes(alexnet(groups=2), torch.empty(128, 3, 227, 227))
for dtype, nbytes in saved.items():
    print(f"{dtype}: {nbytes / 1e6:.1f} MB")
reveal("02/kept", sum(saved.values()) / 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It keeps 605 MB. Of these, 479 MB are the input and every output once, to the byte. (ReLU sets
# negative numbers to zero in its input, so it costs nothing.) The others are integers: pooling
# takes the largest pixel of a window, and remembers *which* it was, in 8 bytes for each output.
#
# On paper you find other sums: with the outputs of the first four layers twice, it is 782 MB [5].
# Neither is what torch keeps. **A formula for memory is a convention until you have measured it.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
first = 227 * 227 * 3 + 55 * 55 * 96 * 2 + 96 * 27 * 27 * 2 + 256 * 27 * 27 * 2
rest = 256 * 13 * 13 * 2 + 13 * 13 * 384 * 2 + 256 * 13 * 13 + 6 * 6 * 256 + 4096 * 2 + 1000
on_paper = first + rest  # numbers of an image, with the first four outputs twice
once = 3 * 227 * 227 + sum(row.num_out for row in layers)
assert 4 * 128 * on_paper == 781_616_640 and round(4 * 128 * on_paper / 1e6) == 782
assert on_paper == once + sum(row.num_out for row in layers[:4])  # conv1, pool1, conv2, pool2
assert 4 * 128 * once == 479_397_376 and round(4 * 128 * once / 1e6) == 479
pooled = sum(row.num_out for row in layers if row.kind == "MaxPool2d")
assert saved[torch.float32] == 4 * 128 * once + 4  # and one number of the loss's own
assert saved[torch.int64] == 8 * 128 * pooled + 8 * 128  # and the labels
assert round(sum(saved.values()) / 1e6) == 605 and round(saved[torch.int64] / 1e6) == 125

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Why there were two cards.** Training holds more than activations. The gradients of the
# activations are as large as the activations. For each parameter there are three numbers: the
# weight, its gradient and its velocity (section 11).

# %% slideshow={"slide_type": "fragment"}
parameter_bytes = 4 * num_parameters
training_bytes = 2 * 781_616_640 + 3 * parameter_bytes
print(f"parameters {parameter_bytes / 1e6:.0f} MB")
print(f"training {training_bytes / 1e9:.2f} GB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With the count on paper that makes 2.3 GB, before any workspace. A card of 2012 had 3 GB. The
# authors give the memory as the reason why they partitioned AlexNet [7].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(parameter_bytes / 1e6) == 244 and round(training_bytes / 1e9, 1) == 2.3
assert training_bytes == 2 * 4 * 128 * on_paper + 3 * parameter_bytes

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 7. The roofline
#
# A processor has two speeds: $F$ FLOP in a second, and $R$ bytes in a second from memory. A layer
# that does $Q$ FLOP and moves $M$ bytes takes at least
#
# $$\max\left(\frac{Q}{F},\; \frac{M}{R}\right) \text{ seconds},
# \qquad\text{so it reaches at most}\qquad
# \min\left(F,\; \frac{Q}{M}\,R\right) \text{ FLOP/s}.$$
#
# $Q/M$ is called the **arithmetic intensity** of the layer: the FLOP for each byte. Drawn over the
# intensity, the bound looks like a roof [9]. It is a slope where memory limits, and then it is
# flat. At the corner the two speeds balance.

# %% slideshow={"slide_type": "fragment"}
a100 = ringside.Machine.load("zaratan")  # a rank is an A100 in float32, no tensor cores
corner = a100.flop_per_s / a100.memory_bytes_per_s
print(f"{a100.flop_per_s / 1e12:g} TFLOP/s, {a100.memory_bytes_per_s / 1e9:g} GB/s")
print(f"corner at {corner:.1f} FLOP a byte: {4 * corner:.0f} for each float32")

# %% [markdown] slideshow={"slide_type": "fragment"}
# For each number that it reads from memory, an A100 wants to do 50 FLOP. An addition of two
# vectors does a third of a FLOP for each number that it moves. A matrix product can reach 50,
# *if its numbers are used again and again*. How often are they used? A linear layer of $d$ by $d'$
# weights does $2Bdd'$ FLOP, and moves $4(dd' + Bd + Bd')$ bytes. While $B$ is small, the weights
# dominate:
#
# $$\frac{Q}{M} = \frac{2Bdd'}{4(dd' + Bd + Bd')} \approx \frac{B}{2} .$$
#
# So the intensity of a linear layer is half its batch size.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(corner, 1) == 12.5 and round(4 * corner) == 50


# %% slideshow={"slide_type": "fragment"}
def work(row, B):
    """FLOP and bytes of a layer's forward pass; every number is moved once."""
    nbytes = 4 * (row.parameters + B * (row.num_in + row.num_out))
    return 2 * row.weights * row.positions * B, nbytes


def intensity(row, B):
    num_flops, nbytes = work(row, B)
    return num_flops / nbytes


def roofline(intensity, machine=a100):
    return np.minimum(machine.flop_per_s, intensity * machine.memory_bytes_per_s)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/one-image",
    "With one image, how much of its peak does an A100 reach at most on the layer fc6?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
share = {}
for name in ("fc6", "conv2"):
    row = layers[NAMES.index(name)]
    for B in (1, 128):
        share[name, B] = roofline(intensity(row, B)) / a100.flop_per_s
        print(f"{name:5} with {B:3} images: at most {share[name, B]:.0%} of the peak")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_roofline():
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8.5, 6.2), sharex=True)
    x = np.geomspace(0.3, 1000, 200)
    top.loglog(x, roofline(x) / 1e12, color="#1b1f24", linewidth=2)
    for B in 2 ** np.arange(8):
        spot = intensity(layers[8], B), roofline(intensity(layers[8], B)) / 1e12  # fc6
        top.plot(*spot, "o", color="#d55e00")
        top.annotate(B, spot, (5, -14), textcoords="offset points")
    with_weights = [(name, row) for name, row in zip(NAMES, layers) if row.weights]
    for place, (_, row) in enumerate(with_weights):
        color = "#0072b2" if row.kind == "Conv2d" else "#d55e00"
        ends = [intensity(row, 1), intensity(row, 128)]
        bottom.plot(ends, [place] * 2, "o-", color=color)
    bottom.set_yticks(range(8), [name for name, _ in with_weights])
    bottom.invert_yaxis()
    return figure, top, bottom


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, top, bottom = draw_roofline()
top.set(ylim=(0.4, 40), ylabel="TFLOP/s, at most")
top.text(1.0, 2.6, "memory limits", rotation=29, fontsize=10, color="#57606a")
top.text(120, 23, "arithmetic limits", fontsize=10, color="#57606a")
top.set_title("fc6 with 1 to 128 images", fontsize=10, loc="left")
bottom.set(xlabel="intensity (FLOP for each byte moved)")
bottom.set_title("all layers: from 1 image (left dot) to 128 (right dot)", fontsize=10, loc="left")
for axis in (top, bottom):
    axis.axvline(corner, color="#57606a", linestyle=":")
show(
    figure,
    "Above, the roofline of an A100: a slope up to 12.5 FLOP a byte, then flat at 19.5 "
    "TFLOP/s. The layer fc6 climbs the slope with 1, 2, 4, 8 and 16 images and stands on the flat "
    "part from 32. Below, the range of each AlexNet layer from 1 to 128 images: the five "
    "convolutions lie right of the corner, the three linear layers begin far left of it.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("02/one-image", 100 * share["fc6", 1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. The roofline of an A100, and where the layers of AlexNet stand on it. Convolutions are
# blue, linear layers are orange.*
#
# With one image fc6 reaches at most 4 % of the peak, because each weight is fetched from memory to
# be used once. With 128 images it is used 128 times, and your linear layers reach the roof. The
# convolutions stand under the flat roof even with one image, because a kernel is used again at
# every position. **Batching turns a linear layer from a memory problem into an arithmetic
# problem.**

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(share["fc6", 1], 2) == 0.04 and share["fc6", 128] == 1
assert share["conv2", 1] == share["conv2", 128] == 1

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 8. AlexNet, 2012: bound and measurement
#
# How good is such a count? AlexNet's training made about 90 passes over 1.2 million images, on two
# cards of the type `GTX 580` [7]. The number of their cores and the clock are public [10]: 512
# cores at 1.544 GHz. A core does two FLOP in a tick.


# %% slideshow={"slide_type": "fragment"}
def training_flops(flops):
    """Forward, dW and dX of each layer; nobody needs the gradient of the images."""
    return sum(flops) + sum(flops) + sum(flops[1:])


gtx580 = 512 * 2 * 1.544e9  # FLOP/s of one card
total = 90 * 1.2e6 * training_flops(flops)
print(f"{total:.2e} FLOP in all, on 2 x {gtx580 / 1e12:.2f} TFLOP/s")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("02/alexnet-days", "How long would it take at the peak of both?", unit="days")

# %% slideshow={"slide_type": "fragment"}
bound_days = total / (2 * gtx580) / 86_400
print(f"at least {bound_days:.1f} days")
shares_reached = bound_days / 6, bound_days / 5
print("5 to 6 days are {:.0%} to {:.0%} of the peak".format(*shares_reached))
reveal("02/alexnet-days", bound_days)

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# **This closes the question of the beginning.** At the peak it would take 1.6 days. It took 5 to 6,
# which is 27 to 33 % of the peak [7]. A bound should behave like that: the measurement lies above
# it, and not by an order of magnitude. And there were two cards because training wants 2.3 GB and
# more (section 6), and a card had 3 GB.

# %% slideshow={"slide_type": "skip"} tags=["checked", "systems"]
assert round(bound_days, 1) == 1.6 and round(gtx580 / 1e12, 2) == 1.58
assert round(bound_days / 6, 2) == 0.27 and round(bound_days / 5, 2) == 0.33
assert gtx580 == 512 * 2 * 1.544e9 and round(total / 1.2e6 / training_flops(flops)) == 90
assert total / 90 / training_flops(flops) == 1.2e6 and round(training_bytes / 1e9, 1) == 2.3

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 9. Where these models break
#
# - **The quadratic bowl** is exact for one linear layer and a squared error. In a network $H$
#   changes as you move, and the border with it. This is why a *warm-up* of the learning rate helps
#   (lecture 4).
# - **The scatter formula** is exact for one step. It doesn't say what noise does to the network
#   that comes out at the end. A lower training loss is not a better network.
# - **FLOP** count the definition of an operation, not what the library does instead. By this count
#   a GPU of 2017 reached *more* than its peak
#   ([AlexNet and VGG-16](systems.md#alexnet-and-vgg-16)).
# - **Bytes** were counted as if each number moved once. A product that is too large for the caches
#   moves them more often. Fused operations move them less often.
# - **The roofline** is an upper bound. It knows no start-up, no shape that fills a processor badly,
#   and no clock that is lowered when the chip gets hot.
# - **Memory** for workspaces, for fragments and for the library itself is in no formula at all.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. Summary
#
# | quantity | formula | checked by |
# |---|---|---|
# | gradient of a layer $Y = XW + b$ | $dW = X^\mathsf{T}dY$, $dX = dY\,W^\mathsf{T}$ | finite differences, torch |
# | border of the learning rate, with momentum (section 11) | $2(1+\mu)/\lambda_\text{max}$ | runs 1 % below and above |
# | work of momentum | as $\eta/(1-\mu)$ | two runs that agree |
# | scatter of a mini-batch | $\frac{\sigma^2}{B}\cdot\frac{N-B}{N-1}$ | 400 draws |
# | FLOP forward, training | $2\cdot$weights$\cdot$positions$\cdot B$; 3 times that | torch's counter |
# | activations | every output once, and what else is saved | torch's hooks |
# | time of a layer | the longer of $Q/F$ and $M/R$ | an upper bound on speed |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert len(draws) == 400

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11. Momentum
#
# Give the weights inertia [2]. A velocity adds up the gradients, and forgets a part $1-\mu$ of
# itself in each step:
#
# $$V \leftarrow \mu V + G, \qquad W \leftarrow W - \eta V .$$
#
# In a direction where the gradient keeps its sign, the velocity grows to
# $1 + \mu + \mu^2 + \dots = 1/(1-\mu)$ gradients. So $\mu = 0.9$ goes ten times as far with the
# same $\eta$. Where the gradient alternates, the velocities cancel. What does that do to the
# border?

# %% [markdown] slideshow={"slide_type": "slide"}
# Look along one eigenvector again, at the error $e_\tau$. The last step was
# $e_\tau - e_{\tau-1} = -\eta v_{\tau-1}$. Use this to eliminate the velocity:
#
# $$e_{\tau+1} = e_\tau + \mu(e_\tau - e_{\tau-1}) - \eta\lambda e_\tau .$$
#
# Try $e_\tau = r^\tau$. Then $r^2 - (1+\mu-\eta\lambda)\,r + \mu = 0$. This equation has two roots,
# with product $\mu < 1$. If they are complex, both have length $\sqrt\mu$, and the error shrinks.
# If they are real, the first one to leave the interval from $-1$ to 1 leaves it at $r = -1$. (At
# $r = 1$ it would need $\eta\lambda = 0$.) Put $r = -1$ into the equation:
#
# $$1 + (1+\mu-\eta\lambda) + \mu = 0 \qquad\text{so}\qquad
# \eta_\text{max} = \frac{2(1+\mu)}{\lambda_\text{max}} .$$

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/momentum-border",
    "By what factor does a momentum of 0.9 move the border?",
    unit="times",
)


# %% slideshow={"slide_type": "fragment"}
def final_losses(momentum, shares):
    """Losses after 200 steps at these parts of the border of plain descent."""
    return np.array([loss(descend(share * lr_max, momentum)[-1]) for share in shares])


shares = np.array([0.005, 0.02, 0.07, 0.2, 0.5, 0.8, 0.99, 1.01])
measured = {mu: final_losses(mu, shares * (1 + mu)) for mu in (0.0, 0.5, 0.9)}
for mu, losses in measured.items():
    print(f"momentum {mu}: 1 % below {losses[-2]:.3f}, 1 % above {losses[-1]:.2g}")
print(f"lowest possible {loss(best):.3f}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.8))
for (mu, losses), color in zip(measured.items(), ("#0072b2", "#009e73", "#d55e00")):
    rates = shares * (1 + mu) * lr_max
    axis.semilogx(rates[:-1], losses[:-1], "o-", color=color, label=f"momentum {mu}")
    axis.semilogx(rates[-1], 0.44, "x", color=color)  # off the scale
    axis.axvline((1 + mu) * lr_max, color=color, linestyle=":")
axis.axhline(loss(best), color="#57606a", linewidth=0.8)
axis.text(0.001, loss(best) - 0.003, "best weights", va="top", fontsize=9, color="#57606a")
axis.set(ylim=(0.13, 0.46), xlabel="learning rate", ylabel="loss after 200 steps")
axis.legend(frameon=False, loc="upper center")
show(
    figure,
    "Loss after 200 steps over the learning rate for momentum 0, 0.5 and 0.9. Each curve falls to "
    "the right and ends at a dotted line, the predicted border; a cross behind the line marks a "
    "run that blew up. With more momentum the curve lies lower and ends further right.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("02/momentum-border", 1 + mu)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. Loss after 200 steps against the learning rate. Dotted lines are the predicted borders. A
# cross marks a run that blew up.*
#
# The border moves by $1+\mu$ only, which is 1.9 times for $\mu = 0.9$. The gain of momentum is at the
# other end: a learning rate ten times smaller does the same work, because the slow directions now
# move with $\eta/(1-\mu)$. The last dots lie 1 % below the border. The crosses lie 1 % above it, and
# are far off the scale.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all(losses[-2] < 0.17 and losses[-1] > 100 for losses in measured.values())
assert round(loss(best), 3) == 0.153 and np.isclose(1 + mu, 1.9)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Move the sliders.** On the left you see the errors of the weights of one digit in the two
# steepest directions, step by step, over lines of equal loss. On the right you see the loss with
# all 65 directions. Find these four: a zigzag; a path that swings past the minimum, like a ball in
# a bowl; a run that passes the border by little; and a learning rate that explodes alone but not
# with momentum.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def picture(lr, momentum):
    path = descend(lr, momentum, num_steps=60)
    errors = np.array([eigenvectors[:, :2].T @ (W - best)[:, 0] for W in path])
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 2.3), gridspec_kw={"wspace": 0.4})
    reach = 1.7 * np.abs(errors[0])
    grid = np.linspace(-reach, reach, 60).T
    height = (eigenvalues[0] * grid[0][:, None] ** 2 + eigenvalues[1] * grid[1] ** 2) / 2
    levels = height.max() * 4.0 ** np.arange(-5, 0)
    left.contour(grid[1], grid[0], height, levels=levels, colors="#d0d7de", linewidths=0.8)
    left.plot(errors[:, 1], errors[:, 0], "o-", color="#d55e00", markersize=2.5, linewidth=0.8)
    left.set(xlim=(-reach[1], reach[1]), ylim=(-reach[0], reach[0]))
    left.set(xlabel="second direction", ylabel="steepest direction", xticks=[0], yticks=[0])
    right.plot([loss(W) for W in path], color="#d55e00")
    right.axhline(loss(best), color="#57606a", linewidth=0.8)
    right.set(ylim=(0.1, 1), xlabel="step", ylabel="loss")
    return figure


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
explore(
    picture,
    alt="Learning rate {lr}, momentum {momentum}: the path of 60 steps in the two steepest "
    "directions over lines of equal loss, and the loss at each step.",
    lr=Knob([0.005, 0.03, 0.16, 0.178, 0.3], start=0.16, label="learning rate"),
    momentum=Knob([0.0, 0.5, 0.95], start=0.0),
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. The first 60 steps, with the learning rate and the momentum that you choose.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert len(eigenvalues) == 65 and len(descend(0.1, 0.0, num_steps=60)) == 60 + 1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. A network: the same thing with more products
#
# Ten weighted sums of pixels can't be better than the best weighted sums. So put two layers behind
# each other. Between them the numbers must be bent, because two matrices in a row are no better than
# one:
#
# $$Z = XW_1 + b_1, \qquad A = \max(Z, 0), \qquad S = AW_2 + b_2 .$$
#
# Scores become probabilities by $P_{ik} = e^{S_{ik}}/\sum_c e^{S_{ic}}$. The loss is the mean of
# $-\log P$ of the right digit. It is called the **cross-entropy**. Then go backward with the chain
# rule, from the end to the start [4]. Write $dS$ for $\partial f/\partial S$, and so on:
#
# $$dS = \tfrac1B(P - T), \qquad dW_2 = A^\mathsf{T}dS, \qquad dA = dS\,W_2^\mathsf{T}, \qquad
# dZ = dA\cdot[Z>0], \qquad dW_1 = X^\mathsf{T}dZ .$$
#
# Every layer $Y = XW + b$ follows one pattern. *Forward is one product*, $XW$. *Backward is two
# products*, $dW = X^\mathsf{T}dY$ and $dX = dY\,W^\mathsf{T}$. And $db$ is the sum of the rows of
# $dY$.

# %% [markdown] slideshow={"slide_type": "slide"}
# In the assignment `a02_sgd` you put this together for any number of layers. Here torch goes
# backward, and you check its work at one layer.


# %% slideshow={"slide_type": "fragment"}
def fresh(width=64, seed=0):
    """Weights and biases of a network 64 - width - 10."""
    rng = np.random.default_rng(seed)
    W1 = rng.normal(size=(64, width)) * np.sqrt(2 / 64)
    W2 = rng.normal(size=(width, 10)) * np.sqrt(1 / width)
    arrays = [W1, np.zeros(width), W2, np.zeros(10)]
    return [torch.tensor(one, requires_grad=True) for one in arrays]


def scores(w, x):
    return torch.relu(x @ w[0] + w[1]) @ w[2] + w[3]


pixels, digits = torch.tensor(images), torch.tensor(labels)

# %% slideshow={"slide_type": "fragment"}
w, B = fresh(), 32
A = torch.relu(pixels[:B] @ w[0] + w[1])
S = A @ w[2] + w[3]
f = F.cross_entropy(S, digits[:B])
dS, dA, dW2, db2 = torch.autograd.grad(f, [S, A, w[2], w[3]])
P, one_hot = torch.softmax(S, dim=1), torch.eye(10)[digits[:B]]
torch.testing.assert_close(dS, (P - one_hot) / B)
torch.testing.assert_close(dW2, A.T @ dS)
torch.testing.assert_close(dA, dS @ w[2].T)
torch.testing.assert_close(db2, dS.sum(dim=0))
print(f"loss before training {f:.2f}; guessing would give log 10 = {np.log(10):.2f}")


# %% slideshow={"slide_type": "slide"}
def step(w, velocity, batch, lr, momentum):
    """One step of stochastic gradient descent with momentum, in place."""
    f = F.cross_entropy(scores(w, pixels[batch]), digits[batch])
    gradients = torch.autograd.grad(f, w)
    with torch.no_grad():
        for one, v, g in zip(w, velocity, gradients):
            v.mul_(momentum).add_(g)  # v = momentum * v + g
            one.sub_(lr * v)  # one = one - lr * v


# %% slideshow={"slide_type": "fragment"}
def train(lr, momentum=0.0, B=32, num_epochs=20):
    """Loss on the training images after each epoch, and the weights."""
    w, rng, losses = fresh(), np.random.default_rng(1), []
    velocity = [torch.zeros_like(one) for one in w]
    for _ in range(num_epochs):
        order = torch.from_numpy(rng.permutation(N))
        for batch in order.split(B):
            step(w, velocity, batch, lr, momentum)
        with torch.no_grad():
            losses.append(F.cross_entropy(scores(w, pixels[:N]), digits[:N]).item())
    return losses, w


def test_accuracy(w):
    right = scores(w, pixels[N:]).argmax(dim=1) == digits[N:]
    return right.double().mean().item()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "02/network-too-high",
    "The learning rate is far too high, 3. Where does the loss of this network end?",
    choices=["at infinity", "near log 10, the loss of guessing", "near zero"],
)

# %% slideshow={"slide_type": "fragment"}
trained = {lr: train(lr) for lr in (0.003, 0.03, 0.3, 3.0)}
for lr, (losses, w) in trained.items():
    print(f"learning rate {lr:5}: loss {losses[-1]:.3f}, {test_accuracy(w):.0%} right")
end = trained[3.0][0][-1]
near_guessing = abs(end - np.log(10)) < 0.5
words = "near log 10, the loss of guessing" if near_guessing else "near zero"

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.4))
for (lr, (losses, _)), color in zip(trained.items(), ("#a6cee3", "#56b4e9", "#0072b2", "#d55e00")):
    axis.semilogy(range(1, 21), losses, "o-", markersize=3, color=color)
    axis.text(20.4, losses[-1], f"{lr:g}", color=color, va="center", fontsize=10)
axis.axhline(np.log(10), color="#57606a", linestyle=":")
axis.text(0.3, 2.5, "guessing", color="#57606a", fontsize=9)
axis.set(xlabel="epoch", ylabel="loss (cross-entropy)", xticks=range(0, 21, 5), ylim=(0.03, 3.5))
axis.set_title("by learning rate", fontsize=10, loc="right")
show(
    figure,
    "Training loss of the network over 20 epochs for four learning rates: 0.003 falls slowly, 0.03 "
    "faster, 0.3 gets far below 0.1, and 3 stays at the loss of guessing.",
)

# %% slideshow={"slide_type": "fragment"}
reveal("02/network-too-high", words if np.isfinite(end) else "at infinity")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. Training loss of a network with two layers, for four learning rates.*
#
# A rate of 3 is too high, but the loss doesn't explode: it ends near log 10 = 2.30. The first steps
# throw the weights so far that no unit ever answers again, and your network guesses for ever. **The
# sign to look for is a loss that *stays* at log 10.** Otherwise you see what you saw before, though
# nothing is quadratic any more:
#
# | learning rate | digits read after 20 epochs |
# |---|---|
# | 0.003, too low | 73 % |
# | 0.3 | 99 % |
# | (the best weighted sums) | 94 % |
#
# Momentum does here what section 11 says, too: $\eta = 0.03$ with $\mu = 0.9$ ends at the same loss
# as $\eta = 0.3$ without, 0.037.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(one[0][-1], 3) for one in trained.values()][:3] == [1.646, 0.249, 0.037]
assert [round(test_accuracy(one[1]), 2) for one in trained.values()] == [0.73, 0.96, 0.99, 0.09]
assert trained[3.0][0][-1] > np.log(10) and round(accuracy(best), 2) == 0.94
assert round(np.log(10), 2) == 2.30 and list(trained)[:3] == [0.003, 0.03, 0.3]
assert all(len(losses) == 20 for losses, _ in trained.values())
with_momentum, _ = train(0.03, momentum=0.9)
assert round(with_momentum[-1], 3) == 0.037
w = trained[3.0][1]
assert (pixels[:N] @ w[0] + w[1] <= 0).all()  # no unit answers to any image

# %% [markdown] slideshow={"slide_type": "slide"}
# **Batch size and learning rate belong together.** Train for three epochs with each pair of the two.
# Every run sees every image three times.

# %% slideshow={"slide_type": "fragment"}
rates, batches = [0.005, 0.02, 0.08, 0.32, 1.28], [8, 32, 128, 512]
finals = np.empty((len(rates), len(batches)))
for row, lr in enumerate(rates):
    for column, B in enumerate(batches):
        losses, _ = train(lr, B=B, num_epochs=3)
        finals[row, column] = min(losses[-1], np.log(10))  # at worst, that of guessing

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6, 3.6))
axis.imshow(finals, cmap="viridis_r", vmin=0, vmax=np.log(10), origin="lower", aspect="auto")
for (row, column), value in np.ndenumerate(finals):
    color = "white" if value > 1.2 else "black"
    axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=9)
axis.plot(range(4), range(1, 5), "s", markersize=32, markerfacecolor="none", color="white")
axis.set(xlabel="batch size (images)", ylabel="learning rate")
axis.set_xticks(range(4), batches)
axis.set_yticks(range(5), rates)
show(
    figure,
    "Table of the loss after three epochs for five learning rates and four batch sizes, each four "
    "times the one before. Along each diagonal, batch and learning rate four times larger, the "
    "loss stays the same, up to the row of the largest learning rate, 1.28.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. Loss after three epochs for five learning rates and four batch sizes. White squares mark
# one diagonal.*
#
# Go up along a diagonal: four times the batch, and four times the learning rate. You read 0.56, 0.57,
# 0.59. The loss stays nearly the same, with four times fewer steps each time. A step with $B$ images
# replaces many small steps, if it is as long as they are together. This is the **linear scaling
# rule** [12]. It makes data parallelism useful: larger batches learn as much in the same number of
# epochs.
#
# Now look at the top row, where every diagonal ends. You find 0.20 instead of 0.08, 0.45 instead of
# 0.20, and 1.12 instead of 0.59. A learning rate of 1.28 is near its border, whatever the batch is.
# Batches can grow until the learning rate gets there, and no further.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert finals[[1, 2, 3], [0, 1, 2]].round(2).tolist() == [0.56, 0.57, 0.59]
assert finals[[0, 1, 2, 3], [0, 1, 2, 3]].round(2).tolist() == [1.65, 1.65, 1.61, 1.62]
assert [f"{x:.2f}" for x in finals[4, 1:]] == ["0.20", "0.45", "1.12"]
assert [f"{x:.2f}" for x in finals[3, :3]] == ["0.08", "0.20", "0.59"]
assert rates[-1] == 1.28

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. A convolution is a matrix product, in two ways
#
# In an image, a corner is a corner wherever it is. A **convolution** layer uses this. A small
# *kernel* of weights slides over the image, and every position gives one output. Here is the example
# of [6], a 2 by 2 kernel on a 3 by 3 image:
#
# ```text
#  A B C      a b        w = aA + bB + cD + dE      x = aB + bC + cE + dF
#  D E F      c d        y = aD + bE + cG + dH      z = aE + bF + cH + dJ
#  G H J
# ```
#
# The output depends linearly on the image, so a matrix can do it: 9 numbers go in, and 4 come out. To
# find the matrix of any linear map, feed it the unit vectors. What comes out are its columns.


# %% slideshow={"slide_type": "fragment"}
def matrix_of(linear_map, shape):
    """A column for each pixel: the output of an image that is 1 there and 0 elsewhere."""
    columns = []
    for unit in torch.eye(int(np.prod(shape))):
        columns.append(linear_map(unit.reshape(1, 1, *shape)).flatten())
    return torch.stack(columns, dim=1)


torch.set_default_dtype(torch.float64)
kernel = torch.tensor([[1.0, 2.0], [3.0, 4.0]])  # a b / c d
toeplitz = matrix_of(lambda image: F.conv2d(image, kernel[None, None]), (3, 3))
print(toeplitz.int().numpy())
zeros = (toeplitz == 0).sum().item()
print(f"{zeros} of {toeplitz.numel()} entries are zero")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each row is the kernel at one position. It moves to the right as you go down. Such a matrix, with
# the same number along each diagonal of a block, is called a **Toeplitz** matrix.
#
# It is good for *thinking*. For instance, what is the backward pass? For $y = Kx$ it is
# $dx = K^\mathsf{T}dy$. Each row of the transposed matrix collects, for one pixel, all the windows
# that contain it. So where windows overlap, their contributions *add*.

# %% slideshow={"slide_type": "fragment"}
image = torch.tensor(np.arange(9.0).reshape(1, 1, 3, 3), requires_grad=True)
y = F.conv2d(image, kernel[None, None])
dy = torch.tensor([[[[1.0, 10.0], [100.0, 1000.0]]]])
(dx,) = torch.autograd.grad(y, image, dy)
torch.testing.assert_close(y.flatten(), toeplitz @ image.flatten())
torch.testing.assert_close(dx.flatten(), toeplitz.T @ dy.flatten())
print(dx[0, 0].int().numpy())

# %% [markdown] slideshow={"slide_type": "fragment"}
# The middle pixel is in all four windows, and its gradient is 1234: a digit from each window.
#
# One warning: what all libraries call a convolution is a *cross-correlation*. A mathematician's
# convolution turns the kernel round first. For training this makes no difference, since the weights
# are learned. It matters when you compare with NumPy's `convolve`:

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert dx[0, 0, 1, 1].item() == 4 * 1 + 3 * 10 + 2 * 100 + 1 * 1000 == 1234
assert toeplitz.shape == (4, 9) and zeros == 20 and toeplitz.numel() == 36

# %% slideshow={"slide_type": "fragment"}
impulse, kernel3 = np.array([0.0, 0, 1, 0, 0]), np.array([1.0, 2, 3])
x, k = torch.tensor(impulse), torch.tensor(kernel3)
print("numpy.convolve ", np.convolve(impulse, kernel3, "valid"))
print("numpy.correlate", np.correlate(impulse, kernel3, "valid"))
print("torch conv1d   ", F.conv1d(x[None, None], k[None, None]).flatten().numpy())

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why nobody computes it that way.** Take the second convolution of AlexNet [7]. It makes
# $256\times 27\times 27$ numbers from $96\times 27\times 27$. Its kernels are 5 by 5, and zeros are
# added at the edges. The channels are in two groups that don't see each other.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("02/toeplitz", "How large is its Toeplitz matrix in float32?", unit="GB")

# %% slideshow={"slide_type": "fragment"}
rows, columns = 256 * 27 * 27, 96 * 27 * 27
per_row = 48 * 5 * 5  # one group's channels, times the kernel
print(f"{rows:,} x {columns:,} numbers, {4 * rows * columns / 1e9:.0f} GB")
print(f"at most {per_row} numbers of a row are not zero: {per_row / columns:.1%}")
reveal("02/toeplitz", 4 * rows * columns / 1e9)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It has 52 GB, and 98.3 % of them are zeros, for one layer. So turn it round. Leave the *kernels* as
# they are, one row of a small matrix for each output channel. Rearrange the *image*: copy each window
# into a column. This is called **im2col** [8], and torch calls it `unfold`.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(4 * rows * columns / 1e9) == 52 and round(1 - per_row / columns, 3) == 0.983

# %% slideshow={"slide_type": "fragment"}
windows = F.unfold(image.detach(), kernel_size=2)[0]  # (4 numbers, 4 windows)
print(windows.int().numpy())
torch.testing.assert_close(kernel.reshape(1, 4) @ windows, y.reshape(1, 4))

x, k = torch.randn(2, 6, 9, 9), torch.randn(8, 6, 3, 3)  # 2 images, 6 channels to 8
spread = F.unfold(x, 3, padding=1, stride=2)  # (2, 6 * 3 * 3, 5 * 5)
product = k.reshape(8, -1) @ spread
right = F.conv2d(x, k, padding=1, stride=2)
torch.testing.assert_close(product.reshape(2, 8, 5, 5), right)

# %% [markdown] slideshow={"slide_type": "slide"}
# This is one dense product of a small matrix and a long one, and that is what processors do best.
# The price is copies. Each pixel is copied into every window that contains it, up to $5\cdot 5$
# times with 5 by 5 kernels.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("02/im2col", "How large is im2col's matrix for 128 images?", unit="MB")

# %% slideshow={"slide_type": "fragment"}
input_bytes = 128 * 4 * 96 * 27 * 27
spread_bytes = 128 * 4 * (96 * 5 * 5) * (27 * 27)
print(f"input {input_bytes / 1e6:.1f} MB, spread out {spread_bytes / 1e6:.0f} MB")
reveal("02/im2col", spread_bytes / 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes 896 MB, made from 35.8 MB. So libraries build this matrix piece by piece in fast memory,
# and never as a whole (an *implicit* matrix product). Or they work image by image. Or they use
# algorithms that need fewer multiplications ([Winograd's](systems.md#alexnet-and-vgg-16), for
# example).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert spread_bytes == 25 * input_bytes and round(spread_bytes / 1e6) == 896
assert round(input_bytes / 1e6, 1) == 35.8

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Why it stops paying to give each worker fewer images
#
# Take a batch of 128 images and more and more workers. With $p$ workers each takes $128/p$ images.
# Suppose that the network between them costs *nothing*.
#
# A program can declare its work to Ringside's clock. The clock then advances as the roofline says,
# and 5 µs more to start each operation. A training step has three parts: each layer forward, two
# products for each layer backward, and an update. The update reads weight, gradient and velocity,
# and writes two of them back.


# %% slideshow={"slide_type": "fragment"}
# %%writefile step.py
import ringside


def step(comm, works, num_parameters):
    """A worker's training step; works: name, FLOP and bytes of each layer, forward."""
    for name, num_flops, nbytes in works:
        ringside.compute(num_flops=num_flops, nbytes=nbytes, phase=f"forward {name}")
    for name, num_flops, nbytes in reversed(works):
        phase = f"backward {name}"
        ringside.compute(num_flops=2 * num_flops, nbytes=2 * nbytes, phase=phase)
    ringside.compute(nbytes=5 * 4 * num_parameters, phase="update")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("02/sixteen", "How many times faster are 16 workers than one?", unit="times")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("02/all", "And 128 workers with one image each?", unit="times")


# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
def run_step(B):
    works = []
    for name, row in zip(NAMES, layers):
        num_flops, nbytes = work(row, B)
        works.append((name, float(num_flops), float(nbytes)))
    return ringside.run("step.py:step", 1, (works, num_parameters), machine=a100)


runs = {p: run_step(128 // p) for p in (1, 4, 16, 128)}
gains = {p: runs[1].makespan_s / run.makespan_s for p, run in runs.items()}
for p, run in runs.items():
    print(f"{p:3} workers: {run.makespan_s * 1e3:6.2f} ms, {gains[p]:5.1f} times as fast")

# %% slideshow={"slide_type": "slide"}
runs[128].timeline

# %% slideshow={"slide_type": "fragment"}
reveal("02/sixteen", gains[16])
reveal("02/all", gains[128])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 10. A training step of one of 128 workers, with one image. The last bar is the update.*
#
# 16 workers are 9.9 times as fast, and 128 workers 19.3 times, on a network that costs nothing.
# There are two main reasons, and both are in the roofline. First, with few images the linear layers
# slide down the slope. Second, the update takes 0.78 ms however few images there are, because it
# moves every parameter. With one image for each worker the update is half of the step.
#
# So data parallelism is slow long before it reaches its limit of $p = B$ workers. Lecture 3 adds what
# the network costs.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
update_s = 5 * 4 * num_parameters / a100.memory_bytes_per_s
assert round(update_s * 1e3, 2) == 0.78 and 0.5 <= update_s / runs[128].makespan_s < 0.51
assert list(runs) == [1, 4, 16, 128] and round(gains[16], 1) == 9.9 and round(gains[128], 1) == 19.3

# %% [markdown] slideshow={"slide_type": "slide"}
# **One network through the course.** AlexNet is small today. So one larger network goes with you
# through this course: a GPT, which is a network that continues text, with 1652 million parameters
# [13]. Each lecture adds a line to its *ledger*: how long one training step takes, how much of that
# a GPU waits for others, and how much memory it needs. Here is the line for one GPU, with 8
# sequences of 2048 tokens in a step. (A token is a piece of a word.) The model of the machine
# computes at the rate that this network reached when it was measured, 137 TFLOP/s in bf16 [13], and
# not at the peak.

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
from ringside.course.lectures import course_machine, course_step, ledger

traced = course_step(1, reduce="none")
gpt_step_s = ringside.replay(traced.trace, course_machine()).makespan_s
gpt_bytes = max(memory["peak"] for memory in traced.memory)
ledger("02", gpus=1, step_s=gpt_step_s, exposed_s=0.0, memory_bytes=gpt_bytes)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A step takes 1.79 s. No other GPU takes part, so nothing is exposed. It needs 33.9 GB of the 42.4
# GB of this GPU. So the network fits, but one that is a third larger doesn't. The later lectures
# make the step faster and the memory smaller.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from ringside.course.lectures.ledger import REACHED_FLOP_PER_S, SIZES
from ringside.course.lectures.ledger import num_parameters as gpt_parameters

assert round(gpt_step_s, 2) == 1.79 and round(gpt_bytes / 1e9, 1) == 33.9
assert round(gpt_parameters() / 1e6) == 1652 and SIZES["sequence"] == 2048
assert REACHED_FLOP_PER_S == 137e12 and round(a100.memory_bytes / 1e9, 1) == 42.4
assert gpt_bytes < a100.memory_bytes < 4 / 3 * gpt_bytes

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Two puzzles, and your turn
#
# Each program below is right, and wastes something. Change it until it meets its target. Plan ten
# minutes for each. The cell below the program runs it and tells you what is missing.
#
# **Puzzle 1.** A linear layer answers 64 requests on an A100. Torch's operations are counted: their
# FLOP, their bytes, and 5 µs to start each of them. Reach 40 µs. *Section 7 tells how.*

# %% slideshow={"slide_type": "fragment"}
# %%writefile requests.py
import torch


def answers(group, weights, images):
    """One row of scores for each image."""
    scores = [weights @ image for image in images]
    return torch.stack(scores)


# %% slideshow={"slide_type": "fragment"}
layer = np.arange(1024 * 1024, dtype=np.float32).reshape(1024, 1024) % 7
requests = np.arange(64 * 1024, dtype=np.float32).reshape(64, 1024) % 5
puzzle(
    "requests.py:answers",
    1,
    (layer, requests),
    machine="zaratan",
    expected=[requests @ layer.T],
    at_most_us=40,
    hint="How often is each weight read? How many operations are started?",
)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile requests_solved.py
import torch


def answers(group, weights, images):
    """One product for all: every weight is read once, and one operation is started."""
    return images @ weights.T


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
solved = puzzle(
    "requests_solved.py:answers",
    1,
    (layer, requests),
    machine="zaratan",
    expected=[requests @ layer.T],
    at_most_us=40,
    draw=False,
)
assert solved.solved and len(requests) == 64 and solved.time_us < 40

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2.** The program finds the gradient over eight pieces of a batch. It holds 8 times the
# activations that it needs at a time. Let it hold at most 4 MB, with the same gradient. *When does
# torch let go of an activation?*

# %% slideshow={"slide_type": "fragment"}
# %%writefile pieces.py
import torch


def gradient(group, num_pieces):
    """Sum of all elements of the gradient, over pieces of 256 samples."""
    w = torch.full((128, 128), 0.01, requires_grad=True)
    loss = torch.zeros(())
    for _piece in range(num_pieces):
        x = torch.ones(256, 128)
        for _layer in range(6):
            x = torch.tanh(x @ w)
        loss = loss + x.mean()
    loss.backward()
    return w.grad.sum().item()


# %% slideshow={"slide_type": "fragment"}
whole = puzzle(
    "pieces.py:gradient",
    1,
    (8,),
    at_most_memory_bytes=4_000_000,
    hint="The gradient of a sum is a sum of gradients, and backward() adds to w.grad.",
)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile pieces_solved.py
import torch


def gradient(group, num_pieces):
    """Backward after each piece: its activations are freed before the next one begins."""
    w = torch.full((128, 128), 0.01, requires_grad=True)
    for _piece in range(num_pieces):
        x = torch.ones(256, 128)
        for _layer in range(6):
            x = torch.tanh(x @ w)
        x.mean().backward()
    return w.grad.sum().item()


# %% slideshow={"slide_type": "skip"} tags=["hide-input", "checked"]
solved = puzzle(
    "pieces_solved.py:gradient",
    1,
    (8,),
    expected=[whole.values[0]],
    at_most_memory_bytes=4_000_000,
    rtol=1e-4,
    draw=False,
)
assert solved.solved and not whole.solved

# %% [markdown] slideshow={"slide_type": "slide"}
# **Your turn.** The assignment `a02_sgd` has four modules. `sgd` is section 12 for any number of
# layers, by hand. `conv` is section 13: Toeplitz and im2col, forward and backward. `account` is
# sections 6 and 7 as formulas, without torch to count for you. `sgd_torch` is the same training in
# torch, with the same numbers. It needs one process and real data, and its checks run in seconds.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 16. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** In many texts the loss is the mean of $(y - \hat y)^2$, without our
# factor $\frac12$. Where is the border of the learning rate then, for the digits? And where is it if
# somebody forgets to divide the pixels by 16?
#
# <details><summary>Answer</summary>
#
# The gradient doubles, so the border halves: $1/\lambda_\text{max} = 0.087$. With pixels from 0 to
# 16, $H$ is up to 256 times larger (the part of the constant is not), $\lambda_\text{max} = 2682$,
# and the border of section 3 falls to 0.00075. A learning rate belongs to a loss, to its scale and
# to the scale of the data. By itself it means nothing.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
raw = np.column_stack([16 * images[:N], np.ones(N)])
H_raw = raw.T @ raw / N
steepest = np.linalg.eigvalsh(H_raw)[-1]
assert round(1 / eigenvalues[0], 3) == 0.087 and np.isclose(H_raw[20, 20] / H[20, 20], 256)
assert round(steepest) == 2682 and round(2 / steepest, 5) == 0.00075

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague trains with $\eta = 0.1$ and without momentum, and hears that
# $\mu = 0.9$ is usual. Which $\eta$ should he take to get the same training, only smoother? What
# happens on the digits if he leaves $\eta = 0.1$? And what at $\eta = 0.34$?
#
# <details><summary>Answer</summary>
#
# He should take $\eta(1-\mu)$, so 0.01. After 200 steps the losses are 0.1704 and 0.1705. With 0.1
# he goes ten times as far, and the border, now $1.9\cdot 0.1745 = 0.3315$, is far away. The loss is
# 0.155, which is better. With 0.34 he is past the border.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(loss(descend(0.1)[-1]), 4) == 0.1704 and len(descend(0.1)) == 200 + 1
assert round(loss(descend(0.01, 0.9)[-1]), 4) == 0.1705 and round(1.9 * lr_max, 4) == 0.3315
assert round(loss(descend(0.1, 0.9)[-1]), 3) == 0.155 and loss(descend(0.34, 0.9)[-1]) > 1e20

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** Do this by hand, for the first layer of AlexNet: 3 channels of $227\times 227$, 96
# kernels of 11 by 11, stride 4, no padding. How many parameters has it? How many FLOP does it do
# for one image? How many bytes of output does it make for 128 images in float32?
#
# <details><summary>Answer</summary>
#
# There are $3\cdot 11\cdot 11 = 363$ weights for each kernel, 34,848 in all, and 96 biases. That
# makes 34,944 parameters. The output is $(227-11)/4 + 1 = 55$ wide, so it has 3025 positions. The
# layer does $2\cdot 34848\cdot 3025 = 210.8$ million FLOP. The output takes
# $128\cdot 96\cdot 3025\cdot 4 = 148.7$ MB.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
first = layers[0]
assert first.weights == 34_848 == 96 * 363 and first.parameters == 34_944
assert first.parameters - first.weights == 96 and first.positions == 3025
assert round(flops[0] / 1e6, 1) == 210.8 and round(4 * 128 * first.num_out / 1e6, 1) == 148.7

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** From which batch size on can `fc6` (9216 to 4096) run at full speed on the A100,
# in float32? With 16-bit numbers and tensor cores the same chip does 312 TFLOP/s [6]. From which
# batch size on then? What does that mean for data parallelism on faster and faster chips?
#
# <details><summary>Answer</summary>
#
# Set $\frac{2Bdd'}{w(dd' + B(d + d'))}$ equal to the corner, with $w$ bytes for each number, and
# solve for $B$. In float32 the corner is at 12.5, and $B = 26$. With 16 bits the corner is at
# 200.6. Each number has half the bytes, and $B = 216$. The arithmetic of chips grows faster than
# their memory. So each new chip needs a *larger* part of the batch to be busy. Data parallelism
# over many of them needs very large batches. The assignment `a04_data_parallel` asks whether those
# still learn.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def full_speed_from(flop_per_s, width, d=9216, d_out=4096):
    corner = flop_per_s / a100.memory_bytes_per_s
    return corner, corner * width * d * d_out / (2 * d * d_out - corner * width * (d + d_out))


(corner32, B32), (corner16, B16) = full_speed_from(19.5e12, 4), full_speed_from(312e12, 2)
assert round(corner32, 1) == 12.5 and np.ceil(B32) == 26 and layers[8].num_in == 9216
assert round(corner16, 1) == 200.6 and round(B16) == 216 and layers[8].num_out == 4096
assert round(corner16 * a100.memory_bytes_per_s / 1e12) == 312

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** Subtract from every image the mean of all images, before training. What happens to
# the border of the learning rate, and why? Does the best loss change?
#
# <details><summary>Answer</summary>
#
# The steepest direction was the mean image (section 3). Without it the next ones remain, 0.70 and
# less, and the constant, whose eigenvalue is exactly 1. The border goes to 2, which is 11.5 times
# as high. The best loss stays, since the constant can make up for the mean. 200 steps close to the
# new border give 0.154, and 200 steps close to the old one give 0.163. This is why inputs are
# normalised [11]. It costs one subtraction.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
centred = np.column_stack([images[:N] - images[:N].mean(axis=0), np.ones(N)])
top = np.linalg.eigvalsh(centred.T @ centred / N)[::-1]
W = W0
for _ in range(200):
    W = W - 1.9 * centred.T @ (centred @ W - T) / N
assert np.allclose(top[:2], [1, 0.70], atol=0.005) and np.isclose(2 / top[0], 2)
assert round(2 / lr_max, 1) == 11.5
assert round(((centred @ W - T) ** 2).sum() / (2 * N), 3) == 0.154
assert round(loss(descend(0.99 * lr_max)[-1]), 3) == 0.163
again = np.linalg.lstsq(centred, T, rcond=None)[0]
assert np.isclose(((centred @ again - T) ** 2).sum() / (2 * N), loss(best))

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. E. Alpaydin, C. Kaynak. Optical recognition of handwritten digits. UCI Machine Learning
#    Repository, 1998. The test set.
# 2. B. T. Polyak. Some methods of speeding up the convergence of iteration methods. USSR
#    Computational Mathematics and Mathematical Physics 4(5), 1–17, 1964.
# 3. H. Robbins, S. Monro. A stochastic approximation method. Annals of Mathematical Statistics
#    22(3), 400–407, 1951.
# 4. D. E. Rumelhart, G. E. Hinton, R. J. Williams. Learning representations by back-propagating
#    errors. Nature 323, 533–536, 1986.
# 5. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 6. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 7. A. Krizhevsky, I. Sutskever, G. E. Hinton. ImageNet classification with deep convolutional
#    neural networks. Advances in Neural Information Processing Systems 25, 2012.
# 8. K. Chellapilla, S. Puri, P. Simard. High performance convolutional neural networks for document
#    processing. Tenth International Workshop on Frontiers in Handwriting Recognition, La Baule,
#    2006.
# 9. S. Williams, A. Waterman, D. Patterson. Roofline: an insightful visual performance model for
#     multicore architectures. Communications of the ACM 52(4), 65–76, 2009.
# 10. Nvidia GeForce GTX 580 review. bit-tech.net, November 2010. Page 2, specifications.
# 11. Y. LeCun, L. Bottou, G. B. Orr, K.-R. Müller. Efficient BackProp. In: Neural Networks: Tricks
#     of the Trade, Lecture Notes in Computer Science 1524, Springer, 1998.
# 12. P. Goyal, P. Dollár, R. Girshick, P. Noordhuis, L. Wesolowski, A. Kyrola, A. Tulloch, Y. Jia,
#     K. He. Accurate, large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677, 2017.
# 13. D. Narayanan and others. Efficient large-scale language model training on GPU clusters using
#     Megatron-LM. SC '21, 2021. arXiv:2104.04473. Table 1, first row.
#
# Read next: [11] for section 3 and for practice that still holds; G. Goh, Why momentum really
# works, Distill, 2017, for section 11 with more sliders; [9] for rooflines of real machines; and L.
# Bottou, F. E. Curtis, J. Nocedal, Optimization methods for large-scale machine learning, SIAM
# Review 60(2), 223–311, 2018, for everything that stochastic gradients can be proved to do.
