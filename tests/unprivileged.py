"""Run a command as a user without rights, also where the tests are run by root.

The interpreter may lie under root's home, which no other user enters. In a mount namespace of
its own the way to it is laid open; nothing changes outside.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

UID = 60123


def run_unprivileged(
    argv: Sequence[str], needed: Sequence[Path], *, timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run ``argv`` as an ordinary user who can read the interpreter and ``needed``."""
    if os.geteuid() != 0:
        command = list(argv)
    else:
        if shutil.which("unshare") is None or shutil.which("setpriv") is None:
            pytest.skip("needs unshare and setpriv (util-linux) to become another user")
        command = ["unshare", "--mount", "sh", "-ec", _script(argv, needed)]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd="/",
    )


def _script(argv: Sequence[str], needed: Sequence[Path]) -> str:
    # On a tmpfs of the namespace, so that the folders for the binds vanish with it.
    lines = ["hold=/dev/shm; mount -t tmpfs -o mode=755 none $hold"]
    paths = sorted({Path(sys.prefix), Path(sys.base_prefix), *needed})
    closed = {path: door for path in paths if (door := _closed_door(path)) is not None}
    for number, path in enumerate(closed):
        lines.append(f"mkdir $hold/{number}; mount --bind {shlex.quote(str(path))} $hold/{number}")
    for door in sorted(set(closed.values())):
        lines.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(str(door))}")
    for number, path in enumerate(closed):
        place = shlex.quote(str(path))
        lines.append(f"mkdir -p {place}; mount --bind $hold/{number} {place}")
    drop = f"setpriv --reuid={UID} --regid={UID} --clear-groups --inh-caps=-all --bounding-set=-all"
    return "\n".join([*lines, f"exec {drop} {shlex.join(argv)}"])


def _closed_door(path: Path) -> Path | None:
    """The outermost folder on the way that others may not enter."""
    for folder in [*reversed(path.parents), path]:
        if not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None
