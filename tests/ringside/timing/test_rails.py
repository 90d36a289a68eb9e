"""Library rings over nodes: on all NICs at once, by messages and by the formula alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ringside.errors import MachineError, TraceError
from ringside.timing import collectives, rails, simgrid
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

DGX = Machine(
    "nodes of eight", 14e-6, 1 / 24e9, intra_alpha_s=3.4e-6, intra_beta_s_per_byte=1 / 240e9,
    eager_alpha_s=2.7e-6, intra_eager_alpha_s=6e-7, ranks_per_node=8, eager_threshold_bytes=65536,
)  # fmt: skip
GIB = 2**30


def collective(
    name: str, members: tuple[int, ...], sizes: tuple[int, ...], late: int = 0, world: int = 0
) -> Trace:
    """One library collective of some ranks; rank 0 begins ``late`` picoseconds after the others."""
    call = [
        Op(Kind.COLLECTIVE, request=0, detail=(name, 0, 0, members, sizes)),
        Op(Kind.WAIT, detail=(0,)),
    ]
    ops = [call if rank in members else [] for rank in range(world or max(members) + 1)]
    if late:
        ops[0] = [Op(Kind.COMPUTE, detail=(0, 0, late, "")), *call]
    return Trace(len(ops), ops)


def of_all(name: str, p: int, nbytes: int) -> Trace:
    return collective(name, tuple(range(p)), (nbytes,) if name == "allreduce" else (nbytes,) * p)


@pytest.mark.parametrize("gpus_per_nic", [1, 2, 4, 8])
@pytest.mark.parametrize("num_nodes", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["allreduce", "allgather", "reduce_scatter"])
def test_rings_take_what_the_formula_says(name: str, num_nodes: int, gpus_per_nic: int) -> None:
    machine, p = DGX.with_(gpus_per_nic=gpus_per_nic), 8 * num_nodes
    nbytes = GIB * num_nodes * 15 if name == "allreduce" else 2**24
    trace = of_all(name, p, nbytes)
    formula = rails.rings_s(machine, name, tuple(range(p)), trace.ops[0][0].detail[4])
    assert replay(trace, machine).makespan_s == pytest.approx(formula, rel=1e-6)


def test_the_formula_is_taken_over_where_messages_would_be_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace, members = of_all("allreduce", 16 * 4, 2**28), tuple(range(64))
    machine = DGX.with_(ranks_per_node=4)
    by_messages = replay(trace, machine)
    assert by_messages.bytes_matrix.sum() == 2 * 63 * 2**28
    monkeypatch.setattr(rails, "MOST_MESSAGES", 1000)
    assert rails.formula_s(machine, "allreduce", members, (2**28,)) > 0
    by_formula = replay(trace, machine)
    assert by_formula.makespan_s == pytest.approx(by_messages.makespan_s, rel=1e-6)
    assert by_formula.communication_s == [pytest.approx(by_formula.makespan_s)] * 64
    assert by_formula.messages == []


def test_a_collective_timed_by_a_formula_begins_with_its_last_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rails, "MOST_MESSAGES", 10)
    members = tuple(range(16))
    seconds = rails.formula_s(DGX, "allreduce", members, (GIB,))
    timeline = replay(collective("allreduce", members, (GIB,), late=5 * 10**9), DGX)
    assert timeline.end_s == [pytest.approx(5e-3 + seconds)] * 16
    [first, *_] = timeline.spans[1]
    assert (first.kind, first.end_s) == ("idle", pytest.approx(5e-3))
    with pytest.raises(TraceError, match="allreduce of 16 ranks is timed by a formula on machine"):
        simgrid.export(collective("allreduce", members, (GIB,)), DGX, "unused")


@pytest.mark.parametrize(("gpus_per_nic", "gbs"), [(1, 192), (2, 96), (4, 48), (8, 24)])
def test_bus_bandwidth_grows_with_the_ports_of_a_node(gpus_per_nic: int, gbs: float) -> None:
    took_s = replay(of_all("allreduce", 16, 2**33), DGX.with_(gpus_per_nic=gpus_per_nic)).makespan_s
    assert 2 * 15 / 16 * 2**33 / took_s / 1e9 == pytest.approx(gbs, rel=0.01)


def test_a_ring_that_a_program_sends_has_one_port_of_each_node() -> None:
    """The same ring, sent by the program: of the node's eight ports, one is busy."""
    p, chunk = 16, 2**33 // 16
    ops: list[list[Op]] = [[] for _ in range(p)]
    for step in range(2 * (p - 1)):
        for rank in range(p):
            into, out = (rank - 1) % p, (rank + 1) % p
            ops[rank] += [
                Op(Kind.ISEND, out, 0, chunk, "world", 2 * step, step * p + rank, (0,)),
                Op(Kind.IRECV, into, 0, chunk, "world", 2 * step + 1, step * p + into, (into, 0)),
                Op(Kind.WAIT, detail=(2 * step, 2 * step + 1)),
            ]
    by_hand = replay(Trace(p, ops), DGX).makespan_s
    by_library = replay(of_all("allreduce", p, 2**33), DGX).makespan_s
    assert by_hand / by_library == pytest.approx(8, rel=0.01)


