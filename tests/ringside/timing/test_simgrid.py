"""Our engine against SimGrid's: the same traces, timed by an engine that others wrote.

Where no port is wanted twice at once, the plain export is compared, and the two agree to rounding.
Where ports contend, SimGrid is given our ports (``two_ports``), and they agree to rounding again.
How far a network that shares its links is from one whose ports serve in turn is printed.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.checking import inputs
from ringside.commands import cli
from ringside.errors import TargetError, TraceError
from ringside.timing import simgrid
from ringside.timing.collectives import ALGORITHMS
from ringside.timing.replay import replay
from ringside.timing.timeline import Timeline
from ringside.trace import Kind, Mode, Op, Trace
from tests import random_traces
from tests.ringside.network.test_random_programs import PROGRAM, plan

REFERENCE = Path(__file__).resolve().parents[3] / "solutions" / "a03_allreduce"
TEXTBOOK = Machine.load("textbook")
EXACT = 1e-6


def needs_simgrid(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test as one that starts SimGrid, and skip it where there is none."""
    missing = pytest.mark.skipif(
        shutil.which("smpirun") is None,
        reason=f"no SimGrid here: apt-get install {simgrid.DEBIAN_PACKAGE} (or `make system`)",
    )
    return pytest.mark.simgrid(missing(test))


# (what was compared, with what) -> relative differences; shown by pytest -s
FIGURES: defaultdict[tuple[str, str], list[float]] = defaultdict(list)


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[None]:
    """Print how many traces were compared, and how far the engines were apart."""
    yield
    for (name, how), errors in FIGURES.items():
        within = sum(error <= 0.05 for error in errors), sum(error <= EXACT for error in errors)
        print(
            f"\n{name}, {how}: {len(errors)} traces, {within[1]} within 1e-6, "
            f"{within[0]} within 5 %, greatest {max(errors):.2g}",
            end="",
        )
    FIGURES.clear()


def compare(
    trace: Trace, folder: Path, machine: Machine = TEXTBOOK, *, name: str, shared: bool = False
) -> tuple[bool, float]:
    """Whether ports contended, and by how much SimGrid's makespan differs from ours, relatively.

    ``shared``: note for the figures, too, how far links are that are shared where ports contend.
    """
    timeline = replay(trace, machine)
    ours = timeline.makespan_s

    def error(*, two_ports: bool) -> float:
        theirs = simgrid.makespan_s(simgrid.export(trace, machine, folder, two_ports=two_ports))
        return abs(theirs - ours) / ours if ours else abs(theirs)

    if not contended(timeline):
        plain = error(two_ports=False)
        FIGURES[name, "no contention"].append(plain)
        return False, plain
    if shared:
        FIGURES[name, "contention, links shared"].append(error(two_ports=False))
    exact = error(two_ports=True)
    FIGURES[name, "contention, two ports"].append(exact)
    return True, exact


def contended(timeline: Timeline) -> bool:
    """Whether any message had to wait for a port."""
    messages = timeline._engine.messages.values()
    return any(message.held_at_source or message.held_at_dest for message in messages)


@needs_simgrid
def test_100_random_traces_without_contention_agree_to_rounding(tmp_path: Path) -> None:
    for seed in range(100):
        waited, error = compare(random_traces.permutations(seed), tmp_path, name="permutations")
        assert not waited
        assert error <= EXACT, seed


@needs_simgrid
def test_100_random_traces_most_with_contention_agree_to_rounding(tmp_path: Path) -> None:
    found = [
        compare(random_traces.graphs(seed), tmp_path, name="graphs", shared=True)
        for seed in range(100)
    ]
    assert max(error for _, error in found) <= EXACT
    assert sum(waited for waited, _ in found) > 75


@needs_simgrid
def test_a_port_in_turn_and_a_link_that_is_shared(tmp_path: Path) -> None:
    """Ranks 0 and 1 send 100 us to rank 2, then rank 1 to rank 3; times in us, alpha is 1.

    ports in turn   0->2  1..101      1->2  101..201    1->3  111..211 (leaves after 1->2 has left)
    links shared    0->2  1..191      1->2   11..211    1->3   21..216
    """
    writer = random_traces.Writer(4)
    first, second, third = (writer.message(*pair, 100_000) for pair in ((0, 2), (1, 2), (1, 3)))
    writer.ops[0].append(first[0])
    for message in (second, third):
        writer.work(1, 10 * 10**6)
        writer.ops[1].append(message[0])
    writer.ops[2] += [first[1], second[1]]
    writer.ops[3].append(third[1])
    for rank, ops in enumerate(writer.ops):
        writer.wait(rank, [op.request for op in ops if op.kind in (Kind.ISEND, Kind.IRECV)])
    timeline = replay(writer.trace(), TEXTBOOK)
    assert contended(timeline)
    assert timeline.makespan_s == pytest.approx(211e-6)
    folder = simgrid.export(writer.trace(), TEXTBOOK, tmp_path, two_ports=True)
    assert simgrid.makespan_s(folder) == pytest.approx(211e-6, rel=EXACT)
    folder = simgrid.export(writer.trace(), TEXTBOOK, tmp_path)
    assert simgrid.makespan_s(folder) == pytest.approx(216e-6, rel=EXACT)


