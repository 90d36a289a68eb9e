"""`ringside fit` and `ringside predict`: known machines come back, and their files are read."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringside import kit
from ringside.commands import cli
from ringside.jobs.calibrate import fit, predict, probe
from ringside.jobs.calibrate.probe import SIZES, measurements
from ringside.jobs.launch import launch
from ringside.jobs.launch.launch import here_environment, mpiexec
from ringside.jobs.launch.sites import Site
from ringside.session.session import Session
from ringside.session.target import Target
from ringside.timing.machine import Machine
from ringside.timing.replay import replay
from ringside.trace import CallSite, Kind, Op, Trace

ROOT = Path(__file__).resolve().parents[3]


def points(alpha_s: float, beta_s_per_byte: float) -> list[list[float]]:
    return [[nbytes, alpha_s + nbytes * beta_s_per_byte] for nbytes in SIZES]


@pytest.mark.parametrize(("alpha_s", "beta_s_per_byte"), [(2e-6, 1e-10), (5e-5, 3e-9), (1e-7, 0)])
def test_exact_times_give_alpha_and_beta_back(alpha_s: float, beta_s_per_byte: float) -> None:
    line = fit.line(points(alpha_s, beta_s_per_byte))
    assert line.alpha_s == pytest.approx(alpha_s, rel=1e-9)
    assert line.beta_s_per_byte == pytest.approx(beta_s_per_byte, rel=1e-9, abs=1e-20)
    assert line.rms < 1e-9


def test_proportional_noise_moves_both_by_less_than_itself() -> None:
    rng = np.random.default_rng(5)
    noisy = [[n, s * (1 + 0.1 * rng.standard_normal())] for n, s in points(2e-6, 1e-10)]
    line = fit.line(noisy)
    assert line.alpha_s == pytest.approx(2e-6, rel=0.1)
    assert line.beta_s_per_byte == pytest.approx(1e-10, rel=0.1)
    assert 0.03 < line.rms < 0.2
    # Squares that aren't relative see the longest message alone: its noise becomes alpha.
    n, s = np.array(noisy).T
    alpha, _ = np.linalg.lstsq(np.stack([np.ones_like(n), n], axis=1), s, rcond=None)[0]
    assert abs(alpha / 2e-6 - 1) > 1


def test_neither_alpha_nor_beta_is_negative() -> None:
    flat = fit.line([[8, 2e-6], [1024, 1.9e-6], [2**20, 1.5e-6]])
    assert flat.beta_s_per_byte == 0
    assert 1.5e-6 < flat.alpha_s < 2e-6
    steep = fit.line([[1024, 1e-7], [2**20, 2e-4], [2**22, 9e-4]])
    assert steep.alpha_s == 0
    assert 1e-10 < steep.beta_s_per_byte < 2.2e-10


def test_one_size_is_no_line() -> None:
    with pytest.raises(fit.FitError, match="at least 2 sizes"):
        fit.line([[8, 1e-6], [8, 2e-6]])
    with pytest.raises(fit.FitError, match="took no time"):
        fit.line([[8, 0.0], [16, 1e-6]])


def test_the_probe_on_simulated_ranks_fits_the_machine_that_they_run_on(tmp_path: Path) -> None:
    (tmp_path / "one_link.py").write_text(
        "from ringside.jobs.calibrate.probe.measurements import link\n"
        "from ringside.jobs.calibrate.probe.on_mpi import OverMpi\n\n"
        "def measured(comm, pair, sizes):\n"
        "    return link(OverMpi(comm), 'inside', pair, sizes, 1)\n"
    )
    machine = Machine.load("zaratan").with_(ranks_per_node=2)
    sizes = (8, 1024, 2**14, 2**20)
    with Session(tmp_path, machine=machine) as session:
        for pair in ((0, 1), (0, 2)):
            result = session.call("one_link:measured", 3, [(pair, sizes)] * 3).raise_for_error()
            found = result.values[0]
            line, link = fit.line(found["points"]), machine.link(*pair)
            assert line.alpha_s == pytest.approx(link.alpha_s, rel=1e-9)
            assert line.beta_s_per_byte == pytest.approx(link.beta_s_per_byte, rel=1e-9)
            assert found["eager_threshold_bytes"] == machine.eager_threshold_bytes == 8192
            assert result.values[1] == found  # every rank knows


def probe_run(
    folder: Path, links: dict[str, list[list[float]]], hosts: Sequence[str], **other: Any
) -> Path:
    """A run.json of the probe, as a launch leaves it."""
    machine = Machine("made", 2e-6, 1e-9, ranks_per_node=max(map(list(hosts).count, hosts)))
    probe = {
        "transport": "mpi4py",
        "library": "MPICH 5",
        "device": "cpu",
        "memory_bytes": 2**33,
        "hosts": list(hosts),
        "cores": [1] * len(hosts),
        "links": [
            {"where": where, "ranks": [0, 1], "points": found, "eager_threshold_bytes": 4096 * k}
            for k, (where, found) in enumerate(links.items(), start=1)
        ],
        "all_reduce": [
            [n, replay(fit.all_reduce_trace(len(hosts), n), machine).makespan_s] for n in (8, 2**20)
        ],
        "products": [
            {"dtype": "float32", "n": 100, "s": 4e-5},
            {"dtype": "float32", "n": 1000, "s": 2e-2},
            {"dtype": "float64", "n": 1000, "s": 4e-2},
        ],
        "copies": [[2**21, 1e-5], [2**27, 2**27 / 8e9]],
        "kernel_s": 3e-7,
        "poll_s": 2e-7,
        **other,
    }
    record = {
        "started_utc": "2026-11-20T10:00:00+00:00",
        "world_size": len(hosts),
        "script": probe,
    }
    path = folder / f"run{len(list(folder.glob('*.json')))}.json"
    path.write_text(json.dumps(record))
    return path


def test_a_fitted_machine_is_a_file_that_load_reads_with_a_source_for_every_number(
    tmp_path: Path,
) -> None:
    links = {"inside": points(6e-7, 1e-11), "between": points(3e-6, 8e-11)}
    run = probe_run(tmp_path, links, ["a", "a", "b", "b"])
    fitted = fit.fit([run], "ours")
    path = fit.save(fitted.machine, tmp_path / "ours.toml")
    machine = Machine.load(path)
    assert machine == fitted.machine
    assert machine.intra_alpha_s == pytest.approx(6e-7)
    assert machine.link(0, 2).beta_s_per_byte == pytest.approx(8e-11)
    assert (machine.ranks_per_node, machine.eager_threshold_bytes) == (2, 8192)
    assert machine.flop_per_s == pytest.approx(2e9 / 2e-2)
    assert machine.memory_bytes_per_s == pytest.approx(8e9)
    assert (machine.kernel_overhead_s, machine.poll_s) == (3e-7, 2e-7)
    set_fields = {f for f in vars(machine) if getattr(machine, f) not in (None, {})}
    assert set(machine.sources) == set_fields - {"name", "sources"}
    for name in ("alpha_s", "intra_beta_s_per_byte", "flop_per_s", "kernel_overhead_s"):
        assert machine.sources[name].startswith("measured: ")
        assert "a, b, 2026-11-20" in machine.sources[name]
    assert "relative residual 0.0% (rms)" in machine.sources["alpha_s"]
    assert machine.gpus_per_nic == machine.ranks_per_node
    assert machine.sources["gpus_per_nic"].startswith("assumed: one port to the network")
    picture = fit.draw(fitted, tmp_path / "ours.svg").read_text()
    assert "half a round trip" in picture and "inside: 0.6 µs" in picture


def test_the_all_reduce_is_timed_by_the_algorithm_that_is_nearest(tmp_path: Path) -> None:
    links = {"between": points(2e-6, 1e-9)}
    hosts = list("abcdefgh")
    machine = Machine("made", 2e-6, 1e-9, collectives={"allreduce": "recursive_doubling"})
    took = [
        [n, replay(fit.all_reduce_trace(8, n), machine).makespan_s] for n in (8, 512, 2**14, 2**20)
    ]
    run = probe_run(tmp_path, links, hosts, all_reduce=took)
    fitted = fit.fit([run], "ours").machine
    assert fitted.algorithm("allreduce") == "recursive_doubling"
    assert "recursive_doubling 0%" in fitted.sources["collectives"]


def test_one_node_stands_for_every_link_and_says_so(tmp_path: Path) -> None:
    machine = fit.fit([probe_run(tmp_path, {"inside": points(2e-6, 1e-10)}, "aa")], "m").machine
    assert (machine.intra_alpha_s, machine.intra_beta_s_per_byte) == (None, None)
    assert machine.alpha_s == pytest.approx(2e-6)
    assert machine.sources["alpha_s"].endswith("no second node was seen")


def test_one_rank_takes_its_links_from_the_base(tmp_path: Path) -> None:
    run = probe_run(tmp_path, {}, "a", device="a GPU")
    fitted = fit.fit([run], "gpu", "zaratan")
    zaratan = Machine.load("zaratan")
    assert fitted.machine.link(0, 1) == zaratan.with_(ranks_per_node=1).link(0, 1)
    assert fitted.machine.sources["alpha_s"] == "taken over from machine zaratan: not measured"
    assert fitted.machine.sources["flop_per_s"].startswith("measured: ")
    assert fitted.machine.sources["memory_bytes"].startswith("read: of the device")
    with pytest.raises(fit.FitError, match="at least 2 ranks"):
        fit.draw(fitted, tmp_path / "gpu.svg")


def test_two_runs_make_one_machine(tmp_path: Path) -> None:
    inside = probe_run(tmp_path, {"inside": points(6e-7, 1e-11)}, "aa")
    between = probe_run(tmp_path, {"between": points(3e-6, 8e-11)}, "ab")
    machine = fit.fit([inside, between], "both").machine
    assert machine.intra_alpha_s == pytest.approx(6e-7)
    assert machine.alpha_s == pytest.approx(3e-6)


def test_another_run_is_refused_with_the_cure(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"format": "ringside-run", "script": None}))
    assert cli.main(["fit", str(path), "--out", str(tmp_path / "m.toml")]) == 2
    said = capsys.readouterr().err
    assert "is no run of the probe" in said and "ringside fit --site" in said
    assert not (tmp_path / "m.toml").exists()
    assert cli.main(["fit", str(path), "--out", "machine"]) == 2
    assert "must end in .toml" in capsys.readouterr().err


def test_pairs_are_the_first_inside_and_the_first_between() -> None:
    assert measurements.pairs(["a", "b", "c", "c"]) == {"inside": (2, 3), "between": (0, 1)}
    assert measurements.pairs(["a", "a"]) == {"inside": (0, 1)}


def run_of(folder: Path, **other: Any) -> Path:
    """A recorded run: 1 ms of computing, then 1 MiB from rank 0 to rank 1."""
    sites = [
        CallSite("Send(dest=1, tag=0)", "x.py", 1),
        CallSite("Recv(source=0, tag=0)", "x.py", 2),
    ]
    compute = Op(Kind.COMPUTE, detail=(2e9, 0, 10**9, "between calls"))
    send = [
        compute,
        Op(Kind.ISEND, 1, 0, 2**20, "world", 0, 0, (0,), 0),
        Op(Kind.WAIT, detail=(0,), site=0),
    ]
    receive = [
        Op(Kind.IRECV, 0, 0, 2**20, "world", 0, 0, (0, 0), 1),
        Op(Kind.WAIT, detail=(0,), site=1),
    ]
    trace = Trace(2, [send, receive], sites).save(folder / "run.trace.gz")
    record = {
        "target": "x.py:f",
        "trace": trace.name,
        "trace_sha256": hashlib.sha256(trace.read_bytes()).hexdigest(),
        "makespan_s": 4e-3,
        "calls_s": {"Recv": 2e-3, "Send": 1e-3, "compute": 5e-4},
        **other,
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder / "run.json"


def test_a_run_is_predicted_beside_what_it_took(tmp_path: Path) -> None:
    found = predict.predict(run_of(tmp_path), "textbook")
    message_s = 1e-6 + 2**20 * 1e-9
    assert found.predicted_s == pytest.approx(1e-3 + message_s)
    assert found.error == pytest.approx((1e-3 + message_s) / 4e-3 - 1)
    assert found.rows()[0] == ("compute", pytest.approx(5e-4), 5e-4)
    predicted = {name: value for name, value, _ in found.rows()}
    assert predicted["Send"] == pytest.approx(message_s / 2)  # the mean of two ranks
    assert predicted["Recv"] == pytest.approx((1e-3 + message_s) / 2)
    assert "x.py:f on 2 ranks, machine textbook" in found.text()
    assert predict.predict(tmp_path / "run.trace.gz", "textbook") == found


def test_computing_can_be_scaled_to_the_machine(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    machine = Machine.load("textbook").with_(flop_per_s=4e12)
    found = predict.predict(run, machine, scale_compute=True)
    assert found.predicted_calls_s["compute"] == pytest.approx(2e9 / 4e12 / 2)


def test_a_trace_without_its_record_is_predicted_alone(tmp_path: Path) -> None:
    run_of(tmp_path).unlink()
    found = predict.predict(tmp_path / "run.trace.gz", "textbook")
    assert (found.measured_s, found.error, found.target) == (None, None, "run.trace.gz")
    assert "-" in found.text()


def test_a_trace_that_was_changed_is_refused(tmp_path: Path, capsys: Any) -> None:
    run = run_of(tmp_path, trace_sha256="0" * 64)
    assert cli.main(["predict", str(run), "--machine", "textbook"]) == 2
    assert "is not the trace of run.json" in capsys.readouterr().err
    (tmp_path / "run.trace.gz").unlink()
    assert cli.main(["predict", str(run), "--machine", "textbook"]) == 2
    assert "not beside it" in capsys.readouterr().err


def test_the_table_of_predictions_has_every_run_that_an_assignment_asks_for() -> None:
    table = (ROOT / "lectures" / "predicted.md").read_text()
    asked = []
    for notebook in sorted((ROOT / "solutions").glob("*/notebook.py")):
        launched = re.findall(r"ringside launch (\w+)\.py:(\w+)", notebook.read_text())
        asked += [f"| {notebook.parent.name} {module}:{f} (" for module, f in launched]
    assert len(asked) >= 8
    assert not [row for row in asked if row not in table], "run benchmarks/predicted_against_..."
    for row in re.findall(r"^\| a\d\d_.*$", table, re.MULTILINE):
        *_, measured, predicted, error = row.strip("|").split("|")
        assert measured.strip() and predicted.strip()
        assert re.fullmatch(r"[+-]\d+%|none", error.strip())


@pytest.mark.mpi
def test_real_ranks_are_measured_launched_and_predicted(tmp_path: Path) -> None:
    """The commands one after another, on 2 real ranks."""
    (tmp_path / "swap.py").write_text(
        "def all_reduce(comm, x):\n    return x + comm.sendrecv(x, 1 - comm.rank)\n"
    )

    def ringside(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "ringside", *words, "--json"],
            cwd=tmp_path,
            env=here_environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert mpiexec()
    fitted = ringside("fit", "--out", "m.toml")
    machine = Machine.load(tmp_path / "m.toml")
    assert fitted["machine"]["alpha_s"] == machine.alpha_s > 0
    assert [n for n, _ in fitted["links"]["inside"]["points"]] == list(SIZES)
    assert 0 < machine.eager_threshold_bytes <= max(SIZES)
    assert math.isfinite(machine.flop_per_s) and machine.poll_s > 0
    assert (tmp_path / "m.svg").read_text().startswith("<?xml")
    assert not list(tmp_path.glob(".ringside*"))  # nothing of the probe stays behind
    ringside("launch", "swap.py:all_reduce")
    found = ringside("predict", "run.json", "--machine", "m.toml")
    rows = {row["name"]: row for row in found["rows"]}
    assert set(rows) == {"compute", "sendrecv", "makespan"}
    assert all(row["predicted_s"] > 0 and row["measured_s"] > 0 for row in rows.values())


@pytest.mark.place
def test_the_probe_is_launched_from_wherever_the_kit_lies(tmp_path: Path) -> None:
    site = Site.load("zaratan")
    settings = site.settings(["account=me", f"exports=PYTHONPATH={kit.ROOT}"])
    target = Target.parse(str(probe.script("mpi4py")))
    out = Path("/var/tmp") / tmp_path.name / "out"
    launch.Launch(target, site, settings, 2, out=out).check_here()
    with pytest.raises(launch.LaunchError, match="every node has a /tmp of its own"):
        here = Path("/tmp") / tmp_path.name / "out"
        launch.Launch(target, site, settings, 2, out=here).check_here()


def test_rates_of_the_machine_that_is_fitted_from_are_kept_in_the_file(tmp_path):
    base = Machine.load("dgx_h100")
    kept = Machine.load(fit.save(base, tmp_path / "again.toml"))
    assert kept == base.with_(sources=kept.sources)
