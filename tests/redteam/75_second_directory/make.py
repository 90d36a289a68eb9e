"""A zip archive that says twice what it holds: one file, and a million."""

import struct

MANY = 1_000_000


def make(target, release, outside):
    names = (struct.pack("<4s12s3L5H2L7s", b"PK\1\2", bytes(12), 0, 0, 0, 7, 0, 0, 0, 0, 0, 0,
                         b"%07d" % number) for number in range(MANY))  # fmt: skip
    listed = b"".join(names)
    counts = (44, 45, 45, 0, 0, MANY, MANY, len(listed), 0)
    second = struct.pack("<4sQ2H2L4Q", b"PK\6\6", *counts)
    place = struct.pack("<4sLQL", b"PK\6\7", 0, len(listed), 1)
    first = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 53, 0, 0)
    path = target.parent / "mallory.zip"
    path.write_bytes(listed + second + place + first)
    return path
