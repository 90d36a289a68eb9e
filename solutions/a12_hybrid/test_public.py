"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, grids, values and machines.
"""

import train3d_cases_torch as train3d

from ringside.checking import (
    LATENCY_SEEDS,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors

# -- train3d_torch ---------------------------------------------------------------------------------
TRAIN3D_ALL = train3d.Training((1, 1), dp=2, tp=2, sizes=(1, 1, 1))
TRAIN3D_STAGES = train3d.Training((1, 2, 1), sizes=(1, 1, 1, 1))
TRAIN3D_PLAIN = {"words": False, "loss": False}


def train3d_run(ranks, rng, case, *, words=True, loss=True, **where):
    """Train on a grid with announced passes, and compare with one process."""
    call, (whole, data) = case.call(), train3d.sample(rng, case)
    arguments = [train3d.arguments_of(case, whole, data, rank) for rank in range(case.world_size)]
    where = {"factors": Factors.drawn(rng), "world_size": case.world_size, **where}
    world_size = where.pop("world_size")
    result = ranks.call("train3d_callers_torch:trained", world_size, arguments, **where)
    assert_ran(result, call)
    call = call.seen_in(result)
    wanted = train3d.serial(case, whole, data, result.factors)
    for rank, value in enumerate(result.values):
        train3d.check_training(value, wanted, case, call, rank, words=words, loss=loss)
    return call, result


@points(10, "values", "train3d_torch")
def test_train3d_groups_of_the_grid(ranks):
    for sizes in ((2, 2, 2), (2, 3, 1), (1, 3, 2)):
        call = train3d.grid_call(sizes)
        result = ranks.call("train3d_callers_torch:grid_made", call.world_size, sizes)
        assert_ran(result, call)
        for rank, value in enumerate(result.values):
            train3d.check_grid(value, sizes, call, rank)


@points(10, "values", "train3d_torch")
def test_train3d_layer_on_a_tensor_axis(ranks, rng):
    for tp in (2, 3):
        call, case = train3d.layer_call(tp), train3d.layer_case(tp)
        whole, *rest = train3d.layer_sample(rng, case)
        parts = [train3d.parts_of(case, whole, rank) for rank in range(tp)]
        arguments = [(vars(case), own, *rest) for own in parts]
        result = ranks.call("train3d_callers_torch:layer_run", tp, arguments)
        assert_ran(result, call)
        wanted = train3d.serial_layer(case, whole, *rest)
        for rank, value in enumerate(result.values):
            train3d.check_layer(value, wanted, case, call, rank)


@points(8, "values", "train3d_torch")
def test_train3d_pipeline_alone(ranks, rng):
    train3d_run(ranks, rng, TRAIN3D_STAGES, **TRAIN3D_PLAIN)


@points(6, "values", "train3d_torch")
def test_train3d_data_axis_alone(ranks, rng):
    train3d_run(ranks, rng, train3d.Training(dp=2), loss=False)


@points(4, "values", "train3d_torch")
def test_train3d_tied_words_of_both_ends(ranks, rng):
    train3d_run(ranks, rng, TRAIN3D_STAGES, loss=False)


@points(4, "values", "train3d_torch")
def test_train3d_loss_on_every_rank(ranks, rng):
    for case in (TRAIN3D_STAGES, train3d.Training(dp=2)):
        train3d_run(ranks, rng, case, words=False)


@points(4, "values", "train3d_torch")
def test_train3d_smaller_last_microbatch(ranks, rng):
    train3d_run(ranks, rng, train3d.Training((1, 1), sizes=(2, 1)), **TRAIN3D_PLAIN)


@points(9, "values", "train3d_torch")
def test_train3d_equal_to_serial_over_two_steps(ranks, rng):
    train3d_run(ranks, rng, train3d.given(TRAIN3D_ALL, steps=2))


@points(18, "communication", "train3d_torch")
def test_train3d_bytes_by_axis(ranks, rng):
    for case in (train3d.Training(tp=2), train3d.Training(dp=2), TRAIN3D_STAGES, TRAIN3D_ALL):
        call, result = train3d_run(ranks, rng, case, **TRAIN3D_PLAIN)
        train3d.assert_bytes_by_axis(result, case, call)


@points(4, "communication", "train3d_torch")
def test_train3d_given_group_is_used(ranks, rng):
    def call(**where):
        return train3d_run(ranks, rng, train3d.Training(tp=3), **TRAIN3D_PLAIN, **where)

    on_three_members(rng, call, comm="the group")


@points(7, "schedule", "train3d_torch")
def test_train3d_passes_follow_the_actions(ranks, rng):
    for case in (TRAIN3D_STAGES, train3d.given(TRAIN3D_STAGES, schedule="gpipe")):
        call, result = train3d_run(ranks, rng, case, **TRAIN3D_PLAIN)
        train3d.assert_passes(result, case, call)


@points(7, "safety", "train3d_torch")
def test_train3d_sends_may_wait(ranks, rng):
    where = {"machine": rendezvous(), "seed": LATENCY_SEEDS[0]}
    call, result = train3d_run(ranks, rng, TRAIN3D_STAGES, **TRAIN3D_PLAIN, **where)
    assert_requests_complete(result, call)


@points(9, "speed", "train3d_torch")
def test_train3d_time_of_a_large_step(ranks, rng):
    call, _ = train3d_run(ranks, rng, train3d.Training((1, 1)), **TRAIN3D_PLAIN)
    train3d.assert_time(ranks.trace, call, 8)
