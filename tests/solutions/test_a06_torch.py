"""The reference solutions of a06 in torch: against closed forms, and typed lines."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.factors import Factors
from solutions.a06_asynchrony import cases_torch as cases
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a06_asynchrony"
SLOW_WIRE = Machine("slow wire", alpha_s=1e-4, beta_s_per_byte=1e-6)


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- diloco_torch ----------------------------------------------------------------------------------


def test_no_fragment_has_more_turns_than_the_docstring_allows():
    for num_steps in range(40):
        for period in range(1, 12):
            for num_fragments in range(1, period + 1):
                turns = [
                    cases.fragments_at(taken, num_steps, period, num_fragments)
                    for taken in range(1, num_steps + 1)
                ]
                assert all(len(each) <= 1 for each in turns[:-1])
                for f in range(num_fragments):
                    count = sum(f in each for each in turns)
                    assert (num_steps > 0) <= count <= -(-num_steps // period)


def test_peak_of_a_step_falls_by_the_number_of_fragments(session):
    peaks = []
    for num_fragments in (1, 2, 13):
        case = cases.diloco_case(3, 40, 13, num_fragments, np.random.default_rng(1))
        factors = Factors.drawn(np.random.default_rng(2))
        result = session.call(
            "callers_torch:diloco_trained", 3, case.arguments_of_ranks(), factors=factors
        ).raise_for_error()
        cases.assert_diloco(result, case, turns=True)
        peaks.append(max(cases.reduced_after_steps(result.trace.ops[0], 40)[:-1]))
    assert peaks == [26 * 8, 13 * 8, 2 * 8]


def test_diloco_takes_the_time_of_its_closed_form(session):
    case = cases.diloco_case(5, 9, 4, 2, np.random.default_rng(1), step_s=1e-3)
    result = session.call(
        "callers_torch:diloco_trained", 5, case.arguments_of_ranks(), machine=SLOW_WIRE
    ).raise_for_error()
    averages_s = sum(cases.ring_all_reduce_s(n, 5, SLOW_WIRE) for n in case.averages)
    assert result.makespan_s == pytest.approx(9e-3 + averages_s, rel=0.02)


# -- compress_torch --------------------------------------------------------------------------------


def test_nothing_is_lost_over_many_calls():
    case = cases.compress_case(3, (6, 9), 2, np.random.default_rng(1), num_calls=12)
    given = case.inputs()
    answers = cases.compress_serial(given, case.approx_rank, case.seed)
    means = np.sum([call[0][0] for call in answers], axis=0)
    left = np.mean([residual for _, residual in answers[-1]], axis=0)
    np.testing.assert_allclose(means + left, np.sum(given, axis=(0, 1)) / 3, atol=1e-12)


def test_compress_sends_thin_matrices_in_the_time_of_its_closed_form(session):
    case = cases.compress_case(5, (30, 20), 3, np.random.default_rng(1), num_calls=2)
    result = session.call(
        "callers_torch:compressed", 5, case.arguments_of_ranks(), machine=SLOW_WIRE
    ).raise_for_error()
    cases.assert_compressed(result, case)
    cases.assert_compressed_bytes(result, case)
    assert [record.nbytes for record in result.collectives] == [30 * 3 * 8, 20 * 3 * 8] * 2
    call_s = sum(cases.ring_all_reduce_s(n, 5, SLOW_WIRE) for n in case.lengths)
    assert result.makespan_s == pytest.approx(2 * call_s, rel=0.02)


@pytest.mark.parametrize(
    "call",
    [
        cases.diloco_case(2, 5, 2, 2, np.random.default_rng(2), outer=(0.7, 0.9), inner="adamw"),
        cases.diloco_refusal((1.0, 0.0, 4, 2, 3)),
        cases.compress_case(2, (4, 6), 2, np.random.default_rng(2)),
        cases.compress_case(2, (4, 6), 2, np.random.default_rng(2), kind="zeros"),
        cases.in_turns_case(cases.compress_case(2, (4, 6), 2, np.random.default_rng(2))),
        cases.least_squares_case(cases.compress_case(2, (6, 8), 1, np.random.default_rng(2)), 60),
        cases.compress_refusal(0, (4, 6)),
    ],
    ids=str,
)
def test_a_line_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)
