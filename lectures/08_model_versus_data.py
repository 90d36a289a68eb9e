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
# Four GPUs train one network together. You can share the work in two ways. With *data parallelism*
# each GPU has all the weights and some of the samples. With *model parallelism* each GPU has some of
# the weights and all the samples. The results are the same, and so is the amount of arithmetic. But the
# bytes that travel between the GPUs can differ by a factor of a thousand, in either direction. After
# this lecture you can say for any layer which of the two sends less, and how to hide what is sent.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - write a layer's forward and backward pass as three matrix products, and say for any way to shard
#   them what has to be sent and how many bytes that is;
# - find the batch at which model and data parallelism send the same number of bytes;
# - explain why Megatron's MLP is column-parallel first and row-parallel second, why AlexNet ran on two
#   GPUs, and how to read a layout of Mesh-TensorFlow;
# - compute how much work a GPU must have for each byte that it sends, and say from that why tensor
#   parallelism stops at the edge of a node;
# - hide an all-gather behind its product, and choose the number of pieces;
# - say of each tensor in what format it is computed, sent and summed, and what eight bits save;
# - find the best combination of both kinds for a network, a batch and a machine.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** You need matrix products and the chain rule. You also need
# [lecture 2](02_sgd.ipynb), where a layer becomes a matrix product,
# [lecture 1](01_messages.ipynb), for ranks, and [lecture 3](03_allreduce.ipynb), for the ring and the cost
# $\alpha + n\beta$ of a message of $n$ bytes. Of MPI you need three more calls, and section 3 shows
# them.
#
# **How to read.** Before many programs the lecture asks you for a prediction. Type your number or
# choice into the field, or into the call of `guess`, and then run the next cells. They show your
# prediction beside the result. Nobody grades it: you learn most where the two differ.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Notation.**
#
# | sign | meaning |
# |---|---|
# | $p$ | the number of ranks, also called the world size |
# | $P_r \times P_c = p$ | the shape of a grid of ranks, in section 15 |
# | $B$ | the number of samples in a batch, over all ranks; in a text, a sample is a token |
# | $d_0, d_1, \dots, d_L$ | widths: layer $i$ turns $d_{i-1}$ numbers into $d_i$ numbers |
# | $X,\ W,\ Y$ | input $(B \times d_{i-1})$, weights $(d_{i-1} \times d_i)$, output $(B \times d_i)$ |
# | $G$ | the gradient of the loss with respect to $Y$; it has the shape of $Y$ |
#
# Here a sample is a row, so that $Y = XW$, as in NumPy and PyTorch. Many slides write $Y = WX$ and
# make a sample a column. What we call column-parallel is row-parallel there.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** If you have one meeting only, take sections 1, 2, 3, 5 (the formula and figure 3), 6 and 7.
# Sections 9 and 10 need section 8 and nothing else of the second meeting.
# Collect the predictions of section 2 (which product needs a sum?) by a show of hands: this is
# where the class learns whether it has understood the rule. The prediction that surprises most is
# that of section 7 about 8 GPUs with tensor cores.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import itertools
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
DATA, MODEL, COMPUTE, COMMUNICATION = "#5c4d9a", "#b56576", "#0072b2", "#e69f00"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: 411 MB that no other rank needs
#
# You met the network VGG-16 [1] in lecture 3. Training it makes 553 MB of gradients in every step,
# and a single layer, called fc6, makes 411 MB of them. With data parallelism each of four GPUs
# computes a gradient of fc6 from its own samples, and an all-reduce adds the four gradients. So
# 411 MB of gradients have to be summed in each step, for one layer.
#
# Is that much? Compare these weights with what passes *through* the layer.

# %% slideshow={"slide_type": "fragment"}
vgg16 = table(LECTURES / "data" / "vgg16_parameters.csv")
weights_of = vgg16["num_parameters"]

