"""What `ringside launch` says of a job's end, from Slurm's words and the job's log."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ringside.jobs.launch import endings, outcome, refusals
from ringside.jobs.launch.endings import Ended, Look
from ringside.jobs.launch.outcome import Awaited
from ringside.jobs.real import watch
from ringside.jobs.real.watch import UNFINISHED

LOOK = Look("FAILED", "NonZeroExitCode", "1:0", 0, "node[1-2]", 2, "00:10:00", "standard")
# Lines as Slurm 22.05, Hydra (MPICH's mpiexec) and torchrun wrote them; the second kind of a
# log are ranks that were ended because of the first.
KILLED_OTHERS = "srun: error: node1: task 0: Killed\nsrun: error: node2: tasks 2-3: Terminated\n"


@pytest.mark.parametrize(
    ("log", "end", "words"),
    [
        ("srun: error: node1: task 3: Out Of Memory\n", "out of memory",
         "it used more memory than what it asked for"),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.0\n", "out of memory", ""),
        ("slurmstepd: error: StepId=5.0 exceeded memory limit (900 > 100), being killed\n",
         "out of memory", "it used more memory than what it"),
        ("srun: error: node1: task 1: Killed\n", "out of memory", "most likely"),
        ("=   KILLED BY SIGNAL: 9 (Killed)\n", "out of memory", "most likely"),
        ("srun: error: node2: task 2: Segmentation fault\n" + KILLED_OTHERS, "failed",
         "rank 2 crashed (Segmentation fault)"),
        ("srun: error: node2: tasks 2-3: Exited with exit code 3\n" + KILLED_OTHERS, "failed",
         "ranks 2-3 ended with exit status 3"),
        ("  exitcode  : -11 (pid: 12)\n  traceback : Signal 11 (SIGSEGV) received by PID 12\n",
         "failed", "a rank crashed (SIGSEGV)"),
        ("E1122 api.py:869] failed (exitcode: 7) local_rank: 0 (pid: 12) of binary: python\n"
         "forcefully exiting 13 via SIGKILL\n", "failed", "a rank ended with exit status 7"),
        ("mpirun noticed that process rank 1 on node node1 exited on signal 9 (Killed).\n",
         "out of memory", "most likely"),
        ("mpirun noticed that process rank 1 exited on signal 11 (Segmentation fault).\n",
         "failed", "crashed (Segmentation fault)"),
        ("ModuleNotFoundError: No module named 'ringside'\n" + KILLED_OTHERS, "failed",
         "the environment on the nodes has no ringside: install it there"),
        ("/var/spool/job00007/slurm_script: line 25: module: command not found\n", "failed",
         "don't know `module`: --set profile=FILE"),
        ("/var/spool/job00007/slurm_script: line 34: mpirun: command not found\n", "failed",
         "don't find mpirun: load the module"),
        ("slurmstepd-node1: error: execve(): python: No such file or directory\n", "failed",
         "don't find python: load the module that has it"),
        ("ERROR: Unable to locate a modulefile for 'openmpi/gcc'\n", "failed",
         "there is no module openmpi/gcc: `module spider`"),
        ('Lmod has detected the following error: The following module(s) are unknown: "gcc/1"\n',
         "failed", "there is no module gcc/1:"),
        ("srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types\n", "failed",
         "knows no --mpi=pmix: `srun --mpi=list`"),
        ("something else\n", "failed", "ended with exit status 1 (FAILED) and no rank said why"),
    ],
)  # fmt: skip
def test_the_first_cause_in_the_log_is_the_one_that_is_told(log: str, end: str, words: str) -> None:
    ended = endings.ended("7", LOOK, "job 7: 2 nodes\n" + log)
    assert ended.end == end
    assert words in ended.meaning


@pytest.mark.parametrize(
    ("look", "end", "words"),
    [
        (replace(LOOK, state="COMPLETED", exit_code="0:0"), "done", ""),
        (replace(LOOK, state="TIMEOUT"), "timeout", "wall time of 00:10:00"),
        (
            replace(LOOK, state="OUT_OF_MEMORY"),
            "out of memory",
            "it used more memory than what it",
        ),
        (replace(LOOK, exit_code="0:9"), "out of memory", "killed by signal 9"),
        (replace(LOOK, exit_code="137:0"), "out of memory", "killed by signal 9"),
        (replace(LOOK, state="NODE_FAIL"), "node failure", "(node[1-2]) failed"),
        (replace(LOOK, reason="JobLaunchFailure"), "node failure", "could not start it"),
        (replace(LOOK, state="PREEMPTED"), "preempted", "no fault of yours"),
        (replace(LOOK, state="CANCELLED"), "cancelled", "scancel"),
        (replace(LOOK, exit_code="0:11"), "failed", "ended with signal 11"),
        (replace(LOOK, state="WHATEVER"), "failed", "(WHATEVER)"),
    ],
)
def test_each_state_of_slurms_has_its_meaning(look: Look, end: str, words: str) -> None:
    ended = endings.ended("7", look, "")
    assert ended.end == end
    assert words in ended.meaning
    assert bool(ended.meaning) == (end != "done")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "other jobs go first"),
        ("AssociationJobLimit", "`sshare -U` shows the units"),
        ("AssocGrpBillingMinutes", "no units left"),
        ("AssocMaxJobsLimit", "too many jobs"),
        ("InvalidAccount", "doesn't exist"),
        ("QOSMaxCpuPerUserLimit", "waits until others end"),
        ("ReqNodeNotAvail,_UnavailableNodes:node7", "maintenance"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", "nodes are down"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_a_waiting_job_says_why_in_words(reason: str, words: str) -> None:
    assert words in refusals.waits(reason)


def test_only_what_can_never_start_is_given_up() -> None:
    waiting = replace(LOOK, state="PENDING", num_nodes=4, num_cores=24)
    assert refusals.never_starts(replace(waiting, reason="Priority"), []) is None
    limited = replace(waiting, reason="PartitionNodeLimit")
    assert refusals.never_starts(limited, [8, 4, 4, 8, 4]) is None
    too_many = refusals.never_starts(limited, [8, 8, 8])
    assert too_many is not None
    assert "--nodes 3 at most" in too_many[1]
    too_large = refusals.never_starts(replace(limited, num_cores=25), [8, 4, 4, 8, 4])
    assert too_large is not None
    assert "it asks for 25 cores on 4 nodes, and 24 is all" in too_large[1]
    unknown = refusals.never_starts(replace(waiting, reason="InvalidAccount"), [])
    assert unknown is not None
    assert unknown[0] == "wrong account"
    assert "--account NAME" in unknown[1]


def _left(out: Path, *, began: bool = False, failure: str | None = None) -> Awaited:
    folder = outcome.scratch(out)
    folder.mkdir(parents=True)
    if began:
        (folder / "started-0").touch()
    if failure:
        content = {"kind": "exception", "rank": 1, "message": failure}
        (folder / "failure-1.json").write_text(json.dumps(content))
    return Awaited(out, None, (), "7")


@pytest.mark.parametrize("end", ["failed", "out of memory", "timeout"])
def test_an_end_is_the_students_only_if_a_rank_had_begun(tmp_path: Path, end: str) -> None:
    ended = Ended("7", "FAILED", "1:0", end, "so it was.")
    before = _left(tmp_path / "before").of_job(ended)
    begun = _left(tmp_path / "begun", began=True).of_job(ended)
    assert (before.status, before.exit_status, before.message) == ("not run", 2, "so it was.")
    assert (begun.status, begun.exit_status, begun.message) == (end, 1, "so it was.")


def test_a_ranks_own_word_comes_before_slurms_but_not_when_a_node_is_gone(tmp_path: Path) -> None:
    said = _left(tmp_path / "a", began=True, failure="rank 1 raised ValueError at ring.py:3")
    ended = said.of_job(Ended("7", "FAILED", "1:0", "failed", "exit status 1"))
    assert (ended.status, ended.exit_status) == ("failed", 1)
    assert "ring.py:3" in ended.message
    lost = _left(tmp_path / "b", began=True, failure="rank 1 raised: Connection reset by peer")
    ended = lost.of_job(Ended("7", "NODE_FAIL", "0:0", "node failure", "a node failed."))
    assert (ended.status, ended.exit_status, ended.message) == ("node failure", 2, "a node failed.")


def test_the_cause_comes_before_the_echo_of_a_rank_that_lost_its_peer(tmp_path: Path) -> None:
    awaited = _left(tmp_path, began=True, failure="rank 1 raised ValueError at ring.py:3")
    watch.report_failure(
        outcome.scratch(tmp_path), "exception", 0, "rank 0 raised MPI.Exception", echo=True
    )
    ended = awaited.of_job(Ended("7", "FAILED", "1:0", "failed", "exit status 1"))
    assert "ValueError at ring.py:3" in ended.message


def test_a_record_written_after_a_second_start_outdoes_failures_of_the_first(
    tmp_path: Path,
) -> None:
    awaited = _left(tmp_path, began=True, failure="rank 1 raised ValueError")
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"measurements": []}))
    failed_ns = (outcome.scratch(tmp_path) / "failure-1.json").stat().st_mtime_ns
    done = Ended("7", "COMPLETED", "0:0", "done", "")
    os.utime(path, ns=(failed_ns + 1, failed_ns + 1))
    assert awaited.of_job(done).status == "complete"
    os.utime(path, ns=(failed_ns - 1, failed_ns - 1))
    assert awaited.of_job(done).status == "failed"


def test_a_run_that_stopped_before_its_work_was_done_is_not_complete(tmp_path: Path) -> None:
    awaited = _left(tmp_path, began=True)
    (tmp_path / "run.json").write_text(json.dumps({"measurements": []}))
    done = Ended("7", "COMPLETED", "0:0", "done", "")
    assert awaited.of_job(done).exit_status == 0
    (outcome.scratch(tmp_path) / UNFINISHED).touch()
    stopped = awaited.of_job(done)
    assert (stopped.status, stopped.exit_status) == ("timeout", 1)
    assert "launch it again, and it goes on" in stopped.message


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("*** JOB 7 ON node3 CANCELLED AT 2026-11-22T02:34:21 DUE TO PREEMPTION ***\n"
         "*** JOB 7 ON node3 CANCELLED AT 2026-11-22T02:34:21 DUE TO JOB REQUEUE ***\n",
         "goes back to the queue: a job with precedence took its nodes. Slurm starts it again"),
        ("*** STEP 7.0 ON node1 CANCELLED AT 2026-11-22T02:34:21 DUE TO NODE FAILURE, SEE "
         "SLURMCTLD LOG FOR DETAILS ***\n", "queue: a node failed, which is the cluster's fault."),
        ("*** JOB 7 ON node3 CANCELLED AT 2026-11-22T02:34:21 DUE TO JOB REQUEUE ***\n",
         "goes back to the queue. Slurm starts it again by itself (start 2)."),
    ],
)  # fmt: skip
def test_a_job_that_starts_again_says_why_where_slurm_says_it(log: str, words: str) -> None:
    assert words in endings.restarted(replace(LOOK, restarts=1), log)
