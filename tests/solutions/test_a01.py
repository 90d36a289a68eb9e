"""The reference solutions of a01, its broken programs, and a first job on this machine."""

import json
import shlex
import shutil

import numpy as np
import pytest

from autograder.author.verify import edits
from autograder.collect import cluster_run
from autograder.course import assignment
from ringside import Machine, Session
from ringside.checking import public_tests
from ringside.commands import cli
from ringside.errors import DeadlockError, RankError
from solutions.a01_first_ranks import cases, fit
from solutions.a01_first_ranks.hidden import oracle, runs
from solutions.a01_first_ranks.where_table import line

SOLUTION = assignment.Course.here().kit / "solutions" / "a01_first_ranks"
EAGER = Machine.load("textbook").with_(eager_threshold_bytes=4096)


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


def test_a_message_takes_what_the_machine_says(session):
    for machine in (Machine.load("textbook"), EAGER, Machine.load("laptop")):
        for nbytes in (0, 100, 5000):
            result = session.call("ping:ping", 3, (nbytes, 2, 2), machine=machine)
            link = machine.link(0, 2)
            assert result.values[1:] == [None, None]
            right_s = link.alpha_s + nbytes * link.beta_s_per_byte
            assert result.values[0] == pytest.approx(right_s, abs=2e-12)


def test_the_fit_is_where_residuals_are_smallest():
    rng = np.random.default_rng(3)
    sizes = np.array([2**k for k in range(20)])
    times_s = (2e-6 + 3e-9 * sizes) * rng.uniform(0.8, 1.2, size=20)
    alpha_s, beta = fit.fit(sizes, times_s)

    def squares(alpha_s, beta):
        return float(np.sum(fit.residuals(sizes, times_s, alpha_s, beta) ** 2))

    best = squares(alpha_s, beta)
    for away in (1 - 1e-3, 1 + 1e-3):
        assert squares(alpha_s * away, beta) > best
        assert squares(alpha_s, beta * away) > best
    slope, constant = np.polyfit(sizes, times_s, 1, w=1 / times_s)
    assert (alpha_s, beta) == pytest.approx((constant, slope), rel=1e-9)


def test_the_broken_ring_works_while_messages_are_short(session):
    def ring(n, world_size=4):
        inputs = [(np.full(n, float(rank)),) for rank in range(world_size)]
        return session.call("broken:exchange", world_size, inputs, machine=EAGER)

    assert [value[0] for value in ring(100).values] == [3, 0, 1, 2]
    assert isinstance(ring(1000).error, DeadlockError)
    assert "Under mpiexec this works only while" in str(ring(1000).error)


def test_the_broken_mean_has_two_mistakes(session, tmp_path):
    inputs = [(np.arange(rank + 1.0),) for rank in range(3)]
    error = session.call("broken:mean_and_deviation", 3, inputs).error
    assert "rank 1 calls bcast where rank 0 calls reduce" in str(error)
    half = edits.one(SOLUTION, "mend__mean_empty_ranks_still_leave")
    (tmp_path / "mend.py").write_text(half.source)
    with Session(tmp_path) as other:
        assert other.call("mend:mean_and_deviation", 3, inputs).error is None
        inputs[1] = (np.empty(0),)
        assert isinstance(other.call("mend:mean_and_deviation", 3, inputs).error, DeadlockError)


def test_the_broken_collect_has_two_races(session, tmp_path):
    rows = [(np.full((2, 1), rank + 1.0) * [[1], [10]],) for rank in range(4)]
    error = session.call("broken:collect", 4, rows).error
    assert isinstance(error, RankError) and error.type_name == "BufferRaceError"
    wrong = edits.one(SOLUTION, "mend__collect_any_source_still")
    (tmp_path / "mend.py").write_text(wrong.source)
    right = np.array([row for (row,) in rows]) ** 2
    with Session(tmp_path) as other:
        days = [other.call("mend:collect", 4, rows, seed=seed).values[0] for seed in (1, 2)]
    for day in days:  # every row is there, some in another's place
        assert sorted(day.ravel()) == sorted(right.ravel())
    assert not all(np.array_equal(day, right) for day in days)


