"""The dumps of a15's recorder: those that the tests draw are those that the network records."""

import itertools
from pathlib import Path

import pytest

from ringside import Failures, Hang, Kill, Session, Slow

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a15_failures"
OURS = ("checks", "checks.dumps", "checks.recorder_cases", "recorder")

PROGRAM = """
import numpy as np
import ringside
from mpi4py import MPI

def train(comm, items, axes):
    '''Do what the items say: work, calls of a group, or waiting for what was begun.'''
    groups = {}
    for members in axes:
        own = next(ranks for ranks in members.values() if comm.rank in ranks)
        name = next(name for name, ranks in members.items() if ranks == own)
        groups[name] = [own, None]
    names, requests = list(groups), []
    for item in items:
        if isinstance(item, float):
            ringside.compute(seconds=item)
        elif item is None:
            MPI.Request.Waitall(requests)
            requests = []
        elif item[1] == "split":
            name = names.pop(0)
            groups[name] = comm.Split(groups[name][0][0], comm.rank)
        else:
            name, op, dtype, count, waits = item
            group, part = groups.get(name, comm), np.zeros(count, dtype)
            if op == "allgather":
                group.Allgather(part, np.zeros(group.size * count, dtype)) if waits else (
                    requests.append(group.Iallgather(part, np.zeros(group.size * count, dtype))))
            elif waits:
                group.Allreduce(part, np.zeros_like(part))
            else:
                requests.append(group.Iallreduce(part, np.zeros_like(part)))
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM)
    with Session(folder) as session:
        yield session


def failures_of(program, drawn):
    """What lets it go wrong in a run."""
    if program.fault == "slow":
        return Failures(*(Slow(rank, program.factor) for rank in program.who))
    stop = {"hang": Hang, "kill": Kill}.get(program.fault)
    if stop is None:
        return None
    stops = [stop(rank, op=len(drawn.ops[rank]) + 1) for rank in program.who]
    return Failures(*stops, collectives="none")


def really(session, program, whole, drawn, last):
    """The dumps of a run of the same program on the network's ranks."""
    items = [
        (
            [
                (i.group, i.op, i.dtype, i.count, i.waits) if hasattr(i, "group") else i
                for i in items
            ],
            [
                {name: ranks for name, ranks in program.groups.items() if name.startswith(axis)}
                for axis in program.axes
            ],
        )
        for items in whole.ranks
    ]  # what a rank would do that hangs or dies is in the run, too
    result = session.call(
        "program:train", program.size, items, failures=failures_of(program, drawn)
    )
    assert (result.error is None) == (program.fault in ("", "slow", "uneven"))
    recorder = result.recorder(last)
    # Groups with the same ranks on two axes are told apart by the number of the split.
    name_of = {"world": "world"}
    for number, axis in enumerate(program.axes):
        for name, ranks in program.groups.items():
            if name.startswith(axis):
                name_of[f"world/{number}.{ranks[0]}"] = name
    return (
        {
            rank: [{**record, "group": name_of[record["group"]]} for record in records]
            for rank, records in recorder.dumps.items()
        },
        {name_of[path]: ranks for path, ranks in recorder.groups.items()},
    )


@pytest.mark.parametrize(("fault", "who"), [("", ()), ("hang", (4,)), ("uneven", (4,))])
def test_drawn_dumps_of_rows_that_differ(module, session, fault, who):
    dumps = module("checks.dumps")
    asked = {"shape": (2, 3), "steps": 4, "seed": 2, "layers": (1, 3), "every": 2}
    program = dumps.Program(fault=fault, who=who, at=13, **asked)
    whole = dumps.Program(**asked) if fault == "hang" else program
    records, groups = program.dumps(20)
    real_records, real_groups = really(session, program, whole, dumps._Run(program), 20)
    assert real_groups == groups
    assert real_records == records


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 2, 2)])
@pytest.mark.parametrize(
    ("fault", "who", "at", "last"),
    [
        ("", (), 0, 64), ("slow", (1,), 0, 20), ("hang", (1,), 7, 64), ("hang", (1,), 10, 6),
        ("hang", (1, 2), 9, 64), ("hang", (3,), 0, 64), ("kill", (2,), 8, 64), ("op", (2,), 9, 64),
        ("dtype", (1,), 10, 7), ("size", (1,), 7, 64), ("op+size", (2,), 7, 64),
    ],
)  # fmt: skip
def test_drawn_dumps_are_those_of_runs(module, session, shape, overlap, fault, who, at, last):
    dumps = module("checks.dumps")
    asked = {"shape": shape, "steps": 5, "overlap": overlap, "seed": at}
    program = dumps.Program(fault=fault, who=who, at=at, factor=1.3, **asked)
    whole = program if fault not in ("hang", "kill") else dumps.Program(**asked)
    drawn = dumps._Run(program)
    records, groups = program.dumps(last)
    real_records, real_groups = really(session, program, whole, drawn, last)
    assert real_groups == groups
    assert real_records == records


def test_who_did_it_is_who_is_found(module):
    """The drawn fault, on many grids, by the reference."""
    diagnose, dumps = module("recorder").diagnose, module("checks.dumps")
    kinds = {"hang": "missing", "kill": "dead", "slow": "slow", "size": "size"}
    for seed, (shape, fault) in enumerate(itertools.product(((2, 4), (3, 3), (2, 2, 3)), kinds)):
        program = dumps.Program(shape, 9, fault, (seed % 8,), 9 + seed, overlap=True, seed=seed)
        kind, ranks, group, seq = diagnose(*program.dumps(30))
        assert kind == kinds[fault]
        assert seed % 8 in ranks
        if fault != "size":
            assert len(ranks) == 1
        assert (group == "") == (seq == 0) == (fault in ("kill", "slow"))


def test_the_example_of_the_docstring(module):
    def record(group, seq, state, created):
        return {
            "group": group, "seq": seq, "op": "allreduce", "dtype": "float32", "count": 4,
            "state": state, "created_ps": created, "started_ps": created, "completed_ps": -1,
        }  # fmt: skip

    groups = {"tp0": (0, 1), "tp1": (2, 3), "dp0": (0, 2), "dp1": (1, 3)}
    dumps = {
        0: [record("tp0", 41, "completed", 1), record("tp0", 42, "started", 9)],
        1: [record("tp0", 41, "completed", 1), record("dp1", 8, "started", 7)],
        2: [record("tp1", 41, "completed", 1), record("tp1", 42, "started", 8)],
        3: [record("tp1", 41, "completed", 1)],
    }
    assert module("recorder").diagnose(dumps, groups) == ("missing", (3,), "dp1", 8)
