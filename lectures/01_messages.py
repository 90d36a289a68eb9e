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
# # Lecture 1: Messages
#
# A model that is too large or too slow for one device is trained by many processes at once. None of
# them can look into the memory of another. All that they know of each other arrives in messages.
# How do you send one, what does it cost, and why can a program that sends messages stand still for
# ever?
#
# **After this lecture you can**
#
# - write a program that runs as several *ranks*, and let them exchange arrays and objects;
# - read a *timeline* of such a program, and say who waits for whom;
# - say what a message of any size costs, from two numbers that you measure with a ping-pong;
# - explain why a program works with small messages and hangs with large ones, and fix it;
# - let a rank compute while its message travels, without touching a buffer too early;
# - name the nine collective calls, what each one costs, and which library carries them out on which
#   device;
# - start the same file on your laptop, on two machines, and under Slurm.

# %% [markdown] slideshow={"slide_type": "subslide"} tags=["prerequisites"]
# **What you need.** Python and NumPy, but no MPI and no cluster. Every program below runs on your
# laptop, on *Ringside*, the kit of this course: it starts real processes and simulates the network
# between them. A few cells repeat a program in PyTorch. You can read on without them.
#
# **How to read.** From time to time the notebook asks you for a prediction. Type it before you run
# the next cell. You learn most where your prediction and the result differ.
#
# **One notation.** In this course each sign means one thing. A *network* is one of cables and
# switches; a neural network is called a *model* here.
#
# | sign | meaning | unit | example |
# |---|---|---|---|
# | $p$ | world size: the number of ranks | | 4 processes: $p = 4$ |
# | $n$ | size of a message | bytes | ten numbers of 8 bytes: $n = 80$ |
# | $\alpha$ | latency: what every message costs, however short | seconds | 1 µs |
# | $\beta$ | what each byte costs: the *inverse* of the bandwidth | seconds per byte | 1 ns, that is 1 GB/s |

# %% [markdown] slideshow={"slide_type": "skip"} tags=["plan"]
# **What is taught when.** A meeting has 75 minutes, five of them free. Numbers in brackets are
# minutes.

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ringside
from ringside import guess, reveal
from ringside.course.lectures import gallery, puzzle, show, table
from ringside.jobs.calibrate.fit import line

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
LECTURES = Path.cwd()  # the folder of this notebook
os.chdir(tempfile.mkdtemp())  # the programs that you write below go here
machine = ringside.Machine.load("textbook")
alpha, beta = machine.alpha_s, machine.beta_s_per_byte
COMPUTE, COMMUNICATION, INK = "#0072b2", "#e69f00", "#1b1f24"
plt.rcParams["axes.spines.top"] = plt.rcParams["axes.spines.right"] = False

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 1 to 5.** Let the class vote on the first prompt before you show
# anything. Most guesses are far too low. Write the median on the board and come back to it in
# section 13. In section 2 some students expect the list to grow, because they think of threads. Ask
# where the list lives. In section 5 let a student tell the story of the timeline in words, from
# left to right, before you explain the colours.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["problem"]
# ## 1. The problem: 3.3 GB for your neighbour
#
# Take a GPT, a model that continues a text, with 1.7 billion parameters [1]. It goes through the
# whole course. It reads *tokens*, which are words or pieces of words. It knows 51,200 different
# ones, and a *sequence* has up to 2048 of them. In each of its 24 layers every token is a vector of
# 2304 numbers.
#
# After a training step your computer holds a *gradient*: one number for each parameter. A second
# computer has trained on other samples, and both want the mean. So it needs your gradient. In
# 16-bit numbers, of two bytes each, how much is that?

# %% slideshow={"slide_type": "fragment"}
layers, width, vocabulary, sequence = 24, 2304, 51_200, 2048
in_a_layer = 12 * width**2 + 13 * width  # four matrices, two layer norms, biases
parameters = layers * in_a_layer + (vocabulary + sequence) * width + 2 * width
gradient_bytes = 2 * parameters
print(f"{parameters:,} parameters, {gradient_bytes / 1e9:.1f} GB of gradients")
zaratan = ringside.Machine.load("zaratan")  # a model of a cluster, with its network

# %% [markdown] slideshow={"slide_type": "fragment"}
# Suppose that the two computers belong to a cluster whose network carries 12.5 GB each second. Then
# one large message with everything in it takes 0.26 s. You could also send the numbers one by one,
# each in a message of its own. The bytes are the same, and so is the wire. You haven't been told
# what a message costs by itself, so guess an order of magnitude.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(parameters / 1e9, 1) == 1.7 and round(gradient_bytes / 1e9, 1) == 3.3
assert layers * in_a_layer / parameters > 0.9 and layers == 24
assert np.isclose(1e-9 / zaratan.beta_s_per_byte, 12.5)
assert round(zaratan.alpha_s + gradient_bytes * zaratan.beta_s_per_byte, 2) == 0.26
assert (width, sequence, vocabulary) == (2304, 2048, 51_200)

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/one-by-one", "How long do the same bytes take, number by number?", unit="minutes")

# %% slideshow={"slide_type": "fragment"}
a_single_number_s = zaratan.alpha_s + 2 * zaratan.beta_s_per_byte
one_by_one_s = parameters * a_single_number_s
one_message_s = zaratan.alpha_s + gradient_bytes * zaratan.beta_s_per_byte
print(f"number by number {one_by_one_s / 60:.0f} minutes")
print(f"in one message   {one_message_s / 60:.4f} minutes")
reveal("01/one-by-one", one_by_one_s / 60)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes 74 minutes instead of a quarter of a second, for a single step of the training. You send
# the same bytes. What makes the difference is the number of *messages*: each one costs a little
# before its first byte moves. (The cell calls this `alpha_s`; section 4 explains the formula.) In
# section 13 you derive both times, and see where real training programs lie between them.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(one_by_one_s / 60) == 74

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2. Ranks share nothing
#
# **MPI**, the Message Passing Interface [2], is a standard of 1994 for such programs, and nearly
# everything since then uses its words. An MPI program runs as several processes. Each one is a
# **rank** and has a number: 0, 1, 2 and so on. How many there are is the **world size**. All ranks
# run the *same* program: four ranks on your laptop are four Python processes that execute the same
# file.
#
# A **communicator** is a group of ranks that can send messages to each other. Your function gets
# one as its first argument, `comm`. It knows who you are (`comm.rank`) and how many you are
# (`comm.size`). The first line of the next cell, `%%writefile`, writes the cell into a file, so that
# other processes can read the program.


# %% slideshow={"slide_type": "fragment"}
# %%writefile hello.py
def hello(comm):
    return f"I am rank {comm.rank} of {comm.size}"


# %% slideshow={"slide_type": "fragment"} tags=["ranks"]
ringside.run("hello.py:hello", world_size=4).values

# %% [markdown] slideshow={"slide_type": "fragment"}
# `ringside.run` starts four processes. Each one calls the function `hello` of the file `hello.py`,
# and you get back what they returned, rank 0's value first. The *network* between them is
# simulated. So it sees every message, and can tell you what went wrong.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Whose memory is it?** In the next program each rank appends its number to the list `seen`, which
# stands at the top of the file. Then each rank returns the list.

# %% slideshow={"slide_type": "fragment"}
# %%writefile seen.py
seen = []


