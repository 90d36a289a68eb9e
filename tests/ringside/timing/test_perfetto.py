"""The export to Perfetto, held against the rules of the Trace Event Format."""

import json

import pytest

from ringside.timing import perfetto
from ringside.timing.machine import Machine
from ringside.timing.replay import time_trace
from ringside.trace import CallSite, Kind, Mode, Op, Trace

MACHINE = Machine("textbook", alpha_s=1e-6, beta_s_per_byte=1e-9)
SITES = [CallSite("Sendrecv(dest=next)", "ring.py", 14), CallSite("compute()", "ring.py", 12)]


def ring(world_size, *, steps=3, nbytes=1000):
    """`steps` times, every rank computes, rank 0 longest, and exchanges with its neighbours."""
    ops = [[] for _ in range(world_size)]
    for rank, row in enumerate(ops):
        for step in range(steps):
            work_ps = 2_000_000 if rank == 0 else 500_000
            prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
            first, number = 2 * step, step * world_size
            row += [
                Op(Kind.COMPUTE, detail=(0, 0, work_ps, "backward"), site=1),
                Op(Kind.ISEND, next_rank, 0, nbytes, "world", first, number + rank,
                   (Mode.STANDARD,), 0),
                Op(Kind.IRECV, prev_rank, 0, nbytes, "world", first + 1, number + prev_rank,
                   (prev_rank, 0), 0),
                Op(Kind.WAIT, detail=(first, first + 1), site=0),
            ]  # fmt: skip
    return time_trace(Trace(world_size, ops, SITES), MACHINE)


def events(timeline, phase):
    return [e for e in perfetto.trace_events(timeline)["traceEvents"] if e["ph"] == phase]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7])
def test_every_event_has_the_fields_that_its_phase_requires(world_size):
    required = {
        "M": {"name", "pid", "tid", "args"},
        "X": {"name", "cat", "pid", "tid", "ts", "dur"},
        "s": {"name", "cat", "id", "pid", "tid", "ts"},
        "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
        "C": {"name", "pid", "ts", "args"},
    }
    table = perfetto.trace_events(ring(world_size))
    assert table["displayTimeUnit"] in {"ms", "ns"}
    for event in table["traceEvents"]:
        assert required[event["ph"]] <= set(event)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 1) > 0


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7])
def test_every_rank_has_a_named_track_in_order(world_size):
    metadata = events(ring(world_size), "M")
    names = {e["tid"]: e["args"]["name"] for e in metadata if e["name"] == "thread_name"}
    assert names == {rank: f"rank {rank}" for rank in range(world_size)}
    order = [e["args"]["sort_index"] for e in metadata if e["name"] == "thread_sort_index"]
    assert order == list(range(world_size))


def test_slices_are_the_spans_in_microseconds():
    timeline = ring(3)
    slices = events(timeline, "X")
    spans = [s for row in timeline.spans for s in row if s.end_s > s.start_s]
    assert [(e["tid"], e["cat"]) for e in slices] == [(s.rank, s.kind) for s in spans]
    for event, span in zip(slices, spans, strict=True):
        assert event["ts"] == pytest.approx(span.start_s * 1e6, abs=1e-6)
        assert event["dur"] == pytest.approx((span.end_s - span.start_s) * 1e6, abs=1e-6)
        assert event["args"]["line"] == span.site
    assert {e["args"]["line"] for e in slices} == {"ring.py:12", "ring.py:14"}


def test_slices_of_a_track_do_not_overlap():
    slices = events(ring(4), "X")
    for rank in range(4):
        end = 0.0
        for event in (e for e in slices if e["tid"] == rank):
            assert event["ts"] >= end - 1e-9
            end = event["ts"] + event["dur"]


def test_every_message_is_one_flow_between_slices_of_sender_and_receiver():
    timeline = ring(4)
    slices, starts, ends = (events(timeline, phase) for phase in "Xsf")
    assert len(timeline.messages) == len(starts) == len(ends) == 12
    assert len({e["id"] for e in starts}) == 12
    arrive = {e["id"]: e for e in ends}
    for start, message in zip(starts, timeline.messages, strict=True):
        end = arrive[start["id"]]
        assert (start["tid"], end["tid"]) == (message.source, message.dest)
        assert start["args"]["nbytes"] == message.nbytes == 1000
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert end["bp"] == "e"
        assert start["ts"] < end["ts"]
        for event in (start, end):  # a flow without a slice around it is dropped by the viewers
            (around,) = [
                s
                for s in slices
                if s["tid"] == event["tid"] and s["ts"] <= event["ts"] < s["ts"] + s["dur"]
            ]
            assert around["name"] == "Sendrecv"


def test_counter_of_bytes_in_flight_rises_and_returns_to_nothing():
    timeline = ring(4)
    counts = events(timeline, "C")
    values = [e["args"]["bytes"] for e in counts]
    assert values[-1] == 0
    assert max(values) == 4000
    assert min(values) == 0
    assert [e["ts"] for e in counts] == sorted(e["ts"] for e in counts)
    plain = perfetto.trace_events(timeline, counters=False)["traceEvents"]
    assert not [e for e in plain if e["ph"] == "C"]


def test_export_writes_whole_files_of_equal_bytes(tmp_path):
    first = perfetto.export(ring(3), tmp_path / "new" / "first.json")
    second = perfetto.export(ring(3), tmp_path / "second.json")
    assert first.read_bytes() == second.read_bytes()
    table = json.loads(first.read_text(encoding="utf-8"))
    assert table == perfetto.trace_events(ring(3))
    assert table["otherData"] == {
        "machine": "textbook",
        "world_size": 3,
        "makespan_us": pytest.approx(ring(3).makespan_s * 1e6),
    }
    assert sorted(p.name for p in tmp_path.rglob("*.json")) == ["first.json", "second.json"]


def test_a_failed_export_leaves_the_old_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "trace.json"
    old = '{"traceEvents": []}'
    path.write_text(old, encoding="utf-8")

    def refuse(*_):
        raise OSError("no")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="no"):
        perfetto.export(ring(2), path)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    assert path.read_text(encoding="utf-8") == old
