"""The cases of the hidden run."""

from checks import test_stash as stash
from checks.cases import Train

from ringside.checking.suite import group, hidden

# -- stash -----------------------------------------------------------------------------------------


def train(p, count, **fields):
    """Minibatches of two samples; passes are announced."""
    return Train(p, (2,) * count, **{"announced": True, **fields})


FOUR = ((2, 5), (3, 7), (4, 9), (5, 8))

hidden(
    stash.test_delayed_recursion_on_2_to_5_stages,
    *(train(p, count) for p, count in (*FOUR, (3, 3))),
)
hidden(
    stash.test_vertical_sync_on_2_to_5_stages,
    *(train(p, count, vertical_sync=True) for p, count in FOUR),
)
hidden(
    stash.test_fewer_minibatches_than_stages_and_one_stage,
    # On several stages first: what has no messages shows little.
    group(stash.FEW, *(train(p, count) for p, count in ((2, 1), (4, 2), (5, 3), (3, 0)))),
    group(stash.ALONE, train(1, 4), train(1, 1)),
)
hidden(
    stash.test_minibatches_of_different_sizes_and_float32,
    group("float32", *(train(p, 6, dtype="float32", announced=False) for p in (2, 4))),
    group(
        "float64",
        Train(2, (3, 1, 2, 4), announced=True),
        Train(3, (1, 4, 2, 3, 1, 2), announced=True),
        Train(4, (2, 5, 1, 1, 3), announced=True),
    ),
)
hidden(stash.test_losses_of_the_last_stage, train(2, 5), train(4, 6))
UNEQUAL = (1, 2, 2, 4, 3)
hidden(
    stash.test_second_call_and_all_that_is_given_stays,
    group("a second call", *(Train(p, UNEQUAL, before=True) for p in (2, 3))),
    group("a first call", *(Train(p, UNEQUAL, announced=True) for p in (2, 3))),
)
hidden(stash.test_real_mpi, train(3, 6, announced=False))
hidden(
    stash.test_stages_compute_their_pieces_and_pass_arrays_on, train(4, 8, announced=False)
)
hidden(
    stash.test_two_messages_for_each_minibatch_and_boundary,
    *(train(p, count) for p, count in ((2, 4), (3, 5), (4, 6), (5, 6), (12, 13), (18, 19))),
    train(3, 4, width=900, hidden=2),
)
hidden(
    stash.test_messages_go_to_neighbours_in_the_given_communicator,
    group(stash.WORLD, *(train(p, p + 2) for p in (2, 4, 18))),
    group(stash.PART, *(train(p, p + 2, announced=False).in_part() for p in (3, 4))),
)
hidden(
    stash.test_one_forward_one_backward_in_turn,
    *(train(p, count) for p, count in ((2, 5), (3, 6), (4, 9), (5, 7))),
)
hidden(
    stash.test_versions_are_let_go,
    group(stash.OWN, Train(5, (2,) * 14, **stash.WIDE)),
    group(stash.SYNC, Train(3, (2,) * 14, vertical_sync=True, **stash.WIDE), weight=0.5),
)
hidden(stash.test_sends_may_wait_for_their_receives, train(2, 6), train(4, 24))
MS, WIRE = (1e-3, 2e-3), {"costs": (4e-6, 8e-6), "width": 8, "alike": True, "machine": "long wire"}
hidden(
    stash.test_time_with_free_messages_and_on_a_slow_wire,
    group(stash.FREE, *(train(p, n, costs=MS, machine="free") for p, n in ((3, 7), (4, 10)))),
    # A message takes more than half of a forward pass.
    group(stash.SLOW, train(4, 10, **WIRE), train(3, 8, **WIRE)),
)
