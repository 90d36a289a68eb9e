"""The cases of the hidden run."""

from checks import test_compress_torch as compress
from checks import test_diloco_torch as diloco
from checks import test_gossip as gossip
from checks import test_local_sgd as local_sgd
from checks import test_server as server
from checks.cases import (
    LocalSgd,
    LocalSgdTwice,
    RefusedLocalSgd,
    RefusedTraining,
    ScriptedServer,
    ScriptedWorkers,
    Training,
    TrainingTwice,
)
from checks.cases_gossip import Gossip, GossipTwice, RefusedGossip
from checks.cases_torch import (
    Compress,
    CompressInTurns,
    Diloco,
    DilocoTwice,
    RefusedCompress,
    RefusedDiloco,
)

from ringside.checking.suite import group, hidden

each_way, one_call = server.each_way, compress.one_call

# -- server ----------------------------------------------------------------------------------------

hidden(server.test_gradients_travel_to_the_server, Training(4, (3,), n=8, machine="buffered"))
hidden(
    server.test_asynchronous_training_takes_each_push_as_it_comes,
    TrainingTwice(3, (2, 3)),
    Training(3, (4,), n=7),
    Training(4, (3, 5, 4)),
    Training(5, (3,), n=2),
    Training(2),
)
hidden(
    server.test_synchronous_rounds_equal_synchronous_sgd,
    Training(3, (4,), 0),
    Training(4, (3,), 0, n=8),
    Training(5, (5,), 0, n=2),
    Training(9, (2,), 0),
)
hidden(
    server.test_stale_synchronous_training,
    Training(3, (4,), 1, (7, 2)),
    Training(4, (3, 3, 5), 1, (7, 2, 3)),
    Training(5, (5, 4, 6, 6), 2, (7, 2, 3, 4)),
)
hidden(
    server.test_workers_end_at_different_times,
    *each_way(
        *(Training(5, (4, 1, 0, 3), staleness, (2, 9, 2, 5)) for staleness in (0, 1, None)),
        Training(4, (1, 5, 3), 0, (9, 2, 3)),
        Training(3, (2, 6), 2, (9, 2)),
        *(ScriptedWorkers(4, (1, 4, 3), staleness, late=40) for staleness in (0, 1)),
        waiting=2,
    ),
)
hidden(
    server.test_no_weights_no_steps_one_rank_and_wrong_arguments,
    Training(3, (2, 3), n=0),
    Training(3, (0,)),
    Training(1),
    RefusedTraining(3, -1, -2),
)
hidden(
    server.test_real_mpi,
    *(
        Training(4, (3, 0, 4), staleness, n=5, fixed=staleness != 0, paces=(1,))
        for staleness in (None, 1, 0)
    ),
)
hidden(
    server.test_messages_are_those_of_the_protocol,
    *each_way(
        Training(2, (3,), 0, n=5),
        Training(3, (2, 4), 1, n=5),
        Training(5, (3, 1, 2, 2), n=7),
        Training(11, (2,), 0, n=3),
        Training(18, (1,), 0, n=3),
        Training(3, (3, 2), 1, n=4000),
    ),
)
hidden(
    server.test_server_answers_with_the_version_that_it_should,
    *each_way(
        ScriptedWorkers(3, (3, 4), None, (6, 2)),
        ScriptedWorkers(4, (4, 2, 5), 1, (6, 2, 3)),
        ScriptedWorkers(4, (3, 3, 2), 0, (6, 2, 3)),
    ),
)
hidden(
    server.test_worker_pushes_the_version_that_it_pulled,
    ScriptedServer(2, (3,)),
    ScriptedServer(4, (2, 0, 4)),
    ScriptedServer(5, (2,)),
)
hidden(server.test_given_communicator_is_used, Training(3, (3, 2)))
hidden(
    server.test_nobody_gets_too_far_ahead,
    *(Training(4, (3, 8, 8), most, (20, 3, 4), announced=True) for most in (1, 2, 3)),
)
hidden(
    server.test_messages_may_be_slow_and_come_at_once,
    *each_way(
        *(Training(4, (3, 2, 4), staleness) for staleness in (0, 1, None)),
        *(Training(6, (4,), staleness, (2,), fixed=True) for staleness in (0, 2)),
    ),
)
hidden(
    server.test_time_with_one_slow_worker,
    *each_way(  # worker 1 is four times slower: it takes 40 ms, the others 38
        *(
            Training(5, (10, 38, 38, 38), most, (4, 1, 1, 1), n=50, fixed=True, announced=True)
            for most in (None, 1, 4, 9)
        )
    ),
)

