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
# # Lecture 14: Experts
#
# A dense model pays for every weight with arithmetic. A *mixture of experts* (MoE) doesn't: it stores many weights, and
# each token uses a few of them. But the weights that a token needs may lie on any GPU, so the token has to travel. In
# this lecture you find out what that costs, and what you can do about it.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - count the weights that a mixture of experts stores and those that a token uses;
# - write a router: experts a token, capacity, dropped tokens, balance loss, bias;
# - write dispatch and combine with uneven counts, and predict their bytes;
# - say from three numbers of a machine whether communication or the experts take longer;
# - reduce the bytes between nodes with few nodes a token, and hide what is left;
# - place hot experts on ranks, with copies in slots for redundant experts (*spare slots*);
# - read published tables of such exchanges, and tell a model from a measurement.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 1](01_messages.ipynb), for the all-to-all. [Lecture 8](08_model_versus_data.ipynb), for
# sharded layers.
#
# | sign | meaning |
# |---|---|
# | $E, k$ | experts of a layer, and experts that each token uses |
# | $T$ | tokens of a rank |
# | $d, f$ | width of the model, and hidden units of an expert |
# | $c, C$ | capacity factor, and capacity of an expert in tokens |
# | $P, g, q$ | ranks, ranks of a node, and ranks that share a port (NIC) to other nodes |
# | $w, F$ | bytes of a number, and FLOP a second of a GPU |
# | $\beta$ | seconds that a port takes for a byte |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The first meeting is about the layer and its messages, the second about making them cheaper. If you
# have one meeting, teach 1, 3, 5, 6 and 7.
#
# Ask at the beginning: "A model has 18 times as many weights as it uses for a token. What becomes 18 times as
# expensive, and what doesn't?" Memory does, arithmetic doesn't, and the class should find the third thing. This
# takes 5 minutes.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import math
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import ringside
from ringside import guess, reveal
from ringside.course.lectures import puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
BLUE, RED, YELLOW, GREEN, GREY = "#0072b2", "#b56576", "#e69f00", "#009e73", "#9aa0a6"
rng = np.random.default_rng(14)
torch.set_num_threads(1)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: one layer on 64 GPUs
#
# DeepSeek-V3 [1] has 61 layers of width 7168. In 58 of them 256 **experts** replace the MLP. Each expert is a small MLP
# of three matrices with 2048 hidden units. A token goes through 8 of the 256, and through one *shared* expert, which sees
# all tokens. How many weights does the model store, and how many does a token use?


# %% slideshow={"slide_type": "fragment"}
class V3:
    layers, without, d, f, words = 61, 3, 7168, 2048, 129_280  # 3 layers have no experts
    E, k, shared = 256, 8, 1


