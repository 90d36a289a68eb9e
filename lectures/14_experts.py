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
# A model learns more with more weights, and every weight costs arithmetic. A *mixture of experts* breaks this rule:
# it has many weights, and uses a few of them for each token. The arithmetic stays small. But the weights of a token
# may lie on any GPU, so the token has to travel. In this lecture you find out what that costs, and what can be done
# about it.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - count the weights that a mixture of experts stores and those that a token uses;
# - write a gate's rules: experts a token, capacity, dropped tokens, balance loss;
# - send tokens to experts and back with uneven counts, and predict the bytes;
# - say from three numbers of a machine whether the exchange takes longer than the experts;
# - reduce the bytes between nodes with few nodes a token, and hide what is left;
# - read published tables of such exchanges, and tell a model from a measurement.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 1](01_messages.ipynb), for the all-to-all. [Lecture 8](08_model_versus_data.ipynb), for
# layers that are cut.
#
# | sign | meaning |
# |---|---|
# | $E, k$ | experts of a layer, and experts that each token uses |
# | $T$ | tokens of a rank |
# | $d, f$ | width of the model, and hidden units of an expert |
# | $c, C$ | capacity factor, and the room of an expert in tokens |
# | $P, g, q$ | ranks, ranks of a node, and ranks that share a port to other nodes |
# | $w, F$ | bytes of a number, and operations a second of a GPU |
# | $\beta$ | seconds that a port takes for a byte |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The first meeting is about the layer and its exchange, the second about making the exchange
# cheaper. If you have one meeting, teach 1, 3, 5, 6 and 7.
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
# DeepSeek-V3 [1] has 61 layers of width 7168. In 58 of them the perceptron is replaced by 256 **experts**. Each is a
# small perceptron of three matrices with 2048 hidden units. A token goes through 8 of the 256. It also goes through
# one *shared* expert, which sees all tokens. How many weights does the model have, and how many does a token use?


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
# The paper says 671 and 37 billion [1]. A token multiplies with 36.6 billion, one weight in eighteen. So it costs as
# much arithmetic as in a model of 37 billion weights, and the memory is that of 671 billion: 1342 GB in bf16. Take 16
# nodes of the `zaratan` model, with four A100 each. Their 64 GPUs have 2714 GB, so the model fits. Each GPU holds 4 of
# the 256 experts of each layer. Each works on 4096 tokens of its own, for example on prompts. We look at one layer,
# forward only.

# %% slideshow={"slide_type": "fragment"}
zaratan = ringside.Machine.load("zaratan")
F, w, T, P, g = 312e12, 2, 4096, 64, zaratan.ranks_per_node  # bf16: tensor cores
work_ms = 1e3 * T * m.k * 2 * expert / F
sent = T * m.k * m.d * w  # bytes, if no expert were on the token's own GPU
print(f"the experts of a GPU work {work_ms:.2f} ms; its tokens are {sent / 1e6:.0f} MB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The experts of a GPU work 9.25 ms, at an A100's peak of 312 TFLOP/s [2]. Before that, each token goes to 8 experts,
# 14,336 bytes for each of them. Afterwards 8 answers of the same size come back. The tokens of a GPU are 470 MB in each
# direction. Of the 64 GPUs, 60 are on other nodes, and the four GPUs of a node share one port of 12.5 GB/s.

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
# The tokens travel **282 ms for 9.25 ms of work**, 30 times as long. Arithmetic was saved, and the network pays for it.

# %% [markdown] slideshow={"slide_type": "fragment"}
# This lecture asks three questions. What do the experts give for their price? How does a program send tokens, when
# nobody knows how many go where? And how can their way become shorter? Section 14 answers them.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (m.layers, with_experts, m.d, m.E, m.f, m.k) == (61, 58, 7168, 256, 2048, 8)
assert round(stored / 1e9) == 671 and round(used / 1e9, 1) == 36.6 and round(stored / used) == 18
assert round(stored * w / 1e9) == 1342 and round(64 * zaratan.memory_bytes / 1e9) == 2714
assert round(work_ms, 2) == 9.25 and round(sent / 1e6) == 470 and m.d * w == 14_336
assert round(travel_ms) == 282 and round(travel_ms / work_ms) == 30 and P - g == 60
assert round(1e-9 / zaratan.beta_s_per_byte, 1) == 12.5 and m.E // P == 4 and F / 1e12 == 312
assert P // g == 16 and T == 4096

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Capacity without compute
#
# First, what experts are good for. Here is a layer of $E$ experts with $k = 1$. The **gate** is a matrix. It gives
# each token a score for each expert, and a softmax makes shares of the scores. The token takes the expert with the
# largest share, and the answer is multiplied by that share. So the gate gets a gradient: a share grows if its expert
# is useful.


# %% slideshow={"slide_type": "fragment"}
def layer(x, gate, w1, b1, w2):
    """All experts answer, for short; a real layer asks the chosen one only."""
    shares = (x @ gate[:2] + gate[2]).softmax(dim=1)  # (T, E)
    share, chosen = shares.max(dim=1)
    hidden = torch.relu(torch.einsum("td,edh->teh", x, w1) + b1)
    answers = torch.einsum("teh,eh->te", hidden, w2)
    return share * answers.gather(1, chosen[:, None])[:, 0], shares, chosen


def surface(x):
    """What is to be learnt: hills and valleys over a square."""
    return torch.sin(9 * x[:, 0]) * torch.cos(7 * x[:, 1])


# %% slideshow={"slide_type": "fragment"}
def train(E, hidden, balance=0.0, steps=400):
    """Return the error, and each expert's part of the tokens."""
    draw, real = torch.Generator().manual_seed(2), torch.float64
    sizes = {(3, E): 1, (E, 2, hidden): 2, (E, hidden): 1}
    start = [size * torch.randn(shape, generator=draw, dtype=real) for shape, size in sizes.items()]
    start.append(torch.randn((E, hidden), generator=draw, dtype=real) / hidden**0.5)
    weights = [one.requires_grad_() for one in start]
    optimizer = torch.optim.Adam(weights, lr=0.02)
    for _ in range(steps):
        x = torch.rand(512, 2, generator=draw, dtype=real)
        y, shares, chosen = layer(x, *weights)
        part = torch.bincount(chosen, minlength=E) / len(x)
        error = ((y - surface(x)) ** 2).mean()
        optimizer.zero_grad()
        (error + balance * E * (part * shares.mean(dim=0)).sum()).backward()
        optimizer.step()
    return float(error.detach()), part.numpy()


# %% [markdown] slideshow={"slide_type": "fragment"}
# Compare three layers: one of 8 hidden units, one of 64, and one of 8 experts with 8 hidden units each. A token costs
# the same in the first and in the third. (The term with `balance` is the subject of section 4.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/learnt",
    "The layer of 8 units has an error of about 0.2, that of 64 units one of about 0.03. And 8 experts of 8 units?",
)