# -- local_sgd -------------------------------------------------------------------------------------

SHAPES = local_sgd.SHAPES
LONELY = ((3, 4), (4,), (4, 2), (1,))  # 25 elements
ODD = ((5, 3), (), (0, 2), (1, 2, 3), (1,))
WIDE = ((90, 80), (80,))  # below the bytes from which sends wait

hidden(local_sgd.test_ranks_meet_once_a_period, LocalSgd(4, 6, 3, SHAPES))
hidden(
    local_sgd.test_serial_recursion_on_2_to_5_ranks,
    group(
        local_sgd.EVEN,
        *(
            LocalSgd(p, num_steps, period, SHAPES)
            for p, num_steps, period in ((2, 6, 3), (3, 8, 2), (4, 15, 5), (5, 8, 4), (2, 12, 6))
        ),
        weight=4,
    ),
    group(
        local_sgd.ODD,
        *(
            LocalSgd(p, num_steps, period, LONELY)
            for p, num_steps, period in ((2, 6, 3), (3, 8, 2), (4, 15, 5))
        ),
        weight=8,
    ),
)
hidden(
    local_sgd.test_last_partial_period_is_averaged,
    *(
        LocalSgd(p, num_steps, period, SHAPES)
        for p, num_steps, period in ((2, 7, 3), (3, 5, 4), (4, 9, 2), (5, 11, 7), (3, 4, 9))
    ),
)
hidden(local_sgd.test_period_1_is_data_parallelism, *(LocalSgd(p, 5, 1, SHAPES) for p in (2, 3, 5)))
hidden(
    local_sgd.test_no_steps_one_rank_and_wrong_numbers,
    LocalSgd(3, 0, 2, SHAPES),
    LocalSgd(2, 0, 1, SHAPES),
    LocalSgd(1, 6, 3, SHAPES),
    *(RefusedLocalSgd(3, *numbers) for numbers in ((5, 0), (5, -1), (-1, 2), (0, 0))),
)
hidden(
    local_sgd.test_any_arrays,
    LocalSgd(3, 4, 2, ODD),
    LocalSgd(2, 4, 2, SHAPES, "float32"),
    LocalSgd(4, 4, 2, ODD, "float32"),
    LocalSgd(2, 4, 2, ((),)),
    LocalSgd(3, 4, 2, SHAPES, nan_of=1),
)
hidden(
    local_sgd.test_params_stay_and_results_are_new,
    *(LocalSgdTwice(*case, SHAPES) for case in ((2, 4, 2), (3, 2, 1), (2, 0, 1))),
)
hidden(local_sgd.test_real_mpi, LocalSgd(3, 6, 3, SHAPES), LocalSgd(3, 3, 3, SHAPES))
hidden(
    local_sgd.test_bytes_of_one_all_reduce_a_period,
    group(
        local_sgd.EVEN,
        *(LocalSgd(p, 6, 3, SHAPES) for p in (2, 3, 4, 5)),
        LocalSgd(12, 4, 2, SHAPES),
    ),
    group(
        local_sgd.ODD,
        LocalSgd(18, 3, 3, SHAPES),
        LocalSgd(3, 4, 2, WIDE),
        LocalSgd(4, 3, 1, LONELY),
    ),
    group("float32", *(LocalSgd(p, 4, 2, SHAPES, "float32") for p in (2, 5)), weight=3),
)
hidden(
    local_sgd.test_copies_are_equal_bit_for_bit,
    *(LocalSgd(p, 6, period, SHAPES) for p, period in ((3, 2), (5, 3), (4, 1))),
    LocalSgd(4, 7, 3, LONELY),
)
hidden(
    local_sgd.test_given_communicator_is_used,
    LocalSgd(3, 6, 2, SHAPES),
    LocalSgd(4, 6, 3, SHAPES),
)
hidden(
    local_sgd.test_sends_may_wait_and_messages_may_be_slow,
    *(LocalSgd(p, 4, 2, SHAPES) for p in (2, 3, 5)),
)
hidden(
    local_sgd.test_time_on_16_ranks,
    LocalSgd(16, 12, 4, ((120, 200), (200, 80)), "float32", machine=local_sgd.SLOW_RANKS),
)
hidden(
    local_sgd.test_small_arrays_travel_together,
    LocalSgd(8, 6, 2, ((5, 4), (4,)) * 12, machine=local_sgd.SLOWER_RANKS),
)

