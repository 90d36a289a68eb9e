"""Grading a folder of modules: points, sentences, what is the student's fault and what is ours."""

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from autograder.author.verify import verify
from autograder.course import assignment as assignments
from autograder.course import edits
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.grade import grading
from autograder.grade.grading import grade_module, run_suite, sources_in, staged
from autograder.grade.suite import collected
from autograder.grade.suite.calls import Mpi, Ranks
from autograder.grade.suite.job import SuiteJob
from autograder.grade.suite.reality import (
    RanksDoNotEnd,
    RanksEnded,
    RealityError,
    RealityUnavailable,
)
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.imports import imports_package
from autograder.sandbox.allowance import Allowance
from ringside import Machine, Session
from ringside.checking import (
    Verdict,
    assert_array,
    assert_makespan,
    award,
    one_line,
)
from ringside.checking import verify as check
from ringside.checking.cases import Vectors
from ringside.checking.real_calls import RealRun
from ringside.errors import RunError
from ringside.network.processes import of_tree
from tests.requirements import lay_requirements

KIT = Path(__file__).resolve().parents[3]
SOLUTION = KIT / "solutions" / "a03_allreduce"
PLAN = assignments.load("a03_allreduce")
MODULES = [spec.name for spec in PLAN.modules]
COST = {"cost": (SOLUTION / "cost.py").read_text(encoding="utf-8")}


def grade(source, module, **options):
    """The result of one module's source, without a sandbox."""
    with staged(PLAN, {module: source}) as stage:
        return run_suite(PLAN, module, stage, secret="s", sandbox=False, **options)


def by_name(record):
    assert record.error is None
    return {test.name: test for test in record.tests}


def points_of(module):
    """What each test of a suite is worth."""
    tests = collected.of_assignment(PLAN, Course.here())
    return {test.name: test.points for test in tests if test.module == module}


@pytest.mark.parametrize("module", MODULES)
def test_every_suite_is_worth_100_points(module):
    assert sum(points_of(module).values()) == pytest.approx(100)


def test_wrong_submissions_are_many_and_name_tests_that_exist():
    subjects = verify.subjects(PLAN)
    wrong = [each for each in subjects if each.kind == "wrong"]
    assert len(wrong) >= 30
    assert len([each for each in subjects if each.kind == "right"]) >= 12
    for each in wrong:
        assert each.fails in points_of(each.module), each.name


def test_reference_star_gets_full_marks_and_counts_stand_beside_the_bound():
    record = grade((SOLUTION / "star.py").read_text(encoding="utf-8"), "star")
    tests = by_name(record)
    assert record.score == 100
    first = record.counts[0]
    assert first["case"] == "all_reduce on 4 ranks, n = 37, float64"
    assert first["sent_bytes"] == first["allowed"]["sent_bytes"] == [3 * 296, 296, 296, 296]
    assert "<svg" in record.timeline_svg
    # Tests that look at the same runs have used the same worlds.
    for name in ("test_bytes_per_rank", "test_messages_go_through_rank_0"):
        assert tests[name].world_sizes == [2, 3, 4, 5, 6, 7, 8, 12, 17, 36]
    assert tests["test_real_mpi"].world_sizes == [3, 4]


def test_the_same_module_gives_the_same_record_but_for_real_seconds():
    source = edits.one(SOLUTION, "star__only_master_gets_the_sum").source
    records = [grade(source, "star") for _ in range(2)]
    for record in records:
        for test in record.tests:
            test.seconds = 0.0
    assert records[0] == records[1]