def test_every_port_of_a_node_carries_a_message_in_every_step() -> None:
    members = tuple(range(24))
    where = rails.layout(DGX, members)
    assert where.num_nodes == 3 and len(where.rings) == 8
    assert all(sorted(ring) == list(members) for ring in where.rings)
    leaving, entering = Counter(), Counter()
    for ring in where.rings:
        for here, there in zip(ring, ring[1:] + ring[:1], strict=True):
            if DGX.node(here) != DGX.node(there):
                leaving[here] += 1
                entering[there] += 1
    assert leaving == entering == Counter(members)


@pytest.mark.parametrize("name", ["allgather", "reduce_scatter"])
def test_parts_of_different_sizes_reach_everybody_whole(name: str) -> None:
    sizes = (5, 0, 40, 1, 8, 13, 22, 3)
    machine = DGX.with_(ranks_per_node=4)
    received = np.zeros(8, int)
    for member in range(8):
        for transfers in rails.rounds(machine, name, tuple(range(8)), member, 0, sizes):
            received[member] += sum(got for _, _, got in transfers if got > 0)
    if name == "allgather":
        assert received.tolist() == [sum(sizes) - mine for mine in sizes]
    else:  # of a ring, each member receives every partial sum but one
        assert received.sum() == 7 * sum(sizes)


@pytest.mark.parametrize(
    "members",
    [
        tuple(range(0, 32, 8)),  # one of each node: it has one port there
        tuple(range(8)),
        (*range(8), 8),  # uneven: eight of a node, and one of the next
        (0, 8),
    ],
)
def test_one_ring_is_left_where_more_make_no_sense(members: tuple[int, ...]) -> None:
    assert rails.layout(DGX, members).rings == (tuple(range(len(members))),)


@pytest.mark.parametrize("members", [tuple(range(16)), (5, 2, 9, 0), tuple(range(0, 20, 2))])
@pytest.mark.parametrize("name", ["allreduce", "allgather", "reduce_scatter"])
def test_a_node_with_one_port_has_one_ring_as_ever(name: str, members: tuple[int, ...]) -> None:
    zaratan, p = Machine.load("zaratan"), len(members)
    sizes = (1000,) if name == "allreduce" else tuple(range(100, 100 + p))
    assert rails.formula_s(zaratan, name, members, sizes) is None
    for member in range(p):
        as_ever = collectives.ALGORITHMS[name]["ring"](member, p, 0, sizes)
        assert rails.rounds(zaratan, name, members, member, 0, sizes) == as_ever


def test_a_message_inside_a_node_leaves_the_network_port_alone() -> None:
    """Rank 0 sends to its node and to another one: each message has a port of its own."""
    nbytes, late = 2**27, 14e-6 + 2**27 / 24e9
    ops: list[list[Op]] = [[] for _ in range(16)]
    for number, dest in enumerate((1, 8)):
        ops[0].append(Op(Kind.ISEND, dest, 0, nbytes, "world", number, number * 16, (0,)))
        ops[dest] = [
            Op(Kind.IRECV, 0, 0, nbytes, "world", 0, number * 16, (0, 0)),
            Op(Kind.WAIT, detail=(0,)),
        ]
    ops[0].append(Op(Kind.WAIT, detail=(0, 1)))
    assert replay(Trace(16, ops), DGX).makespan_s == pytest.approx(late)


