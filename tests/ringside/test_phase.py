"""Phases that a program names: timelines show them, and nothing else changes."""

import numpy as np
import pytest

import ringside
from ringside.trace import CallSite

PROGRAM = """
import numpy as np
import ringside
from mpi4py import MPI


def ring(comm, named):
    p, right, left = comm.size, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    held = np.full((p, 10), comm.rank + 1.0)
    incoming = np.empty(10)
    for name in ("reduce-scatter", "all-gather"):
        for step in range(p - 1):
            sent = (comm.rank - step + (name == "all-gather")) % p
            with ringside.phase(name if named else "", f"shard {sent}"):
                comm.Sendrecv(held[sent], right, recvbuf=incoming, source=left)
            received = (sent - 1) % p
            held[received] = incoming + (held[received] if name == "reduce-scatter" else 0)
    with ringside.phase("outer"):
        with ringside.phase("inner"):
            ringside.compute(seconds=1e-6, phase="work")
        ringside.compute(seconds=1e-6)
    comm.Barrier()
    return held
"""

TORCH = """
import ringside
import torch
import torch.distributed as dist


def step(group):
    x = torch.ones(8, 8, requires_grad=True)
    with ringside.phase("forward 3"):
        y = (x @ x).sum()
    with ringside.phase("backward 3"):
        y.backward()
    with ringside.phase("sum", "gradients"):
        dist.all_reduce(x.grad, group=group)
"""


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "step.py").write_text(TORCH, encoding="utf-8")


def test_spans_and_messages_carry_the_names_of_the_program():
    timeline = ringside.run("ring.py:ring", 4, (True,)).timeline
    first = timeline.spans[1][0]
    assert (first.label, first.phase, first.item) == (
        "Sendrecv(dest=2, source=0)", "reduce-scatter", "shard 1",
    )  # fmt: skip
    phases = list(dict.fromkeys(span.phase for span in timeline.spans[0]))
    assert phases == ["reduce-scatter", "all-gather", "inner", "outer", ""]
    items = {m.item for m in timeline.messages if m.source == 2 and m.nbytes == 80}
    assert items == {f"shard {shard}" for shard in range(4)}
    works = [(s.label, s.phase) for s in timeline.spans[0] if s.kind == "compute"]
    assert works == [("work", "inner"), ("compute", "outer")]


def test_naming_phases_changes_no_time_byte_or_value():
    named, plain = (ringside.run("ring.py:ring", 4, (each,)) for each in (True, False))
    np.testing.assert_array_equal(named.values, plain.values)
    assert named.makespan_s == plain.makespan_s
    assert named.sent_bytes() == plain.sent_bytes()
    assert named.num_operations == plain.num_operations


def test_work_of_torch_belongs_to_its_phase_also_on_fake_tensors():
    timelines = [
        ringside.run("step.py:step", 2).timeline,
        ringside.replay(ringside.trace_torch("step.py:step", 2).trace, "textbook"),
    ]
    for timeline in timelines:
        told = {(s.label, s.phase) for s in timeline.spans[0] if s.kind == "compute"}
        assert {("forward", "forward 3"), ("backward", "backward 3")} <= told
        sums = {(s.phase, s.item) for s in timeline.spans[0] if s.label.startswith("all_reduce")}
        assert sums == {("sum", "gradients")}


def test_outside_ranks_nothing_happens_and_wrong_names_are_refused():
    with ringside.phase("alone"):
        pass
    for wrong in ("a [b]", "a, b", "x" * 41, 3):
        with pytest.raises(ValueError, match="must be a text of at most 40"), ringside.phase(wrong):
            pass


def test_a_call_is_read_back_in_its_parts():
    assert CallSite("Send(dest=1)", "", 0).parts == ("Send(dest=1)", "", "")
    assert CallSite("Send(dest=1) [a]", "", 0).parts == ("Send(dest=1)", "a", "")
    assert CallSite("f(x=[1, 2]) [a, shard 2]", "", 0).parts == ("f(x=[1, 2])", "a", "shard 2")
    assert CallSite("f(x=[1, 2])", "", 0).parts == ("f(x=[1, 2])", "", "")
