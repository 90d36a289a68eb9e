"""What one rank might try on its sibling; run by test_confine.py, with and without confinement.

    python -I sibling_attempts.py KIT confined|open      prints {attempt: [succeeded, error]}

For each attempt two processes are forked. The victim prepares, the attacker attacks, the victim
looks whether it noticed. An attempt that succeeds has moved information, or power, from one to
the other past the network.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
SHARED_FILE = os.__file__  # any file that both may read
MEMORY = ctypes.create_string_buffer(b"nothing here yet")  # at the same address in both
SECRET = b"rank 1's numbers"
OPENED_BEFORE = 99  # one file description for both
KEY = 0x52494E47
LONG_AGO = 1e9


def syscall(x86: int, aarch64: int, *arguments: Any) -> int:
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    answer = libc.syscall(x86 if X86 else aarch64, *words)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


def syscall_quietly(*arguments: Any) -> None:
    with contextlib.suppress(OSError):
        syscall(*arguments)


class Attempt:
    """One attempt; ``hint`` is what the attacker may know of the victim's preparation."""

    def prepare(self) -> Any:
        return None

    def attack(self, victim: int, hint: Any) -> bool:
        raise NotImplementedError

    def noticed(self) -> bool:
        return False

    def tidy(self) -> None:
        return None


class OfMemory(Attempt):
    def prepare(self) -> Any:
        MEMORY.value = SECRET


class ReadMemoryThroughProc(OfMemory):
    def attack(self, victim, hint):
        with open(f"/proc/{victim}/mem", "rb", buffering=0) as memory:
            memory.seek(ctypes.addressof(MEMORY))
            return memory.read(len(SECRET)) == SECRET


class ReadMemoryBySystemCall(OfMemory):
    def attack(self, victim, hint):
        local = ctypes.create_string_buffer(len(SECRET))
        here = struct.pack("@PN", ctypes.addressof(local), len(SECRET))
        there = struct.pack("@PN", ctypes.addressof(MEMORY), len(SECRET))
        syscall(310, 270, victim, here, 1, there, 1, 0)
        return local.raw == SECRET


class WriteMemoryBySystemCall(OfMemory):
    def attack(self, victim, hint):
        local = ctypes.create_string_buffer(b"changed by rank0")
        here = struct.pack("@PN", ctypes.addressof(local), 16)
        there = struct.pack("@PN", ctypes.addressof(MEMORY), 16)
        return syscall(311, 271, victim, here, 1, there, 1, 0) == 16

    def noticed(self):
        return MEMORY.raw[:16] != SECRET


class WriteMemoryOfTheZygote(Attempt):
    def attack(self, victim, hint):
        with open(f"/proc/{os.getppid()}/mem", "r+b", buffering=0) as memory:
            memory.seek(ctypes.addressof(MEMORY))
            return len(memory.read(4)) == 4


class Trace(OfMemory):
    def attack(self, victim, hint):
        syscall(101, 117, 16, victim, 0, 0)  # PTRACE_ATTACH
        os.waitpid(victim, 0x40000000)  # __WALL
        syscall(101, 117, 17, victim, 0, 0)  # PTRACE_DETACH
        return True


class StealDescriptor(Attempt):
    def prepare(self):
        self.pipe = os.pipe()
        os.write(self.pipe[1], SECRET)
        return self.pipe[0]

    def attack(self, victim, hint):
        handle = syscall(434, 434, victim, 0)
        stolen = syscall(438, 438, handle, 3 if hint is None else hint, 0)
        return hint is None or os.read(stolen, 100) == SECRET


class OpenDescriptorThroughProc(Attempt):
    def attack(self, victim, hint):
        with open(f"/proc/{victim}/fd/1", "wb", buffering=0):
            return True


class Signal(Attempt):
    got = False

    def prepare(self):
        def note(*_):
            self.got = True

        signal.signal(signal.SIGUSR1, note)

    def attack(self, victim, hint):
        os.kill(victim, signal.SIGUSR1)
        return False  # the victim says

    def noticed(self):
        return self.got


class SignalByThread(Signal):
    def attack(self, victim, hint):
        syscall(234, 131, victim, victim, int(signal.SIGUSR1))
        return False


class SignalByQueue(Signal):
    def attack(self, victim, hint):
        info = struct.pack("=iii", int(signal.SIGUSR1), 0, -1).ljust(128, b"\0")
        syscall(129, 138, victim, int(signal.SIGUSR1), info)
        return False


