"""What an attacker would like to touch, laid out where everybody may touch it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Outside:
    """A gradebook, a secret in a file and in the environment, and a port that listens."""

    folder: Path
    course: Path
    server: socket.socket
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @classmethod
    @contextlib.contextmanager
    def laid_out(cls, course: Path) -> Iterator[Outside]:
        """Make it, with the token in the environment, and take it away again."""
        folder = Path(tempfile.mkdtemp(prefix="ringside-outside-"))
        with socket.create_server(("", 0)) as server:
            server.setblocking(False)
            outside = cls(folder, course, server)
            os.environ["RINGSIDE_SECRET_CANARY"] = outside.token
            try:
                outside._fill()
                yield outside
            finally:
                del os.environ["RINGSIDE_SECRET_CANARY"]
                shutil.rmtree(folder, ignore_errors=True)

    def _fill(self) -> None:
        (self.folder / "secret.txt").write_text(self.token)
        with contextlib.closing(sqlite3.connect(self.folder / "gradebook.db")) as base:
            base.execute("create table grade (student, auto_score, manual_score)")
            base.execute("insert into grade values ('me', 0, 0)")
            base.commit()
        for path in self.folder.iterdir():
            path.chmod(0o666)
        self.folder.chmod(0o777)
        self._before = self._content()

    def filled_in(self, text: str) -> str:
        """A submission's text with what the attacker knows."""
        values = {
            "@OUTSIDE@": str(self.folder),
            "@COURSE@": str(self.course),
            "@HOST@": socket.gethostname(),
            "@PORT@": str(self.server.getsockname()[1]),
        }
        for name, value in values.items():
            text = text.replace(name, value)
        return text

    def disturbances(self) -> list[str]:
        """What has changed since it was laid out."""
        now = self._content()
        faults = [f"{name} has appeared outside" for name in sorted(now.keys() - self._before)]
        faults += [
            f"{name} outside was changed" for name in self._before if self.changed(name, now)
        ]
        with contextlib.suppress(BlockingIOError):
            connection, peer = self.server.accept()
            connection.close()
            faults.append(f"{peer[0]} called at the port outside")
        return faults

    def changed(self, name: str, now: dict[str, bytes]) -> bool:
        return now.get(name) != self._before[name]

    def _content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir() if path.is_file()}
