"""A copy is found in its disguises, and what everybody was given is none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.gradebook.report import report, similarity
from tests.autograder.gradebook.disguise import disguised

ROOT = Path(__file__).resolve().parents[3]

PLAIN = """
import numpy as np


def all_reduce(comm, x):
    '''Sum.'''
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    for step in range(world_size - 1):
        lo, hi = shard_bounds(len(x), world_size, rank - step)
        comm.Sendrecv(total[lo:hi], ring(comm)[1], recvbuf=total[hi:lo])
        total[lo:hi] += total[hi:lo]
    return total


def ring(c):
    return (c.Get_rank() - 1) % c.Get_size(), (c.Get_rank() + 1) % c.Get_size()
"""
DISGUISED = """
def neighbours(c):  # who is beside me
    return (c.Get_rank() - 1) % c.Get_size(), (c.Get_rank() + 1) % c.Get_size()


def all_reduce(comm, values):
    me, P = comm.Get_rank(), comm.Get_size()
    acc = np.array(values)
    unused = 17
    for k in range(P - 1):
        a, b = shard_bounds(len(values), P, me - k)
        comm.Sendrecv(acc[a:b], neighbours(comm)[1], recvbuf=acc[b:a])
        acc[a:b] += acc[b:a]
    return acc
"""
OTHER = """
def all_reduce(comm, x):
    if comm.Get_rank() == 0:
        parts = [comm.recv(source=r) for r in range(1, comm.Get_size())]
        result = sum(parts, x.copy())
        [comm.send(result, dest=r) for r in range(1, comm.Get_size())]
    else:
        comm.send(x, dest=0)
        result = comm.recv(source=0)
    return result
"""


def test_other_names_another_order_and_dead_statements_do_not_hide_a_copy() -> None:
    authors = {"ada": {"ring": PLAIN}, "bob": {"ring": DISGUISED}, "eve": {"ring": OTHER}}
    (match,) = similarity.matches(authors, given={})
    assert (match.first, match.second) == ("ada", "bob")
    assert 0.95 < match.ratio < 1
    without = DISGUISED.replace("    unused = 17\n", "")
    (match,) = similarity.matches({"ada": {"r": PLAIN}, "bob": {"r": without}}, given={})
    assert match.ratio == 1


def test_what_is_no_python_is_not_taken_apart() -> None:
    assert similarity.shape("x = 1" + "\\'" * 100_000) == ()  # tokenize would take minutes
    assert similarity.shape("x" + ".x" * 100_000) == ()  # too deep for a tree
    assert similarity.matches({"a": {"r": "x = ("}, "b": {"r": "x = ("}}, given={}) == []
    assert similarity.shape('x = "\\d"  # warns') == similarity.shape('y = "d"')


def test_calls_on_a_communicator_are_no_mere_names() -> None:
    other = PLAIN.replace("Sendrecv", "Bcast")
    assert similarity.shape(PLAIN) != similarity.shape(other)


def test_only_what_the_release_did_not_give_is_compared() -> None:
    own = "\n\ndef mine(comm):\n    return comm.Get_rank()\n"
    authors = {"ada": {"r": PLAIN}, "bob": {"r": PLAIN + own}}
    assert len(similarity.matches(authors, given={})) == 1
    assert similarity.matches(authors, given={"r": PLAIN}) == []


def test_a_class_of_copies_is_compared_once() -> None:
    authors = {f"s{at:03}": {"r": PLAIN if at % 2 else DISGUISED} for at in range(60)}
    found = similarity.matches(authors, given={})
    assert len(found) == 60 * 59 // 2
    (group,) = similarity.groups(found)
    assert len(group.authors) == 60 and 0.95 < group.ratio < 1


@pytest.fixture(scope="module")
def shipped() -> list[tuple[str, str]]:
    """Every reference module: its source, and what the release gave of it."""
    course = Course(kit=ROOT, root=ROOT)
    found = []
    for name in plans.known(course):
        plan = plans.load(name, course)
        given = report._given(plan, course)
        for module, text in report._shipped(plan, course)[report.SOLUTION].items():
            found.append((text, given[module]))
    return found


@pytest.mark.parametrize(
    ("level", "least"),
    [(1, {1.0: 1.0}), (2, {0.85: 0.88}), (3, {0.85: 0.72}), (4, {0.85: 0.58})],
)
def test_as_many_copies_of_the_references_are_found_as_the_figures_say(
    shipped: list[tuple[str, str]], level: int, least: dict[float, float]
) -> None:
    chance = random.Random(5)
    ratios = []
    for text, given in shipped:
        authors = {"ada": {"m": disguised(text, level, chance)}, "us": {"m": text}}
        found = similarity.matches(authors, given={"m": given}, threshold=0.3)
        ratios += [match.ratio for match in found]
    assert len(ratios) > 70
    for ratio, share in least.items():
        assert sum(each >= ratio for each in ratios) >= share * len(ratios)


def test_a_student_is_told_the_nearest_known_source_and_classmates_are_told_from_90_percent() -> (
    None
):
    found = [
        similarity.Match("ring", "(shipped solution)", "ada", 0.97),
        similarity.Match("ring", "(2025: eve)", "ada", 0.93),
        similarity.Match("ring", "(2025: eve)", "(shipped solution)", 0.93),
        similarity.Match("ring", "ada", "bob", 0.91),
        similarity.Match("ring", "ada", "cleo", 0.89),
        similarity.Match("star", "(2025: eve)", "ada", 0.86),
    ]
    told = similarity.telling(found, {"(shipped solution)", "(2025: eve)"})
    assert told == [found[0], found[3], found[5]]
    words = [group.sure for group in similarity.groups([found[0], found[5]])]
    assert words[0].startswith("nearly the same") and words[1].startswith("alike")
    assert similarity.Lookalikes("ring", ("a", "b"), 1.0).sure.startswith("the same, but for")
