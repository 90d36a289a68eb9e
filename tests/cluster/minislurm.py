"""A real Slurm with several nodes on one machine: start it, run commands in it, stop it.

By hand, to look around in it:

    python tests/cluster/minislurm.py 2 -- sinfo
    python tests/cluster/minislurm.py 2 -- bash
    python tests/cluster/minislurm.py 2 --accounts -- sacctmgr -n show associations

The command has this terminal, and as much time as it takes, or --timeout seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SCRIPT = Path(__file__).with_name("minislurm.sh")
COMMANDS = ("slurmctld", "slurmd", "sbatch", "munged", "ip", "nsenter", "unshare", "setpriv")
ACCOUNT_COMMANDS = ("slurmdbd", "mariadbd", "mariadb")
# Debian keeps daemons where an ordinary user's PATH does not look.
SEARCH_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
TEST_LIMIT_S = 120.0  # of one command of a test; a command by hand has no limit
OUT_OF_TIME = 124  # exit status, as of timeout(1)


def why_not(accounts: bool = False) -> str | None:
    """Why no Slurm can be started here, in one line; None where it can."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    needed = (*COMMANDS, *ACCOUNT_COMMANDS) if accounts else COMMANDS
    missing = [name for name in needed if not shutil.which(name, path=SEARCH_PATH)]
    if missing:
        return f"missing {', '.join(missing)}: run `make system`"
    probe = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "true"],
        capture_output=True,
        text=True,
    )
    if probe.returncode:
        return f"namespaces are not allowed here: {probe.stderr.strip()}"
    return None


