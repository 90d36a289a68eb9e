"""A deadline for a real run: when it passes, every rank says where it is, then the run ends.

On simulated ranks the network sees a deadlock at once. A real MPI library sees nothing:
its ranks wait for ever, each in its own process. So each rank has a thread that looks
at the main thread when the time is up and writes one line, and one rank prints all of them::

    the run did not end within 30 s.
      rank 0  Recv(source=1, tag=0)  ring.py:14
      rank 1  Recv(source=0, tag=0)  ring.py:14
      If it is only slow, give it a longer deadline.
      On simulated ranks `ringside run` says who waits for whom.

Nothing is written before the time is up, so no rank depends on what another leaves or removes when
it begins or ends. Any rank may be the one that prints: rank 0 may have ended long ago.
"""

from __future__ import annotations

import json
import linecache
import os
import shutil
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from ringside.errors import DeadlineError
from ringside.files import write_atomically
from ringside.session.recorder import Recorder, student_frame

UNFINISHED = "unfinished"  # left by ranks that have stopped before their work was done
_GRACE_S = 1.0  # for all ranks to have written their line


class Watch:
    """Ends this rank's process when the deadline passes; `close` calls it off.

    Args:
        folder: where ranks leave word of where they are; the same for all of them.
        keep: leave the folder, and the report of the failure in it, to who made it.
    """

    def __init__(
        self,
        deadline_s: float,
        rank: int,
        world_size: int,
        folder: Path,
        recorder: Recorder,
        *,
        keep: bool = True,
    ) -> None:
        self.deadline_s = deadline_s
        self.rank = rank
        self.world_size = world_size
        self.folder = folder
        self.recorder = recorder
        self._keep = keep
        self._main = threading.get_ident()
        self._closed = threading.Event()
        threading.Thread(target=self._wait, name="deadline", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _wait(self) -> None:
        if self._closed.wait(self.deadline_s):
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self.folder / f"where-{self.rank}", self.where().encode())
        time.sleep(_GRACE_S)
        if self._is_first():
            error = DeadlineError(f"within {self.deadline_s:g} s", tuple(self._everybody()))
            report_failure(self.folder, "deadline", self.rank, str(error))
            print(f"DeadlineError: {error}", file=sys.stderr, flush=True)
            if not self._keep:
                shutil.rmtree(self.folder, ignore_errors=True)
        else:
            time.sleep(_GRACE_S)  # the launcher kills everybody when one rank ends like this
        os._exit(1)

    def _is_first(self) -> bool:
        """Whether no other rank speaks for all."""
        try:
            (self.folder / "speaker").touch(exist_ok=False)
        except OSError:  # another does, or has done so and removed the folder
            return False
        return True

    def where(self) -> str:
        """What this rank is doing: the call it is in, or the line it computes at."""
        # Read once: the main thread may leave the call at any moment.
        call = self.recorder.current
        if call is not None:
            return f"{call.name}  {call.file}:{call.line}" if call.file else call.name
        frame = student_frame(sys._current_frames().get(self._main))
        if frame is not None:
            name = frame.f_code.co_filename
            text = linecache.getline(name, frame.f_lineno).strip()
            return f"{text or '(computing)'}  {Path(name).name}:{frame.f_lineno}"
        return "has returned from the function and waits for the others"

    def _everybody(self) -> list[str]:
        lines = []
        for rank in range(self.world_size):
            try:
                where = (self.folder / f"where-{rank}").read_text()
            except OSError:
                where = "(no answer: it has ended, or is stopped)"
            lines.append(f"rank {rank}  {where}")
        return [
            *lines,
            "If it is only slow, give it a longer deadline.",
            "On simulated ranks `ringside run` says who waits for whom.",
        ]


def watched(comm: Any, deadline_s: float) -> Any:
    """Return real ``comm`` as one whose ranks all say where they are if they aren't done in time.

    For scripts under ``mpiexec``; the watch ends with the process.
    """
    from ringside.jobs.real.recording_mpi import record

    # A name that nobody else has; at the deadline the folder is made, and removed again.
    name = comm.bcast(f"ringside-watch-{uuid.uuid4().hex}" if comm.rank == 0 else None)
    recorder = Recorder()
    recorder.enabled = False
    folder = Path(tempfile.gettempdir()) / name
    Watch(deadline_s, comm.rank, comm.size, folder, recorder, keep=False)
    return record(comm, recorder)


def report_start(folder: Path, rank: int) -> None:
    """Leave word that the student's file begins on a rank: a failure from here on is its own."""
    (folder / f"started-{rank}").touch()


def report_failure(folder: Path, kind: str, rank: int, message: str, *, echo: bool = False) -> None:
    """Leave word for `ringside launch` why a run has no result.

    Args:
        echo: the error may only tell that another rank has failed, whose word then comes first.
    """
    record = {"kind": kind, "rank": rank, "message": message, "echo": echo}
    write_atomically(folder / f"failure-{rank}.json", json.dumps(record).encode())
