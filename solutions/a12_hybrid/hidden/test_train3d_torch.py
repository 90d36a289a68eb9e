"""train3d_torch.py: the grid, a layer on it, the pipeline, and a step on all axes."""

from ringside.checking import (
    LATENCY_SEEDS,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from solutions.a12_hybrid.hidden import train3d_runs_torch as runs
from solutions.a12_hybrid.hidden.parts import checked
from solutions.a12_hybrid.hidden.train3d_runs_torch import cases

points = points_of("train3d_torch")
Training = cases.Training

# What a test of its own is about isn't looked at elsewhere.
PLAIN = {"words": False, "loss": False}


def stages(*layers):
    return Training(layers, sizes=(2,) * 5)


# -- values ----------------------------------------------------------------------------------------


@points(8, "values")
def test_groups_of_the_grid(ranks, rng):
    for sizes in ((2, 2, 2), (2, 3, 4), (3, 1, 2), (1, 1, 1)):
        runs.grid(ranks, sizes)


@points(10, "values")
def test_layer_on_a_tensor_axis(ranks, rng):
    for tp in (2, 3, 5):
        runs.layer(ranks, rng, tp)


@points(8, "values")
def test_pipeline_alone(ranks, rng):
    for case in (stages(1, 2, 1), stages(1, 1, 1, 1)):
        runs.trained(ranks, rng, case, **PLAIN)


@points(6, "values")
def test_data_axis_alone(ranks, rng):
    for dp in (2, 3):
        runs.trained(ranks, rng, Training(dp=dp), loss=False)


@points(8, "values")
def test_tied_words_and_the_loss_on_every_rank(ranks, rng):
    def words():
        runs.trained(ranks, rng, stages(1, 1, 1), loss=False)

    def loss():
        for case in (stages(1, 1, 1), Training(dp=2)):
            runs.trained(ranks, rng, case, words=False)

    checked({"the words": words, "the loss": loss})


@points(4, "values")
def test_smaller_last_microbatch(ranks, rng):
    runs.trained(ranks, rng, Training((1, 1), sizes=(3, 3, 1)), **PLAIN)


@points(8, "values")
def test_all_axes_equal_serial_over_steps(ranks, rng):
    for layers, sizes, steps in (((1, 1), (2, 2), 3), ((2, 1, 1), (1, 1, 1), 1)):
        runs.trained(ranks, rng, Training(layers, 2, 2, sizes, steps))


@points(3, "reality")
def test_real_gloo(gloo, rng):
    case = Training(dp=2, sizes=(1, 1))
    runs.on_gloo(lambda: runs.trained(gloo, rng, case, observed=False, **PLAIN))


# -- communication and schedule --------------------------------------------------------------------


@points(8, "communication")
def test_bytes_of_one_axis_alone(ranks, rng):
    def tensor():
        case = Training(tp=3)
        call, result = runs.trained(ranks, rng, case, **PLAIN)
        cases.assert_bytes_by_axis(result, case, call, ("tensor",))

    def data():
        for case in (Training(dp=2), Training(dp=3, sizes=(1, 1))):
            call, result = runs.trained(ranks, rng, case, **PLAIN)
            cases.assert_bytes_by_axis(result, case, call, ("data",))

    checked({"tensor": tensor, "data": data})


@points(8, "communication")
def test_bytes_by_axis_of_all_together(ranks, rng):
    def check(several):
        for case in several:
            call, result = runs.trained(ranks, rng, case, **PLAIN)
            cases.assert_bytes_by_axis(result, case, call)
            sent = [sum(cases.bytes_by_axis(case, r).values()) for r in range(case.world_size)]
            ranks.record(call, result, {"sent_bytes": sent})

    two = (Training((1, 1, 1), 2, sizes=(1, 1, 1)),)
    three = Training((1, 1), 2, 2, (2, 2)), Training((1, 1, 1), 3, 2, (1, 1))
    checked({"pipeline and data": lambda: check(two), "all three": lambda: check(three)})


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def call(**where):
        return runs.trained(ranks, rng, Training(dp=3), **PLAIN, **where)

    on_three_members(rng, call, comm="the group")


@points(7, "schedule")
def test_passes_follow_the_actions(ranks, rng):
    for case in (stages(1, 2, 1), cases.given(stages(1, 1), schedule="gpipe")):
        call, result = runs.trained(ranks, rng, case, **PLAIN)
        cases.assert_passes(result, case, call)


# -- safety, speed ---------------------------------------------------------------------------------


@points(8, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        where = {"machine": rendezvous(), "seed": seed}
        call, result = runs.trained(ranks, rng, stages(1, 1, 1), **PLAIN, **where)
        assert_requests_complete(result, call)


@points(10, "speed")
def test_time_on_64_ranks(ranks, rng):
    call, _ = runs.trained(ranks, rng, Training((1, 1), dp=2), **PLAIN)
    # A trace is believed that agrees with what the network counts, operation by operation.
    runs.assert_trace_agrees(ranks)
    cases.assert_time(ranks.trace, call, 64)
