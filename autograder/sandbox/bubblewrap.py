"""bubblewrap: what it shows a process, and how it is started.

An interpreter, the kit and the modules are there, and nothing else.

Inside::

    /usr/lib, /usr/bin, ...    read-only, the parts that a program needs to run
    the interpreter            read-only, at its own paths: bin, lib, pyvenv.cfg
    /kit/ringside              read-only, a copy of the students' toolkit
    /modules                   read-only, a copy of the planned modules
    /job                       read-only, what one run brings besides
    /tmp, /dev/shm             fresh, private, of limited size; where the interpreter lies below
                               one, a folder there shows it, and is read-only
    /proc                      of the sandbox's own processes; for simulated ranks not there
    everything else            not there: no home, no course, no gradebook, no network

Started as root there is no user namespace (its root could read root's home): bubblewrap binds as
root, and setpriv then becomes a user that owns nothing. Started as anybody else a user namespace
gives the right to bind.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import platform
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autograder.course.limits import Limits
from ringside.ranks import seccomp
from ringside.ranks.confine import interpreter_paths

__all__ = [
    "arguments",
    "has_disable_userns",
    "limiter",
    "outer_filter",
    "start",
    "start_bubblewrap",
]

_SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/share/zoneinfo")
_LINKS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32")
_PRIVATE = (Path("/tmp"), Path("/dev/shm"))
_HIDDEN = ("autograder", "solutions")  # packages of ours, where the course was pip-installed
_UID_INSIDE = 1000
_KEPT_BY_ROOT = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")  # until setpriv has become another user
_KEPT_TO_NEST = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN")
# bubblewrap's --die-with-parent holds only once it has set everything up. So the command waits
# for a word, and ends where nobody is left to give it.
_GATE = ["/bin/sh", "-c", 'echo ready; read -r go || exit 1; exec "$@" </dev/null', "gate"]
_READY = b"ready\n"


def arguments(
    *,
    binds: Mapping[str, Path],
    env: Mapping[str, str],
    limits: Limits,
    as_root: bool,
    newest_options: bool = True,
    devices: Sequence[Path] = (),
    nests: bool = False,
    proc: bool = True,
) -> list[str]:
    """bubblewrap's options, without the command.

    Args:
        binds: path inside -> folder or file outside, all read-only.
        env: the whole environment inside.
        as_root: whether bubblewrap is run by root.
        newest_options: whether this bubblewrap knows ``--disable-userns`` (0.8).
        devices: device files that are there inside too, such as GPUs.
        nests: whether the command is ours, and makes namespaces of its own; see ``warm_room``.
        proc: whether its processes may see one another in /proc.
    """
    options = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    options += ["--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    options += ["--hostname", "ringside", "--cap-drop", "ALL", "--clearenv"]
    if as_root:
        for capability in _KEPT_BY_ROOT + (_KEPT_TO_NEST if nests else ()):
            options += ["--cap-add", capability]
    else:
        options += ["--unshare-user", "--uid", str(_UID_INSIDE), "--gid", str(_UID_INSIDE)]
        # In a user namespace of its own a program would have every capability again.
        options += ["--disable-userns"] if newest_options and not nests else []
    for name, value in env.items():
        options += ["--setenv", name, value]
    options += ["--proc", "/proc"] if proc else []
    options += ["--dev", "/dev"]
    for device in devices:
        options += ["--dev-bind", str(device), str(device)]
    # After --dev, whose own tmpfs is writable and has no size of ours.
    options += ["--size", str(limits.shm_bytes), "--perms", "1777", "--tmpfs", "/dev/shm"]
    options += ["--remount-ro", "/dev"]
    options += ["--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", "/tmp"]
    # Last: a kit below /tmp would be hidden by what is laid over /tmp after it.
    # Libraries ask for the kind of processor there.
    cpu_binds = {} if proc else {"/proc/cpuinfo": Path("/proc/cpuinfo")}
    options += _mounts({**_system_binds(), **cpu_binds, **binds})
    return [*options, "--remount-ro", "/", "--chdir", "/tmp"]


def limiter(limits: Limits, *, nproc: int, uid: int | None) -> list[str]:
    """The commands between bubblewrap and the program: set limits, and leave root for ``uid``."""
    command = ["/usr/bin/prlimit", f"--nproc={nproc}", f"--cpu={limits.process_cpu_s}", "--core=0"]
    command += [f"--as={limits.address_space_bytes}", f"--fsize={limits.written_file_bytes}"]
    command += [f"--nofile={limits.open_files}", "--"]
    if uid is not None:
        command += ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        command += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"]
    return command


def _system_binds() -> dict[str, Path | str]:
    """Path inside -> path outside, or as a string the target of a symbolic link."""
    binds: dict[str, Path | str] = {}
    for path in map(Path, _SYSTEM):
        if path.is_dir() and not path.is_symlink():
            binds[str(path)] = path
    for link in map(Path, _LINKS):
        if link.is_symlink():
            binds[str(link)] = os.readlink(link)
        elif link.is_dir():
            binds[str(link)] = link
    for name in ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"):
        if Path(name).exists():
            binds[name] = Path(name).resolve()
    for path in [*interpreter_paths(), *(p.resolve() for p in interpreter_paths())]:
        if not _covered(path, binds):
            binds[str(path)] = path
    for path in _loaded_libraries():
        if not _covered(path, binds):
            binds[str(path)] = path
    binds.update(_links_to_interpreter(binds))
    return binds


def _links_to_interpreter(binds: Mapping[str, Path | str]) -> dict[str, Path | str]:
    """The links from sys.executable to the real program that no bind shows yet."""
    links: dict[str, Path | str] = {}
    path = Path(sys.executable)
    while path.is_symlink():
        target = os.readlink(path)
        if not _covered(path, binds):
            links[str(path)] = target
        path = Path(os.path.normpath(path.parent / target))
    if not _covered(path, binds):
        links[str(path)] = path
    return links


def _loaded_libraries() -> list[Path]:
    """Shared libraries that this process has loaded: some sites keep them in odd places."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    names = {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}
    return sorted(Path(name) for name in names if name.startswith("/") and ".so" in name)


