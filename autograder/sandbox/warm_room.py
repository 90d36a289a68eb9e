"""Inside a warm nursery: shut a fork into namespaces of its own, as bubblewrap does with a program.

    nursery --fork--> way in --fork--> init (pid 1 of the room) --fork--> the program

The *way in* leaves the nursery's namespaces, and ends. *Init* mounts what the program may see over
what the nursery sees, gives up every right, sets the limits and the filter of system calls, and
only then forks the program. It reaps what the program leaves, and ends with it; then the kernel
ends all that is in the room. It ends too when nobody outside listens any more.

What the nursery has mounted is read-only, and neither the program nor its children can gain the
right to take a mount away: what lies below one is out of reach.

Started as root there is no user namespace, as with bubblewrap: the program becomes a user that owns
nothing. Started as anybody else, the room has a user namespace that allows no further ones.

Sources: namespaces(7), user_namespaces(7), mount(2), capabilities(7), prctl(2), netdevice(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import stat
import struct
from collections.abc import Mapping
from typing import Any

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _REC, _PRIVATE = 32, 4096, 16384, 1 << 18
_SET_DUMPABLE, _SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 4, 22, 24, 38, 47
_AMBIENT_CLEAR_ALL, _MODE_FILTER, _CAPABILITY_VERSION = 4, 2, 0x20080522
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus")  # of /proc: not to be written, by nobody
_libc = ctypes.CDLL(None, use_errno=True)

THERE, REFUSED, GO = b"!", b"?", b">"


def enter(room: Mapping[str, Any], outer_filter: bytes, life: socket.socket) -> None:
    """Leave the nursery for a room; returns in the program's process alone, without ``life``.

    Args:
        room: ``stage``, the folder whose ``modules``, ``job`` and ``passwd`` are shown; ``hide``,
            the folder that holds all stages; ``uid``, whom to become, None without root;
            ``shown``, what of the nursery's /tmp and /dev/shm is shown in the room's own;
            ``tmp_bytes``, ``shm_bytes``; ``proc``, whether its processes are shown in /proc; and
            ``limits``, those of ``setrlimit`` by name.
        outer_filter: the packed filter of system calls.
        life: hears ``!`` once all is set, or ``?`` and the reason why the kernel refuses. It says
            ``>`` for the program to begin, and hears its exit status in a byte, 128 and its number
            for a signal.
    """
    try:
        # The order holds: mounts and loopback need the rights that `_give_up` gives away, and the
        # filter refuses mounts and namespaces. What is forked afterwards inherits all of it.
        _leave_the_nursery(as_root=room["uid"] is not None)
        # After unshare the first child is process 1 of the namespace; this process stays outside.
        if os.fork():
            os._exit(0)
        os.setsid()
        _mount_all(room)
        _raise_loopback()
        _give_up(room["uid"])
        for name, value in room["limits"].items():
            resource.setrlimit(getattr(resource, name), (value, value))
        _filter(outer_filter)
        life.send(THERE)
        # Whoever asked now watches this process and puts it into a control group: a program that
        # had begun before could be outside of both.
        if life.recv(1) != GO:
            os._exit(1)
    except BaseException as error:
        life.send(REFUSED + str(error).encode()[:500])
        os._exit(1)
    try:
        program = os.fork()
    except OSError:  # no process to be had: from GO on a byte is an exit status
        life.send(b"\x01")
        os._exit(1)
    if program:
        _be_init(program, life)
    life.close()
    _prctl(_SET_DUMPABLE, 1)  # as after exec: MPI ranks of one program share memory by it
    os.setsid()


def _leave_the_nursery(*, as_root: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    spaces = _NEWNS | _NEWPID | _NEWIPC | _NEWNET | _NEWUTS | (0 if as_root else _NEWUSER)
    # In one call: the kernel makes the user namespace first, and the others belong to it.
    _check(_libc.unshare(spaces), "unshare")
    _libc.unshare(_NEWCGROUP)  # not every kernel has it
    if not as_root:
        for name, text in (
            # First: else the kernel takes no gid_map from a process without rights outside.
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")  # of this namespace


def _mount_all(room: Mapping[str, Any]) -> None:
    safe = _NOSUID | _NODEV
    # First: what is mounted from here on must not show in the nursery, and so in other rooms.
    _mount("", "/", "", _REC | _PRIVATE)
    for inside, name in (("/modules", "modules"), ("/job", "job"), ("/etc/passwd", "passwd")):
        _mount(f"{room['stage']}/{name}", inside, "", _BIND)  # read-only, as where it comes from
    # After the binds, whose sources it covers: from here on no submission's stage can be reached.
    _mount("tmpfs", room["hide"], "tmpfs", safe | _NOEXEC | _RDONLY, "mode=755,size=4k")
    # Before /tmp and /dev/shm are covered: afterwards only a descriptor leads there.
    held = [(path, os.open(path, os.O_PATH | os.O_NOFOLLOW)) for path in room["shown"]]
    _mount("tmpfs", "/tmp", "tmpfs", safe, f"mode=1777,size={room['tmp_bytes']}")
    _mount("tmpfs", "/dev/shm", "tmpfs", safe, f"mode=1777,size={room['shm_bytes']}")
    for path, number in held:
        _show(path, number)
    _mount("devpts", "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    # After `_show`, which goes through the nursery's /proc.
    if room["proc"]:
        _show_processes(safe)
    else:
        _mount("tmpfs", "/proc", "tmpfs", safe | _NOEXEC | _RDONLY, "mode=555,size=4k")
    os.chdir("/tmp")


def _show_processes(safe: int) -> None:
    """Those of the room, and nothing of the kernel that could be written."""
    _mount("proc", "/proc", "proc", safe | _NOEXEC)
    for path in (f"/proc/{name}" for name in _KERNEL):
        if os.path.exists(path):
            _mount(path, path, "", _BIND | _REC)
            _mount("", path, "", _REMOUNT | _BIND | _RDONLY | safe | _NOEXEC)


def _show(path: str, number: int) -> None:
    """Show what the nursery has at ``path``, open as ``number``, in a folder that was covered."""
    kind = stat.S_IFMT(os.fstat(number).st_mode)
    if kind == stat.S_IFLNK:
        os.symlink(os.readlink("", dir_fd=number), path)
    else:
        if kind == stat.S_IFDIR:
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        _mount(f"/proc/self/fd/{number}", path, "", _BIND | _REC)  # read-only, as the nursery's is
    os.close(number)


def _raise_loopback() -> None:
    """The device that MPI and gloo talk over; the kernel gives it 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", _IFF_UP)
        fcntl.ioctl(any_socket.fileno(), _SIOCSIFFLAGS, request)


