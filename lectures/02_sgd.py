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
# Before you can divide a computation among many processors you have to know it on one. Training a
# network is a loop of three lines: multiply matrices to get a loss, multiply matrices to get its
# gradient, take a step. This lecture takes the loop apart, on one processor, until you can predict
# everything about it that matters later: when it diverges, how much it computes, how much memory
# it holds, and which parts of it a processor does quickly.

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["aims"]
# **After this lecture you can**
#
# - derive the gradient of a loss, and check it so that you can trust it;
# - compute the learning rate at which training blows up, with and without momentum, and watch it
#   happen at that number;
# - say what a mini-batch costs in accuracy of the gradient and what it gains in steps;
# - write layers, convolutions among them, as matrix products, in two ways, and say why one is used
#   and the other is not;
# - count a network's parameters, operations and activation memory, and check them with torch;
# - tell from the roofline which layers will use your processor, which will not, and why giving each
#   worker fewer samples stops paying.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** Python, NumPy, derivatives of functions of several variables, and what an
# eigenvector is. You need not have trained a network before,
# nor seen MPI: section 7 uses one call of it and explains that. [Lecture 3](03_allreduce.ipynb) opens up this call.
#
# **How to read.** Some programs have a line above them that starts with *Predict*. Write down your
# answer before you look. The data is real (handwritten digits that come with scikit-learn),
# and every number in the text is checked by a cell above it.
#
# **For teachers.** Sections 1 to 7 and 8 to 13 are a session each. Collect the predictions of
# sections 3 (three learning rates), 7 (sum or mean) and 11 (sixteen workers).

# %% [markdown] slideshow={"slide_type": "subslide"}
# **One notation.** Slides on this subject use $\alpha$ for the learning rate, and other slides in
# the same deck use it for the latency of a network; $N$ is the number of samples, of parameters, or
# of workers. Here:
#
# | sign | meaning |
# |---|---|
# | $\eta$, $\mu$ | learning rate, momentum |
# | $N$, $B$ | number of samples; batch size, the samples of one step |
# | $X$, $W$, $T$ | samples (a row each), weights, targets |
# | $f$, $G$ | loss, and its gradient by the weights |
# | $\lambda$ | an eigenvalue: how strongly the loss curves in one direction |
# | $p$ | number of workers (ranks) |
# | FLOP | one floating-point operation; a multiplication and an addition are two |

# %% slideshow={"slide_type": "skip"}
import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import ringside
from ringside.lectures import Knob, explore, show

os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: which digit is it?
#
# Thirteen people wrote digits into forms. A scanner saw dots, and each digit became 8 by 8 numbers
# from 0 to 16: how many dots of a little square are black [1]. You have nearly two thousand of them,
# and what they are. Write a program that is given $8\cdot 8$ numbers and says which digit they show.
#
# Nobody knows how to write down rules for that. So *choose the program by its results*: take a
# formula with many free numbers in it, and look for the numbers that give the right answers.

# %% slideshow={"slide_type": "fragment"}
images, labels = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(labels))
images, labels = images[order] / 16, labels[order]  # pixels from 0 to 1
N = 1437  # to learn from; the others are for testing and never used before
print(f"{len(images)} images of {images.shape[1]} pixels, {len(images) - N} of them for testing")
assert images.shape == (1797, 64) and N == 1437 and len(images) - N == 360

figure, axes = plt.subplots(2, 10, figsize=(9, 2.1))
for digit, column in enumerate(axes.T):
    for axis, place in zip(column, np.flatnonzero(labels == digit)):
        axis.imshow(images[place].reshape(8, 8), cmap="gray_r")
        axis.axis("off")
show(
    figure,
    "Two handwritten examples of each digit from 0 to 9, on 8 by 8 pixels of 17 shades of grey.",
)


# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 2. From a loss to a gradient
#
# The plainest formula: each of the ten digits gets a *score*, a weighted sum of the pixels and a
# constant, and the largest score wins. Put an image and a 1 (for the constant) into a row $x$ of
# $64 + 1$ numbers; then the scores are $xW$ with $65\cdot 10$ weights. All $N$ images together are one matrix
# product, $XW$. Let the score of the right digit be 1 and the others 0: that is the target, a row
# $t$ with a single 1. How wrong the weights are is the **loss**
#
# $$f(W) = \frac{1}{2N}\sum_{i=1}^{N} \lVert x_i W - t_i\rVert^2 .$$

# %% slideshow={"slide_type": "fragment"}
X = np.column_stack([images[:N], np.ones(N)])  # (N, 65)
T = np.eye(10)[labels[:N]]  # (N, 10)
X_test = np.column_stack([images[N:], np.ones(360)])


def loss(W):
    return ((X @ W - T) ** 2).sum() / (2 * N)


def accuracy(W):
    return ((X_test @ W).argmax(axis=1) == labels[N:]).mean()


W0 = np.zeros((65, 10))
print(f"{W0.size} weights, all zero: loss {loss(W0)}, {accuracy(W0):.0%} of the test right")
assert W0.size == 650 and loss(W0) == 0.5

# %% [markdown] slideshow={"slide_type": "slide"}
# **The gradient**, one weight at a time. The weight $W_{jk}$ appears in the score $k$ of every
# image, multiplied by pixel $j$. By the chain rule
#
# $$\frac{\partial f}{\partial W_{jk}} = \frac1N\sum_i X_{ij}\,(XW - T)_{ik}
# \qquad\text{that is}\qquad G = \frac1N X^\mathsf{T}(XW - T) .$$
#
# The sum over images is a matrix product again. So forward is one product, backward is another,
# and you will see this for every layer of every network.
#
# A gradient that is a little wrong still trains, only worse. So check it, always. The definition of
# the derivative is the oracle: nudge one weight, look at the loss.


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
assert np.abs(slopes - gradient(W)).max() < 1e-8 < np.abs(slopes).max()
print(f"{W.size} weights, largest difference below 1e-8")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. Gradient descent, and where it blows up
#
# The gradient points uphill. So go the other way: $W \leftarrow W - \eta\,G$. How far, says the
# **learning rate** $\eta$.
#
# *Predict: 200 steps with each of three learning rates, 0.001, 0.15 and 0.18. Which one gives the
# best weights?*


# %% slideshow={"slide_type": "fragment"}
def descend(lr, momentum=0.0, num_steps=200):
    """The weights before each step and after the last; momentum is for section 4."""
    W = velocity = W0
    path = [W]
    for _ in range(num_steps):
        velocity = momentum * velocity + gradient(W)
        W = W - lr * velocity
        path.append(W)
    return path


for lr in (0.001, 0.15, 0.18):
    path = descend(lr)
    print(f"learning rate {lr:5}: loss {loss(path[-1]):8.2g}, {accuracy(path[-1]):.0%} right")

# %% slideshow={"slide_type": "skip"}
ends = {lr: descend(lr)[-1] for lr in (0.001, 0.15, 0.18)}
assert round(accuracy(ends[0.15]), 2) == 0.95 and round(accuracy(ends[0.18]), 2) == 0.13
assert round(loss(ends[0.001]), 2) == 0.42 and loss(ends[0.18]) > 1e9

# %% [markdown] slideshow={"slide_type": "fragment"}
# Too low: after 200 steps the loss is at 0.42, still near the start. Too high: it is astronomical.
# Between 0.15, which reads 95 % of the digits, and 0.18, which destroys everything, there must be a
# border, and it is sharp. Where is it?

# %% [markdown] slideshow={"slide_type": "slide"}
# **Multiply out.** With $H = X^\mathsf{T}X/N$ the gradient is $G = HW - X^\mathsf{T}T/N$, and it is
# zero at the best weights $W^*$. Subtract: $G = H(W - W^*)$. So a step of gradient descent does
# something very plain to the *error* $E = W - W^*$:
#
# $$E_{t+1} = E_t - \eta H E_t = (I - \eta H)\,E_t .$$
#
# $H$ is symmetric, so it has perpendicular eigenvectors. Look along one of them, with eigenvalue
# $\lambda$: there each step multiplies the error by the number $1 - \eta\lambda$. After $t$ steps
#
# $$f(W_t) - f(W^*) = \frac12\sum_j \lambda_j\,(1-\eta\lambda_j)^{2t}\,\lVert c_j\rVert^2,
# \qquad c_j = v_j^\mathsf{T}(W_0 - W^*) .$$
#
# This is a formula for the whole training curve. It shrinks if $|1-\eta\lambda| < 1$ for every
# eigenvalue, so the border is
#
# $$\eta_\text{max} = \frac{2}{\lambda_\text{max}} .$$

# %% slideshow={"slide_type": "fragment"}
H = X.T @ X / N
eigenvalues, eigenvectors = np.linalg.eigh(H)
eigenvalues, eigenvectors = eigenvalues[::-1], eigenvectors[:, ::-1]  # largest first
best = np.linalg.lstsq(X, T, rcond=None)[0]
lr_max = 2 / eigenvalues[0]
print("largest eigenvalues", np.round(eigenvalues[:4], 2), f"-> border at {lr_max:.4f}")

