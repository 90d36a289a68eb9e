"""Agreement and shrinking in torch, where a rank dies at any of its operations."""

from __future__ import annotations

from pathlib import Path

from ringside import Failures, Kill, Session

PROGRAM = """
import torch
import torch.distributed as dist
from ringside.pytorch.survivors import agree, lost, shrink

def train(group):
    answers, everyone = [], group
    for step in range(2):
        alive = shrink(everyone)
        ranks = dist.get_process_group_ranks(alive)
        try:
            total = torch.ones(2)
            dist.all_reduce(total, group=alive)
            complete = bool(total[0] == len(ranks))
        except RuntimeError as error:
            assert lost(error)
            complete = False
        answers.append((ranks, agree(alive, complete), agree(alive, dist.get_rank() != 0)))
        everyone = alive
    return answers

def not_lost(group):
    return [lost(RuntimeError("shapes differ")), lost(ValueError("Connection closed by peer"))]
"""

# By the operation up to which rank 1 dies: ranks in each step, and whether it is agreed on.
AFTER = {
    2: [(2, True), (2, True)],  # in Shrink
    8: [(3, False), (2, True)],  # in the sum, or in the vote
    12: [(3, True), (2, True)],
    18: [(3, True), (3, False)],
    20: [(3, True), (3, True)],
}


def test_all_that_are_left_get_the_same_answers(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with Session(tmp_path) as session:
        whole = session.call("program:train", 3).raise_for_error()
        assert whole.values == [[([0, 1, 2], True, False)] * 2] * 3
        for number in range(1, len(whole.trace.ops[1]) + 1):
            result = session.call("program:train", 3, failures=Failures(Kill(1, op=number)))
            first, dead, last = result.raise_for_error().values
            assert dead is None and first == last
            told = [(len(ranks), agreed) for ranks, agreed, _ in first]
            assert told == next(right for most, right in AFTER.items() if number <= most)
            assert not any(last for _, _, last in first)
        assert session.call("program:not_lost", 1).raise_for_error().values == [[False, False]]