class AskWhetherItLives(Attempt):
    def attack(self, victim, hint):
        os.kill(victim, 0)
        return True


class LocalTcp(Attempt):
    def prepare(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        return self.socket.getsockname()[1]

    def attack(self, victim, hint):
        socket.create_connection(("127.0.0.1", hint or 9), timeout=2).send(b"hello")
        return True


class AbstractSocket(Attempt):
    def prepare(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"\0ringside-{os.getpid()}")

    def attack(self, victim, hint):
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", f"\0ringside-{victim}")
        return True


class SocketPair(Attempt):
    """A pair's end can be given an abstract name without ``socket``."""

    def attack(self, victim, hint):
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        return True


class SystemVMemory(Attempt):
    def prepare(self):
        self.number = syscall(29, 194, KEY ^ os.getpid(), 4096, 0o1666)

    def attack(self, victim, hint):
        return syscall(29, 194, KEY ^ victim, 4096, 0o666) >= 0

    def tidy(self):
        syscall(31, 195, self.number, 0, 0)


class SystemVMessages(Attempt):
    def prepare(self):
        self.number = syscall(68, 186, KEY ^ os.getpid(), 0o1666)

    def attack(self, victim, hint):
        return syscall(68, 186, KEY ^ victim, 0o666) >= 0

    def tidy(self):
        syscall(71, 187, self.number, 0, 0)


class PosixQueue(Attempt):
    def prepare(self):
        self.name = f"ringside-{os.getpid()}".encode()
        syscall(240, 180, self.name, os.O_CREAT | os.O_RDWR, 0o666, None)

    def attack(self, victim, hint):
        return syscall(240, 180, f"ringside-{victim}".encode(), os.O_RDWR, 0, None) >= 0

    def tidy(self):
        syscall(241, 181, self.name)


class KeyRing(Attempt):
    def prepare(self):
        syscall(248, 217, b"user", b"ringside-test", SECRET, len(SECRET), -4)  # user keyring

    def attack(self, victim, hint):
        return syscall(250, 219, 10, -4, b"user", b"ringside-test", 0) > 0  # search

    def tidy(self):
        key = syscall(250, 219, 10, -4, b"user", b"ringside-test", 0)
        syscall(250, 219, 9, key, -4)  # unlink


class FileInTmp(Attempt):
    def prepare(self):
        self.path = f"/tmp/ringside-test-{os.getpid()}"
        with open(self.path, "wb") as file:
            file.write(SECRET)

    def attack(self, victim, hint):
        with open(f"/tmp/ringside-test-{victim}", "rb") as file:
            return file.read() == SECRET

    def tidy(self):
        os.unlink(self.path)


class FileInSharedMemory(FileInTmp):
    def prepare(self):
        self.path = f"/dev/shm/ringside-test-{os.getpid()}"
        with open(self.path, "wb") as file:
            file.write(SECRET)

    def attack(self, victim, hint):
        return os.path.exists(f"/dev/shm/ringside-test-{victim}")


class FolderName(Attempt):
    """``stat`` is not restricted by Landlock, so making names must be."""

    def prepare(self):
        os.mkdir(f"/tmp/ringside-test-{os.getpid()}")

    def attack(self, victim, hint):
        return os.path.isdir(f"/tmp/ringside-test-{victim}")

    def tidy(self):
        os.rmdir(f"/tmp/ringside-test-{os.getpid()}")


class TimeStamp(Attempt):
    def prepare(self):
        self.path = f"/tmp/ringside-test-{os.getpid()}"
        with open(self.path, "wb"):
            os.utime(self.path, (1, 1))

    def attack(self, victim, hint):
        return os.stat(f"/tmp/ringside-test-{victim}").st_mtime == 1

    def tidy(self):
        os.unlink(self.path)


class LockOnSharedFile(Attempt):
    def prepare(self):
        self.file = open(SHARED_FILE)  # noqa: SIM115
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def attack(self, victim, hint):
        try:
            fcntl.flock(open(SHARED_FILE), fcntl.LOCK_EX | fcntl.LOCK_NB)  # noqa: SIM115
        except BlockingIOError:
            return True
        return False


class RecordLockOnNull(Attempt):
    def prepare(self):
        self.file = open("/dev/null", "wb")  # noqa: SIM115
        fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 77)

    def attack(self, victim, hint):
        try:
            fcntl.lockf(open("/dev/null", "wb"), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 77)  # noqa: SIM115
        except BlockingIOError:
            return True
        return False