def test_a_failure_says_what_is_wrong_and_how_to_see_it():
    source = edits.one(SOLUTION, "star__only_master_gets_the_sum").source
    tests = by_name(grade(source, "star"))
    failed = tests["test_sum_on_2_4_and_8_ranks"]
    assert failed.earned == 0
    assert re.fullmatch(
        r"all_reduce on 2 ranks, n = 1, float64: rank 1's result is wrong in 1 of 1 elements: "
        r"element 0 is \S+; it must be \S+\. The wrong element is rank 1's own part alone\.",
        failed.message,
    )
    line = "ringside check star --test sum_on_2_4_and_8_ranks --case"
    assert re.fullmatch(rf'{line} "p=2 seed=\d+ n=1"', failed.reproduce)
    # Wrong values earn nothing for sending little.
    assert all(tests[name].earned == 0 for name in tests if "bytes" in name or "time" in name)


def test_a_cycle_of_sends_is_told_from_wrong_values():
    source = edits.one(SOLUTION, "ring__send_cycle").source
    tests = by_name(grade(source, "ring"))
    assert tests["test_sum_on_2_4_and_8_ranks"].is_full
    failed = tests["test_sends_may_wait_for_their_receives"]
    assert "works only while messages stay below 65536 bytes" in failed.message
    assert "rank 0  Send(dest=1, tag=0)" in failed.detail


def test_the_stub_earns_nothing_and_says_so():
    source = verify.stub((SOLUTION / "star.py").read_text(encoding="utf-8"))
    assert "comm.Recv" not in source
    tests = by_name(grade(source, "star"))
    assert all(test.earned == 0 for test in tests.values())
    assert "raised NotImplementedError" in tests["test_bytes_per_rank"].message


def test_a_module_that_cannot_be_imported_earns_nothing():
    tests = by_name(grade("def all_reduce(comm, x)\n    return x\n", "star"))
    assert all(test.earned == 0 for test in tests.values())
    assert "SyntaxError" in tests["test_bytes_per_rank"].message


def test_a_hang_costs_its_time_once():
    source = "def all_reduce(comm, x):\n    while True:\n        pass\n"
    record = grade(source, "star", limits=Limits(cpu_s=1.0))
    tests = by_name(record)
    assert all(test.earned == 0 for test in tests.values())
    first = tests["test_sum_on_2_4_and_8_ranks"].message
    assert "did not end within 1 s of CPU time, which a module's calls have together." in first
    assert not record.ended_by_clock
    last = tests["test_time_with_long_vectors"].message
    assert last == "not run: an earlier call did not end (star:all_reduce on 2 ranks)."


def test_text_of_a_students_exception_is_one_short_line():
    source = 'def all_reduce(comm, x):\n    raise ValueError("a\\x1b[2J\\n" * 1000)\n'
    tests = by_name(grade(source, "star"))
    message = tests["test_bytes_per_rank"].message
    assert message.isprintable()
    assert len(message) < 400


def test_missing_modules_score_nothing_and_say_so():
    result = grade_module("a03_allreduce", {"cost": ""}, "ring", secret="s", sandbox=False)
    assert (result.error, result.score) == (None, 0)
    (test,) = result.tests
    assert test.points == 100 and test.message.startswith("ring.py is not there")
    assert ModuleResult.from_json(json.loads(json.dumps(asdict(result)))) == result


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    (tmp_path / "cost.py").symlink_to(SOLUTION / "cost.py")
    assert sources_in(PLAN, tmp_path) == {}


def test_a_suite_that_breaks_is_our_fault_and_no_zero(tmp_path, monkeypatch):
    monkeypatch.setattr("autograder.grade.grading.PYTEST_INI", tmp_path / "nowhere")
    result = grade_module("a03_allreduce", COST, "cost", secret="s", sandbox=False)
    assert result.error.startswith("a03_allreduce/cost: cost: the suite left no record")


