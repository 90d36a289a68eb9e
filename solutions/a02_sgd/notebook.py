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
# # SGD: one process, real data
#
# Before a network is trained on many machines, it is worth knowing what one machine does. In this
# assignment you write a network with its gradient, train it on handwritten digits, turn
# convolutions into matrix products, and work out what a network costs in memory, arithmetic and
# time. Nothing here is parallel yet. It is the shortest assignment of the course, about four
# hours, and it shows you how the others work.
#
# At the end you will have
#
# - trained a network that reads 97 digits of 100, with every gradient written by hand;
# - seen what a learning rate does that is too high, and one that is too low;
# - an explanation of AlexNet's 782 MB, and of the two GPUs that it was trained on;
# - a roofline on which you can read whether a layer waits for memory or for arithmetic;
# - the same training in torch, and the same numbers to ten digits.

# %%
# {{plan}}

# %% [markdown]
# ## How an assignment works
#
# **You write modules.** A module is one file, such as `sgd.py`. In this notebook it is one cell
# that begins with `%%module sgd.py`: run the cell, and the file is there. Its functions have
# docstrings and no bodies: replace each `raise NotImplementedError()` by your code. If you would
# rather use an editor, edit the file: a cell that you leave as it is gives way to its file.
#
# **You check them.** Under each module is a cell with `check("sgd")`. It runs the *public tests* in
# `checks/` on your file, in a fresh process, and says for each test what is right or what is not,
# in a sentence. `ringside check` in a terminal does the same. Run it as often as you like.
#
# **You are graded by hidden tests.** They are the same tests with other sizes, values and dtypes,
# so that a program that only knows the public answers earns little. There is no hidden *rule*: all
# that is asked stands in the docstrings. Each module has 100 points, of values,
# and beside them of *how* the values come about: work, memory, whether your function leaves its
# arguments alone. Points for the "how" are given only where the values are right.
#
# **You predict.** Where a cell calls `guess`, type a number or choose before you run the next one;
# where it says **Explain**, compare. Nobody grades that, and it is how one learns here.
#
# **You hand in** with `ringside handin`, as often as you like before the deadline.
#
# Try it: run the next cell, which makes `%%module` known. Then run the first `%%module` cell in
# section 1 as it is, and its check. Everything fails, and each test says why. That is where
# everybody begins.

# %%
import importlib
import time
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from given import digits, networks

from ringside import Machine, guess, reveal

# %load_ext ringside


def fresh(name):
    """Your module, as its file is now."""
    return importlib.reload(importlib.import_module(name))


(x, y), (x_test, y_test) = digits.load()
print(f"{len(x)} training samples of {x.shape[1]} pixels, {len(x_test)} for testing")

figure, axes = plt.subplots(2, 10, figsize=(9, 2.1), layout="constrained")
for panel, image, digit in zip(axes.flat, x, y, strict=False):
    panel.imshow(image.reshape(8, 8), cmap="gray_r")
    panel.set_title(digit, fontsize=9)
    panel.axis("off")
plt.show()

# %% [markdown]
# ## 1. A network and its gradient
#
# A *layer* is a matrix product: a row of x for each sample, a column of W for each output. Training
# asks, for every number in every W, how the loss changes if that number does. *Backward*
# answers for all of them at once, in two more matrix products a layer.
#
# **Think** before you write:
#
# - A layer has 64 inputs, 32 outputs and 100 samples. What are the shapes of x, W and `dL/dy`? Only
#   one product of two of them has the shape of W. Which?
# - A hidden unit has z = 0.3 for one sample, and z = -0.3 for another. The loss would fall if its
#   output rose. For which of the two does anything change?
# - The loss is a mean over the samples of a mini-batch. Some code sums instead. With 32 samples
#   a batch, which learning rate does that amount to? And in the last batch, which has 29?
#
# Read the docstring at the top of the module first: its rules hold for all functions.

# %%
# {{module sgd}}

# %%
# {{check sgd}}

