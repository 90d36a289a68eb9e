"""The references of a01, its broken programs, and a first job on this machine."""

import json
import shutil

import numpy as np
import pytest

from autograder.collect import cluster_run
from autograder.course import assignment, edits
from ringside import Machine, Session
from ringside.checking import case_files, inputs, public_tests
from ringside.commands import cli
from ringside.errors import DeadlockError, RankError
from solutions.a01_first_ranks import fit

SOLUTION = assignment.Course.here().kit / "solutions" / "a01_first_ranks"
EAGER = Machine.load("textbook").with_(eager_threshold_bytes=4096)


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


def lay(folder):
    """Lay the assignment's folder as a student has it, with all modules written."""
    for name in ("given", "checks"):
        shutil.copytree(SOLUTION / name, folder / name)
    for module in assignment.load("a01_first_ranks").modules:
        shutil.copy(SOLUTION / module.filename, folder)


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


def test_the_broken_ring_works_while_messages_are_short(session):
    def ring(n, world_size=4):
        inputs = [(np.full(n, float(rank)),) for rank in range(world_size)]
        return session.call("given/broken.py:exchange", world_size, inputs, machine=EAGER)

    assert [value[0] for value in ring(100).values] == [3, 0, 1, 2]
    assert isinstance(ring(1000).error, DeadlockError)
    assert "Under mpiexec this works only while" in str(ring(1000).error)


def test_the_broken_mean_has_two_mistakes(session, tmp_path):
    inputs = [(np.arange(rank + 1.0),) for rank in range(3)]
    error = session.call("given/broken.py:mean_and_deviation", 3, inputs).error
    assert "rank 1 calls bcast where rank 0 calls reduce" in str(error)
    half = edits.one(SOLUTION, "mend__mean_empty_ranks_still_leave")
    (tmp_path / "mend.py").write_text(half.source)
    with Session(tmp_path) as other:
        assert other.call("mend:mean_and_deviation", 3, inputs).error is None
        inputs[1] = (np.empty(0),)
        assert isinstance(other.call("mend:mean_and_deviation", 3, inputs).error, DeadlockError)


def test_the_broken_collect_has_two_races(session, tmp_path):
    rows = [(np.full((2, 1), rank + 1.0) * [[1], [10]],) for rank in range(4)]
    error = session.call("given/broken.py:collect", 4, rows).error
    assert isinstance(error, RankError) and error.type_name == "BufferRaceError"
    wrong = edits.one(SOLUTION, "mend__collect_any_source_still")
    (tmp_path / "mend.py").write_text(wrong.source)
    right = np.array([row for (row,) in rows]) ** 2
    with Session(tmp_path) as other:
        days = [other.call("mend:collect", 4, rows, seed=seed).values[0] for seed in (1, 2)]
    for day in days:  # every row is there, some in another's place
        assert sorted(day.ravel()) == sorted(right.ravel())
    assert not all(np.array_equal(day, right) for day in days)


def test_a_broken_program_is_run_with_its_cases(capsys, monkeypatch):
    monkeypatch.chdir(SOLUTION)
    words = ["run", "given/broken.py:exchange", "--ranks", "3", "--machine"]
    machine = "textbook,eager_threshold_bytes=4096"
    assert cli.main([*words, machine, "--", "--n", "5"]) == 0
    assert "values: right" in capsys.readouterr().out
    assert cli.main([*words, machine, "--", "--n", "5000"]) == 1
    assert "all 3 ranks are blocked" in capsys.readouterr().out


def test_a_run_on_another_machine_knows_its_nodes(capsys, monkeypatch):
    monkeypatch.chdir(SOLUTION)
    words = ["run", "where.py:where", "--ranks", "5", "--machine"]
    assert cli.main([*words, "textbook,ranks_per_node=3", "--", "--visible", "0,1"]) == 0
    said = capsys.readouterr().out
    assert "rank 4: host node1, local rank 1, GPU 1" in said
    assert "3 ranks a node, visible = '0,1'" in said and "values: right" in said


def test_a_job_compares_what_is_known_before_it():
    def case(function):
        found = inputs.case_of(SOLUTION / "ping.py", function, 3, inputs.Options(n=4))
        assert found is not None
        return found.right()[0]

    assert case("ping") is None
    assert case("bounce").shape == (4,)


@pytest.mark.parametrize(
    ("edit", "said", "not_said"),
    [
        (("/ (2 * repetitions)", "/ repetitions"), "time of a whole round trip", "1 ms late"),
        (
            (
                "    bounce(comm, message, 1, partner)\n    start_s = MPI.Wtime()\n",
                "    start_s = MPI.Wtime()\n    bounce(comm, message, 1, partner)\n",
            ),
            "the first one left out, is 1.1e-06 s.",
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
            "repetitions 2: right, but wrong if rank 1 comes 1 ms late: rank 0 returned",
            "whole round trip",
        ),
    ],
    ids=["not halved", "first trip timed", "late"],
)
def test_a_late_rank_is_blamed_only_for_what_it_does(tmp_path, edit, said, not_said):
    lay(tmp_path)
    source = (SOLUTION / "ping.py").read_text()
    for old, new in zip(edit[::2], edit[1::2], strict=True):
        assert old in source
        source = source.replace(old, new)
    (tmp_path / "ping.py").write_text(source)
    name = "test_who_comes_late_is_waited_for_first"
    report = public_tests.run(tmp_path, ["ping"], name)
    (test,) = report.modules[0].tests
    assert said in test.message
    assert not_said not in test.message


@pytest.mark.mpi
def test_a_first_job_earns_its_points(tmp_path, capfd):
    lay(tmp_path)
    target = f"{tmp_path / 'ping.py'}:bounce"
    words = ["--site", "local", "--set", "ranks_per_node=3", "--out", str(tmp_path)]
    assert cli.main(["launch", str(tmp_path / "where.py"), *words]) == 0
    told = [text for text in capfd.readouterr().out.splitlines() if text.startswith("rank ")]
    assert [text.split(": ")[0] for text in told] == ["rank 0", "rank 1", "rank 2"]
    asked = ["--", "--n", "1", "--n", "1000", "--repetitions", "20", "--partner", "2"]
    assert cli.main(["launch", target, *words, *asked]) == 0
    record = json.loads((tmp_path / "run.json").read_text())
    assert [entry["values"] for entry in record["measurements"]] == ["right", "right"]
    (run,) = assignment.load("a01_first_ranks").runs
    checked = cluster_run.check(run, tmp_path, (tmp_path / "ping.py").read_text())
    assert checked.points == checked.max_points == 5, checked.findings