@needs_simgrid
@pytest.mark.parametrize("change", [{}, {"gpus_per_nic": 1}, {"ports": "peer"}])
def test_ports_of_nodes_and_pairs_agree(tmp_path: Path, change: dict[str, object]) -> None:
    machine = Machine.load("zaratan").with_(eager_threshold_bytes=0, ranks_per_node=2, **change)
    free = 0
    for seed in range(15):
        trace = random_traces.permutations(seed)
        waited, error = compare(trace, tmp_path, machine, name="nodes")
        free += not waited
        # There, near and far messages of a rank have links of their own.
        assert error <= (1e-4 if waited else EXACT), seed
    assert free >= 3


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "program.py").write_text(PROGRAM)
    shutil.copytree(REFERENCE / "given", folder / "given")
    for name in ("star", "sharded_server", "ring", "recursive", "tree"):
        shutil.copy(REFERENCE / f"{name}.py", folder)
    with Session(folder) as session:
        yield session


@needs_simgrid
def test_recorded_programs_with_wildcards_and_polls_agree(
    programs: Session, tmp_path: Path
) -> None:
    for seed in range(20):
        p, steps, _ = plan(seed)
        args = [(steps[rank], 0) for rank in range(p)]
        result = programs.call("program:play", p, args, machine=TEXTBOOK).raise_for_error()
        _, error = compare(apart(result.trace, seed), tmp_path, name="recorded programs")
        assert error <= EXACT, seed


def apart(trace: Trace, seed: int) -> Trace:
    """The same with up to 10 ns of work before every operation: no two at the same instant.

    Which of two messages then goes first, each engine decides in its own way.
    """
    rng = np.random.default_rng(seed)
    ops = [
        [
            each
            for op in mine
            for each in (Op(Kind.COMPUTE, detail=(0.0, 0.0, int(rng.integers(10**4)), "work")), op)
        ]
        for mine in trace.ops
    ]
    return Trace(trace.world_size, ops)


@needs_simgrid
@pytest.mark.parametrize(
    "target",
    [
        "star:all_reduce",
        "sharded_server:all_reduce",
        "ring:all_reduce",
        "recursive:recursive_doubling",
        "recursive:halving_doubling",
        "tree:all_reduce",
    ],
)
def test_every_reference_solution_agrees(programs: Session, tmp_path: Path, target: str) -> None:
    tree = target.startswith("tree")  # sends 3 chunks at once: its ports contend, no others do
    for p in (2, 3, 4, 5, 8):
        for n in (1, 1000, 100_003):
            args = [(np.full(n, float(rank)), *((3,) if tree else ())) for rank in range(p)]
            result = programs.call(target, p, args, machine=TEXTBOOK).raise_for_error()
            waited, error = compare(result.trace, tmp_path, name=target, shared=tree)
            assert error <= EXACT
            assert waited == tree


def calls(world_size: int) -> Iterator[tuple[Path, str, str, list[tuple[Any, ...]]]]:
    """Every function of the solutions that `ringside run` can call: folder, file, its arguments."""
    options = inputs.Options(n=300)
    paths = [*REFERENCE.parent.glob("*/*.py"), *REFERENCE.parent.glob("*/checks/inside*.py")]
    for path in sorted(paths):
        folder = path.parent.parent if path.parent.name == "checks" else path.parent
        # A deadlock to be mended, what wants a model that only checks/ makes, one half of an
        # exchange, what wants a store, and cells that write programs.
        if path.stem in (
            *("broken", "step_torch", "wire", "checkpoint", "inside_store", "notebook"),
        ):
            continue
        for function in inputs.functions(path):
            with contextlib.suppress(TargetError):  # it wants what no option gives
                arguments = inputs.arguments(path, function, world_size, options)
                yield folder, path.relative_to(folder).as_posix(), function, arguments