# %% slideshow={"slide_type": "fragment"}
small, _ = train(1, 8)
large, _ = train(1, 64)
mixed, parts = train(8, 8, balance=0.03)
print(f"8 units {small:.2f}, 64 units {large:.2f}, 8 experts of 8 units {mixed:.2f}")
reveal("14/learnt", mixed)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The experts come much nearer to the large layer than to the small one, for the arithmetic of the small one. They
# don't reach the large one, although they have as many weights: each token sees an eighth of them. So **weights are
# worth something even if a token doesn't use them.** How much they are worth for language has to be measured. It was
# the reason to build such layers [3, 4, 5].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 0.15 < small < 0.3 and 0.01 < large < 0.05 and large < mixed < 0.12 < 0.6 * small + 0.03
assert 8 * 8 == 64 and round(small, 1) == 0.2 and round(large, 2) in (0.02, 0.03, 0.04)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why the answer is multiplied by the share. Without it the choice has no
# gradient, and the gate never learns. Ask what happens to an expert that nobody chooses: it gets no gradient either.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 3. The gate: capacity and dropped tokens
#
# With $k$ experts a token, each expert gets $kT/E$ tokens in the mean. It may get many more. A rank has to prepare
# memory for what comes, and all wait for the one with the most. So an expert gets a **capacity**
#
# $$C = \Big\lceil \frac{c\,k\,T}{E} \Big\rceil$$
#
# with a *capacity factor* $c$, here of 1 to 2. The expert keeps the first $C$ tokens that chose it. The others are
# **dropped**: their answer from this expert is zero. The residual connection carries such a token past the layer,
# so nothing stops, but the token learns less. Here $T = 4$, $E = 3$, $k = 1$ and $c = 1.5$, so $C = 2$:
#
# ```text
#   token          0      1      2      3
#   best expert    0      2      0      0
#   kept?         yes    yes    yes   dropped: expert 0 has its 2 tokens
# ```
#
# How many tokens are dropped if the gate chooses at random? An expert's number of tokens is then nearly normal, with
# mean $\mu = kT/E$ and variance $\mu$. With $c = 1$ the mean part above $\mu$ is
#
# $$\frac{1}{\mu}\int_\mu^\infty (x - \mu)\,\frac{e^{-(x-\mu)^2/2\mu}}{\sqrt{2\pi\mu}}\,dx
#   = \frac{1}{\sqrt{2\pi\mu}} .$$


# %% slideshow={"slide_type": "fragment"}
def choices(tokens, E, k):
    """k different experts for each token, drawn at random."""
    return rng.random((tokens, E)).argpartition(k, axis=1)[:, :k]


def dropped(experts, E, c):
    """The part of all choices that finds no room."""
    asked = np.bincount(experts.ravel(), minlength=E)
    return 1 - np.minimum(asked, math.ceil(c * experts.size / E)).sum() / experts.size


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/dropped",
    "4096 tokens choose 8 of 256 experts at random. The capacity factor is 1. Which part of the choices is dropped?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
factors = [1.0, 1.1, 1.25, 1.5, 2.0]
lost = {}
for tokens in (64, 512, 4096):
    experts = choices(tokens, m.E, m.k)
    lost[tokens] = [dropped(experts, m.E, c) for c in factors]
    formula = 1 / np.sqrt(2 * np.pi * tokens * m.k / m.E)
    print(f"{tokens:4} tokens:", "  ".join(f"c={c}: {one:5.1%}" for c, one in zip(factors, lost[tokens])),
          f"  formula {formula:.1%}")  # fmt: skip
