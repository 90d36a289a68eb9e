"""System call filters, assembled here as classic BPF: one for a rank, one for a whole sandbox.

A rank's filter is a list of what it may do. A refused call gives an error number, so that student
code sees a Python exception and not a killed process::

    wrong architecture                      kill the process
    number above the newest known call      ENOSYS   (tomorrow's system calls)
    clone3                                  ENOSYS   (the C library then uses clone, whose flags
                                                      a filter can read)
    on the list                             allowed
    on the list for some arguments          see ``_argument_rules``; else EPERM
    anything else                           EPERM

On the list is what touches nothing but the process itself, its files and the connection that it
has. Not on it are calls by which a process reaches another one or gains rights, and those by which
two ranks could tell each other something that the network does not count (locks on shared files,
futexes on shared pages, change notification, page-cache residency, free room on a disk, process
groups, priorities, whether a process is there). NumPy, torch, the mpi4py front end and their
threads need two dozen of them.

The sandbox's own filter, ``assemble_outer``, stands round zygote and ``mpiexec``. It is a list of
refusals: it allows processes and sockets, and refuses what no namespace separates (key rings,
vsock) and what makes the kernel's surface large.

Sources: seccomp(2), bpf(4), the kernel's unistd.h of x86_64 and of the generic table (aarch64).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from collections.abc import Iterable, Sequence

__all__ = [
    "ARCHITECTURES",
    "assemble",
    "assemble_outer",
    "install",
    "pack",
    "prepare",
    "refuse_moving",
    "refuse_processes",
]

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant

_NEWEST = 450  # set_mempolicy_home_node (Linux 5.17), the same number on both architectures
_X32_BIT = 0x40000000
_LOAD, _JEQ, _JGT, _JGE, _JSET, _RET = 0x20, 0x15, 0x25, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_PR_SET_SECCOMP, _MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
_libc = ctypes.CDLL(None, use_errno=True)

# name: (x86_64, aarch64); None where the architecture has no such call.
_Numbers = dict[str, tuple[int | None, int | None]]

_FILES: _Numbers = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66),
    "pread64": (17, 67), "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70),
    "lseek": (8, 62), "open": (2, None), "openat": (257, 56), "close": (3, 57),
    "close_range": (436, 436), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None),
    "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17),
    "chdir": (80, 49), "fchdir": (81, 50), "getdents": (78, None), "getdents64": (217, 61),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "ftruncate": (77, 46),
    "fsync": (74, 82), "fdatasync": (75, 83), "umask": (95, 166), "sendfile": (40, 71),
}  # fmt: skip
# With Landlock, which knows where; without it nothing is changed.
_FILE_CHANGES: _Numbers = {
    "creat": (85, None), "mkdir": (83, None), "mkdirat": (258, 34), "unlink": (87, None),
    "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "rmdir": (84, None), "truncate": (76, 45),
}  # fmt: skip
_CONNECTION: _Numbers = {
    "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211), "recvmsg": (47, 212),
    "sendmmsg": (307, 269), "recvmmsg": (299, 243), "shutdown": (48, 210),
    "getsockname": (51, 204), "getpeername": (52, 205), "getsockopt": (55, 209),
    "setsockopt": (54, 208), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "epoll_create": (213, None), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441), "eventfd": (284, None), "eventfd2": (290, 19),
}  # fmt: skip
_MEMORY: _Numbers = {
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226),
    "mremap": (25, 216), "madvise": (28, 233), "msync": (26, 227), "mlock": (149, 228),
    "munlock": (150, 229),
}  # fmt: skip
_THREADS: _Numbers = {
    "gettid": (186, 178), "set_tid_address": (218, 96), "set_robust_list": (273, 99),
    "rseq": (334, 293), "arch_prctl": (158, None), "sched_yield": (24, 124),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "getcpu": (309, 168), "exit": (60, 93), "exit_group": (231, 94),
    "restart_syscall": (219, 128),
}  # fmt: skip
_SIGNALS: _Numbers = {
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132), "pause": (34, None), "alarm": (37, None), "getitimer": (36, 102),
    "setitimer": (38, 103),
}  # fmt: skip
_OF_ITSELF: _Numbers = {
    "getpid": (39, 172), "getppid": (110, 173), "getpgrp": (111, None), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "getrlimit": (97, 163),
    "getrusage": (98, 165), "times": (100, 153), "time": (201, None), "gettimeofday": (96, 169),
    "nanosleep": (35, 101), "getrandom": (318, 278), "uname": (63, 160), "wait4": (61, 260),
    "waitid": (247, 95),
}  # fmt: skip
_ALLOWED: _Numbers = {
    **_FILES, **_CONNECTION, **_MEMORY, **_THREADS, **_SIGNALS, **_OF_ITSELF,
}  # fmt: skip

# Allowed for some arguments.
_CONDITIONAL: _Numbers = {
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "prlimit64": (302, 261), "getpgid": (121, 155), "getsid": (124, 156),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "getpriority": (140, 141), "fcntl": (72, 25),
    "ioctl": (16, 29), "prctl": (157, 167), "futex": (202, 98), "preadv2": (327, 286),
    "pwritev2": (328, 287), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "open": (2, None), "openat": (257, 56),
    "socket": (41, 198), "socketpair": (53, 199),
}  # fmt: skip

# What the other filters refuse.
_PROCESSES: _Numbers = {
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "setsid": (112, 157), "setpgid": (109, 154),
}  # fmt: skip
_MOVING: _Numbers = {
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "timer_create": (222, 107), "pidfd_send_signal": (424, 424),
}  # fmt: skip
_OUTER_REFUSES: _Numbers = {
    "ptrace": (101, 117), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "memfd_secret": (447, 447), "perf_event_open": (298, 241), "lookup_dcookie": (212, 18),
    "syslog": (103, 116), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_setup": (206, 0), "bpf": (321, 280), "userfaultfd": (323, 282), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161),
    "setdomainname": (171, 162), "vhangup": (153, 58), "uselib": (134, None),
}  # fmt: skip

_ANY_PID = 0x7ACEB00C  # above every process id, and no other constant of the filter
_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020080  # every CLONE_NEW* flag
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_FUTEX_PRIVATE = 0x80
_FCNTL_ALLOWED = (0, 1, 2, 3, 4, 1030)  # F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_DUPFD_CLOEXEC
_IOCTL_ALLOWED = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
#                 TCGETS  TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_PRCTL_ALLOWED = (3, 15, 16, 21, 23, 29, 30, 39, 0x53564D41)
# PR_GET_DUMPABLE PR_SET_NAME PR_GET_NAME PR_GET_SECCOMP PR_CAPBSET_READ
# PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_GET_NO_NEW_PRIVS PR_SET_VMA
_OPEN_FOR_WRITING = 0x3 | 0o100 | 0o1000  # access mode, O_CREAT, O_TRUNC


def install(
    architecture: str | None = None, *, pid: int, threads: bool = True, file_changes: bool = True
) -> None:
    """Put the filter on the calling thread and on all that it starts; it can't be taken off.

    Args:
        pid: the process's own id, as it sees it: the one process that it may signal.
        threads: whether it may start threads; processes never.
        file_changes: False refuses every way to change a file; for kernels without Landlock.

    Raises:
        OSError: the kernel refuses, or the architecture is not known here.
    """
    template = prepare(architecture or os.uname().machine, threads, file_changes)
    _put_on(template.replace(struct.pack("=I", _ANY_PID), struct.pack("=I", pid)))


def refuse_processes(pid: int) -> None:
    """Let this process start threads, and neither processes nor programs; for ranks of real MPI.

    They share memory and sockets, so nothing else can be refused them. It needs no rights.

    Raises:
        OSError: the kernel refuses, or the architecture is not known here.
    """
    rules = [
        ("clone", _only_with_bit(0, _CLONE_THREAD)),
        ("clone3", [_error(errno.ENOSYS)]),
        *((name, _only_values(0, (pid,))) for name in ("kill", "tkill", "tgkill")),
    ]
    program = pack(_program(os.uname().machine, rules, refused=_PROCESSES))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses no_new_privs")
    _put_on(program)


def refuse_moving() -> None:
    """Keep this process on its cores, at its priority, and stopped while it is stopped.

    For ranks that are measured: on top of ``refuse_processes``. A timer could wake them.

    Raises:
        OSError: the kernel refuses, or the architecture is not known here.
    """
    _put_on(pack(_program(os.uname().machine, [], refused=_MOVING)))


def _put_on(packed: bytes) -> None:
    # Buffers have names here, as an address alone doesn't keep one alive until the call.
    code = ctypes.create_string_buffer(packed, len(packed))
    program = struct.pack("@HP", len(packed) // 8, ctypes.addressof(code))  # struct sock_fprog
    header = ctypes.create_string_buffer(program)
    pointer = ctypes.c_ulong(ctypes.addressof(header))
    if _libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), pointer, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel refuses a seccomp filter: {errno.errorcode[number]}")


@functools.cache
def prepare(architecture: str, threads: bool, file_changes: bool) -> bytes:
    """The packed filter of a process not yet known; done before forking it costs ranks nothing."""
    return pack(assemble(architecture, pid=_ANY_PID, threads=threads, file_changes=file_changes))


def assemble(
    architecture: str, *, pid: int, threads: bool = True, file_changes: bool = True
) -> list[Instruction]:
    """The filter as BPF instructions; arguments as in ``install``."""
    allowed = {**_ALLOWED, **_FILE_CHANGES} if file_changes else _ALLOWED
    return _program(architecture, _argument_rules(pid, threads, file_changes), allowed=allowed)


def assemble_outer(architecture: str) -> list[Instruction]:
    """The filter round a whole sandbox, as BPF instructions."""
    rules = [
        ("clone", _without_bits(0, _CLONE_NEW, errno.EPERM)),
        ("clone3", [_error(errno.ENOSYS)]),
        ("socket", _only_values(0, _FAMILIES, errno.EAFNOSUPPORT)),
        ("socketpair", _only_values(0, _FAMILIES, errno.EAFNOSUPPORT)),
    ]
    return _program(architecture, rules, refused=_OUTER_REFUSES)


def pack(program: Sequence[Instruction]) -> bytes:
    """A program as the kernel and bubblewrap read it: an array of ``struct sock_filter``."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _program(
    architecture: str,
    rules: Iterable[tuple[str, list[Instruction]]],
    *,
    allowed: _Numbers | None = None,
    refused: _Numbers | None = None,
) -> list[Instruction]:
    """A filter: the rules first, then a list of what is allowed or one of what is refused."""
    if architecture not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system call table for the architecture {architecture}")
    column = list(ARCHITECTURES).index(architecture)
    allow, refuse = (_RET, 0, 0, _ALLOW), _error(errno.EPERM)
    program: list[Instruction] = [
        (_LOAD, 0, 0, 4),  # seccomp_data.arch
        (_JEQ, 1, 0, ARCHITECTURES[architecture]),
        (_RET, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        # The bit of the x32 interface is above every number, so one comparison meets both.
        (_JGT, 0, 1, _NEWEST),
        _error(errno.ENOSYS),
    ]
    # A block loads its argument over the call's number, so none may fall through to the next.
    for name, block in rules:
        number = _CONDITIONAL[name][column]
        if number is not None:
            program += [(_JEQ, 0, len(block), number), *block]
    listed, answer, otherwise = (allowed, allow, refuse) if allowed else (refused, refuse, allow)
    for first, last in _ranges(_numbers(listed or {}, column)):
        program += [(_JGE, 0, 2, first), (_JGT, 1, 0, last), answer]
    return [*program, otherwise]


def _argument_rules(
    pid: int, threads: bool, file_changes: bool
) -> list[tuple[str, list[Instruction]]]:
    """Per system call a block that looks at arguments; each block ends with a return."""
    rules = [
        ("clone", _only_with_bit(0, _CLONE_THREAD) if threads else [_error(errno.EPERM)]),
        ("clone3", [_error(errno.ENOSYS)]),
        ("prlimit64", _only_values(0, (0, pid))),
        ("fcntl", _only_values(1, _FCNTL_ALLOWED)),
        ("ioctl", _only_values(1, _IOCTL_ALLOWED, errno.ENOTTY)),
        ("prctl", _only_values(0, _PRCTL_ALLOWED)),
        ("futex", _private_futex()),
        # The flag RWF_NOWAIT tells whether a page is in the cache.
        ("preadv2", _only_values(5, (0,), errno.EOPNOTSUPP)),
        ("pwritev2", _only_values(5, (0,), errno.EOPNOTSUPP)),
    ]
    rules += [(name, _only_values(0, (pid,))) for name in ("kill", "tkill", "tgkill")]
    rules += [(name, _only_values(0, (pid,))) for name in ("rt_sigqueueinfo", "rt_tgsigqueueinfo")]
    of_itself = ("getpgid", "getsid", "sched_getaffinity", "sched_getparam", "sched_getscheduler")
    rules += [(name, _only_values(0, (0, pid))) for name in of_itself]
    rules.append(("getpriority", _only_values(1, (0, pid))))
    # A negative clock is another process's or thread's CPU time.
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        rules.append((name, _without_bits(0, 0x80000000, errno.EINVAL)))
    if not file_changes:
        rules.append(("open", _without_bits(1, _OPEN_FOR_WRITING, errno.EACCES)))
        rules.append(("openat", _without_bits(2, _OPEN_FOR_WRITING, errno.EACCES)))
    return rules


def _error(number: int) -> Instruction:
    return (_RET, 0, 0, _ERRNO | number)


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index)  # the low half; every argument looked at is an int


