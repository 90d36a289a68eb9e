"""planner.py: plans against the fastest of all mixtures that fit."""

from ringside import Machine
from ringside.checking.points import points_of
from ringside.scale.hybrid_cost import AXES, Model, configs
from solutions.a12_hybrid.hidden.parts import checked
from solutions.a12_hybrid.planner_cases import (
    GB,
    MODELS,
    PLANNER_COSTS,
    planner_all,
    planner_check,
    planner_plans,
    planner_refused,
    sizes,
)

AMPLE = 10**15  # bytes of a GPU on which everything fits
MACHINES = (
    "zaratan,flop_per_s=2e12",
    "zaratan,flop_per_s=5e13",
    "zaratan,beta_s_per_byte=8e-9",
    "zaratan,alpha_s=1e-3,intra_alpha_s=1e-3",
    "zaratan,intra_beta_s_per_byte=8e-11,ranks_per_node=2",
    "dgx_a100,flop_per_s=1e13",
    "dgx_a100,flop_per_s=1e13,ranks_per_node=3",
)

points = points_of("planner")


def small(rng, **given):
    """A model of some millions of parameters; a few thousand mixtures on 16 GPUs at most."""
    heads = int(rng.choice((4, 8, 12)))
    drawn = {
        "num_layers": int(rng.choice((4, 6, 8, 12))),
        "num_heads": heads,
        "batch": int(rng.choice((4, 6, 12, 24, 48))),
        "vocabulary": int(rng.integers(1000, 9000)),
        "sequence": int(rng.integers(64, 513)),
        **given,
    }
    return sizes(hidden=drawn["num_heads"] * int(rng.integers(16, 65)), **drawn)


def costs_of(call):
    """Per mixture that can run: ``(step_s, memory_bytes, config)``."""
    model, machine, num_gpus, _, name = call
    given, on = Model(**model), Machine.load(machine)
    for config in configs(given, num_gpus):
        told = PLANNER_COSTS[name](given, config, on)
        yield told.step_s, told.memory_bytes, config


def special(call, config):
    """What a mixture has that tests of their own ask for."""
    ones = [axis for axis in AXES if getattr(config, axis) == 1]
    usual = tuple(axis for axis in AXES if axis not in ones) + tuple(ones)
    found = {"order"} if config.order != usual else set()
    found |= {"interleaved"} if config.interleave > 1 else set()
    return found | ({"uneven"} if call[0]["num_layers"] % config.pipeline else set())


def fastest(call, without=()):
    """Seconds of the fastest mixture that fits and has nothing of ``without``."""
    several = [
        step_s
        for step_s, needed, config in costs_of(call)
        if needed <= call[3] and not special(call, config).intersection(without)
    ]
    return min(several, default=float("inf"))


CASES = {"order", "interleaved", "uneven"}


def drawn(rng, counts, case=None, **given):
    """Calls whose fastest mixture is usual, or special in the way of ``case`` alone."""
    calls = []
    for count in counts:
        for _ in range(200):
            call = [small(rng, **given), str(rng.choice(MACHINES)), count, AMPLE, "plain"]
            best_s = fastest(call) * (1 + 1e-7)
            others = CASES - {case}
            if best_s == float("inf"):  # no heads, layers or samples divide so
                continue
            if fastest(call, others) > best_s or (case and fastest(call, {case}) <= best_s):
                continue
            calls.append(call)
            break
        else:
            raise RuntimeError(f"no call of {count} GPUs for the case {case}")
    return calls


@points(14, "values")
def test_up_to_eight_gpus(ranks, rng):
    planner_check(ranks, drawn(rng, (2, 2, 4, 4, 6, 8, 8, 8)))


@points(10, "values")
def test_nine_to_sixteen_gpus(ranks, rng):
    planner_check(ranks, drawn(rng, (9, 12, 12, 16, 16)))


@points(8, "values")
def test_one_gpu_and_odd_numbers_of_gpus(ranks, rng):
    def odd():
        counts = (3, 5, 7, 15)
        planner_check(ranks, [drawn(rng, (n,), batch=4 * n, num_layers=n)[0] for n in counts])

    checked({"one GPU": lambda: planner_check(ranks, drawn(rng, (1, 1, 1))), "odd numbers": odd})


@points(5, "values")
def test_layers_that_stages_do_not_divide(ranks, rng):
    # Few samples and a prime number of layers, so that stages and tensor ranks are what is left.
    planner_check(ranks, drawn(rng, (8, 8, 12), "uneven", num_layers=11, batch=4))


