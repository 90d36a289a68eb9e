"""torch's own parallel training on the network equals serial training, and overlaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringside
from ringside import Session
from ringside.checking import run_report
from ringside.checking.assertions import open_requests
from ringside.trace import Kind

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(24, 8)), RNG.normal(size=(24, 4))


def parts(world_size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[r::world_size], Y[r::world_size]) for r in range(world_size)]


@pytest.fixture(scope="module")
def serial(session: Session) -> list[np.ndarray]:
    call = session.call("training:serial", 1, (X, Y), comm=False)
    return list(call.raise_for_error().values[0])


def assert_trained(values: list[Any], expected: list[np.ndarray]) -> None:
    for of_rank in values:
        for got, wanted in zip(of_rank, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-14)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket_mb": 25},
        {"hook": "allreduce"},
        {"hook": "own"},
        {"accumulate": 2},
        {"view": True},
        {"static": True},
        {"static": True, "hook": "allreduce"},
    ],
    ids=str,
)
def test_ddp_equals_serial_training(
    session: Session, serial: list[np.ndarray], options: dict[str, Any], world_size: int
) -> None:
    result = session.call("training:ddp", world_size, parts(world_size), kwargs=options)
    assert_trained(result.raise_for_error().values, serial)


@pytest.mark.parametrize(
    ("function", "world_size"),
    [("by_hand", 3), ("zero_redundancy", 2), ("fsdp", 2), ("fsdp", 3)],
)
def test_data_parallel_schemes_equal_serial_training(
    session: Session, serial: list[np.ndarray], function: str, world_size: int
) -> None:
    result = session.call(f"training:{function}", world_size, parts(world_size))
    assert_trained(result.raise_for_error().values, serial)


@pytest.mark.parametrize("world_size", [2, 3])
def test_tensor_parallel_equals_serial_training(
    session: Session, serial: list[np.ndarray], world_size: int
) -> None:
    result = session.call("training:tensor_parallel", world_size, (X, Y))
    assert_trained(result.raise_for_error().values, serial)


def test_dtensors_are_redistributed(session: Session) -> None:
    session.call("training:dtensor", 4, (RNG.normal(size=(8, 12)),)).raise_for_error()


@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_pipelines_give_the_whole_gradient(
    session: Session, schedule: str, world_size: int
) -> None:
    (expected,) = session.call("training:whole_gradient", 1, (X, Y), comm=False).values
    result = session.call("training:pipeline", world_size, (X, Y, schedule)).raise_for_error()
    gradients = [gradient for of_rank in result.values for gradient in of_rank]
    for got, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-15)


# -- counted ---------------------------------------------------------------------------------------


def test_flops_of_forward_and_backward_are_counted(session: Session) -> None:
    batch, width = 6, 10
    result = session.call("training:two_layers", 2, (batch, width)).raise_for_error()
    product = 2 * batch * width * width
    # Two forward; weight gradients of both and the input gradient of the second.
    assert result.num_flops() == [5 * product] * 2
    phases = {op.detail[3]: op.detail for op in result.trace.ops[0] if op.kind == Kind.COMPUTE}
    assert phases["forward"][0] == 2 * product
    assert phases["backward"][0] == 3 * product
    assert phases["forward"][1] == 2 * 4 * (2 * batch * width + width * width)


def test_fused_attention_is_counted_on_cpus(session: Session) -> None:
    result = session.call("training:attends", 1, (2, 3, 16, 8)).raise_for_error()
    product = 2 * (2 * 3) * 16 * 16 * 8
    # Scores and values forward; backward these again as gradients, and the scores once more.
    assert result.num_flops() == [(2 + 5) * product]


def test_time_is_the_roofline_with_an_overhead_for_every_operator(session: Session) -> None:
    machine = "textbook,flop_per_s=1e9,memory_bytes_per_s=1e9,kernel_overhead_s=1e-3"
    result = session.call("training:two_layers", 1, (64, 64), machine=machine).raise_for_error()
    computed = [op.detail for op in result.trace.ops[0] if op.kind == Kind.COMPUTE]
    expected = sum(
        max(flops, nbytes) / 1e9 + moved / 1e9 + num_kernels * 1e-3
        for flops, nbytes, _, _, num_kernels, moved in computed
    )
    assert result.makespan_s == pytest.approx(expected, rel=1e-9)
    assert sum(detail[4] for detail in computed) >= 8  # five products, fills and a sum


def test_declared_work_stands_beside_counted_work(session: Session) -> None:
    result = session.call("training:declares", 1).raise_for_error()
    labels = [op.detail[3] for op in result.trace.ops[0] if op.kind == Kind.COMPUTE]
    assert labels == ["forward", "given"]
    assert result.makespan_s > 0.5


def test_small_buckets_overlap_with_backward_and_one_bucket_does_not(session: Session) -> None:
    nbytes, world_size = 4 * 256 * 256 * 4, 4
    machine = "textbook,beta_s_per_byte=2e-9,flop_per_s=2e10,memory_bytes_per_s=1e12"
    many, one = (
        session.call("training:overlapped", world_size, (bucket_mb,), machine=machine)
        for bucket_mb in (0.2, 25)
    )
    gradients = [record.nbytes for record in one.raise_for_error().collectives]
    assert gradients.count(nbytes) == 3, "one bucket a pass"
    small = [record.nbytes for record in many.raise_for_error().collectives]
    assert small.count(nbytes) == 1 and small.count(nbytes // 4) == 2 * 4
    ring = 2 * (world_size - 1) / world_size * nbytes * 2e-9
    assert one.makespan_s >= one.timeline.busy_s[0] + 3 * ring
    assert many.makespan_s < one.makespan_s - ring / 4
    assert many.timeline.exposed_comm_s < one.timeline.exposed_comm_s - ring / 4
    # In the last pass the first bucket is launched before the last gradient is computed.
    ops = many.trace.ops[0]
    launches = [i for i, op in enumerate(ops) if op.kind == Kind.COLLECTIVE][-4:]
    last_compute = max(i for i, op in enumerate(ops) if op.kind == Kind.COMPUTE)
    first_wait = min(i for i, op in enumerate(ops) if op.kind == Kind.WAIT and i > launches[0])
    assert launches[0] < last_compute and launches[-1] < first_wait


def test_what_has_shapes_alone_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text(
        "import torch\n"
        "def build(group):\n"
        "    with torch.device('meta'):\n"
        "        layer = torch.nn.Linear(1000, 1000)\n"
        "    zeros = torch.zeros(1000)\n"
        "    return zeros.sum().item()\n"
    )
    (memory,) = ringside.run(f"{tmp_path / 'shapes.py'}:build", 1).raise_for_error().memory
    assert memory["peak"] == 4000 + 4  # the zeros, and their sum


def test_memory_is_told_by_kind(session: Session) -> None:
    width = 100
    (memory,) = session.call("training:adam_step", 1, (width,)).raise_for_error().memory
    weights = 4 * width * width
    assert memory["live"]["parameters"] == weights
    assert memory["live"]["gradients"] == weights
    assert memory["live"]["optimizer"] == 2 * weights + 4  # two moments and the step's number
    assert memory["peak_by_kind"]["parameters"] == weights
    assert memory["peak"] >= 4 * weights
    assert sum(memory["at_peak"].values()) == memory["peak"]


def test_tensor_parallel_halves_the_work_of_its_layers(session: Session) -> None:
    result = session.call("training:tensor_parallel", 2, (X, Y)).raise_for_error()
    whole, sharded = 24 * 4 * 3, 8 * 24 * 2 + 24 * 24 * 3  # products, per row of the batch
    assert result.num_flops() == [3 * 2 * len(X) * (sharded / 2 + whole)] * 2


@pytest.mark.parametrize(
    ("function", "options", "share", "buckets"),
    [
        ("serial", {}, 1, 0),
        ("ddp", {}, 1, 1),
        ("ddp", {"view": True}, 1, 0),
        ("fsdp", {}, 2, 0),
    ],
)
def test_what_persists_between_steps_shows_the_scheme(
    session: Session, function: str, options: dict[str, Any], share: int, buckets: int
) -> None:
    world_size = 1 if function == "serial" else 2
    result = session.call(
        f"training:{function}", world_size, (X, Y), kwargs=options, comm=function != "serial"
    ).raise_for_error()
    whole = 8 * (8 * 24 + 24 + 24 * 24 + 24 + 24 * 4 + 4)
    for memory in result.memory:
        kept = memory["after_step"]
        assert kept["parameters"] == kept["gradients"] == kept["optimizer"] == whole / share
        assert kept["communication"] == buckets * whole


def test_the_peak_counts_what_lives_at_one_time(session: Session) -> None:
    n = 1000
    result = session.call("training:temporaries", 2, (n,)).raise_for_error()
    for memory in result.memory:
        # x and y; then x, z and the buffer, which is larger.
        assert memory["peak"] == 4 * (n + n + 2 * n)
        assert memory["live"]["communication"] == 4 * 2 * n
        assert memory["live"]["activations"] == 4 * 2 * n


def test_arguments_are_not_counted_as_memory(session: Session) -> None:
    result = session.call("point_to_point:ring", 2, (np.zeros(500),)).raise_for_error()
    assert [memory["peak"] for memory in result.memory] == [4000, 4000]  # what it receives into


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("options", [(25, False), (0.0001, False), (0.0001, True)], ids=str)
def test_join_trains_with_uneven_batches(
    session: Session, options: tuple[float, bool], world_size: int
) -> None:
    result = session.call("training:uneven", world_size, options).raise_for_error()
    assert open_requests(result) == []


def report(session: Session, function: str, world_size: int) -> str:
    result = session.call(f"training:{function}", world_size).raise_for_error()
    return run_report.text(result, function, "not compared", None)


def test_the_report_counts_what_a_wrong_no_sync_reduces(session: Session) -> None:
    told = report(session, "no_sync_around_backward_alone", 2)
    assert "\n  all_reduce in backward(): 4 calls of 39.1 KiB among all ranks\n" in told


def test_the_report_counts_collectives_by_kind_and_group(session: Session) -> None:
    told = report(session, "in_rows", 4)
    assert (
        "library collectives (not in the table; as a ring's messages a rank sends 15.7 KiB):\n"
        "  all_gather_into_tensor: 1 call of 7.81 KiB among ranks 0, 1\n"
        "  all_reduce: 2 calls, 48 B in all, among all ranks\n"
        "  all_reduce: 3 calls of 3.91 KiB in each of 2 groups of 2 ranks\n"
        "  barrier: 1 call among all ranks"
    ) in told
