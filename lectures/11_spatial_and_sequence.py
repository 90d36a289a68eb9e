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
# # Lecture 11: Sequence and space
#
# Until now a sample stayed whole. Data parallelism shards the batch, tensor parallelism shards the weights, and a
# pipeline cuts between layers. In this lecture you cut the sample itself. If you shard a sequence, each shard needs
# something from all tokens before it, and you will see how that can still be fast. If you cut an image into strips, each
# strip needs a few rows of its neighbours. Sequences are taught, and images are for reading.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["aims"]
# **After this lecture you can**
#
# - compute attention chunk by chunk, exactly, with a running maximum and sum (*online softmax*);
# - send keys and values round a ring, and balance the work of a causal mask over the ranks;
# - choose between the ring, the all-gather and Ulysses, from the length of the sequence and the network;
# - say what a document mask does to the balance, and restore it;
# - cut an image over ranks, and say which rows each rank needs from its neighbours, for any
#   odd kernel and any stride;
# - write the forward and backward pass of such a convolution, and hide its messages;
# - predict what domain parallelism costs, and from which resolution on it pays.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** [Lecture 3](03_allreduce.ipynb), for the ring and the all-to-all.
# [Lecture 8](08_model_versus_data.ipynb), for attention heads, tensor parallelism and its sequence
# parallelism. For images also [lecture 2](02_sgd.ipynb), for convolutions.
#
# | sign | meaning |
# |---|---|
# | $P$ | number of ranks |
# | $N, d, a$ | tokens of a sequence, width of the model, attention heads |
# | $n$, $\gamma$ | tokens of a rank, $N/P$; heads for keys and values, as a fraction of the heads for queries |
# | $w$ | bytes of a number |
# | $\alpha, \beta, F$ | latency in s, seconds per byte, FLOP/s of a rank |
# | $B, C, H, W$ | from section 10 on: images, channels, rows and columns of a layer's input |
# | $k$, $h = \lfloor k/2 \rfloor$ | from section 10 on: rows of a kernel, and rows that it reaches up and down |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are minutes.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers.** Sections 2 to 9 are about sequences and are taught in two meetings; sections 10 to 17,
# about images, are reading. A course with one meeting for this lecture gives sections 7 to 9 as reading too.
#
# Ask at the beginning: "You have one sequence and four GPUs. What do you shard?" Most classes say at once:
# the sequence. Then ask what a GPU lacks when it has its quarter.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F

import ringside
from ringside import Machine, guess, reveal
from ringside.course.lectures import Knob, course_machine, explore, puzzle, show, table

LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False
RANKS = ["#332288", "#ddaa33", "#56b4e9", "#bb5566"]  # a colour for each of four ranks
RING, ZIGZAG, ULYSSES = "#b56576", "#0072b2", "#e69f00"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"] meeting=1 minutes=5
# ## 1. The problem: one sample and 32 GPUs
#
# **One long sequence.** Take the small GPT of this course, and let it read 131,072 tokens, the length
# of a novel. In attention each token looks at all tokens before it. How long does one GPU take for that, in
# one layer, forward?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/one-gpu",
    "A GPU does 137 TFLOP/s; the model is 2304 wide. How long does it take for the attention "
    "of one layer, forward?",
    unit="ms",
)

# %% slideshow={"slide_type": "fragment"}
tokens, width = 2**17, 2304
gpu = course_machine()  # an A100 at the rate that this model has reached
scores = 2 * tokens**2 * width / 2  # q times k; the mask leaves half of the pairs
attention_flops = 2 * scores  # and as many for the weighted sum of the values
one_gpu_ms = 1e3 * attention_flops / gpu.flop_per_s
print(f"{attention_flops / 1e12:.0f} TFLOP, {one_gpu_ms:.0f} ms")
reveal("11/one-gpu", one_gpu_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes **578 ms** for one layer, and you have 24 layers. Where does the time go? The score of a pair of tokens takes
# $2 \cdot 2304$ FLOP, and the weighted sum takes as many. The causal mask leaves half of the pairs.

# %% [markdown] slideshow={"slide_type": "fragment"}
# **One large image.** Suppose that a satellite's image has 8192 by 8192 pixels, and you let VGG-16 look at it. The
# backward pass needs the outputs of its 13 convolutions. How many GB do they take, for this single image?

# %% slideshow={"slide_type": "fragment"}
SIDES = [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14]  # of the inputs, at 224 rows
CHANNELS = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
larger = 8192 / 224  # the sides grow by this factor
image_GB = sum(4 * c * (larger * side) ** 2 for side, c in zip(SIDES, CHANNELS[1:])) / 1e9
print(f"{image_GB:.0f} GB in FP32; a GPU of the cluster has {gpu.memory_bytes / 1e9:.1f} GB")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The image needs more memory than a GPU has, and the sequence more time than you want to wait. You have 32 GPUs. What can
# they do for either sample?
#
# - Data parallelism distributes samples. You have one, so 31 GPUs have nothing to do.
# - A pipeline distributes layers. One sample passes them one after the other.
# - Tensor parallelism distributes heads or channels. It helps, but there are only 24 heads. And each of its
#   all-reduces carries all tokens, 604 MB, twice forward and twice backward in each layer.
#
# What remains is to cut the sample. **How far can 32 GPUs bring down the time of the sequence?** Section 7
# answers that. **How much of the image stays on each GPU?** Section 15 says what that costs.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from ringside.course.lectures import SIZES

assert tokens == 131_072 and round(one_gpu_ms) == 578 and round(2 * tokens * width / 1e6) == 604
assert (SIZES["width"], SIZES["num_layers"], SIZES["num_heads"]) == (width, 24, 24)
assert gpu.flop_per_s == 137e12 and width == 2304 and len(range(1, 32)) == 31
assert round(image_GB) == 72 and round(gpu.memory_bytes / 1e9, 1) == 42.4 and len(SIDES) == 13

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 2. Shard the sequence: who needs what?
#
# Shard the 131,072 tokens over $P$ ranks. What does a rank lack then? A transformer layer is a
# list of operations, and almost all of them treat each token alone:
#
# | operation | reads, for one token | from other ranks |
# |---|---|---|
# | layer norm, dropout, residual | this token | nothing |
# | linear layers, activation function | this token, all weights | nothing |
# | attention | this token's query, *all* keys and values before it | the whole sequence before it |
#
# Only attention needs something from other ranks, and it needs it from all of them. So you have one question left:
# **how does each rank's query meet all keys?**

# %% [markdown] slideshow={"slide_type": "subslide"}
# *Sequence parallelism* has two meanings, and the second is called *context parallelism* (CP) today. You should keep them apart:
#
# | | sequence parallelism (Megatron) [6] | context parallelism |
# |---|---|---|
# | tokens are sharded | in norms, dropout and residuals only | everywhere |
# | attention and linear layers | see all tokens; *weights* are sharded | see a shard of the tokens; weights are whole |
# | ranks | the same that share the tensors | others; a rank may be in a group of both kinds |
# | messages | the two halves of tensor parallelism's all-reduces | keys and values |
# | gradients of weights | only those of the norms are added | all are added, as in data parallelism |
# | how many ranks | at most the heads | up to the tokens; see section 7 |
#
# You wrote the first in lecture 8. It belongs to tensor parallelism, and saves memory there. Long sequences need the second,
# and sections 3 to 9 are about it.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/gathered",
    "Take the direct way: each of 32 ranks gathers all keys and values of the layer, in bf16 "
    "(2 bytes). How many MB of keys and values does each rank hold?",
    unit="MB",
)

# %% slideshow={"slide_type": "fragment"}
gathered_MB = 2 * tokens * width * 2 / 1e6
scores_GB = 24 * (tokens // 32) * tokens * 2 / 1e9
print(f"keys and values {gathered_MB:,.0f} MB; scores of a rank's queries {scores_GB:.1f} GB")
reveal("11/gathered", gathered_MB)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You would need 1208 MB on each rank for keys and values. What else must you hold? The scores are worse:
#
# | on each rank | memory |
# |---|---|
# | its own keys and values | 38 MB |
# | keys and values of all ranks | 1208 MB |
# | scores of its 4096 queries with all keys, in 24 heads | 25.8 GB |
#
# So the scores must never exist at once. You have to compute attention chunk by chunk, and the next section shows that this
# is exact.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(gathered_MB) == 1208 and round(gathered_MB / 32) == 38
assert tokens // 32 == 4096 and round(scores_GB, 1) == 25.8

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 3. The online softmax
#
# Can you compute attention without all keys at once? One query $q$ meets the keys $k_1, \dots, k_N$. With the scores
# $s_j = q \cdot k_j / \sqrt{d/a}$, its output is a weighted mean of the values:
#
# $$o = \frac{\sum_j e^{s_j}\, v_j}{\sum_j e^{s_j}} .$$
#
# You can take both sums chunk by chunk: over the keys of one chunk, then over those of the next. There is one difficulty. If
# $s_j$ is some hundreds, $e^{s_j}$ is too large for FP32. So every softmax subtracts the largest score from all. After the
# first chunk you don't know the largest score of all chunks. Take the largest *so far*, and correct the sums when a larger one
# comes.
#
# Keep three things [11]: the maximum $m$, the sum $\ell = \sum_j e^{s_j - m}$ and the vector
# $u = \sum_j e^{s_j - m} v_j$ of all keys so far. A new chunk has its own $m'$, $\ell'$ and $u'$. Let
# $M = \max(m, m')$. Since $e^{s - M} = e^{s - m}\, e^{m - M}$,
#
# $$\ell \;\leftarrow\; e^{m - M}\,\ell + e^{m' - M}\,\ell', \qquad
#   u \;\leftarrow\; e^{m - M}\,u + e^{m' - M}\,u', \qquad m \;\leftarrow\; M .$$
#
# At the end $o = u / \ell$. No factor is larger than 1, so nothing overflows. Nothing is approximated, either.

# %% [markdown] slideshow={"slide_type": "fragment"}
# You can also divide at once, which leaves less to carry about. Then a chunk's output is $o' = u'/\ell'$, and its weight
# is the logarithm $c' = m' + \ln \ell'$ of its sum $\sum_j e^{s_j}$ (*log-sum-exp*). You merge two outputs as a weighted mean:
#
# $$o \;\leftarrow\; \frac{e^{c}\,o + e^{c'}\,o'}{e^{c} + e^{c'}} , \qquad c \;\leftarrow\; \ln\big(e^{c} + e^{c'}\big) .$$
#
# With the new $c$, the weights are $e^{c_\text{old} - c}$ and $e^{c' - c}$. Both exponents are negative, so nothing
# overflows here either.

# %% slideshow={"slide_type": "fragment"}
# %%writefile online.py
import numpy as np


def attend(q, k, v, mask=None):
    """Attention to some of the keys: its output, and the logarithm of its sum."""
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    s = s if mask is None else np.where(mask, s, -np.inf)
    c = np.logaddexp.reduce(s, axis=-1, keepdims=True)
    return np.exp(s - c) @ v, c


def merge(one, other):
    """Two results of attend for the same queries: that of both sets of keys."""
    c = np.logaddexp(one[1], other[1])
    return np.exp(one[1] - c) * one[0] + np.exp(other[1] - c) * other[0], c


# %% slideshow={"slide_type": "fragment"}
from online import attend, merge

rng = np.random.default_rng(11)
q, k, v = rng.normal(size=(3, 2, 96, 16))  # 2 heads, 96 tokens, 16 wide
k *= 300  # scores of some hundreds
chunks = [attend(q, k[:, i : i + 24], v[:, i : i + 24]) for i in range(0, 96, 24)]
exact = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v))).numpy()

for order in ((0, 1, 2, 3), (2, 0, 3, 1)):
    result = chunks[order[0]]
    for i in order[1:]:
        result = merge(result, chunks[i])
    print(order, "largest error", f"{np.abs(result[0] - exact).max():.0e}")
    np.testing.assert_allclose(result[0], exact, atol=1e-12)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You get torch's result to rounding, with scores of some hundreds, and with the chunks in **any order**. That is
# what the ring needs. The output of a chunk has the size of the queries, however many keys it saw.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 4. Keys and values go round a ring
#
# How do all keys come to your queries? Each rank keeps its queries, and keys and values travel: *ring attention* [7]. In each of
# $P$ steps a rank computes the attention of its queries to the keys that it has, merges the output into what it has so far, and
# passes keys and values to the next rank.
#
# ```text
#             step 0     step 1     step 2     step 3
#   rank 0    keys 0     keys 3     keys 2     keys 1
#   rank 1    keys 1     keys 0     keys 3     keys 2
#   rank 2    keys 2     keys 1     keys 0     keys 3
#   rank 3    keys 3     keys 2     keys 1     keys 0
# ```

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring.py
import numpy as np
from online import attend, merge

import ringside


def attention(comm, q, k, v):  # (heads, tokens of this rank, width)
    here, result, P = np.stack([k, v]), None, comm.size
    ahead, behind = (comm.rank + 1) % P, (comm.rank - 1) % P
    for step in range(P):
        coming, posts = np.empty_like(here), []
        if step < P - 1:  # send on what is here, while computing with it
            posts = [comm.Isend(here, ahead), comm.Irecv(coming, behind)]
        ringside.compute(seconds=60e-6, phase=f"keys {(comm.rank - step) % P}")
        result = merge(result, attend(q, *here)) if step else attend(q, *here)
        for post in posts:
            post.Wait()
        here = coming
    return result[0]


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/ring-bytes",
    "96 tokens, 2 heads of 16 numbers in FP64 (8 bytes), 4 ranks. How many bytes does each rank send?",
    unit="bytes",
)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/ring-or-gather",
    "Compared with a ring all-gather of all keys and values, a rank of ring attention sends ...",
    choices=["fewer bytes", "the same bytes", "more bytes"],
)


# %% slideshow={"slide_type": "fragment"}
def split(x, P=4):
    return np.split(x, P, axis=1)  # (heads, tokens, width)


k /= 300
run = ringside.run("ring.py:attention", 4, list(zip(split(q), split(k), split(v))))
exact = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v))).numpy()
np.testing.assert_allclose(np.concatenate(run.values, axis=1), exact, atol=1e-12)
ring_sent = run.timeline.bytes_matrix.sum(axis=1)
gather_sent = (4 - 1) * (k.nbytes + v.nbytes) // 4  # lecture 3: (p - 1) / p of the whole
print("each rank sends", ring_sent[0], "bytes")
reveal("11/ring-bytes", ring_sent[0])
answers = {0: "the same bytes", 1: "more bytes", -1: "fewer bytes"}
reveal("11/ring-or-gather", answers[int(np.sign(ring_sent[0] - gather_sent))])

# %% slideshow={"slide_type": "fragment"}
run.timeline

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# *Figure 1. Ring attention on four ranks. A rank sends keys and values on while it computes the attention to them.*
#
# You count 36,864 bytes on each rank. In general a rank sends, forward,
#
# $$2\,N d\,\frac{P-1}{P}\,w \quad\text{bytes,}$$
#
# which is to the byte what an all-gather sends. So the ring saves no bytes. It saves memory, because a rank holds two shards of
# keys and values beside its own: the one in use, and the one that comes. And it hides the messages, because you use each shard
# as soon as it is there.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert ring_sent.tolist() == [36_864] * 4
assert ring_sent[0] == 2 * 96 * 32 * 3 // 4 * 8 == gather_sent

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** Torch's attention kernels return $c$ as well, since their backward pass needs it. FlashAttention calls
# it `logsumexp`. Here you write it out:

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring_torch.py
import torch
import torch.distributed as dist