def append(comm):
    seen.append(comm.rank)
    return seen


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/shared-list", "Four ranks run it. What does rank 3 return?",
      choices=["[0, 1, 2, 3]", "[3]", "[3, 2, 1, 0]", "not always the same"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
lists = ringside.run("seen.py:append", world_size=4).values
print(lists)
reveal("01/shared-list", str(lists[3]))

# %% [markdown] slideshow={"slide_type": "fragment"}
# There are four lists, one in each process. They have the same name and the same line of source
# code, and nothing else in common. **Ranks share nothing.** This is different from threads, which
# live in one process and see the same list. It is also why ranks may run on different computers:
# no program can tell the difference, except by its speed.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert lists == [[0], [1], [2], [3]]

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=10
# ## 3. A message
#
# What one rank needs from another has to be sent *and* received. Both ranks must act. A message
# between one sender and one receiver is called **point-to-point**.


# %% slideshow={"slide_type": "fragment"}
# %%writefile first.py
def first(comm):
    if comm.rank == 0:
        comm.send({"loss": 0.25}, dest=1)
        return "sent it"
    if comm.rank == 1:
        return comm.recv(source=0)
    return "had nothing to do"


# %% slideshow={"slide_type": "fragment"}
ringside.run("first.py:first", world_size=3).values

# %% [markdown] slideshow={"slide_type": "fragment"}
# With `if comm.rank` you give each rank its part. `send` names the receiver, as the *destination*;
# `recv` names the sender, as the *source*. Both calls **block**: the rank can do nothing else
# meanwhile. Rank 1 stands in `recv` until the message has arrived. Rank 0 stands in `send` as long,
# because this network doesn't take a message before its receiver asks for it. (Section 8 has
# libraries that do.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Arrays.** `send` with a small letter takes any Python object and packs it up, which takes time.
# For arrays there is `Send` with a capital letter. It moves the bytes of the array as they are. The
# receiver has to bring an array of the right size, in which the bytes will land. This array is its
# **buffer**.

# %% slideshow={"slide_type": "fragment"}
# %%writefile arrays.py
import numpy as np


def arrays(comm):
    if comm.rank == 0:
        weights = np.linspace(0, 1, 1000)
        comm.Send(weights, dest=1)
    else:
        buffer = np.empty(1000)
        comm.Recv(buffer, source=0)
        return f"{buffer[-1]:.1f} is the last of {buffer.nbytes} bytes"


# %% slideshow={"slide_type": "fragment"}
ringside.run("arrays.py:arrays", world_size=2).values[1]

# %% [markdown] slideshow={"slide_type": "slide"}
# **Tags.** A sender can write a number on a message, its **tag**, and a receiver can ask for a
# message with that number. For example, a program can send weights with tag 1 and losses with
# tag 2. Then a loss is never taken for a weight. By default a send has tag 0, and a receive
# takes any tag.
#
# In the next program the two ranks don't agree.


# %% slideshow={"slide_type": "fragment"}
# %%writefile tags.py
WEIGHT, LOSS = 1, 2


def tags(comm):
    if comm.rank == 0:
        comm.send(0.25, dest=1, tag=WEIGHT)
    else:
        return comm.recv(source=0, tag=LOSS)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/wrong-tag", "Rank 1 asks for tag 2, and a message with tag 1 comes. What happens?",
      choices=["it takes the message", "it waits for ever", "it gets None"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
result = ringside.run("tags.py:tags", world_size=2, check=False)
print(result.error)
waits = type(result.error).__name__ == "DeadlockError"
reveal("01/wrong-tag", "it waits for ever" if waits else "it takes the message")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The message does not match, so rank 1 goes on waiting. (`check=False` keeps the error in the
# result, where you can read it.) On a cluster nobody would tell you: both processes would stand
# still until their time is over. The simulated network knows when nothing can happen any more: each
# rank is *blocked*, and no message is **in flight**, which means that it has left and has not
# arrived. Then it says who waits for what, and in which line. You will meet this *doctor* again in
# section 7.

# %% [markdown] slideshow={"slide_type": "fragment"}
# A message is found by four things, together called its **envelope**: the sender, the receiver, the
# tag and the communicator. Messages with the same envelope arrive in the order in which they were
# sent. So two messages from rank 0 to rank 1 with the same tag never overtake each other. Messages
# from *different* senders may arrive in any order.

# %% [markdown] slideshow={"slide_type": "slide"} tags=["derivation"] meeting=1 minutes=10
# ## 4. What a message costs
#
# Follow a message of $n$ bytes. First the sender's library prepares it, the network card takes it,
# and the first byte runs through cables and switches. All of this takes the same time for a long
# message and for a short one. Call it the **latency** $\alpha$. Then the other bytes follow, one
# behind the other, as people leave through a door. Each one takes the same time $\beta$. When the
# last byte is through, the message has arrived:
#
# $$ T(n) = \alpha + n\,\beta . $$
#
# This is Hockney's cost model [3]. Its two numbers describe a network. $1/\beta$ is its
# **bandwidth**, in bytes per second.
#
# The machine of this lecture is called `textbook`. Its numbers are round: $\alpha = 1$ µs and
# $\beta = 1$ ns, so its bandwidth is 1 GB/s. For example, 1000 numbers of 8 bytes take $1 + 8 = 9$
# µs.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(alpha, 1e-6) and np.isclose(beta, 1e-9) and np.isclose(1e-9 / beta, 1)
assert np.isclose(alpha + 8 * 1000 * beta, 9e-6)

# %% slideshow={"slide_type": "subslide"} tags=["predict"]
guess("01/longer", "1000 bytes are 100 times as many as 10. How many times as long do they take?",
      unit="times")  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
short_s, long_s = alpha + 10 * beta, alpha + 1000 * beta
print(f"10 bytes: {short_s * 1e6:.2f} µs, 1000 bytes: {long_s * 1e6:.2f} µs")
reveal("01/longer", long_s / short_s)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes less than twice as long. For a short message you pay the latency and little else, for a
# long one the bytes. Both parts are equal at the size $n_{1/2} = \alpha/\beta$. It has this name
# because such a message gets half of the bandwidth. For example, with $\alpha = 3$ µs and 2 GB/s it
# is 6000 bytes.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(3e-6 * 2e9, 6000) and np.isclose(6000 / 2e9, 3e-6)
assert 1.9 < long_s / short_s < 2

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
n = np.logspace(0, 6, 200)
figure, axis = plt.subplots(figsize=(7.5, 3.6))
axis.loglog(n, (alpha + n * beta) * 1e6, color=INK, linewidth=2.5)
axis.loglog(n, np.full_like(n, alpha * 1e6), "--", color=COMMUNICATION)
axis.loglog(n, n * beta * 1e6, ":", color=COMPUTE, linewidth=2)
axis.text(1.3, 1.25, "latency: α", color="#8a5f00")
axis.text(3e4, 9, "bytes: n β", color=COMPUTE)
axis.text(2.2e4, 50, "α + n β", color=INK, fontsize=12, ha="right")
axis.axvline(alpha / beta, color="#8c959f", linewidth=0.8)
axis.text(alpha / beta * 1.15, 0.013, "α / β", color="#57606a")
axis.set(xlabel="size of the message (bytes)", ylabel="time (µs)", ylim=(0.008, 2000))
show(figure, "Time of a message on the textbook machine, on logarithmic axes: flat at one "
     "microsecond up to some hundred bytes, then rising in proportion to the size.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 1. The time of a message on `textbook`. Left of* α/β *you pay for messages, right of it you
# pay for bytes.*
#
# Check the units: $\beta$ is in seconds per byte, so $n\beta$ is a time.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=1 minutes=20
# ## 5. How to read a timeline
#
# Rank 0 computes for 5 µs, and sends the 1000 numbers of 8 bytes that it has found. Rank 1 receives
# them and computes for 3 µs. `ringside.compute` declares how long a computation takes, so that the
# example doesn't depend on your laptop, and names it for the picture. `args` is what each rank gets
# after `comm`: a copy of the array for each, into which rank 1 receives. The machine is `textbook`,
# here and wherever a cell names no other.

# %% slideshow={"slide_type": "fragment"}
# %%writefile handover.py
import numpy as np

import ringside


def handover(comm, x):
    if comm.rank == 0:
        ringside.compute(seconds=5e-6, phase="gradient")
        comm.Send(x, dest=1)
    else:
        comm.Recv(x, source=0)
        ringside.compute(seconds=3e-6, phase="update")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/handover", "After what time is rank 1 done?", unit="µs")

# %% slideshow={"slide_type": "fragment"}
x = np.arange(1000.0)
handover = ringside.run("handover.py:handover", world_size=2, args=(x,))

# %% slideshow={"slide_type": "fragment"}
handover.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("01/handover", handover.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 2. The timeline of the program: 5 µs of computing, 9 µs of message, 3 µs of computing.*
#
# A **timeline** has a row for each rank, and time runs from left to right. Read it like this:
#
# - A blue bar is a computation. An orange bar is a message on its way, as seen by that rank.
# - Grey is waiting. Rank 1 is inside `Recv` from the start, but for 5 µs no message comes.
# - An arrow is a message. It begins where the message leaves and ends where it has arrived.
# - The time at which the last rank is done is the **makespan**, here 17 µs.
# - The dark line is the **critical path**: the chain of computations and messages that makes the
#   makespan what it is. If you shorten anything on this line, the program gets faster. If you
#   shorten something else, it doesn't.
#
# The small bars at the right end sum up each row. Point at a bar to see which call it is, and in
# which line of the file. (The words above the picture speak of *exposed* communication; section 9
# explains that.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(handover.makespan_s, 17e-6)
assert np.isclose(handover.timeline.idle_s[1], 5e-6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Who waits for whom?** Look for grey, and follow the next arrow back to the rank that it comes
# from. Rank 1 waits for rank 0, which is still computing. Ask this question first when your own
# program is slow.
#
# None of this is the time of your laptop. The network keeps a *virtual* clock for the machine model
# that you choose. So simulated times are exact, and the same on each computer.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** PyTorch brings its own calls for messages, `torch.distributed`. The words
# differ a little: a group takes the place of the communicator, `src` and `dst` those of `source`
# and `dest`. Messages have no tags on GPUs. The array `x` arrives as a tensor.

# %% slideshow={"slide_type": "fragment"}
# %%writefile handover_torch.py
import torch.distributed as dist

import ringside


def handover(group, x):
    if dist.get_rank(group) == 0:
        ringside.compute(seconds=5e-6, phase="gradient")
        dist.send(x, dst=1, group=group)
    else:
        dist.recv(x, src=0, group=group)
        ringside.compute(seconds=3e-6, phase="update")


# %% slideshow={"slide_type": "fragment"} known={"01/handover": "the torch program repeats it"}
in_torch = ringside.run("handover_torch.py:handover", 2, args=(x,))
print(f"MPI {handover.makespan_s * 1e6:.0f} µs, torch {in_torch.makespan_s * 1e6:.0f} µs")
print(f"MPI {handover.sent_bytes()} bytes, torch {in_torch.sent_bytes()} bytes")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(in_torch.makespan_s, handover.makespan_s)
assert in_torch.sent_bytes() == handover.sent_bytes() == [8000, 0]

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 6 (twenty minutes).** Ask first: "You send me a letter, and I look at my
# clock when it comes. Can you tell how long it took?" The class finds that the clocks may differ,
# and then that a reply solves it. Do the arithmetic of the fit on the board with two points. The
# assignment asks for a fit through all points, with relative errors, so don't do that here. The
# last figure of the section is measured live, and it differs from the figure in print. Ask why.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6. Measure both numbers with a ping-pong
#
# Nobody tells you $\alpha$ and $\beta$ of a new cluster, so you measure them. But a message starts
# on one rank and ends on another, and their clocks may differ by more than the message takes. So
# send it back, which is called a **ping-pong**. One clock then sees the start and the end of a
# *round trip*, and half of that is the time of one message.


# %% slideshow={"slide_type": "fragment"}
# %%writefile ping.py
def there_and_back(comm, x):
    if comm.rank == 0:
        comm.Send(x, dest=1)
        comm.Recv(x, source=1)
    if comm.rank == 1:
        comm.Recv(x, source=0)
        comm.Send(x, dest=0)


# %% [markdown] slideshow={"slide_type": "fragment"}
# First try it on a machine whose numbers you don't know. The folded cell makes one up. (Don't look
# at it.)

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
mystery = machine.with_(name="mystery", alpha_s=3.5e-6, beta_s_per_byte=4e-10)

# %% slideshow={"slide_type": "fragment"}
sizes = np.array([8, 800, 8000, 80_000, 800_000, 8_000_000])
trips = [ringside.run("ping.py:there_and_back", 2, (np.zeros(nbytes // 8),), machine=mystery)
         for nbytes in sizes]  # fmt: skip
times_s = np.array([trip.makespan_s / 2 for trip in trips])
for nbytes, time_s in zip(sizes, times_s):
    print(f"{nbytes:>9,} bytes: {time_s * 1e6:8.2f} µs")

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/mystery", "What is the bandwidth of this machine?", unit="GB/s")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two sizes are enough, if the formula is right. The difference between two long messages is made of
# bytes only, since the latency is in both: this gives you $\beta$. What is then left of a short
# message is $\alpha$.

# %% slideshow={"slide_type": "fragment"}
found_beta = (times_s[5] - times_s[4]) / (sizes[5] - sizes[4])
found_alpha = times_s[0] - sizes[0] * found_beta
print(f"alpha {found_alpha * 1e6:.2f} µs, beta {found_beta * 1e9:.2f} ns per byte")

# %% slideshow={"slide_type": "fragment"}
true_alpha, true_beta = mystery.alpha_s, mystery.beta_s_per_byte
print(f"truth: alpha {true_alpha * 1e6:.2f} µs, beta {true_beta * 1e9:.2f} ns per byte")
predicted_s = found_alpha + sizes * found_beta
print(f"largest error at all six sizes: {np.abs(predicted_s / times_s - 1).max():.1%}")

# %% slideshow={"slide_type": "fragment"}
reveal("01/mystery", 1e-9 / found_beta)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Your two points give both numbers exactly, and predict the other sizes without an error. The
# simulated machine *is* the formula, so this tests your method and not the formula.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(found_alpha, mystery.alpha_s) and np.isclose(found_beta, mystery.beta_s_per_byte)
assert np.allclose(predicted_s, times_s, rtol=1e-6)

# %% [markdown] slideshow={"slide_type": "slide"}
# **Now on real processes.** The command below starts two processes of your computer, with a real
# MPI between them, and measures the same file with three lengths of `x`. You can type it in a
# terminal:
#
# ```
# ringside launch ping.py:there_and_back --site local -- --n 1 --n 1000 --n 1000000
# ```
#
# The next two cells do this for nine lengths, and draw what they find. What you see depends on your
# computer, and on what else it does at the moment. So this text quotes no number of it.


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
def measure(lengths):
    """Half a round trip in seconds, on two real processes here; None without an MPI."""
    asked = [word for length in lengths for word in ("--n", str(length))]
    command = [sys.executable, "-m", "ringside", "launch", "ping.py:there_and_back"]
    command += ["--site", "local", "--out", "real", "--", *asked]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        return None
    measured = json.loads(Path("real/run.json").read_text())["measurements"]
    return np.array([one["median_s"] / 2 for one in measured])


lengths = [1, 16, 128, 1024, 4096, 16_384, 65_536, 262_144, 524_288]
real_s, real_sizes = measure(lengths), 8 * np.array(lengths)

# %% slideshow={"slide_type": "fragment"} tags=["hide-input", "figure", "measured"]
figure, axis = plt.subplots(figsize=(7.5, 3.8))
axis.loglog(sizes, times_s * 1e6, "s", color=COMPUTE, label="mystery machine, simulated")
axis.loglog(n * 8, (found_alpha + n * 8 * found_beta) * 1e6, ":", color=COMPUTE)
if real_s is not None:
    fitted = line(list(zip(real_sizes, real_s)))
    bandwidth = 1e-9 / max(fitted.beta_s_per_byte, 1e-13)
    name = f"fit: α = {fitted.alpha_s * 1e6:.0f} µs, {bandwidth:.1f} GB/s"
    axis.loglog(real_sizes, real_s * 1e6, "o", color=INK, label="two processes of this computer")
    axis.loglog(n * 4, [fitted.predict_s(size) * 1e6 for size in n * 4], "-", label=name,
                color=COMMUNICATION)  # fmt: skip
axis.set(xlabel="size of the message (bytes)", ylabel="time (µs)")
axis.legend(frameon=False)
show(figure, "Half a round trip against the size of the message, on logarithmic axes: squares of the "
     "simulated machine on their line, and circles measured on this computer near theirs.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 3. Half a round trip: simulated (squares) and measured on the computer that built this
# page (circles). The orange line is fitted to all circles.*
#
# The curve has the shape of figure 1: flat on the left, rising on the right. But real measurements
# scatter, so the circles don't lie exactly on their line. Then it is a waste to use two points and
# forget the others, and the orange line uses all of them. In the assignment `a01_first_ranks` you
# write such a fit, and see that the obvious way to do it gives nonsense for $\alpha$.
# `ringside fit --site local` measures your computer and writes a machine model of it, which you can
# use in `ringside.run`.

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 7 to 9 (three quarters of an hour).** Play the deadlock with two students
# who hold a book each: "give yours to the other, and take the other's only when yours is gone". The
# eager threshold is then a table on which a small book may be put down. Classes stumble over two
# things. They think that `Send` returns when the message has *arrived* (it returns when the buffer
# may be used again), and that `Isend` is faster (it takes as long; the rank is free meanwhile). Let
# them find a timeline in which posting early gains nothing: there the rank has no other work.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=15
# ## 7. A program that hangs, and its doctor
#
# Two ranks want to exchange their arrays. Each sends its own to the other, and then receives.

# %% slideshow={"slide_type": "fragment"}
# %%writefile swap.py
import numpy as np


def swap(comm, num_elements):
    other = 1 - comm.rank
    mine = np.full(num_elements, float(comm.rank))
    theirs = np.empty(num_elements)
    comm.Send(mine, dest=other)
    comm.Recv(theirs, source=other)
    return float(theirs[0])


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/swap", "What happens?",
      choices=["they swap their arrays", "both wait for ever", "only one gets an array"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
swapped = ringside.run("swap.py:swap", world_size=2, args=(1000,), check=False)
print(swapped.error or swapped.values)
reveal("01/swap", "both wait for ever" if swapped.error else "they swap their arrays")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each rank stands in `Send` until the other one receives. Neither gets to its `Recv`. This is a
# **deadlock**: a circle of ranks in which each one waits for the next.
#
# Read the verdict from top to bottom. The first line says that nothing can happen any more. Then
# comes a line for each rank, with the call in which it stands and the line of your file. The last
# sentence names the circle and proposes a cure. (`mpiexec` starts ranks on a real MPI, and the "eager
# threshold" is the subject of the next section.) On a real cluster you get none of this. You see a
# job that prints nothing, and later that its time is over.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert type(swapped.error).__name__ == "DeadlockError" and "0 -> 1 -> 0" in str(swapped.error)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Break the circle.** There are three ways:
#
# - *Order.* Rank 0 sends first, and rank 1 receives first. The two messages then travel one after
#   the other.
# - *One call for both.* `comm.Sendrecv(mine, dest=other, recvbuf=theirs, source=other)` sends and
#   receives together, and MPI sees to it that the two don't wait for each other. Both messages
#   travel at the same time.
# - *Don't wait yet.* Section 9 shows calls that return at once.

# %% slideshow={"slide_type": "fragment"}
# %%writefile cured.py
import numpy as np


def swap(comm, num_elements):
    other = 1 - comm.rank
    mine = np.full(num_elements, float(comm.rank))
    theirs = np.empty(num_elements)
    comm.Sendrecv(mine, dest=other, recvbuf=theirs, source=other)
    return float(theirs[0])


# %% slideshow={"slide_type": "fragment"}
cured = ringside.run("cured.py:swap", world_size=2, args=(1000,))
print(cured.values, f"after {cured.makespan_s * 1e6:.0f} µs")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The exchange takes 9 µs, as long as a single message. A rank can send and receive at full speed at
# the same time: links are **full duplex**, like a road with a lane for each direction.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert cured.values == [1.0, 0.0] and np.isclose(cured.makespan_s, alpha + 8000 * beta)
assert round(cured.makespan_s * 1e6) == 9

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=5
# ## 8. Why small messages hide it
#
# If you try `swap.py` on a real MPI with a short array, it works. MPI libraries send short and long
# messages in two different ways:
#
# ```text
# eager: a short message
#
# sender                   receiver
#   | copy to a buffer
#   | ------ bytes ------> | kept there
#   | Send returns         |
#   |                      | calls Recv,
#   |                      | takes them
# ```
#
# ```text
# rendezvous: a long message
#
# sender                   receiver
#   | - "I have 8 MB" ---> |
#   | waits                |
#   |                      | calls Recv
#   | <---- "send it" ---- |
#   | ------ bytes ------> |
#   | Send returns         |
# ```
#
# An **eager** send copies the message into a buffer and returns at once, whether or not anybody
# receives it. A **rendezvous** send waits until the receiver is there, because nobody has room for
# a long message that may never be fetched. The size at which the library changes from one to the
# other is the **eager threshold**. It lies between some hundred bytes and some hundred kilobytes,
# it differs from library to library, and no standard promises it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Here is a **ring**: each rank sends to the next one, and the last rank sends to rank 0. Each rank
# sends first and receives afterwards. The machine sends messages of fewer than 4096 bytes eagerly.

# %% slideshow={"slide_type": "fragment"}
# %%writefile ring.py
import numpy as np


def ring(comm, num_elements):
    mine = np.full(num_elements, float(comm.rank))
    theirs = np.empty(num_elements)
    comm.Send(mine, dest=(comm.rank + 1) % comm.size)
    comm.Recv(theirs, source=(comm.rank - 1) % comm.size)
    return float(theirs[0])


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/eager", "Numbers have 8 bytes. How many of the lengths 100, 500, 512, 1000 pass?",
      choices=["none", "1", "2", "3", "4"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
buffering = machine.with_(eager_threshold_bytes=4096)
passed = 0
for length in (100, 500, 512, 1000):
    ring = ringside.run("ring.py:ring", 5, (length,), machine=buffering, check=False)
    print(f"{length:>5} numbers: {ring.values if ring.error is None else 'deadlock'}")
    passed += ring.error is None

# %% slideshow={"slide_type": "fragment"}
print(ring.error)

# %% slideshow={"slide_type": "fragment"}
reveal("01/eager", str(passed))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two of them pass, although the program is equally wrong in all four cases. 500 numbers are 4000
# bytes, and pass. 512 numbers are 4096 bytes, which is not fewer than the threshold, and all five
# ranks wait in a circle. So a program can pass all of your tests with a small model, and hang on
# the day when the model has grown.
#
# That is why `textbook` sends *everything* by rendezvous, and why the tests of all assignments do
# so, too. A program that is right there is right everywhere.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert passed == 2 and 500 * 8 == 4000 < buffering.eager_threshold_bytes == 512 * 8 == 4096
assert "0 -> 1 -> 2 -> 3 -> 4 -> 0" in str(ring.error)

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 9. Post now, wait later
#
# A blocking call keeps a rank busy with waiting. `Isend` and `Irecv` (the I stands for *immediate*)
# only **post** a message: they tell the library about it and return at once, with a **request**.
# Later the rank calls `request.Wait()`, which blocks until the message is done. Between the two
# calls the rank can do something else. For example, it computes what doesn't depend on the
# message. `MPI.Request.Waitall(requests)` waits for a list of them.
#
# In the next program rank 1 has 4 µs of work that needs nothing from rank 0, and 2 µs of work that
# does. The message has 32,000 bytes.

# %% slideshow={"slide_type": "fragment"}
# %%writefile late.py
import numpy as np

import ringside


def late(comm):
    buffer = np.empty(4000)
    if comm.rank == 0:
        comm.Send(np.zeros(4000), dest=1)
    else:
        ringside.compute(seconds=4e-6, phase="own work")
        comm.Recv(buffer, source=0)
        ringside.compute(seconds=2e-6, phase="with the message")


# %% slideshow={"slide_type": "fragment"}
late = ringside.run("late.py:late", world_size=2)
late.timeline

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 4. The receive is posted late. The message can leave only then, so rank 0 waits, too.*

# %% slideshow={"slide_type": "subslide"}
# %%writefile early.py
import numpy as np

import ringside


def early(comm):
    buffer = np.empty(4000)
    if comm.rank == 0:
        comm.Send(np.zeros(4000), dest=1)
    else:
        request = comm.Irecv(buffer, source=0)
        ringside.compute(seconds=4e-6, phase="own work")
        request.Wait()
        ringside.compute(seconds=2e-6, phase="with the message")


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/early", "The late program takes 39 µs. How long does this one take?", unit="µs")

# %% slideshow={"slide_type": "fragment"}
early = ringside.run("early.py:early", world_size=2)

# %% slideshow={"slide_type": "fragment"}
early.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("01/early", early.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 5. The receive is posted early. The message travels while rank 1 computes.*
#
# Now the program takes 35 µs, because the message travels while you compute. This is called
# **overlap**, and it is the most important trick of this course. Communication that is *not* hidden
# behind computing is called **exposed**: of rank 1's message 4 µs are hidden, and 29 µs are
# exposed. (The figure's first line names the worst rank. That is rank 0, which computes nothing, so
# its whole message is exposed.)

# %% slideshow={"slide_type": "skip"} tags=["checked"]
message_s = alpha + 32_000 * beta
assert np.isclose(message_s, 33e-6) and round(message_s * 1e6) - 4 == 29
assert np.isclose(late.makespan_s, 39e-6) and np.isclose(early.makespan_s, 35e-6)
assert early.sent_bytes() == [32_000, 0]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** `dist.isend` and `dist.irecv` return a work handle with `wait()`. It is the
# same program, and it takes the same time.

# %% slideshow={"slide_type": "fragment"}
# %%writefile early_torch.py
import torch
import torch.distributed as dist

import ringside


def early(group):
    buffer = torch.empty(4000, dtype=torch.float64)
    if dist.get_rank(group) == 0:
        dist.send(buffer, dst=1, group=group)
    else:
        work = dist.irecv(buffer, src=0, group=group)
        ringside.compute(seconds=4e-6, phase="own work")
        work.wait()
        ringside.compute(seconds=2e-6, phase="with the message")


# %% slideshow={"slide_type": "fragment"} known={"01/early": "the torch program repeats it"}
early_torch = ringside.run("early_torch.py:early", world_size=2)
print(f"MPI {early.makespan_s * 1e6:.0f} µs, torch {early_torch.makespan_s * 1e6:.0f} µs")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(early_torch.makespan_s, early.makespan_s)
assert early_torch.sent_bytes() == early.sent_bytes()

# %% [markdown] slideshow={"slide_type": "slide"}
# **Buffers that you must not touch.** Between `Isend` and `Wait` the message leaves at some moment
# that you don't know. Until then its bytes are *in your array*. The next program writes into the
# array too early.

# %% slideshow={"slide_type": "fragment"}
# %%writefile touched.py
import numpy as np


def touched(comm):
    buffer = np.zeros(1000)
    if comm.rank == 0:
        request = comm.Isend(buffer, dest=1)
        buffer[:] = 7
        request.Wait()
    else:
        comm.Recv(buffer, source=0)
        return float(buffer[0])


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/touched", "What does rank 1 receive on a real network?",
      choices=["zeros", "sevens", "it depends on the moment"])  # fmt: skip

# %% slideshow={"slide_type": "fragment"}
race = ringside.run("touched.py:touched", world_size=2, check=False)
print(*(textwrap.fill(line, 80) for line in str(race.error).splitlines()), sep="\n")
refused = race.error is not None
reveal("01/touched", "it depends on the moment" if refused else "zeros")

# %% [markdown] slideshow={"slide_type": "fragment"}
# It depends on when the library reads the array, so the result can be zeros, sevens, or a mixture.
# Such a mistake is called a **race**. It is worse than a deadlock, because the program ends and
# gives numbers. A real MPI says nothing. The simulated one compares the array before and after, and
# stops the program.
#
# The rule for both sides: between posting and waiting, **don't write to a buffer that is being
# sent, and don't even read one that is being received into**. In the second case the kit fills the
# buffer with `nan` until the message is there, so that whoever reads too early sees it.

# %% [markdown] slideshow={"slide_type": "fragment"}
# | call | what it does | when you may use the buffer |
# |---|---|---|
# | `comm.send(obj, dest)`, `comm.recv(source)` | one Python object | at once |
# | `comm.Send(array, dest)` | sends an array | when it returns |
# | `comm.Recv(array, source)` | receives into an array | when it returns |
# | `comm.Sendrecv(array, dest, recvbuf=array2, source=source)` | both together | when it returns |
# | `comm.Isend(array, dest)`, `comm.Irecv(array, source)` | post, and return | after `Wait` |
# | `MPI.Request.Waitall(requests)` | waits for all of a list | afterwards |

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, section 10 (half an hour).** Cover the last column of the table and let the class
# fill it in for four ranks on paper. Ask for the pairs of opposites (broadcast and reduce, scatter
# and gather, all-gather and reduce-scatter), then which two make an all-reduce. Stumbling block:
# "only rank 0 has the data, so only rank 0 calls broadcast". Sections 11 to 14 (half an hour) are
# reading; show one terminal live if you can.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=20
# ## 10. Calls that all ranks make together
#
# In training you need the same patterns of messages again and again: one rank has something for
# all, or all have a part of a sum. MPI has a call for each pattern. All ranks of a communicator
# make it together, so it is called a **collective**.


# %% slideshow={"slide_type": "fragment"}
# %%writefile together.py
def together(comm):
    mine = (comm.rank + 1) ** 2  # 1, 4, 9, 16
    return {
        "broadcast": comm.bcast(mine, root=2),
        "gather": comm.gather(mine, root=0),
        "all-gather": comm.allgather(mine),
        "reduce": comm.reduce(mine, root=0),
        "all-reduce": comm.allreduce(mine),
    }


# %% slideshow={"slide_type": "fragment"}
of_ranks = ringside.run("together.py:together", 4).values
for name in of_ranks[0]:
    print(f"{name:10}", [values[name] for values in of_ranks])

# %% [markdown] slideshow={"slide_type": "fragment"}
# Each line shows what rank 0, 1, 2 and 3 have after the call. Rank $r$ starts with $(r+1)^2$. The
# **root** is the rank that has the data, or that gets it. With
# *all-* in front, every rank gets the result. **Reduce** means to combine numbers, here to add them
# up. Each drawing below has a row for each of four ranks. On the left is what the rank holds before
# the call, on the right what it holds afterwards. The tens of a number tell which rank it comes
# from.

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
gallery()

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 6. The nine collectives, before and after, with values from a run on four ranks.*
#
# Some pairs are opposites. A broadcast takes one vector to all ranks, and a reduce brings the
# vectors of all ranks together in one. A scatter deals out parts, and a gather collects them. The
# part of one rank is called its **shard**: after a reduce-scatter each rank has its shard of the
# sum, and an all-gather makes whole vectors of shards. One after the other they are an all-reduce.
# Two are left. In an **all-to-all** each rank has a part for each other rank. A **barrier** moves
# no data: all wait until the last rank has come.

# %% [markdown] slideshow={"slide_type": "slide"}
# **Everybody must call.** In this program rank 0 has a value for all others, and calls broadcast.
# The others have nothing to give, and don't.


# %% slideshow={"slide_type": "fragment"}
# %%writefile alone.py
def share_weights(comm):
    weights = 0.5 if comm.rank == 0 else 0.0
    if comm.rank == 0:
        comm.bcast(weights, root=0)
    return weights


# %% slideshow={"slide_type": "fragment"}
alone = ringside.run("alone.py:share_weights", world_size=4, check=False)
print(alone.error)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A broadcast is not a shout that the others hear by themselves. They have to call it, too: the call
# is where they receive. A collective has no tag, so the *order* of the calls alone says which one
# meets which. All ranks must call the same collectives in the same order.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert "never call bcast" in str(alone.error) and alone.values == [None, 0.0, 0.0, 0.0]

# %% [markdown] slideshow={"slide_type": "slide"}
# **What a collective costs.** Inside, a collective is made of messages. Rank 0 wants to give
# 8000 bytes to seven other ranks. If it sends seven messages, one after the other, they take
# 63 µs. But a rank that has the data can help.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(7 * (alpha + 8000 * beta), 63e-6)

# %% slideshow={"slide_type": "fragment"}
# %%writefile share.py
import numpy as np


def share(comm):
    comm.Bcast(np.zeros(1000), root=0)


# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/broadcast", "How long does the broadcast to 8 ranks take on textbook?", unit="µs")

# %% slideshow={"slide_type": "fragment"}
broadcast = ringside.run("share.py:share", world_size=8)

# %% slideshow={"slide_type": "fragment"}
broadcast.timeline

# %% slideshow={"slide_type": "fragment"}
reveal("01/broadcast", broadcast.makespan_s * 1e6)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *Figure 7. A broadcast to eight ranks. In each round every rank that has the data gives it to one
# that doesn't.*
#
# After the first round two ranks have the data, then four, then eight. So $p$ ranks need
# $\log_2 p$ rounds, here three: 27 µs. This pattern is a **tree**.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert np.isclose(broadcast.makespan_s, 3 * (alpha + 8000 * beta))
assert round(broadcast.makespan_s * 1e6) == 27

# %% [markdown] slideshow={"slide_type": "subslide"} known={"01/broadcast": "one of nine, further down"}
# Each collective has a formula like that. In the next table $n$ is the size of the whole vector:
# what the root has, or what all parts together are. The last column is measured below, on 8 ranks
# with $n = 8000$ bytes.
#
# | collective | before | after | time on `textbook` | 8 ranks |
# |---|---|---|---|---|
# | barrier | | all have come | $\log_2 p\;\alpha$ | 3 µs |
# | broadcast | root has $n$ | all have $n$ | $\log_2 p\,(\alpha + n\beta)$ | 27 µs |
# | reduce | all have $n$ | root has the sum | $\log_2 p\,(\alpha + n\beta)$ | 27 µs |
# | scatter | root has $n$ | each has its part | $\alpha + \frac{p-1}{p}n\beta$ | 8 µs |
# | gather | each has a part | root has $n$ | $\alpha + \frac{p-1}{p}n\beta$ | 8 µs |
# | all-gather | each has a part | all have $n$ | $(p-1)\,\alpha + \frac{p-1}{p}n\beta$ | 14 µs |
# | reduce-scatter | all have $n$ | each has its part of the sum | $(p-1)\,\alpha + \frac{p-1}{p}n\beta$ | 14 µs |
# | all-reduce | all have $n$ | all have the sum | $2(p-1)\,\alpha + 2\frac{p-1}{p}n\beta$ | 28 µs |
# | all-to-all | each has a part for each | each has its parts | $(p-1)\,\alpha + \frac{p-1}{p}n\beta$ | 14 µs |

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile collectives.py
import numpy as np


def call(comm, name):
    whole, parts, part = np.zeros(8000, "u1"), np.zeros(8000, "u1"), np.zeros(1000, "u1")
    given = {
        "Barrier": (), "Bcast": (whole,), "Reduce": (whole, parts),
        "Scatter": (whole, part), "Gather": (part, whole), "Allgather": (part, whole),
        "Reduce_scatter_block": (whole, part), "Allreduce": (whole, parts),
        "Alltoall": (whole, parts),
    }  # fmt: skip
    getattr(comm, name)(*given[name])


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
p, n_bytes = 8, 8000
ring_s = (p - 1) * alpha + (p - 1) / p * n_bytes * beta
tree_s = np.log2(p) * (alpha + n_bytes * beta)
star_s = alpha + (p - 1) / p * n_bytes * beta
formula_s = {
    "Barrier": np.log2(p) * alpha, "Bcast": tree_s, "Reduce": tree_s, "Scatter": star_s,
    "Gather": star_s, "Allgather": ring_s, "Reduce_scatter_block": ring_s,
    "Allreduce": 2 * ring_s, "Alltoall": ring_s,
}  # fmt: skip
took_s = {name: ringside.run("collectives.py:call", p, (name,)).makespan_s for name in formula_s}

# %% slideshow={"slide_type": "fragment"} known={"01/broadcast": "one of nine, further down"}
for name, seconds in took_s.items():
    print(f"{name:20} {seconds * 1e6:4.0f} µs, formula {formula_s[name] * 1e6:4.0f} µs")

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert all(np.isclose(took_s[name], formula_s[name]) for name in formula_s)
assert [round(took_s[name] * 1e6) for name in ("Barrier", "Reduce", "Gather")] == [3, 27, 8]
assert round(took_s["Alltoall"] * 1e6) == 14 and round(took_s["Allreduce"] * 1e6) == 28

# %% [markdown] slideshow={"slide_type": "fragment"}
# Why does a scatter pay only one $\alpha$, although the root sends seven messages? Because it posts
# them together, as in section 9, and then their latencies overlap. Their bytes don't: each rank has
# one **port** to send and one to receive, and a port moves one message at a time. So in a gather,
# seven messages of 1000 bytes need 7 µs to get through the root's receiving port, however fast the
# others are. Many messages to one rank are called **incast**.
#
# An all-reduce costs as much as a reduce-scatter and an all-gather, because it is made of them
# here. A library may do it in another way for another size: [lecture 3](03_allreduce.ipynb)
# compares five.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 11. MPI, NCCL and gloo
#
# You now know the calls. Who carries them out?
#
# - **MPI** is a standard, a document [2]. MPICH and Open MPI are libraries that follow it. They
#   send between processes on CPUs, over any network of a cluster. With `mpi4py` you call them from
#   Python.
# - **NCCL** (say "nickel") is NVIDIA's library for collectives between GPUs [6]. It reads and
#   writes the memory of the GPUs. Inside a **node**, which is one computer of a cluster, the bytes
#   take NVLink, wires from GPU to GPU; between nodes they take the network card, to InfiniBand or
#   Ethernet. It does not start processes. Somebody else has to do that, and to tell the ranks where
#   to meet.
# - **gloo** is a library of collectives for CPUs over ordinary networks [7], made for machine
#   learning. It comes with PyTorch.
# - **torch.distributed** is none of these. It is the *interface* that you call, and it hands your
#   call to one of them, its **backend**.
#
# ```text
#   your program      dist.all_reduce(x)                      comm.Allreduce(x, y)
#   interface         torch.distributed                       mpi4py
#   library           NCCL          gloo        (MPI)         MPICH, Open MPI
#   moves bytes of    GPU memory    CPU memory                CPU memory
#   through           NVLink, InfiniBand, Ethernet, shared memory
#   started by        torchrun, srun                          mpiexec, srun
# ```

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Who can do what?** This table is in PyTorch's documentation [5]:

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
backends = table(LECTURES / "data" / "torch_backends.csv")
columns = [name for name in backends if name != "call"]
marks = {"yes": "yes", "no": "-", "build": "?"}
print(f"{'':15}" + "".join(f"{name.replace('_', ' '):>10}" for name in columns))
for row, call in enumerate(backends["call"]):
    print(f"{call:15}" + "".join(f"{marks[backends[name][row]]:>10}" for name in columns))

# %% [markdown] slideshow={"slide_type": "fragment"}
# - For tensors on GPUs use **NCCL** (or XCCL on Intel's GPUs). It knows nothing of tensors on CPUs.
# - For tensors on CPUs use **gloo**. It takes GPU tensors in most collectives, too, and copies them
#   through the CPU, which is slow. It can't `send` or `recv` them.
# - **MPI** as a backend is in the table, but not in the PyTorch that you install with pip:
#   `torch.distributed.is_mpi_available()` says no. You would have to build PyTorch yourself, with
#   an MPI. Whether it then takes GPU tensors depends on that MPI: this is the question mark.
#
# With `backend="cpu:gloo,cuda:nccl"` a program has both, and each tensor takes the one that fits.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
row_of = {call: row for row, call in enumerate(backends["call"])}
assert set(backends["nccl_cpu"]) == {"no"} and set(backends["nccl_gpu"]) == {"yes"}
assert set(backends["gloo_cpu"]) == {"yes"} and set(backends["xccl_gpu"]) == {"yes"}
assert [call for call, row in row_of.items() if backends["gloo_gpu"][row] == "no"] == [
    "send", "recv", "barrier",
]  # fmt: skip
assert backends["mpi_gpu"][row_of["all_reduce"]] == "build"

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Names.** One pattern, three spellings:
#
# | pattern | mpi4py | torch.distributed | NCCL |
# |---|---|---|---|
# | message | `Send`, `Recv` | `send`, `recv` | `ncclSend`, `ncclRecv` |
# | posted | `Isend`, `Irecv` | `isend`, `irecv` | every call, in its stream |
# | broadcast | `Bcast` | `broadcast` | `ncclBroadcast` |
# | reduce | `Reduce` | `reduce` | `ncclReduce` |
# | all-reduce | `Allreduce` | `all_reduce` | `ncclAllReduce` |
# | all-gather | `Allgather` | `all_gather_into_tensor` | `ncclAllGather` |
# | reduce-scatter | `Reduce_scatter_block` | `reduce_scatter_tensor` | `ncclReduceScatter` |
#
# One difference matters more than names. On a GPU, calls go into a **stream**: a queue of work that
# the GPU does in order, while the Python program runs on. So a collective of NCCL returns before it
# is done, even if it has no I in its name. When PyTorch waits for it, the *stream* waits, and not
# the Python program.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 12. What to type
#
# Until now you have run *functions* with `ringside.run`. A file that runs by itself is called a
# script. This one has five lines. It asks MPI for the communicator of all ranks, `COMM_WORLD`.
# (`comm.Get_rank()` and `comm.rank` are the same.)

# %% slideshow={"slide_type": "fragment"}
# %%writefile sum_of_ranks.py
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
total = comm.allreduce(rank)
print(f"rank {rank} of {size}: the ranks add up to {total}")

# %% slideshow={"slide_type": "fragment"}
simulated = "".join(ringside.run("sum_of_ranks.py", world_size=4).output)
print(simulated)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Now the same file on four real processes of your computer, started by `mpiexec`. The processes
# print when they like, so the next cell sorts the lines.

# %% slideshow={"slide_type": "fragment"}
there_is_mpi = shutil.which("mpiexec") is not None
printed = simulated
if there_is_mpi:
    command = ["mpiexec", "-n", "4", sys.executable, "sum_of_ranks.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
lines = re.findall(r"rank \d of \d: the ranks add up to \d", printed)
print("\n".join(sorted(lines)))

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert sorted(lines) == simulated.split("\n")[:4]

# %% [markdown] slideshow={"slide_type": "subslide"}
# **The same in torch.** Here the program first joins a group, and says which backend it wants. A
# collective changes the tensor that you give it.

# %% slideshow={"slide_type": "fragment"}
# %%writefile sum_of_ranks_torch.py
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
total = torch.tensor(rank)
dist.all_reduce(total)
print(f"rank {rank} of {size}: the ranks add up to {total.item()}")
dist.destroy_process_group()

# %% slideshow={"slide_type": "fragment"}
print("".join(ringside.run("sum_of_ranks_torch.py", world_size=4).output))

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert "".join(ringside.run("sum_of_ranks_torch.py", world_size=4).output) == simulated

# %% [markdown] slideshow={"slide_type": "slide"}
# **On a laptop.** Each of these lines starts four ranks:
#
# | you type | ranks are | use it to |
# |---|---|---|
# | `ringside.run("sum_of_ranks.py", 4)` in Python | simulated | look at timelines, count bytes |
# | `%%ranks 4` as first line of a cell, after `%load_ext ringside` | simulated | try something out |
# | `ringside run sum_of_ranks.py --ranks 4` in a terminal | simulated | the same, with an editor |
# | `mpiexec -n 4 python sum_of_ranks.py` | real, MPI | run for real |
# | `torchrun --nproc-per-node 4 sum_of_ranks_torch.py` | real, torch | run for real |
# | `ringside launch sum_of_ranks.py --site local` | real, MPI or torch | run for real, and keep a record |

# %% [markdown] slideshow={"slide_type": "subslide"}
# **On two machines** that can log in to each other, `node1` and `node2`, with the same files in the
# same folder:
#
# ```sh
# mpiexec -hosts node1,node2 -n 8 -ppn 4 python sum_of_ranks.py        # MPICH, on one of them
#
# torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d \
#          --rdzv-endpoint node1:29500 sum_of_ranks_torch.py           # on each of them
# ```
#
# `mpiexec` starts processes on the other machine by itself. `torchrun` doesn't: you type it on both,
# and the ranks meet at the address that you give (the *rendezvous*; the word is the same as in
# section 8, the meaning is not). Open MPI spells the first line `-host node1:4,node2:4`.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Under Slurm.** A cluster is shared. You describe a *job* to its scheduler, Slurm: how many nodes
# it needs, how many ranks on each, and for how long. Slurm starts it when
# there is room.
#
# ```sh
# sbatch --nodes=2 --ntasks-per-node=4 --time=00:05:00 \
#        --wrap "srun --mpi=pmi2 python sum_of_ranks.py"        # submit; prints the job's number
# squeue --me                                                  # where is it?
# ```
#
# Inside the job, `srun` starts the eight ranks. Details differ between clusters: the value of
# `--mpi`, partitions, accounts, modules, GPUs. The kit knows some clusters, and writes the job
# script for you:
#
# ```sh
# ringside site list                                                    # which ones it knows
# ringside launch sum_of_ranks.py --site zaratan --nodes 2 --dry-run    # shows the script
# ringside launch sum_of_ranks.py --site zaratan --nodes 2              # submits, and follows it
# ringside launch sum_of_ranks_torch.py --site zaratan --nodes 2 --gpus-per-node 4
# ```
#
# The last line asks for four GPUs on each node, and torch's ranks then use NCCL.
#
# The first thing to ask a new job is *where* its ranks are. Two ranks on one node talk through
# memory, two ranks on two nodes through the network. The last module of the assignment does that.

# %% [markdown] slideshow={"slide_type": "slide"} meeting=2 minutes=10
# ## 13. Back to 3.3 GB
#
# Now you can derive the first two numbers of this lecture. The model of the cluster `zaratan` [8]
# has $\alpha = 2.7$ µs between nodes and a bandwidth of 12.5 GB/s. One message with all of the
# gradients takes $\alpha + n\beta = 0.26$ s, and the latency in it is nothing. One message for each
# number pays the latency 1.7 billion times, and that makes 74 minutes.
#
# A real training program does neither. Its parameters are stored as *tensors*, arrays of one matrix
# or one vector each: 12 in each of the 24 layers, the two embeddings (tables with a vector for each
# token and each position), and a last layer norm of two vectors. That is 292 tensors. Suppose that
# you send each tensor as a message.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 12 * layers + 2 + 2 == 292 and layers == 24 and np.isclose(zaratan.alpha_s, 2.7e-6)
assert round(parameters / 1e9, 1) == 1.7 and round(one_by_one_s / 60) == 74

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/by-tensor", "How much longer does this take than one message?", unit="ms")

# %% slideshow={"slide_type": "fragment"}
tensors = 12 * layers + 2 + 2
by_tensor_s = tensors * zaratan.alpha_s + gradient_bytes * zaratan.beta_s_per_byte
print(f"{tensors} messages {by_tensor_s * 1e3:.1f} ms")
print(f"one message  {one_message_s * 1e3:.1f} ms")
reveal("01/by-tensor", (by_tensor_s - one_message_s) * 1e3)

# %% [markdown] slideshow={"slide_type": "fragment"}
# It takes less than a millisecond longer, on top of 264 ms. So 292 messages are as good as one, and
# they have an advantage: the first can leave as soon as *its* tensor is ready, while the other
# gradients are still being computed. This is the overlap of section 9, and
# [lecture 5](05_ddp.ipynb) builds it. Small tensors are put together into *buckets* there, since a
# bias of 2304 numbers is still much shorter than $n_{1/2}$.
#
# **Is a quarter of a second much?** Compare it with a step. One GPU that reaches 137 TFLOP/s (137
# million million operations each second), as in [1], computes a step with 8 sequences in 1.8 s. If
# your message is exposed, it makes the step longer by 15 %. If it travels while the rest is
# computed, it costs almost nothing. So the number that opened this lecture is not a bill yet: it
# depends on when you post the message. The course keeps a **ledger** for this model, a table with a
# line for each lecture from [lecture 2](02_sgd.ipynb) on: how long a step takes, and how much of
# its communication is exposed.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert 0 < by_tensor_s - one_message_s < 1e-3
assert round(one_message_s * 1e3) == 264
others = sequence / (6 * width) + vocabulary / (12 * layers * width)
per_token = 96 * layers * width**2 * (1 + others)
step_s = 8 * sequence * per_token / 137e12  # Narayanan et al. 2021: table 1, equation 3
assert round(32 * 137e12 / 1e15, 1) == 4.4  # all 32 GPUs of the table, in PFLOP/s
assert round(step_s, 1) == 1.8 and round(one_message_s / step_s, 2) == 0.15
assert 2 * width < 0.2 * zaratan.alpha_s / zaratan.beta_s_per_byte and width == 2304

# %% [markdown] slideshow={"slide_type": "notes"}
# **For teachers, sections 15 to 17 (half an hour, and homework).** The puzzles are for pairs, ten
# minutes each. Take the first one in class: everybody sees at once in the timeline that it is a
# staircase. Older versions of PyTorch's documentation (`2.3`) denied gloo's `reduce` and
# `all_gather` on GPUs, so students find both on the web. [More such statements](corrections.md)
# stand on a page of their own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Appendix: not taught
#
# For those who want to know more. Nothing that is taught needs it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 14. One node with several devices
#
# Inside one node there are shorter ways. They come in three kinds.
#
# **One process, several devices.** In TensorFlow you can say for each operation on which device it
# runs, with `with tf.device("/GPU:1"):`. In PyTorch you write `x.to("cuda:1")`. Copies between the
# devices are then made for you. There are no ranks, and only one Python program, which has to keep
# all devices busy. With two devices this works; with eight, the one program is often the
# bottleneck.
#
# **Several processes of one node.** `torch.multiprocessing` starts them, and each becomes a rank:
#
# ```python
# import torch.multiprocessing as mp
#
#
# def work(rank, size):
#     os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
#     dist.init_process_group("nccl", rank=rank, world_size=size)
#     ...
#
#
# mp.spawn(work, args=(4,), nprocs=4)
# ```
#
# It does what `torchrun` does, from inside your program, and on one node only. Its processes can
# also share a tensor through the node's memory, without a message. But a program that relies on
# this can't grow beyond the node.
#
# **Several nodes.** Ranks and messages, as in this lecture. They work on one node as well. So
# today nearly everybody takes one process for each GPU, in one node or in a thousand.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **What oneDNN and cuDNN are.** You find them listed next to MPI and NCCL, but they are libraries
# of fast *computations* on one device: matrix products, convolutions, normalisation. cuDNN [10] is
# NVIDIA's, for its GPUs. oneDNN [9] is for CPUs (and Intel's GPUs); it was called MKL-DNN before,
# and PyTorch still says `torch.backends.mkldnn`. Neither sends a message.
#
# | question | on a CPU | on an NVIDIA GPU |
# |---|---|---|
# | who computes a convolution? | oneDNN | cuDNN |
# | who multiplies matrices? | a library of linear algebra, such as MKL or OpenBLAS | cuBLAS |
# | who moves bytes between ranks? | gloo, MPI | NCCL |
# | who starts the ranks? | mpiexec, torchrun, srun | the same |

# %% [markdown] slideshow={"slide_type": "slide"} tags=["systems"]
# ## 15. How good are two numbers?
#
# Here are measurements between two nodes of a cloud, made with the OSU micro-benchmarks, the usual
# ping-pong of this field [4]. Take two of the points, 64 KiB (96.5 µs) and 1 MiB (265 µs); a KiB
# has 1024 bytes, and a MiB 1024 KiB. Draw the line through them, as in section 6.

# %% slideshow={"slide_type": "fragment"} tags=["predict"]
guess("01/cloud", "How long did a message of 4 MiB take in this cloud?", unit="µs")

# %% slideshow={"slide_type": "fragment"} tags=["systems"]
osu = table(LECTURES / "data" / "osu_gke_2_nodes.csv")
cloud_us = dict(zip(osu["nbytes"].tolist(), osu["latency_us"].tolist()))
beta_us = (cloud_us[2**20] - cloud_us[2**16]) / (2**20 - 2**16)
alpha_us = cloud_us[2**16] - 2**16 * beta_us
model_us = alpha_us + 2**22 * beta_us
print(f"alpha {alpha_us:.0f} µs, bandwidth {1e-3 / beta_us:.1f} GB/s")
print(f"4 MiB: model {model_us:.0f} µs, measured {cloud_us[2**22]:.0f} µs")
assert 0.05 < model_us / cloud_us[2**22] - 1 < 0.15
reveal("01/cloud", cloud_us[2**22])

# %% [markdown] slideshow={"slide_type": "fragment"}
# It took 720 µs, and your line says 12 % more. For a message that is four times as long as any that
# you used, this is good. And how long does a message of 8 bytes take? The line says 85 µs, and 19
# µs were measured. There it is off by a factor of more than four, because the library sends short
# messages in another way.

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert (
    64 * 1024 in cloud_us
    and round(cloud_us[64 * 1024], 1) == 96.5
    and round(cloud_us[2**20]) == 265
)
assert round(model_us) == 804 and round(cloud_us[2**22]) == 720
assert round(model_us / cloud_us[2**22] - 1, 2) == 0.12
assert round(alpha_us + 8 * beta_us) == 85 and round(cloud_us[8]) == 19
assert alpha_us / cloud_us[8] > 4

# %% slideshow={"slide_type": "slide"} tags=["hide-input"]
figure, axis = plt.subplots(figsize=(7.5, 3.8))
cloud_sizes = osu["nbytes"].astype(float)
axis.loglog(cloud_sizes, osu["latency_us"], "o", color=INK, label="measured")
axis.loglog(cloud_sizes, alpha_us + beta_us * cloud_sizes, "-", color=COMMUNICATION,
            label="line through 64 KiB and 1 MiB")  # fmt: skip
axis.annotate("another protocol", (2048, 39), (300, 250), arrowprops={"arrowstyle": "->"})
axis.set(xlabel="size of the message (bytes)", ylabel="time (µs)", ylim=(8, 2000))
axis.legend(frameon=False)
show(figure, "Measured time of a message between two nodes of a cloud, with a step between 1 KiB and "
     "2 KiB and another one at 64 KiB; a line through two long messages misses all short ones.")  # fmt: skip

# %% [markdown] slideshow={"slide_type": "fragment"} tags=["limits"]
# *Figure 8. Messages between two nodes of a cloud, and the line with two numbers.*
#
# Between 1 KiB and 2 KiB the time jumps to almost double. No straight line can jump. **What the
# formula leaves out**, with an example each:
#
# - *Protocols.* Eager and rendezvous have an $\alpha$ and a $\beta$ each, as you see here.
# - *Place.* Two ranks in one node are closer than two ranks in two nodes. Use two pairs of numbers.
# - *Sharing.* Four GPUs that send through one network card get a quarter of it each.
# - *The processor.* A rank that computes may not look after its messages meanwhile, so that less is
#   hidden than the timeline promises.
# - *Scatter.* The same message takes another time when you send it again.
#
# **What it gets right** is the shape: whether you pay for messages or for bytes, and which of two
# programs is faster. That is what you need when you design one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## At home
#
# Puzzles, questions with answers, and what you write yourself.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 16. Three puzzles
#
# Each puzzle is a program that works but misses a target. Change the program in the cell, run it,
# and run the cell below it: it tells you whether you have met the target, and draws the timeline.
# Give each one ten minutes before you open the solution.
#
# **Puzzle 1: the staircase.** Eight ranks stand in a line. Each one passes 1000 numbers to its
# right neighbour. The last one has no right neighbour, so there is no circle and no deadlock. But it
# takes 63 µs. *Target: 20 µs.*

# %% slideshow={"slide_type": "fragment"}
# %%writefile line.py
import numpy as np


def shift(comm):
    mine, theirs = np.full(1000, float(comm.rank)), np.zeros(1000)
    if comm.rank < comm.size - 1:
        comm.Send(mine, dest=comm.rank + 1)
    if comm.rank > 0:
        comm.Recv(theirs, source=comm.rank - 1)
    return theirs


# %% slideshow={"slide_type": "fragment"}
neighbours = [np.full(1000, float(max(rank - 1, 0))) for rank in range(8)]
staircase = puzzle(
    "line.py:shift", 8, expected=neighbours, at_most_us=20, at_most_messages=1,
    hint="Let every rank tell the library early what it expects to receive.",
)  # fmt: skip

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile line_solved.py
import numpy as np


def shift(comm):
    mine, theirs = np.full(1000, float(comm.rank)), np.zeros(1000)
    if comm.rank > 0:
        expected = comm.Irecv(theirs, source=comm.rank - 1)
    if comm.rank < comm.size - 1:
        comm.Send(mine, dest=comm.rank + 1)
    if comm.rank > 0:
        expected.Wait()
    return theirs


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
solved = puzzle("line_solved.py:shift", 8, expected=neighbours, at_most_us=20, at_most_messages=1)
assert solved.solved

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(solved.time_us) == 9 <= 20 < staircase.time_us
assert not staircase.solved and round(staircase.time_us) == 63

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 2: small change.** A model has 200 small tensors of 10 numbers. Rank 0 sends them to rank
# 1 one by one, which takes 216 µs. *Target: 20 µs, with the same tensors on rank 1.*

# %% slideshow={"slide_type": "fragment"}
# %%writefile small.py
import numpy as np


def send_all(comm, tensors):
    received = []
    for tensor in tensors:
        if comm.rank == 0:
            comm.Send(tensor, dest=1)
        else:
            buffer = np.empty(10)
            comm.Recv(buffer, source=0)
            received.append(buffer)
    return received


# %% slideshow={"slide_type": "fragment"}
tensors_of_10 = [np.full(10, float(k)) for k in range(200)]
small = puzzle(
    "small.py:send_all", 2, (tensors_of_10,), expected=[[], tensors_of_10], at_most_us=20,
    hint="np.concatenate makes one array of many, and np.split makes many of one.",
)  # fmt: skip

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile small_solved.py
import numpy as np


def send_all(comm, tensors):
    if comm.rank == 0:
        comm.Send(np.concatenate(tensors), dest=1)
        return []
    buffer = np.empty(10 * len(tensors))
    comm.Recv(buffer, source=0)
    return list(np.split(buffer, len(tensors)))


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
solved = puzzle(
    "small_solved.py:send_all", 2, (tensors_of_10,), expected=[[], tensors_of_10], at_most_us=20
)
assert solved.solved

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(solved.time_us) == 17 <= 20
assert not small.solved and round(small.time_us) == 216 and len(tensors_of_10) == 200

# %% [markdown] slideshow={"slide_type": "slide"}
# **Puzzle 3: the edge comes last.** Two ranks hold half of an image each. To compute the rows at
# its edge, a rank needs the edge of the other one: 16,000 bytes. The rows inside need nothing. The
# program exchanges edges, computes the inside (15 µs) and then the edge (2 µs). That takes 34 µs.
# *Target: 20 µs.*

# %% slideshow={"slide_type": "fragment"}
# %%writefile edges.py
import numpy as np

import ringside


def step(comm):
    other = 1 - comm.rank
    mine, theirs = np.full(2000, float(comm.rank)), np.empty(2000)
    comm.Sendrecv(mine, dest=other, recvbuf=theirs, source=other)
    ringside.compute(seconds=15e-6, phase="inside")
    ringside.compute(seconds=2e-6, phase="edge")
    return theirs


# %% slideshow={"slide_type": "fragment"}
other_edges = [np.full(2000, 1.0), np.full(2000, 0.0)]
edges = puzzle("edges.py:step", 2, expected=other_edges, at_most_us=20,
               hint="What can a rank do between posting and waiting?")  # fmt: skip

# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
# %%writefile edges_solved.py
import numpy as np
from mpi4py import MPI

import ringside


def step(comm):
    other = 1 - comm.rank
    mine, theirs = np.full(2000, float(comm.rank)), np.empty(2000)
    requests = [comm.Irecv(theirs, source=other), comm.Isend(mine, dest=other)]
    ringside.compute(seconds=15e-6, phase="inside")
    MPI.Request.Waitall(requests)
    ringside.compute(seconds=2e-6, phase="edge")
    return theirs


# %% slideshow={"slide_type": "skip"} tags=["hide-input"]
solved = puzzle("edges_solved.py:step", 2, expected=other_edges, at_most_us=20)
assert solved.solved

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert round(solved.time_us) == 19 <= 20
assert not edges.solved and round(edges.time_us) == 34
assert edges.sent_bytes == (16_000, 16_000)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# ## 17. Five questions
#
# Try each one before you open its answer. The cell below each answer checks it.
#
# **Question 1.** You read: "latency $\alpha$ = 5 µs, bandwidth $\beta$ = 25 GB/s; a message takes
# $\alpha + n\beta$." What is wrong? How long does a message of 1 MB take? From which size on does
# the latency make up less than a tenth of the time?
#
# <details><summary>Answer</summary>
#
# With $\beta$ in GB/s the second term is not a time. It must be $\alpha + n/\text{bandwidth}$, or
# $\beta = 1/(25\ \text{GB/s}) = 0.04$ ns per byte. 1 MB takes $5 + 40 = 45$ µs. The latency is less
# than a tenth of the whole if the bytes take more than nine times as long as the latency: more than
# 45 µs, so from 1.125 MB on.
# </details>

# %% slideshow={"slide_type": "skip"}
slide_alpha, slide_beta = 5e-6, 1 / 25e9
assert np.isclose(slide_beta, 0.04e-9) and np.isclose(slide_alpha + 1e6 * slide_beta, 45e-6)
smallest = 9 * slide_alpha / slide_beta
assert np.isclose(smallest, 1.125e6)
assert np.isclose(slide_alpha / (slide_alpha + smallest * slide_beta), 0.1)

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 2.** Two ranks exchange an array. Which of these four programs can hang: (a) both send
# first, (b) both receive first, (c) rank 0 sends first and rank 1 receives first, (d) both post the
# receive with `Irecv`, send, and wait? Which of them depend on the eager threshold? How long do (c)
# and (d) take, with 8000 bytes on `textbook`?
#
# <details><summary>Answer</summary>
#
# (a) hangs with rendezvous and passes with eager. (b) hangs always, since nobody ever sends. (c) and
# (d) never hang. (c) takes two messages one after the other, 18 µs. In (d) both messages travel
# at the same time, 9 µs.
# </details>

# %% slideshow={"slide_type": "skip"}
# %%writefile orders.py
import numpy as np


def exchange(comm, letters):
    """Do what each letter of this rank's word says: Send, Receive, post I, Wait."""
    other, mine, theirs = 1 - comm.rank, np.zeros(1000), np.empty(1000)
    for letter in letters[comm.rank]:
        if letter == "S":
            comm.Send(mine, dest=other)
        elif letter == "R":
            comm.Recv(theirs, source=other)
        elif letter == "I":
            posted = comm.Irecv(theirs, source=other)
        else:
            posted.Wait()


# %% slideshow={"slide_type": "skip"} tags=["checked"]
orders = {"a": ("SR", "SR"), "b": ("RS", "RS"), "c": ("SR", "RS"), "d": ("ISW", "ISW")}
times_us = {}
for name, order in orders.items():
    for threshold in (0, 10_000):
        on = machine.with_(eager_threshold_bytes=threshold)
        run = ringside.run("orders.py:exchange", 2, (order,), machine=on, check=False)
        times_us[name, threshold] = None if run.error else round(run.makespan_s * 1e6)
assert times_us["a", 0] is None and times_us["a", 10_000] == 9
assert times_us["b", 0] is times_us["b", 10_000] is None
assert times_us["c", 0] == 18 and times_us["d", 0] == 9

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 3.** Rank 1 passes 8000 bytes on from rank 0 to rank 2. How long does it take on
# `textbook`? A colleague cuts the array into four pieces, and receives and sends piece by piece with
# `Recv` and `Send`. How long does it take now? What has to change so that the pieces pay off?
#
# <details><summary>Answer</summary>
#
# In one piece it takes two messages, 18 µs. With blocking calls rank 1 is either receiving or
# sending, never both. So it takes eight messages of 2000 bytes, 3 µs each: 24 µs. The pieces cost
# latency and gain nothing. If rank 1 posts the receive of the next piece *before* it sends this one
# on, one piece arrives while another one leaves. Then the whole takes five messages: 15 µs.
# </details>

# %% slideshow={"slide_type": "skip"}
# %%writefile relay.py
import numpy as np


def relay(comm, pieces, posted_early):
    size, last = 8000 // pieces, comm.size - 1
    buffers = [np.zeros(size, np.uint8) for _ in range(pieces)]
    requests = []
    if comm.rank > 0 and posted_early:
        requests = [comm.Irecv(buffer, source=comm.rank - 1) for buffer in buffers]
    for k, buffer in enumerate(buffers):
        if requests:
            requests[k].Wait()
        elif comm.rank > 0:
            comm.Recv(buffer, source=comm.rank - 1)
        if comm.rank < last:
            comm.Send(buffer, dest=comm.rank + 1)


# %% slideshow={"slide_type": "skip"}
def relay_us(pieces, posted_early):
    """Makespan of the relay over three ranks in µs."""
    return round(ringside.run("relay.py:relay", 3, (pieces, posted_early)).makespan_s * 1e6)


assert relay_us(1, False) == 18 and relay_us(4, False) == 24 and relay_us(4, True) == 15

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 4.** Your program trains on GPUs with `init_process_group("gloo")`. `all_reduce` works.
# Then you add `dist.send` of a GPU tensor, and it raises an error. Why? Name two cures. Why was the
# `all_reduce` no good idea either?
#
# <details><summary>Answer</summary>
#
# gloo offers `all_reduce` for GPU tensors, and no `send`. Use NCCL, which offers both, or copy the
# tensor to the CPU before you send it. gloo's `all_reduce` makes these copies behind your back: the
# bytes go from the GPU to the CPU, over the network, and back, instead of from GPU to GPU.
# </details>

# %% slideshow={"slide_type": "skip"} tags=["checked"]
assert backends["gloo_gpu"][row_of["all_reduce"]] == "yes"
assert backends["gloo_gpu"][row_of["send"]] == "no"
assert backends["nccl_gpu"][row_of["send"]] == backends["nccl_gpu"][row_of["all_reduce"]] == "yes"

# %% [markdown] slideshow={"slide_type": "slide"} tags=["question"]
# **Question 5.** On `zaratan` a message between nodes has $\alpha = 2.7$ µs and 12.5 GB/s, inside a
# node 0.6 µs and 100 GB/s. What is $n_{1/2}$ in both cases? Rank 0 needs 1 kB from each of 16 other
# ranks. Is it better to place all of them in one node, if that were possible, or to send everything
# in one message? (Take the messages one after the other.)
#
# <details><summary>Answer</summary>
#
# $n_{1/2}$ is 33,750 bytes between nodes and 60,000 bytes inside. 1 kB is far below both, so the
# latency counts. 16 messages inside a node take 9.8 µs. Between nodes they take 44.5 µs, and one
# message with all 16 kB takes 4.0 µs. Fewer messages win, even over the slower link. But one message
# needs one sender, so somebody has to collect the pieces first.
# </details>

# %% slideshow={"slide_type": "skip"}
inside = (zaratan.intra_alpha_s, zaratan.intra_beta_s_per_byte)
between = (zaratan.alpha_s, zaratan.beta_s_per_byte)
assert np.isclose(between[0], 2.7e-6) and np.isclose(1e-9 / between[1], 12.5)
assert np.isclose(inside[0], 0.6e-6) and np.isclose(1e-9 / inside[1], 100)
assert round(between[0] / between[1]) == 33_750 and round(inside[0] / inside[1]) == 60_000
assert round(16 * (inside[0] + 1000 * inside[1]) * 1e6, 1) == 9.8
assert round(16 * (between[0] + 1000 * between[1]) * 1e6, 1) == 44.5
assert round((between[0] + 16_000 * between[1]) * 1e6, 1) == 4.0

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 18. Your turn
#
# The assignment `a01_first_ranks` has four modules: `ping` measures a message with the rank's own
# clock, `fit` finds $\alpha$ and $\beta$ in many measurements, `mend` cures three programs that hang
# or race, and `where` asks each rank where it is. Then you run your first job. When you have written
# a module, the next cell looks at it. Until then it says so.

# %% slideshow={"slide_type": "fragment"} tags=["hide-input"]
FOLDER = LECTURES.parent / "assignments" / "a01_first_ranks"
arguments = {"ping": ("ping", (1000, 2)), "mend": ("exchange", (np.zeros(1000),))}
for module, (function, args) in arguments.items():
    file = FOLDER / f"{module}.py"
    run = file.is_file() and ringside.run(f"{file}:{function}", 2, args, check=False)
    if not run or getattr(run.error, "type_name", "") == "NotImplementedError":
        print(f"{module}.py: not written yet")
    elif run.error:
        print(f"{module}.py: not right yet; `ringside check {module}` says why")
    else:
        print(f"{module}.py: it runs, {run.makespan_s * 1e6:.1f} µs; now `ringside check {module}`")

# %% [markdown] slideshow={"slide_type": "slide"} tags=["reading"]
# ## References
#
# 1. D. Narayanan, M. Shoeybi, J. Casper, P. LeGresley, M. Patwary, V. Korthikanti, D. Vainbrand,
#    P. Kashinkunti, J. Bernauer, B. Catanzaro, A. Phanishayee, M. Zaharia. Efficient large-scale
#    language model training on GPU clusters using Megatron-LM. SC '21. Table 1, first row.
# 2. Message Passing Interface Forum. MPI: A Message-Passing Interface Standard, version 4.1, 2023.
#    mpi-forum.org
# 3. R. W. Hockney. The communication challenge for MPP: Intel Paragon and Meiko CS-2. Parallel
#    Computing 20(3), 389–398, 1994.
# 4. `data/osu_gke_2_nodes.csv`: OSU Micro-Benchmarks 5.8 on two c3-standard-176 nodes of Google
#    Cloud, published by converged-computing on GitHub.
# 5. `data/torch_backends.csv`: PyTorch, `docs/source/distributed.md`, section "Backends".
#    github.com/pytorch/pytorch
# 6. NVIDIA. NCCL user guide. docs.nvidia.com/deeplearning/nccl
# 7. Gloo. github.com/pytorch/gloo
# 8. `cluster/machines/zaratan.toml`, with the source of each number. Nothing in it was measured on
#    Zaratan.
# 9. oneDNN, oneAPI Deep Neural Network Library. github.com/uxlfoundation/oneDNN
# 10. S. Chetlur, C. Woolley, P. Vandermersch, J. Cohen, J. Tran, B. Catanzaro, E. Shelhamer. cuDNN:
#     Efficient primitives for deep learning. arXiv:1410.0759, 2014.
#
# Read next: W. Gropp, E. Lusk, A. Skjellum, Using MPI, third edition, MIT Press, 2014, chapters 2 to
# 4; and [6] on streams.
