"""A program of one's own runs on ranks as it runs under ``mpiexec python`` and ``torchrun``."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ringside.errors import RankError, RunError
from ringside.session.session import Result, run


def program(folder: Path, text: str, name: str = "program.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(path)


def failure(target: str, world_size: int) -> RunError:
    result = run(target, world_size, check=False)
    assert result.error is not None
    return result.error


def lines(result: Result) -> list[list[str]]:
    return [printed.splitlines() for printed in result.output]


def command(
    *words: str, folder: Path, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """``ringside``, typed in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "ringside", *words],
        cwd=folder,
        env={**os.environ, **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_ranks_live_in_the_callers_folder_environment_and_paths(tmp_path: Path) -> None:
    program(tmp_path / "lib", "answer = 42\n", "helper_of_mine.py")
    program(
        tmp_path / "code",
        """
        import helper_of_mine, os, subprocess, tempfile
        print(os.environ["LR"], helper_of_mine.answer, open("data.txt").read())
        print(subprocess.run(["echo", "from a shell"], capture_output=True, text=True).stdout)
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
        open(f"out-{os.environ['LR']}.txt", "w").write(os.getcwd())
        """,
    )
    (tmp_path / "data.txt").write_text("lies here")
    done = command(
        "run", "code/program.py", "--ranks", "2", folder=tmp_path, LR="0.1", PYTHONPATH="lib"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1] 0.1 42 lies here" in done.stdout
    assert "[1] from a shell" in done.stdout
    assert (tmp_path / "out-0.1.txt").read_text() == str(tmp_path.resolve())


def test_rank_0_reads_the_standard_input(tmp_path: Path) -> None:
    program(tmp_path, "import sys\nprint(sys.stdin.read().split())\n")
    done = command("run", "program.py", "--ranks", "2", folder=tmp_path, stdin="100\n0\n")
    assert done.stdout.splitlines()[:2] == ["[0] ['100', '0']", "[1] []"], done.stderr


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "raise SystemExit", "exit()"])
def test_leaving_with_status_0_is_an_ordinary_end(tmp_path: Path, end: str) -> None:
    text = f"import sys\nprint('before')\n{end}\nprint('never')\n"
    assert lines(run(program(tmp_path, text), 2)) == [["before"]] * 2


def test_another_status_is_that_ranks_failure(tmp_path: Path) -> None:
    text = "import sys\nfrom mpi4py import MPI\nsys.exit(3 * MPI.COMM_WORLD.rank)\n"
    error = failure(program(tmp_path, text), 2)
    assert isinstance(error, RankError) and error.rank == 1
    assert "program.py:3: the program ended with exit status 3" in str(error)
    error = failure(program(tmp_path, "import sys\nsys.exit('no data')\n"), 1)
    assert "raised SystemExit at program.py:2: no data" in str(error)


def test_an_exception_that_cannot_say_itself_is_a_failure_like_others(tmp_path: Path) -> None:
    text = "class Mute(Exception):\n    def __str__(self):\n        return 1 / 0\nraise Mute\n"
    error = failure(program(tmp_path, text), 1)
    assert "raised Mute at program.py:4: (its message could not be made)" in str(error)


def test_a_program_ends_after_its_threads_and_what_it_asked_for_at_exit(tmp_path: Path) -> None:
    text = """
        import atexit, sys, threading, time
        atexit.register(print, "at exit")
        printed = threading.Event()
        threading.Thread(target=lambda: (printed.wait(), time.sleep(0.1), print("thread"))).start()
        print("main")
        printed.set()
        sys.exit(0)
    """
    assert lines(run(program(tmp_path, text), 1)) == [["main", "thread", "at exit"]]


def test_a_second_threads_call_is_the_failure_that_is_told(tmp_path: Path) -> None:
    text = """
        import threading
        from mpi4py import MPI
        comm = MPI.COMM_WORLD
        def listen():
            comm.recv(source=1 - comm.rank)
        thread = threading.Thread(target=listen)
        thread.start()
        comm.recv(source=1 - comm.rank)
    """
    result = run(program(tmp_path, text), 2, check=False)
    assert isinstance(result.error, RankError)
    assert "a second thread calls recv at program.py:6" in str(result.error)
    assert lines(result) == [[], []]