class FutexOnSharedPage(Attempt):
    """Both map the same file; the kernel keys such a futex by file and offset."""

    def _address(self) -> int:
        libc.mmap.restype = ctypes.c_void_p
        one_page, start = ctypes.c_size_t(4096), ctypes.c_long(0)
        with open(SHARED_FILE, "rb") as file:
            return libc.mmap(None, one_page, 1, mmap.MAP_PRIVATE, file.fileno(), start)

    def prepare(self):
        address = self._address()
        word = ctypes.c_uint32.from_address(address).value
        limit = struct.pack("@ll", 3, 0)

        def wait():
            # FUTEX_WAIT, not private; again and again, as the filter's EAGAIN asks for
            end = time.monotonic() + 1
            while time.monotonic() < end:
                syscall_quietly(202, 98, ctypes.c_void_p(address), 0, word, limit, 0, 0)

        threading.Thread(target=wait, daemon=True).start()

    def attack(self, victim, hint):
        address = self._address()
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            if syscall(202, 98, ctypes.c_void_p(address), 1, 1, 0, 0, 0) > 0:  # FUTEX_WAKE
                return True
        return False


class WatchSharedFile(Attempt):
    def prepare(self):
        self.watch = syscall(294, 26, 0o4000)
        syscall(254, 27, self.watch, SHARED_FILE.encode(), 0x20)  # IN_OPEN

    def attack(self, victim, hint):
        open(SHARED_FILE).close()
        return False

    def noticed(self):
        return bool(select.select([self.watch], [], [], 0.2)[0])


class PageCacheByFlag(Attempt):
    def attack(self, victim, hint):
        buffer = bytearray(16)
        with open(SHARED_FILE, "rb", buffering=0) as file:
            return os.preadv(file.fileno(), [buffer], 0, os.RWF_NOWAIT) > 0


class PageCacheByMincore(Attempt):
    def attack(self, victim, hint):
        page = ctypes.create_string_buffer(1)
        return syscall(27, 232, ctypes.c_void_p(FutexOnSharedPage()._address()), 4096, page) == 0


class Priority(Attempt):
    def prepare(self):
        os.setpriority(os.PRIO_PROCESS, 0, 7)

    def attack(self, victim, hint):
        return os.getpriority(os.PRIO_PROCESS, victim) == 7


class ProcessGroup(Attempt):
    def prepare(self):
        os.setpgid(0, 0)

    def attack(self, victim, hint):
        return os.getpgid(victim) == victim


class CpuClock(Attempt):
    def attack(self, victim, hint):
        return time.clock_gettime(((~victim) << 3) | 2) >= 0


class LimitsOfTheOther(Attempt):
    def attack(self, victim, hint):
        return bool(resource.prlimit(victim, resource.RLIMIT_NOFILE))


class MoreCores(Attempt):
    def attack(self, victim, hint):
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        return True


class PositionOfSharedDescriptor(Attempt):
    def prepare(self):
        os.lseek(OPENED_BEFORE, 77, os.SEEK_SET)

    def attack(self, victim, hint):
        return os.lseek(OPENED_BEFORE, 0, os.SEEK_CUR) == 77


class FlagOfSharedDescriptor(Attempt):
    def prepare(self):
        fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)

    def attack(self, victim, hint):
        return bool(fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK)


class Fork(Attempt):
    def attack(self, victim, hint):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return True


class ForkByClone(Attempt):
    def attack(self, victim, hint):
        child = syscall(56, 220, int(signal.SIGCHLD), 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return True


class ForkFromThread(Fork):
    def attack(self, victim, hint):
        results = []

        def run():
            try:
                results.append(Fork().attack(victim, hint))
            except OSError:
                results.append(False)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return results == [True]


class StartProgram(Attempt):
    def attack(self, victim, hint):
        return subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


class AnonymousFile(Attempt):
    def attack(self, victim, hint):
        return os.memfd_create("x") >= 0


class BecomeDumpableAgain(Attempt):
    def attack(self, victim, hint):
        return libc.prctl(4, 1, 0, 0, 0) == 0


class ReadEtcPasswd(Attempt):
    def attack(self, victim, hint):
        with open("/etc/passwd") as file:
            return bool(file.read())


class ListProcesses(Attempt):
    def attack(self, victim, hint):
        return str(victim) in os.listdir("/proc")


class CountDescriptors(Attempt):
    """The size of a folder that may not be opened is the number of what is in it."""

    def prepare(self):
        self.files = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]

    def attack(self, victim, hint):
        return os.stat(f"/proc/{victim}/fd").st_size > 100


