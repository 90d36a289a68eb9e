"""docs/glossary.md: each term has a sentence and an example, and the examples' times are so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ringside

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = dict(re.findall(r"^### ([^,\n]+).*\n\n(.+)$", PAGE, re.MULTILINE))
PROGRAMS = """
import time

import numpy as np
from mpi4py import MPI

import ringside


def message(comm, nbytes):
    if comm.rank == 0:
        comm.Send(np.zeros(nbytes, np.uint8), dest=1)
    else:
        comm.Recv(np.empty(nbytes, np.uint8), source=0)


def late_receive(comm, nbytes):
    if comm.rank == 0:
        comm.Send(np.zeros(nbytes, np.uint8), dest=1)
    else:
        ringside.compute(seconds=5e-6)
        comm.Recv(np.empty(nbytes, np.uint8), source=0)


def two_at_once(comm, nbytes):
    buffer = np.zeros((2, nbytes), np.uint8)
    start = comm.Irecv if comm.rank else comm.Isend
    MPI.Request.Waitall([start(part, 1 - comm.rank, number) for number, part in enumerate(buffer)])


def incast(comm, nbytes):
    if comm.rank:
        comm.Send(np.zeros(nbytes, np.uint8), dest=0)
        return
    inbox = np.zeros((comm.size, nbytes), np.uint8)
    MPI.Request.Waitall([comm.Irecv(inbox[one], source=one) for one in range(1, comm.size)])


def exchange(comm, nbytes):
    other, theirs = 1 - comm.rank, np.empty(nbytes, np.uint8)
    comm.Sendrecv(np.zeros(nbytes, np.uint8), dest=other, recvbuf=theirs, source=other)


def ring(comm, nbytes):
    comm.Allreduce(MPI.IN_PLACE, np.zeros(nbytes // 8))
"""


def test_every_term_has_a_sentence_and_an_example() -> None:
    wanted = "rank, world size, tag, port, incast, in flight, exposed, rendezvous, eager, bucket"
    wanted += ", microbatch, bubble, shard, all-reduce, makespan, critical path, straggler, replica"
    assert set(wanted.split(", ")) <= set(TERMS)
    assert len(TERMS) == PAGE.count("\n### "), "a term stands twice, or has no text"
    for term, text in TERMS.items():
        sentence, _, example = text.partition(" *Example:* ")
        assert sentence.endswith(".") and example, term
        assert re.search(r"\d", example) or term == "collective", f"{term}: no number"


@pytest.mark.parametrize(
    ("term", "function", "world_size", "nbytes", "shown"),
    [
        ("latency", "message", 2, 0, "takes 1 µs"),
        ("inverse bandwidth", "message", 2, 8000, "= 9 µs"),
        ("rendezvous", "late_receive", 2, 8000, "ends at 14 µs"),
        ("port", "two_at_once", 2, 2000, "= 5 µs"),
        ("incast", "incast", 8, 1_000_000, "it takes 7 ms"),
        ("full duplex", "exchange", 2, 8000, "need 9 µs"),
        ("ring", "ring", 4, 4000, "= 12 µs"),
    ],
)
def test_the_times_of_the_examples_are_those_of_a_run(
    term: str, function: str, world_size: int, nbytes: int, shown: str, tmp_path: Path
) -> None:
    (tmp_path / "programs.py").write_text(PROGRAMS)
    result = ringside.run(f"{tmp_path / 'programs.py'}:{function}", world_size, (nbytes,))
    assert shown in TERMS[term]
    number, unit = re.findall(r"(\d+) (µs|ms)", shown)[0]
    assert result.makespan_s == pytest.approx(
        int(number) * {"µs": 1e-6, "ms": 1e-3}[unit], rel=1e-3
    )
