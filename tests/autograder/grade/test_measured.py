"""Measured speedup: what intervals say, and real ranks of two modules that take turns."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, Band, MeasuredSpec, ModuleSpec
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.grade import scores_csv
from autograder.grade.cluster import measured_array
from autograder.grade.measured import local_class, measurement
from autograder.grade.measured.hardware import cores, num_gpus
from autograder.grade.measured.intervals import Interval, credit, median_interval
from autograder.grade.measured.measurement import Measurement, measure
from autograder.grade.measured.world import Disturbed, World, room
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.report import feedback, rendering
from autograder.sandbox.bubblewrap import arguments
from autograder.sandbox.sandbox import Tier, best_tier
from ringside.checking import inputs
from ringside.errors import RingsideError
from ringside.jobs.launch.sites import Site

MODULE = """
import numpy as np

A = np.linspace(0, 1, 90_000).reshape(300, 300)
B = np.tile(A, 32)

def work(times):
    A @ B[:, : 300 * times]

def all_reduce(comm, x):
    work(4)
    return comm.allreduce(x)
"""
SLOW = MODULE.replace("work(4)", "work(32)")
SPEC = MeasuredSpec("one", "all_reduce", "one.py", ranks=2, n=1000, pairs=6, noise=1e9, points=4)


def toy() -> Assignment:
    return Assignment(
        "a99_toy", "A toy", (ModuleSpec("one", "One", 100, 1, False),), (), (), (), (), None, None
    )


@pytest.fixture
def sandboxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real ranks; on a busy machine nothing is too short here, since nobody looks at seconds."""
    monkeypatch.setattr(measurement, "MOST_SHARE", 1e9)
    if best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP:
        pytest.skip("real ranks need bubblewrap (Debian: apt-get install bubblewrap)")
    if len(cores()) < 2:
        pytest.skip("two ranks want two cores")


def compared(
    tmp_path: Path, student: str, spec: MeasuredSpec = SPEC, **options: float
) -> Measurement:
    reference = tmp_path / "reference"
    reference.mkdir()
    (reference / "one.py").write_text(MODULE)
    return measure(toy(), spec, {"one": student}, reference, **options)  # type: ignore[arg-type]


# -- intervals and credit ------------------------------------------------------------------------


def test_interval_of_a_median_is_as_sure_as_it_says() -> None:
    rng = np.random.default_rng(5)
    draws = rng.lognormal(size=(2000, 16))  # the median is 1
    found = [median_interval(list(map(float, row)), 0.95) for row in draws]
    held = sum(each.low <= 1 <= each.high for each in found) / len(found)
    assert found[0].confidence == pytest.approx(0.9787, abs=1e-4)
    assert held == pytest.approx(found[0].confidence, abs=0.015)


def test_few_values_give_their_extremes_and_say_how_sure_that_is() -> None:
    assert median_interval([2.0, 1.0, 3.0], 0.95) == Interval(2.0, 1.0, 3.0, 0.75)
    with pytest.raises(ValueError, match="at least one"):
        median_interval([], 0.95)


@pytest.mark.parametrize(
    ("low", "high", "earned", "straddled"),
    [(0.9, 1.0, 1.0, ""), (1.05, 1.3, 1.0, "1.15"), (1.2, 1.4, 0.5, ""), (1.4, 1.9, 0.5, "1.5"),
     (1.6, 9.0, 0.0, "")],
)  # fmt: skip
def test_an_interval_that_straddles_a_bound_has_the_better_side(
    low: float, high: float, earned: float, straddled: str
) -> None:
    found, doubt = credit(Interval(low, low, high, 0.95), (Band(1.15, 1.0), Band(1.5, 0.5)))
    assert found == earned
    assert straddled in doubt
    assert bool(doubt) == bool(straddled)


def judged(student: list[float], reference: list[float], around: float = 0.0) -> Measurement:
    record = Measurement(
        "one", "all_reduce", 2, 1000, 4.0, student_s=student, reference_s=reference
    )
    record.around_s = around
    measurement.judge(MeasuredSpec("one", "all_reduce", "one.py", 2, 9, points=4), record)
    return record