class MiniSlurm:
    """Slurm daemons in namespaces of their own; all of them end with `down()`."""

    def __init__(
        self, num_nodes: int = 2, shared: Sequence[Path] = (), *, accounts: bool = False
    ) -> None:
        # Not under /tmp, which is private to each node.
        self.folder = Path(tempfile.mkdtemp(prefix="minislurm-", dir="/var/tmp"))
        self.begun: list[subprocess.Popen[str]] = []
        self.folder.chmod(0o711)  # munged wants a path to its socket for everybody
        self.environment = {**os.environ, "PATH": SEARCH_PATH}
        self.environment["SLURM_CONF"] = str(self.folder / "etc" / "slurm.conf")
        self.hidden = [str(p.resolve()) for p in shared if p.resolve().is_relative_to("/tmp")]
        # It ends with this process, even if this one is killed.
        command = ["setpriv", "--pdeathsig", "KILL", "--"]
        command += [
            "unshare",
            "--net",
            "--uts",
            "--ipc",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ]
        command += ["bash", str(SCRIPT), "up", str(self.folder), str(num_nodes)]
        command += [str(int(accounts)), *self.hidden]
        with (self.folder / "start.out").open("w") as output:
            self.starter = subprocess.Popen(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_until_up(self, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not (self.folder / "ready").exists():
            if self.starter.poll() is not None or time.monotonic() > deadline:
                log = (self.folder / "start.out").read_text()
                self.down()
                raise RuntimeError(f"Slurm did not start:\n{log}")
            time.sleep(0.05)
        # unshare forks: its child is the first process of the namespaces.
        children = Path(f"/proc/{self.starter.pid}/task/{self.starter.pid}/children")
        self.first_pid = int(children.read_text().split()[0])

    def run(
        self, command: Sequence[str], *, cwd: Path | None = None, timeout_s: float = TEST_LIMIT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login node: beside slurmctld, with its commands and network.

        Raises:
            AssertionError: it has not ended in time; with all that it said.
        """
        with subprocess.Popen(
            [*self._inside(cwd), *command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as begun:
            try:
                out, err = begun.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                self.kill(begun, signal.SIGKILL)
                said = "".join(begun.communicate())
                late = f"{command[0]} has not ended after {timeout_s:g} s (timeout_s)."
                raise AssertionError(f"{late} It said:\n{said}") from None
        return subprocess.CompletedProcess(begun.args, begun.returncode, out, err)

    def attach(
        self, command: Sequence[str], *, cwd: Path | None = None, timeout_s: float | None = None
    ) -> int:
        """The same with this process's terminal, and no limit; returns the exit status."""
        with subprocess.Popen([*self._inside(cwd), *command], env=self.environment) as begun:
            try:
                return begun.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill(begun, signal.SIGKILL)
                print(f"minislurm: ended after {timeout_s:g} s (--timeout).", file=sys.stderr)
                return OUT_OF_TIME

    def begin(self, command: Sequence[str], *, cwd: Path | None = None) -> subprocess.Popen[str]:
        """The same, without waiting for its end; its standard error comes with the rest."""
        # Tests that run in the background may have inherited that SIGINT is ignored.
        hears_ctrl_c = ["env", "--default-signal=INT"]
        begun = subprocess.Popen(
            [*self._inside(cwd), *hears_ctrl_c, *command],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.begun.append(begun)
        return begun

    def listen(self, begun: subprocess.Popen[str], until: str) -> str:
        """What a begun command says up to the first line that holds ``until``."""
        heard = ""
        assert begun.stdout
        for line in begun.stdout:
            heard += line
            if until in line:
                return heard
        raise AssertionError(f"it never said {until!r}, but:\n{heard}")

    def interrupt(self, begun: subprocess.Popen[str]) -> None:
        """Press Ctrl-C on a command that was begun."""
        self.kill(begun, signal.SIGINT)

    def kill(self, begun: subprocess.Popen[str], number: int) -> None:
        """Send a signal to a command that was begun."""
        children = Path(f"/proc/{begun.pid}/task/{begun.pid}/children").read_text().split()
        os.kill(int(children[0]), number)

    def _inside(self, cwd: Path | None) -> list[str]:
        inside = ["nsenter", f"--target={self.first_pid}"]
        inside += ["--net", "--uts", "--ipc", "--mount", "--pid", f"--wdns={cwd or self.folder}"]
        return inside

    def stop_node(self, number: int) -> None:
        """Kill a node with all that runs on it, and take its network away, as a power cut does."""
        pid = (self.folder / "run" / f"node{number}.pid").read_text().strip()
        self.run(["kill", "-9", pid])

    def start_node(self, number: int) -> None:
        """Start a stopped node again; it is idle once Slurm has heard of it."""
        self.run(["bash", str(SCRIPT), "node", str(self.folder), str(number), *self.hidden])

    def logs(self) -> str:
        """The last lines of every daemon's log."""
        parts = []
        for path in sorted((self.folder / "log").glob("*")):
            parts += [f"--- {path.name}", *path.read_text().splitlines()[-8:]]
        return "\n".join(parts)

    def down(self) -> None:
        for begun in self.begun:  # what a failed test has left
            begun.kill()
            begun.wait()
            if begun.stdout:
                begun.stdout.close()
        self.starter.kill()  # and by --kill-child everything in the process namespace
        self.starter.wait()
        for _ in range(100):  # a dying mount namespace may hold the folder for a moment
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                break
            time.sleep(0.05)

    def __enter__(self) -> MiniSlurm:
        self.wait_until_up()
        return self

    def __exit__(self, *exception: object) -> None:
        self.down()


def main() -> int:
    """By hand: start it, run the command, stop it; the command's exit status."""
    assert __doc__
    parser = argparse.ArgumentParser(
        usage="%(prog)s NODES [--accounts] [--timeout S] -- COMMAND ...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("nodes", type=int, metavar="NODES", help="how many")
    parser.add_argument("--accounts", action="store_true", help="with slurmdbd")
    parser.add_argument("--timeout", type=float, metavar="S", help="default: no limit")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    asked = parser.parse_args()
    if reason := why_not(asked.accounts):
        sys.exit(f"no Slurm here: {reason}")
    with MiniSlurm(asked.nodes, accounts=asked.accounts) as slurm:
        return slurm.attach(asked.command, cwd=Path.cwd(), timeout_s=asked.timeout)


if __name__ == "__main__":
    sys.exit(main())
