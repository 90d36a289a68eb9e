"""Traces on fake tensors are the traces that the network records of real ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ringside import RankError, Result, Session, TraceError, replay
from ringside.scale.agreement import (
    DisagreementError,
    check_conservation,
    compare,
    num_flops,
)
from ringside.scale.fake_ranks import TorchTrace, asked, num_processes
from ringside.trace import Kind

SMALL = {
    "num_layers": 2, "hidden": 16, "num_heads": 4, "vocabulary": 32, "sequence": 6,
    "microbatch_size": 2, "num_microbatches": 2, "dtype": "float64", "bucket_bytes": 2000,
    "learning_rate": 1.0,
}  # fmt: skip
LAYOUTS = [(1, 2, 1), (2, 1, 2), (2, 2, 2)]


def gpt(pp: int, dp: int, tp: int, **more: Any) -> dict[str, Any]:
    return {**SMALL, "pp_size": pp, "dp_size": dp, "tp_size": tp, **more}


def grid_of(pp: int, dp: int, tp: int) -> dict[str, int]:
    return {"pp": pp, "dp": dp, "tp": tp}


def agree(
    session: Session, target: str, world_size: int, args: tuple[Any, ...] = (), **options: Any
) -> tuple[Result, TorchTrace]:
    """Run a function on real ranks, trace it on fake tensors, and compare the two."""
    kwargs = options.get("kwargs")
    result = session.call(target, world_size, args, kwargs=kwargs, front_end="torch")
    result.raise_for_error()
    traced = session.trace_torch(target, world_size, args, **options)
    compare(traced.trace, result.trace)
    return result, traced


# -- the same as the network -----------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_every_call_is_recorded_as_the_network_records_it(
    session: Session, world_size: int
) -> None:
    result, traced = agree(session, "traced:everything", world_size, (6,))
    assert traced.trace.ops == result.trace.ops
    assert traced.trace.sites == result.trace.sites
    assert traced.memory == result.memory
    assert traced.num_kinds == world_size
    machine = "textbook,flop_per_s=1e9,kernel_overhead_s=1e-7"
    assert replay(traced.trace, machine).makespan_ps == replay(result.trace, machine).makespan_ps


@pytest.mark.parametrize(("function", "args"), [("on_a_mesh", ()), ("sharded", (8,))])
def test_meshes_conversions_and_fsdp_are_traced(
    session: Session, function: str, args: tuple[Any, ...]
) -> None:
    result, traced = agree(session, f"traced:{function}", 4, args)
    assert traced.memory == result.memory
    assert traced.num_kinds == 4


def test_inference_mode_is_traced(session: Session) -> None:
    agree(session, "traced:infers", 2)


def test_arguments_come_as_fake_tensors(session: Session) -> None:
    agree(session, "traced:with_arguments", 2, (np.ones(7),), kwargs={"scale": 2.0})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_gpt_is_traced_as_the_network_counts_it(
    session: Session, layout: tuple[int, int, int]
) -> None:
    # In float64, torch 2.11's fake attention keeps its sums of exponentials in float32.
    world_size = int(np.prod(layout))
    result, traced = agree(session, "gpt:step", world_size, (gpt(*layout, dtype="float32"),))
    assert traced.trace.ops == result.trace.ops
    assert traced.memory == result.memory


@pytest.fixture(scope="module")
def serial(session: Session) -> tuple[float, dict[str, np.ndarray]]:
    loss, parameters = session.call("gpt:step", 1, (gpt(1, 1, 1),)).raise_for_error().values[0]
    return float(loss), parameters


@pytest.mark.parametrize("layout", [(1, 1, 2), (2, 1, 2)], ids=str)
def test_the_gpt_trains_alike_in_every_layout(
    session: Session, serial: tuple[float, dict[str, np.ndarray]], layout: tuple[int, int, int]
) -> None:
    pp, _, tp = layout
    result = session.call("gpt:step", pp * tp, (gpt(*layout),)).raise_for_error()
    assert float(result.values[-1][0]) == pytest.approx(serial[0], rel=1e-12)
    for rank, (_, parameters) in enumerate(result.values):
        stage = rank // tp
        for name, value in parameters.items():
            whole = (
                f"layers.{int(name.split('.')[1]) + stage * 2 // pp}." if "layers" in name else ""
            )
            expected = serial[1][whole + name.split(".", 2)[2] if whole else name]
            if expected.shape != value.shape:
                axis = int(np.argmax(np.array(expected.shape) != np.array(value.shape)))
                expected = np.array_split(expected, tp, axis)[rank % tp]
            np.testing.assert_allclose(value, expected, rtol=0, atol=1e-13)


def test_replicas_of_the_gpt_average_their_gradients(session: Session) -> None:
    # Two replicas with a microbatch each see the batch that one rank sees in two microbatches.
    whole = session.call("gpt:step", 1, (gpt(1, 1, 1, num_microbatches=2),)).raise_for_error()
    halves = session.call("gpt:step", 2, (gpt(1, 2, 1, num_microbatches=1),)).raise_for_error()
    for _, parameters in halves.values:
        for name, value in parameters.items():
            np.testing.assert_allclose(value, whole.values[0][1][name], rtol=0, atol=1e-13)


# -- kinds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [(2, 2, 2), (1, 1, 3)], ids=str)
def test_one_trace_for_each_kind_gives_the_trace_of_all(
    session: Session, layout: tuple[int, int, int]
) -> None:
    pp, _, tp = layout
    world_size = int(np.prod(layout))
    args = (gpt(*layout, hidden=24, num_heads=6, vocabulary=36),)
    every = session.trace_torch("gpt:step", world_size, args)
    grid = grid_of(*layout)
    kinds = session.trace_torch("gpt:step", world_size, args, grid=grid, alike=("dp", "tp"))
    found = session.trace_torch("gpt:step", world_size, args, grid=grid, alike=None)
    assert kinds.trace == every.trace
    assert kinds.memory == every.memory
    assert found.trace == every.trace
    assert {"dp", "tp"} <= set(found.alike)
    assert every.num_kinds == world_size
    assert kinds.num_kinds == pp
    assert kinds.stand_ins[-1] == (pp - 1) * (world_size // pp)
    assert tp == layout[2]
    for machine in ("textbook", "textbook,flop_per_s=1e9,ranks_per_node=2,intra_alpha_s=1e-7"):
        folded, whole = replay(kinds, machine), replay(every, machine)
        assert folded.folded == (("dp", "tp") if world_size == 8 else folded.folded)
        assert whole.folded == ()
        assert folded.end_s == whole.end_s
        np.testing.assert_array_equal(folded.bytes_matrix, whole.bytes_matrix)


def test_many_kinds_are_traced_by_several_processes(session: Session) -> None:
    assert num_processes(asked(8, None, (), False), cores=2) == 2
    assert num_processes(asked(7, None, (), False), cores=2) == 1
    assert num_processes(asked(64, {"pp": 8, "tp": 8}, ("tp",), False), cores=16) == 2
    agree(session, "traced:everything", 8, (9,))


def test_messages_round_a_ring_are_relabelled(session: Session) -> None:
    every = session.trace_torch("traced:own_ring", 5, (4,))
    one = session.trace_torch("traced:own_ring", 5, (4,), alike=None)
    assert one.num_kinds == 1
    assert one.trace == every.trace


@pytest.mark.parametrize("function", ["star", "odd_one_out"])
def test_ranks_that_only_seem_alike_are_told_apart(session: Session, function: str) -> None:
    with pytest.raises(RankError, match="were taken to be alike along rank, and are not"):
        session.trace_torch(f"traced:{function}", 4, (3,), grid={"rank": 4}, alike=("rank",))
    found = session.trace_torch(f"traced:{function}", 4, (3,), alike=None)
    assert found.alike == ()
    assert found.trace == session.trace_torch(f"traced:{function}", 4, (3,)).trace


def test_a_grid_must_hold_all_ranks(session: Session) -> None:
    with pytest.raises(TraceError, match=r"world_size \(8\) must equal .*pp, dp: 2 \* 3"):
        session.trace_torch("traced:own_ring", 8, (3,), grid={"pp": 2, "dp": 3}, alike=("dp",))
    with pytest.raises(TraceError, match="alike names 'tp'"):
        session.trace_torch("traced:own_ring", 8, (3,), grid={"dp": 8}, alike=("tp",))


def test_the_work_at_64_ranks_is_the_serial_work(session: Session) -> None:
    width, layers, world_size = 64, 3, 64
    traced = session.trace_torch("traced:data_parallel", world_size, (width, layers), alike=None)
    assert traced.num_kinds == 1
    product = 2 * 4 * width * width
    serial = world_size * (3 * layers - 1) * product
    assert sum(num_flops(traced.trace)) == serial
    check_conservation(traced.trace, serial_flops=serial)
    with pytest.raises(DisagreementError, match="some of the work is missing"):
        check_conservation(traced.trace, serial_flops=serial * 1.01)
    # Every rank sends each gradient's elements round the ring: all but one share, twice.
    nbytes = 4 * layers * (width * width + width)
    moved = replay(traced.trace, "textbook").bytes_matrix
    assert moved.sum() == 2 * (world_size - 1) * nbytes


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "line", "cure"),
    [
        ("branches_on_a_value", "if loss.item\\(\\) > 2", "keep numbers in tensors"),
        ("makes_an_array", "numpy\\(\\)", "only a shape"),
        ("masks", "x\\[x > 0\\]", "masks of fixed shape"),
        ("uses_ddp", "DistributedDataParallel", "by hand"),
        ("polls", "is_completed", "work.wait\\(\\)"),
        ("takes_any", "recv", "Name the source"),
        ("uses_functional_collectives", "all_reduce", "functional collective"),
    ],
)
def test_what_fake_tensors_cannot_do_is_told_with_its_line(
    session: Session, function: str, line: str, cure: str
) -> None:
    with pytest.raises(RankError, match=cure) as caught:
        session.trace_torch(f"traced:{function}", 2)
    assert any(frame.file == "traced.py" for frame in caught.value.frames)
    assert caught.match(line)


@pytest.mark.parametrize(
    ("function", "match"),
    [
        ("never_receives", r"rank 0 sends 12 bytes with tag 0 to rank 1 that are never received"),
        ("receives_less", r"sends 12 bytes to rank 1, which receives into a tensor of 8"),
        ("disagrees", r"rank 1 gives number of elements 4 and rank 0 number of elements 3"),
        ("one_stays_away", r"collective on world that not all members call at traced.py"),
        ("forges", r"log of rank 0 is malformed: kinds"),
    ],
)
def test_traces_that_break_a_law_are_refused(session: Session, function: str, match: str) -> None:
    with pytest.raises(TraceError, match=match):
        session.trace_torch(f"traced:{function}", 2)


def test_code_that_does_less_on_fake_tensors_is_caught(session: Session) -> None:
    with pytest.raises(DisagreementError, match=r"rank 0, operation 0 .*the network counted"):
        agree(session, "traced:cheats", 2, (8,))


def test_a_forged_operation_is_named(session: Session) -> None:
    result, traced = agree(session, "traced:data_parallel", 2, (8, 1))
    at, op = next((i, op) for i, op in enumerate(traced.trace.ops[1]) if op.kind == Kind.COMPUTE)
    forged = (op.detail[0] / 2, *op.detail[1:])
    traced.trace.ops[1][at] = op._replace(detail=forged)
    with pytest.raises(DisagreementError, match=f"rank 1, operation {at}.* with "):
        compare(traced.trace, result.trace)


def test_the_session_goes_on_after_a_trace(session: Session) -> None:
    session.trace_torch("traced:own_ring", 3, (4,))
    real = session.call("traced:own_ring", 3, (4,)).raise_for_error()
    assert real.sent_bytes() == [2 * 16] * 3