def _covered(path: Path, binds: Iterable[str]) -> bool:
    return any(path.is_relative_to(bound) for bound in binds)


def _mounts(binds: Mapping[str, Path | str]) -> list[str]:
    """Options for the binds, outer folders first, and for hiding our own packages below them."""
    options: list[str] = []
    folders: set[Path] = {Path("/"), Path("/dev"), *_PRIVATE}
    shelves: list[str] = []
    # Sorted, a folder is bound before what lies below it, which it would hide otherwise.
    for inside in sorted(binds):
        for parent in reversed(Path(inside).parents):
            if parent in folders or _covered(parent, binds):
                continue
            if parent.parent in _PRIVATE:  # who may write there could move or replace what it holds
                options += ["--perms", "0755", "--tmpfs", str(parent)]
                shelves += ["--remount-ro", str(parent)]
            else:  # bubblewrap would make parents that only root may enter
                options += ["--perms", "0755", "--dir", str(parent)]
            folders.add(parent)
        outside = binds[inside]
        link = isinstance(outside, str)
        options += ["--symlink" if link else "--ro-bind", str(outside), inside]
    for folder in _site_folders():
        for name in _HIDDEN:
            hidden = folder / name
            if hidden.is_dir() and _covered(hidden, binds):
                options += ["--tmpfs", str(hidden), "--remount-ro", str(hidden)]
    # Read-only at the end: until then bubblewrap makes the places of the binds in them.
    return options + shelves


def _site_folders() -> Sequence[Path]:
    folders = [*site.getsitepackages(), *(path for path in sys.path if "site-packages" in path)]
    return [Path(folder) for folder in dict.fromkeys(folders)]


def start(
    command: Sequence[str],
    pass_fds: Sequence[int],
    env: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, with one pipe for all that it writes."""
    return subprocess.Popen(
        list(command),
        pass_fds=tuple(pass_fds),
        env=dict(env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        start_new_session=True,
        cwd="/",
    )


def start_bubblewrap(
    options: Sequence[str],
    command: Sequence[str],
    pass_fds: Sequence[int],
    *,
    before: Sequence[str] = (),
    nests: bool = False,
) -> tuple[subprocess.Popen[bytes], int | None, bytes]:
    """Start it with options by descriptor, so that no host path stands in its command line.

    ``before`` are words that do something and then become bubblewrap.
    """
    options_read = _pipe_holding(b"".join(option.encode() + b"\0" for option in options))
    info_read, info_write = os.pipe()
    ours = [options_read, info_write]
    prefix = [*before, program(), "--args", str(options_read), "--info-fd", str(info_write)]
    if not nests:
        ours.append(_pipe_holding(outer_filter()))
        prefix += ["--seccomp", str(ours[-1])]
    prefix += ["--", *_GATE]
    try:
        # Empty, since --clearenv leaves bubblewrap's own environment to be read in /proc/1/environ.
        popen = start([*prefix, *command], [*pass_fds, *ours], {}, stdin=subprocess.PIPE)
    finally:
        for descriptor in ours:
            os.close(descriptor)
    # Our writing end is closed above: so this ends, also where bubblewrap dies and writes nothing.
    with open(info_read, "rb") as stream:
        info = stream.read()
    try:
        # Before the gate opens: while the command waits there, its namespace is sure to exist.
        first = json.loads(info)["child-pid"]
        namespace = os.open(f"/proc/{first}/ns/pid", os.O_RDONLY)
    except (ValueError, KeyError, OSError):  # it ended at once; its output says why
        namespace = None
    return popen, namespace, _open_gate(popen)


def _open_gate(popen: subprocess.Popen[bytes]) -> bytes:
    """Let the command begin; returns what came in place of its being ready."""
    assert popen.stdin is not None and popen.stdout is not None
    line = b""
    # Byte by byte: what follows the line is for the drain, which reads the same descriptor.
    while not line.endswith(b"\n") and (byte := os.read(popen.stdout.fileno(), 1)):
        line += byte
    with contextlib.suppress(BrokenPipeError), popen.stdin:
        popen.stdin.write(b"go\n")
    return b"" if line == _READY else line


def outer_filter() -> bytes:
    """The filter of system calls round a whole sandbox."""
    return seccomp.pack(seccomp.assemble_outer(platform.machine()))


def _pipe_holding(data: bytes) -> int:
    """The reading end of a pipe that holds ``data`` and then ends."""
    read, write = os.pipe()
    # Nobody reads yet, so writing more than a pipe holds (64 KiB on Linux) would block for ever.
    with open(write, "wb") as stream:
        if len(data) > 60000:
            raise ValueError(f"{len(data)} bytes of options: more than a pipe holds")
        stream.write(data)
    return read


def program() -> str:
    """Where bubblewrap lies."""
    return shutil.which("bwrap") or "bwrap"


@functools.cache
def has_disable_userns() -> bool:
    """Whether this bubblewrap knows ``--disable-userns``."""
    answer = subprocess.run([program(), "--help"], capture_output=True, text=True, check=False)
    return "--disable-userns" in answer.stdout + answer.stderr