def pass_on(group, here):
    coming, rank, P = torch.empty_like(here), group.rank(), group.size()
    send = dist.P2POp(dist.isend, here, group_peer=(rank + 1) % P, group=group)
    receive = dist.P2POp(dist.irecv, coming, group_peer=(rank - 1) % P, group=group)
    return coming, dist.batch_isend_irecv([send, receive])


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a ring_torch.py


def attention(group, q, k, v):
    here, outputs, weights = torch.stack([k, v]), [], []
    for step in range(group.size()):
        last = step == group.size() - 1
        coming, moving = (None, []) if last else pass_on(group, here)
        s = q @ here[0].mT / q.shape[-1] ** 0.5
        outputs.append(torch.softmax(s, -1) @ here[1])
        weights.append(s.logsumexp(-1))
        for work in moving:
            work.wait()
        here = coming
    share = torch.softmax(torch.stack(weights), 0)  # of each shard, by query
    return (share[..., None] * torch.stack(outputs)).sum(0)


# %% slideshow={"slide_type": "fragment"}
run = ringside.run("ring_torch.py:attention", 4, list(zip(split(q), split(k), split(v))))
np.testing.assert_allclose(np.concatenate(run.values, axis=1), exact, atol=1e-12)
assert (run.timeline.bytes_matrix.sum(axis=1) == ring_sent).all()

# %% [markdown] slideshow={"slide_type": "fragment"}
# You send as much as with `ring.py`, and get the same output. This version keeps the outputs of all shards and takes
# their weighted mean at the end. It is short, but it needs memory for $P$ outputs. Keep a running one in a real program.
#
# **The backward pass.** What does it send? The gradient of a key is a sum over all queries, and each rank has some of them. So
# keys and values go round a second time, and the sums of their gradients travel with them. Each rank adds its share. After
# $P - 1$ steps the gradients are on the neighbour of their owner, so they move on once more. A rank sends
#
# $$\underbrace{2 N d\,\tfrac{P-1}{P}\,w}_{\text{keys and values}} \;+\;
#   \underbrace{2 N d\,w}_{\text{their gradients, } P \text{ steps}}
#   \;=\; 2 N d\,\tfrac{2P-1}{P}\,w .$$
#
# **Fewer key heads.** In *grouped-query attention* (GQA) several heads of queries share a head of keys and values. Then
# everything that travels gets smaller by that factor, and the FLOP stay the same.
#
# The next program sends what a backward pass sends, and nothing else. You run it to count the bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile backward_traffic.py
import numpy as np


def backward(comm, tokens, width):
    ahead, behind = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    keys_values, gradients = np.zeros((2, 2, tokens // comm.size, width))
    for step in range(comm.size):
        if step < comm.size - 1:
            comm.Sendrecv_replace(keys_values, ahead, source=behind)
        comm.Sendrecv_replace(gradients, ahead, source=behind)


# %% slideshow={"slide_type": "fragment"}
back = ringside.run("backward_traffic.py:backward", 4, (96, 32)).timeline.bytes_matrix.sum(axis=1)
print(back.tolist(), "bytes,", back[0] / ring_sent[0], "times as many as forward")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert back.tolist() == [2 * 96 * 32 * (2 * 4 - 1) // 4 * 8] * 4

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Which rank has the keys of rank 0 in step 2?" Let the class fill in the table of steps at the board.
# *Where classes stumble:* they wait for the messages before they compute, and lose the overlap; or they send from the
# buffer into which they receive.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 5. Causal masks: who waits for whom
#
# In a GPT a token sees the tokens before it and itself (*causal mask*). If you give the ranks consecutive shards, rank 0 has the
# beginning of the sequence, and its queries see almost nothing. The queries of the last rank see almost everything. The next
# program is ring attention with this mask. You pass it the *positions* of each rank's tokens in the sequence, so that you can
# assign them as you like. A pair of a query and a key that it sees takes 0.1 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile causal.py
import numpy as np
from online import attend, merge

import ringside


def pass_on(comm, here, last):
    coming = np.empty_like(here)
    if last:
        return coming, []
    return coming, [comm.Isend(here, (comm.rank + 1) % comm.size),
                    comm.Irecv(coming, (comm.rank - 1) % comm.size)]  # fmt: skip


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a causal.py


def attention(comm, q, k, v, positions):
    """positions[r]: the positions of rank r's tokens in the sequence."""
    here, result = np.stack([k, v]), None
    for step in range(comm.size):
        owner = (comm.rank - step) % comm.size
        sees = positions[comm.rank][:, None] >= positions[owner]
        coming, posts = pass_on(comm, here, step == comm.size - 1)
        if sees.any():
            ringside.compute(seconds=1e-7 * float(sees.sum()), phase=f"keys {owner}")
            new = attend(q, *here, sees)
            result = new if step == 0 else merge(result, new)
        for post in posts:
            post.Wait()
        here = coming
    return result[0]


# %% [markdown] slideshow={"slide_type": "fragment"}
# A query may see no key of a shard. Then all its scores are minus infinity, and `attend` computes the undefined
# $\infty - \infty$. So let `attend` mask with a very negative number instead, $-10^{30}$. The weight of such a shard is then
# zero beside a shard of which the query sees a key. Step 0 gives you one, because there each query sees itself.

# %% slideshow={"slide_type": "fragment"}
text = Path("online.py").read_text()
Path("online.py").write_text(text.replace("-np.inf)", "-1e30)  # it may see none of these keys"))


def on_ranks(positions, N, machine="textbook"):
    """Run causal attention, compare it with torch's, return the timeline."""
    q, k, v = np.random.default_rng(N).normal(size=(3, 1, N, 4))
    inputs = [(q[:, own], k[:, own], v[:, own], positions) for own in positions]
    run = ringside.run("causal.py:attention", len(positions), inputs, machine=machine)
    right = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), is_causal=True).numpy()
    for own, mine in zip(positions, run.values):
        np.testing.assert_allclose(mine, right[:, own], atol=1e-12)
    return run.timeline


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/causal",
    "8 ranks with consecutive shards, all messages hidden. What share of the time does a rank "
    "compute, on average over the ranks?",
    unit="%",
)


# %% slideshow={"slide_type": "fragment"}
def consecutive(P, N):
    return np.split(np.arange(N), P)


timeline = on_ranks(consecutive(8, 2048), 2048)
busy = np.mean(timeline.busy_s) / timeline.makespan_s
print(f"busy for {busy:.1%} of the time")
reveal("11/causal", 100 * busy)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You see a rank compute for 53.3 % of the time. Why? Count in blocks of $N/P$ queries and as many keys. The last rank sees the
# shards of all $P - 1$ ranks before it, which are whole blocks, and half of its own block. So it has $P - \frac12$ blocks to do,
# and the run can't be shorter. All ranks together have $P^2/2$ blocks, so a rank has $P/2$ on average. The efficiency is
#
# $$\frac{P/2}{P - \frac12} \;=\; \frac{P}{2P-1} ,$$
#
# which is $8/15$ on 8 ranks, and little more than one half on many.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * busy, 1) == 53.3 == round(100 * 8 / 15, 1)
assert round(1e6 * timeline.busy_s[0] / np.tri(256).sum(), 1) == 0.1  # rank 0: one triangle

# %% slideshow={"slide_type": "fragment"}
on_ranks(consecutive(4, 256), 256)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. Causal ring attention with consecutive shards on four ranks. Rank 0 has nothing left to compute after its first step.*

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Head-tail (zigzag).** How can you assign the sequence better? Cut it into $2P$ chunks, and give rank $r$ the chunks $r$ and
# $2P - 1 - r$: one from the head and one from the tail. For example, with 4 ranks, rank 0 has chunks 0 and 7, rank 1 has 1
# and 6. Plotted over the ranks, the chunks run down and up again, which gives the order its name.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/zigzag",
    "The same on 8 ranks, assigned in zigzag. How many times as fast is it as with "
    "consecutive shards?",
    unit="times",
)


# %% slideshow={"slide_type": "fragment"}
def zigzag(P, N):
    chunks = np.split(np.arange(N), 2 * P)
    return [np.concatenate([chunks[r], chunks[2 * P - 1 - r]]) for r in range(P)]


slow_s, timeline = timeline.makespan_s, on_ranks(zigzag(8, 2048), 2048)
zigzag_busy = np.mean(timeline.busy_s) / timeline.makespan_s
print(f"busy for {zigzag_busy:.1%} of the time")

# %% slideshow={"slide_type": "fragment"}
on_ranks(zigzag(4, 256), 256)

# %% slideshow={"slide_type": "fragment"}
reveal("11/zigzag", slow_s / timeline.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. A sequence assigned in zigzag on four ranks. All ranks are busy until the end.*
#
# You gain a factor of 1.87 on 8 ranks, because each rank now computes nearly all the time. Why is the work even in *every* step,
# and not only in the sum? Look at one step of rank $r$. Two chunks of queries and two of keys make four quarter blocks.
#
# - The keys come from an earlier rank. Both chunks of queries see its head chunk, and neither sees its tail: two
#   quarters.
# - The keys come from a later rank. The tail chunk of queries sees both of its chunks, and the head sees neither: two
#   quarters.
# - The keys are the rank's own. The tail chunk sees the whole head chunk, and each chunk sees half of itself: one
#   quarter and two eighths.
#
# So you have half a block in each step.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert zigzag_busy > 0.995 and round(slow_s / timeline.makespan_s, 2) == 1.87
assert [own.tolist() for own in zigzag(4, 8)] == [[0, 7], [1, 6], [2, 5], [3, 4]]
own = zigzag(4, 256)
seen = [[int((own[r][:, None] >= own[s]).sum()) for s in range(4)] for r in range(4)]
assert all(seen[r][s] == 64 * 64 / 2 for r in range(4) for s in range(4) if r != s)

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
colours = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in RANKS]) / 255
for axis, assign in zip(panels, (consecutive, zigzag)):
    rank_of = np.argsort(np.concatenate(assign(4, 8))) // 2  # two chunks for each rank
    for i in range(8):
        for j in range(i + 1):
            tint = 1 - (1 - colours[rank_of[i]]) * (1 if rank_of[i] == rank_of[j] else 0.6)
            corners_of = [(j, i), (j, i + 1), (j + 1, i + 1), (j + 1, i)][: 3 if i == j else 4]
            axis.add_patch(plt.Polygon(corners_of, fc=tint, ec="white"))
    axis.set(xlim=(0, 8), ylim=(8, 0), aspect="equal", xlabel="chunk of keys")
    axis.set_title(assign.__name__)
    axis.set_xticks(np.arange(8) + 0.5, [str(r) for r in range(8)])
    axis.set_yticks(np.arange(8) + 0.5, [f"chunk {i}, rank {r}" for i, r in enumerate(rank_of)])
show(figure, "Two triangles of 8 by 8 chunks, queries down and keys across, coloured by the rank of the query. "
     "Consecutive: rank 0 has the small tip of the triangle, rank 3 its broad base. Zigzag: each rank has one row near "
     "the tip and one near the base, which together are always nine chunks wide. A rank's own keys are darker.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The pairs that a causal mask leaves, coloured by the rank that computes them. Darker: the rank's own keys.*

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all(sum(chunk + 1 for chunk in chunks) == 9 for chunks in zigzag(4, 8))

# %% [markdown] slideshow={"slide_type": "slide"}
# **Turn the sliders.** Slow the network down, and watch where the messages come out from behind the work. Then change the
# order.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
ORDERS = {"consecutive": consecutive(4, 256), "zigzag": zigzag(4, 256)}


def ring_timeline(order, ns_per_byte):
    network = {"name": f"{ns_per_byte} ns for a byte", "beta_s_per_byte": ns_per_byte * 1e-9}
    return on_ranks(ORDERS[order], 256, Machine.load("textbook").with_(**network))


explore(
    ring_timeline,
    alt="Timeline of causal ring attention on four ranks, {order}, {ns_per_byte} ns for a byte.",
    same_scale=("order", "ns_per_byte"),
    order=Knob(["consecutive", "zigzag"], start="zigzag"),
    ns_per_byte=Knob([1, 50, 100], start=50, label="a byte takes", unit="ns"),
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. Causal ring attention, by the order of the sequence and the speed of the network.*
#
# At 50 ns a byte, a message takes as long as half a block, so zigzag still hides it. At 100 ns it takes as long as a whole
# block, and you see zigzag take 1.44 ms. Consecutive shards take 1.64 ms there, because the network sets the pace. On such
# a network a better order hardly helps you.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
took_ms = {(o, ns): 1e3 * ring_timeline(o, ns).makespan_s for o in ORDERS for ns in (1, 50, 100)}
assert round(took_ms["zigzag", 100], 2) == 1.44 and round(took_ms["consecutive", 100], 2) == 1.64
assert took_ms["zigzag", 50] < 1.02 * took_ms["zigzag", 1]
part_bytes = 2 * 64 * 4 * 8  # keys and values
assert round(50e-3 * part_bytes, -1) == 200 == round(64 * 64 / 2 / 10, -1)

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=15
# ## 6. Ulysses: shard by heads instead
#
# Is there another way for queries to meet keys? Attention treats each *head* alone. So you can change from shards of tokens to
# shards of heads before attention, and back after it. This scheme is called *Ulysses* [8].
# Each of the two changes is an **all-to-all**: each rank sends a different piece to each other rank.
#
# ```text
#   rank 0: tokens 0-23 of heads 0 1 2 3                  rank 0: head 0 of all tokens
#   rank 1: tokens 24-47 of heads 0 1 2 3   all-to-all    rank 1: head 1 of all tokens
#   rank 2: tokens 48-71 of heads 0 1 2 3  ----------->   rank 2: head 2 of all tokens
#   rank 3: tokens 72-95 of heads 0 1 2 3                 rank 3: head 3 of all tokens
# ```

# %% slideshow={"slide_type": "fragment"}
# %%writefile ulysses.py
import numpy as np
from online import attend


def to_heads(comm, x):
    """From (heads, own tokens, width) to (own heads, all tokens, width)."""
    pieces = np.stack(np.split(x, comm.size))
    comm.Alltoall(pieces.copy(), pieces)
    return np.concatenate(list(pieces), axis=1)


def to_tokens(comm, x):
    pieces = np.stack(np.split(x, comm.size, axis=1))
    comm.Alltoall(pieces.copy(), pieces)
    return np.concatenate(list(pieces))


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a ulysses.py


def attention(comm, q, k, v):
    q, k, v = (to_heads(comm, x) for x in (q, k, v))
    sees = np.tri(q.shape[1], dtype=bool)
    return to_tokens(comm, attend(q, k, v, sees)[0])


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/ulysses",
    "8 ranks, forward: how many times fewer bytes does a rank send than in the ring?",
    unit="times",
)

# %% slideshow={"slide_type": "fragment"}
q, k, v = rng.normal(size=(3, 8, 96, 4))  # 8 heads
exact = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), is_causal=True).numpy()
shards = list(zip(split(q, 8), split(k, 8), split(v, 8)))
all_to_all = ringside.run("ulysses.py:attention", 8, shards)
np.testing.assert_allclose(np.concatenate(all_to_all.values, axis=1), exact, atol=1e-12)
around = ringside.run("ring.py:attention", 8, shards)

