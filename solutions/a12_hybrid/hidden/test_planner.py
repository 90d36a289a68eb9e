"""planner.py: plans against the fastest of all mixtures that fit."""

from ringside.checking.points import points_of
from ringside.scale.hybrid_cost import Model, configs
from solutions.a12_hybrid.planner_cases import (
    GB,
    MODELS,
    planner_all,
    planner_check,
    planner_plans,
    planner_refused,
    sizes,
)

AMPLE = 10**15  # bytes of a GPU on which everything fits

points = points_of("planner")


def small(rng, **given):
    """A model of some millions of parameters; a few thousand mixtures on 16 GPUs at most."""
    heads = int(rng.choice((4, 8, 12)))
    drawn = {
        "num_layers": int(rng.choice((4, 6, 8, 12))),
        "hidden": heads * int(rng.integers(16, 65)),
        "num_heads": heads,
        "batch": int(rng.choice((16, 24, 32, 48))),
        "vocabulary": int(rng.integers(1000, 9000)),
        "sequence": int(rng.integers(64, 513)),
    }
    return sizes(**{**drawn, **given})


def slow(rng):
    """zaratan, with FLOP/s that make messages matter more, or less."""
    return f"zaratan,flop_per_s={float(rng.choice((2e12, 1e13, 5e13)))}"


@points(5, "values")
def test_one_gpu(ranks, rng):
    planner_check(ranks, [[small(rng), slow(rng), 1, AMPLE, "plain"] for _ in range(3)])


@points(13, "values")
def test_up_to_eight_gpus(ranks, rng):
    counts = (2, 2, 4, 4, 6, 8, 8, 8)
    planner_check(ranks, [[small(rng), slow(rng), count, AMPLE, "plain"] for count in counts])


@points(12, "values")
def test_nine_to_sixteen_gpus(ranks, rng):
    planner_check(ranks, [[small(rng), slow(rng), n, AMPLE, "plain"] for n in (12, 16, 16, 16)])


@points(5, "values")
def test_odd_numbers_of_gpus(ranks, rng):
    # No heads divide into these: data and pipeline are left.
    calls = []
    for count in (3, 5, 7, 15):
        model = small(rng, num_layers=int(rng.integers(17, 20)), batch=count * 4, num_heads=4)
        model["hidden"] = 4 * int(rng.integers(16, 65))
        calls.append([model, slow(rng), count, AMPLE, "plain"])
    planner_check(ranks, calls)


@points(5, "values")
def test_layers_that_stages_do_not_divide(ranks, rng):
    # A prime number of samples, so that stages and tensor ranks are what is left.
    models = [small(rng, num_layers=n, batch=13, vocabulary=50_000) for n in (5, 7, 11)]
    planner_check(ranks, [[each, slow(rng), 8, AMPLE, "plain"] for each in models])


@points(10, "values")
def test_wires_of_all_kinds(ranks, rng):
    machines = (
        "zaratan,beta_s_per_byte=8e-9",
        "zaratan,intra_beta_s_per_byte=8e-11,ranks_per_node=2",
        "zaratan,alpha_s=1e-3,intra_alpha_s=1e-3",
        "dgx_a100,ranks_per_node=3",
    )
    planner_check(
        ranks, [[small(rng), each, count, AMPLE, "plain"] for each in machines for count in (8, 12)]
    )


def tight(rng, num_gpus, count=2, **given):
    """Calls whose fastest mixture doesn't fit, but others do, which take exactly what there is."""
    calls = []
    while len(calls) < count:
        call = [small(rng, **given), slow(rng), num_gpus, AMPLE, "plain"]
        several = list(planner_all(call))
        least, most = min(needed for _, needed in several), min(several)[1]
        between = sorted({needed for _, needed in several if least <= needed < most})
        if len(between) > 3:
            calls.append([*call[:3], between[int(rng.integers(1, len(between) - 1))], "plain"])
    return calls


@points(12, "memory")
def test_fastest_that_fits(ranks, rng):
    calls = [*tight(rng, 4), *tight(rng, 8), *tight(rng, 16)]
    planner_check(ranks, calls)


@points(5, "memory")
def test_one_mixture_fits_to_the_byte(ranks, rng):
    calls = []
    for count in (1, 8):
        call = [small(rng), slow(rng), count, AMPLE, "plain"]
        calls.append([*call[:3], min(needed for _, needed in planner_all(call)), "plain"])
    planner_check(ranks, calls)


@points(5, "memory")
def test_fits_on_512_gpus(ranks):
    calls = [[MODELS["146B"], "dgx_a100", 512, 40 * GB, "plain"]]
    list(planner_plans(ranks, calls))


@points(4, "safety")
def test_refuses_where_nothing_fits(ranks, rng):
    planner_refused(ranks, too_much(rng), named=False)


@points(4, "safety")
def test_says_what_comes_nearest(ranks, rng):
    planner_refused(ranks, too_much(rng), named=True)


def too_much(rng):
    """A byte less than the least that a mixture takes."""
    calls = [[small(rng), slow(rng), count, AMPLE, "plain"] for count in (1, 6, 16)]
    calls = [[*call[:3], min(n for _, n in planner_all(call)) - 1, "plain"] for call in calls]
    return [*calls, [MODELS["39B"], "dgx_a100", 8, 16 * GB, "plain"]]


@points(5, "communication")
def test_another_cost_model(ranks, rng):
    calls = [[small(rng), slow(rng), count, AMPLE, "heavy"] for count in (8, 12, 16)]
    planner_check(ranks, calls)


@points(5, "speed")
def test_512_gpus(ranks):
    planner_check(ranks, [[MODELS["146B"], "dgx_a100", 512, 80 * GB, "plain"]], 1.05, 1.25)


@points(5, "speed")
def test_512_gpus_with_a_port_a_node(ranks):
    planner_check(ranks, [[MODELS["39B"], "zaratan", 512, 40 * GB, "plain"]], 1.05, 1.25)


@points(5, "speed")
def test_a_trillion_parameters_on_3072_gpus(ranks):
    call = [MODELS["1T"], "dgx_a100", 3072, 80 * GB, "plain"]
    assert sum(1 for _ in configs(Model(**call[0]), 3072)) > 50_000  # too many to ask about all
    planner_check(ranks, [call], 1.10)
