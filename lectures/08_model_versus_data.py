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
# # Lecture 8: Model against data parallelism
#
# Four GPUs train one network. Either each has all the weights and some of the samples, or each has
# some of the weights and all the samples. The arithmetic is the same, the result is the same, and
# the bytes on the wire may differ by a factor of a thousand, in either direction. Three matrix
# products decide which way.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - write a layer's forward and backward pass as three matrix products, and say for any way to cut
#   them what has to be sent, and how many bytes that is;
# - find the batch at which model and data parallelism send the same, and correct the formula for
#   it that many slides show;
# - explain why AlexNet sat on two GPUs, why Megatron cuts by columns and then by rows, and what
#   Mesh-TensorFlow's layouts mean;
# - find the best mixture of both for a network, a batch and a machine, by formula and by search;
# - say why tensor parallelism stops at the edge of a node.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** Matrix products and the chain rule; [lecture 2](02_sgd.ipynb), where a layer becomes a matrix
# product; [lecture 3](03_allreduce.ipynb), for ranks, for the cost $\alpha + n\beta$ of a message
# and for the ring. Of MPI you need three more calls; section 3 shows them.
#
# **How to read.** Where there is a line that starts with *Predict*, write your answer down before
# you look at the output.
#
# | sign | meaning |
# |---|---|
# | $p$ | world size; $P_r \times P_c = p$ when ranks form a grid |
# | $B$ | samples in a batch, of all ranks together; for text, a sample is a token |
# | $d_0, d_1, \dots, d_L$ | widths: layer $i$ turns $d_{i-1}$ numbers into $d_i$ |
# | $X,\ W,\ Y$ | input $(B \times d_{i-1})$, weights $(d_{i-1} \times d_i)$, output $(B \times d_i)$ |
# | $G$ | gradient of the loss with respect to $Y$, of the same shape |
#
# Samples are rows here, $Y = XW$, as in NumPy and PyTorch. Slides often write $Y = WX$ with samples
# as columns. The same cut is then called "by rows" there and "by columns" here.

# %% slideshow={"slide_type": "skip"}
import itertools
import os
import re
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside.lectures import Knob, explore, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
DATA, MODEL, COMPUTE, COMMUNICATION = "#5c4d9a", "#b56576", "#0072b2", "#e69f00"

# %% slideshow={"slide_type": "skip"}
vgg16 = table(LECTURES / "data" / "vgg16_parameters.csv")
weights_of = vgg16["num_parameters"]
assert round(4e-6 * weights_of.sum()) == 553 and round(4e-6 * weights_of[13]) == 411
assert vgg16["layer"][13] == "fc6" and weights_of[0] == 1792

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: 411 MB that nobody else needs
#
# You met VGG-16 [1] in lecture 3: 553 MB of gradients in every step, and one layer, fc6, holds 411
# MB of them. With data parallelism each of four GPUs computes a gradient of fc6 from its own
# samples, and an all-reduce adds the four up. Look at what goes *through* that layer instead.