def test_small_vectors_and_two_nodes_take_a_tree_where_that_is_faster() -> None:
    machine = DGX.with_(collectives={"allreduce": "ring_or_tree"})
    members = tuple(range(64))
    small = 2**20
    tree_s = rails.tree_s(machine, members, small)
    assert replay(of_all("allreduce", 64, small), machine).makespan_s == pytest.approx(tree_s)
    # Seven hops in the node and three over the network, there and back; twice 92 % of 8 ports.
    bandwidth_s = small * max(2 / 0.92 / (8 * 24e9), 2 / 240e9)
    assert tree_s == pytest.approx(2 * (7 * 6e-7 + 3 * 2.7e-6) + 2 * bandwidth_s)  # LL: half rate
    bigger_s = rails.tree_s(machine, members, 16 * small)
    assert bigger_s == pytest.approx(2 * (7 * 3.4e-6 + 3 * 14e-6) + 16 * bandwidth_s)
    large = replay(of_all("allreduce", 64, GIB), machine).makespan_s
    assert large == pytest.approx(rails.rings_s(machine, "allreduce", members, (GIB,)), rel=1e-6)
    two_s = replay(of_all("allreduce", 16, 2**33), machine).makespan_s
    assert two_s == pytest.approx(2**33 * 2 / 240e9, rel=0.01)  # the switches' ports decide


def test_eager_messages_have_a_latency_of_their_own() -> None:
    def one_s(nbytes: int, dest: int) -> float:
        ops: list[list[Op]] = [[] for _ in range(16)]
        ops[0] = [
            Op(Kind.ISEND, dest, 0, nbytes, "world", 0, 0, (0,)), Op(Kind.WAIT, detail=(0,))
        ]  # fmt: skip
        ops[dest] = [
            Op(Kind.IRECV, 0, 0, nbytes, "world", 0, 0, (0, 0)), Op(Kind.WAIT, detail=(0,))
        ]  # fmt: skip
        return replay(Trace(16, ops), DGX).makespan_s

    assert one_s(65535, 8) == pytest.approx(2.7e-6 + 65535 / 24e9)
    assert one_s(65536, 8) == pytest.approx(14e-6 + 65536 / 24e9)
    assert one_s(65535, 1) == pytest.approx(6e-7 + 65535 / 240e9)
    assert one_s(65536, 1) == pytest.approx(3.4e-6 + 65536 / 240e9)


def test_switches_that_add_make_an_all_reduce_of_a_whole_node_faster() -> None:
    machine = DGX.with_(switch_gain=1.25)
    for p, gain in ((8, 1.25), (7, 1), (16, 1)):
        trace = of_all("allreduce", p, p * GIB)
        ratio = replay(trace, DGX).makespan_s / replay(trace, machine).makespan_s
        assert ratio == pytest.approx(gain, rel=0.001)
    gathered = of_all("allgather", 8, GIB)
    assert replay(gathered, DGX).makespan_s == replay(gathered, machine).makespan_s


def test_files_of_before_say_shared_nic(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    old = "alpha_s = 1e-6\nbeta_s_per_byte = 1e-9\nranks_per_node = 4\nshared_nic = {}\n[sources]\n"
    path.write_text(old.format("true") + 'shared_nic = "chosen: an example"\n')
    assert Machine.load(path).gpus_per_nic == 4
    assert Machine.load(path).sources == {"gpus_per_nic": "chosen: an example"}
    path.write_text(old.format("false"))
    assert Machine.load(path).gpus_per_nic == 1
    assert Machine.load("zaratan,shared_nic=False").gpus_per_nic == 1
    assert Machine.load("zaratan,shared_nic=True,ranks_per_node=8").gpus_per_nic == 8


def test_rates_by_dtype_are_asked_for_by_what_is_reached() -> None:
    dgx = Machine.load("dgx_h100")
    assert dgx.rate("bf16") == dgx.flop_per_s == 989e12
    assert dgx.rate("fp8", "products") == pytest.approx(0.71 * 1979e12)
    with pytest.raises(MachineError, match=r"dgx_h100 has no rates.fp4.peak; it has fp32.peak, "):
        dgx.rate("fp4")
    with pytest.raises(MachineError, match=r"has no rates.fp32.steps"):
        dgx.rate("fp32", "steps")


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        ({"bf17": {"peak": 1.0}}, "rates.bf17 must be one of fp32"),
        ({"bf16": {"steps": 0.5}}, r"rates.bf16 \(steps\) must have peak"),
        ({"bf16": {"peak": 1.0, "steps": 1.5}}, r"steps \(1.5\) must be a share"),
    ],
)
def test_rates_that_make_no_sense_are_refused(rates: dict, why: str) -> None:
    with pytest.raises(MachineError, match=why):
        DGX.with_(rates=rates)
    with pytest.raises(MachineError, match=r"gpus_per_nic .0. must be >= 1"):
        DGX.with_(gpus_per_nic=0)