def test_a_process_of_a_ranks_own_is_no_rank(tmp_path: Path) -> None:
    text = """
        import multiprocessing as mp
        from mpi4py import MPI
        comm = MPI.COMM_WORLD
        def work(told):
            try:
                comm.send(1, dest=0)
            except Exception as error:
                told.put(str(error))
        told = mp.Queue()
        mp.Process(target=work, args=(told,)).start()
        print(told.get())
        print(comm.allreduce(1))
    """
    sentence = "a process that rank {} has started calls send at program.py:7; it is none."
    assert lines(run(program(tmp_path, text), 2)) == [[sentence.format(r), "2"] for r in (0, 1)]


def test_a_file_of_any_name_and_a_module_of_a_package(tmp_path: Path) -> None:
    text = "import sys\nprint(__name__, sys.argv[1:])\n"
    program(tmp_path, text, "tool")
    program(tmp_path / "package", "", "__init__.py")
    program(tmp_path / "package", "from .parts import name\nprint(name)\n", "train.py")
    program(tmp_path / "package", "name = 'relative'\n", "parts.py")
    program(tmp_path / "package", "from parts import name\nprint(name)\n", "alone.py")
    shown = {
        ("tool", "--", "-x", "1"): "[0] __main__ ['-x', '1']",
        ("-m", "package.train"): "[0] relative",
        ("package/alone.py",): "[0] relative",
    }
    for words, line in shown.items():
        done = command("run", "--ranks", "1", *words, folder=tmp_path)
        assert done.returncode == 0 and line in done.stdout, done.stdout + done.stderr
    for words, sentence in {
        ("-m", "package.missing"): "neither package/missing.py nor package/missing/__main__.py",
        ("-m", "torch.distributed.run"): "name the program itself",
    }.items():
        done = command("run", *words, folder=tmp_path)
        assert done.returncode == 2 and sentence in done.stderr


SPAWN = """
    import sys
    import torch, torch.distributed as dist, torch.multiprocessing as mp
    def work(rank, world, scale):
        dist.init_process_group("nccl", init_method="tcp://localhost:1", rank=rank,
                                world_size=world)
        x = torch.ones(2) * scale * rank
        dist.all_reduce(x)
        print(rank, x.tolist())
        dist.destroy_process_group()
    if __name__ == "__main__":
"""
STARTS = {
    "spawn": "mp.spawn(work, args=(2, 3), nprocs=2, join=True)",
    "context": "mp.spawn(work, args=(2, 3), nprocs=2, join=False).join()",
    "processes": """
        ps = [mp.Process(target=work, args=(rank, 2, 3)) for rank in range(2)]
        for p in ps: p.start()
        for p in ps: p.join()
        assert [p.exitcode for p in ps] == [0, 0] and not ps[1].is_alive()
    """,
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_programs_that_start_their_ranks_find_them_started(tmp_path: Path, start: str) -> None:
    text = textwrap.dedent(SPAWN) + textwrap.indent(textwrap.dedent(start), "    ")
    target = program(tmp_path, text)
    assert lines(run(target, 2)) == [["0 [3.0, 3.0]"], ["1 [3.0, 3.0]"]]
    assert "--ranks 2`" in str(failure(target, 3))


def test_a_data_loaders_workers_are_processes(tmp_path: Path) -> None:
    text = """
        import torch, torch.distributed as dist
        from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
        dist.init_process_group()
        data = TensorDataset(torch.arange(16.0))
        loader = DataLoader(data, batch_size=4, num_workers=2, sampler=DistributedSampler(data))
        total = sum(batch.sum() for batch, in loader)
        dist.all_reduce(total)
        print(total.item())
    """
    assert lines(run(program(tmp_path, text), 2)) == [["120.0"]] * 2
