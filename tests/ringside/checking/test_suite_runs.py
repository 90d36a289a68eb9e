"""The machine that a case names, and which runs a test makes of it."""

from dataclasses import dataclass

import pytest

from ringside.checking import Verdict
from ringside.checking.cases import Case, machine_of
from ringside.checking.suite import Share, Suite, contrasted


@dataclass(frozen=True)
class Reduce(Case):
    target = "ring:all_reduce"
    n: int = 3

    def inputs(self, rank):
        return (self.n,)


class NoRanks:
    """The cases of a test; whoever asks for a run of one fails."""

    def table(self, test):
        return [Share("the others", test.public)]

    def call(self, *args, **options):
        raise LookupError("a run is asked for")


@pytest.mark.parametrize(("name", "eager"), [("rendezvous", 0), ("buffered", 65536)])
def test_numbers_may_stand_behind_how_sends_are(name, eager):
    case = Reduce(4, machine=f"{name},ranks_per_node=2,poll_s=1e-10")
    machine = machine_of(case)
    assert (machine.eager_threshold_bytes, machine.ranks_per_node) == (eager, 2)
    assert machine.poll_s == 1e-10 and machine.name == case.machine
    other = case.on_sends("buffered")
    assert other.machine == "buffered,ranks_per_node=2,poll_s=1e-10"
    assert Reduce(4).on_sends("rendezvous").machine == "rendezvous"


def test_a_body_that_takes_no_run_makes_its_own():
    seen = []
    case = Reduce(4)
    test = Suite("ring").test(10, "values", case)(lambda case, ranks: seen.append(case))
    test(ranks=NoRanks())
    assert seen == [case]
    with pytest.raises(LookupError, match="a run is asked for"):
        Suite("ring").test(10, "values", case)(lambda case, run: None)(ranks=NoRanks())


def test_a_contrast_says_the_case_once():
    case = Reduce(4)

    def wrong():
        raise case.fail("rank 1 returned nothing.")

    with pytest.raises(Verdict, match=r"^all_reduce on 4 ranks, n = 3: late: rank 1 returned"):
        contrasted(wrong, lambda: None, case, "late:")