@pytest.mark.parametrize("value", ["3", '"x"'])
@pytest.mark.parametrize("name", ["intra", "rates", "collectives", "sources"])
def test_a_table_that_is_none_is_named_with_its_file(tmp_path: Path, name: str, value: str) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(f"alpha_s = 1e-6\nbeta_s_per_byte = 1e-9\n{name} = {value}\n")
    with pytest.raises(MachineError, match=rf"odd.toml: {name} \(.*\) must be a table, \[{name}\]"):
        Machine.load(path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("gpus_per_nic = 1.5", r"gpus_per_nic \(1.5\) must be a whole number"),
        ("gpus_per_nic = true", r"gpus_per_nic \(True\) must be a whole number"),
        ('eager_threshold_bytes = "64k"', "must be a number"),
        ('alpha_s = "14 us"', "must be a number"),
        ('shared_nic = "false"', "must be true or false and stand alone; or write gpus_per_nic"),
        ("shared_nic = true\ngpus_per_nic = 2", "must be true or false and stand alone"),
        ("rates = { bf16 = 3 }", r"rates.bf16 \(3\) must be a table, such as"),
        ('rates = { bf16 = { peak = "a" } }', r"rates.bf16.peak \(.a.\) must be a number"),
        ("rates = { bf16 = { peak = inf } }", r"rates.bf16.peak \(inf\)"),
        ("switch_gain = inf", "switch_gain"),
    ],
)
def test_a_number_that_is_none_is_named_with_its_file(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "odd.toml"
    alpha = "" if "alpha" in line else "alpha_s = 1e-6\n"
    path.write_text(f"{alpha}beta_s_per_byte = 1e-9\n{line}\n")
    with pytest.raises(MachineError, match=f"odd.toml: .*{why}"):
        Machine.load(path)


def test_a_preset_with_one_port_a_node_keeps_one_when_its_nodes_grow() -> None:
    assert Machine.load("zaratan,ranks_per_node=8").gpus_per_nic == 8
    assert Machine.load("dgx_a100,ranks_per_node=4").gpus_per_nic == 1


@pytest.mark.parametrize("num_buckets", [1, 2, 5])
def test_collectives_by_formula_follow_each_other_on_the_ports(
    monkeypatch: pytest.MonkeyPatch, num_buckets: int
) -> None:
    """Buckets that are posted together share the ports, as their messages would."""
    monkeypatch.setattr(rails, "MOST_MESSAGES", 10)
    members = tuple(range(16))
    call = [
        Op(Kind.COLLECTIVE, request=number, detail=("allreduce", number, 0, members, (2**24,)))
        for number in range(num_buckets)
    ]
    call.append(Op(Kind.WAIT, detail=tuple(range(num_buckets))))
    one_s = rails.formula_s(DGX, "allreduce", members, (2**24,))
    assert one_s is not None
    took_s = replay(Trace(16, [call] * 16), DGX).makespan_s
    assert took_s == pytest.approx(num_buckets * one_s)


def test_groups_that_share_a_port_are_timed_by_messages() -> None:
    machine = DGX.with_(gpus_per_nic=8, collectives={"allreduce": "ring_or_tree"})
    assert rails.formula_s(machine, "allreduce", (0, 1, 8, 9), (GIB,)) is None
    assert rails.formula_s(machine, "allreduce", tuple(range(16)), (GIB,)) is not None


def test_the_critical_path_leads_to_the_member_that_began_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rails, "MOST_MESSAGES", 10)
    trace = collective("allreduce", tuple(range(16)), (GIB,), late=5 * 10**9)
    path = replay(trace, DGX).critical_path
    assert [(span.rank, span.kind) for span in path[:1]] == [(0, "compute")]
    assert [span.kind for span in path] == ["compute", "communication"]


@pytest.mark.parametrize(("p", "rings"), [(12, 4), (15, 7), (9, 1), (10, 2)])
def test_uneven_nodes_have_as_many_rings_as_the_smaller_has_ports(p: int, rings: int) -> None:
    members = tuple(range(p))
    where = rails.layout(DGX, members)
    assert len(where.rings) == rings
    assert all(sorted(ring) == list(members) for ring in where.rings)
    nbytes = p * rings * 2**20
    took_s = replay(collective("allreduce", members, (nbytes,)), DGX).makespan_s
    formula = rails.rings_s(DGX, "allreduce", members, (nbytes,))
    assert took_s == pytest.approx(formula, rel=0.35 if rings == 1 else 1e-5)


@pytest.mark.parametrize(("gpus_per_nic", "rings"), [(3, 3), (5, 2)])
def test_ports_need_not_divide_the_gpus_of_a_node(gpus_per_nic: int, rings: int) -> None:
    machine = DGX.with_(gpus_per_nic=gpus_per_nic)
    assert len(rails.layout(machine, tuple(range(16))).rings) == rings
