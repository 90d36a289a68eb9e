"""The quarantine: regular files only, counted and capped, archives without tricks."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.collect import zip_archive
from autograder.collect.quarantine import (
    Rejected,
    extract_zip,
    inspect,
    read_directory_size,
    read_regular,
    sweep,
)
from autograder.course.limits import Limits

SMALL = Limits(
    submission_files=3,
    submission_depth=2,
    module_bytes=100,
    submission_file_bytes=2_000,
    submission_bytes=3_000,
    zip_bytes=100_000,
)


def test_links_pipes_sockets_hard_links_and_large_files_are_refused_and_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "ring.py").write_text("x = 1")
    (tmp_path / "big.py").write_text("x" * 101)
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "deep").mkdir()
    os.link(tmp_path / "big.py", tmp_path / "other" / "hard")
    found = inspect(tmp_path, SMALL)
    assert found.files == {"ring.py": 5}
    assert {name: why.split(";")[0] for name, why in found.refused.items()} == {
        "big.py": "is a hard link to another file",
        "link.py": "is a symbolic link",
        "folder": "is a symbolic link",
        "pipe": "is not a regular file",
        "other/deep": "is nested deeper than 2 folders",
        "other/hard": "is a hard link to another file",
    }
    os.unlink(tmp_path / "other" / "hard")
    assert "is 0.0 MiB" in inspect(tmp_path, SMALL).refused["big.py"]


@pytest.mark.parametrize("count", [4, 13])
def test_too_many_files_reject_the_whole(tmp_path: Path, count: int) -> None:
    for index in range(count):
        (tmp_path / f"{index}.txt").write_text("")
    with pytest.raises(Rejected, match="more than 3 files"):
        inspect(tmp_path, SMALL)


def test_too_many_bytes_reject_the_whole(tmp_path: Path) -> None:
    for index in range(2):
        (tmp_path / f"{index}.txt").write_text("x" * 1_900)
    with pytest.raises(Rejected, match="larger than"):
        inspect(tmp_path, SMALL)


def test_reading_neither_follows_a_link_nor_waits_on_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to(__file__)
    (tmp_path / "large.py").write_text("x" * 200)
    with pytest.raises(Rejected, match=r"pipe\.py is not a regular file"):
        read_regular(tmp_path / "pipe.py")
    with pytest.raises(Rejected, match=r"link\.py can't be read"):
        read_regular(tmp_path / "link.py")
    with pytest.raises(Rejected, match="is larger than"):
        read_regular(tmp_path / "large.py", 100)
    with pytest.raises(Rejected, match="is not a regular file"):
        read_regular(tmp_path)


def test_a_folder_that_may_not_be_listed_is_refused_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ring.py").write_text("x = 1")
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refusing(path: Path) -> object:  # root may list any folder
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = inspect(tmp_path, SMALL)
    assert list(found.files) == ["ring.py"] and found.refused == {"shut": "may not be listed"}


def test_a_sweep_moves_what_is_refused_and_can_be_repeated(tmp_path: Path) -> None:
    folder, shelf = tmp_path / "hand-in", tmp_path / "shelf"
    folder.mkdir()
    for _ in range(2):
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "ring.py").write_text("x = 1")
        assert list(sweep(folder, shelf, SMALL)) == ["link"]
        assert [path.name for path in folder.iterdir()] == ["ring.py"]
        assert (shelf / "link").is_symlink()
    assert (tmp_path / "shelf.1" / "link").is_symlink()  # of the first time
    for index in range(9):
        (folder / f"{index}").write_text("")
    assert list(sweep(folder, shelf, SMALL)) == ["."]
    assert list(folder.iterdir()) == []


def test_nothing_is_moved_through_a_link_that_an_earlier_submission_left(tmp_path: Path) -> None:
    folder, shelf, outside = tmp_path / "hand-in", tmp_path / "shelf", tmp_path / "home"
    for each in (folder, outside):
        each.mkdir()
    (folder / "sub").symlink_to(outside)
    assert list(sweep(folder, shelf, SMALL)) == ["sub"]
    (folder / "sub").mkdir()
    (folder / "sub" / "link").symlink_to("/etc/passwd")
    assert list(sweep(folder, shelf, SMALL)) == ["sub/link"]
    assert list(outside.iterdir()) == [] and (shelf / "sub" / "link").is_symlink()


Pack = Callable[..., Path]


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    def make(
        *members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
    ) -> Path:
        path = tmp_path / "hand-in.zip"
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in members:
                archive.writestr(name, content)
        return path

    return make


def test_an_archive_is_unpacked_and_its_one_folder_taken_off(tmp_path: Path, pack: Pack) -> None:
    archive = pack(("top/ring.py", b"x"), ("top/sub/a.txt", b"y"), ("__MACOSX/top/x", b"z"))
    assert extract_zip(archive, tmp_path / "out") == ["ring.py", "sub/a.txt"]
    assert (tmp_path / "out" / "ring.py").read_bytes() == b"x"


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ([("../out.py", b"")], "outside of itself"),
        ([("a/../../out.py", b"")], "outside of itself"),
        ([("/etc/x", b"")], "outside of itself"),
        ([("..\\out.py", b"")], "outside of itself"),
        ([("C:x", b"")], "outside of itself"),
        ([(link("ring.py"), b"/etc/passwd")], "not a regular file"),
        ([(f"{index}", b"") for index in range(4)], "more than 3 files"),
        ([(f"{index}", b"") for index in range(9)], "more than 3 files"),
        ([("a", b"x" * 3_001)], "more than 3 files or"),
        ([("1/2/3/x", b""), ("y", b"")], "nests deeper"),
    ],
)
def test_an_archive_with_tricks_is_rejected(
    tmp_path: Path, pack: Pack, members: list[tuple[str | zipfile.ZipInfo, bytes]], match: str
) -> None:
    with pytest.raises(Rejected, match=match):
        extract_zip(pack(*members), tmp_path / "out", SMALL)
    assert not (tmp_path / "out.py").exists()


def test_a_bomb_is_rejected_by_its_ratio_and_a_liar_by_what_comes_out(
    tmp_path: Path, pack: Pack
) -> None:
    with pytest.raises(Rejected, match="packed more than 200 times"):
        extract_zip(pack(("zeros", bytes(8 << 20))), tmp_path / "one")
    archive = pack(("zeros", bytes(5_000)))
    raw = archive.read_bytes()
    size = (5_000).to_bytes(4, "little")
    assert raw.count(size) == 2
    archive.write_bytes(raw.replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(Rejected, match=r"is damaged|unpacks to more"):
        extract_zip(archive, tmp_path / "two", SMALL)


def test_an_archive_that_gives_a_file_another_name_in_another_place_is_rejected(
    tmp_path: Path, pack: Pack
) -> None:
    archive = pack(("ring.py", b"x"))
    raw = archive.read_bytes()
    at = raw.index(b"PK\x03\x04")
    flags = (0x800).to_bytes(2, "little")  # the name is UTF-8, which it isn't
    raw = raw[: at + 6] + flags + raw[at + 8 :]
    archive.write_bytes(raw.replace(b"ring.py", b"ring\xd9py", 1))
    with pytest.raises(Rejected, match="is damaged"):
        extract_zip(archive, tmp_path / "out")


def test_a_full_disk_is_no_fault_of_the_archive(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    archive = pack(("ring.py", b"x"))
    caps = zip_archive.Caps(10_000, 3, 3, 10_000, 200)
    with monkeypatch.context() as patched:
        patched.setattr(zip_archive, "_write_members", full)
        with pytest.raises(OSError, match="No space left"):
            zip_archive.extract(archive, tmp_path / "out", caps)
    said = json.dumps({"errno": errno.ENOSPC, "path": "/x"}).encode()
    ended = subprocess.CompletedProcess([], 0, zip_archive.READY + said, b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(OSError, match="No space left on device: '/x'"):
        extract_zip(archive, tmp_path / "out")


def test_a_process_that_does_not_start_is_no_fault_of_the_archive(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="that unpacks archives doesn't start"):
        extract_zip(pack(("ring.py", b"x")), tmp_path / "out")


def test_an_archive_that_wants_4_gib_of_memory_is_rejected_in_words(
    tmp_path: Path, pack: Pack
) -> None:
    archive = pack(("ring.py", b"x = 1\n" * 100), method=zipfile.ZIP_LZMA)
    assert extract_zip(archive, tmp_path / "right") == ["ring.py"]
    raw = archive.read_bytes()
    at = raw.index(b"ring.py") + len("ring.py")
    assert raw[at : at + 4] == b"\x09\x04\x05\x00"  # LZMA's properties: 5 bytes, of which 4 say
    archive.write_bytes(raw[: at + 5] + b"\xff" * 4 + raw[at + 9 :])  # how large its window is
    with pytest.raises(Rejected, match="needs more than 256 MiB of memory to be unpacked"):
        extract_zip(archive, tmp_path / "out")


@pytest.mark.parametrize(
    ("ended", "said"),
    [(-signal.SIGXCPU, "more than 30 s of CPU time"), (-signal.SIGSEGV, "with signal SIGSEGV"),
     (-signal.SIGKILL, "with signal SIGKILL"), (1, "with status 1")],
)  # fmt: skip
def test_what_dies_of_an_archive_rejects_it_in_words(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch, ended: int, said: str
) -> None:
    died = subprocess.CompletedProcess([], ended, zip_archive.READY, b"")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: died)
    with pytest.raises(Rejected, match=f"hand-in.zip .*{said}"):
        extract_zip(pack(("ring.py", b"x")), tmp_path / "out")


def test_the_process_that_unpacks_is_bound_before_it_reads_the_archive(tmp_path: Path) -> None:
    code = (
        "import json, resource, sys; sys.path.insert(0, sys.argv[1]); import zip_archive as z;"
        "z._bound(z.Caps(1, 1, 1, 5, 1));"
        "print(json.dumps([resource.getrlimit(k)[0] for k in (resource.RLIMIT_CPU,"
        " resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_AS)]))\n"
        "try: bytearray(z.MEMORY_BYTES)\nexcept MemoryError: print('refused')"
    )
    folder = Path(zip_archive.__file__).parent
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(folder)], capture_output=True, check=True
    )
    limits, refused = ended.stdout.splitlines()
    cpu_s, file_bytes, core, memory = json.loads(limits)
    assert (cpu_s, file_bytes, core) == (30, 5 + (1 << 20), 0)
    assert refused == b"refused" and memory < 512 << 20


def test_a_damaged_archive_and_one_that_names_a_million_files_are_rejected_unread(
    tmp_path: Path, pack: Pack
) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK no archive")
    with pytest.raises(Rejected, match="is not a zip archive"):
        extract_zip(path, tmp_path / "out")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for index in range(2_000):
            archive.writestr(f"{index}", b"")
    path.write_bytes(stream.getvalue())
    with pytest.raises(Rejected, match="more than 200 files"):
        extract_zip(path, tmp_path / "out")
    end, many = stream.getvalue()[-22:], (0, 45, 45, 0, 0, 2_000, 2_000, 98_000, 0)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, *many[1:])
    place = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(stream.getvalue()) - 22, 1)
    few = end[:8] + struct.pack("<2HI", 1, 1, 49) + end[16:]  # the older record says one file
    path.write_bytes(stream.getvalue()[:-22] + record + place + few)
    with pytest.raises(Rejected, match="more than 200 files"):
        read_directory_size(path)
    good = pack(("ring.py", os.urandom(500)))
    good.write_bytes(good.read_bytes()[:50] + bytes(60) + good.read_bytes()[110:])
    with pytest.raises(Rejected, match=r"can't be unpacked|damaged"):
        extract_zip(good, tmp_path / "out")
