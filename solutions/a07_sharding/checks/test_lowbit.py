"""lowbit.py: codes travel, two hops and no more, and errors stay within half a step."""

import numpy as np

from checks.cases_lowbit import Gathered, Scattered
from ringside.checking import assert_bytes, assert_makespan, assert_own_messages
from ringside.checking.suite import Suite, group

suite = Suite("lowbit")
GATHER, SCATTER = "all_gather", "reduce_scatter"
KINDS = (("zeros", "zeros", 4), ("NaN and infinities", "special", 6))
NODES = "zaratan,eager_threshold_bytes=0,alpha_s=1e-7,intra_alpha_s=2e-8"  # bytes take the time


def both(gathered, scattered):
    """A share for each function."""
    return group(GATHER, *gathered), group(SCATTER, *scattered)


@suite.test(
    "codes", "communication", *both([Gathered(4, 640)], [Scattered(4, 2560)]), checked=False
)  # fmt: skip
def test_codes_travel(case, run):
    """Whatever the values are, no rank sends or receives half of float32's bytes, or nothing."""
    if any(each.name != "barrier" for each in run.collectives):
        assert_own_messages(run, case)
    float32 = 4 * (case.p - 1) * case.size
    for did, counted in (("sent", run.sent_bytes()), ("received", run.received_bytes())):
        for rank, nbytes in enumerate(counted):
            if not float32 / 16 <= nbytes < float32 / 2:
                raise case.fail(
                    f"rank {rank} {did} {nbytes} bytes. In float32 each rank sends and receives "
                    f"{float32}, in codes of {case.bits} bits about {float32 * case.bits // 32}: "
                    "send codes and scales."
                )


@suite.test("gather", "values", Gathered(2), Gathered(3, bits=4))
def test_all_gather(case, run):
    """All elements within half a step of their blocks."""
    case.check_exactly(run)


@suite.test("same_bits", "values", Gathered(3), Gathered(2, bits=4))
def test_all_ranks_have_the_same_bits(case, run):
    first = run.values[0]
    for rank, value in enumerate(run.values):
        differ = np.flatnonzero(value != first)
        if len(differ):
            k = int(differ[0])
            raise case.fail(
                f"ranks 0 and {rank} disagree in {len(differ)} elements: element {k}, of rank "
                f"{k // case.n}'s shard, is {first[k]:.9g} and {value[k]:.9g}. Of its own shard, "
                "too, a rank returns what the others see: code times scale."
            )


@suite.test("scatter", "values", Scattered(3, 96, per_node=3), Scattered(2, 64, 4), weight=3)
def test_reduce_scatter(case, run):
    """Each rank's own part of the sum on one node, where nothing travels twice."""
    case.check_exactly(run)


@suite.test(
    "levels", "values", Scattered(4, 128), Scattered(6, 192, 4, per_node=3),
    Scattered(3, 96, 4, per_node=1), weight=11,
)  # fmt: skip
def test_reduce_scatter_on_two_levels(case, run):
    """Within the error of two hops."""
    case.check_exactly(run)


UNEVEN = {"n": 192, "kind": "uneven"}


@suite.test("blocks", "values", *both([Gathered(2, **UNEVEN)], [Scattered(2, **UNEVEN)]))
def test_each_block_has_a_scale(case, run):
    """Small numbers are not measured by large ones elsewhere."""
    case.check_exactly(run)


@suite.test(
    "awkward", "values", *both(
        [Gathered(2, n, 4) for n in (0, 1, 37)],
        [Scattered(2, n, 4) for n in (0, 3, 74)],
    ), weight=3,
)  # fmt: skip
def test_any_length(case, run):
    """An odd number of codes, a block that is cut off, parts of padding, or nothing at all."""


@suite.test(
    "awkward", "values",
    *(
        group(f"{name}, {function}", kind(2, n, kind=numbers), weight=weight)
        for name, numbers, weight in KINDS
        for function, kind, n in ((GATHER, Gathered, 48), (SCATTER, Scattered, 96))
    ),
    weight=10,
)  # fmt: skip
def test_zeros_nan_and_infinities(case, run):
    """Zeros are exact, and what isn't finite isn't lost."""
    if case.kind == "special":
        case.check_exactly(run)


@suite.test("scatter", "values", Scattered(8, 8 * 600, 4, kind="alike", per_node=8), weight=12)
def test_error_of_a_sum_grows_as_in_two_hops(case, run):
    """Quantised partial sums of equal signs would be off by more."""
    case.check_exactly(run)


test_real_mpi = suite.real_ranks("rules", Gathered(3, 20, 4), Scattered(2, 28, 4))


@suite.test(
    "costs", "communication",
    *both([Gathered(2), Gathered(3, 250, 4, 128)],
          [Scattered(2, 500, 4, 128)]), weight=1,
)  # fmt: skip
def test_bytes_of_codes_and_scales(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.nbytes] * case.p})
    assert_own_messages(run, case)
    assert_bytes(run, [case.nbytes] * case.p, case)


@suite.test(
    "levels", "communication", Scattered(4, 1000, 4, 128),
    Scattered(6, 600, per_node=3), weight=14,
)  # fmt: skip
def test_bytes_on_each_level(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.nbytes] * case.p})
    assert_own_messages(run, case)
    node, sent = np.arange(case.p) // case.per_node, np.asarray(run.bytes_matrix())
    for rank, row in enumerate(sent):
        own = node == node[rank]
        for where, nbytes, most in zip(
            ("of its node", "of other nodes"), (row[own].sum(), row[~own].sum()), case.level_nbytes,
            strict=True,
        ):  # fmt: skip
            if nbytes > most:
                raise case.fail(
                    f"rank {rank} sent {nbytes:.0f} bytes to ranks {where}; at most {most} are "
                    "allowed: add up inside the node first, and send codes and one scale a block."
                )


test_given_communicator_is_used = suite.given_communicator(
    "rules", *both([Gathered(3)], [Scattered(2, 32)])
)
test_messages_may_wait_and_come_in_any_order = suite.slow_messages(
    "rules", *both([Gathered(4)], [Scattered(4, 64, per_node=4)])
)
test_inputs_stay_and_a_second_call_is_right = suite.second_call(
    "rules",
    *both([Gathered(3)], [Scattered(2, 32)]),
    inputs_kept=True,
)


@suite.test(
    "costs", "speed", *both(
        [Gathered(8, 20_000, machine="long wire")],
        [Scattered(8, 160_000, machine=NODES, per_node=4)],
    ), weight=2,
)  # fmt: skip
def test_time(case, run):
    assert_makespan(run, case.time_s, case)
