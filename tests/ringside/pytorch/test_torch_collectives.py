"""torch.distributed's collectives on the network, against plain torch on all ranks' tensors."""

from __future__ import annotations

import numpy as np
import pytest

from ringside import RankError, Session

WORLD_SIZES = [1, 2, 3, 4, 7]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize(
    ("function", "args"),
    [
        ("reductions", (11,)),
        ("moves", (11,)),
        ("splits", ()),
        ("objects", ()),
        ("coalesced", ()),
        ("averages", ()),
        ("functional", ()),
        ("channels_last", ()),
        ("sparse", ()),
    ],
)
def test_a_collective_gives_what_torch_computes(
    session: Session, function: str, args: tuple[int, ...], world_size: int
) -> None:
    session.call(f"collectives:{function}", world_size, args).raise_for_error()


@pytest.mark.parametrize("function", ["reductions", "moves"])
def test_empty_tensors_are_moved_and_reduced(session: Session, function: str) -> None:
    session.call(f"collectives:{function}", 3, (0,)).raise_for_error()


@pytest.mark.parametrize("world_size", [2, 7])
def test_bfloat16_is_reduced_in_float32_and_rounded_once(session: Session, world_size: int) -> None:
    session.call("collectives:rounding", world_size, (1000,)).raise_for_error()


def test_a_strided_tensor_is_refused_with_the_cure(session: Session) -> None:
    result = session.call("collectives:strided", 2)
    assert isinstance(result.error, RankError)
    assert "all_reduce: Tensors must be contiguous" in str(result.error)
    assert "strides (4,): pass copy = tensor.contiguous()" in str(result.error)
    assert result.error.where == "collectives.py:207"


def test_the_network_counts_collectives_and_bytes(session: Session) -> None:
    result = session.call("collectives:splits", 2).raise_for_error()
    assert [(record.name, record.nbytes) for record in result.collectives] == [
        ("alltoall", 2 * 2 * 2 * 4),  # ranks, rows, columns, bytes
        ("alltoall", 2 * 3 * 3 * 4),
    ]
    assert np.all(result.bytes_matrix() == 0)
