"""Records of verification: what fits, what is stale, what waits, and what was written by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from autograder import digests
from autograder.author.verify import attacks, record, upkeep, verify, whole
from autograder.author.verify.record import Part, Rows
from autograder.author.verify.reproduce import Typed
from autograder.author.verify.verify import Finding, Report, Subject, judge
from autograder.author.verify.whole import Seen
from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.grade.suite.result import ModuleResult, TestResult

RECORDED = sorted(path.stem for path in record.RECORDS.glob("*.json"))
ROWS: Rows = {"ring": {"reference ring": 100.0, "wrong ring__twice": "caught by test_bytes"}}


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RECORDS", tmp_path / "verified")
    monkeypatch.setattr(digests, "unit_digest", lambda kit, name: f"of {name}")
    return tmp_path / "verified"


def part(name: str, kind: str = "suites") -> Part:
    return Part(plans.load(name), kind)


class Looked:
    """In the place of a verification: what it would see, and of which parts it was asked."""

    def __init__(self, seen: Seen) -> None:
        self.seen, self.asked = seen, list[str]()

    def __call__(self, part: Part, deadline_s: float) -> Seen:
        assert deadline_s > 0
        self.asked.append(part.name)
        return self.seen


def first(parts: Sequence[Part], count: int) -> list[Part]:
    return list(parts[:count])


def test_what_was_seen_is_recorded_and_fits_until_something_changes(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suites, attacked = record.parts(plans.load("a04_data_parallel"))
    assert not suites.fits()
    seen = Looked(Seen(ROWS, minutes=6.4))
    assert upkeep.write([suites, attacked], seen, 60.0).closing == "2 passed, 0 failed"
    assert suites.fits() and attacked.fits() and suites.minutes == 6
    content = json.loads((records / "a04_data_parallel.json").read_text())
    assert [*content] == ["suites", "attacks"] and content["suites"]["seen"] == ROWS
    suites.write(ROWS, 7.9)
    assert suites.minutes == 6, "a record that changes with the machine's load is noise"
    monkeypatch.setattr(digests, "unit_digest", lambda kit, name: "of another tree")
    assert not suites.fits() and not attacked.fits()


def test_a_changed_attack_makes_the_record_of_attacks_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(attacks.ATTACKS / "40_serial_as_parallel", tmp_path / "40_serial_as_parallel")
    monkeypatch.setattr(attacks, "ATTACKS", tmp_path)
    suites, attacked = record.parts(plans.load("a04_data_parallel"))
    for each in (suites, attacked):
        each.write(ROWS, 1)
    with (tmp_path / "40_serial_as_parallel" / "make.py").open("a") as file:
        file.write("\nMORE = 1\n")
    assert suites.fits() and not attacked.fits()


def test_what_is_not_as_it_must_be_is_not_recorded(records: Path) -> None:
    said: list[str] = []
    bad = Looked(Seen(ROWS, faults=["wrong/ring__twice: passes test_bytes"]))
    tally = upkeep.write([part("a05_ddp")], bad, 60.0, said.append)
    assert (tally.closing, records.exists()) == ("0 passed, 1 failed", False)
    upkeep.write([part("a05_ddp")], Looked(Seen(ROWS, unfinished=True)), 60.0, said.append)
    assert said.pop() == "a05_ddp: not seen whole in 60 s, not recorded" and not records.exists()
    said.pop()
    assert "NOT as it must be, not recorded\n  wrong/ring__twice: passes test_bytes" in said[-1]


def test_a_record_written_by_hand_fails_where_it_is_drawn(records: Path) -> None:
    fitting = part("a05_ddp")
    by_hand = {"ring": ROWS["ring"] | {"wrong ring__twice": "caught by test_values"}}
    fitting.write(by_hand, 5)
    before = (records / "a05_ddp.json").read_bytes()
    said: list[str] = []
    tally = upkeep.check(
        [fitting], Looked(Seen(ROWS)), again=1, minutes=40, say=said.append, draw=first
    )
    assert tally.closing == "0 passed, 1 failed"
    row = "ring: wrong ring__twice: caught by test_values -> caught by test_bytes"
    assert said[-1].endswith(f"NOT as it is recorded\n  {row}")
    assert (records / "a05_ddp.json").read_bytes() == before
    fitting.write(ROWS, 5)
    tally = upkeep.check([fitting], Looked(Seen(ROWS)), again=1, minutes=40, say=said.append)
    assert tally.closing == "1 passed, 0 failed"


def test_stale_parts_are_verified_by_cost_and_what_is_too_long_waits(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [
        part("a08_tensor_parallel"),
        part("a14_experts"),
        part("a05_ddp"),
        part("a01_first_ranks"),
    ]
    costs = dict(zip((each.plan.name for each in parts), (50, 9, 3, 60), strict=True))
    for each in parts:
        each.write(ROWS, costs[each.plan.name])
    for name in ("a08_tensor_parallel", "a14_experts", "a05_ddp"):
        path = records / f"{name}.json"
        path.write_text(path.read_text().replace('"digest": "', '"digest": "0'))
    looked = Looked(Seen(ROWS))
    tally = upkeep.check(parts, looked, again=1, minutes=40)
    assert looked.asked == ["a05_ddp", "a14_experts"], "a fitting one of an hour isn't drawn"
    assert [each.plan.name for each in tally.waiting] == ["a08_tensor_parallel"]
    assert tally.closing == "2 passed, 0 failed"
    output = capsys.readouterr().out
    assert "1 records fit, 3 are stale." in output
    assert "No time is left for: a08_tensor_parallel (50 min)." in output
    assert 'UNITS="a05 a14 a08"` writes these records.' in output


def test_a_stale_part_that_is_wrong_fails_and_one_without_time_waits(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Seen(ROWS, faults=["stub/ring: earned 5"])
    stale = part("a05_ddp")
    unknown = upkeep.check([stale], Looked(wrong), again=1, minutes=40)
    assert unknown.closing == "0 passed, 0 failed"
    assert "Never recorded: a05_ddp." in capsys.readouterr().out
    stale.write(ROWS, 5)
    path = records / "a05_ddp.json"
    path.write_text(path.read_text().replace('"digest": "', '"digest": "0'))
    assert upkeep.check([stale], Looked(wrong), again=1, minutes=40).closing == "0 passed, 1 failed"
    late = upkeep.check([stale], Looked(Seen(unfinished=True)), again=1, minutes=40)
    assert (late.closing, late.waiting) == ("0 passed, 0 failed", [stale])


def test_rows_say_what_a_person_compares() -> None:
    result = ModuleResult("ring", [TestResult("test_bytes", "bytes", 50, 10, "no.")])
    wrong = Subject("wrong", "ring", "ring__twice", "", "test_bytes")
    earns = judge(Subject("wrong", "ring", "ring__some", "", "test_bytes", (0, 20)), result)
    full = Finding("reference", "ring", "ring", True, score=100.0)
    report = Report("a03", findings=[full, judge(wrong, result), earns])
    assert whole.suite_rows(report) == {
        "ring": {
            "reference ring": 100.0,
            "wrong ring__twice": "caught by test_bytes; earns 10",
            "wrong ring__some": "caught by test_bytes; earns 10",
        }
    }
    typed = [
        Typed("a03", "ring", "test_bytes", wrong, "line", "", outcome)
        for wrong, outcome in (("one", "same"), ("two", "numbers"), ("three", "broken"))
    ]
    assert whole.line_rows(typed)["ring"] == {"lines": "2 shown", "line of three": "broken"}


def test_a_record_that_is_no_json_is_named_with_its_cure(records: Path) -> None:
    records.mkdir()
    (records / "a05_ddp.json").write_text("<<<<<<< ours")
    with pytest.raises(AssignmentError, match=r"a05_ddp\.json is no JSON: .*`make verify UNITS"):
        part("a05_ddp").fits()


def test_a_record_is_of_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "a05", "--record", "--only", "wrong"]) == 2
    assert "--record and --stale go without --only" in capsys.readouterr().err


@pytest.mark.parametrize("name", RECORDED)
def test_a_committed_record_names_what_there_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that fit; one that is stale names what there was."""
    monkeypatch.undo()
    plan = plans.load(name)
    for each in record.parts(plan):
        if not each.fits():
            continue
        rows = {row for some in each.read()["seen"].values() for row in some}
        if each.kind == "attacks":
            assert rows == {attack.name for attack in attacks.load_attacks(name)}
            continue
        graded = {f"{subject.kind} {subject.name}" for subject in verify.subjects(plan)}
        assert {row for row in rows if not row.startswith("line")} == graded
        wrong = [
            result
            for some in each.read()["seen"].values()
            for row, result in some.items()
            if row.startswith("wrong ")
        ]
        by_values = sum("by values" in result for result in wrong)
        assert 0 < by_values < len(wrong), "a suite of values alone would do as well"


def test_an_only_that_fits_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "a05", "--only", "wrong/NOTHING"]) == 2
    assert "Nothing of a05_ddp fits wrong/NOTHING." in capsys.readouterr().err