def test_what_surrounds_a_call_is_no_part_of_the_ratio() -> None:
    record = judged([3.0] * 8, [2.0] * 8, around=0.5)
    assert record.ratio == pytest.approx(2.5 / 1.5)
    assert (record.status, record.credit, record.points) == ("measured", 0.0, 0.0)
    assert judged([2.0] * 8, [2.0] * 8).points == 4


def test_a_machine_on_which_the_reference_is_uneven_is_refused() -> None:
    with pytest.raises(measurement.Refused, match=r"itself lies between 0\.5 and 2"):
        judged([1.0] * 16, [1.0, 2.0, 2.0, 1.0] * 4)


def test_calls_that_are_mostly_handing_over_are_refused() -> None:
    with pytest.raises(measurement.Refused, match="too short to measure"):
        judged([1.0] * 8, [1.0] * 8, around=0.6)


# -- the plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", plans.known())
def test_what_assignments_ask_to_measure_has_arguments(name: str) -> None:
    for spec in plans.load(name).measured:
        path = Path(__file__).resolve().parents[3] / "solutions" / name / spec.file
        options = inputs.Options(min(spec.n, 64), spec.dtype, 3, spec.options)
        assert len(inputs.arguments(path, spec.function, spec.ranks, options)) == spec.ranks
        assert spec.points == 0  # a course gives them, not we


@pytest.mark.parametrize(
    ("change", "message"),
    [("ranks = 1", "at least 2 ranks"), ("pairs = 7", "even number"), ("speed = 3", "no such key"),
     ('file = "../one.py"', "no function's name"), ("bands = [[1.1, 2.0]]", "between 0 and 1")],
)  # fmt: skip
def test_a_wrong_entry_is_refused(change: str, message: str) -> None:
    entry = {"module": '"one"', "function": '"f"', "ranks": "2", "n": "9"}
    key, _, value = change.partition(" = ")
    lines = [f"{name} = {text}" for name, text in {**entry, key: value}.items()]
    with pytest.raises(ValueError, match=message):
        plans.measured_spec(tomllib.loads("\n".join(lines)))


# -- real ranks ----------------------------------------------------------------------------------


@pytest.mark.sandbox
@pytest.mark.mpi
def test_a_module_that_does_eight_times_the_work_is_seen(sandboxed: None, tmp_path: Path) -> None:
    record = compared(tmp_path, SLOW)
    assert record.status == "measured", record.message
    assert record.ratio is not None and record.low is not None and record.high is not None
    assert statistics.median(record.student_s) > 2 * statistics.median(record.reference_s)
    assert record.low <= record.ratio <= record.high
    assert (record.credit, record.points, record.max_points) == (0.0, 0.0, 4.0)
    assert len(record.student_s) == len(record.reference_s) == 6


CHEAT = (
    SLOW
    + """
import os, signal, threading, time
time.perf_counter = time.monotonic = time.time = time.perf_counter_ns = lambda: 0
kept = []

def spin():
    while True:
        kept.append(None)
        kept.clear()

def attempt(call, *args):
    try:
        call(*args)
    except OSError:
        return
    raise SystemExit("that must not be allowed")

attempt(os.sched_setaffinity, 0, range(64))
attempt(os.kill, os.getppid(), signal.SIGCONT)
attempt(os.fork)
for _ in range(2):
    threading.Thread(target=spin, daemon=True).start()
"""
)


@pytest.mark.sandbox
@pytest.mark.mpi
def test_stopped_clocks_and_busy_threads_slow_their_owner_alone(
    sandboxed: None, tmp_path: Path
) -> None:
    record = compared(tmp_path, CHEAT)
    assert record.status == "measured", record.message
    assert statistics.median(record.student_s) > 2 * statistics.median(record.reference_s)


EARLY = """
import threading
import time
import numpy as np

def all_reduce(comm, x):
    result = np.zeros_like(x)

    def later():
        time.sleep(0.2)
        result[:] = comm.allreduce(x)

    threading.Thread(target=later).start()
    return result
"""