m = V3
expert = 3 * m.d * m.f
heads = m.d * (1536 + 576 + 128 * 128) + 1536 * 128 * 192 + 512 * 128 * 256  # attention
rest = m.layers * heads + m.without * 3 * m.d * 18_432 + 2 * m.words * m.d
with_experts = m.layers - m.without
stored = rest + with_experts * ((m.E + m.shared) * expert + m.E * m.d)  # and the gate
used = rest + with_experts * ((m.k + m.shared) * expert + m.E * m.d)
used -= m.words * m.d  # the token embedding is a table: a token reads one row of it
print(f"{stored / 1e9:.0f} billion weights, of which a token uses {used / 1e9:.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The paper says 671 and 37 billion [1]. A token multiplies with 36.6 billion, one weight in eighteen. So it costs the
# arithmetic of a model of 37 billion weights, and the memory of one of 671 billion: 1342 GB in bf16.
#
# Take 16 nodes of the `zaratan` model, with four A100 each. Their 64 GPUs have 2714 GB, twice what the weights need. Does
# the model fit? That depends on where you put the weights. A GPU has 42.4 GB:
#
# | weights, in bf16 | on each GPU |
# |---|---|
# | 4 of the 256 experts of each of 58 layers | 20.4 GB |
# | all others, 17.1 billion, if each GPU has a copy | 34.2 GB |
# | the same, divided among the four GPUs of a node | 8.6 GB |
#
# With copies it doesn't fit. If the GPUs of a node divide the other weights, a GPU holds 29.0 GB. (This is for inference.
# Training takes 16 bytes a weight, 10.7 TB: at least 254 such GPUs.)
#
# Each GPU has 4096 tokens of its own, for example of prompts. Look at one layer, forward only.

# %% slideshow={"slide_type": "fragment"}
zaratan = ringside.Machine.load("zaratan")
F, w, T, P, g = 312e12, 2, 4096, 64, zaratan.ranks_per_node  # bf16: tensor cores
work_ms = 1e3 * T * m.k * 2 * expert / F
sent = T * m.k * m.d * w  # bytes, if no expert were on the token's own GPU
print(f"the experts of a GPU work {work_ms:.2f} ms; its tokens are {sent / 1e6:.0f} MB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The experts of a GPU compute for 9.25 ms, at an A100's peak of 312 TFLOP/s [2]. Before that, **dispatch** sends each
# token to 8 experts, 14,336 bytes to each of them. Afterwards **combine** brings 8 outputs of the same size back. So a
# GPU has 470 MB to send in each direction. Of the 64 GPUs, 60 are on other nodes, and the four GPUs of a node share one
# port of 12.5 GB/s.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/travel",
    "How long do the tokens travel through the nodes' ports, to their experts and back?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
travel_ms = 1e3 * 2 * sent * (P - g) / P * g * zaratan.beta_s_per_byte
print(f"{travel_ms:.0f} ms, {travel_ms / work_ms:.1f} times the experts' work")
reveal("14/travel", travel_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Dispatch and combine take **282 ms for 9.25 ms of work**, 30 times as long. This holds for one machine: four A100 behind
# one port of 12.5 GB/s. (Section 6 asks the same of two others.) On this one you saved arithmetic, and the network pays
# for it.

# %% [markdown] slideshow={"slide_type": "fragment"}
# This lecture asks three questions. What do you get for the experts' price? How does a program send tokens, when nobody
# knows in advance how many go where? And how can communication become cheaper? Section 14 answers them.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (m.layers, with_experts, m.d, m.E, m.f, m.k) == (61, 58, 7168, 256, 2048, 8)
assert round(stored / 1e9) == 671 and round(used / 1e9, 1) == 36.6 and round(stored / used) == 18
assert round(stored * w / 1e9) == 1342 and round(64 * zaratan.memory_bytes / 1e9) == 2714
assert round(work_ms, 2) == 9.25 and round(sent / 1e6) == 470 and m.d * w == 14_336
assert round(travel_ms) == 282 and round(travel_ms / work_ms) == 30 and P - g == 60
assert round(1e-9 / zaratan.beta_s_per_byte, 1) == 12.5 and m.E // P == 4 and F / 1e12 == 312
assert P // g == 16 and T == 4096
routed = with_experts * m.E * expert  # weights
held = [routed * w / P, (stored - routed) * w, (stored - routed) * w / g]  # bytes of a GPU
assert [round(one / 1e9, 1) for one in held] == [20.4, 34.2, 8.6] and round(P / 16) == g == 4
assert round((held[0] + held[2]) / 1e9, 1) == 29.0 and round((stored - routed) / 1e9, 1) == 17.1
assert held[0] + held[1] > zaratan.memory_bytes > held[0] + held[2]
assert round(zaratan.memory_bytes / 1e9, 1) == 42.4 and round(16 * stored / 1e12, 1) == 10.7
assert math.ceil(16 * stored / zaratan.memory_bytes) == 254
assert round(P * zaratan.memory_bytes / (stored * w)) == 2

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Capacity without compute
#
# What do experts give you? Take a layer of $E$ experts with $k = 1$. The **router** (*gate* in the assignment) is a
# matrix: it gives each token a logit for each expert, and a softmax turns the logits into **gate values** (*routing
# probabilities*). A token goes to the expert with the largest one. That expert's output is multiplied by its gate value,
# so that the router gets a gradient.
#
# With $k > 1$ experts, and a shared one if there is any, a token's output is
#
# $$y = \mathrm{shared}(x) + \sum_{e \in \text{top-}k} g_e\,\mathrm{expert}_e(x) .$$
#
# The gate values $g_e$ are the chosen scores divided by their sum. Scores come from a softmax (Mixtral [7]) or from a
# sigmoid of each logit (DeepSeek-V3 [1]; DeepSeek-V4 takes $\sqrt{\mathrm{softplus}}$ [18]). Combine brings the outputs
# back, and the token's own rank forms this sum.


# %% slideshow={"slide_type": "fragment"}
def layer(x, bias, router, w1, b1, w2):
    """All experts compute, for short; in a real layer the chosen one does."""
    gates = (x @ router[:2] + router[2]).softmax(dim=1)  # (T, E)
    chosen = (gates + bias).argmax(dim=1)[:, None]  # the bias chooses, and weighs nothing
    hidden = torch.relu(torch.einsum("td,edh->teh", x, w1) + b1)
    outputs = torch.einsum("teh,eh->te", hidden, w2)
    return (gates * outputs).gather(1, chosen)[:, 0], gates, chosen[:, 0]


def surface(x):
    """What is to be learnt: hills and valleys over a square."""
    return torch.sin(9 * x[:, 0]) * torch.cos(7 * x[:, 1])


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def first_weights(E, hidden, draw):
    """Router, W1, b1 and W2 of all experts, drawn at random."""
    sizes = {(3, E): 1, (E, 2, hidden): 2, (E, hidden): 1}
    normal = {"generator": draw, "dtype": torch.float64}
    weights = [size * torch.randn(shape, **normal) for shape, size in sizes.items()]
    weights.append(torch.randn((E, hidden), **normal) / hidden**0.5)
    return [one.requires_grad_() for one in weights]


# %% slideshow={"slide_type": "fragment"}
def train(E, hidden, balance=0.0, rate=0.0, steps=400):
    """Return the error, and each expert's fraction of the tokens in each step."""
    draw = torch.Generator().manual_seed(2)
    weights, bias, loads = first_weights(E, hidden, draw), torch.zeros(E), []
    optimizer = torch.optim.Adam(weights, lr=0.02)
    for _ in range(steps):
        x = torch.rand(512, 2, generator=draw, dtype=torch.float64)
        y, gates, chosen = layer(x, bias, *weights)
        load = torch.bincount(chosen, minlength=E) / len(x)
        error = ((y - surface(x)) ** 2).mean()
        optimizer.zero_grad()
        (error + balance * E * (load * gates.mean(dim=0)).sum()).backward()
        optimizer.step()
        bias -= rate * torch.sign(load - 1 / E)
        loads.append(load.numpy())
    return float(error.detach()), np.array(loads)


# %% [markdown] slideshow={"slide_type": "fragment"}
# Compare three layers: one of 8 hidden units, one of 64, and one of 8 experts with 8 hidden units each. A token costs
# the same in the first and in the third. (`balance` is the subject of section 4, and `rate` of section 11.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/learnt",
    "The layer of 8 units has an error of about 0.2, that of 64 units one of about 0.03. And 8 experts of 8 units?",
)

# %% slideshow={"slide_type": "fragment"}
small, _ = train(1, 8)
large, _ = train(1, 64)
mixed, balanced = train(8, 8, balance=0.03)
print(f"8 units {small:.2f}, 64 units {large:.2f}, 8 experts of 8 units {mixed:.2f}")
reveal("14/learnt", mixed)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The experts come much nearer to the large layer than to the small one, at the small one's arithmetic. They don't reach
# it: they have as many weights, but each token sees an eighth of them. So **weights help even if a token doesn't use
# them.** How much they help a language model has to be measured [3, 4, 5].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 0.15 < small < 0.3 and 0.01 < large < 0.05 and large < mixed < 0.12 < 0.6 * small + 0.03
assert 8 * 8 == 64 and round(small, 1) == 0.2 and round(large, 2) in (0.02, 0.03, 0.04)

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** "8x7B" isn't 56 billion weights, since only the experts exist 8 times. Mixtral [7] stores 46.7
# > billion, and a token uses 12.9.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
mixtral_heads = 4096 * (2 * 4096 + 2 * 1024)
mixtral = [
    32 * (mixtral_heads + n * 3 * 4096 * 14_336 + 4096 * 8) + 2 * 32_000 * 4096 for n in (8, 2)
]
assert [round(one / 1e9, 1) for one in mixtral] == [46.7, 12.9]
assert round(8 * 7e9 / 1e9) == 56

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why the output is multiplied by the gate value. Without it the choice has no gradient, and the router never learns.
# Ask what happens to an expert that nobody chooses: it gets no gradient either.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 3. The router: capacity and dropped tokens
#
# With $k$ experts a token, an expert gets $kT/E$ tokens in the mean, and sometimes many more. A rank has to allocate
# memory for what comes, and all ranks wait for the one with the most. So the first large models gave each expert a
# **capacity** [3, 4]
#
# $$C = \Big\lceil \frac{c\,k\,T}{E} \Big\rceil$$
#
# with a *capacity factor* $c$, here of 1 to 2. The expert keeps the first $C$ tokens that chose it. The others are
# **dropped**: their output from this expert is zero. The residual connection carries a dropped token past the layer, so
# nothing stops, but the token learns less. Here $T = 4$, $E = 3$, $k = 1$ and $c = 1.5$, so $C = 2$:
#
# ```text
#   token          0      1      2      3
#   best expert    0      2      0      0
#   kept?         yes    yes    yes   dropped: expert 0 has its 2 tokens
# ```
#
# How many tokens are dropped if the router chooses at random? An expert's number of tokens is then nearly normal, with
# mean $\mu = kT/E$ and variance $\mu$. With $c = 1$ the mean fraction above $\mu$ is
#
# $$\frac{1}{\mu}\int_\mu^\infty (x - \mu)\,\frac{e^{-(x-\mu)^2/2\mu}}{\sqrt{2\pi\mu}}\,dx
#   = \frac{1}{\sqrt{2\pi\mu}} .$$


# %% slideshow={"slide_type": "fragment"}
def choices(tokens, E, k):
    """k different experts for each token, drawn at random."""
    return rng.random((tokens, E)).argpartition(k, axis=1)[:, :k]


def dropped(experts, E, c):
    """The fraction of all choices that exceeds the capacity."""
    asked = np.bincount(experts.ravel(), minlength=E)
    return 1 - np.minimum(asked, math.ceil(c * experts.size / E)).sum() / experts.size


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/dropped",
    "4096 tokens choose 8 of 256 experts at random. The capacity factor is 1. Which fraction of the choices is dropped?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
factors = [1.0, 1.1, 1.25, 1.5, 2.0]
drawn, lost = {}, {}
for tokens in (64, 512, 4096):
    drawn[tokens] = choices(tokens, m.E, m.k)
    lost[tokens] = [dropped(drawn[tokens], m.E, c) for c in factors]
    formula = 1 / np.sqrt(2 * np.pi * tokens * m.k / m.E)
    print(f"{tokens:4} tokens:", "  ".join(f"c={c}: {one:5.1%}" for c, one in zip(factors, lost[tokens])),
          f"  formula {formula:.1%}")  # fmt: skip

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(5.6, 2.6), layout="constrained")
fine = np.linspace(1, 2, 201)
for (tokens, experts), colour in zip(drawn.items(), (RED, YELLOW, BLUE)):
    percent = [100 * dropped(experts, m.E, c) for c in fine]
    axis.plot(
        fine, percent, color=colour, label=f"{tokens} tokens, {experts.size // m.E} an expert"
    )
axis.legend(frameon=False, fontsize=9)
axis.set(xlabel="capacity factor", ylabel="dropped, % of the choices", ylim=(0, 31))
show(figure, "Dropped choices in percent against the capacity factor from 1 to 2, for 64, 512 and 4096 tokens. With 4096 tokens "
     "the line begins lowest and is at 0 from 1.25 on. With 512 it begins higher and is at 0 from about 1.5 on. With 64 tokens it "
     "begins highest and is a staircase of three steps.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("14/dropped", 100 * lost[4096][0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. What a router drops that chooses 8 of 256 experts at random.*
#
# At $c = 1$ about 3.5 % of the choices are dropped, and with $c = 1.25$ hardly any. With 64 tokens an expert gets 2 in
# the mean, and more than a quarter is dropped. (Its capacity can only be 2, 3 or 4 tokens, hence the steps.) So **the
# more tokens you count together, the less capacity you waste**. The price of $c$ is padding: buffers are $c$ times as
# long as the mean needs.
#
# All this assumes a router that chooses at random. One that learns doesn't. And not every model drops tokens:
# DeepSeek-V3 (2024), whose 8 of 256 experts you took here, drops none, neither in training nor in inference [1].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert abs(lost[4096][0] - 0.035) < 0.004 and lost[4096][2] < 0.003 and lost[64][0] > 0.25
assert round(1 / np.sqrt(2 * np.pi * 128), 3) == 0.035 and 64 * m.k / m.E == 2
assert {math.ceil(2 * c) for c in fine} == {2, 3, 4} and 0.08 < lost[512][0] < 0.11
assert math.ceil(1.5 * 1 * 4 / 3) == 2 and dropped(np.array([[0], [2], [0], [0]]), 3, 1.5) == 0.25

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 4. A router that learns: the balance loss
#
# A router can fail in a way that no other layer can. The expert that is chosen gets a gradient and improves. So it is
# chosen more often, and improves further. The usual cure is one more term in the loss [3],
#
# $$E \sum_e f_e\,P_e ,$$
#
# where $f_e$ is the fraction of all choices that fell on expert $e$, and $P_e$ is the mean gate value that the router
# gives it, over all tokens. With even choices the term is $E \cdot E \cdot \frac1E \cdot \frac1E = 1$. If one expert gets
# everything, it is $E$ times that expert's mean gate value, so $E$ for a router that is sure. Counts have no gradient, so
# $f$ is a constant, and the gradient flows through $P$. It pushes down the gate values of those experts that are chosen
# often.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/collapse",
    "Train the 8 experts of section 2 without this term. How many of them get at least a tenth of the tokens?",
    unit="experts",
)

# %% slideshow={"slide_type": "fragment"}
without, collapsed = train(8, 8, balance=0.0)
for name, error, loads in (("with the term", mixed, balanced), ("without it", without, collapsed)):
    print(f"{name:14} error {error:.2f}, tokens in %: {(100 * loads[-1]).round().astype(int)}")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_loads(axis, loads, title):
    """The tokens of each of 8 experts in training, in means of 10 steps."""
    smooth = loads.reshape(-1, 10, 8).mean(axis=1)
    for expert_load, shade in zip(smooth.T, plt.get_cmap("viridis")(np.linspace(0, 0.9, 8))):
        axis.plot(range(0, len(loads), 10), 100 * expert_load, color=shade, linewidth=1)
    axis.axhline(12.5, color="#1b1f24", linestyle=":")
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("steps")


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 2, figsize=(7.6, 2.6), layout="constrained", sharey=True)
draw_loads(axes[0], collapsed, "without the term")
draw_loads(axes[1], balanced, "with it")
axes[0].set_ylabel("tokens of an expert, %")
show(figure, "Two diagrams of the tokens of each of 8 experts over 400 steps, in percent. Without the term one line rises to "
     "100 percent in the first 60 steps and stays there; all others are at 0. With the term the lines cross each other, and at the "
     "end seven of them lie between 5 and 20 percent and one at 30.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("14/collapse", (collapsed[-1] >= 0.1).sum())

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Load of the 8 experts in training, means of 10 steps. The dotted line is an even load.*
#
# Without the term one expert gets everything, from step 60 on. The layer is no better than the small one of section 2,
# although it stores 8 times as many weights. With the term all experts work.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The term has a price: it pulls tokens away from the expert that suits them best. So its factor is small. DeepSeek-V3
# leaves most of the work to a *bias* of each expert instead [1], which you will run in section 11.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (collapsed[-1] >= 0.1).sum() == 1 and collapsed[60:].max(axis=1).min() > 0.99
assert without > 0.15
assert (balanced[-1] > 0).sum() == 8 and mixed < 0.6 * without and 8 * (1 / 8) * (1 / 8) * 8 == 1

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class compute the balance loss by hand for two experts and gate values of
# 0.9 and 0.1 for all tokens: 1.8. Ask which part of the product could be trained without the other.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=20
# ## 5. Dispatch and combine: an uneven all-to-all
#
# Experts live on ranks, and so do tokens. Take the simplest case, with one expert on each rank and $k = 1$, and without
# gate values. A token is $d$ numbers. The layer sends messages in three steps:
#
# 1. *Counts.* Each rank tells each other one how many tokens will come. Nobody can know it before, since it depends on
#    the data.
# 2. *Dispatch.* Each rank sends each other one its tokens, perhaps none at all. This is an all-to-all with uneven parts
#    (`Alltoallv`).
# 3. *Combine.* The experts' outputs go back, with the same counts.
#
# A token with $k$ experts is sent $k$ times, so a rank has $kT$ token copies (*rows* of a matrix). If all ranks are
# equally likely, the fraction $(P-1)/P$ of them leaves. So at even choices a rank sends at most
#
# $$T\,k\,d\,w\,\frac{P-1}{P}\quad\text{bytes each way,}$$
#
# and less if tokens are dropped. (If choices are uneven, it may be up to $T k d w$.) In the backward pass gradients go
# the same two ways. So training has four all-to-alls of tokens in each layer, and six if the layer is recomputed
# (lecture 7). Counts are exchanged once.


# %% slideshow={"slide_type": "fragment"}
# %%writefile experts.py
import numpy as np

import ringside


def all_to_all(comm, parts, inbox):
    """Part r goes to rank r; what rank r sends lands in inbox[r]."""
    inbox[comm.rank][:] = parts[comm.rank]
    others = [r for r in range(comm.size) if r != comm.rank]
    requests = [comm.Irecv(inbox[r], r) for r in others]
    requests += [comm.Isend(parts[r], r) for r in others]
    for request in requests:
        request.Wait()


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a experts.py


def layer(comm, x, chosen, weights):
    """Rank r is expert r. Token t, x[t], goes to expert chosen[t], with a gate value of 1."""
    leaving = np.bincount(chosen, minlength=comm.size)
    arriving = np.zeros_like(leaving)
    comm.Alltoall(leaving, arriving)
    inbox = [np.empty((n, x.shape[1])) for n in arriving]
    all_to_all(comm, [x[chosen == r] for r in range(comm.size)], inbox)  # dispatch
    ringside.compute(seconds=0.1e-6 * int(arriving.sum()), phase="expert")
    outputs = [np.maximum(tokens @ weights, 0) for tokens in inbox]
    back = [np.empty((n, x.shape[1])) for n in leaving]
    all_to_all(comm, outputs, back)  # combine
    y = np.empty_like(x)
    for r, rows in enumerate(back):
        y[chosen == r] = rows
    return y


# %% [markdown] slideshow={"slide_type": "fragment"}
# Four ranks have 64 tokens of 32 numbers each. The router prefers expert 0: it gets 40 % of the tokens, and the others
# get 30, 20 and 10 %. An expert takes 0.1 µs for a token.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/most",
    "Which rank sends the most bytes, in dispatch and combine together?",
    choices=["rank 0", "rank 3", "all the same"],
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
tokens = rng.normal(size=(4, 64, 32))
chosen = rng.choice(4, size=(4, 64), p=[0.4, 0.3, 0.2, 0.1])
weights = rng.normal(size=(4, 32, 32))
arguments = list(zip(tokens, chosen, weights))
run = ringside.run("experts.py:layer", 4, arguments)
for x, which, y in zip(tokens, chosen, run.values):
    alone = np.maximum(np.einsum("td,tdf->tf", x, weights[which]), 0)
    assert np.allclose(y, alone)
sent_bytes = run.timeline.bytes_matrix.sum(axis=1)
print("tokens of expert 0 to 3:", np.bincount(chosen.ravel()), " bytes:", sent_bytes)

# %% slideshow={"slide_type": "fragment"}
run.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("14/most", f"rank {sent_bytes.argmax()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Dispatch, experts and combine on four ranks. The expert of rank 0 has the most tokens, and works longest.*
#
# Rank 0 sends the most. It keeps more of its own tokens than others do, but it returns an output for each token
# that came from elsewhere. Rank $r$ sends 256 bytes for each of its own tokens with an expert elsewhere, 256 bytes
# for each token of others whose expert it is, and 24 bytes of counts.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
own = np.array([(which == r).sum() for r, which in enumerate(chosen)])
asked = np.bincount(chosen.ravel(), minlength=4)
assert (sent_bytes == 256 * (64 - own) + 256 * (asked - own) + 24).all()
assert sent_bytes.argmax() == 0 and 32 * 8 == 256 and 3 * 8 == 24 and len(tokens) == 4

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** One call does what `all_to_all` does: `all_to_all_single`, with the counts that come and that go.
# You must first sort the tokens by the rank to which they go (the *permutation*).

# %% slideshow={"slide_type": "fragment"}
# %%writefile experts_torch.py
import torch
import torch.distributed as dist


def all_to_all(group, rows, go, come):
    """The first go[0] rows are for rank 0, the next go[1] for rank 1, and so on."""
    inbox = rows.new_empty(sum(come), rows.shape[1])
    dist.all_to_all_single(inbox, rows, come, go, group=group)
    return inbox


def layer(group, x, chosen, weights):
    leaving = torch.bincount(chosen, minlength=group.size())
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving, group=group)
    go, come, order = leaving.tolist(), arriving.tolist(), chosen.argsort(stable=True)
    outputs = torch.relu(all_to_all(group, x[order], go, come) @ weights)
    return torch.empty_like(x).index_copy(0, order, all_to_all(group, outputs, come, go))


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("experts_torch.py:layer", 4, arguments)
assert all(np.allclose(one, other) for one, other in zip(torch_run.values, run.values))
assert (torch_run.timeline.bytes_matrix == run.timeline.bytes_matrix).all()
print("the same tokens, and the same bytes between the ranks")

# %% [markdown] slideshow={"slide_type": "fragment"}
# This call has no backward pass. In the assignment you make autograd operations of it, and see how the backward pass
# starts the exchange of gradients.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (torch_run.timeline.bytes_matrix == run.timeline.bytes_matrix).all()

# %% [markdown] slideshow={"slide_type": "notes"}
# Let four students be ranks, with cards for tokens. They find out that they can't take cards before
# they know how many will come, and that combine needs no counts. Ask what a rank does that gets no tokens: it
# still takes part in each all-to-all, or all others wait for ever.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=20
# ## 6. Communication or computation: which takes longer?
#
# A node has $g$ ranks, and $q$ of them share a port to the other nodes: all four on `zaratan`. Of a rank's token copies
# the fraction $(P-g)/P$ leaves the node. Dispatch and combine together take
#
# $$T_\text{comm} = 2\,T k\,d\,w\,\frac{P-g}{P}\,q\,\beta ,\qquad
#   T_\text{comp} = \frac{6\,T k\,d f}{F} ,$$
#
# if an expert has three matrices of $d f$ numbers. In the **communication-to-computation ratio** $T$, $k$ and $d$ cancel:
#
# $$\frac{T_\text{comm}}{T_\text{comp}} = \frac{w F\,q\,\beta}{3 f}\,\frac{P-g}{P} .$$
#
# More tokens, fewer experts a token or a narrower model change nothing. Of the model only the **hidden width $f$ of an
# expert** counts, because for each number that travels the experts do $3f$ FLOP ($6df$ for the $2d$ numbers of a copy).
# All the rest is the machine. Inside a node each rank has a port of its own, so there $q = 1$, the fraction is $(P-1)/P$,
# and $\beta$ is that of the inner links.
#
# (An all-reduce of a library spreads its rings over all ports of a node, as you saw in lecture 3. An all-to-all gains
# nothing from that: each rank has tokens to send, so all ports are busy anyway.)


# %% slideshow={"slide_type": "fragment"}
def comm_over_comp(ranks, f=m.f, machine=zaratan, flop_per_s=F):
    """How many times as long dispatch and combine take as the experts' GEMMs."""
    node = machine.ranks_per_node
    inner = machine.link(0, 1).beta_s_per_byte * (min(ranks, node) - 1) / ranks
    outer = machine.beta_s_per_byte * max(ranks - node, 0) / ranks
    outer *= machine.gpus_per_nic
    return w * flop_per_s / (3 * f) * max(inner, outer)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/width",
    "How many hidden units must an expert have, so that it computes as long as dispatch and combine take between 16 nodes?",
    unit="hidden units",
)