class CountThreads(Attempt):
    def prepare(self):
        for _ in range(10):
            threading.Thread(target=time.sleep, args=(20,), daemon=True).start()

    def attack(self, victim, hint):
        return os.stat(f"/proc/{victim}/task").st_nlink > 10


class AskWhetherAThreadLives(Attempt):
    def prepare(self):
        thread = threading.Thread(target=time.sleep, args=(20,), daemon=True)
        thread.start()
        return thread.native_id

    def attack(self, victim, hint):
        return os.sched_getscheduler(victim if hint is None else hint) >= 0


class TimeOfAccess(Attempt):
    """A file that was read long ago gets a new time when it is read again."""

    def prepare(self):
        self.before = os.stat(SHARED_FILE).st_atime

    def attack(self, victim, hint):
        with open(SHARED_FILE) as file:
            return not file.read(1)

    def noticed(self):
        return os.stat(SHARED_FILE).st_atime != self.before


class FreeRoom(Attempt):
    """How much is free on a file system that both see."""

    def attack(self, victim, hint):
        return os.statvfs(SHARED_FILE).f_bfree > 0


class LoadOfTheMachine(Attempt):
    def attack(self, victim, hint):
        return syscall(99, 179, ctypes.create_string_buffer(256)) == 0  # sysinfo


class NewUserNamespace(Attempt):
    def attack(self, victim, hint):
        return syscall(272, 97, 0x10000000) == 0


ATTEMPTS = {
    cls.__name__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and issubclass(cls, Attempt) and cls not in (Attempt, OfMemory)
}


def run(attempt: Attempt, confined: bool) -> tuple[bool, str]:
    """Fork victim and attacker, let the attempt run, and say whether it succeeded."""
    names = ("to_victim", "from_victim", "to_attacker", "from_attacker")
    pipes = {name: os.pipe() for name in names}
    for read, write in pipes.values():
        os.set_inheritable(read, True)
        os.set_inheritable(write, True)
    victim = _fork(_victim, attempt, confined, pipes["to_victim"][0], pipes["from_victim"][1])
    prepared = _receive(pipes["from_victim"][0])
    attacker = _fork(
        _attacker, attempt, confined, pipes["to_attacker"][0], pipes["from_attacker"][1]
    )
    os.write(pipes["to_attacker"][1], json.dumps([victim, prepared.get("hint")]).encode())
    attacked = _receive(pipes["from_attacker"][0])
    os.write(pipes["to_victim"][1], b"{}")
    noticed = _receive(pipes["from_victim"][0])
    for pid in (victim, attacker):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for pair in pipes.values():
        os.close(pair[0])
        os.close(pair[1])
    success = bool(attacked.get("value")) or bool(noticed.get("value"))
    return success, " | ".join(filter(None, (prepared.get("error"), attacked.get("error"))))


def _fork(role, attempt, confined, read, write) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        if confined:
            from ringside.ranks.confine import confine

            confine(None, keep_fds=(read, write))
        role(attempt, read, write)
        time.sleep(30)  # keeps what was prepared; the parent kills
    finally:
        os._exit(1)


def _victim(attempt, read, write):
    _send(write, "hint", attempt.prepare)
    os.read(read, 100)
    _send(write, "value", attempt.noticed)
    with contextlib.suppress(OSError, AttributeError):
        attempt.tidy()


def _attacker(attempt, read, write):
    victim, hint = json.loads(os.read(read, 4096))
    _send(write, "value", lambda: attempt.attack(victim, hint))


def _send(write, name, function):
    try:
        message = {name: function()}
    except BaseException as error:
        message = {"error": f"{type(error).__name__}: {error}"}
    os.write(write, json.dumps(message).encode())


def _receive(read: int) -> dict[str, Any]:
    if not select.select([read], [], [], 10)[0]:
        return {"error": "no answer"}
    return json.loads(os.read(read, 4096) or b"{}")


def main(kit: str, mode: str) -> None:
    sys.path.insert(0, kit)
    from ringside.ranks.confine import harden_zygote

    if mode == "confined":
        harden_zygote()
    os.dup2(os.open(SHARED_FILE, os.O_RDONLY), OPENED_BEFORE)
    with contextlib.suppress(OSError):  # where nobody can write, no time changes
        os.utime(SHARED_FILE, (LONG_AGO, os.stat(SHARED_FILE).st_mtime))
    results = {name: run(cls(), mode == "confined") for name, cls in ATTEMPTS.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
