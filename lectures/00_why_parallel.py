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

# %% [markdown] slideshow={"slide_type": "slide"} tags=["aims"]
# # Lecture 0: Why parallel
#
# A language model of 1.65 billion parameters is small by today's measure. This lecture asks what
# one GPU can do with it, and then what many GPUs can do. The same model goes through the whole
# course.
#
# **After this lecture you can**
#
# - estimate how long a network trains and how much memory it needs, from the number of its
#   parameters and the number of its samples;
# - name the four forms of parallelism (four ways to cut a training run), and say what each of them
#   sends;
# - run a program on simulated ranks, read its timeline, and say why more ranks can be slower;
# - read a table of record sizes, and ask the questions that such a table leaves open.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** Python, and a rough idea of how a network is trained: it looks at samples,
# computes a loss and a gradient, and changes its parameters a little. You need no MPI and no GPU,
# and only the mathematics of school.
#
# **How to read.** Some cells ask you for a guess. Type it, run the cell, and go on. The notebook
# shows your guess beside the result. A guess that is wrong by a factor of ten is a good guess: it
# shows you what you did not know. All terms of the course stand in the
# [glossary](../docs/glossary.md), each with an example in numbers.

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are
# minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The half hour of this lecture shares a meeting with the beginning of lecture 1.
#
# Classes stumble over two things. They expect memory to be the weights alone, so let them guess
# before you show the 16 bytes (section 3). And they expect that twice as many ranks take half the
# time, so collect a guess from everybody before section 5 runs.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import puzzle, show, table

DATA = Path.cwd() / "data"  # beside this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
rng = np.random.default_rng(0)
sources = table(DATA / "quoted.csv")  # single figures, each with its source
quoted = dict(zip(sources["name"].tolist(), sources["value"].tolist()))

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=7
# ## 1. One model, one GPU
#
# The model is a GPT: it reads text and predicts how the text goes on. It reads **tokens**, which
# are words or pieces of words. How many different ones it knows is its *vocabulary*. In each layer
# every token is a vector, and the *width* is the length of this vector. The tokens that the model
# reads together are called a **sequence**.
#
# | layers | width | vocabulary | tokens of a sequence | parameters, as published [1] |
# |---|---|---|---|---|
# | 24 | 2304 | 51,200 | 2048 | "1.7 billion" |
#
# You can count the parameters yourself, in the next cell. On how many tokens should you train? A
# common rule is about 20 for each parameter. Chinchilla (2022) has 70 billion parameters, and was
# trained on 1.4 trillion tokens [2].

# %% slideshow={"slide_type": "fragment"}
num_layers, width, vocabulary, length = 24, 2304, 51200, 2048
in_layers = num_layers * (12 * width**2 + 13 * width)
num_parameters = in_layers + (vocabulary + length) * width
num_tokens = 20 * num_parameters

print(f"{num_parameters / 1e9:.2f} billion parameters")
print(f"{num_tokens / 1e9:.0f} billion tokens")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A layer holds $12 h^2 + 13 h$ parameters at width $h$ [1]. Two tables hold the rest, the
# **embeddings**: one vector for each different token, and one for each position in the sequence.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(num_parameters / 1e9, 2) == 1.65 and vocabulary == 51_200 and width == 2304
assert num_layers == 24 and length == 2048
chinchilla = table(DATA / "datasets.csv")
chinchilla_tokens = chinchilla["items"][chinchilla["data"] == "Chinchilla"][0]
assert quoted["chinchilla_parameters"] / 1e9 == 70 and chinchilla_tokens / 1e12 == 1.4
assert chinchilla_tokens / quoted["chinchilla_parameters"] == 20

# %% [markdown] slideshow={"slide_type": "slide"}
# One A100 is a large GPU. It can reach about 140 TFLOP/s in training, that is
# $140 \cdot 10^{12}$ additions and multiplications in a second. How long does it train this model?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("00/days", "How many days does one A100 need to train the model?", unit="days")

# %% slideshow={"slide_type": "fragment"}
flop_per_s = 140e12


def days(num_parameters, num_tokens, num_gpus=1):
    """Days of training, if the GPUs share the work without any loss."""
    num_flops = 6 * num_parameters * num_tokens
    return num_flops / (num_gpus * flop_per_s) / 86400


one_gpu_days = days(num_parameters, num_tokens)
print(f"{one_gpu_days:.0f} days")
reveal("00/days", one_gpu_days)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes 27 days, if nothing fails. This is a single run, with one learning rate, and you will
# want to try several. Is the rate of 140 TFLOP/s realistic? The authors measured 137 TFLOP/s for
# each GPU on this very model [1]. Section 3 explains the factor 6.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(one_gpu_days) == 27 and flop_per_s / 1e12 == 140
each = quoted["megatron_pflop_per_s"] * 1000 / quoted["megatron_gpus"]
assert quoted["megatron_tflop_per_s_per_gpu"] == 137 and abs(each - 137) < 1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. What grew
#
# Compare two networks that read images. LeNet-5 read handwritten digits in 1998 [3]. AlexNet won
# the contest of ImageNet in 2012, where a program has to name what a photograph shows [4]. Most of
# their layers move small filters over an image. Such a layer uses each of its weights once at every
# position of its output. So the number of multiplications is the number of positions times the
# number of weights.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "00/alexnet",
    "How many times as many multiplications does AlexNet need for an image?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
layers = table(DATA / "lenet_alexnet.csv")
multiplications = layers["positions"] * layers["weights"]
lenet = multiplications[layers["network"] == "LeNet-5"].sum()
alexnet = multiplications[layers["network"] == "AlexNet"].sum()

print(f"LeNet-5 {lenet:,}, AlexNet {alexnet:,} multiplications for an image")
reveal("00/alexnet", alexnet / lenet)

# %% [markdown] slideshow={"slide_type": "fragment"}
# An image costs 2219 times as much. There were also 20 times as many images, 1.2 million instead of
# 60,000. Together, one pass over the data became 44,000 times as expensive in 14 years.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
pictures = dict(zip(chinchilla["data"], chinchilla["items"]))
assert round(alexnet / lenet) == 2219
assert pictures["ImageNet"] / pictures["MNIST"] == 20 and pictures["MNIST"] == 60_000
assert pictures["ImageNet"] / 1e6 == 1.2
assert round(alexnet / lenet * 20, -3) == 44_000

# %% [markdown] slideshow={"slide_type": "slide"}
# **Processors grew as well, but no longer in every respect.** The next figure shows 50 years of
# microprocessors [6].

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
processors = table(DATA / "processors.csv")
SERIES = {
    "transistors_thousands": ("transistors (thousands)", "#0072b2", "^"),
    "single_thread": ("speed of one thread (SpecINT x 1000)", "#d55e00", "o"),
    "clock_mhz": ("clock (MHz)", "#009e73", "s"),
    "watts": ("power (W)", "#7a7a7a", "v"),
    "cores": ("logical cores", "#000000", "D"),
}
ALT = (
    "Scatter of 50 years of microprocessors on a logarithmic axis. Transistors grow on a "
    "straight line until 2021. Clock and power stop growing in the grey band from 2003 to 2006. "
    "The speed of one thread flattens there, and the number of cores begins to grow."
)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
figure, axes = plt.subplots(figsize=(8.2, 4.3))
for name, (label, colour, marker) in SERIES.items():
    chosen = processors["quantity"] == name
    year, value = processors["year"][chosen], processors["value"][chosen]
    axes.semilogy(year, value, marker, color=colour, markersize=3.5, label=label, alpha=0.75)
