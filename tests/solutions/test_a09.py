"""The reference solutions of a09: hand-drawn schedules, closed forms, and torch's own answers."""

import itertools
import shlex

import numpy as np
import pytest

from autograder.course import assignment, edits
from ringside import Machine, Session, TraceError, replay
from ringside.checking import Verdict
from ringside.commands import cli
from ringside.course.validation.pipelines import gpipe_s
from ringside.errors import DeadlockError
from solutions.a09_pipeline import bubble, replayed
from solutions.a09_pipeline.actions import Backward, Forward, parse, text
from solutions.a09_pipeline.cases import stage_call, torch_call
from solutions.a09_pipeline.hidden import oracle, runs
from solutions.a09_pipeline.model import random_parameters

SOLUTION = assignment.Course.here().kit / "solutions" / "a09_pipeline"
DRAWN = {
    ("gpipe", 2, 3): ["F0 F1 F2 B0 B1 B2"] * 2,
    ("one_f_one_b", 3, 4): [
        "F0 F1 F2 B0 F3 B1 B2 B3",
        "F0 F1 B0 F2 B1 F3 B2 B3",
        "F0 B0 F1 B1 F2 B2 F3 B3",
    ],
    ("one_f_one_b", 3, 1): ["F0 B0"] * 3,
    ("interleaved", 2, 2, 2): [
        "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1",
        "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1",
    ],
    ("zb_h1", 3, 5): [
        "F0 F1 F2 I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4",
        "F0 F1 I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4",
        "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4",
    ],
    ("zb_h2", 2, 3): [
        "F0 F1 F2 I0 W0 I1 W1 I2 W2",
        "F0 I0 F1 I1 F2 I2 W0 W1 W2",
    ],
    ("zb_v", 2, 2): [
        "F0 F1 F0.1 I0.1 F1.1 I1.1 I0 W0 W0.1 I1 W1 W1.1",
        "F0 F0.1 F1 F1.1 I0.1 I0 W0 I1.1 I1 W1 W0.1 W1.1",
    ],
}


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


def asked(session, function, cases):
    """The reference's lists, by the way in which the suite asks for them."""

    class Ranks:
        def call(self, *arguments):
            return session.call(*arguments)

    return runs.asked(Ranks(), function, cases)


def test_the_reference_draws_what_is_drawn_by_hand_and_what_the_oracle_has(session):
    for (function, *case), drawn in DRAWN.items():
        assert [text(each) for each in asked(session, function, [tuple(case)])[0]] == drawn
    for function, cases in (
        ("gpipe", [(3, 5), (1, 2)]),
        ("one_f_one_b", [(4, 9), (5, 3), (1, 2)]),
        ("interleaved", [(4, 8, 2), (3, 6, 3)]),
    ):
        for case, lists in zip(cases, asked(session, function, cases), strict=True):
            assert lists == runs.lists_of(getattr(oracle, function), *case)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["F0 F1 B0"], "stage 0 does no BackwardInput of microbatch 1"),
        (["F0 B0 F1 W1 I1"], "comes before its BackwardInput"),
        (["B0 F0 F1 B1"], "comes before its Forward"),
        (["F0 B0 F1 F1 B1"], "was done before"),
        (["F0 F1 F2 B0 B1 B2"], "none of 2 microbatches"),
        (["F0 B0 F1 B1", "F1 B1 F0 B0"], "wait for one another for ever: stage 0 at Backward"),
    ],
)
def test_a_schedule_that_cannot_be_run_is_refused_in_words(words, said):
    with pytest.raises(replayed.ScheduleError, match=said):
        replayed.check([parse(each) for each in words], 2)


def test_a_replay_of_stages_that_wait_for_ever_is_refused_too():
    lists = [parse("F0 B0 F1 B1"), parse("F1 B1 F0 B0")]
    with pytest.raises(TraceError, match="can't end"):
        replayed.timeline(lists)


def test_time_messages_and_what_is_in_flight_have_their_closed_forms():
    for s, m in itertools.product((1, 2, 3, 4, 7), (1, 2, 5, 8)):
        for name in ("gpipe", "one_f_one_b"):
            lists = runs.lists_of(getattr(oracle, name), s, m)
            line = replayed.timeline(lists, 1, 1.0, 2.0)
            assert line.makespan_s == bubble.makespan_s(s, m, 1.0, 2.0) == (m + s - 1) * 3
            assert len(line.messages) == bubble.num_messages(s, m) == 2 * m * (s - 1)
            assert line.idle_s[0] / line.makespan_s == pytest.approx(bubble.bubble_fraction(s, m))
            for stage, actions in enumerate(lists):
                most = replayed.most_in_flight(actions)
                assert most == bubble.in_flight(name, s, m, stage)
        assert gpipe_s([3.0] * s, m) == pytest.approx(bubble.makespan_s(s, m, 1.0, 2.0))


def test_latency_costs_1f1b_more_than_gpipe():
    slow = Machine("slow", alpha_s=0.5, beta_s_per_byte=0.0)
    takes = [
        replayed.timeline(runs.lists_of(each, 4, 8), 1, 1.0, 2.0, 8, slow).makespan_s
        for each in (oracle.gpipe, oracle.one_f_one_b)
    ]
    assert takes == [36.0, 41.0]
    assert bubble.gpipe_s(4, 8, 1.0, 2.0, 0.5) == 36.0