# %% slideshow={"slide_type": "fragment"}
for ranks in (4, 8, 16, 64):
    print(f"{ranks:2} GPUs: communication takes {comm_over_comp(ranks):5.2f} times as long")
enough = m.f * comm_over_comp(64)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_bars(axis):
    counts = [4, 8, 16, 32, 64]
    axis.bar([str(n) for n in counts], [work_ms * comm_over_comp(n) for n in counts], color=YELLOW)
    axis.axhline(work_ms, color=BLUE)
    axis.text(-0.4, 1.3 * work_ms, "experts'\nGEMMs", color=BLUE)
    axis.text(3.9, 1.02 * travel_ms, "dispatch, combine", color="#a06c00", ha="center", va="bottom")
    axis.set(xlabel="GPUs (4 in a node)", ylabel="ms", ylim=(0, 320))


def draw_widths(axis):
    widths = np.geomspace(500, 200_000, 50)
    for ranks, colour, name in ((64, RED, "16 nodes"), (4, GREEN, "one node")):
        axis.loglog(widths, [comm_over_comp(ranks, f) for f in widths], color=colour)
        axis.text(18_000, 1.25 * comm_over_comp(ranks, 18_000), name, color=colour)


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.3), layout="constrained")
draw_bars(left)
draw_widths(right)
right.axhline(1, color=GREY, linestyle=":")
for name, f in (("DeepSeek-V3", 2048), ("Mixtral", 14_336)):
    right.axvline(f, color=GREY, linewidth=0.8)
    right.text(f * 1.08, 200, name, va="top", fontsize=9)
