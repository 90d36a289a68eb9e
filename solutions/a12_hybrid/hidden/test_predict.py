"""predict.py: against published tables, exact counts, and replays of a traced GPT."""

from pathlib import Path

from ringside.checking import Verdict
from ringside.checking.points import points_of
from solutions.a12_hybrid.hidden import predict_oracle as oracle
from solutions.a12_hybrid.hidden.parts import checked
from solutions.a12_hybrid.predict_cases import (
    config,
    megatron,
    model,
    number,
    predict_asked,
    predict_near,
    replays,
)

REPLAYS = Path(__file__).with_name("replays.toml")
GPT3 = model(96, 12288, 96, 1536)
MACHINES = ("zaratan", "dgx_a100", "zaratan,gpus_per_nic=1")

points = points_of("predict")


def drawn(rng, **given):
    """A model of no pattern; eight divides its heads and its layers, and 96 the batch."""
    heads = 8 * int(rng.integers(1, 5))
    sizes = {
        "num_layers": 8 * int(rng.integers(1, 6)),
        "hidden": heads * int(rng.integers(20, 90)),
        "num_heads": heads,
        "batch": 96 * int(rng.integers(1, 5)),
        "vocabulary": int(rng.integers(3_000, 60_000)),
        "sequence": int(rng.integers(100, 3000)),
    }
    return model(**{**sizes, **given})


def check(ranks, function, calls, tolerance, key=None, beside=""):
    """All answers are the oracle's."""
    rights = [getattr(oracle, function)(*map(oracle.revived, call)) for call in calls]
    rights = [right if key is None else right[key] for right in rights]
    predict_near(ranks, function, calls, rights, tolerance, beside, key)


# -- counts ----------------------------------------------------------------------------------------


@points(10, "values")
def test_parameters(ranks, rng):
    # The first two of its ten rows are printed with too few digits.
    rows = [row for row in megatron("scaling") if row["parameters"] >= 7.5]
    calls = [[model(row["layers"], row["hidden"], 32, 512)] for row in rows]
    rights = [1e9 * row["parameters"] for row in rows]
    predict_near(ranks, "num_parameters", calls, rights, 0.005, ", as published")
    # Words and positions are a large share of these.
    small = [[drawn(rng, hidden=64 * k, num_layers=k)] for k in (1, 2, 5)]
    check(ranks, "num_parameters", small, 0.005)


@points(11, "values")
def test_flops_of_a_step(ranks, rng):
    def flops(recompute):
        models = (GPT3, *(drawn(rng) for _ in range(4)))
        check(ranks, "step_flops", [[each, recompute] for each in models], 0.005)

    checked({"no recomputation": lambda: flops(False), "recomputation": lambda: flops(True)})


@points(8, "values")
def test_days_of_megatrons_table(ranks):
    calls, rights = [], []
    for row in megatron("days"):
        speed = 1e12 * row["tflops"]
        calls.append([1e9 * row["parameters"], 300e9, row["gpus"], speed])
        rights.append(row["days"])
    predict_near(ranks, "training_days", calls, rights, 0.035, ", as published")


# -- memory ----------------------------------------------------------------------------------------


@points(8, "memory")
def test_state_of_every_stage(ranks, rng):
    psi, d = int(rng.integers(10**6, 10**9)), int(rng.integers(2, 2000))
    several = [(7_500_000_000, 64), (7_500_000_000, 4), (psi * d, d), (1200, 1)]
    check(ranks, "state_bytes", [[*each, zero] for each in several for zero in range(4)], 1e-9)


@points(12, "memory")
def test_memory_of_mixtures(ranks, rng):
    def memory(stages):
        grids = ((1, 1, 1, 1), (4, 2, 1, 2), (2, 4, 4, 1), (3, 8, 8, 2), (1, 2, 8, 4))
        options = [{"zero": zero, "recompute": "none"} for zero in stages]
        calls = [[drawn(rng), config(*g, **each)] for g in grids for each in options]
        check(ranks, "memory_bytes", calls, 0.005)

    def recomputed():
        grids = ((1, 1, 1, 4), (4, 2, 1, 8), (2, 4, 4, 8), (1, 8, 8, 4))
        calls = [[drawn(rng, vocabulary=5000), config(*g, zero=0, recompute="full")] for g in grids]
        check(ranks, "memory_bytes", calls, 0.005)

    # What ZeRO cuts is the test of ``state_bytes``: here it hardly counts.
    checked(
        {
            "mixtures without ZeRO": lambda: memory([0]),
            "ZeRO": lambda: memory([1, 2, 3]),
            "recomputation": recomputed,
        },
        {"mixtures without ZeRO": 6, "ZeRO": 1, "recomputation": 3},
    )


# -- bytes -----------------------------------------------------------------------------------------