@pytest.mark.parametrize(
    ("suite", "error"),
    [
        (None, "0 of the 0 tests of cost's suite have run"),
        (
            "import pytest\n"
            "from ringside.checking.points import shows\n"
            "@shows('one', 'values', 'cost')\n"
            "def test_one(): pass\n"
            "@shows('two', 'values', 'cost')\n"
            "def test_two(): pytest.exit('interrupted')\n",
            "1 of the 2 tests of cost's suite have run",
        ),
    ],
    ids=["no file", "interrupted"],
)
def test_a_suite_that_has_not_run_whole_is_no_zero(tmp_path, monkeypatch, suite, error):
    path = tmp_path / "checks" / "test_cost.py"
    path.parent.mkdir()
    if suite:
        path.write_text(suite)
        lay_requirements(path.parent, "cost", one=50, two=50)
    monkeypatch.setattr("autograder.grade.grading.suite_of", lambda *_: path)
    result = grade_module("a03_allreduce", COST, "cost", secret="s", sandbox=False)
    assert error in result.error


def test_judge_wants_the_named_test_to_fail():
    subject = verify.Subject("wrong", "ring", "ring__x", "", fails="test_a")
    tests = [
        TestResult("test_a", "values", 60, 60),
        TestResult("test_b", "safety", 40, 0, "hangs."),
    ]
    finding = verify.judge(subject, ModuleResult("ring", tests))
    assert not finding.ok
    assert finding.sentence == "passes test_a; fails test_b"
    assert not finding.killed_by_values
    tests[0].earned = 0
    assert verify.judge(subject, ModuleResult("ring", tests)).ok
    assert not verify.judge(subject, ModuleResult("ring", tests, error="a fault of ours")).ok


def test_after_a_call_that_did_not_end_nothing_is_run(tmp_path):
    (tmp_path / "m.py").write_text(
        "import time\n\ndef f(comm, x):\n    time.sleep(x)\n    return x\n"
    )
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    allowance = Allowance(Limits(sleep_s=0.5))
    with Session(tmp_path, patience=allowance) as session:
        allowance.watch(lambda: of_tree(session.process))
        ranks = Ranks(session, ModuleResult("m"), job, allowance)
        assert ranks.call("m:f", 2, (0.0,)).values == [0.0, 0.0]
        asleep = ranks.call("m:f", 2, [(0.0,), (1e6,)])
        assert str(asleep.error).startswith("the run did not end while its ranks slept for 0.5 s.")
        assert asleep.error.still[1].startswith("rank 1")
        with pytest.raises(Verdict, match=r"an earlier call did not end \(m:f on 2 ranks\)"):
            ranks.call("m:f", 2, (0.0,))


def test_a_suite_may_trace_on_fake_tensors_until_a_call_did_not_end(tmp_path):
    (tmp_path / "m.py").write_text(
        "import torch\nimport torch.distributed as dist\n\n"
        "def f(group, n):\n    x = torch.ones(n)\n    dist.all_reduce(x, group=group)\n"
    )
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    with Session(tmp_path) as session:
        ranks = Ranks(session, ModuleResult("m"), job, Allowance(Limits()))
        traced = ranks.trace("m:f", 64, (5,), grid={"rank": 64}, alike=("rank",))
        assert (traced.trace.world_size, traced.num_kinds) == (64, 1)
        with pytest.raises(RunError):
            ranks.trace("m:f", 2, ("five",))
        ranks._endless = "m:f on 2 ranks"
        with pytest.raises(Verdict, match=r"an earlier call did not end \(m:f on 2 ranks\)"):
            ranks.trace("m:f", 2, (5,))


def test_a_rank_that_waits_in_a_receive_may_sleep_as_long_as_another_works(tmp_path):
    (tmp_path / "m.py").write_text(
        "import time\n\ndef f(comm, busy_s):\n"
        "    if comm.rank:\n        return comm.recv(source=0)\n"
        "    while time.process_time() < busy_s: pass\n"
        "    comm.send(1, dest=1)\n"
    )
    allowance = Allowance(Limits(sleep_s=0.25))
    with Session(tmp_path, patience=allowance) as session:
        allowance.watch(lambda: of_tree(session.process))
        assert session.call("m:f", 2, (1.0,)).values == [None, 1]


