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
# # Lecture 13: Machines and inference
#
# A trained network is used far more often than it is trained. A language model that writes a response has another
# problem than one that learns: it writes one token after the other, and each token needs all weights. In this lecture you
# find out how fast that can be on one GPU, on the four GPUs of a node, and on several nodes, for one user and for
# many. Then you run what serving engines do about it.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - say which limit holds for a prompt and which one for a response, and compute both times from a machine's data sheet;
# - compute the memory of the KV cache, and say what blocks save;
# - shard a model that writes over several ranks, count its messages, and predict what latency does to it;
# - choose between tensor and pipeline parallelism for one user and for many;
# - explain continuous batching, prefix caching, chunked prefill, disaggregation and speculative decoding, each with its
#   formula;
# - read a table of accelerators or of MLPerf, and say which of its numbers can be compared.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 2](02_sgd.ipynb), for the roofline. [Lecture 3](03_allreduce.ipynb), for the all-reduce.
# [Lecture 8](08_model_versus_data.ipynb), for tensor parallelism and heads.
#
# | sign | meaning |
# |---|---|
# | $N$ | parameters that each token uses |
# | $w$ | bytes of a number |
# | $L, d$ | layers, and width of the model |
# | $n_{kv}, c$ | heads for keys and values in a layer, and numbers in a head |
# | $S, b$ | tokens that are kept for a user, and users that are served together |
# | $t$ | GPUs that share each layer |
# | $F, M$ | operations a second, and bytes of memory a second, of one GPU |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** The first meeting is about one model on several GPUs, the second about many users. If you
# have one meeting, teach 1, 2, 3, 6 and 8; of 11, figure 6.
#
# Ask at the beginning: "You may double one number of your GPU: its arithmetic or its memory bandwidth. Which
# one, if you serve a chatbot?" Collect votes and come back to them after section 2. This takes 5 minutes.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
BLUE, RED, YELLOW, GREEN, GREY = "#0072b2", "#b56576", "#e69f00", "#009e73", "#9aa0a6"
quoted = table(LECTURES / "data" / "inference_systems.csv")
stated = dict(zip(quoted["what"], quoted["value"]))  # what papers and pages say

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: one user and one node
#
# Take a model of 70 billion parameters, Llama 3 [1], and a node with four A100 GPUs of 40 GB, like those of the
# `zaratan` model. One user asks a question. The model writes the response token by token. (A token is a word or a
# part of a word.) How many tokens a second can the node give at best?
#
# First count the parameters. The model has 80 layers of width 8192, with 64 heads for queries, 8 for keys and
# values, and an MLP of three matrices with 28,672 hidden units. Its vocabulary has 128,256 tokens. The token embedding is
# a table, of which a token reads one row. All other matrices are used in full for each token.


# %% slideshow={"slide_type": "fragment"}
class Llama70B:
    layers, d, heads, kv_heads, hidden, words = 80, 8192, 64, 8, 28_672, 128_256
    c = d // heads  # numbers in a head


m = Llama70B
attention = 2 * m.d * m.d + 2 * m.d * m.kv_heads * m.c  # queries, output; keys, values
mlp = 3 * m.d * m.hidden
stored = m.layers * (attention + mlp) + 2 * m.words * m.d  # norms are small: left out
used = stored - m.words * m.d  # N: of the token embedding a token reads one row
w = 2  # bytes of a bf16 number
print(f"{stored / 1e9:.2f} billion, {stored * w / 1e9:.1f} GB; used {used * w / 1e9:.1f} GB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In bf16 the model takes 141.1 GB. It fits into the 169.6 GB of four GPUs, and not into those of fewer. A token uses
# 139.0 GB of it. Each GPU holds a quarter, and reads its memory at 1555 GB/s at most [2].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/one-user",
    "Each GPU reads a quarter of 139 GB for each token, at 1555 GB/s. How many tokens a second is that at best?",
    unit="tokens/s",
)

# %% slideshow={"slide_type": "fragment"}
zaratan = ringside.Machine.load("zaratan")
M, F = zaratan.memory_bytes_per_s, 312e12  # FLOP/s: tensor cores, in bf16
best_s = used * w / 4 / M
print(f"{best_s * 1e3:.2f} ms for a token")
reveal("13/one-user", 1 / best_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A token takes at least 22.3 ms, so the user gets at most **44.7 tokens a second**. No program can do better on
# this node, as long as each token reads all weights. Arithmetic isn't the limit: 139 billion FLOP on
# four GPUs of 312 TFLOP/s [2] would take 0.1 ms.

# %% [markdown] slideshow={"slide_type": "fragment"}
# This lecture asks three questions about this rate. How near can a program come to it? What can you do about
# its cause? And what does the node give to many users together? Section 15 answers them.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (m.layers, m.d, m.hidden, m.words, m.heads) == (80, 8192, 28_672, 128_256, 64)
assert round(stored * w / 1e9, 1) == 141.1 and round(used * w / 1e9, 1) == 139.0
assert round(4 * zaratan.memory_bytes / 1e9, 1) == 169.6 and M / 1e9 == 1555 and m.c == 128
assert 3 * zaratan.memory_bytes < stored * w and round(stored / 1e9) in (70, 71)
assert round(1e3 * best_s, 1) == 22.3 and round(1 / best_s, 1) == 44.7 and F / 1e12 == 312
assert round(2 * used / 1e9) == 139 and round(1e3 * 2 * used / (4 * F), 1) == 0.1
assert zaratan.ranks_per_node == 4 and round(zaratan.memory_bytes / 1e9, -1) == 40

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=15
# ## 2. Prefill and decode: two rooflines
#
# Inference has two parts. In the **prefill** the model reads the prompt. All its tokens are known, so they go
# through a layer together. In the **decode** the model writes. Each token depends on the one before it, so they go
# one by one.
#
# Let $n$ tokens go through the model together. They may be the tokens of one prompt, or one token each of $n$ users.
# Each weight is read once for all of them, and is used in one multiplication and one addition for each of them. So
# the time on $t$ GPUs is at least
#
# $$T(n) = \max\Big( \frac{N w}{t M},\ \frac{2 N n}{t F} \Big).$$
#
# The first term is the memory's and doesn't depend on $n$. The second is the arithmetic's. They are equal at
#
# $$n^* = \frac{w F}{2 M} .$$
#
# Neither the model nor the number of GPUs is in it. It is a property of the machine.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/ridge",
    "An A100 does 312 TFLOP/s and reads 1555 GB/s. How many tokens must go together until arithmetic is the limit?",
    unit="tokens",
)


# %% slideshow={"slide_type": "fragment"}
def least_s(n, t=4, w=2):
    """The least time in which n tokens go through the model together on t GPUs."""
    return max(used * w / (t * M), 2 * used * n / (t * F))


ridge = w * F / (2 * M)
prompt_s = least_s(2048)
print(f"a prompt of 2048 tokens: {prompt_s * 1e3:.0f} ms; a response: {2048 * least_s(1):.0f} s")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_roofline(axis):
    n = np.geomspace(1, 4096, 200)
    axis.loglog(n, [2 * used * k / least_s(k, 1) / 1e12 for k in n], color="#1b1f24")
    spots = {"decode,\none user": (1, RED, (1.4, 1.4)), "decode,\n32 users": (32, YELLOW, (42, 40)),
             "prefill,\n2048 tokens": (2048, BLUE, (650, 210))}  # fmt: skip
    for name, (k, colour, place) in spots.items():
        axis.plot(k, 2 * used * k / least_s(k, 1) / 1e12, "o", color=colour)
        axis.text(*place, name, color=colour, va="top")
    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(lambda value, _: f"{value:g}")
    axis.axvline(ridge, color=GREY, linestyle=":")
    axis.set(xlabel="tokens that go together", ylabel="TFLOP/s of one A100", ylim=(0.6, 600))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_users(axis):
    each = {k: 1 / least_s(k) for k in range(1, 401)}  # tokens a second
    axis.plot([k * rate for k, rate in each.items()], each.values(), color="#1b1f24")
    for k in (1, 64, round(ridge), 400):
        spot, side = (k * each[k], each[k]), "left" if k < 100 else "right"
        axis.plot(*spot, "o", color=YELLOW)
        axis.annotate(f"{k} users" if k > 1 else "1 user", spot, ha=side,
                      xytext=(-5, -15 if k < 400 else 9), textcoords="offset points")  # fmt: skip
    axis.set(
        xlabel="tokens a second of the node", ylabel="tokens a second of each user", ylim=(0, 52)
    )


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.4), layout="constrained")
draw_roofline(left)
draw_users(right)
show(figure, "Left: a roofline with logarithmic axes. The rate of an A100 rises in proportion to the tokens that go together, "
     "from 1.6 TFLOP/s for one user, through 50 for 32 users, to a flat roof of 312; a prefill of 2048 "
     "tokens lies on the roof. Right: tokens a second of each user over those of the node. The line is flat at 45 until the "
     "node's rate has grown to 9000. With 400 users each one gets half, and the node no more.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("13/ridge", ridge)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. Left: prefill and decode on the roofline of an A100. Right: what more users cost, by the weights
# alone.*
#
# Arithmetic is the limit from 201 tokens on. A prompt of 2048 tokens is far to the right of this point, and takes 228
# ms. A response of 2048 tokens is far to the left. It takes 46 s, which is 201 times as long for the same number of
# operations.
#
# Up to 201 users nobody waits longer, and the node gives more. The picture on the right is the reason for everything
# in sections 3, 4 and 8: users should share the reading of the weights. What they can't share comes in section 3.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The two parts have two measures of their own. The **time to first token** (TTFT) is what the prefill takes, with
# the wait before it. The **time per output token** (TPOT) is what a step of the decode takes.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(ridge) == 201 and round(1e3 * prompt_s) == 228 and round(2048 * least_s(1)) == 46
assert round(2048 * least_s(1) / prompt_s) == 201 and len(range(2048)) == 2048

# %% [markdown] slideshow={"slide_type": "fragment"}
# > **Corrected.** Inference is "embarrassingly parallel" [16]? Over requests, yes. But the layers of one token, and the
# > tokens of one response, follow each other.

# %% [markdown] slideshow={"slide_type": "notes"}
# Come back to the vote of the beginning: for one user only the bandwidth
# counts. Ask what the figure on the right leaves out (keys and values; messages; the time to start kernels).

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 3. The KV cache
#
# In attention a new token looks at all tokens before it. It needs their keys and values, in each layer. They don't
# change any more, because a token sees only what comes before it. So a program computes them once and keeps them. This is
# the **KV cache**. Without it, each new token would send the whole sequence through the model again.
#
# Each token leaves a key and a value in each head of each layer, which is
#
# $$2\,L\,n_{kv}\,c\,w \quad\text{bytes.}$$
#
# Llama 3 with 8 billion parameters has 32 layers, and also 8 heads for keys and values of 128 numbers each.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/kv",
    "And with 70 billion parameters, 80 layers: how many KiB does one token leave?",
    unit="KiB",
)


# %% slideshow={"slide_type": "fragment"}
def kv_bytes(layers, kv_heads=8, c=128, w=2):
    """What one token leaves in the KV cache."""
    return 2 * layers * kv_heads * c * w


kv = kv_bytes(m.layers)
free = 4 * zaratan.memory_bytes - stored * w
print(f"8 billion: {kv_bytes(32) / 1024:.0f} KiB; the node has {free / 1e9:.1f} GB left")
reveal("13/kv", kv / 1024)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The model of 8 billion parameters keeps 128 KiB a token, and that of 70 billion 320 KiB. How many users is that? The node
# has 28.5 GB left beside the weights, which is 87 thousand tokens, or 42 users with 2048 tokens each. So the 201 users of
# section 2 don't fit. **The memory of the KV cache limits the number of users before arithmetic does.**

# %% [markdown] slideshow={"slide_type": "fragment"}
# Here the 8 heads help. With a head of keys and values for each of the 64 heads of queries, a token would keep 2.5
# MiB, and 5 users would fit. A head of keys and values that several heads of queries share is a **key head**, and
# this is called *grouped-query attention* (GQA) [4].
#
# A user's keys and values are read at each of their tokens. So a step of $b$ users with $S$ tokens each takes at least
#
# $$T = \frac{N w + b\,S \cdot 2 L n_{kv} c\, w}{t\,M}.$$


# %% slideshow={"slide_type": "fragment"}
def step_s(b, S=2048, t=4, w_weights=2):
    """The least time of a step of the decode: weights once, keys and values of each user."""
    return (used * w_weights + b * S * kv) / (t * M)


fitting = int(free / kv / 2048)
for b in (1, 16, fitting):
    print(f"{b:3} users: {1e3 * step_s(b):.1f} ms, {1 / step_s(b):.1f} tokens/s each, "
          f"{b / step_s(b):5.0f} together")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 42 users a step takes 26.9 ms. Each user gets 37.2 tokens a second, and all together 1563. That is 35 times what
# one user gets alone.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert kv_bytes(32) == 128 * 1024 and kv == 320 * 1024 and round(free / 1e9, 1) == 28.5
assert int(free / kv / 1000) == 87 and fitting == 42 and kv_bytes(80, 64) == 2.5 * 2**20
assert int(free / kv_bytes(80, 64) / 2048) == 5 and m.kv_heads == 8 and round(ridge) == 201
assert round(1e3 * step_s(42), 1) == 26.9 and round(1 / step_s(42), 1) == 37.2
assert round(42 / step_s(42)) == 1563 and round(42 / step_s(42) * best_s) == 35
assert (m.layers, m.heads, m.c) == (80, 64, 128) and kv_bytes(32) // (2 * 8 * 128 * 2) == 32

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 4. KV blocks
#
# Nobody knows how long a response becomes. A program that keeps a user's cache in one piece has to reserve the
# longest possible one. Operating systems had the same problem with the memory of programs, and solved it with
# pages. PagedAttention does so with the cache [5]. It cuts the memory into **KV blocks** (*pages*) of a few tokens each. A
# user has a list of blocks, anywhere in memory, and gets another one when the last is full. A sequence of $S$ tokens takes
# $\lceil S/p \rceil$ blocks of $p$ tokens.
#
# ```text
#   user A, 9 tokens: blocks 0, 4, 2       block  0    1    2    3    4    5
#   user B, 6 tokens: blocks 3, 1          A      AAAA      A         AAAA
#                                          B           BB        BBBB        (5 is free)
# ```
#
# Take responses whose lengths are drawn at random: 400 tokens in the mean, 2048 at most.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/pages",
    "KV blocks of 16 tokens instead of 2048 reserved ones: how many times as many users fit?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