def test_places_follow_the_machine(session):
    pairs = Machine.load("textbook").with_(ranks_per_node=2)
    result = session.call("where:where", 4, ("5,7",), machine=pairs, members=[3, 0, 2, 1])
    rows = [
        (0, "node1", 0, "5"), (1, "node0", 0, "5"), (2, "node1", 1, "7"), (3, "node0", 1, "7"),
    ]  # fmt: skip
    assert result.values == [rows, None, None, None]
    assert result.output[3].splitlines() == [line(*row) for row in rows]
    assert oracle.places(["b", "a", "b", "a"], ["5,7"] * 4) == [
        (rank, host, local, gpu)
        for (rank, _, local, gpu), host in zip(rows, "baba", strict=True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        cases.ping_call(2, 100, 2),
        cases.bounce_call(3, 7, 2, 2, "int64").on(runs.EAGER),
        cases.exchange_call(3, 5),
        cases.mean_call((3, 0, 2)),
        cases.collect_call(3, 2, 4),
        cases.where_call(3, "0,1").on(runs.RENDEZVOUS.with_(ranks_per_node=2)),
    ],
    ids=lambda case: case.function,
)
def test_the_line_of_a_verdict_runs_what_it_is_about(case, monkeypatch, capsys):
    command, *arguments = shlex.split(case.reproduce)
    assert command == "ringside"
    monkeypatch.chdir(SOLUTION)
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    assert f"on {case.world_size} ranks of machine" in said
    assert "values: right" in said or "rank 0 returned" in said


@pytest.mark.parametrize(
    ("edit", "said", "not_said"),
    [
        (("/ (2 * repetitions)", "/ repetitions"), "time of a whole round trip", "1 ms late"),
        (
            (
                "    bounce(comm, message, 1, partner)\n    start_s = MPI.Wtime()\n",
                "    start_s = MPI.Wtime()\n    bounce(comm, message, 1, partner)\n",
            ),
            "a message takes 1.1e-06 s.",
            "1 ms late",
        ),
        (
            (
                "    message = np.zeros(nbytes, np.uint8)\n",
                "    if comm.rank not in (0, partner) or comm.size == 1:\n        return None\n"
                "    message, before_s = np.zeros(nbytes, np.uint8), MPI.Wtime()\n"
                "    late_s = before_s if comm.rank else comm.recv(source=partner)\n"
                "    comm.rank and comm.send(before_s, 0)\n",
                "/ (2 * repetitions)",
                "/ (2 * repetitions) + (late_s > 1e-4)",
            ),
            "right, but wrong if rank 1 comes 1 ms late: ping on 2 ranks",
            "whole round trip",
        ),
    ],
    ids=["not halved", "first trip timed", "late"],
)
def test_a_late_rank_is_blamed_only_for_what_it_does(tmp_path, edit, said, not_said):
    for name in (*assignment.load("a01_first_ranks").supplied, "test_public.py"):
        shutil.copy(SOLUTION / name, tmp_path)
    source = (SOLUTION / "ping.py").read_text()
    for old, new in zip(edit[::2], edit[1::2], strict=True):
        assert old in source
        source = source.replace(old, new)
    (tmp_path / "ping.py").write_text(source)
    report = public_tests.run(tmp_path, ["ping"])
    tests = {test["name"]: test for test in report.modules[0].tests}
    message = tests["test_who_comes_late_is_waited_for_first"]["message"]
    assert said in message
    assert not_said not in message


@pytest.mark.mpi
def test_a_first_job_earns_its_points(tmp_path, capfd):
    for path in SOLUTION.glob("*.py"):
        shutil.copy(path, tmp_path)
    target = f"{tmp_path / 'ping.py'}:bounce"
    words = ["--site", "local", "--set", "ranks_per_node=3", "--out", str(tmp_path)]
    assert cli.main(["launch", str(tmp_path / "first_job.py"), *words]) == 0
    told = [text for text in capfd.readouterr().out.splitlines() if text.startswith("rank ")]
    assert [text.split(": ")[0] for text in told] == ["rank 0", "rank 1", "rank 2"]
    asked = ["--", "--n", "1", "--n", "1000", "--repetitions", "20", "--partner", "2"]
    assert cli.main(["launch", target, *words, *asked]) == 0
    record = json.loads((tmp_path / "run.json").read_text())
    assert [entry["values"] for entry in record["measurements"]] == ["right", "right"]
    (run,) = assignment.load("a01_first_ranks").runs
    checked = cluster_run.check(run, tmp_path, (tmp_path / "ping.py").read_text())
    assert checked.points == checked.max_points == 5, checked.findings
