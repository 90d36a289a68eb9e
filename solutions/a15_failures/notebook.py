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
# is dead, hangs or is slow stands in `docs/student.md`, "Ranks that die".
#
# You work in this notebook: each `%%module` cell is one module. Run the next cell first: it makes
# `%%module` known. Or edit the files: a cell that you leave as it is gives way to its file.

# %%
import numpy as np

import ringside
from ringside import Failures, Hang, Kill, Slow, guess, reveal

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
# ## 3. Who hangs, who is slow?
#
# A dead rank is found by its silence. A rank that hangs is alive, and so are all that wait for it.
# The program below trains on a grid of 2 x 4: the ranks of a row add up activations, those of a
# column their gradients.

# %%
# %%writefile grid.py
import numpy as np

import ringside


def train(comm, num_steps):
    rows = comm.Split(comm.rank // 4, comm.rank)
    columns = comm.Split(comm.rank % 4, comm.rank)
    x, total = np.ones(256, np.float32), np.empty(256, np.float32)
    for _ in range(num_steps):
        ringside.compute(seconds=1e-3, phase="forward")
        rows.Allreduce(x, total)
        ringside.compute(seconds=2e-3, phase="backward")
        columns.Allreduce(total, x)


# %% tags=["predict"]
guess(
    "a15/waiting",
    "Rank 5 of eight hangs in its forward pass. How many of the other seven wait in a collective "
    "to which rank 5 belongs?",
    unit="ranks",
)

# %%
hung = ringside.run("grid.py:train", 8, (5,), failures=Failures(Hang(5, at_s=9.5e-3)), check=False)
recorder = hung.recorder(last=4)
for rank, records in recorder.dumps.items():
    last = records[-1]
    ranks = recorder.groups[last["group"]]
    print(f"rank {rank}: {last['op']} {last['seq']} of ranks {ranks}, {last['state']}")
lasts = [records[-1] for records in recorder.dumps.values() if records[-1]["state"] == "started"]
waiting = sum(5 in recorder.groups[last["group"]] for last in lasts)

# %%
reveal("a15/waiting", waiting)

# %% [markdown]
# **Think** before you write: three of these seven wait in a collective without rank 5. For whom?
# What tells you that rank 5 is the one to look at, and not one of those it keeps waiting?

# %%
# {{module recorder}}

# %%
# {{check recorder}}

# %% [markdown]
# **Run.** The same training run with a rank that computes 1.34 times as long. First the time of the
# seven others.

# %% tags=["predict"]
guess(
    "a15/idle",
    "Rank 5 computes 1.34 times as long as the others. Which share of the run is rank 0 idle?",
    unit="%",
)

# %%
slow = ringside.run("grid.py:train", 8, (40,), failures=Failures(Slow(5, 1.34)))

# %%
reveal("a15/idle", 100 * slow.timeline.idle_s[0] / slow.makespan_s)

# %% [markdown]
# Now the time that each rank spends in a collective, from its call to the end, and your diagnosis.

# %% tags=["predict"]
guess(
    "a15/shortest",
    "Which rank's collectives are the shortest?",
    choices=["those of the slow rank", "those of its row and column", "all are alike"],
)

# %%
import recorder as reader

recorder = slow.recorder()
for rank, records in recorder.dumps.items():
    waits = [record["completed_ps"] - record["created_ps"] for record in records]
    print(f"rank {rank}: {sum(waits) / len(waits) / 1e9:.2f} ms on average")
print(reader.diagnose(recorder.dumps, recorder.groups))
print(reader.diagnose(hung.recorder().dumps, hung.recorder().groups))

# %%
reveal("a15/shortest", "those of the slow rank")

# %% [markdown]
# **Explain.** Why? And if the clocks of two ranks differ by a millisecond: is the rank that hangs
# still found, and the slow one?