sends = [int(run.timeline.bytes_matrix.sum(axis=1)[0]) for run in (around, all_to_all)]
print(f"ring {sends[0]:,} bytes, Ulysses {sends[1]:,} bytes")
reveal("11/ulysses", sends[0] / sends[1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Four arrays change their sharding: queries, keys, values, and the output. A rank has $Nd/P$ numbers of each and keeps its
# own $P$-th part of them. So you send, forward,
#
# $$4\,\frac{N d}{P}\,\frac{P-1}{P}\,w \;=\; 4 N d\,\frac{P-1}{P^2}\,w \quad\text{bytes.}$$
#
# The ring sends $P/2$ times as much, which is 4 times on 8 ranks. The backward pass of an all-to-all is an all-to-all the other
# way, so it sends the same again. A causal mask needs no special order here, because each rank has all tokens of its heads.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert sends == [2 * 96 * 32 * 7 // 8 * 8, 4 * 96 * 32 * 7 // 64 * 8]
assert sends[0] / sends[1] == 8 / 2
assert [12 * r for r in (2, 4, 6)] == [24, 48, 72] and q.shape[1] - 1 == 95
assert list(range(96))[::24] == [0, 24, 48, 72] and 23 == 96 // 4 - 1

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch** needs one call, `all_to_all_single`. It sends the first $P$-th part of its input to rank 0, and so
# on.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ulysses_torch.py
import torch
import torch.distributed as dist
import torch.nn.functional as F


def turned(group, x, split, join):
    pieces = torch.stack(x.chunk(group.size(), dim=split))
    arrived = torch.empty_like(pieces)
    dist.all_to_all_single(arrived, pieces, group=group)
    return torch.cat(list(arrived), dim=join)


def attention(group, q, k, v):
    q, k, v = (turned(group, x, 0, 1) for x in (q, k, v))
    return turned(group, F.scaled_dot_product_attention(q, k, v, is_causal=True), 1, 0)


# %% slideshow={"slide_type": "fragment"}
run = ringside.run("ulysses_torch.py:attention", 8, shards)
np.testing.assert_allclose(np.concatenate(run.values, axis=1), exact, atol=1e-12)
assert run.timeline.bytes_matrix.sum(axis=1)[0] == sends[1]

# %% [markdown] slideshow={"slide_type": "fragment"}
# Which of the two should you take? Here they are, side by side. The number $\gamma \le 1$ is the number of key heads, as a
# fraction of the heads for queries. For example, 3 of 24 heads are $\gamma = 1/8$.
#
# | | ring, zigzag | Ulysses |
# |---|---|---|
# | forward, numbers sent by a rank | $2\gamma N d\,\frac{P-1}{P}$ | $(2 + 2\gamma) N d\,\frac{P-1}{P^2}$ |
# | backward | $2\gamma N d\,\frac{2P-1}{P}$ | the same as forward |
# | with more ranks, it sends | as much | less |
# | messages | to one neighbour, $P - 1$ steps | to all, at once |
# | hidden behind | the attention itself | nothing: attention needs all pieces |
# | most ranks | the tokens | the key heads (or copies of them) |
# | causal mask | needs zigzag | even by itself |

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 7. Which one, when
#
# When does a ring hide its messages? A step's work must take longer than a step's message. A shard has $n = N/P$ tokens. With a
# causal mask in zigzag, a step has $n^2/2$ pairs, and each pair takes $4d$ FLOP. So the messages hide if
#
# $$\frac{2 n^2 d}{F} \;\ge\; 2\gamma\,n\,d\,w\,\beta \qquad\Longleftrightarrow\qquad n \;\ge\; \gamma\, w\, F\beta .$$
#
# The width cancels again. What is left is a number of *tokens on a rank*.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/tokens-to-hide",
    "24 key heads in bf16, 137 TFLOP/s, 12.5 GB/s. How many tokens does each rank need to hide "
    "the ring between nodes?",
    unit="tokens",
)

# %% slideshow={"slide_type": "fragment"}
between = 2 * gpu.flop_per_s * gpu.beta_s_per_byte
within = 2 * gpu.flop_per_s * gpu.intra_beta_s_per_byte
print(f"{between:,.0f} tokens between nodes, {within:,.0f} inside a node")
print(f"with 3 key heads instead of 24: {between / 8:,.0f} between nodes")
reveal("11/tokens-to-hide", between)

# %% [markdown] slideshow={"slide_type": "fragment"}
# You need 21,920 tokens on a rank. How many ranks can you use, then? It depends on where the ring runs, and on the key heads:
#
# | key heads | the ring runs | tokens on a rank to hide it |
# |---|---|---|
# | 24 | between nodes | 21,920 |
# | 24 | inside a node | 2740 |
# | 3 | between nodes | 2740 |
#
# With 24 key heads your sequence is enough for 5 ranks between nodes. On 32 ranks each has 4096 tokens, so the network is five
# times too slow. Fewer key heads help, because with 3 instead of 24 every message is an eighth.

# %% [markdown] slideshow={"slide_type": "fragment"}
# Now you trace the schemes at full size. The tensors are fake, so nothing is computed. Work and messages are counted as if
# they were real.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (round(between), round(within), round(between / 8)) == (21_920, 2740, 2740)
assert tokens // between == 5 and round(between / 4096) == 5 and tokens // 32 == 4096

# %% slideshow={"slide_type": "fragment"}
# %%writefile schemes.py
import torch
import torch.distributed as dist
from ring_torch import pass_on

import ringside


def ulysses(group, tokens, width):
    P = group.size()
    for arrays in (3, 1):  # queries, keys and values; the output
        mine = torch.empty(P, arrays, tokens // P, width // P, dtype=torch.bfloat16)
        dist.all_to_all_single(torch.empty_like(mine), mine, group=group)
        if arrays == 3:
            ringside.compute(num_flops=4 * width / P * tokens**2 / 2, phase="attention")


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a schemes.py


def ring(group, tokens, width, kv_width, balanced):
    rank, P, n = group.rank(), group.size(), tokens // group.size()
    own = torch.empty(2, n, kv_width, dtype=torch.bfloat16)  # kept for the backward pass
    here, moving = own, []
    for step in range(P):
        if step < P - 1:
            coming, moving = pass_on(group, here)
        pairs = n**2 * (0.5 if balanced or step == 0 else float(rank >= step))
        ringside.compute(num_flops=4 * width * pairs, phase=f"step {step}")
        while moving:
            moving.pop().wait()
        here = coming


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/closing",
    "One GPU takes 578 ms. How long do 32 GPUs on 8 nodes take, in zigzag, with 24 key heads?",
    unit="ms",
)


# %% slideshow={"slide_type": "fragment"}
def replayed_ms(function, P, *args):
    traced = ringside.trace_torch(f"schemes.py:{function}", P, (tokens, width, *args))
    return 1e3 * ringside.replay(traced.trace, gpu).makespan_s


closing = {
    "consecutive": replayed_ms("ring", 32, width, False),
    "zigzag": replayed_ms("ring", 32, width, True),
    "zigzag, 3 key heads": replayed_ms("ring", 32, width // 8, True),
}
for name, time_ms in closing.items():
    print(f"{name:20} {time_ms:5.1f} ms, efficiency {one_gpu_ms / 32 / time_ms:.0%}")
reveal("11/closing", closing["zigzag"])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 24 key heads you wait about 94 ms in either order, because the network sets the pace. With 3 key heads you wait **18.1
# ms** instead of 578, and the messages are hidden completely. But this is another model, which has to be
# trained with 3 key heads. Ulysses can't use 32 ranks at all, since 24 heads can't be distributed over 32.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(closing["zigzag"]) == 94 and round(closing["consecutive"]) in (94, 95)
assert round(closing["zigzag, 3 key heads"], 1) == 18.1 == round(one_gpu_ms / 32, 1)
assert SIZES["num_heads"] % 32 == 24

# %% [markdown] slideshow={"slide_type": "subslide"}
# Figure 6 shows the three schemes over ranks and lengths. The lines are formulas. In each step a ring takes the
# longer of work and message. Ulysses takes its work and the messages of its two all-to-alls. We assume that all ranks of a node
# send these through one network port.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
NODE = gpu.ranks_per_node


def model_ms(scheme, N, P, gamma=1.0):
    """The formulas: how long one layer's causal attention takes, forward."""
    n = N / P
    block = 4 * width * n**2 / gpu.flop_per_s
    slow = gpu.beta_s_per_byte if P > NODE else gpu.intra_beta_s_per_byte
    if scheme == "Ulysses":
        nbytes = 4 * n * width * 2
        if P > NODE:  # the ranks of a node share its port
            return 1e3 * (P / 2 * block + NODE * nbytes * (P - NODE) / P * slow)
        return 1e3 * (P / 2 * block + nbytes * (P - 1) / P * slow)
    message = 2 * gamma * n * width * 2 * slow
    later = block / 2 if scheme == "zigzag" else block
    return 1e3 * (max(block / 2, message) + (P - 2) * max(later, message) + later)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
POWERS = (2, 4, 8, 16, 32, 64)
RANK_COUNTS = {"consecutive": POWERS, "zigzag": POWERS, "Ulysses": (2, 4, 8, 12, 24)}
STYLE = {"consecutive": (RING, "s"), "zigzag": (ZIGZAG, "o"), "Ulysses": (ULYSSES, "^")}
replayed = {("zigzag", 32): closing["zigzag"], ("consecutive", 32): closing["consecutive"]}
for P in (4, 8):  # the markers of the figure
    replayed["consecutive", P] = replayed_ms("ring", P, width, False)
    replayed["zigzag", P] = replayed_ms("ring", P, width, True)
    replayed["Ulysses", P] = replayed_ms("ulysses", P)
replayed["Ulysses", 24] = replayed_ms("ulysses", 24)


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def lines(axis, N):
    """Efficiency over ranks: what one GPU takes, over P times what P of them take."""
    alone_ms = 2 * width * N**2 / gpu.flop_per_s * 1e3
    for scheme, counts in RANK_COUNTS.items():
        shares = [alone_ms / P / model_ms(scheme, N, P) for P in counts]
        label = scheme if scheme == "Ulysses" else f"ring, {scheme}"
        axis.plot(counts, 100 * np.array(shares), color=STYLE[scheme][0], label=label)
    shares = [alone_ms / P / model_ms("zigzag", N, P, 1 / 8) for P in POWERS]
    dashed = {"color": ZIGZAG, "linestyle": ":", "label": "zigzag, 3 key heads"}
    axis.plot(POWERS, 100 * np.array(shares), **dashed)


# %% slideshow={"slide_type": "slide"} tags=["figure", "hide-input"]
figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
for axis, N in zip(panels, (2**15, 2**17, 2**20)):
    lines(axis, N)
    axis.axvline(NODE, color="0.85", zorder=0)
    axis.set_xscale("log", base=2)
    axis.set_xticks(POWERS, [str(P) for P in POWERS])
    axis.set(title=f"{N:,} tokens", xlabel="ranks", ylim=(0, 104))
for (scheme, P), time_ms in replayed.items():
    colour, marker = STYLE[scheme]
    panels[1].plot(P, 100 * one_gpu_ms / P / time_ms, marker, color=colour)
panels[0].set_ylabel("efficiency (%)")
panels[2].legend(frameon=False, fontsize=9, loc="lower left")
show(figure, "Three panels, for 32,768, 131,072 and 1,048,576 tokens: efficiency over 2 to 64 ranks for ring, zigzag, "
     "Ulysses, and zigzag with an eighth of the key heads. Short sequence: with all key heads, everything falls steeply "
     "beyond one node of 4 ranks. Long sequence: zigzag stays at 100 % up to 32 ranks, the ring sinks to one half, Ulysses lies between. "
     "In the middle panel replayed traces, as markers, lie on the lines.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. Ring, zigzag and Ulysses over ranks and lengths. Lines: formulas. Markers: replayed traces. The grey line is
# the end of a node.*
#
# What do you read from the figure? Inside a node every balanced scheme is good. Between nodes the length decides, because a
# ring needs enough tokens on each rank, or fewer key heads. Where a ring doesn't hide, Ulysses can be better, because
# a rank sends less with every rank that you add. For 131,072 tokens it is better on 24 ranks. You can also
# combine them, with Ulysses inside a node and a ring between nodes.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
for (scheme, P), time_ms in replayed.items():
    assert abs(model_ms(scheme, tokens, P) / time_ms - 1) < 0.05, (scheme, P)
assert model_ms("Ulysses", tokens, 24) < 0.6 * model_ms("zigzag", tokens, 24) and tokens == 131_072
assert round(between) == 21_920 and model_ms("zigzag", tokens, 8) < model_ms("Ulysses", tokens, 8)
long_ms = 2 * width * 2.0**40 / gpu.flop_per_s * 1e3
assert long_ms / 32 / model_ms("zigzag", 2**20, 32) > 0.99

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Your cluster gets GPUs of twice the speed. Does the ring hide more or less?" Less: $F$ is in the formula, and
# the network stays. *Where classes stumble:* they compare bytes, and bytes alone speak for Ulysses. The figure shows that
# a hidden byte costs nothing.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ### What has been measured
#
# Do real rings reach these efficiencies? An open implementation publishes runs on 8 GPUs of one node, with 65,536 tokens and a
# causal mask [9]. It says how often attention runs in a second. What would be ideal? 8 times the tokens are 64 times the pairs,
# and 8 GPUs share them. So the ideal is an eighth of the rate of one GPU with an eighth of the tokens.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/published",
    "Of this ideal, how much does the *unbalanced* ring reach, forward, on 8 A100?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
published = table(LECTURES / "data" / "ring_flash_attention.csv")
ideal = published["one_gpu"] / 8
efficiency = {name: 100 * published[name] / ideal for name in ("ring", "zigzag")}
print("                              ring   zigzag   (% of the ideal)")
for i, (name, passes) in enumerate(zip(published["gpu"], published["passes"])):
    print(f"{name} {passes:22} {efficiency['ring'][i]:5.1f} {efficiency['zigzag'][i]:8.1f}")
print(f"predicted {100 * 8 / 15:22.1f} {100:10}")
reveal("11/published", efficiency["ring"][2])

# %% [markdown] slideshow={"slide_type": "fragment"}
# For the ring, $P/(2P-1)$ says 53.3 %, and you see 51 to 54 % measured. One of the four values is half a point above the
# formula, so the timing is not more exact than that. A formula that counts blocks explains almost all of the loss.
#
# For zigzag the formula says 100 %, and 82 to 90 % were measured. Is it the bandwidth? This model has 8 key heads for 32 heads
# of queries, and a rank has 8192 tokens. Compare them with the tokens that hide the ring:
#
# | GPU | FLOP/s and bytes/s inside a node | tokens to hide the ring |
# |---|---|---|
# | A100 | as on our machine | 685 |
# | H800 | at most 989 TFLOP/s, 160 GB/s [12] | 3091 |
#
# So it isn't the bandwidth. Likely causes are smaller products, the work of merging, and the start of more kernels. None of
# them is in the model.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(e, 1) for e in (efficiency["ring"].min(), efficiency["ring"].max())] == [51.4, 53.8]
assert int(efficiency["ring"].min()) == 51 and round(efficiency["ring"].max()) == 54
assert round(efficiency["zigzag"].min()) == 82 and round(efficiency["zigzag"].max()) == 90
assert round(100 * 8 / 15, 1) == 53.3 and round(within / 4) == 685 and 8 * 8192 == 65_536
assert round(2 * 989e12 / 160e9 / 4) == 3091 < 8192
assert sum(efficiency["ring"] > 100 * 8 / 15) == 1

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 8. What systems do: gather the keys, or pass them on?
#
# Do you need a ring at all? Section 4 found that it sends exactly the bytes of an all-gather. So you could gather all keys and
# values in one call, and then run one attention. This is context parallelism *by all-gather*. It is short, it
# works with any mask, and one kernel sees all keys. In the program below, `Allgather` returns the shards in the
# order of the ranks, so `positions` says where in the sequence each key is.

# %% slideshow={"slide_type": "fragment"}
# %%writefile gathered.py
import numpy as np
from online import attend

import ringside


def attention(comm, q, k, v, positions):
    """positions[r]: where the tokens of rank r are in the sequence."""
    own = np.stack([k, v])  # (2, key heads, tokens of this rank, width)
    everyone = np.empty((comm.size, *own.shape))
    comm.Allgather(own, everyone)
    k, v = np.concatenate(list(everyone), axis=2)
    sees = positions[comm.rank][:, None] >= np.concatenate(positions)
    ringside.compute(seconds=1e-7 * float(sees.sum()), phase="all keys")
    return attend(q, k, v, sees)[0]


# %% [markdown] slideshow={"slide_type": "fragment"}
# You run both programs on 8 ranks in zigzag, with 8 heads of queries and, first, 8 key heads. As in section 5, a pair takes
# 0.1 µs.


# %% slideshow={"slide_type": "fragment"}
def both_ways(key_heads):
    """Attention of 256 tokens by the ring and by the all-gather: their timelines."""
    draw = np.random.default_rng(11).normal
    q, (k, v) = draw(size=(8, 256, 8)), draw(size=(2, key_heads, 256, 8))
    right = F.scaled_dot_product_attention(
        *map(torch.tensor, (q, k, v)), is_causal=True, enable_gqa=True
    ).numpy()
    positions, timelines = zigzag(8, 256), {}
    inputs = [(q[:, own], k[:, own], v[:, own], positions) for own in positions]
    for program in ("causal", "gathered"):
        run = ringside.run(f"{program}.py:attention", 8, inputs)
        for own, mine in zip(positions, run.values):
            np.testing.assert_allclose(mine, right[:, own], atol=1e-12)
        timelines[program] = run.timeline
    return timelines


# %% slideshow={"slide_type": "fragment"}
def compared(timelines):
    for program, timeline in timelines.items():
        sent = timeline.bytes_matrix.sum(axis=1)[0]
        print(f"{program:8} {sent:8,} bytes sent, {1e6 * timeline.makespan_s:5.0f} µs")


all_heads = both_ways(8)
compared(all_heads)

# %% slideshow={"slide_type": "fragment"}
all_heads["gathered"]

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. Attention by all-gather on eight ranks. Every rank waits for all keys, and then computes without a pause.*
#
# You send the same bytes either way. The difference is that no rank computes during the all-gather, so it
# takes 1.57 times as long as the ring. Now take one key head for all 8 heads of queries.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/gather-one-head",
    "With one key head, how much longer does the all-gather take than the ring, in percent of the "
    "ring's time?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
one_head = both_ways(1)
compared(one_head)
longer = one_head["gathered"].makespan_s / one_head["causal"].makespan_s - 1
reveal("11/gather-one-head", 100 * longer)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Now you wait only 8.7 % longer, because the messages are an eighth and the pairs are as many as before. Both
# programs still send the same bytes, 28,672 on each rank. If you guessed a little less, you forgot the latency, which
# doesn't shrink.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
sent_by = {
    (heads, program): timeline.bytes_matrix.sum(axis=1).tolist()
    for heads, timelines in ((8, all_heads), (1, one_head))
    for program, timeline in timelines.items()
}
assert sent_by[8, "causal"] == sent_by[8, "gathered"] == [8 * 28_672] * 8
assert sent_by[1, "causal"] == sent_by[1, "gathered"] == [28_672] * 8
ratio = all_heads["gathered"].makespan_s / all_heads["causal"].makespan_s
assert round(ratio, 2) == 1.57 and round(100 * longer, 1) == 8.7

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What does the ring save?** It saves memory, and the time of the messages that it hides. You measure both at full size, with
# the traces of section 7. This program traces the all-gather:

# %% slideshow={"slide_type": "fragment"}
# %%writefile -a schemes.py


def gathered(group, tokens, width, kv_width):
    P = group.size()
    own = torch.empty(2, tokens // P, kv_width, dtype=torch.bfloat16)
    everyone = torch.empty(P, *own.shape, dtype=torch.bfloat16)
    dist.all_gather_into_tensor(everyone, own, group=group)
    ringside.compute(num_flops=4 * width / P * tokens**2 / 2, phase="attention")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/gather-memory",
    "131,072 tokens on 32 ranks, 3 key heads instead of 24. A rank of the ring holds at most "
    "14 MB of keys and values. How many MB does a rank of the all-gather hold?",
    unit="MB",
)


# %% slideshow={"slide_type": "fragment"}
def at_full_size(function, *args):
    """Most MB of keys and values on a rank, and ms, for 32 ranks."""
    traced = ringside.trace_torch(f"schemes.py:{function}", 32, (tokens, width, *args))
    return traced.memory[0]["peak"] / 1e6, 1e3 * ringside.replay(traced.trace, gpu).makespan_s


sizes = {}
print("key heads          ring      all-gather")
for heads in (24, 3):
    kv_width = width * heads // 24
    for name, args in (("ring", (kv_width, True)), ("gathered", (kv_width,))):
        sizes[heads, name] = at_full_size(name, *args)
    columns = [
        f"{m:5.0f} MB {t:6.1f} ms" for m, t in (sizes[heads, n] for n in ("ring", "gathered"))
    ]
    print(f"{heads:9}  " + "  ".join(columns))
reveal("11/gather-memory", sizes[3, "gathered"][0])

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 3 key heads you hold 156 MB in the all-gather: a rank's own shard, and the shards of all. In the ring you hold three
# shards: the rank's own, which the backward pass needs, the one in use, and the one that comes. A layer needs this memory only
# while it is computed, so on a GPU of 42.4 GB you hardly notice the difference. With 24 key heads you do, because the
# all-gather then holds 1246 MB.

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["explanation"]
# The time is another matter. On this cluster the four GPUs of a node share a port of 12.5 GB/s. There you wait 29.8 ms for the
# all-gather with 3 key heads, and 18.1 ms for the ring.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(sizes[h, n][0]) for h in (24, 3) for n in ("ring", "gathered")] == [
    113,
    1246,
    14,
    156,
]
assert round(sizes[3, "gathered"][1], 1) == 29.8 and round(sizes[3, "ring"][1], 1) == 18.1
chunk_MB = 2 * tokens * width * 2 / 32 / 1e6
assert np.isclose(sizes[24, "ring"][0], 3 * chunk_MB)
assert np.isclose(sizes[24, "gathered"][0], 33 * chunk_MB)
assert round(gpu.memory_bytes / 1e9, 1) == 42.4 and round(1e-9 / gpu.beta_s_per_byte, 1) == 12.5

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["derivation"]
# **Can you tell in advance?** Divide the time of the all-gather by that of the attention. A rank receives
# $2\gamma N d\,\frac{P-1}{P}$ numbers, and computes $2 N^2 d / P$ FLOP. With $n = N/P$ tokens on a rank,
#
# $$\frac{\text{all-gather}}{\text{attention}} \;=\; \frac{\gamma\,w F\beta}{n}\cdot\frac{P-1}{P} .$$
#
# You know the numerator. It is the number of tokens on a rank that hides a ring, from section 7. If you have many times as many
# tokens on each rank, the ring and the all-gather cost the same.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/llama-gather",
    "Llama 3 405B was trained on 131,072 tokens with TP 8 and CP 16. A GPU then has 16 heads of "
    "queries and 1 key head, and sends 50 GB/s. It reached 380 TFLOP/s. How much longer does the "
    "all-gather make attention, forward?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
TP, CP, flop_per_s = 8, 16, 380e12
gather_ms = 1e3 * 2 * tokens * 128 * 2 * (CP - 1) / CP / 50e9  # one key head of 128, bf16
attention_ms = 1e3 * 2 * tokens**2 * (16_384 / TP) / CP / flop_per_s
weights = 2 * 16_384**2 + 2 * 16_384 * 8 * 128 + 3 * 16_384 * 53_248  # of a layer
products_ms = 1e3 * 2 * weights * tokens / (TP * CP) / flop_per_s
print(f"all keys and values {2 * tokens * 128 * 2 / 1e6:.0f} MB, gathered in {gather_ms:.2f} ms")
print(f"attention {attention_ms:.1f} ms, the layer's other products {products_ms:.1f} ms")
print(f"the gather is {gather_ms / (attention_ms + products_ms):.1%} of both")
reveal("11/llama-gather", 100 * gather_ms / attention_ms)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Attention takes 10.9 % longer, and the layer's forward pass 4.4 %. Here you assume that nothing hides the all-gather,
# and that attention runs at the throughput of the whole model. The memory is small too, since all keys and values of a layer
# take 67 MB on a GPU. So with few key heads, long sequences and a fast port, the ring has little left to save. Meta chose the
# all-gather for Llama 3 (2024), for two reasons [16]: it is easier with other masks, as that of section 9, and keys and values
# are much smaller than queries.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(100 * gather_ms / attention_ms, 1) == 10.9
assert round(100 * gather_ms / (attention_ms + products_ms), 1) == 4.4
assert round(2 * tokens * 128 * 2 / 1e6) == 67 and 8 * 16 == 128 and 128 * 128 == 16_384
formula = 2 / 16 * flop_per_s / 50e9 / (tokens / CP) * (CP - 1) / CP
assert np.isclose(formula, gather_ms / attention_ms)
ours = sizes[3, "gathered"][1] / sizes[3, "ring"][1] - 1
assert abs(between / 8 / 4096 * 31 / 32 - ours) < 0.01

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ### What is shipped
#
# Which of them do you get from a library? Four ways are in use. This is what their sources said in November 2026.
#
# | way | messages | where you find it |
# |---|---|---|
# | ring (*P2P*) | hidden behind attention | Megatron Core `p2p` [13]; torch `alltoall` [14] |
# | all-gather | exposed, or hidden by one step | Megatron Core `all_gather`; the default of torch 2.13; Llama 3 [16] |
# | all-to-all (Ulysses) | exposed | Megatron Core `a2a` |
# | all-to-all inside a node, a ring between nodes | the ring's are hidden | Megatron Core `a2a+p2p` |
#
# **Megatron Core** lets you choose for each layer. Its documentation says that the all-gather "is not async, and cannot be
# overlapped" [13].
#
# **Torch 2.13** has `context_parallel(mesh, buffers=..., buffer_seq_dims=...)`, a prototype [14]. It shards your buffers, and
# replaces `scaled_dot_product_attention`. It starts the all-gather, computes the attention to a rank's own keys, and only then
# waits. So one step of $P$ can hide the all-gather. It then takes the gathered shards one by one, as a ring would. You select
# the ring by `set_rotate_method("alltoall")`, but FlexAttention can't use it yet. In the backward pass of
# `scaled_dot_product_attention`, the gradients of keys and values always go round a ring.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
from torch.distributed.tensor.experimental import _attention as shipped

method = shipped._cp_options.rotate_method
assert method is shipped._RotateMethod.ALL_GATHER or not torch.__version__.startswith("2.13")

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "Your model has 24 key heads. Would you gather?" Let the class put $\gamma = 1$ into the quotient. *Where
# classes stumble:* they take "same bytes" for "same time". The bytes of a ring are hidden, and those of an all-gather
# aren't.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 9. Documents in one sequence
#
# What does a training sequence of 131,072 tokens hold? As a rule it holds many documents, one after the other (*packing*). With
# a **document mask** a token sees the tokens before it in its own document only. Llama 3 (2024) was trained so [16].
# Zigzag was even for one document. Is it still even for many? The next program is the ring with this mask.

# %% slideshow={"slide_type": "fragment"}
# %%writefile documents.py
import numpy as np
from causal import pass_on
from online import attend, merge

import ringside


def allowed(mine, theirs, document):
    """The pairs of a query and a key before it in the same document."""
    return (mine[:, None] >= theirs) & (document[mine][:, None] == document[theirs])


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a documents.py


def attention(comm, q, k, v, positions, document):
    """document[i]: to which document the token at position i belongs."""
    here, result, mine = np.stack([k, v]), None, positions[comm.rank]
    for step in range(comm.size):
        theirs = positions[(comm.rank - step) % comm.size]
        sees = allowed(mine, theirs, document)
        coming, posts = pass_on(comm, here, step == comm.size - 1)
        if sees.any():
            ringside.compute(seconds=1e-7 * float(sees.sum()), phase=f"step {step}")
            new = attend(q, *here, sees)
            result = new if step == 0 else merge(result, new)
        for post in posts:
            post.Wait()
        here = coming
    return result[0]


# %% slideshow={"slide_type": "fragment"}
def packed(positions, lengths):
    """Run it for documents of these lengths, and compare with torch; the share of time computed."""
    N, document = sum(lengths), np.repeat(np.arange(len(lengths)), lengths)
    q, k, v = np.random.default_rng(N).normal(size=(3, 1, N, 4))
    inputs = [(q[:, own], k[:, own], v[:, own], positions, document) for own in positions]
    run = ringside.run("documents.py:attention", len(positions), inputs)
    mask = torch.tensor(np.tri(N, dtype=bool) & (document[:, None] == document))
    right = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), attn_mask=mask).numpy()
    for own, mine in zip(positions, run.values):
        np.testing.assert_allclose(mine, right[:, own], atol=1e-12)
    return np.mean(run.timeline.busy_s) / run.timeline.makespan_s


