"""The first page of the course: what you will be able to do, the map, the paths, five minutes.

It is put together from what stands in the tree. What isn't there is neither listed nor linked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ringside.course.lectures import course_map, paths_page, terms
from ringside.course.lectures.course_map import Unit
from ringside.course.lectures.handout import Handout
from ringside.course.lectures.moving_ring import moving_ring
from ringside.course.term import Term

LEAD = """# Parallel deep learning

**You write the parallel scheme. Ringside is the network under it.** It counts what every rank
sends, tells you who waits for whom when nothing moves, and says how long the run would take on a
cluster. All of it works on your laptop, without a GPU.

[Never used MPI?](#if-you-have-never-used-mpi) ·
[Run it in five minutes](#run-this-in-five-minutes) ·
[Deciding about a course?](#if-you-are-deciding-about-a-course)
"""
AFRAID = """## If you have never used MPI

You need Python and NumPy. The first lectures start from nothing: what a rank is, how a message
goes from one to another, and why a program can hang. You can't break anything. When all ranks wait
for each other, you don't sit before a silent terminal. You read this:

```text
DeadlockError: all 4 ranks are blocked and no message is in flight.
  rank 0  Ssend(dest=1, tag=0)  ring.py:10
  rank 1  Ssend(dest=2, tag=0)  ring.py:10
  rank 2  Ssend(dest=3, tag=0)  ring.py:10
  rank 3  Ssend(dest=0, tag=0)  ring.py:10
  The waits form the cycle 0 -> 1 -> 2 -> 3 -> 0. Let one rank receive first, or use Sendrecv.
```
"""
PROGRAM = """import numpy as np

import ringside


def step(comm, num_samples, num_parameters):
    share = num_samples / comm.size
    ringside.compute(num_flops=6 * num_parameters * share)
    mine = np.ones(num_parameters, np.float32)
    total = np.empty_like(mine)
    comm.Allreduce(mine, total)
    return float(total[0])
"""
FIVE_MINUTES = f"""## Run this in five minutes

In the folder of the kit, install it once, with Python 3.11 or newer on Linux, macOS or WSL2:

```sh
make install
source .venv/bin/activate
```

Save this as `step.py`. Each rank works through its share of the samples. Then all ranks add up
their gradients.

```python
{PROGRAM}```

Now run it on 8 simulated ranks:

```sh
ringside run step.py:step --ranks 8 --svg step.svg -- --num_samples 8000 --num_parameters 4000
```

It takes 66 µs of virtual time: 24 µs of computing and 42 µs of messages. Open `step.svg` to see
each rank. Then try 1, 2, 4, 16 and 32 ranks. More ranks help at first, and then they hurt. Where
does it turn, and why?
"""
PROFESSOR = """## If you are deciding about a course

- **Students write the schemes themselves**, 15 to 40 lines each, on NumPy with mpi4py and on
  PyTorch. The same file then runs under `mpiexec`, `torchrun` and `srun`.
- **The parallelism is graded**, not only the values: bytes, messages, order, deadlocks, memory and
  modelled speed. A score is the same on every machine and at every load.
- **You need no cluster.** A class of hundreds is graded on one Linux machine, in a sandbox. If you
  have a cluster with Slurm, students run the same files there with one command.
- **It fits your platform**: nbgrader, Canvas, Moodle, Gradescope.
"""


def front(
    tree: Path,
    handouts: Sequence[Handout],
    pages: Mapping[str, str],
    term: Term | None = None,
) -> Iterator[str]:
    """Yield the lines of the first page.

    Args:
        tree: holds ``lectures/`` and ``assignments/``.
        handouts: the notebooks that have a page.
        pages: texts of the tree that have a page, and where it is.
        term: a course whose own calendar has a page; it stands instead of the one for any term.
    """
    there = course_map.units(tree, [one.name for one in handouts if not one.is_lecture])
    yield LEAD
    yield from picture()
    if can := [unit.facts.can for unit in there if unit.facts.can]:
        yield from ("## What you will be able to do", "", "After this course you can", "")
        yield from (f"- {sentence};" for sentence in can[:-1])
        yield from (f"- {can[-1]}.", "")
    yield AFRAID
    yield FIVE_MINUTES
    yield from the_units(there, handouts)
    yield from calendars(tree, pages, term)
    yield PROFESSOR
    yield from further(pages)


def picture() -> Iterator[str]:
    """Yield the picture at the top: a ring all-reduce that moves, with the numbers of a run."""
    yield from ("```{raw} html", '<figure class="front-picture">', moving_ring(4).svg)
    yield from (f"<figcaption>{CAPTION}</figcaption></figure>", "```", "")


CAPTION = (
    "The scheme that you write in unit 03: four ranks add up their vectors, with messages to one "
    "neighbour only. Ringside ran it to make this picture."
)


def the_units(there: Sequence[Unit], handouts: Sequence[Handout]) -> Iterator[str]:
    """Yield the map, and the table of what belongs together: a lecture, its slides, its task."""
    pages: dict[str, dict[bool, Handout]] = {}
    for one in handouts:
        pages.setdefault(one.unit, {})[one.is_lecture] = one
    units = course_map.among(there, pages.keys())
    if not units:
        return
    links = {number: html_page(parts.get(True) or parts[False]) for number, parts in pages.items()}
    yield from ("## The units", "", MAP_TEXT, "", "```{raw} html")
    yield from (course_map.drawn(units, links), "```", "")
    yield from ("| unit | lecture | assignment | hours |", "|---|---|---|---:|")
    for unit in units:
        lecture, task = pages[unit.number].get(True), pages[unit.number].get(False)
        lecture_link = f"[{lecture.title}]({place(lecture)})" if lecture else ""
        if lecture:
            lecture_link += f' (<a href="slides/{lecture.name}.html">slides</a>)'
        task_link = f"[{task.title}]({place(task)})" if task else ""
        yield f"| {unit.number} | {lecture_link} | {task_link} | {unit.hours:g} |"
    yield ""


MAP_TEXT = (
    "An arrow leads from a unit to those that build upon it. The hours are for reading the "
    "lecture, running its cells and writing the core modules of the assignment. Click on a unit "
    "to open it."
)


def place(handout: Handout) -> str:
    """Where a notebook's page is."""
    return f"{'lectures' if handout.is_lecture else 'assignments'}/{handout.path.name}"


def html_page(handout: Handout) -> str:
    return place(handout).removesuffix(".ipynb") + ".html"


def calendars(tree: Path, pages: Mapping[str, str], term: Term | None) -> Iterator[str]:
    """Yield where a course's calendar is, and the paths through the course."""
    if term is not None:
        yield from (f"## This term{': ' if term.term else ''}{term.term}", "")
        yield from (f"[The calendar of {term.title}](calendar.md): {TERM_TEXT}", "")
    elif paths_page.PAGE in pages:
        yield from ("## How long it takes", "", PATHS_TEXT.format(pages[paths_page.PAGE]), "")
        yield from (*paths_page.summary(tree), "")


TERM_TEXT = "lectures, what is due when, and how it counts."
PATHS_TEXT = (
    "[The paths]({}), week by week: a short course, a term, and half a day with or without a "
    "cluster. Each module stands alone, so you can take fewer."
)


def further(pages: Mapping[str, str]) -> Iterator[str]:
    """Yield links to the other texts, for each reader."""
    rows = [
        f"| {reader} | [{title}]({pages[source]}) |"
        for reader, title, source in FURTHER
        if source in pages
    ]
    if rows:
        yield from ("## Further", "", "| you want to | read |", "|---|---|", *rows, "")


FURTHER = (
    ("install the kit and hand in", "For students", "docs/student.md"),
    ("look up a word", "Glossary", "docs/glossary.md"),
    ("find where it is explained", "Index of terms", terms.PAGE),
    ("start a program: laptop, torchrun, cluster", "Five ways to run", "docs/ways_to_run.md"),
    ("know which programs run unchanged", "Whole programs", "docs/programs.md"),
    ("know what is graded", "How your work is graded", "docs/contract.md"),
    ("run on a cluster today", "For attendees", "docs/attendee.md"),
    ("teach with it", "For instructors", "docs/instructor.md"),
    ("write your syllabus", "Policies to adapt", "docs/policies.md"),
    ("know whether the models are right", "Predicted and published", "lectures/validation.md"),
    ("look up a system", "Systems of 2012 to 2022", "lectures/systems.md"),
    ("check a sentence that you read", "Statements you will meet", "lectures/corrections.md"),
)
