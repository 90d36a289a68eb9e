"""A machine for a class, inside this one: accounts, homes, /srv, ports and processes of its own.

Real accounts (useradd), a real PAM, real daemons at the ports that the documentation names. All of
it is in namespaces of this test: /etc is a copy, /home, /srv, /var/lib, /tmp are empty, the network
is a loopback of its own. When the test ends, however it ends, the kernel takes everything away.

    /srv/students      the students' tree; its .venv is this environment, read-only
    /srv/ringside/kit  a copy of the kit; its .venv is this environment, read-only
    /srv/packages      what is as if installed in both of them besides
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.autograder.conftest import KIT

COMMANDS = ("unshare", "nsenter", "ip", "useradd", "runuser", "sudo", "setpriv")
SEARCH_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
UNSHARE = shlex.split(
    "setpriv --pdeathsig KILL unshare --net --mount --pid --ipc --fork --kill-child --mount-proc"
)
MORE = "/srv/packages"
ENVIRONMENTS = ("/srv/students", "/srv/ringside/kit")
PATIENCE_S = 300.0  # only ends what hangs
CLONE_NEWNET = 0x40000000
OF_KIT = ("ringside", "autograder", "cluster", "solutions", "assignments", "lectures", "docs")

# Whose door is closed to others (root's home, say) is laid open for what lies behind it. What lies
# below /home, /srv or /tmp is hidden by theirs; the interpreter is put back there.
BEGIN = """
set -e
stage={stage} base={base} venv={venv} kit={kit}
mount -t tmpfs -o mode=700 none $stage
mkdir -p $stage/etc $stage/home $stage/srv $stage/lib $stage/tmp $stage/base $stage/root
cp -a /etc/. $stage/etc/
chmod 1777 $stage/tmp
mount --bind "$base" $stage/base
mount -o remount,bind,ro $stage/base
number=0
for place in {environments}; do
    number=$((number + 1))
    mkdir -p $stage/srv/${{place#/srv/}}/.venv $stage/bin$number
    cp -a "$venv"/bin/. $stage/bin$number/
    grep -lZIF "$venv" $stage/bin$number/* | xargs -0 sed -i "s|$venv|$place/.venv|g"
    sed "s|$kit/|$place/|g" {finder} > $stage/finder$number
    echo "sys.path.append('{more}')" >> $stage/finder$number
done
number=0
for place in {environments}; do
    number=$((number + 1))
    here=$stage/srv/${{place#/srv/}}/.venv
    mount --bind "$venv" $here
    mount -o remount,bind,ro $here
    mount --bind $stage/bin$number $here/bin
    mount --bind $stage/finder$number $here/{finder_within}
done
for name in {of_kit}; do
    test ! -e "$kit/$name" || cp -a "$kit/$name" $stage/srv/ringside/kit/
done
for door in {doors}; do mount -t tmpfs -o mode=755 none "$door"; done
for one in etc home srv tmp; do mount --rbind $stage/$one /$one; done
mkdir -p "$base"
mount --bind $stage/base "$base"
mount --bind $stage/lib /var/lib
test ! -e "$kit" || mount -t tmpfs -o mode=700 none "$kit"
ip link set lo up
echo ready
while read -r _; do :; done
"""


def why_not() -> str | None:
    """Why no such machine can be made here, in one line; None where it can."""
    if os.geteuid() != 0:
        return "needs root, to make Unix accounts in namespaces of its own"
    missing = [name for name in COMMANDS if not shutil.which(name, path=SEARCH_PATH)]
    if missing:
        return f"missing {', '.join(missing)}: run `make system`"
    probe = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True
    )
    return f"namespaces are not allowed here: {probe.stderr.strip()}" if probe.returncode else None


class Machine:
    """The machine, from its first process on; `close` ends it."""

    def __init__(self) -> None:
        self._stage = tempfile.mkdtemp(prefix="ringside-hub-", dir="/var/tmp")
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._starter = subprocess.Popen(
            [*UNSHARE, "bash", "-c", self._script()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PATH": SEARCH_PATH},
        )
        assert self._starter.stdin is not None and self._starter.stdout is not None
        if self._starter.stdout.readline() != "ready\n":
            self._starter.stdin.close()
            self._log.seek(0)
            said = self._log.read()
            self._end()
            raise AssertionError(said)
        (self._first,) = psutil.Process(self._starter.pid).children()

    def _script(self) -> str:
        venv, base = Path(sys.prefix), Path(sys.base_prefix)
        (finder,) = venv.glob("lib/python*/site-packages/__editable___ringside_*_finder.py")
        doors = [path for path in (base, *base.parents) if not path.stat().st_mode & 0o1]
        words = {
            "stage": self._stage,
            "base": base,
            "venv": venv,
            "kit": KIT,
            "more": MORE,
            "finder": finder,
            "finder_within": finder.relative_to(venv),
        }
        return BEGIN.format(
            **{name: shlex.quote(str(value)) for name, value in words.items()},
            environments=" ".join(ENVIRONMENTS),
            of_kit=" ".join((*OF_KIT, *(p.name for p in KIT.glob("*.*") if p.is_file()))),
            doors=shlex.join(map(str, doors[-1:])),
        )

    def close(self) -> None:
        """End all that runs in it; its folders vanish with its first process."""
        assert self._starter.stdin is not None
        self._starter.stdin.close()
        with contextlib.suppress(psutil.NoSuchProcess):
            self._first.kill()
        self._end()

    def _end(self) -> None:
        assert self._starter.stdout is not None
        for process in (self._starter, *self._daemons):
            process.wait(PATIENCE_S)
        self._starter.stdout.close()
        self._log.close()
        os.rmdir(self._stage)

    def command(self, account: str, command: str, **environment: str) -> list[str]:
        """The words that run a line of bash there as an account, in its home."""
        variables = [f"{name}={value}" for name, value in environment.items()]
        inside = ["nsenter", "-t", str(self._first.pid), "--net", "--mount", "--pid", "--ipc"]
        become = ["runuser", "-u", account, "--"] if account != "root" else []
        line = f"cd; export HOME=$PWD; {command}"
        home = f"HOME={self.home(account)}"
        clean = ["env", "-i", home, f"USER={account}", "LANG=C.UTF-8"]
        if "PATH" not in environment:
            variables.append("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        return [*inside, *become, *clean, *variables, "bash", "-c", line]

    def home(self, account: str) -> str:
        """An account's home."""
        return {"root": "/root", "ringside": "/srv/ringside"}.get(account, f"/home/{account}")

    def run(
        self, account: str, command: str, *, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a line of bash as an account; what it says, both streams in one."""
        answer = subprocess.run(
            self.command(account, command, **environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
        assert not check or answer.returncode == 0, f"{account}: {command}\n{answer.stdout}"
        return answer

    def start(self, account: str, command: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a daemon; it ends with the machine."""
        with log.open("w") as stream:
            daemon = subprocess.Popen(
                self.command(account, command),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        self._daemons.append(daemon)
        return daemon

    def path(self, path: str) -> Path:
        """A path of the machine, as it is reached from outside."""
        return Path(f"/proc/{self._first.pid}/root{path}")

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """What this thread opens and starts meanwhile is in the machine's network."""
        libc = ctypes.CDLL(None, use_errno=True)
        with (
            open("/proc/thread-self/ns/net") as mine,
            open(f"/proc/{self._first.pid}/ns/net") as there,
        ):
            assert libc.setns(there.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(mine.fileno(), CLONE_NEWNET) == 0


def blocks(page: Path) -> dict[str, str]:
    """The shell blocks of a page, by the word in the comment of their first line."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```sh\n# (\w+):.*\n((?:.*\n)*?)```$", text, re.MULTILINE)
    return dict(found)