def _only_values(
    index: int, values: Sequence[int], refusal: int = errno.EPERM
) -> list[Instruction]:
    tests = [(_JEQ, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_argument(index), *tests, _error(refusal), (_RET, 0, 0, _ALLOW)]


def _only_with_bit(index: int, bit: int) -> list[Instruction]:
    return [_argument(index), (_JSET, 1, 0, bit), _error(errno.EPERM), (_RET, 0, 0, _ALLOW)]


def _without_bits(index: int, bits: int, refusal: int) -> list[Instruction]:
    return [_argument(index), (_JSET, 0, 1, bits), _error(refusal), (_RET, 0, 0, _ALLOW)]


def _private_futex() -> list[Instruction]:
    """Refuse futexes that other processes could share.

    A page of a library is the same page in every rank, so a wake there that counts its waiters
    is a message. The C library itself waits on a shared futex in ``pthread_join`` only, and takes
    EAGAIN for "look again".
    """
    waits = (0, 9, 0x109)  # FUTEX_WAIT, FUTEX_WAIT_BITSET without and with the real-time clock
    return [
        _argument(1),
        (_JSET, len(waits) + 2, 0, _FUTEX_PRIVATE),
        *((_JEQ, len(waits) - i, 0, wait) for i, wait in enumerate(waits)),
        _error(errno.EPERM),
        _error(errno.EAGAIN),
        (_RET, 0, 0, _ALLOW),
    ]


def _numbers(table: _Numbers, column: int) -> list[int]:
    return [number for row in table.values() if (number := row[column]) is not None]


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Sorted numbers as closed intervals.

    >>> _ranges([7, 3, 1, 2])
    [(1, 3), (7, 7)]
    """
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