# %% [markdown] slideshow={"slide_type": "fragment"}
# You pack 1024 tokens on 4 ranks in two ways: one document of 1024 tokens, and one of 512 with 16 of 32 behind it.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/documents",
    "A document of 512 tokens, then 16 of 32, on 4 ranks in zigzag. What share of the time does a "
    "rank compute, on average over the ranks?",
    unit="%",
)

# %% slideshow={"slide_type": "fragment"}
ONE, MANY = [1024], [512] + 16 * [32]
busy_of = {}
for name, assign in (("consecutive", consecutive), ("zigzag", zigzag)):
    for lengths in (ONE, MANY):
        busy_of[name, len(lengths)] = packed(assign(4, 1024), lengths)
    one, many = busy_of[name, 1], busy_of[name, 17]
    print(f"{name:12} one document {one:6.1%}    17 documents {many:6.1%}")
reveal("11/documents", 100 * busy_of["zigzag", 17])

# %% [markdown] slideshow={"slide_type": "fragment"}
# You see a rank compute for only 58.7 % of the time. Each rank has an eighth of the sequence from the head, where the long
# document is, and an eighth from the tail, where the short ones are. A query in the tail sees at most 32 keys, so it no longer
# makes up for one in the head. Rank 3, whose head chunk is the end of the long document, has 5.7 times the pairs of rank 0.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
share = {key: round(100 * value, 1) for key, value in busy_of.items()}
assert share["zigzag", 17] == 58.7 and share["zigzag", 1] > 99.5
assert share["consecutive", 1] == 57.2 and share["consecutive", 17] == 35.4
keys_seen = np.concatenate([np.arange(1, length + 1) for length in MANY])
pairs_of = [int(keys_seen[own].sum()) for own in zigzag(4, 1024)]
assert round(pairs_of[3] / pairs_of[0], 1) == 5.7 and keys_seen[512:].max() == 32