c = eigenvectors.T @ (W0 - best)
for lr in (0.001, 0.15, 0.18):
    factors = (1 - lr * eigenvalues) ** (2 * np.arange(201)[:, None])  # (steps, directions)
    formula = loss(best) + 0.5 * factors @ (eigenvalues * (c**2).sum(axis=1))
    np.testing.assert_allclose([loss(W) for W in descend(lr)], formula, rtol=1e-9)
assert round(lr_max, 4) == 0.1745 and np.allclose(eigenvalues[:2].round(2), [11.46, 0.70])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The border is at 0.1745, and the formula gives all three curves, at every step, to nine digits. The
# curve that blew up, too: divergence is as regular as convergence.
#
# *Predict: 1 % below the border, and 1 % above. What do 200 steps give?*

# %% slideshow={"slide_type": "slide"}
figure, axis = plt.subplots(figsize=(8, 3.8))
for share, color in [(0.02, "#a6cee3"), (0.2, "#56b4e9"), (0.9, "#0072b2"), (0.99, "#5c4d9a"),
                     (1.01, "#d55e00"), (1.03, "#a61c00")]:  # fmt: skip
    curve = [loss(W) for W in descend(share * lr_max)]
    axis.plot(curve, color=color, label=f"{share:g} of the border")
axis.set(yscale="log", ylim=(0.1, 1e3), xlabel="step", ylabel="loss")
axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
show(figure, "Loss over 200 steps for six learning rates. Below the border the loss falls, slowest"
     " at 0.02 of it; 0.9 and 0.99 can hardly be told apart. At 1.01 and 1.03 of the "
     "border it falls at first, too, then turns and grows along straight lines without "
     "end.")  # fmt: skip
above = [loss(W) for W in descend(1.01 * lr_max)]
assert loss(descend(0.99 * lr_max)[-1]) < 0.17 and loss(descend(1.01 * lr_max)[-1]) > 100
assert np.argmin(above) == 17

# %% [markdown] slideshow={"slide_type": "fragment"}
# At 0.99 every step overshoots the steepest direction and comes back a little less; at 1.01, a little
# more. A straight line on this axis is a constant factor in each step, $(1-\eta\lambda_1)^2$. And
# mind the beginning: above the border the loss *falls* for 17 steps, while the other directions
# gain more than the steepest loses. A run that looks healthy can be doomed.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why "too low" matters.** The steepest direction sets the limit, all others have to live with it.
# An eigenvalue $\lambda$ needs about $1/(\eta\lambda)$ steps.

# %% slideshow={"slide_type": "fragment"}
steps = 1 / (0.9 * lr_max * eigenvalues[:62])
for place in (1, 10, 30, 50):
    print(f"eigenvalue {place:2}: {eigenvalues[place]:.1e}, about {steps[place]:7,.0f} steps")
print(f"{(eigenvalues < 1e-9).sum()} eigenvalues are zero")
assert round(eigenvalues[0] / eigenvalues[1]) == 16 and (eigenvalues < 1e-9).sum() == 3
assert (images[:N].max(axis=0) == 0).sum() == 3 and round(steps[10]) == 57

# %% [markdown] slideshow={"slide_type": "fragment"}
# The largest eigenvalue, 11.46, is 16 times the second, 0.70. It belongs to the picture that all
# images have in common, their mean. (Question 5 gets rid of it.) The tenth direction behind it
# takes 57 steps, and the last ones more than you will ever do. Three directions never move: three
# pixels are white in all images. It doesn't matter, since such directions hardly change any score.
# *What the data does not show, descent does not learn.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. Momentum
#
# Give the weights inertia [2]. A velocity sums up the gradients, and forgets a part $1-\mu$ of
# itself in each step:
#
# $$V \leftarrow \mu V + G, \qquad W \leftarrow W - \eta V .$$
#
# In a direction where the gradient keeps its sign, velocities add up to $1 + \mu + \mu^2 + \dots =
# 1/(1-\mu)$ gradients: $\mu = 0.9$ goes ten times as far with the same $\eta$. Where the gradient
# alternates, they cancel. What does that do to the border?

# %% [markdown] slideshow={"slide_type": "slide"}
# Look along one eigenvector again, at the error $e_t$. The step before was $e_t - e_{t-1} =
# -\eta v_{t-1}$, so the velocity can be eliminated:
#
# $$e_{t+1} = e_t + \mu(e_t - e_{t-1}) - \eta\lambda e_t .$$
#
# Try $e_t = r^t$. Then $r^2 - (1+\mu-\eta\lambda)\,r + \mu = 0$, two roots with product $\mu < 1$.
# If they are complex, both have length $\sqrt\mu$ and the error shrinks. If they are real, the
# first to leave the interval from $-1$ to 1 leaves at $r = -1$ ($r = 1$ would need $\eta\lambda = 0$);
# put that in:
#
# $$1 + (1+\mu-\eta\lambda) + \mu = 0 \qquad\text{so}\qquad
# \eta_\text{max} = \frac{2(1+\mu)}{\lambda_\text{max}} .$$
#
# *Predict: how much farther does* $\mu = 0.9$ *move the border?*


# %% slideshow={"slide_type": "fragment"}
def final_losses(momentum, shares):
    """Losses after 200 steps at these parts of the border of plain descent."""
    return np.array([loss(descend(share * lr_max, momentum)[-1]) for share in shares])


shares = np.array([0.005, 0.02, 0.07, 0.2, 0.5, 0.8, 0.99, 1.01])
measured = {mu: final_losses(mu, shares * (1 + mu)) for mu in (0.0, 0.5, 0.9)}
for mu, losses in measured.items():
    print(f"momentum {mu}: 1 % below {losses[-2]:.3f}, 1 % above {losses[-1]:.2g}")
    assert losses[-2] < 0.17 and losses[-1] > 100
print(f"lowest possible {loss(best):.3f}")
assert round(loss(best), 3) == 0.153 and np.isclose(1 + 0.9, 1.9)

