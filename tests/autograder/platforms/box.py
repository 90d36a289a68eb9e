"""A container as platforms give it, for tests: root, and nothing that namespaces need.

/                    a fresh file system; /usr, the interpreter and its libraries read-only
root                 with the capabilities that containers have, none of them SYS_ADMIN
namespaces           refused, as by a container's usual filter of system calls
network              none but its own loopback
memory               a control group's limit, where this machine has such groups (version 1)
time                 killed when it is over, with all that runs in it

python -m tests.autograder.platforms.box SPEC.json     is run inside, and becomes the program
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

KIT = Path(__file__).resolve().parents[3]
VENV = "/opt/ringside/venv"  # where an autograder's image has it
MB = 1 << 20
# What containers leave root: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap,
# net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap.
KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
REFUSED = (165, 166, 155, 272, 308, 428, 429, 430, 431, 432, 433, 442)  # mounts, unshare, setns
CLONE, CLONE3, NEW_NAMESPACES = 56, 435, 0x7E020000
EPERM, ENOSYS = 1, 38


def why_not() -> str:
    """Why no container can be made here; empty if one can."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return "containers of these tests need Linux on x86_64"
    if os.geteuid() != 0:
        return "containers of these tests need root"
    if missing := [each for each in ("unshare", "setpriv", "mount") if not shutil.which(each)]:
        return f"{missing[0]} is missing: apt-get install util-linux mount"
    return ""


@dataclass
class Ended:
    """How a container ended.

    Attributes:
        status: the program's exit status; None if its time was over.
        output: what it wrote.
        peak_mb: anonymous memory, shared pages once, and the files that its largest process maps;
            0 where there are no control groups.
        cpu_s: of all its processes; 0 where there are none.
    """

    status: int | None
    output: str
    wall_s: float
    peak_mb: float = 0.0
    cpu_s: float = 0.0
    out_of_memory: int = 0