# %% slideshow={"slide_type": "fragment"}
d_in, d_out, batch = 25088, 4096, 256
weight_bytes, input_bytes, output_bytes = 4 * d_in * d_out, 4 * batch * d_in, 4 * batch * d_out
print(f"weights {weight_bytes / 1e6:6.1f} MB")
print(f"inputs  {input_bytes / 1e6:6.1f} MB, outputs {output_bytes / 1e6:.1f} MB, for 256 samples")
assert round(weight_bytes / 1e6) == 411
assert round(input_bytes / 1e6) == 26 and round(output_bytes / 1e6) == 4
assert round(weight_bytes / (input_bytes + output_bytes)) == 14
assert round((input_bytes + output_bytes) / 1e6) == 30
assert (d_out // 4, d_out, batch) == (1024, 4096, 256)

# %% [markdown] slideshow={"slide_type": "fragment"}
# All the samples' inputs and outputs together are 30 MB, fourteen times less than the weights. So
# turn it round: leave the weights where they are and send the *samples*. Let each GPU own 1024 of
# the 4096 output neurons, with the weights that lead to them. A GPU that has all inputs can
# compute its neurons for all 256 samples. And the gradient of its weights? It belongs to its own
# neurons, and nobody else has any part in it.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Is that always better? VGG-16's first layer has 1792 parameters, 7 kB, and turns each picture
# into $224 \cdot 224 \cdot 64$ numbers.
#
# *Predict: for 256 pictures, how many times larger is what comes out of it than its weights?*

# %% slideshow={"slide_type": "fragment"}
first_outputs = 256 * 224 * 224 * 64
print(f"{first_outputs / weights_of[0]:,.0f} times")
assert first_outputs / weights_of[0] == 458_752

# %% [markdown] slideshow={"slide_type": "fragment"}
# 458,752 times. In one network, one layer begs for the one kind of parallelism and another layer
# for the other. You need a rule that tells which, and for that the bytes of both.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 2. Three products and one rule
#
# A layer is $Y = XW$. Training needs two more products. A small change of $X$ and $W$ changes the
# loss by
#
# $$dL = \langle G, dY\rangle = \langle G,\; dX\,W + X\,dW\rangle
#      = \langle G W^T,\; dX\rangle + \langle X^T G,\; dW\rangle ,$$
#
# where $\langle A, B\rangle$ is the sum of the products of equal entries. So the gradients are
#
# $$\nabla X = G\,W^T \qquad\text{and}\qquad \nabla W = X^T G .$$
#
# $\nabla W$ updates this layer; $\nabla X$ is the $G$ of the layer below.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Three products over three dimensions, and each product *sums over* a different one:
#
# | product | shape | sums over |
# |---|---|---|
# | $Y = X W$ | $B \times d_\text{out}$ | $d_\text{in}$ |
# | $\nabla W = X^T G$ | $d_\text{in} \times d_\text{out}$ | $B$ |
# | $\nabla X = G W^T$ | $B \times d_\text{in}$ | $d_\text{out}$ |
#
# Cut one dimension into $p$ parts, one for each rank. The two products that have this dimension in
# their *result* are cut with it: each rank computes its part from what it has. The third product
# sums over it: each rank has a summand of the whole result, and somebody must add them up.
#
# > **The rule.** A product has to be added up over the ranks if, and only if, it sums over a
# > dimension that is cut.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Here is the rule in pictures. Four colours are four ranks, grey is what all of them have, and a
# stack of four sheets is a sum that is not yet added up.

# %% slideshow={"slide_type": "skip"}
RANKS = ["#56b4e9", "#8a7a00", "#7f5539", "#009e73"]
LENGTH = {"B": 2.4, "in": 3.2, "out": 4.0}  # of the sides in the picture


def box(axis, x, y, wide, high, colour):
    axis.add_patch(plt.Rectangle((x, y), wide, high, fc=colour, ec="white", linewidth=1.2))


# %% slideshow={"slide_type": "skip"}
def matrix(axis, x, name, rows, columns, cut, summand=False):
    """Draw a matrix from x to the right, cut by one of its sides; return where it ends."""
    high, wide = LENGTH[rows], LENGTH[columns]
    box(axis, x, -high, wide, high, "#d3d9e0")
    for k, colour in enumerate(RANKS):
        if summand:
            box(axis, x + 0.3 * k, -high - 0.3 * k, wide, high, colour)
        elif cut == rows:
            box(axis, x, -high * (k + 1) / 4, wide, high / 4, colour)
        elif cut == columns:
            box(axis, x + wide * k / 4, -high, wide / 4, high, colour)
    if summand:
        axis.text(
            x + wide / 2 + 0.9, -high / 2 - 0.9, "Σ", c="w", size=16, ha="center", va="center"
        )
    axis.text(x + wide / 2, 0.35, name, ha="center", fontsize=11)
    return x + wide + 0.9 * summand


# %% slideshow={"slide_type": "skip"}
PRODUCTS = [  # result, left and right factor: name, rows, columns
    (("Y", "B", "out"), ("X", "B", "in"), ("W", "in", "out")),
    (("∇W", "in", "out"), ("Xᵀ", "in", "B"), ("G", "B", "out")),
    (("∇X", "B", "in"), ("G", "B", "out"), ("Wᵀ", "out", "in")),
]


def draw(axis, product, cut):
    """One product with one dimension cut, drawn as result = left x right."""
    result, left, right = product
    end = matrix(axis, 0, *result, cut, summand=cut not in result)
    axis.text(end + 0.5, -1.5, "=", ha="center", fontsize=13)
    end = matrix(axis, end + 1, *left, cut)
    axis.text(end + 0.4, -1.5, "·", ha="center", fontsize=13)
    matrix(axis, end + 0.8, *right, cut)
    axis.set(xlim=(-0.3, 13.4), ylim=(-4.4, 1.2), aspect="equal")
    axis.axis("off")


# %% slideshow={"slide_type": "slide"} tags=["figure"]
CUTS = {
    "B": "the batch:\ndata parallel",
    "out": "outputs:\ncolumns of W",
    "in": "inputs:\nrows of W",
}
figure, axes = plt.subplots(3, 3, figsize=(10, 4.6))
for line, cut in zip(axes, CUTS):
    for axis, product in zip(line, PRODUCTS):
        draw(axis, product, cut)
    line[0].text(-0.9, -1.5, CUTS[cut], ha="right", va="center", fontsize=10)
show(figure, "Nine matrix products, drawn as rectangles with four coloured parts. Rows: the batch is cut, the "
     "outputs, the inputs. Columns: Y = X W, the weights' gradient, the inputs' gradient. In each row exactly "
     "one result is a stack of four sheets, a sum to be added up: the weights' gradient when the batch is cut, "
     "the inputs' gradient when outputs are cut, Y when inputs are cut.")  # fmt: skip
partial = {cut: [r[0] for r, *_ in PRODUCTS if cut not in r] for cut in CUTS}
assert partial == {"B": ["∇W"], "out": ["∇X"], "in": ["Y"]}

# %% [markdown] slideshow={"slide_type": "fragment"}
# One stack in each row. Keep this picture: the rest of the lecture is about which stack is the
# thinnest, how to add it up cheaply, and how to put layers together so that what one leaves cut is
# what the next one wants.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3. The rule on ranks
#
# In lecture 3 you sent every message by hand. MPI has these patterns ready-made, as *library
# collectives*. All ranks of `comm` call them together:
#
# | call | each rank brings | each rank gets | a ring sends, per rank |
# |---|---|---|---|
# | `comm.Allreduce(mine, total)` | $n$ bytes | the sum, $n$ bytes | $2\frac{p-1}{p}n$ |
# | `comm.Reduce_scatter_block(mine, part)` | $n$ bytes | its $1/p$ of the sum | $\frac{p-1}{p}n$ |
# | `comm.Allgather(part, whole)` | $n/p$ bytes | everybody's parts, $n$ bytes | $\frac{p-1}{p}n$ |
#
# An all-reduce is the second and then the third; lecture 3 built it that way.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Three lines of arithmetic are a whole layer. Each rank gets its pieces of $X$, $W$ and $G$, and the
# name of the one product that must be added up. The program is the same for all three cuts.

# %% slideshow={"slide_type": "fragment"}
# %%writefile three_products.py
import numpy as np


def layer(comm, X, W, G, partial):
    products = {"Y": X @ W, "dW": X.T @ G, "dX": G @ W.T}
    total = np.empty_like(products[partial])
    comm.Allreduce(products[partial], total)
    return products | {partial: total}


# %% slideshow={"slide_type": "fragment"}
p, B, d_in, d_out = 4, 8, 12, 20
rng = np.random.default_rng(8)
X, W, G = rng.normal(size=(B, d_in)), rng.normal(size=(d_in, d_out)), rng.normal(size=(B, d_out))
serial = {"Y": X @ W, "dW": X.T @ G, "dX": G @ W.T}
CUT = {  # the axis of X, W and G that is cut, and what is summed
    "batch": (0, None, 0, "dW"),
    "columns": (None, 1, 1, "dX"),
    "rows": (1, 0, None, "Y"),
}


def pieces(array, axis):
    return [array] * p if axis is None else np.split(array, p, axis=axis)


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict for the three cuts: how many bytes does each rank send? The numbers are float64, 8 bytes
# each.*

# %% slideshow={"slide_type": "slide"} tags=["ranks"]
sent = {}
for cut, (x, w, g, partial) in CUT.items():
    blocks = zip(pieces(X, x), pieces(W, w), pieces(G, g), [partial] * p)
    result = ringside.run("three_products.py:layer", p, list(blocks))
    for value in result.values:  # on every rank, the whole sum
        np.testing.assert_allclose(value[partial], serial[partial])
    sent[cut] = result.timeline.bytes_matrix.sum(axis=1).tolist()
    print(f"{cut:8} each rank sends {sent[cut][0]:5,} bytes for {partial}")
    assert sent[cut] == [2 * (p - 1) * serial[partial].nbytes // p] * p
assert [nbytes[0] for nbytes in sent.values()] == [2880, 1152, 1920]
assert len(result.values) == 4

# %% [markdown] slideshow={"slide_type": "fragment"}
# 2880, 1152 and 1920: in each case $2\frac{p-1}{p}$ times the size of the one partial result, to the
# byte. (`timeline.bytes_matrix` counts the messages that the network carried for the collectives;
# on this machine they go round a ring.)
#
# The other two results are already right, but cut. With the batch cut, each rank has the rows of
# $Y$ of its samples. With columns cut, each rank has its columns of $Y$:

# %% slideshow={"slide_type": "fragment"}
result = ringside.run("three_products.py:layer", p,
                      list(zip([X] * p, pieces(W, 1), pieces(G, 1), ["dX"] * p)))  # fmt: skip
columns_of_Y = [value["Y"] for value in result.values]
assert columns_of_Y[0].shape == (8, 5)
np.testing.assert_allclose(np.concatenate(columns_of_Y, axis=1), serial["Y"])
np.testing.assert_allclose(np.concatenate([v["dW"] for v in result.values], axis=1), serial["dW"])

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4. A chain of layers, step by step
#
# Now $L$ layers after each other, and the two classical ways to train them on $p$ ranks.
#
# **Data parallelism** cuts the batch, everywhere. What one layer leaves, rows of $Y$, is what the
# next one wants. Only the $\nabla W$ have to be summed, with one all-reduce for each layer. Each
# rank sends
#
# $$n_\text{data} = 2\,\frac{p-1}{p}\sum_{i=1}^{L} d_{i-1}\,d_i \quad\text{elements,}$$
#
# whatever the batch.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Model parallelism**, in its plain form, cuts the columns of every $W$: rank $r$ owns $W_r$, of
# shape $d_{i-1} \times d_i/p$.
#
# 1. *Forward.* $Y_r = X W_r$. The next layer needs all of $Y$, so the columns are gathered:
#    $\frac{p-1}{p} B\, d_i$ elements, for $i = 1, \dots, L$. An elementwise function such as ReLU
#    doesn't mind: apply it before.
# 2. *Backward, weights.* $\nabla W_r = X^T G_r$, with the rank's own columns $G_r$ of $G$. **Nothing
#    is sent.** That is what it is all for.
# 3. *Backward, inputs.* $\nabla X = \sum_r G_r W_r^T$: every rank has a summand of size
#    $B \times d_{i-1}$. The first layer doesn't need it, so $i = 2, \dots, L$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Stop at step 3. The widely used slides [2] add the summands up by an all-reduce. *Who needs the
# sum? Think before you go on.*

# %% [markdown] slideshow={"slide_type": "fragment"}
# The layer below takes $\nabla X$ as its $G$, and in step 2 it uses **its own columns** $G_r$ of it,
# and in step 3 again only those. No rank ever looks at the other columns. So a **reduce-scatter**
# does it, for half the bytes:
#
# $$n_\text{model} = \frac{p-1}{p}\,B\left(\sum_{i=1}^{L} d_i
#      + c \sum_{i=2}^{L} d_{i-1}\right), \qquad
#      c = \begin{cases} 2 & \text{all-reduce} \\ 1 & \text{reduce-scatter.}\end{cases}$$

# %% [markdown] slideshow={"slide_type": "slide"}
# Three layers with ReLU, for real. First the forward pass:

# %% slideshow={"slide_type": "fragment"}
# %%writefile forward_pass.py
import numpy as np


def forward(comm, X, weights):
    """The whole input of every layer and the result; weights: this rank's columns of each W."""
    inputs = [X]
    for W_r in weights:
        Y_r = np.maximum(inputs[-1] @ W_r, 0)  # (B, d/p)
        everybody = np.empty((comm.size, *Y_r.shape))
        comm.Allgather(Y_r, everybody)
        inputs.append(np.concatenate(everybody, axis=1))  # (B, d)
    return inputs


# %% [markdown] slideshow={"slide_type": "fragment"}
# Then the way back. A reduce-scatter hands out consecutive parts of an array, so the columns that
# belong to one rank are first laid next to each other.

# %% slideshow={"slide_type": "fragment"}
# %%writefile model_step.py
import numpy as np
from forward_pass import forward


def step(comm, X, weights, target):
    """Gradients of this rank's columns for the loss |Y - target|^2 / 2."""
    *inputs, Y = forward(comm, X, weights)

    def own(A):
        return np.split(A, comm.size, axis=1)[comm.rank]

    G_r, gradients = (own(Y) - own(target)) * (own(Y) > 0), []  # ReLU passes G where Y > 0
    for X, W_r in reversed(list(zip(inputs, weights))):
        gradients.insert(0, X.T @ G_r)
        if X is not inputs[0]:
            summands = np.stack(np.split(G_r @ W_r.T, comm.size, axis=1))
            G_r = np.empty_like(summands[0])
            comm.Reduce_scatter_block(summands, G_r)
            G_r *= own(X) > 0
    return gradients


# %% [markdown] slideshow={"slide_type": "fragment"}
# And the same on one rank, with PyTorch to differentiate, as the judge:

# %% slideshow={"slide_type": "fragment"}
import torch

widths, B = (16, 32, 24, 8), 20
X, target = rng.normal(size=(B, widths[0])), rng.normal(size=(B, widths[-1]))
weights = [rng.normal(size=shape) / 4 for shape in zip(widths, widths[1:])]


def judged(X, target):
    """Gradients of all weights, computed by PyTorch on one rank."""
    tensors = [torch.tensor(W, requires_grad=True) for W in weights]
    Y = torch.tensor(X)
    for W in tensors:
        Y = torch.relu(Y @ W)
    ((Y - torch.tensor(target)) ** 2 / 2).sum().backward()
    return [W.grad.numpy() for W in tensors]


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict: how many elements does each rank send? The widths are 16, 32, 24 and 8, there are 20
# samples and 4 ranks.*

# %% slideshow={"slide_type": "slide"}
blocks = [[np.ascontiguousarray(np.split(W, p, axis=1)[r]) for W in weights] for r in range(p)]
result = ringside.run("model_step.py:step", p, [(X, mine, target) for mine in blocks])
for layer, right in enumerate(judged(X, target)):
    ours = np.concatenate([value[layer] for value in result.values], axis=1)
    np.testing.assert_allclose(ours, right, rtol=1e-10, atol=1e-10)

counted = result.timeline.bytes_matrix.sum(axis=1)
forward, backward = sum(widths[1:]), sum(widths[1:-1])
print(counted // 8, "elements sent by each rank")
assert (counted == 8 * (p - 1) * B * (forward + backward) // p).all()
assert (forward, backward) == (64, 56) and counted[0] // 8 == 1800

# %% [markdown] slideshow={"slide_type": "fragment"}
# 1800 elements: $\frac34 \cdot 20 \cdot (64 + 56)$, gathered forward and scattered backward. The
# gradients are PyTorch's. So the reduce-scatter is enough.

# %% slideshow={"slide_type": "slide"}
result.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# Read it with the program beside it: three all-gathers on the way up, two reduce-scatters on the
# way down, each of them $p - 1$ steps round the ring. And not one message for weights.

# %% [markdown] slideshow={"slide_type": "slide"}
# The same step with data parallelism: every rank has all weights and a quarter of the samples.

# %% slideshow={"slide_type": "fragment"}
# %%writefile data_step.py
import numpy as np


def step(comm, X, weights, target):
    """Gradients of all weights, summed over the samples of all ranks."""
    inputs = [X]
    for W in weights:
        inputs.append(np.maximum(inputs[-1] @ W, 0))
    G, gradients = (inputs[-1] - target) * (inputs[-1] > 0), []
    for X, W in list(zip(inputs, weights))[::-1]:
        total = np.empty_like(W)
        comm.Allreduce(X.T @ G, total)
        gradients.append(total)
        G = G @ W.T * (X > 0)
    return gradients[::-1]


# %% slideshow={"slide_type": "fragment"}
parts = list(zip(np.split(X, p), [weights] * p, np.split(target, p)))
data = ringside.run("data_step.py:step", p, parts)
for ours, right in zip(data.values[0], judged(X, target)):
    np.testing.assert_allclose(ours, right, rtol=1e-10, atol=1e-10)
data_elements = data.timeline.bytes_matrix.sum(axis=1) // 8
num_weights = sum(d * e for d, e in zip(widths, widths[1:]))
print(data_elements, "elements sent by each rank")
assert (data_elements == 2 * (p - 1) * num_weights // p).all()
assert num_weights == 1472 and data_elements[0] == 2208
assert int(np.ceil(2208 / 1800 * 20)) == 25

# %% [markdown] slideshow={"slide_type": "fragment"}
# 2208 elements, $2\cdot\frac34\cdot 1472$. With 20 samples model parallelism sends less. It grows
# with the batch and data parallelism doesn't, so from 25 samples on it is the other way round.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. The crossover, and a factor that got lost
#
# Set the two equal for $L$ layers that are all $d$ wide; for many layers the ends don't matter.
# Both have the factor $\frac{p-1}{p}$, and it cancels: **the crossover doesn't depend on the number
# of ranks.**
#
# $$\underbrace{2\,d^2}_\text{data} = \underbrace{(1 + c)\,B\,d}_\text{model}$$
#
# $$B^* = \frac{2d}{1+c} = \begin{cases} \frac23 d & \text{with an all-reduce} \\
#   d & \text{with a reduce-scatter.}\end{cases}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# Compare the slide in [2]. It writes
#
# $$T(\text{model}) = \sum_{i=1}^{L}\beta(P-1)\frac{Bd_i}{P} + 2\sum_{i=2}^{L}\beta(P-1)\frac{Bd_i}{P},$$
#
# $$T(\text{data}) = \sum_{i=1}^{L}\beta(P-1)\frac{d_i^2}{P} .$$
#
# > **Corrected.** (a) An all-reduce of the weights' gradients costs *twice* that; an earlier slide
# > of the same deck has the 2. (b) What goes backward through layer $i$ has $d_{i-1}$ columns, not
# > $d_i$. (c) It need not be an all-reduce. The slide's formula puts the crossover at $B = d/3$;
# > with (a) it is $2d/3$, and with (c) it is $d$.

# %% slideshow={"slide_type": "fragment"}
d = 4096
crossovers = {"slide": d / 3, "all-reduce": 2 * d / 3, "reduce-scatter": d}
for name, samples in crossovers.items():
    print(f"{name:15} model parallelism sends less below {samples:5.0f} samples")
assert [round(samples) for samples in crossovers.values()] == [1365, 2731, 4096]
data_sends, model_sends = 2 * d**2, 2 * (d / 3) * d  # at the slide's crossover
assert np.isclose(data_sends / model_sends, 3)

# %% [markdown] slideshow={"slide_type": "fragment"}
# At a width of 4096: 1365, 2731 or 4096 samples. Between the first and the last, the slide advises
# data parallelism although model parallelism sends less: near the first, 3 times less.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Layers that aren't square.** Charge a layer for the gather of its outputs and the reduce-scatter
# of its inputs' gradients. Then $2\,d_\text{in} d_\text{out} = B\,(d_\text{in} + d_\text{out})$, so
#
# $$B^* = \frac{2\,d_\text{in}\,d_\text{out}}{d_\text{in} + d_\text{out}} :$$
#
# the crossover batch is the **harmonic mean** of the widths. For a convolution, put the number of
# weights in the place of $d_\text{in} d_\text{out}$, and the *activations* of a sample, pixels and
# channels, in the place of $d_\text{in}$ and $d_\text{out}$. Weights are used again at every pixel;
# activations aren't. So $B^*$ collapses.

# %% slideshow={"slide_type": "fragment"}
SIDES = [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14]
CHANNELS = [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
outputs = np.array([s * s * c for s, c in zip(SIDES, CHANNELS)] + [4096, 4096, 1000])
entering = [s * s * c for s, c in zip(SIDES[1:], CHANNELS)]  # behind the pooling
inputs = np.array([224 * 224 * 3, *entering, 7 * 7 * 512, 4096, 4096])
crossover = 2 * weights_of / (inputs + outputs)
for layer in (0, 12, 13, 14, 15):
    print(f"{vgg16['layer'][layer]:8} {crossover[layer]:10,.3f} samples")
assert crossover.argmin() == 0 and round(crossover[0], 3) == 0.001
assert np.ceil(crossover[:13].max()) == 24 and crossover[13:].min() > 1600
assert [round(c) for c in crossover[13:]] == [7043, 4097, 1608]

# %% slideshow={"slide_type": "slide"}
figure, axis = plt.subplots(figsize=(9, 3.6))
axis.bar(range(16), crossover, color=[DATA] * 13 + [MODEL] * 3, bottom=1e-4)
axis.axhspan(crossover[:13].max(), crossover[13:].min(), color="#e6e9ed", zorder=0)
axis.text(0, 700, "for these batches: convolutions by data, the rest by model", va="center")
axis.text(0, 120, "256 samples", va="center", color="#57606a")
axis.set(yscale="log", ylabel="crossover batch (samples)", ylim=(5e-4, 3e4))
axis.set_xticks(range(16), vgg16["layer"], rotation=50, ha="right")
axis.axhline(256, color="#57606a", linestyle=":", linewidth=1)
show(figure, "Bars for the 16 layers of VGG-16, logarithmic: the batch below which model parallelism sends less. "
     "It rises from a thousandth of a sample in conv1_1 to 24 samples in conv5_3; for fc6, fc7 and fc8 it is "
     "7043, 4097 and 1608. A grey band between 24 and 1608 samples lies above all convolutions and below "
     "all fully connected layers; a dotted line marks 256 samples.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 24 samples to 1608 the answer is the same for every layer: convolutions by data, the three
# fully connected layers by model. Krizhevsky published this mixture in 2014 as *one weird trick*
# [3]. What is it worth?

# %% slideshow={"slide_type": "fragment"}
p, B = 4, 256
share = (p - 1) / p
all_data = share * 2 * weights_of.sum() * 4
all_model = share * B * (inputs[1:].sum() + outputs.sum()) * 4
# fc6, fc7, fc8: gather the inputs, scatter their gradients; and gather the 1000 results
mixed = share * (2 * weights_of[:13].sum() + B * (2 * inputs[13:].sum() + 1000)) * 4
for name, nbytes in (("data", all_data), ("model", all_model), ("mixed", mixed)):
    print(f"{name:6} each rank sends {nbytes / 1e6:8,.0f} MB")
assert [round(n / 1e6) for n in (all_data, all_model, mixed)] == [830, 17_296, 140]
assert round(all_data / mixed, 1) == 5.9 and round(all_model / all_data) == 21

# %% [markdown] slideshow={"slide_type": "fragment"}
# 830 MB with data parallelism, 140 MB with the mixture, 5.9 times less: and 17,296 MB with plain
# model parallelism everywhere. In the mixture the step from one half to the other comes for free:
# fc6 gathers its inputs from all ranks, and whether these are columns or samples makes no
# difference to the bytes.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 6. AlexNet's two GPUs
#
# AlexNet [4] won the ImageNet competition of 2012 on two graphics cards with 3 GB each. The paper puts half
# of the kernels, and half of the neurons, on each GPU: columns. Its trick is that the GPUs talk
# only in some layers. The kernels of layers 2, 4 and 5 see the maps of their own GPU only; layer 3
# and the fully connected layers see all. So the *network* was changed to fit the machine.
#
# *Predict: how many megabytes does each GPU send in a step of 128 pictures, and how many would it
# send with data parallelism?*


# %% slideshow={"slide_type": "fragment"}
def parameters(groups):
    """Weights and biases; layers 2, 4 and 5 are cut into groups that don't see each other."""
    convolutions = [(11, 3, 96, 1), (5, 96, 256, groups), (3, 256, 384, 1),
                    (3, 384, 384, groups), (3, 384, 256, groups)]  # fmt: skip
    total = sum(k * k * c_in // g * c_out + c_out for k, c_in, c_out, g in convolutions)
    return total + sum(d * e + e for d, e in ((9216, 4096), (4096, 4096), (4096, 1000)))


crossing = [13 * 13 * 256, 6 * 6 * 256, 4096, 4096]  # what layers 3, 6, 7 and 8 gather
model_MB = 2 * 0.5 * 128 * sum(crossing) * 4 / 1e6  # forward, and as much backward
data_MB = 2 * 0.5 * parameters(2) * 4 / 1e6
print(f"{parameters(2):,} parameters; without groups {parameters(1):,}")
print(f"two halves {model_MB:.0f} MB, data parallelism {data_MB:.0f} MB in each step")
assert (parameters(2), parameters(1)) == (60_965_224, 62_378_344)
assert round(model_MB) == 31 and round(data_MB) == 244 and round(data_MB / model_MB, 1) == 7.9

# %% [markdown] slideshow={"slide_type": "fragment"}
# 31 MB against 244 MB, 7.9 times less, and 60,965,224 parameters where the same network without
# groups has 62,378,344.
#
# Memory was the other reason. [2] counts the numbers that a picture leaves in all layers (lecture 2
# recomputes it); each of them has a gradient, and each weight has a gradient and a momentum.

# %% slideshow={"slide_type": "fragment"}
activations_MB = 128 * 1_526_595 * 4e-6
needed_GB = (2 * activations_MB + 3 * data_MB) / 1000
print(f"{activations_MB:.0f} MB of activations, {needed_GB:.1f} GB in all")
assert round(activations_MB) == 782 and round(needed_GB, 1) == 2.3

# %% [markdown] slideshow={"slide_type": "fragment"}
# 782 MB of activations, 2.3 GB in all, of 3 GB, and a convolution needs room to work besides.
#
# The paper reports that the two-GPU net lowers the top-1 and the top-5 error by more than one
# percentage point each against a one-GPU net with half as many kernels in each convolutional layer,
# and takes slightly less time to train [4]. Our model has nothing to say about the first. And the
# first layers, the ones that section 5 would never cut by columns, cost nothing here, because
# layer 2 was forbidden to look across.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. Columns, then rows: Megatron
#
# The plain form cuts columns in every layer and so has to gather after every layer. But the picture
# of section 2 has a third line. A layer with its *rows* cut wants its input cut by columns; and
# columns of $Y$ are what a layer with cut columns leaves. So let them alternate:
#
# $$H_r = \text{gelu}(X A_r) \quad\text{(columns, nothing sent)}, \qquad
#   Y = \sum_r H_r B_r \quad\text{(rows, one sum)}.$$
#
# Between the two layers nothing is sent at all. This is the block of Megatron-LM [5], published in
# 2019: $A$ is $d \times 4d$, $B$ is $4d \times d$.

# %% slideshow={"slide_type": "fragment"}
# %%writefile pair.py
import numpy as np


def gelu(z):
    return z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def mlp(comm, X, A_r, B_r):
    hidden = gelu(X @ A_r)  # (tokens, 4d/p), whole numbers of this rank's neurons
    summand = hidden @ B_r  # (tokens, d)
    Y = np.empty_like(summand)
    comm.Allreduce(summand, Y)
    return Y


# %% slideshow={"slide_type": "fragment"}
from pair import gelu

p, tokens, d = 4, 6, 8
X, A, B_ = rng.normal(size=(tokens, d)), rng.normal(size=(d, 4 * d)), rng.normal(size=(4 * d, d))
halves = list(zip([X] * p, np.split(A, p, axis=1), np.split(B_, p, axis=0)))
result = ringside.run("pair.py:mlp", p, [(X, A_r.copy(), B_r) for X, A_r, B_r in halves])
for Y in result.values:
    np.testing.assert_allclose(Y, gelu(X @ A) @ B_, rtol=1e-12, atol=1e-12)
counted = result.timeline.bytes_matrix.sum(axis=1)
assert (counted == 2 * (p - 1) * tokens * d * 8 // p).all()
print(counted, "bytes: one all-reduce of", tokens * d, "numbers")
result.timeline

# %% [markdown] slideshow={"slide_type": "slide"}
# Why columns first? *Predict: could the first layer be cut by rows and the second by columns?* Then
# each rank would have a summand of the hidden layer's input, and GELU isn't linear:

# %% slideshow={"slide_type": "fragment"}
summands = [X[:, :4] @ A[:4], X[:, 4:] @ A[4:]]
apart, together = gelu(summands[0]) + gelu(summands[1]), gelu(summands[0] + summands[1])
print(f"largest difference {np.abs(apart - together).max():.1f}")
np.testing.assert_allclose(together, gelu(X @ A))
assert round(np.abs(apart - together).max(), 1) == 3.1

# %% [markdown] slideshow={"slide_type": "fragment"}
# So the sum would have to come *before* GELU, and there it is four times as wide: $4d$ where the pair
# sums $d$.
#
# **Backward** the same picture, read from right to left. The rows' layer has whole $G$ on every
# rank and finds its part of $\nabla H$ alone. The columns' layer has a summand of $\nabla X$, and
# this time the layer below wants it whole: an all-reduce. Megatron calls the two places $f$ and
# $g$. They are each other's mirror:
#
# | | where | forward | backward |
# |---|---|---|---|
# | $f$ | before the columns | nothing | all-reduce |
# | $g$ | behind the rows | all-reduce | nothing |

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Attention** is cut in the same way: a head is a set of columns of the three matrices that make
# queries, keys and values, and of rows of the matrix behind. Heads don't talk to each other. So a
# transformer layer has two such pairs: two all-reduces forward, two backward, each of all tokens
# times $d$. For $t$ ranks that makes
#
# $$4 \cdot 2\,\frac{t-1}{t}\,B\,d = 8\,B\,d\,\frac{t-1}{t}
#   \quad\text{elements for each rank and layer,}$$
#
# which is the expression that the Megatron paper of 2021 gives [6].
#
# *Predict: how many elements would the plain form, with a gather after each of the two layers,
# send for the MLP $d \to 4d \to d$, against the pair?*

# %% slideshow={"slide_type": "fragment"}
gathers, scatters = 4 + 1, 4 + 1  # widths in units of d: outputs forward, inputs backward
plain, pair = gathers + scatters, 2 * 2 * 1
print(f"plain {plain} B d (p-1)/p, pair {pair} B d (p-1)/p: {plain / pair} times less")
assert (plain, pair, plain / pair) == (10, 4, 2.5)

# %% [markdown] slideshow={"slide_type": "fragment"}
# 10 against 4: 2.5 times less, and four collectives become two. The widest matrix, the hidden layer,
# never travels. (Here the plain form is charged for $\nabla X$ of its first layer too, since a
# transformer has layers below.)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Published.** Table 1 of [6] lists ten models. Count their parameters: $12 d^2$
# weights in a layer (4 in attention, 8 in the MLP), $13 d$ biases and norms, and the embeddings of
# $V$ words and $s$ positions:
#
# $$\Psi = 12\,l\,d^2\left(1 + \frac{13}{12\,d} + \frac{V + s}{12\,l\,d}\right)$$

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
from ringside.validation import load

source, published = load("megatron_2021")
V, s = published["vocabulary"], published["sequence"]
columns = np.array(published["scaling"]["rows"]).T
billions, layers, hidden = columns[:3]
psi = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (V + s) / (12 * layers * hidden))
error = psi / 1e9 / billions - 1
for row in zip(billions, psi / 1e9, error):
    print("published {:6.1f}, counted {:8.2f} billion, {:+.2%}".format(*row))
assert (V, s) == (51200, 2048) and np.abs(error[2:]).max() < 0.0045
assert (psi[:2] / 1e9).round(2).tolist() == [1.65, 3.56]
assert billions[:2].tolist() == [1.7, 3.6] and columns[3].max() == 3072 and min(columns[3]) == 32

# %% [markdown] slideshow={"slide_type": "fragment"}
# Eight of ten agree to better than half a percent. The two smallest are printed with one decimal,
# 1.7 and 3.6, and the counts 1.65 and 3.56 round to them.
#
# The models ran on 32 to 3072 GPUs. In the same table the tensor-parallel degree is 1, 2, 4, 8, and
# then 8 for all the larger models. Why does it stop at 8?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8. Inside a node and between nodes
#
# Take one transformer layer with $d = 4096$ and 4096 tokens, in float32, on the `zaratan` model of
# lecture 3: four GPUs in a node, and *one* network card for all four. The layer computes and
# all-reduces in turn. The vectors here are shorter by a factor of 4096, and the machine's
# $\beta$ is larger by the same factor, so the times are those of the full size.

# %% slideshow={"slide_type": "fragment"}
# %%writefile transformer_traffic.py
import numpy as np

import ringside


def layer(comm, nbytes, num_flops):
    """Attention and MLP, forward and backward; num_flops: of the layer, in all passes."""
    summand, total = np.zeros((2, nbytes // 4), np.float32)
    for part in (1 / 9, 2 / 9, 4 / 9, 2 / 9):  # attention, MLP; back: MLP, attention
        ringside.compute(num_flops=part * num_flops / comm.size, phase="products")
        comm.Allreduce(summand, total)


# %% slideshow={"slide_type": "fragment"}
SCALE = 4096


def stretched(machine):
    """The machine on which a vector takes what one SCALE times longer takes on this one."""
    machine = ringside.Machine.load(machine)
    betas = {"beta_s_per_byte": machine.beta_s_per_byte * SCALE}
    if machine.intra_beta_s_per_byte:
        betas["intra_beta_s_per_byte"] = machine.intra_beta_s_per_byte * SCALE
    return machine.with_(**betas, eager_threshold_bytes=0, kernel_overhead_s=0.0)


tokens = d = 4096
num_flops = 3 * 24 * tokens * d**2  # 12 d^2 weights, two operations each; backward is twice forward
print(f"{num_flops / 1e12:.1f} TFLOP, {4 * tokens * d / 1e6:.0f} MB in each all-reduce")
assert round(num_flops / 1e12, 1) == 4.9 and round(4 * tokens * d / 1e6) == 67

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict: on 4 GPUs of one node the layer is nearly 4 times as fast as on one. How fast is it on 8
# GPUs, on two nodes?*

# %% slideshow={"slide_type": "slide"}
zaratan, worlds, spans = stretched("zaratan"), [1, 2, 4, 8, 16, 32], {}
for p in worlds:
    run = ringside.run("transformer_traffic.py:layer", p, (4 * tokens * d // SCALE, num_flops),
                       machine=zaratan)  # fmt: skip
    computing = num_flops / p / zaratan.flop_per_s
    spans[p] = (computing, run.makespan_s - computing)
    counted = SCALE * run.timeline.bytes_matrix.sum(axis=1)
    assert (counted == 4 * 8 * tokens * d * (p - 1) // p).all()
speedup = {p: sum(spans[1]) / sum(spans[p]) for p in worlds}
print({p: round(times, 2) for p, times in speedup.items()})
assert [round(speedup[p], 2) for p in worlds] == [1.0, 1.96, 3.76, 3.65, 4.50, 5.05]
share = {p: spans[p][1] / sum(spans[p]) for p in worlds}
assert round(share[4], 2) == 0.06 and round(share[8], 2) == 0.54 and round(share[32], 2) == 0.84

# %% slideshow={"slide_type": "slide"}
figure, axis = plt.subplots(figsize=(8, 3.4))
computing, talking = 1e3 * np.array([spans[p] for p in worlds]).T
axis.bar(range(6), computing, color=COMPUTE, label="products")
axis.bar(range(6), talking, bottom=computing, color=COMMUNICATION, label="all-reduces")
for place, p in enumerate(worlds):
    axis.text(place, computing[place] + talking[place] + 3, f"{speedup[p]:.2f} x", ha="center")
axis.axvline(2.5, color="#57606a", linestyle=":")
axis.text(2.55, 200, "more than one node", color="#57606a")
axis.set_xticks(range(6), worlds)
axis.set(xlabel="GPUs that share the layer", ylabel="time of one layer (ms)")
axis.legend(frameon=False)
show(figure, "Stacked bars, products and all-reduces, of one transformer layer on 1 to 32 GPUs. Products halve "
     "each time. All-reduces are hardly to be seen on 2 and 4 GPUs and jump at 8, where the second node begins: "
     "8 GPUs are no faster than 4, and 32 GPUs are 5 times as fast as one.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 4 GPUs all-reduces are 6 % of the time; on 8 they are 54 %, and the layer is *slower* than on 4:
# 3.65 times as fast as one GPU where it was 3.76. On 32 GPUs it is 5.05 times as fast, and 84 % of
# the time is communication. The bytes that one GPU sends hardly grow, from $\frac34$ to
# $\frac{31}{32}$ of the same number. What changes is the wire: between nodes it is eight times
# slower.
#
# That is why the degree stays at 8: the models of [6] ran on machines with eight GPUs each, and the
# paper's own advice is to go up to the number of GPUs of a server, and then to cut between layers
# (lecture 9).

# %% [markdown] slideshow={"slide_type": "slide"}
# **Published.** The Megatron paper of 2019 [5] lets the model grow with the GPUs, from 1 to 8 inside
# one server. *Predict: with all-reduces over the server's own links, what fraction of its speed does
# a GPU keep on 8?* (The latency, 5 µs, is assumed here; it hardly matters.)

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
source, megatron = load("megatron_2019")
numbers, total = megatron["tensor_parallel"], megatron["aggregate"]
nvlink = ringside.Machine("NVLink", numbers["alpha_s"], 1 / numbers["bytes_per_s"])
assert numbers["bytes"] == 8 * 1024 * 3072 * 2 and numbers["layers"] == 72
assert numbers["bytes_per_s"] == 150e9 and numbers["compute_s"] == 1.83
eight = ringside.run("transformer_traffic.py:layer", 8, (numbers["bytes"] // SCALE, 0.0))
layer_s = ringside.replay(eight.trace, stretched(nvlink)).makespan_s
efficiency = numbers["compute_s"] / (numbers["compute_s"] + 72 * layer_s)
print(f"predicted {efficiency:.0%}, published {numbers['efficiency']:.0%}")
assert round(efficiency, 2) == 0.91 and numbers["efficiency"] == 0.77
assert round(100 * (1 - efficiency)) == 9 and round(100 - 100 * numbers["efficiency"]) == 23

# %% [markdown] slideshow={"slide_type": "fragment"}
# A step has 72 layers with 4 all-reduces of $8 \cdot 1024 \cdot 3072$ two-byte numbers, at 150 GB/s each
# way, and 1.83 s of computing. Predicted 91 %, published 77 %: communication explains 9 of the 23
# points that are lost. The rest is what this model doesn't have. Products of thinner matrices run
# further below the peak; and what every rank computes alike, norms, dropout and residuals, isn't
# divided by 8. A prediction that fails tells you where to look.

# %% slideshow={"slide_type": "fragment"}
figure_5 = {64: 96, 128: 83, 256: 79, 512: 74}  # percent, by GPUs: 8-way tensor, and data parallel
fraction = total["pflops"] * 1000 / (total["gpus"] * total["baseline_tflops"])
print(f"{total['pflops']} PFLOP/s are {fraction:.0%} of 512 x {total['baseline_tflops']:g} TFLOP/s")
assert round(fraction, 2) == 0.76 and figure_5[total["gpus"]] == 74
assert (total["pflops"], total["baseline_tflops"], total["gpus"]) == (15.1, 39, 512)

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** The abstract of [5] says that 512 GPUs reach 76 %, and figure 5 says 74 %. Both are
# > right: 15.1 PFLOP/s is 76 % of 512 times one GPU's 39 TFLOP/s, and the figure compares times.
# > And 39 TFLOP/s is itself less than a third of that GPU's peak. Of *what* something is 76 %, is
# > worth a question every time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. Sequence parallelism
#
# Between $g$ of one pair and $f$ of the next stand dropout, the residual and layer norm. Every rank
# computes them alike, on all tokens, and keeps their activations: $t$ times the same. But they treat
# each token by itself. So cut the *tokens* there [7].
#
# An all-reduce is a reduce-scatter and an all-gather. Stop after the first half: each rank has the
# finished sum of its $1/t$ of the tokens. Norm these, and go on with the second half only when the
# next pair wants all tokens:
#
# ```text
#  tensor parallel     rows -> all-reduce ------------ norm of all tokens ----------------> columns
#  with sequence       rows -> reduce-scatter -> norm of 1/t of the tokens -> all-gather -> columns
# ```

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict: more bytes, fewer, or the same?*

# %% slideshow={"slide_type": "fragment"}
# %%writefile sequence_traffic.py
import numpy as np


def tensor(comm, tokens, d):
    summand, total = np.zeros((2, tokens, d))
    comm.Allreduce(summand, total)


def sequence(comm, tokens, d):
    summand, whole = np.zeros((2, tokens, d))
    own = np.empty((tokens // comm.size, d))
    comm.Reduce_scatter_block(summand, own)
    comm.Allgather(own, whole)


# %% slideshow={"slide_type": "fragment"}
runs = [ringside.run(f"sequence_traffic.py:{name}", 4, (64, 12)) for name in ("tensor", "sequence")]
nbytes = [run.timeline.bytes_matrix.sum(axis=1).tolist() for run in runs]
print(nbytes)
assert nbytes[0] == nbytes[1] == [2 * 3 * 64 * 12 * 8 // 4] * 4

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same, to the byte. What it saves is memory. With two bytes a number, a transformer layer keeps
# $sbd\,(34 + 5\frac{as}{d})$ bytes for the way back ($s$ tokens in each of $b$ sequences, $a$ heads);
# tensor parallelism divides most of it by $t$, but not what the norms and dropouts keep; sequence
# parallelism divides these too [7]. For a model of the size of GPT-3:

# %% slideshow={"slide_type": "fragment"}
s, d, heads, t = 2048, 12288, 96, 8
norms, products, attention = 10, 24, 5 * heads * s / d  # bytes for each number of a layer's input
kept = {"nothing cut": norms + products + attention,
        "tensor": norms + (products + attention) / t,
        "and sequence": (norms + products + attention) / t}  # fmt: skip
for name, per_number in kept.items():
    print(f"{name:13} {s * d * per_number / 1e9:.2f} GB for each layer and sequence")
assert [round(s * d * one / 1e9, 2) for one in kept.values()] == [2.87, 0.58, 0.36]
assert round(kept["tensor"] / kept["and sequence"], 1) == 1.6 and norms + products == 34

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 2.87 GB to 0.58 GB with 8-way tensor parallelism, and to 0.36 GB with both: 1.6 times less
# again, for no byte on the wire. (10 of the 34 bytes are those of norms and dropouts.)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. Mesh-TensorFlow: give the dimensions names
#
# The rule of section 2 doesn't care about "columns" and "rows". It cares which *dimension* is cut.
# Mesh-TensorFlow [8] made a language of that. Every dimension of every tensor has a name, the
# processors form a mesh whose axes have names too, and a **layout** says which dimension is cut
# along which axis. Two rules make it work:
#
# 1. An einsum is computed on what each processor has. If a dimension that it sums over is cut along
#    an axis, an all-reduce along that axis follows.
# 2. No tensor may have two of its dimensions cut along the same axis.
#
# Here it is, for the two layers of section 7: `b` tokens, `i` inputs, `h` hidden, `o` outputs.

# %% slideshow={"slide_type": "fragment"}
EINSUMS = ["bi,ih->bh", "bh,ho->bo", "bh,bo->ho", "bo,ho->bh", "bi,bh->ih", "bh,ih->bi"]


def legal(layout):
    """No tensor has two dimensions along one axis, and every axis is used by every product."""
    axes = set(layout.values())
    for einsum in EINSUMS:
        cuts = [[layout[n] for n in name if n in layout] for name in re.split(",|->", einsum)]
        if any(len(set(cut)) < len(cut) for cut in cuts) or {*itertools.chain(*cuts)} != axes:
            return False
    return True


# %% slideshow={"slide_type": "fragment"}
def elements_sent(layout, sizes, mesh):
    """Elements that each rank sends in the all-reduces of all products."""
    total = 0
    for operands, result in (einsum.split("->") for einsum in EINSUMS):
        local = np.prod([sizes[n] / mesh.get(layout.get(n), 1) for n in result])
        for name in sorted(set(operands) - set(result) - {","}):
            q = mesh.get(layout.get(name), 1)
            total += 2 * (q - 1) / q * local
    return total


# %% [markdown] slideshow={"slide_type": "fragment"}
# What you have met in this lecture are one-line layouts:

# %% slideshow={"slide_type": "fragment"}
B, d, p = 4096, 4096, 64
sizes, mesh = {"b": B, "i": d, "h": 4 * d, "o": d}, {"all": p}
NAMES = {
    "data": {"b": "all"},
    "pair (Megatron)": {"h": "all"},
    "rows, columns": {"i": "all", "o": "all"},
}
for name, layout in NAMES.items():
    sends = elements_sent(layout, sizes, mesh) / (B * d)
    print(f"{name:16} {layout!s:30} {sends:5.2f} B d elements")
ours = [elements_sent(layout, sizes, mesh) / (B * d * (p - 1) / p) for layout in NAMES.values()]
assert all(legal(layout) for layout in NAMES.values()) and ours == [16, 4, 16]
assert not legal({"i": "all", "h": "all"})  # W1 has both

# %% [markdown] slideshow={"slide_type": "fragment"}
# In units of $\frac{p-1}{p}Bd$: 16 for data parallelism at $B = d$, since the weights are $8d^2$ and
# an all-reduce counts twice; 4 for the pair, as in section 7; and 16 for the wrong order, rows and
# then columns. And cutting both `i` and `h` is illegal, since $A$ has both.
#
# Now let a program try *every* layout on every two-dimensional mesh of 64 processors.


# %% slideshow={"slide_type": "fragment"}
def search(B, p=64):
    """The layout and the mesh for which each rank sends least."""
    sizes, best = {"b": B, "i": d, "h": 4 * d, "o": d}, (np.inf,)
    for axes in itertools.product([None, "x", "y"], repeat=4):
        layout = {name: axis for name, axis in zip("biho", axes) if axis}
        for x in (1, 2, 4, 8, 16, 32, 64):
            mesh = {axis: q for axis, q in (("x", x), ("y", p // x)) if q > 1}
            if set(layout.values()) == set(mesh) and legal(layout):
                best = min(best, (elements_sent(layout, sizes, mesh) / d**2, str(layout), x))
    return best


found = {B: search(B) for B in (512, 4096, 2**17, 2**20)}

# %% slideshow={"slide_type": "slide"}
for B, (sends, layout, x) in found.items():
    ends = [elements_sent(NAMES[name], sizes | {"b": B}, {"all": 64}) / d**2
            for name in ("pair (Megatron)", "data")]  # fmt: skip
    plain = layout.replace("'", "")
    print(f"{B:9,} tokens: {plain:18} x = {x:2}: {sends:5.2f} d²; "
          f"pair {ends[0]:7.2f}, data {ends[1]:5.2f}")  # fmt: skip
assert found[4096][1:] == ("{'b': 'x', 'h': 'y'}", 4) and found[2**17][2] == 16
assert found[2**20][1:] == ("{'b': 'x'}", 64) and 2**17 == 131_072
assert found[512][1:] == ("{'i': 'x', 'h': 'y', 'o': 'x'}", 4)
assert round(3.9375 / found[4096][0], 1) == 2.3
assert round(found[512][0], 2) == 0.21 and round(4 * 63 / 64 * 512 / d, 2) == 0.49

# %% [markdown] slideshow={"slide_type": "fragment"}
# With a million tokens plain data parallelism is best; with 131,072 it is 16 groups of 4 ranks, with
# 4096 tokens 4 groups of 16, and this mixture sends 2.3 times less than the pair alone. It is the
# layout that Mesh-TensorFlow's own introduction recommends: the batch over the rows of the mesh,
# the hidden units over its columns.
#
# With only 512 tokens the search finds something that you haven't met: *every matrix of weights cut
# in both directions*, into 4 by 16 tiles, for 0.21 instead of 0.49. No slide of this lecture's
# sources shows it. A notation that is small enough to be searched through will surprise you.
#
# The authors trained Transformers of up to 5 billion parameters on meshes of up to 512 TPU cores
# with such layouts [8].

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11. Both at once: the best grid
#
# Arrange the ranks in a grid: $P_c$ groups share the batch, and the $P_r$ ranks of a group share the
# model. Each group sees $B/P_c$ samples; and each rank sums its $1/P_r$ of the weights' gradients
# with the $P_c$ ranks that own the same columns. For $L$ layers of width $d$, in the plain form:
#
# $$n = \underbrace{2L\,\frac{P_r - 1}{P_r}\cdot\frac{B}{P_c}\,d}_\text{model, in a group}
#   + \underbrace{2L\,\frac{P_c - 1}{P_c}\cdot\frac{d^2}{P_r}}_\text{data, across groups}
#   = 2Ld\left[\frac{B}{p}(P_r - 1) + d\left(\frac{1}{P_r} - \frac1p\right)\right]$$
#
# The first part grows with $P_r$, the second falls. Take the derivative and set it to zero:
#
# $$\frac{B}{p} = \frac{d}{P_r^2} \qquad\Longrightarrow\qquad P_r^* = \sqrt{\frac{p\,d}{B}} .$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# Three things to read off. Four times the batch halves $P_r^*$. At the crossover of section 5, $B =
# d$, the best grid is *square*. And there,
#
# $$\frac{n_\text{pure}}{n_\text{best}} = \frac{p - 1}{2(\sqrt p - 1)} = \frac{\sqrt p + 1}{2}:$$
#
# exactly where the two pure kinds are equally good, both are at their worst against the mixture.
#
# *Predict: 64 ranks, $B = d = 4096$. How many times less does the best grid send?*


# %% slideshow={"slide_type": "fragment"}
def grid_elements(rows, p, B, d):
    """Elements for each layer and rank: in a group, and across groups."""
    cols = p // rows
    return 2 * (rows - 1) / rows * B / cols * d, 2 * (cols - 1) / cols * d * d / rows


grids = {rows: sum(grid_elements(rows, 64, 4096, 4096)) for rows in (1, 2, 4, 8, 16, 32, 64)}
best = min(grids, key=grids.get)
print(f"best: {best} x {64 // best}, {grids[1] / grids[best]:.1f} times less than either pure kind")
assert best == 8 and np.isclose(grids[1] / grids[8], 4.5) and grids[1] == grids[64]

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the knobs.** Every bar is a grid, from pure data parallelism on the left to pure model
# parallelism on the right. *Predict before you drag: a batch eight times larger, and the best grid
# moves by how many bars? And with four times as many ranks?*


# %% slideshow={"slide_type": "skip"}
def bars(batch, width, ranks):
    """Bytes that each rank sends for one layer, on every grid."""
    rows = 2 ** np.arange(int(np.log2(ranks)) + 1)
    model, data = 4e-6 * np.array([grid_elements(r, ranks, batch, width) for r in rows]).T
    (figure, axis), places = plt.subplots(figsize=(6, 2.6)), range(len(rows))
    axis.bar(places, model, color=MODEL, label="activations, in a group")
    axis.bar(places, data, bottom=model, color=DATA, label="gradients, across groups")
    axis.axvline(np.log2(ranks * width / batch) / 2, color="#57606a", linestyle=":", zorder=0)
    low = (model + data).argmin()
    axis.annotate("best", (low, (model + data)[low]), (0, 3), textcoords="offset points",
                  ha="center", weight="bold", bbox={"fc": "w", "ec": "none", "pad": 0})  # fmt: skip
    axis.set_xticks(places, [f"{r}x{ranks // r}" for r in rows], fontsize=8)
    axis.set(xlabel="model x data", ylabel="MB sent by each rank")
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2)
    return figure


# %% slideshow={"slide_type": "slide"}
def best_grid(batch, width, ranks):
    rows = 2 ** np.arange(int(np.log2(ranks)) + 1)
    return rows[np.argmin([sum(grid_elements(r, ranks, batch, width)) for r in rows])]


assert [best_grid(B, 4096, 64) for B in (512, 4096, 32768)] == [16, 8, 2]
assert best_grid(4096, 4096, 16) == 4 and best_grid(4096, 4096, 256) == 16
assert best_grid(32768, 1024, 16) == 1 and best_grid(512, 16384, 16) == 16  # the pure kinds
explore(
    bars,
    alt="Bytes on every grid of {ranks} ranks: batch {batch}, width {width}; the best is marked.",
    batch=Knob([512, 4096, 32768], start=4096, unit="samples"),
    width=Knob([1024, 4096, 16384], start=4096),
    ranks=Knob([16, 64, 256], start=64),
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The dotted line is $\sqrt{pd/B}$. Each bar doubles $P_r$, so a batch eight times larger moves it by
# one and a half bars, and four times as many ranks by one. At the ends of the range it leaves
# the picture: then a pure kind is best. Gholami and others [9], who proposed this grid, say it in
# their abstract: the lowest cost is often reached by neither pure kind.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Now on a machine.** Bytes are not yet time. On `zaratan` a grid can be laid over the nodes in two
# ways: the ranks that share a *model* sit next to each other, or the ranks that share a *batch*.
# Two layers with $d = 4096$, 2048 samples, 32 GPUs; again everything is shorter by 4096. (The
# traffic is written as rings over lists of ranks, as in lecture 3.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile grid_traffic.py
import numpy as np


def ring(comm, group, nbytes, steps):
    place, chunk = group.index(comm.rank), np.zeros(nbytes // len(group), np.uint8)
    next_rank, prev_rank = group[(place + 1) % len(group)], group[place - 1]
    for _ in range(steps):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=np.empty_like(chunk), source=prev_rank)


# %% slideshow={"slide_type": "fragment"}
# %%writefile grid_step.py
import numpy as np
from grid_traffic import ring


def step(comm, num_layers, batch, d, rows, near):
    cols, ranks = comm.size // rows, np.arange(comm.size)
    grid = ranks.reshape(cols, rows) if near else ranks.reshape(rows, cols).T  # a line is a group
    line, place = np.argwhere(grid == comm.rank)[0]
    group, alike = grid[line].tolist(), grid[:, place].tolist()
    activations, weights = 4 * batch // cols * d, 4 * d * d // rows
    for _ in range(num_layers):
        ring(comm, group, activations, rows - 1)  # all-gather
    for layer in reversed(range(num_layers)):
        ring(comm, alike, weights, 2 * (cols - 1))  # all-reduce
        if layer > 0:
            ring(comm, group, activations, rows - 1)  # reduce-scatter


# %% [markdown] slideshow={"slide_type": "fragment"}
# *Predict: by bytes, which grid is best? By time, is it the same? Which of the two ways to lay it
# is better?*

# %% slideshow={"slide_type": "slide"}
p, L, B, d = 32, 2, 2048, 4096
node = np.arange(p) // 4
leaves = node[:, None] != node[None, :]  # which pairs of ranks talk through network cards
searched, sent_MB, leaving_MB = {}, {}, {}
ranks = ringside.Session(".", machine=zaratan)  # like ringside.run, but ready for many runs
for rows, near in itertools.product((1, 2, 4, 8, 16, 32), (True, False)):
    run = ranks.call("grid_step:step", p, (L, B // 64, d // 64, rows, near))
    model, data = grid_elements(rows, p, B, d)
    elements = (L - 0.5) * model + L * data  # the first layer's inputs need no gradient
    assert [SCALE * n for n in run.sent_bytes()] == [4 * elements] * p
    searched[rows, near], sent_MB[rows] = 1e3 * run.makespan_s, 4e-6 * elements
    leaving_MB[rows, near] = (run.bytes_matrix() * leaves).sum() / 8 * SCALE / 1e6

# %% slideshow={"slide_type": "fragment"}
for rows in sent_MB:
    near, far = (f"{searched[rows, here]:5.1f} ms {leaving_MB[rows, here]:5.0f} MB out"
                 for here in (True, False))  # fmt: skip
    print(f"{rows:2}x{p // rows:<2} {sent_MB[rows]:4.0f} MB a rank; in nodes {near}; across {far}")
best = min(searched, key=searched.get)
print("fewest bytes:", min(sent_MB, key=sent_MB.get), "rows; shortest time:", best[0], "rows")
assert min(sent_MB, key=sent_MB.get) == 8 == np.sqrt(p * d / B) and best == (16, True)
assert min(leaving_MB, key=leaving_MB.get) == best

# %% slideshow={"slide_type": "slide"}
figure, axis = plt.subplots(figsize=(8, 3.4))
rows = list(sent_MB)
for near, colour, name in ((True, MODEL, "groups in nodes"), (False, DATA, "groups across nodes")):
    axis.plot([searched[r, near] for r in rows], "o-", color=colour, label=name)
for place, note in ((3, "fewest bytes\nfor each rank"), (4, "shortest time")):
    low = min(searched[rows[place], near] for near in (True, False))
    axis.annotate(note, (place, low - 0.3), (place, 1.5), ha="center", color="#57606a",
                  arrowprops={"arrowstyle": "->", "color": "#57606a"})  # fmt: skip
axis.set_xticks(range(6), [f"{r}x{p // r}" for r in rows])
axis.set(xlabel="grid: model x data", ylabel="time of the communication (ms)", ylim=0)
axis.legend(frameon=False)
show(figure, "Time of two layers' communication on 32 GPUs for six grids, laid over the nodes in two ways. Pure "
     "data parallelism takes 21 ms, pure model parallelism 8 ms. With groups across nodes the time is lowest, "
     "7.3 ms, at 8x4; with groups in nodes it stays near 20 ms up to 4x8 and falls to 6.6 ms, the "
     "shortest of all, at 16x2. An arrow shows that 8x4 sends the fewest bytes for each rank.")  # fmt: skip

# %% slideshow={"slide_type": "skip"}
assert [round(searched[r, True], 1) for r in rows] == [21.1, 20.2, 18.9, 9.9, 6.6, 8.1]
assert [round(searched[r, False], 1) for r in rows] == [21.1, 11.2, 7.8, 7.3, 7.6, 8.1]
assert [round(leaving_MB[pair]) for pair in ((8, True), (8, False), (16, True))] == [123, 88, 81]

# %% [markdown] slideshow={"slide_type": "fragment"}
# By bytes for each rank the formula is right to the byte: $8 \times 4$. By time it is $16 \times 2$ with
# groups that fill whole nodes, 6.6 ms against 9.9 and 7.3 ms for the two ways to lay $8 \times 4$.
# What decides is what leaves a *node*: 81 MB against 123 and 88. You know this from lecture 3:
# count the bytes through the narrowest port, not through the nearest.
#
# And the usual advice, the model's ranks in one node? Here $4 \times 8$ with groups in nodes is among
# the slowest, 18.9 ms: 2048 samples are so few that the *weights* are the heavy part, and four rings
# of gradients squeeze through each card. Large models are trained with more tokens than that.

# %% slideshow={"slide_type": "fragment"}
calls = [(L, 64 * B // 64, d // 64, 4, near) for near in (True, False)]
inside_ms, across_ms = (1e3 * ranks.call("grid_step:step", p, one).makespan_s for one in calls)
ranks.close()
print(f"{64 * B:,} tokens on 4x8: groups in nodes {inside_ms:.0f} ms, across {across_ms:.0f} ms")
assert 64 * B == 131_072 and round(inside_ms) == 25 and round(across_ms) == 198

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 131,072 tokens it is 25 ms against 198 ms, and the advice holds. It is advice for a batch.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 12. Where it breaks
#
# **What can hide.** The formulas count bytes as if a byte were a byte. But nobody waits for the
# gradient of $W$ until the step ends, so an all-reduce of data parallelism can travel while the
# layers below are computed (assignment `a05_ddp`). A gather of model parallelism stands *between* two
# products: the next one can't start without it.
#
# *Predict: at the crossover,* $B = d$*, both kinds send the same. Four layers, and one layer's three
# products take as long as its communication. Which kind is faster, and by how much?*

# %% slideshow={"slide_type": "fragment"}
# %%writefile hidden_traffic.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm, kind, length, product_s):
    whole, part, totals, sums = np.zeros(length), np.zeros(length // 4), np.empty((4, length)), []
    for _ in range(4):  # forward
        ringside.compute(seconds=product_s, phase="Y")
        if kind == "model":
            comm.Allgather(part, whole)
    for layer in range(4):  # backward
        ringside.compute(seconds=2 * product_s, phase="dW, dX")
        if kind == "model":
            comm.Reduce_scatter_block(whole, part)
        else:
            sums.append(comm.Iallreduce(whole, totals[layer]))
    MPI.Request.Waitall(sums)


# %% slideshow={"slide_type": "slide"}
length = 8000  # of float64
product_s = 2 * 3 / 4 * 8 * length * 1e-9 / 3  # a third of an all-reduce, without its latency
args = [(kind, length, product_s) for kind in ("model", "data")]
model, data = (ringside.run("hidden_traffic.py:step", 4, one) for one in args)
for kind, run in (("model", model), ("data", data)):
    print(f"{kind:5} {1e6 * run.makespan_s:.0f} µs, {run.timeline.bytes_matrix.sum():,.0f} bytes")
assert model.timeline.bytes_matrix.sum() == data.timeline.bytes_matrix.sum()
assert round(model.makespan_s / data.makespan_s, 2) == 1.36
data.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# The same bytes, and model parallelism takes 1.36 times as long. In the timeline, that of data
# parallelism, the all-reduces run behind the backward pass, and only the end of them sticks out.
# So at equal bytes prefer data parallelism; the crossover in *time* lies at a smaller batch than
# the one in bytes.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Memory** often decides before bytes do. Data parallelism needs all weights, their gradients and
# the optimizer's state on every rank; model parallelism, in the plain form, needs all samples'
# activations on every rank. Lecture 9 says what cutting between layers does to both.
#
# **Thin products.** A rank with $d/p$ columns multiplies thinner matrices, and these run further
# from a processor's peak. No model of bytes sees that; section 8 showed what it costs.
#
# **Whole numbers.** Heads, columns and samples come in whole numbers; 40 heads go badly on 16 ranks.
#
# **Latency.** Model parallelism calls two collectives a layer, each of $p - 1$ steps; the formulas
# above leave $\alpha$ out. With small batches on many ranks it comes back, as in lecture 3.
#
# **Exactness.** All schemes here compute the same sums in another order. They agree to rounding,
# not bit for bit.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. Summary
#
# | | each rank has | each rank sends for a layer | sends least when |
# |---|---|---|---|
# | data | all of $W$, $B/p$ samples | $2\frac{p-1}{p}\,d_\text{in} d_\text{out}$ | $B$ is above the crossover |
# | columns, gathered | $d_\text{out}/p$ columns, all samples | $\frac{p-1}{p}\,B\,(d_\text{out} + d_\text{in})$ | $B$ is below it |
# | columns, then rows | parts of both, all samples | $4\frac{p-1}{p}\,B\,d$ for two layers | the middle is wide |
# | grid $P_r \times P_c$ | $1/P_r$ of $W$, $B/P_c$ samples | the sum of both, each on fewer ranks | $P_r \approx \sqrt{p\,d/B}$ |
#
# The crossover is at the harmonic mean of $d_\text{in}$ and $d_\text{out}$. And above all formulas
# stands the rule: *what sums over a cut dimension must be added up over the ranks.*

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["corrected"]
# **Errors on slides that you may meet.** Most of these are in [2], a deck that is otherwise worth
# your time.
#
# | slide | correct |
# |---|---|
# | data parallelism sends $\sum \frac{P-1}{P} d_i^2$ [2] | twice that, since it is an all-reduce; and $d_{i-1} d_i$ |
# | backward through layer $i$ go $B\,d_i$ numbers [2] | $B\,d_{i-1}$: the gradient of its *inputs* |
# | they need an all-reduce [2] | a reduce-scatter: each rank uses only its own columns |
# | so model parallelism sends less for $B < d/3$ [2] | for $B < \frac23 d$ with an all-reduce, $B < d$ with a reduce-scatter |
# | model parallelism is useful where $d_i \gg 1$ [2] | where $d_i > B$: compare with the batch, not with one |
# | "model parallelism" is layers on different GPUs [10]; cutting inside layers [2]; intra-layer and inter-layer [11] | one word for two things; say *tensor* (inside a layer) or *pipeline* (between layers, lecture 9) |
# | Megatron scales to 76 % [5] | of 512 times a baseline that is itself less than a third of peak; by time it is 74 % |

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 14. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A layer with 1024 inputs and 4096 outputs, 1500 samples, float32, 8 ranks. Which kind
# sends less, and how many MB does each rank send? What would the formula of [2] have told you, with
# $d_\text{in} d_\text{out}$ in the place of $d^2$?
#
# <details><summary>Answer</summary>
#
# The harmonic mean of the widths is 1638 samples, so model parallelism, narrowly: 26.9 MB against
# 29.4 MB. The slide compares $d_\text{in} d_\text{out} = 4.2$ million with $B\,(d_\text{out} +
# 2 d_\text{out}) = 18.4$ million, and says data, by far.
#
# </details>

# %% slideshow={"slide_type": "skip"}
p, B, d_in, d_out = 8, 1500, 1024, 4096
assert round(2 * d_in * d_out / (d_in + d_out)) == 1638
model_MB = (p - 1) / p * B * (d_in + d_out) * 4e-6
data_MB = 2 * (p - 1) / p * d_in * d_out * 4e-6
assert round(model_MB, 1) == 26.9 and round(data_MB, 1) == 29.4
assert round(d_in * d_out / 1e6, 1) == 4.2 and round(3 * B * d_out / 1e6, 1) == 18.4

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague cuts the MLP $d \to 4d \to d$ the other way round: rows of the first
# matrix, columns of the second. How many elements does the *forward* pass send, if everything is
# made whole on all ranks where GELU or the next block wants it? How many times more than Megatron's
# order is that?
#
# <details><summary>Answer</summary>
#
# The rows leave summands of the hidden layer, and GELU wants the sum: an all-reduce of $B \cdot 4d$,
# $8\frac{p-1}{p}Bd$. The columns leave columns of $Y$: a gather, $\frac{p-1}{p}Bd$. Together 9,
# against 2 for one all-reduce of $Bd$: 4.5 times. The run below counts it.
#
# </details>

# %% slideshow={"slide_type": "skip"}
# %%writefile wrong_order.py
import numpy as np
from pair import gelu


def mlp(comm, X_r, A_r, B_r):
    summand = X_r @ A_r
    hidden = np.empty_like(summand)
    comm.Allreduce(summand, hidden)
    Y_r = gelu(hidden) @ B_r
    comm.Allgather(Y_r, np.empty((comm.size, *Y_r.shape)))


# %% slideshow={"slide_type": "skip"}
p, B, d = 4, 6, 8
wrong = (np.ones((B, d // p)), np.ones((d // p, 4 * d)), np.ones((4 * d, d // p)))
right = (np.ones((B, d)), np.ones((d, 4 * d // p)), np.ones((4 * d // p, d)))
order = [("wrong_order.py:mlp", p, wrong), ("pair.py:mlp", p, right)]
wrong, right = (ringside.run(*one).timeline.bytes_matrix.sum(axis=1)[0] for one in order)
assert wrong == 9 * 8 * (p - 1) * B * d // p and wrong / right == 4.5

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** Somebody forgets the all-reduce of $f$ in the backward pass. The loss of the first
# step is right. Which gradients are wrong in a network of two such pairs after each other, and will
# a test of the last pair's weights find it?
#
# <details><summary>Answer</summary>
#
# The forward pass is untouched, so the loss is right. In the last pair both matrices get right
# gradients: theirs need $G$, the hidden layer and the input, and all of these are there. What is
# wrong is $\nabla X$ below it: each rank has its own summand for the sum. So the first pair's
# matrices get wrong gradients, and different ones on each rank. A test of one pair's weights
# passes; test $\nabla X$ as well.
#
# </details>

# %% slideshow={"slide_type": "skip"}
X, A1, B1, A2, B2 = (torch.tensor(rng.normal(size=shape), requires_grad=True)
                     for shape in ((5, 8), (8, 16), (16, 8), (8, 16), (16, 8)))  # fmt: skip
hidden = torch.tanh(X @ A1)
Y = torch.tanh((hidden @ B1) @ A2) @ B2
dB1, dA2 = torch.autograd.grad((Y**2).sum(), [B1, A2])

middle = (hidden @ B1).detach().requires_grad_()  # what the last pair gets, on two ranks
halves = [torch.tanh(middle @ A2[:, part]) @ B2[part] for part in (slice(8), slice(8, 16))]
G = 2 * sum(halves).detach()  # g made Y whole, so G is whole
summands = [torch.autograd.grad(half, middle, G, retain_graph=True)[0] for half in halves]
ours = torch.autograd.grad(halves[0], A2, G)[0]
assert torch.allclose(ours[:, :8], dA2[:, :8])  # the last pair is right without f
assert torch.allclose(hidden.T @ sum(summands), dB1)  # the first pair with f's sum
assert not torch.allclose(hidden.T @ summands[0], dB1)  # but not without
assert not torch.allclose(summands[0], summands[1])

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** 64 GPUs, layers of width 8192, 2048 samples. Which grid sends least, and how much
# less is that than the better one of the two pure kinds? The cluster has nodes of four GPUs: what
# do you have to find out before you believe the answer?
#
# <details><summary>Answer</summary>
#
# $P_r^* = \sqrt{64 \cdot 8192 / 2048} = 16$: a grid of $16 \times 4$. Since $B$ is a quarter of $d$,
# pure model parallelism is the better pure kind; the grid sends 2.3 times less. But groups of 16
# span four nodes either way. Find out what leaves each node, with groups in nodes and across, as in
# section 11, and what can be hidden.
#
# </details>

# %% slideshow={"slide_type": "skip"}
totals = {r: sum(grid_elements(r, 64, 2048, 8192)) for r in (1, 2, 4, 8, 16, 32, 64)}
assert min(totals, key=totals.get) == 16 == np.sqrt(64 * 8192 / 2048)
assert totals[64] < totals[1] and round(totals[64] / totals[16], 1) == 2.3

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** The last layer of a language model turns each token into 51,200 scores, one for
# each word, and its columns are cut over 8 ranks. The loss of a token is $\log\sum_j e^{z_j} - z_y$,
# where $y$ is the right word. Do you gather the scores? For 8192 tokens and two-byte numbers, how
# many MB does each rank send if you do, and how many if you don't?
#
# <details><summary>Answer</summary>
#
# No. The largest score, the sum of exponentials and the right word's score are one number each for
# a token, and an all-reduce makes each of them from the ranks' parts. The gather sends
# $\frac78 \cdot 8192 \cdot 51200$ numbers, 734 MB; the three all-reduces send
# $3 \cdot 2 \cdot \frac78 \cdot 8192$ numbers, 0.09 MB, 8533 times less. The exponentials must be
# taken with the *global* largest score, or the sums of different ranks don't fit together.
#
# </details>

# %% slideshow={"slide_type": "skip"}
gathered, summed = 7 / 8 * 8192 * 51200 * 2e-6, 3 * 2 * 7 / 8 * 8192 * 2e-6
assert round(gathered) == 734 and round(summed, 2) == 0.09 and round(gathered / summed) == 8533
scores, word = 30 * rng.normal(size=(4, 10)), 7  # four ranks with ten words each; rank 0 has word 7
every = scores.ravel()
loss = np.log(np.exp(every - every.max()).sum()) + every.max() - every[word]
largest = max(part.max() for part in scores)  # the first all-reduce
exponentials = sum(np.exp(part - largest).sum() for part in scores)  # the second
assert np.isclose(np.log(exponentials) + largest - scores[0, 7], loss)  # and the third

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Your turn
#
# The assignment `a08_tensor_parallel` asks for what this lecture left out: layers with biases and
# any number of columns, the backward pass of Megatron's pair, attention by heads, the loss over a
# cut vocabulary, the operators $f$ and $g$ in PyTorch, and sequence parallelism. Its tests count
# your bytes as this lecture did, and no weight may travel.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. K. Simonyan, A. Zisserman. Very deep convolutional networks for large-scale image recognition.
#    ICLR 2015. arXiv:1409.1556. Configuration D.
# 2. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 3. A. Krizhevsky. One weird trick for parallelizing convolutional neural networks.
#    arXiv:1404.5997, 2014.
# 4. A. Krizhevsky, I. Sutskever, G. E. Hinton. ImageNet classification with deep convolutional
#    neural networks. NIPS 2012. Section 3.2.
# 5. M. Shoeybi, M. Patwary, R. Puri, P. LeGresley, J. Casper, B. Catanzaro. Megatron-LM: training
#    multi-billion parameter language models using model parallelism. arXiv:1909.08053, 2019.
# 6. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Sections
#    2.3 and 3.2, table 1.
# 7. V. Korthikanti, J. Casper, S. Lym, L. McAfee, M. Andersch, M. Shoeybi, B. Catanzaro. Reducing
#    activation recomputation in large transformer models. MLSys 2023. arXiv:2205.05198.
# 8. N. Shazeer, Y. Cheng, N. Parmar, D. Tran, A. Vaswani, P. Koanantakool, P. Hawkins, H. Lee,
#    M. Hong, C. Young, R. Sepassi, B. Hechtman. Mesh-TensorFlow: deep learning for supercomputers.
#    NeurIPS 2018. arXiv:1811.02084. The introduction is in github.com/tensorflow/mesh.
# 9. A. Gholami, A. Azad, P. Jin, K. Keutzer, A. Buluç. Integrated model, batch, and domain
#    parallelism in training neural networks. SPAA 2018. arXiv:1712.04432.
# 10. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 11. A. Bhatele. Machine Learning and HPC. Slides, University of Maryland.
#
# Read next: [5], section 3, for the pair and for attention; [9] for the grid with convolutions,
# where a third kind of parallelism, cutting the picture, comes in; [8] for the notation.