axes.axvspan(2003, 2006, color="#000000", alpha=0.07, linewidth=0)
axes.set(xlabel="year", ylabel="value, in the unit of the legend", xlim=(1970, 2023))
axes.legend(frameon=False, fontsize=9, loc="upper left")
show(figure, ALT)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Fifty years of microprocessors, on a logarithmic axis. Each point is a value of one
# processor, and the legend gives its unit. SpecINT is a set of test programs that measures the speed
# of one thread. The grey band marks the years 2003 to 2006, when clock and power stopped growing.
# Data: [6].*
#
# Until about 2004 smaller transistors could also be switched faster at the same power for each
# square millimetre. This is called **Dennard scaling**, and it ended. Since then the clock has stood
# still, and a single core has become faster only slowly. The number of transistors still doubles
# every two years, and most of the new ones go into more cores. A program that uses one core gains
# little from them.


# %% slideshow={"slide_type": "fragment"}
def growth_per_year(quantity, first, last):
    """Fit a straight line to the logarithms; return the growth in a year."""
    year, value = processors["year"], processors["value"]
    chosen = (processors["quantity"] == quantity) & (year >= first) & (year <= last)
    slope, _ = np.polyfit(year[chosen], np.log(value[chosen]), 1)
    return np.exp(slope) - 1