# %% [markdown] slideshow={"slide_type": "subslide"}
# **How do you restore the balance?** There are two solutions. Assign each document in zigzag for itself. Or cut the sequence
# into blocks, sort them by their work, and give them to the ranks heaviest first, back and forth.


# %% slideshow={"slide_type": "fragment"}
def per_document(P, lengths):
    """Zigzag inside each document."""
    starts = np.cumsum([0, *lengths[:-1]])
    shards = [[start + own for own in zigzag(P, n)] for start, n in zip(starts, lengths)]
    return [np.concatenate(own) for own in zip(*shards)]


def by_work(P, lengths, block=32):
    """Blocks of tokens, heaviest first: ranks 0 to P - 1, then P - 1 to 0, and so on."""
    work = np.concatenate([np.arange(1, n + 1) for n in lengths])  # keys that a query sees
    blocks = np.split(np.arange(len(work)), len(work) // block)
    blocks.sort(key=lambda own: -work[own].sum())
    rounds = [blocks[i : i + P] for i in range(0, len(blocks), P)]
    rounds[1::2] = [back[::-1] for back in rounds[1::2]]
    return [np.concatenate(own) for own in zip(*rounds)]


# %% slideshow={"slide_type": "fragment"}
ODD = [517, 203, 101, 67, 53, 41, 29, 13]  # also 1024 tokens


def even(positions, lengths):
    """Mean over the most of the pairs of a rank: the share of time if only the sum counts."""
    keys_seen = np.concatenate([np.arange(1, length + 1) for length in lengths])
    pairs = [keys_seen[own].sum() for own in positions]
    return np.mean(pairs) / max(pairs)


# %% slideshow={"slide_type": "fragment"}
print("documents                              in the ring   by the sum")
solved = {}
for name, positions, lengths in (
    ("17, zigzag in each document", per_document(4, MANY), MANY),
    ("17, blocks by work", by_work(4, MANY), MANY),
    ("8 of odd lengths, zigzag", zigzag(4, 1024), ODD),
    ("8 of odd lengths, blocks by work", by_work(4, ODD), ODD),
):
    solved[name] = 100 * np.array([packed(positions, lengths), even(positions, lengths)])
    print(f"{name:35} {solved[name][0]:13.1f} % {solved[name][1]:10.1f} %")

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
SMALL = [32, 8, 8, 8, 8]  # a smaller pack, to draw it
document = np.repeat(range(5), SMALL)
allowed = np.tri(64, dtype=bool) & (document[:, None] == document)


def triangle(axis, positions):
    """Draw the pairs of the small pack, coloured by the rank that computes them."""
    image = np.ones((64, 64, 3))
    for rank, own in enumerate(positions):
        pairs = np.isin(np.arange(64), own)[:, None] & allowed
        image[pairs] = colours[rank]
        label = f"rank {rank}: {pairs.sum() / allowed.sum():.0%} of the pairs"
        axis.plot([], [], "s", color=colours[rank], markersize=9, label=label)
    axis.imshow(image, extent=(0, 64, 64, 0), interpolation="nearest")
    axis.set(xlabel="position of the key", xticks=range(0, 65, 16), yticks=range(0, 65, 16))
    axis.legend(frameon=False, loc="upper right")


# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained")
triangle(panels[0], zigzag(4, 64))
triangle(panels[1], per_document(4, SMALL))
panels[0].set(title="zigzag", ylabel="position of the query")
panels[1].set(title="zigzag in each document")
show(figure, "Two squares of 64 queries and 64 keys, with a large triangle for one document of 32 tokens and four small ones for "
     "documents of 8 tokens along the diagonal. Left, zigzag: four broad bands of rows in the large triangle, from rank 0 "
     "at its tip to rank 3 at its base, and one small triangle for each rank; rank 3 has most of the area. Right, zigzag "
     "in each document: every triangle is striped in the colours of all four ranks, and each has a quarter.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 8. The pairs that a document mask leaves, for a document of 32 tokens and four of 8, coloured by the rank that
# computes them.*
#
# You see the difference in the large triangle. On the left rank 3 has its broad base. On the right each rank has a band near
# the tip and one near the base, in every document. The pack of 17 documents is as even: with either solution you reach
# 100 %. So which of them should you take?
#
# | | zigzag in each document | blocks by work |
# |---|---|---|
# | lengths | must be divisible by $2P$, so each document is padded | any |
# | pieces | $2P$ of each document, so they are small | blocks of one size |
# | even in the sum of all steps | yes | nearly |
# | even in each step of a ring | yes | no |
#
# The last row is why your eight documents of odd lengths lose time in the ring. By the sum their blocks reach 97.6 %. In
# the ring they reach 87.7 %, because a rank with few pairs in a step waits for the keys of a neighbour that has many.
# After an all-gather a rank computes once, and only the sum counts. So document masks and the all-gather go together.

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# Which solution do systems use? Torch 2.13 has both, under the names *per-document head-tail* and *PTRR* (processing-time
# based round-robin) [14]. TorchTitan takes head-tail for torch's own attention, and PTRR for FlexAttention [15]. What do you
# gain in a whole training? Your 17 documents gain a factor of 1.70, but in attention alone. WLB-LLM (2025) shards each
# document and packs by work, and reports 1.23 on average in its authors' own training framework [17].

# %% slideshow={"slide_type": "skip"} tags=["checked"]
first, second, third, fourth = solved.values()
assert min(first) > 99.9 and min(second) > 99.9 and third.round(1).tolist() == [61.0, 61.0]
assert fourth.round(1).tolist() == [87.7, 97.6]
assert 1.23 < round(first[0] / share["zigzag", 17], 2) == 1.70
assert all(length % 8 for length in ODD) and sum(ODD) == sum(MANY) == 1024 and len(ODD) == 8

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "A sequence of 131,072 tokens holds 131,072 documents of one token. What does each rank compute, and which
# order is even?" Then let the class find a pack for which consecutive shards are even.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10. An image on four ranks
#
# Now you cut the other sample of section 1, the image. What does a rank lack here? It doesn't need everything from everyone,
# because a convolution reaches only a few rows far. So the few rows beyond the cut are enough. From here to section 17 the
# lecture is for reading.
#
# This photograph [1] has 427 rows and 640 columns. You give each of four ranks a strip. Since 427 isn't divisible
# by 4, the last strip is one row shorter. Each rank looks for edges, with a small kernel. (*Convolution* has the
# meaning that it has in libraries, where the kernel isn't flipped.)

# %% slideshow={"slide_type": "fragment"}
photo = plt.imread(LECTURES / "data" / "temple.jpg")
grey = photo.mean(axis=2)  # (427, 640)
kernel = np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])
strips = np.array_split(grey, 4)
print([strip.shape for strip in strips])

# %% slideshow={"slide_type": "fragment"}
# %%writefile alone.py
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def inside(x, kernel):
    """Apply the kernel at each place where it lies inside x."""
    return np.einsum("rcij,ij->rc", sliding_window_view(x, kernel.shape), kernel)


def edges(comm, strip, kernel):
    return inside(np.pad(strip, len(kernel) // 2), kernel)  # zeros all round


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/wrong-rows",
    "Each rank takes zeros for what it doesn't have. How many of the 427 rows come out wrong?",
    unit="rows",
)

# %% slideshow={"slide_type": "fragment"}
from alone import inside

whole = inside(np.pad(grey, 1), kernel)  # the serial result
blind = np.concatenate(ringside.run("alone.py:edges", 4, [(s, kernel) for s in strips]).values)
wrong = np.flatnonzero((abs(blind - whole) > 1e-10).any(axis=1))
print("wrong rows:", wrong.tolist())

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3), layout="constrained")
top = 0
for rank, strip in enumerate(strips):
    tint = np.array([int(RANKS[rank][i : i + 2], 16) for i in (1, 3, 5)]) / 255
    colour = 0.72 * photo[top : top + len(strip) : 2, ::2] / 255 + 0.28 * tint
    left.imshow(colour, extent=(0, 640, top + 24 * rank + len(strip), top + 24 * rank))
    left.text(-8, top + 24 * rank + 53, f"rank {rank}", ha="right", va="center")
    top += len(strip)
left.set(xlim=(0, 640), ylim=(top + 72, 0))
right.imshow(np.abs(blind) < 80, cmap="gray", interpolation="nearest")
right.set_title("edges, each rank alone", fontsize=10)
for axis in (left, right):
    axis.axis("off")
show(figure, "Left: a photograph of a Chinese temple, cut into four horizontal strips with gaps between "
     "them, one for each rank. Right: the edges in it, dark on white. Through the empty sky and "
     "over the lake run straight horizontal lines where strips meet; the photograph has none.")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
reveal("11/wrong-rows", len(wrong))

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 9. The photograph on four ranks, and the edges that they find if each works alone. The three straight
# lines across the image are no edges of the photograph. They are the edges of the strips. (The frame is the rim of the
# image, with zeros outside.)*
#
# You see six wrong rows, two at each of the three cuts. Why two? At the first row of its strip, a kernel of 3 rows
# also needs the row above, and only the neighbour has that row. The same holds for the last row of the strip above.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert grey.shape == (427, 640) and [len(s) for s in strips] == [107, 107, 107, 106]
assert wrong.tolist() == [106, 107, 213, 214, 320, 321]

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"]
# ## 11. The halo
#
# How many rows does a rank lack? Look at one column of the image. Let $x_i$ be its pixel in row $i$, and $f_{-h}, \dots, f_h$
# the kernel's numbers in that column. The kernel has an odd number $k$ of rows. With zeros outside of the image, the output is
#
# $$y_i = \sum_{j=-h}^{h} f_j\, x_{i+j}, \qquad h = \Big\lfloor \frac{k}{2} \Big\rfloor .$$
#
# A rank that computes the rows from $i_0$ to $i_1 - 1$ reads the rows from $i_0 - h$ to $i_1 - 1 + h$. It owns
# those from $i_0$ to $i_1 - 1$. So it lacks $h$ rows above and $h$ rows below. These rows are called its
# **halo**. For example, a kernel of 3 rows has a halo of 1 row on each side, a kernel of 5 rows has 2, and
# a kernel of 1 row has none. It is $\lfloor k/2 \rfloor$ and not $k/2$, because the middle row of the kernel lies on a row that
# the rank owns.
#
# With $C$ channels and $W$ columns, a rank sends $h\,C\,W$ numbers to each neighbour, however many rows its strip
# has. (The strip must have at least $h$ rows.) The rows outside of the whole image are zeros, and nobody sends
# them.

# %% slideshow={"slide_type": "fragment"}
# %%writefile halo_rows.py
import numpy as np
from alone import inside
from mpi4py import MPI


def with_halo(comm, strip, h):
    """The strip with h rows of each neighbour; zeros where there is no neighbour."""
    last, (rows, columns) = comm.size - 1, strip.shape
    tall = np.zeros((rows + 2 * h, columns))
    tall[h:-h] = strip
    up = MPI.PROC_NULL if comm.rank == 0 else comm.rank - 1
    down = MPI.PROC_NULL if comm.rank == last else comm.rank + 1
    comm.Sendrecv(tall[rows:-h], down, recvbuf=tall[:h], source=up)
    comm.Sendrecv(tall[h : 2 * h], up, recvbuf=tall[-h:], source=down)
    return tall


# %% [markdown] slideshow={"slide_type": "fragment"}
# `PROC_NULL` is MPI's rank that isn't there. A message to it is dropped, and one from it never changes
# the buffer. So you need no special case for the first and the last rank. In the first call all rows travel down,
# and in the second they travel up. `Sendrecv` sends and receives at once, so no rank waits for another one's
# receive. (This program is for $h \ge 1$. With a kernel of one row, leave the exchange out.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile -a halo_rows.py


def edges(comm, strip, kernel):
    h = len(kernel) // 2
    return inside(np.pad(with_halo(comm, strip, h), [(0, 0), (h, h)]), kernel)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/halo-bytes",
    "The numbers are in FP64 (8 bytes), the image has 640 columns. How many bytes does rank 1 send?",
    unit="bytes",
)

# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
run = ringside.run("halo_rows.py:edges", 4, [(strip, kernel) for strip in strips])
np.testing.assert_allclose(np.concatenate(run.values), whole, atol=1e-10)
halo_sent = run.timeline.bytes_matrix.sum(axis=1)
print("sent:", halo_sent.tolist(), "bytes")
reveal("11/halo-bytes", halo_sent[1])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rank 1 is an inner rank, so it sends two rows, 10,240 bytes. You see the first and the last rank send one row. Is that much?
# The strip itself is 53.5 times as much. With the halos all rows of the output are right.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert halo_sent.tolist() == [5120, 10_240, 10_240, 5120]
assert strips[1].nbytes == 547_840 and strips[1].nbytes / halo_sent[1] == 53.5
halo_us = 1e6 * run.timeline.makespan_s  # section 15 compares it

# %% [markdown] slideshow={"slide_type": "slide"}
# **The same in torch.** A batch of images has the shape (B, C, rows, W). The rows that you send aren't contiguous in
# memory, so they are copied first. `batch_isend_irecv` posts all messages at once.

# %% slideshow={"slide_type": "fragment"}
# %%writefile halo_torch.py
import torch
import torch.distributed as dist
import torch.nn.functional as F


def with_halo(group, x, h):
    rank, last = group.rank(), group.size() - 1
    up, down = x.new_zeros(2, *x.shape[:2], h, x.shape[3])  # zeros where no neighbour is
    posts = []
    for there, peer, rows, halo in ((rank > 0, rank - 1, x[:, :, :h], up),
                                    (rank < last, rank + 1, x[:, :, -h:], down)):  # fmt: skip
        if there:
            posts.append(dist.P2POp(dist.isend, rows.contiguous(), group_peer=peer, group=group))
            posts.append(dist.P2POp(dist.irecv, halo, group_peer=peer, group=group))
    for work in dist.batch_isend_irecv(posts) if posts else []:
        work.wait()
    return torch.cat([up, x, down], dim=2)


# %% slideshow={"slide_type": "fragment"}
# %%writefile -a halo_torch.py


def edges(group, x, weight):
    h = weight.shape[2] // 2
    return F.conv2d(with_halo(group, x, h), weight, padding=(0, h))