# -- gossip ----------------------------------------------------------------------------------------

RINGS = group(gossip.RINGS, *(Gossip(p) for p in (2, 3, 4, 5)))
COUNTED = (
    Gossip(9, "wheel", 2, (3,)),
    Gossip(10, "even", 3, (3,)),
    Gossip(18, "even", 2, (2,)),
)
ROWS = (
    (("me",), (0.1,)),
    (("you", "you"), (0.1, 0.1)),
    ((2,), (0.1,)),
    ((-1,), (0.1,)),
    (("you",), (0.1, 0.1)),
    (("you",), ()),
    (("you",), (-0.1,)),
    (("you",), (1.1,)),
)

hidden(gossip.test_values_travel_to_neighbours, Gossip(4, shape=(8,)))
hidden(
    gossip.test_ring_on_2_to_5_ranks,
    *(Gossip(p, "ring", rounds, (7,)) for p, rounds in ((2, 3), (3, 4), (4, 5), (5, 7))),
)
hidden(
    gossip.test_wheel,
    *(Gossip(p, "wheel", rounds) for p, rounds in ((4, 1), (5, 4), (8, 3), (11, 2))),
)
hidden(
    gossip.test_random_graphs_with_weights_of_their_own,
    *(Gossip(p, "random", rounds, (4,)) for p, rounds in ((3, 2), (5, 6), (7, 3), (10, 4))),
)
hidden(
    gossip.test_any_array,
    Gossip(3, "ring", 3, (2, 3), "float32"),
    Gossip(4, "ring", 3, ()),
    Gossip(3, "ring", 3, (0, 4)),
    Gossip(5, "even", 3, (), "float32"),
    Gossip(6, "ring", 2, (3,), nan_of=4),
)
hidden(
    gossip.test_no_rounds_no_neighbours_one_rank_and_wrong_rows,
    Gossip(4, "apart"),
    Gossip(3, "ring", 0),
    Gossip(1, "ring", 4),
    *(RefusedGossip(neighbours=own, weights=weights) for own, weights in ROWS),
    RefusedGossip(num_rounds=-1),
)
hidden(
    gossip.test_inputs_stay_and_a_second_call_is_right,
    *(
        GossipTwice(3, graph, rounds, (3, 2))
        for graph, rounds in (("ring", 2), ("line", 1), ("ring", 0))
    ),
)
hidden(gossip.test_real_mpi, Gossip(4, "wheel"), Gossip(4, "ring"))
hidden(
    gossip.test_one_message_a_round_and_neighbour,
    RINGS,
    group(gossip.OTHERS, *COUNTED),
)
hidden(
    gossip.test_bytes_to_each_neighbour,
    RINGS,
    group(gossip.OTHERS, *COUNTED, Gossip(3, "wheel", 2, (7200,))),
    group(gossip.NARROW, Gossip(4, dtype="float32"), weight=3),
)
hidden(gossip.test_given_communicator_is_used, Gossip(4))
hidden(
    gossip.test_sends_may_wait_and_messages_come_in_any_order,
    group(gossip.RINGS, Gossip(2), Gossip(5)),
    group(
        gossip.OTHERS,
        Gossip(6, "wheel"),
        Gossip(7, "even"),
        Gossip(4, "line", machine=gossip.THREE_A_NODE),
    ),
)
hidden(
    gossip.test_a_round_on_a_ring_takes_one_latency,
    Gossip(8, "ring", 10, (1,)),
    Gossip(6, "ring", 10, (5000,)),
)
hidden(
    gossip.test_a_hub_talks_to_all_at_once,
    Gossip(12, "wheel", 10, (1,)),
    Gossip(16, "even", 10, (1,)),
)