for quantity in ("transistors_thousands", "single_thread", "clock_mhz"):
    before = growth_per_year(quantity, 1986, 2004)
    after = growth_per_year(quantity, 2006, 2022)
    print(f"{quantity:22} until 2004 {before:4.0%} a year, since 2006 {after:4.0%}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Until 2004 the speed of one thread grew as fast as the number of transistors, by 45 % a year.
# Since 2006 it grows by 12 % a year, while transistors still grow by 41 % and the clock stands
# still. What does that mean for you? At 12 % a year, one thread would need about 70 years for the
# factor by which the multiplications for an image grew in 14.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(growth_per_year("transistors_thousands", 1986, 2004), 2) == 0.45
assert round(growth_per_year("transistors_thousands", 2006, 2022), 2) == 0.41
assert round(growth_per_year("single_thread", 1986, 2004), 2) == 0.45
assert round(growth_per_year("single_thread", 2006, 2022), 2) == 0.12
assert growth_per_year("clock_mhz", 2006, 2022) < 0
assert round((1 + growth_per_year("single_thread", 2006, 2022)) ** 6) == 2
assert round((1 + growth_per_year("transistors_thousands", 2006, 2022)) ** 2) == 2
yearly = np.log(1 + growth_per_year("single_thread", 2006, 2022))
assert round(np.log(alexnet / lenet) / yearly, -1) == 70 and 2012 - 1998 == 14

# %% [markdown] slideshow={"slide_type": "slide"}
# **Accelerators took over.** An *accelerator* is a processor that is made for one kind of work. A
# GPU is one, and spends its transistors on arithmetic units and on memory bandwidth. Here are three
# generations of NVIDIA's GPUs [7]. Can you trust such a table? Two of its rows follow from others,
# so compute them. In each tick of the clock, each core does one multiplication and one addition,
# which count as two operations. The memory is connected by a *bus* of several thousand wires, and
# the table gives the bits a second of each wire.

# %% slideshow={"slide_type": "fragment"}
gpus = table(DATA / "gpus.csv")
tflop_per_s = 2 * gpus["fp32_cores"] * gpus["clock_ghz"] / 1000
gb_per_s = gpus["bus_bits"] / 8 * gpus["memory_gbit_per_s_per_pin"]

for place, name in enumerate(gpus["gpu"]):
    print(f"{name}: {tflop_per_s[place]:5.2f} TFLOP/s and {gb_per_s[place]:4.0f} GB/s")
print("the table:", gpus["tflop_per_s"], gpus["gb_per_s"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# The table is consistent, but for the A100's bandwidth, which is rounded upwards by 4 %. From the
# P100 to the A100 the number of transistors grew by a factor of 3.5, and the speed of 32-bit
# arithmetic by 1.8. (The 140 TFLOP/s of section 1 are far more than the 19.5 TFLOP/s here, because
# the A100 has special units for products of matrices of 16-bit numbers, the *tensor cores*.)

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert np.allclose(tflop_per_s, gpus["tflop_per_s"], rtol=0.003)
assert round(gpus["gb_per_s"][2] / gb_per_s[2] - 1, 2) == 0.04
assert round(tflop_per_s[2] / tflop_per_s[0], 1) == 1.8
assert round(gpus["transistors_billions"][2] / gpus["transistors_billions"][0], 1) == 3.5
assert gpus["tflop_per_s"][2] == 19.5

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Larger than a chip.** A *wafer* is the disc of silicon from which chips are cut. Cerebras does
# not cut it. The chip of its second machine has 56 times the area of an A100, and its memory is on
# the wafer itself [5]. Both have 40 GB. But the wafer reads its memory 12,500 times as fast.
#
# **Many chips.** TPUs are Google's chips for networks, and a *pod* is a machine of many of them.
# They are wired as a *torus*, a grid in which the last chip of each row and column is connected to
# the first. A pod of TPU v4 has 4096 chips and reaches 1100 PFLOP/s [8] (a PFLOP/s is 1000
# TFLOP/s). The network between the chips is designed together with them.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
wafer, pods = table(DATA / "wafer_scale.csv"), table(DATA / "tpu_pods.csv")
assert round(wafer["area_mm2"][1] / gpus["area_mm2"][2]) == 56
assert wafer["memory_gb"][1] == 40
assert round(wafer["memory_pb_per_s"][1] * 1e6 / gpus["gb_per_s"][2]) == 12_500
together = pods["chips"] * pods["tflop_per_s_per_chip"] / 1000
assert pods["chips"][1] == 4096 and round(together[1], -2) == 1100

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What it costs to go on.** As of 2022, a factory that makes chips in a 3 nm process costs about
# 20 billion dollars [5]. In 2021 the whole industry sold chips for 556 billion [9]. So one factory
# takes 4 % of a year's revenue of all, and few firms can pay for it.
#
# **Before CUDA.** CUDA is NVIDIA's language for programs on its GPUs. People trained networks on
# graphics cards before it existed. The cards could only draw, so a matrix product was written as a
# drawing of textures. In 2005 a network of two layers ran 3 times as fast on such a card as on a
# processor of 3 GHz [10]. NVIDIA released CUDA in 2007, and then one could write such programs in
# C. In 2009 a network of 100 million parameters trained up to 70 times as fast as on a processor of
# two cores, in a day instead of several weeks [11]. AlexNet followed three years later, on two GPUs
# [4].

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert quoted["factory_3nm"] == 20
assert quoted["chip_sales_of_2021"] == 556
assert quoted["gpu_of_2005"] == 3
assert round(quoted["factory_3nm"] / quoted["chip_sales_of_2021"], 2) == 0.04
assert quoted["gpu_of_2009"] == 70 and quoted["parameters_of_2009"] / 1e6 == 100

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 3. The time and the memory of one device
#
# **Time.** Each parameter is a weight in some matrix product. For one token it is used in one
# multiplication and one addition: 2 FLOPs, where a **FLOP** is a floating-point operation. The
# backward pass makes two products of the same size, one for the gradient of the input and one for
# the gradient of the weight: 4 FLOPs more. With $\Psi$ parameters and $D$ tokens on a device that
# reaches $F$ FLOP/s, training takes
#
# $$T = \frac{(2 + 4)\, \Psi D}{F} = \frac{6\, \Psi D}{F}.$$
#
# This leaves out the *attention*, in which each layer compares every token with the other tokens of
# its sequence. These products contain no weights. For $s$ tokens in a sequence and width $h$ they
# cost $12 s h$ FLOPs for each token and layer, forward and backward. In our model that is 14 %
# more. We leave it out to have a formula that you can remember.
#
# **Memory.** The optimizer *Adam* divides each gradient by its usual size, and keeps two running
# means for this. Training with Adam in 16-bit numbers keeps for each parameter [12]:
#
# | what | bytes |
# |---|---:|
# | the weight, and its gradient, in 16 bits | 2 + 2 |
# | the weight once more in 32 bits, to add small updates to | 4 |
# | Adam's mean of the gradient and mean of its square, in 32 bits | 4 + 4 |
# | together | 16 |
#
# These 16 bytes for each parameter are called the **states** of the training. The memory is
#
# $$M = 16\, \Psi + \text{activations}$$
#
# **Activations** are the outputs of the layers and of their parts. The backward pass needs them
# again. The attention is done in $a$ parts, called heads; our model has 24. A layer of width $h$ with
# $a$ heads keeps $s b h\,(34 + 5 a s / h)$ bytes for $b$ sequences of $s$ tokens. The two
# constants of this formula come from counting the bytes of every intermediate result of a layer [13].

# %% slideshow={"slide_type": "slide"} tags=["predict"]
guess("00/memory", "How many GB do the states and the activations of one sequence take?", unit="GB")


# %% slideshow={"slide_type": "fragment"}
def states_gb(num_parameters):
    return 16 * num_parameters / 1e9


def activations_gb(num_layers, width, heads, length, sequences=1):
    of_a_layer = length * sequences * width * (34 + 5 * heads * length / width)
    return num_layers * of_a_layer / 1e9


states, activations = states_gb(num_parameters), activations_gb(24, 2304, 24, 2048)
scores = 4 * length * vocabulary / 1e9  # a 32-bit number for each token that may follow
print(f"states {states:.1f}, activations {activations:.1f}, scores {scores:.1f} GB")
reveal("00/memory", states + activations)

# %% [markdown] slideshow={"slide_type": "fragment"}
# States and activations of a single sequence take 42.4 GB. An "A100 of 40 GB" has as much, because
# its maker counts in units of $2^{30}$ bytes and reserves a little. But the last output needs 0.4
# GB more: a score for each of the 51,200 tokens of the vocabulary, at each place of the sequence.
# So your model misses the memory by 1 %.
#
# What can you do? Keep only the input of each layer, and compute the rest again in the backward
# pass. This is called **activation recomputation**. It repeats the forward pass, so each parameter
# costs 8 FLOPs for a token and not 6, a third more time. Even without activations, 40 GB hold at
# most 2.5 billion parameters.
#
# Try a model of your own: change the numbers above.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
zaratan = ringside.Machine.load("zaratan")  # its GPUs are A100s of "40 GB"
assert round(states + activations, 1) == 42.4 == round(zaratan.memory_bytes / 1e9, 1)
assert states + activations + scores > zaratan.memory_bytes / 1e9 and round(scores, 1) == 0.4
assert states_gb(2.5e9) == 40 and round((2 + 2 + 4) / (2 + 4) - 1, 2) == 0.33
assert round((states + activations + scores) / (zaratan.memory_bytes / 1e9) - 1, 2) == 0.01
attention = 12 * length * num_layers * width  # FLOPs for a token
assert round(attention / (6 * num_parameters), 2) == 0.14

# %% [markdown] slideshow={"slide_type": "slide"}
# **When one device is not enough.** There are three reasons, and each has its own cure.
#
# 1. **Memory.** The states don't fit, or the activations don't. A model of 7.5 billion parameters
#    needs 120 GB for its states alone. You have to cut the *model*.
# 2. **Time.** It would take 27 days. You have to share the *work*.
# 3. **Data.** The data lies elsewhere. It may be too much to move; it may not leave a hospital or a
#    telephone (training that leaves it there is called *federated learning*); or reading it may be
#    slower than learning from it. Eight GPUs of 2016 looked at 1734 images a second with ResNet-50
#    [14]. These are 261 MB of pixels, which the CPUs must read and decode each second. Text is much
#    smaller: our model reads 56 kB a second. You have to compute where the data lies, or share the
#    *reading*.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert states_gb(7.5e9) == 120
assert quoted["resnet50_on_8_p100"] == 1734
assert (
    round(quoted["resnet50_on_8_p100"] * 224 * 224 * 3 / 1e6) == 261
)  # pictures of 224 x 224 with three colours
tokens_per_s = flop_per_s / (6 * num_parameters)
assert round(4 * tokens_per_s / 1000) == 56

# %% [markdown] slideshow={"slide_type": "subslide"}
# **More data, better models.** ImageNet has 1.2 million images. JFT-300M, used in 2017, has 300
# million, and the accuracy grew with the logarithm of the number [15]. Llama 3 read 15.6 trillion
# tokens in 2024 [16]. For language models the part of the loss that more data can remove falls as
# $D^{-0.28}$ [2]. If you double the data, this part shrinks to 82 %. The price doubles as well.
# More data helps always, and each time by less.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(2 ** -quoted["chinchilla_data_exponent"], 2) == 0.82
assert quoted["chinchilla_data_exponent"] == 0.28
assert pictures["JFT-300M"] / 1e6 == 300 and pictures["Llama 3"] / 1e12 == 15.6

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 4. Four cuts
#
# In a step of training, a batch of samples goes through a network of layers. How can you divide it
# among processors? You can partition (cut) the batch in two directions, and the network in two
# directions. All schemes of this course are one of these cuts, or several at once.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
ALT = (
    "A batch of four samples of six tokens, beside a network of four layers. A dashed line between "
    "samples is data parallelism, one between tokens sequence parallelism, one between layers "
    "pipeline parallelism, and one through all layers tensor parallelism."
)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]


def draw_step(axes):
    """Draw a batch of four samples of six tokens, and a network of four layers."""
    axes.set(xlim=(-1.2, 18.8), ylim=(-0.8, 7))
    for sample, token in np.ndindex(4, 6):
        axes.add_patch(plt.Rectangle((token, sample), 0.9, 0.86, color="#c9ced6"))
    for layer in range(4):
        left = 9 + 2.6 * layer
        axes.add_patch(plt.Rectangle((left, 0), 1.3, 3.86, color="#e4e7ec"))
        axes.plot(6 * [left + 0.65], 0.33 + 0.64 * np.arange(6), "o", color="#6b7280", ms=9)
        start = 6.3 if layer == 0 else left - 1.25
        axes.annotate("", (left, 0.97), (start, 0.97), arrowprops={"arrowstyle": "->"})
        axes.text(left + 0.65, -0.15, f"layer {layer + 1}", ha="center", va="top", fontsize=10)
    axes.text(2.95, -0.15, "a sample: tokens of a text", ha="center", va="top", fontsize=10)
    axes.text(-0.3, 1.93, "a batch of samples", rotation=90, ha="right", va="center", fontsize=10)


# %% slideshow={"slide_type": "fragment"} tags=["figure", "hide-input"]
CUTS = [  # name, colour, the line's ends (x and y), where its label stands, what is sent
    ("data", "#0072b2", (-0.2, 6.1), (1.93, 1.93), -0.2, 4.5, "left", "gradients"),
    ("sequence", "#00745a", (3.95, 3.95), (-0.1, 5.2), 3.95, 5.9, "center", "keys and values"),
    ("pipeline", "#c04a00", (13.5, 13.5), (-0.1, 5.2), 13.5, 5.9, "center", "activations"),
    ("tensor", "#a0338a", (8.7, 18.4), (1.93, 1.93), 18.4, 4.5, "right", "partial sums"),
]
figure, axes = plt.subplots(figsize=(9.2, 4.3))
draw_step(axes)
for name, colour, xs, ys, x, y, side, sent in CUTS:
    axes.plot(xs, ys, color=colour, linewidth=3, linestyle=(0, (4, 1.5)))
    axes.text(x, y + 0.3, name, color=colour, fontsize=14, weight="bold", ha=side, va="bottom")
    axes.text(x, y + 0.2, sent, color=colour, fontsize=10.5, ha=side, va="top")
axes.axis("off")
show(figure, ALT)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. One step of training and its four cuts. On the left is a batch: each row is a sample, and
# each square a token. On the right are the four layers of a network, and each dot is a part of a
# layer. Each dashed line is a cut: other processors work on its other side. Below its name stands
# what they then have to send each other.*

# %% [markdown] slideshow={"slide_type": "slide"}
# The names have changed over the years. These are today's:
#
# | cut | today's name | also called | what is sent | sent how often |
# |---|---|---|---|---|
# | between samples | **data parallelism** | | gradients, all-reduced | once a step |
# | inside a sample | **sequence** or **context**; for images **spatial** | domain parallelism | edges of neighbours; keys and values | in every layer |
# | between layers | **pipeline parallelism** | inter-layer, "model" | activations and their gradients, to the next rank | once for each microbatch |
# | inside a layer | **tensor parallelism** | intra-layer, operator, "model" | partial sums, all-reduced | in every layer |
#
# Three terms in this table are explained in later lectures. In short: *keys and values* are what a
# token shows to the other tokens in attention. A *partial sum* is the part of a matrix product that
# one GPU can compute from its weights. A *microbatch* is a part of the batch that goes through the
# pipeline by itself.
#
# The term *model parallelism* means the third row in some texts, the fourth in others, and both in
# a third kind. This course avoids it where it matters. **Sharded** data parallelism
# (ZeRO, FSDP) is not a fifth cut of the work: each rank computes as in the first row, and only the
# *storage* of the states is divided. **Hybrid** or **3D** parallelism uses several cuts at once.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Draw figure 2 by hand, a line at a time, and ask at each line: "what does the
# rank on this side need from the other side?" (8 minutes). Most classes find the gradients and the
# activations themselves, and nobody finds the partial sums.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=13
# ## 5. Run this in five minutes
#
# Here is data parallelism as a program. Each process that takes part is called a **rank**. All
# ranks run the same function, and `comm` tells each of them how many they are (`comm.size`). Every
# rank works through its share of the samples. Then `Allreduce` adds up the gradients of all ranks
# and gives everybody the sum, which is called an **all-reduce**.

# %% slideshow={"slide_type": "fragment"}
# %%writefile step.py
import numpy as np

import ringside


def step(comm, num_samples, num_parameters):
    share = num_samples / comm.size
    ringside.compute(num_flops=6 * num_parameters * share, phase="gradient")
    mine = np.ones(num_parameters, np.float32)  # stands for the gradient of my share
    total = np.empty_like(mine)
    comm.Allreduce(mine, total)
    return float(total[0])


# %% [markdown] slideshow={"slide_type": "fragment"}
# `ringside.compute` declares work without doing it, so that the run takes no time on your laptop.
# Ringside starts real processes and passes their messages. It keeps a *virtual* clock for a
# machine that is described by a few numbers. This one computes 1 TFLOP/s on each rank, and a
# message of $n$ bytes takes $1\,\mu\text{s} + n \cdot 1\,\text{ns}$.
#
# On one rank, 8000 samples and 4000 parameters take 192 µs.

# %% slideshow={"slide_type": "slide"} tags=["predict"]
guess("00/best", "On how many ranks is the step fastest?", choices=["2", "4", "8", "16", "32"])

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
ranks = [1, 2, 4, 8, 16, 32]
runs = [ringside.run("step.py:step", world_size=p, args=(8000, 4000)) for p in ranks]
times_us = np.array([run.makespan_s * 1e6 for run in runs])

for p, time_us in zip(ranks, times_us):
    print(f"{p:2} ranks: {time_us:4.0f} µs, {times_us[0] / time_us:.2f} times as fast")

# %% slideshow={"slide_type": "slide"}
runs[3].timeline

# %% slideshow={"slide_type": "fragment"}
reveal("00/best", str(ranks[times_us.argmin()]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. The step on 8 ranks, one row for each. The gradient takes 24 µs on each rank, and then
# the all-reduce takes 42 µs.*
#
# Up to 8 ranks your step becomes faster, and then it becomes slower. Look at 8 ranks on the
# timeline. Each row is a rank, and time runs to the right.
#
# The **makespan** is the time from the beginning of a run to the end of its last rank, here 66 µs.
# Your ranks compute for 24 µs of it. In the other 42 µs they communicate and compute nothing, and
# such communication is called **exposed**.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert np.allclose(times_us, [192, 114, 78, 66, 72, 99])
assert np.isclose(times_us[3], 24 + 42) and np.isclose(6 * 8000 / 8 * 4000 / 1e12, 24e-6)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Why it turns.** Let $C$ be the time of the work on one rank and $p$ the number of ranks. If a
# fraction $f$ of the work can't be divided, Amdahl's law says
#
# $$T(p) = \frac{(1 - f)\,C}{p} + f\,C .$$
#
# This law never turns upwards: with more ranks $T$ approaches $fC$. Communication is worse than
# undivided work, because it *grows* with $p$. Here the vector of $n$ bytes travels twice round a
# ring of all ranks, in $2(p-1)$ messages of $n/p$ bytes:
#
# $$T(p) = \frac{C}{p} + 2\,(p - 1)\left(\alpha + \frac{n}{p}\,\beta\right)$$
#
# The **latency** $\alpha$ is paid for each message, here 1 µs, and the time $\beta$ for each byte,
# here 1 ns. When $p$ grows, the first term falls, and the second one rises without end. For large
# $p$ the bytes cost nearly $2 n \beta$ whatever $p$ is. What changes with $p$ is then
# $C/p + 2p\alpha$. Its derivative, $-C/p^2 + 2\alpha$, is zero at $p = \sqrt{C / 2\alpha}$, and
# near this number of ranks $T$ is smallest.

# %% slideshow={"slide_type": "fragment"}
alpha_us, beta_us_per_byte, nbytes = 1.0, 0.001, 4 * 4000
p = np.array(ranks)
computing = 192 / p
sending = 2 * (p - 1) * (alpha_us + nbytes / p * beta_us_per_byte)
assert np.allclose(computing + sending, times_us)  # formula and run agree

best = np.sqrt(192 / (2 * alpha_us))
print(f"the smallest time is near p = {best:.1f}")

# %% slideshow={"slide_type": "subslide"} tags=["hide-input"]
ALT = (
    "Bars of the time of a step on 1, 2, 4, 8, 16 and 32 ranks: 192, 114, 78, 66, 72 and 99 "
    "microseconds. Computing halves with each bar, exposed communication grows."
)
figure, axes = plt.subplots(figsize=(7.4, 3.6))
places = np.arange(len(ranks))
axes.bar(places, computing, color="#0072b2", label="computing")
orange = {"color": "#e69f00", "hatch": "//", "edgecolor": "white"}
axes.bar(places, sending, bottom=computing, label="exposed communication", **orange)
axes.plot(places, 192 / p, "k--", marker="o", markersize=4, label="if messages were free")
axes.set_xticks(places, [str(one) for one in ranks])
axes.set(xlabel="ranks", ylabel="time of a step (µs)", ylim=(0, 215))
for place, total in zip(places, computing + sending):
    axes.text(place, total + 3, f"{total:.0f}", ha="center", fontsize=10)
axes.legend(frameon=False)
show(figure, ALT)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The time of the same step on 1 to 32 ranks. The blue part of a bar is computing, and the
# orange part exposed communication. The dashed line is the time that the step would take if messages
# were free.*
#
# Most of this course is about the orange part: you will send fewer bytes, in fewer messages, or
# while the ranks compute.

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** PyTorch calls the ranks' communicator a *process group*. The program runs
# on the same counted network.

# %% slideshow={"slide_type": "fragment"}
# %%writefile step_torch.py
import torch
import torch.distributed as dist

import ringside


def step(group, num_samples, num_parameters):
    share = num_samples / dist.get_world_size(group)
    ringside.compute(num_flops=6 * num_parameters * share, phase="gradient")
    gradient = torch.ones(num_parameters)
    dist.all_reduce(gradient, group=group)
    return float(gradient[0])


# %% slideshow={"slide_type": "fragment"}
in_torch = ringside.run("step_torch.py:step", world_size=8, args=(8000, 4000))
print(f"{in_torch.makespan_s * 1e6:.2f} µs; rank 0 returned {in_torch.values[0]}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes the same 66 µs, and 0.16 µs more: PyTorch's operators are counted one by one, and
# `torch.ones` writes 16,000 bytes into a memory of 100 GB/s. [Five ways to run the same
# program](../docs/ways_to_run.md) shows how such files run under `mpiexec`, `torchrun` and `srun`.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert np.isclose(in_torch.makespan_s * 1e6, 66 + 16_000 / 100e9 * 1e6)
assert np.isclose(16_000 / 100e9 * 1e6, 0.16)
assert in_torch.values == runs[3].values == [8.0] * 8

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 6. What systems have reached
#
# Each of the following systems made one or more of the four cuts usable [1] [12] [16] [17] [18]
# [19] [20] [21] [22] [23]. The figure shows the largest network that its authors report, and on how
# many accelerators. Filled points were trained to a result. Open points were run for a few steps,
# to measure speed. Crosses fit into memory, and no more is claimed.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
systems = table(DATA / "frameworks.csv")
BELOW = {"Mesh-TensorFlow", "AxoNN", "GPipe (largest)"}  # labels that would cover another


def label_systems(axes):
    """Write each system's name."""
    for name, x, y in zip(*(systems[one] for one in ("system", "accelerators", "parameters"))):
        offset, side = ((0, -8), "top") if name in BELOW else ((0, 8), "bottom")
        axes.annotate(name, (x, y), offset, textcoords="offset points", ha="center", va=side)


# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
MARKERS = {"trained": ("o", "#0072b2"), "timed": ("o", "none"), "fits": ("x", "none")}
ALT = (
    "Eleven systems by accelerators and parameters, both logarithmic, from PipeDream, 278 million "
    "trained on 16 GPUs, to ZeRO-Infinity, where 32 trillion fit on 512."
)
figure, axes = plt.subplots(figsize=(8.6, 4.9))
for what, (marker, fill) in MARKERS.items():
    chosen = systems["what"] == what
    x, y = systems["accelerators"][chosen], systems["parameters"][chosen]
    axes.loglog(x, y, marker, label=what, color="#0072b2", markerfacecolor=fill, markersize=8)
label_systems(axes)
axes.set(xlabel="accelerators", ylabel="parameters", xlim=(4, 40_000), ylim=(6e7, 2e14))
axes.legend(frameon=False, loc="lower right")
show(figure, ALT)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Systems for distributed training: the parameters of a network and the accelerators that
# it ran on. Both axes are logarithmic.* [Systems of 2012 to 2022](systems.md) has what each of them
# cuts and sends.
#
# Ask two questions of such a figure. **What does the number mean?** ZeRO-Infinity's 32 trillion
# parameters fit on 512 GPUs. Training on 20 tokens for each of them would take more than 100,000
# years at the speed that its authors report for *one* trillion. **How many parameters are there for
# each accelerator?** At 16 bytes for each parameter, a GPU of 32 GB holds 2 billion. A system with
# more has moved states to the memory of the CPU or to disks, or it keeps fewer bytes for each
# parameter.

# %% slideshow={"slide_type": "skip"} tags=["checked", "systems", "hide-input"]
systems = table(DATA / "frameworks.csv")
infinity = systems["system"] == "ZeRO-Infinity"
assert systems["parameters"][infinity][0] == 32e12 and systems["accelerators"][infinity][0] == 512
num_flops = 6 * 32e12 * 20 * 32e12  # with 20 tokens for each parameter
years = num_flops / (quoted["zero_infinity_pflop_per_s"] * 1e15) / (365 * 86400)
assert years > 100_000
assert states_gb(2e9) == 32
llama = systems["system"] == "Llama 3"
assert systems["parameters"][llama][0] == 405e9 and systems["accelerators"][llama][0] == 16384

# %% [markdown] slideshow={"slide_type": "slide"}
# > **Often heard.** "Neural networks are embarrassingly parallel." The samples of *one* step are. But
# > steps follow each other, and so do layers. ([More statements that you will meet](corrections.md).)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7. What is success?
#
# A fast step is not the aim. The aim is a good model, soon, at a price that you can pay. Four
# measures belong together.
#
# - **Time to a given quality.** MLPerf Training measures the minutes until a network reaches a
#   fixed quality, for example 75.9 % of correct answers on ImageNet with ResNet-50 [24]. It does
#   not measure samples a second, because larger batches raise that number and may make the
#   network need more samples.
# - **Cost.** On 8 ranks our step is 2.9 times as fast as on one, but you pay for 8 ranks. So the
#   step costs 2.75 times as much. The speedup divided by the number of ranks is called the
#   **efficiency**. Here it is 36 %.
# - **Stability.** Training draws random numbers. MLPerf repeats runs because the time to reach
#   the quality differs from run to run [25].
# - **Complexity.** A scheme with three more settings to tune may cost more days than it saves.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
speedup = times_us[0] / times_us[3]
assert round(speedup, 1) == 2.9 and round(8 / speedup, 2) == 2.75 and round(speedup / 8, 2) == 0.36
assert quoted["mlperf_resnet50"] == 0.759

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8. Systems for AI, and AI for systems
#
# Research at this border goes in both directions [5].
#
# | systems for AI | AI for systems |
# |---|---|
# | distributed training (this course) | learning the order in which a database joins its tables |
# | serving predictions to many users | deciding how many servers to start |
# | networks whose shape depends on the input | choosing among virtual machines |
# | secure and private learning | predicting which worker will be slow |
# | managing thousands of experiments | adapting a radio link to its noise |
#
# Keep both sides in view: a scheme that makes each step faster and spoils the training is of no use
# to you.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9. What this course does, in which order
#
# | lecture | your question | how you answer it |
# |---|---|---|
# | [1 Messages](01_messages.ipynb) | What does a message cost, and what goes wrong? | timelines, a ping-pong, deadlocks, overlap, nine collectives |
# | [2 Training](02_sgd.ipynb) | What does one process compute? | learning rates, mini-batches, FLOP and memory, the roofline |
# | [3 All-reduce](03_allreduce.ipynb) | How do you add up over all ranks? | five algorithms; nodes, rails, sums in the switch, what a collective costs the GPU |
# | [4 Data parallelism](04_data_parallel.ipynb) | How far does the first cut go? | supersteps, scaling, mistakes that no error reports, the learning rate |
# | [5 DDP](05_ddp.ipynb) | How do you hide its messages? | buckets, PyTorch's DDP observed, a profile |
# | [6 Large batches, asynchrony](06_large_batches_and_asynchrony.ipynb) | Who waits for whom? | the linear scaling rule, stale gradients, stragglers, DiLoCo as adopted, compression |
# | [7 Sharding](07_sharding.ipynb) | Why does each GPU keep a copy of everything? | ZeRO, `fully_shard`, activations, optimizers that need whole matrices |
# | [8 Tensor parallelism](08_model_versus_data.ipynb) | What if you cut inside a layer? | Megatron's two products, sequence parallelism, overlap inside a layer, eight bits |
# | [9 Pipelines](09_pipeline_bubbles.ipynb) | What if you cut between layers? | microbatches, 1F1B, interleaving, zero bubble, pipelines as shipped |
# | [10 Asynchronous pipelines](10_asynchronous_pipelines.ipynb) | What if you leave the flush out? | stale stages, versions of weights, where to cut |
# | [11 Sequences, space](11_spatial_and_sequence.ipynb) | What if one sample is too long or too large? | ring attention, Ulysses, documents; halos of images |
# | [12 All of it at once](12_hybrid.ipynb) | Which axis goes where? | grids, placements, a guide, MFU and energy, failures, the software of 2026 |
# | [13 Inference](13_inference.ipynb) | What changes when a model writes? | the KV cache, continuous batching, speculative decoding, inference as practised |
# | [14 Experts](14_experts.ipynb) | What if a token uses a part of a layer? | routers, dispatch and combine, hot experts, experts as practised |
# | [15 Failures](15_failures.ipynb) | What if a rank dies? | rates, checkpoints, ranks that you kill, survivors that agree, replicas that heal |
#
# In each unit you write the scheme yourself, in 15 to 40 lines. Your program is judged by what it
# sends, by the order in which it works, and by the time that it would take on a cluster.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. Back to the first question
#
# The authors of our model timed it on 32 GPUs, which reached 4.4 PFLOP/s together [1]. At this
# rate the 27 days become 21 hours. Now use 512 GPUs of the modelled cluster *Zaratan*: four GPUs
# in a node, and one link of 12.5 GB/s between nodes. One step reads 512 sequences, one on each
# GPU. Its gradients are 3.3 GB, and they travel round a ring after the backward pass.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("00/share", "What share of the step is communication?", unit="%")

# %% slideshow={"slide_type": "fragment"}
zaratan = ringside.Machine.load("zaratan")
num_gpus = 512
compute_s = 6 * num_parameters * length / flop_per_s  # one sequence on each GPU
gradient_bytes = 2 * num_parameters  # 16 bits for each parameter
piece_s = zaratan.alpha_s + gradient_bytes / num_gpus * zaratan.beta_s_per_byte
ring_s = 2 * (num_gpus - 1) * piece_s

print(f"computing {compute_s * 1e3:.0f} ms, the ring {ring_s * 1e3:.0f} ms")
hours = days(num_parameters, num_tokens, num_gpus) * 24
with_messages = hours * (1 + ring_s / compute_s)
print(f"{hours:.1f} h without messages, {with_messages:.1f} h with them")
reveal("00/share", 100 * ring_s / (compute_s + ring_s))

# %% [markdown] slideshow={"slide_type": "fragment"}
# In 79 % of the time your 512 expensive GPUs wait for the network. The training takes 5.9 hours
# instead of 1.3. The lectures that follow win this time back: with more sequences for each GPU,
# with a ring that knows which GPUs share a node, and with messages that travel while the next layer
# is computed. You will see the ledger of this model again. A *ledger* is a table of what things
# cost:
#
# | how it is trained | GPUs | a step of 512 sequences | memory for states on a GPU |
# |---|---:|---:|---:|
# | one GPU, one sequence after another | 1 | 74.2 s | 26.4 GB |
# | data parallelism, nothing overlaps | 512 | 0.68 s | 26.4 GB |

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(hours, 1) == 1.3 and round(with_messages, 1) == 5.9
assert round(ring_s / (ring_s + compute_s), 2) == 0.79
assert round(512 * compute_s, 1) == 74.2 and round(states, 1) == 26.4
assert round(compute_s + ring_s, 2) == 0.68 and round(gradient_bytes / 1e9, 1) == 3.3
assert round(one_gpu_days) == 27
in_all = quoted["megatron_pflop_per_s"] * 1e15
assert quoted["megatron_pflop_per_s"] == 4.4
assert round(6 * num_parameters * num_tokens / in_all / 3600) == 21
assert 1 / zaratan.beta_s_per_byte == 12.5e9

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 11. Where it breaks
#
# **Where more ranks don't help.** You saw it in section 5: the work of a rank must be large
# against its messages. And if a batch has $B$ samples, no more than $B$ ranks can share it.
#
# **Where GPUs don't help.** A GPU has thousands of cores but far fewer instruction streams. In
# NVIDIA's *SIMT* model (single instruction, multiple threads), 32 threads form a **warp** and
# execute the same instruction in the same tick. If they meet an `if` and disagree, the warp runs
# both branches, one after the other, and each thread waits during one of them. Suppose that each
# thread tosses a coin at the `if`, and that both branches take the same time.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("00/warp", "What share of a thread's time is useful?", unit="%")

# %% slideshow={"slide_type": "fragment"}
heads = rng.random((10_000, 32)) < 0.5  # 10,000 warps of 32 threads
all_agree = heads.all(axis=1) | ~heads.any(axis=1)
branches_run = np.where(all_agree, 1, 2)
useful = 1 / branches_run.mean()

print(f"{all_agree.sum()} of {len(heads):,} warps agree")
reveal("00/warp", 100 * useful)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Half of the time is useful. No warp agrees, since the chance of that is 1 in 2 billion. If five such
# decisions are nested in one another, only 1/32 of the time is useful.
#
# **Sparse matrices** suffer from something else. Multiply a sparse matrix by a vector. For each
# element that is not zero, the GPU reads 4 bytes of value and 4 bytes of column number, and does 2
# operations. That is a quarter of an operation for each byte. An A100 could do 12.5 operations on
# 32-bit numbers in the time in which it reads a byte, so it works at 2 % of its peak. A network
# with many zeros is smaller and needs fewer operations. It is not automatically faster.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert useful == 0.5 and round(2**31 / 1e9) == 2  # 32 coins fall alike once in 2**31 tosses
flop_per_byte = zaratan.flop_per_s / zaratan.memory_bytes_per_s
assert round(flop_per_byte, 1) == 12.5 and round(2 / 8 / flop_per_byte, 2) == 0.02

# %% [markdown] slideshow={"slide_type": "subslide"}
# **An accelerator isn't all.** By one estimate it is the first 80 % of the problem, and software
# and the rest of the system are the remaining 20 % [5]. So judge hardware by what you can *program*
# on it. A **compiler** turns a network that is written in Python into the instructions of one kind
# of chip: it joins operations so that intermediate results stay out of memory, and chooses the
# order of the numbers in memory. In PyTorch, `torch.compile` does it. Compilers rarely choose the
# four cuts for you. That choice is what you learn here.

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert quoted["accelerator_share"] == 0.80 and quoted["software_share"] == 0.20

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. Two puzzles
#
# Each takes about ten minutes. The program works, but it misses a target. Change it, run it again
# and look at the timeline.
#
# **Puzzle 1: fewer messages.** A network has 20 layers of 200 parameters. The program all-reduces
# the gradient of each layer on its own. Eight ranks need 332 µs for a step. Get it below 70 µs.


# %% slideshow={"slide_type": "fragment"}
# %%writefile layers.py
import numpy as np

import ringside


def step(comm, num_layers, num_parameters):
    ringside.compute(num_flops=24e6, phase="gradients")
    mine = np.full(num_parameters, comm.rank, np.float32)
    gradients = [mine for _ in range(num_layers)]  # one array for each layer
    totals = []
    for gradient in gradients:
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        totals.append(total)
    return np.array([total[0] for total in totals])


# %% slideshow={"slide_type": "fragment"}
each_layer = np.full(20, sum(range(8)), np.float32)  # 0 + 1 + ... + 7, in every layer
goal = {"expected": each_layer, "at_most_us": 70}
hint = "Count the messages of a rank, and then its bytes."
first_try = puzzle("layers.py:step", 8, (20, 200), **goal, hint=hint)

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(first_try.time_us) == 332 and not first_try.solved

# %% [markdown] slideshow={"slide_type": "subslide"}
# <details><summary>Solution</summary>
#
# Put all gradients into one vector, all-reduce it once, and cut it again. The bytes are the same,
# but the latency is paid 14 times instead of 280 times: 24 µs + 14 · (1 + 2) µs = 66 µs. This is
# called *fusion*, and the vector is a *bucket*. [Lecture 5](05_ddp.ipynb) builds both.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile layers_fused.py
import numpy as np

import ringside


def step(comm, num_layers, num_parameters):
    ringside.compute(num_flops=24e6, phase="gradients")
    mine = np.full(num_parameters, comm.rank, np.float32)
    gradients = [mine for _ in range(num_layers)]  # one array for each layer
    together = np.concatenate(gradients)
    sums = np.zeros(together.shape, np.float32)
    comm.Allreduce(together, sums)
    return np.array([layer[0] for layer in np.split(sums, num_layers)])


# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
fused = puzzle("layers_fused.py:step", 8, (20, 200), **goal)
assert fused.solved and round(fused.time_us) == 66
assert fused.sent_bytes == first_try.sent_bytes
assert first_try.sent_messages[0] == 280 and fused.sent_messages[0] == 14

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: bytes that nobody needs.** Four ranks train together. To be safe, rank 0 broadcasts
# its weights in every step. All ranks together send 216 kB in three steps. Make it 168 kB. Every
# rank must return the same weights as before.


# %% slideshow={"slide_type": "fragment"}
# %%writefile replicas.py
import numpy as np


def train(comm, num_parameters, num_steps):
    weights = np.random.default_rng(comm.rank).normal(size=num_parameters)
    for _ in range(num_steps):
        comm.Bcast(weights, root=0)  # now all ranks have the weights of rank 0
        gradient = weights - comm.rank  # each rank has samples of its own
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        weights = weights - 0.1 * total / comm.size
    return weights


# %% slideshow={"slide_type": "fragment"}
start = np.random.default_rng(0).normal(size=1000)  # the weights of rank 0
trained = 1.5 + (start - 1.5) * 0.9**3  # a step goes a tenth of the way to 1.5
goal = {"expected": trained, "at_most_bytes_in_all": 168_000}
hint = "In which steps do the ranks' weights differ before the broadcast?"
too_much = puzzle("replicas.py:train", 4, (1000, 3), **goal, hint=hint)

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert sum(too_much.sent_bytes) == 216_000 and not too_much.solved

# %% [markdown] slideshow={"slide_type": "subslide"}
# <details><summary>Solution</summary>
#
# The ranks begin with different weights, so one broadcast is needed, before the loop. From then on
# they hold the same weights, add the same gradient, and hold the same weights again. Replicas stay
# equal without being told.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile replicas_once.py
import numpy as np


def train(comm, num_parameters, num_steps):
    weights = np.random.default_rng(comm.rank).normal(size=num_parameters)
    comm.Bcast(weights, root=0)
    for _ in range(num_steps):
        gradient = weights - comm.rank
        total = np.empty_like(gradient)
        comm.Allreduce(gradient, total)
        weights = weights - 0.1 * total / comm.size
    return weights


# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
once = puzzle("replicas_once.py:train", 4, (1000, 3), **goal)
assert once.solved and sum(once.sent_bytes) == 168_000

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 1.** A model has 7.5 billion parameters and is trained on 20 tokens for each of them.
# How many days does it take on 64 GPUs that reach 140 TFLOP/s each and share the work without
# loss? Does it fit into a GPU of 40 GB, if every GPU holds all states?
#
# <details><summary>Answer</summary>
#
# $6 \cdot 7.5 \cdot 10^9 \cdot 150 \cdot 10^9 / (64 \cdot 140 \cdot 10^{12})$ seconds are 8.7
# days. It does not fit: the states alone take 120 GB. More GPUs don't change this as long as each
# of them holds everything.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
assert round(days(7.5e9, 150e9, 64), 1) == 8.7 and states_gb(7.5e9) == 120

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** In the program of section 5 you take ten times as many samples in a step, 80,000.
# Near which number of ranks is the step fastest now? What does this say about large batches?
#
# <details><summary>Answer</summary>
#
# $C$ becomes 1920 µs, and $\sqrt{C / 2\alpha}$ becomes 31 instead of 9.8. On 32 ranks the step
# takes 153 µs, and the speedup is 12.5 instead of 1.9. More work between two messages lets you use
# more ranks. Whether the network still learns as well from such large steps is another matter.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
larger = [ringside.run("step.py:step", p, (80_000, 4000)).makespan_s * 1e6 for p in (1, 32)]
assert np.allclose(larger, [1920, 153]) and round(np.sqrt(larger[0] / 2)) == 31
assert round(best, 1) == 9.8
assert round(larger[0] / larger[1], 1) == 12.5 and round(times_us[0] / times_us[5], 1) == 1.9

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** 5 % of a program can't be divided. What is its largest possible speedup, and how
# many ranks do you need for half of it?
#
# <details><summary>Answer</summary>
#
# $T(p)/C$ approaches 0.05, so the speedup stays below 20. Half of it, 10, means
# $0.95/p + 0.05 = 0.1$, which is $p = 19$. No number of ranks reaches the full 20.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
def amdahl(p, fraction):
    return 1 / ((1 - fraction) / p + fraction)


assert np.isclose(amdahl(19, 0.05), 10) and round(amdahl(1e9, 0.05), 6) == 20

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** For each of these, say which of the four cuts helps, and why: (a) the model fits,
# and training takes a month; (b) one layer's weights are larger than a GPU's memory; (c) the layers
# fit one by one, but not together, and the network between the GPUs is slow; (d) the model is
# small, and one sample is an image of 30,000 by 30,000 pixels.
#
# <details><summary>Answer</summary>
#
# (a) Data: it divides the work, and needs one all-reduce in a step. (b) Tensor: nothing else cuts
# inside a layer. (c) Pipeline: its messages are few and go to one neighbour. (d) Spatial: such an
# image has 900 million pixels, and its activations don't fit, although the weights do.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
pixels = np.prod(np.full(2, 30_000))
assert pixels / 1e6 == 900

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** A cloud rents a GPU for 2 dollars an hour. What does the training of section 1
# cost on one GPU? What does it cost on 512 GPUs, if 79 % of the time is communication? What do you
# get for the difference?
#
# <details><summary>Answer</summary>
#
# On one GPU: 650 hours, 1300 dollars. On 512 GPUs: 5.9 hours each, 3030 hours together, about 6100
# dollars. You pay nearly five times as much, and have the model after an afternoon instead of a
# month. At a higher efficiency the difference would be smaller.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked", "hide-input"]
gpu_hours = 512 * hours * (1 + ring_s / compute_s)
assert round(24 * one_gpu_days, -1) == 650 and round(48 * one_gpu_days, -2) == 1300
assert round(gpu_hours, -1) == 3030 and round(2 * gpu_hours, -2) == 6100

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC 2021. arXiv:2104.04473. Table 1
#    and section 5.1.
# 2. J. Hoffmann, S. Borgeaud, A. Mensch, E. Buchatskaya, T. Cai, E. Rutherford et al. Training
#    compute-optimal large language models. NeurIPS 2022. arXiv:2203.15556.
# 3. Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document
#    recognition. Proceedings of the IEEE 86(11), 1998.
# 4. A. Krizhevsky, I. Sutskever, G. E. Hinton. ImageNet classification with deep convolutional
#    neural networks. NIPS 2012.
# 5. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 6. K. Rupp. Microprocessor trend data. github.com/karlrupp/microprocessor-trend-data, 2022,
#    licence CC BY 4.0. Until 2010 collected by M. Horowitz, F. Labonte, O. Shacham, K. Olukotun,
#    L. Hammond and C. Batten.
# 7. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 8. Google Cloud. TPU v3; TPU v4. cloud.google.com/tpu/docs/v3 and /v4, read in November 2026.
# 9. Semiconductor Industry Association. The 2022 SIA Factbook. Announcement of 5 May 2022.
# 10. D. Steinkraus, I. Buck, P. Y. Simard. Using GPUs for machine learning algorithms. ICDAR 2005.
# 11. R. Raina, A. Madhavan, A. Y. Ng. Large-scale deep unsupervised learning using graphics
#     processors. ICML 2009.
# 12. S. Rajbhandari, J. Rasley, O. Ruwase, Y. He. ZeRO: memory optimizations toward training
#     trillion parameter models. SC 2020. arXiv:1910.02054.
# 13. V. Korthikanti, J. Casper, S. Lym, L. McAfee, M. Andersch, M. Shoeybi, B. Catanzaro. Reducing
#     activation recomputation in large transformer models. MLSys 2023. arXiv:2205.05198.
# 14. TensorFlow. Performance benchmarks, May 2017. NVIDIA DGX-1, synthetic data.
# 15. C. Sun, A. Shrivastava, S. Singh, A. Gupta. Revisiting unreasonable effectiveness of data in
#     deep learning era. ICCV 2017. arXiv:1707.02968.
# 16. Llama team. The Llama 3 herd of models. arXiv:2407.21783, 2024.
# 17. D. Narayanan, A. Harlap, A. Phanishayee, V. Seshadri, N. R. Devanur, G. R. Ganger,
#     P. B. Gibbons, M. Zaharia. PipeDream: generalized pipeline parallelism for DNN training. SOSP
#     2019. Profiles: github.com/msr-fiddle/pipedream.
# 18. Y. Huang, Y. Cheng, A. Bapna, O. Firat, M. X. Chen, D. Chen, H. Lee, J. Ngiam, Q. V. Le,
#     Y. Wu, Z. Chen. GPipe: efficient training of giant neural networks using pipeline parallelism.
#     NeurIPS 2019. arXiv:1811.06965.
# 19. N. Shazeer, Y. Cheng, N. Parmar, D. Tran, A. Vaswani, P. Koanantakool, P. Hawkins, H. Lee,
#     M. Hong, C. Young, R. Sepassi, B. Hechtman. Mesh-TensorFlow: deep learning for supercomputers.
#     NeurIPS 2018. arXiv:1811.02084.
# 20. M. Shoeybi, M. Patwary, R. Puri, P. LeGresley, J. Casper, B. Catanzaro. Megatron-LM: training
#     multi-billion parameter language models using model parallelism. arXiv:1909.08053, 2019.
# 21. torchgpipe. Documentation, page of benchmarks. github.com/kakaobrain/torchgpipe.
# 22. S. Rajbhandari, O. Ruwase, J. Rasley, S. Smith, Y. He. ZeRO-Infinity: breaking the GPU memory
#     wall for extreme scale deep learning. SC 2021. arXiv:2104.07857.
# 23. S. Singh, A. Bhatele. AxoNN: an asynchronous, message-driven parallel framework for
#     extreme-scale deep learning. IPDPS 2022. arXiv:2110.13005.
# 24. MLCommons. MLPerf Training. mlcommons.org/benchmarks/training, quality targets of v4.1.
# 25. P. Mattson, C. Cheng, C. Coleman, G. Diamos, P. Micikevicius, D. Patterson, H. Tang, G.-Y. Wei
#     et al. MLPerf training benchmark. MLSys 2020. arXiv:1910.01500.
#
# Read next: [2] for what more data buys; [25], sections 1 and 2, for why a benchmark of training
# is hard to make; [1], section 5, to see all cuts at once.
