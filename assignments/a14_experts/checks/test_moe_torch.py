"""moe_torch.py: experts on torch.distributed, whose exchange hides behind the shared expert."""

from checks.cases import assert_exchanges, assert_sent, assert_sent_in_all
from checks.cases_torch import Gradients, Passes
from ringside.checking import assert_makespan
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("moe_torch")
ONCE, TWICE = "one forward pass", "a second one before the backward pass"
SEVERAL, PART = "several experts on a rank", "a group that is a part of the world"
SLOW = "name=slow_links,alpha_s=1e-6,beta_s_per_byte=1e-8,flop_per_s=1e9,memory_bytes_per_s=1e15"


@suite.test(
    "layer", "values", Passes(2, (6, 4), 2, k=1, how="forward"), Passes(3, (4, 7, 3), 3), weight=6
)
def test_moe_forward(case, run):
    """Shared expert and weighted answers."""


PASSES = (
    group(ONCE, Gradients(2, (6, 4), 2), Gradients(3, (4, 7, 3), 3, dtype="float32"), weight=2),
    group(TWICE, Gradients(2, (6, 4), 2, how="twice"), weight=4.5),
    group(SEVERAL, Gradients(2, (6, 5), 5), weight=2),
    group(PART, Gradients(2, (6, 4), 2).in_part()),
)


@suite.test("gradients", "values", *PASSES, checked=False, weight=16)
def test_moe_gradients_of_experts(case, run):
    """Over all ranks' tokens; those of the shared expert too."""
    case.check_parts(run, *case.parts[3:], "experts")


@suite.test("gradients_back", "values", *PASSES, checked=False, weight=20)
def test_moe_gradients_of_tokens_and_gate(case, run):
    """What goes back through the exchanges, and through the weights."""
    case.check_parts(run, *case.parts[1:3])


@suite.test("several", "values", Passes(2, (6, 5), 5))
def test_moe_several_experts_a_rank(case, run):
    """Each gets its own rows."""


@suite.test("idle", "values", Passes(3, (4, 0, 3), 3, "one", k=1))
def test_moe_where_nothing_comes(case, run):
    """Every rank takes part in every exchange, in both passes."""


@suite.test(
    "dtype", "values", Passes(1, experts=3), Passes(2, (6, 4), 2, dtype="float32"), weight=2
)
def test_moe_one_rank_and_float32(case, run):
    """The result has the dtype of x."""


test_moe_real_gloo = suite.real_ranks("layer", Passes(2, (6, 4), 2), weight=2)


@suite.test(
    "experts_alone", "communication", Passes(4, (16,), 4, "even", 40, 1, how="forward"),
    checked=False,
)  # fmt: skip
def test_moe_rows_go_to_their_experts_alone(case, run):
    """Whatever the values are: 6 exchanges of rows in the place of two are no exchange."""
    most = 6 * case.row_bytes().sum() + 3 * case.count_bytes().sum()
    assert_sent_in_all(run, case, most)


@suite.test("bytes", "communication", Passes(2, (6, 5), 2, d=40, dtype="float32"), weight=1)
def test_moe_no_row_too_many(case, run):
    """What isn't kept isn't sent."""
    for record in run.collectives:
        if record.name != "alltoall":
            raise case.fail(f"the library's {record.name} was called; only the all-to-all may be.")
    assert_sent(run, case)


@suite.test("bytes", "communication", Passes(2, (6,), 2, d=40), weight=1)
def test_moe_counts_once(case, run):
    assert_exchanges(run, case)
    assert_sent(run, case)


test_moe_given_group = suite.given_communicator("group", Passes(3, (5, 4, 6), 3), comm="the group")
test_moe_everything_is_waited_for = suite.slow_messages(
    "any_timing", Passes(3, (4, 5, 3), 3).in_part(), kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]
)


def assert_hidden(run, case):
    """The exchange beside the shared expert takes no time; in each pass the other one does."""
    machine, num_tokens = machine_of(case), case.tokens[0]
    rows_s = case.row_bytes()[0, 1] * machine.beta_s_per_byte
    exchange_s = (case.p - 1) * (machine.alpha_s + rows_s)
    counts_s = (case.p - 1) * (machine.alpha_s + 8 * machine.beta_s_per_byte)
    num_passes, num_exchanges = (1, 1) if case.how == "forward" else (3, 2)
    # Shared expert, routed one, and the gate, whose input gradient and weights' count, too.
    flops = num_passes * num_tokens * (2 * 4 * case.d * case.hidden + 2 * case.d * case.p)
    bound_s = flops / machine.flop_per_s + counts_s + num_exchanges * exchange_s
    assert_makespan(run, bound_s, case, half=1.1)


@suite.test(
    "hidden", "speed", Passes(4, (16,), 4, "even", 16, 1, hidden=32, how="forward", machine=SLOW),
    weight=9,
)  # fmt: skip
def test_moe_exchange_is_hidden_forward(case, run):
    assert_hidden(run, case)


@suite.test(
    "hidden", "speed", Passes(4, (16,), 4, "even", 16, 1, hidden=32, machine=SLOW),
    weight=13,
)  # fmt: skip
def test_moe_exchange_is_hidden_in_both_passes(case, run):
    assert_hidden(run, case)
