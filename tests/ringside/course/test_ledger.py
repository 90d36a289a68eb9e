"""The ledger: the course's GPT is what it says, and lines are compared with what is written."""

from pathlib import Path

import pytest

import ringside
from ringside.course.lectures import ledger as add_line
from ringside.course.lectures.lecture import LectureError
from ringside.course.lectures.ledger import (
    FILE,
    SEQUENCES_PER_GPU,
    SIZES,
    course_machine,
    course_step,
    num_parameters,
    read,
    step_flops,
    work_to_hide,
)
from ringside.scale.agreement import num_flops

MEASURED = {"gpus": 32, "step_s": 2.0, "exposed_s": 0.5, "memory_bytes": 34_000_000_000}


def test_the_model_is_the_published_one() -> None:
    assert round(num_parameters() / 1e9, 1) == 1.7


@pytest.mark.parametrize("reduce", ["once", "layers"])
def test_the_traced_step_does_the_work_and_sends_the_bytes_of_the_formulas(reduce: str) -> None:
    traced = course_step(4, reduce=reduce)
    assert num_flops(traced.trace) == pytest.approx([step_flops(SEQUENCES_PER_GPU)] * 4, rel=1e-4)
    machine = course_machine().with_(ranks_per_node=1)
    timeline = ringside.replay(traced.trace, machine)
    sent = 2 * 3 / 4 * 2 * num_parameters()
    assert timeline.bytes_matrix.sum(axis=1) == pytest.approx([sent] * 4, rel=1e-6)
    compute_s = step_flops(SEQUENCES_PER_GPU) / machine.flop_per_s
    whole_s = compute_s + sent * machine.beta_s_per_byte
    if reduce == "once":
        assert timeline.makespan_s == pytest.approx(whole_s, rel=1e-3)
    else:
        assert compute_s < timeline.makespan_s < compute_s + 0.2 * (whole_s - compute_s)
    state = 16 * num_parameters()
    assert state < traced.memory[0]["peak"] < 1.35 * state
    assert traced.memory[0]["peak"] < machine.memory_bytes


def test_one_way_of_reducing_is_no_other() -> None:
    with pytest.raises(ringside.TargetError, match=r"reduce \('twice'\) must be"):
        course_step(2, reduce="twice")


def test_a_byte_between_nodes_is_hidden_by_the_balance_of_the_machine() -> None:
    assert work_to_hide(1) == pytest.approx(137e12 / 12.5e9)
    assert work_to_hide(1, inside=True) == pytest.approx(137e12 / 100e9)
    assert work_to_hide(3, ringside.Machine.load("zaratan")) == pytest.approx(3 * 19.5e12 / 12.5e9)


def test_a_line_is_written_once_and_compared_after_that(tmp_path: Path) -> None:
    file = tmp_path / "ledger.csv"
    with pytest.raises(LectureError, match="no line of lecture 04: add renew=True"):
        add_line("04", **MEASURED, file=file)
    add_line("04", **MEASURED, file=file, renew=True)
    add_line("02", gpus=1, step_s=1.5, memory_bytes=1, file=file, renew=True)
    shown = add_line("04", **MEASURED, file=file)
    assert [line.lecture for line in shown.lines] == ["02", "04"]
    assert "75.0 %" in repr(shown) and "<td>2.000 s</td>" in shown._repr_html_()
    with pytest.raises(LectureError, match=r"step_s is 2\.01, and ledger\.csv holds 2\."):
        add_line("04", **MEASURED | {"step_s": 2.01}, file=file)


def test_lines_of_later_lectures_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "ledger.csv"
    for lecture in ("08", "02"):
        add_line(lecture, **MEASURED, file=file, renew=True)
    assert [line.lecture for line in add_line("02", **MEASURED, file=file).lines] == ["02"]


def test_a_lecture_without_a_scheme_has_no_line(tmp_path: Path) -> None:
    with pytest.raises(LectureError, match="lecture '03' has no scheme"):
        add_line("03", **MEASURED, file=tmp_path / "ledger.csv")


def test_the_written_ledger_begins_with_one_gpu() -> None:
    first, *others = read(FILE)
    assert (first.lecture, first.gpus, first.exposed_s) == ("02", 1, 0.0)
    assert others
    for line in others:  # a GPU does no sequence in less than half of the time of one GPU
        share = line.num_sequences / line.gpus / SEQUENCES_PER_GPU
        assert line.step_s >= first.step_s * share * 0.5
    assert SIZES["num_layers"] == 24
