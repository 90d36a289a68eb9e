"""A zip archive with paths that leave the folder and a member that swells a thousandfold."""

import zipfile


def make(target, release, outside):
    target.mkdir()
    archive = target / "a03_allreduce.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("../" * 12 + str(outside)[1:] + "/slipped.txt", "owned")
        file.writestr(f"{outside}/slipped_too.txt", "owned")
        file.writestr("ring.py", b"0" * (300 << 20))
    return archive
