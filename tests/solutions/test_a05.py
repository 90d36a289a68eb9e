"""The references of a05: their times on the network, and in worlds that they are widened to."""

from pathlib import Path

import pytest

from ringside import Machine, Session, replay
from ringside.checking import case_files
from ringside.checking.suite import called
from ringside.timing.extrapolation import widen

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a05_ddp"
FOUR = (24,) * 5  # four layers


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


def test_a_step_takes_the_time_of_the_closed_form(session, cases):
    for p in (2, 5):
        case = cases["Step"](p, FOUR, cap=5000, balanced=True, lr=0.1)
        run = called(session, case)
        case.check(run)
        assert 0.8 * case.step_s() < run.makespan_s <= 1.001 * case.step_s()  # latencies overlap


def test_a_step_widened_to_24_ranks_takes_as_long_as_one_that_ran_there(session, cases):
    machine = Machine.load("textbook")
    few = called(session, cases["Step"](4, FOUR, cap=10_000))
    many = called(session, cases["Step"](24, FOUR, cap=10_000))
    assert replay(widen(few.trace, 24), machine).makespan_s == many.makespan_s


def test_the_ring_of_a_bucket_is_the_networks(session, cases):
    case = cases["Average"](7, shapes=((700,),), buckets=((0,),))
    run = called(session, case)
    machine = Machine.load("textbook")
    bucket_s = 2 * 6 * (machine.alpha_s + 800 * machine.beta_s_per_byte)
    assert run.makespan_s == pytest.approx(bucket_s, rel=1e-12)
