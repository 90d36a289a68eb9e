"""The references of a09: hand-drawn schedules, replays, and what a run on the network takes."""

import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.course import edits
from ringside import Session, TraceError, replay
from ringside.checking import Verdict, case_files
from ringside.checking.suite import called, right_run
from ringside.course.validation.pipelines import gpipe_s
from ringside.errors import DeadlockError, TargetError
from solutions.a09_pipeline import bubble
from solutions.a09_pipeline.given import replayed
from solutions.a09_pipeline.given.actions import parse

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a09_pipeline"
DRAWN = {
    ("schedule:gpipe", 2, 3): ["F0 F1 F2 B0 B1 B2"] * 2,
    ("schedule:one_f_one_b", 3, 4): [
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 B0 F2 B1 F3 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    ],
    ("schedule:one_f_one_b", 3, 1): ["F0 B0"] * 3,
    ("schedule:interleaved", 2, 2, 2): [
        "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1",
        "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1",
    ],
    ("zero_bubble:zb_h1", 3, 5): [
        "F0 F1 F2 I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4",
        "F0 F1 I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4",
        "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4",
    ],
    ("zero_bubble:zb_h2", 2, 3): [
        "F0 F1 F2 I0 W0 I1 W1 I2 W2",
        "F0 I0 F1 I1 F2 I2 W0 W1 W2",
    ],
    ("zero_bubble:zb_v", 2, 2): [
        "F0 F1 F0.1 I0.1 F1.1 I1.1 I0 W0 W0.1 I1 W1 W1.1",
        "F0 F0.1 F1 F1.1 I0.1 I0 W0 I1.1 I1 W1 W0.1 W1.1",
    ],
    ("dualpipev:dualpipev", 2, 5): [
        "F0 F1 F2 F0.1 I0.1 W0.1 F1.1 F3+B1.1 F2.1+B0 F4+B2.1 F3.1+B1 B3.1 F4.1+B2 "
        "I4.1 W4.1 I3 W3 I4 W4",
        "F0 F0.1 F1 F1.1 F2+B0.1 F2.1+B0 F3+B1.1 F3.1+B1 F4+B2.1 F4.1+B2 "
        "I3.1 I3 W3.1 I4.1 W3 I4 W4.1 W4",
    ],
}
FLUSH = tuple(DRAWN["schedule:one_f_one_b", 3, 4])
GPIPE = ("F0 F1 F2 F3 B0 B1 B2 B3",)
WIRE = "name=wire,alpha_s=1e-4,beta_s_per_byte=5e-6"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


def laid(folder):
    """The assignment in a folder, whose modules may be changed."""
    for name in ("given", "checks"):
        shutil.copytree(SOLUTION / name, folder / name)
    for path in SOLUTION.glob("*.py"):
        shutil.copy(path, folder)
    return folder


def test_the_reference_draws_what_is_drawn_by_hand(session):
    for (target, *call), drawn in DRAWN.items():
        answers = session.call("checks/inside.py:lists", 1, [(target, [tuple(call)])]).values[0]
        assert [words for words, _ in answers[0][0]] == drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["F0 F1 B0"], "stage 0 does no BackwardInput of microbatch 1"),
        (["F0 B0 F1 W1 I1"], "comes before its BackwardInput"),
        (["B0 F0 F1 B1"], "comes before its Forward"),
        (["F0 B0 F1 F1 B1"], "was done before"),
        (["F0 F1 F2 B0 B1 B2"], "none of 2 microbatches"),
        (["F0 B0 F1 B1", "F1 B1 F0 B0"], "wait for one another for ever: stage 0 at Backward"),
        (["F0 F1+B1 B0"], r"Backward\(1\) stands in a pair with its Forward"),
        (
            ["F0 F1+B0 B1", "F1 F0+B1 B0"],
            r"for ever: stage 0 at Pair\(Forward\(1\), Backward\(0\)\)",
        ),
    ],
)
def test_a_schedule_that_cannot_be_run_is_refused_in_words(words, said):
    with pytest.raises(replayed.ScheduleError, match=said):
        replayed.check([parse(each) for each in words], 2)


def test_a_replay_of_stages_that_wait_for_ever_is_refused_too():
    lists = [parse("F0 B0 F1 B1"), parse("F1 B1 F0 B0")]
    with pytest.raises(TraceError, match="can't end"):
        replayed.timeline(lists)


def listed_by_torch(num_stages, num_microbatches):
    """DualPipeV as torch lists it, all stages' actions as text."""
    pipelining = pytest.importorskip("torch.distributed.pipelining")
    piece = SimpleNamespace(
        num_stages=2 * num_stages, group_size=num_stages, group_rank=0, submod=None
    )
    order = pipelining.ScheduleDualPipeV([piece] * 2, num_microbatches).pipeline_order

    def word(action):
        if action.sub_actions:
            return "+".join(map(word, action.sub_actions))
        chunk = ".1" * (action.stage_index >= num_stages)
        return f"{action.computation_type.value}{action.microbatch_index}{chunk}"

    return [" ".join(map(word, filter(None, order[s]))) for s in range(num_stages)]


