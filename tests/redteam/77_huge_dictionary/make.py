"""A small LZMA archive that says that its window is 4 GiB."""

import zipfile


def make(target, release, outside):
    path = target.parent / "mallory.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("ring.py", "def all_reduce(comm, x):\n    return x\n")
    raw = path.read_bytes()
    at = raw.index(b"ring.py") + len("ring.py")  # version, length of what follows, lc/lp/pb, size
    path.write_bytes(raw[: at + 5] + b"\xff" * 4 + raw[at + 9 :])
    return path