def _give_up(uid: int | None) -> None:
    """Every right, for good; and leave root."""
    number = 0
    # Before the user changes, since it takes a right (CAP_SETPCAP). It ends behind the kernel's
    # last capability, which is above 30 on each kernel that has these namespaces.
    while _try_prctl(_CAPBSET_DROP, number):
        number += 1
    if number < 30:
        raise OSError(ctypes.get_errno(), f"capability {number} stays in the bounding set")
    _prctl(_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    if uid is not None:
        # The user last: whoever is not root any more can't change groups.
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    # Version 3: two times effective, permitted and inheritable, 4 bytes each.
    _check(_libc.capset(header, bytes(24)), "capset")
    # Without it the kernel takes no filter of system calls from a process without rights.
    _prctl(_SET_NO_NEW_PRIVS, 1)
    _prctl(_SET_DUMPABLE, 0)  # init's memory, environment and descriptors are for nobody


def _filter(packed: bytes) -> None:
    code = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack("@HP", len(packed) // 8, ctypes.addressof(code))  # struct sock_fprog
    header = ctypes.create_string_buffer(program)
    _prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(header))


def _be_init(program: int, life: socket.socket) -> None:
    """Reap, until the program has ended or nobody hears of it; then end, and all with it."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    life_fd = life.fileno()
    # The program's pipes must end with the program, and init has copies of their ends.
    os.closerange(3, life_fd)
    os.closerange(life_fd + 1, os.sysconf("SC_OPEN_MAX"))
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    # A child that ends between waitpid and poll leaves a byte here, so poll returns. The handler
    # does nothing, but without one the wakeup descriptor hears of no signal.
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    events = select.poll()
    events.register(read, select.POLLIN)
    events.register(life, 0)  # tells of the other end's closing all the same
    while True:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                status = os.waitstatus_to_exitcode(ended[1])
                life.send(bytes([status if status >= 0 else 128 - status]))
                os._exit(0)
        for number, _ in events.poll():
            if number == life_fd:
                os._exit(1)
            os.read(read, 4096)


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    strings = (word.encode() or None for word in (source, target, kind))
    result = _libc.mount(*strings, ctypes.c_ulong(flags), data.encode() or None)
    _check(result, f"mount {kind or source} on {target}")


def _prctl(option: int, value: int, more: int = 0) -> None:
    _check(0 if _try_prctl(option, value, more) else -1, f"prctl {option}")


def _try_prctl(option: int, value: int, more: int = 0) -> bool:
    words = (ctypes.c_ulong(word) for word in (value, more, 0, 0))
    return bool(_libc.prctl(option, *words) == 0)


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