right.set(
    xlabel="hidden units of an expert", ylabel="communication over computation", ylim=(0.01, 220)
)
show(figure, "Left: bars of the time of dispatch and combine of a layer, on 4 to 64 GPUs. On 4 GPUs, one node, they take 7 ms, "
     "a little less than the 9 ms of the experts' GEMMs. On 8 GPUs, two nodes, it is 150 ms, and on 64 GPUs 282 ms. Right: "
     "communication over computation against the hidden units of an expert, both axes logarithmic. Both lines fall, that for 16 "
     "nodes from 120. It is far above the one for one node, which is below 1 from 1560 hidden units on. DeepSeek-V3 with 2048 and "
     "Mixtral with 14,336 hidden units lie where the first line is above 1 and the second below.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("14/width", enough)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. Left: dispatch and combine of the layer of section 1, and its experts' GEMMs (matrix products), on `zaratan`.
# Right: what the hidden width of an expert does to their ratio.*
#
# How long do dispatch and combine take, compared with the experts' GEMMs?
#
# | `zaratan` | communication over computation |
# |---|---|
# | one node, 4 GPUs | 0.76 |
# | two nodes, 8 GPUs | 16 |
# | sixteen nodes, 64 GPUs | 30 |
#
# The jump comes from the wire, since four GPUs share one port of 12.5 GB/s. On this machine only wider experts make the
# ratio smaller. To reach 1 between 16 nodes an expert would need 62,400 hidden units, and inside a node 1560. DeepSeek-V3
# has 2048.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Mixtral [7] has 8 experts of 14,336 hidden units and 2 experts a token. Its layers fit into a node. DeepSeek-V3
# divides its weights into many narrow experts, so that a token has more combinations to choose from. The network
# pays for them.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Other machines.** DeepSeek-V3 was trained on H800 [1]. They compute at 989 TFLOP/s in bf16, 3.2 times the rate of an
# A100 [12]. But a node has eight of them, and each has a port of 50 GB/s of its own [8].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/machines",
    "On 64 GPUs of zaratan communication takes 30 times as long as computation. How many times is it on 64 H800?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
MACHINES = {  # FLOP/s; bytes a second of a GPU to others; GPUs that it reaches by faster links
    "zaratan, four A100 at a port of 12.5 GB/s": (312e12, 12.5e9 / 4, g),
    "H800, each at a port of 50 GB/s": (989e12, 50e9, 8),
    "GB200 NVL72, 72 at NVLink of 900 GB/s": (2500e12, 900e9, 1),
}
quotients = {}
for name, (rate, bytes_per_s, near) in MACHINES.items():
    quotients[name] = w * rate / (3 * m.f * bytes_per_s) * (P - near) / P
    print(f"{name:41}: {quotients[name]:4.1f} times")
reveal("14/machines", list(quotients.values())[1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 64 H800 the ratio is 5.6. On a rack of 2025, in which NVLink joins 72 GPUs [12], it is 0.9:
#
# | machine, all in bf16 | FLOP rate over an A100's | GB/s of a GPU to others | ratio |
# |---|---|---|---|
# | `zaratan` | 1 | 3.1 | 30 |
# | H800, nodes of eight | 3.2 | 50 | 5.6 |
# | GB200 NVL72 | 8 | 900 | 0.9 |
#
# A faster GPU alone makes the ratio worse. It fell because the wires grew more than the GPUs did. On H800 you still need
# section 7. In the rack the experts can hide communication, as long as both are in bf16. With FP8 the products are twice
# as fast, and dispatch is half as long, so $wF$ becomes $\frac34 \cdot 2$ times as large, and the ratio is 1.3. (All of
# these are peaks. Section 11 takes the rates that are reached.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Models and machines are now designed with this quotient.** DeepSeek's report on V4 (2026) asks hardware vendors for a
# balance [18]. With FP8 dispatch and bf16 combine, they write, communication can be hidden if
#
# $$\frac{C}{B} \le 2 \cdot 3072 = 6144\ \text{FLOP per byte} ,$$
#
# where $C$ is a GPU's peak, $B$ its bandwidth, and 3072 the hidden width of V4's experts. It is the formula above, with 3
# bytes for the $2w$ of both directions: $F\beta/2f \le 1$. V4's experts are 1.5 times as wide as V3's, so in the rack the
# ratio is back at 0.9, in FP8.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Does the formula hold on the clock? Here 16 ranks in four nodes dispatch and combine tokens as in section 1. Tokens are
# shorter by a factor of 1024, and fewer by 16, so a byte takes 16,384 times as long.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ways.py
import numpy as np

import ringside


def exchange(comm, go, come, numbers, phase):
    """go[r] tokens go to rank r; come[r] tokens come from it."""
    tokens, inbox = (np.zeros((sum(n), numbers), np.float16) for n in (go, come))
    with ringside.phase(phase):
        comm.Alltoallv([tokens, go * numbers], [inbox, come * numbers])


def flat(comm, go, come, numbers):
    exchange(comm, go, come, numbers, "dispatch")
    exchange(comm, come, go, numbers, "combine")


# %% slideshow={"slide_type": "fragment"}
ranks, few, numbers, E = 16, T // 16, m.d // 1024, 64
slow = 1024 * 16
slowed = zaratan.with_(beta_s_per_byte=slow * zaratan.beta_s_per_byte,
                       intra_beta_s_per_byte=slow * zaratan.link(0, 1).beta_s_per_byte)  # fmt: skip
picked = choices(ranks * few, E, m.k).reshape(ranks, few, m.k)  # experts of each token
rows_to = np.array([np.bincount(one.ravel() // (E // ranks), minlength=ranks) for one in picked])
flat_run = ringside.run("ways.py:flat", ranks, [(go, come, numbers) for go, come in
                        zip(rows_to, rows_to.T.copy())], machine=slowed)  # fmt: skip
formula_ms = work_ms * comm_over_comp(ranks)
print(f"on the clock {1e3 * flat_run.makespan_s:.0f} ms, by the formula {formula_ms:.0f} ms")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 1 < 1e3 * flat_run.makespan_s / formula_ms < 1.1
assert round(comm_over_comp(4), 2) == 0.76 and round(comm_over_comp(8)) == 16
assert round(comm_over_comp(64)) == 30 and round(enough, -2) == 62_400
assert round(m.f * comm_over_comp(4)) == 1560 and np.isclose(
    work_ms * comm_over_comp(64), travel_ms
)
assert [round(x, 1) for x in quotients.values()] == [30.5, 5.6, 0.9] and P < 72
assert [round(per_s / 1e9, 1) for _, per_s, _ in MACHINES.values()] == [3.1, 50, 900]
assert [round(rate / F, 1) for rate, *_ in MACHINES.values()] == [1, 3.2, 8]
in_rack = list(quotients.values())[-1] * 2 * 3 / 4  # products and dispatch in FP8
assert round(in_rack, 1) == 1.3 and round(in_rack * m.f / 3072, 1) == 0.9 and 1.5 * m.f == 3072
rack = ringside.Machine.load("gb200_nvl72")
assert rack.rate("fp8") == 2 * rack.rate("bf16") == 2 * 2500e12
assert slow == 16_384 == 1024 * 16 and round(work_ms * comm_over_comp(4)) == 7
assert round(work_ms * comm_over_comp(8)) == 150

# %% [markdown] slideshow={"slide_type": "notes"}
# The cancelling is the point of the section. Ask: "Communication takes too long. You halve the batch.
# What happens?" Nothing. "You take 4 experts a token instead of 8, of twice the width." That helps, by two.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 7. Few nodes a token, and one copy to each
#
# A token with 8 experts may have them on eight nodes. Three measures reduce the bytes between nodes.
#
# **One copy to each node** (*node-level deduplication*). If two experts of a token are on the same node, one copy is
# enough. It goes to the GPU with the same **local rank** there: from the second rank of a node to the second rank of the
# other node. That rank forwards it, over the fast links, to those ranks of its node that need it. On the way back the
# outputs are summed inside the node first, and one vector returns. This is a *hierarchical* all-to-all.
#
# ```text
#   node 0:  rank 0   1      a token of rank 1 has experts on ranks 2 (node 1), 4 and 5 (node 2)
#   node 1:  rank 2   3      1 -> 3 -> 2          one copy to node 1
#   node 2:  rank 4   5      1 -> 5 -> 4 and 5    one copy to node 2, where two experts are
# ```
#
# **Few nodes.** In *node-limited routing* [1] the router first chooses $M$ nodes, and then the $k$ best experts there. A
# node's score is the sum of its $k/M$ best scores. So a token has at most $M$ copies.
#
# With random choices a node of $E/N$ experts has none of a token's experts with probability
# $\binom{E - E/N}{k} / \binom{E}{k}$. So a token reaches in the mean
#
# $$(N-1)\left(1 - \binom{E - E/N}{k} \Big/ \binom{E}{k}\right)\quad\text{other nodes.}$$

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/nodes",
    "16 nodes, 8 of 256 experts a token, at random. How many other nodes does a token reach in the mean?",
    unit="nodes",
)


# %% slideshow={"slide_type": "fragment"}
def other_nodes(N, E, k):
    return (N - 1) * (1 - math.comb(E - E // N, k) / math.comb(E, k))


crossing = {
    "a copy for each expert": m.k * 15 / 16,
    "a copy for each node": other_nodes(16, 256, 8),
}
crossing |= {f"at most {M} nodes": M * 15 / 16 for M in (4, 2, 1)}
between_ms = {how: travel_ms * copies / (m.k * 15 / 16) for how, copies in crossing.items()}
for how, copies in crossing.items():
    print(f"{how:22} {copies:.2f} copies a token, {between_ms[how]:3.0f} ms in both directions")
reveal("14/nodes", crossing["a copy for each node"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 16 nodes a token's 8 experts lie on 6.12 other nodes. So deduplication alone saves little. Node-limited routing
# makes it worth something:
#
# | copies between nodes | dispatch and combine, ms |
# |---|---|
# | one for each expert | 282 |
# | one for each node | 230 |
# | at most 4 nodes | 141 |
# | 1 node | 35 |
#
# (4 nodes are 3.75 copies, since one chosen node in 16 is the token's own.) DeepSeek-V3 was trained with at most 4 nodes
# [1]. DeepSeek-V4 (2026) has no such limit [18]. One fused kernel, MegaMoE, splits its experts into waves, and dispatch,
# GEMMs and combine of different waves run at the same time. For inference its authors report 1.50 to 1.73 times the
# speed of separate kernels. Puzzle 2 has its idea.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The limit isn't free: a token may not get its 8 best experts. The fewer nodes you allow, the more its choice is bound.
#
# **Fewer bits.** You can dispatch tokens in FP8, and combine outputs in bf16, since outputs are summed. Then a number
# takes 3 bytes in both directions together, and not 4. With at most 4 nodes that leaves 106 ms.
#
# Now watch it on the clock, on 16 ranks in four nodes. To keep the program short, each rank is told all counts.


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a ways.py


def two_levels(comm, across, inside, numbers, g):
    """across: tokens to and from each node; inside: to and from each rank of the own node."""
    node, local_rank = comm.rank // g, comm.rank % g
    rail, same_node = comm.Split(local_rank, node), comm.Split(node, local_rank)
    exchange(rail, *across, numbers, "dispatch to nodes")
    exchange(same_node, *inside, numbers, "dispatch to ranks")
    exchange(same_node, *inside[::-1], numbers, "combine from ranks")
    exchange(rail, *across[::-1], numbers, "combine from nodes")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def counts_of(picked, g=4):
    """What two_levels needs on each rank."""
    P, N = len(picked), len(picked) // g
    ranks_of = picked // (E // P)  # (P, T, k)
    on_rank = (ranks_of[..., None] == np.arange(P)).any(axis=2)  # (P, T, P): once a rank
    on_node = on_rank.reshape(P, -1, N, g).any(axis=3)
    to_node = on_node.sum(axis=1)  # (source, node)
    per_rank = on_rank.sum(axis=1).reshape(N, g, N, g)  # node, local rank, node, local rank
    to_local = per_rank.sum(axis=0)  # (local rank, node, local rank): tokens to forward
    return [
        ((to_node[r], to_node.reshape(N, g, N)[:, r % g, r // g].copy()),
         (to_local[r % g, r // g], to_local[:, r // g, r % g].copy()))
        for r in range(P)
    ]  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
def limited(tokens, M, N=4):
    """8 experts of each token, on M nodes at most, all equally likely."""
    nodes = rng.random((tokens, N)).argsort(axis=1)[:, :M]
    scores = rng.random((tokens, N, E // N))
    allowed = (nodes[..., None] == np.arange(N)).any(axis=1)
    return np.where(allowed[..., None], scores, 0).reshape(tokens, E).argsort(axis=1)[:, -m.k :]


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/levels",
    "Four nodes, 8 of 64 experts, no limit on nodes. How many times as fast is the exchange with one copy to each node?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
level_ms = {}
for M in (4, 2, 1):
    each = picked if M == 4 else limited(ranks * few, M).reshape(ranks, few, m.k)
    args = [(*counts, numbers, 4) for counts in counts_of(each)]
    run = ringside.run("ways.py:two_levels", ranks, args, machine=slowed)
    level_ms[M] = 1e3 * run.makespan_s
    print(f"at most {M} of 4 nodes, two levels: {level_ms[M]:.0f} ms")
flat_ms = 1e3 * flat_run.makespan_s
reveal("14/levels", flat_ms / level_ms[4])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With only four nodes, a token has two experts on each in the mean, so deduplication pays at once: two levels are about
# twice as fast as the flat exchange. With at most 2 nodes they are faster again. The messages inside the node come on
# top, and they are short here. On a machine with a fast network and slow links inside, they would not be.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(crossing["a copy for each node"], 2) == 6.12 and round(travel_ms) == 282
assert [round(between_ms[f"at most {M} nodes"]) for M in (4, 1)] == [141, 35]
assert round(0.75 * between_ms["at most 4 nodes"]) == 106 and crossing["at most 4 nodes"] == 3.75
megamoe = (1.50, 1.73)  # times as fast [18]; overlap alone gives at most 2
assert 1 < 1.50 == megamoe[0] < megamoe[1] == 1.73 < 2
assert round(between_ms["a copy for each node"]) == 230 and round(other_nodes(4, 64, 8), 1) == 2.7
assert 1.7 < flat_ms / level_ms[4] < 2.4 and level_ms[1] < level_ms[2] < 0.7 * level_ms[4]

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why a token goes to the GPU with the same local rank and not straight to the one that needs it. Then
# each of the $g$ ranks of a node talks to one rank in each other node, messages are long, and the work of forwarding
# is spread evenly. In the extra module students write this exchange, with values.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 8. Hide what is left
#
# Dispatch and combine need no arithmetic, so a GPU can compute meanwhile. What doesn't depend on them?
#
# **The shared expert** [6] sees all tokens of its own rank, so it needs no message, and can compute during dispatch. In
# the program dispatch becomes two operations, a start and a wait, and the shared expert stands between them.


# %% slideshow={"slide_type": "fragment"}
# %%writefile hidden.py
import numpy as np

import ringside


def layer(comm, shared_us, experts_us, hide):
    tokens, inbox = np.zeros((2, comm.size, 24_000), np.uint8)  # 24 kB to each rank
    dispatch = comm.Ialltoall(tokens, inbox)
    if not hide:
        dispatch.Wait()
    ringside.compute(seconds=shared_us * 1e-6, phase="shared expert")
    dispatch.Wait()
    ringside.compute(seconds=experts_us * 1e-6, phase="experts")
    comm.Alltoall(inbox, tokens)  # combine


# %% slideshow={"slide_type": "fragment"}
shown, hidden = (ringside.run("hidden.py:layer", 4, (60, 60, hide)) for hide in (False, True))
print(
    f"one after the other {1e6 * shown.makespan_s:.0f} µs, hidden {1e6 * hidden.makespan_s:.0f} µs"
)
hidden.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. The shared expert computes during dispatch. Combine is exposed.*
#
# Hiding dispatch makes the layer shorter, 210 µs instead of 270. In the backward pass everything goes the other way
# round: the gradients of the outputs travel first, then the experts work, then the gradients of the tokens travel. If
# start and wait are two operations of autograd, the shared expert's backward pass falls between them by itself. The
# assignment's `moe_torch` is about that.
#
# **Two microbatches** hide combine, too. Split your tokens into two halves. While one half travels, the other half
# is in the attention or in the experts.


# %% slideshow={"slide_type": "fragment"}
# %%writefile batches.py
import numpy as np

import ringside


def model(comm, batches, layers=2, seconds=60e-6):
    """Attention, exchange, experts, exchange; in each batch one after the other."""
    moving = [None] * batches
    rows = np.zeros((2, batches, comm.size, 24_000 // batches), np.uint8)
    for step in range(2 * layers):
        for b in range(batches):
            if moving[b]:
                moving[b].Wait()
            ringside.compute(seconds=seconds / batches, phase=f"forward {b}")
            moving[b] = comm.Ialltoall(rows[step % 2, b], rows[1 - step % 2, b])
    for one in moving:
        one.Wait()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/batches",
    "Two layers: 4 times 60 µs of work and 4 exchanges of 75 µs, 540 µs in all. How long do they take with two microbatches?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
one, two = (ringside.run("batches.py:model", 4, (batches,)) for batches in (1, 2))
print(f"one batch {1e6 * one.makespan_s:.0f} µs, two microbatches {1e6 * two.makespan_s:.0f} µs")
reveal("14/batches", 1e6 * two.makespan_s)

# %% slideshow={"slide_type": "fragment"}
two.timeline

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 6. Two layers with two microbatches, in two shades of blue. Attention and experts take turns. The wire is
# busy nearly all the time.*
#
# With two microbatches the layers take 335 µs. Their messages alone take 312 µs in eight pieces, so there is almost
# nothing left to gain: overlap hides the **shorter** of communication and computation, never the longer. If communication
# takes 30 times as long, as in section 6, overlap saves one part in 31. Of the 282 ms of section 1 the shared expert
# hides 1.2. So reduce bytes first, and then hide what is left.
#
# DeepSeek-V3 overlaps two microbatches in training and in inference [1], with the attention of the one beside dispatch
# and combine of the other. Lecture 9 plays DualPipeV, a pipeline schedule that is made for this.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(1e6 * each.makespan_s) for each in (shown, hidden, one, two)] == [270, 210, 540, 335]
assert 8 * (3 * 12 + 3) == 312 and 3 * 24 + 3 == 75 and round(work_ms / m.k, 1) == 1.2
assert 1 + round(travel_ms / work_ms) == 31

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the time with four microbatches. The exchanges have 16 pieces of 21 µs then, and latency grows:
# more pieces hide the ends better and cost more messages.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 9. Experts beside data and tensor parallelism
#
# Expert parallelism is one more axis of a grid of ranks. What do the other axes have to know about the experts?
#
# **Data.** All ranks have tokens of their own. Each has a copy of attention and router (or a shard, lecture 7), so the
# gradients of these weights are summed over *all* ranks. An expert lies on one rank of each group of $P$ ranks. If
# there are $R$ such groups, there are $R$ copies of it, and its gradient is summed over those alone. The rank of an
# expert already got the tokens of its whole group. So both sums hold the tokens of all ranks. Divide both by the number
# of *all* ranks, 8 below. DDP on the group of copies would divide by 2, and the experts' gradients would be four times
# too large.


# %% slideshow={"slide_type": "fragment"}
# %%writefile axes.py
import numpy as np


def sums(comm, expert_ranks, attention, expert):
    """Gradients of a rank's attention and of its expert, summed over their copies."""
    copies = comm.Split(comm.rank % expert_ranks, comm.rank)
    for group, gradient in ((comm, attention), (copies, expert)):
        group.Allreduce(gradient.copy(), gradient)
    return attention[0], expert[0], copies.size


# %% slideshow={"slide_type": "fragment"}
args = [(4, np.full(1000, 1.0 + r), np.full(1000, 1.0 + r)) for r in range(8)]
run = ringside.run("axes.py:sums", 8, args)
for r in (0, 5):
    print(f"rank {r}: attention {run.values[r][0]:.0f}, expert {run.values[r][1]:.0f}, "
          f"{run.values[r][2]} copies")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# Of 8 ranks with experts over 4 of them, ranks 1 and 5 hold the same expert, and their gradients 2 and 6 are summed
# to 8. The attention's sum goes over all 8 ranks and is 36. If you sum both over all ranks, you make a common error.
#
# **Tensor.** If $t$ ranks share the attention of the same tokens, each of them has every token afterwards. If each
# dispatches all of them, every token travels $t$ times. So each dispatches a $t$-th of the tokens, as in the sequence
# parallelism of lecture 8, and an all-gather inside the node brings the outputs together [11]. You can also shard each
# expert over $t$ ranks. Then all its tokens have to be on all $t$ ranks, and the outputs are summed. That is more bytes
# inside the node, and pays where experts are large and few.
#
# | axis | what it shards | what it sends, forward |
# |---|---|---|
# | data | tokens | nothing; gradients afterwards |
# | experts | experts | $2\,(T/t)\,k\,d\,w\,(P-1)/P$ in each layer |
# | tensor | each matrix | about $4\,T d\,w\,(t-1)/t$ in each layer |
#
# With $k = 8$, and if each axis is used alone, the experts' axis sends about four times as much as the tensor axis. Used
# together, each of $t$ ranks dispatches $T/t$ tokens: $2k/t$ against $4(t-1)/t$. For $t = 4$ that is 1.3 times. Both want
# the fast links. Where both are used, the tensor axis gets them, since nothing can be computed during its all-reduces.
# Dispatch and combine cross nodes, with the measures of sections 7 and 8.
#
# You needn't have a tensor axis: DeepSeek-V3 was trained without one [1]. And it needn't be the same for all weights. In
# Megatron's *parallel folding* [13] attention and experts have different axes on the same GPUs. So the ranks that divide
# attention's matrices can hold whole experts.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert run.values[5] == (36, 8, 2) and run.values[1] == (36, 8, 2) and sum(range(1, 9)) == 36
assert 2 * m.k / 4 == 4 and run.values[0] == (36, 6, 2) and 8 / run.values[0][2] == 4
assert round(2 * m.k / 4 / (4 * (4 - 1) / 4), 1) == 1.3

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 10. Hot experts and stragglers
#
# A layer with experts synchronises all ranks twice: nobody goes on before dispatch is complete, and before combine is.
# So the rank with the most tokens sets the pace for all. This program sends tokens of 1 kB, and an expert works 1 µs for
# a token. Eight ranks have 128 tokens each.


# %% slideshow={"slide_type": "fragment"}
# %%writefile hot.py
import numpy as np

import ringside


def layer(comm, go, come, token_us):
    """Only counts matter: go[r] tokens to rank r, come[r] tokens from it."""
    tokens, inbox = np.zeros((sum(go), 1000), np.uint8), np.zeros((sum(come), 1000), np.uint8)
    comm.Alltoallv([tokens, go * 1000], [inbox, come * 1000])
    ringside.compute(seconds=token_us * 1e-6 * len(inbox), phase="expert")
    comm.Alltoallv([inbox, come * 1000], [tokens, go * 1000])


# %% slideshow={"slide_type": "fragment"}
def layer_run(go, token_us=None):
    """go[source, dest]: tokens."""
    token_us = token_us or [1.0] * 8
    args = [(go[r], go[:, r].copy(), token_us[r]) for r in range(8)]
    return ringside.run("hot.py:layer", 8, args)


even = np.full((8, 8), 16)
likes = np.where(np.arange(8) == 3, 0.3, 0.1)  # expert 3 is hot: 30 % of all tokens
hot = rng.multinomial(128, likes, size=8)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/hot",
    "One expert of eight gets 30 % of the tokens instead of 12.5 %. How many times as long does the layer take?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
even_run, hot_run = layer_run(even), layer_run(hot)
print(f"even {1e6 * even_run.makespan_s:.0f} µs, hot {1e6 * hot_run.makespan_s:.0f} µs; "
      f"tokens of the experts {hot.sum(axis=0)}")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
hot_run.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("14/hot", hot_run.makespan_s / even_run.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. Expert 3 is hot. All other ranks wait for its outputs.*
#
# The layer takes 2.3 times as long, with the same number of tokens. Three times in a row the hot rank is the
# slowest: its port receives the most tokens, its expert works longest, and its port sends the most outputs. In general
#
# $$\text{efficiency} \le \frac{\text{mean tokens of a rank}}{\text{most tokens of a rank}} .$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Capacity bounds it.** With $c = 1.25$ each rank gives each expert 20 tokens at most. What is above is dropped.

# %% slideshow={"slide_type": "fragment"}
capacity = math.ceil(1.25 * 128 / 8)
kept = np.minimum(hot, capacity)
kept_run, slow_run = layer_run(kept), layer_run(even, [1.0] * 7 + [1.5])
print(
    f"capacity {capacity}: {1e6 * kept_run.makespan_s:.0f} µs, {1 - kept.sum() / hot.sum():.0%} dropped"
)
print(f"even, rank 7 slower: {1e6 * slow_run.makespan_s:.0f} µs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The layer is fast again, and about one token in seven is dropped. **Capacity turns a problem of time into one of
# learning.** The balance loss of section 4 works on the cause.
#
# **A straggler** does the same to an even load. In the last line each expert has 128 tokens, and the GPU of rank 7
# takes 1.5 times as long. All ranks wait for it, in each layer. In lecture 4 a straggler cost its delay once in a step;
# here it costs it in each of 58 layers, forward and backward.
#
# What can you do when a router is trained, and some experts stay hot? Section 11 gives them copies.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(hot_run.makespan_s / even_run.makespan_s, 1) == 2.3 and capacity == 20
assert 0.12 < 1 - kept.sum() / hot.sum() < 0.2 and kept_run.makespan_s < 1.35 * even_run.makespan_s
assert round(1e6 * (slow_run.makespan_s - even_run.makespan_s)) in range(50, 70)
assert even.sum(axis=0)[7] == 128 and 1 / 8 == 0.125 and with_experts == 58 and likes.sum() == 1

# %% [markdown] slideshow={"slide_type": "notes"}
# Show figure 7 and ask which of the bars of rank 0 are waiting, and for whom. Ask what a capacity of
# $c = 1$ would do to the even case when choices are random: section 3 has the answer.
#
# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 11. Experts as practised
#
# Capacity and balance loss are from 2020 and 2021 [3, 4]. What do systems of 2024 to 2026 do?
#
# **Dropless.** They drop no token. DeepSeek-V3 was trained so [1], and Megatron Core does it by default [13]. So the counts
# differ in each step. One *grouped GEMM* computes all experts of a rank, and buffers are as long as the worst case, or
# the host waits for the counts. What keeps the load even, if capacity doesn't?
#
# **A bias instead of a loss.** DeepSeek-V3 gives each expert a bias $b_e$ [1, 14]. It is added to the score when experts
# are *chosen*, and not when outputs are weighted. After each step
#
# $$b_e \leftarrow b_e - u\,\operatorname{sign}\big(f_e - \tfrac1E\big) ,$$
#
# so an expert that got too many tokens becomes a little less attractive. You find it in section 2, in one line of `layer`
# and one of `train`.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/bias",
    "With a balance loss of factor 0.03 the busiest of 8 experts has 33 % of the tokens in the end. How many has it with a bias, u = 0.003, and no such loss?",
    choices=["about 16 %", "about 33 %", "about 60 %"],
)

# %% slideshow={"slide_type": "fragment"}
RULES = {
    "loss, 0.03": (0.03, 0.0),
    "loss, 0.3": (0.3, 0.0),
    "bias": (0.0, 0.003),
    "both": (0.003, 0.003),
}
errors, histories, busiest = {}, {}, {}
for name, (balance, rate) in RULES.items():
    errors[name], histories[name] = train(8, 8, balance, rate)
    busiest[name] = histories[name][-50:].max(axis=1).mean()  # over the last 50 steps
    print(f"{name:10}: error {errors[name]:.2f}, the busiest expert has {busiest[name]:.0%}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 4, figsize=(9.6, 2.6), layout="constrained", sharey=True)
for axis, (name, history) in zip(axes, histories.items()):
    draw_loads(axis, history, name)
axes[0].set_ylim(0, 60)
axes[0].set_ylabel("tokens of an expert, %")
show(figure, "Four diagrams of the tokens of each of 8 experts over 400 steps, in percent. With a loss of factor 0.03 one expert "
     "stays near a third. With a factor of 0.3, with the bias, and with bias and a small loss, the lines start far apart and "
     "close in on 12.5 percent.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("14/bias", f"about {100 * busiest['bias']:.0f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. Load of 8 experts in training, means of 10 steps. The dotted line is an even load. ("Both" is the bias and a
# loss of factor 0.003.)*
#
# The bias leaves 16 % to the busiest expert; even would be 12.5. With the loss you have to choose: a factor of 0.03
# leaves 33 %, and one of 0.3 leaves 15 %. The errors are close to each other, so this example doesn't say which is
# better. Its authors' reason for the bias is the gradient [14]: the loss adds one that has nothing to do with the
# task, and the bias adds none, because it acts on the choice alone. DeepSeek-V3 keeps a very small loss as well, within
# each sequence [1]. Megatron Core has both, and takes $u = 0.001$ unless you say otherwise [13].

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Copies in spare slots.** In inference the router learns no more, and the load is what users ask for. DeepSeek's load
# balancer, EPLB [15], and vLLM [16] then give a rank a few *spare slots* for redundant experts. The most loaded expert
# gets one more copy, again and again. Then all copies are dealt out to the ranks, the heaviest first. Here are 16
# experts with 5 to 90 tokens, 400 in all, on eight ranks.


# %% slideshow={"slide_type": "fragment"}
LOADS = np.array([90, 80, 40, 30, 30, 20, 20, 15, 15, 10, 10, 10, 10, 8, 7, 5])


def placement(loads, spare, ranks=8):
    """Copies of each expert, and the experts of each rank."""
    copies = np.ones(len(loads), int)
    for _ in range(spare):
        copies[(loads / copies).argmax()] += 1
    owner = np.repeat(np.arange(len(loads)), copies)
    experts, tokens, slots = [[] for _ in range(ranks)], np.zeros(ranks), len(owner) // ranks
    for e in sorted(owner, key=lambda e: -loads[e] / copies[e]):
        r = min((r for r in range(ranks) if len(experts[r]) < slots), key=tokens.__getitem__)
        experts[r].append(e)
        tokens[r] += loads[e] / copies[e]
    return copies, experts


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/spare",
    "Two experts a rank, in their order: the longest rank has 170 tokens. Dealt out by load it has 95. And with a third slot on each rank, for 8 more copies?",
    unit="tokens",
)


# %% slideshow={"slide_type": "fragment"}
def rank_tokens(loads, copies, experts):
    return np.array([sum(loads[e] / copies[e] for e in mine) for mine in experts])


plans = {"in order": (np.ones(16, int), np.arange(16).reshape(8, 2))}
plans |= {f"{spare} spare slots": placement(LOADS, spare) for spare in (0, 8)}
longest, layer_us = {}, {}
for name, plan in plans.items():
    tokens = rank_tokens(LOADS, *plan)
    go = np.tile(np.rint(tokens).astype(int), (8, 1))  # each of 8 ranks has such tokens
    longest[name], layer_us[name] = tokens.max(), 1e6 * layer_run(go).makespan_s
    print(f"{name:13}: at most {longest[name]:5.1f} tokens, layer {layer_us[name]:4.0f} µs")
reveal("14/spare", longest["8 spare slots"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With eight copies the longest rank has 52.5 tokens; even would be 50. On the clock the layer takes about 0.6 of what
# it takes without copies. Without them nothing can be better than 90, since the hottest expert is on one rank. On four
# ranks you would hardly need copies, because a rank's mean is 100 there. **The wider you spread experts, the more you
# need copies.**

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/tomorrow",
    "The next day a fifth of the tokens goes to other experts. How much is left of what the eight copies gained?",
    choices=["nearly all", "about 60 %", "nothing"],
)

# %% slideshow={"slide_type": "fragment"}
days = np.random.default_rng(5)
next_days = [0.8 * LOADS + 0.2 * days.permutation(LOADS) for _ in range(400)]
later = {name: np.mean([rank_tokens(day, *plan).max() for day in next_days])
         for name, plan in plans.items()}  # fmt: skip
gain_left = (later["0 spare slots"] - later["8 spare slots"]) / (
    longest["0 spare slots"] - longest["8 spare slots"]
)
print({name: round(float(tokens), 1) for name, tokens in later.items()}, f"{gain_left:.0%}")
reveal("14/tomorrow", f"about {round(100 * gain_left, -1):.0f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# About 60 % is left. So a balancer has to measure and to move experts again and again. By its defaults vLLM averages
# over a window of 1000 steps and rearranges after 3000 [16].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(busiest[name], 2) for name in RULES] == [0.33, 0.15, 0.16, 0.17]
assert min(errors.values()) > 0.04 and max(errors.values()) < 0.08 < without / 2
assert LOADS.sum() == 400 and (longest["in order"], longest["0 spare slots"]) == (170, 95)
assert longest["8 spare slots"] == 52.5 and LOADS.sum() / 8 == 50 and LOADS.sum() / 4 == 100
assert round(layer_us["8 spare slots"] / layer_us["0 spare slots"], 1) == 0.6
assert 0.55 < gain_left < 0.65 and (LOADS.max(), LOADS.min()) == (90, 5)
vllm = {"window_size": 1000, "step_interval": 3000}  # defaults [16]
assert list(vllm.values()) == [1000, 3000] and np.isclose(100 / 8, 12.5)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Wide expert parallelism.** Why spread a layer over more GPUs than its memory needs? In decode a rank reads the weights
# of all its experts for few tokens. Let each GPU have 32 tokens, and take nodes of eight H100, with weights and
# dispatch in FP8.

# %% slideshow={"slide_type": "fragment"}
h100 = ringside.Machine.load("dgx_h100")
for ranks in (16, 64, 256):
    read_us = 1e6 * m.E / ranks * expert / h100.memory_bytes_per_s  # a byte a weight
    sent = 32 * m.k * m.d * 3 * (ranks - 8) / ranks  # 3 bytes a number in both directions
    wire_us = 1e6 * sent * h100.beta_s_per_byte
    print(f"{ranks:3} GPUs: {m.E // ranks:2} on each, {32 * ranks * m.k // m.E:3} tokens an expert; "
          f"weights {read_us:3.0f} µs, dispatch and combine {wire_us:3.0f} µs")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# From 16 GPUs to 256 the time to read the weights falls from 210 to 13 µs, because a GPU has one expert instead of 16.
# That expert sees 256 tokens, so it shares the reading among more of them (lecture 13). Now dispatch and combine are the
# longer part, with 111 µs. Where do they get faster?

# %% [markdown] slideshow={"slide_type": "fragment"}
# **The domain decides.** Take the ratio of section 6 again, over the number of GPUs, with the rates that GEMMs and
# NCCL reach instead of peaks. A `gb200_nvl72` is a rack whose 72 GPUs are one NVLink domain. Between racks each GPU has
# a port of 48 GB/s.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/racks",
    "On 64 GPUs of one rack the ratio is 0.8. What is it on 144 GPUs, in two racks?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
nvl72, a100 = (ringside.Machine.load(name) for name in ("gb200_nvl72", "dgx_a100"))
reached = {"zaratan": (zaratan, a100), "dgx_h100": (h100, h100), "gb200_nvl72": (nvl72, nvl72)}
ratios = {}
for name, (machine, gpu) in reached.items():
    rate = gpu.rate("bf16", "products")
    ratios[name] = {
        n: comm_over_comp(n, m.f, machine, rate) for n in (4, 8, 16, 32, 64, 72, 144, 256)
    }
    print(name, {n: round(ratio, 1) for n, ratio in ratios[name].items()})
racks = ratios["gb200_nvl72"]


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(6.4, 3), layout="constrained")
for (name, line), colour, marker in zip(ratios.items(), (RED, YELLOW, BLUE), "osD"):
    axis.loglog(line.keys(), line.values(), color=colour, marker=marker, label=name)
axis.axhline(1, color=GREY, linestyle=":")
axis.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
axis.set(xlabel="GPUs that share the experts", ylabel="communication\nover computation")
axis.set_xticks(
    [4, 8, 16, 32, 64, 144, 256], ["4", "8", "16", "32", "64", "144", "256"], minor=False
)
axis.set_xticks([], minor=True)
show(figure, "Communication over computation against the number of GPUs, both axes logarithmic, for three machines. Each line is "
     "below 1 as long as the GPUs are in one domain, and jumps behind it: zaratan from 4 to 8 GPUs, dgx_h100 from 8 to 16, and "
     "gb200_nvl72 from 72 to 144.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("14/racks", racks[144])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. The layer of DeepSeek-V3 on three machines. Each line jumps where the experts leave the domain of fast links.*
#
# On two racks the ratio is 6.2, eight times that of one. The jump is the same story on each machine, at another number
# of GPUs: 4 on `zaratan`, 8 on H100, 72 in the rack. So ask of a machine first how many GPUs are in its domain.
# Megatron's guide has the rule: keep expert and tensor parallelism inside the NVLink domain [13].

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# **Measured.** In May 2026 SemiAnalysis compared two machines of Blackwell GPUs that differ in their domain, 72 GPUs
# against eight [17]. Both served DeepSeek-R1, a model of the same shape, with 1024 tokens of prompt and of response. (In
# FP4, with multi-token prediction, and with prefill and decode on separate GPUs.) Interpolated between the measured
# points, a GPU gives so many tokens a second in all:
#
# | tokens/s for each user | a GPU of the rack | a GPU of the nodes of eight |
# |---|---|---|
# | 25 | 14,125 | 12,292 |
# | 125 | 4130 | 941 |
# | 250 | 186 | 193 |
#
# At 125 tokens a second the rack gives 4.39 times as much. That is the largest gap of the two curves. At 25 it gives 1.15
# times as much, and at 250 less: such small batches, they say, fit into one node.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
served = {25: (14_125, 12_292), 125: (4130, 941), 250: (186, 193)}  # tokens/s: user, GPUs [17]
assert served[25] == (14_125, 12_292) and served[125] == (4130, 941) and served[250] == (186, 193)
gains = [round(rack_gpu / node_gpu, 2) for rack_gpu, node_gpu in served.values()]
assert gains == [1.15, 4.39, 0.96] and max(gains) == gains[1]
assert [round(line[64], 1) for line in ratios.values()] == [26.5, 4.7, 0.8]
assert round(racks[144], 1) == 6.2 and 7 < racks[144] / racks[64] < 8.5
assert all(line[n] < 1 for line, n in zip(ratios.values(), (4, 8, 72)))
assert (zaratan.ranks_per_node, h100.ranks_per_node, nvl72.ranks_per_node) == (4, 8, 72)
assert round(read_us) == 13 and round(wire_us) == 111 and round(16 * read_us, -1) == 210
assert 32 * ranks * m.k // m.E == ranks == 256 and round(1e-9 / nvl72.beta_s_per_byte) == 48

# %% [markdown] slideshow={"slide_type": "notes"}
# The section has four short predictions. If time is short, leave out the wide expert parallelism and show figure 9.
# Ask behind figure 8 why the bias may not weight the outputs: then it would change what the layer
# computes, and the router's gradient with it.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 12. What has been published
#
# **A measurement.** The first version of DeepEP [8] has times of its low-latency kernels on H800. Each GPU has 128 tokens
# and a port of 50 GB/s to other nodes. Dispatch sends 7392 bytes for a token: 7168 numbers of 8 bits, with a scale of 4
# bytes for each 128 of them. Combine sends 14,336. There are 8 GPUs in a node, so the fraction $(P-8)/P$ of the tokens
# crosses. Let the time be a constant and the time for these. The times on 16 and on 256 GPUs fix both numbers.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/deepep",
    "Dispatch takes 118 µs on 16 GPUs and 194 µs on 256. How long does it take on 64?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
deep = table(LECTURES / "data" / "deepep_low_latency.csv")
cross = (deep["gpus"] - 8) / deep["gpus"]
lines, rates = {}, {}
for way, row in (("there", 7168 + 7168 // 128 * 4), ("back", 2 * 7168)):
    took = deep[f"{way}_us"]
    slope = (took[5] - took[1]) / (cross[5] - cross[1])
    lines[way] = took[1] + slope * (cross - cross[1])
    rates[way] = 128 * 8 * row / slope / 1e3  # GB/s
    name = {"there": "dispatch", "back": "combine"}[way]
    print(f"{name}: {lines[way][0]:.0f} µs and {rates[way]:.1f} GB/s")
    for n in (2, 3, 4):
        print(f"  {deep['gpus'][n]:3} GPUs: line {lines[way][n]:.0f}, measured {took[n]} µs")
reveal("14/deepep", deep["there_us"][3])

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# On 64 GPUs the line says 179 µs for dispatch, and 173 were measured [8]. On 32, 64 and 128 GPUs the line is at
# most 3.4 % off for dispatch, and at most 6 % for combine. Its rate is 46.7 GB/s for dispatch, of a port's 50, and 41.7
# for combine. So the formula of section 5 holds, if you count **only tokens that leave the node**.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The table has a column of bandwidths, too. It says 98 GB/s for 8 GPUs, 63 for 16 and 39 for 256 [8]. How can a port
# of 50 GB/s give 98? The column is all tokens divided by the time, those included that stay in the node. So it falls
# as more tokens cross. What crosses a port is much the same in all cases from 16 GPUs on, 32 to 38 GB/s in dispatch.
#
# The second version says 90 GB/s for dispatch on 16 Hopper GPUs and 61 on 32 [8]. Count what leaves the node: 45 and 46.
# The port didn't change.
#
# **A bound for one user.** The authors of DeepSeek-V3 compute how fast the model can write at most, if nothing but
# dispatch and combine takes time [10]. They take 32 tokens a GPU, 9 copies a token, and 3 bytes a number in both
# directions together. Each of the 61 layers takes the time of two such exchanges, for two microbatches. That makes 67.8
# tokens a second for a user with ports of 50 GB/s (they write 67), and about 1200 with links of 900 GB/s. Again this is a
# model, and they say so.

# %% slideshow={"slide_type": "fragment"}
for gb_per_s in (50, 900):
    bound = 1 / (61 * 2 * 3 * 32 * 9 * 7000 / (gb_per_s * 1e9))  # they round the width to 7000
    print(f"{gb_per_s} GB/s: {bound:.1f} tokens a second")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 7168 + 7168 // 128 * 4 == 7392 and [round(rates[way], 1) for way in rates] == [46.7, 41.7]
wrong = {way: np.abs(lines[way] / deep[f"{way}_us"] - 1)[2:5].max() for way in lines}
assert round(lines["there"][3]) == 179 and deep["there_us"][3] == 173
assert round(wrong["there"], 3) == 0.034 and 0.05 < wrong["back"] < 0.065
assert deep["there_gb_per_s"][[0, 1, 5]].tolist() == [98, 63, 39]
through = 128 * 8 * 7392 * cross[1:] / deep["there_us"][1:] / 1e3
assert (round(through.min()), round(through.max())) == (32, 38)
assert np.allclose(128 * 8 * 7392 / deep["there_us"] / 1e3, deep["there_gb_per_s"], rtol=0.02)
second = {16: 90, 32: 61}  # GB/s; "logical bandwidth", with what stays in the node [8]
assert [int(gb * (n - 8) / n + 0.5) for n, gb in second.items()] == [45, 46]
assert round(bound, -2) == 1200 and round(bound / 18, 1) == 67.8 and int(bound / 18) == 67

# %% [markdown] slideshow={"slide_type": "notes"}
# Let pairs find out from the table of [8] alone what its column of bandwidths counts. Multiplying it
# by the time gives the same bytes in each row. The question to ask of every such number: which bytes, and through
# which wire?

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 13. Where it breaks
#
# - **Memory stays.** Each weight is stored somewhere, and in training it has a gradient and optimizer states. A layer
#   of section 1 has 22.5 GB of experts in bf16, for 0.8 GB that a token uses.
# - **A smaller batch doesn't help.** Bytes and FLOP shrink together, so a ratio of 30 remains 30.
# - **Few tokens are uneven.** In the decode of lecture 13 a rank has few tokens. Then some experts have none, some have
#   several, and each one that has any reads all of its weights.
# - **Counts come first.** A rank can't allocate its memory before it knows them. On GPUs the host waits for
#   them, or buffers are as long as the worst case.
# - **Dropped tokens depend on others.** If a model drops tokens, whether one is kept depends on the others in its batch.
#   So the same prompt may get another response in another batch.
# - **A network may be slower than its port.** All-to-all is the pattern that uses every link at once. Our model has no
#   switches between the ports.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(m.E * expert * w / 1e9, 1) == 22.5
assert round((m.k + m.shared) * expert * w / 1e9, 1) == 0.8 and round(comm_over_comp(P)) == 30

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Summary
#
# The lecture began with a layer of 256 experts on 64 GPUs: **282 ms of dispatch and combine for 9.25 ms of work**, on
# nodes of four A100 behind one port of 12.5 GB/s.
#
# - *What do you get?* 671 billion weights for the arithmetic of 37 billion. In our small example they brought
#   the error most of the way to that of a large layer.
# - *How does a program send tokens?* Counts first, then dispatch, then combine. A bias or a balance loss keeps all
#   experts busy. A capacity, or copies in spare slots, bound the busiest rank.
# - *How can 282 ms become less?* At most 4 nodes a token and one copy to each node leave 141 ms. FP8 in dispatch leaves
#   106. Two microbatches hide 9.25 of them behind the experts. The layer doesn't suit `zaratan`.
#
# What would suit it? On `zaratan`, without these measures, experts of 62,400 hidden units would compute as long as their
# tokens travel. Or you take another machine. DeepSeek-V3 was trained on H800 [1]: nodes of eight GPUs, each with a port of
# 50 GB/s of its own [8]. With the same measures dispatch and combine take 6.2 ms there, and not 106. But an H800 also
# computes faster, at a peak of 989 TFLOP/s in bf16 [12]:
#
# | forward, 4096 tokens | ms |
# |---|---|
# | the experts of a GPU | 2.9 |
# | the shared expert | 0.4 |
# | attention, causal | 2.2 |
# | together | 5.5 |
# | dispatch and combine | 6.2 |
#
# The report says the same in words: a computation-to-communication ratio of "approximately 1:1" [1, section 3.2.1].
# DualPipe exists because of this number. (The table leaves out two things, and they work against each other: V3's
# products are in FP8, whose peak is twice as high, and no product reaches its peak.) **If you buy a faster processor,
# you need a faster network.**
#
# | what | why |
# |---|---|
# | $C = \lceil c k T / E \rceil$ | nobody waits for more than $C$ tokens of an expert |
# | $1/\sqrt{2\pi\mu}$ dropped with $c = 1$ | $\mu$ tokens an expert, chosen at random |
# | $E \sum_e f_e P_e$, or a bias | the router keeps all experts busy |
# | $T k d w (P-1)/P$ bytes each way | a copy to each expert, but those at home |
# | communication over computation: $w F q \beta / 3f$, for $q$ ranks at a port | only an expert's hidden width counts |
# | at most $M$ copies between nodes | few nodes, one copy to each |
# | overlap hides the shorter part | so reduce bytes first |
# | spare slots | the hottest expert is more than a rank's mean |

# %% slideshow={"slide_type": "fragment"}
own_port_ms = 1e3 * 3 * m.d * T * 4 * (1 - 8 / P) / 50e9  # 3 bytes a number, there and back
h800 = 989e12  # FLOP/s, peak in bf16
h800_ms = work_ms * F / h800
shared_ms = h800_ms / m.k
scores = T * T / 2 * 128 * 2 * (192 + 128)  # FLOP: pairs of tokens, heads, QK^T and PV
attention_ms = 1e3 * (2 * T * heads + scores) / h800
print(f"experts {h800_ms:.2f}, shared expert {shared_ms:.2f}, attention {attention_ms:.2f} ms")
print(f"nodes of eight, 50 GB/s for each GPU, at most 4 nodes: {own_port_ms:.1f} ms")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(travel_ms) == 282 and round(work_ms, 2) == 9.25 and round(own_port_ms, 1) == 6.2
assert round(between_ms["at most 4 nodes"]) == 141 and round(h800_ms, 1) == 2.9
assert (round(shared_ms, 1), round(attention_ms, 1), h800 / 1e12) == (0.4, 2.2, 989)
assert round(h800_ms + shared_ms + attention_ms, 1) == 5.5
assert round(0.75 * between_ms["at most 4 nodes"]) == 106 and round(enough, -2) == 62_400
assert round(stored / 1e9) == 671 and round(used / 1e9) == 37

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. A speed of light
#
# AMD and GPU MODE held a contest in 2025 for dispatch and combine among eight MI300X in a
# node. The task states a "speed of light" for five sizes [9]. It is the result of a model, and not a measurement. Which
# model was it? Try latency and bandwidth, $\alpha + n\beta'$, where $n$ is $T\,k\,d\,w\,(P-1)/P$ with 2 bytes a number.
# The first and the last row of the table fix $\alpha$ and $\beta'$.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/light",
    "16 tokens, 2 experts, width 6144: 6.33 µs. 256, 8, 7168: 104.36 µs. And 256 tokens, 8 experts, width 4096?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
light = table(LECTURES / "data" / "amd_speed_of_light.csv")
nbytes = light["max_num_tokens"] * light["experts_per_token"] * light["hidden_dim"] * 2 * 7 / 8
per_byte = (light["time_us"][-1] - light["time_us"][0]) / (nbytes[-1] - nbytes[0])
alpha_us = light["time_us"][0] - per_byte * nbytes[0]
line_us = alpha_us + per_byte * nbytes
print(f"{alpha_us:.1f} µs and {1e-3 / per_byte:.1f} GB/s")
for size, said, ours in zip(nbytes, light["time_us"], line_us):
    print(
        f"{size / 1e6:6.2f} MB: stated {said:6.2f} µs, line {ours:6.2f} µs, {ours / said - 1:+.1%}"
    )
reveal("14/light", line_us[3])

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# The line says 61.8 µs, and so does the table. Four of its five rows are 5.0 µs and 258.6 GB/s, within 0.1 %. The
# second row is 4 % lower than the line, and we don't know why. So the table [9] is our own formula with two constants,
# for one direction. Its fit says nothing about GPUs. It says that whoever made the table thought as we do.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
off = np.abs(line_us / light["time_us"] - 1)
assert (
    off[[0, 2, 3, 4]].max() < 0.001
    and round(100 * off[1]) == 4
    and line_us[1] > light["time_us"][1]
)
assert round(alpha_us, 1) == 5.0 and round(1e-3 / per_byte, 1) == 258.6 and len(off) == 5
assert round(line_us[3], 1) == 61.8 == round(light["time_us"][3], 1)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Puzzles
#
# **Puzzle 1: no padding.** Each rank has up to 30 tokens for each other one. This program sends buffers of 40 tokens to
# everybody, full or not: 48,000 bytes from each rank. The target is 24,100 bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np


def arrived(comm, capacity=40, d=100):
    counts = 10 * ((np.arange(comm.size) + comm.rank) % comm.size)  # tokens for each rank
    tokens = np.zeros((comm.size, capacity, d), np.float32)
    for r, n in enumerate(counts):
        tokens[r, :n] = comm.rank + 1
    inbox = np.empty_like(tokens)
    comm.Alltoall(tokens, inbox)
    return float(inbox.sum())


# %% slideshow={"slide_type": "fragment"}
right = [float(sum(10 * ((r + s) % 4) * 100 * (s + 1) for s in range(4))) for r in range(4)]
attempt = puzzle("puzzle1.py:arrived", 4, expected=right, at_most_bytes=24_100,
                 hint="What must a rank know before it can receive tokens without padding?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Exchange the counts first, 24 bytes, and then so many tokens with `Alltoallv`. No rank sends more than 60 tokens of 400
# bytes to others, so 24,024 bytes are enough.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
Path("solved1.py").write_text("""import numpy as np


def arrived(comm, d=100):
    counts = 10 * ((np.arange(comm.size) + comm.rank) % comm.size)
    due = np.empty(comm.size, counts.dtype)
    comm.Alltoall(counts, due)
    tokens = np.full((counts.sum(), d), comm.rank + 1, np.float32)
    inbox = np.empty((due.sum(), d), np.float32)
    comm.Alltoallv([tokens, counts * d], [inbox, due * d])
    return float(inbox.sum())
""")
# %% slideshow={"slide_type": "skip"} tags=["checked"]
solved = puzzle("solved1.py:arrived", 4, expected=right, at_most_bytes=24_100, draw=False)
assert solved.solved and not attempt.solved
assert (
    max(solved.sent_bytes) == 24_024 == 60 * 400 + 24 < 24_100 and attempt.sent_bytes[0] == 48_000
)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: combine early.** Each rank has four experts, which work 20 µs each. Then the outputs go back,
# 164 µs in all. The target is 115 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import numpy as np

import ringside


def combined(comm, experts=4, nbytes=6000):
    outputs = np.zeros((experts, comm.size, nbytes), np.uint8)
    back = np.empty_like(outputs)
    for e in range(experts):
        ringside.compute(seconds=20e-6, phase=f"forward {e}")
        outputs[e] = e + 1
    for e in range(experts):
        comm.Alltoall(outputs[e], back[e])
    return int(back[:, :, 0].sum())


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle2.py:combined", 4, expected=40, at_most_us=115,
                 hint="What is ready when the first expert is done?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Start an expert's exchange with `Ialltoall` as soon as it is done. An exchange takes 21 µs, about as long as
# the next expert works. So only the last one is seen, and it takes 101 µs.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle2.py").read_text()
early = "        outputs[e] = e + 1\n        sent.append(comm.Ialltoall(outputs[e], back[e]))\n"
text = text.replace("    back = np", "    sent = []\n    back = np")
text = text.replace("        outputs[e] = e + 1\n", early)
text = text.replace("    for e in range(experts):\n        comm.Alltoall(outputs[e], back[e])\n",
                    "    for one in sent:\n        one.Wait()\n")  # fmt: skip
Path("solved2.py").write_text(text)
solved = puzzle("solved2.py:combined", 4, expected=40, at_most_us=115, draw=False)
assert solved.solved and not attempt.solved
assert (round(attempt.time_us), round(solved.time_us)) == (164, 101) and 101 < 115
assert round(solved.time_us - 4 * 20) == 21

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: a rank for each expert.** Sixteen experts get 5 to 90 tokens each, and the first ones are the hottest.
# Each of four ranks takes four experts in their order. A token takes 1 µs. Rank 0 works 240 µs while the others wait.
# The target is 110 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import ringside

TOKENS = [90, 80, 40, 30, 30, 20, 20, 15, 15, 10, 10, 10, 10, 8, 7, 5]


def placement_of(num_ranks):
    """The rank of each expert."""
    return [e * num_ranks // len(TOKENS) for e in range(len(TOKENS))]


def worked(comm):
    mine = [n for n, rank in zip(TOKENS, placement_of(comm.size)) if rank == comm.rank]
    ringside.compute(seconds=1e-6 * sum(mine), phase="experts")
    comm.Barrier()  # stands for the way back
    return len(placement_of(comm.size))


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle3.py:worked", 4, expected=16, at_most_us=110,
                 hint="Who should get the next expert, if you give out the hottest first?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Deal out the experts by their tokens, the hottest first, each to the rank with the fewest tokens so far. There are 400
# tokens, so nothing can be better than 100 a rank, and this reaches it. Here a rank may have any number of experts; in
# section 11 it has two slots.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle3.py").read_text()
plain = "    return [e * num_ranks // len(TOKENS) for e in range(len(TOKENS))]\n"
greedy = """    load, found = [0] * num_ranks, []
    for n in TOKENS:
        found.append(load.index(min(load)))
        load[found[-1]] += n
    return found
"""
assert plain in text
Path("solved3.py").write_text(text.replace(plain, greedy))
solved = puzzle("solved3.py:worked", 4, expected=16, at_most_us=110, draw=False)
assert solved.solved and not attempt.solved and sum((90, 80, 40, 30)) == 240
assert round(solved.time_us) in range(100, 108) and round(attempt.time_us) in range(240, 248)

# %% [markdown] slideshow={"slide_type": "notes"}
# In puzzle 1 ask when padding is the better way: when counts would have to
# travel to the host first. In puzzle 3 ask why four ranks need no copies and eight do.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 17. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A rank has 96 tokens, 16 experts and $k = 2$. The capacity factor is 1.5. What is an expert's capacity?
# What is the balance loss of two experts, if $f = (0.75, 0.25)$ and $P = (0.6, 0.4)$?
#
# <details><summary>Answer</summary>
#
# $\lceil 1.5 \cdot 2 \cdot 96 / 16 \rceil = 18$ tokens. The loss is $2\,(0.75 \cdot 0.6 + 0.25 \cdot 0.4) = 1.1$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert math.ceil(1.5 * 2 * 96 / 16) == 18
assert np.isclose(2 * np.dot([0.75, 0.25], [0.6, 0.4]), 1.1)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** Eight ranks have 2048 tokens each, of width 4096 in bf16, and 2 experts a token. How many MB does a
# rank send each way, at random choices? How many in the four all-to-alls of a training step? And if buffers of
# $c = 1.25$ are sent in full?
#
# <details><summary>Answer</summary>
#
# $2048 \cdot 2 \cdot 4096 \cdot 2 \cdot 7/8$ bytes are 29.4 MB each way, and 117 MB in a step. Full buffers have 36.7 MB
# each way.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
each_way = 2048 * 2 * 4096 * 2 * 7 / 8
assert [round(n * each_way / 1e6, 1) for n in (1, 1.25)] == [29.4, 36.7]
assert round(4 * each_way / 1e6) == 117

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** The machine `dgx_a100` has nodes of eight A100 with a port of 24 GB/s for each GPU. What is the ratio of
# section 6 on 64 of them, at peak arithmetic? How many hidden units would make it 1?
#
# <details><summary>Answer</summary>
#
# No port is shared, and 56 of 64 GPUs are elsewhere. So it is $2 \cdot 312 \cdot 10^{12} \cdot 4.17 \cdot 10^{-11} \cdot
# \frac78 / (3 \cdot 2048) = 3.7$. 7584 hidden units would be enough.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
dgx = ringside.Machine.load("dgx_a100")
assert round(comm_over_comp(64, machine=dgx), 1) == 3.7 and dgx.gpus_per_nic == 1
assert round(m.f * comm_over_comp(64, machine=dgx)) == 7584 and dgx.ranks_per_node == 8
assert round(1e11 * dgx.beta_s_per_byte, 2) == 4.17 and round(1e-9 / dgx.beta_s_per_byte) == 24

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Four nodes have 2 experts each, and a token uses 2 experts at random. How many copies does it send to
# other nodes, with one for each expert? And with one to each node?
#
# <details><summary>Answer</summary>
#
# $2 \cdot \frac34 = 1.5$ copies. A node has none of the token's experts with probability $\binom62 / \binom82 = 15/28$. So
# it is $3 \cdot 13/28 = 1.39$ with deduplication. It saves little, because two experts are seldom on the same node.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(other_nodes(4, 8, 2), 2) == 1.39 and math.comb(6, 2) / math.comb(8, 2) == 15 / 28
nodes = choices(20_000, 8, 2) // 2  # the tokens are on node 0
assert abs((nodes > 0).sum(axis=1).mean() - 1.5) < 0.02
copies = [len(set(pair) - {0}) for pair in nodes.tolist()]
assert abs(np.mean(copies) - other_nodes(4, 8, 2)) < 0.02

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** Of eight equal ranks, one gets twice the tokens of each of the others. What is the bound on the
# efficiency? What does a capacity factor of 1.25 make of it, and which fraction of the tokens is dropped?
#
# <details><summary>Answer</summary>
#
# The fractions are $2/9$ and seven times $1/9$. The mean is $1/8$, so the efficiency is at most $9/16 = 56\,\%$. With
# capacity the hot rank keeps $1.25/8$. Of all tokens $2/9 - 1.25/8 = 6.6\,\%$ are dropped. The mean is then 0.934 of
# $1/8$, and the bound is $0.934 / 1.25 = 75\,\%$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
load = np.array([2] + [1] * 7) / 9
left_over = np.minimum(load, 1.25 / 8)
assert round(load.mean() / load.max(), 2) == 0.56 and round(1 - left_over.sum(), 3) == 0.066
assert round(left_over.mean() / left_over.max(), 2) == 0.75 and round(left_over.sum(), 3) == 0.934

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Your turn
#
# The assignment `a14_experts` asks for what this lecture left out. In `route` you write the router (the *gate*) for
# single tokens: which are kept, which are dropped, and with which weight. In `exchange` a rank has several experts, a
# token several copies (*rows*), and the backward pass goes the same ways. In `moe_torch` dispatch and combine become
# operations of autograd, and the shared expert hides them. The extra module is `node_limited`: few nodes a token, and the
# exchange on two levels with all its values.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. DeepSeek-AI. DeepSeek-V3 technical report. arXiv:2412.19437. Sizes as in the model's configuration,
#    inference/configs/config_671B.json.
# 2. NVIDIA. NVIDIA A100 tensor core GPU. Data sheet.
# 3. W. Fedus, B. Zoph, N. Shazeer. Switch transformers: scaling to trillion parameter models with simple and efficient
#    sparsity. Journal of Machine Learning Research 23, 2022. arXiv:2101.03961.
# 4. D. Lepikhin, H. Lee, Y. Xu, D. Chen, O. Firat, Y. Huang, M. Krikun, N. Shazeer, Z. Chen. GShard: scaling giant
#    models with conditional computation and automatic sharding. ICLR 2021. arXiv:2006.16668.
# 5. N. Shazeer, A. Mirhoseini, K. Maziarz, A. Davis, Q. Le, G. Hinton, J. Dean. Outrageously large neural networks: the
#    sparsely-gated mixture-of-experts layer. ICLR 2017. arXiv:1701.06538.
# 6. S. Rajbhandari, C. Li, Z. Yao, M. Zhang, R. Y. Aminabadi, A. A. Awan, J. Rasley, Y. He. DeepSpeed-MoE: advancing
#    mixture-of-experts inference and training to power next-generation AI scale. ICML 2022. arXiv:2201.05596.
# 7. A. Q. Jiang, and others. Mixtral of experts. arXiv:2401.04088.
# 8. DeepSeek-AI. DeepEP. github.com/deepseek-ai/DeepEP at commit 0297fc8: docs/legacy.md for the first version, README.md
#    for the second.
# 9. AMD, GPU MODE. Reference kernels, task "single node all2all". github.com/gpu-mode/reference-kernels,
#    problems/amd_distributed/all2all/task.yml at commit f83cb92.
# 10. C. Zhao, and others. Insights into DeepSeek-V3: scaling challenges and reflections on hardware for AI
#     architectures. ISCA 2025. arXiv:2505.09343.
# 11. S. Singh, O. Ruwase, A. A. Awan, S. Rajbhandari, Y. He, A. Bhatele. A hybrid tensor-expert-data parallelism
#     approach to optimize mixture-of-experts training. ICS 2023. arXiv:2303.06318.
# 12. S. Bekman. Machine learning engineering, compute/accelerator/README.md. github.com/stas00/ml-engineering, commit
#     744d01e1. Peaks from data sheets, and the fastest products that were measured.
# 13. NVIDIA. Megatron Core MoE. github.com/NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md at commit 022bcb5a.
# 14. L. Wang, H. Gao, C. Zhao, X. Sun, D. Dai. Auxiliary-loss-free load balancing strategy for mixture-of-experts.
#     arXiv:2408.15664, 2024.
# 15. DeepSeek-AI. Expert parallelism load balancer (EPLB). github.com/deepseek-ai/EPLB, README.
# 16. vLLM. Documentation of version 0.12.0, pages vllm.config.parallel (EPLBConfig) and
#     vllm.distributed.eplb.eplb_state. docs.vllm.ai/en/v0.12.0.
# 17. SemiAnalysis. GB200 NVL72 vs B200 on DeepSeek R1 670B. 23 May 2026,
#     inferencex.semianalysis.com/blog/gb200-nvl72-vs-b200-disagg-deepseek-r1-fp4-dynamo-trt.
# 18. DeepSeek-AI. DeepSeek-V4: towards highly efficient million-token context intelligence. 2026. arXiv:2606.19348,
#     sections 2.1, 3.1 and 4.2.1.
#
# Read next: [6], for shared experts and exchanges that know the nodes; and [10], for what a network should look like if
# such models are to run on it.
