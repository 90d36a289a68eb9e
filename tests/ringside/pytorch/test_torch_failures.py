"""What a torch program sees of a rank that was killed."""

from __future__ import annotations

from pathlib import Path

from ringside import Failures, Kill, Session

PROGRAM = """
import torch
import torch.distributed as dist

def train(group):
    total = torch.ones(4)
    try:
        for _ in range(3):
            dist.all_reduce(total, group=group)
        return "done"
    except RuntimeError as error:
        return str(error)

def point_to_point(group):
    rank = dist.get_rank(group)
    got = torch.zeros(2)
    try:
        if rank == 0:
            dist.recv(got, 1)
            dist.recv(got, 1)
        elif rank == 1:
            dist.send(torch.ones(2), 0)
            dist.barrier()
        return got.tolist()
    except RuntimeError as error:
        return [*got.tolist(), str(error)]
"""


def test_calls_with_a_dead_rank_raise_as_on_gloo(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with Session(tmp_path) as session:
        result = session.call("program:train", 3, failures=Failures(Kill(1, op=3)))
        for rank in (0, 2):
            assert (
                result.raise_for_error()
                .values[rank]
                .startswith("[ringside] Connection closed by peer: rank 1 was killed at ")
            )
        result = session.call("program:point_to_point", 2, failures=Failures(Kill(1, op=3)))
        first, second, text = result.raise_for_error().values[0]
        assert (first, second) == (1.0, 1.0)
        assert text.startswith("[ringside] Connection closed by peer: rank 1 was killed at ")