# %% [markdown]
# ### Is the gradient right?
#
# There is a test for any gradient: change one weight by h, and see what the loss does,
# `(L(w + h) - L(w - h)) / 2h`. It costs two forward passes a weight, so nobody trains with it.
#
# With h = 0.1 the difference is a poor derivative. Does a smaller h always give a better one? A
# float64 has 16 digits.

# %% tags=["predict"]
guess("a02/best-h", "With which h is the difference nearest to the gradient? Type it as 1e-3.")


# %%
def start(widths, seed=0):
    """Random weights of variance 2 / d (He et al. 2015), and biases 0."""
    rng = np.random.default_rng(seed)
    shapes = [shape for a, b in pairwise(widths) for shape in ((a, b), (b,))]
    return [
        rng.standard_normal(s) * np.sqrt(2 / s[0]) if len(s) == 2 else np.zeros(s) for s in shapes
    ]


sgd = fresh("sgd")
params = start((64, 32, 10))
_, gradients = sgd.loss_and_gradients(params, x[:50], y[:50])
steps = 10.0 ** np.arange(-1, -14, -1)
largest = np.argsort(-np.abs(gradients[0]), axis=None)
places = [np.unravel_index(largest[k], gradients[0].shape) for k in (0, 10, 100, 300)]
off = np.zeros((len(steps), len(places)))
for i, h in enumerate(steps):
    for j, place in enumerate(places):
        moved = [[p.copy() for p in params] for _ in range(2)]
        moved[0][0][place] += h
        moved[1][0][place] -= h
        above, below = (sgd.loss_and_gradients(m, x[:50], y[:50])[0] for m in moved)
        off[i, j] = abs((above - below) / (2 * h) - gradients[0][place])

# %%
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.loglog(steps, off, "o-", alpha=0.7)
axes.loglog(steps, 1e-16 / steps, "k:", label="rounding: 1e-16 / h")
axes.loglog(steps[:6], 1e-3 * steps[:6] ** 2, "k--", label="curvature: grows as h²")
axes.set(xlabel="h", ylabel="finite difference minus gradient", ylim=(1e-14, 1))
axes.set_title("Four weights of the first layer")
axes.legend()
axes.grid(alpha=0.3)
plt.show()
reveal("a02/best-h", steps[np.median(off, axis=1).argmin()])

# %% tags=["checked"]
assert off[4:6].max() < 1e-6  # h = 1e-5 and 1e-6

# %% [markdown]
# **Explain** the two slopes of the V. Why do tests of gradients take an h near 1e-6, and ask for
# six digits and not for sixteen? One point at a large h may lie far above the others. Which part
# of the network has no derivative everywhere?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ### A learning rate
#
# A network of 32 hidden units learns from mini-batches of 32 for 15 epochs. Sketch the training
# loss over the epochs for the rates 0.001, 0.1 and 2 before you run it.

# %% tags=["predict"]
guess(
    "a02/knows-nothing",
    "A network that knows nothing gives each of the ten digits a tenth. What is its loss?",
)


# %%
def accuracy(params, x, y):
    """Share of digits that the network reads right."""
    scores = x
    for k in range(0, len(params), 2):
        scores = sgd.linear(sgd.relu(scores) if k else scores, params[k], params[k + 1])
    return float((scores.argmax(axis=1) == y).mean())