@pytest.mark.sandbox
@pytest.mark.mpi
@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        (MODULE.replace("allreduce(x)", "allreduce(x) + 1"), "wrong values", "rank 0's result"),
        (EARLY, "wrong values", "is not the reference's"),
        (MODULE + "\nall_reduce = lambda comm, x: comm.recv()", "failed", r"in time \(rank 0, 1\)"),
        (MODULE.replace("work(4)", "1 / 0"), "failed", "raised ZeroDivisionError"),
        ("import os\nos._exit(0)", "failed", "ended, or answered"),
    ],
    ids=["wrong", "early", "hang", "raises", "exits"],
)
def test_nothing_is_said_about_time_unless_the_values_are_right(
    sandboxed: None, tmp_path: Path, source: str, status: str, message: str
) -> None:
    record = compared(tmp_path, source, patience_s=2.0)
    assert record.status == status, record.message
    assert record.ratio is None and record.credit == 0
    assert re.search(message, record.message), record.message


def test_more_ranks_than_cores_are_refused(tmp_path: Path) -> None:
    record = compared(tmp_path, MODULE, ranks=1000)
    assert record.status == "refused"
    assert "cores and 1000 ranks want one each" in record.message


@pytest.mark.sandbox
@pytest.mark.mpi
def test_a_world_that_runs_out_of_turn_is_found_out(sandboxed: None, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(CHEAT)
    arguments = [(np.ones(3),)] * 2
    size = room(arguments)
    with World(tmp_path, "one:all_reduce", 2, launcher="mpiexec", room=size) as world:
        world.begin(60.0)
        window = world.call(arguments, 20.0)
        np.testing.assert_array_equal(window.values, [[2.0] * 3] * 2)
        world.check_still()
        # From outside, as no rank can: were one awake, its clock would tell.
        for process in world.processes:
            os.kill(process.pid, signal.SIGCONT)
        with pytest.raises(Disturbed, match="ms of CPU time were used"):
            for _ in range(1000):
                world.check_still()


TORCH = """
import torch.distributed as dist

def all_reduce(group, x):
    dist.all_reduce(x, group=group)
"""


def test_fewer_gpus_than_ranks_are_refused(
    sandboxed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (tmp_path / "one.py").write_text(TORCH)
    record = measure(toy(), SPEC, {"one": TORCH}, tmp_path, gpus=True)
    assert (record.status, record.launcher) == ("refused", "nccl")
    assert "gives this job 1 GPUs and 2 ranks want one each" in record.message


def test_gpus_are_shown_inside_before_devices_become_read_only() -> None:
    gpu = Path("/dev/nvidia0")
    options = arguments(binds={}, env={}, limits=Limits(), as_root=True, devices=[gpu])
    at = options.index("--dev-bind")
    assert options[at + 1 : at + 3] == [str(gpu), str(gpu)]
    assert options.index("--dev") < at < options.index("--remount-ro")


def test_a_driver_in_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    (tmp_path / "empty.c").touch()
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-o", library, tmp_path / "empty.c"], check=True)
    code = "from autograder.grade.measured.hardware import driver_folder; print(driver_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path)


@pytest.mark.sandbox
@pytest.mark.mpi
def test_worlds_may_also_be_made_for_each_turn_as_gpus_want_it(
    sandboxed: None, tmp_path: Path
) -> None:
    for name, source in (("student", SLOW), ("reference", MODULE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text(source)
    pair = measurement.Pair(
        SPEC, 2, tmp_path / "student", tmp_path / "reference",
        trusted=True, patience_s=20.0, launcher="mpiexec", alone=True,
    )  # fmt: skip
    pair.start()
    theirs, ours = pair.turn(student_first=True)
    assert theirs > 0 and ours > 0
    assert pair.tier in Tier.IN_BUBBLEWRAP
    assert not pair.worlds


@pytest.mark.gpu
@pytest.mark.sandbox
def test_one_rank_of_nccl_in_the_sandbox_gives_values(tmp_path: Path) -> None:
    if not num_gpus():
        pytest.skip("needs a GPU")
    (tmp_path / "one.py").write_text(TORCH)
    given = [(np.arange(1000.0),)]
    with World(tmp_path, "one:all_reduce", 1, launcher="nccl", room=room(given)) as world:
        world.begin(120.0)
        (value,) = world.call(given, 60.0).values
        np.testing.assert_array_equal(value, given[0][0])


# -- in the reports --------------------------------------------------------------------------------


def test_what_was_measured_stands_beside_the_score_and_never_in_it(tmp_path: Path) -> None:
    plan = replace(toy(), measured=(SPEC,))
    results = {"one": ModuleResult("one", [TestResult("t", "values", 100.0, 100.0)])}
    outcome = Outcome("ada", "graded", results=results, modules={"one": MODULE})
    before = outcome.as_json(plan)
    assert "measured" not in before
    record = judged([1.2] * 8, [1.0] * 8)
    outcome.measured = [asdict(record)]
    after = outcome.as_json(plan)
    assert {key: after[key] for key in before} == before
    json.dumps(after, allow_nan=False)
    (entry,) = after["measured"]
    assert (entry["credit"], entry["points"], entry["max_points"]) == (0.5, 2.0, 4.0)
    scores_csv.write(tmp_path / "out.csv", plan, [outcome])
    (row,) = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    assert (row["score"], row["measured_points"]) == ("100.0", "2.0")
    assert row["measured_one_all_reduce_1000"] == "1.2"
    page = rendering.render(feedback.page_of(plan, outcome))
    assert "1.2 times the reference" in page
    assert "2 of 4 beside the score" in page
    assert "100</strong> <span" in page


@pytest.mark.parametrize(
    ("earned", "modules", "message"),
    [(90.0, {"one": MODULE}, "Tests of its values fail"), (100.0, {}, "was not written")],
)
def test_a_module_without_right_values_is_not_measured(
    earned: float, modules: dict[str, str], message: str
) -> None:
    plan = replace(toy(), measured=(SPEC,))
    outcome = Outcome("ada", "graded", modules=modules)
    outcome.results = {"one": ModuleResult("one", [TestResult("t", "values", 100.0, earned)])}
    said: list[str] = []
    local_class.measure_class(plan, [outcome], Course.here(), say=said.append)
    assert outcome.measured is not None
    assert message in outcome.measured[0]["message"]
    assert said == [f"ada, one: not measured: {outcome.measured[0]['message']}"]


# -- on a cluster ----------------------------------------------------------------------------------


def test_the_arrays_tasks_have_a_core_a_rank_and_one_for_the_clock() -> None:
    course = Course(kit=Path("/kit"), root=Path("/course"))
    plan, site = replace(toy(), measured=(replace(SPEC, ranks=8),)), Site.load("zaratan")
    settings = site.settings([], {})
    made = measured_array.array(plan, [Path("/a"), Path("/b")], course, site, settings, nodes=2)
    lines = made.script().splitlines()
    assert "#SBATCH --cpus-per-task=9" in lines
    assert "#SBATCH --array=0-1%2" in lines
    assert any(line.strip() == "--jobs 9 --measured" for line in lines)
    with_gpus = measured_array.array(
        plan, [Path("/a")], course, site, settings, ranks=4, gpus=True, trusted=True
    ).script()
    assert "--trust-submissions --measured --ranks 4 --gpus\n" in with_gpus
    assert re.search(r"^#SBATCH --gres=gpu.*:4$", with_gpus, re.MULTILINE)


@pytest.mark.parametrize("text", ["", "{}", '{"submissions": [{"measured": [{"credit": 1}]}]}'])
def test_a_task_that_left_no_record_takes_nothing_from_anybody(tmp_path: Path, text: str) -> None:
    path = tmp_path / "0.json"
    path.write_text(text)
    plan = replace(toy(), measured=(SPEC,))
    (record,) = measured_array.records(plan, path, None)
    assert (record["status"], record["credit"]) == ("not measured", 0.0)
    assert record["message"].startswith("Task 0 of the job left no record")


def test_a_course_that_nodes_cannot_see_is_refused() -> None:
    course = Course(kit=Path("/kit"), root=Path("/tmp/course"))
    plan, site = replace(toy(), measured=(SPEC,)), Site.load("zaratan")
    with pytest.raises(RingsideError, match="every node has a /tmp of its own"):
        measured_array.array(plan, [], course, site, site.settings([], {}))


def test_words_about_measuring_want_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["grade", "a03_allreduce", ".", "--nodes", "3"]) == 2
    assert "--nodes says how to measure: it wants --measured too." in capsys.readouterr().err