def test_what_the_clock_has_ended_is_flagged_in_the_record():
    source = "import time\n\ndef all_reduce(comm, x):\n    time.sleep(60)\n"
    limits = Limits(cpu_s=60.0, sleep_s=60.0, clock_s=0.1)
    record = grade(source, "star", limits=limits)
    assert all(test.earned == 0 for test in by_name(record).values())
    assert record.ended_by_clock
    assert "It was ended by the clock (0.1 s)" in record.flags[0]


# -- the checks that public and hidden tests share -------------------------------------------------


def test_a_verdict_carries_sentence_fraction_and_line():
    with pytest.raises(Verdict, match="it is wrong") as caught:
        check(False, "it is wrong", detail="a detail")
    assert caught.value.fraction == 0
    caught.value.reproduce = "ringside check ring"
    assert str(caught.value) == "it is wrong\n  a detail\n  ringside check ring"
    with pytest.raises(Verdict) as caught:
        award(0.5, "half")
    assert caught.value.fraction == 0.5
    award(1.0, "all")


def test_integers_are_compared_exactly_and_floats_by_what_rounding_allows():
    case = Vectors(2, n=1)
    big = np.array([2**60 + 1])
    with pytest.raises(Verdict, match="it must be 1152921504606846977"):
        assert_array(big - 1, big, None, case, "rank 0's result")
    one = np.array([1.0])
    assert_array(one + 1e-15, one, one, case, "rank 0's result")
    for wrong in (one + 1e-14, np.array([np.nan])):
        with pytest.raises(Verdict, match="wrong in 1 of 1 elements"):
            assert_array(wrong, one, one, case, "rank 0's result")
    with pytest.raises(Verdict, match="has dtype float64; it must be float32"):
        assert_array(one, one.astype("float32"), None, case, "rank 0's result")
    with pytest.raises(Verdict, match="is None; it must be a NumPy array"):
        assert_array(None, one, None, case, "rank 0's result")


def test_inputs_differ_between_ranks_and_fill_an_int64():
    case = Vectors(4, n=50, dtype="int64", seed=1)
    vectors = [case.vector(rank) for rank in range(4)]
    assert len({vector.tobytes() for vector in vectors}) == 4
    assert max(int(np.abs(vector).max()) for vector in vectors) > 2**53
    assert abs(sum(vector.astype(object) for vector in vectors)).max() < 2**63


def test_makespan_is_full_half_or_none(tmp_path):
    (tmp_path / "pair.py").write_text(
        "import numpy as np\n"
        "def swap(comm, x):\n"
        "    y = np.empty_like(x)\n"
        "    comm.Sendrecv(x, 1 - comm.rank, recvbuf=y, source=1 - comm.rank)\n"
        "    return y\n"
    )
    machine = Machine("m", alpha_s=1e-6, beta_s_per_byte=1e-9)
    with Session(tmp_path) as session:
        result = session.call("pair:swap", 2, [(np.zeros(125),)] * 2, machine=machine)
    case = Vectors(2, n=125)
    assert_makespan(result, 2e-6, case)  # alpha + 1000 bytes
    for bound_s, fraction in ((1.5e-6, 0.5), (1e-6, 0.0)):
        with pytest.raises(Verdict, match=r"took 2.0 µs, \d\.\d\d times") as caught:
            assert_makespan(result, bound_s, case)
        assert caught.value.fraction == fraction


def test_one_line_makes_student_text_harmless():
    assert one_line("a\nb\x00\x1b[31m\tc") == "a b [31m c"
    assert len(one_line("x" * 1000)) == 160


def test_calls_that_do_endlessly_much_are_no_longer_made(tmp_path):
    (tmp_path / "m.py").write_text("def f(comm, x):\n    comm.Barrier()\n    return x\n")
    limits = asdict(Limits(calls_operations=3))
    job = SuiteJob(
        "m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False, limits=limits
    )
    with Session(tmp_path) as session:
        ranks = Ranks(session, ModuleResult("m"), job, Allowance(Limits()))
        assert ranks.call("m:f", 2, (1,)).values == [1, 1]
        with pytest.raises(Verdict, match="not run: earlier calls made more than 3 operations"):
            ranks.call("m:f", 2, (1,))