@dataclass
class Group:
    """Control groups of version 1, of one container; no folders where this machine has none."""

    memory: Path | None = None
    cpu: Path | None = None
    peak: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def procs(self) -> list[Path]:
        return [folder / "cgroup.procs" for folder in (self.memory, self.cpu) if folder]

    def watch(self) -> None:
        """Note the most memory that is used at a time, until ``close``."""
        while self.memory and not self._ended.wait(0.05):
            with contextlib.suppress(OSError, ValueError):
                self.peak = max(self.peak, self._used())

    def _used(self) -> float:
        assert self.memory is not None
        stat = _fields(self.memory / "memory.stat")
        files = 0
        for pid in (self.memory / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("RssFile:"):
                        files = max(files, int(line.split()[1]) << 10)
        return stat["total_rss"] + stat.get("total_shmem", 0) + files

    @property
    def cpu_s(self) -> float:
        return int((self.cpu / "cpuacct.usage").read_text()) / 1e9 if self.cpu else 0.0

    @property
    def out_of_memory(self) -> int:
        return _fields(self.memory / "memory.oom_control")["oom_kill"] if self.memory else 0

    def close(self) -> None:
        self._ended.set()


def _fields(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in path.read_text().splitlines())
    return {name: int(value) for name, value in pairs}


@contextlib.contextmanager
def group(memory_mb: int | None) -> Iterator[Group]:
    """Control groups for one container; removed with what is left in it."""
    made = Group(_made("memory"), _made("cpuacct"))
    if made.memory and memory_mb:
        (made.memory / "memory.limit_in_bytes").write_text(str(memory_mb * MB))
    watcher = threading.Thread(target=made.watch, daemon=True)
    watcher.start()
    try:
        yield made
    finally:
        made.close()
        watcher.join()
        for folder in filter(None, (made.memory, made.cpu)):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                try:
                    folder.rmdir()
                    break
                except OSError:  # the last processes are about to end
                    time.sleep(0.05)


def _made(controller: str) -> Path | None:
    """A new group below ours; None where there are no such groups."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.split(":")[2] for line in lines if line.split(":")[1] == controller)
        folder = Path("/sys/fs/cgroup", controller, own.lstrip("/"))
        folder = folder / f"ringside-box-{os.getpid()}-{threading.get_ident()}"
        folder.mkdir()
    except (OSError, StopIteration):
        return None
    return folder


def run(
    argv: Sequence[str],
    binds: Mapping[str, Path],
    root: Path,
    *,
    limit_s: float = 600.0,
    memory_mb: int | None = None,
    env: Mapping[str, str] | None = None,
    venv: Path | None = None,
    landlock: bool = True,
) -> Ended:
    """Run a program as root in a container.

    Args:
        binds: place inside -> folder or file outside, which may be written.
        root: an empty folder, for the container's own file system.
        limit_s: then it is killed.
        venv: what lies at ``/opt/ringside/venv``; None for the tests' own environment.
        landlock: False: the container's filter refuses Landlock, as old ones do.
    """
    spec = {
        "root": str(root),
        "binds": {place: str(path) for place, path in binds.items()},
        "read_only": {VENV: str(venv or Path(sys.prefix))} if venv is not False else {},
        "argv": list(argv),
        "env": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root", **(env or {})},
        "landlock": landlock,
    }  # fmt: skip
    with group(memory_mb) as groups:
        spec |= {"procs": [str(path) for path in groups.procs()]}
        spec |= {"group": str(groups.memory or "")}
        path = root.with_name(root.name + ".json")
        path.write_text(json.dumps(spec))
        words = ["unshare", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--kill-child"]
        words += [sys.executable, "-P", str(Path(__file__).resolve()), str(path)]
        began = time.monotonic()
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", cwd="/", env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        status: int | None
        try:
            output, _ = process.communicate(timeout=limit_s)
            status = process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            status = None
        wall_s = time.monotonic() - began
        return Ended(status, output, wall_s, groups.peak / MB, groups.cpu_s, groups.out_of_memory)


# -- inside ----------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)


def _inside(spec: dict) -> None:
    """Lay out the file system, give up what containers lack, and become the program."""
    for path in spec["procs"]:
        Path(path).write_text(str(os.getpid()))
    root = Path(spec["root"])
    _mount("--make-rprivate", "/")
    _mount("-t", "tmpfs", "-o", "mode=755", "none", root)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), root / name)
        elif os.path.isdir(f"/{name}"):
            _bind(f"/{name}", root / name, read_only=True)
    _bind("/usr", root / "usr", read_only=True)
    (root / "etc").mkdir()
    for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf", "ssl", "alternatives"):
        if os.path.isdir(f"/etc/{name}"):
            _bind(f"/etc/{name}", root / "etc" / name, read_only=True)
        elif os.path.exists(f"/etc/{name}"):
            shutil.copy(f"/etc/{name}", root / "etc" / name)
    for name, mode in (("tmp", 0o1777), ("dev", 0o755), ("root", 0o755), ("var/tmp", 0o1777)):
        (root / name).mkdir(parents=True)
        (root / name).chmod(mode)
    for name in ("null", "zero", "urandom", "random", "full"):
        _bind(f"/dev/{name}", root / "dev" / name)
    (root / "dev" / "shm").mkdir()
    _mount("-t", "tmpfs", "-o", "mode=1777,size=64m", "none", root / "dev" / "shm")
    (root / "proc").mkdir()
    _mount("-t", "proc", "proc", root / "proc")
    if spec["group"]:
        _bind(spec["group"], root / "sys" / "fs" / "cgroup" / "memory", read_only=True)
    base = sysconfig.get_config_var("installed_base")
    if not Path(base).is_relative_to("/usr"):
        _bind(base, root / base.lstrip("/"), read_only=True)
    for place, path in spec["read_only"].items():
        _bind(path, root / place.lstrip("/"), read_only=True)
    for place, path in spec["binds"].items():
        _bind(path, root / place.lstrip("/"))
    os.chroot(root)
    os.chdir("/")
    os.umask(0o022)
    for number in range(64):
        if number not in KEPT:
            _libc.prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP; what the kernel lacks is refused
    _set_capabilities()
    _install_filter(spec["landlock"])
    os.execvpe(spec["argv"][0], spec["argv"], spec["env"])


def _bind(source: str, target: Path, *, read_only: bool = False) -> None:
    if os.path.isdir(source):
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount("--rbind" if not read_only else "--bind", source, target)
    if read_only:
        _mount("-o", "remount,bind,ro", target)


def _mount(*words: object) -> None:
    subprocess.run(["mount", *map(str, words)], check=True, stdin=subprocess.DEVNULL)


def _set_capabilities() -> None:
    mask = sum(1 << number for number in KEPT)
    header = struct.pack("=Ii", 0x20080522, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = struct.pack("=6I", low, low, 0, high, high, 0)
    if _libc.syscall(126, header, data):
        raise OSError(ctypes.get_errno(), "capset")


def _install_filter(landlock: bool) -> None:
    """Refuse namespaces and mounts, as containers do whose root lacks CAP_SYS_ADMIN."""
    refused = REFUSED if landlock else (*REFUSED, 444, 445, 446)
    code = [(0x20, 0, 0, 0)]  # the number of the call
    for number in refused:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | EPERM)]
    code += [(0x15, 0, 1, CLONE3), (0x06, 0, 0, 0x50000 | ENOSYS)]
    code += [(0x15, 0, 3, CLONE), (0x20, 0, 0, 16), (0x45, 0, 1, NEW_NAMESPACES)]
    code += [(0x06, 0, 0, 0x50000 | EPERM), (0x06, 0, 0, 0x7FFF0000)]
    packed = b"".join(struct.pack("=HBBI", *line) for line in code)
    text = ctypes.create_string_buffer(packed, len(packed))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(text)))
    # Root without SYS_ADMIN may set a filter only with no_new_privs, and a container's engine sets
    # it without: setpriv must still be able to become another user, and it can.
    if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    _inside(json.loads(Path(sys.argv[1]).read_text()))
