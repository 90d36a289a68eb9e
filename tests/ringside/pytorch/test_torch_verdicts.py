"""What goes wrong in torch code is told at once, in torch's words, with rank and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ringside import DeadlockError, RankError, Session
from ringside.checking.assertions import open_requests

SOURCE = (Path(__file__).parent / "programs" / "point_to_point.py").read_text().splitlines()


def place(text: str, *, after: str) -> str:
    """The line that holds ``text`` in function ``after``, as a verdict writes it."""
    start = next(i for i, line in enumerate(SOURCE) if line.startswith(f"def {after}("))
    line = next(i for i, line in enumerate(SOURCE) if i > start and text in line)
    return f"point_to_point.py:{line + 1}"


def test_different_collectives_are_named(session: Session) -> None:
    error = session.call("point_to_point:different_calls", 3).error
    assert isinstance(error, DeadlockError)
    assert "rank 1 calls broadcast where rank 0 calls all_reduce" in error.cure
    where = place("all_reduce", after="different_calls")
    assert re.search(rf"rank 0  all_reduce\(op=SUM\)  {where}", str(error))
    assert place("broadcast", after="different_calls") in str(error)


def test_a_rank_that_never_comes_is_named(session: Session) -> None:
    error = session.call("point_to_point:missing_rank", 4).error
    assert isinstance(error, DeadlockError)
    assert "Rank 2 never calls barrier" in error.cure
    assert "rank 2  (has returned)" in str(error)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            "different_dtype",
            "in all_reduce, rank 1 gives dtype float64 and rank 0 dtype float32",
        ),
        (
            "different_size",
            "in broadcast, rank 1 gives number of elements 4 and rank 0 number of elements 3",
        ),
        ("different_op", "in all_reduce, rank 1 gives op MAX and rank 0 op SUM"),
    ],
)
def test_what_differs_between_ranks_is_named(session: Session, function: str, told: str) -> None:
    error = session.call(f"point_to_point:{function}", 2).error
    assert isinstance(error, DeadlockError)
    assert told in error.cure


def test_a_message_that_does_not_fit_is_refused_by_its_receiver(session: Session) -> None:
    error = session.call("point_to_point:wrong_message", 2).error
    assert isinstance(error, RankError)
    assert error.rank == 1 and error.where == place("dist.recv", after="wrong_message")
    assert "rank 0 sent 3 elements of float32, the tensor to receive into has 4" in error.message


@pytest.mark.parametrize(
    ("function", "call", "cure"),
    [
        ("all_receive", "recv(src=1)", "Let one rank send first, or use dist.batch_isend_irecv"),
        ("all_send", "send(dst=1)", "Let one rank receive first, or use dist.batch_isend_irecv"),
    ],
)
def test_a_cycle_is_told_in_torch_words(
    session: Session, function: str, call: str, cure: str
) -> None:
    error = session.call(f"point_to_point:{function}", 3).error
    assert isinstance(error, DeadlockError)
    assert error.blocked[0].call == call
    assert cure in error.cure
    assert "mpiexec" not in error.cure


def test_a_wait_names_the_call_that_it_is_for(session: Session) -> None:
    error = session.call("point_to_point:unreceived_wait", 2).error
    assert isinstance(error, DeadlockError)
    assert error.blocked[0].call == "irecv(src=1, tag=3).wait()"
    assert error.blocked[0].site == place("work.wait", after="unreceived_wait")


def test_works_that_nobody_waits_for_are_listed(session: Session) -> None:
    result = session.call("point_to_point:unfinished", 2).raise_for_error()
    started = place("isend", after="unfinished"), place("irecv", after="unfinished")
    reduced = place("async_op=True", after="unfinished")
    assert open_requests(result) == [
        f"ranks 0, 1 returned before 3 requests (isend at {started[0]}, irecv at {started[1]}, "
        f"all_reduce at {reduced}) were complete: wait for everything that was started, or test "
        "until it is done."
    ]


def test_a_tensor_changed_while_it_is_sent_is_an_error(session: Session) -> None:
    error = session.call("point_to_point:changed_while_sent", 2).error
    assert isinstance(error, RankError)
    assert "the tensor of isend(dst=1) was changed before its work was waited for" in error.message


@pytest.mark.parametrize(
    ("function", "args", "call"),
    [
        ("written_early", (), "irecv(src=1) at point_to_point.py:"),
        ("reduced_early", ("float32",), "all_reduce(op=SUM) at point_to_point.py:"),
        ("reduced_early", ("float64",), "all_reduce(op=SUM) at point_to_point.py:"),
    ],
)
def test_a_tensor_written_while_its_data_are_to_come_is_an_error(
    session: Session, function: str, args: tuple[str, ...], call: str
) -> None:
    error = session.call(f"point_to_point:{function}", 2, args).error
    assert isinstance(error, RankError) and error.type_name == "BufferRaceError"
    assert f"the tensor of {call}" in error.message and "was written into before" in error.message


def test_what_is_computed_from_a_tensor_too_early_names_its_call(session: Session) -> None:
    error = session.call("point_to_point:read_early", 2).error
    assert isinstance(error, RankError) and error.type_name == "EarlyUseError"
    assert "the buffer of irecv(src=1) at point_to_point.py:" in error.message


def test_a_second_thread_may_not_communicate(session: Session) -> None:
    error = session.call("point_to_point:second_thread", 2).error
    assert "a second thread calls all_reduce at point_to_point.py:" in str(error)
    assert "from their main thread only" in str(error)


def test_nothing_falls_through_to_a_backend_that_does_nothing(session: Session) -> None:
    error = session.call("point_to_point:past_the_network", 2).error
    assert isinstance(error, RankError)


def test_the_store_is_no_way_round_the_network(session: Session) -> None:
    error = session.call("point_to_point:other_store", 2).error
    assert isinstance(error, RankError)
    assert "Ringside's ranks share no store" in error.message


def test_a_rank_that_stops_training_early_is_named(session: Session) -> None:
    error = session.call("training:fewer_steps", 3).error
    assert isinstance(error, DeadlockError)
    told = "Ranks 0, 2 wait in DistributedDataParallel for rank 1, which has made fewer passes."
    assert told in error.cure
    assert "train inside `with model.join():`" in error.cure
    # After the second pass, the first that has other buckets, a forward pass sends nothing.
    error = session.call("training:fewer_steps", 2, (3,)).error
    assert isinstance(error, DeadlockError)
    assert "Rank 0 waits in backward() for gradients of rank 1, which has" in error.cure
    assert error.blocked[0].site.startswith("training.py:")
    assert error.blocked[1].call == "(has returned)"


def test_a_rank_that_leaves_out_a_backward_pass_is_named(session: Session) -> None:
    error = session.call("training:skips_a_batch", 2).error
    assert isinstance(error, DeadlockError)
    assert "rank 1 calls all_reduce where rank 0 calls all_reduce in backward()" in error.cure
    assert "if one rank leaves out a batch, as for a loss that is NaN, all must" in error.cure


def test_parameters_without_a_gradient_are_named(session: Session) -> None:
    error = session.call("training:unused_layer", 2).error
    assert isinstance(error, RankError)
    assert "did not receive grad for rank 0: spare.bias, spare.weight" in error.message


def test_ddp_says_that_models_differ(session: Session) -> None:
    error = session.call("training:different_models", 3).error
    assert isinstance(error, RankError)
    assert "DDP expects same model across all ranks" in error.message
