"""`ringside doctor --cluster`: what is wrong with a job is found and has a cure."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside.jobs.doctor import cluster as doctor_cluster
from ringside.jobs.doctor.findings import Examination, judge, ranges, without_cores
from ringside.jobs.doctor.this_machine import Finding
from ringside.jobs.launch.launch import here_environment, mpiexec
from ringside.jobs.real import facts as cluster_facts
from ringside.timing.machine import Machine

ROOT = Path(__file__).resolve().parents[3]
GPU = {"name": "A100", "uuid": "u0"}


def facts(rank: int, host: str = "n1", **changes: Any) -> dict[str, Any]:
    """A rank that has all it should have."""
    return {
        "rank": rank,
        "host": host,
        "local_rank": None,
        "cores": [rank],
        "physical": [rank],
        "threads": 1,
        "cpus_per_task": 1,
        "gpus": [],
        "gpu_devices": 0,
        "cuda_visible": None,
        "torch": None,
        "nccl": None,
        "python": "3.11.7",
        "kit": "0.1.0",
        **changes,
    }


def examination(*ranks: dict[str, Any], **changes: Any) -> Examination:
    """A job with those ranks; ``job`` changes what was asked for."""
    job = {
        "job_id": "7",
        "cluster": "mini",
        "launcher": "srun",
        "ranks_asked": len(ranks),
        "nodes_asked": None,
        "gpus_asked": None,
        **changes.pop("job", {}),
    }
    right = {"right": True, "nbytes": 2**20, "seconds": 1e-3}
    made = Examination(job, ranks, len(ranks), "mpi4py", "MPICH", right)
    return dataclasses.replace(made, **changes)


def found(name: str, *ranks: dict[str, Any], machine: Machine | None = None, **changes: Any) -> Any:
    """The finding of that name; every other one must be fine."""
    findings = judge(examination(*ranks, **changes), machine)
    others = [one for one in findings if one.name != name and not one.works]
    assert not others, others
    [finding] = [one for one in findings if one.name == name]
    assert finding.works or finding.mend
    return finding


def test_a_job_as_it_should_be_has_only_good_findings() -> None:
    findings = judge(examination(facts(0), facts(1), facts(2, "n2"), facts(3, "n2")), None)
    assert all(finding.works for finding in findings)
    said = {finding.name: finding.detail for finding in findings}
    assert said["Slurm"] == "job 7 on mini, started by srun"
    assert said["ranks"] == "4 ranks, mpi4py (MPICH), as asked for"
    assert said["nodes"] == "2 (n1: 2, n2: 2)"
    assert said["binding"] == "n1: 0 | 1; n2: 2 | 3"
    assert said["GPUs"] == "none asked for, none here"


def test_without_slurm_it_says_so() -> None:
    job = {"job_id": None, "cluster": None, "launcher": "mpiexec of MPICH"}
    assert found("Slurm", facts(0), job=job).detail == (
        "no job: the ranks were started by mpiexec of MPICH"
    )


def test_ranks_that_did_not_find_each_other_name_the_launcher() -> None:
    findings = judge(examination(facts(0), job={"ranks_asked": 4}), None)
    assert [finding.name for finding in findings] == ["Slurm", "ranks"]
    assert findings[1].detail.startswith("asked for 4 ranks, got 1 ranks")
    assert "srun --mpi=pmi2" in findings[1].mend


def test_fewer_ranks_than_asked_for_is_another_cure() -> None:
    findings = judge(examination(facts(0), facts(1), job={"ranks_asked": 4}), None)
    assert "-n 4" in findings[1].mend


def test_all_ranks_on_one_of_two_nodes() -> None:
    finding = found("nodes", facts(0), facts(1), job={"nodes_asked": 2})
    assert finding.detail == "2 nodes given, 1 used (n1: 2)"
    assert "-launcher fork" in finding.mend
    assert found("nodes", facts(0), job={"nodes_asked": 2}).works  # one rank, two nodes
    assert not found("nodes", facts(0), facts(1), facts(2, "n2")).works


@pytest.mark.parametrize(
    ("cores", "wanting"),
    [
        ([{0}, {1}], []),
        ([{0}, {0}], [1]),
        ([{0, 1}, {0, 1}], []),
        ([{0, 1}, {0}], []),  # rank 0 must move for rank 1
        ([{0, 1}, {0, 1}, {1}], [2]),
        ([set(range(4))] * 4, []),
    ],
)
def test_every_rank_needs_a_core_that_nobody_else_needs(
    cores: list[set[int]], wanting: list[int]
) -> None:
    assert without_cores(cores, [1] * len(cores)) == wanting
    ranks = [facts(r, cores=sorted(own), physical=sorted(own)) for r, own in enumerate(cores)]
    assert found("binding", *ranks).works is not wanting or not wanting
    assert bool(wanting) is not found("binding", *ranks).works


def test_two_ranks_on_one_core_are_named() -> None:
    finding = found("binding", facts(0, cores=[3]), facts(1, cores=[3]))
    assert finding.detail == (
        "2 ranks on 1 cores of n1 (rank 0: 3; rank 1: 3): rank 1 has no core of its own"
    )
    assert "--cpu-bind=cores" in finding.mend


def test_the_same_core_on_another_host_is_another_core() -> None:
    assert found("binding", facts(0), facts(1, "n2", cores=[0], physical=[0])).works


def test_threads_of_one_core_are_a_remark() -> None:
    finding = found("binding", facts(0), facts(1, physical=[0]))
    assert finding.works and "--hint=nomultithread" in finding.detail


def test_more_threads_than_cores() -> None:
    both = {"cores": [0, 1], "physical": [0, 1]}
    finding = found("threads", facts(0, threads=2, **both), facts(1, threads=2, **both))
    assert finding.detail == "OMP_NUM_THREADS=2: 2 ranks of n1 start 4 threads on 2 cores"
    finding = found("threads", facts(0, threads=None, **both), facts(1, threads=None, **both))
    assert finding.detail.startswith("OMP_NUM_THREADS is not set: 2 ranks")
    assert "SLURM_CPUS_PER_TASK" in finding.mend
    assert found("threads", facts(0, threads=2, **both)).works


def gpu_facts(rank: int, *uuids: str, **changes: Any) -> dict[str, Any]:
    gpus = [{"name": "A100", "uuid": uuid} for uuid in uuids]
    shown = {"gpus": gpus, "gpu_devices": len(uuids), "torch": "2.13.0", "nccl": "2.29.7"}
    return facts(rank, **{**shown, **changes})


def test_a_gpu_for_each_rank() -> None:
    ranks = [gpu_facts(r, "u0", "u1", local_rank=r) for r in range(2)]
    findings = judge(examination(*ranks, transport="nccl", job={"gpus_asked": "2"}), None)
    said = {finding.name: (finding.works, finding.detail) for finding in findings}
    assert said["GPUs"] == (True, "one A100 for each rank")
    assert said["NCCL"] == (True, "2.29.7")


def test_two_ranks_on_one_gpu() -> None:
    ranks = [gpu_facts(0, "u0"), gpu_facts(1, "u0")]
    finding = found("GPUs", *ranks, transport="nccl")
    assert finding.detail == "ranks 0 and 1 of n1 use the same A100"
    assert "set_device(LOCAL_RANK)" in finding.mend
    elsewhere = [gpu_facts(0, "u0"), gpu_facts(1, "u0", host="n2")]
    assert found("GPUs", *elsewhere, transport="nccl").works


def test_gpus_that_no_rank_sees() -> None:
    job = {"gpus_asked": "1"}
    empty = found("GPUs", facts(0, cuda_visible="", gpu_devices=4), job=job)
    assert "empty CUDA_VISIBLE_DEVICES" in empty.detail and "--gres=gpu:TYPE:N" in empty.mend
    plain = found("GPUs", facts(0, cuda_visible="0", torch="2.13.0+cpu"), job=job)
    assert "torch 2.13.0+cpu sees none" in plain.detail and "with CUDA" in plain.mend
    assert found("GPUs", facts(0, cuda_visible="0"), job=job).detail == "rank 0 of n1 has no torch"


def test_nccl_that_differs_or_was_not_tried() -> None:
    ranks = [gpu_facts(0, "u0"), gpu_facts(1, "u1", nccl="2.18.1")]
    assert "2.18.1, 2.29.7" in found("NCCL", *ranks, transport="nccl").detail
    assert "torchrun" in found("NCCL", gpu_facts(0, "u0")).mend


def test_different_software() -> None:
    finding = found("software", facts(0), facts(1, python="3.12.1"))
    assert finding.detail == "different Python: 3.11.7 on rank 0, 3.12.1 on rank 1"


def test_a_folder_that_a_node_does_not_see() -> None:
    ranks = [facts(0), facts(1, "n2")]
    finding = found("folder", *ranks, folder="/tmp/x", folder_seen=[True, False])
    assert finding.detail == "/tmp/x: rank 1 on n2 doesn't see it"


def test_an_all_reduce_that_is_wrong_or_fails() -> None:
    wrong = {"right": False, "nbytes": 8, "seconds": 1e-3}
    assert "wrong sum" in found("all-reduce", facts(0), all_reduce=wrong).detail
    failed = found("all-reduce", facts(0), all_reduce={"error": "nccl: unhandled system error"})
    assert failed.detail == "nccl: unhandled system error" and "NCCL_DEBUG" in failed.mend


def linked(where: str, short_s: float, long_s: float, machine: Machine | None) -> Finding:
    link = {"where": where, "ranks": [0, 1], "points": [[8, short_s], [10**7, long_s]]}
    name = "inside a node" if where == "inside" else "between nodes"
    result: Finding = found(name, facts(0), links=[link], machine=machine)
    return result


def test_links_are_compared_with_the_machine() -> None:
    zaratan = Machine.load("zaratan")  # between nodes 2.7 us and 12.5 GB/s, inside 0.6 us, 100 GB/s
    good = linked("between", 4e-6, 1e-3, zaratan)
    assert good.works
    assert good.detail == "8 B in 4 µs (machine zaratan: 2.7 µs), 9.54 MiB at 10 GB/s (12.5)"
    slow = linked("between", 4e-6, 1e-2, zaratan)
    assert not slow.works and "bandwidth worse" in slow.detail
    assert "NCCL_SOCKET_IFNAME" in slow.mend
    late = linked("inside", 4e-6, 1e-4, zaratan)
    assert not late.works and "latency worse" in late.detail and "--exclusive" in late.mend
    assert linked("between", 4e-6, 1e-2, None).works
    both = linked("between", 1e-3, 1.0, zaratan)
    assert "latency and bandwidth worse" in both.detail


def test_ranges_are_short() -> None:
    assert ranges([3, 1, 2, 7, 9, 10]) == "1-3,7,9-10"


def test_launchers_are_known_by_what_they_leave_in_the_environment() -> None:
    srun = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_NTASKS": "4"}
    assert cluster_facts.launched_rank(srun) == 2
    assert cluster_facts.job(srun)["ranks_asked"] == 4
    batch = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    assert cluster_facts.launched_rank(batch) is None
    # hydra's proxies are tasks of srun, one a node; its ranks are more.
    hydra = {**srun, "SLURM_NTASKS": "2", "PMI_RANK": "3", "PMI_SIZE": "4", "HYDI_CONTROL_FD": "5"}
    assert cluster_facts.job(hydra)["ranks_asked"] == 4
    assert cluster_facts.launched_rank(hydra) == 3
    assert cluster_facts.job(hydra)["launcher"] == "mpiexec of MPICH"
    torch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
    assert (cluster_facts.kind(torch), cluster_facts.launched_rank(torch)) == ("torch", 1)
    assert cluster_facts.kind(srun) == "mpi4py"
    assert cluster_facts.job(torch, asked=3)["ranks_asked"] == 3


def test_the_wheel_under_srun_takes_libfabric(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(**environment: str) -> str | None:
        cluster_facts.before_mpi_is_loaded(environment)
        return environment.get("MPIR_CVAR_CH4_NETMOD")

    monkeypatch.setattr("mpi4py.get_config", dict)
    monkeypatch.setattr("importlib.metadata.version", {"mpich": "5.0.2"}.__getitem__)
    srun = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}
    assert taken(**srun) == "ofi"
    assert taken(**srun, MPIR_CVAR_CH4_NETMOD="ucx") == "ucx"
    assert taken(**srun, HYDI_CONTROL_FD="5") is None  # MPICH's own launcher reads any length
    assert taken(**srun, MPI4PY_LIBMPI="libmpi.so.40") is None
    assert taken(SLURM_STEP_ID="batch") is None
    monkeypatch.setattr("mpi4py.get_config", lambda: {"mpicc": "/opt/mpi/bin/mpicc"})
    assert taken(**srun) is None
    monkeypatch.setattr("mpi4py.get_config", dict)

    def no_such_package(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", no_such_package)
    assert taken(**srun) is None


def run_doctor(*command: str, folder: Path, **environment: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and the findings by name."""
    done = subprocess.run(
        [*command, "--cluster", "--json"],
        cwd=folder,
        env={**here_environment(), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    try:
        findings = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(done.stdout + done.stderr) from None
    return done.returncode, {finding["name"]: finding for finding in findings}


DOCTOR = [sys.executable, "-m", "ringside", "doctor"]


@pytest.mark.mpi
def test_alone_it_starts_real_ranks_and_finds_two_of_them_on_one_core(tmp_path: Path) -> None:
    core = str(min(os.sched_getaffinity(0)))
    status, said = run_doctor("taskset", "-c", core, *DOCTOR, folder=tmp_path)
    assert status == 2
    assert said["binding"]["works"] is False
    assert f"rank 0: {core}; rank 1: {core}" in said["binding"]["detail"]
    assert said["ranks"]["works"] and said["all-reduce"]["works"] and said["folder"]["works"]
    assert said["inside a node"]["detail"].startswith("8 B in ")
    assert said["Slurm"]["detail"].startswith("no job")
    assert not list(tmp_path.iterdir())


@pytest.mark.mpi
def test_real_ranks_of_another_number_than_asked_for(tmp_path: Path) -> None:
    status, said = run_doctor(mpiexec(), "-n", "2", *DOCTOR, "--ranks", "4", folder=tmp_path)
    assert status == 2
    assert said["ranks"]["detail"].startswith("asked for 4 ranks, got 2 ranks, mpi4py")


@pytest.mark.mpi
def test_ranks_of_torch_are_examined_over_gloo(tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*torchrun, "--nproc-per-node", "2", "-m", "ringside", "doctor"]
    status, said = run_doctor(*command, folder=tmp_path)
    assert said["ranks"]["detail"].startswith("2 ranks, gloo (torch ")
    assert said["all-reduce"]["works"] and "over gloo" in said["all-reduce"]["detail"]
    assert said["Slurm"]["detail"].endswith("started by torchrun")
    assert status == (0 if all(one["works"] for one in said.values() if one["needed"]) else 2)


def test_a_site_names_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CLUSTER_NAME", raising=False)
    assert doctor_cluster.machine_of(None) is None
    local, zaratan = doctor_cluster.machine_of("local"), Machine.load("zaratan")
    assert local is not None and local.name == "laptop"
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "zaratan")
    assert doctor_cluster.machine_of(None) == zaratan
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "nobody-knows-it")
    assert doctor_cluster.machine_of(None) is None