# -- diloco_torch ----------------------------------------------------------------------------------

EVEN, SLOW, once = diloco.EVEN, diloco.SLOW, diloco.once

hidden(diloco.test_ranks_meet_once_a_period, once(4, 6, 3, widths=EVEN))
hidden(
    diloco.test_serial_recursion_on_2_to_5_ranks,
    group(
        diloco.ONE,
        DilocoTwice(2, 9, 3, 1, widths=EVEN),
        Diloco(2, 5, 1, 1, (1.0, 0.0), widths=EVEN),
        Diloco(5, 8, 4, 1, (0.5, 0.3), widths=EVEN),
    ),
    group(
        diloco.SEVERAL,
        Diloco(3, 12, 4, 2, widths=EVEN),
        Diloco(4, 10, 5, 3, widths=EVEN),
        Diloco(5, 8, 4, 4, (0.5, 0.3), widths=EVEN),
    ),
)
hidden(
    diloco.test_inner_optimizers_keep_their_state,
    once(2, 8, 4, inner="momentum"),
    once(3, 8, 4, inner="adamw"),
)
hidden(
    diloco.test_last_partial_period_is_averaged,
    *(once(*numbers) for numbers in ((2, 7, 3), (3, 11, 4), (2, 3, 5), (2, 5, 4))),
)
hidden(
    diloco.test_fragments_of_uneven_length_and_empty_ones,
    once(2, 9, 7, 7),
    once(3, 9, 6, 6, widths=(1, 1, 1)),
)
hidden(
    diloco.test_frozen_parameters_and_float32,
    once(2, 6, 3, frozen=True),
    once(3, 4, 2, dtype="float32"),
)
hidden(
    diloco.test_no_steps_one_rank_and_wrong_numbers,
    once(3, 0, 2),
    once(1, 4, 2),
    *(RefusedDiloco(2, *numbers) for numbers in ((-1, 2, 1), (4, 0, 1), (4, 2, 0), (4, 2, 3))),
    *(RefusedDiloco(2, outer_momentum=momentum) for momentum in (1.0, -0.1)),
)
hidden(diloco.test_real_gloo, once(2, 9, 3))
hidden(
    diloco.test_bytes_of_one_all_reduce_a_period,
    group(
        diloco.ONE,
        *(once(*numbers, 1, widths=EVEN) for numbers in ((2, 8, 4), (5, 6, 3), (18, 4, 2))),
    ),
    group(
        diloco.SEVERAL,
        *(once(*numbers, widths=EVEN) for numbers in ((3, 8, 4, 4), (4, 7, 3, 2), (12, 5, 2, 2))),
        once(3, 6, 3, 3, widths=(60, 90, 21)),
    ),
)
hidden(
    diloco.test_peak_of_a_step_falls_by_the_number_of_fragments,
    *(once(p, 17, 8, count, widths=EVEN, announced=True) for p, count in ((2, 2), (3, 4), (2, 8))),
)
hidden(diloco.test_given_group_is_used, once(3, 6, 3))
hidden(diloco.test_copies_are_equal_bit_for_bit, once(5, 7, 3))
hidden(diloco.test_messages_may_be_slow_and_are_completed, once(4, 6, 3))
hidden(
    diloco.test_time_of_long_and_short_fragments,
    group(
        diloco.LONG,
        once(8, 8, 4, widths=(40, 50, 30), step_s=1e-3, machine=SLOW),
    ),
    group(diloco.SHORT, once(16, 8, 4, step_s=1e-3, machine=SLOW)),
)

