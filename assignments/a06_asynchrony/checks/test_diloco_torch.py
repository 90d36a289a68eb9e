"""diloco_torch.py: inner steps alone, an outer step with momentum, fragments in turn."""

import numpy as np

from checks.cases import assert_equal_copies
from checks.cases_torch import (
    Diloco,
    DilocoTwice,
    RefusedDiloco,
    ops_of_ranks,
    reduced_after_steps,
    ring_s,
)
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("diloco_torch")
ONE, SEVERAL = "one fragment", "several fragments"
NO_MOMENTUM = (0.7, 0.0)
EVEN = (7, 4, 8)  # widths of 72 parameters: 2, 3, 4, 6 and 8 fragments are equally long
SLOW = "name=slow wire,alpha_s=0.0001,beta_s_per_byte=1e-06"
LONG, SHORT = "long fragments", "short fragments"


def once(*numbers, **fields):
    """A training without outer momentum, which is a matter of the first tests alone."""
    return Diloco(*numbers, outer=NO_MOMENTUM, **fields)


@suite.test("local_steps", "communication", once(4, 4, 2, 1, widths=EVEN), checked=False)
def test_ranks_meet_once_a_period(case, run):
    """How many bytes are sent, and after which steps, is not looked at."""
    moved, rounds = np.zeros(case.num_steps + 1), -(-case.num_steps // case.period)
    for rank, ops in enumerate(run.trace.ops):
        if not any(op.kind == Kind.COMPUTE for op in ops):
            raise case.fail(f"rank {rank} computed no loss; it takes {case.num_steps} steps.")
        moved += reduced_after_steps(ops, case.num_steps)
    times = int((moved >= case.n * case.itemsize).sum())
    if not 1 <= times <= rounds:
        found = "never averaged" if times == 0 else f"sent parameters after {times} steps"
        raise case.fail(
            f"the ranks {found}; {rounds} averages are asked for in {case.num_steps} steps."
        )


@suite.test(
    "outer", "values",
    group(ONE, DilocoTwice(2, 6, 3, widths=EVEN), Diloco(2, 3, 1, outer=(1.0, 0.0))),
    group(SEVERAL, Diloco(3, 8, 4, 2, widths=EVEN), Diloco(2, 10, 4, 3, widths=EVEN)),
)  # fmt: skip
def test_serial_recursion_on_2_to_5_ranks(case, run):
    """Also a second time."""


@suite.test("inner", "values", *(once(2, 6, 3, inner=inner) for inner in ("momentum", "adamw")))
def test_inner_optimizers_keep_their_state(case, run):
    """Nobody averages or resets it."""


@suite.test("last_step", "values", once(2, 8, 3), once(2, 10, 4), once(2, 2, 4), weight=2)
def test_last_partial_period_is_averaged(case, run):
    """Every fragment is, after the last step."""


@suite.test("turns", "values", once(2, 6, 5, 5), once(2, 7, 6, 6, widths=(1, 1, 1)), weight=2)
def test_fragments_of_uneven_length_and_empty_ones(case, run):
    """Parameters are cut where fragments end."""


def assert_turns(run, case):
    """After each step at most those fragments were all-reduced whose turn it was."""
    for rank, ops in enumerate(ops_of_ranks(run, case)):
        for taken, reduced in enumerate(reduced_after_steps(ops, case.num_steps)):
            turns = case.turns(taken) if taken else []
            allowed = case.itemsize * sum(case.ends[f + 1] - case.ends[f] for f in turns)
            if reduced > allowed:
                steps = "1 step" if taken == 1 else f"{taken} steps"
                whose = f"it is the turn of fragments {turns}" if turns else "it is nobody's turn"
                raise case.fail(
                    f"rank {rank} all-reduced {reduced} bytes after {steps}, when {whose}; "
                    f"at most {allowed} bytes are asked for."
                )


@suite.test(
    "kept", "values", once(2, 4, 2, frozen=True), once(2, 4, 2, dtype="float32"), checked=False,
    weight=5,
)  # fmt: skip
def test_frozen_parameters_and_float32(case, run):
    assert_turns(run, case)
    case.check(run)  # who sends what stays has wrong parameters, too, but reads why


@suite.test(
    "kept", "values", once(2, 0, 2), once(1, 4, 2), RefusedDiloco(2, -1),
    RefusedDiloco(2, 4, 2, 3), RefusedDiloco(2, outer_momentum=1.0),
)  # fmt: skip
def test_no_steps_one_rank_and_wrong_numbers(case, run):
    """Without steps nothing is sent."""


test_real_gloo = suite.real_ranks("outer", once(2, 6, 3), weight=1.4)


@suite.test(
    "turns", "communication", group(ONE, once(3, 5, 2, 1, widths=EVEN)),
    group(SEVERAL, once(2, 6, 3, 3, widths=EVEN)), checked=False,
)  # fmt: skip
def test_bytes_of_one_all_reduce_a_period(case, run, ranks):
    assert_turns(run, case)
    bound = 2 * (case.p - 1) / case.p * case.itemsize * sum(case.averages)
    ranks.record(case, run, {"sent_bytes": [round(bound)] * case.p})
    assert_moved(run, bound, case)


@suite.test("turns", "communication", once(2, 9, 4, 4, widths=EVEN, announced=True), checked=False)
def test_peak_of_a_step_falls_by_the_number_of_fragments(case, run):
    assert_turns(run, case)


test_given_group_is_used = suite.given_communicator(
    "group", once(3, 4, 2, 1), comm="the group", weight=2
)


@suite.test("last_step", "communication", once(3, 5, 2, 1), checked=False)
def test_copies_are_equal_bit_for_bit(case, run):
    assert_equal_copies(case, [params for _, params in run.values], "parameter")


test_messages_may_be_slow_and_are_completed = suite.slow_messages(
    "group", once(3, 4, 2, 1), kinds=[Kind.COLLECTIVE]
)


@suite.test(
    "time", "speed",
    group(LONG, once(8, 6, 3, 1, widths=(20, 30, 9), step_s=1e-3, machine=SLOW)),
    group(SHORT, once(8, 6, 3, 1, step_s=1e-3, machine=SLOW)),
)  # fmt: skip
def test_time_of_long_and_short_fragments(case, run):
    machine = machine_of(case)
    averages_s = sum(ring_s(each, case.p, machine, case.itemsize) for each in case.averages)
    assert_makespan(run, case.num_steps * case.step_s + averages_s, case)
