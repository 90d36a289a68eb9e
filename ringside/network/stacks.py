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

from ringside.network.peers import Peer

_FRAME = r'^  File "{folder}([^"\n]{{1,300}})", line (\d{{1,7}}) in (\S{{1,100}})$'
# The last lines of a stack: what a zygote or a spawned rank was started as; a deep one is cut.
_END = re.compile(r'^  (File "<string>", line 1 in <module>|\.\.\.)$', re.MULTILINE)
_STACK = re.compile(r'Stack \(most recent call first\):\n(?:  (?:File "|\.\.\.)[^\n]*\n?)*')
_PATIENCE_S = 0.5
_MOST_BYTES = 1 << 20  # a rank that prints on and on has filled its pipe before it answers
_KEPT_BYTES = 1 << 13  # of what came before: a frame's line is shorter


def current_lines(peers: Sequence[Peer], folder: str, signal: Callable[[], None]) -> dict[int, str]:
    """Return for every rank that answers the line it is at, as ``ring.py:12 (in all_reduce)``.

    Args:
        folder: where the modules lie, as the ranks see it.
        signal: sends these ranks SIGUSR1.
    """
    pattern = re.compile(_FRAME.format(folder=re.escape(folder.rstrip("/") + "/")), re.MULTILINE)
    texts = {peer.rank: b"" for peer in peers}
    sizes = dict.fromkeys(texts, 0)
    lines: dict[int, str] = {}
    until = time.monotonic() + _PATIENCE_S
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer.output, selectors.EVENT_READ, peer.rank)
        signal()
        while selector.get_map() and (remaining_s := until - time.monotonic()) > 0:
            for key, _ in selector.select(remaining_s):
                rank: int = key.data
                data = os.read(key.fd, 1 << 16)
                # The end of what came before is kept: a frame's line may come in two pieces.
                texts[rank] = texts[rank][-_KEPT_BYTES:] + data
                sizes[rank] += len(data)
                text = texts[rank].decode("utf-8", "replace")
                match = pattern.search(text)
                if match:
                    lines.setdefault(rank, f"{match[1]}:{match[2]} (in {match[3]})")
                # What is left of the stack would be taken for something that the rank has printed.
                whole = rank in lines and _END.search(text, match.end() if match else 0)
                if whole or not data or sizes[rank] > _MOST_BYTES:
                    selector.unregister(key.fd)
    for peer in peers:  # what the rank had printed before; the rest of the stack is still to come
        peer.text += texts[peer.rank]
    return lines


def without_stacks(text: str) -> str:
    """What a rank printed, without the stacks with which it answered.

    >>> without_stacks('a\\nStack (most recent call first):\\n  File "x", line 1 in y\\nb')
    'a\\nb'
    """
    return _STACK.sub("", text)