# -- compress_torch --------------------------------------------------------------------------------

hidden(compress.test_thin_matrices_travel, one_call(4, (16, 24), 1))
hidden(
    compress.test_first_call_on_2_to_5_ranks,
    one_call(2, (6, 9), 1),
    one_call(3, (9, 5), 2),
    one_call(4, (7, 7), 3),
    one_call(5, (4, 12), 2),
    one_call(3, (3, 6), 2),
    one_call(1, (4, 6), 2),
)
hidden(
    compress.test_what_was_left_out_is_sent_later,
    Compress(2, (6, 9), 1, 6),
    Compress(3, (8, 5), 2, 6, "steady"),
)
hidden(
    compress.test_state_and_results_belong_to_one_gradient,
    CompressInTurns(2, (6, 9), 2),
    CompressInTurns(3, (8, 5), 1),
    CompressInTurns(2, (7, 3), 4),
)
hidden(
    compress.test_vectors_and_small_sides_go_uncompressed,
    Compress(2, (7,), 2, 2),
    Compress(3, (9, 2), 2, 2),
    Compress(2, (3, 8), 4, 2),
    Compress(2, (), 1, 2),
    Compress(3, (0, 5), 1, 2),
    Compress(2, (5, 0), 2, 2),
)
hidden(
    compress.test_more_dimensions_and_float32,
    Compress(2, (4, 3, 3), 2, 2),
    Compress(3, (5, 2, 2, 2), 1, 2),
    Compress(2, (2, 3, 4), 2, 2),
    Compress(3, (6, 8), 2, 3, dtype="float32"),
)
hidden(
    compress.test_zeros_lose_nothing,
    Compress(2, (6, 7), 2, 3, "zeros"),
    Compress(3, (6, 7), 1, 3, "zeros"),
)
hidden(
    compress.test_wrong_arguments_are_refused,
    RefusedCompress(2, 0),
    RefusedCompress(2, -1),
    RefusedCompress(2, residual_shape=(6, 4)),
    RefusedCompress(2, residual_shape=(24,)),
)
hidden(compress.test_real_gloo, one_call(2, (6, 9), 2))
hidden(
    compress.test_bytes_in_low_rank,
    one_call(2, (6, 9), 1),
    one_call(3, (9, 14), 2),
    one_call(4, (12, 7), 3, dtype="float32"),
    one_call(5, (8, 8), 2),
    one_call(12, (6, 9), 2),
    one_call(18, (6, 9), 1),
    one_call(3, (160, 240), 4),
    one_call(3, (6, 2), 2),
    one_call(3, (6, 9), 2, num_calls=4),
)
hidden(compress.test_means_are_equal_bit_for_bit, one_call(3, (7, 9), 2), one_call(5, (9, 7), 2))
hidden(compress.test_given_group_is_used, one_call(3, (6, 9), 2))
hidden(compress.test_messages_may_be_slow_and_are_completed, one_call(4, (6, 9), 2))
hidden(
    compress.test_time_of_a_large_and_a_small_matrix,
    group(compress.LARGE, one_call(8, (80, 120), 4, machine=compress.SLOW)),
    group(compress.SMALL, one_call(16, (8, 16), 4, machine=compress.SLOW)),
)
