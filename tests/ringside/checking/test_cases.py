"""Cases: they say themselves in a line, and are read back; values are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import ringside
from ringside.checking import Verdict
from ringside.checking.cases import (
    Case,
    Formula,
    Vectors,
    alike,
    assert_like,
    brief,
    cast,
    machine_of,
    parse,
)
from ringside.errors import MachineError, TargetError


@dataclass(frozen=True)
class AllReduce(Vectors):
    target = "ring:all_reduce"
    widths: tuple = ()
    slope: float = 1.0
    word: str = ""
    strided: bool = False


@dataclass(frozen=True)
class Cost(Formula):
    target = "cost:ring_s"
    nbytes: int = 8
    ranks: int = 2

    def right(self):
        return 2.0 * self.nbytes * (self.ranks - 1)


@dataclass(frozen=True)
class Worked(Formula):
    target = "cost:double"
    x: int = 1


CASES = [
    AllReduce(),
    AllReduce(5, n=7, dtype="int64", seed=3),
    AllReduce(3, widths=((1, 2), (), (3,)), slope=math.inf, word="two words", strided=True),
    AllReduce(3, members=(3, 1, 2), world=5, machine="long wire", latencies=2, announced=True),
    AllReduce(3, machine="zaratan,alpha_s=1e-05"),
    Cost(11, ranks=3, raises="ValueError"),
    Cost(11, gives=(44.0, [1e-05], -math.inf)),
    Cost(),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_a_case_says_itself_and_is_read_back(case):
    assert case.text  # an empty line names no case
    assert parse(case.text, [AllReduce, Cost] if isinstance(case, AllReduce) else [Cost]) == case


def test_a_line_chooses_among_classes_by_a_name_or_by_its_fields():
    assert parse("n=3", [Cost, AllReduce]) == AllReduce(n=3)
    assert parse("all_reduce p=3", [Cost, AllReduce]) == AllReduce(3)
    assert parse("Cost", [AllReduce, Cost]) == Cost()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p=3 m=4", r"'p=3 m=4' fits none of the cases here.*AllReduce: p"),
        ("p=three", "p='three' must be of type int"),
        ("n=True", "n=True must be of type int"),
        ("p=2000", "p=2000 must be between 1 and 1024"),
        ("p=0", "p=0 must be between 1 and 1024"),
        ("p=3 11", "'11' is not of the form NAME=VALUE"),
    ],
)
def test_a_line_that_is_no_case_is_refused(text, said):
    with pytest.raises(TargetError, match=said):
        parse(text, [AllReduce])


def test_a_sentence_names_what_isnt_usual():
    assert str(AllReduce(1)) == "all_reduce on 1 rank, n = 11, float64"
    assert str(AllReduce(3, word="x", strided=True, announced=True)) == (
        "all_reduce on 3 ranks, n = 11, float64, word x, strided, passes announced"
    )
    assert str(Cost(1000)) == "ring_s(1000, 2)"


def test_what_a_case_draws_comes_from_its_seed_and_the_rank():
    case = AllReduce(3, seed=4)
    assert np.array_equal(case.vector(1), AllReduce(3, seed=4).vector(1))
    for other in (AllReduce(3, seed=5).vector(1), case.vector(0)):
        assert not np.array_equal(case.vector(1), other)
    summed = AllReduce(3, dtype="int16")
    assert sum(np.abs(summed.vector(rank).astype(int)).max() for rank in range(3)) < 2**15


def test_passes_are_numbered_through_all_steps():
    case, x = AllReduce(2, announced=True), np.ones(3)
    with case.passes_of(0):
        first = ringside.announce("forward", x)
    with case.passes_of(0):
        assert not np.array_equal(ringside.announce("forward", 2 * x), 2 * first)
        assert np.array_equal(ringside.announce("forward", x), first)


def test_a_part_of_a_world_has_other_ranks_in_another_order():
    for seed in range(20):
        part = AllReduce(3, seed=seed).in_part()
        assert part.world == 5 and 0 not in part.members and len(set(part.members)) == 3
        assert list(part.members) != sorted(part.members)


def test_machines_are_named():
    assert machine_of(AllReduce()).eager_threshold_bytes == 65536
    assert machine_of(AllReduce(machine="rendezvous")).eager_threshold_bytes == 0
    assert machine_of(AllReduce(machine="alpha_s=0.5")).alpha_s == 0.5
    with pytest.raises(
        MachineError, match=r"no machine 'short_wire'.*may also name .*'short wire'"
    ):
        machine_of(AllReduce(machine="short_wire"))


def test_a_sum_that_lacks_a_part_is_told_so():
    case = AllReduce(3)
    whole, part = case.right()[0], case.vector(1)
    run = SimpleNamespace(error=None, values=[whole, whole - part, whole])
    with pytest.raises(Verdict, match=r"rank 1's result is wrong.*the sum without rank 1's part"):
        case.check(run)
    case.check(SimpleNamespace(error=None, values=[whole] * 3))


@pytest.mark.parametrize(
    ("value", "right", "said"),
    [
        ([1, 2], [1, 3], "it 1 is 2; it must be 3"),
        ([1], [1, 2], r"it is \[1\]; it must be \[1, 2\]"),
        (None, [1], "it is None; it must be"),
        ({"a": 1}, {"b": 1}, "it must have b"),
        ({"a": [1, None]}, {"a": [1, 2.0]}, "it, a 1 is None; it must be 2"),
        (np.zeros(2, "float32"), np.zeros(2), "dtype float32; it must be float64"),
        (np.zeros(3), np.zeros(2), r"shape \(3,\); it must be \(2,\)"),
        (np.array([1.0, 2 + 1e-9]), np.array([1.0, 2.0]), "wrong in 1 of 2 elements"),
        (np.array([1, 2]), np.array([1, 3]), "wrong in 1 of 2 elements"),
        (True, 1, "it is True; it must be 1"),
        ("x", np.zeros(1), "it is of type str; it must be a NumPy array"),
    ],
)
def test_what_is_not_alike_is_told_with_its_place(value, right, said):
    with pytest.raises(Verdict, match=said):
        assert_like(value, right, AllReduce(), "it")


def test_what_is_alike_passes():
    nan = np.array([np.nan, np.inf, -np.inf, 1.0])
    right = {"a": [np.ones(3), (nan, None)], "b": 2.0, "c": [], "d": np.zeros((0, 2)), "e": True}
    value = {"a": (np.ones(3) + 1e-13, [nan, None]), "b": 2.0 + 1e-12, "c": (), "d": right["d"]}
    assert_like({**value, "e": True}, right, AllReduce(), "it")
    assert_like(np.float32([1 + 1e-6]), cast(np.ones(1), "float32"), AllReduce(), "it")
    assert_like(3.0, np.float64(3.0), AllReduce(), "it")
    assert alike(np.array(3), 3) and not alike(3.5, 3) and not alike(np.ones(2), [1, 1])
    assert brief([np.float64(0.5), (1,)]) == "[0.5, (1,)]"


def test_a_formula_is_told_with_its_arguments():
    Cost(3).check_answer(6.0, "")
    with pytest.raises(Verdict, match=r"ring_s\(3, 2\) is 7; it must be 6"):
        Cost(3).check_answer(7.0, "")
    with pytest.raises(Verdict, match=r"ring_s\(3, 2\) raised KeyError\."):
        Cost(3).check_answer(None, "KeyError")
    with pytest.raises(Verdict, match="raised nothing; it must raise ValueError"):
        Cost(-1, raises="ValueError").check_answer(2.0, "")
    Cost(-1, raises="ValueError").check_answer(None, "ValueError")


def test_a_case_of_a_formula_carries_its_value_where_no_oracle_is_handed_out():
    Worked(2, gives=4).check_answer(4, "")
    Worked(2).check_answer(5, "")  # nothing to compare with
    with pytest.raises(Verdict, match=r"double\(2\) is 5; it must be 4\."):
        Worked(2, gives=4).check_answer(5, "")


def test_a_case_without_inputs_is_an_authors_fault():
    with pytest.raises(NotImplementedError):
        Case().inputs(0)


@dataclass(frozen=True)
class Rounded(Case):
    def right(self):
        return [np.array([1.0])]

    def wrong(self):
        return {"This is 1 + 1e-6.": [np.array([1 + 1e-6])]}

    def check(self, run):
        for value, right in zip(run.values, self.right(), strict=True):
            assert_like(value, right, self, "it", None if self.exact else 1e-3)


def test_tests_of_values_may_ask_for_more_digits_than_others() -> None:
    case, run = Rounded(), SimpleNamespace(values=[np.array([1 + 1e-6])])
    case.compare(run)
    with pytest.raises(Verdict, match=r"This is 1 \+ 1e-6\.$"):
        case.check_exactly(run)
    case.compare(run)
