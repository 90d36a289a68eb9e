"""JupyterLab on a compute node: ``ringside launch --jupyter``.

The job prints how to reach it. A browser cannot reach a compute node, so an ssh tunnel leads
through the login node::

    your browser  ->  localhost:PORT  ==ssh==>  login node  ->  compute node:PORT  (JupyterLab)
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ringside.files import write_atomically
from ringside.jobs.launch import jobscript, slurm
from ringside.jobs.launch.jobscript import Job
from ringside.jobs.launch.sites import Site, Value


@dataclass(frozen=True)
class Jupyter:
    """One JupyterLab as it was asked for; ``folder`` is where it opens."""

    site: Site
    settings: Mapping[str, Value]
    gpus: int = 0
    folder: Path = Path()

    @property
    def job(self) -> Job:
        return Job(self.site, self.settings, "nccl" if self.gpus else "gloo", 1, self.gpus)

    def script(self) -> str:
        """The job's script: for the site's scheduler, or for bash where there is none."""
        job, folder = self.job, self.folder.resolve()
        cpus = job.ranks_per_node * int(job.values()["threads_per_rank"])
        values = jobscript.service_values(job, cpus, cpus) | {
            "job_name": "ringside-jupyter",
            "folder": str(folder),
            "log": str(folder / "jupyter.log"),
            "inside": job.inside(folder),
        }
        return self.site.render("jupyter.sbatch.j2", values)

    def run(self, say: Callable[[str], None], *, wait: bool = True) -> str:
        """Start it, and pass on what it says until it ends; return how it ended.

        Raises:
            SlurmError: the job was refused.
            LaunchError: there is no such container.
        """
        self.job.check()
        self.job.check_here()
        script = self.folder.resolve() / "jupyter.sbatch"
        log = script.with_name("jupyter.log")
        jobscript.make_room(script, log, say)
        write_atomically(script, self.script().encode())
        if self.site.scheduler == "none":
            return _here(script)
        log.unlink(missing_ok=True)
        job_id = slurm.submit(script)
        say(f"job {job_id}: submitted to {self.site.name}; {log} will say how to reach it")
        if not wait:
            return f"`squeue -j {job_id}` shows the job, `scancel {job_id}` ends it."
        try:
            ended = slurm.follow(job_id, log, say)
        except KeyboardInterrupt:
            say(f"job {job_id} goes on: `scancel {job_id}` ends it.")
            raise
        return f"job {job_id}: {ended.state}. {ended.meaning}".rstrip()


def _here(script: Path) -> str:
    """Run the script on this machine until it ends, or Ctrl-C ends it."""
    process = subprocess.Popen(["bash", str(script)], start_new_session=True)
    try:
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
    return f"it ended with status {process.returncode}."
