"""A script on a rank: run as Python runs it, to the end of its threads and its ``atexit``."""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import threading
from typing import Any


def run(call: dict[str, Any], folder: str) -> dict[str, Any]:
    """Run the file, or the module, that a call names; returns its names, unless it has exited.

    Raises:
        SystemExit: it ended with another status than 0.
    """
    path = os.path.join(folder, call["file"])
    sys.argv = [path, *call["args"]]
    atexit._clear()  # what the process that forked us has asked for is not for a rank
    try:
        if call["module"]:
            names = runpy.run_module(call["module"], run_name="__main__", alter_sys=True)
        else:
            names = runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        _end()
        if end.code in (None, 0):
            return {}
        if isinstance(end.code, int):
            end.args = (f"the program ended with exit status {end.code}",)
        raise
    _end()
    return names


def _end() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