# %% slideshow={"slide_type": "slide"}
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
show(figure, "Loss after 200 steps over the learning rate for momentum 0, 0.5 and 0.9. Each curve "
     "falls to the right and ends at a dotted line, the predicted border; a cross behind "
     "the line marks a run that blew up. With more momentum the curve lies lower and ends "
     "further right.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# The border moves by $1+\mu$ only, 1.9 times for $\mu = 0.9$. What momentum buys is at the other
# end: a learning rate ten times smaller does the same work, because the slow directions now move
# with $\eta/(1-\mu)$. The dotted lines are the formula. The dots before them are 1 % lower, and the
# crosses behind them, 1 % higher, are far off the scale.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the knobs.** On the left, the errors of the weights of one digit in the two steepest
# directions, step by step, over lines of equal loss. On the right, the loss with all 65 directions.
# Find: a zigzag; a path that swings past the minimum, like a ball in a bowl; the border, barely
# passed; and a learning rate that explodes alone and not with momentum.


# %% slideshow={"slide_type": "skip"}
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


# %% slideshow={"slide_type": "slide"}
explore(
    picture,
    alt="Learning rate {lr}, momentum {momentum}: the path of 60 steps in the two steepest "
    "directions over lines of equal loss, and the loss at each step.",
    lr=Knob([0.005, 0.03, 0.16, 0.178, 0.3], start=0.16, label="learning rate"),
    momentum=Knob([0.0, 0.5, 0.95], start=0.0),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. Mini-batches
#
# A step used all 1437 images. With a million images, one step would cost a million evaluations,
# and take you one step. Instead take $B$ images at random, a **mini-batch**, and step along *their*
# mean gradient $g_B$: that is stochastic gradient descent [3]. One pass through all images is an
# **epoch**; it now contains $N/B$ steps.
#
# How wrong is $g_B$? On average it is right. Its scatter follows from the scatter
# $\sigma^2 = \frac1N\sum_i\lVert g_i - G\rVert^2$ of the single images, as for every mean of $B$
# things drawn without replacement:
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
# To halve the error of the direction you need four times the images: four times the work. That is
# a bad bargain far from the minimum, where any rough direction is good, and it is why small batches
# win there. Near the minimum the noise is all that is left.
#
# *Predict: forty epochs with B = 32, and forty with all images at once. Same learning rate. Who is
# lower after the first epoch? And at the end?*


# %% slideshow={"slide_type": "fragment"}
def sgd(lr_of_epoch, B, num_epochs):
    """Loss before each epoch and after the last."""
    W, rng = W0, np.random.default_rng(3)
    losses = [loss(W)]
    for epoch in range(num_epochs):
        order = rng.permutation(N)
        for start in range(0, N, B):
            W = W - lr_of_epoch(epoch) * batch_gradient(W, order[start : start + B])
        losses.append(loss(W))
    return np.array(losses)


full = sgd(lambda epoch: 0.15, N, 40)
small = sgd(lambda epoch: 0.15, 32, 40)
lowered = sgd(lambda epoch: 0.15 if epoch < 20 else 0.015, 32, 40)

# %% slideshow={"slide_type": "slide"}
figure, axis = plt.subplots(figsize=(8, 3.4))
axis.plot(full, color="#57606a", label="all images: 1 step an epoch")
axis.plot(small, color="#56b4e9", label="B = 32: 45 steps an epoch")
axis.plot(lowered, color="#0072b2", label="B = 32, learning rate / 10 from epoch 20")
axis.axhline(loss(best), color="#57606a", linewidth=0.8)
axis.set(ylim=(0.14, 0.52), xlabel="epoch", ylabel="loss")
axis.legend(frameon=False)
show(figure, "Loss over 40 epochs. All images at once falls slowly. Batches of 32 fall within an "
     "epoch or two and then stay, unsteadily, above the lowest possible loss; lowering the"
     " learning rate at epoch 20 brings them down to it at once.")  # fmt: skip
assert -(-N // 32) == 45
print(f"after 1 epoch {full[1]:.3f} and {small[1]:.3f}; lowest possible {loss(best):.3f}")
print(f"after 40: {full[-1]:.3f}, {small[-1]:.3f}, lowered {lowered[-1]:.3f}")

# %% slideshow={"slide_type": "skip"}
assert [round(x, 3) for x in (full[1], small[1], full[-1])] == [0.448, 0.219, 0.203]
assert [round(x, 3) for x in (small[20:].mean(), lowered[-1])] == [0.191, 0.156]

# %% [markdown] slideshow={"slide_type": "fragment"}
# After one epoch: 0.448 with all images, one step; 0.219 with batches, 45 steps for the same work.
# After 40 epochs the one has crept to 0.203. The other has long stopped getting better: it jitters
# around 0.191, because every step overshoots by its noise. Divide the learning rate by ten and the
# noise is averaged over ten times as many steps: 0.156, next to the lowest possible 0.153. Large
# steps first, small steps later: that is all there is to a learning-rate *schedule*.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. A network: the same thing, more products
#
# Ten weighted sums of pixels can't do better than the best weighted sums. Put two layers behind
# each other, with a bend between them, or else two matrices would be as good as one:
#
# $$Z = XW_1 + b_1, \qquad A = \max(Z, 0), \qquad S = AW_2 + b_2 .$$
#
# Scores become probabilities by $p_k = e^{s_k}/\sum_c e^{s_c}$, and the loss is the mean of
# $-\log p$ of the right digit, the *cross-entropy*. Then backward, with the chain rule from the end
# to the start [4]. Write $dS$ for $\partial f/\partial S$, and so on:
#
# $$dS = \tfrac1B(P - T), \qquad dW_2 = A^\mathsf{T}dS, \qquad dA = dS\,W_2^\mathsf{T}, \qquad
# dZ = dA\cdot[Z>0], \qquad dW_1 = X^\mathsf{T}dZ .$$
#
# Every layer $Y = XW + b$ follows one pattern: *forward one product*, $XW$; *backward two
# products*, $dW = X^\mathsf{T}dY$ and $dX = dY\,W^\mathsf{T}$; and $db$ is the sum of $dY$'s rows.

# %% [markdown] slideshow={"slide_type": "slide"}
# To put this together for any number of layers is your assignment, `a02_sgd`. Here torch goes
# backward, and you check its work at one layer: it keeps $dS$ and $dA$ if asked.


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
assert round(np.log(10), 2) == 2.30


# %% slideshow={"slide_type": "slide"}
def train(lr, momentum=0.0, B=32, num_epochs=20):
    """Loss on the training images after each epoch, and the weights."""
    w, rng, losses = fresh(), np.random.default_rng(1), []
    velocity = [torch.zeros_like(one) for one in w]
    for _ in range(num_epochs):
        order = torch.from_numpy(rng.permutation(N))
        for batch in order.split(B):
            f = F.cross_entropy(scores(w, pixels[batch]), digits[batch])
            gradients = torch.autograd.grad(f, w)
            with torch.no_grad():
                for one, v, g in zip(w, velocity, gradients):
                    one -= lr * v.mul_(momentum).add_(g)
        with torch.no_grad():
            losses.append(F.cross_entropy(scores(w, pixels[:N]), digits[:N]).item())
    return losses, w


# %% slideshow={"slide_type": "fragment"}
def test_accuracy(w):
    right = scores(w, pixels[N:]).argmax(dim=1) == digits[N:]
    return right.double().mean().item()


rates = {0.003: "#a6cee3", 0.03: "#56b4e9", 0.3: "#0072b2", 3.0: "#d55e00"}
trained = {lr: train(lr) for lr in rates}
for lr, (losses, w) in trained.items():
    print(f"learning rate {lr:5}: loss {losses[-1]:.3f}, {test_accuracy(w):.0%} of the test right")

# %% slideshow={"slide_type": "slide"}
figure, axis = plt.subplots(figsize=(8, 3.4))
for lr, (losses, _) in trained.items():
    axis.semilogy(range(1, 21), losses, "o-", markersize=3, color=rates[lr])
    axis.text(20.4, losses[-1], f"{lr:g}", color=rates[lr], va="center", fontsize=10)
axis.axhline(np.log(10), color="#57606a", linestyle=":")
axis.text(0.3, 2.5, "guessing", color="#57606a", fontsize=9)
axis.set(xlabel="epoch", ylabel="loss (cross-entropy)", xticks=range(0, 21, 5), ylim=(0.03, 3.5))
axis.set_title("by learning rate", fontsize=10, loc="right")
show(figure, "Training loss of the network over 20 epochs for four learning rates: 0.003 falls "
     "slowly, 0.03 faster, 0.3 gets far below 0.1, and 3 stays at the loss of guessing.")  # fmt: skip

# %% slideshow={"slide_type": "skip"}
assert [round(one[0][-1], 3) for one in trained.values()][:3] == [1.646, 0.249, 0.037]
assert [round(test_accuracy(one[1]), 2) for one in trained.values()] == [0.73, 0.96, 0.99, 0.09]
assert trained[3.0][0][-1] > np.log(10) and round(accuracy(best), 2) == 0.94
with_momentum, _ = train(0.03, momentum=0.9)
assert round(with_momentum[-1], 3) == 0.037 and np.isclose(0.03 / (1 - 0.9), 0.3)
w = trained[3.0][1]
assert (pixels[:N] @ w[0] + w[1] <= 0).all()  # no unit answers to any image

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same picture as in the bowl, though nothing is quadratic any more. 0.003 is too low: 73 % after
# 20 epochs. 0.3 reads 99 % of digits it has never seen (the best weighted sums read 94 %). And 3 is
# too high: the first steps throw the weights so far that no unit ever answers again, and the network
# guesses for ever. It doesn't explode as the bowl did; a loss that *stays* at log 10 = 2.30 is the
# sign to look for.
#
# Momentum does here what section 4 says, too: $\eta = 0.03$ with $\mu = 0.9$ ends at 0.037, and so
# does $\eta = 0.3$ without.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Batch size and learning rate belong together.** Train for three epochs with each pair. Every run
# sees every image three times.

# %% slideshow={"slide_type": "fragment"}
rates, batches = [0.005, 0.02, 0.08, 0.32, 1.28], [8, 32, 128, 512]
finals = np.array([[train(lr, B=B, num_epochs=3)[0][-1] for B in batches] for lr in rates])
finals = np.minimum(finals, np.log(10))  # worse than guessing is no matter
figure, axis = plt.subplots(figsize=(6, 3.6))
axis.imshow(finals, cmap="viridis_r", vmin=0, vmax=np.log(10), origin="lower", aspect="auto")
for (row, column), value in np.ndenumerate(finals):
    color = "white" if value > 1.2 else "black"
    axis.text(column, row, f"{value:.2f}", ha="center", va="center", color=color, fontsize=9)
axis.plot(range(4), range(1, 5), "s", markersize=32, markerfacecolor="none", color="white")
axis.set(xlabel="batch size", ylabel="learning rate")
axis.set_xticks(range(4), batches)
axis.set_yticks(range(5), rates)
show(figure, "Table of the loss after three epochs for five learning rates and four batch sizes, "
     "each four times the one before. Along each diagonal, batch and learning rate four "
     "times larger, the loss stays the same, up to the row of the largest learning rate, "
     "1.28.")  # fmt: skip

# %% slideshow={"slide_type": "skip"}
assert finals[[1, 2, 3], [0, 1, 2]].round(2).tolist() == [0.56, 0.57, 0.59]
assert finals[[0, 1, 2, 3], [0, 1, 2, 3]].round(2).tolist() == [1.65, 1.65, 1.61, 1.62]
assert [f"{x:.2f}" for x in finals[4, 1:]] == ["0.20", "0.45", "1.12"]
assert [f"{x:.2f}" for x in finals[3, :3]] == ["0.08", "0.20", "0.59"]
assert 128 * 4 == 512 and np.isclose(4 * 0.32, 1.28)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Go up along a diagonal: four times the batch, four times the learning rate. 0.56, 0.57, 0.59: the
# same loss, with four times fewer steps each time, *as if nothing had changed*. A step with $B$
# images replaces many small ones, if it is as long as they are together. This is the linear scaling
# rule [15], and it is what makes data parallelism useful: larger batches in the same number of
# epochs. Now look at the top row, where every diagonal ends: 0.20 where 0.08 was due, 0.45 for 0.20,
# 1.12 for 0.59. A learning rate of 1.28 is near its border, whatever the batch. Batches can grow
# until the learning rate gets there, and no further.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Four workers: sum or mean?
#
# The gradient is a mean over images. So four workers can each take a quarter of the images, find
# *their* mean gradient, and put the four together. This is data parallelism, and on the slides of
# [5] it looks like this: workers find $g_1, \dots, g_4$, and the step is
# $W \leftarrow W - \eta \sum_n g_n$.
#
# You can run that. A **rank** is a process that runs your function, and `comm` is its telephone:
# `comm.size` ranks there are, this one is number `comm.rank`, and `comm.allreduce(x)` gives
# *everyone the sum* of what all of them put in. That one call is the subject of lecture 3.
#
# *Predict: one worker with* $\eta = 0.1$ *learns. Four workers, each with a quarter of the images,
# add their mean gradients and use the same* $\eta$. *What happens?*


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


# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
cuts = [0, 360, 719, 1078, N]  # rank r has images cuts[r] up to, not including, cuts[r + 1]
shards = [(X[lo:hi], T[lo:hi]) for lo, hi in zip(cuts, cuts[1:])]
for divisor, words in ((1, "sum "), (4, "mean")):
    args = [(*shard, 0.1, 50, divisor) for shard in shards]
    run = ringside.run("workers.py:train", 4, args)
    print(f"{words} of four gradients: loss {loss(run.values[0]):.3g}")
    assert all((one == run.values[0]).all() for one in run.values)
alone = descend(0.1, num_steps=50)[-1]
print(f"one worker alone:       loss {loss(alone):.3g}")
np.testing.assert_allclose(loss(run.values[0]), loss(alone), rtol=1e-3)

# %% slideshow={"slide_type": "fragment"}
short = [(*shard, 0.1, 3, 4) for shard in shards]
timeline = ringside.run("workers.py:train", 4, short).timeline
assert 4 * 0.1 / lr_max > 2 and round(4 * 0.1 / lr_max, 1) == 2.3
timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** Each $g_n$ is a mean already, so their sum is four times the gradient, and the
# > learning rate is four times what you wrote: 2.3 times the border of section 3. Divide by the
# > number of workers; or let workers *sum* over their images and divide by $B$ once.
#
# Everyone gets the same sum and takes the same step, so the four copies of the weights stay equal,
# to the last bit. The bars above are the call: nobody goes on before all have put in their part.

# %% [markdown] slideshow={"slide_type": "slide"}
# **And if the shards are unequal?** 1437 images don't divide by 4. Then the mean of the four means
# gives the images of short shards more weight. And a slide of [6] cuts the batch into
# $i = 1 \dots B/4$, then $i = B/4 \dots 2B/4$: the image at each cut goes to two workers. Neither
# crashes, and the loss goes down either way.

# %% slideshow={"slide_type": "fragment"}
W = np.zeros((65, 10))
means = [batch_gradient(W, np.arange(lo, hi)) for lo, hi in zip(cuts, cuts[1:])]
mean_of_means = sum(means) / 4
weighted = sum((hi - lo) / N * g for lo, hi, g in zip(cuts, cuts[1:], means))
twice = [batch_gradient(W, np.arange(max(lo - 1, 0), hi)) for lo, hi in zip(cuts, cuts[1:])]
size = np.linalg.norm(gradient(W))
for words, g in (("mean of means", mean_of_means), ("cuts counted twice", sum(twice) / 4)):
    print(f"{words:18} differs by {np.linalg.norm(g - gradient(W)) / size:.0e} of the gradient")
print("weighted mean      differs by rounding")
np.testing.assert_allclose(weighted, gradient(W), atol=1e-13)
assert 1e-5 < np.linalg.norm(mean_of_means - gradient(W)) / size < 1e-3
assert 1e-4 < np.linalg.norm(sum(twice) / 4 - gradient(W)) / size < 1e-2

# %% [markdown] slideshow={"slide_type": "fragment"}
# Errors of some thousandths and less hide for ever behind the noise of mini-batches. Only a comparison with one
# worker, to all digits, finds them. That comparison is what a parallel program has to pass before
# it may be called fast.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8. A convolution is a matrix product, twice
#
# In an image, a corner is a corner wherever it is. A **convolution** layer uses this: a small
# *kernel* of weights slides over the image, and every position gives one output. Here is the
# example of [7], a 2 by 2 kernel on a 3 by 3 image:
#
# ```text
#  A B C      a b        P = aA + bB + cD + dE      Q = aB + bC + cE + dF
#  D E F      c d        R = aD + bE + cG + dH      S = aE + bF + cH + dJ
#  G H J
# ```
#
# The output depends linearly on the image, so there is a matrix that does it: 9 numbers in, 4 out.
# To find the matrix of any linear map, feed it the unit vectors: the columns are what comes out.


# %% slideshow={"slide_type": "fragment"}
def matrix_of(linear_map, shape):
    """One column for each pixel: the output of an image that is 1 there and 0 elsewhere."""
    units = torch.eye(int(np.prod(shape))).reshape(-1, 1, *shape)
    return torch.cat([linear_map(unit[None]).reshape(-1, 1) for unit in units], dim=1)


kernel = torch.tensor([[1.0, 2.0], [3.0, 4.0]])  # a b / c d
toeplitz = matrix_of(lambda image: F.conv2d(image, kernel[None, None]), (3, 3))
print(toeplitz.int().numpy())
zeros = (toeplitz == 0).sum().item()
print(f"{zeros} of {toeplitz.numel()} entries are zero")
assert toeplitz.shape == (4, 9) and zeros == 20 and toeplitz.numel() == 36

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each row is the kernel at one position; it moves to the right as you go down. Such a matrix, with
# the same number along each diagonal of a block, is called a **Toeplitz** matrix.
#
# It is good for *thinking*. For instance, what is the backward pass? For $y = Mx$ it is
# $dx = M^\mathsf{T}dy$: each row of the transposed matrix collects, for one pixel, all the windows
# that saw it. So where windows overlap, contributions *add*.

# %% slideshow={"slide_type": "fragment"}
image = torch.tensor(np.arange(9.0).reshape(1, 1, 3, 3), requires_grad=True)
y = F.conv2d(image, kernel[None, None])
dy = torch.tensor([[[[1.0, 10.0], [100.0, 1000.0]]]])
(dx,) = torch.autograd.grad(y, image, dy)
torch.testing.assert_close(y.flatten(), toeplitz @ image.flatten())
torch.testing.assert_close(dx.flatten(), toeplitz.T @ dy.flatten())
print(dx[0, 0].int().numpy())
assert dx[0, 0, 1, 1].item() == 4 * 1 + 3 * 10 + 2 * 100 + 1 * 1000 == 1234

# %% [markdown] slideshow={"slide_type": "fragment"}
# The middle pixel is in all four windows, and gets 1234: a digit from each.
#
# > **Corrected.** What [7] calls a convolution, as do all libraries, is a *cross-correlation*. A
# > mathematician's convolution turns the kernel round first. For training it makes no difference
# > (the weights are learned, turned or not), but it does when you compare with NumPy's `convolve`.

# %% slideshow={"slide_type": "fragment"}
impulse, one_two_three = np.array([0.0, 0, 1, 0, 0]), np.array([1.0, 2, 3])
libraries = F.conv1d(torch.tensor(impulse)[None, None], torch.tensor(one_two_three)[None, None])
print("numpy.convolve", np.convolve(impulse, one_two_three, "valid"))
print("torch conv1d  ", libraries.flatten().numpy())
assert (libraries.flatten().numpy() == np.correlate(impulse, one_two_three, "valid")).all()
assert (libraries.flatten().numpy() == np.convolve(impulse, one_two_three, "valid")[::-1]).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why nobody computes it that way.** Take the second convolution of AlexNet [8], the network that
# won the ImageNet contest in 2012. It makes $256\times 27\times 27$ numbers from
# $96\times 27\times 27$, with 5 by 5 kernels and zeros added at the edges, in two groups of channels
# that don't see each other. *Predict: how large is its Toeplitz matrix?*

# %% slideshow={"slide_type": "fragment"}
rows, columns = 256 * 27 * 27, 96 * 27 * 27
per_row = 48 * 5 * 5  # one group's channels, times the kernel
print(f"{rows:,} x {columns:,}, {4 * rows * columns / 1e9:.0f} GB in float32")
print(f"at most {per_row} numbers of a row are not zero: {per_row / columns:.1%}")
assert round(4 * rows * columns / 1e9) == 52 and round(1 - per_row / columns, 3) == 0.983

# %% [markdown] slideshow={"slide_type": "fragment"}
# 52 GB, of which 98.3 % are zeros, for one layer. So turn it round. Leave the *kernels* as they
# are, one row of a small matrix for each output channel, and rearrange the *image*: copy each
# window into a column. This is **im2col** [9], and torch calls it `unfold`.

# %% slideshow={"slide_type": "fragment"}
windows = F.unfold(image.detach(), kernel_size=2)[0]  # (4 numbers, 4 windows)
print(windows.int().numpy())
torch.testing.assert_close(kernel.reshape(1, 4) @ windows, y.reshape(1, 4))

x, k = torch.randn(2, 6, 9, 9), torch.randn(8, 6, 3, 3)  # 2 images, 6 channels to 8
spread = F.unfold(x, 3, padding=1, stride=2)  # (2, 6 * 3 * 3, 5 * 5)
product = k.reshape(8, -1) @ spread
torch.testing.assert_close(product.reshape(2, 8, 5, 5), F.conv2d(x, k, padding=1, stride=2))

# %% [markdown] slideshow={"slide_type": "slide"}
# One dense product of a small matrix and a long one: what processors do best. The price is copies.
# Each pixel is copied into every window that sees it, up to $5\cdot 5$ times with 5 by 5 kernels.
# *Predict: im2col's matrix for this layer and 128 images?*

# %% slideshow={"slide_type": "fragment"}
spread_bytes = 128 * 4 * (96 * 5 * 5) * (27 * 27)
input_bytes = 128 * 4 * 96 * 27 * 27
print(f"input {input_bytes / 1e6:.1f} MB, spread out {spread_bytes / 1e6:.0f} MB")
assert spread_bytes == 25 * input_bytes and round(spread_bytes / 1e6) == 896
assert round(input_bytes / 1e6, 1) == 35.8

# %% [markdown] slideshow={"slide_type": "fragment"}
# 896 MB from 35.8 MB. So libraries build the matrix piece by piece, in fast memory, and never as a
# whole (*implicit* matrix product); or image by image; or they use algorithms that need fewer
# multiplications, which section 12 runs into.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. Counting: parameters, operations, memory
#
# Now all of AlexNet. One rule counts every layer, since a weight is multiplied once at each
# *position* of the output, and a linear layer has one position:
#
# $$\text{FLOP of the forward pass} = 2\cdot\text{weights}\cdot\text{positions}\cdot B .$$
#
# Torch can build a network without memory for its numbers, on the device "meta": shapes are real,
# values don't exist. So count on a laptop what would not fit there.


# %% slideshow={"slide_type": "fragment"}
def conv(channels_in, channels_out, kernel, **options):
    layer = torch.nn.Conv2d(channels_in, channels_out, kernel, **options)
    return [layer, torch.nn.ReLU(inplace=True)]


def alexnet(groups):
    pool, linear, relu = torch.nn.MaxPool2d(3, stride=2), torch.nn.Linear, torch.nn.ReLU
    layers = [*conv(3, 96, 11, stride=4), pool]
    layers += [*conv(96, 256, 5, padding=2, groups=groups), pool]
    layers += conv(256, 384, 3, padding=1) + conv(384, 384, 3, padding=1, groups=groups)
    layers += [*conv(384, 256, 3, padding=1, groups=groups), pool, torch.nn.Flatten()]
    layers += [linear(256 * 6 * 6, 4096), relu(True), linear(4096, 4096), relu(True)]
    return torch.nn.Sequential(*layers, linear(4096, 1000))


torch.set_default_dtype(torch.float32)


# %% slideshow={"slide_type": "fragment"}
def account(network, x):
    """Name, weights, parameters, positions, numbers in and out (of one image) of each layer."""
    rows = []
    for layer in network:
        y, kind = layer(x), type(layer).__name__
        if kind not in ("ReLU", "Flatten"):  # these add nothing of their own
            weights = layer.weight.numel() if hasattr(layer, "weight") else 0
            parameters = sum(one.numel() for one in layer.parameters())
            rows.append((kind, weights, parameters, y[0, 0].numel(), x[0].numel(), y[0].numel()))
        x = y
    return rows


with torch.device("meta"):
    layers = account(alexnet(groups=2), torch.empty(1, 3, 227, 227))
    ungrouped = account(alexnet(groups=1), torch.empty(1, 3, 227, 227))

# %% slideshow={"slide_type": "slide"}
NAMES = ["conv1", "pool1", "conv2", "pool2", "conv3", "conv4", "conv5", "pool5",
         "fc6", "fc7", "fc8"]  # fmt: skip
print("layer    parameters    MFLOP an image    numbers out")
for name, (_, weights, parameters, positions, _, out) in zip(NAMES, layers):
    print(f"{name:6} {parameters:12,} {2 * weights * positions / 1e6:17.1f} {out:14,}")
num_parameters = sum(row[2] for row in layers)
flops = [2 * row[1] * row[3] for row in layers]
print(f"all    {num_parameters:12,} {sum(flops) / 1e6:17.1f} {sum(row[5] for row in layers):14,}")
print(f"convolutions: {sum(row[2] for row in layers[:8]) / num_parameters:.0%} of the parameters,",
      f"{sum(flops[:8]) / sum(flops):.0%} of the FLOP")  # fmt: skip
assert num_parameters == 60_965_224 and sum(row[2] for row in ungrouped) == 62_378_344
assert round(sum(row[2] for row in layers[:8]) / num_parameters, 2) == 0.04
assert round(sum(flops[:8]) / sum(flops), 2) == 0.92 and round(sum(flops) / 1e6) == 1449

# %% slideshow={"slide_type": "skip"}
from torch.utils.flop_counter import FlopCounterMode

with torch.device("meta"), FlopCounterMode(display=False) as counter:
    alexnet(groups=2)(torch.empty(1, 3, 227, 227))
assert counter.get_total_flops() == sum(flops)  # torch's own counter agrees

# %% [markdown] slideshow={"slide_type": "fragment"}
# 60,965,224 parameters, in agreement with the 60 million of the paper [8]; without the two groups
# it would be 62,378,344. And 1449 million operations for one image. Look at who owns what: the
# convolutions hold 4 % of the parameters and do 92 % of the work; the linear layers the reverse.
# This lopsidedness decides how such a network is divided among processors ([lecture 8](08_model_versus_data.ipynb)).

# %% [markdown] slideshow={"slide_type": "slide"}
# **Memory.** $dW = X^\mathsf{T}dY$ needs the layer's *input*. So the forward pass has to leave all
# activations in memory until the backward pass has come by. A well-known slide [6] adds them up for
# AlexNet and 128 images. *Check it: is the sum right? And what does it count?*

# %% slideshow={"slide_type": "fragment"}
slide = (227*227*3 + 55*55*96*2 + 96*27*27*2 + 256*27*27*2 + 256*13*13*2 + 13*13*384*2
         + 256*13*13 + 6*6*256 + 4096 + 4096 + 1000)  # fmt: skip
once = 3 * 227 * 227 + sum(row[5] for row in layers)
print(f"slide: {slide:,} numbers an image, {4 * 128 * slide:,} bytes for 128")
print(f"that is {4 * 128 * slide / 1e6:.1f} MB or {4 * 128 * slide / 2**20:.1f} MiB")
print(f"input and every output once: {4 * 128 * once / 1e6:.1f} MB")
assert slide == 1_526_595 and 4 * 128 * slide == 781_616_640 and 4 * 128 * once == 479_397_376
assert round(4 * 128 * slide / 1e6) == 782 and round(4 * 128 * slide / 2**20, 1) == 745.4
twice = sum(row[5] for row in layers[:4])  # conv1, pool1, conv2, pool2
assert slide == once + twice

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** The sum is right: 781,616,640 bytes, "782 MB". But its factors 2 don't follow one
# > rule. The outputs of the first four layers are counted twice, those of all others once (`384*2` is
# > two layers). Counting the input and each output once gives 479,397,376 bytes. The slide gives no
# > reason; each of the two doubled blocks has a normalisation, which keeps a copy of its own.
#
# Two conventions, 479 MB and 782 MB. Who is right? Ask torch what it really keeps. A hook sees each
# tensor that the forward pass saves for the backward pass, and works on "meta" too.


# %% slideshow={"slide_type": "slide"}
def saved_bytes(network, x):
    """Bytes of the tensors kept for the backward pass, parameters not counted, by dtype."""
    kept = {}  # by storage, so that two views of the same memory count once

    def keep(tensor):
        kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        F.cross_entropy(network(x), torch.zeros(len(x), dtype=torch.long))
    own = {one.untyped_storage()._cdata for one in network.parameters()}
    by_dtype = {}
    for storage, tensor in kept.items():
        if storage not in own:
            by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + tensor.nbytes
    return by_dtype


# %% slideshow={"slide_type": "fragment"}
with torch.device("meta"):
    saved = saved_bytes(alexnet(groups=2), torch.empty(128, 3, 227, 227))
for dtype, nbytes in saved.items():
    print(f"{dtype}: {nbytes / 1e6:.1f} MB")
print(f"together {sum(saved.values()) / 1e6:.1f} MB")
pooled = sum(row[5] for row in layers if row[0] == "MaxPool2d")
assert saved[torch.float32] == 4 * 128 * once + 4  # and one number of the loss's own
assert saved[torch.int64] == 8 * 128 * pooled + 8 * 128  # and the labels
assert round(sum(saved.values()) / 1e6) == 605 and round(saved[torch.int64] / 1e6) == 125

# %% [markdown] slideshow={"slide_type": "fragment"}
# Torch keeps every output once, to the byte, as the uniform convention says (ReLU overwrites its
# input, so it costs nothing). And it keeps 125 MB that neither count foresaw: pooling remembers
# *which* pixel of a window was the largest, as an integer of 8 bytes for each output. 605 MB in all,
# for a network without normalisation. **A formula for memory is a convention until you have
# measured it.**

# %% slideshow={"slide_type": "fragment"}
parameter_bytes = 4 * num_parameters
training = 2 * 4 * 128 * slide + 3 * parameter_bytes
print(f"parameters {parameter_bytes / 1e6:.0f} MB, training {training / 1e9:.2f} GB")
assert round(parameter_bytes / 1e6) == 244 and round(training / 1e9, 1) == 2.3

# %% [markdown] slideshow={"slide_type": "fragment"}
# Training holds more: gradients of the activations, as large as these again; and for each
# parameter its gradient and its velocity. With the slide's count that makes 2.3 GB, before any
# workspace, and the card of 2012 had 3 GB. Its authors give that as the reason why they cut AlexNet
# in two [8].

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. The roofline
#
# A processor has two speeds: how fast it calculates and how fast it gets numbers from memory. A
# layer that does $F$ operations and moves $M$ bytes takes at least
#
# $$t \ge \max\left(\frac{F}{\text{FLOP/s}},\; \frac{M}{\text{bytes/s}}\right),
# \qquad\text{so}\qquad
# \frac{F}{t} \le \min\left(\text{FLOP/s},\; \frac{F}{M}\cdot\text{bytes/s}\right).$$
#
# $F/M$ is the *intensity* of the layer: operations for each byte. Drawn over the intensity, the
# bound looks like a roof [10]: a slope where memory limits, then flat. The corner is where the two
# speeds balance.

# %% slideshow={"slide_type": "fragment"}
a100 = ringside.Machine.load("zaratan")  # one rank is one A100; float32 without tensor cores
corner = a100.flop_per_s / a100.memory_bytes_per_s
print(f"{a100.flop_per_s / 1e12:g} TFLOP/s, {a100.memory_bytes_per_s / 1e9:g} GB/s")
print(f"corner at {corner:.1f} operations a byte: {4 * corner:.0f} for each float32 read")
assert round(corner, 1) == 12.5 and round(4 * corner) == 50

# %% [markdown] slideshow={"slide_type": "fragment"}
# For each number read from memory, an A100 wants to do 50 operations with it. An addition of two
# vectors does a third of one for each number moved. A matrix product can do it, *if its numbers
# are used again and again*. How often? A linear layer of $d$ by $d'$ weights does $2Bdd'$
# operations. It moves $4(dd' + Bd + Bd')$ bytes. While $B$ is small the weights dominate:
#
# $$\frac{F}{M} = \frac{2Bdd'}{4(dd' + Bd + Bd')} \approx \frac{B}{2} .$$
#
# So the intensity of a linear layer is half its batch size. *Predict: with one image, which part of
# its speed does an A100 reach on AlexNet's first linear layer? And a convolution?*


# %% slideshow={"slide_type": "fragment"}
def work(row, B):
    """FLOP and bytes of a layer's forward pass; every number is moved once."""
    _, weights, parameters, positions, numbers_in, numbers_out = row
    return 2 * weights * positions * B, 4 * (parameters + B * (numbers_in + numbers_out))


def roofline(intensity, machine=a100):
    return np.minimum(machine.flop_per_s, intensity * machine.memory_bytes_per_s)


fc6, conv2 = layers[8], layers[2]
for B in (1, 128):
    share = {n: roofline(np.divide(*work(row, B))) / a100.flop_per_s
             for n, row in (("fc6", fc6), ("conv2", conv2))}  # fmt: skip
    print(f"B = {B:3}: fc6 at most {share['fc6']:.0%} of the peak, conv2 {share['conv2']:.0%}")
    assert share["conv2"] == 1 and round(share["fc6"], 2) == {1: 0.04, 128: 1}[B]


# %% slideshow={"slide_type": "skip"}
def draw_roofline():
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8.5, 6.2), sharex=True)
    x = np.geomspace(0.3, 1000, 200)
    top.loglog(x, roofline(x) / 1e12, color="#1b1f24", linewidth=2)
    for B in 2 ** np.arange(8):
        intensity = np.divide(*work(fc6, B))
        top.plot(intensity, roofline(intensity) / 1e12, "o", color="#d55e00")
        top.annotate(
            B, (intensity, roofline(intensity) / 1e12), (5, -14), textcoords="offset points"
        )
    with_weights = [(name, row) for name, row in zip(NAMES, layers) if row[1]]
    for place, (_, row) in enumerate(with_weights):
        color = "#0072b2" if row[0] == "Conv2d" else "#d55e00"
        bottom.plot([np.divide(*work(row, B)) for B in (1, 128)], [place] * 2, "o-", color=color)
    bottom.set_yticks(range(8), [name for name, _ in with_weights])
    bottom.invert_yaxis()
    return figure, top, bottom


# %% slideshow={"slide_type": "slide"} tags=["figure"]
figure, top, bottom = draw_roofline()
top.set(ylim=(0.4, 40), ylabel="TFLOP/s, at most")
top.text(1.0, 2.6, "memory limits", rotation=29, fontsize=10, color="#57606a")
top.text(120, 23, "arithmetic limits", fontsize=10, color="#57606a")
top.set_title("fc6 with 1 to 128 images", fontsize=10, loc="left")
bottom.set(xlabel="intensity (FLOP for each byte moved)")
bottom.set_title("all layers: from 1 image (left dot) to 128 (right dot)", fontsize=10, loc="left")
for axis in (top, bottom):
    axis.axvline(corner, color="#57606a", linestyle=":")
show(figure, "Above, the roofline of an A100: a slope up to 12.5 operations a byte, then flat at "
     "19.5 TFLOP/s. The layer fc6 climbs the slope with 1, 2, 4, 8 and 16 images and "
     "stands on the flat part from 32. Below, the range of each AlexNet layer from 1 to "
     "128 images: the five convolutions lie right of the corner throughout, the three "
     "linear layers begin far left of it.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# The convolutions (blue) stand under the flat roof even with one image, because a kernel is used
# again at every position. The linear layers (orange) begin at the far left, at 4 % of the peak: with one image each weight is fetched from memory to be used once. With 128
# images it is used 128 times, and they reach the roof. *Batching is what turns a linear layer from
# a memory problem into an arithmetic problem.*

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11. Why giving each worker fewer images stops paying
#
# Batch size 128, more and more workers: each takes $128/p$ images. Suppose that the network between
# them costs *nothing*. *Predict: how much faster are 16 workers than one? And 128?*
#
# A program can declare its work to Ringside's clock, which then lets pass what the roofline says
# (and 5 µs to start an operation). A training step: each layer forward, two products backward, and
# an update that reads weight, gradient and velocity and writes two of them back.


# %% slideshow={"slide_type": "fragment"}
# %%writefile step.py
import ringside


def step(comm, works, num_parameters):
    """One training step of a worker; works: name, FLOP and bytes of each layer, forward."""
    for name, num_flops, nbytes in works:
        ringside.compute(num_flops=num_flops, nbytes=nbytes, phase=f"forward {name}")
    for name, num_flops, nbytes in reversed(works):
        ringside.compute(num_flops=2 * num_flops, nbytes=2 * nbytes, phase=f"backward {name}")
    ringside.compute(nbytes=5 * 4 * num_parameters, phase="update")


# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
def step_s(B):
    works = [(name, *map(float, work(row, B))) for name, row in zip(NAMES, layers)]
    return ringside.run("step.py:step", 1, (works, num_parameters), machine=a100)


workers = (1, 4, 16, 128)
runs = {p: step_s(128 // p) for p in workers}
speedup = np.array([runs[1].makespan_s / runs[p].makespan_s for p in workers])
for p, gain in zip(workers, speedup):
    milliseconds = runs[p].makespan_s * 1e3
    print(f"{p:3} workers, {128 // p:3} images each: {milliseconds:6.2f} ms, {gain:5.1f} x")

# %% slideshow={"slide_type": "slide"}
runs[128].timeline

# %% slideshow={"slide_type": "fragment"}
update_s = 5 * 4 * num_parameters / a100.memory_bytes_per_s
print(f"the update alone: {update_s * 1e3:.2f} ms of {runs[128].makespan_s * 1e3:.2f} ms")
assert round(update_s * 1e3, 2) == 0.78 and 0.5 <= update_s / runs[128].makespan_s < 0.51
assert workers[2:] == (16, 128)
assert round(speedup[2], 1) == 9.9 and round(speedup[3], 1) == 19.3

# %% [markdown] slideshow={"slide_type": "fragment"}
# 16 workers are 9.9 times as fast, 128 workers 19.3 times, on a network that costs nothing. Two
# reasons for most of it, both in the roofline: with few images the linear layers slide down the slope; and
# the update costs 0.78 ms however few images there are, because it moves every parameter. With one
# image per worker it is half of the step. A slide of [6] says that data parallelism can use at most
# $p = B$ workers and asks why it is slow long before. This is why; and lecture 3 adds what the
# network costs.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 12. What the systems reached
#
# **AlexNet, 2012.** About 90 passes over 1.2 million images took five to six days on two cards,
# `GTX 580`, each with 3 GB [8]. The number of their cores and the clock are public [11]; a core does
# two operations in a tick. *Predict: which part of the peak was that?*


# %% slideshow={"slide_type": "fragment"} tags=["systems"]
def training_flops(flops):
    """Forward, two products backward; nobody needs the gradient of the images themselves."""
    return sum(flops) + sum(flops) + sum(flops[1:])  # forward, dW, dX


gtx580 = 512 * 2 * 1.544e9  # cores, operations in a tick, ticks in a second
total = 90 * 1.2e6 * training_flops(flops)
bound_days = total / (2 * gtx580) / 86400
print(f"{total:.2e} FLOP in all, at least {bound_days:.1f} days at 2 x {gtx580 / 1e12:.2f} TFLOP/s")
print(f"published 5 to 6 days: {bound_days / 6:.0%} to {bound_days / 5:.0%} of the peak")
assert round(bound_days, 1) == 1.6 and round(gtx580 / 1e12, 2) == 1.58
assert round(bound_days / 6, 2) == 0.27 and round(bound_days / 5, 2) == 0.33

# %% [markdown] slideshow={"slide_type": "fragment"}
# A lower bound of 1.6 days, and 5 to 6 were needed: 27 to 33 % of the peak, for hand-written
# kernels of 2012. That is how a bound should behave.

# %% [markdown] slideshow={"slide_type": "slide"}
# **VGG-16 and AlexNet, 2017.** The TensorFlow team published images per second in training on one
# P100 [12]: VGG-16 with batches of 64, and an AlexNet with smaller layers (without groups) and
# batches of 512. The peak of a P100 is in [7]. *Predict: what share of that did they reach?*


# %% slideshow={"slide_type": "fragment"}
def three_linear(width):
    return [torch.nn.Linear(*one) for one in ((width, 4096), (4096, 4096), (4096, 1000))]


def vgg16():
    layers, channels = [], 3
    for size, times in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(times):
            layers, channels = layers + conv(channels, size, 3, padding=1), size
        layers.append(torch.nn.MaxPool2d(2))
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), *three_linear(512 * 7 * 7))


# %% slideshow={"slide_type": "skip"}
def smaller_alexnet():
    pool = torch.nn.MaxPool2d(3, stride=2)
    layers = [*conv(3, 64, 11, stride=4), pool, *conv(64, 192, 5, padding=2), pool]
    layers += conv(192, 384, 3, padding=1) + conv(384, 384, 3, padding=1)
    layers += [*conv(384, 256, 3, padding=1), pool, torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, *three_linear(256 * 6 * 6))


# %% slideshow={"slide_type": "fragment"} tags=["systems"]
P100, reached = 10.6e12, {}  # FLOP/s in float32
for network, pixels_wide, images_per_s in ((vgg16, 224, 154), (smaller_alexnet, 227, 2987)):
    with torch.device("meta"):
        rows = account(network(), torch.empty(1, 3, pixels_wide, pixels_wide))
    per_image = training_flops([2 * row[1] * row[3] for row in rows])
    reached[network.__name__] = per_image * images_per_s / P100
    print(f"{network.__name__:15} {per_image / 1e9:5.1f} GFLOP x {images_per_s:4} images/s",
          f"= {reached[network.__name__]:.0%} of the peak")  # fmt: skip
    if network is vgg16:
        assert sum(row[2] for row in rows) == 138_357_544 and round(per_image / 1e9, 1) == 92.6
assert round(reached["vgg16"], 2) == 1.35 and round(reached["smaller_alexnet"], 2) == 1.38

# %% [markdown] slideshow={"slide_type": "fragment"}
# 135 % and 138 % of what the chip can do. A bound was broken, so a premise is false: the processor
# did not do these operations. For 3 by 3 kernels there are algorithms, named after Winograd, that
# compute four outputs with 16 multiplications where the definition takes 36 [13].
# Libraries of the time had them. *Where is the bound then?*

# %% slideshow={"slide_type": "fragment"}
direct = 154 / reached["vgg16"]
print(f"VGG-16: direct at most {direct:.0f} images/s, with Winograd {36 / 16 * direct:.0f}")
assert round(direct) == 114 and round(2.25 * direct) == 257 and direct < 154 < 2.25 * direct

three_by_three = 3 * sum(2 * row[1] * row[3] for row in rows[4:7])  # of the smaller AlexNet
share = (per_image - three_by_three * (1 - 1 / 2.25)) * 2987 / P100
print(f"smaller AlexNet, 3 x 3 layers with Winograd: still {share:.0%} of the peak")
assert round(share, 2) == 0.92

# %% [markdown] slideshow={"slide_type": "fragment"}
# VGG-16: with the definition, at most 114 images per second; with Winograd's algorithm everywhere at
# most 257. The measured 154 lies between. AlexNet: its 3 by 3 layers alone would still leave 92 % of
# the peak, which nobody reaches, so its larger kernels must have been shortened, too. Which algorithm
# ran where the publication doesn't say. So this explains how the numbers are possible, and predicts
# neither.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 13. Where these models break
#
# - **The quadratic bowl** is exact for one linear layer and a squared error. In a network $H$ changes
#   as you move, and the border with it; that is what a *warm-up* of the learning rate is for
#   (assignment `a04_data_parallel`).
# - **The scatter formula** is exact for one step. What noise does to the network that comes out at
#   the end, it doesn't say: a lower training loss is not a better network.
# - **FLOP** count the definition of an operation, not what the library does instead. Section 12 was
#   wrong by a third with a formula that has no error in it.
# - **Bytes** were counted as if each number moved once. A product too large for the caches moves
#   them more often, and fused operations less often.
# - **The roofline** is an upper bound. It knows no start-up but the 5 µs we gave it, no shape that
#   fills a processor badly, and no clock that is lowered when the chip gets hot.
# - **Memory** held by workspaces, fragments and the library itself is in no formula at all.

# %% slideshow={"slide_type": "skip"}
assert (227 - 11) / 4 + 1 == 55 and (224 - 11) / 4 + 1 != 55  # for the last but one error below

# %% [markdown] slideshow={"slide_type": "slide"} tags=["corrected"]
# ## 14. Summary
#
# | quantity | formula | checked by |
# |---|---|---|
# | gradient of a layer $Y = XW + b$ | $dW = X^\mathsf{T}dY$, $dX = dY\,W^\mathsf{T}$ | finite differences, torch |
# | border of the learning rate | $2(1+\mu)/\lambda_\text{max}$ | runs 1 % below and above |
# | work of momentum | as $\eta/(1-\mu)$ | two runs that agree |
# | scatter of a mini-batch | $\frac{\sigma^2}{B}\cdot\frac{N-B}{N-1}$ | 400 draws |
# | FLOP forward, training | $2\cdot$weights$\cdot$positions$\cdot B$; 3 times that | torch's counter |
# | activations | every output once, and what else is saved | torch's hooks |
# | time of a layer | the longer of $F/$speed and $M/$bandwidth | an upper bound on speed |
#
# **Errors on slides that you may meet**, in decks that are otherwise worth your time:
#
# | slide | correct |
# |---|---|
# | [5] $W - \eta\sum_n g_n$ with $g_n$ a worker's mean | divide by the number of workers, or $\eta$ is multiplied by it |
# | [6] $\frac{\alpha}{B}\sum_i \partial\mathcal{J}/\partial w$, where $\mathcal{J}$ is the mean already | the sum is over the *costs* of the samples $i$, not over $\mathcal{J}$ |
# | [6] workers take $1..B/4$, $B/4..2B/4$, ... | begin at $B/4 + 1$, or samples at the cuts count twice |
# | [6] 782 MB of activations | the sum is right, its factors 2 are not uniform: once each is 479 MB |
# | [7] "convolution" | cross-correlation; and 20 of its matrix's 36 entries are zero, so libraries use im2col |
# | [8] input of 224 by 224 | with 11 by 11 kernels and stride 4 only 227 gives the 55 by 55 outputs |
# | all: $\alpha$ is the learning rate, and the latency | $\eta$ and $\alpha$ |

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 15. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** The loss on many slides, [5] for one, is the mean of $(y - \hat y)^2$ without our
# factor $\frac12$. Where is the border of the learning rate then, for the digits? And where is it if
# somebody forgets to divide the pixels by 16?
#
# <details><summary>Answer</summary>
#
# The gradient doubles, so the border halves: $1/\lambda_\text{max} = 0.087$. With pixels from 0 to
# 16, $H$ is up to 256 times larger (the constant's part is not), $\lambda_\text{max} = 2682$, and
# the border of section 3 falls to 0.00075. A learning rate belongs to a loss, to its scale and to
# the scale of the data; by itself it means nothing.
#
# </details>

# %% slideshow={"slide_type": "skip"}
raw = np.column_stack([16 * images[:N], np.ones(N)])
steepest = np.linalg.eigvalsh(raw.T @ raw / N)[-1]
assert round(1 / eigenvalues[0], 3) == 0.087 and 16**2 == 256
assert round(steepest) == 2682 and round(2 / steepest, 5) == 0.00075

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague trains with $\eta = 0.1$ and no momentum, and hears that
# $\mu = 0.9$ is usual. Which $\eta$ should he take to get the same training, only smoother? What
# happens on the digits if he leaves $\eta = 0.1$, and what at $\eta = 0.34$?
#
# <details><summary>Answer</summary>
#
# $\eta(1-\mu)$, so 0.01: after 200 steps the losses are 0.1704 and 0.1705. With 0.1 he goes ten times
# as far and the border, now $1.9\cdot 0.1745 = 0.3315$, is far away: a loss of 0.155, better. With 0.34
# he is past it.
#
# </details>

# %% slideshow={"slide_type": "skip"}
assert round(loss(descend(0.1)[-1]), 4) == 0.1704
assert round(loss(descend(0.01, 0.9)[-1]), 4) == 0.1705 and round(1.9 * lr_max, 4) == 0.3315
assert round(loss(descend(0.1, 0.9)[-1]), 3) == 0.155 and loss(descend(0.34, 0.9)[-1]) > 1e20

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** By hand, for the first layer of AlexNet: 3 channels of 227 by 227, 96 kernels of
# 11 by 11, stride 4, no padding. How many parameters, how many FLOP for one image, how many bytes of
# output for 128 images in float32?
#
# <details><summary>Answer</summary>
#
# $3\cdot 11\cdot 11 = 363$ weights for each kernel, 34,848 in all, and 96 biases: 34,944 parameters.
# The output is $(227-11)/4 + 1 = 55$ wide, 3025 positions. $2\cdot 34848\cdot 3025 = 210.8$ million
# FLOP. $128\cdot 96\cdot 3025\cdot 4 = 148.7$ MB.
#
# </details>

# %% slideshow={"slide_type": "skip"}
assert (3 * 11 * 11, 96 * 363, 96 * 363 + 96) == (363, 34_848, 34_944) and 55**2 == 3025
assert layers[0][2] == 34_944 and layers[0][3] == 3025
assert round(2 * 34_848 * 3025 / 1e6, 1) == 210.8 and round(128 * 96 * 3025 * 4 / 1e6, 1) == 148.7

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** From which batch size on can `fc6` (9216 to 4096) run at full speed on the A100, in
# float32? With 16-bit numbers and tensor cores the same chip does 312 TFLOP/s [7]. From which batch
# size on then? What does that mean for data parallelism on faster and faster chips?
#
# <details><summary>Answer</summary>
#
# Set $\frac{2Bdd'}{w(dd' + B(d + d'))}$ equal to the corner, with $w$ bytes a number, and solve for
# $B$. In float32 the corner is at 12.5 and $B = 26$. With 16 bits the corner is at 200.6; each
# number has half the bytes, and $B = 216$. Chips get faster at arithmetic than at memory, so each
# needs a *larger* share of the batch to be busy: data parallelism over many of them needs very large
# batches, and assignment `a04_data_parallel` asks whether those still learn.
#
# </details>


# %% slideshow={"slide_type": "skip"}
def full_speed_from(flop_per_s, width, d=9216, d_out=4096):
    corner = flop_per_s / a100.memory_bytes_per_s
    return corner, corner * width * d * d_out / (2 * d * d_out - corner * width * (d + d_out))


(corner32, B32), (corner16, B16) = full_speed_from(19.5e12, 4), full_speed_from(312e12, 2)
assert round(corner32, 1) == 12.5 and np.ceil(B32) == 26
assert round(corner16, 1) == 200.6 and round(B16) == 216

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** Subtract from every image the mean of all images, before training. What happens to
# the border of the learning rate, and why? Is the best loss another one?
#
# <details><summary>Answer</summary>
#
# The steepest direction was the mean picture (section 3). Without it the next ones remain, 0.70 and
# less, and the constant, whose eigenvalue is exactly 1: the border goes to 2, which is 11.5 times
# higher. The best loss stays, since the constant can make up for the mean. 200 steps close to the
# new border give 0.154, where 200 steps close to the old one gave 0.163. This is why inputs are
# normalised [14], and it costs one subtraction.
#
# </details>

# %% slideshow={"slide_type": "skip"}
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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Your turn
#
# The assignment `a02_sgd` has four modules. `sgd` is section 6 for any number of layers, by hand.
# `conv` is section 8: Toeplitz, im2col, forward and backward. `account` is sections 9 and 10 as
# formulas, with no torch to count for you. `sgd_torch` is the same training in torch, to the same
# numbers. It needs one process and real data, and its checks run in seconds.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. E. Alpaydin, C. Kaynak. Optical recognition of handwritten digits. UCI Machine Learning
#    Repository, 1998. The test set, by way of `sklearn.datasets.load_digits`.
# 2. B. T. Polyak. Some methods of speeding up the convergence of iteration methods. USSR
#    Computational Mathematics and Mathematical Physics 4(5), 1–17, 1964.
# 3. H. Robbins, S. Monro. A stochastic approximation method. Annals of Mathematical Statistics
#    22(3), 400–407, 1951.
# 4. D. E. Rumelhart, G. E. Hinton, R. J. Williams. Learning representations by back-propagating
#    errors. Nature 323, 533–536, 1986.
# 5. M. Cai. Introduction to High-performance Machine Learning. Slides, SURFsara.
# 6. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 7. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 8. A. Krizhevsky, I. Sutskever, G. E. Hinton. ImageNet classification with deep convolutional
#    neural networks. Advances in Neural Information Processing Systems 25, 2012.
# 9. K. Chellapilla, S. Puri, P. Simard. High performance convolutional neural networks for document
#    processing. Tenth International Workshop on Frontiers in Handwriting Recognition, La Baule,
#    2006.
# 10. S. Williams, A. Waterman, D. Patterson. Roofline: an insightful visual performance model for
#     multicore architectures. Communications of the ACM 52(4), 65–76, 2009.
# 11. Nvidia GeForce GTX 580 review. bit-tech.net, November 2010. Page 2, specifications.
# 12. TensorFlow, `docs_src/performance/benchmarks.md`: training with NVIDIA DGX-1, synthetic data,
#     May 2017. github.com/tensorflow/tensorflow; the smaller AlexNet is `alexnet_model.py` in
#     github.com/tensorflow/benchmarks.
# 13. A. Lavin, S. Gray. Fast algorithms for convolutional neural networks. IEEE Conference on
#     Computer Vision and Pattern Recognition (CVPR), 2016. arXiv:1509.09308.
# 14. Y. LeCun, L. Bottou, G. B. Orr, K.-R. Müller. Efficient BackProp. In: Neural Networks: Tricks
#     of the Trade, Lecture Notes in Computer Science 1524, Springer, 1998.
# 15. P. Goyal, P. Dollár, R. Girshick, P. Noordhuis, L. Wesolowski, A. Kyrola, A. Tulloch, Y. Jia,
#     K. He. Accurate, large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677, 2017.
#
# Read next: [14] for section 3 and for practice that still holds; G. Goh, Why momentum really works,
# Distill, 2017, for section 4 with more knobs to turn; [10] for rooflines of real machines; and
# L. Bottou, F. E. Curtis, J. Nocedal, Optimization methods for large-scale machine learning, SIAM
# Review 60(2), 223–311, 2018, for everything that stochastic gradients can be proved to do.