d_in, d_out, batch = 25088, 4096, 256
weight_MB = 4 * d_in * d_out / 1e6  # float32: 4 bytes for each number
input_MB, output_MB = 4 * batch * d_in / 1e6, 4 * batch * d_out / 1e6
print(f"weights {weight_MB:.0f} MB")
print(f"for {batch} samples: inputs {input_MB:.0f} MB, outputs {output_MB:.0f} MB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The inputs and outputs of all 256 samples together are 30 MB. That is fourteen times less than the
# weights. So turn the scheme round: leave the weights where they are, and send the *samples*. Each
# GPU owns 1024 of the 4096 output neurons, together with the weights that lead to them. A GPU that
# has all inputs can compute its own neurons for all 256 samples. The gradient of its weights
# belongs to its own neurons, and no other GPU has any part of it. Nothing has to be summed.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(4e-6 * weights_of.sum()) == 553 and round(4e-6 * weights_of[13]) == 411
assert vgg16["layer"][13] == "fc6" and round(weight_MB) == 411
assert round(input_MB + output_MB) == 30
assert round(weight_MB / (input_MB + output_MB)) == 14
assert (d_out // 4, d_out, batch) == (1024, 4096, 256)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Is that always better? The first layer of VGG-16 has 1792 parameters, which are 7 kB. It turns
# each image into $224 \times 224 \times 64$ numbers.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/first-layer",
    "For 256 images, how many times more numbers come out of the first layer "
    "than it has parameters?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
first_outputs = 256 * 224 * 224 * 64
print(f"{first_outputs / weights_of[0]:,.0f} times")
reveal("08/first-layer", first_outputs / weights_of[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# It is 458,752 times. So within one network you should send the samples of one layer and the gradients
# of another. Which rule decides? To find it you count the bytes of both kinds. Begin with one layer.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert first_outputs / weights_of[0] == 458_752 and weights_of[0] == 1792

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=15
# ## 2. Three products and one rule
#
# The forward pass of a layer is $Y = XW$. Training needs two gradients as well. If you change $X$
# by a small $dX$ and $W$ by a small $dW$, the loss changes by
#
# $$dL = \langle G, dY\rangle = \langle G,\; dX\,W + X\,dW\rangle
#      = \langle G W^T,\; dX\rangle + \langle X^T G,\; dW\rangle ,$$
#
# where $\langle A, B\rangle$ multiplies equal entries of $A$ and $B$ and adds the products. So the
# two gradients are
#
# $$\nabla X = G\,W^T \qquad\text{and}\qquad \nabla W = X^T G .$$
#
# The optimizer uses $\nabla W$ to update this layer. The layer below takes $\nabla X$ as its $G$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# So a layer is three products. They use three dimensions, and each product *sums over* a different
# one of them:
#
# | product | shape | sums over |
# |---|---|---|
# | $Y = X W$ | $B \times d_\text{out}$ | $d_\text{in}$ |
# | $\nabla W = X^T G$ | $d_\text{in} \times d_\text{out}$ | $B$ |
# | $\nabla X = G W^T$ | $B \times d_\text{in}$ | $d_\text{out}$ |
#
# Shard one of the three dimensions: cut it into $p$ parts, one for each rank. Two of the products have
# this dimension in their *result*. Each rank can compute its part of these two from what it has. The
# third product sums over the dimension that you sharded. For this one each rank has only a *summand*
# (a partial sum): a matrix of full size, which has to be added to those of the other ranks.
#
# > **The rule.** A product has to be summed over the ranks if it sums over a sharded dimension, and
# > only then.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/which-sum",
    "The outputs are sharded: each rank has some columns of W. Which result must be summed?",
    choices=["Y", "gradient of W", "gradient of X"],
)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
RANKS = ["#56b4e9", "#8a7a00", "#7f5539", "#009e73"]
LENGTH = {"B": 2.4, "in": 3.2, "out": 4.0}  # of the sides in the picture


def box(axis, x, y, wide, high, colour):
    axis.add_patch(plt.Rectangle((x, y), wide, high, fc=colour, ec="white", linewidth=1.2))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
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
        middle = {"ha": "center", "va": "center", "color": "w", "size": 16}
        axis.text(x + wide / 2 + 0.9, -high / 2 - 0.9, "Σ", **middle)
    axis.text(x + wide / 2, 0.35, name, ha="center", fontsize=11)
    return x + wide + 0.9 * summand


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
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


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
CUTS = {
    "B": "batch:\ndata-parallel",
    "out": "outputs:\ncolumn-parallel",
    "in": "inputs:\nrow-parallel",
}
figure, axes = plt.subplots(3, 3, figsize=(10, 4.6))
for line, cut in zip(axes, CUTS):
    for axis, product in zip(line, PRODUCTS):
        draw(axis, product, cut)
    line[0].text(-0.9, -1.5, CUTS[cut], ha="right", va="center", fontsize=10)
show(figure, "Nine matrix products, drawn as rectangles with four coloured parts. Rows: the batch is sharded, the "
     "outputs, the inputs. Columns: Y = X W, the weights' gradient, the inputs' gradient. In each row exactly "
     "one result is a stack of four sheets, a sum to be added up: the weights' gradient when the batch is cut, "
     "the inputs' gradient when outputs are cut, Y when inputs are cut.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
summed = {cut: [r[0] for r, *_ in PRODUCTS if cut not in r] for cut in CUTS}
reveal("08/which-sum", summed["out"][0].replace("∇", "gradient of "))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. The three products of a layer, sharded in three ways. Each of the four colours is one rank.
# Grey is what all ranks have. A stack of four sheets is a sum that still has to be added up.*
#
# You see one stack in each row of the figure. Shard the batch, and you have to sum $\nabla W$. Shard
# the outputs (a **column-parallel** layer), and you have to sum $\nabla X$. Shard the inputs (a
# **row-parallel** layer), and you have to sum $Y$. Three questions are left for this lecture. Which of
# the stacks is the thinnest? How do you sum it cheaply, and where can the sum hide? And how do you put
# layers together so that each leaves what the next one wants?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert summed == {"B": ["∇W"], "out": ["∇X"], "in": ["Y"]}

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 2.** Draw the first row of figure 1 on the board and let
# the class draw the other two. The usual mistake is to think that sharded *outputs* need a
# sum of $Y$. Answer with the rule: the sharded dimension is in the result of $Y = XW$, so
# nothing is summed over it. The second stumbling block is that $\nabla X$ sums over $d_\text{out}$:
# every output neuron sends its blame back to every input.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=5
# ## 3. The rule on ranks
#
# In lecture 3 you sent every message yourself. MPI has the common patterns ready-made. They are
# called **collectives**, because all ranks of `comm` call them together. This lecture uses three:
#
# | call | each rank brings | each rank gets | a ring sends, per rank |
# |---|---|---|---|
# | `comm.Allreduce(mine, total)` | $n$ bytes | the sum, $n$ bytes | $2\frac{p-1}{p}n$ |
# | `comm.Reduce_scatter_block(mine, part)` | $n$ bytes | its $1/p$ of the sum | $\frac{p-1}{p}n$ |
# | `comm.Allgather(part, whole)` | $n/p$ bytes | the parts of all, $n$ bytes | $\frac{p-1}{p}n$ |
#
# For example, four ranks that all-reduce 800 bytes on a ring send
# $2 \cdot \frac34 \cdot 800 = 1200$ bytes each. An all-reduce is a reduce-scatter followed by an
# all-gather. Lecture 3 built it in this way.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Does the rule hold on ranks? The next program is a whole layer. You give each rank its shards of $X$,
# $W$ and $G$, and the name of the one product that has to be summed. The same program serves all three
# ways to shard.

# %% slideshow={"slide_type": "fragment"}
# %%writefile three_products.py
import numpy as np


def layer(comm, X, W, G, name):
    products = {"Y": X @ W, "dW": X.T @ G, "dX": G @ W.T}
    total = np.empty_like(products[name])
    comm.Allreduce(products[name], total)
    products[name] = total
    return products


# %% [markdown] slideshow={"slide_type": "fragment"}
# Choose small sizes, and shard the matrices for each of the three cases.

# %% slideshow={"slide_type": "fragment"}
p, B, d_in, d_out = 4, 8, 12, 20
rng = np.random.default_rng(8)
X, W, G = (
    rng.normal(size=(B, d_in)),
    rng.normal(size=(d_in, d_out)),
    rng.normal(size=(B, d_out)),
)
serial = {"Y": X @ W, "dW": X.T @ G, "dX": G @ W.T}  # on one rank


def rows(A):
    return np.split(A, p, axis=0)


def columns(A):
    return np.split(A, p, axis=1)


# %% slideshow={"slide_type": "fragment"}
CUT = {  # for each cut: the pieces of X, W and G, and the product that is summed
    "batch": (rows(X), [W] * p, rows(G), "dW"),
    "columns": ([X] * p, columns(W), columns(G), "dX"),
    "rows": (columns(X), rows(W), [G] * p, "Y"),
}

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/bytes-batch",
    "There are 4 ranks and numbers of 8 bytes. How many bytes does each rank send "
    "when the batch is sharded?",
    unit="bytes",
)

# %% slideshow={"slide_type": "slide"} tags=["ranks"]
sent, results = {}, {}
for cut, (X_parts, W_parts, G_parts, name) in CUT.items():
    pieces = zip(X_parts, W_parts, G_parts, [name] * p)
    result = ringside.run("three_products.py:layer", p, list(pieces))
    for values in result.values:  # every rank has the whole sum
        np.testing.assert_allclose(values[name], serial[name])
    sent[cut] = result.timeline.bytes_matrix.sum(axis=1)
    results[cut] = result
    print(f"{cut:8} rank 0 sends {sent[cut][0]:5,} bytes to sum {name}")
reveal("08/bytes-batch", sent["batch"][0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With the batch sharded each rank sends 2880 bytes; column-parallel it sends 1152, and row-parallel
# 1920. In all three cases that is $2\frac{p-1}{p}$ times the product that you summed, to the byte.
# (`timeline.bytes_matrix` counts the messages that the network carried for the collective. On this
# machine they go round a ring.)
#
# And the other two products? They are right as they are, and sharded. If the batch is sharded, each
# rank has the rows of $Y$ that belong to its samples. In a column-parallel layer it has some columns of
# $Y$, as you see in the next cell.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for cut, (*_, name) in CUT.items():
    assert sent[cut].tolist() == [2 * (p - 1) * serial[name].nbytes // p] * p
assert [nbytes[0] for nbytes in sent.values()] == [2880, 1152, 1920]
example_bytes = 800
assert 2 * (p - 1) / p * example_bytes == 1200

# %% slideshow={"slide_type": "fragment"}
columns_of_Y = [values["Y"] for values in results["columns"].values]
print("each rank has a part of Y of shape", columns_of_Y[0].shape)
np.testing.assert_allclose(np.concatenate(columns_of_Y, axis=1), serial["Y"])

# %% [markdown] slideshow={"slide_type": "slide"}
# ### The same in torch
#
# A program for `torch.distributed` takes a process group instead of `comm`,
# and tensors instead of arrays. `dist.all_reduce` replaces its argument by the sum. Run the program
# on the same network, and the network counts the same bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile three_products_torch.py
import torch.distributed as dist


def layer(group, X, W, G, name):
    products = {"Y": X @ W, "dW": X.T @ G, "dX": G @ W.T}
    dist.all_reduce(products[name], group=group)
    return products


# %% slideshow={"slide_type": "fragment"}
for cut, (X_parts, W_parts, G_parts, name) in CUT.items():
    pieces = zip(X_parts, W_parts, G_parts, [name] * p)
    torch_run = ringside.run("three_products_torch.py:layer", p, list(pieces))
    np.testing.assert_allclose(torch_run.values[0][name], serial[name])
    counted = torch_run.timeline.bytes_matrix.sum(axis=1)
    print(f"{cut:8} rank 0 sends {counted[0]:5,} bytes to sum {name}")
    assert (counted == sent[cut]).all()

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 4. A chain of layers, step by step
#
# Now put $L$ layers after each other. Which of the two ways sends less?
#
# **Data parallelism** shards the batch in every layer. Each layer leaves rows of $Y$, and rows are what
# the next layer wants. You have to sum only the gradients $\nabla W$, by one all-reduce for each layer.
# So each rank sends
#
# $$n_\text{data} = 2\,\frac{p-1}{p}\sum_{i=1}^{L} d_{i-1}\,d_i \quad\text{elements.}$$
#
# This number doesn't depend on the batch.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Model parallelism**, in its plain form, makes every layer column-parallel. Rank $r$ owns $W_r$, which
# has the shape $d_{i-1} \times d_i/p$. A step has three parts:
#
# 1. *Forward.* Each rank computes $Y_r = X W_r$. The next layer needs all of $Y$, so the columns are
#    gathered. That sends $\frac{p-1}{p} B\, d_i$ elements, for $i = 1, \dots, L$. A function such as
#    ReLU works on each element alone, so you can apply it before the gather.
# 2. *Backward, weights.* Each rank computes $\nabla W_r = X^T G_r$ from its own columns $G_r$ of $G$.
#    **Nothing is sent.** This is the reason for the whole scheme.
# 3. *Backward, inputs.* $\nabla X = \sum_r G_r W_r^T$. Each rank has a summand of size
#    $B \times d_{i-1}$. The first layer has no layer below it, so this is for $i = 2, \dots, L$.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Look at part 3 more closely. You could sum the four summands by an all-reduce. Then every rank has
# every column of $\nabla X$. Does it need them all? The layer below takes this $\nabla X$ as its $G$,
# and computes $X^T G_r$ and $G_r W_r^T$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/who-needs-it",
    "The layer below is 16 wide and sharded over 4 ranks. "
    "How many of the 16 columns of the sum does rank 0 use there?",
    unit="columns",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Find out by an experiment. Change one column of the sum after the other, and see whether the
# results of rank 0 change.

# %% slideshow={"slide_type": "fragment"}
X_below, W_below = rng.normal(size=(8, 10)), rng.normal(size=(10, 16))


def rank_0(G):
    """Both products of rank 0 in the layer below; rank 0 owns columns 0 to 3 of its weights."""
    return X_below.T @ G[:, :4], G[:, :4] @ W_below[:, :4].T


total = rng.normal(size=(8, 16))
used = []
for column in range(16):
    other = total.copy()
    other[:, column] += 1
    changed = [not np.allclose(new, old) for new, old in zip(rank_0(other), rank_0(total))]
    used += [column] if any(changed) else []
print("rank 0 uses the columns", used)
reveal("08/who-needs-it", len(used))

# %% [markdown] slideshow={"slide_type": "subslide"}
# A rank uses **its own columns** of the sum, in both products, and never looks at the others. So you
# don't need the whole sum on every rank. A **reduce-scatter** gives each rank its own part, for half the
# bytes:
#
# $$n_\text{model} = \frac{p-1}{p}\,B\left(\sum_{i=1}^{L} d_i
#      + c \sum_{i=2}^{L} d_{i-1}\right), \qquad
#      c = \begin{cases} 2 & \text{all-reduce} \\ 1 & \text{reduce-scatter.}\end{cases}$$

# %% [markdown] slideshow={"slide_type": "slide"}
# Here are three layers with ReLU. The first file is the forward pass:

# %% slideshow={"slide_type": "fragment"}
# %%writefile forward_pass.py
import numpy as np


def forward(comm, X, weights):
    """The input of every layer, and the result; weights: this rank's columns of each W."""
    inputs = [X]
    for W_r in weights:
        Y_r = np.maximum(inputs[-1] @ W_r, 0)  # (B, d/p)
        parts = np.empty((comm.size, *Y_r.shape))
        comm.Allgather(Y_r, parts)
        inputs.append(np.concatenate(parts, axis=1))  # (B, d)
    return inputs


# %% [markdown] slideshow={"slide_type": "fragment"}
# The second file is the backward pass of one layer. A reduce-scatter hands out consecutive parts of
# an array. So the program first puts the columns of each rank next to each other in memory.

# %% slideshow={"slide_type": "fragment"}
# %%writefile backward_pass.py
import numpy as np


def own_columns(comm, A):
    return np.split(A, comm.size, axis=1)[comm.rank]


def scattered_sum(comm, summand):
    """This rank's columns of the sum of all ranks' summands."""
    for_each_rank = np.stack(np.split(summand, comm.size, axis=1))
    own = np.empty_like(for_each_rank[0])
    comm.Reduce_scatter_block(for_each_rank, own)
    return own


# %% [markdown] slideshow={"slide_type": "fragment"}
# The third file puts them together. ReLU passes a gradient on where its output is positive.

# %% slideshow={"slide_type": "fragment"}
# %%writefile model_step.py
from backward_pass import own_columns, scattered_sum
from forward_pass import forward


def step(comm, X, weights, target):
    """Gradients of this rank's columns for the loss |Y - target|^2 / 2."""
    *inputs, Y = forward(comm, X, weights)
    Y_r, target_r = own_columns(comm, Y), own_columns(comm, target)
    G_r = (Y_r - target_r) * (Y_r > 0)
    gradients = [None] * len(weights)
    for i in reversed(range(len(weights))):
        gradients[i] = inputs[i].T @ G_r
        if i > 0:
            G_r = scattered_sum(comm, G_r @ weights[i].T)
            G_r *= own_columns(comm, inputs[i]) > 0
    return gradients


# %% [markdown] slideshow={"slide_type": "fragment"}
# PyTorch computes the same gradients on one rank, so that you can compare:

# %% slideshow={"slide_type": "fragment"}
import torch

widths, B = (16, 32, 24, 8), 20
X, target = rng.normal(size=(B, widths[0])), rng.normal(size=(B, widths[-1]))
weights = [rng.normal(size=shape) / 4 for shape in zip(widths, widths[1:])]


def serial_gradients(X, target):
    tensors = [torch.tensor(W, requires_grad=True) for W in weights]
    Y = torch.tensor(X)
    for W in tensors:
        Y = torch.relu(Y @ W)
    ((Y - torch.tensor(target)) ** 2 / 2).sum().backward()
    return [W.grad.numpy() for W in tensors]


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/three-layers",
    "The widths are 16, 32, 24 and 8; there are 20 samples and 4 ranks. "
    "How many elements does each rank send?",
    unit="elements",
)

# %% slideshow={"slide_type": "slide"}
owned = [[np.ascontiguousarray(columns(W)[rank]) for W in weights] for rank in range(p)]
model_run = ringside.run("model_step.py:step", p, [(X, mine, target) for mine in owned])
for layer, right in enumerate(serial_gradients(X, target)):
    ours = np.concatenate([values[layer] for values in model_run.values], axis=1)
    np.testing.assert_allclose(ours, right, rtol=1e-10, atol=1e-10)

model_elements = model_run.timeline.bytes_matrix.sum(axis=1) // 8
print(model_elements, "elements sent by each rank")
reveal("08/three-layers", model_elements[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each rank sends 1800 elements. The formula says the same: you gather 64 columns in the forward pass and
# scatter 56 in the backward pass, so it is $\frac34 \cdot 20 \cdot (64 + 56)$. The gradients are those
# of PyTorch, so the reduce-scatter is enough.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
gathered, scattered = sum(widths[1:]), sum(widths[1:-1])
assert (gathered, scattered) == (64, 56)
assert (model_elements == (p - 1) * B * (gathered + scattered) // p).all()
assert model_elements[0] == 1800

# %% slideshow={"slide_type": "slide"}
model_run.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. One step of model parallelism on four ranks: three all-gathers in the forward pass and
# two reduce-scatters in the backward pass. Each of them is three steps round the ring. No message
# carries a gradient of weights.*

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** Two calls change their names. Each takes the large buffer and the small one
# in the order *destination, source*.

# %% slideshow={"slide_type": "fragment"}
# %%writefile collectives_torch.py
import torch
import torch.distributed as dist


def gathered(group, Y_r):
    """All columns, from each rank's own columns."""
    parts = Y_r.new_empty(group.size(), *Y_r.shape)
    dist.all_gather_into_tensor(parts, Y_r.contiguous(), group=group)
    return torch.cat(list(parts), dim=1)


def scattered_sum(group, summand):
    """This rank's columns of the sum."""
    for_each_rank = torch.stack(summand.chunk(group.size(), dim=1))
    own = torch.empty_like(for_each_rank[0])
    dist.reduce_scatter_tensor(own, for_each_rank, group=group)
    return own


# %% slideshow={"slide_type": "fragment"}
# %%writefile model_step_torch.py
import torch
from collectives_torch import gathered, scattered_sum


def step(group, X, weights, target):
    inputs = [X]
    for W_r in weights:
        inputs.append(gathered(group, torch.relu(inputs[-1] @ W_r)))
    own = [A.chunk(group.size(), dim=1)[group.rank()] for A in [*inputs, target]]
    G_r = (own[-2] - own[-1]) * (own[-2] > 0)
    gradients = [None] * len(weights)
    for i in reversed(range(len(weights))):
        gradients[i] = inputs[i].T @ G_r
        if i > 0:
            G_r = scattered_sum(group, G_r @ weights[i].T) * (own[i] > 0)
    return gradients


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("model_step_torch.py:step", p, [(X, mine, target) for mine in owned])
for ours, mine in zip(torch_run.values[3], model_run.values[3]):
    np.testing.assert_allclose(ours, mine, rtol=1e-10)
print(torch_run.timeline.bytes_matrix.sum(axis=1) // 8, "elements sent by each rank")
assert (torch_run.timeline.bytes_matrix == model_run.timeline.bytes_matrix).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# How much does the same step send with data parallelism? Now every rank has all weights and a quarter
# of the samples.

# %% slideshow={"slide_type": "fragment"}
# %%writefile data_step.py
import numpy as np


def step(comm, X, weights, target):
    """Gradients of all weights, summed over the samples of all ranks."""
    inputs = [X]
    for W in weights:
        inputs.append(np.maximum(inputs[-1] @ W, 0))
    G = (inputs[-1] - target) * (inputs[-1] > 0)
    gradients = [None] * len(weights)
    for i in reversed(range(len(weights))):
        gradients[i] = np.empty_like(weights[i])
        comm.Allreduce(inputs[i].T @ G, gradients[i])
        G = G @ weights[i].T * (inputs[i] > 0)
    return gradients


# %% slideshow={"slide_type": "fragment"}
parts = list(zip(rows(X), [weights] * p, rows(target)))
data_run = ringside.run("data_step.py:step", p, parts)
for ours, right in zip(data_run.values[0], serial_gradients(X, target)):
    np.testing.assert_allclose(ours, right, rtol=1e-10, atol=1e-10)
data_elements = data_run.timeline.bytes_matrix.sum(axis=1) // 8
print(data_elements, "elements sent by each rank")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each rank sends 2208 elements: twice $\frac34$ of the 1472 weights. So with your 20 samples model
# parallelism sends less. But its bytes grow with the batch, and those of data parallelism don't. From 25
# samples on data parallelism sends less.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
num_weights = sum(W.size for W in weights)
assert (data_elements == 2 * (p - 1) * num_weights // p).all()
assert num_weights == 1472 and data_elements[0] == 2208
assert int(np.ceil(data_elements[0] / model_elements[0] * B)) == 25

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 5. The crossover
#
# The batch at which both kinds send the same number of bytes is called the **crossover**. Find it
# for $L$ layers that are all $d$ wide. If there are many layers, the first and the last don't
# matter. Both kinds have the factor $\frac{p-1}{p}$, so it cancels. **The crossover doesn't depend
# on the number of ranks.**
#
# $$\underbrace{2\,d^2}_\text{data} = \underbrace{(1 + c)\,B\,d}_\text{model}$$
#
# $$B^* = \frac{2d}{1+c} = \begin{cases} \frac23 d & \text{with an all-reduce} \\
#   d & \text{with a reduce-scatter.}\end{cases}$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Often heard.** "Data parallelism sends $\frac{p-1}{p}\,d^2$ for a layer." Summing gradients is an
# > all-reduce: twice that. With the factor 2 forgotten, the crossover is at $d/3$. ([More](corrections.md#tensor-parallelism).)

# %% slideshow={"slide_type": "fragment"}
d = 4096
crossovers = {"factor forgotten": d / 3, "all-reduce": 2 * d / 3, "reduce-scatter": d}
for name, samples in crossovers.items():
    print(f"{name:16} model parallelism sends less below {samples:5.0f} samples")
data_sends, model_sends = 2 * d**2, 2 * (d / 3) * d  # elements, at d / 3 samples
print(f"at {d / 3:.0f} samples data parallelism sends {data_sends / model_sends:.0f} times more")

# %% [markdown] slideshow={"slide_type": "fragment"}
# For layers that are 4096 wide you get three answers: 1365, 2731 or 4096 samples. Suppose that you forget
# the factor. Then between the first and the last of these you choose data parallelism, although model
# parallelism sends less. At the first it sends 3 times less.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(samples) for samples in crossovers.values()] == [1365, 2731, 4096]
assert np.isclose(data_sends / model_sends, 3)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Layers that aren't square.** Charge each layer for the gather of its outputs and for the
# reduce-scatter of its inputs' gradient. Then both kinds send the same if
# $2\,d_\text{in} d_\text{out} = B\,(d_\text{in} + d_\text{out})$. So
#
# $$B^* = \frac{2\,d_\text{in}\,d_\text{out}}{d_\text{in} + d_\text{out}} .$$
#
# The crossover is the **harmonic mean** of the two widths. For example, a layer with 1000 inputs and
# 3000 outputs has its crossover at 1500 samples.
#
# For a convolution, replace $d_\text{in} d_\text{out}$ by the number of weights, and the widths by
# the number of *activations* of a sample (pixels times channels). A convolution uses each weight
# again at every pixel, so it has few weights and many activations. Its crossover is tiny.

# %% slideshow={"slide_type": "fragment"}
SIDES = [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14]
CHANNELS = [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
outputs = np.array([s * s * c for s, c in zip(SIDES, CHANNELS)] + [4096, 4096, 1000])
after_pooling = [s * s * c for s, c in zip(SIDES[1:], CHANNELS)]
inputs = np.array([224 * 224 * 3, *after_pooling, 7 * 7 * 512, 4096, 4096])
crossover = 2 * weights_of / (inputs + outputs)
for layer in (0, 12, 13, 14, 15):
    print(f"{vgg16['layer'][layer]:8} {crossover[layer]:10,.3f} samples")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
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
# *Figure 3. The crossover batch of every layer of VGG-16. Below its crossover a layer sends less
# with model parallelism, above it with data parallelism.*
#
# Does your answer depend on the batch? Not from 24 to 1608 samples. There you take data parallelism for
# the convolutions and model parallelism for the three fully connected layers. Krizhevsky published this
# combination in 2014 under the title *One weird trick* [2].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert crossover.argmin() == 0 and round(crossover[0], 3) == 0.001
assert np.ceil(crossover[:13].max()) == 24 and crossover[13:].min() > 1600
assert [round(c) for c in crossover[13:]] == [7043, 4097, 1608]
example = np.array([1000, 3000])
assert 2 * example.prod() / example.sum() == 1500

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/weird-trick",
    "4 GPUs, 256 samples. How many times less does the combination send than data parallelism alone?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
p, B = 4, 256
share = (p - 1) / p * 4 / 1e6  # of the elements, in MB
all_data = share * 2 * weights_of.sum()
all_model = share * B * (inputs[1:].sum() + outputs.sum())
convolutions = share * 2 * weights_of[:13].sum()
# fc6, fc7, fc8: gather the inputs, scatter their gradients; and gather the 1000 results
fully_connected = share * B * (2 * inputs[13:].sum() + 1000)
combined = convolutions + fully_connected
for name, MB in (("data", all_data), ("model", all_model), ("combined", combined)):
    print(f"{name:8} each rank sends {MB:8,.0f} MB")
reveal("08/weird-trick", all_data / combined)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The combination sends 5.9 times less: 140 MB instead of 830 MB. Plain model parallelism in all layers
# would send 17,296 MB. What does the change from one kind to the other cost, in the middle of the
# network? Nothing extra: fc6 gathers its inputs from all ranks in any case, and the bytes are the same
# whether the ranks hold columns or samples.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(MB) for MB in (all_data, all_model, combined)] == [830, 17_296, 140]
assert round(all_data / combined, 1) == 5.9

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 5.** Ask before the formula: "Does the crossover depend on
# the number of GPUs?" Most say yes. In figure 3, ask which layers have the most *weights* and which
# the most *work*: the fully connected layers have 89 % of the weights and under 1 % of the work.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
work = [weights * side**2 for weights, side in zip(weights_of, [*SIDES, 1, 1, 1])]
assert round(weights_of[13:].sum() / weights_of.sum(), 2) == 0.89
assert sum(work[13:]) / sum(work) < 0.01

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=20
# ## 6. Columns, then rows: Megatron
#
# In the plain form every layer is column-parallel, so every layer has to gather its output. Can you do
# without the gather? Look at figure 1 again. Its third row is a row-parallel layer. It wants an input
# whose columns are sharded, and that is what a column-parallel layer leaves behind. So make one layer
# column-parallel and the next one row-parallel:
#
# $$H_r = \text{gelu}(X A_r) \quad\text{(column-parallel, nothing is sent)}$$
#
# $$Y = \sum_r H_r C_r \quad\text{(row-parallel, one sum).}$$
#
# Between the two layers you send nothing at all. Megatron-LM [4] introduced this pair in 2019 for the
# MLP of a transformer, where $A$ is $d \times 4d$ and $C$ is $4d \times d$. GELU is a smooth relative
# of ReLU. To shard inside layers, like this, is called **tensor parallelism** (TP).

# %% slideshow={"slide_type": "fragment"}
# %%writefile pair.py
import numpy as np


def gelu(z):
    return z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def mlp(comm, X, A_r, C_r):
    hidden = gelu(X @ A_r)  # (tokens, 4d/p), complete numbers of this rank's neurons
    summand = hidden @ C_r  # (tokens, d)
    Y = np.empty_like(summand)
    comm.Allreduce(summand, Y)
    return Y


# %% slideshow={"slide_type": "fragment"}
from pair import gelu

p, tokens, d = 4, 6, 8
X = rng.normal(size=(tokens, d))
A, C = rng.normal(size=(d, 4 * d)), rng.normal(size=(4 * d, d))
pieces = [(X, A_r.copy(), C_r) for A_r, C_r in zip(columns(A), rows(C))]
pair_run = ringside.run("pair.py:mlp", p, pieces)
for Y in pair_run.values:
    np.testing.assert_allclose(Y, gelu(X @ A) @ C, rtol=1e-12, atol=1e-12)
pair_bytes = pair_run.timeline.bytes_matrix.sum(axis=1)
print(pair_bytes, "bytes: one all-reduce of", tokens * d, "numbers")
pair_run.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The forward pass of the pair on four ranks. It sends one all-reduce, after the second layer.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (pair_bytes == 2 * (p - 1) * tokens * d * 8 // p).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** Only the sum changes. (torch's GELU has the same formula under the name
# `approximate="tanh"`.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile pair_torch.py
import torch.distributed as dist
from torch.nn.functional import gelu


def mlp(group, X, A_r, C_r):
    Y = gelu(X @ A_r, approximate="tanh") @ C_r
    dist.all_reduce(Y, group=group)
    return Y


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("pair_torch.py:mlp", p, pieces)
np.testing.assert_allclose(torch_run.values[1], pair_run.values[1], rtol=1e-12, atol=1e-12)
print(torch_run.timeline.bytes_matrix.sum(axis=1), "bytes")
assert (torch_run.timeline.bytes_matrix == pair_run.timeline.bytes_matrix).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# Why column-parallel first? Suppose that you make the first layer row-parallel. Then each rank has a
# summand of the hidden layer's input. Could each rank apply GELU to its summand, and sum afterwards?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/rows-first",
    "Is the sum of gelu(summand) over the ranks the same as gelu of the sum?",
    choices=["the same", "different"],
)

# %% slideshow={"slide_type": "fragment"}
summands = [X[:, :4] @ A[:4], X[:, 4:] @ A[4:]]  # of two ranks
before = gelu(summands[0] + summands[1])
after = gelu(summands[0]) + gelu(summands[1])
difference = np.abs(before - after).max()
print(f"largest difference {difference:.1f}")
np.testing.assert_allclose(before, gelu(X @ A))
reveal("08/rows-first", "different" if difference > 1e-9 else "the same")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two differ by up to 3.8, because GELU isn't linear. So you would have to sum *before* GELU. At that
# place the matrix has $4d$ columns, four times as many as the pair sums.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(difference, 1) == 3.8

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Backward** you read the same figure from right to left. The row-parallel layer has all of $G$ on every
# rank, and computes its part of $\nabla H$ alone. The column-parallel layer gets a summand of
# $\nabla X$. This time the layer below wants the whole of it, so you sum by an all-reduce. Megatron gives
# names to the two places. They mirror each other:
#
# | | where | forward | backward |
# |---|---|---|---|
# | $f$ | before the column-parallel layer | nothing | all-reduce |
# | $g$ | after the row-parallel layer | all-reduce | nothing |

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Attention** is sharded in the same way. A head is a set of columns of the matrices that make queries,
# keys and values, and a set of rows of the output projection (the matrix that follows). Heads don't need
# each other's numbers, so you give each rank some of the heads.
#
# A transformer layer has two such pairs, attention and the MLP. So it needs two all-reduces in the
# forward pass and two in the backward pass, each of $B$ tokens times $d$ numbers. On $t$ ranks (the *TP
# degree*) each rank sends
#
# $$4 \cdot 2\,\frac{t-1}{t}\,B\,d = 8\,B\,d\,\frac{t-1}{t}
#   \quad\text{elements for each layer.}$$
#
# The Megatron paper of 2021 gives the same expression [5].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/pair-against-gathers",
    "The MLP d to 4d to d, forward and backward. How many times less does the pair send than the "
    "plain form with a gather after each layer?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
plain = (4 + 1) + (4 + 1)  # columns in units of d: outputs gathered, inputs' gradients scattered
pair = 2 * 2 * 1  # two all-reduces of d columns, which count twice
print(f"plain {plain} B d (p-1)/p, pair {pair} B d (p-1)/p: {plain / pair} times less")
reveal("08/pair-against-gathers", plain / pair)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The pair sends 2.5 times less: 4 units instead of 10. You call two collectives instead of four, and the
# widest matrix, the hidden layer, never travels. (Here we charge the plain form for $\nabla X$ of its
# first layer too, because a transformer has more layers below.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (plain, pair, plain / pair) == (10, 4, 2.5)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Published models.** Table 1 of [5] lists ten models with their sizes. You can count their parameters
# $\Psi$ yourself. A layer has $12 d^2$ weights (4 in attention, 8 in the MLP) and $13 d$ biases and
# norms. In addition there are the embeddings of $V$ tokens and $s$ positions. With $L$ layers that makes
#
# $$\Psi = 12\,L\,d^2\left(1 + \frac{13}{12\,d} + \frac{V + s}{12\,L\,d}\right) .$$

# %% slideshow={"slide_type": "fragment"}
from ringside.course.validation import load

source, megatron_2021 = load("megatron_2021")
V, s = megatron_2021["vocabulary"], megatron_2021["sequence"]
table_1 = np.array(megatron_2021["scaling"]["rows"])
billions, layers, hidden, gpus, reached = table_1.T[:5]
psi = 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (V + s) / (12 * layers * hidden))
error = psi / 1e9 / billions - 1
for row in zip(billions, psi / 1e9, error):
    print("published {:6.1f}, counted {:8.2f} billion, {:+.2%}".format(*row))

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# Eight of your ten counts agree with the table to better than half a percent [5]. The two smallest
# models are printed with one decimal, as 1.7 and 3.6, and the counts 1.65 and 3.56 round to these.
#
# The models ran on 32 to 3072 GPUs. The table also gives the TP degree. It is 1, 2, 4 and 8 for the
# first four models, and then 8 for all larger ones. Why does it stop at 8?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (V, s) == (51200, 2048) and np.abs(error[2:]).max() < 0.0045
assert (psi[:2] / 1e9).round(2).tolist() == [1.65, 3.56]
assert billions[:2].tolist() == [1.7, 3.6] and gpus.max() == 3072 and gpus.min() == 32

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 6.** Let the class fill in the four combinations (columns
# or rows, first layer and second layer) before you show the pair; the assignment asks for the same
# table. The table of $f$ and $g$ needs time. Ask: "Why is there an all-reduce in the backward pass
# of $f$, although nothing was sent in its forward pass?" The input was *copied* to all ranks, and
# the gradient of a copy is a sum.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 7. Inside a node and between nodes
#
# How far does tensor parallelism carry? Take one transformer layer with $d = 4096$ and 4096 tokens, on
# the `zaratan` model of lecture 3. A node has four A100 GPUs, joined by fast links (NVLink), and *one*
# network card (NIC) for all four. The layer computes and all-reduces in turn.
#
# An A100 can compute at two very different rates. Its ordinary units multiply numbers of four bytes
# (FP32) at up to 19.5 TFLOP/s. Its *tensor cores* multiply numbers of two bytes (bfloat16, or bf16) much
# faster. With them the models of [5] reached 135 to 163 TFLOP/s, and we take 140. Such networks are
# trained in bf16. But look at FP32 first.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (reached.min(), reached.max()) == (135, 163) and 140 in reached
assert ringside.Machine.load("zaratan").flop_per_s == 19.5e12

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


# %% [markdown] slideshow={"slide_type": "fragment"}
# The vectors in this program are shorter than the real ones by a factor of 4096, so that your
# laptop can hold them. The machine's time for a byte is longer by the same factor, so the times are
# those of the real size.

# %% slideshow={"slide_type": "fragment"}
SCALE = 4096


def stretched(name, flop_per_s):
    """The machine on which a short vector takes as long as one SCALE times longer does here."""
    machine = ringside.Machine.load(name)
    return machine.with_(
        beta_s_per_byte=machine.beta_s_per_byte * SCALE,
        intra_beta_s_per_byte=machine.intra_beta_s_per_byte * SCALE,
        flop_per_s=flop_per_s,
        eager_threshold_bytes=0,
        kernel_overhead_s=0.0,
    )


# %% slideshow={"slide_type": "fragment"}
tokens = d = 4096
num_flops = 3 * 24 * tokens * d**2  # 12 d^2 weights, 2 operations each; backward is twice forward
FORMATS = {"FP32": (4, 19.5e12), "bf16": (2, 140e12)}  # bytes of a number, FLOP/s


def time_of_layer(p, number_format):
    """Milliseconds of one layer on p GPUs: products, all-reduces."""
    width, rate = FORMATS[number_format]
    args = (width * tokens * d // SCALE, num_flops)
    run = ringside.run("transformer_traffic.py:layer", p, args, machine=stretched("zaratan", rate))
    products_ms = 1e3 * num_flops / p / rate
    return products_ms, 1e3 * run.makespan_s - products_ms


WORLDS = (1, 2, 4, 8, 16, 32)
fp32 = {p: time_of_layer(p, "FP32") for p in (1, 2, 4)}
for p, (products_ms, sums_ms) in fp32.items():
    print(f"FP32, on {p}: products {products_ms:5.1f} ms, all-reduces {sums_ms:4.1f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The layer needs 4.9 TFLOP in all its passes, and each of its four all-reduces sums 67 MB in FP32. On
# the four GPUs of one node you get 3.76 times the speed of one GPU. The all-reduces take 6 % of the time.
# So would you add a second node?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(num_flops / 1e12, 1) == 4.9 and round(4 * tokens * d / 1e6) == 67
assert round(sum(fp32[1]) / sum(fp32[4]), 2) == 3.76
assert round(fp32[4][1] / sum(fp32[4]), 2) == 0.06

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/eight-fp32",
    "In FP32, how many times as fast as on one GPU is the layer on 8 GPUs, on two nodes?",
    unit="times",
)

# %% slideshow={"slide_type": "slide"}
for p in (8, 16, 32):
    fp32[p] = time_of_layer(p, "FP32")
speedup = {p: sum(fp32[1]) / sum(fp32[p]) for p in WORLDS}
for p in WORLDS:
    print(f"FP32, on {p:2}: {sum(fp32[p]):5.1f} ms, {speedup[p]:.2f} times as fast as one")
reveal("08/eight-fp32", speedup[8])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 8 GPUs the layer is only 3.65 times as fast as on one. That is *slower* than on 4 GPUs. The
# all-reduces now take 54 % of the time, and on 32 GPUs they take 84 %.
#
# Did you expect more bytes to be the reason? The bytes that one GPU sends hardly grow: the factor
# $\frac{p-1}{p}$ goes from $\frac34$ to $\frac{31}{32}$. What changes is the wire. Between nodes a byte
# takes eight times as long as inside.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(speedup[p], 2) for p in WORLDS] == [1.0, 1.96, 3.76, 3.65, 4.50, 5.05]
share_of_sums = {p: fp32[p][1] / sum(fp32[p]) for p in WORLDS}
assert round(share_of_sums[8], 2) == 0.54 and round(share_of_sums[32], 2) == 0.84
zaratan = ringside.Machine.load("zaratan")
assert np.isclose(zaratan.beta_s_per_byte / zaratan.intra_beta_s_per_byte, 8)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Now with tensor cores.** In bf16 your products are 7.2 times as fast, and your bytes are half as many.
# (The 140 TFLOP/s were reached in training, and the 19.5 are a peak. With a reached rate for FP32 the
# factor would be larger.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/share-bf16",
    "In bf16, which share of the time do the all-reduces take on 4 GPUs of one node?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/eight-bf16",
    "In bf16, how many times as fast as on one GPU is the layer on 8 GPUs, on two nodes?",
    unit="times",
)

# %% slideshow={"slide_type": "slide"}
bf16 = {p: time_of_layer(p, "bf16") for p in WORLDS}
for p, (products_ms, sums_ms) in bf16.items():
    total_ms = products_ms + sums_ms
    print(f"bf16, on {p:2}: {total_ms:4.1f} ms, all-reduces {abs(sums_ms / total_ms):5.1%}")
reveal("08/share-bf16", 100 * bf16[4][1] / sum(bf16[4]))
reveal("08/eight-bf16", sum(bf16[1]) / sum(bf16[8]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# With tensor cores the all-reduces take 18.7 % of the time on 4 GPUs, three times the share of FP32. And
# on two nodes?
#
# | GPUs | 1 | 2 | 4 | 8 |
# |---|---|---|---|---|
# | ms | 35.3 | 19.0 | 10.9 | 23.4 |
#
# Your 8 GPUs are slower than *two*, and 81 % of their time is communication. A faster processor makes the
# network relatively slower. So a share of communication that somebody measured in FP32 tells you nothing
# about bf16.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(sum(bf16[p]), 1) for p in (1, 2, 4, 8)] == [35.3, 19.0, 10.9, 23.4]
share = {p: bf16[p][1] / sum(bf16[p]) for p in WORLDS}
assert round(share[4], 3) == 0.187 and round(share[8], 2) == 0.81
assert share[4] > 3 * share_of_sums[4] and round(140 / 19.5, 1) == 7.2

# %% [markdown] slideshow={"slide_type": "slide"}
# **Is it the fault of the ring?** The ring of 8 ranks takes all its 14 steps at the speed of the slowest
# wire. Lecture 3 has a better algorithm for two levels of wires. First you reduce-scatter inside each
# node, so that each GPU holds the node's sum of one quarter. Then each GPU all-reduces its quarter with
# the GPU of the other node that holds the same quarter. At last you all-gather inside each node.

# %% slideshow={"slide_type": "fragment"}
# %%writefile two_levels.py
import numpy as np

import ringside


def layer(comm, nbytes, num_flops):
    inside = comm.Split(comm.rank // 4)  # the four ranks of this node
    across = comm.Split(comm.rank % 4)  # one rank of every node
    summand, total = np.zeros((2, nbytes // 4), np.float32)
    quarter, summed = np.zeros((2, nbytes // 16), np.float32)
    for part in (1 / 9, 2 / 9, 4 / 9, 2 / 9):
        ringside.compute(num_flops=part * num_flops / comm.size, phase="products")
        inside.Reduce_scatter_block(summand, quarter)
        across.Allreduce(quarter, summed)
        inside.Allgather(summed, total)


# %% slideshow={"slide_type": "fragment"}
width, rate = FORMATS["bf16"]
args = (width * tokens * d // SCALE, num_flops)
run = ringside.run("two_levels.py:layer", 8, args, machine=stretched("zaratan", rate))
first_product = min(span.start_s for span in run.timeline.spans[0] if span.kind == "compute")
two_levels_ms = 1e3 * (run.makespan_s - first_product)  # both communicators are made once
print(f"bf16, 8 GPUs: flat ring {sum(bf16[8]):.1f} ms, two levels {two_levels_ms:.1f} ms")
print(f"bf16, 2 GPUs: {sum(bf16[2]):.1f} ms, 4 GPUs: {sum(bf16[4]):.1f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two-level all-reduce takes you from 23.4 ms to 17.2 ms. That beats 2 GPUs, but 4 GPUs in one node
# need only 10.9 ms. So twice as many GPUs still make the layer slower. A better algorithm can't fix
# this, because all sums have to pass through the network card once.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(two_levels_ms, 1) == 17.2 and 2 * (8 - 1) == 14
assert [round(sum(bf16[p]), 1) for p in (8, 2, 4)] == [23.4, 19.0, 10.9]

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
for axis, (name, times) in zip(panels, {"FP32": fp32, "bf16": bf16}.items()):
    computing, talking = np.array([times[p] for p in WORLDS]).T
    axis.bar(range(6), computing, color=COMPUTE, label="products")
    axis.bar(range(6), talking, bottom=computing, color=COMMUNICATION, label="all-reduces")
    for place in range(6):
        top = computing[place] + talking[place]
        axis.text(place, 1.02 * top, f"{sum(times[1]) / top:.2f} x", ha="center", fontsize=9)
    axis.axvline(2.5, color="#57606a", linestyle=":")
    axis.set_xticks(range(6), WORLDS)
    axis.set(title=name, xlabel="GPUs that share the layer", ylabel="time of one layer (ms)")
panels[0].text(2.6, 200, "two nodes\nand more", color="#57606a")
panels[0].legend(frameon=False, loc="center right")
show(figure, "Stacked bars, products and all-reduces, of one transformer layer on 1 to 32 GPUs, in FP32 and in "
     "bf16. Products halve each time. In FP32 all-reduces are hardly to be seen on 2 and 4 GPUs and jump at 8, "
     "where the second node begins. In bf16 they are a fifth of the bar on 4 GPUs, and from 8 GPUs on they are "
     "nearly all of it: the bars are higher than that of 2 GPUs.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. One transformer layer on 1 to 32 GPUs with a flat ring, in FP32 (left) and in bf16
# (right; mind the different axis). The number on a bar is the speedup. From 8 GPUs on, the layer is
# spread over several nodes.*
#
# Now you know why the TP degree in [5] stays at 8. Those machines have eight GPUs in each server. (They
# also have a port for each GPU, so that leaving a server costs less in bytes than on `zaratan` and more
# in latencies: lecture 12, section 6.) The paper's own advice is to use tensor parallelism up to the
# number of GPUs of a server, and then pipeline parallelism (whole layers on each GPU), which is the
# subject of lecture 9.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# **How much work does a byte need?** You can predict all this without a run. On $t$ ranks a rank
# computes $72\,B\,d^2/t$ FLOP at $F$ FLOP/s. It sends $8\,B\,d\,\frac{t-1}{t}$ numbers of $w$ bytes, at
# $R$ bytes per second. The communication takes no longer than the products if
#
# $$\frac{8\,w\,B\,d\,(t-1)}{t\,R} \le \frac{72\,B\,d^2}{t\,F}
#   \qquad\Longleftrightarrow\qquad t - 1 \;\le\; \frac{9}{w}\cdot\frac{d}{F/R} .$$
#
# The ratio $F/R$ says how much a GPU could compute while it sends one byte. This limit is the **TP-degree
# bound**. Don't confuse it with the tokens-per-GPU bound of lecture 5, which says when data parallelism
# hides its sums. (Both are called a *communication roofline*.) Note what is *not* in the TP-degree bound:
# the batch. More tokens bring more products and more bytes alike. Only a wider layer helps you, or a
# faster wire.

# %% slideshow={"slide_type": "fragment"}
RATES = {"inside a node": 100e9, "between nodes": 12.5e9}  # bytes per second
limits, ratios = {}, {}
for name, (width, flop_per_s) in FORMATS.items():
    for where, R in RATES.items():
        ratios[name, where] = flop_per_s / R
        limits[name, where] = 1 + 9 / width * d / (flop_per_s / R)
        print(f"{name} {where}: {flop_per_s / R:6,.0f} FLOP a byte, "
              f"t at most {limits[name, where]:4.1f}")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# While it sends one byte inside the node in FP32, a GPU computes 195 FLOP. In bf16 and through the network
# card it computes 11,200. So for $d = 4096$ the TP-degree bound between nodes is 2.6 ranks. You ran 8.
# There the communication takes 4.3 times as long as the products, and that is the 81 % of figure 5. Inside
# a node, in bf16, the bound is 14 ranks.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(ratios["FP32", "inside a node"]) == 195
assert round(ratios["bf16", "between nodes"]) == 11_200
assert round(limits["bf16", "between nodes"], 1) == 2.6
assert int(limits["bf16", "inside a node"]) == 14
times_longer = (8 - 1) / (limits["bf16", "between nodes"] - 1)
assert round(times_longer, 1) == 4.3 and round(times_longer / (1 + times_longer), 2) == 0.81
assert abs(bf16[8][1] / bf16[8][0] / times_longer - 1) < 0.01
assert 1 / zaratan.intra_beta_s_per_byte == 100e9 and 1 / zaratan.beta_s_per_byte == 12.5e9

# %% [markdown] slideshow={"slide_type": "slide"}
# **A published test.** Does the model agree with a measurement? The Megatron paper of 2019 [4] lets the
# model grow with the GPUs, from 1 to 8 inside one server. A step has 72 layers. Each has 4 all-reduces of
# $8 \cdot 1024 \cdot 3072$ two-byte numbers, at 150 GB/s each way. The products of a step take 1.83 s.
# (We assume a latency of 5 µs, which hardly matters.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/megatron-efficiency",
    "On 8 GPUs of one server, what share of its speed does a GPU keep, as published?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
source, megatron = load("megatron_2019")
numbers, whole = megatron["tensor_parallel"], megatron["aggregate"]
nvlink = ringside.Machine("NVLink", numbers["alpha_s"], SCALE / numbers["bytes_per_s"])
eight = ringside.run("transformer_traffic.py:layer", 8, (numbers["bytes"] // SCALE, 0.0))
layer_s = ringside.replay(eight.trace, nvlink).makespan_s
efficiency = numbers["compute_s"] / (numbers["compute_s"] + numbers["layers"] * layer_s)
print(f"predicted {efficiency:.0%}, published {numbers['efficiency']:.0%}")
assert numbers["bytes"] == 8 * 1024 * 3072 * 2
reveal("08/megatron-efficiency", 100 * numbers["efficiency"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Our model predicts 91 %, and the paper published 77 %. So communication explains 9 of the 23 points that
# are lost. Where does the rest come from? From what our model leaves out. Products of thinner matrices
# run further below the peak. And what every rank computes alike, such as norms, dropout and residuals,
# isn't divided by 8. A prediction that fails tells you where to look.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(efficiency, 2) == 0.91 and numbers["efficiency"] == 0.77
assert round(100 * (1 - efficiency)) == 9 and round(100 - 100 * numbers["efficiency"]) == 23
assert numbers["bytes_per_s"] == 150e9 and numbers["compute_s"] == 1.83
assert numbers["layers"] == 72

# %% [markdown] slideshow={"slide_type": "slide"}
# **The ledger.** One small GPT goes through this course. It has 24 layers that are 2304 wide, and 32 GPUs
# train it on 256 sequences in a step, in bf16. One GPU alone needs 1.792 s for its 8 sequences, and 33.9 GB
# of memory. Now let the four GPUs of a node share the model. You get eight groups of four, and each group
# takes 32 sequences. Every layer is computed forward twice, as lecture 9 explains, so a layer has two more
# all-reduces. You sum the gradients of equal shards between the groups, layer by layer.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/ledger",
    "How long does a step of 32 GPUs take, four of them to a model?",
    unit="s",
)

# %% slideshow={"slide_type": "fragment"}
import ringside.course.lectures
from ringside.course.lectures import course_machine, course_trace, ledger

program = Path(ringside.course.lectures.__file__).parent / "programs" / "cut_gpt.py"
traced = course_trace(
    f"{program}:step",
    32,
    (32, 4),  # sequences of a group, ranks that share a model
    grid={"dp": 8, "tp": 4},
    alike=("dp", "tp"),
)
cut_timeline = ringside.replay(traced.trace, course_machine())
cut_memory = max(memory["peak"] for memory in traced.memory)
reveal("08/ledger", cut_timeline.makespan_s)

# %% slideshow={"slide_type": "fragment"}
ledger(
    "08",
    gpus=32,
    step_s=cut_timeline.makespan_s,
    exposed_s=cut_timeline.makespan_s - cut_timeline.busy_s[0],
    memory_bytes=cut_memory,
)

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# A step takes 2.511 s. The exposed time is 0.719 s, because each GPU waits for all-reduces in every layer.
# In return the memory falls from 33.9 GB to 19.8 GB. So choose tensor parallelism if your model doesn't fit
# otherwise, or if your batch is too small to be shared out. This model fits, and the batch is large.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from ringside.course.lectures.ledger import FILE, SEQUENCES_PER_GPU, SIZES, read

one_gpu = read(FILE)[0]
assert (SIZES["num_layers"], SIZES["width"], 32 * SEQUENCES_PER_GPU) == (
    24,
    2304,
    256,
)
assert round(one_gpu.step_s, 3) == 1.792 and round(one_gpu.memory_bytes / 1e9, 1) == 33.9
assert np.isclose(cut_timeline.busy_s[0], one_gpu.step_s, rtol=1e-3)
assert round(cut_timeline.makespan_s, 3) == 2.511 and round(cut_memory / 1e9, 1) == 19.8
assert round(cut_timeline.makespan_s - cut_timeline.busy_s[0], 3) == 0.719

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 7.** Stop after the FP32 result and let the class predict
# bf16: most expect it to look better, because the bytes are halved. Ask for the reason afterwards:
# products became 7.2 times as fast, bytes only twice as few.
#
# If someone asks about the 76 % in the abstract of [4]: 15.1 PFLOP/s are 76 % of 512 times one GPU's
# 39 TFLOP/s, and these 39 TFLOP/s are themselves less than a third of that GPU's peak. Ask of *what*
# something is 76 %. (Figure 5 of the paper compares times and shows a slightly smaller share.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
fraction = whole["pflops"] * 1000 / (whole["gpus"] * whole["baseline_tflops"])
assert round(fraction, 2) == 0.76 == whole["efficiency"]
assert (whole["pflops"], whole["baseline_tflops"], whole["gpus"]) == (15.1, 39, 512)

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 8. Sequence parallelism
#
# What is left that tensor parallelism doesn't divide? Dropout, the residual connection and layer norm come
# after $g$ of one pair and before $f$ of the next. There every rank has all tokens, computes the same
# numbers and keeps the same activations. But these layers treat each token by itself. So shard the
# *tokens* there. This is **sequence parallelism** (SP) [6].
#
# An all-reduce is a reduce-scatter and an all-gather. Stop after the reduce-scatter: now each rank has the
# finished sum of $1/t$ of the tokens. Apply layer norm to these, and do the all-gather only when the next
# pair wants all tokens:
#
# ```text
#  TP        row-parallel -> all-reduce ----- norm of all tokens --------------> column-parallel
#  with SP   row-parallel -> reduce-scatter - norm of 1/t of them - all-gather -> column-parallel
# ```

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/sequence-bytes",
    "Does sequence parallelism send more bytes than the all-reduce, fewer, or the same?",
    choices=["more", "fewer", "the same"],
)

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
sends = {}
for name in ("tensor", "sequence"):
    run = ringside.run(f"sequence_traffic.py:{name}", 4, (64, 12))
    sends[name] = run.timeline.bytes_matrix.sum(axis=1)[0]
    print(f"{name:8} each rank sends {sends[name]:,} bytes")
more_or_fewer = np.sign(sends["sequence"] - sends["tensor"])
reveal("08/sequence-bytes", {0: "the same", 1: "more", -1: "fewer"}[more_or_fewer])

# %% [markdown] slideshow={"slide_type": "fragment"}
# You send the same number of bytes. What you save is memory. In two-byte numbers a transformer layer keeps
# $sbd\,(34 + 5\frac{as}{d})$ bytes for the backward pass, for $b$ sequences of $s$ tokens and $a$ heads.
# Tensor parallelism divides most of this by $t$, but not what the norms and dropouts keep, which is 10 of
# the 34. Sequence parallelism divides these as well [6]. How much is that for a model of the size of GPT-3?

# %% slideshow={"slide_type": "fragment"}
s, d, heads, t = 2048, 12288, 96, 8
norms, products, attention = (
    10,
    24,
    5 * heads * s / d,
)  # bytes for each number of a layer's input
kept = {
    "nothing cut": norms + products + attention,
    "tensor": norms + (products + attention) / t,
    "and sequence": (norms + products + attention) / t,
}
for name, bytes_per_number in kept.items():
    print(f"{name:13} {s * d * bytes_per_number / 1e9:.2f} GB for each layer and sequence")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Tensor parallelism on 8 GPUs brings 2.87 GB down to 0.58 GB. With sequence parallelism you keep 0.36 GB.
# That is 1.6 times less again, and it costs no byte on the wire.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert sends["tensor"] == sends["sequence"] == 2 * 3 * 64 * 12 * 8 // 4
assert [round(s * d * one / 1e9, 2) for one in kept.values()] == [2.87, 0.58, 0.36]
assert round(kept["tensor"] / kept["and sequence"], 1) == 1.6 and norms + products == 34

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** The two halves of an all-reduce have calls of their own:

# %% slideshow={"slide_type": "fragment"}
# %%writefile sequence_torch.py
import torch
import torch.distributed as dist


def sequence(group, tokens, d):
    summand = torch.zeros(tokens, d, dtype=torch.float64)
    own = torch.empty(tokens // group.size(), d, dtype=torch.float64)
    dist.reduce_scatter_tensor(own, summand, group=group)
    dist.all_gather_into_tensor(summand, own, group=group)


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("sequence_torch.py:sequence", 4, (64, 12))
print(torch_run.timeline.bytes_matrix.sum(axis=1), "bytes")
assert torch_run.timeline.bytes_matrix.sum(axis=1)[0] == sends["sequence"]

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 9. Asynchronous tensor parallelism
#
# In section 7 every all-reduce was exposed: no GPU computed while it ran. Can you hide it? Data
# parallelism hides its sums, because nobody needs a gradient before the step ends. Tensor parallelism
# has no such gap: the next product waits for the all-gather of section 8. But does it wait for *all*
# of it?
#
# Row $i$ of $X A_r$ needs row $i$ of $X$, and no other row. So split the all-gather into $k$ pieces of
# rows. While your GPU multiplies one piece, the network brings the next one. This is **asynchronous
# tensor parallelism** (async TP).

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["derivation"]
# How long does that take? Let the all-gather take $T_g$ and the product $T_p$. One after the other they
# take $T_g + T_p$. In pieces, the first piece of the messages has no product to run beside. The last piece
# of the product has no messages beside it. In between a piece of the product runs $k - 1$ times beside a
# piece of the messages, and the longer of the two sets the pace:
#
# $$T(k) = \frac{T_g}{k} + (k - 1)\,\frac{\max(T_g, T_p)}{k} + \frac{T_p}{k} + k\,\tau
#      = \max(T_g, T_p) + \frac{\min(T_g, T_p)}{k} + k\,\tau .$$
#
# Here $\tau$ is what one more piece costs in the longer of the two. If that is the product, $\tau$ is the
# start of a kernel. If it is the messages, $\tau$ is their latency $\alpha$.

# %% [markdown] slideshow={"slide_type": "slide"}
# Try it on the GPT of the ledger, on the four GPUs of a `zaratan` node. Take the first product of the
# MLP, with 16,384 tokens. Each rank has a quarter of the tokens, as in section 8, and a quarter of the
# columns of $A$. To start a kernel takes 5 µs on this machine, which is an assumption.

# %% slideshow={"slide_type": "fragment"}
tokens, d, t = 8 * 2048, 2304, 4  # eight sequences
width, rate = FORMATS["bf16"]
gather_s = (t - 1) / t * tokens * d * width / RATES["inside a node"]  # T_g
product_s = 2 * tokens * d * (4 * d // t) / rate  # T_p
launch_s = ringside.Machine.load("zaratan").kernel_overhead_s  # tau


def piped_s(gather_s, product_s, k, fixed_s):
    """Time of an all-gather and a product in k pieces: the formula."""
    longer, shorter = max(gather_s, product_s), min(gather_s, product_s)
    return longer + shorter / k + k * fixed_s


print(f"all-gather {1e3 * gather_s:.2f} ms, product {1e3 * product_s:.2f} ms")
print(f"in one piece {1e3 * piped_s(gather_s, product_s, 1, launch_s):.2f} ms")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/four-pieces",
    "In 4 pieces, how long do the all-gather and the product take together?",
    unit="ms",
)

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["open"]
# Write it with messages that don't wait. The first file starts the exchange of one piece:


# %% slideshow={"slide_type": "fragment"}
# %%writefile exchange.py
def start(comm, piece, whole):
    """Send this rank's rows to all ranks and take theirs into `whole`, without waiting."""
    whole[comm.rank] = piece
    others = [(comm.rank + step) % comm.size for step in range(1, comm.size)]
    sends = [comm.Isend(piece, dest=rank) for rank in others]
    return sends + [comm.Irecv(whole[rank], source=rank) for rank in others]


# %% [markdown] slideshow={"slide_type": "fragment"} tags=["open"]
# The second file is async TP. It starts the exchange of a piece *before* it multiplies the last one:

# %% slideshow={"slide_type": "fragment"}
# %%writefile async_tp.py
import numpy as np
from exchange import start
from mpi4py import MPI

import ringside


def product(comm, X_r, A_r, k, product_s, launch_s):
    pieces = np.split(X_r, k)
    whole, Y = np.empty((k, comm.size, *pieces[0].shape)), []
    requests = start(comm, pieces[0], whole[0])
    for j in range(k):
        MPI.Request.Waitall(requests)
        if j + 1 < k:
            requests = start(comm, pieces[j + 1], whole[j + 1])
        ringside.compute(seconds=product_s / k + launch_s, phase="product")
        Y.append(whole[j] @ A_r)  # rows of this piece, of all ranks
    return np.concatenate(Y, axis=1)  # (ranks, rows of a rank, columns)


# %% slideshow={"slide_type": "fragment"}
p, X, A = t, rng.normal(size=(128, 18)), rng.normal(size=(18, 8))
assert SCALE * X.nbytes == tokens * d * width  # the vectors are shorter, as in section 7
parts = [(X_r, A_r.copy()) for X_r, A_r in zip(rows(X), columns(A))]


def in_pieces(program, k):
    args = [(*part, k, product_s, launch_s) for part in parts]
    run = ringside.run(f"{program}.py:product", p, args, machine=stretched("zaratan", rate))
    for Y, (_, A_r) in zip(run.values, parts):
        np.testing.assert_allclose(Y.reshape(len(X), -1), X @ A_r)
    return run


piped = {k: in_pieces("async_tp", k) for k in (1, 4)}
for k, run in piped.items():
    print(f"{k} pieces: {1e3 * run.makespan_s:.3f} ms")
reveal("08/four-pieces", 1e3 * piped[4].makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Four pieces take 1.40 ms, where one piece took 1.81 ms. Of the all-gather only the first quarter is
# left to see. You send the same bytes as before, and the result is the same to the last digit that
# matters. How far can you go?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1e3 * piped[4].makespan_s, 2) == 1.40 and round(1e3 * piped[1].makespan_s, 2) == 1.81
assert (piped[4].timeline.bytes_matrix == piped[1].timeline.bytes_matrix).all()
assert tokens == 16_384 and round(1e6 * launch_s) == 5
for k, run in piped.items():  # the formula leaves out one latency
    assert 0 < run.makespan_s - piped_s(gather_s, product_s, k, launch_s) < 1e-6

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/how-many-pieces",
    "Which number of pieces takes the least time?",
    choices=["2", "4", "8", "32"],
)

# %% slideshow={"slide_type": "fragment"}
for k in (2, 8, 16, 32):
    piped[k] = in_pieces("async_tp", k)
for k in sorted(piped):
    print(f"{k:2} pieces: {1e3 * piped[k].makespan_s:.3f} ms")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_pieces(axis, k, line):
    """The wire and the GPU of rank 0 during a run in k pieces, on two lines."""
    timeline = piped[k].timeline
    came = [(1e3 * m.start_s, 1e3 * m.end_s) for m in timeline.messages if m.dest == 0]
    worked = [(1e3 * s.start_s, 1e3 * s.end_s) for s in timeline.spans[0] if s.kind == "compute"]
    for height, colour, spans in ((line + 0.4, COMMUNICATION, came), (line, COMPUTE, worked)):
        bars = [(start, end - start) for start, end in spans]
        axis.broken_barh(bars, (height, 0.36), color=colour, edgecolor="white", linewidth=0.8)
    end_ms = 1e3 * timeline.makespan_s
    axis.text(end_ms + 0.02, line + 0.1, f"{end_ms:.2f}", color="#57606a", fontsize=9)


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3), layout="constrained")
for pieces, line in ((1, 1.4), (4, 0)):
    draw_pieces(left, pieces, line)
    left.text(0, line + 0.85, f"pieces: {pieces}", color="#57606a")
left.set_yticks([0.18, 0.58, 1.58, 1.98], ["product", "messages"] * 2)
left.set(xlabel="time (ms)", title="rank 0", xlim=(-0.05, 2.05), ylim=(-0.1, 2.6))
many, some = np.arange(1, 41), sorted(piped)
right.plot(many, [1e3 * piped_s(gather_s, product_s, k, launch_s) for k in many], color="#57606a",
           label="formula")  # fmt: skip
right.plot(some, [1e3 * piped[k].makespan_s for k in some], "o", color=COMPUTE, label="runs")
right.axhline(1e3 * product_s, color="#57606a", linestyle=":", label="product alone")
right.set(xlabel="pieces k", ylabel="time (ms)", title="all-gather and product", ylim=1.15)
right.legend(frameon=False)
show(figure, "Left: two timelines of rank 0. In one piece the messages end before the product begins; in four pieces "
     "the product begins after the first quarter of the messages, and the rest runs beside it. Right: the time "
     "against the number of pieces. It falls steeply from one to eight pieces, is flat to sixteen and rises "
     "slowly after that; the runs lie on the formula, above the line of the product alone.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("08/how-many-pieces", str(min(piped, key=lambda k: piped[k].makespan_s)))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. Left: the wire and the GPU of rank 0, with one piece and with four. Right: the time over
# the number of pieces, by the formula and on ranks.*
#
# Eight pieces take 1.354 ms, the least of your runs. Sixteen take longer, since you start sixteen
# kernels. Set the derivative of $T(k)$ to zero, and you find $k^* = \sqrt{\min(T_g, T_p)/\tau}$, about 11
# here. Note what no $k$ can do. The time never falls below the longer of the two, so async TP saves at
# most half, and that only where both take equally long. Between nodes, where the messages took 81 % of
# the time in section 7, it saves little.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1e3 * piped[8].makespan_s, 3) == 1.354 and piped[8].makespan_s < piped[16].makespan_s
assert round(np.sqrt(gather_s / launch_s)) == 11 and round(share[8], 2) == 0.81

# %% [markdown] slideshow={"slide_type": "slide"}
# **One-sided: write into the neighbour's memory.** In your program each rank posts a receive for every
# piece, so sender and receiver have to agree on each message. A GPU can do without. NVLink lets it
# write into the memory of another GPU. For this all ranks allocate a buffer of the same size and tell
# each other where it lies. PyTorch calls such a buffer **symmetric memory** [9, 10]. MPI calls it a
# *window*. `Put` writes into the window of another rank, and `Fence` waits until all puts have arrived.

# %% slideshow={"slide_type": "fragment"}
# %%writefile one_sided.py
import numpy as np
from mpi4py import MPI

import ringside


def product(comm, X_r, A_r, k, product_s, launch_s):
    pieces, Y = np.split(X_r, k), []
    whole = np.empty((k, comm.size, *pieces[0].shape))
    window = MPI.Win.Create(whole, disp_unit=pieces[0].nbytes, comm=comm)
    for j in range(k + 1):
        window.Fence()  # now piece j - 1 is there
        for dest in (comm.rank + np.arange(comm.size)) % comm.size if j < k else ():
            window.Put(pieces[j], int(dest), target=j * comm.size + comm.rank)
        if j > 0:
            ringside.compute(seconds=product_s / k + launch_s, phase="product")
            Y.append(whole[j - 1] @ A_r)
    window.Free()
    return np.concatenate(Y, axis=1)


# %% slideshow={"slide_type": "fragment"}
for program in ("async_tp", "one_sided"):
    print(f"{program:9} in 8 pieces {1e3 * in_pieces(program, 8).makespan_s:.3f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# You wrote no receive, and the time is nearly the same. What is left of an agreement is the fence. It
# is a barrier of all ranks, so a slow rank still delays the others. A real kernel waits for a flag of
# its own instead, which the sender sets behind the data (a *signal*).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
one_sided = in_pieces("one_sided", 8)
assert abs(one_sided.makespan_s / piped[8].makespan_s - 1) < 0.02

# %% [markdown] slideshow={"slide_type": "slide"}
# **Which products of a layer can hide their messages?** A layer has four: queries, keys and values;
# the attention's output; and the two of the MLP. Two of them follow an all-gather. The other two are
# followed by a reduce-scatter, which you hide the same way, from its other end. The messages of all four
# are equally long.

# %% slideshow={"slide_type": "fragment"}
one_after_other_s, in_eight_s = 0.0, 0.0
alpha_s = ringside.Machine.load("zaratan").intra_alpha_s
for name, columns_of_d in (("QKV", 3), ("output", 1), ("MLP up", 4), ("MLP down", 4)):
    part_s = 2 * tokens * d * (columns_of_d * d // t) / rate
    fixed_s = launch_s if part_s > gather_s else alpha_s
    one_after_other_s += gather_s + part_s
    in_eight_s += (both_s := piped_s(gather_s, part_s, 8, fixed_s))
    print(f"{name:9} product {1e3 * part_s:.2f} ms, messages {1e3 * gather_s:.2f} ms, "
          f"in 8 pieces {1e3 * both_s:.2f} ms")  # fmt: skip
print(f"forward, one after the other {1e3 * one_after_other_s:.2f} ms, "
      f"in 8 pieces {1e3 * in_eight_s:.2f} ms")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only the attention's output is too short to hide its messages. By the formula the forward pass of
# these four pairs becomes 1.37 times as fast. A whole step gains less, because it also has attention
# itself, norms, the optimizer and the gradients' all-reduce.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(one_after_other_s / in_eight_s, 2) == 1.37
assert 2 * tokens * d * (d // t) / rate < gather_s < 2 * tokens * d * (3 * d // t) / rate

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# **What PyTorch does.** In torch 2.13 the operators `fused_all_gather_matmul` and
# `fused_matmul_reduce_scatter` do this [9]. They split the all-gather into as many pieces as there are
# ranks, and begin with the rank's own piece, which needs no message. They are marked as alpha [10].
# PyTorch's team measured whole steps at TP degree 8 on H100 GPUs in June 2025 [11]:
#
# | async TP against plain TP | 70B on 256 GPUs | 8B on 64 GPUs |
# |---|---|---|
# | bf16 | +9 % | +10 % |
# | FP8, one scale for a tensor | +16 % | +10 % |
# | FP8, one scale for a row | +4 % | +6 % |
#
# Why do the gains differ? The table doesn't say. In FP8 the products are faster, which leaves more of the
# messages exposed. But with one scale for a tensor the all-gather is in FP8 too [16], which leaves less.
# (The plain run of the last line was too slow, says a note.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
titan = table(LECTURES / "data" / "torchtitan_tensor.csv")
gain = 100 * (titan["tokens_per_s"] / titan["plain_tokens_per_s"] - 1)
gains = {
    n: gain[(titan["what"] == "async") & (titan["billion"] == n)].round().tolist() for n in (70, 8)
}
assert gains == {70: [9, 16, 4], 8: [10, 10, 6]}

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 9.** Draw the timeline of four pieces on the board before you show the formula,
# and let the class say what stays exposed at each end. Ask: "Why not a thousand pieces?" Most name the
# latency of messages. Here it is the product that is longer, so the start of its kernels counts. Then
# ask what else a small product loses: it fills a GPU less well, which our clock doesn't know. So the
# best $k$ of a real GPU is smaller than 11. Messages that an NCCL kernel carries also take some of the GPU's own
# processors from the product; copies through symmetric memory by the copy engines don't.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 10. Eight bits: in products, on the wire, in sums
#
# By its data sheet an H100 multiplies FP8 numbers (8 bits) at twice the rate of bf16. You saw in section 7
# what faster products do: the network becomes relatively slower. Do the messages shrink as well? Ask three
# questions of each tensor. In what format do you *compute* with it, in what format do you *send* it, and in
# what format do you *sum* it? The three answers may differ.
#
# Eight bits hold 256 values. So numbers go with a **scale**: you send codes, and one factor that turns all
# the codes of a block back into numbers. With $q$ bits for a code and a scale for each $m$ numbers you pay
# $q + (\text{bits of the scale})/m$ bits a number:
#
# | format | code | block | scale | bits a number |
# |---|---|---|---|---|
# | INT8, as below | 8-bit integer | 32 | 32 bits | 9 |
# | MXFP8 [12, 13] | E4M3: 4 bits of exponent, 3 of mantissa | 32 | 8 bits, a power of 2 | 8.25 |
# | NVFP4 [14] | 4 bits | 16 | 8 bits | 4.5 |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
FP8_GAIN = ringside.Machine.load("dgx_h100").rates
assert round(FP8_GAIN["fp8"]["peak"] / FP8_GAIN["bf16"]["peak"], 2) == 2 and 2**8 == 256
assert [q + scale / m for q, scale, m in ((8, 32, 32), (8, 8, 32), (4, 8, 16))] == [9, 8.25, 4.5]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Why not one scale for the whole tensor? Quantise and see. These two functions are INT8 with a scale
# for each block:

# %% slideshow={"slide_type": "fragment"}
# %%writefile blocks.py
import numpy as np


def encode(x, m):
    """INT8 codes of x, and one scale for each block of m numbers."""
    blocks = x.reshape(-1, m)
    scales = np.abs(blocks).max(axis=1, keepdims=True) / 127
    return np.rint(blocks / scales).astype(np.int8), scales.astype(np.float32)


def decode(codes, scales):
    return (codes * scales).ravel()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/outlier",
    "4096 normal numbers of size 1, but one of them is 1000. With one scale for all, "
    "how many of the 4096 codes aren't 0?",
    unit="codes",
)

# %% slideshow={"slide_type": "fragment"}
from blocks import decode, encode

normal = np.random.default_rng(10).normal(size=4096).astype(np.float32)
outlier = normal.copy()
outlier[1000] = 1000
codes, scales = encode(outlier, len(outlier))
print(f"{np.count_nonzero(codes):,} codes aren't 0; one step of the code is {scales.item():.1f}")
reveal("08/outlier", np.count_nonzero(codes))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Only the outlier itself survives. It makes the step of the code 7.9, and whatever is smaller than half
# a step becomes 0. With blocks, an outlier harms the numbers of its own block only.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.count_nonzero(codes) == 1 and round(scales.item(), 1) == 7.9


# %% slideshow={"slide_type": "fragment"}
def e4m3(x, m):
    """x as FP8 with a scale for each block: the largest number of a block becomes 448."""
    blocks = torch.tensor(x).reshape(-1, m)
    scales = blocks.abs().amax(dim=1, keepdim=True) / 448
    return ((blocks / scales).to(torch.float8_e4m3fn).float() * scales).flatten().numpy()


def error(x, y):
    """Root mean square of the difference over that of x, without the outlier."""
    others = np.arange(len(x)) != 1000
    return np.sqrt(np.mean((x - y)[others] ** 2) / np.mean(x[others] ** 2))


SIZES_OF_BLOCKS = 2 ** np.arange(3, 13)
errors = {
    "INT8, an outlier": [error(outlier, decode(*encode(outlier, m))) for m in SIZES_OF_BLOCKS],
    "FP8 (E4M3), an outlier": [error(outlier, e4m3(outlier, m)) for m in SIZES_OF_BLOCKS],
    "INT8, no outlier": [error(normal, decode(*encode(normal, m))) for m in SIZES_OF_BLOCKS],
}

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 3.1))
for (name, line), style in zip(errors.items(), ("o-", "s-", "o--")):
    axis.plot(SIZES_OF_BLOCKS, 100 * np.array(line), style, label=name,
              color=MODEL if "INT8" in name else DATA)  # fmt: skip
axis.axvline(32, color="#57606a", linestyle=":", linewidth=1)
axis.set_xscale("log", base=2)
axis.set_yscale("log")
axis.set_xticks(SIZES_OF_BLOCKS, SIZES_OF_BLOCKS)
axis.set_yticks([0.3, 1, 3, 10, 30, 100], ["0.3", "1", "3", "10", "30", "100"])
axis.set(xlabel="numbers that share a scale", ylabel="error (%)")
axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
show(figure, "The error over the size of a block, logarithmic on both axes. INT8 with one outlier rises from 3 percent in "
     "blocks of 8 to 100 percent in one block of 4096. FP8 stays between 2 and 3 percent. INT8 without an outlier "
     "stays below both, from 0.4 to 1 percent. A dotted line marks 32.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. Error of 4096 numbers against the size of a block. Dotted: blocks of 32, as in MXFP8.*
#
# An INT8 code has equal steps, so you need small blocks once sizes differ. FP8 has an exponent in each
# code, so its steps grow with the number, and an outlier of 1000 doesn't hurt it. The price is three
# bits of mantissa. Where no number sticks out, INT8 is the better of the two.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
with_int8, with_fp8, without = errors.values()
assert with_int8[-1] > 0.99 and round(with_int8[0], 2) == 0.03
assert all(0.015 < one < 0.03 for one in with_fp8) and all(0.003 < one < 0.01 for one in without)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Sums.** Now 8 ranks reduce-scatter their gradients as INT8 codes. In the ring of lecture 3 a partial
# sum goes from rank to rank, so each hop has to encode it again:

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring_sum.py
import numpy as np
from blocks import decode, encode


def reduce_scatter(comm, gradient, m):
    p, rank, parts = comm.size, comm.rank, np.split(gradient, comm.size)
    total = parts[(rank - 1) % p]
    for step in range(2, p + 1):
        mine = encode(total, m)
        came = [np.empty_like(array) for array in mine]
        for out, into in zip(mine, came):  # codes, scales
            comm.Sendrecv(out, (rank + 1) % p, recvbuf=into, source=(rank - 1) % p)
        total = decode(*came) + parts[(rank - step) % p]
    return total


# %% [markdown] slideshow={"slide_type": "fragment"}
# Instead, each rank can encode its gradient once and send every part straight to the rank that owns it.
# That rank decodes all of them and adds in 32 bits. This is an all-to-all:

# %% slideshow={"slide_type": "fragment"}
# %%writefile one_shot.py
import numpy as np
from blocks import decode, encode


def reduce_scatter(comm, gradient, m):
    codes, scales = encode(gradient, m)
    all_codes, all_scales = np.empty_like(codes), np.empty_like(scales)
    comm.Alltoall(codes, all_codes)
    comm.Alltoall(scales, all_scales)
    return decode(all_codes, all_scales).reshape(comm.size, -1).sum(axis=0)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/low-sum",
    "Both send the same bytes. On 8 ranks, how many times as large is the error of the ring's sum?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
p, numbers = 8, 2**13
signal = rng.normal(size=numbers)  # what the samples of all ranks agree on
gradients = [(signal + rng.normal(size=numbers)).astype(np.float32) for _ in range(p)]
exact = np.sum(gradients, axis=0, dtype=np.float64)
sum_error, sum_sends = {}, {}
for program in ("ring_sum", "one_shot"):
    run = ringside.run(f"{program}.py:reduce_scatter", p, [(one, 32) for one in gradients])
    sum_error[program] = np.sqrt(np.mean((np.concatenate(run.values) - exact) ** 2))
    sum_sends[program] = run.timeline.bytes_matrix.sum(axis=1)[0]
    print(f"{program}: {sum_sends[program]:,} bytes, error {sum_error[program]:.4f}")
reveal("08/low-sum", sum_error["ring_sum"] / sum_error["one_shot"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The ring's error is 3.2 times as large, for the same bytes. The reason is in your program: at hop $j$ it
# rounds a sum of $j$ gradients, whose scale is up to $j$ times as large. If all $p$ gradients agree, the
# errors add up to $1 + 2 + \dots + (p-1)$ roundings of one gradient. The all-to-all makes $p$ of them. So
# the ring's bound is $(p-1)/2$ times as large, 3.5 here.
#
# So send in 8 bits if you like, and **sum in 32**. ZeRO++ (2023) replaced the reduce-scatter by such an
# all-to-all, because it keeps the accuracy [15].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert sum_sends["ring_sum"] == sum_sends["one_shot"] == 7 / 8 * numbers * 9 / 8
assert round(sum_error["ring_sum"] / sum_error["one_shot"], 1) == 3.2 and (p - 1) / 2 == 3.5

# %% [markdown] slideshow={"slide_type": "slide"}
# **A scale is a collective.** One scale for a tensor is the maximum over *all* its numbers. If FSDP has
# sharded the tensor (lecture 7), you need an all-reduce with `MAX` before you can encode anything. It
# carries a single number. The course's GPT has 96 weight matrices.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/one-scale-each",
    "On 32 GPUs of zaratan: 96 all-reduces of one number, or one all-reduce of 96 numbers. "
    "How many times as long do the 96 take?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
# %%writefile maxima.py
import numpy as np
from mpi4py import MPI


def in_calls(comm, maxima, num_calls):
    for some in np.split(maxima, num_calls):
        comm.Allreduce(some.copy(), np.empty_like(some), op=MPI.MAX)


# %% slideshow={"slide_type": "fragment"}
maxima, scales_ms = np.ones(4 * 24, np.float32), {}  # four matrices in each of 24 layers
for num_calls in (96, 1):
    run = ringside.run("maxima.py:in_calls", 32, (maxima, num_calls), machine="zaratan")
    scales_ms[num_calls] = 1e3 * run.makespan_s
    print(f"{num_calls:2} calls: {scales_ms[num_calls]:.2f} ms")
reveal("08/one-scale-each", scales_ms[96] / scales_ms[1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# They take 95 times as long, 6.7 ms a step, and all of it is latency. TorchTitan had a flag for this in
# 2025: it computes all maxima first and sends them in one all-reduce [16]. The scale of a *block* needs
# no message at all, because a block lies on one rank.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(scales_ms[96] / scales_ms[1]) == 95 and round(scales_ms[96], 1) == 6.7
assert len(maxima) == 96 == 4 * SIZES["num_layers"]

# %% [markdown] slideshow={"slide_type": "slide"}
# **What it does to FSDP.** FSDP gathers each weight in the forward pass, gathers it again in the backward
# pass, and reduce-scatters its gradient. Count bytes a parameter, without the scales:
#
# | computed in | gathers | gradients | bytes a parameter |
# |---|---|---|---|
# | bf16 | 2 + 2 | 2 | 6 |
# | FP8, gathered in FP8 | 1 + 1 | 2 | 4 |
# | bf16, gradients in FP32 | 2 + 2 | 4 | 8 |
# | FP8, gathered in FP8, gradients in FP32 | 1 + 1 | 4 | 6 |
#
# How many tokens must a GPU have, so that the messages hide? That was the tokens-per-GPU bound of lectures
# 5 and 7. A token takes $2\Psi/F$ seconds in the forward pass, and $6\Psi/F$ in the backward pass with
# recomputation. Double $F$, and try both ways to send.

# %% slideshow={"slide_type": "fragment"}
from ringside.course.lectures.ledger import REACHED_FLOP_PER_S


def tokens_to_hide(flop_per_s, gather_bytes, gradient_bytes=2, p=32, bytes_per_s=12.5e9):
    """Tokens a GPU from which FSDP hides its messages: forward, backward (with recomputation)."""
    wire = (p - 1) / p * flop_per_s / bytes_per_s
    return gather_bytes * wire / 2, (gather_bytes + gradient_bytes) * wire / 6


to_hide = {}
for name, speed, gather_bytes in (("bf16", 1, 2), ("FP8, sent as bf16", 2, 2), ("FP8", 2, 1)):
    to_hide[name] = tokens_to_hide(speed * REACHED_FLOP_PER_S, gather_bytes)
    forward, backward = map(int, to_hide[name])
    print(f"{name:18} forward {forward:6,} tokens, backward {backward:6,}")
fast_limits = {w: 1 + 9 / w * 4096 / (2 * 140e12 / 100e9) for w in (2, 1)}
print(
    "TP degree at twice the rate: {:.1f} sent as bf16, {:.1f} as FP8".format(*fast_limits.values())
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Products twice as fast need twice the tokens, unless you send half as many bytes. With FP8 gathers the
# forward pass needs no more tokens than before. The TP-degree bound of section 7 behaves alike: at twice
# the rate it falls from 14 ranks to 7, and FP8 messages bring it back.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [int(one) for one in to_hide["bf16"]] == [10_617, 7_078]  # as in lecture 7
assert np.allclose(to_hide["FP8, sent as bf16"], 2 * np.array(to_hide["bf16"]))
assert to_hide["FP8"][0] == to_hide["bf16"][0]
assert (
    int(fast_limits[2]) == 7 and int(fast_limits[1]) == int(limits["bf16", "inside a node"]) == 14
)

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# **What systems do, in 2026.** Megatron-Core gathers parameters in FP8 if you ask for it [17]. TorchTitan's
# MXFP8 computes in 8 bits and sends in 16 or more: "all distributed communication for MXFP8 training is
# currently done in high precision" [12]. So you gain products, and no bytes. For NVFP4 TorchTitan advises
# to leave about the last 15 % of the layers and the output layer in bf16 [18]. It measured Llama 3 with 8
# billion parameters on 4 Blackwell GPUs, for 200 million tokens [18]:
#
# | | bf16 | MXFP8 | NVFP4 |
# |---|---|---|---|
# | tokens/s of a GPU | 21,919 | 28,084 | 30,040 |
# | loss | 1.2738 | 1.2671 | 1.2715 |
#
# MXFP8 is 1.28 times as fast, not twice. Only the linear layers compute in 8 bits, and they have to encode
# their activations and weights each time. The losses are about equal, after a short run.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
of_formats = titan["what"] == "formats"
formats_tokens, formats_loss = titan["tokens_per_s"][of_formats], titan["loss"][of_formats]
assert formats_tokens.tolist() == [21_919, 28_084, 30_040]
assert formats_loss.tolist() == [1.2738, 1.2671, 1.2715]
assert round(formats_tokens[1] / formats_tokens[0], 2) == 1.28
assert (titan["million_tokens"][of_formats] == 200).all()

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 10.** Let the class fill in a table before you show the code: weights,
# activations, gradients, optimizer states; computed, sent, summed in what? The usual mistake is to halve
# all messages as soon as the products are FP8. If time is short, leave out the scales' all-reduce. A good
# question: "Can you add the codes of two ranks?" No: their blocks have different scales.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 11. Where it breaks
#
# **What can hide.** The formulas of sections 4 and 5 count bytes and nothing else. But bytes can travel
# while a rank computes. Nobody waits for the gradient of $W$ until the step ends. So an all-reduce of data
# parallelism can run while you compute the layers below (assignment `a05_ddp`). A gather of model
# parallelism stands *between* two products. Section 9 hides it piece by piece; here we leave it whole.
# Communication for which a rank waits is called **exposed**. For example, if an all-reduce takes 5 ms and
# the rank computes during 4 of them, then 1 ms is exposed.
#
# What does that do to the crossover? At $B = d$ both kinds send the same bytes. Take four layers. Let the
# three products of a layer together take as long as the layer's communication.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/hidden",
    "At the crossover, how many times as long does the step take with model parallelism as with "
    "data parallelism?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
# %%writefile model_traffic.py
import numpy as np

import ringside


def step(comm, length, product_s):
    whole, part = np.zeros(length), np.zeros(length // comm.size)
    for _ in range(4):
        ringside.compute(seconds=product_s, phase="Y")
        comm.Allgather(part, whole)
    for _ in range(4):
        ringside.compute(seconds=2 * product_s, phase="dW, dX")
        comm.Reduce_scatter_block(whole, part)


# %% slideshow={"slide_type": "fragment"}
# %%writefile data_traffic.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm, length, product_s):
    gradients, totals, sums = np.zeros(length), np.empty((4, length)), []
    for _ in range(4):
        ringside.compute(seconds=product_s, phase="Y")
    for layer in range(4):
        ringside.compute(seconds=2 * product_s, phase="dW, dX")
        sums.append(comm.Iallreduce(gradients, totals[layer]))  # begins, and doesn't wait
    MPI.Request.Waitall(sums)


# %% slideshow={"slide_type": "slide"}
length = 8000  # of float64
all_reduce_s = 2 * 3 / 4 * 8 * length * 1e-9  # without latency
args = (length, all_reduce_s / 3)
model = ringside.run("model_traffic.py:step", 4, args)
data = ringside.run("data_traffic.py:step", 4, args)
for kind, run in (("model", model), ("data", data)):
    sends = run.timeline.bytes_matrix.sum()
    print(f"{kind:5} {1e6 * run.makespan_s:.0f} µs, {sends:,.0f} bytes")

# %% slideshow={"slide_type": "fragment"}
data.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("08/hidden", model.makespan_s / data.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. Four layers with data parallelism. The all-reduces run while the backward pass goes on.
# Only the end of the last one is exposed.*
#
# Both kinds send the same bytes, and model parallelism takes 1.36 times as long. So at equal bytes prefer
# data parallelism. If you compare times instead of bytes, you find the crossover at a smaller batch.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert model.timeline.bytes_matrix.sum() == data.timeline.bytes_matrix.sum()
assert round(model.makespan_s / data.makespan_s, 2) == 1.36

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** `async_op=True` returns a handle at once, and `wait` waits for the sum.

# %% slideshow={"slide_type": "fragment"}
# %%writefile data_traffic_torch.py
import torch
import torch.distributed as dist

import ringside


def step(group, length, product_s):
    sums, gradients = [], torch.zeros(4, length, dtype=torch.float64)
    for _ in range(4):
        ringside.compute(seconds=product_s, phase="Y")
    for layer in range(4):
        ringside.compute(seconds=2 * product_s, phase="dW, dX")
        sums.append(dist.all_reduce(gradients[layer], group=group, async_op=True))
    for handle in sums:
        handle.wait()


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("data_traffic_torch.py:step", 4, args)
for name, run in (("MPI", data), ("torch", torch_run)):
    print(f"{name:5} {1e6 * run.makespan_s:.0f} µs, {run.timeline.bytes_matrix.sum():,} bytes")
assert (torch_run.timeline.bytes_matrix == data.timeline.bytes_matrix).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# **Memory** often decides before bytes do. Data parallelism keeps all weights, their gradients and
# the state of the optimizer on every rank. Model parallelism, in the plain form, keeps the
# activations of all samples on every rank. Lecture 9 shows what pipeline parallelism does to both.
#
# **Thin products.** A rank with $d/p$ columns multiplies thinner matrices. They run further below
# the processor's peak. No count of bytes shows you this. The published test in section 7 shows what it
# costs. Pieces, as in section 9, make products thinner still.
#
# **Whole numbers.** Heads, columns and samples come in whole numbers. 40 heads can't be shared
# equally by 16 ranks.
#
# **Latency.** Model parallelism calls two collectives for each layer, of $p - 1$ steps each. Our
# formulas leave $\alpha$ out. With small batches on many ranks it matters, as in lecture 3.
#
# **Exactness.** All schemes compute the same sums in a different order. They agree up to rounding,
# and not bit for bit.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. Summary
#
# You began with the 411 MB of gradients of fc6. How long do they take, next to a step? Let the four GPUs
# of a `zaratan` node train VGG-16 with 256 images, in FP32.

# %% slideshow={"slide_type": "fragment"}
# %%writefile fc6_traffic.py
import numpy as np


def data(comm, weights, inputs):
    comm.Allreduce(np.zeros(weights, np.float32), np.empty(weights, np.float32))


def model(comm, weights, inputs):
    whole, part = (
        np.zeros(inputs, np.float32),
        np.zeros(inputs // comm.size, np.float32),
    )
    comm.Allgather(part, whole)  # forward: the inputs of all samples
    comm.Reduce_scatter_block(whole, part)  # backward: their gradients


# %% slideshow={"slide_type": "fragment"}
sizes = (25088 * 4096 // SCALE, 256 * 25088 // SCALE)  # weights of fc6; its inputs
fc6_ms = {}
for kind in ("data", "model"):
    run = ringside.run(f"fc6_traffic.py:{kind}", 4, sizes, machine=stretched("zaratan", 19.5e12))
    fc6_ms[kind] = 1e3 * run.makespan_s
    sends = run.timeline.bytes_matrix.sum(axis=1)[0] * SCALE / 1e6
    print(f"{kind:5} each rank sends {sends:3.0f} MB for fc6, in {fc6_ms[kind]:.2f} ms")
pixels = np.array([side**2 for side in SIDES] + [1, 1, 1])  # each uses the weights once
step_ms = 1e3 * 3 * 2 * (weights_of * pixels).sum() * 256 / 4 / 19.5e12
print(f"the products of a step take {step_ms:.0f} ms on each GPU, at 19.5 TFLOP/s")

# %% [markdown] slideshow={"slide_type": "fragment"}
# For the 411 MB of gradients of fc6 each rank sends 617 MB, which takes 6.2 ms. Column-parallel, fc6 sends
# 39 MB in 0.4 ms. The products of a step take 305 ms in FP32. So inside a node, in FP32, your 411 MB are
# 2 % of a step, and they can hide behind the backward pass. Between nodes a byte takes eight times as
# long, and tensor cores shorten the step. Then the same bytes decide.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(2 * 3 / 4 * weight_MB) == 617 and round(2 * 3 / 4 * input_MB) == 39
assert round(fc6_ms["data"], 1) == 6.2 and round(fc6_ms["model"], 1) == 0.4
assert round(step_ms) == 305 and round(fc6_ms["data"] / step_ms, 2) == 0.02

# %% [markdown] slideshow={"slide_type": "subslide"}
# | | each rank has | each rank sends for a layer | it sends least when |
# |---|---|---|---|
# | data | all of $W$, $B/p$ samples | $2\frac{p-1}{p}\,d_\text{in} d_\text{out}$ | $B$ is above the crossover |
# | column-parallel, gathered | $d_\text{out}/p$ columns, all samples | $\frac{p-1}{p}\,B\,(d_\text{out} + d_\text{in})$ | $B$ is below it |
# | column-, then row-parallel | shards of both, all samples | $4\frac{p-1}{p}\,B\,d$ for two layers | the middle is wide |
# | grid $P_r \times P_c$ | $1/P_r$ of $W$, $B/P_c$ samples | both sums, each over fewer ranks | $P_r \approx \sqrt{p\,d/B}$ |
#
# The crossover is the harmonic mean of $d_\text{in}$ and $d_\text{out}$. The TP-degree bound is
# $t - 1 \le \frac{9}{w}\cdot\frac{d}{F/R}$. Both follow from one rule: *a product that sums over a
# sharded dimension has to be summed over the ranks.*
#
# Two things change the times, and not the rule. In $k$ pieces an all-gather and its product take
# $\max(T_g, T_p) + \min(T_g, T_p)/k + k\tau$. In eight bits you may compute and send, but sum in 32.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 13. AlexNet's two GPUs
#
# AlexNet [3] won the ImageNet competition of 2012. It was trained on two graphics cards with 3 GB of
# memory each. The paper puts half of the kernels, and half of the neurons, on each GPU. In the words of
# today its layers are column-parallel. It also uses a trick: the GPUs talk only in some layers. The
# kernels of layers 2, 4 and 5 see only the feature maps on their own GPU, while layer 3 and the fully connected layers
# see all of them. So the *network* was changed to fit the machine. A convolution whose channels fall
# into parts that don't see each other is now called a **grouped** convolution.


# %% slideshow={"slide_type": "fragment"}
def parameters(groups):
    """Weights and biases; layers 2, 4 and 5 are cut into groups that don't see each other."""
    convolutions = [  # kernel size, channels in, channels out, groups
        (11, 3, 96, 1),
        (5, 96, 256, groups),
        (3, 256, 384, 1),
        (3, 384, 384, groups),
        (3, 384, 256, groups),
    ]
    total = sum(d_in * d_out + d_out for d_in, d_out in ((9216, 4096), (4096, 4096), (4096, 1000)))
    for k, c_in, c_out, g in convolutions:
        total += k * k * c_in // g * c_out + c_out
    return total


print(f"{parameters(2):,} parameters; without groups {parameters(1):,}")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/alexnet",
    "A step has 128 images. How many times less do AlexNet's two GPUs send than they would send "
    "with data parallelism?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
crossing = [
    13 * 13 * 256,
    6 * 6 * 256,
    4096,
    4096,
]  # what layers 3, 6, 7 and 8 gather
alexnet_MB = 2 * 0.5 * 128 * sum(crossing) * 4 / 1e6  # forward, and as much backward
data_MB = 2 * 0.5 * parameters(2) * 4 / 1e6
print(f"two halves {alexnet_MB:.0f} MB, data parallelism {data_MB:.0f} MB in each step")
reveal("08/alexnet", data_MB / alexnet_MB)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each GPU sends 7.9 times less: 31 MB instead of 244 MB. You counted 60,965,224 parameters. Without the
# groups it would be 62,378,344.
#
# Why two GPUs at all? The other reason was memory. For each image the layers produce about 1.5 million
# numbers (lecture 2 counts them). Each of these has a gradient, and each weight has a gradient and a
# momentum.

# %% slideshow={"slide_type": "fragment"}
activations_MB = 128 * 1_526_595 * 4e-6
needed_GB = (2 * activations_MB + 3 * data_MB) / 1000
print(f"{activations_MB:.0f} MB of activations, {needed_GB:.1f} GB in all")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The activations take 782 MB. With all the rest you need 2.3 GB of the 3 GB, and a convolution needs room
# to work in as well.
#
# The paper compares its two-GPU network with a one-GPU network that has half as many kernels in each
# convolutional layer. The two-GPU network has lower errors, by more than one percentage point, and
# takes slightly less time to train [3]. Our model says nothing about errors. But it explains the
# time: the early layers, which section 5 would never make column-parallel, send nothing here, because
# layer 2 may not look at the other GPU.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (parameters(2), parameters(1)) == (60_965_224, 62_378_344)
assert round(alexnet_MB) == 31 and round(data_MB) == 244
assert round(data_MB / alexnet_MB, 1) == 7.9
assert round(activations_MB) == 782 and round(needed_GB, 1) == 2.3
assert round(activations_MB / 128 / 4, 1) == 1.5

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Mesh-TensorFlow: give the dimensions names
#
# The rule of section 2 doesn't ask about "columns" and "rows". It asks which *dimension* is sharded.
# Mesh-TensorFlow [7] made a language of this. Every dimension of every tensor has a name. The
# processors form a mesh, and the axes of the mesh have names too. A **layout** says which dimension
# is sharded along which axis. For example, $\{\text{b}: \text{x}\}$ shards the batch along the axis x.
# Two rules make the language work:
#
# 1. Each processor computes with what it has. If a product sums over a dimension that is sharded along
#    an axis, an all-reduce along that axis follows.
# 2. No tensor may have two of its dimensions sharded along the same axis.
#
# Here are the six products of the two layers of section 6, written as NumPy's `einsum` writes them.
# The letters are `b` for tokens, `i` for inputs, `h` for hidden, and `o` for outputs. For example,
# `bi,ih->bh` multiplies a matrix with dimensions b and i by one with i and h.

# %% slideshow={"slide_type": "fragment"}
EINSUMS = ["bi,ih->bh", "bh,ho->bo", "bh,bo->ho", "bo,ho->bh", "bi,bh->ih", "bh,ih->bi"]
TENSORS = [einsum.replace("->", ",").split(",") for einsum in EINSUMS]


def is_legal(layout):
    """No tensor has two dimensions along one axis, and every product uses every axis."""
    for tensors in TENSORS:
        used = set()
        for tensor in tensors:
            axes = [layout[name] for name in tensor if name in layout]
            if len(set(axes)) < len(axes):
                return False
            used.update(axes)
        if used != set(layout.values()):
            return False
    return True


# %% slideshow={"slide_type": "fragment"}
def elements_sent(layout, sizes, mesh):
    """Elements that each rank sends in the all-reduces of all products."""

    def parts(name):
        return mesh.get(layout.get(name), 1)

    total = 0
    for left, right, result in TENSORS:
        local = np.prod([sizes[name] / parts(name) for name in result])
        for name in set(left + right) - set(result):
            q = parts(name)
            total += 2 * (q - 1) / q * local
    return total


# %% [markdown] slideshow={"slide_type": "fragment"}
# In this language, each scheme of this lecture is a layout of one line:

# %% slideshow={"slide_type": "fragment"}
B, d, p = 4096, 4096, 64
sizes, mesh = {"b": B, "i": d, "h": 4 * d, "o": d}, {"all": p}
NAMES = {
    "data": {"b": "all"},
    "pair (Megatron)": {"h": "all"},
    "rows, columns": {"i": "all", "o": "all"},
}
units = {}
for name, layout in NAMES.items():
    units[name] = elements_sent(layout, sizes, mesh) / (B * d * (p - 1) / p)
    print(f"{name:16} {layout!s:30} {units[name]:4.0f} units of B d (p-1)/p")
    assert is_legal(layout)
assert not is_legal({"i": "all", "h": "all"})  # the first matrix has both

# %% [markdown] slideshow={"slide_type": "fragment"}
# At $B = d$ data parallelism sends 16 units: the weights are $8d^2$, and an all-reduce counts twice. The
# pair sends 4 units, as in section 6. The wrong order, row-parallel first, sends 16.
#
# Now let a program try *every* layout on every two-dimensional mesh of 64 processors.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.allclose(list(units.values()), [16, 4, 16])


# %% slideshow={"slide_type": "fragment"}
def search(B, p=64):
    """The layout and the mesh for which each rank sends least: elements / d^2, layout, x."""
    sizes, best = {"b": B, "i": d, "h": 4 * d, "o": d}, (np.inf,)
    for axes in itertools.product([None, "x", "y"], repeat=4):
        layout = {name: axis for name, axis in zip("biho", axes) if axis}
        if is_legal(layout):
            for x in (1, 2, 4, 8, 16, 32, 64):
                mesh = {axis: q for axis, q in (("x", x), ("y", p // x)) if q > 1}
                if set(layout.values()) == set(mesh):
                    sends = elements_sent(layout, sizes, mesh) / d**2
                    best = min(best, (sends, str(layout).replace("'", ""), x))
    return best


# %% slideshow={"slide_type": "slide"}
found, alone = {}, {}
for B in (512, 4096, 2**17, 2**20):
    found[B] = sends, layout, x = search(B)
    alone[B] = {
        name: elements_sent(NAMES[name], sizes | {"b": B}, {"all": 64}) / d**2
        for name in ("pair (Megatron)", "data")
    }
    print(f"{B:9,} tokens: {layout}, x = {x}: {sends:.2f} d²")
    print(f"{'alone':>16}: pair {alone[B]['pair (Megatron)']:.2f}, data {alone[B]['data']:.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Which layout did your search find? With a million tokens it is plain data parallelism. With 131,072 tokens
# it has 16 groups of 4 ranks, and with 4096 tokens 4 groups of 16 ranks. In the last case the combination
# sends 2.3 times less than the pair alone. The introduction to Mesh-TensorFlow recommends this layout: the
# batch along one axis of the mesh, the hidden units along the other.
#
# With 512 tokens your search finds something new. *Every matrix of weights is sharded in both
# directions*, into tiles, 4 by 16 of them. Each rank sends $0.21\,d^2$ elements instead of
# $0.49\,d^2$ for the pair. A notation that is small enough to be searched can surprise you.
#
# The authors trained Transformers of up to 5 billion parameters with such layouts, on meshes of up
# to 512 TPU cores [7].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert found[4096][1:] == ("{b: x, h: y}", 4) and found[2**17][2] == 16
assert found[2**20][1:] == ("{b: x}", 64) and 2**17 == 131_072
assert found[512][1:] == ("{i: x, h: y, o: x}", 4)
assert round(alone[4096]["pair (Megatron)"] / found[4096][0], 1) == 2.3
assert round(found[512][0], 2) == 0.21
assert round(alone[512]["pair (Megatron)"], 2) == 0.49

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Both at once: the best grid
#
# Arrange the ranks in a grid of $P_r \times P_c$. There are $P_c$ groups, and each of them gets
# $B/P_c$ samples. The $P_r$ ranks of a group share the model. Each rank also sums the gradient of
# its $1/P_r$ of the weights with the $P_c$ ranks that own the same columns in the other groups. For
# $L$ layers of width $d$ in the plain form, each rank sends
#
# $$n = \underbrace{2L\,\frac{P_r - 1}{P_r}\cdot\frac{B}{P_c}\,d}_\text{model, in a group}
#   + \underbrace{2L\,\frac{P_c - 1}{P_c}\cdot\frac{d^2}{P_r}}_\text{data, across groups} .$$
#
# With $P_c = p / P_r$ this becomes
#
# $$n = 2Ld\left[\frac{B}{p}(P_r - 1) + d\left(\frac{1}{P_r} - \frac1p\right)\right] .$$
#
# The first part grows with $P_r$, and the second falls. Take the derivative and set it to zero:
#
# $$\frac{B}{p} = \frac{d}{P_r^2} \qquad\Longrightarrow\qquad P_r^* = \sqrt{\frac{p\,d}{B}} .$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# You can read two things off this formula. Four times the batch halves $P_r^*$. And at the crossover
# of section 5, where $B = d$, the best grid is *square*. At the crossover the two pure kinds are
# equally good. How good is the square grid there?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/best-grid",
    "64 ranks, B = d = 4096. How many times less does the best grid send than either pure kind?",
    unit="times",
)


# %% slideshow={"slide_type": "fragment"}
def grid_elements(P_r, p, B, d):
    """Elements for each layer and rank: in a group, and across groups."""
    P_c = p // P_r
    in_group = 2 * (P_r - 1) / P_r * B / P_c * d
    across_groups = 2 * (P_c - 1) / P_c * d * d / P_r
    return in_group, across_groups


grids = {P_r: sum(grid_elements(P_r, 64, 4096, 4096)) for P_r in (1, 2, 4, 8, 16, 32, 64)}
best = min(grids, key=grids.get)
print(f"best: {best} x {64 // best}, {grids[1] / grids[best]:.1f} times less than a pure kind")
reveal("08/best-grid", grids[1] / grids[best])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your best grid, $8 \times 8$, sends 4.5 times less. In general the factor at the crossover is
#
# $$\frac{n_\text{pure}}{n_\text{best}} = \frac{p - 1}{2(\sqrt p - 1)} = \frac{\sqrt p + 1}{2} .$$
#
# So the two pure kinds are at their worst, compared with the combination, where they are equally good.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert best == 8 and np.isclose(grids[1] / grids[8], 4.5) and grids[1] == grids[64]
assert np.isclose((np.sqrt(64) + 1) / 2, 4.5)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the knobs.** In figure 9 every bar is a grid. Pure data parallelism is on the left, and pure
# model parallelism is on the right. Each bar has twice the $P_r$ of the bar before it.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/eight-times-the-batch",
    "The batch becomes 8 times larger. By how many bars does the dotted line move to the left?",
    unit="bars",
)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
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
explore(
    bars,
    alt="Bytes on every grid of {ranks} ranks: batch {batch}, width {width}; the best is marked.",
    batch=Knob([512, 4096, 32768], start=4096, unit="samples"),
    width=Knob([1024, 4096, 16384], start=4096),
    ranks=Knob([16, 64, 256], start=64),
)

# %% slideshow={"slide_type": "fragment"}
line = {batch: np.log2(np.sqrt(64 * 4096 / batch)) for batch in (4096, 8 * 4096)}
reveal("08/eight-times-the-batch", line[4096] - line[8 * 4096])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. Bytes that each rank sends for one layer, on every grid. The dotted line is at
# $\sqrt{pd/B}$.*
#
# A batch that is eight times larger moves the line by one and a half bars. If you take four times as many
# ranks, it moves by one bar. If the line leaves the figure at one of the ends, a pure kind is best. Gholami
# and others proposed this grid [8]. They say in their abstract that the lowest cost is often reached
# by neither pure kind.


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def best_grid(batch, width, ranks):
    choices = 2 ** np.arange(int(np.log2(ranks)) + 1)
    return choices[np.argmin([sum(grid_elements(r, ranks, batch, width)) for r in choices])]


assert line[4096] - line[8 * 4096] == 1.5
assert [best_grid(B, 4096, 64) for B in (512, 4096, 32768)] == [16, 8, 2]
assert best_grid(4096, 4096, 16) == 4 and best_grid(4096, 4096, 256) == 16
assert best_grid(32768, 1024, 16) == 1 and best_grid(512, 16384, 16) == 16  # the pure kinds

# %% [markdown] slideshow={"slide_type": "slide"}
# **Now on a machine.** Bytes aren't time. On `zaratan` you can lay a grid over the nodes in two
# ways. Either the ranks that share a *model* are neighbours in a node, or the ranks that own the
# same *columns* are. Take two layers with $d = 4096$, 2048 samples and 32 GPUs. Again everything is
# shorter by 4096. The program only sends the messages, as rings over lists of ranks, as in lecture 3.

# %% slideshow={"slide_type": "fragment"}
# %%writefile grid_traffic.py
import numpy as np


def ring(comm, group, nbytes, steps):
    """Send a chunk to the next rank of the group and take one from the previous, in each step."""
    place = group.index(comm.rank)
    next_rank, prev_rank = group[(place + 1) % len(group)], group[place - 1]
    chunk = np.zeros(nbytes // len(group), np.uint8)
    for _ in range(steps):
        comm.Sendrecv(chunk, dest=next_rank, recvbuf=np.empty_like(chunk), source=prev_rank)


# %% slideshow={"slide_type": "fragment"}
# %%writefile grid_groups.py
import numpy as np


def groups_of(comm, P_r, near):
    """The ranks that share this rank's model, and those that own the same columns."""
    P_c, ranks = comm.size // P_r, np.arange(comm.size)
    neighbours, strided = ranks.reshape(P_c, P_r), ranks.reshape(P_r, P_c).T
    grid = neighbours if near else strided  # a line of the grid shares a model
    [[line, place]] = np.argwhere(grid == comm.rank)
    return grid[line].tolist(), grid[:, place].tolist()


# %% slideshow={"slide_type": "fragment"}
# %%writefile grid_step.py
from grid_groups import groups_of
from grid_traffic import ring


def step(comm, num_layers, batch, d, P_r, near):
    P_c = comm.size // P_r
    model, same_columns = groups_of(comm, P_r, near)
    activations, weights = 4 * batch // P_c * d, 4 * d * d // P_r
    for _ in range(num_layers):
        ring(comm, model, activations, P_r - 1)  # all-gather
    for layer in reversed(range(num_layers)):
        ring(comm, same_columns, weights, 2 * (P_c - 1))  # all-reduce
        if layer > 0:
            ring(comm, model, activations, P_r - 1)  # reduce-scatter


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "08/grid-by-time",
    "By bytes the best grid is 8 x 4. Which grid takes the least time on nodes of four GPUs?",
    choices=["4 x 8", "8 x 4", "16 x 2", "32 x 1"],
)

# %% slideshow={"slide_type": "slide"}
p, L, B, d = 32, 2, 2048, 4096
node = np.arange(p) // 4
different_nodes = node[:, None] != node[None, :]  # pairs of ranks that use network cards
times_ms, leaving_MB, sent_MB = {}, {}, {}
session = ringside.Session(".", machine=stretched("zaratan", 19.5e12))  # ready for many runs
for P_r, near in itertools.product((1, 2, 4, 8, 16, 32), (True, False)):
    run = session.call("grid_step:step", p, (L, B // 64, d // 64, P_r, near))
    times_ms[P_r, near] = 1e3 * run.makespan_s
    leaving_MB[P_r, near] = (run.bytes_matrix() * different_nodes).sum() / 8 * SCALE / 1e6
    sent_MB[P_r] = SCALE * max(run.sent_bytes()) / 1e6
best = min(times_ms, key=times_ms.get)
print(f"the shortest time: {best[0]} x {p // best[0]}, groups in nodes: {best[1]}")

# %% slideshow={"slide_type": "fragment"}
print("grid   a rank sends   groups in nodes        groups across nodes")
for P_r in sent_MB:
    words = [
        f"{times_ms[P_r, near]:5.1f} ms, {leaving_MB[P_r, near]:4.0f} MB leave"
        for near in (True, False)
    ]
    print(f"{P_r:2}x{p // P_r:<2}     {sent_MB[P_r]:4.0f} MB     {words[0]}   {words[1]}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(8, 3.4))
grids = list(sent_MB)
for near, colour, name in ((True, MODEL, "groups in nodes"), (False, DATA, "groups across nodes")):
    axis.plot([times_ms[r, near] for r in grids], "o-", color=colour, label=name)
for place, note in ((3, "fewest bytes\nfor each rank"), (4, "shortest time")):
    low = min(times_ms[grids[place], near] for near in (True, False))
    axis.annotate(note, (place, low - 0.3), (place, 1.5), ha="center", color="#57606a",
                  arrowprops={"arrowstyle": "->", "color": "#57606a"})  # fmt: skip
axis.set_xticks(range(6), [f"{r}x{p // r}" for r in grids])
axis.set(xlabel="grid: model x data", ylabel="time of the communication (ms)", ylim=0)
axis.legend(frameon=False)
show(figure, "Time of two layers' communication on 32 GPUs for six grids, laid over the nodes in two ways. Pure "
     "data parallelism takes 21 ms, pure model parallelism 8 ms. With groups across nodes the time is lowest, "
     "7.3 ms, at 8x4; with groups in nodes it stays near 20 ms up to 4x8 and falls to 6.6 ms, the "
     "shortest of all, at 16x2. An arrow shows that 8x4 sends the fewest bytes for each rank.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("08/grid-by-time", f"{best[0]} x {p // best[0]}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 10. The communication of one step on six grids, for the two ways to lay a grid over nodes of
# four GPUs.*
#
# Each rank sends what the formula says, to the byte, and $8 \times 4$ sends least. Why isn't it fastest?
# Look at what leaves a node:
#
# | grid | groups | time | bytes that leave a node |
# |---|---|---|---|
# | $16 \times 2$ | in nodes | 6.6 ms | 81 MB |
# | $8 \times 4$ | across nodes | 7.3 ms | 88 MB |
# | $8 \times 4$ | in nodes | 9.9 ms | 123 MB |
#
# The bytes that leave a *node* decide. You know this from lecture 3: count the bytes that go through the
# narrowest port.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for P_r in sent_MB:
    in_group, across = grid_elements(P_r, p, B, d)  # the first layer's inputs need no gradient
    assert np.isclose(sent_MB[P_r], 4e-6 * ((L - 0.5) * in_group + L * across))
assert min(sent_MB, key=sent_MB.get) == 8 == np.sqrt(p * d / B)
assert best == (16, True) == min(leaving_MB, key=leaving_MB.get)
assert [round(times_ms[r, True], 1) for r in grids] == [21.1, 20.2, 18.9, 9.9, 6.6, 8.1]
assert [round(times_ms[r, False], 1) for r in grids] == [21.1, 11.2, 7.8, 7.3, 7.6, 8.1]
grids_and_ways = ((8, True), (8, False), (16, True))
assert [round(leaving_MB[each]) for each in grids_and_ways] == [123, 88, 81]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Do the ranks of a model belong into one node, as you often hear? Here $4 \times 8$ with groups in nodes
# is among the slowest, at 18.9 ms. With 2048 samples the *weights* are the heavy part, and four rings of
# gradients squeeze through each network card. Large models are trained with more tokens than that. Run the
# same grid with 64 times as many.

# %% slideshow={"slide_type": "fragment"}
many = {}
for near in (True, False):
    run = session.call("grid_step:step", p, (L, 64 * B // 64, d // 64, 4, near))
    many[near] = 1e3 * run.makespan_s
session.close()
print(f"{64 * B:,} tokens on 4x8: in nodes {many[True]:.0f} ms, across {many[False]:.0f} ms")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 131,072 tokens you need 25 ms with groups in nodes, and 198 ms with groups across nodes. Now the usual
# advice is right. It is advice for large batches.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(times_ms[4, True], 1) == 18.9  # with 2048 samples
assert 64 * B == 131_072 and round(many[True]) == 25 and round(many[False]) == 198

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 14 and 15.** Section 14 can be read at home. In section 15
# the formula is easy and the lesson is figure 10: the grid that sends the fewest bytes isn't the
# fastest. Let the class mark on a drawing of two nodes which rings cross the network card.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Two puzzles
#
# Each puzzle is a program that works and misses a target. Change the program until it meets the
# target. The cell below it tells you at once. Ten minutes each are about right.
#
# **Puzzle 1: layer norm of sharded columns.** Each rank has $d/p$ columns of $H$. Layer norm subtracts
# the mean of a whole row, and divides by its standard deviation. This program gathers all columns to
# find them. Each rank may send at most 768 bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile normed.py
import numpy as np


def layer_norm(comm, H_r):
    """Layer norm over whole rows; H_r: this rank's columns of H."""
    parts = np.empty((comm.size, *H_r.shape))
    comm.Allgather(H_r, parts)
    H = np.concatenate(parts, axis=1)
    mean, variance = H.mean(axis=1, keepdims=True), H.var(axis=1, keepdims=True)
    return (H_r - mean) / np.sqrt(variance + 1e-5)


# %% slideshow={"slide_type": "fragment"}
p, H = 4, np.random.default_rng(1).normal(size=(32, 64))
variance = H.var(axis=1, keepdims=True)
normed = (H - H.mean(axis=1, keepdims=True)) / np.sqrt(variance + 1e-5)
pieces = [(np.ascontiguousarray(part),) for part in columns(H)]
norm_puzzle = {
    "expected": columns(normed),
    "at_most_bytes": 2 * 3 * (2 * 32 * 8) // 4,  # one all-reduce of two numbers for each row
    "hint": "The mean and the variance of a row follow from two sums over it.",
}
puzzle("normed.py:layer_norm", p, pieces, **norm_puzzle)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Each rank adds up its own part of every row, and the squares of its part. One all-reduce of these
# two numbers for each row gives the mean and the variance:
#
# ```python
# def layer_norm(comm, H_r):
#     width = H_r.shape[1] * comm.size
#     own = np.stack([H_r.sum(axis=1), (H_r**2).sum(axis=1)])
#     total = np.empty_like(own)
#     comm.Allreduce(own, total)
#     mean, mean_of_squares = total[:, :, None] / width
#     variance = mean_of_squares - mean**2
#     return (H_r - mean) / np.sqrt(variance + 1e-5)
# ```
#
# If the mean is large compared with the standard deviation, the last difference loses digits. Then
# use two all-reduces, first for the mean and then for the sum of $(H_r - \text{mean})^2$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
SOLUTION = """import numpy as np


def layer_norm(comm, H_r):
    width = H_r.shape[1] * comm.size
    own = np.stack([H_r.sum(axis=1), (H_r**2).sum(axis=1)])
    total = np.empty_like(own)
    comm.Allreduce(own, total)
    mean, mean_of_squares = total[:, :, None] / width
    variance = mean_of_squares - mean**2
    return (H_r - mean) / np.sqrt(variance + 1e-5)
"""
Path("normed_solved.py").write_text(SOLUTION)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: nobody waits for dW.** This is the backward pass of a column-parallel layer. Its
# two products take 1 ms each, and the all-reduce takes 1 ms as well. So the program takes 3 ms. Bring
# it to at most 2.1 ms, and leave the results as they are.

# %% slideshow={"slide_type": "fragment"}
# %%writefile backward.py
import numpy as np

import ringside


def backward(comm, X, W_r, G_r):
    ringside.compute(seconds=1e-3, phase="dW")
    dW_r = X.T @ G_r
    ringside.compute(seconds=1e-3, phase="dX")
    summand = G_r @ W_r.T
    dX = np.empty_like(summand)
    comm.Allreduce(summand, dX)
    return dW_r, dX


# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(2)
X, W, G = (
    rng.normal(size=(20, 16)),
    rng.normal(size=(16, 24)),
    rng.normal(size=(20, 24)),
)
slow_wire = ringside.Machine("slow wire", alpha_s=0.0, beta_s_per_byte=1e-3 / (1.5 * X.nbytes))
pieces = [(X, W_r.copy(), G_r.copy()) for W_r, G_r in zip(columns(W), columns(G))]
hiding_puzzle = {
    "machine": slow_wire,
    "expected": [(X.T @ G_r, G @ W.T) for G_r in columns(G)],
    "at_most_us": 2100,
    "hint": "Which of the two products does the all-reduce need?",
}
puzzle("backward.py:backward", p, pieces, **hiding_puzzle)

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Compute the summand of $\nabla X$ first. Start its sum, compute $\nabla W$ while it travels, and
# then wait:
#
# ```python
# def backward(comm, X, W_r, G_r):
#     ringside.compute(seconds=1e-3, phase="dX")
#     summand = G_r @ W_r.T
#     dX = np.empty_like(summand)
#     request = comm.Iallreduce(summand, dX)
#     ringside.compute(seconds=1e-3, phase="dW")
#     dW_r = X.T @ G_r
#     request.Wait()
#     return dW_r, dX
# ```
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
SOLUTION = """import numpy as np

import ringside


def backward(comm, X, W_r, G_r):
    ringside.compute(seconds=1e-3, phase="dX")
    summand = G_r @ W_r.T
    dX = np.empty_like(summand)
    request = comm.Iallreduce(summand, dX)
    ringside.compute(seconds=1e-3, phase="dW")
    dW_r = X.T @ G_r
    request.Wait()
    return dW_r, dX
"""
Path("backward_solved.py").write_text(SOLUTION)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
norm_pieces = [(np.ascontiguousarray(part),) for part in columns(H)]
solved = puzzle("normed_solved.py:layer_norm", p, norm_pieces, **norm_puzzle, draw=False)
assert solved.solved
solved = puzzle("backward_solved.py:backward", p, pieces, **hiding_puzzle, draw=False)
assert solved.solved and solved.time_us / 1e3 < 2.1 and norm_puzzle["at_most_bytes"] == 768

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Puzzle 1 works well in pairs, after section 4; puzzle 2 after section 11. In
# puzzle 1 many first sum the means of the parts. That is right for the mean, and wrong for the
# variance: the variance of a row isn't the mean of the variances of its parts.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 17. Five questions
#
# Try each question before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A layer has 1024 inputs and 4096 outputs. There are 1500 samples, numbers of 4
# bytes, and 8 ranks. Which kind sends less, and how many MB does each rank send? What would you
# say if you took $\frac{p-1}{p}\,d_\text{in} d_\text{out}$ for the all-reduce of the gradients, and an all-reduce
# of $d_\text{out}$ columns for the gradients of the inputs?
#
# <details><summary>Answer</summary>
#
# The harmonic mean of the widths is 1638 samples. So model parallelism sends less, but not by much:
# 26.9 MB against 29.4 MB. The other formulas compare $d_\text{in} d_\text{out} = 4.2$ million with
# $B\,(d_\text{out} + 2 d_\text{out}) = 18.4$ million, and so recommend data parallelism by far.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
p, B, d_in, d_out = 8, 1500, 1024, 4096
assert round(2 * d_in * d_out / (d_in + d_out)) == 1638
model_MB = (p - 1) / p * B * (d_in + d_out) * 4e-6
data_MB = 2 * (p - 1) / p * d_in * d_out * 4e-6
assert round(model_MB, 1) == 26.9 and round(data_MB, 1) == 29.4
assert round(d_in * d_out / 1e6, 1) == 4.2 and round(3 * B * d_out / 1e6, 1) == 18.4

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A colleague shards the MLP $d \to 4d \to d$ the other way round. The first layer is
# row-parallel and the second column-parallel. GELU and the next block get whole matrices on all ranks. How
# many elements does the *forward* pass send? How many times more than Megatron's order is that?
#
# <details><summary>Answer</summary>
#
# The rows leave summands of the hidden layer, and GELU needs the sum. That is an all-reduce of
# $B \cdot 4d$ elements, so each rank sends $8\frac{p-1}{p}Bd$. The columns leave columns of $Y$. That
# is a gather, so each rank sends $\frac{p-1}{p}Bd$. Together they are 9 units. Megatron's order sends
# 2 units, for one all-reduce of $Bd$. So it is 4.5 times more. The run below counts it.
#
# </details>

# %% slideshow={"slide_type": "skip"}
# %%writefile wrong_order.py
import numpy as np
from pair import gelu


def mlp(comm, X_r, A_r, C_r):
    summand = X_r @ A_r
    hidden = np.empty_like(summand)
    comm.Allreduce(summand, hidden)
    Y_r = gelu(hidden) @ C_r
    comm.Allgather(Y_r, np.empty((comm.size, *Y_r.shape)))


# %% slideshow={"slide_type": "skip"} tags=["checked"]
p, B, d = 4, 6, 8
wrong = (np.ones((B, d // p)), np.ones((d // p, 4 * d)), np.ones((4 * d, d // p)))
right = (np.ones((B, d)), np.ones((d, 4 * d // p)), np.ones((4 * d // p, d)))
wrong_run = ringside.run("wrong_order.py:mlp", p, wrong)
right_run = ringside.run("pair.py:mlp", p, right)
wrong_bytes, right_bytes = (
    run.timeline.bytes_matrix.sum(axis=1)[0] for run in (wrong_run, right_run)
)
assert wrong_bytes == 9 * 8 * (p - 1) * B * d // p and wrong_bytes / right_bytes == 4.5

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** Somebody forgets the all-reduce of $f$ in the backward pass. The loss of the first
# step is right. A network has two such pairs after each other. Which gradients are wrong, and does a
# test of the last pair's weights find the mistake?
#
# <details><summary>Answer</summary>
#
# The forward pass is as it should be, so the loss is right. In the last pair both matrices get right
# gradients. These need $G$, the hidden layer and the input, and all of them are there. But $\nabla X$
# below the last pair is wrong: each rank has its own summand instead of the sum. So the matrices of
# the first pair get wrong gradients, and different ones on each rank. A test of the last pair's
# weights passes. Test $\nabla X$ as well.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
shapes = ((5, 8), (8, 16), (16, 8), (8, 16), (16, 8))
X, A1, B1, A2, B2 = (torch.tensor(rng.normal(size=one), requires_grad=True) for one in shapes)
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
# **Question 4.** There are 64 GPUs, layers of width 8192, and 2048 samples. Which grid sends least?
# How much less is that than the better one of the two pure kinds? The cluster has nodes of four GPUs.
# What do you have to find out before you believe the answer?
#
# <details><summary>Answer</summary>
#
# $P_r^* = \sqrt{64 \cdot 8192 / 2048} = 16$, so it is the grid $16 \times 4$. Since $B$ is a quarter
# of $d$, pure model parallelism is the better pure kind. The grid sends 2.3 times less. But groups of
# 16 ranks span four nodes. Find out what leaves each node, with groups in nodes and across nodes, as
# in section 15, and what can be hidden.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
totals = {r: sum(grid_elements(r, 64, 2048, 8192)) for r in (1, 2, 4, 8, 16, 32, 64)}
assert min(totals, key=totals.get) == 16 == np.sqrt(64 * 8192 / 2048)
assert totals[64] < totals[1] and round(totals[64] / totals[16], 1) == 2.3

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** The last layer of a language model turns each token into 51,200 scores, one for each
# token of the vocabulary. Its columns are sharded over 8 ranks. The loss of a token is $\log\sum_j e^{z_j} - z_y$, where $y$
# is the right token. Do you gather the scores? For 8192 tokens and two-byte numbers, how many MB does
# each rank send if you do, and how many if you don't?
#
# <details><summary>Answer</summary>
#
# No. For each token you need three numbers: the largest score, the sum of exponentials and the score
# of the right token. An all-reduce makes each of them from the ranks' parts. The gather sends
# $\frac78 \cdot 8192 \cdot 51200$ numbers, which are 734 MB. The three all-reduces send
# $3 \cdot 2 \cdot \frac78 \cdot 8192$ numbers, which are 0.09 MB and 8533 times less. All ranks must
# subtract the *global* largest score before they take exponentials. Otherwise the sums of different
# ranks have different scales.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
gathered_MB, summed_MB = 7 / 8 * 8192 * 51200 * 2e-6, 3 * 2 * 7 / 8 * 8192 * 2e-6
assert round(gathered_MB) == 734 and round(summed_MB, 2) == 0.09
assert round(gathered_MB / summed_MB) == 8533
scores, word = (
    30 * rng.normal(size=(4, 10)),
    7,
)  # four ranks of ten words; rank 0 has word 7
every = scores.ravel()
loss = np.log(np.exp(every - every.max()).sum()) + every.max() - every[word]
largest = max(part.max() for part in scores)  # the first all-reduce
exponentials = sum(np.exp(part - largest).sum() for part in scores)  # the second
assert np.isclose(np.log(exponentials) + largest - scores[0, 7], loss)  # and the third

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18. Your turn
#
# The assignment `a08_tensor_parallel` asks for what this lecture left out: layers with biases and
# with any number of columns, the backward pass of Megatron's pair, attention by heads, the loss over
# a sharded vocabulary, the operators $f$ and $g$ in PyTorch, and sequence parallelism. Its tests count
# your bytes as this lecture did. No weight may travel.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. K. Simonyan, A. Zisserman. Very deep convolutional networks for large-scale image recognition.
#    ICLR 2015. arXiv:1409.1556. Configuration D.
# 2. A. Krizhevsky. One weird trick for parallelizing convolutional neural networks.
#    arXiv:1404.5997, 2014.
# 3. A. Krizhevsky, I. Sutskever, G. E. Hinton. ImageNet classification with deep convolutional
#    neural networks. NIPS 2012. Section 3.2.
# 4. M. Shoeybi, M. Patwary, R. Puri, P. LeGresley, J. Casper, B. Catanzaro. Megatron-LM: training
#    multi-billion parameter language models using model parallelism. arXiv:1909.08053, 2019.
# 5. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Sections
#    2.3 and 3.2, table 1.
# 6. V. Korthikanti, J. Casper, S. Lym, L. McAfee, M. Andersch, M. Shoeybi, B. Catanzaro. Reducing
#    activation recomputation in large transformer models. MLSys 2023. arXiv:2205.05198.
# 7. N. Shazeer, Y. Cheng, N. Parmar, D. Tran, A. Vaswani, P. Koanantakool, P. Hawkins, H. Lee,
#    M. Hong, C. Young, R. Sepassi, B. Hechtman. Mesh-TensorFlow: deep learning for supercomputers.
#    NeurIPS 2018. arXiv:1811.02084. The introduction is in github.com/tensorflow/mesh.
# 8. A. Gholami, A. Azad, P. Jin, K. Keutzer, A. Buluç. Integrated model, batch, and domain
#    parallelism in training neural networks. SPAA 2018. arXiv:1712.04432.
# 9. PyTorch 2.13.0, `torch/distributed/_symmetric_memory/__init__.py`, as installed:
#    `_pipelined_multi_all_gather_and_consume` and the operators that call it.
# 10. PyTorch Symmetric Memory. docs.pytorch.org/docs/2.15/symmetric_memory.html, 24 August 2026; and
#    docs.pytorch.org/docs/main/distributed/symmetric_memory.html, 15 October 2026.
# 11. TorchTitan, `benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md`, commit b5bcd76, 21 August
#    2026. github.com/pytorch/torchtitan
# 12. TorchTitan, `torchtitan/components/quantization/mxfp8.md`, commit b5bcd76, 21 August 2026.
#    github.com/pytorch/torchtitan
# 13. NVIDIA Transformer Engine, user guide, MXFP8.
#    nvidia.github.io/TransformerEngine/features/low_precision_training/mxfp8/mxfp8.html, 2026.
# 14. NVIDIA cuTile, tutorial 11, Inference with NVFP4/MXFP8.
#    nvidia.github.io/cuda-rust/cutile/latest/tutorials/11-nvfp4-inference.html, read November 2026.
# 15. G. Wang, H. Qin, S. A. Jacobs, C. Holmes, S. Rajbhandari, O. Ruwase, F. Yan, L. Yang, Y. He.
#    ZeRO++: extremely efficient collective communication for giant model training.
#    arXiv:2306.10209, 2023. Abstract.
# 16. TorchTitan, `docs/float8.md`, commit 8a9606f, 3 March 2025. github.com/pytorch/torchtitan
# 17. Megatron-LM, `megatron/core/transformer/moe/README.md`, commit d98e8a6, 22 August 2026:
#    `--fp8-param-gather`. github.com/NVIDIA/Megatron-LM
# 18. TorchTitan, `torchtitan/components/quantization/nvfp4.md`, commit b5bcd76, 21 August 2026.
#    github.com/pytorch/torchtitan
#
# Read next: section 3 of [4] for the pair and for attention; [8] for the grid with convolutions, where
# sharding the image comes in as a third kind of parallelism; and [7] for the notation.
