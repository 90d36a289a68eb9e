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
# # Failures: go on when somebody is gone
#
# A run on 16,384 GPUs was stopped 419 times in 54 days. The usual answer is a checkpoint: all
# ranks end, and a new job begins where the last copy was written. In this assignment the ranks
# that are left go on instead, and the parameters that come out are those that nobody's death
# would have changed.
#
# On real machines you can't choose when a rank dies, and the moments in which a wrong program
# fails are microseconds wide. Here the network chooses the moment, and chooses it again when you
# try again.

# %%
# {{plan}}

# %% [markdown]
# All that the hidden suite asks stands in the module's docstring. The tests lie in `checks/`,
# where you can read them; the hidden suite asks the same of other cases. In `given/` is
# `model.py`, a linear model whose gradient is a sum over samples. What each call does when a rank
# is dead stands in `docs/student.md`, "Ranks that die".
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import numpy as np

import ringside
from ringside import Failures, Kill, guess, reveal

# %load_ext ringside

BATCH, STEPS, LR = 12, 10, 0.1
samples = np.random.default_rng(0).standard_normal((STEPS * BATCH, 6))
arguments = (np.zeros(5), samples, BATCH, STEPS, LR)

# %% [markdown]
# ## 1. Who learns of a death?
#
# The program below adds up one number of each rank by the library's all-reduce. Rank 2 dies in
# its second operation: it has given its number, and waits for the sum.

# %%
# %%writefile summed.py
import numpy as np
from mpi4py import MPI


def summed(comm):
    total = np.zeros(1)
    try:
        comm.Allreduce(np.ones(1), total)
    except MPI.Exception as error:
        return "dead" if error.Get_error_class() == MPI.ERR_PROC_FAILED else "other"
    return float(total[0])


# %% tags=["predict"]
guess(
    "a15/who",
    "Rank 2 of four dies when it has given its number to the all-reduce. What do the other three "
    "get?",
    choices=["all the sum", "all an error", "some the sum, some an error"],
)

# %%
result = ringside.run("summed.py:summed", 4, failures=Failures(Kill(2, op=2)))
print(result.values)

# %%
reveal("a15/who", "some the sum, some an error")

# %% [markdown]
# **Explain.** A rank that has the sum could take the step, and a rank that has the error can't.
# What becomes of the parameters, if each rank does what it can? And what does a rank that has the
# sum know about the others?

# %% [markdown]
# ## 2. Train on with those who are left
#
# **Think** before you write: what must be true of all ranks that are left before one of them may
# change its parameters? Which call tells you? And which samples does the step need that a dead
# rank had?

# %%
# {{module elastic}}

# %%
# {{check elastic}}

# %% [markdown]
# **Run.** The same training run, with nobody's death and with two. The largest difference of the
# parameters, and the virtual time.

# %%
whole = ringside.run("elastic.py:train", 4, arguments)
two = Failures(Kill(1, op=20), Kill(3, at_s=1.06e-3))
left = ringside.run("elastic.py:train", 4, arguments, failures=two)
print(f"difference {np.abs(left.values[0] - whole.values[0]).max():.1e}")
print(f"{whole.makespan_s * 1e6:.0f} µs, and with two deaths {left.makespan_s * 1e6:.0f} µs")

# %% [markdown]
# **Explain.** Nearly all of the time goes into one thing. Which, and which number of the machine
# says how long it takes? What does a step cost more from then on, with two ranks in the place of
# four? When would you rather wait for a new machine than go on with fewer ranks?

# %% [markdown]
# ## 3. A checkpoint that is whole
#
# Sometimes nobody can go on: the job ends, and another one begins later, perhaps on fewer ranks.
# What it needs must lie where no rank's death can take it. A `ringside.Store` is such a place;
# `docs/student.md`, "Checkpoints that outlive the ranks", says what it does.
#
# In the program below each rank writes its piece of step 4, and later writes the piece of step 8
# over it. Rank 2 is killed in its second `put`.

# %%
# %%writefile overwrite.py
import numpy as np

import ringside


def overwrite(comm):
    store = ringside.Store("pieces")
    for step in (4, 8):
        store.put(f"piece {comm.Get_rank()}", np.full(3, step))
        comm.Barrier()


# %% tags=["predict"]
guess(
    "a15/mixed",
    "Rank 2 of four is killed in its second put. How many of the four pieces in the store are of "
    "step 8 then?",
    unit="pieces",
)

# %%
killed = ringside.run("overwrite.py:overwrite", 4, failures=Failures(Kill(2, op=4)), check=False)
print(killed.deaths[0].told)
store = ringside.Store("pieces")
steps = [int(store.get(name)[0]) for name in store.names()]
print(steps)

# %%
reveal("a15/mixed", steps.count(8))

# %% [markdown]
# **Explain.** Each `put` was whole. Is the checkpoint? What would a program train from that loads
# these four pieces, and would anybody see it?
#
# **Think** before you write: which single `put` could make a new checkpoint count, and what must
# be true of all other ranks before it? What may be removed after it, and what not before?

# %%
# {{module checkpoint}}

# %%
# {{check checkpoint}}

# %% [markdown]
# **Run.** A vector of which each element grows by one in a step, saved now and then. Rank 2 of
# four is killed on the way, and three ranks go on.

# %%
# %%writefile training.py
import numpy as np
from checkpoint import load, save

import ringside

LENGTH = 11


def train(comm, folder, num_steps):
    store = ringside.Store(folder)
    s = -(-LENGTH // comm.Get_size())
    mine = np.zeros(LENGTH)[comm.Get_rank() * s : (comm.Get_rank() + 1) * s]
    first, shard = load(comm, store, LENGTH) or (0, mine)
    for step in range(first + 1, num_steps + 1):
        shard = shard + 1
        if step % 4 == 0:
            save(comm, store, step, shard, LENGTH)
    return first, shard


# %%
import shutil

shutil.rmtree("run1", ignore_errors=True)
four = Failures(Kill(2, at_s=2.5e-3))
killed = ringside.run("training.py:train", 4, ("run1", 12), failures=four, check=False)
print(killed.deaths[0].told)
print(ringside.Store("run1").names())

# %% tags=["predict"]
guess(
    "a15/twice",
    "Rank 2 was killed while it put its piece of step 8. Three ranks go on now, to step 12. How "
    "many of the steps that they compute had been computed before?",
    unit="steps",
)

# %%
three = ringside.run("training.py:train", 3, ("run1", 12))
first = three.values[0][0]
print(f"three ranks went on after step {first}; at the end:", three.values)
print(ringside.Store("run1").names())

# %%
reveal("a15/twice", 8 - first)

# %% [markdown]
# **Explain.** What lay in the store after the death, and what of it counted? What is left at the
# end? What would change if you saved at every step, and what would it cost?