rng = np.random.default_rng(13)
lengths = np.minimum(rng.geometric(1 / 400, size=10_000), 2048)
sizes = [1, 4, 16, 64, 256, 1024, 2048]
taken = np.array([(np.ceil(lengths / p) * p).mean() for p in sizes])  # tokens of memory a user
used_share = lengths.mean() / taken
for p, share in zip(sizes, used_share):
    print(f"blocks of {p:4} tokens: {share:6.1%} of what is taken holds something")
reveal("13/pages", taken[sizes.index(2048)] / taken[sizes.index(16)])

# %% [markdown] slideshow={"slide_type": "fragment"}
# If you reserve 2048 tokens for each user, 19.6 % of the memory holds something. With blocks of 16 tokens it is 98.2 %,
# and 5.0 times as many users fit. On the average half of each user's last block is empty. Small blocks waste less. But
# each block is a place to look up, and a GPU reads long stretches faster. vLLM, the program of the paper, takes 16 tokens
# unless you say otherwise [19].

# %% [markdown] slideshow={"slide_type": "fragment"}
# Blocks can also be **shared**. Many prompts begin alike, for example with the same instructions. Then the blocks of
# that prefix are kept once, and each user's list names them. A count for each block says how many lists name it.
# A user who writes into a shared block copies it first. This is also how one prompt gets several responses. In the
# assignment you write such a cache.
#
# The paper reports 2 to 4 times the throughput of earlier systems at the same latency [5].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * used_share[-1], 1) == 19.6 and round(100 * used_share[2], 1) == 98.2
assert round(taken[-1] / taken[2], 1) == 5.0 and abs(lengths.mean() - 400) < 2
assert lengths.max() == 2048 and round(taken[2] - lengths.mean(), 1) == 7.5  # half a block

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the class draw the lists of two users who share a prefix of 6 tokens
# with blocks of 4: the second block is shared and half full. Who writes first copies it. Ask what happens if both
# do.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5. A model that writes, on four ranks
#
# Lecture 8 sharded a transformer layer by heads and hidden units. The same tensor parallelism serves inference, and it
# needs the forward pass only. A rank has some of the heads. So it also keeps the keys and values of its own heads only:
# **the KV cache is sharded by heads**. After the attention and after the MLP, an all-reduce sums $d$ numbers.
#
# Here is a small model that writes. It has no norms and no positions, and it always takes the most likely token.

# %% slideshow={"slide_type": "fragment"}
# %%writefile writer.py
import numpy as np


def attend(q, keys, values):
    """Heads of a new token, (a, c), look at the keys and values that are kept, (S, a, c)."""
    scores = np.einsum("ac,sac->as", q, keys) / np.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.einsum("as,sac->ac", weights / weights.sum(axis=1, keepdims=True), values)


def whole(comm, part):
    total = np.empty_like(part)
    comm.Allreduce(part, total)
    return total


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a writer.py


def write(comm, words, layers, text, length):
    """A rank's share of a layer: Q, K, V, H by heads (a, c, d), A and B by units (f, d)."""
    text, kept = list(text), [([], []) for _ in layers]
    for place in range(length - 1):
        x = words[text[place]]  # (d,)
        for (Q, K, V, H, A, B), (keys, values) in zip(layers, kept):
            keys.append(K @ x)  # (a, c), kept for all later tokens
            values.append(V @ x)
            y = attend(Q @ x, np.array(keys), np.array(values))
            x = x + whole(comm, np.einsum("ac,acd->d", y, H))
            x = x + whole(comm, np.maximum(A @ x, 0) @ B)
        if place + 1 == len(text):
            text.append(int(np.argmax(words @ x)))
    return text


# %% [markdown] slideshow={"slide_type": "fragment"}
# A rank gets its slices of $Q$, $K$, $V$ and $H$ along the heads ($H$ makes $d$ numbers of the heads again), and
# of $A$ and $B$ along the hidden units. The token embedding is whole on each rank here. (In the assignment it is sharded
# too, and the ranks must agree on a word.)

