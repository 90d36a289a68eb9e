"""Where ranks are that compute and don't come back: asked by a signal, answered by a stack.

Every rank has ``faulthandler`` answer SIGUSR1 with its Python stack on its output pipe, whatever it
is doing. What comes is text of a student's process: it is shown, and nothing depends on it.
"""

from __future__ import annotations

import os
import re
import selectors
import time
from collections.abc import Callable, Sequence

from ringside.peers import Peer

_FRAME = r'^  File "{folder}([^"\n]{{1,300}})", line (\d{{1,7}}) in (\S{{1,100}})$'
_STACK = re.compile(r'Stack \(most recent call first\):\n(?:  (?:File "|\.\.\.)[^\n]*\n?)*')
_PATIENCE_S = 0.5
_MOST_BYTES = 1 << 16


def places(peers: Sequence[Peer], folder: str, signal: Callable[[], None]) -> dict[int, str]:
    """Return for every rank that answers the line it is at, as ``ring.py:12 (in all_reduce)``.

    Args:
        folder: where the modules lie, as the ranks see it.
        signal: sends all these ranks SIGUSR1.
    """
    pattern = re.compile(_FRAME.format(folder=re.escape(folder.rstrip("/") + "/")), re.MULTILINE)
    texts = {peer.rank: b"" for peer in peers}
    found: dict[int, str] = {}
    until = time.monotonic() + _PATIENCE_S
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer.output, selectors.EVENT_READ, peer.rank)
        signal()
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                rank: int = key.data
                data = os.read(key.fd, 1 << 12)
                texts[rank] += data
                match = pattern.search(texts[rank].decode("utf-8", "replace"))
                if match:
                    found[rank] = f"{match[1]}:{match[2]} (in {match[3]})"
                if match or not data or len(texts[rank]) > _MOST_BYTES:
                    selector.unregister(key.fd)
    for peer in peers:  # what the rank had printed before; the rest of the stack is still to come
        peer.text += texts[peer.rank]
    return found


def without_stacks(text: str) -> str:
    """What a rank printed, without the stacks with which it answered.

    >>> without_stacks('a\\nStack (most recent call first):\\n  File "x", line 1 in y\\nb')
    'a\\nb'
    """
    return _STACK.sub("", text)