reveal("14/dropped", 100 * lost[4096][0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# About 3.5 % of the choices are dropped, and with $c = 1.25$ hardly any. With 64 tokens an expert gets 2 in the mean,
# and with $c = 1$ more than a quarter is dropped. So **the more tokens are counted together, the less room is wasted**.
# The price of $c$ is padding: buffers are $c$ times as long as the tokens that come in the mean.
#
# All this holds for a gate that chooses at random. A gate that learns doesn't. And not every model drops tokens:
# DeepSeek-V3, whose 8 of 256 experts we took here, drops none, neither in training nor later [1]. It keeps its
# experts even by other means (section 4).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert abs(lost[4096][0] - 0.035) < 0.004 and lost[4096][2] < 0.003 and lost[64][0] > 0.25
assert round(1 / np.sqrt(2 * np.pi * 128), 3) == 0.035 and 64 * m.k / m.E == 2
assert math.ceil(1.5 * 1 * 4 / 3) == 2 and dropped(np.array([[0], [2], [0], [0]]), 3, 1.5) == 0.25

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 4. A gate that learns: the balance loss
#
# A gate has a way to fail that no other layer has. The expert that is chosen gets a gradient and becomes better. So
# it is chosen more often, and becomes better still. The usual cure is one more term in the loss [3],
#
# $$E \sum_e f_e\,P_e ,$$
#
# where $f_e$ is the part of all choices that fell on expert $e$, and $P_e$ is the mean over all tokens of the share
# that the gate gives it. With even choices the term is $E \cdot E \cdot \frac1E \cdot \frac1E = 1$. If one expert gets
# everything, it is $E$. Counts have no gradient, so $f$ is a constant, and the gradient flows through $P$. It pushes
# down the shares of those experts that are chosen often.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/collapse",
    "Train the 8 experts of section 2 without this term. How many of them get at least a tenth of the tokens?",
    unit="experts",
)

# %% slideshow={"slide_type": "fragment"}
without, collapsed = train(8, 8, balance=0.0)
for name, error, part in (("with the term", mixed, parts), ("without it", without, collapsed)):
    print(f"{name:14} error {error:.2f}, parts in %: {(100 * part).round().astype(int)}")
reveal("14/collapse", (collapsed >= 0.1).sum())

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the term one expert does everything. The layer is no better than the small one of section 2, although it
# stores 8 times as many weights. With the term all experts work.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The term has a price as well. It pulls tokens away from the expert that is best for them, so its factor is small.
# DeepSeek-V3 uses another way for most of the work [1]. Each expert has a *bias*, which is added to its score when
# experts are chosen, and not when answers are weighted. After each step the bias of an expert that got too many tokens
# becomes a little smaller. That needs no term in the loss. (A very small one remains, for each sequence by itself.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (collapsed >= 0.1).sum() == 1 and collapsed.max() > 0.9 and without > 0.15
assert (parts > 0).sum() == 8 and mixed < 0.6 * without and 8 * (1 / 8) * (1 / 8) * 8 == 1

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class compute the balance loss by hand for two experts and shares of
# 0.9 and 0.1 for all tokens: 1.8. Ask which part of the product could be trained without the other.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=20
# ## 5. There and back: an uneven all-to-all
#
# Experts live on ranks, and so do tokens. The simplest case has one expert on each rank and $k = 1$. A token that is
# sent is a **row** of $d$ numbers. The **exchange** has three steps:
#
# 1. *Counts.* Each rank tells each other one how many rows will come. Nobody can know it before, since it depends on
#    the data.
# 2. *Rows.* Each rank sends each other one its rows, perhaps none at all. This is an all-to-all with uneven parts.
# 3. *Answers.* The same numbers of rows go the other way.
#
# A rank has $kT$ rows. If all ranks are equally likely, a part $(P-1)/P$ of them leaves. So at even choices a rank
# sends at most
#
# $$T\,k\,d\,w\,\frac{P-1}{P}\quad\text{bytes each way,}$$
#
# and less if tokens are dropped. (If choices are uneven, it may be up to $T k d w$.) In the backward pass gradients go the same two ways. So training has four exchanges
# of rows in each layer, and counts are exchanged once.


# %% slideshow={"slide_type": "fragment"}
# %%writefile there_and_back.py
import numpy as np

import ringside


def swap(comm, parts, inbox):
    """Part r goes to rank r; what rank r sends lands in inbox[r]."""
    inbox[comm.rank][:] = parts[comm.rank]
    others = [r for r in range(comm.size) if r != comm.rank]
    requests = [comm.Irecv(inbox[r], r) for r in others]
    requests += [comm.Isend(parts[r], r) for r in others]
    for request in requests:
        request.Wait()


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a there_and_back.py


def layer(comm, x, chosen, weights):
    """Rank r is expert r. Token t, a row of x, goes to expert chosen[t]."""
    leaving = np.bincount(chosen, minlength=comm.size)
    arriving = np.zeros_like(leaving)
    comm.Alltoall(leaving, arriving)
    inbox = [np.empty((n, x.shape[1])) for n in arriving]
    swap(comm, [x[chosen == r] for r in range(comm.size)], inbox)
    ringside.compute(seconds=0.1e-6 * int(arriving.sum()), phase="expert")
    answers = [np.maximum(rows @ weights, 0) for rows in inbox]
    back = [np.empty((n, x.shape[1])) for n in leaving]
    swap(comm, answers, back)
    y = np.empty_like(x)
    for r, rows in enumerate(back):
        y[chosen == r] = rows
    return y


# %% [markdown] slideshow={"slide_type": "fragment"}
# Four ranks have 64 tokens of 32 numbers each. The gate likes expert 0 best: it gets 40 % of the tokens, and the
# others get 30, 20 and 10 %. An expert takes 0.1 µs for a row.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/most",
    "Which rank sends the most bytes, there and back together?",
    choices=["rank 0", "rank 3", "all the same"],
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
tokens = rng.normal(size=(4, 64, 32))
chosen = rng.choice(4, size=(4, 64), p=[0.4, 0.3, 0.2, 0.1])
weights = rng.normal(size=(4, 32, 32))
arguments = list(zip(tokens, chosen, weights))
run = ringside.run("there_and_back.py:layer", 4, arguments)
for x, which, y in zip(tokens, chosen, run.values):
    alone = np.maximum(np.einsum("td,tdf->tf", x, weights[which]), 0)
    assert np.allclose(y, alone)
sent_bytes = run.timeline.bytes_matrix.sum(axis=1)
print("rows for expert 0 to 3:", np.bincount(chosen.ravel()), " bytes:", sent_bytes)

# %% slideshow={"slide_type": "fragment"}
run.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("14/most", f"rank {sent_bytes.argmax()}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. An exchange there and back on four ranks. The expert of rank 0 has the most rows, and works longest.*
#
# Rank 0 sends the most. It keeps more of its own tokens than others do, but it sends back an answer for each row
# that came from elsewhere. Rank $r$ sends 256 bytes for each of its own tokens with an expert elsewhere, 256 bytes
# for each token of others whose expert it is, and 24 bytes of counts.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
own = np.array([(which == r).sum() for r, which in enumerate(chosen)])
asked = np.bincount(chosen.ravel(), minlength=4)
assert (sent_bytes == 256 * (64 - own) + 256 * (asked - own) + 24).all()
assert sent_bytes.argmax() == 0 and 32 * 8 == 256 and 3 * 8 == 24 and len(tokens) == 4

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** One call does what `swap` does: `all_to_all_single` with the numbers of rows that come and
# that go. Rows must lie in the order of their ranks.

# %% slideshow={"slide_type": "fragment"}
# %%writefile there_torch.py
import torch
import torch.distributed as dist


def swap(group, rows, go, come):
    """The first go[0] rows are for rank 0, the next go[1] for rank 1, and so on."""
    inbox = rows.new_empty(sum(come), rows.shape[1])
    dist.all_to_all_single(inbox, rows, come, go, group=group)
    return inbox


def layer(group, x, chosen, weights):
    leaving = torch.bincount(chosen, minlength=group.size())
    arriving = torch.empty_like(leaving)
    dist.all_to_all_single(arriving, leaving, group=group)
    go, come, order = leaving.tolist(), arriving.tolist(), chosen.argsort(stable=True)
    answers = torch.relu(swap(group, x[order], go, come) @ weights)
    return torch.empty_like(x).index_copy(0, order, swap(group, answers, come, go))


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("there_torch.py:layer", 4, arguments)
assert all(np.allclose(one, other) for one, other in zip(torch_run.values, run.values))
assert (torch_run.timeline.bytes_matrix == run.timeline.bytes_matrix).all()
print("the same rows, and the same bytes between the ranks")

# %% [markdown] slideshow={"slide_type": "fragment"}
# One thing is lost here: this call has no backward pass. In the assignment you make operations of autograd of it, and
# see how the backward pass starts the exchange of gradients.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (torch_run.timeline.bytes_matrix == run.timeline.bytes_matrix).all()

# %% [markdown] slideshow={"slide_type": "notes"}
# Let four students be ranks, with cards for tokens. They find out that they can't take cards before
# they know how many will come, and that the way back needs no counts. Ask what a rank does that gets no rows: it
# still takes part in each exchange, or all others wait for ever.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=20
# ## 6. Which is longer: the way or the work?
#
# A node has $g$ ranks, and $q$ of them share a port to the other nodes: all four on `zaratan`. Of a rank's rows the part
# $(P-g)/P$ leaves the node. The way there and back takes
#
# $$T_\text{way} = 2\,T k\,d\,w\,\frac{P-g}{P}\,q\,\beta ,\qquad
#   T_\text{work} = \frac{6\,T k\,d f}{F} ,$$
#
# if the experts have three matrices of $d f$ numbers. In the quotient $T$, $k$ and $d$ cancel:
#
# $$\frac{T_\text{way}}{T_\text{work}} = \frac{w F\,q\,\beta}{3 f}\,\frac{P-g}{P} .$$
#
# More tokens, fewer experts a token or a narrower model change nothing. Of the model only the **hidden units $f$ of an
# expert** count. Each number of a row that travels is used in $3f$ multiplications. Inside a node each rank has a port of
# its own, so the quotient there has $q = 1$, the part $(P-1)/P$ and the $\beta$ of the inner links.
#
# (An all-reduce of a library spreads its rings over all ports of a node, as you saw in lecture 3. An all-to-all gains
# nothing from that: each rank has rows to send, so all ports are busy anyway.)


# %% slideshow={"slide_type": "fragment"}
def way_over_work(ranks, f=m.f, machine=zaratan):
    """How many times as long the rows travel as the experts work."""
    node = machine.ranks_per_node
    inner = machine.link(0, 1).beta_s_per_byte * (min(ranks, node) - 1) / ranks
    outer = machine.beta_s_per_byte * max(ranks - node, 0) / ranks
    outer *= machine.gpus_per_nic
    return w * F / (3 * f) * max(inner, outer)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/width",
    "How many hidden units must an expert have, so that it works as long as its rows travel between 16 nodes?",
    unit="hidden units",
)

# %% slideshow={"slide_type": "fragment"}
for ranks in (4, 8, 16, 64):
    print(f"{ranks:2} GPUs: the way takes {way_over_work(ranks):5.2f} times as long as the work")
enough = m.f * way_over_work(64)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_bars(axis):
    counts = [4, 8, 16, 32, 64]
    axis.bar([str(n) for n in counts], [work_ms * way_over_work(n) for n in counts], color=YELLOW)
    axis.axhline(work_ms, color=BLUE)
    axis.text(-0.4, 1.3 * work_ms, "experts\nwork", color=BLUE)
    axis.text(4, 1.02 * travel_ms, "rows travel", color="#a06c00", ha="center", va="bottom")
    axis.set(xlabel="GPUs (4 in a node)", ylabel="ms", ylim=(0, 320))


def draw_widths(axis):
    widths = np.geomspace(500, 200_000, 50)
    for ranks, colour, name in ((64, RED, "16 nodes"), (4, GREEN, "one node")):
        axis.loglog(widths, [way_over_work(ranks, f) for f in widths], color=colour)
        axis.text(18_000, 1.25 * way_over_work(ranks, 18_000), name, color=colour)


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.3), layout="constrained")
draw_bars(left)
draw_widths(right)
right.axhline(1, color=GREY, linestyle=":")
for name, f in (("DeepSeek-V3", 2048), ("Mixtral", 14_336)):
    right.axvline(f, color=GREY, linewidth=0.8)
    right.text(f * 1.08, 200, name, va="top", fontsize=9)