# %% slideshow={"slide_type": "fragment"}
d, heads, hidden, vocabulary = 32, 8, 128, 50
words = rng.normal(size=(vocabulary, d))
shapes = [(heads, d // heads, d)] * 4 + [(hidden, d)] * 2
layers = [tuple(0.4 * rng.normal(size=shape) for shape in shapes) for _ in range(2)]


def shares(t):
    """What each of t ranks holds of each layer."""
    cut = [[np.split(matrix, t) for matrix in layer] for layer in layers]
    return [[tuple(parts[r] for parts in layer) for layer in cut] for r in range(t)]


prompt, length = [3, 14, 15, 9, 26], 20
arguments = {t: [(words, share, prompt, length) for share in shares(t)] for t in (1, 4)}

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/sent",
    "Two layers, 32 numbers of 8 bytes, four ranks, 19 tokens through the model. How many bytes does a rank send?",
    unit="bytes",
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
alone = ringside.run("writer.py:write", 1, arguments[1]).values[0]
run = ringside.run("writer.py:write", 4, arguments[4])
assert all(value == alone for value in run.values)
written_bytes = run.timeline.bytes_matrix.sum(axis=1)
print("written:", alone[5:])
reveal("13/sent", written_bytes[0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each token takes 4 all-reduces, two in each layer. In a ring of 4 ranks a rank sends $2 \cdot \frac34$ of 256
# bytes in each of them. For 19 tokens that makes 29,184 bytes. Four ranks write the same text as one.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
per_reduce = 2 * 3 / 4 * d * 8
assert (written_bytes == 19 * 4 * per_reduce).all() and written_bytes[0] == 29_184
assert length - 1 == 19 and d * 8 == 256

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** Only the all-reduce and the names of the functions change.

# %% slideshow={"slide_type": "fragment"}
# %%writefile writer_torch.py
import torch
import torch.distributed as dist


def attend(q, keys, values):
    scores = torch.einsum("ac,sac->as", q, keys) / q.shape[1] ** 0.5
    return torch.einsum("as,sac->ac", scores.softmax(dim=1), values)


def whole(group, part):
    dist.all_reduce(part, group=group)
    return part


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a writer_torch.py


def write(group, words, layers, text, length):
    text, kept = list(text), [([], []) for _ in layers]
    for place in range(length - 1):
        x = words[text[place]]
        for (Q, K, V, H, A, B), (keys, values) in zip(layers, kept):
            keys.append(K @ x)
            values.append(V @ x)
            y = attend(Q @ x, torch.stack(keys), torch.stack(values))
            x = x + whole(group, torch.einsum("ac,acd->d", y, H))
            x = x + whole(group, torch.relu(A @ x) @ B)
        if place + 1 == len(text):
            text.append(int(torch.argmax(words @ x)))
    return text


# %% slideshow={"slide_type": "fragment"}
torch_run = ringside.run("writer_torch.py:write", 4, arguments[4])
assert torch_run.values[2] == alone
assert (torch_run.timeline.bytes_matrix == run.timeline.bytes_matrix).all()
print("the same text, and the same bytes between the ranks")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (torch_run.timeline.bytes_matrix == run.timeline.bytes_matrix).all()

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=20
# ## 6. At real size: what latency does
#
# Now take the model of section 1. It can't run here, but you can trace it. This program does what a GPU does for
# one token: layers with two all-reduces each, and its shard of the vocabulary at the end. Since all layers are alike, 8
# of the 80 are traced. With more GPUs than key heads, each GPU keeps one whole head, so some heads are kept
# several times.

# %% slideshow={"slide_type": "fragment"}
# %%writefile llama.py
import torch
import torch.distributed as dist
from torch.nn import functional as F


def attention(group, x, cache, heads, kv_heads, c=128):
    """One new token of each user looks at the cache, (users, 2 kv_heads / t, S, c)."""
    (users, d), t = x.shape, group.size()
    q, kv = heads // t, max(kv_heads // t, 1)
    qkv = F.linear(F.rms_norm(x, (d,)), torch.empty((q + 2 * kv) * c, d))
    query, _ = qkv.view(users, -1, c).split([q, 2 * kv], dim=1)
    keys, values = cache.chunk(2, dim=1)
    y = F.scaled_dot_product_attention(query.unsqueeze(2), keys, values, enable_gqa=True)
    y = F.linear(y.view(users, q * c), torch.empty(d, q * c))
    dist.all_reduce(y, group=group)
    return x + y


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a llama.py


def mlp(group, x, hidden):
    d, h = x.shape[1], hidden // group.size()
    gate, up = F.linear(F.rms_norm(x, (d,)), torch.empty(2 * h, d)).chunk(2, dim=1)
    y = F.linear(F.silu(gate) * up, torch.empty(d, h))
    dist.all_reduce(y, group=group)
    return x + y


def token(group, users, kept, layers, d, heads, kv_heads, hidden, words):
    torch.set_default_dtype(torch.bfloat16)
    cache = torch.empty(users, 2 * max(kv_heads // group.size(), 1), kept, 128)
    x = torch.empty(users, d)
    for _ in range(layers):
        x = mlp(group, attention(group, x, cache, heads, kv_heads), hidden)
    F.linear(x, torch.empty(words // group.size(), d)).max(dim=1)


# %% [markdown] slideshow={"slide_type": "fragment"}
# The clock counts what each operation computes and reads. The machine `zaratan` also takes 5 µs to start each of
# them, a *kernel*. Programs that care join kernels, and record the start of a whole step (a *CUDA graph*). So we
# look at both, with this time and without it.

# %% slideshow={"slide_type": "fragment"}
GPUS = [1, 2, 4, 8, 16, 32]


def trace(t, layers, users=1, kept=2048):
    args = (users, kept, layers, m.d, m.heads, m.kv_heads, m.hidden, m.words)
    return ringside.trace_torch("llama.py:token", t, args, grid={"tp": t}, alike=("tp",),
                                witnesses=False).trace  # fmt: skip


traces = {t: (trace(t, 0), trace(t, 8)) for t in GPUS}


def replayed_ms(pair, machine):
    """All layers are alike: what 8 of them take beyond none, ten times."""
    none, eight = (1e3 * ringside.replay(one, machine).makespan_s for one in pair)
    return none + m.layers / 8 * (eight - none)


# %% slideshow={"slide_type": "fragment"}
gpu = zaratan.with_(flop_per_s=F)  # bf16, in tensor cores
quiet = gpu.with_(kernel_overhead_s=0.0)
no_wires = quiet.with_(alpha_s=0, beta_s_per_byte=0, intra_alpha_s=0, intra_beta_s_per_byte=0)
memory_ms, joined_ms, started_ms = (
    {t: replayed_ms(traces[t], machine) for t in GPUS} for machine in (no_wires, quiet, gpu)
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/eight",
    "On 4 GPUs a token takes 23 ms without the starts of kernels. How long does it take on 8 GPUs, in two nodes?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/fastest", "With how many GPUs is one user served fastest?", choices=["4", "8", "16", "32"]
)

# %% slideshow={"slide_type": "fragment"}
for t in GPUS:
    print(f"{t:2} GPUs: memory {memory_ms[t]:5.1f} ms, with messages {joined_ms[t]:5.1f}, "
          f"with starts {started_ms[t]:5.1f}")  # fmt: skip
reveal("13/eight", joined_ms[8])
reveal("13/fastest", str(min(GPUS, key=joined_ms.get)))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_parts(axis):
    shown, base = [str(t) for t in GPUS[2:]], np.zeros(4)
    upto = np.array([[ms[t] for t in GPUS[2:]] for ms in (memory_ms, joined_ms, started_ms)])
    names = ("memory", "messages", "starts of kernels")
    for top, colour, name in zip(upto, (BLUE, RED, GREY), names):
        axis.bar(shown, top - base, bottom=base, color=colour, label=name)
        base = top
    axis.legend(frameon=False)
    axis.set(xlabel="GPUs (4 in a node)", ylabel="ms for a token")


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def draw_latency(axis):
    alphas = np.geomspace(0.5e-6, 50e-6, 60)
    for t, colour in zip((4, 8, 16), (BLUE, YELLOW, GREEN)):
        ends = [replayed_ms(traces[t], quiet.with_(alpha_s=a, intra_alpha_s=a)) for a in (0, 50e-6)]
        rates = 1e3 / np.interp(alphas, (0, 50e-6), ends)  # the time is a straight line
        axis.plot(1e6 * alphas, rates, color=colour)
        axis.text(0.47, rates[0], f"{t}", color=colour, ha="right", va="center")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set(xlabel="latency of a message, µs", ylabel="tokens a second, one user", ylim=(0, None))


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.3), layout="constrained")
draw_parts(left)
right.set(xscale="log", xlim=(0.3, 60))
draw_latency(right)
show(figure, "Left: bars of the time for a token on 4, 8, 16 and 32 GPUs. Memory shrinks from 22 to 3 ms, messages grow from "
     "1 to 11 ms, starts of kernels stay at 9 ms. Right: tokens a second of one user over the latency of a message, from half a "
     "microsecond to 50, on 4, 8 and 16 GPUs. At low latency more GPUs are faster, up to 117 tokens a second. The curves cross "
     "between 2 and 9 microseconds, and to the right of that 4 GPUs are fastest and 16 slowest.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Left: one token of the model of 70 billion parameters on `zaratan`. Right: the same without starts of
# kernels, if every message, inside a node and between nodes, had the latency on the axis. The numbers in the
# picture are the GPUs.*

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# On the four GPUs of a node messages take 0.6 ms of 23.1 ms. An all-reduce carries 16 KiB. Its six steps in the
# ring take 3.8 µs, and 3.6 µs of them are latency. There are 160 of them for each token, one after the other, and
# nothing can hide them: the next product needs the sum.
#
# On 8 GPUs a token takes 13.9 ms. On 16 it takes 11.3 ms, and on 32 it takes longer again, 14.3 ms. Memory shrinks
# as $1/t$. Latency grows as the steps of a ring do:
#
# $$T(t) \approx \frac{N w}{t M} + 2L \cdot 2(t-1)\,\bar\alpha, \qquad
#   t^* = \sqrt{\frac{N w}{4 L M \bar\alpha}} .$$
#
# Here $\bar\alpha$ is the mean latency of the ring's links. One in four goes between nodes, so it is 1.1 µs, and
# $t^*$ is 15.8. With 16 GPUs the user gets 88 tokens a second, twice as many as with 4 GPUs. **Four times the GPUs
# double the speed.** And starts of kernels take 9.2 ms at any number of GPUs, since each GPU starts all 1842 of
# them. So they are what real programs remove first.
#
# Two more things follow. A faster all-reduce for short vectors helps, and a ring isn't one: puzzle 1 is about
# that. And with $b$ users a message carries $b$ times the bytes for the same latency.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
whole_ms = 1e3 * ringside.replay(trace(4, m.layers), quiet).makespan_s
assert np.isclose(whole_ms, joined_ms[4], rtol=1e-9)  # the tenfold of 8 layers is right
assert [round(joined_ms[t], 1) for t in (4, 8, 16, 32)] == [23.1, 13.9, 11.3, 14.3]
assert round(joined_ms[4] - memory_ms[4], 1) == 0.6 and m.d * w == 16 * 1024
reduce_us = 1e3 * (joined_ms[4] - memory_ms[4]) / 160
assert round(reduce_us, 1) == 3.8 and round(6e6 * zaratan.link(0, 1).alpha_s, 1) == 3.6
assert 2 * m.layers == 160
mean_alpha_s = (3 * zaratan.link(0, 1).alpha_s + zaratan.alpha_s) / 4
assert round(1e6 * mean_alpha_s, 1) == 1.1
assert round(np.sqrt(used * w / (4 * m.layers * M * mean_alpha_s)), 1) == 15.8
assert round(1e3 / joined_ms[16]) == 88 and round(joined_ms[4] / joined_ms[16], 1) == 2.0
starts = (started_ms[4] - joined_ms[4]) * 1e3 / 5
assert round(started_ms[4] - joined_ms[4], 1) == 9.2 and round(starts) == 1842
assert len({round(started_ms[t] - joined_ms[t], 6) for t in GPUS}) == 1
middle = replayed_ms(traces[4], quiet.with_(alpha_s=5e-6, intra_alpha_s=5e-6))
ends = [replayed_ms(traces[4], quiet.with_(alpha_s=a, intra_alpha_s=a)) for a in (0, 50e-6)]
assert np.isclose(middle, ends[0] + (ends[1] - ends[0]) / 10, rtol=1e-6)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask before figure 2: "Which part of the bar gets smaller with more GPUs,
# which gets larger, which stays?" Classes forget the starts of kernels. Ask how the right picture moves if the
# model is ten times smaller: all curves bend earlier, since only the memory's part shrinks.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 7. Tensor or pipeline?
#
# A pipeline gives each GPU whole layers: 20 of the 80 here. Then a token needs three messages on its way, and no
# all-reduce. How does that serve one user, and how four?

# %% slideshow={"slide_type": "fragment"}
# %%writefile piped.py
import numpy as np

import ringside


def answers(comm, users, num_tokens, seconds):
    """Stages take the users' tokens in turn; the first needs the token that the last chose."""
    requests, last = [], comm.size - 1
    for number in range(num_tokens):
        for user in range(users):
            if comm.rank or number:  # of the prompt's end the first stage has everything
                comm.Recv(np.empty(4096, np.float32), (comm.rank - 1) % comm.size)
            ringside.compute(seconds=seconds / comm.size, phase=f"forward {user}")
            if comm.rank < last or number < num_tokens - 1:
                x = np.zeros(4096 if comm.rank < last else 2, np.float32)  # 16 KiB or a word
                requests.append(comm.Isend(x, (comm.rank + 1) % comm.size))
    for request in requests:
        request.Wait()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/piped-one",
    "One user, a pipeline of four GPUs: how many times as many tokens a second as on one GPU that had room for the model?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("13/piped-four", "And four users, all tokens together?", unit="times")

# %% slideshow={"slide_type": "fragment"}
one_gpu_s = memory_ms[1] / 1e3
piped = {}
for users in (1, 4):
    runs = [ringside.run("piped.py:answers", 4, (users, number, one_gpu_s), machine="zaratan")
            for number in (2, 6)]  # fmt: skip
    every_s = (runs[1].makespan_s - runs[0].makespan_s) / 4  # a token of each user
    piped[users] = users / every_s
    print(f"{users} in the pipeline: {1 / every_s:.1f} tokens/s each, {piped[users]:.1f} together")

# %% slideshow={"slide_type": "fragment"}
runs[1].timeline

# %% slideshow={"slide_type": "fragment"}
reveal("13/piped-one", piped[1] * one_gpu_s)
reveal("13/piped-four", piped[4] * one_gpu_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Four users in a pipeline of four stages. Each shade of blue is a user. Every stage is always busy, and
# each user's token still passes all four.*
#
# One user gets 11.1 tokens a second, as on one GPU, because the stages work one after the other. Four users get 44.5
# together, which is 4.0 times as many. Tensor parallelism gives 43.3 to *one* user.
#
# And with four users? A stage of the pipeline reads its weights again for each of them. Under tensor parallelism
# the four tokens go together, and each weight is read once for all. So the whole node gives about four times as
# much. As long as memory is the limit, tensor parallelism wins for one user and for many.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1 / every_s, 1) == 11.1 and round(piped[1], 1) == 11.1 and round(piped[4], 1) == 44.5
assert round(piped[4] * one_gpu_s, 1) == 4.0 and round(1e3 / joined_ms[4], 1) == 43.3
assert 3.8 < 4 / (step_s(4) + (joined_ms[4] - memory_ms[4]) / 1e3) / piped[4] < 4
assert m.layers // 4 == 20

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** Sends and receives have the names of lecture 1, and a group's ranks are named with
# `group_dst` and `group_src`.

# %% slideshow={"slide_type": "fragment"}
# %%writefile piped_torch.py
import torch
import torch.distributed as dist

import ringside


def answers(group, users, num_tokens, seconds):
    works, rank, p = [], group.rank(), group.size()
    for number in range(num_tokens):
        for user in range(users):
            if rank or number:
                dist.recv(torch.empty(4096), group_src=(rank - 1) % p, group=group)
            ringside.compute(seconds=seconds / p, phase=f"forward {user}")
            if rank < p - 1 or number < num_tokens - 1:
                works.append(dist.isend(torch.zeros(4096), group_dst=(rank + 1) % p, group=group))
    for work in works:
        work.wait()


# %% slideshow={"slide_type": "fragment"}
same = ringside.run("piped_torch.py:answers", 4, (4, 6, one_gpu_s), machine="zaratan")
print(f"torch {same.makespan_s:.4f} s, mpi4py {runs[1].makespan_s:.4f} s")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(same.makespan_s, runs[1].makespan_s, rtol=1e-3)

# %% [markdown] slideshow={"slide_type": "slide"}
# **The prefill is different.** There arithmetic is the limit, and messages are long. A prompt of 2048 tokens makes
# each all-reduce 33.6 MB. The program above serves for it too, if 2048 tokens take the place of the users. (It
# leaves out that the tokens look at each other, which is 2 % of the operations here.)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/prefill-eight",
    "On 4 GPUs of a node the prompt takes 0.38 s. How long does it take with tensor parallelism on 8 GPUs, in two nodes?",
    unit="s",
)

# %% slideshow={"slide_type": "fragment"}
prefill_s = {}
for t in (4, 8):
    pair = (trace(t, 0, 2048, 1), trace(t, 8, 2048, 1))
    prefill_s[t] = replayed_ms(pair, quiet) / 1e3
    alone_s = replayed_ms(pair, no_wires) / 1e3
    print(f"{t} GPUs: {prefill_s[t]:.2f} s, {alone_s:.2f} s of it computing")
reveal("13/prefill-eight", prefill_s[8])

# %% [markdown] slideshow={"slide_type": "fragment"}
# On 8 GPUs the prefill takes 0.94 s, more than twice as long as on 4, although only 0.18 s of it is computing. Between
# nodes a GPU has an eighth of the bandwidth that it has inside, and all four GPUs of a node share it. (With a port for
# each GPU the library's rings would use all four ports (lecture 3), and it would be 0.38 s. Eight GPUs would still be no
# faster than four.) So latency limits the decode, and bandwidth limits the prefill:
#
# | | tensor parallelism over both nodes | inside each node, with a pipeline of two nodes |
# |---|---|---|
# | messages of a token between nodes | 160 all-reduces | 1 |
# | decode, one user | 13.9 ms | 23.1 ms and one message |
# | prefill of 2048 tokens | 0.94 s | 0.38 s, and two prompts at the same time |
#
# Models that are too large for a node are served in the second way: tensor parallelism inside nodes, a pipeline
# between them. The course's tutorial writes its texts with tensor parallelism inside one node. The tutorial that
# it follows names inference on several GPUs among its aims [3].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(prefill_s[4], 2) == 0.38 and round(prefill_s[8], 2) == 0.94
assert round(alone_s, 2) == 0.18 and prefill_s[8] / prefill_s[4] > 2
assert round(replayed_ms(pair, quiet.with_(gpus_per_nic=1)) / 1e3, 2) == 0.38
assert round(2048 * m.d * w / 1e6, 1) == 33.6 and 2 * m.layers == 160
looks = 4 * m.layers * m.d * 2048**2 / 2  # two products for each pair of tokens
assert round(looks / (2 * used * 2048), 2) == 0.02
assert round(zaratan.beta_s_per_byte / zaratan.link(0, 1).beta_s_per_byte) == 8
assert round(joined_ms[8], 1) == 13.9 and round(joined_ms[4], 1) == 23.1

# %% [markdown] slideshow={"slide_type": "notes"}
# The table at the end is the point. Ask for a rule in one sentence: short messages
# may cross nodes often, long ones may not.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 8. Many users: continuous batching
#
# Sections 2 and 3 want many users to go together. But responses have different lengths. A **static batch** takes $b$
# requests and works until the longest response is written. Meanwhile the slots of the others are empty. In
# **continuous batching** a request that has its response leaves at once, and the next one takes its slot in the
# middle of all others [6]. This needs no new mathematics: in a step each user has one token, wherever in their
# response it stands.

# %% slideshow={"slide_type": "fragment"}
responses = np.minimum(rng.geometric(1 / 200, size=512), 2048)  # tokens of each response
SLOTS = 32


def static(lengths):
    """When and in which slot each response begins, and when all are written."""
    begins, now = [], 0
    for batch in np.split(lengths, len(lengths) // SLOTS):
        begins += [(now, place) for place in range(SLOTS)]
        now += batch.max()
    return begins, now


def continuous(lengths):
    begins, busy = [], np.zeros(SLOTS, int)  # until when a slot is busy
    for tokens in lengths:
        begins.append((busy.min(), busy.argmin()))
        busy[busy.argmin()] += tokens
    return begins, busy.max()


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/continuous",
    "512 responses of 200 tokens in the mean, 32 slots: how many times fewer steps does continuous batching need?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
(in_batches, static_steps), (at_once, continuous_steps) = static(responses), continuous(responses)
busy = {name: responses.sum() / SLOTS / steps
        for name, steps in (("static", static_steps), ("continuous", continuous_steps))}  # fmt: skip
print(f"static {static_steps} steps, {busy['static']:.0%} of the slots in use")
print(f"continuous {continuous_steps} steps, {busy['continuous']:.0%} in use")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(2, 1, figsize=(8.6, 3.6), layout="constrained", sharex=True)
for axis, begins, name in zip(axes, (in_batches, at_once), ("static", "continuous")):
    colours = [(BLUE, YELLOW, GREEN, RED)[number // SLOTS % 4] for number in range(len(responses))]
    starts, rows_of = np.array(begins).T
    seen = (rows_of < 12) & (starts < 2400)
    axis.barh(rows_of[seen], responses[seen], left=starts[seen], color=np.array(colours)[seen],
              height=0.8, edgecolor="white", linewidth=0.5)  # fmt: skip
    axis.set_title(name, fontsize=10)
    axis.set(xlim=(0, 2400), yticks=[], ylabel="slots")
axes[1].set_xlabel("steps of the decode")
show(figure, "Two diagrams of 12 slots over 2400 steps; a bar is a response. Above, static batches: all bars of a batch begin "
     "together, most are short, and all slots wait for the longest bar. Below, continuous batching: a new bar begins "
     "wherever one ends, and no slot is ever empty.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("13/continuous", static_steps / continuous_steps)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The first 2400 steps in 12 of the 32 slots. A colour is a group of 32 requests in the order in which
# they came.*
#
# Static batches need 12,404 steps and use 25 % of the slots. Continuous batching needs 3536 steps, 3.5 times
# fewer. (The 11 % that are still empty lie at the end, when no request is left.) A step takes about the same time
# for few users and for many, so steps are time.
#
# Where does the factor come from? A static batch takes as long as its longest response. If lengths are spread like
# these, the longest of $b$ responses has in the mean
#
# $$H_b = 1 + \frac12 + \dots + \frac1b$$
#
# times the mean length. For 32 slots it is 4.06. So a static batch uses about $1/H_b$ of its slots, and larger
# batches use less.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your scheduler must decide without knowing how long a response will be. Admit too many requests and the KV cache runs
# out: one of them is **preempted**, and its cache is recomputed later, as vLLM does it [20]. Admit too few and memory
# stays empty. The extra module `batching` asks you for the rule.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (static_steps, continuous_steps) == (12_404, 3536) and round(busy["static"], 2) == 0.25
assert round(static_steps / continuous_steps, 1) == 3.5 and round(1 - busy["continuous"], 2) == 0.11
harmonic = sum(1 / k for k in range(1, SLOTS + 1))
assert round(harmonic, 2) == 4.06 and abs(busy["static"] - 1 / harmonic) < 0.01
assert SLOTS == 32 and all(begin < 2400 for begin, place in in_batches[:SLOTS])

# %% [markdown] slideshow={"slide_type": "notes"}
# Cover figure 4 and let the class draw the upper half for lengths 1, 1, 4, 2, 1, 1 in three slots,
# then the lower half. Ask who gains: the throughput, and each short request too, since it needn't wait for a long
# one.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 9. When a prompt comes in between
#
# A new request brings a prompt. Its prefill takes long, and all others wait for it. A prompt of 8192 tokens takes
# 0.91 s at best. For this time every user's response stops. What can you do?
#
# **Chunked prefill** cuts the prompt into chunks, and does one in each step beside the tokens of the others.
# **Disaggregation** separates prefill from decode: some GPUs compute prompts, others write responses [7]. Then each part
# can have its own number of GPUs and its own parallel configuration, as section 7 asks for. The price is a message: keys
# and values of the whole prompt move from the ones to the others.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/move",
    "8192 tokens of 320 KiB each move to another node, at 12.5 GB/s. How long does that take?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
moved_gb = 8192 * kv / 1e9
move_ms = 1e3 * 8192 * kv * zaratan.beta_s_per_byte
print(f"{moved_gb:.2f} GB; the prefill itself {1e3 * least_s(8192):.0f} ms")
reveal("13/move", move_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The keys and values are 2.68 GB, and take 215 ms. That is a quarter of the prefill, and nobody but the new user
# waits for it.

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["open"]
# Watch both ways on the clock. The vectors are shorter than the real ones by a factor of 1000, and a byte takes
# 1000 times as long.

# %% slideshow={"slide_type": "fragment"}
# %%writefile serving.py
import numpy as np
from mpi4py import MPI

import ringside


def decode(seconds, times):
    ringside.compute(seconds=seconds, phase="token")
    times.append(MPI.Wtime())


def together(comm, step_s, prompt_s):
    times = []
    for number in range(60):
        if number == 8:  # a prompt has come
            ringside.compute(seconds=prompt_s, phase="prompt")
        decode(step_s, times)
    return max(np.diff(times))


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a serving.py


def apart(comm, step_s, prompt_s, cache):
    if comm.rank == 0:
        ringside.compute(seconds=prompt_s, phase="prompt")
        comm.Send(cache, 1)
        return 0.0
    times, coming = [], comm.Irecv(np.empty_like(cache), 0)
    while not coming.Test():  # the others' responses go on
        decode(step_s, times)
    return max(np.diff(times))


# %% slideshow={"slide_type": "fragment"}
slow_wire = zaratan.with_(ranks_per_node=1, beta_s_per_byte=1000 * zaratan.beta_s_per_byte)
times = (step_s(16), least_s(8192))
one = ringside.run("serving.py:together", 1, times, machine=slow_wire)
cache = np.zeros(8192 * kv // 1000, np.uint8)
two = ringside.run("serving.py:apart", 2, (*times, cache), machine=slow_wire)
print(f"longest wait for a token: together {one.values[0]:.3f} s, apart {two.values[1]:.3f} s")
two.timeline

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 5. Rank 0 computes a prompt and sends its keys and values. Rank 1 writes the responses of 16 users meanwhile,
# 24 ms for each step.*
#
# Where prompt and responses share the same GPUs, somebody waits 0.937 s for a token, the prompt and a step. Disaggregated,
# nobody waits longer than for a step, 0.024 s. The new user's first token comes 215 ms later. Can that be
# less? Keys and values of a layer are ready when the prompt has passed that layer. Puzzle 2 sends them then.

# %% [markdown] slideshow={"slide_type": "fragment"}
# The authors of DistServe count the requests that are served within given limits for TTFT and TPOT, and call
# their rate *goodput*. They report up to 4.48 times the goodput of earlier systems [7].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(moved_gb, 2) == 2.68 and round(move_ms) == 215 and kv == 320 * 1024
assert round(least_s(8192), 2) == 0.91 and 0.2 < move_ms / 1e3 / least_s(8192) < 0.25
assert round(float(one.values[0]), 3) == 0.937 and round(float(two.values[1]), 3) == 0.024
assert round(1e3 * step_s(16)) == 24 and round(zaratan.beta_s_per_byte * 12.5e9, 9) == 1
assert stated["DistServe, goodput"] == 4.48

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 10. Speculative decoding
#
# One user's token reads all weights and uses 1/201 of the arithmetic. Could several tokens of *one* response go
# through the model together? Only if somebody guessed them. **Speculative decoding** [8, 9] lets a small model,
# the *draft*, write $g$ tokens. Then the large model looks at all of them in one step, as in a prefill. It keeps
# them as far as it agrees, and adds one token of its own.
#
# The rule of agreement is chosen such that the text is exactly one of the large model. Let the large model give a
# word the probability $p$, and the draft $q$. The draft's word is accepted with probability $\min(1, p/q)$. If it
# isn't, a word is drawn from the rest, $\max(0, p - q)$ over its sum.


# %% slideshow={"slide_type": "fragment"}
def speculate(rng, p, q, g):
    """The tokens of one round, between 1 and g + 1 of them."""
    tokens = []
    for word in rng.choice(len(q), size=g, p=q):
        if rng.random() >= p[word] / q[word]:
            rest = np.maximum(p - q, 0)
            return [*tokens, rng.choice(len(p), p=rest / rest.sum())]
        tokens.append(word)
    return [*tokens, rng.choice(len(p), p=p)]


p = np.array([0.5, 0.2, 0.15, 0.1, 0.05])  # the large model's
q = np.array([0.4, 0.3, 0.05, 0.1, 0.15])  # the draft's
rounds = [speculate(rng, p, q, 4) for _ in range(10_000)]
spoken = np.concatenate(rounds)
print("the text has ", (np.bincount(spoken) / len(spoken)).round(3))
print("it should have", p)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The words are those of the large model. How many come from a round? A word of the draft is accepted with
# probability $a = \sum \min(p, q)$, which is 0.8 here. At least $k$ words of the draft are accepted with
# probability $a^k$. With the one that the large model adds, a round has in the mean
#
# $$1 + a + a^2 + \dots + a^g = \frac{1 - a^{g+1}}{1 - a} \quad\text{tokens.}$$
#
# If the draft takes the part $c$ of the time of the large model, a round takes $1 + g c$ such times.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("13/round", "With a = 0.8 and g = 4: how many tokens has a round in the mean?", unit="tokens")


# %% slideshow={"slide_type": "fragment"}
def tokens_of_round(a, g):
    return (1 - a ** (g + 1)) / (1 - a)


def speedup(a, g, c):
    return tokens_of_round(a, g) / (1 + g * c)


simulated = np.mean([len(one) for one in rounds])
print(f"simulated {simulated:.2f}")
for a in (0.6, 0.8, 0.9):
    best = max(range(20), key=lambda g: speedup(a, g, 0.1))
    print(f"a = {a}, c = 0.1: best with g = {best}, {speedup(a, best, 0.1):.2f} times as fast")
reveal("13/round", tokens_of_round(0.8, 4))

# %% [markdown] slideshow={"slide_type": "fragment"}
# A round has 3.36 tokens in the mean. With a draft of a tenth of the time and $a = 0.8$ it is best to guess 6 tokens,
# and the text comes 2.47 times as fast. The papers report 2 to 3 times [8], and 2 to 2.5 times on a model of 70 billion
# parameters [9].

# %% [markdown] slideshow={"slide_type": "fragment"}
# It helps one user, and not many. With 42 users and $g = 4$ there are 210 tokens in a step. That is more than the
# 201 of section 2, so from there on you pay arithmetic for each guessed token.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.abs(np.bincount(spoken) / len(spoken) - p).max() < 0.01
accepted = np.minimum(p, q).sum()
assert np.isclose(accepted, 0.8) and round(tokens_of_round(accepted, 4), 2) == 3.36
assert abs(simulated - tokens_of_round(0.8, 4)) < 0.05 and round(speedup(0.8, 6, 0.1), 2) == 2.47
assert max(range(20), key=lambda g: speedup(0.8, g, 0.1)) == 6
assert fitting * (4 + 1) == 210 > ridge and round(ridge) == 201 and fitting == 42
assert round(stored / 1e9) in range(70, 72) and 2.0 < speedup(0.8, 6, 0.1) < 2.5

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=35
# ## 11. Inference as practised
#
# Sections 3 to 9 have the ideas. What do the serving engines of 2025 and 2026 make of them? Four things, each with a
# small run.
#
# **Prefix caching.** Many requests begin alike: with the same system prompt, the same document, or the conversation so
# far. If *all tokens before* are the same, so are keys and values. So an engine keeps the KV blocks of section 4 when a
# request has ended, and looks for them when the next one comes. vLLM names a block by a hash of its tokens and of the
# block before it [20]; SGLang keeps a radix tree [21]. If memory runs out, the block goes that wasn't used for the
# longest time, the end of a chain first.


# %% slideshow={"slide_type": "fragment"}
class PrefixCache:
    def __init__(self, num_blocks):
        self.num_blocks, self.used = num_blocks, {}  # names of blocks, the oldest first

    def take(self, tokens):
        """Keep a prompt's blocks of 16; return how many of its tokens were there already."""
        names, name = [], 0
        for start in range(0, len(tokens) - 15, 16):
            name = hash((name, *tokens[start : start + 16]))  # this block and all before it
            names.append(name)
        hits = next((i for i, name in enumerate(names) if name not in self.used), len(names))
        for name in reversed(names):  # so the last block of a chain is the first to go
            self.used.pop(name, None)
            self.used[name] = None
        while len(self.used) > self.num_blocks:
            del self.used[next(iter(self.used))]
        return 16 * hits


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/prefix",
    "300 requests, each with one of 8 system prompts of 1536 tokens and 512 tokens of its own. All blocks fit. Which part of the prompt tokens is in the cache already?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
draw, OWN, SHARED = np.random.default_rng(5), 512, 1536
systems = draw.integers(m.words, size=(8, SHARED)).tolist()
prompts = [
    systems[draw.integers(8)] + draw.integers(m.words, size=OWN).tolist() for _ in range(300)
]
hit_share = {}
for num_blocks in (512, 1024, 2048, 16_384):
    cache = PrefixCache(num_blocks)
    hit_share[num_blocks] = sum(map(cache.take, prompts)) / (300 * (OWN + SHARED))
    print(f"{num_blocks:5} blocks: {hit_share[num_blocks]:.0%} of the prompt tokens are hits")
reveal("13/prefix", 100 * hit_share[16_384])

# %% [markdown] slideshow={"slide_type": "fragment"}
# 73 % are hits: three quarters of each prompt are shared, and each system prompt is computed once. If a part $h$ is a
# hit, your prefill shrinks by $1/(1-h)$, here 3.7 times. The cache must be large, though. The system prompts have
# 768 blocks, and with 1024 in the pool only 62 % are hits: the requests' own tokens push shared blocks out.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(hit_share[16_384], 2) == 0.73 and round(1 / (1 - hit_share[16_384]), 1) == 3.7
assert 8 * SHARED / 16 == 768 and round(hit_share[1024], 2) == 0.62
assert SHARED / (OWN + SHARED) == 0.75

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Routing.** With several replicas of the model, who gets the next request? Round robin spreads each system prompt over
# all caches. A router that knows the caches can do better. Dynamo's adds, for each replica, a weight times the prefill
# blocks that would be new there, and the blocks in decode, and takes the smallest sum [22]. Here are four replicas for
# prefill, each with room for two of 8 system prompts. Requests come 40 times a second, and some prompts are
# asked for more often.


# %% slideshow={"slide_type": "fragment"}
def routed(weight, room=2, replicas=4):
    """Part of hits, and the wait for the first token of one request in a hundred."""
    draw, popular = np.random.default_rng(6), 1 / np.arange(1, 9)
    arrivals = np.cumsum(draw.exponential(1 / 40, 2000))
    kinds = draw.choice(8, 2000, p=popular / popular.sum())
    caches, free_s, hits, waits = [[]] * replicas, np.zeros(replicas), [], []
    for number, (now, kind) in enumerate(zip(arrivals, kinds)):
        new_s = np.array([least_s(OWN + SHARED * (kind not in cache)) for cache in caches])
        queue_s = np.maximum(free_s - now, 0)
        r = number % replicas if weight is None else (weight * new_s + queue_s).argmin()
        hits.append(kind in caches[r])
        waits.append(queue_s[r] + new_s[r])
        others = [one for one in caches[r] if one != kind]
        caches[r] = [*others[1 - room :], kind]
        free_s[r] = now + waits[-1]
    return np.mean(hits), np.quantile(waits, 0.99)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/routed",
    "Weight 0 looks at the queues alone, weight 100 nearly at the caches alone. With which is the wait of the unluckiest shortest?",
    choices=["0", "1", "100"],
)

# %% slideshow={"slide_type": "fragment"}
routes = {weight: routed(weight) for weight in (None, 0, 1, 100)}
for weight, (hits, wait_s) in routes.items():
    name = "round robin" if weight is None else f"weight {weight}"
    print(f"{name:11}: {hits:4.0%} hits, one in 100 waits {wait_s:5.2f} s or longer")
reveal("13/routed", str(min((0, 1, 100), key=lambda weight: routes[weight][1])))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Weight 1 is best. Then the cost is the time until the request's first token.
#
# | | hits | one in 100 waits, s |
# |---|---|---|
# | round robin | 38 % | 32 |
# | queues alone | 38 % | 31 |
# | weight 1 | 81 % | 0.74 |
# | weight 100 | 99 % | 8.9 |
#
# Without hits four replicas can't keep up with the requests, so the queues grow. With the caches alone the replica of
# the most popular prompt is overloaded, while others are idle.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(100 * hits) for hits, _ in routes.values()] == [38, 38, 81, 99]
assert [round(wait) for _, wait in routes.values()][:2] == [32, 31]
assert [round(wait, 2) for _, wait in routes.values()][2] == 0.74
assert round(routes[100][1], 1) == 8.9 and 4 / least_s(OWN + SHARED) < 40

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Chunked prefill and disaggregation** are section 9's two cures. vLLM has one budget of tokens for each step,
# `max_num_batched_tokens`. Tokens in decode come first, and chunks of prompts take what is left [20]. How large should
# it be? A step reads all weights, so it should have at least the $n^*$ of section 2. The more tokens, the
# longer each user waits for the next one. Here it is 256.
#
# Now everything together. 120 requests come to two nodes, 8 in a second, with prompts as above.


# %% slideshow={"slide_type": "fragment"}
# %%writefile server.py
import numpy as np
from mpi4py import MPI

import ringside


def chunks(live, room):
    """Prompts take what is left of a step's budget; return the requests that are through."""
    through = []
    for one in live:
        part = max(min(one["left"], room), 0)
        one["left"], room = one["left"] - part, room - part
        if part and not one["left"]:
            through.append(one)
    return through


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a server.py


def step(live, budget, cost):
    """A token for each request in decode, and chunks of prompts. Return who goes on."""
    decoding = [one for one in live if not one["left"]]
    before = sum(one["left"] for one in live)
    through = chunks(live, budget - len(decoding))
    tokens = len(decoding) + before - sum(one["left"] for one in live)
    read_s = cost["weights_s"] + cost["kv_s"] * sum(one["kept"] for one in decoding)
    ringside.compute(seconds=max(read_s, cost["token_s"] * tokens), phase="step")
    now = MPI.Wtime()
    for one in decoding + through:
        one["kept"] += 1
        one["times"].append(now)
    return [one for one in live if len(one["times"]) < one["length"]]


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a server.py


def serve(comm, requests, cost, budget, static=False):
    """Each node serves its share of the requests, prefill and decode."""
    mine = requests[comm.rank :: comm.size]
    waiting, live = list(mine), []
    while waiting or live:
        if not live:  # idle until the next one comes
            ringside.compute(seconds=max(waiting[0]["arrival"] - MPI.Wtime(), 0), phase="idle")
        if not (static and live):
            while waiting and len(live) < 42 and waiting[0]["arrival"] <= MPI.Wtime():
                live.append(waiting.pop(0))
        live = step(live, budget, cost)
    return [(one["arrival"], one["times"]) for one in mine]


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a server.py


def prefill(comm, requests, cost, token_bytes):
    """Node 0 computes prompts, and sends their keys and values to node 1."""
    sends = []
    for one in requests:
        ringside.compute(seconds=max(one["arrival"] - MPI.Wtime(), 0), phase="idle")
        ringside.compute(
            seconds=max(cost["weights_s"], cost["token_s"] * one["left"]), phase="prompt"
        )
        sends.append(comm.Isend(np.zeros(one["kept"] * token_bytes, np.uint8), 1))
    for send in sends:
        send.Wait()
    return []


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a server.py


def disaggregated(comm, requests, cost, token_bytes):
    if comm.rank == 0:
        return prefill(comm, requests, cost, token_bytes)
    empty = [np.empty(one["kept"] * token_bytes, np.uint8) for one in requests]
    coming, live = [(one, comm.Irecv(into, 0)) for one, into in zip(requests, empty)], []
    while coming or live:
        if not live:
            coming[0][1].Wait()
        while coming and len(live) < 42 and coming[0][1].Test():
            live.append(coming.pop(0)[0])
            live[-1].update(left=0, times=[MPI.Wtime()])
        live = step(live, 10**9, cost)
    return [(one["arrival"], one["times"]) for one in requests]


# %% slideshow={"slide_type": "fragment"}
def stream(caches=0):
    """120 requests. With caches, only the first of its kind in each has a whole prompt."""
    draw, now, seen, requests = np.random.default_rng(7), 0.0, set(), []
    for number in range(120):
        now += draw.exponential(1 / 8)
        kind = (int(draw.integers(8)), number % max(caches, 1))
        left = OWN + SHARED * (not caches or kind not in seen)
        seen.add(kind)
        length = int(min(draw.geometric(1 / 150), 1024))
        requests.append({"arrival": now, "left": left, "kept": OWN + SHARED,
                         "length": length, "times": []})  # fmt: skip
    return requests


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/gap",
    "With continuous batching and whole prompts, a user waits up to 0.46 s between two tokens. How long with a budget of 256 tokens?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
cost = {"weights_s": least_s(1), "kv_s": kv / (4 * M), "token_s": least_s(2048) / 2048}
ALL = 10**9  # no budget
ways = {"static": ("serve", stream(), ALL, True), "continuous": ("serve", stream(), ALL),
        "+ chunked prefill": ("serve", stream(), 256), "+ prefix cache": ("serve", stream(2), 256),
        "cache, disaggregated": ("disaggregated", stream(1), kv // 1000)}  # fmt: skip
served = {}
for name, (function, requests, *rest) in ways.items():
    run = ringside.run(f"server.py:{function}", 2, (requests, cost, *rest), machine=slow_wire)
    done = [one for values in run.values for one in values]
    first_s = np.median([times[0] - arrival for arrival, times in done])
    gap_s = max(np.diff(times).max() for _, times in done if len(times) > 1)
    rate = sum(len(times) for _, times in done) / max(times[-1] for _, times in done)
    served[name] = first_s, 1e3 * gap_s, rate
    print(f"{name:20}: TTFT {first_s:5.2f} s, gap {1e3 * gap_s:3.0f} ms, {rate:3.0f} tokens/s")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axes = plt.subplots(1, 3, figsize=(9.6, 2.6), layout="constrained", sharey=True)
titles = ("time to first token, s (median)", "longest wait for a token, ms", "tokens a second")
for axis, title, column in zip(axes, titles, zip(*served.values())):
    bars = axis.barh(list(served), column, color=[GREY, BLUE, BLUE, BLUE, GREEN])
    axis.bar_label(bars, [f"{value:.{2 * (value < 20)}f}" for value in column], padding=3)
    axis.set_title(title, fontsize=10)
    axis.margins(x=0.25)
axes[0].set_xscale("log")
axes[0].invert_yaxis()
show(figure, "Three bar charts of five ways to serve the same requests. The time to the first token falls from 15 seconds with "
     "static batches to a third of a second with continuous batching, and to a tenth with a prefix cache. The longest wait between "
     "two tokens is 460 milliseconds with continuous batching and whole prompts, and below 30 in all other ways. Tokens a second "
     "grow from 329 to 518, and to about 590 from chunked prefill on.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("13/gap", served["+ chunked prefill"][1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. The same 120 requests, served by two nodes in five ways. A line with + adds to the one above it; the
# last has the prefix cache, and no chunks.*
#
# With a budget of 256 nobody waits longer than 29 ms for a token, since no step is longer. The rate grows as well, from
# 518 to 593 tokens a second. A step of decode leaves arithmetic unused, and a chunk uses it. The prefix cache shortens
# the time to the first token from 0.36 to 0.10 s. Disaggregation adds no rate here: the node for prompts is idle about
# half of the time. What does it give you? Steps of decode that no prompt ever makes longer, and two numbers of nodes to choose.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
firsts, gaps, rates = zip(*served.values())
assert round(gaps[1], -1) == 460 and round(gaps[2]) == 29 and max(gaps[2:]) < 30 > gaps[0]
assert [round(rate) for rate in rates[:3]] == [329, 518, 593] and min(rates[2:]) > 585
assert [round(first, 2) for first in firsts[2:4]] == [0.36, 0.10] and firsts[4] < 0.2
assert round(256 * cost["token_s"], 3) == 0.029 and ridge < 256 and round(firsts[0]) == 15

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A smaller cache: MLA.** Section 3 shrank the KV cache with key heads. *Multi-head latent attention* [23] goes further:
# a token keeps one *latent* vector in each layer, from which all heads compute their keys and values. DeepSeek-V3 has 61
# layers, and keeps 512 numbers and 64 more for positions in each.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("13/latent", "How many kB does a token leave in bf16?", unit="kB")

# %% slideshow={"slide_type": "fragment"}
latent, full = 61 * (512 + 64) * w, kv_bytes(61, kv_heads=128)
print(f"keys and values of 128 heads {full / 1e6:.1f} MB, latents {latent / 1e3:.1f} kB; "
      f"section 1's model {kv / 1e3:.0f} kB")  # fmt: skip
for t in (1, 8):
    print(
        f"a GPU of {t}: section 1's model {kv / min(t, 8) / 1e3:.0f} kB, latents {latent / 1e3:.0f} kB"
    )
reveal("13/latent", latent / 1e3)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A token leaves 70.3 kB. The model of section 1 keeps 328 kB, and with keys and values of all its 128 heads DeepSeek-V3
# would keep 4.0 MB. But a latent belongs to *all* heads, so tensor parallelism can't shard it: each of 8 GPUs keeps all
# 70 kB, where it keeps 41 kB for the model of section 1. So such models are served differently [24]: attention is data
# parallel, each GPU with requests of its own, and the MLPs are experts, spread over all GPUs (lecture 14). Eight GPUs
# then hold 8 times as many requests as with tensor parallelism.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert latent / 61 / w == 512 + 64 == 576
assert (latent, round(latent / 1e3, 1), round(full / 1e6, 1)) == (70_272, 70.3, 4.0)
assert round(kv / 1e3) == 328 and round(kv / 8 / 1e3) == 41 and m.kv_heads == 8
assert full // latent > 50

# %% [markdown] slideshow={"slide_type": "notes"}
# Minutes: prefix caching 10, routing 8, figure 6 with its program 10, MLA 7. If time is short, show of the program
# `step` alone. Ask at figure 6 what happens with 4 requests a second, and with 16: below the capacity all rates are
# equal, and only the times differ.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. Weights with fewer bits
#
# The bound of section 1 is bytes over bandwidth, so fewer bytes help directly. **Quantised weights** are integers
# of 8 or 4 bits. A *scale* for each row, or for each group of 32 numbers, says what 1 means. The GPU reads the
# integers, makes bf16 numbers of them and multiplies as before. This is called *weight-only* quantisation.


# %% slideshow={"slide_type": "fragment"}
def quantised(W, bits, group):
    """W with each group of numbers rounded to integers of so many bits times a scale."""
    groups = W.reshape(-1, group)
    scale = np.abs(groups).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    return (np.round(groups / scale) * scale).reshape(W.shape)


W, x = rng.normal(size=(512, 2048)), rng.normal(size=2048)
wrong = {}
for bits, group in ((8, 2048), (4, 2048), (4, 32)):
    y = quantised(W, bits, group) @ x
    wrong[bits, group] = np.linalg.norm(y - W @ x) / np.linalg.norm(W @ x)
    print(f"{bits} bits, scale for {group:4}: error {wrong[bits, group]:5.1%}, "
          f"{bits + 16 / group:.2f} bits a number")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 8 bits and a scale for each row the product is wrong by 0.8 %. With 4 bits it is 15.6 %, and 9.8 % with a
# scale for each 32 numbers. These scales cost half a bit a number. (The weights here are drawn at random. What an
# error of this size does to a model's responses has to be measured with that model.)
#
# The bound of section 1 rises from 44.7 to 89.5 tokens a second with 8 bits, and to 159 with 4.5 bits. The model
# takes 39.7 GB then, so it fits into a single A100. Arithmetic is still done in bf16, so the tokens that must go
# together fall in proportion: $n^*$ is 100 with 8 bits, and 56 with 4.5 bits. For many users less is gained than
# for one. Keys and values can be quantised as well. In 8 bits twice as many users fit.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(100 * wrong[key], 1) for key in ((8, 2048), (4, 2048), (4, 32))] == [0.8, 15.6, 9.8]
bound = {bits: 4 * M / (used * bits / 8) for bits in (16, 8, 4.5)}
assert [round(one, 1) for one in bound.values()][:2] == [44.7, 89.5] and round(bound[4.5]) == 159
assert round(stored * 4.5 / 8 / 1e9, 1) == 39.7 and stored * 4.5 / 8 < zaratan.memory_bytes
assert [round(bits / 8 * F / (2 * M)) for bits in (8, 4.5)] == [100, 56]

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why both tricks help one user and not a full batch. Both buy bytes with
# arithmetic, and a full batch has no arithmetic to spare.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. New weights for a running server
#
# In reinforcement learning some GPUs train a model, and others, the *samplers*, write the responses that it learns from.
# After each step of training the samplers need the new weights (*weight sync*). The trainers shard a matrix by rows, as
# ZeRO-3 does (lecture 7). The samplers shard it by columns, for tensor parallelism. Which collective turns the one
# placement into the other?
#
# None does. In a collective of lecture 3 the ranks of one group exchange equal parts. Here those that have something and
# those that need it are two groups, and layouts of other sizes have pieces of other sizes. So you can let each sampler
# get from each trainer the piece where rows and columns meet. Or you gather the matrix on rank 0, which broadcasts it.
# Here are both, for four trainers and four samplers.

# %% slideshow={"slide_type": "fragment"}
# %%writefile reshard.py
import numpy as np


def rows(n, rank):
    """A trainer's quarter of the new weights; the element of row i, column j is n i + j."""
    return np.arange(n * n, dtype="float32").reshape(4, n // 4, n)[rank]


def naive(comm, n):
    """Rank 0 gathers the matrix and broadcasts it; each sampler keeps its columns."""
    matrix = np.empty((n, n), "float32")
    trainers = comm.Split(comm.rank // 4, comm.rank)  # 0 to 3 train, 4 to 7 are samplers
    if comm.rank < 4:
        trainers.Gather(rows(n, comm.rank), matrix if comm.rank == 0 else None)
    comm.Bcast(matrix, root=0)
    return np.split(matrix, 4, axis=1)[comm.rank - 4] if comm.rank >= 4 else None


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a reshard.py


def direct(comm, n):
    """Each trainer sends each sampler the piece where its rows meet the sampler's columns."""
    me, columns = comm.rank % 4, np.empty((4, n // 4, n // 4), "float32")
    for step in range(4):  # in each step every rank has another partner
        if comm.rank < 4:
            sampler = (me + step) % 4
            piece = np.split(rows(n, me), 4, axis=1)[sampler]
            comm.Send(np.ascontiguousarray(piece), 4 + sampler)
        else:
            trainer = (me - step) % 4
            comm.Recv(columns[trainer], trainer)
    return columns.reshape(n, n // 4) if comm.rank >= 4 else None


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/rank-zero",
    "The library's broadcast is a binomial tree. How many times more bytes does rank 0 send and receive in `naive` than in `direct`?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
wires = zaratan.with_(ranks_per_node=1, gpus_per_nic=1, beta_s_per_byte=1 / 50e9)  # 400 Gbit/s
matrix, through, sync_us = np.arange(1024**2, dtype="float32").reshape(1024, 1024), {}, {}
for way in ("naive", "direct"):
    run = ringside.run(f"reshard.py:{way}", 8, (1024,), machine=wires)
    assert np.array_equal(np.hstack(run.values[4:]), matrix)
    sent = run.timeline.bytes_matrix
    through[way], sync_us[way] = sent[0].sum() + sent[:, 0].sum(), 1e6 * run.makespan_s
    print(f"{way:6}: {through[way] / 1e6:5.2f} MB through rank 0, {sync_us[way]:5.1f} µs")
reveal("13/rank-zero", through["naive"] / through["direct"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# 15 times as many. To gather, rank 0 receives three quarters of the matrix. In the tree of 8 ranks it sends the whole
# matrix three times. Directly it sends a quarter, its own rows, once. All other trainers send as much at the same time,
# so `direct` takes 32 µs and `naive` 344.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(through["naive"] / through["direct"], 3) == 15 == (0.75 + 3) / 0.25
assert through["direct"] == matrix.nbytes / 4 and np.log2(8) == 3
assert [round(sync_us[way]) for way in ("direct", "naive")] == [32, 344]

# %% [markdown] slideshow={"slide_type": "subslide"}
# How fast can it be? Call $W$ the bytes of all weights, in the number format of the samplers. $N$ trainers have them
# once, and $k$ inference engines of $T$ GPUs each need them. All GPUs have a port of bandwidth $B$. A sampler takes in
# its shard, $W/T$. All trainers together send $k$ copies, so each sends $kW/N$ if they share the work evenly:
#
# $$\text{time} \ge \frac{1}{B} \max\left(\frac{W}{T}, \frac{kW}{N}\right) .$$
#
# A broadcast brings $W$ to every sampler, which is $T$ times as much as it needs. Below are published times for
# Kimi K2, a model of about a trillion parameters, with $W$ = 1 TB in FP8.

# %% slideshow={"slide_type": "fragment"}
all_bytes, engine, port = 1e12, 16, 50e9  # W, T and B; T and B are assumed for Perplexity's GPUs
sampler_s = all_bytes / engine / port
trainer_s = 128 // engine * all_bytes / 256 / port  # k copies from 256 trainers
pieces_s, broadcast_s, joining_s = (
    stated[f"weights of Kimi K2, {way}, s"] for way in ("pieces", "broadcast", "to GPUs that join")
)
print(
    f"bound {max(sampler_s, trainer_s):.2f} s (trainers {trainer_s:.2f} s): {pieces_s} s measured"
)
print(f"broadcast: {broadcast_s} s, {all_bytes / broadcast_s / 1e9:.0f} GB/s into each GPU")

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# | who, when | way | GPUs | time |
# |---|---|---|---|
# | Perplexity, September 2025 [26] | trainers write into the samplers' memory; a static schedule says which GPU sends which parameter to which | 256 to 128 | 1.3 s |
# | checkpoint-engine, 2025 [25] | broadcast to all, and each GPU keeps its slices | 256, in engines of 16 | 16.04 s |
# | checkpoint-engine, 2025 [25] | pieces to 16 GPUs that join | 256, in engines of 16 | 16.75 s |
#
# Perplexity is at the wire *if* an engine has 16 GPUs and each GPU a port of 400 Gbit/s. Both are our assumptions; with
# them the bound is 1.25 s.
#
# Why does checkpoint-engine broadcast, and call that its fastest way? Its weights come from the memory of CPUs, and the
# broadcast runs in a pipeline with these copies. It also needs no plan for each pair of GPUs. The pieces are for engines
# that join later, while the others answer. So the three rows aren't a race: they start from different places. vLLM offers
# both ways: a broadcast, and an engine whose workers each pull only the slice that they need [27].
#
# While the weights travel, samplers wait, or they write on with the old ones. Then what they write is a step old: it is
# the delay $d$ of lecture 6, section 4, in another place. The extra module `weights` asks you for the plan, with
# copies on both sides.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (sampler_s, trainer_s, 400e9 / 8) == (1.25, 0.625, port) and engine == 256 / 16
assert (pieces_s, broadcast_s, joining_s) == (1.3, 16.04, 16.75)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 14. What has been measured
#
# The program gpt-fast [10] publishes runs of Llama 2 with 70 billion parameters on A100 GPUs of 80 GB, all in one
# node, for one user. It also says how many bytes a GPU reads for a token. With $t$ GPUs the time should be a part
# for these bytes, and a part that stays the same: messages and starts of kernels.
#
# Two of the measurements fix both parts. With 2 GPUs there are 21.32 tokens a second, and each GPU reads 69.5 GB
# for a token. With 8 GPUs there are 62.50, and each reads 18.2 GB. Then the line says what 4 GPUs should give,
# with 35.3 GB each.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("13/held-out", "How many tokens a second does this line predict for 4 GPUs?", unit="tokens/s")

# %% slideshow={"slide_type": "fragment"}
fast = table(LECTURES / "data" / "gpt_fast.csv")
a100 = 2039.0  # GB/s, of 80 GB
rows = {tuple(map(int, key)): (1e3 / rate, gb / rate) for *key, rate, gb in zip(*fast.values())}


def line_ms(gb, share=1.0):
    """The time of a token: bytes at a rate, and a constant in proportion to the layers."""
    (two_ms, two_gb), (eight_ms, eight_gb) = rows[70, 16, 2], rows[70, 16, 8]
    slope = (two_ms - eight_ms) / (two_gb - eight_gb)
    return slope * gb + share * (eight_ms - slope * eight_gb)


predicted = 1e3 / line_ms(rows[70, 16, 4][1])
print(f"bytes at {1 / (line_ms(1) - line_ms(0)):.2f} TB/s, and {line_ms(0):.2f} ms")
print(f"predicted {predicted:.2f}, measured {1e3 / rows[70, 16, 4][0]:.2f}")
reveal("13/held-out", predicted)

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# For 4 GPUs the line predicts 38.02 tokens a second, and 38.01 were measured [10]. The rate is 1.66 TB/s; the authors
# found about 1.7 TB/s at most with these GPUs. The constant is 5.07 ms. That is 32 µs for each of the 160 all-reduces,
# with the kernels around it. Our model has less for messages and more for starts: on 4 GPUs 0.6 and 9.2 ms. (gpt-fast
# joins kernels and records whole steps.)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The line also serves a model that it wasn't fitted to. Llama 2 with 7 billion parameters has 32 layers instead
# of 80. So its constant should be 2.03 ms.

# %% slideshow={"slide_type": "fragment"}
for key in ((7, 16, 1), (7, 16, 2), (7, 16, 4), (7, 16, 8), (70, 8, 8), (70, 4, 8)):
    took_ms, gb = rows[key]
    line = line_ms(gb, 1.0 if key[0] == 70 else 32 / 80)
    print(f"{key[0]:2} billion, {key[1]:2} bits, {key[2]} GPUs: predicted {line:5.2f} ms, "
          f"measured {took_ms:5.2f}, {line / took_ms - 1:+.0%}")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# For the small model the prediction is too slow by 5 to 9 %. For quantised weights it is too fast, by 14 % with 8
# bits and by 21 % with 4 bits: to make bf16 numbers of integers takes time that the line doesn't know.
#
# **A draft of 7 billion parameters.** In 4 bits and on one GPU, the large model writes 25.25 tokens a second, and
# the small one 196.8. So $c$ is 0.128. With the small one as a draft they write 48.4. For any $g$ from 3 to 5 the
# formula of section 10 gives this speed if $a$ is 0.72 to 0.73. So the draft is right about as often as that.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert rows[70, 16, 2][0] == 1e3 / 21.32 and 1e3 / rows[70, 16, 8][0] == 62.50
assert [round(rows[70, 16, t][1], 1) for t in (2, 8, 4)] == [69.5, 18.2, 35.3]
assert round(predicted, 2) == 38.02 and round(1e3 / rows[70, 16, 4][0], 2) == 38.01
assert round(1 / (line_ms(1) - line_ms(0)), 2) == 1.66 and round(line_ms(0), 2) == 5.07
assert round(1e3 * line_ms(0) / 160) == 32 and round(line_ms(0) * 32 / 80, 2) == 2.03
errors = {key: line_ms(gb, 1.0 if key[0] == 70 else 0.4) / ms - 1 for key, (ms, gb) in rows.items()}
assert [round(100 * errors[7, 16, t]) for t in (1, 2, 4, 8)] == [5, 5, 9, 9]
assert [round(100 * errors[70, bits, 8]) for bits in (8, 4)] == [-14, -21]
large, small = (1e3 / rows[key][0] for key in ((70, 4, 1), (7, 4, 1)))
c = large / small
assert (round(large, 2), round(small, 1), round(c, 3)) == (25.25, 196.8, 0.128)
chances = np.linspace(0.5, 0.9, 4001)
needed = [chances[np.abs(speedup(chances, g, c) - 48.4 / large).argmin()] for g in (3, 4, 5)]
assert stated["gpt-fast, 70B and 7B in 4 bits, tokens/s"] == 48.4
assert {round(float(one), 2) for one in needed} == {0.72, 0.73}

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# **Many users.** NVIDIA publishes a table for a model of 70 billion parameters in 8 bits on two H100 [11]. Each
# request has a prompt of 5000 tokens and a response of 500. A given number of requests is always under way, some of
# them waiting.

# %% slideshow={"slide_type": "fragment"}
nim = table(LECTURES / "data" / "nim_llama70b.csv")
print("requests  first token  between tokens  tokens/s")
for count, first, between, rate in zip(*nim.values()):
    print(f"{count:8}  {first / 1e3:9.2f} s  {between:11.1f} ms  {rate:8.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 250 requests users wait 89 s for a first token. Not all requests can be under work. *Little's law* says how
# many are: what is inside of a system on average is the rate at which it comes out, times the time that each one
# spends inside. Apply it to tokens.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/little",
    "With 100 requests, 917 tokens a second come out, and 92.9 ms lie between two tokens of a response. How many responses are being written at once?",
    unit="responses",
)

# %% slideshow={"slide_type": "fragment"}
at_once = dict(zip(nim["requests"].tolist(), nim["tokens_per_s"] * nim["between_tokens_ms"] / 1e3))
print({count: round(float(value), 1) for count, value in at_once.items()})
room = (2 * 80e9 - stored) / 5500  # bytes for each token of 5500, if one user had it all
fit = {bits: room / kv_bytes(80, w=bits / 8) for bits in (8, 16)}
print("users that fit:", {bits: int(value) for bits, value in fit.items()})
reveal("13/little", at_once[100])

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# About 85 responses are written at once, and never more. The others wait for memory. The two GPUs have 89.4 GB left
# beside the weights, and each request needs room for 5500 tokens. With keys and values of 16 bits 49 would fit,
# with 8 bits 99. So they must be kept in 8 bits here, although the table [11] doesn't say so.

# %% [markdown] slideshow={"slide_type": "fragment"}
# For one request the bound of section 1 is 10.4 ms a token, at 3.35 TB/s. 18.6 ms were measured, so 56 % of the
# bandwidth is used. The prompt of 5000 tokens takes 0.41 s. That is 854 TFLOP/s on each GPU, of 1979 that it could
# do in 8 bits.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
waits = dict(zip(nim["requests"].tolist(), nim["first_token_ms"]))
assert round(waits[250] / 1e3) == 89 and round(at_once[100]) == 85 and max(at_once.values()) < 86
assert round((2 * 80e9 - stored) / 1e9, 1) == 89.4 and int(fit[16]) == 49 and int(fit[8]) == 99
least_ms = 1e3 * used / 2 / (stated["H100, TB/s"] * 1e12)
assert round(least_ms, 1) == 10.4 and round(nim["between_tokens_ms"][0], 1) == 18.6
assert round(least_ms / nim["between_tokens_ms"][0], 2) == 0.56 and stated["H100, TB/s"] == 3.35
assert round(waits[1] / 1e3, 2) == 0.41 and 5000 + 500 == 5500 and nim["requests"].max() == 250
assert round(2 * used * 5000 / 2 / waits[1] / 1e9) == 854
assert abs(2 * stated["H100, TFLOP/s in bf16"] - 1979) < 2
assert round(nim["tokens_per_s"][4]) == 917 and round(nim["between_tokens_ms"][4], 1) == 92.9

# %% [markdown] slideshow={"slide_type": "notes"}
# Show the first table of the many users and cover the rest. Ask: "What happens
# between 50 and 100 requests?" The time to the first token jumps, and the time between tokens stops growing. A
# queue has formed.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 15. Where it breaks
#
# - **The bounds assume that memory is read at its peak.** In section 14 programs reached 56 % of it on H100 and
#   73 % on A100.
# - **Tensor parallelism ends with the heads.** With 8 heads for keys and values, more than 8 GPUs keep some of
#   them several times. Then users don't gain memory in proportion.
# - **Batches end with memory or patience.** More users need more blocks, and each user's tokens become slower as
#   keys and values are read.
# - **Long sequences change the balance.** With 131,072 tokens a user's keys and values have 43 GB. Reading them takes
#   6.9 ms of each step, and they don't go together with other users'. Lecture 11 cuts them over ranks.
# - **Speculation and quantisation spend arithmetic.** They help where there is some to spare, so for few users.
# - **A queue has no best speed.** Near its highest throughput the waits grow without limit, as the table of
#   section 14 shows.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(131_072 * kv / 1e9) == 43 and round(131_072 * kv / (4 * M) * 1e3, 1) == 6.9
assert m.kv_heads == 8 and round(least_ms / nim["between_tokens_ms"][0], 2) == 0.56
assert round(1e3 * rows[70, 16, 2][1] / rows[70, 16, 2][0] / a100, 2) == 0.73

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Summary
#
# The lecture began with one user and a node of four GPUs. **44.7 tokens a second** are the bound, because each
# token reads 139 GB of weights.
#
# - *How near can a program come?* Messages leave 43.3, and starts of kernels 30.9, if nobody joins them.
# - *What can be done about the cause?* More GPUs: 88 with 16 of them, for four times the price. Fewer bytes: 159
#   with 4.5 bits. More tokens for each reading: 2.47 times as many with a good draft.
# - *And many users?* 42 of them fit beside the weights, and get 1563 tokens a second together, 37.2 each. The memory
#   of the KV cache limits their number. Continuous batching keeps the slots full, chunks keep prompts from stopping the
#   others, and a prefix cache saves prompts that were there already.
#
# | what | why |
# |---|---|
# | decode $N w / (t M)$, prefill $2 N n / (t F)$ | one token reads all weights; many share the reading |
# | $n^* = w F / 2M$ tokens together | from there on arithmetic is the limit; 201 on an A100 |
# | $2 L n_{kv} c\, w$ bytes a token | keys and values don't change, so they are kept |
# | $\lceil S/p \rceil$ KV blocks | no response's length is known |
# | $2L$ all-reduces of $b\,d$ numbers a token | columns, then rows, in attention and MLP |
# | $t^* = \sqrt{N w / 4 L M \bar\alpha}$ GPUs | memory falls as $1/t$, latency grows as $t$ |
# | pipeline between nodes | long messages of the prefill don't fit through there |
# | static batch: $1/H_b$ of the slots | it waits for the longest response |
# | a part $h$ of hits in the prefix cache: $1/(1-h)$ times less prefill | equal beginnings have equal keys and values |
# | $(1 - a^{g+1})/(1 - a)$ tokens a round | the large model checks $g$ guesses in one reading |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1 / best_s, 1) == 44.7 and round(used * w / 1e9) == 139
assert round(1e3 / joined_ms[4], 1) == 43.3 and round(1e3 / started_ms[4], 1) == 30.9
assert round(1e3 / joined_ms[16]) == 88 and round(bound[4.5]) == 159
assert round(speedup(0.8, 6, 0.1), 2) == 2.47 and round(ridge) == 201
assert fitting == 42 and round(42 / step_s(42)) == 1563 and round(1 / step_s(42), 1) == 37.2

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 17. How to read a table of machines
#
# Lecture 0 checked a deck's table of GPUs [16] for consistency. Now you know what to look for in it. Divide
# arithmetic by bandwidth: the operations for each byte that is read.

# %% slideshow={"slide_type": "fragment"}
gpus = table(LECTURES / "data" / "gpus.csv")
tensor_tflop = {"P100": None, "V100": 125, "A100": 312}  # the same table, 16 bits
ridges = {}
for name, plain, gb in zip(gpus["gpu"], gpus["tflop_per_s"], gpus["gb_per_s"]):
    rates = {"32 bits": plain, "16 bits, tensor cores": tensor_tflop[name]}
    ridges |= {(name, how): 1e3 * rate / gb for how, rate in rates.items() if rate}
ridges["H100", "16 bits, tensor cores"] = stated["H100, TFLOP/s in bf16"] / stated["H100, TB/s"]
for (name, how), value in ridges.items():
    print(f"{name}, {how:22}: {value:5.1f} operations a byte")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With plain arithmetic this was 12 to 17 through three generations. With tensor cores it is 139 on a V100, 195 on
# an A100 and 295 on an H100 [2]. (The deck gives the A100 1600 GB/s. With the data sheet's 1555 it is the 201 of
# section 2.) So each generation needs more users at once to be used well. By its peak in 16
# bits the A100 is 2.5 times a V100. For one user who waits for a response it is 1.8 times a V100, by its bandwidth.
#
# **Memory on the chip.** The Cerebras wafer of the decks [15] has 40 GB at 20 PB/s. A model of 8 billion
# parameters in bf16 is read in 0.8 µs. Then memory isn't the limit any more: its 32 layers follow each other, and
# signals must cross the wafer. But the model of section 1 needs four such wafers, since nothing of it may lie
# outside.
#
# **The landscape.** A deck shows a page with the signs of those who make AI chips, from the largest firms to new
# ones [15]. Ask four numbers of each chip: operations a second in the format that you use, bytes of memory,
# bandwidth of that memory, bandwidth and latency between chips. With these you can do sections 1 to 7 again. A
# fifth question has no number: which programs run on it?

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert {round(v) for (_, how), v in ridges.items() if how == "32 bits"} == {12, 15, 17}
assert [round(v) for (_, how), v in ridges.items() if how != "32 bits"] == [139, 195, 295]
assert round(gpus["gb_per_s"][2] / gpus["gb_per_s"][1], 1) == 1.8
assert round(tensor_tflop["A100"] / tensor_tflop["V100"], 1) == 2.5
wafer = table(LECTURES / "data" / "wafer_scale.csv")
assert (wafer["memory_gb"][1], wafer["memory_pb_per_s"][1]) == (40, 20)
assert round(8e9 * 2 / (20 * 1e15) * 1e6, 1) == 0.8 and np.ceil(stored * w / 40e9) == 4
assert kv_bytes(32) == kv_bytes(1) * 32

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (wafer["memory_gb"][1], wafer["memory_pb_per_s"][1]) == (40, 20)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A figure about BERT.** One deck compares the A100 with the V100 on BERT [16]. Its caption is the important
# part. Where the V100 trains in FP32, the A100 trains in TF32, which keeps 10 bits of a number's fraction instead
# of 23. For inference the V100 uses INT8 or FP16 with a batch of 256. The A100 uses INT8 *with sparsity*, a batch
# of 94, and a version of TensorRT that wasn't released. (TensorRT is a compiler for inference: it joins
# operations, chooses kernels, and finds scales for INT8.) The peaks in the same deck's table differ by a factor of
# 10 in training, 156 against 15.7 TFLOP/s, and by 5.0 in inference, 624 against 125, before sparsity. So such a
# figure compares formats more than machines.
#
# **MLPerf** makes such comparisons fair by rules [12]. In the *closed* division everyone uses the same model and
# must reach a given accuracy. In the *open* one they needn't. Compare results of the same division and the same
# scenario only:
#
# | scenario | how requests come | what is reported |
# |---|---|---|
# | single stream | the next when the last is answered | latency |
# | server | at random times | requests a second within limits on latency |
# | offline | all at once | throughput |
#
# For language models the limits are TTFT and TPOT. In round 5.0 of April 2025 they were 450 and 40 ms for Llama 2 with
# 70 billion parameters, interactive, and 6 s and 175 ms for Llama 3.1 with 405 billion in the server scenario [13].

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "13/rack",
    "A cloud states 865,000 tokens/s for Llama 2 70B on a rack of 72 GPUs. How many TFLOP/s is that on each GPU?",
    unit="TFLOP/s",
)

# %% slideshow={"slide_type": "fragment"}
rack = stated["Azure, Llama 2 70B on 72 GPUs, tokens/s"]
each_tflop = rack / 72 * 2 * 69e9 / 1e12
print(f"{rack / 72:,.0f} tokens a second on each GPU")
print(
    f"{each_tflop / stated['Azure, TFLOP/s in FP8 of a GPU']:.0%} of what the page measured in FP8"
)
reveal("13/rack", each_tflop)

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# On each GPU it is 1658 TFLOP/s, 60 % of the 2744 that the same page measured for products in FP8 [14]. So the number
# is possible. Now read the small print. The result is marked as unverified, so MLCommons hasn't checked it. It is the
# sum of 18 virtual machines, of four GPUs each, that work at the same time. And it is a throughput: a single user gets
# a small part of it, since each copy of the model serves many users at once.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(each_tflop) == 1658 and stated["Azure, TFLOP/s in FP8 of a GPU"] == 2744
assert (
    round(each_tflop / stated["Azure, TFLOP/s in FP8 of a GPU"], 2) == 0.60
    and rack == 865_000
    and rack / 72 > 12_000
)
assert round(156 / gpus["tflop_per_s"][1]) == 10 and gpus["tflop_per_s"][1] == 15.7
assert round(624 / tensor_tflop["V100"], 1) == 5.0 and tensor_tflop["V100"] == 125
assert np.finfo(np.float32).nmant == 23
assert len(range(0, 72, 4)) == 18
limits = [stated[key] for key in stated if key.startswith("MLPerf")]
assert limits == [450, 40, 6000, 175] and ("MLPerf, Llama 3.1 405B, first token, ms") in stated
captions = table(LECTURES / "data" / "bert_figure.csv")
assert captions["inference_batch"].tolist() == [256, 94]

# %% [markdown] slideshow={"slide_type": "notes"}
# Bring a current page of results, for example from mlcommons.org, and let pairs find five things:
# division, scenario, format, number of accelerators, and whether power was measured.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18. Away from the data centre
#
# **On the edge.** A telephone or a car may have to answer without a network. The bound of section 1 holds there,
# too. A model of 8 billion parameters in 4.5 bits takes 4.5 GB. If the memory gives 50 GB/s (assumed), it writes
# at most 11 tokens a second, whatever the processor can do.
#
# **Privacy.** A server that keeps shared blocks tells something: who sends the same beginning as somebody else gets
# a faster first token. So blocks should be shared only among the requests of one owner. For training there is a
# stronger way, to leave the data where they are.
#
# **Federated learning** is the local SGD of lecture 6 with a server and many unreliable clients [17]. In each
# round the server sends the weights to some clients. Client $k$ trains on its own $n_k$ samples, and sends its
# weights $w_k$. The server takes $\sum_k \frac{n_k}{n} w_k$, where $n$ is the sum of the $n_k$. A deck names two
# reasons for it: privacy, and the limited bandwidth to devices on the edge [15].
#
# But weights tell about the data as well. *Secure aggregation* hides them [18]. Each two clients agree on a random
# vector. One adds it, and the other subtracts it. Each message alone is noise, and the sum is right:

# %% slideshow={"slide_type": "fragment"}
# %%writefile masked.py
import numpy as np


def total(comm, update):
    """Rank 0 learns the sum of the updates and none of them. Weights mod 2**32."""
    hidden = update.astype(np.uint32)
    for other in range(comm.size):
        if other != comm.rank:
            pair = sorted((comm.rank, other))  # both draw the same secret
            mask = np.random.default_rng(pair).integers(2**32, size=len(update), dtype=np.uint32)
            hidden = hidden + mask if comm.rank < other else hidden - mask
    seen = comm.gather(hidden)
    return (hidden, sum(seen)) if comm.rank == 0 else (hidden, None)


# %% slideshow={"slide_type": "fragment"}
updates = rng.integers(100, size=(5, 4))  # weights of 5 clients, as integers
run = ringside.run("masked.py:total", 5, [(one,) for one in updates])
print("client 3 sends", run.values[3][0], "and has", updates[3])
print("the sum is    ", run.values[0][1])
assert (run.values[0][1] == updates.sum(axis=0)).all()

# %% [markdown] slideshow={"slide_type": "fragment"}
# Here the secret of a pair is its numbers, so that you can run it. In earnest two clients agree on it without the
# server. The hard part of [18] is what happens when a client disappears in the middle: its masks must be taken out
# again.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(8e9 * 4.5 / 8 / 1e9, 1) == 4.5 and round(50e9 / (8e9 * 4.5 / 8)) == 11
assert (run.values[3][0] > 2**20).any() and round(50e9 / 1e9) == 50

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 19. Puzzles
#
# **Puzzle 1: a short all-reduce.** In the decode an all-reduce carries few bytes, and latency is all that counts.
# This program sends a vector of 64 numbers round a ring. Eight ranks take 15 µs. The target is 6 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np


def total(comm, length=64):
    own, p, rank = np.full(length, 1.0 + comm.rank), comm.size, comm.rank
    parts, coming = np.split(own, p), np.empty(length // p)
    for step in range(2 * (p - 1)):  # sum the parts, then hand them on
        sent, got = (rank - step) % p, (rank - step - 1) % p
        comm.Sendrecv(parts[sent], (rank + 1) % p, recvbuf=coming, source=(rank - 1) % p)
        parts[got] = parts[got] + coming if step < p - 1 else coming.copy()
    return float(np.concatenate(parts).sum())


# %% slideshow={"slide_type": "fragment"}
right = 64 * sum(range(1, 9))
attempt = puzzle("puzzle1.py:total", 8, expected=float(right), at_most_us=6,
                 hint="Bytes are cheap here, and steps are not.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Send the whole vector to everybody at once, and add up what comes. This is one step of seven messages. A rank
# sends 3584 bytes instead of 896, and the time falls from 14.9 µs to 4.6 µs. Libraries for inference do so inside
# a node, under the name *one-shot all-reduce*.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
Path("solved1.py").write_text("""import numpy as np


def total(comm, length=64):
    own = np.full(length, 1.0 + comm.rank)
    others = [r for r in range(comm.size) if r != comm.rank]
    coming = np.empty((len(others), length))
    posts = [comm.Irecv(row, r) for row, r in zip(coming, others)]
    posts += [comm.Isend(own, (comm.rank + k) % comm.size) for k in range(1, comm.size)]
    for post in posts:
        post.Wait()
    return float((own + coming.sum(axis=0)).sum())
""")
# %% slideshow={"slide_type": "skip"} tags=["checked"]
solved = puzzle("solved1.py:total", 8, expected=float(right), at_most_us=6, draw=False)
assert solved.solved and not attempt.solved
assert (round(attempt.time_us, 1), round(solved.time_us, 1)) == (14.9, 4.6)
assert (solved.sent_bytes[0], attempt.sent_bytes[0]) == (3584, 896) and attempt.time_us > 6
assert len(np.zeros(64)) == 64

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: keys and values on their way.** Rank 0 reads a prompt, eight groups of layers of 16 µs each. Then it
# sends the keys and values of all layers to rank 1, which writes the response. The first token can come after 225
# µs. The target is 150 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import numpy as np

import ringside


def handed_over(comm, groups=8, length=12_000):
    kept = np.zeros((groups, length), np.uint8)
    if comm.rank == 0:
        for group in range(groups):
            ringside.compute(seconds=16e-6, phase=f"layers {group}")
            kept[group] = group
        comm.Send(kept, 1)
    else:
        comm.Recv(kept, 0)
    return int(kept[:, 0].sum())


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle2.py:handed_over", 2, expected=28, at_most_us=150, at_most_bytes=96_000,
                 hint="What is ready when the first group of layers is done?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Send the rows of a group as soon as that group is done, with `Isend`, and let rank 1 post a receive for each row.
# A row takes 13 µs, less than the 16 µs of the next group. So only the last one is seen, and the first token can
# come after 141 µs.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
Path("solved2.py").write_text("""import numpy as np

import ringside


def handed_over(comm, groups=8, length=12_000):
    kept = np.zeros((groups, length), np.uint8)
    posts = [comm.Irecv(row, 0) for row in kept] if comm.rank else []
    if comm.rank == 0:
        for group in range(groups):
            ringside.compute(seconds=16e-6, phase=f"layers {group}")
            kept[group] = group
            posts.append(comm.Isend(kept[group], 1))
    for post in posts:
        post.Wait()
    return int(kept[:, 0].sum())
""")
# %% slideshow={"slide_type": "skip"} tags=["checked"]
target = {"expected": 28, "at_most_us": 150, "at_most_bytes": 96_000, "draw": False}
solved = puzzle("solved2.py:handed_over", 2, **target)
assert solved.solved and not attempt.solved
assert (round(attempt.time_us), round(solved.time_us)) == (225, 141) and solved.time_us < 150
assert round(solved.time_us - 8 * 16) == 13 == round(1 + 12_000 / 1000)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: four users in a pipeline.** Four stages write responses of four tokens for four users. A stage takes 20
# µs for a token. This program serves one user after the other, in 1154 µs. The target is 450 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import numpy as np

import ringside


def answers(comm, users=4, length=4):
    posts, last = [], comm.size - 1
    for user in range(users):
        for number in range(length):
            word = np.zeros(1)
            if comm.rank or number:
                comm.Recv(word, (comm.rank - 1) % comm.size)
            ringside.compute(seconds=20e-6, phase=f"forward {user}")
            if comm.rank < last or number < length - 1:
                posts.append(comm.Isend(word, (comm.rank + 1) % comm.size))
    for post in posts:
        post.Wait()


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle3.py:answers", 4, at_most_us=450,
                 hint="What can a stage do while others have the first user's token?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Exchange the two loops: first a token of each user, then the next token of each. All four stages are busy after
# the first three steps, and it takes 398 µs.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle3.py").read_text()
outer, inner = "for user in range(users):", "for number in range(length):"
swapped = text.replace(outer, "OUTER").replace(inner, outer).replace("OUTER", inner)
Path("solved3.py").write_text(swapped)
solved = puzzle("solved3.py:answers", 4, at_most_us=450, draw=False)
assert solved.solved and not attempt.solved and attempt.time_us > 450 > solved.time_us
assert (round(attempt.time_us), round(solved.time_us)) == (1154, 398)

# %% [markdown] slideshow={"slide_type": "notes"}
# In puzzle 1 ask from which length on the ring is faster again. In puzzle
# 3 ask what five users would gain: nothing, all stages are busy with four.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 20. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** A model has 48 layers and 16 heads for keys and values of 128 numbers. They are kept in 8 bits.
# How many KiB does a token leave? How many GB are 32,768 tokens? How many KV blocks of 16 tokens does a sequence of 1000
# tokens take, and how much of the last block is empty?
#
# <details><summary>Answer</summary>
#
# $2 \cdot 48 \cdot 16 \cdot 128 \cdot 1$ bytes are 192 KiB, and 6.44 GB for 32,768 tokens. The sequence takes
# $\lceil 62.5 \rceil = 63$ blocks, and half of the last one is empty.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
left_over = kv_bytes(48, kv_heads=16, c=128, w=1)
assert left_over == 192 * 1024 and round(32_768 * left_over / 1e9, 2) == 6.44
assert int(np.ceil(1000 / 16)) == 63 and (63 * 16 - 1000) / 16 == 0.5

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** A new GPU has twice the arithmetic of an A100 and the same memory. What becomes faster: the
# response for one user, the prefill of a long prompt, the node's rate with 42 users? What happens to $n^*$?
#
# <details><summary>Answer</summary>
#
# The prefill is twice as fast. One user's response isn't faster at all, and neither is the rate with 42 users, since
# they are far below $n^*$. That doubles to 401. With twice the bandwidth it is the other way round.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def bound_s(n, arithmetic, bandwidth):
    return max(used * w / (4 * bandwidth), 2 * used * n / (4 * arithmetic))


assert bound_s(2048, 2 * F, M) == bound_s(2048, F, M) / 2
assert bound_s(1, 2 * F, M) == bound_s(1, F, M) and bound_s(42, 2 * F, M) == bound_s(42, F, M)
assert round(w * 2 * F / (2 * M)) == 401 and bound_s(42, F, 2 * M) == bound_s(42, F, M) / 2

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** A model of 8 billion parameters has 32 layers. GPUs read 1555 GB/s, and a message takes 0.6 µs,
# its bytes nothing. How long does a token take on 2, 4 and 8 GPUs with a ring? How many GPUs would be best?
#
# <details><summary>Answer</summary>
#
# $16 / (1.555\,t)$ ms and $64 \cdot 2(t-1) \cdot 0.6$ µs are 5.22, 2.80 and 1.82 ms. The best number is
# $t^* = 11.6$. It is smaller than for the model of 70 billion, since there are fewer bytes for each all-reduce:
# a layer has 3.5 times fewer weights.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def small_ms(t):
    return 1e3 * (8e9 * 2 / (t * M) + 64 * 2 * (t - 1) * zaratan.link(0, 1).alpha_s)


assert [round(small_ms(t), 2) for t in (2, 4, 8)] == [5.22, 2.80, 1.82]
assert round(np.sqrt(16e9 / (4 * 32 * M * zaratan.link(0, 1).alpha_s)), 1) == 11.6
assert small_ms(12) == min(small_ms(t) for t in range(1, 40)) and M / 1e12 == 1.555
assert round((stored / 80) / (8e9 / 32), 1) == 3.5 and zaratan.link(0, 1).alpha_s == 0.6e-6

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Responses of 1, 1, 4, 2, 1 and 1 tokens are written in three slots. How many steps does it take in
# static batches, and how many with continuous batching? What share of the slots is in use?
#
# <details><summary>Answer</summary>
#
# The static batches take 4 and 2 steps, so 6 together. Continuous batching takes 4: the response of 4 tokens is
# written in one slot, and all others in the two others. 10 of 18 slots are in use, 56 %, or 10 of 12, 83 %.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
SLOTS = 3
few = np.array([1, 1, 4, 2, 1, 1])
assert (static(few)[1], continuous(few)[1]) == (6, 4)
assert [round(few.sum() / (3 * steps), 2) for steps in (6, 4)] == [
    0.56,
    0.83,
] and 3 * SLOTS * 2 == 18

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** A draft is right with $a = 0.5$ and takes a fifth of the large model's time. How much faster is
# the text with $g = 2$? For which $c$ does a draft pay at all, if it guesses one token?
#
# <details><summary>Answer</summary>
#
# A round has $1 + 0.5 + 0.25 = 1.75$ tokens and takes 1.4 steps, so it is 1.25 times as fast. With $g = 1$ it is
# $(1 + a)/(1 + c)$ times as fast. So it pays if $c < a$.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert tokens_of_round(0.5, 2) == 1.75 and round(1.75 / speedup(0.5, 2, 0.2), 1) == 1.4
assert np.isclose(speedup(0.5, 2, 0.2), 1.25)
assert speedup(0.5, 1, 0.49) > 1 > speedup(0.5, 1, 0.51)

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Your turn
#
# The assignment `a13_inference` asks for what this lecture left out. In `kv_cache` you write a cache of KV blocks (*pages*):
# tokens are appended, users share blocks until one of them writes, and nothing is lost when they leave. In `decode`
# and `decode_torch` you let several ranks write with one model, with the words cut as well: how do the ranks agree
# on the most likely word without sending all scores? Two modules are extra. `batching` is continuous batching over a
# stream of requests that never runs out of memory. `weights` is section 13 for any two placements.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. A. Grattafiori, A. Dubey, and others. The Llama 3 herd of models. arXiv:2407.21783. Sizes as in the model's
#    configuration, Meta-Llama-3-70B.
# 2. NVIDIA. NVIDIA A100 tensor core GPU; NVIDIA H100 tensor core GPU. Data sheets.
# 3. A. Bhatele, S. Singh, P. Singhania. Distributed deep learning on GPU-based clusters. Tutorial, University of
#    Maryland.
# 4. J. Ainslie, J. Lee-Thorp, M. de Jong, Y. Zemlyanskiy, F. Lebrón, S. Sanghai. GQA: training generalized
#    multi-query transformer models from multi-head checkpoints. EMNLP 2023. arXiv:2305.13245.
# 5. W. Kwon, Z. Li, S. Zhuang, Y. Sheng, L. Zheng, C. H. Yu, J. Gonzalez, H. Zhang, I. Stoica. Efficient memory
#    management for large language model serving with PagedAttention. SOSP 2023. arXiv:2309.06180.
# 6. G.-I. Yu, J. S. Jeong, G.-W. Kim, S. Kim, B.-G. Chun. Orca: a distributed serving system for transformer-based
#    generative models. OSDI 2022.
# 7. Y. Zhong, S. Liu, J. Chen, J. Hu, Y. Zhu, X. Liu, X. Jin, H. Zhang. DistServe: disaggregating prefill and
#    decoding for goodput-optimized large language model serving. OSDI 2024. arXiv:2401.09670. The factor 4.48 is
#    from the authors' page, hao-ai-lab.github.io/blogs/distserve.
# 8. Y. Leviathan, M. Kalman, Y. Matias. Fast inference from transformers via speculative decoding. ICML 2023.
#    arXiv:2211.17192.
# 9. C. Chen, S. Borgeaud, G. Irving, J.-B. Lespiau, L. Sifre, J. Jumper. Accelerating large language model
#    decoding with speculative sampling. arXiv:2302.01318.
# 10. PyTorch team. gpt-fast. github.com/pytorch-labs/gpt-fast, README at commit 0f925b5.
# 11. NVIDIA. NIM LLM benchmarking guide, version 1.0.0, page "Performance".
#     docs.nvidia.com/nim/benchmarking/llm/1.0.0/performance.
# 12. MLCommons. MLPerf Inference rules. github.com/mlcommons/inference_policies, inference_rules.adoc.
# 13. MLCommons. Llama 3.1 405B and Llama 2 Chat 70B in MLPerf Inference v5.0. April 2025,
#     mlcommons.org/2025/04/llm-inference-v5. The limits are quoted from NVIDIA. NVIDIA Blackwell delivers massive
#     performance leaps in MLPerf Inference v5.0. developer.nvidia.com/blog, April 2025.
# 14. Microsoft. Azure's ND GB200 v6 delivers record performance for inference workloads.
#     techcommunity.microsoft.com, post 4399253, 2025.
# 15. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 16. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 17. H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas. Communication-efficient learning of deep
#     networks from decentralized data. AISTATS 2017. arXiv:1602.05629.
# 18. K. Bonawitz, V. Ivanov, B. Kreuter, A. Marcedone, H. B. McMahan, S. Patel, D. Ramage, A. Segal, K. Seth.
#     Practical secure aggregation for privacy-preserving machine learning. CCS 2017.
# 19. vLLM. github.com/vllm-project/vllm, vllm/config/cache.py at commit 002f10e0.
# 20. vLLM. Documentation, pages "Automatic prefix caching" (version 0.8.2, design) and "Optimization and tuning" (version
#     0.17.1). docs.vllm.ai.
# 21. L. Zheng, and others. SGLang: efficient execution of structured language model programs. NeurIPS 2024.
#     arXiv:2312.07104.
# 22. NVIDIA. Dynamo, documentation of version 1.6.0, page "Router design". docs.nvidia.com/dynamo.
# 23. DeepSeek-AI. DeepSeek-V2: a strong, economical, and efficient mixture-of-experts language model. arXiv:2405.04434.
#     Sizes of DeepSeek-V3 as in its report, arXiv:2412.19437.
# 24. Ray. Documentation, page "Data parallel attention". docs.ray.io, serve/llm/user-guides.
# 25. Moonshot AI. checkpoint-engine. github.com/MoonshotAI/checkpoint-engine, README at commit 415c320.
# 26. Perplexity. Weight transfer for RL post-training in under 2 seconds. 24 September 2025,
#     research.perplexity.ai/articles.
# 27. vLLM. Documentation, page "Sharded RDT engine", read in November 2026. docs.vllm.ai, training/weight_transfer.
#
# Read next: [5], for the cache that you write in the assignment; and [10], whose less than a thousand lines of
# Python do much of what this lecture is about.
