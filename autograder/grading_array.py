"""A class graded on a cluster: one task of a Slurm job array for each submission.

Every task runs ``autograder grade`` on its submission, and the result goes into the course's
store of results, which all nodes see. Then the class is graded as usual, here: what a task has
graded is taken from the store, and what the cluster lost is graded now. So the results are the
same as without a cluster, whatever happened there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringside import jobscript, slurm
from ringside.errors import RingsideError
from ringside.jobscript import Job
from ringside.sites import Site, Value
from ringside.trace import write_atomically


class ArrayError(RingsideError):
    """A class that can't be graded on the cluster as it was asked for."""


@dataclass(frozen=True)
class GradingArray:
    """The array as it was asked for.

    Attributes:
        submissions: a notebook, an archive or a folder of modules each.
        course: the folder that ``autograder grade`` is run in.
        folder: for the script, the list of submissions, records and logs; the nodes see it.
        trusted: student code runs without a sandbox.
    """

    site: Site
    settings: Mapping[str, Value]
    assignment: str
    submissions: Sequence[Path]
    course: Path
    folder: Path
    trusted: bool = False

    def script(self) -> str:
        """The array's script; where there is no scheduler, it grades one after the other."""
        job = Job(self.site, self.settings, "mpi4py", 1)
        cpus = job.ranks_per_node * job.number("cpus_per_rank")
        log = "grade.log" if job.local else "grade-%a.log"  # Slurm puts the task's number in
        values = jobscript.service_values(job, cpus, 1)
        # A job starts from a clean environment; these two say where the course is.
        for name in ("RINGSIDE_KIT", "RINGSIDE_COURSE"):
            if name in os.environ:
                values["exports"].append(f"{name}={Path(os.environ[name]).resolve()}")
        values |= {
            "job_name": f"grade-{self.assignment}",
            "folder": str(self.course.resolve()),
            "log": str(self.folder.resolve() / log),
            "assignment": self.assignment,
            "num_submissions": len(self.submissions),
            "submissions": str(self.folder.resolve() / "submissions.txt"),
            "records": str(self.folder.resolve() / "records"),
            "grading_options": " --trust-submissions" if self.trusted else "",
        }
        return self.site.render("grading_array.sbatch.j2", values)

    def write(self) -> Path:
        """Write the list of submissions and the script; return the script's path."""
        shutil.rmtree(self.folder / "records", ignore_errors=True)
        lines = "".join(f"{path.resolve()}\n" for path in self.submissions)
        write_atomically(self.folder.resolve() / "submissions.txt", lines.encode())
        script = self.folder.resolve() / "grade.sbatch"
        write_atomically(script, self.script().encode())
        return script

    def run(self, say: Callable[[str], None], interval_s: float = 2.0) -> int:
        """Run the array to its end; return how many submissions have a record.

        Raises:
            SlurmError: the array was refused.
            ArrayError: the course's secret would not reach the nodes.
        """
        if self.site.scheduler != "none" and "RINGSIDE_COURSE_SECRET" in os.environ:
            raise ArrayError(
                "RINGSIDE_COURSE_SECRET does not reach the nodes, and a job script is no place for "
                "a secret: write it into course_secret.txt, and unset the variable."
            )
        script = self.write()
        if self.site.scheduler == "none":
            subprocess.run(["bash", str(script)], stdin=subprocess.DEVNULL, check=False)
        else:
            job_id = slurm.submit(script)
            say(f"job {job_id}: {len(self.submissions)} tasks submitted to {self.site.name}")
            self._wait(job_id, say, interval_s)
        return len(list((self.folder / "records").glob("*.json")))

    def _wait(self, job_id: str, say: Callable[[str], None], interval_s: float) -> None:
        """Wait until no task is waiting or running; a silent squeue is asked again."""
        command = ["squeue", "-h", "-r", "-j", job_id, "-o", "%T"]
        shown, gone = -1, 0
        while gone < 3:
            asked = subprocess.run(command, capture_output=True, text=True, check=False)
            left = len(asked.stdout.split())
            # squeue forgets a job some minutes after its end, and then calls it invalid.
            ended = left == 0 and (asked.returncode == 0 or "Invalid job id" in asked.stderr)
            gone = gone + 1 if ended else 0
            if left not in (shown, 0):
                say(f"job {job_id}: {left} of {len(self.submissions)} submissions to go")
                shown = left
            time.sleep(interval_s if left else 0.2)