def test_inputs_are_others_where_a_module_that_is_imported_is_another(tmp_path):
    plan = assignments.load("a03_allreduce")

    def of(**texts):
        for name in ("ring", "star", "tree"):
            (tmp_path / f"{name}.py").write_text(texts.get(name, ""))
        return grading._hash("ring", grading._sources(plan, "ring", tmp_path))

    alone = of(ring="from star import f")
    assert alone != of(ring="from star import f", star="raise ValueError(x)")
    assert alone == of(ring="from star import f", tree="raise ValueError(x)")
    assert of(ring="x = 1") == of(ring="x = 1", star="y") == hashlib.sha256(b"x = 1").hexdigest()


@pytest.mark.parametrize(
    ("reference", "again", "kind"),
    [
        ([None], RanksEnded("ended"), Verdict),
        ([None], [None], RealityError),  # the second time it answers: nobody can tell
        (RanksEnded("ended"), RanksEnded("ended"), RealityError),
        ([RunError("it fails")], RanksEnded("ended"), RealityError),
    ],
)
def test_real_ranks_that_end_are_the_modules_fault_where_the_references_do_not(
    tmp_path, reference, again, kind
):
    (tmp_path / "m.py").write_text("def f(comm, x):\n    return x\n")
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)

    class Answering:
        launcher = "mpiexec"

        def __init__(self, answers):
            self.answers = answers

        def of(self, folder):
            return Answering([reference])

        def call_all(self, calls, soon=False):
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return [RealRun([1, 2], error) for error in answer]

    with Session(tmp_path) as session:
        ranks = Ranks(session, ModuleResult("m"), job, Allowance(Limits()))
        mpi = Mpi(Answering([RanksEnded("ended"), again]), ranks, tmp_path)
        with pytest.raises(kind, match="ended"):
            mpi.call_all([("m:f", 2, [(1,), (2,)])])


class Hanging:
    """Real ranks that don't end, but perhaps for the reference."""

    launcher = "mpiexec"

    def __init__(self, reference, allowance):
        self.reference, self.allowance = reference, allowance
        self.tries = []

    def of(self, folder):
        return Real(self.reference)

    def call_all(self, calls, soon=False):
        self.tries.append(soon)
        raise RanksDoNotEnd("mpiexec", [2], self.allowance)


class Real:
    launcher = "mpiexec"

    def __init__(self, answer):
        self.answer = answer

    def call_all(self, calls, soon=False):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def asleep_too_long():
    """An allowance of which nothing is left."""
    allowance = Allowance(Limits(sleep_s=0.1))
    assert allowance.over(True)
    return allowance


@pytest.mark.parametrize(
    ("earned", "reference", "kind", "said"),
    [
        (0.0, None, Verdict, "wrong on the network, and here: mpiexec on 2 ranks did not end"),
        (5.0, [RealRun([1, 2], None)], Verdict, "calls of m:f did not end while its ranks slept"),
        (5.0, [RealRun([None], RunError("no"))], RealityError, "mpiexec on 2 ranks did not end"),
        (5.0, RealityError("neither"), RealityError, "mpiexec on 2 ranks did not end"),
    ],
    ids=["wrong on the network too", "the reference ends", "it fails", "it does not end either"],
)
def test_real_ranks_that_hang_are_judged_by_the_reference(tmp_path, earned, reference, kind, said):
    (tmp_path / "m.py").write_text("def f(comm, x):\n    return x\n")
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    record = ModuleResult("m", tests=[TestResult("test_sum", "values", 5.0, earned)])
    real = Hanging(reference, asleep_too_long())
    with Session(tmp_path) as session:
        mpi = Mpi(real, Ranks(session, record, job, Allowance(Limits())), tmp_path)
        with pytest.raises(kind, match=said):
            mpi.call_all([("m:f", 2, [(1,), (2,)])])
    assert real.tries == [True, False]
    assert not record.ended_by_clock