@points(8, "values")
def test_orders_of_the_axes(ranks, rng):
    # Long sequences and narrow layers: stages must be neighbours, and replicas needn't.
    calls = []
    for count, machine in ((8, MACHINES[1]), (12, MACHINES[-1]), (16, MACHINES[1])):
        width, words = int(rng.integers(48, 97)), int(rng.integers(1000, 3000))
        model = sizes(12, width, 1, 4, words, int(rng.integers(1500, 2500)))
        calls.append([model, machine, count, AMPLE, "plain"])
    planner_check(ranks, calls)


@points(5, "values")
def test_interleaved_stages(ranks, rng):
    # Wide layers and short sequences: gradients take long, messages between stages don't.
    slow = "beta_s_per_byte=1e-9,intra_beta_s_per_byte=1e-9"
    calls = []
    for count in (4, 8, 8):
        model = sizes(16, int(rng.integers(400, 700)), 1, 8, 800, int(rng.integers(64, 100)))
        machine = f"zaratan,gpus_per_nic=1,flop_per_s=1e12,{slow}"
        calls.append([model, machine, count, AMPLE, "plain"])
    planner_check(ranks, calls)


def tight(rng, counts):
    """Calls whose fastest mixture doesn't fit, but others do, which take exactly what there is."""
    calls = []
    while len(calls) < len(counts):
        (call,) = drawn(rng, counts[len(calls) : len(calls) + 1])
        several = list(planner_all(call))
        least, most = min(needed for _, needed in several), min(several)[1]
        between = sorted({needed for _, needed in several if least <= needed < most})
        if len(between) > 3:
            call[3] = between[int(rng.integers(1, len(between) - 1))]
            if fastest(call, CASES) <= fastest(call) * (1 + 1e-7):
                calls.append(call)
    return calls


@points(12, "memory")
def test_fastest_that_fits(ranks, rng):
    planner_check(ranks, tight(rng, (4, 4, 8, 8, 16, 16)))


@points(5, "memory")
def test_one_mixture_fits_to_the_byte(ranks, rng):
    calls = []
    for count in (1, 8):
        (call,) = drawn(rng, (count,))
        calls.append([*call[:3], min(needed for _, needed in planner_all(call)), "plain"])
    planner_check(ranks, calls)


@points(5, "memory")
def test_fits_on_512_gpus(ranks):
    # A byte less than the fastest mixture takes of 40 GB.
    call = [MODELS["146B"], "dgx_a100", 512, 40 * GB, "plain"]
    call[3] = min(each for each in planner_all(call) if each[1] <= call[3])[1] - 1
    list(planner_plans(ranks, [call]))


@points(8, "safety")
def test_refuses_and_says_what_comes_nearest(ranks, rng):
    calls = too_much(rng)
    checked(
        {
            "refusing": lambda: planner_refused(ranks, calls, named=False),
            "what comes nearest": lambda: planner_refused(ranks, calls, named=True),
        }
    )


def too_much(rng):
    """A byte less than the least that a mixture takes."""
    calls = drawn(rng, (1, 6, 16))
    calls = [[*call[:3], min(n for _, n in planner_all(call)) - 1, "plain"] for call in calls]
    return [*calls, [MODELS["39B"], "dgx_a100", 8, 16 * GB, "plain"]]


@points(5, "communication")
def test_another_cost_model(ranks, rng):
    # What the kit's cost model takes for the fastest doesn't fit in this one.
    calls = []
    while len(calls) < 3:
        call = drawn(rng, (8,))[0]
        config = min(costs_of(call), key=lambda each: each[0])[2]
        heavy = PLANNER_COSTS["heavy"](Model(**call[0]), config, Machine.load(call[1]))
        call[3:] = heavy.memory_bytes - 1, "heavy"
        if fastest(call) < float("inf") and fastest(call, CASES) <= fastest(call) * (1 + 1e-7):
            calls.append(call)
    planner_check(ranks, calls)


@points(5, "speed")
def test_512_gpus(ranks):
    # With more memory a ZeRO-3 of replicas alone is nearly the fastest; here axes must be mixed.
    planner_check(ranks, [[MODELS["146B"], "dgx_a100", 512, 50 * GB, "plain"]], 1.05, 1.25)


@points(5, "speed")
def test_512_gpus_with_a_port_a_node(ranks):
    machine = "zaratan,flop_per_s=1.5e14"  # as fast as in 16 bits, so the port decides
    planner_check(ranks, [[MODELS["39B"], machine, 512, 40 * GB, "plain"]], 1.05, 1.25)


@points(5, "speed")
def test_a_trillion_parameters_on_3072_gpus(ranks):
    call = [MODELS["1T"], "dgx_a100", 3072, 80 * GB, "plain"]
    assert sum(1 for _ in configs(Model(**call[0]), 3072)) > 50_000  # too many to ask about all
    # The second one's best is far from the first 20,000 that ``configs`` yields.
    heavy = [*call[:3], 60 * GB, "heavy"]
    planner_check(ranks, [call, heavy], 1.10)