@needs_simgrid
@pytest.mark.slow
def test_the_references_of_all_assignments_agree(tmp_path: Path) -> None:
    p, found = 4, set()
    for folder, group in itertools.groupby(calls(p), lambda call: call[0]):
        with Session(folder, machine=TEXTBOOK) as session:
            for _, file, function, args in group:
                result = session.call(f"{file}:{function}", p, args).raise_for_error()
                _, error = compare(apart(result.trace, 0), tmp_path, name=folder.name)
                assert error <= EXACT, (folder, file, function)
                found.add((folder.name, Path(file).stem))
    assert len({assignment for assignment, _ in found}) >= 9
    assert {
        ("a05_ddp", "overlap"),
        ("a05_ddp", "inside_torch"),
        ("a09_pipeline", "stage"),
    } <= found


@needs_simgrid
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_collective_agrees_also_beside_work(tmp_path: Path, name: str) -> None:
    for algorithm in ALGORITHMS[name]:
        machine = TEXTBOOK.with_(collectives={name: algorithm})
        for p in (2, 5, 8):
            for blocking in (True, False):
                trace = collective(name, p, blocking=blocking)
                _, error = compare(trace, tmp_path, machine, name="collectives")
                assert error <= EXACT, (p, blocking)


def collective(name: str, p: int, *, blocking: bool) -> Trace:
    """Two collectives with work, before the work or beside it, one after the other."""
    counts = {"alltoall": p * p, "allgather": p, "gather": p, "scatter": p, "reduce_scatter": p}
    sizes = (10_000,) * counts.get(name, 1)
    members = tuple(range(p))
    trace = Trace(p, [[] for _ in members])
    for rank, ops in enumerate(trace.ops):
        for sequence in (0, 1):
            detail = (name, sequence, 0, members, sizes)
            ops.append(Op(Kind.COLLECTIVE, request=sequence, detail=detail))
            work = Op(Kind.COMPUTE, detail=(0.0, 0.0, 1_000_000 * (rank + 1), "work"))
            wait = Op(Kind.WAIT, detail=(sequence,))
            ops += [wait, work] if blocking else [work, wait]
    return trace


@needs_simgrid
@pytest.mark.parametrize("p", [4, 8])
def test_all_to_all_in_one_order_is_a_convoy_at_ports_but_not_on_shared_links(
    tmp_path: Path, p: int
) -> None:
    # All begin with rank 0: its port takes them one after the other, and theirs stand idle.
    # A fluid network gives each a share of rank 0's port, and the rest to the next ranks.
    seconds = {}
    for rotated in (True, False):
        trace = random_traces.all_to_all(p, 100_000, rotated=rotated)
        ours = replay(trace, TEXTBOOK).makespan_s
        for two_ports in (True, False):
            folder = simgrid.export(trace, TEXTBOOK, tmp_path, two_ports=two_ports)
            seconds[rotated, two_ports] = simgrid.makespan_s(folder) / ours
    convoy = seconds.pop((False, False))
    assert all(ratio == pytest.approx(1, rel=EXACT) for ratio in seconds.values()), seconds
    assert 1.6 < 1 / convoy < 2.0


def small() -> Trace:
    """Rank 0 works for a millisecond, then sends 4096 bytes to rank 1."""
    writer = random_traces.Writer(2)
    send, receive = writer.message(0, 1, 4096)
    writer.work(0, 10**9)
    writer.ops[0].append(send)
    writer.ops[1].append(receive)
    writer.wait(0, [send.request])
    writer.wait(1, [receive.request])
    return writer.trace()


def test_export_writes_what_its_docstring_lists(tmp_path: Path) -> None:
    folder = simgrid.export(small(), TEXTBOOK, tmp_path / "out")
    scale = 2**18  # the finest that keeps 4096 bytes in 31 bits
    assert (folder / "rank-0.txt").read_text().splitlines() == [
        "0 init",
        "0 compute 1000000000.0",
        f"0 isend 1 1 {4096 * scale} 6",
        "0 wait 0 1 1",
        "0 finalize",
    ]
    assert (folder / "rank-1.txt").read_text().splitlines() == [
        "1 init",
        f"1 irecv 0 1 {4096 * scale} 6",
        "1 wait 0 1 1",
        "1 finalize",
    ]
    assert (folder / "traces").read_text().split() == ["rank-0.txt", "rank-1.txt"]
    assert (folder / "hostfile").read_text().split() == ["host-0", "host-1"]
    assert "--cfg=network/model:CM02" in (folder / "flags").read_text().split()
    assert (folder / "command").read_text().startswith("smpirun ")