def test_what_hangs_where_sends_wait_is_told_as_soon_as_real_ranks_sleep(tmp_path):
    (tmp_path / "m.py").write_text(
        "def f(comm, x):\n    comm.send(x, 1 - comm.rank)\n    return comm.recv()\n"
    )
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    real = Hanging(None, asleep_too_long())
    with Session(tmp_path) as session:
        mpi = Mpi(real, Ranks(session, ModuleResult("m"), job, Allowance(Limits())), tmp_path)
        with pytest.raises(Verdict, match="fails on the network: all 2 ranks are blocked"):
            mpi.call_all([("m:f", 2, [(1,), (2,)])])
    assert real.tries == [True]


def test_where_gloo_alone_hangs_it_is_said_what_gloo_does_otherwise(tmp_path):
    (tmp_path / "m.py").write_text("def f(comm, x):\n    return x\n")
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    record = ModuleResult("m", tests=[TestResult("test_sum", "values", 5.0, 5.0)])
    real = Hanging([RealRun([1, 2], None)], asleep_too_long())
    real.launcher = "gloo"
    with Session(tmp_path) as session:
        mpi = Mpi(real, Ranks(session, record, job, Allowance(Limits())), tmp_path)
        with pytest.raises(Verdict, match=r"on gloo a second wait\(\)") as caught:
            mpi.call_all([("m:f", 2, [(1,), (2,)])])
    assert caught.value.on_real_ranks


def test_real_ranks_that_the_clock_has_ended_are_graded_again(tmp_path):
    (tmp_path / "m.py").write_text("def f(comm, x):\n    return x\n")
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    record = ModuleResult("m")
    late = Allowance(Limits(), clock=iter([0.0, 1e9]).__next__)
    assert late.over(False) == "within 1800 s"
    with Session(tmp_path) as session:
        mpi = Mpi(
            Hanging([RealRun([1, 2], None)], late),
            Ranks(session, record, job, Allowance(Limits())),
            tmp_path,
        )
        with pytest.raises(Verdict, match="did not end within 1800 s"):
            mpi.call_all([("m:f", 2, [(1,), (2,)])])
    assert record.ended_by_clock


@pytest.mark.parametrize("value", [1, 2])
def test_where_real_ranks_can_not_be_run_a_test_looks_at_simulated_ones(tmp_path, value):
    (tmp_path / "m.py").write_text("def f(comm, x):\n    return x\n")
    job = SuiteJob("m", str(tmp_path), "", secret="s", module_hash="h", sandbox=False)
    with Session(tmp_path) as session:
        ranks = Ranks(session, ModuleResult("m"), job, Allowance(Limits()))
        mpi = Mpi(Real(RealityUnavailable("no bubblewrap")), ranks, tmp_path)
        (run,) = mpi.call_all([("m:f", 2, [(value,), (2,)])])
    assert (run.values, run.error) == ([value, 2], None)


def test_torch_may_be_imported_where_it_is_not_needed():
    text = (SOLUTION / "star.py").read_text()
    text = text.replace("import numpy", "import torch\nimport numpy", 1)
    assert "import torch" in text
    result = grade_module("a03_allreduce", {"star": text}, "star", secret="s")
    assert result.score == 100, result.tests


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        (b"import torch", True),
        (b"def f():\n    from torch.nn import Linear\n", True),
        (b'"""\nimport torch\n"""', False),
        (b"import torchvision, torch_geometric", False),
        (b"from . import torch", False),
        (b"import torch as t; def", False),
    ],
)
def test_import_statements_are_found(text, imports):
    assert imports_package(text, "torch") is imports