# %% slideshow={"slide_type": "fragment"}
images = photo.transpose(2, 0, 1)[None].astype(float)  # (1, 3, 427, 640)
weight = np.stack([kernel] * 3)[None] / 3  # (1, 3, 3, 3): edges of the mean of three colours
strips_of_all = np.array_split(images, 4, axis=2)
run = ringside.run("halo_torch.py:edges", 4, [(own, weight) for own in strips_of_all])
np.testing.assert_allclose(np.concatenate([v[0, 0] for v in run.values]), whole, atol=1e-10)
print("sent:", run.timeline.bytes_matrix.sum(axis=1).tolist(), "bytes: three colours")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (run.timeline.bytes_matrix.sum(axis=1) == 3 * halo_sent).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. Corners and strides
#
# **Blocks instead of strips.** What do you do with many ranks, when a strip has few rows? You can cut a square image for 16
# ranks into 4 times 4 blocks instead. An inner strip sends two rows of $W$ numbers. An inner block sends two rows and two
# columns of $W/4$ numbers each.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/blocks",
    "A square image on 16 ranks: how many times fewer numbers does an inner block send "
    "than an inner strip?",
    unit="times",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A block has a new difficulty. To compute its corner pixel it needs a pixel of the neighbour at the corner.
# Do you need four more messages for that? You don't, if you exchange the rows first, and then the columns of the block
# *with its halo rows*. The corner pixel goes down to the neighbour in the first exchange, and on to the side
# in the second.
#
# ```text
#   1. rows            2. columns, halo rows included
#      a a a              b a a a b        A: the block
#      A A A              b A A A b        a: comes in the first exchange
#      A A A      ->      b A A A b        b: comes in the second exchange; the upper
#      A A A              b A A A b           and lower ends of b are the corners
#      a a a              b a a a b
# ```

# %% slideshow={"slide_type": "fragment"}
# %%writefile blocks.py
import numpy as np
from alone import inside
from halo_rows import with_halo