def test_the_platform_has_a_link_for_every_port_and_a_route_for_every_pair(tmp_path: Path) -> None:
    simgrid.export(small(), TEXTBOOK, tmp_path)
    platform = ElementTree.parse(tmp_path / "platform.xml").getroot()
    assert {host.attrib["id"] for host in platform.iter("host")} == {"host-0", "host-1"}
    links = {link.attrib["id"]: link.attrib for link in platform.iter("link")}
    assert set(links) == {"self", "out-0", "out-1", "in-0", "in-1"}
    bandwidth = float(links["out-0"]["bandwidth"].removesuffix("Bps"))
    assert bandwidth == pytest.approx(1e9 * 2**18, rel=1e-12)
    assert float(links["in-1"]["latency"].removesuffix("s")) == 0.0
    routes = {
        (route.attrib["src"], route.attrib["dst"]): [link.attrib["id"] for link in route]
        for route in platform.iter("route")
    }
    assert routes["host-0", "host-1"] == ["out-0", "in-1"]
    assert len(routes) == 4


def test_with_two_ports_a_player_carries_each_message(tmp_path: Path) -> None:
    folder = simgrid.export(small(), TEXTBOOK, tmp_path / "out", two_ports=True)
    scale = 2**18
    lines = {name: (folder / name).read_text().splitlines()[1:-1] for name in rank_files(folder)}
    assert lines["rank-0.txt"] == [
        "0 sleep 0.001",
        "0 isend 2 2 0 6",  # the head
        f"0 isend 2 3 {4096 * scale} 6",
        "0 irecv 2 5 0 6",
        "0 wait 0 2 2",
        "0 wait 0 2 3",
        "0 wait 2 0 5",
    ]
    assert (folder / "hostfile").read_text().split() == ["host-0", "host-1", "way-0-1"]
    platform = ElementTree.parse(folder / "platform.xml").getroot()
    routes = {
        (route.attrib["src"], route.attrib["dst"]): [link.attrib["id"] for link in route]
        for route in platform.iter("route")
    }
    assert routes["host-0", "way-0-1"] == ["out-0"]
    assert routes["way-0-1", "host-1"] == ["in-1"]
    assert "--cfg=maxmin/concurrency-limit:1" in (folder / "flags").read_text().split()


def rank_files(folder: Path) -> list[str]:
    return (folder / "traces").read_text().split()


def test_ringside_run_exports_what_it_ran(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["run", f"{REFERENCE / 'ring.py'}:all_reduce", "--ranks", "3", "--simgrid", str(out)]
    assert cli.main(command) == 0
    assert len((out / "traces").read_text().split()) == 3
    assert (out / "rank-2.txt").read_text().count("isend") == 4


def test_what_simgrid_cannot_replay_is_refused(tmp_path: Path) -> None:
    lost = small()
    lost.ops[1].clear()
    with pytest.raises(
        TraceError, match="rank 0 sends to rank 1 a message that was never received"
    ):
        simgrid.export(lost, TEXTBOOK, tmp_path)
    never = small()
    never.ops[0].clear()
    with pytest.raises(TraceError, match="rank 1 receives a message that was never sent"):
        simgrid.export(never, TEXTBOOK, tmp_path)
    buffered = small()
    buffered.ops[0][1] = buffered.ops[0][1]._replace(detail=(int(Mode.BUFFERED),))
    with pytest.raises(TraceError, match="rank 0 calls Bsend"):
        simgrid.export(buffered, TEXTBOOK, tmp_path)
    large = small()
    large.ops[0][1] = large.ops[0][1]._replace(nbytes=2**31)
    with pytest.raises(TraceError, match="2147483648 bytes is too large"):
        simgrid.export(large, TEXTBOOK, tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_simgrid_the_error_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simgrid.export(small(), TEXTBOOK, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(simgrid.SimgridError, match="apt-get install libsimgrid-dev"):
        simgrid.makespan_s(tmp_path)


@needs_simgrid
def test_an_error_of_simgrid_is_quoted(tmp_path: Path) -> None:
    simgrid.export(small(), TEXTBOOK, tmp_path)
    (tmp_path / "hostfile").write_text("nowhere\nnowhere\n")
    with pytest.raises(simgrid.SimgridError, match="nowhere"):
        simgrid.makespan_s(tmp_path)


def test_make_system_installs_the_package_that_the_error_names() -> None:
    makefile = (REFERENCE.parents[1] / "Makefile").read_text()
    assert f"smpirun:{simgrid.DEBIAN_PACKAGE}" in makefile