def test_pairs_take_about_as_long_and_hold_as_much_as_torchs_list(session):
    for size in ((1, 4), (2, 4), (3, 9), (4, 16), (8, 32)):
        call = ("dualpipev:dualpipev", [size])
        answers = session.call("checks/inside.py:lists", 1, call).values[0]
        ours = [words for words, _ in answers[0][0]]
        both = [[parse(words) for words in lists] for lists in (ours, listed_by_torch(*size))]
        assert len({max(map(replayed.most_in_flight, lists)) for lists in both}) == 1
        for wait_s in (0.0, 0.5, 1.0):
            ours_s, torchs_s = (
                replayed.timeline(lists, 2, placement="v", exchange_s=wait_s).makespan_s
                for lists in both
            )
            assert ours_s <= (1.01 if wait_s else 1.0) * torchs_s + 1e-9


def test_a_pair_hides_messages_for_as_long_as_it_computes():
    # F0 1 s, F1+B0 1 + 2 s, B1 2 s; F0 and B1 wait, and of the pair's two waits what it can't hide.
    for wait_s, total_s in ((0.0, 6.0), (1.0, 8.0), (2.0, 11.0)):
        line = replayed.timeline([parse("F0 F1+B0 B1")], exchange_s=wait_s)
        assert line.makespan_s == pytest.approx(total_s)


def test_the_closed_form_is_that_of_the_validation():
    for s, m in itertools.product((1, 2, 3, 4, 7), (1, 2, 5, 8)):
        assert gpipe_s([3.0] * s, m) == pytest.approx(bubble.makespan_s(s, m, 1.0, 2.0))


def test_a_run_takes_what_the_replay_of_its_schedule_takes(session, cases):
    halves = ("F0 F1 I0 F2 W0 I1 W1 I2 W2", "F0 I0 W0 F1 I1 W1 F2 I2 W2")
    for p, lists in ((3, GPIPE), (3, FLUSH), (2, halves)):
        case = cases["Step"](p, lists, widths=(6, 3, 6), costs=(1e-3, 2e-3), machine=WIRE)
        run = right_run(session, case)
        assert run.makespan_s == pytest.approx(case.step_s, rel=1e-9)
        longer = replayed.timeline(case.actions, 1, 1e-3, 2e-3, 9600, run.machine)
        again = replay(replayed.resized(run.trace, 100), run.machine)
        assert again.makespan_s == pytest.approx(longer.makespan_s, rel=1e-9)


def test_a_send_cycle_in_the_steady_state_is_named(tmp_path, cases):
    blocking = edits.one(SOLUTION, "stage__blocking_sends_and_receives")
    (laid(tmp_path) / "stage.py").write_text(blocking.source)
    with Session(tmp_path) as wrong:
        run = called(wrong, cases["Step"](3, FLUSH, machine="textbook"))
        assert isinstance(run.error, DeadlockError)
        assert "The waits form the cycle" in str(run.error)
        run = called(wrong, cases["Step"](3, GPIPE, machine="textbook"))
        assert run.error is None  # GPipe runs with blocking sends


def test_measured_steps_need_the_readers_schedule(tmp_path):
    (laid(tmp_path) / "schedule.py").unlink()
    kind = case_files.kind_of(tmp_path / "stage.py", "measured_step")
    with pytest.raises(TargetError, match=r"function of schedule.py, which isn't here yet"):
        kind(2).inputs(0)


EARLY = """
        if isinstance(action, Forward) and stage.rank:
            phase = f"F{action.microbatch} of piece {stage.rank}"
            shape = batch_sizes[action.microbatch], pieces[0].width_in
            ringside.announce(phase, np.ones(shape), 0)
            ringside.compute(seconds=pieces[0].forward_s, phase=phase)
"""


def test_a_pass_that_is_announced_before_its_input_has_come_is_seen(tmp_path, cases):
    """Its virtual time would pass while the message is still on its way."""
    before = "        arrived = stage.take(action)\n"
    source = (SOLUTION / "stage.py").read_text()
    assert source.count(before) == 1
    changed = source.replace(before, EARLY[1:] + before)
    changed = changed.replace("import numpy", "import ringside\nimport numpy")
    (laid(tmp_path) / "stage.py").write_text(changed)
    case = cases["Step"](2, ("F0 F1 F2 B0 B1 B2",), (2, 1, 3), announced=True)
    seen = pytest.raises(Verdict, match=r"stage 1 began F0 when it had 0 messages")
    with Session(tmp_path) as session, seen:
        right_run(session, case)