def train(lr, batch_size=32, momentum=0.0, num_epochs=15):
    """Train; the mean loss of each epoch, and the accuracy on the test digits."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(num_epochs):
        batches += sgd.minibatches(len(x), batch_size, rng)
    params, losses = sgd.train(start((64, 32, 10)), x, y, batches, lr, momentum)
    return np.reshape(losses, (num_epochs, -1)).mean(axis=1), accuracy(params, x_test, y_test)


rates = {lr: train(lr) for lr in (0.001, 0.01, 0.1, 0.5, 2.0)}
sizes = {size: train(0.1, size) for size in (8, 32, 128, len(x))}
momenta = {momentum: train(0.02, momentum=momentum) for momentum in (0.0, 0.5, 0.9)}
for lr, (_, share) in rates.items():
    print(f"rate {lr:<6}: {share:.1%} of the test digits")
reveal("a02/knows-nothing", -np.log(1 / 10))
assert 0.95 < rates[0.1][1] < 1 and rates[2.0][1] < 0.2

# %%
figure, panels = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout="constrained")
for panel, runs, name in zip(
    panels, (rates, sizes, momenta), ("learning rate", "mini-batch", "momentum"), strict=True
):
    for number, (value, (losses, _)) in enumerate(runs.items()):
        colour = plt.get_cmap("viridis")(number / len(runs))
        panel.plot(np.arange(1, len(losses) + 1), losses, "o-", ms=3, color=colour, label=value)
    panel.axhline(np.log(10), color="0.5", linestyle=":")
    panel.set(xlabel="epoch", yscale="log", title=name)
    panel.legend(loc="lower left", fontsize=8)
    panel.grid(alpha=0.3)
panels[0].set_ylabel("training loss, mean of the epoch")
panels[2].annotate("a tenth each: log 10", (15, np.log(10) * 1.08), ha="right", fontsize=8)
plt.show()

# %% [markdown]
# **Explain** each panel.
#
# 1. At the rate 2 the loss ends on the dotted line. What has become of the hidden units, and why do
#    they not come back? (Look at the gradient of a ReLU.)
# 2. All four took the same rate and saw every digit equally often. How many steps did each take?
#    Unit 04 asks which rate the large ones should have had.
# 3. Momentum 0.9 adds up gradients that agree, to ten times their size in the end. With which curve
#    of the left panel should you compare it?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# **Explore.** Start all weights at 0. Why does it not learn? Raise the momentum to 0.99.

# %% [markdown]
# ## 2. Convolution as a matrix product
#
# A convolution slides a small kernel over an image and takes a sum of products at each place. It
# is linear in the image, so it is a matrix: a Toeplitz matrix, whose rows are the kernel, moved on.
#
# **Think.** A kernel of 2 x 2 on an image of 3 x 3: how many rows and columns has the matrix, and
# how many of its elements are zeros whatever the kernel is?

# %% tags=["predict"]
guess(
    "a02/toeplitz",
    "A kernel of 3 x 3 slides over a digit of 8 x 8. What share of the Toeplitz "
    "matrix is zero, whatever the kernel is?",
    unit="%",
)

# %% [markdown]
# Nobody multiplies by so many zeros. Turned round, each *window* of the image becomes a column, and
# the filters a small, dense matrix: `im2col`. It copies each pixel up to k x k times, and buys a
# matrix product for it, which is what processors do best.
#
# **Think** of the backward pass: a pixel lies in several windows. What becomes of the gradients
# that it gets from each?

# %%
# {{module conv}}

# %%
# {{check conv}}

# %% [markdown]
# On the left the Toeplitz matrix of a 3 x 3 kernel on one of the digits, in colour where it isn't
# zero; on the right the same digit after im2col: a column for each window.

# %%
conv = fresh("conv")
edge = np.array([[1.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -1.0]])  # Sobel's filter
image = x[1].reshape(1, 1, 8, 8)
matrix, columns = conv.toeplitz(edge, (8, 8)), conv.im2col(image, (3, 3))
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained", width_ratios=(1.3, 1)
)
left.imshow(np.where(matrix == 0, np.nan, matrix), cmap="coolwarm", interpolation="nearest")
left.set(xlabel="pixel", ylabel="window", title=f"Toeplitz: {matrix.shape[0]} x {matrix.shape[1]}")
right.imshow(columns[0], cmap="gray_r", aspect="auto", interpolation="nearest")
right.set(xlabel="window", ylabel="place in the window", title="im2col: 9 x 36")
plt.show()
print(f"zeros in this Toeplitz matrix: {(matrix == 0).mean():.0%}, some of them the kernel's")
reveal("a02/toeplitz", 100 * (1 - edge.size / matrix.shape[1]))
assert matrix.shape == (36, 64) and columns.shape == (1, 9, 36)
assert np.allclose(matrix @ image.ravel(), edge.ravel() @ columns[0])

# %% [markdown]
# **Explain.** Both give the same 36 numbers. How many multiplications does each of them take?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# Four filters on eight digits: `conv_forward` in one call.

# %%
filters = np.stack([edge, edge.T, np.full((3, 3), 1 / 9), -np.eye(3) + np.eye(3)[::-1]])[:, None]
maps = conv.conv_forward(x[:8].reshape(8, 1, 8, 8), filters, np.zeros(4), 1, 1)
figure, axes = plt.subplots(5, 8, figsize=(7, 4.4), layout="constrained")
names = ("digit", "horizontal", "vertical", "blur", "diagonal")
for row, name in enumerate(names):
    for n in range(8):
        shown = x[n].reshape(8, 8) if row == 0 else maps[n, row - 1]
        limit = abs(shown).max()
        axes[row, n].imshow(shown, cmap="coolwarm", vmin=-limit, vmax=limit)
        axes[row, n].set(xticks=[], yticks=[])
    axes[row, 0].set_ylabel(name, fontsize=8)
plt.show()

# %% [markdown]
# ## 3. What a network costs
#
# A slide that is shown in many lectures says: AlexNet's activations take 782 MB for a batch of 128,
# its parameters 240 MB, and so it was trained on two GPUs of 3 GB. You are to find out which of
# these numbers are right, what they leave out, and how a layer's time follows from them.
#
# This is the network:

# %%
for layer in networks.ALEXNET.layers:
    print(layer)

# %% tags=["predict"]
guess(
    "a02/parameters",
    "Where are most parameters of this network?",
    choices=[
        "in the convolutions",
        "in the last three layers",
    ],
)

# %% tags=["predict"]
guess(
    "a02/arithmetic",
    "Where is most of its arithmetic?",
    choices=[
        "in the convolutions",
        "in the last three layers",
    ],
)

# %%
# {{module account}}

# %%
# {{check account}}

# %%
account = fresh("account")
net, BATCH = networks.ALEXNET, 128
rows = []
for layer, shape in account.walk(net):
    out = account.output_shape(layer, shape)
    flops = account.layer_flops(layer, shape, BATCH)
    rows.append((account.layer_parameters(layer, shape), BATCH * networks.size(out), flops))
names = [
    "conv1",
    "pool1",
    "conv2",
    "pool2",
    "conv3",
    "conv4",
    "conv5",
    "pool5",
    "fc6",
    "fc7",
    "fc8",
]
table = np.array(rows, dtype=float)

figure, panels = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
for panel, column, title in zip(
    panels, table.T, ("parameters", "activations", "arithmetic"), strict=True
):
    share = 100 * column / column.sum()
    panel.barh(names, share, color=["C1" if n[0] == "f" else "C0" for n in names])
    panel.set(title=title, xlabel="% of the network")
    panel.grid(alpha=0.3, axis="x")
panels[0].invert_yaxis()
plt.show()
parts = ["in the last three layers", "in the convolutions"]
is_convolution = np.array([name[0] != "f" for name in names])
first, last = table[is_convolution].sum(axis=0), table[~is_convolution].sum(axis=0)
reveal("a02/parameters", parts[int(first[0] > last[0])])
reveal("a02/arithmetic", parts[int(first[2] > last[2])])

# %%
MB = 1e6
weights = 4 * account.num_parameters(net)
once = account.activation_bytes(net, BATCH)
slide = account.activation_bytes(net, BATCH, convention="slide")
training = account.training_bytes(net, BATCH, convention="slide")
print(f"parameters: {weights / MB:.1f} MB in {weights // 4:,} numbers")
print(f"activations, each once: {once / MB:.1f} MB; on the slide: {slide / MB:.1f} MB")
print(f"the slide's number in MiB: {slide / 2**20:.1f}")
print(f"training: {training / 1e9:.2f} GB")
assert slide == 781_616_640 and round(weights / MB) == 244

# %% [markdown]
# **Explain.** Your count reproduces the slide's 782 MB to the byte, with four outputs counted
# twice and the others once. (That is 782 MB, and not 782 MiB.) What does the slide leave out that
# training needs? How much of a 3 GB card is left for the batch? Would a batch of 256 fit? Which
# of your three bars would you cut in two to spread this network over two GPUs? Which one would
# you cut for a hundred GPUs?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ### The roofline
#
# A machine that makes F operations and moves M bytes a second is busy with arithmetic only if it
# finds F / M operations for each byte. Below that it waits for memory.
#
# With one image, is a fully connected layer limited by arithmetic or by memory? With 128 images?
# Where are convolutions?

# %% tags=["predict"]
guess(
    "a02/operations",
    "How many operations does a fully connected layer make with each weight that it "
    "reads, for 128 images?",
    unit="operations",
)


# %%
def intensity(layer, shape, batch_size):
    """FLOPs for each byte moved, and FLOPs a second, on the machine below."""
    flops = account.layer_flops(layer, shape, batch_size)
    elements = networks.size(shape) + networks.size(account.output_shape(layer, shape))
    nbytes = 4 * (batch_size * elements + account.layer_parameters(layer, shape))
    return flops / nbytes, flops / account.layer_time_s(layer, shape, batch_size, machine)


figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for panel, name in zip(panels, ("laptop", "zaratan"), strict=True):
    machine = Machine.load(name)
    reach = np.logspace(-1, 3.5, 200)
    roof = np.minimum(machine.flop_per_s, reach * machine.memory_bytes_per_s)
    panel.loglog(reach, roof / 1e9, "k-", zorder=0)
    for batch_size, marker in ((1, "o"), (128, "s")):
        for kind, colour, words in (
            (networks.Conv, "C0", "convolution"),
            (networks.Linear, "C1", "fully connected"),
        ):
            layers = [each for each in account.walk(net) if isinstance(each[0], kind)]
            across, up = zip(*(intensity(*each, batch_size) for each in layers), strict=True)
            label = f"{words}, {batch_size} image{'s' * (batch_size > 1)}"
            panel.plot(across, np.divide(up, 1e9), marker, color=colour, alpha=0.7, label=label)
    panel.set(xlabel="FLOPs for each byte", ylabel="GFLOP/s", title=name)
    panel.grid(alpha=0.3, which="both")
panels[1].legend(loc="lower right", fontsize=8)
plt.show()
full = layers[0]  # the loop has ended with the fully connected ones
reveal("a02/operations", account.layer_flops(*full, 128) / account.layer_parameters(*full))

# %%
for name in ("laptop", "zaratan"):
    machine = Machine.load(name)
    one_s = account.forward_time_s(net, 1, machine)
    many_s = account.forward_time_s(net, 128, machine) / 128
    print(f"{name}: one image {one_s * 1e3:.3f} ms, one of 128 {many_s * 1e3:.3f} ms")
    assert one_s > 1.5 * many_s

# %% [markdown]
# **Explain.** One image is a user who waits for an answer, and 128 images are training. Why does
# one image cost more than a 128th of 128 images? Which layers cause this on the laptop? On
# zaratan some points lie below the roof. Which term of the time puts them there?

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ### And your machine?
#
# The model `laptop` was measured on one computer, not on yours. Take the product of a batch with a
# matrix of 2048 x 2048, and see where memory stops to count and arithmetic begins.

# %%
machine = Machine.load("laptop")
wide = networks.Linear(2048)
weights = np.random.default_rng(0).standard_normal((2048, 2048)).astype("float32")
print("batch   measured ms   laptop's roofline ms")
for batch_size in (1, 4, 16, 64, 256):
    samples, times = np.ones((batch_size, 2048), dtype="float32"), []
    for _ in range(7):
        begun = time.perf_counter()
        samples @ weights
        times.append(time.perf_counter() - begun)
    predicted_s = account.layer_time_s(wide, (2048,), batch_size, machine)
    print(f"{batch_size:>5} {min(times) * 1e3:>12.2f} {predicted_s * 1e3:>15.2f}")

# %% [markdown]
# **Explain.** Up to which batch does the measured time hardly grow, and what does that say? NumPy
# may use several cores, and the model has one. (No clock is graded in this course: the numbers of
# this cell are different each time.)

# %% [markdown]
# *Your answer:*

# %% [markdown]
# ## 4. The same step in torch
#
# torch keeps a graph of what was computed, and `loss.backward()` walks it back: you write forward
# only. What `sgd.py` did in `sgd_step`, an optimizer does. It is the same mathematics, and so the
# numbers must be the same.
#
# **Think** before you write:
#
# - `nn.Linear(64, 32)` holds a weight. Of which shape? What goes wrong, silently, if all layers
#   are square?
# - `backward()` *adds* to `p.grad`. What does the second step do if nobody clears it?
# - What does a list of losses keep alive, if each is a tensor and not a number?

# %%
# {{module sgd_torch}}

# %%
# {{check sgd_torch}}

# %%
import torch

sgd_torch = fresh("sgd_torch")
rng = np.random.default_rng(0)
batches = [batch for _ in range(10) for batch in sgd.minibatches(len(x), 32, rng)]
params = start((64, 32, 10))
trained, losses = sgd.train(params, x, y, batches, 0.05, 0.9)

model = sgd_torch.from_numpy(params)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
pixels, classes = torch.tensor(x), torch.tensor(y)
theirs = [sgd_torch.train_step(model, optimizer, pixels[b], classes[b]) for b in batches]
loss, share = sgd_torch.evaluate(model, torch.tensor(x_test), torch.tensor(y_test))

difference = np.abs(np.array(losses) - np.array(theirs))
print(f"{len(batches)} steps; the losses differ by at most {difference.max():.1e}")
print(f"test digits read right: {accuracy(trained, x_test, y_test):.1%} and {share:.1%}")
assert difference.max() < 1e-9 and share > 0.97

# %% [markdown]
# **Explain.** The difference isn't 0. Where does it come from, and does it grow with the steps?
# Try it in float32.

# %% [markdown]
# *Your answer:*

# %% [markdown]
# The same file runs on a GPU: a parameter lies there, and what is computed from it follows. With an
# account on a cluster, compare the times of a step on its processor and on its GPU (`--site local`
# takes this machine, without `--gpus-per-node` its processor):
#
# ```
# STEP=checks/inside_torch.py:measured_step
# ringside launch $STEP --site zaratan --gpus-per-node 1 -- --n 8192
# ```
#
# From the next unit on, many processes work on one network. What you have written here, each of
# them will do on its own part.

# %% [markdown]
# ## 5. On a cluster
#
# The same `sgd.py`, unchanged, on a node of a cluster. A *rank* is one of several processes that
# run the same program; from the next unit on they will talk to each other. Here each takes steps of
# its own, on a network 64 -> 1024 -> 1024 -> 10 and n samples, and all begin together. In a
# terminal, in this folder, once with two ranks on the node and once with sixteen:
#
# ```
# STEP="ringside launch sgd.py:measured_step --site zaratan"
# $STEP --set ranks_per_node=2 -- --dtype float32 --n 16 --n 256 --n 4096
# $STEP --set ranks_per_node=16 -- --dtype float32 --n 16 --n 256 --n 4096
# ```
#
# (`--site local` runs it on this machine, `--dry-run` prints the job; `--set` changes a variable of
# the site.) It leaves `run.json` and a trace here, which are handed in with the notebook: the last
# run's, so note the first one's times. A time is that of the slowest rank. The run counts if it is
# complete and was made with the `sgd.py` that you hand in.

# %%
# {{run sgd_cluster points=5}}

# %% [markdown]
# **Your paragraph.** How many operations has a step with n samples, and how many bytes of
# parameters, velocity and gradients does it read and write? Which of the two decides at n = 16,
# which at n = 4096, if a core computes 100 GFLOP/s in float32 and a node's memory moves 200 GB/s?
# Compare with your three times. What changes from two ranks to sixteen, for which n, and why,
# though nobody sends anything? (About 150 words.)

# %%
# {{paragraph sgd_report points=5}}

# %% [markdown]
# ## Hand in
#
# `ringside handin` checks that notebook and files agree, and submits. Run `ringside check` first.
# You
# may hand in again until the deadline; the last one counts.