def stepped(session, lists, count, machine=None, target="callers:stepped", width=6):
    p = len(lists)
    rng = np.random.default_rng(4)
    params = [random_parameters((width, 3, width), rng) for _ in range(p)]
    inputs, targets = (list(rng.standard_normal((count, 2, width))) for _ in range(2))
    arguments = [
        (
            [params[s]],
            text(lists[s]),
            [2] * count,
            inputs if s == 0 else None,
            targets if s == p - 1 else None,
            (1e-3, 2e-3),
        )
        for s in range(p)
    ]
    result = session.call(target, p, arguments, machine=machine)
    return result, oracle.serial(params, inputs, targets)


def test_a_run_takes_what_the_replay_of_its_schedule_takes(session):
    machine = Machine("wire", alpha_s=1e-4, beta_s_per_byte=5e-6)
    for name in ("gpipe", "one_f_one_b", "zero_bubble"):
        lists = runs.lists_of(getattr(oracle, name), 4, 6)
        result, (loss, gradients) = stepped(session, lists, 6, machine)
        result.raise_for_error()
        assert result.values[-1]["loss"] == pytest.approx(loss)
        for value, own in zip(result.values, gradients, strict=True):
            for mine, right in zip(value["grads"][0], own, strict=True):
                np.testing.assert_allclose(mine, right, rtol=0, atol=1e-13)
        ours = replayed.timeline(lists, 1, 1e-3, 2e-3, 96, machine)
        assert result.makespan_s == pytest.approx(ours.makespan_s, rel=1e-9)
        longer = replayed.timeline(lists, 1, 1e-3, 2e-3, 9600, machine)
        again = replay(replayed.resized(result.trace, 100), machine)
        assert again.makespan_s == pytest.approx(longer.makespan_s, rel=1e-9)


def test_a_send_cycle_in_the_steady_state_is_named(tmp_path):
    for path in SOLUTION.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    blocking = edits.one(SOLUTION, "stage__blocking_sends_and_receives")
    (tmp_path / "stage.py").write_text(blocking.source)
    with Session(tmp_path) as wrong:
        flush = runs.lists_of(oracle.one_f_one_b, 3, 4)
        result, _ = stepped(wrong, flush, 4)
        assert isinstance(result.error, DeadlockError)
        assert "The waits form the cycle" in str(result.error)
        result, _ = stepped(wrong, runs.lists_of(oracle.gpipe, 3, 4), 4)
        assert result.error is None  # GPipe runs with blocking sends


@pytest.mark.parametrize(("name", "chunks"), [("one_f_one_b", 1), ("interleaved", 2)])
def test_the_line_of_a_verdict_runs_what_it_is_about(name, chunks, monkeypatch, capsys):
    more = (chunks,) if name == "interleaved" else ()
    words = [text(each) for each in runs.lists_of(getattr(oracle, name), 2, 2, *more)]
    case = stage_call(name, words, [2, 1], chunks, "float32").on(replayed.FREE, "--seed 1")
    command, *arguments = shlex.split(case.reproduce)
    assert command == "ringside"
    monkeypatch.chdir(SOLUTION)
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    assert "on 2 ranks of machine" in said and "rank 1 returned {'loss'" in said


@pytest.mark.parametrize(
    ("options", "second", "says"),
    [({}, True, "'kept': True, "), ({"recompute": True, "dropout": 0.4}, False, "'alone': 0.")],
)
def test_the_line_of_a_torch_verdict_runs_what_it_is_about(
    options, second, says, monkeypatch, capsys
):
    words = [text(each) for each in runs.lists_of(oracle.gpipe, 2, 2)]
    case = torch_call("gpipe", words, [2, 1], **options)
    monkeypatch.chdir(SOLUTION)
    assert cli.main(shlex.split((case.second() if second else case).reproduce)[1:]) == 0
    assert says in capsys.readouterr().out


def test_random_schedules_are_legal_and_halves_are_optional():
    rng = np.random.default_rng(9)
    for p, m, v in ((1, 2, 1), (3, 4, 1), (2, 3, 3)):
        replayed.check(oracle.anything(p, m, v, rng), m, v)
        whole = oracle.anything(p, m, v, rng, halves=False)
        assert {type(each) for own in whole for each in own} == {Forward, Backward}
        replayed.check(whole, m, v)


EARLY = """
    if following is not None and isinstance(following, Forward) and stage:
        phase = f"F{following.microbatch} of piece {stage}"
        shape = batch_sizes[following.microbatch], pieces[0].width_in
        ringside.announce(phase, np.ones(shape), 0)
        ringside.compute(seconds=pieces[0].forward_s, phase=phase)
"""


class Observing:
    """``ranks.call`` of a suite, on a session of our own."""

    def __init__(self, session):
        self._session = session

    def call(self, target, world_size, arguments, **options):
        return self._session.call(target, world_size, arguments, **options)


def test_a_pass_that_is_announced_before_its_input_has_come_is_seen(tmp_path):
    """Its virtual time would pass while the message is still on its way."""
    for path in SOLUTION.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = "        expect(action)\n        incoming = take(action)"
    source = (SOLUTION / "stage.py").read_text()
    assert source.count(before) == 1
    early = EARLY.replace("following", "action").replace("\n    ", "\n        ")
    changed = source.replace(before, early + before).replace(
        "import numpy", "import ringside\nimport numpy"
    )
    rng, lists = np.random.default_rng(0), runs.lists_of(oracle.one_f_one_b, 2, 3)
    for text_of_stage, wrong in ((source, False), (changed, True)):
        (tmp_path / "stage.py").write_text(text_of_stage)
        with Session(tmp_path) as session:
            arguments = (Observing(session), rng, "one_f_one_b", lists, (2, 1, 3))
            if not wrong:
                runs.stepped(*arguments, observed=True)
                continue
            with pytest.raises(Verdict, match=r"stage 1 began F0 when it had 0 messages"):
                runs.stepped(*arguments, observed=True)