right.set(xlabel="hidden units of an expert", ylabel="way over work", ylim=(0.01, 220))
show(figure, "Left: bars of the time in which the rows of a layer travel, on 4 to 64 GPUs. On 4 GPUs, one node, they travel 7 ms, "
     "a little less than the 9 ms that the experts work. On 8 GPUs, two nodes, it is 150 ms, and on 64 GPUs 282 ms. Right: way "
     "over work against the hidden units of an expert, both axes logarithmic. Both lines fall, that for 16 nodes from 120. It is "
     "far above the one for one node, which is below 1 from 1560 hidden units on. DeepSeek-V3 with 2048 and Mixtral with 14,336 "
     "hidden units lie where the first line is above 1 and the second below.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("14/width", enough)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Left: rows of the layer of section 1 travel, and its experts work, on `zaratan`. Right: what the hidden
# units of an expert do to the quotient.*
#
# Between 16 nodes an expert would need 62,400 hidden units to work as long as its rows travel. Inside a node 1560 are
# enough. With the experts of DeepSeek-V3 the way inside a node takes 0.76 times as long as the work, so both are about
# equal. As soon as there is a second node it takes 16 times as long, and with 16 nodes 30 times.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Mixtral [7] has 8 experts of 14,336 hidden units and 2 experts a token. Its layers fit into a node. DeepSeek-V3
# divides its weights into many small experts, so that a token has more combinations to choose from. It is the network
# that pays for them.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Other machines.** DeepSeek-V3 was trained on H800 [1]. They compute at 989 TFLOP/s, 3.2 times the rate of an A100 [12].
# But eight of them share a node, and each has a port of 50 GB/s of its own [8].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/machines",
    "On 64 GPUs of zaratan the way takes 30 times as long as the work. How many times is it on 64 H800?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
MACHINES = {  # FLOP/s; bytes a second of a GPU to others; GPUs that a row reaches by faster links
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
# The quotient falls from 30 to 5.6, and to 0.9 on a rack of 2025 in which NVLink joins 72 GPUs [12]. Its GPUs compute
# eight times as fast as an A100, which by itself would make the way eight times as long beside the work. But the bytes a
# second of a GPU grew from 3.1 to 50 and to 900. On the second machine section 7 is needed. On the third the work takes
# longer than the way, so the experts can hide it. (All of these are peaks. Products and NVLink reach about four fifths of
# theirs, and a network port 96 %.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Does the formula hold on the clock? Here 16 ranks in four nodes exchange rows as in section 1. They are shorter by a
# factor of 1024, and fewer by 16, so a byte takes 16,384 times as long.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ways.py
import numpy as np

import ringside


def exchange(comm, go, come, numbers, phase):
    """Row counts go[r] to rank r; come[r] rows come from it."""
    rows, inbox = (np.zeros((sum(n), numbers), np.float16) for n in (go, come))
    with ringside.phase(phase):
        comm.Alltoallv([rows, go * numbers], [inbox, come * numbers])


def flat(comm, go, come, numbers):
    exchange(comm, go, come, numbers, "there")
    exchange(comm, come, go, numbers, "back")


# %% slideshow={"slide_type": "fragment"}
ranks, few, numbers, E = 16, T // 16, m.d // 1024, 64
slow = 1024 * 16
slowed = zaratan.with_(beta_s_per_byte=slow * zaratan.beta_s_per_byte,
                       intra_beta_s_per_byte=slow * zaratan.link(0, 1).beta_s_per_byte)  # fmt: skip
picked = choices(ranks * few, E, m.k).reshape(ranks, few, m.k)  # experts of each token
rows_to = np.array([np.bincount(one.ravel() // (E // ranks), minlength=ranks) for one in picked])
flat_run = ringside.run("ways.py:flat", ranks, [(go, come, numbers) for go, come in
                        zip(rows_to, rows_to.T.copy())], machine=slowed)  # fmt: skip
formula_ms = work_ms * way_over_work(ranks)
print(f"on the clock {1e3 * flat_run.makespan_s:.0f} ms, by the formula {formula_ms:.0f} ms")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 1 < 1e3 * flat_run.makespan_s / formula_ms < 1.1
assert round(way_over_work(4), 2) == 0.76 and round(way_over_work(8)) == 16
assert round(way_over_work(64)) == 30 and round(enough, -2) == 62_400
assert round(m.f * way_over_work(4)) == 1560 and np.isclose(work_ms * way_over_work(64), travel_ms)
assert [round(x, 1) for x in quotients.values()] == [30.5, 5.6, 0.9] and P < 72
assert [round(per_s / 1e9, 1) for _, per_s, _ in MACHINES.values()] == [3.1, 50, 900]
assert [round(rate / F, 1) for rate, *_ in MACHINES.values()] == [1, 3.2, 8]
assert slow == 16_384 == 1024 * 16 and round(work_ms * way_over_work(4)) == 7
assert round(work_ms * way_over_work(8)) == 150

# %% [markdown] slideshow={"slide_type": "notes"}
# The cancelling is the point of the section. Ask: "Your exchange takes too long. You halve the batch.
# What happens?" Nothing. "You take 4 experts a token instead of 8, of twice the width." That helps, by two.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 7. Few nodes a token, and one copy to each
#
# A token with 8 experts may have them on eight nodes. Three measures reduce the bytes between nodes.
#
# **One copy to each node.** If two experts of a token are on the same node, one row is enough. It goes to the rank of
# the same **place** there: from the second rank of a node to the second rank of the other node. That rank hands the
# row to those ranks of its node that need it, over the fast links. The answers are summed inside the node first, and
# one row comes back. This is a *hierarchical* all-to-all.
#
# ```text
#   node 0:  rank 0   1      a token of rank 1 has experts on ranks 2 (node 1), 4 and 5 (node 2)
#   node 1:  rank 2   3      1 -> 3 -> 2          one row to node 1
#   node 2:  rank 4   5      1 -> 5 -> 4 and 5    one row to node 2, where two experts are
# ```
#
# **Few nodes.** In *node-limited* routing [1] the gate first chooses $M$ nodes, and then the $k$ best experts there. A
# node is as good as the sum of its $k/M$ best scores. Then a token has at most $M$ copies.
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


crossing = {"a row for each expert": m.k * 15 / 16, "a copy for each node": other_nodes(16, 256, 8)}
crossing |= {f"at most {M} nodes": M * 15 / 16 for M in (4, 2, 1)}
between_ms = {how: travel_ms * rows / (m.k * 15 / 16) for how, rows in crossing.items()}
for how, rows in crossing.items():
    print(f"{how:22} {rows:.2f} rows a token, {between_ms[how]:3.0f} ms there and back")
reveal("14/nodes", crossing["a copy for each node"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 16 nodes a token's 8 experts lie on 6.12 other nodes, so copies alone save little: 230 ms instead of 282.
# Node-limited routing makes the copies worth something. With at most 4 nodes the way takes 141 ms, half of what it
# was, and with 1 node 35 ms. (In one of 16 cases a chosen node is the token's own.) DeepSeek-V3 was trained with at
# most 4 nodes [1].

# %% [markdown] slideshow={"slide_type": "fragment"}
# The limit isn't free: a token may not get its 8 best experts. The fewer nodes, the more the choice is bound.
#
# **Fewer bits.** Tokens can travel as numbers of 8 bits, and answers in bf16, since answers are summed. Then a row
# takes 3 bytes a number in both directions together, and not 4. With at most 4 nodes that leaves 106 ms.
#
# Now watch it on the clock, on 16 ranks in four nodes. To keep the program short, each rank is told all counts.


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a ways.py


def two_levels(comm, across, inside, numbers, g):
    """across: rows to and from each node; inside: to and from each rank of the own node."""
    here, spot = comm.rank // g, comm.rank % g
    same_place, same_node = comm.Split(spot, here), comm.Split(here, spot)
    exchange(same_place, *across, numbers, "to nodes")
    exchange(same_node, *inside, numbers, "to ranks")
    exchange(same_node, *inside[::-1], numbers, "from ranks")
    exchange(same_place, *across[::-1], numbers, "from nodes")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def counts_of(picked, g=4):
    """What two_levels needs on each rank."""
    P, N = len(picked), len(picked) // g
    ranks_of = picked // (E // P)  # (P, T, k)
    on_rank = (ranks_of[..., None] == np.arange(P)).any(axis=2)  # (P, T, P): once a rank
    on_node = on_rank.reshape(P, -1, N, g).any(axis=3)
    to_node = on_node.sum(axis=1)  # (source, node)
    per_rank = on_rank.sum(axis=1).reshape(N, g, N, g)  # node, place, node, place
    to_place = per_rank.sum(axis=0)  # (place, node, place): rows that a place hands on
    return [
        ((to_node[r], to_node.reshape(N, g, N)[:, r % g, r // g].copy()),
         (to_place[r % g, r // g], to_place[:, r // g, r % g].copy()))
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
    "Four nodes, 8 of 64 experts. How many times as fast is the exchange with a copy for each node, without a limit?",
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
# With only four nodes, a token has two experts on each in the mean, so copies pay at once: two levels are about twice
# as fast as the flat exchange. At most 2 nodes make it faster again. The exchanges inside the node are added, and they are short here. On a
# machine with a fast network and slow links inside, they would not be.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(crossing["a copy for each node"], 2) == 6.12 and round(travel_ms) == 282
assert [round(between_ms[f"at most {M} nodes"]) for M in (4, 1)] == [141, 35]
assert round(0.75 * between_ms["at most 4 nodes"]) == 106
assert round(between_ms["a copy for each node"]) == 230 and round(other_nodes(4, 64, 8), 1) == 2.7
assert 1.7 < flat_ms / level_ms[4] < 2.4 and level_ms[1] < level_ms[2] < 0.7 * level_ms[4]

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why a row goes to the rank of the same place and not straight to the rank that needs it. Then
# each of the $g$ ranks of a node talks to one rank in each other node, messages are long, and the work of handing on
# is spread evenly. In the extra module students write this exchange, with values.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 8. Hide what is left
#
# An exchange needs no arithmetic, so something can be computed meanwhile. Two things don't depend on it.
#
# **The shared expert** [6] sees all tokens of its own rank, so it needs no message. It can work while tokens travel. In
# the program an exchange becomes two operations, a start and a wait, and the shared expert stands between them.


# %% slideshow={"slide_type": "fragment"}
# %%writefile hidden.py
import numpy as np

import ringside


def layer(comm, shared_us, experts_us, hide):
    rows, inbox = np.zeros((2, comm.size, 24_000), np.uint8)  # 24 kB to each rank
    moving = comm.Ialltoall(rows, inbox)
    if not hide:
        moving.Wait()
    ringside.compute(seconds=shared_us * 1e-6, phase="shared expert")
    moving.Wait()
    ringside.compute(seconds=experts_us * 1e-6, phase="experts")
    comm.Alltoall(inbox, rows)


# %% slideshow={"slide_type": "fragment"}
shown, hidden = (ringside.run("hidden.py:layer", 4, (60, 60, hide)) for hide in (False, True))
print(
    f"one after the other {1e6 * shown.makespan_s:.0f} µs, hidden {1e6 * hidden.makespan_s:.0f} µs"
)
hidden.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. The shared expert works while tokens travel. The way back is exposed.*
#
# The layer takes 210 µs instead of 270. In the backward pass everything goes the other way round: the gradients of
# the answers travel first, then the experts work, then the gradients of the tokens travel. With a start and a wait as
# two operations of autograd, the shared expert's backward pass falls between them by itself. The assignment's
# `moe_torch` is about that.
#
# **Two batches** hide the other exchange, too. Cut the tokens into two halves. While one half travels, the other half
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
    "Two layers: 4 times 60 µs of work and 4 exchanges of 75 µs, 540 µs in all. How long does it take with two halves?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
one, two = (ringside.run("batches.py:model", 4, (batches,)) for batches in (1, 2))
print(f"one batch {1e6 * one.makespan_s:.0f} µs, two halves {1e6 * two.makespan_s:.0f} µs")
reveal("14/batches", 1e6 * two.makespan_s)

# %% slideshow={"slide_type": "fragment"}
two.timeline

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 4. Two layers with two halves of a batch, in two shades of blue. Attention and experts take turns. The wire is
# busy nearly all the time.*
#
# Two halves take 335 µs, little more than the exchanges alone, which take 312 µs in eight pieces. So overlap hides the
# **smaller** of the two, work or way. It can't make a way short that takes 30 times as long as the work. For the layer
# of section 1 the shared expert hides 1.2 ms of 282. First reduce the bytes, then hide what is left.
#
# DeepSeek-V3 overlaps two batches in training and in inference [1], with the attention of the one beside the exchange
# of the other. Lecture 10 shows the schedule of its pipeline.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(1e6 * each.makespan_s) for each in (shown, hidden, one, two)] == [270, 210, 540, 335]
assert 8 * (3 * 12 + 3) == 312 and 3 * 24 + 3 == 75 and round(work_ms / m.k, 1) == 1.2

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the time with four quarters. The exchanges have 16 pieces of 21 µs then, and latency grows:
# more pieces hide the ends better and cost more messages.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 9. Experts beside data and tensor parallelism
#
# Experts are one more axis of a grid of ranks. The other axes have to be told what the experts are.
#
# **Data.** All ranks have tokens of their own. Each has a copy of attention and gate, as in data parallelism, so the
# gradients of these weights are summed over *all* ranks. An expert lies on one rank of each group of $P$ ranks. If
# there are $R$ such groups, there are $R$ copies of it, and its gradient is summed over those alone. The rank of an
# expert already got the rows of its whole group. So both sums hold all tokens, and a mean divides both by the same
# number.


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
# to 8. The attention's sum goes over all 8 ranks and is 36. A common error is to sum both over all ranks.
#
# **Tensor.** If $t$ ranks share the attention of the same tokens, each of them has every token afterwards. If each
# sends all of them, rows travel $t$ times. So each sends a $t$-th of the tokens, as in the sequence parallelism of
# lecture 8, and an all-gather inside the node brings the answers together [11]. One can also cut each expert over
# $t$ ranks. Then all rows have to be on all $t$ ranks, and the answers are summed. That is more bytes inside the node,
# and pays where experts are large and few.
#
# | axis | what it cuts | what it sends, forward |
# |---|---|---|
# | data | tokens | nothing; gradients afterwards |
# | experts | experts | $2\,T k\,d\,w\,(P-1)/P$ in each layer |
# | tensor | each matrix | about $4\,T d\,w\,(t-1)/t$ in each layer |
#
# With $k = 8$ the experts' axis sends four times the bytes of the tensor axis. Both want the fast links. Where both are
# used, the tensor axis gets them, since nothing can be computed during its all-reduces. The experts' exchange crosses
# nodes, with the measures of sections 7 and 8.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert run.values[5] == (36, 8, 2) and run.values[1] == (36, 8, 2) and sum(range(1, 9)) == 36
assert 2 * m.k / 4 == 4 and run.values[0] == (36, 6, 2)

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 10. Hot experts and stragglers
#
# A layer with experts synchronises all ranks twice: nobody goes on before the rows have come, and before the answers
# have come. So the rank with the most rows sets the pace for all. This program sends rows of 1 kB, and an expert
# works 1 µs for a row. Eight ranks have 128 tokens each.


# %% slideshow={"slide_type": "fragment"}
# %%writefile hot.py
import numpy as np

import ringside


def layer(comm, go, come, row_us):
    """Only counts matter: go[r] rows to rank r, come[r] rows from it."""
    rows, inbox = np.zeros((sum(go), 1000), np.uint8), np.zeros((sum(come), 1000), np.uint8)
    comm.Alltoallv([rows, go * 1000], [inbox, come * 1000])
    ringside.compute(seconds=row_us * 1e-6 * len(inbox), phase="expert")
    comm.Alltoallv([inbox, come * 1000], [rows, go * 1000])


# %% slideshow={"slide_type": "fragment"}
def layer_run(go, row_us=None):
    """go[source, dest]: rows."""
    row_us = row_us or [1.0] * 8
    args = [(go[r], go[:, r].copy(), row_us[r]) for r in range(8)]
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
      f"rows of the experts {hot.sum(axis=0)}")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
hot_run.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("14/hot", hot_run.makespan_s / even_run.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Expert 3 is hot. All other ranks wait for its answers.*
#
# The layer takes 2.3 times as long, with the same number of tokens. Three times in a row the hot rank is the
# slowest: its port receives the most rows, its expert works longest, and its port sends the most answers. In general
#
# $$\text{efficiency} \le \frac{\text{mean rows of a rank}}{\text{most rows of a rank}} .$$

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Capacity bounds it.** With $c = 1.25$ each rank gives each expert 20 rows at most. What is above is dropped.

# %% slideshow={"slide_type": "fragment"}
room = math.ceil(1.25 * 128 / 8)
kept = np.minimum(hot, room)
kept_run, slow_run = layer_run(kept), layer_run(even, [1.0] * 7 + [1.5])
print(
    f"with room for {room}: {1e6 * kept_run.makespan_s:.0f} µs, {1 - kept.sum() / hot.sum():.0%} dropped"
)
print(f"even, rank 7 slower: {1e6 * slow_run.makespan_s:.0f} µs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The layer is fast again, and about one token in seven is dropped. **Capacity turns a problem of time into one of
# learning.** The balance loss of section 4 works on the cause.
#
# **A straggler** does the same to even rows. In the last line each expert has 128 rows, and the GPU of rank 7
# takes 1.5 times as long. All ranks wait for it, in each layer. In lecture 4 a straggler cost its delay once in a step; here it
# costs it in each of 58 layers, forward and backward.
#
# What can be done when a gate is trained, and some experts stay hot? Put a hot expert on a rank with cold ones, or
# give it a second copy elsewhere. Puzzle 3 is about the first way.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(hot_run.makespan_s / even_run.makespan_s, 1) == 2.3 and room == 20
assert 0.12 < 1 - kept.sum() / hot.sum() < 0.2 and kept_run.makespan_s < 1.35 * even_run.makespan_s
assert round(1e6 * (slow_run.makespan_s - even_run.makespan_s)) in range(50, 70)
assert even.sum(axis=0)[7] == 128 and 1 / 8 == 0.125 and with_experts == 58 and likes.sum() == 1

# %% [markdown] slideshow={"slide_type": "notes"}
# Show figure 5 and ask which of the bars of rank 0 are waiting, and for whom. Ask what a capacity of
# $c = 1$ would do to the even case when choices are random: section 3 has the answer.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 11. What has been published
#
# **A model against a model.** AMD and GPU MODE held a contest in 2025 for the exchange among eight MI300X in a node.
# The task states a "speed of light" for five sizes [9]. It is the result of a model, and not a measurement. Which model
# was it? Try latency and bandwidth, $\alpha + n\beta'$, where $n$ is $T\,k\,d\,w\,(P-1)/P$ with 2 bytes a number. The
# first and the last row of the table fix $\alpha$ and $\beta'$.

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
# for one direction. That it fits says nothing about GPUs. It says that whoever made the table thought as we do.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A measurement.** DeepEP [8] publishes times of its low-latency exchange on H800. Each GPU has 128 tokens and a port
# of 50 GB/s to other nodes. A row has 7392 bytes there: 7168 numbers of 8 bits, with a scale of 4 bytes for each 128
# of them. It has 14,336 bytes back. There are 8 GPUs in a node, so the part $(P-8)/P$ of the rows crosses. Let the
# time be a constant and the time for these. The rows of 16 and 256 GPUs fix both numbers.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "14/deepep",
    "The way there takes 118 µs on 16 GPUs and 194 µs on 256. How long does it take on 64?",
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
    print(f"{way}: {lines[way][0]:.0f} µs and {rates[way]:.1f} GB/s")
    for n in (2, 3, 4):
        print(f"  {deep['gpus'][n]:3} GPUs: line {lines[way][n]:.0f}, measured {took[n]} µs")
reveal("14/deepep", lines["there"][3])

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# On 64 GPUs the line says 179 µs for the way there, and 173 were measured [8]. On 32, 64 and 128 GPUs the line is at
# most 3.4 % off on the way there, and at most 6 % on the way back. Its rate is 46.7 GB/s there, of a port's 50, and 41.7
# back. So the formula of section 5 holds, if one counts **only rows that leave the node**.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The table has a column of bandwidths, too. It says 98 GB/s for 8 GPUs, 63 for 16 and 39 for 256 [8]. How can a port
# of 50 GB/s give 98? The column is all rows divided by the time, those included that stay in the node. So it falls
# as more rows cross. What crosses a port is much the same in all cases from 16 GPUs on, 32 to 38 GB/s on the way there.
#
# **A bound for one user.** The authors of DeepSeek-V3 compute how fast the model can write at most, if nothing but
# the exchange takes time [10]. They take 32 tokens a GPU, 9 rows a token, and 3 bytes a number in both directions
# together. Each of the 61 layers takes the time of two such exchanges, for two batches. That makes 67.8 tokens a
# second for a user with ports of 50 GB/s (they write 67), and about 1200 with links of 900 GB/s. Again this is a
# model, and they say so.

# %% slideshow={"slide_type": "fragment"}
for gb_per_s in (50, 900):
    bound = 1 / (61 * 2 * 3 * 32 * 9 * 7000 / (gb_per_s * 1e9))  # they round the width to 7000
    print(f"{gb_per_s} GB/s: {bound:.1f} tokens a second")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
off = np.abs(line_us / light["time_us"] - 1)
assert (
    off[[0, 2, 3, 4]].max() < 0.001
    and round(100 * off[1]) == 4
    and line_us[1] > light["time_us"][1]
)
assert round(alpha_us, 1) == 5.0 and round(1e-3 / per_byte, 1) == 258.6 and len(off) == 5
assert 7168 + 7168 // 128 * 4 == 7392 and [round(rates[way], 1) for way in rates] == [46.7, 41.7]
wrong = {way: np.abs(lines[way] / deep[f"{way}_us"] - 1)[2:5].max() for way in lines}
assert round(lines["there"][3]) == 179 and deep["there_us"][3] == 173
assert round(line_us[3], 1) == 61.8 == round(light["time_us"][3], 1)
assert round(wrong["there"], 3) == 0.034 and 0.05 < wrong["back"] < 0.065
assert deep["there_gb_per_s"][[0, 1, 5]].tolist() == [98, 63, 39]
through = 128 * 8 * 7392 * cross[1:] / deep["there_us"][1:] / 1e3
assert (round(through.min()), round(through.max())) == (32, 38)
assert np.allclose(128 * 8 * 7392 / deep["there_us"] / 1e3, deep["there_gb_per_s"], rtol=0.02)
assert round(bound, -2) == 1200 and round(bound / 18, 1) == 67.8 and int(bound / 18) == 67

# %% [markdown] slideshow={"slide_type": "notes"}
# Let pairs find out from the table of [8] alone what its column of bandwidths counts. Multiplying it
# by the time gives the same bytes in each row. The question to ask of every such number: which bytes, and through
# which wire?

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 12. Where it breaks
#
# - **Memory stays.** Each weight is stored somewhere, and in training it has a gradient and optimizer states. A layer
#   of section 1 has 22.5 GB of experts in bf16, for 0.8 GB that a token uses.
# - **The bytes don't shrink with the batch.** Way and work shrink together, so a quotient of 30 remains 30.
# - **Few tokens are uneven.** In the decode of lecture 13 a rank has few tokens. Then some experts have none, some have
#   several, and each one that has any reads all of its weights.
# - **Counts come first.** A rank can't prepare its memory before it knows them. On GPUs the processor waits for
#   them, or buffers are as long as the worst case.
# - **Dropped tokens depend on others.** If a model drops tokens, it depends on the tokens beside one whether it is kept.
#   So the same sentence may get another answer in another batch.
# - **A network may be slower than its port.** All-to-all is the pattern that uses every link at once. Our model has no
#   switches between the ports.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(m.E * expert * w / 1e9, 1) == 22.5
assert round((m.k + m.shared) * expert * w / 1e9, 1) == 0.8 and round(way_over_work(P)) == 30

# %% [markdown] slideshow={"slide_type": "slide"} tags=["corrected"]
# ## 13. What is often said, and what holds
#
# | one often reads | what holds |
# |---|---|
# | "8x7B" has 56 billion weights | only experts exist 8 times. Mixtral [7] has 46.7 billion, and a token uses 12.9 |
# | a model of 671 billion weights runs at the price of one of 37 | in arithmetic. It takes the memory of 671, and an exchange that the model of 37 doesn't have [1] |
# | 98 GB/s through a port of 50 GB/s | the number counts rows that stay in the node [8] |
# | "speed of light" | the result of a model with two constants, for one direction [9] |
# | the all-to-all sends $T k d w$ to everybody | to all others *together*, a row to each expert [4] |
# | experts are specialists for topics | a gate sees tokens, and nothing makes it choose topics. Mixtral's authors found little of it, and more of syntax [7] |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
mixtral_heads = 4096 * (2 * 4096 + 2 * 1024)
mixtral = [
    32 * (mixtral_heads + n * 3 * 4096 * 14_336 + 4096 * 8) + 2 * 32_000 * 4096 for n in (8, 2)
]
assert [round(one / 1e9, 1) for one in mixtral] == [46.7, 12.9] and 8 * 7 == 56
assert deep["there_gb_per_s"][0] == 98

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. Summary
#
# The lecture began with a layer of 256 experts on 64 GPUs: **282 ms of travel for 9.25 ms of work.**
#
# - *What do the experts give?* 671 billion weights for the arithmetic of 37 billion. In our small example they brought
#   the error most of the way to that of a large layer.
# - *How does a program send tokens?* Counts first, then rows, then answers the same way back. It keeps all experts
#   busy with a balance loss, and it may bound the busiest one with a capacity.
# - *How can 282 ms become less?* At most 4 nodes a token and one copy to each node leave 141 ms. Numbers of 8 bits on
#   the way there leave 106. Two batches hide 9.25 of them behind the experts. The layer doesn't suit `zaratan`.
#
# What would suit it? On `zaratan`, without these measures, experts of 62,400 hidden units would work as long as their
# rows travel. Or the network is faster. DeepSeek-V3 was trained on H800 [1]: nodes of eight GPUs, each with a port of
# 50 GB/s of its own [8]. There the way takes 6.2 ms with the same measures, and not 106. But an H800 computes faster as well, at a
# peak of 989 TFLOP/s in bf16 [12]. So its experts work 2.9 ms and not 9.25, and the way still takes twice as long as
# they work. (At 794 TFLOP/s, the most that a product has reached on an H100 [12], they work 3.6 ms.) Two batches can't
# hide it behind the experts alone. The attention of the other batch has to stand beside the exchange, too (section 8).
# **If you buy a faster processor, you need a faster network.**
#
# | what | why |
# |---|---|
# | $C = \lceil c k T / E \rceil$ | nobody waits for more than $C$ rows of an expert |
# | $1/\sqrt{2\pi\mu}$ dropped with $c = 1$ | $\mu$ tokens an expert, chosen at random |
# | $E \sum_e f_e P_e$ | the gate keeps all experts busy |
# | $T k d w (P-1)/P$ bytes each way | a row to each expert, but those at home |
# | way over work: $w F q \beta / 3f$, for $q$ ranks at a port | only an expert's hidden units count |
# | at most $M$ rows between nodes | few nodes, one copy to each |
# | overlap hides the smaller part | so reduce bytes first |

# %% slideshow={"slide_type": "fragment"}
own_port_ms = 1e3 * 3 * m.d * T * 4 * (1 - 8 / P) / 50e9  # 3 bytes a number, there and back
peak, product = 989, 794  # TFLOP/s of an H800; of the fastest product on an H100 [12]
h800_ms, product_ms = (work_ms * F / 1e12 / rate for rate in (peak, product))
print(f"nodes of eight, 50 GB/s for each GPU, at most 4 nodes: {own_port_ms:.1f} ms")
print(f"the experts of an H800 work {h800_ms:.1f} ms, so {own_port_ms / h800_ms:.1f} times")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(travel_ms) == 282 and round(work_ms, 2) == 9.25 and round(own_port_ms, 1) == 6.2
assert round(between_ms["at most 4 nodes"]) == 141 and round(h800_ms, 1) == 2.9
assert (peak, product) == (989, 794) and round(product_ms, 1) == 3.6 < own_port_ms
assert 2 < own_port_ms / h800_ms < 2.2 and round(product / peak, 1) == 0.8
assert round(0.75 * between_ms["at most 4 nodes"]) == 106 and round(enough, -2) == 62_400
assert round(stored / 1e9) == 671 and round(used / 1e9) == 37

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. Puzzles
#
# **Puzzle 1: no padding.** Each rank has up to 30 rows for each other one. This program sends buffers of 40 rows to
# everybody, full or not: 48,000 bytes from each rank. The target is 24,100 bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np


def arrived(comm, room=40, d=100):
    counts = 10 * ((np.arange(comm.size) + comm.rank) % comm.size)  # rows for each rank
    rows = np.zeros((comm.size, room, d), np.float32)
    for r, n in enumerate(counts):
        rows[r, :n] = comm.rank + 1
    inbox = np.empty_like(rows)
    comm.Alltoall(rows, inbox)
    return float(inbox.sum())


# %% slideshow={"slide_type": "fragment"}
right = [float(sum(10 * ((r + s) % 4) * 100 * (s + 1) for s in range(4))) for r in range(4)]
attempt = puzzle("puzzle1.py:arrived", 4, expected=right, at_most_bytes=24_100,
                 hint="What must a rank know before it can receive rows without padding?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Exchange the counts first, 24 bytes, and then so many rows with `Alltoallv`. No rank sends more than 60 rows of 400
# bytes to others, so 24,024 bytes are enough.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
Path("solved1.py").write_text("""import numpy as np


def arrived(comm, d=100):
    counts = 10 * ((np.arange(comm.size) + comm.rank) % comm.size)
    due = np.empty(comm.size, counts.dtype)
    comm.Alltoall(counts, due)
    rows = np.full((counts.sum(), d), comm.rank + 1, np.float32)
    inbox = np.empty((due.sum(), d), np.float32)
    comm.Alltoallv([rows, counts * d], [inbox, due * d])
    return float(inbox.sum())
""")
# %% slideshow={"slide_type": "skip"} tags=["checked"]
solved = puzzle("solved1.py:arrived", 4, expected=right, at_most_bytes=24_100, draw=False)
assert solved.solved and not attempt.solved
assert (
    max(solved.sent_bytes) == 24_024 == 60 * 400 + 24 < 24_100 and attempt.sent_bytes[0] == 48_000
)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: answers on their way.** Each rank has four experts, which work 20 µs each. Then the answers go back,
# 164 µs in all. The target is 115 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import numpy as np

import ringside


def answered(comm, experts=4, nbytes=6000):
    answers = np.zeros((experts, comm.size, nbytes), np.uint8)
    back = np.empty_like(answers)
    for e in range(experts):
        ringside.compute(seconds=20e-6, phase=f"forward {e}")
        answers[e] = e + 1
    for e in range(experts):
        comm.Alltoall(answers[e], back[e])
    return int(back[:, :, 0].sum())


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle2.py:answered", 4, expected=40, at_most_us=115,
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
early = "        answers[e] = e + 1\n        sent.append(comm.Ialltoall(answers[e], back[e]))\n"
text = text.replace("    back = np", "    sent = []\n    back = np")
text = text.replace("        answers[e] = e + 1\n", early)
text = text.replace("    for e in range(experts):\n        comm.Alltoall(answers[e], back[e])\n",
                    "    for one in sent:\n        one.Wait()\n")  # fmt: skip
Path("solved2.py").write_text(text)
solved = puzzle("solved2.py:answered", 4, expected=40, at_most_us=115, draw=False)
assert solved.solved and not attempt.solved
assert (round(attempt.time_us), round(solved.time_us)) == (164, 101) and 101 < 115
assert round(solved.time_us - 4 * 20) == 21

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: a place for each expert.** Sixteen experts get 5 to 90 rows each, and the first ones are the hottest.
# Each of four ranks takes four experts in their order. A row takes 1 µs. Rank 0 works 240 µs while the others wait.
# The target is 110 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import ringside

ROWS = [90, 80, 40, 30, 30, 20, 20, 15, 15, 10, 10, 10, 10, 8, 7, 5]


def places(num_ranks):
    """The rank of each expert."""
    return [e * num_ranks // len(ROWS) for e in range(len(ROWS))]


def worked(comm):
    mine = [n for n, rank in zip(ROWS, places(comm.size)) if rank == comm.rank]
    ringside.compute(seconds=1e-6 * sum(mine), phase="experts")
    comm.Barrier()  # stands for the way back
    return len(places(comm.size))


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle3.py:worked", 4, expected=16, at_most_us=110,
                 hint="Who should get the next expert, if you give out the hottest first?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Give out the experts by their rows, the hottest first, each to the rank with the fewest rows so far. There are 400
# rows, so nothing can be better than 100 a rank, and this reaches it. But it fits yesterday's tokens. If today's
# choices differ, experts have to move.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle3.py").read_text()
plain = "    return [e * num_ranks // len(ROWS) for e in range(len(ROWS))]\n"
greedy = """    load, found = [0] * num_ranks, []
    for n in ROWS:
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
# travel to the processor first. In puzzle 3 ask what a second copy of the hottest expert would allow.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 16. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A rank has 96 tokens, 16 experts and $k = 2$. The capacity factor is 1.5. How much room has an expert?
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
# rank send each way, at random choices? How many in the four exchanges of a training step? And if buffers of
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
# **Question 3.** The machine `dgx_a100` has nodes of eight A100 with a port of 24 GB/s for each GPU. How many times as
# long as its work does the way of section 1 take on 64 of them? How many hidden units would be enough?
#
# <details><summary>Answer</summary>
#
# No port is shared, and 56 of 64 GPUs are elsewhere. So it takes $2 \cdot 312 \cdot 10^{12} \cdot 4.17 \cdot 10^{-11} \cdot
# \frac78 / (3 \cdot 2048) = 3.7$ times as long. 7584 hidden units would be enough.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
dgx = ringside.Machine.load("dgx_a100")
assert round(way_over_work(64, machine=dgx), 1) == 3.7 and dgx.gpus_per_nic == 1
assert round(m.f * way_over_work(64, machine=dgx)) == 7584 and dgx.ranks_per_node == 8
assert round(1e11 * dgx.beta_s_per_byte, 2) == 4.17 and round(1e-9 / dgx.beta_s_per_byte) == 24

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Four nodes have 2 experts each, and a token uses 2 experts at random. How many rows does it send to
# other nodes, with a row for each expert? And with one copy to each node?
#
# <details><summary>Answer</summary>
#
# $2 \cdot \frac34 = 1.5$ rows. A node has none of the token's experts with probability $\binom62 / \binom82 = 15/28$. So
# it is $3 \cdot 13/28 = 1.39$ with copies. They save little, because two experts are seldom on the same node.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(other_nodes(4, 8, 2), 2) == 1.39 and math.comb(6, 2) / math.comb(8, 2) == 15 / 28
nodes = choices(20_000, 8, 2) // 2  # the tokens are on node 0
assert abs((nodes > 0).sum(axis=1).mean() - 1.5) < 0.02
copies = [len(set(pair) - {0}) for pair in nodes.tolist()]
assert abs(np.mean(copies) - other_nodes(4, 8, 2)) < 0.02

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** Of eight equal ranks, one gets twice the rows of each of the others. What is the bound on the
# efficiency? What does a capacity factor of 1.25 make of it, and which part of the tokens is dropped?
#
# <details><summary>Answer</summary>
#
# The parts are $2/9$ and seven times $1/9$. The mean is $1/8$, so the efficiency is at most $9/16 = 56\,\%$. With
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
# The assignment `a14_experts` asks for what this lecture left out. In `route` you write the gate's rules for single
# tokens: who is kept, who is dropped, and with which weight. In `exchange` a rank has several experts, a token several
# rows, and the backward pass goes the same ways. In `moe_torch` the exchange becomes two operations of autograd, and
# the shared expert hides it. The extra module is `node_limited`: few nodes a token, and the exchange on two levels
# with all its values.

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
# 8. DeepSeek-AI. DeepEP. github.com/deepseek-ai/DeepEP, docs/legacy.md at commit 0297fc8.
# 9. AMD, GPU MODE. Reference kernels, task "single node all2all". github.com/gpu-mode/reference-kernels,
#    problems/amd_distributed/all2all/task.yml at commit f83cb92.
# 10. C. Zhao, and others. Insights into DeepSeek-V3: scaling challenges and reflections on hardware for AI
#     architectures. ISCA 2025. arXiv:2505.09343.
# 11. S. Singh, O. Ruwase, A. A. Awan, S. Rajbhandari, Y. He, A. Bhatele. A hybrid tensor-expert-data parallelism
#     approach to optimize mixture-of-experts training. ICS 2023. arXiv:2303.06318.
# 12. S. Bekman. Machine learning engineering, compute/accelerator/README.md. github.com/stas00/ml-engineering, commit
#     744d01e1. Peaks from data sheets, and the fastest products that were measured.
#
# Read next: [6], for shared experts and exchanges that know the nodes; and [10], for what a network should look like if
# such models are to run on it.
