"""recorder.py: who it was, from what is left of all ranks' records."""

from checks.recorder_cases import Complete, Diagnose, Where
from ringside.checking.suite import Suite, group

suite = Suite("recorder")
MISSING, NOBODY = "missing", ("none", ())


@suite.test(
    "hangs", "values", Diagnose((4,), who=(2,), at=6, gives=(MISSING, (2,))),
    Diagnose((3,), who=(0,), at=3, gives=(MISSING, (0,))),
    Diagnose((5,), who=(1, 4), at=8, gives=(MISSING, (1, 4))),
)  # fmt: skip
def test_a_rank_of_one_group_hangs(case, run):
    """All others wait for it."""


@suite.test(
    "roots", "values",
    group(
        "two axes", Diagnose((2, 4), who=(5,), at=11, gives=(MISSING, (5,))),
        Diagnose((2, 4), who=(2,), at=8, gives=(MISSING, (2,))),
        Diagnose((3, 2), who=(0,), at=7, gives=(MISSING, (0,))),
    ),
    group(
        "three axes", Diagnose((2, 2, 2), who=(6,), at=16, gives=(MISSING, (6,))),
        Diagnose((2, 2, 2), who=(1,), at=11, gives=(MISSING, (1,))),
        Diagnose((2, 2, 3), who=(3, 7), at=10, gives=(MISSING, (3, 7))),
    ),
)  # fmt: skip
def test_chains_of_waits(case, run):
    """Who waits is not to blame for those who wait for it."""


@suite.test(
    "disagree", "values",
    group(
        "op", Diagnose((4,), "op", (0,), 5, gives=("type", (0,))),
        Diagnose((2, 4), "op", (6,), 10, gives=("type", (6,))),
    ),
    group("dtype", Diagnose((2, 4), "dtype", (1,), 6, gives=("dtype", (1,)))),
    group("count", Diagnose((2, 3), "size", (5,), 7, gives=("size", (5,)))),
    group(
        "several at once", Diagnose((4,), "op+size", (2,), 6, gives=("type", (2,))),
        Diagnose((2, 4), "op+dtype", (7,), 11, gives=("type", (7,))),
        Diagnose((2, 3), "dtype+size", (1,), 7, gives=("dtype", (1,))), weight=3,
    ),
)  # fmt: skip
def test_members_that_disagree(case, run):
    """The one that differs from most."""


@suite.test(
    "pairs", "values", Diagnose((2, 2, 2), "op", (3,), 11, gives=("type", (1, 3))),
    Diagnose((2, 4), "size", (4,), 8, gives=("size", (0, 4))),
)  # fmt: skip
def test_two_that_disagree(case, run):
    """Nobody can tell who is right."""


@suite.test(
    "dead", "values",
    group(
        "no dump", Diagnose((2, 4), "kill", (7,), 10, gives=("dead", (7,))),
        Diagnose((2, 2, 2), "kill", (4, 5), 9, gives=("dead", (4, 5))),
    ),
    group("an empty dump", Diagnose((2, 3), who=(4,), at=0, gives=(MISSING, (4,))), weight=0.5),
)  # fmt: skip
def test_ranks_without_a_dump(case, run):
    """Whoever has written nothing has no list; an empty list is one."""


@suite.test(
    "wrapped", "values",
    group(
        "numbers", Diagnose((4,), who=(1,), at=9, last=6, gives=(MISSING, (1,))),
        Diagnose((2, 4), who=(3,), at=17, last=7, gives=(MISSING, (3,))),
        Diagnose((2, 2, 2), who=(5,), at=21, last=8, gives=(MISSING, (5,))),
        Diagnose((2, 4), "dtype", (2,), 18, 7, gives=("dtype", (2,))), weight=2,
    ),
    group(
        "a group that is used seldom",
        Complete((2, 4), "", (), 0, 20, 7, layers=(3, 1), every=4, gives=NOBODY),
        Complete((3, 3), "", (), 0, 24, 8, layers=(1, 4), every=5, gives=NOBODY),
        Diagnose((4,), who=(2,), at=9, every=2, gives=(MISSING, (2,))), weight=3,
    ),
)  # fmt: skip
def test_records_that_begin_at_different_numbers(case, run):
    """The oldest records have left the recorder."""


@suite.test(
    "slow", "values",
    group(
        "one axis", Diagnose((4,), "slow", (1,), steps=12, gives=("slow", (1,))),
    ),
    group(
        "grids", Diagnose((2, 4), "slow", (5,), steps=12, factor=1.2, gives=("slow", (5,))),
        Diagnose((2, 2, 2), "slow", (2,), steps=10, factor=2.0, gives=("slow", (2,))),
    ),
    group(
        "buckets",
        Diagnose((2, 3), "slow", (4,), steps=12, overlap=True, gives=("slow", (4,))),
    ),
    group(
        "last in one of its groups",
        Diagnose((2, 4), "uneven", (6,), steps=2, layers=(12,), gives=NOBODY), weight=2.5,
    ),
)  # fmt: skip
def test_a_slow_rank(case, run):
    """It comes last, and waits least."""


@suite.test(
    "healthy", "values", Diagnose((2, 4), "", (), steps=12, gives=NOBODY),
    Diagnose((2, 2, 2), "", (), steps=10, jitter=0.3, gives=NOBODY),
)  # fmt: skip
def test_nobody_is_slow(case, run):
    """Somebody is always last, and another one the next time."""


@suite.test(
    "where", "values",
    group("several groups", Where((2, 4), who=(5,), at=9, gives=(MISSING, (5,), "dp1", 4))),
    group(
        "buckets",
        Where((2, 2, 2), who=(6,), at=12, overlap=True, gives=(MISSING, (6,), "dp2", 4)),
    ),
    group("disagreement", Where((2, 4), "op", (6,), 10, gives=("type", (6,), "tp1", 5))),
    group(
        "others wait longer for a rank that waits",
        Where((2, 4), who=(6,), at=13, times=2, layers=(1, 3), gives=(MISSING, (6,), "dp2", 3)),
        Where((3, 3), who=(4,), at=14, layers=(1, 3), gives=(MISSING, (4,), "dp1", 3)), weight=3,
    ),
)  # fmt: skip
def test_which_collective(case, run):
    """That which is waited for longest."""
