"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. ``ranks.call`` runs something on simulated ranks, through ``callers.py`` where it
must be made or looked at inside a rank.
"""

from pathlib import Path

import planner_cases
import predict_cases
from planner_cases import GB, planner_check, planner_plans, planner_refused
from predict_cases import megatron, predict_asked, predict_near

from ringside.checking import Verdict
from ringside.checking.points import points

# -- predict ---------------------------------------------------------------------------------------

# The docstring's example, and the two replays' tables.
PREDICT_MODEL = predict_cases.model(2, 4, 2, 8, vocabulary=5, sequence=3)
PREDICT_REPLAYS = Path(__file__).with_name("replays.toml")


def predict_mixture(**changed):
    sizes = {"data": 2, "tensor": 2, "pipeline": 2, "microbatch_size": 1, "recompute": False}
    return [PREDICT_MODEL, {**sizes, **changed}]


@points(10, "values", "predict")
def test_predict_parameters_and_days_as_published(ranks):
    rows = [row for row in megatron("scaling") if row["parameters"] >= 7.5]
    calls = [[predict_cases.model(row["layers"], row["hidden"], 32, 512)] for row in rows]
    rights = [1e9 * row["parameters"] for row in rows]
    predict_near(ranks, "num_parameters", calls, rights, 0.005, ", as published")
    predict_near(ranks, "num_parameters", [[PREDICT_MODEL]], [520], 0.02)
    rows = megatron("days")
    calls = [[1e9 * row["parameters"], 300e9, row["gpus"], 1e12 * row["tflops"]] for row in rows]
    rights = [row["days"] for row in rows]
    predict_near(ranks, "training_days", calls, rights, 0.035, ", as published")


@points(10, "values", "predict")
def test_predict_flops(ranks):
    calls = [[PREDICT_MODEL, False], [PREDICT_MODEL, True]]
    predict_near(ranks, "step_flops", calls, [65088, 85824], 0.005)
    gpt3 = predict_cases.model(96, 12288, 96, 1536)
    predict_near(ranks, "step_flops", [[gpt3, True]], [4.522e18], 0.005)


@points(15, "memory", "predict")
def test_predict_state_as_published(ranks):
    calls = [[7_500_000_000, 64, zero] for zero in range(4)] + [[7, 2, 1]]
    rights = [120e9, 31.40625e9, 16.640625e9, 1.875e9, 76]
    predict_near(ranks, "state_bytes", calls, rights, 1e-9)


@points(15, "memory", "predict")
def test_predict_memory(ranks):
    calls = [
        predict_mixture(),
        predict_mixture(zero=1),
        predict_mixture(recompute=True),
        predict_mixture(data=4, pipeline=1, microbatch_size=2),
        predict_mixture(data=1, tensor=1, pipeline=2, microbatch_size=2),
    ]
    rights = [2826, 1998, 2565, 5396, 6408]
    predict_near(ranks, "memory_bytes", calls, rights, 0.005)


@points(25, "communication", "predict")
def test_predict_bytes(ranks):
    several = [
        (predict_mixture(), (384, 96, 268)),
        (predict_mixture(recompute=True), (576, 96, 268)),
        (predict_mixture(data=4, pipeline=1), (384, 0, 804)),
        (predict_mixture(zero=2), (384, 96, 670)),
        (predict_mixture(zero=3), (384, 96, 1608)),
        (predict_mixture(interleave=2), (384, 192, 268)),
    ]
    traced = list(predict_cases.replays(PREDICT_REPLAYS, "bytes"))
    for place, axis in enumerate(("tensor", "pipeline", "data")):
        calls, rights = [call for call, _ in several], [each[place] for _, each in several]
        predict_near(ranks, "sent_bytes", calls, rights, 1e-9, key=axis)
        calls, rights = [call for call, _ in traced], [each[axis] for _, each in traced]
        predict_near(ranks, "sent_bytes", calls, rights, 1e-9, ", as was traced", key=axis)


@points(25, "speed", "predict")
def test_predict_seconds(ranks):
    for call, step_s in predict_cases.replays(PREDICT_REPLAYS, "times"):
        predict_near(ranks, "step_s", [call], [step_s], 0.05, " s, as replayed")
    # Five layers on four stages, and two on two that are interleaved; no message takes time.
    free = "textbook,alpha_s=0,beta_s_per_byte=0,flop_per_s=1e6"
    layer, logits = 3 * (24 * 3 * 16 + 4 * 9 * 4), 3 * 2 * 3 * 4 * 5
    five = {**PREDICT_MODEL, "num_layers": 5}
    call = [five, predict_mixture(pipeline=4, tensor=1, data=1)[1], free]
    slowest_s = 2 * layer / 1e6
    right = 8 * slowest_s + 3 * layer / 1e6 + logits / 1e6
    predict_near(ranks, "step_s", [call], [right], 0.05)
    four = {**PREDICT_MODEL, "num_layers": 4}
    call = [four, predict_mixture(tensor=1, data=1, interleave=2)[1], free]
    slowest_s = (2 * layer + logits) / 1e6
    predict_near(ranks, "step_s", [call], [8 * slowest_s + layer / 1e6], 0.05)


@points(5, "speed", "predict")
def test_predict_is_monotone(ranks):
    (call, _), *_ = reversed(list(predict_cases.replays(PREDICT_REPLAYS, "times")))
    model, config, *_ = call
    machines = ("zaratan", "zaratan,beta_s_per_byte=4e-11", "zaratan,beta_s_per_byte=2e-11")
    answers = list(predict_asked(ranks, "step_s", [[model, config, name] for name in machines]))
    times = [predict_cases.number(*each) for each in answers]
    if not times[0] > times[1] > times[2] > 0:
        raise Verdict(
            f"On machines of more and more bandwidth a step takes {times} s.",
            reproduce=answers[0][2],
        )


# -- planner ---------------------------------------------------------------------------------------
PLANNER_SMALL = planner_cases.sizes(6, 192, 4, 24, vocabulary=3000, sequence=128)
PLANNER_ODD = planner_cases.sizes(7, 192, 4, 15, vocabulary=50_000, sequence=128)
PLANNER_AMPLE = 10**15


@points(30, "values", "planner")
def test_planner_finds_the_fastest_of_a_few_gpus(ranks):
    machines = ("zaratan,flop_per_s=1e13", "zaratan,beta_s_per_byte=8e-9,flop_per_s=1e13")
    planner_check(
        ranks,
        [
            [model, machine, count, PLANNER_AMPLE, "plain"]
            for model in (PLANNER_SMALL, PLANNER_ODD)
            for machine in machines
            for count in (1, 3, 8)
        ],
    )


@points(10, "values", "planner")
def test_planner_finds_the_fastest_of_sixteen(ranks):
    call = [PLANNER_SMALL, "zaratan,flop_per_s=1e13", 16, PLANNER_AMPLE, "plain"]
    planner_check(ranks, [call])


@points(15, "memory", "planner")
def test_planner_finds_the_fastest_that_fits(ranks):
    calls = []
    for count in (4, 8):
        call = [PLANNER_SMALL, "zaratan", count, PLANNER_AMPLE, "plain"]
        least = min(needed for _, needed in planner_cases.planner_all(call))
        calls += [[*call[:3], capacity, "plain"] for capacity in (least, 2 * least)]
    planner_check(ranks, calls)


@points(15, "safety", "planner")
def test_planner_says_what_comes_nearest(ranks):
    call = [PLANNER_SMALL, "zaratan", 4, PLANNER_AMPLE, "plain"]
    least = min(needed for _, needed in planner_cases.planner_all(call))
    planner_refused(ranks, [[*call[:3], least - 1, "plain"]], named=True)


@points(10, "communication", "planner")
def test_planner_asks_the_cost_model_it_is_given(ranks):
    planner_check(ranks, [[PLANNER_SMALL, "zaratan", 8, PLANNER_AMPLE, "heavy"]])


@points(20, "speed", "planner")
def test_planner_of_many_gpus(ranks):
    calls = [
        [planner_cases.MODELS["18B"], "dgx_a100", 512, 40 * GB, "plain"],
        [planner_cases.MODELS["1T"], "dgx_a100", 3072, 80 * GB, "plain"],
    ]
    list(planner_plans(ranks, calls[:1]))
    planner_check(ranks, calls, 1.05, 1.25)
