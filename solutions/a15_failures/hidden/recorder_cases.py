"""The cases of recorder.py in the hidden run; what must come out is the fault that was made."""

import itertools

from checks import test_recorder as recorder
from checks.dumps import Call
from checks.recorder_cases import Complete, Diagnose, Where, drawn, program_of

from ringside.checking.suite import group, hidden, oracle

KIND = {"hang": "missing", "kill": "dead", "op": "type", "uneven": "none", "": "none"}


def found(case):
    """Whom it happened to, and where it shows."""
    first_fault = case.fault.partition("+")[0]
    kind = KIND.get(first_fault, first_fault)
    if kind in ("dead", "slow", "none"):
        return kind, case.who if kind != "none" else (), "", 0
    if kind == "missing":
        _, group_name, seq, _ = next(wait for wait in waits(case) if wait[3] & {*case.who})
        return kind, case.who, group_name, seq
    program, (rank,) = program_of(case), case.who
    calls = [item for item in program.ranks[rank] if isinstance(item, Call)]
    group_name = calls[case.at].group
    seq = sum(call.group == group_name for call in calls[: case.at + 1])
    members = program.groups[group_name]
    return kind, case.who if len(members) > 2 else members, group_name, seq


def waits(case):
    """Each rank's wait for others: since when, for which collective, and for whom; in order."""
    dumps, groups = drawn(case)
    seen = {(r["group"], r["seq"], rank) for rank, records in dumps.items() for r in records}
    started = [r for records in dumps.values() for r in records if r["state"] == "started"]
    return sorted(
        (r["created_ps"], r["group"], r["seq"], absent)
        for r in started
        if (absent := {m for m in groups[r["group"]] if (r["group"], r["seq"], m) not in seen})
    )


oracle(Diagnose)(found)
oracle(Where)(found)
oracle(Complete)(found)

GRIDS = ((2, 4), (4, 2), (2, 2, 2), (3, 3), (2, 2, 4))


def some(kind, shapes, fault, **more):
    """A case on each of these grids: a rank and a moment that nobody can know."""

    def draw(rng):
        cases = []
        for shape in shapes:
            size = 1
            for extent in shape:
                size *= extent
            who = (int(rng.integers(size)),)
            # After the groups are made, and before the last step.
            per_step = 2 + 2 * (len(shape) - 1)
            at = len(shape) + int(rng.integers(per_step, 4 * per_step))
            times = int(rng.integers(1 << 20))
            fields = {"shape": shape, "fault": fault, "who": who, "at": at, "times": times, **more}
            cases.append(kind(**fields))
        return cases

    return draw


def chains(rng):
    """Cases in which others wait longest for a rank that waits itself."""
    cases = []
    for p, q in ((2, 4), (3, 3), (2, 5)):
        longest = set()
        while not longest:
            who, step, layer = (int(q + rng.integers(q)), *map(int, rng.integers(1, 4, 2)))
            times, at = int(rng.integers(1 << 20)), 2 + 8 * step + 2 + layer
            case = Where((p, q), who=(who,), at=at, times=times, layers=(1, 3))
            longest = waits(case)[0][3] - {who}
        cases.append(case)
    return cases


hidden(
    recorder.test_a_rank_of_one_group_hangs,
    some(Diagnose, ((4,), (2,), (7,)), "hang"),
    Diagnose((6,), who=(0, 3), at=5),
)
hidden(
    recorder.test_chains_of_waits,
    group(
        "two axes",
        some(Diagnose, ((2, 4), (4, 2), (3, 3)), "hang"),
        *(Diagnose((2, 4), who=(6,), at=15), Diagnose((4, 2), who=(3,), at=11)),
        Diagnose((2, 4), who=(1, 6), at=7),
    ),
    group(
        "three axes",
        some(Diagnose, ((2, 2, 2), (2, 2, 4)), "hang"),
        *(Diagnose((2, 2, 2), who=(7,), at=16), Diagnose((2, 2, 4), who=(9,), at=10)),
        Diagnose((2, 2, 2), who=(2, 3), at=10),
    ),
)
hidden(
    recorder.test_members_that_disagree,
    group("op", some(Diagnose, ((3,), (3, 3)), "op"), Diagnose((5,), "op", (0,), 4)),
    group("dtype", some(Diagnose, ((4,), (3, 3)), "dtype"), Diagnose((3, 4), "dtype", (0,), 7)),
    group("count", some(Diagnose, ((6,), (3, 4)), "size"), Diagnose((2, 4), "size", (0,), 6)),
    group(
        "several at once",
        *(some(Diagnose, ((5,), (3, 3)), fault) for fault in ("op+size", "op+dtype", "dtype+size")),
        weight=3,
    ),
)
hidden(
    recorder.test_two_that_disagree,
    *(some(Diagnose, ((2, 2), (2, 2, 2)), fault) for fault in ("op", "dtype", "size")),
)
hidden(
    recorder.test_ranks_without_a_dump,
    group("no dump", some(Diagnose, GRIDS[:4], "kill"), Diagnose((3, 3), "kill", (0, 4, 8), 9)),
    group("an empty dump", Diagnose((2, 2, 2), who=(0,), at=0), weight=0.5),
)
hidden(
    recorder.test_records_that_begin_at_different_numbers,
    group(
        "numbers",
        some(Diagnose, GRIDS, "hang", last=8, steps=8),
        some(Diagnose, ((3, 3),), "op", last=9, steps=8),
        some(Diagnose, ((2, 2, 2),), "hang", last=10, overlap=True),
        weight=2,
    ),
    group(
        "a group that is used seldom",
        some(Complete, ((2, 5), (3, 3)), "", who=(), last=20, steps=7, layers=(3, 1), every=4),
        some(Diagnose, ((5,),), "hang", every=2),
        weight=3,
    ),
)
hidden(
    recorder.test_a_slow_rank,
    group("one axis", *(some(Diagnose, ((4,),), "slow", steps=12, factor=f) for f in (1.2, 2.0))),
    group(
        "grids",
        *(some(Diagnose, GRIDS[:3], "slow", steps=12, factor=f) for f in (1.2, 1.34)),
    ),
    group("buckets", some(Diagnose, ((2, 4), (2, 2, 2)), "slow", steps=12, overlap=True)),
    group(
        "last in one of its groups",
        some(Diagnose, ((2, 4), (3, 3), (4, 2)), "uneven", steps=2, layers=(12,)),
        weight=2.5,
    ),
)
hidden(
    recorder.test_nobody_is_slow,
    *(
        some(Diagnose, (shape,), "", who=(), steps=12, jitter=jitter)
        for shape, jitter in itertools.product(((2, 4), (2, 2, 2), (3, 3)), (0.02, 0.2))
    ),
)
hidden(
    recorder.test_which_collective,
    group("several groups", some(Where, ((2, 4), (2, 2, 2), (3, 3)), "hang")),
    group("buckets", some(Where, ((2, 4), (2, 2, 2)), "hang", overlap=True, last=10)),
    group("disagreement", some(Where, ((3, 3), (2, 2, 2)), "dtype")),
    group("others wait longer for a rank that waits", chains, weight=3),
)