def counted(key):
    """Calls of ``sent_bytes`` whose bytes were counted in a trace, and these bytes."""
    rows = list(replays(REPLAYS, "bytes"))
    return [call for call, _ in rows], [answer[key] for _, answer in rows]


GRIDS = ((1, 2, 1, 1), (4, 1, 1, 2), (2, 4, 2, 1), (3, 8, 4, 2), (8, 4, 8, 3))


def mixtures(rng, **options):
    """Calls of ``sent_bytes``."""
    options = {"recompute": "none", **options}
    return [[drawn(rng), config(*grid, **options)] for grid in GRIDS]


def check_axis(ranks, rng, axis):
    """As in the trace, and as the formula says for other grids."""
    predict_near(ranks, "sent_bytes", *counted(axis), 1e-9, ", as was traced", key=axis)
    check(ranks, "sent_bytes", mixtures(rng), 1e-9, key=axis)


@points(7, "communication")
def test_bytes_of_the_tensor_axis(ranks, rng):
    check_axis(ranks, rng, "tensor")


@points(6, "communication")
def test_bytes_of_the_pipeline_axis(ranks, rng):
    check_axis(ranks, rng, "pipeline")


@points(7, "communication")
def test_bytes_of_the_data_axis(ranks, rng):
    check_axis(ranks, rng, "data")


@points(5, "communication")
def test_bytes_with_recomputation_and_interleaved_stages(ranks, rng):
    check(ranks, "sent_bytes", mixtures(rng, recompute="full"), 1e-9, key="tensor")
    interleaved = [[drawn(rng), config(2, 2, 4, 3, interleave=2, recompute="none")]]
    check(ranks, "sent_bytes", interleaved, 1e-9, key="pipeline")


@points(5, "communication")
def test_bytes_of_zero_2_and_3(ranks, rng):
    for zero in (2, 3):
        check(ranks, "sent_bytes", mixtures(rng, zero=zero), 1e-9, key="data")


# -- seconds ---------------------------------------------------------------------------------------


def check_replays(ranks, chosen):
    """Within 5 % of the replays on the grids that ``chosen`` takes."""
    rows = [row for row in replays(REPLAYS, "times") if chosen(row[0][1])]
    calls, rights = [call for call, _ in rows], [answer for _, answer in rows]
    predict_near(ranks, "step_s", calls, rights, 0.05, " s, as replayed")


@points(5, "speed")
def test_step_without_stages(ranks):
    check_replays(ranks, lambda c: c["pipeline"] == 1)


@points(10, "speed")
def test_step_with_stages(ranks):
    check_replays(ranks, lambda c: c["pipeline"] > 1)


@points(6, "speed")
def test_uneven_and_interleaved_stages_and_faster_machines(ranks, rng):
    uneven = [
        [drawn(rng, num_layers=n, vocabulary=5000), config(2, 2, p, 2), machine]
        for n, p, machine in zip((5, 9, 19), (4, 8, 8), MACHINES, strict=True)
    ]
    interleaved = [
        [
            drawn(rng, num_layers=16, vocabulary=5000, batch=24),
            config(2, 2, 4, 3, interleave=v),
            machine,
        ]
        for v, machine in zip((2, 4, 2), MACHINES, strict=True)
    ]
    beside = " s, as the formula says"
    checked(
        {
            "uneven stages": lambda: check(ranks, "step_s", uneven, 0.05, beside=beside),
            "interleaved stages": lambda: check(ranks, "step_s", interleaved, 0.05, beside=beside),
            "faster machines": lambda: more_bandwidth_is_never_slower(ranks, rng),
        }
    )


def more_bandwidth_is_never_slower(ranks, rng):
    """On faster links and GPUs a step takes at most as long."""
    fast = "zaratan,beta_s_per_byte=4e-11,intra_beta_s_per_byte=5e-12"
    machines = "zaratan", "zaratan,flop_per_s=3.9e13", fast, f"{fast},flop_per_s=3.9e13"
    given = [[drawn(rng), config(*grid, recompute="none")] for grid in GRIDS]
    calls = [[*each, machine] for each in given for machine in machines]
    found = list(predict_asked(ranks, "step_s", calls))
    times = [number(*each) for each in found]
    for k in range(0, len(times), 4):
        first, *others = times[k : k + 4]
        slower = calls[k][2]
        for faster, (_, where, line) in zip(others, found[k + 1 : k + 4], strict=True):
            if not 0 < faster <= first * (1 + 1e-9):
                raise Verdict(
                    f"{where} is {faster:.6g} s; it must be at most the {first:.6g} s of "
                    f"{slower}, which is slower.",
                    reproduce=line,
                )
        if not first > times[k + 3]:
            _, where, line = found[k]
            raise Verdict(
                f"{where} is {first:.6g} s; with more bandwidth and FLOP/s it must be less.",
                reproduce=line,
            )