def edges(comm, block, kernel, across):
    """Ranks lie in a grid, row by row, ``across`` of them beside each other."""
    h = len(kernel) // 2
    below_each_other = comm.Split(comm.rank % across, comm.rank)
    beside_each_other = comm.Split(comm.rank // across, comm.rank)
    tall = with_halo(below_each_other, block, h)
    full = with_halo(beside_each_other, np.ascontiguousarray(tall.T), h).T
    return inside(full, kernel)


# %% slideshow={"slide_type": "fragment"}
corners = np.array([[1.0, 0, 1], [0, 0, 0], [1, 0, 1]])  # looks at the corners only
square = grey[:400, :400]
blocks = [b for row in np.split(square, 4) for b in np.split(row, 4, axis=1)]
run = ringside.run("blocks.py:edges", 16, [(b, corners, 4) for b in blocks])
rows_of_blocks = [np.concatenate(run.values[i : i + 4], axis=1) for i in (0, 4, 8, 12)]
right = inside(np.pad(square, 1), corners)
np.testing.assert_allclose(np.concatenate(rows_of_blocks), right, rtol=1e-12)

sent_pixels = np.array([m.nbytes for m in run.timeline.messages if m.source == 5 and m.nbytes > 99])
print("rank 5 sends", sent_pixels // 8, "pixels")
reveal("11/blocks", 2 * 400 / (4 * 400 / 4))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Apart from the corners, a block sends half of what a strip sends. You see four messages of rank 5: two rows of 100
# pixels, and two columns of 102. The output is right to the last corner. But a block sends two messages more. On $P$
# ranks a block sends $4W/\sqrt P$ numbers, and a strip sends $2W$. So take blocks with many ranks, and strips with few.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert sorted(sent_pixels // 8) == [100, 100, 102, 102]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Strides.** With stride 2, the kernel lies on every second row: on the rows 0, 2, 4 and so on *of the whole
# image*. A rank computes an output if the middle of the kernel lies on one of its rows. Rank 1 of the photograph owns
# rows 107 to 213.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/stride",
    "Stride 2 and a kernel of 3 rows. How many rows does rank 1 need from its two neighbours?",
    unit="rows",
)


# %% slideshow={"slide_type": "fragment"}
def lacks(low, high, k, stride):
    """Rows that the owner of rows low to high - 1 needs from above and from below."""
    middles = range(-(-low // stride) * stride, high, stride)  # the kernel lies on these
    return max(0, low - middles[0] + k // 2), max(0, middles[-1] + k // 2 - high + 1)


ends = np.cumsum([0] + [len(strip) for strip in strips]).tolist()
needed = {}
for rank, (low, high) in enumerate(zip(ends, ends[1:])):
    needed[rank] = lacks(low, high, 3, 2)
    print(f"rank {rank}: rows {low:3} to {high - 1:3}, lacks {needed[rank]}")
reveal("11/stride", sum(needed[1]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rank 1 needs nothing. Its first kernel lies on row 108 and its last one on row 212, and both end inside of
# the strip. But you see that rank 2 needs one row from each neighbour. (Rank 0 and rank 3 also "lack" rows outside of the
# image, which are zeros.) So with a stride the halo depends on where a strip begins. If you start to
# count at the first row of each strip, you get other outputs than the serial program. So number the rows from the
# top of the whole image.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert needed[1] == (0, 0) and needed[2] == (1, 1) and ends == [0, 107, 214, 321, 427]
even = [row for row in range(107, 214) if row % 2 == 0]
assert (even[0], even[-1]) == (108, 212) and (ends[1], ends[2] - 1) == (107, 213)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 13. The backward pass
#
# What does a rank need for the gradients? Let $g_i$ be the gradient of the loss $\mathcal{L}$ with respect to $y_i$. Since
# $y_i = \sum_j f_j\,x_{i+j}$,
#
# $$\frac{\partial \mathcal{L}}{\partial x_i} = \sum_{j=-h}^{h} f_j\, g_{i-j}, \qquad
#   \frac{\partial \mathcal{L}}{\partial f_j} = \sum_i g_i\, x_{i+j} .$$
#
# The first sum is a convolution again, of $g$ with the kernel upside down. So it needs a halo of $g$.
# The second sum runs over all rows of the image. Each rank has some of the rows,
# and so a share of the sum. Therefore the gradients of the kernel need **one all-reduce**, as in data parallelism. You still
# have the halo of $x$ from the forward pass.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/backward",
    "The layer has as many channels after as before. Compared with the forward pass, the halos "
    "of the backward pass send ...",
    choices=["half the bytes", "the same bytes", "twice the bytes"],
)

# %% slideshow={"slide_type": "fragment"}
# %%writefile trained.py
import numpy as np
from alone import inside
from halo_rows import with_halo
from mpi4py import MPI


def wide(comm, strip, h):
    return np.pad(with_halo(comm, strip, h), [(0, 0), (h, h)])


def gradients(comm, x, kernel, g):
    """Of x and of the kernel, for the loss that is the sum of g * y."""
    h = len(kernel) // 2
    x_wide, g_wide = wide(comm, x, h), wide(comm, g, h)
    of_kernel = inside(x_wide, g)  # g is the kernel here
    comm.Allreduce(MPI.IN_PLACE, of_kernel)
    return inside(g_wide, kernel[::-1, ::-1]), of_kernel


# %% slideshow={"slide_type": "fragment"}
g = np.random.default_rng(11).normal(size=grey.shape)
inputs = [(x, kernel, own) for x, own in zip(strips, np.array_split(g, 4))]
run = ringside.run("trained.py:gradients", 4, inputs)

x = torch.tensor(grey)[None, None].requires_grad_()
w = torch.tensor(kernel)[None, None].requires_grad_()
(F.conv2d(x, w, padding=1)[0, 0] * torch.tensor(g)).sum().backward()  # the whole image
np.testing.assert_allclose(np.concatenate([v[0] for v in run.values]), x.grad[0, 0], atol=1e-12)
np.testing.assert_allclose(run.values[2][1], w.grad[0, 0], rtol=1e-10)
kinds = [m.nbytes for m in run.timeline.messages if m.source == 1]
print("rank 1 sends messages of", kinds, "bytes")
backward = (kinds.count(5120) - 2) / 2  # two rows of x go forward
reveal("11/backward", {0.5: "half the bytes", 1: "the same bytes", 2: "twice the bytes"}[backward])

# %% [markdown] slideshow={"slide_type": "fragment"}
# They send the same bytes. The halo of $g$ is again $h$ rows from each neighbour. You see rank 1 send two rows of $x$, two
# rows of $g$, and the pieces of an all-reduce of nine numbers. So a layer sends its halos twice in a training step, those of
# $x$ forward and those of $g$ backward. The gradients are those that torch computes for the whole image.

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is a second way. Let each rank also compute what its own $g$ contributes to the gradients of its halo rows. It sends
# these sums to the owner of the rows, and the owner adds them. With as many channels after as before, you send as
# many bytes. The way above has one advantage: no sum for a pixel is split over two ranks, so none is rounded differently.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert kinds.count(5120) == 4 and kernel.size == 9

# %% [markdown] slideshow={"slide_type": "notes"}
# *Where classes stumble:* three mistakes give plausible outputs. Whoever forgets the halo of $g$ has wrong
# gradients in six rows only, and the training works almost as well. Whoever forgets the all-reduce has kernels
# that drift apart. Whoever adds the bias on both sides of a cut counts it twice. Ask which of the three a
# loss curve would show.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. The halo hides behind the interior
#
# Section 4 hid keys and values behind the attention to others. What can hide a halo? Most rows of a strip don't need
# it. So you can begin with them while the halo travels:
#
# 1. post the sends and receives of the halo;
# 2. compute the inner rows;
# 3. wait for the halo;
# 4. compute the first $h$ and the last $h$ rows.
#
# The next program has strips of 64 rows, and a row takes 1 µs. A halo row of 20,000 bytes takes 21 µs on the
# machine `textbook`. An inner rank sends two of them, which takes 41 µs, since they share a port.

# %% slideshow={"slide_type": "fragment"}
# %%writefile hidden.py
import numpy as np

import ringside


def post(comm, row):
    near = [r for r in (comm.rank - 1, comm.rank + 1) if 0 <= r < comm.size]
    return [call(np.copy(row), r) for r in near for call in (comm.Irecv, comm.Isend)]


def layer(comm, overlapped, rows=64, h=1):
    halo = post(comm, np.zeros(2500))
    if overlapped:
        ringside.compute(seconds=(rows - 2 * h) * 1e-6, phase="interior")
    for message in halo:
        message.Wait()
    rest = 2 * h if overlapped else rows
    ringside.compute(seconds=rest * 1e-6, phase="border" if overlapped else "all rows")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/overlap",
    "Waiting first takes 105 µs. How long does it take with the interior first?",
    unit="µs",
)

# %% slideshow={"slide_type": "fragment"}
waits = ringside.run("hidden.py:layer", 4, (False,)).timeline
hides = ringside.run("hidden.py:layer", 4, (True,)).timeline
for name, timeline in (("waiting", waits), ("interior", hides)):
    print(f"{name:8} first {1e6 * timeline.makespan_s:4.0f} µs")

# %% slideshow={"slide_type": "fragment"}
hides

# %% slideshow={"slide_type": "fragment"}
reveal("11/overlap", 1e6 * hides.makespan_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 10. Four ranks that compute their interior while the halo travels.*
#
# With the interior first you wait 64 µs, which is the computing alone. The halo stays hidden as long as the interior
# takes longer. In the backward pass you have more work to hide it behind, because the gradient of the kernel needs no halo
# of $g$. So compute that first.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(1e6 * waits.makespan_s) == 105 and round(1e6 * hides.makespan_s) == 64
textbook = Machine.load("textbook")
row_us = 1e6 * (textbook.alpha_s + 20_000 * textbook.beta_s_per_byte)
assert round(row_us) == 21 and round(row_us + 20_000e6 * textbook.beta_s_per_byte) == 41

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 15. What domain parallelism costs
#
# What do you pay in a training step, if you cut space (**domain parallelism**, or spatial parallelism)? An inner
# rank has two neighbours. It sends them two messages in the forward pass, and two in the backward pass, except
# in the first layer, whose input needs no gradient. Let layer $l$ of $L$ have an input of $X_W^l$ columns and $X_C^l$
# channels, an output of $Y_W^l$ columns and $Y_C^l$ channels, a kernel of $k_H^l$ rows, and $|W_l|$ weights. If one message
# goes after another,
#
# $$\begin{aligned} T_\text{domain} = {}&
#   \sum_{l=1}^{L} 2\,\big(\alpha + \beta\, w B\, X_W^l X_C^l\, \lfloor k_H^l/2 \rfloor\big)
#   + \sum_{l=2}^{L} 2\,\big(\alpha + \beta\, w B\, Y_W^l Y_C^l\, \lfloor k_H^l/2 \rfloor\big) \\
#   &+ 2\sum_{l=1}^{L} \Big((P-1)\,\alpha + \beta\, w\,\tfrac{P-1}{P}\,|W_l|\Big) . \end{aligned}$$
#
# For example, the exchange of section 11 took 12.24 µs on the machine `textbook`, which is $2(\alpha + 5120\,\beta)$ with
# 1 µs and 1 ns. The third sum is the ring all-reduce of the kernels' gradients, and that is all that data parallelism sends.
# So you send *more* than with data parallelism, because the halos come on top.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(halo_us, 2) == 12.24 == 2 * (1 + 5120 / 1000)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Why use it, then? There are two reasons. First, data parallelism ends at $B$ ranks, and you can't distribute a batch of one
# image. Second, every rank of data parallelism keeps the activations of at least one image, and
# large images don't fit. The image of section 1 took 72 GB. In 32 strips it is 2.3 GB on each GPU, and halos.
#
# You have a third candidate, the model parallelism of lecture 8. It shards the *filters*: each rank computes some
# channels of the output, and gathers the others. Compare the bytes for the 13 convolutions of VGG-16 [2], with one
# image of 224 rows on four ranks:


# %% slideshow={"slide_type": "fragment"}
def sent_by_inner_rank(P, scale=1, B=1, w=4):
    """Bytes of a step for each layer: halos, gradients of kernels, and sharded filters."""
    rows = []
    for i, (c_in, c_out, side) in enumerate(zip(CHANNELS, CHANNELS[1:], SIDES)):
        W, share, below = side * scale, (P - 1) / P, i > 0
        halos = 2 * w * B * W * (c_in + c_out * below)
        kernels = 2 * share * w * 9 * c_in * c_out
        filters = share * w * B * W * W * (c_out + c_in * below)  # gather; reduce-scatter
        rows.append((halos, kernels, filters))
    return np.array(rows)


# %% slideshow={"slide_type": "fragment"}
small = sent_by_inner_rank(4)
names = table(LECTURES / "data" / "vgg16_parameters.csv")["layer"]
print("            halos   kernels   filters cut   (kB)")
for name, layer_bytes in zip(names, small):
    print(f"{name:9}" + "".join(f"{nbytes / 1e3:10,.0f}" for nbytes in layer_bytes))
total = small.sum(axis=0) / 1e6
print("together " + "".join(f"{megabytes:10.1f}" for megabytes in total) + "   (MB)")

# %% [markdown] slideshow={"slide_type": "fragment"}
# What do you see? All halos together are 2.2 MB, and the gradients of the kernels are 39 times as much. If you shard the
# filters, you send activations and their gradients instead, and no gradients of kernels. That is less in late layers, and far
# more in early ones. So cut early layers in space, and shard late ones by filters. A late layer has many channels and hardly
# any rows: at 14 rows on four ranks a strip has 3 or 4.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(float(megabytes), 1) for megabytes in total] == [2.2, 88.3, 67.4] and len(small) == 13
assert round(image_GB) == 72 and round(image_GB / 32, 1) == 2.3
vgg_kernels = table(LECTURES / "data" / "vgg16_parameters.csv")["num_parameters"][:13]
assert all(1.5 * 4 * (n - c) == row[1] for n, c, row in zip(vgg_kernels, CHANNELS[1:], small))
assert SIDES[0] == 224 and [len(own) for own in np.array_split(range(14), 4)] == [4, 4, 3, 3]
assert small[1][2] > 40 * (small[1][0] + small[1][1]) and round(total[1] / total[0]) == 39
assert 20 * small[12][2] < small[12][1] and SIDES[12] == 14

# %% [markdown] slideshow={"slide_type": "subslide"}
# **When do the halos hide?** They hide behind the inner rows. A strip of $R$ rows has $R - 2h$ of them. Let the layer
# have $C$ channels before and after. Then the inner rows take $2k^2C^2\,W (R - 2h)$ FLOP for each image, and the
# two halos have $2hCW$ numbers. They hide if
#
# $$\frac{2k^2C^2\,W\,(R - 2h)}{F} \ge 2hCW\,w\,\beta
#   \qquad\Longleftrightarrow\qquad R \;\ge\; 2h + \frac{h\,w}{k^2\,C}\,F\beta .$$
#
# The width and the number of images cancel. What is left is a number of *rows of a strip*.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/rows-to-hide",
    "64 channels, a kernel of 3 rows, 19.5 TFLOP/s, 12.5 GB/s between nodes, FP32. "
    "How many rows must a strip have to hide its halo?",
    unit="rows",
)

# %% slideshow={"slide_type": "fragment"}
zaratan = Machine.load("zaratan")


def rows_to_hide(channels, beta_s_per_byte=zaratan.beta_s_per_byte, k=3, w=4):
    h = k // 2
    return 2 * h + h * w / (k**2 * channels) * zaratan.flop_per_s * beta_s_per_byte


between_rows, inside_rows = rows_to_hide(64), rows_to_hide(64, zaratan.intra_beta_s_per_byte)
print(f"{between_rows:.1f} rows between nodes, {inside_rows:.1f} inside a node")
for height in (224, 2048):
    hidden = [int(height / 224 * side / rows_to_hide(c)) for side, c in zip(SIDES, CHANNELS[1:])]
    print(f"{height} rows: conv1_2 hides on {hidden[1]} ranks, conv5_3 on {hidden[12]}")
reveal("11/rows-to-hide", between_rows)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Between nodes you need 12.8 rows, and inside a node 3.4. You can cut an image of 512 rows into 39 strips of that height.

# %% [markdown] slideshow={"slide_type": "fragment"}
# What about later layers? In VGG-16 the rows halve where the channels double. With twice the channels, a strip needs half
# as many inner rows, but it still has two rows at its border. So a late layer allows fewer strips than an early one:
#
# | rows of the image | strips in the first block of layers | in the last block |
# |---|---|---|
# | 224 | 17 | 4 |
# | 2048 | 159 | 38 |
#
# You see that the resolution decides. That is why domain parallelism is said to be for images of high resolution.
# (Latency adds to this where strips have few rows.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(between_rows, 1) == 12.8 and 512 // between_rows == 39 and round(inside_rows, 1) == 3.4
assert zaratan.flop_per_s == 19.5e12 and round(1e-9 / zaratan.beta_s_per_byte, 1) == 12.5
assert [int(H / rows_to_hide(64)) for H in (224, 2048)] == [17, 159]
assert [int(H / 16 / rows_to_hide(512)) for H in (224, 2048)] == [4, 38] == [4, hidden[12]]
assert hidden[1] == 159 and 16 * SIDES[12] == 224

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 16. Jin's table
#
# Jin, Ginsburg and Keutzer [3] cut one convolution over V100 GPUs (2018): 3 by 3, 64 channels, 32 images. The numbers
# here are as widely used slides [4] quote them. Can you predict them from the times of one GPU? On $P$ GPUs a layer takes
# the $P$-th part of that time, and the time of the halo. The slides don't name the links, so we
# assume 10 µs and 25 GB/s each way, and nothing hidden.

# %% slideshow={"slide_type": "fragment"}
jin = table(LECTURES / "data" / "jin_2018.csv")
ms = {(n, p): (f, b) for n, p, f, b in zip(*jin.values())}


def halo_ms(n, P):
    neighbours = min(P - 1, 2)
    return 1e3 * neighbours * (10e-6 + 32 * n * 64 * 4 / 25e9)


def share_ms(n, P):
    """The P-th part of the time of one GPU, and the halo: forward and backward."""
    return np.array(ms[n, 1]) / P + halo_ms(n, P)


# %% [markdown] slideshow={"slide_type": "fragment"}
# By this model no speedup can be larger than the number of GPUs. Does the table agree?

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess(
    "11/super-linear",
    "The table has 12 speedups, on 2 and on 4 GPUs. How many of them are larger than the number "
    "of GPUs?",
    unit="speedups",
)

# %% slideshow={"slide_type": "fragment"}
speedup = {(n, p): np.array(ms[n, 1]) / ms[n, p] for n in (128, 256, 512) for p in (2, 4)}
print("images   GPUs  forward  predicted   backward  predicted   (speedup)")
for (n, p), measured in speedup.items():
    model = np.array(ms[n, 1]) / share_ms(n, p)
    both = "  ".join(f"{m:7.2f} {q:10.2f}" for m, q in zip(measured, model))
    print(f"{n} x {n}  {p:5}  {both}")
more_than_linear = sum(int(s > p) for (_, p), both in speedup.items() for s in both)
reveal("11/super-linear", more_than_linear)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Five of the twelve speedups are larger than the number of GPUs, up to 4.71 on 4 GPUs. Where is your prediction off? It is too
# high for small images, where starting a kernel and waiting for messages take longer than we assumed. For large images it is
# too low. No choice of $\alpha$, $\beta$ and $F$ gives that, because a GPU has its share of the work, and the messages
# come on top. So what happened?

# %% [markdown] slideshow={"slide_type": "fragment"}
# Look at the throughput of *one* GPU. The direct algorithm would do $2 \cdot 9 \cdot 64^2$ FLOP for each pixel.


# %% slideshow={"slide_type": "fragment"}
def tflops(n, p=1):
    """TFLOP/s of a GPU by the direct algorithm, forward and backward."""
    num_flops = 2 * 9 * 64**2 * n * n * 32 / p
    return num_flops / ms[n, p][0] / 1e9, 2 * num_flops / ms[n, p][1] / 1e9


print("images   GPUs   forward   backward   (TFLOP/s of a GPU)")
for n, p in ((128, 1), (256, 1), (512, 1), (512, 4)):
    print(f"{n} x {n}  {p:5} {tflops(n, p)[0]:9.1f} {tflops(n, p)[1]:10.1f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A V100 does at most 15.7 TFLOP/s in FP32 [10]. You see the small image nearly reach that, which is hardly possible with the
# direct algorithm. The library probably uses another one, with fewer FLOP. With 512 rows the throughput of one GPU falls, in
# both passes. So one GPU is *slow* on large images, and a strip is a smaller image. The speedup compares with a bad baseline.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert more_than_linear == 5 and round(float(speedup[512, 4][1]), 2) == 4.71 and len(speedup) == 6
assert [round(rate, 1) for rate in (*tflops(128), *tflops(512))] == [15.1, 11.7, 13.7, 9.8]
gpus = table(LECTURES / "data" / "gpus.csv")
assert gpus["tflop_per_s"][list(gpus["gpu"]).index("V100")] == 15.7

# %% [markdown] slideshow={"slide_type": "subslide"}
# That suggests another prediction. A quarter of an image of 512 by 512 has as many pixels as a whole image of 256
# by 256, and one GPU has been timed on that. So take this time instead of the quarter, and add the halo.

# %% slideshow={"slide_type": "fragment"}
rows = []
for n in (256, 512):
    for which, name in enumerate(("forward", "backward")):
        alike = ms[n // 2, 1][which] + halo_ms(n, 4)
        rows.append((f"{n} x {n} {name}", ms[n, 4][which], share_ms(n, 4)[which], alike))
print("on 4 GPUs (ms)         measured     a quarter       as many pixels")
for name, measured, quarter, alike in rows:
    errors = [f"{p:7.2f} ({p / measured - 1:+4.0%})" for p in (quarter, alike)]
    print(f"{name:19} {measured:11.2f}  {'  '.join(errors)}")

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, panels = plt.subplots(1, 2, figsize=(10, 3.3), layout="constrained", sharey=True)
for which, (axis, name) in enumerate(zip(panels, ("forward", "backward"))):
    axis.plot([1, 4], [1, 4], color="0.7", linestyle="--", label="number of GPUs")
    for n, colour in ((128, RANKS[0]), (256, RANKS[2]), (512, RANKS[3])):
        model = [1] + [ms[n, 1][which] / share_ms(n, p)[which] for p in (2, 4)]
        seen = [1] + [speedup[n, p][which] for p in (2, 4)]
        axis.plot([1, 2, 4], model, color=colour, linewidth=1.2)
        axis.plot([1, 2, 4], seen, "o", color=colour, label=f"{n} x {n}")
        if n > 128:
            alike = ms[n, 1][which] / (ms[n // 2, 1][which] + halo_ms(n, 4))
            axis.plot(4, alike, "x", color=colour, markersize=9, markeredgewidth=2)
    axis.set(title=name, xlabel="GPUs", xticks=[1, 2, 4], ylim=(0.8, 5))
panels[0].set_ylabel("speedup")
panels[1].legend(frameon=False, fontsize=9)
show(figure, "Two panels, forward and backward: speedup over 1, 2 and 4 GPUs for images of 128, 256 and 512 rows. "
     "Dots are measured, lines predicted. The dots of small images lie below their lines, those of 512 rows lie "
     "above the line that no model passes. Crosses on 4 GPUs, from images with as many pixels, meet the dots.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 11. Jin's table and two predictions. Dots: measured. Lines: a share of the work and the halo. Crosses: the
# time of one GPU with as many pixels, and the halo.*
#
# Which prediction is better? For the large image, your first one is up to 19 % *slower* than what was measured. The second one
# is within 3 % there, and within 12 % everywhere. This doesn't explain the super-linear points. It replaces the question by a
# better one: why is one GPU slow on a large image? No model of messages answers that.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
off = {name: (quarter / seen - 1, alike / seen - 1) for name, seen, quarter, alike in rows}
assert round(max(first for first, _ in off.values()), 2) == 0.19
assert max(abs(second) for _, second in off.values()) < 0.12
assert max(abs(off[f"512 x 512 {name}"][1]) for name in ("forward", "backward")) < 0.03
assert 4 * (512 // 2) ** 2 == 512**2 and all(speedup[128, p][0] < 128 / 64 * p for p in (2, 4))
assert np.isclose(25e9 * (halo_ms(256, 2) / 1e3 - 10e-6), 32 * 256 * 64 * 4)

# %% [markdown] slideshow={"slide_type": "notes"}
# *What to ask.* "A program is more than four times as fast on four GPUs. What do you check first?" The baseline. *Where classes
# stumble:* they are content with the word "cache". It is a guess like any other; the table can't tell.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["limits"]
# ## 17. When space pays
#
# | question | shard the batch | cut space |
# |---|---|---|
# | how many ranks? | at most $B$ | at most $H/h$; to hide halos, $H/R$ with the $R$ of section 15 |
# | activations on a rank | those of $B/P$ images, at least one | $1/P$ of each image |
# | weights on a rank | all | all |
# | messages | kernels' gradients | the same, and halos |
# | layers | all | convolutions and pooling; not a linear layer that sees all pixels |
#
# Where does it break? It breaks where rows run out. After five poolings 224 rows are 7. Then you either gather the image on
# fewer ranks, or change to another scheme. With batch normalisation you have to decide whether its means are those of a rank's
# strip or of the whole batch. And a linear layer over all pixels needs everything from everyone.

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["systems"]
# You needn't choose one scheme for the whole network. LBANN cuts each layer by samples, by space, or by both [5]:
# [Systems of 2012 to 2022](systems.md#space).

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 224 // 2**5 == 7 == SIDES[0] // 32

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18. Summary
#
# You began with 578 ms for one layer's attention over 131,072 tokens, and with 31 GPUs that had nothing to do.
# **You end with 18.1 ms on 32 GPUs**, and no message is exposed. You needed two things besides the ring: zigzag order, and a
# model with 3 key heads. Without the second it is 94 ms. With so few key heads you may also gather all keys, if your network is
# faster than ours.
#
# The image of 72 GB is 2.3 GB on each GPU, in 32 strips. So cutting space saves memory, and the halos hide behind the inner
# rows.
#
# | what | why |
# |---|---|
# | running maximum and sum | attention chunk by chunk, exact, in any order |
# | ring: $2\gamma N d\,\frac{P-1}{P}$ numbers | the bytes of an all-gather, hidden, in the memory of three shards |
# | consecutive shards under a causal mask: $\frac{P}{2P-1}$ | the last rank has almost twice the mean |
# | tokens of a rank to hide the ring: $n \ge \gamma\,w F\beta$ | work grows as $n^2$, messages as $n$ |
# | all-gather: longer by $\gamma\,w F\beta / n$ | the same bytes, exposed; any mask |
# | document mask: zigzag in each document, or blocks by work | the tail no longer makes up for the head |
# | Ulysses: $(2 + 2\gamma) N d\,\frac{P-1}{P^2}$ numbers | fewer bytes, nothing hidden, at most as many ranks as heads |
# | halo of $\lfloor k/2 \rfloor$ rows | the kernel's middle lies on an own row |
# | rows first, then columns | corners come along |
# | two halos forward, two backward, one all-reduce | two neighbours; each rank has some of the rows |
# | rows to hide a halo: $R \ge 2h + \frac{h w}{k^2 C} F\beta$ | it hides behind the inner rows; the width cancels |

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(one_gpu_ms) == 578 and round(closing["zigzag, 3 key heads"], 1) == 18.1
assert round(closing["zigzag"]) == 94 and tokens == 131_072
assert round(image_GB) == 72 and round(image_GB / 32, 1) == 2.3

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 19. Puzzles
#
# Each is a program that works and misses a target. Change the program in its cell, run it, and run the cell below it. About
# ten minutes each.
#
# **Puzzle 1: a ring that waits.** This ring moves keys and values only after it has used them. Your target is 250 µs, with
# the same bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle1.py
import numpy as np

import ringside


def steps(comm, length=3000):
    here, seen = np.full(length, 1.0 + comm.rank), 0.0
    for step in range(comm.size):
        ringside.compute(seconds=60e-6, phase=f"step {step}")
        seen += float(here[0])
        if step < comm.size - 1:
            coming = np.empty(length)
            comm.Sendrecv(here, (comm.rank + 1) % comm.size, recvbuf=coming)
            here = coming
    return seen


# %% slideshow={"slide_type": "fragment"}
attempt = puzzle("puzzle1.py:steps", 4, expected=10.0, at_most_us=250, at_most_bytes=72_000,
                 hint="The keys of the next step can travel during this one.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Post the messages before the computing, and wait for them after it, as `ring.py` does. A message takes 25 µs,
# and a step takes 60 µs. So nothing but the four steps is left, 240 µs. You need a second buffer, since the first one is read and sent
# meanwhile.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
Path("solved1.py").write_text("""import numpy as np

import ringside


def steps(comm, length=3000):
    here, seen, P = np.full(length, 1.0 + comm.rank), 0.0, comm.size
    for step in range(P):
        coming, posts = np.empty(length), []
        if step < P - 1:
            posts = [comm.Isend(here, (comm.rank + 1) % P), comm.Irecv(coming)]
        ringside.compute(seconds=60e-6, phase=f"step {step}")
        seen += float(here[0])
        for post in posts:
            post.Wait()
        here = coming
    return seen
""")
# %% slideshow={"slide_type": "skip"} tags=["checked"]
target = {"expected": 10.0, "at_most_us": 250, "at_most_bytes": 72_000, "draw": False}
solved = puzzle("solved1.py:steps", 4, **target)
assert solved.solved and round(solved.time_us) == 240 and solved.time_us < 250 < attempt.time_us
assert round(1 + 3000 * 8 / 1000) == 25 and 4 * 60 == 240 and attempt.sent_bytes[0] == 72_000

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: assign a sequence.** `positions` says which tokens each rank has. Here it gives each rank a consecutive shard. Your target
# for 256 tokens on four ranks is 860 µs. There is more than one solution.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle2.py
import numpy as np
from causal import attention


def positions(P, N):
    return [np.arange(r * N // P, (r + 1) * N // P) for r in range(P)]


def total(comm, q, k, v):
    assigned = positions(comm.size, q.shape[1])
    own = assigned[comm.rank]
    result = attention(comm, q[:, own], k[:, own], v[:, own], assigned)
    return comm.allreduce(float(result.sum()))


# %% slideshow={"slide_type": "fragment"}
q, k, v = rng.normal(size=(3, 1, 256, 4))
attended = F.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), is_causal=True)
attempt = puzzle("puzzle2.py:total", 4, (q, k, v), expected=float(attended.sum()), at_most_us=860,
                 hint="Each rank needs tokens from the front and from the back.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Zigzag is one. Another one is shorter, the *striped* order: rank $r$ gets every $P$-th token, `np.arange(r, N, P)`. Then every
# block is a triangle. It has its diagonal if the keys come from the rank itself or an earlier one, and lacks it otherwise. So the
# steps differ by one diagonal. Zigzag takes 828 µs, the striped order 838 µs.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
text = Path("puzzle2.py").read_text()
given = "[np.arange(r * N // P, (r + 1) * N // P) for r in range(P)]"
chunks = "np.arange(N).reshape(2 * P, -1)"
zigzag_code = f"[np.concatenate([{chunks}[r], {chunks}[-1 - r]]) for r in range(P)]"
striped_code = "[np.arange(r, N, P) for r in range(P)]"
target = {"expected": float(attended.sum()), "at_most_us": 860, "draw": False}
took_us = []
for number, assigned in enumerate((zigzag_code, striped_code)):
    Path(f"solved2{number}.py").write_text(text.replace(given, assigned))
    solved = puzzle(f"solved2{number}.py:total", 4, (q, k, v), **target)
    assert solved.solved and not attempt.solved
    took_us.append(round(solved.time_us))
assert took_us == [828, 838] and max(took_us) < 860 < attempt.time_us

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: a chain.** Eight ranks exchange halos. The values are right, but it takes 238 µs. Your target is 40 µs.

# %% slideshow={"slide_type": "fragment"}
# %%writefile puzzle3.py
import numpy as np


def exchange(comm, columns=2000):
    row, upper, lower = np.full((3, columns), float(comm.rank))
    if comm.rank > 0:
        comm.Recv(upper, comm.rank - 1)
    if comm.rank < comm.size - 1:
        comm.Send(row, comm.rank + 1)
        comm.Recv(lower, comm.rank + 1)
    if comm.rank > 0:
        comm.Send(row, comm.rank - 1)
    return float(upper[0] + lower[0])


# %% slideshow={"slide_type": "fragment"}
sums = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 13.0]  # of the neighbours' ranks, or one's own
attempt = puzzle("puzzle3.py:exchange", 8, expected=sums, at_most_us=40,
                 hint="Who can send at once, and who waits for a row that it doesn't need to send?")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# <details><summary>Solution</summary>
#
# Post everything, then wait for everything:
#
# ```python
# posts = []
# for peer, halo in ((comm.rank - 1, upper), (comm.rank + 1, lower)):
#     if 0 <= peer < comm.size:
#         posts += [comm.Isend(row, peer), comm.Irecv(halo, peer)]
# for post in posts:
#     post.Wait()
# ```
#
# A rank's row doesn't depend on the row that it receives. But in the chain each rank waits for the rank above before it sends
# its row down. So the messages go one after the other through all ranks: 14 of them, of 17 µs each. With all posts at once it takes
# 33 µs for any number of ranks.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
head, _ = Path("puzzle3.py").read_text().split("    if comm.rank > 0")[:2]
Path("solved3.py").write_text(
    head
    + """    posts = []
    for peer, halo in ((comm.rank - 1, upper), (comm.rank + 1, lower)):
        if 0 <= peer < comm.size:
            posts += [comm.Isend(row, peer), comm.Irecv(halo, peer)]
    for post in posts:
        post.Wait()
    return float(upper[0] + lower[0])
"""
)
solved = puzzle("solved3.py:exchange", 8, expected=sums, at_most_us=40, draw=False)
assert solved.solved and not attempt.solved
assert (round(attempt.time_us), round(solved.time_us)) == (238, 33)
assert round(attempt.time_us / 14) == 17 == round(1 + 2000 * 8 / 1000) and attempt.time_us > 40

# %% [markdown] slideshow={"slide_type": "notes"}
# In puzzle 2 ask for a sequence that is padded at its end: which of the two solutions stays even? In
# puzzle 3 ask how the time grows with the number of ranks before it is fixed.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 20. Five questions
#
# Try each before you open its answer. The cell below each answer checks it.
#
# **Question 1.** One chunk of the keys gave the output $o = 1$ with the logarithm $c = 2$ for a query. Another chunk gave
# $o' = 5$ with $c' = 2 + \ln 3$. What is the output of both? What if a third chunk comes with $c'' = -10^{30}$?
#
# <details><summary>Answer</summary>
#
# The weights are as $e^{2}$ to $3 e^{2}$, so one quarter and three quarters: $\frac14 \cdot 1 + \frac34 \cdot 5 = 4$. The third
# chunk changes nothing, because its weight is zero. It stands for a chunk of which the query sees no key.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
both = merge((np.array(1.0), np.array(2.0)), (np.array(5.0), 2 + np.log(3.0)))
assert np.isclose(both[0], 4) and merge(both, (np.array(9.0), np.array(-1e30)))[0] == both[0]

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** How efficient is a causal ring with consecutive shards on 2 and on 64 ranks? A colleague says: "Rank $r$
# never uses the keys of later shards. So nobody needs to send it those." What does this save, and what does it not save?
#
# <details><summary>Answer</summary>
#
# 66.7 % and 50.4 %. The keys of rank $r$ are used by the ranks $r$ to $P - 1$ only, so they can stop at the last rank. That
# saves about half of the bytes. It saves no time, because the last rank still has a whole block in each step, and its keys come
# from everyone. Less work for those who wait anyway doesn't help.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert [round(100 * P / (2 * P - 1), 1) for P in (2, 64)] == [66.7, 50.4]
hops = sum(64 - 1 - s for s in range(64))  # messages if the keys of s stop at the last rank
assert hops / (64 * 63) == 0.5

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** A model is 4096 wide, with 32 heads for queries and 8 key heads. It reads 1,048,576 tokens on 16
# ranks, in bf16. How many GB does a rank send for one layer forward, in a ring and with Ulysses? Does Ulysses
# work at all on 16 ranks? Does the ring hide between nodes, at 137 TFLOP/s and 12.5 GB/s?
#
# <details><summary>Answer</summary>
#
# The ring sends 4.03 GB, and the formula for Ulysses gives 1.26 GB. But there are only 8 key heads. On 16 ranks each of
# them has to be copied for two ranks. Then $\gamma$ is $\frac12$ for Ulysses, and it sends 1.51 GB. The ring needs
# $\gamma\,w F \beta$, which is 5480 tokens on a rank. There are 65,536, so it hides, and its larger number of bytes costs
# nothing.
#
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
gamma, numbers, P = 8 / 32, 2**20 * 4096, 16
assert round(2 * gamma * numbers * (P - 1) / P * 2 / 1e9, 2) == 4.03
assert round((2 + 2 * gamma) * numbers * (P - 1) / P**2 * 2 / 1e9, 2) == 1.26
assert round((2 + 2 * 16 / 32) * numbers * (P - 1) / P**2 * 2 / 1e9, 2) == 1.51
assert round(gamma * between) == 5480 and 2**20 // P == 65_536 and 2**20 == 1_048_576
assert numbers // 2**20 == 4096 and 1 / gamma == 32 / 8

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** You cut two images of 1024 by 1024 with 32 channels, in FP32, into 8 strips. How many bytes
# does an inner rank send before a convolution with a kernel of 5 by 5? How many with one of 1 by 1? And how many with one of
# 3 rows and 7 columns?
#
# <details><summary>Answer</summary>
#
# $2 \cdot 2 \cdot 32 \cdot 1024 \cdot 2 \cdot 4 = 1{,}048{,}576$ bytes: two neighbours, two rows, 32 channels, 1024 columns,
# two images, four bytes. None at all with 1 by 1. And 524,288 bytes with 3 by 7, since only the rows are cut.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def strip_bytes(k_rows, columns=1024, channels=32, images=2):
    return 2 * (k_rows // 2) * channels * columns * images * 4


assert [strip_bytes(rows) for rows in (5, 1, 3)] == [1_048_576, 0, 524_288]
assert (
    strip_bytes(5) // strip_bytes(5, columns=1) == 1024
    and strip_bytes(5, channels=1) * 32 == 1_048_576
)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** A network takes the photograph of 427 rows and halves it by pooling, 2 by 2 with stride 2. The strips have
# 107, 107, 107 and 106 rows. Which ranks need a row from a neighbour? How would you cut the photograph instead?
#
# <details><summary>Answer</summary>
#
# A window has an even row and the odd one below it. Rank 0 ends with row 106, so it needs row 107, and rank 2 needs row 321.
# Cut at even rows, for example 108, 106, 108 and 105: then nobody needs anything. The last row, 426, has no partner and is
# dropped, as in the serial program.
#
# </details>


# %% slideshow={"slide_type": "skip"} tags=["checked"]
def torn(heights):
    """Ends of strips that cut through a window of two rows."""
    return [int(end) for end in np.cumsum(heights)[:-1] if end % 2]


assert torn([107, 107, 107, 106]) == [107, 321] and torn([108, 106, 108, 105]) == []
assert sum([108, 106, 108, 105]) == 427 == 426 + len([426])

# %% [markdown] slideshow={"slide_type": "slide"}
# ### Your turn
#
# The assignment `a11_spatial` asks for what this lecture left out. In `halo` you exchange rows of uneven strips and of a
# grid, in `conv` you write the forward and backward pass of a convolution with channels and hide its halo, and `conv_torch` does
# it as a function that autograd knows. In `cost` you count bytes and time of the cuts, and find the best for a
# resolution. In `ring_attention` you keep the running maximum and sum, and `ring_attention_torch` adds the backward pass, causal
# masks, uneven shards and fewer key heads. Extra modules are `zigzag_torch` and `ulysses_torch`.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Buechele. Photograph of a temple in China, flickr.com/photos/danielbuechele/6061409035, licence CC BY 2.0
#    (`data/temple.jpg`).
# 2. K. Simonyan, A. Zisserman. Very deep convolutional networks for large-scale image recognition. ICLR 2015.
#    arXiv:1409.1556. Table 1.
# 3. P. Jin, B. Ginsburg, K. Keutzer. Spatially parallel convolutions. ICLR 2018, workshop track.
# 4. D. Tao. Introduction to ML Systems. Slides, Oxford Machine Learning Summer School (OxML), 2022.
# 5. N. Dryden, N. Maruyama, T. Benson, T. Moon, M. Snir, B. Van Essen. Improving strong-scaling of CNN training by exploiting
#    finer-grained parallelism. IPDPS 2019. arXiv:1903.06681.
# 6. V. Korthikanti, J. Casper, S. Lym, L. McAfee, M. Andersch, M. Shoeybi, B. Catanzaro. Reducing activation recomputation in
#    large transformer models. MLSys 2023. arXiv:2205.05198.
# 7. H. Liu, M. Zaharia, P. Abbeel. Ring attention with blockwise transformers for near-infinite context. ICLR 2024.
#    arXiv:2310.01889.
# 8. S. A. Jacobs, M. Tanaka, C. Zhang, M. Zhang, S. L. Song, S. Rajbhandari, Y. He. DeepSpeed Ulysses: system optimizations for
#    enabling training of extreme long sequence transformer models. arXiv:2309.14509.
# 9. Z. Zhu. ring-flash-attention. github.com/zhuzilin/ring-flash-attention, README at commit 01c8baf.
# 10. S. Di Gioia. HPC for DL. Slides, The Abdus Salam International Centre for Theoretical Physics.
# 11. M. Milakov, N. Gimelshein. Online normalizer calculation for softmax. arXiv:1805.02867.
# 12. The 989 TFLOP/s: S. Bekman. Machine learning engineering, compute/accelerator/README.md at commit 744d01e1,
#     github.com/stas00/ml-engineering. The 160 GB/s: DeepSeek-AI. DeepSeek-V3 technical report. arXiv:2412.19437.
# 13. NVIDIA. Megatron-LM, megatron/core/transformer/transformer_config.py at commit 002526d8, `cp_comm_type`.
#     github.com/NVIDIA/Megatron-LM.
# 14. PyTorch 2.13.0, torch/distributed/tensor/experimental/_context_parallel/, `_attention.py` and `_load_balancer.py`.
# 15. TorchTitan, torchtitan/distributed/context_parallel/api.py at commit 01f0b89c. github.com/pytorch/torchtitan.
# 16. Llama team. The Llama 3 herd of models. arXiv:2407.21783, 2024. Sections 3.2 and 3.3, tables 3 and 4.
# 17. Z. Wang, A. Cai, X. Xie, Z. Pan, Y. Guan, W. Chu, J. Wang, S. Li, J. Huang, C. Cai, Y. Hao, Y. Ding. WLB-LLM:
#     workload-balanced 4D parallelism for large language model training. OSDI 2025. arXiv:2503.17924. The abstract.
#
# Read next: [7], whose ring you can now follow line by line; and [5], for a network whose layers are cut in different ways,
# with a performance model that chooses the cuts.
